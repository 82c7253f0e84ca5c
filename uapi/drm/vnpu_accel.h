/* SPDX-License-Identifier: MIT */
/*
 * vnpu client ABI: the calls of a program to /dev/accel/accelN.
 *
 * Rules of this header
 * - Every structure is a multiple of 8 bytes, naturally aligned, without implicit padding and
 *   without unions, so that 32-bit and 64-bit programs share one layout.
 * - Every pad, every reserved field and every flag bit without a name here must be zero, else
 *   -EINVAL.
 * - Ids and flags are only appended. Zero in a field that an old program does not know keeps the
 *   old behaviour.
 * - Arrays travel as struct drm_vnpu_obj_array. The kernel extends elements smaller than its own
 *   with zeros, and accepts larger ones if the tail that it does not know is zero, else -E2BIG.
 * - Timeouts are absolute, in nanoseconds of CLOCK_MONOTONIC; a time in the past means "do not
 *   sleep".
 * - Ids (context, queue) belong to the open file that created them; 0 is never a valid id.
 * - A batch (VM_BIND, SUBMIT) is accepted as a whole or not at all.
 * - The driver's version (DRM_IOCTL_VERSION) is 1.N. Every addition to this header raises N;
 *   nothing is ever removed.
 * - The node supports these DRM core calls: VERSION, GET_CAP, SET_CLIENT_CAP, SET_CLIENT_NAME,
 *   GEM_CLOSE, SYNCOBJ_* and PRIME_*. All others return -EOPNOTSUPP.
 *
 * Errors common to the calls
 *   -EINVAL  a field has a value that no kernel of this version accepts
 *   -ENOENT  this file has no such handle, context or queue
 *   -EFAULT  a user pointer could not be read or written
 *   -EACCES  the caller may not use this priority
 *   -EMFILE  this file has reached its limit of contexts or queues (DEV_QUERY_LIMITS)
 *   -EDQUOT  this user (the uid that opened the file) has reached a limit of contexts, queues or
 *            bytes of buffers (DEV_QUERY_LIMITS), counted over all files; processes with
 *            CAP_SYS_RESOURCE are exempt
 *   -EBUSY   the device has no free context or queue slot at the moment, or no firmware for a new
 *            context
 *   -ENOSPC  the address range is already bound, the device's memory limit is reached, or the queue
 *            has reached its limit of waiting jobs
 *   -ERANGE  a job that signals a syncobj has a timeout longer than a fence may last
 *            (DEV_QUERY_LIMITS)
 *   -EOPNOTSUPP  exporting buffers or fences from this device is disabled (the module's parameters
 *            prime_export and fence_export)
 *   -ENOMEM  the host is out of memory
 *   -ECANCELED  the context is banned or its firmware was lost: destroy it and create a new one
 *   -EIO     the device is wedged and accepts no new contexts (DRM_VNPU_STATE_WEDGED)
 *   -ENODEV  the device was removed
 */
#ifndef _UAPI_VNPU_ACCEL_H_
#define _UAPI_VNPU_ACCEL_H_

#include "drm.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* Append only. */
enum drm_vnpu_ioctl_id {
	DRM_VNPU_DEV_QUERY = 0,
	DRM_VNPU_BO_CREATE = 1,
	DRM_VNPU_BO_INFO = 2,
	DRM_VNPU_CTX_CREATE = 3,
	DRM_VNPU_CTX_DESTROY = 4,
	DRM_VNPU_CTX_GET_STATE = 5,
	DRM_VNPU_VM_BIND = 6,
	DRM_VNPU_QUEUE_CREATE = 7,
	DRM_VNPU_QUEUE_DESTROY = 8,
	DRM_VNPU_SUBMIT = 9,
	DRM_VNPU_WAIT = 10,
};

/*
 * Buffers, addresses and bindings are in units of this page size, whatever the host's page size is.
 */
#define DRM_VNPU_PAGE_SIZE 4096

/**
 * struct drm_vnpu_obj_array - an array in user memory.
 */
struct drm_vnpu_obj_array {
	/** @stride: size of an element in bytes, as the caller was compiled. */
	__u32 stride;
	/** @count: number of elements. */
	__u32 count;
	/** @array: user pointer to the first element; 0 if @count is 0. */
	__u64 array;
};

/* ---- DEV_QUERY ------------------------------------------------------------------------------- */

enum drm_vnpu_query {
	/** @DRM_VNPU_QUERY_DEVICE: struct drm_vnpu_query_device. */
	DRM_VNPU_QUERY_DEVICE = 0,
	/** @DRM_VNPU_QUERY_LIMITS: struct drm_vnpu_query_limits. */
	DRM_VNPU_QUERY_LIMITS = 1,
	/** @DRM_VNPU_QUERY_STATE: struct drm_vnpu_query_state. */
	DRM_VNPU_QUERY_STATE = 2,
};

/**
 * struct drm_vnpu_query_device - properties of the device. They do not change while it exists.
 */
struct drm_vnpu_query_device {
	/** @name: name that the firmware gave the device, NUL-terminated. */
	char name[32];
	/** @isa_version: command-stream ISA, major << 16 | minor. */
	__u32 isa_version;
	/** @fw_abi: version of the ABI in use between kernel and firmware. */
	__u32 fw_abi;
	/** @fw_features: opaque feature bits that the firmware announced. */
	__u64 fw_features;
	/** @va_bits: a context's address space is 1 << @va_bits bytes. */
	__u32 va_bits;
	/** @pad: zero. */
	__u32 pad;
};

/**
 * struct drm_vnpu_query_limits - limits of one file, one user and the device.
 *
 * A queue counts until it is destroyed and its status page is mapped nowhere; a context until its
 * queues count no more and the firmware has released it, which is shortly after its destruction. A
 * buffer counts until its memory is freed, always for the user who created it.
 */
struct drm_vnpu_query_limits {
	/** @max_ctx_per_file: contexts per open file. */
	__u32 max_ctx_per_file;
	/** @max_queues_per_file: queues per open file. */
	__u32 max_queues_per_file;
	/** @max_queue_depth: largest depth of a queue. */
	__u32 max_queue_depth;
	/** @max_jobs_per_submit: largest number of jobs in one SUBMIT. */
	__u32 max_jobs_per_submit;
	/** @max_syncs_per_job: largest number of sync operations in a job. */
	__u32 max_syncs_per_job;
	/**
	 * @max_waiting_jobs: jobs per queue that may wait in the kernel, in addition to the
	 * &drm_vnpu_queue_create.depth that the device holds. A SUBMIT that would exceed it returns
	 * -ENOSPC; a WAIT for an older job makes room.
	 */
	__u32 max_waiting_jobs;
	/** @max_binds_per_call: largest number of operations in one VM_BIND. */
	__u32 max_binds_per_call;
	/** @priorities: if bit n is set, the caller may create a queue of priority n. */
	__u32 priorities;
	/** @max_bo_bytes: largest size of a buffer. */
	__u64 max_bo_bytes;
	/** @mem_limit_bytes: limit for the sum of all buffers of the device. */
	__u64 mem_limit_bytes;
	/** @max_cmd_bytes: largest size of a job's command stream, and of its binding table. */
	__u32 max_cmd_bytes;
	/** @default_timeout_ms: timeout of a job that does not set one. */
	__u32 default_timeout_ms;
	/**
	 * @max_timeout_ms: largest timeout that a job may set, and the longest that a job may run.
	 */
	__u32 max_timeout_ms;
	/**
	 * @max_fence_ms: longest lifetime of a job's fence, from SUBMIT to its signal. A job that
	 * signals a syncobj may not set a longer timeout.
	 */
	__u32 max_fence_ms;
	/** @max_ctx_per_user: contexts per user, over all open files. */
	__u32 max_ctx_per_user;
	/** @max_queues_per_user: queues per user, over all open files. */
	__u32 max_queues_per_user;
	/** @max_bytes_per_user: limit for the sum of a user's buffers. */
	__u64 max_bytes_per_user;
};

enum drm_vnpu_device_state {
	/** @DRM_VNPU_STATE_READY: a firmware is attached. */
	DRM_VNPU_STATE_READY = 0,
	/** @DRM_VNPU_STATE_LOST: the firmware is gone; submissions fail until another attaches. */
	DRM_VNPU_STATE_LOST = 1,
	/**
	 * @DRM_VNPU_STATE_WEDGED: the device was reset too often in a short time. It accepts no
	 * firmware and has to be removed. A uevent of the node announced it
	 * (WEDGED=vendor-specific).
	 */
	DRM_VNPU_STATE_WEDGED = 2,
};

/** enum drm_vnpu_loss - the reason for which the device last lost its state. */
enum drm_vnpu_loss {
	/** @DRM_VNPU_LOSS_NONE: it has never lost it. */
	DRM_VNPU_LOSS_NONE = 0,
	/** @DRM_VNPU_LOSS_EXIT: the firmware exited. This does not count as a reset. */
	DRM_VNPU_LOSS_EXIT = 1,
	/**
	 * @DRM_VNPU_LOSS_PROTOCOL: the kernel reset the device because the firmware broke the
	 * protocol.
	 */
	DRM_VNPU_LOSS_PROTOCOL = 2,
	/**
	 * @DRM_VNPU_LOSS_HANG: the kernel reset the device because the firmware did not answer in
	 * time.
	 */
	DRM_VNPU_LOSS_HANG = 3,
	/** @DRM_VNPU_LOSS_FORCED: an administrator reset the device. */
	DRM_VNPU_LOSS_FORCED = 4,
};

/** struct drm_vnpu_query_state - present state of the device. */
struct drm_vnpu_query_state {
	/** @state: enum drm_vnpu_device_state. */
	__u32 state;
	/** @epoch: starts at 1 and increments whenever the device loses its state. */
	__u32 epoch;
	/** @busy_ns: wall-clock time that the device has spent on jobs. */
	__u64 busy_ns;
	/** @mem_bytes: sum of the sizes of all buffers of the device. */
	__u64 mem_bytes;
	/** @nr_jobs: jobs that the device has completed. */
	__u64 nr_jobs;
	/** @nr_resets: resets of the device by the kernel. */
	__u32 nr_resets;
	/** @last_loss: enum drm_vnpu_loss. */
	__u32 last_loss;
};

/**
 * struct drm_vnpu_dev_query - argument of DRM_IOCTL_VNPU_DEV_QUERY.
 *
 * If @pointer is 0, the call returns the kernel's size of the structure in @size. Otherwise the
 * kernel copies min(@size, its own size) bytes, clears the rest of the caller's structure and
 * returns its own size in @size. A @size above DRM_VNPU_PAGE_SIZE is -EINVAL.
 */
struct drm_vnpu_dev_query {
	/** @type: enum drm_vnpu_query. */
	__u32 type;
	/** @size: bytes at @pointer. */
	__u32 size;
	/** @pointer: where the kernel writes the structure, or 0. */
	__u64 pointer;
};

/* ---- buffers --------------------------------------------------------------------------------- */

/** The device may only read the buffer: VM_BIND refuses a MAP without DRM_VNPU_BIND_READ_ONLY. */
#define DRM_VNPU_BO_DEVICE_READ_ONLY (1u << 0)

/**
 * struct drm_vnpu_bo_create - argument of DRM_IOCTL_VNPU_BO_CREATE.
 *
 * Creates a buffer of cached, zeroed memory. It lives until GEM_CLOSE, and as long as it is bound
 * or mapped.
 */
struct drm_vnpu_bo_create {
	/** @size: bytes wanted; out: rounded up to a multiple of the page size. */
	__u64 size;
	/** @flags: DRM_VNPU_BO_*. */
	__u32 flags;
	/** @handle: out, the GEM handle. */
	__u32 handle;
};

/**
 * struct drm_vnpu_bo_info - argument of DRM_IOCTL_VNPU_BO_INFO.
 */
struct drm_vnpu_bo_info {
	/** @handle: GEM handle. */
	__u32 handle;
	/** @flags: out, DRM_VNPU_BO_* of the buffer. */
	__u32 flags;
	/** @size: out, bytes. */
	__u64 size;
	/** @mmap_offset: out, offset for mmap() on the same file. */
	__u64 mmap_offset;
};

/* ---- contexts and addresses ------------------------------------------------------------------ */

/**
 * struct drm_vnpu_ctx_create - argument of DRM_IOCTL_VNPU_CTX_CREATE.
 *
 * A context is an address space and the queues that work in it. Contexts cannot access one
 * another's memory.
 */
struct drm_vnpu_ctx_create {
	/** @flags: must be zero. */
	__u32 flags;
	/** @ctx_id: out. */
	__u32 ctx_id;
	/** @va_start: out, lowest address that can be bound. */
	__u64 va_start;
	/** @va_range: out, bytes from @va_start that can be bound. */
	__u64 va_range;
};

/**
 * struct drm_vnpu_ctx_destroy - argument of DRM_IOCTL_VNPU_CTX_DESTROY.
 *
 * Destroys the context with its queues and bindings. Jobs in flight end with -ECANCELED.
 */
struct drm_vnpu_ctx_destroy {
	/** @ctx_id: the context. */
	__u32 ctx_id;
	/** @pad: zero. */
	__u32 pad;
};

/*
 * A context with DRM_VNPU_CTX_FW_LOST alone did nothing wrong: the firmware failed, or a job of
 * another context made it fail. With another bit beside it, the context was banned before the loss.
 */
/** A job of the context started and exceeded its timeout; the context is banned. */
#define DRM_VNPU_CTX_TIMEDOUT (1u << 0)
/**
 * A job accessed an address that was not bound, or wrote to a read-only binding; the context is
 * banned.
 */
#define DRM_VNPU_CTX_FAULT (1u << 1)
/**
 * The firmware was lost while the context existed, and its jobs in flight failed; the context is
 * banned.
 */
#define DRM_VNPU_CTX_FW_LOST (1u << 2)

/** The faulting access was a write. */
#define DRM_VNPU_FAULT_WRITE (1u << 0)

/**
 * struct drm_vnpu_ctx_get_state - argument of DRM_IOCTL_VNPU_CTX_GET_STATE.
 */
struct drm_vnpu_ctx_get_state {
	/** @ctx_id: the context. */
	__u32 ctx_id;
	/** @state: out, DRM_VNPU_CTX_*; 0 if nothing went wrong. */
	__u32 state;
	/** @fault_va: out, first faulting address if @state has DRM_VNPU_CTX_FAULT. */
	__u64 fault_va;
	/** @seqno: out, the job in @queue_id that banned the context; 0 if no job did. */
	__u64 seqno;
	/** @queue_id: out, the queue of @seqno. */
	__u32 queue_id;
	/** @fault_flags: out, DRM_VNPU_FAULT_*. */
	__u32 fault_flags;
	/** @epoch: out, the device's present epoch. */
	__u32 epoch;
	/** @pad: zero. */
	__u32 pad;
};

enum drm_vnpu_bind_op_type {
	DRM_VNPU_BIND_MAP = 0,
	DRM_VNPU_BIND_UNMAP = 1,
};

/** The device may only read through this binding; a write faults. */
#define DRM_VNPU_BIND_READ_ONLY (1u << 0)

/**
 * struct drm_vnpu_bind_op - one element of &drm_vnpu_vm_bind.ops.
 *
 * MAP binds @size bytes of a buffer, from @bo_offset on, at address @va; the range must be free
 * (-ENOSPC). UNMAP removes one binding: @va and @size must be those of its MAP (-ENOENT); @handle,
 * @bo_offset and @flags must be zero. @bo_offset, @va and @size are multiples of
 * DRM_VNPU_PAGE_SIZE. After UNMAP has returned, the device cannot access the memory; a job that
 * still tries faults.
 */
struct drm_vnpu_bind_op {
	/** @op: enum drm_vnpu_bind_op_type. */
	__u32 op;
	/** @flags: DRM_VNPU_BIND_*. */
	__u32 flags;
	/** @handle: GEM handle. */
	__u32 handle;
	/** @pad: zero. */
	__u32 pad;
	/** @bo_offset: first byte of the buffer. */
	__u64 bo_offset;
	/** @va: first address. */
	__u64 va;
	/** @size: bytes. */
	__u64 size;
};

/**
 * struct drm_vnpu_vm_bind - argument of DRM_IOCTL_VNPU_VM_BIND. Synchronous; carries out all
 * operations or none.
 */
struct drm_vnpu_vm_bind {
	/** @ctx_id: the context. */
	__u32 ctx_id;
	/** @flags: must be zero. */
	__u32 flags;
	/** @ops: array of struct drm_vnpu_bind_op, carried out in order. */
	struct drm_vnpu_obj_array ops;
};

/* ---- queues ---------------------------------------------------------------------------------- */

enum drm_vnpu_priority {
	DRM_VNPU_PRIORITY_LOW = 0,
	DRM_VNPU_PRIORITY_NORMAL = 1,
	/** @DRM_VNPU_PRIORITY_HIGH: needs CAP_SYS_NICE. */
	DRM_VNPU_PRIORITY_HIGH = 2,
};

/**
 * struct drm_vnpu_queue_status - the first bytes of a queue's status page.
 *
 * The kernel owns the page. A client maps it read-only (PROT_READ, one page, at
 * &drm_vnpu_queue_create.status_offset) and may poll it instead of calling WAIT. @completed_seqno
 * is stored with release order after the job's results are in memory, so read it with acquire
 * order. It never decreases. It may be ahead of the end of the job that WAIT and syncobjs report;
 * where the two differ, WAIT is authoritative. A job that fails advances @completed_seqno as well,
 * and sets @error.
 *
 * The device writes @started_seqno and @progress. The kernel does not trust their values: it only
 * checks whether they change, see &drm_vnpu_job.timeout_ms.
 */
struct drm_vnpu_queue_status {
	/** @completed_seqno: all jobs up to this one have ended. */
	__u64 completed_seqno;
	/** @error: 0, or the positive errno of the queue's first job that failed. */
	__u32 error;
	/** @epoch: the device's epoch; changes when the firmware is lost. */
	__u32 epoch;
	/** @started_seqno: the job of the queue that the device works on, or last worked on. */
	__u64 started_seqno;
	/**
	 * @progress: increments while the device works on the queue's jobs. It wraps; only changes
	 * matter.
	 */
	__u64 progress;
};

/**
 * struct drm_vnpu_queue_create - argument of DRM_IOCTL_VNPU_QUEUE_CREATE.
 *
 * The jobs of a queue run one after another in the order of submission. Jobs of different queues
 * run in any order.
 */
struct drm_vnpu_queue_create {
	/** @ctx_id: the context. */
	__u32 ctx_id;
	/** @priority: enum drm_vnpu_priority. */
	__u32 priority;
	/**
	 * @depth: jobs that the device holds at once, a power of two. Further jobs wait in the
	 * kernel, up to &drm_vnpu_query_limits.max_waiting_jobs.
	 */
	__u32 depth;
	/** @flags: must be zero. */
	__u32 flags;
	/** @queue_id: out. */
	__u32 queue_id;
	/** @pad: zero. */
	__u32 pad;
	/** @status_offset: out, offset of the status page for mmap() on the same file. */
	__u64 status_offset;
};

/**
 * struct drm_vnpu_queue_destroy - argument of DRM_IOCTL_VNPU_QUEUE_DESTROY. Jobs in flight end with
 * -ECANCELED.
 */
struct drm_vnpu_queue_destroy {
	/** @queue_id: the queue. */
	__u32 queue_id;
	/** @pad: zero. */
	__u32 pad;
};

/* ---- jobs ------------------------------------------------------------------------------------ */

/** Signal the syncobj when the job ends. Without this flag the job waits for the syncobj. */
#define DRM_VNPU_SYNC_SIGNAL (1u << 0)

/**
 * struct drm_vnpu_sync_op - wait for a syncobj, or signal it.
 *
 * A job that signals has a fence. Others may wait for the fence, so its lifetime is bounded: if the
 * job is not done &drm_vnpu_query_limits.max_fence_ms after SUBMIT, the fence signals with
 * -ETIMEDOUT, whether the job waits or runs. The job then ends with -EBUSY as soon as the jobs
 * before it in its queue have ended. A job that signals nothing has no fence; WAIT and the status
 * page report its end.
 */
struct drm_vnpu_sync_op {
	/** @flags: DRM_VNPU_SYNC_*. */
	__u32 flags;
	/** @handle: syncobj. */
	__u32 handle;
	/** @timeline_value: the timeline point, or 0 for a binary syncobj. */
	__u64 timeline_value;
};

/**
 * struct drm_vnpu_job - one element of &drm_vnpu_submit.jobs.
 *
 * The kernel does not read the stream or the table. The firmware copies both into private memory
 * and validates them before it runs the first command.
 */
struct drm_vnpu_job {
	/** @queue_id: queue of &drm_vnpu_submit.ctx_id. */
	__u32 queue_id;
	/** @flags: must be zero. */
	__u32 flags;
	/** @cmd_va: address of the command stream in the context, a multiple of 8. */
	__u64 cmd_va;
	/** @table_va: address of the binding table in the context, a multiple of 8. */
	__u64 table_va;
	/** @cmd_size: bytes at @cmd_va, a multiple of 8, not 0. */
	__u32 cmd_size;
	/** @table_size: bytes at @table_va, a multiple of 8, not 0. */
	__u32 table_size;
	/**
	 * @timeout_ms: longest time that the device may show no progress; 0 for the default. A job
	 * that has started must make progress itself and may run for
	 * &drm_vnpu_query_limits.max_timeout_ms in all; otherwise it fails with -ETIMEDOUT and its
	 * context is banned. For a job that waits for the device, any progress of the device
	 * counts; after ten times max_timeout_ms it fails with -EBUSY, and its context is not
	 * banned because other jobs are to blame. If the device stops, a job fails within
	 * @timeout_ms + 1 s.
	 */
	__u32 timeout_ms;
	/** @pad: zero. */
	__u32 pad;
	/** @syncs: array of struct drm_vnpu_sync_op. */
	struct drm_vnpu_obj_array syncs;
	/** @seqno: out, the job's number in its queue: 1, 2, 3, ... */
	__u64 seqno;
};

/**
 * struct drm_vnpu_submit - argument of DRM_IOCTL_VNPU_SUBMIT.
 */
struct drm_vnpu_submit {
	/** @ctx_id: the context. */
	__u32 ctx_id;
	/** @flags: must be zero. */
	__u32 flags;
	/** @jobs: array of struct drm_vnpu_job. */
	struct drm_vnpu_obj_array jobs;
};

/**
 * struct drm_vnpu_wait - argument of DRM_IOCTL_VNPU_WAIT.
 *
 * Waits until the job @seqno of the queue has ended. Returns 0 with the job's result in @status;
 * -ETIMEDOUT if @timeout_ns passes first; -EINVAL if no job with this number was submitted yet.
 */
struct drm_vnpu_wait {
	/** @queue_id: the queue. */
	__u32 queue_id;
	/** @flags: must be zero. */
	__u32 flags;
	/** @seqno: the job. */
	__u64 seqno;
	/** @timeout_ns: absolute, CLOCK_MONOTONIC. */
	__s64 timeout_ns;
	/**
	 * @status: out, 0 or a negative errno: -EINVAL the firmware refused the stream; -EFAULT an
	 * MMU fault; -ETIMEDOUT the job ran for too long; -EBUSY the job waited for too long;
	 * -ECANCELED the job was cancelled; -EIO the firmware failed, broke its protocol or was
	 * lost. The kernel keeps the results of the last @depth + @max_waiting_jobs jobs of a
	 * queue. For an older job it reports an error if that job or a later forgotten one failed.
	 */
	__s32 status;
	/** @epoch: out, the device's epoch. */
	__u32 epoch;
};

#define DRM_IOCTL_VNPU_DEV_QUERY \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VNPU_DEV_QUERY, struct drm_vnpu_dev_query)
#define DRM_IOCTL_VNPU_BO_CREATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VNPU_BO_CREATE, struct drm_vnpu_bo_create)
#define DRM_IOCTL_VNPU_BO_INFO \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VNPU_BO_INFO, struct drm_vnpu_bo_info)
#define DRM_IOCTL_VNPU_CTX_CREATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VNPU_CTX_CREATE, struct drm_vnpu_ctx_create)
#define DRM_IOCTL_VNPU_CTX_DESTROY \
	DRM_IOW(DRM_COMMAND_BASE + DRM_VNPU_CTX_DESTROY, struct drm_vnpu_ctx_destroy)
#define DRM_IOCTL_VNPU_CTX_GET_STATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VNPU_CTX_GET_STATE, struct drm_vnpu_ctx_get_state)
#define DRM_IOCTL_VNPU_VM_BIND DRM_IOW(DRM_COMMAND_BASE + DRM_VNPU_VM_BIND, struct drm_vnpu_vm_bind)
#define DRM_IOCTL_VNPU_QUEUE_CREATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VNPU_QUEUE_CREATE, struct drm_vnpu_queue_create)
#define DRM_IOCTL_VNPU_QUEUE_DESTROY \
	DRM_IOW(DRM_COMMAND_BASE + DRM_VNPU_QUEUE_DESTROY, struct drm_vnpu_queue_destroy)
#define DRM_IOCTL_VNPU_SUBMIT DRM_IOW(DRM_COMMAND_BASE + DRM_VNPU_SUBMIT, struct drm_vnpu_submit)
#define DRM_IOCTL_VNPU_WAIT DRM_IOWR(DRM_COMMAND_BASE + DRM_VNPU_WAIT, struct drm_vnpu_wait)

#if defined(__cplusplus)
}
#endif

#endif /* _UAPI_VNPU_ACCEL_H_ */
