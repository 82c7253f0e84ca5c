// SPDX-License-Identifier: MIT
/*
 * A process that reads everything that the driver shows while it changes (sysfs, debugfs, fdinfo,
 * coredumps), and changes the switches that root can. Module parameters mostly get values that keep
 * the other processes busy, sometimes random ones; their values must stay within bounds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

static const char *const shown[] = {
	"/sys/class/accel/accel*/*",   "/sys/class/accel/accel*/device/*",
	"/sys/kernel/debug/accel/*/*", "/sys/class/devcoredump/devcd*/data",
	"/proc/[1-9]*/fdinfo/*",       "/proc/[1-9]*/maps",
};

#define PARAMETERS "/sys/module/vnpu/parameters/"

/* A parameter with its bounds and its useful values here; a boolean has no bounds. */
static const struct {
	const char *name;
	unsigned long min, max;
	const char *values[3];
} parameters[] = {
	{ "prime_export", 0, 0, { "Y", "Y", "N" } },
	{ "fence_export", 0, 0, { "Y", "Y", "N" } },
	{ "timeout_ms", 1, 3600000, { "300", "1000", "3000" } },
	{ "max_timeout_ms", 1, 3600000, { "600", "2000", "5000" } },
	{ "reset_ms", 1, 3600000, { "300", "1000", "2000" } },
	{ "max_resets", 0, 16, { "0", "3", "16" } },
	{ "reset_window_s", 1, 86400, { "1", "10", "600" } },
};

#define NR_PARAMETERS (sizeof(parameters) / sizeof(*parameters))

/* Text to write, and the file for it if it exists. */
static const struct {
	const char *pattern;
	const char *values[2];
	uint32_t seldom;
	enum fz_call call;
} switches[] = {
	{ "/sys/kernel/debug/accel/*/force_reset", { "1", "1" }, 4, FZ_FORCE_RESET },
	{ "/sys/class/devcoredump/devcd*/data", { "1", "1" }, 1, FZ_READ },
	{ "/sys/kernel/tracing/events/vnpu/enable", { "1", "0" }, 1, FZ_READ },
};

static const char *any_match(const char *pattern, glob_t *found)
{
	if (glob(pattern, GLOB_NOSORT, NULL, found) || !found->gl_pathc)
		return NULL;
	return found->gl_pathv[fz_below(found->gl_pathc)];
}

static void read_some(void)
{
	const char *pattern = shown[fz_below(sizeof(shown) / sizeof(*shown))], *path;
	char buf[4096];
	glob_t found;
	int fd;

	path = any_match(pattern, &found);
	fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	if (fd >= 0) {
		for (int i = 0;
		     i < 64 && fz_count(FZ_READ, read(fd, buf, 1 + fz_below(sizeof(buf)))) > 0; i++)
			;
		close(fd);
	}
	globfree(&found);
}

static void turn_some(void)
{
	uint32_t i = fz_below(sizeof(switches) / sizeof(*switches));
	const char *path, *value = switches[i].values[fz_below(2)];
	glob_t found;
	int fd;

	if (!fz_one_in(switches[i].seldom))
		return;
	path = any_match(switches[i].pattern, &found);
	fd = path ? open(path, O_WRONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		fz_count(switches[i].call, write(fd, value, strlen(value)));
		close(fd);
	}
	globfree(&found);
}

/* ---- the module's parameters ---- */

static int open_parameter(size_t i, int flags)
{
	char path[128];

	snprintf(path, sizeof(path), PARAMETERS "%s", parameters[i].name);
	return open(path, flags | O_CLOEXEC);
}

/* Reads a parameter without its newline; false if it does not exist. */
static bool read_parameter(size_t i, char *text, size_t size)
{
	int fd = open_parameter(i, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n - (text[n - 1] == '\n') : 0] = 0;
	return n > 0;
}

static void check_parameter(size_t i)
{
	char text[32];
	unsigned long value;

	if (!parameters[i].max || !read_parameter(i, text, sizeof(text)))
		return;
	value = strtoul(text, NULL, 10);
	if (value < parameters[i].min || value > parameters[i].max)
		fz_wrong("the parameter %s is %s", parameters[i].name, text);
}

static void any_text(char *text, size_t size)
{
	switch (fz_below(4)) {
	case 0:
		snprintf(text, size, "%lld", (long long)fz_number(0));
		break;
	case 1:
		snprintf(text, size, "0x%llx\n", (unsigned long long)fz_number(0));
		break;
	case 2:
		snprintf(text, size, "%u", fz_below(100000));
		break;
	default:
		for (size_t i = 0; i < size - 1; i++)
			text[i] = fz_rand();
		text[fz_below(size - 1)] = 0;
	}
}

static void turn_parameter(void)
{
	size_t i = fz_below(NR_PARAMETERS);
	int fd = open_parameter(i, O_WRONLY);
	char text[64];

	if (fd < 0)
		return;
	if (fz_one_in(4))
		any_text(text, sizeof(text));
	else
		snprintf(text, sizeof(text), "%s", parameters[i].values[fz_below(3)]);
	fz_count(FZ_PARAMETER, write(fd, text, strlen(text)));
	close(fd);
	check_parameter(i);
}

/* ---- the parameters' values before the run ---- */

static char stood[NR_PARAMETERS][32];

void fz_switches_save(void)
{
	for (size_t i = 0; i < NR_PARAMETERS; i++)
		if (!read_parameter(i, stood[i], sizeof(stood[i])))
			stood[i][0] = 0;
}

int fz_switches_restore(void)
{
	int failed = 0;

	for (size_t i = 0; i < NR_PARAMETERS; i++) {
		size_t n = strlen(stood[i]);
		int fd = n ? open_parameter(i, O_WRONLY) : -1;

		if (n && (fd < 0 || write(fd, stood[i], n) != (ssize_t)n)) {
			printf("%s cannot be set back: %s\n", parameters[i].name, strerror(errno));
			failed = 1;
		}
		if (fd >= 0)
			close(fd);
	}
	return failed;
}

_Noreturn void fz_reader(void)
{
	fz_seed_thread();
	fz_catch_faults();
	while (!fz_stopped()) {
		read_some();
		if (fz_one_in(4))
			turn_some();
		if (fz_one_in(3))
			turn_parameter();
		fz_sleep_ms(5 + fz_below(20));
	}
	_exit(0);
}
