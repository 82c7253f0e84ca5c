// SPDX-License-Identifier: MIT
/* The search among all partitions: what the pruned one is held against. */
#include "cuts.h"
#include "partition_private.h"

/*
 * Every set of graphs for @units of 32 tokens, each of at most the size with index
 * @largest. @part has those so far.
 */
static void try_sets(const struct partition_options *o, struct partition *part, uint32_t units,
		     int largest, struct partition *best)
{
	if (!units) {
		/* With tokens on the GPU none is padded. */
		if ((part->gpu_tokens && partition_padding(part)) || !partition_classify(o, part))
			return;
		partition_predict(o, part);
		if (part->total_ns < best->total_ns)
			*best = *part;
		return;
	}
	for (int i = largest; i >= 0; i--) {
		uint32_t has = 1u << i;

		part->graphs[i]++;
		try_sets(o, part, has < units ? units - has : 0, i, best);
		part->graphs[i]--;
	}
}

static void try_all_tokens(const struct partition_options *o, struct partition *part,
			   struct partition *best)
{
	uint32_t first = partition_first(part->m), region = part->m - first * PARTITION_MAX_GRAPH;
	uint32_t rest = region % PARTITION_MIN_GRAPH ?: PARTITION_MIN_GRAPH;

	for (uint32_t tokens = 0; tokens < region;
	     tokens = tokens ? tokens + PARTITION_MIN_GRAPH : rest) {
		part->gpu_tokens = tokens;
		partition_take_graphs(o->graphs, part->m - tokens, part->graphs);
		if (o->graphs == LLM_GRAPHS_PADDED) {
			try_sets(o, part, 0, 0, best);
			continue;
		}
		for (int i = 0; i < PARTITION_NR_GRAPHS; i++)
			part->graphs[i] = i == PARTITION_NR_GRAPHS - 1 ? first : 0;
		try_sets(o, part, partition_units(region - tokens), PARTITION_NR_GRAPHS - 1, best);
	}
}

void partition_search_all(const struct partition_options *o, uint32_t m, uint64_t k, uint64_t n,
			  struct partition *best)
{
	partition_search_single(o, m, k, n, best);
	if (o->partition == LLM_PARTITION_NONE)
		return;
	for (uint64_t cols = 0; cols < n; cols += PARTITION_COLS) {
		struct partition part = { .m = m, .k = k, .n = n, .gpu_cols = cols };

		if (!partition_is_exact(o, m)) {
			try_all_tokens(o, &part, best);
			continue;
		}
		part.exact = m;
		if (!partition_classify(o, &part))
			continue;
		partition_predict(o, &part);
		if (part.total_ns < best->total_ns)
			*best = part;
	}
}
