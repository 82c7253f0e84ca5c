/* SPDX-License-Identifier: MIT */
/* What llm_calibrate() makes and llm_quantize() writes. */
#ifndef LLM_CALIBRATION_H
#define LLM_CALIBRATION_H

#include "attention_stats.h"
#include "llm_quantize.h"
#include "shadow.h"
#include "smooth.h"

struct llm_calibration {
	struct shadow shadow; /* pruned; its inputs have no weights yet */
	struct shadow_smooth smooth;
	struct attention_stats attention;
	unsigned int channels[SHADOW_INPUTS]; /* of a layer's inputs */
	unsigned int n_tokens, n_chunks;
	unsigned int chunk; /* of prompts; 0: none was chosen */
};

#endif /* LLM_CALIBRATION_H */
