/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * vnpu device-side ABI: the interface between a firmware process and vnpu.ko.
 *
 * A firmware opens /dev/vnpu-control and calls ADD_DEV (a new device) or ATTACH (a device without a
 * firmware). Either returns the firmware fd; START on it makes /dev/accel/accelN appear, or marks
 * the device ready again. The process plays the hardware: the kernel treats every word that it
 * writes as hostile.
 *
 * The firmware fd is one file of 64-bit offsets:
 *
 *   offset 0                        read-only: struct vnpu_fw_info, one page
 *   &vnpu_fw_info.sq_offset         read-only: submission ring, struct vnpu_fw_sqe[sq_entries]
 *   &vnpu_fw_info.ctl_offset        writable:  struct vnpu_fw_ctl, one page
 *   &vnpu_fw_info.cq_offset         writable:  completion ring, struct vnpu_fw_cqe[cq_entries]
 *   &vnpu_fw_info.status_offset     writable:  status pages, queue q at + q * 4096
 *                                              (struct drm_vnpu_queue_status)
 *   ctx << va_bits, ctx = 1, 2, ... the aperture of context ctx: its address space, page for page
 *
 * An aperture may be mapped MAP_SHARED, as a whole or in part, any number of times. An access to an
 * address that the client has not bound raises SIGBUS with the address, and so does a write through
 * a read-only binding. Unbinding, and the end of the context, remove the pages at once. A context's
 * number is reused only after its apertures are unmapped and CTX_CLOSED was answered.
 *
 * Rings: indices are free-running u32; an entry's position is index & (entries - 1). The producer
 * stores an entry, then its tail with release order. The consumer loads the tail with acquire
 * order, and stores its head with release order when it is done with the entries. The submission
 * ring has room for everything that can be in flight, so the kernel never waits for room, and a
 * head that makes the ring look full is a protocol error.
 *
 * Running a job: the firmware stores started_seqno in the queue's status page with release order
 * before the first command, and increments progress with each unit of work (a tile, a command). The
 * kernel uses both to tell a long job from a hung one. It does not trust them: a job that reports
 * progress for ever is ended by its timeout all the same.
 *
 * Completing a job: with the results in memory, the firmware
 * - stores error in the queue's status page, if the job failed in the firmware;
 * - raises completed_seqno there with release order, if the job succeeded or failed in the
 *   firmware;
 * - posts the completion entry, and calls ENTER when convenient.
 *
 * The kernel also raises completed_seqno, for jobs that it ends itself, so the firmware raises it
 * by compare-and-swap and never lowers it. The kernel drops an entry with an unknown type or flag,
 * with an unknown or stale tag, with a pad that is not zero, or out of its queue's order; it keeps
 * no state that a firmware can corrupt. The jobs of a queue are answered in order, cancelled ones
 * too: the answer to a job says that the device is done with all jobs before it.
 *
 * Owed answers: the firmware must answer every cancelled job and every closed context within the
 * module's reset_ms. The kernel resets a firmware that does not, or whose ring indices are invalid.
 *
 * The end of a session, by a reset, by DEL_DEV or by rmmod: first &vnpu_fw_info.over is set, ENTER
 * returns an error from then on and poll() reports POLLHUP. Only then are the session's mappings
 * revoked, and an access to them raises SIGBUS. The session's jobs fail with -EIO, every context is
 * lost and the epoch increments. The firmware closes the fd then, and may ATTACH. After the
 * module's max_resets resets within its reset_window_s the device is wedged: ATTACH fails with
 * -EIO, and only DEL_DEV is left.
 *
 * Extensions: the structures of ADD_DEV and ATTACH begin with their size. The kernel treats a
 * shorter structure as if its tail were zero, and accepts a longer one if the tail that it does not
 * know is zero, else -E2BIG. The other structures are known by the size in their call's number. A
 * change of the rings' meaning is a bit of VNPU_FW_FEATURES: the firmware sets the bits that it
 * understands, the kernel returns those that are in use.
 *
 * Wakeups: the kernel wakes the firmware only if it waits in ENTER or poll(). While the firmware
 * polls the ring, SUBMIT is the only system call that a job costs its client.
 */
#ifndef _UAPI_LINUX_VNPU_FW_H
#define _UAPI_LINUX_VNPU_FW_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define VNPU_FW_CONTROL_NODE "vnpu-control"

/*
 * The type of all calls below; no other driver uses 0xDA
 * (Documentation/userspace-api/ioctl/ioctl-number.rst).
 */
#define VNPU_FW_IOC 0xDA

/* Version of the ABI. The kernel accepts VNPU_FW_ABI_MIN to VNPU_FW_ABI. */
#define VNPU_FW_ABI 1
#define VNPU_FW_ABI_MIN 1

/* Bits of &vnpu_ctl_add_dev.abi_features that the kernel supports: none yet. */
#define VNPU_FW_FEATURES 0ULL

/* "VNPUFWI\0" */
#define VNPU_FW_INFO_MAGIC 0x00495746554e5056ULL

/* Limits of the fields of &vnpu_ctl_add_dev. */
#define VNPU_FW_MAX_QUEUES 1024
#define VNPU_FW_MAX_DEPTH 1024
/* Limit of nr_queues * queue_depth: the rings have room for all of these jobs. */
#define VNPU_FW_MAX_JOBS 65536
#define VNPU_FW_MAX_CTX 1024
#define VNPU_FW_MIN_VA_BITS 30
#define VNPU_FW_MAX_VA_BITS 40
#define VNPU_FW_MAX_TIMEOUT_MS 3600000

/* ---- /dev/vnpu-control ----------------------------------------------------------------------- */

/** struct vnpu_ctl_version - the ABI versions and features of the kernel. */
struct vnpu_ctl_version {
	/** @min: lowest ABI version accepted. */
	__u32 min;
	/** @max: highest ABI version accepted. */
	__u32 max;
	/** @features: VNPU_FW_FEATURES of this kernel. */
	__u64 features;
};

/**
 * struct vnpu_ctl_add_dev - create a device. Clients see it after START.
 *
 * A device that was never started ends with its firmware fd. A started one stays when its firmware
 * dies: it fails the jobs in flight and waits for ATTACH, until DEL_DEV.
 */
struct vnpu_ctl_add_dev {
	/** @size: size of this structure in bytes, as the caller was compiled. */
	__u32 size;
	/** @version: VNPU_FW_ABI; -EPROTO if the kernel does not accept it. */
	__u32 version;
	/**
	 * @abi_features: in: VNPU_FW_FEATURES that the firmware understands; out: the subset in
	 * use.
	 */
	__u64 abi_features;
	/** @client_features: reported to clients as &drm_vnpu_query_device.fw_features. */
	__u64 client_features;
	/** @name: reported to clients, NUL-terminated, printable. */
	char name[32];
	/** @isa_version: reported to clients. */
	__u32 isa_version;
	/** @nr_queues: queues of the device, 1..VNPU_FW_MAX_QUEUES. */
	__u32 nr_queues;
	/**
	 * @queue_depth: jobs per queue in the ring, a power of two up to VNPU_FW_MAX_DEPTH;
	 * @nr_queues * @queue_depth is at most VNPU_FW_MAX_JOBS.
	 */
	__u32 queue_depth;
	/** @nr_ctx: contexts of the device, 1..VNPU_FW_MAX_CTX. */
	__u32 nr_ctx;
	/**
	 * @va_bits: size of a context's address space, VNPU_FW_MIN_VA_BITS..VNPU_FW_MAX_VA_BITS.
	 */
	__u32 va_bits;
	/** @flags: must be zero. */
	__u32 flags;
	/** @mem_limit: limit for the device's buffers in bytes, 0 for half of the host's memory. */
	__u64 mem_limit;
	/** @dev_id: out. */
	__u32 dev_id;
	/** @fw_fd: out, the firmware fd, close-on-exec. */
	__s32 fw_fd;
	/**
	 * @timeout_ms: timeout of a job that does not set one, at most @max_timeout_ms; 0 for the
	 * module's parameter.
	 */
	__u32 timeout_ms;
	/**
	 * @max_timeout_ms: largest timeout that a job may set, up to VNPU_FW_MAX_TIMEOUT_MS; 0 for
	 * the module's parameter.
	 */
	__u32 max_timeout_ms;
	/**
	 * @user_ctx: contexts per user (uid), up to @nr_ctx; 0 for half of them, at least one.
	 * Processes with CAP_SYS_RESOURCE are exempt from this and the next two limits.
	 */
	__u32 user_ctx;
	/** @user_queues: queues per user, up to @nr_queues; 0 for half of them, at least one. */
	__u32 user_queues;
	/** @user_mem: limit for a user's buffers in bytes, 0 for half of the host's memory. */
	__u64 user_mem;
};

/**
 * struct vnpu_ctl_attach - take over a device whose firmware is gone. Returns -EBUSY if the device
 * has a firmware, -EIO if it is wedged.
 */
struct vnpu_ctl_attach {
	/** @size: size of this structure in bytes, as the caller was compiled. */
	__u32 size;
	/** @version: VNPU_FW_ABI. */
	__u32 version;
	/** @abi_features: as in &vnpu_ctl_add_dev. */
	__u64 abi_features;
	/** @dev_id: the device. */
	__u32 dev_id;
	/** @fw_fd: out. */
	__s32 fw_fd;
};

/** struct vnpu_ctl_del_dev - remove a device. Clients get -ENODEV from then on. */
struct vnpu_ctl_del_dev {
	/** @dev_id: the device. */
	__u32 dev_id;
	/** @flags: must be zero. */
	__u32 flags;
};

enum vnpu_ctl_dev_state {
	/** @VNPU_CTL_DEV_NEW: added, not started. */
	VNPU_CTL_DEV_NEW = 0,
	/** @VNPU_CTL_DEV_READY: a firmware runs it. */
	VNPU_CTL_DEV_READY = 1,
	/** @VNPU_CTL_DEV_LOST: started, without a firmware. */
	VNPU_CTL_DEV_LOST = 2,
	/** @VNPU_CTL_DEV_WEDGED: was reset too often and accepts no firmware any more. */
	VNPU_CTL_DEV_WEDGED = 3,
};

/** struct vnpu_ctl_info - query a device; repeated calls list all devices. */
struct vnpu_ctl_info {
	/**
	 * @dev_id: in: the lowest id of interest; out: the first device with this id or a higher
	 * one. -ENOENT if there is none.
	 */
	__u32 dev_id;
	/** @state: out, enum vnpu_ctl_dev_state. */
	__u32 state;
	/** @accel_minor: out, N of /dev/accel/accelN, or -1 before START. */
	__s32 accel_minor;
	/** @fw_pid: out, the process that was given the firmware fd, or 0 without a firmware. */
	__s32 fw_pid;
	/** @epoch: out. */
	__u32 epoch;
	/** @pad: zero. */
	__u32 pad;
	/** @name: out. */
	char name[32];
};

#define VNPU_CTL_VERSION _IOR(VNPU_FW_IOC, 0x00, struct vnpu_ctl_version)
#define VNPU_CTL_ADD_DEV _IOWR(VNPU_FW_IOC, 0x01, struct vnpu_ctl_add_dev)
#define VNPU_CTL_ATTACH _IOWR(VNPU_FW_IOC, 0x02, struct vnpu_ctl_attach)
#define VNPU_CTL_DEL_DEV _IOW(VNPU_FW_IOC, 0x03, struct vnpu_ctl_del_dev)
#define VNPU_CTL_INFO _IOWR(VNPU_FW_IOC, 0x04, struct vnpu_ctl_info)

/* ---- the firmware fd: memory ----------------------------------------------------------------- */

/**
 * struct vnpu_fw_info - the first page of the firmware fd; read-only for the firmware.
 */
struct vnpu_fw_info {
	/** @magic: VNPU_FW_INFO_MAGIC. The fields that do not change fill two cache lines. */
	__u64 magic;
	/** @version: the ABI version in use. */
	__u32 version;
	/** @epoch: the device's epoch. */
	__u32 epoch;
	/** @sq_entries: entries of the submission ring, a power of two. */
	__u32 sq_entries;
	/** @cq_entries: entries of the completion ring, a power of two. */
	__u32 cq_entries;
	/** @nr_queues: as given to ADD_DEV. Queue numbers are 0..@nr_queues - 1. */
	__u32 nr_queues;
	/** @nr_ctx: as given to ADD_DEV. Context numbers are 1..@nr_ctx. */
	__u32 nr_ctx;
	/** @va_bits: as given to ADD_DEV. */
	__u32 va_bits;
	/** @dev_id: as ADD_DEV returned it. */
	__u32 dev_id;
	/** @ctl_offset: see the file layout above. */
	__u64 ctl_offset;
	/** @sq_offset: see the file layout above. */
	__u64 sq_offset;
	/** @cq_offset: see the file layout above. */
	__u64 cq_offset;
	/** @status_offset: see the file layout above. */
	__u64 status_offset;
	/** @abi_features: VNPU_FW_FEATURES in use. */
	__u64 abi_features;
	/** @reserved: zero. */
	__u64 reserved[6];
	/**
	 * @sq_tail: entries that the kernel has put into the submission ring. Begins the third
	 * cache line.
	 */
	__u32 sq_tail;
	/** @cq_head: entries that the kernel has taken out of the completion ring. */
	__u32 cq_head;
	/** @over: not zero when the session has ended and its mappings are about to be revoked. */
	__u32 over;
	/** @pad: zero. */
	__u32 pad[13];
};

/** struct vnpu_fw_ctl - the firmware's indices of the rings. All zero at START. */
struct vnpu_fw_ctl {
	/** @sq_head: entries that the firmware has taken out of the submission ring. */
	__u32 sq_head;
	/** @pad0: keeps the two indices in different cache lines. */
	__u32 pad0[15];
	/** @cq_tail: entries that the firmware has put into the completion ring. */
	__u32 cq_tail;
	/** @pad1: zero. */
	__u32 pad1[15];
};

enum vnpu_fw_sqe_type {
	/** @VNPU_FW_SQE_JOB: run a job. Answered by CQE_DONE. */
	VNPU_FW_SQE_JOB = 1,
	/**
	 * @VNPU_FW_SQE_CANCEL: drop the job @tag: its timeout passed, its fence lasted too long, or
	 * its owner is gone. ctx and queue are set, the rest is zero. The kernel ignores the
	 * answer's contents but needs the answer: until then the device may still write the queue's
	 * status page. The time to answer starts when the jobs before it in its queue have ended.
	 */
	VNPU_FW_SQE_CANCEL = 2,
	/**
	 * @VNPU_FW_SQE_CTX_CLOSE: drop the remaining jobs of @ctx, unmap its aperture, then answer
	 * with CQE_CTX_CLOSED, which stands for the DONE of each job that was dropped. After the
	 * answer the status pages of its queues may be given to other queues.
	 */
	VNPU_FW_SQE_CTX_CLOSE = 3,
};

/**
 * struct vnpu_fw_sqe - kernel to firmware: one cache line.
 */
struct vnpu_fw_sqe {
	/** @type: enum vnpu_fw_sqe_type. */
	__u32 type;
	/** @priority: JOB: enum drm_vnpu_priority. */
	__u32 priority;
	/** @ctx: context. */
	__u32 ctx;
	/** @queue: queue. */
	__u32 queue;
	/** @tag: opaque id of the job, repeated in its completion. */
	__u64 tag;
	/** @seqno: JOB: the queue's completed_seqno after this job. */
	__u64 seqno;
	/** @cmd_va: JOB: address of the command stream in @ctx. */
	__u64 cmd_va;
	/** @table_va: JOB: address of the binding table in @ctx. */
	__u64 table_va;
	/** @cmd_size: JOB: bytes. */
	__u32 cmd_size;
	/** @table_size: JOB: bytes. */
	__u32 table_size;
	/**
	 * @flags: zero. An entry with a flag that the firmware does not know is a protocol error.
	 */
	__u32 flags;
	/** @pad: zero. */
	__u32 pad;
};

enum vnpu_fw_cqe_type {
	/** @VNPU_FW_CQE_DONE: the job @tag has ended. */
	VNPU_FW_CQE_DONE = 1,
	/** @VNPU_FW_CQE_CTX_CLOSED: the aperture of the context @tag is unmapped. */
	VNPU_FW_CQE_CTX_CLOSED = 2,
};

enum vnpu_fw_status {
	VNPU_FW_OK = 0,
	/**
	 * @VNPU_FW_INVALID: the firmware refused the stream or its table; nothing ran. The job ends
	 * with -EINVAL.
	 */
	VNPU_FW_INVALID = 1,
	/**
	 * @VNPU_FW_FAULT: MMU fault at @fault_va. The job ends with -EFAULT and its context is
	 * banned.
	 */
	VNPU_FW_FAULT = 2,
	/** @VNPU_FW_CANCELED: stopped on request. */
	VNPU_FW_CANCELED = 3,
	/**
	 * @VNPU_FW_FAILED: the device could not run the job, for example for lack of memory. The
	 * job ends with -EIO.
	 */
	VNPU_FW_FAILED = 4,
};

#define VNPU_FW_CQE_FAULT_WRITE (1u << 0)

/**
 * struct vnpu_fw_cqe - firmware to kernel: one cache line. Unused fields, pads and unknown flags
 * are zero.
 */
struct vnpu_fw_cqe {
	/** @type: enum vnpu_fw_cqe_type. */
	__u32 type;
	/** @status: DONE: enum vnpu_fw_status. */
	__u32 status;
	/** @tag: DONE: &vnpu_fw_sqe.tag. CTX_CLOSED: the context's number. */
	__u64 tag;
	/** @busy_ns: DONE: wall-clock time that the device spent on the job. */
	__u64 busy_ns;
	/** @fault_va: DONE with VNPU_FW_FAULT: the address. */
	__u64 fault_va;
	/** @flags: VNPU_FW_CQE_FAULT_WRITE. */
	__u32 flags;
	/** @pad: zero. */
	__u32 pad;
	/** @reserved: zero. */
	__u64 reserved[3];
};

/* ---- the firmware fd: calls ------------------------------------------------------------------ */

/** Take the entries from the completion ring and end their jobs. */
#define VNPU_FW_ENTER_COMPLETE (1u << 0)
/** Sleep until sq_tail differs from @sq_seen, a signal arrives or @timeout_ns passes (no error). */
#define VNPU_FW_ENTER_WAIT (1u << 1)

/**
 * struct vnpu_fw_enter - complete jobs and sleep in one call. Returns -ENODEV if the device was
 * deleted, -EIO if it was reset, -EPROTO if it was reset because of invalid indices of the
 * firmware, or -EINTR.
 */
struct vnpu_fw_enter {
	/** @flags: VNPU_FW_ENTER_*. */
	__u32 flags;
	/** @sq_seen: WAIT: the value of sq_tail up to which the firmware has processed entries. */
	__u32 sq_seen;
	/** @timeout_ns: WAIT: absolute CLOCK_MONOTONIC, or -1 for none. */
	__s64 timeout_ns;
	/** @nr_completed: out, entries taken from the completion ring. */
	__u32 nr_completed;
	/** @pad: zero. */
	__u32 pad;
};

/**
 * struct vnpu_fw_start - make the device visible to clients (after ADD_DEV) or ready again (after
 * ATTACH).
 */
struct vnpu_fw_start {
	/** @flags: must be zero. */
	__u32 flags;
	/** @accel_minor: out, N of /dev/accel/accelN. */
	__s32 accel_minor;
};

#define VNPU_FW_START _IOWR(VNPU_FW_IOC, 0x20, struct vnpu_fw_start)
#define VNPU_FW_ENTER _IOWR(VNPU_FW_IOC, 0x21, struct vnpu_fw_enter)

#endif /* _UAPI_LINUX_VNPU_FW_H */
