/* SPDX-License-Identifier: MIT */
/*
 * In which order the heads of a layer go through the three stages of sparse attention (shadowAttn
 * 3.4): the estimate on the NPU, then top-k, which finds the greatest scores, then attention over
 * those. Each stage does one thing at a time. The stages overlap, as long as a head's top-k comes
 * after its estimate, and its attention after its top-k (equation 4).
 *
 * The NPU computes the estimates of several heads in one launch if they have the same scale bucket
 * and there is a graph of so many heads. The heads of a bucket, in their order, fill launches of
 * the greatest graph that still fits: with graphs of 1, 2, 4 and 8 heads, 7 heads become launches
 * of 4, 2 and 1. All scores of a launch are there when it ends.
 *
 * A plan is a list of launches; top-k and attention take the heads launch by launch, in the order
 * that each launch has. The policies are the steps of the paper's figure 9, and two more:
 *
 *	sequential	head after head, nothing overlaps
 *	overlap		the stages overlap, each head has its own launch
 *	fused		heads of a bucket share launches
 *	greedy		algorithm 1: next is the launch, and in it the head, whose attention would
 *			end first; of equals the earlier one
 *	insertion	launch after launch, the longest first, takes the place among those before
 *			it with which they end first, then once more among all; its heads are in
 *			the order that suits top-k and attention
 *	exhaustive	the best of all orders of fused launches and of their heads, for up to
 *			HEAD_PLAN_EXHAUSTIVE heads, to compare with
 *
 * The plan assumes that top-k and attention have a core each. Where one core does both, give 0 as
 * top-k's time and the sum as attention's: the order and the end are then of two resources.
 */
#ifndef HEAD_PLAN_H
#define HEAD_PLAN_H

#include <stdint.h>

#define HEAD_PLAN_MAX_FUSED 8
#define HEAD_PLAN_EXHAUSTIVE 8
#define HEAD_PLAN_MAX_HEADS UINT16_MAX

enum head_plan_policy {
	HEAD_PLAN_POLICY_SEQUENTIAL,
	HEAD_PLAN_POLICY_OVERLAP,
	HEAD_PLAN_POLICY_FUSED,
	HEAD_PLAN_POLICY_GREEDY,
	HEAD_PLAN_POLICY_INSERTION,
	HEAD_PLAN_POLICY_EXHAUSTIVE,
	HEAD_PLAN_NR_POLICIES,
};
const char *head_plan_policy_name(enum head_plan_policy policy);

struct head_plan_head {
	double topk_ns, qkv_ns;
	unsigned int bucket; /* of scales */
};

struct head_plan_work {
	unsigned int n_heads; /* 1 .. HEAD_PLAN_MAX_HEADS */
	const struct head_plan_head *heads; /* [n_heads] */
	/* A launch of 1, 2, ... heads; 0: there is no graph of so many. One head has a graph. */
	double npu_ns[HEAD_PLAN_MAX_FUSED];
};

struct head_launch {
	unsigned int bucket, n_heads;
	uint16_t heads[HEAD_PLAN_MAX_FUSED]; /* [n_heads], in top-k's and attention's order */
};

/* When each stage has done all heads, from the begin of the first launch. */
struct head_plan_ends {
	double npu_ns, topk_ns, qkv_ns;
};

struct head_plan {
	struct head_launch *launches; /* room for n_heads, the caller's */
	unsigned int n_launches;
	struct head_plan_ends ends; /* the whole ends with qkv_ns */
};

/*
 * Makes the plan of a layer. Allocates nothing. 0, or -EINVAL with the error line: no heads or too
 * many, no graph of one head, times that are negative or not finite.
 */
int head_plan_make(struct head_plan *plan, const struct head_plan_work *work,
		   enum head_plan_policy policy);

#endif /* HEAD_PLAN_H */
