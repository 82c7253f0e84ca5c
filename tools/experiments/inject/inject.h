/* SPDX-License-Identifier: MIT */
/*
 * Gives a small model the outliers that large ones have, without a change of what it computes.
 *
 * A few channels of an input become some power of two times larger, and the weights that read them
 * as many times smaller. Scaling by powers of two commutes with every rounding, so in F32 the
 * logits keep their bits, as long as no value becomes so small or so great that its exponent ends.
 *
 * In large models outliers are greatest near the ends (llm.npu 3.3, figure 12). So the exponent
 * falls with the square of the distance from the nearer end, to 0 in the middle layers.
 */
#ifndef INJECT_H
#define INJECT_H

#include "gguf.h"
#include "model.h"
#include "smooth.h"

struct inject_options {
	unsigned int channels; /* of each input; of attn_output: rows of v */
	unsigned int exponent; /* at the ends: channels become 2^exponent times larger */
	uint64_t seed; /* of the channels */
	unsigned int inputs; /* a bit for each of a layer's inputs */
};

/* The exponent of a layer. */
unsigned int inject_exponent(unsigned int exponent, unsigned int layer, unsigned int n_layer);

/*
 * Chooses the channels: *@fold says how the model's tensors change. 0, or -errno with the error
 * line: -EINVAL if an input has no more channels than are wanted.
 */
int inject_fold(const struct inject_options *o, const struct llm_model *model, const char *path,
		struct shadow_smooth *fold);
/* Writes the changed model in F32 to @out. 0 or -errno with the error line. */
int inject_write(const struct gguf_file *file, const struct shadow_smooth *fold, const char *out);

#endif /* INJECT_H */
