// SPDX-License-Identifier: MIT
/* Conversations: see chat.h. */
#define _GNU_SOURCE /* getline */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat.h"
#include "escapes.h"
#include "interrupt.h"
#include "tool.h"

/* More than any format puts around a turn. */
#define FORMAT_TOKENS 256

/* ---- beginning ---- */

static bool is_name(const char *text)
{
	const char *name;

	for (size_t i = 0; (name = llm_chat_format_name(i)); i++)
		if (!strcmp(name, text))
			return true;
	return false;
}

/* 0, or @status after a message, in which @what is the text. */
static int check_format(const char *text, const char *what, int status)
{
	const char *name;

	if (is_name(text) || llm_chat_recognise(text, strlen(text)))
		return 0;
	fprintf(stderr,
		"llm-cli: %s is no template with a known chat format, nor the name of one:", what);
	for (size_t i = 0; (name = llm_chat_format_name(i)); i++)
		fprintf(stderr, "%s %s", i ? "," : "", name);
	fputc('\n', stderr);
	return status;
}

int chat_check_format(const char *text)
{
	char what[80];
	size_t n = strcspn(text, "\n");

	n = n < 40 ? n : 40;
	snprintf(what, sizeof(what), "--chat-template: '%.*s%s'", (int)n, text,
		 text[n] ? "..." : "");
	return check_format(text, what, 2);
}

/* A text of the command line, or of @file: *@text is NULL for neither. 0, or 1 after a message. */
static int read_option(const char *given, const char *file, bool escapes, char **text)
{
	size_t bytes;

	*text = NULL;
	if (!given && !file)
		return 0;
	*text = file	  ? tool_read_file(file, &bytes)
		: escapes ? escapes_decode(given, &bytes)
			  : strdup(given);
	return !*text;
}

static int refuse(const struct cli_options *o)
{
	if (o->turns_asked)
		return tool_fail("%s; --chat-template NAME gives one", llm_error());
	return tool_usage("no prompt, and no conversation: %s; give a prompt with -p TEXT or -f "
			  "FILE, or a format with --chat-template NAME",
			  llm_error());
}

int chat_open(const struct cli_options *o, struct llm_engine *engine, struct llm_chat **chat)
{
	char *format = NULL, *system = NULL;
	int status = read_option(o->format, o->format_file, false, &format);

	if (!status && o->format_file)
		status = check_format(format, o->format_file, 1);
	if (!status)
		status = read_option(o->system, o->system_file, !o->no_escape, &system);
	if (!status) {
		const struct llm_chat_options opts = {
			.format = format,
			.system = system,
			.no_bos = o->no_bos,
		};

		if (llm_chat_create(engine, &opts, chat))
			status = refuse(o);
	}
	free(format);
	free(system);
	return status;
}

/* ---- turns ---- */

/* Someone types turns, and sees what is printed. */
static bool is_typed(void)
{
	return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* Appends a line of stdin to *@text, of which CR LF is as LF. False: there is none. */
static bool add_line(char **text, size_t *bytes)
{
	char *line = NULL, *both;
	size_t room = 0;
	ssize_t n = getline(&line, &room, stdin);

	if (n > 1 && !strcmp(line + n - 2, "\r\n"))
		strcpy(line + --n - 1, "\n");
	both = n > 0 ? realloc(*text, *bytes + (size_t)n + 1) : NULL;
	if (n > 0 && !both)
		tool_fail("no memory for a turn");
	if (both) {
		memcpy(both + *bytes, line, (size_t)n + 1);
		*text = both;
		*bytes += (size_t)n;
	}
	free(line);
	return both;
}

/* Whether a line comes. Asks for it where it is typed: @asks. */
static bool wait_for_line(bool asks)
{
	if (!is_typed())
		return true;
	if (asks)
		fputs("> ", stderr);
	return interrupt_wait(STDIN_FILENO);
}

/* The next turn that is not empty; free() it. NULL: there are no more. */
static char *read_turn(size_t *bytes)
{
	bool goes_on = true;
	char *text = NULL;

	*bytes = 0;
	while (goes_on && wait_for_line(!*bytes) && add_line(&text, bytes)) {
		bool newline = text[*bytes - 1] == '\n';

		*bytes -= newline;
		goes_on = newline && (!*bytes || text[*bytes - 1] == '\\');
		if (goes_on && *bytes)
			text[*bytes - 1] = '\n';
	}
	if (*bytes)
		return text;
	free(text);
	/* The shell's prompt should begin on a new line. */
	if (is_typed())
		fputc('\n', stderr);
	return NULL;
}

static char *first_turn(const struct cli_options *o, size_t *bytes)
{
	bool given = o->prompt || o->file;
	char *text = given ? generator_prompt(o, bytes) : read_turn(bytes);

	return generator_add_context(o, text, bytes);
}

/* The tokens that a turn appends. 0, or 1 after a message. */
static int turn_tokens(const struct llm_chat *chat, const char *text, size_t bytes,
		       struct token_list *list)
{
	size_t room = bytes + FORMAT_TOKENS;
	long n;

	for (;;) {
		*list = (struct token_list){ .ids = malloc(room * sizeof(*list->ids)) };
		if (!list->ids)
			return tool_fail("no memory for %zu tokens", room);
		n = llm_chat_user(chat, text, bytes, list->ids, room);
		if (n < 0)
			return tool_fail("%s", llm_error());
		list->n = (size_t)n;
		if (list->n <= room)
			return 0;
		free(list->ids);
		room = list->n;
	}
}

static int check_room(const struct llm_session *s, size_t n)
{
	unsigned int n_ctx = llm_session_n_ctx(s), n_past = llm_session_n_past(s);

	if (n <= n_ctx - n_past)
		return 0;
	return tool_fail("the turn has %zu tokens, and the context of %u has room for %u: give -c "
			 "%zu or more",
			 n, n_ctx, n_ctx - n_past, n_past + n + 1);
}

/* Answers a turn. *@result is that of the answer before: the sampler drew its last token, and has
 * counted it. */
static int answer(struct generator *g, struct llm_chat *chat, const char *text, size_t bytes,
		  struct llm_generate_result *result)
{
	struct token_list turn;
	int status = turn_tokens(chat, text, bytes, &turn);

	if (!status)
		status = check_room(g->session, turn.n);
	if (!status)
		status = generator_run(g, &turn, turn.n && turn.ids[0] == result->last, true,
				       result);
	if (!status)
		llm_chat_answered(chat, result);
	free(turn.ids);
	return status;
}

/* Whether there may be another turn. */
static bool goes_on(const struct cli_options *o, const struct llm_generate_result *result)
{
	if (o->single_turn || result->ended == LLM_ENDED_CONTEXT || ferror(stdout))
		return false;
	if (!interrupt_seen())
		return true;
	if (!is_typed())
		return false;
	interrupt_again();
	return true;
}

int chat_run(struct generator *g, struct llm_chat *chat)
{
	struct llm_generate_result result = { .last = -1 };
	size_t bytes;
	char *text = first_turn(g->o, &bytes);
	int status = !text && (g->o->prompt || g->o->file);

	g->opening = llm_chat_opening(chat);
	if (!g->o->limited)
		g->max_tokens = UINT64_MAX;
	while (text && !status) {
		status = answer(g, chat, text, bytes, &result);
		free(text);
		text = !status && goes_on(g->o, &result) ? read_turn(&bytes) : NULL;
	}
	free(text);
	return status;
}
