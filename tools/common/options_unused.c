// SPDX-License-Identifier: MIT
/* Options that only refine others: see options.h. */
#include <stddef.h>

#include "options.h"
#include "tool.h"

static bool has_blocks(const struct llm_options *o)
{
	return o->choices.switching != LLM_SWITCHING_NONE;
}

static bool is_sparse(const struct llm_options *o)
{
	enum llm_attention a = o->choices.attention;

	return a != LLM_ATTENTION_FULL && a != LLM_ATTENTION_NPU;
}

static bool is_estimated(const struct llm_options *o)
{
	return o->choices.attention != LLM_ATTENTION_FULL;
}

static bool has_scales(const struct llm_options *o)
{
	return o->choices.attention == LLM_ATTENTION_SHADOW ||
	       o->choices.attention == LLM_ATTENTION_NPU;
}

static bool has_outliers(const struct llm_options *o)
{
	return o->choices.activations == LLM_ACTIVATIONS_STATIC;
}

static bool plans_bits(const struct llm_options *o)
{
	enum llm_weights w = o->choices.weights;

	return o->dry_run &&
	       (w == LLM_WEIGHTS_AUTO || w == LLM_WEIGHTS_ADAPTIVE || w == LLM_WEIGHTS_W8A8);
}

static bool may_cut(const struct llm_options *o)
{
	enum llm_placement p = o->choices.placement;

	return !o->profile && (p == LLM_PLACE_AUTO || p == LLM_PLACE_LAYER);
}

#define GIVEN(field) offsetof(struct llm_options, field), sizeof(((struct llm_options *)0)->field)
static const struct refinement {
	const char *name, *needs;
	bool (*has)(const struct llm_options *o); /* whether it has an effect */
	size_t offset, bytes; /* of the field, which is all zeros unless the option was given */
} refinements[] = {
	{ "decode-width", "--switching", has_blocks, GIVEN(decode_width) },
	{ "block-layers", "--switching", has_blocks, GIVEN(block_layers) },
	{ "ratio", "--attention sparse, block or shadow", is_sparse, GIVEN(ratio) },
	{ "sparse-from", "--attention sparse, block, shadow or npu", is_estimated,
	  GIVEN(sparse_from) },
	{ "scale-buckets", "--attention shadow or npu", has_scales, GIVEN(scale_buckets) },
	{ "scale-step", "--attention shadow or npu", has_scales, GIVEN(scale_step) },
	{ "pruning", "--activations static", has_outliers, GIVEN(pruning) },
	{ "bits", "llm-bench --dry-run and --weights adaptive or w8a8", plans_bits, GIVEN(bits) },
	{ "cuts-profile", "--placement layer on the wall clock", may_cut, GIVEN(cuts_profile) },
};

static bool is_given(const struct llm_options *o, const struct refinement *r)
{
	const char *field = (const char *)o + r->offset;

	for (size_t i = 0; i < r->bytes; i++)
		if (field[i])
			return true;
	return false;
}

unsigned int engine_unused(const struct llm_options *opts)
{
	unsigned int unused = 0;

	for (size_t i = 0; i < sizeof(refinements) / sizeof(refinements[0]); i++)
		if (is_given(opts, &refinements[i]) && !refinements[i].has(opts))
			unused |= 1u << i;
	return unused;
}

int engine_refuse_unused(unsigned int unused)
{
	const struct refinement *r = &refinements[unused ? __builtin_ctz(unused) : 0];

	if (!unused)
		return 0;
	return tool_usage("--%s has no effect: it goes with %s", r->name, r->needs);
}
