/* SPDX-License-Identifier: MIT */
/*
 * What the tokenizer's files share: tokenizer.c (the interface), tokenizer_vocab.c (the tokens),
 * tokenizer_special.c (tokens found as text), tokenizer_spm.c and tokenizer_bpe.c (the two models),
 * tokenizer_heap.c (the order of merges).
 */
#ifndef TOKENIZER_PRIVATE_H
#define TOKENIZER_PRIVATE_H

#include "tokenizer.h"

/*
 * Longer tokens are refused: they would make every look-up expensive, and nobody has trained one.
 */
#define MAX_TOKEN_BYTES 4096

/* Token types, with the numbers of the file format. */
enum token_type {
	TOKEN_NORMAL = 1,
	TOKEN_UNKNOWN = 2,
	TOKEN_CONTROL = 3,
	TOKEN_USER = 4,
	TOKEN_UNUSED = 5,
	TOKEN_BYTE = 6,
};

enum tokenizer_model {
	TOKENIZER_SPM,
	TOKENIZER_BPE,
};

struct bpe;

/* One token. @text is what it stands for in a text: for SPM with spaces for U+2581, for BPE the
 * bytes behind the printable characters, for byte tokens the byte. */
struct token {
	uint32_t text; /* offset into vocabulary bytes */
	uint16_t bytes;
	uint8_t type;
	bool end; /* of text or turn */
	float score; /* SPM */
};

struct tokenizer {
	enum tokenizer_model model;
	struct token *tokens;
	uint32_t n_tokens;
	uint8_t *bytes;
	/* Open addressing over the tokens that text can merge to, by their text; -1 is empty. */
	int32_t *slots;
	uint32_t slot_mask;
	uint64_t seed;
	uint32_t max_piece_bytes;
	int32_t byte_ids[256]; /* -1: no token for this byte */
	int32_t bos, eos, unknown;
	bool adds_bos;
	bool adds_space; /* SPM: the dummy space */
	/* SPM: no piece has a space behind something else, so texts can be cut there. */
	bool words_apart;
	bool has_unused; /* SPM: some pieces only exist to be merged further */
	/* Control and user-defined tokens in the order of their bytes. */
	int32_t *special;
	uint32_t n_special;
	uint8_t special_first[256]; /* whether one begins with this byte */
	struct bpe *bpe;
};

/* Where errors of tokenizer_create() go. */
struct tokenizer_error {
	char *line;
	size_t bytes;
};
__attribute__((format(printf, 3, 4))) int tokenizer_fail(struct tokenizer_error *e, int ret,
							 const char *fmt, ...);

static inline const uint8_t *token_text(const struct tokenizer *tok, int32_t id)
{
	return tok->bytes + tok->tokens[id].text;
}

/* The ids of one call; counts on when the caller's array is full. */
struct id_list {
	int32_t *ids;
	size_t max, n;
};

static inline void id_list_push(struct id_list *list, int32_t id)
{
	if (list->n < list->max)
		list->ids[list->n] = id;
	list->n++;
}

/* Bytes of the UTF-8 character at @s, 1..4; 0 if the @n bytes do not begin with one (Unicode's
 * table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF). */
static inline unsigned int utf8_bytes(const uint8_t *s, size_t n)
{
	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4 || n < 2 || (s[1] & 0xc0) != 0x80)
		return 0;
	if (s[0] < 0xe0)
		return 2;
	if (n < 3 || (s[2] & 0xc0) != 0x80)
		return 0;
	if (s[0] < 0xf0)
		return (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ? 0 : 3;
	if (n < 4 || (s[3] & 0xc0) != 0x80)
		return 0;
	return (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f) ? 0 : 4;
}

/* Mixes 64 bits; the seed differs per process, so that no vocabulary can be made of collisions. */
static inline uint64_t hash_mix(uint64_t h)
{
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93u;
	h ^= h >> 29;
	h *= 0xd6e8feb86659fd93u;
	return h ^ h >> 32;
}

/* Loads tokens, types and scores. */
int vocab_load(struct tokenizer *tok, const struct gguf_file *file, struct tokenizer_error *e);
/* The token that text may become by merging; -1: none. */
int32_t vocab_find(const struct tokenizer *tok, const uint8_t *text, size_t bytes);
/* Bytes that a printable-character form of byte-level BPE stands for, at most @bytes of them;
 * *@complete is false if a character is outside the table (it is copied). */
size_t vocab_unprint(const uint8_t *text, size_t bytes, uint8_t *out, bool *complete);

int special_load(struct tokenizer *tok, struct tokenizer_error *e);
/*
 * The longest token that begins at @text; user-defined ones, and with @control
 * all others too; -1: none.
 */
int32_t special_match(const struct tokenizer *tok, const uint8_t *text, size_t bytes, bool control);

/* A stretch of text without special tokens; @space puts the dummy space in front. 0 or -errno. */
int spm_load(struct tokenizer *tok, struct tokenizer_error *e);
int spm_encode(const struct tokenizer *tok, const uint8_t *text, size_t bytes, bool space,
	       struct id_list *out);

int bpe_load(struct tokenizer *tok, const struct gguf_file *file, struct tokenizer_error *e);
void bpe_free(struct bpe *bpe);
int bpe_encode(const struct tokenizer *tok, const uint8_t *text, size_t bytes, struct id_list *out);

#endif /* TOKENIZER_PRIVATE_H */
