/* SPDX-License-Identifier: MIT */
/*
 * The CPU lane: every operator, on the engine's threads. What it is given has
 * ended when begin returns.
 *
 * The float operators are the device's own kernels (kernels/), so it makes no difference which lane
 * computes them. Rows are independent but for the attention, which is over exactly the positions
 * that a row may see; so results do not depend on how a text was cut into chunks.
 */
#ifndef CPU_LANE_H
#define CPU_LANE_H

#include "lane.h"

/* NULL: no memory. */
struct lane *lane_cpu_create(struct lane_memory *memory);

/* What its begin does; for lanes whose part the CPU computes. 0 or -errno with the error line. */
int lane_cpu_run(struct lane_memory *memory, const struct lane_call *call);

/* Floats of scratch memory that each thread needs. */
size_t lane_cpu_scratch(const struct llm_model *model);

/* ---- inside ---- */

/*
 * A slice with the file's matrices, which are widened to F32 row by row (cpu_f32.c), or with the
 * packed ones (cpu_packed.c).
 */
int lane_cpu_slice_f32(struct lane_memory *m, const struct lane_slice *slice);
int lane_cpu_slice_packed(struct lane_memory *m, const struct lane_slice *slice);

/* Rows of a matrix that a thread widens at a time: a few thousand columns still fit its cache. */
#define CPU_WIDE_ROWS 16

#endif /* CPU_LANE_H */
