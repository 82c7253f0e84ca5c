// SPDX-License-Identifier: MIT
/*
 * The search for a group's scale rounds 32 values per candidate, so it is written with vectors and
 * compiled for each instruction set. Operations and their order are the same in all of them, so the
 * results are too.
 */
#include "quant_w4.h"

#include <string.h>

#include "gguf_quantize.h"

/* The loader chooses a clone before TSan is there, whose calls the choice would contain. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define CLONES
#endif

#define LANES 16
typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));

/* Candidates for peak / scale: 8 uses all of -8..7, more clips the peak, less wastes range. */
static const float spans[] = { 8.0f, 7.75f, 7.5f, 7.25f, 7.0f, 6.75f,
			       6.5f, 6.25f, 6.0f, 5.5f,	 8.5f, 9.0f };
#define NR_SPANS (sizeof(spans) / sizeof(spans[0]))

/* Vectors are passed by address, as the ABI of vector arguments depends on the instruction set. */
static inline __attribute__((always_inline)) float sum(const vf *p)
{
	vf v = *p;

	v += __builtin_shuffle(v, (vi){ 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7 });
	v += __builtin_shuffle(v, (vi){ 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11 });
	v += __builtin_shuffle(v, (vi){ 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13 });
	return v[0] + v[1];
}

/* x times @inverse, clamped to -8..7 and rounded to nearest even: adding 1.5 * 2^23 drops the
 * fraction. */
static inline __attribute__((always_inline)) void rounded(vf *y, const vf *x, float inverse)
{
	const vf zero = { 0 }, low = zero - 8, high = zero + 7;
	vf v = *x * inverse;

	v = (v + 12582912.0f) - 12582912.0f;
	v = (vf)(((vi)v & (v > low)) | ((vi)low & ~(v > low)));
	*y = (vf)(((vi)v & (v < high)) | ((vi)high & ~(v < high)));
}

/* The best scale of a group; @peak is its value of greatest magnitude. */
CLONES static float search(const float *x, float peak)
{
	float best = 0, scale = 0;
	vf a, b, p, q, y;

	memcpy(&a, x, sizeof(a));
	memcpy(&b, x + LANES, sizeof(b));
	for (size_t i = 0; i < 2 * NR_SPANS; i++) {
		float inverse = (i % 2 ? spans[i / 2] : -spans[i / 2]) / peak;
		float xq, qq;

		rounded(&p, &a, inverse);
		rounded(&q, &b, inverse);
		y = a * p + b * q;
		xq = sum(&y);
		y = p * p + q * q;
		qq = sum(&y);
		/* |x - s q|^2 is least for s = xq / qq: |x|^2 - xq^2 / qq. */
		if (xq * xq > best * qq) {
			best = xq * xq / qq;
			scale = xq / qq;
		}
	}
	return scale;
}

CLONES static void round_group(const float *x, float inverse, uint8_t *q)
{
	for (int i = 0; i < QUANT_W4_GROUP; i += LANES) {
		float y[LANES];
		vf v;

		memcpy(&v, x + i, sizeof(v));
		rounded(&v, &v, inverse);
		v += 8;
		memcpy(y, &v, sizeof(y));
		for (int k = 0; k < LANES; k++)
			q[i + k] = (uint8_t)(int)y[k];
	}
}

/* The value of greatest magnitude; false: one is not finite. */
static bool peak_of(const float *x, float *peak)
{
	*peak = 0;
	for (int i = 0; i < QUANT_W4_GROUP; i++) {
		float m = x[i] < 0 ? -x[i] : x[i], top = *peak < 0 ? -*peak : *peak;

		if (!(m < __builtin_inff()))
			return false;
		if (m > top)
			*peak = x[i];
	}
	return true;
}

bool quant_w4(const float *x, size_t n, uint8_t *q, uint16_t *scale)
{
	for (size_t i = 0; i < n; i += QUANT_W4_GROUP, scale++) {
		float peak, s, stored;

		if (!peak_of(x + i, &peak))
			return false;
		/* Squares of smaller values underflow, and reciprocals of their scales overflow. */
		s = peak > 1e-15f || peak < -1e-15f ? search(x + i, peak) : 0;
		if (!gguf_quantize(GGUF_F16, &s, scale, 1))
			return false;
		gguf_dequantize(GGUF_F16, scale, &stored, 1);
		round_group(x + i, stored != 0 ? 1 / stored : 0, q + i);
	}
	return true;
}
