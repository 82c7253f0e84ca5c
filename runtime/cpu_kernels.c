/* SPDX-License-Identifier: MIT */
/*
 * Float kernels of the CPU lane, portable, and the choice between the sets.
 *
 * Sums run in eight lanes, which compilers turn into vector instructions without being allowed to reorder anything.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "cpu_kernels.h"

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

static void matmul_generic(float *y, size_t ldy, const float *x, size_t ldx, unsigned int m, const float *w, size_t ldw,
			   unsigned int n, unsigned int k)
{
	for (unsigned int i = 0; i < m; i++) {
		for (unsigned int j = 0; j < n; j++)
			y[i * ldy + j] = dot_generic(x + i * ldx, w + j * ldw, k);
	}
}

static void weigh_generic(float *y, size_t ldy, const float *p, size_t ldp, unsigned int m, const float *v, size_t ldv,
			  unsigned int n, unsigned int d)
{
	for (unsigned int i = 0; i < m; i++) {
		float *row = y + i * ldy;

		memset(row, 0, d * sizeof(*row));
		for (unsigned int t = 0; t < n; t++) {
			float weight = p[i * ldp + t];

			for (unsigned int c = 0; c < d; c++)
				row[c] += weight * v[t * ldv + c];
		}
	}
}

static void rmsnorm_generic(float *y, const float *x, const float *w, unsigned int n, float eps)
{
	float scale = 1.0f / sqrtf(dot_generic(x, x, n) / (float)n + eps);

	for (unsigned int i = 0; i < n; i++)
		y[i] = x[i] * scale * w[i];
}

static void softmax_generic(float *x, unsigned int n, float scale)
{
	float max = x[0], acc[LANES] = { 0 }, inv;

	for (unsigned int i = 1; i < n; i++)
		max = x[i] > max ? x[i] : max;
	for (unsigned int i = 0; i < n; i++) {
		x[i] = expf((x[i] - max) * scale);
		acc[i % LANES] += x[i];
	}
	inv = 1.0f / lanes_sum(acc);
	for (unsigned int i = 0; i < n; i++)
		x[i] *= inv;
}

static void silu_mul_generic(float *y, const float *gate, const float *up, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

static void add_generic(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] += x[i];
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
	/* A subnormal scale may be so far from max / 127 that x / scale leaves -127..127. */
	for (size_t i = 0; i < n; i++) {
		float r = *scale > 0.0f ? nearbyintf(x[i] / *scale) : 0.0f;

		q[i] = (int8_t)(r > 127.0f ? 127.0f : r < -127.0f ? -127.0f : r);
	}
	return 0;
}

const struct cpu_kernels cpu_kernels_generic = {
	.name = "generic",
	.matmul = matmul_generic,
	.weigh = weigh_generic,
	.rmsnorm = rmsnorm_generic,
	.softmax = softmax_generic,
	.silu_mul = silu_mul_generic,
	.add = add_generic,
	.quant = quant_generic,
};

const struct cpu_kernels *cpu_kernels_get(const char *name)
{
#if defined(__x86_64__)
	bool avx2, avx512;

	__builtin_cpu_init();
	avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
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
