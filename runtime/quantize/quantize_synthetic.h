/* SPDX-License-Identifier: MIT */
/* Shared by quantize_synthetic.c and quantize_shape.c. */
#ifndef QUANTIZE_SYNTHETIC_H
#define QUANTIZE_SYNTHETIC_H

#include "arch.h"
#include "quantize.h"
#include "shape.h"

struct synthetic {
	struct quantize *q;
	const struct shape *shape;
	const struct llm_arch *arch;
	uint64_t seed;
	unsigned int n_vocab;
	/* The architecture was asked for: all that may differ from file to file does. Else the file
	 * is for measurements only. */
	bool varied;
	struct quantize_tensor *tensors;
	char (*names)[48];
	size_t n, max;
};

/* Writes the keys of the hyperparameters, and adds the tensors, of which the file has at most
 * synthetic_max_tensors(). */
void synthetic_keys(struct synthetic *s);
size_t synthetic_max_tensors(const struct synthetic *s);
void synthetic_tensors(struct synthetic *s);

#endif /* QUANTIZE_SYNTHETIC_H */
