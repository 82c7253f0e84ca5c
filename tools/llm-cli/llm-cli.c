// SPDX-License-Identifier: MIT
/*
 * llm-cli: continues a text.
 *
 * Evaluates the prompt, then samples, writes and evaluates one token after another until an end
 * token, -n tokens, a full context or Ctrl-C. Only the text goes to stdout, as soon as its
 * characters are complete.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "escapes.h"
#include "options.h"
#include "progress.h"
#include "sampling.h"
#include "stats.h"
#include "stop.h"
#include "timeline.h"
#include "tokens.h"
#include "tool.h"

enum {
	OPT_IDS = OPT_TOOL,
	OPT_IGNORE_EOS,
	OPT_NO_BOS,
	OPT_SPECIAL,
	OPT_CONTEXT,
	OPT_HISTORY,
	OPT_STATS,
	OPT_TIMELINE,
	OPT_NO_ESCAPE,
};

struct cli_options {
	struct llm_options engine;
	struct sampling sampling;
	const char *prompt, *file;
	const char *context, *history; /* NULL: none */
	unsigned int n_ctx;
	uint64_t n_predict; /* UINT64_MAX: no limit */
	bool ids, ignore_eos, no_bos, special, stats, no_escape;
	struct stop stop;
	const char *timeline;
};

static volatile sig_atomic_t interrupted;

/*
 * The handler is removed after one signal, so a second Ctrl-C ends the program even within a long
 * evaluation.
 */
static void on_interrupt(int sig)
{
	interrupted = 1;
	progress_stop();
}

static const char usage[] =
	"usage: llm-cli -m FILE -p PROMPT | -f FILE [options]\n"
	"Continues a text. The text goes to stdout, everything else to stderr.\n";

static const struct option_def options[] = {
	{ 'p', "prompt", "TEXT",
	  .doc = "the prompt; \\n, \\t, \\r, \\\\, \\', \\\" and \\xHH in it are escapes" },
	{ 'f', "file", "FILE", .doc = "the prompt is in FILE; - for stdin" },
	{ 'n', "n-predict", "N",
	  .doc = "most tokens to generate; -1 or -2: until the end of text, or of the context "
		 "(default: 128)" },
	{ 'c', "ctx-size", "N",
	  .doc = "tokens of context; 0: as many as the model was trained with (default: the "
		 "same, at most 4096)" },
	{ 'r', "reverse-prompt", "TEXT", .doc = "end when TEXT was generated; may be repeated" },
	{ 'e', "escape", NULL, .doc = "escapes in -p and -r: the default" },
	{ OPT_NO_ESCAPE, "no-escape", NULL, .doc = "no escapes in -p and -r" },
	{ OPT_IDS, "ids", NULL, .doc = "print token ids, separated by spaces, instead of text" },
	SAMPLING_OPTIONS,
	{ OPT_IGNORE_EOS, "ignore-eos", NULL, .doc = "go on after an end token" },
	{ OPT_NO_BOS, "no-bos", NULL, .doc = "no BOS token in front of the prompt" },
	{ OPT_SPECIAL, "special", NULL,
	  .doc = "recognise control tokens that are spelled out in the prompt" },
	{ OPT_CONTEXT, "context", "FILE",
	  .doc = "a text in front of the prompt, from which tokens are drafted" },
	{ OPT_HISTORY, "history", "STORE",
	  .doc = "a store of past answers, from which tokens are drafted; the text is added" },
	{ OPT_STATS, "stats", NULL, .doc = "speeds and counts on stderr at the end" },
	{ OPT_TIMELINE, "timeline", "FILE",
	  .doc = "write what ran when to FILE, for Perfetto's UI" },
	{ .code = 0 },
};

static int parse_n_predict(const char *s, uint64_t *n)
{
	char *end;
	long long v;

	v = strtoll(s, &end, 10);
	if (strchr(" \t", *s) || *end || v < -2 || v > UINT32_MAX)
		return tool_usage("-n: '%s' is not a number from -2 to %u, of which -1 and -2 are "
				  "no limit",
				  s, UINT32_MAX);
	*n = v < 0 ? UINT64_MAX : (uint64_t)v;
	return 0;
}

static int parse_one(void *ud, int c, const char *value)
{
	struct cli_options *o = ud;

	switch (c) {
	case 'p':
		o->prompt = value;
		return 0;
	case 'f':
		o->file = value;
		return 0;
	case 'n':
		return parse_n_predict(value, &o->n_predict);
	case 'c':
		return engine_parse_ctx(value, 1, &o->n_ctx);
	case 'r':
		return stop_add(&o->stop, value);
	case 'e':
	case OPT_NO_ESCAPE:
		o->no_escape = c == OPT_NO_ESCAPE;
		return 0;
	case OPT_IDS:
		o->ids = true;
		return 0;
	case OPT_IGNORE_EOS:
		o->ignore_eos = true;
		return 0;
	case OPT_NO_BOS:
		o->no_bos = true;
		return 0;
	case OPT_SPECIAL:
		o->special = true;
		return 0;
	case OPT_CONTEXT:
		o->context = value;
		return 0;
	case OPT_HISTORY:
		o->history = value;
		return 0;
	case OPT_STATS:
		o->stats = true;
		return 0;
	case OPT_TIMELINE:
		o->timeline = value;
		return 0;
	}
	if (sampling_is_option(c))
		return sampling_option(&o->sampling, c, value);
	return engine_option(&o->engine, c, value);
}

/* Returns 0 to go on, or 1 to exit with *@status. */
static int parse_options(int argc, char **argv, struct cli_options *o, int *status)
{
	static const struct option_set set = { options, usage, .option = parse_one };

	if (options_parse(&set, argc, argv, o, status))
		return 1;
	if (optind < argc)
		*status =
			tool_usage("'%s': not an option; a prompt is given with -p", argv[optind]);
	else if (!o->engine.model)
		*status = tool_usage("no model: give one with -m FILE");
	else if (!o->prompt == !o->file)
		*status = tool_usage("give a prompt with one of -p TEXT and -f FILE");
	else if (o->history && !*o->history)
		*status = tool_usage("--history: a store has a name, or a path");
	else if (o->history && o->engine.choices.draft == LLM_DRAFT_NONE)
		*status = tool_usage("--history: nothing is drafted with --draft none");
	/* Where there is something to draft from, it helps. */
	if ((o->context || o->history) && o->engine.choices.draft == LLM_DRAFT_AUTO)
		o->engine.choices.draft = LLM_DRAFT_COORDGEN;
	return *status != 0;
}

/* The prompt's text, from its file or with its escapes replaced; NULL after a message. */
static char *read_text(const struct cli_options *o, size_t *bytes)
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

/* Puts the context in front of a prompt, whose *@bytes are freed. NULL after a message. */
static char *add_context(const char *file, char *prompt, size_t *bytes)
{
	size_t n;
	char *context = tool_read_file(file, &n);
	char *both = context ? realloc(context, n + *bytes + 1) : NULL;

	if (both) {
		memcpy(both + n, prompt, *bytes);
		*bytes += n;
	} else if (context) {
		tool_fail("no memory for the context");
		free(context);
	}
	free(prompt);
	return both;
}

static int read_prompt(const struct cli_options *o, const struct llm_engine *engine,
		       struct token_list *list)
{
	unsigned int flags =
		(o->no_bos ? 0 : LLM_TOKENIZE_BOS) | (o->special ? LLM_TOKENIZE_SPECIAL : 0);
	size_t bytes;
	char *text = read_text(o, &bytes);
	int err;

	if (text && o->context)
		text = add_context(o->context, text, &bytes);
	if (!text)
		return 1;
	err = tokens_from_text(engine, text, bytes, flags, list);
	free(text);
	if (!err && !list->n)
		err = tool_fail("the prompt is empty: give at least one character");
	return err;
}

struct cli_output {
	const struct cli_options *o;
	struct stop *stop;
	bool newline; /* the last byte written was a newline, or nothing was written */
};

static int write_token(void *ud, const struct llm_generated *token)
{
	struct cli_output *out = ud;

	if (interrupted)
		return 1;
	if (out->o->ids && token->id >= 0)
		printf(token->n ? " %" PRId32 : "%" PRId32, token->id);
	if (!out->o->ids && token->text_bytes) {
		fwrite(token->text, 1, token->text_bytes, stdout);
		out->newline = token->text[token->text_bytes - 1] == '\n';
	}
	fflush(stdout);
	return interrupted || ferror(stdout) ||
	       stop_seen(out->stop, token->text, token->text_bytes);
}

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

/* *@drafter stays NULL with draft none. 0, or 1 after a message. */
static int make_drafter(const struct cli_options *o, struct llm_engine *engine,
			struct llm_drafter **drafter)
{
	const struct llm_drafter_options opts = { .history = o->history };

	if (llm_engine_info(engine)->choices.draft == LLM_DRAFT_NONE)
		return 0;
	if (llm_drafter_create(engine, &opts, drafter))
		return tool_fail("%s", llm_error());
	warn_of_history(*drafter, "is generated without it");
	return 0;
}

static int generate(struct cli_output *out, struct llm_session *s, struct llm_sampler *sampler,
		    struct llm_drafter *drafter, const struct token_list *prompt)
{
	const struct llm_generate_options opts = {
		.max_tokens = out->o->n_predict,
		.sampler = sampler,
		.ignore_end = out->o->ignore_eos,
		.token = write_token,
		.ud = out,
		.drafter = drafter,
	};
	unsigned int n_ctx = llm_session_n_ctx(s);
	struct llm_generate_result result;
	int status = 0;

	if (prompt->n > n_ctx)
		return tool_fail("the prompt has %zu tokens, the context %u: shorten it, or give "
				 "-c %zu or more",
				 prompt->n, n_ctx, prompt->n + 1);
	llm_sampler_prompt(sampler, prompt->ids, prompt->n);
	if (llm_generate(s, prompt->ids, prompt->n, &opts, &result))
		status = tool_fail("%s", llm_error());
	/* On a terminal, the shell's prompt should begin on a new line. */
	else if (out->o->ids || (!out->newline && isatty(STDOUT_FILENO)))
		putchar('\n');
	fflush(stdout);
	if (!status && result.ended == LLM_ENDED_CONTEXT)
		fprintf(stderr,
			"llm-cli: stopped, the context of %u tokens is full: give -c a larger "
			"one\n",
			n_ctx);
	if (drafter)
		warn_of_history(drafter, "is complete, but not kept");
	return status;
}

static int run(struct cli_options *o, struct llm_engine *engine, uint64_t load_ns)
{
	struct llm_sampler *sampler = NULL;
	struct llm_session *s = NULL;
	struct llm_drafter *drafter = NULL;
	struct token_list prompt = { 0 };
	struct timeline *timeline = NULL;
	struct cli_output out = { .o = o, .stop = &o->stop, .newline = true };
	int status = stop_init(&o->stop, !o->no_escape);

	if (!status)
		status = read_prompt(o, engine, &prompt);
	if (!status && llm_session_create(engine, engine_ctx(engine, o->n_ctx), &s))
		status = tool_fail("%s", llm_error());
	if (!status)
		status = sampling_create(&o->sampling, engine, llm_session_n_ctx(s), &sampler);
	if (!status)
		status = make_drafter(o, engine, &drafter);
	if (!status && o->timeline)
		status = !(timeline = timeline_open(o->timeline)) ||
			 timeline_listen(timeline, llm_engine_info(engine)->type, s);
	/* Where it cannot be measured, the statistics say so. */
	if (!status && o->stats)
		llm_session_measure(s, true);
	if (!status)
		status = generate(&out, s, sampler, drafter, &prompt);
	if (!status && o->stats)
		stats_print(engine, s, drafter, load_ns);
	if (timeline && timeline_close(timeline))
		status = 1;
	llm_sampler_free(sampler);
	llm_drafter_free(drafter);
	llm_session_free(s);
	stop_free(&o->stop);
	free(prompt.ids);
	return status;
}

int main(int argc, char **argv)
{
	struct cli_options o = {
		.sampling = sampling_default,
		.n_predict = 128,
	};
	struct sigaction sa = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND }, before;
	struct llm_engine *engine;
	uint64_t begin_ns;
	int status;

	tool_name = "llm-cli";
	if (parse_options(argc, argv, &o, &status)) {
		sampling_free(&o.sampling);
		return tool_finish(status);
	}
	/* The signal stays ignored if it is, as under nohup and in background jobs. */
	if (!sigaction(SIGINT, NULL, &before) && before.sa_handler != SIG_IGN)
		sigaction(SIGINT, &sa, NULL);
	begin_ns = tool_now_ns();
	status = engine_open(&o.engine, &engine);
	if (!status) {
		status = run(&o, engine, tool_now_ns() - begin_ns);
		engine_close(engine);
	}
	sampling_free(&o.sampling);
	status = tool_finish(status);
	/* Ends by the signal after all, so that the shell sees it. */
	if (interrupted) {
		signal(SIGINT, SIG_DFL);
		raise(SIGINT);
	}
	return status;
}
