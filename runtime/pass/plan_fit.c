// SPDX-License-Identifier: MIT
/* Which matrices a modelled NPU has room for: see plan.h. */
#include "plan.h"

void plan_fit(const struct plan_options *o, uint32_t fit[LLM_NR_OPS])
{
	static const enum llm_op order[] = { LLM_OP_GATE_UP, LLM_OP_DOWN, LLM_OP_QKV,
					     LLM_OP_ATTN_OUTPUT, LLM_OP_HEAD };
	bool limited = o->soc && o->choices.space == LLM_SPACE_LIMITED;
	double left = limited ? o->soc->npu.space_gib * 1073741824.0 : 0;

	for (enum llm_op op = 0; op < LLM_NR_OPS; op++)
		fit[op] = o->shape->layers;
	for (size_t i = 0; limited && i < sizeof(order) / sizeof(order[0]); i++) {
		enum llm_op op = order[i];
		uint32_t of = op == LLM_OP_HEAD ? 1 : o->shape->layers;
		uint64_t k, n;
		double each;

		llm_op_matmul(o->shape, op, &k, &n);
		each = (double)k * (double)n / 8 *
		       (o->widths ? o->widths[op].bits : llm_weight_bits(o->choices.weights));
		fit[op] = left >= of * each ? of : (uint32_t)(left / each);
		left -= fit[op] * each;
	}
}
