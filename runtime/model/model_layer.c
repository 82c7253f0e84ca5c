// SPDX-License-Identifier: MIT
/*
 * The tensors of a layer. Fused tensors are taken apart here: q, k and v, or gate and up, are rows
 * of one tensor, so each is a tensor in its place in the file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"
#include "model_reader.h"

static int layer_vector(struct reader *r, unsigned int layer, const char *what, unsigned int n,
			bool optional, float **vector)
{
	char name[96];

	snprintf(name, sizeof(name), "blk.%u.%s", layer, what);
	return reader_vector(r, name, n, optional, vector);
}

/* The norm @what of rows, with the bias that a layer norm has. */
static int layer_norm(struct reader *r, unsigned int layer, const char *what, bool optional,
		      float **weight, float **bias)
{
	unsigned int n = r->model->n_embd;
	char name[64];
	int err;

	snprintf(name, sizeof(name), "%s.weight", what);
	err = layer_vector(r, layer, name, n, optional, weight);
	if (err || !*weight || !r->model->features->layer_norm)
		return err;
	snprintf(name, sizeof(name), "%s.bias", what);
	return layer_vector(r, layer, name, n, false, bias);
}

/* Whether the FFN has a norm of its own decides whether it is beside attention. */
static int layer_parallel(struct reader *r, unsigned int i)
{
	struct llm_model *m = r->model;
	bool parallel = !m->layers[i].ffn_norm;

	if (!i)
		m->parallel = parallel;
	if (parallel == m->parallel)
		return 0;
	return llm_fail(-EINVAL, "%s: blk.%u.ffn_norm and blk.0.ffn_norm: only one of them exists",
			r->path, i);
}

static int layer_norms(struct reader *r, unsigned int i)
{
	struct llm_layer *l = &r->model->layers[i];
	const struct llm_arch *arch = r->model->features;
	int err = 0;

	if (arch->norms != LLM_NORMS_AFTER) {
		err = layer_norm(r, i, "attn_norm", false, &l->attn_norm, &l->attn_norm_bias);
		if (!err && !arch->is_parallel)
			err = layer_norm(r, i, "ffn_norm", arch->may_be_parallel, &l->ffn_norm,
					 &l->ffn_norm_bias);
		if (!err)
			err = layer_parallel(r, i);
	}
	if (arch->norms == LLM_NORMS_BEFORE)
		return err;
	if (!err)
		err = layer_vector(r, i, "post_attention_norm.weight", r->model->n_embd, false,
				   &l->attn_post_norm);
	return err ? err
		   : layer_vector(r, i, "post_ffw_norm.weight", r->model->n_embd, false,
				  &l->ffn_post_norm);
}

static int layer_qk_norms(struct reader *r, unsigned int i)
{
	struct llm_layer *l = &r->model->layers[i];
	int err;

	if (r->model->features->qk_norms == LLM_QK_NORMS_NONE)
		return 0;
	err = layer_vector(r, i, "attn_q_norm.weight", llm_model_qk_norm_cols(r->model, false),
			   false, &l->q_norm);
	return err ? err
		   : layer_vector(r, i, "attn_k_norm.weight",
				  llm_model_qk_norm_cols(r->model, true), false, &l->k_norm);
}

/* Matrices @first..@last are rows of the tensor @what; panels are each matrix's own. */
static int layer_fused(struct reader *r, unsigned int i, const char *what, int first, int last)
{
	struct llm_model *m = r->model;
	const struct gguf_tensor *whole;
	unsigned int rows = 0;
	uint64_t at = 0;
	char name[64];
	int err;

	for (int w = first; w <= last; w++)
		rows += llm_model_rows(m, w);
	snprintf(name, sizeof(name), "blk.%u.%s.weight", i, what);
	err = reader_take(r, name, rows, m->n_embd, false, &whole);
	for (int w = first; !err && w <= last; w++) {
		struct gguf_tensor *part = &m->parts[(size_t)i * LLM_NR_MATRICES + (unsigned)w];

		*part = *whole;
		part->dims[1] = llm_model_rows(m, w);
		part->bytes = whole->bytes / rows * part->dims[1];
		part->data = (const uint8_t *)whole->data + at;
		at += part->bytes;
		m->layers[i].matrix[w] = part;
	}
	return err;
}

/* The same of their biases, which are copies. */
static int layer_fused_bias(struct reader *r, unsigned int i, const char *what, int first, int last)
{
	struct llm_model *m = r->model;
	unsigned int rows = 0, at = 0;
	float *whole = NULL;
	char name[64];
	int err;

	for (int w = first; w <= last; w++)
		rows += llm_model_rows(m, w);
	snprintf(name, sizeof(name), "%s.bias", what);
	err = layer_vector(r, i, name, rows, true, &whole);
	for (int w = first; !err && whole && w <= last; w++) {
		unsigned int n = llm_model_rows(m, w);
		float *part = m->layers[i].bias[w] = malloc(n * sizeof(*part));

		if (part)
			memcpy(part, whole + at, n * sizeof(*part));
		else
			err = llm_fail(-ENOMEM, "%s: no memory for tensor %s", r->path, name);
		at += n;
	}
	free(whole);
	return err;
}

/* A matrix with a tensor of its own. */
static int layer_matrix(struct reader *r, unsigned int i, int w)
{
	struct llm_model *m = r->model;
	struct llm_layer *l = &m->layers[i];
	char name[64];

	snprintf(name, sizeof(name), "blk.%u.%s", i, llm_model_matrix_name(m, w));
	return reader_matrix(r, name, llm_model_rows(m, w), llm_model_cols(m, w), false,
			     &l->matrix[w], &l->format[w], &l->bits[w]);
}

/* A stack of experts, which is a matrix. Old files have a tensor for each expert. */
static int layer_stack(struct reader *r, unsigned int i, int w)
{
	struct llm_model *m = r->model;
	struct gguf_tensor *part = &m->parts[(size_t)i * LLM_NR_MATRICES + (unsigned)w];
	char name[64], old[64];

	snprintf(name, sizeof(name), "blk.%u.%s.weight", i, llm_model_matrix_name(m, w));
	snprintf(old, sizeof(old), "blk.%u.%s.0.weight", i, llm_matrix_names[w]);
	if (!gguf_find_tensor(r->file, name) && gguf_find_tensor(r->file, old))
		return llm_fail(
			-ENOTSUP,
			"%s: has a tensor for each expert, %s, as old files do, in place of "
			"%s: convert the original model again",
			r->path, old, name);
	m->layers[i].matrix[w] = part;
	return reader_stack(r, name, llm_model_rows(m, w), llm_model_cols(m, w), part);
}

/* What chooses a token's experts, and what weighs the shared one. */
static int layer_router(struct reader *r, unsigned int i)
{
	struct llm_model *m = r->model;
	char name[64];
	int err;

	if (!m->n_expert)
		return 0;
	snprintf(name, sizeof(name), "blk.%u.ffn_gate_inp.weight", i);
	err = reader_wide_matrix(r, name, m->n_expert, m->n_embd, &m->layers[i].router);
	return err || !m->n_ff_shared ? err
				      : layer_vector(r, i, "ffn_gate_inp_shexp.weight", m->n_embd,
						     false, &m->layers[i].shared_gate);
}

static int layer_bias(struct reader *r, unsigned int i, int w)
{
	struct llm_model *m = r->model;
	char name[64];

	snprintf(name, sizeof(name), "%s.bias", llm_matrix_names[w]);
	return layer_vector(r, i, name, llm_model_rows(m, w),
			    !(m->features->needs_qkv_bias && w <= LLM_ATTN_V),
			    &m->layers[i].bias[w]);
}

/* The tensor that a matrix is a part of; NULL: it has its own. */
static const char *fused_name(const struct llm_arch *arch, int w, int *last)
{
	if (arch->fused_qkv && w <= LLM_ATTN_V) {
		*last = LLM_ATTN_V;
		return "attn_qkv";
	}
	if (arch->fused_gate_up && (w == LLM_FFN_GATE || w == LLM_FFN_UP)) {
		*last = LLM_FFN_UP;
		return "ffn_up";
	}
	return NULL;
}

static int layer_matrices(struct reader *r, unsigned int i)
{
	struct llm_model *m = r->model;
	int err = 0, last = 0;

	for (int w = 0; !err && w < LLM_NR_MATRICES; w++) {
		const char *fused = fused_name(m->features, w, &last);

		if (!llm_model_rows(m, w))
			continue;
		if (!m->packed[0] && llm_model_is_stack(m, w))
			err = layer_stack(r, i, w);
		else if (m->packed[0] || !fused)
			err = layer_matrix(r, i, w);
		else if (!m->layers[i].matrix[w])
			err = layer_fused(r, i, fused, w, last);
		if (!err && !fused && !(m->n_expert && w >= LLM_FFN_GATE))
			err = layer_bias(r, i, w);
		else if (!err && (w == LLM_ATTN_Q || w == LLM_FFN_GATE))
			err = layer_fused_bias(r, i, fused, w, last);
	}
	return err;
}

/* One NPU graph serves all layers, so they must have the same biases. */
static int layer_check_biases(const struct reader *r, unsigned int i)
{
	const struct llm_layer *layers = r->model->layers;

	for (int w = 0; w < LLM_NR_MATRICES; w++)
		if (!layers[i].bias[w] != !layers[0].bias[w])
			return llm_fail(-EINVAL,
					"%s: blk.%u.%s and blk.0.%s: only one of them has a bias",
					r->path, i, llm_matrix_names[w], llm_matrix_names[w]);
	return 0;
}

int reader_layer(struct reader *r, unsigned int i)
{
	const struct llm_arch *arch = r->model->features;
	struct llm_layer *l = &r->model->layers[i];
	int err;

	/* Local layers have a RoPE of their own even if no text is longer than their window. */
	l->local = (r->model->window || arch->window_rope_base > 0) &&
		   !(arch->window_step && !((i + 1) % arch->window_step));
	l->no_rope = arch->no_rope_step && !((i + 1) % arch->no_rope_step);
	err = layer_norms(r, i);
	if (!err)
		err = layer_qk_norms(r, i);
	if (!err)
		err = layer_matrices(r, i);
	if (!err)
		err = layer_router(r, i);
	return err ? err : layer_check_biases(r, i);
}
