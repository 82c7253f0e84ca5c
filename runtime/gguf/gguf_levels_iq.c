// SPDX-License-Identifier: MIT
/*
 * The IQ types with code books (gguf_levels.h). Eight values are a point of a code book (two in
 * IQ3) for their magnitudes and a byte for their signs, the first value in the lowest bit. Some
 * types store only 7 of the 8 signs: their number is even.
 *
 * Scales are s + 1/2, or 2 s + 1, for small integers s. Here they are all 2 s + 1, and the unit is
 * d or a part of it.
 */
#include <string.h>

#include "gguf_codebooks.h"
#include "gguf_levels.h"

#define EACH_BYTE(x) (0x0101010101010101u * (x))

static uint16_t load_16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint32_t load_32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* The byte of 8 signs with an even number of ones whose lower 7 bits are @seven. */
static unsigned int even_signs(unsigned int seven)
{
	return seven | (unsigned int)__builtin_parity(seven) << 7;
}

/* Stores 8 magnitudes, none of them 0, with their signs. */
static void put_signed(int8_t *numbers, uint64_t magnitudes, unsigned int signs)
{
	/* Bit j of the signs in byte j, then a 1 in each byte that has one. */
	uint64_t ones = EACH_BYTE(signs) & 0x8040201008040201u;

	ones = (ones + EACH_BYTE(0x7fu)) >> 7 & EACH_BYTE(1u);
	magnitudes = (magnitudes ^ ones * 0xff) + ones;
	memcpy(numbers, &magnitudes, 8);
}

/* The scale of small integer @s, of the groups @g and, if @n is 2, @g + 1. */
static void put_scale(struct gguf_levels *to, int g, size_t n, unsigned int s)
{
	memset(to->scale + g, (int)(2 * s + 1), n);
}

/*
 * IQ2_XXS: F16 scale; for each 32 values four bytes of points, and 32 bits: four times 7 signs, 4
 * bits of scale. An eighth of d is the unit.
 */
void gguf_levels_iq2_xxs(const uint8_t *block, struct gguf_levels *to)
{
	const struct gguf_codebooks *books = gguf_codebooks();

	to->unit = dequant_one_f16(block) * 0.125f;
	for (int g = 0; g < 8; g++) {
		const uint8_t *point = block + 2 + 8 * g;
		uint32_t signs = load_32(point + 4);

		put_scale(to, 2 * g, 2, signs >> 28);
		for (int i = 0; i < 4; i++)
			put_signed(to->numbers + 32 * g + 8 * i, books->iq2_xxs[point[i]],
				   even_signs(signs >> 7 * i & 127));
	}
}

/* IQ2_XS: F16 scale; 32 times 16 bits, a point of 9 and 7 signs; 16 4-bit scales. */
void gguf_levels_iq2_xs(const uint8_t *block, struct gguf_levels *to)
{
	const struct gguf_codebooks *books = gguf_codebooks();

	to->unit = dequant_one_f16(block) * 0.125f;
	for (int i = 0; i < 32; i++) {
		uint16_t v = load_16(block + 2 + 2 * i);

		put_signed(to->numbers + 8 * i, books->iq2_xs[v & 511], even_signs(v >> 9));
	}
	for (int g = 0; g < 16; g++)
		put_scale(to, g, 1, block[66 + g / 2] >> g % 2 * 4 & 15);
}

/*
 * IQ2_S: F16 scale; 32 bytes of points, 32 of signs, 8 of the upper bit pairs of four points each;
 * 16 4-bit scales.
 */
void gguf_levels_iq2_s(const uint8_t *block, struct gguf_levels *to)
{
	const struct gguf_codebooks *books = gguf_codebooks();
	const uint8_t *low = block + 2, *signs = block + 34, *high = block + 66;

	to->unit = dequant_one_f16(block) * 0.125f;
	for (int i = 0; i < 32; i++)
		put_signed(to->numbers + 8 * i,
			   books->iq2_s[low[i] | (high[i / 4] >> i % 4 * 2 & 3) << 8], signs[i]);
	for (int g = 0; g < 16; g++)
		put_scale(to, g, 1, block[74 + g / 2] >> g % 2 * 4 & 15);
}

static uint64_t two_points(uint32_t low, uint32_t high)
{
	return low | (uint64_t)high << 32;
}

/*
 * IQ3_XXS: F16 scale; 64 bytes of points; for each 32 values 32 bits: four times 7 signs, 4 bits of
 * scale. A quarter of d is the unit.
 */
void gguf_levels_iq3_xxs(const uint8_t *block, struct gguf_levels *to)
{
	const struct gguf_codebooks *books = gguf_codebooks();
	const uint8_t *point = block + 2;

	to->unit = dequant_one_f16(block) * 0.25f;
	for (int g = 0; g < 8; g++) {
		uint32_t signs = load_32(block + 66 + 4 * g);

		put_scale(to, 2 * g, 2, signs >> 28);
		for (int i = 0; i < 4; i++, point += 2)
			put_signed(to->numbers + 32 * g + 8 * i,
				   two_points(books->iq3_xxs[point[0]], books->iq3_xxs[point[1]]),
				   even_signs(signs >> 7 * i & 127));
	}
}

/*
 * IQ3_S: F16 scale; 64 bytes of points, 8 of their ninth bits, 32 of signs; 8 4-bit scales, of 32
 * values each.
 */
void gguf_levels_iq3_s(const uint8_t *block, struct gguf_levels *to)
{
	const struct gguf_codebooks *books = gguf_codebooks();
	const uint8_t *low = block + 2, *ninth = block + 66, *signs = block + 74;

	to->unit = dequant_one_f16(block);
	for (int i = 0; i < 32; i++, low += 2) {
		unsigned int two = ninth[i / 4] >> i % 4 * 2;

		put_signed(to->numbers + 8 * i,
			   two_points(books->iq3_s[low[0] | (two & 1) << 8],
				      books->iq3_s[low[1] | (two & 2) << 7]),
			   signs[i]);
	}
	for (int g = 0; g < 8; g++)
		put_scale(to, 2 * g, 2, block[106 + g / 2] >> g % 2 * 4 & 15);
}

/* Stores 8 times the point's values, all with an eighth of them added or, if @minus, subtracted. */
static void put_shifted(int8_t *numbers, uint64_t point, unsigned int minus)
{
	/* The bytes are 128 + 8 too large, so nothing is carried or borrowed. */
	point = (point - EACH_BYTE(minus ? 9u : 7u)) ^ EACH_BYTE(0x80u);
	memcpy(numbers, &point, 8);
}

/*
 * IQ1_S: F16 scale; 32 bytes of points; for each 32 values 16 bits: four times 3 upper bits of a
 * point, 3 bits of scale, 1 bit whether an eighth is subtracted. An eighth of d is the unit.
 */
void gguf_levels_iq1_s(const uint8_t *block, struct gguf_levels *to)
{
	const struct gguf_codebooks *books = gguf_codebooks();
	const uint8_t *low = block + 2;

	to->unit = dequant_one_f16(block) * 0.125f;
	for (int g = 0; g < 8; g++, low += 4) {
		unsigned int v = load_16(block + 34 + 2 * g);

		put_scale(to, 2 * g, 2, v >> 12 & 7);
		for (int i = 0; i < 4; i++)
			put_shifted(to->numbers + 32 * g + 8 * i,
				    books->iq1[low[i] | (v >> 3 * i & 7) << 8], v >> 15);
	}
}

/*
 * IQ1_M: 32 bytes of points; 16 bytes with a nibble for each, 3 upper bits and whether an eighth is
 * subtracted; four times 16 bits: four 3-bit scales, of 16 values each, and a nibble of the F16
 * scale, the lowest one first.
 */
void gguf_levels_iq1_m(const uint8_t *block, struct gguf_levels *to)
{
	const struct gguf_codebooks *books = gguf_codebooks();
	const uint8_t *high = block + 32, *scales = block + 48;
	uint16_t half = 0;

	for (int i = 0; i < 4; i++)
		half |= (uint16_t)(load_16(scales + 2 * i) >> 12 << 4 * i);
	to->unit = dequant_one_f16((const uint8_t *)&half) * 0.125f;
	for (int g = 0; g < 16; g++)
		put_scale(to, g, 1, load_16(scales + g / 4 * 2) >> g % 4 * 3 & 7);
	for (int i = 0; i < 32; i++) {
		unsigned int v = high[i / 2] >> i % 2 * 4 & 15;

		put_shifted(to->numbers + 8 * i, books->iq1[block[i] | (v & 7) << 8], v >> 3);
	}
}
