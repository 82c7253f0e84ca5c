// SPDX-License-Identifier: MIT
/* Generated texts: see generator.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "escapes.h"
#include "generator.h"
#include "interrupt.h"
#include "stats.h"
#include "tool.h"

/* ---- prompts ---- */

char *generator_prompt(const struct cli_options *o, size_t *bytes)
{
	char *copy;

	if (o->file)
		return tool_read_file(o->file, bytes);
	if (!o->no_escape)
		return escapes_decode(o->prompt, bytes);
	*bytes = strlen(o->prompt);
	copy = strdup(o->prompt);
	if (!copy)
		tool_fail("no memory for the prompt");
	return copy;
}

char *generator_add_context(const struct cli_options *o, char *text, size_t *bytes)
{
	char *context, *both;
	size_t n;

	if (!text || !o->context)
		return text;
	context = tool_read_file(o->context, &n);
	both = context ? realloc(context, n + *bytes + 1) : NULL;
	if (both) {
		memcpy(both + n, text, *bytes);
		*bytes += n;
	} else if (context) {
		tool_fail("no memory for the context");
		free(context);
	}
	free(text);
	return both;
}

/* ---- its life ---- */

/* Says once why there is no history, if there should be one, and what becomes of the text: before
 * the prompt, or after an answer that could not be stored. */
static void warn_of_history(const struct llm_drafter *drafter, const char *text)
{
	static bool warned;
	struct llm_drafter_stats stats;

	llm_drafter_stats(drafter, &stats);
	if (*stats.history_error && !warned)
		fprintf(stderr, "llm-cli: warning: --history: %s; the text %s\n",
			stats.history_error, text);
	warned |= *stats.history_error;
}

/* The drafter stays NULL with draft none, and where drafts were not asked for and are impossible.
 * 0, or 1 after a message. */
static int make_drafter(struct generator *g)
{
	const struct llm_drafter_options opts = { .history = g->o->history };
	int err;

	if (llm_engine_info(g->engine)->choices.draft == LLM_DRAFT_NONE)
		return 0;
	err = llm_drafter_create(g->engine, &opts, &g->drafter);
	if (err == -ENOTSUP && g->o->drafts_if_possible) {
		fprintf(stderr, "llm-cli: warning: nothing is drafted: %s\n", llm_error());
		return 0;
	}
	if (err)
		return tool_fail("%s", llm_error());
	warn_of_history(g->drafter, "is generated without it");
	return 0;
}

static int make_timeline(struct generator *g)
{
	if (!g->o->timeline)
		return 0;
	g->timeline = timeline_open(g->o->timeline);
	return !g->timeline ||
	       timeline_listen(g->timeline, llm_engine_info(g->engine)->type, g->session);
}

int generator_open(struct generator *g, struct cli_options *o, struct llm_engine *engine)
{
	int status;

	*g = (struct generator){
		.o = o, .engine = engine, .max_tokens = o->n_predict, .opening = ""
	};
	status = stop_init(&o->stop, !o->no_escape);
	if (!status)
		status = engine_session(engine, o->n_ctx, &g->session);
	if (!status)
		status = sampling_create(&o->sampling, engine, llm_session_n_ctx(g->session),
					 &g->sampler);
	if (!status)
		status = make_drafter(g);
	if (!status)
		status = make_timeline(g);
	/* Where it cannot be measured, the statistics say so. */
	if (!status && o->stats)
		llm_session_measure(g->session, true);
	return status;
}

int generator_close(struct generator *g, uint64_t load_ns, int status)
{
	if (!status && g->o->stats)
		stats_print(g->engine, g->session, g->drafter, load_ns);
	if (g->timeline && timeline_close(g->timeline))
		status = 1;
	llm_sampler_free(g->sampler);
	llm_drafter_free(g->drafter);
	llm_session_free(g->session);
	return status;
}

/* ---- generating ---- */

static void write_text(struct generator *g, const char *text, size_t bytes)
{
	if (bytes) {
		fwrite(text, 1, bytes, stdout);
		g->newline = text[bytes - 1] == '\n';
	}
}

static int write_token(void *ud, const struct llm_generated *token)
{
	struct generator *g = ud;

	if (interrupt_seen())
		return 1;
	if (g->o->ids && token->id >= 0)
		printf(token->n ? " %" PRId32 : "%" PRId32, token->id);
	if (!g->o->ids)
		write_text(g, token->text, token->text_bytes);
	fflush(stdout);
	return interrupt_seen() || ferror(stdout) ||
	       stop_seen(&g->o->stop, token->text, token->text_bytes);
}

/* What is said behind a text. */
static void end_text(const struct generator *g, bool line, enum llm_ended ended)
{
	/* On a terminal, the shell's prompt should begin on a new line. */
	if (g->o->ids || (!g->newline && (line || isatty(STDOUT_FILENO))))
		putchar('\n');
	fflush(stdout);
	if (ended == LLM_ENDED_CONTEXT)
		fprintf(stderr,
			"llm-cli: stopped, the context of %u tokens is full: give -c a larger "
			"one\n",
			llm_session_n_ctx(g->session));
}

int generator_run(struct generator *g, const struct token_list *prompt, size_t known, bool line,
		  struct llm_generate_result *result)
{
	const struct llm_generate_options opts = {
		.max_tokens = g->max_tokens,
		.sampler = g->sampler,
		.ignore_end = g->o->ignore_eos,
		.token = write_token,
		.ud = g,
		.drafter = g->drafter,
	};
	int status = 0;

	g->newline = true;
	if (!g->o->ids)
		write_text(g, g->opening, strlen(g->opening));
	fflush(stdout);
	stop_begin(&g->o->stop);
	llm_sampler_begin_text(g->sampler);
	llm_sampler_prompt(g->sampler, prompt->ids + known, prompt->n - known);
	if (llm_generate(g->session, prompt->ids, prompt->n, &opts, result))
		status = tool_fail("%s", llm_error());
	else
		end_text(g, line, result->ended);
	if (g->drafter)
		warn_of_history(g->drafter, "is complete, but not kept");
	return status;
}
