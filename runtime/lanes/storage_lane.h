/* SPDX-License-Identifier: MIT */
/*
 * The storage lane: waits for the reads of a cold start's weights (start.h), which run by
 * themselves. It computes nothing.
 */
#ifndef STORAGE_LANE_H
#define STORAGE_LANE_H

#include "lane.h"

/* NULL: no memory. */
struct lane *lane_storage_create(struct lane_memory *memory);

#endif /* STORAGE_LANE_H */
