/* SPDX-License-Identifier: MIT */
/*
 * Choosing the next token.
 *
 * In this order: keep the top_k likeliest, keep those at least min_p times as likely as the likeliest, keep the fewest
 * that together reach top_p, then draw one by softmax(logits / temperature). The filters see the probabilities before
 * the temperature. A seed gives the same tokens on every host: xoshiro256** seeded by splitmix64, ties by token id.
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

int llm_sampler_create(const struct llm_sampler_options *opts, unsigned int n_vocab, struct llm_sampler **sampler)
{
	struct llm_sampler *s;

	*sampler = NULL;
	if (!n_vocab)
		return llm_fail(-EINVAL, "a sampler for an empty vocabulary");
	if (isnan(opts->temperature) || isinf(opts->temperature))
		return llm_fail(-EINVAL, "temperature %g is not a finite number", (double)opts->temperature);
	if (isnan(opts->top_p) || opts->top_p <= 0)
		return llm_fail(-EINVAL, "top_p %g leaves no token; give a number above 0", (double)opts->top_p);
	if (isnan(opts->min_p) || opts->min_p > 1)
		return llm_fail(-EINVAL, "min_p %g leaves no token; give a number up to 1", (double)opts->min_p);
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
		/* A NaN never wins, not even as the first. */
		if (logits[i] > logits[best] || (isnan(logits[best]) && !isnan(logits[i])))
			best = i;
	}
	return (int32_t)best;
}

/* Likeliest first, of equal ones the lowest id. */
static int candidate_cmp(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->logit != y->logit)
		return x->logit > y->logit ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* Number of the sorted candidates that the filters keep. */
static unsigned int sampler_keep(struct llm_sampler *s, unsigned int n)
{
	const struct candidate *c = s->candidates;
	double sum = 0, reached = 0;

	if (s->opts.top_k > 0 && (unsigned int)s->opts.top_k < n)
		n = (unsigned int)s->opts.top_k;
	if (s->opts.min_p > 0) {
		double least = (double)c[0].logit + log((double)s->opts.min_p);
		unsigned int kept = 1;

		while (kept < n && (double)c[kept].logit >= least)
			kept++;
		n = kept;
	}
	if (s->opts.top_p >= 1)
		return n;
	for (unsigned int i = 0; i < n; i++)
		sum += s->p[i] = exp((double)c[i].logit - (double)c[0].logit);
	for (unsigned int i = 0; i < n; i++) {
		reached += s->p[i];
		if (reached >= (double)s->opts.top_p * sum)
			return i + 1;
	}
	return n;
}

int32_t llm_sample(struct llm_sampler *s, const float *logits)
{
	unsigned int n = 0;
	double sum = 0, at;

	if (s->opts.temperature <= 0)
		return llm_argmax(logits, s->n_vocab);
	for (unsigned int i = 0; i < s->n_vocab; i++) {
		if (isfinite(logits[i]))
			s->candidates[n++] = (struct candidate){ .logit = logits[i], .id = (int32_t)i };
	}
	if (!n)
		return llm_argmax(logits, s->n_vocab);
	qsort(s->candidates, n, sizeof(*s->candidates), candidate_cmp);
	n = sampler_keep(s, n);
	for (unsigned int i = 0; i < n; i++) {
		s->p[i] = exp(((double)s->candidates[i].logit - (double)s->candidates[0].logit) /
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
