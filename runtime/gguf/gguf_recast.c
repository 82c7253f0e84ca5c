// SPDX-License-Identifier: MIT
/* Blocks rewritten in types with evenly spaced numbers (gguf_recast.h). */
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
	case GGUF_IQ1_S:
	case GGUF_IQ3_S:
		return GGUF_Q5_K;
	case GGUF_IQ1_M:
	case GGUF_IQ3_XXS:
		return GGUF_Q6_K;
	case GGUF_MXFP4:
		return GGUF_Q5_0;
	default:
		return type;
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

/* The scales of 8 groups twice, as scales and as minima (dequant_k_scales() has the layout). */
static void put_k_scales(uint8_t *dst, const int8_t *scale)
{
	for (int j = 0; j < 4; j++) {
		uint8_t s = (uint8_t)scale[2 * j], t = (uint8_t)scale[2 * j + 8];

		dst[j] = dst[j + 4] = (uint8_t)(s | t >> 4 << 6);
		dst[j + 8] = (uint8_t)((t & 15) | t << 4);
	}
}

/* d * scale * u - 16 d * scale, of 5 bits u: low nibbles of two groups in 32 bytes, and the bits of
 * all 8 groups. */
static void put_q5_k(const struct gguf_levels *from, uint8_t *dst)
{
	float d;

	put_f16(dst, from->unit);
	d = dequant_one_f16(dst);
	put_f16(dst + 2, 16 * d);
	put_k_scales(dst + 4, from->scale);
	memset(dst + 16, 0, 160);
	for (int i = 0; i < 256; i++) {
		int u = from->numbers[i] + 16;

		dst[16 + i % 32] |= (uint8_t)(u >> 4 << i / 32);
		dst[48 + i / 64 * 32 + i % 32] |= (uint8_t)((u & 15) << i / 32 % 2 * 4);
	}
}

/* d * scale * (u - 32), of 6 bits u, each @divide times smaller than its number. */
static void put_q6_k(const struct gguf_levels *from, uint8_t *dst, int divide)
{
	memset(dst, 0, 192);
	for (int i = 0; i < 256; i++) {
		int u = from->numbers[i] / divide + 32;

		dst[i / 128 * 64 + i % 64] |= (uint8_t)((u & 15) << i / 64 % 2 * 4);
		dst[128 + i / 128 * 32 + i % 32] |= (uint8_t)(u >> 4 << i / 32 % 4 * 2);
	}
	memcpy(dst + 192, from->scale, 16);
	put_f16(dst + 208, from->unit * (float)divide);
}

/* d * (u - 16), of 5 bits u. */
static void put_q5_0(const struct gguf_levels *from, uint8_t *dst)
{
	memset(dst + 2, 0, 20);
	for (int i = 0; i < 32; i++) {
		int u = from->numbers[i] + 16;

		dst[2 + i / 8] |= (uint8_t)(u >> 4 << i % 8);
		dst[6 + i % 16] |= (uint8_t)((u & 15) << i / 16 * 4);
	}
	put_f16(dst, from->unit);
}

void gguf_recast(enum gguf_type type, const void *src, void *dst, size_t n)
{
	const struct gguf_type_traits *from = gguf_type_traits(type),
				      *to = gguf_type_traits(gguf_recast_type(type));
	const uint8_t *block = src;
	struct gguf_levels levels;
	uint8_t *out = dst;

	for (size_t i = 0; i < n; i += from->block_values) {
		gguf_levels_of[type](block, &levels);
		if (gguf_recast_type(type) == GGUF_Q2_K)
			put_q2_k(&levels, out);
		else if (gguf_recast_type(type) == GGUF_Q5_K)
			put_q5_k(&levels, out);
		else if (gguf_recast_type(type) == GGUF_Q5_0)
			put_q5_0(&levels, out);
		else
			put_q6_k(&levels, out, type == GGUF_IQ3_XXS ? 2 : 1);
		block += from->block_bytes;
		out += to->block_bytes;
	}
}
