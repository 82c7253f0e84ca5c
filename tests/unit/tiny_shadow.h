/* SPDX-License-Identifier: MIT */
/* A calibration for a tiny model, written into its file: keys, and weights of the inputs. */
#ifndef TINY_SHADOW_H
#define TINY_SHADOW_H

#include "shadow.h"
#include "tiny_model.h"

#define TINY_MAX_INPUTS (4 * SHADOW_INPUTS)
#define TINY_HOT 3

/* Must live as long as the tiny model, which writes these arrays. */
struct tiny_shadow {
	unsigned int n; /* inputs */
	float scales[TINY_MAX_INPUTS], limits[TINY_MAX_INPUTS];
	float channels[TINY_MAX_INPUTS], cold[TINY_MAX_INPUTS];
	int32_t hot_counts[TINY_MAX_INPUTS], hot[TINY_MAX_INPUTS * TINY_HOT];
};

/* Copies the columns of @what into the rows of @to, from column *@first on. */
static inline void tiny_shadow_columns(struct tiny_model *t, struct tiny_tensor *to,
				       unsigned int layer, const char *what, size_t *first)
{
	const struct tiny_tensor *from;
	char name[64];

	snprintf(name, sizeof(name), "blk.%u.%s.weight", layer, what);
	from = tiny_find(t, name);
	for (size_t r = 0; r < from->dims[1]; r++)
		for (size_t c = 0; c < from->dims[0]; c++)
			to->data[c * to->dims[0] + *first + r] = from->data[r * from->dims[0] + c];
	*first += from->dims[1];
}

/* Adds the shadow weights of an input. */
static inline void tiny_shadow_weights(struct tiny_model *t, unsigned int layer, unsigned int input)
{
	static const char *const matrices[SHADOW_INPUTS][4] = { { "attn_q", "attn_k", "attn_v" },
								{ "attn_output" },
								{ "ffn_gate", "ffn_up" },
								{ "ffn_down" } };
	const struct tiny_config *c = &t->c;
	unsigned int q = c->n_head * c->head_dim, kv = c->n_head_kv * c->head_dim;
	unsigned int rows[] = { q + 2 * kv, c->n_embd, 2 * c->n_ff, c->n_embd };
	unsigned int channels[] = { c->n_embd, q, c->n_embd, c->n_ff };
	char name[64];
	size_t first = 0;

	snprintf(name, sizeof(name), "blk.%u.%s.shadow", layer, shadow_input_names[input]);
	tiny_add(t, name, channels[input], rows[input], 0, 0);
	tiny_find(t, name)->half = true;
	for (unsigned int i = 0; matrices[input][i]; i++)
		tiny_shadow_columns(t, tiny_find(t, name), layer, matrices[input][i], &first);
}

/* Scales of 1/64, importances that fall from the first input to the last, hot channels 0, 2, 3, and
 * the weights of the first @with inputs. */
static inline void tiny_shadow(struct tiny_model *t, struct tiny_shadow *sh, unsigned int with)
{
	sh->n = t->c.n_layer * SHADOW_INPUTS;
	if (sh->n > TINY_MAX_INPUTS)
		abort();
	for (unsigned int i = 0; i < sh->n; i++) {
		static const int32_t hot[TINY_HOT] = { 0, 2, 3 };

		sh->scales[i] = 0x1p-6f;
		sh->limits[i] = 0x1p-6f * (float)(200 - 3 * i);
		sh->channels[i] = 4;
		sh->cold[i] = 1.5f;
		sh->hot_counts[i] = TINY_HOT;
		memcpy(sh->hot + i * TINY_HOT, hot, sizeof(hot));
	}
	for (unsigned int i = 0; i < with; i++)
		tiny_shadow_weights(t, i / SHADOW_INPUTS, i % SHADOW_INPUTS);
	tiny_key(t, SHADOW_KEY, 'u', SHADOW_VERSION, NULL);
	tiny_array(t, SHADOW_KEY ".scales", 'F', sh->scales, sh->n);
	tiny_array(t, SHADOW_KEY ".limits", 'F', sh->limits, sh->n);
	tiny_array(t, SHADOW_KEY ".channels", 'F', sh->channels, sh->n);
	tiny_array(t, SHADOW_KEY ".cold", 'F', sh->cold, sh->n);
	tiny_array(t, SHADOW_KEY ".hot_counts", 'I', sh->hot_counts, sh->n);
	tiny_array(t, SHADOW_KEY ".hot", 'I', sh->hot, (size_t)sh->n * TINY_HOT);
}

#endif /* TINY_SHADOW_H */
