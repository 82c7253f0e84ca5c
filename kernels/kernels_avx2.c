// SPDX-License-Identifier: MIT
/*
 * AVX2: 16-bit multiply-adds. Both factors are widened to 16 bits, so that no sum can saturate: the
 * activations once per block, into the worker's scratch, the weights in registers.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels_avx2.h"
#include "kernels_kq.h"
#include "kernels_w4.h"
#include "kernels_wk.h"

#define MM_ROWS 6

/* Rows r of the register tile: 8 channels, as two vectors of 4 channels x 2 partial sums. */
#define EACH_ROW(f) f(0) f(1) f(2) f(3) f(4) f(5)
#define DECLARE(r)                                                   \
	__m256i c##r##0 = _mm256_setzero_si256(), c##r##1 = c##r##0; \
	const int16_t *a##r = a + ((r) < rows ? (r) : 0) * lda;
#define STEP(r)                                                                       \
	if ((r) < rows) {                                                             \
		int64_t four;                                                         \
		__builtin_memcpy(&four, a##r + 4 * b, 8);                             \
		__m256i x = _mm256_set1_epi64x(four);                                 \
		c##r##0 = _mm256_add_epi32(c##r##0, _mm256_madd_epi16(x, w0));        \
		c##r##1 = _mm256_add_epi32(c##r##1, _mm256_madd_epi16(x, w1));        \
		/* Row by row: hoisted loads would push sums out of the registers. */ \
		__asm__ volatile("" : "+x"(c##r##0), "+x"(c##r##1));                  \
	}
/* hadd works on halves of 128 bits: channels come out in the order 0 1 4 5 2 3 6 7. */
#define OUT(r)                                                                                    \
	if ((r) < rows) {                                                                         \
		__m256i *at = (__m256i *)(acc + (r)*VNPU_PANEL_N);                                \
		sum = _mm256_permute4x64_epi64(_mm256_hadd_epi32(c##r##0, c##r##1), 0xd8);        \
		_mm256_storeu_si256(at,                                                           \
				    first ? sum : _mm256_add_epi32(sum, _mm256_loadu_si256(at))); \
	}

/* acc[rows][64], 8 channels of it (0 if @first) += a[rows][lda] x w, @kb times four k. */
static inline __attribute__((always_inline)) void mm_rows(const int rows, const int16_t *a,
							  size_t lda, const uint8_t *w, uint32_t kb,
							  bool first, int32_t *acc)
{
	__m256i w0, w1, sum;
	uint32_t b;

	EACH_ROW(DECLARE)
	for (b = 0; b < kb; b++, w += 256) {
		w0 = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)w));
		w1 = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + 16)));
		EACH_ROW(STEP)
	}
	EACH_ROW(OUT)
}

/* One row times a whole panel, 32 channels at a time in K blocks that stay in L1, so that the panel
 * is read from memory once and in order. */
static void mm_row(const int8_t *a, const uint8_t *panel, uint32_t kb, int32_t *acc)
{
	__m256i sum[8], x;
	uint32_t b0, b, end, half, i;
	const uint8_t *w;
	int32_t four;

	_Static_assert(VNPU_PANEL_N == 64, "two halves of 32 channels");
	for (i = 0; i < VNPU_PANEL_N; i++)
		acc[i] = 0;
	for (b0 = 0; b0 < kb; b0 = end) {
		end = kb - b0 < 64 ? kb : b0 + 64;
		for (half = 0; half < 2; half++) {
			for (i = 0; i < 8; i++)
				sum[i] = _mm256_setzero_si256();
			w = panel + (size_t)b0 * 256 + half * 128;
			for (b = b0; b < end; b++, w += 256) {
				__builtin_memcpy(&four, a + 4 * b, 4);
				x = _mm256_cvtepi8_epi16(_mm_set1_epi32(four));
#pragma GCC unroll 8
				for (i = 0; i < 8; i++)
					sum[i] = _mm256_add_epi32(
						sum[i],
						_mm256_madd_epi16(
							x, _mm256_cvtepi8_epi16(_mm_loadu_si128((
								   const __m128i *)(w + 16 * i)))));
			}
			for (i = 0; i < 4; i++) {
				__m256i *y = (__m256i *)(acc + half * 32 + i * 8);

				x = _mm256_permute4x64_epi64(
					_mm256_hadd_epi32(sum[2 * i], sum[2 * i + 1]), 0xd8);
				_mm256_storeu_si256(y, _mm256_add_epi32(_mm256_loadu_si256(y), x));
			}
		}
	}
}

static void mm_block(int rows, const int16_t *a, size_t lda, const uint8_t *panel, uint32_t kb,
		     bool first, int32_t *acc)
{
	int n;

	for (n = 0; n < VNPU_PANEL_N; n += 8) {
		switch (rows) {
		case 1:
			mm_rows(1, a, lda, panel + n * 4, kb, first, acc + n);
			break;
		case 2:
			mm_rows(2, a, lda, panel + n * 4, kb, first, acc + n);
			break;
		case 3:
			mm_rows(3, a, lda, panel + n * 4, kb, first, acc + n);
			break;
		case 4:
			mm_rows(4, a, lda, panel + n * 4, kb, first, acc + n);
			break;
		case 5:
			mm_rows(5, a, lda, panel + n * 4, kb, first, acc + n);
			break;
		default:
			mm_rows(6, a, lda, panel + n * 4, kb, first, acc + n);
		}
	}
}

/* One row: limited by memory bandwidth, so the weights are read in order. */
static void mm_gemv(const struct fw_matmul_i8 *t)
{
	uint32_t kb = (t->k + 3) / 4, n0;
	const uint8_t *panel = t->w;
	int32_t acc[VNPU_PANEL_N];

	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N, panel += VNPU_PANEL_I8_BYTES(t->k)) {
		mm_row(t->a, panel, kb, acc);
		mm_store(t, 0, n0, acc, (const float *)(panel + (size_t)kb * 256 + 256));
	}
}

/* Copies @rows rows, widened to 16 bits. */
static void mm_widen(int16_t *dst, size_t ldd, const int8_t *src, size_t lds, uint32_t rows,
		     uint32_t n)
{
	uint32_t r, i;

	for (r = 0; r < rows; r++, dst += ldd, src += lds) {
		for (i = 0; i + 16 <= n; i += 16)
			_mm256_storeu_si256(
				(__m256i *)(dst + i),
				_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(src + i))));
		for (; i < n; i++)
			dst[i] = src[i];
	}
}

/* Rows m0.., @rows of them; @a has 16-bit copies of them, @ld apart. */
static void mm_group(const struct fw_matmul_i8 *t, uint32_t m0, uint32_t rows, uint8_t *unpacked,
		     const int16_t *a, size_t ld, int32_t *acc)
{
	uint32_t bytes = (t->k + 3) / 4 * 4, k0, n0, m, r, now, k_block;
	const struct fw_wk_panel *wk = t->wk;
	const uint8_t *w, *sums;

	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		w = wk ? unpacked : t->w + n0 / VNPU_PANEL_N * VNPU_PANEL_I8_BYTES(t->k);
		sums = wk ? wk_sums(wk, t->k) : w + bytes * 64ull;
		for (k0 = 0; k0 < bytes; k0 += k_block) {
			k_block = !wk || bytes - k0 < WK_K_BLOCK ? bytes - k0 : WK_K_BLOCK;
			if (wk)
				fw_wk_unpack_avx2(unpacked, wk, k0,
						  t->k - k0 < k_block ? t->k - k0 : k_block);
			for (m = 0; m < rows; m += now) {
				now = rows - m < MM_ROWS ? rows - m : MM_ROWS;
				mm_block(now, a + m * ld + k0, ld, w, k_block / 4, !k0,
					 acc + m * VNPU_PANEL_N);
			}
		}
		for (r = 0; r < rows; r++)
			mm_store(t, m0 + r, n0, acc + r * VNPU_PANEL_N,
				 (const float *)(sums + 256));
		wk = wk ? wk + 1 : NULL;
	}
}

static void kernel_matmul_i8(const struct fw_matmul_i8 *t, void *scratch)
{
	uint32_t kb = (t->k + 3) / 4, m0, rows, fit;
	/* An odd number of cache lines, so that a tile's rows are in different cache sets. */
	size_t ld = ((kb * 4 + 31) / 32 | 1) * 32;
	int16_t *a = (int16_t *)((uint8_t *)scratch + FW_UNPACK_BYTES);

	if (t->m == 1) {
		if (t->wk)
			fw_wk_row_avx2(t, scratch);
		else
			mm_gemv(t);
		return;
	}
	/* At the largest k, half a register tile. */
	fit = (FW_SCRATCH_BYTES - FW_UNPACK_BYTES) / (2 * ld + VNPU_PANEL_N * sizeof(int32_t));
	if (fit > MM_ROWS)
		fit = fit / MM_ROWS * MM_ROWS;
	for (m0 = 0; m0 < t->m; m0 += rows) {
		rows = t->m - m0 < fit ? t->m - m0 : fit;
		mm_widen(a, ld, t->a + m0 * t->lda, t->lda, rows, kb * 4);
		mm_group(t, m0, rows, scratch, a, ld, (int32_t *)(a + fit * ld));
	}
}

#define QK_ROWS 192
#define QK_STEP MM_ROWS
#include "kernels_qk.h"

/* Distance between rows in scratch: as in kernel_matmul_i8(). */
static size_t qk_ld(const struct fw_qk_i8 *t)
{
	return ((t->head_dim + 31) / 32 | 1) * 32;
}

static void qk_rows(const struct fw_qk_i8 *t, uint32_t m0, uint32_t rows, void *scratch)
{
	_Static_assert(QK_ROWS * (VNPU_MAX_HEAD_DIM + 32) * sizeof(int16_t) <= FW_SCRATCH_BYTES,
		       "a group's rows fit");
	mm_widen(scratch, qk_ld(t), t->q + m0 * t->ldq, t->ldq, rows, (t->head_dim + 3) / 4 * 4);
}

static void qk_sums(const struct fw_qk_i8 *t, uint32_t m0, uint32_t m, uint32_t now,
		    const uint8_t *k, void *scratch, int32_t *acc)
{
	mm_block((int)now, (int16_t *)scratch + m * qk_ld(t), qk_ld(t), k, (t->head_dim + 3) / 4,
		 true, acc);
}

#define kernel_qk_i8 qk_i8
#define kernel_matmul_w4 fw_matmul_w4_avx2
#define kernel_matmul_kq fw_matmul_kq_avx2
#define kernel_matmul_w4f fw_matmul_w4f_avx2
#define FW_KERNELS_NAME fw_kernels_avx2
#define FW_KERNELS_LABEL "avx2"
#include "kernels_float.h"
#endif
