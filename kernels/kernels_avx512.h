/* SPDX-License-Identifier: MIT */
/*
 * Common parts of the matmuls in kernels_avx512.c and kernels_amx.c: how K is divided into blocks,
 * prefetching, and storing results.
 */
#ifndef KERNELS_AVX512_H
#define KERNELS_AVX512_H

#include <immintrin.h>
#include <stdbool.h>

#include "kernels.h"
#include "kernels_wk.h"

/* Size of a K block: 32 KB of a panel, and as much of 64 rows. */
#define MM_K_BLOCK 512
/*
 * Largest K block of unpacked panels with vpdpbusd, for which L2 is fast enough: long blocks load
 * and store the sums less often, or not at all.
 */
#define MM_K_BLOCK_I8 2048
/*
 * Rows that are multiplied with all panels before the next rows: long enough to prefetch a panel
 * meanwhile, and few enough to leave most of L2 to it, the next panel and results.
 */
#define MM_ROWS_I8 70
/*
 * Panels whose sums are kept at a time, so that the sums of a few dozen rows fit into the scratch
 * whatever tile a stream asks for.
 */
#define MM_PANELS 16
/* The same for packed panels, which are unpacked for each set of rows: fewer, for more rows. */
#define MM_PANELS_WK 8
/*
 * Distance of rows in scratch: an odd number of cache lines, so that a tile's rows are in different
 * cache sets.
 */
#define MM_LD (MM_K_BLOCK + 64)
#define MM_LD_I8 (MM_K_BLOCK_I8 + 64)

/*
 * With few rows, weights come from memory, each line once and in order. Prefetching them from far
 * ahead into L2 and from near ahead into L1 is up to 1.5 times as fast as either alone or none:
 * misses then occupy the many buffers of L2, and the few of L1 wait only for L2.
 */
#define STREAM_FAR 3072
#define STREAM_NEAR 512
/*
 * Reading several places at a time (panels, or parts of K) is another eighth faster: the hardware
 * prefetcher follows each of them, and while it restarts at a page of one, it has the others.
 */
#define STREAMS 4
/*
 * The above holds for Intel's cores (Cascade Lake). AMD's read a fifth to a third faster from a
 * single place: those of Zen 5 fastest with prefetches straight into L1, those of Zen 4 with none,
 * as long as lines are used in order, which their own prefetchers follow.
 */
#define STREAM_DIRECT (-1)
#define STREAM_DIRECT_AHEAD 4096
static inline bool stream_direct(void)
{
	return __builtin_cpu_is("amd");
}

static inline bool stream_in_order(void)
{
	return __builtin_cpu_is("amdfam19h");
}

/* @streams: number of places that are read at the same time, or STREAM_DIRECT. */
static inline __attribute__((always_inline)) void stream_ahead(const uint8_t *line, int streams)
{
	if (streams == STREAM_DIRECT) {
		if (!stream_in_order())
			_mm_prefetch(line + STREAM_DIRECT_AHEAD, _MM_HINT_T0);
		return;
	}
	_mm_prefetch(line + (streams > 1 ? STREAM_FAR / STREAMS : STREAM_FAR), _MM_HINT_T1);
	_mm_prefetch(line + (streams > 1 ? STREAM_NEAR / 2 : STREAM_NEAR), _MM_HINT_T0);
}

/*
 * The same for a line of a single panel that is read in order while it is unpacked or multiplied
 * with several rows: from memory into L2 and from there into L1, whose few buffers would wait for
 * memory.
 */
#define PANEL_FAR 12288
#define PANEL_NEAR 4096
static inline __attribute__((always_inline)) void panel_ahead(const uint8_t *line)
{
	_mm_prefetch(line + PANEL_FAR, _MM_HINT_T1);
	_mm_prefetch(line + PANEL_NEAR, _MM_HINT_T0);
}

/*
 * Prefetching during a multiplication. GCC 12 takes a function that only prefetches for one without
 * effects and drops its calls, unless it is inlined early.
 */
#define FETCH static inline __attribute__((always_inline)) void

/* Prefetches @lines into L2. */
FETCH fetch_lines(const void *from, uint32_t lines)
{
	uint32_t i;

	for (i = 0; i < lines; i++)
		_mm_prefetch((const char *)from + i * 64, _MM_HINT_T1);
}

/* Cache lines of @bytes for each of @portions. */
static inline uint32_t fetch_portion(size_t bytes, uint32_t portions)
{
	return (uint32_t)((bytes + 63) / 64 + portions - 1) / portions;
}

/* Prefetches memory for results: @rows rows, the channels of a panel or the remaining @cols. */
FETCH fetch_results(const float *c, size_t ldc, uint32_t rows, uint32_t cols)
{
	uint32_t i, r;

	for (r = 0; r < rows; r++, c += ldc)
		for (i = 0; i < VNPU_PANEL_N && i < cols; i += 16)
			__builtin_prefetch(c + i, 1);
}

/* Selects channels n0.. of a block. Returns how many rows fit into the scratch with @ld bytes each
 * and their sums, a multiple of @step. */
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

/* fw_kernels.qk_i8. */
void fw_qk_i8_avx512(const struct fw_qk_i8 *t, void *scratch);

/* The part of a panel in a K block. */
struct mm_part {
	const uint8_t *w; /* s8 [k/4][64][4] */
	const uint8_t *sums; /* the data after the panel's weights */
	/* The next part in memory: the next panel's, or the first one of the next K block. */
	const uint8_t *next;
	size_t next_bytes;
};

/* Panel n0 / 64, @k_block bytes of K from @k0 on; a packed panel is unpacked to @unpacked. */
static inline struct mm_part mm_part(const struct fw_matmul_i8 *t, uint32_t n0, uint32_t k0,
				     uint32_t k_block, uint8_t *unpacked)
{
	uint32_t i = n0 / VNPU_PANEL_N, bytes = (t->k + 3) / 4 * 4,
		 next = n0 + VNPU_PANEL_N < t->n ? i + 1 : 0;
	const uint8_t *panel;
	struct mm_part p;

	if (!t->wk) {
		panel = t->w + i * VNPU_PANEL_I8_BYTES(t->k);
		p.w = panel + k0 * 64ull;
		p.sums = panel + bytes * 64ull;
		p.next = next ? p.w + VNPU_PANEL_I8_BYTES(t->k) : t->w + (k0 + k_block) * 64ull;
		p.next_bytes = (size_t)k_block * VNPU_PANEL_N;
		return p;
	}
	fw_wk_unpack_avx512(unpacked, &t->wk[i], k0, t->k - k0 < k_block ? t->k - k0 : k_block);
	p.w = unpacked;
	p.sums = wk_sums(&t->wk[i], t->k);
	p.next = wk_k_block(&t->wk[next], next ? k0 : k0 + k_block);
	p.next_bytes = (size_t)k_block * 8 * t->wk[next].bits;
	return p;
}

/* Writes results from the sums of @rows rows, from row m on; @scale and @n0 are the panel's. */
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
