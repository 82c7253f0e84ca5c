// SPDX-License-Identifier: MIT
/*
 * The FFN of a layer with experts, as one task of the CPU: which experts it will need is not known
 * when the plan is made. Its cost is that of tokens whose experts are drawn at random: each expert
 * that is drawn is read once, and multiplies its share of the rows.
 */
#include <math.h>

#include "plan_private.h"

static void add_cost(const struct builder *b, const struct soc_op *op, struct soc_cost *sum)
{
	struct soc_cost cost = plan_cost(b->o, SOC_CPU, op);

	sum->ns += cost.ns;
	sum->dram_bytes += cost.dram_bytes;
}

/* Experts that tokens of the chunk are expected to draw. */
static double drawn(const struct shape *s, uint32_t tokens)
{
	return s->experts * (1 - pow(1 - (double)s->experts_used / s->experts, tokens));
}

static void add_matmul_cost(const struct builder *b, uint64_t m, uint64_t k, uint64_t n,
			    struct llm_width width, struct soc_cost *sum)
{
	const struct soc_op matmul = {
		.kind = SOC_MATMUL,
		.m = m,
		.k = k,
		.n = n,
		.weight_bits = width.bits,
		.group = width.group,
		.act_bits = llm_act_bits(b->o->choices.weights),
		.density = 1,
	};

	add_cost(b, &matmul, sum);
}

/* An FFN of @ffn, of which @n are computed for @m rows each. */
static void add_ffn(const struct builder *b, uint64_t m, uint64_t ffn, double n,
		    struct soc_cost *sum)
{
	const struct shape *s = b->o->shape;
	struct llm_width width = b->o->widths ? b->o->widths[LLM_OP_EXPERTS]
					      : llm_weights_width(b->o->choices.weights);
	uint64_t dim = s->dim;
	uint64_t cols;
	struct soc_op act =
		plan_vector(m, (uint64_t)(n * (double)ffn), plan_float_ops(s, LLM_OP_ACT, &cols));

	add_matmul_cost(b, m, dim, (uint64_t)(n * (double)ffn * (s->gated ? 2 : 1)), width, sum);
	add_cost(b, &act, sum);
	add_matmul_cost(b, m, ffn, (uint64_t)(n * (double)dim), width, sum);
}

static struct soc_cost experts_cost(const struct builder *b)
{
	const struct llm_width floats = { FLOAT_BITS, 0 };
	const struct shape *s = b->o->shape;
	struct soc_op softmax = plan_vector(b->tokens, s->experts,
					    FLOAT_OPS_SOFTMAX + FLOAT_OPS_TOPK),
		      add = plan_vector((uint64_t)b->tokens * s->experts_used, s->dim,
					FLOAT_OPS_ADD);
	double n = drawn(s, b->tokens);
	struct soc_cost sum = { 0, 0 };

	add_matmul_cost(b, b->tokens, s->dim, s->experts, floats, &sum);
	add_cost(b, &softmax, &sum);
	add_ffn(b, (uint64_t)ceil(b->tokens * (double)s->experts_used / n), s->ffn, n, &sum);
	if (s->shared_ffn)
		add_ffn(b, b->tokens, s->shared_ffn, 1, &sum);
	add_cost(b, &add, &sum);
	return sum;
}

void plan_add_experts(struct builder *b, uint32_t layer)
{
	struct lane_work work = plan_work(b, layer, LLM_OP_EXPERTS);
	struct soc_cost cost = { 0, 0 };

	if (b->o->soc)
		cost = experts_cost(b);
	b->first = b->last = plan_add_task(b, &work, 0, SOC_CPU, cost);
}
