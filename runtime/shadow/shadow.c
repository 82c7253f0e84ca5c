// SPDX-License-Identifier: MIT
/* Reading a file's calibration, pruning, and guessing one for a shape. */
#include "shadow.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"

/* Of a guess: llm.npu, figures 10 and 11. */
#define GUESS_CHANNELS 10
#define GUESS_HOT 0.03

const char *const shadow_input_names[SHADOW_INPUTS] = { "attn_qkv", "attn_output", "ffn_gate_up",
							"ffn_down" };

int shadow_input_of(enum llm_op op)
{
	switch (op) {
	case LLM_OP_QKV:
		return 0;
	case LLM_OP_ATTN_OUTPUT:
		return 1;
	case LLM_OP_GATE_UP:
		return 2;
	case LLM_OP_DOWN:
		return 3;
	default:
		return -1;
	}
}

unsigned int shadow_input_of_matrix(enum llm_matrix which)
{
	switch (which) {
	case LLM_ATTN_OUTPUT:
		return 1;
	case LLM_FFN_GATE:
	case LLM_FFN_UP:
		return 2;
	case LLM_FFN_DOWN:
		return 3;
	default:
		return 0;
	}
}

unsigned int shadow_rows(const struct llm_model *model, unsigned int input)
{
	switch (input) {
	case 0:
		return model->q_dim + 2 * model->kv_dim;
	case 2:
		return 2 * model->n_ff;
	default:
		return model->n_embd;
	}
}

unsigned int shadow_channels(const struct llm_model *model, unsigned int input)
{
	return input == 1 ? model->q_dim : input == 3 ? model->n_ff : model->n_embd;
}

void shadow_tensor_name(unsigned int layer, unsigned int input, char name[SHADOW_NAME_BYTES])
{
	snprintf(name, SHADOW_NAME_BYTES, "blk.%u.%s.shadow", layer, shadow_input_names[input]);
}

/* ---- pruning ---- */

/* The most important first; of equals the first. */
static int by_importance(const void *a, const void *b)
{
	const struct shadow_input *x = *(struct shadow_input *const *)a;
	const struct shadow_input *y = *(struct shadow_input *const *)b;

	if (x->importance != y->importance)
		return x->importance < y->importance ? 1 : -1;
	return (x > y) - (x < y);
}

int shadow_prune(struct shadow *s, double pruning)
{
	size_t n = (size_t)s->n_layer * SHADOW_INPUTS, kept, i;
	struct shadow_input **sorted;

	if (!(pruning >= 0 && pruning <= 1))
		return llm_fail(-EINVAL, "%g is no share of inputs to prune: give 0 to 1", pruning);
	sorted = malloc(n * sizeof(struct shadow_input *));
	if (!sorted)
		return llm_fail(-ENOMEM, "no memory for %zu inputs", n);
	for (i = 0; i < n; i++)
		sorted[i] = &s->inputs[i];
	qsort(sorted, n, sizeof(struct shadow_input *), by_importance);
	kept = n - (size_t)llround(pruning * (double)n);
	for (i = 0; i < n; i++)
		sorted[i]->kept = i < kept;
	s->pruning = pruning;
	free(sorted);
	return 0;
}

/* ---- reading ---- */

struct reader {
	struct shadow *s;
	const struct llm_model *model;
	const struct gguf_file *file;
	const char *path;
	size_t n; /* inputs */
};

static unsigned int input_channels(const struct reader *r, size_t i)
{
	return shadow_channels(r->model, i % SHADOW_INPUTS);
}

__attribute__((format(printf, 2, 3))) static int bad(const struct reader *r, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	return llm_fail(-EINVAL, "%s: %s; calibrate the original again: llm-quantize --calibrate",
			r->path, line);
}

/* What gguf_f32_array() or gguf_i32_array() said of a key's array, which must have @want values. */
static int check_array(const struct reader *r, const char *key, int err, size_t n, size_t want)
{
	if (err == -ENOENT)
		return bad(r, "no key %s", key);
	if (err)
		return bad(r, "%s is no array of its type", key);
	if (n != want)
		return bad(r, "%s has %zu values, not %zu", key, n, want);
	return 0;
}

/* Values are copied from the mapping, where they may be unaligned. */
static int read_float(const struct reader *r, const char *key, size_t i, float *value)
{
	const float *values;
	size_t n;
	int err = gguf_f32_array(r->file, key, &values, &n);

	err = check_array(r, key, err, err ? 0 : n, r->n);
	if (!err)
		memcpy(value, (const char *)values + i * sizeof(*value), sizeof(*value));
	return err;
}

static int read_numbers(const struct reader *r, size_t i)
{
	struct shadow_input *in = &r->s->inputs[i];
	unsigned int k = input_channels(r, i);
	float channels, cold;
	int err = read_float(r, SHADOW_KEY ".scales", i, &in->scale);

	if (!err)
		err = read_float(r, SHADOW_KEY ".limits", i, &in->limit);
	if (!err)
		err = read_float(r, SHADOW_KEY ".channels", i, &channels);
	if (!err)
		err = read_float(r, SHADOW_KEY ".cold", i, &cold);
	if (err)
		return err;
	if (!isnormal(in->scale) || in->scale < 0)
		return bad(r, "%s.scales holds %g at %zu", SHADOW_KEY, (double)in->scale, i);
	in->importance = in->limit / in->scale;
	/* The limit by 127 is a scale too. */
	if (!isnormal(in->limit / 127) || in->limit < 0 || !isfinite(in->importance))
		return bad(r, "%s.limits holds %g at %zu", SHADOW_KEY, (double)in->limit, i);
	if (!(channels >= 0 && channels <= (float)k))
		return bad(r, "%s.channels holds %g at %zu, not 0 to %u", SHADOW_KEY,
			   (double)channels, i, k);
	if (!(cold >= 0 && cold <= channels))
		return bad(r, "%s.cold holds %g at %zu, not 0 to %g", SHADOW_KEY, (double)cold, i,
			   (double)channels);
	in->channels = (double)channels;
	in->cold = (double)cold;
	return 0;
}

static int read_hot(const struct reader *r)
{
	const int32_t *counts, *hot;
	size_t n, all = 0;
	int err = gguf_i32_array(r->file, SHADOW_KEY ".hot_counts", &counts, &n);

	err = check_array(r, SHADOW_KEY ".hot_counts", err, err ? 0 : n, r->n);
	for (size_t i = 0; !err && i < r->n; i++) {
		unsigned int k = input_channels(r, i);
		int32_t count;

		memcpy(&count, (const char *)counts + i * sizeof(count), sizeof(count));
		if (count < 0 || (uint32_t)count > k)
			return bad(r, "%s.hot_counts holds %d at %zu, not 0 to %u", SHADOW_KEY,
				   count, i, k);
		r->s->inputs[i].nr_hot = (uint32_t)count;
		all += (size_t)count;
	}
	if (err)
		return err;
	err = gguf_i32_array(r->file, SHADOW_KEY ".hot", &hot, &n);
	err = check_array(r, SHADOW_KEY ".hot", err, err ? 0 : n, all);
	if (err)
		return err;
	r->s->hot = malloc(all ? all * sizeof(*hot) : 1);
	if (!r->s->hot)
		return llm_fail(-ENOMEM, "%s: no memory for %zu hot channels", r->path, all);
	memcpy(r->s->hot, hot, all * sizeof(*hot));
	return 0;
}

static int check_hot(const struct reader *r)
{
	const int32_t *hot = r->s->hot;

	for (size_t i = 0; i < r->n; i++) {
		struct shadow_input *in = &r->s->inputs[i];
		unsigned int k = input_channels(r, i);

		in->hot = hot;
		for (uint32_t j = 0; j < in->nr_hot; j++) {
			if (hot[j] < 0 || (uint32_t)hot[j] >= k)
				return bad(r, "%s.hot holds channel %d of input %zu, not 0 to %u",
					   SHADOW_KEY, hot[j], i, k - 1);
			if (j && hot[j] <= hot[j - 1])
				return bad(r, "%s.hot holds channel %d after %d of input %zu",
					   SHADOW_KEY, hot[j], hot[j - 1], i);
		}
		hot += in->nr_hot;
	}
	return 0;
}

/* Finds the inputs' weights. */
static int find_weights(const struct reader *r)
{
	for (size_t i = 0; i < r->n; i++) {
		unsigned int input = i % SHADOW_INPUTS;
		unsigned int k = shadow_channels(r->model, input), n = shadow_rows(r->model, input);
		const struct gguf_tensor *t;
		char name[SHADOW_NAME_BYTES];

		shadow_tensor_name((unsigned int)(i / SHADOW_INPUTS), input, name);
		t = gguf_find_tensor(r->file, name);
		if (t && t->type != GGUF_F16)
			return bad(r, "tensor %s is %s, not F16", name,
				   gguf_type_traits(t->type)->name);
		if (t && (t->dims[0] != n || t->dims[1] != k || t->dims[2] != 1 || t->dims[3] != 1))
			return bad(r, "tensor %s is [%llu, %llu, %llu, %llu], not [%u, %u]", name,
				   (unsigned long long)t->dims[0], (unsigned long long)t->dims[1],
				   (unsigned long long)t->dims[2], (unsigned long long)t->dims[3],
				   n, k);
		r->s->inputs[i].weights = t;
	}
	return 0;
}

static int read_version(const struct reader *r)
{
	uint64_t version;
	int err = gguf_u64(r->file, SHADOW_KEY, &version);

	if (err == -ENOENT)
		return llm_fail(
			-ENODATA,
			"%s: is not calibrated, so it has no scales for static activations; "
			"make such a file of the original with llm-quantize --calibrate",
			r->path);
	if (err || version != SHADOW_VERSION)
		return bad(r, "%s is not %d: another version's calibration", SHADOW_KEY,
			   SHADOW_VERSION);
	return 0;
}

/* Keeps the inputs whose weights were written. */
static void keep_written(struct shadow *s, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		kept += s->inputs[i].kept = s->inputs[i].weights != NULL;
	s->pruning = (double)(n - kept) / (double)n;
}

static int prune(const struct reader *r, double pruning)
{
	size_t kept = 0, written = 0;
	int err = shadow_prune(r->s, pruning);
	char name[SHADOW_NAME_BYTES];

	if (err)
		return err;
	for (size_t i = 0; i < r->n; i++) {
		kept += r->s->inputs[i].kept;
		written += r->s->inputs[i].weights != NULL;
	}
	for (size_t i = 0; i < r->n; i++) {
		if (!r->s->inputs[i].kept || r->s->inputs[i].weights)
			continue;
		shadow_tensor_name((unsigned int)(i / SHADOW_INPUTS), i % SHADOW_INPUTS, name);
		return llm_fail(-EINVAL,
				"%s: no tensor %s: pruning %g keeps %zu inputs, the file has the "
				"weights of %zu; prune more, or calibrate the original again: "
				"llm-quantize --calibrate --pruning %g",
				r->path, name, pruning, kept, written, pruning);
	}
	return 0;
}

/* Chunks that a file wants, if it does. */
static int read_chunk(const struct reader *r)
{
	uint64_t chunk = 0;
	int err = gguf_u64(r->file, SHADOW_KEY ".chunk", &chunk);

	if (err == -ENOENT)
		return 0;
	if (err || !chunk || chunk > LLM_MAX_CHUNK)
		return bad(r, "%s.chunk is no number of 1 to %d tokens", SHADOW_KEY, LLM_MAX_CHUNK);
	r->s->chunk = (unsigned int)chunk;
	return 0;
}

static int read_inputs(const struct reader *r)
{
	int err = read_version(r);

	if (!err)
		err = read_chunk(r);
	for (size_t i = 0; !err && i < r->n; i++)
		err = read_numbers(r, i);
	if (!err)
		err = read_hot(r);
	if (!err)
		err = check_hot(r);
	return err ? err : find_weights(r);
}

int shadow_read(struct shadow *s, const struct llm_model *model, const struct gguf_file *file,
		const char *path, double pruning)
{
	struct reader r = { .s = s,
			    .model = model,
			    .file = file,
			    .path = path,
			    .n = (size_t)model->n_layer * SHADOW_INPUTS };
	int err;

	*s = (struct shadow){ .n_layer = model->n_layer };
	s->inputs = calloc(r.n, sizeof(*s->inputs));
	if (!s->inputs)
		return llm_fail(-ENOMEM, "%s: no memory for %zu inputs", path, r.n);
	err = read_inputs(&r);
	if (!err && pruning == SHADOW_AS_WRITTEN)
		keep_written(s, r.n);
	else if (!err)
		err = prune(&r, pruning);
	if (err)
		shadow_free(s);
	return err;
}

/* ---- guessing ---- */

int shadow_guess(struct shadow *s, const struct shape *shape, double pruning)
{
	uint32_t channels[SHADOW_INPUTS] = { shape->dim, shape->heads * shape->head_dim, shape->dim,
					     shape->ffn };
	size_t n = (size_t)shape->layers * SHADOW_INPUTS;
	int err;

	*s = (struct shadow){ .n_layer = shape->layers };
	s->inputs = calloc(n, sizeof(*s->inputs));
	if (!s->inputs)
		return llm_fail(-ENOMEM, "no memory for %zu inputs", n);
	for (size_t i = 0; i < n; i++) {
		unsigned int before = (unsigned int)(i / SHADOW_INPUTS);
		unsigned int after = shape->layers - 1 - before;
		uint32_t k = channels[i % SHADOW_INPUTS];
		double with = k < GUESS_CHANNELS ? k : GUESS_CHANNELS;
		/* The largest outlier is twice what the scale holds, and more the nearer an end. */
		float importance =
			254.0f + (float)shape->layers - (float)(before < after ? before : after);

		s->inputs[i] = (struct shadow_input){
			.scale = 1,
			.limit = importance,
			.importance = importance,
			.channels = with,
			.cold = with * (1 - SHADOW_HOT),
			.nr_hot = (uint32_t)ceil(GUESS_HOT * k),
		};
	}
	err = shadow_prune(s, pruning);
	if (err)
		shadow_free(s);
	return err;
}

void shadow_free(struct shadow *s)
{
	free(s->inputs);
	free(s->hot);
	memset(s, 0, sizeof(*s));
}
