// SPDX-License-Identifier: MIT
/*
 * Packs weights of 1 to 8 bits into panels of 64 output channels (vnpu_isa.h: MATMUL_WK): a table
 * of the panels' offsets and widths, then for each panel planes of 4, 2 and 1 bits, 64 sums and 64
 * scales.
 */
#include <string.h>

#include <npu/vnpu_isa.h>

#include "npu_graph.h"

/* The width of the panel of @channel; 0 if a channel in it has an invalid width. */
static uint32_t wk_panel_bits(const uint8_t *bits, uint32_t n, uint32_t channel)
{
	uint32_t first = channel / VNPU_PANEL_N * VNPU_PANEL_N, widest = 0;

	for (uint32_t i = first; i < n && i < first + VNPU_PANEL_N; i++) {
		if (!bits[i] || bits[i] > 8)
			return 0;
		if (bits[i] > widest)
			widest = bits[i];
	}
	return widest;
}

size_t npu_wk_bytes(uint32_t n, uint32_t k, const uint8_t *bits)
{
	uint64_t bytes = VNPU_WK_TABLE_BYTES(n);
	uint32_t widest;

	for (uint64_t i = 0; i < n; i += VNPU_PANEL_N) {
		widest = wk_panel_bits(bits, n, (uint32_t)i);
		if (!widest || bytes / 64 > UINT32_MAX)
			return 0;
		bytes += VNPU_PANEL_WK_BYTES(k, widest);
	}
	return bytes;
}

/* The number nearest to @q that a panel of @bits bits can represent. */
static int wk_nearest(int q, uint32_t bits)
{
	int top = (1 << (bits - 1)) - 1;

	if (bits == 1)
		return q > 0 ? 1 : -1;
	return q > top ? top : q < -top - 1 ? -top - 1 : q;
}

/*
 * Where the bits of number (k, lane) are stored, lowest bits first: places[0..nr - 1] each have
 * @width bits from bit @down of the byte at offset @at of the panel.
 */
struct wk_place {
	uint64_t at;
	uint32_t width, down;
};

static unsigned int wk_places(struct wk_place *places, uint32_t bits, uint32_t k, uint32_t lane)
{
	uint32_t line = k % 8 / 4 * 4 + lane / 16;
	uint64_t at = k / 8 * 64ull * bits + lane % 16 * 4 + k % 4;
	unsigned int nr = 0;

	for (uint32_t width = 8; width; width /= 2) {
		if (!(bits & width))
			continue;
		places[nr++] =
			(struct wk_place){ at + line % width * 64, width, line / width * width };
		at += width * 64;
	}
	return nr;
}

/* Packs one lane's numbers and scale; @row NULL: the lane has no channel, and its scale is 0. */
static void wk_pack_row(uint8_t *panel, uint32_t k, uint32_t bits, uint32_t lane, const int8_t *row,
			float scale)
{
	uint8_t *sums = panel + VNPU_PANEL_WK_BYTES(k, bits) - 512;
	struct wk_place places[4];
	int32_t sum = 0;

	/* Numbers beyond k are 0, with 1 bit -1. */
	for (uint32_t i = 0; i < (k + 7) / 8 * 8; i++) {
		int q = wk_nearest(row && i < k ? row[i] : 0, bits);
		uint32_t u = bits == 8	 ? (uint8_t)q
			     : bits == 1 ? q > 0
					 : (uint32_t)(q + (1 << (bits - 1)));
		unsigned int nr = wk_places(places, bits, i, lane);

		if (row && i < k)
			sum += q;
		for (unsigned int p = 0; p < nr; p++) {
			uint32_t mask = (1u << places[p].width) - 1;

			panel[places[p].at] =
				(uint8_t)((panel[places[p].at] & ~(mask << places[p].down)) |
					  (u & mask) << places[p].down);
			u >>= places[p].width;
		}
	}
	memcpy(sums + lane * 4, &sum, 4);
	memcpy(sums + 256 + lane * 4, &scale, 4);
}

void npu_pack_wk(void *panels, uint32_t n, uint32_t k, const uint8_t *bits, uint32_t n0,
		 uint32_t nr, const int8_t *rows, const float *scales)
{
	struct vnpu_wk_panel *table = panels;
	uint64_t at = VNPU_WK_TABLE_BYTES(n);
	uint32_t end = n0 + nr,
		 padded = end < n ? end : (n + VNPU_PANEL_N - 1) / VNPU_PANEL_N * VNPU_PANEL_N;

	for (uint32_t p = 0; p < n0 / VNPU_PANEL_N; p++)
		at += VNPU_PANEL_WK_BYTES(k, wk_panel_bits(bits, n, p * VNPU_PANEL_N));
	for (uint32_t i = n0; i < padded; i++) {
		uint32_t widest = wk_panel_bits(bits, n, i);

		if (i % VNPU_PANEL_N == 0)
			table[i / VNPU_PANEL_N] =
				(struct vnpu_wk_panel){ (uint32_t)(at / 64), widest };
		wk_pack_row((uint8_t *)panels + at, k, widest, i % VNPU_PANEL_N,
			    i < end ? rows + (size_t)(i - n0) * k : NULL,
			    i < end ? scales[i - n0] : 0);
		if (i % VNPU_PANEL_N == VNPU_PANEL_N - 1)
			at += VNPU_PANEL_WK_BYTES(k, widest);
	}
	if (end >= n)
		memset(table + padded / VNPU_PANEL_N, 0,
		       VNPU_WK_TABLE_BYTES(n) - padded / VNPU_PANEL_N * sizeof(*table));
}

void npu_unpack_wk(const void *panels, uint32_t k, uint32_t channel, int8_t *row, float *scale)
{
	const struct vnpu_wk_panel *entry =
		(const struct vnpu_wk_panel *)panels + channel / VNPU_PANEL_N;
	const uint8_t *panel = (const uint8_t *)panels + entry->offset * 64ull;
	uint32_t lane = channel % VNPU_PANEL_N, bits = entry->bits;
	struct wk_place places[4];

	for (uint32_t i = 0; i < k; i++) {
		unsigned int nr = wk_places(places, bits, i, lane), down = 0;
		uint32_t u = 0;

		for (unsigned int p = 0; p < nr; down += places[p++].width)
			u |= (panel[places[p].at] >> places[p].down & ((1u << places[p].width) - 1))
			     << down;
		row[i] = (int8_t)(bits == 8   ? (int)(int8_t)u
				  : bits == 1 ? 2 * (int)u - 1
					      : (int)u - (1 << (bits - 1)));
	}
	memcpy(scale, panel + VNPU_PANEL_WK_BYTES(k, bits) - 256 + lane * 4, 4);
}
