// SPDX-License-Identifier: MIT
/*
 * 4-bit weights and INT8 activations with AVX-512 VNNI.
 *
 * K is divided into K blocks of 512. For each K block, the rows are copied into scratch, at
 * distances known to the compiler, with inverted top bits, which makes them unsigned. Then each
 * panel's part is unpacked to signed numbers u - 8, one half of its channels at a time to fit into
 * L1, together with the start values of a group's sums, -128 times the sum of its weights. All rows
 * are multiplied with a half, six at a time: 12 registers of a group's sums, 12 of the row's, 2 of
 * weights, 1 of activations. In such a tile a group of 32 has 96 multiplications, and 12 more
 * multiply-adds to scale and add its sums. Where these use the same two ports, at most eight ninths
 * of the peak can be reached, and four fifths where the 12 conversions use them too. The next
 * panel's part and the rows' next K block are prefetched meanwhile.
 *
 * For few rows a group is unpacked in registers, once for four rows, so that memory accesses and
 * arithmetic overlap. There the numbers 0..15 are vpdpbusd's unsigned operand and the activations
 * the signed one; sums start at -8 times the sum of the activations.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels_avx512.h"
#include "kernels_w4_avx512.h"

#define W4_ROWS 6
/* Most rows for which weights are unpacked in registers, and rows per step of that. */
#define W4_FEW 32
#define W4_STREAM_ROWS 4
/* Tiles of rows that are multiplied with a K block, and panels whose sums are kept. */
#define W4_TILES 22
#define W4_PANELS 8
#define W4_HALF (VNPU_PANEL_N / 2)
/* Distance of rows of a K block: an odd number of cache lines. */
#define W4_LD (W4_K_BLOCK + 64)
struct w4_i8_scratch {
	uint8_t u[W4_K_BLOCK / 4][W4_HALF][4];
	int32_t first[W4_K_BLOCK / 32][W4_HALF];
	float scale[W4_K_BLOCK / 32][W4_HALF];
	float sum[W4_PANELS][W4_TILES * W4_ROWS][VNPU_PANEL_N];
	uint8_t a[W4_TILES * W4_ROWS][W4_LD];
};

_Static_assert(sizeof(struct w4_i8_scratch) <= FW_SCRATCH_BYTES, "a K block of all tiles fits");
_Static_assert(VNPU_MAX_K_I8 / 32 * W4_FEW * sizeof(int32_t) <= FW_SCRATCH_BYTES,
	       "few rows of the largest K fit");

/* Exactly one instruction: with an intrinsic, GCC 12 moves sums around and spills them. */
#define DOT(sum, u, s) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(u), "v"(s))

#define EACH_ROW(f) f(0) f(1) f(2) f(3) f(4) f(5)

/* -8 times the sum of a group's activations. */
static int32_t w4_first(const int8_t *a, uint32_t group)
{
	const __m256i ones = _mm256_set1_epi8(1);
	__m256i sum = _mm256_setzero_si256();
	__m128i t;
	uint32_t i;

	for (i = 0; i < group; i += 32)
		sum = _mm256_dpbusd_epi32(sum, ones, _mm256_loadu_si256((const __m256i *)(a + i)));
	t = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
	t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
	t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1));
	return _mm_cvtsi128_si32(t) * -W4_ZERO;
}

/* Copies @k of @rows rows from @a on, with inverted top bits. */
static void w4_copy(struct w4_i8_scratch *s, const int8_t *a, size_t lda, uint32_t rows, uint32_t k)
{
	const __m256i top_bits = _mm256_set1_epi8((char)0x80);
	uint32_t r, i;
	__m256i x;

	for (r = 0; r < rows; r++, a += lda) {
		for (i = 0; i < k; i += 32) {
			/* The rows' parts are too short for the hardware prefetcher. */
			_mm_prefetch(a + 8 * lda + i, _MM_HINT_T0);
			x = _mm256_loadu_si256((const __m256i *)(a + i));
			_mm256_storeu_si256((__m256i *)(s->a[r] + i),
					    _mm256_xor_si256(x, top_bits));
		}
	}
}

/* Unpacks half of a panel's part of a K block, @k long. */
static void w4_unpack(struct w4_i8_scratch *s, const uint8_t *w, uint32_t half, uint32_t k,
		      uint32_t group)
{
	const __m512i low = _mm512_set1_epi8(15), zero = _mm512_set1_epi8(W4_ZERO);
	const __m512i biased_zero = _mm512_set1_epi8((char)0x80);
	uint32_t k0, b, i, g = 0;
	uint8_t *u = s->u[0][0];
	__m512i even, odd, sum[2];
	const uint8_t *src;

	for (k0 = 0; k0 < k; k0 += group, w += w4_group_bytes(group), g++) {
		src = w + half * 4 * W4_HALF;
		sum[0] = sum[1] = _mm512_setzero_si512();
		for (b = 0; b < group / 8; b++, src += 256, u += 8 * W4_HALF) {
#pragma GCC unroll 2
			for (i = 0; i < 2; i++) {
				odd = _mm512_loadu_si512(src + i * 64);
				even = _mm512_sub_epi8(_mm512_and_si512(odd, low), zero);
				odd = _mm512_sub_epi8(
					_mm512_and_si512(_mm512_srli_epi16(odd, 4), low), zero);
				_mm512_store_si512(u + i * 64, even);
				_mm512_store_si512(u + 4 * W4_HALF + i * 64, odd);
				DOT(sum[i], biased_zero, even);
				DOT(sum[i], biased_zero, odd);
			}
		}
#pragma GCC unroll 2
		for (i = 0; i < 2; i++) {
			_mm512_store_si512(s->first[g] + i * 16,
					   _mm512_sub_epi32(_mm512_setzero_si512(), sum[i]));
			_mm512_store_ps(s->scale[g] + i * 16,
					w4_scale(w, group, half * W4_HALF + i * 16));
		}
	}
}

#define DECLARE(r)                                                                                 \
	__m512i i##r##0, i##r##1;                                                                  \
	__m512 c##r##0, c##r##1;                                                                   \
	if ((r) < rows) {                                                                          \
		c##r##0 = start ? _mm512_setzero_ps() : _mm512_load_ps(sum + (r)*VNPU_PANEL_N);    \
		c##r##1 =                                                                          \
			start ? _mm512_setzero_ps() : _mm512_load_ps(sum + (r)*VNPU_PANEL_N + 16); \
	}
#define FIRST(r)              \
	if ((r) < rows) {     \
		i##r##0 = w0; \
		i##r##1 = w1; \
	}
#define STEP(r)                                            \
	if ((r) < rows) {                                  \
		int32_t four;                              \
		__builtin_memcpy(&four, a + (r)*W4_LD, 4); \
		__m512i x = _mm512_set1_epi32(four);       \
		DOT(i##r##0, x, w0);                       \
		DOT(i##r##1, x, w1);                       \
	}
#define SCALE(r)                                                                     \
	if ((r) < rows) {                                                            \
		c##r##0 = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i##r##0), s0, c##r##0); \
		c##r##1 = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i##r##1), s1, c##r##1); \
	}
#define OUT(r)                                                         \
	if ((r) < rows) {                                              \
		_mm512_store_ps(sum + (r)*VNPU_PANEL_N, c##r##0);      \
		_mm512_store_ps(sum + (r)*VNPU_PANEL_N + 16, c##r##1); \
	}

#define RESULT(r)                                                                \
	if ((r) < rows) {                                                        \
		s0 = _mm512_set1_ps(out->a_scale[r]);                            \
		y0 = _mm512_mul_ps(c##r##0, s0);                                 \
		y1 = _mm512_mul_ps(c##r##1, s0);                                 \
		if (out->bias) {                                                 \
			y0 = _mm512_add_ps(y0, _mm512_loadu_ps(out->bias));      \
			y1 = _mm512_add_ps(y1, _mm512_loadu_ps(out->bias + 16)); \
		}                                                                \
		_mm512_storeu_ps(out->c + (r)*out->ldc, y0);                     \
		_mm512_storeu_ps(out->c + (r)*out->ldc + 16, y1);                \
	}

/* Where the results of half a tile go. */
struct w4_out {
	float *c; /* [rows][ldc] */
	size_t ldc;
	const float *a_scale; /* [rows] */
	const float *bias; /* or NULL */
};

/* sum[rows][64], 32 channels of it (0 if @start) += a[rows][W4_LD] x half a panel's part: @groups
 * groups of @blocks times 32 k. With @out, results go there instead of sums. */
static inline __attribute__((always_inline)) void
w4_rows(const int rows, const uint8_t *a, const uint8_t *w, const float *scale, uint32_t groups,
	uint32_t blocks, const int32_t *first, bool start, float *sum, const struct w4_out *out)
{
	__m512i w0, w1;
	__m512 s0, s1, y0, y1;
	uint32_t b;
	int j;

	EACH_ROW(DECLARE)
	for (; groups; groups--, first += W4_HALF, scale += W4_HALF) {
		w0 = _mm512_load_si512(first);
		w1 = _mm512_load_si512(first + 16);
		EACH_ROW(FIRST)
		for (b = blocks; b; b--) {
#pragma GCC unroll 8
			for (j = 0; j < 8; j++, w += 4 * W4_HALF, a += 4) {
				w0 = _mm512_load_si512(w);
				w1 = _mm512_load_si512(w + 64);
				EACH_ROW(STEP)
			}
		}
		s0 = _mm512_load_ps(scale);
		s1 = _mm512_load_ps(scale + 16);
		EACH_ROW(SCALE)
	}
	if (out) {
		EACH_ROW(RESULT)
	} else {
		EACH_ROW(OUT)
	}
}

#define CASE(n)                                                                      \
	case n:                                                                      \
		w4_rows(n, a, w, scale, groups, group / 32, first, start, sum, out); \
		break;

/* Multiplies the @rows rows of tile @tile with half @half of panel @panel. */
static void w4_block(struct w4_i8_scratch *s, uint32_t tile, uint32_t rows, uint32_t panel,
		     uint32_t half, uint32_t groups, uint32_t group, bool start,
		     const struct w4_out *out)
{
	float *sum = s->sum[panel][tile * W4_ROWS] + half * W4_HALF, *scale = s->scale[0];
	const uint8_t *a = s->a[tile * W4_ROWS], *w = s->u[0][0];
	const int32_t *first = s->first[0];

	switch (rows) {
		CASE(1)
		CASE(2)
		CASE(3)
		CASE(4)
		CASE(5)
		CASE(6)
	}
}

/*
 * For few rows, which are limited by memory bandwidth: unpacks weights in registers.
 * out[panels][rows][64] += a group of @panels panels, from @w on, x rows a[rows][lda], with sums
 * starting at first[rows]. @streams: panels read from memory, or STREAM_DIRECT; 0 if the group is
 * in cache.
 */
static inline __attribute__((always_inline)) void
w4_step(const int rows, const int panels, const int streams, const int8_t *a, size_t lda,
	const uint8_t *w, size_t panel_bytes, uint32_t group, const int32_t *first, float *out)
{
	__m512i sum[STREAMS][W4_STREAM_ROWS][4], even[W4_STREAM_ROWS], odd[W4_STREAM_ROWS], x, y;
	const __m512i low = _mm512_set1_epi8(15);
	const uint8_t *line;
	__m512 scale;
	int32_t four;
	float *c;
	uint32_t b;
	int p, r, i;

#pragma GCC unroll 4
	for (p = 0; p < panels; p++)
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			sum[p][r][0] = sum[p][r][1] = sum[p][r][2] = sum[p][r][3] =
				_mm512_set1_epi32(first[r]);
	for (b = 0; b < group; b += 8, a += 8, w += 256) {
#pragma GCC unroll 4
		for (r = 0; r < rows; r++) {
			__builtin_memcpy(&four, a + r * lda, 4);
			even[r] = _mm512_set1_epi32(four);
			__builtin_memcpy(&four, a + r * lda + 4, 4);
			odd[r] = _mm512_set1_epi32(four);
		}
#pragma GCC unroll 4
		for (p = 0; p < panels; p++) {
#pragma GCC unroll 4
			for (i = 0; i < 4; i++) {
				line = w + p * panel_bytes + i * 64;
				if (streams)
					stream_ahead(line, streams);
				x = _mm512_loadu_si512(line);
				y = _mm512_and_si512(_mm512_srli_epi16(x, 4), low);
				x = _mm512_and_si512(x, low);
#pragma GCC unroll 4
				for (r = 0; r < rows; r++) {
					DOT(sum[p][r][i], x, even[r]);
					DOT(sum[p][r][i], y, odd[r]);
				}
			}
		}
	}
#pragma GCC unroll 4
	for (p = 0; p < panels; p++) {
		line = w + p * panel_bytes;
		if (streams) {
			stream_ahead(line, streams);
			stream_ahead(line + 64, streams);
		}
#pragma GCC unroll 4
		for (i = 0; i < 4; i++, line += 32) {
			scale = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)line));
#pragma GCC unroll 4
			for (r = 0; r < rows; r++) {
				c = out + (p * rows + r) * VNPU_PANEL_N + i * 16;
				_mm512_store_ps(c, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[p][r][i]),
								   scale, _mm512_load_ps(c)));
			}
		}
	}
}

/* A single row times @panels panels from channel @n0 on. */
static inline __attribute__((always_inline)) void w4_stream(const int panels, const int streams,
							    const struct fw_matmul_w4 *t,
							    uint32_t n0, const int32_t *first)
{
	const size_t panel_bytes = VNPU_PANEL_W4_BYTES(t->k, t->group),
		     group_bytes = w4_group_bytes(t->group);
	const uint8_t *w = t->w + n0 / VNPU_PANEL_N * panel_bytes;
	_Alignas(64) float out[STREAMS][VNPU_PANEL_N];
	uint32_t k;
	int p;

	memset(out, 0, panels * sizeof(out[0]));
	for (k = 0; k < t->k; k += t->group, w += group_bytes, first++)
		w4_step(1, panels, streams, (const int8_t *)t->a + k, 0, w, panel_bytes, t->group,
			first, out[0]);
	for (p = 0; p < panels; p++)
		w4_store(t, 0, 1, n0 + p * VNPU_PANEL_N, out[p]);
}

static void w4_vector(const struct fw_matmul_w4 *t, const int32_t *first)
{
	uint32_t panels = (t->n + VNPU_PANEL_N - 1) / VNPU_PANEL_N, p;

	if (stream_direct()) {
		for (p = 0; p < panels; p++)
			w4_stream(1, STREAM_DIRECT, t, p * VNPU_PANEL_N, first);
		return;
	}
	for (p = 0; p < panels; p += STREAMS) {
		switch (panels - p) {
		case 1:
			w4_stream(1, 1, t, p * VNPU_PANEL_N, first);
			break;
		case 2:
			w4_stream(2, 2, t, p * VNPU_PANEL_N, first);
			break;
		case 3:
			w4_stream(3, 3, t, p * VNPU_PANEL_N, first);
			break;
		default:
			w4_stream(STREAMS, STREAMS, t, p * VNPU_PANEL_N, first);
		}
	}
}

#define STEP_CASE(rows)                                                                            \
	case rows:                                                                                 \
		if (m)                                                                             \
			w4_step(rows, 1, 0, a + m * t->lda, t->lda, w, 0, t->group, first + m,     \
				out[m]);                                                           \
		else if (direct)                                                                   \
			w4_step(rows, 1, STREAM_DIRECT, a, t->lda, w, 0, t->group, first, out[0]); \
		else                                                                               \
			w4_step(rows, 1, 1, a, t->lda, w, 0, t->group, first, out[0]);             \
		break;

/*
 * All rows times a panel, group by group: the first four rows read it from memory, the others from
 * cache. @first: [groups][m].
 */
static void w4_few_panel(const struct fw_matmul_w4 *t, uint32_t n0, const int32_t *first)
{
	const uint8_t *w = t->w + n0 / VNPU_PANEL_N * VNPU_PANEL_W4_BYTES(t->k, t->group);
	const size_t group_bytes = w4_group_bytes(t->group);
	_Alignas(64) float out[W4_FEW][VNPU_PANEL_N];
	const bool direct = stream_direct();
	const int8_t *a = t->a;
	uint32_t k, m;

	memset(out, 0, t->m * sizeof(out[0]));
	for (k = 0; k < t->k; k += t->group, a += t->group, w += group_bytes, first += t->m) {
		for (m = 0; m < t->m; m += W4_STREAM_ROWS) {
			switch (t->m - m) {
				STEP_CASE(1)
				STEP_CASE(2)
				STEP_CASE(3)
			default:
				STEP_CASE(4)
			}
		}
	}
	w4_store(t, 0, t->m, n0, out[0]);
}

static void w4_few(const struct fw_matmul_w4 *t, int32_t *first)
{
	uint32_t groups = t->k / t->group, n0, m, g;

	for (m = 0; m < t->m; m++)
		for (g = 0; g < groups; g++)
			first[g * t->m + m] = w4_first(
				(const int8_t *)t->a + m * t->lda + g * t->group, t->group);
	if (t->m == 1) {
		w4_vector(t, first);
		return;
	}
	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N)
		w4_few_panel(t, n0, first);
}

/* Rows m0.., @rows of them, and channels n0.., in @panels panels. */
static void w4_group(const struct fw_matmul_w4 *t, uint32_t m0, uint32_t rows, uint32_t n0,
		     uint32_t panels, struct w4_i8_scratch *s)
{
	uint32_t tiles = (rows + W4_ROWS - 1) / W4_ROWS, all = panels * 2 * tiles, due, groups,
		 half, k0, p, i, m, n, now, k_block;
	const size_t panel_bytes = VNPU_PANEL_W4_BYTES(t->k, t->group);
	const uint8_t *panel = t->w + n0 / VNPU_PANEL_N * panel_bytes, *w, *next, *ahead;
	const int8_t *a = (const int8_t *)t->a + m0 * t->lda, *row;
	uint32_t lines;
	size_t bytes;
	bool last, direct;
	struct w4_out out;

	for (k0 = 0; k0 < t->k; k0 += k_block) {
		k_block = t->k - k0 < W4_K_BLOCK ? t->k - k0 : W4_K_BLOCK;
		bytes = VNPU_PANEL_W4_BYTES(k_block, t->group);
		groups = k_block / t->group;
		lines = fetch_portion(bytes, 2 * tiles);
		last = k0 + k_block == t->k;
		/* The next panels start again at the first K block. */
		row = a + (last ? 0 : k0 + k_block);
		due = 0;
		w4_copy(s, a + k0, t->lda, rows, k_block);
		for (p = 0, w = panel + VNPU_PANEL_W4_BYTES(k0, t->group); p < panels;
		     p++, w = next) {
			if (p + 1 < panels)
				next = w + panel_bytes;
			else
				next = last ? panel + panels * panel_bytes
					    : panel + VNPU_PANEL_W4_BYTES(k0 + k_block, t->group);
			n = n0 + p * VNPU_PANEL_N;
			/* Results of a whole panel; those of a part of one go through memory. */
			direct = last && t->n - n >= VNPU_PANEL_N;
			ahead = next;
			for (half = 0; half < 2; half++) {
				w4_unpack(s, w, half, k_block, t->group);
				for (i = m = 0; i < tiles; i++, m += W4_ROWS, ahead += lines * 64) {
					now = rows - m < W4_ROWS ? rows - m : W4_ROWS;
					fetch_lines(ahead, lines);
					for (due += rows; due >= all; due -= all, row += t->lda)
						fetch_lines(row, (k_block + 63) / 64);
					out = (struct w4_out){
						.c = t->c + (m0 + m) * t->ldc + n + half * W4_HALF,
						.ldc = t->ldc,
						.a_scale = t->a_scale + m0 + m,
						.bias = t->bias ? t->bias + n + half * W4_HALF
								: NULL,
					};
					if (direct)
						fetch_results(out.c, t->ldc, now, W4_HALF);
					w4_block(s, i, now, p, half, groups, t->group, !k0,
						 direct ? &out : NULL);
					if (half && last && !direct)
						w4_store(t, m0 + m, now, n, s->sum[p][m]);
				}
			}
		}
	}
}

void fw_matmul_w4_avx512(const struct fw_matmul_w4 *t, void *scratch)
{
	uint32_t all = (t->n + VNPU_PANEL_N - 1) / VNPU_PANEL_N, m0, rows, p, panels;

	if (t->m <= W4_FEW) {
		w4_few(t, scratch);
		return;
	}
	for (m0 = 0; m0 < t->m; m0 += rows) {
		rows = t->m - m0 < W4_TILES * W4_ROWS ? t->m - m0 : W4_TILES * W4_ROWS;
		for (p = 0; p < all; p += panels) {
			panels = all - p < W4_PANELS ? all - p : W4_PANELS;
			w4_group(t, m0, rows, p * VNPU_PANEL_N, panels, scratch);
		}
	}
}
#endif
