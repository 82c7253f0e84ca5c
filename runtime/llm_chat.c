// SPDX-License-Identifier: MIT
/* Chats of an engine: see llm_chat.h. Their texts are made in text/chat.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "engine.h"
#include "llm_chat.h"
#include "llm_fail.h"

#define TEMPLATE_KEY "tokenizer.chat_template"

struct llm_chat {
	struct chat chat;
	char *system; /* its own copy */
	bool answered; /* there was a turn */
	bool ended; /* the last answer, by an end token */
	int32_t last; /* its last token, if the session does not have it; -1: it has, or none */
};

/* ---- formats ---- */

const char *llm_chat_format_name(size_t i)
{
	const struct chat_format *f = chat_format_at(i);

	return f ? f->name : NULL;
}

const char *llm_chat_recognise(const char *template_text, size_t bytes)
{
	struct chat_template t;
	int err = chat_format_recognise(template_text, bytes, &t);

	free(t.own_system);
	return err ? NULL : t.format->name;
}

const char *llm_chat_template(const struct llm_engine *engine, size_t *bytes)
{
	const char *text;

	if (!engine->loaded.file || gguf_string(engine->loaded.file, TEMPLATE_KEY, &text, bytes))
		return NULL;
	return text;
}

/* "chatml, gemma, ..." */
static const char *format_names(char *buf, size_t bytes)
{
	const char *name;
	size_t used = 0;

	for (size_t i = 0; (name = llm_chat_format_name(i)) && used < bytes; i++)
		used += (size_t)snprintf(buf + used, bytes - used, "%s%s", i ? ", " : "", name);
	return buf;
}

static int choose(const char *given, struct chat_template *t)
{
	size_t line = strcspn(given, "\n");
	char names[1024];
	int err = 0;

	*t = (struct chat_template){ .format = chat_format_find(given) };
	if (t->format)
		t->bos = t->format->bos;
	else
		err = chat_format_recognise(given, strlen(given), t);
	if (err == -ENOENT)
		return llm_fail(-EINVAL,
				"'%.*s' is neither the name of a chat format nor a template that "
				"has one; there are %s",
				line < 40 ? (int)line : 40, given,
				format_names(names, sizeof(names)));
	return err;
}

static int recognise(const struct llm_engine *engine, struct chat_template *t)
{
	char names[1024];
	size_t bytes;
	const char *text = llm_chat_template(engine, &bytes);
	int err;

	*t = (struct chat_template){ 0 };
	if (!text)
		return llm_fail(-ENOENT, "%s: no " TEMPLATE_KEY ", so its chat format is not known",
				engine->path ? engine->path : "a shape");
	err = chat_format_recognise(text, bytes, t);
	if (err == -ENOENT)
		return llm_fail(-ENOTSUP,
				"%s: " TEMPLATE_KEY " has none of the chat formats that are known: "
				"%s",
				engine->path, format_names(names, sizeof(names)));
	return err;
}

/* ---- chats ---- */

/* The system text: the given one, or the template's. *@system stays NULL for none. */
static int choose_system(const char *given, const struct chat_template *t, char **system)
{
	const char *text = given ? given : t->own_system;

	if (!text || !*text)
		return 0;
	*system = strdup(text);
	return *system ? 0 : -ENOMEM;
}

static int chat_open(struct llm_chat *c, const struct llm_engine *engine,
		     const struct llm_chat_options *opts)
{
	struct chat_template t;
	int err = opts->format ? choose(opts->format, &t) : recognise(engine, &t);

	if (!err)
		err = choose_system(opts->system, &t, &c->system);
	if (!err)
		c->chat = (struct chat){
			.tok = engine->tok,
			.format = t.format,
			.system = c->system,
			.opening = t.opening,
			.bos = !opts->no_bos && (t.bos || tokenizer_adds_bos(engine->tok)),
		};
	free(t.own_system);
	return err == -ENOMEM ? llm_fail(err, "no memory for a chat") : err;
}

int llm_chat_create(struct llm_engine *engine, const struct llm_chat_options *opts,
		    struct llm_chat **chat)
{
	static const struct llm_chat_options defaults;
	struct llm_chat *c;
	int err;

	*chat = NULL;
	if (!engine->tok)
		return llm_fail(-ENOTSUP, "a dry run of a shape has no vocabulary");
	c = calloc(1, sizeof(*c));
	if (!c)
		return llm_fail(-ENOMEM, "no memory for a chat");
	c->last = -1;
	err = chat_open(c, engine, opts ? opts : &defaults);
	if (err)
		llm_chat_free(c);
	else
		*chat = c;
	return err;
}

void llm_chat_free(struct llm_chat *chat)
{
	if (!chat)
		return;
	free(chat->system);
	free(chat);
}

const char *llm_chat_format(const struct llm_chat *chat)
{
	return chat->chat.format->name;
}

const char *llm_chat_opening(const struct llm_chat *chat)
{
	return chat->chat.opening ? chat->chat.opening : "";
}

long llm_chat_user(const struct llm_chat *chat, const char *text, size_t bytes, int32_t *ids,
		   size_t max)
{
	size_t before = chat->last >= 0;
	struct chat_text t = { 0 };
	long n;

	if (chat->answered)
		chat_close(&chat->chat, &t, chat->ended);
	else
		chat_begin(&chat->chat, &t);
	chat_user(&chat->chat, &t, !chat->answered, text, bytes);
	if (before && max)
		ids[0] = chat->last;
	n = chat_tokens(&chat->chat, &t, !chat->answered, max ? ids + before : ids,
			max ? max - before : 0);
	chat_text_free(&t);
	if (n < 0)
		return llm_fail((int)n, "a turn of %zu bytes cannot be tokenised: %s", bytes,
				strerror((int)-n));
	return n + (long)before;
}

void llm_chat_answered(struct llm_chat *chat, const struct llm_generate_result *result)
{
	chat->answered = true;
	chat->ended = result->ended == LLM_ENDED_TOKEN;
	chat->last = chat->ended ? -1 : result->last;
}

long llm_chat_render(const struct llm_chat *chat, const struct llm_chat_turn *turns, size_t n,
		     char *buf, size_t max)
{
	struct chat_text t = { 0 };
	long bytes;

	for (size_t i = 0; i + 1 < n; i++)
		if (!turns[i].answer)
			return llm_fail(-EINVAL, "turn %zu of %zu has no answer", i + 1, n);
	chat_begin(&chat->chat, &t);
	for (size_t i = 0; i < n; i++) {
		chat_user(&chat->chat, &t, !i, turns[i].user, turns[i].user_bytes);
		if (!turns[i].answer)
			break;
		chat_answer(&chat->chat, &t, turns[i].answer, turns[i].answer_bytes);
		chat_close(&chat->chat, &t, false);
	}
	bytes = t.failed ? llm_fail(-ENOMEM, "no memory for a conversation") : (long)t.n;
	if (bytes > 0 && max)
		memcpy(buf, t.bytes, t.n < max ? t.n : max);
	chat_text_free(&t);
	return bytes;
}
