/* SPDX-License-Identifier: MIT */
/*
 * hetero: what docs/hetero.md reports of GPU and NPU together and llm-bench does not measure: an
 * engine beside a game, by either clock, and cuts of given shares.
 *
 *	main.c		the command line, and a line of JSON for each test
 *	trial.c		one test
 */
#ifndef HETERO_H
#define HETERO_H

#include "game.h"
#include "gpu_game.h"
#include "llm.h"
#include "prompts.h"
#include "timeline.h"

/* Evaluates a prompt, and then generates tokens greedily; either may be of 0 tokens. */
struct trial {
	struct llm_engine *engine;
	const struct prompts *prompts; /* NULL: a dry run */
	unsigned int n_prompt, n_gen, n_depth; /* n_depth: tokens in the KV cache before */
	unsigned int repetitions;
	struct timeline *timeline; /* what the repetitions did when; NULL: nobody wants to know */
	const char *name; /* there */
	/* Told before the warm-up (0) and before each repetition (1..). */
	void (*progress)(void *ud, const struct trial *trial, unsigned int repetition);
	void *ud;
};

struct trial_result {
	uint64_t *samples_ns; /* a repetition each, to be freed */
	double mean_ns;
	char output_sha256[TOKENS_SHA256_CHARS + 1]; /* "": nothing was generated */
	unsigned int chunk; /* of prompts that the plan divided; else 0 */
	struct llm_wait_stats prompt_waits, token_waits; /* of all that the session did */
};

/* A game to make a test beside. */
struct trial_game {
	struct game game; /* until the end of the test, as it was played */
	struct gpu_game *gpu; /* plays it on the wall clock; NULL: a client of the virtual one */
	struct soc left; /* what prompts are planned for then */
	struct sched_client client;
};

/*
 * Makes a test in a session of its own; by the wall clock after a warm-up. With @game, unless NULL,
 * that is played during the repetitions, and by the virtual clock prompts are planned for what it
 * leaves of the GPU; tokens for all of it, as their matmuls are shorter than the pause between two
 * frames. 0, or 1 after a message.
 */
int trial_run(const struct trial *trial, struct trial_game *game, struct trial_result *result);

#endif /* HETERO_H */
