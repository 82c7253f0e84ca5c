/* SPDX-License-Identifier: MIT */
/*
 * What a cold start took, told from the run of its plan: lanes, and the bound that the pipeline
 * could reach (struct llm_cold_stats).
 */
#ifndef COLD_H
#define COLD_H

#include "plan.h"

/* A pass that has loaded weights. */
struct cold_pass {
	const struct plan *plan;
	const struct plan_start *start; /* as the plan has it */
	uint32_t layers; /* of the model */
	const struct sched_run *run;
	/* By task: of its time, what graphs took that it made; NULL: none did. */
	const uint64_t *graph_ns;
};

/*
 * Sets @cold: of its times ns, lanes, those of the bound, and on the virtual clock energy_j; the
 * bytes of all pieces as read_bytes; and the ring as the plan fills it, of START_RING pieces. 0 or
 * -ENOMEM.
 */
int cold_measure(const struct cold_pass *pass, struct llm_cold_stats *cold);

#endif /* COLD_H */
