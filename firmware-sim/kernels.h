/* SPDX-License-Identifier: MIT */
/*
 * What the device computes with: one table of kernels per instruction set of the host.
 *
 * kernels_float.h holds the float kernels, written once in vectors of 16 lanes and compiled for each instruction set:
 * the same operations in the same order, hence the same bits everywhere. The INT8 matmul exists once per instruction
 * set; its integer part is exact, so that its results are the same bits as well.
 *
 * Kernels read context memory, which its owner may rewrite at any moment: no value that is read may become an index or
 * a size.
 */
#ifndef KERNELS_H
#define KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "fw.h"
#include "vnpu_isa.h"

/* Private memory of a worker, 64-byte aligned. */
#define FW_SCRATCH_BYTES (6 * VNPU_MAX_K_I8 + 4096)

/* A block of MATMUL_I8: m rows and n channels, beginning with a panel. */
struct fw_matmul_i8 {
	const int8_t *a; /* [m][lda] */
	const float *a_scale; /* [m] */
	const uint8_t *w; /* panels */
	const float *bias; /* [n] or NULL */
	float *c; /* [m][ldc] */
	uint32_t m, n, k;
	size_t lda, ldc;
};

/* Queries of one KV head of ATTN. */
struct fw_attn {
	const float *q[4]; /* nr_q of [head_dim] */
	float *y[4];
	uint64_t nr_keys[4]; /* cache rows that the query sees, at least 1 */
	unsigned int nr_q;
	const float *k, *v; /* [rows][ld*] */
	size_t ldk, ldv;
	uint32_t head_dim;
	float scale;
};

struct fw_kernels {
	const char *name;
	void (*matmul_i8)(const struct fw_matmul_i8 *t, void *scratch);
	void (*add)(float *y, const float *a, const float *b, size_t n);
	void (*mul)(float *y, const float *a, const float *b, size_t n);
	void (*silu)(float *y, const float *x, size_t n);
	void (*gelu)(float *y, const float *x, size_t n);
	void (*rmsnorm)(float *y, const float *x, const float *w, size_t n, float eps);
	/* The first @n of @cols columns; the rest becomes 0. */
	void (*softmax)(float *y, const float *x, size_t n, size_t cols, float scale);
	/* Pads q with zeros to a multiple of 4. */
	void (*quant)(int8_t *q, float *scale, const float *x, size_t n);
	void (*dequant)(float *y, const int8_t *q, float scale, size_t n);
	/* One row; @scratch: FW_SCRATCH_BYTES. */
	void (*rope)(float *y, const float *x, const float *inv_freq, uint64_t pos, uint32_t heads, uint32_t head_dim,
		     uint32_t rot_dim, uint32_t mode, void *scratch);
	void (*attn)(const struct fw_attn *t);
	/* y[i] = exp(x[i]): the function inside silu, softmax and attn, for tests. */
	void (*exp)(float *y, const float *x, size_t n);
};

extern const struct fw_kernels fw_kernels_generic;
extern const struct fw_kernels fw_kernels_avx2;
extern const struct fw_kernels fw_kernels_avx512;

/* The kernels for @isa (AUTO: the best), or NULL if this host cannot run them. */
const struct fw_kernels *fw_kernels_get(enum fw_isa isa);

/* sin and cos of x to float accuracy, the same bits on every host. */
void fw_sincos(double x, float *s, float *c);

#endif /* KERNELS_H */
