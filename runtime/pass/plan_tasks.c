// SPDX-License-Identifier: MIT
/* Plans: where operators run, what they cost, and the tasks that they become. */
#include <stdlib.h>

#include "plan_private.h"

/* ---- where ---- */

bool plan_is_linear(const struct builder *b)
{
	return b->o->choices.placement == LLM_PLACE_LINEAR && !b->token;
}

bool plan_has_subgraphs(const struct builder *b)
{
	return plan_is_linear(b) || (b->o->choices.placement == LLM_PLACE_NPU &&
				     plan_is_cold(b->o) && !b->plan->pass.tree);
}

/* Of a prompt with placement linear. */
static bool floats_on_npu(const struct builder *b, enum llm_op op)
{
	enum llm_floats floats = b->o->choices.floats;

	switch (op) {
	case LLM_OP_ATTN:
		return floats == LLM_FLOATS_ALL && !plan_is_sparse(b);
	case LLM_OP_ATTN_NORM:
	case LLM_OP_ROPE:
	case LLM_OP_FFN_NORM:
	case LLM_OP_ADD:
		return floats == LLM_FLOATS_NPU || floats == LLM_FLOATS_ALL;
	case LLM_OP_ACT:
		return floats != LLM_FLOATS_CPU;
	default:
		return false;
	}
}

/* On the wall clock a token of placement fine is not handed over, but what comes between experts is
 * no graph: the CPU computes all, with the NPU's weights and the same bits. */
static bool is_token_with_experts(const struct builder *b)
{
	return b->o->shape->experts && b->token && !b->o->soc;
}

enum soc_lane plan_lane(const struct builder *b, enum llm_op op)
{
	/* A norm that is none would be a graph of nothing. */
	bool no_norm = op == LLM_OP_ATTN_NORM && b->o->shape->no_norms_before;
	uint64_t k, n;

	if (op == LLM_OP_EMBED || op == LLM_OP_BUILD || op == LLM_OP_KEEP || op == LLM_OP_LOGITS)
		return SOC_CPU;
	if (op == LLM_OP_WHOLE || op == LLM_OP_BLOCK)
		return SOC_NPU;
	switch (b->o->choices.placement) {
	case LLM_PLACE_CPU:
		return SOC_CPU;
	case LLM_PLACE_GPU:
	case LLM_PLACE_LAYER:
		return SOC_GPU;
	case LLM_PLACE_NPU:
		return no_norm && b->o->observe ? SOC_CPU : SOC_NPU;
	default:
		if (no_norm || is_token_with_experts(b))
			return SOC_CPU;
		if (plan_is_linear(b) && floats_on_npu(b, op))
			return SOC_NPU;
		return llm_op_matmul(b->o->shape, op, &k, &n) ? SOC_NPU : SOC_CPU;
	}
}

enum soc_lane plan_lane_at(const struct builder *b, uint32_t layer, enum llm_op op)
{
	uint64_t k, n;

	if (!llm_op_matmul(b->o->shape, op, &k, &n))
		return plan_lane(b, op);
	return (op == LLM_OP_HEAD ? 0 : layer) < b->fit[op] ? plan_lane(b, op) : SOC_CPU;
}

/* A graph of one row has a token's activations. */
static bool is_one_graph(const struct builder *b)
{
	return b->chunk->rows == 1 &&
	       (b->token || !llm_activations_static(b->o->choices.activations));
}

/*
 * On the wall clock a token of placements fine and linear is one graph too: there the NPU is the
 * CPU's cores, and handing over between them only costs. On a SoC's NPU floats are slow (EdgeFlow
 * 3.2).
 */
bool plan_is_whole(const struct builder *b)
{
	bool tree = b->plan->pass.tree && b->chunk->rows > 1;

	/* The layers that are there are computed before the others are; and a graph has full
	 * attention, and no experts. */
	if (plan_is_cold(b->o) || plan_is_sparse(b) || b->o->shape->experts)
		return false;
	/* The padding of a tree's graph needs room behind the context. */
	if (tree && !(b->o->masks && plan_pads_chunks(b->o)))
		return false;
	switch (b->o->choices.placement) {
	case LLM_PLACE_NPU:
		return true;
	case LLM_PLACE_FINE:
		return !b->o->soc && (is_one_graph(b) || tree);
	case LLM_PLACE_LINEAR:
		return !b->o->soc && b->token;
	default:
		return false;
	}
}

bool plan_pads_chunks(const struct plan_options *o)
{
	return o->choices.placement == LLM_PLACE_NPU || o->choices.placement == LLM_PLACE_FINE ||
	       (o->choices.placement == LLM_PLACE_LINEAR && o->choices.graphs != LLM_GRAPHS_ONLINE);
}

/* A graph is the NPU's for all that a chunk or token does there if nothing else comes
 * between. A GPU's work is enqueued ahead, of a layer, or of all of a token; but beside an
 * NPU kernel by kernel. */
static enum plan_launch launches_of(const struct builder *b)
{
	if (b->o->launches != PLAN_LAUNCH_AUTO)
		return b->o->launches;
	if (b->o->choices.placement == LLM_PLACE_GPU)
		return b->token ? PLAN_LAUNCH_CHUNK : PLAN_LAUNCH_LAYER;
	return b->o->choices.placement == LLM_PLACE_NPU ? PLAN_LAUNCH_CHUNK : PLAN_LAUNCH_OP;
}

static uint32_t launch_of(const struct builder *b, uint32_t layer)
{
	/* A chunk may pass a block several times. */
	uint32_t pass = b->switcher ? b->launched : b->c;

	switch (launches_of(b)) {
	case PLAN_LAUNCH_CHUNK:
		return 1 + pass;
	case PLAN_LAUNCH_LAYER:
		return 1 + pass * (b->o->shape->layers + 1) + layer;
	default:
		return b->subgraph;
	}
}

/* ---- tasks ---- */

static bool add_work(struct builder *b, uint32_t task, const struct lane_work *work)
{
	if (task >= b->max_works) {
		uint32_t max = b->max_works ? 2 * b->max_works : 256;
		struct lane_work *works = realloc(b->plan->works, max * sizeof(*works));

		if (!works)
			return false;
		b->plan->works = works;
		b->max_works = max;
	}
	b->plan->works[task] = *work;
	return true;
}

/* Lanes with queues are given work ahead where more than one lane is at work. What the CPU may take
 * stays in the scheduler's queue until the NPU is free. */
static bool is_async(const struct builder *b, enum soc_lane lane)
{
	if (lane == SOC_CPU || lane == SOC_STORAGE || !b->o->calls.async || b->stolen)
		return false;
	return b->o->choices.placement == LLM_PLACE_GPU ||
	       b->o->choices.placement == LLM_PLACE_LAYER || b->d->overlap;
}

uint32_t plan_add_task(struct builder *b, const struct lane_work *work, uint16_t slice,
		       enum soc_lane lane, struct soc_cost cost)
{
	bool idle = work->what == LANE_NOTHING;
	struct sched_task task = {
		.chunk = b->c,
		.layer = work->layer,
		.op = work->op,
		.slice = slice,
		.home = lane,
		.graph = launch_of(b, work->layer),
		.ud = b->o->calls.ud,
	};
	uint32_t id;

	if (!idle && is_async(b, lane))
		task.async = b->o->calls.async;
	else if (!idle)
		task.run = b->o->calls.run;
	task.cost[lane] = cost;
	if (b->stolen) {
		task.lanes = 1u << SOC_CPU;
		task.cost[SOC_CPU] = *b->stolen;
	}
	id = sched_add(b->plan->tasks, &task);
	b->failed |= id == SCHED_NONE || !add_work(b, id, work);
	if (b->last != SCHED_NONE)
		for (uint32_t before = b->first; before <= b->last && !b->failed; before++)
			b->failed = sched_after(b->plan->tasks, id, before);
	if (!b->failed)
		plan_after_pieces(b, id, work);
	return id;
}

struct lane_work plan_whole_work(const struct builder *b, enum llm_op op, bool logits)
{
	return (struct lane_work){
		.what = LANE_CHUNK,
		.op = op,
		.chunk = b->c,
		.logits_row = b->plan->pass.tree ? 0 : b->chunk->n - 1,
		.logits = !logits	       ? 0
			  : b->plan->pass.tree ? b->chunk->n
					       : 1,
		.keys = b->keys,
	};
}

struct lane_work plan_work(struct builder *b, uint32_t layer, enum llm_op op)
{
	struct lane_work work = {
		.what = b->led ? LANE_NOTHING : LANE_OP,
		.op = op,
		.chunk = b->c,
		.layer = layer,
		.chosen = b->part == PLAN_CHOSEN,
	};

	if (b->leads && (b->switcher || b->part == PLAN_CHOSEN)) {
		work = b->block;
		work.op = op;
	} else if (b->leads) {
		work = plan_whole_work(b, op, b->leads_logits);
	}
	b->led |= b->leads;
	b->leads = false;
	return work;
}

uint32_t plan_add(struct builder *b, const struct lane_work *work, const struct soc_op *op)
{
	enum soc_lane lane = plan_lane_at(b, work->layer, work->op);
	struct soc_cost cost = { 0, 0 };

	if (b->o->soc && op)
		cost = plan_cost(b->o, lane, op);
	b->first = b->last = plan_add_task(b, work, 0, lane, cost);
	return b->last;
}

/* ---- costs ---- */

struct soc_cost plan_cost(const struct plan_options *o, enum soc_lane lane, const struct soc_op *op)
{
	struct soc_cost cost = soc_op_cost(o->soc, lane, op);
	const struct predictor *p = lane == SOC_NPU   ? o->predictor
				    : lane == SOC_GPU ? o->gpu_predictor
						      : NULL;

	/* Placement layer only decides by the predictors. */
	if (p && o->choices.placement != LLM_PLACE_LAYER && op->kind == SOC_MATMUL)
		cost.ns = predictor_ns(p, op);
	return cost;
}

static enum llm_input input_of(const struct builder *b, enum llm_op op)
{
	return llm_op_input(b->o->choices.weights,
			    llm_activations_of(b->o->choices.activations, !b->token), op);
}

struct soc_op plan_vector(uint64_t rows, uint64_t cols, double ops)
{
	return (struct soc_op){
		.kind = SOC_VECTOR,
		.m = rows,
		.n = cols,
		.ops = ops,
		.act_bits = FLOAT_BITS,
		.density = 1,
	};
}

struct soc_op plan_attention(const struct builder *b, uint32_t rows)
{
	const struct shape *s = b->o->shape;

	return (struct soc_op){
		.kind = SOC_ATTENTION,
		.m = rows,
		.k = s->head_dim,
		.n = s->heads,
		.kv_heads = s->kv_heads,
		.kv_bits = llm_kv_bits(b->o->choices.kv),
		.ctx = b->pos + (rows + 1) / 2.0,
		.act_bits = FLOAT_BITS,
		.density = 1,
	};
}

struct soc_op plan_full_attention(const struct builder *b, uint32_t layer, uint32_t rows)
{
	struct soc_op attention = plan_attention(b, rows);
	double window = shape_window(b->o->shape, layer);

	attention.ctx = attention.ctx < window ? attention.ctx : window;
	return attention;
}

struct soc_op plan_matmul(const struct builder *b, enum llm_op op)
{
	const struct llm_width width =
		b->o->widths ? b->o->widths[op] : llm_weights_width(b->o->choices.weights);
	struct soc_op matmul = {
		.kind = SOC_MATMUL,
		.m = b->rows * llm_input_planes(input_of(b, op)),
		.weight_bits = width.bits,
		.group = width.group,
		.act_bits = llm_act_bits(b->o->choices.weights),
		.order = llm_operands_order(b->o->choices.operands),
		.density = 1,
	};

	llm_op_matmul(b->o->shape, op, &matmul.k, &matmul.n);
	if (op == LLM_OP_QKV && b->part == PLAN_KEYS)
		matmul.n -= (uint64_t)b->o->shape->heads * b->o->shape->head_dim;
	if (op == LLM_OP_QKV && b->part == PLAN_CHOSEN)
		matmul.n = (uint64_t)b->o->shape->heads * b->o->shape->head_dim;
	return matmul;
}

/* And the multiplication of gate and upward projection. */
static double act_ops(const struct shape *s)
{
	double ops = s->activation == SHAPE_SILU   ? FLOAT_OPS_SILU
		     : s->activation == SHAPE_GELU ? FLOAT_OPS_GELU
						   : FLOAT_OPS_RELU;

	return ops + s->gated;
}

/* A residual, with the norms around it. */
static double residual_ops(const struct shape *s, bool norm)
{
	return FLOAT_OPS_ADD + (s->norms_behind ? FLOAT_OPS_NORM : 0) + (norm ? FLOAT_OPS_NORM : 0);
}

double plan_float_ops(const struct builder *b, enum llm_op op, uint64_t *cols)
{
	const struct shape *s = b->o->shape;
	uint64_t q = b->part == PLAN_KEYS ? 0 : (uint64_t)s->heads * s->head_dim,
		 kv = b->part == PLAN_CHOSEN ? 0 : (uint64_t)s->kv_heads * s->head_dim;

	*cols = op == LLM_OP_ROPE ? q + kv : op == LLM_OP_ACT ? s->ffn : s->dim;
	switch (op) {
	case LLM_OP_ATTN_NORM:
		return s->no_norms_before ? 0 : FLOAT_OPS_NORM;
	case LLM_OP_ROPE:
		return FLOAT_OPS_ROPE;
	case LLM_OP_FFN_NORM:
		return residual_ops(s, !s->no_norms_before && !s->parallel);
	case LLM_OP_ACT:
		return act_ops(s);
	default:
		return residual_ops(s, false);
	}
}

struct plan_input plan_input_of(const struct builder *b, enum llm_op op)
{
	static const double ops[] = {
		[LLM_INPUT_FLOATS] = 0,
		[LLM_INPUT_INT8] = FLOAT_OPS_QUANT,
		[LLM_INPUT_OUTLIERS] = FLOAT_OPS_QUANT_OUTLIERS,
		[LLM_INPUT_INT16] = FLOAT_OPS_QUANT16,
		[LLM_INPUT_STATIC] = FLOAT_OPS_QUANT_STATIC,
	};
	enum llm_input input = input_of(b, op);

	return (struct plan_input){
		.planes = llm_input_planes(input),
		.quant_ops = ops[input],
		.fold_ops = input == LLM_INPUT_INT16	  ? FLOAT_OPS_ADD
			    : input == LLM_INPUT_OUTLIERS ? FLOAT_OPS_ADD_OUTLIERS
							  : 0,
	};
}

double plan_quant_ops(const struct builder *b, enum llm_op op)
{
	uint64_t k, n;

	return llm_op_matmul(b->o->shape, op, &k, &n) ? plan_input_of(b, op).quant_ops : 0;
}

double plan_fold_ops(const struct builder *b, enum llm_op op)
{
	double ops = plan_input_of(b, op).fold_ops;
	uint64_t k, n;

	if (!llm_op_matmul(b->o->shape, op, &k, &n))
		return 0;
	/* The activation function has one element of gate and upward projection each. */
	return op == LLM_OP_GATE_UP && b->o->shape->gated ? 2 * ops : ops;
}

/* ---- matmuls ---- */

struct partition_options plan_cuts(const struct plan_options *o, enum llm_op op, double gpu_busy)
{
	return (struct partition_options){
		.soc = o->cuts,
		.predictor = o->predictor,
		.gpu_predictor = o->gpu_predictor,
		.weights = o->choices.weights,
		.width = o->widths ? &o->widths[op] : NULL,
		.planes = llm_input_planes(
			llm_op_input(o->choices.weights, o->choices.activations, op)),
		.operands = o->choices.operands,
		.sync = o->choices.sync == LLM_SYNC_DRIVER && o->choices.solver == LLM_SOLVER_SYNC
				? SOC_SYNC_DRIVER
				: SOC_SYNC_FAST,
		.partition = o->choices.partition,
		.graphs = o->choices.graphs,
		.gpu_busy = gpu_busy,
	};
}

const struct cut *plan_find_cut(struct builder *b, enum llm_op op)
{
	struct partition_options o = plan_cuts(b->o, op, b->d->gpu_busy[op]);
	struct cut *cut = &b->cuts[op];
	uint64_t k, n;

	if (cut->m == b->rows)
		return cut;
	llm_op_matmul(b->o->shape, op, &k, &n);
	*cut = (struct cut){ .kind = PARTITION_GPU, .m = b->rows, .k = k, .n = n, .gpu_cols = n };
	if (b->o->cut)
		b->o->cut(b->o->cut_ud, &o, b->rows, k, n, cut);
	else if (b->o->choices.placement == LLM_PLACE_LAYER)
		partition_search(&o, b->rows, k, n, cut);
	return cut;
}

static void set_slice(struct lane_work *work, const struct partition_slice *s)
{
	work->what = LANE_SLICE;
	work->row = s->row;
	work->rows = s->rows;
	work->graph_rows = s->graph_rows;
	work->col = s->col;
	work->cols = s->cols;
}

void plan_add_slices(struct builder *b, const struct lane_work *work, enum llm_op op)
{
	const struct cut *cut = plan_find_cut(b, op);
	struct partition_options lanes = plan_cuts(b->o, op, 0);
	uint32_t n = partition_nr_slices(cut), id = SCHED_NONE, first = SCHED_NONE;

	lanes.soc = b->o->soc;
	for (uint32_t i = 0; i < n && !b->failed; i++) {
		struct lane_work slice = *work;
		struct soc_cost cost = { 0, 0 };
		struct partition_slice s;

		partition_slice(cut, i, &s);
		set_slice(&slice, &s);
		if (b->o->soc) {
			struct soc_op matmul = partition_work(&lanes, s.graph_rows, cut->k, s.cols);

			cost = plan_cost(b->o, s.lane, &matmul);
		}
		id = plan_add_task(b, &slice, (uint16_t)i, s.lane, cost);
		if (!i)
			first = id;
	}
	b->first = first;
	b->last = id;
}

void plan_set_whole_slice(const struct builder *b, struct lane_work *work, uint32_t tokens)
{
	struct partition_slice s = { .rows = tokens, .graph_rows = b->rows };
	uint64_t k;

	llm_op_matmul(b->o->shape, work->op, &k, &s.cols);
	set_slice(work, &s);
}

void plan_add_uncut(struct builder *b, struct lane_work *work, uint32_t tokens)
{
	struct soc_op matmul = plan_matmul(b, work->op);

	/* The CPU computes no padding. */
	if (plan_lane_at(b, work->layer, work->op) == SOC_CPU)
		matmul.m = matmul.m / b->rows * tokens;
	/* The NPU's head for a whole graph's chunk is a graph with the norm in it. */
	if (work->what == LANE_OP &&
	    !(work->op == LLM_OP_HEAD && plan_is_whole(b) && !b->o->observe))
		plan_set_whole_slice(b, work, tokens);
	plan_add(b, work, &matmul);
}

void plan_add_stealable(struct builder *b, struct lane_work *work)
{
	struct soc_op matmul = plan_matmul(b, work->op);
	struct soc_cost cost = { 0, 0 };

	/* The CPU computes the chunk's tokens, the NPU those and the padding of its graph. */
	matmul.m = matmul.m / b->rows * b->chunk->n;
	if (b->o->soc)
		cost = plan_cost(b->o, SOC_CPU, &matmul);
	b->stolen = &cost;
	plan_add_uncut(b, work, b->chunk->n);
	b->stolen = NULL;
}
