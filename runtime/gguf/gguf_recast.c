// SPDX-License-Identifier: MIT
/* Blocks rewritten in the layouts of other types (gguf_recast.h). */
#include "gguf_recast.h"

#include <string.h>

#include "gguf_levels.h"
#include "gguf_quantize.h"

enum gguf_type gguf_recast_type(enum gguf_type type)
{
	switch (type) {
	case GGUF_TQ1_0:
	case GGUF_TQ2_0:
		return GGUF_Q2_K;
	case GGUF_IQ3_S:
	case GGUF_IQ3_XXS:
		return GGUF_IQ4_XS;
	case GGUF_IQ2_XXS:
	case GGUF_IQ2_XS:
	case GGUF_IQ2_S:
	case GGUF_IQ1_S:
	case GGUF_IQ1_M:
		return GGUF_Q3_K;
	case GGUF_MXFP4:
		return GGUF_IQ4_NL;
	default:
		return type;
	}
}

const int8_t *gguf_recast_levels(enum gguf_type type)
{
	static const int8_t odd
		[16] = { -15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15 },
	     iq3_xxs[16] = { -62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62 },
	     iq2[16] = { -43, -25, -8, 8, 25, 43 }, iq1[16] = { -9, -7, -1, 1, 7, 9 };

	switch (type) {
	case GGUF_IQ3_S:
		return odd;
	case GGUF_IQ3_XXS:
		return iq3_xxs;
	case GGUF_IQ2_XXS:
	case GGUF_IQ2_XS:
	case GGUF_IQ2_S:
		return iq2;
	case GGUF_IQ1_S:
	case GGUF_IQ1_M:
		return iq1;
	case GGUF_MXFP4:
		return gguf_levels_e2m1;
	default:
		return NULL;
	}
}

/* Rounds to F16, to infinity what is too large or no number. */
static void put_f16(uint8_t *dst, float x)
{
	if (!gguf_quantize(GGUF_F16, &x, dst, 1))
		memcpy(dst, "\x00\x7c", 2);
}

/* d * (u - 1), of bit pairs u. */
static void put_q2_k(const struct gguf_levels *from, uint8_t *dst)
{
	memset(dst, 0x11, 16);
	memset(dst + 16, 0, 64);
	for (int i = 0; i < 256; i++)
		dst[16 + i / 128 * 32 + i % 32] |=
			(uint8_t)((from->numbers[i] + 1) << i % 128 / 32 * 2);
	put_f16(dst + 80, from->unit);
	put_f16(dst + 82, from->unit);
}

/* What the indices of levels are, by level as a byte. */
struct indices {
	uint8_t of[256];
};

static void indices_find(struct indices *x, const int8_t *levels)
{
	/* Of equal levels the first: MXFP4's two zeros, and those beyond the 6 of IQ1 and IQ2. */
	for (int i = 15; i >= 0; i--)
		x->of[(uint8_t)levels[i]] = (uint8_t)i;
}

/* 32 nibbles: the low ones are the first 16 values. */
static void put_nibbles(const struct indices *x, const int8_t *numbers, uint8_t *dst)
{
	for (int i = 0; i < 16; i++)
		dst[i] = (uint8_t)(x->of[(uint8_t)numbers[i]] | x->of[(uint8_t)numbers[i + 16]]
									<< 4);
}

static void put_iq4_nl(const struct gguf_levels *from, const struct indices *x, uint8_t *dst)
{
	put_f16(dst, from->unit);
	put_nibbles(x, from->numbers, dst + 2);
}

/* Scales of 8 groups (gguf_levels_iq4_xs_scales() has the layout). */
static void put_iq4_xs(const struct gguf_levels *from, const struct indices *x, uint8_t *dst)
{
	uint16_t high = 0;

	put_f16(dst, from->unit);
	memset(dst + 4, 0, 4);
	for (int g = 0; g < 8; g++) {
		int s = from->scale[2 * g] + 32;

		dst[4 + g / 2] |= (uint8_t)((s & 15) << g % 2 * 4);
		high |= (uint16_t)(s >> 4 << 2 * g);
		put_nibbles(x, from->numbers + 32 * g, dst + 8 + 16 * g);
	}
	memcpy(dst + 2, &high, 2);
}

/* Numbers of three bits, scales of 16 groups (split_q3_k() in gguf_blocks.c has the layout). */
static void put_q3_k(const struct gguf_levels *from, const struct indices *x, uint8_t *dst)
{
	memset(dst, 0, 108);
	for (int i = 0; i < 256; i++) {
		unsigned int u = x->of[(uint8_t)from->numbers[i]];

		dst[i % 32] |= (uint8_t)(u >> 2 << i / 32);
		dst[32 + i / 128 * 32 + i % 32] |= (uint8_t)((u & 3) << i % 128 / 32 * 2);
	}
	for (int g = 0; g < 16; g++) {
		int s = from->scale[g] + 32;

		dst[96 + g % 8] |= (uint8_t)((s & 15) << g / 8 * 4);
		dst[104 + g % 4] |= (uint8_t)(s >> 4 << g / 4 * 2);
	}
	put_f16(dst + 108, from->unit);
}

void gguf_recast(enum gguf_type type, const void *src, void *dst, size_t n)
{
	const enum gguf_type to = gguf_recast_type(type);
	const struct gguf_type_traits *from = gguf_type_traits(type);
	const int8_t *own = gguf_recast_levels(type);
	const uint8_t *block = src;
	struct gguf_levels levels;
	struct indices x = { { 0 } };
	uint8_t *out = dst;

	if (own)
		indices_find(&x, own);
	for (size_t i = 0; i < n; i += from->block_values) {
		gguf_levels_of[type](block, &levels);
		if (to == GGUF_Q2_K)
			put_q2_k(&levels, out);
		else if (to == GGUF_Q3_K)
			put_q3_k(&levels, &x, out);
		else if (to == GGUF_IQ4_XS)
			put_iq4_xs(&levels, &x, out);
		else
			put_iq4_nl(&levels, &x, out);
		block += from->block_bytes;
		out += gguf_type_traits(to)->block_bytes;
	}
}
