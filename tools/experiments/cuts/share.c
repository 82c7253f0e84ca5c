// SPDX-License-Identifier: MIT
/* Cuts by a given share, in place of the solver's. */
#include <math.h>

#include "cuts.h"
#include "partition_private.h"

/* The fewest graphs that have @tokens, which are a multiple of the smallest. */
static void fill_graphs(struct cut *cut, uint32_t tokens)
{
	partition_take_graphs(LLM_GRAPHS_PIPE, tokens, cut->graphs);
}

/*
 * Of @tokens the GPU's: those beyond the largest graph that leaves it at least @share,
 * or beyond several graphs.
 */
static uint32_t gpu_tokens(const struct cut *cut, double share, bool one_graph)
{
	uint32_t npu = (uint32_t)((1 - share) * cut->m) / PARTITION_MIN_GRAPH * PARTITION_MIN_GRAPH;
	uint32_t graph = PARTITION_MAX_GRAPH;

	if (!npu)
		npu = PARTITION_MIN_GRAPH;
	while (one_graph && graph > npu)
		graph /= 2;
	npu = one_graph ? graph : npu;
	return npu < cut->m ? cut->m - npu : 0;
}

void partition_share(const struct partition_options *o, double share, uint32_t m, uint64_t k,
		     uint64_t n, struct cut *cut)
{
	enum llm_partition kinds =
		o->partition == LLM_PARTITION_AUTO ? LLM_PARTITION_HYBRID : o->partition;
	bool row = kinds == LLM_PARTITION_ROW || kinds == LLM_PARTITION_HYBRID;

	partition_search_single(o, m, k, n, cut);
	if (kinds == LLM_PARTITION_NONE || share <= 0)
		return;
	*cut = (struct cut){ .m = m, .k = k, .n = n };
	if (row)
		cut->gpu_cols =
			(uint64_t)(lround(share * (double)n / PARTITION_COLS)) * PARTITION_COLS;
	if (cut->gpu_cols >= n)
		cut->gpu_cols = (n - 1) / PARTITION_COLS * PARTITION_COLS;
	if (partition_is_exact(o, m))
		cut->exact = m;
	else if (row && o->graphs == LLM_GRAPHS_PADDED)
		partition_take_graphs(LLM_GRAPHS_PADDED, m, cut->graphs);
	else {
		if (kinds != LLM_PARTITION_ROW)
			cut->gpu_tokens =
				gpu_tokens(cut, kinds == LLM_PARTITION_HYBRID ? share / 2 : share,
					   kinds == LLM_PARTITION_SEQUENCE);
		fill_graphs(cut, m - cut->gpu_tokens);
	}
	partition_classify(o, cut);
	partition_predict(o, cut);
}
