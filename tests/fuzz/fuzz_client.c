// SPDX-License-Identifier: MIT
/*
 * A client process of the fuzzer: threads that open, close, pass and use files of all devices until
 * the process is killed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz_client.h"

#define NR_THREADS 3
#define ACCEL_MAJOR 261

struct client *cl;

/* ---- tables ---- */

uint32_t hot(uint32_t nr)
{
	/*
	 * Large tables keep their hot entry for longer than small ones, so that different entries
	 * are hot together.
	 */
	return __atomic_load_n(&cl->hot, __ATOMIC_RELAXED) * 5 / nr % nr;
}

uint32_t pick(const uint32_t *table, uint32_t nr)
{
	uint32_t v = 0;

	if (fz_one_in(40))
		return fz_number(1);
	/* Handles and ids are small numbers, so this hits objects of files from other processes. */
	if (fz_one_in(12))
		return 1 + fz_below(6);
	if (fz_one_in(2))
		v = __atomic_load_n(&table[hot(nr)], __ATOMIC_RELAXED);
	for (int i = 0; i < 4 && !v; i++)
		v = __atomic_load_n(&table[fz_below(nr)], __ATOMIC_RELAXED);
	return v;
}

uint32_t put(uint32_t *table, uint32_t nr, uint32_t value)
{
	return __atomic_exchange_n(&table[fz_one_in(4) ? hot(nr) : fz_below(nr)], value,
				   __ATOMIC_RELAXED);
}

int pick_fd(void)
{
	int fd = -1;

	for (int i = 0; i < 4 && fd < 0; i++)
		fd = __atomic_load_n(&cl->fds[fz_below(NR_FDS)], __ATOMIC_RELAXED);
	return fd;
}

void put_fd(int fd)
{
	int old = __atomic_exchange_n(&cl->fds[fz_below(NR_FDS)], fd, __ATOMIC_RELAXED);

	if (old >= 0)
		close(old);
}

int64_t some_deadline(void)
{
	switch (fz_below(8)) {
	case 0:
		return fz_number(0);
	case 1:
	case 2:
	case 3:
		return 0;
	default:
		return fz_now_ns() + fz_below(20) * 1000000ll;
	}
}

/* A copy of the structure that ends at the end of a mapping. */
static void *arg_at_edge(void *arg, size_t size)
{
	static _Thread_local uint8_t *edge;

	if (!edge) {
		edge = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
		if (edge == MAP_FAILED)
			return arg;
		munmap(edge + PAGE, PAGE);
	}
	return memcpy(edge + PAGE - size, arg, size);
}

void *arg_or_worse(void *arg, size_t size)
{
	if (!fz_one_in(25))
		return arg;
	return fz_one_in(3) ? (void *)(uintptr_t)fz_pointer() : arg_at_edge(arg, size);
}

void *arg_or_none(void *arg, size_t size)
{
	if (!fz_one_in(25))
		return arg;
	return fz_one_in(3) ? (void *)(PAGE - size) : arg_at_edge(arg, size);
}

int call(enum fz_call c, int fd, void *arg)
{
	size_t size = fz_arg_size(c);

	if (fz_one_in(8))
		fz_mutate(arg, size);
	return fz_ioctl(c, fd, arg_or_worse(arg, size));
}

/* ---- files ---- */

static int open_any(void)
{
	struct vnpu_ctl_info info;
	char path[64];
	int minor = fz_below(4);

	if (!fz_one_in(10) && fz_any_device(&info))
		minor = info.accel_minor;
	snprintf(path, sizeof(path), "/dev/accel/accel%d", minor);
	return fz_count(FZ_OPEN, open(path, O_RDWR | O_CLOEXEC));
}

static bool is_node(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISCHR(st.st_mode) && major(st.st_rdev) == ACCEL_MAJOR;
}

/* False if the device behind the file is gone; such files are of little use. */
static bool is_alive(struct file *f)
{
	struct drm_vnpu_dev_query q = { 0 };

	return !fz_ioctl(FZ_DEV_QUERY, f->fd, &q);
}

static void reopen(struct file *f)
{
	int fd = open_any(), old;

	if (fd < 0) {
		fz_sleep_ms(1 + fz_below(5));
		return;
	}
	old = __atomic_exchange_n(&f->fd, fd, __ATOMIC_RELAXED);
	/* Its ids are now invalid, and are tried all the same. */
	if (old >= 0 && fz_one_in(4))
		put_fd(old);
	else if (old >= 0)
		close(old);
}

static void pass_some(struct file *f)
{
	int fd;

	if (fz_one_in(2)) {
		fd = fz_one_in(3) ? f->fd : pick_fd();
		if (fd >= 0)
			fz_pass(fd);
		return;
	}
	fd = fz_take_passed();
	if (fd < 0)
		return;
	/* Mostly a node, because most calls are for nodes. */
	if (fz_one_in(is_node(fd) ? 2 : 16)) {
		fd = __atomic_exchange_n(&f->fd, fd, __ATOMIC_RELAXED);
		if (fd < 0)
			return;
	}
	put_fd(fd);
}

/* Forks a child with the same files and some of the same mappings, for a moment. */
static void fork_some(struct file *f)
{
	pid_t pid = fork();

	if (pid < 0)
		return;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fz_seed_thread();
		for (int i = fz_below(20); i > 0; i--) {
			if (fz_one_in(2))
				memory_step(f);
			else
				drm_step(f);
		}
		_exit(0);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* ---- undefined calls ---- */

static void wild(struct file *f)
{
	uint64_t words[32];
	int fd = fz_one_in(3) ? pick_fd() : f->fd;
	unsigned long request;

	for (int i = 0; i < 32; i++)
		words[i] = fz_one_in(3) ? fz_pointer() : fz_number(i);
	switch (fz_below(3)) {
	case 0: /* type of the client calls */
		request = _IOC(fz_below(4), DRM_IOCTL_BASE, DRM_COMMAND_BASE + fz_below(20),
			       fz_below(sizeof(words)));
		break;
	case 1: /* type of the firmware calls */
		request = _IOC(fz_below(4), VNPU_FW_IOC,
			       fz_one_in(2) ? fz_below(8) : 0x20 + fz_below(4), fz_below(64));
		break;
	default:
		/* fuzz_core.c calls the DRM core. */
		request = (uint32_t)fz_rand();
		if (_IOC_TYPE(request) == DRM_IOCTL_BASE)
			return;
	}
	fz_ioctl_raw(FZ_WILD, fd, request, words);
}

static void poll_some(struct file *f)
{
	struct pollfd p[2] = { { f->fd, POLLIN | POLLOUT, 0 }, { pick_fd(), POLLIN | POLLOUT, 0 } };
	char buf[64];

	fz_count(FZ_POLL, poll(p, 2, fz_below(5)));
	if (fz_one_in(4) && p[0].revents & POLLIN)
		fz_count(FZ_READ, read(f->fd, buf, sizeof(buf)));
}

/* Calls and maps a firmware fd received over a socket, from a process that is not the firmware. */
static void play_firmware(void)
{
	struct vnpu_fw_enter enter = { .flags = fz_below(4),
				       .sq_seen = fz_below(64),
				       .timeout_ns = some_deadline() };
	struct vnpu_fw_start start = { 0 };
	int fd = pick_fd();

	if (fz_one_in(4))
		call(FZ_FW_START, fd, &start);
	else
		call(FZ_FW_ENTER, fd, &enter);
}

/* ---- threads ---- */

static void *client_thread(void *arg)
{
	struct file *f;

	fz_seed_thread();
	for (;;) {
		if (fz_one_in(64))
			__atomic_fetch_add(&cl->hot, 1, __ATOMIC_RELAXED);
		f = &cl->files[fz_one_in(2) ? hot(NR_FILES) : fz_below(NR_FILES)];
		if (f->fd < 0 || fz_one_in(150) || (fz_one_in(12) && !is_alive(f) && !fz_one_in(8)))
			reopen(f);
		switch (fz_below(64)) {
		case 0:
			pass_some(f);
			break;
		case 1:
			if (fz_one_in(8))
				fork_some(f);
			break;
		case 2:
		case 3:
			wild(f);
			break;
		case 4:
			poll_some(f);
			break;
		case 5:
			play_firmware();
			break;
		case 6 ... 9:
			core_step(f);
			break;
		case 10 ... 15:
			memory_step(f);
			break;
		case 16 ... 27:
			sync_step(f);
			break;
		default:
			drm_step(f);
		}
	}
	return NULL;
}

static void on_tick(int sig)
{
}

/* Wakes sleepers in the kernel now and then, so that signals arrive everywhere. */
static void tick(void)
{
	struct itimerval every = { { 0, 30000 }, { 0, 30000 } };
	struct sigaction sa = { .sa_handler = on_tick };

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

/* fuzz_ioctl.c lets everybody open the nodes; the limits of nobody differ. */
static void become_nobody(void)
{
	if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		_exit(4);
	/* Changing the user clears it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

_Noreturn void fz_client(bool root)
{
	pthread_t thread;

	if (!root)
		become_nobody();
	fz_catch_faults();
	tick();
	cl = calloc(1, sizeof(*cl));
	for (int i = 0; i < NR_FILES; i++)
		cl->files[i].fd = -1;
	for (int i = 0; i < NR_FDS; i++)
		cl->fds[i] = -1;
	cl->places = mmap(NULL, NR_PLACES * PLACE_SIZE, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (cl->places == MAP_FAILED)
		_exit(4);
	for (int i = 1; i < NR_THREADS; i++)
		if (pthread_create(&thread, NULL, client_thread, NULL))
			_exit(4);
	client_thread(NULL);
	_exit(0);
}
