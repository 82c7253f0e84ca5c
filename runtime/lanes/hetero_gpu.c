// SPDX-License-Identifier: MIT
/*
 * The GPU's part by OpenCL, in the session's memory.
 *
 * Where host and device see one another's writes (gpu.h) and synchronisation is to be fast, an operator is its kernels, and a flag
 * behind them if anybody waits for its end. Else what it reads goes to the device before it and what it wrote to the host after it,
 * so that the host's memory always has what was computed last.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <npu/vnpu_isa.h>

#include "hetero.h"
#include "llm_fail.h"

struct hetero_gpu {
	struct llm_session *s;
	struct llm_gpu_queue *queue;
	struct llm_gpu_buffer *work, *kv, *all, *flag, *quant;
	uint32_t *words; /* the flag's page */
	uint32_t value; /* last put behind an operator */
	size_t scale_off, outliers_off; /* in quant, behind the numbers */
	unsigned int unflagged; /* operators since then */
	bool explicit; /* memory is handed over by calls */
};

/* ---- the engine's weights ---- */

static int map_weights(struct llm_engine *e, struct llm_gpu_queue *q, struct npu_buffer *from, struct llm_gpu_buffer **buf)
{
	int err = llm_gpu_map(e->gpu, npu_buffer_data(from), npu_buffer_size(from), LLM_GPU_SHARED, buf);

	return err ? err : llm_gpu_to_device(q, *buf, 0, npu_buffer_size(from), NULL);
}

static int map_inv_freq(struct llm_engine *e, struct llm_gpu_queue *q, struct hetero_gpu_weights *w)
{
	size_t bytes = e->model.rot_dim / 2 * sizeof(float);
	size_t pages = (bytes + LLM_GPU_PAGE - 1) / LLM_GPU_PAGE * LLM_GPU_PAGE;
	int err;

	w->inv_freq_host = aligned_alloc(LLM_GPU_PAGE, pages ? pages : LLM_GPU_PAGE);
	if (!w->inv_freq_host)
		return llm_fail(-ENOMEM, "no memory for the GPU's weights");
	memcpy(w->inv_freq_host, e->model.inv_freq, bytes);
	err = llm_gpu_map(e->gpu, w->inv_freq_host, pages ? pages : LLM_GPU_PAGE, LLM_GPU_SHARED, &w->inv_freq);
	return err ? err : llm_gpu_to_device(q, w->inv_freq, 0, bytes, NULL);
}

int hetero_gpu_load(struct llm_engine *e)
{
	struct hetero_gpu_weights *w = &e->gpu_weights;
	struct llm_gpu_queue *q = NULL;
	int err;

	w->blocks = calloc(e->model.n_layer, sizeof(struct llm_gpu_buffer *));
	if (!w->blocks)
		return llm_fail(-ENOMEM, "no memory for the GPU's weights");
	err = llm_gpu_queue_create(e->gpu, &q);
	for (unsigned int i = 0; !err && i < e->model.n_layer; i++)
		err = map_weights(e, q, e->packed.blocks[i].buf, &w->blocks[i]);
	err = err ? err : map_weights(e, q, e->packed.head, &w->head);
	err = err ? err : map_inv_freq(e, q, w);
	err = err ? err : llm_gpu_finish(q);
	llm_gpu_queue_free(q);
	return err;
}

void hetero_gpu_unload(struct llm_engine *e)
{
	struct hetero_gpu_weights *w = &e->gpu_weights;

	for (unsigned int i = 0; w->blocks && i < e->model.n_layer; i++)
		llm_gpu_unmap(w->blocks[i]);
	free(w->blocks);
	llm_gpu_unmap(w->head);
	llm_gpu_unmap(w->inv_freq);
	free(w->inv_freq_host);
	llm_gpu_close(e->gpu);
	e->gpu = NULL;
}

/* ---- a session's memory ---- */

static int make_quant(struct hetero_gpu *g)
{
	const struct llm_model *m = &g->s->engine->model;
	unsigned int k = m->n_embd > m->n_ff ? m->n_embd : m->n_ff;

	k = k > m->q_dim ? k : m->q_dim;
	/* In two planes at most; and outliers. */
	g->scale_off = (2 * (size_t)g->s->chunk * ((k + 3) / 4 * 4) + 63) / 64 * 64;
	g->outliers_off = g->scale_off + 2 * (size_t)g->s->chunk * sizeof(float);
	return llm_gpu_alloc(g->s->engine->gpu, g->outliers_off + g->s->chunk * sizeof(struct vnpu_outliers), &g->quant);
}

int hetero_gpu_create(struct llm_session *s, struct hetero_gpu **out)
{
	struct llm_gpu *gpu = s->engine->gpu;
	struct hetero_gpu *g = *out = calloc(1, sizeof(*g));
	int err;

	if (g)
		g->words = aligned_alloc(LLM_GPU_PAGE, LLM_GPU_PAGE);
	if (!g || !g->words)
		return llm_fail(-ENOMEM, "no memory for a session");
	memset(g->words, 0, LLM_GPU_PAGE);
	g->s = s;
	err = llm_gpu_queue_create(gpu, &g->queue);
	err = err ? err : llm_gpu_map(gpu, s->work.data, s->work.bytes, LLM_GPU_SHARED, &g->work);
	err = err ? err : llm_gpu_map(gpu, s->kv.data, s->kv.bytes, LLM_GPU_SHARED, &g->kv);
	err = err ? err : llm_gpu_map(gpu, g->words, LLM_GPU_PAGE, LLM_GPU_SHARED, &g->flag);
	err = err ? err : make_quant(g);
	if (!err)
		g->explicit = s->engine->info.choices.sync != LLM_SYNC_FAST || !llm_gpu_info(gpu)->coherent ||
			      !llm_gpu_shared(g->work);
	return err;
}

void hetero_gpu_free(struct hetero_gpu *g)
{
	if (!g)
		return;
	llm_gpu_queue_free(g->queue);
	llm_gpu_unmap(g->work);
	llm_gpu_unmap(g->kv);
	llm_gpu_unmap(g->all);
	llm_gpu_unmap(g->flag);
	llm_gpu_unmap(g->quant);
	free(g->words);
	free(g);
}

/* ---- operators ---- */

/* An operand in the session's memory, from row @row on. */
static struct llm_gpu_area at(const struct hetero_gpu *g, const struct llm_area *a, size_t row, size_t ld)
{
	return (struct llm_gpu_area){ a == &g->s->all ? g->all : g->work, a->off + row * ld * sizeof(float) };
}

static int reads(struct hetero_gpu *g, const struct llm_area *a, size_t row, size_t rows, size_t ld)
{
	struct llm_gpu_area area = at(g, a, row, ld);

	return g->explicit ? llm_gpu_to_device(g->queue, area.buf, area.off, rows * ld * sizeof(float), NULL) : 0;
}

/* Also what others write beside it: the rows must be the GPU's alone, or their columns read before (reads()). */
static int wrote(struct hetero_gpu *g, const struct llm_area *a, size_t row, size_t rows, size_t ld)
{
	struct llm_gpu_area area = at(g, a, row, ld);

	return g->explicit ? llm_gpu_to_host(g->queue, area.buf, area.off, rows * ld * sizeof(float), NULL) : 0;
}

static struct llm_gpu_area part_of(const struct hetero_gpu *g, unsigned int layer, unsigned int part)
{
	const struct llm_engine *e = g->s->engine;

	return (struct llm_gpu_area){ e->gpu_weights.blocks[layer], e->packed.blocks[layer].part[part].off };
}

static int norm(struct hetero_gpu *g, const struct llm_area *x, size_t row, struct llm_gpu_area w, unsigned int rows)
{
	const struct llm_model *m = &g->s->engine->model;
	struct llm_gpu_rmsnorm op = {
		.x = at(g, x, row, m->n_embd),
		.w = w,
		.y = at(g, &g->s->xn, 0, m->n_embd),
		.rows = rows,
		.heads = 1,
		.head_dim = m->n_embd,
		.ldx = m->n_embd,
		.ldy = m->n_embd,
		.eps = m->eps,
	};
	int err = llm_gpu_rmsnorm(g->queue, &op, NULL);

	return err ? err : wrote(g, &g->s->xn, 0, rows, m->n_embd);
}

/* x += y */
static int residual(struct hetero_gpu *g, unsigned int rows)
{
	const struct llm_model *m = &g->s->engine->model;
	struct llm_gpu_binary op = {
		.kind = LLM_GPU_ADD,
		.a = at(g, &g->s->x, 0, 0),
		.b = at(g, &g->s->y, 0, 0),
		.y = at(g, &g->s->x, 0, 0),
		.rows = rows,
		.cols = m->n_embd,
		.lda = m->n_embd,
		.ldb = m->n_embd,
		.ldy = m->n_embd,
	};
	int err = reads(g, &g->s->x, 0, rows, m->n_embd);

	err = err ? err : reads(g, &g->s->y, 0, rows, m->n_embd);
	err = err ? err : llm_gpu_binary(g->queue, &op, NULL);
	return err ? err : wrote(g, &g->s->x, 0, rows, m->n_embd);
}

static int activation(struct hetero_gpu *g, unsigned int rows)
{
	size_t n_ff = g->s->engine->model.n_ff;
	struct llm_gpu_binary op = {
		.kind = LLM_GPU_SILU,
		.a = at(g, &g->s->gate, 0, 0),
		.b = at(g, &g->s->up, 0, 0),
		.y = at(g, &g->s->gate, 0, 0),
		.rows = rows,
		.cols = (unsigned int)n_ff,
		.lda = n_ff,
		.ldb = n_ff,
		.ldy = n_ff,
	};
	int err = reads(g, &g->s->gate, 0, rows, n_ff);

	err = err ? err : reads(g, &g->s->up, 0, rows, n_ff);
	err = err ? err : llm_gpu_binary(g->queue, &op, NULL);
	return err ? err : wrote(g, &g->s->gate, 0, rows, n_ff);
}

/* Norms of the heads, where the model has them, and RoPE, in place. */
static int turn_heads(struct hetero_gpu *g, const struct llm_pass *pass, unsigned int layer, unsigned int part,
		      const struct llm_area *x, unsigned int heads)
{
	const struct llm_engine *e = g->s->engine;
	const struct llm_model *m = &e->model;
	size_t ld = (size_t)heads * m->head_dim;
	struct llm_gpu_rmsnorm heads_norm = {
		.x = at(g, x, 0, ld),
		.w = part_of(g, layer, part),
		.y = at(g, x, 0, ld),
		.rows = pass->n,
		.heads = heads,
		.head_dim = m->head_dim,
		.ldx = ld,
		.ldy = ld,
		.eps = m->eps,
	};
	struct llm_gpu_rope rope = {
		.x = at(g, x, 0, ld),
		.inv_freq = { e->gpu_weights.inv_freq, 0 },
		.y = at(g, x, 0, ld),
		.rows = pass->n,
		.heads = heads,
		.head_dim = m->head_dim,
		.rot_dim = m->rot_dim,
		.pos = pass->pos,
		.mode = m->rope_halves ? VNPU_ROPE_HALVES : VNPU_ROPE_ADJACENT,
		.ldx = ld,
		.ldy = ld,
	};
	int err = reads(g, x, 0, pass->n, ld);

	if (!err && e->packed.blocks[layer].part[part].bytes)
		err = llm_gpu_rmsnorm(g->queue, &heads_norm, NULL);
	err = err ? err : llm_gpu_rope(g->queue, &rope, NULL);
	return err ? err : wrote(g, x, 0, pass->n, ld);
}

static int store(struct hetero_gpu *g, const struct llm_pass *pass, const struct llm_area *x, size_t cache_off)
{
	size_t kv_dim = g->s->engine->model.kv_dim;
	struct llm_gpu_store op = {
		.x = at(g, x, 0, kv_dim),
		.dst = { g->kv, cache_off },
		.rows = pass->n,
		.cols = (unsigned int)kv_dim,
		.row = pass->pos,
		.type = llm_kv_type(g->s->engine->info.choices.kv),
		.ldx = kv_dim,
		.ld_dst = kv_dim,
	};

	return llm_gpu_store(g->queue, &op, NULL);
}

static int rope(struct hetero_gpu *g, const struct llm_pass *pass, unsigned int layer)
{
	struct llm_session *s = g->s;
	const struct llm_model *m = &s->engine->model;
	int err = turn_heads(g, pass, layer, LLM_PART_Q_NORM, &s->q, m->n_head);

	err = err ? err : turn_heads(g, pass, layer, LLM_PART_K_NORM, &s->k, m->n_head_kv);
	err = err ? err : store(g, pass, &s->k, llm_session_k_off(s, layer));
	err = err ? err : reads(g, &s->v, 0, pass->n, m->kv_dim);
	return err ? err : store(g, pass, &s->v, llm_session_v_off(s, layer));
}

static int attention(struct hetero_gpu *g, const struct llm_pass *pass, unsigned int layer)
{
	struct llm_session *s = g->s;
	const struct llm_model *m = &s->engine->model;
	struct llm_gpu_attn op = {
		.q = at(g, &s->q, 0, 0),
		.k = { g->kv, llm_session_k_off(s, layer) },
		.v = { g->kv, llm_session_v_off(s, layer) },
		.y = at(g, &s->att, 0, 0),
		.rows = pass->n,
		.heads = m->n_head,
		.kv_heads = m->n_head_kv,
		.head_dim = m->head_dim,
		.ctx_rows = s->kv_rows,
		.pos = pass->pos,
		.kv_type = llm_kv_type(s->engine->info.choices.kv),
		.ldq = m->q_dim,
		.ldk = m->kv_dim,
		.ldv = m->kv_dim,
		.ldy = m->q_dim,
		.scale = 1.0f / sqrtf((float)m->head_dim),
	};
	int err = reads(g, &s->q, 0, pass->n, m->q_dim);

	err = err ? err : llm_gpu_attn(g->queue, &op, NULL);
	return err ? err : wrote(g, &s->att, 0, pass->n, m->q_dim);
}

static int quant(struct hetero_gpu *g, const struct hetero_slice *slice, enum llm_input input)
{
	struct llm_gpu_quant op = {
		.x = at(g, slice->x, slice->row, slice->k),
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
		return llm_gpu_quant_outliers(g->queue, &apart, NULL);
	return llm_gpu_quant(g->queue, &op, NULL);
}

/* What the outliers add to @of, their product. */
static int add_outliers(struct hetero_gpu *g, const struct llm_gpu_matmul *of)
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

	return llm_gpu_add_outliers(g->queue, &op, NULL);
}

/* One matrix' columns; *@quantised: the slice's rows are. */
static int part_product(struct hetero_gpu *g, const struct hetero_slice *slice, const struct hetero_part *part,
			bool *quantised)
{
	const struct llm_packed *packed = &g->s->engine->packed;
	bool head = part->matrix < 0;
	enum llm_format format = head ? packed->formats.output : packed->formats.matrix[part->matrix];
	enum llm_input input = llm_packed_input(packed, part->matrix);
	struct llm_gpu_area bias = { 0 };
	struct llm_gpu_matmul op = {
		.format = format == LLM_FORMAT_W8 ? LLM_GPU_W8 : LLM_GPU_W4,
		.m = slice->rows,
		.k = slice->k,
		.first = part->first,
		.n = part->cols,
		.x = at(g, slice->x, slice->row, slice->k),
		.y = at(g, part->y, slice->row, part->n),
		.ldx = slice->k,
		.ldy = part->n,
		.group = LLM_W4_GROUP,
	};
	int err = 0;

	op.w = head ? (struct llm_gpu_area){ g->s->engine->gpu_weights.head, packed->output_off }
		    : part_of(g, slice->layer, (unsigned int)part->matrix);
	if (!head && packed->blocks[slice->layer].part[LLM_PART_BIAS + part->matrix].bytes)
		bias = part_of(g, slice->layer, LLM_PART_BIAS + (unsigned int)part->matrix);
	if (input != LLM_INPUT_FLOATS) {
		err = *quantised ? 0 : quant(g, slice, input);
		*quantised = true;
		op.x = (struct llm_gpu_area){ g->quant, 0 };
		op.x_scale = (struct llm_gpu_area){ g->quant, g->scale_off };
		op.ldx = (slice->k + 3) / 4 * 4;
	}
	if (input == LLM_INPUT_INT16) {
		err = err ? err : llm_gpu_matmul(g->queue, &op, NULL);
		op.x.off += (size_t)slice->rows * op.ldx;
		op.x_scale.off += slice->rows * sizeof(float);
		op.add = true;
	}
	op.bias = bias;
	err = err ? err : llm_gpu_matmul(g->queue, &op, NULL);
	return err || input != LLM_INPUT_OUTLIERS ? err : add_outliers(g, &op);
}

static int product(struct hetero_gpu *g, const struct hetero_slice *slice)
{
	bool quantised = false;
	int err = reads(g, slice->x, slice->row, slice->rows, slice->k);

	for (unsigned int i = 0; !err && i < slice->nr_parts; i++)
		if (slice->parts[i].cols)
			err = part_product(g, slice, &slice->parts[i], &quantised);
	for (unsigned int i = 0; !err && g->explicit && i < slice->nr_parts; i++) {
		const struct hetero_part *part = &slice->parts[i];
		struct llm_gpu_area y = at(g, part->y, slice->row, part->n);

		/* Row by row, since between them lies what the NPU computes. */
		if (!part->cols)
			continue;
		if (part->cols == part->n)
			err = wrote(g, part->y, slice->row, slice->rows, part->n);
		for (unsigned int r = 0; !err && part->cols < part->n && r < slice->rows; r++)
			err = llm_gpu_to_host(g->queue, y.buf, y.off + ((size_t)r * part->n + part->first) * sizeof(float),
					      part->cols * sizeof(float), NULL);
	}
	return err;
}

static int run_op(struct hetero_gpu *g, const struct llm_pass *pass, enum plan_op op, unsigned int layer)
{
	const struct llm_model *m = &g->s->engine->model;
	unsigned int first = pass->want == LLM_WANT_ALL ? 0 : pass->n - 1;
	int err;

	switch (op) {
	case PLAN_ATTN_NORM:
		err = reads(g, &g->s->x, 0, pass->n, m->n_embd);
		return err ? err : norm(g, &g->s->x, 0, part_of(g, layer, LLM_PART_ATTN_NORM), pass->n);
	case PLAN_ROPE:
		return rope(g, pass, layer);
	case PLAN_ATTN:
		return attention(g, pass, layer);
	case PLAN_FFN_NORM:
		err = residual(g, pass->n);
		return err ? err : norm(g, &g->s->x, 0, part_of(g, layer, LLM_PART_FFN_NORM), pass->n);
	case PLAN_ACT:
		return activation(g, pass->n);
	case PLAN_ADD:
		return residual(g, pass->n);
	default:
		err = reads(g, &g->s->x, first, pass->n - first, m->n_embd);
		return err ? err
			   : norm(g, &g->s->x, first, (struct llm_gpu_area){ g->s->engine->gpu_weights.head, 0 },
				  pass->n - first);
	}
}

int hetero_gpu_begin(struct hetero_gpu *g, const struct llm_pass *pass, enum plan_op op, unsigned int layer,
		    const struct hetero_slice *slice, bool flagged, uint32_t *ticket)
{
	int err = 0;

	if (pass->want == LLM_WANT_ALL && !g->all)
		err = llm_gpu_map(g->s->engine->gpu, g->s->all_memory.data, g->s->all_memory.bytes, LLM_GPU_SHARED,
				  &g->all);
	if (!err && slice)
		err = slice->empty ? 0 : product(g, slice);
	else if (!err)
		err = run_op(g, pass, op, layer);
	if (!err && !flagged && ++g->unflagged < SCHED_UNDER_WAY)
		return llm_gpu_flush(g->queue);
	if (err)
		return err;
	g->unflagged = 0;
	/* 0 is no flag's value. */
	g->value += g->value + 1 ? 1 : 2;
	*ticket = g->value;
	return llm_gpu_flag(g->queue, (struct llm_gpu_area){ g->flag, 0 }, g->value, NULL);
}

int hetero_gpu_poll(struct hetero_gpu *g, uint32_t ticket)
{
	return (int32_t)(__atomic_load_n(g->words, __ATOMIC_ACQUIRE) - ticket) >= 0;
}

int hetero_gpu_wait(struct hetero_gpu *g)
{
	return llm_gpu_finish(g->queue);
}
