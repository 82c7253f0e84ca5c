// SPDX-License-Identifier: MIT
/*
 * llm.npu's techniques, one after another. Each step has those before it:
 *
 *	naive	graphs of the prompt's length are made when it arrives (2.3), and weights have
 *		groups, whose sums are floats
 *	sharing	chunks share subgraphs, and follow one another (3.2)
 *	shadow	one scale a tensor, and shadow outliers (3.3)
 *	chunk	chunks overlap, the earliest first: "simply overlapping" (3.4)
 *	layer	chunks overlap, the lowest layer first, which is not llm.npu's
 *	ooe	out of order (3.4)
 */
#include <stdio.h>

#include "llmnpu.h"

static const struct step {
	const char *name;
	enum llm_weights weights;
	enum llm_activations activations;
	enum llm_graphs graphs;
	enum llm_order order;
} steps[] = {
	{ "naive", LLM_WEIGHTS_W8A8_GROUPS, LLM_ACTIVATIONS_INT8, LLM_GRAPHS_ONLINE,
	  LLM_ORDER_FIFO },
	{ "sharing", LLM_WEIGHTS_W8A8_GROUPS, LLM_ACTIVATIONS_INT8, LLM_GRAPHS_SHARED,
	  LLM_ORDER_FIFO },
	{ "shadow", LLM_WEIGHTS_W8A8, LLM_ACTIVATIONS_STATIC, LLM_GRAPHS_SHARED, LLM_ORDER_FIFO },
	{ "chunk", LLM_WEIGHTS_W8A8, LLM_ACTIVATIONS_STATIC, LLM_GRAPHS_SHARED, LLM_ORDER_CHUNK },
	{ "layer", LLM_WEIGHTS_W8A8, LLM_ACTIVATIONS_STATIC, LLM_GRAPHS_SHARED, LLM_ORDER_LAYER },
	{ "ooe", LLM_WEIGHTS_W8A8, LLM_ACTIVATIONS_STATIC, LLM_GRAPHS_SHARED, LLM_ORDER_OOE },
};
#define NR_STEPS (sizeof(steps) / sizeof(steps[0]))

static void head(void)
{
	puts("| soc | model | tokens | step | ms | tokens/s | NPU, ms | CPU, ms | NPU bubbles | "
	     "J | decision, ns |\n"
	     "|---|---|---:|---|---:|---:|---:|---:|---:|---:|---:|");
}

static int put_step(const struct place *place, const struct step *step, unsigned int tokens)
{
	struct trial t = { .choices = place->args->choices,
			   .pruning = SHADOW_PRUNING,
			   .chunk = place->args->chunk,
			   .tokens = tokens };
	struct outcome o;
	int status;

	t.choices.weights = step->weights;
	t.choices.activations = step->activations;
	t.choices.graphs = step->graphs;
	t.choices.order = step->order;
	status = run_trial(place, &t, &o);
	if (!status)
		printf("| %s | %s | %u | %s | %.0f | %.0f | %.0f | %.0f | %.1f %% | %.2f | "
		       "%.0f |\n",
		       place->soc->name, place->shape->name, tokens, step->name, o.ms,
		       tokens * 1e3 / o.ms, o.busy_ms[SOC_NPU], o.busy_ms[SOC_CPU],
		       100 * bubbles(&o, SOC_NPU), o.joules, o.decision_ns);
	return status;
}

static int put_tokens(const struct place *place, unsigned int tokens)
{
	int status = 0;

	for (size_t s = 0; s < NR_STEPS && !status; s++)
		status = put_step(place, &steps[s], tokens);
	return status;
}

const struct command command_steps = { "steps", head, .put_tokens = put_tokens };
