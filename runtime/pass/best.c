// SPDX-License-Identifier: MIT
#include "best.h"

#include <math.h>

/* Logits that are looked at together, for they are read twice: from memory and from the cache. */
#define PART 2048
#define BLOCK CPU_KERNELS_BLOCK

/* The best so far, with logits in place of probabilities. */
struct list {
	struct llm_candidate *best;
	unsigned int n, k;
};

static void insert(struct list *l, int32_t id, float logit)
{
	unsigned int i = l->n < l->k ? l->n++ : l->k - 1;

	for (; i && logit > l->best[i - 1].p; i--)
		l->best[i] = l->best[i - 1];
	l->best[i] = (struct llm_candidate){ .id = id, .p = logit };
}

static bool is_among(const struct list *l, float logit)
{
	return l->n < l->k ? !isnan(logit) : logit > l->best[l->k - 1].p;
}

/* Of what was read so far. */
struct softmax {
	float most; /* the greatest logit */
	double sum; /* of exp(logit - most) */
};

static void see_block_max(struct softmax *s, const float *max, unsigned int blocks)
{
	float most = s->most;

	for (unsigned int i = 0; i < blocks; i++)
		most = max[i] > most ? max[i] : most;
	if (most > s->most)
		s->sum *= exp((double)s->most - (double)most);
	s->most = most;
}

/* Adds logits @from.. of a part. Most blocks have none that is great enough. */
static void add_part(struct list *l, const float *max, const float *logits, unsigned int from,
		     unsigned int n)
{
	for (unsigned int i = 0; i < n; i += BLOCK) {
		if (!is_among(l, max[i / BLOCK]))
			continue;
		for (unsigned int j = i; j < i + BLOCK && j < n; j++)
			if (is_among(l, logits[from + j]))
				insert(l, (int32_t)(from + j), logits[from + j]);
	}
}

void best_tokens(const struct cpu_kernels *kernels, const float *logits, unsigned int n,
		 struct llm_candidate *best, unsigned int k)
{
	struct list l = { .best = best, .k = k };
	struct softmax s = { .most = -INFINITY };

	for (unsigned int from = 0; from < n; from += PART) {
		unsigned int part = n - from < PART ? n - from : PART;
		float max[PART / BLOCK];

		kernels->block_max(max, logits + from, part);
		see_block_max(&s, max, (part + BLOCK - 1) / BLOCK);
		if (isfinite(s.most))
			s.sum += kernels->sum_exp(logits + from, part, s.most);
		add_part(&l, max, logits, from, part);
	}
	for (unsigned int i = 0; i < l.n; i++)
		best[i].p = isfinite(s.most)
				    ? (float)(exp((double)best[i].p - (double)s.most) / s.sum)
				    : 0;
	for (unsigned int i = l.n; i < k; i++)
		best[i] = (struct llm_candidate){ .id = -1 };
}
