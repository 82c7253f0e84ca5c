// SPDX-License-Identifier: MIT
/* Placement layer's chunks, by simulation of a few layers (plan.h). */
#include <errno.h>

#include "plan.h"

#define TUNE_LAYERS 2
/* Of longer prompts the first tokens are enough to tell. */
#define TUNE_TOKENS 4096

/* Into how many chunks; rounded up to multiples of a graph's tokens. */
static const uint32_t chunk_counts[] = { 1, 2, 3, 4, 6, 8 };
static const double busy_shares[] = { 0, 0.3, 0.5, 0.7, 0.85 };
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int simulate(const struct plan_options *o, uint64_t *ns)
{
	struct sched_options so = {
		.clock = SCHED_VIRTUAL,
		.profile = o->profile,
		.sync = o->cuts.sync,
		.policy = o->overlap ? &sched_policy_layer : NULL,
	};
	struct shape shape = *o->shape;
	struct plan_options few = *o;
	struct sched_plan *plan;
	struct sched_run run;
	int err;

	shape.layers = shape.layers < TUNE_LAYERS ? shape.layers : TUNE_LAYERS;
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

int plan_tune(struct plan_options *o)
{
	struct plan_options try = *o;
	uint64_t best = UINT64_MAX;

	try.n_tokens = o->n_tokens < TUNE_TOKENS ? o->n_tokens : TUNE_TOKENS;
	for (size_t c = 0; c < COUNT(chunk_counts); c++) {
		uint32_t tokens = (try.n_tokens + chunk_counts[c] - 1) / chunk_counts[c];

		try.chunk = (tokens + PARTITION_MIN_GRAPH - 1) / PARTITION_MIN_GRAPH * PARTITION_MIN_GRAPH;
		if (c && tokens < PARTITION_MIN_GRAPH)
			break;
		if (!c)
			try.chunk = 0;
		try.overlap = c > 0;
		/* One chunk has nothing beside it. */
		for (size_t s = 0; s < (c ? COUNT(busy_shares) : 1); s++) {
			uint64_t ns;
			int err;

			try.cuts.gpu_busy = busy_shares[s];
			err = simulate(&try, &ns);
			if (err)
				return err;
			if (ns >= best)
				continue;
			best = ns;
			o->chunk = try.chunk;
			o->overlap = try.overlap;
			o->cuts.gpu_busy = try.cuts.gpu_busy;
		}
	}
	return 0;
}
