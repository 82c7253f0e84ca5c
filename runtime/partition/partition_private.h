/* SPDX-License-Identifier: MIT */
/* The partition solver's inside: what its two searches share. */
#ifndef PARTITION_PRIVATE_H
#define PARTITION_PRIVATE_H

#include "partition.h"

/*
 * The tokens that a search distributes: of longer products the first graphs
 * are PARTITION_MAX_GRAPH.
 */
#define PARTITION_REGION (2 * PARTITION_MAX_GRAPH)
#define PARTITION_UNITS (PARTITION_REGION / PARTITION_MIN_GRAPH)

static inline uint32_t partition_graph_tokens(unsigned int i)
{
	return (uint32_t)PARTITION_MIN_GRAPH << i;
}

static inline uint32_t partition_units(uint32_t tokens)
{
	return (tokens + PARTITION_MIN_GRAPH - 1) / PARTITION_MIN_GRAPH;
}

/* There is one graph of exactly @m tokens. */
bool partition_is_exact(const struct partition_options *o, uint32_t m);
/* Graphs of the largest size that come before what is distributed. */
uint32_t partition_first(uint32_t m);
/* What a slice takes on a lane by what the profiler knows: without start and end. */
struct soc_cost partition_cost(const struct partition_options *o, enum soc_lane lane, uint64_t rows,
			       uint64_t k, uint64_t n);
/*
 * The graphs that need no search: PADDED one for what full ones leave of
 * @tokens, PIPE by falling size.
 */
void partition_take_graphs(enum llm_graphs graphs, uint32_t tokens,
			   uint32_t count[PARTITION_NR_GRAPHS]);
/* All on the GPU, or all on the NPU with the graphs that @o has for that; whichever is faster. */
void partition_search_single(const struct partition_options *o, uint32_t m, uint64_t k, uint64_t n,
			     struct cut *cut);
/* Sets @cut's kind; false if @o does not allow it. */
bool partition_classify(const struct partition_options *o, struct cut *cut);

#endif /* PARTITION_PRIVATE_H */
