// SPDX-License-Identifier: MIT
/* The interface of llm_vocab.h. The tokenizers' tests check the ids. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "llm_refs.h"
#include "llm_vocab.h"
#include "npu_random.h"

static char model[512];

static void expect_no_vocab(const char *path, int err, const char *word)
{
	struct llm_vocab *vocab = (struct llm_vocab *)1;

	assert_int_equal(llm_vocab_open(path, &vocab), err);
	assert_null(vocab);
	if (!strstr(llm_error(), word))
		fail_msg("no '%s' in: %s", word, llm_error());
}

static struct llm_vocab *open_vocab(const char *path)
{
	struct llm_vocab *vocab;

	if (llm_vocab_open(path, &vocab))
		fail_msg("%s", llm_error());
	return vocab;
}

static void test_a_models_vocabulary_equals_the_engines(void **state)
{
	static const char text[] = "The kernel allocates</s> memory.\n";
	struct llm_engine *engine = ref_open(model, LLM_PLACE_CPU, 1, 0);
	struct llm_vocab *vocab = open_vocab(model);
	int32_t ids[64], want[64];
	char back[64];

	assert_int_equal(llm_vocab_size(vocab), 4096);
	for (unsigned int flags = 0; flags < 4; flags++) {
		long n = llm_vocab_tokenize(vocab, text, sizeof(text) - 1, flags, ids, 64);

		assert_in_range(n, 5, 64);
		assert_int_equal(llm_tokenize(engine, text, sizeof(text) - 1, flags, want, 64), n);
		assert_memory_equal(ids, want, (size_t)n * sizeof(*ids));
		/* Ids beyond the array's size are counted. */
		assert_int_equal(llm_vocab_tokenize(vocab, text, sizeof(text) - 1, flags, ids, 2),
				 n);
	}
	assert_int_equal(llm_vocab_tokenize(vocab, text, sizeof(text) - 1, 0, ids, 64),
			 llm_tokenize(engine, text, sizeof(text) - 1, 0, want, 64));
	assert_int_equal(llm_vocab_detokenize(vocab, ids, 5, back, sizeof(back)),
			 llm_detokenize(engine, want, 5, back + 32, 32));
	assert_memory_equal(back, back + 32, 5);
	assert_int_equal(llm_vocab_tokenize(vocab, text, 4, 4, ids, 64), -EINVAL);
	assert_non_null(strstr(llm_error(), "flags 0x4"));
	ids[0] = 4096;
	assert_int_equal(llm_vocab_detokenize(vocab, ids, 1, back, sizeof(back)), -EINVAL);
	llm_vocab_close(vocab);
	llm_vocab_close(NULL);
	llm_engine_close(engine);
}

static void test_files_without_a_vocabulary_are_refused(void **state)
{
	expect_no_vocab("/nowhere/v.gguf", -ENOENT, "/nowhere/v.gguf");
	expect_no_vocab("/dev/null", -EINVAL, "/dev/null");
}

#define TOKEN(s, t)                             \
	{                                       \
		s, sizeof(s) - 1, LLM_VOCAB_##t \
	}
static const struct llm_vocab_token tokens[] = {
	TOKEN("a", NORMAL), TOKEN("\u0120", NORMAL), TOKEN("\u0120a", NORMAL),
	{ NULL },	    TOKEN("<end>", CONTROL), TOKEN("new", USER),
};
static const char *const merges[] = { "\u0120 a" };

static struct llm_vocab_bpe small(void)
{
	return (struct llm_vocab_bpe){
		.pre = "gpt-2",
		.tokens = tokens,
		.n_tokens = 6,
		.merges = merges,
		.n_merges = 1,
		.bos = -1,
		.eos = 4,
	};
}

static void test_saved_vocabularies_can_be_opened(void **state)
{
	static const int32_t want[] = { 4, 0, 2, 5, 2, 4 };
	char path[] = "/tmp/test_llm_vocab-XXXXXX", text[32];
	int fd = mkstemp(path);
	struct llm_vocab_bpe bpe = small();
	struct llm_vocab *vocab;
	int32_t ids[8];

	assert_true(fd >= 0);
	close(fd);
	bpe.bos = 4;
	assert_int_equal(llm_vocab_save(&bpe, path), 0);
	vocab = open_vocab(path);
	assert_int_equal(llm_vocab_size(vocab), 6);
	assert_int_equal(llm_vocab_tokenize(vocab, "a anew a<end>", 13,
					    LLM_TOKENIZE_BOS | LLM_TOKENIZE_SPECIAL, ids, 8),
			 6);
	assert_memory_equal(ids, want, sizeof(want));
	/* Control tokens have no text. */
	assert_int_equal(llm_vocab_detokenize(vocab, ids, 6, text, sizeof(text)), 8);
	assert_memory_equal(text, "a anew a", 8);
	/* An unused id is valid. */
	assert_int_equal(llm_vocab_detokenize(vocab, (int32_t[]){ 3 }, 1, text, sizeof(text)), 6);
	assert_memory_equal(text, "[PAD3]", 6);
	llm_vocab_close(vocab);
	/* Without a bos, texts begin without one. */
	bpe = small();
	assert_int_equal(llm_vocab_save(&bpe, path), 0);
	vocab = open_vocab(path);
	assert_int_equal(llm_vocab_tokenize(vocab, "a", 1, LLM_TOKENIZE_BOS, ids, 8), 1);
	llm_vocab_close(vocab);
	unlink(path);
}

static void expect_not_saved(const struct llm_vocab_bpe *bpe, const char *path, int err,
			     const char *word)
{
	assert_int_equal(llm_vocab_save(bpe, path), err);
	if (!strstr(llm_error(), word))
		fail_msg("no '%s' in: %s", word, llm_error());
	assert_int_equal(access(path, F_OK), -1);
}

static void test_invalid_vocabularies_are_not_saved(void **state)
{
	struct llm_vocab_bpe bpe = small();
	char path[64];

	snprintf(path, sizeof(path), "/tmp/test_llm_vocab-%d", (int)getpid());
	bpe.pre = "gpt-3";
	assert_false(llm_vocab_knows_pre("gpt-3"));
	assert_true(llm_vocab_knows_pre("gpt-2") && llm_vocab_knows_pre("smollm"));
	expect_not_saved(&bpe, path, -EINVAL, "'gpt-3'");
	bpe = small();
	bpe.eos = 6;
	expect_not_saved(&bpe, path, -EINVAL, "eos 6 is none of 6");
	bpe = small();
	bpe.bos = 7;
	expect_not_saved(&bpe, path, -EINVAL, "bos 7");
	bpe = small();
	bpe.n_tokens = 0;
	bpe.eos = -1;
	expect_not_saved(&bpe, path, -EINVAL, "0 tokens");
	bpe = small();
	expect_not_saved(&bpe, "/nowhere/v.gguf", -ENOENT, "/nowhere/v.gguf");
}

static const char *some_part(void)
{
	static const char *const parts[] = { "a",  "\u0120", "\u0120a", "<end>", "new",
					     "ab", "",	     "a\u0120", "[PAD3]" };

	return parts[random_in(0, 8)];
}

/* small() with changed tokens and up to two random merges. */
static struct llm_vocab_bpe some_vocab(void)
{
	static char long_token[4100], text[2][32];
	static const char *const both[] = { text[0], text[1] };
	static struct llm_vocab_token changed[6];
	struct llm_vocab_bpe bpe = small();

	memset(long_token, 'a', sizeof(long_token));
	memcpy(changed, tokens, sizeof(tokens));
	changed[random_in(0, 5)].type = random_in(0, 1) ? LLM_VOCAB_NORMAL : LLM_VOCAB_CONTROL;
	if (!random_in(0, 15)) {
		changed[5].text = long_token;
		changed[5].bytes = random_in(4090, 4100);
	}
	for (int m = 0; m < 2; m++)
		snprintf(text[m], sizeof(text[m]), "%s%s%s", some_part(),
			 random_in(0, 7) ? " " : "", some_part());
	bpe.tokens = changed;
	bpe.merges = both;
	bpe.n_merges = random_in(0, 2);
	return bpe;
}

static void test_what_is_saved_can_be_opened(void **state)
{
	char path[64];
	int saved = 0;

	random_begin(__func__);
	snprintf(path, sizeof(path), "/tmp/test_llm_vocab-%d", (int)getpid());
	for (int i = 0; i < 400; i++) {
		struct llm_vocab_bpe bpe = some_vocab();

		if (llm_vocab_save(&bpe, path)) {
			assert_non_null(strstr(llm_error(), path));
			assert_int_equal(access(path, F_OK), -1);
			continue;
		}
		saved++;
		llm_vocab_close(open_vocab(path));
		unlink(path);
	}
	assert_in_range(saved, 100, 350);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_models_vocabulary_equals_the_engines),
		cmocka_unit_test(test_files_without_a_vocabulary_are_refused),
		cmocka_unit_test(test_saved_vocabularies_can_be_opened),
		cmocka_unit_test(test_invalid_vocabularies_are_not_saved),
		cmocka_unit_test(test_what_is_saved_can_be_opened),
	};

	ref_embedded(model, sizeof(model));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
