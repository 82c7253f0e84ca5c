// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Random names that are tried; of 2^32, hardly one is taken. */
#define TRIES 100

/* A path behind which /proc shows the file @fd. */
static void path_of(int fd, char path[32])
{
	snprintf(path, 32, "/proc/self/fd/%d", fd);
}

static int new_name(struct new_file *f)
{
	uint32_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	snprintf(f->part, sizeof(f->part), ".vnpu-%08x.part", number);
	return 0;
}

/* The last part of the file's path. */
static const char *name_of(const struct new_file *f)
{
	const char *slash = strrchr(f->path, '/');

	return slash ? slash + 1 : f->path;
}

static int open_folder(struct new_file *f)
{
	size_t bytes = (size_t)(name_of(f) - f->path);
	char folder[PATH_MAX] = ".";

	if (bytes) {
		memcpy(folder, f->path, bytes);
		folder[bytes] = 0;
	}
	f->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return f->folder < 0 ? -errno : 0;
}

static int open_nameless(struct new_file *f, mode_t mode)
{
	char self[32];

	f->fd = openat(f->folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
	/* Kernels and file systems without such files take it for the folder. */
	if (f->fd < 0)
		return errno == EISDIR || errno == ENOENT ? -EOPNOTSUPP : -errno;
	path_of(f->fd, self);
	if (!access(self, F_OK))
		return 0;
	close(f->fd);
	return -EOPNOTSUPP;
}

static int open_named(struct new_file *f, mode_t mode)
{
	int err = -EEXIST;

	f->named = true;
	for (int i = 0; err == -EEXIST && i < TRIES; i++) {
		err = new_name(f);
		if (err)
			break;
		f->fd = openat(f->folder, f->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		err = f->fd < 0 ? -errno : 0;
	}
	return err;
}

int new_file_open(struct new_file *f, const char *path, mode_t mode)
{
	int err;

	f->named = false;
	if (strlen(path) >= sizeof(f->path))
		return -ENAMETOOLONG;
	if (!realpath(path, f->path))
		strcpy(f->path, path);
	if (strlen(name_of(f)) > NAME_MAX)
		return -ENAMETOOLONG;
	err = open_folder(f);
	if (err)
		return err;
	err = open_nameless(f, mode);
	if (err == -EOPNOTSUPP)
		err = open_named(f, mode);
	if (err)
		close(f->folder);
	return err;
}

static int give_name(const struct new_file *f, const char *name)
{
	char self[32];

	path_of(f->fd, self);
	return linkat(AT_FDCWD, self, f->folder, name, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

/* linkat() replaces no file, so the new one gets a name that rename() moves. */
static int give_new_name(struct new_file *f)
{
	int err = -EEXIST;

	for (int i = 0; err == -EEXIST && i < TRIES; i++) {
		err = new_name(f);
		if (!err)
			err = give_name(f, f->part);
	}
	f->named = !err;
	return err;
}

int new_file_keep(struct new_file *f)
{
	int err = f->named ? -EEXIST : give_name(f, name_of(f));

	if (err == -EEXIST) {
		err = f->named ? 0 : give_new_name(f);
		if (!err && renameat(f->folder, f->part, f->folder, name_of(f)))
			err = -errno;
		f->named = f->named && err;
	}
	new_file_drop(f);
	return err;
}

void new_file_drop(struct new_file *f)
{
	if (f->named)
		unlinkat(f->folder, f->part, 0);
	close(f->fd);
	close(f->folder);
}
