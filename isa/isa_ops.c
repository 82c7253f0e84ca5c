// SPDX-License-Identifier: MIT
#include "isa_ops.h"

#define OPERAND(cmd, field, flags, kind, ...)                                                  \
	{                                                                                      \
#field, offsetof(struct vnpu_cmd_##cmd, field), VNPU_SLOT_##flags, ISA_##kind, \
			__VA_ARGS__                                                            \
	}
#define IN(cmd, field, type, shape, ld) OPERAND(cmd, field, READ, type, false, shape, ld)
#define OUT(cmd, field, type, shape, ld) OPERAND(cmd, field, WRITE, type, false, shape, ld)
#define OPTIONAL(cmd, field, type, shape) OPERAND(cmd, field, READ, type, true, shape, NULL)

#define FIELD(cmd, field, type, shown, names)                                    \
	{                                                                        \
		shown, offsetof(struct vnpu_cmd_##cmd, field), ISA_##type, names \
	}
#define U32(cmd, field) FIELD(cmd, field, U32, #field, NULL)
#define PARAM(cmd, name) FIELD(cmd, name##_param, PARAM, #name, NULL)

#define MATMUL_FLAGS (VNPU_CMD_PERMUTED | VNPU_CMD_SHAPED)

#define GLU_KINDS "silu|gelu|gelu_erf|gelu_quick|relu|relu_squared"
#define ACT_KINDS GLU_KINDS "|cap"
#define KV_TYPES "f32|f16|q8_0"
#define KQ_NAME(NAME, name, ...) "|" #name
/* Without the first |. */
#define KQ_TYPES &(VNPU_KQ_TYPES(KQ_NAME))[1]

#define OP(NAME, lower, number, since, cmd)                                     \
	[number].name = #lower, [number].bytes = sizeof(struct vnpu_cmd_##cmd), \
	[number].minor = since,

const struct isa_op isa_ops[ISA_NR_OPS] = {
	VNPU_OPS(OP)

	[VNPU_OP_SLEEP].fields = { FIELD(sleep, duration_ns, U64, "duration_ns", NULL) },

	[VNPU_OP_COPY].operands = {
		IN(copy, src, BYTES, "[rows][row_bytes]", "src_stride"),
		OUT(copy, dst, BYTES, "[dst_row+rows][row_bytes]", "dst_stride"),
	},
	[VNPU_OP_COPY].fields = {
		U32(copy, rows), U32(copy, row_bytes),
		FIELD(copy, src_stride_bytes, U64, "src_stride", NULL),
		FIELD(copy, dst_stride_bytes, U64, "dst_stride", NULL), PARAM(copy, dst_row),
	},

	[VNPU_OP_ADD].operands = {
		IN(binary, a, F32, "[rows][cols]", "lda"),
		IN(binary, b, F32, "[rows][cols]", "ldb"),
		OUT(binary, y, F32, "[rows][cols]", "ldy"),
	},
	[VNPU_OP_ADD].fields = {
		U32(binary, rows), U32(binary, cols), U32(binary, lda), U32(binary, ldb),
		U32(binary, ldy),
	},

	[VNPU_OP_MUL].operands = {
		IN(binary, a, F32, "[rows][cols]", "lda"),
		IN(binary, b, F32, "[rows][cols]", "ldb"),
		OUT(binary, y, F32, "[rows][cols]", "ldy"),
	},
	[VNPU_OP_MUL].fields = {
		U32(binary, rows), U32(binary, cols), U32(binary, lda), U32(binary, ldb),
		U32(binary, ldy),
	},

	[VNPU_OP_ACT].operands = {
		IN(act, x, F32, "[rows][cols]", "ldx"),
		OUT(act, y, F32, "[rows][cols]", "ldy"),
	},
	[VNPU_OP_ACT].fields = {
		FIELD(act, kind, MODE, "kind", ACT_KINDS), U32(act, rows), U32(act, cols),
		U32(act, ldx), U32(act, ldy), FIELD(act, cap, FLOAT_OR_NONE, "cap", NULL),
	},

	[VNPU_OP_RMSNORM].operands = {
		IN(rmsnorm, x, F32, "[rows][cols]", "ldx"),
		IN(rmsnorm, w, F32, "[cols]", NULL),
		OUT(rmsnorm, y, F32, "[rows][cols]", "ldy"),
	},
	[VNPU_OP_RMSNORM].fields = {
		U32(rmsnorm, rows), U32(rmsnorm, cols), U32(rmsnorm, ldx), U32(rmsnorm, ldy),
		FIELD(rmsnorm, eps, FLOAT, "eps", NULL),
	},

	[VNPU_OP_LAYERNORM].operands = {
		IN(layernorm, x, F32, "[rows][cols]", "ldx"),
		IN(layernorm, w, F32, "[cols]", NULL),
		OPTIONAL(layernorm, bias, F32, "[cols]"),
		OUT(layernorm, y, F32, "[rows][cols]", "ldy"),
	},
	[VNPU_OP_LAYERNORM].fields = {
		U32(layernorm, rows), U32(layernorm, cols), U32(layernorm, ldx),
		U32(layernorm, ldy), FIELD(layernorm, eps, FLOAT, "eps", NULL),
	},

	[VNPU_OP_ROPE].operands = {
		IN(rope, x, F32, "[rows][heads*head_dim]", "ldx"),
		IN(rope, inv_freq, F32, "[rot_dim/2]", NULL),
		OUT(rope, y, F32, "[rows][heads*head_dim]", "ldy"),
	},
	[VNPU_OP_ROPE].fields = {
		U32(rope, rows), U32(rope, heads), U32(rope, head_dim), U32(rope, rot_dim),
		U32(rope, ldx), U32(rope, ldy), FIELD(rope, mode, NAMED, "mode", "adjacent|halves"),
		PARAM(rope, pos),
	},

	[VNPU_OP_ROPE_AT].operands = {
		IN(rope, x, F32, "[rows][heads*head_dim]", "ldx"),
		IN(rope, inv_freq, F32, "[rot_dim/2]", NULL),
		IN(rope_at, positions, POSITIONS, "[rows]", NULL),
		OUT(rope, y, F32, "[rows][heads*head_dim]", "ldy"),
	},
	[VNPU_OP_ROPE_AT].fields = {
		U32(rope, rows), U32(rope, heads), U32(rope, head_dim), U32(rope, rot_dim),
		U32(rope, ldx), U32(rope, ldy), FIELD(rope, mode, NAMED, "mode", "adjacent|halves"),
		PARAM(rope, pos),
	},

	[VNPU_OP_SOFTMAX].operands = {
		IN(softmax, x, F32, "[rows][cols]", "ldx"),
		OUT(softmax, y, F32, "[rows][cols]", "ldy"),
	},
	[VNPU_OP_SOFTMAX].fields = {
		U32(softmax, rows), U32(softmax, cols), U32(softmax, ldx), U32(softmax, ldy),
		FIELD(softmax, scale, FLOAT, "scale", NULL), PARAM(softmax, limit),
	},

	[VNPU_OP_QUANT].operands = {
		IN(quant, x, F32, "[rows][cols]", "ldx"),
		OUT(quant, q, S8P, "[rows][cols]", "ldq"),
		OUT(quant, scale, F32, "[rows]", NULL),
	},
	[VNPU_OP_QUANT].fields = {
		U32(quant, rows), U32(quant, cols), U32(quant, ldx), U32(quant, ldq),
	},

	[VNPU_OP_DEQUANT].operands = {
		IN(dequant, q, S8, "[rows][cols]", "ldq"),
		IN(dequant, scale, F32, "[rows]", NULL),
		OUT(dequant, y, F32, "[rows][cols]", "ldy"),
	},
	[VNPU_OP_DEQUANT].fields = {
		U32(dequant, rows), U32(dequant, cols), U32(dequant, ldq), U32(dequant, ldy),
	},

	[VNPU_OP_MATMUL_I8].flags = MATMUL_FLAGS,
	[VNPU_OP_MATMUL_I8].operands = {
		IN(matmul_i8, a, S8P, "[m][k]", "lda"),
		IN(matmul_i8, a_scale, F32, "[m]", NULL),
		IN(matmul_i8, w, W8, "[n][k]", NULL),
		OPTIONAL(matmul_i8, bias, F32, "[n]"),
		OUT(matmul_i8, c, F32, "[m][n]", "ldc"),
	},
	[VNPU_OP_MATMUL_I8].fields = {
		U32(matmul_i8, m), U32(matmul_i8, n), U32(matmul_i8, k), U32(matmul_i8, lda),
		U32(matmul_i8, ldc), FIELD(matmul_i8, tile_m, U32X2, "tile", NULL),
	},

	[VNPU_OP_ATTN].operands = {
		IN(attn, q, F32, "[rows][heads*head_dim]", "ldq"),
		IN(attn, k, KV, "[ctx_rows][kv_heads*head_dim]", "ldk"),
		IN(attn, v, KV, "[ctx_rows][kv_heads*head_dim]", "ldv"),
		OUT(attn, y, F32, "[rows][heads*head_dim]", "ldy"),
	},
	[VNPU_OP_ATTN].fields = {
		U32(attn, rows), U32(attn, heads), U32(attn, kv_heads), U32(attn, head_dim),
		U32(attn, ctx_rows), U32(attn, ldq), U32(attn, ldk), U32(attn, ldv), U32(attn, ldy),
		FIELD(attn, scale, FLOAT, "scale", NULL),
		FIELD(attn, kv_type, NAMED, "kv", KV_TYPES), PARAM(attn, pos),
	},

	[VNPU_OP_ATTN_MASK].operands = {
		IN(attn, q, F32, "[rows][heads*head_dim]", "ldq"),
		IN(attn, k, KV, "[ctx_rows][kv_heads*head_dim]", "ldk"),
		IN(attn, v, KV, "[ctx_rows][kv_heads*head_dim]", "ldv"),
		OPTIONAL(attn_mask, mask, MASKS, "[rows]"),
		OUT(attn, y, F32, "[rows][heads*head_dim]", "ldy"),
	},
	[VNPU_OP_ATTN_MASK].fields = {
		U32(attn, rows), U32(attn, heads), U32(attn, kv_heads), U32(attn, head_dim),
		U32(attn, ctx_rows), U32(attn, ldq), U32(attn, ldk), U32(attn, ldv), U32(attn, ldy),
		FIELD(attn, scale, FLOAT, "scale", NULL),
		FIELD(attn, kv_type, NAMED, "kv", KV_TYPES),
		FIELD(attn_mask, window, U32_OR_NONE, "window", NULL),
		FIELD(attn_mask, cap, FLOAT_OR_NONE, "cap", NULL), PARAM(attn, pos),
	},

	[VNPU_OP_ATTN_AT].operands = {
		IN(attn, q, F32, "[rows][heads*head_dim]", "ldq"),
		IN(attn, k, KV, "[ctx_rows][kv_heads*head_dim]", "ldk"),
		IN(attn, v, KV, "[ctx_rows][kv_heads*head_dim]", "ldv"),
		IN(attn_at, positions, POSITIONS, "[rows]", NULL),
		OUT(attn, y, F32, "[rows][heads*head_dim]", "ldy"),
	},
	[VNPU_OP_ATTN_AT].fields = {
		U32(attn, rows), U32(attn, heads), U32(attn, kv_heads), U32(attn, head_dim),
		U32(attn, ctx_rows), U32(attn, ldq), U32(attn, ldk), U32(attn, ldv), U32(attn, ldy),
		FIELD(attn, scale, FLOAT, "scale", NULL),
		FIELD(attn, kv_type, NAMED, "kv", KV_TYPES), U32(attn_at, span),
		FIELD(attn_at, window, U32_OR_NONE, "window", NULL),
		FIELD(attn_at, cap, FLOAT_OR_NONE, "cap", NULL), PARAM(attn, pos),
	},

	[VNPU_OP_MATMUL_W4].flags = MATMUL_FLAGS,
	[VNPU_OP_MATMUL_W4].operands = {
		IN(matmul_w4, a, S8, "[m][k]", "lda"),
		IN(matmul_w4, a_scale, F32, "[m]", NULL),
		IN(matmul_w4, w, W4, "[n][k]", NULL),
		OPTIONAL(matmul_w4, bias, F32, "[n]"),
		OUT(matmul_w4, c, F32, "[m][n]", "ldc"),
	},
	[VNPU_OP_MATMUL_W4].fields = {
		U32(matmul_w4, m), U32(matmul_w4, n), U32(matmul_w4, k), U32(matmul_w4, group),
		U32(matmul_w4, lda), U32(matmul_w4, ldc),
		FIELD(matmul_w4, tile_m, U32X2, "tile", NULL),
	},

	[VNPU_OP_MATMUL_W4F].flags = MATMUL_FLAGS,
	[VNPU_OP_MATMUL_W4F].operands = {
		IN(matmul_w4, a, F32, "[m][k]", "lda"),
		IN(matmul_w4, a_scale, NONE, "", NULL),
		IN(matmul_w4, w, W4, "[n][k]", NULL),
		OPTIONAL(matmul_w4, bias, F32, "[n]"),
		OUT(matmul_w4, c, F32, "[m][n]", "ldc"),
	},
	[VNPU_OP_MATMUL_W4F].fields = {
		U32(matmul_w4, m), U32(matmul_w4, n), U32(matmul_w4, k), U32(matmul_w4, group),
		U32(matmul_w4, lda), U32(matmul_w4, ldc),
		FIELD(matmul_w4, tile_m, U32X2, "tile", NULL),
	},

	[VNPU_OP_STORE].operands = {
		IN(store, x, F32, "[rows][cols]", "ldx"),
		OUT(store, dst, KV, "[row+rows][cols]", "ld_dst"),
	},
	[VNPU_OP_STORE].fields = {
		U32(store, rows), U32(store, cols), U32(store, ldx), U32(store, ld_dst),
		FIELD(store, type, NAMED, "type", KV_TYPES), PARAM(store, row),
	},

	[VNPU_OP_GLU].operands = {
		IN(glu, a, F32, "[rows][cols]", "lda"),
		IN(glu, b, F32, "[rows][cols]", "ldb"),
		OUT(glu, y, F32, "[rows][cols]", "ldy"),
	},
	[VNPU_OP_GLU].fields = {
		FIELD(glu, kind, MODE, "kind", GLU_KINDS), U32(glu, rows), U32(glu, cols),
		U32(glu, lda), U32(glu, ldb), U32(glu, ldy),
	},

	[VNPU_OP_MATMUL_WK].flags = MATMUL_FLAGS,
	[VNPU_OP_MATMUL_WK].operands = {
		IN(matmul_wk, a, S8P, "[m][k]", "lda"),
		IN(matmul_wk, a_scale, F32, "[m]", NULL),
		IN(matmul_wk, w, WK, "[n][k]", NULL),
		OPTIONAL(matmul_wk, bias, F32, "[n]"),
		OUT(matmul_wk, c, F32, "[m][n]", "ldc"),
	},
	[VNPU_OP_MATMUL_WK].fields = {
		U32(matmul_wk, m), U32(matmul_wk, n), U32(matmul_wk, k),
		FIELD(matmul_wk, w_bytes, U64, "w_bytes", NULL), U32(matmul_wk, lda),
		U32(matmul_wk, ldc), FIELD(matmul_wk, tile_m, U32X2, "tile", NULL),
	},

	[VNPU_OP_MATMUL_KQ].flags = MATMUL_FLAGS,
	[VNPU_OP_MATMUL_KQ].operands = {
		IN(matmul_kq, a, S8, "[m][k]", "lda"),
		IN(matmul_kq, a_scale, F32, "[m]", NULL),
		IN(matmul_kq, w, KQ, "[n][k]", NULL),
		OPTIONAL(matmul_kq, bias, F32, "[n]"),
		OUT(matmul_kq, c, F32, "[m][n]", "ldc"),
	},
	[VNPU_OP_MATMUL_KQ].fields = {
		FIELD(matmul_kq, type, MODE, "type", KQ_TYPES), U32(matmul_kq, m),
		U32(matmul_kq, n), U32(matmul_kq, k), U32(matmul_kq, lda), U32(matmul_kq, ldc),
		FIELD(matmul_kq, tile_m, U32X2, "tile", NULL),
	},

	[VNPU_OP_QUANT16].operands = {
		IN(quant, x, F32, "[rows][cols]", "ldx"),
		OUT(quant, q, S8P, "[2*rows][cols]", "ldq"),
		OUT(quant, scale, F32, "[2*rows]", NULL),
	},
	[VNPU_OP_QUANT16].fields = {
		U32(quant, rows), U32(quant, cols), U32(quant, ldx), U32(quant, ldq),
	},

	[VNPU_OP_QUANT_STATIC].operands = {
		IN(quant_static, x, F32, "[rows][cols]", "ldx"),
		IN(quant_static, static_scale, F32, "[1]", NULL),
		OUT(quant_static, q, S8P, "[rows][cols]", "ldq"),
		OUT(quant_static, scale, F32, "[rows]", NULL),
	},
	[VNPU_OP_QUANT_STATIC].fields = {
		U32(quant_static, rows), U32(quant_static, cols), U32(quant_static, ldx),
		U32(quant_static, ldq),
	},

	[VNPU_OP_QUANT_OUTLIERS].operands = {
		IN(quant_outliers, x, F32, "[rows][cols]", "ldx"),
		OUT(quant_outliers, q, S8P, "[rows][cols]", "ldq"),
		OUT(quant_outliers, scale, F32, "[rows]", NULL),
		OUT(quant_outliers, outliers, OUTLIERS, "[rows]", NULL),
	},
	[VNPU_OP_QUANT_OUTLIERS].fields = {
		U32(quant_outliers, rows), U32(quant_outliers, cols), U32(quant_outliers, ldx),
		U32(quant_outliers, ldq),
	},

	[VNPU_OP_ADD_OUTLIERS].operands = {
		IN(add_outliers, x, F32, "[m][n]", "ldx"),
		IN(add_outliers, outliers, OUTLIERS, "[m]", NULL),
		IN(add_outliers, w, W8_W4, "[n][k]", NULL),
		OUT(add_outliers, y, F32, "[m][n]", "ldy"),
	},
	[VNPU_OP_ADD_OUTLIERS].fields = {
		U32(add_outliers, m), U32(add_outliers, n), U32(add_outliers, k),
		U32(add_outliers, ldx), U32(add_outliers, ldy),
		FIELD(add_outliers, group, U32_OR_NONE, "group", NULL),
	},

	[VNPU_OP_ADD_OUTLIERS_WK].operands = {
		IN(add_outliers_wk, x, F32, "[m][n]", "ldx"),
		IN(add_outliers_wk, outliers, OUTLIERS, "[m]", NULL),
		IN(add_outliers_wk, w, WK, "[n][k]", NULL),
		OUT(add_outliers_wk, y, F32, "[m][n]", "ldy"),
	},
	[VNPU_OP_ADD_OUTLIERS_WK].fields = {
		U32(add_outliers_wk, m), U32(add_outliers_wk, n), U32(add_outliers_wk, k),
		U32(add_outliers_wk, ldx), U32(add_outliers_wk, ldy),
		FIELD(add_outliers_wk, w_bytes, U64, "w_bytes", NULL),
	},

	[VNPU_OP_QK_I8].operands = {
		IN(qk_i8, q, S8P, "[rows][head_dim]", "ldq"),
		IN(qk_i8, k, K8, "[ctx_rows][head_dim]", NULL),
		OUT(qk_i8, scores, S16, "[rows][ctx_rows]", "lds"),
	},
	[VNPU_OP_QK_I8].fields = {
		U32(qk_i8, rows), U32(qk_i8, head_dim), U32(qk_i8, ctx_rows), U32(qk_i8, ldq),
		U32(qk_i8, lds), U32(qk_i8, shift), PARAM(qk_i8, pos),
	},

	[VNPU_OP_ATTN_I8].operands = {
		IN(attn_i8, q, F32, "[rows][heads*head_dim]", "ldq"),
		IN(attn_i8, k, K8, "[ctx_rows][head_dim]", NULL),
		IN(attn_i8, v, V8, "[ctx_rows][head_dim]", NULL),
		IN(attn_i8, scales, F32, "[3]", NULL),
		OUT(attn_i8, y, F32, "[rows][heads*head_dim]", "ldy"),
	},
	[VNPU_OP_ATTN_I8].fields = {
		U32(attn_i8, rows), U32(attn_i8, heads), U32(attn_i8, head_dim),
		U32(attn_i8, ctx_rows), U32(attn_i8, ldq), U32(attn_i8, ldy),
		FIELD(attn_i8, scale, FLOAT, "scale", NULL), PARAM(attn_i8, pos),
	},
};

#define SINCE_KNOWN(NAME, lower, number, since, cmd) \
	_Static_assert(since <= VNPU_ISA_MINOR, #lower " is of a version that this is not yet");
VNPU_OPS(SINCE_KNOWN)

const char *const isa_type_names[ISA_NR_TYPES] = {
	[ISA_NONE] = "none",	 [ISA_BYTES] = "bytes", [ISA_F32] = "f32",
	[ISA_S8] = "s8",	 [ISA_S8P] = "s8p",	[ISA_KV] = "kv",
	[ISA_W8] = "w8",	 [ISA_W4] = "w4",	[ISA_OUTLIERS] = "outliers",
	[ISA_WK] = "wk",	 [ISA_KQ] = "kq",	[ISA_W8_W4] = "w8/w4",
	[ISA_K8] = "k8",	 [ISA_S16] = "s16",	[ISA_V8] = "v8",
	[ISA_POSITIONS] = "u32", [ISA_MASKS] = "u64",
};

#define KQ_STRING(NAME, name, ...) #name,
const char *const isa_kq_names[VNPU_NR_KQ_TYPES] = { VNPU_KQ_TYPES(KQ_STRING) };
