/* SPDX-License-Identifier: MIT */
/*
 * What a client may get wrong in the job of every operation (all_ops_make() of fw_all_ops.h): each
 * row of the tables spoils one field of its stream, or of its table of slots.
 */
#ifndef BAD_FIELDS_H
#define BAD_FIELDS_H

#include "fw_all_ops.h"

#define NOT_CMD 0

/* One field of the job of every operation, and a value that makes the job invalid. */
struct bad_field {
	const char *name;
	uint16_t op; /* the first command with it, or NOT_CMD: the header */
	uint16_t offset, size;
	uint64_t value;
};

#define CMD(OPC, type, field, value)                                        \
	{                                                                   \
#OPC "." #field " = " #value, VNPU_OP_##OPC,                \
			offsetof(struct vnpu_cmd_##type, field),            \
			sizeof(((struct vnpu_cmd_##type *)0)->field), value \
	}
#define HDR(field, value)                                                                        \
	{                                                                                        \
		"stream." #field " = " #value, NOT_CMD, offsetof(struct vnpu_stream_hdr, field), \
			sizeof(((struct vnpu_stream_hdr *)0)->field), value                      \
	}
#define TABLE(field, value)                                                                    \
	{                                                                                      \
		"table." #field " = " #value, NOT_CMD, offsetof(struct vnpu_table_hdr, field), \
			sizeof(((struct vnpu_table_hdr *)0)->field), value                     \
	}
#define SLOT(slot, field, value)                                                          \
	{                                                                                 \
		"slot " #slot "." #field " = " #value, NOT_CMD,                           \
			sizeof(struct vnpu_table_hdr) + slot * sizeof(struct vnpu_slot) + \
				offsetof(struct vnpu_slot, field),                        \
			sizeof(((struct vnpu_slot *)0)->field), value                     \
	}
/* What is wrong for every operand @ref of a command. */
#define REF(OPC, type, ref)                                                                 \
	CMD(OPC, type, ref.slot, 4), CMD(OPC, type, ref.slot, VNPU_SLOT_NONE - 1),          \
		CMD(OPC, type, ref.slot, ALL_SLOT_UNUSED), CMD(OPC, type, ref.reserved, 1), \
		CMD(OPC, type, ref.offset, ALL_OUT_BYTES),                                  \
		CMD(OPC, type, ref.offset, ALL_OUT_BYTES - 4),                              \
		CMD(OPC, type, ref.offset, UINT64_MAX - 3), CMD(OPC, type, ref.offset, 1ull << 63)
#define REF4(OPC, type, ref) \
	REF(OPC, type, ref), CMD(OPC, type, ref.offset, 2), CMD(OPC, type, ref.offset, 1)
/* Written operands must not be in a slot that is read-only. */
#define OUT(OPC, type, ref) \
	CMD(OPC, type, ref.slot, ALL_SLOT_W), CMD(OPC, type, ref.slot, ALL_SLOT_IN)
#define DIM(OPC, type, field)                                              \
	CMD(OPC, type, field, 0), CMD(OPC, type, field, VNPU_MAX_DIM + 1), \
		CMD(OPC, type, field, UINT32_MAX)
#define ANY_CMD(OPC, type)                                                                        \
	CMD(OPC, type, hdr.flags, 2), CMD(OPC, type, hdr.flags, 3), CMD(OPC, type, hdr.flags, 4), \
		CMD(OPC, type, hdr.flags, 0x8000), CMD(OPC, type, hdr.size_bytes, 0),             \
		CMD(OPC, type, hdr.size_bytes, 4),                                                \
		CMD(OPC, type, hdr.size_bytes, sizeof(struct vnpu_cmd_##type) + 8),               \
		CMD(OPC, type, hdr.size_bytes, UINT32_MAX), CMD(OPC, type, hdr.op, 0),            \
		CMD(OPC, type, hdr.op, 99), CMD(OPC, type, hdr.op, UINT16_MAX),                   \
		CMD(OPC, type, hdr.op, VNPU_OP_END)
/* Of all but matmuls, which may be permuted. */
#define COMMON(OPC, type) ANY_CMD(OPC, type), CMD(OPC, type, hdr.flags, VNPU_CMD_PERMUTED)

static const struct bad_field bad_stream[] = {
	HDR(magic, 0),
	HDR(magic, VNPU_TABLE_MAGIC),
	HDR(isa_major, 0),
	HDR(isa_major, VNPU_ISA_MAJOR + 1),
	HDR(isa_minor, VNPU_ISA_MINOR + 1),
	HDR(size_bytes, 0),
	HDR(size_bytes, sizeof(struct vnpu_stream_hdr)),
	HDR(size_bytes, UINT32_MAX),
	HDR(nr_cmds, 0),
	HDR(nr_cmds, 1),
	HDR(nr_cmds, UINT32_MAX),
	HDR(nr_slots, 0),
	HDR(nr_slots, 1),
	HDR(nr_slots, 5),
	HDR(nr_slots, UINT32_MAX),
	HDR(nr_params, 0),
	HDR(nr_params, 4),
	HDR(reserved, 1),

	COMMON(SLEEP, sleep),
	CMD(SLEEP, sleep, duration_ns, 60000000001ull),
	CMD(SLEEP, sleep, duration_ns, UINT64_MAX),

	COMMON(COPY, copy),
	REF(COPY, copy, src),
	REF(COPY, copy, dst),
	OUT(COPY, copy, dst),
	DIM(COPY, copy, rows),
	CMD(COPY, copy, row_bytes, 0),
	CMD(COPY, copy, row_bytes, 4 * VNPU_MAX_DIM + 1),
	CMD(COPY, copy, row_bytes, 113),
	CMD(COPY, copy, src_stride_bytes, 99),
	CMD(COPY, copy, dst_stride_bytes, 0),
	CMD(COPY, copy, src_stride_bytes, 1ull << 40),
	CMD(COPY, copy, src_stride_bytes, 1ull << 63),
	CMD(COPY, copy, dst_stride_bytes, UINT64_MAX),
	CMD(COPY, copy, dst_row_param, 3),
	CMD(COPY, copy, dst_row_param, ALL_PARAM_HUGE),
	CMD(COPY, copy, reserved, 1),

	COMMON(ADD, binary),
	REF4(ADD, binary, a),
	REF4(ADD, binary, b),
	REF4(ADD, binary, y),
	OUT(ADD, binary, y),
	DIM(ADD, binary, rows),
	DIM(ADD, binary, cols),
	CMD(ADD, binary, lda, 49),
	CMD(ADD, binary, ldb, 49),
	CMD(ADD, binary, ldy, 0),
	CMD(ADD, binary, lda, UINT32_MAX),
	CMD(ADD, binary, reserved, 1),
	CMD(MUL, binary, ldy, 49),
	CMD(MUL, binary, b.offset, 65536 - 196),

	COMMON(ACT, act),
	REF4(ACT, act, x),
	REF4(ACT, act, y),
	OUT(ACT, act, y),
	DIM(ACT, act, rows),
	DIM(ACT, act, cols),
	CMD(ACT, act, ldx, 49),
	CMD(ACT, act, ldy, 49),
	CMD(ACT, act, kind, VNPU_ACT_CAP), /* without a cap */
	CMD(ACT, act, kind, VNPU_ACT_CAP + 1),
	CMD(ACT, act, kind, UINT32_MAX),
	CMD(ACT, act, cap, 1),
	CMD(ACT, act, cap, 0x7fc00000), /* NaN */
	CMD(ACT, act, cap, 0x41f00000), /* 30, with GELU */

	COMMON(GLU, glu),
	REF4(GLU, glu, a),
	REF4(GLU, glu, b),
	REF4(GLU, glu, y),
	OUT(GLU, glu, y),
	DIM(GLU, glu, rows),
	DIM(GLU, glu, cols),
	CMD(GLU, glu, lda, 49),
	CMD(GLU, glu, ldb, 0),
	CMD(GLU, glu, ldy, 49),
	CMD(GLU, glu, kind, VNPU_ACT_CAP),
	CMD(GLU, glu, kind, UINT32_MAX),

	COMMON(RMSNORM, rmsnorm),
	REF4(RMSNORM, rmsnorm, x),
	REF4(RMSNORM, rmsnorm, w),
	REF4(RMSNORM, rmsnorm, y),
	OUT(RMSNORM, rmsnorm, y),
	DIM(RMSNORM, rmsnorm, rows),
	DIM(RMSNORM, rmsnorm, cols),
	CMD(RMSNORM, rmsnorm, ldx, 49),
	CMD(RMSNORM, rmsnorm, ldy, 49),
	CMD(RMSNORM, rmsnorm, eps, 0x7fc00000), /* NaN */
	CMD(RMSNORM, rmsnorm, eps, 0x7f800000), /* infinity */
	CMD(RMSNORM, rmsnorm, eps, 0xbf800000), /* -1 */
	CMD(RMSNORM, rmsnorm, reserved, 1),

	COMMON(LAYERNORM, layernorm),
	REF4(LAYERNORM, layernorm, x),
	REF4(LAYERNORM, layernorm, w),
	REF4(LAYERNORM, layernorm, bias),
	CMD(LAYERNORM, layernorm, bias.slot, VNPU_SLOT_NONE), /* with an offset */
	REF4(LAYERNORM, layernorm, y),
	OUT(LAYERNORM, layernorm, y),
	DIM(LAYERNORM, layernorm, rows),
	DIM(LAYERNORM, layernorm, cols),
	CMD(LAYERNORM, layernorm, ldx, 49),
	CMD(LAYERNORM, layernorm, ldy, 49),
	CMD(LAYERNORM, layernorm, eps, 0x7fc00000), /* NaN */
	CMD(LAYERNORM, layernorm, eps, 0xbf800000), /* -1 */
	CMD(LAYERNORM, layernorm, reserved, 1),

	COMMON(ROPE, rope),
	REF4(ROPE, rope, x),
	REF4(ROPE, rope, inv_freq),
	REF4(ROPE, rope, y),
	OUT(ROPE, rope, y),
	DIM(ROPE, rope, rows),
	DIM(ROPE, rope, heads),
	DIM(ROPE, rope, head_dim),
	CMD(ROPE, rope, head_dim, VNPU_MAX_HEAD_DIM + 1),
	CMD(ROPE, rope, head_dim, 15),
	CMD(ROPE, rope, rot_dim, 0),
	CMD(ROPE, rope, rot_dim, 15),
	CMD(ROPE, rope, rot_dim, 22),
	CMD(ROPE, rope, ldx, 39),
	CMD(ROPE, rope, ldy, 39),
	CMD(ROPE, rope, pos_param, 3),
	CMD(ROPE, rope, pos_param, ALL_PARAM_HUGE),
	CMD(ROPE, rope, mode, 2),

	COMMON(ROPE_AT, rope),
	REF4(ROPE_AT, rope_at, rope.x),
	REF4(ROPE_AT, rope_at, rope.inv_freq),
	REF4(ROPE_AT, rope_at, positions),
	CMD(ROPE_AT, rope_at, positions.offset, 65536 - 8),
	CMD(ROPE_AT, rope_at, positions.slot, VNPU_SLOT_NONE),
	REF4(ROPE_AT, rope_at, rope.y),
	OUT(ROPE_AT, rope_at, rope.y),
	DIM(ROPE_AT, rope_at, rope.rows),
	CMD(ROPE_AT, rope_at, rope.rot_dim, 22),
	CMD(ROPE_AT, rope_at, rope.ldx, 39),
	CMD(ROPE_AT, rope_at, rope.ldy, 39),
	CMD(ROPE_AT, rope_at, rope.pos_param, ALL_PARAM_HUGE),
	CMD(ROPE_AT, rope_at, rope.mode, 2),

	COMMON(SOFTMAX, softmax),
	REF4(SOFTMAX, softmax, x),
	REF4(SOFTMAX, softmax, y),
	OUT(SOFTMAX, softmax, y),
	DIM(SOFTMAX, softmax, rows),
	DIM(SOFTMAX, softmax, cols),
	CMD(SOFTMAX, softmax, ldx, 49),
	CMD(SOFTMAX, softmax, ldy, 49),
	CMD(SOFTMAX, softmax, scale, 0xff800000), /* -infinity */
	CMD(SOFTMAX, softmax, limit_param, 3),
	CMD(SOFTMAX, softmax, limit_param, ALL_PARAM_HUGE),

	COMMON(QUANT, quant),
	REF4(QUANT, quant, x),
	REF(QUANT, quant, q),
	OUT(QUANT, quant, q),
	REF4(QUANT, quant, scale),
	OUT(QUANT, quant, scale),
	DIM(QUANT, quant, rows),
	DIM(QUANT, quant, cols),
	CMD(QUANT, quant, ldx, 69),
	CMD(QUANT, quant, ldq, 71), /* 70 columns are padded to 72 */

	COMMON(QUANT16, quant),
	REF(QUANT16, quant, q),
	OUT(QUANT16, quant, q),
	OUT(QUANT16, quant, scale),
	/* Where one plane would fit, and two do not. */
	CMD(QUANT16, quant, q.offset, ALL_OUT_BYTES - 1000),
	CMD(QUANT16, quant, scale.offset, ALL_OUT_BYTES - 36),
	CMD(QUANT16, quant, rows, VNPU_MAX_DIM / 2 + 1),
	DIM(QUANT16, quant, rows),
	CMD(QUANT16, quant, cols, 0),
	CMD(QUANT16, quant, cols, VNPU_MAX_K_I8 + 1),
	CMD(QUANT16, quant, ldx, 69),
	CMD(QUANT16, quant, ldq, 71),

	COMMON(QUANT_STATIC, quant_static),
	REF4(QUANT_STATIC, quant_static, x),
	REF4(QUANT_STATIC, quant_static, static_scale),
	CMD(QUANT_STATIC, quant_static, static_scale.slot, VNPU_SLOT_NONE),
	REF(QUANT_STATIC, quant_static, q),
	OUT(QUANT_STATIC, quant_static, q),
	REF4(QUANT_STATIC, quant_static, scale),
	OUT(QUANT_STATIC, quant_static, scale),
	DIM(QUANT_STATIC, quant_static, rows),
	DIM(QUANT_STATIC, quant_static, cols),
	CMD(QUANT_STATIC, quant_static, ldx, 69),
	CMD(QUANT_STATIC, quant_static, ldq, 71),

	COMMON(QUANT_OUTLIERS, quant_outliers),
	REF4(QUANT_OUTLIERS, quant_outliers, x),
	REF(QUANT_OUTLIERS, quant_outliers, q),
	OUT(QUANT_OUTLIERS, quant_outliers, q),
	REF4(QUANT_OUTLIERS, quant_outliers, scale),
	OUT(QUANT_OUTLIERS, quant_outliers, scale),
	REF4(QUANT_OUTLIERS, quant_outliers, outliers),
	OUT(QUANT_OUTLIERS, quant_outliers, outliers),
	CMD(QUANT_OUTLIERS, quant_outliers, outliers.offset, ALL_OUT_BYTES - 9 * 128 + 4),
	DIM(QUANT_OUTLIERS, quant_outliers, rows),
	CMD(QUANT_OUTLIERS, quant_outliers, cols, 0),
	CMD(QUANT_OUTLIERS, quant_outliers, cols, VNPU_MAX_K_I8 + 1),
	CMD(QUANT_OUTLIERS, quant_outliers, ldx, 69),
	CMD(QUANT_OUTLIERS, quant_outliers, ldq, 71),

	COMMON(ADD_OUTLIERS, add_outliers),
	REF4(ADD_OUTLIERS, add_outliers, x),
	REF4(ADD_OUTLIERS, add_outliers, outliers),
	CMD(ADD_OUTLIERS, add_outliers, outliers.offset, ALL_OUT_BYTES - 9 * 128 + 4),
	REF(ADD_OUTLIERS, add_outliers, w),
	CMD(ADD_OUTLIERS, add_outliers, w.offset, 4096 + 32),
	REF4(ADD_OUTLIERS, add_outliers, y),
	OUT(ADD_OUTLIERS, add_outliers, y),
	DIM(ADD_OUTLIERS, add_outliers, m),
	DIM(ADD_OUTLIERS, add_outliers, n),
	DIM(ADD_OUTLIERS, add_outliers, k),
	CMD(ADD_OUTLIERS, add_outliers, k, VNPU_MAX_K_I8 + 1),
	CMD(ADD_OUTLIERS, add_outliers, ldx, 129),
	CMD(ADD_OUTLIERS, add_outliers, ldy, 129),
	CMD(ADD_OUTLIERS, add_outliers, group, 16),
	CMD(ADD_OUTLIERS, add_outliers, group, 32), /* which 70 is no multiple of */

	COMMON(ADD_OUTLIERS_WK, add_outliers_wk),
	REF4(ADD_OUTLIERS_WK, add_outliers_wk, x),
	REF4(ADD_OUTLIERS_WK, add_outliers_wk, outliers),
	CMD(ADD_OUTLIERS_WK, add_outliers_wk, outliers.offset, ALL_OUT_BYTES - 9 * 128 + 4),
	REF(ADD_OUTLIERS_WK, add_outliers_wk, w),
	CMD(ADD_OUTLIERS_WK, add_outliers_wk, w.offset, ALL_WK + 32),
	CMD(ADD_OUTLIERS_WK, add_outliers_wk, w.offset, 65536 - 5184 + 64),
	REF4(ADD_OUTLIERS_WK, add_outliers_wk, y),
	OUT(ADD_OUTLIERS_WK, add_outliers_wk, y),
	DIM(ADD_OUTLIERS_WK, add_outliers_wk, m),
	DIM(ADD_OUTLIERS_WK, add_outliers_wk, n),
	DIM(ADD_OUTLIERS_WK, add_outliers_wk, k),
	CMD(ADD_OUTLIERS_WK, add_outliers_wk, k, VNPU_MAX_K_I8 + 1),
	CMD(ADD_OUTLIERS_WK, add_outliers_wk, k,
	    700), /* which 1 bit each would exceed w_bytes with */
	CMD(ADD_OUTLIERS_WK, add_outliers_wk, n, 800),
	CMD(ADD_OUTLIERS_WK, add_outliers_wk, ldx, 69),
	CMD(ADD_OUTLIERS_WK, add_outliers_wk, ldy, 69),
	CMD(ADD_OUTLIERS_WK, add_outliers_wk, reserved, 1),
	CMD(ADD_OUTLIERS_WK, add_outliers_wk, w_bytes, 0),
	CMD(ADD_OUTLIERS_WK, add_outliers_wk, w_bytes, 5184 - 32),
	CMD(ADD_OUTLIERS_WK, add_outliers_wk, w_bytes, 64 + 8 * 64 * 2 + 2 * 512 - 64),
	CMD(ADD_OUTLIERS_WK, add_outliers_wk, w_bytes, 64 + 8 * 64 * 16 + 2 * 512 + 64),
	CMD(ADD_OUTLIERS_WK, add_outliers_wk, w_bytes, UINT64_MAX - 63),

	COMMON(DEQUANT, dequant),
	REF(DEQUANT, dequant, q),
	REF4(DEQUANT, dequant, scale),
	REF4(DEQUANT, dequant, y),
	OUT(DEQUANT, dequant, y),
	DIM(DEQUANT, dequant, rows),
	DIM(DEQUANT, dequant, cols),
	CMD(DEQUANT, dequant, ldq, 69),
	CMD(DEQUANT, dequant, ldy, 69),

	ANY_CMD(MATMUL_I8, matmul_i8),
	REF(MATMUL_I8, matmul_i8, a),
	REF4(MATMUL_I8, matmul_i8, a_scale),
	REF(MATMUL_I8, matmul_i8, w),
	CMD(MATMUL_I8, matmul_i8, w.offset, 32),
	REF4(MATMUL_I8, matmul_i8, bias),
	REF4(MATMUL_I8, matmul_i8, c),
	OUT(MATMUL_I8, matmul_i8, c),
	CMD(MATMUL_I8, matmul_i8, bias.slot, VNPU_SLOT_NONE), /* with an offset */
	CMD(MATMUL_I8, matmul_i8, a.slot, VNPU_SLOT_NONE),
	CMD(MATMUL_I8, matmul_i8, w.slot, VNPU_SLOT_NONE),
	DIM(MATMUL_I8, matmul_i8, m),
	DIM(MATMUL_I8, matmul_i8, n),
	DIM(MATMUL_I8, matmul_i8, k),
	CMD(MATMUL_I8, matmul_i8, k, VNPU_MAX_K_I8 + 1),
	CMD(MATMUL_I8, matmul_i8, lda, 71), /* 70 columns are read as 72 */
	CMD(MATMUL_I8, matmul_i8, ldc, 129),
	CMD(MATMUL_I8, matmul_i8, tile_m, 0),
	CMD(MATMUL_I8, matmul_i8, tile_n, 0),
	CMD(MATMUL_I8, matmul_i8, tile_n, 65),
	CMD(MATMUL_I8, matmul_i8, tile_n, 32),
	CMD(MATMUL_I8, matmul_i8, tile_n, UINT32_MAX - 63),
	CMD(MATMUL_I8, matmul_i8, reserved, 1),

	ANY_CMD(MATMUL_W4, matmul_w4),
	REF(MATMUL_W4, matmul_w4, a),
	REF4(MATMUL_W4, matmul_w4, a_scale),
	REF(MATMUL_W4, matmul_w4, w),
	CMD(MATMUL_W4, matmul_w4, w.offset, 20480 + 32),
	CMD(MATMUL_W4, matmul_w4, w.offset, 65536 - 4608 + 64),
	REF4(MATMUL_W4, matmul_w4, bias),
	REF4(MATMUL_W4, matmul_w4, c),
	OUT(MATMUL_W4, matmul_w4, c),
	CMD(MATMUL_W4, matmul_w4, a_scale.slot, VNPU_SLOT_NONE),
	DIM(MATMUL_W4, matmul_w4, m),
	DIM(MATMUL_W4, matmul_w4, n),
	DIM(MATMUL_W4, matmul_w4, k),
	CMD(MATMUL_W4, matmul_w4, k, 63),
	CMD(MATMUL_W4, matmul_w4, k, 48),
	CMD(MATMUL_W4, matmul_w4, k, VNPU_MAX_K_I8 + 32),
	CMD(MATMUL_W4, matmul_w4, lda, 63),
	CMD(MATMUL_W4, matmul_w4, ldc, 69),
	CMD(MATMUL_W4, matmul_w4, tile_m, 0),
	CMD(MATMUL_W4, matmul_w4, tile_n, 0),
	CMD(MATMUL_W4, matmul_w4, tile_n, 65),
	CMD(MATMUL_W4, matmul_w4, group, 0),
	CMD(MATMUL_W4, matmul_w4, group, 16),
	CMD(MATMUL_W4, matmul_w4, group, 33),
	CMD(MATMUL_W4, matmul_w4, group, 128), /* which does not divide 64 */
	CMD(MATMUL_W4, matmul_w4, group, UINT32_MAX),

	ANY_CMD(MATMUL_W4F, matmul_w4),
	REF4(MATMUL_W4F, matmul_w4, a),
	REF(MATMUL_W4F, matmul_w4, w),
	REF4(MATMUL_W4F, matmul_w4, bias),
	REF4(MATMUL_W4F, matmul_w4, c),
	OUT(MATMUL_W4F, matmul_w4, c),
	CMD(MATMUL_W4F, matmul_w4, a_scale.slot, ALL_SLOT_IN),
	CMD(MATMUL_W4F, matmul_w4, a_scale.offset, 4),
	CMD(MATMUL_W4F, matmul_w4, a_scale.reserved, 1),
	/* Rows of floats, not of bytes. */
	CMD(MATMUL_W4F, matmul_w4, a.offset, 65536 - 9 * 73 * 4 + 256),
	CMD(MATMUL_W4F, matmul_w4, lda, 63),
	CMD(MATMUL_W4F, matmul_w4, k, 96), /* more than lda */
	CMD(MATMUL_W4F, matmul_w4, group, 48),

	ANY_CMD(MATMUL_WK, matmul_wk),
	REF(MATMUL_WK, matmul_wk, a),
	REF4(MATMUL_WK, matmul_wk, a_scale),
	REF(MATMUL_WK, matmul_wk, w),
	CMD(MATMUL_WK, matmul_wk, w.offset, ALL_WK + 32),
	CMD(MATMUL_WK, matmul_wk, w.offset, 65536 - 5184 + 64),
	REF4(MATMUL_WK, matmul_wk, bias),
	REF4(MATMUL_WK, matmul_wk, c),
	OUT(MATMUL_WK, matmul_wk, c),
	CMD(MATMUL_WK, matmul_wk, bias.slot, VNPU_SLOT_NONE), /* with an offset */
	CMD(MATMUL_WK, matmul_wk, a_scale.slot, VNPU_SLOT_NONE),
	DIM(MATMUL_WK, matmul_wk, m),
	DIM(MATMUL_WK, matmul_wk, n),
	DIM(MATMUL_WK, matmul_wk, k),
	CMD(MATMUL_WK, matmul_wk, k, VNPU_MAX_K_I8 + 1),
	CMD(MATMUL_WK, matmul_wk, k, 700), /* which 1 bit each would exceed w_bytes with */
	CMD(MATMUL_WK, matmul_wk, n, 800),
	CMD(MATMUL_WK, matmul_wk, lda, 63), /* 61 columns are read as 64 */
	CMD(MATMUL_WK, matmul_wk, ldc, 69),
	CMD(MATMUL_WK, matmul_wk, tile_m, 0),
	CMD(MATMUL_WK, matmul_wk, tile_n, 0),
	CMD(MATMUL_WK, matmul_wk, tile_n, 65),
	CMD(MATMUL_WK, matmul_wk, tile_n, UINT32_MAX - 63),
	CMD(MATMUL_WK, matmul_wk, reserved, 1),
	CMD(MATMUL_WK, matmul_wk, w_bytes, 0),
	CMD(MATMUL_WK, matmul_wk, w_bytes, 5184 - 1),
	CMD(MATMUL_WK, matmul_wk, w_bytes, 5184 - 32),
	/* Less than all of 1 bit. */
	CMD(MATMUL_WK, matmul_wk, w_bytes, 64 + 8 * 64 * 2 + 2 * 512 - 64),
	/* More than all of 8. */
	CMD(MATMUL_WK, matmul_wk, w_bytes, 64 + 8 * 64 * 16 + 2 * 512 + 64),
	CMD(MATMUL_WK, matmul_wk, w_bytes, UINT64_MAX - 63),
	CMD(MATMUL_WK, matmul_wk, w_bytes, 1ull << 63),

	COMMON(QK_I8, qk_i8),
	REF(QK_I8, qk_i8, q),
	REF4(QK_I8, qk_i8, k),
	CMD(QK_I8, qk_i8, k.offset, ALL_KEYS + 32),
	CMD(QK_I8, qk_i8, k.offset, 65536 - 2 * 4608 + 64),
	REF4(QK_I8, qk_i8, scores),
	CMD(QK_I8, qk_i8, scores.offset, 98304 + 32),
	OUT(QK_I8, qk_i8, scores),
	DIM(QK_I8, qk_i8, rows),
	DIM(QK_I8, qk_i8, head_dim),
	DIM(QK_I8, qk_i8, ctx_rows),
	CMD(QK_I8, qk_i8, rows, 124), /* position 5 and 124 rows need 129 */
	CMD(QK_I8, qk_i8, head_dim, VNPU_MAX_HEAD_DIM + 1),
	CMD(QK_I8, qk_i8, ctx_rows, 100),
	CMD(QK_I8, qk_i8, ctx_rows, 256), /* more than lds */
	CMD(QK_I8, qk_i8, ldq, 71),
	CMD(QK_I8, qk_i8, lds, 64),
	CMD(QK_I8, qk_i8, lds, 160),
	CMD(QK_I8, qk_i8, lds, UINT32_MAX / 64 * 64),
	CMD(QK_I8, qk_i8, pos_param, 3),
	CMD(QK_I8, qk_i8, pos_param, ALL_PARAM_HUGE),
	CMD(QK_I8, qk_i8, shift, VNPU_QK_MAX_SHIFT + 1),
	CMD(QK_I8, qk_i8, shift, UINT32_MAX),
	CMD(QK_I8, qk_i8, reserved, 1),

	COMMON(ATTN_I8, attn_i8),
	REF4(ATTN_I8, attn_i8, q),
	REF4(ATTN_I8, attn_i8, k),
	CMD(ATTN_I8, attn_i8, k.offset, ALL_KEYS + 32),
	REF4(ATTN_I8, attn_i8, v),
	CMD(ATTN_I8, attn_i8, v.offset, ALL_VALUES + 32),
	CMD(ATTN_I8, attn_i8, v.offset, 65536 - 128 * 80 + 64),
	REF4(ATTN_I8, attn_i8, scales),
	CMD(ATTN_I8, attn_i8, scales.offset, 65536 - 8),
	REF4(ATTN_I8, attn_i8, y),
	OUT(ATTN_I8, attn_i8, y),
	DIM(ATTN_I8, attn_i8, rows),
	DIM(ATTN_I8, attn_i8, heads),
	DIM(ATTN_I8, attn_i8, head_dim),
	DIM(ATTN_I8, attn_i8, ctx_rows),
	CMD(ATTN_I8, attn_i8, rows, 124), /* position 5 and 124 rows need 129 */
	CMD(ATTN_I8, attn_i8, heads, 3),
	CMD(ATTN_I8, attn_i8, head_dim, VNPU_MAX_HEAD_DIM + 1),
	CMD(ATTN_I8, attn_i8, ctx_rows, 100),
	CMD(ATTN_I8, attn_i8, ctx_rows, VNPU_MAX_K_I8 + 64),
	CMD(ATTN_I8, attn_i8, ldq, 139),
	CMD(ATTN_I8, attn_i8, ldy, 139),
	CMD(ATTN_I8, attn_i8, pos_param, 3),
	CMD(ATTN_I8, attn_i8, pos_param, ALL_PARAM_HUGE),
	CMD(ATTN_I8, attn_i8, scale, 0),
	CMD(ATTN_I8, attn_i8, scale, 0x7fc00000), /* NaN */
	CMD(ATTN_I8, attn_i8, scale, 0xbf800000), /* -1 */

	COMMON(ATTN, attn),
	REF4(ATTN, attn, q),
	REF4(ATTN, attn, k),
	REF4(ATTN, attn, v),
	REF4(ATTN, attn, y),
	OUT(ATTN, attn, y),
	DIM(ATTN, attn, rows),
	DIM(ATTN, attn, heads),
	DIM(ATTN, attn, kv_heads),
	DIM(ATTN, attn, head_dim),
	CMD(ATTN, attn, kv_heads, 4),
	CMD(ATTN, attn, kv_heads, 7),
	CMD(ATTN, attn, head_dim, VNPU_MAX_HEAD_DIM + 1),
	CMD(ATTN, attn, ctx_rows, 0),
	CMD(ATTN, attn, ctx_rows, 8), /* position 5 and 4 rows need 9 */
	CMD(ATTN, attn, ctx_rows, UINT32_MAX),
	CMD(ATTN, attn, rows, 12),
	CMD(ATTN, attn, ldq, 107),
	CMD(ATTN, attn, ldk, 35),
	CMD(ATTN, attn, ldv, 35),
	CMD(ATTN, attn, ldy, 107),
	CMD(ATTN, attn, pos_param, 3),
	CMD(ATTN, attn, pos_param, ALL_PARAM_HUGE),
	CMD(ATTN, attn, scale, 0x7fc00000), /* NaN */
	CMD(ATTN, attn, kv_type, VNPU_KV_Q8_0 + 1),
	CMD(ATTN, attn, kv_type, UINT32_MAX),
	CMD(ATTN, attn, kv_type, VNPU_KV_Q8_0), /* whose heads are multiples of 32 */

	COMMON(ATTN_MASK, attn),
	REF4(ATTN_MASK, attn_mask, attn.q),
	REF4(ATTN_MASK, attn_mask, attn.k),
	REF4(ATTN_MASK, attn_mask, attn.v),
	REF4(ATTN_MASK, attn_mask, mask),
	CMD(ATTN_MASK, attn_mask, mask.offset, 4),
	CMD(ATTN_MASK, attn_mask, mask.offset, 65536 - 24),
	CMD(ATTN_MASK, attn_mask, mask.slot, VNPU_SLOT_NONE), /* with an offset */
	CMD(ATTN_MASK, attn_mask, cap, 0xbf800000), /* -1 */
	CMD(ATTN_MASK, attn_mask, cap, 0x7f800000), /* infinity */
	REF4(ATTN_MASK, attn_mask, attn.y),
	OUT(ATTN_MASK, attn_mask, attn.y),
	DIM(ATTN_MASK, attn_mask, attn.rows),
	CMD(ATTN_MASK, attn_mask, attn.rows, VNPU_MASK_ROWS + 1),
	CMD(ATTN_MASK, attn_mask, attn.head_dim, VNPU_MASK_HEAD_DIM + 1),
	CMD(ATTN_MASK, attn_mask, attn.kv_heads, 4),
	CMD(ATTN_MASK, attn_mask, attn.ctx_rows, 8),
	CMD(ATTN_MASK, attn_mask, attn.ldq, 107),
	CMD(ATTN_MASK, attn_mask, attn.ldk, 35),
	CMD(ATTN_MASK, attn_mask, attn.ldv, 35),
	CMD(ATTN_MASK, attn_mask, attn.ldy, 107),
	CMD(ATTN_MASK, attn_mask, attn.pos_param, ALL_PARAM_HUGE),
	CMD(ATTN_MASK, attn_mask, attn.scale, 0x7fc00000), /* NaN */
	CMD(ATTN_MASK, attn_mask, attn.kv_type, VNPU_KV_Q8_0 + 1),

	COMMON(ATTN_AT, attn),
	REF4(ATTN_AT, attn_at, attn.q),
	REF4(ATTN_AT, attn_at, attn.k),
	REF4(ATTN_AT, attn_at, attn.v),
	REF4(ATTN_AT, attn_at, positions),
	CMD(ATTN_AT, attn_at, positions.offset, 65536 - 12),
	CMD(ATTN_AT, attn_at, positions.slot, VNPU_SLOT_NONE),
	DIM(ATTN_AT, attn_at, span),
	CMD(ATTN_AT, attn_at, span, 12), /* behind the cache */
	CMD(ATTN_AT, attn_at, reserved, 1),
	CMD(ATTN_AT, attn_at, cap, 0xbf800000), /* -1 */
	CMD(ATTN_AT, attn_at, cap, 0x7f800000), /* infinity */
	REF4(ATTN_AT, attn_at, attn.y),
	OUT(ATTN_AT, attn_at, attn.y),
	DIM(ATTN_AT, attn_at, attn.rows),
	CMD(ATTN_AT, attn_at, attn.kv_heads, 4),
	CMD(ATTN_AT, attn_at, attn.ctx_rows, 8),
	CMD(ATTN_AT, attn_at, attn.ldq, 107),
	CMD(ATTN_AT, attn_at, attn.ldk, 35),
	CMD(ATTN_AT, attn_at, attn.ldv, 35),
	CMD(ATTN_AT, attn_at, attn.ldy, 107),
	CMD(ATTN_AT, attn_at, attn.pos_param, ALL_PARAM_HUGE),
	CMD(ATTN_AT, attn_at, attn.scale, 0x7fc00000), /* NaN */
	CMD(ATTN_AT, attn_at, attn.kv_type, VNPU_KV_Q8_0 + 1),

	COMMON(STORE, store),
	REF(STORE, store, x),
	CMD(STORE, store, x.offset, 2),
	REF(STORE, store, dst),
	CMD(STORE, store, dst.offset, 53249),
	OUT(STORE, store, dst),
	DIM(STORE, store, rows),
	DIM(STORE, store, cols),
	CMD(STORE, store, cols, 65),
	CMD(STORE, store, ldx, 63),
	CMD(STORE, store, ldx, UINT32_MAX),
	CMD(STORE, store, ld_dst, 32),
	CMD(STORE, store, ld_dst, 97),
	CMD(STORE, store, ld_dst, UINT32_MAX - 31),
	CMD(STORE, store, row_param, 3),
	CMD(STORE, store, row_param, ALL_PARAM_HUGE),
	CMD(STORE, store, type, VNPU_KV_F32),
	CMD(STORE, store, type, VNPU_KV_Q8_0 + 1),
};

static const struct bad_field bad_table[] = {
	TABLE(magic, 0),
	TABLE(magic, VNPU_STREAM_MAGIC),
	TABLE(version, 0),
	TABLE(version, VNPU_ISA_VERSION + 1),
	TABLE(version, VNPU_ISA_VERSION + 0x10000),
	TABLE(nr_slots, 0),
	TABLE(nr_slots, 3),
	TABLE(nr_slots, 5),
	TABLE(nr_slots, VNPU_MAX_SLOTS + 1),
	TABLE(nr_slots, UINT32_MAX),
	TABLE(nr_params, 0),
	TABLE(nr_params, 4),
	TABLE(nr_params, VNPU_MAX_PARAMS + 1),
	TABLE(nr_params, UINT32_MAX),
	TABLE(version, 0x10000), /* whose header is shorter */
	TABLE(record_slot, ALL_SLOT_IN),
	TABLE(record_slot, ALL_SLOT_W),
	TABLE(record_slot, ALL_SLOT_UNUSED),
	TABLE(record_slot, 4),
	TABLE(record_slot, VNPU_MAX_SLOTS),
	TABLE(record_slot, 1u << 31),
	TABLE(record_slot, VNPU_SLOT_NONE - 1),
	TABLE(reserved, 1),
	TABLE(reserved, UINT32_MAX),
	SLOT(0, va, ALL_DATA + 4),
	SLOT(0, va, ALL_DATA + 32),
	SLOT(0, va, UINT64_MAX - 63),
	SLOT(0, va, 1ull << FAKE_VA_BITS),
	SLOT(0, va, (1ull << FAKE_VA_BITS) - 64),
	SLOT(0, size_bytes, 0),
	SLOT(0, size_bytes, 64),
	SLOT(0, size_bytes, UINT64_MAX),
	SLOT(0, size_bytes, 1ull << FAKE_VA_BITS),
	SLOT(0, flags, 0),
	SLOT(0, flags, VNPU_SLOT_WRITE),
	SLOT(0, flags, 4 | VNPU_SLOT_READ),
	SLOT(0, reserved, 1),
	SLOT(2, flags, VNPU_SLOT_READ),
	SLOT(2, flags, VNPU_SLOT_WRITE),
	SLOT(3, va, 64),
	SLOT(3, flags, 1u << 31),
	SLOT(3, reserved, 1),
};

#endif
