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

static void put_scales(struct quantize *q, const char *key, enum attention_tensor tensor)
{
	const struct attention_stats *s = &q->opts->calibration->attention;
	size_t n = (size_t)s->layers * attention_stats_heads(s, tensor);

	gguf_writer_array(q->writer, key, GGUF_KV_F32, n);
	for (size_t i = 0; i < n; i++) {
		float scale = (float)scale_mean(&s->scales[tensor][i]);

		/* Of a head whose values are all 0, any scale will do. */
		gguf_writer_f32_element(q->writer, scale > FLT_MIN ? scale : FLT_MIN);
	}
}

void quantize_put_attention(struct quantize *q)
{
	const struct attention_stats *s = &q->opts->calibration->attention;

	gguf_writer_u32(q->writer, ATTENTION_KEY, ATTENTION_VERSION);
	put_losses(q, ATTENTION_KEY ".head_importance", s->head_importance,
		   (size_t)s->layers * s->heads);
	put_losses(q, ATTENTION_KEY ".layer_importance", s->layer_importance, s->layers);
	put_losses(q, ATTENTION_KEY ".limit", &s->limit, 1);
	put_scales(q, ATTENTION_KEY ".q_scales", ATTENTION_Q);
	put_scales(q, ATTENTION_KEY ".k_scales", ATTENTION_K);
	put_scales(q, ATTENTION_KEY ".v_scales", ATTENTION_V);
}
