// SPDX-License-Identifier: MIT
/*
 * The GPU lane on OpenCL, in the session's memory.
 *
 * If host and device see one another's writes (gpu.h) and synchronisation is fast, an operator is
 * only its kernels, and a flag after them if somebody waits for its end. Otherwise inputs that
 * others wrote are transferred to the device before an operator, and results to the host when
 * somebody waits (gpu_mirror.h).
 */
#include "gpu_lane.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "gpu_mirror.h"
#include "llm_fail.h"
#include "scheduler.h"
#include <npu/vnpu_isa.h>

struct gpu_lane {
	struct lane lane;
	struct llm_gpu_queue *queue;
	struct llm_gpu_buffer *work, *kv, *all, *flag, *quant;
	uint32_t *words; /* the flag's page */
	uint32_t value; /* of the last flag */
	size_t scale_off, outliers_off; /* in quant, after the integers */
	unsigned int unflagged; /* operators since the last flag */
	bool explicit; /* data is transferred */
	struct gpu_mirror mirror; /* explicit: of the session's memory */
	unsigned int begun; /* explicit: works that all lanes had begun, at the last operator */
};

/* ---- the engine's weights ---- */

static int map_weights(struct llm_loaded *l, struct llm_gpu_queue *q, struct npu_buffer *from,
		       struct llm_gpu_buffer **buf)
{
	int err = llm_gpu_map(l->gpu, npu_buffer_data(from), npu_buffer_size(from), LLM_GPU_SHARED,
			      buf);

	return err ? err : llm_gpu_to_device(q, *buf, 0, npu_buffer_size(from));
}

static int map_inv_freq(struct llm_loaded *l, struct llm_gpu_queue *q, struct gpu_weights *w)
{
	size_t bytes = (size_t)l->model.nr_freqs * l->model.rot_dim / 2 * sizeof(float);
	size_t pages = (bytes + LLM_GPU_PAGE - 1) / LLM_GPU_PAGE * LLM_GPU_PAGE;
	int err;

	w->inv_freq_host = aligned_alloc(LLM_GPU_PAGE, pages ? pages : LLM_GPU_PAGE);
	if (!w->inv_freq_host)
		return llm_fail(-ENOMEM, "no memory for the GPU's weights");
	memcpy(w->inv_freq_host, l->model.inv_freq, bytes);
	err = llm_gpu_map(l->gpu, w->inv_freq_host, pages ? pages : LLM_GPU_PAGE, LLM_GPU_SHARED,
			  &w->inv_freq);
	return err ? err : llm_gpu_to_device(q, w->inv_freq, 0, bytes);
}

int lane_gpu_load(struct llm_loaded *l)
{
	struct gpu_weights *w = &l->gpu_weights;
	struct llm_gpu_queue *q = NULL;
	int err;

	w->layers = calloc(l->model.n_layer, sizeof(struct llm_gpu_buffer *));
	if (!w->layers)
		return llm_fail(-ENOMEM, "no memory for the GPU's weights");
	err = llm_gpu_queue_create(l->gpu, &q);
	for (unsigned int i = 0; !err && i < l->model.n_layer; i++)
		err = map_weights(l, q, l->packed.layers[i].buf, &w->layers[i]);
	err = err ? err : map_weights(l, q, l->packed.vectors, &w->vectors);
	err = err ? err : map_weights(l, q, l->packed.head, &w->head);
	err = err ? err : map_inv_freq(l, q, w);
	err = err ? err : llm_gpu_finish(q);
	llm_gpu_queue_free(q);
	return err;
}

void lane_gpu_unload(struct llm_loaded *l)
{
	struct gpu_weights *w = &l->gpu_weights;

	for (unsigned int i = 0; w->layers && i < l->model.n_layer; i++)
		llm_gpu_unmap(w->layers[i]);
	free(w->layers);
	llm_gpu_unmap(w->vectors);
	llm_gpu_unmap(w->head);
	llm_gpu_unmap(w->inv_freq);
	free(w->inv_freq_host);
	llm_gpu_close(l->gpu);
	l->gpu = NULL;
}

/* ---- a session's memory ---- */

static const struct llm_loaded *loaded(const struct gpu_lane *g)
{
	return g->lane.memory->loaded;
}

static int make_quant(struct gpu_lane *g)
{
	const struct llm_model *model = &loaded(g)->model;
	size_t rows = g->lane.memory->rows;
	unsigned int k = model->n_embd > model->n_ff ? model->n_embd : model->n_ff;

	k = k > model->q_dim ? k : model->q_dim;
	/* Room for two planes, and outliers. */
	g->scale_off = (2 * rows * ((k + 3) / 4 * 4) + 63) / 64 * 64;
	g->outliers_off = g->scale_off + 2 * rows * sizeof(float);
	return llm_gpu_alloc(loaded(g)->gpu, g->outliers_off + rows * sizeof(struct vnpu_outliers),
			     &g->quant);
}

static int map(struct gpu_lane *g, void *data, size_t bytes, struct llm_gpu_buffer **buf)
{
	return llm_gpu_map(loaded(g)->gpu, data, bytes, LLM_GPU_SHARED, buf);
}

/* ---- operators ---- */

/* A matrix in the session's memory from row @row on. */
static struct llm_gpu_area at(const struct gpu_lane *g, const struct llm_area *a, size_t row,
			      size_t ld)
{
	bool all = a->in == &g->lane.memory->all_memory;

	return (struct llm_gpu_area){ all ? g->all : g->work, a->off + row * ld * sizeof(float) };
}

/* Rows of a matrix, before an operator reads them. */
static int reads(struct gpu_lane *g, const struct llm_area *a, size_t row, size_t rows, size_t ld)
{
	struct llm_gpu_area area = at(g, a, row, ld);

	return g->explicit
		       ? gpu_mirror_read(&g->mirror, area.buf, area.off, rows * ld * sizeof(float))
		       : 0;
}

/* Columns @first .. @first + @cols - 1 of rows, after an operator that wrote them. */
static int wrote_columns(struct gpu_lane *g, const struct llm_area *a, size_t row, size_t rows,
			 size_t ld, size_t first, size_t cols)
{
	struct llm_gpu_area area = at(g, a, row, ld);
	const struct gpu_region region = {
		.buf = area.buf,
		.off = area.off + first * sizeof(float),
		.rows = rows,
		.width = cols * sizeof(float),
		.stride = ld * sizeof(float),
	};

	return g->explicit ? gpu_mirror_wrote(&g->mirror, &region) : 0;
}

static int wrote(struct gpu_lane *g, const struct llm_area *a, size_t row, size_t rows, size_t ld)
{
	return wrote_columns(g, a, row, rows, ld, 0, ld);
}

static struct llm_gpu_area part_of(const struct gpu_lane *g, unsigned int layer, unsigned int part)
{
	const struct gpu_weights *w = &loaded(g)->gpu_weights;

	return (struct llm_gpu_area){ part < LLM_LAYER_BIAS ? w->layers[layer] : w->vectors,
				      loaded(g)->packed.layers[layer].part[part].off };
}

/* Rows @to.. of y = norm of rows @row.. of x. */
static int norm(struct gpu_lane *g, const struct llm_area *x, size_t row, unsigned int rows,
		struct llm_gpu_area w, const struct llm_area *y, size_t to)
{
	const struct lane_memory *m = g->lane.memory;
	const struct llm_model *model = &m->loaded->model;
	struct llm_gpu_rmsnorm op = {
		.x = at(g, x, row, model->n_embd),
		.w = w,
		.y = at(g, y, to, model->n_embd),
		.rows = rows,
		.heads = 1,
		.head_dim = model->n_embd,
		.ldx = model->n_embd,
		.ldy = model->n_embd,
		.eps = model->eps,
	};
	int err = llm_gpu_rmsnorm(g->queue, &op);

	return err ? err : wrote(g, y, to, rows, model->n_embd);
}

/* The chunk's rows of xn = norm of x by the layer's vector @part; nothing if there is none. */
static int norm_input(struct gpu_lane *g, const struct lane_call *call, unsigned int part)
{
	struct lane_memory *m = g->lane.memory;
	unsigned int layer = call->work->layer, row = call->chunk->row, n = call->chunk->n;

	if (!m->loaded->packed.layers[layer].part[part].bytes)
		return 0;
	return norm(g, &m->x, row, n, part_of(g, layer, part), &m->xn, row);
}

/* a = a + b, or silu(a) * b, by @kind: [rows][cols] */
static int combine(struct gpu_lane *g, const struct lane_call *call, int kind,
		   const struct llm_area *a, const struct llm_area *b, size_t cols)
{
	size_t row = call->chunk->row;
	struct llm_gpu_binary op = {
		.kind = kind,
		.a = at(g, a, row, cols),
		.b = at(g, b, row, cols),
		.y = at(g, a, row, cols),
		.rows = call->chunk->n,
		.cols = (unsigned int)cols,
		.lda = cols,
		.ldb = cols,
		.ldy = cols,
	};
	int err = reads(g, a, row, op.rows, cols);

	err = err ? err : reads(g, b, row, op.rows, cols);
	err = err ? err : llm_gpu_binary(g->queue, &op);
	return err ? err : wrote(g, a, row, op.rows, cols);
}

/* x += y, or its norm by the layer's vector @part if there is one. */
static int residual(struct gpu_lane *g, const struct lane_call *call, unsigned int part)
{
	struct lane_memory *m = g->lane.memory;
	size_t n_embd = m->loaded->model.n_embd, row = call->chunk->row;
	unsigned int layer = call->work->layer, n = call->chunk->n;
	int err = 0;

	if (m->loaded->packed.layers[layer].part[part].bytes) {
		err = reads(g, &m->y, row, n, n_embd);
		err = err ? err : norm(g, &m->y, row, n, part_of(g, layer, part), &m->y, row);
	}
	if (err)
		return err;
	return combine(g, call, LLM_GPU_ADD, &m->x, &m->y, m->loaded->model.n_embd);
}

/* Norms of the heads, or of rows, if the model has them, and RoPE, in place. */
static int turn_heads(struct gpu_lane *g, const struct lane_call *call, unsigned int part,
		      const struct llm_area *x, unsigned int heads)
{
	const struct llm_model *model = &loaded(g)->model;
	size_t ld = (size_t)heads * model->head_dim, row = call->chunk->row;
	unsigned int cols = llm_model_qk_norm_cols(model, part == LLM_LAYER_K_NORM);
	const float *freqs = llm_model_freqs(model, call->work->layer, g->lane.memory->n_ctx);
	struct llm_gpu_rmsnorm heads_norm = {
		.x = at(g, x, row, ld),
		.w = part_of(g, call->work->layer, part),
		.y = at(g, x, row, ld),
		.rows = call->chunk->n,
		.heads = (unsigned int)ld / cols,
		.head_dim = cols,
		.ldx = ld,
		.ldy = ld,
		.eps = model->qk_eps,
	};
	struct llm_gpu_rope rope = {
		.x = at(g, x, row, ld),
		.inv_freq = { loaded(g)->gpu_weights.inv_freq,
			      (size_t)(freqs ? freqs - model->inv_freq : 0) * sizeof(float) },
		.y = at(g, x, row, ld),
		.rows = call->chunk->n,
		.heads = heads,
		.head_dim = model->head_dim,
		.rot_dim = model->rot_dim,
		.pos = call->pos,
		.mode = llm_model_rope_mode(model),
		.ldx = ld,
		.ldy = ld,
	};
	int err = reads(g, x, row, rope.rows, ld);

	if (!err && loaded(g)->packed.layers[call->work->layer].part[part].bytes)
		err = llm_gpu_rmsnorm(g->queue, &heads_norm);
	if (!err && freqs)
		err = llm_gpu_rope(g->queue, &rope);
	return err ? err : wrote(g, x, row, rope.rows, ld);
}

static int store(struct gpu_lane *g, const struct lane_call *call, const struct llm_area *x,
		 size_t cache_off)
{
	size_t kv_dim = loaded(g)->model.kv_dim;
	struct llm_gpu_store op = {
		.x = at(g, x, call->chunk->row, kv_dim),
		.dst = { g->kv, cache_off },
		.rows = call->chunk->n,
		.cols = (unsigned int)kv_dim,
		.row = call->pos,
		.type = llm_kv_type(loaded(g)->kv),
		.ldx = kv_dim,
		.ld_dst = kv_dim,
	};

	return llm_gpu_store(g->queue, &op);
}

static int rope(struct gpu_lane *g, const struct lane_call *call)
{
	struct lane_memory *m = g->lane.memory;
	const struct llm_model *model = &m->loaded->model;
	unsigned int layer = call->work->layer;
	int err = turn_heads(g, call, LLM_LAYER_Q_NORM, &m->q, model->n_head);

	err = err ? err : turn_heads(g, call, LLM_LAYER_K_NORM, &m->k, model->n_head_kv);
	err = err ? err : store(g, call, &m->k, lane_k_off(m, layer));
	err = err ? err : reads(g, &m->v, call->chunk->row, call->chunk->n, model->kv_dim);
	return err ? err : store(g, call, &m->v, lane_v_off(m, layer));
}

static int attention(struct gpu_lane *g, const struct lane_call *call)
{
	struct lane_memory *m = g->lane.memory;
	const struct llm_model *model = &m->loaded->model;
	size_t row = call->chunk->row;
	struct llm_gpu_attn op = {
		.q = at(g, &m->q, row, model->q_dim),
		.k = { g->kv, lane_k_off(m, call->work->layer) },
		.v = { g->kv, lane_v_off(m, call->work->layer) },
		.y = at(g, &m->att, row, model->q_dim),
		.rows = call->chunk->n,
		.heads = model->n_head,
		.kv_heads = model->n_head_kv,
		.head_dim = model->head_dim,
		.ctx_rows = m->kv_rows,
		.pos = call->pos,
		.kv_type = llm_kv_type(m->loaded->kv),
		.ldq = model->q_dim,
		.ldk = model->kv_dim,
		.ldv = model->kv_dim,
		.ldy = model->q_dim,
		.scale = model->attn_scale,
	};
	int err = reads(g, &m->q, row, op.rows, model->q_dim);

	err = err ? err : llm_gpu_attn(g->queue, &op);
	return err ? err : wrote(g, &m->att, row, op.rows, model->q_dim);
}

/* Chosen rows are taken as many at a time as follow one another. */
static int output_norm(struct gpu_lane *g, const struct lane_call *call)
{
	const struct lane_memory *m = g->lane.memory;
	const struct llm_gpu_area w = { m->loaded->gpu_weights.vectors,
					m->loaded->packed.output_vectors[LLM_OUTPUT_NORM].off };
	unsigned int logits = call->work->logits, rows;
	size_t to = call->chunk->row;
	int err = 0;

	for (unsigned int i = 0; i < logits && !err; i += rows) {
		unsigned int first = lane_logits_row(call, i);

		for (rows = 1;
		     i + rows < logits && lane_logits_row(call, i + rows) == first + rows;)
			rows++;
		err = reads(g, &m->x, to + first, rows, m->loaded->model.n_embd);
		err = err ? err : norm(g, &m->x, to + first, rows, w, &m->xn, to + i);
	}
	return err;
}

/* ---- matmuls ---- */

static int quant(struct gpu_lane *g, const struct lane_slice *slice, enum llm_input input)
{
	struct llm_gpu_quant op = {
		.x = at(g, slice->x, slice->x_row, slice->k),
		.q = { g->quant, 0 },
		.scale = { g->quant, g->scale_off },
		.rows = slice->rows,
		.cols = slice->k,
		.planes = llm_input_planes(input),
		.ldx = slice->k,
		.ldq = (slice->k + 3) / 4 * 4,
	};
	struct llm_gpu_quant_outliers apart = {
		.x = op.x,
		.q = op.q,
		.scale = op.scale,
		.outliers = { g->quant, g->outliers_off },
		.rows = op.rows,
		.cols = op.cols,
		.ldx = op.ldx,
		.ldq = op.ldq,
	};

	if (input == LLM_INPUT_OUTLIERS)
		return llm_gpu_quant_outliers(g->queue, &apart);
	return llm_gpu_quant(g->queue, &op);
}

/* Adds the outliers' part to the result of @of. */
static int add_outliers(struct gpu_lane *g, const struct llm_gpu_matmul *of)
{
	struct llm_gpu_add_outliers op = {
		.format = of->format,
		.m = of->m,
		.k = of->k,
		.first = of->first,
		.n = of->n,
		.outliers = { g->quant, g->outliers_off },
		.w = of->w,
		.y = of->y,
		.ldy = of->ldy,
		.group = of->group,
	};

	return llm_gpu_add_outliers(g->queue, &op);
}

/* Multiplies with one matrix's columns; *@quantised: the slice's rows are quantised. */
static int multiply(struct gpu_lane *g, const struct lane_slice *slice,
		    const struct lane_columns *c, bool *quantised)
{
	const struct llm_packed *packed = &loaded(g)->packed;
	bool head = c->matrix < 0;
	enum llm_format format = llm_packed_format(packed, slice->layer, c->matrix);
	enum llm_input input = llm_packed_input(packed, c->matrix, slice->prompt);
	struct llm_gpu_area bias = { 0 };
	struct llm_gpu_matmul op = {
		.format = format == LLM_FORMAT_W8 ? LLM_GPU_W8 : LLM_GPU_W4,
		.m = slice->rows,
		.k = slice->k,
		.first = c->first,
		.n = c->cols,
		.x = at(g, slice->x, slice->x_row, slice->k),
		.y = at(g, c->y, c->y_row, c->n),
		.ldx = slice->k,
		.ldy = c->n,
		.group = LLM_W4_GROUP,
	};
	int err = 0;

	op.w = head ? (struct llm_gpu_area){ loaded(g)->gpu_weights.head, packed->output_off }
		    : part_of(g, slice->layer, (unsigned int)c->matrix);
	if (!head && packed->layers[slice->layer].part[LLM_LAYER_BIAS + c->matrix].bytes)
		bias = part_of(g, slice->layer, LLM_LAYER_BIAS + (unsigned int)c->matrix);
	if (head && packed->output_vectors[LLM_OUTPUT_BIAS].bytes)
		bias = (struct llm_gpu_area){ loaded(g)->gpu_weights.vectors,
					      packed->output_vectors[LLM_OUTPUT_BIAS].off };
	if (input != LLM_INPUT_FLOATS) {
		err = *quantised ? 0 : quant(g, slice, input);
		*quantised = true;
		op.x = (struct llm_gpu_area){ g->quant, 0 };
		op.x_scale = (struct llm_gpu_area){ g->quant, g->scale_off };
		op.ldx = (slice->k + 3) / 4 * 4;
	}
	if (input == LLM_INPUT_INT16) {
		err = err ? err : llm_gpu_matmul(g->queue, &op);
		op.x.off += (size_t)slice->rows * op.ldx;
		op.x_scale.off += slice->rows * sizeof(float);
		op.add = true;
	}
	op.bias = bias;
	err = err ? err : llm_gpu_matmul(g->queue, &op);
	return err || input != LLM_INPUT_OUTLIERS ? err : add_outliers(g, &op);
}

static int run_slice(struct gpu_lane *g, const struct lane_call *call)
{
	struct lane_slice slice;
	bool quantised = false;
	int err;

	lane_slice_of(g->lane.memory, call, &slice);
	if (slice.empty)
		return 0;
	err = reads(g, slice.x, slice.x_row, slice.rows, slice.k);
	for (unsigned int i = 0; !err && i < slice.nr_matrices; i++)
		if (slice.columns[i].cols)
			err = multiply(g, &slice, &slice.columns[i], &quantised);
	for (unsigned int i = 0; !err && i < slice.nr_matrices; i++) {
		const struct lane_columns *c = &slice.columns[i];

		if (c->cols)
			err = wrote_columns(g, c->y, c->y_row, slice.rows, c->n, c->first, c->cols);
	}
	return err;
}

/* ---- the lane ---- */

static int run_op(struct gpu_lane *g, const struct lane_call *call)
{
	struct lane_memory *m = g->lane.memory;
	size_t n_embd = m->loaded->model.n_embd;
	unsigned int row = call->chunk->row, n = call->chunk->n;
	bool silu = m->loaded->model.features->activation == SHAPE_SILU;
	int err;

	switch (call->work->op) {
	case LLM_OP_ATTN_NORM:
		err = reads(g, &m->x, row, n, n_embd);
		return err ? err : norm_input(g, call, LLM_LAYER_ATTN_NORM);
	case LLM_OP_ROPE:
		return rope(g, call);
	case LLM_OP_ATTN:
		return attention(g, call);
	case LLM_OP_FFN_NORM:
		err = residual(g, call, LLM_LAYER_ATTN_POST_NORM);
		return err ? err : norm_input(g, call, LLM_LAYER_FFN_NORM);
	case LLM_OP_ACT:
		return combine(g, call, silu ? LLM_GPU_SILU : LLM_GPU_GELU, &m->gate, &m->up,
			       m->loaded->model.n_ff);
	case LLM_OP_ADD:
		return residual(g, call, LLM_LAYER_FFN_POST_NORM);
	default:
		return output_norm(g, call);
	}
}

static bool gpu_supports(enum llm_op op, enum llm_weights weights)
{
	return op != LLM_OP_EMBED && weights != LLM_WEIGHTS_F32 && weights != LLM_WEIGHTS_F16;
}

static int gpu_begin(struct lane *lane, const struct lane_call *call, uint64_t *ticket)
{
	struct gpu_lane *g = (struct gpu_lane *)lane;
	unsigned int begun;
	int err = 0;

	*ticket = 0;
	if (call->all && !g->all)
		err = map(g, lane->memory->all_memory.data, lane->memory->all_memory.bytes,
			  &g->all);
	begun = atomic_load(&lane->memory->begun);
	if (begun != g->begun + 1)
		gpu_mirror_forget(&g->mirror);
	g->begun = begun;
	if (!err)
		err = call->work->what == LANE_SLICE ? run_slice(g, call) : run_op(g, call);
	if (!err && call->followed)
		err = gpu_mirror_publish(&g->mirror);
	if (!err && !call->followed && ++g->unflagged < SCHED_UNDER_WAY)
		return llm_gpu_flush(g->queue);
	if (err)
		return err;
	g->unflagged = 0;
	/* A ticket of 0 means no flag. */
	g->value += g->value + 1 ? 1 : 2;
	*ticket = g->value;
	return llm_gpu_flag(g->queue, (struct llm_gpu_area){ g->flag, 0 }, g->value);
}

static int gpu_poll(struct lane *lane, uint64_t ticket)
{
	const struct gpu_lane *g = (struct gpu_lane *)lane;

	return ticket &&
	       (int32_t)(__atomic_load_n(g->words, __ATOMIC_ACQUIRE) - (uint32_t)ticket) >= 0;
}

/* Waits for everything in the queue. */
static int gpu_wait(struct lane *lane, uint64_t ticket, enum lane_wait how)
{
	return llm_gpu_finish(((struct gpu_lane *)lane)->queue);
}

static void gpu_free(struct lane *lane)
{
	struct gpu_lane *g = (struct gpu_lane *)lane;

	llm_gpu_queue_free(g->queue);
	llm_gpu_unmap(g->work);
	llm_gpu_unmap(g->kv);
	llm_gpu_unmap(g->all);
	llm_gpu_unmap(g->flag);
	llm_gpu_unmap(g->quant);
	free(g->words);
	free(g);
}

int lane_gpu_create(struct lane_memory *memory, struct lane **lane)
{
	static const struct lane_ops ops = {
		.name = "gpu",
		.supports = gpu_supports,
		.begin = gpu_begin,
		.poll = gpu_poll,
		.wait = gpu_wait,
		.free = gpu_free,
	};
	struct llm_gpu *gpu = memory->loaded->gpu;
	struct gpu_lane *g = calloc(1, sizeof(*g));
	int err;

	*lane = g ? &g->lane : NULL;
	if (g) {
		g->lane = (struct lane){ .ops = &ops, .memory = memory };
		g->words = aligned_alloc(LLM_GPU_PAGE, LLM_GPU_PAGE);
	}
	if (!g || !g->words)
		return llm_fail(-ENOMEM, "no memory for a session");
	memset(g->words, 0, LLM_GPU_PAGE);
	err = llm_gpu_queue_create(gpu, &g->queue);
	g->mirror.queue = g->queue;
	err = err ? err : map(g, memory->work.data, memory->work.bytes, &g->work);
	err = err ? err : map(g, memory->kv.data, memory->kv.bytes, &g->kv);
	err = err ? err : map(g, g->words, LLM_GPU_PAGE, &g->flag);
	err = err ? err : make_quant(g);
	if (!err)
		g->explicit = memory->loaded->sync != LLM_SYNC_FAST || !llm_gpu_coherent(gpu) ||
			      !llm_gpu_shared(g->work);
	return err;
}
