/* SPDX-License-Identifier: MIT */
/*
 * What the matmuls of kernels_avx512.c and kernels_amx.c share: how K is cut, and
 * what becomes of the sums.
 */
#ifndef KERNELS_AVX512_H
#define KERNELS_AVX512_H

#include <immintrin.h>
#include <stdbool.h>

#include "kernels.h"
#include "kernels_wk.h"

/* K of a piece: 32 KB of a panel, and the same of 64 rows. */
#define MM_PIECE 512
/*
 * Of unpacked panels with vpdpbusd at most, which is content with the second-level cache: longer
 * pieces come back to their sums less often, or not at all.
 */
#define MM_PIECE_I8 2048
/*
 * Rows that are then multiplied with all panels before others are: a panel is fetched in their
 * time, and they leave most of the second-level cache to it, to the next one and to results.
 */
#define MM_ROWS_I8 70
/*
 * Panels whose sums are kept at a time: so those of a few dozen rows fit the scratch,
 * whatever a stream calls a tile.
 */
#define MM_PANELS 16
/* Of packed ones, which are unpacked for these rows: so that there are more of them. */
#define MM_PANELS_WK 8
/*
 * Rows of a piece in scratch: an odd number of cache lines apart, so that those of a tile
 * do not share a cache set.
 */
#define MM_LD (MM_PIECE + 64)
#define MM_LD_I8 (MM_PIECE_I8 + 64)

/*
 * The weights of few rows come from memory, each line once and in order. Fetched from afar into the
 * second-level cache and from near into the first, they arrive up to half again as fast as with
 * either alone, or with none: requests to memory then wait where many can, and the first level's
 * few wait for the second only.
 */
#define STREAM_FAR 3072
#define STREAM_NEAR 512
/*
 * They come an eighth faster still from several places at a time, panels or parts of K: the
 * hardware's own prefetcher looks ahead in each of them, and while it starts anew with a page
 * of one, it has the others.
 */
#define STREAMS 4
/*
 * All of this is so of Intel's cores (Cascade Lake). AMD's (Zen 5) read a fifth to a third faster
 * from one place, and fastest if lines are fetched into the first-level cache at once.
 */
#define STREAM_DIRECT (-1)
#define STREAM_DIRECT_AHEAD 4096
static inline bool stream_direct(void)
{
	return __builtin_cpu_is("amd");
}

/* @streams: places that are read at the same time, or STREAM_DIRECT. */
static inline __attribute__((always_inline)) void stream_ahead(const uint8_t *line, int streams)
{
	if (streams == STREAM_DIRECT) {
		_mm_prefetch(line + STREAM_DIRECT_AHEAD, _MM_HINT_T0);
		return;
	}
	_mm_prefetch(line + (streams > 1 ? STREAM_FAR / STREAMS : STREAM_FAR), _MM_HINT_T1);
	_mm_prefetch(line + (streams > 1 ? STREAM_NEAR / 2 : STREAM_NEAR), _MM_HINT_T0);
}

/*
 * Fetching what comes next while something is multiplied. GCC 12 takes a function that does nothing
 * else for one without an effect and drops the calls, unless they are inlined before it looks.
 */
#define FETCH static inline __attribute__((always_inline)) void

/* @lines into the second-level cache. */
FETCH fetch_lines(const void *from, uint32_t lines)
{
	uint32_t i;

	for (i = 0; i < lines; i++)
		_mm_prefetch((const char *)from + i * 64, _MM_HINT_T1);
}

/* How many of the lines of @bytes each of @portions has. */
static inline uint32_t fetch_portion(size_t bytes, uint32_t portions)
{
	return (uint32_t)((bytes + 63) / 64 + portions - 1) / portions;
}

/* What is going to be written: of @rows, the channels of a panel, or the @cols that are left. */
FETCH fetch_results(const float *c, size_t ldc, uint32_t rows, uint32_t cols)
{
	uint32_t i, r;

	for (r = 0; r < rows; r++, c += ldc)
		for (i = 0; i < VNPU_PANEL_N && i < cols; i += 16)
			__builtin_prefetch(c + i, 1);
}

/* Channels n0.. of a block, and how many rows of them fit the scratch at @ld bytes each and with
 * their sums, in whole multiples of @step. */
static inline uint32_t mm_columns(struct fw_matmul_i8 *part, const struct fw_matmul_i8 *t,
				  uint32_t n0, uint32_t step, uint32_t ld)
{
	uint32_t most = (t->wk ? MM_PANELS_WK : MM_PANELS) * VNPU_PANEL_N;

	*part = *t;
	if (t->wk)
		part->wk += n0 / VNPU_PANEL_N;
	else
		part->w += n0 / VNPU_PANEL_N * VNPU_PANEL_I8_BYTES(t->k);
	part->bias = t->bias ? t->bias + n0 : NULL;
	part->c += n0;
	part->n = t->n - n0 < most ? t->n - n0 : most;
	ld += (part->n + VNPU_PANEL_N - 1) / VNPU_PANEL_N * VNPU_PANEL_N * 4;
	return (FW_SCRATCH_BYTES - FW_UNPACK_BYTES) / ld / step * step;
}

/* A panel's part of a piece of K. */
struct mm_part {
	const uint8_t *w; /* s8 [k/4][64][4] */
	const uint8_t *sums; /* what follows the panel's weights */
	/*
	 * What comes next in memory, and how much of it is wanted: the next panel's part, or the
	 * first one's of the next piece.
	 */
	const uint8_t *next;
	size_t next_bytes;
};

/* Panel n0 / 64 and @piece bytes of K from @k0 on, unpacked to @unpacked if it is packed. */
static inline struct mm_part mm_part(const struct fw_matmul_i8 *t, uint32_t n0, uint32_t k0,
				     uint32_t piece, uint8_t *unpacked)
{
	uint32_t i = n0 / VNPU_PANEL_N, bytes = (t->k + 3) / 4 * 4,
		 next = n0 + VNPU_PANEL_N < t->n ? i + 1 : 0;
	const uint8_t *panel;
	struct mm_part p;

	if (!t->wk) {
		panel = t->w + i * VNPU_PANEL_I8_BYTES(t->k);
		p.w = panel + k0 * 64ull;
		p.sums = panel + bytes * 64ull;
		p.next = next ? p.w + VNPU_PANEL_I8_BYTES(t->k) : t->w + (k0 + piece) * 64ull;
		p.next_bytes = (size_t)piece * VNPU_PANEL_N;
		return p;
	}
	fw_wk_unpack_avx512(unpacked, &t->wk[i], k0, t->k - k0 < piece ? t->k - k0 : piece);
	p.w = unpacked;
	p.sums = wk_sums(&t->wk[i], t->k);
	p.next = wk_piece(&t->wk[next], next ? k0 : k0 + piece);
	p.next_bytes = (size_t)piece * 8 * t->wk[next].bits;
	return p;
}

/* c from the sums of @rows rows, from row m on; @scale and @n0: of the panel. */
static inline void mm_store(const struct fw_matmul_i8 *t, uint32_t m, uint32_t rows, uint32_t n0,
			    const float *scale, const int32_t *acc)
{
	__m512 s, bias, y;
	__mmask16 live;
	uint32_t i, r;

	for (i = 0; i < VNPU_PANEL_N && n0 + i < t->n; i += 16) {
		live = t->n - n0 - i < 16 ? (1u << (t->n - n0 - i)) - 1 : 0xffff;
		s = _mm512_loadu_ps(scale + i);
		bias = t->bias ? _mm512_maskz_loadu_ps(live, t->bias + n0 + i) : s;
		for (r = 0; r < rows; r++) {
			y = _mm512_mul_ps(
				_mm512_cvtepi32_ps(_mm512_load_si512(acc + r * VNPU_PANEL_N + i)),
				_mm512_mul_ps(_mm512_set1_ps(t->a_scale[m + r]), s));
			if (t->bias)
				y = _mm512_add_ps(y, bias);
			_mm512_mask_storeu_ps(t->c + (m + r) * t->ldc + n0 + i, live, y);
		}
	}
}

#endif /* KERNELS_AVX512_H */
