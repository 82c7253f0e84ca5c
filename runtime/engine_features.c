// SPDX-License-Identifier: MIT
/* What a model has that decides about choices, and what some of them cannot compute. */
#include <errno.h>
#include <stddef.h>

#include "engine.h"
#include "llm_fail.h"

bool engine_has_q4(const struct llm_model *m)
{
	uint64_t bytes = 0, q4 = 0;

	for (unsigned int i = 0; i < m->n_layer; i++) {
		for (int w = 0; w < LLM_NR_MATRICES; w++) {
			const struct gguf_tensor *t = m->layers[i].matrix[w];

			bytes += t ? t->bytes : 0;
			q4 += t && t->type == GGUF_Q4_0 ? t->bytes : 0;
		}
	}
	return q4 > bytes / 2;
}

bool engine_has_blocks(const struct llm_model *m)
{
	bool found = llm_format_is_kq(llm_format_own(m->output->type));

	for (unsigned int i = 0; i < m->n_layer; i++)
		for (int w = 0; w < LLM_NR_MATRICES; w++)
			found |= m->layers[i].matrix[w] &&
				 llm_format_is_kq(llm_format_own(m->layers[i].matrix[w]->type));
	return found;
}

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

unsigned int engine_placements(const struct shape *s)
{
	if (!s->experts)
		return 0;
	return LLM_PLACED_ON(LLM_PLACE_CPU) |
	       (llm_experts_fill_panels(s->ffn, s->dim) ? LLM_PLACED_ON(LLM_PLACE_FINE) : 0);
}

int engine_check_experts(const struct llm_engine *e)
{
	const struct llm_choices *c = &e->info.choices;
	const struct shape *s = &e->shape;
	const char *of = e->path ? e->path : s->name;
	unsigned int on = engine_placements(s);

	if (!on)
		return 0;
	if (c->placement == LLM_PLACE_FINE && !llm_experts_fill_panels(s->ffn, s->dim))
		return llm_fail(-ENOTSUP,
				"%s: experts of %u values in an embedding of %u are no multiples "
				"of the NPU's panels of %d; choose placement cpu",
				of, s->ffn, s->dim, VNPU_PANEL_N);
	if (!(on & LLM_PLACED_ON(c->placement)))
		return llm_fail(-ENOTSUP,
				"%s: has experts, which only the CPU computes, between matmuls of "
				"the NPU; placement %s does not have it so: choose fine, or cpu",
				of, llm_choice_name(LLM_CHOICE_PLACEMENT, c->placement));
	if (llm_activations_static(c->activations))
		return llm_fail(-ENOTSUP,
				"%s: has experts, whose inputs are not calibrated: choose "
				"activations row-outliers",
				of);
	if (c->switching == LLM_SWITCHING_NONE)
		return 0;
	return llm_fail(-ENOTSUP,
			"%s: has experts, which are in no graph of several layers: choose "
			"switching none",
			of);
}

/* Bytes of a matrix that is packed, or read as the file has it. */
static uint64_t matrix_bytes(const struct llm_engine *e, unsigned int layer, int which)
{
	const struct llm_loaded *l = &e->loaded;

	return l->packed.layers ? l->packed.layers[layer].part[which].bytes
				: l->model.layers[layer].matrix[which]->bytes;
}

uint64_t engine_token_bytes(const struct llm_engine *e)
{
	const struct llm_model *m = &e->loaded.model;
	uint64_t stacks = 0;

	for (unsigned int i = 0; m->n_expert && i < m->n_layer; i++)
		for (int w = LLM_FFN_GATE; w <= LLM_FFN_DOWN; w++)
			stacks += matrix_bytes(e, i, w);
	return e->info.weight_bytes -
	       (m->n_expert ? stacks / m->n_expert * (m->n_expert - m->n_expert_used) : 0);
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
