/* SPDX-License-Identifier: MIT */
/*
 * The hyperparameters of a model.
 *
 * Every value is bounded here, so that no later product of two of them overflows. Keys that would
 * change what the model computes, but are not implemented, are errors: without them the results
 * would be wrong.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"
#include "model_keys.h"

#define MAX_HEADS 65536
#define MAX_EXPERTS 4096
#define MAX_CONTEXT (1u << 30)
/* Of "expert_gating_func": a softmax of all experts' logits */
#define GATING_SOFTMAX 1

struct keys {
	const struct gguf_file *file;
	const char *path, *arch;
	char key[128];
};

static const char *keys_name(struct keys *k, const char *what)
{
	snprintf(k->key, sizeof(k->key), "%s.%s", k->arch, what);
	return k->key;
}

/* An integer in min..max. Without the key: @fallback, or an error if that is 0. */
static int keys_uint(struct keys *k, const char *what, unsigned int min, unsigned int max,
		     unsigned int fallback, unsigned int *value)
{
	uint64_t v;
	int err = gguf_u64(k->file, keys_name(k, what), &v);

	if (err == -ENOENT && fallback) {
		*value = fallback;
		return 0;
	}
	if (err == -ENOENT)
		return llm_fail(-EINVAL, "%s: no key %s", k->path, k->key);
	if (err)
		return llm_fail(-EINVAL, "%s: %s is not a single non-negative integer", k->path,
				k->key);
	if (v < min || v > max)
		return llm_fail(-EINVAL, "%s: %s is %llu, not in %u..%u", k->path, k->key,
				(unsigned long long)v, min, max);
	*value = (unsigned int)v;
	return 0;
}

/* A finite number in min..max. Without the key: @fallback, or an error if that is NaN. */
static int keys_float(struct keys *k, const char *what, double min, double max, double fallback,
		      double *value)
{
	int err = gguf_f64(k->file, keys_name(k, what), value);

	if (err == -ENOENT && !isnan(fallback)) {
		*value = fallback;
		return 0;
	}
	if (err == -ENOENT)
		return llm_fail(-EINVAL, "%s: no key %s", k->path, k->key);
	if (err)
		return llm_fail(-EINVAL, "%s: %s is not a number", k->path, k->key);
	if (!(*value >= min && *value <= max))
		return llm_fail(-EINVAL, "%s: %s is %g, not in %g..%g", k->path, k->key, *value,
				min, max);
	return 0;
}

/* Keys that are not implemented, whose values must be absent, neutral or 0. */
static int keys_refuse(struct keys *k, const struct llm_arch *arch)
{
	enum { NOBODY, SCALES, CAPS, EXPERTS, SHARED };
	static const struct {
		const char *key;
		double neutral;
		int of; /* architectures that have them */
	} refused[] = {
		{ "expert_count", 0, EXPERTS },
		{ "expert_used_count", 0, EXPERTS },
		{ "expert_weights_scale", 1, EXPERTS },
		{ "expert_shared_count", 1, SHARED },
		{ "expert_shared_feed_forward_length", 0, SHARED },
		{ "expert_gating_func", GATING_SOFTMAX, NOBODY },
		{ "expert_group_count", 1, NOBODY },
		{ "expert_group_used_count", 1, NOBODY },
		{ "leading_dense_block_count", 0, NOBODY },
		{ "moe_every_n_layers", 1, NOBODY },
		{ "interleave_moe_layer_step", 1, NOBODY },
		{ "attention.max_alibi_bias", 0, NOBODY },
		{ "attention.clamp_kqv", 0, NOBODY },
		{ "attention.temperature_scale", 0, NOBODY },
		{ "nextn_predict_layers", 0, NOBODY },
		{ "attention.scale", 0, SCALES },
		{ "logit_scale", 1, SCALES },
		{ "residual_scale", 1, SCALES },
		{ "embedding_scale", 1, SCALES },
		{ "attn_logit_softcapping", 0, CAPS },
		{ "final_logit_softcapping", 0, CAPS },
	};
	bool causal;
	double v;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		int err = gguf_f64(k->file, keys_name(k, refused[i].key), &v);
		uint64_t u;

		if ((refused[i].of == EXPERTS && arch->experts != LLM_EXPERTS_NEVER) ||
		    (refused[i].of == SHARED && arch->experts == LLM_EXPERTS_SHARED) ||
		    (refused[i].of == SCALES && arch->scales) ||
		    (refused[i].of == CAPS && arch->attn_cap > 0))
			continue;
		if (err == -EINVAL && !gguf_u64(k->file, k->key, &u)) {
			v = (double)u;
			err = 0;
		}
		if (err == -ENOENT || (!err && (v == 0 || v == refused[i].neutral)))
			continue;
		return llm_fail(-ENOTSUP, "%s: %s is set, which this runtime does not implement",
				k->path, k->key);
	}
	if (!gguf_bool(k->file, keys_name(k, "attention.causal"), &causal) && !causal)
		return llm_fail(-ENOTSUP, "%s: %s is false: not a text generating model", k->path,
				k->key);
	return 0;
}

/* An attention window that hides tokens, and the layers that have it. */
static int keys_window(struct keys *k, struct llm_model *model, const struct llm_arch *arch)
{
	unsigned int window = arch->window ? arch->window : model->n_ctx_train;
	uint64_t zero;
	int err = 0;

	/* Some files say 0, or a number below it, of a window that there is not. */
	if (!gguf_u64(k->file, keys_name(k, "attention.sliding_window"), &zero) && zero)
		err = keys_uint(k, "attention.sliding_window", 1, MAX_CONTEXT, window, &window);
	if (!err && window < model->n_ctx_train)
		model->window = window;
	return err;
}

/* What extends the context, by the key of its type. */
static int keys_rope_type(struct keys *k, struct llm_rope *rope)
{
	const char *type;
	size_t bytes;
	bool is_long;
	int err;

	/* Older files have this key alone. */
	if (gguf_string(k->file, keys_name(k, "rope.scaling.type"), &type, &bytes))
		return keys_float(k, "rope.scale_linear", 1e-3, 1e6, 1, &rope->factor);
	if (bytes == 4 && !memcmp(type, "none", 4))
		return 0;
	rope->yarn = bytes == 4 && !memcmp(type, "yarn", 4);
	is_long = bytes == 8 && !memcmp(type, "longrope", 8);
	if (!rope->yarn && !is_long && (bytes != 6 || memcmp(type, "linear", 6)))
		return llm_fail(-ENOTSUP,
				"%s: %s is '%.*s', none of linear, yarn, longrope and none",
				k->path, k->key, bytes < 32 ? (int)bytes : 32, type);
	err = keys_float(k, "rope.scaling.factor", 1e-3, 1e6, is_long ? 1 : NAN, &rope->factor);
	if (!err && rope->yarn)
		err = keys_float(k, "rope.scaling.yarn_beta_fast", 0, 1e6, 32, &rope->beta_fast);
	if (!err && rope->yarn)
		err = keys_float(k, "rope.scaling.yarn_beta_slow", 0, 1e6, 1, &rope->beta_slow);
	return err;
}

static int keys_rope(struct keys *k, struct llm_model *model, struct llm_rope *rope)
{
	int err;

	err = keys_uint(k, "rope.dimension_count", 2, model->head_dim, model->head_dim,
			&model->rot_dim);
	if (err)
		return err;
	if (model->rot_dim % 2)
		return llm_fail(-EINVAL, "%s: %s is %u, an odd number", k->path, k->key,
				model->rot_dim);
	*rope = (struct llm_rope){ .factor = 1, .magnitude = 1, .n_ctx_orig = model->n_ctx_train };
	err = keys_float(k, "rope.freq_base", 1, 1e12, 10000, &rope->base);
	/* Converters write no type of longrope, whose factors are tensors. */
	if (!err)
		err = keys_float(k, "rope.scaling.attn_factor", 1e-3, 1e3, 1, &rope->magnitude);
	if (!err)
		err = keys_uint(k, "rope.scaling.original_context_length", 1, MAX_CONTEXT,
				model->n_ctx_train, &rope->n_ctx_orig);
	err = err ? err : keys_rope_type(k, rope);
	model->n_ctx_covered = (uint64_t)fmax(model->n_ctx_train, rope->n_ctx_orig * rope->factor);
	return err;
}

static int keys_heads(struct keys *k, struct llm_model *model)
{
	unsigned int value_length;
	int err;

	err = keys_uint(k, "attention.head_count", 1, MAX_HEADS, 0, &model->n_head);
	if (!err)
		err = keys_uint(k, "attention.head_count_kv", 1, MAX_HEADS, model->n_head,
				&model->n_head_kv);
	if (err)
		return err;
	if (model->n_head % model->n_head_kv)
		return llm_fail(-EINVAL, "%s: %u attention heads cannot share %u KV heads evenly",
				k->path, model->n_head, model->n_head_kv);
	err = keys_uint(k, "attention.key_length", 1, VNPU_MAX_HEAD_DIM, VNPU_MAX_HEAD_DIM + 1,
			&model->head_dim);
	if (err)
		return err;
	if (model->head_dim > VNPU_MAX_HEAD_DIM) {
		if (model->n_embd % model->n_head ||
		    model->n_embd / model->n_head > VNPU_MAX_HEAD_DIM)
			return llm_fail(
				-EINVAL,
				"%s: an embedding of %u and %u heads give no head size of 1..%u",
				k->path, model->n_embd, model->n_head, VNPU_MAX_HEAD_DIM);
		model->head_dim = model->n_embd / model->n_head;
	}
	err = keys_uint(k, "attention.value_length", 1, VNPU_MAX_HEAD_DIM, model->head_dim,
			&value_length);
	if (err)
		return err;
	if (value_length != model->head_dim)
		return llm_fail(
			-ENOTSUP,
			"%s: keys of %u and values of %u: different head sizes are not implemented",
			k->path, model->head_dim, value_length);
	model->q_dim = model->n_head * model->head_dim;
	model->kv_dim = model->n_head_kv * model->head_dim;
	if (model->q_dim > VNPU_MAX_DIM)
		return llm_fail(-EINVAL, "%s: %u heads of %u are more than %u columns", k->path,
				model->n_head, model->head_dim, VNPU_MAX_DIM);
	return 0;
}

static int keys_epsilon(struct keys *k, struct llm_model *model, const struct llm_arch *arch)
{
	double eps;
	int err = keys_float(k,
			     arch->layer_norm ? "attention.layer_norm_epsilon"
					      : "attention.layer_norm_rms_epsilon",
			     0, 1, NAN, &eps);

	if (!err)
		model->eps = model->qk_eps = (float)eps;
	return err;
}

/* The constants that an architecture multiplies with, as model.h has them. */
static int keys_scales(struct keys *k, struct llm_model *model, const struct llm_arch *arch)
{
	bool embd = model->n_layer == arch->embd_scale_layers;
	double dim = embd ? (double)model->n_embd / model->n_head : model->head_dim, scale,
	       residual = 1, embeddings = arch->embd_root ? sqrt(model->n_embd) : 1, logits = 1;
	int err = 0;

	scale = 1 / sqrt(dim);
	if (arch->scales) {
		err = keys_float(k, "embedding_scale", 1e-6, 1e6, 1, &embeddings);
		if (!err)
			err = keys_float(k, "residual_scale", 1e-6, 1e6, 1, &residual);
		if (!err)
			err = keys_float(k, "logit_scale", 1e-6, 1e6, 1, &logits);
		if (!err)
			err = keys_float(k, "attention.scale", 1e-6, 1e6, scale, &scale);
	}
	model->attn_scale =
		arch->scales || embd ? (float)scale : 1.0f / sqrtf((float)model->head_dim);
	model->embd_scale = (float)(embeddings / residual);
	model->eps = (float)((double)model->eps / (residual * residual));
	model->logit_scale = (float)(1 / logits);
	return err;
}

static int keys_caps(struct keys *k, struct llm_model *model, const struct llm_arch *arch)
{
	double attn = 0, logits = 0;
	int err = 0;

	if (arch->attn_cap > 0)
		err = keys_float(k, "attn_logit_softcapping", 0, 1e6, arch->attn_cap, &attn);
	if (!err && arch->logit_cap > 0)
		err = keys_float(k, "final_logit_softcapping", 0, 1e6, arch->logit_cap, &logits);
	model->attn_cap = (float)attn;
	model->logit_cap = (float)logits;
	return err;
}

static int keys_sizes(struct keys *k, struct llm_model *model)
{
	size_t tensors = gguf_n_tensors(k->file);
	int err;

	/* Each layer has at least one tensor, so their number bounds the allocation. */
	err = keys_uint(k, "block_count", 1,
			tensors < VNPU_MAX_DIM ? (unsigned int)tensors : VNPU_MAX_DIM, 0,
			&model->n_layer);
	if (!err)
		err = keys_uint(k, "embedding_length", 1, VNPU_MAX_DIM, 0, &model->n_embd);
	if (!err)
		err = keys_uint(k, "feed_forward_length", 1, VNPU_MAX_DIM, 0, &model->n_ff);
	if (!err)
		err = keys_uint(k, "context_length", 1, MAX_CONTEXT, 0, &model->n_ctx_train);
	return err ? err : keys_heads(k, model);
}

/* Lengths of an expert's FFN, and of the shared one's. Where the file does not say, those of a
 * token's experts together are "feed_forward_length"; in llama each is; and the shared one's is. */
static int keys_expert_sizes(struct keys *k, struct llm_model *m, const struct llm_arch *arch)
{
	unsigned int all = m->n_ff, each = all;
	int err = 0;

	if (arch->experts != LLM_EXPERTS_MAYBE)
		each = all > m->n_expert_used ? all / m->n_expert_used : 1;
	if (arch->experts == LLM_EXPERTS_SHARED)
		err = keys_uint(k, "expert_shared_feed_forward_length", 1, VNPU_MAX_DIM, all,
				&m->n_ff_shared);
	if (!err)
		err = keys_uint(k, "expert_feed_forward_length", 1, VNPU_MAX_DIM, each, &m->n_ff);
	if (err)
		return err;
	if ((uint64_t)m->n_expert * m->n_ff <= VNPU_MAX_DIM &&
	    (uint64_t)m->n_expert * m->n_embd <= VNPU_MAX_DIM)
		return 0;
	return llm_fail(-ENOTSUP, "%s: %u experts of %u are more than %u rows of a stack", k->path,
			m->n_expert, m->n_ff > m->n_embd ? m->n_ff : m->n_embd, VNPU_MAX_DIM);
}

/* Whether the weights of a token's experts add up to 1, and what they are multiplied by. */
static int keys_expert_weights(struct keys *k, struct llm_model *m, const struct llm_arch *arch)
{
	double scale;
	int err = gguf_bool(k->file, keys_name(k, "expert_weights_norm"), &m->expert_norm);

	if (err == -ENOENT)
		m->expert_norm = arch->experts != LLM_EXPERTS_SHARED;
	else if (err)
		return llm_fail(-EINVAL, "%s: %s is neither true nor false", k->path, k->key);
	err = keys_float(k, "expert_weights_scale", 0, 1e6, 1, &scale);
	/* Converters of other architectures write 0 for 1. */
	m->expert_scale = scale > 0 ? (float)scale : 1;
	return err;
}

static int keys_experts(struct keys *k, struct llm_model *m, const struct llm_arch *arch)
{
	bool maybe = arch->experts == LLM_EXPERTS_MAYBE;
	uint64_t count = 0, used = 0;
	int err;

	if (arch->experts == LLM_EXPERTS_NEVER)
		return 0;
	if (maybe &&
	    (gguf_u64(k->file, keys_name(k, "expert_count"), &count) == -ENOENT || !count)) {
		gguf_u64(k->file, keys_name(k, "expert_used_count"), &used);
		return used ? llm_fail(-EINVAL, "%s: %s is %llu, but there are no experts", k->path,
				       k->key, (unsigned long long)used)
			    : 0;
	}
	err = keys_uint(k, "expert_count", 1, MAX_EXPERTS, 0, &m->n_expert);
	if (!err)
		err = keys_uint(k, "expert_used_count", 1, m->n_expert, 0, &m->n_expert_used);
	if (!err)
		err = keys_expert_sizes(k, m, arch);
	return err ? err : keys_expert_weights(k, m, arch);
}

int llm_model_read_keys(struct llm_model *model, const struct llm_arch *arch,
			const struct gguf_file *file, const char *path, struct llm_rope *rope)
{
	struct keys k = { .file = file, .path = path, .arch = arch->name };
	int err;

	model->arch = arch->name;
	model->features = arch;
	err = keys_refuse(&k, arch);
	if (!err)
		err = keys_sizes(&k, model);
	if (!err)
		err = keys_experts(&k, model, arch);
	if (!err)
		err = keys_epsilon(&k, model, arch);
	if (!err)
		err = keys_scales(&k, model, arch);
	if (!err)
		err = keys_caps(&k, model, arch);
	if (!err)
		err = keys_rope(&k, model, rope);
	return err ? err : keys_window(&k, model, arch);
}
