/* SPDX-License-Identifier: MIT */
/*
 * vnpu instruction set, version 1: the format of command streams.
 *
 * A job is a command stream and a binding table, both in the context's address space. The firmware
 * copies both into private memory and validates them completely before it runs the first command;
 * an invalid job has no effect.
 *
 *   stream:  struct vnpu_stream_hdr, then commands of different sizes, each a multiple of
 *            8 bytes, the last one END
 *   table:   struct vnpu_table_hdr, then nr_slots x struct vnpu_slot, then nr_params x u64
 *   record:  the job's times, written by the device if the table names a slot for it
 *            (struct vnpu_record)
 *
 * Operands are (slot, byte offset) pairs. The table says what memory a slot is, so that one stream
 * works on any buffers. Params are integers that change between the runs of a static graph (a
 * token's position). The firmware checks that every operand, with its shape, strides and the
 * present params, lies inside its slot; that the slot lies inside the context's address space and
 * is writable if the operand is written; and that the operand is aligned: to 8 bytes for u64, 4 for
 * f32, s32 and u32, 2 for caches of f16 and q8_0, 64 for packed weights, packed keys and s16, 1 for
 * s8.
 *
 * Order: commands between two BARRIERs (or the ends of the stream) are independent and run
 * concurrently; a BARRIER waits for all commands before it. If concurrent commands overlap in
 * memory, the values there are undefined, and nothing outside the context is affected.
 *
 * Numbers: little-endian. f32 is IEEE binary32. Matrices are row-major; ld* are the distances
 * between rows in elements. Integer results are exact. Float results have the same bits on every
 * host and with any number of threads, and the result of a row does not depend on the number of
 * rows; docs/isa.md has their error bounds.
 */
#ifndef VNPU_ISA_H
#define VNPU_ISA_H

#include <stdint.h>

#include "vnpu_kq.h"

#define VNPU_ISA_MAJOR 1
#define VNPU_ISA_MINOR 11
#define VNPU_ISA_VERSION (VNPU_ISA_MAJOR << 16 | VNPU_ISA_MINOR)

#define VNPU_STREAM_MAGIC 0x53504e56u /* "VNPS" */
#define VNPU_TABLE_MAGIC 0x54504e56u /* "VNPT" */

#define VNPU_MAX_STREAM_BYTES (16u << 20)
#define VNPU_MAX_TABLE_BYTES (1u << 20)
#define VNPU_MAX_SLOTS 4096
#define VNPU_MAX_PARAMS 64
/* Largest number of rows or columns of an operand. */
#define VNPU_MAX_DIM (1u << 24)
/* Largest K of a matmul: a sum of 2^17 products of up to 2^14 overflows an int32. */
#define VNPU_MAX_K_I8 (1u << 16)
#define VNPU_MAX_HEAD_DIM 1024

#define VNPU_SLOT_NONE 0xffffffffu
#define VNPU_PARAM_NONE 0xffffffffu

struct vnpu_stream_hdr {
	uint32_t magic; /* VNPU_STREAM_MAGIC */
	uint16_t isa_major, isa_minor;
	uint32_t size_bytes; /* header and commands */
	uint32_t nr_cmds; /* END included */
	uint32_t nr_slots; /* the stream uses slots 0..nr_slots-1 */
	uint32_t nr_params;
	uint64_t reserved; /* 0 */
};

struct vnpu_table_hdr {
	uint32_t magic; /* VNPU_TABLE_MAGIC */
	/* VNPU_ISA_VERSION; a table of version 1.0 ends its header after nr_params. */
	uint32_t version;
	uint32_t nr_slots; /* at least as many as the stream's */
	uint32_t nr_params;
	/* Slot for the job's times (struct vnpu_record), or VNPU_SLOT_NONE. */
	uint32_t record_slot;
	uint32_t reserved; /* 0 */
};
#define VNPU_TABLE_HDR_BYTES_1_0 16

#define VNPU_SLOT_READ (1u << 0)
#define VNPU_SLOT_WRITE (1u << 1)

struct vnpu_slot {
	uint64_t va; /* multiple of 64; 0 with size 0: unused */
	uint64_t size_bytes;
	uint32_t flags; /* VNPU_SLOT_* */
	uint32_t reserved; /* 0 */
};

/*
 * The device writes this structure to the start of the record slot after all commands of a job have
 * succeeded and before it completes the job. A job that ends in any other way has no record. The
 * record slot is any writable slot of the table with room for this structure; the stream need not
 * use it. One struct vnpu_record_cmd per command of the stream follows, in order, as far as the
 * slot has room.
 *
 * Device times are those of the modelled NPU (firmware-sim/fw_time.h). They are the same for each
 * run of a job with the same params, and 0 on a device without a soc file; cycles are of the NPU's
 * clock. Wall-clock times are this host's, counted from when the firmware started on the job.
 */
struct vnpu_record {
	uint64_t device_ns, device_cycles; /* of the job: launch and all commands */
	uint64_t wall_ns; /* until the last command was done */
	uint32_t nr_cmds; /* of the stream with BARRIERs and END, never 0 */
	uint32_t nr_records; /* struct vnpu_record_cmd that follow */
};

struct vnpu_record_cmd {
	uint32_t index; /* in the stream */
	uint16_t op; /* enum vnpu_op */
	uint16_t reserved; /* 0 */
	/*
	 * Since the job's start, which includes the launch: the model runs commands one after
	 * another.
	 */
	uint64_t device_start_ns;
	uint64_t device_ns, device_cycles;
	/* Of all commands between the same two barriers, because these run concurrently. */
	uint64_t wall_start_ns, wall_end_ns;
};

/*
 * Follows the last struct vnpu_record_cmd if the slot has room for it and its array: which commands
 * the device's workers were busy with. Workers have nr_workers times the job's wall-clock time;
 * what is left of it after all busy_ns they have waited, for each other or at barriers.
 */
struct vnpu_record_work {
	uint32_t nr_workers; /* never 0 */
	uint32_t reserved; /* 0 */
	/* uint64_t busy_ns[nr_cmds], by index in the stream: the sum over the workers. */
};

/* An operand: byte @offset in slot @slot. VNPU_SLOT_NONE means an absent optional operand. */
struct vnpu_ref {
	uint32_t slot;
	uint32_t reserved; /* 0 */
	uint64_t offset;
};

/*
 * All operations, X(NAME, name, number, minor, cmd) for each: VNPU_OP_NAME is the number, 1.minor
 * the version that added it, struct vnpu_cmd_cmd its command. Numbers are only appended.
 * isa/isa_ops.c describes the fields of the commands.
 */
#define VNPU_FLOW_OPS(X)                 \
	X(END, end, 1, 0, plain)         \
	X(BARRIER, barrier, 2, 0, plain) \
	X(SLEEP, sleep, 3, 0, sleep)

#define VNPU_TENSOR_OPS(X)                                          \
	X(COPY, copy, 4, 0, copy)                                   \
	X(ADD, add, 5, 0, binary)                                   \
	X(MUL, mul, 6, 0, binary)                                   \
	X(ACT, act, 7, 0, act)                                      \
	X(RMSNORM, rmsnorm, 8, 0, rmsnorm)                          \
	X(ROPE, rope, 9, 0, rope)                                   \
	X(SOFTMAX, softmax, 10, 0, softmax)                         \
	X(QUANT, quant, 11, 0, quant)                               \
	X(DEQUANT, dequant, 12, 0, dequant)                         \
	X(MATMUL_I8, matmul_i8, 13, 0, matmul_i8)                   \
	X(ATTN, attn, 14, 0, attn)                                  \
	X(MATMUL_W4, matmul_w4, 15, 2, matmul_w4)                   \
	X(MATMUL_W4F, matmul_w4f, 16, 2, matmul_w4)                 \
	X(STORE, store, 17, 2, store)                               \
	X(GLU, glu, 18, 2, glu)                                     \
	X(MATMUL_WK, matmul_wk, 19, 3, matmul_wk)                   \
	X(QUANT16, quant16, 20, 4, quant)                           \
	X(QUANT_OUTLIERS, quant_outliers, 21, 4, quant_outliers)    \
	X(ADD_OUTLIERS, add_outliers, 22, 4, add_outliers)          \
	X(MATMUL_KQ, matmul_kq, 23, 6, matmul_kq)                   \
	X(QUANT_STATIC, quant_static, 24, 7, quant_static)          \
	X(ADD_OUTLIERS_WK, add_outliers_wk, 25, 8, add_outliers_wk) \
	X(QK_I8, qk_i8, 26, 9, qk_i8)                               \
	X(ATTN_I8, attn_i8, 27, 9, attn_i8)                         \
	X(ROPE_AT, rope_at, 28, 10, rope_at)                        \
	X(ATTN_MASK, attn_mask, 29, 10, attn_mask)                  \
	X(LAYERNORM, layernorm, 30, 10, layernorm)                  \
	X(ATTN_AT, attn_at, 31, 11, attn_at)

#define VNPU_OPS(X) VNPU_FLOW_OPS(X) VNPU_TENSOR_OPS(X)

#define VNPU_OP_NUMBER(NAME, name, number, minor, cmd) VNPU_OP_##NAME = number,
enum vnpu_op { VNPU_OPS(VNPU_OP_NUMBER) };
#undef VNPU_OP_NUMBER

struct vnpu_cmd {
	uint16_t op; /* enum vnpu_op */
	uint16_t flags; /* VNPU_CMD_*; 0 in streams below version 1.5 */
	uint32_t size_bytes; /* of this structure and its operands */
};

/*
 * MATMUL_I8, MATMUL_W4, MATMUL_W4F, MATMUL_WK, MATMUL_KQ: the modelled NPU computes C^T = W^T A^T.
 * It keeps activations in its arrays and streams the weights past them, and not the other way round
 * (HeteroLLM 3.2). The result has the same bits; only its device time differs.
 */
#define VNPU_CMD_PERMUTED (1u << 0)

/*
 * The same operations (1.7): struct vnpu_shape follows the command's structure and counts in its
 * size_bytes. The m rows of a are the pixels of an image whose lines have @width of them, one line
 * after another; without the flag they are one line. All shapes give the same bits, but the
 * modelled NPU takes longer for some (llm.npu 4: 1024 x 1 and 32 x 32 pixels).
 */
#define VNPU_CMD_SHAPED (1u << 1)

struct vnpu_shape {
	uint32_t width; /* divides m */
	uint32_t reserved; /* 0 */
};

/* END, BARRIER. */
struct vnpu_cmd_plain {
	struct vnpu_cmd hdr;
};

/* SLEEP: do nothing for a time; ends early when the job is cancelled. */
struct vnpu_cmd_sleep {
	struct vnpu_cmd hdr;
	uint64_t duration_ns; /* at most 60 s */
};

/* COPY: copies rows of bytes. Row r of src goes to row r (+ params[dst_row_param]) of dst. */
struct vnpu_cmd_copy {
	struct vnpu_cmd hdr;
	struct vnpu_ref src, dst;
	uint32_t rows;
	uint32_t row_bytes;
	uint64_t src_stride_bytes, dst_stride_bytes;
	uint32_t dst_row_param; /* or VNPU_PARAM_NONE */
	uint32_t reserved;
};

/*
 * ADD, MUL: y[rows][cols] = a op b, f32. With ldb = 0, b is one row, used for all rows. y may be
 * exactly a or b.
 */
struct vnpu_cmd_binary {
	struct vnpu_cmd hdr;
	struct vnpu_ref a, b, y;
	uint32_t rows, cols;
	uint32_t lda, ldb, ldy;
	uint32_t reserved;
};

enum vnpu_act {
	VNPU_ACT_SILU = 0, /* x / (1 + exp(-x)) */
	VNPU_ACT_GELU = 1, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
	/* 1.10 */
	VNPU_ACT_GELU_ERF = 2, /* 0.5 x (1 + erf(x / sqrt(2))) */
	VNPU_ACT_GELU_QUICK = 3, /* x / (1 + exp(-1.702 x)) */
	VNPU_ACT_RELU = 4, /* x, or 0 if that is below 0 */
	VNPU_ACT_RELU_SQUARED = 5, /* the square of that */
	VNPU_ACT_CAP = 6, /* only of ACT: cap tanh(x / cap) */
};

/*
 * ACT: y = f(x), f32. y may be exactly x. cap is above 0 with kind CAP, and 0 with any other; in
 * streams before version 1.10 it is a reserved word.
 */
struct vnpu_cmd_act {
	struct vnpu_cmd hdr;
	struct vnpu_ref x, y;
	uint32_t rows, cols;
	uint32_t ldx, ldy;
	uint32_t kind; /* enum vnpu_act */
	float cap;
};

/* RMSNORM: y[r][c] = x[r][c] / sqrt(mean_c(x[r][c]^2) + eps) * w[c], f32. y may be exactly x. */
struct vnpu_cmd_rmsnorm {
	struct vnpu_cmd hdr;
	struct vnpu_ref x, w, y;
	uint32_t rows, cols;
	uint32_t ldx, ldy;
	float eps;
	uint32_t reserved;
};

/*
 * LAYERNORM (1.10): y[r][c] = (x[r][c] - mean_c(x[r][c])) / sqrt(var_c(x[r][c]) + eps) * w[c] +
 * bias[c], f32, where var is the mean of the squared distances from the mean. y may be exactly x.
 */
struct vnpu_cmd_layernorm {
	struct vnpu_cmd hdr;
	struct vnpu_ref x, w, bias, y; /* bias: may be absent */
	uint32_t rows, cols;
	uint32_t ldx, ldy;
	float eps;
	uint32_t reserved;
};

enum vnpu_rope_mode {
	VNPU_ROPE_ADJACENT = 0, /* pairs (2i, 2i+1) */
	VNPU_ROPE_HALVES = 1, /* pairs (i, i + rot_dim/2) */
};

/*
 * ROPE: x[rows][heads][head_dim], f32. Rotates the first rot_dim values of each head in pairs by
 * the angle (params[pos_param] + row) * inv_freq[i], inv_freq f32[rot_dim/2], and copies the
 * others. y may be exactly x.
 */
struct vnpu_cmd_rope {
	struct vnpu_cmd hdr;
	struct vnpu_ref x, inv_freq, y;
	uint32_t rows, heads, head_dim, rot_dim;
	uint32_t ldx, ldy;
	uint32_t pos_param; /* or VNPU_PARAM_NONE for 0 */
	uint32_t mode; /* enum vnpu_rope_mode */
};

/*
 * ROPE_AT (1.10): ROPE with a distance of each row: row r is at position params[pos_param] +
 * positions[r], where positions is u32[rows], in memory. So the rows of a token tree have the
 * positions of their depths (CoordGen 3.1). Any value is allowed; an angle is exact in double for
 * positions up to 2^24.
 */
struct vnpu_cmd_rope_at {
	struct vnpu_cmd_rope rope;
	struct vnpu_ref positions;
};

/*
 * SOFTMAX: y[r][c] = exp(scale x[r][c]) / sum over the row, f32; y may be exactly x. With
 * limit_param only the first min(cols, params[limit_param] + r + 1) columns of row r count, and the
 * others become 0.
 */
struct vnpu_cmd_softmax {
	struct vnpu_cmd hdr;
	struct vnpu_ref x, y;
	uint32_t rows, cols;
	uint32_t ldx, ldy;
	float scale;
	uint32_t limit_param; /* or VNPU_PARAM_NONE */
};

/*
 * QUANT: per row, scale[r] = max|x[r]| / 127 and q[r][c] = round-to-nearest-even(x[r][c] /
 * scale[r]) in -127..127; a row of zeros gets scale 0. Columns cols..align4(cols)-1 of q are set to
 * 0, so ldq >= align4(cols). A row with a NaN or an infinity gets scale NaN and q 0.
 *
 * QUANT16: the same in two planes, and hence twice as many rows. q[r] and scale[r] are those of
 * QUANT. q[rows + r] and scale[rows + r] are those of QUANT for the remainder fma(-q[r][c],
 * scale[r], x[r][c]), rounded once. The sum of a matmul's results with both planes is about as
 * precise as with 16-bit activations. cols is at most VNPU_MAX_K_I8.
 */
struct vnpu_cmd_quant {
	struct vnpu_cmd hdr;
	/* f32[rows][ldx], s8[planes * rows][ldq], f32[planes * rows]. */
	struct vnpu_ref x, q, scale;
	uint32_t rows, cols;
	uint32_t ldx, ldq;
};

/*
 * QUANT_STATIC (1.7): one scale for all rows, which is known before x is: the single number s in
 * static_scale. scale[r] = s, so that matmuls take it as that of any row, and q[r][c] is that of
 * QUANT for this scale: round-to-nearest-even(x[r][c] / s), clamped to -127..127. Columns
 * cols..align4(cols)-1 of q are set to 0. A row with a NaN or an infinity gets scale NaN and q 0,
 * and so do all rows if s is not finite or not above 0. s is in memory and read when the job runs,
 * as x is, so that a graph can be used with several scales.
 */
struct vnpu_cmd_quant_static {
	struct vnpu_cmd hdr;
	/* f32[rows][ldx], f32[1], s8[rows][ldq], f32[rows]. */
	struct vnpu_ref x, static_scale, q, scale;
	uint32_t rows, cols;
	uint32_t ldx, ldq;
};

/*
 * The outliers of a row: up to VNPU_OUTLIERS columns of it with what quantisation leaves of their
 * values. Columns are stored as floats, in rising order. A column that is negative, not below the
 * row's number of columns, or not above the one before ends the list.
 */
#define VNPU_OUTLIERS 16

struct vnpu_outliers {
	float value[VNPU_OUTLIERS];
	float column[VNPU_OUTLIERS];
};

/*
 * QUANT_OUTLIERS (1.4): INT8 for most values of a row, and floats for the few large ones that would
 * cost the others precision. Sort the maxima of |x| in each of 64 lanes (a lane is the columns
 * equal modulo 64); t is the ninth largest, or the next larger one until at most VNPU_OUTLIERS
 * columns exceed t. scale[r] = t / 127; q[r][c] is that of QUANT for x clamped to -t..t. Columns
 * with |x| > t are listed in order with value = fma(-q, scale, x), rounded once, so that q * scale
 * + value is x. The rest of the list is value 0, column -1. A row with a NaN or an infinity gets
 * scale NaN, q 0 and no outliers. cols is at most VNPU_MAX_K_I8.
 */
struct vnpu_cmd_quant_outliers {
	struct vnpu_cmd hdr;
	/* f32[rows][ldx], s8[rows][ldq], f32[rows], struct vnpu_outliers[rows]. */
	struct vnpu_ref x, q, scale, outliers;
	uint32_t rows, cols;
	uint32_t ldx, ldq;
};

/* DEQUANT: y[r][c] = q[r][c] * scale[r]. */
struct vnpu_cmd_dequant {
	struct vnpu_cmd hdr;
	struct vnpu_ref q, scale, y;
	uint32_t rows, cols;
	uint32_t ldq, ldy;
};

/*
 * MATMUL_I8: c[m][n] = (sum_k a[m][k] w[n][k]) * a_scale[m] * w_scale[n] + bias[n]
 *
 * a s8[m][lda] with lda >= align4(k); a_scale f32[m]; bias f32[n], optional; c f32[m][ldc]. w is
 * packed in panels of 64 output channels, VNPU_PANEL_I8_BYTES(k) each, the last one padded with
 * zeros:
 *
 *   s8  w[ceil(k/4)][64][4]      element (k, n) of the panel at [k/4][n][k%4]
 *   s32 sum[64]                  sum over k of w, with which a u8 x s8 engine
 *                                corrects for its bias of 128
 *   f32 scale[64]
 *
 * vpdpbusd and similar instructions read this layout linearly; 64 channels are four 512-bit
 * registers. If sum does not match w, the result is undefined, but nothing else goes wrong. The
 * float part is (float)acc * (a_scale[m] * w_scale[n]), then + bias[n], each operation rounded
 * once. tile_m and tile_n are the compiler's choice of the tile that a worker takes at a time;
 * tile_n is a multiple of 64. A device may take tiles of another shape and similar size.
 */
#define VNPU_PANEL_N 64
#define VNPU_PANEL_I8_BYTES(k) ((((uint64_t)(k) + 3) / 4) * 256 + 512)

struct vnpu_cmd_matmul_i8 {
	struct vnpu_cmd hdr;
	struct vnpu_ref a, a_scale, w, bias, c;
	uint32_t m, n, k;
	uint32_t lda, ldc;
	uint32_t tile_m, tile_n;
	uint32_t reserved;
};

/* Element types of the rows of a KV cache. */
enum vnpu_kv_type {
	VNPU_KV_F32 = 0,
	VNPU_KV_F16 = 1, /* IEEE binary16 */
	VNPU_KV_Q8_0 = 2, /* blocks of 32 values: f16 scale, s8 q[32]; a value is q * scale */
};

#define VNPU_Q8_0_VALUES 32
#define VNPU_Q8_0_BYTES 34
/* Bytes of n values of a row; n is a multiple of 32 for Q8_0. */
#define VNPU_KV_BYTES(type, n)                     \
	((type) == VNPU_KV_F32	 ? (uint64_t)(n)*4 \
	 : (type) == VNPU_KV_F16 ? (uint64_t)(n)*2 \
				 : (uint64_t)(n) / VNPU_Q8_0_VALUES * VNPU_Q8_0_BYTES)

/*
 * MATMUL_W4, MATMUL_W4F: 4-bit weights. A number u in 0..15 means (u - 8) * scale; each @group of
 * consecutive k of a channel shares a scale, f16. group is 32, 64 or 128, and k is a multiple of
 * it. w is packed in panels of 64 output channels, VNPU_PANEL_W4_BYTES(k, group) each, the last one
 * padded with zeros. A panel is k / group times
 *
 *   u8  w[group/8][64][4]   byte [b][n][j] has number (8b + j, n) of the group in its low half
 *                           and (8b + 4 + j, n) in its high half
 *   f16 scale[64]
 *
 * MATMUL_W4: a s8[m][lda], a_scale f32[m]. Per group acc = sum of a (u - 8), exact. c = 0, then for
 * each group in order c = fma((float)acc, (float)scale, c), then c * a_scale[m], then + bias[n],
 * each operation rounded once.
 *
 * MATMUL_W4F: a f32[m][lda], a_scale absent. c = 0, then for each k in order
 * c = fma(a, (float)(u - 8) * (float)scale, c), then + bias[n].
 */
#define VNPU_PANEL_W4_BYTES(k, group) ((uint64_t)(k) / (group) * ((uint64_t)(group)*32 + 128))

struct vnpu_cmd_matmul_w4 {
	struct vnpu_cmd hdr;
	struct vnpu_ref a, a_scale, w, bias, c;
	uint32_t m, n, k;
	uint32_t lda, ldc;
	uint32_t tile_m, tile_n; /* as in MATMUL_I8 */
	uint32_t group;
};

/*
 * MATMUL_WK: MATMUL_I8 with weights of 1 to 8 bits; each panel of 64 output channels has its own
 * width (EdgeFlow 4.1, 4.2). w is w_bytes long and begins with a table of VNPU_WK_TABLE_BYTES(n),
 * one struct vnpu_wk_panel per panel. A panel has VNPU_PANEL_WK_BYTES(k, bits):
 *
 *   u8  planes[ceil(k/8)][bits][64]   planes one after another, each of 8 k, with 64 bytes per
 *                                     bit of its width
 *   s32 sum[64]                       as in MATMUL_I8
 *   f32 scale[64]
 *
 * A plane holds 4, 2 or 1 bits of each weight (EdgeFlow's weightlets). A panel of some width has
 * the planes that add up to it, the widest first. A weight q in -2^(bits-1)..2^(bits-1)-1 is stored
 * as u = q + 2^(bits-1); the first plane holds the lowest bits of u. With 1 bit, q is -1 or 1 and u
 * = (q + 1) / 2. The 8 x 64 numbers u are ordered as in MATMUL_I8, [2][64][4], which is 8 lines of
 * 64 bytes. Byte b of vector v of a plane of p bits holds p bits each of byte b of the lines v, v +
 * p, v + 2p, ..., from its lowest bits up. A panel of 8 bits has no planes but the lines
 * themselves, s8: it is a panel of MATMUL_I8 with k rounded up to a multiple of 8.
 *
 * Padding beyond k and n is ignored. An invalid offset, width or panel in the table fails the job
 * when the device reads it, not when the stream is validated, because the table lies in the
 * client's memory.
 */
struct vnpu_wk_panel {
	uint32_t offset; /* of the panel, in units of 64 bytes from the start of w */
	uint32_t bits; /* 1..8 */
};

#define VNPU_WK_TABLE_BYTES(n) ((((uint64_t)(n) + 63) / 64 * 8 + 63) / 64 * 64)
#define VNPU_PANEL_WK_BYTES(k, bits) (((uint64_t)(k) + 7) / 8 * 64 * (bits) + 512)

struct vnpu_cmd_matmul_wk {
	struct vnpu_cmd hdr;
	struct vnpu_ref a, a_scale, w, bias, c;
	uint32_t m, n, k;
	uint32_t lda, ldc;
	uint32_t tile_m, tile_n; /* as in MATMUL_I8 */
	uint32_t reserved;
	/* A multiple of 64, from the size with all panels of 1 bit to that with all panels of 8. */
	uint64_t w_bytes;
};

/*
 * MATMUL_KQ (1.6): weights of 2 to 6 bits in GGUF's block types, each at its own width, with the
 * file's own numbers and scales (vnpu_kq.h). A type's form, struct vnpu_kq_form:
 *
 *	block	consecutive k of a channel, 32 or 256, that share d, f16
 *	group	consecutive k, 16 or 32, that share an integer scale, s8, if the block is 256; in
 *		blocks of 32 that scale is 1
 *	bits	of a number u
 *	mins	there is a second f16 per block, dmin, and beside each integer scale an integer
 *		minimum, s8 (1 in blocks of 32)
 *	levels	u is an index of uneven levels, vnpu_kq_levels (1.10)
 *
 * A weight is d * scale * x, where x = u - 2^(bits - 1), or the level of u; with minima it is d *
 * scale * u - dmin * min. k is a multiple of the block. w is packed in panels of 64 output
 * channels, vnpu_kq_panel_bytes(type, k) each, the last one padded with zeros. A panel is k / block
 * times
 *
 *   f16 d[64]
 *   f16 dmin[64]                        with minima
 *   s8  scale[block / group / 2][64][2] in blocks of 256, two groups side by side
 *   s8  min[block / group / 2][64][2]   in blocks of 256, with minima
 *   u8  numbers[block / 32][bits][4][64]
 *
 * The numbers of 32 k are planes one after another: of 4 bits if bits has 4, of 2 bits if it has 2,
 * of 1 bit if it has 1; the first one holds the lowest bits of u. A plane of p bits is u8
 * [p][64][4], and its byte [v][n][j] holds p bits each of the numbers (k, n) with k = 32 v / p +
 * 4 i + j, for i from 0 to 8 / p - 1, from its lowest bits up. The plane of 4 bits is MATMUL_W4's.
 *
 * a s8[m][lda], a_scale f32[m]. c = 0, then for each block in order, both sums exact,
 *
 *	acc = sum over its groups of scale * (sum over k of a * (x, or u)),
 *	low = sum over its groups of min * (sum over k of a),
 *	c = fma((float)acc, (float)d, c), and with minima c = fma((float)low, -(float)dmin, c)
 *
 * and at the end c * a_scale[m], then + bias[n]; each operation is rounded once.
 */
struct vnpu_cmd_matmul_kq {
	struct vnpu_cmd hdr;
	struct vnpu_ref a, a_scale, w, bias, c;
	uint32_t m, n, k;
	uint32_t lda, ldc;
	uint32_t tile_m, tile_n; /* as in MATMUL_I8 */
	uint32_t type; /* enum vnpu_kq_type */
};

/*
 * ADD_OUTLIERS (1.4): adds to a matmul's result x what the outliers of its activations contribute:
 * y[m][n] = x[m][n] + sum_j value[m][j] w[n][column[m][j]], f32; y may be exactly x. @w are the
 * matmul's weights: MATMUL_I8's with group 0, MATMUL_W4's with group 32, 64 or 128, and those of
 * MATMUL_KQ's type t with group VNPU_OUTLIERS_KQ + t (1.6). acc = 0, then for each outlier in order
 *
 *	I8	acc = fma(value, (float)w, acc), and at the end y = fma(acc, (float)scale[n], x)
 *	W4	acc = fma(value, (float)(u - 8) * (float)scale, acc), and at the end y = x + acc
 *	KQ	w = (float)(scale * x) * (float)d, x as there; with minima of u, and
 *		w - (float)min * (float)dmin;
 *		acc = fma(value, w, acc), and at the end y = x + acc
 *
 * each operation rounded once.
 */
#define VNPU_OUTLIERS_KQ 0x100

struct vnpu_cmd_add_outliers {
	struct vnpu_cmd hdr;
	/* f32[m][ldx], struct vnpu_outliers[m], panels, f32[m][ldy]. */
	struct vnpu_ref x, outliers, w, y;
	uint32_t m, n, k;
	uint32_t ldx, ldy;
	uint32_t group;
};

/*
 * ADD_OUTLIERS_WK (1.8): ADD_OUTLIERS with the weights of a MATMUL_WK, @w_bytes with their table,
 * summed as those of MATMUL_I8: acc = fma(value, (float)w, acc) for each outlier in order, and at
 * the end y = fma(acc, (float)scale[n], x).
 */
struct vnpu_cmd_add_outliers_wk {
	struct vnpu_cmd hdr;
	/* f32[m][ldx], struct vnpu_outliers[m], table and panels, f32[m][ldy]. */
	struct vnpu_ref x, outliers, w, y;
	uint32_t m, n, k;
	uint32_t ldx, ldy;
	uint32_t reserved;
	uint64_t w_bytes; /* as in MATMUL_WK */
};

/*
 * ATTN: causal attention over a cache. q f32[rows][heads][head_dim] (ldq per row); k and v of
 * kv_type [ctx_rows][kv_heads][head_dim] (ldk, ldv per row); y f32[rows][heads][head_dim] (ldy).
 * With p = params[pos_param], query row r attends to the cache rows 0..p + r; p + rows must not
 * exceed ctx_rows. Query head h reads KV head h / (heads / kv_heads). y = softmax(scale q k^T) v.
 *
 * ldk and ldv count values for every type. A row of Q8_0 is ld / 32 blocks; head_dim, ldk and ldv
 * are then multiples of 32. In streams before version 1.2 kv_type is a reserved word, hence F32.
 */
struct vnpu_cmd_attn {
	struct vnpu_cmd hdr;
	struct vnpu_ref q, k, v, y;
	uint32_t rows, heads, kv_heads, head_dim;
	uint32_t ctx_rows;
	uint32_t ldq, ldk, ldv, ldy;
	uint32_t pos_param; /* or VNPU_PARAM_NONE for 0 */
	float scale;
	uint32_t kv_type; /* enum vnpu_kv_type */
};

/*
 * ATTN_MASK (1.10): ATTN by rows that need not attend to all rows before them. With p =
 * params[pos_param], query row r attends to its own cache row, p + r, and to those of the rows
 * 0..p + r - 1 that are left by
 *
 *	mask	u64[rows], in memory; may be absent. Of the rows p + j, j < r, only those are
 *		left for which bit j of mask[r] is set: the ancestors of a token tree's node
 *		(CoordGen 3.1). Bits r and above do not matter. rows is then at most
 *		VNPU_MASK_ROWS, and head_dim at most VNPU_MASK_HEAD_DIM.
 *	window	then only the last window - 1 are left, so that with its own row it attends to at
 *		most window; 0: all
 *
 * With cap above 0 a score s is cap tanh(s / cap). Rows of the cache that a row does not attend to
 * contribute nothing, not even a NaN: without a window, the result has the bits of ATTN in a cache
 * without them.
 */
#define VNPU_MASK_ROWS 64
#define VNPU_MASK_HEAD_DIM 512

struct vnpu_cmd_attn_mask {
	struct vnpu_cmd_attn attn;
	struct vnpu_ref mask;
	uint32_t window;
	float cap; /* not negative */
};

/*
 * ATTN_AT (1.11): ATTN by rows that do not follow one another. With p = params[pos_param], query
 * row r is at position p + positions[r], in any order, and attends to the rows of the cache up to
 * that one, its own included. positions u32[rows] lie in memory and are below span: a greater one
 * counts as span - 1. p + span must not exceed ctx_rows. window and cap are those of ATTN_MASK. A
 * row has the bits of the same row of ATTN or ATTN_MASK.
 */
struct vnpu_cmd_attn_at {
	struct vnpu_cmd_attn attn;
	struct vnpu_ref positions;
	uint32_t window;
	float cap; /* not negative */
	uint32_t span;
	uint32_t reserved; /* 0 */
};

/*
 * QK_I8 (1.9): the scores by which a head's queries find their important keys: Q K^T in INT8,
 * without softmax, mask or scale (shadowAttn 3.2). q s8[rows][ldq] with ldq >= align4(head_dim), as
 * QUANT_STATIC writes it; scores s16[rows][lds], where lds is at least ctx_rows. ctx_rows and lds
 * are multiples of 64. k is the keys of one KV head in panels of 64 positions, each
 * VNPU_QK_PANEL_BYTES(head_dim):
 *
 *   s8 k[ceil(head_dim/4)][64][4]   element (d, position) of the panel at [d/4][position][d%4]
 *
 * which is MATMUL_I8's order without sums and scales. The columns head_dim..align4(head_dim)-1 of q
 * and of the keys count too; QUANT_STATIC writes zeros there.
 *
 * With p = params[pos_param], row r gets the columns of the panels that it sees: 0..64 * ceil((p +
 * r + 1) / 64) - 1. The device leaves its other columns as they are. p + rows must not exceed
 * ctx_rows. With acc = sum_d q[r][d] k[d][column], exact,
 *
 *	scores[r][column] = (acc + (1 << shift >> 1)) >> shift
 *
 * rounds towards positive infinity at ties, and is limited to the range of s16. shift is at most
 * VNPU_QK_MAX_SHIFT. With vnpu_qk_shift(head_dim) no score of numbers in -127..127 is limited.
 *
 * Heads that share a launch are commands of their own between the same two barriers. The modelled
 * NPU sets up the first of QK_I8s that follow one another, and so all of them (shadowAttn 3.4).
 */
#define VNPU_QK_PANEL 64
#define VNPU_QK_PANEL_BYTES(head_dim) (((uint64_t)(head_dim) + 3) / 4 * 256)
#define VNPU_QK_MAX_SHIFT 16

/* The least shift with which 127^2 head_dim, the greatest magnitude of a sum, fits s16. */
static inline uint32_t vnpu_qk_shift(uint32_t head_dim)
{
	uint64_t most = 127ull * 127 * head_dim;
	uint32_t shift = 0;

	while ((most + (1ull << shift >> 1)) >> shift > INT16_MAX)
		shift++;
	return shift;
}

struct vnpu_cmd_qk_i8 {
	struct vnpu_cmd hdr;
	struct vnpu_ref q, k, scores;
	uint32_t rows, head_dim;
	uint32_t ctx_rows;
	uint32_t ldq, lds;
	uint32_t pos_param; /* or VNPU_PARAM_NONE for 0 */
	uint32_t shift;
	uint32_t reserved;
};

/*
 * ATTN_I8 (1.9): causal attention of the query heads of one KV head, all in INT8 with scales that
 * are known before the tensors are: what an NPU without floats computes, and what that costs in
 * accuracy (shadowAttn 2.2, table 3). q f32[rows][heads][head_dim] (ldq per row), k the keys of
 * QK_I8, y as q (ldy). scales f32[3], in memory as QUANT_STATIC's: those of q, k and v. v is the
 * values of the KV head, four positions together, VNPU_PV_BYTES(ctx_rows, head_dim):
 *
 *   s8 v[ctx_rows/4][VNPU_PV_COLUMNS(head_dim)][4]   element (position, d) at
 *                                                    [position/4][d][position%4]
 *
 * With p = params[pos_param], row r of each head attends to the positions 0..p + r. Of a row:
 *
 *	q8 = QUANT_STATIC of the head's values with scales[0]
 *	s = scores of QK_I8 with vnpu_qk_shift(head_dim)
 *	w = round-to-nearest-even(exp((float)(s - max s) * factor) * 127), s8 with scale 1/127
 *	    factor = scales[0] * scales[1] * scale * 2^shift
 *	y[d] = (float)(sum w v[d]) * (scales[2] / (float)(sum w))
 *
 * sums exact, factor from left to right, each float operation rounded once. A row whose values have
 * a NaN or an infinity becomes NaN, and so do all rows if factor or scales[2] is not finite or not
 * above 0. scale is above 0. ctx_rows is a multiple of 64 and at most VNPU_MAX_K_I8.
 */
#define VNPU_PV_COLUMNS(head_dim) (((uint64_t)(head_dim) + 15) / 16 * 16)
#define VNPU_PV_BYTES(ctx_rows, head_dim) ((uint64_t)(ctx_rows)*VNPU_PV_COLUMNS(head_dim))

struct vnpu_cmd_attn_i8 {
	struct vnpu_cmd hdr;
	struct vnpu_ref q, k, v, scales, y;
	uint32_t rows, heads, head_dim;
	uint32_t ctx_rows;
	uint32_t ldq, ldy;
	uint32_t pos_param; /* or VNPU_PARAM_NONE for 0 */
	float scale;
};

/*
 * STORE (1.2): row r of x f32[rows][cols] goes to row params[row_param] + r of the cache dst
 * [..][ld_dst] of @type: F16 or Q8_0 (COPY does F32). ld_dst counts values; cols and ld_dst are
 * multiples of 32 for Q8_0.
 *
 *	F16	rounded to nearest, ties to even; values out of range become infinities
 *	Q8_0	per 32 values: scale = max|x| / 127, rounded to f32 and then to f16; q = x /
 *		scale, rounded to f32 and then to an integer, ties to even, clamped to
 *		-127..127. Scale 0 gives q 0. A scale that is not finite in f16, such as that of
 *		a NaN, becomes NaN with q 0.
 */
struct vnpu_cmd_store {
	struct vnpu_cmd hdr;
	struct vnpu_ref x, dst;
	uint32_t rows, cols;
	uint32_t ldx, ld_dst;
	uint32_t row_param; /* or VNPU_PARAM_NONE for 0 */
	uint32_t type; /* enum vnpu_kv_type */
};

/*
 * GLU (1.2): y[rows][cols] = f(a) b, f32, with the same bits as ACT and then MUL.
 * y may be exactly a or b.
 */
struct vnpu_cmd_glu {
	struct vnpu_cmd hdr;
	struct vnpu_ref a, b, y;
	uint32_t rows, cols;
	uint32_t lda, ldb, ldy;
	uint32_t kind; /* enum vnpu_act, not CAP: f */
};

#endif /* VNPU_ISA_H */
