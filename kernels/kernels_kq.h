/* SPDX-License-Identifier: MIT */
/*
 * Common parts of the kernels for GGUF's block types (vnpu_isa.h: MATMUL_KQ). Eight planes' bits of
 * the same byte are eight "quads" of k: quad i of 32 k has the k 4 i to 4 i + 3.
 */
#ifndef KERNELS_KQ_H
#define KERNELS_KQ_H

#include <string.h>

#include "kernels.h"

#define KQ_MAX_GROUPS 16 /* of a block */

/*
 * Without minima, what a number counts for less 2^kq_zero_bits(). Levels are used that much larger,
 * as unsigned bytes.
 */
static inline uint32_t kq_zero_bits(struct vnpu_kq_form f)
{
	switch (f.levels) {
	case VNPU_KQ_LEVELS_IQ4:
		return 7;
	case VNPU_KQ_LEVELS_IQ3_XXS:
	case VNPU_KQ_LEVELS_IQ2:
		return 6;
	case VNPU_KQ_LEVELS_EVEN:
		return f.bits - 1u;
	default:
		return 4;
	}
}

/* Subtracted from each number, and with levels from each level. */
static inline int kq_zero(struct vnpu_kq_form f)
{
	return f.mins ? 0 : 1 << kq_zero_bits(f);
}

/* Bits of the greatest of the numbers, or levels, from which the zero is subtracted. */
static inline uint32_t kq_unsigned_bits(struct vnpu_kq_form f)
{
	return f.levels ? kq_zero_bits(f) + 1 : f.bits;
}

/* A block of a panel. */
struct kq_block {
	const uint8_t *d, *dmin; /* f16 [64]; dmin is NULL without minima */
	const int8_t *scale, *min; /* [groups / 2][64][2]; NULL in blocks of 32 */
	const uint8_t *numbers;
};

static inline struct kq_block kq_block(const uint8_t *w, struct vnpu_kq_form f)
{
	size_t scales = f.block > 32 ? f.block / f.group * 64u : 0;
	struct kq_block b = { .d = w };

	w += 128;
	if (f.mins) {
		b.dmin = w;
		w += 128;
	}
	if (scales) {
		b.scale = (const int8_t *)w;
		w += scales;
		b.min = f.mins ? (const int8_t *)w : NULL;
		w += f.mins ? scales : 0;
	}
	b.numbers = w;
	return b;
}

/* Number of channels in panel n0. */
static inline uint32_t kq_channels(const struct fw_matmul_kq *t, uint32_t n0)
{
	return t->n - n0 < VNPU_PANEL_N ? t->n - n0 : VNPU_PANEL_N;
}

void fw_matmul_kq_avx2(const struct fw_matmul_kq *t, void *scratch);
void fw_matmul_kq_many_avx2(const struct fw_matmul_kq *t, void *scratch);
void fw_matmul_kq_avx512(const struct fw_matmul_kq *t, void *scratch);
void fw_matmul_kq_amx(const struct fw_matmul_kq *t, void *scratch);

#endif /* KERNELS_KQ_H */
