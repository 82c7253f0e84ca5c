/* SPDX-License-Identifier: MIT */
/*
 * Common parts of the fuzzer. These processes share one piece of memory, the counts of calls:
 * clients, a firmware that lies, a reader of everything that the driver shows, a judge that checks
 * the driver's promises, and the supervisor that starts and kills them.
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
	/* Client calls. */
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
	/* Firmware calls. */
	FZ_CTL_VERSION,
	FZ_CTL_ADD_DEV,
	FZ_CTL_ATTACH,
	FZ_CTL_DEL_DEV,
	FZ_CTL_INFO,
	FZ_FW_START,
	FZ_FW_ENTER,
	/* Calls of the DRM core and of sync_file. */
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
	/* End of the calls that must have succeeded in a run. */
	FZ_NR_CHECKED,
	FZ_SET_CLIENT_CAP = FZ_NR_CHECKED, /* no capability exists to set */
	FZ_SET_CLIENT_NAME, /* 6.13 and later */
	FZ_CORE, /* any number of the DRM core's, with any argument */
	FZ_WILD, /* any number of any driver */
	FZ_OPEN,
	FZ_MMAP,
	FZ_MPROTECT,
	FZ_MREMAP,
	FZ_TOUCH,
	FZ_POLL,
	FZ_READ, /* reads of files that the driver shows */
	FZ_PARAMETER, /* writes of module parameters */
	FZ_FORCE_RESET,
	FZ_NR_CALLS,
};

/* Number of errno values counted separately; 0 counts successes. */
#define FZ_NR_ERRNOS 136

struct fz_shared {
	uint64_t counts[FZ_NR_CALLS][FZ_NR_ERRNOS];
	/* DRM ioctls by number, whichever call above issued them. */
	uint64_t drm_calls[256], drm_successes[256];
	uint64_t wrong; /* broken promises */
	uint64_t seeds; /* issued so far */
	uint64_t seed;
	uint64_t jobs_posted; /* completions by the lying firmware */
	/*
	 * Of the judge: fences that signalled, the longest time that one took, attempts to fill a
	 * queue, and queues that were full.
	 */
	uint64_t fences, worst_fence_ms, floods, full;
	int32_t real_dev; /* device of vnpu-fw, or -1 */
	uint32_t stop;
};

extern struct fz_shared *fz;
/* A datagram socket shared by all processes: any of them sends and receives fds. */
extern int fz_passing[2];

/* Makes an ioctl once and counts it. 0 or -errno. */
int fz_ioctl(enum fz_call call, int fd, void *arg);
int fz_ioctl_raw(enum fz_call call, int fd, unsigned long request, void *arg);
/* Counts the result of another system call: @ret < 0 means errno. Returns @ret. */
long fz_count(enum fz_call call, long ret);
size_t fz_arg_size(enum fz_call call);
/* Prints all counts. Returns the number of calls that never succeeded. */
int fz_report(void);
/* Reports with the seed that the driver broke a promise; the run has failed. */
__attribute__((format(printf, 1, 2))) void fz_wrong(const char *what, ...);

/* ---- random numbers; the state is per thread ---- */

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
/* A number likely to break something; sometimes one near @value. */
uint64_t fz_number(uint64_t value);
/* Changes one field of a structure; assumes fields of 4 or 8 bytes. */
void fz_mutate(void *arg, size_t size);
/* A pointer, probably an invalid one. */
uint64_t fz_pointer(void);

/* ---- memory that may be revoked ---- */

/* Runs @fn(arg). False if it accessed memory that is not there. */
bool fz_guard(void (*fn)(void *arg), void *arg);
/* Reads or writes one byte. */
bool fz_touch(void *p, bool write);
void fz_catch_faults(void);

/* ---- fds over sockets ---- */

void fz_pass(int fd);
/* -1 if there was no fd. */
int fz_take_passed(void);

int64_t fz_now_ms(void);
int64_t fz_now_ns(void);
void fz_sleep_ms(uint32_t ms);
static inline bool fz_stopped(void)
{
	return __atomic_load_n(&fz->stop, __ATOMIC_RELAXED);
}
/* A random device; false if there is none. */
bool fz_any_device(struct vnpu_ctl_info *info);
int fz_control(void);
/* A sync_file that does not signal for ten seconds or until the process ends; -1 if none. */
int fz_never(void);

/* ---- processes: never return ---- */

/* Not @root: without privileges, as nobody. */
_Noreturn void fz_client(bool root);
_Noreturn void fz_liar(void);
_Noreturn void fz_reader(void);
_Noreturn void fz_judge(void);
/*
 * Saves the values of module parameters and other switches that the reader changes. 0, or 1 after
 * printing an error.
 */
void fz_switches_save(void);
int fz_switches_restore(void);

#endif /* FUZZ_H */
