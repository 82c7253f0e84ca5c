/* SPDX-License-Identifier: MIT */
/* A sampler as its options describe it: in double precision, by sorting, and without memory of its
 * own. */
#ifndef SAMPLER_REFERENCE_H
#define SAMPLER_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "llm.h"

#define MAX_HISTORY 4096

struct reference {
	struct llm_sampler_options o;
	unsigned int n_vocab;
	uint64_t random[4]; /* xoshiro256** */
	double mu;
	int32_t history[MAX_HISTORY];
	size_t n_history;
	double *logits; /* [n_vocab] */
	struct reference_token *kept; /* [n_vocab] */
	unsigned int n;
	bool by_likelihood; /* the order that tokens are drawn in */
};

struct reference_token {
	double logit, weight;
	int32_t id;
};

static uint64_t reference_turn(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

static double reference_random(struct reference *r)
{
	uint64_t *w = r->random, result = reference_turn(w[1] * 5, 7) * 9, t = w[1] << 17;

	w[2] ^= w[0];
	w[3] ^= w[1];
	w[1] ^= w[2];
	w[0] ^= w[3];
	w[2] ^= t;
	w[3] = reference_turn(w[3], 45);
	return (double)(result >> 11) * 0x1p-53;
}

static void reference_init(struct reference *r, const struct llm_sampler_options *o,
			   unsigned int n_vocab)
{
	uint64_t seed = o->seed;

	*r = (struct reference){
		.o = *o,
		.n_vocab = n_vocab,
		.mu = 2 * (o->mirostat_tau != 0 ? (double)o->mirostat_tau : 5),
		.logits = malloc(n_vocab * sizeof(*r->logits)),
		.kept = malloc(n_vocab * sizeof(*r->kept)),
	};
	for (int i = 0; i < 4; i++) {
		uint64_t z = seed += 0x9e3779b97f4a7c15u;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		r->random[i] = z ^ z >> 31;
	}
}

static void reference_fini(struct reference *r)
{
	free(r->logits);
	free(r->kept);
}

static void reference_add(struct reference *r, int32_t id)
{
	r->history[r->n_history++] = id;
}

/* ---- logits ---- */

/* The @back-th last token. */
static int32_t reference_past(const struct reference *r, size_t back)
{
	return r->history[r->n_history - 1 - back];
}

static void reference_penalise(struct reference *r)
{
	size_t last_n = r->o.penalty_last_n ? r->o.penalty_last_n : 64;
	double repeat = r->o.repeat_penalty != 0 ? (double)r->o.repeat_penalty : 1;

	for (unsigned int id = 0; id < r->n_vocab; id++) {
		double count = 0, *l = &r->logits[id];

		for (size_t i = 0; i < last_n && i < r->n_history; i++)
			count += reference_past(r, i) == (int32_t)id;
		if (count == 0)
			continue;
		*l = *l > 0 ? *l / repeat : *l * repeat;
		*l -= (double)r->o.presence_penalty + count * (double)r->o.frequency_penalty;
	}
}

static void reference_dry(struct reference *r)
{
	const struct llm_dry *d = &r->o.dry;
	size_t last_n = d->last_n ? d->last_n : 4096,
	       allowed = d->allowed_length ? d->allowed_length : 2,
	       n = r->n_history < last_n ? r->n_history : last_n;
	size_t *longest = calloc(r->n_vocab, sizeof(*longest));

	for (size_t i = 1; i < n; i++) {
		size_t same = 0, *l = &longest[reference_past(r, i - 1)];

		while (i + same < n && reference_past(r, same) == reference_past(r, i + same))
			same++;
		*l = same > *l ? same : *l;
	}
	for (unsigned int id = 0; id < r->n_vocab && d->multiplier > 0; id++)
		if (longest[id] >= allowed)
			r->logits[id] -=
				(double)d->multiplier * pow(d->base != 0 ? (double)d->base : 1.75,
							    (double)(longest[id] - allowed));
	free(longest);
}

static void reference_change(struct reference *r, const float *logits)
{
	for (unsigned int i = 0; i < r->n_vocab; i++)
		r->logits[i] = (double)logits[i];
	for (size_t i = 0; i < r->o.nr_biases; i++)
		r->logits[r->o.biases[i].id] += (double)r->o.biases[i].bias;
	reference_penalise(r);
	reference_dry(r);
}

/* ---- filters ---- */

static int by_likelihood(const void *a, const void *b)
{
	const struct reference_token *x = a, *y = b;

	if (x->logit != y->logit)
		return x->logit > y->logit ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int by_number(const void *a, const void *b)
{
	const struct reference_token *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static int by_weight(const void *a, const void *b)
{
	const struct reference_token *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? -1 : 1;
	return by_number(a, b);
}

static void reference_sort(struct reference *r, int (*order)(const void *, const void *))
{
	qsort(r->kept, r->n, sizeof(*r->kept), order);
}

static double reference_max(const struct reference *r)
{
	double max = -INFINITY;

	for (unsigned int i = 0; i < r->n; i++)
		max = fmax(max, r->kept[i].logit);
	return max;
}

/* The probability of a kept token is exp(logit - this). */
static double reference_norm(const struct reference *r)
{
	double max = reference_max(r), sum = 0;

	for (unsigned int i = 0; i < r->n; i++)
		sum += exp(r->kept[i].logit - max);
	return max + log(sum);
}

static double reference_entropy(const struct reference *r)
{
	double norm = reference_norm(r), entropy = 0;

	for (unsigned int i = 0; i < r->n; i++)
		entropy -= exp(r->kept[i].logit - norm) * (r->kept[i].logit - norm);
	return entropy;
}

/* Keeps the first ones that make up @p. */
static void reference_keep(struct reference *r, double p)
{
	double norm = reference_norm(r), sum = 0;

	for (unsigned int i = 0; i < r->n; i++) {
		sum += exp(r->kept[i].logit - norm);
		if (sum >= p)
			r->n = i + 1;
	}
}

static void reference_keep_from(struct reference *r, double least)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < r->n; i++)
		if (r->kept[i].logit >= least)
			r->kept[n++] = r->kept[i];
	r->n = n;
}

static void reference_sigma(struct reference *r)
{
	double mean = 0, squares = 0;

	for (unsigned int i = 0; i < r->n; i++)
		mean += r->kept[i].logit / r->n;
	for (unsigned int i = 0; i < r->n; i++)
		squares += (r->kept[i].logit - mean) * (r->kept[i].logit - mean) / r->n;
	if (r->o.top_n_sigma > 0)
		reference_keep_from(r, reference_max(r) - (double)r->o.top_n_sigma * sqrt(squares));
}

static void reference_typical(struct reference *r)
{
	double norm = reference_norm(r), entropy = reference_entropy(r);

	if (r->o.typical_p <= 0 || r->o.typical_p >= 1)
		return;
	for (unsigned int i = 0; i < r->n; i++)
		r->kept[i].weight = fabs(norm - r->kept[i].logit - entropy);
	reference_sort(r, by_weight);
	reference_keep(r, (double)r->o.typical_p);
}

static void reference_xtc(struct reference *r)
{
	double norm;
	unsigned int likely = 0;

	if (r->o.xtc_probability <= 0 || r->o.xtc_threshold > 0.5f ||
	    reference_random(r) >= (double)r->o.xtc_probability)
		return;
	norm = reference_norm(r);
	reference_sort(r, by_likelihood);
	while (likely < r->n && exp(r->kept[likely].logit - norm) >= (double)r->o.xtc_threshold)
		likely++;
	if (likely < 2)
		return;
	r->n -= likely - 1;
	memmove(r->kept, r->kept + likely - 1, r->n * sizeof(*r->kept));
}

/* ---- drawing ---- */

static double reference_temperature(const struct reference *r)
{
	double t = (double)r->o.temperature, range = (double)r->o.temperature_range,
	       least = fmax(t - range, 0), exponent = (double)r->o.temperature_exponent;

	if (range <= 0 || r->n < 2)
		return t;
	return fmax(least + (t + range - least) * pow(reference_entropy(r) / log(r->n),
						      exponent > 0 ? exponent : 1),
		    1e-3);
}

static int32_t reference_draw(struct reference *r, double temperature)
{
	double max = reference_max(r), sum = 0, at;

	reference_sort(r, r->by_likelihood ? by_likelihood : by_number);
	for (unsigned int i = 0; i < r->n; i++)
		sum += exp((r->kept[i].logit - max) / temperature);
	at = reference_random(r) * sum;
	for (unsigned int i = 0; i < r->n; i++) {
		at -= exp((r->kept[i].logit - max) / temperature);
		if (at < 0)
			return r->kept[i].id;
	}
	return r->kept[r->n - 1].id;
}

static int32_t reference_filtered(struct reference *r)
{
	unsigned int likely = 0, top_k = r->o.top_k > 0 ? (unsigned int)r->o.top_k : 0;
	bool ordered = r->o.top_p < 1 || (r->o.typical_p > 0 && r->o.typical_p < 1);
	double least;

	reference_sigma(r);
	least = r->o.min_p > 0 ? reference_max(r) + log((double)r->o.min_p) : -INFINITY;
	for (unsigned int i = 0; i < r->n; i++)
		likely += ordered || r->kept[i].logit >= least;
	r->by_likelihood = r->o.top_p < 1 || (top_k && likely > top_k);
	reference_sort(r, by_likelihood);
	r->n = top_k && top_k < r->n ? top_k : r->n;
	reference_typical(r);
	if (r->o.top_p < 1) {
		reference_sort(r, by_likelihood);
		reference_keep(r, (double)r->o.top_p);
	}
	/* As likely as the likeliest of those left. */
	if (r->o.min_p > 0)
		reference_keep_from(r, reference_max(r) + log((double)r->o.min_p));
	reference_xtc(r);
	return reference_draw(r, reference_temperature(r));
}

static void reference_mirostat_1(struct reference *r, double temperature)
{
	double both = 0, squares = 0, s, k;
	unsigned int n = r->n < 100 ? r->n : 100;

	reference_sort(r, by_likelihood);
	for (unsigned int i = 0; i + 1 < n; i++) {
		double t = log((i + 2.0) / (i + 1.0));

		both += t * (r->kept[i].logit - r->kept[i + 1].logit) / temperature;
		squares += t * t;
	}
	s = squares > 0 ? both / squares : 0;
	k = pow((s - 1) * pow(2, r->mu) / (1 - pow(r->n_vocab, 1 - s)), 1 / s);
	if (!isnan(k) && k < r->n)
		r->n = k < 1 ? 1 : (unsigned int)k;
}

static void reference_mirostat_2(struct reference *r, double temperature)
{
	double max = reference_max(r), sum = 0;

	for (unsigned int i = 0; i < r->n; i++)
		sum += exp((r->kept[i].logit - max) / temperature);
	reference_keep_from(r, fmin(max, max + temperature * (log(sum) - r->mu * log(2))));
}

/* The token's surprise, in bits. */
static double reference_surprise(const struct reference *r, int32_t id, double temperature)
{
	double max = reference_max(r), sum = 0;

	for (unsigned int i = 0; i < r->n; i++)
		sum += exp((r->kept[i].logit - max) / temperature);
	return log2(sum) - (r->logits[id] - max) / temperature / log(2);
}

/* Draws a token. The caller adds that, or the sampler's. */
static int32_t reference_sample(struct reference *r, const float *logits)
{
	double t = (double)r->o.temperature;
	int32_t best = 0;

	reference_change(r, logits);
	r->n = 0;
	for (unsigned int i = 0; i < r->n_vocab; i++) {
		if (r->logits[i] > r->logits[best])
			best = (int32_t)i;
		if (isfinite(r->logits[i]))
			r->kept[r->n++] =
				(struct reference_token){ .logit = r->logits[i], .id = (int32_t)i };
	}
	if (t <= 0)
		return best;
	if (!r->o.mirostat)
		return reference_filtered(r);
	if (r->o.mirostat == 1)
		reference_mirostat_1(r, t);
	else
		reference_mirostat_2(r, t);
	r->by_likelihood = false;
	return reference_draw(r, t);
}

/* The sampler chose @id. */
static void reference_accept(struct reference *r, int32_t id)
{
	double eta = r->o.mirostat_eta != 0 ? (double)r->o.mirostat_eta : (double)0.1f,
	       tau = r->o.mirostat_tau != 0 ? (double)r->o.mirostat_tau : 5;

	reference_add(r, id);
	if (r->o.mirostat && r->o.temperature > 0)
		r->mu -= eta * (reference_surprise(r, id, (double)r->o.temperature) - tau);
}

#endif /* SAMPLER_REFERENCE_H */
