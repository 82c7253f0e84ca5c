// SPDX-License-Identifier: MIT
/* The table of all operations, and their common functions. */
#include "fw_op.h"

#define FW_OP_ROW(NAME, name, number, minor, cmd) [number] = &fw_op_##name,
const struct fw_op *const fw_ops[ISA_NR_OPS] = { VNPU_TENSOR_OPS(FW_OP_ROW) };

void tile_place(struct fw_tile *t, uint64_t rows, uint64_t cols, uint64_t index)
{
	uint64_t across = (cols + t->cmd->tile_cols - 1) / t->cmd->tile_cols;

	t->row = index / across * t->cmd->tile_rows;
	t->col = index % across * t->cmd->tile_cols;
	t->rows = min_u64(t->cmd->tile_rows, rows - t->row);
	t->cols = min_u64(t->cmd->tile_cols, cols - t->col);
}

struct npu_cost fw_vector_time(const struct soc_npu *npu, double elements, double ops,
			       double floats, double bytes)
{
	return npu_time_vector(npu, elements, ops, floats * FLOAT_BYTES + bytes);
}

double fw_kv_bits(uint32_t type)
{
	double bits = VNPU_KV_BYTES(type, VNPU_Q8_0_VALUES) * 8.0 / VNPU_Q8_0_VALUES;

	return bits < FLOAT_BITS ? bits : FLOAT_BITS;
}
