/* SPDX-License-Identifier: MIT */
/* Descriptors that the library keeps open. */
#ifndef NPU_FD_H
#define NPU_FD_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/*
 * Returns @fd with a number above those of the standard streams, closing the first one; -1 stays
 * -1. A program may run with a standard stream closed, and what it prints would go into a file that
 * got its number. -1 with errno if there is no other number.
 */
static inline int npu_fd_keep(int fd)
{
	int kept, err;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	kept = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	err = errno;
	close(fd);
	errno = err;
	return kept;
}

#endif /* NPU_FD_H */
