// SPDX-License-Identifier: MIT
/*
 * Tokenizers with vocabularies made by the tests: merging compared with a naive implementation,
 * long words, special tokens, invalid UTF-8, and inconsistent vocabularies.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tokenizer_fixture.h"
#include "tokenizer_heap.h"

static struct vocab vocab;

/* The scores are sorted from the first to merge to the last. */
static void greater_scores_merge_first(void **state)
{
	static const float scores[] = { INFINITY, 1e30f, 2,  1,	     1e-45f,	0,
					-1e-45f,  -1,	 -2, -1e30f, -INFINITY, NAN };
	size_t i;

	for (i = 1; i < sizeof(scores) / sizeof(scores[0]); i++)
		assert_true(merge_order(scores[i - 1]) < merge_order(scores[i]));
	assert_int_equal(merge_order(-0.0f), merge_order(0.0f));
	assert_int_equal(merge_order(-NAN), merge_order(NAN));
}

/* ---- merging --------------------------------------------------------------------------------- */

/* A text divided into parts, which are merged with their neighbours. */
struct parts {
	char text[600];
	size_t start[601]; /* start[n]: the end */
	size_t n;
};

static void parts_join(struct parts *p, size_t i)
{
	memmove(&p->start[i + 1], &p->start[i + 2], (p->n - i - 1) * sizeof(p->start[0]));
	p->n--;
}

static const char *parts_text(const struct parts *p, size_t i, size_t count)
{
	static char text[601];
	size_t bytes = p->start[i + count] - p->start[i];

	memcpy(text, p->text + p->start[i], bytes);
	text[bytes] = 0;
	return text;
}

static void random_text(struct parts *p, const char *const *chars, size_t n_chars, size_t max,
			uint64_t *seed)
{
	size_t n = random_u64(seed) % max;

	p->n = 0;
	p->text[0] = 0;
	p->start[0] = 0;
	while (p->n < n) {
		strcat(p->text, chars[random_u64(seed) % n_chars]);
		p->start[++p->n] = strlen(p->text);
	}
}

static void assert_same_ids(const struct parts *p, const int32_t *got, long n, const int32_t *want,
			    long n_want, const char *text)
{
	if (n != n_want || memcmp(got, want, n * sizeof(*got)))
		fail_msg("'%s' gives %ld ids, not %ld, or others", text, n, n_want);
}

/* Ids of the parts; unknown parts become byte tokens, whose ids begin at @bytes. */
static long parts_ids(const struct parts *p, int bytes, int32_t *ids)
{
	long n = 0;
	size_t i, j;

	for (i = 0; i < p->n; i++) {
		const char *text = parts_text(p, i, 1);
		int id = vocab_index(&vocab, text);

		for (j = 0; id < 0 && text[j]; j++)
			ids[n++] = bytes + (uint8_t)text[j];
		if (id >= 0)
			ids[n++] = id;
	}
	return n;
}

/* Makes random pieces of a few characters, many with equal scores. */
static void random_spm_vocab(bool inner_spaces, uint64_t *seed)
{
	static const char *const chars[] = { "a", "b", "c", "\u2581", "\u00e9", "\u4e2d" };
	int i;

	vocab_begin_spm(&vocab);
	for (i = 0; i < 5; i++)
		vocab_add(&vocab, chars[i], 1, -100);
	while (vocab.n < 400) {
		char text[32] = "";
		size_t n = 2 + random_u64(seed) % 4, j;

		for (j = 0; j < n; j++) {
			const char *c = chars[random_u64(seed) % 6];

			if (inner_spaces || j == 0 || strcmp(c, "\u2581"))
				strcat(text, c);
		}
		if (vocab_index(&vocab, text) < 0)
			vocab_add(&vocab, text, 1, -(float)(random_u64(seed) % 40));
	}
}

static long naive_spm(struct parts *p, int32_t *ids)
{
	for (;;) {
		size_t i, best = 0;
		float best_score = -INFINITY;

		for (i = 0; i + 1 < p->n; i++) {
			int id = vocab_index(&vocab, parts_text(p, i, 2));

			if (id >= 0 && vocab.tokens[id].type == 1 &&
			    vocab.tokens[id].score > best_score) {
				best_score = vocab.tokens[id].score;
				best = i;
			}
		}
		if (best_score == -INFINITY)
			return parts_ids(p, 3, ids);
		parts_join(p, best);
	}
}

/* With pieces that cross words the whole text is merged at once, otherwise word by word. */
static void spm_merges_as_a_naive_implementation(void **state)
{
	static const char *const plain[] = { "a", "b", "c", " ", "\u00e9", "\u4e2d", "x" };
	uint64_t seed = test_seed();
	int round, text_round;

	for (round = 0; round < 12; round++) {
		struct fixture f;

		random_spm_vocab(round % 2, &seed);
		f = fixture_make(&vocab, "llama", NULL);
		for (text_round = 0; text_round < 60; text_round++) {
			static int32_t want[700];
			struct parts p, pieces = { 0 };
			int32_t *got;
			size_t i;
			long n, n_want;

			random_text(&p, plain, 7, text_round % 10 ? 20 : 190, &seed);
			/* In the form of pieces: the dummy space in front, U+2581 for spaces. */
			pieces.n = p.n ? p.n + 1 : 0;
			strcpy(pieces.text, p.n ? "\u2581" : "");
			for (i = 0; i < p.n; i++) {
				pieces.start[i + 1] = strlen(pieces.text);
				strcat(pieces.text, *parts_text(&p, i, 1) == ' '
							    ? "\u2581"
							    : parts_text(&p, i, 1));
			}
			pieces.start[pieces.n] = strlen(pieces.text);
			got = encode(f.tok, p.text, strlen(p.text), 0, &n);
			n_want = naive_spm(&pieces, want);
			assert_same_ids(&pieces, got, n, want, n_want, p.text);
			assert_lossless(f.tok, p.text, strlen(p.text));
			free(got);
		}
		fixture_close(&f);
	}
}

/* Makes random merges, each of two earlier tokens. */
static void random_bpe_vocab(uint64_t *seed)
{
	static const char *const letters[] = { "a", "b", "c", "d" };

	vocab_begin_bpe(&vocab);
	while (vocab.n_merges < 300) {
		const char *left = letters[random_u64(seed) % 4],
			   *right = letters[random_u64(seed) % 4];
		char text[32];

		if (vocab.n > 256 && random_u64(seed) % 2)
			left = vocab.tokens[256 + random_u64(seed) % (vocab.n - 256)].text;
		if (vocab.n > 256 && random_u64(seed) % 2)
			right = vocab.tokens[256 + random_u64(seed) % (vocab.n - 256)].text;
		if (strlen(left) + strlen(right) > 12)
			continue;
		snprintf(text, sizeof(text), "%s%s", left, right);
		snprintf(vocab.merges[vocab.n_merges++], sizeof(vocab.merges[0]), "%s %s", left,
			 right);
		if (vocab_index(&vocab, text) < 0)
			vocab_add(&vocab, text, 1, 0);
	}
}

static long naive_bpe(struct parts *p, int32_t *ids)
{
	for (;;) {
		size_t best_rank = vocab.n_merges, best = 0, i, rank;

		for (i = 0; i + 1 < p->n; i++) {
			char pair[1300];
			int n = snprintf(pair, sizeof(pair), "%s ", parts_text(p, i, 1));

			snprintf(pair + n, sizeof(pair) - n, "%s", parts_text(p, i + 1, 1));
			for (rank = 0; rank < best_rank; rank++)
				if (!strcmp(vocab.merges[rank], pair))
					break;
			if (rank < best_rank) {
				best_rank = rank;
				best = i;
			}
		}
		if (best_rank == vocab.n_merges)
			return parts_ids(p, 0, ids);
		parts_join(p, best);
	}
}

/* Short words are merged by scanning, longer ones with a heap. */
static void bpe_merges_as_a_naive_implementation(void **state)
{
	static const char *const letters[] = { "a", "b", "c", "d" };
	uint64_t seed = test_seed();
	int round, text_round;

	for (round = 0; round < 6; round++) {
		struct fixture f;

		random_bpe_vocab(&seed);
		f = fixture_make(&vocab, "gpt2", "gpt-2");
		for (text_round = 0; text_round < 40; text_round++) {
			static int32_t want[700];
			struct parts p;
			int32_t *got;
			long n;

			random_text(&p, letters, 4, text_round % 4 ? 40 : 150, &seed);
			got = encode(f.tok, p.text, strlen(p.text), 0, &n);
			assert_same_ids(&p, got, n, want, naive_bpe(&p, want), p.text);
			free(got);
		}
		fixture_close(&f);
	}
}

/* Llama 3: a word that is a token is taken unchanged, even if merging could not reach it. */
static void llama_bpe_takes_whole_words(void **state)
{
	struct fixture f;
	int32_t *ids;
	long n;
	int pass;

	for (pass = 0; pass < 2; pass++) {
		vocab_begin_bpe(&vocab);
		vocab_add(&vocab, "abc", 1, 0);
		f = fixture_make(&vocab, "gpt2", pass ? "llama-bpe" : "qwen2");
		ids = encode(f.tok, "abc", 3, 0, &n);
		assert_int_equal(n, pass ? 1 : 3);
		assert_int_equal(ids[0], vocab_index(&vocab, pass ? "abc" : "a"));
		free(ids);
		fixture_close(&f);
	}
}

/* Files have merges that lead to added tokens, which are found before anything is merged. */
static void merges_to_special_tokens_are_skipped(void **state)
{
	for (int type = 3; type <= 4; type++) {
		struct fixture f;
		int32_t *ids;
		int special;
		long n;

		vocab_begin_bpe(&vocab);
		special = vocab_add(&vocab, "ab", type, 0);
		strcpy(vocab.merges[vocab.n_merges++], "a b");
		f = fixture_make(&vocab, "gpt2", "gpt-2");
		ids = encode(f.tok, "ab", 2, 0, &n);
		assert_int_equal(n, type == 3 ? 2 : 1);
		assert_int_equal(ids[0] == special, type == 4);
		free(ids);
		fixture_close(&f);
	}
}

/* Special tokens are found before anything is merged, so they are no part of a merge. */
static void merges_of_special_tokens_are_skipped(void **state)
{
	static const char *const merges[] = { "ab c", "c ab", "ab ab" };

	for (int type = 3; type <= 4; type++) {
		struct fixture f;
		int32_t *ids;
		long n;

		vocab_begin_bpe(&vocab);
		vocab_add(&vocab, "ab", type, 0);
		vocab_add(&vocab, "abc", 1, 0);
		vocab_add(&vocab, "cab", 1, 0);
		vocab_add(&vocab, "abab", 1, 0);
		for (size_t i = 0; i < 3; i++)
			strcpy(vocab.merges[vocab.n_merges++], merges[i]);
		f = fixture_make(&vocab, "gpt2", "gpt-2");
		ids = encode(f.tok, "abcab", 5, 0, &n);
		assert_int_equal(n, type == 3 ? 5 : 3);
		free(ids);
		fixture_close(&f);
	}
}

/* SentencePiece's unused pieces lead to longer ones; if they remain, they are split again. */
static void unused_pieces_are_split_again(void **state)
{
	struct fixture f;
	int32_t *ids;
	int a, abc;
	long n;

	vocab_begin_spm(&vocab);
	vocab_add(&vocab, "\u2581", 1, -9);
	a = vocab_add(&vocab, "a", 1, -9);
	vocab_add(&vocab, "b", 1, -9);
	vocab_add(&vocab, "c", 1, -9);
	vocab_add(&vocab, "ab", 5, -1);
	abc = vocab_add(&vocab, "abc", 1, -2);
	f = fixture_make(&vocab, "llama", NULL);
	ids = encode(f.tok, "abab abc", 8, 0, &n);
	assert_int_equal(n, 1 + 4 + 1 + 1);
	assert_int_equal(ids[1], a);
	assert_int_equal(ids[2], a + 1);
	assert_int_equal(ids[6], abc);
	free(ids);
	assert_lossless(f.tok, "abab abc", 8);
	fixture_close(&f);
}

/* ---- special tokens -------------------------------------------------------------------------- */

static void control_tokens_are_found_only_if_asked_for(void **state)
{
	static const char text[] = "a<s>b</s>";
	int32_t *ids;
	struct fixture f;
	char back[32];
	long n;

	vocab_begin_spm(&vocab);
	vocab_add(&vocab, "\u2581", 1, -9);
	f = fixture_make(&vocab, "llama", NULL);
	assert_lossless(f.tok, text, sizeof(text) - 1);
	ids = encode(f.tok, text, sizeof(text) - 1, TOKENIZE_SPECIAL | TOKENIZE_BOS, &n);
	/* BOS, dummy, a, BOS, dummy, b, EOS */
	assert_int_equal(n, 7);
	assert_int_equal(ids[0], 1);
	assert_int_equal(ids[3], 1);
	assert_int_equal(ids[4], 3 + 256);
	assert_int_equal(ids[6], 2);
	assert_int_equal(tokenizer_decode(f.tok, ids, n, back, sizeof(back)), 2);
	assert_memory_equal(back, "ab", 2);
	free(ids);
	fixture_close(&f);
}

/* The longest token at a place is found; the text on both sides is merged separately. */
static void user_defined_tokens_are_always_found(void **state)
{
	static const char text[] = "<x><xy>a<xyz><x";
	const char *const models[] = { "llama", "gpt2" };
	/* SPM's dummy space is a byte token here: <x [space] > <xy> [space] a <xy [space] z > <x */
	static const int at[][4] = { { 0, 3, 6, 10 }, { 0, 2, 4, 7 } };
	struct fixture f;
	int32_t *ids;
	int x, m;
	long n;

	for (m = 0; m < 2; m++) {
		if (m)
			vocab_begin_bpe(&vocab);
		else
			vocab_begin_spm(&vocab);
		x = vocab_add(&vocab, "<x", 4, 0);
		vocab_add(&vocab, "<xy", 4, 0);
		vocab_add(&vocab, "<xy>", 4, 0);
		f = fixture_make(&vocab, models[m], "qwen2");
		ids = encode(f.tok, text, sizeof(text) - 1, 0, &n);
		assert_int_equal(n, at[m][3] + 1);
		assert_int_equal(ids[at[m][0]], x);
		assert_int_equal(ids[at[m][1]], x + 2);
		assert_int_equal(ids[at[m][2]], x + 1);
		assert_int_equal(ids[at[m][3]], x);
		free(ids);
		assert_lossless(f.tok, text, sizeof(text) - 1);
		fixture_close(&f);
	}
}

static void flags_of_the_vocabulary_are_obeyed(void **state)
{
	struct gguf_writer *w;
	struct fixture f;
	int32_t ids[8];
	char err[256];

	vocab_begin_spm(&vocab);
	w = vocab_write(&vocab, "llama", NULL);
	gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", false);
	gguf_writer_bool(w, "tokenizer.ggml.add_space_prefix", false);
	gguf_writer_u32(w, "tokenizer.ggml.eot_token_id", 70);
	assert_int_equal(vocab_open(w, &f, err, sizeof(err)), 0);
	assert_false(tokenizer_adds_bos(f.tok));
	assert_true(tokenizer_is_end(f.tok, 70) && tokenizer_is_end(f.tok, 2) &&
		    !tokenizer_is_end(f.tok, 71));
	assert_int_equal(tokenizer_encode(f.tok, "ab", 2, TOKENIZE_BOS, ids, 8), 2);
	assert_int_equal(ids[0], 3 + 'a');
	/* Without a dummy space, a leading space belongs to the text. */
	assert_lossless(f.tok, " a", 2);
	fixture_close(&f);
	vocab_begin_bpe(&vocab);
	w = vocab_write(&vocab, "gpt2", "llama-bpe");
	gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 5);
	assert_int_equal(vocab_open(w, &f, err, sizeof(err)), 0);
	assert_true(tokenizer_adds_bos(f.tok));
	assert_int_equal(tokenizer_encode(f.tok, "ab", 2, TOKENIZE_BOS, ids, 8), 3);
	assert_int_equal(tokenizer_encode(f.tok, "ab", 2, 0, ids, 8), 2);
	fixture_close(&f);
}

/* ---- any bytes, any length ------------------------------------------------------------------- */

static const char *const pre_names[] = { "gpt-2", "llama-bpe", "stablelm2", "smollm" };

static void any_bytes_come_back(void **state)
{
	uint64_t seed = test_seed();
	struct fixture f[6];
	uint8_t text[700];
	int i, round;

	f[0] = fixture_open(MODEL);
	random_spm_vocab(true, &seed);
	f[1] = fixture_make(&vocab, "llama", NULL);
	random_bpe_vocab(&seed);
	for (i = 0; i < 4; i++)
		f[2 + i] = fixture_make(&vocab, "gpt2", pre_names[i]);
	for (round = 0; round < 1500; round++) {
		size_t n = random_bytes(text, sizeof(text), &seed);

		for (i = 0; i < 6; i++)
			assert_lossless(f[i].tok, text, n);
	}
	for (i = 0; i < 6; i++)
		fixture_close(&f[i]);
}

/* Any quadratic step would take hours. */
static void a_megabyte_without_a_break_takes_no_quadratic_time(void **state)
{
	static const char *const fillings[] = { "a",	  "ab",	  " ", "\n", " \n",	     "1",
						"\u00e9", "\xff", "=", "'s", "\xe2\x96\x81", "\t ",
						"<" };
	const size_t bytes = 1 << 20;
	uint64_t seed = test_seed();
	char *text = malloc(bytes + 8);
	struct fixture f[6];
	size_t i, at;
	int t;

	f[0] = fixture_open(MODEL);
	random_spm_vocab(true, &seed);
	f[1] = fixture_make(&vocab, "llama", NULL);
	random_bpe_vocab(&seed);
	for (t = 0; t < 4; t++)
		f[2 + t] = fixture_make(&vocab, "gpt2", pre_names[t]);
	for (i = 0; i <= sizeof(fillings) / sizeof(fillings[0]); i++) {
		bool random = i == sizeof(fillings) / sizeof(fillings[0]);

		for (at = 0; at < bytes; at += random ? 1 : strlen(fillings[i])) {
			if (random)
				text[at] = 'a' + random_u64(&seed) % 4;
			else
				memcpy(text + at, fillings[i], strlen(fillings[i]));
		}
		for (t = 0; t < 6; t++)
			assert_lossless(f[t].tok, text, bytes);
	}
	for (t = 0; t < 6; t++)
		fixture_close(&f[t]);
	free(text);
}

/* ---- inconsistent vocabularies --------------------------------------------------------------- */

static void assert_refused(struct gguf_writer *w, int ret, const char *words)
{
	struct fixture f;
	char err[512] = "";

	assert_int_equal(vocab_open(w, &f, err, sizeof(err)), ret);
	assert_null(f.tok);
	if (!strstr(err, words) || strchr(err, '\n'))
		fail_msg("'%s' does not say '%s' in one line", err, words);
	gguf_close(f.file);
}

static void inconsistent_vocabularies_are_refused(void **state)
{
	struct gguf_writer *w;
	int i;

	w = gguf_writer_create();
	gguf_writer_u32(w, "x", 1);
	assert_refused(w, -EINVAL, "tokenizer.ggml.model is missing");
	w = gguf_writer_create();
	gguf_writer_string(w, "tokenizer.ggml.model", "bert", 4);
	assert_refused(w, -ENOTSUP, "'bert'");
	w = gguf_writer_create();
	gguf_writer_string(w, "tokenizer.ggml.model", "llama", 5);
	assert_refused(w, -EINVAL, "tokenizer.ggml.tokens is missing");
	w = gguf_writer_create();
	gguf_writer_string(w, "tokenizer.ggml.model", "llama", 5);
	gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_KV_STRING, 0);
	assert_refused(w, -EINVAL, "has 0 elements");
	w = gguf_writer_create();
	gguf_writer_string(w, "tokenizer.ggml.model", "llama", 5);
	gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_KV_I32, 1);
	gguf_writer_i32_element(w, 1);
	assert_refused(w, -EINVAL, "not an array of strings");
	w = gguf_writer_create();
	gguf_writer_string(w, "tokenizer.ggml.model", "llama", 5);
	gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_KV_STRING, 1);
	gguf_writer_string_element(w, "a", 1);
	assert_refused(w, -EINVAL, "tokenizer.ggml.scores is missing");

	/* Too few or too many types or scores, or an unknown type. */
	for (i = 0; i < 3; i++) {
		w = gguf_writer_create();
		gguf_writer_string(w, "tokenizer.ggml.model", "llama", 5);
		gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_KV_STRING, 1);
		gguf_writer_string_element(w, "a", 1);
		gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_KV_I32, i == 1 ? 2 : 1);
		gguf_writer_i32_element(w, i == 2 ? 7 : 1);
		if (i == 1)
			gguf_writer_i32_element(w, 1);
		gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_KV_F32, i ? 1 : 0);
		if (i)
			gguf_writer_f32_element(w, 0);
		assert_refused(w, -EINVAL,
			       i == 0	? "scores has 0 elements for 1"
			       : i == 1 ? "token_type has 2 elements for 1"
					: "of token 0 is 7");
	}
	vocab_begin_spm(&vocab);
	vocab_add(&vocab, "a", 1, NAN);
	assert_refused(vocab_write(&vocab, "llama", NULL), -EINVAL, "token 259 is not a number");
	vocab_begin_spm(&vocab);
	vocab_add(&vocab, "<0xZZ>", 6, 0);
	assert_refused(vocab_write(&vocab, "llama", NULL), -EINVAL,
		       "token 259 is marked as a byte");
}

static void inconsistent_merges_and_ids_are_refused(void **state)
{
	static char long_token[5000];
	struct gguf_writer *w;

	vocab_begin_bpe(&vocab);
	assert_refused(vocab_write(&vocab, "gpt2", "none"), -ENOTSUP,
		       "pre-tokenizer 'none' is not known (llm-vocab --list");
	strcpy(vocab.merges[0], "ab");
	vocab.n_merges = 1;
	assert_refused(vocab_write(&vocab, "gpt2", "gpt-2"), -EINVAL, "merge 0 is not two tokens");
	strcpy(vocab.merges[0], "a b");
	assert_refused(vocab_write(&vocab, "gpt2", "gpt-2"), -EINVAL,
		       "merge 0, 'a b', names a token");
	strcpy(vocab.merges[0], " ");
	assert_refused(vocab_write(&vocab, "gpt2", "gpt-2"), -EINVAL, "names a token");
	vocab.n_merges = 0;
	w = vocab_write(&vocab, "gpt2", "gpt-2");
	gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 256);
	assert_refused(w, -EINVAL, "eos_token_id is 256");
	w = vocab_write(&vocab, "gpt2", "gpt-2");
	gguf_writer_string(w, "tokenizer.ggml.bos_token_id", "1", 1);
	assert_refused(w, -EINVAL, "bos_token_id is not");
	w = vocab_write(&vocab, "gpt2", "gpt-2");
	gguf_writer_u32(w, "tokenizer.ggml.add_bos_token", 1);
	assert_refused(w, -EINVAL, "add_bos_token is not a bool");
	w = gguf_writer_create();
	gguf_writer_string(w, "tokenizer.ggml.model", "gpt2", 4);
	gguf_writer_string(w, "tokenizer.ggml.pre", "gpt-2", 5);
	gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_KV_STRING, 1);
	gguf_writer_string_element(w, "a", 1);
	assert_refused(w, -EINVAL, "tokenizer.ggml.merges is missing");
	w = gguf_writer_create();
	gguf_writer_string(w, "tokenizer.ggml.model", "gpt2", 4);
	gguf_writer_string(w, "tokenizer.ggml.pre", "gpt-2", 5);
	gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_KV_STRING, 1);
	gguf_writer_string_element(w, "a", 1);
	gguf_writer_array(w, "tokenizer.ggml.merges", GGUF_KV_I32, 0);
	assert_refused(w, -EINVAL, "merges is not an array of strings");
	memset(long_token, 'a', sizeof(long_token));
	w = gguf_writer_create();
	gguf_writer_string(w, "tokenizer.ggml.model", "llama", 5);
	gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_KV_STRING, 1);
	gguf_writer_string_element(w, long_token, sizeof(long_token));
	assert_refused(w, -EINVAL, "token 0 has 5000 bytes");
}

/* Files in use have empty and repeated tokens. */
static void empty_and_repeated_tokens_are_harmless(void **state)
{
	struct fixture f;
	int32_t *ids;
	int first;
	long n;

	vocab_begin_spm(&vocab);
	vocab_add(&vocab, "", 1, 0);
	vocab_add(&vocab, "", 4, 0);
	vocab_add(&vocab, "", 3, 0);
	first = vocab_add(&vocab, "ab", 1, 0);
	vocab_add(&vocab, "ab", 1, 5);
	f = fixture_make(&vocab, "llama", NULL);
	ids = encode(f.tok, "ab", 2, TOKENIZE_SPECIAL, &n);
	assert_int_equal(n, 2);
	assert_int_equal(ids[1], first);
	free(ids);
	assert_int_equal(tokenizer_token_text(f.tok, first + 1, NULL, 0), 2);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(greater_scores_merge_first),
		cmocka_unit_test(spm_merges_as_a_naive_implementation),
		cmocka_unit_test(bpe_merges_as_a_naive_implementation),
		cmocka_unit_test(llama_bpe_takes_whole_words),
		cmocka_unit_test(merges_to_special_tokens_are_skipped),
		cmocka_unit_test(merges_of_special_tokens_are_skipped),
		cmocka_unit_test(unused_pieces_are_split_again),
		cmocka_unit_test(control_tokens_are_found_only_if_asked_for),
		cmocka_unit_test(user_defined_tokens_are_always_found),
		cmocka_unit_test(flags_of_the_vocabulary_are_obeyed),
		cmocka_unit_test(any_bytes_come_back),
		cmocka_unit_test(a_megabyte_without_a_break_takes_no_quadratic_time),
		cmocka_unit_test(inconsistent_vocabularies_are_refused),
		cmocka_unit_test(inconsistent_merges_and_ids_are_refused),
		cmocka_unit_test(empty_and_repeated_tokens_are_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
