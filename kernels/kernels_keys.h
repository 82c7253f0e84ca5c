/* SPDX-License-Identifier: MIT */
/*
 * Packing keys for QK_I8. Part of kernels_float.h, which includes it.
 *
 * A position's numbers lie 256 bytes apart in its panel, four at a time. Positions side by side
 * share these lines, so packing a few rows writes each line from the cache.
 */

static void kernel_pack_keys(uint8_t *panels, const float *x, size_t ldx, uint32_t rows,
			     uint32_t head_dim, uint64_t pos, float s)
{
	int8_t q[VNPU_MAX_HEAD_DIM];
	float scale;
	uint8_t *to;

	for (uint32_t r = 0; r < rows; r++, pos++, x += ldx) {
		kernel_quant_static(q, &scale, x, head_dim, s);
		to = panels + pos / VNPU_QK_PANEL * VNPU_QK_PANEL_BYTES(head_dim) +
		     pos % VNPU_QK_PANEL * 4;
		for (uint32_t d = 0; d < head_dim; d += 4, to += VNPU_QK_PANEL * 4)
			memcpy(to, q + d, 4);
	}
}
