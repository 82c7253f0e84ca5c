/* SPDX-License-Identifier: MIT */
/*
 * Text to tokens and back, by the vocabulary in a GGUF file (tokenizer.ggml.*).
 *
 *   model "llama"	SPM: byte-pair merges in the order of the pieces' scores over UTF-8
 *			characters, a dummy space in front, unknown characters as byte
 *			tokens (SentencePiece's BPE)
 *   model "gpt2"	byte-level BPE: the text is cut by the pre-tokenizer's pattern
 *			(tokenizer.ggml.pre: gpt-2, llama-bpe, qwen2, smollm), bytes become
 *			printable characters, merges in the order of the file
 *
 * Tokenising never loses a byte: tokenizer_decode() of the ids gives the text (U+2581, which SPM's
 * pieces use for a space, becomes byte tokens). The exception are bytes that a vocabulary has no
 * token for, such as 0xFF in SmolLM2's: they become the unknown token, or nothing if there is none.
 */
#ifndef TOKENIZER_H
#define TOKENIZER_H

#include "gguf.h"

struct tokenizer;

#define TOKENIZE_BOS (1u << 0) /* BOS in front, if the vocabulary asks for it */
/*
 * Control tokens written in the text become their ids; user-defined ones always do, they are text.
 */
#define TOKENIZE_SPECIAL (1u << 1)

/*
 * 0, or -errno with one line in err: -ENOTSUP model or pre-tokenizer, -EINVAL a vocabulary
 * that contradicts itself.
 */
int tokenizer_create(const struct gguf_file *file, struct tokenizer **tok, char *err,
		     size_t err_bytes);
void tokenizer_free(struct tokenizer *tok);
/* Whether model "gpt2" has a pattern of this name. */
bool tokenizer_knows_pre(const char *name);

size_t tokenizer_n_vocab(const struct tokenizer *tok);
int tokenizer_bos(const struct tokenizer *tok); /* -1: none */
int tokenizer_eos(const struct tokenizer *tok);
bool tokenizer_adds_bos(const struct tokenizer *tok);
/* End of text or of turn (EOS, EOT, EOM, "<|im_end|>", "<|eot_id|>", ...). */
bool tokenizer_is_end(const struct tokenizer *tok, int32_t id);

/* Number of ids; at most @max of them are stored. -ENOMEM, -EFBIG above 2 GiB, -EOVERFLOW if
 * libpcre2 meets one of its limits. Any bytes are accepted, valid UTF-8 or not.
 * SPM's dummy space stands in front of the text and behind control tokens. */
long tokenizer_encode(const struct tokenizer *tok, const char *text, size_t bytes,
		      unsigned int flags, int32_t *ids, size_t max);
/*
 * Bytes of one token, as many as there are, at most @max stored; control tokens are
 * empty. -EINVAL: no such id.
 */
int tokenizer_token_text(const struct tokenizer *tok, int32_t id, char *buf, size_t max);
/*
 * Bytes of a sequence, the dummy spaces removed; at most @max are stored. -EINVAL: an unknown id.
 */
long tokenizer_decode(const struct tokenizer *tok, const int32_t *ids, size_t n, char *buf,
		      size_t max);

#endif /* TOKENIZER_H */
