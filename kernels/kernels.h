/* SPDX-License-Identifier: MIT */
/*
 * The device's kernels: one table of functions per instruction set of the host.
 *
 * kernels_float.h and the headers that it includes have the float kernels, written once for vectors
 * of 16 lanes and compiled for each instruction set: the same operations in the same order, hence
 * the same bits everywhere. Each instruction set has its own matmuls; their integer parts are exact
 * and their float operations have a fixed order, so their results have the same bits as well.
 *
 * Kernels read context memory, which its owner may change at any moment: a value from it may be
 * used as an index or a size only after a copy of it was checked.
 */
#ifndef KERNELS_H
#define KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <npu/vnpu_isa.h>

/* Instruction sets of the kernels; for each architecture, later ones are better. */
enum fw_isa {
	FW_ISA_AUTO = 0,
	FW_ISA_GENERIC,
	FW_ISA_AVX2,
	FW_ISA_AVX_VNNI,
	FW_ISA_AVX512_VNNI,
	FW_ISA_AVX512_AMX,
	FW_ISA_NEON_DOTPROD,
	FW_ISA_NEON_I8MM,
};

/* The start of a worker's scratch: 512 k of a packed panel, unpacked. */
#define FW_UNPACK_BYTES (512 * VNPU_PANEL_N)
/* Private memory of a worker, 64-byte aligned. */
#define FW_SCRATCH_BYTES (FW_UNPACK_BYTES + 6 * VNPU_MAX_K_I8 + 110592)

/* Most panels of MATMUL_WK in a tile; the tile copies as many entries of the table. */
#define FW_WK_PANELS 32

/* A panel of MATMUL_WK, from a copied and checked table. */
struct fw_wk_panel {
	const uint8_t *w;
	uint32_t bits; /* 1..8 */
};

/* A block of MATMUL_I8 or MATMUL_WK: m rows and n channels, starting at a panel. */
struct fw_matmul_i8 {
	const int8_t *a; /* [m][lda] */
	const float *a_scale; /* [m] */
	const uint8_t *w; /* I8: panels */
	const float *bias; /* [n] or NULL */
	float *c; /* [m][ldc] */
	uint32_t m, n, k;
	size_t lda, ldc;
	const struct fw_wk_panel *wk; /* WK: [ceil(n/64)]; I8: NULL */
};

/* A block of MATMUL_W4 or MATMUL_W4F. */
struct fw_matmul_w4 {
	const void *a; /* [m][lda], W4: s8, W4F: f32 */
	const float *a_scale; /* W4: [m] */
	const uint8_t *w; /* panels */
	const float *bias; /* [n] or NULL */
	float *c; /* [m][ldc] */
	uint32_t m, n, k, group;
	size_t lda, ldc;
};

/* A block of MATMUL_KQ. */
struct fw_matmul_kq {
	const int8_t *a; /* [m][lda] */
	const float *a_scale; /* [m] */
	const uint8_t *w; /* panels */
	const float *bias; /* [n] or NULL */
	float *c; /* [m][ldc] */
	uint32_t m, n, k;
	uint32_t type; /* enum vnpu_kq_type; k is a multiple of its block */
	size_t lda, ldc;
};

/*
 * A tile of ATTN: KV heads side by side, and some of the queries that use them, the same for each
 * head. Query i of a KV head is its query head i % group of row i / group.
 *
 * Keys are summed up by segments of FW_ATTN_SEGMENT. A tile takes all of them, or one of them and
 * leaves its sums in @part for attn_fold(), which gives the same bits.
 */
struct fw_attn {
	const float *q; /* [rows][ldq], starts at the first query head of the first KV head */
	float *y; /* [rows][ldy], as q */
	size_t ldq, ldy;
	uint32_t heads; /* KV heads */
	uint32_t group; /* query heads per KV head */
	uint64_t first; /* first query of the tile */
	uint32_t nr_q; /* of each KV head; heads * nr_q is 1 to fw_attn_queries() */
	uint64_t pos; /* row r attends to keys 0..pos + r */
	/* Of ATTN_AT: [rows]; row r attends to keys 0..pos + at[r], of which a greater one counts
	 * as span - 1. NULL: rows follow one another. */
	const uint32_t *at;
	uint32_t span;
	/* Of ATTN_MASK: [rows], at most VNPU_MASK_ROWS; of the rows pos + j row r attends only to
	 * those with bit j set, and its own; its keys are counted without the others. head_dim is
	 * at most VNPU_MASK_HEAD_DIM. NULL: to all. */
	const uint64_t *mask;
	uint32_t window; /* of those the last so many; 0: all */
	float cap; /* of scores; 0: none */
	const void *k, *v; /* of the first KV head */
	size_t k_row_bytes, v_row_bytes; /* distance between rows of the cache */
	uint32_t kv_type; /* enum vnpu_kv_type */
	uint32_t head_dim;
	float scale;
	/* attn(): NULL, or [heads][nr_q][fw_attn_part_floats()] for the sums over @segment only.
	 * attn_fold(): [segments][heads][nr_q][fw_attn_part_floats()], those from @segment on; no
	 * query attends to a key before them. */
	float *part;
	uint64_t segment;
};

/*
 * A block of QK_I8: the panels panel..panel + panels - 1 of the keys for some rows. Row r is at
 * position pos + r and gets those of its first (pos + r) / 64 + 1 panels that are in the block.
 */
struct fw_qk_i8 {
	const int8_t *q; /* [rows][ldq], the block's rows */
	const uint8_t *k; /* from panel 0 on, 64-byte aligned */
	int16_t *scores; /* [rows][lds], the block's rows, from column 0 on; 64-byte aligned */
	uint64_t pos;
	uint32_t rows, head_dim;
	uint32_t panel, panels;
	uint32_t shift;
	size_t ldq, lds;
};

/* Some rows of one query head of ATTN_I8; row r is at position pos + r. */
struct fw_attn_i8 {
	const float *q; /* [rows][ldq] */
	float *y; /* [rows][ldy] */
	size_t ldq, ldy;
	uint64_t pos; /* pos + rows is at most VNPU_MAX_K_I8 */
	uint32_t rows, head_dim;
	const uint8_t *k; /* panels of QK_I8, 64-byte aligned */
	const int8_t *v;
	float q_scale, k_scale, v_scale;
	float scale; /* of the scores */
};

/* A block of ADD_OUTLIERS or ADD_OUTLIERS_WK: m rows and n channels, starting at a panel. */
struct fw_add_outliers {
	const float *x; /* [m][ldx] */
	const struct vnpu_outliers *outliers; /* [m] */
	const uint8_t *w; /* panels */
	float *y; /* [m][ldy] */
	uint32_t m, n, k;
	uint32_t group; /* as in the command: I8's panels, W4's or KQ's */
	size_t ldx, ldy;
	const struct fw_wk_panel *wk; /* WK: [ceil(n/64)], w and group are not used; others: NULL */
};

#define FW_ATTN_MAX_QUERIES 96
#define FW_ATTN_SEGMENT 512
#define FW_ATTN_BLOCK 64 /* keys that a tile reads at a time, from a multiple on */

/* A query's sums over a segment: [head_dim rounded up to 16], 16 sums of weights, the maximum. */
static inline size_t fw_attn_part_floats(uint32_t head_dim)
{
	return (head_dim + 15) / 16 * 16 + 32;
}

/* Most queries in a tile of ATTN; their results stay in the worker's scratch until the last key. */
static inline uint32_t fw_attn_queries(uint32_t head_dim)
{
	uint32_t fit = 16384 / ((head_dim + 15) / 16 * 16);

	return fit < FW_ATTN_MAX_QUERIES ? fit : FW_ATTN_MAX_QUERIES;
}

/*
 * The best number of queries per tile, for @queries in all: enough to share the cost of widening
 * the keys, and enough tiles for all workers.
 */
static inline uint32_t fw_attn_tile(uint32_t head_dim, uint64_t queries)
{
	uint32_t most = fw_attn_queries(head_dim),
		 tile = queries / 32 < most ? (uint32_t)(queries / 32) : most;

	return tile > 48 ? tile : most < 48 ? most : 48;
}

struct fw_kernels {
	const char *name;
	/* i8_rows: rows that MATMUL_I8 multiplies at a time; each further set of rows in a block
	 * reads the weights again. 0: any number. i8_step: rows of the register tile, of which
	 * i8_rows is a multiple; the last step of a block takes as long with fewer rows. */
	uint32_t i8_rows, i8_step;
	void (*matmul_i8)(const struct fw_matmul_i8 *t, void *scratch);
	void (*matmul_w4)(const struct fw_matmul_w4 *t, void *scratch);
	void (*matmul_w4f)(const struct fw_matmul_w4 *t, void *scratch);
	void (*matmul_kq)(const struct fw_matmul_kq *t, void *scratch);
	void (*add)(float *y, const float *a, const float *b, size_t n);
	void (*mul)(float *y, const float *a, const float *b, size_t n);
	/* @kind: enum vnpu_act; @cap: of VNPU_ACT_CAP. */
	void (*act)(float *y, const float *x, size_t n, uint32_t kind, float cap);
	/* act() of a, of any kind but VNPU_ACT_CAP, multiplied by b. */
	void (*glu)(float *y, const float *a, const float *b, size_t n, uint32_t kind);
	void (*rmsnorm)(float *y, const float *x, const float *w, size_t n, float eps);
	/* @bias: or NULL. */
	void (*layernorm)(float *y, const float *x, const float *w, const float *bias, size_t n,
			  float eps);
	/* Over the first @n of @cols columns; the others become 0. */
	void (*softmax)(float *y, const float *x, size_t n, size_t cols, float scale);
	/* Pads q with zeros to a multiple of 4. */
	void (*quant)(int8_t *q, float *scale, const float *x, size_t n);
	/* The same with scale @s, or NaN and zeros if @s is not a finite number above 0. */
	void (*quant_static)(int8_t *q, float *scale, const float *x, size_t n, float s);
	/* A row of at most VNPU_MAX_K_I8 values; q as in quant(). */
	void (*quant_outliers)(int8_t *q, float *scale, struct vnpu_outliers *outliers,
			       const float *x, size_t n);
	void (*add_outliers)(const struct fw_add_outliers *t, void *scratch);
	void (*dequant)(float *y, const int8_t *q, float scale, size_t n);
	/* y = x - q * scale, rounded once: the remainder after quant(). */
	void (*rest)(float *y, const float *x, const int8_t *q, float scale, size_t n);
	/* One row; @scratch: FW_SCRATCH_BYTES. */
	void (*rope)(float *y, const float *x, const float *inv_freq, uint64_t pos, uint32_t heads,
		     uint32_t head_dim, uint32_t rot_dim, uint32_t mode, void *scratch);
	void (*attn)(const struct fw_attn *t, void *scratch);
	/* Folds the sums of all segments of the tile's keys, in its part, and writes the results;
	 * any number of heads. Overwrites the first segment's sums. */
	void (*attn_fold)(const struct fw_attn *t);
	void (*qk_i8)(const struct fw_qk_i8 *t, void *scratch);
	/*
	 * Packs keys for qk_i8(): rows f32 [rows][ldx] of one KV head become the positions pos..pos
	 * + rows - 1 of its panels, which begin at @panels (64-byte aligned), each of
	 * VNPU_QK_PANEL_BYTES(head_dim). The numbers are those of quant_static() with scale @s:
	 * a row with a NaN or an infinity becomes zeros, and so do all rows if @s is not finite
	 * or not above 0. Other positions stay as they are, so threads may pack different
	 * positions at the same time. head_dim is at most VNPU_MAX_HEAD_DIM.
	 */
	void (*pack_keys)(uint8_t *panels, const float *x, size_t ldx, uint32_t rows,
			  uint32_t head_dim, uint64_t pos, float s);
	void (*attn_i8)(const struct fw_attn_i8 *t, void *scratch);
	/* The same for values of attn_i8(): positions of VNPU_PV_BYTES() at @values. Threads must
	 * not pack positions of the same four at the same time. */
	void (*pack_values)(uint8_t *values, const float *x, size_t ldx, uint32_t rows,
			    uint32_t head_dim, uint64_t pos, float s);
	/* Converts a row of @n values to a cache of @type (enum vnpu_kv_type, not F32). */
	void (*store)(void *row, const float *x, size_t n, uint32_t type);
	/* y[i] = exp(x[i]): the function used by act, softmax and attn, for tests. */
	void (*exp)(float *y, const float *x, size_t n);
};

extern const struct fw_kernels fw_kernels_generic;
extern const struct fw_kernels fw_kernels_avx2;
extern const struct fw_kernels fw_kernels_vnni_vex;
extern const struct fw_kernels fw_kernels_vnni_evex;
extern const struct fw_kernels fw_kernels_avx512;
extern const struct fw_kernels fw_kernels_amx;
extern const struct fw_kernels fw_kernels_neon_dotprod;
extern const struct fw_kernels fw_kernels_neon_i8mm;

/*
 * The kernels for @isa (AUTO: the best), or NULL if this host cannot run them. Threads that already
 * exist may run them too.
 */
const struct fw_kernels *fw_kernels_get(enum fw_isa isa);
/* The name of @isa (AUTO: the best) on this host, one of FW_ISA_NAMES; NULL if the host cannot run
 * it. */
const char *fw_isa_name(enum fw_isa isa);
/* What users call instruction sets. */
#define FW_ISA_NAMES "generic, avx2, avx-vnni, avx512-vnni, avx512-amx, neon-dotprod or neon-i8mm"
/* The instruction set called @name, or FW_ISA_AUTO if there is none. */
enum fw_isa fw_isa_find(const char *name);

/* IEEE binary16, ties to even. */
float fw_f16_to_f32(uint16_t h);
uint16_t fw_f32_to_f16(float x);

#endif /* KERNELS_H */
