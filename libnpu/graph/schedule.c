// SPDX-License-Identifier: MIT
/*
 * Which operators run, and when. Commands between two barriers (a region) run concurrently, so an
 * operator goes into the first region after all its dependencies. This gives as few barriers as the
 * longest chain of dependencies allows.
 *
 * Results are written once, so only reads of them create dependencies. States are written in place:
 * a store comes after every earlier access, a read after the last store. A sleep has a region of
 * its own: after all earlier operators and before all later ones.
 */
#include <errno.h>
#include <stdlib.h>

#include "graph.h"

/* Leaves out operators whose results nobody uses; stores and sleeps count as used. */
static uint32_t schedule_mark_live(struct npu_graph *g)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < g->nr_ops; i++) {
		struct graph_op *op = &g->ops[i];

		op->live = op->state || op->op == VNPU_OP_SLEEP;
		for (unsigned int k = 0; k < GRAPH_OP_OUTPUTS; k++)
			op->live |= op->out[k] && op->out[k]->output;
	}
	/* Producers come before their users. */
	for (uint32_t i = g->nr_ops; i--;) {
		struct graph_op *op = &g->ops[i];

		if (!op->live)
			continue;
		nr++;
		for (unsigned int k = 0; k < GRAPH_OP_INPUTS; k++)
			if (op->in[k] && op->in[k]->producer != NO_OP)
				g->ops[op->in[k]->producer].live = true;
	}
	return nr;
}

static uint32_t later(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/*
 * While regions are assigned, a state's @first is the region after its last store, @last the one
 * after its last read.
 */
static uint32_t schedule_region(const struct npu_graph *g, const struct graph_op *op, uint32_t from)
{
	uint32_t region = from;

	for (unsigned int k = 0; k < GRAPH_OP_INPUTS; k++) {
		const struct npu_tensor *t = op->in[k];

		if (t && t->producer != NO_OP)
			region = later(region, g->ops[t->producer].region + 1);
		if (t && t->kind == TENSOR_STATE)
			region = later(region, t->first);
	}
	if (op->state)
		region = later(region, later(op->state->first, op->state->last));
	return region;
}

static void schedule_regions(struct npu_graph *g)
{
	uint32_t from = 0, end = 0;

	for (struct npu_tensor *t = g->tensors; t; t = t->next)
		t->first = t->last = 0;
	for (uint32_t i = 0; i < g->nr_ops; i++) {
		struct graph_op *op = &g->ops[i];

		if (!op->live)
			continue;
		op->region = schedule_region(g, op, op->op == VNPU_OP_SLEEP ? end : from);
		end = later(end, op->region + 1);
		if (op->op == VNPU_OP_SLEEP)
			from = end;
		for (unsigned int k = 0; k < GRAPH_OP_INPUTS; k++)
			if (op->in[k] && op->in[k]->kind == TENSOR_STATE)
				op->in[k]->last = later(op->in[k]->last, op->region + 1);
		if (op->state)
			op->state->first = op->region + 1;
	}
	g->nr_regions = end;
}

/* Stable sort by region: operators of a region keep the order in which they were added. */
static int schedule_order(struct npu_graph *g)
{
	uint32_t *start = calloc(g->nr_regions + 1, sizeof(*start));

	free(g->order);
	g->order = calloc(g->nr_live, sizeof(*g->order));
	if (!start || !g->order) {
		free(start);
		return graph_fail(g, -ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; i < g->nr_ops; i++)
		if (g->ops[i].live)
			start[g->ops[i].region + 1]++;
	for (uint32_t r = 1; r <= g->nr_regions; r++)
		start[r] += start[r - 1];
	for (uint32_t i = 0; i < g->nr_ops; i++)
		if (g->ops[i].live)
			g->order[start[g->ops[i].region]++] = i;
	free(start);
	return 0;
}

int schedule_plan(struct npu_graph *g)
{
	g->nr_live = schedule_mark_live(g);
	if (!g->nr_live)
		return graph_fail(g, -EINVAL, "the graph has no output, store or sleep");
	schedule_regions(g);
	return schedule_order(g);
}
