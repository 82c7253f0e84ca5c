// SPDX-License-Identifier: MIT
/*
 * Packing INT8 weights into the panels of VNPU_OP_MATMUL_I8 (vnpu_isa.h): 64 output channels, K in groups of 4, then the
 * channels' sums and scales.
 */
#include <string.h>

#include "npu_graph.h"
#include "vnpu_isa.h"

size_t npu_w8_bytes(uint32_t n, uint32_t k)
{
	uint64_t panels = ((uint64_t)n + VNPU_PANEL_N - 1) / VNPU_PANEL_N;

	return panels * VNPU_PANEL_I8_BYTES(k);
}

/* One panel from @nr <= 64 rows. */
static void pack_panel(uint8_t *panel, uint32_t k, uint32_t nr, const int8_t *rows, const float *scales)
{
	uint64_t groups = ((uint64_t)k + 3) / 4;
	int32_t sums[VNPU_PANEL_N] = { 0 };
	float padded[VNPU_PANEL_N] = { 0 };

	memset(panel, 0, groups * 256);
	for (uint32_t n = 0; n < nr; n++) {
		const int8_t *row = rows + (size_t)n * k;

		for (uint32_t i = 0; i < k; i++) {
			panel[(uint64_t)(i / 4) * 256 + n * 4 + i % 4] = (uint8_t)row[i];
			sums[n] += row[i];
		}
		padded[n] = scales[n];
	}
	memcpy(panel + groups * 256, sums, sizeof(sums));
	memcpy(panel + groups * 256 + sizeof(sums), padded, sizeof(padded));
}

void npu_pack_w8(void *panels, uint32_t n, uint32_t k, uint32_t n0, uint32_t nr, const int8_t *rows,
		 const float *scales)
{
	uint64_t panel_bytes = VNPU_PANEL_I8_BYTES(k);

	if (n0 >= n)
		return;
	if (nr > n - n0)
		nr = n - n0;
	for (uint32_t i = 0; i < nr; i += VNPU_PANEL_N) {
		uint32_t in_panel = nr - i < VNPU_PANEL_N ? nr - i : VNPU_PANEL_N;

		pack_panel((uint8_t *)panels + (n0 + i) / VNPU_PANEL_N * panel_bytes, k, in_panel, rows + (size_t)i * k,
			   scales + i);
	}
}
