/* SPDX-License-Identifier: MIT */
/*
 * Shared by the command-line tools: one-line errors, numbers, files, and an output that notices a
 * full disk.
 *
 * Exit status of every tool: 0 success, 1 failure, 2 bad usage.
 */
#ifndef TOOL_H
#define TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct option; /* getopt.h */

/* The name that errors begin with. */
extern const char *tool_name;

/*
 * Sets the tool's name; main() calls it first. A standard stream that is closed stays so for those
 * who use it, but no file that the tool opens gets its number: what the tool prints would go there.
 */
void tool_begin(const char *name);

/* Print the line "NAME: MESSAGE" on stderr and return the exit status, 1 and 2. */
int tool_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int tool_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Returns @status, or 1 after a message if output to stdout was lost. main() calls it last. */
int tool_finish(int status);

/* Parse a whole string as a decimal number. 0, or 2 after a message with @what and the limits. */
int tool_parse_u64(const char *what, const char *s, uint64_t min, uint64_t max, uint64_t *value);
int tool_parse_uint(const char *what, const char *s, unsigned int min, unsigned int max,
		    unsigned int *value);
int tool_parse_float(const char *what, const char *s, float min, float max, float *value);
int tool_parse_double(const char *what, const char *s, double min, double max, double *value);

/* The same for a seed; -1 draws one, which a line on stderr tells. */
int tool_parse_seed(const char *what, const char *s, uint64_t *seed);

/* Reads a whole file, "-" for stdin; adds a NUL after its *@bytes. NULL after a message, also above
 * 1 GiB from what is no regular file. */
char *tool_read_file(const char *path, size_t *bytes);

/* The process's peak memory in bytes, or since it was reset (proc_pid_clear_refs(5)); 0: /proc does
 * not say. */
uint64_t tool_peak_memory(void);

/* CLOCK_MONOTONIC. */
uint64_t tool_now_ns(void);

/* The model that comes with vnpu, in the source tree or the installation. NULL: not found. */
const char *tool_default_model(void);

/* Reports what getopt_long() refused; @c is '?' or ':', and the option string begins with ':'.
 * Returns 2. */
int tool_bad_option(int c, char **argv, const struct option *longs);

/* The revision of the source tree */
extern const char tool_build_commit[];

#endif /* TOOL_H */
