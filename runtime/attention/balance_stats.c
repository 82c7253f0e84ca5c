// SPDX-License-Identifier: MIT
#include "balance_stats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "llm_fail.h"

/* Of a head's greatest value: a channel counts as at least so large, or the text's next value in a
 * channel that was 0 could be the greatest of all. */
#define LEAST_SHARE 1e-3f

int balance_stats_init(struct balance_stats *s, unsigned int layers, unsigned int heads,
		       unsigned int kv_heads, unsigned int head_dim)
{
	size_t nq = (size_t)layers * heads, nk = (size_t)layers * kv_heads, n = nk * head_dim;

	*s = (struct balance_stats){
		.layers = layers,
		.heads = heads,
		.kv_heads = kv_heads,
		.head_dim = head_dim,
	};
	s->channels = calloc(n, sizeof(*s->channels));
	s->rows = calloc(nk, sizeof(*s->rows));
	s->offsets = calloc(n, sizeof(*s->offsets));
	s->balances = calloc(n, sizeof(*s->balances));
	s->q_scales = calloc(nq, sizeof(*s->q_scales));
	s->k_scales = calloc(nk, sizeof(*s->k_scales));
	s->k_scale = calloc(nk, sizeof(*s->k_scale));
	s->row = calloc(head_dim, sizeof(*s->row));
	return s->channels && s->rows && s->offsets && s->balances && s->q_scales && s->k_scales &&
			       s->k_scale && s->row
		       ? 0
		       : llm_fail(-ENOMEM, "no memory for the statistics of channels");
}

void balance_stats_fini(struct balance_stats *s)
{
	free(s->channels);
	free(s->rows);
	free(s->offsets);
	free(s->balances);
	free(s->q_scales);
	free(s->k_scales);
	free(s->k_scale);
	free(s->row);
	balance_free(s->settled);
	*s = (struct balance_stats){ 0 };
}

/* ---- the first evaluation: channels ---- */

static struct balance_channel *channels_of(const struct balance_stats *s, unsigned int layer,
					   unsigned int kv_head)
{
	return s->channels + ((size_t)layer * s->kv_heads + kv_head) * s->head_dim;
}

static void add_query(struct balance_channel *to, const float *q, unsigned int n)
{
	for (unsigned int c = 0; c < n; c++)
		to[c].most_q = fmaxf(to[c].most_q, fabsf(q[c]));
}

static void add_key(struct balance_channel *to, const float *k, unsigned int n, bool first)
{
	for (unsigned int c = 0; c < n; c++) {
		to[c].sum += (double)k[c];
		to[c].least = first ? k[c] : fminf(to[c].least, k[c]);
		to[c].most = first ? k[c] : fmaxf(to[c].most, k[c]);
	}
}

static void show_queries(struct balance_stats *s, unsigned int layer, unsigned int head,
			 unsigned int rows, const float *q)
{
	struct balance_channel *to = channels_of(s, layer, head / (s->heads / s->kv_heads));
	size_t stride = (size_t)s->heads * s->head_dim;

	if (!isfinite(scale_buckets_scale(q, rows, s->head_dim, stride)))
		return;
	for (unsigned int r = 0; r < rows; r++)
		add_query(to, q + r * stride, s->head_dim);
}

static void show_keys(struct balance_stats *s, unsigned int layer, unsigned int kv_head,
		      unsigned int rows, const float *k)
{
	size_t stride = (size_t)s->kv_heads * s->head_dim;
	uint64_t *n = &s->rows[(size_t)layer * s->kv_heads + kv_head];

	if (!isfinite(scale_buckets_scale(k, rows, s->head_dim, stride)))
		return;
	for (unsigned int r = 0; r < rows; r++)
		add_key(channels_of(s, layer, kv_head), k + r * stride, s->head_dim, !(*n)++);
}

/* ---- offsets and balances ---- */

static void settle_head(struct balance_stats *s, size_t at)
{
	const struct balance_channel *of = s->channels + at * s->head_dim;
	float *offsets = s->offsets + at * s->head_dim, *balances = s->balances + at * s->head_dim;
	float most_k = 0, most_q = 0;

	/* For now, a balance is the greatest key. */
	for (unsigned int c = 0; c < s->head_dim; c++) {
		offsets[c] = s->rows[at] ? (float)(of[c].sum / (double)s->rows[at]) : 0;
		balances[c] = fmaxf(of[c].most - offsets[c], offsets[c] - of[c].least);
		most_k = fmaxf(most_k, balances[c]);
		most_q = fmaxf(most_q, of[c].most_q);
	}
	for (unsigned int c = 0; c < s->head_dim; c++) {
		float k = fmaxf(balances[c], most_k * LEAST_SHARE),
		      q = fmaxf(of[c].most_q, most_q * LEAST_SHARE);

		balances[c] = isnormal(k / q) ? sqrtf(k / q) : 1;
	}
}

int balance_stats_settle(struct balance_stats *s)
{
	size_t nq = (size_t)s->layers * s->heads, nk = (size_t)s->layers * s->kv_heads;
	float *ones = malloc(nq * sizeof(*ones));

	s->settled = balance_create(s->layers, s->heads, s->kv_heads, s->head_dim);
	for (size_t i = 0; ones && i < nq; i++)
		ones[i] = 1;
	for (size_t at = 0; at < nk; at++)
		settle_head(s, at);
	if (ones && s->settled)
		balance_set(s->settled, s->offsets, s->balances, ones, ones);
	free(ones);
	return ones && s->settled ? 0 : llm_fail(-ENOMEM, "no memory to balance heads with");
}

/* ---- the second evaluation: scales ---- */

/* @scale, or that of the row, if it is greater or not finite. */
static float greater_scale(const struct balance_stats *s, float scale)
{
	float of_row = scale_buckets_scale(s->row, 1, s->head_dim, s->head_dim);

	return of_row <= scale ? scale : of_row;
}

static void measure_queries(struct balance_stats *s, unsigned int layer, unsigned int head,
			    unsigned int rows, const float *q)
{
	float scale = 0;

	for (unsigned int r = 0; r < rows && isfinite(scale); r++) {
		balance_query(s->settled, layer, head, s->row,
			      q + (size_t)r * s->heads * s->head_dim);
		scale = greater_scale(s, scale);
	}
	scale_mean_add(&s->q_scales[(size_t)layer * s->heads + head], scale);
}

static void measure_keys(struct balance_stats *s, unsigned int layer, unsigned int kv_head,
			 unsigned int rows, const float *k)
{
	size_t at = (size_t)layer * s->kv_heads + kv_head;
	float scale = s->k_scale[at];

	for (unsigned int r = 0; r < rows && isfinite(scale); r++) {
		balance_key(s->settled, layer, kv_head, s->row,
			    k + (size_t)r * s->kv_heads * s->head_dim);
		scale = greater_scale(s, scale);
	}
	if (!scale_mean_add(&s->k_scales[at], scale))
		s->k_scale[at] = scale;
}

/* ---- both ---- */

void balance_stats_queries(struct balance_stats *s, unsigned int layer, unsigned int rows,
			   const float *q)
{
	for (unsigned int h = 0; h < s->heads; h++, q += s->head_dim)
		(s->settled ? measure_queries : show_queries)(s, layer, h, rows, q);
}

void balance_stats_keys(struct balance_stats *s, unsigned int layer, unsigned int pos,
			unsigned int rows, const float *k)
{
	for (unsigned int h = 0; h < s->kv_heads; h++, k += s->head_dim) {
		if (!pos)
			s->k_scale[(size_t)layer * s->kv_heads + h] = 0;
		(s->settled ? measure_keys : show_keys)(s, layer, h, rows, k);
	}
}
