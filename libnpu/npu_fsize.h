/* SPDX-License-Identifier: MIT */
/* Files that may become larger than the process's limit (ulimit -f). */
#ifndef NPU_FSIZE_H
#define NPU_FSIZE_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

struct npu_fsize {
	sigset_t xfsz, mask;
	int pending; /* SIGXFSZ was pending before */
};

/*
 * Until npu_fsize_end(), writes and ftruncate() of this thread that go beyond the limit only fail
 * with EFBIG, whatever the process does with SIGXFSZ, which kills it by default: the kernel sends
 * the signal to the thread.
 */
static inline void npu_fsize_begin(struct npu_fsize *f)
{
	sigset_t pending;

	sigemptyset(&f->xfsz);
	sigaddset(&f->xfsz, SIGXFSZ);
	sigpending(&pending);
	f->pending = sigismember(&pending, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &f->xfsz, &f->mask);
}

/* Keeps errno. */
static inline void npu_fsize_end(const struct npu_fsize *f)
{
	int err = errno;

	if (!f->pending)
		sigtimedwait(&f->xfsz, NULL, &(struct timespec){ 0 });
	pthread_sigmask(SIG_SETMASK, &f->mask, NULL);
	errno = err;
}

/* Writes all of @text: 0 or -errno. */
static inline int npu_fsize_write(int fd, const char *text, size_t len)
{
	struct npu_fsize f;
	int ret = 0;
	ssize_t n;

	npu_fsize_begin(&f);
	while (len && !ret) {
		n = write(fd, text, len);
		if (n >= 0) {
			text += n;
			len -= (size_t)n;
		} else if (errno != EINTR) {
			ret = -errno;
		}
	}
	npu_fsize_end(&f);
	return ret;
}

#endif /* NPU_FSIZE_H */
