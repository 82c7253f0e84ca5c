/* SPDX-License-Identifier: MIT */
/*
 * Common parts of the kernels for 4-bit weights. A panel of MATMUL_W4 and _W4F is a sequence of
 * groups; a group is the numbers u8 [group / 8][64][4], with the first four k of eight in the low
 * halves of the bytes, and then f16 scale[64].
 */
#ifndef KERNELS_W4_H
#define KERNELS_W4_H

#include <string.h>

#include "kernels.h"

/* Subtracted from each number. */
#define W4_ZERO 8

/* Size of a group in a panel in bytes. */
static inline size_t w4_group_bytes(uint32_t group)
{
	return VNPU_PANEL_W4_BYTES(group, group);
}

/* The scales of a group. */
static inline const uint8_t *w4_scales(const uint8_t *w, uint32_t group)
{
	return w + (size_t)group * 32;
}

/* Number of channels in panel n0. */
static inline uint32_t w4_channels(const struct fw_matmul_w4 *t, uint32_t n0)
{
	return t->n - n0 < VNPU_PANEL_N ? t->n - n0 : VNPU_PANEL_N;
}

void fw_matmul_w4_avx2(const struct fw_matmul_w4 *t, void *scratch);
void fw_matmul_w4f_avx2(const struct fw_matmul_w4 *t, void *scratch);
void fw_matmul_w4_many_avx2(const struct fw_matmul_w4 *t, void *scratch);
void fw_matmul_w4_avx512(const struct fw_matmul_w4 *t, void *scratch);
void fw_matmul_w4_amx(const struct fw_matmul_w4 *t, void *scratch);
void fw_matmul_w4f_avx512(const struct fw_matmul_w4 *t, void *scratch);

#endif /* KERNELS_W4_H */
