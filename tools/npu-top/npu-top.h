/* SPDX-License-Identifier: MIT */
/*
 * npu-top: shows what accel devices and their clients do, from /sys and /proc alone, for any driver
 * that follows the kernel's drm-usage-stats.rst.
 *
 *	read (read.c, fdinfo.c) -> compare with the previous sample (sample.c) -> lines of text
 *	(text.c), a screen (screen.c) or JSON (json.c)
 */
#ifndef NPU_TOP_H
#define NPU_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* The driver does not report the number. */
#define TOP_UNKNOWN UINT64_MAX

#define TOP_ENGINES 8
#define TOP_HISTORY 256 /* samples in a device's sparkline */
#define TOP_COMM 64

struct top_engine {
	char name[32];
	uint64_t busy_ns; /* TOP_UNKNOWN: only the capacity is reported */
	uint64_t capacity;
	double busy; /* fraction of the interval; negative: unknown */
};

/* The contents of a /proc/PID/fdinfo/FD. */
struct top_fdinfo {
	char driver[32];
	char pdev[32]; /* "" if the client's id is unique without it */
	uint64_t client_id;
	struct top_engine engines[TOP_ENGINES];
	unsigned int nr_engines;
	uint64_t total_bytes, resident_bytes; /* of all regions, or TOP_UNKNOWN */
};

/* False if @text is not of a DRM file, or names no client. Invalid lines are ignored. */
bool top_fdinfo_parse(const char *text, struct top_fdinfo *info);

struct top_client {
	struct top_fdinfo info;
	char node[32]; /* "accel0" */
	pid_t pid, last_pid; /* the first and the last process that have it open */
	unsigned int nr_processes;
	uid_t uid;
	char user[33];
	char comm[TOP_COMM]; /* UTF-8 without control characters */
	uint64_t time_ns; /* when it was read */
	double busy; /* of its busiest engine; negative: unknown */
};

struct top_device {
	char node[32];
	dev_t rdev;
	char driver[32]; /* "" if sysfs names none */
	char name[64]; /* on its bus; may be "" */
	uint64_t busy_us, memory_bytes;
	uint64_t time_ns;
	double busy; /* fraction of the interval; negative: unknown */
	bool from_clients; /* busy and memory are sums over the visible clients */
	unsigned int nr_clients;
	uint64_t gone; /* samples since it disappeared; 0: it exists */
	float history[TOP_HISTORY]; /* the newest at nr_history - 1; negative: unknown */
	unsigned int nr_history;
};

struct top {
	const char *root; /* prefix of /sys and /proc, usually "" */
	struct top_device *devices;
	size_t nr_devices;
	struct top_client *clients;
	size_t nr_clients;
	unsigned int hidden; /* processes whose files this user may not see */
	uint64_t time_ns, interval_ns; /* interval 0: the first sample */
};

/* Reads the current state into an empty struct. 0, or 1 after a message. */
int top_read(struct top *top);
/* Reads the next sample and compares it with @top's. 0, or 1 after a message. */
int top_sample(struct top *top);
/* Completes @now, as read, by comparing it with @old: fractions, histories, monotonic counters.
 * Devices that have disappeared are kept. 0, or 1 after a message. */
int top_compare(const struct top *old, struct top *now);
void top_free(struct top *top);

enum top_sort { TOP_SORT_NPU, TOP_SORT_MEMORY, TOP_SORT_TIME, TOP_SORT_PID, TOP_SORTS };
extern const char *const top_sort_names[TOP_SORTS];
void top_sort(struct top *top, enum top_sort by);

/* The sum over its engines; TOP_UNKNOWN if it has none. */
uint64_t top_client_ns(const struct top_client *client);

/* ---- text ---- */

/* Lines have at most @columns columns of the terminal; 0: no limit. */
#define TOP_LINE 1024

/* Bytes as "12.3M", nanoseconds as "1:02.34", "-" for TOP_UNKNOWN. */
void top_format_bytes(char *buf, size_t size, uint64_t bytes);
void top_format_time(char *buf, size_t size, uint64_t ns);
/* Replaces control characters and invalid UTF-8 by '?'. */
void top_clean(char *s);
/* Truncates @s to @columns; replaces characters that the locale cannot print by '?'. Returns its
 * columns. */
unsigned int top_clip(char *s, size_t size, unsigned int columns);

void top_line_clients_header(char *line, unsigned int columns);
void top_line_client(char *line, unsigned int columns, const struct top_client *client);
void top_line_device(char *line, unsigned int columns, const struct top_device *dev);
/* "NPU [|||||   43.2%]" */
void top_line_bar(char *line, unsigned int columns, const char *label, double fraction,
		  const char *text);
void top_line_history(char *line, unsigned int columns, const struct top_device *dev);
/* Why clients may be missing; "" if none are. */
void top_line_hidden(char *line, unsigned int columns, const struct top *top);

void top_print_text(FILE *out, const struct top *top);
/* 0, or 1 after a message. */
int top_print_json(FILE *out, const struct top *top);

/* ---- screen ---- */

/* Runs until q is pressed, or @samples were shown (0: no limit). Returns an exit status. */
int top_screen(struct top *top, enum top_sort sort, double delay_s, uint64_t samples);

#endif /* NPU_TOP_H */
