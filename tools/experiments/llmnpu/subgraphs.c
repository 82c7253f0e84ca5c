// SPDX-License-Identifier: MIT
/*
 * Subgraphs of a prompt's chunks (llm.npu 3.2): a stretch of operators on one lane. One without
 * attention depends on the chunk's length only, and all chunks can share it. One with attention
 * depends on the position too, unless that is a param of the program, as it is here.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "llmnpu.h"
#include "tool.h"

#define GB 1e9
#define FLOAT_BYTES 2

/* What the subgraphs of one chunk hold: bytes of weights and of activations. */
struct holds {
	unsigned int fixed, dynamic; /* subgraphs */
	double weights, fixed_bytes, dynamic_bytes;
	double elements; /* of the NPU's matmuls, for their compiler */
	unsigned int npu_ops;
};

/* Bytes of an operator's inputs and results for @rows at position @pos, as the models' floats. */
static double tensors(const struct shape *s, enum llm_op op, double rows, double pos)
{
	double q = (double)s->heads * s->head_dim, kv = (double)s->kv_heads * s->head_dim;
	uint64_t k, n;

	if (op == LLM_OP_ATTN)
		return FLOAT_BYTES *
		       (2 * rows * q + 2 * (pos + rows) * kv + rows * (pos + rows) * s->heads);
	if (llm_op_matmul(s, op, &k, &n))
		return FLOAT_BYTES * rows * (double)(k + n);
	return 2 * FLOAT_BYTES * rows * (op == LLM_OP_ACT ? s->ffn : s->dim);
}

/* Whether @t begins a subgraph after @last: on another lane, or as another graph of the NPU. */
static bool begins(const struct sched_task *last, const struct sched_task *t)
{
	return !last || last->home != t->home || (t->home == SOC_NPU && last->graph != t->graph);
}

static void add_tensors(struct holds *h, const struct place *place, const struct sched_task *t,
			const struct lane_chunk *chunk)
{
	double bytes = tensors(place->shape, t->op, chunk->rows, chunk->first);
	uint64_t k, n;

	h->fixed_bytes += t->op == LLM_OP_ATTN ? 0 : bytes;
	h->dynamic_bytes += t->op == LLM_OP_ATTN ? bytes : 0;
	h->npu_ops += t->home == SOC_NPU;
	if (!llm_op_matmul(place->shape, t->op, &k, &n))
		return;
	h->weights += (double)(k * n);
	h->elements += npu_time_elements(chunk->rows, k, n);
}

/* Of the operators in the layers of chunk @c. */
static struct holds count(const struct place *place, const struct plan *plan, uint32_t c)
{
	const struct sched_task *last = NULL;
	struct holds h = { 0 };
	bool dynamic = false;

	for (uint32_t i = 0; i < sched_nr_tasks(plan->tasks); i++) {
		const struct sched_task *t = sched_get(plan->tasks, i);
		/* The residual after the last layer is in the output's subgraph. */
		bool outputs = t->op == LLM_OP_ADD && t->layer + 1 == place->shape->layers;

		if (t->chunk != c || t->op < LLM_OP_ATTN_NORM || t->op > LLM_OP_ADD)
			continue;
		if (begins(last, t) && !outputs) {
			h.fixed += last && !dynamic;
			h.dynamic += dynamic;
			dynamic = false;
		}
		last = t;
		dynamic |= t->op == LLM_OP_ATTN;
		add_tensors(&h, place, t, &plan->chunks[c]);
	}
	h.fixed += !dynamic;
	h.dynamic += dynamic;
	return h;
}

static void head(void)
{
	puts("| model | floats | chunks | subgraphs | shared | graphs a chunk, GB | shared, GB | "
	     "saved | position a param, GB | built a chunk, s | shared, s |\n"
	     "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
}

static void put_row(const struct place *place, const struct plan *plan, const char *floats)
{
	const struct soc_npu *npu = &place->soc->npu;
	double each = 0, dynamic = 0, most = 0, build_each, build;
	struct holds h = { 0 };

	for (uint32_t c = 0; c < plan->nr_chunks; c++) {
		h = count(place, plan, c);
		each += h.weights + h.fixed_bytes + h.dynamic_bytes;
		dynamic += h.dynamic_bytes;
		most = h.dynamic_bytes > most ? h.dynamic_bytes : most;
	}
	build = (npu_time_build_ns(npu, h.npu_ops) + npu_time_optimize_ns(npu, h.elements)) / 1e9;
	build_each = plan->nr_chunks * build;
	printf("| %s | %s | %u | %u | %u | %.2f | %.2f | %.0f %% | %.2f | %.1f | %.1f |\n",
	       place->shape->name, floats, plan->nr_chunks, h.fixed + h.dynamic, h.fixed, each / GB,
	       (h.weights + h.fixed_bytes + dynamic) / GB,
	       100 * (1 - (h.weights + h.fixed_bytes + dynamic) / each),
	       (h.weights + h.fixed_bytes + most) / GB, build_each, build);
}

static int put(const struct place *place)
{
	const struct args *args = place->args;

	for (size_t i = 0; i < args->tokens.n; i++)
		for (enum llm_floats f = LLM_FLOATS_CPU; f <= LLM_FLOATS_NPU; f++) {
			struct trial t = { .choices = args->choices,
					   .pruning = 1,
					   .chunk = args->chunk,
					   .tokens = args->tokens.v[i] };
			struct plan *plan;

			t.choices.floats = f;
			plan = plan_trial(place, &t);
			if (!plan)
				return 1;
			put_row(place, plan, llm_choice_name(LLM_CHOICE_FLOATS, f));
			plan_free(plan);
		}
	return 0;
}

const struct command command_subgraphs = { "subgraphs", head, .put = put };
