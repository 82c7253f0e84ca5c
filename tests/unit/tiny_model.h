/* SPDX-License-Identifier: MIT */
/*
 * Models for tests: random weights in a GGUF file of any architecture that the runtime knows, and
 * their forward pass in double precision (tiny_forward.h), written for clarity and only from the
 * architectures' definitions (tiny_arch.h).
 */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include <npu/vnpu_isa.h>

#include "activations.h"
#include "gguf_image.h"
#include "gguf_quantize.h"
#include "llm.h"
#include "quant_w4.h"
#include "tiny_arch.h"

#define TINY_MAX_TENSORS 96
#define TINY_MAX_KEYS 48

struct tiny_config {
	const char *arch;
	unsigned int n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx, rot_dim;
	bool bias, all_biases, head_norms, untied, rope_factors;
	unsigned int window; /* 0: none */
	unsigned int n_expert, n_expert_used, n_ff_shared; /* 0: none; n_ff is an expert's */
	bool other_norm; /* a key says the opposite of the architecture of the experts' weights */
	double expert_scale; /* of these weights; 0: no such key */
	double eps, freq_base, rope_scale; /* rope_scale 1: no such key */
	/* Extensions of a context of n_ctx_orig tokens to n_session: YaRN by this factor; longrope,
	 * which scales what RoPE rotates by it. 0: none. */
	double yarn, longrope;
	unsigned int n_ctx_orig, n_session;
};

struct tiny_tensor {
	char name[64];
	uint64_t dims[2]; /* columns, rows (1: a vector) */
	unsigned int stack; /* written as so many matrices of the rows; 0: as one */
	float *data;
	bool half; /* written as F16 */
	/* Not NULL: written in their place, with the same values in @type (tiny_blocks.h). */
	void *blocks;
	enum gguf_type type;
};

struct tiny_key {
	char name[64];
	char kind; /* u: u32, f: f32, b: bool, s: string; F and I: arrays of f32 and i32 */
	double number;
	const char *string;
	const void *values; /* [n] of 4 bytes each, the caller's */
	size_t n;
};

struct tiny_model {
	struct tiny_config c;
	struct tiny_tensor tensors[TINY_MAX_TENSORS];
	unsigned int n_tensors;
	struct tiny_key keys[TINY_MAX_KEYS];
	unsigned int n_keys;
	uint64_t random;
	int fd;
	char path[32];
};

static inline double tiny_uniform(struct tiny_model *t)
{
	return (double)(random_u64(&t->random) >> 11) * 0x1p-52 - 1.0;
}

/* Adds a tensor of values @mean +- @spread; a vector if @rows is 0. */
static inline void tiny_add(struct tiny_model *t, const char *name, unsigned int rows,
			    unsigned int cols, double mean, double spread)
{
	struct tiny_tensor *tensor = &t->tensors[t->n_tensors++];
	size_t n = (size_t)cols * (rows ? rows : 1);

	if (t->n_tensors > TINY_MAX_TENSORS)
		abort();
	snprintf(tensor->name, sizeof(tensor->name), "%s", name);
	tensor->dims[0] = cols;
	tensor->dims[1] = rows ? rows : 1;
	tensor->stack = 0;
	tensor->half = false;
	tensor->blocks = NULL;
	tensor->data = malloc(n * sizeof(float));
	for (size_t i = 0; i < n; i++)
		tensor->data[i] = (float)(mean + spread * tiny_uniform(t));
}

static inline void tiny_add_layer(struct tiny_model *t, unsigned int layer, const char *what,
				  unsigned int rows, unsigned int cols, double mean, double spread)
{
	char name[64];

	snprintf(name, sizeof(name), "blk.%u.%.40s", layer, what);
	tiny_add(t, name, rows, cols, mean, spread);
}

static inline void tiny_set_key(struct tiny_model *t, struct tiny_key key)
{
	for (unsigned int i = 0; i < t->n_keys; i++) {
		if (!strcmp(t->keys[i].name, key.name)) {
			t->keys[i] = key;
			return;
		}
	}
	if (t->n_keys == TINY_MAX_KEYS)
		abort();
	t->keys[t->n_keys++] = key;
}

/* Sets or replaces a key; a name that begins with '.' is appended to the architecture's. */
static inline void tiny_key(struct tiny_model *t, const char *name, char kind, double number,
			    const char *string)
{
	struct tiny_key key = { .kind = kind, .number = number, .string = string };

	snprintf(key.name, sizeof(key.name), "%s%s", name[0] == '.' ? t->c.arch : "", name);
	tiny_set_key(t, key);
}

/* The same with an array, which is read when the file is written. */
static inline void tiny_array(struct tiny_model *t, const char *name, char kind, const void *values,
			      size_t n)
{
	struct tiny_key key = { .kind = kind, .values = values, .n = n };

	snprintf(key.name, sizeof(key.name), "%s", name);
	tiny_set_key(t, key);
}

static inline void tiny_drop_key(struct tiny_model *t, const char *name)
{
	char full[64];

	snprintf(full, sizeof(full), "%s%s", name[0] == '.' ? t->c.arch : "", name);
	for (unsigned int i = 0; i < t->n_keys; i++) {
		if (!strcmp(t->keys[i].name, full)) {
			t->keys[i] = t->keys[--t->n_keys];
			return;
		}
	}
	abort();
}

static inline struct tiny_tensor *tiny_find(struct tiny_model *t, const char *name)
{
	for (unsigned int i = 0; i < t->n_tensors; i++) {
		if (!strcmp(t->tensors[i].name, name))
			return &t->tensors[i];
	}
	return NULL;
}

static inline void tiny_drop_tensor(struct tiny_model *t, const char *name)
{
	struct tiny_tensor *tensor = tiny_find(t, name);

	free(tensor->data);
	free(tensor->blocks);
	*tensor = t->tensors[--t->n_tensors];
}

static inline void tiny_keys(struct tiny_model *t)
{
	const struct tiny_config *c = &t->c;
	const struct tiny_arch *arch = tiny_arch_of(c->arch);

	tiny_key(t, "general.architecture", 's', 0, c->arch);
	tiny_key(t, "general.name", 's', 0, "tiny");
	tiny_key(t, ".block_count", 'u', c->n_layer, NULL);
	tiny_key(t, ".embedding_length", 'u', c->n_embd, NULL);
	tiny_key(t, ".feed_forward_length", 'u', c->n_ff, NULL);
	if (c->n_expert) {
		tiny_key(t, ".expert_count", 'u', c->n_expert, NULL);
		tiny_key(t, ".expert_used_count", 'u', c->n_expert_used, NULL);
	}
	if (c->n_expert && strcmp(c->arch, "llama"))
		tiny_key(t, ".expert_feed_forward_length", 'u', c->n_ff, NULL);
	if (c->other_norm)
		tiny_key(t, ".expert_weights_norm", 'b', arch->shared_expert, NULL);
	if (c->expert_scale > 0)
		tiny_key(t, ".expert_weights_scale", 'f', c->expert_scale, NULL);
	if (c->n_ff_shared)
		tiny_key(t, ".expert_shared_feed_forward_length", 'u', c->n_ff_shared, NULL);
	tiny_key(t, ".context_length", 'u', c->n_ctx, NULL);
	tiny_key(t, ".attention.head_count", 'u', c->n_head, NULL);
	tiny_key(t, ".attention.head_count_kv", 'u', c->n_head_kv, NULL);
	tiny_key(t,
		 arch->layer_norm ? ".attention.layer_norm_epsilon"
				  : ".attention.layer_norm_rms_epsilon",
		 'f', c->eps, NULL);
	if (c->yarn > 0) {
		tiny_key(t, ".rope.scaling.type", 's', 0, "yarn");
		tiny_key(t, ".rope.scaling.factor", 'f', c->yarn, NULL);
	}
	if (c->longrope > 0)
		tiny_key(t, ".rope.scaling.attn_factor", 'f', c->longrope, NULL);
	if (c->n_ctx_orig)
		tiny_key(t, ".rope.scaling.original_context_length", 'u', c->n_ctx_orig, NULL);
	if (arch->scales) {
		tiny_key(t, ".embedding_scale", 'f', TINY_EMBEDDING_SCALE, NULL);
		tiny_key(t, ".residual_scale", 'f', TINY_RESIDUAL_SCALE, NULL);
		tiny_key(t, ".attention.scale", 'f', TINY_ATTENTION_SCALE, NULL);
		tiny_key(t, ".logit_scale", 'f', TINY_LOGIT_SCALE, NULL);
	}
	if (arch->attn_cap > 0) {
		tiny_key(t, ".attn_logit_softcapping", 'f', arch->attn_cap, NULL);
		tiny_key(t, ".final_logit_softcapping", 'f', arch->logit_cap, NULL);
	}
	if (c->window)
		tiny_key(t, ".attention.sliding_window", 'u', c->window, NULL);
	tiny_key(t, ".rope.freq_base", 'f', c->freq_base, NULL);
	if (c->head_dim * c->n_head != c->n_embd) {
		tiny_key(t, ".attention.key_length", 'u', c->head_dim, NULL);
		tiny_key(t, ".attention.value_length", 'u', c->head_dim, NULL);
	}
	if (c->rot_dim != c->head_dim)
		tiny_key(t, ".rope.dimension_count", 'u', c->rot_dim, NULL);
	if (c->rope_scale != 1) {
		tiny_key(t, ".rope.scaling.type", 's', 0, "linear");
		tiny_key(t, ".rope.scaling.factor", 'f', c->rope_scale, NULL);
	}
}

/* A norm of rows, in no layer if @layer is -1. */
static inline void tiny_add_norm(struct tiny_model *t, int layer, const char *what)
{
	char name[64];

	if (layer < 0)
		snprintf(name, sizeof(name), "%s.weight", what);
	else
		snprintf(name, sizeof(name), "blk.%d.%s.weight", layer, what);
	tiny_add(t, name, 0, t->c.n_embd, 1, 0.5);
	if (!tiny_arch_of(t->c.arch)->layer_norm)
		return;
	snprintf(strrchr(name, '.'), sizeof(".bias"), ".bias");
	tiny_add(t, name, 0, t->c.n_embd, 0, 0.5);
}

static inline void tiny_add_norms(struct tiny_model *t, unsigned int i)
{
	const struct tiny_arch *arch = tiny_arch_of(t->c.arch);
	unsigned int d = t->c.head_dim, q = t->c.n_head * d, kv = t->c.n_head_kv * d;

	if (!arch->no_norm_before)
		tiny_add_norm(t, (int)i, "attn_norm");
	if (!arch->no_norm_before && !arch->parallel)
		tiny_add_norm(t, (int)i, "ffn_norm");
	if (arch->norm_behind) {
		tiny_add_norm(t, (int)i, "post_attention_norm");
		tiny_add_norm(t, (int)i, "post_ffw_norm");
	}
	if (t->c.head_norms || arch->row_norms) {
		tiny_add_layer(t, i, "attn_q_norm.weight", 0, arch->row_norms ? q : d, 1, 0.5);
		tiny_add_layer(t, i, "attn_k_norm.weight", 0, arch->row_norms ? kv : d, 1, 0.5);
	}
}

static inline void tiny_add_matrix(struct tiny_model *t, unsigned int layer, const char *what,
				   unsigned int rows, unsigned int cols, bool bias)
{
	char name[64];

	snprintf(name, sizeof(name), "%s.weight", what);
	tiny_add_layer(t, layer, name, rows, cols, 0, sqrt(3.0 / cols));
	snprintf(name, sizeof(name), "%s.bias", what);
	if (bias)
		tiny_add_layer(t, layer, name, 0, rows, 0, 1);
}

static inline void tiny_add_stack(struct tiny_model *t, unsigned int layer, const char *what,
				  unsigned int rows, unsigned int cols)
{
	tiny_add_matrix(t, layer, what, rows * t->c.n_expert, cols, false);
	t->tensors[t->n_tensors - 1].stack = t->c.n_expert;
}

static inline void tiny_add_experts(struct tiny_model *t, unsigned int i)
{
	const struct tiny_config *c = &t->c;

	tiny_add_matrix(t, i, "ffn_gate_inp", c->n_expert, c->n_embd, false);
	tiny_add_stack(t, i, "ffn_gate_exps", c->n_ff, c->n_embd);
	tiny_add_stack(t, i, "ffn_up_exps", c->n_ff, c->n_embd);
	tiny_add_stack(t, i, "ffn_down_exps", c->n_embd, c->n_ff);
	if (!c->n_ff_shared)
		return;
	tiny_add_layer(t, i, "ffn_gate_inp_shexp.weight", 0, c->n_embd, 0, sqrt(3.0 / c->n_embd));
	tiny_add_matrix(t, i, "ffn_gate_shexp", c->n_ff_shared, c->n_embd, false);
	tiny_add_matrix(t, i, "ffn_up_shexp", c->n_ff_shared, c->n_embd, false);
	tiny_add_matrix(t, i, "ffn_down_shexp", c->n_embd, c->n_ff_shared, false);
}

static inline void tiny_add_block(struct tiny_model *t, unsigned int i)
{
	const struct tiny_config *c = &t->c;
	const struct tiny_arch *arch = tiny_arch_of(c->arch);
	unsigned int q = c->n_head * c->head_dim, kv = c->n_head_kv * c->head_dim, E = c->n_embd;
	bool all = c->all_biases, bias = all || c->bias;

	tiny_add_norms(t, i);
	if (arch->fused_qkv) {
		tiny_add_matrix(t, i, "attn_qkv", q + 2 * kv, E, bias);
	} else {
		tiny_add_matrix(t, i, "attn_q", q, E, bias);
		tiny_add_matrix(t, i, "attn_k", kv, E, bias);
		tiny_add_matrix(t, i, "attn_v", kv, E, bias);
	}
	tiny_add_matrix(t, i, "attn_output", E, q, all);
	if (c->n_expert)
		return tiny_add_experts(t, i);
	if (!arch->no_gate && !arch->fused_gate_up)
		tiny_add_matrix(t, i, "ffn_gate", c->n_ff, E, all);
	tiny_add_matrix(t, i, "ffn_up", c->n_ff * (arch->fused_gate_up ? 2 : 1), E, all);
	tiny_add_matrix(t, i, "ffn_down", E, c->n_ff, all);
}

static inline void tiny_create(struct tiny_model *t, const struct tiny_config *config,
			       uint64_t seed)
{
	const struct tiny_config *c = &t->c;

	memset(t, 0, sizeof(*t));
	t->fd = -1;
	t->c = *config;
	t->random = seed;
	tiny_keys(t);
	tiny_add(t, "token_embd.weight", c->n_vocab, c->n_embd, 0, 1);
	if (c->untied)
		tiny_add(t, "output.weight", c->n_vocab, c->n_embd, 0, 1);
	if (tiny_arch_of(c->arch)->output_bias)
		tiny_add(t, "output.bias", 0, c->n_vocab, 0, 1);
	tiny_add_norm(t, -1, "output_norm");
	if (c->rope_factors)
		tiny_add(t, "rope_freqs.weight", 0, c->rot_dim / 2, 4, 3);
	if (c->longrope > 0) {
		tiny_add(t, "rope_factors_short.weight", 0, c->rot_dim / 2, 2, 1);
		tiny_add(t, "rope_factors_long.weight", 0, c->rot_dim / 2, 10, 8);
	}
	for (unsigned int i = 0; i < c->n_layer; i++)
		tiny_add_block(t, i);
}

static inline void tiny_free(struct tiny_model *t)
{
	for (unsigned int i = 0; i < t->n_tensors; i++) {
		free(t->tensors[i].data);
		free(t->tensors[i].blocks);
	}
	if (t->fd >= 0)
		close(t->fd);
}

/* <unk>, <s>, </s>, the bytes, and dummy pieces. Texts begin without <s>. */
static inline void tiny_put_vocab(struct image *m, unsigned int n_vocab)
{
	const uint8_t no = 0;
	char piece[32];

	image_key(m, "tokenizer.ggml.add_bos_token", 7);
	image_put(m, &no, 1);

	image_key(m, "tokenizer.ggml.model", 8);
	image_string(m, "llama");
	image_array(m, "tokenizer.ggml.tokens", 8, n_vocab);
	for (unsigned int i = 0; i < n_vocab; i++) {
		if (i < 3)
			snprintf(piece, sizeof(piece), "%s",
				 i == 0	  ? "<unk>"
				 : i == 1 ? "<s>"
					  : "</s>");
		else if (i < 259)
			snprintf(piece, sizeof(piece), "<0x%02X>", i - 3);
		else
			snprintf(piece, sizeof(piece), "piece%u", i);
		image_string(m, piece);
	}
	image_array(m, "tokenizer.ggml.scores", 6, n_vocab);
	for (unsigned int i = 0; i < n_vocab; i++) {
		float score = -(float)i;

		image_put(m, &score, sizeof(score));
	}
	image_array(m, "tokenizer.ggml.token_type", 5, n_vocab);
	for (unsigned int i = 0; i < n_vocab; i++)
		image_u32(m, i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1);
}

static inline void tiny_put_key(struct image *m, const struct tiny_key *key)
{
	float f = (float)key->number;

	if (key->kind == 'F' || key->kind == 'I') {
		image_array(m, key->name, key->kind == 'F' ? 6 : 5, key->n);
		image_put(m, key->values, 4 * key->n);
		return;
	}
	image_key(m, key->name,
		  key->kind == 'u'   ? 4
		  : key->kind == 'f' ? 6
		  : key->kind == 'b' ? 7
				     : 8);
	if (key->kind == 'b')
		image_put(m, &(uint8_t){ key->number > 0 }, 1);
	else if (key->kind == 'u')
		image_u32(m, (uint32_t)key->number);
	else if (key->kind == 'f')
		image_put(m, &f, sizeof(f));
	else
		image_string(m, key->string);
}

static inline enum gguf_type tiny_type(const struct tiny_tensor *tensor)
{
	return tensor->blocks ? tensor->type : tensor->half ? GGUF_F16 : GGUF_F32;
}

static inline size_t tiny_bytes(const struct tiny_tensor *tensor)
{
	const struct gguf_type_traits *traits = gguf_type_traits(tiny_type(tensor));

	return tensor->dims[0] * tensor->dims[1] / traits->block_values * traits->block_bytes;
}

static inline void tiny_put_values(struct image *m, const struct tiny_tensor *tensor)
{
	size_t n = tensor->dims[0] * tensor->dims[1];

	if (tensor->blocks || !tensor->half)
		return image_put(m, tensor->blocks ? tensor->blocks : tensor->data,
				 tiny_bytes(tensor));
	for (size_t i = 0; i < n; i++) {
		uint16_t half;

		if (!gguf_quantize(GGUF_F16, &tensor->data[i], &half, 1))
			abort();
		image_put(m, &half, sizeof(half));
	}
}

/* Writes the file in memory; its path is valid until tiny_free(). */
static inline const char *tiny_write(struct tiny_model *t)
{
	struct image m = { 0 };
	uint64_t offset = 0;

	image_header(&m, t->n_tensors, t->n_keys + 5);
	for (unsigned int i = 0; i < t->n_keys; i++)
		tiny_put_key(&m, &t->keys[i]);
	tiny_put_vocab(&m, t->c.n_vocab);
	for (unsigned int i = 0; i < t->n_tensors; i++) {
		const struct tiny_tensor *tensor = &t->tensors[i];
		unsigned int stack = tensor->stack ? tensor->stack : 1;
		const uint64_t dims[3] = { tensor->dims[0], tensor->dims[1] / stack, stack };

		image_tensor(&m, tensor->name,
			     tensor->stack ? 3
			     : dims[1] > 1 ? 2
					   : 1,
			     dims, tiny_type(tensor), offset);
		offset += (tiny_bytes(tensor) + 31) / 32 * 32;
	}
	for (unsigned int i = 0; i < t->n_tensors; i++) {
		image_pad(&m, 32);
		tiny_put_values(&m, &t->tensors[i]);
	}
	image_pad(&m, 32);
	if (t->fd >= 0)
		close(t->fd);
	t->fd = memfd_create("tiny", MFD_CLOEXEC);
	if (t->fd < 0 || write(t->fd, m.data, m.bytes) != (ssize_t)m.bytes)
		abort();
	free(m.data);
	snprintf(t->path, sizeof(t->path), "/proc/self/fd/%d", t->fd);
	return t->path;
}

#include "tiny_forward.h"

#endif /* TINY_MODEL_H */
