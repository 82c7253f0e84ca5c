/* SPDX-License-Identifier: MIT */
/*
 * The candidates for the next token: the tokens that a sampler's filters keep, and their order, the
 * greatest logit first and equal ones by id.
 *
 * No vocabulary is sorted. What a sampler asks for is the candidate at which the first ones' sum of
 * weights reaches a number: the k-th, or the last one of those that make up top_p, or the one that
 * is drawn. To find it, candidates are counted into buckets of logits, and only the bucket in which
 * the sum is reached is looked at, in the same way again until it has few. That takes a time that
 * is linear in the vocabulary, whatever the distribution is.
 */
#ifndef CANDIDATES_H
#define CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

struct candidate {
	float logit;
	int32_t id;
	double weight;
};

struct candidate_list {
	unsigned int n;
	const float *logits; /* [n], each of them finite */
	const int32_t *ids; /* [n], ascending; NULL: 0..n - 1 */
	double *weights; /* [n] */
};

struct candidate_memory {
	float *logits;
	int32_t *ids;
	double *weights;
};

struct candidate_buckets;

struct candidates {
	unsigned int n_vocab;
	/* Valid as long as the logits that it was made from. */
	struct candidate_list list;
	/* The rest is private to candidates.c. */
	struct candidate_list inner; /* those of a bucket */
	struct candidate_memory of_list, of_inner; /* [n_vocab] */
	struct candidate_buckets *buckets;
	float *block_max;
	float *scores; /* [n_vocab]: an order other than that of logits */
};

/* 0 or -ENOMEM; in both cases free it with candidates_fini(). */
int candidates_init(struct candidates *c, unsigned int n_vocab);
void candidates_fini(struct candidates *c);

/* The token with the greatest logit; of equal ones the lowest id. Never one with a NaN, unless all
 * are. */
int32_t candidates_best(struct candidates *c, const float *logits);
/* Lists the tokens with finite logits of at least @least, and returns their number. @top_k > 0:
 * some that are not among the first @top_k may be missing in the list. Call it after
 * candidates_best(), whose result has a finite logit. */
unsigned int candidates_list(struct candidates *c, const float *logits, double least,
			     unsigned int top_k);
/* Sets the weights to exp((logit - @max) / @temperature); returns their sum. */
double candidates_weigh(struct candidates *c, float max, float temperature);
/* Sets all weights to 1. */
void candidates_count(struct candidates *c);
/*
 * The first candidate in order with which the sum of weights reaches @target; @beyond: exceeds it.
 * The last candidate with a weight if rounding prevents that. *@sum: the sum with it.
 */
struct candidate candidates_find(struct candidates *c, double target, bool beyond, double *sum);
/* Drops the candidates behind @last. */
void candidates_drop(struct candidates *c, const struct candidate *last);
/* Drops those with a logit below @least, which the greatest is not. */
void candidates_drop_below(struct candidates *c, double least);
/* Keeps those whose surprise is nearest to the entropy, until they make up @p of the probability;
 * of equally near ones the lowest ids. @max: no logit is above it. */
void candidates_keep_typical(struct candidates *c, float max, double p);
/* If two or more are at least as likely as @threshold: drops those before the last one of them. */
void candidates_drop_top(struct candidates *c, float max, double threshold);
/* The greatest logit in the list. */
float candidates_max(const struct candidates *c);
/* The entropy in nats of the probabilities without temperature. */
double candidates_entropy(struct candidates *c, float max);
/* The mean of the list's logits, and their standard deviation. */
double candidates_mean(const struct candidates *c, double *deviation);
/* candidates_find() with @beyond, in the order of ids. */
int32_t candidates_find_by_id(const struct candidates *c, double target);

#endif /* CANDIDATES_H */
