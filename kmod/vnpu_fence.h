/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_FENCE_H
#define VNPU_FENCE_H

#include <linux/dma-fence.h>
#include <linux/spinlock.h>

struct vnpu_queue;

/* A job's end. base.seqno is the job's number in its queue. */
struct vnpu_fence {
	struct dma_fence base; /* first: dma_fence_free() frees this address */
	spinlock_t lock;
	struct vnpu_queue
		*queue; /* alive until the fence is signalled: a queue that is killed finishes its jobs first */
	unsigned long timeout; /* jiffies */
	/* Under vdev->lock. */
	u64 submitted_ns;
	u64 started_ns; /* when the job entered the ring; 0: it has not */
	u64 busy_ns; /* device time charged for the job so far */
};

struct vnpu_fence *vnpu_fence_alloc(void);
void vnpu_fence_init(struct vnpu_fence *fence, struct vnpu_queue *queue, u64 seqno);
void vnpu_fence_free(struct vnpu_fence *fence);

#endif /* VNPU_FENCE_H */
