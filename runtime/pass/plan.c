// SPDX-License-Identifier: MIT
#include "plan.h"

#include <stdlib.h>
#include <string.h>

/* Matmuls of a layer. */
#define LAYER_MATMULS 4
/* Tokens of a chunk. llm.npu 3.2 chose 256 for this class of devices; placements gpu and layer take
 * a prompt whole, as far as memory is no matter. */
#define DEFAULT_CHUNK 256
#define DEFAULT_LAYER_CHUNK 2048
/* Chunks in flight where order asks for them and memory is all that limits them. */
#define CHUNKS_IN_FLIGHT 4

struct builder {
	const struct plan_options *o;
	const struct plan_division *d;
	struct plan *plan;
	uint32_t max_works;
	uint32_t c; /* the chunk's number */
	const struct lane_chunk *chunk;
	uint32_t pos; /* of its first token */
	/* Of the operators now: the chunk's with its padding, or those of some logits. */
	uint32_t rows;
	/* Tasks that the next one of the chunk comes after; SCHED_NONE: nothing. */
	uint32_t first, last;
	uint32_t built; /* the task that makes the graphs, or SCHED_NONE */
	uint32_t handed; /* the last task that handed out logits, or SCHED_NONE */
	uint32_t *ends; /* by chunk: its last task */
	bool token; /* one token, to be generated */
	bool leads, leads_logits; /* the next task does all of the chunk's work, logits included; */
	bool led; /* and those after it are there for their times */
	struct cut cuts[LLM_NR_OPS]; /* of matmuls with cut.m rows; 0: not found yet */
	bool failed;
};

/* ---- where ---- */

static enum soc_lane lane_of(const struct plan_options *o, enum llm_op op)
{
	uint64_t k, n;

	if (op == LLM_OP_EMBED || op == LLM_OP_BUILD || op == LLM_OP_LOGITS)
		return SOC_CPU;
	if (op == LLM_OP_WHOLE)
		return SOC_NPU;
	switch (o->choices.placement) {
	case LLM_PLACE_CPU:
		return SOC_CPU;
	case LLM_PLACE_GPU:
	case LLM_PLACE_LAYER:
		return SOC_GPU;
	case LLM_PLACE_NPU:
		return SOC_NPU;
	default:
		return llm_op_matmul(o->shape, op, &k, &n) ? SOC_NPU : SOC_CPU;
	}
}

/*
 * Whether all of a chunk is one graph of the NPU. On the wall clock that is placement fine's token
 * too: there the NPU is the CPU's cores, and handing over between them only costs. On a SoC's NPU
 * floats are slow (EdgeFlow 3.2).
 */
static bool is_whole(const struct plan_options *o, uint32_t rows)
{
	return o->choices.placement == LLM_PLACE_NPU ||
	       (o->choices.placement == LLM_PLACE_FINE && !o->soc && rows == 1);
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
	switch (launches_of(b)) {
	case PLAN_LAUNCH_CHUNK:
		return 1 + b->c;
	case PLAN_LAUNCH_LAYER:
		return 1 + b->c * (b->o->shape->layers + 1) + layer;
	default:
		return 0;
	}
}

/* ---- tasks ---- */

static struct soc_cost cost_of(const struct plan_options *o, enum soc_lane lane,
			       const struct soc_op *work)
{
	struct soc_cost cost = soc_op_cost(o->soc, lane, work);

	/* Placement layer only decides by the predictor. */
	if (o->predictor && o->choices.placement != LLM_PLACE_LAYER && lane == SOC_NPU &&
	    work->kind == SOC_MATMUL)
		cost.ns = predictor_ns(o->predictor, work);
	return cost;
}

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

/* Lanes with queues are given work ahead where more than one lane is at work. */
static bool is_async(const struct builder *b, enum soc_lane lane)
{
	if (lane == SOC_CPU || !b->o->calls.async)
		return false;
	return b->o->choices.placement == LLM_PLACE_GPU ||
	       b->o->choices.placement == LLM_PLACE_LAYER || b->d->overlap;
}

/* Adds a task that comes after those before. */
static uint32_t add_task(struct builder *b, const struct lane_work *work, uint16_t slice,
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
	id = sched_add(b->plan->tasks, &task);
	b->failed |= id == SCHED_NONE || !add_work(b, id, work);
	if (b->last != SCHED_NONE)
		for (uint32_t before = b->first; before <= b->last && !b->failed; before++)
			b->failed = sched_after(b->plan->tasks, id, before);
	return id;
}

/* Everything after the embedding as one work, with the last token's logits if @logits. */
static struct lane_work whole_of(const struct builder *b, enum llm_op op, bool logits)
{
	return (struct lane_work){
		.what = LANE_CHUNK,
		.op = op,
		.chunk = b->c,
		.logits_row = b->chunk->n - 1,
		.logits = logits,
	};
}

static struct lane_work work_of(struct builder *b, uint32_t layer, enum llm_op op)
{
	struct lane_work work = {
		.what = b->led ? LANE_NOTHING : LANE_OP,
		.op = op,
		.chunk = b->c,
		.layer = layer,
	};

	if (b->leads)
		work = whole_of(b, op, b->leads_logits);
	b->led |= b->leads;
	b->leads = false;
	return work;
}

/* Adds the chunk's next task. */
static uint32_t add(struct builder *b, const struct lane_work *work, const struct soc_op *op)
{
	enum soc_lane lane = lane_of(b->o, work->op);
	struct soc_cost cost = { 0, 0 };

	if (b->o->soc && op)
		cost = cost_of(b->o, lane, op);
	b->first = b->last = add_task(b, work, 0, lane, cost);
	return b->last;
}

static uint32_t add_vector(struct builder *b, const struct lane_work *work, uint64_t cols,
			   double ops)
{
	return add(b, work,
		   &(struct soc_op){ .kind = SOC_VECTOR,
				     .m = b->rows,
				     .n = cols,
				     .ops = ops,
				     .act_bits = FLOAT_BITS,
				     .density = 1 });
}

static uint32_t add_float(struct builder *b, uint32_t layer, enum llm_op op, uint64_t cols,
			  double ops)
{
	struct lane_work work = work_of(b, layer, op);

	return add_vector(b, &work, cols, ops);
}

/* ---- matmuls ---- */

static enum llm_input input_of(const struct plan_options *o, enum llm_op op)
{
	return llm_op_input(o->choices.weights, o->choices.activations, op);
}

struct partition_options plan_cuts(const struct plan_options *o, enum llm_op op, double gpu_busy)
{
	return (struct partition_options){
		.soc = o->cuts,
		.predictor = o->predictor,
		.weights = o->choices.weights,
		.width = o->widths ? &o->widths[op] : NULL,
		.planes = llm_input_planes(input_of(o, op)),
		.operands = o->choices.operands,
		.sync = o->choices.sync == LLM_SYNC_DRIVER && o->choices.solver == LLM_SOLVER_SYNC
				? SOC_SYNC_DRIVER
				: SOC_SYNC_FAST,
		.partition = o->choices.partition,
		.graphs = o->choices.graphs,
		.gpu_busy = gpu_busy,
	};
}

/* How the matmul of @rows rows is sliced. */
static const struct cut *find_cut(struct builder *b, enum llm_op op)
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

/* A matmul of placement layer: a task for each slice. */
static void add_slices(struct builder *b, const struct lane_work *work, enum llm_op op)
{
	const struct cut *cut = find_cut(b, op);
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

			cost = cost_of(b->o, s.lane, &matmul);
		}
		id = add_task(b, &slice, (uint16_t)i, s.lane, cost);
		if (!i)
			first = id;
	}
	b->first = first;
	b->last = id;
}

/* All of a matmul on one lane, of @tokens rows that are no padding. */
static void add_uncut(struct builder *b, struct lane_work *work, uint32_t tokens)
{
	const struct llm_width width =
		b->o->widths ? b->o->widths[work->op] : llm_weights_width(b->o->choices.weights);
	struct soc_op matmul = {
		.kind = SOC_MATMUL,
		.m = b->rows * llm_input_planes(input_of(b->o, work->op)),
		.weight_bits = width.bits,
		.group = width.group,
		.act_bits = llm_act_bits(b->o->choices.weights),
		.order = llm_operands_order(b->o->choices.operands),
		.density = 1,
	};
	struct partition_slice s = { .rows = tokens, .graph_rows = b->rows };

	llm_op_matmul(b->o->shape, work->op, &matmul.k, &matmul.n);
	s.cols = matmul.n;
	/* The NPU's head for a whole graph's chunk is a graph with the norm in it. */
	if (work->what == LANE_OP &&
	    !(work->op == LLM_OP_HEAD && is_whole(b->o, b->chunk->rows) && !b->o->observe))
		set_slice(work, &s);
	add(b, work, &matmul);
}

static void add_matmul(struct builder *b, uint32_t layer, enum llm_op op)
{
	struct lane_work work = work_of(b, layer, op);

	if (b->o->choices.placement == LLM_PLACE_LAYER)
		add_slices(b, &work, op);
	else
		add_uncut(b, &work, b->chunk->n);
}

/* Matmuls of integers take their activations quantised: by who made them. @op: the matmul. */
static double quant_ops(const struct builder *b, enum llm_op op)
{
	static const double ops[] = {
		[LLM_INPUT_FLOATS] = 0,
		[LLM_INPUT_INT8] = FLOAT_OPS_QUANT,
		[LLM_INPUT_OUTLIERS] = FLOAT_OPS_QUANT_OUTLIERS,
		[LLM_INPUT_INT16] = FLOAT_OPS_QUANT16,
	};

	return ops[input_of(b->o, op)];
}

/* And the results of two planes, or of integers and outliers, are added by who takes them. */
static double fold_ops(const struct builder *b, enum llm_op op)
{
	enum llm_input input = input_of(b->o, op);

	return input == LLM_INPUT_INT16	     ? FLOAT_OPS_ADD
	       : input == LLM_INPUT_OUTLIERS ? FLOAT_OPS_ADD_OUTLIERS
					     : 0;
}

/* ---- layers ---- */

/* And the multiplication of gate and upward projection. */
static double act_ops(const struct shape *s)
{
	double ops = s->activation == SHAPE_SILU   ? FLOAT_OPS_SILU
		     : s->activation == SHAPE_GELU ? FLOAT_OPS_GELU
						   : FLOAT_OPS_RELU;

	return ops + s->gated;
}

static uint32_t add_attention(struct builder *b, uint32_t layer)
{
	const struct shape *s = b->o->shape;
	struct lane_work work = work_of(b, layer, LLM_OP_ATTN);

	return add(b, &work,
		   &(struct soc_op){
			   .kind = SOC_ATTENTION,
			   .m = b->rows,
			   .k = s->head_dim,
			   .n = s->heads,
			   .kv_heads = s->kv_heads,
			   .kv_bits = llm_kv_bits(b->o->choices.kv),
			   .ctx = b->pos + (b->rows + 1) / 2.0,
			   .act_bits = FLOAT_BITS,
			   .density = 1,
		   });
}

/*
 * One layer of the chunk; @cached: by chunk, the task after which its keys and values
 * of this layer are there.
 */
static void add_layer(struct builder *b, uint32_t layer, uint32_t *cached)
{
	const struct shape *s = b->o->shape;
	uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
	uint32_t attn;

	add_float(b, layer, LLM_OP_ATTN_NORM, s->dim, FLOAT_OPS_NORM + quant_ops(b, LLM_OP_QKV));
	add_matmul(b, layer, LLM_OP_QKV);
	cached[b->c] =
		add_float(b, layer, LLM_OP_ROPE, q + kv, FLOAT_OPS_ROPE + fold_ops(b, LLM_OP_QKV));
	attn = add_attention(b, layer);
	/*
	 * Chunks that follow one another need no such edges, whose number grows
	 * with the square of theirs.
	 */
	for (uint32_t c = 0; c < b->c && b->d->overlap; c++)
		b->failed |= sched_after(b->plan->tasks, attn, cached[c]) != 0;
	add_matmul(b, layer, LLM_OP_ATTN_OUTPUT);
	add_float(b, layer, LLM_OP_FFN_NORM, s->dim,
		  FLOAT_OPS_ADD + FLOAT_OPS_NORM + fold_ops(b, LLM_OP_ATTN_OUTPUT) +
			  quant_ops(b, LLM_OP_GATE_UP));
	add_matmul(b, layer, LLM_OP_GATE_UP);
	add_float(b, layer, LLM_OP_ACT, s->ffn,
		  act_ops(s) + fold_ops(b, LLM_OP_GATE_UP) * (s->gated ? 2 : 1) +
			  quant_ops(b, LLM_OP_DOWN));
	add_matmul(b, layer, LLM_OP_DOWN);
	add_float(b, layer, LLM_OP_ADD, s->dim, FLOAT_OPS_ADD + fold_ops(b, LLM_OP_DOWN));
}

/* ---- logits ---- */

/* Rows of a static graph for @tokens of the chunk's, from row @row on. */
static uint32_t logits_rows(const struct builder *b, uint32_t row, uint32_t tokens)
{
	uint32_t rows = (tokens + LLM_BUCKET_ROWS - 1) / LLM_BUCKET_ROWS * LLM_BUCKET_ROWS;

	if (tokens == 1 ||
	    (b->o->choices.placement != LLM_PLACE_NPU && b->o->choices.placement != LLM_PLACE_FINE))
		return tokens;
	return rows < b->chunk->rows - row ? rows : b->chunk->rows - row;
}

/* Those of rows @row.. of the chunk. */
static void add_logits(struct builder *b, uint32_t row, uint32_t tokens)
{
	uint32_t layer = b->o->shape->layers;
	struct lane_work norm = work_of(b, layer, LLM_OP_OUTPUT_NORM),
			 head = work_of(b, layer, LLM_OP_HEAD);

	/* On the wall clock a whole graph's logits have no tasks of their own. */
	if (b->led && !b->o->soc)
		return;
	norm.logits_row = head.logits_row = row;
	norm.logits = head.logits = tokens;
	/* The NPU's graph for the head of a whole graph's chunk has the norm in it. */
	if (is_whole(b->o, b->chunk->rows) && !b->o->observe)
		norm.what = LANE_NOTHING;
	b->rows = logits_rows(b, row, tokens);
	add_vector(b, &norm, b->o->shape->dim, FLOAT_OPS_NORM + quant_ops(b, LLM_OP_HEAD));
	/* Their memory is that of the ones before. */
	if (b->handed != SCHED_NONE)
		b->failed |= sched_after(b->plan->tasks, b->last, b->handed) != 0;
	if (b->o->choices.placement == LLM_PLACE_LAYER)
		add_slices(b, &head, LLM_OP_HEAD);
	else
		add_uncut(b, &head, tokens);
}

static void add_all_logits(struct builder *b)
{
	for (uint32_t row = 0; row < b->chunk->n && !b->failed; row += LANE_LOGIT_ROWS) {
		uint32_t left = b->chunk->n - row;
		struct lane_work hand = {
			.what = LANE_OP,
			.op = LLM_OP_LOGITS,
			.chunk = b->c,
			.layer = b->o->shape->layers,
			.logits_row = row,
			.logits = left < LANE_LOGIT_ROWS ? left : LANE_LOGIT_ROWS,
		};

		add_logits(b, row, hand.logits);
		b->handed = add(b, &hand, NULL);
	}
}

/* ---- chunks ---- */

/*
 * All after the embedding. What is one graph of the NPU is one task on the wall clock,
 * and has no costs; on the virtual clock it has a task for each operator, of which the
 * first does all the work.
 */
static void add_layers(struct builder *b, uint32_t *cached, bool whole, bool logits)
{
	if (whole && !b->o->soc) {
		struct lane_work work = whole_of(b, LLM_OP_WHOLE, logits);

		add(b, &work, NULL);
		/* It reads the earlier chunks' keys and values of every layer. */
		for (uint32_t c = 0; c < b->c && b->d->overlap && !b->failed; c++)
			b->failed = sched_after(b->plan->tasks, b->last, b->ends[c]) != 0;
		return;
	}
	b->leads = whole;
	b->leads_logits = logits;
	for (uint32_t layer = 0; layer < b->o->shape->layers && !b->failed; layer++)
		add_layer(b, layer, cached + (size_t)layer * b->plan->nr_chunks);
}

static void add_chunk(struct builder *b, uint32_t *cached)
{
	bool last = b->c + 1 == b->plan->nr_chunks, all = b->plan->pass.logits == PLAN_LOGITS_ALL;
	bool whole = is_whole(b->o, b->chunk->rows) && !b->o->observe;
	/* With a token's graph come its logits. */
	bool logits = whole && (all ? b->chunk->rows == 1
				    : last && b->plan->pass.logits == PLAN_LOGITS_LAST);
	uint32_t begin;

	if (b->d->overlap)
		b->first = b->last = b->built;
	b->led = false;
	begin = add_float(b, 0, LLM_OP_EMBED, b->o->shape->dim, FLOAT_OPS_COPY);
	/* Chunks that come back to the same rows follow one another. */
	for (uint32_t c = 0; c < b->c && b->d->overlap && !b->failed; c++)
		if (b->plan->chunks[c].row == b->chunk->row)
			b->failed = sched_after(b->plan->tasks, begin, b->ends[c]);
	add_layers(b, cached, whole, logits);
	b->led = logits;
	if (all)
		add_all_logits(b);
	else if (last && b->plan->pass.logits == PLAN_LOGITS_LAST)
		add_logits(b, b->chunk->n - 1, 1);
	b->ends[b->c] = b->last;
}

/* Elements of the tensors of the NPU's graphs for a layer's matmuls of @rows rows. */
static double graph_elements(struct builder *b, uint32_t rows)
{
	double elements = 0;

	b->rows = rows;
	for (int op = 0; op < LLM_OP_HEAD; op++) {
		const struct cut *cut;
		uint64_t k, n;

		if (!llm_op_matmul(b->o->shape, op, &k, &n))
			continue;
		cut = find_cut(b, op);
		if (cut->exact)
			elements += npu_time_elements(cut->exact, k, n - cut->gpu_cols);
	}
	return elements;
}

/*
 * The graphs of a prompt's length: one for each of a layer's matmuls, and again for a last chunk
 * of another length. All layers share them, with weights that are bound when they run. Outputs are
 * a token's, whose graphs are there.
 */
static void add_build(struct builder *b)
{
	uint32_t rows = b->plan->chunks[0].n, last = b->plan->chunks[b->plan->nr_chunks - 1].n;
	const struct soc *p = b->o->soc;
	struct lane_work work = { .what = LANE_OP, .op = LLM_OP_BUILD };
	struct soc_cost cost = { 0, 0 };

	for (int i = 0; p && i < (last == rows ? 1 : 2); i++)
		cost.ns += npu_time_build_ns(&p->npu, LAYER_MATMULS) +
			   npu_time_optimize_ns(&p->npu, graph_elements(b, i ? last : rows));
	b->first = b->last = b->built = add_task(b, &work, 0, SOC_CPU, cost);
}

/* ---- how a prompt is divided ---- */

/* Rows of static graphs for @tokens of a matmul of placement layer, at most. */
static uint32_t layer_rows(const struct plan_options *o, uint32_t tokens)
{
	uint32_t rows = PARTITION_MIN_GRAPH;

	if (o->choices.graphs == LLM_GRAPHS_ONLINE)
		return tokens;
	while (rows < tokens && rows < PARTITION_MAX_GRAPH)
		rows *= 2;
	return rows >= tokens ? rows : (tokens + rows - 1) / rows * rows;
}

/* Rows of memory for a chunk of @tokens at most. */
static uint32_t chunk_memory(const struct plan_options *o, uint32_t tokens)
{
	return o->choices.placement == LLM_PLACE_LAYER ? layer_rows(o, tokens) : tokens;
}

static bool is_layered(const struct plan_options *o)
{
	return o->choices.placement == LLM_PLACE_GPU || o->choices.placement == LLM_PLACE_LAYER;
}

/* Whether plan_divide() has a choice. */
static bool is_divisible(const struct plan_options *o)
{
	return o->choices.placement == LLM_PLACE_LAYER &&
	       o->choices.division == LLM_DIVISION_FASTEST && !o->chunk &&
	       o->choices.order != LLM_ORDER_FIFO;
}

uint32_t plan_chunk(const struct plan_options *o, uint32_t n_ctx)
{
	uint32_t chunk = o->chunk	 ? o->chunk
			 : is_layered(o) ? DEFAULT_LAYER_CHUNK
					 : DEFAULT_CHUNK,
		 most = n_ctx;

	/* Static graphs have whole buckets, or one size. */
	if (!is_layered(o) && o->choices.graphs == LLM_GRAPHS_BUCKETED)
		most = (n_ctx + LLM_BUCKET_ROWS - 1) / LLM_BUCKET_ROWS * LLM_BUCKET_ROWS;
	else if (!is_layered(o))
		most = chunk;
	return chunk < most ? chunk : most;
}

/*
 * Placement fine overlaps chunks if it is told to; layer, if that is the
 * fastest, or if it is told to.
 */
static bool overlaps(const struct plan_options *o)
{
	return o->choices.order == LLM_ORDER_LAYER &&
	       (o->choices.placement == LLM_PLACE_FINE || o->choices.placement == LLM_PLACE_LAYER);
}

const uint32_t plan_counts[PLAN_NR_COUNTS] = { 1, 2, 3, 4, 6, 8 };

uint32_t plan_divided(uint32_t tokens, uint32_t count)
{
	uint32_t each = (tokens + count - 1) / count;

	return (each + PARTITION_MIN_GRAPH - 1) / PARTITION_MIN_GRAPH * PARTITION_MIN_GRAPH;
}

uint32_t plan_rows(const struct plan_options *o, uint32_t n_ctx)
{
	uint32_t chunk = plan_chunk(o, n_ctx), rows = chunk_memory(o, chunk), in_flight;

	for (size_t i = 1; i < PLAN_NR_COUNTS && is_divisible(o); i++) {
		uint32_t more =
			plan_counts[i] * chunk_memory(o, plan_divided(chunk, plan_counts[i]));

		rows = more > rows ? more : rows;
	}
	if (!overlaps(o))
		return rows;
	in_flight = (n_ctx + chunk - 1) / chunk;
	in_flight = in_flight < CHUNKS_IN_FLIGHT ? in_flight : CHUNKS_IN_FLIGHT;
	return rows > in_flight * chunk_memory(o, chunk) ? rows
							 : in_flight * chunk_memory(o, chunk);
}

static uint32_t padded(const struct plan_options *o, uint32_t chunk, uint32_t tokens)
{
	uint32_t rows = (tokens + LLM_BUCKET_ROWS - 1) / LLM_BUCKET_ROWS * LLM_BUCKET_ROWS;

	/*
	 * Elsewhere no graph is of a chunk: what is padded is a matmul's. And a
	 * token has a graph of its own.
	 */
	if (tokens == 1 ||
	    (o->choices.placement != LLM_PLACE_NPU && o->choices.placement != LLM_PLACE_FINE))
		return tokens;
	if (o->choices.graphs != LLM_GRAPHS_BUCKETED)
		return chunk;
	return rows < chunk ? rows : chunk;
}

static void place_chunks(const struct plan_options *o, struct plan *plan)
{
	uint32_t memory = chunk_memory(o, plan->chunk), places = o->rows / memory;

	if (!o->rows)
		places = plan->nr_chunks;
	if (!plan->overlap || !places)
		places = 1;
	for (uint32_t c = 0; c < plan->nr_chunks; c++) {
		uint32_t first = c * plan->chunk, left = plan->pass.n_tokens - first;
		uint32_t n = left < plan->chunk ? left : plan->chunk;

		plan->chunks[c] = (struct lane_chunk){
			.first = first,
			.n = n,
			.rows = padded(o, plan->chunk, n),
			.row = c % places * memory,
		};
	}
}

/* ---- plans ---- */

static struct plan *plan_create(const struct plan_options *o, const struct plan_pass *pass,
				const struct plan_division *d)
{
	struct plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return NULL;
	plan->pass = *pass;
	plan->chunk = d->chunk;
	plan->overlap = d->overlap;
	plan->observed = o->observe;
	plan->nr_chunks = (pass->n_tokens + d->chunk - 1) / d->chunk;
	plan->tasks = sched_tasks_create(llm_op_name);
	plan->chunks = calloc(plan->nr_chunks, sizeof(*plan->chunks));
	if (!plan->tasks || !plan->chunks) {
		plan_free(plan);
		return NULL;
	}
	return plan;
}

void plan_free(struct plan *plan)
{
	if (!plan)
		return;
	sched_tasks_free(plan->tasks);
	free(plan->works);
	free(plan->chunks);
	free(plan);
}

struct plan *plan_forward_divided(const struct plan_options *o, const struct plan_pass *pass,
				  const struct plan_division *d)
{
	struct plan *plan = plan_create(o, pass, d);
	struct builder b = { .o = o, .d = d, .plan = plan, .token = pass->n_tokens == 1 };
	uint32_t *cached;

	if (!plan)
		return NULL;
	b.first = b.last = b.built = b.handed = SCHED_NONE;
	place_chunks(o, plan);
	cached = calloc((size_t)plan->nr_chunks * o->shape->layers + 1, sizeof(*cached));
	b.ends = calloc(plan->nr_chunks, sizeof(*b.ends));
	b.failed = !cached || !b.ends;
	if (!b.failed && o->choices.placement == LLM_PLACE_LAYER &&
	    o->choices.graphs == LLM_GRAPHS_ONLINE && pass->n_tokens > PARTITION_EXACT_ROWS)
		add_build(&b);
	for (uint32_t c = 0; c < plan->nr_chunks && !b.failed; c++) {
		b.c = c;
		b.chunk = &plan->chunks[c];
		b.rows = b.chunk->rows;
		b.pos = pass->n_past + b.chunk->first;
		add_chunk(&b, cached);
	}
	free(cached);
	free(b.ends);
	if (!b.failed)
		return plan;
	plan_free(plan);
	return NULL;
}

struct plan *plan_forward(const struct plan_options *o, const struct plan_pass *pass)
{
	/* A token's chunk is itself, whatever the context. */
	struct plan_division d = { .chunk = plan_chunk(o, pass->n_tokens) };
	bool divided = is_divisible(o) && pass->n_tokens > 1;
	struct plan *plan;

	if (divided && plan_divide(o, pass, &d))
		return NULL;
	if (overlaps(o))
		d.overlap |= pass->n_tokens > d.chunk;
	plan = plan_forward_divided(o, pass, &d);
	if (plan)
		plan->divided = divided;
	return plan;
}

const struct sched_policy *plan_policy(const struct plan *plan)
{
	return plan->overlap ? &sched_policy_layer : &sched_policy_fifo;
}
