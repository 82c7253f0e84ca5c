// SPDX-License-Identifier: MIT
/* GGUF's block types, put together: the inverse of gguf_blocks.c, which has the layouts. */
#include "gguf_blocks.h"

#include <string.h>

/* Bit pairs of 256 numbers, 64 bytes. */
static void join_pairs(const uint8_t *numbers, uint8_t *pairs)
{
	memset(pairs, 0, 64);
	for (int i = 0; i < 256; i++)
		pairs[i / 128 * 32 + i % 32] |= (uint8_t)((numbers[i] & 3) << i % 128 / 32 * 2);
}

static void join_q2_k(const struct gguf_parts *p, uint8_t *dst)
{
	for (int g = 0; g < 16; g++)
		dst[g] = (uint8_t)(p->scale[g] | p->min[g] << 4);
	join_pairs(p->numbers, dst + 16);
	memcpy(dst + 80, p->d, 2);
	memcpy(dst + 82, p->dmin, 2);
}

static void join_q3_k(const struct gguf_parts *p, uint8_t *dst)
{
	uint8_t *s = dst + 96;

	memset(dst, 0, 32);
	for (int i = 0; i < 256; i++)
		dst[i % 32] |= (uint8_t)(p->numbers[i] >> 2 << i / 32);
	join_pairs(p->numbers, dst + 32);
	memset(s, 0, 12);
	for (int g = 0; g < 16; g++) {
		int scale = p->scale[g] + 32;

		s[g % 8] |= (uint8_t)((scale & 15) << g / 8 * 4);
		s[8 + g % 4] |= (uint8_t)(scale >> 4 << g / 4 * 2);
	}
	memcpy(dst + 108, p->d, 2);
}

static void join_q45_k(enum gguf_type type, const struct gguf_parts *p, uint8_t *dst)
{
	uint8_t *s = dst + 4, *high = dst + 16, *low = dst + (type == GGUF_Q5_K ? 48 : 16);

	memcpy(dst, p->d, 2);
	memcpy(dst + 2, p->dmin, 2);
	for (int j = 0; j < 4; j++) {
		s[j] = (uint8_t)(p->scale[j] | p->scale[j + 4] >> 4 << 6);
		s[j + 4] = (uint8_t)(p->min[j] | p->min[j + 4] >> 4 << 6);
		s[j + 8] = (uint8_t)((p->scale[j + 4] & 15) | (p->min[j + 4] & 15) << 4);
	}
	if (type == GGUF_Q5_K)
		memset(high, 0, 32);
	for (int i = 0; i < 128; i++) {
		const uint8_t *from = p->numbers + i / 32 * 64 + i % 32;

		low[i] = (uint8_t)((from[0] & 15) | (from[32] & 15) << 4);
		if (type == GGUF_Q5_K)
			high[i % 32] |= (uint8_t)((from[0] >> 4) << i / 32 * 2 |
						  (from[32] >> 4) << (i / 32 * 2 + 1));
	}
}

static void join_q6_k(const struct gguf_parts *p, uint8_t *dst)
{
	memset(dst, 0, 192);
	for (int i = 0; i < 256; i++) {
		int part = i / 32;

		dst[part / 4 * 64 + part % 2 * 32 + i % 32] |=
			(uint8_t)((p->numbers[i] & 15) << part % 4 / 2 * 4);
		dst[128 + part / 4 * 32 + i % 32] |= (uint8_t)(p->numbers[i] >> 4 << part % 4 * 2);
	}
	memcpy(dst + 192, p->scale, 16);
	memcpy(dst + 208, p->d, 2);
}

void gguf_join(enum gguf_type type, const struct gguf_parts *parts, void *dst)
{
	if (type == GGUF_Q2_K)
		join_q2_k(parts, dst);
	else if (type == GGUF_Q3_K)
		join_q3_k(parts, dst);
	else if (type == GGUF_Q6_K)
		join_q6_k(parts, dst);
	else
		join_q45_k(type, parts, dst);
}
