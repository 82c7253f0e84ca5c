// SPDX-License-Identifier: MIT
/*
 * Writes a model of a given shape with random weights (quantize_shape.c) and a dummy vocabulary:
 * for measurements, as speed depends on neither, and for comparisons of what engines compute.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"
#include "quantize_synthetic.h"

#define MAX_HEAD_DIM 1024

/* Ids: three control tokens, then the bytes, then words */
#define FIRST_BYTE 3
#define FIRST_WORD (FIRST_BYTE + 256)
#define MAX_WORD 8

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

/* Only some architectures have experts, and some of those nothing else. */
static int check_experts(const struct synthetic *s)
{
	enum llm_experts has = s->arch->experts;
	const struct shape *shape = s->shape;

	if (has != LLM_EXPERTS_MAYBE && (has != LLM_EXPERTS_NEVER) != (shape->experts > 0))
		return llm_fail(-EINVAL,
				"shape %s: experts = %u, but %s models have %s; name another shape "
				"or architecture",
				shape->name, shape->experts, s->arch->name,
				shape->experts ? "none" : "some");
	if ((has == LLM_EXPERTS_SHARED) != (shape->shared_ffn > 0))
		return llm_fail(-EINVAL,
				"shape %s: shared_ffn = %u, but %s models have %s expert for all "
				"tokens",
				shape->name, shape->shared_ffn, s->arch->name,
				shape->shared_ffn ? "no" : "an");
	return 0;
}

static int check(const struct shape *shape, unsigned int n_vocab, bool given)
{
	if (!given && (shape->activation != SHAPE_SILU || !shape->gated))
		return llm_fail(-EINVAL,
				"shape %s: only gated SiLU networks can be executed as llama or "
				"qwen2; name another architecture",
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

/* The architecture that was asked for; else qwen2, which differs from llama only in these biases,
 * or llama. 0 or -EINVAL with the error line. */
static int find_arch(struct synthetic *s)
{
	const char *name = s->q->opts->arch;

	s->varied = name;
	if (!name)
		name = s->shape->qkv_bias ? "qwen2" : "llama";
	s->arch = llm_arch_named(name, strlen(name));
	return s->arch ? 0
		       : llm_fail(-EINVAL, "architecture '%s' is not known; there are %s", name,
				  llm_arch_names());
}

static int write_all(struct synthetic *s)
{
	size_t max = synthetic_max_tensors(s);
	int err;

	s->q->in = s->shape->name;
	s->tensors = calloc(max, sizeof(*s->tensors));
	s->names = calloc(max, sizeof(*s->names));
	if (!s->tensors || !s->names) {
		err = llm_fail(-ENOMEM, "no memory for %zu tensors", max);
	} else {
		synthetic_keys(s);
		put_vocabulary(s);
		synthetic_tensors(s);
		err = quantize_save(s->q);
	}
	free(s->tensors);
	free(s->names);
	return err;
}

int quantize_synthetic(struct quantize *q)
{
	struct shape shape;
	struct synthetic s = { .q = q, .shape = &shape, .seed = q->opts->seed };
	int err = shape_load(q->opts->shape, &shape);

	if (err)
		return err;
	s.n_vocab = q->opts->n_vocab ? q->opts->n_vocab : shape.vocab;
	err = check(&shape, s.n_vocab, q->opts->arch);
	if (!err)
		err = find_arch(&s);
	if (!err)
		err = check_experts(&s);
	return err ? err : write_all(&s);
}
