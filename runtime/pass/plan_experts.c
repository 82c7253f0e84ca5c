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

static void add_vector_cost(const struct builder *b, uint64_t rows, double cols, double ops,
			    struct soc_cost *sum)
{
	const struct soc_op vector = plan_vector(rows, (uint64_t)cols, ops);

	add_cost(b, &vector, sum);
}

/* FFNs of @ffn: of @n experts, for @m rows each, which are gathered first. */
static void add_ffns(const struct builder *b, uint64_t m, uint64_t ffn, double n,
		     struct soc_cost *sum)
{
	const struct plan_input in = plan_input_of(b, LLM_OP_GATE_UP),
				down = plan_input_of(b, LLM_OP_DOWN);
	const struct llm_width width = b->o->widths ? b->o->widths[LLM_OP_EXPERTS]
						    : llm_weights_width(b->o->choices.weights);
	const struct shape *s = b->o->shape;
	unsigned int projections = s->gated ? 2 : 1;
	double dim = n * s->dim, wide = n * (double)ffn;
	uint64_t cols;

	add_vector_cost(b, m, dim, FLOAT_OPS_COPY + in.quant_ops, sum);
	add_matmul_cost(b, m * in.planes, s->dim, (uint64_t)(wide * projections), width, sum);
	add_vector_cost(b, m, wide,
			projections * in.fold_ops + plan_float_ops(b, LLM_OP_ACT, &cols) +
				down.quant_ops,
			sum);
	add_matmul_cost(b, m * down.planes, ffn, (uint64_t)dim, width, sum);
	add_vector_cost(b, m, dim, down.fold_ops + FLOAT_OPS_ADD, sum);
}

static struct soc_cost experts_cost(const struct builder *b)
{
	const struct llm_width floats = { FLOAT_BITS, 0 };
	const struct shape *s = b->o->shape;
	double n = drawn(s, b->tokens), pairs = (double)b->tokens * s->experts_used;
	struct soc_cost sum = { 0, 0 };

	add_matmul_cost(b, b->tokens, s->dim, s->experts, floats, &sum);
	add_vector_cost(b, b->tokens, s->experts, FLOAT_OPS_SOFTMAX + FLOAT_OPS_TOPK, &sum);
	add_ffns(b, (uint64_t)ceil(pairs / n), s->ffn, n, &sum);
	if (s->shared_ffn)
		add_ffns(b, b->tokens, s->shared_ffn, 1, &sum);
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
