// SPDX-License-Identifier: MIT
/*
 * F32 matmuls with the matrices of the mapped file. A task widens a few rows of a matrix (output
 * channels) to F32 in its thread's scratch memory, where they stay in the CPU's cache, and
 * multiplies all tokens with them. F32 rows are used in place.
 */
#include "cpu_lane.h"

struct batch {
	struct lane_memory *m;
	const struct lane_slice *slices;
};

static unsigned int matrix_tasks(const struct lane_columns *c)
{
	return (c->cols + CPU_WIDE_ROWS - 1) / CPU_WIDE_ROWS;
}

static void task_rows(void *arg, unsigned int task, unsigned int worker)
{
	const struct batch *b = arg;
	const struct lane_slice *s = b->slices;
	const struct llm_loaded *l = b->m->loaded;
	const struct lane_columns *c = s->columns;
	const struct gguf_tensor *t;
	const float *w, *bias, *x;
	unsigned int first, rows;
	size_t row_bytes;
	float *y;

	while (task >= matrix_tasks(c)) {
		task -= matrix_tasks(c++);
		if (c == s->columns + s->nr_matrices)
			c = (++s)->columns;
	}
	x = s->x->data + (size_t)s->x_row * s->k;
	t = c->matrix < 0 ? l->model.output : l->model.layers[s->layer].matrix[c->matrix];
	bias = c->matrix < 0 ? l->model.output_bias : l->model.layers[s->layer].bias[c->matrix];
	first = task * CPU_WIDE_ROWS;
	rows = c->cols - first < CPU_WIDE_ROWS ? c->cols - first : CPU_WIDE_ROWS;
	first += c->first;
	row_bytes = (size_t)(s->k / gguf_type_traits(t->type)->block_values) *
		    gguf_type_traits(t->type)->block_bytes;
	w = (const float *)((const char *)t->data + (c->base + first) * row_bytes);
	if (t->type != GGUF_F32 || (uintptr_t)w % sizeof(float)) {
		float *wide = b->m->scratch + worker * b->m->scratch_floats;

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

int lane_cpu_slices_f32(struct lane_memory *m, const struct lane_slice *slices, unsigned int n)
{
	struct batch b = { .m = m, .slices = slices };
	unsigned int tasks = 0;

	for (unsigned int s = 0; s < n; s++)
		for (unsigned int i = 0; i < slices[s].nr_matrices; i++)
			tasks += matrix_tasks(&slices[s].columns[i]);
	llm_pool_run(m->loaded->pool, task_rows, &b, tasks);
	return 0;
}
