// SPDX-License-Identifier: MIT
/*
 * AVX-512 VNNI: vpdpbusd multiplies unsigned by signed bytes, so 128 is added to the activations (their top bit is
 * flipped) and 128 times the sum of the weights, which each panel carries, is taken off at the end. In 32 bits all of
 * this is exact modulo 2^32, and the true sum fits.
 *
 * The register tile is 6 rows x 64 channels: 24 sums, 4 weights, 1 activation. Flipped activations are kept in the
 * worker's scratch, as many rows at a time as fit, and used against every panel of the block. A single row skips that:
 * it flips its four bytes on the way, since memory is the limit there.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels.h"

#define MM_ROWS 6
#define FLIP ((int32_t)0x80808080)

#define EACH_ROW(f) f(0) f(1) f(2) f(3) f(4) f(5)
#define DECLARE(r)                                                                                         \
	__m512i c##r##0 = _mm512_setzero_si512(), c##r##1 = c##r##0, c##r##2 = c##r##0, c##r##3 = c##r##0; \
	const uint8_t *a##r = a + ((r) < rows ? (r) : 0) * lda;
#define STEP(r)                                                \
	if ((r) < rows) {                                      \
		int32_t four;                                  \
		__builtin_memcpy(&four, a##r + 4 * b, 4);      \
		__m512i x = _mm512_set1_epi32(four);           \
		c##r##0 = _mm512_dpbusd_epi32(c##r##0, x, w0); \
		c##r##1 = _mm512_dpbusd_epi32(c##r##1, x, w1); \
		c##r##2 = _mm512_dpbusd_epi32(c##r##2, x, w2); \
		c##r##3 = _mm512_dpbusd_epi32(c##r##3, x, w3); \
	}
#define OUT(r)          \
	if ((r) < rows) \
		mm_store(t, m + (r), n0, w, c##r##0, c##r##1, c##r##2, c##r##3);

static inline __attribute__((always_inline)) void mm_store16(const struct fw_matmul_i8 *t, uint32_t m, uint32_t n,
							     const uint8_t *sums, __m512 as, __m512i acc)
{
	__mmask16 live = t->n - n < 16 ? (1u << (t->n - n)) - 1 : 0xffff;
	__m512 y;

	acc = _mm512_sub_epi32(acc, _mm512_slli_epi32(_mm512_loadu_si512(sums), 7));
	y = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), _mm512_mul_ps(as, _mm512_loadu_ps(sums + 256)));
	if (t->bias)
		y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(live, t->bias + n));
	_mm512_mask_storeu_ps(t->c + m * t->ldc + n, live, y);
}

/* @sums: what follows the panel's weights. */
static inline __attribute__((always_inline)) void mm_store(const struct fw_matmul_i8 *t, uint32_t m, uint32_t n0,
							   const uint8_t *sums, __m512i c0, __m512i c1, __m512i c2,
							   __m512i c3)
{
	__m512 as = _mm512_set1_ps(t->a_scale[m]);

	mm_store16(t, m, n0, sums, as, c0);
	if (t->n - n0 > 16)
		mm_store16(t, m, n0 + 16, sums + 64, as, c1);
	if (t->n - n0 > 32)
		mm_store16(t, m, n0 + 32, sums + 128, as, c2);
	if (t->n - n0 > 48)
		mm_store16(t, m, n0 + 48, sums + 192, as, c3);
}

/* Rows m..m + rows - 1, flipped at @a, against the panel @w of the channels from n0. */
static inline __attribute__((always_inline)) void mm_rows(const int rows, const struct fw_matmul_i8 *t, uint32_t m,
							  uint32_t n0, const uint8_t *a, size_t lda, const uint8_t *w)
{
	uint32_t kb = (t->k + 3) / 4, b;
	__m512i w0, w1, w2, w3;

	EACH_ROW(DECLARE)
	for (b = 0; b < kb; b++, w += 256) {
		w0 = _mm512_loadu_si512(w);
		w1 = _mm512_loadu_si512(w + 64);
		w2 = _mm512_loadu_si512(w + 128);
		w3 = _mm512_loadu_si512(w + 192);
		EACH_ROW(STEP)
	}
	EACH_ROW(OUT)
}

static void mm_block(int rows, const struct fw_matmul_i8 *t, uint32_t m, uint32_t n0, const uint8_t *a, size_t lda,
		     const uint8_t *w)
{
	switch (rows) {
	case 1:
		mm_rows(1, t, m, n0, a, lda, w);
		break;
	case 2:
		mm_rows(2, t, m, n0, a, lda, w);
		break;
	case 3:
		mm_rows(3, t, m, n0, a, lda, w);
		break;
	case 4:
		mm_rows(4, t, m, n0, a, lda, w);
		break;
	case 5:
		mm_rows(5, t, m, n0, a, lda, w);
		break;
	default:
		mm_rows(6, t, m, n0, a, lda, w);
	}
}

/* How far ahead the weights of a single row are fetched: two pages of them are under way at any time. */
#define PREFETCH_BYTES 4096

static void mm_gemv(const struct fw_matmul_i8 *t)
{
	uint32_t kb = (t->k + 3) / 4, n0, b;
	__m512i c0, c1, c2, c3, x;
	const uint8_t *w = t->w;
	int32_t four;

	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		c0 = c1 = c2 = c3 = _mm512_setzero_si512();
		for (b = 0; b < kb; b++, w += 256) {
			__builtin_memcpy(&four, t->a + 4 * b, 4);
			x = _mm512_set1_epi32(four ^ FLIP);
			_mm_prefetch(w + PREFETCH_BYTES, _MM_HINT_T0);
			_mm_prefetch(w + PREFETCH_BYTES + 64, _MM_HINT_T0);
			_mm_prefetch(w + PREFETCH_BYTES + 128, _MM_HINT_T0);
			_mm_prefetch(w + PREFETCH_BYTES + 192, _MM_HINT_T0);
			c0 = _mm512_dpbusd_epi32(c0, x, _mm512_loadu_si512(w));
			c1 = _mm512_dpbusd_epi32(c1, x, _mm512_loadu_si512(w + 64));
			c2 = _mm512_dpbusd_epi32(c2, x, _mm512_loadu_si512(w + 128));
			c3 = _mm512_dpbusd_epi32(c3, x, _mm512_loadu_si512(w + 192));
		}
		mm_store(t, 0, n0, w, c0, c1, c2, c3);
		w += 512;
	}
}

/* Copies @rows rows with their top bits flipped, each to a multiple of 64 bytes. */
static void mm_flip(uint8_t *dst, size_t ldd, const int8_t *src, size_t lds, uint32_t rows, uint32_t bytes)
{
	__m512i flip = _mm512_set1_epi8((char)0x80);
	uint32_t r, i;
	__mmask64 m;

	for (r = 0; r < rows; r++, dst += ldd, src += lds) {
		for (i = 0; i < bytes; i += 64) {
			m = bytes - i < 64 ? (1ull << (bytes - i)) - 1 : ~0ull;
			_mm512_store_si512(dst + i, _mm512_xor_si512(flip, _mm512_maskz_loadu_epi8(m, src + i)));
		}
	}
}

static void kernel_matmul_i8(const struct fw_matmul_i8 *t, void *scratch)
{
	uint32_t bytes = (t->k + 3) / 4 * 4, m0, m, n0, group, fit, rows;
	/* An odd number of cache lines apart, so that the rows of a tile do not share a cache set. */
	size_t ld = ((bytes + 63) / 64 | 1) * 64;
	const uint8_t *panel;

	if (t->m == 1) {
		mm_gemv(t);
		return;
	}
	fit = FW_SCRATCH_BYTES / ld / MM_ROWS * MM_ROWS;
	for (m0 = 0; m0 < t->m; m0 += group) {
		group = t->m - m0 < fit ? t->m - m0 : fit;
		mm_flip(scratch, ld, t->a + m0 * t->lda, t->lda, group, bytes);
		panel = t->w;
		for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N, panel += VNPU_PANEL_I8_BYTES(t->k))
			for (m = 0; m < group; m += rows) {
				rows = group - m < MM_ROWS ? group - m : MM_ROWS;
				mm_block(rows, t, m0 + m, n0, (uint8_t *)scratch + m * ld, ld, panel);
			}
	}
}

#define FW_KERNELS_NAME fw_kernels_avx512
#define FW_KERNELS_LABEL "avx512-vnni"
#include "kernels_float.h"
#endif
