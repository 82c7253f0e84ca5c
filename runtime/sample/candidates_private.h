/* SPDX-License-Identifier: MIT */
/* Inside candidates*.c. */
#ifndef CANDIDATES_PRIVATE_H
#define CANDIDATES_PRIVATE_H

#include <math.h>

#include "candidates.h"

#define NR_BUCKETS 4096

struct candidate_buckets {
	double weight[NR_BUCKETS]; /* sums */
	int32_t *of; /* [n_vocab]: the bucket of each candidate of a list */
	const struct candidate_list *list; /* whose buckets these are; NULL: of none */
};

/* Makes @l a list of the first @n in @m. */
static inline void list_set(struct candidate_list *l, const struct candidate_memory *m,
			    unsigned int n)
{
	*l = (struct candidate_list){
		.n = n,
		.logits = m->logits,
		.ids = m->ids,
		.weights = m->weights,
	};
}

static inline int32_t id_at(const struct candidate_list *l, unsigned int i)
{
	return l->ids ? l->ids[i] : (int32_t)i;
}

static inline struct candidate list_at(const struct candidate_list *l, unsigned int i)
{
	return (struct candidate){ l->logits[i], id_at(l, i), l->weights[i] };
}

/* The smallest float that is at least @x: the same floats are at least that. */
static inline float float_from(double x)
{
	float f = (float)x;

	return (double)f < x ? nextafterf(f, INFINITY) : f;
}

/* Orders the greatest logit first, equal ones by id. */
static inline int by_order(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->logit != y->logit)
		return x->logit > y->logit ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

#endif /* CANDIDATES_PRIVATE_H */
