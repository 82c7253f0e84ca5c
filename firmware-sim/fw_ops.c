// SPDX-License-Identifier: MIT
/* What operations there are: their names, and the sizes of their commands. */
#include "fw_stream.h"

static const char *const op_names[] = {
	[VNPU_OP_END] = "end",
	[VNPU_OP_BARRIER] = "barrier",
	[VNPU_OP_SLEEP] = "sleep",
	[VNPU_OP_COPY] = "copy",
	[VNPU_OP_ADD] = "add",
	[VNPU_OP_MUL] = "mul",
	[VNPU_OP_ACT] = "act",
	[VNPU_OP_RMSNORM] = "rmsnorm",
	[VNPU_OP_ROPE] = "rope",
	[VNPU_OP_SOFTMAX] = "softmax",
	[VNPU_OP_QUANT] = "quant",
	[VNPU_OP_DEQUANT] = "dequant",
	[VNPU_OP_MATMUL_I8] = "matmul_i8",
	[VNPU_OP_ATTN] = "attn",
	[VNPU_OP_MATMUL_W4] = "matmul_w4",
	[VNPU_OP_MATMUL_W4F] = "matmul_w4f",
	[VNPU_OP_STORE] = "store",
	[VNPU_OP_GLU] = "glu",
	[VNPU_OP_MATMUL_WK] = "matmul_wk",
	[VNPU_OP_QUANT16] = "quant16",
	[VNPU_OP_QUANT_OUTLIERS] = "quant_outliers",
	[VNPU_OP_ADD_OUTLIERS] = "add_outliers",
};

static const uint32_t op_bytes[] = {
	[VNPU_OP_END] = sizeof(struct vnpu_cmd),
	[VNPU_OP_BARRIER] = sizeof(struct vnpu_cmd),
	[VNPU_OP_SLEEP] = sizeof(struct vnpu_cmd_sleep),
	[VNPU_OP_COPY] = sizeof(struct vnpu_cmd_copy),
	[VNPU_OP_ADD] = sizeof(struct vnpu_cmd_binary),
	[VNPU_OP_MUL] = sizeof(struct vnpu_cmd_binary),
	[VNPU_OP_ACT] = sizeof(struct vnpu_cmd_act),
	[VNPU_OP_RMSNORM] = sizeof(struct vnpu_cmd_rmsnorm),
	[VNPU_OP_ROPE] = sizeof(struct vnpu_cmd_rope),
	[VNPU_OP_SOFTMAX] = sizeof(struct vnpu_cmd_softmax),
	[VNPU_OP_QUANT] = sizeof(struct vnpu_cmd_quant),
	[VNPU_OP_DEQUANT] = sizeof(struct vnpu_cmd_dequant),
	[VNPU_OP_MATMUL_I8] = sizeof(struct vnpu_cmd_matmul_i8),
	[VNPU_OP_ATTN] = sizeof(struct vnpu_cmd_attn),
	[VNPU_OP_MATMUL_W4] = sizeof(struct vnpu_cmd_matmul_w4),
	[VNPU_OP_MATMUL_W4F] = sizeof(struct vnpu_cmd_matmul_w4),
	[VNPU_OP_STORE] = sizeof(struct vnpu_cmd_store),
	[VNPU_OP_GLU] = sizeof(struct vnpu_cmd_glu),
	[VNPU_OP_MATMUL_WK] = sizeof(struct vnpu_cmd_matmul_wk),
	[VNPU_OP_QUANT16] = sizeof(struct vnpu_cmd_quant),
	[VNPU_OP_QUANT_OUTLIERS] = sizeof(struct vnpu_cmd_quant_outliers),
	[VNPU_OP_ADD_OUTLIERS] = sizeof(struct vnpu_cmd_add_outliers),
};

const char *fw_op_name(uint16_t op)
{
	return op < sizeof(op_names) / sizeof(op_names[0]) ? op_names[op] : NULL;
}

uint32_t fw_op_bytes(uint16_t op)
{
	return fw_op_name(op) ? op_bytes[op] : 0;
}
