/* SPDX-License-Identifier: MIT */
/*
 * Forward passes: the plan of one, run by the scheduler under the session's clock, with the
 * lanes computing what its tasks are for. Without lanes a pass takes its time on the virtual
 * clock all the same: a dry run.
 *
 * On the wall clock plans are kept, since prompts of one length and tokens come again;
 * what waits for lanes took is kept for each of the two phases, and forgotten when the
 * length of a prompt changes.
 */
#ifndef RUN_H
#define RUN_H

#include "blocks.h"
#include "plan.h"
#include "times.h"

#define PASS_MAX_PLANS 16

/*
 * What the runs on the virtual clock have taken so far; on the wall clock, while a
 * lane had work under way.
 */
struct pass_sums {
	uint64_t ns;
	uint64_t busy_ns[SOC_NR_LANES];
	uint64_t launches, handovers;
	uint64_t picks, pick_ns; /* decisions of the policy, and the host's time for them */
	double dram_bytes, energy_j;
};

/* The last pass that has loaded weights; ns 0: there was none. */
struct pass_cold {
	struct llm_cold_stats stats; /* as cold_measure() sets them, and plan_ns */
	unsigned int rows, tokens; /* of activations in flight; in the KV cache after it */
};

struct pass_runner {
	struct plan_options opts; /* but for calls, which are the runner's */
	struct lane_memory *memory;
	struct lane *lanes[SOC_NR_LANES]; /* all NULL: a dry run */
	float jitter; /* of the virtual clock's durations */
	uint64_t seed;
	/* Choice start cold: the weights that are not there yet, as far as this session knows; the
	 * passes count up its first. Else nr is 0. */
	struct plan_start start;
	struct blocks blocks; /* choice switching */
	struct sched_client *client; /* beside the passes on the virtual clock; NULL: none */
	/*
	 * Told of every pass that went well: when it began, on the pass's clock; NULL: nobody is.
	 */
	void (*listener)(void *ud, uint64_t at_ns, const struct plan *plan,
			 const struct sched_run *run);
	void *listener_ud;
	/*
	 * Shown every operator's result when it is there; NULL: nobody is. Called
	 * by one thread at a time.
	 */
	void (*observer)(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
			 unsigned int rows, unsigned int cols, const float *data);
	void *observer_ud;
	/* The rest is the runner's. */
	uint64_t nr_passes;
	struct {
		struct plan *plan;
		uint64_t used;
	} plans[PASS_MAX_PLANS];
	uint64_t uses;
	struct waits waits[3]; /* of prompts, of tokens, and of token trees */
	unsigned int waits_n; /* tokens of the prompts that the first is of */
	struct times times; /* wall clock: of earlier passes */
	struct pass_sums sums;
	struct llm_at_stats at; /* but for positions */
	unsigned int chunk; /* of the last prompt, if plan_divide() chose it; else 0 */
	struct pass_cold cold;
	struct pass_state *now; /* the pass under way */
};

/* What a pass is to do. */
struct pass {
	const int32_t *ids; /* not looked at in a dry run */
	const struct lane_tree *tree; /* the tokens are its nodes; NULL: they are a sequence */
	unsigned int pos, n; /* tokens in the cache, and to evaluate */
	bool all; /* every token's logits, not the last one's */
	/* Of all but a tree's: called with those of token @i, in order. */
	void (*logits)(void *ud, size_t i, const float *logits);
	/*
	 * With all: only the tokens at [nr_at], rising, of which the last is the pass's last; and
	 * @best is called with the @k best candidates of each, in order. NULL: all tokens.
	 */
	const uint32_t *at;
	uint32_t nr_at;
	unsigned int k;
	void (*best)(void *ud, size_t i, const struct llm_candidate *best);
	void *ud;
};

/* 0, a lane's error, or -ENOMEM, with the error line. */
int pass_run(struct pass_runner *r, const struct pass *pass);
/* Makes the graphs that a pass of so many tokens, or nodes of a tree, needs. */
int pass_prepare(struct pass_runner *r, unsigned int n, bool tree);
/*
 * Behind a tree's pass at position @pos: keeps the @n nodes of @path, whose rows of the KV cache
 * become rows @pos.. of it.
 */
void pass_keep(struct pass_runner *r, unsigned int pos, const uint8_t *path, unsigned int n);
/* The time on the runner's clock. */
uint64_t pass_now_ns(const struct pass_runner *r);
void pass_runner_fini(struct pass_runner *r);

#endif /* RUN_H */
