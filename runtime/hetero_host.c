// SPDX-License-Identifier: MIT
/*
 * The GPU's part on the host, where there is no OpenCL: float operators as the CPU lane computes them, and products
 * from the packed weights by the device's kernels.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hetero.h"
#include "llm_fail.h"
#include "vnpu_isa.h"

/* Columns of a task. */
#define TASK_COLS (4 * VNPU_PANEL_N)

struct host_product {
	struct llm_session *s;
	const struct hetero_slice *slice;
	const struct hetero_part *part;
	enum llm_format format;
	const uint8_t *w; /* from the part's first column on */
	const float *bias; /* likewise, or NULL */
	const float *x; /* the slice's rows */
	const int8_t *q; /* the same quantised; NULL: floats are multiplied */
	const float *scale;
	unsigned int ldq;
};

static void task_columns(void *arg, unsigned int task, unsigned int worker)
{
	const struct host_product *h = arg;
	const struct fw_kernels *k = h->s->engine->floats;
	void *scratch = h->s->scratch + worker * h->s->scratch_floats;
	unsigned int first = task * TASK_COLS, left = h->part->cols - first, n = left < TASK_COLS ? left : TASK_COLS;
	const uint8_t *w = h->w + (first ? llm_pack_bytes(h->format, first, h->slice->k) : 0);
	float *y = h->part->y->data + (size_t)h->slice->row * h->part->n + h->part->first + first;
	struct fw_matmul_w4 w4 = {
		.a = h->q ? (const void *)h->q : h->x,
		.a_scale = h->scale,
		.w = w,
		.bias = h->bias ? h->bias + first : NULL,
		.c = y,
		.m = h->slice->rows,
		.n = n,
		.k = h->slice->k,
		.group = LLM_W4_GROUP,
		.lda = h->q ? h->ldq : h->slice->k,
		.ldc = h->part->n,
	};
	struct fw_matmul_i8 i8 = {
		.a = h->q,
		.a_scale = h->scale,
		.w = w,
		.bias = w4.bias,
		.c = y,
		.m = w4.m,
		.n = n,
		.k = w4.k,
		.lda = h->ldq,
		.ldc = w4.ldc,
	};

	if (h->format == LLM_FORMAT_W8)
		k->matmul_i8(&i8, scratch);
	else if (h->q)
		k->matmul_w4(&w4, scratch);
	else
		k->matmul_w4f(&w4, scratch);
}

struct host_rows {
	const struct host_product *h;
	int8_t *q;
	float *scale;
};

static void task_quant(void *arg, unsigned int row, unsigned int worker)
{
	const struct host_rows *r = arg;

	r->h->s->engine->floats->quant(r->q + (size_t)row * r->h->ldq, r->scale + row,
				       r->h->x + (size_t)row * r->h->slice->k, r->h->slice->k);
}

static int product(struct llm_session *s, const struct hetero_slice *slice)
{
	const struct llm_packed *packed = &s->engine->packed;
	const struct llm_packed_block *block = &packed->blocks[slice->layer];
	struct host_product h = {
		.s = s,
		.slice = slice,
		.x = slice->x->data + (size_t)slice->row * slice->k,
		.ldq = (slice->k + 3) / 4 * 4,
	};
	struct host_rows rows = { .h = &h };
	int8_t *q = malloc((size_t)slice->rows * h.ldq);
	float *scale = malloc(slice->rows * sizeof(*scale));

	if (!q || !scale) {
		free(q);
		free(scale);
		return llm_fail(-ENOMEM, "no memory for the activations of %u tokens", slice->rows);
	}
	rows.q = q;
	rows.scale = scale;
	llm_pool_run(s->engine->pool, task_quant, &rows, slice->rows);
	for (unsigned int i = 0; i < slice->nr_parts; i++) {
		const struct hetero_part *part = &slice->parts[i];
		bool head = part->matrix < 0;
		size_t off = head ? packed->output_off : block->part[part->matrix].off, skip;

		if (!part->cols)
			continue;
		h.part = part;
		h.format = head ? packed->formats.output : packed->formats.matrix[part->matrix];
		skip = part->first ? llm_pack_bytes(h.format, part->first, slice->k) : 0;
		h.w = (const uint8_t *)npu_buffer_data(head ? packed->head : block->buf) + off + skip;
		h.bias = NULL;
		if (!head && block->part[LLM_PART_BIAS + part->matrix].bytes)
			h.bias = (const float *)((const char *)npu_buffer_data(block->buf) +
						 block->part[LLM_PART_BIAS + part->matrix].off) +
				 part->first;
		h.q = h.format == LLM_FORMAT_W4 && packed->float_input ? NULL : q;
		h.scale = h.q ? scale : NULL;
		llm_pool_run(s->engine->pool, task_columns, &h, (part->cols + TASK_COLS - 1) / TASK_COLS);
	}
	free(q);
	free(scale);
	return 0;
}

int hetero_host_run(const struct llm_pass *pass, enum plan_op op, unsigned int layer, const struct hetero_slice *slice)
{
	struct llm_session *s = pass->s;
	const struct llm_model *m = &s->engine->model;
	unsigned int first = pass->want == LLM_WANT_ALL ? 0 : pass->n - 1;

	if (slice)
		return product(s, slice);
	if (op == PLAN_OUTPUT_NORM) {
		for (size_t r = 0; first + r < pass->n; r++)
			s->engine->floats->rmsnorm(s->xn.data + r * m->n_embd, s->x.data + (first + r) * m->n_embd,
						   m->output_norm, m->n_embd, m->eps);
		return 0;
	}
	if (op == PLAN_ROPE)
		for (unsigned int r = 0; r < pass->n; r++)
			llm_forward_store(s, llm_session_kv(s, llm_session_v_off(s, layer), pass->pos + r),
					  s->v.data + (size_t)r * m->kv_dim);
	return llm_forward_step(pass, op, layer);
}
