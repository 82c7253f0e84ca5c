/* SPDX-License-Identifier: MIT */
/*
 * How long the modelled NPU takes: pure functions of a soc's [npu] numbers and an operator's shape.
 * Plans, the virtual clock and device time all count with these.
 *
 * The NPU is a weight-stationary machine (HeteroLLM 3.2, CoordGen 2.1). Of X[r][k] S[k][c] the
 * operand S is the stationary one: it is cut into tiles of an array's size, each is loaded, and the
 * rows of X are streamed past it. Sums of hold_rows streamed rows stay in the arrays' accumulators
 * at a time, so after so many rows all of S is needed again. S stays in the memory on the chip if
 *
 *	- one column of it, k values, is at most hold_column_kib, what a bank takes of a column, and
 *	- the whole is at most onchip_mib;
 *
 * its tiles then come at the arrays' own speed. Otherwise every hold_rows rows all of S is loaded
 * again at load_gbps, and the arrays fall to 2 hold_rows load_gbps / sizeof(value) operations a
 * second, which is about what the GPU does. From that follow the behaviours of HeteroLLM 3.2 and 6:
 *
 *	stage		m, k and n count as multiples of row_granule, array_rows and array_cols
 *	order		weights [4096][14336] do not stay: [K][4096] x [4096][14336] is at the GPU's
 *			level for every K. With the operands permuted (C^T = W^T A^T) the
 *			activations are stationary, stay, and the arrays reach 10 TFLOPS
 *	shape		FFN-down's columns are as long as the FFN is wide: they do
 *			not stay in either order
 *
 * Rows of activations may be the pixels of an image, of any height and width with as many pixels
 * (llm.npu 4). The arrays take row_granule rows at a time. A line that begins with such a granule
 * is fetched with it; one that begins within it is fetched on its own, which takes line_ns for each
 * tile that the granule passes. So one line of all rows costs nothing, and nor do lines of a
 * multiple of row_granule rows. Activations that are stationary are loaded, not streamed: their
 * lines do not matter.
 *
 * Weights narrower than the arrays' values (8 bits, or 16 for F16) are widened by the vector engine
 * before they enter, as often as they are loaded: one rule for all formats. Integer sums of groups
 * of k with a scale of their own are added as floats (llm.npu 2.3). Up to gemv_rows rows the vector
 * engine multiplies the weights itself, as they are.
 *
 * A cost has two parts, which overlap: time in the NPU, and bytes to and from DRAM. Alone, an
 * operator takes the longer of the two; where lanes share the DRAM, the runtime's simulation gives
 * it its share (soc/soc_cost.h).
 */
#ifndef NPU_TIME_H
#define NPU_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "soc.h"

/* Float operations per element of the operators that are no matmuls, whichever lane runs them. */
#define FLOAT_OPS_NORM 4 /* square, sum, scale by the root, scale by the weight */
#define FLOAT_OPS_LAYERNORM 7 /* sum, difference, square, sum, two scales, bias */
#define FLOAT_OPS_QUANT 3 /* maximum, scale, round */
#define FLOAT_OPS_QUANT_STATIC 2 /* scale, round: the scale is known, not a maximum */
#define FLOAT_OPS_QUANT16 7 /* twice, and what the first leaves */
#define FLOAT_OPS_QUANT_OUTLIERS 6 /* maximum, clip, scale, round; and whether it is one */
#define FLOAT_OPS_ADD_OUTLIERS 17 /* of a result: 16 multiply-adds, and the sum with it */
#define FLOAT_OPS_DEQUANT 1
#define FLOAT_OPS_ROPE 3 /* two products and a sum */
#define FLOAT_OPS_SILU 5 /* sign, exponential, sum, division, product */
#define FLOAT_OPS_GELU 9 /* a cubic polynomial, and then as much */
#define FLOAT_OPS_GELU_ERF 17 /* square, exponential, quotient, a polynomial of degree 8, ... */
#define FLOAT_OPS_GELU_QUICK 6 /* a product, and then as SILU */
#define FLOAT_OPS_RELU 1
#define FLOAT_OPS_RELU_SQUARED 2
#define FLOAT_OPS_CAP 7 /* quotient, tanh by an exponential and a quotient, product */
#define FLOAT_OPS_ADD 1 /* or a product */
#define FLOAT_OPS_COPY 1
/* A score that may be one of the greatest: a bin, a count, and then whether it is beyond the bound.
 * Assumed of a linear selection; keeping the few that are costs their bytes. */
#define FLOAT_OPS_TOPK 3
#define FLOAT_OPS_SOFTMAX 5 /* scale, maximum, exponential, sum, division */
/* The modelled SoC's float operators work on F16. */
#define FLOAT_BITS 16

struct npu_cost {
	double ns; /* in the engines */
	double dram_bytes;
};

enum npu_time_type {
	NPU_TIME_I8, /* INT8 activations */
	NPU_TIME_F16, /* F16 activations */
	/* F16 activations, by a compiler that does not map them to the arrays (llm.npu table 3). */
	NPU_TIME_F16_EMULATED,
};

enum npu_time_order {
	NPU_TIME_WEIGHTS_STATIONARY, /* C = A W: the weights are loaded */
	/* C^T = W^T A^T: the activations are loaded, the weights are streamed. */
	NPU_TIME_WEIGHTS_STREAMED,
};

struct npu_time_matmul {
	uint64_t m, k, n; /* activations [m][k], weights [k][n] */
	enum npu_time_type type;
	enum npu_time_order order;
	double weight_bits; /* as they lie in DRAM */
	/* The rows are lines of an image of so many each, which divides m; 0: one line. */
	uint64_t width;
	/* INT8: values along k that share a scale of the weights; 0: a whole column does. */
	uint32_t group;
	bool dynamic; /* the weights are activations too (Q K^T): laid out at run time */
	unsigned int heads; /* so many matmuls of this shape; 0: 1 */
};

struct npu_time_attention {
	uint64_t rows, heads, head_dim; /* queries [rows][heads][head_dim] */
	double ctx; /* positions that a query sees, on average */
	enum npu_time_type type;
	/* Of a cached value in DRAM, where those are narrower than the type's; 0: they are not. */
	double kv_bits;
	bool scores_only; /* Q K^T and no more */
};

/* A matmul, without the launch of its graph. */
struct npu_cost npu_time_matmul(const struct soc_npu *npu, const struct npu_time_matmul *op);
/* softmax(Q K^T) V, both matmuls with operands that are laid out at run time. */
struct npu_cost npu_time_attention(const struct soc_npu *npu, const struct npu_time_attention *op);
/* A cost's duration when the NPU is the only lane at work. */
double npu_time_alone_ns(const struct soc_npu *npu, struct npu_cost cost);
/*
 * Operations on single elements by the vector engine: norms, activations,
 * quantisation. @bytes: read and written.
 */
struct npu_cost npu_time_vector(const struct soc_npu *npu, double elements, double operations,
				double bytes);
/*
 * Making a graph: its intermediate form, and its compilation (llm.npu 2.2 and 2.3, EdgeFlow 3.1).
 * The compiler's search grows with the tensors, the sequence included (HeteroLLM 4.1.1, figure 9):
 * @elements are those of the weights, inputs and results of all the graph's matmuls.
 */
double npu_time_build_ns(const struct soc_npu *npu, uint64_t operators);
double npu_time_optimize_ns(const struct soc_npu *npu, double elements);
/* Elements of the matmul [m][k] x [k][n]. */
double npu_time_elements(uint64_t m, uint64_t k, uint64_t n);

/* Matmuls of the best shape, without loads and launches: 1e12 operations a second. */
double npu_time_peak_tops(const struct soc_npu *npu, enum npu_time_type type);

#endif /* NPU_TIME_H */
