/* SPDX-License-Identifier: MIT */
/*
 * What the command-line tools share: one-line errors, numbers, files, and an output
 * that notices a full disk.
 *
 * Exit status of every tool: 0 done, 1 it failed, 2 bad usage.
 */
#ifndef TOOL_H
#define TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The name that errors begin with; main() sets it first. */
extern const char *tool_name;

/*
 * One line on stderr, "NAME: MESSAGE". The first returns 1, the second 2: what main() is to return.
 */
int tool_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int tool_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* @status, or 1 with a message if something written to stdout was lost. Called last in main(). */
int tool_finish(int status);

/* Decimal numbers, the whole string; 0, or 2 after a message that names @what and the limits. */
int tool_parse_u64(const char *what, const char *s, uint64_t min, uint64_t max, uint64_t *value);
int tool_parse_uint(const char *what, const char *s, unsigned int min, unsigned int max,
		    unsigned int *value);
int tool_parse_float(const char *what, const char *s, float min, float max, float *value);

/* A whole file, "-" for stdin, NUL-terminated behind its *@bytes. NULL after a message. */
char *tool_read_file(const char *path, size_t *bytes);

/* CLOCK_MONOTONIC. */
uint64_t tool_now_ns(void);

/*
 * The model that comes with vnpu, in the source tree or beside the installed programs.
 * NULL if it is at neither.
 */
const char *tool_default_model(void);

/*
 * What getopt_long() refused (@c is '?' or ':', and ':' leads the option string).
 * Returns 2 after a message.
 */
int tool_bad_option(int c, char **argv);

/* The revision that this was built from. */
extern const char tool_build_commit[];

#endif /* TOOL_H */
