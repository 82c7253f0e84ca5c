// SPDX-License-Identifier: MIT
#include "candidates_private.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_kernels.h"

/* Candidates of a bucket that are sorted. */
#define FEW 256
/* Differences of logits from here on share a bucket: their probabilities are below 1e-27. */
#define MOST_APART 64.0f
#define BLOCK CPU_KERNELS_BLOCK

static int memory_init(struct candidate_memory *m, unsigned int max)
{
	m->logits = malloc(max * sizeof(*m->logits));
	m->ids = malloc(max * sizeof(*m->ids));
	m->weights = malloc(max * sizeof(*m->weights));
	return m->logits && m->ids && m->weights ? 0 : -ENOMEM;
}

static void memory_fini(struct candidate_memory *m)
{
	free(m->logits);
	free(m->ids);
	free(m->weights);
}

static unsigned int nr_blocks(unsigned int n)
{
	return (n + BLOCK - 1) / BLOCK;
}

int candidates_init(struct candidates *c, unsigned int n_vocab)
{
	*c = (struct candidates){
		.n_vocab = n_vocab,
		.buckets = calloc(1, sizeof(*c->buckets)),
		/* With a copy, to select one of them. */
		.block_max = malloc(2 * nr_blocks(n_vocab) * sizeof(*c->block_max)),
		.scores = malloc(n_vocab * sizeof(*c->scores)),
	};
	if (!c->buckets || !c->block_max || !c->scores)
		return -ENOMEM;
	c->buckets->of = malloc(n_vocab * sizeof(*c->buckets->of));
	if (!c->buckets->of || memory_init(&c->of_list, n_vocab))
		return -ENOMEM;
	return memory_init(&c->of_inner, n_vocab);
}

void candidates_fini(struct candidates *c)
{
	memory_fini(&c->of_list);
	memory_fini(&c->of_inner);
	if (c->buckets)
		free(c->buckets->of);
	free(c->buckets);
	free(c->block_max);
	free(c->scores);
}

/* ---- which tokens are candidates ---- */

int32_t candidates_best(struct candidates *c, const float *logits)
{
	unsigned int best = 0, i;

	cpu_kernels_get(NULL)->block_max(c->block_max, logits, c->n_vocab);
	for (i = 1; i < nr_blocks(c->n_vocab); i++)
		if (c->block_max[i] > c->block_max[best])
			best = i;
	for (i = best * BLOCK; i < c->n_vocab && logits[i] != c->block_max[best];)
		i++;
	/* All are NaNs. */
	return i < c->n_vocab ? (int32_t)i : 0;
}

/* The @k-th greatest of @n numbers, which it reorders: Hoare's FIND. */
static float kth(float *x, unsigned int n, unsigned int k)
{
	int first = 0, last = (int)n - 1, at = (int)k - 1;

	while (first < last) {
		float pivot = x[at], t;
		int i = first, j = last;

		while (i <= j) {
			while (x[i] > pivot)
				i++;
			while (x[j] < pivot)
				j--;
			if (i > j)
				break;
			t = x[i];
			x[i++] = x[j];
			x[j--] = t;
		}
		first = j < at ? i : first;
		last = i > at ? j : last;
	}
	return x[at];
}

/* A logit that at least @k tokens reach: the @k-th of the blocks' maxima. */
static float reached_by(struct candidates *c, unsigned int k)
{
	unsigned int n = nr_blocks(c->n_vocab);
	float *copy = c->block_max + n;

	if (k > n)
		return -INFINITY;
	memcpy(copy, c->block_max, n * sizeof(*copy));
	return kth(copy, n, k);
}

/* Adds the tokens first..end - 1 with logits of at least @least to the @n in @m; returns how many
 * these are then. */
static unsigned int add_tokens(const struct candidate_memory *m, unsigned int n,
			       const float *logits, unsigned int first, unsigned int end,
			       float least)
{
	for (unsigned int i = first; i < end; i++) {
		m->logits[n] = logits[i];
		m->ids[n] = (int32_t)i;
		n += logits[i] >= least;
	}
	return n;
}

unsigned int candidates_list(struct candidates *c, const float *logits, double least,
			     unsigned int top_k)
{
	/* All finite ones, and no others: their maximum is finite. */
	float from = fmaxf(float_from(least), -FLT_MAX),
	      bound = fmaxf(from, top_k ? reached_by(c, top_k) : -INFINITY);
	size_t found = cpu_kernels_get(NULL)->count_from(logits, c->n_vocab, from);
	unsigned int n = 0;

	c->buckets->list = NULL;
	if (found == c->n_vocab && bound == from) {
		c->list = (struct candidate_list){ .n = c->n_vocab,
						   .logits = logits,
						   .weights = c->of_list.weights };
		return c->n_vocab;
	}
	for (unsigned int i = 0; i < c->n_vocab; i += BLOCK)
		if (c->block_max[i / BLOCK] >= bound)
			n = add_tokens(&c->of_list, n, logits, i,
				       c->n_vocab - i < BLOCK ? c->n_vocab : i + BLOCK, bound);
	list_set(&c->list, &c->of_list, n);
	return (unsigned int)found;
}

/* ---- weights ---- */

double candidates_weigh(struct candidates *c, float max, float temperature)
{
	c->buckets->list = NULL;
	return cpu_kernels_get(NULL)->exp(c->list.weights, c->list.logits, c->list.n, max,
					  temperature);
}

void candidates_count(struct candidates *c)
{
	c->buckets->list = NULL;
	for (unsigned int i = 0; i < c->list.n; i++)
		c->list.weights[i] = 1;
}

/* ---- finding one ---- */

/* Counts the list's candidates, whose greatest logit is @most, into buckets. */
static void buckets_fill(struct candidate_buckets *b, const struct candidate_list *l, float least,
			 float most)
{
	float range = most - least < MOST_APART ? most - least : MOST_APART;

	cpu_kernels_get(NULL)->bucket(b->of, l->logits, l->n, most, range, NR_BUCKETS - 1);
	memset(b->weight, 0, sizeof(b->weight));
	for (unsigned int i = 0; i < l->n; i++)
		b->weight[b->of[i]] += l->weights[i];
	b->list = l;
}

static bool reaches(double sum, double target, bool beyond)
{
	return beyond ? sum > target : sum >= target;
}

/* The bucket in which @target is reached; *@sum: the weight of those before it, added to it. */
static unsigned int buckets_find(const struct candidate_buckets *b, double target, bool beyond,
				 double *sum)
{
	unsigned int last = 0;
	double before = *sum, next;

	for (unsigned int i = 0; i < NR_BUCKETS; i++) {
		if (b->weight[i] <= 0)
			continue;
		next = *sum + b->weight[i];
		if (reaches(next, target, beyond))
			return i;
		last = i;
		before = *sum;
		*sum = next;
	}
	*sum = before;
	return last;
}

#define LOOK 16

/* Whether any of the next LOOK candidates is in bucket @which. */
static bool any_in(const int32_t *of, int32_t which)
{
	typedef int32_t four __attribute__((vector_size(16)));
	four v[LOOK / 4], any;
	int64_t half[2];

	memcpy(v, of, sizeof(v));
	any = ((v[0] == which) | (v[1] == which)) | ((v[2] == which) | (v[3] == which));
	memcpy(half, &any, sizeof(half));
	return half[0] | half[1];
}

/* Copies bucket @which of @from to @to, which may be its memory; returns its candidates. */
static unsigned int copy_bucket(const struct candidate_memory *to,
				const struct candidate_list *from,
				const struct candidate_buckets *b, int32_t which)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < from->n; i++) {
		while (i + LOOK <= from->n && !any_in(b->of + i, which))
			i += LOOK;
		if (i == from->n)
			break;
		if (b->of[i] != which)
			continue;
		to->logits[n] = from->logits[i];
		to->ids[n] = id_at(from, i);
		to->weights[n++] = from->weights[i];
	}
	return n;
}

/* Adds up the weights of candidates in order. True: @c is where @target is reached. */
static bool add_up(const struct candidate *c, double target, bool beyond, double *sum,
		   struct candidate *found)
{
	if (c->weight <= 0)
		return false;
	*sum += c->weight;
	*found = *c;
	return reaches(*sum, target, beyond);
}

/* In a list of a few candidates, or of equal ones, which are in order. */
static struct candidate find_in_order(const struct candidate_list *l, double target, bool beyond,
				      double *sum)
{
	struct candidate few[FEW], found = list_at(l, 0), next;

	if (l->n > FEW) {
		for (unsigned int i = 0; i < l->n; i++) {
			next = list_at(l, i);
			if (add_up(&next, target, beyond, sum, &found))
				break;
		}
		return found;
	}
	for (unsigned int i = 0; i < l->n; i++)
		few[i] = list_at(l, i);
	qsort(few, l->n, sizeof(*few), by_order);
	for (unsigned int i = 0; i < l->n; i++)
		if (add_up(&few[i], target, beyond, sum, &found))
			break;
	return found;
}

struct candidate candidates_find(struct candidates *c, double target, bool beyond, double *sum)
{
	const struct candidate_list *l = &c->list;
	unsigned int n;
	float least, most;

	for (*sum = 0; l->n > FEW; l = &c->inner) {
		if (c->buckets->list != l || l == &c->inner) {
			cpu_kernels_get(NULL)->range(&least, &most, l->logits, l->n);
			if (least == most)
				break;
			buckets_fill(c->buckets, l, least, most);
		}
		n = copy_bucket(&c->of_inner, l, c->buckets,
				(int32_t)buckets_find(c->buckets, target, beyond, sum));
		list_set(&c->inner, &c->of_inner, n);
	}
	return find_in_order(l, target, beyond, sum);
}

int32_t candidates_find_by_id(const struct candidates *c, double target)
{
	const struct candidate_list *l = &c->list;
	unsigned int last = 0, i;
	double sum = 0;

	/* Sums of four do not wait for one another. */
	for (i = 0; i + 4 <= l->n; i += 4) {
		const double *w = l->weights + i;
		double part = (w[0] + w[1]) + (w[2] + w[3]);

		if (sum + part > target)
			break;
		sum += part;
	}
	for (; i < l->n; i++) {
		sum += l->weights[i];
		if (sum > target)
			return id_at(l, i);
	}
	/* Rounding prevents it: the last one that can be drawn. */
	for (i = 0; i < l->n; i++)
		last = l->weights[i] > 0 ? i : last;
	return id_at(l, last);
}
