// SPDX-License-Identifier: MIT
/*
 * 4-bit weights and float activations with AVX-512: K blocks of 128 k of a panel are unpacked to
 * floats in scratch and multiplied with all rows, six at a time, in fused multiply-adds. For a
 * single row, weights are unpacked in registers.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels_avx512.h"
#include "kernels_w4_avx512.h"

#define W4F_ROWS 6

/* Exactly one instruction, as in kernels_w4_avx512.c. */
#define FMA(sum, w, x) __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x))

#define EACH_ROW(f) f(0) f(1) f(2) f(3) f(4) f(5)

/* Shift of k i in 32 bits with 8 k. */
#define SHIFT(i) ((i) % 4 * 8 + (i) / 4 * 4)

/* The number in the lowest four bits of each lane times its scale, exact. */
static inline __attribute__((always_inline)) __m512 w4f_weight(__m512i x, __m512 scale)
{
	const __m512 numbers =
		_mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);

	return _mm512_mul_ps(_mm512_permutexvar_ps(x, numbers), scale);
}

static void w4f_unpack(struct w4_scratch *s, const uint8_t *w, uint32_t k, uint32_t group)
{
	float(*f)[VNPU_PANEL_N] = s->w.f;
	uint32_t k0, b, i, j;
	__m512 scale;
	__m512i x;

	for (k0 = 0; k0 < k; k0 += group, w += w4_group_bytes(group), f += group) {
		for (i = 0; i < VNPU_PANEL_N; i += 16) {
			scale = w4_scale(w, group, i);
			for (b = 0; b < group; b += 8) {
				x = _mm512_loadu_si512(w + b * 32 + i * 4);
#pragma GCC unroll 8
				for (j = 0; j < 8; j++)
					_mm512_storeu_ps(
						f[b + j] + i,
						w4f_weight(_mm512_srli_epi32(x, SHIFT(j)), scale));
			}
		}
	}
}

#define STEP(r)                                        \
	if ((r) < rows) {                              \
		__m512 x = _mm512_set1_ps(a[(r)*lda]); \
		FMA(c##r##0, w0, x);                   \
		FMA(c##r##1, w1, x);                   \
		FMA(c##r##2, w2, x);                   \
		FMA(c##r##3, w3, x);                   \
	}
#define DECLARE(r)                                                                               \
	__m512 c##r##0, c##r##1, c##r##2, c##r##3;                                               \
	if ((r) < rows) {                                                                        \
		c##r##0 = start ? _mm512_setzero_ps() : _mm512_loadu_ps(sum + (r)*VNPU_PANEL_N); \
		c##r##1 = start ? _mm512_setzero_ps()                                            \
				: _mm512_loadu_ps(sum + (r)*VNPU_PANEL_N + 16);                  \
		c##r##2 = start ? _mm512_setzero_ps()                                            \
				: _mm512_loadu_ps(sum + (r)*VNPU_PANEL_N + 32);                  \
		c##r##3 = start ? _mm512_setzero_ps()                                            \
				: _mm512_loadu_ps(sum + (r)*VNPU_PANEL_N + 48);                  \
	}
#define OUT(r)                                                          \
	if ((r) < rows) {                                               \
		_mm512_storeu_ps(sum + (r)*VNPU_PANEL_N, c##r##0);      \
		_mm512_storeu_ps(sum + (r)*VNPU_PANEL_N + 16, c##r##1); \
		_mm512_storeu_ps(sum + (r)*VNPU_PANEL_N + 32, c##r##2); \
		_mm512_storeu_ps(sum + (r)*VNPU_PANEL_N + 48, c##r##3); \
	}

static inline __attribute__((always_inline)) void w4f_rows(const int rows,
							   const struct w4_scratch *s,
							   const float *a, size_t lda, uint32_t k,
							   bool start, float *sum)
{
	const float *w = s->w.f[0], *end = w + k * VNPU_PANEL_N;
	__m512 w0, w1, w2, w3;

	EACH_ROW(DECLARE)
	for (; w != end; w += VNPU_PANEL_N, a++) {
		w0 = _mm512_loadu_ps(w);
		w1 = _mm512_loadu_ps(w + 16);
		w2 = _mm512_loadu_ps(w + 32);
		w3 = _mm512_loadu_ps(w + 48);
		EACH_ROW(STEP)
	}
	EACH_ROW(OUT)
}

static void w4f_block(uint32_t rows, const struct w4_scratch *s, const float *a, size_t lda,
		      uint32_t k, bool start, float *sum)
{
	switch (rows) {
	case 1:
		w4f_rows(1, s, a, lda, k, start, sum);
		break;
	case 2:
		w4f_rows(2, s, a, lda, k, start, sum);
		break;
	case 3:
		w4f_rows(3, s, a, lda, k, start, sum);
		break;
	case 4:
		w4f_rows(4, s, a, lda, k, start, sum);
		break;
	case 5:
		w4f_rows(5, s, a, lda, k, start, sum);
		break;
	default:
		w4f_rows(6, s, a, lda, k, start, sum);
	}
}

static inline __attribute__((always_inline)) void
w4f_gemv(const int streams, const struct fw_matmul_w4 *t, struct w4_scratch *s)
{
	const uint8_t *w = t->w;
	uint32_t n0, k0, b, i, j;
	__m512 c[4], scale[4], y;
	const float *a;
	__m512i x[4];

	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		for (i = 0; i < 4; i++)
			c[i] = _mm512_setzero_ps();
		a = t->a;
		for (k0 = 0; k0 < t->k; k0 += t->group, w += VNPU_PANEL_N * 2) {
			for (i = 0; i < 4; i++)
				scale[i] = w4_scale(w, t->group, i * 16);
			for (b = 0; b < t->group; b += 8, a += 8, w += 256) {
#pragma GCC unroll 4
				for (i = 0; i < 4; i++) {
					stream_ahead(w + i * 64, streams);
					x[i] = _mm512_loadu_si512(w + i * 64);
				}
#pragma GCC unroll 8
				for (j = 0; j < 8; j++) {
					y = _mm512_set1_ps(a[j]);
#pragma GCC unroll 4
					for (i = 0; i < 4; i++)
						FMA(c[i],
						    w4f_weight(_mm512_srli_epi32(x[i], SHIFT(j)),
							       scale[i]),
						    y);
				}
			}
		}
		for (i = 0; i < 4; i++)
			_mm512_storeu_ps(s->sum[0] + i * 16, c[i]);
		w4_store(t, 0, 1, n0, s->sum[0]);
	}
}

void fw_matmul_w4f_avx512(const struct fw_matmul_w4 *t, void *scratch)
{
	uint32_t m0, n0, k0, m, i, rows, now, k_block, blocks, lines;
	struct w4_scratch *s = scratch;
	const float *a = t->a;
	const uint8_t *w;
	size_t bytes;

	if (t->m == 1) {
		if (stream_direct())
			w4f_gemv(STREAM_DIRECT, t, s);
		else
			w4f_gemv(1, t, s);
		return;
	}
	for (m0 = 0; m0 < t->m; m0 += rows, a += rows * t->lda) {
		rows = t->m - m0 < W4_MAX_ROWS ? t->m - m0 : W4_MAX_ROWS;
		blocks = (rows + W4F_ROWS - 1) / W4F_ROWS;
		w = t->w;
		for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
			for (k0 = 0; k0 < t->k; k0 += k_block, w += bytes) {
				k_block = t->k - k0 < W4F_K_BLOCK ? t->k - k0 : W4F_K_BLOCK;
				bytes = VNPU_PANEL_W4_BYTES(k_block, t->group);
				lines = fetch_portion(bytes, blocks);
				w4f_unpack(s, w, k_block, t->group);
				for (m = i = 0; m < rows; m += now, i++) {
					now = rows - m < W4F_ROWS ? rows - m : W4F_ROWS;
					fetch_lines(w + bytes + i * lines * 64, lines);
					w4f_block(now, s, a + m * t->lda + k0, t->lda, k_block, !k0,
						  s->sum[m]);
				}
			}
			w4_store(t, m0, rows, n0, s->sum[0]);
		}
	}
}
#endif
