// SPDX-License-Identifier: MIT
/*
 * QK_I8 with AVX-512 VNNI. As in kernels_avx512.c vpdpbusd needs unsigned bytes: the queries plus
 * 128, in the worker's scratch. Panels carry no sums of the keys with which to correct that, so
 * each begins with a row of 128s of its own, which costs as much as one query.
 *
 * The register tile is 6 rows x 64 positions: 24 registers of sums, 4 of keys, 1 of queries. A
 * row's scores of a panel are two whole cache lines, stored from the registers. They are
 * prefetched, and so is the next panel, while a tile is multiplied.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels.h"
#include "kernels_avx512.h"
#include "kernels_qk.h"

#define ROWS 6
/* Rows that stay in scratch: those of a head_dim of 128 fill L1. */
#define GROUP 252
/* Distance between rows in scratch at most. */
#define MAX_LD (VNPU_MAX_HEAD_DIM + 64)
#define TOP_BITS ((int32_t)0x80808080)

/* One instruction each, in this order, or GCC 12 moves sums between registers. */
#define DOT(sum, x, k) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(k))
#define LOAD_LINE(k, line) \
	__asm__ volatile("vmovdqa64 %1, %0" : "=v"(k) : "m"(*(const __m512i *)(line)))
#define LOAD_FOUR(x, q) \
	__asm__ volatile("vpbroadcastd %1, %0" : "=v"(x) : "m"(*(const int32_t *)(q)))

/* Some rows times a panel. */
struct tile {
	const uint8_t *q, *k; /* u8 [rows][ld], a panel */
	size_t ld;
	uint32_t kb; /* ceil(head_dim / 4) */
	uint32_t shift;
	const int32_t *first; /* [64]: the sums' start, with what the shift rounds by */
	int16_t *scores; /* [rows][lds] */
	size_t lds;
};

/* The scores of 32 positions. packs works on quarters: pairs of them come out alternating. */
static inline __m512i narrow(__m512i a, __m512i b, __m128i count)
{
	const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);

	a = _mm512_packs_epi32(_mm512_sra_epi32(a, count), _mm512_sra_epi32(b, count));
	return _mm512_permutexvar_epi64(order, a);
}

static inline __attribute__((always_inline)) void tile_rows(const int rows, const struct tile *t)
{
	const __m128i count = _mm_cvtsi32_si128((int)t->shift);
	const uint8_t *q = t->q, *line = t->k, *end = line + t->kb * 256ul;
	const size_t ld = t->ld;
	__m512i c[ROWS][4], k[4], x;
	int16_t *to = t->scores;
	int r, i;

#pragma GCC unroll 6
	for (r = 0; r < rows; r++) {
		__builtin_prefetch(to + r * t->lds, 1);
		__builtin_prefetch(to + r * t->lds + 32, 1);
#pragma GCC unroll 4
		for (i = 0; i < 4; i++)
			c[r][i] = _mm512_load_si512(t->first + i * 16);
	}
	for (; line != end; line += 256, q += 4) {
#pragma GCC unroll 4
		for (i = 0; i < 4; i++)
			LOAD_LINE(k[i], line + i * 64);
#pragma GCC unroll 6
		for (r = 0; r < rows; r++) {
			LOAD_FOUR(x, q + r * ld);
#pragma GCC unroll 4
			for (i = 0; i < 4; i++)
				DOT(c[r][i], x, k[i]);
		}
	}
#pragma GCC unroll 6
	for (r = 0; r < rows; r++, to += t->lds) {
		_mm512_store_si512(to, narrow(c[r][0], c[r][1], count));
		_mm512_store_si512(to + 32, narrow(c[r][2], c[r][3], count));
	}
}

static void tile_run(uint32_t rows, const struct tile *t)
{
	switch (rows) {
	case 1:
		tile_rows(1, t);
		break;
	case 2:
		tile_rows(2, t);
		break;
	case 3:
		tile_rows(3, t);
		break;
	case 4:
		tile_rows(4, t);
		break;
	case 5:
		tile_rows(5, t);
		break;
	default:
		tile_rows(6, t);
	}
}

/* The sums' start: what the shift rounds by, minus 128 times the sum of each position's key. */
static void panel_first(int32_t *first, const uint8_t *k, uint32_t kb, uint32_t shift)
{
	const __m512i half = _mm512_set1_epi32(1 << shift >> 1), x = _mm512_set1_epi32(TOP_BITS);
	__m512i c[4] = { half, half, half, half };
	int i;

	for (; kb; kb--, k += 256)
#pragma GCC unroll 4
		for (i = 0; i < 4; i++)
			c[i] = _mm512_dpbusd_epi32(c[i], x, _mm512_load_si512(k + i * 64));
#pragma GCC unroll 4
	for (i = 0; i < 4; i++)
		_mm512_store_si512(first + i * 16,
				   _mm512_sub_epi32(_mm512_add_epi32(half, half), c[i]));
}

/* Rows m0..m0 + rows - 1, which are in the scratch, times panel @p. */
static void group_panel(const struct fw_qk_i8 *t, uint32_t m0, uint32_t rows, uint32_t p,
			const uint8_t *u8, size_t ld)
{
	const size_t bytes = VNPU_QK_PANEL_BYTES(t->head_dim);
	_Alignas(64) int32_t first[VNPU_QK_PANEL];
	uint64_t seen = qk_first_row(t, p);
	uint32_t m, now, lines;
	struct tile tile = {
		.k = t->k + p * bytes,
		.ld = ld,
		.kb = (t->head_dim + 3) / 4,
		.shift = t->shift,
		.first = first,
		.lds = t->lds,
	};
	const uint8_t *next = p + 1 < t->panel + t->panels ? tile.k + bytes : tile.k;

	if (seen >= m0 + (uint64_t)rows)
		return;
	m = seen > m0 ? (uint32_t)(seen - m0) : 0;
	panel_first(first, tile.k, tile.kb, t->shift);
	lines = fetch_portion(bytes, (rows - m + ROWS - 1) / ROWS);
	for (; m < rows; m += now, next += lines * 64) {
		now = rows - m < ROWS ? rows - m : ROWS;
		tile.q = u8 + m * ld;
		tile.scores = t->scores + (m0 + m) * t->lds + p * VNPU_QK_PANEL;
		fetch_lines(next, lines);
		tile_run(now, &tile);
	}
}

/* Copies @rows rows with inverted top bits. */
static void group_rows(uint8_t *u8, size_t ld, const int8_t *q, size_t ldq, uint32_t rows,
		       uint32_t bytes)
{
	const __m512i top_bits = _mm512_set1_epi32(TOP_BITS);

	for (; rows; rows--, u8 += ld, q += ldq)
		for (uint32_t i = 0; i < bytes; i += 64) {
			__mmask64 m = bytes - i < 64 ? (1ull << (bytes - i)) - 1 : ~0ull;

			_mm512_store_si512(
				u8 + i,
				_mm512_xor_si512(top_bits, _mm512_maskz_loadu_epi8(m, q + i)));
		}
}

void fw_qk_i8_avx512(const struct fw_qk_i8 *t, void *scratch)
{
	uint32_t bytes = (t->head_dim + 3) / 4 * 4, rows;
	/* An odd number of cache lines, so that a tile's rows are in different cache sets. */
	size_t ld = ((bytes + 63) / 64 | 1) * 64;

	_Static_assert(GROUP * MAX_LD <= FW_SCRATCH_BYTES, "a group's rows fit");
	for (uint32_t m0 = 0; m0 < t->rows; m0 += rows) {
		rows = t->rows - m0 < GROUP ? t->rows - m0 : GROUP;
		group_rows(scratch, ld, t->q + m0 * t->ldq, t->ldq, rows, bytes);
		for (uint32_t p = t->panel; p < t->panel + t->panels; p++)
			group_panel(t, m0, rows, p, scratch, ld);
	}
}
#endif
