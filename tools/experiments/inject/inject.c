// SPDX-License-Identifier: MIT
#include "inject.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_quantize.h"
#include "gguf_writer.h"
#include "llm_fail.h"

/* Values that are widened at a time, a multiple of every block. */
#define WINDOW 65536u

/* ---- channels ---- */

unsigned int inject_exponent(unsigned int exponent, unsigned int layer, unsigned int n_layer)
{
	double middle = (n_layer - 1) / 2.0, from_middle = fabs(layer - middle);
	double share = n_layer > 1 ? from_middle / middle : 1;

	return (unsigned int)lround(exponent * share * share);
}

/* xorshift64*, whose state must not be 0. */
static uint64_t draw(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1du;
}

/* Sets @n of @k factors, which are 1, to @factor. */
static void choose(uint64_t *random, unsigned int n, unsigned int k, float factor, float *factors)
{
	while (n) {
		uint64_t c = draw(random) % k;

		n -= factors[c] == 1;
		factors[c] = factor;
	}
}

/* The channels of attn_output that read row @r of v. */
static void share_row(const struct llm_model *m, unsigned int r, float factor, float *factors)
{
	unsigned int group = m->n_head / m->n_head_kv, kv = r / m->head_dim, i = r % m->head_dim;

	for (unsigned int h = kv * group; h < (kv + 1) * group; h++)
		factors[h * m->head_dim + i] = factor;
}

static void choose_input(const struct inject_options *o, const struct llm_model *m, size_t i,
			 uint64_t *random, struct shadow_smooth *fold)
{
	unsigned int layer = (unsigned int)(i / SHADOW_INPUTS), input = i % SHADOW_INPUTS;
	unsigned int exponent = inject_exponent(o->exponent, layer, m->n_layer);
	unsigned int k = shadow_channels(m, input);
	/* Channels are divided by their factors. */
	float factor = ldexpf(1, -(int)exponent);

	for (unsigned int c = 0; c < k; c++)
		fold->factors[i][c] = 1;
	for (unsigned int r = 0; input == 1 && r < m->kv_dim; r++)
		fold->v_rows[layer][r] = 1;
	if (!exponent || !(o->inputs & 1u << input))
		return;
	if (input != 1)
		return choose(random, o->channels, k, factor, fold->factors[i]);
	choose(random, o->channels, m->kv_dim, factor, fold->v_rows[layer]);
	for (unsigned int r = 0; r < m->kv_dim; r++)
		share_row(m, r, fold->v_rows[layer][r], fold->factors[i]);
}

int inject_fold(const struct inject_options *o, const struct llm_model *m, const char *path,
		struct shadow_smooth *fold)
{
	uint64_t random = o->seed * 0x9e3779b97f4a7c15u + 1;
	int err;

	for (unsigned int i = 0; i < SHADOW_INPUTS; i++) {
		unsigned int k = i == 1 ? m->kv_dim : shadow_channels(m, i);

		if ((o->inputs & 1u << i) && o->channels >= k)
			return llm_fail(-EINVAL, "%s: %s has %u channels: choose fewer than that",
					path, shadow_input_names[i], k);
	}
	random = random ? random : 1;
	err = shadow_smooth_alloc(fold, m);
	for (size_t i = 0; !err && i < (size_t)m->n_layer * SHADOW_INPUTS; i++)
		choose_input(o, m, i, &random, fold);
	return err;
}

/* ---- writing ---- */

struct tensor {
	const struct gguf_tensor *from;
	struct shadow_fold fold;
};

static int make(void *ud, struct gguf_sink *sink)
{
	const struct tensor *t = ud;
	const struct gguf_type_traits *traits = gguf_type_traits(t->from->type);
	uint64_t n = t->from->bytes / traits->block_bytes * traits->block_values;
	float *values = malloc(WINDOW * sizeof(*values));
	int ret = values ? 0 : -ENOMEM;

	for (uint64_t first = 0, count; !ret && first < n; first += count) {
		count = n - first < WINDOW ? n - first : WINDOW;
		gguf_dequantize(t->from->type,
				(const uint8_t *)t->from->data +
					first / traits->block_values * traits->block_bytes,
				values, count);
		shadow_fold_values(&t->fold, t->fold.in ? t->from->dims[0] : 1, first, values,
				   count);
		ret = gguf_sink_put(sink, values, count * sizeof(*values));
	}
	free(values);
	return ret;
}

int inject_write(const struct gguf_file *file, const struct shadow_smooth *fold, const char *out)
{
	static const char *const except[] = { "general.file_type", "general.alignment" };
	struct gguf_writer *w = gguf_writer_create();
	size_t n = gguf_n_tensors(file);
	struct tensor *tensors = calloc(n + 1, sizeof(*tensors));
	char line[256];
	int err;

	gguf_writer_copy(w, file, except, 2);
	gguf_writer_u32(w, "general.file_type", GGUF_FILE_F32);
	for (size_t i = 0; tensors && i < n; i++) {
		const struct gguf_tensor *from = gguf_tensor(file, i);

		tensors[i] = (struct tensor){ from, shadow_fold_tensor(fold, from->name) };
		gguf_writer_tensor_made(w, from->name, GGUF_F32, from->n_dims, from->dims, make,
					&tensors[i]);
	}
	if (!tensors)
		err = llm_fail(-ENOMEM, "no memory for %zu tensors", n);
	else if ((err = gguf_writer_save(w, out, line, sizeof(line))))
		llm_fail(err, "%s", line);
	gguf_writer_free(w);
	free(tensors);
	return err;
}
