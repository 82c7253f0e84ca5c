// SPDX-License-Identifier: MIT
/* llm-logits: the logits after a sequence of tokens, for comparison with other engines. */
#include <endian.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "escapes.h"
#include "json_out.h"
#include "options.h"
#include "tokens.h"
#include "tool.h"

enum {
	OPT_TOKENS = OPT_TOOL,
	OPT_NO_ESCAPE,
};

enum logits_format {
	FORMAT_JSON,
	FORMAT_TEXT,
	FORMAT_F32,
};

struct logits_options {
	struct llm_options engine;
	const char *tokens, *prompt;
	unsigned int n_ctx;
	bool no_escape;
	enum logits_format format;
};

static const char usage[] = "usage: llm-logits -m FILE --tokens 1,2,3 | -p TEXT [options]\n"
			    "Prints the logits of the last position.\n";

static const char *const formats[] = { "json", "text", "f32", NULL };

static const struct option_def options[] = {
	{ OPT_TOKENS, "tokens", "LIST",
	  .doc = "token ids separated by commas, without an added BOS" },
	{ 'p', "prompt", "TEXT",
	  .doc = "a text, with BOS in front if the model wants it; escapes in it are those of "
		 "llm-cli" },
	{ 'e', "escape", NULL, .doc = "escapes in -p: the default" },
	{ OPT_NO_ESCAPE, "no-escape", NULL, .doc = "no escapes in -p" },
	{ 'c', "ctx-size", "N",
	  .doc = "tokens of context; 0: as many as the model was trained with (default: the "
		 "same, at most 4096)" },
	{ 'o', "output", "FORMAT",
	  .doc = "json, text (a line for each token: id and logit) or f32 (little-endian, raw; "
		 "default: json)",
	  .words = formats },
	{ .code = 0 },
};

static int parse_format(const char *s, enum logits_format *format)
{
	int found = options_find_word("-o", formats, s);

	if (found < 0)
		return 2;
	*format = (enum logits_format)found;
	return 0;
}

static int parse_one(void *ud, int c, const char *value)
{
	struct logits_options *o = ud;

	switch (c) {
	case OPT_TOKENS:
		o->tokens = value;
		return 0;
	case 'p':
		o->prompt = value;
		return 0;
	case 'c':
		return engine_parse_ctx(value, 1, &o->n_ctx);
	case 'e':
	case OPT_NO_ESCAPE:
		o->no_escape = c == OPT_NO_ESCAPE;
		return 0;
	case 'o':
		return parse_format(value, &o->format);
	}
	return engine_option(&o->engine, c, value);
}

/* Returns 0 to go on, or 1 to exit with *@status. */
static int parse_options(int argc, char **argv, struct logits_options *o, int *status)
{
	static const struct option_set set = { options, usage, .option = parse_one };

	if (options_parse(&set, argc, argv, o, status))
		return 1;
	if (optind < argc)
		*status = tool_usage("'%s': not an option", argv[optind]);
	else if (!o->engine.model)
		*status = tool_usage("no model: give one with -m FILE");
	else if (!o->tokens == !o->prompt)
		*status = tool_usage("give one of --tokens LIST and -p TEXT");
	return *status != 0;
}

static int print_json(const char *model, const struct token_list *tokens, const float *logits,
		      unsigned int n_vocab)
{
	struct json_object *o = json_object_new_object();
	struct json_object *ids = json_object_new_array_ext((int)tokens->n);
	struct json_object *values = json_object_new_array_ext((int)n_vocab);
	int err;

	for (size_t i = 0; i < tokens->n; i++)
		json_object_array_add(ids, json_object_new_int(tokens->ids[i]));
	for (unsigned int i = 0; i < n_vocab; i++)
		json_object_array_add(values, json_out_float(logits[i]));
	json_object_object_add(o, "model_filename", json_object_new_string(model));
	json_object_object_add(o, "n_vocab", json_object_new_int64(n_vocab));
	json_object_object_add(o, "n_tokens", json_object_new_int64((int64_t)tokens->n));
	json_object_object_add(o, "tokens", ids);
	json_object_object_add(o, "logits", values);
	err = json_out_line(stdout, o);
	json_object_put(o);
	return err;
}

static int print_logits(const struct logits_options *o, const struct token_list *tokens,
			const float *logits, unsigned int n_vocab)
{
	switch (o->format) {
	case FORMAT_JSON:
		return print_json(o->engine.model, tokens, logits, n_vocab);
	case FORMAT_TEXT:
		for (unsigned int i = 0; i < n_vocab; i++)
			printf("%u %.9g\n", i, (double)logits[i]);
		return 0;
	case FORMAT_F32:
		for (unsigned int i = 0; i < n_vocab; i++) {
			uint32_t bits;

			memcpy(&bits, &logits[i], sizeof(bits));
			bits = htole32(bits);
			fwrite(&bits, sizeof(bits), 1, stdout);
		}
		return 0;
	}
	return 0;
}

static int read_prompt(const struct logits_options *o, const struct llm_engine *engine,
		       struct token_list *tokens)
{
	size_t bytes = strlen(o->prompt);
	char *text = o->no_escape ? NULL : escapes_decode(o->prompt, &bytes);
	int status = text || o->no_escape ? 0 : 1;

	if (!status)
		status = tokens_from_text(engine, text ? text : o->prompt, bytes, LLM_TOKENIZE_BOS,
					  tokens);
	free(text);
	if (!status && !tokens->n)
		status = tool_fail("the prompt is empty: give at least one character");
	return status;
}

static int run(const struct logits_options *o, struct llm_engine *engine, struct token_list *tokens)
{
	struct llm_session *s;
	int status = o->prompt ? read_prompt(o, engine, tokens) : 0;

	if (status)
		return status;
	if (engine_session(engine, o->n_ctx, &s))
		return 1;
	if (llm_session_eval(s, tokens->ids, tokens->n))
		status = tool_fail("%s", llm_error());
	else
		status = print_logits(o, tokens, llm_session_logits(s),
				      llm_engine_info(engine)->n_vocab);
	llm_session_free(s);
	return status;
}

int main(int argc, char **argv)
{
	struct logits_options o = { .format = FORMAT_JSON };
	struct token_list tokens = { 0 };
	struct llm_engine *engine;
	int status;

	tool_begin("llm-logits");
	if (parse_options(argc, argv, &o, &status))
		return tool_finish(status);
	status = o.tokens ? tokens_from_list("--tokens", o.tokens, &tokens) : 0;
	if (!status)
		status = engine_open(&o.engine, &engine);
	if (!status) {
		status = run(&o, engine, &tokens);
		engine_close(engine);
	}
	free(tokens.ids);
	return tool_finish(status);
}
