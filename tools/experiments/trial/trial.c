// SPDX-License-Identifier: MIT
/* One prompt on the virtual clock. */
#include "trial.h"

#include <stdlib.h>

#include "tool.h"

double bubbles(const struct outcome *o, enum soc_lane lane)
{
	return 1 - o->busy_ms[lane] / o->ms;
}

/* The pieces of the weights' file. */
static int cut_weights(const struct place *place, const struct trial *t, struct plan_start *start,
		       struct start_piece **pieces)
{
	struct llm_width widths[LLM_NR_OPS];

	for (unsigned int op = 0; op < LLM_NR_OPS; op++)
		widths[op].bits = op == LLM_OP_HEAD ? 8 : t->start.bits;
	*pieces = NULL;
	*start = (struct plan_start){ .graphs = t->start.graphs, .ahead = t->start.ahead };
	if (!t->start.cold)
		return 0;
	start->pieces = *pieces =
		start_pieces(NULL, t->choices.weights, place->shape, widths, &start->nr);
	return *pieces ? 0 : -1;
}

static struct plan *make_plan(const struct place *place, const struct trial *t,
			      const struct shadow *shadow)
{
	struct start_piece *pieces;
	struct plan_start start;
	struct plan *plan;
	struct plan_options o = {
		.soc = place->soc,
		.cuts = place->soc,
		.shape = place->shape,
		.choices = t->choices,
		.shadow = llm_activations_static(t->choices.activations) ? shadow : NULL,
		.start = t->start.cold ? &start : NULL,
		/* Graphs of the prompt's length take it whole. */
		.chunk = t->choices.graphs == LLM_GRAPHS_ONLINE ? t->tokens : t->chunk,
	};
	const struct plan_pass pass = { .n_tokens = t->tokens, .logits = PLAN_LOGITS_LAST };

	o.rows = plan_rows(&o, t->tokens);
	if (cut_weights(place, t, &start, &pieces))
		return NULL;
	plan = plan_forward(&o, &pass);
	free(pieces);
	return plan;
}

struct plan *plan_trial(const struct place *place, const struct trial *t)
{
	struct shadow shadow;
	struct plan *plan;

	if (shadow_guess(&shadow, place->shape, t->pruning)) {
		tool_fail("%s", llm_error());
		return NULL;
	}
	plan = make_plan(place, t, &shadow);
	shadow_free(&shadow);
	if (!plan)
		tool_fail("no memory for the plan of %u tokens", t->tokens);
	return plan;
}

int run_trial(const struct place *place, const struct trial *t, struct outcome *outcome)
{
	struct sched_options so = {
		.clock = SCHED_VIRTUAL,
		.soc = place->soc,
		.sync = t->choices.sync == LLM_SYNC_FAST ? SOC_SYNC_FAST : SOC_SYNC_DRIVER,
	};
	struct plan *plan = plan_trial(place, t);
	struct sched_run run;
	int err;

	if (!plan)
		return 1;
	so.policy = t->policy ? t->policy : plan->policy;
	so.param = plan->times;
	err = sched_run(plan->tasks, &so, &run);
	*outcome = (struct outcome){
		.ms = (double)run.makespan_ns / 1e6,
		.joules = run.energy_j,
		.decision_ns = run.picks ? (double)run.pick_ns / (double)run.picks : 0,
		.tasks = sched_nr_tasks(plan->tasks),
		.chunks = plan->nr_chunks,
	};
	for (uint32_t i = 0; i < run.nr_spans; i++)
		outcome->taken += run.spans[i].lane != sched_get(plan->tasks, i)->home;
	for (int lane = 0; lane < SOC_NR_LANES; lane++)
		outcome->busy_ms[lane] = (double)run.busy_ns[lane] / 1e6;
	sched_run_free(&run);
	plan_free(plan);
	return err ? tool_fail("the schedule of %u tokens failed", t->tokens) : 0;
}
