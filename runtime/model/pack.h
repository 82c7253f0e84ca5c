/* SPDX-License-Identifier: MIT */
/*
 * Packs a model's matrices into the NPU's panels (docs/isa.md).
 *
 *	w8	symmetric INT8 per output channel: row n becomes round(w / s) with s = max|w| / 127
 *	w4	symmetric INT4 in groups of 32 along the row: (0..15 - 8) * scale. Blocks of Q4_0
 *		have this form and keep their values and scales. Other types are widened and
 *		quantised again (quant_w4.h).
 *	wk	integers of 1 to 8 bits, a width for each panel, a scale per output channel
 *		(EdgeFlow 4.1; adaptive.h); those of 8 bits as in w8. Only llm-quantize makes them.
 *	kq	GGUF's block types with the file's own numbers and scales (enum vnpu_kq_type), and
 *		the types that can be rewritten in the layout of one of these (gguf_recast.h)
 */
#ifndef PACK_H
#define PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <npu/vnpu_isa.h>

#include "gguf.h"

struct cpu_kernels;
struct llm_pool;

enum llm_format {
	LLM_FORMAT_W8,
	LLM_FORMAT_W4, /* rows are a multiple of LLM_W4_GROUP values */
	LLM_FORMAT_WK, /* the widths are a matter of each matrix */
	LLM_FORMAT_KQ, /* + enum vnpu_kq_type; rows are a multiple of its block */
	LLM_NR_FORMATS = LLM_FORMAT_KQ + VNPU_NR_KQ_TYPES,
};
#define LLM_W4_GROUP 32

static inline bool llm_format_is_kq(enum llm_format format)
{
	return format >= LLM_FORMAT_KQ;
}

/* The enum vnpu_kq_type of a format that is KQ. */
static inline uint32_t llm_format_kq(enum llm_format format)
{
	return (uint32_t)format - LLM_FORMAT_KQ;
}

/*
 * Formats as files name them (LLM_FORMATS in model.h): 0 W8, 1 W4, 2 WK, 256 and the enum
 * vnpu_kq_type. LLM_NR_FORMATS: no format has this number.
 */
int32_t llm_format_number(enum llm_format format);
enum llm_format llm_format_of_number(int32_t number);

/* The format that keeps the numbers of a tensor of @type: W8 if there is none. */
enum llm_format llm_format_own(enum gguf_type type);

/* Bits of a number (WK: the most), and consecutive values of a row with one scale; 0: the whole
 * row. */
unsigned int llm_format_bits(enum llm_format format);
unsigned int llm_format_group(enum llm_format format);

/* Bytes of the panels of a matrix [rows][cols]; 0: @cols is no multiple of a group or block, or
 * @format is WK. */
size_t llm_pack_bytes(enum llm_format format, unsigned int rows, unsigned int cols);

/* The same for WK with panels of an @average width, 1 to 8: all have the same size. */
size_t llm_wk_bytes(double average, unsigned int rows, unsigned int cols);
/* Reads the width of each row, @bits [rows], from the table of WK panels. False: @t does not hold
 * such a matrix. */
bool llm_wk_widths(const struct gguf_tensor *t, unsigned int rows, unsigned int cols,
		   uint8_t *bits);

struct llm_packer {
	struct llm_pool *pool;
	const struct cpu_kernels *kernels;
	uint8_t *scratch; /* of all threads; grows as needed, freed by llm_packer_release() */
	size_t scratch_bytes;
};

/* Some output channels of a matrix as a file has them. */
struct llm_part {
	const struct gguf_tensor *t; /* the whole tensor */
	/* Of the panels to be made: W8, W4 or llm_format_own(). Panels that the tensor has keep
	 * theirs, but those of WK may become W8, with the same numbers and scales. */
	enum llm_format format;
	bool packed; /* the tensor has panels already */
	unsigned int rows, cols; /* of the whole matrix */
	const uint8_t *bits; /* the tensor's panels are of WK: [rows], llm_wk_widths(); or NULL */
	unsigned int row, nr; /* the part's: @row is a multiple of a panel */
	const void *data; /* its bytes, in the file or elsewhere */
};
/* Where a part's bytes are in its tensor. */
uint64_t llm_part_offset(const struct llm_part *part);
uint64_t llm_part_bytes(const struct llm_part *part);
/* Whether panels of WK become W8. */
bool llm_part_unpacks(const struct llm_part *part);

/*
 * Packs a part into @panels, those of the whole matrix; a tensor that is packed is copied, or only
 * checked if its bytes are there already, or unpacked from WK to W8 for an NPU that multiplies
 * nothing narrower (EdgeFlow 4.2). Each thread widens one row of its panel at a time, so there is
 * never a second copy of the weights.
 * -ENOMEM; -ERANGE if row *@bad of the matrix holds a value, or a packed one a scale, that is not
 * finite.
 */
int llm_pack_part(struct llm_packer *packer, const struct llm_part *part, void *panels,
		  unsigned int *bad);
/* Packs a whole matrix that gguf_dequantize() can widen. */
int llm_pack_matrix(struct llm_packer *packer, const struct gguf_tensor *t, enum llm_format format,
		    void *panels, unsigned int *bad);
/*
 * The same as WK: the widths of the panels are those that lose least for their @average, 1 to 8,
 * by the sum of their channels' relative errors. @panels: llm_wk_bytes().
 */
int llm_pack_adaptive(struct llm_packer *packer, const struct gguf_tensor *t, double average,
		      void *panels, unsigned int *bad);
void llm_packer_release(struct llm_packer *packer);

#endif /* PACK_H */
