// SPDX-License-Identifier: MIT
/*
 * Shadow outliers on the CPU lane (shadow.h). A row's result is
 *
 *	sum over its outliers, by rising channel, of fma(x - clamp(x), w[channel][n])
 *
 * from 0, which depends on no other row. So the division of a prompt into chunks, threads, and the
 * time at which the NPU ends the matmul make no difference to the bits.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu_lane.h"
#include "llm_fail.h"
#include "shadow_weights.h"

/* Rows of a task */
#define TASK_ROWS 8

struct lane_shadow {
	/* By channel, for the work at hand: whether a row has an outlier there, and its weights. */
	uint8_t *seen;
	const uint16_t **weights;
	uint16_t *cold; /* weights read from the file; grows */
	size_t cold_values;
	struct lane_shadow_sums sums; /* outliers are counted by the threads that find them */
};

/* A matmul's operands, and the weights of its outliers. */
struct shadow_pass {
	struct lane_memory *m;
	const struct shadow_input *in;
	unsigned int input;
	unsigned int n; /* columns of all matrices */
	struct lane_slice slice; /* the chunk's rows of all columns */
};

int lane_shadow_init(struct lane_memory *m)
{
	const struct llm_model *model = &m->loaded->model;
	unsigned int k = 0;

	if (!m->loaded->shadow_weights)
		return 0;
	for (unsigned int i = 0; i < SHADOW_INPUTS; i++)
		k = shadow_channels(model, i) > k ? shadow_channels(model, i) : k;
	m->shadow_work = calloc(1, sizeof(*m->shadow_work));
	if (m->shadow_work) {
		m->shadow_work->seen = malloc(k);
		m->shadow_work->weights = malloc(k * sizeof(*m->shadow_work->weights));
	}
	return m->shadow_work && m->shadow_work->seen && m->shadow_work->weights
		       ? 0
		       : llm_fail(-ENOMEM, "no memory for shadow outliers");
}

void lane_shadow_fini(struct lane_memory *m)
{
	if (!m->shadow_work)
		return;
	free(m->shadow_work->seen);
	free(m->shadow_work->weights);
	free(m->shadow_work->cold);
	free(m->shadow_work);
}

struct lane_shadow_sums lane_shadow_sums(const struct lane_memory *m)
{
	return m->shadow_work ? m->shadow_work->sums : (struct lane_shadow_sums){ 0, 0, 0 };
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

size_t lane_shadow_cols(const struct llm_loaded *loaded)
{
	size_t cols = 0;

	for (unsigned int i = 0; i < SHADOW_INPUTS && loaded->shadow_weights; i++) {
		size_t n = shadow_rows(&loaded->model, i);

		cols = n > cols ? n : cols;
	}
	return cols;
}

static struct shadow_pass pass_of(struct lane_memory *m, const struct lane_call *call)
{
	const struct lane_work *w = call->work;
	unsigned int input = (unsigned int)shadow_input_of(w->matmul);
	struct shadow_pass p = {
		.m = m,
		.in = shadow_input(m->loaded->shadow, w->layer, w->matmul),
		.input = input,
		.n = shadow_rows(&m->loaded->model, input),
	};
	const struct lane_work matmul = {
		.what = LANE_SLICE,
		.op = w->matmul,
		.layer = w->layer,
		.rows = call->chunk->n,
		.cols = p.n,
	};
	struct lane_call whole = *call;

	whole.work = &matmul;
	lane_slice_of(m, &whole, &p.slice);
	return p;
}

static unsigned int tasks_of(const struct shadow_pass *p)
{
	return (p->slice.rows + TASK_ROWS - 1) / TASK_ROWS;
}

static unsigned int task_end(const struct shadow_pass *p, unsigned int task)
{
	return (task + 1) * TASK_ROWS < p->slice.rows ? (task + 1) * TASK_ROWS : p->slice.rows;
}

static const float *row_of(const struct shadow_pass *p, unsigned int r)
{
	return p->slice.x->data + (size_t)(p->slice.x_row + r) * p->slice.k;
}

/* A worker's memory: k indices, then k values, then k pointers. */
static uint32_t *scratch_of(const struct shadow_pass *p, unsigned int worker)
{
	return (uint32_t *)(p->m->scratch + worker * p->m->scratch_floats);
}

static size_t find(const struct shadow_pass *p, unsigned int r, uint32_t *found)
{
	return p->m->loaded->kernels->beyond(found, row_of(p, r), p->slice.k, 127 * p->in->scale);
}

/* Marks the channels that have outliers. */
static void task_find(void *arg, unsigned int task, unsigned int worker)
{
	const struct shadow_pass *p = arg;
	uint32_t *found = scratch_of(p, worker);

	for (unsigned int r = task * TASK_ROWS; r < task_end(p, task); r++) {
		size_t nr = find(p, r, found);

		__atomic_fetch_add(&p->m->shadow_work->sums.outliers, nr, __ATOMIC_RELAXED);
		for (size_t i = 0; i < nr; i++)
			__atomic_store_n(&p->m->shadow_work->seen[found[i]], 1, __ATOMIC_RELAXED);
	}
}

/* Rows are as wide as the widest input's, so that those of chunks in flight do not overlap. */
static float *result_of(const struct shadow_pass *p, unsigned int r)
{
	return p->m->shadow.data + (size_t)(p->slice.x_row + r) * lane_shadow_cols(p->m->loaded);
}

/* Gets the weights of all channels that were marked. */
static int gather_weights(const struct shadow_pass *p)
{
	struct shadow_weights *w = p->m->loaded->shadow_weights;
	struct lane_shadow *s = p->m->shadow_work;
	size_t cold = 0, at = 0;
	int err = 0;

	for (uint32_t c = 0; c < p->slice.k; c++) {
		if (!s->seen[c])
			continue;
		s->weights[c] = shadow_weights_hot(w, p->slice.layer, p->input, c);
		cold += !s->weights[c];
	}
	if (cold * p->n > s->cold_values) {
		free(s->cold);
		s->cold = malloc(cold * p->n * sizeof(*s->cold));
		s->cold_values = s->cold ? cold * p->n : 0;
		if (!s->cold)
			return llm_fail(-ENOMEM, "no memory for the weights of %zu channels", cold);
	}
	for (uint32_t c = 0; c < p->slice.k && !err; c++) {
		if (!s->seen[c] || s->weights[c])
			continue;
		s->weights[c] = s->cold + at++ * p->n;
		err = shadow_weights_read(w, p->slice.layer, p->input, c,
					  s->cold + (at - 1) * p->n);
	}
	return err;
}

/* Multiplies what was clamped: x - clamp(x / scale) * scale, rounded once. */
static void task_multiply(void *arg, unsigned int task, unsigned int worker)
{
	const struct shadow_pass *p = arg;
	const struct lane_memory *m = p->m;
	uint32_t *found = scratch_of(p, worker);
	float *rest = (float *)(found + p->slice.k);
	const uint16_t **rows = (const uint16_t **)(rest + p->slice.k);

	for (unsigned int r = task * TASK_ROWS; r < task_end(p, task); r++) {
		const float *x = row_of(p, r);
		size_t nr = find(p, r, found);

		for (size_t i = 0; i < nr; i++) {
			rest[i] = fmaf(-copysignf(127, x[found[i]]), p->in->scale, x[found[i]]);
			rows[i] = m->shadow_work->weights[found[i]];
		}
		m->loaded->kernels->sum_rows(result_of(p, r), rows, rest, nr, p->n);
	}
}

int lane_cpu_shadow(struct lane_memory *m, const struct lane_call *call)
{
	struct shadow_pass p = pass_of(m, call);
	uint64_t start_ns = now_ns();
	int err;

	memset(m->shadow_work->seen, 0, p.slice.k);
	llm_pool_run(m->loaded->pool, task_find, &p, tasks_of(&p));
	err = gather_weights(&p);
	if (!err)
		llm_pool_run(m->loaded->pool, task_multiply, &p, tasks_of(&p));
	m->shadow_work->sums.ns += now_ns() - start_ns;
	return err;
}

/* y += shadow, for the columns of each matrix with this input. */
static void task_merge(void *arg, unsigned int task, unsigned int worker)
{
	const struct shadow_pass *p = arg;

	for (unsigned int r = task * TASK_ROWS; r < task_end(p, task); r++) {
		const float *add = result_of(p, r);

		for (unsigned int i = 0; i < p->slice.nr_matrices; i++) {
			const struct lane_columns *c = &p->slice.columns[i];
			float *y = c->y->data + (size_t)(c->y_row + r) * c->n;

			p->m->loaded->floats->add(y, y, add, c->n);
			add += c->n;
		}
	}
}

void lane_cpu_merge(struct lane_memory *m, const struct lane_call *call)
{
	struct shadow_pass p = pass_of(m, call);
	uint64_t start_ns = now_ns();

	llm_pool_run(m->loaded->pool, task_merge, &p, tasks_of(&p));
	m->shadow_work->sums.merges++;
	m->shadow_work->sums.ns += now_ns() - start_ns;
}
