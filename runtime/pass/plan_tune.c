// SPDX-License-Identifier: MIT
/*
 * Placement layer's chunks, by simulation of a few layers (plan.h): first into how many chunks, with one share for all
 * products of what the GPU has no time for; then that share of one product after the other.
 */
#include <errno.h>

#include "plan.h"

#define TUNE_LAYERS 3
/* Of longer prompts the first tokens are enough to tell. */
#define TUNE_TOKENS 4096
#define TUNE_ROUNDS 2

/* Chunks are rounded up to multiples of the smallest graph's tokens. */
static const uint32_t chunk_counts[] = { 1, 2, 3, 4, 6, 8 };
static const double busy_shares[] = { 0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99 };
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct tuner {
	struct plan_options try;
	struct plan_options *best;
	uint64_t best_ns;
};

static int simulate(const struct plan_options *o, uint64_t *ns)
{
	struct sched_options so = {
		.clock = SCHED_VIRTUAL,
		.profile = o->cuts.profile,
		.sync = o->cuts.sync,
		.policy = o->overlap ? &sched_policy_layer : NULL,
	};
	struct shape shape = *o->shape;
	struct plan_options few = *o;
	struct sched_plan *plan;
	struct sched_run run;
	int err;

	shape.layers = shape.layers < TUNE_LAYERS ? shape.layers : TUNE_LAYERS;
	few.profile = o->cuts.profile;
	few.predictor = o->cuts.predictor;
	few.shape = &shape;
	few.logits = 0;
	few.run = NULL;
	plan = plan_forward(&few);
	if (!plan)
		return -ENOMEM;
	err = sched_run(plan, &so, &run);
	*ns = run.makespan_ns;
	sched_run_free(&run);
	sched_plan_free(plan);
	return err;
}

static int try_it(struct tuner *t)
{
	uint64_t ns;
	int err = simulate(&t->try, &ns);

	if (err || ns >= t->best_ns)
		return err;
	t->best_ns = ns;
	t->best->chunk = t->try.chunk;
	t->best->overlap = t->try.overlap;
	for (int op = 0; op < PLAN_NR_OPS; op++)
		t->best->gpu_busy[op] = t->try.gpu_busy[op];
	return 0;
}

static int tune_chunks(struct tuner *t)
{
	int err = 0;

	for (size_t c = 0; c < COUNT(chunk_counts) && !err; c++) {
		uint32_t tokens = (t->try.n_tokens + chunk_counts[c] - 1) / chunk_counts[c];

		if (c && tokens < PARTITION_MIN_GRAPH)
			break;
		t->try.chunk = (tokens + PARTITION_MIN_GRAPH - 1) / PARTITION_MIN_GRAPH * PARTITION_MIN_GRAPH;
		if (!c)
			t->try.chunk = 0;
		t->try.overlap = c > 0;
		/* One chunk has nothing beside it. */
		for (size_t s = 0; s < (c ? COUNT(busy_shares) : 1) && !err; s++) {
			/* Nor has the output. */
			for (int op = 0; op < PLAN_HEAD; op++)
				t->try.gpu_busy[op] = busy_shares[s];
			err = try_it(t);
		}
	}
	return err;
}

static int tune_products(struct tuner *t)
{
	uint64_t k, n;
	int err = 0;

	for (int op = 0; op < PLAN_NR_OPS && !err; op++) {
		if (!plan_product(t->try.shape, op, &k, &n) || op == PLAN_HEAD)
			continue;
		for (size_t s = 0; s < COUNT(busy_shares) && !err; s++) {
			t->try.gpu_busy[op] = busy_shares[s];
			err = try_it(t);
		}
		t->try.gpu_busy[op] = t->best->gpu_busy[op];
	}
	return err;
}

int plan_tune(struct plan_options *o)
{
	struct tuner t = { .try = *o, .best = o, .best_ns = UINT64_MAX };
	int err;

	t.try.n_tokens = o->n_tokens < TUNE_TOKENS ? o->n_tokens : TUNE_TOKENS;
	err = tune_chunks(&t);
	t.try.chunk = o->chunk;
	t.try.overlap = o->overlap;
	for (int op = 0; op < PLAN_NR_OPS; op++)
		t.try.gpu_busy[op] = o->gpu_busy[op];
	for (int round = 0; round < TUNE_ROUNDS && o->overlap && !err; round++)
		err = tune_products(&t);
	return err;
}
