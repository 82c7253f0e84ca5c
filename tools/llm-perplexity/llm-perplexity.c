// SPDX-License-Identifier: MIT
/*
 * llm-perplexity: how well a model predicts a text.
 *
 * The text is tokenized as a whole and divided into windows of c tokens that do not overlap; a rest
 * is left out. BOS replaces each window's first token. Position i predicts token i + 1. As in
 * llama-perplexity, only positions from c/2 on are scored, so that each prediction has at least
 * half a window before it. --all scores every position. --reference compares each prediction with
 * that of another model in floats on the CPU.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_out.h"
#include "options.h"
#include "progress.h"
#include "tokens.h"
#include "tool.h"

enum {
	OPT_ALL = OPT_TOOL,
	OPT_REFERENCE,
};

struct ppl_options {
	struct llm_options engine;
	const char *file;
	const char *reference; /* NULL: none */
	unsigned int n_ctx;
	bool all, json;
};

/* The model that predictions are compared with. */
struct reference {
	struct llm_engine *engine; /* NULL: there is none */
	struct llm_session *s;
	int32_t *top; /* [n_ctx]: the most likely token after each position of the window */
};

/* Sums over scored positions. */
struct score {
	const int32_t *next; /* the token that each position of the running evaluation predicts */
	unsigned int n_vocab;
	uint64_t n;
	double nll, nll2; /* of -log p and of its square */
	const int32_t *top; /* the reference's, by position; NULL: there is none */
	uint64_t same; /* positions whose most likely token is the reference's */
};

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
	{ OPT_ALL, "all", NULL,
	  .doc = "score all positions of a window, not only the second half" },
	{ 'o', "output", "FORMAT", .doc = "text or json (default: text)", .words = formats },
	{ .code = 0 },
};

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
	else if (!o->file)
		*status = tool_usage("no text: give one with -f FILE");
	return *status != 0;
}

/* Adds -log softmax of the actual next token. Relative to the maximum, exp() cannot overflow. */
static void score_position(void *ud, size_t i, const float *logits)
{
	struct score *sc = ud;
	float max = logits[0];
	double sum = 0, nll;

	for (unsigned int v = 1; v < sc->n_vocab; v++)
		max = logits[v] > max ? logits[v] : max;
	for (unsigned int v = 0; v < sc->n_vocab; v++)
		sum += (double)expf(logits[v] - max);
	nll = log(sum) + (double)max - (double)logits[sc->next[i]];
	sc->n++;
	sc->nll += nll;
	sc->nll2 += nll * nll;
	sc->same += sc->top && sc->top[i] == llm_argmax(logits, sc->n_vocab);
}

/* ---- the reference ---- */

struct tops {
	int32_t *top;
	unsigned int n_vocab;
};

static void note_top(void *ud, size_t i, const float *logits)
{
	const struct tops *t = ud;

	t->top[i] = llm_argmax(logits, t->n_vocab);
}

/* Both models have to have the same tokens. */
static int reference_open(const struct ppl_options *o, const struct llm_engine *engine,
			  struct reference *ref)
{
	struct llm_options opts = {
		.model = o->reference,
		.choices = { .placement = LLM_PLACE_CPU, .weights = LLM_WEIGHTS_F32 },
		.threads = o->engine.threads,
	};
	unsigned int n_vocab = llm_engine_info(engine)->n_vocab, n;
	int status = engine_open(&opts, &ref->engine);

	if (status)
		return status;
	n = llm_engine_info(ref->engine)->n_vocab;
	if (n != n_vocab)
		return tool_fail("%s has %u tokens, %s %u: the reference must have the same",
				 o->reference, n, o->engine.model, n_vocab);
	ref->top = calloc(o->n_ctx, sizeof(*ref->top));
	if (!ref->top)
		return tool_fail("no memory for a window of %u tokens", o->n_ctx);
	return llm_session_create(ref->engine, o->n_ctx, &ref->s) ? tool_fail("%s", llm_error())
								  : 0;
}

static void reference_close(struct reference *ref)
{
	if (ref->s)
		llm_session_free(ref->s);
	if (ref->engine)
		engine_close(ref->engine);
	free(ref->top);
}

/* What it predicts after positions first .. n_ctx - 2. */
static int reference_window(const struct ppl_options *o, struct reference *ref, const int32_t *ids,
			    unsigned int first)
{
	struct tops tops = { ref->top, llm_engine_info(ref->engine)->n_vocab };

	if (llm_session_truncate(ref->s, 0) || (first && llm_session_eval(ref->s, ids, first)) ||
	    llm_session_eval_all(ref->s, ids + first, o->n_ctx - first - 1, note_top, &tops))
		return tool_fail("%s", llm_error());
	return 0;
}

/* ---- windows ---- */

static int score_window(const struct ppl_options *o, struct llm_session *s, struct reference *ref,
			const int32_t *ids, struct score *sc)
{
	unsigned int first = o->all ? 0 : o->n_ctx / 2;

	if (ref->engine && reference_window(o, ref, ids, first))
		return 1;
	sc->top = ref->top;
	if (llm_session_truncate(s, 0))
		return tool_fail("%s", llm_error());
	/* The first half is evaluated without logits. The last token is left out, since the token
	 * that it predicts is not in the window. */
	if (first && llm_session_eval(s, ids, first))
		return tool_fail("%s", llm_error());
	sc->next = ids + first + 1;
	if (llm_session_eval_all(s, ids + first, o->n_ctx - first - 1, score_position, sc))
		return tool_fail("%s", llm_error());
	return 0;
}

static int score_text(const struct ppl_options *o, struct llm_session *s, struct reference *ref,
		      struct token_list *text, int bos, struct score *sc)
{
	size_t n_windows = text->n / o->n_ctx;

	for (size_t w = 0; w < n_windows; w++) {
		int32_t *ids = text->ids + w * o->n_ctx;
		char what[64];

		snprintf(what, sizeof(what), "window %zu of %zu", w + 1, n_windows);
		progress_show((double)w / (double)n_windows, what);
		if (bos >= 0)
			ids[0] = bos;
		if (score_window(o, s, ref, ids, sc))
			return 1;
	}
	progress_clear();
	return 0;
}

static int print_score(const struct ppl_options *o, const struct llm_engine *engine,
		       const struct llm_session *s, const struct token_list *text,
		       const struct score *sc)
{
	const struct llm_engine_info *info = llm_engine_info(engine);
	double n = (double)sc->n, nll = sc->nll / n;
	double variance = sc->nll2 / n - nll * nll;
	double perplexity = exp(nll);
	/* The standard error of the mean nll, propagated through exp(). */
	double error = sc->n > 1 ? perplexity * sqrt(fmax(variance, 0) / (n - 1)) : NAN;
	struct llm_session_stats st;
	struct json_object *json;
	int err;

	llm_session_stats(s, &st);
	if (!o->json) {
		printf("perplexity %.4f +/- %.4f (nll %.5f, %" PRIu64
		       " tokens scored, %s weights)\n",
		       perplexity, error, nll, sc->n,
		       llm_choice_name(LLM_CHOICE_WEIGHTS, info->choices.weights));
		if (sc->top)
			printf("agreement  %.4f of %s\n", (double)sc->same / n, o->reference);
		return 0;
	}
	json = json_object_new_object();
	json_object_object_add(json, "perplexity", json_out_double(perplexity));
	json_object_object_add(json, "stderr", json_out_double(error));
	json_object_object_add(json, "n_tokens", json_out_u64(sc->n));
	json_object_object_add(json, "nll", json_out_double(nll));
	json_object_object_add(json, "agreement",
			       sc->top ? json_out_double((double)sc->same / n) : NULL);
	json_object_object_add(json, "npu_jobs", info->device ? json_out_u64(st.npu_jobs) : NULL);
	json_object_object_add(
		json, "weights",
		json_out_string(llm_choice_name(LLM_CHOICE_WEIGHTS, info->choices.weights)));
	json_object_object_add(json, "kv",
			       json_out_string(llm_choice_name(LLM_CHOICE_KV, info->choices.kv)));
	json_object_object_add(
		json, "placement",
		json_out_string(llm_choice_name(LLM_CHOICE_PLACEMENT, info->choices.placement)));
	json_object_object_add(json, "model_filename", json_out_string(o->engine.model));
	json_object_object_add(json, "model_type", json_out_string(info->type));
	json_object_object_add(json, "n_ctx", json_out_u64(o->n_ctx));
	json_object_object_add(json, "n_windows", json_out_u64(text->n / o->n_ctx));
	json_object_object_add(json, "text_tokens", json_out_u64(text->n));
	err = json_out_line(stdout, json);
	json_object_put(json);
	return err;
}

static int run(const struct ppl_options *o, struct llm_engine *engine, const char *text,
	       size_t bytes)
{
	const struct llm_engine_info *info = llm_engine_info(engine);
	struct score sc = { .n_vocab = info->n_vocab };
	struct reference ref = { 0 };
	struct token_list tokens;
	struct llm_session *s;
	int status = tokens_from_text(engine, text, bytes, LLM_TOKENIZE_BOS, &tokens);

	if (status)
		return status;
	if (tokens.n < o->n_ctx) {
		status = tool_fail(
			"%s has %zu tokens, a window %u: give a longer text or a smaller -c",
			o->file, tokens.n, o->n_ctx);
	} else if (llm_session_create(engine, o->n_ctx, &s)) {
		status = tool_fail("%s", llm_error());
	} else {
		if (o->reference)
			status = reference_open(o, engine, &ref);
		if (!status)
			status = score_text(o, s, &ref, &tokens, info->add_bos ? info->bos : -1,
					    &sc);
		if (!status)
			status = print_score(o, engine, s, &tokens, &sc);
		reference_close(&ref);
		llm_session_free(s);
	}
	free(tokens.ids);
	return status;
}

int main(int argc, char **argv)
{
	struct ppl_options o = { .n_ctx = 512 };
	struct llm_engine *engine;
	size_t bytes;
	char *text;
	int status;

	tool_name = "llm-perplexity";
	if (parse_options(argc, argv, &o, &status))
		return tool_finish(status);
	text = tool_read_file(o.file, &bytes);
	status = text ? engine_open(&o.engine, &engine) : 1;
	if (!status) {
		o.n_ctx = engine_ctx(engine, o.n_ctx);
		status = run(&o, engine, text, bytes);
		engine_close(engine);
	}
	free(text);
	return tool_finish(status);
}
