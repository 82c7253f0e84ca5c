// SPDX-License-Identifier: MIT
/*
 * Token ids compared with independent tokenizers (see tests/data/tokens), and texts that must come
 * back unchanged.
 *
 * SmolLM2's tokenizer.json and the large texts are in VNPU_DATA. llm-vocab's converter is compiled
 * in, so that the sanitizers check it too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <json-c/json.h>

#include "tools/llm-vocab/json.c"
#include "tokenizer_fixture.h"

/* The references have Qwen2's words without form C, which "deepseek-r1-qwen" stands for. */
static const char *const pre_names[] = { "smollm", "gpt-2", "llama-bpe", "qwen2" };
#define N_PRE (sizeof(pre_names) / sizeof(pre_names[0]))

static struct json_object *texts_file, *texts, *spm_ids, *bpe_ids;
static const char *data_dir; /* NULL: VNPU_DATA is not set */
static struct fixture docs6m, bpe[N_PRE];

/* SmolLM2's vocabulary with another pre-tokenizer. */
static struct fixture convert_smollm2(const char *pre)
{
	const char *name = strcmp(pre, "qwen2") ? pre : "deepseek-r1-qwen";
	struct vocab_options opts = { .pre = strcmp(pre, "smollm") ? name : NULL,
				      .eos = "<|im_end|>" };
	char path[] = "/tmp/test_tokenizer.XXXXXX", json[512], err[512];
	int fd = mkstemp(path);
	struct fixture f;

	assert_true(fd >= 0);
	close(fd);
	snprintf(json, sizeof(json), "%s/models/tokenizers/smollm2_tokenizer.json", data_dir);
	if (vocab_convert(json, path, &opts, err, sizeof(err)))
		fail_msg("%s", err);
	f = fixture_open(path);
	unlink(path);
	return f;
}

static int open_all(void **state)
{
	size_t i;

	data_dir = getenv("VNPU_DATA");
	texts_file = json_object_from_file("tests/data/tokens/texts.json");
	texts = json_object_object_get(texts_file, "texts");
	spm_ids = json_object_from_file("tests/data/tokens/spm.json");
	bpe_ids = json_object_from_file("tests/data/tokens/bpe.json");
	if (!texts || !spm_ids || !bpe_ids) {
		print_error(
			"tests/data/tokens cannot be read; run the tests in the root of the source "
			"tree\n");
		return -1;
	}
	docs6m = fixture_open(MODEL);
	for (i = 0; data_dir && i < N_PRE; i++)
		bpe[i] = convert_smollm2(pre_names[i]);
	return 0;
}

static int close_all(void **state)
{
	size_t i;

	json_object_put(texts_file);
	json_object_put(spm_ids);
	json_object_put(bpe_ids);
	fixture_close(&docs6m);
	for (i = 0; data_dir && i < N_PRE; i++)
		fixture_close(&bpe[i]);
	return 0;
}

static struct json_object *reference(struct json_object *file, const char *part, const char *name)
{
	return json_object_object_get(json_object_object_get(file, part), name);
}

static void assert_ids_of_texts(const struct tokenizer *tok, struct json_object *want,
				unsigned int flags)
{
	size_t i, j, n_texts = json_object_array_length(texts);

	assert_true(n_texts > 400 && json_object_array_length(want) == n_texts);
	for (i = 0; i < n_texts; i++) {
		struct json_object *text = json_object_array_get_idx(texts, i),
				   *ids = json_object_array_get_idx(want, i);
		long n;
		int32_t *got = encode(tok, json_object_get_string(text),
				      json_object_get_string_len(text), flags, &n);

		for (j = 0; j < (size_t)n && j < json_object_array_length(ids); j++)
			if (got[j] != json_object_get_int(json_object_array_get_idx(ids, j)))
				break;
		if (j < (size_t)n || j < json_object_array_length(ids))
			fail_msg("text %zu, %s, differs from id %zu on: %s", i,
				 json_object_to_json_string(text), j,
				 json_object_to_json_string(ids));
		free(got);
	}
}

static void assert_ids_of_files(const struct tokenizer *tok, struct json_object *want,
				unsigned int flags)
{
	json_object_object_foreach(want, name, entry)
	{
		uint64_t hash = strtoull(
			json_object_get_string(json_object_array_get_idx(entry, 1)), NULL, 16);
		char path[512];
		size_t bytes;
		int32_t *ids;
		char *text;
		long n;

		snprintf(path, sizeof(path), "%s/%s", data_dir, name);
		text = read_file(path, &bytes);
		ids = encode(tok, text, bytes, flags, &n);
		if (n != json_object_get_int(json_object_array_get_idx(entry, 0)) ||
		    hash_ids(ids, n) != hash)
			fail_msg("the ids of %s differ", name);
		assert_lossless(tok, text, bytes);
		free(ids);
		free(text);
	}
}

static void spm_ids_equal_sentencepiece(void **state)
{
	assert_ids_of_texts(docs6m.tok, reference(spm_ids, "ids", "docs6m"), 0);
}

static void spm_ids_of_whole_files_equal_sentencepiece(void **state)
{
	if (!data_dir)
		skip();
	assert_ids_of_files(docs6m.tok, reference(spm_ids, "files", "docs6m"), 0);
}

static void bpe_ids_equal_hugging_face(void **state)
{
	size_t i;

	if (!data_dir)
		skip();
	for (i = 0; i < N_PRE; i++)
		assert_ids_of_texts(bpe[i].tok, reference(bpe_ids, "ids", pre_names[i]),
				    TOKENIZE_SPECIAL);
}

static void bpe_ids_of_whole_files_equal_hugging_face(void **state)
{
	size_t i;

	if (!data_dir)
		skip();
	for (i = 0; i < N_PRE; i++)
		assert_ids_of_files(bpe[i].tok, reference(bpe_ids, "files", pre_names[i]),
				    TOKENIZE_SPECIAL);
}

static void prompts_give_the_models_reference_ids(void **state)
{
	char path[64], *text;
	size_t bytes, want_bytes;
	int32_t *want, *ids;
	long n;
	int i;

	for (i = 1; i <= 4; i++) {
		snprintf(path, sizeof(path), "tests/data/docs6m/p%d.txt", i);
		text = read_file(path, &bytes);
		snprintf(path, sizeof(path), "tests/data/docs6m/p%d.ids.i32", i);
		want = read_file(path, &want_bytes);
		ids = encode(docs6m.tok, text, bytes, TOKENIZE_BOS, &n);
		assert_int_equal(n * sizeof(*ids), want_bytes);
		assert_memory_equal(ids, want, want_bytes);
		free(ids);
		free(want);
		free(text);
	}
}

static void texts_come_back_from_another_spm_vocabulary(void **state)
{
	static const char *const names[] = { "specbench_question.jsonl", "tinystories_val.txt",
					     "wikitext2_raw_test.txt", "wizard_of_oz.txt" };
	struct fixture stories;
	char path[512], *text;
	size_t bytes, i;

	if (!data_dir)
		skip();
	snprintf(path, sizeof(path), "%s/models/stories260K/stories260K-f32.gguf", data_dir);
	stories = fixture_open(path);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/text/%s", data_dir, names[i]);
		text = read_file(path, &bytes);
		assert_lossless(stories.tok, text, bytes);
		free(text);
	}
	fixture_close(&stories);
}

static void stories_prompts_give_the_models_reference_ids(void **state)
{
	struct fixture stories;
	char path[512];
	int i;

	if (!data_dir)
		skip();
	snprintf(path, sizeof(path), "%s/models/stories260K/stories260K-f32.gguf", data_dir);
	stories = fixture_open(path);
	for (i = 1; i <= 4; i++) {
		struct json_object *json, *prompt;
		size_t bytes;
		int32_t *want, *ids;
		long n;

		snprintf(path, sizeof(path), "%s/models/stories260K/refs/s%d.json", data_dir, i);
		json = json_object_from_file(path);
		prompt = json_object_object_get(json, "prompt");
		snprintf(path, sizeof(path), "%s/models/stories260K/refs/s%d.ids.i32", data_dir, i);
		want = read_file(path, &bytes);
		ids = encode(stories.tok, json_object_get_string(prompt),
			     json_object_get_string_len(prompt), TOKENIZE_BOS, &n);
		assert_int_equal(n * sizeof(*ids), bytes);
		assert_memory_equal(ids, want, bytes);
		free(ids);
		free(want);
		json_object_put(json);
	}
	fixture_close(&stories);
}

static void bytes_without_a_token_are_left_out(void **state)
{
	static const char text[] = "a\xff\x04 b";
	int32_t ids[8];
	char back[8];
	long n;

	if (!data_dir)
		skip();
	n = tokenizer_encode(bpe[0].tok, text, 5, 0, ids, 8);
	assert_int_equal(tokenizer_decode(bpe[0].tok, ids, n, back, 8), 3);
	assert_memory_equal(back, "a b", 3);
}

static void control_tokens_are_text_unless_asked_for(void **state)
{
	static const char text[] = "<|im_start|>user\nHi<|im_end|>";
	int32_t *ids;
	char back[64];
	long n;

	if (!data_dir)
		skip();
	ids = encode(bpe[0].tok, text, sizeof(text) - 1, 0, &n);
	assert_int_equal(tokenizer_decode(bpe[0].tok, ids, n, back, sizeof(back)),
			 sizeof(text) - 1);
	assert_memory_equal(back, text, sizeof(text) - 1);
	assert_int_not_equal(ids[0], 1);
	free(ids);
	ids = encode(bpe[0].tok, text, sizeof(text) - 1, TOKENIZE_SPECIAL, &n);
	assert_int_equal(ids[0], 1);
	assert_int_equal(ids[n - 1], 2);
	assert_int_equal(tokenizer_decode(bpe[0].tok, ids, n, back, sizeof(back)), 7);
	assert_memory_equal(back, "user\nHi", 7);
	free(ids);
	assert_true(tokenizer_is_end(bpe[0].tok, 2) && tokenizer_is_end(bpe[0].tok, 0));
	assert_false(tokenizer_is_end(bpe[0].tok, 1));
	assert_int_equal(tokenizer_eos(bpe[0].tok), 2);
	assert_int_equal(tokenizer_bos(bpe[0].tok), -1);
	assert_false(tokenizer_adds_bos(bpe[0].tok));
}

static void the_embedded_vocabulary_is_described(void **state)
{
	const struct tokenizer *tok = docs6m.tok;
	char text[8] = "";

	assert_int_equal(tokenizer_n_vocab(tok), 4096);
	assert_int_equal(tokenizer_bos(tok), 1);
	assert_int_equal(tokenizer_eos(tok), 2);
	assert_true(tokenizer_adds_bos(tok));
	assert_true(tokenizer_is_end(tok, 2));
	assert_false(tokenizer_is_end(tok, 1) || tokenizer_is_end(tok, -1) ||
		     tokenizer_is_end(tok, 4096));
	assert_int_equal(tokenizer_token_text(tok, 1, text, sizeof(text)), 0);
	assert_int_equal(tokenizer_token_text(tok, 3 + 'A', text, sizeof(text)), 1);
	assert_int_equal(text[0], 'A');
	assert_int_equal(tokenizer_token_text(tok, -1, text, sizeof(text)), -EINVAL);
	assert_int_equal(tokenizer_token_text(tok, 4096, text, sizeof(text)), -EINVAL);
}

static void ids_beyond_the_array_are_counted_not_stored(void **state)
{
	static const char text[] = "It is possible to specify the number of bytes.";
	int32_t *all, some[4];
	char back[8] = "________";
	long n, max;

	all = encode(docs6m.tok, text, sizeof(text) - 1, TOKENIZE_BOS, &n);
	for (max = 0; max < 3; max++) {
		some[max] = -5;
		assert_int_equal(tokenizer_encode(docs6m.tok, text, sizeof(text) - 1, TOKENIZE_BOS,
						  some, max),
				 n);
		assert_memory_equal(some, all, max * sizeof(*some));
		assert_int_equal(some[max], -5);
	}
	assert_int_equal(
		tokenizer_encode(docs6m.tok, text, sizeof(text) - 1, TOKENIZE_BOS, NULL, 0), n);
	assert_int_equal(tokenizer_decode(docs6m.tok, all, n, back, 5), sizeof(text) - 1);
	assert_memory_equal(back, "It is___", 8);
	assert_int_equal(tokenizer_decode(docs6m.tok, all, n, NULL, 0), sizeof(text) - 1);
	all[n - 1] = 4096;
	assert_int_equal(tokenizer_decode(docs6m.tok, all, n, back, 5), -EINVAL);
	all[n - 1] = -1;
	assert_int_equal(tokenizer_decode(docs6m.tok, all, n, back, 5), -EINVAL);
	free(all);
}

/* Pieces write a space as U+2581; in a text U+2581 is an ordinary character. */
static void the_piece_separator_in_a_text_comes_back(void **state)
{
	static const char *const cases[] = { "\u2581",	"\u2581\u2581the", "a\u2581b \u2581 c",
					     " \u2581", "\xe2\x96",	   "\x96\x81 \xe2" };
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_lossless(docs6m.tok, cases[i], strlen(cases[i]));
}

/* The converter's errors are one line. */
static void broken_tokenizer_json_is_refused(void **state)
{
	static const char *const cases[][2] = {
		{ "", "not readable as JSON" },
		{ "[]", "no model" },
		{ "{\"model\":{\"type\":\"Unigram\"}}", "'Unigram'" },
		{ "{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true}}", "byte_fallback" },
		{ "{\"model\":{\"type\":\"BPE\"},\"normalizer\":{\"type\":\"Lowercase\"}}",
		  "'Lowercase'" },
		{ "{\"model\":{\"type\":\"BPE\"}}", "merges" },
		{ "{\"model\":{\"type\":\"BPE\",\"merges\":[]}}", "--pre" },
		{ "{\"model\":{\"type\":\"BPE\",\"merges\":[]},"
		  "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true}}",
		  "add_prefix_space" },
		{ "{\"model\":{\"type\":\"BPE\",\"merges\":[]},"
		  "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
		  "model.vocab" },
		{ "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{}},"
		  "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
		  "empty" },
		{ "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":-1}},"
		  "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
		  "id -1" },
		{ "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":99999999}},"
		  "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
		  "id 99999999" },
		{ "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0,\"b\":0}},"
		  "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
		  "both 'a' and 'b'" },
		{ "{\"model\":{\"type\":\"BPE\",\"merges\":[7],\"vocab\":{\"a\":0}},"
		  "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
		  "merges[0]" },
		{ "{\"model\":{\"type\":\"BPE\",\"merges\":[[\"a\"]],\"vocab\":{\"a\":0}},"
		  "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
		  "merges[0]" },
		{ "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0}},"
		  "\"added_tokens\":[{}],\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
		  "added_tokens[0]" },
	};
	char path[] = "/tmp/test_tokenizer.XXXXXX", out[64], err[512];
	int fd = mkstemp(path);
	size_t i;

	assert_true(fd >= 0);
	snprintf(out, sizeof(out), "%s.gguf", path);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static const struct vocab_options none;

		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, cases[i][0], strlen(cases[i][0]), 0),
				 strlen(cases[i][0]));
		assert_int_equal(vocab_convert(path, out, &none, err, sizeof(err)), -1);
		if (!strstr(err, cases[i][1]) || strchr(err, '\n'))
			fail_msg("'%s' does not say '%s' in one line", err, cases[i][1]);
		assert_int_equal(access(out, F_OK), -1);
	}
	close(fd);
	unlink(path);
}

static void a_small_tokenizer_json_is_converted(void **state)
{
	static const char json[] =
		"{\"added_tokens\":[{\"id\":5,\"content\":\"<end>\",\"special\":true},{\"id\":3,"
		"\"content\":\"new\"}],\"pre_tokenizer\":{\"type\":\"ByteLevel\"},"
		"\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\u0120\":1,\"\u0120a\":2},"
		"\"merges\":[[\"\u0120\",\"a\"]]}}";
	struct vocab_options opts = { .bos = "<end>" };
	char path[] = "/tmp/test_tokenizer.XXXXXX", err[512];
	int32_t *ids, want[] = { 5, 0, 2, 3, 2, 5 };
	int fd = mkstemp(path);
	struct fixture f;
	long n;

	assert_true(fd >= 0 && write(fd, json, sizeof(json) - 1) == sizeof(json) - 1);
	close(fd);
	if (vocab_convert(path, path, &opts, err, sizeof(err)))
		fail_msg("%s", err);
	f = fixture_open(path);
	unlink(path);
	assert_int_equal(tokenizer_n_vocab(f.tok), 6);
	ids = encode(f.tok, "a anew a<end>", 13, TOKENIZE_BOS | TOKENIZE_SPECIAL, &n);
	assert_int_equal(n, 6);
	assert_memory_equal(ids, want, sizeof(want));
	free(ids);
	fixture_close(&f);
}

static void form_c_is_part_of_the_pre_tokenizers_name(void **state)
{
#define QWEN2                                                                              \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?" \
	"[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
	static const char *const kinds[] = {
		"{\"type\":\"ByteLevel\"}",
		"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":"
		"\"Isolated\",\"pattern\":{\"Regex\":\"" QWEN2 "\"}},{\"type\":\"ByteLevel\","
		"\"use_regex\":false}]}",
	};
	static const char *const names[][2] = { { "gpt-2", "olmo" },
						{ "deepseek-r1-qwen", "qwen2" } };
	static const struct vocab_options none;

	for (int i = 0; i < 4; i++) {
		char path[] = "/tmp/test_tokenizer.XXXXXX", err[512];
		FILE *json = fdopen(mkstemp(path), "w");
		struct fixture f;
		const char *name;
		size_t bytes;

		assert_non_null(json);
		fprintf(json,
			"{\"normalizer\":%s,\"pre_tokenizer\":%s,\"model\":{\"type\":\"BPE\","
			"\"vocab\":{\"a\":0},\"merges\":[]}}",
			i % 2 ? "{\"type\":\"NFC\"}" : "null", kinds[i / 2]);
		fclose(json);
		if (vocab_convert(path, path, &none, err, sizeof(err)))
			fail_msg("%s", err);
		f = fixture_open(path);
		unlink(path);
		assert_int_equal(gguf_string(f.file, "tokenizer.ggml.pre", &name, &bytes), 0);
		assert_int_equal(bytes, strlen(names[i / 2][i % 2]));
		assert_memory_equal(name, names[i / 2][i % 2], bytes);
		fixture_close(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spm_ids_equal_sentencepiece),
		cmocka_unit_test(spm_ids_of_whole_files_equal_sentencepiece),
		cmocka_unit_test(bpe_ids_equal_hugging_face),
		cmocka_unit_test(bpe_ids_of_whole_files_equal_hugging_face),
		cmocka_unit_test(prompts_give_the_models_reference_ids),
		cmocka_unit_test(stories_prompts_give_the_models_reference_ids),
		cmocka_unit_test(texts_come_back_from_another_spm_vocabulary),
		cmocka_unit_test(bytes_without_a_token_are_left_out),
		cmocka_unit_test(control_tokens_are_text_unless_asked_for),
		cmocka_unit_test(the_embedded_vocabulary_is_described),
		cmocka_unit_test(ids_beyond_the_array_are_counted_not_stored),
		cmocka_unit_test(the_piece_separator_in_a_text_comes_back),
		cmocka_unit_test(broken_tokenizer_json_is_refused),
		cmocka_unit_test(a_small_tokenizer_json_is_converted),
		cmocka_unit_test(form_c_is_part_of_the_pre_tokenizers_name),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
