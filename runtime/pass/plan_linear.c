// SPDX-License-Identifier: MIT
/*
 * A prompt's layer with placement linear (llm.npu 3.2 to 3.4), and one of placement npu in a cold
 * start. Operators that follow one another on
 * the NPU are a subgraph. The CPU's attention comes between two of them; so does a shadow matmul,
 * which the CPU computes beside the NPU's, and whose result it adds:
 *
 *	             +-- matmul (NPU) --+
 *	producer ----+                  +-- merge (CPU) -- the next subgraph
 *	             +-- shadow (CPU) --+
 *
 * The CPU computes the chunk's tokens, the NPU those and the padding of its graph.
 */
#include "plan_private.h"

/* Whether the outliers of the input of @op are multiplied beside it. */
static bool has_shadow(const struct builder *b, uint32_t layer, enum llm_op op)
{
	const struct llm_choices *c = &b->o->choices;

	return b->o->shadow && !b->token && c->activations == LLM_ACTIVATIONS_STATIC &&
	       llm_op_input(c->weights, c->activations, op) == LLM_INPUT_STATIC &&
	       shadow_input_of(op) >= 0 && shadow_input(b->o->shadow, layer, op)->kept;
}

static bool is_matmul(const struct builder *b, enum llm_op op)
{
	uint64_t k, n;

	return llm_op_matmul(b->o->shape, op, &k, &n);
}

/* Whether @op is in the subgraph of the operator before it. */
static bool joins(const struct builder *b, uint32_t layer, enum llm_op op)
{
	return plan_lane_at(b, layer, op) == SOC_NPU && plan_lane_at(b, layer, op - 1) == SOC_NPU &&
	       !b->o->observe && !has_shadow(b, layer, op) && !has_shadow(b, layer, op - 1);
}

unsigned int plan_nr_npu_ops(const struct builder *b)
{
	unsigned int n = 0;

	for (enum llm_op op = LLM_OP_ATTN_NORM; op <= LLM_OP_ADD; op++)
		n += plan_lane(b, op) == SOC_NPU;
	return n;
}

/* ---- costs ---- */

static void add_cost(const struct builder *b, enum soc_lane lane, struct soc_op op,
		     struct soc_cost *sum)
{
	struct soc_cost cost = plan_cost(b->o, lane, &op);

	sum->ns += cost.ns;
	sum->dram_bytes += cost.dram_bytes;
}

/*
 * With floats on the CPU alone, it also quantises what it makes for a matmul, and adds the parts of
 * a matmul's result, as it has the values at hand. Else the NPU does both before and after the
 * matmul.
 */
static bool cpu_quantises(const struct builder *b)
{
	return plan_is_linear(b) && b->o->choices.floats == LLM_FLOATS_CPU;
}

double plan_side_ops(const struct builder *b, enum llm_op op)
{
	return cpu_quantises(b) ? plan_fold_ops(b, op - 1) + plan_quant_ops(b, op + 1) : 0;
}

static struct soc_cost attention_cost(const struct builder *b, uint32_t layer)
{
	const struct shape *s = b->o->shape;
	enum soc_lane lane = plan_lane(b, LLM_OP_ATTN);
	uint32_t rows = lane == SOC_CPU ? b->chunk->n : b->rows;
	struct soc_op attention = plan_full_attention(b, layer, rows),
		      side = plan_vector(rows, (uint64_t)s->heads * s->head_dim,
					 plan_side_ops(b, LLM_OP_ATTN));
	struct soc_cost cost = plan_cost(b->o, lane, &attention);

	cost.ns += plan_cost(b->o, lane, &side).ns;
	return cost;
}

static struct soc_cost matmul_cost(const struct builder *b, enum soc_lane lane, enum llm_op op)
{
	struct soc_op matmul = plan_matmul(b, op);
	uint32_t rows = lane == SOC_CPU ? b->chunk->n : b->rows;
	double quant = plan_quant_ops(b, op), fold = plan_fold_ops(b, op);
	struct soc_cost cost;

	matmul.m = matmul.m / b->rows * rows;
	cost = plan_cost(b->o, lane, &matmul);
	if (cpu_quantises(b))
		return cost;
	if (quant > 0)
		add_cost(b, lane, plan_vector(rows, matmul.k, quant), &cost);
	if (fold > 0)
		add_cost(b, lane, plan_vector(rows, matmul.n, fold), &cost);
	return cost;
}

static struct soc_cost op_cost(const struct builder *b, uint32_t layer, enum llm_op op)
{
	enum soc_lane lane = plan_lane_at(b, layer, op);
	struct soc_cost cost = { 0, 0 };
	uint64_t k, cols;
	double ops;

	if (!b->o->soc)
		return cost;
	if (op == LLM_OP_ATTN)
		return attention_cost(b, layer);
	if (llm_op_matmul(b->o->shape, op, &k, &cols))
		return matmul_cost(b, lane, op);
	ops = plan_float_ops(b, op, &cols) + plan_side_ops(b, op);
	add_cost(b, lane, plan_vector(lane == SOC_CPU ? b->chunk->n : b->rows, cols, ops), &cost);
	return cost;
}

/*
 * What one outlier channel of each token costs is what a matmul of depth 1 does. Weights of cold
 * channels come from the file, and the CPU waits for them.
 */
static struct soc_cost shadow_cost(const struct builder *b, uint32_t layer, enum llm_op op)
{
	const struct shadow_input *in = shadow_input(b->o->shadow, layer, op);
	struct soc_op channel = { .kind = SOC_MATMUL,
				  .m = b->chunk->n,
				  .k = 1,
				  .weight_bits = FLOAT_BITS,
				  .act_bits = FLOAT_BITS,
				  .density = 1 };
	struct soc_cost cost = { 0, 0 };
	uint64_t k;

	if (!b->o->soc)
		return cost;
	llm_op_matmul(b->o->shape, op, &k, &channel.n);
	add_cost(b, SOC_CPU, plan_vector(b->chunk->n, k, 1), &cost);
	cost.ns += in->channels * plan_cost(b->o, SOC_CPU, &channel).ns +
		   in->cold * (double)channel.n * FLOAT_BITS / 8 / b->o->soc->storage.read_gbps;
	/* The weights once, and the results. */
	cost.dram_bytes += (in->channels + b->chunk->n) * (double)channel.n * FLOAT_BITS / 8;
	return cost;
}

/* ---- tasks ---- */

static struct lane_work work_of(const struct builder *b, uint32_t layer, enum llm_op op)
{
	return (struct lane_work){ .what = LANE_OP,
				   .op = op,
				   .chunk = b->part == PLAN_LAST_ROW ? b->plan->nr_chunks : b->c,
				   .layer = layer,
				   .keys = b->part == PLAN_KEYS };
}

static void add(struct builder *b, const struct lane_work *work, enum soc_lane lane,
		struct soc_cost cost)
{
	b->first = b->last = plan_add_task(b, work, 0, lane, cost);
}

/* Operators @op .. @last on the NPU. On the virtual clock each has a task, of which the first does
 * all the work, so it waits for all that any of them needs; on the wall clock there is one. */
static void add_subgraph(struct builder *b, uint32_t layer, enum llm_op op, enum llm_op last)
{
	struct lane_work work = work_of(b, layer, op);

	work.what = LANE_SUBGRAPH;
	work.last = last;
	b->subgraph = ++b->nr_subgraphs;
	add(b, &work, SOC_NPU, op_cost(b, layer, op));
	if (op <= LLM_OP_ATTN && last >= LLM_OP_ATTN)
		plan_after_cached(b, layer, b->last);
	while (op++ < last && b->o->soc && !b->failed) {
		work = work_of(b, layer, op);
		work.what = LANE_NOTHING;
		add(b, &work, SOC_NPU, op_cost(b, layer, op));
	}
	b->subgraph = 0;
}

void plan_add_shadow(struct builder *b, uint32_t layer, enum llm_op op, uint32_t first,
		     uint32_t last)
{
	struct lane_work shadow = work_of(b, layer, LLM_OP_SHADOW),
			 merge = work_of(b, layer, LLM_OP_MERGE);
	struct soc_cost cost = { 0, 0 };
	uint32_t matmul = b->last;
	uint64_t k, n;

	if (!has_shadow(b, layer, op) || b->failed)
		return;
	shadow.matmul = merge.matmul = op;
	b->first = first;
	b->last = last;
	add(b, &shadow, SOC_CPU, shadow_cost(b, layer, op));
	b->first = matmul;
	llm_op_matmul(b->o->shape, op, &k, &n);
	if (b->o->soc)
		add_cost(b, SOC_CPU, plan_vector(b->chunk->n, n, FLOAT_OPS_ADD), &cost);
	add(b, &merge, SOC_CPU, cost);
}

static void add_matmul(struct builder *b, uint32_t layer, enum llm_op op)
{
	struct lane_work work = work_of(b, layer, op);
	uint32_t first = b->first, last = b->last;

	plan_set_whole_slice(b, &work, b->chunk->n);
	add(b, &work, plan_lane_at(b, layer, op), op_cost(b, layer, op));
	plan_add_shadow(b, layer, op, first, last);
}

void plan_add_linear(struct builder *b, uint32_t layer)
{
	const enum llm_op end = b->part == PLAN_KEYS ? LLM_OP_ROPE : LLM_OP_ADD;
	enum llm_op last;

	for (enum llm_op op = LLM_OP_ATTN_NORM; op <= end && !b->failed; op = last + 1) {
		for (last = op; last < end && joins(b, layer, last + 1);)
			last++;
		if (last == op && is_matmul(b, op)) {
			add_matmul(b, layer, op);
		} else if (op == LLM_OP_ATTN && plan_is_sparse(b)) {
			plan_add_sparse(b, layer);
			continue;
		} else if (plan_lane(b, op) == SOC_CPU) {
			struct lane_work work = work_of(b, layer, op);

			add(b, &work, SOC_CPU, op_cost(b, layer, op));
		} else {
			add_subgraph(b, layer, op, last);
		}
		if (op <= LLM_OP_ROPE && last >= LLM_OP_ROPE)
			plan_set_cached(b, layer, b->last);
		if (op == LLM_OP_ATTN && plan_lane(b, op) == SOC_CPU)
			plan_after_cached(b, layer, b->last);
	}
}
