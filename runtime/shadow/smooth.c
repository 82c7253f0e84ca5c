// SPDX-License-Identifier: MIT
#include "smooth_private.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"

/* Raises @max [cols] to the largest magnitudes of a matrix's columns; @row: room for one row. */
static void column_maxima(const struct gguf_tensor *t, float *max, float *row)
{
	size_t cols = t->dims[0], bytes = t->bytes / t->dims[1];

	for (size_t r = 0; r < t->dims[1]; r++) {
		gguf_dequantize(t->type, (const uint8_t *)t->data + r * bytes, row, cols);
		for (size_t c = 0; c < cols; c++)
			max[c] = fmaxf(max[c], fabsf(row[c]));
	}
}

void smooth_share_heads(const struct llm_model *m, float *v)
{
	unsigned int group = m->n_head / m->n_head_kv, d = m->head_dim;

	for (unsigned int kv = 0; kv < m->n_head_kv; kv++, v += group * d)
		for (unsigned int i = 0; i < d; i++) {
			float max = 0;

			for (unsigned int h = 0; h < group; h++)
				max = fmaxf(max, v[h * d + i]);
			for (unsigned int h = 0; h < group; h++)
				v[h * d + i] = max;
		}
}

void smooth_set_v_rows(struct shadow_smooth *sm, const struct llm_model *m, unsigned int layer)
{
	const float *factors = sm->factors[(size_t)layer * SHADOW_INPUTS + 1];
	unsigned int group = m->n_head / m->n_head_kv, d = m->head_dim;

	for (unsigned int r = 0; r < m->kv_dim; r++)
		sm->v_rows[layer][r] = factors[r / d * group * d + r % d];
}

static float factor(float x, float w, double alpha)
{
	float s = (float)(pow((double)x, alpha) / pow((double)w, 1 - alpha));

	return x > 0 && w > 0 && isnormal(s) && isnormal(1 / s) ? s : 1;
}

/* @rooms: [3][k] of any input. */
static void set_factors(struct shadow_smooth *sm, const struct llm_model *m,
			const struct shadow_stats *stats, size_t i, double alpha, float *rooms)
{
	unsigned int layer = (unsigned int)(i / SHADOW_INPUTS), input = i % SHADOW_INPUTS;
	unsigned int k = stats->inputs[i].k;
	float *x = rooms, *w = rooms + k, *row = rooms + 2 * (size_t)k;

	memcpy(x, stats->inputs[i].largest, k * sizeof(*x));
	memset(w, 0, k * sizeof(*w));
	for (enum llm_matrix which = 0; which < LLM_NR_PLAIN_MATRICES; which++)
		if (shadow_input_of_matrix(which) == input)
			column_maxima(m->layers[layer].matrix[which], w, row);
	if (input == 1) {
		smooth_share_heads(m, x);
		smooth_share_heads(m, w);
	}
	for (unsigned int c = 0; c < k; c++)
		sm->factors[i][c] = factor(x[c], w[c], alpha);
	if (input == 1)
		smooth_set_v_rows(sm, m, layer);
	sm->alphas[i] = alpha;
}

int shadow_smooth_alloc(struct shadow_smooth *sm, const struct llm_model *model)
{
	size_t n = (size_t)model->n_layer * SHADOW_INPUTS;
	bool failed;

	*sm = (struct shadow_smooth){ .n_layer = model->n_layer };
	sm->factors = calloc(n, sizeof(*sm->factors));
	sm->v_rows = calloc(model->n_layer, sizeof(*sm->v_rows));
	sm->alphas = calloc(n, sizeof(*sm->alphas));
	failed = !sm->factors || !sm->v_rows || !sm->alphas;
	for (size_t i = 0; !failed && i < n; i++) {
		sm->factors[i] = calloc(shadow_channels(model, i % SHADOW_INPUTS), sizeof(float));
		failed = !sm->factors[i];
	}
	for (unsigned int l = 0; !failed && l < model->n_layer; l++) {
		sm->v_rows[l] = calloc(model->kv_dim, sizeof(float));
		failed = !sm->v_rows[l];
	}
	if (!failed)
		return 0;
	shadow_smooth_free(sm);
	return llm_fail(-ENOMEM, "no memory for the channels of %u layers", model->n_layer);
}

int shadow_smooth_create(struct shadow_smooth *sm, const struct llm_model *model,
			 const struct shadow_stats *stats, double alpha)
{
	unsigned int most = 0;
	float *rooms;
	int err = shadow_smooth_alloc(sm, model);

	if (err)
		return err;
	for (unsigned int i = 0; i < SHADOW_INPUTS; i++)
		most = shadow_channels(model, i) > most ? shadow_channels(model, i) : most;
	rooms = calloc(3 * (size_t)most, sizeof(*rooms));
	if (!rooms) {
		shadow_smooth_free(sm);
		return llm_fail(-ENOMEM, "no memory for %u channels", most);
	}
	for (size_t i = 0; i < (size_t)model->n_layer * SHADOW_INPUTS; i++)
		set_factors(sm, model, stats, i, alpha, rooms);
	free(rooms);
	return 0;
}

void shadow_smooth_free(struct shadow_smooth *sm)
{
	for (size_t i = 0; sm->factors && i < (size_t)sm->n_layer * SHADOW_INPUTS; i++)
		free(sm->factors[i]);
	for (unsigned int l = 0; sm->v_rows && l < sm->n_layer; l++)
		free(sm->v_rows[l]);
	free(sm->factors);
	free(sm->v_rows);
	free(sm->alphas);
	memset(sm, 0, sizeof(*sm));
}

static const float *factors(const struct shadow_smooth *sm, unsigned int layer, unsigned int input)
{
	return sm->factors[(size_t)layer * SHADOW_INPUTS + input];
}

/* What the rows of a matrix are divided by. */
static const float *row_factors(const struct shadow_smooth *sm, unsigned int layer,
				enum llm_matrix which)
{
	return which == LLM_ATTN_V   ? sm->v_rows[layer]
	       : which == LLM_FFN_UP ? factors(sm, layer, 3)
				     : NULL;
}

struct shadow_fold shadow_fold_matrix(const struct shadow_smooth *sm, unsigned int layer,
				      enum llm_matrix which)
{
	if (!sm->factors)
		return (struct shadow_fold){ 0 };
	return (struct shadow_fold){
		.in = factors(sm, layer, shadow_input_of_matrix(which)),
		.out = row_factors(sm, layer, which),
	};
}

struct shadow_fold shadow_fold_tensor(const struct shadow_smooth *sm, const char *name)
{
	unsigned int layer;
	int at = 0;

	if (!sm->factors || sscanf(name, "blk.%u.%n", &layer, &at) != 1 || !at ||
	    layer >= sm->n_layer)
		return (struct shadow_fold){ 0 };
	name += at;
	if (!strcmp(name, "attn_norm.weight"))
		return (struct shadow_fold){ .out = factors(sm, layer, 0) };
	if (!strcmp(name, "ffn_norm.weight"))
		return (struct shadow_fold){ .out = factors(sm, layer, 2) };
	for (enum llm_matrix which = 0; which < LLM_NR_PLAIN_MATRICES; which++) {
		size_t n = strlen(llm_matrix_names[which]);

		if (strncmp(name, llm_matrix_names[which], n))
			continue;
		if (!strcmp(name + n, ".weight"))
			return shadow_fold_matrix(sm, layer, which);
		if (!strcmp(name + n, ".bias"))
			return (struct shadow_fold){ .out = row_factors(sm, layer, which) };
	}
	return (struct shadow_fold){ 0 };
}

void shadow_fold_values(const struct shadow_fold *fold, uint64_t cols, uint64_t first, float *v,
			size_t n)
{
	uint64_t row = first / cols, col = first % cols;

	for (size_t i = 0; i < n; i++) {
		if (fold->in)
			v[i] *= fold->in[col];
		if (fold->out)
			v[i] /= fold->out[row];
		if (++col == cols) {
			col = 0;
			row++;
		}
	}
}
