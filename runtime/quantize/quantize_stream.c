// SPDX-License-Identifier: MIT
/*
 * Writes the tensors of the new file: all threads convert a window of a tensor's values, which is
 * written before the next one. So memory does not grow with the model, and the file does not depend
 * on the threads.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"
#include "quantize.h"

/* Tasks of a window (8 MiB of F32) */
#define TASK_VALUES QUANTIZE_TASK_VALUES
#define WINDOW_TASKS 128u

static uint64_t blocks_bytes(enum gguf_type type, uint64_t n)
{
	const struct gguf_type_traits *traits = gguf_type_traits(type);

	return n / traits->block_values * traits->block_bytes;
}

/*
 * The finaliser of splitmix64: makes a random number of a counter, so a tensor's values can be made
 * in any order.
 */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Makes four values of 16 bits from each number. @first is a multiple of four. */
static void make_random(const struct quantize_tensor *t, uint64_t first, float *dst, size_t n)
{
	float step = t->scale * 0x1p-15f;
	size_t i;

	for (i = 0; i < n; i += 4) {
		uint64_t r = mix(t->key + (first + i) / 4 * 0x9e3779b97f4a7c15u);
		int16_t q[4];
		float v[4];
		int j;

		memcpy(q, &r, sizeof(q));
		for (j = 0; j < 4; j++)
			v[j] = t->base + step * (float)q[j];
		memcpy(dst + i, v, (n - i < 4 ? n - i : 4) * sizeof(*v));
	}
}

static bool folded(const struct quantize_tensor *t)
{
	return t->fold.in || t->fold.out;
}

void quantize_read(const struct quantize_tensor *t, uint64_t first, float *dst, size_t n)
{
	if (t->from)
		gguf_dequantize(t->from->type,
				(const uint8_t *)t->from->data + blocks_bytes(t->from->type, first),
				dst, n);
	else
		make_random(t, first, dst, n);
	if (folded(t))
		shadow_fold_values(&t->fold, t->fold.in ? t->dims[0] : 1, first, dst, n);
}

struct window {
	const struct quantize_tensor *t;
	uint64_t first, n;
	bool failed[WINDOW_TASKS];
};

static size_t task_values(const struct window *w, unsigned int task)
{
	uint64_t left = w->n - (uint64_t)task * TASK_VALUES;

	return left < TASK_VALUES ? left : TASK_VALUES;
}

/* The importance of values from @first on: that of their columns, in their matrix. */
static void spread_importance(const struct quantize_tensor *t, uint64_t first, float *dst, size_t n)
{
	uint64_t row = t->dims[0], matrix = row * t->dims[1];

	for (size_t i = 0; i < n; i++) {
		uint64_t at = (first + i) / matrix * row + (first + i) % row;

		dst[i] = t->importance[at % t->n_importance];
	}
}

static void run_task(void *arg, unsigned int task, unsigned int worker)
{
	struct window *w = arg;
	const struct quantize_tensor *t = w->t;
	float *values = t->q->values + (size_t)worker * 2 * TASK_VALUES;
	uint8_t *dst = t->q->window + blocks_bytes(t->type, (uint64_t)task * TASK_VALUES);
	uint64_t first = w->first + (uint64_t)task * TASK_VALUES;
	size_t n = task_values(w, task);

	quantize_read(t, first, values, n);
	if (t->importance && gguf_searches(t->type)) {
		spread_importance(t, first, values + TASK_VALUES, n);
		w->failed[task] =
			!gguf_quantize_searched(t->type, values, values + TASK_VALUES, dst, n);
		return;
	}
	w->failed[task] = !gguf_quantize(t->type, values, dst, n);
}

/* Reports the first value that is not finite or, if all are finite, the greatest one. */
static int report_value(const struct window *w, unsigned int task)
{
	const struct quantize_tensor *t = w->t;
	uint64_t first = w->first + (uint64_t)task * TASK_VALUES;
	float *v = t->q->values;
	size_t n = task_values(w, task), i, worst = 0;

	quantize_read(t, first, v, n);
	for (i = 0; i < n && isfinite(v[worst]); i++)
		if (!isfinite(v[i]) || fabsf(v[i]) > fabsf(v[worst]))
			worst = i;
	return llm_fail(-ERANGE,
			"%s: tensor %s: value %" PRIu64
			" is %g, which %s cannot hold; is the model damaged?",
			t->q->in, t->name, first + worst, (double)v[worst],
			gguf_type_traits(t->type)->name);
}

static int make_window(struct window *w, struct gguf_sink *sink)
{
	const struct quantize_tensor *t = w->t;
	unsigned int tasks = (w->n + TASK_VALUES - 1) / TASK_VALUES, i;

	llm_pool_run(t->q->pool, run_task, w, tasks);
	for (i = 0; i < tasks; i++)
		if (w->failed[i])
			return -report_value(w, i);
	return gguf_sink_put(sink, t->q->window, blocks_bytes(t->type, w->n));
}

int quantize_progress(struct quantize *q, uint64_t values, const char *name)
{
	const struct llm_quantize_options *opts = q->opts;

	q->done += values;
	if (!opts->progress || !opts->progress(opts->ud, (double)q->done / (double)q->all, name))
		return 0;
	return llm_fail(-ECANCELED, "%s: interrupted; nothing was written", opts->out);
}

/* The tensors' function for the writer. Its positive errors have set the error line. */
static int make_tensor(void *ud, struct gguf_sink *sink)
{
	struct quantize_tensor *t = ud;
	struct quantize *q = t->q;
	struct window w = { .t = t };
	bool copy = t->from && t->from->type == t->type && !folded(t);
	int ret = 0;

	for (; !ret && w.first < t->n; w.first += w.n) {
		w.n = t->n - w.first;
		if (w.n > (uint64_t)WINDOW_TASKS * TASK_VALUES)
			w.n = (uint64_t)WINDOW_TASKS * TASK_VALUES;
		if (copy)
			ret = gguf_sink_put(sink,
					    (const uint8_t *)t->from->data +
						    blocks_bytes(t->type, w.first),
					    blocks_bytes(t->type, w.n));
		else
			ret = make_window(&w, sink);
		if (!ret)
			ret = -quantize_progress(q, w.n, t->name);
	}
	if (t->from)
		gguf_tensor_done(q->file, t->from);
	return ret;
}

void quantize_add(struct quantize *q, struct quantize_tensor *t)
{
	t->q = q;
	t->n = t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
	q->all += t->n;
	if (t->from && llm_model_is_copy(q->file, t->from)) {
		q->sum.n_shadows++;
		q->sum.shadow_bytes += t->from->bytes;
	} else {
		q->sum.n_values += t->n;
		q->sum.n_tensors++;
		q->sum.bytes_before += t->from ? t->from->bytes : 0;
		q->sum.bytes_after += blocks_bytes(t->type, t->n);
	}
	gguf_writer_tensor_made(q->writer, t->name, t->type, t->n_dims, t->dims, make_tensor, t);
}

int quantize_save(struct quantize *q)
{
	char line[512];
	int ret;

	q->window = malloc((size_t)WINDOW_TASKS * TASK_VALUES * sizeof(float));
	q->values = malloc((size_t)llm_pool_threads(q->pool) * 2 * TASK_VALUES * sizeof(float));
	if (!q->window || !q->values)
		ret = -llm_fail(-ENOMEM, "no memory for %u threads", llm_pool_threads(q->pool));
	else
		ret = gguf_writer_save(q->writer, q->opts->out, line, sizeof(line));
	free(q->window);
	free(q->values);
	return ret < 0 ? llm_fail(ret, "%s", line) : -ret;
}
