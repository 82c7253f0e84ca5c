// SPDX-License-Identifier: MIT
/*
 * The vocabulary: tokens with their types and scores, and a hash table from text to token.
 *
 * Tokens are stored as the bytes that they stand for (see struct token), so encoding and decoding
 * need no translation. Look-ups find the first of several tokens with the same text.
 */
#include "tokenizer_private.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Keeps ids and twice as many hash slots in int32_t. Known vocabularies have at most 262,144. */
#define MAX_TOKENS (1u << 24)

static uint64_t hash_text(uint64_t seed, const uint8_t *text, size_t bytes)
{
	uint64_t h = seed ^ bytes * 0x9e3779b97f4a7c15u, v;

	for (; bytes >= 8; bytes -= 8, text += 8) {
		memcpy(&v, text, 8);
		h = hash_mix(h ^ v);
	}
	v = 0;
	memcpy(&v, text, bytes);
	return hash_mix(h ^ v);
}

int32_t vocab_find(const struct tokenizer *tok, const uint8_t *text, size_t bytes)
{
	uint32_t i;
	int32_t id;

	if (bytes > tok->max_piece_bytes)
		return -1;
	for (i = hash_text(tok->seed, text, bytes) & tok->slot_mask; (id = tok->slots[i]) >= 0;
	     i = (i + 1) & tok->slot_mask)
		if (tok->tokens[id].bytes == bytes && !memcmp(token_text(tok, id), text, bytes))
			return id;
	return -1;
}

static void insert(struct tokenizer *tok, int32_t id)
{
	const struct token *t = &tok->tokens[id];
	uint32_t i;

	if (!t->bytes || vocab_find(tok, token_text(tok, id), t->bytes) >= 0)
		return;
	i = hash_text(tok->seed, token_text(tok, id), t->bytes) & tok->slot_mask;
	while (tok->slots[i] >= 0)
		i = (i + 1) & tok->slot_mask;
	tok->slots[i] = id;
}

/*
 * Byte-level BPE writes bytes as printable characters: printable Latin-1 characters as themselves,
 * the other 68 bytes in order as U+0100 and the following characters.
 */
static int unprint_char(uint32_t c)
{
	static const uint8_t first = 0x21, last = 0x7e, first2 = 0xa1, gap = 0xad;

	if ((c >= first && c <= last) || (c >= first2 && c <= 0xff && c != gap))
		return c;
	if (c < 0x100 || c >= 0x100 + 68)
		return -1;
	c -= 0x100;
	if (c < 0x21)
		return c;
	c -= 0x21;
	return c < 0xa1 - 0x7f ? 0x7f + (int)c : gap;
}

size_t vocab_unprint(const uint8_t *text, size_t bytes, uint8_t *out, bool *complete)
{
	size_t pos = 0, used = 0;

	*complete = true;
	while (pos < bytes) {
		unsigned int n = utf8_bytes(text + pos, bytes - pos);
		int byte = -1;

		if (n == 1)
			byte = unprint_char(text[pos]);
		else if (n == 2)
			byte = unprint_char((text[pos] & 31) << 6 | (text[pos + 1] & 63));
		if (byte >= 0) {
			out[used++] = byte;
		} else {
			*complete = false;
			memcpy(out + used, text + pos, n ? n : 1);
			used += n ? n : 1;
		}
		pos += n ? n : 1;
	}
	return used;
}

/* SPM writes a space as U+2581. Returns the length of @out; *@complete is false if
 * @text has a plain space. */
static size_t unescape_spaces(const uint8_t *text, size_t bytes, uint8_t *out, bool *complete)
{
	size_t pos = 0, used = 0;

	*complete = !memchr(text, ' ', bytes);
	while (pos < bytes) {
		if (bytes - pos >= 3 && !memcmp(text + pos, "\u2581", 3)) {
			out[used++] = ' ';
			pos += 3;
		} else {
			out[used++] = text[pos++];
		}
	}
	return used;
}

struct load {
	struct tokenizer *tok;
	struct tokenizer_error *e;
	size_t used; /* bytes of the vocabulary */
};

/* "<0x0A>" is the byte 10. */
static int parse_byte_token(const char *s, size_t bytes)
{
	char hex[3] = { 0 };

	if (bytes != 6 || memcmp(s, "<0x", 3) || s[5] != '>')
		return -1;
	memcpy(hex, s + 3, 2);
	return strspn(hex, "0123456789ABCDEFabcdef") == 2 ? (int)strtol(hex, NULL, 16) : -1;
}

static int load_token(void *ud, size_t i, const char *s, size_t bytes)
{
	struct load *load = ud;
	struct tokenizer *tok = load->tok;
	struct token *t = &tok->tokens[i];
	uint8_t *out = tok->bytes + load->used;
	bool mergeable = true;
	int byte;

	/* Some files have these as words. A user who types one would end the turn, or open one; but
	 * where merges lead to what opens one, it is a word. */
	if ((t->type == TOKEN_NORMAL && ends_text(s, bytes)) ||
	    (t->type == TOKEN_USER && (ends_text(s, bytes) || is_turn_text(s, bytes))))
		t->type = TOKEN_CONTROL;
	t->text = load->used;
	t->bytes = bytes;
	if (t->type == TOKEN_BYTE) {
		byte = parse_byte_token(s, bytes);
		if (byte < 0)
			return tokenizer_fail(
				load->e, -EINVAL,
				"token %zu is marked as a byte but is not written as '<0xNN>'", i);
		out[0] = byte;
		t->bytes = 1;
		if (tok->byte_ids[byte] < 0)
			tok->byte_ids[byte] = i;
		mergeable = false;
	} else if (t->type == TOKEN_CONTROL || t->type == TOKEN_UNKNOWN) {
		memcpy(out, s, bytes);
		mergeable = false;
	} else if (tok->model == TOKENIZER_SPM) {
		t->bytes = unescape_spaces((const uint8_t *)s, bytes, out, &mergeable);
		/* User-defined tokens are matched before anything is merged. */
		mergeable = mergeable && t->type != TOKEN_USER;
	} else if (t->type == TOKEN_USER) {
		memcpy(out, s, bytes);
		mergeable = false;
	} else {
		t->bytes = vocab_unprint((const uint8_t *)s, bytes, out, &mergeable);
		mergeable = mergeable && t->type == TOKEN_NORMAL;
		if (mergeable && t->bytes == 1 && tok->byte_ids[*out] < 0)
			tok->byte_ids[*out] = i;
	}
	load->used += t->bytes;
	if (mergeable) {
		if (t->bytes > tok->max_piece_bytes)
			tok->max_piece_bytes = t->bytes;
		insert(tok, i);
	}
	return 0;
}

struct measure {
	struct tokenizer_error *e;
	size_t bytes;
	bool strings; /* the array had some */
};

static int measure_token(void *ud, size_t i, const char *s, size_t bytes)
{
	struct measure *m = ud;

	m->strings = true;
	if (bytes > MAX_TOKEN_BYTES)
		return tokenizer_fail(m->e, -EINVAL, "token %zu has %zu bytes, more than %d", i,
				      bytes, MAX_TOKEN_BYTES);
	m->bytes += bytes;
	return 0;
}

static int load_types(struct tokenizer *tok, const struct gguf_file *file,
		      struct tokenizer_error *e)
{
	const int32_t *types;
	size_t n, i;
	int ret = gguf_i32_array(file, "tokenizer.ggml.token_type", &types, &n);

	if (ret && ret != -ENOENT)
		return tokenizer_fail(
			e, -EINVAL, "tokenizer.ggml.token_type is not an array of 32-bit integers");
	if (!ret && n != tok->n_tokens)
		return tokenizer_fail(e, -EINVAL,
				      "tokenizer.ggml.token_type has %zu elements for %u tokens", n,
				      tok->n_tokens);
	for (i = 0; i < tok->n_tokens; i++) {
		int32_t type = TOKEN_NORMAL;

		if (!ret)
			memcpy(&type, &types[i], sizeof(type));
		if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
			return tokenizer_fail(
				e, -EINVAL,
				"tokenizer.ggml.token_type of token %zu is %d, not %d..%d", i, type,
				TOKEN_NORMAL, TOKEN_BYTE);
		tok->tokens[i].type = type;
	}
	return 0;
}

static int load_scores(struct tokenizer *tok, const struct gguf_file *file,
		       struct tokenizer_error *e)
{
	const float *scores;
	size_t n, i;

	if (gguf_f32_array(file, "tokenizer.ggml.scores", &scores, &n))
		return tokenizer_fail(e, -EINVAL,
				      "tokenizer.ggml.scores is missing or not an array of f32");
	if (n != tok->n_tokens)
		return tokenizer_fail(e, -EINVAL,
				      "tokenizer.ggml.scores has %zu elements for %u tokens", n,
				      tok->n_tokens);
	for (i = 0; i < n; i++) {
		memcpy(&tok->tokens[i].score, &scores[i], sizeof(float));
		if (isnan(tok->tokens[i].score))
			return tokenizer_fail(e, -EINVAL,
					      "tokenizer.ggml.scores of token %zu is not a number",
					      i);
	}
	return 0;
}

static int allocate(struct tokenizer *tok, const struct gguf_file *file, struct tokenizer_error *e)
{
	struct measure m = { .e = e };
	size_t n, slots = 16;
	int ret;

	if (gguf_array_len(file, "tokenizer.ggml.tokens", &n))
		return tokenizer_fail(e, -EINVAL,
				      "tokenizer.ggml.tokens is missing or not an array");
	if (!n || n > MAX_TOKENS)
		return tokenizer_fail(e, -EINVAL,
				      "tokenizer.ggml.tokens has %zu elements, not 1..%u", n,
				      MAX_TOKENS);
	ret = gguf_strings(file, "tokenizer.ggml.tokens", measure_token, &m);
	if (ret == -EINVAL && !m.strings)
		tokenizer_fail(e, ret, "tokenizer.ggml.tokens is not an array of strings");
	if (ret)
		return ret;
	if (m.bytes > UINT32_MAX)
		return tokenizer_fail(
			e, -EINVAL, "tokenizer.ggml.tokens has %zu bytes of text, more than 4 GiB",
			m.bytes);
	while (slots < 2 * n)
		slots *= 2;
	tok->n_tokens = n;
	tok->tokens = calloc(n, sizeof(*tok->tokens));
	/* One spare byte, as an empty token still has an address. */
	tok->bytes = malloc(m.bytes + 1);
	tok->slots = malloc(slots * sizeof(*tok->slots));
	if (!tok->tokens || !tok->bytes || !tok->slots)
		return tokenizer_fail(e, -ENOMEM, "no memory for a vocabulary of %zu tokens", n);
	memset(tok->slots, 0xff, slots * sizeof(*tok->slots));
	memset(tok->byte_ids, 0xff, sizeof(tok->byte_ids));
	tok->slot_mask = slots - 1;
	return 0;
}

int vocab_load(struct tokenizer *tok, const struct gguf_file *file, struct tokenizer_error *e)
{
	struct load load = { .tok = tok, .e = e };
	int ret = allocate(tok, file, e);

	if (!ret)
		ret = load_types(tok, file, e);
	if (!ret && tok->model == TOKENIZER_SPM)
		ret = load_scores(tok, file, e);
	return ret ? ret : gguf_strings(file, "tokenizer.ggml.tokens", load_token, &load);
}
