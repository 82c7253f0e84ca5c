/* SPDX-License-Identifier: MIT */
/*
 * What a plan's tasks took in earlier passes on the wall clock, for policies that count with times.
 * A task takes as long as others of its operator, slice, lane and rows did, whatever its layer and
 * chunk; of a subgraph its operators count, of a shadow or merge the matmul that it belongs to. On
 * the virtual clock costs say it (plan.h).
 */
#ifndef TIMES_H
#define TIMES_H

#include "plan.h"

#define TIMES_MAX 96

struct times {
	struct task_time {
		uint16_t op, slice;
		uint16_t other; /* a subgraph's last operator; a shadow's matmul; else 0 */
		uint8_t lane;
		uint32_t rows;
		double ns;
	} by[TIMES_MAX];
	unsigned int n;
};

/* Learns from the spans of a run of @plan. */
void times_learn(struct times *t, const struct plan *plan, const struct sched_run *run);
/*
 * Sets plan->times: what is known; of rows that are not known in proportion to others of the same
 * operator; else 0. On the CPU a matmul that it has not computed yet takes five times as long as on
 * the NPU, and INFINITY if that is not known either.
 */
void times_fill(const struct times *t, struct plan *plan);

#endif /* TIMES_H */
