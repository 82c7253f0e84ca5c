// SPDX-License-Identifier: MIT
/* CoordGen 2.3: a forward pass of so many tokens of Qwen2.5-1.5B. */
#include "calibration_private.h"

void calibration_coordgen(struct maker *m)
{
	static const struct {
		const char *name;
		unsigned int tokens;
		unsigned int per; /* tokens that the time is divided by */
		double published_ms;
		const char *assumption;
	} drafts[] = {
		{ "Qwen2.5-1.5B, verifying 32 tokens, a token", 32, 32, 5.7,
		  "512 tokens before, one launch a layer" },
		{ "Qwen2.5-1.5B, verifying 1 token", 1, 1, 51.1,
		  "512 tokens before, one launch a layer" },
		{ "Qwen2.5-1.5B, decoding with graphs of 32 tokens, a token", 32, 1, 160,
		  "512 tokens before, one launch a layer, a pass gives a token" },
	};

	for (size_t i = 0; i < sizeof(drafts) / sizeof(drafts[0]); i++) {
		const struct forward f = {
			.shape = "qwen2.5-1.5b",
			.choices = { .placement = LLM_PLACE_FINE,
				     .weights = LLM_WEIGHTS_W8A8,
				     .activations = LLM_ACTIVATIONS_INT8,
				     .sync = LLM_SYNC_DRIVER },
			.layer_launches = true,
			.n_past = 512,
			.tokens = drafts[i].tokens,
		};
		struct forward_times t = calibration_forward(m, &f);

		calibration_predicted(m, drafts[i].name, "CoordGen 2.3", "ms",
				      drafts[i].published_ms, t.ms / drafts[i].per,
				      drafts[i].assumption);
	}
}
