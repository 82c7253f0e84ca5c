// SPDX-License-Identifier: MIT
/*
 * EdgeFlow's pipeline (4.3), step by step:
 *
 *	llm.npu		subgraphs out of order, attention on the CPU, all else on the NPU (3.2)
 *	fine		matmuls on the NPU, the rest on the CPU; of a layer an operator of all
 *			chunks is before the next operator
 *	layer		the earliest chunk of a layer first
 *	chunk		the earliest chunk first, whatever the layer
 *	steal		as layer, and an idle CPU takes matmuls from the NPU's queue
 *	steal, 5	the same with a CPU whose matmuls take five times as long as the NPU's,
 *			which is what the paper's threshold says of its phone
 */
#include <stdio.h>

#include "edgeflow.h"

#define PAPERS_RATIO 5

static const struct step {
	const char *name;
	enum llm_placement placement;
	enum llm_order order;
	const struct sched_policy *policy;
	bool papers_cpu;
} steps[] = {
	{ "llm.npu", LLM_PLACE_LINEAR, LLM_ORDER_OOE, NULL, false },
	{ "fine", LLM_PLACE_FINE, LLM_ORDER_LAYER, &edgeflow_operator, false },
	{ "layer", LLM_PLACE_FINE, LLM_ORDER_LAYER, NULL, false },
	{ "chunk", LLM_PLACE_FINE, LLM_ORDER_CHUNK, NULL, false },
	{ "steal", LLM_PLACE_FINE, LLM_ORDER_STEAL, NULL, false },
	{ "steal, 5", LLM_PLACE_FINE, LLM_ORDER_STEAL, NULL, true },
};
#define NR_STEPS (sizeof(steps) / sizeof(steps[0]))

static void head(void)
{
	puts("| soc | model | tokens | step | CPU / NPU | ms | tokens/s | NPU bubbles | "
	     "CPU bubbles | taken |\n"
	     "|---|---|---:|---|---:|---:|---:|---:|---:|---:|");
}

static struct trial trial_of(const struct place *place, const struct step *step,
			     unsigned int tokens)
{
	struct trial t = edgeflow_trial(place, step->placement, tokens);

	t.choices.order = step->order;
	t.policy = step->policy;
	return t;
}

/* How many times as long the CPU takes for the matmuls that it may take; 0: there are none. */
static int find_ratio(const struct place *place, const struct trial *trial, double *ratio)
{
	struct plan *plan = plan_trial(place, trial);
	double npu_ns = 0, cpu_ns = 0;

	if (!plan)
		return 1;
	for (uint32_t i = 0; i < sched_nr_tasks(plan->tasks); i++) {
		const struct sched_task *t = sched_get(plan->tasks, i);

		if (!t->lanes)
			continue;
		npu_ns += soc_alone_ns(place->soc, SOC_NPU, t->cost[SOC_NPU]);
		cpu_ns += soc_alone_ns(place->soc, SOC_CPU, t->cost[SOC_CPU]);
	}
	*ratio = npu_ns > 0 ? cpu_ns / npu_ns : 0;
	plan_free(plan);
	return 0;
}

/* A CPU with so many times the rate in matmuls of integers. */
static struct soc faster_cpu(const struct soc *soc, double times)
{
	struct soc faster = *soc;

	faster.cpu.int8_tops *= times;
	faster.cpu.pack_ns /= times;
	return faster;
}

static int put_step(const struct place *place, const struct step *step, unsigned int tokens)
{
	const struct trial t = trial_of(place, step, tokens);
	struct place there = *place;
	struct soc papers;
	struct outcome o;
	double ratio;
	int status = find_ratio(place, &t, &ratio);

	if (!status && step->papers_cpu && ratio > 0) {
		papers = faster_cpu(place->soc, ratio / PAPERS_RATIO);
		there.soc = &papers;
		status = find_ratio(&there, &t, &ratio);
	}
	status = status ? status : run_trial(&there, &t, &o);
	if (status)
		return status;
	printf("| %s | %s | %u | %s | ", place->soc->name, place->shape->name, tokens, step->name);
	if (ratio > 0)
		printf("%.1f", ratio);
	printf(" | %.0f | %.0f | %.1f %% | %.1f %% | %u |\n", o.ms, tokens * 1e3 / o.ms,
	       100 * bubbles(&o, SOC_NPU), 100 * bubbles(&o, SOC_CPU), o.taken);
	return 0;
}

static int put_tokens(const struct place *place, unsigned int tokens)
{
	int status = 0;

	for (size_t s = 0; s < NR_STEPS && !status; s++)
		status = put_step(place, &steps[s], tokens);
	return status;
}

const struct command command_pipeline = { "pipeline", head, .put_tokens = put_tokens };
