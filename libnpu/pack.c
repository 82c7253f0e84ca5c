// SPDX-License-Identifier: MIT
/*
 * INT8 weights in panels of 64 output channels (vnpu_isa.h): [k/4][64][4] weights, 64 sums, 64 scales.
 */
#include <string.h>

#include "npu_graph.h"
#include "vnpu_isa.h"

size_t npu_w8_bytes(uint32_t n, uint32_t k)
{
	return ((uint64_t)n + VNPU_PANEL_N - 1) / VNPU_PANEL_N * VNPU_PANEL_I8_BYTES(k);
}

static void npu_pack_row(uint8_t *panel, uint32_t k, uint32_t lane, const int8_t *row, float scale)
{
	uint32_t groups = (k + 3) / 4, whole = k / 4;
	int8_t *w = (int8_t *)panel + lane * 4;
	int32_t sum = 0;

	for (uint32_t i = 0; i < k; i++)
		sum += row[i];
	for (uint32_t g = 0; g < whole; g++)
		memcpy(w + (size_t)g * 256, row + (size_t)g * 4, 4);
	if (whole < groups) {
		memset(w + (size_t)whole * 256, 0, 4);
		memcpy(w + (size_t)whole * 256, row + (size_t)whole * 4, k - whole * 4);
	}
	memcpy(panel + (size_t)groups * 256 + lane * 4, &sum, 4);
	memcpy(panel + (size_t)groups * 256 + 256 + lane * 4, &scale, 4);
}

static void npu_pack_zero_row(uint8_t *panel, uint32_t k, uint32_t lane)
{
	uint32_t groups = (k + 3) / 4;

	for (uint32_t g = 0; g < groups + 2; g++)
		memset(panel + (size_t)g * 256 + lane * 4, 0, 4);
}

void npu_pack_w8(void *panels, uint32_t n, uint32_t k, uint32_t n0, uint32_t nr, const int8_t *rows,
		 const float *scales)
{
	uint32_t end = n0 + nr;

	for (uint32_t i = 0; i < nr; i++) {
		uint32_t channel = n0 + i;
		uint8_t *panel = (uint8_t *)panels + channel / VNPU_PANEL_N * VNPU_PANEL_I8_BYTES(k);

		npu_pack_row(panel, k, channel % VNPU_PANEL_N, rows + (size_t)i * k, scales[i]);
	}
	if (end < n)
		return;
	for (uint32_t channel = end; channel % VNPU_PANEL_N; channel++)
		npu_pack_zero_row((uint8_t *)panels + channel / VNPU_PANEL_N * VNPU_PANEL_I8_BYTES(k), k,
				  channel % VNPU_PANEL_N);
}
