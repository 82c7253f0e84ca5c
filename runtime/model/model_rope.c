// SPDX-License-Identifier: MIT
/*
 * The frequencies of RoPE, with what extends a model's context: factors of positions (linear), of
 * each frequency (llama 3, longrope), or a factor for the low frequencies only (YaRN,
 * arXiv:2309.00071, sections 3.2 and 3.4).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "llm_fail.h"
#include "model.h"
#include "model_keys.h"

/* The pair of values that turns @turns times in the original context. */
static double yarn_pair(const struct llm_rope *rope, unsigned int rot_dim, double turns)
{
	return rot_dim * log(rope->n_ctx_orig / (turns * 2 * M_PI)) / (2 * log(rope->base));
}

/* How much of the pair's frequency is kept, 0 to 1: all of the high ones, nothing of the low. */
static double yarn_keep(const struct llm_rope *rope, unsigned int rot_dim, unsigned int pair)
{
	double low = fmax(0, floor(yarn_pair(rope, rot_dim, rope->beta_fast))),
	       high = fmin(rot_dim - 1, ceil(yarn_pair(rope, rot_dim, rope->beta_slow))),
	       at = (pair - low) / fmax(0.001, high - low);

	return 1 - fmin(1, fmax(0, at));
}

static void make_freqs(float *freqs, const struct llm_rope *rope, double base, unsigned int rot_dim,
		       const float *factors)
{
	for (unsigned int i = 0; i < rot_dim / 2; i++) {
		double keep = rope->yarn ? yarn_keep(rope, rot_dim, i) : 0,
		       freq = pow(base, -2.0 * i / rot_dim);

		freqs[i] = (float)(keep > 0 ? freq * ((1 - keep) / rope->factor + keep)
					    : freq / rope->factor);
		if (factors)
			freqs[i] /= factors[i];
	}
}

int llm_model_make_freqs(struct llm_model *model, const struct llm_rope *rope, const float *factors,
			 const float *far, const char *path)
{
	const struct llm_rope plain = { .factor = 1 };
	double local = model->features->window_rope_base;
	double magnitude = rope->magnitude * (rope->yarn ? 1 + 0.1 * log(rope->factor) : 1);
	unsigned int pairs = model->rot_dim / 2;

	if (fabs(magnitude - 1) > 1e-9 && model->rot_dim != model->head_dim)
		return llm_fail(
			-ENOTSUP,
			"%s: RoPE scales %u of a head's %u values by %g, which this runtime "
			"does not implement",
			path, model->rot_dim, model->head_dim, magnitude);
	/* It is part of all layers' scale of scores. */
	if (fabs(magnitude - 1) > 1e-9 && model->features->no_rope_step)
		return llm_fail(-ENOTSUP,
				"%s: RoPE scales heads by %g in a model with layers without RoPE, "
				"which this runtime does not implement",
				path, magnitude);
	if (magnitude > 1 || magnitude < 1)
		model->attn_scale = (float)((double)model->attn_scale * magnitude * magnitude);
	model->nr_freqs = local > 0 || far ? 2 : 1;
	model->inv_freq = calloc((size_t)model->nr_freqs * pairs, sizeof(*model->inv_freq));
	if (!model->inv_freq)
		return llm_fail(-ENOMEM, "%s: no memory", path);
	make_freqs(model->inv_freq, rope, rope->base, model->rot_dim, factors);
	if (local > 0)
		make_freqs(model->inv_freq + pairs, &plain, local, model->rot_dim, NULL);
	else if (far)
		make_freqs(model->inv_freq + pairs, rope, rope->base, model->rot_dim, far);
	if (far)
		model->n_ctx_short = rope->n_ctx_orig;
	return 0;
}

const float *llm_model_freqs(const struct llm_model *model, unsigned int layer, unsigned int n_ctx)
{
	const struct llm_layer *l = &model->layers[layer];
	bool second =
		model->n_ctx_short ? n_ctx > model->n_ctx_short : l->local && model->nr_freqs > 1;

	return l->no_rope ? NULL : model->inv_freq + (second ? model->rot_dim / 2 : 0);
}
