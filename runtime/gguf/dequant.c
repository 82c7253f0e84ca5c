// SPDX-License-Identifier: MIT
/*
 * Widening GGUF's tensor types to F32.
 *
 * A block type stores small integers with a scale (and for some an offset) per 16 or 32 of them;
 * the K types store these scales as small integers too, with one or two F16 scales per 256 values.
 * The generic kernels here define the result; the AVX2 kernels do the same operations in the same
 * order, so their results have the same bits.
 */
#include "dequant.h"

#include <string.h>

#include "gguf_blocks.h"
#include "gguf_levels.h"

/* A signalling NaN becomes quiet, as with the CPU's instruction. */
float dequant_one_f16(const uint8_t *p)
{
	uint16_t h;
	uint32_t sign, exponent, mantissa, bits;
	float f;

	memcpy(&h, p, sizeof(h));
	sign = (uint32_t)(h & 0x8000) << 16;
	exponent = (h >> 10) & 31;
	mantissa = h & 0x3ff;
	if (!exponent) {
		f = (float)mantissa * 0x1p-24f;
		return sign ? -f : f;
	}
	if (exponent == 31)
		bits = sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0);
	else
		bits = sign | (exponent + 112) << 23 | mantissa << 13;
	memcpy(&f, &bits, sizeof(f));
	return f;
}

static void dequant_f32(const uint8_t *src, float *dst, size_t n)
{
	memcpy(dst, src, n * sizeof(*dst));
}

static void dequant_f16(const uint8_t *src, float *dst, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		dst[i] = dequant_one_f16(src + 2 * i);
}

static void dequant_bf16(const uint8_t *src, float *dst, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		uint16_t h;
		uint32_t bits;

		memcpy(&h, src + 2 * i, sizeof(h));
		bits = (uint32_t)h << 16;
		memcpy(&dst[i], &bits, sizeof(bits));
	}
}

/* Q8_0: F16 scale, 32 signed bytes. */
static void dequant_q8_0(const uint8_t *src, float *dst, size_t n)
{
	size_t i;
	int j;

	for (i = 0; i < n; i += 32, src += 34) {
		float d = dequant_one_f16(src);

		for (j = 0; j < 32; j++)
			dst[i + j] = d * (float)(int8_t)src[2 + j];
	}
}

/*
 * Q4_0: F16 scale, 16 bytes: the low nibbles are the first 16 values, the high nibbles the others;
 * a nibble of 8 means 0.
 */
static void dequant_q4_0(const uint8_t *src, float *dst, size_t n)
{
	size_t i;
	int j;

	for (i = 0; i < n; i += 32, src += 18) {
		float d = dequant_one_f16(src);

		for (j = 0; j < 16; j++) {
			dst[i + j] = d * (float)((src[2 + j] & 15) - 8);
			dst[i + j + 16] = d * (float)((src[2 + j] >> 4) - 8);
		}
	}
}

/*
 * Q4_K and Q5_K: F16 scale d and F16 offset scale m; 12 bytes with a 6-bit scale and a 6-bit offset
 * for each of 8 groups of 32 values. The low 6 bits of bytes 0-3 and 4-7 are the scales and offsets
 * of groups 0-3. Bytes 8-11 hold the low 4 bits for groups 4-7 (scale in the low nibble, offset in
 * the high one), the top bits of bytes 0-7 their upper 2 bits.
 */
void dequant_k_scales(const uint8_t *src, float scale[8], float offset[8])
{
	float d = dequant_one_f16(src), m = dequant_one_f16(src + 2);
	const uint8_t *s = src + 4;
	int j;

	for (j = 0; j < 4; j++) {
		scale[j] = d * (float)(s[j] & 63);
		offset[j] = m * (float)(s[j + 4] & 63);
		scale[j + 4] = d * (float)((s[j + 8] & 15) | (s[j] >> 6) << 4);
		offset[j + 4] = m * (float)((s[j + 8] >> 4) | (s[j + 4] >> 6) << 4);
	}
}

/* Q4_K: the scales, then 128 bytes; each 32 hold two groups, in their low and high nibbles. */
static void dequant_q4_k(const uint8_t *src, float *dst, size_t n)
{
	float scale[8], offset[8];
	size_t i;
	int g, j;

	for (i = 0; i < n; i += 256, src += 144) {
		dequant_k_scales(src, scale, offset);
		for (g = 0; g < 8; g++) {
			const uint8_t *q = src + 16 + g / 2 * 32;

			for (j = 0; j < 32; j++)
				*dst++ = scale[g] * (float)(q[j] >> g % 2 * 4 & 15) - offset[g];
		}
	}
}

/*
 * Q5_K: the scales, 32 bytes of fifth bits (bit g of byte j: value j of group
 * g), 128 bytes as in Q4_K.
 */
static void dequant_q5_k(const uint8_t *src, float *dst, size_t n)
{
	float scale[8], offset[8];
	size_t i;
	int g, j;

	for (i = 0; i < n; i += 256, src += 176) {
		dequant_k_scales(src, scale, offset);
		for (g = 0; g < 8; g++) {
			const uint8_t *high = src + 16, *q = src + 48 + g / 2 * 32;

			for (j = 0; j < 32; j++) {
				int v = (q[j] >> g % 2 * 4 & 15) | (high[j] >> g & 1) << 4;

				*dst++ = scale[g] * (float)v - offset[g];
			}
		}
	}
}

/*
 * Q6_K: 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 signed scales (one per 16
 * values), F16 scale; a stored 32 means 0. In each half of 128 values, value j of group g (of 32
 * values) is nibble g / 2 of low byte g % 2 * 32 + j and bit pair g of upper byte j.
 */
static void dequant_q6_k(const uint8_t *src, float *dst, size_t n)
{
	size_t i;
	int half, g, j;

	for (i = 0; i < n; i += 256, src += 210) {
		const int8_t *scales = (const int8_t *)src + 192;
		float d = dequant_one_f16(src + 208);

		for (half = 0; half < 2; half++) {
			const uint8_t *low = src + half * 64, *high = src + 128 + half * 32;

			for (g = 0; g < 4; g++) {
				for (j = 0; j < 32; j++) {
					float s = d * (float)scales[half * 8 + g * 2 + j / 16];
					int v = (low[g % 2 * 32 + j] >> g / 2 * 4 & 15) |
						(high[j] >> g * 2 & 3) << 4;

					*dst++ = s * (float)(v - 32);
				}
			}
		}
	}
}

/* The others, from their parts. */
static void dequant_parts(enum gguf_type type, const uint8_t *src, float *dst, size_t n)
{
	const uint32_t bytes = gguf_type_traits(type)->block_bytes;
	const struct gguf_form f = gguf_form(type);
	uint8_t numbers[256];
	int8_t scale[16] = { 1 }, min[16] = { 1 };
	uint16_t d, dmin = 0;
	const struct gguf_parts parts = { numbers, &d, &dmin, scale, min };
	int zero = f.mins ? 0 : 1 << (f.bits - 1);

	for (size_t i = 0; i < n; i += f.block, src += bytes) {
		gguf_split(type, src, f.block, &parts);
		for (int g = 0; g < f.block / f.group; g++) {
			float s = dequant_one_f16((uint8_t *)&d) * (float)scale[g],
			      m = dequant_one_f16((uint8_t *)&dmin) * (float)min[g];

			for (int k = g * f.group; k < (g + 1) * f.group; k++) {
				float v = s * (float)(numbers[k] - zero);

				*dst++ = f.mins ? v - m : v;
			}
		}
	}
}

#define DEQUANT_PARTS(name, type)                                            \
	static void dequant_##name(const uint8_t *src, float *dst, size_t n) \
	{                                                                    \
		dequant_parts(type, src, dst, n);                            \
	}
DEQUANT_PARTS(q4_1, GGUF_Q4_1)
DEQUANT_PARTS(q5_0, GGUF_Q5_0)
DEQUANT_PARTS(q5_1, GGUF_Q5_1)
DEQUANT_PARTS(q2_k, GGUF_Q2_K)
DEQUANT_PARTS(q3_k, GGUF_Q3_K)

static void dequant_levels(enum gguf_type type, const uint8_t *src, float *dst, size_t n)
{
	const struct gguf_type_traits *traits = gguf_type_traits(type);
	struct gguf_levels block;

	for (size_t i = 0; i < n; i += traits->block_values, src += traits->block_bytes) {
		gguf_levels_of[type](src, &block);
		for (uint32_t k = 0; k < traits->block_values; k++)
			*dst++ = block.unit * (float)block.scale[k / GGUF_LEVELS_GROUP] *
				 (float)block.numbers[k];
	}
}

#define DEQUANT_LEVELS(name, type)                                           \
	static void dequant_##name(const uint8_t *src, float *dst, size_t n) \
	{                                                                    \
		dequant_levels(type, src, dst, n);                           \
	}
DEQUANT_LEVELS(iq1_s, GGUF_IQ1_S)
DEQUANT_LEVELS(iq1_m, GGUF_IQ1_M)
DEQUANT_LEVELS(iq2_xxs, GGUF_IQ2_XXS)
DEQUANT_LEVELS(iq2_xs, GGUF_IQ2_XS)
DEQUANT_LEVELS(iq2_s, GGUF_IQ2_S)
DEQUANT_LEVELS(iq3_xxs, GGUF_IQ3_XXS)
DEQUANT_LEVELS(iq3_s, GGUF_IQ3_S)
DEQUANT_LEVELS(iq4_nl, GGUF_IQ4_NL)
DEQUANT_LEVELS(iq4_xs, GGUF_IQ4_XS)
DEQUANT_LEVELS(tq1_0, GGUF_TQ1_0)
DEQUANT_LEVELS(tq2_0, GGUF_TQ2_0)
DEQUANT_LEVELS(mxfp4, GGUF_MXFP4)

const dequant_fn dequant_generic[GGUF_TYPES] = {
	[GGUF_F32] = dequant_f32,	  [GGUF_F16] = dequant_f16,
	[GGUF_BF16] = dequant_bf16,	  [GGUF_Q8_0] = dequant_q8_0,
	[GGUF_Q4_0] = dequant_q4_0,	  [GGUF_Q4_K] = dequant_q4_k,
	[GGUF_Q5_K] = dequant_q5_k,	  [GGUF_Q6_K] = dequant_q6_k,
	[GGUF_Q4_1] = dequant_q4_1,	  [GGUF_Q5_0] = dequant_q5_0,
	[GGUF_Q5_1] = dequant_q5_1,	  [GGUF_Q2_K] = dequant_q2_k,
	[GGUF_Q3_K] = dequant_q3_k,	  [GGUF_IQ1_S] = dequant_iq1_s,
	[GGUF_IQ1_M] = dequant_iq1_m,	  [GGUF_IQ2_XXS] = dequant_iq2_xxs,
	[GGUF_IQ2_XS] = dequant_iq2_xs,	  [GGUF_IQ2_S] = dequant_iq2_s,
	[GGUF_IQ3_XXS] = dequant_iq3_xxs, [GGUF_IQ3_S] = dequant_iq3_s,
	[GGUF_IQ4_NL] = dequant_iq4_nl,	  [GGUF_IQ4_XS] = dequant_iq4_xs,
	[GGUF_TQ1_0] = dequant_tq1_0,	  [GGUF_TQ2_0] = dequant_tq2_0,
	[GGUF_MXFP4] = dequant_mxfp4,
};

bool gguf_type_is_float(enum gguf_type type)
{
	return (unsigned int)type < GGUF_TYPES && dequant_generic[type];
}

void gguf_dequantize(enum gguf_type type, const void *src, float *dst, size_t n)
{
#if defined(__x86_64__)
	const dequant_fn simd = dequant_avx2(type);

	if (simd && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) {
		simd(src, dst, n);
		return;
	}
#endif
	dequant_generic[type](src, dst, n);
}
