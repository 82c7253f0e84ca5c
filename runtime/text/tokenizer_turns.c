// SPDX-License-Identifier: MIT
/*
 * Tokens that chat formats put around messages (chat_format.c): they open turns and name who
 * speaks. In some files, such as Gemma's, they are user-defined, and would be recognised in what a
 * user types. Those that end turns are in tokenizer_ends.c.
 */
#include "tokenizer_private.h"

#include <string.h>

static const char *const turn_texts[] = {
	"<|im_start|>",
	"<|im_sep|>",
	"[INST]",
	"[/INST]",
	"[SYSTEM_PROMPT]",
	"[/SYSTEM_PROMPT]",
	"<|start_header_id|>",
	"<|end_header_id|>",
	"<|header_start|>",
	"<|header_end|>",
	"<|eot|>",
	"<start_of_turn>",
	"<|start_of_role|>",
	"<|end_of_role|>",
	"<|START_OF_TURN_TOKEN|>",
	"<|END_OF_TURN_TOKEN|>",
	"<|SYSTEM_TOKEN|>",
	"<|USER_TOKEN|>",
	"<|CHATBOT_TOKEN|>",
	"<|user|>",
	"<|system|>",
	"<|assistant|>",
	"<|end_of_turn|>",
	"<|EOT|>",
	"<\u7528\u6237>",
	"<AI>",
	"<\uff5cUser\uff5c>",
	"<\uff5cAssistant\uff5c>",
	"[|system|]",
	"[|user|]",
	"[|assistant|]",
	"[|endofturn|]",
	"<|message_sep|>",
	"<|role_sep|>",
	"<|role_start|>",
	"<|role_end|>",
	"<|turn_end|>",
};

bool is_turn_text(const char *s, size_t bytes)
{
	/* Few tokens of a vocabulary get beyond this line. */
	if (bytes < 4 || (s[0] != '<' && s[0] != '[') ||
	    (s[bytes - 1] != '>' && s[bytes - 1] != ']'))
		return false;
	for (size_t i = 0; i < sizeof(turn_texts) / sizeof(turn_texts[0]); i++)
		if (strlen(turn_texts[i]) == bytes && !memcmp(turn_texts[i], s, bytes))
			return true;
	return false;
}
