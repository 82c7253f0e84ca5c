/* SPDX-License-Identifier: MIT */
/*
 * Kernels of the CPU lane that the device does not have: F32 matmul, quantisation of weights,
 * shadow outliers, packing, unpacking, and what a sampler does with all logits. Portable C, AVX2 +
 * FMA, or AVX-512, chosen at run time; on aarch64 portable C, whose unpacking the compiler makes
 * NEON. The CPU lane's other float operators are the device's (kernels/kernels.h).
 *
 * Within one instruction set, every result element is computed by the same operations in the same
 * order, whatever the number of rows, the blocking or the threads; so chunk sizes and thread counts
 * never change a result. Between instruction sets, results differ by rounding;
 * tests/unit/test_cpu_kernels.c has the bounds.
 */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu_kernels_pack.h"

#define CPU_KERNELS_BLOCK 64

struct cpu_kernels {
	const char *name; /* "generic", "avx2", "avx512" */

	/* Y = X @ W^T: y[m][n] (ldy), x[m][k] (ldx), w[n][k] (ldw). */
	void (*matmul)(float *y, size_t ldy, const float *x, size_t ldx, unsigned int m,
		       const float *w, size_t ldw, unsigned int n, unsigned int k);
	/* Symmetric INT8: *scale = max|x| / 127, q = round-to-nearest-even(x / *scale); a row of
	 * zeros gets scale 0. Returns -1 if x has a NaN or an infinity. */
	int (*quant)(int8_t *q, float *scale, const float *x, size_t n);

	/* The following have the same bits in all sets. */

	/* p = exp((x - max) / temperature), 0 if it is below 1e-307 or x is a NaN; returns their
	 * sum. No x is above max, a finite number. */
	double (*exp)(double *p, const float *x, size_t n, float max, float temperature);
	/* The sum of exp(x - max), each within 4e-7 (1 + max - x) of itself; NaNs count nothing. No
	 * x is above max, a finite number. A quarter of what exp() takes. */
	double (*sum_exp)(const float *x, size_t n, float max);
	/* The smallest and the greatest number except NaNs; INFINITY, -INFINITY: there is none. */
	void (*range)(float *least, float *most, const float *x, size_t n);
	/* The greatest of each CPU_KERNELS_BLOCK values in a row, as range(). */
	void (*block_max)(float *max, const float *x, size_t n);
	/* How many values are at least @least. */
	size_t (*count_from)(const float *x, size_t n, float least);
	/* of = (most - x) / range * last, cut to an integer and limited to last: never less for a
	 * lesser x. No x is above most; all are finite; last < 2^24. */
	void (*bucket)(int32_t *of, const float *x, size_t n, float most, float range,
		       int32_t last);
	/* The indices of |x| > limit, ascending, in found [n]; returns how many. */
	size_t (*beyond)(uint32_t *found, const float *x, size_t n, float limit);
	/* y[j] = sum over i of a[i] w[i][j], rows of F16: from 0, an fma for each i in order. */
	void (*sum_rows)(float *y, const uint16_t *const *w, const float *a, size_t rows, size_t n);
	const struct cpu_pack *pack; /* weights into panels; cpu_kernels_pack.h */

	/*
	 * Unpacks a panel of MATMUL_WK of @bits (1..8) bits, w[VNPU_PANEL_WK_BYTES(k, bits)], to
	 * the panel of MATMUL_I8 with the same numbers, sums and scales (EdgeFlow 4.2):
	 * panel[VNPU_PANEL_I8_BYTES(k)], 64-byte aligned, as npu_pack_w8() makes it. @lanes (1..64)
	 * have a channel; the others become 0. @past: not into the caches, for more bytes than fit
	 * them before they are read; where a set has no such stores, it makes no difference.
	 */
	void (*unpack_wk)(uint8_t *panel, const uint8_t *w, uint32_t k, uint32_t bits,
			  uint32_t lanes, bool past);
};

extern const struct cpu_kernels cpu_kernels_generic;
#if defined(__x86_64__)
extern const struct cpu_kernels cpu_kernels_avx2;
extern const struct cpu_kernels cpu_kernels_avx512;
#endif

/* The best set for this host; or the set called @name, NULL if the host cannot run it. */
const struct cpu_kernels *cpu_kernels_get(const char *name);

#endif /* CPU_KERNELS_H */
