// SPDX-License-Identifier: MIT
/* Which candidates filters drop, and what they need to know of the others. */
#include "candidates_private.h"

#include <math.h>

#include "cpu_kernels.h"

/* Drops the candidates behind @last in the order of @keys: greatest first, equal ones by id. */
static void drop_behind(struct candidates *c, const float *keys, const struct candidate *last)
{
	const struct candidate_memory *m = &c->of_list;
	const struct candidate_list *l = &c->list;
	unsigned int n = 0;

	for (unsigned int i = 0; i < l->n; i++) {
		float logit = l->logits[i], key = keys[i];
		int32_t id = id_at(l, i);

		m->logits[n] = logit;
		m->ids[n] = id;
		n += (key > last->logit) | ((key == last->logit) & (id <= last->id));
	}
	list_set(&c->list, m, n);
	c->buckets->list = NULL;
}

void candidates_drop(struct candidates *c, const struct candidate *last)
{
	drop_behind(c, c->list.logits, last);
}

void candidates_drop_below(struct candidates *c, double least)
{
	const struct candidate last = { float_from(least), INT32_MAX, 0 };

	drop_behind(c, c->list.logits, &last);
}

/* The entropy of the weights, which are those without temperature, and their sum. */
static double weighed_entropy(const struct candidate_list *l, float max, double sum)
{
	double surprise = 0;

	for (unsigned int i = 0; i < l->n; i++)
		surprise -= l->weights[i] * ((double)l->logits[i] - (double)max);
	return surprise / sum + log(sum);
}

double candidates_entropy(struct candidates *c, float max)
{
	return weighed_entropy(&c->list, max, candidates_weigh(c, max, 1));
}

void candidates_keep_typical(struct candidates *c, float max, double p)
{
	double sum = candidates_weigh(c, max, 1), reached,
	       /* Of a token whose surprise is the entropy. */
		expected = log(sum) - weighed_entropy(&c->list, max, sum) + (double)max;
	struct candidate_list list = c->list;
	struct candidate last;

	for (unsigned int i = 0; i < list.n; i++)
		c->scores[i] = -(float)fabs((double)list.logits[i] - expected);
	c->list.logits = c->scores;
	last = candidates_find(c, p * sum, false, &reached);
	c->list = list;
	drop_behind(c, c->scores, &last);
}

static bool is_behind(const struct candidate *a, const struct candidate *b)
{
	return by_order(a, b) > 0;
}

/* Drops the candidates before @first. */
static void drop_before(struct candidates *c, const struct candidate *first)
{
	const struct candidate_memory *m = &c->of_list;
	struct candidate next;
	unsigned int n = 0;

	for (unsigned int i = 0; i < c->list.n; i++) {
		next = list_at(&c->list, i);
		m->logits[n] = next.logit;
		m->ids[n] = next.id;
		n += !is_behind(first, &next);
	}
	list_set(&c->list, m, n);
	c->buckets->list = NULL;
}

void candidates_drop_top(struct candidates *c, float max, double threshold)
{
	double least = threshold * candidates_weigh(c, max, 1);
	struct candidate last = { 0 }, next;
	unsigned int likely = 0;

	for (unsigned int i = 0; i < c->list.n; i++) {
		if (c->list.weights[i] < least)
			continue;
		next = list_at(&c->list, i);
		if (!likely++ || is_behind(&next, &last))
			last = next;
	}
	if (likely > 1)
		drop_before(c, &last);
}

float candidates_max(const struct candidates *c)
{
	float least, most;

	cpu_kernels_get(NULL)->range(&least, &most, c->list.logits, c->list.n);
	return most;
}

double candidates_mean(const struct candidates *c, double *deviation)
{
	double sum = 0, squares = 0, mean;

	for (unsigned int i = 0; i < c->list.n; i++)
		sum += (double)c->list.logits[i];
	mean = sum / c->list.n;
	for (unsigned int i = 0; i < c->list.n; i++) {
		double apart = (double)c->list.logits[i] - mean;

		squares += apart * apart;
	}
	*deviation = sqrt(squares / c->list.n);
	return mean;
}
