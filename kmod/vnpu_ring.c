// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rings to the firmware: single producer, single consumer, free-running indices.
 *
 * The firmware is not trusted: the kernel copies each word of its memory once and validates the
 * copy. The kernel's own indices live in kernel memory; it never reads back the copies that the
 * firmware sees.
 */
#include <linux/array_size.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/string.h>
#include <asm/barrier.h>

#include "vnpu_ring.h"

void vnpu_ring_reset(struct vnpu_ring *ring)
{
	memset(ring->ctl, 0, sizeof(*ring->ctl));
	WRITE_ONCE(ring->sq_tail, 0);
	ring->cq_head = 0;
	WRITE_ONCE(ring->info->over, 0);
	WRITE_ONCE(ring->info->sq_tail, 0);
	WRITE_ONCE(ring->info->cq_head, 0);
}

/* False if there is no room. An invalid index of the firmware counts as no room. */
bool vnpu_ring_push(struct vnpu_ring *ring, const struct vnpu_fw_sqe *sqe)
{
	/* Acquire: the firmware has read the entry that is overwritten here. */
	u32 used = ring->sq_tail - smp_load_acquire(&ring->ctl->sq_head);

	if (used >= ring->sq_entries)
		return false;
	ring->sq[ring->sq_tail & (ring->sq_entries - 1)] = *sqe;
	WRITE_ONCE(ring->sq_tail, ring->sq_tail + 1);
	/* Release: the entry is visible before the index. */
	smp_store_release(&ring->info->sq_tail, ring->sq_tail);
	return true;
}

/*
 * Entries in the completion ring, or -EPROTO if either of the firmware's indices is out of bounds.
 */
int vnpu_ring_pending(const struct vnpu_ring *ring)
{
	/* Acquire: entries are read after the index. */
	u32 pending = smp_load_acquire(&ring->ctl->cq_tail) - ring->cq_head;
	u32 used = ring->sq_tail - READ_ONCE(ring->ctl->sq_head);

	if (pending > ring->cq_entries || used > ring->sq_entries)
		return -EPROTO;
	return pending;
}

/* Copy the oldest entry. Only after vnpu_ring_pending() has reported one. */
void vnpu_ring_pop(struct vnpu_ring *ring, struct vnpu_fw_cqe *cqe)
{
	const struct vnpu_fw_cqe *from = &ring->cq[ring->cq_head++ & (ring->cq_entries - 1)];

	*cqe = (struct vnpu_fw_cqe){
		.type = READ_ONCE(from->type),
		.status = READ_ONCE(from->status),
		.tag = READ_ONCE(from->tag),
		.busy_ns = READ_ONCE(from->busy_ns),
		.fault_va = READ_ONCE(from->fault_va),
		.flags = READ_ONCE(from->flags),
		.pad = READ_ONCE(from->pad),
	};
	for (int i = 0; i < ARRAY_SIZE(from->reserved); i++)
		cqe->reserved[i] = READ_ONCE(from->reserved[i]);
}

/* True if the entry has no field, flag or type that this kernel does not know. */
bool vnpu_cqe_well_formed(const struct vnpu_fw_cqe *cqe)
{
	return !(cqe->flags & ~VNPU_FW_CQE_FAULT_WRITE) && !cqe->pad &&
	       !(cqe->reserved[0] | cqe->reserved[1] | cqe->reserved[2]);
}

/* Make room: the firmware may reuse the popped entries. */
void vnpu_ring_commit(struct vnpu_ring *ring)
{
	/* Release: the entries are copied before the firmware can overwrite them. */
	smp_store_release(&ring->info->cq_head, ring->cq_head);
}

/* True if the submission ring has entries that the firmware has not taken. */
bool vnpu_ring_readable(const struct vnpu_ring *ring)
{
	return READ_ONCE(ring->sq_tail) != READ_ONCE(ring->ctl->sq_head);
}

/* The firmware is done with the job @tag in slot @hwq. Jobs of a queue end in order. */
enum vnpu_hwq_match vnpu_hwq_answer(struct vnpu_hwq *hwq, u64 tag)
{
	u32 number = (u32)tag;

	if (number - hwq->acked < hwq->head - hwq->acked) {
		hwq->acked = number + 1;
		return VNPU_HWQ_GIVEN_UP;
	}
	if (number != hwq->head || !vnpu_hwq_live(hwq))
		return VNPU_HWQ_STALE;
	hwq->acked = ++hwq->head;
	return VNPU_HWQ_LIVE;
}
