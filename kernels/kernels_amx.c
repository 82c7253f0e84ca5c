// SPDX-License-Identifier: MIT
/*
 * AMX: tdpbssd multiplies 16 rows x 64 k of activations by 64 k x 16 channels of weights, signed by
 * signed, and reads a panel as it is: 16 lines of 64 bytes, 256 apart. The register tile is 32 rows
 * x 32 channels, four tiles of sums.
 *
 * K is divided into K blocks as in kernels_avx512.c, for the same reason; sums stay in scratch
 * between them. Activations whose K is a whole number of tiles are read in place. Others are copied
 * to scratch, padded with zeros, so that the end of K needs no tile of its own; so are the last
 * rows of a block if they do not fill a tile.
 *
 * Rows of a single tile are bound by memory: amx_few() reads each panel once and in order. Fewer
 * would leave the tile empty, so kernels_avx512.c computes them.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "kernels.h"
#include "kernels_amx.h"
#include "kernels_avx512.h"
#include "kernels_kq.h"
#include "kernels_w4.h"

/* Fewer rows are faster with vpdpbusd. */
#define AMX_MIN_ROWS 12
/* The same for amx_few(). */
#define AMX_MIN_FEW 7
#define AMX_ROWS 32
/* k per tile. */
#define AMX_K 64

/* Eight tiles of 16 rows of 64 bytes: sums 0..3, activations 4 and 5, weights 6 and 7. */
static const struct amx_config amx_config = {
	.palette = 1,
	.row_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
	.rows = { 16, 16, 16, 16, 16, 16, 16, 16 },
};

/* Copies @rows rows of a K block, each padded to whole tiles. */
static void amx_copy(uint8_t *dst, size_t ldd, const int8_t *src, size_t lds, uint32_t rows,
		     uint32_t bytes)
{
	uint32_t r, i;
	__mmask64 m;

	for (r = 0; r < rows; r++, dst += ldd, src += lds) {
		for (i = 0; i < bytes; i += AMX_K) {
			_mm_prefetch(src + 8 * lds + i, _MM_HINT_T0);
			m = bytes - i < 64 ? (1ull << (bytes - i)) - 1 : ~0ull;
			_mm512_store_si512(dst + i, _mm512_maskz_loadu_epi8(m, src + i));
		}
	}
}

/*
 * acc[32][64], the first 32 channels from w and acc on: the sums so far (0 if @first) plus @tiles
 * times 64 k, the last of which is in @tail if that is not NULL. Prefetches @lines cache lines from
 * @next on per 64 k.
 */
static void amx_block(const uint8_t *a, size_t lda, const uint8_t *w, const uint8_t *tail,
		      uint32_t tiles, bool first, const uint8_t *next, uint32_t lines, int32_t *acc)
{
	uint32_t i, j;

	if (first) {
		_tile_zero(0);
		_tile_zero(1);
		_tile_zero(2);
		_tile_zero(3);
	} else {
		_tile_loadd(0, acc, 256);
		_tile_loadd(1, acc + 16, 256);
		_tile_loadd(2, acc + 16 * 64, 256);
		_tile_loadd(3, acc + 16 * 64 + 16, 256);
	}
	for (i = 0; i < tiles; i++, a += AMX_K, w += AMX_K * VNPU_PANEL_N) {
		if (tail && i + 1 == tiles)
			w = tail;
		_tile_loadd(4, a, lda);
		_tile_loadd(6, w, 256);
		_tile_loadd(7, w + 64, 256);
		_tile_loadd(5, a + 16 * lda, lda);
		for (j = 0; j < lines; j++, next += 64)
			_mm_prefetch(next, _MM_HINT_T1);
		_tile_dpbssd(0, 4, 6);
		_tile_dpbssd(1, 4, 7);
		_tile_dpbssd(2, 5, 6);
		_tile_dpbssd(3, 5, 7);
	}
	_tile_stored(0, acc, 256);
	_tile_stored(1, acc + 16, 256);
	_tile_stored(2, acc + 16 * 64, 256);
	_tile_stored(3, acc + 16 * 64 + 16, 256);
}

/* Rows m0.., @rows of them: as many as fit into the scratch with their sums. */
static void amx_group(const struct fw_matmul_i8 *t, uint32_t m0, uint32_t rows, uint8_t *unpacked,
		      uint8_t *a, int32_t *sums)
{
	uint32_t bytes = (t->k + 3) / 4 * 4, k0, n0, m, now, k_block, tiles, lines;
	_Alignas(64) uint8_t last[AMX_K * VNPU_PANEL_N];
	/* Rows that can be read in place. */
	uint32_t whole = t->k % AMX_K ? 0 : rows / AMX_ROWS * AMX_ROWS;
	const uint8_t *w, *tail, *next, *src;
	struct mm_part part;
	int32_t *acc;
	size_t ld;

	for (k0 = 0; k0 < bytes; k0 += k_block) {
		k_block = bytes - k0 < MM_K_BLOCK ? bytes - k0 : MM_K_BLOCK;
		tiles = (k_block + AMX_K - 1) / AMX_K;
		/* Prefetch the next panel's part of the K block in one portion per step. */
		lines = (AMX_K + (rows + AMX_ROWS - 1) / AMX_ROWS * 2 - 1) /
			((rows + AMX_ROWS - 1) / AMX_ROWS * 2);
		if (whole < rows)
			amx_copy(a + whole * MM_LD, MM_LD, t->a + (m0 + whole) * t->lda + k0,
				 t->lda, rows - whole, k_block);
		acc = sums;
		for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
			part = mm_part(t, n0, k0, k_block, unpacked);
			w = part.w;
			tail = NULL;
			if (k_block % AMX_K) {
				/* The panel ends before the tile does. */
				memset(last, 0, sizeof(last));
				memcpy(last, w + (tiles - 1) * sizeof(last),
				       k_block % AMX_K * VNPU_PANEL_N);
				tail = last;
			}
			next = part.next;
			for (m = 0; m < rows; m += AMX_ROWS, acc += AMX_ROWS * VNPU_PANEL_N) {
				now = rows - m < AMX_ROWS ? rows - m : AMX_ROWS;
				src = m < whole ? (const uint8_t *)t->a + (m0 + m) * t->lda + k0
						: a + m * MM_LD;
				ld = m < whole ? t->lda : MM_LD;
				if (k0 + k_block == bytes)
					fetch_results(t->c + (m0 + m) * t->ldc + n0, t->ldc, now,
						      t->n - n0);
				amx_block(src, ld, w, tail, tiles, !k0, next, lines, acc);
				if ((size_t)(next - part.next) < part.next_bytes)
					next += tiles * lines * 64;
				amx_block(src, ld, w + 128, tail ? tail + 128 : NULL, tiles, !k0,
					  next, lines, acc + 32);
				if ((size_t)(next - part.next) < part.next_bytes)
					next += tiles * lines * 64;
				if (k0 + k_block == bytes)
					mm_store(t, m0 + m, now, n0,
						 (const float *)(part.sums + 256), acc);
			}
		}
	}
}

/* ---- few rows -------------------------------------------------------------------------------- */

/* Multiplies 16 channels in tile @v, with their weights in tile @x. */
#define FEW_TILE(v, x)                                      \
	do {                                                \
		_tile_loadd(x, w + (v)*64, 256);            \
		_tile_dpbssd(v, 4, x);                      \
		for (uint32_t i = 0; i < 16; i++)           \
			panel_ahead(w + ((v)*16 + i) * 64); \
	} while (0)

/* A tile of rows, K in whole tiles. Memory is the limit: panels are read once and in order. */
static void amx_few(const struct fw_matmul_i8 *t)
{
	_Alignas(64) int32_t acc[AMX_TILE][VNPU_PANEL_N];
	const uint8_t *w = t->w;
	const int8_t *a;
	uint32_t n0, k;

	amx_configure(t->m, AMX_K);
	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		_tile_zero(0);
		_tile_zero(1);
		_tile_zero(2);
		_tile_zero(3);
		for (k = 0, a = t->a; k < t->k; k += AMX_K, a += AMX_K, w += AMX_K * VNPU_PANEL_N) {
			_tile_loadd(4, a, t->lda);
			FEW_TILE(0, 6);
			FEW_TILE(1, 7);
			FEW_TILE(2, 6);
			FEW_TILE(3, 7);
		}
		_tile_stored(0, acc[0], 256);
		_tile_stored(1, acc[0] + 16, 256);
		_tile_stored(2, acc[0] + 32, 256);
		_tile_stored(3, acc[0] + 48, 256);
		mm_store(t, 0, t->m, n0, (const float *)(w + 256), acc[0]);
		w = t->w + (n0 / VNPU_PANEL_N + 1) * VNPU_PANEL_I8_BYTES(t->k);
	}
	_tile_release();
}

static void kernel_matmul_i8(const struct fw_matmul_i8 *t, void *scratch)
{
	uint8_t *a = (uint8_t *)scratch + FW_UNPACK_BYTES;
	uint32_t n0, m0, rows, most;
	struct fw_matmul_i8 part;

	if (!t->wk && t->m >= AMX_MIN_FEW && t->m <= AMX_TILE && t->k % AMX_K == 0) {
		amx_few(t);
		return;
	}
	if (t->m < AMX_MIN_ROWS) {
		fw_kernels_avx512.matmul_i8(t, scratch);
		return;
	}
	amx_load_config(&amx_config);
	for (n0 = 0; n0 < t->n; n0 += part.n) {
		most = mm_columns(&part, t, n0, AMX_ROWS, MM_LD);
		for (m0 = 0; m0 < t->m; m0 += rows) {
			rows = t->m - m0 < most ? t->m - m0 : most;
			/* Rows beyond the last one in its tile are computed but not used. */
			amx_group(&part, m0, rows, scratch, a, (int32_t *)(a + most * MM_LD));
		}
	}
	_tile_release();
}

#define QK_ROWS 256
#define QK_STEP AMX_ROWS
#include "kernels_qk.h"

/* Distance between rows in scratch: whole tiles, and an odd number of cache lines. */
static size_t qk_ld(const struct fw_qk_i8 *t)
{
	return ((t->head_dim + AMX_K - 1) / AMX_K | 1) * AMX_K;
}

static void qk_rows(const struct fw_qk_i8 *t, uint32_t m0, uint32_t rows, void *scratch)
{
	_Static_assert(QK_ROWS * (VNPU_MAX_HEAD_DIM + AMX_K) <= FW_SCRATCH_BYTES,
		       "a group's rows fit");
	amx_copy(scratch, qk_ld(t), t->q + m0 * t->ldq, t->ldq, rows, (t->head_dim + 3) / 4 * 4);
}

/* Rows beyond the last one are computed, but not used. */
static void qk_sums(const struct fw_qk_i8 *t, uint32_t m0, uint32_t m, uint32_t now,
		    const uint8_t *k, void *scratch, int32_t *acc)
{
	const size_t bytes = VNPU_QK_PANEL_BYTES(t->head_dim), ld = qk_ld(t);
	const uint8_t *q = (uint8_t *)scratch + m * ld, *tail = NULL;
	const uint8_t *end = t->k + (t->panel + t->panels) * bytes;
	uint32_t tiles = (t->head_dim + AMX_K - 1) / AMX_K;
	_Alignas(64) uint8_t last[AMX_K * VNPU_QK_PANEL];

	/* A panel's last tile may extend into the next panels, where the rows have zeros. */
	if ((size_t)(end - k) < tiles * sizeof(last)) {
		memset(last, 0, sizeof(last));
		memcpy(last, k + (tiles - 1) * sizeof(last), bytes % sizeof(last));
		tail = last;
	}
	amx_block(q, ld, k, tail, tiles, true, NULL, 0, acc);
	amx_block(q, ld, k + 128, tail ? tail + 128 : NULL, tiles, true, NULL, 0, acc + 32);
}

static void kernel_qk_i8(const struct fw_qk_i8 *t, void *scratch)
{
	if (t->rows < AMX_MIN_ROWS) {
		fw_qk_i8_avx512(t, scratch);
		return;
	}
	amx_load_config(&amx_config);
	qk_i8(t, scratch);
	_tile_release();
}

#define kernel_matmul_w4 fw_matmul_w4_amx
#define kernel_matmul_kq fw_matmul_kq_amx
#define kernel_matmul_w4f fw_matmul_w4f_avx512
#define FW_KERNELS_NAME fw_kernels_amx
#define FW_KERNELS_LABEL "avx512-amx"
#include "kernels_float.h"
#endif
