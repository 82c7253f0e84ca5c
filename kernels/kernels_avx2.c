// SPDX-License-Identifier: MIT
/*
 * AVX2. Several rows are 16-bit multiply-adds: both factors are widened to 16 bits, so that no sum
 * can saturate, the activations once per block, into the worker's scratch, the weights in
 * registers. A part of K that stays in L1 is multiplied with all rows before the next one.
 *
 * One row, and two, are vpmaddubsw with the weights' absolute values, and the activations with the
 * weights' signs: the sum of two products of at most 128 x 127 fits its 16 bits.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>

#include "kernels_avx2.h"
#include "kernels_kq.h"
#include "kernels_w4.h"
#include "kernels_wk.h"

#define MM_ROWS 6
#define MM_K_BLOCK 256

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

/*
 * acc[rows][64], 8 channels of it (0 if @first) += a[rows][lda] x w, @kb times four k. Meanwhile
 * @kb times 32 bytes from @next on, unless NULL, are prefetched into L2.
 */
static inline __attribute__((always_inline)) void mm_rows(const int rows, const int16_t *a,
							  size_t lda, const uint8_t *w, uint32_t kb,
							  bool first, int32_t *acc,
							  const uint8_t *next)
{
	__m256i w0, w1, sum;
	uint32_t b;

	EACH_ROW(DECLARE)
	for (b = 0; b < kb; b++, w += 256) {
		if (next)
			_mm_prefetch(next + b * 32, _MM_HINT_T1);
		w0 = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)w));
		w1 = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + 16)));
		EACH_ROW(STEP)
	}
	EACH_ROW(OUT)
}

/* acc[64] (0 if @first) += one row, without -128, times a panel, which is read once, in order. */
static inline __attribute__((always_inline)) void
mm_row(const int8_t *a, const uint8_t *panel, uint32_t kb, const bool first, int32_t *acc)
{
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i *to = (__m256i *)acc, sum[8], x, w, pairs;
	int32_t four;
	uint32_t i;

	_Static_assert(VNPU_PANEL_N == 64, "eight vectors of sums");
#pragma GCC unroll 8
	for (i = 0; i < 8; i++)
		sum[i] = first ? _mm256_setzero_si256() : _mm256_loadu_si256(to + i);
	for (; kb; kb--, a += 4, panel += 256) {
		__builtin_memcpy(&four, a, 4);
		x = _mm256_set1_epi32(four);
#pragma GCC unroll 8
		for (i = 0; i < 8; i++) {
			w = _mm256_loadu_si256((const __m256i *)(panel + 32 * i));
			pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
			sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(pairs, ones));
		}
	}
#pragma GCC unroll 8
	for (i = 0; i < 8; i++)
		_mm256_storeu_si256(to + i, sum[i]);
}

/* A part of K of a panel, 64 channels. @next: the part that is multiplied after it, or NULL. */
static void mm_block(int rows, const int16_t *a, size_t lda, const uint8_t *w, uint32_t kb,
		     bool first, int32_t *acc, const uint8_t *next)
{
	const uint32_t bytes = next ? kb * 32 : 0;
	int n;

#define CASE(n)                                              \
	case n:                                              \
		mm_rows(n, a, lda, w, kb, first, acc, next); \
		break;
	for (n = 0; n < VNPU_PANEL_N; n += 8, w += 32, acc += 8, next += bytes) {
		switch (rows) {
			CASE(1)
			CASE(2)
			CASE(3)
			CASE(4)
			CASE(5)
			CASE(6)
		}
	}
#undef CASE
}

/*
 * Splits a row in two without -128, whose sign vpsignb cannot change. Returns false, with nothing
 * written, if it has none.
 */
static bool mm_split(int8_t *most, int8_t *rest, const int8_t *a, uint32_t bytes)
{
	if (!memchr(a, -128, bytes))
		return false;
	for (uint32_t i = 0; i < bytes; i++) {
		most[i] = a[i] == -128 ? -127 : a[i];
		rest[i] = a[i] == -128 ? -1 : 0;
	}
	return true;
}

/* One row: limited by memory bandwidth, so the weights are read in order. */
static void mm_gemv(const struct fw_matmul_i8 *t, int8_t *scratch)
{
	uint32_t kb = (t->k + 3) / 4, n0;
	int8_t *rest = scratch + kb * 4;
	const bool split = mm_split(scratch, rest, t->a, kb * 4);
	const int8_t *a = split ? scratch : t->a;
	const uint8_t *panel = t->w;
	int32_t acc[VNPU_PANEL_N];

	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N, panel += VNPU_PANEL_I8_BYTES(t->k)) {
		mm_row(a, panel, kb, true, acc);
		if (split)
			mm_row(rest, panel, kb, false, acc);
		mm_store(t, 0, n0, acc, (const float *)(panel + (size_t)kb * 256 + 256));
	}
}

/*
 * acc[2][64] (0 if @first) += two rows, without -128, times a part of a panel, half of its channels
 * at a time. Meanwhile as many bytes from @next on are prefetched into L2.
 */
static void mm_pair_block(const int8_t *a, size_t lda, const uint8_t *w, uint32_t kb,
			  const bool first, int32_t *acc, const uint8_t *next)
{
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i sum[2][4], x[2], v, most, pairs;
	uint32_t n, b, r, i;
	int32_t four;

	for (n = 0; n < VNPU_PANEL_N; n += 32, acc += 32, next += kb * 128ul) {
#pragma GCC unroll 8
		for (i = 0; i < 8; i++)
			sum[i / 4][i % 4] =
				first ? _mm256_setzero_si256()
				      : _mm256_loadu_si256((const __m256i *)(acc +
									     i / 4 * VNPU_PANEL_N +
									     i % 4 * 8));
		for (b = 0; b < kb; b++) {
			_mm_prefetch(next + b * 128ul, _MM_HINT_T1);
			_mm_prefetch(next + b * 128ul + 64, _MM_HINT_T1);
			for (r = 0; r < 2; r++) {
				__builtin_memcpy(&four, a + r * lda + b * 4, 4);
				x[r] = _mm256_set1_epi32(four);
			}
#pragma GCC unroll 4
			for (i = 0; i < 4; i++) {
				v = _mm256_loadu_si256(
					(const __m256i *)(w + b * 256ul + n * 4 + i * 32));
				most = _mm256_abs_epi8(v);
#pragma GCC unroll 2
				for (r = 0; r < 2; r++) {
					pairs = _mm256_maddubs_epi16(most,
								     _mm256_sign_epi8(x[r], v));
					sum[r][i] = _mm256_add_epi32(
						sum[r][i], _mm256_madd_epi16(pairs, ones));
				}
			}
		}
#pragma GCC unroll 8
		for (i = 0; i < 8; i++)
			_mm256_storeu_si256((__m256i *)(acc + i / 4 * VNPU_PANEL_N + i % 4 * 8),
					    sum[i / 4][i % 4]);
	}
}

/* Two rows without -128, of panels of bytes. */
static void mm_pair(const struct fw_matmul_i8 *t)
{
	const uint32_t kb = (t->k + 3) / 4;
	const uint8_t *panel = t->w;
	int32_t acc[2 * VNPU_PANEL_N];

	for (uint32_t n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		for (uint32_t b = 0, now; b < kb; b += now, panel += now * 256ul) {
			now = kb - b < MM_K_BLOCK / 4 ? kb - b : MM_K_BLOCK / 4;
			mm_pair_block(t->a + b * 4, t->lda, panel, now, !b, acc,
				      panel + now * 256ul);
		}
		mm_store(t, 0, n0, acc, (const float *)(panel + 256));
		mm_store(t, 1, n0, acc + VNPU_PANEL_N, (const float *)(panel + 256));
		panel += VNPU_PANEL_I8_BYTES(t->k) - kb * 256ul;
	}
}

/* Copies @rows rows, widened to 16 bits, padded with zeros to a multiple of 4. */
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
		for (; i % 4; i++)
			dst[i] = 0;
	}
}

/* Rows m0.., @rows of them; @a has 16-bit copies of them, @ld apart. Panels are of bytes. */
static void mm_group(const struct fw_matmul_i8 *t, uint32_t m0, uint32_t rows, const int16_t *a,
		     size_t ld, int32_t *acc)
{
	uint32_t bytes = (t->k + 3) / 4 * 4, k0, n0, m, r, now, k_block;
	const uint8_t *panel, *w, *next, *sums;

	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		const size_t i = n0 / VNPU_PANEL_N;

		panel = t->wk ? t->wk[i].w : t->w + i * VNPU_PANEL_I8_BYTES(t->k);
		sums = t->wk ? wk_sums(t->wk + i, t->k) : panel + bytes * 64ull;
		for (k0 = 0; k0 < bytes; k0 += k_block) {
			k_block = bytes - k0 < MM_K_BLOCK ? bytes - k0 : MM_K_BLOCK;
			w = panel + k0 * 64ul;
			next = w + k_block * 64ul;
			for (m = 0; m < rows; m += now, next = NULL) {
				now = rows - m < MM_ROWS ? rows - m : MM_ROWS;
				mm_block((int)now, a + m * ld + k0, ld, w, k_block / 4, !k0,
					 acc + m * VNPU_PANEL_N, next);
			}
		}
		for (r = 0; r < rows; r++)
			mm_store(t, m0 + r, n0, acc + r * VNPU_PANEL_N,
				 (const float *)(sums + 256));
	}
}

/* Several rows of panels of bytes. */
static void mm_rows_wide(const struct fw_matmul_i8 *t, void *scratch)
{
	uint32_t kb = (t->k + 3) / 4, m0, rows, fit;
	/* An odd number of cache lines, so that a tile's rows are in different cache sets. */
	size_t ld = ((kb * 4 + 31) / 32 | 1) * 32;
	int16_t *a = scratch;

	/* At the largest k, half a register tile. */
	fit = FW_SCRATCH_BYTES / (2 * ld + VNPU_PANEL_N * sizeof(int32_t));
	if (fit > MM_ROWS)
		fit = fit / MM_ROWS * MM_ROWS;
	for (m0 = 0; m0 < t->m; m0 += rows) {
		rows = t->m - m0 < fit ? t->m - m0 : fit;
		mm_widen(a, ld, t->a + m0 * t->lda, t->lda, rows, t->k);
		mm_group(t, m0, rows, a, ld, (int32_t *)(a + fit * ld));
	}
}

/* Several rows of MATMUL_WK: panels that follow each other and are of 8 bits, or not. */
static void mm_rows_wk(const struct fw_matmul_i8 *t, void *scratch)
{
	const uint32_t panels = (t->n + VNPU_PANEL_N - 1) / VNPU_PANEL_N;
	uint32_t first, end;

	for (first = 0; first < panels; first = end) {
		struct fw_matmul_i8 part = *t;
		const bool bytes = t->wk[first].bits == 8;

		for (end = first + 1; end < panels && (t->wk[end].bits == 8) == bytes; end++)
			;
		part.n = (end < panels ? end * VNPU_PANEL_N : t->n) - first * VNPU_PANEL_N;
		part.c += first * VNPU_PANEL_N;
		part.bias = t->bias ? t->bias + first * VNPU_PANEL_N : NULL;
		part.wk += first;
		if (bytes)
			mm_rows_wide(&part, scratch);
		else
			fw_wk_many_avx2(&part, scratch);
	}
}

static void kernel_matmul_i8(const struct fw_matmul_i8 *t, void *scratch)
{
	const size_t bytes = ((size_t)t->k + 3) / 4 * 4;

	if (t->m > 1 && t->wk)
		mm_rows_wk(t, scratch);
	else if (t->m == 2 && !memchr(t->a, -128, bytes) && !memchr(t->a + t->lda, -128, bytes))
		mm_pair(t);
	else if (t->m > 1)
		mm_rows_wide(t, scratch);
	else if (t->wk)
		fw_wk_row_avx2(t, scratch);
	else
		mm_gemv(t, scratch);
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
		 true, acc, NULL);
}

#define kernel_qk_i8 qk_i8
#define kernel_matmul_w4 fw_matmul_w4_avx2
#define kernel_matmul_kq fw_matmul_kq_avx2
#define kernel_matmul_w4f fw_matmul_w4f_avx2
#define FW_KERNELS_NAME fw_kernels_avx2
#define FW_KERNELS_LABEL "avx2"
#include "kernels_float.h"
#endif
