/* SPDX-License-Identifier: MIT */
/*
 * 4-bit weights for aarch64; kernels_neon.h explains the operands of SDOT and SMMLA. The numbers
 * 0..15 are used as signed bytes, and the sums of a group start at -8 times the sum of its
 * activations. Weights are unpacked in registers: a register has 4 channels x 4 k in its low halves
 * and the next 4 k in its high halves.
 */
#include "kernels_neon.h"
#include "kernels_w4.h"

#define W4_ROWS 4
#define W4F_ROWS 6

/* -8 times the sum of a group's activations. */
static int32_t w4_first(const int8_t *a, uint32_t group)
{
	const int8x16_t ones = vdupq_n_s8(1);
	int32x4_t sum = vdupq_n_s32(0);
	uint32_t i;

	for (i = 0; i < group; i += 16)
		sum = vdotq_s32(sum, ones, vld1q_s8(a + i));
	return vaddvq_s32(sum) * -W4_ZERO;
}

MM_INLINE float32x4_t w4_scale(const uint8_t *w, uint32_t group, uint32_t n)
{
	return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(w4_scales(w, group) + n * 2)));
}

MM_INLINE int8x16_t w4_low(uint8x16_t x)
{
	return vreinterpretq_s8_u8(vandq_u8(x, vdupq_n_u8(15)));
}

MM_INLINE int8x16_t w4_high(uint8x16_t x)
{
	return vreinterpretq_s8_u8(vshrq_n_u8(x, 4));
}

/* c += (float)sum * scale, rounded once. */
MM_INLINE void w4_add(float *c, int32x4_t sum, float32x4_t scale)
{
	vst1q_f32(c, vfmaq_f32(vld1q_f32(c), vcvtq_f32_s32(sum), scale));
}

/* 8 k: those at index @i of the two in each x[rows], and in w. */
MM_INLINE void w4_dot_block(const uint32_t rows, const uint32_t vecs, int32x4_t *sum,
			    const int8x16_t *x, const uint8_t *w, const int i)
{
	uint32_t r, v;
	int32x4_t *s;
	uint8x16_t y;

#pragma GCC unroll 16
	for (v = 0; v < vecs; v++) {
		y = vld1q_u8(w + i * 256 + v * 16);
#pragma GCC unroll 4
		for (r = 0; r < rows; r++) {
			s = &sum[r * vecs + v];
			*s = vdotq_laneq_s32(*s, w4_low(y), x[r], 2 * i);
			*s = vdotq_laneq_s32(*s, w4_high(y), x[r], 2 * i + 1);
		}
	}
}

/* c[rows][64] += one group of a[rows][lda] x w, @vecs x 4 channels from n on. */
MM_INLINE void w4_dot(const uint32_t rows, const uint32_t vecs, float *c, const int8_t *a,
		      size_t lda, const uint8_t *w, uint32_t group, uint32_t n,
		      const int32_t *first)
{
	int32x4_t sum[MM_SUMS];
	float32x4_t scale;
	uint32_t r, v, k;
	int8x16_t x[4];

#pragma GCC unroll 16
	for (r = 0; r < rows; r++)
#pragma GCC unroll 16
		for (v = 0; v < vecs; v++)
			sum[r * vecs + v] = vdupq_n_s32(first[r]);
	for (k = 0; k < group; k += 16) {
#pragma GCC unroll 16
		for (r = 0; r < rows; r++)
			x[r] = vld1q_s8(a + r * lda + k);
		w4_dot_block(rows, vecs, sum, x, w + k * 32 + n * 4, 0);
		w4_dot_block(rows, vecs, sum, x, w + k * 32 + n * 4, 1);
	}
#pragma GCC unroll 16
	for (v = 0; v < vecs; v++) {
		scale = w4_scale(w, group, n + v * 4);
#pragma GCC unroll 16
		for (r = 0; r < rows; r++)
			w4_add(c + r * VNPU_PANEL_N + n + v * 4, sum[r * vecs + v], scale);
	}
}

/* All 64 channels. */
static void w4_dots(uint32_t rows, float *c, const int8_t *a, size_t lda, const uint8_t *w,
		    uint32_t group)
{
	int32_t first[W4_ROWS];
	uint32_t n;

	for (n = 0; n < rows; n++)
		first[n] = w4_first(a + n * lda, group);
	switch (rows) {
	case 1:
		w4_dot(1, 16, c, a, lda, w, group, 0, first);
		break;
	case 2:
		for (n = 0; n < VNPU_PANEL_N; n += 32)
			w4_dot(2, 8, c, a, lda, w, group, n, first);
		break;
	case 3:
		for (n = 0; n < VNPU_PANEL_N; n += 16)
			w4_dot(3, 4, c, a, lda, w, group, n, first);
		break;
	default:
		for (n = 0; n < VNPU_PANEL_N; n += 16)
			w4_dot(4, 4, c, a, lda, w, group, n, first);
	}
}

#if defined(__ARM_FEATURE_MATMUL_INT8)
/* As w4_dot() with @pairs pairs of rows, stored by mm_pair(). */
MM_INLINE void w4_mmla(const uint32_t pairs, const uint32_t vecs, float *c, const int8_t *a,
		       size_t lda, const uint8_t *w, uint32_t group, uint32_t n,
		       const int32_t *first)
{
	int32x4_t sum[MM_SUMS], *s;
	float32x4_t scale;
	int8x16_t row[4];
	uint32_t p, v, k;
	int8x16x2_t z;
	uint8x16_t y;

#pragma GCC unroll 16
	for (p = 0; p < pairs; p++)
#pragma GCC unroll 16
		for (v = 0; v < 2 * vecs; v++)
			sum[p * 2 * vecs + v] = vcombine_s32(vdup_n_s32(first[2 * p]),
							     vdup_n_s32(first[2 * p + 1]));
	for (k = 0; k < group; k += 8) {
#pragma GCC unroll 16
		for (p = 0; p < pairs; p++)
			row[p] = vld1q_s8(a + p * lda + 2 * k);
#pragma GCC unroll 16
		for (v = 0; v < vecs; v++) {
			y = vld1q_u8(w + k / 8 * 256 + n * 4 + v * 16);
			z = mm_zip(w4_low(y), w4_high(y));
#pragma GCC unroll 16
			for (p = 0; p < pairs; p++) {
				s = &sum[(p * vecs + v) * 2];
				s[0] = vmmlaq_s32(s[0], row[p], z.val[0]);
				s[1] = vmmlaq_s32(s[1], row[p], z.val[1]);
			}
		}
	}
#pragma GCC unroll 16
	for (v = 0; v < vecs; v++) {
		scale = w4_scale(w, group, n + v * 4);
#pragma GCC unroll 16
		for (p = 0; p < pairs; p++) {
			s = &sum[(p * vecs + v) * 2];
			w4_add(c + 2 * p * VNPU_PANEL_N + n + v * 4, mm_half(s[0], s[1], 0), scale);
			w4_add(c + (2 * p + 1) * VNPU_PANEL_N + n + v * 4, mm_half(s[0], s[1], 1),
			       scale);
		}
	}
}

/* All 64 channels; @rows: the rows before they were paired. */
static void w4_mmlas(uint32_t pairs, float *c, const int8_t *a, size_t lda, const int8_t *rows,
		     size_t ldr, const uint8_t *w, uint32_t group)
{
	int32_t first[MM_ROWS];
	uint32_t n;

	for (n = 0; n < 2 * pairs; n++)
		first[n] = w4_first(rows + n * ldr, group);
	switch (pairs) {
	case 1:
		for (n = 0; n < VNPU_PANEL_N; n += 32)
			w4_mmla(1, 8, c, a, lda, w, group, n, first);
		break;
	case 2:
		for (n = 0; n < VNPU_PANEL_N; n += 16)
			w4_mmla(2, 4, c, a, lda, w, group, n, first);
		break;
	case 3:
		for (n = 0; n < VNPU_PANEL_N; n += 8)
			w4_mmla(3, 2, c, a, lda, w, group, n, first);
		break;
	default:
		for (n = 0; n < VNPU_PANEL_N; n += 8)
			w4_mmla(4, 2, c, a, lda, w, group, n, first);
	}
}
#endif

/* ---- float activations ----------------------------------------------------------------------- */

/*
 * One k: that at index @i of the four in each x[rows], times the weights whose top bit is @up bits
 * below that of u[vecs].
 */
MM_INLINE void w4f_step(const uint32_t rows, const uint32_t vecs, float32x4_t *sum,
			const float32x4_t *x, const int i, const int32x4_t *u, const int up,
			const float32x4_t *scale)
{
	float32x4_t y;
	uint32_t r, v;

#pragma GCC unroll 16
	for (v = 0; v < vecs; v++) {
		y = vmulq_f32(vcvtq_f32_s32(vshrq_n_s32(vshlq_n_s32(u[v], up), 28)), scale[v]);
#pragma GCC unroll 16
		for (r = 0; r < rows; r++)
			sum[r * vecs + v] = vfmaq_laneq_f32(sum[r * vecs + v], y, x[r], i);
	}
}

/* c[rows][64] += one group of a[rows][lda] x w, in order of k, @vecs x 4 channels from n on. */
MM_INLINE void w4f_fma(const uint32_t rows, const uint32_t vecs, float *c, const float *a,
		       size_t lda, const uint8_t *w, uint32_t group, uint32_t n)
{
	/* Inverting a number's top bit makes it the signed 4-bit number u - 8. */
	const uint32x4_t zero = vdupq_n_u32(0x88888888);
	float32x4_t sum[12], x[W4F_ROWS], scale[4];
	uint32_t r, v, k;
	int32x4_t u[4];

#pragma GCC unroll 16
	for (r = 0; r < rows; r++)
#pragma GCC unroll 16
		for (v = 0; v < vecs; v++)
			sum[r * vecs + v] = vld1q_f32(c + r * VNPU_PANEL_N + n + v * 4);
#pragma GCC unroll 16
	for (v = 0; v < vecs; v++)
		scale[v] = w4_scale(w, group, n + v * 4);
	for (k = 0; k < group; k += 8) {
#pragma GCC unroll 16
		for (v = 0; v < vecs; v++)
			u[v] = vreinterpretq_s32_u32(veorq_u32(
				vreinterpretq_u32_u8(vld1q_u8(w + k * 32 + n * 4 + v * 16)), zero));
#pragma GCC unroll 16
		for (r = 0; r < rows; r++)
			x[r] = vld1q_f32(a + r * lda + k);
		w4f_step(rows, vecs, sum, x, 0, u, 28, scale);
		w4f_step(rows, vecs, sum, x, 1, u, 20, scale);
		w4f_step(rows, vecs, sum, x, 2, u, 12, scale);
		w4f_step(rows, vecs, sum, x, 3, u, 4, scale);
#pragma GCC unroll 16
		for (r = 0; r < rows; r++)
			x[r] = vld1q_f32(a + r * lda + k + 4);
		w4f_step(rows, vecs, sum, x, 0, u, 24, scale);
		w4f_step(rows, vecs, sum, x, 1, u, 16, scale);
		w4f_step(rows, vecs, sum, x, 2, u, 8, scale);
		w4f_step(rows, vecs, sum, x, 3, u, 0, scale);
	}
#pragma GCC unroll 16
	for (r = 0; r < rows; r++)
#pragma GCC unroll 16
		for (v = 0; v < vecs; v++)
			vst1q_f32(c + r * VNPU_PANEL_N + n + v * 4, sum[r * vecs + v]);
}

#define W4F_CASE(rows, vecs)                                         \
	case rows:                                                   \
		for (n = 0; n < VNPU_PANEL_N; n += 4 * (vecs))       \
			w4f_fma(rows, vecs, c, a, lda, w, group, n); \
		break;

/* All 64 channels. */
static void w4f_fmas(uint32_t rows, float *c, const float *a, size_t lda, const uint8_t *w,
		     uint32_t group)
{
	uint32_t n;

	switch (rows) {
		W4F_CASE(1, 4)
		W4F_CASE(2, 4)
		W4F_CASE(3, 2)
		W4F_CASE(4, 2)
		W4F_CASE(5, 2)
		W4F_CASE(6, 2)
	}
}

/* ---- both ------------------------------------------------------------------------------------ */

static void w4_store(const struct fw_matmul_w4 *t, uint32_t m, uint32_t rows, uint32_t n0,
		     float *acc)
{
	uint32_t i, cols = w4_channels(t, n0);

	for (; rows; rows--, m++, acc += VNPU_PANEL_N) {
		for (i = 0; i < VNPU_PANEL_N && t->a_scale; i += 4)
			vst1q_f32(acc + i, vmulq_n_f32(vld1q_f32(acc + i), t->a_scale[m]));
		for (i = 0; i < cols && t->bias; i++)
			acc[i] += t->bias[n0 + i];
		memcpy(t->c + m * t->ldc + n0, acc, cols * sizeof(float));
	}
}

/* Multiplies a tile of rows from m on with a panel. @pairs: the rows in pairs, or NULL. */
static void w4_panel(const struct fw_matmul_w4 *t, uint32_t m, uint32_t rows, uint32_t n0,
		     const uint8_t *w, const int8_t *pairs)
{
	const int8_t *i8 = (const int8_t *)t->a + m * t->lda;
	const float *f32 = (const float *)t->a + m * t->lda;
	float acc[8 * VNPU_PANEL_N];
	uint32_t k;

	memset(acc, 0, rows * VNPU_PANEL_N * sizeof(float));
	for (k = 0; k < t->k; k += t->group, w += w4_group_bytes(t->group)) {
		if (!t->a_scale)
			w4f_fmas(rows, acc, f32 + k, t->lda, w, t->group);
#if defined(__ARM_FEATURE_MATMUL_INT8)
		else if (pairs)
			w4_mmlas(rows / 2, acc, pairs + 2 * k, 2 * t->k, i8 + k, t->lda, w,
				 t->group);
#endif
		else
			w4_dots(rows, acc, i8 + k, t->lda, w, t->group);
	}
	w4_store(t, m, rows, n0, acc);
}

static void kernel_matmul_w4(const struct fw_matmul_w4 *t, void *scratch)
{
	uint32_t m0, m, n0, block, rows, most = MM_BLOCK;
	const uint8_t *panel;

#if defined(__ARM_FEATURE_MATMUL_INT8)
	most = mm_pair_rows(most, t->k / 4, FW_SCRATCH_BYTES);
#endif
	for (m0 = 0; m0 < t->m; m0 += block) {
		block = t->m - m0 < most ? t->m - m0 : most;
#if defined(__ARM_FEATURE_MATMUL_INT8)
		mm_pair(scratch, (const int8_t *)t->a + m0 * t->lda, t->lda, block, t->k / 4);
#endif
		panel = t->w;
		for (n0 = 0; n0 < t->n;
		     n0 += VNPU_PANEL_N, panel += VNPU_PANEL_W4_BYTES(t->k, t->group)) {
			m = 0;
#if defined(__ARM_FEATURE_MATMUL_INT8)
			for (; m + 2 <= block; m += rows) {
				rows = block - m < MM_ROWS ? (block - m) & ~1u : MM_ROWS;
				w4_panel(t, m0 + m, rows, n0, panel,
					 (int8_t *)scratch + (size_t)m * t->k);
			}
#endif
			for (; m < block; m += rows) {
				rows = block - m < W4_ROWS ? block - m : W4_ROWS;
				w4_panel(t, m0 + m, rows, n0, panel, NULL);
			}
		}
	}
}

static void kernel_matmul_w4f(const struct fw_matmul_w4 *t, void *scratch)
{
	const uint8_t *panel = t->w;
	uint32_t m, n0, rows;

	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N, panel += VNPU_PANEL_W4_BYTES(t->k, t->group)) {
		for (m = 0; m < t->m; m += rows) {
			rows = t->m - m < W4F_ROWS ? t->m - m : W4F_ROWS;
			w4_panel(t, m, rows, n0, panel, NULL);
		}
	}
}
