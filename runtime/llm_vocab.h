/* SPDX-License-Identifier: MIT */
/*
 * Vocabularies without a model: tokenizing with the vocabulary of any GGUF file, and writing files
 * that hold only a vocabulary (docs/tokenizers.md).
 */
#ifndef LLM_VOCAB_H
#define LLM_VOCAB_H

#include "llm.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct llm_vocab;

/* Reads the vocabulary of a GGUF file and ignores its tensors. -EINVAL for a bad file or an
 * inconsistent vocabulary, -ENOTSUP for an unsupported kind, -ENOENT, -EACCES, -ENOMEM. The
 * vocabulary is immutable; several threads may use it. */
int llm_vocab_open(const char *path, struct llm_vocab **vocab);
void llm_vocab_close(struct llm_vocab *vocab);
/* A line for the user if the file may lead to other tokens than its model knows; NULL. */
const char *llm_vocab_warning(const struct llm_vocab *vocab);
size_t llm_vocab_size(const struct llm_vocab *vocab); /* ids are below it */
/* Like llm_tokenize() and llm_detokenize(). */
long llm_vocab_tokenize(const struct llm_vocab *vocab, const char *text, size_t bytes,
			unsigned int flags, int32_t *ids, size_t max);
long llm_vocab_detokenize(const struct llm_vocab *vocab, const int32_t *ids, size_t n, char *buf,
			  size_t max);

/* ---- vocabulary files ---- */

/* Types of tokens, with the numbers of the file format. */
enum llm_vocab_type {
	LLM_VOCAB_NORMAL = 1,
	LLM_VOCAB_CONTROL = 3, /* matched in a text only with LLM_TOKENIZE_SPECIAL */
	LLM_VOCAB_USER = 4, /* always matched in a text, before anything is merged */
};

struct llm_vocab_token {
	/* Normal tokens in the printable characters of byte-level BPE; NULL: the id is unused. */
	const char *text;
	size_t bytes;
	enum llm_vocab_type type;
};

/* A vocabulary of byte-level BPE. */
struct llm_vocab_bpe {
	const char *pre; /* the pre-tokenizer: a name that llm_vocab_knows_pre() */
	const struct llm_vocab_token *tokens; /* by id */
	size_t n_tokens;
	const char *const *merges; /* "LEFT RIGHT", in order of priority */
	size_t n_merges;
	int32_t bos, eos; /* -1: none; bos is put in front of texts */
};

bool llm_vocab_knows_pre(const char *pre);
const char *llm_vocab_pre_name(size_t i); /* the names that it knows; NULL behind the last */
/* Writes a GGUF file of metadata only; a failure leaves the old file at @path. -EINVAL for no
 * tokens, an invalid bos or eos, an unknown pre, or what llm_vocab_open() would refuse, such as a
 * merge of tokens that do not exist; -ENOMEM, and the errors of writing. */
int llm_vocab_save(const struct llm_vocab_bpe *bpe, const char *path);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* LLM_VOCAB_H */
