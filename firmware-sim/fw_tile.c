// SPDX-License-Identifier: MIT
/*
 * Runs a tile of a command: the operation gives the ranges that the tile accesses (an operand
 * counts from its first to its last byte) and computes the tile; the port's guard is around it.
 */
#include "fw_tile.h"

#include "fw_op.h"

size_t fw_tile_weights(const struct fw_exec_job *job, const struct fw_cmd *cmd, uint64_t index,
		       const uint8_t **weights)
{
	const struct fw_op *op = fw_ops[cmd->u.hdr.op];
	const struct vnpu_cmd_matmul_i8 *m = &cmd->u.matmul_i8;
	uint64_t down, before, panel_bytes;

	if (!op->panel_bytes)
		return 0;
	panel_bytes = op->panel_bytes(cmd);
	down = div_up(m->m, cmd->tile_rows);
	before = index / down * cmd->tile_cols / VNPU_PANEL_N;
	*weights = job->as->base + cmd->va[2] + before * panel_bytes;
	return (div_up(m->n, VNPU_PANEL_N) - before) * panel_bytes;
}

int fw_tile_run(const struct fw_kernels *k, const struct fw_exec_job *job, const struct fw_cmd *cmd,
		uint64_t index, uint64_t nr, void *scratch, struct fw_fault *fault)
{
	const struct fw_op *op = fw_ops[cmd->u.hdr.op];
	struct fw_tile t;
	int err;

	/*
	 * Other fields are written before they are read; clearing them would take longer than the
	 * rest of this function.
	 */
	t.k = k;
	t.job = job;
	t.cmd = cmd;
	t.op = &isa_ops[cmd->u.hdr.op];
	t.base = job->as->base;
	t.scratch = scratch;
	t.fault = fault;
	t.nr = nr;
	t.nr_acc = 0;
	err = op->prepare(&t, index);
	return err ? err
		   : job->ops->guard(job->port_priv, job->as, t.acc, t.nr_acc, op->run, &t, fault);
}
