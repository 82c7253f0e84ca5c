// SPDX-License-Identifier: MIT
/* NPU_LOG=ioctl: wraps a transport and writes a line per device call. Unused without NPU_LOG. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log_decode.h"
#include "npu_fail.h"
#include "npu_fd.h"
#include "npu_fsize.h"
#include "transport.h"

struct log_transport {
	struct transport base;
	struct transport *inner;
	int fd; /* stderr's, or of the file */
	char *path; /* NULL: stderr */
	atomic_bool ended; /* the file cannot be written */
};

static struct log_transport *to_log(struct transport *t)
{
	return (struct log_transport *)((char *)t - offsetof(struct log_transport, base));
}

static double log_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void log_line(struct log_transport *log, struct log_text *text, int ret, double start_us)
{
	log_add(text, " = %d", ret);
	if (ret < 0)
		log_add(text, " (%s)", strerror(-ret));
	log_add(text, " %.1f us\n", log_now_us() - start_us);
	if (atomic_load_explicit(&log->ended, memory_order_relaxed))
		return;
	ret = npu_fsize_write(log->fd, text->buf, text->len);
	if (ret && log->path && !atomic_exchange(&log->ended, true))
		fprintf(stderr, "libnpu: NPU_LOG_FILE=%s: %s; the log ends here\n", log->path,
			strerror(-ret));
}

static int log_transport_ioctl(struct transport *t, unsigned long request, void *arg)
{
	struct log_transport *log = to_log(t);
	struct log_text text = { .len = 0 };
	double start_us = log_now_us();
	int ret = log->inner->ops->ioctl(log->inner, request, arg);

	/* Decoded after the call, when the structure has its results. */
	log_decode_ioctl(&text, request, arg, ret);
	log_line(log, &text, ret, start_us);
	return ret;
}

static int log_transport_map(struct transport *t, uint64_t offset, size_t size, int prot,
			     void **addr)
{
	struct log_transport *log = to_log(t);
	struct log_text text = { .len = 0 };
	double start_us = log_now_us();
	int ret = log->inner->ops->map(log->inner, offset, size, prot, addr);

	log_add(&text, "npu: mmap {offset=0x%llx size=%zu prot=%s addr=%p}",
		(unsigned long long)offset, size, prot & 2 ? "rw" : "r", ret ? NULL : *addr);
	log_line(log, &text, ret, start_us);
	return ret;
}

static int log_transport_unmap(struct transport *t, void *addr, size_t size)
{
	struct log_transport *log = to_log(t);
	struct log_text text = { .len = 0 };
	double start_us = log_now_us();
	int ret = log->inner->ops->unmap(log->inner, addr, size);

	log_add(&text, "npu: munmap {addr=%p size=%zu}", addr, size);
	log_line(log, &text, ret, start_us);
	return ret;
}

static int log_transport_import(struct transport *t, int fd, uint64_t offset,
				struct drm_vnpu_bo_create *create)
{
	struct log_transport *log = to_log(t);
	struct log_text text = { .len = 0 };
	double start_us = log_now_us();
	int ret = log->inner->ops->import(log->inner, fd, offset, create);

	log_add_import(&text, fd, offset, create, ret);
	log_line(log, &text, ret, start_us);
	return ret;
}

static void log_transport_close(struct transport *t)
{
	struct log_transport *log = to_log(t);

	log->inner->ops->close(log->inner);
	if (log->path)
		close(log->fd);
	free(log->path);
	free(log);
}

static const struct transport_ops log_transport_ops = {
	.ioctl = log_transport_ioctl,
	.map = log_transport_map,
	.unmap = log_transport_unmap,
	.import = log_transport_import,
	.close = log_transport_close,
};

static int log_open(struct log_transport *log, const char *path)
{
	int err;

	log->path = strdup(path);
	if (!log->path)
		return npu_fail(-ENOMEM, "log: out of memory");
	log->fd = npu_fd_keep(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
	if (log->fd >= 0)
		return 0;
	err = errno;
	free(log->path);
	return npu_fail(-err, "NPU_LOG_FILE=%s: %s", path, strerror(err));
}

int transport_log_wrap(struct transport *t, struct transport **out)
{
	const char *what = getenv("NPU_LOG"), *file = getenv("NPU_LOG_FILE");
	struct log_transport *log;
	int ret;

	*out = t;
	if (!what || !*what || !strcmp(what, "none"))
		return 0;
	if (strcmp(what, "ioctl"))
		return npu_fail(-EINVAL, "NPU_LOG='%s': use ioctl or none", what);
	log = calloc(1, sizeof(*log));
	if (!log)
		return npu_fail(-ENOMEM, "log: out of memory");
	log->base.ops = &log_transport_ops;
	log->inner = t;
	log->fd = STDERR_FILENO;
	ret = file && *file ? log_open(log, file) : 0;
	if (ret) {
		free(log);
		return ret;
	}
	*out = &log->base;
	return 0;
}
