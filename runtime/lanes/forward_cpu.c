/* SPDX-License-Identifier: MIT */
/*
 * A forward pass on the CPU alone, in F32.
 *
 * Matrices stay in the file as they are. A task takes a few rows (output channels), widens them to F32 in its thread's
 * scratch memory, where they stay in the cache, and multiplies all tokens of the chunk with them. F32 rows are used
 * in place.
 */
#include <string.h>

#include "forward.h"

#define TASK_ROWS LLM_PRODUCT_ROWS

struct product {
	const struct gguf_tensor *w;
	const float *bias; /* or NULL */
	const float *x; /* [n][cols] */
	float *y; /* [n][rows] */
};

struct products_pass {
	struct llm_session *s;
	const struct product *products;
	unsigned int n;
};

static unsigned int product_tasks(const struct product *p)
{
	return (unsigned int)((p->w->dims[1] + TASK_ROWS - 1) / TASK_ROWS);
}

static void task_product(void *arg, unsigned int task, unsigned int worker)
{
	const struct products_pass *pass = arg;
	const struct product *p = pass->products;
	const struct gguf_type_traits *traits;
	unsigned int cols, first, rows;
	const float *w;
	size_t row_bytes;

	for (; task >= product_tasks(p); p++)
		task -= product_tasks(p);
	cols = (unsigned int)p->w->dims[0];
	first = task * TASK_ROWS;
	rows = (unsigned int)p->w->dims[1] - first;
	rows = rows < TASK_ROWS ? rows : TASK_ROWS;
	traits = gguf_type_traits(p->w->type);
	row_bytes = (size_t)(cols / traits->block_values) * traits->block_bytes;
	w = (const float *)((const char *)p->w->data + first * row_bytes);
	if (p->w->type != GGUF_F32 || (uintptr_t)w % sizeof(float)) {
		float *wide = pass->s->scratch + worker * pass->s->scratch_floats;

		gguf_dequantize(p->w->type, w, wide, (size_t)rows * cols);
		w = wide;
	}
	pass->s->engine->kernels->matmul(p->y + first, p->w->dims[1], p->x, cols, pass->n, w, cols, rows, cols);
	for (size_t i = 0; p->bias && i < pass->n; i++) {
		float *y = p->y + i * p->w->dims[1] + first;

		pass->s->engine->floats->add(y, y, p->bias + first, rows);
	}
}

/* Products that do not depend on one another, as one loop. */
static void products_run(struct llm_session *s, const struct product *products, unsigned int count, unsigned int n)
{
	struct products_pass pass = { .s = s, .products = products, .n = n };
	unsigned int tasks = 0;

	for (unsigned int i = 0; i < count; i++)
		tasks += product_tasks(&products[i]);
	llm_pool_run(s->engine->pool, task_product, &pass, tasks);
}

static struct product layer_product(const struct llm_session *s, unsigned int layer, enum llm_matrix which,
				    const float *x, float *y)
{
	const struct llm_layer *l = &s->engine->model.layers[layer];

	return (struct product){ .w = l->matrix[which], .bias = l->bias[which], .x = x, .y = y };
}

struct values {
	struct llm_session *s;
	unsigned int layer, pos;
};

/* A row of V to the cache. */
static void task_values(void *arg, unsigned int row, unsigned int worker)
{
	const struct values *v = arg;
	const struct llm_session *s = v->s;

	llm_forward_store(s, llm_session_kv(s, llm_session_v_off(s, v->layer), v->pos + row),
			  s->v.data + (size_t)row * s->engine->model.kv_dim);
}

static int cpu_qkv(struct llm_session *s, unsigned int layer, unsigned int pos, unsigned int n)
{
	const struct product p[] = {
		layer_product(s, layer, LLM_ATTN_Q, s->xn.data, s->q.data),
		layer_product(s, layer, LLM_ATTN_K, s->xn.data, s->k.data),
		layer_product(s, layer, LLM_ATTN_V, s->xn.data, s->v.data),
	};
	struct values v = { .s = s, .layer = layer, .pos = pos };

	products_run(s, p, 3, n);
	llm_pool_run(s->engine->pool, task_values, &v, n);
	return 0;
}

static int cpu_attn_output(struct llm_session *s, unsigned int layer, unsigned int n)
{
	const struct product p = layer_product(s, layer, LLM_ATTN_OUTPUT, s->att.data, s->y.data);

	products_run(s, &p, 1, n);
	return 0;
}

static int cpu_gate_up(struct llm_session *s, unsigned int layer, unsigned int n)
{
	const struct product p[] = {
		layer_product(s, layer, LLM_FFN_GATE, s->xn.data, s->gate.data),
		layer_product(s, layer, LLM_FFN_UP, s->xn.data, s->up.data),
	};

	products_run(s, p, 2, n);
	return 0;
}

static int cpu_down(struct llm_session *s, unsigned int layer, unsigned int n)
{
	const struct product p = layer_product(s, layer, LLM_FFN_DOWN, s->gate.data, s->y.data);

	products_run(s, &p, 1, n);
	return 0;
}

/* Logits of @rows tokens from @first on. */
static void head_rows(struct llm_session *s, unsigned int first, unsigned int rows, float *logits)
{
	const struct llm_model *m = &s->engine->model;
	struct product p = { .w = m->output, .x = s->xn.data, .y = logits };

	for (size_t i = 0; i < rows; i++)
		s->engine->floats->rmsnorm(s->xn.data + i * m->n_embd, s->x.data + (first + i) * m->n_embd,
					   m->output_norm, m->n_embd, m->eps);
	products_run(s, &p, 1, rows);
}

static int cpu_head(struct llm_session *s, unsigned int n, enum llm_want want)
{
	if (want == LLM_WANT_LAST)
		head_rows(s, n - 1, 1, s->logits.data);
	else
		head_rows(s, 0, n, s->all.data);
	return 0;
}

const struct llm_products llm_forward_cpu_products = {
	.qkv = cpu_qkv,
	.attn_output = cpu_attn_output,
	.gate_up = cpu_gate_up,
	.down = cpu_down,
	.head = cpu_head,
};
