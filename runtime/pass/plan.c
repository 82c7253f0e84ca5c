// SPDX-License-Identifier: MIT
#include <stdlib.h>

#include "plan_private.h"

/* Matmuls of a layer. */
#define LAYER_MATMULS 4
/* Tokens of a chunk. llm.npu 3.2 chose 256 for this class of devices; placements gpu and layer take
 * a prompt whole, as far as memory is no matter, and so do graphs of a prompt's length. */
#define DEFAULT_CHUNK 256
#define DEFAULT_LAYER_CHUNK 2048
/* Chunks in flight where they overlap: each has activations of its own. */
#define CHUNKS_IN_FLIGHT 4

/* ---- layers ---- */

void plan_set_cached(struct builder *b, uint32_t layer, uint32_t task)
{
	b->cached[(size_t)layer * b->plan->nr_chunks + b->c] = task;
}

void plan_after_cached(struct builder *b, uint32_t layer, uint32_t attention)
{
	const uint32_t *cached = b->cached + (size_t)layer * b->plan->nr_chunks;

	/*
	 * Chunks that follow one another need no such edges, whose number grows
	 * with the square of theirs.
	 */
	for (uint32_t c = 0; c < b->c && b->d->overlap; c++)
		b->failed |= sched_after(b->plan->tasks, attention, cached[c]) != 0;
}

static void add_matmul(struct builder *b, uint32_t layer, enum llm_op op)
{
	struct lane_work work = plan_work(b, layer, op);
	uint32_t first = b->first, last = b->last;

	if (b->o->choices.placement == LLM_PLACE_LAYER)
		plan_add_slices(b, &work, op);
	else if (b->o->choices.order == LLM_ORDER_STEAL && b->d->overlap)
		plan_add_stealable(b, &work);
	else
		plan_add_uncut(b, &work, b->tokens);
	plan_add_shadow(b, layer, op, first, last);
}

/* Matmuls of integers take their activations quantised by who made them, and the parts of their
 * results are added by who takes them. */
static void add_float(struct builder *b, uint32_t layer, enum llm_op op)
{
	struct lane_work work = plan_work(b, layer, op);
	struct soc_op vector;
	uint64_t cols;
	double ops = plan_float_ops(b, op, &cols);

	ops += plan_fold_ops(b, op - 1) + plan_quant_ops(b, op + 1);
	vector = plan_vector(b->rows, cols, ops);
	plan_add(b, &work, &vector);
}

static void add_attention(struct builder *b, uint32_t layer)
{
	struct soc_op attention = plan_full_attention(b, layer, b->rows);
	struct lane_work work;

	if (plan_is_sparse(b))
		return plan_add_sparse(b, layer);
	work = plan_work(b, layer, LLM_OP_ATTN);
	plan_after_cached(b, layer, plan_add(b, &work, &attention));
}

void plan_add_layer(struct builder *b, uint32_t layer)
{
	add_float(b, layer, LLM_OP_ATTN_NORM);
	add_matmul(b, layer, LLM_OP_QKV);
	add_float(b, layer, LLM_OP_ROPE);
	plan_set_cached(b, layer, b->last);
	if (b->part == PLAN_KEYS)
		return;
	add_attention(b, layer);
	add_matmul(b, layer, LLM_OP_ATTN_OUTPUT);
	add_float(b, layer, LLM_OP_FFN_NORM);
	if (b->o->shape->experts) {
		plan_add_experts(b, layer);
	} else {
		add_matmul(b, layer, LLM_OP_GATE_UP);
		add_float(b, layer, LLM_OP_ACT);
		add_matmul(b, layer, LLM_OP_DOWN);
	}
	add_float(b, layer, LLM_OP_ADD);
}

/* The last layer of a chunk whose keys and values are wanted, and with @logits the rest of its last
 * token: that layer once more, of this row. */
static void add_last_layer(struct builder *b, uint32_t layer, bool logits)
{
	void (*add)(struct builder *, uint32_t) =
		plan_has_subgraphs(b) ? plan_add_linear : plan_add_layer;
	uint32_t pos = b->pos;

	b->part = PLAN_KEYS;
	add(b, layer);
	if (logits) {
		b->part = PLAN_LAST_ROW;
		/* A static graph's context is that of all of its rows. */
		b->pos += b->chunk->rows - 1;
		b->rows = b->tokens = 1;
		add(b, layer);
	}
	b->part = PLAN_ALL;
	b->pos = pos;
	b->rows = b->chunk->rows;
	b->tokens = b->chunk->n;
}

/* ---- logits ---- */

/* Rows of a static graph for @tokens of the chunk's, from row @row on; chosen ones are gathered in
 * its first rows. */
static uint32_t logits_rows(const struct builder *b, uint32_t row, uint32_t tokens)
{
	uint32_t rows = (tokens + LLM_BUCKET_ROWS - 1) / LLM_BUCKET_ROWS * LLM_BUCKET_ROWS;

	if (b->plan->pass.tree)
		return b->chunk->rows;
	if (b->apart)
		return tokens == 1 ? 1 : rows;
	if (tokens == 1 || !plan_pads_chunks(b->o))
		return tokens;
	if (b->plan->pass.logits == PLAN_LOGITS_AT)
		row = 0;
	return rows < b->chunk->rows - row ? rows : b->chunk->rows - row;
}

/* The position at which chosen tokens @row.. are on average. */
static uint32_t mean_position(const struct builder *b, uint32_t row, uint32_t tokens)
{
	uint64_t sum = 0;

	for (uint32_t i = row; i < row + tokens; i++)
		sum += b->plan->pass.at[i];
	return b->pos - b->chunk->first + (uint32_t)(sum / tokens);
}

/* The last layer of chosen tokens @row.. */
static void add_chosen(struct builder *b, uint32_t row, uint32_t tokens)
{
	uint32_t pos = b->pos, mean = mean_position(b, row, tokens);

	b->block = (struct lane_work){ .what = LANE_CHOSEN,
				       .op = LLM_OP_WHOLE,
				       .chunk = b->c,
				       .layer = b->o->shape->layers - 1,
				       .logits_row = row,
				       .logits = tokens,
				       .chosen = true };
	if (!b->o->soc) {
		plan_add(b, &b->block, NULL);
		return;
	}
	b->leads = true;
	b->part = PLAN_CHOSEN;
	b->rows = logits_rows(b, row, tokens);
	b->tokens = tokens;
	/* Its rows' costs are those of rows around the mean one. */
	b->pos = mean > b->rows / 2 ? mean - b->rows / 2 : 0;
	plan_add_layer(b, b->block.layer);
	b->led = false;
	b->part = PLAN_ALL;
	b->tokens = b->chunk->n;
	b->pos = pos;
}

/* Those of rows @row.. of the chunk; of chosen ones, from @row on. */
static void add_logits(struct builder *b, uint32_t row, uint32_t tokens)
{
	uint32_t layer = b->o->shape->layers;
	struct lane_work norm = plan_work(b, layer, LLM_OP_OUTPUT_NORM),
			 head = plan_work(b, layer, LLM_OP_HEAD);
	struct soc_op vector;

	/* On the wall clock a whole graph's logits have no tasks of their own. */
	if (b->led && !b->o->soc)
		return;
	norm.logits_row = head.logits_row = row;
	norm.logits = head.logits = tokens;
	head.chosen = b->apart;
	if (b->apart)
		add_chosen(b, row, tokens);
	/* The NPU's graph for the head of a whole graph's chunk has the norm in it. */
	if (plan_is_whole(b) && !b->o->observe)
		norm.what = LANE_NOTHING;
	b->rows = logits_rows(b, row, tokens);
	vector = plan_vector(b->rows, b->o->shape->dim,
			     FLOAT_OPS_NORM + plan_quant_ops(b, LLM_OP_HEAD));
	plan_add(b, &norm, &vector);
	/* Their memory is that of the ones before. */
	if (b->handed != SCHED_NONE)
		b->failed |= sched_after(b->plan->tasks, b->last, b->handed) != 0;
	if (b->o->choices.placement == LLM_PLACE_LAYER)
		plan_add_slices(b, &head, LLM_OP_HEAD);
	else
		plan_add_uncut(b, &head, tokens);
}

/* What it costs to find the best of each row's logits; handing out all of them costs nothing. */
static struct soc_op reduction(const struct builder *b, uint32_t rows)
{
	return plan_vector(rows, b->o->shape->vocab, FLOAT_OPS_SOFTMAX + FLOAT_OPS_TOPK);
}

/* Logits @row.. @end - 1: of the chunk's rows, or of the pass's chosen tokens. */
static void add_many_logits(struct builder *b, uint32_t row, uint32_t end)
{
	bool at = b->plan->pass.logits == PLAN_LOGITS_AT;

	for (; row < end && !b->failed; row += LANE_LOGIT_ROWS) {
		struct lane_work hand = {
			.what = LANE_OP,
			.op = LLM_OP_LOGITS,
			.chunk = b->c,
			.layer = b->o->shape->layers,
			.logits_row = row,
			.logits = end - row < LANE_LOGIT_ROWS ? end - row : LANE_LOGIT_ROWS,
		};
		struct soc_op best = reduction(b, hand.logits);

		add_logits(b, row, hand.logits);
		if (!b->plan->pass.tree)
			b->handed = plan_add(b, &hand, at ? &best : NULL);
	}
}

/* How many chosen tokens are before the pass's token @end. */
static uint32_t chosen_before(const struct builder *b, uint32_t end)
{
	const struct plan_pass *p = &b->plan->pass;
	uint32_t n = 0;

	while (n < p->nr_at && p->at[n] < end)
		n++;
	return n;
}

/* The logits that are wanted of a chunk, as in add_many_logits(). */
struct chunk_logits {
	uint32_t first, end;
};

static struct chunk_logits logits_of(const struct builder *b)
{
	const struct lane_chunk *c = b->chunk;
	bool last = b->c + 1 == b->plan->nr_chunks;

	switch (b->plan->pass.logits) {
	case PLAN_LOGITS_ALL:
		return (struct chunk_logits){ 0, c->n };
	case PLAN_LOGITS_AT:
		return (struct chunk_logits){ chosen_before(b, c->first),
					      chosen_before(b, c->first + c->n) };
	case PLAN_LOGITS_LAST:
		return (struct chunk_logits){ c->n - 1, last ? c->n : c->n - 1 };
	default:
		return (struct chunk_logits){ 0, 0 };
	}
}

/* ---- chunks ---- */

/*
 * All after the embedding. What is one graph of the NPU is one task on the wall clock,
 * and has no costs; on the virtual clock it has a task for each operator, of which the
 * first does all the work. @logits: it has logits too. @last_row: builder.keys leaves the last row.
 */
static void add_layers(struct builder *b, bool whole, bool logits, bool last_row)
{
	if (plan_has_blocks(b))
		return plan_add_blocks(b, whole);
	if (whole && !b->o->soc) {
		struct lane_work work = plan_whole_work(b, LLM_OP_WHOLE, logits);

		plan_add(b, &work, NULL);
		/* It reads the earlier chunks' keys and values of every layer. */
		for (uint32_t c = 0; c < b->c && b->d->overlap && !b->failed; c++)
			b->failed = sched_after(b->plan->tasks, b->last, b->ends[c]) != 0;
		return;
	}
	b->leads = whole;
	b->leads_logits = logits;
	for (uint32_t layer = 0; layer < b->o->shape->layers && !b->failed; layer++) {
		plan_add_pieces(b, layer);
		if (b->keys && layer + 1 == b->o->shape->layers)
			add_last_layer(b, layer, last_row);
		else if (plan_has_subgraphs(b))
			plan_add_linear(b, layer);
		else
			plan_add_layer(b, layer);
	}
}

/* Whether nobody reads more of the last layer than keys and values, and the rows whose logits are
 * @wanted: that of the chunk's last token, or chosen ones. Placement npu alone makes use of that:
 * the papers' engines, which the others stand for, compute static graphs of whole layers. */
static bool is_trimmed(const struct builder *b, bool whole, struct chunk_logits wanted)
{
	bool one = b->plan->pass.logits == PLAN_LOGITS_LAST || wanted.first == wanted.end,
	     apart = b->plan->pass.logits == PLAN_LOGITS_AT && whole && b->o->positions,
	     subgraphs = plan_has_subgraphs(b) && !plan_is_linear(b) && !b->o->observe;

	return (one || apart) && (whole || subgraphs) && b->chunk->rows > 1 &&
	       b->o->shape->layers > 1 && !b->o->shape->experts && !b->plan->pass.tree &&
	       !plan_has_blocks(b);
}

/* Keeps the rows of chosen tokens @first.. @end - 1, which the chunk has before the last layer. */
static void add_keep(struct builder *b, uint32_t first, uint32_t end)
{
	struct lane_work work = { .what = LANE_OP,
				  .op = LLM_OP_KEEP,
				  .chunk = b->c,
				  .layer = b->o->shape->layers - 1,
				  .logits_row = first,
				  .logits = end - first };
	uint32_t keep = plan_add(b, &work, NULL);

	if (b->keep != SCHED_NONE && !b->failed)
		b->failed = sched_after(b->plan->tasks, keep, b->keep) != 0;
	b->keep = keep;
	b->nr_kept = end;
}

/* The last layer and the logits of the tokens whose rows were kept, of all chunks together: the few
 * of one chunk would not fill a graph. */
static void add_kept(struct builder *b)
{
	if (!b->nr_kept)
		return;
	b->apart = true;
	add_many_logits(b, 0, b->nr_kept);
	b->apart = false;
	b->nr_kept = 0;
	b->rows = b->chunk->rows;
}

/* The chunk's own logits, of chosen tokens if it has kept no row of them. */
static void add_wanted(struct builder *b, struct chunk_logits wanted, bool last)
{
	if (b->plan->pass.logits == PLAN_LOGITS_LAST) {
		if (wanted.first < wanted.end)
			add_logits(b, wanted.first, 1);
		return;
	}
	if (!b->keys) {
		add_many_logits(b, wanted.first, wanted.end);
		return;
	}
	if (wanted.first < wanted.end)
		add_keep(b, wanted.first, wanted.end);
	if (last)
		add_kept(b);
}

static void add_chunk(struct builder *b)
{
	const struct chunk_logits wanted = logits_of(b);
	bool many = b->plan->pass.logits != PLAN_LOGITS_LAST;
	bool whole = plan_is_whole(b) && !b->o->observe;
	/* With a token's graph come its logits, and after a tree's or a prompt's last chunk
	 * those that are wanted. */
	bool logits = whole && !plan_has_blocks(b) && wanted.first < wanted.end &&
		      (!many || b->chunk->rows == 1 || b->plan->pass.tree);
	struct soc_op copy = plan_vector(b->rows, b->o->shape->dim, FLOAT_OPS_COPY);
	struct lane_work embed;
	uint32_t begin;

	if (b->d->overlap)
		b->first = b->last = b->built;
	b->led = false;
	b->keys = is_trimmed(b, whole, wanted);
	/* The last chunk of a single token: those before it are handed out first. */
	if (!b->keys && b->nr_kept) {
		if (b->d->overlap)
			b->first = b->last = b->keep;
		add_kept(b);
	}
	embed = plan_work(b, 0, LLM_OP_EMBED);
	begin = plan_add(b, &embed, &copy);
	/* Chunks that come back to the same rows follow one another. */
	for (uint32_t c = 0; c < b->c && b->d->overlap && !b->failed; c++)
		if (b->plan->chunks[c].row == b->chunk->row)
			b->failed = sched_after(b->plan->tasks, begin, b->ends[c]);
	add_layers(b, whole, logits, wanted.first < wanted.end && !many);
	b->led = logits;
	plan_add_pieces(b, b->o->shape->layers);
	add_wanted(b, wanted, b->c + 1 == b->plan->nr_chunks);
	b->ends[b->c] = b->last;
}

/* ---- graphs of the prompt's length ---- */

/* Elements of the tensors of the NPU's graphs for a layer's matmuls of @rows rows. */
static double graph_elements(struct builder *b, uint32_t rows)
{
	bool cuts = b->o->choices.placement == LLM_PLACE_LAYER;
	double elements = 0;

	b->rows = rows;
	for (int op = 0; op < LLM_OP_HEAD; op++) {
		const struct cut *cut;
		uint64_t k, n;

		if (!llm_op_matmul(b->o->shape, op, &k, &n))
			continue;
		cut = cuts ? plan_find_cut(b, op) : NULL;
		if (!cuts)
			elements += npu_time_elements(rows, k, n);
		else if (cut->exact)
			elements += npu_time_elements(cut->exact, k, n - cut->gpu_cols);
	}
	return elements;
}

static double build_ns(struct builder *b, uint32_t rows)
{
	const struct soc_npu *npu = &b->o->soc->npu;
	uint32_t layers = b->o->shape->layers;

	if (b->o->choices.placement == LLM_PLACE_LAYER)
		return npu_time_build_ns(npu, LAYER_MATMULS) +
		       npu_time_optimize_ns(npu, graph_elements(b, rows));
	return npu_time_build_ns(npu, layers * (uint64_t)plan_nr_npu_ops(b)) +
	       npu_time_optimize_ns(npu, layers * graph_elements(b, rows));
}

/*
 * The graphs of a prompt's length, and again those of a last chunk of another length. Those of
 * placement layer are of one matmul each, and all layers share them, with weights that are bound
 * when they run. Those of placement linear have all layers, weights included (llm.npu 2.3). Outputs
 * are a token's, whose graphs are there.
 */
static void add_build(struct builder *b)
{
	uint32_t rows = b->plan->chunks[0].n, last = b->plan->chunks[b->plan->nr_chunks - 1].n;
	struct lane_work work = { .what = LANE_OP, .op = LLM_OP_BUILD };
	struct soc_cost cost = { 0, 0 };

	for (int i = 0; b->o->soc && i < (last == rows ? 1 : 2); i++)
		cost.ns += build_ns(b, i ? last : rows);
	b->first = b->last = b->built = plan_add_task(b, &work, 0, SOC_CPU, cost);
}

static bool is_built_online(const struct builder *b)
{
	uint32_t exact = b->o->choices.placement == LLM_PLACE_LAYER ? PARTITION_EXACT_ROWS : 1;

	return b->o->choices.graphs == LLM_GRAPHS_ONLINE && b->plan->pass.n_tokens > exact &&
	       !b->token &&
	       (b->o->choices.placement == LLM_PLACE_LAYER ||
		b->o->choices.placement == LLM_PLACE_LINEAR);
}

/* Whether nothing is computed before all weights are there. Graphs that are compiled on a phone
 * have the weights in them. */
static bool loads_ahead(const struct builder *b)
{
	return b->o->start && (b->o->start->ahead || (b->o->soc && is_built_online(b)));
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

/* Whether a chunk is the whole prompt, as far as memory goes. */
static bool takes_all(const struct plan_options *o)
{
	return o->choices.placement == LLM_PLACE_GPU || o->choices.placement == LLM_PLACE_LAYER ||
	       (o->choices.placement == LLM_PLACE_LINEAR && o->choices.graphs == LLM_GRAPHS_ONLINE);
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
	uint32_t chunk = o->chunk	? o->chunk
			 : takes_all(o) ? DEFAULT_LAYER_CHUNK
					: DEFAULT_CHUNK,
		 most = n_ctx;

	if (o->switching && o->switching->graphs == PLAN_GRAPHS_DECODE)
		return o->switching->width;
	/* Static graphs have whole buckets, or one size. */
	if (!takes_all(o) && o->choices.graphs == LLM_GRAPHS_BUCKETED)
		most = (n_ctx + LLM_BUCKET_ROWS - 1) / LLM_BUCKET_ROWS * LLM_BUCKET_ROWS;
	else if (!takes_all(o))
		most = chunk;
	return chunk < most ? chunk : most;
}

/* The order that auto stands for where chunks overlap. */
static enum llm_order order_of(const struct plan_options *o)
{
	if (o->choices.order != LLM_ORDER_AUTO)
		return o->choices.order;
	return o->choices.placement == LLM_PLACE_LINEAR ? LLM_ORDER_OOE : LLM_ORDER_LAYER;
}

/* Placement fine overlaps chunks if it is told to; layer, if that is the fastest, or if it is told
 * to; linear, unless it is told not to, or lanes share the host's cores. */
static bool overlaps(const struct plan_options *o)
{
	enum llm_placement p = o->choices.placement;

	if (o->choices.order == LLM_ORDER_AUTO)
		return p == LLM_PLACE_LINEAR && o->soc;
	return o->choices.order != LLM_ORDER_FIFO &&
	       (p == LLM_PLACE_FINE || p == LLM_PLACE_LAYER || p == LLM_PLACE_LINEAR);
}

const uint32_t plan_counts[PLAN_NR_COUNTS] = { 1, 2, 3, 4, 6, 8 };

uint32_t plan_divided(uint32_t tokens, uint32_t count)
{
	uint32_t each = (tokens + count - 1) / count;

	return (each + PARTITION_MIN_GRAPH - 1) / PARTITION_MIN_GRAPH * PARTITION_MIN_GRAPH;
}

/* Chunks in flight at most: of shorter ones as many as have the memory of those of the default
 * length, so that as much of a prompt overlaps. */
static uint32_t most_in_flight(const struct plan_options *o, uint32_t chunk)
{
	uint32_t shorter = CHUNKS_IN_FLIGHT * DEFAULT_CHUNK / chunk_memory(o, chunk);

	return shorter > CHUNKS_IN_FLIGHT ? shorter : CHUNKS_IN_FLIGHT;
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
	if (in_flight > most_in_flight(o, chunk))
		in_flight = most_in_flight(o, chunk);
	return rows > in_flight * chunk_memory(o, chunk) ? rows
							 : in_flight * chunk_memory(o, chunk);
}

/* Rows of a chunk of a @prompt, or of a token. */
static uint32_t padded(const struct plan_options *o, uint32_t chunk, uint32_t tokens, bool prompt)
{
	bool linear = o->choices.placement == LLM_PLACE_LINEAR;
	uint32_t rows = (tokens + LLM_BUCKET_ROWS - 1) / LLM_BUCKET_ROWS * LLM_BUCKET_ROWS;

	/*
	 * Elsewhere no graph is of a chunk: what is padded is a matmul's. And a
	 * token has a graph of its own, which is not one of placement linear's for prompts, unless
	 * layers are in blocks.
	 */
	if (!plan_pads_chunks(o) || (tokens == 1 && !(linear && prompt) && !o->switching))
		return tokens;
	if (o->choices.graphs != LLM_GRAPHS_BUCKETED)
		return chunk;
	return rows < chunk ? rows : chunk;
}

uint32_t plan_tree_rows(uint32_t n)
{
	uint32_t rows = 1;

	while (rows < n)
		rows *= 2;
	return rows;
}

/* Of a token tree. Placement layer has graphs for each matmul, and a GPU none. */
static uint32_t padded_tree(const struct plan_options *o, uint32_t n)
{
	enum llm_placement p = o->choices.placement;
	bool graphs = p == LLM_PLACE_NPU || p == LLM_PLACE_FINE || p == LLM_PLACE_LINEAR;

	return graphs ? plan_tree_rows(n) : n;
}

static void place_chunks(const struct plan_options *o, struct plan *plan)
{
	uint32_t memory = chunk_memory(o, plan->chunk), places = o->rows / memory;
	const struct lane_chunk *last;

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
			.rows = plan->pass.tree
					? padded_tree(o, n)
					: padded(o, plan->chunk, n, plan->pass.n_tokens > 1),
			.row = c % places * memory,
		};
	}
	last = &plan->chunks[plan->nr_chunks - 1];
	plan->chunks[plan->nr_chunks] = (struct lane_chunk){
		.first = last->first + last->n - 1,
		.n = 1,
		.rows = 1,
		.row = last->row + last->n - 1,
	};
}

/* ---- plans ---- */

static const struct sched_policy *policy_of(enum llm_order order)
{
	switch (order) {
	case LLM_ORDER_LAYER:
		return &sched_policy_layer;
	case LLM_ORDER_OOE:
		return &sched_policy_ooe;
	case LLM_ORDER_STEAL:
		return &sched_policy_steal;
	default:
		/* The plan has chunk after chunk: its first task is one of the earliest. */
		return &sched_policy_fifo;
	}
}

static struct plan *plan_create(const struct plan_options *o, const struct plan_pass *pass,
				const struct plan_division *d)
{
	struct plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return NULL;
	plan->pass = *pass;
	plan->chunk = d->chunk;
	plan->overlap = d->overlap;
	plan->policy = d->overlap ? policy_of(order_of(o)) : &sched_policy_fifo;
	plan->observed = o->observe;
	plan->graphs = o->switching ? o->switching->graphs : PLAN_GRAPHS_PREFILL;
	plan->nr_chunks = (pass->n_tokens + d->chunk - 1) / d->chunk;
	plan->tasks = sched_tasks_create(llm_op_name);
	plan->chunks = calloc(plan->nr_chunks + 1, sizeof(*plan->chunks));
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
	free(plan->times);
	free(plan->works);
	free(plan->chunks);
	free(plan);
}

void plan_add_up_graphs(const struct plan *plan, double *times)
{
	for (uint32_t i = sched_nr_tasks(plan->tasks); i-- > 1;) {
		uint32_t graph = sched_get(plan->tasks, i)->graph;

		if (graph && sched_get(plan->tasks, i - 1)->graph == graph)
			times[i - 1] += times[i];
	}
}

/* What tasks take at home when no other lane is at work, and what on the CPU, launches included. */
static bool add_times(struct plan *plan, const struct plan_options *o)
{
	enum soc_sync sync = o->choices.sync == LLM_SYNC_FAST ? SOC_SYNC_FAST : SOC_SYNC_DRIVER;
	uint32_t n = sched_nr_tasks(plan->tasks);

	plan->times = calloc(2 * (size_t)n + 1, sizeof(*plan->times));
	for (uint32_t i = 0; plan->times && o->soc && i < n; i++) {
		const struct sched_task *t = sched_get(plan->tasks, i);

		plan->times[i] = soc_alone_ns(o->soc, t->home, t->cost[t->home]);
		if (t->home == SOC_NPU &&
		    !(i && t->graph && sched_get(plan->tasks, i - 1)->graph == t->graph))
			plan->times[i] += soc_npu_start_ns(o->soc, sync, false);
		plan->times[n + i] =
			soc_alone_ns(o->soc, SOC_CPU, t->cost[SOC_CPU]) + soc_cpu_start_ns(o->soc);
	}
	if (plan->times)
		plan_add_up_graphs(plan, plan->times);
	return plan->times;
}

struct plan *plan_forward_divided(const struct plan_options *o, const struct plan_pass *pass,
				  const struct plan_division *d)
{
	struct plan *plan = plan_create(o, pass, d);
	struct builder b = {
		.o = o,
		.d = d,
		.plan = plan,
		.token = pass->n_tokens == 1 || pass->tree,
	};

	if (!plan)
		return NULL;
	plan_fit(o, b.fit);
	b.first = b.last = b.built = b.handed = b.keep = b.read = SCHED_NONE;
	place_chunks(o, plan);
	b.cached = calloc((size_t)plan->nr_chunks * o->shape->layers + 1, sizeof(*b.cached));
	b.ends = calloc(plan->nr_chunks, sizeof(*b.ends));
	b.piece = o->start ? o->start->first : 0;
	b.packed = calloc(o->start ? o->start->nr + 1 : 1, sizeof(*b.packed));
	b.estimated = malloc((o->shape->layers + 1) * sizeof(*b.estimated));
	b.failed = !b.cached || !b.ends || !b.packed || !b.estimated;
	for (uint32_t layer = 0; layer < o->shape->layers && !b.failed; layer++)
		b.estimated[layer] = SCHED_NONE;
	if (!b.failed && loads_ahead(&b))
		plan_add_pieces_ahead(&b);
	if (!b.failed && is_built_online(&b))
		add_build(&b);
	if (!b.failed && plan_has_blocks(&b))
		b.failed = plan_switch_begin(&b) != 0;
	for (uint32_t c = 0; c < plan->nr_chunks && !b.failed; c++) {
		b.c = c;
		b.chunk = &plan->chunks[c];
		b.rows = b.chunk->rows;
		b.tokens = b.chunk->n;
		b.pos = pass->n_past + b.chunk->first;
		add_chunk(&b);
	}
	if (!b.failed && plan_has_blocks(&b))
		plan_add_last_loads(&b);
	plan_switch_end(&b);
	free(b.cached);
	free(b.ends);
	free(b.packed);
	free(b.estimated);
	if (!b.failed && (plan->policy == &sched_policy_ooe || plan->policy == &sched_policy_steal))
		b.failed = !add_times(plan, o);
	if (!b.failed)
		return plan;
	plan_free(plan);
	return NULL;
}

struct plan *plan_forward(const struct plan_options *o, const struct plan_pass *pass)
{
	/* A token's chunk is itself, whatever the context. */
	struct plan_division d = { .chunk = pass->tree ? pass->n_tokens
						       : plan_chunk(o, pass->n_tokens) };
	bool divided = is_divisible(o) && pass->n_tokens > 1 && !pass->tree;
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
