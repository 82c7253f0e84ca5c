// SPDX-License-Identifier: MIT
#include "shadow_weights.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"

#define F16_EXPONENT 0x7c00 /* all ones: not a finite number */

struct shadow_weights {
	const struct shadow *shadow;
	const struct llm_model *model;
	const struct gguf_file *file;
	const char *path;
	uint16_t **hot; /* by input of the model: [nr_hot][n], or NULL */
	size_t hot_bytes, all_bytes;
	atomic_uint_fast64_t reads, read_bytes;
};

static int read_row(const struct shadow_weights *w, const struct shadow_input *in, size_t n,
		    uint32_t channel, uint16_t *row)
{
	size_t bytes = n * sizeof(*row);
	int err = gguf_tensor_read(w->file, in->weights, channel * bytes, row, bytes);

	if (err)
		return llm_fail(err, "%s: tensor %s: the weights of channel %u: %s", w->path,
				in->weights->name, channel, strerror(-err));
	for (size_t i = 0; i < n; i++)
		if ((row[i] & F16_EXPONENT) == F16_EXPONENT)
			return llm_fail(
				-EINVAL,
				"%s: tensor %s: channel %u holds a value that is not finite",
				w->path, in->weights->name, channel);
	return 0;
}

static int load_hot(struct shadow_weights *w, size_t i)
{
	const struct shadow_input *in = &w->shadow->inputs[i];
	unsigned int input = (unsigned int)(i % SHADOW_INPUTS);
	size_t n = shadow_rows(w->model, input);
	int err = 0;

	w->all_bytes += shadow_channels(w->model, input) * n * sizeof(uint16_t);
	w->hot_bytes += in->nr_hot * n * sizeof(uint16_t);
	w->hot[i] = malloc(in->nr_hot * n * sizeof(uint16_t) + 1);
	if (!w->hot[i])
		return llm_fail(-ENOMEM, "%s: no memory for the weights of shadow outliers",
				w->path);
	for (uint32_t h = 0; h < in->nr_hot && !err; h++)
		err = read_row(w, in, n, (uint32_t)in->hot[h], w->hot[i] + h * n);
	return err;
}

int shadow_weights_create(const struct shadow *shadow, const struct llm_model *model,
			  const struct gguf_file *file, const char *path,
			  struct shadow_weights **out)
{
	size_t inputs = (size_t)shadow->n_layer * SHADOW_INPUTS;
	struct shadow_weights *w = calloc(1, sizeof(*w));
	int err = 0;

	*out = NULL;
	if (w)
		w->hot = calloc(inputs, sizeof(*w->hot));
	if (!w || !w->hot) {
		shadow_weights_free(w);
		return llm_fail(-ENOMEM, "%s: no memory for the weights of shadow outliers", path);
	}
	w->shadow = shadow;
	w->model = model;
	w->file = file;
	w->path = path;
	for (size_t i = 0; i < inputs && !err; i++)
		if (shadow->inputs[i].kept)
			err = load_hot(w, i);
	if (err)
		shadow_weights_free(w);
	else
		*out = w;
	return err;
}

void shadow_weights_free(struct shadow_weights *w)
{
	if (!w)
		return;
	for (size_t i = 0; w->hot && w->shadow && i < (size_t)w->shadow->n_layer * SHADOW_INPUTS;
	     i++)
		free(w->hot[i]);
	free(w->hot);
	free(w);
}

static int by_channel(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

const uint16_t *shadow_weights_hot(const struct shadow_weights *w, unsigned int layer,
				   unsigned int input, uint32_t channel)
{
	size_t i = (size_t)layer * SHADOW_INPUTS + input;
	const struct shadow_input *in = &w->shadow->inputs[i];
	int32_t want = (int32_t)channel;
	const int32_t *found =
		in->nr_hot ? bsearch(&want, in->hot, in->nr_hot, sizeof(*in->hot), by_channel)
			   : NULL;

	return found ? w->hot[i] + (size_t)(found - in->hot) * shadow_rows(w->model, input) : NULL;
}

int shadow_weights_read(struct shadow_weights *w, unsigned int layer, unsigned int input,
			uint32_t channel, uint16_t *row)
{
	size_t n = shadow_rows(w->model, input);

	atomic_fetch_add(&w->reads, 1);
	atomic_fetch_add(&w->read_bytes, n * sizeof(*row));
	return read_row(w, &w->shadow->inputs[(size_t)layer * SHADOW_INPUTS + input], n, channel,
			row);
}

struct shadow_weights_stats shadow_weights_stats(const struct shadow_weights *w)
{
	return (struct shadow_weights_stats){
		.hot_bytes = w->hot_bytes,
		.all_bytes = w->all_bytes,
		.reads = atomic_load(&w->reads),
		.read_bytes = atomic_load(&w->read_bytes),
	};
}
