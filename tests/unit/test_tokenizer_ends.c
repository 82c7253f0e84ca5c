// SPDX-License-Identifier: MIT
/* What files leave out: tokens that end a turn, ids of special tokens, a chat format's newlines. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tokenizer_fixture.h"

static struct vocab vocab;

static struct fixture open_writer(struct gguf_writer *w)
{
	struct fixture f;
	char err[256];

	if (vocab_open(w, &f, err, sizeof(err)))
		fail_msg("%s", err);
	return f;
}

static bool ends(const struct fixture *f, const char *text)
{
	return tokenizer_is_end(f->tok, vocab_index(&vocab, text));
}

static void tokens_of_known_texts_end_a_turn(void **state)
{
	static const char *const known[] = {
		"</s>",		 "<|im_end|>",
		"<|eot_id|>",	 "<|end|>",
		"<end_of_turn>", "[EOT]",
		"<|file_sep|>",	 "<\uff5cend\u2581of\u2581sentence\uff5c>",
	};
	static const char *const others[] = { "<|im_start|>", "<|im_end|", "<end>", "word" };
	struct fixture f;
	size_t i;

	for (int pass = 0; pass < 2; pass++) {
		if (pass)
			vocab_begin_bpe(&vocab);
		else
			vocab_begin_spm(&vocab);
		for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			vocab_add(&vocab, known[i], 3, 0);
		for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
			vocab_add(&vocab, others[i], 3, 0);
		f = fixture_make(&vocab, pass ? "gpt2" : "llama", pass ? "gpt-2" : NULL);
		for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			assert_true(ends(&f, known[i]));
		for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
			assert_false(ends(&f, others[i]));
		fixture_close(&f);
	}
}

/* Otherwise a user who types it would end the turn, or the model could not. */
static void a_word_that_ends_a_turn_becomes_a_control_token(void **state)
{
	static const char text[] = "a<|im_end|>";
	const char *const models[] = { "llama", "gpt2" };
	char back[16];
	int32_t *ids;
	long n;

	for (int m = 0; m < 2; m++) {
		for (int type = 1; type <= 4; type += 3) {
			struct fixture f;
			int end;

			if (m)
				vocab_begin_bpe(&vocab);
			else
				vocab_begin_spm(&vocab);
			end = vocab_add(&vocab, "<|im_end|>", type, 0);
			f = fixture_make(&vocab, models[m], "gpt-2");
			assert_true(tokenizer_is_end(f.tok, end));
			ids = encode(f.tok, text, sizeof(text) - 1, TOKENIZE_SPECIAL, &n);
			assert_int_equal(ids[n - 1], end);
			assert_int_equal(tokenizer_decode(f.tok, ids, n, back, sizeof(back)), 1);
			free(ids);
			ids = encode(f.tok, text, sizeof(text) - 1, 0, &n);
			assert_int_not_equal(ids[n - 1], end);
			free(ids);
			assert_lossless(f.tok, text, sizeof(text) - 1);
			fixture_close(&f);
		}
	}
}

static void a_messages_end_is_no_turns_end(void **state)
{
	static const char *const more[] = { "<|return|>", "<|call|>", "<|calls|>", "<|flush|>",
					    "<|tool_response>" };
	struct fixture f;

	/* Which of @more there are */
	for (unsigned int with = 0; with < 32; with++) {
		bool message = (with & 3) == 3 || (with & 12) == 12;

		vocab_begin_spm(&vocab);
		vocab_add(&vocab, "<|end|>", 3, 0);
		for (int i = 0; i < 5; i++)
			if (with >> i & 1)
				vocab_add(&vocab, more[i], 3, 0);
		f = open_writer(vocab_write(&vocab, "llama", NULL));
		assert_int_equal(ends(&f, "<|end|>"), !message);
		/* "</s>" is EOS here, whatever its text. */
		assert_true(ends(&f, "</s>"));
		fixture_close(&f);
	}
}

static void ids_in_the_file_end_a_turn(void **state)
{
	static const char *const keys[] = { "eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep" };
	struct gguf_writer *w;
	struct fixture f;
	char key[64];

	for (size_t i = 0; i < 6; i++) {
		vocab_begin_bpe(&vocab);
		w = vocab_write(&vocab, "gpt2", "gpt-2");
		snprintf(key, sizeof(key), "tokenizer.ggml.%s_token_id", keys[i]);
		gguf_writer_u32(w, key, 70);
		f = open_writer(w);
		assert_true(tokenizer_is_end(f.tok, 70));
		assert_false(tokenizer_is_end(f.tok, 71));
		fixture_close(&f);
	}
}

static void sentencepieces_ids_are_known_without_keys(void **state)
{
	struct gguf_writer *w = gguf_writer_create();
	struct fixture f;

	gguf_writer_string(w, "tokenizer.ggml.model", "llama", 5);
	gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_KV_STRING, 4);
	for (int i = 0; i < 4; i++)
		gguf_writer_string_element(w, &"ubea"[i], 1);
	gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_KV_I32, 4);
	for (int i = 0; i < 4; i++)
		gguf_writer_i32_element(w, (int[]){ 2, 3, 3, 1 }[i]);
	gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_KV_F32, 4);
	for (int i = 0; i < 4; i++)
		gguf_writer_f32_element(w, 0);
	f = open_writer(w);
	assert_int_equal(tokenizer_bos(f.tok), 1);
	assert_int_equal(tokenizer_eos(f.tok), 2);
	assert_true(tokenizer_adds_bos(f.tok) && tokenizer_is_end(f.tok, 2));
	fixture_close(&f);
	vocab_begin_bpe(&vocab);
	f = fixture_make(&vocab, "gpt2", "gpt-2");
	assert_int_equal(tokenizer_bos(f.tok), -1);
	assert_int_equal(tokenizer_eos(f.tok), -1);
	fixture_close(&f);
}

static void white_space_behind_phi3s_control_tokens_is_stripped(void **state)
{
	static const char text[] = "<|user|>\n a<|end|>\n<|user|>  b<s> c<|user|>\n";
	static const char *const archs[] = { "phi3", "llama" };

	for (int i = 0; i < 2; i++) {
		struct gguf_writer *w;
		struct fixture f;
		int32_t *ids;
		char back[64];
		long n, bytes;

		vocab_begin_spm(&vocab);
		vocab_add(&vocab, "<|user|>", 3, 0);
		vocab_add(&vocab, "<|end|>", 3, 0);
		w = vocab_write(&vocab, "llama", NULL);
		gguf_writer_string(w, "general.architecture", archs[i], strlen(archs[i]));
		f = open_writer(w);
		ids = encode(f.tok, text, sizeof(text) - 1, TOKENIZE_SPECIAL, &n);
		bytes = tokenizer_decode(f.tok, ids, n, back, sizeof(back) - 1);
		back[bytes] = 0;
		assert_string_equal(back, i ? "\n a\n  b c\n" : "ab c");
		free(ids);
		/* Without control tokens, nothing is lost. */
		assert_lossless(f.tok, text, sizeof(text) - 1);
		fixture_close(&f);
	}
}

static void a_missing_pre_tokenizer_is_warned_of(void **state)
{
	static const char text[] = "+=12345 x";
	struct fixture f[2];
	int32_t *ids[2];
	long n[2];

	vocab_begin_bpe(&vocab);
	vocab_add(&vocab, "45", 1, 0);
	strcpy(vocab.merges[vocab.n_merges++], "4 5");
	vocab_add(&vocab, "34", 1, 0);
	strcpy(vocab.merges[vocab.n_merges++], "3 4");
	for (int i = 0; i < 2; i++) {
		f[i] = fixture_make(&vocab, "gpt2", i ? "default" : NULL);
		ids[i] = encode(f[i].tok, text, sizeof(text) - 1, 0, &n[i]);
	}
	/* 123|45, not 12345 as GPT-2 */
	assert_int_equal(n[0], sizeof(text) - 2);
	assert_int_equal(n[1], n[0]);
	assert_memory_equal(ids[0], ids[1], n[0] * sizeof(*ids[0]));
	assert_non_null(strstr(tokenizer_warning(f[0].tok), "tokenizer.ggml.pre is missing"));
	assert_null(strchr(tokenizer_warning(f[0].tok), '\n'));
	assert_null(tokenizer_warning(f[1].tok));
	for (int i = 0; i < 2; i++) {
		free(ids[i]);
		fixture_close(&f[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens_of_known_texts_end_a_turn),
		cmocka_unit_test(a_word_that_ends_a_turn_becomes_a_control_token),
		cmocka_unit_test(a_messages_end_is_no_turns_end),
		cmocka_unit_test(ids_in_the_file_end_a_turn),
		cmocka_unit_test(sentencepieces_ids_are_known_without_keys),
		cmocka_unit_test(white_space_behind_phi3s_control_tokens_is_stripped),
		cmocka_unit_test(a_missing_pre_tokenizer_is_warned_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
