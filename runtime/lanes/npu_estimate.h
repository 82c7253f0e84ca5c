/* SPDX-License-Identifier: MIT */
/* Graphs and jobs of the NPU's part of attention: see npu_estimate.c. Functions return 0, or -errno
 * with the error line. */
#ifndef NPU_ESTIMATE_H
#define NPU_ESTIMATE_H

#include "npu_lane.h"

struct npu_estimates;
struct estimate_graph;

/* NULL: no memory. */
struct npu_estimates *npu_estimates_create(const struct lane_memory *memory);
void npu_estimates_free(struct npu_estimates *e); /* NULL: nothing */

/* Finds or makes the graph of so many heads, 1, 2, 4 or 8, of a scale bucket for chunks of @rows
 * rows. */
int npu_estimate_prepare(struct npu_estimates *e, unsigned int bucket, unsigned int heads,
			 unsigned int rows, struct estimate_graph **graph);

/*
 * A job that estimates @n heads of one bucket, bound for @call, to be submitted; *@seqno is where
 * the number of its submission goes. @wait: as in npu_lane.h.
 */
struct estimate_head {
	unsigned int head, slot;
};
int npu_estimate_job(struct npu_estimates *e, const struct lane_call *call, unsigned int bucket,
		     const struct estimate_head *heads, unsigned int n, npu_wait_fn wait, void *ud,
		     struct npu_job **job, uint64_t **seqno);

/* The same for attention npu, of all the layer's heads. */
int npu_attention_prepare(struct npu_estimates *e, unsigned int rows);
int npu_attention_job(struct npu_estimates *e, const struct lane_call *call, npu_wait_fn wait,
		      void *ud, struct npu_job **job, uint64_t **seqno);

#endif /* NPU_ESTIMATE_H */
