/* SPDX-License-Identifier: MIT */
/*
 * Vocabularies without a model: text to tokens and back by that of any GGUF file, and files that
 * hold nothing but a vocabulary (docs/tokenizers.md).
 */
#ifndef LLM_VOCAB_H
#define LLM_VOCAB_H

#include "llm.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct llm_vocab;

/* Reads the vocabulary of a GGUF file; its tensors, if it has any, are left alone. -EINVAL a bad
 * file or a vocabulary that contradicts itself, -ENOTSUP one of a kind that is not supported,
 * -ENOENT, -EACCES, -ENOMEM. It does not change and may be used by several threads. */
int llm_vocab_open(const char *path, struct llm_vocab **vocab);
void llm_vocab_close(struct llm_vocab *vocab);
size_t llm_vocab_size(const struct llm_vocab *vocab); /* ids are 0 to one less */
/* As llm_tokenize() and llm_detokenize(). */
long llm_vocab_tokenize(const struct llm_vocab *vocab, const char *text, size_t bytes,
			unsigned int flags, int32_t *ids, size_t max);
long llm_vocab_detokenize(const struct llm_vocab *vocab, const int32_t *ids, size_t n, char *buf,
			  size_t max);

/* ---- a file of a vocabulary ---- */

/* What a token is, with the numbers of the file format. */
enum llm_vocab_type {
	LLM_VOCAB_NORMAL = 1,
	LLM_VOCAB_CONTROL = 3, /* is no text, but may be written as some: LLM_TOKENIZE_SPECIAL */
	LLM_VOCAB_USER = 4, /* is always found in a text, before anything is merged */
};

struct llm_vocab_token {
	/* A normal one's in the printable characters of byte-level BPE; NULL: no such id. */
	const char *text;
	size_t bytes;
	enum llm_vocab_type type;
};

/* A vocabulary of byte-level BPE. */
struct llm_vocab_bpe {
	const char *pre; /* how a text is cut into words: a name that llm_vocab_knows_pre() */
	const struct llm_vocab_token *tokens; /* by id */
	size_t n_tokens;
	const char *const *merges; /* "LEFT RIGHT", the first one first */
	size_t n_merges;
	int32_t bos, eos; /* -1: none; bos is put in front of texts */
};

bool llm_vocab_knows_pre(const char *pre); /* gpt-2, llama-bpe, qwen2, smollm */
/* Writes a GGUF file of metadata only; after a failure what was at @path is still there. -EINVAL no
 * tokens, a bos or eos that is none of them, an unknown pre; -ENOMEM, and the errors of writing. */
int llm_vocab_save(const struct llm_vocab_bpe *bpe, const char *path);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* LLM_VOCAB_H */
