/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * vnpu device-side ABI: what a firmware process says to vnpu.ko.
 *
 * A firmware opens /dev/vnpu-control and calls ADD_DEV (a new device) or ATTACH (one without a
 * firmware). Either returns the firmware fd; START on it makes /dev/accel/accelN appear, or marks
 * the device ready again. The process is the hardware: the kernel treats every word that it writes
 * as hostile.
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
 * An aperture may be mapped whole or in part, any number of times, MAP_SHARED. Touching an address
 * that the client has not bound raises SIGBUS with the address; so does writing through a read-only
 * binding. Unbinding, and the end of the context, take the pages away at once. A context's number
 * is used again only when its apertures are unmapped and CTX_CLOSED was answered.
 *
 * Rings: indices are free-running u32, an entry's place is index & (entries - 1). The producer
 * stores an entry, then its tail with release order; the consumer loads the tail with acquire
 * order, and stores its head with release order when it is done with the entries. The kernel never
 * waits for room: the submission ring is as large as all that can be in flight, so a head that says
 * that it is full is nonsense.
 *
 * Running a job: a release store of started_seqno in the queue's status page before the first
 * command, and progress counted up with each piece of work that is done (a tile, a command). From
 * these two the kernel knows a long job from a hung one; they are no promise, and a job that claims
 * progress for ever is ended all the same.
 *
 * Completing a job: results in memory; then, if the job succeeded or failed in the firmware,
 * completed_seqno is raised with release order (and before it error is stored, where it failed) in
 * the queue's status page; then the completion entry; then, at leisure, ENTER. The kernel raises
 * completed_seqno of jobs that it ends itself, so the firmware raises it by compare-and-swap and
 * never lowers it. The kernel keeps no state that a firmware can spoil: an entry of an unknown
 * type, with an unknown or stale tag, with an unknown flag or a pad that is not zero, or out of its
 * queue's order, is dropped. Jobs of a queue are answered in their order, cancelled ones too: the
 * answer to one says that the device is done with all before it.
 *
 * Owing an answer: every job that was cancelled and every context that was closed must be answered
 * within the module's reset_ms. A firmware that does not do so, or whose ring indices make no
 * sense, is reset.
 *
 * The end of a session, by a reset, by DEL_DEV or by rmmod: first &vnpu_fw_info.over is set, ENTER
 * returns an error for good and poll() says POLLHUP; only then is what the session had mapped taken
 * away, and touching it raises SIGBUS. Its jobs fail with -EIO, every context is lost, the epoch
 * counts up. The firmware closes the fd then, and may ATTACH. After the module's max_resets resets
 * within its reset_window_s the device is wedged: ATTACH fails with -EIO, and DEL_DEV is all that
 * is left.
 *
 * Growing: structures of the control node begin with their size. The kernel takes a shorter one as
 * if its tail were zero, and a longer one if the tail that it does not know is zero (-E2BIG else).
 * What changes the meaning of rings is a bit of VNPU_FW_FEATURES: the firmware names those that it
 * understands, the kernel answers with those that are in use.
 *
 * Sleeping: the kernel wakes nobody who is not waiting in ENTER or poll(), so a firmware that polls
 * the ring costs its clients no system call but SUBMIT.
 */
#ifndef _UAPI_LINUX_VNPU_FW_H
#define _UAPI_LINUX_VNPU_FW_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define VNPU_FW_CONTROL_NODE "vnpu-control"

/*
 * The type of all calls below: 0xDA is nobody else's
 * (Documentation/userspace-api/ioctl/ioctl-number.rst).
 */
#define VNPU_FW_IOC 0xDA

/* The ABI's version; the kernel accepts VNPU_FW_ABI_MIN to VNPU_FW_ABI. */
#define VNPU_FW_ABI 1
#define VNPU_FW_ABI_MIN 1

/* Bits of &vnpu_ctl_add_dev.abi_features that the kernel offers: none yet. */
#define VNPU_FW_FEATURES 0ULL

/* "VNPUFWI\0" */
#define VNPU_FW_INFO_MAGIC 0x00495746554e5056ULL

/* Bounds of &vnpu_ctl_add_dev. */
#define VNPU_FW_MAX_QUEUES 1024
#define VNPU_FW_MAX_DEPTH 1024
/* nr_queues * queue_depth: the rings are sized for all of them. */
#define VNPU_FW_MAX_JOBS 65536
#define VNPU_FW_MAX_CTX 1024
#define VNPU_FW_MIN_VA_BITS 30
#define VNPU_FW_MAX_VA_BITS 40
#define VNPU_FW_MAX_TIMEOUT_MS 3600000

/* ---- /dev/vnpu-control ----------------------------------------------------------------------- */

/**
 * struct vnpu_ctl_version - what the kernel speaks.
 */
struct vnpu_ctl_version {
	/** @min: lowest ABI version accepted. */
	__u32 min;
	/** @max: highest ABI version accepted. */
	__u32 max;
	/** @features: VNPU_FW_FEATURES of this kernel. */
	__u64 features;
};

/**
 * struct vnpu_ctl_add_dev - make a device. It is seen by clients from START on.
 *
 * A device that was never started ends with its firmware fd. A started one stays when its firmware
 * dies, fails what was in flight and waits for ATTACH, until DEL_DEV.
 */
struct vnpu_ctl_add_dev {
	/** @size: bytes of this structure, as the caller was compiled. */
	__u32 size;
	/** @version: VNPU_FW_ABI; -EPROTO if the kernel does not accept it. */
	__u32 version;
	/**
	 * @abi_features: in: VNPU_FW_FEATURES that the firmware understands; out: those in use, a
	 * part of them.
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
	 * @queue_depth: jobs that a queue may have in the ring, a power of two up to
	 * VNPU_FW_MAX_DEPTH; @nr_queues * @queue_depth is at most VNPU_FW_MAX_JOBS.
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
	/**
	 * @mem_limit: bytes of buffers that the device may hold, 0 for half of the host's memory.
	 */
	__u64 mem_limit;
	/** @dev_id: out. */
	__u32 dev_id;
	/** @fw_fd: out, the firmware fd, close-on-exec. */
	__s32 fw_fd;
	/**
	 * @timeout_ms: timeout of a job that names none; 0 for the module's parameter. At most
	 * @max_timeout_ms.
	 */
	__u32 timeout_ms;
	/**
	 * @max_timeout_ms: longest timeout that a job may name, up to VNPU_FW_MAX_TIMEOUT_MS; 0 for
	 * the module's parameter.
	 */
	__u32 max_timeout_ms;
	/**
	 * @user_ctx: contexts that one user (uid) may have, up to @nr_ctx; 0 for half of them, at
	 * least one. Who has CAP_SYS_RESOURCE is exempt, here and below.
	 */
	__u32 user_ctx;
	/**
	 * @user_queues: queues that one user may have, up to @nr_queues; 0 for half of them, at
	 * least one.
	 */
	__u32 user_queues;
	/** @user_mem: bytes of buffers that one user may hold, 0 for half of the host's memory. */
	__u64 user_mem;
};

/**
 * struct vnpu_ctl_attach - take over a device whose firmware is gone; -EBUSY while it has one, -EIO
 * if it is wedged.
 */
struct vnpu_ctl_attach {
	/** @size: bytes of this structure, as the caller was compiled. */
	__u32 size;
	/** @version: VNPU_FW_ABI. */
	__u32 version;
	/** @abi_features: as of &vnpu_ctl_add_dev. */
	__u64 abi_features;
	/** @dev_id: the device. */
	__u32 dev_id;
	/** @fw_fd: out. */
	__s32 fw_fd;
};

/**
 * struct vnpu_ctl_del_dev - remove a device: clients see -ENODEV from then on.
 */
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
	/** @VNPU_CTL_DEV_WEDGED: was reset too often; takes no firmware any more. */
	VNPU_CTL_DEV_WEDGED = 3,
};

/**
 * struct vnpu_ctl_info - look at the devices.
 */
struct vnpu_ctl_info {
	/**
	 * @dev_id: in: the lowest id of interest; out: the first device from there on; -ENOENT if
	 * there is none.
	 */
	__u32 dev_id;
	/** @state: out, enum vnpu_ctl_dev_state. */
	__u32 state;
	/** @accel_minor: out, N of /dev/accel/accelN, or -1 before START. */
	__s32 accel_minor;
	/** @fw_pid: out, process that holds the firmware fd, or 0. */
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
	/** @magic: VNPU_FW_INFO_MAGIC. What does not change has two cache lines of its own. */
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
	 * @sq_tail: entries the kernel has put into the submission ring. The first word of the
	 * third cache line.
	 */
	__u32 sq_tail;
	/** @cq_head: entries the kernel has taken out of the completion ring. */
	__u32 cq_head;
	/** @over: not zero: the session is over, and what it has mapped goes away. */
	__u32 over;
	/** @pad: zero. */
	__u32 pad[13];
};

/**
 * struct vnpu_fw_ctl - what the firmware tells about the rings. All zero at START.
 */
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
	 * @VNPU_FW_SQE_CANCEL: give up the job @tag (its timeout passed, its fence lasted too long,
	 * or its owner went); ctx and queue are set, the rest is zero. What the answer says is
	 * ignored; that it comes is not: until then the device may still write the queue's status
	 * page. It is owed from when the jobs before it in its queue have ended.
	 */
	VNPU_FW_SQE_CANCEL = 2,
	/**
	 * @VNPU_FW_SQE_CTX_CLOSE: drop what is left of the jobs of @ctx, unmap its aperture, then
	 * answer with CQE_CTX_CLOSED. From then on the status pages of its queues may be another's.
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
	/** @tag: names the job in its completion; opaque. */
	__u64 tag;
	/** @seqno: JOB: what completed_seqno of the queue becomes. */
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
	 * @flags: zero; an entry with a flag that the firmware does not know breaks the protocol.
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
	 * @VNPU_FW_INVALID: the stream or its table was refused, nothing ran. The job ends with
	 * -EINVAL.
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
	 * @VNPU_FW_FAILED: the device could not do it (its own lack of memory, say). The job ends
	 * with -EIO.
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
	/** @busy_ns: DONE: wall time that the device spent on the job. */
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

/** Take the completion ring's entries and finish their jobs. */
#define VNPU_FW_ENTER_COMPLETE (1u << 0)
/**
 * Sleep until sq_tail differs from @sq_seen, a signal comes or @timeout_ns passes (not an error).
 */
#define VNPU_FW_ENTER_WAIT (1u << 1)

/**
 * struct vnpu_fw_enter - complete and sleep in one call. -ENODEV when the device was deleted, -EIO
 * when it was reset, -EPROTO when it was reset because the firmware's indices were nonsense,
 * -EINTR.
 */
struct vnpu_fw_enter {
	/** @flags: VNPU_FW_ENTER_*. */
	__u32 flags;
	/** @sq_seen: WAIT: the value of sq_tail that the firmware has acted upon. */
	__u32 sq_seen;
	/** @timeout_ns: WAIT: absolute CLOCK_MONOTONIC, or -1 for none. */
	__s64 timeout_ns;
	/** @nr_completed: out, entries taken. */
	__u32 nr_completed;
	/** @pad: zero. */
	__u32 pad;
};

/**
 * struct vnpu_fw_start - show the device to clients (after ADD_DEV) or make it ready again (after
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
