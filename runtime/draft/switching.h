/* SPDX-License-Identifier: MIT */
/*
 * When to replace prefill's graphs by decoding's (CoordGen 3.2): a policy on profiled times, which
 * computes and loads nothing itself.
 *
 *	struct switching_profile p = {
 *		.blocks = 4, .chunks = 2,
 *		.prefill_ns = prefill, .decode_ns = decode, .load_ns = load,
 *		.prefill_bytes = ..., .decode_bytes = ...,
 *	};
 *	struct switching_load loads[4];
 *	struct switching_times t;
 *
 *	switching_plan(&p, SWITCHING_PROGRESSIVE, 0, loads, &t);
 *
 * An NPU's graphs have fixed shapes: those for a chunk of a prompt are slow for a few drafted
 * tokens, and memory does not hold both. The model's layers are divided into blocks, each with a
 * graph for prefill and one for decoding, in whose place it is loaded. A block whose graph is
 * decoding's computes a chunk too, by running several times on parts of it, with the same result.
 *
 * A step is one block's computation of one chunk: step i is block i % blocks of chunk i / blocks.
 * Steps follow one another; loads follow one another; a step and a load can be at work together.
 */
#ifndef SWITCHING_H
#define SWITCHING_H

#include <stdint.h>

struct switching_profile {
	uint32_t blocks, chunks; /* at least 1 each */
	const uint64_t *prefill_ns; /* [chunks][blocks]: of a step with the graph for prefill */
	const uint64_t *decode_ns; /* [chunks][blocks]: with that for decoding, repeatedly */
	const uint64_t *load_ns; /* [blocks]: to load the graph for decoding */
	const uint64_t *prefill_bytes, *decode_bytes; /* [blocks]: memory of a block's graphs */
};

enum switching_policy {
	/* All steps, then all loads. */
	SWITCHING_SYNCHRONOUS,
	/* In the last chunk a block's graph is loaded as soon as the block has been computed. */
	SWITCHING_ASYNCHRONOUS,
	/* Nothing is loaded, as both graphs of all blocks stay in memory. */
	SWITCHING_RESIDENT,
	/*
	 * The paper's greedy rule. Blocks are switched from the last to the first. A round loads
	 * one graph and computes meanwhile the least number n of next steps whose times, with the
	 * graphs as they are, add up to at least the time of the load:
	 *
	 *	T(step) + ... + T(step + n - 1) >= T_load(last block that is not switched)
	 *
	 * or all that are left. It ends when both are done, and the block is switched.
	 */
	SWITCHING_PROGRESSIVE,
};

/* A load, in the order in which they are done. */
struct switching_load {
	uint32_t block;
	uint32_t step, steps; /* computed in the round; 0 steps but for SWITCHING_PROGRESSIVE */
	uint64_t start_ns, end_ns; /* of the load */
	uint64_t computed_ns; /* end of the round's steps; start_ns without any */
};

struct switching_times {
	uint64_t prefill_ns; /* end of the last step: the prompt's logits are there */
	uint64_t switched_ns; /* end of the last load; 0 without loads */
	uint64_t total_ns; /* the later of both: decoding begins */
	uint64_t peak_bytes; /* of graphs in memory */
	uint32_t nr_loads; /* blocks, or 0 */
};

/*
 * The timeline of a @policy from time 0 on: @loads [blocks], and @times. Progressive switching
 * begins with step @start, of 0 to blocks * chunks, 0 being the paper's; the other policies ignore
 * it.
 */
void switching_plan(const struct switching_profile *p, enum switching_policy policy, uint32_t start,
		    struct switching_load *loads, struct switching_times *times);

/*
 * The start with which progressive switching ends earliest, the last of equally good ones; @loads
 * [blocks] is room for the search. With many chunks, to begin in the first means to compute most of
 * the prompt with decoding's graphs; it is worth less the slower they are. Never later than
 * SWITCHING_SYNCHRONOUS.
 */
uint32_t switching_best_start(const struct switching_profile *p, struct switching_load *loads);

#endif /* SWITCHING_H */
