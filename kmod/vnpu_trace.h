/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints: a job from SUBMIT through the ring to its end, and events of devices and address
 * spaces.
 *
 * Fields are numbers and fixed arrays, no pointers, so that readers of the binary record can print
 * all of them. Common fields:
 *   dev             N of /dev/accel/accelN
 *   client          the open file, as drm-client-id in its fdinfo; pid and comm are of the
 *                   context's creator
 *   ctx, queue      the client's own ids; hwq is the device's slot that runs the queue
 *   *_ns            durations; the records have the times of events
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM vnpu

#if !defined(VNPU_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define VNPU_TRACE_H

#include <linux/ktime.h>
#include <linux/tracepoint.h>

#include "vnpu_queue.h"
/* clang-format off */

#define VNPU_TRACE_CTX_FIELDS                 \
	__field(u64, client)                  \
	__field(u32, dev)                     \
	__field(u32, ctx)                     \
	__field(s32, pid)                     \
	__array(char, comm, TASK_COMM_LEN)

#define VNPU_TRACE_CTX_ASSIGN(c)                                   \
	do {                                                       \
		__entry->client = (c)->client_id;                  \
		__entry->dev = (c)->vdev->drm.accel->index;        \
		__entry->ctx = (c)->id;                            \
		__entry->pid = (c)->pid;                           \
		memcpy(__entry->comm, (c)->comm, TASK_COMM_LEN);   \
	} while (0)

#define VNPU_TRACE_JOB_FIELDS   \
	VNPU_TRACE_CTX_FIELDS   \
	__field(u32, queue)     \
	__field(u32, hwq)       \
	__field(u64, seqno)

#define VNPU_TRACE_JOB_ASSIGN(q, j)              \
	do {                                     \
		VNPU_TRACE_CTX_ASSIGN((q)->ctx); \
		__entry->queue = (q)->id;        \
		__entry->hwq = (q)->hwq;         \
		__entry->seqno = (j)->sqe.seqno; \
	} while (0)

#define VNPU_TRACE_JOB_FMT "dev=%u client=%llu pid=%d comm=%s ctx=%u queue=%u hwq=%u seqno=%llu "
#define VNPU_TRACE_JOB_ARGS                                                            \
	__entry->dev, __entry->client, __entry->pid, __entry->comm, __entry->ctx,      \
		__entry->queue, __entry->hwq, __entry->seqno

/* SUBMIT has accepted the job, which may still wait for fences. */
TRACE_EVENT(vnpu_job_submit,
	TP_PROTO(const struct vnpu_queue *q, const struct vnpu_job *job),
	TP_ARGS(q, job),
	TP_STRUCT__entry(
		VNPU_TRACE_JOB_FIELDS
		__field(u64, cmd_va)
		__field(u32, cmd_bytes)
		__field(u32, table_bytes)
		__field(u32, priority)
		__field(u32, timeout_ms)
	),
	TP_fast_assign(
		VNPU_TRACE_JOB_ASSIGN(q, job);
		__entry->cmd_va = job->sqe.cmd_va;
		__entry->cmd_bytes = job->sqe.cmd_size;
		__entry->table_bytes = job->sqe.table_size;
		__entry->priority = job->sqe.priority;
		__entry->timeout_ms = jiffies_to_msecs(job->timeout);
	),
	TP_printk(VNPU_TRACE_JOB_FMT
		  "cmd_va=%#llx cmd_bytes=%u table_bytes=%u priority=%s timeout_ms=%u",
		  VNPU_TRACE_JOB_ARGS, __entry->cmd_va, __entry->cmd_bytes, __entry->table_bytes,
		  __print_symbolic(__entry->priority, { 0, "low" }, { 1, "normal" }, { 2, "high" }),
		  __entry->timeout_ms)
);

/* The job enters the ring: the device has it. */
TRACE_EVENT(vnpu_job_start,
	TP_PROTO(const struct vnpu_queue *q, const struct vnpu_job *job),
	TP_ARGS(q, job),
	TP_STRUCT__entry(
		VNPU_TRACE_JOB_FIELDS
		__field(u64, queued_ns)
	),
	TP_fast_assign(
		VNPU_TRACE_JOB_ASSIGN(q, job);
		__entry->queued_ns = job->started_ns - job->submitted_ns;
	),
	TP_printk(VNPU_TRACE_JOB_FMT "queued_ns=%llu", VNPU_TRACE_JOB_ARGS, __entry->queued_ns)
);

/*
 * The job has ended, and its fence, if any, is about to signal. duration_ns counts from
 * vnpu_job_start and is 0 for a job that never started; busy_ns is the time charged to the client
 * for it. by says whether the firmware or the kernel ended it.
 */
TRACE_EVENT(vnpu_job_complete,
	TP_PROTO(const struct vnpu_queue *q, const struct vnpu_job *job, int error,
		 bool by_firmware),
	TP_ARGS(q, job, error, by_firmware),
	TP_STRUCT__entry(
		VNPU_TRACE_JOB_FIELDS
		__field(u64, duration_ns)
		__field(u64, busy_ns)
		__field(s32, error)
		__field(u32, by)
	),
	TP_fast_assign(
		VNPU_TRACE_JOB_ASSIGN(q, job);
		__entry->duration_ns = job->started_ns ? ktime_get_ns() - job->started_ns : 0;
		__entry->busy_ns = job->busy_ns;
		__entry->error = error;
		__entry->by = by_firmware;
	),
	TP_printk(VNPU_TRACE_JOB_FMT "error=%d duration_ns=%llu busy_ns=%llu by=%s",
		  VNPU_TRACE_JOB_ARGS, __entry->error, __entry->duration_ns, __entry->busy_ns,
		  __print_symbolic(__entry->by, { 0, "kernel" }, { 1, "firmware" }))
);

/* The firmware reports an invalid access of the job; the context is banned. */
TRACE_EVENT(vnpu_fault,
	TP_PROTO(const struct vnpu_queue *q, const struct vnpu_job *job, u64 va, bool write),
	TP_ARGS(q, job, va, write),
	TP_STRUCT__entry(
		VNPU_TRACE_JOB_FIELDS
		__field(u64, va)
		__field(u32, access)
	),
	TP_fast_assign(
		VNPU_TRACE_JOB_ASSIGN(q, job);
		__entry->va = va;
		__entry->access = write;
	),
	TP_printk(VNPU_TRACE_JOB_FMT "va=%#llx access=%s", VNPU_TRACE_JOB_ARGS, __entry->va,
		  __print_symbolic(__entry->access, { 0, "read" }, { 1, "write" }))
);

/* One operation of a VM_BIND has been done. */
TRACE_EVENT(vnpu_bind,
	TP_PROTO(const struct vnpu_ctx *ctx, const struct drm_vnpu_bind_op *op),
	TP_ARGS(ctx, op),
	TP_STRUCT__entry(
		VNPU_TRACE_CTX_FIELDS
		__field(u64, va)
		__field(u64, bytes)
		__field(u64, bo_offset)
		__field(u32, handle)
		__field(u32, op)
		__field(u32, flags)
	),
	TP_fast_assign(
		VNPU_TRACE_CTX_ASSIGN(ctx);
		__entry->va = op->va;
		__entry->bytes = op->size;
		__entry->bo_offset = op->bo_offset;
		__entry->handle = op->handle;
		__entry->op = op->op;
		__entry->flags = op->flags;
	),
	TP_printk("dev=%u client=%llu pid=%d comm=%s ctx=%u op=%s va=%#llx bytes=%llu "
		  "handle=%u bo_offset=%llu flags=%s",
		  __entry->dev, __entry->client, __entry->pid, __entry->comm, __entry->ctx,
		  __print_symbolic(__entry->op, { 0, "map" }, { 1, "unmap" }), __entry->va,
		  __entry->bytes, __entry->handle, __entry->bo_offset,
		  __print_flags(__entry->flags, "|", { 1, "read_only" }))
);

/*
 * The device has lost its state; epoch is the new one. fw_pid is the firmware whose session ended.
 * cause is enum drm_vnpu_loss; exit is not a reset.
 */
TRACE_EVENT(vnpu_reset,
	TP_PROTO(const struct vnpu_device *vdev, u32 cause, pid_t fw_pid),
	TP_ARGS(vdev, cause, fw_pid),
	TP_STRUCT__entry(
		__field(u32, dev)
		__field(u32, cause)
		__field(u32, epoch)
		__field(u32, nr_resets)
		__field(u32, state)
		__field(s32, fw_pid)
	),
	TP_fast_assign(
		__entry->dev = vdev->drm.accel->index;
		__entry->cause = cause;
		__entry->epoch = vdev->epoch;
		__entry->nr_resets = vdev->nr_resets;
		__entry->state = vdev->wedged;
		__entry->fw_pid = fw_pid;
	),
	TP_printk("dev=%u cause=%s epoch=%u nr_resets=%u state=%s fw_pid=%d", __entry->dev,
		  __print_symbolic(__entry->cause, { 0, "none" }, { 1, "exit" },
				   { 2, "protocol" }, { 3, "hang" }, { 4, "forced" }),
		  __entry->epoch, __entry->nr_resets,
		  __print_symbolic(__entry->state, { 0, "lost" }, { 1, "wedged" }), __entry->fw_pid)
);
/* clang-format on */

#endif /* VNPU_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE vnpu_trace
#include <trace/define_trace.h>
