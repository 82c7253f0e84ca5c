// SPDX-License-Identifier: MIT
/*
 * The tokenizer's interface, and the code for both models.
 *
 * Encoding splits the text at special tokens and passes the stretches between them to the model.
 * SPM's dummy space comes before each stretch; decoding removes it there, so the text comes back
 * unchanged.
 */
#include "tokenizer_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

int tokenizer_fail(struct tokenizer_error *e, int ret, const char *fmt, ...)
{
	va_list ap;

	if (e->line && e->bytes) {
		va_start(ap, fmt);
		vsnprintf(e->line, e->bytes, fmt, ap);
		va_end(ap);
	}
	return ret;
}

/* Reads a token's id from the metadata; @missing if there is no such key. */
static int load_id(const struct tokenizer *tok, const struct gguf_file *file, const char *key,
		   int32_t missing, int32_t *id, struct tokenizer_error *e)
{
	uint64_t v;
	int ret = gguf_u64(file, key, &v);

	*id = missing;
	if (ret == -ENOENT)
		return 0;
	if (ret)
		return tokenizer_fail(e, -EINVAL, "%s is not an unsigned integer", key);
	if (v >= tok->n_tokens)
		return tokenizer_fail(e, -EINVAL, "%s is %llu, but the vocabulary has %u tokens",
				      key, (unsigned long long)v, tok->n_tokens);
	*id = v;
	return 0;
}

static int load_flag(const struct gguf_file *file, const char *key, bool *flag, bool missing,
		     struct tokenizer_error *e)
{
	int ret = gguf_bool(file, key, flag);

	if (ret == -ENOENT)
		*flag = missing;
	else if (ret)
		return tokenizer_fail(e, -EINVAL, "%s is not a bool", key);
	return 0;
}

static int load_special_ids(struct tokenizer *tok, const struct gguf_file *file,
			    struct tokenizer_error *e)
{
	static const char *const end_keys[] = {
		"tokenizer.ggml.eos_token_id",	   "tokenizer.ggml.eot_token_id",
		"tokenizer.ggml.eom_token_id",	   "tokenizer.ggml.fim_pad_token_id",
		"tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id"
	};
	/* SentencePiece's ids are the same in most vocabularies, and old files do not name them. */
	bool spm = tok->model == TOKENIZER_SPM && tok->n_tokens > 2;
	int32_t id;
	size_t i;
	int ret;

	ends_mark(tok);
	ret = load_id(tok, file, "tokenizer.ggml.bos_token_id", spm ? 1 : -1, &tok->bos, e);
	if (!ret)
		ret = load_id(tok, file, "tokenizer.ggml.eos_token_id", spm ? 2 : -1, &tok->eos, e);
	if (!ret)
		ret = load_id(tok, file, "tokenizer.ggml.unknown_token_id", spm ? 0 : -1,
			      &tok->unknown, e);
	for (i = 0; !ret && i < sizeof(end_keys) / sizeof(end_keys[0]); i++) {
		ret = load_id(tok, file, end_keys[i], i ? -1 : tok->eos, &id, e);
		if (!ret && id >= 0)
			tok->tokens[id].end = true;
	}
	return ret;
}

static int load_model(struct tokenizer *tok, const struct gguf_file *file,
		      struct tokenizer_error *e)
{
	const char *s;
	size_t bytes;
	int ret = gguf_string(file, "tokenizer.ggml.model", &s, &bytes);

	if (ret)
		return tokenizer_fail(
			e, -EINVAL,
			"tokenizer.ggml.model is missing or not a string: the file has no "
			"vocabulary");
	if (bytes == 5 && !memcmp(s, "llama", 5))
		tok->model = TOKENIZER_SPM;
	else if (bytes == 4 && !memcmp(s, "gpt2", 4))
		tok->model = TOKENIZER_BPE;
	else
		return tokenizer_fail(
			e, -ENOTSUP,
			"tokenizer.ggml.model '%.*s' is not supported: 'llama' (SentencePiece's "
			"BPE) and 'gpt2' (byte-level BPE) are",
			bytes > 64 ? 64 : (int)bytes, s);
	return 0;
}

/*
 * Phi-3's chat format has a newline after each control token, which is not part of the text. The
 * file does not say so.
 */
static bool strips_after_control(const struct tokenizer *tok, const struct gguf_file *file)
{
	const char *arch;
	size_t bytes;

	return tok->model == TOKENIZER_SPM &&
	       !gguf_string(file, "general.architecture", &arch, &bytes) && bytes == 4 &&
	       !memcmp(arch, "phi3", 4);
}

int tokenizer_create(const struct gguf_file *file, struct tokenizer **out, char *err,
		     size_t err_bytes)
{
	struct tokenizer_error e = { err, err_bytes };
	const void *random = (const void *)getauxval(AT_RANDOM);
	struct tokenizer *tok;
	int ret;

	*out = NULL;
	tok = calloc(1, sizeof(*tok));
	if (!tok)
		return tokenizer_fail(&e, -ENOMEM, "no memory for a vocabulary");
	if (random)
		memcpy(&tok->seed, random, sizeof(tok->seed));
	ret = load_model(tok, file, &e);
	if (!ret)
		ret = vocab_load(tok, file, &e);
	if (!ret)
		ret = special_load(tok, &e);
	if (!ret)
		ret = load_special_ids(tok, file, &e);
	if (!ret)
		ret = tok->model == TOKENIZER_SPM ? spm_load(tok, &e) : bpe_load(tok, file, &e);
	if (!ret)
		tok->strips = strips_after_control(tok, file);
	/*
	 * Defaults if these keys are missing: SPM vocabularies, such as Llama 2's, want both, and
	 * Llama 3's pre-tokenizer wants BOS.
	 */
	if (!ret)
		ret = load_flag(file, "tokenizer.ggml.add_bos_token", &tok->adds_bos,
				tok->adds_bos || tok->model == TOKENIZER_SPM, &e);
	if (!ret)
		ret = load_flag(file, "tokenizer.ggml.add_space_prefix", &tok->adds_space, true,
				&e);
	tok->adds_space = tok->adds_space && tok->model == TOKENIZER_SPM;
	if (!ret && tok->bos < 0)
		tok->adds_bos = false;
	if (ret)
		tokenizer_free(tok);
	else
		*out = tok;
	return ret;
}

void tokenizer_free(struct tokenizer *tok)
{
	if (!tok)
		return;
	bpe_free(tok->bpe);
	free(tok->tokens);
	free(tok->bytes);
	free(tok->slots);
	free(tok->special);
	free(tok);
}

size_t tokenizer_n_vocab(const struct tokenizer *tok)
{
	return tok->n_tokens;
}

int tokenizer_bos(const struct tokenizer *tok)
{
	return tok->bos;
}

int tokenizer_eos(const struct tokenizer *tok)
{
	return tok->eos;
}

bool tokenizer_adds_bos(const struct tokenizer *tok)
{
	return tok->adds_bos;
}

const char *tokenizer_warning(const struct tokenizer *tok)
{
	return tok->warning;
}

bool tokenizer_is_end(const struct tokenizer *tok, int32_t id)
{
	return id >= 0 && (uint32_t)id < tok->n_tokens && tok->tokens[id].end;
}

static int encode_stretch(const struct tokenizer *tok, const uint8_t *text, size_t bytes,
			  bool space, struct id_list *out)
{
	if (!bytes && !space)
		return 0;
	return tok->model == TOKENIZER_SPM ? spm_encode(tok, text, bytes, space, out)
					   : bpe_encode(tok, text, bytes, out);
}

static bool is_control(const struct tokenizer *tok, int32_t id)
{
	return tok->tokens[id].type == TOKEN_CONTROL || tok->tokens[id].type == TOKEN_UNKNOWN;
}

/* White space behind a control token that belongs to the chat format. */
static size_t stripped(const struct tokenizer *tok, int32_t id, const uint8_t *text, size_t bytes)
{
	static const char *const keep[] = { "<s>", "<|endoftext|>" };
	const struct token *t = &tok->tokens[id];
	size_t n = 0;

	if (!tok->strips || t->type != TOKEN_CONTROL)
		return 0;
	for (size_t i = 0; i < 2; i++)
		if (strlen(keep[i]) == t->bytes && !memcmp(token_text(tok, id), keep[i], t->bytes))
			return 0;
	while (n < bytes && (text[n] == ' ' || (text[n] >= '\t' && text[n] <= '\r')))
		n++;
	return n;
}

/* How many bytes from @pos on are in the same range; *@r becomes the first one that ends behind
 * @pos. */
static size_t control_bytes(const struct tokenizer_range **r, const struct tokenizer_range *end,
			    size_t pos)
{
	while (*r < end && (*r)->end <= pos)
		++*r;
	return *r < end && (*r)->begin <= pos ? (*r)->end - pos : 0;
}

long tokenizer_encode_ranges(const struct tokenizer *tok, const char *text, size_t bytes,
			     unsigned int flags, const struct tokenizer_range *ranges,
			     size_t nr_ranges, int32_t *ids, size_t max)
{
	struct id_list out = { ids, max, 0 };
	const struct tokenizer_range *range = ranges;
	const uint8_t *s = (const uint8_t *)text;
	size_t start = 0, pos = 0;
	bool space = tok->adds_space && !(flags & TOKENIZE_CONTINUES);
	int ret;

	if (bytes > INT32_MAX)
		return -EFBIG;
	if ((flags & TOKENIZE_BOS) && tok->adds_bos)
		id_list_push(&out, tok->bos);
	while (pos < bytes) {
		size_t control = control_bytes(&range, ranges + nr_ranges, pos);
		int32_t id = -1;

		if (tok->special_first[s[pos]])
			id = special_match(tok, s + pos, bytes - pos, control);
		if (id < 0) {
			pos++;
			continue;
		}
		/* An empty stretch gets no dummy space. */
		ret = encode_stretch(tok, s + start, pos - start, space && pos > start, &out);
		if (ret)
			return ret;
		id_list_push(&out, id);
		space = tok->adds_space;
		pos += tok->tokens[id].bytes;
		pos += stripped(tok, id, s + pos, bytes - pos);
		start = pos;
	}
	if (pos > start) {
		ret = encode_stretch(tok, s + start, pos - start, space, &out);
		if (ret)
			return ret;
	}
	return out.n;
}

long tokenizer_encode(const struct tokenizer *tok, const char *text, size_t bytes,
		      unsigned int flags, int32_t *ids, size_t max)
{
	const struct tokenizer_range whole = { 0, bytes };

	return tokenizer_encode_ranges(tok, text, bytes, flags, &whole,
				       flags & TOKENIZE_SPECIAL ? 1 : 0, ids, max);
}

const char *tokenizer_spelling(const struct tokenizer *tok, int32_t id, size_t *bytes)
{
	if (id < 0 || (uint32_t)id >= tok->n_tokens)
		return NULL;
	*bytes = tok->tokens[id].bytes;
	return (const char *)token_text(tok, id);
}

/* Control tokens have no text. */
static size_t visible_bytes(const struct tokenizer *tok, int32_t id)
{
	return is_control(tok, id) ? 0 : tok->tokens[id].bytes;
}

int tokenizer_token_text(const struct tokenizer *tok, int32_t id, char *buf, size_t max)
{
	size_t n;

	if (id < 0 || (uint32_t)id >= tok->n_tokens)
		return -EINVAL;
	n = visible_bytes(tok, id);
	if (max)
		memcpy(buf, token_text(tok, id), n < max ? n : max);
	return n;
}

long tokenizer_decode(const struct tokenizer *tok, const int32_t *ids, size_t n, char *buf,
		      size_t max)
{
	bool space = tok->adds_space; /* the next space is the dummy */
	size_t i, bytes, used = 0;

	for (i = 0; i < n; i++) {
		const uint8_t *text;
		bool user;

		if (ids[i] < 0 || (uint32_t)ids[i] >= tok->n_tokens)
			return -EINVAL;
		if (is_control(tok, ids[i])) {
			space = tok->adds_space;
			continue;
		}
		text = token_text(tok, ids[i]);
		bytes = tok->tokens[ids[i]].bytes;
		user = tok->tokens[ids[i]].type == TOKEN_USER;
		if (space && !user && bytes && *text == ' ') {
			text++;
			bytes--;
		}
		space = user && tok->adds_space;
		if (used < max)
			memcpy(buf + used, text, bytes < max - used ? bytes : max - used);
		used += bytes;
	}
	return used;
}
