/* SPDX-License-Identifier: MIT */
/* Tokenizers for tests: vocabularies made in memory, and checks that every text must pass. */
#ifndef TOKENIZER_FIXTURE_H
#define TOKENIZER_FIXTURE_H

#include "gguf_image.h"
#include "gguf_writer.h"
#include "tokenizer.h"

#define MODEL "share/models/docs6m/docs6m-q8_0.gguf"

struct fixture {
	struct gguf_file *file;
	struct tokenizer *tok;
};

static inline struct fixture fixture_open(const char *path)
{
	struct fixture f;
	char err[256];

	if (gguf_open(path, &f.file, err, sizeof(err)) ||
	    tokenizer_create(f.file, &f.tok, err, sizeof(err)))
		fail_msg("%s (the tests run in the root of the source tree)", err);
	return f;
}

static inline void fixture_close(struct fixture *f)
{
	tokenizer_free(f->tok);
	gguf_close(f->file);
}

/* A vocabulary that is being made. */
struct vocab {
	struct vocab_token {
		char text[32];
		int type;
		float score;
	} tokens[2048];
	size_t n;
	char merges[2048][64];
	size_t n_merges;
};

static inline int vocab_add(struct vocab *v, const char *text, int type, float score)
{
	snprintf(v->tokens[v->n].text, sizeof(v->tokens[0].text), "%s", text);
	v->tokens[v->n].type = type;
	v->tokens[v->n].score = score;
	return v->n++;
}

static inline int vocab_index(const struct vocab *v, const char *text)
{
	size_t i;

	for (i = 0; i < v->n; i++)
		if (!strcmp(v->tokens[i].text, text))
			return i;
	return -1;
}

/* "<unk>", "<s>", "</s>" and the 256 bytes, as in Llama's vocabularies. */
static inline void vocab_begin_spm(struct vocab *v)
{
	char name[8];
	int i;

	v->n = v->n_merges = 0;
	vocab_add(v, "<unk>", 2, 0);
	vocab_add(v, "<s>", 3, 0);
	vocab_add(v, "</s>", 3, 0);
	for (i = 0; i < 256; i++) {
		snprintf(name, sizeof(name), "<0x%02X>", i);
		vocab_add(v, name, 6, 0);
	}
}

/* The printable character of byte-level BPE for a byte. */
static inline const char *printed_byte(unsigned int byte)
{
	static char text[4];
	unsigned int c = byte, before;

	if (!((byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad))) {
		for (c = 0x100, before = 0; before < byte; before++)
			c += !((before > 0x20 && before < 0x7f) ||
			       (before > 0xa0 && before != 0xad));
	}
	if (c < 0x80)
		snprintf(text, sizeof(text), "%c", c);
	else
		snprintf(text, sizeof(text), "%c%c", 0xc0 | c >> 6, 0x80 | (c & 63));
	return text;
}

static inline void vocab_begin_bpe(struct vocab *v)
{
	int i;

	v->n = v->n_merges = 0;
	for (i = 0; i < 256; i++)
		vocab_add(v, printed_byte(i), 1, 0);
}

static inline struct gguf_writer *vocab_write(const struct vocab *v, const char *model,
					      const char *pre)
{
	struct gguf_writer *w = gguf_writer_create();
	size_t i;

	gguf_writer_string(w, "tokenizer.ggml.model", model, strlen(model));
	if (pre)
		gguf_writer_string(w, "tokenizer.ggml.pre", pre, strlen(pre));
	gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_KV_STRING, v->n);
	for (i = 0; i < v->n; i++)
		gguf_writer_string_element(w, v->tokens[i].text, strlen(v->tokens[i].text));
	gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_KV_I32, v->n);
	for (i = 0; i < v->n; i++)
		gguf_writer_i32_element(w, v->tokens[i].type);
	if (strcmp(model, "gpt2")) {
		gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_KV_F32, v->n);
		for (i = 0; i < v->n; i++)
			gguf_writer_f32_element(w, v->tokens[i].score);
		gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 1);
		gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 2);
		gguf_writer_u32(w, "tokenizer.ggml.unknown_token_id", 0);
	} else {
		gguf_writer_array(w, "tokenizer.ggml.merges", GGUF_KV_STRING, v->n_merges);
		for (i = 0; i < v->n_merges; i++)
			gguf_writer_string_element(w, v->merges[i], strlen(v->merges[i]));
	}
	return w;
}

/* Creates a tokenizer from the written file, and frees the writer. 0, or -errno with a line. */
static inline int vocab_open(struct gguf_writer *w, struct fixture *f, char *err, size_t err_bytes)
{
	const void *data;
	size_t bytes;
	int ret;

	f->tok = NULL;
	f->file = NULL;
	if (gguf_writer_data(w, &data, &bytes))
		fail_msg("the vocabulary could not be written");
	ret = image_open(data, bytes, &f->file, err, err_bytes);
	gguf_writer_free(w);
	if (!ret)
		ret = tokenizer_create(f->file, &f->tok, err, err_bytes);
	return ret;
}

static inline struct fixture fixture_make(const struct vocab *v, const char *model, const char *pre)
{
	struct fixture f;
	char err[256];

	if (vocab_open(vocab_write(v, model, pre), &f, err, sizeof(err)))
		fail_msg("%s", err);
	return f;
}

/* Encodes into an array that the caller must free. */
static inline int32_t *encode(const struct tokenizer *tok, const void *text, size_t bytes,
			      unsigned int flags, long *n)
{
	/* Form C takes up to three times the bytes. */
	size_t max = 3 * bytes + 2;
	int32_t *ids = malloc(max * sizeof(*ids));

	assert_non_null(ids);
	*n = tokenizer_encode(tok, text, bytes, flags, ids, max);
	assert_in_range(*n, 0, max);
	return ids;
}

/* Decoding the ids of the text must give the text. */
static inline void assert_lossless(const struct tokenizer *tok, const void *text, size_t bytes)
{
	char *back = malloc(bytes + 1);
	int32_t *ids;
	long n;

	ids = encode(tok, text, bytes, TOKENIZE_BOS, &n);
	assert_non_null(back);
	assert_int_equal(tokenizer_decode(tok, ids, n, back, bytes + 1), bytes);
	if (memcmp(back, text, bytes))
		fail_msg("a text of %zu bytes did not come back", bytes);
	free(back);
	free(ids);
}

/* FNV-1a over the ids as little-endian 32-bit integers. */
static inline uint64_t hash_ids(const int32_t *ids, long n)
{
	uint64_t h = 0xcbf29ce484222325u;
	long i;
	int shift;

	for (i = 0; i < n; i++)
		for (shift = 0; shift < 32; shift += 8)
			h = (h ^ (ids[i] >> shift & 255)) * 0x100000001b3u;
	return h;
}

/* Random bytes, and random sequences of valid and broken UTF-8. */
static inline size_t random_bytes(uint8_t *text, size_t max, uint64_t *seed)
{
	static const char *const chunks[] = {
		"a",	      "the ",	" ",	    "\n",	    "\t",
		"12",	      "'s",	"\u00e9",   "\u65e5",	    "\xf0",
		"\xe2\x96",   "\x81",	"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
		"\U0001f600", "\u2581", "\xff",	    "\u0301",	    "<s>"
	};
	size_t n = 0, want = random_u64(seed) % (max - 8);
	bool all_random = random_u64(seed) % 2;

	while (n < want) {
		const char *c = chunks[random_u64(seed) % (sizeof(chunks) / sizeof(chunks[0]))];

		if (all_random || random_u64(seed) % 16 == 0) {
			text[n++] = random_u64(seed) >> 56;
		} else {
			memcpy(text + n, c, strlen(c));
			n += strlen(c);
		}
	}
	return n;
}

static inline void *read_file(const char *path, size_t *bytes)
{
	FILE *f = fopen(path, "rb");
	char *data;

	if (!f)
		fail_msg("%s cannot be read (the tests run in the root of the source tree)", path);
	fseek(f, 0, SEEK_END);
	*bytes = ftell(f);
	rewind(f);
	data = malloc(*bytes + 1);
	if (!data || fread(data, 1, *bytes, f) != *bytes)
		fail_msg("%s cannot be read", path);
	data[*bytes] = 0;
	fclose(f);
	return data;
}

static inline uint64_t test_seed(void)
{
	const char *given = getenv("TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : 0x70ce4;

	print_message("TEST_SEED=0x%llx\n", (unsigned long long)seed);
	return seed ? seed : 1;
}

#endif /* TOKENIZER_FIXTURE_H */
