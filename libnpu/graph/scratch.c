// SPDX-License-Identifier: MIT
/*
 * Scratch memory: places the results that are not outputs.
 *
 * A result is live from the region of its operator to that of its last reader, both included,
 * because commands of a region run concurrently. An elementwise operator that is its operand's only
 * last reader takes over the operand's memory. The other results are placed by size, largest first,
 * each into the smallest gap between results that are live at the same time.
 */
#include <errno.h>
#include <stdlib.h>

#include "op.h"

#define SCRATCH_ALIGN 64

static bool in_scratch(const struct npu_tensor *t)
{
	return t && t->kind == TENSOR_RESULT && !t->output;
}

static void scratch_lifetimes(struct npu_graph *g)
{
	for (struct npu_tensor *t = g->tensors; t; t = t->next) {
		t->home = t;
		t->readers = 0;
		if (t->kind == TENSOR_RESULT)
			t->first = t->last = g->ops[t->producer].region;
	}
	for (uint32_t i = 0; i < g->nr_live; i++) {
		const struct graph_op *op = &g->ops[g->order[i]];

		for (unsigned int k = 0; k < GRAPH_OP_INPUTS; k++) {
			struct npu_tensor *t = op->in[k];

			if (!in_scratch(t))
				continue;
			/* Operators are sorted by region: a later region restarts the count. */
			if (t->last < op->region)
				t->readers = 0;
			if (!t->readers || t->readers_op != g->order[i])
				t->readers++;
			t->readers_op = g->order[i];
			t->last = op->region;
		}
	}
}

static bool scratch_takes_over(const struct npu_graph *g, uint32_t index,
			       const struct npu_tensor *x, const struct npu_tensor *y)
{
	return in_scratch(x) && in_scratch(y) && x->rows == y->rows && x->cols == y->cols &&
	       x->readers == 1 && x->readers_op == index && x->last == g->ops[index].region;
}

/* Gives a result the memory of the first operand that its operation allows and no other reads. */
static void scratch_in_place(struct npu_graph *g)
{
	for (uint32_t i = 0; i < g->nr_live; i++) {
		uint32_t index = g->order[i];
		struct graph_op *op = &g->ops[index];
		struct npu_tensor *y = op->out[0];
		unsigned int allowed = op->op == VNPU_OP_SLEEP ? 0 : npu_ops[op->op]->in_place,
			     k = 0;

		/* A command must not write memory that it reads twice. */
		if (op->in[0] == op->in[1])
			continue;
		while (k < GRAPH_OP_INPUTS &&
		       !(allowed & 1u << k && scratch_takes_over(g, index, op->in[k], y)))
			k++;
		if (k == GRAPH_OP_INPUTS)
			continue;
		y->home = op->in[k]->home;
		y->home->last = y->last;
	}
	/* Later results in a chain have extended the first one's life: copy its final value. */
	for (struct npu_tensor *t = g->tensors; t; t = t->next)
		if (in_scratch(t) && t->home != t && t->home->last < t->last)
			t->home->last = t->last;
}

static int by_size(const void *a, const void *b)
{
	const struct npu_tensor *x = *(struct npu_tensor *const *)a,
				*y = *(struct npu_tensor *const *)b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->producer < y->producer ? -1 : x->producer > y->producer;
}

static int by_offset(const void *a, const void *b)
{
	const struct npu_tensor *x = *(struct npu_tensor *const *)a,
				*y = *(struct npu_tensor *const *)b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static uint64_t scratch_round(uint64_t bytes)
{
	return (bytes + SCRATCH_ALIGN - 1) & ~(uint64_t)(SCRATCH_ALIGN - 1);
}

/* @placed[0..nr) have their offsets; @near has room for as many. */
static void scratch_place(struct npu_tensor *t, struct npu_tensor **placed, uint32_t nr,
			  struct npu_tensor **near)
{
	uint64_t end = 0, best = UINT64_MAX, bytes = scratch_round(t->bytes);
	uint32_t n = 0;

	for (uint32_t i = 0; i < nr; i++)
		if (placed[i]->first <= t->last && t->first <= placed[i]->last)
			near[n++] = placed[i];
	qsort(near, n, sizeof(struct npu_tensor *), by_offset);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t gap = near[i]->offset > end ? near[i]->offset - end : 0;

		if (gap >= bytes && gap < best) {
			best = gap;
			t->offset = end;
		}
		if (near[i]->offset + scratch_round(near[i]->bytes) > end)
			end = near[i]->offset + scratch_round(near[i]->bytes);
	}
	if (best == UINT64_MAX)
		t->offset = end;
}

int scratch_plan(struct npu_graph *g)
{
	struct npu_tensor **all, **near;
	uint32_t nr = 0, count = 0;

	g->scratch_bytes = 0;
	scratch_lifetimes(g);
	scratch_in_place(g);
	for (struct npu_tensor *t = g->tensors; t; t = t->next)
		count++;
	all = calloc(count + 1, sizeof(struct npu_tensor *));
	near = calloc(count + 1, sizeof(struct npu_tensor *));
	if (!all || !near) {
		free(all);
		free(near);
		return graph_fail(g, -ENOMEM, "out of memory");
	}
	for (struct npu_tensor *t = g->tensors; t; t = t->next)
		if (in_scratch(t) && t->home == t && g->ops[t->producer].live)
			all[nr++] = t;
	qsort(all, nr, sizeof(struct npu_tensor *), by_size);
	/* Ends at the limit: offsets cannot overflow. */
	for (uint32_t i = 0; i < nr && g->scratch_bytes <= NPU_IMAGE_MAX_BYTES; i++) {
		scratch_place(all[i], all, i, near);
		if (all[i]->offset + scratch_round(all[i]->bytes) > g->scratch_bytes)
			g->scratch_bytes = all[i]->offset + scratch_round(all[i]->bytes);
	}
	for (struct npu_tensor *t = g->tensors; t; t = t->next)
		if (in_scratch(t))
			t->offset = t->home->offset;
	free(all);
	free(near);
	if (g->scratch_bytes > NPU_IMAGE_MAX_BYTES)
		return graph_fail(g, -E2BIG,
				  "its results need %llu bytes of scratch memory or more, a graph "
				  "may have %llu",
				  (unsigned long long)g->scratch_bytes, NPU_IMAGE_MAX_BYTES);
	return 0;
}
