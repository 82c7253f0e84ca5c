/* SPDX-License-Identifier: MIT */
/* Common parts of the tests of what vnpu.ko shows: whole files, fdinfo and debugfs. */
#ifndef OBSERVE_H
#define OBSERVE_H

#include "vnpu_raw.h"

/* ---- reading ---- */

/* Reads the whole file into @text. Its length, or -errno. */
static inline int read_at(int dir, const char *path, char *text, size_t size)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n, total = 0;
	int error = 0;

	if (fd < 0)
		return -errno;
	while (total < (ssize_t)size - 1 && (n = read(fd, text + total, size - 1 - total))) {
		if (n < 0) {
			error = -errno;
			break;
		}
		total += n;
	}
	text[total] = 0;
	close(fd);
	return error ? error : (int)total;
}

static inline void write_file(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, value, strlen(value)), strlen(value));
	close(fd);
}

/* The value of "key:\tvalue" in the fdinfo of @fd, or NULL. */
static inline const char *fdinfo(int fd, const char *key)
{
	static char text[8192];
	char path[64], *line;
	size_t len = strlen(key);

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	assert_true(read_at(AT_FDCWD, path, text, sizeof(text)) > 0);
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (!strncmp(line, key, len) && line[len] == ':')
			return line + len + 1 + strspn(line + len + 1, " \t");
	return NULL;
}

/*
 * As in drm-usage-stats.rst: a number, perhaps with a unit. 0 if the key is missing, because the
 * core omits some.
 */
static inline uint64_t fdinfo_number(int fd, const char *key)
{
	const char *value = fdinfo(fd, key);
	uint64_t n;
	char *end;

	if (!value)
		return 0;
	n = strtoull(value, &end, 10);
	assert_ptr_not_equal(end, value);
	if (!strcmp(end, " KiB"))
		return n << 10;
	if (!strcmp(end, " MiB"))
		return n << 20;
	assert_true(!*end || !strcmp(end, " ns"));
	return n;
}

/* The device's directory in debugfs, or -1. */
static inline int debugfs_dir(int minor)
{
	char link[64], device[256], path[320];
	ssize_t len;

	snprintf(link, sizeof(link), "/sys/class/accel/accel%d/device", minor);
	len = readlink(link, device, sizeof(device) - 1);
	assert_true(len > 0);
	device[len] = 0;
	snprintf(path, sizeof(path), "/sys/kernel/debug/accel/%s", strrchr(device, '/') + 1);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* ---- the firmware ---- */

static inline void answer(struct raw_fw *fw, const struct vnpu_fw_sqe *sqe, struct vnpu_fw_cqe cqe)
{
	struct drm_vnpu_queue_status *page = raw_fw_status(fw, sqe->queue);

	cqe.type = VNPU_FW_CQE_DONE;
	cqe.tag = sqe->tag;
	raw_fw_raise(page, sqe->seqno);
	raw_fw_post(fw, cqe);
	assert_int_equal(raw_fw_enter(fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
}

#endif /* OBSERVE_H */
