/* SPDX-License-Identifier: MIT */
/*
 * Unpacking of panels of MATMUL_WK to those of MATMUL_I8 (EdgeFlow 4.2); included by each set of
 * the CPU lane's kernels, with its WK_VEC.
 */
#ifndef CPU_KERNELS_UNPACK_H
#define CPU_KERNELS_UNPACK_H

#include "kernels_wk_vec.h"

/* Zeroes the lanes of a panel that have no channel: weights, sums and scales. */
static inline void unpack_no_channels(uint8_t *panel, uint32_t k, uint32_t lanes)
{
	for (uint32_t i = 0; i < (k + 3) / 4 + 2; i++)
		memset(panel + i * 256ull + lanes * 4, 0, (VNPU_PANEL_N - lanes) * 4);
}

static void unpack_wk(uint8_t *panel, const uint8_t *w, uint32_t k, uint32_t bits, uint32_t lanes,
		      bool past)
{
	const size_t weights = (k + 3) / 4 * 256ull, packed = (k + 7) / 8 * 64ull * bits;
	const uint32_t groups = k / 8;
	uint8_t last[512];

	if (past)
		wk_unpack_groups(panel, w, groups, bits, true);
	else
		wk_unpack_groups(panel, w, groups, bits, false);
	/* Up to 4 of 8 k that are not complete have half of a group in the panel. */
	if (k % 8) {
		wk_unpack_groups(last, w + groups * 64ull * bits, 1, bits, false);
		wk_end(last, k % 8);
		memcpy(panel + groups * 512ull, last, weights - groups * 512ull);
	}
	memcpy(panel + weights, w + packed, 512);
	if (lanes < VNPU_PANEL_N)
		unpack_no_channels(panel, k, lanes);
#if defined(__x86_64__)
	/* Such stores are ordered with others only by a fence: whoever learns that the panel is
	 * there must see it. */
	if (past)
		_mm_sfence();
#endif
}

#endif /* CPU_KERNELS_UNPACK_H */
