// SPDX-License-Identifier: MIT
/*
 * Narrowing of F32 to GGUF's tensor types. The kernels here define the result;
 * gguf_quantize_avx2.c gives the same bits.
 */
#include "gguf_quantize.h"

#include <math.h>
#include <string.h>

#define F16_INFINITY 0x7c00

/* Rounds to nearest, ties to even; too great values become infinite. */
static uint16_t f32_to_f16(float f)
{
	uint32_t bits, sign, magnitude;

	memcpy(&bits, &f, sizeof(bits));
	sign = bits >> 16 & 0x8000;
	magnitude = bits & 0x7fffffff;
	if (magnitude >= 0x7f800000)
		return sign | F16_INFINITY | (magnitude > 0x7f800000) << 9;
	/*
	 * Below 2^-14, F16 values are multiples of 2^-24, as F32 values in 0.5..1 are, so the
	 * addition rounds.
	 */
	if (magnitude < 0x38800000) {
		float sum = fabsf(f) + 0.5f;

		memcpy(&bits, &sum, sizeof(bits));
		return sign | (bits - 0x3f000000);
	}
	/*
	 * Adds half a unit of the last bit kept, minus one if that bit is even. A carry increments
	 * the exponent.
	 */
	magnitude += 0xfff + (magnitude >> 13 & 1);
	magnitude = (magnitude >> 13) - (112 << 10);
	return sign | (magnitude < F16_INFINITY ? magnitude : F16_INFINITY);
}

/* Stores a block's scale. False: it is not finite. */
static bool put_scale(uint8_t *dst, float d, bool *zero)
{
	uint16_t h = f32_to_f16(d);

	memcpy(dst, &h, sizeof(h));
	*zero = !(h & 0x7fff);
	return (h & 0x7fff) < F16_INFINITY;
}

/* Finds the (first) value of greatest magnitude. False: not all values are finite. */
static bool greatest(const float *src, float *x)
{
	int j;

	*x = src[0];
	for (j = 0; j < 32; j++) {
		if (!isfinite(src[j]))
			return false;
		if (fabsf(src[j]) > fabsf(*x))
			*x = src[j];
	}
	return true;
}

static bool quantize_f32(const float *src, uint8_t *dst, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!isfinite(src[i]))
			return false;
	memcpy(dst, src, n * sizeof(*src));
	return true;
}

static bool quantize_f16(const float *src, uint8_t *dst, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		uint16_t h = f32_to_f16(src[i]);

		if ((h & 0x7fff) >= F16_INFINITY)
			return false;
		memcpy(dst + 2 * i, &h, sizeof(h));
	}
	return true;
}

static bool quantize_q8_0(const float *src, uint8_t *dst, size_t n)
{
	size_t i;
	int j;

	for (i = 0; i < n; i += 32, src += 32, dst += 34) {
		float x, d, inverse;
		bool zero;

		if (!greatest(src, &x))
			return false;
		d = fabsf(x) / 127;
		if (!put_scale(dst, d, &zero))
			return false;
		inverse = zero ? 0 : 1 / d;
		for (j = 0; j < 32; j++)
			dst[2 + j] = (uint8_t)(int8_t)roundf(src[j] * inverse);
	}
	return true;
}

static uint8_t nibble(float x)
{
	int q = (int)(x + 8.5f);

	return q < 15 ? q : 15;
}

static bool quantize_q4_0(const float *src, uint8_t *dst, size_t n)
{
	size_t i;
	int j;

	for (i = 0; i < n; i += 32, src += 32, dst += 18) {
		float x, d, inverse;
		bool zero;

		if (!greatest(src, &x))
			return false;
		d = x / -8;
		if (!put_scale(dst, d, &zero))
			return false;
		inverse = zero ? 0 : 1 / d;
		for (j = 0; j < 16; j++)
			dst[2 + j] = nibble(src[j] * inverse) | nibble(src[j + 16] * inverse) << 4;
	}
	return true;
}

/* The least and the greatest value. False: not all are finite. */
static bool find_range(const float *src, float *min, float *max)
{
	*min = *max = src[0];
	for (int j = 0; j < 32; j++) {
		if (!isfinite(src[j]))
			return false;
		if (src[j] < *min)
			*min = src[j];
		if (src[j] > *max)
			*max = src[j];
	}
	return true;
}

/* Numbers below 32: their low nibbles, and their fifth bits if @fifth is not NULL. */
static void put_numbers(uint8_t *nibbles, uint8_t *fifth, const uint8_t q[32])
{
	for (int j = 0; j < 16; j++)
		nibbles[j] = (q[j] & 15) | (q[j + 16] & 15) << 4;
	for (int j = 0; fifth && j < 32; j++)
		fifth[j / 8] = (j % 8 ? fifth[j / 8] : 0) | q[j] >> 4 << j % 8;
}

/* Q4_1 and Q5_1: a scale, the least value, fifth bits in Q5_1, and nibbles. */
static bool quantize_range(const float *src, uint8_t *dst, int most)
{
	float min, max, d, inverse;
	bool zero, zero_min;
	uint8_t q[32];

	if (!find_range(src, &min, &max))
		return false;
	d = (max - min) / (float)most;
	if (!put_scale(dst, d, &zero) || !put_scale(dst + 2, min, &zero_min))
		return false;
	inverse = zero ? 0 : 1 / d;
	for (int j = 0; j < 32; j++) {
		int n = (int)((src[j] - min) * inverse + 0.5f);

		q[j] = (uint8_t)(n < most ? n : most);
	}
	put_numbers(dst + (most > 15 ? 8 : 4), most > 15 ? dst + 4 : NULL, q);
	return true;
}

static bool quantize_q4_1(const float *src, uint8_t *dst, size_t n)
{
	for (size_t i = 0; i < n; i += 32, src += 32, dst += 20)
		if (!quantize_range(src, dst, 15))
			return false;
	return true;
}

static bool quantize_q5_1(const float *src, uint8_t *dst, size_t n)
{
	for (size_t i = 0; i < n; i += 32, src += 32, dst += 24)
		if (!quantize_range(src, dst, 31))
			return false;
	return true;
}

static bool quantize_q5_0(const float *src, uint8_t *dst, size_t n)
{
	for (size_t i = 0; i < n; i += 32, src += 32, dst += 22) {
		float x, d, inverse;
		uint8_t q[32];
		bool zero;

		if (!greatest(src, &x))
			return false;
		d = x / -16;
		if (!put_scale(dst, d, &zero))
			return false;
		inverse = zero ? 0 : 1 / d;
		for (int j = 0; j < 32; j++) {
			int number = (int)(src[j] * inverse + 16.5f);

			q[j] = (uint8_t)(number < 31 ? number : 31);
		}
		put_numbers(dst + 6, dst + 2, q);
	}
	return true;
}

const quantize_fn quantize_generic[GGUF_TYPES] = {
	[GGUF_F32] = quantize_f32,   [GGUF_F16] = quantize_f16,	  [GGUF_Q8_0] = quantize_q8_0,
	[GGUF_Q4_0] = quantize_q4_0, [GGUF_Q4_1] = quantize_q4_1, [GGUF_Q5_0] = quantize_q5_0,
	[GGUF_Q5_1] = quantize_q5_1,
};

bool gguf_searches(enum gguf_type type)
{
	return (type >= GGUF_Q2_K && type <= GGUF_Q6_K) || type == GGUF_IQ4_NL;
}

bool gguf_quantizes(enum gguf_type type)
{
	return gguf_searches(type) || quantize_generic[type];
}

bool gguf_quantize(enum gguf_type type, const float *src, void *dst, size_t n)
{
	if (gguf_searches(type))
		return gguf_quantize_searched(type, src, NULL, dst, n);
#if defined(__x86_64__)
	if (quantize_avx2[type] && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"))
		return quantize_avx2[type](src, dst, n);
#endif
	return quantize_generic[type](src, dst, n);
}
