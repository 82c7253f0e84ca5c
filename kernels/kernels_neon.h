/* SPDX-License-Identifier: MIT */
/*
 * INT8 matmul for aarch64. Included by one file per instruction set: SDOT, and SMMLA (FEAT_I8MM)
 * beside it.
 *
 * Both read the panels as they are. SDOT multiplies 4 channels x 4 k, one register of the panel, by
 * 4 k of a row, selected from a register by index. SMMLA multiplies 2 rows x 8 k by 2 channels x 8
 * k, twice the multiplications per instruction: two registers of a panel, from consecutive 4 k,
 * interleave to two such pairs of channels, and rows are stored in pairs in the worker's scratch,
 * once per block.
 *
 * A panel is read in K blocks that stay in L1, and each K block is multiplied with all rows of the
 * block; their sums stay in scratch.
 */
#include <arm_neon.h>
#include <string.h>

#include "kernels.h"
#include "kernels_wk_neon.h"

#define MM_INLINE static inline __attribute__((always_inline))
/* In units of 4 k: 16 KB of weights. */
#define MM_K_BLOCK 64
/* Rows whose sums, and whose part of a K block, stay in cache. */
#define MM_BLOCK 128
/* The register tile has 16 sums, enough to hide the latency of an addition. */
#define MM_SUMS 16

/* 4 k: those at index @i of the four in each x[rows], and in w. */
MM_INLINE void mm_dot_block(const uint32_t rows, const uint32_t vecs, int32x4_t *sum,
			    const int8x16_t *x, const uint8_t *w, const int i)
{
	uint32_t r, v;
	int8x16_t y;

#pragma GCC unroll 16
	for (v = 0; v < vecs; v++) {
		y = vld1q_s8((const int8_t *)w + i * 256 + v * 16);
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			sum[r * vecs + v] = vdotq_laneq_s32(sum[r * vecs + v], y, x[r], i);
	}
}

/* acc[rows][64] += a[rows][4 kb] x w, @vecs x 4 channels of it. */
MM_INLINE void mm_dot(const uint32_t rows, const uint32_t vecs, int32_t *acc, const int8_t *a,
		      size_t lda, const uint8_t *w, uint32_t kb)
{
	int32x4_t sum[MM_SUMS];
	int8x16_t x[4];
	uint32_t r, v, b;
	int32_t four;

#pragma GCC unroll 16
	for (r = 0; r < rows; r++)
#pragma GCC unroll 16
		for (v = 0; v < vecs; v++)
			sum[r * vecs + v] = vld1q_s32(acc + r * VNPU_PANEL_N + v * 4);
	for (b = 0; b + 4 <= kb; b += 4, a += 16, w += 1024) {
#pragma GCC unroll 16
		for (r = 0; r < rows; r++)
			x[r] = vld1q_s8(a + r * lda);
		mm_dot_block(rows, vecs, sum, x, w, 0);
		mm_dot_block(rows, vecs, sum, x, w, 1);
		mm_dot_block(rows, vecs, sum, x, w, 2);
		mm_dot_block(rows, vecs, sum, x, w, 3);
	}
	for (; b < kb; b++, a += 4, w += 256) {
#pragma GCC unroll 16
		for (r = 0; r < rows; r++) {
			memcpy(&four, a + r * lda, 4);
			x[r] = vreinterpretq_s8_s32(vdupq_n_s32(four));
		}
		mm_dot_block(rows, vecs, sum, x, w, 0);
	}
#pragma GCC unroll 16
	for (r = 0; r < rows; r++)
#pragma GCC unroll 16
		for (v = 0; v < vecs; v++)
			vst1q_s32(acc + r * VNPU_PANEL_N + v * 4, sum[r * vecs + v]);
}

/* All 64 channels. A single row reads its weights in order. */
static void mm_dots(uint32_t rows, int32_t *acc, const int8_t *a, size_t lda, const uint8_t *w,
		    uint32_t kb)
{
	uint32_t n;

	switch (rows) {
	case 1:
		mm_dot(1, 16, acc, a, lda, w, kb);
		break;
	case 2:
		for (n = 0; n < VNPU_PANEL_N; n += 32)
			mm_dot(2, 8, acc + n, a, lda, w + n * 4, kb);
		break;
	case 3:
		for (n = 0; n < VNPU_PANEL_N; n += 16)
			mm_dot(3, 4, acc + n, a, lda, w + n * 4, kb);
		break;
	default:
		for (n = 0; n < VNPU_PANEL_N; n += 16)
			mm_dot(4, 4, acc + n, a, lda, w + n * 4, kb);
	}
}

#if defined(__ARM_FEATURE_MATMUL_INT8)
#define MM_ROWS 8

/* Size in bytes of a pair of rows of @kb x 4 k. */
static size_t mm_pair_bytes(uint32_t kb)
{
	return (size_t)(kb + 1) / 2 * 16;
}

/* How many of @m rows fit into @bytes as pairs. */
static uint32_t mm_pair_rows(uint32_t m, uint32_t kb, size_t bytes)
{
	size_t fit = bytes / mm_pair_bytes(kb) * 2;

	return m < fit ? m : (uint32_t)fit;
}

/*
 * Stores pairs of rows as s8 [rows / 2][kb / 2][2][8]; arbitrary bytes after an odd kb, which are
 * multiplied by zeros.
 */
static void mm_pair(int8_t *pairs, const int8_t *a, size_t lda, uint32_t rows, uint32_t kb)
{
	const int8_t *b = a + lda;
	int64x2_t x, y;
	uint32_t r, i;

	for (r = 0; r + 2 <= rows; r += 2, a += 2 * lda, b += 2 * lda) {
		for (i = 0; i + 4 <= kb; i += 4, pairs += 32) {
			x = vreinterpretq_s64_s8(vld1q_s8(a + i * 4));
			y = vreinterpretq_s64_s8(vld1q_s8(b + i * 4));
			vst1q_s8(pairs, vreinterpretq_s8_s64(vzip1q_s64(x, y)));
			vst1q_s8(pairs + 16, vreinterpretq_s8_s64(vzip2q_s64(x, y)));
		}
		for (; i < kb; i += 2, pairs += 16) {
			memcpy(pairs, a + i * 4, kb - i < 2 ? 4 : 8);
			memcpy(pairs + 8, b + i * 4, kb - i < 2 ? 4 : 8);
		}
	}
}

/* Channels 0 1 and 2 3 of 8 k; @first has the first 4 k, @second the others. */
MM_INLINE int8x16x2_t mm_zip(int8x16_t first, int8x16_t second)
{
	int32x4_t x = vreinterpretq_s32_s8(first), y = vreinterpretq_s32_s8(second);

	return (int8x16x2_t){ { vreinterpretq_s8_s32(vzip1q_s32(x, y)),
				vreinterpretq_s8_s32(vzip2q_s32(x, y)) } };
}

/* Converts two sums of 2 rows x 2 channels to two of 1 row x 4 channels, or back. */
MM_INLINE int32x4_t mm_half(int32x4_t x, int32x4_t y, const int half)
{
	int64x2_t a = vreinterpretq_s64_s32(x), b = vreinterpretq_s64_s32(y);

	return vreinterpretq_s32_s64(half ? vzip2q_s64(a, b) : vzip1q_s64(a, b));
}

/* 8 k, or the last 4 k if not @two. */
MM_INLINE void mm_mmla_step(const uint32_t pairs, const uint32_t vecs, int32x4_t *sum,
			    const int8_t *a, size_t lda, const uint8_t *w, const bool two)
{
	int8x16_t rows[4], y;
	int8x16x2_t z;
	uint32_t p, v;
	int32x4_t *s;

#pragma GCC unroll 4
	for (p = 0; p < pairs; p++)
		rows[p] = vld1q_s8(a + p * lda);
#pragma GCC unroll 16
	for (v = 0; v < vecs; v++) {
		y = two ? vld1q_s8((const int8_t *)w + 256 + v * 16) : vdupq_n_s8(0);
		z = mm_zip(vld1q_s8((const int8_t *)w + v * 16), y);
#pragma GCC unroll 4
		for (p = 0; p < pairs; p++) {
			s = &sum[(p * vecs + v) * 2];
			s[0] = vmmlaq_s32(s[0], rows[p], z.val[0]);
			s[1] = vmmlaq_s32(s[1], rows[p], z.val[1]);
		}
	}
}

/* acc[2 pairs][64] += a[pairs][kb / 2][2][8] x w, @vecs x 4 channels of it. */
MM_INLINE void mm_mmla(const uint32_t pairs, const uint32_t vecs, int32_t *acc, const int8_t *a,
		       size_t lda, const uint8_t *w, uint32_t kb)
{
	int32x4_t sum[MM_SUMS], x, y;
	uint32_t p, v, b;

#pragma GCC unroll 16
	for (p = 0; p < pairs; p++) {
#pragma GCC unroll 16
		for (v = 0; v < vecs; v++) {
			x = vld1q_s32(acc + 2 * p * VNPU_PANEL_N + v * 4);
			y = vld1q_s32(acc + (2 * p + 1) * VNPU_PANEL_N + v * 4);
			sum[(p * vecs + v) * 2] = mm_half(x, y, 0);
			sum[(p * vecs + v) * 2 + 1] = mm_half(x, y, 1);
		}
	}
	for (b = 0; b + 2 <= kb; b += 2, a += 16, w += 512)
		mm_mmla_step(pairs, vecs, sum, a, lda, w, true);
	if (b < kb)
		mm_mmla_step(pairs, vecs, sum, a, lda, w, false);
#pragma GCC unroll 16
	for (p = 0; p < pairs; p++) {
#pragma GCC unroll 16
		for (v = 0; v < vecs; v++) {
			x = sum[(p * vecs + v) * 2];
			y = sum[(p * vecs + v) * 2 + 1];
			vst1q_s32(acc + 2 * p * VNPU_PANEL_N + v * 4, mm_half(x, y, 0));
			vst1q_s32(acc + (2 * p + 1) * VNPU_PANEL_N + v * 4, mm_half(x, y, 1));
		}
	}
}

/* All 64 channels. */
static void mm_mmlas(uint32_t pairs, int32_t *acc, const int8_t *a, size_t lda, const uint8_t *w,
		     uint32_t kb)
{
	uint32_t n;

	switch (pairs) {
	case 1:
		for (n = 0; n < VNPU_PANEL_N; n += 32)
			mm_mmla(1, 8, acc + n, a, lda, w + n * 4, kb);
		break;
	case 2:
		for (n = 0; n < VNPU_PANEL_N; n += 16)
			mm_mmla(2, 4, acc + n, a, lda, w + n * 4, kb);
		break;
	case 3:
		for (n = 0; n < VNPU_PANEL_N; n += 8)
			mm_mmla(3, 2, acc + n, a, lda, w + n * 4, kb);
		break;
	default:
		for (n = 0; n < VNPU_PANEL_N; n += 8)
			mm_mmla(4, 2, acc + n, a, lda, w + n * 4, kb);
	}
}
#endif

static void mm_store(const struct fw_matmul_i8 *t, uint32_t m, uint32_t n0, const int32_t *acc,
		     const float *scale)
{
	uint32_t cols = t->n - n0 < VNPU_PANEL_N ? t->n - n0 : VNPU_PANEL_N, n;
	float *c = t->c + m * t->ldc + n0, as = t->a_scale[m];
	float32x4_t y;

	for (n = 0; n + 4 <= cols; n += 4) {
		y = vmulq_f32(vcvtq_f32_s32(vld1q_s32(acc + n)),
			      vmulq_n_f32(vld1q_f32(scale + n), as));
		if (t->bias)
			y = vaddq_f32(y, vld1q_f32(t->bias + n0 + n));
		vst1q_f32(c + n, y);
	}
	for (; n < cols; n++) {
		c[n] = (float)acc[n] * (as * scale[n]);
		if (t->bias)
			c[n] += t->bias[n0 + n];
	}
}

/* Multiplies @rows rows from m0 on with a K block of a panel. */
static void mm_k_block(const struct fw_matmul_i8 *t, uint32_t m0, uint32_t rows, int32_t *acc,
		       const int8_t *pairs, const uint8_t *w, uint32_t b0, uint32_t kb)
{
	uint32_t m = 0, n;

#if defined(__ARM_FEATURE_MATMUL_INT8)
	size_t ldp = mm_pair_bytes((t->k + 3) / 4);

	_Static_assert(!(MM_K_BLOCK % 2), "a K block has an even number of 4 k");
	for (; m + 2 <= rows; m += n) {
		n = rows - m < MM_ROWS ? (rows - m) & ~1u : MM_ROWS;
		mm_mmlas(n / 2, acc + m * VNPU_PANEL_N, pairs + m / 2 * ldp + b0 * 8, ldp, w, kb);
	}
#endif
	for (; m < rows; m += n) {
		n = rows - m < 4 ? rows - m : 4;
		mm_dots(n, acc + m * VNPU_PANEL_N, t->a + (m0 + m) * t->lda + b0 * 4, t->lda, w,
			kb);
	}
}

/* Multiplies a single row with packed panels. */
static void mm_packed_row(const struct fw_matmul_i8 *t, int8_t *a)
{
	const struct fw_wk_panel *p = t->wk;
	size_t bytes = wk_row(a, t, 0);
	int32_t sum = wk_sum(a, bytes), acc[VNPU_PANEL_N];
	uint32_t n0;

	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N, p++) {
		wk_panel(p, a, bytes, sum, acc);
		mm_store(t, 0, n0, acc, (const float *)(wk_sums(p, t->k) + 256));
	}
}

/* Multiplies @rows rows from m0 on with panel n0 / 64. */
static void mm_panel(const struct fw_matmul_i8 *t, uint32_t m0, uint32_t rows, uint32_t n0,
		     uint8_t *unpacked, int32_t *acc, const int8_t *pairs)
{
	const struct fw_wk_panel *p = t->wk ? t->wk + n0 / VNPU_PANEL_N : NULL;
	const uint8_t *panel = p ? NULL : t->w + n0 / VNPU_PANEL_N * VNPU_PANEL_I8_BYTES(t->k), *w,
		      *sums;
	uint32_t kb = (t->k + 3) / 4, b, m, k_block;

	memset(acc, 0, rows * VNPU_PANEL_N * sizeof(int32_t));
	for (b = 0; b < kb; b += k_block) {
		k_block = kb - b < MM_K_BLOCK ? kb - b : MM_K_BLOCK;
		if (p)
			wk_unpack(unpacked, p, b * 4,
				  t->k - b * 4 < k_block * 4 ? t->k - b * 4 : k_block * 4);
		w = p ? unpacked : panel + (size_t)b * 256;
		mm_k_block(t, m0, rows, acc, pairs, w, b, k_block);
	}
	sums = p ? wk_sums(p, t->k) : panel + (size_t)kb * 256;
	for (m = 0; m < rows; m++)
		mm_store(t, m0 + m, n0, acc + m * VNPU_PANEL_N, (const float *)(sums + 256));
}

static void kernel_matmul_i8(const struct fw_matmul_i8 *t, void *scratch)
{
	uint32_t m0, n0, rows, most = MM_BLOCK;
	int32_t *acc = (int32_t *)((uint8_t *)scratch + FW_UNPACK_BYTES);
	int8_t *pairs = (int8_t *)(acc + MM_BLOCK * VNPU_PANEL_N);

	if (t->wk && t->m == 1) {
		mm_packed_row(t, scratch);
		return;
	}
#if defined(__ARM_FEATURE_MATMUL_INT8)
	most = mm_pair_rows(most, (t->k + 3) / 4, (int8_t *)scratch + FW_SCRATCH_BYTES - pairs);
#endif
	for (m0 = 0; m0 < t->m; m0 += rows) {
		rows = t->m - m0 < most ? t->m - m0 : most;
#if defined(__ARM_FEATURE_MATMUL_INT8)
		mm_pair(pairs, t->a + m0 * t->lda, t->lda, rows, (t->k + 3) / 4);
#endif
		for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N)
			mm_panel(t, m0, rows, n0, scratch, acc, pairs);
	}
}

#define QK_ROWS 96
#define QK_STEP 8
#include "kernels_qk.h"

/* SMMLA reads pairs of rows; SDOT reads rows where they are. */
static void qk_rows(const struct fw_qk_i8 *t, uint32_t m0, uint32_t rows, void *scratch)
{
#if defined(__ARM_FEATURE_MATMUL_INT8)
	_Static_assert(QK_ROWS / 2 * (VNPU_MAX_HEAD_DIM * 2 + 16) <= FW_SCRATCH_BYTES,
		       "a group's rows fit");
	mm_pair(scratch, t->q + m0 * t->ldq, t->ldq, rows, (t->head_dim + 3) / 4);
#endif
}

static void qk_sums(const struct fw_qk_i8 *t, uint32_t m0, uint32_t m, uint32_t now,
		    const uint8_t *k, void *scratch, int32_t *acc)
{
	uint32_t kb = (t->head_dim + 3) / 4, r = 0, n;

	memset(acc, 0, now * VNPU_QK_PANEL * sizeof(*acc));
#if defined(__ARM_FEATURE_MATMUL_INT8)
	if (now > 1) {
		mm_mmlas(now / 2, acc, (int8_t *)scratch + m / 2 * mm_pair_bytes(kb),
			 mm_pair_bytes(kb), k, kb);
		r = now & ~1u;
	}
#endif
	for (; r < now; r += n) {
		n = now - r < 4 ? now - r : 4;
		mm_dots(n, acc + r * VNPU_QK_PANEL, t->q + (m0 + m + r) * t->ldq, t->ldq, k, kb);
	}
}

#define kernel_qk_i8 qk_i8
