/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The two rings to the firmware, and the jobs of a queue in them. No locking, sleeping, allocation
 * or fences here: the caller holds vdev->lock.
 */
#ifndef VNPU_RING_H
#define VNPU_RING_H

#include <linux/build_bug.h>
#include <linux/types.h>
#include <linux/vnpu_fw.h>

struct vnpu_queue;

/* An entry is a cache line, and the kernel and the firmware never write to the same cache line. */
static_assert(sizeof(struct vnpu_fw_sqe) == 64);
static_assert(sizeof(struct vnpu_fw_cqe) == 64);
static_assert(offsetof(struct vnpu_fw_info, sq_tail) == 128);
static_assert(sizeof(struct vnpu_fw_info) == 192);
static_assert(offsetof(struct vnpu_fw_ctl, cq_tail) == 64);
static_assert(sizeof(struct vnpu_fw_ctl) == 128);

struct vnpu_ring {
	struct vnpu_fw_info *info; /* written by the kernel */
	struct vnpu_fw_ctl *ctl; /* written by the firmware */
	struct vnpu_fw_sqe *sq;
	const struct vnpu_fw_cqe *cq;
	u32 sq_entries; /* powers of two */
	u32 cq_entries;
	u32 sq_tail;
	u32 cq_head;
};

void vnpu_ring_reset(struct vnpu_ring *ring);
bool vnpu_ring_push(struct vnpu_ring *ring, const struct vnpu_fw_sqe *sqe);
int vnpu_ring_pending(const struct vnpu_ring *ring);
void vnpu_ring_pop(struct vnpu_ring *ring, struct vnpu_fw_cqe *cqe);
bool vnpu_cqe_well_formed(const struct vnpu_fw_cqe *cqe);
void vnpu_ring_commit(struct vnpu_ring *ring);
bool vnpu_ring_readable(const struct vnpu_ring *ring);

/*
 * A slot of the device that runs one queue. A counter that is never reset numbers the jobs as they
 * enter the ring. A job's tag is the slot's index and this number, so a tag is unique among four
 * billion jobs of the slot.
 *
 *   acked <= head <= tail    [head, tail) are in the firmware, and the kernel waits for them
 *                            [acked, head) were given up by the kernel and are not answered yet
 *
 * A slot may get another owner only if acked == tail: otherwise the firmware may still write its
 * status page.
 */
struct vnpu_hwq {
	struct vnpu_queue *queue; /* owner; not a reference */
	u32 head;
	u32 tail;
	u32 acked;
	u32 ctx; /* number of the last owner's context */
	/* jiffies: when the first of [acked, head) was given up, or the last answer after that */
	unsigned long owed_since;
};

enum vnpu_hwq_match {
	VNPU_HWQ_STALE, /* no such job, or out of order */
	VNPU_HWQ_GIVEN_UP, /* the kernel has ended it already */
	VNPU_HWQ_LIVE, /* the queue's oldest live job, now out of the ring */
};

static inline u64 vnpu_tag(u32 hwq, u32 number)
{
	return (u64)hwq << 32 | number;
}

static inline u32 vnpu_tag_hwq(u64 tag)
{
	return tag >> 32;
}

/* Jobs in the firmware for which the kernel waits. */
static inline u32 vnpu_hwq_held(const struct vnpu_hwq *hwq)
{
	return hwq->tail - hwq->head;
}

static inline bool vnpu_hwq_live(const struct vnpu_hwq *hwq)
{
	return vnpu_hwq_held(hwq);
}

static inline bool vnpu_hwq_answered(const struct vnpu_hwq *hwq)
{
	return hwq->acked == hwq->tail;
}

/* The firmware that owed answers for given-up jobs is gone, or has closed their context. */
static inline void vnpu_hwq_forget(struct vnpu_hwq *hwq)
{
	hwq->acked = hwq->head;
}

enum vnpu_hwq_match vnpu_hwq_answer(struct vnpu_hwq *hwq, u64 tag);

#endif /* VNPU_RING_H */
