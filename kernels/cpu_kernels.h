/* SPDX-License-Identifier: MIT */
/*
 * Kernels of the CPU lane that the device does not have: F32 matmul, and quantisation of weights.
 * Portable C, AVX2 + FMA, or AVX-512, chosen at run time. The CPU lane's other float operators are
 * the device's (kernels/kernels.h).
 *
 * Within one instruction set, every result element is computed by the same operations in the same
 * order, whatever the number of rows, the blocking or the threads; so chunk sizes and thread counts
 * never change a result. Between instruction sets, results differ by rounding;
 * tests/unit/test_cpu_kernels.c has the bounds.
 */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

struct cpu_kernels {
	const char *name; /* "generic", "avx2", "avx512" */

	/* Y = X @ W^T: y[m][n] (ldy), x[m][k] (ldx), w[n][k] (ldw). */
	void (*matmul)(float *y, size_t ldy, const float *x, size_t ldx, unsigned int m,
		       const float *w, size_t ldw, unsigned int n, unsigned int k);
	/* Symmetric INT8: *scale = max|x| / 127, q = round-to-nearest-even(x / *scale); a row of
	 * zeros gets scale 0. Returns -1 if x has a NaN or an infinity. */
	int (*quant)(int8_t *q, float *scale, const float *x, size_t n);
};

extern const struct cpu_kernels cpu_kernels_generic;
#if defined(__x86_64__)
extern const struct cpu_kernels cpu_kernels_avx2;
extern const struct cpu_kernels cpu_kernels_avx512;
#endif

/* The best set for this host; or the set called @name, NULL if the host cannot run it. */
const struct cpu_kernels *cpu_kernels_get(const char *name);

#endif /* CPU_KERNELS_H */
