// SPDX-License-Identifier: MIT
/*
 * A process that reads all that the driver shows of itself, while it changes: sysfs, debugfs, fdinfo, coredumps; and turns
 * the switches that root has.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

static const char *const shown[] = {
	"/sys/class/accel/accel*/*",   "/sys/class/accel/accel*/device/*",
	"/sys/kernel/debug/accel/*/*", "/sys/class/devcoredump/devcd*/data",
	"/proc/[1-9]*/fdinfo/*",       "/proc/[1-9]*/maps",
};

/* What is written and where, if it is there. */
static const struct {
	const char *pattern;
	const char *values[2];
	uint32_t seldom;
} switches[] = {
	{ "/sys/module/vnpu/parameters/prime_export", { "Y", "N" }, 1 },
	{ "/sys/module/vnpu/parameters/timeout_ms", { "300", "1000" }, 4 },
	{ "/sys/module/vnpu/parameters/max_timeout_ms", { "600", "2000" }, 4 },
	{ "/sys/kernel/debug/accel/*/force_reset", { "1", "1" }, 8 },
	{ "/sys/class/devcoredump/devcd*/data", { "1", "1" }, 1 },
	{ "/sys/kernel/tracing/events/vnpu/enable", { "1", "0" }, 1 },
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
		for (int i = 0; i < 64 && fz_count(FZ_READ, read(fd, buf, 1 + fz_below(sizeof(buf)))) > 0; i++)
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
		if (write(fd, value, strlen(value)) < 0)
			fz_sleep_ms(1);
		close(fd);
	}
	globfree(&found);
}

/* ---- how the switches stood ---- */

static char stood[sizeof(switches) / sizeof(*switches)][32];

void fz_switches_save(void)
{
	for (size_t i = 0; i < sizeof(switches) / sizeof(*switches); i++) {
		/* What has wildcards comes and goes with devices. */
		int fd = strchr(switches[i].pattern, '*') ? -1 : open(switches[i].pattern, O_RDONLY | O_CLOEXEC);

		if (fd < 0 || read(fd, stood[i], sizeof(stood[i]) - 1) < 0)
			stood[i][0] = 0;
		if (fd >= 0)
			close(fd);
	}
}

int fz_switches_restore(void)
{
	int failed = 0;

	for (size_t i = 0; i < sizeof(switches) / sizeof(*switches); i++) {
		size_t n = strlen(stood[i]);
		int fd = n ? open(switches[i].pattern, O_WRONLY | O_CLOEXEC) : -1;

		if (n && (fd < 0 || write(fd, stood[i], n) != (ssize_t)n)) {
			printf("%s cannot be set back: %s\n", switches[i].pattern, strerror(errno));
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
		if (fz_one_in(6))
			turn_some();
		fz_sleep_ms(5 + fz_below(20));
	}
	_exit(0);
}
