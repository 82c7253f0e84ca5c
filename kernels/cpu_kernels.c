/* SPDX-License-Identifier: MIT */
/*
 * Portable kernels of the CPU lane, and the choice between the sets.
 *
 * Sums run in eight lanes, so that compilers can vectorise them without reordering operations.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Vectors of the compiler: NEON or SSE2, or words where there is neither. */
#define WK_VEC 16
#include "cpu_kernels_unpack.h"
#include "cpu_kernels_vocab.h"
#include "kernels.h"

#define LANES 8

static float lanes_sum(const float *acc)
{
	return ((acc[0] + acc[4]) + (acc[1] + acc[5])) + ((acc[2] + acc[6]) + (acc[3] + acc[7]));
}

static float dot_generic(const float *a, const float *b, unsigned int n)
{
	float acc[LANES] = { 0 };
	unsigned int i = 0;

	for (; i + LANES <= n; i += LANES) {
		for (unsigned int l = 0; l < LANES; l++)
			acc[l] += a[i + l] * b[i + l];
	}
	for (unsigned int l = 0; i < n; i++, l++)
		acc[l] += a[i] * b[i];
	return lanes_sum(acc);
}

static void matmul_generic(float *y, size_t ldy, const float *x, size_t ldx, unsigned int m,
			   const float *w, size_t ldw, unsigned int n, unsigned int k)
{
	for (unsigned int i = 0; i < m; i++) {
		for (unsigned int j = 0; j < n; j++)
			y[i * ldy + j] = dot_generic(x + i * ldx, w + j * ldw, k);
	}
}

static int quant_generic(int8_t *q, float *scale, const float *x, size_t n)
{
	float max = 0.0f;
	bool finite = true;

	for (size_t i = 0; i < n; i++) {
		float a = fabsf(x[i]);

		finite &= isfinite(x[i]) != 0;
		max = a > max ? a : max;
	}
	if (!finite)
		return -1;
	*scale = max / 127.0f;
	/* A subnormal scale may differ so much from max / 127 that x / scale leaves -127..127. */
	for (size_t i = 0; i < n; i++) {
		float r = *scale > 0.0f ? nearbyintf(x[i] / *scale) : 0.0f;

		q[i] = (int8_t)(r > 127.0f ? 127.0f : r < -127.0f ? -127.0f : r);
	}
	return 0;
}

static size_t beyond_generic(uint32_t *found, const float *x, size_t n, float limit)
{
	size_t nr = 0;

	for (size_t i = 0; i < n; i++)
		if (fabsf(x[i]) > limit)
			found[nr++] = (uint32_t)i;
	return nr;
}

static void sum_rows_generic(float *y, const uint16_t *const *w, const float *a, size_t rows,
			     size_t n)
{
	memset(y, 0, n * sizeof(*y));
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < n; j++)
			y[j] = fmaf(a[i], fw_f16_to_f32(w[i][j]), y[j]);
}

const struct cpu_kernels cpu_kernels_generic = {
	.name = "generic",
	.matmul = matmul_generic,
	.quant = quant_generic,
	.exp = exp_all,
	.sum_exp = sum_exp,
	.range = range,
	.block_max = block_max,
	.count_from = count_from,
	.bucket = bucket,
	.beyond = beyond_generic,
	.sum_rows = sum_rows_generic,
	.pack = &cpu_pack_generic,
	.unpack_wk = unpack_wk,
};

const struct cpu_kernels *cpu_kernels_get(const char *name)
{
#if defined(__x86_64__)
	bool avx2, avx512;

	__builtin_cpu_init();
	avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	       __builtin_cpu_supports("f16c");
	avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
		 __builtin_cpu_supports("avx512vnni");
	if (avx512 && (!name || !strcmp(name, "avx512")))
		return &cpu_kernels_avx512;
	if (avx2 && (!name || !strcmp(name, "avx2")))
		return &cpu_kernels_avx2;
#endif
	return !name || !strcmp(name, "generic") ? &cpu_kernels_generic : NULL;
}
