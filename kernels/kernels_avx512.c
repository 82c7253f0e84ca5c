// SPDX-License-Identifier: MIT
/*
 * AVX-512 VNNI: vpdpbusd multiplies unsigned by signed bytes. Activations become unsigned by adding
 * 128 (inverting the top bit), and the sums start at -128 times the sum of the weights, which each
 * panel carries. All of this is exact modulo 2^32, and the true sum fits 32 bits.
 *
 * The register tile is 14 rows x 32 channels: 28 registers of sums, 2 of weights, 1 of activations.
 * Weights move from L2 to L1 a few steps ahead, once per 14 rows; a smaller tile would mostly wait
 * for them. The activations of some rows are converted into the worker's scratch; then each panel,
 * one half at a time, is multiplied with all of them, while the next panel is prefetched into L2.
 * Results are stored from the registers to prefetched lines: stores that miss would hold up the
 * loads of the next tile. A tile's activations are converted while the tile before it is multiplied
 * with the first panel, because their loads and stores fit between the multiplications. A long K is
 * divided into K blocks, between which the sums stay in scratch. Few rows need none of this,
 * because they are limited by memory bandwidth: panels are read once, several panels or parts of
 * one at the same time.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels.h"
#include "kernels_avx512.h"
#include "kernels_kq.h"
#include "kernels_w4.h"

#define MM_ROWS 14
/* Channels of the register tile: half a panel. */
#define MM_HALF (VNPU_PANEL_N / 2)
/* At most this many rows are multiplied with weights straight from memory. */
#define MM_FEW 6
#define TOP_BITS ((int32_t)0x80808080)

typedef int32_t four_bytes __attribute__((may_alias, aligned(1)));

/*
 * Exactly one instruction each, in this order: otherwise GCC 12 moves sums between registers and
 * runs out of them. If another thread shares the core's front end, every other instruction counts
 * as much as a multiplication.
 */
#define DOT(sum, x, w) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w))
#define LOAD_LINE(w, line) \
	__asm__ volatile("vmovdqu64 %1, %0" : "=v"(w) : "m"(*(const __m512i *)(line)))
#define LOAD_FOUR(x, k) \
	__asm__ volatile("vpbroadcastd %1, %0" : "=v"(x) : "m"(*(const four_bytes *)(k)))

/* A row and the registers of its sums. */
#define EACH_ROW(f)                                                                              \
	f(0, 0, 1) f(1, 2, 3) f(2, 4, 5) f(3, 6, 7) f(4, 8, 9) f(5, 10, 11) f(6, 12, 13)         \
		f(7, 14, 15) f(8, 16, 17) f(9, 18, 19) f(10, 20, 21) f(11, 22, 23) f(12, 24, 25) \
			f(13, 26, 27)
#define DECLARE(r, v0, v1)                                                       \
	register __m512i c##r##0 __asm__("zmm" #v0), c##r##1 __asm__("zmm" #v1); \
	if ((r) < rows) {                                                        \
		c##r##0 = _mm512_load_si512(first + (r)*first_ld);               \
		c##r##1 = _mm512_load_si512(first + (r)*first_ld + 16);          \
	}
#define ROW(r, v0, v1)                    \
	if ((r) < rows) {                 \
		LOAD_FOUR(x, k + (r)*ld); \
		DOT(c##r##0, x, w0);      \
		DOT(c##r##1, x, w1);      \
	}
/* Four k of all rows, at index @i from w and a on. */
#define STEP(i)                                                    \
	do {                                                       \
		const uint8_t *k = a + (i)*4, *line = w + (i)*256; \
                                                                   \
		LOAD_LINE(w0, line);                               \
		LOAD_LINE(w1, line + 64);                          \
		_mm_prefetch(line + MM_AHEAD, _MM_HINT_T0);        \
		_mm_prefetch(line + MM_AHEAD + 64, _MM_HINT_T0);   \
		EACH_ROW(ROW)                                      \
	} while (0)
#define OUT(r, v0, v1)                                             \
	if ((r) < rows) {                                          \
		_mm512_store_si512(t->acc + (r)*64, c##r##0);      \
		_mm512_store_si512(t->acc + (r)*64 + 16, c##r##1); \
	}

#define RESULT1(r, i, plus_bias)                                                    \
	y = _mm512_mul_ps(_mm512_cvtepi32_ps(c##r##i),                              \
			  _mm512_mul_ps(a_scale, _mm512_loadu_ps(scale + (i)*16))); \
	if (plus_bias)                                                              \
		y = _mm512_add_ps(y, _mm512_loadu_ps(bias + (i)*16));               \
	_mm512_storeu_ps(c + (i)*16, y);
#define RESULT(r, plus_bias)                             \
	if ((r) < rows) {                                \
		a_scale = _mm512_set1_ps(t->a_scale[r]); \
		RESULT1(r, 0, plus_bias)                 \
		RESULT1(r, 1, plus_bias)                 \
		c += ldc;                                \
	}
#define RESULT_BIAS(r, v0, v1) RESULT(r, true)
#define RESULT_PLAIN(r, v0, v1) RESULT(r, false)

/* Distance in bytes from the present weights of a panel to those prefetched into L1. */
#define MM_AHEAD 1024
/* Bytes of a panel for as many k as are in a cache line of activations. */
#define MM_LINE_W (64 * VNPU_PANEL_N)
/* Operands and results of a tile. */
struct mm_tile {
	const uint8_t *a, *w; /* u8 [rows][ld], s8 [kb][64][4], half the channels of it */
	size_t ld;
	uint32_t kb; /* steps of four k */
	uint32_t lines; /* prefetched from @next on per two steps: 1, 2 or 4 */
	const uint8_t *next;
	/*
	 * acc[rows][64], half the columns = first[rows][first_ld] + a x w. If c is not NULL,
	 * results go there instead.
	 */
	const int32_t *first;
	size_t first_ld;
	int32_t *acc;
	float *c;
	size_t ldc;
	const float *a_scale, *scale, *bias; /* [rows], [32], [32] or NULL */
	/*
	 * Activations to convert meanwhile: @u8_lines cache lines each of @u8_rows rows, at most kb
	 * / 2 lines in all.
	 */
	const int8_t *u8_src;
	uint8_t *u8_dst;
	size_t u8_lds;
	uint32_t u8_rows, u8_lines;
};

/*
 * Every call has a constant @ld, so that it is in the instructions; calls for many rows also have a
 * constant @lines.
 */
static inline __attribute__((always_inline)) void
mm_rows(const int rows, const size_t ld, const struct mm_tile *t, const uint32_t lines)
{
	const uint8_t *a = t->a, *w = t->w, *end = w + (size_t)(t->kb / 2) * 512, *stop,
		      *next = t->next;
	const float *expected = t->c, *expected_end = t->c ? t->c + rows * t->ldc : NULL;
	const size_t u8_bytes = t->u8_lines * 64ul;
	const int8_t *src = t->u8_src, *src_end = src + u8_bytes;
	const size_t lds = t->u8_lds, first_ld = t->first_ld, ldc = t->ldc;
	const __m512i top_bits = _mm512_set1_epi8((char)0x80);
	__m512 a_scale, y;
	const int32_t *first = t->first;
	const float *bias = t->bias, *scale = t->scale;
	uint8_t *dst = t->u8_dst;
	register __m512i w0 __asm__("zmm28"), w1 __asm__("zmm29"), x __asm__("zmm30");
	float *c = t->c;
	uint32_t u8_left = u8_bytes ? t->u8_rows : 0;

	EACH_ROW(DECLARE)
	while (w != end) {
		stop = end;
		if (expected != expected_end) {
			stop = end - w > MM_LINE_W ? w + MM_LINE_W : end;
			_mm_prefetch(expected, _MM_HINT_T1);
			_mm_prefetch(expected + 16, _MM_HINT_T1);
			expected += ldc;
		}
		if (u8_left) {
			/*
			 * One line at a time, in order, to disturb the multiplications least. The
			 * line below is prefetched meanwhile.
			 */
			stop = w + 512;
			_mm_prefetch(src + lds, _MM_HINT_T0);
			_mm512_store_si512(dst,
					   _mm512_xor_si512(top_bits, _mm512_loadu_si512(src)));
			src += 64;
			dst += 64;
			if (src == src_end) {
				src += lds - u8_bytes;
				dst += ld - u8_bytes;
				src_end = src + u8_bytes;
				u8_left--;
			}
		}
		for (; w != stop; w += 512, a += 8, next += lines * 64) {
			_mm_prefetch(next, _MM_HINT_T1);
			if (lines > 1)
				_mm_prefetch(next + 64, _MM_HINT_T1);
			if (lines > 2) {
				_mm_prefetch(next + 128, _MM_HINT_T1);
				_mm_prefetch(next + 192, _MM_HINT_T1);
			}
			STEP(0);
			STEP(1);
		}
	}
	if (t->kb % 2)
		STEP(0);
	if (!c) {
		EACH_ROW(OUT)
		return;
	}
	if (bias) {
		EACH_ROW(RESULT_BIAS)
	} else {
		EACH_ROW(RESULT_PLAIN)
	}
}

static void mm_block(uint32_t rows, const struct mm_tile *t)
{
	/* If there are more rows than three tiles, tiles have at least 10 rows. */
#define ROWS(n, ld)                          \
	if ((n) >= 10 && t->lines == 1)      \
		mm_rows(n, ld, t, 1);        \
	else                                 \
		mm_rows(n, ld, t, t->lines); \
	break;
#define ROWS_I8(r, v0, v1) \
	case (r) + 1:      \
		ROWS((r) + 1, MM_LD_I8)
#define ROWS_WK(r, v0, v1)      \
	case MM_ROWS + (r) + 1: \
		ROWS((r) + 1, MM_LD)
	switch (rows + (t->ld == MM_LD_I8 ? 0 : MM_ROWS)) {
		EACH_ROW(ROWS_I8)
		EACH_ROW(ROWS_WK)
	}
}

/* Start values of sums with activations plus 128. @sums: the data after the panel's weights. */
static void mm_first(int32_t *first, const uint8_t *sums)
{
	uint32_t i;

	for (i = 0; i < VNPU_PANEL_N; i += 16)
		_mm512_store_si512(
			first + i,
			_mm512_sub_epi32(_mm512_setzero_si512(),
					 _mm512_slli_epi32(_mm512_loadu_si512(sums + i * 4), 7)));
}

/* Copies @rows rows of a K block with inverted top bits, each padded to a multiple of 64 bytes. */
static void mm_to_u8(uint8_t *dst, size_t ldd, const int8_t *src, size_t lds, uint32_t rows,
		     uint32_t bytes)
{
	__m512i top_bits = _mm512_set1_epi8((char)0x80);
	uint32_t r, i;
	__mmask64 m;

	for (r = 0; r < rows; r++, dst += ldd, src += lds) {
		for (i = 0; i < bytes; i += 64) {
			/* The rows' parts are too short for the hardware prefetcher; many rows are
			 * a power of two apart, so that lines prefetched too early are evicted
			 * again. */
			_mm_prefetch(src + 2 * lds + i, _MM_HINT_T0);
			m = bytes - i < 64 ? (1ull << (bytes - i)) - 1 : ~0ull;
			_mm512_store_si512(
				dst + i,
				_mm512_xor_si512(top_bits, _mm512_maskz_loadu_epi8(m, src + i)));
		}
	}
}

/*
 * Two to six rows times a panel: K in as many parts as can be read at the same time, all added to
 * the same sums.
 */
static inline __attribute__((always_inline)) void mm_few_rows(const int rows, const int streams,
							      const struct mm_tile *t)
{
	const int parts = streams == STREAM_DIRECT ? 1 : streams;
	const size_t part = (t->kb + parts - 1) / parts;
	__m512i c[MM_FEW][4], w[4], x;
	const uint8_t *k, *line;
	size_t b, at;
	int p, r, i;

#pragma GCC unroll 6
	for (r = 0; r < rows; r++)
#pragma GCC unroll 4
		for (i = 0; i < 4; i++)
			c[r][i] = _mm512_load_si512(t->first + i * 16);
	for (b = 0; b < part; b++) {
#pragma GCC unroll 4
		for (p = 0; p < parts; p++) {
			at = p * part + b;
			if (at >= t->kb)
				break;
			line = t->w + at * 256;
			k = t->a + at * 4;
#pragma GCC unroll 4
			for (i = 0; i < 4; i++) {
				stream_ahead(line + i * 64, streams);
				LOAD_LINE(w[i], line + i * 64);
			}
#pragma GCC unroll 6
			for (r = 0; r < rows; r++) {
				LOAD_FOUR(x, k + r * t->ld);
#pragma GCC unroll 4
				for (i = 0; i < 4; i++)
					DOT(c[r][i], x, w[i]);
			}
		}
	}
#pragma GCC unroll 6
	for (r = 0; r < rows; r++)
#pragma GCC unroll 4
		for (i = 0; i < 4; i++)
			_mm512_store_si512(t->acc + r * VNPU_PANEL_N + i * 16, c[r][i]);
}

#define FEW_ROWS(rows)                                           \
	case rows:                                               \
		if (direct)                                      \
			mm_few_rows(rows, STREAM_DIRECT, &tile); \
		else                                             \
			mm_few_rows(rows, STREAMS, &tile);       \
		break;

static void mm_few(const struct fw_matmul_i8 *t, uint8_t *u8)
{
	uint32_t bytes = (t->k + 3) / 4 * 4, n0;
	_Alignas(64) int32_t first[VNPU_PANEL_N], acc[MM_FEW * VNPU_PANEL_N];
	const bool direct = stream_direct();
	struct mm_tile tile = {
		.a = u8,
		.w = t->w,
		.ld = (bytes + 63) / 64 * 64,
		.kb = bytes / 4,
		.first = first,
		.acc = acc,
	};

	_Static_assert(MM_FEW * VNPU_MAX_K_I8 <= FW_SCRATCH_BYTES,
		       "a tile's rows of the largest K fit");
	mm_to_u8(u8, tile.ld, t->a, t->lda, t->m, bytes);
	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N, tile.w += VNPU_PANEL_I8_BYTES(t->k)) {
		mm_first(first, tile.w + bytes * 64ul);
		switch (t->m) {
			FEW_ROWS(2)
			FEW_ROWS(3)
			FEW_ROWS(4)
			FEW_ROWS(5)
			FEW_ROWS(MM_FEW)
		}
		mm_store(t, 0, t->m, n0, (const float *)(tile.w + bytes * 64ul + 256), acc);
	}
}

/*
 * A single row times @panels panels from channel @n0 on, which are read at the same time; @streams:
 * their number, or STREAM_DIRECT.
 */
static inline __attribute__((always_inline)) void
mm_stream(const int panels, const int streams, const struct fw_matmul_i8 *t, uint32_t n0)
{
	const size_t panel_bytes = VNPU_PANEL_I8_BYTES(t->k);
	const uint8_t *w = t->w + n0 / VNPU_PANEL_N * panel_bytes, *line;
	_Alignas(64) int32_t acc[VNPU_PANEL_N];
	uint32_t kb = (t->k + 3) / 4, b;
	__m512i c[STREAMS][4], x;
	int32_t four;
	int p, i;

#pragma GCC unroll 4
	for (p = 0; p < panels; p++) {
		mm_first(acc, w + p * panel_bytes + (size_t)kb * 256);
#pragma GCC unroll 4
		for (i = 0; i < 4; i++)
			c[p][i] = _mm512_load_si512(acc + i * 16);
	}
	for (b = 0; b < kb; b++, w += 256) {
		__builtin_memcpy(&four, t->a + 4 * b, 4);
		x = _mm512_set1_epi32(four ^ TOP_BITS);
#pragma GCC unroll 4
		for (p = 0; p < panels; p++) {
#pragma GCC unroll 4
			for (i = 0; i < 4; i++) {
				line = w + p * panel_bytes + i * 64;
				stream_ahead(line, streams);
				DOT(c[p][i], x, _mm512_loadu_si512(line));
			}
		}
	}
#pragma GCC unroll 4
	for (p = 0; p < panels; p++, n0 += VNPU_PANEL_N) {
#pragma GCC unroll 4
		for (i = 0; i < 4; i++)
			_mm512_store_si512(acc + i * 16, c[p][i]);
		mm_store(t, 0, 1, n0, (const float *)(w + p * panel_bytes + 256), acc);
	}
}

static void mm_gemv(const struct fw_matmul_i8 *t)
{
	uint32_t panels = (t->n + VNPU_PANEL_N - 1) / VNPU_PANEL_N, p;

	if (stream_direct()) {
		for (p = 0; p < panels; p++)
			mm_stream(1, STREAM_DIRECT, t, p * VNPU_PANEL_N);
		return;
	}
	for (p = 0; p < panels; p += STREAMS) {
		switch (panels - p) {
		case 1:
			mm_stream(1, 1, t, p * VNPU_PANEL_N);
			break;
		case 2:
			mm_stream(2, 2, t, p * VNPU_PANEL_N);
			break;
		case 3:
			mm_stream(3, 3, t, p * VNPU_PANEL_N);
			break;
		default:
			mm_stream(STREAMS, STREAMS, t, p * VNPU_PANEL_N);
		}
	}
}

/*
 * Number of rows in the next tile, of @left and at most @most: tiles of about the same size,
 * because small ones wait for their loads.
 */
static uint32_t mm_now(uint32_t left, uint32_t most)
{
	uint32_t tiles = (left + most - 1) / most;

	return (left + tiles - 1) / tiles;
}

/* @rows rows of @t from @m on, and a K block of them: @bytes from @k on. */
struct mm_k_block {
	const struct fw_matmul_i8 *t;
	uint32_t m, rows, k, bytes;
	uint8_t *u8; /* [rows][ld] */
	size_t ld;
};

/* Has the first or second half of the rows of the tile from row @m on converted while @tile is
 * multiplied, except for the end that does not fill a cache line. */
static void mm_to_u8_later(struct mm_tile *tile, const struct mm_k_block *p, uint32_t m,
			   uint32_t half)
{
	uint32_t rows = mm_now(p->rows - m, MM_ROWS);

	m += half ? (rows + 1) / 2 : 0;
	tile->u8_src = p->t->a + (p->m + m) * p->t->lda + p->k;
	tile->u8_dst = p->u8 + m * p->ld;
	tile->u8_lds = p->t->lda;
	tile->u8_rows = (rows + !half) / 2;
	tile->u8_lines = p->bytes / 64;
}

/*
 * Converts the ends that do not fill a cache line, of all rows; and with @first_too the first tile,
 * if it was not converted with the K block before.
 */
static void mm_to_u8_now(const struct mm_k_block *p, bool first_too)
{
	const int8_t *src = p->t->a + p->m * p->t->lda + p->k;
	uint32_t lines = p->bytes / 64 * 64;

	if (first_too)
		mm_to_u8(p->u8, p->ld, src, p->t->lda, mm_now(p->rows, MM_ROWS), lines);
	if (lines < p->bytes)
		mm_to_u8(p->u8 + lines, p->ld, src + lines, p->t->lda, p->rows, p->bytes - lines);
}

/* @sums: [panels][rows][64], or those of one tile if K is not divided. */
static void mm_k_block(const struct mm_k_block *p, uint8_t *unpacked, int32_t *sums)
{
	uint32_t bytes = (p->t->k + 3) / 4 * 4, n0, m, now, half, n;
	bool first = !p->k, last = p->k + p->bytes == bytes;
	_Alignas(64) int32_t start[VNPU_PANEL_N];
	const struct fw_matmul_i8 *t = p->t;
	struct mm_k_block after = *p;
	struct mm_tile tile = {
		.ld = p->ld,
		.kb = p->bytes / 4,
		/* Lines to prefetch per two steps, so that the next panel's part has arrived when
		 * it is needed; there are half as many steps as lines in this panel's part. */
		.lines = p->rows <= MM_ROWS	  ? 4
			 : p->rows <= 3 * MM_ROWS ? 2
						  : 1,
		.ldc = t->ldc,
	};
	struct mm_part part;

	mm_to_u8_now(p, first || p->rows <= MM_ROWS);
	after.k += p->bytes;
	after.bytes = bytes - after.k < p->bytes ? bytes - after.k : p->bytes;
	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		part = mm_part(t, n0, p->k, p->bytes, unpacked);
		if (first)
			mm_first(start, part.sums);
		tile.next = part.next;
		for (m = 0; m < p->rows; m += now) {
			now = mm_now(p->rows - m, MM_ROWS);
			tile.a = p->u8 + m * p->ld;
			tile.a_scale = t->a_scale + p->m + m;
			tile.first_ld = first ? 0 : VNPU_PANEL_N;
			for (half = 0; half < 2; half++) {
				n = half * MM_HALF;
				tile.w = part.w + n * 4;
				tile.first = (first ? start : sums) + n;
				tile.acc = sums + n;
				tile.c = NULL;
				if (last && t->n - n0 >= VNPU_PANEL_N)
					tile.c = t->c + (p->m + m) * t->ldc + n0 + n;
				tile.scale = (const float *)(part.sums + 256) + n;
				tile.bias = t->bias ? t->bias + n0 + n : NULL;
				tile.u8_lines = 0;
				if (!n0 && m + now < p->rows) {
					mm_to_u8_later(&tile, p, m + now, half);
				} else if (!last && t->n - n0 <= VNPU_PANEL_N && m &&
					   m + now == p->rows) {
					/*
					 * The first tile of this K block is no longer needed:
					 * convert that of the next K block.
					 */
					mm_to_u8_later(&tile, &after, 0, half);
				}
				mm_block(now, &tile);
				if ((size_t)(tile.next - part.next) < part.next_bytes)
					tile.next += p->bytes * 8 * tile.lines;
			}
			if (last && !tile.c)
				mm_store(t, p->m + m, now, n0, (const float *)(part.sums + 256),
					 sums);
			if (!first || !last)
				sums += now * VNPU_PANEL_N;
		}
	}
}

/* Size of a K block in bytes: whole cache lines of activations, all K blocks about the same. */
static uint32_t mm_k_block_bytes(const struct fw_matmul_i8 *t)
{
	uint32_t k_blocks = (t->k + MM_K_BLOCK_I8 - 1) / MM_K_BLOCK_I8;

	return t->wk ? MM_K_BLOCK : ((t->k + k_blocks - 1) / k_blocks + 63) / 64 * 64;
}

static void kernel_matmul_i8(const struct fw_matmul_i8 *t, void *scratch)
{
	uint32_t bytes = (t->k + 3) / 4 * 4, k_block = mm_k_block_bytes(t), n0, most;
	struct mm_k_block p = { .u8 = (uint8_t *)scratch + FW_UNPACK_BYTES,
				.ld = t->wk ? MM_LD : MM_LD_I8 };
	_Alignas(64) int32_t tile[MM_ROWS * VNPU_PANEL_N], *sums;
	bool whole = k_block >= bytes;
	struct fw_matmul_i8 part;

	_Static_assert(!(MM_ROWS_I8 % MM_ROWS), "rows are whole tiles");
	_Static_assert(MM_ROWS_I8 * (MM_LD_I8 + MM_PANELS * VNPU_PANEL_N * 4) <=
			       FW_SCRATCH_BYTES - FW_UNPACK_BYTES,
		       "this many rows fit with their sums");
	if (t->wk && t->m <= WK_FEW) {
		fw_wk_few_avx512(t, scratch);
		return;
	}
	if (t->m == 1) {
		mm_gemv(t);
		return;
	}
	if (!t->wk && t->m <= MM_FEW) {
		mm_few(t, scratch);
		return;
	}
	p.t = &part;
	for (n0 = 0; n0 < t->n; n0 += part.n) {
		part = *t;
		/* If no sums have to be kept, they do not limit the number of columns. */
		most = whole && !t->wk ? MM_ROWS_I8 : mm_columns(&part, t, n0, MM_ROWS, p.ld);
		if (!t->wk && most > MM_ROWS_I8)
			most = MM_ROWS_I8;
		sums = whole ? tile : (int32_t *)(p.u8 + most * p.ld);
		for (p.m = 0; p.m < t->m; p.m += p.rows) {
			p.rows = mm_now(t->m - p.m, most);
			for (p.k = 0; p.k < bytes; p.k += p.bytes) {
				p.bytes = bytes - p.k < k_block ? bytes - p.k : k_block;
				mm_k_block(&p, scratch, sums);
			}
		}
	}
}

#define kernel_qk_i8 fw_qk_i8_avx512
#define kernel_matmul_w4 fw_matmul_w4_avx512
#define kernel_matmul_kq fw_matmul_kq_avx512
#define kernel_matmul_w4f fw_matmul_w4f_avx512
#define FW_KERNELS_NAME fw_kernels_avx512
#define FW_KERNELS_LABEL "avx512-vnni"
#define FW_KERNELS_I8_ROWS MM_ROWS_I8
#define FW_KERNELS_I8_STEP MM_ROWS
#include "kernels_float.h"
#endif
