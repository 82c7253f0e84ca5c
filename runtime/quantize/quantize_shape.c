// SPDX-License-Identifier: MIT
/*
 * Keys and tensors of a shape in an architecture, as llama.cpp's converters name them.
 *
 * Weights are uniformly distributed with a variance of 1 / inputs, so inputs of variance 1, as
 * norms give, lead to outputs of variance 1. Norms are 1, or about 1.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "quantize_synthetic.h"

#define CONTEXT 32768
#define WINDOW 512
#define ORIGINAL_CONTEXT 4096
#define EPSILON 1e-5f
#define ROPE_BASE 10000.0f
/* What varied vectors vary by. */
#define VARIED 0.25f
/* The factors of granite-3.1-2b-instruct's configuration. */
#define EMBEDDING_SCALE 12
#define RESIDUAL_SCALE 0.22f
#define ATTENTION_SCALE 0.015625f
#define LOGIT_SCALE 8

/* ---- keys ---- */

static void put_u32(struct synthetic *s, const char *what, uint32_t v)
{
	char key[64];

	snprintf(key, sizeof(key), "%s.%s", s->arch->name, what);
	gguf_writer_u32(s->q->writer, key, v);
}

static void put_f32(struct synthetic *s, const char *what, float v)
{
	char key[64];

	snprintf(key, sizeof(key), "%s.%s", s->arch->name, what);
	gguf_writer_f32(s->q->writer, key, v);
}

/* Values of a head that RoPE rotates: a part in phi2 and stablelm. */
static uint32_t rot_dim(const struct synthetic *s)
{
	uint32_t dim = s->shape->head_dim;

	return s->arch->may_be_parallel && dim >= 8 ? dim / 8 * 2 : dim;
}

/* Phi-3 has models of an extended context. */
static bool is_extended(const struct synthetic *s)
{
	return s->varied && s->arch->fused_gate_up;
}

static void put_rope(struct synthetic *s)
{
	put_u32(s, "rope.dimension_count", rot_dim(s));
	put_f32(s, "rope.freq_base", ROPE_BASE);
	if (!is_extended(s))
		return;
	put_u32(s, "rope.scaling.original_context_length", ORIGINAL_CONTEXT);
	put_f32(s, "rope.scaling.attn_factor",
		sqrtf(1 + logf((float)CONTEXT / ORIGINAL_CONTEXT) / logf(ORIGINAL_CONTEXT)));
}

static void put_scales(struct synthetic *s)
{
	if (s->arch->scales) {
		put_f32(s, "embedding_scale", EMBEDDING_SCALE);
		put_f32(s, "residual_scale", RESIDUAL_SCALE);
		put_f32(s, "attention.scale", ATTENTION_SCALE);
		put_f32(s, "logit_scale", LOGIT_SCALE);
	}
	if (s->arch->attn_cap > 0)
		put_f32(s, "attn_logit_softcapping", (float)s->arch->attn_cap);
	if (s->arch->logit_cap > 0)
		put_f32(s, "final_logit_softcapping", (float)s->arch->logit_cap);
	if (s->arch->window_step)
		put_u32(s, "attention.sliding_window", WINDOW);
	else if (is_extended(s))
		put_u32(s, "attention.sliding_window", 2 * CONTEXT);
}

static void put_experts(struct synthetic *s)
{
	const struct shape *shape = s->shape;

	if (!shape->experts)
		return;
	put_u32(s, "expert_count", shape->experts);
	put_u32(s, "expert_used_count", shape->experts_used);
	if (s->arch->experts != LLM_EXPERTS_MAYBE)
		put_u32(s, "expert_feed_forward_length", shape->ffn);
	if (shape->shared_ffn)
		put_u32(s, "expert_shared_feed_forward_length", shape->shared_ffn);
}

void synthetic_keys(struct synthetic *s)
{
	const struct shape *shape = s->shape;
	struct gguf_writer *w = s->q->writer;
	char name[96];

	snprintf(name, sizeof(name), "synthetic %s, seed %" PRIu64, shape->name, s->seed);
	gguf_writer_string(w, "general.architecture", s->arch->name, strlen(s->arch->name));
	gguf_writer_string(w, "general.name", name, strlen(name));
	gguf_writer_u32(w, "general.quantization_version", 2);
	gguf_writer_u32(w, "general.file_type", s->q->file_type);
	put_u32(s, "context_length", CONTEXT);
	put_u32(s, "embedding_length", shape->dim);
	s->q->n_layer = shape->layers;
	s->q->n_expert = shape->experts;
	s->q->sharing = shape->heads / shape->kv_heads;
	put_u32(s, "block_count", shape->layers);
	put_u32(s, "feed_forward_length", shape->ffn);
	put_experts(s);
	put_u32(s, "attention.head_count", shape->heads);
	put_u32(s, "attention.head_count_kv", shape->kv_heads);
	put_u32(s, "attention.key_length", shape->head_dim);
	put_u32(s, "attention.value_length", shape->head_dim);
	put_f32(s,
		s->arch->layer_norm ? "attention.layer_norm_epsilon"
				    : "attention.layer_norm_rms_epsilon",
		EPSILON);
	put_rope(s);
	put_scales(s);
	put_u32(s, "vocab_size", s->n_vocab);
}

/* ---- tensors ---- */

/* FNV-1a. A tensor's random numbers depend on its name, not on its place in the file. */
static uint64_t hash_name(const char *name, uint64_t seed)
{
	uint64_t h = 0xcbf29ce484222325u ^ seed * 0x9e3779b97f4a7c15u;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 0x100000001b3u;
	return h;
}

/* Begins the next tensor; @layer -1: it is in no layer; @rows 0: it is a vector. */
static struct quantize_tensor *next_tensor(struct synthetic *s, int layer, const char *name,
					   uint64_t cols, uint64_t rows)
{
	struct quantize_tensor *t = &s->tensors[s->n];
	char *full = s->names[s->n++];

	if (layer < 0)
		snprintf(full, sizeof(s->names[0]), "%s", name);
	else
		snprintf(full, sizeof(s->names[0]), "blk.%d.%s", layer, name);
	*t = (struct quantize_tensor){ .name = full,
				       .n_dims = rows ? 2 : 1,
				       .dims = { cols, rows ? rows : 1, 1, 1 } };
	t->key = hash_name(full, s->seed);
	return t;
}

/* @stack: how many of them; 0: it is no stack. */
static void put_matrices(struct synthetic *s, int layer, const char *name, uint64_t cols,
			 uint64_t rows, uint64_t stack, bool head)
{
	struct quantize_tensor *t = next_tensor(s, layer, name, cols, rows);

	if (stack) {
		t->n_dims = 3;
		t->dims[2] = stack;
	}
	t->scale = sqrtf(3 / (float)cols);
	t->type = quantize_target(s->q, t->name, t->dims, GGUF_F32, head);
	quantize_add(s->q, t);
}

static void put_matrix(struct synthetic *s, int layer, const char *name, uint64_t cols,
		       uint64_t rows, bool head)
{
	put_matrices(s, layer, name, cols, rows, 0, head);
}

static void put_vector(struct synthetic *s, int layer, const char *name, uint64_t n, float base,
		       float scale)
{
	struct quantize_tensor *t = next_tensor(s, layer, name, n, 0);

	t->base = base;
	t->scale = scale;
	t->type = GGUF_F32;
	quantize_add(s->q, t);
}

/* A norm of rows, with the bias of a layer norm. */
static void put_norm(struct synthetic *s, int layer, const char *what)
{
	char name[48];

	snprintf(name, sizeof(name), "%s.weight", what);
	put_vector(s, layer, name, s->shape->dim, 1, s->varied ? VARIED : 0);
	snprintf(name, sizeof(name), "%s.bias", what);
	if (s->arch->layer_norm)
		put_vector(s, layer, name, s->shape->dim, 0, VARIED);
}

static void put_norms(struct synthetic *s, int i)
{
	const struct llm_arch *arch = s->arch;
	const struct shape *shape = s->shape;
	bool head = arch->qk_norms == LLM_QK_NORMS_HEAD;
	uint64_t dim = shape->head_dim;

	if (arch->norms != LLM_NORMS_AFTER)
		put_norm(s, i, "attn_norm");
	if (arch->norms != LLM_NORMS_AFTER && !arch->is_parallel)
		put_norm(s, i, "ffn_norm");
	if (arch->norms != LLM_NORMS_BEFORE) {
		put_norm(s, i, "post_attention_norm");
		put_norm(s, i, "post_ffw_norm");
	}
	if (arch->qk_norms == LLM_QK_NORMS_NONE)
		return;
	put_vector(s, i, "attn_q_norm.weight", head ? dim : dim * shape->heads, 1, VARIED);
	put_vector(s, i, "attn_k_norm.weight", head ? dim : dim * shape->kv_heads, 1, VARIED);
}

/* Whether the matrices have biases: those that the architecture's models have. */
static bool has_bias(const struct synthetic *s, int m)
{
	bool qkv = m <= LLM_ATTN_V;

	if (s->arch->needs_qkv_bias)
		return qkv;
	return s->arch->layer_norm && (qkv || s->arch->no_gate);
}

static void put_biased(struct synthetic *s, int layer, const char *what, uint64_t cols,
		       uint64_t rows, bool bias)
{
	char name[32];

	snprintf(name, sizeof(name), "%s.weight", what);
	put_matrix(s, layer, name, cols, rows, false);
	snprintf(name, sizeof(name), "%s.bias", what);
	if (bias)
		put_vector(s, layer, name, rows, 0, 0.1f);
}

/* A layer's router and stacks, and the expert that all tokens have. */
static void put_expert_matrices(struct synthetic *s, int i)
{
	uint64_t dim = s->shape->dim, ffn = s->shape->ffn, shared = s->shape->shared_ffn,
		 n = s->shape->experts;

	put_matrix(s, i, "ffn_gate_inp.weight", dim, n, false);
	put_matrices(s, i, "ffn_gate_exps.weight", dim, ffn, n, false);
	put_matrices(s, i, "ffn_up_exps.weight", dim, ffn, n, false);
	put_matrices(s, i, "ffn_down_exps.weight", ffn, dim, n, false);
	if (!shared)
		return;
	put_vector(s, i, "ffn_gate_inp_shexp.weight", dim, 0, sqrtf(3 / (float)dim));
	put_matrix(s, i, "ffn_gate_shexp.weight", dim, shared, false);
	put_matrix(s, i, "ffn_up_shexp.weight", dim, shared, false);
	put_matrix(s, i, "ffn_down_shexp.weight", shared, dim, false);
}

static void put_layer(struct synthetic *s, int i)
{
	const struct shape *shape = s->shape;
	const struct llm_arch *arch = s->arch;
	uint64_t dim = shape->dim, q = (uint64_t)shape->heads * shape->head_dim;
	uint64_t kv = (uint64_t)shape->kv_heads * shape->head_dim, ffn = shape->ffn;
	const uint64_t sizes[LLM_NR_MATRICES][2] = {
		[LLM_ATTN_Q] = { dim, q },     [LLM_ATTN_K] = { dim, kv },
		[LLM_ATTN_V] = { dim, kv },    [LLM_ATTN_OUTPUT] = { q, dim },
		[LLM_FFN_GATE] = { dim, ffn }, [LLM_FFN_UP] = { dim, ffn },
		[LLM_FFN_DOWN] = { ffn, dim },
	};
	bool experts = shape->experts > 0;

	put_norms(s, i);
	if (arch->fused_qkv)
		put_biased(s, i, "attn_qkv", dim, q + 2 * kv, has_bias(s, LLM_ATTN_Q));
	if (arch->fused_gate_up)
		put_biased(s, i, "ffn_up", dim, 2 * ffn, false);
	for (int m = 0; m < LLM_NR_MATRICES; m++) {
		bool ffn_in = m == LLM_FFN_GATE || m == LLM_FFN_UP;

		if ((arch->fused_qkv && m <= LLM_ATTN_V) || (arch->fused_gate_up && ffn_in) ||
		    (arch->no_gate && m == LLM_FFN_GATE) || (experts && m >= LLM_FFN_GATE) ||
		    m > LLM_FFN_DOWN)
			continue;
		put_biased(s, i, llm_matrix_names[m], sizes[m][0], sizes[m][1], has_bias(s, m));
	}
	if (experts)
		put_expert_matrices(s, i);
}

size_t synthetic_max_tensors(const struct synthetic *s)
{
	/* Of a layer at most two of each matrix, and eight of norms. */
	return 8 + (size_t)s->shape->layers * (8 + 2 * LLM_NR_MATRICES);
}

void synthetic_tensors(struct synthetic *s)
{
	const struct shape *shape = s->shape;

	put_matrix(s, -1, "token_embd.weight", shape->dim, s->n_vocab, shape->tied);
	if (!shape->tied)
		put_matrix(s, -1, "output.weight", shape->dim, s->n_vocab, true);
	if (s->arch->output_bias)
		put_vector(s, -1, "output.bias", s->n_vocab, 0, VARIED);
	put_norm(s, -1, "output_norm");
	if (is_extended(s)) {
		put_vector(s, -1, "rope_factors_short.weight", rot_dim(s) / 2, 1.1f, 0.1f);
		put_vector(s, -1, "rope_factors_long.weight", rot_dim(s) / 2, 8, 7);
	}
	for (unsigned int i = 0; i < shape->layers; i++)
		put_layer(s, (int)i);
}
