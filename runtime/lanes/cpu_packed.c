// SPDX-License-Identifier: MIT
/* Matmuls with the packed weights by the device's own kernels, bit-identical to the NPU's. */
#include <errno.h>
#include <stdlib.h>

#include "cpu_lane.h"
#include "graphs.h"
#include "llm_fail.h"
#include <npu/vnpu_isa.h>

/* Columns per task */
#define TASK_COLS (4 * VNPU_PANEL_N)

struct matmul {
	struct lane_memory *m;
	const struct lane_slice *slice;
	const struct lane_columns *part;
	enum llm_format format;
	const uint8_t *w; /* panels from the part's first column on; of WK, the table */
	const float *bias; /* likewise, or NULL */
	const float *x; /* the slice's rows */
	enum llm_input input; /* what x is quantised to */
	int8_t *q; /* [planes * rows][ldq]; not for LLM_INPUT_FLOATS */
	float *scale; /* [planes * rows] */
	float static_scale; /* for LLM_INPUT_STATIC */
	struct vnpu_outliers *outliers; /* [rows], for LLM_INPUT_OUTLIERS */
	float *rest; /* [threads][k]: the difference between a row and its first plane */
	float *low; /* [rows][columns of a part]: results of the second plane */
	unsigned int ldq;
};

/* The panels of columns first .. first + n - 1 of weights that are WK. */
static void wk_panels(const struct matmul *h, unsigned int first, unsigned int n,
		      struct fw_wk_panel wk[TASK_COLS / VNPU_PANEL_N])
{
	const struct vnpu_wk_panel *table =
		(const struct vnpu_wk_panel *)h->w + (h->part->first + first) / VNPU_PANEL_N;

	for (unsigned int p = 0; p * VNPU_PANEL_N < n; p++)
		wk[p] = (struct fw_wk_panel){ h->w + table[p].offset * 64ull, table[p].bits };
}

/* Computes columns first .. first + n - 1 of the result of one plane. */
static void plane_columns(const struct matmul *h, unsigned int plane, unsigned int first,
			  unsigned int n, const float *bias, float *y, unsigned int ldy,
			  void *scratch)
{
	const struct fw_kernels *k = h->m->loaded->floats;
	const uint8_t *w = h->w + (first ? llm_pack_bytes(h->format, first, h->slice->k) : 0);
	struct fw_wk_panel wk[TASK_COLS / VNPU_PANEL_N];
	const int8_t *q = h->q + (size_t)plane * h->slice->rows * h->ldq;
	bool integers = h->input != LLM_INPUT_FLOATS;
	struct fw_matmul_w4 w4 = {
		.a = integers ? (const void *)q : h->x,
		.a_scale = integers ? h->scale + (size_t)plane * h->slice->rows : NULL,
		.w = w,
		.bias = bias ? bias + first : NULL,
		.c = y,
		.m = h->slice->rows,
		.n = n,
		.k = h->slice->k,
		.group = LLM_W4_GROUP,
		.lda = integers ? h->ldq : h->slice->k,
		.ldc = ldy,
	};
	struct fw_matmul_i8 i8 = {
		.a = q,
		.a_scale = w4.a_scale,
		.w = w,
		.bias = w4.bias,
		.c = y,
		.m = w4.m,
		.n = n,
		.k = w4.k,
		.lda = h->ldq,
		.ldc = ldy,
	};

	struct fw_matmul_kq kq = {
		.a = q,
		.a_scale = w4.a_scale,
		.w = w,
		.bias = w4.bias,
		.c = y,
		.m = w4.m,
		.n = n,
		.k = w4.k,
		.type = llm_format_kq(h->format),
		.lda = h->ldq,
		.ldc = ldy,
	};

	if (h->format == LLM_FORMAT_WK) {
		wk_panels(h, first, n, wk);
		i8.wk = wk;
	}
	if (llm_format_is_kq(h->format))
		k->matmul_kq(&kq, scratch);
	else if (h->format == LLM_FORMAT_W8 || h->format == LLM_FORMAT_WK)
		k->matmul_i8(&i8, scratch);
	else if (integers)
		k->matmul_w4(&w4, scratch);
	else
		k->matmul_w4f(&w4, scratch);
}

/* Adds the outliers' part of columns first .. first + n - 1 to the result. */
static void outlier_columns(const struct matmul *h, unsigned int first, unsigned int n, float *y,
			    unsigned int ldy, void *scratch)
{
	struct fw_wk_panel wk[TASK_COLS / VNPU_PANEL_N];
	struct fw_add_outliers t = {
		.x = y,
		.outliers = h->outliers,
		.w = h->w + (first ? llm_pack_bytes(h->format, first, h->slice->k) : 0),
		.y = y,
		.m = h->slice->rows,
		.n = n,
		.k = h->slice->k,
		.group = llm_format_is_kq(h->format) ? VNPU_OUTLIERS_KQ + llm_format_kq(h->format)
						     : llm_format_group(h->format),
		.ldx = ldy,
		.ldy = ldy,
	};

	if (h->format == LLM_FORMAT_WK) {
		wk_panels(h, first, n, wk);
		t.wk = wk;
	}
	h->m->loaded->floats->add_outliers(&t, scratch);
}

/* Adds the second plane's result to that of the first, and the bias. */
static void add_planes(const struct matmul *h, unsigned int first, unsigned int n, float *y)
{
	const struct fw_kernels *k = h->m->loaded->floats;

	for (unsigned int r = 0; r < h->slice->rows; r++, y += h->part->n) {
		k->add(y, y, h->low + (size_t)r * h->part->cols + first, n);
		if (h->bias)
			k->add(y, y, h->bias + first, n);
	}
}

static void task_columns(void *arg, unsigned int task, unsigned int worker)
{
	const struct matmul *h = arg;
	void *scratch = h->m->scratch + worker * h->m->scratch_floats;
	unsigned int first = task * TASK_COLS, left = h->part->cols - first,
		     n = left < TASK_COLS ? left : TASK_COLS;
	float *y = h->part->y->data + (size_t)h->part->y_row * h->part->n + h->part->first + first;
	bool planes = h->input == LLM_INPUT_INT16;

	plane_columns(h, 0, first, n, planes ? NULL : h->bias, y, h->part->n, scratch);
	if (h->input == LLM_INPUT_OUTLIERS)
		outlier_columns(h, first, n, y, h->part->n, scratch);
	if (planes) {
		plane_columns(h, 1, first, n, NULL, h->low + first, h->part->cols, scratch);
		add_planes(h, first, n, y);
	}
	for (size_t r = 0; h->part->matrix < 0 && r < h->slice->rows; r++)
		lane_cap_logits(h->m->loaded, y + r * h->part->n, n);
}

static void task_quant(void *arg, unsigned int row, unsigned int worker)
{
	const struct matmul *h = arg;
	const struct fw_kernels *k = h->m->loaded->floats;
	unsigned int low = h->slice->rows + row, n = h->slice->k;
	const float *x = h->x + (size_t)row * n;
	int8_t *q = h->q + (size_t)row * h->ldq;

	if (h->input == LLM_INPUT_OUTLIERS) {
		k->quant_outliers(q, h->scale + row, h->outliers + row, x, n);
		return;
	}
	if (h->input == LLM_INPUT_STATIC) {
		k->quant_static(q, h->scale + row, x, n, h->static_scale);
		return;
	}
	k->quant(q, h->scale + row, x, n);
	if (h->input != LLM_INPUT_INT16)
		return;
	k->rest(h->rest + (size_t)worker * n, x, q, h->scale[row], n);
	k->quant(h->q + (size_t)low * h->ldq, h->scale + low, h->rest + (size_t)worker * n, n);
}

static int matmul_alloc(struct matmul *h)
{
	size_t rows = (size_t)llm_input_planes(h->input) * h->slice->rows, most = 0;
	bool failed;

	if (h->input == LLM_INPUT_FLOATS || !rows)
		return 0;
	h->q = malloc(rows * h->ldq);
	h->scale = malloc(rows * sizeof(*h->scale));
	failed = !h->q || !h->scale;
	if (h->input == LLM_INPUT_OUTLIERS) {
		h->outliers = malloc(rows * sizeof(*h->outliers));
		failed |= !h->outliers;
	}
	if (h->input == LLM_INPUT_INT16) {
		for (unsigned int i = 0; i < h->slice->nr_matrices; i++)
			most = h->slice->columns[i].cols > most ? h->slice->columns[i].cols : most;
		h->rest = malloc((size_t)h->m->loaded->threads * h->slice->k * sizeof(*h->rest));
		h->low = malloc(h->slice->rows * most * sizeof(*h->low) + 1);
		failed |= !h->rest || !h->low;
	}
	return failed ? llm_fail(-ENOMEM, "no memory for the activations of %u tokens",
				 h->slice->rows)
		      : 0;
}

static void matmul_free(struct matmul *h)
{
	free(h->q);
	free(h->scale);
	free(h->outliers);
	free(h->rest);
	free(h->low);
}

int lane_cpu_slice_packed(struct lane_memory *m, const struct lane_slice *slice)
{
	const struct llm_packed *packed = &m->loaded->packed;
	const struct llm_packed_layer *block = &packed->layers[slice->layer];
	struct matmul h = {
		.m = m,
		.slice = slice,
		.x = slice->x->data + (size_t)slice->x_row * slice->k,
		/* All matrices of a matmul have the same input. */
		.input = llm_packed_input(packed, slice->columns[0].matrix, slice->prompt),
		.ldq = (slice->k + 3) / 4 * 4,
	};
	int err = matmul_alloc(&h);

	if (h.input == LLM_INPUT_STATIC)
		h.static_scale = llm_graph_scale(m->loaded, slice->layer,
						 (enum llm_matrix)slice->columns[0].matrix);
	if (err) {
		matmul_free(&h);
		return err;
	}
	if (h.input != LLM_INPUT_FLOATS)
		llm_pool_run(m->loaded->pool, task_quant, &h, slice->rows);
	for (unsigned int i = 0; i < slice->nr_matrices; i++) {
		const struct lane_columns *part = &slice->columns[i];
		bool head = part->matrix < 0;
		size_t off = head ? packed->output_off : block->part[part->matrix].off, skip;

		if (!part->cols)
			continue;
		h.part = part;
		h.format = llm_packed_format(packed, slice->layer, part->matrix);
		skip = part->first ? llm_pack_bytes(h.format, part->first, slice->k) : 0;
		h.w = (const uint8_t *)npu_buffer_data(head ? packed->head : block->buf) + off +
		      skip;
		h.bias = NULL;
		if (!head && block->part[LLM_LAYER_BIAS + part->matrix].bytes)
			h.bias = (const float *)((const char *)npu_buffer_data(packed->vectors) +
						 block->part[LLM_LAYER_BIAS + part->matrix].off) +
				 part->first;
		if (head && packed->output_vectors[LLM_OUTPUT_BIAS].bytes)
			h.bias = (const float *)((const char *)npu_buffer_data(packed->vectors) +
						 packed->output_vectors[LLM_OUTPUT_BIAS].off) +
				 part->first;
		llm_pool_run(m->loaded->pool, task_columns, &h,
			     (part->cols + TASK_COLS - 1) / TASK_COLS);
	}
	matmul_free(&h);
	return 0;
}
