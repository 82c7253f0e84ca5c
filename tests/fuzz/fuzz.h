/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the fuzzer share. Client processes, a firmware process that lies, a process
 * that reads all that the driver shows, one that watches what the driver promises, and the
 * supervisor that starts and kills them have one piece of memory in common: the counts of calls.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "drm/vnpu_accel.h"
#include "linux/vnpu_fw.h"

#define PAGE 4096ul

/* ---- calls ---- */

enum fz_call {
	/* The client's. */
	FZ_DEV_QUERY,
	FZ_BO_CREATE,
	FZ_BO_INFO,
	FZ_CTX_CREATE,
	FZ_CTX_DESTROY,
	FZ_CTX_GET_STATE,
	FZ_VM_BIND,
	FZ_QUEUE_CREATE,
	FZ_QUEUE_DESTROY,
	FZ_SUBMIT,
	FZ_WAIT,
	/* The firmware's. */
	FZ_CTL_VERSION,
	FZ_CTL_ADD_DEV,
	FZ_CTL_ATTACH,
	FZ_CTL_DEL_DEV,
	FZ_CTL_INFO,
	FZ_FW_START,
	FZ_FW_ENTER,
	/* DRM's own, and sync_file's. */
	FZ_GEM_CLOSE,
	FZ_PRIME_HANDLE_TO_FD,
	FZ_PRIME_FD_TO_HANDLE,
	FZ_SYNCOBJ_CREATE,
	FZ_SYNCOBJ_DESTROY,
	FZ_SYNCOBJ_HANDLE_TO_FD,
	FZ_SYNCOBJ_FD_TO_HANDLE,
	FZ_SYNCOBJ_TRANSFER,
	FZ_SYNCOBJ_WAIT,
	FZ_SYNCOBJ_TIMELINE_WAIT,
	FZ_SYNCOBJ_RESET,
	FZ_SYNCOBJ_SIGNAL,
	FZ_SYNCOBJ_TIMELINE_SIGNAL,
	FZ_SYNCOBJ_QUERY,
	FZ_SYNCOBJ_EVENTFD,
	FZ_SYNC_FILE_INFO,
	FZ_SYNC_MERGE,
	FZ_VERSION,
	FZ_GET_CAP,
	/* The last of those that a run must have seen succeed. */
	FZ_NR_CHECKED,
	FZ_SET_CLIENT_CAP = FZ_NR_CHECKED, /* there is none to set */
	FZ_SET_CLIENT_NAME, /* 6.13 and later */
	FZ_CORE, /* any number of DRM's, with any argument */
	FZ_WILD, /* any number of anybody's */
	FZ_OPEN,
	FZ_MMAP,
	FZ_MPROTECT,
	FZ_MREMAP,
	FZ_TOUCH,
	FZ_POLL,
	FZ_READ, /* of files that the driver shows */
	FZ_PARAMETER, /* of the module, written */
	FZ_FORCE_RESET,
	FZ_NR_CALLS,
};

/* Numbers of errors that are told apart; 0 counts the successes. */
#define FZ_NR_ERRNOS 136

struct fz_shared {
	uint64_t counts[FZ_NR_CALLS][FZ_NR_ERRNOS];
	/* Of DRM's ioctls by number, under whatever name they were called. */
	uint64_t drm_calls[256], drm_successes[256];
	uint64_t wrong; /* what must never be, and was */
	uint64_t seeds; /* handed out so far */
	uint64_t seed;
	uint64_t jobs_posted; /* completions by the lying firmware */
	/*
	 * The judge's: fences that it saw signal, the longest of them, queues that it filled,
	 * and those that were full.
	 */
	uint64_t fences, worst_fence_ms, floods, full;
	int32_t real_dev; /* the device of vnpu-fw, or -1 */
	uint32_t stop;
};

extern struct fz_shared *fz;
/* A datagram socket that all share: any process puts fds in, any takes them out. */
extern int fz_passing[2];

/* An ioctl, once, counted. 0 or -errno. */
int fz_ioctl(enum fz_call call, int fd, void *arg);
int fz_ioctl_raw(enum fz_call call, int fd, unsigned long request, void *arg);
/* Count what another system call returned: @ret < 0 means errno. Returns @ret. */
long fz_count(enum fz_call call, long ret);
size_t fz_arg_size(enum fz_call call);
/* Prints all counts; the number of calls that never succeeded. */
int fz_report(void);
/* The driver did what it must not do: says so, with the seed, and the run has failed. */
__attribute__((format(printf, 1, 2))) void fz_wrong(const char *what, ...);

/* ---- chance; the state belongs to the calling thread ---- */

void fz_seed_thread(void);
uint64_t fz_rand(void);
/* 0..n - 1 */
static inline uint32_t fz_below(uint32_t n)
{
	return (fz_rand() >> 16) % n;
}
static inline bool fz_one_in(uint32_t n)
{
	return !fz_below(n);
}
/* A number of the kind that breaks things; near @value now and then. */
uint64_t fz_number(uint64_t value);
/* Change one field of a structure. Fields are taken to be 4 or 8 bytes. */
void fz_mutate(void *arg, size_t size);
/* A pointer that is likely to be a bad one. */
uint64_t fz_pointer(void);

/* ---- memory that may go away ---- */

/* Run @fn(arg); false if it touched memory that is not there. */
bool fz_guard(void (*fn)(void *arg), void *arg);
/* Read or write one byte. */
bool fz_touch(void *p, bool write);
void fz_catch_faults(void);

/* ---- fds over sockets ---- */

void fz_pass(int fd);
/* -1 if there was none. */
int fz_take_passed(void);

int64_t fz_now_ms(void);
int64_t fz_now_ns(void);
void fz_sleep_ms(uint32_t ms);
static inline bool fz_stopped(void)
{
	return __atomic_load_n(&fz->stop, __ATOMIC_RELAXED);
}
/* The n-th device that is there, by chance; false if there is none. */
bool fz_any_device(struct vnpu_ctl_info *info);
int fz_control(void);
/*
 * A sync_file that does not signal while the process lives, or not for ten seconds; -1 if there
 * are none here.
 */
int fz_never(void);

/* ---- processes: never return ---- */

/* Not @root: without its rights, and as nobody. */
_Noreturn void fz_client(bool root);
_Noreturn void fz_liar(void);
_Noreturn void fz_reader(void);
_Noreturn void fz_judge(void);
/*
 * The module's parameters and the like, which the reader turns: as they stood. 0, or 1 after a
 * message.
 */
void fz_switches_save(void);
int fz_switches_restore(void);

#endif /* FUZZ_H */
