// SPDX-License-Identifier: MIT
/* The NPU's address space for a model's INT8 matrices (plan_fit()). */
#include <stdio.h>

#include "llmnpu.h"

static void head(void)
{
	puts("| model | matrices, GB | on the NPU, GB | of the multiply-adds | gate_up, layers | "
	     "down | qkv | attn_output | head |\n"
	     "|---|---:|---:|---:|---:|---:|---:|---:|---:|");
}

static int put(const struct place *place)
{
	static const enum llm_op kinds[] = { LLM_OP_GATE_UP, LLM_OP_DOWN, LLM_OP_QKV,
					     LLM_OP_ATTN_OUTPUT, LLM_OP_HEAD };
	struct plan_options o = {
		.soc = place->soc,
		.shape = place->shape,
		.choices = place->args->choices,
	};
	const struct shape *s = place->shape;
	uint32_t fit[LLM_NR_OPS];
	double all = 0, on = 0;

	o.choices.space = LLM_SPACE_LIMITED;
	plan_fit(&o, fit);
	for (int i = 0; i < 5; i++) {
		unsigned int of = kinds[i] == LLM_OP_HEAD ? 1 : s->layers;
		uint64_t k, n;

		llm_op_matmul(s, kinds[i], &k, &n);
		all += of * (double)(k * n);
		on += fit[kinds[i]] * (double)(k * n);
	}
	/* A weight is a byte, and a multiply-add for each token. */
	printf("| %s | %.2f | %.2f | %.0f %% | %u | %u | %u | %u | %u |\n", s->name, all / 1e9,
	       on / 1e9, 100 * on / all, fit[LLM_OP_GATE_UP], fit[LLM_OP_DOWN], fit[LLM_OP_QKV],
	       fit[LLM_OP_ATTN_OUTPUT], fit[LLM_OP_HEAD]);
	return 0;
}

const struct command command_fits = { "fits", head, .put = put };
