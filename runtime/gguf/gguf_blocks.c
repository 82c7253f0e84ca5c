// SPDX-License-Identifier: MIT
/* GGUF's block types, taken apart (gguf_blocks.h). */
#include "gguf_blocks.h"

#include <string.h>

#include "dequant.h"
#include "gguf_levels.h"

struct gguf_form gguf_form(enum gguf_type type)
{
	static const struct gguf_form forms[GGUF_TYPES] = {
		[GGUF_Q2_K] = { 256, 16, 2, 1 },  [GGUF_Q3_K] = { 256, 16, 3, 0 },
		[GGUF_Q4_K] = { 256, 32, 4, 1 },  [GGUF_Q5_K] = { 256, 32, 5, 1 },
		[GGUF_Q6_K] = { 256, 16, 6, 0 },  [GGUF_Q4_1] = { 32, 32, 4, 1 },
		[GGUF_Q5_0] = { 32, 32, 5, 0 },	  [GGUF_Q5_1] = { 32, 32, 5, 1 },
		[GGUF_IQ4_NL] = { 32, 32, 4, 0 }, [GGUF_IQ4_XS] = { 256, 32, 4, 0 },
	};

	return (unsigned int)type < GGUF_TYPES ? forms[type] : (struct gguf_form){ 0 };
}

/* 16 bytes of nibbles: the low ones are the first 16 values, the high ones the others. @fifth: bit
 * i is the fifth bit of value i. */
static void split_32(const uint8_t *nibbles, uint32_t fifth, uint8_t *numbers)
{
	for (int i = 0; i < 16; i++) {
		numbers[i] = (uint8_t)((nibbles[i] & 15) | (fifth >> i & 1) << 4);
		numbers[i + 16] = (uint8_t)(nibbles[i] >> 4 | (fifth >> (i + 16) & 1) << 4);
	}
}

/* Q4_1: F16 scale and offset, nibbles. Q5_0: F16 scale, 32 fifth bits, nibbles. Q5_1: both. IQ4_NL:
 * F16 scale, nibbles. */
static void split_small(enum gguf_type type, const uint8_t *src, struct gguf_parts *p)
{
	uint32_t fifth = 0;
	uint16_t offset;

	memcpy(p->d, src, 2);
	src += 2;
	if (type == GGUF_Q4_1 || type == GGUF_Q5_1) {
		memcpy(&offset, src, 2);
		*p->dmin = offset ^ 0x8000;
		src += 2;
	}
	if (type == GGUF_Q5_0 || type == GGUF_Q5_1) {
		memcpy(&fifth, src, 4);
		src += 4;
	}
	split_32(src, fifth, p->numbers);
}

/* Q2_K: 16 bytes with a 4-bit scale and a 4-bit minimum, 64 bytes of bit pairs, d, dmin. In each
 * half of 128 values, values 32 i .. 32 i + 31 are pair i of the half's 32 bytes. */
static void split_q2_k(const uint8_t *src, struct gguf_parts *p)
{
	for (int g = 0; g < 16; g++) {
		p->scale[g] = src[g] & 15;
		p->min[g] = (int8_t)(src[g] >> 4);
	}
	for (int i = 0; i < 256; i++)
		p->numbers[i] = src[16 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
	memcpy(p->d, src + 80, 2);
	memcpy(p->dmin, src + 82, 2);
}

/*
 * Q3_K: 32 bytes of third bits (bit i of byte j: value 32 i + j), 64 bytes of bit pairs as in Q2_K,
 * 12 bytes of 6-bit scales around 32, d. The low nibbles of the first 8 of these bytes are the low
 * bits of scales 0-7, the high ones those of 8-15; pair i of the other 4 has the upper bits of
 * scales 4 i .. 4 i + 3.
 */
static void split_q3_k(const uint8_t *src, struct gguf_parts *p)
{
	const uint8_t *s = src + 96;

	for (int g = 0; g < 16; g++)
		p->scale[g] = (int8_t)(((s[g % 8] >> g / 8 * 4 & 15) |
					(s[8 + g % 4] >> g / 4 * 2 & 3) << 4) -
				       32);
	for (int i = 0; i < 256; i++)
		p->numbers[i] =
			(uint8_t)((src[32 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3) |
				  (src[i % 32] >> i / 32 & 1) << 2);
	memcpy(p->d, src + 108, 2);
}

/* Q4_K, Q5_K: dequant_q4_k() and dequant_q5_k() have the layout. */
static void split_q45_k(enum gguf_type type, const uint8_t *src, struct gguf_parts *p)
{
	const uint8_t *s = src + 4, *high = src + 16, *low = src + (type == GGUF_Q5_K ? 48 : 16);

	memcpy(p->d, src, 2);
	memcpy(p->dmin, src + 2, 2);
	for (int j = 0; j < 4; j++) {
		p->scale[j] = s[j] & 63;
		p->min[j] = s[j + 4] & 63;
		p->scale[j + 4] = (int8_t)((s[j + 8] & 15) | s[j] >> 6 << 4);
		p->min[j + 4] = (int8_t)(s[j + 8] >> 4 | s[j + 4] >> 6 << 4);
	}
	for (int g = 0; g < 8; g++, low += g % 2 ? 0 : 32) {
		uint8_t *to = p->numbers + g * 32;

		for (int j = 0; j < 32; j++)
			to[j] = low[j] >> g % 2 * 4 & 15;
		for (int j = 0; type == GGUF_Q5_K && j < 32; j++)
			to[j] |= (high[j] >> g & 1) << 4;
	}
}

/* Q6_K: dequant_q6_k() has the layout. */
static void split_q6_k(const uint8_t *src, struct gguf_parts *p)
{
	for (int part = 0; part < 8; part++) {
		const uint8_t *low = src + part / 4 * 64 + part % 2 * 32,
			      *high = src + 128 + part / 4 * 32;
		uint8_t *to = p->numbers + part * 32;

		for (int j = 0; j < 32; j++)
			to[j] = (uint8_t)((low[j] >> part % 4 / 2 * 4 & 15) |
					  (high[j] >> part % 4 * 2 & 3) << 4);
	}
	memcpy(p->scale, src + 192, 16);
	memcpy(p->d, src + 208, 2);
}

/* IQ4_XS: gguf_levels_iq4_xs_scales() has the layout. */
static void split_iq4_xs(const uint8_t *src, struct gguf_parts *p)
{
	memcpy(p->d, src, 2);
	gguf_levels_iq4_xs_scales(src, p->scale);
	for (int g = 0; g < 8; g++)
		split_32(src + 8 + 16 * g, 0, p->numbers + 32 * g);
}

void gguf_split(enum gguf_type type, const void *src, size_t n, const struct gguf_parts *parts)
{
	const struct gguf_form f = gguf_form(type);
	const uint32_t bytes = gguf_type_traits(type)->block_bytes, groups = f.block / f.group;
	struct gguf_parts p = *parts;
	const uint8_t *block = src;

	for (size_t i = 0; i < n; i += f.block, block += bytes) {
		if (f.block == 32)
			split_small(type, block, &p);
		else if (type == GGUF_Q2_K)
			split_q2_k(block, &p);
		else if (type == GGUF_Q3_K)
			split_q3_k(block, &p);
		else if (type == GGUF_Q6_K)
			split_q6_k(block, &p);
		else if (type == GGUF_IQ4_XS)
			split_iq4_xs(block, &p);
		else
			split_q45_k(type, block, &p);
		p.numbers += f.block;
		p.d++;
		if (f.mins)
			p.dmin++;
		if (groups > 1)
			p.scale += groups;
		if (groups > 1 && f.mins)
			p.min += groups;
	}
}
