// SPDX-License-Identifier: MIT
/*
 * Writes a calibration: metadata, and for each input that is kept the weights that its outliers are
 * multiplied with, a row for each channel. A matrix has its channels in columns, so windows of
 * channels are widened and transposed, all threads some of the matrices' rows.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"
#include "quantize.h"

/* Channels of a window, a multiple of every block, and rows of a task. */
#define WINDOW_CHANNELS 256u
#define TASK_ROWS (QUANTIZE_TASK_VALUES / WINDOW_CHANNELS)

/* An input's weights. */
struct quantize_shadow {
	struct quantize *q;
	unsigned int layer, input, k, n;
	char name[SHADOW_NAME_BYTES];
	/* The window: F16 [channels][n], from channel @first on. */
	unsigned int first, channels;
	uint16_t *window;
	bool *failed; /* by task */
};

static const char *const keys[] = {
	SHADOW_KEY,
	SHADOW_KEY ".scales",
	SHADOW_KEY ".limits",
	SHADOW_KEY ".channels",
	SHADOW_KEY ".cold",
	SHADOW_KEY ".hot_counts",
	SHADOW_KEY ".hot",
	SHADOW_KEY ".chunk",
	QUANTIZE_ATTENTION_KEYS,
};
#define NR_KEYS (sizeof(keys) / sizeof(keys[0]))
#define MAX_EXCEPT 3

/* ---- metadata ---- */

int quantize_check_calibration(struct quantize *q)
{
	const struct llm_calibration *c = q->opts->calibration;
	int err = c ? llm_model_read(&q->model, q->file, q->in) : 0;

	for (unsigned int i = 0; !err && c && i < SHADOW_INPUTS; i++)
		if (q->model.n_layer != c->shadow.n_layer ||
		    shadow_channels(&q->model, i) != c->channels[i])
			err = llm_fail(-EINVAL,
				       "%s: the calibration is of another model, of %u layers "
				       "and %u channels in %s; this one has %u and %u",
				       q->in, c->shadow.n_layer, c->channels[i],
				       shadow_input_names[i], q->model.n_layer,
				       shadow_channels(&q->model, i));
	if (!err && c && q->model.packed[0])
		err = llm_fail(-EINVAL, "%s: is packed already, for %s; take the original file",
			       q->in, q->model.packed);
	if (err)
		llm_model_release(&q->model);
	return err;
}

static void put_floats(struct quantize *q, const char *key, size_t offset)
{
	const struct shadow *s = &q->opts->calibration->shadow;
	size_t n = (size_t)s->n_layer * SHADOW_INPUTS;

	gguf_writer_array(q->writer, key, GGUF_KV_F32, n);
	for (size_t i = 0; i < n; i++)
		gguf_writer_f32_element(q->writer,
					*(const float *)((const char *)&s->inputs[i] + offset));
}

static void put_means(struct quantize *q, const char *key, size_t offset)
{
	const struct shadow *s = &q->opts->calibration->shadow;
	size_t n = (size_t)s->n_layer * SHADOW_INPUTS;

	gguf_writer_array(q->writer, key, GGUF_KV_F32, n);
	for (size_t i = 0; i < n; i++)
		gguf_writer_f32_element(
			q->writer, (float)*(const double *)((const char *)&s->inputs[i] + offset));
}

static void put_hot(struct quantize *q)
{
	const struct shadow *s = &q->opts->calibration->shadow;
	size_t n = (size_t)s->n_layer * SHADOW_INPUTS, all = 0;

	gguf_writer_array(q->writer, SHADOW_KEY ".hot_counts", GGUF_KV_I32, n);
	for (size_t i = 0; i < n; i++) {
		gguf_writer_i32_element(q->writer, (int32_t)s->inputs[i].nr_hot);
		all += s->inputs[i].nr_hot;
	}
	gguf_writer_array(q->writer, SHADOW_KEY ".hot", GGUF_KV_I32, all);
	for (size_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < s->inputs[i].nr_hot; j++)
			gguf_writer_i32_element(q->writer, s->inputs[i].hot[j]);
}

void quantize_copy_metadata(struct quantize *q, const char *const *except, size_t n)
{
	const char *all[MAX_EXCEPT + NR_KEYS];

	if (!q->opts->calibration)
		return gguf_writer_copy(q->writer, q->file, except, n);
	memcpy(all, keys, sizeof(keys));
	memcpy(all + NR_KEYS, except, n * sizeof(*except));
	gguf_writer_copy(q->writer, q->file, all, NR_KEYS + n);
	gguf_writer_u32(q->writer, SHADOW_KEY, SHADOW_VERSION);
	put_floats(q, SHADOW_KEY ".scales", offsetof(struct shadow_input, scale));
	put_floats(q, SHADOW_KEY ".limits", offsetof(struct shadow_input, limit));
	put_means(q, SHADOW_KEY ".channels", offsetof(struct shadow_input, channels));
	put_means(q, SHADOW_KEY ".cold", offsetof(struct shadow_input, cold));
	put_hot(q);
	if (q->opts->calibration->chunk)
		gguf_writer_u32(q->writer, SHADOW_KEY ".chunk", q->opts->calibration->chunk);
	quantize_put_attention(q);
}

bool quantize_replaced(const struct quantize *q, const struct gguf_tensor *from)
{
	return q->opts->calibration && llm_model_is_copy(q->file, from);
}

void quantize_smooth(const struct quantize *q, struct quantize_tensor *t)
{
	if (!q->opts->calibration)
		return;
	t->fold = shadow_fold_tensor(&q->opts->calibration->smooth, t->name);
	if (t->fold.out && !t->fold.in)
		t->type = GGUF_F32;
}

/* ---- weights ---- */

/* A row of a matrix. */
struct matrix_row {
	enum llm_matrix matrix;
	unsigned int row;
};

/* Row @r, below s->n, of the input's matrices under each other. */
static struct matrix_row find_row(const struct quantize_shadow *s, unsigned int r)
{
	struct matrix_row at = { .row = r };

	for (; at.matrix < LLM_NR_PLAIN_MATRICES; at.matrix++) {
		unsigned int rows = llm_model_rows(&s->q->model, at.matrix);

		if (shadow_input_of_matrix(at.matrix) != s->input)
			continue;
		if (at.row < rows)
			break;
		at.row -= rows;
	}
	return at;
}

/* The window's channels of row @r. */
static void read_row(const struct quantize_shadow *s, unsigned int r, float *values)
{
	const struct matrix_row at = find_row(s, r);
	const struct gguf_tensor *t = s->q->model.layers[s->layer].matrix[at.matrix];
	const struct shadow_fold fold =
		shadow_fold_matrix(&s->q->opts->calibration->smooth, s->layer, at.matrix);
	const struct gguf_type_traits *traits = gguf_type_traits(t->type);
	uint64_t first = (uint64_t)at.row * s->k + s->first;

	gguf_dequantize(t->type,
			(const uint8_t *)t->data +
				first / traits->block_values * traits->block_bytes,
			values, s->channels);
	shadow_fold_values(&fold, s->k, first, values, s->channels);
}

static void transpose_task(void *arg, unsigned int task, unsigned int worker)
{
	struct quantize_shadow *s = arg;
	unsigned int first = task * TASK_ROWS, rows = s->n - first;
	float *values = s->q->values + (size_t)worker * QUANTIZE_TASK_VALUES;

	rows = rows < TASK_ROWS ? rows : TASK_ROWS;
	for (unsigned int r = 0; r < rows; r++)
		read_row(s, first + r, values + (size_t)r * WINDOW_CHANNELS);
	for (unsigned int c = 0; c < s->channels; c++) {
		float channel[TASK_ROWS];

		for (unsigned int r = 0; r < rows; r++)
			channel[r] = values[(size_t)r * WINDOW_CHANNELS + c];
		if (!gguf_quantize(GGUF_F16, channel, s->window + (size_t)c * s->n + first, rows))
			s->failed[task] = true;
	}
}

static int report_task(const struct quantize_shadow *s, unsigned int task)
{
	float *values = s->q->values;
	uint16_t half;

	for (unsigned int r = task * TASK_ROWS; r < s->n; r++) {
		read_row(s, r, values);
		for (unsigned int c = 0; c < s->channels; c++)
			if (!gguf_quantize(GGUF_F16, &values[c], &half, 1))
				return llm_fail(-ERANGE,
						"%s: tensor %s: the weight of channel %u in row %u "
						"is %g, which F16 cannot hold; is the model "
						"damaged?",
						s->q->in, s->name, s->first + c, r,
						(double)values[c]);
	}
	return 0;
}

static int make_window(struct quantize_shadow *s, struct gguf_sink *sink)
{
	unsigned int tasks = (s->n + TASK_ROWS - 1) / TASK_ROWS;

	s->channels = s->k - s->first < WINDOW_CHANNELS ? s->k - s->first : WINDOW_CHANNELS;
	memset(s->failed, 0, tasks * sizeof(*s->failed));
	llm_pool_run(s->q->pool, transpose_task, s, tasks);
	for (unsigned int i = 0; i < tasks; i++)
		if (s->failed[i])
			return -report_task(s, i);
	return gguf_sink_put(sink, s->window, (size_t)s->channels * s->n * sizeof(*s->window));
}

/* A tensor's function for the writer. Its positive errors have set the error line. */
static int make_shadow(void *ud, struct gguf_sink *sink)
{
	struct quantize_shadow *s = ud;
	int ret = 0;

	s->window = malloc((size_t)WINDOW_CHANNELS * s->n * sizeof(*s->window));
	s->failed = malloc((s->n + TASK_ROWS - 1) / TASK_ROWS * sizeof(*s->failed));
	if (!s->window || !s->failed)
		ret = -llm_fail(-ENOMEM, "no memory for %u channels of tensor %s", WINDOW_CHANNELS,
				s->name);
	for (s->first = 0; !ret && s->first < s->k; s->first += s->channels) {
		ret = make_window(s, sink);
		if (!ret)
			ret = -quantize_progress(s->q, (uint64_t)s->channels * s->n, s->name);
	}
	free(s->window);
	free(s->failed);
	for (enum llm_matrix w = 0; w < LLM_NR_PLAIN_MATRICES; w++)
		if (shadow_input_of_matrix(w) == s->input)
			gguf_tensor_done(s->q->file, s->q->model.layers[s->layer].matrix[w]);
	return ret;
}

static void add_shadow(struct quantize_shadow *s)
{
	uint64_t dims[GGUF_MAX_DIMS] = { s->n, s->k, 1, 1 };
	struct quantize *q = s->q;

	q->all += dims[0] * dims[1];
	q->sum.n_shadows++;
	q->sum.shadow_bytes += dims[0] * dims[1] * sizeof(*s->window);
	gguf_writer_tensor_made(q->writer, s->name, GGUF_F16, 2, dims, make_shadow, s);
}

int quantize_add_shadows(struct quantize *q)
{
	const struct llm_calibration *c = q->opts->calibration;
	size_t n = c ? (size_t)c->shadow.n_layer * SHADOW_INPUTS : 0;

	if (!c)
		return 0;
	q->shadows = calloc(n, sizeof(*q->shadows));
	if (!q->shadows)
		return llm_fail(-ENOMEM, "%s: no memory for %zu inputs", q->in, n);
	for (size_t i = 0; i < n; i++) {
		struct quantize_shadow *s = &q->shadows[i];

		s->q = q;
		s->layer = (unsigned int)(i / SHADOW_INPUTS);
		s->input = i % SHADOW_INPUTS;
		s->k = shadow_channels(&q->model, s->input);
		s->n = shadow_rows(&q->model, s->input);
		shadow_tensor_name(s->layer, s->input, s->name);
		if (c->shadow.inputs[i].kept)
			add_shadow(s);
	}
	return 0;
}
