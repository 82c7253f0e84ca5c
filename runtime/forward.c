/* SPDX-License-Identifier: MIT */
/*
 * The float operators of a forward pass, on the CPU lane: embedding, norms, RoPE, attention, SiLU, residuals.
 *
 * Rows are independent but for the attention, whose tasks are one KV head and a few rows each: the head's cache rows
 * are read once for all query heads that share them. Every row's attention is over exactly the positions it may see,
 * in their order, so results do not depend on how a text was cut into chunks.
 */
#include <math.h>
#include <string.h>

#include "forward.h"

/* Rows of a task of row-wise operators, and of an attention task. */
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

void llm_forward_embed(struct llm_session *s, const int32_t *ids, unsigned int n)
{
	const struct gguf_tensor *t = s->engine->model.token_embd;
	const struct gguf_type_traits *traits = gguf_type_traits(t->type);
	unsigned int n_embd = s->engine->model.n_embd;
	size_t row_bytes = (size_t)(n_embd / traits->block_values) * traits->block_bytes;

	for (unsigned int i = 0; i < n; i++)
		gguf_dequantize(t->type, (const uint8_t *)t->data + (size_t)ids[i] * row_bytes,
				s->x.data + (size_t)i * n_embd, n_embd);
}

/* xn = norm(x) */
static void task_norm(void *arg, unsigned int task, unsigned int worker)
{
	const struct block_pass *p = arg;
	const struct llm_model *m = &p->s->engine->model;

	for (size_t r = task * TASK_ROWS; r < task_end(p, task); r++)
		p->s->engine->kernels->rmsnorm(p->s->xn.data + r * m->n_embd, p->s->x.data + r * m->n_embd, p->norm,
					       m->n_embd, m->eps);
}

/* x += y; xn = norm(x) */
static void task_residual(void *arg, unsigned int task, unsigned int worker)
{
	const struct block_pass *p = arg;
	const struct cpu_kernels *kernels = p->s->engine->kernels;
	const struct llm_model *m = &p->s->engine->model;

	for (size_t r = task * TASK_ROWS; r < task_end(p, task); r++) {
		float *x = p->s->x.data + r * m->n_embd;

		kernels->add(x, p->s->y.data + r * m->n_embd, m->n_embd);
		if (p->norm)
			kernels->rmsnorm(p->s->xn.data + r * m->n_embd, x, p->norm, m->n_embd, m->eps);
	}
}

/* gate = silu(gate) * up */
static void task_silu(void *arg, unsigned int task, unsigned int worker)
{
	const struct block_pass *p = arg;
	size_t n_ff = p->s->engine->model.n_ff, first = task * TASK_ROWS * n_ff, end = task_end(p, task) * n_ff;

	p->s->engine->kernels->silu_mul(p->s->gate.data + first, p->s->gate.data + first, p->s->up.data + first,
					end - first);
}

/* Turns the pairs of a head by the angles of a row: y = rope(x); y may be x. */
static void rope_head(float *y, const float *x, const float *cosines, const float *sines, const struct llm_model *m)
{
	unsigned int half = m->rot_dim / 2, step = m->rope_halves ? 1 : 2, other = m->rope_halves ? half : 1;

	for (unsigned int i = 0; i < half; i++) {
		float a = x[i * step], b = x[i * step + other];

		y[i * step] = a * cosines[i] - b * sines[i];
		y[i * step + other] = a * sines[i] + b * cosines[i];
	}
	for (unsigned int i = m->rot_dim; i < m->head_dim; i++)
		y[i] = x[i];
}

/* Norms of the heads where the model has them, RoPE; K goes to the cache. */
static void task_rope(void *arg, unsigned int task, unsigned int worker)
{
	const struct block_pass *p = arg;
	const struct llm_session *s = p->s;
	const struct llm_model *m = &s->engine->model;
	const struct cpu_kernels *kernels = s->engine->kernels;
	unsigned int half = m->rot_dim / 2;

	for (size_t r = task * TASK_ROWS; r < task_end(p, task); r++) {
		float *q = s->q.data + r * m->q_dim, *k = s->k.data + r * m->kv_dim;
		float *cache = llm_session_kv(s, llm_session_k_off(s, p->index), p->pos + (unsigned int)r);

		for (unsigned int h = 0; h < m->n_head; h++, q += m->head_dim) {
			if (p->layer->q_norm)
				kernels->rmsnorm(q, q, p->layer->q_norm, m->head_dim, m->eps);
			rope_head(q, q, s->cosines + r * half, s->sines + r * half, m);
		}
		for (unsigned int h = 0; h < m->n_head_kv; h++, k += m->head_dim, cache += m->head_dim) {
			if (p->layer->k_norm)
				kernels->rmsnorm(k, k, p->layer->k_norm, m->head_dim, m->eps);
			rope_head(cache, k, s->cosines + r * half, s->sines + r * half, m);
		}
	}
}

/* att = softmax(q k^T) v for the query heads of one KV head and some rows. */
static void task_attention(void *arg, unsigned int task, unsigned int worker)
{
	const struct block_pass *p = arg;
	const struct llm_session *s = p->s;
	const struct llm_model *m = &s->engine->model;
	const struct cpu_kernels *kernels = s->engine->kernels;
	unsigned int kv_head = task % m->n_head_kv, group = m->n_head / m->n_head_kv;
	unsigned int first = task / m->n_head_kv * TASK_ROWS, end = task_end(p, task / m->n_head_kv);
	unsigned int seen = p->pos + end, d = m->head_dim;
	const float *k = llm_session_kv(s, llm_session_k_off(s, p->index), 0) + (size_t)kv_head * d;
	const float *v = llm_session_kv(s, llm_session_v_off(s, p->index), 0) + (size_t)kv_head * d;
	float *scores = s->scratch + worker * s->scratch_floats;
	float scale = 1.0f / sqrtf((float)d);
	/* One row: all heads of the group at once; several: head by head over the rows. */
	bool one = end - first == 1;
	unsigned int rows = one ? group : end - first;
	size_t ld = one ? d : m->q_dim;

	for (unsigned int g = 0; g < (one ? 1 : group); g++) {
		size_t at = (size_t)first * m->q_dim + (size_t)(kv_head * group + g) * d;

		kernels->matmul(scores, seen, s->q.data + at, ld, rows, k, m->kv_dim, seen, d);
		for (unsigned int r = 0; r < rows; r++) {
			unsigned int limit = one ? seen : p->pos + first + r + 1;

			kernels->softmax(scores + (size_t)r * seen, limit, scale);
			memset(scores + (size_t)r * seen + limit, 0, (seen - limit) * sizeof(*scores));
		}
		kernels->weigh(s->att.data + at, ld, scores, seen, rows, v, m->kv_dim, seen, d);
	}
}

size_t llm_forward_scratch(const struct llm_engine *engine, unsigned int n_ctx)
{
	const struct llm_model *m = &engine->model;
	unsigned int group = m->n_head / m->n_head_kv, cols = m->n_embd > m->n_ff ? m->n_embd : m->n_ff;
	size_t scores = (size_t)(group > TASK_ROWS ? group : TASK_ROWS) * n_ctx, wide;

	wide = (size_t)LLM_PRODUCT_ROWS * (cols > m->q_dim ? cols : m->q_dim);
	return scores > wide ? scores : wide;
}

static void forward_angles(struct llm_session *s, unsigned int pos, unsigned int n)
{
	const struct llm_model *m = &s->engine->model;
	size_t half = m->rot_dim / 2;

	for (unsigned int r = 0; r < n; r++) {
		for (size_t i = 0; i < half; i++) {
			double angle = (double)(pos + r) * m->inv_freq[i];

			s->cosines[r * half + i] = (float)cos(angle);
			s->sines[r * half + i] = (float)sin(angle);
		}
	}
}

int llm_forward_blocks(struct llm_session *s, const struct llm_products *products, unsigned int pos, unsigned int n)
{
	const struct llm_model *m = &s->engine->model;
	struct llm_pool *pool = s->engine->pool;
	struct block_pass p = { .s = s, .pos = pos, .n = n, .norm = m->layers[0].attn_norm };
	unsigned int rows = row_tasks(n);
	int err = 0;

	forward_angles(s, pos, n);
	llm_pool_run(pool, task_norm, &p, rows);
	for (unsigned int i = 0; i < m->n_layer; i++) {
		p.index = i;
		p.layer = &m->layers[i];
		err = products->qkv(s, i, pos, n);
		if (err)
			break;
		llm_pool_run(pool, task_rope, &p, rows);
		llm_pool_run(pool, task_attention, &p, rows * m->n_head_kv);
		err = products->attn_output(s, i, n);
		if (err)
			break;
		p.norm = p.layer->ffn_norm;
		llm_pool_run(pool, task_residual, &p, rows);
		err = products->gate_up(s, i, n);
		if (err)
			break;
		llm_pool_run(pool, task_silu, &p, rows);
		err = products->down(s, i, n);
		if (err)
			break;
		p.norm = i + 1 < m->n_layer ? m->layers[i + 1].attn_norm : NULL;
		llm_pool_run(pool, task_residual, &p, rows);
	}
	return err;
}
