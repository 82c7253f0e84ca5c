// SPDX-License-Identifier: MIT
#include "acceptance.h"

#include <string.h>

void acceptance_begin(struct acceptance *a, const double first[TREE_KINDS])
{
	*a = (struct acceptance){ 0 };
	memcpy(a->first, first, sizeof(a->first));
	memcpy(a->factors, first, sizeof(a->factors));
}

static void fade(struct acceptance *a, uint32_t kind)
{
	if (a->expected[kind] > ACCEPTANCE_MEMORY) {
		a->expected[kind] /= 2;
		a->came[kind] /= 2;
	}
	a->factors[kind] = (a->came[kind] + ACCEPTANCE_PRIOR * a->first[kind]) /
			   (a->expected[kind] + ACCEPTANCE_PRIOR);
}

void acceptance_learn(struct acceptance *a, const struct tree_growth *g, const int32_t *tokens,
		      uint32_t n)
{
	uint32_t node = 0, next;

	for (uint32_t i = 0; i < n && (!i || node); i++, node = next) {
		next = 0;
		for (uint32_t c = g->nodes[node].child; c; c = g->nodes[c].sibling) {
			a->expected[g->nodes[c].kind] += g->nodes[c].guess;
			if (g->nodes[c].token != tokens[i])
				continue;
			a->came[g->nodes[c].kind] += 1;
			next = c;
		}
	}
	for (uint32_t kind = 0; kind < TREE_KINDS; kind++)
		fade(a, kind);
}
