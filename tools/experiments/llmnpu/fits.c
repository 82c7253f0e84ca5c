// SPDX-License-Identifier: MIT
/*
 * An NPU's address space (llm.npu 4: 4 GB of a Hexagon NPU) for a model's INT8 matrices: those with
 * most multiply-adds a token go first. All of a kind do as much, so kinds are taken one after
 * another, and of the first that does not fit the first layers.
 */
#include <stdio.h>

#include "llmnpu.h"

#define SPACE_BYTES 4294967296.0

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
	const struct shape *s = place->shape;
	double left = SPACE_BYTES, all = 0, on = 0;
	unsigned int fit[5];

	for (int i = 0; i < 5; i++) {
		unsigned int of = kinds[i] == LLM_OP_HEAD ? 1 : s->layers;
		double each;
		uint64_t k, n;

		llm_op_matmul(s, kinds[i], &k, &n);
		each = (double)(k * n);
		fit[i] = left >= of * each ? of : (unsigned int)(left / each);
		left -= fit[i] * each;
		on += fit[i] * each;
		all += of * each;
	}
	/* A weight is a byte, and a multiply-add for each token. */
	printf("| %s | %.2f | %.2f | %.0f %% | %u | %u | %u | %u | %u |\n", s->name, all / 1e9,
	       on / 1e9, 100 * on / all, fit[0], fit[1], fit[2], fit[3], fit[4]);
	return 0;
}

const struct command command_fits = { "fits", head, put };
