// SPDX-License-Identifier: MIT
/*
 * A cache of NPU programs and of the jobs that bind them. A program's key is its graph, operators,
 * rows and columns; a job's key is its layer and the rows that it reads and writes. Jobs bind rows
 * in place, so cutting a matmul copies nothing.
 *
 * A program may be loaded or dropped by one thread while another uses the cache. The lock is not
 * held while it is made.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "llm_fail.h"
#include "npu_lane.h"
#include "shadow.h"

/* Beyond this, the least recently used program is replaced. One plan needs tens. */
#define MAX_PROGRAMS 256
/* Jobs of a program per layer: slices of one size in the chunks in flight */
#define MAX_BINDINGS 8

/* Compared with memcmp(). */
struct program_key {
	enum llm_graph graph;
	enum llm_op op, last; /* of a subgraph the first and the last */
	unsigned int rows;
	unsigned int layer, layers; /* of a whole graph */
	unsigned int keys; /* lane_whole's or lane_subgraph's */
	unsigned int span; /* lane_whole's */
	unsigned int prompt; /* its activations may be static: lane_call.prompt */
	unsigned int local, no_rope; /* of a subgraph's layer (struct llm_layer) */
	unsigned int first[LANE_MAX_MATRICES], cols[LANE_MAX_MATRICES];
	enum llm_format format[LLM_NR_MATRICES]; /* of those used; layers may differ */
	size_t wk_bytes[LLM_NR_MATRICES]; /* of those that are WK, which likewise differ */
};

/* What a program is made of: one of them. */
struct program_parts {
	const struct lane_slice *slice;
	const struct lane_subgraph *subgraph;
	const struct lane_whole *whole;
};

struct program {
	struct program_key key;
	struct npu_program *prog; /* NULL: free */
	uint64_t bytes; /* of commands and constants */
	uint32_t timeout_ms;
	struct npu_binding **bindings; /* by layer */
	unsigned int nr_layers;
	uint64_t used;
};

struct npu_programs {
	const struct lane_memory *memory;
	pthread_mutex_t lock; /* of the programs, and how often they were used */
	struct program programs[MAX_PROGRAMS];
	unsigned int nr; /* entries ever used */
	uint64_t uses;
	uint64_t bound; /* of bindings, which only the computing thread uses */
	uint64_t *made_ns;
};

struct npu_programs *npu_programs_create(const struct lane_memory *memory, uint64_t *made_ns)
{
	struct npu_programs *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->memory = memory;
	p->made_ns = made_ns;
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

static void binding_free(struct npu_binding *b)
{
	if (b->job)
		npu_job_free(b->job);
	free(b);
}

static void program_free(struct program *g)
{
	for (unsigned int i = 0; g->bindings && i < g->nr_layers; i++) {
		struct npu_binding *next;

		for (struct npu_binding *b = g->bindings[i]; b; b = next) {
			next = b->next;
			binding_free(b);
		}
	}
	free(g->bindings);
	if (g->prog)
		npu_program_free(g->prog);
	memset(g, 0, sizeof(*g));
}

void npu_programs_free(struct npu_programs *p)
{
	if (!p)
		return;
	for (unsigned int i = 0; i < MAX_PROGRAMS; i++)
		program_free(&p->programs[i]);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* ---- programs ---- */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int program_make(const struct npu_programs *p, struct program *g, struct program_parts parts)
{
	const struct llm_loaded *l = p->memory->loaded;
	const char *name = g->key.graph == LLM_GRAPH_SLICE ? llm_op_name((uint16_t)g->key.op)
							   : llm_graph_name(g->key.graph);
	bool every_layer = parts.subgraph || (parts.slice && g->key.op != LLM_OP_HEAD);
	struct npu_image_info info;
	size_t bytes;
	void *image;
	int err;

	if (parts.slice)
		err = llm_graph_build_slice(l, name, parts.slice, &image, &bytes);
	else if (parts.subgraph)
		err = llm_graph_build_subgraph(p->memory, parts.subgraph, &image, &bytes);
	else
		err = llm_graph_build(p->memory, parts.whole, &image, &bytes);
	if (err)
		return err;
	if (!npu_image_info(image, bytes, &info))
		g->bytes = info.cmd_bytes + info.const_bytes;
	g->timeout_ms = llm_graph_timeout_ms(l->device, image, bytes);
	err = npu_program_load(l->ctx, image, bytes, &g->prog);
	free(image);
	if (err)
		return llm_fail(err, "graph %s: %s", name, npu_error());
	g->nr_layers = every_layer ? l->model.n_layer : 1;
	g->bindings = calloc(g->nr_layers, sizeof(struct npu_binding *));
	return g->bindings ? 0 : llm_fail(-ENOMEM, "no memory for the jobs of graph %s", name);
}

/* NULL: it is not in the cache. */
static struct program *program_look_up(struct npu_programs *p, const struct program_key *key)
{
	for (unsigned int i = 0; i < p->nr; i++)
		if (p->programs[i].prog && !memcmp(&p->programs[i].key, key, sizeof(*key)))
			return &p->programs[i];
	return NULL;
}

/* Room for another program: dropped programs' first. */
static struct program *program_room(struct npu_programs *p)
{
	struct program *oldest = &p->programs[0];

	for (unsigned int i = 1; i < p->nr; i++)
		if (p->programs[i].used < oldest->used)
			oldest = &p->programs[i];
	if (p->nr < MAX_PROGRAMS && (!p->nr || oldest->prog))
		oldest = &p->programs[p->nr++];
	/* Its jobs have ended: never are so many programs under way. */
	program_free(oldest);
	return oldest;
}

static int program_find(struct npu_programs *p, const struct program_key *key,
			struct program_parts parts, struct program **out)
{
	struct program *oldest;
	uint64_t from_ns;
	int err;

	*out = program_look_up(p, key);
	if (*out) {
		(*out)->used = ++p->uses;
		return 0;
	}
	oldest = program_room(p);
	oldest->key = *key;
	from_ns = now_ns();
	err = program_make(p, oldest, parts);
	*p->made_ns += now_ns() - from_ns;
	if (err)
		program_free(oldest);
	else
		oldest->used = ++p->uses;
	*out = oldest;
	return err;
}

/* ---- bindings ---- */

static int bind(struct npu_job *job, const char *symbol, struct npu_buffer *buf, size_t off,
		size_t bytes)
{
	int err = npu_job_bind(job, symbol, buf, off, bytes);

	return err ? llm_fail(err, "binding %s: %s", symbol, npu_error()) : 0;
}

/* Binds @bytes of an area at float @first. */
static int bind_area(struct npu_job *job, const char *symbol, const struct llm_area *area,
		     size_t first, size_t bytes)
{
	return bind(job, symbol, area->in->buf, area->off + first * sizeof(float), bytes);
}

static int bind_part(const struct npu_programs *p, struct npu_job *job, const char *symbol,
		     unsigned int layer, unsigned int part)
{
	const struct llm_packed_layer *block = &p->memory->loaded->packed.layers[layer];

	return bind(job, symbol, llm_packed_buffer(&p->memory->loaded->packed, layer, part),
		    block->part[part].off, block->part[part].bytes);
}

/* Adds to @key what the size of a program's weights depends on. */
static void key_matrix(const struct npu_programs *p, struct program_key *key, unsigned int i,
		       unsigned int layer, int matrix)
{
	const struct llm_packed *packed = &p->memory->loaded->packed;

	key->format[i] = llm_packed_format(packed, layer, matrix);
	if (key->format[i] == LLM_FORMAT_WK)
		key->wk_bytes[i] = packed->layers[layer].part[matrix].bytes;
}

/* Binds @bytes of the output matrix, from @skip on, and its bias for these columns. */
static int bind_output(const struct llm_packed *packed, struct npu_job *job,
		       const struct lane_columns *c, size_t skip, size_t bytes)
{
	const struct llm_packed_vector *bias = &packed->output_vectors[LLM_OUTPUT_BIAS];
	int err = bind(job, "output", packed->head, packed->output_off + skip, bytes);

	if (err || !bias->bytes)
		return err;
	return bind(job, llm_output_vector_names[LLM_OUTPUT_BIAS], packed->vectors,
		    bias->off + c->first * sizeof(float), c->cols * sizeof(float));
}

/* Binds the slice's output channels of a matrix and of its bias. */
static int bind_weights(const struct npu_programs *p, struct npu_job *job,
			const struct lane_slice *slice, const struct lane_columns *c)
{
	const struct llm_packed *packed = &p->memory->loaded->packed;
	const struct llm_packed_layer *block = &packed->layers[slice->layer];
	enum llm_format format = llm_packed_format(packed, slice->layer, c->matrix);
	size_t skip = c->first ? llm_pack_bytes(format, c->first, slice->k) : 0;
	size_t bytes = llm_pack_bytes(format, c->cols, slice->k);
	char name[32];
	int err;

	/* Placements that cut matmuls have no adaptive weights (choices.c): their table is of the
	 * whole matrix. */
	if (format == LLM_FORMAT_WK)
		bytes = block->part[c->matrix].bytes;
	if (c->matrix < 0)
		return bind_output(packed, job, c, skip, bytes);
	err = bind(job, llm_matrix_names[c->matrix], block->buf, block->part[c->matrix].off + skip,
		   bytes);
	if (err || !block->part[LLM_LAYER_BIAS + c->matrix].bytes)
		return err;
	llm_layer_tensor_name(LLM_LAYER_BIAS + (unsigned int)c->matrix, name, sizeof(name));
	return bind(job, name, packed->vectors,
		    block->part[LLM_LAYER_BIAS + c->matrix].off + c->first * sizeof(float),
		    c->cols * sizeof(float));
}

/* Binds the static scale of the input of @matrix. */
static int bind_scale(const struct npu_programs *p, struct npu_job *job, unsigned int layer,
		      enum llm_matrix matrix)
{
	char name[64];

	llm_graph_scale_name(matrix, name, sizeof(name));
	return bind(job, name, p->memory->loaded->scales, llm_graph_scale_off(layer, matrix),
		    sizeof(float));
}

/* Whether the input of a layer's matrices has a static scale. */
static bool has_scale(const struct npu_programs *p, enum llm_matrix matrix, bool prompt)
{
	return llm_packed_input(&p->memory->loaded->packed, (int)matrix, prompt) ==
	       LLM_INPUT_STATIC;
}

/* Parts of a layer's weights that its keys and values need: bits. */
#define KEYS_PARTS                                                                         \
	(1ull << LLM_LAYER_ATTN_NORM | 1ull << LLM_LAYER_ATTN_NORM_BIAS |                  \
	 1ull << LLM_LAYER_K_NORM | 1ull << (LLM_LAYER_MATRIX + LLM_ATTN_K) |              \
	 1ull << (LLM_LAYER_MATRIX + LLM_ATTN_V) | 1ull << (LLM_LAYER_BIAS + LLM_ATTN_K) | \
	 1ull << (LLM_LAYER_BIAS + LLM_ATTN_V))

/* And those that only they need. */
#define KEYS_ONLY_PARTS \
	(KEYS_PARTS & ~(1ull << LLM_LAYER_ATTN_NORM | 1ull << LLM_LAYER_ATTN_NORM_BIAS))

/* The parts that the graph has of its layer @i: bits. */
static uint64_t parts_of(const struct lane_whole *graph, unsigned int i)
{
	if (graph->graph == LLM_GRAPH_CHOSEN)
		return ~KEYS_ONLY_PARTS;
	return graph->keys && i + 1 == graph->layer + graph->layers ? KEYS_PARTS : UINT64_MAX;
}

/* Binds the layers' weights and caches. */
static int bind_layers(const struct npu_programs *p, struct npu_job *job,
		       const struct lane_whole *graph)
{
	const struct lane_memory *m = p->memory;
	char name[64], what[32];
	int err = 0;

	for (unsigned int i = graph->layer; !err && i < graph->layer + graph->layers; i++) {
		uint64_t parts = parts_of(graph, i);

		for (unsigned int part = 0; !err && part < LLM_NR_LAYER_TENSORS; part++) {
			if (!m->loaded->packed.layers[i].part[part].bytes || !(parts >> part & 1))
				continue;
			llm_layer_tensor_name(part, what, sizeof(what));
			snprintf(name, sizeof(name), "blk.%u.%s", i, what);
			err = bind_part(p, job, name, i, part);
		}
		snprintf(name, sizeof(name), "blk.%u.k", i);
		if (!err)
			err = bind(job, name, m->kv.buf, lane_k_off(m, i), m->kv_stride);
		snprintf(name, sizeof(name), "blk.%u.v", i);
		if (!err)
			err = bind(job, name, m->kv.buf, lane_v_off(m, i), m->kv_stride);
	}
	return err;
}

static int bind_head(const struct npu_programs *p, struct npu_job *job)
{
	const struct llm_packed *packed = &p->memory->loaded->packed;
	int err = 0;

	for (enum llm_output_vector v = 0; v < LLM_NR_OUTPUT_VECTORS && !err; v++)
		if (packed->output_vectors[v].bytes)
			err = bind(job, llm_output_vector_names[v], packed->vectors,
				   packed->output_vectors[v].off, packed->output_vectors[v].bytes);
	return err ? err
		   : bind(job, "output", packed->head, packed->output_off, packed->output_bytes);
}

static int bind_slice_rows(struct npu_binding *b, const struct lane_slice *slice)
{
	int err = bind_area(b->job, "x", slice->x, (size_t)slice->x_row * slice->k,
			    (size_t)slice->graph_rows * slice->k * sizeof(float));

	for (unsigned int i = 0; !err && i < slice->nr_matrices; i++) {
		const struct lane_columns *c = &slice->columns[i];
		size_t values = (size_t)(slice->graph_rows - 1) * c->n + c->cols;

		if (c->cols)
			err = bind_area(b->job, c->output, c->y, (size_t)c->y_row * c->n + c->first,
					values * sizeof(float));
	}
	return err;
}

static int bind_tree(const struct npu_programs *p, struct npu_job *job, unsigned int rows)
{
	struct npu_buffer *buf = p->memory->tree.buf;
	int err = bind(job, "depths", buf, LANE_TREE_DEPTHS, rows * sizeof(uint32_t));

	return err ? err
		   : bind(job, "ancestors", buf, LANE_TREE_ANCESTORS, rows * sizeof(uint64_t));
}

static int bind_whole_rows(const struct npu_programs *p, struct npu_binding *b,
			   const struct npu_whole *whole)
{
	const struct llm_model *model = &p->memory->loaded->model;
	size_t row_bytes = model->n_embd * sizeof(float);
	int err = bind_area(b->job, "x", whole->x, (size_t)whole->x_row * model->n_embd,
			    whole->graph.rows * row_bytes);

	if (err)
		return err;
	if (whole->graph.graph == LLM_GRAPH_TREE)
		err = bind_tree(p, b->job, whole->graph.rows);
	if (whole->graph.graph == LLM_GRAPH_CHOSEN)
		err = bind(b->job, "positions", p->memory->chosen.memory.buf, 0,
			   whole->graph.rows * sizeof(uint32_t));
	if (err)
		return err;
	if (whole->graph.graph == LLM_GRAPH_TOKEN || whole->graph.graph == LLM_GRAPH_HEAD)
		return bind_area(b->job, "logits", whole->y, 0,
				 (size_t)whole->graph.rows * model->n_vocab * sizeof(float));
	return bind_area(b->job, "y", whole->y, (size_t)whole->x_row * model->n_embd,
			 whole->graph.rows * row_bytes);
}

/* True: *@found is bound as wanted. False: *@found is to be bound, a new binding without a job or
 * the least recently used one. */
static bool binding_find(struct program *g, const struct npu_binding *want,
			 struct npu_binding **found)
{
	struct npu_binding **list = &g->bindings[want->layer], *oldest = *list;
	unsigned int nr = 0;

	for (struct npu_binding *b = *list; b; b = b->next, nr++) {
		*found = b;
		if (b->x == want->x && b->x_row == want->x_row && b->y == want->y &&
		    b->y_row == want->y_row)
			return true;
		oldest = b->used < oldest->used ? b : oldest;
	}
	*found = oldest;
	if (nr == MAX_BINDINGS)
		return false;
	*found = calloc(1, sizeof(**found));
	if (*found) {
		(*found)->next = *list;
		*list = *found;
	}
	return false;
}

/* Turns @b into @want: makes its job if it has none, or waits until the job is not under way. */
static int binding_take(struct program *g, const struct npu_binding *want, npu_wait_fn wait,
			void *ud, struct npu_binding *b)
{
	int err = 0;

	if (b->job) {
		err = b->seqno ? wait(ud, b->seqno) : 0;
	} else {
		err = npu_job_create(g->prog, &b->job);
		if (err)
			return llm_fail(err, "%s", npu_error());
		npu_job_timeout(b->job, g->timeout_ms);
	}
	b->layer = want->layer;
	b->x = want->x;
	b->y = want->y;
	b->x_row = want->x_row;
	b->y_row = want->y_row;
	b->seqno = 0;
	return err;
}

/* After an error, makes sure that the binding is not found again. */
static int binding_settle(struct npu_programs *p, struct npu_binding *b, int err,
			  struct npu_binding **out)
{
	b->used = ++p->bound;
	*out = b;
	if (err) {
		if (b->job)
			npu_job_free(b->job);
		b->job = NULL;
		b->x = NULL;
	}
	return err;
}

/*
 * Finds the program of @key and its binding @want. 1: *@out is bound so. 0: *@out is to be bound;
 * *@fresh: its job is new, and has no weights yet. A negative errno with the error line.
 */
static int binding_get(struct npu_programs *p, const struct program_key *key,
		       struct program_parts parts, const struct npu_binding *want, npu_wait_fn wait,
		       void *ud, struct npu_binding **out, bool *fresh)
{
	struct npu_binding *b;
	struct program *g;
	int err;

	pthread_mutex_lock(&p->lock);
	err = program_find(p, key, parts, &g);
	pthread_mutex_unlock(&p->lock);
	if (err)
		return err;
	if (binding_find(g, want, &b)) {
		binding_settle(p, b, 0, out);
		return 1;
	}
	if (!b)
		return llm_fail(-ENOMEM, "no memory for a job");
	*fresh = !b->job;
	err = binding_take(g, want, wait, ud, b);
	*out = b;
	return err ? binding_settle(p, b, err, out) : 0;
}

int npu_programs_slice(struct npu_programs *p, const struct lane_slice *slice, npu_wait_fn wait,
		       void *ud, struct npu_binding **out)
{
	const struct npu_binding want = {
		.layer = slice->op == LLM_OP_HEAD ? 0 : slice->layer,
		.x = slice->x,
		.x_row = slice->x_row,
		.y = slice->columns[0].y,
		.y_row = slice->columns[0].y_row,
	};
	struct program_key key;
	struct npu_binding *b;
	bool fresh;
	int err;

	memset(&key, 0, sizeof(key));
	key.graph = LLM_GRAPH_SLICE;
	key.op = slice->op;
	key.rows = slice->graph_rows;
	key.prompt = slice->prompt;
	for (unsigned int i = 0; i < slice->nr_matrices; i++) {
		key.first[i] = slice->columns[i].first;
		key.cols[i] = slice->columns[i].cols;
		key_matrix(p, &key, i, slice->layer, slice->columns[i].matrix);
	}
	err = binding_get(p, &key, (struct program_parts){ .slice = slice }, &want, wait, ud, out,
			  &fresh);
	if (err)
		return err < 0 ? err : 0;
	b = *out;
	for (unsigned int i = 0; fresh && !err && i < slice->nr_matrices; i++)
		if (slice->columns[i].cols)
			err = bind_weights(p, b->job, slice, &slice->columns[i]);
	if (fresh && !err && slice->op != LLM_OP_HEAD &&
	    has_scale(p, (enum llm_matrix)slice->columns[0].matrix, slice->prompt))
		err = bind_scale(p, b->job, slice->layer,
				 (enum llm_matrix)slice->columns[0].matrix);
	return binding_settle(p, b, err ? err : bind_slice_rows(b, slice), out);
}

/* ---- subgraphs ---- */

static const struct llm_area *area_of(const struct lane_memory *m, enum lane_area area)
{
	const struct llm_area *const areas[LANE_NR_AREAS] = { &m->x,   &m->y,	 &m->xn,
							      &m->q,   &m->k,	 &m->v,
							      &m->att, &m->gate, &m->up };

	return areas[area];
}

/* Parts of a layer's buffer that an operator without matrices reads: bits. */
static uint64_t vectors_of(const struct lane_subgraph *sub, enum llm_op op)
{
	return op == LLM_OP_ATTN_NORM
		       ? 1ull << LLM_LAYER_ATTN_NORM | 1ull << LLM_LAYER_ATTN_NORM_BIAS
	       : op == LLM_OP_FFN_NORM
		       ? 1ull << LLM_LAYER_FFN_NORM | 1ull << LLM_LAYER_FFN_NORM_BIAS |
				 1ull << LLM_LAYER_ATTN_POST_NORM
	       : op == LLM_OP_ADD ? 1ull << LLM_LAYER_FFN_POST_NORM
	       : op == LLM_OP_ROPE
		       ? (uint64_t)!sub->keys << LLM_LAYER_Q_NORM | 1ull << LLM_LAYER_K_NORM
		       : 0;
}

static int bind_caches(const struct npu_programs *p, struct npu_job *job, unsigned int layer)
{
	const struct lane_memory *m = p->memory;
	int err = bind(job, "k", m->kv.buf, lane_k_off(m, layer), m->kv_stride);

	return err ? err : bind(job, "v", m->kv.buf, lane_v_off(m, layer), m->kv_stride);
}

/* Binds a layer's matrices and vectors, its scales and caches. */
static int bind_subgraph_layer(const struct npu_programs *p, struct npu_job *job,
			       const struct lane_subgraph *sub)
{
	const struct llm_packed_layer *block = &p->memory->loaded->packed.layers[sub->layer];
	const struct llm_model *m = &p->memory->loaded->model;
	uint64_t matrices = lane_subgraph_matrices(m, sub), parts;
	unsigned int scaled = 0; /* inputs whose scale is bound: bits */
	char name[32];
	int err = 0;

	parts = matrices << LLM_LAYER_MATRIX | matrices << LLM_LAYER_BIAS;
	for (enum llm_op op = sub->first; op <= sub->last; op++)
		parts |= vectors_of(sub, op);
	for (unsigned int part = 0; part < LLM_NR_LAYER_TENSORS && !err; part++) {
		if (!(parts >> part & 1) || !block->part[part].bytes)
			continue;
		llm_layer_tensor_name(part, name, sizeof(name));
		err = bind_part(p, job, name, sub->layer, part);
	}
	for (enum llm_matrix w = 0; w < LLM_NR_MATRICES && !err; w++) {
		unsigned int input = 1u << shadow_input_of_matrix(w);

		if (!(matrices >> w & 1) || scaled & input || !has_scale(p, w, sub->prompt))
			continue;
		scaled |= input;
		err = bind_scale(p, job, sub->layer, w);
	}
	if (!err && lane_subgraph_has_cache(sub->first, sub->last))
		err = bind_caches(p, job, sub->layer);
	return err;
}

static int bind_subgraph_rows(const struct npu_programs *p, struct npu_job *job,
			      const struct lane_subgraph *sub, unsigned int row)
{
	const struct lane_areas areas = lane_subgraph_areas(&p->memory->loaded->model, sub);
	char name[16];
	int err = 0;

	for (enum lane_area a = 0; a < LANE_NR_AREAS && !err; a++) {
		size_t cols = lane_area_cols(&p->memory->loaded->model, a);
		size_t bytes = sub->rows * cols * sizeof(float);

		snprintf(name, sizeof(name), "%s.in", lane_area_name(a));
		if (areas.in >> a & 1)
			err = bind_area(job, name, area_of(p->memory, a), row * cols, bytes);
		snprintf(name, sizeof(name), "%s.out", lane_area_name(a));
		if (!err && areas.out >> a & 1)
			err = bind_area(job, name, area_of(p->memory, a), row * cols, bytes);
	}
	return err;
}

int npu_programs_subgraph(struct npu_programs *p, const struct lane_subgraph *sub, unsigned int row,
			  npu_wait_fn wait, void *ud, struct npu_binding **out)
{
	const struct npu_binding want = { .layer = sub->layer,
					  .x = &p->memory->x,
					  .x_row = row,
					  .y = &p->memory->x,
					  .y_row = row };
	const struct llm_model *m = &p->memory->loaded->model;
	unsigned int matrices = lane_subgraph_matrices(m, sub);
	struct program_key key;
	bool fresh;
	int err;

	memset(&key, 0, sizeof(key));
	key.graph = LLM_GRAPH_SUBGRAPH;
	key.op = sub->first;
	key.last = sub->last;
	key.rows = sub->rows;
	key.prompt = sub->prompt;
	key.keys = sub->keys;
	if (lane_subgraph_has_cache(sub->first, sub->last)) {
		key.local = m->layers[sub->layer].local;
		key.no_rope = m->layers[sub->layer].no_rope;
	}
	for (unsigned int w = 0; w < LLM_NR_MATRICES; w++)
		if (matrices >> w & 1)
			key_matrix(p, &key, w, sub->layer, (int)w);
	err = binding_get(p, &key, (struct program_parts){ .subgraph = sub }, &want, wait, ud, out,
			  &fresh);
	if (err)
		return err < 0 ? err : 0;
	if (fresh)
		err = bind_subgraph_layer(p, (*out)->job, sub);
	if (!err)
		err = bind_subgraph_rows(p, (*out)->job, sub, row);
	return binding_settle(p, *out, err, out);
}

/* ---- whole graphs ---- */

static struct program_key key_of(const struct lane_whole *graph)
{
	struct program_key key;

	memset(&key, 0, sizeof(key));
	key.graph = graph->graph;
	key.rows = graph->rows;
	key.layer = graph->layer;
	key.layers = graph->layers;
	key.keys = graph->keys;
	key.span = graph->span;
	return key;
}

int npu_programs_whole(struct npu_programs *p, const struct npu_whole *whole, npu_wait_fn wait,
		       void *ud, struct npu_binding **out)
{
	const struct npu_binding want = { .x = whole->x, .x_row = whole->x_row, .y = whole->y };
	const struct lane_whole *graph = &whole->graph;
	struct program_key key = key_of(graph);
	bool fresh;
	int err;

	err = binding_get(p, &key, (struct program_parts){ .whole = graph }, &want, wait, ud, out,
			  &fresh);
	if (err)
		return err < 0 ? err : 0;
	if (fresh && graph->graph != LLM_GRAPH_HEAD)
		err = bind_layers(p, (*out)->job, graph);
	if (fresh && !err && (graph->graph == LLM_GRAPH_TOKEN || graph->graph == LLM_GRAPH_HEAD))
		err = bind_head(p, (*out)->job);
	if (!err)
		err = bind_whole_rows(p, *out, whole);
	return binding_settle(p, *out, err, out);
}

static uint64_t bytes_of(struct npu_programs *p, const struct program_key *key)
{
	const struct program *g;
	uint64_t bytes;

	pthread_mutex_lock(&p->lock);
	g = program_look_up(p, key);
	bytes = g ? g->bytes : 0;
	pthread_mutex_unlock(&p->lock);
	return bytes;
}

int npu_programs_load(struct npu_programs *p, const struct lane_whole *graph, uint64_t *bytes)
{
	struct program made = { .key = key_of(graph) }, *g;
	int err;

	*bytes = bytes_of(p, &made.key);
	if (*bytes)
		return 0;
	err = program_make(p, &made, (struct program_parts){ .whole = graph });
	if (err) {
		program_free(&made);
		return err;
	}
	*bytes = made.bytes;
	pthread_mutex_lock(&p->lock);
	g = program_room(p);
	*g = made;
	g->used = ++p->uses;
	pthread_mutex_unlock(&p->lock);
	return 0;
}

void npu_programs_drop(struct npu_programs *p, const struct lane_whole *graph)
{
	struct program_key key = key_of(graph);
	struct program *g;

	pthread_mutex_lock(&p->lock);
	g = program_look_up(p, &key);
	if (g)
		program_free(g);
	pthread_mutex_unlock(&p->lock);
}
