// SPDX-License-Identifier: MIT
/*
 * Chat formats: the text of one conversation in each of them, which is written down here by the
 * formats' public definitions, and how templates are recognised.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "chat.h"
#include "tokenizer_fixture.h"

static struct fixture spm; /* BOS is <s>, which is put in front of texts; EOS is </s> */

static int open_all(void **state)
{
	static struct vocab v;

	vocab_begin_spm(&v);
	vocab_add(&v, "a", 1, -1);
	spm = fixture_make(&v, "llama", NULL);
	return 0;
}

static int close_all(void **state)
{
	fixture_close(&spm);
	return 0;
}

struct turn {
	const char *user, *answer;
};

/* The text of turns, of which the last one may lack its answer. */
static char *render(const struct chat *c, const struct turn *turns, size_t n)
{
	struct chat_text t = { 0 };
	char *text;

	chat_begin(c, &t);
	for (size_t i = 0; i < n; i++) {
		chat_user(c, &t, !i, turns[i].user, strlen(turns[i].user));
		if (!turns[i].answer)
			continue;
		chat_answer(c, &t, turns[i].answer, strlen(turns[i].answer));
		chat_close(c, &t, false);
	}
	assert_false(t.failed);
	text = strndup(t.bytes ? t.bytes : "", t.n);
	chat_text_free(&t);
	return text;
}

static void expect_text(const char *name, const char *system, const struct turn *turns, size_t n,
			const char *want)
{
	const struct chat c = {
		.tok = spm.tok,
		.format = chat_format_find(name),
		.system = system,
		.bos = true,
	};
	char *text;

	if (!c.format)
		fail_msg("there is no format %s", name);
	text = render(&c, turns, n);
	if (strcmp(text, want) != 0)
		fail_msg("%s:\n%s\nwanted:\n%s", name, text, want);
	free(text);
}

/* Two turns, with white space that some formats drop. */
static const struct turn turns[] = { { "Hi", " Ha " }, { " Bye ", NULL } };

static const struct {
	const char *name, *with_system, *without;
} texts[] = {
	{ "phi4",
	  "<|im_start|>system<|im_sep|>Sys<|im_end|><|im_start|>user<|im_sep|>Hi<|im_end|>"
	  "<|im_start|>assistant<|im_sep|> Ha <|im_end|><|im_start|>user<|im_sep|> Bye <|im_end|>"
	  "<|im_start|>assistant<|im_sep|>",
	  "<|im_start|>user<|im_sep|>Hi<|im_end|>"
	  "<|im_start|>assistant<|im_sep|> Ha <|im_end|><|im_start|>user<|im_sep|> Bye <|im_end|>"
	  "<|im_start|>assistant<|im_sep|>" },
	{ "smolvlm",
	  "<|im_start|>Sys\n\nUser: Hi<end_of_utterance>\nAssistant:  Ha <end_of_utterance>\n"
	  "User:  Bye <end_of_utterance>\nAssistant:",
	  "<|im_start|>User: Hi<end_of_utterance>\nAssistant:  Ha <end_of_utterance>\n"
	  "User:  Bye <end_of_utterance>\nAssistant:" },
	{ "smollm3",
	  "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\nReasoning Mode: "
	  "/think\n\n## Custom Instructions\n\nSys\n\n<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
	  "<|im_start|>assistant\n Ha <|im_end|>\n<|im_start|>user\n Bye <|im_end|>\n"
	  "<|im_start|>assistant\n",
	  "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\nReasoning Mode: "
	  "/think\n\n## Custom Instructions\n\n\n\n<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
	  "<|im_start|>assistant\n Ha <|im_end|>\n<|im_start|>user\n Bye <|im_end|>\n"
	  "<|im_start|>assistant\n" },
	{ "chatml",
	  "<|im_start|>system\nSys<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant"
	  "\n Ha <|im_end|>\n<|im_start|>user\n Bye <|im_end|>\n<|im_start|>assistant\n",
	  "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant"
	  "\n Ha <|im_end|>\n<|im_start|>user\n Bye <|im_end|>\n<|im_start|>assistant\n" },
	{ "mistral-v7",
	  "[SYSTEM_PROMPT] Sys[/SYSTEM_PROMPT][INST] Hi[/INST]  Ha </s>[INST]  Bye [/INST]",
	  "[INST] Hi[/INST]  Ha </s>[INST]  Bye [/INST]" },
	{ "mistral-v7-tekken",
	  "[SYSTEM_PROMPT]Sys[/SYSTEM_PROMPT][INST]Hi[/INST] Ha </s>[INST] Bye [/INST]",
	  "[INST]Hi[/INST] Ha </s>[INST] Bye [/INST]" },
	{ "mistral-v1", " [INST] Sys\n\nHi [/INST]  Ha </s> [INST]  Bye  [/INST]",
	  " [INST] Hi [/INST]  Ha </s> [INST]  Bye  [/INST]" },
	{ "mistral-v3-tekken", "[INST]Sys\n\nHi[/INST] Ha </s>[INST] Bye [/INST]",
	  "[INST]Hi[/INST] Ha </s>[INST] Bye [/INST]" },
	{ "mistral-v3", "[INST] Sys\n\nHi[/INST] Ha</s>[INST]  Bye [/INST]",
	  "[INST] Hi[/INST] Ha</s>[INST]  Bye [/INST]" },
	{ "llama2-sys-bos-strip",
	  "[INST] <<SYS>>\nSys\n<</SYS>>\n\nHi [/INST] Ha </s><s>[INST] Bye [/INST]",
	  "[INST] Hi [/INST] Ha </s><s>[INST] Bye [/INST]" },
	{ "llama2-sys-strip",
	  "[INST] <<SYS>>\nSys\n<</SYS>>\n\nHi [/INST] Ha </s>[INST] Bye [/INST]",
	  "[INST] Hi [/INST] Ha </s>[INST] Bye [/INST]" },
	{ "llama2-sys-bos",
	  "[INST] <<SYS>>\nSys\n<</SYS>>\n\nHi [/INST]  Ha  </s><s>[INST]  Bye  [/INST]",
	  "[INST] Hi [/INST]  Ha  </s><s>[INST]  Bye  [/INST]" },
	{ "llama2-sys", "[INST] <<SYS>>\nSys\n<</SYS>>\n\nHi [/INST]  Ha  </s>[INST]  Bye  [/INST]",
	  "[INST] Hi [/INST]  Ha  </s>[INST]  Bye  [/INST]" },
	{ "llama2", "[INST] Sys\nHi [/INST] Ha </s>[INST]  Bye  [/INST]",
	  "[INST] Hi [/INST] Ha </s>[INST]  Bye  [/INST]" },
	{ "llama3.1",
	  "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
	  "Today Date: 26 Jul 2024\n\nSys<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi"
	  "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHa<|eot_id|>"
	  "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
	  "<|start_header_id|>assistant<|end_header_id|>\n\n",
	  "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
	  "Today Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi"
	  "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHa<|eot_id|>"
	  "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
	  "<|start_header_id|>assistant<|end_header_id|>\n\n" },
	{ "llama3",
	  "<|start_header_id|>system<|end_header_id|>\n\nSys<|eot_id|>"
	  "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
	  "<|start_header_id|>assistant<|end_header_id|>\n\nHa<|eot_id|>"
	  "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
	  "<|start_header_id|>assistant<|end_header_id|>\n\n",
	  "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
	  "<|start_header_id|>assistant<|end_header_id|>\n\nHa<|eot_id|>"
	  "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
	  "<|start_header_id|>assistant<|end_header_id|>\n\n" },
	{ "llama4",
	  "<|header_start|>system<|header_end|>\n\nSys<|eot|>"
	  "<|header_start|>user<|header_end|>\n\nHi<|eot|>"
	  "<|header_start|>assistant<|header_end|>\n\nHa<|eot|>"
	  "<|header_start|>user<|header_end|>\n\nBye<|eot|>"
	  "<|header_start|>assistant<|header_end|>\n\n",
	  "<|header_start|>user<|header_end|>\n\nHi<|eot|>"
	  "<|header_start|>assistant<|header_end|>\n\nHa<|eot|>"
	  "<|header_start|>user<|header_end|>\n\nBye<|eot|>"
	  "<|header_start|>assistant<|header_end|>\n\n" },
	{ "gemma",
	  "<start_of_turn>user\nSys\n\nHi<end_of_turn>\n<start_of_turn>model\nHa<end_of_turn>\n"
	  "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n",
	  "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHa<end_of_turn>\n"
	  "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n" },
	{ "granite",
	  "<|start_of_role|>system<|end_of_role|>Sys<|end_of_text|>\n"
	  "<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n"
	  "<|start_of_role|>assistant<|end_of_role|> Ha <|end_of_text|>\n"
	  "<|start_of_role|>user<|end_of_role|> Bye <|end_of_text|>\n"
	  "<|start_of_role|>assistant<|end_of_role|>",
	  "<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n"
	  "<|start_of_role|>assistant<|end_of_role|> Ha <|end_of_text|>\n"
	  "<|start_of_role|>user<|end_of_role|> Bye <|end_of_text|>\n"
	  "<|start_of_role|>assistant<|end_of_role|>" },
	{ "command-r",
	  "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>Sys<|END_OF_TURN_TOKEN|>"
	  "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi<|END_OF_TURN_TOKEN|>"
	  "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Ha<|END_OF_TURN_TOKEN|>"
	  "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Bye<|END_OF_TURN_TOKEN|>"
	  "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
	  "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi<|END_OF_TURN_TOKEN|>"
	  "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Ha<|END_OF_TURN_TOKEN|>"
	  "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Bye<|END_OF_TURN_TOKEN|>"
	  "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>" },
	{ "phi3",
	  "<|system|>\nSys<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\n Ha <|end|>\n"
	  "<|user|>\n Bye <|end|>\n<|assistant|>\n",
	  "<|user|>\nHi<|end|>\n<|assistant|>\n Ha <|end|>\n"
	  "<|user|>\n Bye <|end|>\n<|assistant|>\n" },
	{ "zephyr",
	  "<|system|>\nSys</s>\n<|user|>\nHi</s>\n<|assistant|>\n Ha </s>\n"
	  "<|user|>\n Bye </s>\n<|assistant|>\n",
	  "<|user|>\nHi</s>\n<|assistant|>\n Ha </s>\n<|user|>\n Bye </s>\n<|assistant|>\n" },
	{ "olmo2",
	  "<|system|>\nSys\n<|user|>\nHi\n<|assistant|>\n Ha </s>\n<|user|>\n Bye \n"
	  "<|assistant|>\n",
	  "<|user|>\nHi\n<|assistant|>\n Ha </s>\n<|user|>\n Bye \n<|assistant|>\n" },
	{ "falcon3",
	  "<|system|>\nSys\n<|user|>\nHi\n<|assistant|>\n Ha </s>\n<|user|>\n Bye \n"
	  "<|assistant|>\n",
	  "<|user|>\nHi\n<|assistant|>\n Ha </s>\n<|user|>\n Bye \n<|assistant|>\n" },
	{ "monarch",
	  "system\nSys</s>\n<s>user\nHi</s>\n<s>assistant\n Ha </s>\n<s>user\n Bye </s>\n"
	  "<s>assistant\n",
	  "user\nHi</s>\n<s>assistant\n Ha </s>\n<s>user\n Bye </s>\n<s>assistant\n" },
	{ "orion", "Human: Sys\n\nHi\n\nAssistant: </s> Ha </s>Human:  Bye \n\nAssistant: </s>",
	  "Human: Hi\n\nAssistant: </s> Ha </s>Human:  Bye \n\nAssistant: </s>" },
	{ "openchat",
	  "Sys<|end_of_turn|>GPT4 Correct User: Hi<|end_of_turn|>GPT4 Correct Assistant:  Ha "
	  "<|end_of_turn|>GPT4 Correct User:  Bye <|end_of_turn|>GPT4 Correct Assistant:",
	  "GPT4 Correct User: Hi<|end_of_turn|>GPT4 Correct Assistant:  Ha "
	  "<|end_of_turn|>GPT4 Correct User:  Bye <|end_of_turn|>GPT4 Correct Assistant:" },
	{ "vicuna-orca", "SYSTEM: Sys\nUSER: Hi\nASSISTANT:  Ha </s>\nUSER:  Bye \nASSISTANT:",
	  "USER: Hi\nASSISTANT:  Ha </s>\nUSER:  Bye \nASSISTANT:" },
	{ "vicuna", "Sys\n\nUSER: Hi\nASSISTANT:  Ha </s>\nUSER:  Bye \nASSISTANT:",
	  "USER: Hi\nASSISTANT:  Ha </s>\nUSER:  Bye \nASSISTANT:" },
	{ "deepseek",
	  "Sys### Instruction:\nHi\n### Response:\n Ha \n<|EOT|>\n### Instruction:\n Bye \n"
	  "### Response:\n",
	  "### Instruction:\nHi\n### Response:\n Ha \n<|EOT|>\n### Instruction:\n Bye \n"
	  "### Response:\n" },
	{ "starcoder2",
	  "Sys\n\n### Instruction\nHi\n\n### Response\n Ha </s>\n\n### Instruction\n Bye \n\n"
	  "### Response\n",
	  "### Instruction\nHi\n\n### Response\n Ha </s>\n\n### Instruction\n Bye \n\n"
	  "### Response\n" },
	{ "minicpm", "Sys<\u7528\u6237>Hi<AI>Ha<\u7528\u6237>Bye<AI>",
	  "<\u7528\u6237>Hi<AI>Ha<\u7528\u6237>Bye<AI>" },
	{ "deepseek2", "Sys\n\nUser: Hi\n\nAssistant:  Ha </s>User:  Bye \n\nAssistant:",
	  "User: Hi\n\nAssistant:  Ha </s>User:  Bye \n\nAssistant:" },
	{ "deepseek3",
	  "Sys<\uff5cUser\uff5c>Hi<\uff5cAssistant\uff5c> Ha "
	  "<\uff5cend\u2581of\u2581sentence\uff5c>"
	  "<\uff5cUser\uff5c> Bye <\uff5cAssistant\uff5c>",
	  "<\uff5cUser\uff5c>Hi<\uff5cAssistant\uff5c> Ha <\uff5cend\u2581of\u2581sentence\uff5c>"
	  "<\uff5cUser\uff5c> Bye <\uff5cAssistant\uff5c>" },
	{ "exaone3",
	  "[|system|]Sys[|endofturn|]\n[|user|]Hi\n[|assistant|]Ha[|endofturn|]\n[|user|]Bye\n"
	  "[|assistant|]",
	  "[|user|]Hi\n[|assistant|]Ha[|endofturn|]\n[|user|]Bye\n[|assistant|]" },
	{ "gigachat",
	  "Sys<|message_sep|>user<|role_sep|>Hi<|message_sep|>available functions<|role_sep|>[]"
	  "<|message_sep|>assistant<|role_sep|> Ha <|message_sep|>user<|role_sep|> Bye "
	  "<|message_sep|>available functions<|role_sep|>[]<|message_sep|>assistant<|role_sep|>",
	  "user<|role_sep|>Hi<|message_sep|>available functions<|role_sep|>[]"
	  "<|message_sep|>assistant<|role_sep|> Ha <|message_sep|>user<|role_sep|> Bye "
	  "<|message_sep|>available functions<|role_sep|>[]<|message_sep|>assistant<|role_sep|>" },
	{ "megrez",
	  "<|role_start|>system<|role_end|>Sys<|turn_end|><|role_start|>user<|role_end|>Hi"
	  "<|turn_end|><|role_start|>assistant<|role_end|> Ha <|turn_end|>"
	  "<|role_start|>user<|role_end|> Bye <|turn_end|><|role_start|>assistant<|role_end|>",
	  "<|role_start|>user<|role_end|>Hi"
	  "<|turn_end|><|role_start|>assistant<|role_end|> Ha <|turn_end|>"
	  "<|role_start|>user<|role_end|> Bye <|turn_end|><|role_start|>assistant<|role_end|>" },
	{ "phi2", "Sys\nInstruct: Hi\nOutput:  Ha </s>\nInstruct:  Bye \nOutput:",
	  "Instruct: Hi\nOutput:  Ha </s>\nInstruct:  Bye \nOutput:" },
};
#define N_TEXTS (sizeof(texts) / sizeof(texts[0]))

static void test_the_text_of_a_conversation_in_each_format(void **state)
{
	size_t n = 0;

	while (chat_format_at(n))
		n++;
	assert_int_equal(n, N_TEXTS);
	for (size_t i = 0; i < N_TEXTS; i++) {
		expect_text(texts[i].name, "Sys", turns, 2, texts[i].with_system);
		expect_text(texts[i].name, NULL, turns, 2, texts[i].without);
	}
	assert_null(chat_format_find("chatm"));
	assert_null(chat_format_find(""));
}

static void test_white_space_and_empty_messages(void **state)
{
	static const struct turn odd[] = { { "\n\t Hi\v\f\r\n", "" }, { "", NULL } };

	expect_text(
		"gemma", " \n", odd, 2,
		"<start_of_turn>user\n\n\nHi<end_of_turn>\n<start_of_turn>model\n<end_of_turn>\n"
		"<start_of_turn>user\n<end_of_turn>\n<start_of_turn>model\n");
	expect_text("phi3", NULL, odd, 2,
		    "<|user|>\n\n\t Hi\v\f\r\n<|end|>\n<|assistant|>\n<|end|>\n<|user|>\n<|end|>\n"
		    "<|assistant|>\n");
	expect_text("chatml", NULL, NULL, 0, "");
}

/* ---- recognition ---- */

static void expect_recognised(const char *text, const char *name, bool bos, const char *system)
{
	struct chat_template t;
	int err = chat_format_recognise(text, strlen(text), &t);

	if (!name) {
		assert_int_equal(err, -ENOENT);
		assert_null(t.format);
		return;
	}
	assert_int_equal(err, 0);
	if (strcmp(t.format->name, name) != 0)
		fail_msg("%s, not %s: %s", t.format->name, name, text);
	assert_int_equal(t.bos, bos);
	if (system)
		assert_string_equal(t.own_system, system);
	else if (t.own_system)
		fail_msg("%s: '%s'", name, t.own_system);
	free(t.own_system);
}

static void test_a_row_is_not_hidden_by_one_before_it(void **state)
{
	const struct chat_format *f;
	struct chat_template t;
	char marks[512];

	for (size_t i = 0; (f = chat_format_at(i)); i++) {
		int n = 0;

		for (size_t m = 0; m < CHAT_MARKS && f->marks[m]; m++)
			n += snprintf(marks + n, sizeof(marks) - (size_t)n, "%s|", f->marks[m]);
		if (!n)
			continue;
		assert_int_equal(chat_format_recognise(marks, (size_t)n, &t), 0);
		assert_string_equal(t.format->name, f->name);
		free(t.own_system);
	}
}

/* Templates as models have them, shortened to what they do for a plain conversation. */
static void test_templates_are_recognised(void **state)
{
	expect_recognised("{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content "
			  "+ '<|im_end|>' + '\\n' }}{%- endfor %}{{- '<|im_start|>assistant\\n' }}",
			  "chatml", false, NULL);
	expect_recognised("{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m['role'] + "
			  "'\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}",
			  "chatml", true, NULL);
	expect_recognised(
		"{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>' + role + '\n' "
		"+ m['content'] | trim + '<end_of_turn>\n' }}{% endfor %}",
		"gemma", true, NULL);
	expect_recognised("{{ '<|user|>\n' + message['content'] + eos_token }}\n"
			  "{{ '<|assistant|>' }}",
			  "zephyr", false, NULL);
	expect_recognised("{{ bos_token }}{{ '<|user|>\\n' + message['content'] + '\\n' }}"
			  "{{ '<|assistant|>\\n'  + message['content'] + eos_token }}",
			  "olmo2", true, NULL);
	expect_recognised("{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
			  "{% set content = '<<SYS>>\\n' + s + '\\n<</SYS>>\\n\\n' %}",
			  "llama2-sys-bos-strip", true, NULL);
	expect_recognised("{{ '[INST] ' + message['content'] + ' [/INST]' }}", "llama2", true,
			  NULL);
	expect_recognised("", NULL, false, NULL);
	expect_recognised("{{ message['content'] }}", NULL, false, NULL);
	expect_recognised("chatml", NULL, false, NULL);
}

static void test_a_templates_own_system_text(void **state)
{
	expect_recognised("{%- if tools %}{{- '<|im_start|>system\\n' }}{%- elif s %}"
			  "{{- '<|im_start|>system\\n' + s + '<|im_end|>\\n' }}{%- else %}"
			  "{{- '<|im_start|>system\\nYou are a model.<|im_end|>\\n' }}{%- endif %}",
			  "chatml", false, "You are a model.");
	expect_recognised("{{ '<|im_start|>system\nYou\nare<|im_end|>\n<|im_start|>user\n' }}",
			  "chatml", false, "You\nare");
	/* Where it stands on its own, its beginning is known. */
	expect_recognised("{{ \"<|im_start|>system\\nReasoning Mode: \" + mode }}"
			  "{{ \"## Custom Instructions\\n\\n\" }}"
			  "{{ \"You are a helpful AI assistant named SmolLM. It's so.\\n\\n\" }}",
			  "smollm3", false,
			  "You are a helpful AI assistant named SmolLM. It's so.");
	expect_recognised("{{ '<|im_start|>Reasoning Mode: ## Custom Instructions' }}"
			  "{{ 'You are a helpful AI assistant named SmolLM",
			  "smollm3", false, NULL);
	expect_recognised("<|im_start|>Reasoning Mode: ## Custom Instructions"
			  "You are a helpful AI assistant named SmolLM'",
			  "smollm3", false, NULL);
	/* It ends with the file, in another literal, or at once. */
	expect_recognised("<|im_end|>{{ '<|im_start|>system\nYou", "chatml", false, NULL);
	expect_recognised("{{ '<|im_start|>system\nYou' + x + '<|im_end|>' }}", "chatml", false,
			  NULL);
	expect_recognised("{{ '<|im_start|>system\n<|im_end|>' }}", "chatml", false, NULL);
}

static void expect_opening(const char *text, const char *name, const char *opening)
{
	struct chat_template t;

	assert_int_equal(chat_format_recognise(text, strlen(text), &t), 0);
	assert_string_equal(t.format->name, name);
	if (opening ? !t.opening || strcmp(t.opening, opening) != 0 : !!t.opening)
		fail_msg("'%s', not '%s': %s", t.opening, opening, text);
	free(t.own_system);
}

/* R1's and QwQ's as their files have them, and templates that only speak of thoughts. */
static void test_templates_that_open_thoughts(void **state)
{
	expect_opening(
		"{{'<\uff5cUser\uff5c>' + m['content']}}{{'<\uff5cAssistant\uff5c>' + content + "
		"'<\uff5cend\u2581of\u2581sentence\uff5c>'}}{% if add_generation_prompt and not "
		"ns.is_tool %}{{'<\uff5cAssistant\uff5c><think>\\n'}}{% endif %}",
		"deepseek3", "<think>\n");
	expect_opening("{{- '<|im_start|>assistant\n' + m.content + '<|im_end|>' }}"
		       "{%- if add_generation_prompt %}{{- \"<|im_start|>assistant\\n<think>\" }}",
		       "chatml", "<think>");
	expect_opening("{{- '<|im_start|>' + m.role + '\n<think>\n' + m.reasoning_content }}"
		       "{{- '<|im_end|>' }}{{- '<|im_start|>assistant\n' }}"
		       "{%- if not enable_thinking %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}",
		       "chatml", NULL);
	expect_opening("{{- '<|im_start|>assistant\n<think>\n\n</think>\n\n<|im_end|>' }}",
		       "chatml", NULL);
	expect_opening("<|im_end|>{{- '<|im_start|>assistant\n<think>", "chatml", NULL);
	/* A format without a piece there. */
	expect_opening("{{ '[INST]' }}{{ '<think>' }}", "llama2", NULL);
}

static void test_an_opening_is_in_front_of_each_answer_once(void **state)
{
	static const struct turn with[] = { { "Hi", "<think>\nHm</think>Ha" }, { "Bye", NULL } },
				 without[] = { { "Hi", "Hm</think>Ha" }, { "Bye", NULL } };
	const struct chat c = {
		.tok = spm.tok,
		.format = chat_format_find("chatml"),
		.opening = "<think>\n",
	};

	for (int i = 0; i < 2; i++) {
		char *text = render(&c, i ? with : without, 2);

		assert_string_equal(
			text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n"
			      "Hm</think>Ha<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
			      "<|im_start|>assistant\n<think>\n");
		free(text);
	}
}

static void test_a_template_with_nuls_and_backslashes(void **state)
{
	static const char text[] = "\0\\<|im_start|>\0<|im_end|>\\";
	struct chat_template t;

	assert_int_equal(chat_format_recognise(text, sizeof(text) - 1, &t), 0);
	assert_string_equal(t.format->name, "chatml");
	assert_int_equal(chat_format_recognise(text, 4, &t), -ENOENT);
	assert_int_equal(chat_format_recognise(text, 0, &t), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_text_of_a_conversation_in_each_format),
		cmocka_unit_test(test_white_space_and_empty_messages),
		cmocka_unit_test(test_a_row_is_not_hidden_by_one_before_it),
		cmocka_unit_test(test_templates_are_recognised),
		cmocka_unit_test(test_a_templates_own_system_text),
		cmocka_unit_test(test_templates_that_open_thoughts),
		cmocka_unit_test(test_an_opening_is_in_front_of_each_answer_once),
		cmocka_unit_test(test_a_template_with_nuls_and_backslashes),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
