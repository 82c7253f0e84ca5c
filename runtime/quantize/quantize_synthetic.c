// SPDX-License-Identifier: MIT
/*
 * Writes a model of a given shape with random weights and a dummy vocabulary, for measurements:
 * speed depends on neither.
 *
 * Weights are uniformly distributed with a variance of 1 / inputs, so inputs of variance 1, as
 * norms give, lead to outputs of variance 1. Norms are 1.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"
#include "model.h"
#include "quantize.h"
#include "shape.h"

#define CONTEXT 32768
#define EPSILON 1e-5f
#define ROPE_BASE 10000.0f
#define MAX_HEAD_DIM 1024

/* Ids: three control tokens, then the bytes, then words */
#define FIRST_BYTE 3
#define FIRST_WORD (FIRST_BYTE + 256)
#define MAX_WORD 8

struct synthetic {
	struct quantize *q;
	const struct shape *shape;
	uint64_t seed;
	const char *arch;
	unsigned int n_vocab;
	struct quantize_tensor *tensors;
	char (*names)[48];
	size_t n;
};

static void put_u32(struct synthetic *s, const char *what, uint32_t v)
{
	char key[64];

	snprintf(key, sizeof(key), "%s.%s", s->arch, what);
	gguf_writer_u32(s->q->writer, key, v);
}

static void put_f32(struct synthetic *s, const char *what, float v)
{
	char key[64];

	snprintf(key, sizeof(key), "%s.%s", s->arch, what);
	gguf_writer_f32(s->q->writer, key, v);
}

static void put_hyperparameters(struct synthetic *s)
{
	const struct shape *shape = s->shape;
	struct gguf_writer *w = s->q->writer;
	char name[96];

	snprintf(name, sizeof(name), "synthetic %s, seed %" PRIu64, shape->name, s->seed);
	gguf_writer_string(w, "general.architecture", s->arch, strlen(s->arch));
	gguf_writer_string(w, "general.name", name, strlen(name));
	gguf_writer_u32(w, "general.quantization_version", 2);
	gguf_writer_u32(w, "general.file_type", s->q->file_type);
	put_u32(s, "context_length", CONTEXT);
	put_u32(s, "embedding_length", shape->dim);
	s->q->n_layer = shape->layers;
	s->q->sharing = shape->heads / shape->kv_heads;
	put_u32(s, "block_count", shape->layers);
	put_u32(s, "feed_forward_length", shape->ffn);
	put_u32(s, "attention.head_count", shape->heads);
	put_u32(s, "attention.head_count_kv", shape->kv_heads);
	put_u32(s, "attention.key_length", shape->head_dim);
	put_u32(s, "attention.value_length", shape->head_dim);
	put_f32(s, "attention.layer_norm_rms_epsilon", EPSILON);
	put_u32(s, "rope.dimension_count", shape->head_dim);
	put_f32(s, "rope.freq_base", ROPE_BASE);
	put_u32(s, "vocab_size", s->n_vocab);
}

/*
 * Words are all strings of the space (U+2581 in this kind of vocabulary) and 26 letters,
 * the shorter ones first. Each is an earlier word and one more letter, so the tokenizer
 * can reach it by merging.
 */
static size_t word(unsigned int i, char *text)
{
	unsigned int length = 1, count = 27, letters[MAX_WORD];
	size_t bytes = 0;

	while (i >= count) {
		i -= count;
		count *= 27;
		length++;
	}
	for (unsigned int j = length; j-- > 0; i /= 27)
		letters[j] = i % 27;
	for (unsigned int j = 0; j < length; j++) {
		if (letters[j]) {
			text[bytes++] = (char)('a' + letters[j] - 1);
		} else {
			memcpy(text + bytes, "\u2581", 3);
			bytes += 3;
		}
	}
	return bytes;
}

static size_t token(unsigned int i, char text[3 * MAX_WORD])
{
	static const char *const control[FIRST_BYTE] = { "<unk>", "<s>", "</s>" };

	if (i < FIRST_BYTE)
		return (size_t)sprintf(text, "%s", control[i]);
	if (i < FIRST_WORD)
		return (size_t)sprintf(text, "<0x%02X>", i - FIRST_BYTE);
	return word(i - FIRST_WORD, text);
}

static void put_vocabulary(struct synthetic *s)
{
	/* The file format's numbers. */
	enum { NORMAL = 1, UNKNOWN, CONTROL, BYTE = 6 };
	struct gguf_writer *w = s->q->writer;
	char text[3 * MAX_WORD];

	gguf_writer_string(w, "tokenizer.ggml.model", "llama", 5);
	gguf_writer_string(w, "tokenizer.ggml.pre", "default", 7);
	gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_KV_STRING, s->n_vocab);
	for (unsigned int i = 0; i < s->n_vocab; i++) {
		size_t bytes = token(i, text);

		gguf_writer_string_element(w, text, bytes);
	}
	gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_KV_F32, s->n_vocab);
	for (unsigned int i = 0; i < s->n_vocab; i++)
		gguf_writer_f32_element(w, i < FIRST_WORD ? 0 : -(float)(i - FIRST_WORD));
	gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_KV_I32, s->n_vocab);
	for (unsigned int i = 0; i < s->n_vocab; i++)
		gguf_writer_i32_element(w, !i		    ? UNKNOWN
					   : i < FIRST_BYTE ? CONTROL
					   : i < FIRST_WORD ? BYTE
							    : NORMAL);
	gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 1);
	gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 2);
	gguf_writer_u32(w, "tokenizer.ggml.unknown_token_id", 0);
	gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", true);
	gguf_writer_bool(w, "tokenizer.ggml.add_eos_token", false);
	gguf_writer_bool(w, "tokenizer.ggml.add_space_prefix", true);
}

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

static void put_matrix(struct synthetic *s, int layer, const char *name, uint64_t cols,
		       uint64_t rows, bool head)
{
	struct quantize_tensor *t = next_tensor(s, layer, name, cols, rows);

	t->scale = sqrtf(3 / (float)cols);
	t->type = quantize_target(s->q, t->name, t->dims, GGUF_F32, head);
	quantize_add(s->q, t);
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

static void put_layer(struct synthetic *s, int i)
{
	const struct shape *shape = s->shape;
	uint64_t dim = shape->dim, q = (uint64_t)shape->heads * shape->head_dim;
	uint64_t kv = (uint64_t)shape->kv_heads * shape->head_dim, ffn = shape->ffn;
	const uint64_t sizes[LLM_NR_MATRICES][2] = {
		[LLM_ATTN_Q] = { dim, q },     [LLM_ATTN_K] = { dim, kv },
		[LLM_ATTN_V] = { dim, kv },    [LLM_ATTN_OUTPUT] = { q, dim },
		[LLM_FFN_GATE] = { dim, ffn }, [LLM_FFN_UP] = { dim, ffn },
		[LLM_FFN_DOWN] = { ffn, dim },
	};
	char name[32];

	put_vector(s, i, "attn_norm.weight", dim, 1, 0);
	put_vector(s, i, "ffn_norm.weight", dim, 1, 0);
	for (int m = 0; m < LLM_NR_MATRICES; m++) {
		snprintf(name, sizeof(name), "%s.weight", llm_matrix_names[m]);
		put_matrix(s, i, name, sizes[m][0], sizes[m][1], false);
		snprintf(name, sizeof(name), "%s.bias", llm_matrix_names[m]);
		if (shape->qkv_bias && m <= LLM_ATTN_V)
			put_vector(s, i, name, sizes[m][1], 0, 0.1f);
	}
}

/* Refuses shapes that the runtime cannot execute: it has gated SiLU, and RoPE on whole heads. */
static int check(const struct shape *shape, unsigned int n_vocab)
{
	if (shape->activation != SHAPE_SILU || !shape->gated)
		return llm_fail(-EINVAL,
				"shape %s: only gated SiLU networks can be executed; llm-bench "
				"--dry-run plans others",
				shape->name);
	if (shape->head_dim % 2 || shape->head_dim > MAX_HEAD_DIM)
		return llm_fail(-EINVAL,
				"shape %s: head_dim = %u: an even number up to %d is wanted",
				shape->name, shape->head_dim, MAX_HEAD_DIM);
	if (n_vocab <= FIRST_WORD)
		return llm_fail(-EINVAL,
				"shape %s: a vocabulary of %u is too small for a text; give "
				"--vocab %d or more",
				shape->name, n_vocab, FIRST_WORD + 1);
	return 0;
}

static void put_all(struct synthetic *s)
{
	const struct shape *shape = s->shape;

	put_hyperparameters(s);
	put_vocabulary(s);
	put_matrix(s, -1, "token_embd.weight", shape->dim, s->n_vocab, shape->tied);
	if (!shape->tied)
		put_matrix(s, -1, "output.weight", shape->dim, s->n_vocab, true);
	put_vector(s, -1, "output_norm.weight", shape->dim, 1, 0);
	for (unsigned int i = 0; i < shape->layers; i++)
		put_layer(s, (int)i);
}

int quantize_synthetic(struct quantize *q)
{
	struct shape shape;
	struct synthetic s = { .q = q, .shape = &shape, .seed = q->opts->seed };
	size_t max;
	int err = shape_load(q->opts->shape, &shape);

	if (err)
		return err;
	s.n_vocab = q->opts->n_vocab ? q->opts->n_vocab : shape.vocab;
	err = check(&shape, s.n_vocab);
	if (err)
		return err;
	q->in = shape.name;
	/* qwen2 differs from llama only in these biases. */
	s.arch = shape.qkv_bias ? "qwen2" : "llama";
	max = 3 + (size_t)shape.layers * (2 + 2 * LLM_NR_MATRICES);
	s.tensors = calloc(max, sizeof(*s.tensors));
	s.names = calloc(max, sizeof(*s.names));
	if (!s.tensors || !s.names) {
		err = llm_fail(-ENOMEM, "no memory for %zu tensors", max);
	} else {
		put_all(&s);
		err = quantize_save(q);
	}
	free(s.tensors);
	free(s.names);
	return err;
}
