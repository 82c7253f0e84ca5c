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
#define ARENA_ALIGN 64u

struct matmul {
	struct lane_memory *m;
	const struct lane_slice *slice;
	/* Of the columns that a task computes: */
	const struct lane_columns *part;
	enum llm_format format;
	const uint8_t *w; /* panels from the part's first column on; of WK, the table */
	const float *bias; /* likewise, or NULL */
	/* Of all: */
	const float *x; /* the slice's rows */
	enum llm_input input; /* what x is quantised to */
	int8_t *q; /* [planes * rows][ldq]; not for LLM_INPUT_FLOATS */
	float *scale; /* [planes * rows] */
	float static_scale; /* for LLM_INPUT_STATIC */
	struct vnpu_outliers *outliers; /* [rows], for LLM_INPUT_OUTLIERS */
	float *low; /* [rows][columns of all parts]: results of the second plane */
	unsigned int ldq;
};

/* Matmuls that do not wait for one another. */
struct batch {
	struct lane_memory *m;
	struct matmul *matmuls;
	unsigned int n;
	/* [threads][rest_floats]: the difference between a row and its first plane */
	float *rest;
	size_t rest_floats;
};

/* The panels of columns first .. first + n - 1 of weights that are WK. */
static void wk_panels(const struct matmul *h, unsigned int first, unsigned int n,
		      struct fw_wk_panel wk[TASK_COLS / VNPU_PANEL_N])
{
	const struct vnpu_wk_panel *table = (const struct vnpu_wk_panel *)h->w +
					    (h->part->base + h->part->first + first) / VNPU_PANEL_N;

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

/* The part of the matmul @h that @part is, with its weights. */
static void set_part(struct matmul *h, const struct lane_columns *part)
{
	const struct llm_packed *packed = &h->m->loaded->packed;
	const struct llm_packed_layer *block = &packed->layers[h->slice->layer];
	bool head = part->matrix < 0;
	unsigned int first = part->base + part->first;
	const char *vectors = npu_buffer_data(packed->vectors);

	h->part = part;
	h->format = llm_packed_format(packed, h->slice->layer, part->matrix);
	h->w = (const uint8_t *)llm_packed_panels(packed, h->slice->layer, part->matrix) +
	       (first ? llm_pack_bytes(h->format, first, h->slice->k) : 0);
	h->bias = NULL;
	if (!head && block->part[LLM_LAYER_BIAS + part->matrix].bytes)
		h->bias =
			(const float *)(vectors + block->part[LLM_LAYER_BIAS + part->matrix].off) +
			part->first;
	if (head && packed->output_vectors[LLM_OUTPUT_BIAS].bytes)
		h->bias = (const float *)(vectors + packed->output_vectors[LLM_OUTPUT_BIAS].off) +
			  part->first;
}

static unsigned int part_tasks(const struct lane_columns *part)
{
	return (part->cols + TASK_COLS - 1) / TASK_COLS;
}

/* The matmul and the part of @task, which becomes one of the part's. */
static struct matmul find_part(const struct batch *b, unsigned int *task)
{
	const struct matmul *of = b->matmuls;
	const struct lane_columns *part = of->slice->columns;
	struct matmul h;

	while (*task >= part_tasks(part)) {
		*task -= part_tasks(part++);
		if (part == of->slice->columns + of->slice->nr_matrices)
			part = (++of)->slice->columns;
	}
	h = *of;
	for (const struct lane_columns *c = h.slice->columns; h.low && c < part; c++)
		h.low += (size_t)h.slice->rows * c->cols;
	set_part(&h, part);
	return h;
}

static void task_columns(void *arg, unsigned int task, unsigned int worker)
{
	const struct matmul part = find_part(arg, &task), *h = &part;
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

/* The matmul of @row of all, which becomes one of its own. */
static const struct matmul *find_row(const struct batch *b, unsigned int *row)
{
	const struct matmul *h = b->matmuls;

	for (; *row >= h->slice->rows; h++)
		*row -= h->slice->rows;
	return h;
}

static void task_quant(void *arg, unsigned int row, unsigned int worker)
{
	const struct batch *b = arg;
	const struct matmul *h = find_row(b, &row);
	const struct fw_kernels *k = h->m->loaded->floats;
	unsigned int low = h->slice->rows + row, n = h->slice->k;
	const float *x = h->x + (size_t)row * n;
	int8_t *q = h->q + (size_t)row * h->ldq;
	float *rest = b->rest + worker * b->rest_floats;

	if (h->input == LLM_INPUT_FLOATS)
		return;
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
	k->rest(rest, x, q, h->scale[row], n);
	k->quant(h->q + (size_t)low * h->ldq, h->scale + low, rest, n);
}

/* ---- memory ---- */

/* A block that is handed out in parts; @base NULL: it is only measured. */
struct arena {
	uint8_t *base;
	size_t bytes;
};

static void *arena_take(struct arena *a, size_t bytes)
{
	size_t at = a->bytes;

	a->bytes += (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
	return a->base ? a->base + at : NULL;
}

static void matmul_place(struct matmul *h, struct arena *a)
{
	size_t rows = (size_t)llm_input_planes(h->input) * h->slice->rows, cols = 0;

	if (h->input == LLM_INPUT_FLOATS)
		return;
	h->q = arena_take(a, rows * h->ldq);
	h->scale = arena_take(a, rows * sizeof(*h->scale));
	if (h->input == LLM_INPUT_OUTLIERS)
		h->outliers = arena_take(a, rows * sizeof(*h->outliers));
	for (unsigned int i = 0; i < h->slice->nr_matrices; i++)
		cols += h->slice->columns[i].cols;
	if (h->input == LLM_INPUT_INT16)
		h->low = arena_take(a, h->slice->rows * cols * sizeof(*h->low));
}

static void batch_place(struct batch *b, struct arena *a)
{
	b->rest_floats = 0;
	for (unsigned int i = 0; i < b->n; i++) {
		struct matmul *h = &b->matmuls[i];

		matmul_place(h, a);
		if (h->input == LLM_INPUT_INT16 && h->slice->k > b->rest_floats)
			b->rest_floats = h->slice->k;
	}
	b->rest = arena_take(a, b->m->loaded->threads * b->rest_floats * sizeof(*b->rest));
}

/* Gives all matmuls their memory, which is to be freed. NULL with the error line: there is none. */
static void *batch_alloc(struct batch *b)
{
	struct arena a = { NULL, ARENA_ALIGN };

	batch_place(b, &a);
	a.base = aligned_alloc(ARENA_ALIGN, a.bytes);
	a.bytes = 0;
	if (a.base)
		batch_place(b, &a);
	else
		llm_fail(-ENOMEM, "no memory for the activations of %u tokens",
			 b->matmuls->slice->rows);
	return a.base;
}

/* ---- slices ---- */

static struct matmul matmul_of(struct lane_memory *m, const struct lane_slice *slice)
{
	struct matmul h = {
		.m = m,
		.slice = slice,
		.x = slice->x->data + (size_t)slice->x_row * slice->k,
		/* All matrices of a matmul have the same input. */
		.input = llm_packed_input(&m->loaded->packed, slice->columns[0].matrix,
					  slice->prompt),
		.ldq = (slice->k + 3) / 4 * 4,
	};

	if (h.input == LLM_INPUT_STATIC)
		h.static_scale = llm_graph_scale(m->loaded, slice->layer,
						 (enum llm_matrix)slice->columns[0].matrix);
	return h;
}

/* Quantises the rows, and computes all columns. */
static int batch_run(struct batch *b)
{
	unsigned int rows = 0, tasks = 0;
	void *memory = batch_alloc(b);
	bool integers = false;

	if (!memory)
		return -ENOMEM;
	for (unsigned int i = 0; i < b->n; i++) {
		const struct lane_slice *slice = b->matmuls[i].slice;

		integers |= b->matmuls[i].input != LLM_INPUT_FLOATS;
		rows += slice->rows;
		for (unsigned int c = 0; c < slice->nr_matrices; c++)
			tasks += part_tasks(&slice->columns[c]);
	}
	if (integers)
		llm_pool_run(b->m->loaded->pool, task_quant, b, rows);
	llm_pool_run(b->m->loaded->pool, task_columns, b, tasks);
	free(memory);
	return 0;
}

int lane_cpu_slices_packed(struct lane_memory *m, const struct lane_slice *slices, unsigned int n)
{
	struct matmul one, *matmuls = n == 1 ? &one : malloc(n * sizeof(*matmuls));
	struct batch b = { .m = m, .matmuls = matmuls, .n = n };
	int err;

	if (!matmuls)
		return llm_fail(-ENOMEM, "no memory for %u matmuls", n);
	for (unsigned int i = 0; i < n; i++)
		matmuls[i] = matmul_of(m, &slices[i]);
	err = batch_run(&b);
	if (matmuls != &one)
		free(matmuls);
	return err;
}
