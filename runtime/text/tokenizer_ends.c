// SPDX-License-Identifier: MIT
/*
 * Tokens that end a text or a turn: those that the file names by their ids, and those that are
 * known by their texts, since not all files name them. llama.cpp knows the same ones.
 */
#include "tokenizer_private.h"

#include <string.h>

/* Of chats, of texts, and of files in a prompt for code */
static const char *const end_texts[] = {
	"<|im_end|>",
	"<|eot_id|>",
	"<|eom_id|>",
	"<|end|>",
	"<end_of_turn>",
	"<turn|>",
	"<|tool_response>",
	"<end_of_utterance>",
	"<|return|>",
	"<|call|>",
	"<|calls|>",
	"<|flush|>",
	"<EOT>",
	"_<EOT>",
	"[EOT]",
	"[EOS]",
	"</s>",
	"<eos>",
	"<|endoftext|>",
	"<|end_of_text|>",
	"<\uff5cend\u2581of\u2581sentence\uff5c>",
	"<|fim_pad|>",
	"<fim-pad>",
	"<fim_pad>",
	"<PAD>",
	"[PAD]",
	"<|fim_repo|>",
	"<|repo_name|>",
	"<fim-repo>",
	"<REPO>",
	"<reponame>",
	"<|file_sep|>",
};

bool ends_text(const char *s, size_t bytes)
{
	/* Few tokens of a vocabulary get beyond this line. */
	if (bytes < 4 || (s[0] != '<' && s[0] != '[' && s[0] != '_'))
		return false;
	for (size_t i = 0; i < sizeof(end_texts) / sizeof(end_texts[0]); i++)
		if (strlen(end_texts[i]) == bytes && !memcmp(end_texts[i], s, bytes))
			return true;
	return false;
}

static bool has_end(const struct tokenizer *tok, const char *text)
{
	for (uint32_t i = 0; i < tok->n_special; i++) {
		const struct token *t = &tok->tokens[tok->special[i]];

		if (t->end && t->bytes == strlen(text) &&
		    !memcmp(token_text(tok, tok->special[i]), text, t->bytes))
			return true;
	}
	return false;
}

/* A model with tokens for the ends of its turns uses this one for something else. */
static void unmark(struct tokenizer *tok, const char *text)
{
	for (uint32_t i = 0; i < tok->n_special; i++) {
		struct token *t = &tok->tokens[tok->special[i]];

		if (t->bytes == strlen(text) &&
		    !memcmp(token_text(tok, tok->special[i]), text, t->bytes))
			t->end = false;
	}
}

void ends_mark(struct tokenizer *tok)
{
	for (uint32_t i = 0; i < tok->n_special; i++) {
		struct token *t = &tok->tokens[tok->special[i]];

		if (ends_text((const char *)token_text(tok, tok->special[i]), t->bytes))
			t->end = true;
	}
	/* In the format of gpt-oss and Solar, <|end|> ends one message of a turn. */
	if ((has_end(tok, "<|return|>") && has_end(tok, "<|call|>")) ||
	    (has_end(tok, "<|calls|>") && has_end(tok, "<|flush|>")))
		unmark(tok, "<|end|>");
	/* Gemma 4 has it as a word. */
	if (has_end(tok, "<|tool_response>"))
		unmark(tok, "</s>");
}
