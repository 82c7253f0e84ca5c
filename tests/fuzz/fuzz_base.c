// SPDX-License-Identifier: MIT
/* The fuzzer's tools: random numbers, bad values, memory that may be revoked, fds over sockets. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

struct fz_shared *fz;
int fz_passing[2];

static _Thread_local uint64_t rand_state;

/* ---- random numbers ---- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

void fz_seed_thread(void)
{
	rand_state = fz->seed +
		     __atomic_add_fetch(&fz->seeds, 1, __ATOMIC_RELAXED) * 0x9e3779b97f4a7c15ull;
}

uint64_t fz_rand(void)
{
	return mix(rand_state += 0x9e3779b97f4a7c15ull);
}

uint64_t fz_number(uint64_t value)
{
	switch (fz_below(12)) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return UINT64_MAX;
	case 3:
		return UINT32_MAX;
	case 4:
		return 1ull << fz_below(64);
	case 5:
		return (1ull << fz_below(64)) - 1;
	case 6:
		return value + 1;
	case 7:
		return value - 1;
	case 8:
		return value ^ 1ull << fz_below(64);
	case 9:
		return value * 2;
	case 10:
		return fz_below(32);
	default:
		return fz_rand();
	}
}

void fz_mutate(void *arg, size_t size)
{
	uint8_t *p = arg;
	uint64_t v64;
	uint32_t v32;

	if (size >= 8 && fz_one_in(3)) {
		p += fz_below(size / 8) * 8;
		memcpy(&v64, p, 8);
		v64 = fz_number(v64);
		memcpy(p, &v64, 8);
	} else if (size >= 4) {
		p += fz_below(size / 4) * 4;
		memcpy(&v32, p, 4);
		v32 = fz_number(v32);
		memcpy(p, &v32, 4);
	}
}

uint64_t fz_pointer(void)
{
	static void *edge;

	/* A page with nothing mapped behind it. */
	if (!edge) {
		void *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

		if (p == MAP_FAILED)
			return 0;
		munmap((char *)p + PAGE, PAGE);
		edge = p;
	}
	switch (fz_below(5)) {
	case 0:
		return 0;
	case 1:
		return (uintptr_t)edge + PAGE - fz_below(64);
	case 2:
		return 0xffffffff81000000ull;
	case 3:
		return 0x10 + fz_below(PAGE);
	default:
		return (uintptr_t)edge + fz_below(PAGE);
	}
}

/* ---- memory that may be revoked ---- */

static _Thread_local sigjmp_buf *volatile guard;

static void on_fault(int sig)
{
	if (!guard)
		_exit(3);
	siglongjmp(*guard, 1);
}

void fz_catch_faults(void)
{
	struct sigaction sa = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
}

bool fz_guard(void (*fn)(void *arg), void *arg)
{
	sigjmp_buf *volatile outer = guard;
	sigjmp_buf env;

	if (sigsetjmp(env, 0)) {
		guard = outer;
		return false;
	}
	guard = &env;
	fn(arg);
	guard = outer;
	return true;
}

struct touch {
	volatile uint8_t *p;
	bool write;
};

static void touch(void *arg)
{
	struct touch *t = arg;

	if (t->write)
		*t->p = 0x5a;
	else
		(void)*t->p;
}

bool fz_touch(void *p, bool write)
{
	struct touch t = { p, write };
	bool ok = fz_guard(touch, &t);

	errno = EFAULT;
	fz_count(FZ_TOUCH, ok ? 0 : -1);
	return ok;
}

/* ---- fds over sockets ---- */

void fz_pass(int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
			       .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	sendmsg(fz_passing[0], &msg, MSG_DONTWAIT);
}

int fz_take_passed(void)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	int fd = -1;

	if (recvmsg(fz_passing[1], &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
		return -1;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* ---- time and devices ---- */

int64_t fz_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int64_t fz_now_ms(void)
{
	return fz_now_ns() / 1000000;
}

void fz_sleep_ms(uint32_t ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000l };

	nanosleep(&t, NULL);
}

int fz_control(void)
{
	return open("/dev/" VNPU_FW_CONTROL_NODE, O_RDWR | O_CLOEXEC);
}

bool fz_any_device(struct vnpu_ctl_info *info)
{
	struct vnpu_ctl_info found[8], next = { 0 };
	int fd = fz_control(), nr = 0;

	while (fd >= 0 && nr < 8 && !fz_ioctl(FZ_CTL_INFO, fd, &next)) {
		found[nr++] = next;
		next = (struct vnpu_ctl_info){ .dev_id = next.dev_id + 1 };
	}
	if (fd >= 0)
		close(fd);
	if (!nr)
		return false;
	*info = found[fz_below(nr)];
	return true;
}
