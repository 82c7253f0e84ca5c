// SPDX-License-Identifier: MIT
/*
 * A Hugging Face tokenizer.json (byte-level BPE) as the metadata of a GGUF file.
 *
 * The pre-tokenizer is recognised by its fields and its pattern's text; one that is not known is refused, because a
 * wrong one gives ids that are nearly right.
 */
#define _GNU_SOURCE
#include "llm-vocab.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_writer.h"

#define MAX_TOKENS (1u << 24)
/* GGUF's token types. */
enum { TYPE_NORMAL = 1, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_UNUSED = 5 };

#define LLAMA3(digits)                                                       \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
	"| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Patterns of "Split" pre-tokenizers. */
static const struct {
	const char *pattern, *pre;
} known_patterns[] = {
	{ LLAMA3("\\p{N}{1,3}"), "llama-bpe" },
	{ LLAMA3("\\p{N}"), "qwen2" },
	{ "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", "gpt-2" },
};

struct vocab_entry {
	const char *text; /* NULL: the id has no token */
	size_t bytes;
	int type;
};

struct convert {
	const char *path;
	struct json_object *root, *model, *merges;
	struct vocab_entry *entries;
	size_t n, max;
	const char *pre;
	char *err;
	size_t err_bytes;
};

__attribute__((format(printf, 2, 3))) static int convert_fail(struct convert *c, const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(c->err, c->err_bytes, "%s: ", c->path);

	if (n >= 0 && (size_t)n < c->err_bytes) {
		va_start(ap, fmt);
		vsnprintf(c->err + n, c->err_bytes - n, fmt, ap);
		va_end(ap);
	}
	return -1;
}

static struct json_object *member(struct json_object *object, const char *key, enum json_type type)
{
	struct json_object *value;

	if (!json_object_is_type(object, json_type_object) || !json_object_object_get_ex(object, key, &value) ||
	    !json_object_is_type(value, type))
		return NULL;
	return value;
}

static bool member_bool(struct json_object *object, const char *key, bool missing)
{
	struct json_object *value = member(object, key, json_type_boolean);

	return value ? json_object_get_boolean(value) : missing;
}

static const char *member_string(struct json_object *object, const char *key)
{
	struct json_object *value = member(object, key, json_type_string);

	return value ? json_object_get_string(value) : "";
}

static int set_entry(struct convert *c, int64_t id, const char *text, size_t bytes, int type)
{
	if (id < 0 || id >= MAX_TOKENS)
		return convert_fail(c, "token '%s' has id %lld, not 0..%u", text, (long long)id, MAX_TOKENS - 1);
	if ((size_t)id >= c->max) {
		size_t max = 2 * (size_t)id + 1024;
		struct vocab_entry *entries = realloc(c->entries, max * sizeof(*entries));

		if (!entries)
			return convert_fail(c, "no memory for %zu tokens", max);
		memset(entries + c->max, 0, (max - c->max) * sizeof(*entries));
		c->entries = entries;
		c->max = max;
	}
	if ((size_t)id >= c->n)
		c->n = id + 1;
	c->entries[id] = (struct vocab_entry){ text, bytes, type };
	return 0;
}

static int read_vocab(struct convert *c)
{
	struct json_object *vocab = member(c->model, "vocab", json_type_object);
	struct json_object *added = member(c->root, "added_tokens", json_type_array);
	size_t i, n = added ? json_object_array_length(added) : 0;

	if (!vocab)
		return convert_fail(c, "model.vocab is missing or not an object");
	json_object_object_foreach(vocab, text, id_value)
	{
		int64_t id = json_object_is_type(id_value, json_type_int) ? json_object_get_int64(id_value) : -1;

		if (id >= 0 && (size_t)id < c->max && c->entries[id].text)
			return convert_fail(c, "id %lld is both '%s' and '%s'", (long long)id, c->entries[id].text,
					    text);
		if (set_entry(c, id, text, strlen(text), TYPE_NORMAL))
			return -1;
	}
	for (i = 0; i < n; i++) {
		struct json_object *token = json_object_array_get_idx(added, i);
		struct json_object *id = member(token, "id", json_type_int);
		struct json_object *content = member(token, "content", json_type_string);

		if (!id || !content)
			return convert_fail(c, "added_tokens[%zu] lacks id or content", i);
		if (set_entry(c, json_object_get_int64(id), json_object_get_string(content),
			      json_object_get_string_len(content),
			      member_bool(token, "special", false) ? TYPE_CONTROL : TYPE_USER))
			return -1;
	}
	return c->n ? 0 : convert_fail(c, "the vocabulary is empty");
}

/* "gpt-2" for a plain ByteLevel, by its pattern for a Split, "smollm" for Digits in front; NULL if not known. */
static const char *recognise_pre(struct json_object *pre)
{
	struct json_object *list = member(pre, "pretokenizers", json_type_array);
	struct json_object *first = pre, *byte_level = pre;
	const char *type, *pattern;
	size_t i;

	if (!strcmp(member_string(pre, "type"), "Sequence")) {
		if (!list || json_object_array_length(list) != 2)
			return NULL;
		first = json_object_array_get_idx(list, 0);
		byte_level = json_object_array_get_idx(list, 1);
	}
	if (strcmp(member_string(byte_level, "type"), "ByteLevel"))
		return NULL;
	type = member_string(first, "type");
	if (first == byte_level)
		return member_bool(byte_level, "use_regex", true) ? "gpt-2" : NULL;
	if (!strcmp(type, "Digits"))
		return member_bool(first, "individual_digits", false) && member_bool(byte_level, "use_regex", true)
			       ? "smollm"
			       : NULL;
	if (strcmp(type, "Split") || strcmp(member_string(first, "behavior"), "Isolated") ||
	    member_bool(first, "invert", false) || member_bool(byte_level, "use_regex", true))
		return NULL;
	pattern = member_string(member(first, "pattern", json_type_object), "Regex");
	for (i = 0; i < sizeof(known_patterns) / sizeof(known_patterns[0]); i++)
		if (!strcmp(pattern, known_patterns[i].pattern))
			return known_patterns[i].pre;
	return NULL;
}

/* Whether ByteLevel puts a space in front of every text, which GGUF's byte-level BPE does not know. */
static bool adds_prefix_space(struct json_object *pre)
{
	struct json_object *list = member(pre, "pretokenizers", json_type_array);
	size_t i, n = list ? json_object_array_length(list) : 0;

	for (i = 0; i < n; i++)
		if (member_bool(json_object_array_get_idx(list, i), "add_prefix_space", false))
			return true;
	return member_bool(pre, "add_prefix_space", false);
}

static int read_model(struct convert *c, const struct vocab_options *opts)
{
	struct json_object *pre = member(c->root, "pre_tokenizer", json_type_object);
	struct json_object *normalizer = member(c->root, "normalizer", json_type_object);

	c->model = member(c->root, "model", json_type_object);
	if (!c->model)
		return convert_fail(c, "no model in it; is it a tokenizer.json?");
	if (strcmp(member_string(c->model, "type"), "BPE") || member_bool(c->model, "byte_fallback", false))
		return convert_fail(c, "model.type '%s'%s: only byte-level BPE is supported",
				    member_string(c->model, "type"),
				    member_bool(c->model, "byte_fallback", false) ? " with byte_fallback" : "");
	/* NFC is left out, as everywhere in GGUF: ids would then no longer give the text back. */
	if (normalizer && strcmp(member_string(normalizer, "type"), "NFC"))
		return convert_fail(c, "normalizer '%s' is not supported", member_string(normalizer, "type"));
	if (adds_prefix_space(pre))
		return convert_fail(c, "pre_tokenizer has add_prefix_space, which a GGUF vocabulary cannot say");
	c->merges = member(c->model, "merges", json_type_array);
	if (!c->merges)
		return convert_fail(c, "model.merges is missing or not an array");
	c->pre = opts->pre ? opts->pre : recognise_pre(pre);
	if (!c->pre)
		return convert_fail(
			c, "the pre_tokenizer is not known; name it with --pre (gpt-2, llama-bpe, qwen2 or smollm)");
	return 0;
}

static int write_merges(struct convert *c, struct gguf_writer *w)
{
	size_t i, n = json_object_array_length(c->merges);

	gguf_writer_array(w, "tokenizer.ggml.merges", GGUF_KV_STRING, n);
	for (i = 0; i < n; i++) {
		struct json_object *merge = json_object_array_get_idx(c->merges, i);
		struct json_object *left, *right;
		char *joined;
		int bytes;

		if (json_object_is_type(merge, json_type_string)) {
			gguf_writer_string_element(w, json_object_get_string(merge), json_object_get_string_len(merge));
			continue;
		}
		left = json_object_is_type(merge, json_type_array) ? json_object_array_get_idx(merge, 0) : NULL;
		right = left ? json_object_array_get_idx(merge, 1) : NULL;
		if (!json_object_is_type(left, json_type_string) || !json_object_is_type(right, json_type_string))
			return convert_fail(c, "model.merges[%zu] is neither a string nor a pair of them", i);
		bytes = asprintf(&joined, "%s %s", json_object_get_string(left), json_object_get_string(right));
		if (bytes < 0)
			return convert_fail(c, "no memory for %zu merges", n);
		gguf_writer_string_element(w, joined, bytes);
		free(joined);
	}
	return 0;
}

static void write_tokens(struct convert *c, struct gguf_writer *w)
{
	char hole[32];
	size_t i;

	gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_KV_STRING, c->n);
	for (i = 0; i < c->n; i++) {
		const struct vocab_entry *e = &c->entries[i];

		/* Ids between others that nothing uses. */
		snprintf(hole, sizeof(hole), "[PAD%zu]", i);
		if (e->text)
			gguf_writer_string_element(w, e->text, e->bytes);
		else
			gguf_writer_string_element(w, hole, strlen(hole));
	}
	gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_KV_I32, c->n);
	for (i = 0; i < c->n; i++)
		gguf_writer_i32_element(w, c->entries[i].text ? c->entries[i].type : TYPE_UNUSED);
}

static int write_id(struct convert *c, struct gguf_writer *w, const char *key, const char *token)
{
	size_t i;

	for (i = 0; i < c->n; i++) {
		if (c->entries[i].text && !strcmp(c->entries[i].text, token)) {
			gguf_writer_u32(w, key, i);
			return 0;
		}
	}
	return convert_fail(c, "there is no token '%s'", token);
}

static int write_vocab(struct convert *c, const char *gguf, const struct vocab_options *opts)
{
	struct gguf_writer *w = gguf_writer_create();
	int ret;

	gguf_writer_string(w, "general.architecture", "llama", 5);
	gguf_writer_u32(w, "llama.vocab_size", c->n);
	gguf_writer_string(w, "tokenizer.ggml.model", "gpt2", 4);
	gguf_writer_string(w, "tokenizer.ggml.pre", c->pre, strlen(c->pre));
	write_tokens(c, w);
	ret = write_merges(c, w);
	if (!ret && opts->bos)
		ret = write_id(c, w, "tokenizer.ggml.bos_token_id", opts->bos);
	if (!ret && opts->eos)
		ret = write_id(c, w, "tokenizer.ggml.eos_token_id", opts->eos);
	gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", opts->bos);
	if (!ret && gguf_writer_save(w, gguf, c->err, c->err_bytes))
		ret = -1;
	gguf_writer_free(w);
	return ret;
}

int vocab_convert(const char *json, const char *gguf, const struct vocab_options *opts, char *err, size_t err_bytes)
{
	struct convert c = { .path = json, .err = err, .err_bytes = err_bytes };
	int ret;

	c.root = json_object_from_file(json);
	if (!c.root) {
		const char *why = json_util_get_last_err();

		snprintf(err, err_bytes, "%s: not readable as JSON: %.*s", json, (int)strcspn(why, "\n"), why);
		return -1;
	}
	ret = read_model(&c, opts);
	if (!ret)
		ret = read_vocab(&c);
	if (!ret)
		ret = write_vocab(&c, gguf, opts);
	free(c.entries);
	json_object_put(c.root);
	return ret;
}
