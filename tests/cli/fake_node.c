// SPDX-License-Identifier: MIT
/*
 * A fake of /dev/vnpu-control, preloaded into a program, made of files in the folder $FAKE_NODE.
 * "state" holds the devices and sessions, shared by all programs of a test. "session.N" is the
 * firmware fd of session N; truncating it removes the rings, which then raise SIGBUS as with the
 * kernel. tests/cli/fake_node.py is the kernel's side: it submits, resets and prints the state.
 *
 * Everything is opened and mapped before main(). After that, this code makes no system call that
 * vnpu-fw does not make itself, since vnpu-fw's filter would end the process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "linux/vnpu_fw.h"

#define NR_DEVICES 8
#define NR_SESSIONS 16
#define RING 16
#define RINGS_BYTES 0x8000 /* info, submission ring, control, completion ring, then status pages */
#define STATUS_BYTES (64 * 4096)
#define APERTURE_BYTES 65536 /* of context 1, the rest is not bound */

/* The layout that fake_node.py knows. */
struct state {
	uint32_t lock, next_session;
	struct device {
		uint32_t there, state, session, pid, epoch, va_bits;
		char name[32];
	} devices[NR_DEVICES];
	int32_t errors[NR_SESSIONS]; /* that ENTER returns */
	uint32_t sq_tails[NR_SESSIONS]; /* copies of the info page's, which may be gone */
};

static struct state *state;
static int control_fd, session_fds[NR_SESSIONS];
static uint8_t *rings[NR_SESSIONS];
static uint32_t own_pid;

static void *map_file(const char *name, size_t bytes, size_t mapped, int *fd)
{
	char path[512];
	void *addr;
	off_t end;

	snprintf(path, sizeof(path), "%s/%s", getenv("FAKE_NODE"), name);
	*fd = openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	end = *fd < 0 ? -1 : lseek(*fd, 0, SEEK_END);
	if (end < 0 || (!end && ftruncate(*fd, bytes)))
		abort();
	addr = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (addr == MAP_FAILED)
		abort();
	return addr;
}

__attribute__((constructor)) static void open_all(void)
{
	char name[32];
	int i;

	own_pid = getpid();
	state = map_file("state", sizeof(*state), sizeof(*state), &control_fd);
	for (i = 0; i < NR_SESSIONS; i++) {
		snprintf(name, sizeof(name), "session.%d", i);
		rings[i] = map_file(name, (1ull << 36) + APERTURE_BYTES, RINGS_BYTES + STATUS_BYTES,
				    &session_fds[i]);
	}
}

static void lock(void)
{
	while (__atomic_exchange_n(&state->lock, 1, __ATOMIC_ACQUIRE))
		syscall(SYS_sched_yield);
}

static void unlock(void)
{
	__atomic_store_n(&state->lock, 0, __ATOMIC_RELEASE);
}

/* Marks a device as lost if its process was killed. */
static void look_after(struct device *d)
{
	if (d->pid && d->pid != own_pid && kill(d->pid, 0) && errno == ESRCH) {
		d->there = d->state != VNPU_CTL_DEV_NEW;
		d->state = VNPU_CTL_DEV_LOST;
		d->pid = 0;
	}
}

static int open_session(uint32_t id)
{
	struct device *d = &state->devices[id];
	uint32_t n = state->next_session++;

	if (n >= NR_SESSIONS)
		abort();
	*(struct vnpu_fw_info *)rings[n] = (struct vnpu_fw_info){
		.magic = VNPU_FW_INFO_MAGIC,
		.version = VNPU_FW_ABI,
		.epoch = d->epoch,
		.sq_entries = RING,
		.cq_entries = RING,
		.nr_queues = 64,
		.nr_ctx = 64,
		.va_bits = d->va_bits,
		.dev_id = id,
		.sq_offset = 0x1000,
		.ctl_offset = 0x2000,
		.cq_offset = 0x3000,
		.status_offset = RINGS_BYTES,
	};
	d->session = n;
	d->pid = own_pid;
	return session_fds[n];
}

static int add(struct vnpu_ctl_add_dev *a)
{
	uint32_t id = 0;

	if (a->size != sizeof(*a) || a->version != VNPU_FW_ABI || a->flags)
		return -EINVAL;
	while (state->devices[id].there)
		if (++id == NR_DEVICES)
			return -ENOSPC;
	state->devices[id] =
		(struct device){ .there = 1, .state = VNPU_CTL_DEV_NEW, .va_bits = a->va_bits };
	memcpy(state->devices[id].name, a->name, sizeof(a->name));
	a->abi_features &= VNPU_FW_FEATURES;
	a->dev_id = id;
	a->fw_fd = open_session(id);
	return 0;
}

static int attach(struct vnpu_ctl_attach *a)
{
	struct device *d = &state->devices[a->dev_id];

	if (a->size != sizeof(*a) || a->version != VNPU_FW_ABI)
		return -EINVAL;
	if (a->dev_id >= NR_DEVICES || !d->there)
		return -ENOENT;
	look_after(d);
	if (d->state == VNPU_CTL_DEV_WEDGED)
		return -EIO;
	if (d->state != VNPU_CTL_DEV_LOST)
		return -EBUSY;
	d->epoch++;
	a->fw_fd = open_session(a->dev_id);
	return 0;
}

static int info(struct vnpu_ctl_info *a)
{
	for (; a->dev_id < NR_DEVICES; a->dev_id++) {
		struct device *d = &state->devices[a->dev_id];

		if (d->there)
			look_after(d);
		if (!d->there)
			continue;
		a->state = d->state;
		a->fw_pid = d->pid;
		a->epoch = d->epoch;
		memcpy(a->name, d->name, sizeof(a->name));
		return 0;
	}
	return -ENOENT;
}

static int del(struct vnpu_ctl_del_dev *a)
{
	if (a->dev_id >= NR_DEVICES || !state->devices[a->dev_id].there)
		return -ENOENT;
	state->devices[a->dev_id].there = 0;
	return 0;
}

static int control(unsigned long cmd, void *arg)
{
	struct vnpu_ctl_version *version = arg;
	int ret = -ENOTTY;

	lock();
	switch (cmd) {
	case VNPU_CTL_VERSION:
		*version =
			(struct vnpu_ctl_version){ VNPU_FW_ABI_MIN, VNPU_FW_ABI, VNPU_FW_FEATURES };
		ret = 0;
		break;
	case VNPU_CTL_ADD_DEV:
		ret = add(arg);
		break;
	case VNPU_CTL_ATTACH:
		ret = attach(arg);
		break;
	case VNPU_CTL_INFO:
		ret = info(arg);
		break;
	case VNPU_CTL_DEL_DEV:
		ret = del(arg);
		break;
	}
	unlock();
	return ret;
}

static int start(int session, struct vnpu_fw_start *a)
{
	struct device *d = &state->devices[((struct vnpu_fw_info *)rings[session])->dev_id];

	if (state->errors[session])
		return state->errors[session];
	a->accel_minor = (int)(d - state->devices);
	d->state = VNPU_CTL_DEV_READY;
	return 0;
}

/* fake_node.py takes completions. */
static int enter(int session, struct vnpu_fw_enter *a)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct timespec now;

	if (__atomic_load_n(&state->errors[session], __ATOMIC_ACQUIRE))
		return state->errors[session];
	while (a->flags & VNPU_FW_ENTER_WAIT &&
	       __atomic_load_n(&state->sq_tails[session], __ATOMIC_ACQUIRE) == a->sq_seen) {
		if (clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL))
			return -EINTR;
		if (__atomic_load_n(&state->errors[session], __ATOMIC_ACQUIRE))
			return state->errors[session];
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (a->timeout_ns >= 0 && now.tv_sec * 1000000000ll + now.tv_nsec >= a->timeout_ns)
			break;
	}
	return 0;
}

static int session_of(int fd)
{
	int i;

	for (i = 0; i < NR_SESSIONS; i++)
		if (session_fds[i] == fd)
			return i;
	return -1;
}

/* ---- functions that the program calls -------------------------------------------------------- */

#define EXPORT __attribute__((visibility("default")))

EXPORT int open(const char *path, int flags, ...);
EXPORT int ioctl(int fd, unsigned long cmd, ...);
EXPORT int close(int fd);
EXPORT int close_range(unsigned int first, unsigned int last, int flags);

EXPORT int open(const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	if (!strcmp(path, "/dev/" VNPU_FW_CONTROL_NODE))
		return control_fd;
	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, int) : 0;
	va_end(ap);
	return openat(AT_FDCWD, path, flags, mode);
}

EXPORT int ioctl(int fd, unsigned long cmd, ...)
{
	int session = session_of(fd), ret;
	va_list ap;
	void *arg;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (fd == control_fd)
		ret = control(cmd, arg);
	else if (session >= 0)
		ret = cmd == VNPU_FW_START   ? start(session, arg)
		      : cmd == VNPU_FW_ENTER ? enter(session, arg)
					     : -ENOTTY;
	else
		return (int)syscall(SYS_ioctl, fd, cmd, arg);
	errno = ret < 0 ? -ret : errno;
	return ret < 0 ? -1 : 0;
}

EXPORT int close(int fd)
{
	int session = session_of(fd);
	struct device *d;

	if (session >= 0) {
		lock();
		for (d = state->devices; d < state->devices + NR_DEVICES; d++) {
			if (!d->there || d->session != (uint32_t)session || d->pid != own_pid)
				continue;
			d->there = d->state != VNPU_CTL_DEV_NEW;
			d->state = d->state == VNPU_CTL_DEV_WEDGED ? d->state : VNPU_CTL_DEV_LOST;
			d->pid = 0;
		}
		unlock();
	}
	return (int)syscall(SYS_close, fd);
}

/* Keeps the files open that were opened before main(). */
EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	return 0;
}
