/* SPDX-License-Identifier: MIT */
/*
 * Kernels that pack the rows of a file into panels of 64 output channels (<npu/vnpu_isa.h>), which
 * is most of what the CPU does in a cold start. All sets give the same bits: those of widening a
 * row to F32, quantising it as struct cpu_kernels' quant() does, and packing it with libnpu.
 *
 * The portable set is in vectors of 128 bits, which compilers turn into SSE2 or NEON.
 */
#ifndef CPU_KERNELS_PACK_H
#define CPU_KERNELS_PACK_H

#include <stddef.h>
#include <stdint.h>

/* 1 to 64 rows of @cols values: row r is at data + r * bytes, at any alignment. */
struct cpu_rows {
	const uint8_t *data;
	size_t bytes;
	unsigned int nr, cols;
};

enum cpu_row_type {
	CPU_ROWS_F32,
	CPU_ROWS_F16,
	CPU_ROWS_BF16,
	CPU_ROWS_Q8_0, /* blocks of 32 values: an F16 scale, 32 signed bytes */
	CPU_NR_ROW_TYPES,
};

/*
 * Each function writes one panel at a multiple of 64 bytes, with zeros for the channels beyond
 * @rows. They return -1, or the first row with a value or a scale that is not finite; the panel is
 * undefined then.
 */
struct cpu_pack {
	/* MATMUL_I8's panel: each row symmetric, with scale max|x| / 127. */
	int (*w8)(uint8_t *panel, enum cpu_row_type type, const struct cpu_rows *rows);
	/* The same from signed bytes with their scales [nr], as they are. */
	void (*bytes)(uint8_t *panel, const struct cpu_rows *rows, const float *scales);
	/* MATMUL_W4's panel, group 32, from blocks of Q4_0: an F16 scale, 16 bytes of nibbles. */
	int (*w4)(uint8_t *panel, const struct cpu_rows *rows);
	/*
	 * MATMUL_KQ's panel of @type, enum vnpu_kq_type, from GGUF's blocks of the same type. Those
	 * of MXFP4 have the layout of IQ4_NL, those of IQ3_S and IQ3_XXS that of IQ4_XS, those of
	 * IQ2 and IQ1 that of Q3_K.
	 */
	int (*kq)(uint8_t *panel, uint32_t type, const struct cpu_rows *rows);
};

extern const struct cpu_pack cpu_pack_generic;
#if defined(__x86_64__)
extern const struct cpu_pack cpu_pack_avx2;
extern const struct cpu_pack cpu_pack_avx512;
#endif

#endif /* CPU_KERNELS_PACK_H */
