/* SPDX-License-Identifier: MIT */
/*
 * Shadow outliers (llm.npu 3.3): what a calibrated file says of the inputs of a model's matmuls.
 *
 * A matmul's input is quantised with one scale for all rows, chosen offline. Few channels have
 * values beyond 127 scales. The NPU clamps them; the CPU gathers what was clamped into a compact
 * tensor and multiplies that with float weights beside the NPU's matmul:
 *
 *	y = (clamp(x / scale) * scale) W + outliers(x) W
 *
 * Q, K and V have one input, and so have gate and up: a layer has SHADOW_INPUTS of them.
 *
 * Most inputs' outliers hardly matter: the importance of an input's outliers is the largest one
 * over the scale, and the least important inputs are pruned, which means that their outliers are
 * clamped and lost. Of the others the weights of hot channels stay in memory: the fewest channels
 * that had most of the calibration text's outliers. Those of other channels are read from the file
 * when they are needed. docs/gguf.md describes how a file stores all this.
 */
#ifndef SHADOW_H
#define SHADOW_H

#include <stdbool.h>
#include <stdint.h>

#include "llm_quantize.h"
#include "model.h"
#include "ops.h"
#include "shape.h"

/* The inputs of a layer: of q, k and v; of attn_output; of gate and up; of down. */
#define SHADOW_INPUTS 4
/* The input of the matmul @op, or -1: the output matrix has none, nor have other operators. */
int shadow_input_of(enum llm_op op);
/* The input that a plain layer's matrix reads. */
unsigned int shadow_input_of_matrix(enum llm_matrix which);
/* "attn_qkv", "attn_output", "ffn_gate_up", "ffn_down": parts of the names in files. */
extern const char *const shadow_input_names[SHADOW_INPUTS];

/* Pruning of inputs, and outliers of the calibration text that hot channels have. */
#define SHADOW_PRUNING LLM_CALIBRATE_PRUNING
#define SHADOW_HOT LLM_CALIBRATE_HOT
/* Tokens of a calibration's chunks, and what its windows have at most. */
#define SHADOW_CHUNK 256
#define SHADOW_WINDOW 512

struct shadow_input {
	float scale; /* q = x / scale; outliers are beyond 127 scale */
	float limit; /* the calibration text's largest |x| */
	float importance; /* limit / scale */
	double channels; /* with outliers, in a chunk of the calibration text on average */
	double cold; /* those of them that are not hot */
	bool kept; /* not pruned */
	uint32_t nr_hot;
	const int32_t *hot; /* channels [nr_hot], ascending; NULL in a guess */
	/* F16 [k][n], a row per channel: the columns of all matrices with this input, side by side.
	 * NULL: the file has none, since the input was pruned when it was written. Whether the
	 * values are finite is for their reader to check. */
	const struct gguf_tensor *weights;
};

struct shadow {
	unsigned int n_layer;
	double pruning; /* share of the inputs that are pruned */
	unsigned int chunk; /* tokens of a prompt's chunks that the file wants; 0: any */
	struct shadow_input *inputs; /* [n_layer][SHADOW_INPUTS] */
	int32_t *hot; /* of all inputs */
};

static inline const struct shadow_input *shadow_input(const struct shadow *s, unsigned int layer,
						      enum llm_op op)
{
	return &s->inputs[layer * SHADOW_INPUTS + (unsigned int)shadow_input_of(op)];
}

/* The width n of an input's shadow weights, and its channels k. */
unsigned int shadow_rows(const struct llm_model *model, unsigned int input);
unsigned int shadow_channels(const struct llm_model *model, unsigned int input);

/* The key of a calibrated file, with the version of the format. */
#define SHADOW_KEY "vnpu.shadow"
#define SHADOW_VERSION 1
/* "blk.1.ffn_down.shadow": the tensor of an input's weights. */
#define SHADOW_NAME_BYTES 64
void shadow_tensor_name(unsigned int layer, unsigned int input, char name[SHADOW_NAME_BYTES]);

/*
 * Reads the calibration of @model's file, and prunes as shadow_prune() does; with @pruning
 * SHADOW_AS_WRITTEN the inputs of which the file has no weights. The file must outlive @s. 0, or
 * -errno with the error line: -ENODATA if the file has no calibration, -EINVAL if it is not valid
 * or has no weights of an input that is kept. An error leaves nothing to free.
 */
#define SHADOW_AS_WRITTEN (-1.0)
int shadow_read(struct shadow *s, const struct llm_model *model, const struct gguf_file *file,
		const char *path, double pruning);
/*
 * For a shape without a file: inputs near the model's ends are kept, as the paper found them to be
 * the important ones. Each has 10 channels with outliers in a chunk, and 3 % of its channels are
 * hot, which have SHADOW_HOT of the outliers. 0, or -errno with the error line.
 */
int shadow_guess(struct shadow *s, const struct shape *shape, double pruning);
/*
 * Keeps the most important inputs and prunes the others, @pruning (0..1) times all inputs, rounded
 * to the nearest number. Of equally important inputs the later ones are pruned. 0, -EINVAL for
 * another @pruning, or -ENOMEM, with the error line.
 */
int shadow_prune(struct shadow *s, double pruning);
void shadow_free(struct shadow *s);

#endif /* SHADOW_H */
