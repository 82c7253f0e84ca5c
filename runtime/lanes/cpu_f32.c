// SPDX-License-Identifier: MIT
/*
 * F32 matmuls with the matrices of the mapped file. A task widens a few rows of a matrix (output
 * channels) to F32 in its thread's scratch memory, where they stay in the CPU's cache, and
 * multiplies all tokens with them. F32 rows are used in place.
 */
#include "cpu_lane.h"

struct matmul {
	struct lane_memory *m;
	const struct lane_slice *slice;
};

static unsigned int matrix_tasks(const struct lane_columns *c)
{
	return (c->cols + CPU_WIDE_ROWS - 1) / CPU_WIDE_ROWS;
}

static void task_rows(void *arg, unsigned int task, unsigned int worker)
{
	const struct matmul *mm = arg;
	const struct lane_slice *s = mm->slice;
	const struct llm_loaded *l = mm->m->loaded;
	const struct lane_columns *c = s->columns;
	const struct gguf_tensor *t;
	const float *w, *bias, *x = s->x->data + (size_t)s->x_row * s->k;
	unsigned int first, rows;
	size_t row_bytes;
	float *y;

	for (; task >= matrix_tasks(c); c++)
		task -= matrix_tasks(c);
	t = c->matrix < 0 ? l->model.output : l->model.layers[s->layer].matrix[c->matrix];
	bias = c->matrix < 0 ? l->model.output_bias : l->model.layers[s->layer].bias[c->matrix];
	first = task * CPU_WIDE_ROWS;
	rows = c->cols - first < CPU_WIDE_ROWS ? c->cols - first : CPU_WIDE_ROWS;
	first += c->first;
	row_bytes = (size_t)(s->k / gguf_type_traits(t->type)->block_values) *
		    gguf_type_traits(t->type)->block_bytes;
	w = (const float *)((const char *)t->data + first * row_bytes);
	if (t->type != GGUF_F32 || (uintptr_t)w % sizeof(float)) {
		float *wide = mm->m->scratch + worker * mm->m->scratch_floats;

		gguf_dequantize(t->type, w, wide, (size_t)rows * s->k);
		w = wide;
	}
	y = c->y->data + (size_t)c->y_row * c->n + first;
	l->kernels->matmul(y, c->n, x, s->k, s->rows, w, s->k, rows, s->k);
	for (size_t i = 0; bias && i < s->rows; i++)
		l->floats->add(y + i * c->n, y + i * c->n, bias + first, rows);
	for (size_t i = 0; c->matrix < 0 && i < s->rows; i++)
		lane_cap_logits(l, y + i * c->n, rows);
}

int lane_cpu_slice_f32(struct lane_memory *m, const struct lane_slice *slice)
{
	struct matmul mm = { .m = m, .slice = slice };
	unsigned int tasks = 0;

	for (unsigned int i = 0; i < slice->nr_matrices; i++)
		tasks += matrix_tasks(&slice->columns[i]);
	llm_pool_run(m->loaded->pool, task_rows, &mm, tasks);
	return 0;
}
