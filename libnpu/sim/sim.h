/* SPDX-License-Identifier: MIT */
/*
 * The simulated device: does in the client's process what vnpu.ko does between a client and a
 * firmware.
 *
 * One struct sim is one open of one device. The client's side takes the structures of
 * uapi/drm/vnpu_accel.h and checks them as the kernel does. The firmware's side is the rings of
 * uapi/linux/vnpu_fw.h in ordinary memory, served by a device core (firmware-sim/fw.h) in a thread
 * of its own.
 *
 * Locks: sim->lock protects everything here. A context's rwlock nests inside it. The device's
 * workers hold only that rwlock, for reading, while they access the context's memory.
 *
 * A thread that takes the lock for an ioctl processes the completions first. The core therefore
 * need not do so while nobody waits for one: as long as client and device keep each other busy, the
 * core never takes the lock.
 */
#ifndef NPU_SIM_H
#define NPU_SIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <drm/vnpu_accel.h>

#include "fw.h"
#include "polling.h"
#include "transport.h"
#include "va.h"

#define SIM_PAGE 4096u
/* Buffers of this size or more are aligned for huge pages, in the file and in mappings. */
#define SIM_HUGE (2ul << 20)
#define SIM_VA_BITS 36
#define SIM_VA_START 0x10000ull
/* Mmap offsets from here on are of buffers that are parts of other files. */
#define SIM_IMPORTS (1ull << 60)
#define SIM_NR_CTX 256
#define SIM_MAX_CTX 64 /* alive at once; the other numbers are for contexts being closed */
#define SIM_NR_QUEUES 256
#define SIM_MAX_DEPTH 256
#define SIM_MAX_WAITING 256 /* jobs per queue that wait for the device */
#define SIM_SQ_ENTRIES (1u << 17) /* twice the jobs that can be in flight: each may get a CANCEL */
#define SIM_CQ_ENTRIES (1u << 17)
#define SIM_MAX_JOBS 64
#define SIM_MAX_SYNCS 64
#define SIM_MAX_BINDS 1024
#define SIM_MAX_CMD_BYTES (16u << 20)
#define SIM_TIMEOUT_MS 10000u
#define SIM_MAX_TIMEOUT_MS 600000u
#define SIM_FENCE_MS 10000u
#define SIM_MS 1000000ll
#define SIM_MAX_WAKE 16

/* Id -> object; id 0 is never valid. */
struct sim_table {
	void **slots; /* slot i is id i + 1 */
	uint32_t size;
};

/* The end of a job that signals a syncobj, or a fence that is signaled from the start. */
struct sim_fence {
	unsigned int refs;
	bool signaled;
};

struct sim_fences {
	struct sim_fence **items;
	unsigned int nr, cap;
};

struct sim_bo {
	unsigned int refs; /* held by handle, bindings, mappings */
	uint64_t offset; /* the mmap offset; also that in sim->memfd, if its pages are there */
	uint64_t size;
	int fd; /* -1: its pages are sim->memfd's; else those of this file, from @file_offset on */
	uint64_t file_offset;
	uint32_t flags;
};

struct sim_mapping {
	struct sim_mapping *next;
	void *addr;
	size_t size;
	struct sim_bo *bo; /* NULL: a status page */
};

struct sim_binding {
	uint64_t va, size, bo_offset;
	struct sim_bo *bo;
	bool read_only;
};

struct sim_ctx {
	uint32_t id; /* also its number in the device */
	uint8_t *base;
	uint64_t bytes; /* of addresses that it has */
	pthread_rwlock_t lock; /* protects bindings and the pages behind them */
	struct sim_binding *bindings; /* by address */
	unsigned int nr_bindings, cap_bindings;
	uint32_t state, fault_flags, ban_queue;
	uint64_t fault_va, ban_seqno;
};

struct sim_job {
	struct sim_job *next;
	struct sim_queue *queue;
	struct sim_fence *done; /* NULL: it signals nothing */
	struct sim_fences deps;
	struct vnpu_fw_sqe sqe;
	int64_t timeout_ns;
	struct sim_job *fenced_prev, *fenced_next; /* in sim->fenced, until @done is signaled */
	int64_t fence_end_ns;
	bool sent; /* the device has it */
	bool late; /* its fence timed out: it ends with -EBUSY after the jobs before it */
};

struct sim_queue {
	unsigned int refs; /* held by table, waiters */
	uint32_t id, hwq, priority, depth;
	struct sim_ctx *ctx;
	bool dead;
	uint64_t submitted, done;
	struct sim_job *pending, **pending_tail; /* jobs that wait for fences or for room */
	/* Results of the last jobs; of those before them only the last failure is known. */
	int *results; /* [nr_results], by number */
	uint32_t nr_results; /* a power of two */
	uint64_t forgotten_seqno;
	int forgotten_error;
	int64_t head_since_ns; /* when the oldest job in the device became the oldest */
	bool running; /* the device has reported that it works on that job */
	int64_t running_since_ns, alive_ns; /* when that was seen; when progress was last seen */
	uint64_t seen_started, seen_progress; /* last sample of the status page */
	unsigned int waiters;
};

/* A queue's slot in the device: jobs sent to the core and not answered. */
enum sim_place { SIM_PLACE_FREE, SIM_PLACE_LIVE, SIM_PLACE_FINISHED };

struct sim_hwq {
	struct sim_queue *queue; /* NULL: free */
	uint32_t ctx;
	uint32_t head, tail; /* free-running job numbers */
	uint8_t *place; /* enum sim_place of each job, [SIM_MAX_DEPTH] */
	_Atomic uint32_t ends; /* futex of threads that wait for its jobs */
	struct sim_job **jobs; /* [SIM_MAX_DEPTH], valid where SIM_PLACE_LIVE */
};

struct sim_point {
	uint64_t value;
	uint64_t before; /* value of the point before it in its run; 0: it is the first */
	uint64_t run; /* 0: the fence of a binary syncobj */
	struct sim_fence *fence;
};

struct sim_syncobj {
	struct sim_point *points; /* in the order in which they were added; values rise in a run */
	unsigned int nr, cap;
	uint64_t runs;
};

struct sim {
	struct transport base;
	pthread_mutex_t lock;
	pthread_cond_t cond; /* a fence was signaled, or a syncobj got a fence */
	uint32_t wake[SIM_MAX_WAKE]; /* hwqs whose waiters sim_unlock() wakes */
	unsigned int nr_wake;
	bool wake_cond;

	int memfd;
	uint64_t mem_limit_bytes;
	uint64_t file_bytes;
	struct npu_va_range *free_offsets; /* below SIM_IMPORTS, and from there on */
	struct npu_va_range *free_imports;
	uint64_t mem_bytes, busy_ns, nr_jobs;
	uint32_t epoch;

	struct sim_table bos, ctxs, queues, syncobjs;
	/* Destroyed contexts that the core has not released yet; by number - 1. */
	struct sim_ctx *closing[SIM_NR_CTX];
	struct sim_mapping *mappings;
	struct sim_hwq hwqs[SIM_NR_QUEUES];
	unsigned int nr_pending;
	/* Jobs with unsignaled fences in the order of SUBMIT, and so of their time limits. */
	struct sim_job *fenced, *fenced_last;
	uint32_t fence_ms;
	/*
	 * Threads that sleep until a job ends, and whether a job waits for another to end: in
	 * either case the core reports each end at once.
	 */
	_Atomic unsigned int listeners;
	_Atomic bool backlog;

	/* Rings. */
	void *rings;
	size_t rings_bytes;
	struct vnpu_fw_info *info;
	struct vnpu_fw_ctl *ctl;
	struct vnpu_fw_sqe *sq;
	struct vnpu_fw_cqe *cq;
	uint8_t *status;

	/* Core. */
	struct fw_port port;
	struct fw_core *core;
	struct soc *soc; /* NULL: no soc file is installed */
	unsigned int threads; /* the core's workers */
	pthread_t core_thread;
	bool core_started;
	int core_result;
	_Atomic uint32_t kick; /* futex on which the core sleeps */
	_Atomic bool sleeping, stopping;
	struct polling poll;

	/* Time limits. */
	pthread_t timer_thread;
	bool timer_started, timer_stop;
	pthread_cond_t timer_cond;
	int64_t timer_at_ns;
	/* When the device last answered or showed progress, as of the timer's last check. */
	int64_t alive_ns;
	bool answered; /* since that check */
};

int64_t sim_now_ns(void);
/* Releases sim->lock and then wakes the waiters of jobs that have ended, who will need the lock. */
void sim_unlock(struct sim *sim);
void sim_wake_later(struct sim *sim, uint32_t hwq);
/* The same without releasing the lock, for callers that release it otherwise. */
void sim_wake_now(struct sim *sim);
/* Sleeps without sim->lock until a job in the slot may have ended. False: the time has passed. */
bool sim_wait_end(struct sim *sim, struct sim_hwq *hwq, int64_t timeout_ns);
/*
 * Enclose sleeping for the end of a job. After sim_listen_begin() the core reports each end, and
 * those posted before have been processed.
 */
void sim_listen_begin(struct sim *sim);
void sim_listen_end(struct sim *sim);
void sim_cond_init(pthread_cond_t *cond);
/* As pthread_cond_timedwait() with an absolute time of CLOCK_MONOTONIC; false if it has passed. */
bool sim_cond_wait(struct sim *sim, pthread_cond_t *cond, int64_t timeout_ns);
/* Copy element @i of a caller's array into @out of @size bytes, as the kernel does. */
int sim_array_check(const struct drm_vnpu_obj_array *a, uint32_t max, uint32_t min_stride);
int sim_array_get(const struct drm_vnpu_obj_array *a, uint32_t i, void *out, size_t size);

void *sim_table_get(const struct sim_table *t, uint32_t id);
/* Adds @obj with the lowest free id up to @max; 0 and *err if there is none. */
uint32_t sim_table_add(struct sim_table *t, void *obj, uint32_t max, int *err);
void *sim_table_del(struct sim_table *t, uint32_t id);

/* ---- sim_bo.c -------------------------------------------------------------------------------- */
uint64_t sim_bo_max_bytes(void);
/* Makes the memory file at least this large. -EFBIG: the process's limit of file sizes. */
int sim_file_grow(struct sim *sim, uint64_t bytes);
int sim_bo_create(struct sim *sim, struct drm_vnpu_bo_create *args);
/* The same of a file's bytes from @offset on. Keeps a descriptor of its own. */
int sim_bo_import(struct sim *sim, int fd, uint64_t offset, struct drm_vnpu_bo_create *args);
int sim_bo_info(struct sim *sim, struct drm_vnpu_bo_info *args);
int sim_bo_close(struct sim *sim, uint32_t handle);
void sim_bo_put(struct sim *sim, struct sim_bo *bo);
/* *@weights: the program fills the memory and the device only reads it: use sim_map_huge(). */
int sim_map(struct sim *sim, uint64_t offset, size_t size, int prot, void **addr, bool *weights);
/* Backs a new mapping by huge pages as far as the kernel can. Slow: not under the lock. */
void sim_map_huge(const struct sim *sim, void *addr, size_t size);
/*
 * Reserves addresses aligned for huge pages, without memory, or returns MAP_FAILED. The kernel
 * itself does not align mappings.
 */
void *sim_reserve(size_t size);
/* Maps a part of the file over @at (NULL: anywhere). MAP_FAILED with errno. */
void *sim_map_pages(struct sim *sim, const struct sim_bo *bo, void *at, uint64_t offset,
		    size_t size, int prot);
int sim_unmap(struct sim *sim, void *addr, size_t size);

/* ---- sim_ctx.c ------------------------------------------------------------------------------- */
int sim_ctx_create(struct sim *sim, struct drm_vnpu_ctx_create *args);
int sim_ctx_destroy(struct sim *sim, struct drm_vnpu_ctx_destroy *args);
int sim_ctx_get_state(struct sim *sim, struct drm_vnpu_ctx_get_state *args);
int sim_vm_bind(struct sim *sim, struct drm_vnpu_vm_bind *args);
void sim_ctx_ban(struct sim *sim, struct sim_ctx *ctx, uint32_t state, struct sim_job *culprit,
		 int error);
void sim_ctx_free(struct sim *sim, struct sim_ctx *ctx);
int sim_ctx_guard(struct sim_ctx *ctx, const struct fw_access *acc, unsigned int nr_acc,
		  void (*fn)(void *arg), void *arg, struct fw_fault *fault);

/* ---- sim_queue.c ----------------------------------------------------------------------------- */
int sim_queue_create(struct sim *sim, struct drm_vnpu_queue_create *args);
int sim_queue_destroy(struct sim *sim, struct drm_vnpu_queue_destroy *args);
void sim_queue_kill(struct sim *sim, struct sim_queue *queue);
int sim_queue_wait(struct sim *sim, struct drm_vnpu_wait *args);
struct drm_vnpu_queue_status *sim_queue_status(struct sim *sim, const struct sim_queue *queue);
/* The place for the result of one of the queue's last jobs. */
int *sim_queue_result(const struct sim_queue *queue, uint64_t seqno);
/* Makes room for a new job's result in place of the oldest one. */
void sim_queue_forget(struct sim_queue *queue, uint64_t seqno);
void sim_queue_put(struct sim_queue *queue);

/* ---- sim_timer.c ----------------------------------------------------------------------------- */
/* Another job has become the oldest of its queue in the device: starts its time limit. */
void sim_timer_new_head(struct sim *sim, struct sim_queue *queue, const struct sim_job *job);
/* Starts the time limit of the job's fence. */
void sim_timer_fence(struct sim *sim, struct sim_job *job);
int sim_timer_start(struct sim *sim);
void sim_timer_stop(struct sim *sim);

/* ---- sim_job.c ------------------------------------------------------------------------------- */
int sim_submit(struct sim *sim, struct drm_vnpu_submit *args);
/* Ends a job and frees it. @by_firmware: the status page reports it already. */
void sim_job_finish(struct sim *sim, struct sim_job *job, int error, bool by_firmware);
/* The job waited too long: signals its fence; it ends with -EBUSY after those before it. */
void sim_job_give_up(struct sim *sim, struct sim_job *job);
/* The oldest job of the queue in the device has ended. */
void sim_queue_next_head(struct sim *sim, struct sim_queue *queue);
/* Ends all jobs of the queue, in the device and waiting. */
void sim_queue_fail(struct sim *sim, struct sim_queue *queue, struct sim_job *culprit,
		    int culprit_error, int error);
/* Sends jobs that have become ready. The caller kicks the core. */
void sim_run_pending(struct sim *sim);
struct sim_job *sim_hwq_first(struct sim_hwq *hwq);

/* ---- sim_sync.c ------------------------------------------------------------------------------ */
struct sim_fence *sim_fence_create(bool signaled);
struct sim_fence *sim_fence_get(struct sim_fence *fence);
void sim_fence_put(struct sim_fence *fence);
void sim_fence_signal(struct sim *sim, struct sim_fence *fence);
int sim_fences_add(struct sim_fences *list, struct sim_fence *fence);
/* Drops signaled fences; true if none is left. */
bool sim_fences_prune(struct sim_fences *list);
void sim_fences_clear(struct sim_fences *list);
/* The fences that a waiter for @point waits for; -EINVAL if no fence will reach that point. */
int sim_syncobj_deps(struct sim *sim, uint32_t handle, uint64_t point, struct sim_fences *deps);
/* Makes room for one more point, so that sim_syncobj_add() cannot fail. */
int sim_syncobj_reserve(struct sim *sim, uint32_t handle, unsigned int extra);
void sim_syncobj_add(struct sim *sim, uint32_t handle, uint64_t point, struct sim_fence *fence);
/* All DRM syncobj ioctls; -ENOTTY for others. */
int sim_syncobj_ioctl(struct sim *sim, unsigned long request, void *arg);
void sim_syncobj_free_all(struct sim *sim);

/* ---- sim_port.c ------------------------------------------------------------------------------ */
int sim_port_start(struct sim *sim, const struct sim_options *opts);
void sim_port_stop(struct sim *sim);
bool sim_port_send(struct sim *sim, const struct vnpu_fw_sqe *sqe);
void sim_port_kick(struct sim *sim);
/* Processes the completion ring's entries, and sends jobs that become ready by that. */
int sim_port_drain(struct sim *sim);

#endif /* NPU_SIM_H */
