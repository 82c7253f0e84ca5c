// SPDX-License-Identifier: MIT
/*
 * Byte-level BPE.
 *
 * The pre-tokenizer's pattern (PCRE2, JIT-compiled where possible) splits the text into words. Each
 * byte of a word is a symbol at first; the pair of neighbours with the lowest rank, and of equal
 * ones the leftmost, is merged until no pair has a rank. Short words are scanned for the best pair;
 * long ones keep their pairs in a heap, so even a megabyte without a break takes O(n log n).
 *
 * A run of bytes that are not valid UTF-8 is a word.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer_heap.h"
#include "tokenizer_private.h"

#include <errno.h>
#include <pcre2.h>
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
	pcre2_code *pattern;
	struct bpe_merge *merges; /* open addressing */
	uint32_t mask;
	bool whole_words; /* a word that is a token is taken without merging */
};

/* Unicode's White_Space; PCRE2's \s also has U+180E, which Unicode has removed. */
#define SPACE                                                                               \
	"\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
	"\\x{205f}\\x{3000}"
#define LETTERS_GPT2 "'(?:[stmd]|re|ve|ll)| ?\\p{L}+"
#define OTHER "[^" SPACE "\\p{L}\\p{N}]+"
#define LLAMA3(digits)                                                                \
	"(?i:'(?:[stmd]|re|ve|ll))|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?" OTHER \
	"[\\r\\n]*|[" SPACE "]*[\\r\\n]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"

/* Patterns of the pre-tokenizers and the names that files use for them. */
static const struct pre_tokenizer {
	const char *name;
	const char *pattern;
	bool whole_words;
	bool adds_bos;
} pre_tokenizers[] = {
	{ "gpt-2", LETTERS_GPT2 "| ?\\p{N}+| ?" OTHER "|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+",
	  false, false },
	{ "llama-bpe", LLAMA3("\\p{N}{1,3}"), true, true },
	{ "qwen2", LLAMA3("\\p{N}"), false, false },
	/*
	 * SmolLM splits off each digit, then applies gpt-2's pattern to the rest. Here, in one
	 * pattern, a digit acts like the end of the text.
	 */
	{ "smollm",
	  LETTERS_GPT2 "|\\p{N}| ?" OTHER "|[" SPACE "]+(?![^" SPACE "\\p{N}])|[" SPACE "]+", false,
	  false },
};

static const struct pre_tokenizer *find_pre(const char *name, size_t bytes)
{
	for (size_t i = 0; i < sizeof(pre_tokenizers) / sizeof(pre_tokenizers[0]); i++) {
		if (strlen(pre_tokenizers[i].name) == bytes &&
		    !memcmp(pre_tokenizers[i].name, name, bytes))
			return &pre_tokenizers[i];
	}
	return NULL;
}

bool tokenizer_knows_pre(const char *name)
{
	return find_pre(name, strlen(name));
}

static int load_pattern(struct tokenizer *tok, const struct gguf_file *file,
			struct tokenizer_error *e)
{
	const struct pre_tokenizer *pre;
	PCRE2_SIZE at;
	const char *name;
	size_t bytes;
	int code;

	if (gguf_string(file, "tokenizer.ggml.pre", &name, &bytes))
		return tokenizer_fail(
			e, -ENOTSUP,
			"tokenizer.ggml.pre is missing: the file names no pre-tokenizer; convert "
			"it again");
	pre = find_pre(name, bytes);
	if (!pre)
		return tokenizer_fail(
			e, -ENOTSUP,
			"pre-tokenizer '%.*s' is not supported (gpt-2, llama-bpe, qwen2 and smollm "
			"are)",
			bytes > 64 ? 64 : (int)bytes, name);
	tok->bpe->whole_words = pre->whole_words;
	tok->adds_bos = pre->adds_bos;
	tok->bpe->pattern = pcre2_compile((PCRE2_SPTR)pre->pattern, PCRE2_ZERO_TERMINATED,
					  PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
	if (!tok->bpe->pattern)
		return tokenizer_fail(
			e, code == PCRE2_ERROR_NOMEMORY ? -ENOMEM : -ENOTSUP,
			"libpcre2 cannot compile the pattern of pre-tokenizer %s (error %d at %zu)",
			pre->name, code, (size_t)at);
	/* Without the JIT, PCRE2's interpreter gives the same words. */
	pcre2_jit_compile(tok->bpe->pattern, PCRE2_JIT_COMPLETE);
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
	ret = load_pattern(tok, file, e);
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
	pcre2_code_free(bpe->pattern);
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

static int encode_word(struct bpe_work *w, const uint8_t *text, size_t bytes)
{
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

/* Encodes valid UTF-8. Text between the pattern's matches is a word too, so no byte is lost. */
static int encode_valid(struct bpe_work *w, const uint8_t *text, size_t bytes,
			pcre2_match_data *match)
{
	PCRE2_SIZE *span = pcre2_get_ovector_pointer(match);
	size_t pos = 0;
	int ret;

	while (pos < bytes) {
		int n = pcre2_match(w->tok->bpe->pattern, text, bytes, pos, PCRE2_NO_UTF_CHECK,
				    match, NULL);

		if (n == PCRE2_ERROR_NOMATCH)
			return encode_word(w, text + pos, bytes - pos);
		if (n < 0)
			return n == PCRE2_ERROR_NOMEMORY ? -ENOMEM : -EOVERFLOW;
		ret = span[0] > pos ? encode_word(w, text + pos, span[0] - pos) : 0;
		if (!ret)
			ret = encode_word(w, text + span[0], span[1] - span[0]);
		if (ret)
			return ret;
		pos = span[1];
	}
	return 0;
}

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

int bpe_encode(const struct tokenizer *tok, const uint8_t *text, size_t bytes, struct id_list *out)
{
	struct bpe_work w = { .tok = tok, .heap = { .find = find_pair, .ud = &w }, .out = out };
	pcre2_match_data *match = pcre2_match_data_create(1, NULL);
	size_t pos = 0, n;
	int ret = match ? 0 : -ENOMEM;

	while (!ret && pos < bytes) {
		n = valid_run(text + pos, bytes - pos);
		if (n) {
			ret = encode_valid(&w, text + pos, n, match);
		} else {
			n = invalid_run(text + pos, bytes - pos);
			ret = encode_word(&w, text + pos, n);
		}
		pos += n;
	}
	pcre2_match_data_free(match);
	merge_heap_free(&w.heap);
	return ret;
}
