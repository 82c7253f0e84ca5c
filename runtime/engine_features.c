// SPDX-License-Identifier: MIT
/* What a model's architecture has that some choices cannot compute. */
#include <errno.h>
#include <stddef.h>

#include "engine.h"
#include "llm_fail.h"

/* What the GPU's kernels do not have; NULL: nothing. */
static const char *missing_on_gpu(const struct llm_model *m)
{
	if (!llm_model_gated(m))
		return "an FFN without a gate";
	if (m->features->layer_norm)
		return "layer norms";
	if (m->features->activation == SHAPE_RELU)
		return "ReLU";
	if (m->window)
		return "attention windows";
	if (m->attn_cap > 0)
		return "capped scores";
	return m->logit_cap > 0 ? "capped logits" : NULL;
}

/* What attention other than full does not have; NULL: nothing. */
static const char *missing_in_attention(const struct llm_model *m)
{
	if (m->window)
		return "attention windows";
	return m->attn_cap > 0 ? "capped scores" : NULL;
}

static int refuse(const struct llm_engine *e, const char *what, const char *who,
		  const char *instead)
{
	if (!what)
		return 0;
	return llm_fail(-ENOTSUP, "%s: a %s model has %s, which %s cannot compute; %s", e->path,
			e->loaded.model.arch, what, who, instead);
}

int engine_check_features(const struct llm_engine *e)
{
	const struct llm_model *m = &e->loaded.model;
	enum llm_attention attention = e->info.choices.attention;
	int err = 0;

	/* The CPU in a GPU's place computes all. */
	if (llm_placement_has_gpu(e->info.choices.placement) && e->loaded.gpu)
		err = refuse(e, missing_on_gpu(m), "the GPU",
			     "choose placement npu, or GPU " LLM_GPU_HOST);
	if (!err && attention != LLM_ATTENTION_FULL)
		err = refuse(e, missing_in_attention(m),
			     llm_choice_name(LLM_CHOICE_ATTENTION, attention),
			     "choose attention full");
	return err;
}
