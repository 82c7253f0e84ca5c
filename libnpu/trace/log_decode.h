/* SPDX-License-Identifier: MIT */
/* Device calls as text: one line with all fields and their names. */
#ifndef NPU_LOG_DECODE_H
#define NPU_LOG_DECODE_H

#include <stddef.h>
#include <stdint.h>

struct drm_vnpu_bo_create;

/* Room for a SUBMIT of several jobs; longer text is truncated to "...". */
struct log_text {
	char buf[4096];
	size_t len;
};

void log_add(struct log_text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* @ret: result of the call; outputs are shown only if it is 0. */
void log_decode_ioctl(struct log_text *text, unsigned long request, const void *arg, int ret);
/* The same of a transport's import. */
void log_add_import(struct log_text *text, int fd, uint64_t offset,
		    const struct drm_vnpu_bo_create *create, int ret);

#endif /* NPU_LOG_DECODE_H */
