// SPDX-License-Identifier: MIT
/*
 * Converts a Hugging Face tokenizer.json (byte-level BPE) to the metadata of a GGUF file.
 *
 * The pre-tokenizer is recognised by its fields and its pattern's text. An unknown one is an error,
 * because a wrong one would give ids that are nearly right.
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

#include "llm_vocab.h"

#define MAX_TOKENS (1u << 24)

#define LLAMA3(digits)                                                       \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
	"| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Patterns of "Split" pre-tokenizers. */
static const struct {
	const char *pattern, *pre;
} known_patterns[] = {
	{ LLAMA3("\\p{N}{1,3}"), "llama-bpe" },
	{ LLAMA3("\\p{N}"), "qwen2" },
	{ "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
	  "gpt-2" },
};

struct convert {
	const char *path;
	struct json_object *root, *model, *merges;
	struct llm_vocab_token *tokens; /* by id; text NULL: unused */
	size_t n, max;
	const char *pre;
	char *err;
	size_t err_bytes;
};

__attribute__((format(printf, 2, 3))) static int convert_fail(struct convert *c, const char *fmt,
							      ...)
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

	if (!json_object_is_type(object, json_type_object) ||
	    !json_object_object_get_ex(object, key, &value) || !json_object_is_type(value, type))
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

static int set_token(struct convert *c, int64_t id, const char *text, size_t bytes,
		     enum llm_vocab_type type)
{
	if (id < 0 || id >= MAX_TOKENS)
		return convert_fail(c, "token '%s' has id %lld, not 0..%u", text, (long long)id,
				    MAX_TOKENS - 1);
	if ((size_t)id >= c->max) {
		size_t max = 2 * (size_t)id + 1024;
		struct llm_vocab_token *tokens = realloc(c->tokens, max * sizeof(*tokens));

		if (!tokens)
			return convert_fail(c, "no memory for %zu tokens", max);
		memset(tokens + c->max, 0, (max - c->max) * sizeof(*tokens));
		c->tokens = tokens;
		c->max = max;
	}
	if ((size_t)id >= c->n)
		c->n = id + 1;
	c->tokens[id] = (struct llm_vocab_token){ text, bytes, type };
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
		int64_t id = json_object_is_type(id_value, json_type_int)
				     ? json_object_get_int64(id_value)
				     : -1;

		if (id >= 0 && (size_t)id < c->max && c->tokens[id].text)
			return convert_fail(c, "id %lld is both '%s' and '%s'", (long long)id,
					    c->tokens[id].text, text);
		if (set_token(c, id, text, strlen(text), LLM_VOCAB_NORMAL))
			return -1;
	}
	for (i = 0; i < n; i++) {
		struct json_object *token = json_object_array_get_idx(added, i);
		struct json_object *id = member(token, "id", json_type_int);
		struct json_object *content = member(token, "content", json_type_string);

		if (!id || !content)
			return convert_fail(c, "added_tokens[%zu] lacks id or content", i);
		if (set_token(c, json_object_get_int64(id), json_object_get_string(content),
			      json_object_get_string_len(content),
			      member_bool(token, "special", false) ? LLM_VOCAB_CONTROL
								   : LLM_VOCAB_USER))
			return -1;
	}
	return c->n ? 0 : convert_fail(c, "the vocabulary is empty");
}

/* "gpt-2" for a plain ByteLevel, "smollm" for Digits and ByteLevel, by the pattern for a
 * Split; NULL if unknown. */
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
		return member_bool(first, "individual_digits", false) &&
				       member_bool(byte_level, "use_regex", true)
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

/* The name of a pre-tokenizer says whether the text becomes NFC first. No name of Llama 3's does:
 * it then goes without. */
static const char *normalised_pre(const char *pre, struct json_object *nfc)
{
	if (pre && nfc && !strcmp(pre, "gpt-2"))
		return "olmo";
	return pre && !nfc && !strcmp(pre, "qwen2") ? "deepseek-r1-qwen" : pre;
}

/* Whether ByteLevel puts a space in front of every text, which GGUF's byte-level BPE cannot do. */
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
	if (strcmp(member_string(c->model, "type"), "BPE") ||
	    member_bool(c->model, "byte_fallback", false))
		return convert_fail(
			c, "model.type '%s'%s: only byte-level BPE is supported",
			member_string(c->model, "type"),
			member_bool(c->model, "byte_fallback", false) ? " with byte_fallback" : "");
	if (normalizer && strcmp(member_string(normalizer, "type"), "NFC"))
		return convert_fail(c, "normalizer '%s' is not supported",
				    member_string(normalizer, "type"));
	if (adds_prefix_space(pre))
		return convert_fail(
			c, "pre_tokenizer has add_prefix_space, which a GGUF vocabulary cannot "
			   "express");
	c->merges = member(c->model, "merges", json_type_array);
	if (!c->merges)
		return convert_fail(c, "model.merges is missing or not an array");
	c->pre = opts->pre ? opts->pre : normalised_pre(recognise_pre(pre), normalizer);
	if (!c->pre)
		return convert_fail(
			c, "unknown pre_tokenizer; name it with --pre (--list prints the names)");
	return 0;
}

/* A string without NUL; NULL if it is none. */
static const char *plain_string(struct json_object *value)
{
	const char *text =
		json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;

	return text && strlen(text) == (size_t)json_object_get_string_len(value) ? text : NULL;
}

/* A merge in GGUF's form; NULL with the error line. */
static char *read_merge(struct convert *c, size_t i)
{
	struct json_object *merge = json_object_array_get_idx(c->merges, i);
	bool pair =
		json_object_is_type(merge, json_type_array) && json_object_array_length(merge) == 2;
	const char *left = plain_string(pair ? json_object_array_get_idx(merge, 0) : merge),
		   *right = pair ? plain_string(json_object_array_get_idx(merge, 1)) : "";
	char *text;

	if (!left || !right) {
		convert_fail(c, "model.merges[%zu] is neither a string nor a pair of them", i);
		return NULL;
	}
	if (pair && (strchr(left, ' ') || strchr(right, ' '))) {
		convert_fail(c, "model.merges[%zu] has a space in a token", i);
		return NULL;
	}
	if (asprintf(&text, "%s%s%s", left, pair ? " " : "", right) < 0) {
		convert_fail(c, "no memory for merge %zu", i);
		return NULL;
	}
	return text;
}

/* Finds a token's id, -1 for NULL. A token that does not exist is an error. */
static int find_token(struct convert *c, const char *text, int32_t *id)
{
	*id = -1;
	for (size_t i = 0; text && i < c->n; i++) {
		if (c->tokens[i].text && !strcmp(c->tokens[i].text, text)) {
			*id = (int32_t)i;
			return 0;
		}
	}
	return text ? convert_fail(c, "there is no token '%s'", text) : 0;
}

static int write_vocab(struct convert *c, const char *gguf, const struct vocab_options *opts)
{
	size_t n = json_object_array_length(c->merges), done = 0;
	char **merges = calloc(n + 1, sizeof(*merges));
	struct llm_vocab_bpe bpe = {
		.pre = c->pre,
		.tokens = c->tokens,
		.n_tokens = c->n,
		.merges = (const char *const *)merges,
		.n_merges = n,
	};
	int ret = merges ? 0 : convert_fail(c, "no memory for %zu merges", n);

	for (; !ret && done < n; done++) {
		merges[done] = read_merge(c, done);
		if (!merges[done])
			ret = -1;
	}
	if (!ret)
		ret = find_token(c, opts->bos, &bpe.bos);
	if (!ret)
		ret = find_token(c, opts->eos, &bpe.eos);
	if (!ret && llm_vocab_save(&bpe, gguf)) {
		snprintf(c->err, c->err_bytes, "%s", llm_error());
		ret = -1;
	}
	for (size_t i = 0; i < done; i++)
		free(merges[i]);
	free(merges);
	return ret;
}

int vocab_convert(const char *json, const char *gguf, const struct vocab_options *opts, char *err,
		  size_t err_bytes)
{
	struct convert c = { .path = json, .err = err, .err_bytes = err_bytes };
	int ret;

	c.root = json_object_from_file(json);
	if (!c.root) {
		const char *why = json_util_get_last_err();

		snprintf(err, err_bytes, "%s: not readable as JSON: %.*s", json,
			 (int)strcspn(why, "\n"), why);
		return -1;
	}
	ret = read_model(&c, opts);
	if (!ret)
		ret = read_vocab(&c);
	if (!ret)
		ret = write_vocab(&c, gguf, opts);
	free(c.tokens);
	json_object_put(c.root);
	return ret;
}
