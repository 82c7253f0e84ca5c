// SPDX-License-Identifier: MIT
/*
 * The weights of a cold start in a plan: each piece is read and then packed, and the matmul that
 * needs it comes after its last piece. Pieces of a layer stand before the first chunk's tasks of
 * that layer, so that in the plan's order a lane prefers what is computed with the layers that are
 * there to what only prepares later ones.
 */
#include <stdlib.h>

#include "plan_private.h"

bool plan_is_cold(const struct plan_options *o)
{
	return o->start && o->start->first < o->start->nr;
}

/* A phone's files are in the NPU's form, or in planes that the CPU unpacks to it. */
static void piece_costs(const struct plan_options *o, const struct start_piece *p,
			struct soc_cost *read, struct soc_cost *pack)
{
	*read = o->start->graphs ? soc_read_graph_cost(o->soc, (double)p->bytes)
				 : soc_read_cost(o->soc, (double)p->bytes);
	if (p->unpacked)
		*pack = soc_unpack_cost(o->soc, (double)p->unpacked, (double)p->bytes);
}

/* @piece, a part of the next layer or of the output matrix. */
static void add_piece(struct builder *b, uint32_t piece)
{
	const struct start_piece *p = &b->o->start->pieces[piece];
	struct lane_work work = {
		.what = LANE_OP,
		.op = LLM_OP_READ,
		.layer = p->layer,
		.piece = piece,
	};
	struct soc_cost read_cost = { 0, 0 }, pack_cost = { 0, 0 };
	uint32_t read, before = piece - b->o->start->first;

	if (b->o->soc)
		piece_costs(b->o, p, &read_cost, &pack_cost);
	b->first = b->last = b->read;
	read = b->read = plan_add_task(b, &work, 0, SOC_STORAGE, read_cost);
	if (b->o->start->graphs) {
		b->packed[piece] = read;
		return;
	}
	/* A read waits for a buffer. */
	if (!b->failed && before >= START_RING)
		b->failed = sched_after(b->plan->tasks, read, b->packed[piece - START_RING]) != 0;
	work.op = LLM_OP_PACK;
	b->first = b->last = read;
	b->packed[piece] = plan_add_task(b, &work, 0, SOC_CPU, pack_cost);
	if (!b->failed && before)
		b->failed =
			sched_after(b->plan->tasks, b->packed[piece], b->packed[piece - 1]) != 0;
}

void plan_add_pieces(struct builder *b, uint32_t layer)
{
	const struct plan_start *s = b->o->start;
	uint32_t first = b->first, last = b->last;

	if (!plan_is_cold(b->o))
		return;
	for (; b->piece < s->nr && s->pieces[b->piece].layer <= layer && !b->failed; b->piece++)
		add_piece(b, b->piece);
	b->first = first;
	b->last = last;
}

void plan_add_pieces_ahead(struct builder *b)
{
	plan_add_pieces(b, b->o->shape->layers);
	if (plan_is_cold(b->o))
		b->first = b->last = b->built = b->packed[b->o->start->nr - 1];
}

/* Pieces in the plan that operators up to @last of @layer, and all before them, need. */
static uint32_t pieces_up_to(const struct builder *b, uint32_t layer, enum llm_op last)
{
	const struct start_piece *pieces = b->o->start->pieces;
	uint32_t low = b->o->start->first, high = b->piece;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (pieces[mid].layer > layer ||
		    (pieces[mid].layer == layer && pieces[mid].op > last))
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

void plan_after_pieces(struct builder *b, uint32_t task, const struct lane_work *work)
{
	enum llm_op last = work->what == LANE_SUBGRAPH ? work->last : work->op;
	uint32_t n;

	if (!plan_is_cold(b->o) || work->op >= LLM_NR_OPS)
		return;
	/* A graph is loaded as a whole. */
	if (b->o->start->graphs)
		last = LLM_OP_HEAD;
	n = pieces_up_to(b, work->layer, last);
	/* Pieces are packed in their order: the last one is enough. */
	if (n > b->o->start->first && b->o->start->pieces[n - 1].layer == work->layer &&
	    b->o->start->pieces[n - 1].op >= work->op)
		b->failed |= sched_after(b->plan->tasks, task, b->packed[n - 1]) != 0;
}
