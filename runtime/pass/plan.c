// SPDX-License-Identifier: MIT
#include "plan.h"

#include <npu/vnpu_isa.h>

#include <stdlib.h>
#include <string.h>

const char *plan_op_name(uint16_t op)
{
	static const char *const names[PLAN_BUILD + 1] = {
		"embed", "attn_norm", "qkv", "rope",	    "attn", "attn_output", "ffn_norm", "gate_up",
		"act",	 "down",      "add", "output_norm", "head", "whole",	   "build",
	};

	return names[op];
}

double plan_weight_bits(enum llm_weights w)
{
	switch (w) {
	case LLM_WEIGHTS_F32:
		return 32;
	case LLM_WEIGHTS_F16:
		return 16;
	case LLM_WEIGHTS_W4A16:
	case LLM_WEIGHTS_W4A8:
		return 4;
	default:
		return 8;
	}
}

unsigned int plan_act_bits(enum llm_weights w)
{
	return w == LLM_WEIGHTS_F32 ? 32 : w == LLM_WEIGHTS_F16 || w == LLM_WEIGHTS_W4A16 ? 16 : 8;
}

enum llm_input plan_input(enum llm_weights w, enum llm_activations a, enum plan_op op)
{
	return llm_weights_integers(w) ? llm_integer_input(a, op == PLAN_HEAD, op == PLAN_DOWN) : LLM_INPUT_FLOATS;
}

/* Products of a layer. */
#define LAYER_PRODUCTS 4

struct builder {
	const struct plan_options *o;
	struct sched_plan *plan;
	uint32_t chunk, rows; /* the chunk's number, and its rows with padding */
	uint32_t pos; /* of its first token */
	uint32_t first, last; /* tasks that the next one of the chunk comes after; SCHED_NONE: nothing */
	uint32_t built; /* the task that makes the graphs, or SCHED_NONE */
	struct cut {
		bool found;
		struct partition part; /* of products with part.m rows */
	} cuts[PLAN_NR_OPS];
	bool failed;
};

bool plan_product(const struct shape *s, enum plan_op op, uint64_t *k, uint64_t *n)
{
	uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;

	*k = op == PLAN_ATTN_OUTPUT ? q : op == PLAN_DOWN ? s->ffn : s->dim;
	switch (op) {
	case PLAN_QKV:
		*n = q + 2 * kv;
		return true;
	case PLAN_GATE_UP:
		*n = (uint64_t)s->ffn * (s->gated ? 2 : 1);
		return true;
	case PLAN_ATTN_OUTPUT:
	case PLAN_DOWN:
		*n = s->dim;
		return true;
	case PLAN_HEAD:
		*n = s->vocab;
		return true;
	default:
		return false;
	}
}

static enum soc_lane lane_of(const struct plan_options *o, enum plan_op op)
{
	uint64_t k, n;

	if (op == PLAN_EMBED || op == PLAN_BUILD)
		return SOC_CPU;
	switch (o->placement) {
	case LLM_PLACE_CPU:
		return SOC_CPU;
	case LLM_PLACE_GPU:
	case LLM_PLACE_LAYER:
		return SOC_GPU;
	case LLM_PLACE_NPU:
		return SOC_NPU;
	default:
		return plan_product(o->shape, op, &k, &n) ? SOC_NPU : SOC_CPU;
	}
}

static enum llm_input input_of(const struct builder *b, enum plan_op op)
{
	return plan_input(b->o->weights, b->o->activations, op);
}

static uint32_t graph_of(const struct builder *b, uint32_t layer)
{
	switch (b->o->graphs) {
	case PLAN_GRAPH_CHUNK:
		return 1 + b->chunk;
	case PLAN_GRAPH_LAYER:
		return 1 + b->chunk * (b->o->shape->layers + 1) + layer;
	default:
		return 0;
	}
}

static struct soc_cost cost_of(const struct plan_options *o, enum soc_lane lane, const struct soc_op *work)
{
	struct soc_cost cost = soc_op_cost(o->profile, lane, work);

	if (o->predictor && lane == SOC_NPU && work->kind == SOC_MATMUL)
		cost.ns = predictor_ns(o->predictor, work);
	return cost;
}

/* Adds a task that comes after those before. */
static uint32_t add_task(struct builder *b, uint32_t layer, enum plan_op op, uint16_t slice, enum soc_lane lane,
			 struct soc_cost cost)
{
	struct sched_task task = {
		.chunk = b->chunk,
		.layer = layer,
		.op = op,
		.slice = slice,
		.home = lane,
		.graph = graph_of(b, layer),
		.run = b->o->run,
		.ud = b->o->ud,
	};
	uint32_t id;

	if (lane != SOC_CPU && b->o->async) {
		task.run = NULL;
		task.async = b->o->async;
	}
	task.cost[lane] = cost;
	id = sched_add(b->plan, &task);
	if (id == SCHED_NONE)
		b->failed = true;
	if (b->last != SCHED_NONE)
		for (uint32_t before = b->first; before <= b->last && !b->failed; before++)
			b->failed = sched_after(b->plan, id, before);
	return id;
}

/* Adds the chunk's next task. */
static uint32_t add(struct builder *b, uint32_t layer, enum plan_op op, const struct soc_op *work)
{
	enum soc_lane lane = lane_of(b->o, op);
	struct soc_cost cost = { 0, 0 };

	if (b->o->profile && work)
		cost = cost_of(b->o, lane, work);
	b->first = b->last = add_task(b, layer, op, 0, lane, cost);
	return b->last;
}

/* A product of placement layer: a task a slice. */
static void add_slices(struct builder *b, uint32_t layer, enum plan_op op)
{
	struct partition_options cuts = b->o->cuts, lanes = cuts;
	struct cut *cut = &b->cuts[op];
	uint32_t n, id = SCHED_NONE, first = SCHED_NONE;

	cuts.gpu_busy = b->o->gpu_busy[op];
	cuts.planes = lanes.planes = llm_input_planes(input_of(b, op));
	lanes.profile = b->o->profile;
	lanes.weights = b->o->weights;
	if (!cut->found || cut->part.m != b->rows) {
		uint64_t depth, cols;

		plan_product(b->o->shape, op, &depth, &cols);
		if (b->o->cut)
			b->o->cut(b->o->ud, op, b->rows, depth, cols, &cut->part);
		else
			partition_search(&cuts, b->rows, depth, cols, &cut->part);
		cut->found = true;
	}
	n = partition_nr_slices(&cut->part);
	for (uint32_t i = 0; i < n && !b->failed; i++) {
		struct soc_cost cost = { 0, 0 };
		struct partition_slice s;

		partition_slice(&cut->part, i, &s);
		if (b->o->profile) {
			struct soc_op work = partition_work(&lanes, s.lane, s.graph_rows, cut->part.k, s.cols);

			cost = cost_of(b->o, s.lane, &work);
		}
		id = add_task(b, layer, op, (uint16_t)i, s.lane, cost);
		if (!i)
			first = id;
	}
	b->first = first;
	b->last = id;
}

static uint32_t add_vector(struct builder *b, uint32_t layer, enum plan_op op, uint64_t cols, double ops)
{
	return add(b, layer, op,
		   &(struct soc_op){ .kind = SOC_VECTOR,
				     .m = b->rows,
				     .n = cols,
				     .ops = ops,
				     .act_bits = FLOAT_BITS,
				     .density = 1 });
}

/* Products of integers take their activations quantised: by whoever made them. @op: the product. */
static double quant_ops(const struct builder *b, enum plan_op op)
{
	static const double ops[] = {
		[LLM_INPUT_FLOATS] = 0,
		[LLM_INPUT_INT8] = FLOAT_OPS_QUANT,
		[LLM_INPUT_OUTLIERS] = FLOAT_OPS_QUANT_OUTLIERS,
		[LLM_INPUT_INT16] = FLOAT_OPS_QUANT16,
	};

	return ops[input_of(b, op)];
}

/* And the results of two planes, or of integers and outliers, are added by whoever takes them. */
static double fold_ops(const struct builder *b, enum plan_op op)
{
	enum llm_input input = input_of(b, op);

	return input == LLM_INPUT_INT16 ? FLOAT_OPS_ADD : input == LLM_INPUT_OUTLIERS ? FLOAT_OPS_ADD_OUTLIERS : 0;
}

/* And the product of gate and upward projection. */
static double act_ops(const struct shape *s)
{
	double ops = s->activation == SHAPE_SILU   ? FLOAT_OPS_SILU
		     : s->activation == SHAPE_GELU ? FLOAT_OPS_GELU
						   : FLOAT_OPS_RELU;

	return ops + s->gated;
}

static void add_product(struct builder *b, uint32_t layer, enum plan_op op)
{
	struct soc_op work = {
		.kind = SOC_MATMUL,
		.m = b->rows * llm_input_planes(input_of(b, op)),
		.weight_bits = plan_weight_bits(b->o->weights),
		.act_bits = plan_act_bits(b->o->weights),
		.order = NPU_TIME_WEIGHTS_STATIONARY,
		.density = 1,
	};
	struct soc_op turned;

	if (b->o->placement == LLM_PLACE_LAYER) {
		add_slices(b, layer, op);
		return;
	}
	plan_product(b->o->shape, op, &work.k, &work.n);
	turned = work;
	turned.order = NPU_TIME_WEIGHTS_STREAMED;
	if (b->o->profile && b->o->best_order &&
	    soc_alone_ns(b->o->profile, SOC_NPU, cost_of(b->o, SOC_NPU, &turned)) <
		    soc_alone_ns(b->o->profile, SOC_NPU, cost_of(b->o, SOC_NPU, &work)))
		work = turned;
	add(b, layer, op, &work);
}

static uint32_t add_attention(struct builder *b, uint32_t layer)
{
	const struct shape *s = b->o->shape;

	return add(b, layer, PLAN_ATTN,
		   &(struct soc_op){
			   .kind = SOC_ATTENTION,
			   .m = b->rows,
			   .k = s->head_dim,
			   .n = s->heads,
			   .kv_heads = s->kv_heads,
			   .kv_bits = plan_kv_bits(b->o->kv),
			   .ctx = b->pos + (b->rows + 1) / 2.0,
			   .act_bits = FLOAT_BITS,
			   .density = 1,
		   });
}

/* One layer of the chunk; @cached: by chunk, the task after which its keys and values of this layer are there. */
static void add_layer(struct builder *b, uint32_t layer, uint32_t *cached)
{
	const struct shape *s = b->o->shape;
	uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
	uint32_t attn;

	add_vector(b, layer, PLAN_ATTN_NORM, s->dim, FLOAT_OPS_NORM + quant_ops(b, PLAN_QKV));
	add_product(b, layer, PLAN_QKV);
	cached[b->chunk] = add_vector(b, layer, PLAN_ROPE, q + kv, FLOAT_OPS_ROPE + fold_ops(b, PLAN_QKV));
	attn = add_attention(b, layer);
	/* Chunks that follow one another need no such edges, whose number grows with the square of theirs. */
	for (uint32_t c = 0; c < b->chunk && b->o->overlap; c++)
		if (sched_after(b->plan, attn, cached[c]))
			b->failed = true;
	add_product(b, layer, PLAN_ATTN_OUTPUT);
	add_vector(b, layer, PLAN_FFN_NORM, s->dim,
		   FLOAT_OPS_ADD + FLOAT_OPS_NORM + fold_ops(b, PLAN_ATTN_OUTPUT) + quant_ops(b, PLAN_GATE_UP));
	add_product(b, layer, PLAN_GATE_UP);
	add_vector(b, layer, PLAN_ACT, s->ffn,
		   act_ops(s) + fold_ops(b, PLAN_GATE_UP) * (s->gated ? 2 : 1) + quant_ops(b, PLAN_DOWN));
	add_product(b, layer, PLAN_DOWN);
	add_vector(b, layer, PLAN_ADD, s->dim, FLOAT_OPS_ADD + fold_ops(b, PLAN_DOWN));
}

static void add_chunk(struct builder *b, bool last, uint32_t *cached, uint32_t nr_chunks)
{
	const struct shape *s = b->o->shape;

	if (b->o->overlap)
		b->first = b->last = b->built;
	add_vector(b, 0, PLAN_EMBED, s->dim, FLOAT_OPS_COPY);
	if (b->o->graphs == PLAN_GRAPH_WHOLE) {
		add(b, 0, PLAN_WHOLE, NULL);
		return;
	}
	for (uint32_t layer = 0; layer < s->layers; layer++)
		add_layer(b, layer, cached + (size_t)layer * nr_chunks);
	if (!last || !b->o->logits)
		return;
	b->rows = b->o->logits;
	add_vector(b, s->layers, PLAN_OUTPUT_NORM, s->dim, FLOAT_OPS_NORM + quant_ops(b, PLAN_HEAD));
	add_product(b, s->layers, PLAN_HEAD);
}

/* The graphs of a prompt's length: one for each of a layer's products. All layers share them, with weights that are bound
 * when they run. Outputs are a token's, whose graphs are there. */
static void add_build(struct builder *b)
{
	const struct profile *p = b->o->profile;
	struct soc_cost cost = { 0, 0 };

	if (p)
		cost.ns = npu_time_build_ns(&p->npu, LAYER_PRODUCTS) +
			  npu_time_optimize_ns(&p->npu, shape_layer_weights(b->o->shape));
	b->first = b->last = b->built = add_task(b, 0, PLAN_BUILD, 0, SOC_CPU, cost);
}

static uint32_t chunk_tokens(const struct plan_options *o)
{
	return o->chunk ? o->chunk : o->n_tokens;
}

uint32_t plan_nr_chunks(const struct plan_options *o)
{
	return (o->n_tokens + chunk_tokens(o) - 1) / chunk_tokens(o);
}

uint32_t plan_chunk_rows(const struct plan_options *o, uint32_t c)
{
	uint32_t chunk = chunk_tokens(o), tokens = o->n_tokens - c * chunk;

	if (tokens >= chunk)
		return chunk;
	/* Placement layer: what is padded is a product's graph. */
	if (o->placement == LLM_PLACE_LAYER && llm_graphs_whole_prompt(o->cuts.graphs))
		return tokens;
	if (!o->bucket)
		return chunk;
	tokens = (tokens + o->bucket - 1) / o->bucket * o->bucket;
	return tokens < chunk ? tokens : chunk;
}

struct sched_plan *plan_forward(const struct plan_options *o)
{
	uint32_t nr_chunks = plan_nr_chunks(o);
	struct builder b = {
		.o = o,
		.plan = sched_plan_create(plan_op_name),
		.first = SCHED_NONE,
		.last = SCHED_NONE,
		.built = SCHED_NONE,
	};
	uint32_t *cached = calloc((size_t)nr_chunks * o->shape->layers + 1, sizeof(*cached));

	b.failed = !b.plan || !cached;
	if (!b.failed && o->placement == LLM_PLACE_LAYER && o->cuts.graphs == LLM_GRAPHS_ONLINE &&
	    o->n_tokens > PARTITION_EXACT_ROWS)
		add_build(&b);
	for (uint32_t c = 0; c < nr_chunks && !b.failed; c++) {
		b.chunk = c;
		b.rows = plan_chunk_rows(o, c);
		b.pos = o->n_past + c * chunk_tokens(o);
		add_chunk(&b, c + 1 == nr_chunks, cached, nr_chunks);
	}
	free(cached);
	if (!b.failed)
		return b.plan;
	sched_plan_free(b.plan);
	return NULL;
}

uint64_t plan_weight_bytes(const struct shape *shape, enum llm_weights weights)
{
	uint64_t matrices = shape_layer_weights(shape) * shape->layers + (uint64_t)shape->dim * shape->vocab;

	return (uint64_t)((double)matrices * plan_weight_bits(weights) / 8);
}

double plan_kv_bits(enum llm_kv kv)
{
	return kv == LLM_KV_Q8_0 ? VNPU_Q8_0_BYTES * 8.0 / VNPU_Q8_0_VALUES : FLOAT_BITS;
}

uint64_t plan_kv_bytes(const struct shape *shape, uint32_t n_ctx, enum llm_kv kv)
{
	uint64_t values = (uint64_t)shape->layers * n_ctx * 2 * shape->kv_heads * shape->head_dim;

	return (uint64_t)((double)values * plan_kv_bits(kv) / 8);
}
