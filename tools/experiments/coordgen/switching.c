// SPDX-License-Identifier: MIT
/*
 * A prompt and the first steps of decoding, by when graphs are switched (CoordGen 3.2), one launch
 * of the NPU a layer and INT8 weights, as CoordGen's 2.3 is modelled. Blocks and the graphs for
 * decoding are choice switching's defaults.
 *
 *	resident	both graphs of each block are in memory
 *	sync		decoding's are loaded after the prompt
 *	async		a block's is loaded after the last chunk has passed it
 *	progressive	blocks are switched during the prompt, from its first step on: the paper's
 *	best start	the same, from the step on with which the whole ends first
 *	unswitched	there is no switch: decoding's steps run on prefill's graphs
 *
 * A step verifies as many tokens as decoding's graphs have, behind the prompt. Cells are times in
 * ms from the prompt's beginning until its logits are there, decoding begins, and its first steps
 * have ended; then the MiB of graphs in memory at most.
 */
#include <stdio.h>
#include <stdlib.h>

#include "blocks.h"
#include "coordgen.h"
#include "tool.h"

#define STEPS 8

enum { RESIDENT, SYNC, ASYNC, PROGRESSIVE, BEST_START, UNSWITCHED, NR_WAYS };

static const struct way {
	const char *name;
	enum llm_switching switching;
	bool from_first, unswitched;
} ways[NR_WAYS] = {
	[RESIDENT] = { "resident", LLM_SWITCHING_RESIDENT, false, false },
	[SYNC] = { "sync", LLM_SWITCHING_SYNC, false, false },
	[ASYNC] = { "async", LLM_SWITCHING_ASYNC, false, false },
	[PROGRESSIVE] = { "progressive", LLM_SWITCHING_PROGRESSIVE, true, false },
	[BEST_START] = { "best start", LLM_SWITCHING_PROGRESSIVE, false, false },
	[UNSWITCHED] = { "unswitched", LLM_SWITCHING_NONE, false, true },
};

/* What a way takes; times from the prompt's beginning. */
struct taken {
	double prefill_ms; /* until the prompt's logits */
	double ready_ms; /* until decoding can begin */
	double total_ms; /* until its steps have ended */
	double peak_mib; /* of graphs */
};

static void head(void)
{
	printf("| soc | model | tokens |");
	for (size_t i = 0; i < NR_WAYS; i++)
		printf(" %s |", ways[i].name);
	printf(" one graph, MiB | progressive, MiB | resident, MiB |\n|---|---|---:|");
	for (size_t i = 0; i < NR_WAYS + 3; i++)
		printf("---:|");
	puts("");
}

static int run_pass(const struct plan_options *o, const struct plan_pass *pass, double *logits_ms,
		    double *end_ms)
{
	const struct sched_options so = { .clock = SCHED_VIRTUAL,
					  .soc = o->soc,
					  .sync = SOC_SYNC_DRIVER };
	struct plan *plan = plan_forward(o, pass);
	struct sched_run run;
	int err;

	if (!plan)
		return tool_fail("no memory for the plan of %u tokens", pass->n_tokens);
	err = sched_run(plan->tasks, &so, &run);
	*end_ms = (double)run.makespan_ns / 1e6;
	for (uint32_t i = 0; i < run.nr_spans && !err; i++)
		if (sched_get(plan->tasks, i)->op == LLM_OP_HEAD)
			*logits_ms = (double)run.spans[i].end_ns / 1e6;
	sched_run_free(&run);
	plan_free(plan);
	return err ? tool_fail("the schedule of %u tokens failed", pass->n_tokens) : 0;
}

/* Graphs in memory at most: on a phone each has its weights in it. */
static double peak_mib(const struct plan_options *o, const struct way *way)
{
	uint32_t blocks = plan_nr_blocks(o->switching, o->shape->layers);
	uint64_t all = 0, most = 0;

	for (uint32_t i = 0; i < blocks; i++) {
		uint64_t bytes = plan_block_bytes(o, i);

		all += bytes;
		most = bytes > most ? bytes : most;
	}
	if (way->switching == LLM_SWITCHING_RESIDENT)
		all *= 2;
	else if (way->switching == LLM_SWITCHING_PROGRESSIVE)
		all += most;
	return (double)all / (1 << 20);
}

static int run_way(const struct place *place, const struct way *way, uint32_t tokens,
		   struct taken *t)
{
	uint32_t chunk = place->args->chunk;
	struct plan_switch s = {
		.graphs = way->switching == LLM_SWITCHING_RESIDENT || way->unswitched
				  ? PLAN_GRAPHS_PREFILL
				  : PLAN_GRAPHS_SWITCHED,
		.from_first = way->from_first,
	};
	struct plan_options o = {
		.soc = place->soc,
		.cuts = place->soc,
		.shape = place->shape,
		.choices = place->args->choices,
		.chunk = chunk,
		.launches = PLAN_LAUNCH_LAYER,
		.switching = &s,
	};
	struct plan_pass pass = { .n_tokens = tokens, .logits = PLAN_LOGITS_LAST };
	int status;

	if (blocks_settle(chunk, place->shape->layers, &s.width, &s.block))
		return tool_fail("%s", llm_error());
	o.choices.graphs = LLM_GRAPHS_FIXED;
	o.choices.switching = way->switching;
	o.choices.activations = LLM_ACTIVATIONS_INT8;
	o.choices.sync = LLM_SYNC_DRIVER;
	t->peak_mib = peak_mib(&o, way);
	status = run_pass(&o, &pass, &t->prefill_ms, &t->ready_ms);
	t->total_ms = t->ready_ms;
	s.graphs = way->unswitched ? PLAN_GRAPHS_PREFILL : PLAN_GRAPHS_DECODE;
	pass = (struct plan_pass){ .n_past = tokens,
				   .n_tokens = s.width,
				   .logits = PLAN_LOGITS_ALL };
	for (int step = 0; step < STEPS && !status; step++) {
		double logits_ms, end_ms = 0;

		status = run_pass(&o, &pass, &logits_ms, &end_ms);
		t->total_ms += end_ms;
		pass.n_past += s.width;
	}
	return status;
}

static int put_tokens(const struct place *place, unsigned int tokens)
{
	struct taken t[NR_WAYS];
	int status = 0;

	for (size_t i = 0; i < NR_WAYS && !status; i++)
		status = run_way(place, &ways[i], tokens, &t[i]);
	if (status)
		return status;
	printf("| %s | %s | %u |", place->soc->name, place->shape->name, tokens);
	for (size_t i = 0; i < NR_WAYS; i++)
		printf(" %.0f / %.0f / %.0f |", t[i].prefill_ms, t[i].ready_ms, t[i].total_ms);
	printf(" %.0f | %.0f | %.0f |\n", t[SYNC].peak_mib, t[PROGRESSIVE].peak_mib,
	       t[RESIDENT].peak_mib);
	return 0;
}

const struct command command_switching = { "switching", head, .put_tokens = put_tokens };
