/* SPDX-License-Identifier: MIT */
/*
 * The graphs of blocks of layers in a session's memory (choice switching, CoordGen 3.2). A session
 * begins with those for prefill; its first pass loads those for decoding, each of which takes the
 * place of a block's first one. They come back when the session is truncated to nothing, between
 * passes, so that no clock counts it.
 *
 * Sizes are those of the programs, without scratch memory; on the virtual clock, those of the
 * SoC's graphs, which have their weights in them.
 */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "plan.h"

struct blocks {
	struct plan_switch plan; /* of the pass that comes */
	uint32_t nr; /* 0: the choice is none */
	/* Counted up by passes: loads, the time that they took, and that passes waited for them. */
	uint64_t loads, load_ns, wait_ns;
	/* Of graphs: all of prefill's; those in memory, now and at most. */
	uint64_t prefill_bytes, bytes, peak_bytes;
	/* The rest is private to blocks.c. */
	struct block *list; /* [nr] */
	const struct plan_options *o;
	struct lane *npu; /* NULL: a dry run */
	uint32_t chunk; /* tokens of prefill's graphs */
};

/*
 * Tokens of decoding's graphs, and layers of a block, where 0 asks for the default: a quarter of
 * @chunk or the next smaller divisor, and LLM_BLOCK_LAYERS. The two graphs of a block are never of
 * as many tokens: one of them is dropped while the other computes. -EINVAL with the error line.
 */
int blocks_settle(uint32_t chunk, uint32_t layers, uint32_t *width, uint32_t *block);
/*
 * Makes the graphs for prefill, with resident switching all of them, in blocks of @block layers and
 * @width tokens. On the wall clock, progressive switching then times a step of either kind, and a
 * load. 0 or -errno with the error line; call blocks_fini() in either case. @o outlives @b.
 */
int blocks_init(struct blocks *b, const struct plan_options *o, struct lane *npu, uint32_t block,
		uint32_t width);
void blocks_fini(struct blocks *b);

/* Before a pass of @tokens: sets b->plan. After one that failed, switches back first. */
int blocks_begin(struct blocks *b, uint32_t tokens);
/* What an LLM_OP_LOAD does. */
int blocks_load(struct blocks *b, const struct lane_work *work);
/* After a pass that went well. */
void blocks_end(struct blocks *b, const struct plan *plan, const struct sched_run *run);
/* Switches back to the graphs for prefill. */
int blocks_reset(struct blocks *b);

#endif /* BLOCKS_H */
