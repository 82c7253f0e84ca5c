/* SPDX-License-Identifier: MIT */
/*
 * Packs a model's matrices into the NPU's panels (docs/isa.md).
 *
 *	w8	symmetric INT8 per output channel: row n becomes round(w / s) with s = max|w| / 127
 *	w4	symmetric INT4 in groups of 32 along the row: (0..15 - 8) * scale. Blocks of Q4_0
 *		have this form and keep their values and scales. Other types are widened and
 *		quantised again (quant_w4.h).
 */
#ifndef PACK_H
#define PACK_H

#include <stddef.h>
#include <stdint.h>

#include "gguf.h"

struct cpu_kernels;
struct llm_pool;

enum llm_format {
	LLM_FORMAT_W8,
	LLM_FORMAT_W4, /* rows are a multiple of LLM_W4_GROUP values */
};
#define LLM_W4_GROUP 32

/* Bytes of the panels of a matrix [rows][cols]. */
size_t llm_pack_bytes(enum llm_format format, unsigned int rows, unsigned int cols);

struct llm_packer {
	struct llm_pool *pool;
	const struct cpu_kernels *kernels;
	uint8_t *scratch; /* of all threads; grows as needed, freed by llm_packer_release() */
	size_t scratch_bytes;
};

/* Packs a matrix that gguf_dequantize() can widen. Each thread widens one row of its panel at a
 * time, so there is never a second copy of the weights. -ENOMEM; -ERANGE if row *@bad of the matrix
 * holds a value that is not finite. */
int llm_pack_matrix(struct llm_packer *packer, const struct gguf_tensor *t, enum llm_format format,
		    void *panels, unsigned int *bad);
/* Copies panels of a packed file. -ERANGE if a scale of row *@bad is not finite. */
int llm_pack_copy(struct llm_packer *packer, const struct gguf_tensor *t, enum llm_format format,
		  unsigned int rows, unsigned int cols, void *panels, unsigned int *bad);
void llm_packer_release(struct llm_packer *packer);

#endif /* PACK_H */
