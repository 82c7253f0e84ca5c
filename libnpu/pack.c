// SPDX-License-Identifier: MIT
/*
 * Weights in panels of 64 output channels (vnpu_isa.h). INT8: [k/4][64][4] weights, 64 sums, 64 scales. 4 bits: for each group
 * of k [group/8][64][4] bytes of two numbers, 64 scales.
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

size_t npu_w4_bytes(uint32_t n, uint32_t k, uint32_t group)
{
	if ((group != 32 && group != 64 && group != 128) || k % group)
		return 0;
	return ((uint64_t)n + VNPU_PANEL_N - 1) / VNPU_PANEL_N * VNPU_PANEL_W4_BYTES(k, group);
}

/* Where numbers k and k + 4 of a channel are, k % 8 < 4. */
static uint64_t w4_at(uint32_t k, uint32_t group, uint32_t channel)
{
	return VNPU_PANEL_W4_BYTES(k / group * group, group) + k % group / 8 * 256 + channel % VNPU_PANEL_N * 4 + k % 4;
}

static uint64_t w4_scale_at(uint32_t g, uint32_t group, uint32_t channel)
{
	return VNPU_PANEL_W4_BYTES(g * group, group) + group * 32 + channel % VNPU_PANEL_N * 2;
}

/* Numbers and scales NULL: zeros, which multiply with a scale of 0. */
static void npu_pack_w4_row(uint8_t *panel, uint32_t k, uint32_t group, uint32_t channel, const uint8_t *numbers,
			    const uint16_t *scales)
{
	uint16_t scale;

	for (uint32_t i = 0; i < k; i += i % 8 == 3 ? 5 : 1)
		panel[w4_at(i, group, channel)] = numbers ? (numbers[i] & 15) | (numbers[i + 4] & 15) << 4 : 0;
	for (uint32_t g = 0; g < k / group; g++) {
		scale = scales ? scales[g] : 0;
		memcpy(panel + w4_scale_at(g, group, channel), &scale, sizeof(scale));
	}
}

void npu_pack_w4(void *panels, uint32_t n, uint32_t k, uint32_t group, uint32_t n0, uint32_t nr, const uint8_t *numbers,
		 const uint16_t *scales)
{
	uint32_t end = n0 + nr;

	for (uint32_t i = 0; i < nr; i++)
		npu_pack_w4_row((uint8_t *)panels + (n0 + i) / VNPU_PANEL_N * VNPU_PANEL_W4_BYTES(k, group), k, group,
				n0 + i, numbers + (size_t)i * k, scales + (size_t)i * (k / group));
	if (end < n)
		return;
	for (uint32_t channel = end; channel % VNPU_PANEL_N; channel++)
		npu_pack_w4_row((uint8_t *)panels + channel / VNPU_PANEL_N * VNPU_PANEL_W4_BYTES(k, group), k, group,
				channel, NULL, NULL);
}

void npu_unpack_w4(const void *panels, uint32_t k, uint32_t group, uint32_t channel, uint8_t *numbers, uint16_t *scales)
{
	const uint8_t *panel = (const uint8_t *)panels + channel / VNPU_PANEL_N * VNPU_PANEL_W4_BYTES(k, group);

	for (uint32_t i = 0; i < k; i++)
		numbers[i] = panel[w4_at(i, group, channel)] >> (i % 8 < 4 ? 0 : 4) & 15;
	for (uint32_t g = 0; g < k / group; g++)
		memcpy(&scales[g], panel + w4_scale_at(g, group, channel), sizeof(*scales));
}
