// SPDX-License-Identifier: MIT
/* The ternary types, those of 16 uneven levels, and the table of all (gguf_levels.h). */
#include "gguf_levels.h"

#include <string.h>

const int8_t gguf_levels_iq4[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
				     1,	   13,	 25,  38,  53,	69,  89,  113 };
const int8_t gguf_levels_e2m1[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

/* 16 bytes: the low nibbles are the first 16 values, the high ones the others. */
static void look_up_32(const uint8_t *nibbles, const int8_t levels[16], int8_t *numbers)
{
	for (int i = 0; i < 16; i++) {
		numbers[i] = levels[nibbles[i] & 15];
		numbers[i + 16] = levels[nibbles[i] >> 4];
	}
}

/* IQ4_NL: F16 scale, nibbles. */
static void levels_iq4_nl(const uint8_t *block, struct gguf_levels *to)
{
	to->unit = dequant_one_f16(block);
	memset(to->scale, 1, 2);
	look_up_32(block + 2, gguf_levels_iq4, to->numbers);
}

void gguf_levels_iq4_xs_scales(const uint8_t *block, int8_t scale[8])
{
	uint16_t high;

	memcpy(&high, block + 2, sizeof(high));
	for (int g = 0; g < 8; g++) {
		int s = (block[4 + g / 2] >> g % 2 * 4 & 15) | (high >> 2 * g & 3) << 4;

		scale[g] = (int8_t)(s - 32);
	}
}

/*
 * IQ4_XS: F16 scale; 6-bit scales around 32 of 8 groups of 32, their upper bit pairs (16 bits,
 * little-endian) before their low nibbles (4 bytes); 16 bytes of nibbles for each group.
 */
static void levels_iq4_xs(const uint8_t *block, struct gguf_levels *to)
{
	int8_t scale[8];

	to->unit = dequant_one_f16(block);
	gguf_levels_iq4_xs_scales(block, scale);
	for (int g = 0; g < 8; g++) {
		memset(to->scale + 2 * g, scale[g], 2);
		look_up_32(block + 8 + 16 * g, gguf_levels_iq4, to->numbers + 32 * g);
	}
}

float gguf_levels_e8m0_half(uint8_t e)
{
	/* 2^(e - 128): a subnormal F32 for 0 and 1. */
	uint32_t bits = e < 2 ? 0x200000u << e : (uint32_t)(e - 1) << 23;
	float f;

	if (e == 255)
		bits = 0x7fc00000;
	memcpy(&f, &bits, sizeof(f));
	return f;
}

/*
 * MXFP4 (OCP Microscaling Formats 1.0, 5.3.3 and 5.4.1): the exponent of the scale, 2^(e - 127),
 * 255 for NaN; nibbles of sign, two bits of exponent and one of mantissa.
 */
static void levels_mxfp4(const uint8_t *block, struct gguf_levels *to)
{
	to->unit = gguf_levels_e8m0_half(*block);
	memset(to->scale, 1, 2);
	look_up_32(block + 1, gguf_levels_e2m1, to->numbers);
}

/*
 * The digits of bytes that hold five digits to the base 3, or four, as a fraction of 256: a digit
 * is what is above the point after multiplying by 3. Digit i of all bytes comes before digit i + 1.
 */
static int8_t *ternary_digits(const uint8_t *bytes, int n, int digits, int8_t *numbers)
{
	unsigned int power = 1;

	for (int i = 0; i < digits; i++, power *= 3)
		for (int j = 0; j < n; j++)
			*numbers++ = (int8_t)((bytes[j] * power % 256 * 3 >> 8) - 1);
	return numbers;
}

/* TQ1_0: 32 bytes of 160 values, 16 of 80, 4 of 16; F16 scale. */
static void levels_tq1_0(const uint8_t *block, struct gguf_levels *to)
{
	int8_t *numbers = ternary_digits(block, 32, 5, to->numbers);

	numbers = ternary_digits(block + 32, 16, 5, numbers);
	ternary_digits(block + 48, 4, 4, numbers);
	to->unit = dequant_one_f16(block + 52);
	memset(to->scale, 1, sizeof(to->scale));
}

/* TQ2_0: bit pairs around 1, in each half of 128 values as Q2_K's; F16 scale. */
static void levels_tq2_0(const uint8_t *block, struct gguf_levels *to)
{
	for (int i = 0; i < 256; i++)
		to->numbers[i] =
			(int8_t)((block[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3) - 1);
	to->unit = dequant_one_f16(block + 64);
	memset(to->scale, 1, sizeof(to->scale));
}

const gguf_levels_fn gguf_levels_of[GGUF_TYPES] = {
	[GGUF_IQ2_XXS] = gguf_levels_iq2_xxs, [GGUF_IQ2_XS] = gguf_levels_iq2_xs,
	[GGUF_IQ3_XXS] = gguf_levels_iq3_xxs, [GGUF_IQ1_S] = gguf_levels_iq1_s,
	[GGUF_IQ4_NL] = levels_iq4_nl,	      [GGUF_IQ3_S] = gguf_levels_iq3_s,
	[GGUF_IQ2_S] = gguf_levels_iq2_s,     [GGUF_IQ4_XS] = levels_iq4_xs,
	[GGUF_IQ1_M] = gguf_levels_iq1_m,     [GGUF_TQ1_0] = levels_tq1_0,
	[GGUF_TQ2_0] = levels_tq2_0,	      [GGUF_MXFP4] = levels_mxfp4,
};
