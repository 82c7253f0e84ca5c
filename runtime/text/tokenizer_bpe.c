// SPDX-License-Identifier: MIT
/*
 * Byte-level BPE.
 *
 * The pre-tokenizer splits the text into words. Each byte of a word is a symbol at first; the pair
 * of neighbours with the lowest rank, and of equal ones the leftmost, is merged until no pair has a
 * rank. Short words are scanned for the best pair; long ones keep their pairs in a heap, so even a
 * megabyte without a break takes O(n log n).
 *
 * A run of bytes that are not valid UTF-8 is a word.
 */
#include "tokenizer_heap.h"
#include "tokenizer_nfc.h"
#include "tokenizer_pre.h"
#include "tokenizer_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* For longer words the heap is faster than scanning (measured: equal at about 32 bytes). */
#define SCAN_BYTES 32
#define NO_RANK UINT32_MAX

struct bpe_merge {
	uint64_t key; /* left id << 32 | right id */
	uint32_t rank; /* NO_RANK: empty slot */
	int32_t id; /* of the merged token */
};

struct bpe {
	struct splitter *splitter;
	bool nfc;
	struct bpe_merge *merges; /* open addressing */
	uint32_t mask;
	bool whole_words; /* a word that is a token is taken without merging */
};

bool tokenizer_knows_pre(const char *name)
{
	return pre_find(name, strlen(name));
}

const char *tokenizer_pre_name(size_t i)
{
	return pre_name(i);
}

static int load_pre(struct tokenizer *tok, const struct gguf_file *file, struct tokenizer_error *e)
{
	const struct pre_tokenizer *pre;
	const char *name;
	size_t bytes;

	if (gguf_string(file, "tokenizer.ggml.pre", &name, &bytes)) {
		name = "default";
		bytes = strlen(name);
		tok->warning = "tokenizer.ggml.pre is missing: words are cut as llama.cpp does by "
			       "default, probably not as the model was trained; convert it again";
	}
	pre = pre_find(name, bytes);
	if (!pre)
		return tokenizer_fail(
			e, -ENOTSUP,
			"pre-tokenizer '%.*s' is not known (llm-vocab --list prints those that "
			"are)",
			bytes > 64 ? 64 : (int)bytes, name);
	tok->bpe->whole_words = pre->whole_words;
	tok->bpe->nfc = pre->nfc;
	tok->adds_bos = pre->adds_bos;
	tok->bpe->splitter = splitter_create(pre);
	if (!tok->bpe->splitter)
		return tokenizer_fail(e, -ENOMEM,
				      "no memory for the patterns of pre-tokenizer %s, or a "
				      "libpcre2 before 10.30",
				      pre->names[0]);
	return 0;
}

static const struct bpe_merge *find_merge(const struct tokenizer *tok, int32_t left, int32_t right)
{
	static const struct bpe_merge none = { .rank = NO_RANK, .id = -1 };
	uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
	const struct bpe *bpe = tok->bpe;
	uint32_t i;

	if (left < 0 || right < 0)
		return &none;
	for (i = hash_mix(key ^ tok->seed) & bpe->mask; bpe->merges[i].rank != NO_RANK;
	     i = (i + 1) & bpe->mask)
		if (bpe->merges[i].key == key)
			return &bpe->merges[i];
	return &none;
}

static bool is_special(const struct tokenizer *tok, const uint8_t *text, size_t bytes)
{
	int32_t id = bytes ? special_match(tok, text, bytes, bytes) : -1;

	return id >= 0 && tok->tokens[id].bytes == bytes;
}

struct merge_load {
	struct tokenizer *tok;
	struct tokenizer_error *e;
	bool strings; /* the array had some */
};

static int load_merge(void *ud, size_t rank, const char *s, size_t bytes)
{
	struct merge_load *load = ud;
	struct tokenizer *tok = load->tok;
	/* The first space separates the tokens: byte-level tokens contain no spaces. */
	const char *space = memchr(s, ' ', bytes);
	uint8_t text[2 * MAX_TOKEN_BYTES];
	size_t left_bytes, right_bytes;
	int32_t left, right, id;
	bool complete;
	uint32_t i;

	load->strings = true;
	if (!space || bytes > 2 * MAX_TOKEN_BYTES)
		return tokenizer_fail(load->e, -EINVAL,
				      "merge %zu is not two tokens with a space between", rank);
	left_bytes = vocab_unprint((const uint8_t *)s, space - s, text, &complete);
	right_bytes = vocab_unprint((const uint8_t *)space + 1, bytes - (space + 1 - s),
				    text + left_bytes, &complete);
	left = vocab_find(tok, text, left_bytes);
	right = vocab_find(tok, text + left_bytes, right_bytes);
	id = vocab_find(tok, text, left_bytes + right_bytes);
	/* Special tokens are found before anything is merged, and control tokens only then: a merge
	 * of them, or to one, never happens. */
	if ((left < 0 && is_special(tok, text, left_bytes)) ||
	    (right < 0 && is_special(tok, text + left_bytes, right_bytes)) ||
	    (id < 0 && is_special(tok, text, left_bytes + right_bytes)))
		return 0;
	if (left < 0 || right < 0 || id < 0)
		return tokenizer_fail(
			load->e, -EINVAL,
			"merge %zu, '%.*s', names a token that is not in the vocabulary", rank,
			bytes > 64 ? 64 : (int)bytes, s);
	if (find_merge(tok, left, right)->rank != NO_RANK)
		return 0;
	i = hash_mix(((uint64_t)left << 32 | (uint32_t)right) ^ tok->seed) & tok->bpe->mask;
	while (tok->bpe->merges[i].rank != NO_RANK)
		i = (i + 1) & tok->bpe->mask;
	tok->bpe->merges[i] =
		(struct bpe_merge){ (uint64_t)left << 32 | (uint32_t)right, rank, id };
	return 0;
}

int bpe_load(struct tokenizer *tok, const struct gguf_file *file, struct tokenizer_error *e)
{
	struct merge_load load = { tok, e, false };
	size_t n, slots = 16;
	int ret;

	tok->bpe = calloc(1, sizeof(*tok->bpe));
	if (!tok->bpe)
		return tokenizer_fail(e, -ENOMEM, "no memory for a vocabulary");
	ret = load_pre(tok, file, e);
	if (ret)
		return ret;
	if (gguf_array_len(file, "tokenizer.ggml.merges", &n))
		return tokenizer_fail(e, -EINVAL,
				      "tokenizer.ggml.merges is missing or not an array");
	if (n >= UINT32_MAX / 4)
		return tokenizer_fail(e, -EINVAL, "tokenizer.ggml.merges has %zu elements", n);
	while (slots < 2 * n)
		slots *= 2;
	tok->bpe->merges = malloc(slots * sizeof(*tok->bpe->merges));
	if (!tok->bpe->merges)
		return tokenizer_fail(e, -ENOMEM, "no memory for %zu merges", n);
	memset(tok->bpe->merges, 0xff, slots * sizeof(*tok->bpe->merges));
	tok->bpe->mask = slots - 1;
	ret = gguf_strings(file, "tokenizer.ggml.merges", load_merge, &load);
	if (ret == -EINVAL && !load.strings)
		tokenizer_fail(e, ret, "tokenizer.ggml.merges is not an array of strings");
	return ret;
}

void bpe_free(struct bpe *bpe)
{
	if (!bpe)
		return;
	splitter_free(bpe->splitter);
	free(bpe->merges);
	free(bpe);
}

/* ---- one word -------------------------------------------------------------------------------- */

struct bpe_work {
	const struct tokenizer *tok;
	struct merge_heap heap; /* values are tokens; -1: a byte without one */
	struct id_list *out;
};

/* Emits a token; @id -1 is a byte without a token. */
static void emit(struct bpe_work *w, int32_t id)
{
	if (id < 0)
		id = w->tok->unknown;
	if (id >= 0)
		id_list_push(w->out, id);
}

static void merge_short(struct bpe_work *w, const uint8_t *text, size_t bytes)
{
	const struct bpe_merge *pairs[SCAN_BYTES];
	int32_t ids[SCAN_BYTES];
	size_t n = bytes, i, best;

	for (i = 0; i < n; i++)
		ids[i] = w->tok->byte_ids[text[i]];
	for (i = 0; i + 1 < n; i++)
		pairs[i] = find_merge(w->tok, ids[i], ids[i + 1]);
	while (n > 1) {
		for (best = 0, i = 1; i + 1 < n; i++)
			if (pairs[i]->rank < pairs[best]->rank)
				best = i;
		if (pairs[best]->rank == NO_RANK)
			break;
		ids[best] = pairs[best]->id;
		n--;
		memmove(&ids[best + 1], &ids[best + 2], (n - best - 1) * sizeof(ids[0]));
		memmove(&pairs[best], &pairs[best + 1], (n - best - 1) * sizeof(pairs[0]));
		if (best + 1 < n)
			pairs[best] = find_merge(w->tok, ids[best], ids[best + 1]);
		if (best)
			pairs[best - 1] = find_merge(w->tok, ids[best - 1], ids[best]);
	}
	for (i = 0; i < n; i++)
		emit(w, ids[i]);
}

static bool find_pair(void *ud, const struct merge_symbol *left, const struct merge_symbol *right,
		      uint32_t *order, uint32_t *value)
{
	const struct bpe_work *w = ud;
	const struct bpe_merge *m = find_merge(w->tok, left->value, right->value);

	*order = m->rank;
	*value = m->id;
	return m->rank != NO_RANK;
}

static int merge_long(struct bpe_work *w, const uint8_t *text, size_t bytes)
{
	struct merge_heap *heap = &w->heap;
	int ret = 0;
	int32_t i;
	size_t n;

	merge_heap_clear(heap);
	for (n = 0; !ret && n < bytes; n++)
		ret = merge_heap_add(heap, w->tok->byte_ids[text[n]], 1);
	if (!ret)
		ret = merge_heap_run(heap);
	for (i = 0; !ret && i >= 0; i = heap->symbols[i].next)
		emit(w, heap->symbols[i].value);
	return ret;
}

static int encode_word(void *ud, const uint8_t *text, size_t bytes)
{
	struct bpe_work *w = ud;

	if (w->tok->bpe->whole_words) {
		int32_t id = vocab_find(w->tok, text, bytes);

		if (id >= 0) {
			id_list_push(w->out, id);
			return 0;
		}
	}
	if (bytes > SCAN_BYTES)
		return merge_long(w, text, bytes);
	merge_short(w, text, bytes);
	return 0;
}

/* ---- a text ---------------------------------------------------------------------------------- */

static size_t valid_run(const uint8_t *text, size_t bytes)
{
	size_t pos = 0;
	unsigned int n;

	while (pos < bytes && (n = utf8_bytes(text + pos, bytes - pos)))
		pos += n;
	return pos;
}

static size_t invalid_run(const uint8_t *text, size_t bytes)
{
	size_t pos = 0;

	while (pos < bytes && !utf8_bytes(text + pos, bytes - pos))
		pos++;
	return pos;
}

static int encode_valid(struct bpe_work *w, const uint8_t *text, size_t bytes)
{
	const struct bpe *bpe = w->tok->bpe;
	uint8_t *changed = NULL;
	int ret = bpe->nfc ? nfc_normalise(text, bytes, &changed, &bytes) : 0;

	if (!ret)
		ret = splitter_run(bpe->splitter, changed ? changed : text, bytes, encode_word, w);
	free(changed);
	return ret;
}

int bpe_encode(const struct tokenizer *tok, const uint8_t *text, size_t bytes, struct id_list *out)
{
	struct bpe_work w = { .tok = tok, .heap = { .find = find_pair, .ud = &w }, .out = out };
	size_t pos = 0, n;
	int ret = 0;

	while (!ret && pos < bytes) {
		n = valid_run(text + pos, bytes - pos);
		if (n) {
			ret = encode_valid(&w, text + pos, n);
		} else {
			n = invalid_run(text + pos, bytes - pos);
			ret = encode_word(&w, text + pos, n);
		}
		pos += n;
	}
	merge_heap_free(&w.heap);
	return ret;
}
