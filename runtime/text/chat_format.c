// SPDX-License-Identifier: MIT
/* The table of chat formats: see chat_format.h. */
#include "chat_format.h"

#include <string.h>

#define LLAMA2_SYSTEM \
	.system = { "<<SYS>>\n", "\n<</SYS>>\n\n" }, .system_inside = true, .lead = " ", .tail = " "

/* The marks of a row may be among those of rows behind it, never the other way round. */
static const struct chat_format formats[] = {
	{ "phi4", .marks = { "<|im_start|>", "<|im_sep|>" },
	  .system = { "<|im_start|>system<|im_sep|>", "<|im_end|>" },
	  .user = { "<|im_start|>user<|im_sep|>", "<|im_end|>" },
	  .answer = { "<|im_start|>assistant<|im_sep|>", "<|im_end|>" } },
	{ "smolvlm", .marks = { "<|im_start|>", "<end_of_utterance>" }, .start = "<|im_start|>",
	  .system = { NULL, "\n\n" }, .user = { "User: ", "<end_of_utterance>\n" },
	  .answer = { "Assistant:", "<end_of_utterance>\n" }, .lead = " " },
	{ "smollm3", .marks = { "<|im_start|>", "Reasoning Mode: ", "## Custom Instructions" },
	  .system = { "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\n"
		      "Reasoning Mode: /think\n\n## Custom Instructions\n\n",
		      "\n\n<|im_end|>\n" },
	  .user = { "<|im_start|>user\n", "<|im_end|>\n" },
	  .answer = { "<|im_start|>assistant\n", "<|im_end|>\n" },
	  .own_system = "You are a helpful AI assistant named SmolLM", .system_always = true },
	{ "chatml", .marks = { "<|im_start|>", "<|im_end|>" },
	  .system = { "<|im_start|>system\n", "<|im_end|>\n" },
	  .user = { "<|im_start|>user\n", "<|im_end|>\n" },
	  .answer = { "<|im_start|>assistant\n", "<|im_end|>\n" } },

	{ "mistral-v7", .marks = { "[INST] ", "[SYSTEM_PROMPT] " },
	  .system = { "[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]" }, .user = { "[INST] ", "[/INST]" },
	  .answer = { NULL, CHAT_EOS }, .lead = " ", .bos = true },
	{ "mistral-v7-tekken", .marks = { "[INST]", "[SYSTEM_PROMPT]" },
	  .system = { "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]" }, .user = { "[INST]", "[/INST]" },
	  .answer = { NULL, CHAT_EOS }, .bos = true },
	{ "mistral-v1", .marks = { "' [INST] '" }, .system = { NULL, "\n\n" },
	  .user = { " [INST] ", " [/INST]" }, .answer = { NULL, CHAT_EOS }, .lead = " ",
	  .system_inside = true, .bos = true },
	{ "mistral-v3-tekken", .marks = { "\"[INST]\"", "[AVAILABLE_TOOLS]" },
	  .system = { NULL, "\n\n" }, .user = { "[INST]", "[/INST]" }, .answer = { NULL, CHAT_EOS },
	  .system_inside = true, .bos = true },
	{ "mistral-v3", .marks = { "[INST]", "[AVAILABLE_TOOLS]" }, .system = { NULL, "\n\n" },
	  .user = { "[INST] ", "[/INST]" }, .answer = { NULL, CHAT_EOS }, .lead = " ",
	  .system_inside = true, .trims_answers = true, .bos = true },
	/* Meta's own: BOS in front of each turn, and no white space around texts. */
	{ "llama2-sys-bos-strip", .marks = { "<<SYS>>", "content.strip()", "bos_token + '[INST]" },
	  LLAMA2_SYSTEM, .user = { CHAT_BOS "[INST] ", " [/INST]" }, .answer = { NULL, CHAT_EOS },
	  .trims = true, .bos = true },
	{ "llama2-sys-strip", .marks = { "[INST]", "<<SYS>>", "content.strip()" }, LLAMA2_SYSTEM,
	  .user = { "[INST] ", " [/INST]" }, .answer = { NULL, CHAT_EOS }, .trims = true,
	  .bos = true },
	{ "llama2-sys-bos", .marks = { "<<SYS>>", "bos_token + '[INST]" }, LLAMA2_SYSTEM,
	  .user = { CHAT_BOS "[INST] ", " [/INST]" }, .answer = { NULL, CHAT_EOS }, .bos = true },
	{ "llama2-sys", .marks = { "[INST]", "<<SYS>>" }, LLAMA2_SYSTEM,
	  .user = { "[INST] ", " [/INST]" }, .answer = { NULL, CHAT_EOS }, .bos = true },
	/* The first Mistral Instruct's, too. */
	{ "llama2", .marks = { "[INST]" }, .system = { NULL, "\n" },
	  .user = { "[INST] ", " [/INST]" }, .answer = { NULL, CHAT_EOS }, .system_inside = true,
	  .bos = true },

	/* 3.1 to 3.3: the date is the one in their templates. */
	{ "llama3.1", .marks = { "<|start_header_id|>", "Cutting Knowledge Date: December 2023" },
	  .system = { "<|start_header_id|>system<|end_header_id|>\n\n"
		      "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n",
		      "<|eot_id|>" },
	  .user = { "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>" },
	  .answer = { "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>" },
	  .system_always = true, .trims = true, .bos = true },
	{ "llama3", .marks = { "<|start_header_id|>", "<|end_header_id|>" },
	  .system = { "<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>" },
	  .user = { "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>" },
	  .answer = { "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>" },
	  .trims = true, .bos = true },
	{ "llama4", .marks = { "<|header_start|>", "<|header_end|>" },
	  .system = { "<|header_start|>system<|header_end|>\n\n", "<|eot|>" },
	  .user = { "<|header_start|>user<|header_end|>\n\n", "<|eot|>" },
	  .answer = { "<|header_start|>assistant<|header_end|>\n\n", "<|eot|>" }, .trims = true,
	  .bos = true },
	{ "gemma", .marks = { "<start_of_turn>" }, .system = { NULL, "\n\n" },
	  .user = { "<start_of_turn>user\n", "<end_of_turn>\n" },
	  .answer = { "<start_of_turn>model\n", "<end_of_turn>\n" }, .system_inside = true,
	  .trims = true, .bos = true },
	{ "granite", .marks = { "<|start_of_role|>", "<|end_of_role|>" },
	  .system = { "<|start_of_role|>system<|end_of_role|>", "<|end_of_text|>\n" },
	  .user = { "<|start_of_role|>user<|end_of_role|>", "<|end_of_text|>\n" },
	  .answer = { "<|start_of_role|>assistant<|end_of_role|>", "<|end_of_text|>\n" } },
	{ "command-r", .marks = { "<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>" },
	  .system = { "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>" },
	  .user = { "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>" },
	  .answer = { "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>" },
	  .trims = true, .bos = true },

	{ "phi3", .marks = { "<|assistant|>", "<|end|>" },
	  .system = { "<|system|>\n", "<|end|>\n" }, .user = { "<|user|>\n", "<|end|>\n" },
	  .answer = { "<|assistant|>\n", "<|end|>\n" } },
	/* StableLM's too, whose EOS is another. */
	{ "zephyr", .marks = { "<|user|>\n' + message['content'] + eos_token", "<|assistant|>" },
	  .system = { "<|system|>\n", CHAT_EOS "\n" }, .user = { "<|user|>\n", CHAT_EOS "\n" },
	  .answer = { "<|assistant|>\n", CHAT_EOS "\n" } },
	{ "olmo2",
	  .marks = { "<|user|>\n' + message['content'] + '\n", "<|assistant|>", "bos_token" },
	  .system = { "<|system|>\n", "\n" }, .user = { "<|user|>\n", "\n" },
	  .answer = { "<|assistant|>\n", CHAT_EOS "\n" }, .bos = true },
	{ "falcon3", .marks = { "<|user|>\n' + message['content'] + '\n", "<|assistant|>" },
	  .system = { "<|system|>\n", "\n" }, .user = { "<|user|>\n", "\n" },
	  .answer = { "<|assistant|>\n", CHAT_EOS "\n" } },
	{ "monarch", .marks = { "bos_token + message['role']" },
	  .system = { CHAT_BOS "system\n", CHAT_EOS "\n" },
	  .user = { CHAT_BOS "user\n", CHAT_EOS "\n" },
	  .answer = { CHAT_BOS "assistant\n", CHAT_EOS "\n" }, .bos = true },
	{ "orion", .marks = { "\n\nAssistant: ' + eos_token" }, .system = { NULL, "\n\n" },
	  .user = { "Human: ", "\n\nAssistant: " CHAT_EOS }, .answer = { NULL, CHAT_EOS },
	  .system_inside = true, .bos = true },
	{ "openchat", .marks = { "GPT4 Correct ", "<|end_of_turn|>" },
	  .system = { NULL, "<|end_of_turn|>" },
	  .user = { "GPT4 Correct User: ", "<|end_of_turn|>" },
	  .answer = { "GPT4 Correct Assistant:", "<|end_of_turn|>" }, .lead = " ", .bos = true },
	{ "vicuna-orca", .marks = { "USER: ", "ASSISTANT:", "SYSTEM: " },
	  .system = { "SYSTEM: ", "\n" }, .user = { "USER: ", "\n" },
	  .answer = { "ASSISTANT:", CHAT_EOS "\n" }, .lead = " " },
	{ "vicuna", .marks = { "USER: ", "ASSISTANT:" }, .system = { NULL, "\n\n" },
	  .user = { "USER: ", "\n" }, .answer = { "ASSISTANT:", CHAT_EOS "\n" }, .lead = " " },
	{ "deepseek", .marks = { "### Instruction:", "<|EOT|>" },
	  .user = { "### Instruction:\n", "\n" }, .answer = { "### Response:\n", "<|EOT|>\n" },
	  .tail = "\n", .bos = true },
	{ "starcoder2", .marks = { "### Instruction\n", "### Response\n" },
	  .system = { NULL, "\n\n" }, .user = { "### Instruction\n", "\n\n" },
	  .answer = { "### Response\n", CHAT_EOS "\n\n" },
	  .own_system = "You are an exceptionally intelligent coding assistant", .bos = true },
	{ "minicpm", .marks = { "<\u7528\u6237>" }, .user = { "<\u7528\u6237>", "<AI>" },
	  .trims = true },
	{ "deepseek2", .marks = { "'Assistant: ' + message['content'] + eos_token" },
	  .system = { NULL, "\n\n" }, .user = { "User: ", "\n\n" },
	  .answer = { "Assistant:", CHAT_EOS }, .lead = " ", .bos = true },
	{ "deepseek3", .marks = { "<\uff5cAssistant\uff5c>", "<\uff5cUser\uff5c>" },
	  .user = { "<\uff5cUser\uff5c>", NULL },
	  .answer = { "<\uff5cAssistant\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>" },
	  .bos = true },
	{ "exaone3", .marks = { "[|system|]", "[|assistant|]", "[|endofturn|]" },
	  .system = { "[|system|]", "[|endofturn|]\n" }, .user = { "[|user|]", "\n" },
	  .answer = { "[|assistant|]", "[|endofturn|]\n" }, .trims = true },
	{ "gigachat", .marks = { "'available functions' + additional_special_tokens" },
	  .system = { NULL, "<|message_sep|>" },
	  .user = { "user<|role_sep|>", "<|message_sep|>available functions<|role_sep|>[]"
					"<|message_sep|>" },
	  .answer = { "assistant<|role_sep|>", "<|message_sep|>" }, .bos = true },
	{ "megrez", .marks = { "<|role_start|>" },
	  .system = { "<|role_start|>system<|role_end|>", "<|turn_end|>" },
	  .user = { "<|role_start|>user<|role_end|>", "<|turn_end|>" },
	  .answer = { "<|role_start|>assistant<|role_end|>", "<|turn_end|>" } },
	/* Its files have no template. */
	{ "phi2", .system = { NULL, "\n" }, .user = { "Instruct: ", "\n" },
	  .answer = { "Output:", CHAT_EOS "\n" }, .lead = " " },
};

const struct chat_format *chat_format_at(size_t i)
{
	return i < sizeof(formats) / sizeof(formats[0]) ? &formats[i] : NULL;
}

const struct chat_format *chat_format_find(const char *name)
{
	const struct chat_format *f;

	for (size_t i = 0; (f = chat_format_at(i)) && strcmp(f->name, name) != 0; i++)
		;
	return f;
}
