// SPDX-License-Identifier: MIT
#include "acceptance.h"

#include <math.h>

/* A kind that is not believed at all could not win trust again. */
#define LEAST 1e-3

static double factor_of(const struct acceptance *a, uint32_t kind)
{
	return fmax(a->came[kind] / a->expected[kind], LEAST);
}

void acceptance_begin(struct acceptance *a, const double first[TREE_KINDS])
{
	for (uint32_t kind = 0; kind < TREE_KINDS; kind++) {
		a->expected[kind] = ACCEPTANCE_PRIOR;
		a->came[kind] = ACCEPTANCE_PRIOR * first[kind];
		a->factors[kind] = factor_of(a, kind);
	}
}

static void fade(struct acceptance *a, uint32_t kind)
{
	if (a->expected[kind] > ACCEPTANCE_MEMORY) {
		a->expected[kind] /= 2;
		a->came[kind] /= 2;
	}
	a->factors[kind] = factor_of(a, kind);
}

void acceptance_learn(struct acceptance *a, const struct tree_growth *g, const int32_t *tokens,
		      uint32_t n)
{
	uint32_t node = 0, next;

	for (uint32_t i = 0; i < n && (!i || node); i++, node = next) {
		next = 0;
		for (uint32_t c = g->nodes[node].child; c; c = g->nodes[c].sibling) {
			uint32_t kind = g->nodes[c].kind;

			a->expected[kind] += g->nodes[c].q / g->factors[kind];
			if (g->nodes[c].token != tokens[i])
				continue;
			a->came[kind] += 1;
			next = c;
		}
	}
	for (uint32_t kind = 0; kind < TREE_KINDS; kind++)
		fade(a, kind);
}
