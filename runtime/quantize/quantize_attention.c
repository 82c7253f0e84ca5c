// SPDX-License-Identifier: MIT
/* Writes what a calibration tells of attention: see attention.h. */
#include <float.h>

#include "quantize.h"

static void put_losses(struct quantize *q, const char *key, const double *losses, size_t n)
{
	gguf_writer_array(q->writer, key, GGUF_KV_F32, n);
	for (size_t i = 0; i < n; i++)
		gguf_writer_f32_element(q->writer, (float)losses[i]);
}

static void put_floats(struct quantize *q, const char *key, const float *values, size_t n)
{
	gguf_writer_array(q->writer, key, GGUF_KV_F32, n);
	for (size_t i = 0; i < n; i++)
		gguf_writer_f32_element(q->writer, values[i]);
}

/* Heads whose values are all 0 have scale @zero: any will do. */
static void put_means(struct quantize *q, const char *key, const struct scale_mean *means, size_t n,
		      float zero)
{
	gguf_writer_array(q->writer, key, GGUF_KV_F32, n);
	for (size_t i = 0; i < n; i++) {
		float scale = (float)scale_mean(&means[i]);

		gguf_writer_f32_element(q->writer, scale > FLT_MIN ? scale : zero);
	}
}

static void put_scales(struct quantize *q, const char *key, enum attention_tensor tensor)
{
	const struct attention_stats *s = &q->opts->calibration->attention;

	put_means(q, key, s->scales[tensor], (size_t)s->layers * attention_stats_heads(s, tensor),
		  FLT_MIN);
}

static void put_balance(struct quantize *q)
{
	const struct balance_stats *s = &q->opts->calibration->attention.balance;
	size_t nq = (size_t)s->layers * s->heads, nk = (size_t)s->layers * s->kv_heads;

	put_floats(q, ATTENTION_KEY ".key_offsets", s->offsets, nk * s->head_dim);
	put_floats(q, ATTENTION_KEY ".balance", s->balances, nk * s->head_dim);
	put_means(q, ATTENTION_KEY ".balanced_q_scales", s->q_scales, nq, 1);
	put_means(q, ATTENTION_KEY ".balanced_k_scales", s->k_scales, nk, 1);
}

void quantize_put_attention(struct quantize *q)
{
	const struct attention_stats *s = &q->opts->calibration->attention;

	gguf_writer_u32(q->writer, ATTENTION_KEY, ATTENTION_VERSION);
	put_losses(q, ATTENTION_KEY ".head_importance", s->head_importance,
		   (size_t)s->layers * s->heads);
	put_losses(q, ATTENTION_KEY ".layer_importance", s->layer_importance, s->layers);
	put_losses(q, ATTENTION_KEY ".limit", &s->limit, 1);
	put_losses(q, ATTENTION_KEY ".head_gain", s->head_gain, (size_t)s->layers * s->heads);
	put_losses(q, ATTENTION_KEY ".gain_limit", &s->gain_limit, 1);
	put_scales(q, ATTENTION_KEY ".q_scales", ATTENTION_Q);
	put_scales(q, ATTENTION_KEY ".k_scales", ATTENTION_K);
	put_scales(q, ATTENTION_KEY ".v_scales", ATTENTION_V);
	put_balance(q);
}
