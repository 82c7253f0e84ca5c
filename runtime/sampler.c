/* SPDX-License-Identifier: MIT */
/*
 * Sampling of the next token.
 *
 * min_p keeps the tokens that are at least min_p times as likely as the likeliest one, top_k the
 * likeliest k of these, top_p the fewest of these that together reach top_p. The sampler then draws
 * one by softmax(logits / temperature): the first one with which the sum of probabilities exceeds
 * a random number, in the order of ids, or in that of likelihood if top_k or top_p dropped tokens.
 * The filters use the probabilities without temperature. A seed gives the same tokens on every
 * host: xoshiro256** seeded by splitmix64, ties by token id, exp() of cpu_kernels.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "candidates.h"
#include "cpu_kernels.h"
#include "llm.h"
#include "llm_fail.h"

#define ARGMAX_PART 4096

struct llm_sampler {
	struct llm_sampler_options opts;
	uint64_t state[4];
	struct candidates candidates;
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
	if (!s || candidates_init(&s->candidates, n_vocab)) {
		llm_sampler_free(s);
		return llm_fail(-ENOMEM, "no memory for a sampler of %u tokens", n_vocab);
	}
	s->opts = *opts;
	sampler_seed(s, opts->seed);
	*sampler = s;
	return 0;
}

void llm_sampler_free(struct llm_sampler *sampler)
{
	if (!sampler)
		return;
	candidates_fini(&sampler->candidates);
	free(sampler);
}

int32_t llm_argmax(const float *logits, unsigned int n_vocab)
{
	const struct cpu_kernels *kernels = cpu_kernels_get(NULL);
	float max = -INFINITY, least, part_max;
	unsigned int part = 0, n, i;

	/* Only the first part that has the maximum is read again. */
	for (i = 0; i < n_vocab; i += ARGMAX_PART) {
		n = n_vocab - i < ARGMAX_PART ? n_vocab - i : ARGMAX_PART;
		kernels->range(&least, &part_max, logits + i, n);
		if (part_max > max) {
			max = part_max;
			part = i;
		}
	}
	for (i = part; i < n_vocab; i++)
		if (logits[i] == max)
			return (int32_t)i;
	return 0;
}

/* Lists the tokens that min_p and top_k keep. True: top_k dropped some. */
static bool sampler_filter(struct llm_sampler *s, const float *logits, float max)
{
	double least = s->opts.min_p > 0 ? (double)max + log((double)s->opts.min_p) : -INFINITY,
	       sum;
	unsigned int top_k = s->opts.top_k > 0 ? (unsigned int)s->opts.top_k : 0;
	struct candidates *c = &s->candidates;
	struct candidate last;

	if (candidates_list(c, logits, least, top_k) <= top_k || !top_k)
		return false;
	if (c->list.n > top_k) {
		candidates_count(c);
		last = candidates_find(c, top_k, false, &sum);
		candidates_drop(c, &last);
	}
	return true;
}

/* A random number in 0..1 */
static double sampler_random(struct llm_sampler *s)
{
	return (double)(sampler_next(s) >> 11) * 0x1p-53;
}

int32_t llm_sample(struct llm_sampler *s, const float *logits)
{
	struct candidates *c = &s->candidates;
	struct candidate last;
	int32_t best;
	bool dropped;
	double sum;
	float max;

	if (s->opts.temperature <= 0)
		return llm_argmax(logits, c->n_vocab);
	best = candidates_best(c, logits);
	max = logits[best];
	/* An infinite or NaN maximum gives no distribution to draw from. */
	if (!isfinite(max))
		return best;
	dropped = sampler_filter(s, logits, max);
	if (s->opts.top_p < 1) {
		sum = candidates_weigh(c, max, 1);
		last = candidates_find(c, (double)s->opts.top_p * sum, false, &sum);
		/* Without a temperature, the weights and the sum of those kept are known. */
		if (s->opts.temperature == 1)
			return candidates_find(c, sampler_random(s) * sum, true, &sum).id;
		candidates_drop(c, &last);
		dropped = true;
	}
	sum = candidates_weigh(c, max, s->opts.temperature);
	if (!dropped)
		return candidates_find_by_id(c, sampler_random(s) * sum);
	return candidates_find(c, sampler_random(s) * sum, true, &sum).id;
}
