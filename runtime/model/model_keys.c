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

/* Limits of the NPU's operands: VNPU_MAX_DIM, VNPU_MAX_HEAD_DIM */
#define MAX_DIM (1u << 24)
#define MAX_HEAD_DIM 1024
#define MAX_HEADS 65536
#define MAX_CONTEXT (1u << 30)

static const struct llm_arch archs[] = {
	{ .name = "llama" },
	{ .name = "qwen2", .rope_halves = true, .needs_qkv_bias = true },
	{ .name = "qwen3", .rope_halves = true, .head_norms = true },
};

const struct llm_arch *llm_arch_find(const struct gguf_file *file, const char *path, int *err)
{
	const char *name;
	size_t bytes;

	*err = gguf_string(file, "general.architecture", &name, &bytes);
	if (*err) {
		*err = llm_fail(-EINVAL, "%s: no general.architecture; is this a model?", path);
		return NULL;
	}
	for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
		if (bytes == strlen(archs[i].name) && !memcmp(name, archs[i].name, bytes))
			return &archs[i];
	}
	*err = llm_fail(
		-ENOTSUP,
		"%s: architecture '%.*s' is not supported; known are llama, qwen2 and qwen3", path,
		bytes < 64 ? (int)bytes : 64, name);
	return NULL;
}

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
static int keys_refuse(struct keys *k)
{
	static const struct {
		const char *key;
		double neutral;
	} refused[] = {
		{ "expert_count", 0 },
		{ "attention.max_alibi_bias", 0 },
		{ "attention.clamp_kqv", 0 },
		{ "attention.scale", 0 },
		{ "attention.temperature_scale", 0 },
		{ "attn_logit_softcapping", 0 },
		{ "final_logit_softcapping", 0 },
		{ "logit_scale", 1 },
		{ "residual_scale", 1 },
		{ "embedding_scale", 1 },
		{ "nextn_predict_layers", 0 },
	};
	bool causal;
	double v;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		int err = gguf_f64(k->file, keys_name(k, refused[i].key), &v);
		uint64_t u;

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

/* An attention window smaller than the context would hide tokens. */
static int keys_window(struct keys *k, unsigned int n_ctx_train)
{
	uint64_t window;

	if (gguf_u64(k->file, keys_name(k, "attention.sliding_window"), &window) || !window ||
	    window >= n_ctx_train)
		return 0;
	return llm_fail(-ENOTSUP, "%s: %s is %llu: sliding-window attention is not implemented",
			k->path, k->key, (unsigned long long)window);
}

static int keys_rope(struct keys *k, struct llm_model *model)
{
	double base, factor = 1;
	const char *type;
	size_t bytes;
	int err;

	err = keys_uint(k, "rope.dimension_count", 2, model->head_dim, model->head_dim,
			&model->rot_dim);
	if (err)
		return err;
	if (model->rot_dim % 2)
		return llm_fail(-EINVAL, "%s: %s is %u, an odd number", k->path, k->key,
				model->rot_dim);
	err = keys_float(k, "rope.freq_base", 1, 1e12, 10000, &base);
	if (err)
		return err;
	if (!gguf_string(k->file, keys_name(k, "rope.scaling.type"), &type, &bytes)) {
		if (bytes == 6 && !memcmp(type, "linear", 6))
			err = keys_float(k, "rope.scaling.factor", 1e-3, 1e6, NAN, &factor);
		else if (bytes != 4 || memcmp(type, "none", 4))
			err = llm_fail(-ENOTSUP, "%s: %s '%.*s' is not implemented; linear is",
				       k->path, k->key, bytes < 32 ? (int)bytes : 32, type);
	} else {
		/* Older files use this key. */
		err = keys_float(k, "rope.scale_linear", 1e-3, 1e6, 1, &factor);
	}
	if (err)
		return err;
	model->inv_freq = calloc(model->rot_dim / 2, sizeof(*model->inv_freq));
	if (!model->inv_freq)
		return llm_fail(-ENOMEM, "%s: no memory", k->path);
	for (unsigned int i = 0; i < model->rot_dim / 2; i++)
		model->inv_freq[i] = (float)(pow(base, -2.0 * i / model->rot_dim) / factor);
	return 0;
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
	err = keys_uint(k, "attention.key_length", 1, MAX_HEAD_DIM, MAX_HEAD_DIM + 1,
			&model->head_dim);
	if (err)
		return err;
	if (model->head_dim > MAX_HEAD_DIM) {
		if (model->n_embd % model->n_head || model->n_embd / model->n_head > MAX_HEAD_DIM)
			return llm_fail(
				-EINVAL,
				"%s: an embedding of %u and %u heads give no head size of 1..%u",
				k->path, model->n_embd, model->n_head, MAX_HEAD_DIM);
		model->head_dim = model->n_embd / model->n_head;
	}
	err = keys_uint(k, "attention.value_length", 1, MAX_HEAD_DIM, model->head_dim,
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
	if (model->q_dim > MAX_DIM)
		return llm_fail(-EINVAL, "%s: %u heads of %u are more than %u columns", k->path,
				model->n_head, model->head_dim, MAX_DIM);
	return 0;
}

int llm_model_read_keys(struct llm_model *model, const struct llm_arch *arch,
			const struct gguf_file *file, const char *path)
{
	struct keys k = { .file = file, .path = path, .arch = arch->name };
	size_t tensors = gguf_n_tensors(file);
	double eps;
	int err;

	model->arch = arch->name;
	model->rope_halves = arch->rope_halves;
	err = keys_refuse(&k);
	/* Each layer has at least one tensor, so their number bounds the allocation. */
	if (!err)
		err = keys_uint(&k, "block_count", 1,
				tensors < MAX_DIM ? (unsigned int)tensors : MAX_DIM, 0,
				&model->n_layer);
	if (!err)
		err = keys_uint(&k, "embedding_length", 1, MAX_DIM, 0, &model->n_embd);
	if (!err)
		err = keys_uint(&k, "feed_forward_length", 1, MAX_DIM, 0, &model->n_ff);
	if (!err)
		err = keys_uint(&k, "context_length", 1, MAX_CONTEXT, 0, &model->n_ctx_train);
	if (!err)
		err = keys_float(&k, "attention.layer_norm_rms_epsilon", 0, 1, NAN, &eps);
	if (!err)
		err = keys_heads(&k, model);
	if (!err)
		err = keys_rope(&k, model);
	if (!err)
		err = keys_window(&k, model->n_ctx_train);
	if (!err)
		model->eps = (float)eps;
	return err;
}
