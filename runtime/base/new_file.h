/* SPDX-License-Identifier: MIT */
/*
 * A file that takes its name when it is complete: until then an old file stays there. A program
 * that is killed leaves nothing else, but between two calls that replace an old file.
 *
 *	err = new_file_open(&f, path, 0666);
 *	if (!err && !(write(f.fd, ...) < 0))
 *		err = new_file_keep(&f);
 *	else
 *		new_file_drop(&f);
 *
 * Where the file system has no files without a name (O_TMPFILE), or there is no /proc, the file has
 * the name .vnpu-XXXXXXXX.part beside @path until it is complete; a killed program leaves that.
 */
#ifndef NEW_FILE_H
#define NEW_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct new_file {
	int fd; /* to write to; stays open until new_file_keep() or new_file_drop() */
	/* Private */
	int folder;
	bool named;
	char part[32]; /* its name until it is complete */
	char path[PATH_MAX];
};

/* @mode: as of open(). Of a symbolic link, what it leads to is replaced. 0 or -errno, after which
 * there is nothing to drop. */
int new_file_open(struct new_file *f, const char *path, mode_t mode);
/* Puts the file at its path, in place of one that is there, and closes it. After an error, which is
 * -errno, it is gone. */
int new_file_keep(struct new_file *f);
/* Closes and removes the file. */
void new_file_drop(struct new_file *f);

#endif /* NEW_FILE_H */
