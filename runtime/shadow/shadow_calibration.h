/* SPDX-License-Identifier: MIT */
/* What llm_calibrate() makes and llm_quantize() writes. */
#ifndef SHADOW_CALIBRATION_H
#define SHADOW_CALIBRATION_H

#include "llm_quantize.h"
#include "shadow.h"
#include "smooth.h"

struct llm_calibration {
	struct shadow shadow; /* pruned; its inputs have no weights yet */
	struct shadow_smooth smooth;
	unsigned int channels[SHADOW_INPUTS]; /* of a layer's inputs */
	unsigned int n_tokens, n_chunks;
	unsigned int chunk; /* of prompts; 0: none was chosen */
};

#endif /* SHADOW_CALIBRATION_H */
