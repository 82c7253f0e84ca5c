// SPDX-License-Identifier: MIT
/* What the tables' prompts have in common. */
#include "edgeflow.h"

static uint32_t pick_operator(const struct sched_view *view, const void *param)
{
	uint32_t best = SCHED_NONE;

	(void)param;
	for (size_t i = 0; i < view->nr_ready; i++) {
		const struct sched_task *t = sched_get(view->plan, view->ready[i]), *b;

		if (t->home != view->lane)
			continue;
		b = best == SCHED_NONE ? NULL : sched_get(view->plan, view->ready[best]);
		if (!b || t->layer < b->layer || (t->layer == b->layer && t->op < b->op))
			best = (uint32_t)i;
	}
	return best;
}

const struct sched_policy edgeflow_operator = { "operator", pick_operator };

struct trial edgeflow_trial(const struct place *place, enum llm_placement placement,
			    unsigned int tokens)
{
	struct trial t = { .choices = place->args->choices,
			   .pruning = SHADOW_PRUNING,
			   .chunk = place->args->chunk,
			   .tokens = tokens };

	t.choices.placement = placement;
	if (placement == LLM_PLACE_LINEAR) {
		t.choices.order = LLM_ORDER_OOE;
		t.choices.activations = LLM_ACTIVATIONS_STATIC;
		t.choices.graphs = LLM_GRAPHS_SHARED;
		t.choices.floats = LLM_FLOATS_NPU;
	}
	return t;
}
