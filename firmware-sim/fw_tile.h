/* SPDX-License-Identifier: MIT */
/*
 * A tile: the part of a command that a worker takes at a time.
 */
#ifndef FW_TILE_H
#define FW_TILE_H

#include "fw_exec.h"

/*
 * Runs tile @index (0..nr_tiles - 1) of @cmd inside the port's guard. 0, or the guard's error and
 * *fault; -EINVAL: what the command says of its weights in memory (MATMUL_WK) cannot be. @scratch:
 * FW_SCRATCH_BYTES of the calling worker.
 */
int fw_tile_run(const struct fw_kernels *k, const struct fw_exec_job *job, const struct fw_cmd *cmd,
		uint64_t index, void *scratch, struct fw_fault *fault);

/*
 * The weights of tile @index of @cmd and those that follow it in memory, for a worker who may fetch
 * what it will soon read; not checked, and so not to be read from. Bytes, 0 if the command has none
 * or if where they are is in memory itself (MATMUL_WK).
 */
size_t fw_tile_weights(const struct fw_exec_job *job, const struct fw_cmd *cmd, uint64_t index,
		       const uint8_t **weights);

#endif /* FW_TILE_H */
