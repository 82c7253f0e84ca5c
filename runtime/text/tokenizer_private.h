/* SPDX-License-Identifier: MIT */
/*
 * Shared by tokenizer.c (the interface), tokenizer_vocab.c (the tokens), tokenizer_special.c
 * (tokens spelled out in a text), tokenizer_ends.c (those that end it), tokenizer_spm.c and
 * tokenizer_bpe.c (the two models), and tokenizer_heap.c (the order of merges).
 */
#ifndef TOKENIZER_PRIVATE_H
#define TOKENIZER_PRIVATE_H

#include "tokenizer.h"

/* Longer tokens would make every look-up expensive, and no known vocabulary has any. */
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

/* A token. @text holds the bytes that it stands for in a text: spaces for SPM's U+2581, bytes for
 * BPE's printable characters, the byte of a byte token. */
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
	/* Hash table with open addressing: mergeable tokens by their text; -1: empty */
	int32_t *slots;
	uint32_t slot_mask;
	uint64_t seed;
	uint32_t max_piece_bytes;
	int32_t byte_ids[256]; /* -1: no token for this byte */
	int32_t bos, eos, unknown;
	bool adds_bos;
	bool adds_space; /* SPM: the dummy space */
	bool strips; /* white space behind control tokens */
	const char *warning; /* or NULL */
	/* SPM: no piece has a space after another character, so texts can be split there. */
	bool words_apart;
	bool has_unused; /* SPM: some pieces only exist to be merged further */
	/* Control and user-defined tokens, sorted by their bytes. */
	int32_t *special;
	uint32_t n_special;
	uint8_t special_first[256]; /* whether a special token begins with this byte */
	struct bpe *bpe;
};

/* The error line of tokenizer_create(). */
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

/* The ids of one call; @n counts on when the caller's array is full. */
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

/* Length of the UTF-8 character at @s, 1..4; 0 if the @n bytes do not begin with a valid one
 * (Unicode's table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF). */
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

/* Mixes 64 bits. The seed differs per process, so that no file can provoke collisions. */
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
/* The mergeable token of this text; -1: none. */
int32_t vocab_find(const struct tokenizer *tok, const uint8_t *text, size_t bytes);
/* Decodes byte-level BPE's printable characters into @out, at most @bytes long, and returns its
 * length. *@complete is false if a character is not in the table; it is copied. */
size_t vocab_unprint(const uint8_t *text, size_t bytes, uint8_t *out, bool *complete);

/* Whether a token of this text ends texts or turns in all models that have it. */
bool ends_text(const char *s, size_t bytes);
/* Whether one of this text stands around messages in a chat format. */
bool is_turn_text(const char *s, size_t bytes);
/* Marks those that end among the special ones. */
void ends_mark(struct tokenizer *tok);

int special_load(struct tokenizer *tok, struct tokenizer_error *e);
/* The longest user-defined token at @text, or other special one within its first @control bytes;
 * -1: none. */
int32_t special_match(const struct tokenizer *tok, const uint8_t *text, size_t bytes,
		      size_t control);

int spm_load(struct tokenizer *tok, struct tokenizer_error *e);
/* Encodes text without special tokens; @space puts the dummy space in front. 0 or -errno. */
int spm_encode(const struct tokenizer *tok, const uint8_t *text, size_t bytes, bool space,
	       struct id_list *out);

int bpe_load(struct tokenizer *tok, const struct gguf_file *file, struct tokenizer_error *e);
void bpe_free(struct bpe *bpe);
int bpe_encode(const struct tokenizer *tok, const uint8_t *text, size_t bytes, struct id_list *out);

#endif /* TOKENIZER_PRIVATE_H */
