// SPDX-License-Identifier: MIT
/*
 * Packs weights into panels of 64 output channels (vnpu_isa.h). INT8: [k/4][64][4] weights, 64
 * sums, 64 scales. 4 bits: for each group of k [group/8][64][4] bytes of two numbers, 64 scales.
 */
#include <string.h>

#include <npu/vnpu_isa.h>

#include "npu_graph.h"

size_t npu_w8_bytes(uint32_t n, uint32_t k)
{
	return ((uint64_t)n + VNPU_PANEL_N - 1) / VNPU_PANEL_N * VNPU_PANEL_I8_BYTES(k);
}

/*
 * Number of k packed for one channel before the next: a cache line of its row, written to one step
 * of the panel for each four k.
 */
#define RUN 64u

/* Copies @count numbers (a multiple of 4, at most RUN) of a lane to a panel; returns their sum. */
static inline __attribute__((always_inline)) int32_t w8_run(uint8_t *lane, const int8_t *row,
							    uint32_t count)
{
	uint32_t sums = 0; /* two 16-bit sums: of even and of odd numbers, each plus 128 */

#pragma GCC unroll 16
	for (uint32_t i = 0; i < count; i += 4)
		memcpy(lane + i * 64, row + i, 4);
	for (uint32_t i = 0; i < count; i += 4) {
		uint32_t four;

		memcpy(&four, row + i, 4);
		four ^= 0x80808080;
		sums += (four & 0x00ff00ff) + (four >> 8 & 0x00ff00ff);
	}
	return (int32_t)((sums & 0xffff) + (sums >> 16)) - 128 * (int32_t)count;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Packs @lanes rows into a panel and zeroes the lanes from @used on, which have no channel. */
static void w8_panel(uint8_t *panel, uint32_t k, uint32_t lanes, uint32_t used, const int8_t *rows,
		     const float *scales)
{
	uint32_t steps = (k + 3) / 4, k0, lane;
	int32_t sums[VNPU_PANEL_N] = { 0 };
	int8_t last[4];

	for (k0 = 0; k0 + RUN <= k; k0 += RUN)
		for (lane = 0; lane < lanes; lane++)
			sums[lane] += w8_run(panel + k0 * 64ull + lane * 4,
					     rows + (size_t)lane * k + k0, RUN);
	for (lane = 0; lane < lanes; lane++) {
		const int8_t *row = rows + (size_t)lane * k;
		uint32_t fours = k / 4 * 4;

		sums[lane] += w8_run(panel + k0 * 64ull + lane * 4, row + k0, fours - k0);
		if (fours < k) {
			memset(last, 0, sizeof(last));
			memcpy(last, row + fours, k - fours);
			sums[lane] += w8_run(panel + fours * 64ull + lane * 4, last, 4);
		}
	}
	memcpy(panel + steps * 256ull, sums, lanes * 4);
	memcpy(panel + steps * 256ull + 256, scales, lanes * 4);
	for (uint32_t i = 0; used < VNPU_PANEL_N && i < steps + 2; i++)
		memset(panel + i * 256ull + used * 4, 0, (VNPU_PANEL_N - used) * 4);
}

void npu_pack_w8(void *panels, uint32_t n, uint32_t k, uint32_t n0, uint32_t nr, const int8_t *rows,
		 const float *scales)
{
	uint8_t *panel = (uint8_t *)panels + n0 / VNPU_PANEL_N * VNPU_PANEL_I8_BYTES(k);

	for (uint32_t i = 0; i < nr; i += VNPU_PANEL_N, panel += VNPU_PANEL_I8_BYTES(k))
		w8_panel(panel, k, least(nr - i, VNPU_PANEL_N), least(n - n0 - i, VNPU_PANEL_N),
			 rows + (size_t)i * k, scales + i);
}

size_t npu_w4_bytes(uint32_t n, uint32_t k, uint32_t group)
{
	if ((group != 32 && group != 64 && group != 128) || k % group)
		return 0;
	return ((uint64_t)n + VNPU_PANEL_N - 1) / VNPU_PANEL_N * VNPU_PANEL_W4_BYTES(k, group);
}

/* Offset of the byte that holds numbers k and k + 4 of a channel, k % 8 < 4. */
static uint64_t w4_at(uint32_t k, uint32_t group, uint32_t channel)
{
	return VNPU_PANEL_W4_BYTES(k / group * group, group) + k % group / 8 * 256 +
	       channel % VNPU_PANEL_N * 4 + k % 4;
}

static uint64_t w4_scale_at(uint32_t g, uint32_t group, uint32_t channel)
{
	return VNPU_PANEL_W4_BYTES(g * group, group) + group * 32 + channel % VNPU_PANEL_N * 2;
}

/* Packs eight numbers: 0..3 into the low halves of four bytes, 4..7 into the high halves. */
static inline void w4_eight(uint8_t *dst, const uint8_t *numbers)
{
	uint32_t low, high;

	memcpy(&low, numbers, 4);
	memcpy(&high, numbers + 4, 4);
	low = (low & 0x0f0f0f0f) | (high & 0x0f0f0f0f) << 4;
	memcpy(dst, &low, 4);
}

/* Packs @lanes rows into a panel; lanes without a channel, from @used on, get zeros, scale 0. */
static void w4_panel(uint8_t *panel, uint32_t k, uint32_t group, uint32_t lanes, uint32_t used,
		     const uint8_t *numbers, const uint16_t *scales)
{
	uint32_t groups = k / group, rest = VNPU_PANEL_N - used;

	for (uint32_t g = 0; g < groups; g++, numbers += group, scales++) {
		for (uint32_t lane = 0; lane < lanes; lane++) {
			const uint8_t *from = numbers + (size_t)lane * k;

			for (uint32_t i = 0; i < group; i += 8)
				w4_eight(panel + i * 32 + lane * 4, from + i);
			memcpy(panel + group * 32 + lane * 2, scales + (size_t)lane * groups, 2);
		}
		for (uint32_t i = 0; rest && i < group; i += 8)
			memset(panel + i * 32 + used * 4, 0, rest * 4);
		panel += group * 32;
		memset(panel + used * 2, 0, rest * 2);
		panel += VNPU_PANEL_N * 2;
	}
}

void npu_pack_w4(void *panels, uint32_t n, uint32_t k, uint32_t group, uint32_t n0, uint32_t nr,
		 const uint8_t *numbers, const uint16_t *scales)
{
	uint8_t *panel = (uint8_t *)panels + n0 / VNPU_PANEL_N * VNPU_PANEL_W4_BYTES(k, group);

	for (uint32_t i = 0; i < nr; i += VNPU_PANEL_N, panel += VNPU_PANEL_W4_BYTES(k, group))
		w4_panel(panel, k, group, least(nr - i, VNPU_PANEL_N),
			 least(n - n0 - i, VNPU_PANEL_N), numbers + (size_t)i * k,
			 scales + (size_t)i * (k / group));
}

void npu_unpack_w4(const void *panels, uint32_t k, uint32_t group, uint32_t channel,
		   uint8_t *numbers, uint16_t *scales)
{
	const uint8_t *panel =
		(const uint8_t *)panels + channel / VNPU_PANEL_N * VNPU_PANEL_W4_BYTES(k, group);

	for (uint32_t i = 0; i < k; i++)
		numbers[i] = panel[w4_at(i, group, channel)] >> (i % 8 < 4 ? 0 : 4) & 15;
	for (uint32_t g = 0; g < k / group; g++)
		memcpy(&scales[g], panel + w4_scale_at(g, group, channel), sizeof(*scales));
}
