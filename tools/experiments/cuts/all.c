// SPDX-License-Identifier: MIT
/* The search among all partitions: what the pruned one is held against. */
#include "cuts.h"
#include "partition_private.h"

/*
 * Every set of graphs for @units of 32 tokens, each of at most the size with index
 * @largest. @cut has those so far.
 */
static void try_sets(const struct partition_options *o, struct cut *cut, uint32_t units,
		     int largest, struct cut *best)
{
	if (!units) {
		/* With tokens on the GPU none is padded. */
		if ((cut->gpu_tokens && partition_padding(cut)) || !partition_classify(o, cut))
			return;
		partition_predict(o, cut);
		if (cut->total_ns < best->total_ns)
			*best = *cut;
		return;
	}
	for (int i = largest; i >= 0; i--) {
		uint32_t has = 1u << i;

		cut->graphs[i]++;
		try_sets(o, cut, has < units ? units - has : 0, i, best);
		cut->graphs[i]--;
	}
}

static void try_all_tokens(const struct partition_options *o, struct cut *cut, struct cut *best)
{
	uint32_t first = partition_first(cut->m), region = cut->m - first * PARTITION_MAX_GRAPH;
	uint32_t rest = region % PARTITION_MIN_GRAPH ?: PARTITION_MIN_GRAPH;

	for (uint32_t tokens = 0; tokens < region;
	     tokens = tokens ? tokens + PARTITION_MIN_GRAPH : rest) {
		cut->gpu_tokens = tokens;
		partition_take_graphs(o->graphs, cut->m - tokens, cut->graphs);
		if (o->graphs == LLM_GRAPHS_PADDED) {
			try_sets(o, cut, 0, 0, best);
			continue;
		}
		for (int i = 0; i < PARTITION_NR_GRAPHS; i++)
			cut->graphs[i] = i == PARTITION_NR_GRAPHS - 1 ? first : 0;
		try_sets(o, cut, partition_units(region - tokens), PARTITION_NR_GRAPHS - 1, best);
	}
}

void partition_search_all(const struct partition_options *o, uint32_t m, uint64_t k, uint64_t n,
			  struct cut *best)
{
	partition_search_single(o, m, k, n, best);
	if (o->partition == LLM_PARTITION_NONE)
		return;
	for (uint64_t cols = 0; cols < n; cols += PARTITION_COLS) {
		struct cut cut = { .m = m, .k = k, .n = n, .gpu_cols = cols };

		if (!partition_is_exact(o, m)) {
			try_all_tokens(o, &cut, best);
			continue;
		}
		cut.exact = m;
		if (!partition_classify(o, &cut))
			continue;
		partition_predict(o, &cut);
		if (cut.total_ns < best->total_ns)
			*best = cut;
	}
}
