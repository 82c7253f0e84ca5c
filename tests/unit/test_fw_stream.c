// SPDX-License-Identifier: MIT
/*
 * Validation: a stream of every operation runs; the same stream with any one field spoilt is refused with a reason and
 * touches nothing; and whatever bytes come in, the device neither crashes nor touches memory that it did not announce.
 */
#include "fw_fake.h"

#include <math.h>

#include "profile.h"

#define STREAM_VA 0x10000
#define NOT_CMD 0

/* One field of the job of every operation, and a value that makes the job invalid. */
struct bad_field {
	const char *name;
	uint16_t op; /* the first command with it, or NOT_CMD: the header */
	uint16_t offset, size;
	uint64_t value;
};

#define CMD(OPC, type, field, value)                                                                  \
	{                                                                                             \
#OPC "." #field " = " #value, VNPU_OP_##OPC, offsetof(struct vnpu_cmd_##type, field), \
			sizeof(((struct vnpu_cmd_##type *)0)->field), value                           \
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
		CMD(OPC, type, ref.offset, ALL_OUT_BYTES), CMD(OPC, type, ref.offset, ALL_OUT_BYTES - 4),       \
		CMD(OPC, type, ref.offset, UINT64_MAX - 3), CMD(OPC, type, ref.offset, 1ull << 63)
#define REF4(OPC, type, ref) REF(OPC, type, ref), CMD(OPC, type, ref.offset, 2), CMD(OPC, type, ref.offset, 1)
/* Written operands must not be in a slot that is read-only. */
#define OUT(OPC, type, ref) CMD(OPC, type, ref.slot, ALL_SLOT_W), CMD(OPC, type, ref.slot, ALL_SLOT_IN)
#define DIM(OPC, type, field) \
	CMD(OPC, type, field, 0), CMD(OPC, type, field, VNPU_MAX_DIM + 1), CMD(OPC, type, field, UINT32_MAX)
#define COMMON(OPC, type)                                                                                          \
	CMD(OPC, type, hdr.flags, 1), CMD(OPC, type, hdr.size_bytes, 0), CMD(OPC, type, hdr.size_bytes, 4),        \
		CMD(OPC, type, hdr.size_bytes, sizeof(struct vnpu_cmd_##type) + 8),                                \
		CMD(OPC, type, hdr.size_bytes, UINT32_MAX), CMD(OPC, type, hdr.op, 0), CMD(OPC, type, hdr.op, 99), \
		CMD(OPC, type, hdr.op, UINT16_MAX), CMD(OPC, type, hdr.op, VNPU_OP_END)

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
	CMD(ACT, act, kind, 2),
	CMD(ACT, act, reserved, 1),

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
	CMD(GLU, glu, kind, 2),

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

	COMMON(DEQUANT, dequant),
	REF(DEQUANT, dequant, q),
	REF4(DEQUANT, dequant, scale),
	REF4(DEQUANT, dequant, y),
	OUT(DEQUANT, dequant, y),
	DIM(DEQUANT, dequant, rows),
	DIM(DEQUANT, dequant, cols),
	CMD(DEQUANT, dequant, ldq, 69),
	CMD(DEQUANT, dequant, ldy, 69),

	COMMON(MATMUL_I8, matmul_i8),
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

	COMMON(MATMUL_W4, matmul_w4),
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

	COMMON(MATMUL_W4F, matmul_w4),
	REF4(MATMUL_W4F, matmul_w4, a),
	REF(MATMUL_W4F, matmul_w4, w),
	REF4(MATMUL_W4F, matmul_w4, bias),
	REF4(MATMUL_W4F, matmul_w4, c),
	OUT(MATMUL_W4F, matmul_w4, c),
	CMD(MATMUL_W4F, matmul_w4, a_scale.slot, ALL_SLOT_IN),
	CMD(MATMUL_W4F, matmul_w4, a_scale.offset, 4),
	CMD(MATMUL_W4F, matmul_w4, a_scale.reserved, 1),
	CMD(MATMUL_W4F, matmul_w4, a.offset, 65536 - 9 * 73 * 4 + 256), /* rows of floats, not of bytes */
	CMD(MATMUL_W4F, matmul_w4, lda, 63),
	CMD(MATMUL_W4F, matmul_w4, k, 96), /* more than lda */
	CMD(MATMUL_W4F, matmul_w4, group, 48),

	COMMON(MATMUL_WK, matmul_wk),
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
	CMD(MATMUL_WK, matmul_wk, w_bytes, 64 + 8 * 64 * 2 + 2 * 512 - 64), /* less than all of 1 bit */
	CMD(MATMUL_WK, matmul_wk, w_bytes, 64 + 8 * 64 * 16 + 2 * 512 + 64), /* more than all of 8 */
	CMD(MATMUL_WK, matmul_wk, w_bytes, UINT64_MAX - 63),
	CMD(MATMUL_WK, matmul_wk, w_bytes, 1ull << 63),

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
	TABLE(profile_slot, ALL_SLOT_IN),
	TABLE(profile_slot, ALL_SLOT_W),
	TABLE(profile_slot, ALL_SLOT_UNUSED),
	TABLE(profile_slot, 4),
	TABLE(profile_slot, VNPU_MAX_SLOTS),
	TABLE(profile_slot, 1u << 31),
	TABLE(profile_slot, VNPU_SLOT_NONE - 1),
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

struct fixture {
	struct fake *f;
	struct job_builder good;
	uint8_t *before; /* of ALL_DATA..ALL_END */
	unsigned int nr_jobs;
};

static struct vnpu_fw_cqe run(struct fixture *x, const struct job_builder *b)
{
	struct job_builder copy = *b;
	struct vnpu_fw_sqe sqe;

	x->nr_jobs++;
	sqe = job_place(&copy, x->f, 1, 0, STREAM_VA, x->nr_jobs);
	x->f->last_log[0] = 0;
	fake_submit(x->f, &sqe, 1);
	return fake_wait(x->f, x->nr_jobs - 1);
}

static int set_up(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));

	rng_seed("test_fw_stream");
	x->f = fake_create(16);
	all_ops_make(&x->good, x->f, 1);
	x->before = malloc(ALL_END - ALL_DATA);
	memcpy(x->before, x->f->mem[1] + ALL_DATA, ALL_END - ALL_DATA);
	fake_start(x->f, 2, 0, FW_ISA_AUTO);
	*state = x;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *x = *state;

	fake_stop(x->f);
	fake_destroy(x->f);
	free(x->before);
	free(x);
	return 0;
}

/* The first command with @op, for NOT_CMD the header. */
static uint8_t *find_cmd(struct job_builder *b, uint16_t op)
{
	uint32_t at = sizeof(struct vnpu_stream_hdr);
	struct vnpu_cmd *cmd;

	if (op == NOT_CMD)
		return b->stream;
	for (; at < b->stream_bytes; at += cmd->size_bytes) {
		cmd = (struct vnpu_cmd *)(b->stream + at);
		if (cmd->op == op)
			return (uint8_t *)cmd;
	}
	fail_msg("the job has no operation %u", op);
	return NULL;
}

static void assert_refused(struct fixture *x, const struct job_builder *b, const char *what)
{
	struct vnpu_fw_cqe cqe = run(x, b);

	if (cqe.status != VNPU_FW_INVALID)
		fail_msg("%s: status %u, not INVALID", what, cqe.status);
	if (!strstr(x->f->last_log, ": ") || strchr(x->f->last_log, '\n'))
		fail_msg("%s: no reason in '%s'", what, x->f->last_log);
	if (memcmp(x->f->mem[1] + ALL_DATA, x->before, ALL_END - ALL_DATA))
		fail_msg("%s: refused, but something ran", what);
}

static void a_stream_of_every_operation_runs(void **state)
{
	struct fixture *x = *state;
	uint8_t zeros[4096] = { 0 };
	unsigned int page;

	if (run(x, &x->good).status != VNPU_FW_OK)
		fail_msg("refused: %s", x->f->last_log);
	/* Each operation writes to a page of its own. */
	for (page = 0; page < ALL_OUT_BYTES / 4096; page++)
		assert_memory_not_equal(x->f->mem[1] + ALL_OUT + page * 4096, zeros, sizeof(zeros));
	assert_memory_equal(x->f->mem[1] + ALL_DATA, x->before, ALL_OUT - ALL_DATA);
}

static void every_malformed_field_of_the_stream_is_refused(void **state)
{
	struct fixture *x = *state;
	const struct bad_field *bad;
	struct job_builder b;
	unsigned int i;

	for (i = 0; i < sizeof(bad_stream) / sizeof(bad_stream[0]); i++) {
		bad = &bad_stream[i];
		b = x->good;
		memcpy(find_cmd(&b, bad->op) + bad->offset, &bad->value, bad->size);
		assert_refused(x, &b, bad->name);
	}
}

static void every_malformed_field_of_the_table_is_refused(void **state)
{
	struct fixture *x = *state;
	const struct bad_field *bad;
	struct job_builder b;
	unsigned int i;

	for (i = 0; i < sizeof(bad_table) / sizeof(bad_table[0]); i++) {
		bad = &bad_table[i];
		b = x->good;
		memcpy(b.table + bad->offset, &bad->value, bad->size);
		assert_refused(x, &b, bad->name);
	}
}

static void truncated_and_padded_jobs_are_refused(void **state)
{
	struct fixture *x = *state;
	struct job_builder b;
	uint32_t bytes;
	char what[64];

	for (bytes = 8; bytes < x->good.stream_bytes + 64; bytes += 8) {
		b = x->good;
		b.stream_bytes = bytes;
		snprintf(what, sizeof(what), "stream of %u bytes", bytes);
		if (bytes != x->good.stream_bytes)
			assert_refused(x, &b, what);
		/* As well if the header goes along with it. */
		((struct vnpu_stream_hdr *)b.stream)->size_bytes = bytes;
		if (bytes != x->good.stream_bytes)
			assert_refused(x, &b, what);
	}
	for (bytes = 8; bytes < x->good.table_bytes + 64; bytes += 8) {
		b = x->good;
		b.table_bytes = bytes;
		snprintf(what, sizeof(what), "table of %u bytes", bytes);
		if (bytes != x->good.table_bytes)
			assert_refused(x, &b, what);
	}
}

/* Operands may end exactly where their slot ends. */
static void operands_may_fill_their_slots(void **state)
{
	struct vnpu_cmd_binary add = { .rows = 2, .cols = 8, .lda = 12, .ldb = 8, .ldy = 8 };
	struct fixture *x = *state;
	struct job_builder b;
	int less;

	for (less = 0; less < 2; less++) {
		job_begin(&b);
		add.a = ref_to(job_slot(&b, ALL_DATA, 20 * 4 - less, VNPU_SLOT_READ), 0);
		add.b = ref_to(job_slot(&b, ALL_DATA, 4096, VNPU_SLOT_READ), 4096 - 16 * 4);
		add.y = ref_to(job_slot(&b, ALL_OUT, 16 * 4, VNPU_SLOT_WRITE), 0);
		job_cmd(&b, VNPU_OP_ADD, &add, sizeof(add));
		job_end(&b);
		assert_int_equal(run(x, &b).status, less ? VNPU_FW_INVALID : VNPU_FW_OK);
	}
	/* At the end of the address space, too. */
	job_begin(&b);
	add.a = ref_to(job_slot(&b, (1ull << FAKE_VA_BITS) - 128, 128, VNPU_SLOT_READ), 128 - 20 * 4);
	add.b = ref_to(job_slot(&b, ALL_DATA, 4096, VNPU_SLOT_READ), 0);
	add.y = ref_to(job_slot(&b, ALL_OUT, 16 * 4, VNPU_SLOT_WRITE), 0);
	job_cmd(&b, VNPU_OP_ADD, &add, sizeof(add));
	job_end(&b);
	fake_bind(x->f, 1, (1ull << FAKE_VA_BITS) - 4096, 4096, false);
	assert_int_equal(run(x, &b).status, VNPU_FW_OK);
}

/* Barriers and sleeps alone, and the same operands twice. */
static void odd_but_valid_streams_run(void **state)
{
	struct fixture *x = *state;
	struct job_builder b;
	int i;

	job_begin(&b);
	for (i = 0; i < 100; i++)
		job_plain(&b, VNPU_OP_BARRIER);
	job_sleep(&b, 0);
	job_sleep(&b, 1);
	job_plain(&b, VNPU_OP_BARRIER);
	job_sleep(&b, 1000);
	job_end(&b);
	assert_int_equal(run(x, &b).status, VNPU_FW_OK);

	/* COPY onto itself, shifted by a few bytes: some bytes, no crash. */
	job_begin(&b);
	struct vnpu_cmd_copy copy = { .rows = 7,
				      .row_bytes = 4000,
				      .src_stride_bytes = 4000,
				      .dst_stride_bytes = 4001,
				      .dst_row_param = VNPU_PARAM_NONE };
	copy.src = ref_to(job_slot(&b, ALL_OUT, 65536, VNPU_SLOT_READ | VNPU_SLOT_WRITE), 0);
	copy.dst = ref_to(0, 5);
	job_cmd(&b, VNPU_OP_COPY, &copy, sizeof(copy));
	job_end(&b);
	assert_int_equal(run(x, &b).status, VNPU_FW_OK);
}

/* ---- fuzzing ------------------------------------------------------------------------------------------------------- */

/* A number that sits at an edge somewhere, or any. */
static uint32_t edgy(void)
{
	static const uint32_t edges[] = { 0,	      1,	  2,	      3,
					  4,	      63,	  64,	      65,
					  127,	      128,	  1024,	      4096,
					  65535,      65536,	  1 << 24,    (1 << 24) + 1,
					  0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };

	return rng_below(3) ? edges[rng_below(20)] : rng_below(2) ? rng_below(300) : rng_u32();
}

static void spoil(uint8_t *p, uint32_t bytes)
{
	uint32_t value, n = 1 + rng_below(3);

	while (n--) {
		value = edgy();
		if (rng_below(4))
			memcpy(p + rng_below(bytes / 4) * 4, &value, 4);
		else
			p[rng_below(bytes)] = value;
	}
}

static unsigned int fuzz_rounds(unsigned int otherwise)
{
	const char *env = getenv("VNPU_FUZZ_ROUNDS");

	return env ? strtoul(env, NULL, 0) : otherwise;
}

/* Checks @b as the device would; 0 or -EINVAL, never anything else. From exact copies, so that ASan sees overruns. */
static int decode(struct fw_prog *prog, const struct job_builder *b)
{
	void *stream = malloc(b->stream_bytes), *table = malloc(b->table_bytes);
	char why[256] = "";
	int err;

	memcpy(stream, b->stream, b->stream_bytes);
	memcpy(table, b->table, b->table_bytes);
	err = fw_prog_decode(prog, stream, b->stream_bytes, table, b->table_bytes, 1ull << FAKE_VA_BITS, why,
			     sizeof(why));
	assert_true(err == 0 || (err == -EINVAL && why[0]));
	if (err)
		assert_int_equal(prog->nr_cmds, 0);
	free(stream);
	free(table);
	return err;
}

/*
 * Streams with a few words spoilt: those that pass are run by a core that may touch only what it announces to the guard
 * (the pages of it; anything else is a crash of this test).
 */
static void spoilt_streams_never_crash_and_touch_only_what_they_announce(void **state)
{
	struct fixture *x = *state;
	struct vnpu_wk_panel *wk = (struct vnpu_wk_panel *)(x->f->mem[1] + ALL_WEIGHTS + ALL_WK), wk_good[2];
	unsigned int i, rounds = fuzz_rounds(6000), valid = 0;
	struct fw_prog prog = { 0 };
	struct job_builder b;
	struct profile *soc;
	uint32_t status;
	char why[256];

	soc = profile_load("sd8gen3", why, sizeof(why));
	assert_non_null(soc);
	memcpy(wk_good, wk, sizeof(wk_good));
	fake_stop(x->f);
	x->f->strict = true;
	x->f->npu = &soc->npu;
	fake_start(x->f, 1, 0, FW_ISA_AUTO);
	for (i = 0; i < rounds; i++) {
		b = x->good;
		if (rng_below(2))
			((struct vnpu_table_hdr *)b.table)->profile_slot = rng_below(8) ? ALL_SLOT_OUT : edgy();
		if (rng_below(5))
			spoil(b.stream, b.stream_bytes);
		else
			spoil(b.table, b.table_bytes);
		/* A sleep of seconds would only be slow. */
		memset(b.stream + (find_cmd(&x->good, VNPU_OP_SLEEP) - x->good.stream) + 8, 0, 8);
		if (decode(&prog, &b))
			continue;
		valid++;
		if (valid > rounds / 20)
			continue;
		x->nr_jobs = x->nr_jobs % 4000;
		if (!x->nr_jobs)
			x->f->nr_done = 0;
		/* What lies in memory is checked when it is read: the table of weights of 1 to 8 bits. */
		memcpy(wk, wk_good, sizeof(wk_good));
		if (!rng_below(3))
			spoil((uint8_t *)wk, sizeof(wk_good));
		status = run(x, &b).status;
		assert_true(status == VNPU_FW_OK || status == VNPU_FW_FAULT || status == VNPU_FW_FAILED);
	}
	print_message("%u of %u spoilt jobs were valid\n", valid, rounds);
	assert_true(valid > 0 && valid < rounds);
	fw_prog_free(&prog);
	/* The core must not outlive its profile. */
	fake_stop(x->f);
	x->f->npu = NULL;
	fake_start(x->f, 1, 0, FW_ISA_AUTO);
	profile_free(soc);
}

static void random_bytes_are_refused(void **state)
{
	unsigned int i, j, rounds = fuzz_rounds(20000);
	struct fixture *x = *state;
	struct fw_prog prog = { 0 };
	struct job_builder b;

	for (i = 0; i < rounds; i++) {
		b = x->good;
		b.stream_bytes = 8 * (1 + rng_below(60));
		b.table_bytes = 8 * (1 + rng_below(30));
		/* Headers that pass, so that the fuzz reaches what is behind them. */
		for (j = rng_below(4) ? sizeof(struct vnpu_stream_hdr) : 0; j < b.stream_bytes; j++)
			b.stream[j] = rng_below(3) ? rng_below(16) : rng_u32();
		for (j = rng_below(4) ? sizeof(struct vnpu_table_hdr) : 0; j < b.table_bytes; j++)
			b.table[j] = rng_below(3) ? 0 : rng_u32();
		((struct vnpu_stream_hdr *)b.stream)->size_bytes = b.stream_bytes;
		assert_int_equal(decode(&prog, &b), -EINVAL);
	}
	fw_prog_free(&prog);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_stream_of_every_operation_runs),
		TEST(every_malformed_field_of_the_stream_is_refused),
		TEST(every_malformed_field_of_the_table_is_refused),
		TEST(truncated_and_padded_jobs_are_refused),
		TEST(operands_may_fill_their_slots),
		TEST(odd_but_valid_streams_run),
		TEST(spoilt_streams_never_crash_and_touch_only_what_they_announce),
		TEST(random_bytes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
