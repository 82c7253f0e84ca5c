// SPDX-License-Identifier: MIT
/*
 * What is known of each opcode: its name, its size, and where its operands are.
 */
#include <stddef.h>
#include <string.h>

#include "image.h"

struct isa_op {
	const char *name;
	uint32_t bytes;
	uint8_t nr_refs;
	uint16_t refs[NPU_MAX_REFS];
	uint16_t minor; /* the version that brought it, 1.minor */
};

#define AT(type, field) offsetof(struct vnpu_cmd_##type, field)

static const struct isa_op isa_ops[] = {
	[VNPU_OP_END] = { "end", sizeof(struct vnpu_cmd), 0, { 0 } },
	[VNPU_OP_BARRIER] = { "barrier", sizeof(struct vnpu_cmd), 0, { 0 } },
	[VNPU_OP_SLEEP] = { "sleep", sizeof(struct vnpu_cmd_sleep), 0, { 0 } },
	[VNPU_OP_COPY] = { "copy", sizeof(struct vnpu_cmd_copy), 2, { AT(copy, src), AT(copy, dst) } },
	[VNPU_OP_ADD] = { "add", sizeof(struct vnpu_cmd_binary), 3, { AT(binary, a), AT(binary, b), AT(binary, y) } },
	[VNPU_OP_MUL] = { "mul", sizeof(struct vnpu_cmd_binary), 3, { AT(binary, a), AT(binary, b), AT(binary, y) } },
	[VNPU_OP_ACT] = { "act", sizeof(struct vnpu_cmd_act), 2, { AT(act, x), AT(act, y) } },
	[VNPU_OP_RMSNORM] = { "rmsnorm",
			      sizeof(struct vnpu_cmd_rmsnorm),
			      3,
			      { AT(rmsnorm, x), AT(rmsnorm, w), AT(rmsnorm, y) } },
	[VNPU_OP_ROPE] = { "rope", sizeof(struct vnpu_cmd_rope), 3, { AT(rope, x), AT(rope, inv_freq), AT(rope, y) } },
	[VNPU_OP_SOFTMAX] = { "softmax", sizeof(struct vnpu_cmd_softmax), 2, { AT(softmax, x), AT(softmax, y) } },
	[VNPU_OP_QUANT] = { "quant",
			    sizeof(struct vnpu_cmd_quant),
			    3,
			    { AT(quant, x), AT(quant, q), AT(quant, scale) } },
	[VNPU_OP_QUANT16] = { "quant16",
			      sizeof(struct vnpu_cmd_quant),
			      3,
			      { AT(quant, x), AT(quant, q), AT(quant, scale) },
			      .minor = 4 },
	[VNPU_OP_QUANT_OUTLIERS] = { "quant_outliers",
				     sizeof(struct vnpu_cmd_quant_outliers),
				     4,
				     { AT(quant_outliers, x), AT(quant_outliers, q), AT(quant_outliers, scale),
				       AT(quant_outliers, outliers) },
				     .minor = 4 },
	[VNPU_OP_ADD_OUTLIERS] = { "add_outliers",
				   sizeof(struct vnpu_cmd_add_outliers),
				   4,
				   { AT(add_outliers, x), AT(add_outliers, outliers), AT(add_outliers, w),
				     AT(add_outliers, y) },
				   .minor = 4 },
	[VNPU_OP_DEQUANT] = { "dequant",
			      sizeof(struct vnpu_cmd_dequant),
			      3,
			      { AT(dequant, q), AT(dequant, scale), AT(dequant, y) } },
	[VNPU_OP_MATMUL_I8] = { "matmul_i8",
				sizeof(struct vnpu_cmd_matmul_i8),
				5,
				{ AT(matmul_i8, a), AT(matmul_i8, a_scale), AT(matmul_i8, w), AT(matmul_i8, bias),
				  AT(matmul_i8, c) } },
	[VNPU_OP_ATTN] = { "attn",
			   sizeof(struct vnpu_cmd_attn),
			   4,
			   { AT(attn, q), AT(attn, k), AT(attn, v), AT(attn, y) } },
	[VNPU_OP_MATMUL_W4] = { "matmul_w4",
				sizeof(struct vnpu_cmd_matmul_w4),
				5,
				{ AT(matmul_w4, a), AT(matmul_w4, a_scale), AT(matmul_w4, w), AT(matmul_w4, bias),
				  AT(matmul_w4, c) },
				.minor = 2 },
	[VNPU_OP_MATMUL_W4F] = { "matmul_w4f",
				 sizeof(struct vnpu_cmd_matmul_w4),
				 5,
				 { AT(matmul_w4, a), AT(matmul_w4, a_scale), AT(matmul_w4, w), AT(matmul_w4, bias),
				   AT(matmul_w4, c) },
				 .minor = 2 },
	[VNPU_OP_GLU] = { "glu", sizeof(struct vnpu_cmd_glu), 3, { AT(glu, a), AT(glu, b), AT(glu, y) }, .minor = 2 },
	[VNPU_OP_MATMUL_WK] = { "matmul_wk",
				sizeof(struct vnpu_cmd_matmul_wk),
				5,
				{ AT(matmul_wk, a), AT(matmul_wk, a_scale), AT(matmul_wk, w), AT(matmul_wk, bias),
				  AT(matmul_wk, c) },
				.minor = 3 },
	[VNPU_OP_STORE] = { "store", sizeof(struct vnpu_cmd_store), 2, { AT(store, x), AT(store, dst) }, .minor = 2 },
};

const char *const npu_dtype_names[NPU_NR_DTYPES] = { "f32", "s8", "w8", "f16", "q8_0", "w4", "wk" };

static const struct isa_op *isa_op(uint16_t op)
{
	return op < sizeof(isa_ops) / sizeof(isa_ops[0]) && isa_ops[op].name ? &isa_ops[op] : NULL;
}

unsigned int npu_cmd_refs(uint16_t op, uint16_t offsets[NPU_MAX_REFS])
{
	const struct isa_op *o = isa_op(op);

	if (!o)
		return 0;
	memcpy(offsets, o->refs, sizeof(o->refs));
	return o->nr_refs;
}

uint32_t npu_cmd_bytes(uint16_t op)
{
	const struct isa_op *o = isa_op(op);

	return o ? o->bytes : 0;
}

const char *npu_cmd_name(uint16_t op)
{
	const struct isa_op *o = isa_op(op);

	return o ? o->name : NULL;
}

uint16_t npu_cmd_minor(uint16_t op)
{
	const struct isa_op *o = isa_op(op);

	return o ? o->minor : 0;
}
