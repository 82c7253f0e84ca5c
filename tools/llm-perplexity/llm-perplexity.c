// SPDX-License-Identifier: MIT
/*
 * llm-perplexity: how well a model predicts a text.
 *
 * The text is tokenized as a whole and divided into windows of c tokens that do not overlap; a rest
 * is left out. BOS replaces each window's first token. Position i predicts token i + 1. As in
 * llama-perplexity, only positions from c/2 on are scored, so that each prediction has at least
 * half a window before it. --all scores every position. --reference compares each prediction with
 * that of another model in floats on the CPU, --kl-divergence
 * with another model's log probabilities, which --kl-divergence-base has kept in a file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm-perplexity.h"
#include "progress.h"
#include "tool.h"

#define DEFAULT_WINDOW 512
/* As a shell says of programs that Ctrl-C ended. */
#define STATUS_INTERRUPTED 130

enum {
	OPT_ALL = OPT_TOOL,
	OPT_REFERENCE,
	OPT_WINDOWS,
	OPT_BASE,
	OPT_COMPARE,
};

volatile sig_atomic_t interrupted;

static const char usage[] = "usage: llm-perplexity -m FILE -f TEXT [options]\n"
			    "Measures how well a model predicts a text; lower is better.\n";

static const char *const formats[] = { "text", "json", NULL };

static const struct option_def options[] = {
	{ 'f', "file", "FILE", .doc = "the text; - for stdin" },
	{ 'c', "ctx-size", "N",
	  .doc = "tokens of a window; 0: as many as the model was trained with (default: 512)" },
	{ OPT_REFERENCE, "reference", "FILE",
	  .doc = "a model, such as the one that -m was quantised from, to compare with: how often "
		 "both have the same most likely token\n"
		 "It is evaluated in floats on the CPU." },
	{ OPT_WINDOWS, "chunks", "N",
	  .doc = "only the first N windows of the text; -1: all (default: -1)" },
	{ OPT_BASE, "kl-divergence-base", "FILE",
	  .doc = "write the log probabilities of the scored positions to FILE, for "
		 "--kl-divergence; llama-perplexity has the same format" },
	{ OPT_COMPARE, "kl-divergence", NULL,
	  .doc = "compare with those in FILE, whose text and windows are scored" },
	{ OPT_ALL, "all", NULL,
	  .doc = "score all positions of a window, not only the second half" },
	{ 'o', "output", "FORMAT", .doc = "text or json (default: text)", .words = formats },
	{ .code = 0 },
};

static int parse_windows(const char *value, uint64_t *n)
{
	if (strcmp(value, "-1") != 0)
		return tool_parse_u64("--chunks", value, 1, UINT32_MAX, n);
	*n = UINT64_MAX;
	return 0;
}

static int parse_one(void *ud, int c, const char *value)
{
	struct ppl_options *o = ud;
	int format;

	switch (c) {
	case 'f':
		o->file = value;
		return 0;
	case 'c':
		return engine_parse_ctx(value, 4, &o->n_ctx);
	case OPT_WINDOWS:
		return parse_windows(value, &o->max_windows);
	case OPT_BASE:
		o->base = value;
		return 0;
	case OPT_COMPARE:
		o->compares = true;
		return 0;
	case OPT_ALL:
		o->all = true;
		return 0;
	case OPT_REFERENCE:
		o->reference = value;
		return 0;
	case 'o':
		format = options_find_word("-o", formats, value);
		o->json = format == 1;
		return format < 0 ? 2 : 0;
	}
	return engine_option(&o->engine, c, value);
}

/* Returns 0 to go on, or 1 to exit with *@status. */
static int parse_options(int argc, char **argv, struct ppl_options *o, int *status)
{
	static const struct option_set set = { options, usage, .option = parse_one };

	if (options_parse(&set, argc, argv, o, status))
		return 1;
	if (optind < argc)
		*status = tool_usage("'%s': not an option; a text is given with -f", argv[optind]);
	else if (!o->engine.model)
		*status = tool_usage("no model: give one with -m FILE");
	else if (o->compares && !o->base)
		*status = tool_usage("--kl-divergence: give the file to compare with, which "
				     "--kl-divergence-base FILE names");
	else if (o->all && o->base)
		*status = tool_usage("--all: --kl-divergence-base keeps the second half of windows "
				     "only");
	else if (!o->file && !o->compares)
		*status = tool_usage("no text: give one with -f FILE");
	return *status != 0;
}

/* ---- the text ---- */

static int tokenize(const struct ppl_options *o, const struct llm_engine *engine,
		    struct token_list *tokens)
{
	return tokens_from_text(engine, o->text, o->text_bytes, LLM_TOKENIZE_BOS, tokens);
}

/* The base's tokens, which must be those of -f if that is given. */
static int take_base_text(struct ppl_options *o, const struct llm_engine *engine, struct base *base,
			  struct token_list *tokens)
{
	unsigned int n_vocab = llm_engine_info(engine)->n_vocab;
	size_t n = (size_t)base->n_windows * base->n_ctx;
	struct token_list text = { 0 };
	bool other;
	int err = o->file ? tokenize(o, engine, &text) : 0;

	other = o->file && !err &&
		(text.n < n || memcmp(text.ids, base->ids, n * sizeof(*text.ids)) != 0);
	free(text.ids);
	if (err)
		return err;
	if (base->n_vocab != n_vocab)
		return tool_fail("%s has %u tokens, %s %u: the base must have the same", o->base,
				 base->n_vocab, o->engine.model, n_vocab);
	if (o->n_ctx && o->n_ctx != base->n_ctx)
		return tool_fail("%s has windows of %u tokens: leave -c out", o->base, base->n_ctx);
	if (other)
		return tool_fail("%s was made with another text than %s: leave -f out", o->base,
				 o->file);
	o->n_ctx = base->n_ctx;
	*tokens = (struct token_list){ base->ids, n };
	base->ids = NULL;
	return 0;
}

/* Sets the windows, and begins a base that is to be written. */
static int take_text(struct ppl_options *o, const struct llm_engine *engine, struct base *base,
		     struct token_list *tokens, size_t *n_windows)
{
	int status = o->compares ? base_open(base, o->base) : tokenize(o, engine, tokens);

	if (!status && o->compares)
		status = take_base_text(o, engine, base, tokens);
	if (status)
		return status;
	o->n_ctx = o->n_ctx ? engine_ctx(engine, o->n_ctx) : DEFAULT_WINDOW;
	if (tokens->n < o->n_ctx)
		return tool_fail("%s has %zu tokens, a window %u: give a longer text or a smaller "
				 "-c",
				 o->file, tokens->n, o->n_ctx);
	*n_windows = tokens->n / o->n_ctx;
	if (*n_windows > o->max_windows)
		*n_windows = o->max_windows;
	if (!o->base || o->compares)
		return 0;
	return base_create(base, o->base, o->n_ctx, llm_engine_info(engine)->n_vocab, tokens,
			   (unsigned int)*n_windows);
}

static int run(struct ppl_options *o, struct llm_engine *engine)
{
	struct base base = { 0 };
	struct score sc = {
		.n_vocab = llm_engine_info(engine)->n_vocab,
		.base = o->base ? &base : NULL,
	};
	struct token_list tokens = { 0 };
	struct llm_session *s = NULL;
	size_t n_windows = 0;
	int status = take_text(o, engine, &base, &tokens, &n_windows);

	if (!status)
		status = engine_session(engine, o->n_ctx, &s);
	if (!status)
		status = score_text(o, engine, s, &tokens, n_windows, &sc);
	if (!status && sc.n)
		status = print_score(o, engine, s, &tokens, &sc);
	if (!status && interrupted)
		fprintf(stderr, "%s: interrupted after %zu of %zu windows\n", tool_name,
			sc.n_windows, n_windows);
	llm_session_free(s);
	free(tokens.ids);
	return base_close(&base, sc.n_windows == n_windows, status);
}

/* The handler is removed after one signal, so a second Ctrl-C ends the program at once. */
static void on_interrupt(int sig)
{
	interrupted = 1;
	progress_stop();
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND }, before;
	struct ppl_options o = { .max_windows = UINT64_MAX };
	struct llm_engine *engine;
	int status;

	tool_begin("llm-perplexity");
	if (parse_options(argc, argv, &o, &status))
		return tool_finish(status);
	/* The signal stays ignored if it is, as under nohup and in background jobs. */
	if (!sigaction(SIGINT, NULL, &before) && before.sa_handler != SIG_IGN)
		sigaction(SIGINT, &sa, NULL);
	if (o.file)
		o.text = tool_read_file(o.file, &o.text_bytes);
	status = o.file && !o.text ? 1 : engine_open(&o.engine, &engine);
	if (!status) {
		status = run(&o, engine);
		engine_close(engine);
	}
	free(o.text);
	status = tool_finish(status);
	return interrupted ? STATUS_INTERRUPTED : status;
}
