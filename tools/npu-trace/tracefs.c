// SPDX-License-Identifier: MIT
/*
 * An instance of tracefs, with separate buffers and switches, so that other users of tracing are
 * not disturbed. Events are read while the command runs, so it may run for any time.
 */
#define _GNU_SOURCE
#include "npu-trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"

/* Per CPU: room for about 30000 events between two reads, which are 0.1 s apart. */
#define TRACEFS_BUFFER_KB "4096"

static const char *const tracefs_places[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };

static int tracefs_put(const struct tracefs *t, const char *file, const char *value)
{
	char path[256];
	int fd, err = 0;

	snprintf(path, sizeof(path), "%s/%s", t->dir, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		err = -errno;
	close(fd);
	return err;
}

static int tracefs_find(char *root, size_t size, char *why, size_t why_size)
{
	char path[256];
	bool mounted = false;

	for (size_t i = 0; i < sizeof(tracefs_places) / sizeof(tracefs_places[0]); i++) {
		snprintf(path, sizeof(path), "%s/events", tracefs_places[i]);
		if (access(path, F_OK)) {
			if (errno != EACCES)
				continue;
			snprintf(why, why_size, "%s: permission denied: run npu-trace as root",
				 tracefs_places[i]);
			return -EACCES;
		}
		mounted = true;
		snprintf(path, sizeof(path), "%s/events/vnpu", tracefs_places[i]);
		if (access(path, F_OK))
			continue;
		snprintf(root, size, "%s", tracefs_places[i]);
		return 0;
	}
	if (mounted)
		snprintf(why, why_size,
			 "the kernel has no events of vnpu: load the module (modprobe vnpu) first");
	else
		snprintf(why, why_size,
			 "no tracefs: as root, mount -t tracefs tracefs /sys/kernel/tracing (the "
			 "kernel needs CONFIG_FTRACE)");
	return -ENOENT;
}

static void tracefs_remove(struct tracefs *t)
{
	if (t->pipe >= 0)
		close(t->pipe);
	t->pipe = -1;
	if (*t->dir)
		rmdir(t->dir);
	*t->dir = 0;
}

static int tracefs_set_up(struct tracefs *t)
{
	static const char *const settings[][2] = {
		{ "buffer_size_kb", TRACEFS_BUFFER_KB },
		{ "trace_clock", "mono" },
		{ "events/vnpu/enable", "1" },
		{ "tracing_on", "1" },
	};
	char path[256];
	int err;

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		err = tracefs_put(t, settings[i][0], settings[i][1]);
		if (err)
			return err;
	}
	snprintf(path, sizeof(path), "%s/trace_pipe", t->dir);
	t->pipe = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return t->pipe < 0 ? -errno : 0;
}

int tracefs_begin(struct tracefs *t, char *why, size_t why_size)
{
	char root[64];
	int err;

	*t = (struct tracefs){ .pipe = -1 };
	err = tracefs_find(root, sizeof(root), why, why_size);
	if (err)
		return err;
	snprintf(t->dir, sizeof(t->dir), "%s/instances/npu-trace-%d", root, getpid());
	if (mkdir(t->dir, 0700)) {
		err = -errno;
		snprintf(why, why_size, "%s: %s%s", t->dir, strerror(-err),
			 err == -EACCES || err == -EPERM ? ": run npu-trace as root" : "");
		*t->dir = 0;
		return err;
	}
	err = tracefs_set_up(t);
	if (err) {
		snprintf(why, why_size, "%s: it could not be set up: %s%s", t->dir, strerror(-err),
			 err == -EACCES || err == -EPERM ? ": run npu-trace as root" : "");
		tracefs_remove(t);
	}
	return err;
}

int tracefs_read(struct tracefs *t, struct kernel_trace *k)
{
	char text[16384];
	ssize_t n;

	for (;;) {
		n = read(t->pipe, text, sizeof(text));
		if (n < 0 && errno == EINTR)
			continue;
		/* 0: the end, as recording is off. */
		if (n == 0 || (n < 0 && errno == EAGAIN))
			return 0;
		if (n < 0)
			return tool_fail("%s/trace_pipe: %s", t->dir, strerror(errno));
		if (kernel_add_text(k, text, (size_t)n))
			return 1;
	}
}

/* The number of events that the ring buffers of all CPUs have lost. */
static uint64_t tracefs_lost(const struct tracefs *t)
{
	static const char *const keys[] = { "overrun: ", "commit overrun: ", "dropped events: " };
	char path[512], line[128];
	struct dirent *cpu;
	uint64_t lost = 0;
	DIR *dir;
	FILE *f;

	snprintf(path, sizeof(path), "%s/per_cpu", t->dir);
	dir = opendir(path);
	while (dir && (cpu = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/per_cpu/%s/stats", t->dir, cpu->d_name);
		f = strncmp(cpu->d_name, "cpu", 3) ? NULL : fopen(path, "re");
		while (f && fgets(line, sizeof(line), f))
			for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
				if (!strncmp(line, keys[i], strlen(keys[i])))
					lost += strtoull(line + strlen(keys[i]), NULL, 10);
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return lost;
}

int tracefs_end(struct tracefs *t, struct kernel_trace *k)
{
	uint64_t lost;
	int ret;

	tracefs_put(t, "events/vnpu/enable", "0");
	ret = tracefs_read(t, k);
	/* Includes the lost events that trace_pipe's lines report. */
	lost = tracefs_lost(t);
	if (lost > k->lost)
		k->lost = lost;
	tracefs_remove(t);
	return ret;
}
