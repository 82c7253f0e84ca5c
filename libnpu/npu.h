/* SPDX-License-Identifier: MIT */
/*
 * libnpu: devices, buffers, programs, queues and fences of a vnpu.
 *
 *	struct npu_device *dev;
 *	if (npu_device_open(NULL, &dev))
 *		errx(1, "%s", npu_error());
 *	npu_context_create(dev, &ctx);
 *	npu_queue_create(ctx, NULL, &queue);
 *	npu_program_load(ctx, image, image_bytes, &prog);	(a graph that
 *								npu_graph_compile() made)
 *	npu_job_create(prog, &job);
 *	npu_job_bind(job, "x", x, 0, x_bytes);
 *	npu_queue_submit(queue, &job, 1, NULL, &seqno);
 *	npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER);
 *
 * Two transports carry the same calls: `drm` is /dev/accel/accelN, `sim` the same
 * device inside the process.
 *
 * Errors: functions return 0 or a negative errno, and npu_error() then gives one line, of the
 * calling thread, that says what failed, where, and what to do. Nothing is printed by the
 * library, but for the log that NPU_LOG asks for: NPU_LOG=ioctl writes one decoded line per
 * device call to stderr (or to the file NPU_LOG_FILE). NPU_TRACE=FILE appends calls, waits, jobs
 * and memory to FILE, with their times, as events of Chrome's trace format (docs/tracing.md;
 * npu-trace runs a program with it); where that file cannot be written, one line on stderr says
 * so and the program goes on.
 *
 * Environment: NPU_TRANSPORT=drm|sim|auto decides where the program leaves it to
 * NPU_TRANSPORT_AUTO, and NPU_DEVICE=PATH names the node where the program names none.
 * NPU_PROFILE=NAME is the sim's profile where the program names none.
 *
 * Threads: different objects may be used by different threads at once; one queue, job or graph by
 * one thread at a time. Ownership: an object keeps what it was made from alive (a buffer its
 * context, a context its device); release each with its own function, in any order.
 */
#ifndef NPU_H
#define NPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct npu_device;
struct npu_context;
struct npu_buffer;
struct npu_queue;
struct npu_program;
struct npu_job;
struct npu_fence;

#define NPU_FOREVER INT64_MAX

/* The last error of this thread: one line without a newline. Never NULL. */
const char *npu_error(void);

/* ---- devices --------------------------------------------------------------------------------- */

enum npu_transport {
	NPU_TRANSPORT_AUTO = 0, /* drm if a usable vnpu node is there, else sim */
	NPU_TRANSPORT_DRM,
	NPU_TRANSPORT_SIM,
};

struct npu_device_options {
	enum npu_transport transport;
	const char *path; /* drm: the node; NULL: the first /dev/accel/accel* that is a vnpu */
	/* sim: workers of the device; 0: one per CPU that the process may use. */
	unsigned int threads;
	/* sim: instruction set of the kernels, as --isa of vnpu-fw(8); NULL: the best there is. */
	const char *isa;
	/* sim: the SoC whose NPU jobs' device times are of (docs/soc-model.md): a name of
	 * share/profiles, or a file with a '/' or ".conf" in its name. NULL: NPU_PROFILE, or else
	 * sd8gen3 where that is installed. With drm it is vnpu-fw's. */
	const char *profile;
};

/* How npu_device_open() came by its transport. */
struct npu_device_info {
	enum npu_transport transport; /* DRM or SIM */
	char name[32]; /* the firmware's name for the device */
	char path[64]; /* drm: the node; sim: "" */
	char reason[160]; /* one line: why this transport */
	uint32_t isa_version; /* major << 16 | minor */
	uint32_t va_bits;
	uint64_t mem_limit_bytes; /* of all buffers of the device */
	uint32_t max_queue_depth;
	uint32_t max_jobs_per_submit;
	uint32_t default_timeout_ms;
	uint32_t max_timeout_ms;
	/* How long a fence lasts, from the submission of the job that signals it. */
	uint32_t max_fence_ms;
	/* Jobs of a queue that may wait, beside those that its depth lets into the device. */
	uint32_t max_waiting_jobs;
};

/* Opens a device. @opts NULL: all defaults. -ENOENT no node, no module or no such profile, -EINVAL
 * a file that is no profile, -EACCES, -ENODEV not a vnpu or no firmware, -EPROTO versions do not
 * fit; npu_error() says what to do about it. */
int npu_device_open(const struct npu_device_options *opts, struct npu_device **dev);
void npu_device_close(struct npu_device *dev);
const struct npu_device_info *npu_device_info(const struct npu_device *dev);

/* What the device is doing. */
struct npu_device_state {
	bool lost; /* its firmware is gone */
	bool wedged; /* and no other may come: it was reset too often */
	uint32_t epoch;
	uint32_t nr_resets;
	uint64_t nr_jobs; /* completed since the device exists */
	uint64_t busy_ns; /* wall time spent on jobs since the device exists */
	uint64_t mem_bytes; /* all buffers */
};
int npu_device_state(struct npu_device *dev, struct npu_device_state *state);

/* Device calls made so far through @dev, by kind: for tests and for llm-bench's npu_jobs. */
struct npu_device_counts {
	uint64_t submits; /* SUBMIT calls */
	uint64_t jobs; /* jobs in them */
	uint64_t waits; /* WAIT and syncobj wait calls */
	uint64_t polls; /* completions seen on a status page without a call */
};
void npu_device_counts(const struct npu_device *dev, struct npu_device_counts *counts);

/* ---- contexts and buffers -------------------------------------------------------------------- */

/* An address space; contexts cannot reach one another's buffers. */
int npu_context_create(struct npu_device *dev, struct npu_context **ctx);
void npu_context_free(struct npu_context *ctx);

/* NPU_CONTEXT_* below; 0 while all is well. */
#define NPU_CONTEXT_TIMEDOUT (1u << 0)
#define NPU_CONTEXT_FAULT (1u << 1)
#define NPU_CONTEXT_FW_LOST (1u << 2)
struct npu_context_state {
	uint32_t state;
	uint64_t fault_va;
	bool fault_write;
	uint64_t seqno; /* the job that banned the context */
};
int npu_context_state(struct npu_context *ctx, struct npu_context_state *state);

#define NPU_BUFFER_DEVICE_READ_ONLY (1u << 0)

/* Zeroed memory that CPU and NPU share, mapped for the program and bound in the context. -ENOMEM
 * and -ENOSPC name the bytes that were wanted. */
int npu_buffer_create(struct npu_context *ctx, size_t size_bytes, uint32_t flags,
		      struct npu_buffer **buf);
void npu_buffer_free(struct npu_buffer *buf);
void *npu_buffer_data(const struct npu_buffer *buf); /* NULL after npu_buffer_unmap() */
/* Gives up the program's own view of the memory, for good: what is filled once and then read by the
 * device only counts once in the program's memory then. */
void npu_buffer_unmap(struct npu_buffer *buf);
size_t npu_buffer_size(const struct npu_buffer *buf);
uint64_t npu_buffer_va(const struct npu_buffer *buf);

/* ---- programs and jobs ----------------------------------------------------------------------- */

/* A compiled graph in device memory. The image is copied. -EINVAL names what is wrong with it. */
int npu_program_load(struct npu_context *ctx, const void *image, size_t image_bytes,
		     struct npu_program **prog);
void npu_program_free(struct npu_program *prog);

/* A program with its operands: a binding table. All symbols must be bound before it is submitted. A
 * job may be submitted again once it is done, with other operands or the same. Memory for its inner
 * results belongs to the queue that it is submitted to, whose jobs share it. */
int npu_job_create(struct npu_program *prog, struct npu_job **job);
/* Waits for the job if it is still in flight. */
void npu_job_free(struct npu_job *job);
/* Operand @symbol is @size_bytes at @offset of @buf. -ENOENT no such symbol, -ERANGE smaller than
 * the graph needs, -EINVAL @offset no multiple of 64 or outside the buffer, -EBUSY the job is in
 * flight. The job keeps the buffer. */
int npu_job_bind(struct npu_job *job, const char *symbol, struct npu_buffer *buf, size_t offset,
		 size_t size_bytes);
int npu_job_param(struct npu_job *job, const char *param, int64_t value);
/*
 * How long the device may go without a sign of life before the job fails; 0: the device's default.
 * A job that runs by then is to blame, and its context is banned (-ETIME); one that has not
 * started fails alone (-EBUSY).
 */
void npu_job_timeout(struct npu_job *job, uint32_t timeout_ms);

/*
 * What a job took, on two clocks: the device's, which is the modelled SoC's NPU
 * (docs/soc-model.md), and this host's. Device times are the same for each run with the same
 * params; they are 0 on a device without a profile. Cycles are of that NPU's clock. Waiting in
 * the queue is in neither.
 */
struct npu_job_times {
	uint64_t device_ns, device_cycles; /* the launch and all commands, one after another */
	/* From when the firmware took the job up until its last command was done. */
	uint64_t wall_ns;
	/* Of the job's stream, barriers and the end included: those that npuc dis lists. */
	uint32_t nr_commands;
};
/* The job's last submission. -EBUSY it is in flight, -EAGAIN it was never submitted, -ENODATA it
 * failed, was canceled or refused, -EOPNOTSUPP the device's ISA is older than 1.1. */
int npu_job_times(const struct npu_job *job, struct npu_job_times *times);

/* One command; times count from the job's start on either clock. */
struct npu_command_times {
	const char *op; /* as npuc dis names it; never freed */
	uint64_t device_start_ns, device_ns, device_cycles;
	/*
	 * Commands between two barriers run concurrently on this host, and have the time
	 * of all of them together.
	 */
	uint64_t wall_start_ns, wall_end_ns;
};
/* Have the times of single commands taken as well, in the job's submissions from here on. Costs
 * memory of 48 bytes a command, and two readings of the clock a barrier. -EBUSY the job is in
 * flight, -EOPNOTSUPP, -ENOMEM. */
int npu_job_time_commands(struct npu_job *job, bool on);
/* Command @i of the last submission. As npu_job_times(); -ENODATA also where the last submission
 * was without npu_job_time_commands(), -ERANGE @i is not below nr_commands. */
int npu_job_command(const struct npu_job *job, uint32_t i, struct npu_command_times *times);

/* ---- queues and fences ----------------------------------------------------------------------- */

enum npu_priority {
	NPU_PRIORITY_NORMAL = 0,
	NPU_PRIORITY_LOW,
	NPU_PRIORITY_HIGH,
};

struct npu_queue_options {
	enum npu_priority priority;
	uint32_t depth; /* power of two; 0: 16 */
};

/* Jobs of a queue run in order. */
int npu_queue_create(struct npu_context *ctx, const struct npu_queue_options *opts,
		     struct npu_queue **queue);
void npu_queue_free(struct npu_queue *queue);

/* A point of a timeline syncobj, or (point 0) a binary syncobj. */
struct npu_sync {
	struct npu_fence *fence;
	uint64_t point;
};

struct npu_submit_syncs {
	const struct npu_sync *wait; /* before the first job */
	unsigned int nr_wait;
	const struct npu_sync *signal; /* after the last job */
	unsigned int nr_signal;
};

/*
 * Submits @nr_jobs jobs with one device call, all or none. *@seqno: number of the last one in the
 * queue. A queue takes its depth and max_waiting_jobs more of jobs that are not done; who submits
 * more than that waits here until there is room.
 *
 * Only a job that signals has a fence, and a fence lasts max_fence_ms at the most: then it signals,
 * done or not, and the job fails (-EBUSY). So a job with a longer timeout cannot signal (-ERANGE).
 */
int npu_queue_submit(struct npu_queue *queue, struct npu_job *const *jobs, unsigned int nr_jobs,
		     const struct npu_submit_syncs *syncs, uint64_t *seqno);

enum npu_wait_mode {
	NPU_WAIT_DRIVER, /* sleep in WAIT */
	/*
	 * Poll the status page for about as long as such jobs took, then sleep in WAIT; at once, if
	 * they took more than 20 ms.
	 */
	NPU_WAIT_FAST,
};

/* Waits until job @seqno is done; @timeout_ns is relative, NPU_FOREVER for none. 0, -ETIMEDOUT (the
 * wait's), or the job's own failure: -EINVAL, -EFAULT, -ETIME (it ran for too long), -EBUSY (it
 * waited for too long), -ECANCELED, -EIO; npu_error() explains it. Failures are remembered for the
 * last depth + max_waiting_jobs jobs of a queue. */
int npu_queue_wait(struct npu_queue *queue, uint64_t seqno, int64_t timeout_ns,
		   enum npu_wait_mode mode);
/* Number of the last job that the status page shows as done: no device call. */
uint64_t npu_queue_completed(const struct npu_queue *queue);

int npu_fence_create(struct npu_device *dev, bool signaled, struct npu_fence **fence);
void npu_fence_free(struct npu_fence *fence);
/* @timeout_ns relative. -ETIMEDOUT. Point 0: the binary syncobj. */
int npu_fence_wait(struct npu_fence *fence, uint64_t point, int64_t timeout_ns);
int npu_fence_signal(struct npu_fence *fence, uint64_t point);
int npu_fence_query(struct npu_fence *fence, uint64_t *point);
/* *@fd: a sync_file of what signals the binary syncobj now, for another driver; the caller closes
 * it. -EOPNOTSUPP where vnpu.ko's parameter fence_export does not allow it, and on sim; -EINVAL
 * where nothing was submitted that signals it. */
int npu_fence_export(struct npu_fence *fence, int *fd);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* NPU_H */
