/* SPDX-License-Identifier: MIT */
/*
 * What the partition solver is held against, and cuts that it would not make:
 * for experiments and tests.
 */
#ifndef CUTS_H
#define CUTS_H

#include "partition.h"

/* The fastest among all cuts that @o allows: every set of graphs, by every number of columns and of
 * tokens. It takes up to seconds. */
void partition_search_all(const struct partition_options *o, uint32_t m, uint64_t k, uint64_t n,
			  struct cut *cut);

/* The cut of o->partition (auto: hybrid) in which the GPU has about @share of the work, 0
 * to 1, of its columns, tokens, or half by half; the nearest that graphs and alignment
 * allow, whichever is faster. */
void partition_share(const struct partition_options *o, double share, uint32_t m, uint64_t k,
		     uint64_t n, struct cut *cut);

/* What the cut takes on the virtual clock, as total_ns counts: between two operators on a GPU that
 * nobody else uses, by the profile's model. 0, -ENOMEM. */
int partition_simulate(const struct partition_options *o, const struct cut *cut, double *ns);

#endif /* CUTS_H */
