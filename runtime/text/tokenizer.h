/* SPDX-License-Identifier: MIT */
/*
 * Text to tokens and back with the vocabulary of a GGUF file (tokenizer.ggml.*).
 *
 *   model "llama"	SPM (SentencePiece's BPE): merges UTF-8 characters in the order of the
 *			pieces' scores; puts a dummy space in front; unknown characters become
 *			byte tokens
 *   model "gpt2"	byte-level BPE: splits the text by the pre-tokenizer's pattern
 *			(tokenizer.ggml.pre: the names of tokenizer_pre.c); bytes become printable
 *			characters; merges in the order of the file
 *
 * Tokenizing loses no byte: tokenizer_decode() of the ids returns the text (U+2581, which SPM's
 * pieces use for a space, becomes byte tokens). The exceptions are bytes without a token in the
 * vocabulary, such as 0xFF in SmolLM2's: they become the unknown token, or nothing if it has none;
 * and models that were trained on normalised text, such as Qwen2: the text comes back in form C.
 */
#ifndef TOKENIZER_H
#define TOKENIZER_H

#include "gguf.h"

struct tokenizer;

#define TOKENIZE_BOS (1u << 0) /* put BOS in front, if the vocabulary asks for it */
/* Recognise control tokens that are spelled out in the text, as user-defined tokens always are. */
#define TOKENIZE_SPECIAL (1u << 1)
#define TOKENIZE_CONTINUES (1u << 2) /* other text stands before it: no dummy space in front */

/* A part of a text, by its bytes from @begin to before @end. */
struct tokenizer_range {
	size_t begin, end;
};

/* Returns 0, or -errno with one line in @err: -ENOTSUP for the model or the pre-tokenizer, -EINVAL
 * for an inconsistent vocabulary. */
int tokenizer_create(const struct gguf_file *file, struct tokenizer **tok, char *err,
		     size_t err_bytes);
void tokenizer_free(struct tokenizer *tok);
/* A line for the user about a vocabulary that may not be what its model was trained with; NULL. */
const char *tokenizer_warning(const struct tokenizer *tok);
/* Whether model "gpt2" has a pre-tokenizer of this name. */
bool tokenizer_knows_pre(const char *name);
/* Name @i of all pre-tokenizers; NULL behind the last. */
const char *tokenizer_pre_name(size_t i);

size_t tokenizer_n_vocab(const struct tokenizer *tok);
int tokenizer_bos(const struct tokenizer *tok); /* -1: none */
int tokenizer_eos(const struct tokenizer *tok);
bool tokenizer_adds_bos(const struct tokenizer *tok);
/* Whether @id ends a text or a turn: EOS, EOT, EOM, and tokens such as "<|im_end|>". */
bool tokenizer_is_end(const struct tokenizer *tok, int32_t id);

/* Stores at most @max ids and returns their total number. -ENOMEM, -EFBIG above 2 GiB, -EOVERFLOW
 * if libpcre2 reaches one of its limits. The text need not be valid UTF-8. SPM puts its dummy space
 * in front of each stretch of text between special tokens. */
long tokenizer_encode(const struct tokenizer *tok, const char *text, size_t bytes,
		      unsigned int flags, int32_t *ids, size_t max);
/* The same, but recognises control tokens only within @ranges, which are in the text's order. The
 * text between them is no other than the rest: tokens are merged across their ends. */
long tokenizer_encode_ranges(const struct tokenizer *tok, const char *text, size_t bytes,
			     unsigned int flags, const struct tokenizer_range *ranges,
			     size_t nr_ranges, int32_t *ids, size_t max);
/* The *@bytes by which a text spells a token out, a control token too. NULL: unknown id. */
const char *tokenizer_spelling(const struct tokenizer *tok, int32_t id, size_t *bytes);
/* Stores at most @max bytes of a token and returns their total number, 0 for a control token.
 * -EINVAL: unknown id. */
int tokenizer_token_text(const struct tokenizer *tok, int32_t id, char *buf, size_t max);
/* The same for a sequence, without the dummy spaces. */
long tokenizer_decode(const struct tokenizer *tok, const int32_t *ids, size_t n, char *buf,
		      size_t max);

#endif /* TOKENIZER_H */
