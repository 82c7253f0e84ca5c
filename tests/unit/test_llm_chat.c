// SPDX-License-Identifier: MIT
/* The interface of llm_chat.h: the embedded model, which has no template, and one that has. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "llm_chat.h"
#include "llm_open.h"
#include "llm_refs.h"
#include "tiny_model.h"

static char model[512];
static struct llm_engine *engine;

static int open_all(void **state)
{
	engine = ref_open(ref_embedded(model, sizeof(model)), LLM_PLACE_CPU, 1, 0);
	return 0;
}

static int close_all(void **state)
{
	llm_engine_close(engine);
	return 0;
}

static struct llm_chat *open_chat(struct llm_engine *e, const char *format, const char *system)
{
	const struct llm_chat_options o = { .format = format, .system = system };
	struct llm_chat *chat;

	if (llm_chat_create(e, &o, &chat))
		fail_msg("%s", llm_error());
	return chat;
}

static void expect_none(struct llm_engine *e, const char *format, int err, const char *word)
{
	const struct llm_chat_options o = { .format = format };
	struct llm_chat *chat = (struct llm_chat *)1;

	assert_int_equal(llm_chat_create(e, format ? &o : NULL, &chat), err);
	assert_null(chat);
	if (!strstr(llm_error(), word))
		fail_msg("no '%s' in: %s", word, llm_error());
}

static void expect_render(const struct llm_chat *chat, const struct llm_chat_turn *turns, size_t n,
			  const char *want)
{
	char text[512];
	long bytes = llm_chat_render(chat, turns, n, text, sizeof(text) - 1);

	assert_in_range(bytes, 0, sizeof(text) - 1);
	text[bytes] = '\0';
	assert_string_equal(text, want);
	/* What does not fit is counted. */
	memset(text, 'x', sizeof(text));
	assert_int_equal(llm_chat_render(chat, turns, n, text, 3), bytes);
	assert_memory_equal(text, want, bytes < 3 ? bytes : 3);
	assert_int_equal(text[3], 'x');
	assert_int_equal(llm_chat_render(chat, turns, n, NULL, 0), bytes);
}

static void test_names_and_recognition(void **state)
{
	size_t bytes, n = 0;
	const char *name;

	while ((name = llm_chat_format_name(n))) {
		struct llm_chat *chat = open_chat(engine, name, NULL);

		assert_string_equal(llm_chat_format(chat), name);
		llm_chat_free(chat);
		n++;
	}
	assert_in_range(n, 30, 100);
	assert_string_equal(llm_chat_recognise("<start_of_turn>", 15), "gemma");
	assert_null(llm_chat_recognise("<start_of_turn>", 14));
	assert_null(llm_chat_template(engine, &bytes));
	llm_chat_free(NULL);
}

static void test_formats_that_are_not_known(void **state)
{
	expect_none(engine, NULL, -ENOENT, "docs6m-q8_0.gguf: no tokenizer.chat_template");
	expect_none(engine, "nope\nand more", -EINVAL, "'nope' is neither the name");
	expect_none(engine, "nope", -EINVAL, "chatml, mistral");
	expect_none(engine, "", -EINVAL, "there are phi4, ");
}

static void test_a_text_of_turns(void **state)
{
	struct llm_chat *chat = open_chat(engine, "zephyr", "S");
	struct llm_chat_turn turns[] = { { "a", 1, "b", 1 }, { "cd", 2, NULL, 0 } };
	char text[128];

	expect_render(chat, turns, 0, "<|system|>\nS</s>\n");
	expect_render(chat, turns, 1, "<|system|>\nS</s>\n<|user|>\na</s>\n<|assistant|>\nb</s>\n");
	expect_render(chat, turns, 2,
		      "<|system|>\nS</s>\n<|user|>\na</s>\n<|assistant|>\nb</s>\n"
		      "<|user|>\ncd</s>\n<|assistant|>\n");
	turns[0].answer = NULL;
	assert_int_equal(llm_chat_render(chat, turns, 2, text, sizeof(text)), -EINVAL);
	assert_non_null(strstr(llm_error(), "turn 1 of 2 has no answer"));
	llm_chat_free(chat);
}

/* The tokens of turns, one after the other, are those of the text. */
static void expect_turn(const struct llm_chat *chat, const char *text, const char *want)
{
	int32_t ids[128], wanted[128];
	long n = llm_chat_user(chat, text, strlen(text), ids, 128);
	long n_want = llm_tokenize(engine, want, strlen(want),
				   LLM_TOKENIZE_BOS | LLM_TOKENIZE_SPECIAL, wanted, 128);

	/* A later turn begins with a control token, in front of which a text has BOS. */
	bool later = *want == '<' && want[1] == '/';

	assert_in_range(n, 1, 128);
	assert_int_equal(n, n_want - later);
	assert_memory_equal(ids, wanted + later, (size_t)n * sizeof(*ids));
	/* The chat has not changed, and ids beyond the array's size are counted. */
	memset(ids, 0xff, sizeof(ids));
	assert_int_equal(llm_chat_user(chat, text, strlen(text), ids, 2), n);
	assert_memory_equal(ids, wanted + later, 2 * sizeof(*ids));
	assert_int_equal(ids[2], -1);
	assert_int_equal(llm_chat_user(chat, text, strlen(text), NULL, 0), n);
}

static void test_the_tokens_of_turns(void **state)
{
	struct llm_chat *chat = open_chat(engine, "zephyr", NULL);
	struct llm_generate_result result = { .ended = LLM_ENDED_TOKEN, .last = 2 };
	static const char second[] = "</s>\n<|user|>\nWhich pages</s>\n<|assistant|>\n";
	int32_t ids[128], cut[128];
	long n;

	expect_turn(chat, "The kernel", "<|user|>\nThe kernel</s>\n<|assistant|>\n");
	llm_chat_answered(chat, &result);
	expect_turn(chat, "Which pages", second);
	n = llm_chat_user(chat, "Which pages", 11, ids, 128);
	/* Of a cut answer, the session lacks the last token. */
	result = (struct llm_generate_result){ .ended = LLM_ENDED_MAX, .last = 77 };
	llm_chat_answered(chat, &result);
	assert_int_equal(llm_chat_user(chat, "Which pages", 11, cut, 128), n + 1);
	assert_int_equal(cut[0], 77);
	assert_memory_equal(cut + 1, ids, (size_t)n * sizeof(*ids));
	cut[0] = -1;
	assert_int_equal(llm_chat_user(chat, "Which pages", 11, cut, 1), n + 1);
	assert_int_equal(cut[0], 77);
	/* No token was generated. */
	result = (struct llm_generate_result){ .ended = LLM_ENDED_MAX, .last = -1 };
	llm_chat_answered(chat, &result);
	expect_turn(chat, "Which pages", second);
	llm_chat_free(chat);
}

static void test_turns_end_with_the_templates_opening(void **state)
{
	struct llm_chat *chat = open_chat(engine, "zephyr", NULL);
	struct llm_generate_result result = { .ended = LLM_ENDED_TOKEN, .last = 2 };
	const struct llm_chat_turn turn = { "a", 1, NULL, 0 };

	assert_string_equal(llm_chat_opening(chat), "");
	llm_chat_free(chat);
	chat = open_chat(engine,
			 "{{ '<|user|>\n' + message['content'] + eos_token }}"
			 "{{ '<|assistant|>\n<think>\n' }}",
			 NULL);
	assert_string_equal(llm_chat_opening(chat), "<think>\n");
	expect_render(chat, &turn, 1, "<|user|>\na</s>\n<|assistant|>\n<think>\n");
	expect_turn(chat, "The kernel", "<|user|>\nThe kernel</s>\n<|assistant|>\n<think>\n");
	llm_chat_answered(chat, &result);
	expect_turn(chat, "Why", "</s>\n<|user|>\nWhy</s>\n<|assistant|>\n<think>\n");
	llm_chat_free(chat);
}

static void test_no_bos(void **state)
{
	const struct llm_chat_options o = { .format = "zephyr", .no_bos = true };
	struct llm_chat *chat, *with = open_chat(engine, "zephyr", NULL);
	int32_t ids[64], wanted[64];
	long n;

	assert_int_equal(llm_chat_create(engine, &o, &chat), 0);
	n = llm_chat_user(chat, "a", 1, ids, 64);
	assert_int_equal(llm_chat_user(with, "a", 1, wanted, 64), n + 1);
	assert_int_equal(wanted[0], llm_engine_info(engine)->bos);
	assert_memory_equal(ids, wanted + 1, (size_t)n * sizeof(*ids));
	llm_chat_free(with);
	llm_chat_free(chat);
}

/* A chat evaluates nothing twice, and its logits are those of the whole conversation. */
static void test_a_conversation_in_a_session(void **state)
{
	struct llm_session *s = new_session(engine, 256), *whole = new_session(engine, 256);
	struct llm_chat *chat = open_chat(engine, "zephyr", NULL);
	const struct llm_generate_options opts = { .max_tokens = 5 };
	unsigned int n_vocab = llm_engine_info(engine)->n_vocab;
	int32_t ids[256], all[256], answer[5];
	size_t n_all = 0;

	for (unsigned int turn = 0; turn < 3; turn++) {
		struct llm_generate_options o = opts;
		struct llm_generate_result result;
		long n = llm_chat_user(chat, "The kernel allocates", 20, ids, 256);

		o.ids = answer;
		memcpy(all + n_all, ids, (size_t)n * sizeof(*ids));
		n_all += (size_t)n;
		assert_int_equal(llm_session_n_past(s) + n, n_all);
		assert_int_equal(llm_generate(s, ids, (size_t)n, &o, &result), 0);
		llm_chat_answered(chat, &result);
		/* The last token is the next turn's first. */
		memcpy(all + n_all, answer, result.n_tokens * sizeof(*ids));
		n_all += result.n_tokens - (result.ended != LLM_ENDED_TOKEN);
	}
	assert_int_equal(llm_session_n_past(s), n_all);
	assert_int_equal(llm_session_eval(whole, all, n_all), 0);
	for (unsigned int i = 0; i < n_vocab; i++)
		assert_float_equal(llm_session_logits(s)[i], llm_session_logits(whole)[i], 1e-3f);
	llm_chat_free(chat);
	llm_session_free(whole);
	llm_session_free(s);
}

static void test_a_models_own_template(void **state)
{
	static const struct tiny_config c = { "llama",
					      1,
					      2 * 32,
					      2,
					      2,
					      32,
					      64,
					      64,
					      64,
					      32,
					      .eps = 1e-5,
					      .freq_base = 10000,
					      .rope_scale = 1 };
	static const char text[] = "{{ '<|im_start|>system\\nBe brief.<|im_end|>\\n' }}";
	const struct llm_chat_turn hi = { "hi", 2, NULL, 0 };
	struct tiny_model tiny;
	struct llm_engine *e;
	struct llm_chat *chat;
	size_t bytes;

	tiny_create(&tiny, &c, 1);
	tiny_key(&tiny, "tokenizer.chat_template", 's', 0, text);
	e = ref_open(tiny_write(&tiny), LLM_PLACE_CPU, 1, 0);
	assert_memory_equal(llm_chat_template(e, &bytes), text, sizeof(text) - 1);
	assert_int_equal(bytes, sizeof(text) - 1);
	assert_int_equal(llm_chat_create(e, NULL, &chat), 0);
	assert_string_equal(llm_chat_format(chat), "chatml");
	expect_render(chat, &hi, 1,
		      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
		      "<|im_start|>assistant\n");
	llm_chat_free(chat);
	chat = open_chat(e, NULL, "Be long.");
	expect_render(chat, &hi, 0, "<|im_start|>system\nBe long.<|im_end|>\n");
	llm_chat_free(chat);
	chat = open_chat(e, NULL, "");
	expect_render(chat, &hi, 0, "");
	llm_chat_free(chat);
	llm_engine_close(e);
	tiny_key(&tiny, "tokenizer.chat_template", 's', 0, "{{ messages }}");
	e = ref_open(tiny_write(&tiny), LLM_PLACE_CPU, 1, 0);
	expect_none(e, NULL, -ENOTSUP, "tokenizer.chat_template has none of the chat formats");
	llm_engine_close(e);
	tiny_free(&tiny);
}

static void test_a_shape_has_no_chat(void **state)
{
	const struct llm_options o = { .shape = "llama3-8b",
				       .dry_run = true,
				       .profile = "sd8gen3" };
	struct llm_engine *e = open_engine(&o);
	size_t bytes;

	expect_none(e, "chatml", -ENOTSUP, "no vocabulary");
	assert_null(llm_chat_template(e, &bytes));
	llm_engine_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_and_recognition),
		cmocka_unit_test(test_formats_that_are_not_known),
		cmocka_unit_test(test_a_text_of_turns),
		cmocka_unit_test(test_the_tokens_of_turns),
		cmocka_unit_test(test_turns_end_with_the_templates_opening),
		cmocka_unit_test(test_no_bos),
		cmocka_unit_test(test_a_conversation_in_a_session),
		cmocka_unit_test(test_a_models_own_template),
		cmocka_unit_test(test_a_shape_has_no_chat),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
