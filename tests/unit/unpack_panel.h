/* SPDX-License-Identifier: MIT */
/* Panels of MATMUL_WK, and the panels of MATMUL_I8 with the same numbers: the long way, by rows. */
#ifndef UNPACK_PANEL_H
#define UNPACK_PANEL_H

#include <stdlib.h>
#include <string.h>

#include "fw_data.h"
#include "npu_graph.h"

/* Packs @lanes (1..64) channels of @k random numbers as a matrix of one panel of @bits bits.
 * Returns the matrix, of npu_wk_bytes(); free() it. */
static inline uint8_t *unpack_random_wk(uint32_t lanes, uint32_t k, uint32_t bits)
{
	int8_t *rows = malloc((size_t)lanes * k);
	uint8_t widths[VNPU_PANEL_N], *packed;
	float scales[VNPU_PANEL_N];

	memset(widths, (int)bits, sizeof(widths));
	for (size_t i = 0; i < (size_t)lanes * k; i++)
		rows[i] = random_wk(bits);
	for (uint32_t i = 0; i < lanes; i++)
		scales[i] = rng_float();
	packed = aligned_alloc(64, npu_wk_bytes(lanes, k, widths));
	npu_pack_wk(packed, lanes, k, widths, 0, lanes, rows, scales);
	free(rows);
	return packed;
}

/* Unpacks that matrix row by row, and packs the rows into @panel, of npu_w8_bytes(). */
static inline void unpack_by_rows(uint8_t *panel, const uint8_t *packed, uint32_t lanes, uint32_t k)
{
	int8_t *rows = malloc((size_t)lanes * k);
	float scales[VNPU_PANEL_N];

	for (uint32_t i = 0; i < lanes; i++)
		npu_unpack_wk(packed, k, i, rows + (size_t)i * k, scales + i);
	npu_pack_w8(panel, lanes, k, 0, lanes, rows, scales);
	free(rows);
}

#endif /* UNPACK_PANEL_H */
