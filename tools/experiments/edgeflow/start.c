// SPDX-License-Identifier: MIT
/*
 * The time to the first token of a cold start, step by step. With weights of 8 bits:
 *
 *	cpu		all is computed on the CPU, with the weights as they are read
 *	llm.npu		weights are read, and graphs compiled with them for the prompt (3.1)
 *	materialised	compiled graphs are loaded by the vendor's runtime
 *	overlapped	each layer's while the layers before it are computed
 *	file		not so: weights are read as a file, as EdgeFlow reads them
 *
 * EdgeFlow reads fewer bits, and its CPU unpacks them to the NPU's INT8, piece by piece, while the
 * layers that are there are computed (4). Each step has those before it:
 *
 *	quantised	computed as llm.npu's; the file's format is unpacked as k-quants are (3.2)
 *	packed		the format is EdgeFlow's (4.2)
 *	placement	matmuls on the NPU, the rest on the CPU (4.3); of a layer an operator of all
 *			chunks is before the next operator
 *	priority	the earliest chunk of a layer first
 *	stealing	an idle CPU takes matmuls from the NPU's queue: all of EdgeFlow
 *
 * The last rows are means over the prompts.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "edgeflow.h"
#include "tool.h"

static const struct step {
	const char *name;
	enum llm_placement placement;
	enum llm_order order;
	const struct sched_policy *policy;
	enum { WHOLE_FILE, COMPILED, MATERIALISED, OVERLAPPED, KQUANTS, PLANES } weights;
} steps[] = {
	{ "cpu", LLM_PLACE_CPU, LLM_ORDER_FIFO, NULL, WHOLE_FILE },
	{ "llm.npu", LLM_PLACE_LINEAR, LLM_ORDER_OOE, NULL, COMPILED },
	{ "materialised", LLM_PLACE_LINEAR, LLM_ORDER_OOE, NULL, MATERIALISED },
	{ "overlapped", LLM_PLACE_LINEAR, LLM_ORDER_OOE, NULL, OVERLAPPED },
	{ "file", LLM_PLACE_LINEAR, LLM_ORDER_OOE, NULL, WHOLE_FILE },
	{ "quantised", LLM_PLACE_LINEAR, LLM_ORDER_OOE, NULL, KQUANTS },
	{ "packed", LLM_PLACE_LINEAR, LLM_ORDER_OOE, NULL, PLANES },
	{ "placement", LLM_PLACE_FINE, LLM_ORDER_LAYER, &edgeflow_operator, PLANES },
	{ "priority", LLM_PLACE_FINE, LLM_ORDER_LAYER, NULL, PLANES },
	{ "stealing", LLM_PLACE_FINE, LLM_ORDER_STEAL, NULL, PLANES },
};
#define NR_STEPS (sizeof(steps) / sizeof(steps[0]))
/* Those with 8 bits, and what others are compared with */
#define NR_OF_8_BITS 5
#define OVER_GRAPHS 3
#define OVER_FILE 4

static const enum soc_lane lanes[] = { SOC_STORAGE, SOC_CPU, SOC_NPU };

static void head(void)
{
	puts("| soc | model | tokens | bits | step | ms | over overlapped | over file | "
	     "storage, ms | CPU, ms | NPU, ms | storage bubbles | CPU bubbles | "
	     "NPU bubbles | taken |\n"
	     "|---|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
}

static int run_step(const struct place *place, const struct step *step, unsigned int tokens,
		    unsigned int bits, struct outcome *o)
{
	struct trial t = edgeflow_trial(place, step->placement, tokens);
	struct place there = *place;
	struct soc soc = *place->soc;

	t.choices.order = step->order;
	t.policy = step->policy;
	if (step->weights == COMPILED)
		t.choices.graphs = LLM_GRAPHS_ONLINE;
	if (step->weights == KQUANTS)
		soc.cpu.unpack_planes_gelems = soc.cpu.unpack_gelems;
	there.soc = &soc;
	t.start = (struct trial_start){
		.cold = true,
		.bits = bits,
		.graphs = step->weights == MATERIALISED || step->weights == OVERLAPPED,
		.ahead = step->weights == MATERIALISED,
	};
	return run_trial(&there, &t, o);
}

static void print_step(const struct place *place, const char *step, unsigned int tokens,
		       unsigned int bits, const double base_ms[2], const struct outcome *o)
{
	printf("| %s | %s | %u | %u | %s | %.0f | %.2f | %.2f |", place->soc->name,
	       place->shape->name, tokens, bits, step, o->ms, base_ms[0] / o->ms,
	       base_ms[1] / o->ms);
	for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++)
		printf(" %.0f |", o->busy_ms[lanes[i]]);
	for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++)
		printf(" %.1f %% |", 100 * bubbles(o, lanes[i]));
	printf(" %u |\n", o->taken);
}

/* Sums of logarithms, for means of EdgeFlow's ratios. */
struct ratios {
	double over[2];
};

/* One prompt, with weights of each of the widths; @sums [bits]. */
static int put_tokens(const struct place *place, unsigned int tokens, struct ratios *sums)
{
	const struct range *bits = &place->args->bits;
	struct outcome o[NR_OF_8_BITS], last = { 0 };
	double base_ms[2];
	int status = 0;

	for (size_t s = 0; s < NR_OF_8_BITS && !status; s++)
		status = run_step(place, &steps[s], tokens, 8, &o[s]);
	if (status)
		return status;
	base_ms[0] = o[OVER_GRAPHS].ms;
	base_ms[1] = o[OVER_FILE].ms;
	for (size_t s = 0; s < NR_OF_8_BITS; s++)
		print_step(place, steps[s].name, tokens, 8, base_ms, &o[s]);
	for (size_t b = 0; b < bits->n && !status; b++) {
		for (size_t s = NR_OF_8_BITS; s < NR_STEPS && !status; s++) {
			status = run_step(place, &steps[s], tokens, bits->v[b], &last);
			if (!status)
				print_step(place, steps[s].name, tokens, bits->v[b], base_ms,
					   &last);
		}
		for (int i = 0; i < 2; i++)
			sums[b].over[i] += log(base_ms[i] / last.ms);
	}
	return status;
}

static void print_mean(const struct place *place, unsigned int bits, const struct ratios *sums)
{
	double n = (double)place->args->tokens.n;

	printf("| %s | %s | all | %u | %s | | %.2f | %.2f | | | | | | | |\n", place->soc->name,
	       place->shape->name, bits, steps[NR_STEPS - 1].name, exp(sums->over[0] / n),
	       exp(sums->over[1] / n));
}

static int put(const struct place *place)
{
	const struct range *tokens = &place->args->tokens, *bits = &place->args->bits;
	struct ratios *sums = calloc(bits->n, sizeof(*sums));
	int status = sums ? 0 : tool_fail("no memory for means");

	for (size_t i = 0; i < tokens->n && !status; i++)
		status = put_tokens(place, tokens->v[i], sums);
	for (size_t b = 0; b < bits->n && !status && tokens->n > 1; b++)
		print_mean(place, bits->v[b], &sums[b]);
	free(sums);
	return status;
}

const struct command command_start = { "start", head, .put = put };
