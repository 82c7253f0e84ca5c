/* SPDX-License-Identifier: MIT */
/*
 * Chats: the tokens of a conversation's turns, by the model's own chat format (docs/chat.md).
 *
 *	struct llm_chat_options opts = { .system = "You are terse." };
 *	struct llm_generate_options g = { .max_tokens = 256, .token = print };
 *	struct llm_generate_result result;
 *	struct llm_chat *chat;
 *	if (llm_chat_create(engine, &opts, &chat))
 *		errx(1, "%s", llm_error());
 *	while (getline(&line, &room, stdin) > 0) {
 *		n = llm_chat_user(chat, line, strlen(line), ids, max_ids);
 *		if (n < 0 || llm_generate(session, ids, n, &g, &result))
 *			errx(1, "%s", llm_error());
 *		llm_chat_answered(chat, &result);
 *	}
 *
 * Tokens are only appended: the session keeps its KV cache from turn to turn, and nothing is
 * evaluated twice. Together they are the tokens of the whole conversation's text, as the model was
 * trained with it; except where an answer was not the model's usual way to write its text, or where
 * the format puts words, not control tokens, next to an answer, whose tokens are merged with it
 * then.
 *
 * Control tokens are recognised in what the format puts around messages, never in messages: a user
 * who types <|im_end|> ends no turn.
 *
 * Functions that can fail return a negative errno, and llm_error() says why (llm.h). A chat may be
 * used by one thread at a time.
 */
#ifndef LLM_CHAT_H
#define LLM_CHAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct llm_chat;
struct llm_engine;
struct llm_generate_result;

/* Names of the known formats; NULL behind the last. */
const char *llm_chat_format_name(size_t i);
/* The name of the format that a template, such as a file's tokenizer.chat_template, is recognised
 * to have by its control tokens and words. It is not run. NULL: it is none that is known. */
const char *llm_chat_recognise(const char *template_text, size_t bytes);
/* The template of the engine's file, of *@bytes, which is the engine's. NULL: it has none. */
const char *llm_chat_template(const struct llm_engine *engine, size_t *bytes);

struct llm_chat_options {
	/* The name of a format, or the text of a template that has one. NULL: the file's
	 * template. */
	const char *format;
	/* NULL: what the template says where no system text is given, if that is a constant; "":
	 * none. */
	const char *system;
	/* No BOS in front of the first turn. Otherwise there is one, once, if the vocabulary or the
	 * template wants it. */
	bool no_bos;
};

/*
 * Begins a conversation. @opts may be NULL; nothing of it is used later. The chat needs its engine.
 * -ENOENT: the file has no template; -ENOTSUP: it is none that is known; -EINVAL: @opts->format is
 * neither a name nor such a template; -ENOMEM.
 */
int llm_chat_create(struct llm_engine *engine, const struct llm_chat_options *opts,
		    struct llm_chat **chat);
void llm_chat_free(struct llm_chat *chat);
const char *llm_chat_format(const struct llm_chat *chat); /* the name of its format */
/* What the template begins each answer with, such as "<think>\n"; "" for nothing. llm_chat_user()'s
 * tokens end with it, so that it is not generated; it belongs in front of the answer's text. */
const char *llm_chat_opening(const struct llm_chat *chat);

/*
 * Writes the tokens to @ids that a user's turn appends to the session, at most @max of them: what
 * closes the answer before it, the turn, and what opens the next answer. Returns how many there
 * are, which may be more than @max, or -errno. The chat does not change: llm_chat_answered() ends
 * the turn.
 */
long llm_chat_user(const struct llm_chat *chat, const char *text, size_t bytes, int32_t *ids,
		   size_t max);
/* Says how the answer to the last turn ended: any end will do, a callback's or a full number of
 * tokens too. Its last token, which the session does not have, comes with the next turn. */
void llm_chat_answered(struct llm_chat *chat, const struct llm_generate_result *result);

struct llm_chat_turn {
	const char *user;
	size_t user_bytes;
	const char *answer; /* with or without its opening; NULL: it is to be generated */
	size_t answer_bytes;
};

/*
 * Writes the text of a whole conversation to @buf, with the chat's system text in front. It ends
 * behind the last answer, or if that is NULL with what opens it. Returns bytes, with the same
 * meaning of @max as llm_chat_user(). llm_tokenize() with LLM_TOKENIZE_BOS (but with no_bos) and
 * LLM_TOKENIZE_SPECIAL gives its tokens, unless a message spells out a control token. -EINVAL: an
 * answer before the last is NULL.
 */
long llm_chat_render(const struct llm_chat *chat, const struct llm_chat_turn *turns, size_t n,
		     char *buf, size_t max);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* LLM_CHAT_H */
