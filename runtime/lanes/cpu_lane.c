// SPDX-License-Identifier: MIT
/* The CPU lane's float operators, and the lane itself. */
#include "cpu_lane.h"

#include <stdlib.h>
#include <string.h>

#include "experts.h"
#include "lane_attention.h"
#include "llm_fail.h"
#include "start.h"

/* Rows of a task of row-wise operators */
#define TASK_ROWS 8
/* One operator for a chunk; areas begin at its first row. */
struct layer_pass {
	struct lane_memory *m;
	const struct llm_layer *layer;
	unsigned int index, pos, n;
	size_t row;
	const struct lane_tree *tree; /* as in lane_call */
	/* Weights of the norm before the next operator, and its bias or NULL; NULL: it reads x, or
	 * what it has read before. */
	const float *norm, *norm_bias;
	const float *post; /* weights of the norm of y before it is added; NULL: none */
};

static unsigned int row_tasks(unsigned int n)
{
	return (n + TASK_ROWS - 1) / TASK_ROWS;
}

static size_t task_end(const struct layer_pass *p, unsigned int task)
{
	unsigned int end = (task + 1) * TASK_ROWS;

	return p->row + (end < p->n ? end : p->n);
}

/* Rows are read from the file, because the mapping's pages would stay resident, beside the same
 * numbers in the packed output matrix if the embeddings are tied. */
static int embed(struct lane_memory *m, const struct lane_call *call)
{
	const struct llm_model *model = &m->loaded->model;
	const struct gguf_tensor *t = model->token_embd;
	size_t row_bytes = lane_embedding_bytes(model);
	bool scaled = model->embd_scale < 1 || model->embd_scale > 1;
	float *x;
	int err;

	for (size_t i = 0; i < call->chunk->n; i++) {
		err = gguf_tensor_read(m->loaded->file, t, (uint64_t)call->ids[i] * row_bytes,
				       m->embedding, row_bytes);
		if (err)
			return llm_fail(err, "%s: tensor %s: the row of token %d: %s",
					m->loaded->path, t->name, call->ids[i], strerror(-err));
		x = m->x.data + (call->chunk->row + i) * model->n_embd;
		gguf_dequantize(t->type, m->embedding, x, model->n_embd);
		for (unsigned int c = 0; scaled && c < model->n_embd; c++)
			x[c] *= model->embd_scale;
	}
	return 0;
}

static void norm_row(const struct layer_pass *p, float *y, const float *x, const float *w,
		     const float *bias)
{
	const struct llm_model *model = &p->m->loaded->model;
	const struct fw_kernels *floats = p->m->loaded->floats;

	if (model->features->layer_norm)
		floats->layernorm(y, x, w, bias, model->n_embd, model->eps);
	else
		floats->rmsnorm(y, x, w, model->n_embd, model->eps);
}

/* What the next operator reads of a row of x. */
static void input_row(const struct layer_pass *p, size_t row)
{
	size_t at = row * p->m->loaded->model.n_embd;

	if (p->norm)
		norm_row(p, p->m->xn.data + at, p->m->x.data + at, p->norm, p->norm_bias);
}

/* xn = norm(x) */
static void task_norm(void *arg, unsigned int task, unsigned int worker)
{
	const struct layer_pass *p = arg;

	for (size_t r = p->row + task * TASK_ROWS; r < task_end(p, task); r++)
		input_row(p, r);
}

/* x += y, or norm(y); xn = norm(x) */
static void task_residual(void *arg, unsigned int task, unsigned int worker)
{
	const struct layer_pass *p = arg;
	const struct fw_kernels *floats = p->m->loaded->floats;
	const struct llm_model *model = &p->m->loaded->model;

	for (size_t r = p->row + task * TASK_ROWS; r < task_end(p, task); r++) {
		float *x = p->m->x.data + r * model->n_embd, *y = p->m->y.data + r * model->n_embd;

		if (p->post)
			norm_row(p, y, y, p->post, NULL);
		floats->add(x, x, y, model->n_embd);
		input_row(p, r);
	}
}

/* gate = silu(gate) * up, or another activation; without a gate that of up */
static void task_act(void *arg, unsigned int task, unsigned int worker)
{
	const struct layer_pass *p = arg;
	const struct fw_kernels *floats = p->m->loaded->floats;
	const struct llm_model *model = &p->m->loaded->model;
	size_t n_ff = model->n_ff;

	for (size_t r = p->row + task * TASK_ROWS; r < task_end(p, task); r++) {
		float *gate = p->m->gate.data + r * n_ff, *up = p->m->up.data + r * n_ff;

		if (llm_model_gated(model))
			floats->glu(gate, gate, up, n_ff, llm_model_act(model));
		else
			floats->act(gate, up, n_ff, llm_model_act(model), 0);
	}
}

/* Norms of a row's heads, or of the row, if the model has them. */
static void norm_heads(const struct layer_pass *p, float *x, const float *norm, unsigned int cols,
		       unsigned int n)
{
	const struct lane_memory *m = p->m;

	for (unsigned int i = 0; norm && i < n; i += cols)
		m->loaded->floats->rmsnorm(x + i, x + i, norm, cols, m->loaded->model.qk_eps);
}

static void rope_heads(const struct layer_pass *p, float *x, unsigned int heads, size_t pos,
		       void *scratch)
{
	const struct llm_model *model = &p->m->loaded->model;
	const float *freqs = llm_model_freqs(model, p->index, p->m->n_ctx);

	if (freqs)
		p->m->loaded->floats->rope(x, x, freqs, pos, heads, model->head_dim, model->rot_dim,
					   llm_model_rope_mode(model), scratch);
}

static void store(const struct lane_memory *m, size_t off, unsigned int at, const float *x)
{
	void *row = lane_kv(m, off, at);

	if (m->loaded->kv == LLM_KV_F32)
		memcpy(row, x, m->kv_row_bytes);
	else
		m->loaded->floats->store(row, x, m->loaded->model.kv_dim,
					 llm_kv_type(m->loaded->kv));
}

/* Rotates q and k in place, and stores K and V in the cache. */
static void task_rope(void *arg, unsigned int task, unsigned int worker)
{
	const struct layer_pass *p = arg;
	const struct lane_memory *m = p->m;
	const struct llm_model *model = &m->loaded->model;
	void *scratch = m->scratch + worker * m->scratch_floats;

	for (size_t r = p->row + task * TASK_ROWS; r < task_end(p, task); r++) {
		float *q = m->q.data + r * model->q_dim, *k = m->k.data + r * model->kv_dim;
		unsigned int i = (unsigned int)(r - p->row);
		unsigned int pos = p->pos + (p->tree ? p->tree->depths[i] : i);

		norm_heads(p, q, p->layer->q_norm, llm_model_qk_norm_cols(model, false),
			   model->q_dim);
		norm_heads(p, k, p->layer->k_norm, llm_model_qk_norm_cols(model, true),
			   model->kv_dim);
		rope_heads(p, q, model->n_head, pos, scratch);
		rope_heads(p, k, model->n_head_kv, pos, scratch);
		store(m, lane_k_off(m, p->index), p->pos + i, k);
		store(m, lane_v_off(m, p->index), p->pos + i, m->v.data + r * model->kv_dim);
	}
}

/* The norm before attention in @layer; behind the last layer there is none. */
static void set_attn_norm(struct layer_pass *p, unsigned int layer)
{
	const struct llm_model *model = &p->m->loaded->model;

	if (layer == model->n_layer)
		return;
	p->norm = model->layers[layer].attn_norm;
	p->norm_bias = model->layers[layer].attn_norm_bias;
}

static void output_norm(struct layer_pass *p, const struct lane_call *call)
{
	const struct llm_model *model = &p->m->loaded->model;
	const struct lane_work *w = call->work;

	for (size_t i = 0; i < w->logits; i++)
		norm_row(p, p->m->xn.data + (call->chunk->row + i) * model->n_embd,
			 p->m->x.data + (call->chunk->row + lane_logits_row(call, (uint32_t)i)) *
						model->n_embd,
			 model->output_norm, model->output_norm_bias);
}

/* Zeroes what the calibration at hand does without: columns of a result of the chunk. */
static void remove_columns(const struct lane_memory *m, const struct lane_call *call,
			   const struct llm_area *area, size_t cols)
{
	bool head = m->removed.what == LANE_REMOVED_HEAD;
	size_t n = head ? m->loaded->model.head_dim : cols, first = head ? m->removed.head * n : 0;

	if (m->removed.what == LANE_REMOVED_NOTHING || m->removed.layer != call->work->layer)
		return;
	for (size_t r = call->chunk->row; r < call->chunk->row + call->chunk->n; r++)
		memset(area->data + r * cols + first, 0, n * sizeof(float));
}

static void run_op(struct lane_memory *m, const struct lane_call *call)
{
	const struct llm_model *model = &m->loaded->model;
	struct llm_pool *pool = m->loaded->pool;
	unsigned int layer = call->work->layer;
	struct layer_pass p = {
		.m = m,
		.layer = &model->layers[layer],
		.index = layer,
		.pos = call->pos,
		.n = call->chunk->n,
		.row = call->chunk->row,
		.tree = call->tree,
	};
	unsigned int rows = row_tasks(p.n);

	switch (call->work->op) {
	case LLM_OP_ATTN_NORM:
		/* Later layers' norms are computed with the residual before them. */
		set_attn_norm(&p, 0);
		if (!layer)
			llm_pool_run(pool, task_norm, &p, rows);
		break;
	case LLM_OP_ROPE:
		llm_pool_run(pool, task_rope, &p, rows);
		break;
	case LLM_OP_ATTN:
		lane_cpu_attention(m, call);
		remove_columns(m, call, &m->att, model->q_dim);
		break;
	case LLM_OP_FFN_NORM:
		p.post = p.layer->attn_post_norm;
		p.norm = p.layer->ffn_norm;
		p.norm_bias = p.layer->ffn_norm_bias;
		llm_pool_run(pool, task_residual, &p, rows);
		break;
	case LLM_OP_ACT:
		llm_pool_run(pool, task_act, &p, rows);
		if (m->removed.what == LANE_REMOVED_LAYER)
			remove_columns(m, call, &m->gate, model->n_ff);
		break;
	case LLM_OP_OUTPUT_NORM:
		output_norm(&p, call);
		break;
	default:
		p.post = p.layer->ffn_post_norm;
		set_attn_norm(&p, layer + 1);
		llm_pool_run(pool, task_residual, &p, rows);
		break;
	}
}

static void keep(struct lane_memory *m, const struct lane_call *call)
{
	size_t n_embd = m->loaded->model.n_embd;

	for (uint32_t i = 0; i < call->work->logits; i++)
		memcpy(m->chosen.kept + (call->work->logits_row + i) * n_embd,
		       m->y.data + (call->chunk->row + lane_logits_row(call, i)) * n_embd,
		       n_embd * sizeof(float));
}

int lane_cpu_run(struct lane_memory *m, const struct lane_call *call)
{
	struct lane_slice slice;

	if (call->work->what == LANE_HEADS) {
		lane_cpu_heads(m, call);
		return 0;
	}
	if (call->work->what != LANE_SLICE) {
		if (call->work->op == LLM_OP_EMBED)
			return embed(m, call);
		if (call->work->op == LLM_OP_KEEP) {
			keep(m, call);
			return 0;
		}
		if (call->work->op == LLM_OP_EXPERTS)
			return lane_cpu_experts(m, call);
		if (call->work->op == LLM_OP_SHADOW)
			return lane_cpu_shadow(m, call);
		if (call->work->op == LLM_OP_PACK)
			return start_pack(m->loaded->start, call->work->piece);
		if (call->work->op == LLM_OP_MERGE) {
			lane_cpu_merge(m, call);
			return 0;
		}
		run_op(m, call);
		return 0;
	}
	lane_slice_of(m, call, &slice);
	return slice.empty ? 0 : lane_cpu_slices(m, &slice, 1);
}

size_t lane_embedding_bytes(const struct llm_model *model)
{
	const struct gguf_type_traits *traits = gguf_type_traits(model->token_embd->type);

	return (size_t)(model->n_embd / traits->block_values) * traits->block_bytes;
}

size_t lane_cpu_scratch(const struct llm_model *model)
{
	unsigned int ffn = model->n_ff > model->n_ff_shared ? model->n_ff : model->n_ff_shared,
		     cols = model->n_embd > ffn ? model->n_embd : ffn;
	size_t wide = (size_t)CPU_WIDE_ROWS * (cols > model->q_dim ? cols : model->q_dim);

	return wide > FW_SCRATCH_BYTES / sizeof(float) ? wide : FW_SCRATCH_BYTES / sizeof(float);
}

/* ---- the lane ---- */

static bool cpu_supports(enum llm_op op, enum llm_weights weights)
{
	return weights != LLM_WEIGHTS_F16;
}

static int cpu_begin(struct lane *lane, const struct lane_call *call, uint64_t *ticket)
{
	*ticket = 0;
	return lane_cpu_run(lane->memory, call);
}

static int cpu_poll(struct lane *lane, uint64_t ticket)
{
	return 1;
}

static int cpu_wait(struct lane *lane, uint64_t ticket, enum lane_wait how)
{
	return 0;
}

static void cpu_free(struct lane *lane)
{
	free(lane);
}

struct lane *lane_cpu_create(struct lane_memory *memory)
{
	static const struct lane_ops ops = {
		.name = "cpu",
		.supports = cpu_supports,
		.begin = cpu_begin,
		.poll = cpu_poll,
		.wait = cpu_wait,
		.free = cpu_free,
	};
	struct lane *lane = calloc(1, sizeof(*lane));

	if (lane)
		*lane = (struct lane){ .ops = &ops, .memory = memory };
	return lane;
}
