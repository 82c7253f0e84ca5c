/* SPDX-License-Identifier: MIT */
/*
 * AMX: its tiles, rows of activations that are read in place, and sums of groups with float scales.
 */
#ifndef KERNELS_AMX_H
#define KERNELS_AMX_H

#include <immintrin.h>
#include <stdbool.h>

#include "kernels.h"

/* The operand of ldtilecfg: palette 1 has eight tiles, of up to 16 rows of 64 bytes. */
struct amx_config {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
};

static inline __attribute__((always_inline)) void amx_load_config(const struct amx_config *config)
{
	/* GCC 12's _tile_loadconfig() does not say that it reads all of it. */
	__asm__ volatile("" : : "m"(*config));
	_tile_loadconfig(config);
}

#define AMX_TILE 16 /* rows of a tile */

/*
 * First row of tile @tile of @rows rows. The last tile ends with the last row: if it is not whole,
 * it begins among the rows of the tile before it, whose results are computed once more.
 */
static inline uint32_t amx_row(uint32_t rows, uint32_t tile)
{
	return tile && (tile + 1) * AMX_TILE > rows ? rows - AMX_TILE : tile * AMX_TILE;
}

/*
 * Tiles 0 to 3 are sums, 4 and 5 activations and 6 and 7 weights, of @k k. Fewer than 16 rows are
 * the only tile.
 */
static inline void amx_configure(uint32_t rows, uint32_t k)
{
	rows = rows < AMX_TILE ? rows : AMX_TILE;
	amx_load_config(&(struct amx_config){
		.palette = 1,
		.row_bytes = { 64, 64, 64, 64, k, k, 64, 64 },
		.rows = { rows, rows, rows, rows, rows, rows, k / 4, k / 4 },
	});
}

/* Rows that are multiplied with a panel before the next one. */
#define AMX_MOST_ROWS 256
#define AMX_A_BYTES (1 << 20)

/* The same for @m rows of @k: their activations stay in L2, and all of them are divided evenly. */
static inline uint32_t amx_group_rows(uint32_t m, uint32_t k)
{
	uint32_t most = AMX_A_BYTES / k / AMX_TILE * AMX_TILE, groups;

	most = most < AMX_MOST_ROWS ? most : AMX_MOST_ROWS;
	most = most > AMX_TILE ? most : AMX_TILE;
	groups = (m + most - 1) / most;
	return (m + groups - 1) / groups;
}

/* Groups of k whose scales are floats: 16 channels and a tile of rows. */
struct amx_groups {
	const int8_t *a; /* of the first row and k */
	size_t lda;
	const uint8_t *w; /* s8 [k / 4][16][4], at distances of w_ld */
	uint32_t w_ld;
	uint32_t tiles, k; /* a group is @tiles times @k k */
	const float *scale, *min; /* of a group's 16 channels, at distances of ld */
	uint32_t ld;
	const float (*sum)[AMX_TILE]; /* with minima: of the rows' activations in each group */
};

/* Computes and stores the sums of the next group in tile @c, with operands in tiles @x and @y. */
#define AMX_GROUP(c, x, y)                                                           \
	do {                                                                         \
		_tile_zero(c);                                                       \
		for (i = 0; i < p->tiles; i++, a += p->k, w += p->k / 4 * p->w_ld) { \
			_tile_loadd(x, a, p->lda);                                   \
			_tile_loadd(y, w, p->w_ld);                                  \
			_tile_dpbssd(c, x, y);                                       \
		}                                                                    \
		_tile_stored(c, acc[c], 64);                                         \
	} while (0)

/*
 * c[16][64], 16 channels of it, += @groups groups, with @accs for their sums. Loading operands and
 * storing sums for the vector unit take a tile longer than the product does, so a group of 32 may
 * leave half of a tile's k empty.
 */
static inline __attribute__((always_inline)) void amx_groups(int32_t (*accs)[4][AMX_TILE][16],
							     const struct amx_groups *p,
							     const uint32_t groups, const bool mins,
							     float *c)
{
	const float *scale = p->scale, *min = p->min;
	int32_t(*acc)[AMX_TILE][16];
	const uint8_t *w = p->w;
	const int8_t *a = p->a;
	uint32_t g, i, j, r, now;
	__m512 y[16], d, dmin;

#pragma GCC unroll 16
	for (r = 0; r < 16; r++)
		y[r] = _mm512_load_ps(c + r * VNPU_PANEL_N);
	/* Four groups in four tiles, because a tile can be reused only after it has been stored. */
	for (g = 0; g < groups; g += now) {
		now = groups - g < 4 ? groups - g : 4;
		acc = accs[g / 4 % 2];
		AMX_GROUP(0, 4, 6);
		if (now > 1)
			AMX_GROUP(1, 5, 7);
		if (now > 2)
			AMX_GROUP(2, 4, 6);
		if (now > 3)
			AMX_GROUP(3, 5, 7);
		for (j = 0; j < now; j++, scale += p->ld, min += p->ld) {
			d = _mm512_load_ps(scale);
			dmin = mins ? _mm512_load_ps(min) : d;
#pragma GCC unroll 16
			for (r = 0; r < 16; r++) {
				y[r] = _mm512_fmadd_ps(
					_mm512_cvtepi32_ps(_mm512_load_si512(acc[j][r])), d, y[r]);
				if (mins)
					y[r] = _mm512_fnmadd_ps(_mm512_set1_ps(p->sum[g + j][r]),
								dmin, y[r]);
			}
		}
	}
#pragma GCC unroll 16
	for (r = 0; r < 16; r++)
		_mm512_store_ps(c + r * VNPU_PANEL_N, y[r]);
}
#undef AMX_GROUP

#endif /* KERNELS_AMX_H */
