/* SPDX-License-Identifier: MIT */
/* A tile: the part of a command that a worker takes at a time. */
#ifndef FW_TILE_H
#define FW_TILE_H

#include "fw_exec.h"

/*
 * Runs the @nr tiles of @cmd from @index on as one inside the port's guard: 1, or up to cmd->most.
 * 0; the guard's error and *fault; or -EINVAL if a table of panels in memory (MATMUL_WK,
 * ADD_OUTLIERS_WK) is invalid. @scratch: FW_SCRATCH_BYTES of the calling worker.
 */
int fw_tile_run(const struct fw_kernels *k, const struct fw_exec_job *job, const struct fw_cmd *cmd,
		uint64_t index, uint64_t nr, void *scratch, struct fw_fault *fault);

/*
 * *weights: the weights of tile @index of @cmd and of those after it, for a worker that prefetches
 * them. Prefetch only: the addresses are unchecked. Returns the size in bytes; 0 if the command has
 * no weights or their places are in memory (MATMUL_WK).
 */
size_t fw_tile_weights(const struct fw_exec_job *job, const struct fw_cmd *cmd, uint64_t index,
		       const uint8_t **weights);

#endif /* FW_TILE_H */
