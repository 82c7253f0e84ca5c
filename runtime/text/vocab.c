// SPDX-License-Identifier: MIT
/* Vocabularies without a model: see llm_vocab.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_writer.h"
#include "llm_fail.h"
#include "llm_vocab.h"
#include "text.h"

/* GGUF's type of an unused id */
#define UNUSED 5

struct llm_vocab {
	struct gguf_file *file;
	struct tokenizer *tok;
};

int llm_vocab_open(const char *path, struct llm_vocab **vocab)
{
	struct llm_vocab *v = calloc(1, sizeof(*v));
	char line[512];
	int err;

	*vocab = NULL;
	if (!v)
		return llm_fail(-ENOMEM, "%s: no memory for its vocabulary", path);
	err = gguf_open(path, &v->file, line, sizeof(line));
	if (err) {
		llm_fail(err, "%s", line);
	} else {
		err = tokenizer_create(v->file, &v->tok, line, sizeof(line));
		if (err)
			llm_fail(err, "%s: %s", path, line);
	}
	if (err)
		llm_vocab_close(v);
	else
		*vocab = v;
	return err;
}

void llm_vocab_close(struct llm_vocab *vocab)
{
	if (!vocab)
		return;
	tokenizer_free(vocab->tok);
	gguf_close(vocab->file);
	free(vocab);
}

const char *llm_vocab_warning(const struct llm_vocab *vocab)
{
	return tokenizer_warning(vocab->tok);
}

size_t llm_vocab_size(const struct llm_vocab *vocab)
{
	return tokenizer_n_vocab(vocab->tok);
}

long llm_vocab_tokenize(const struct llm_vocab *vocab, const char *text, size_t bytes,
			unsigned int flags, int32_t *ids, size_t max)
{
	return text_tokenize(vocab->tok, text, bytes, flags, ids, max);
}

long llm_vocab_detokenize(const struct llm_vocab *vocab, const int32_t *ids, size_t n, char *buf,
			  size_t max)
{
	return text_detokenize(vocab->tok, ids, n, buf, max);
}

bool llm_vocab_knows_pre(const char *pre)
{
	return tokenizer_knows_pre(pre);
}

const char *llm_vocab_pre_name(size_t i)
{
	return tokenizer_pre_name(i);
}

static int check(const struct llm_vocab_bpe *bpe, const char *path)
{
	if (!llm_vocab_knows_pre(bpe->pre))
		return llm_fail(-EINVAL,
				"%s: pre-tokenizer '%s' is not known (llm-vocab --list prints "
				"those that are)",
				path, bpe->pre);
	if (!bpe->n_tokens || bpe->n_tokens > INT32_MAX)
		return llm_fail(-EINVAL, "%s: a vocabulary of %zu tokens", path, bpe->n_tokens);
	if (bpe->bos >= (int32_t)bpe->n_tokens || bpe->eos >= (int32_t)bpe->n_tokens)
		return llm_fail(-EINVAL, "%s: bos %d or eos %d is none of %zu tokens", path,
				bpe->bos, bpe->eos, bpe->n_tokens);
	return 0;
}

static void put_string(struct gguf_writer *w, const char *key, const char *s)
{
	gguf_writer_string(w, key, s, strlen(s));
}

static void put_tokens(struct gguf_writer *w, const struct llm_vocab_bpe *bpe)
{
	char hole[32];

	gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_KV_STRING, bpe->n_tokens);
	for (size_t i = 0; i < bpe->n_tokens; i++) {
		const struct llm_vocab_token *t = &bpe->tokens[i];

		snprintf(hole, sizeof(hole), "[PAD%zu]", i);
		gguf_writer_string_element(w, t->text ? t->text : hole,
					   t->text ? t->bytes : strlen(hole));
	}
	gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_KV_I32, bpe->n_tokens);
	for (size_t i = 0; i < bpe->n_tokens; i++)
		gguf_writer_i32_element(w, bpe->tokens[i].text ? (int32_t)bpe->tokens[i].type
							       : UNUSED);
}

/* Hyperparameters of no model: llama.cpp reads them before the vocabulary. */
static void put_shape(struct gguf_writer *w, const struct llm_vocab_bpe *bpe)
{
	static const char *const ones[] = { "llama.context_length", "llama.embedding_length",
					    "llama.block_count", "llama.feed_forward_length",
					    "llama.attention.head_count" };

	put_string(w, "general.architecture", "llama");
	gguf_writer_u32(w, "llama.vocab_size", (uint32_t)bpe->n_tokens);
	for (size_t i = 0; i < sizeof(ones) / sizeof(ones[0]); i++)
		gguf_writer_u32(w, ones[i], 1);
	gguf_writer_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

static void put_vocab(struct gguf_writer *w, const struct llm_vocab_bpe *bpe)
{
	put_shape(w, bpe);
	put_string(w, "tokenizer.ggml.model", "gpt2");
	put_string(w, "tokenizer.ggml.pre", bpe->pre);
	put_tokens(w, bpe);
	gguf_writer_array(w, "tokenizer.ggml.merges", GGUF_KV_STRING, bpe->n_merges);
	for (size_t i = 0; i < bpe->n_merges; i++)
		gguf_writer_string_element(w, bpe->merges[i], strlen(bpe->merges[i]));
	if (bpe->bos >= 0)
		gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", (uint32_t)bpe->bos);
	if (bpe->eos >= 0)
		gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", (uint32_t)bpe->eos);
	gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", bpe->bos >= 0);
}

/* An error if llm_vocab_open() would refuse the file. */
static int check_file(struct gguf_writer *w, const char *path)
{
	struct gguf_file *file = NULL;
	struct tokenizer *tok = NULL;
	const void *data;
	char line[512];
	size_t bytes;
	int err = gguf_writer_data(w, &data, &bytes);

	if (err)
		return llm_fail(err, "%s: no memory for a vocabulary", path);
	err = gguf_open_data(data, bytes, path, &file, line, sizeof(line));
	if (err) {
		llm_fail(err, "%s", line);
	} else {
		err = tokenizer_create(file, &tok, line, sizeof(line));
		if (err)
			llm_fail(err, "%s: %s", path, line);
	}
	tokenizer_free(tok);
	gguf_close(file);
	return err;
}

int llm_vocab_save(const struct llm_vocab_bpe *bpe, const char *path)
{
	struct gguf_writer *w;
	char line[512];
	int err = check(bpe, path);

	if (err)
		return err;
	w = gguf_writer_create();
	put_vocab(w, bpe);
	err = check_file(w, path);
	if (!err) {
		err = gguf_writer_save(w, path, line, sizeof(line));
		if (err)
			llm_fail(err, "%s", line);
	}
	gguf_writer_free(w);
	return err;
}
