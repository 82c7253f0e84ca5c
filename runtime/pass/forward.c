/* SPDX-License-Identifier: MIT */
/*
 * The float operators of a forward pass, on the CPU lane: embedding, norms, RoPE, attention, SiLU, residuals. They are the
 * device's own kernels (kernels/kernels.h), so that it makes no difference which lane computes them.
 *
 * Rows are independent but for the attention, whose tasks are one KV head and some of its queries. Every row's attention is
 * over exactly the positions it may see, so results do not depend on how a text was cut into chunks.
 */
#include <math.h>
#include <string.h>
#include "forward.h"

/* Rows of a task of row-wise operators. */
#define TASK_ROWS 8

struct block_pass {
	struct llm_session *s;
	const struct llm_layer *layer;
	unsigned int index, pos, n;
	const float *norm; /* of the rows after a residual; NULL: none follows */
};

static unsigned int row_tasks(unsigned int n)
{
	return (n + TASK_ROWS - 1) / TASK_ROWS;
}

static unsigned int task_end(const struct block_pass *p, unsigned int task)
{
	unsigned int end = (task + 1) * TASK_ROWS;

	return end < p->n ? end : p->n;
}

/* The kernel maps many of a file's pages at a time, so that look-ups soon hold all of the embeddings in the program's memory. With
 * an NPU nothing else reads them there: after so many rows they are given back. */
#define EMBED_KEEP_ROWS 8

void llm_forward_embed(struct llm_session *s, const int32_t *ids, unsigned int n)
{
	const struct gguf_tensor *t = s->engine->model.token_embd;
	const struct gguf_type_traits *traits = gguf_type_traits(t->type);
	unsigned int n_embd = s->engine->model.n_embd;
	size_t row_bytes = (size_t)(n_embd / traits->block_values) * traits->block_bytes;

	for (unsigned int i = 0; i < n; i++) {
		gguf_dequantize(t->type, (const uint8_t *)t->data + (size_t)ids[i] * row_bytes,
				s->x.data + (size_t)i * n_embd, n_embd);
		if (s->engine->ctx && ++s->embedded >= EMBED_KEEP_ROWS) {
			gguf_tensor_done(s->engine->file, t);
			s->embedded = 0;
		}
	}
}

/* xn = norm(x) */
static void task_norm(void *arg, unsigned int task, unsigned int worker)
{
	const struct block_pass *p = arg;
	const struct llm_model *m = &p->s->engine->model;

	for (size_t r = task * TASK_ROWS; r < task_end(p, task); r++)
		p->s->engine->floats->rmsnorm(p->s->xn.data + r * m->n_embd, p->s->x.data + r * m->n_embd, p->norm,
					      m->n_embd, m->eps);
}

/* x += y; xn = norm(x) */
static void task_residual(void *arg, unsigned int task, unsigned int worker)
{
	const struct block_pass *p = arg;
	const struct fw_kernels *floats = p->s->engine->floats;
	const struct llm_model *m = &p->s->engine->model;

	for (size_t r = task * TASK_ROWS; r < task_end(p, task); r++) {
		float *x = p->s->x.data + r * m->n_embd;

		floats->add(x, x, p->s->y.data + r * m->n_embd, m->n_embd);
		if (p->norm)
			floats->rmsnorm(p->s->xn.data + r * m->n_embd, x, p->norm, m->n_embd, m->eps);
	}
}

/* gate = silu(gate) * up */
static void task_silu(void *arg, unsigned int task, unsigned int worker)
{
	const struct block_pass *p = arg;
	const struct fw_kernels *floats = p->s->engine->floats;
	size_t n_ff = p->s->engine->model.n_ff;

	for (size_t r = task * TASK_ROWS; r < task_end(p, task); r++) {
		float *gate = p->s->gate.data + r * n_ff;

		floats->glu(gate, gate, p->s->up.data + r * n_ff, n_ff, VNPU_ACT_SILU);
	}
}

/* Norms of a row's heads, where the model has them, and RoPE. */
static void rope_heads(const struct block_pass *p, float *x, const float *norm, unsigned int heads, size_t row,
		       void *scratch)
{
	const struct fw_kernels *floats = p->s->engine->floats;
	const struct llm_model *m = &p->s->engine->model;

	for (unsigned int h = 0; norm && h < heads; h++)
		floats->rmsnorm(x + h * m->head_dim, x + h * m->head_dim, norm, m->head_dim, m->eps);
	floats->rope(x, x, m->inv_freq, p->pos + row, heads, m->head_dim, m->rot_dim,
		     m->rope_halves ? VNPU_ROPE_HALVES : VNPU_ROPE_ADJACENT, scratch);
}

void llm_forward_store(const struct llm_session *s, void *row, const float *x)
{
	if (s->engine->info.choices.kv == LLM_KV_F32)
		memcpy(row, x, s->kv_row_bytes);
	else
		s->engine->floats->store(row, x, s->engine->model.kv_dim, llm_kv_type(s->engine->info.choices.kv));
}

/* K goes to the cache. */
static void task_rope(void *arg, unsigned int task, unsigned int worker)
{
	const struct block_pass *p = arg;
	const struct llm_session *s = p->s;
	const struct llm_model *m = &s->engine->model;
	void *scratch = s->scratch + worker * s->scratch_floats;

	for (size_t r = task * TASK_ROWS; r < task_end(p, task); r++) {
		float *q = s->q.data + r * m->q_dim, *k = s->k.data + r * m->kv_dim;

		rope_heads(p, q, p->layer->q_norm, m->n_head, r, scratch);
		rope_heads(p, k, p->layer->k_norm, m->n_head_kv, r, scratch);
		llm_forward_store(s, llm_session_kv(s, llm_session_k_off(s, p->index), p->pos + (unsigned int)r), k);
	}
}

/* Tiles of a KV head's queries: rows x the heads of its group. */
static unsigned int attention_tiles(const struct block_pass *p)
{
	const struct llm_model *m = &p->s->engine->model;
	unsigned int most = fw_attn_tile(m->head_dim, (uint64_t)p->n * m->n_head);

	return (p->n * (m->n_head / m->n_head_kv) + most - 1) / most;
}

/* att = softmax(q k^T) v for some queries of one KV head. */
static void task_attention(void *arg, unsigned int task, unsigned int worker)
{
	const struct block_pass *p = arg;
	const struct llm_session *s = p->s;
	const struct llm_model *m = &s->engine->model;
	unsigned int tiles = attention_tiles(p), most = fw_attn_tile(m->head_dim, (uint64_t)p->n * m->n_head);
	unsigned int group = m->n_head / m->n_head_kv;
	enum vnpu_kv_type type = llm_kv_type(s->engine->info.choices.kv);
	size_t kv_head = task / tiles, d = m->head_dim, head_bytes = VNPU_KV_BYTES(type, d);
	struct fw_attn t = {
		.q = s->q.data + kv_head * group * d,
		.y = s->att.data + kv_head * group * d,
		.ldq = m->q_dim,
		.ldy = m->q_dim,
		.group = group,
		/* What sees most comes first. */
		.first = (uint64_t)(tiles - 1 - task % tiles) * most,
		.pos = p->pos,
		.k = (char *)llm_session_kv(s, llm_session_k_off(s, p->index), 0) + kv_head * head_bytes,
		.v = (char *)llm_session_kv(s, llm_session_v_off(s, p->index), 0) + kv_head * head_bytes,
		.k_row_bytes = s->kv_row_bytes,
		.v_row_bytes = s->kv_row_bytes,
		.kv_type = type,
		.head_dim = m->head_dim,
		.scale = 1.0f / sqrtf((float)m->head_dim),
	};

	t.nr_q = p->n * group - t.first < most ? (uint32_t)(p->n * group - t.first) : most;
	s->engine->floats->attn(&t, s->scratch + worker * s->scratch_floats);
}

size_t llm_forward_scratch(const struct llm_engine *engine)
{
	const struct llm_model *m = &engine->model;
	unsigned int cols = m->n_embd > m->n_ff ? m->n_embd : m->n_ff;
	size_t wide = (size_t)LLM_PRODUCT_ROWS * (cols > m->q_dim ? cols : m->q_dim);

	return wide > FW_SCRATCH_BYTES / sizeof(float) ? wide : FW_SCRATCH_BYTES / sizeof(float);
}

/* The norm after the residual at the end of layer @layer: the next layer's, or none. */
static const float *next_norm(const struct llm_model *m, unsigned int layer)
{
	return layer + 1 < m->n_layer ? m->layers[layer + 1].attn_norm : NULL;
}

/* The operators that are no products. */
static void float_step(const struct llm_pass *pass, enum plan_op op, unsigned int layer)
{
	const struct llm_model *m = &pass->s->engine->model;
	struct llm_pool *pool = pass->s->engine->pool;
	struct block_pass p = {
		.s = pass->s, .layer = &m->layers[layer], .index = layer, .pos = pass->pos, .n = pass->n
	};
	unsigned int rows = row_tasks(pass->n);

	switch (op) {
	case PLAN_ATTN_NORM:
		/* Of the later layers it comes with the residual before it. */
		p.norm = p.layer->attn_norm;
		if (!layer)
			llm_pool_run(pool, task_norm, &p, rows);
		break;
	case PLAN_ROPE:
		llm_pool_run(pool, task_rope, &p, rows);
		break;
	case PLAN_ATTN:
		llm_pool_run(pool, task_attention, &p, attention_tiles(&p) * m->n_head_kv);
		break;
	case PLAN_FFN_NORM:
		p.norm = p.layer->ffn_norm;
		llm_pool_run(pool, task_residual, &p, rows);
		break;
	case PLAN_ACT:
		llm_pool_run(pool, task_silu, &p, rows);
		break;
	default:
		p.norm = next_norm(m, layer);
		llm_pool_run(pool, task_residual, &p, rows);
		break;
	}
}

int llm_forward_step(const struct llm_pass *pass, enum plan_op op, unsigned int layer)
{
	const struct llm_products *products = pass->products;
	struct llm_session *s = pass->s;

	switch (op) {
	case PLAN_EMBED:
		llm_forward_embed(s, pass->ids, pass->n);
		return 0;
	case PLAN_WHOLE:
		return products->whole(s, pass->pos, pass->n, pass->want);
	case PLAN_QKV:
		return products->qkv(s, layer, pass->pos, pass->n);
	case PLAN_ATTN_OUTPUT:
		return products->attn_output(s, layer, pass->n);
	case PLAN_GATE_UP:
		return products->gate_up(s, layer, pass->n);
	case PLAN_DOWN:
		return products->down(s, layer, pass->n);
	case PLAN_OUTPUT_NORM:
		return 0;
	case PLAN_HEAD:
		return products->head(s, pass->n, pass->want);
	default:
		float_step(pass, op, layer);
		return 0;
	}
}
