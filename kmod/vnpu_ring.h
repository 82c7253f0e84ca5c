/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The two rings to the firmware, and what a queue has in them. Pure: no locks, no sleep, no allocation, nothing known of
 * fences; the caller holds vdev->lock.
 */
#ifndef VNPU_RING_H
#define VNPU_RING_H

#include <linux/types.h>
#include <linux/vnpu_fw.h>

struct vnpu_fence;
struct vnpu_queue;

struct vnpu_ring {
	struct vnpu_fw_info *info; /* the kernel writes */
	struct vnpu_fw_ctl *ctl; /* the firmware writes */
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
void vnpu_ring_commit(struct vnpu_ring *ring);
bool vnpu_ring_readable(const struct vnpu_ring *ring);

/*
 * A slot of the device that runs one queue. Jobs are numbered as they enter the ring, by a counter that is never reset:
 * together with the slot's index the number is the job's tag, and a tag names one job for the next four billion.
 *
 *   acked <= head <= tail    [head, tail) the firmware has and the kernel waits for
 *                            [acked, head) the kernel has given up and the firmware has not answered yet
 *
 * Only a slot with acked == tail may get another owner: the firmware may still write the status page of any other.
 */
struct vnpu_hwq {
	struct vnpu_queue *queue; /* owner; not a reference */
	struct vnpu_fence **slots; /* [mask + 1], by number; with a reference */
	u32 mask;
	u32 head;
	u32 tail;
	u32 acked;
	u32 ctx; /* number of the last owner's context */
	unsigned long owed_since; /* jiffies when the jobs of [acked, head) were given up, all at once */
};

enum vnpu_hwq_match {
	VNPU_HWQ_STALE, /* no such job, or not its turn */
	VNPU_HWQ_GIVEN_UP, /* the kernel has finished it */
	VNPU_HWQ_LIVE, /* the oldest live job of its queue */
};

static inline u64 vnpu_tag(u32 hwq, u32 number)
{
	return (u64)hwq << 32 | number;
}

static inline u32 vnpu_tag_hwq(u64 tag)
{
	return tag >> 32;
}

static inline bool vnpu_hwq_live(const struct vnpu_hwq *hwq)
{
	return hwq->head != hwq->tail;
}

static inline bool vnpu_hwq_answered(const struct vnpu_hwq *hwq)
{
	return hwq->acked == hwq->tail;
}

/* Takes over the caller's reference to the fence. False if the queue has as many jobs in the ring as it may. */
static inline bool vnpu_hwq_add(struct vnpu_hwq *hwq, struct vnpu_fence *fence)
{
	if (hwq->tail - hwq->head > hwq->mask)
		return false;
	hwq->slots[hwq->tail++ & hwq->mask] = fence;
	return true;
}

static inline struct vnpu_fence *vnpu_hwq_first(const struct vnpu_hwq *hwq)
{
	return vnpu_hwq_live(hwq) ? hwq->slots[hwq->head & hwq->mask] : NULL;
}

struct vnpu_fence *vnpu_hwq_drop_first(struct vnpu_hwq *hwq);
enum vnpu_hwq_match vnpu_hwq_answer(struct vnpu_hwq *hwq, u64 tag);
void vnpu_hwq_forget(struct vnpu_hwq *hwq);

#endif /* VNPU_RING_H */
