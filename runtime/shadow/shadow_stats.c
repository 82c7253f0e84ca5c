// SPDX-License-Identifier: MIT
#include "shadow_stats.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"

static size_t nr_inputs(const struct shadow_stats *st)
{
	return (size_t)st->n_layer * SHADOW_INPUTS;
}

int shadow_stats_create(struct shadow_stats *st, unsigned int n_layer,
			const unsigned int channels[SHADOW_INPUTS], unsigned int max_chunks,
			double share)
{
	unsigned int most = 0;
	bool failed = false;

	*st = (struct shadow_stats){ .n_layer = n_layer, .max_chunks = max_chunks, .share = share };
	for (unsigned int i = 0; i < SHADOW_INPUTS; i++)
		most = channels[i] > most ? channels[i] : most;
	st->chunk = calloc(2 * (size_t)most, sizeof(*st->chunk));
	st->inputs = calloc(nr_inputs(st), sizeof(*st->inputs));
	for (size_t i = 0; st->inputs && i < nr_inputs(st); i++) {
		struct shadow_stats_input *in = &st->inputs[i];

		in->k = channels[i % SHADOW_INPUTS];
		in->largest = calloc(in->k, sizeof(*in->largest));
		in->squares = calloc(in->k, sizeof(*in->squares));
		in->exceeded = calloc(max_chunks, sizeof(*in->exceeded));
		in->outliers = calloc(in->k, sizeof(*in->outliers));
		in->chunks = calloc(in->k, sizeof(*in->chunks));
		failed |= !in->largest || !in->squares || !in->exceeded || !in->outliers ||
			  !in->chunks;
	}
	if (st->chunk && st->inputs && !failed)
		return 0;
	shadow_stats_free(st);
	return llm_fail(-ENOMEM, "no memory for the channels of %u layers", n_layer);
}

void shadow_stats_free(struct shadow_stats *st)
{
	for (size_t i = 0; st->inputs && i < nr_inputs(st); i++) {
		free(st->inputs[i].largest);
		free(st->inputs[i].squares);
		free(st->inputs[i].exceeded);
		free(st->inputs[i].outliers);
		free(st->inputs[i].chunks);
	}
	free(st->inputs);
	free(st->chunk);
	memset(st, 0, sizeof(*st));
}

static int descending(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x < y) - (x > y);
}

static int ascending(const void *a, const void *b)
{
	return descending(b, a);
}

/* The value that the share of the channels exceed; at least one channel, and not all. */
static float exceeded(const struct shadow_stats *st, float *largest, unsigned int k)
{
	long n = lround(st->share * k);

	n = n < 1 ? 1 : n;
	qsort(largest, k, sizeof(*largest), descending);
	return largest[n < (long)k ? n : (long)k - 1];
}

static float magnitude(const struct shadow_stats_input *in, float x, unsigned int c)
{
	return fabsf(in->divisors ? x / in->divisors[c] : x);
}

static void fail(struct shadow_stats *st, const struct shadow_stats_input *in)
{
	st->failed_layer = (unsigned int)((in - st->inputs) / SHADOW_INPUTS);
	st->failed_input = (unsigned int)((in - st->inputs) % SHADOW_INPUTS);
	st->failed = true;
}

static void add_largest(struct shadow_stats *st, struct shadow_stats_input *in, unsigned int rows,
			const float *x)
{
	float *largest = st->chunk, *sorted = st->chunk + in->k;

	memset(largest, 0, in->k * sizeof(*largest));
	for (unsigned int r = 0; r < rows; r++, x += in->k)
		for (unsigned int c = 0; c < in->k; c++) {
			float v = magnitude(in, x[c], c);

			if (!(v <= FLT_MAX))
				return fail(st, in);
			largest[c] = v > largest[c] ? v : largest[c];
			in->squares[c] += (double)v * v;
		}
	in->n_rows += rows;
	for (unsigned int c = 0; c < in->k; c++)
		in->largest[c] = fmaxf(in->largest[c], largest[c]);
	memcpy(sorted, largest, in->k * sizeof(*sorted));
	if (in->nr_chunks < st->max_chunks)
		in->exceeded[in->nr_chunks++] = exceeded(st, sorted, in->k);
}

static void add_outliers(struct shadow_stats *st, struct shadow_stats_input *in, unsigned int rows,
			 const float *x)
{
	float *seen = st->chunk, bound = 127 * in->scale;

	memset(seen, 0, in->k * sizeof(*seen));
	for (unsigned int r = 0; r < rows; r++, x += in->k)
		for (unsigned int c = 0; c < in->k; c++) {
			if (magnitude(in, x[c], c) <= bound)
				continue;
			in->outliers[c]++;
			seen[c] = 1;
		}
	for (unsigned int c = 0; c < in->k; c++)
		in->chunks[c] += seen[c] > 0;
	in->nr_chunks++;
}

void shadow_stats_add(struct shadow_stats *st, unsigned int layer, unsigned int input,
		      unsigned int rows, const float *x)
{
	struct shadow_stats_input *in = &st->inputs[(size_t)layer * SHADOW_INPUTS + input];

	if (st->failed)
		return;
	if (st->counting)
		add_outliers(st, in, rows, x);
	else
		add_largest(st, in, rows, x);
}

void shadow_stats_restart(struct shadow_stats *st)
{
	for (size_t i = 0; i < nr_inputs(st); i++) {
		struct shadow_stats_input *in = &st->inputs[i];

		in->nr_chunks = 0;
		in->n_rows = 0;
		memset(in->squares, 0, in->k * sizeof(*in->squares));
		memset(in->largest, 0, in->k * sizeof(*in->largest));
	}
}

/* Sorts the values. */
static float median(float *v, unsigned int n)
{
	qsort(v, n, sizeof(*v), ascending);
	return n % 2 ? v[n / 2] : v[n / 2 - 1] / 2 + v[n / 2] / 2;
}

static float limit(const struct shadow_stats_input *in)
{
	float max = 0;

	for (unsigned int c = 0; c < in->k; c++)
		max = fmaxf(max, in->largest[c]);
	return max;
}

/*
 * It must be a number that a file may have (shadow_read()). If nearly all channels are always 0, so
 * is the median; the scale then holds everything.
 */
static float scale(struct shadow_stats_input *in)
{
	float max = limit(in), s = in->nr_chunks ? median(in->exceeded, in->nr_chunks) / 127 : 0;

	if (!isnormal(s) || !isfinite(max / s))
		s = max / 127;
	return isnormal(s) ? s : 1;
}

void shadow_stats_count(struct shadow_stats *st)
{
	for (size_t i = 0; i < nr_inputs(st); i++) {
		st->inputs[i].scale = scale(&st->inputs[i]);
		st->inputs[i].nr_chunks = 0;
	}
	st->counting = true;
}

struct channel {
	uint32_t outliers;
	int32_t number;
};

/* Those with most outliers first; of equals the first. */
static int by_outliers(const void *a, const void *b)
{
	const struct channel *x = a, *y = b;

	if (x->outliers != y->outliers)
		return x->outliers < y->outliers ? 1 : -1;
	return (x->number > y->number) - (x->number < y->number);
}

static int by_number(const void *a, const void *b)
{
	const int32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Writes the hot channels to @hot, ascending; returns their number. @sorted: room for all. */
static uint32_t find_hot(const struct shadow_stats_input *in, double share, struct channel *sorted,
			 int32_t *hot)
{
	uint64_t all = 0, those = 0;
	uint32_t n = 0;

	for (unsigned int c = 0; c < in->k; c++) {
		sorted[c] = (struct channel){ in->outliers[c], (int32_t)c };
		all += in->outliers[c];
	}
	qsort(sorted, in->k, sizeof(*sorted), by_outliers);
	while (n < in->k && (double)those < share * (double)all) {
		those += sorted[n].outliers;
		hot[n] = sorted[n].number;
		n++;
	}
	qsort(hot, n, sizeof(*hot), by_number);
	return n;
}

static void finish_input(const struct shadow_stats_input *in, struct shadow_input *out)
{
	double chunks = in->nr_chunks ? in->nr_chunks : 1;
	uint64_t all = 0, hot = 0;

	for (unsigned int c = 0; c < in->k; c++)
		all += in->chunks[c];
	for (uint32_t i = 0; i < out->nr_hot; i++)
		hot += in->chunks[out->hot[i]];
	out->scale = in->scale;
	out->limit = limit(in);
	/* Of an input that is always 0, or nearly so. */
	if (!isnormal(out->limit / 127))
		out->limit = 127 * in->scale;
	out->importance = out->limit / out->scale;
	out->channels = (double)all / chunks;
	out->cold = (double)(all - hot) / chunks;
	out->kept = true;
}

int shadow_stats_finish(const struct shadow_stats *st, double hot, struct shadow *s)
{
	size_t channels = 0, most = 1, used = 0;
	struct channel *sorted;

	for (size_t i = 0; i < nr_inputs(st); i++) {
		channels += st->inputs[i].k;
		most = st->inputs[i].k > most ? st->inputs[i].k : most;
	}
	*s = (struct shadow){ .n_layer = st->n_layer };
	s->inputs = calloc(nr_inputs(st), sizeof(*s->inputs));
	s->hot = calloc(channels, sizeof(*s->hot));
	sorted = calloc(most, sizeof(*sorted));
	if (!s->inputs || !s->hot || !sorted) {
		free(sorted);
		shadow_free(s);
		return llm_fail(-ENOMEM, "no memory for %zu channels", channels);
	}
	for (size_t i = 0; i < nr_inputs(st); i++) {
		struct shadow_input *out = &s->inputs[i];

		out->hot = s->hot + used;
		out->nr_hot = find_hot(&st->inputs[i], hot, sorted, s->hot + used);
		used += out->nr_hot;
		finish_input(&st->inputs[i], out);
	}
	free(sorted);
	return 0;
}
