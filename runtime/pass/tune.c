// SPDX-License-Identifier: MIT
/*
 * How a prompt of placement layer is divided (plan.h), by simulation of a few layers: first into
 * how many chunks, with one share for all matmuls of what the GPU has no time for; then that share
 * of one matmul after the other.
 */
#include <errno.h>

#include "plan.h"

#define TUNE_LAYERS 3
/* Of longer prompts the first tokens are enough to tell. */
#define TUNE_TOKENS 4096
#define TUNE_ROUNDS 2

static const double busy_shares[] = { 0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99 };
#define NR_SHARES (sizeof(busy_shares) / sizeof(busy_shares[0]))

struct tuner {
	const struct plan_options *o; /* of the few layers */
	struct plan_pass pass;
	struct plan_division try, *best;
	uint64_t best_ns;
};

static int simulate(const struct tuner *t, uint64_t *ns)
{
	struct sched_options so = {
		.clock = SCHED_VIRTUAL,
		.soc = t->o->soc,
		.sync = t->o->choices.sync == LLM_SYNC_FAST ? SOC_SYNC_FAST : SOC_SYNC_DRIVER,
	};
	struct plan *plan = plan_forward_divided(t->o, &t->pass, &t->try);
	struct sched_run run;
	int err;

	if (!plan)
		return -ENOMEM;
	so.policy = plan->policy;
	so.param = plan->times;
	err = sched_run(plan->tasks, &so, &run);
	*ns = run.makespan_ns;
	sched_run_free(&run);
	plan_free(plan);
	return err;
}

static int try_it(struct tuner *t)
{
	uint64_t ns;
	int err = simulate(t, &ns);

	if (err || ns >= t->best_ns)
		return err;
	t->best_ns = ns;
	*t->best = t->try;
	return 0;
}

static int tune_chunks(struct tuner *t)
{
	uint32_t whole = plan_chunk(t->o, t->pass.n_tokens);
	int err = 0;

	for (size_t c = 0; c < PLAN_NR_COUNTS && !err; c++) {
		uint32_t chunk = plan_divided(t->pass.n_tokens, plan_counts[c]);

		if (c && t->pass.n_tokens <= (PARTITION_MIN_GRAPH - 1) * plan_counts[c])
			break;
		if (c && chunk > whole)
			continue;
		t->try.chunk = c ? chunk : whole;
		t->try.overlap = c > 0;
		/* One chunk has nothing beside it. */
		for (size_t s = 0; s < (c ? NR_SHARES : 1) && !err; s++) {
			/* Nor has the output. */
			for (int op = 0; op < LLM_OP_HEAD; op++)
				t->try.gpu_busy[op] = busy_shares[s];
			err = try_it(t);
		}
	}
	return err;
}

static int tune_matmuls(struct tuner *t)
{
	uint64_t k, n;
	int err = 0;

	for (int op = 0; op < LLM_OP_HEAD && !err; op++) {
		if (!llm_op_matmul(t->o->shape, op, &k, &n))
			continue;
		for (size_t s = 0; s < NR_SHARES && !err; s++) {
			t->try.gpu_busy[op] = busy_shares[s];
			err = try_it(t);
		}
		t->try.gpu_busy[op] = t->best->gpu_busy[op];
	}
	return err;
}

int plan_divide(const struct plan_options *o, const struct plan_pass *pass,
		struct plan_division *division)
{
	struct shape shape = *o->shape;
	struct plan_options few = *o;
	struct tuner t = { .o = &few, .pass = *pass, .best = division, .best_ns = UINT64_MAX };
	int err;

	shape.layers = shape.layers < TUNE_LAYERS ? shape.layers : TUNE_LAYERS;
	few.shape = &shape;
	few.soc = o->cuts;
	few.calls = (struct plan_calls){ 0 };
	t.pass.n_tokens = pass->n_tokens < TUNE_TOKENS ? pass->n_tokens : TUNE_TOKENS;
	t.pass.logits = PLAN_LOGITS_NONE;
	err = tune_chunks(&t);
	t.try = *division;
	for (int round = 0; round < TUNE_ROUNDS && division->overlap && !err; round++)
		err = tune_matmuls(&t);
	return err;
}
