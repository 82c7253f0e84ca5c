// SPDX-License-Identifier: MIT
/*
 * 4-bit weights with AVX-512 VNNI. The numbers 0..15 are vpdpbusd's unsigned side and the activations the signed one; the sums
 * of a group begin at -8 times the sum of its activations, which is worked out once per row.
 *
 * A panel's piece of 512 k is unpacked into scratch, where it fits the first-level cache, and all rows pass by it, three at a
 * time: 12 sums of a group, 12 of the row, 4 weights, 1 activation. A group of 32 has 96 multiplications in such a tile, and 36
 * operations more to convert, scale and add its sums, on the same two ports: so three quarters of the peak are the most
 * that this can reach. A single row unpacks on the way.
 *
 * With float activations a piece is 128 k, unpacked to floats, and the tile 6 rows of fused multiply-adds.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels_avx512.h"
#include "kernels_w4_avx512.h"

#define W4_ROWS 3
#define W4F_ROWS 6

/* One instruction and no more: as an intrinsic, GCC 12 copies sums to and fro and runs out of registers. */
#define DOT(sum, w, x) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x))
#define FMA(sum, w, x) __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x))

#define EACH_ROW(f) f(0) f(1) f(2) f(3) f(4) f(5)
#define EACH_ROW3(f) f(0) f(1) f(2)

/* first[g] = -8 times the sum of group g of the row. */
static void w4_first(int32_t *first, const int8_t *a, uint32_t k, uint32_t group)
{
	const __m256i ones = _mm256_set1_epi8(1);
	__m256i sum;
	__m128i t;
	uint32_t i, j;

	for (i = 0; i < k; i += group) {
		sum = _mm256_setzero_si256();
		for (j = 0; j < group; j += 32)
			sum = _mm256_dpbusd_epi32(sum, ones, _mm256_loadu_si256((const __m256i *)(a + i + j)));
		t = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
		t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
		t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1));
		*first++ = _mm_cvtsi128_si32(t) * -W4_ZERO;
	}
}

/* ---- INT8 activations ---------------------------------------------------------------------------------------------- */

/* A piece of a panel, @k of it. */
static void w4_unpack(struct w4_scratch *s, const uint8_t *w, uint32_t k, uint32_t group)
{
	const __m512i low = _mm512_set1_epi8(15);
	uint8_t *u = s->w.u[0][0];
	uint32_t k0, b, i, g = 0;
	__m512i x;

	for (k0 = 0; k0 < k; k0 += group, w += w4_group_bytes(group), g++) {
		for (b = 0; b < group / 8; b++, u += 512) {
			for (i = 0; i < 256; i += 64) {
				x = _mm512_loadu_si512(w + b * 256 + i);
				_mm512_store_si512(u + i, _mm512_and_si512(x, low));
				_mm512_store_si512(u + 256 + i, _mm512_and_si512(_mm512_srli_epi16(x, 4), low));
			}
		}
		for (i = 0; i < VNPU_PANEL_N; i += 16)
			_mm512_storeu_ps(s->scale[g] + i, w4_scale(w, group, i));
	}
}

#define DECLARE(r)                                                                                    \
	__m512i i##r##0, i##r##1, i##r##2, i##r##3;                                                   \
	__m512 c##r##0, c##r##1, c##r##2, c##r##3;                                                    \
	if ((r) < rows) {                                                                             \
		c##r##0 = start ? _mm512_setzero_ps() : _mm512_loadu_ps(sum + (r)*VNPU_PANEL_N);      \
		c##r##1 = start ? _mm512_setzero_ps() : _mm512_loadu_ps(sum + (r)*VNPU_PANEL_N + 16); \
		c##r##2 = start ? _mm512_setzero_ps() : _mm512_loadu_ps(sum + (r)*VNPU_PANEL_N + 32); \
		c##r##3 = start ? _mm512_setzero_ps() : _mm512_loadu_ps(sum + (r)*VNPU_PANEL_N + 48); \
	}
#define FIRST(r)        \
	if ((r) < rows) \
		i##r##0 = i##r##1 = i##r##2 = i##r##3 = _mm512_set1_epi32(first[(r)*first_ld]);
/* Held in a register: GCC would rather load a weight again for each row, and loads are few. */
#define HOLD(x) __asm__("" : "+v"(x))
#define LOAD(r)                                          \
	__m512i x##r = _mm512_setzero_si512();           \
	if ((r) < rows) {                                \
		int32_t four;                            \
		__builtin_memcpy(&four, a + (r)*lda, 4); \
		x##r = _mm512_set1_epi32(four);          \
		HOLD(x##r);                              \
	}
#define COLUMN(v)                                          \
	do {                                               \
		__m512i u = _mm512_load_si512(w + (v)*64); \
		HOLD(u);                                   \
		if (0 < rows)                              \
			DOT(i0##v, u, x0);                 \
		if (1 < rows)                              \
			DOT(i1##v, u, x1);                 \
		if (2 < rows)                              \
			DOT(i2##v, u, x2);                 \
	} while (0)
#define SCALE1(c, i, s) c = _mm512_add_ps(c, _mm512_mul_ps(_mm512_cvtepi32_ps(i), _mm512_loadu_ps(s)))
#define SCALE(r)                                      \
	if ((r) < rows) {                             \
		SCALE1(c##r##0, i##r##0, scale);      \
		SCALE1(c##r##1, i##r##1, scale + 16); \
		SCALE1(c##r##2, i##r##2, scale + 32); \
		SCALE1(c##r##3, i##r##3, scale + 48); \
	}
#define OUT(r)                                                          \
	if ((r) < rows) {                                               \
		_mm512_storeu_ps(sum + (r)*VNPU_PANEL_N, c##r##0);      \
		_mm512_storeu_ps(sum + (r)*VNPU_PANEL_N + 16, c##r##1); \
		_mm512_storeu_ps(sum + (r)*VNPU_PANEL_N + 32, c##r##2); \
		_mm512_storeu_ps(sum + (r)*VNPU_PANEL_N + 48, c##r##3); \
	}

/* sum[rows][64] (0 if @start) += a[rows][lda] x the unpacked piece of @groups groups. */
static inline __attribute__((always_inline)) void w4_rows(const int rows, const struct w4_scratch *s, const int8_t *a,
							  size_t lda, uint32_t groups, uint32_t group,
							  const int32_t *first, size_t first_ld, bool start, float *sum)
{
	const uint8_t *w = s->w.u[0][0], *end = w;
	const float *scale = s->scale[0];

	EACH_ROW3(DECLARE)
	for (; groups; groups--, first++, scale += VNPU_PANEL_N) {
		EACH_ROW3(FIRST)
		for (end += group * VNPU_PANEL_N; w != end; w += 256, a += 4) {
			EACH_ROW3(LOAD)
			COLUMN(0);
			COLUMN(1);
			COLUMN(2);
			COLUMN(3);
		}
		EACH_ROW3(SCALE)
	}
	EACH_ROW3(OUT)
}

static void w4_block(uint32_t rows, const struct w4_scratch *s, const int8_t *a, size_t lda, uint32_t groups,
		     uint32_t group, const int32_t *first, size_t first_ld, bool start, float *sum)
{
	switch (rows) {
	case 1:
		w4_rows(1, s, a, lda, groups, group, first, first_ld, start, sum);
		break;
	case 2:
		w4_rows(2, s, a, lda, groups, group, first, first_ld, start, sum);
		break;
	default:
		w4_rows(3, s, a, lda, groups, group, first, first_ld, start, sum);
	}
}

static void w4_gemv(const struct fw_matmul_w4 *t, struct w4_scratch *s)
{
	const __m512i low = _mm512_set1_epi8(15);
	const uint8_t *w = t->w;
	uint32_t n0, k0, b, g, i;
	const int8_t *a;
	__m512i sum[4], x, even, odd;
	__m512 c[4];
	int32_t four;

	w4_first(s->first, t->a, t->k, t->group);
	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		for (i = 0; i < 4; i++)
			c[i] = _mm512_setzero_ps();
		a = t->a;
		for (k0 = g = 0; k0 < t->k; k0 += t->group, g++) {
			for (i = 0; i < 4; i++)
				sum[i] = _mm512_set1_epi32(s->first[g]);
			for (b = 0; b < t->group; b += 8, a += 8, w += 256) {
				__builtin_memcpy(&four, a, 4);
				even = _mm512_set1_epi32(four);
				__builtin_memcpy(&four, a + 4, 4);
				odd = _mm512_set1_epi32(four);
#pragma GCC unroll 4
				for (i = 0; i < 4; i++) {
					stream_ahead(w + i * 64);
					x = _mm512_loadu_si512(w + i * 64);
					DOT(sum[i], _mm512_and_si512(x, low), even);
					DOT(sum[i], _mm512_and_si512(_mm512_srli_epi16(x, 4), low), odd);
				}
			}
			stream_ahead(w);
			stream_ahead(w + 64);
			w -= t->group * 32;
#pragma GCC unroll 4
			for (i = 0; i < 4; i++)
				c[i] = _mm512_add_ps(
					c[i], _mm512_mul_ps(_mm512_cvtepi32_ps(sum[i]), w4_scale(w, t->group, i * 16)));
			w += w4_group_bytes(t->group);
		}
		for (i = 0; i < 4; i++)
			_mm512_storeu_ps(s->sum[0] + i * 16, c[i]);
		w4_store(t, 0, 1, n0, s->sum[0]);
	}
}

/* Rows m0.., @rows of them. */
static void w4_group(const struct fw_matmul_w4 *t, uint32_t m0, uint32_t rows, struct w4_scratch *s)
{
	uint32_t groups = t->k / t->group, blocks = (rows + W4_ROWS - 1) / W4_ROWS, n0, k0, m, now, piece, i;
	const int8_t *a = (const int8_t *)t->a + m0 * t->lda;
	const uint8_t *w = t->w;
	size_t bytes;

	for (m = 0; m < rows; m++)
		w4_first(s->first + m * groups, a + m * t->lda, t->k, t->group);
	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		for (k0 = 0; k0 < t->k; k0 += piece, w += bytes) {
			piece = t->k - k0 < W4_PIECE ? t->k - k0 : W4_PIECE;
			bytes = VNPU_PANEL_W4_BYTES(piece, t->group);
			w4_unpack(s, w, piece, t->group);
			for (m = i = 0; m < rows; m += now, i++) {
				now = rows - m < W4_ROWS ? rows - m : W4_ROWS;
				w4_fetch(w + bytes, bytes, i, blocks);
				w4_block(now, s, a + m * t->lda + k0, t->lda, piece / t->group, t->group,
					 s->first + m * groups + k0 / t->group, groups, !k0, s->sum[m]);
			}
		}
		w4_store(t, m0, rows, n0, s->sum[0]);
	}
}

void fw_matmul_w4_avx512(const struct fw_matmul_w4 *t, void *scratch)
{
	uint32_t fit = (FW_SCRATCH_BYTES - sizeof(struct w4_scratch)) / (t->k / t->group * 4), m0, rows;

	if (t->m == 1) {
		w4_gemv(t, scratch);
		return;
	}
	if (fit > W4_MAX_ROWS)
		fit = W4_MAX_ROWS;
	for (m0 = 0; m0 < t->m; m0 += rows) {
		rows = t->m - m0 < fit ? t->m - m0 : fit;
		w4_group(t, m0, rows, scratch);
	}
}

/* ---- float activations --------------------------------------------------------------------------------------------- */

/* Of 8 k in 32 bits, which bits k i is at. */
#define SHIFT(i) ((i) % 4 * 8 + (i) / 4 * 4)

/* The number in the lowest four bits of each lane, times its scale: exact. */
static inline __attribute__((always_inline)) __m512 w4f_weight(__m512i x, __m512 scale)
{
	const __m512 numbers = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);

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
					_mm512_storeu_ps(f[b + j] + i,
							 w4f_weight(_mm512_srli_epi32(x, SHIFT(j)), scale));
			}
		}
	}
}

#define STEPF(r)                                       \
	if ((r) < rows) {                              \
		__m512 x = _mm512_set1_ps(a[(r)*lda]); \
		FMA(c##r##0, w0, x);                   \
		FMA(c##r##1, w1, x);                   \
		FMA(c##r##2, w2, x);                   \
		FMA(c##r##3, w3, x);                   \
	}
#define DECLAREF(r)                                                                                   \
	__m512 c##r##0, c##r##1, c##r##2, c##r##3;                                                    \
	if ((r) < rows) {                                                                             \
		c##r##0 = start ? _mm512_setzero_ps() : _mm512_loadu_ps(sum + (r)*VNPU_PANEL_N);      \
		c##r##1 = start ? _mm512_setzero_ps() : _mm512_loadu_ps(sum + (r)*VNPU_PANEL_N + 16); \
		c##r##2 = start ? _mm512_setzero_ps() : _mm512_loadu_ps(sum + (r)*VNPU_PANEL_N + 32); \
		c##r##3 = start ? _mm512_setzero_ps() : _mm512_loadu_ps(sum + (r)*VNPU_PANEL_N + 48); \
	}

static inline __attribute__((always_inline)) void w4f_rows(const int rows, const struct w4_scratch *s, const float *a,
							   size_t lda, uint32_t k, bool start, float *sum)
{
	const float *w = s->w.f[0], *end = w + k * VNPU_PANEL_N;
	__m512 w0, w1, w2, w3;

	EACH_ROW(DECLAREF)
	for (; w != end; w += VNPU_PANEL_N, a++) {
		w0 = _mm512_loadu_ps(w);
		w1 = _mm512_loadu_ps(w + 16);
		w2 = _mm512_loadu_ps(w + 32);
		w3 = _mm512_loadu_ps(w + 48);
		EACH_ROW(STEPF)
	}
	EACH_ROW(OUT)
}

static void w4f_block(uint32_t rows, const struct w4_scratch *s, const float *a, size_t lda, uint32_t k, bool start,
		      float *sum)
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

static void w4f_gemv(const struct fw_matmul_w4 *t, struct w4_scratch *s)
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
					stream_ahead(w + i * 64);
					x[i] = _mm512_loadu_si512(w + i * 64);
				}
#pragma GCC unroll 8
				for (j = 0; j < 8; j++) {
					y = _mm512_set1_ps(a[j]);
#pragma GCC unroll 4
					for (i = 0; i < 4; i++)
						FMA(c[i], w4f_weight(_mm512_srli_epi32(x[i], SHIFT(j)), scale[i]), y);
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
	uint32_t m0, n0, k0, m, i, rows, now, piece, blocks;
	struct w4_scratch *s = scratch;
	const float *a = t->a;
	const uint8_t *w;
	size_t bytes;

	if (t->m == 1) {
		w4f_gemv(t, s);
		return;
	}
	for (m0 = 0; m0 < t->m; m0 += rows, a += rows * t->lda) {
		rows = t->m - m0 < W4_MAX_ROWS ? t->m - m0 : W4_MAX_ROWS;
		blocks = (rows + W4F_ROWS - 1) / W4F_ROWS;
		w = t->w;
		for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
			for (k0 = 0; k0 < t->k; k0 += piece, w += bytes) {
				piece = t->k - k0 < W4F_PIECE ? t->k - k0 : W4F_PIECE;
				bytes = VNPU_PANEL_W4_BYTES(piece, t->group);
				w4f_unpack(s, w, piece, t->group);
				for (m = i = 0; m < rows; m += now, i++) {
					now = rows - m < W4F_ROWS ? rows - m : W4F_ROWS;
					w4_fetch(w + bytes, bytes, i, blocks);
					w4f_block(now, s, a + m * t->lda + k0, t->lda, piece, !k0, s->sum[m]);
				}
			}
			w4_store(t, m0, rows, n0, s->sum[0]);
		}
	}
}
#endif
