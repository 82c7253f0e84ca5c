/* SPDX-License-Identifier: MIT */
/*
 * Sampling of the next token.
 *
 * min_p keeps the tokens that are at least min_p times as likely as the likeliest one, top_k the
 * likeliest k of these, top_p the fewest of these that together reach top_p. The sampler then draws
 * one by softmax(logits / temperature). The filters use the probabilities without temperature, and
 * only the tokens that they keep are sorted. A seed gives the same tokens on every host:
 * xoshiro256** seeded by splitmix64, ties by token id.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "llm.h"
#include "llm_fail.h"

struct candidate {
	float logit;
	int32_t id;
};

struct llm_sampler {
	struct llm_sampler_options opts;
	unsigned int n_vocab;
	uint64_t state[4];
	struct candidate *candidates; /* [n_vocab] */
	double *p; /* [n_vocab] */
};

static uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

/* xoshiro256** */
static uint64_t sampler_next(struct llm_sampler *s)
{
	uint64_t *w = s->state, result = rotl(w[1] * 5, 7) * 9, t = w[1] << 17;

	w[2] ^= w[0];
	w[3] ^= w[1];
	w[1] ^= w[2];
	w[0] ^= w[3];
	w[2] ^= t;
	w[3] = rotl(w[3], 45);
	return result;
}

static void sampler_seed(struct llm_sampler *s, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		uint64_t z = seed += 0x9e3779b97f4a7c15u;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		s->state[i] = z ^ z >> 31;
	}
}

int llm_sampler_create(const struct llm_sampler_options *opts, unsigned int n_vocab,
		       struct llm_sampler **sampler)
{
	struct llm_sampler *s;

	*sampler = NULL;
	if (!n_vocab)
		return llm_fail(-EINVAL, "a sampler for an empty vocabulary");
	if (isnan(opts->temperature) || isinf(opts->temperature))
		return llm_fail(-EINVAL, "temperature %g is not a finite number",
				(double)opts->temperature);
	if (isnan(opts->top_p) || opts->top_p <= 0)
		return llm_fail(-EINVAL, "top_p %g leaves no token; give a number above 0",
				(double)opts->top_p);
	if (isnan(opts->min_p) || opts->min_p > 1)
		return llm_fail(-EINVAL, "min_p %g leaves no token; give a number up to 1",
				(double)opts->min_p);
	s = calloc(1, sizeof(*s));
	if (s) {
		s->candidates = malloc(n_vocab * sizeof(*s->candidates));
		s->p = malloc(n_vocab * sizeof(*s->p));
	}
	if (!s || !s->candidates || !s->p) {
		llm_sampler_free(s);
		return llm_fail(-ENOMEM, "no memory for a sampler of %u tokens", n_vocab);
	}
	s->opts = *opts;
	s->n_vocab = n_vocab;
	sampler_seed(s, opts->seed);
	*sampler = s;
	return 0;
}

void llm_sampler_free(struct llm_sampler *sampler)
{
	if (!sampler)
		return;
	free(sampler->candidates);
	free(sampler->p);
	free(sampler);
}

int32_t llm_argmax(const float *logits, unsigned int n_vocab)
{
	unsigned int best = 0;

	for (unsigned int i = 1; i < n_vocab; i++) {
		/* A NaN never wins, not even at index 0. */
		if (logits[i] > logits[best] || (isnan(logits[best]) && !isnan(logits[i])))
			best = i;
	}
	return (int32_t)best;
}

/* Orders the greatest logit first, equal ones by id. */
static int candidate_cmp(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->logit != y->logit)
		return x->logit > y->logit ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void candidate_swap(struct candidate *a, struct candidate *b)
{
	struct candidate t = *a;

	*a = *b;
	*b = t;
}

/* Moves the first @k of @n to the front, sorted: a quickselect, then a sort of these only. */
static void candidates_sort(struct candidate *c, unsigned int n, unsigned int k)
{
	unsigned int first = 0, end = n;

	while (k < n && end - first > 1) {
		unsigned int at = first;

		candidate_swap(&c[first + (end - first) / 2], &c[end - 1]);
		for (unsigned int i = first; i + 1 < end; i++) {
			if (candidate_cmp(&c[i], &c[end - 1]) < 0)
				candidate_swap(&c[i], &c[at++]);
		}
		candidate_swap(&c[at], &c[end - 1]);
		if (at == k)
			break;
		if (at < k)
			first = at + 1;
		else
			end = at;
	}
	qsort(c, k, sizeof(*c), candidate_cmp);
}

/* Returns how many of the @n likeliest candidates reach top_p together, and sorts these. */
static unsigned int sampler_top_p(struct llm_sampler *s, unsigned int n, float max)
{
	double sum = 0, reached = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += exp((double)s->candidates[i].logit - (double)max);
	/* A few candidates are usually enough; a flat distribution takes more rounds. */
	for (unsigned int sorted = 0, next = 64; sorted < n; next *= 8) {
		unsigned int end = n - sorted < next ? n : sorted + next;

		candidates_sort(s->candidates + sorted, n - sorted, end - sorted);
		for (; sorted < end; sorted++) {
			reached += exp((double)s->candidates[sorted].logit - (double)max);
			if (reached >= (double)s->opts.top_p * sum)
				return sorted + 1;
		}
	}
	return n;
}

/* Moves the candidates that the filters keep to the front; returns how many they are. */
static unsigned int sampler_filter(struct llm_sampler *s, const float *logits, float max)
{
	double least = s->opts.min_p > 0 ? (double)max + log((double)s->opts.min_p) : -INFINITY;
	unsigned int n = 0;

	for (unsigned int i = 0; i < s->n_vocab; i++) {
		if (isfinite(logits[i]) && (double)logits[i] >= least)
			s->candidates[n++] =
				(struct candidate){ .logit = logits[i], .id = (int32_t)i };
	}
	if (s->opts.top_k > 0 && (unsigned int)s->opts.top_k < n) {
		candidates_sort(s->candidates, n, (unsigned int)s->opts.top_k);
		n = (unsigned int)s->opts.top_k;
	}
	return s->opts.top_p < 1 ? sampler_top_p(s, n, max) : n;
}

int32_t llm_sample(struct llm_sampler *s, const float *logits)
{
	int32_t best = llm_argmax(logits, s->n_vocab);
	float max = logits[best];
	double sum = 0, at;
	unsigned int n;

	/* An infinite or NaN maximum gives no distribution to draw from. */
	if (s->opts.temperature <= 0 || !isfinite(max))
		return best;
	n = sampler_filter(s, logits, max);
	for (unsigned int i = 0; i < n; i++) {
		s->p[i] = exp(((double)s->candidates[i].logit - (double)max) /
			      (double)s->opts.temperature);
		sum += s->p[i];
	}
	at = (double)(sampler_next(s) >> 11) * 0x1p-53 * sum;
	for (unsigned int i = 0; i + 1 < n; i++) {
		at -= s->p[i];
		if (at < 0)
			return s->candidates[i].id;
	}
	return s->candidates[n - 1].id;
}
