// SPDX-License-Identifier: MIT
/*
 * llm-cli: continues a text, or talks by turns.
 *
 * Evaluates the prompt, then samples, writes and evaluates one token after another until an end
 * token, -n tokens, a full context or Ctrl-C. In a conversation (chat.h) that is an answer, and the
 * next line of stdin is the next prompt. Only generated text goes to stdout.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat.h"
#include "cli.h"
#include "generator.h"
#include "interrupt.h"
#include "options.h"
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
	OPT_TURNS,
	OPT_NO_TURNS,
	OPT_SINGLE_TURN,
	OPT_SYSTEM,
	OPT_SYSTEM_FILE,
	OPT_FORMAT,
	OPT_FORMAT_FILE,
};

static const char usage[] =
	"usage: llm-cli -m FILE -p PROMPT | -f FILE [options]\n"
	"       llm-cli -m FILE -cnv [-p PROMPT | -f FILE] [options]\n"
	"Continues a text, or answers turn by turn. What the model writes goes to stdout,\n"
	"everything else to stderr.\n";

static const struct option_def options[] = {
	{ 'p', "prompt", "TEXT",
	  .doc = "the prompt, or the first turn; "
		 "\\n, \\t, \\r, \\\\, \\', \\\" and \\xHH in it are escapes" },
	{ 'f', "file", "FILE", .doc = "the prompt is in FILE; - for stdin" },
	{ OPT_TURNS, "conversation", NULL, .dash = "cnv",
	  .doc = "talk by turns, which stdin's lines are; the default without -p and -f" },
	{ OPT_NO_TURNS, "no-conversation", NULL, .dash = "no-cnv", .doc = "continue a text" },
	{ OPT_SINGLE_TURN, "single-turn", NULL, .dash = "st", .doc = "a conversation of one turn" },
	{ OPT_SYSTEM, "system-prompt", "TEXT", .dash = "sys",
	  .doc = "a conversation's system text, with the escapes of -p" },
	{ OPT_SYSTEM_FILE, "system-prompt-file", "FILE", .dash = "sysf",
	  .doc = "the system text is in FILE; - for stdin" },
	{ OPT_FORMAT, "chat-template", "NAME",
	  .doc = "a conversation's format, or a template that has one (default: the model's)" },
	{ OPT_FORMAT_FILE, "chat-template-file", "FILE", .doc = "a template is in FILE" },
	{ 'n', "n-predict", "N",
	  .doc = "most tokens to generate; -1 or -2: until the end of text, or of the context "
		 "(default: 128; in each turn of a conversation: -1)" },
	{ 'c', "ctx-size", "N",
	  .doc = "tokens of context; 0: as many as the model was trained with (default: the "
		 "same, at most 4096)" },
	{ 'r', "reverse-prompt", "TEXT", .doc = "end when TEXT was generated; may be repeated" },
	{ 'e', "escape", NULL, .doc = "escapes in -p, -sys and -r: the default" },
	{ OPT_NO_ESCAPE, "no-escape", NULL, .doc = "no escapes in -p, -sys and -r" },
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

/* Options of conversations, which ask for one. -1: it is none of them. */
static int parse_turns(struct cli_options *o, int c, const char *value)
{
	switch (c) {
	case OPT_TURNS:
		break;
	case OPT_SINGLE_TURN:
		o->single_turn = true;
		break;
	case OPT_SYSTEM:
		o->system = value;
		o->system_file = NULL;
		break;
	case OPT_SYSTEM_FILE:
		o->system = NULL;
		o->system_file = value;
		break;
	case OPT_FORMAT:
		o->format = value;
		o->format_file = NULL;
		break;
	case OPT_FORMAT_FILE:
		o->format = NULL;
		o->format_file = value;
		break;
	default:
		return -1;
	}
	o->turns_asked = true;
	return 0;
}

static int parse_one(void *ud, int c, const char *value)
{
	struct cli_options *o = ud;

	switch (c) {
	case OPT_NO_TURNS:
		o->no_turns = true;
		return 0;
	case 'p':
		o->prompt = value;
		return 0;
	case 'f':
		o->file = value;
		return 0;
	case 'n':
		o->limited = true;
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
	if (!parse_turns(o, c, value))
		return 0;
	if (sampling_is_option(c))
		return sampling_option(&o->sampling, c, value);
	return engine_option(&o->engine, c, value);
}

/* What the options of conversations say together. 0, or 2 after a message. */
static int check_turns(const struct cli_options *o)
{
	if (o->turns_asked && o->no_turns)
		return tool_usage("-no-cnv: other options ask for a conversation: leave one out");
	if (o->no_turns && !o->prompt && !o->file)
		return tool_usage("give a prompt with one of -p TEXT and -f FILE");
	if (o->format && *o->format)
		return chat_check_format(o->format);
	return o->format ? tool_usage("--chat-template: a name, or the text of a template") : 0;
}

/* Standard input has one reader, which takes all of it. 0, or 2 after a message. */
static int check_stdin(const struct cli_options *o)
{
	const char *files[] = { o->file, o->context, o->system_file, o->format_file,
				o->sampling.file };
	int n = !o->prompt && !o->file;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		n += files[i] && !strcmp(files[i], "-");
	return n <= 1 ? 0
		      : tool_usage("'-': standard input cannot be read twice: give one of the "
				   "files by its name, or the prompt with -p TEXT");
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
	else if (o->prompt && o->file)
		*status = tool_usage("give a prompt with one of -p TEXT and -f FILE");
	else if (o->history && !*o->history)
		*status = tool_usage("--history: a store has a name, or a path");
	else if (o->history && o->engine.choices.draft == LLM_DRAFT_NONE)
		*status = tool_usage("--history: nothing is drafted with --draft none");
	else
		*status = check_turns(o);
	if (!*status)
		*status = check_stdin(o);
	if (!*status)
		*status = sampling_read(&o->sampling);
	/* Where there is something to draft from, it helps. Calibration costs a prompt more than it
	 * has been seen to save (docs/coordgen.md). */
	o->drafts_if_possible =
		(o->context || o->history) && o->engine.choices.draft == LLM_DRAFT_AUTO;
	if (o->drafts_if_possible)
		o->engine.choices.draft = LLM_DRAFT_REUSE;
	return *status != 0;
}

/* Continues the prompt. */
static int run_text(struct generator *g)
{
	const struct cli_options *o = g->o;
	unsigned int flags =
		(o->no_bos ? 0 : LLM_TOKENIZE_BOS) | (o->special ? LLM_TOKENIZE_SPECIAL : 0);
	unsigned int n_ctx = llm_session_n_ctx(g->session);
	struct llm_generate_result result;
	struct token_list prompt = { 0 };
	size_t bytes;
	char *text = generator_add_context(o, generator_prompt(o, &bytes), &bytes);
	int status = text ? tokens_from_text(g->engine, text, bytes, flags, &prompt) : 1;

	free(text);
	if (!status && !prompt.n)
		status = tool_fail("the prompt is empty: give at least one character");
	if (!status && prompt.n > n_ctx)
		status = tool_fail("the prompt has %zu tokens, the context %u: shorten it, or give "
				   "-c %zu or more",
				   prompt.n, n_ctx, prompt.n + 1);
	if (!status)
		status = generator_run(g, &prompt, 0, false, &result);
	free(prompt.ids);
	return status;
}

/* Someone who expects an answer, not a continuation, may not know of conversations. */
static void mention_chat(const struct llm_engine *engine)
{
	size_t bytes;
	const char *text = llm_chat_template(engine, &bytes);
	const char *format = text ? llm_chat_recognise(text, bytes) : NULL;

	if (format && isatty(STDOUT_FILENO) && isatty(STDERR_FILENO))
		fprintf(stderr,
			"llm-cli: the model can chat (%s): -cnv does, and -no-cnv leaves this line "
			"out\n",
			format);
}

static int run(struct cli_options *o, struct llm_engine *engine, uint64_t load_ns)
{
	bool turns = o->turns_asked || (!o->prompt && !o->file);
	struct llm_chat *chat = NULL;
	struct generator g = { .o = o };
	int status = turns ? chat_open(o, engine, &chat) : 0;

	if (!status)
		status = generator_open(&g, o, engine);
	if (!status && !turns && !o->no_turns)
		mention_chat(engine);
	if (!status)
		status = turns ? chat_run(&g, chat) : run_text(&g);
	status = generator_close(&g, load_ns, status);
	llm_chat_free(chat);
	return status;
}

int main(int argc, char **argv)
{
	struct cli_options o = {
		.sampling = sampling_default,
		.n_predict = 128,
	};
	struct llm_engine *engine;
	uint64_t begin_ns;
	int status;

	tool_begin("llm-cli");
	if (parse_options(argc, argv, &o, &status)) {
		sampling_free(&o.sampling);
		stop_free(&o.stop);
		return tool_finish(status);
	}
	interrupt_watch();
	begin_ns = tool_now_ns();
	status = engine_open(&o.engine, &engine);
	if (!status) {
		status = run(&o, engine, tool_now_ns() - begin_ns);
		engine_close(engine);
	}
	sampling_free(&o.sampling);
	stop_free(&o.stop);
	status = tool_finish(status);
	interrupt_end();
	return status;
}
