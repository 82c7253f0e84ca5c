// SPDX-License-Identifier: MIT
/* The command line of programs that print tables. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "tool.h"
#include "trial.h"

#define MAX_TOKENS 65536

enum {
	OPT_SHAPE = OPT_TOOL,
};

/* The program's options and their documentation. */
#define NR_OPTIONS 5
static void make_options(const struct program *program, struct option_def options[NR_OPTIONS],
			 char docs[3][64])
{
	snprintf(docs[0], 64, "SoCs of share/profiles (default: %s)", program->profiles);
	snprintf(docs[1], 64, "tokens of prompts (default: %s)", program->tokens);
	options[0] = (struct option_def){ OPT_SHAPE, "shape", "NAMES", .doc = program->shapes_doc };
	options[1] = (struct option_def){ OPT_PROFILE, "profile", "NAMES", .doc = docs[0] };
	options[2] = (struct option_def){ 'p', "n-prompt", "LIST", .doc = docs[1] };
	options[3] = (struct option_def){ .code = 0 };
	if (!program->bits)
		return;
	snprintf(docs[2], 64, "bits a weight of files that start cold (default: %s)",
		 program->bits);
	options[3] = (struct option_def){ OPT_BITS, "bits", "LIST", .doc = docs[2] };
	options[4] = (struct option_def){ .code = 0 };
}

static int parse_one(void *ud, int c, const char *value)
{
	struct args *args = ud;
	struct llm_options opts = { .choices = args->choices };
	int status;

	switch (c) {
	case OPT_SHAPE:
		args->shapes = value;
		return 0;
	case OPT_PROFILE:
		args->profiles = value;
		return 0;
	case 'p':
		return range_parse(&args->tokens, "-p", value, 2, MAX_TOKENS);
	case OPT_BITS:
		return range_parse(&args->bits, "--bits", value, 1, 8);
	case OPT_CHUNK:
		return tool_parse_uint("--chunk", value, 1, LLM_MAX_CHUNK, &args->chunk);
	}
	status = engine_option(&opts, c, value);
	args->choices = opts.choices;
	return status;
}

static int put_lengths(const struct command *command, const struct place *place)
{
	const struct range *tokens = &place->args->tokens;
	int status = 0;

	if (command->put)
		return command->put(place);
	for (size_t i = 0; i < tokens->n && !status; i++)
		status = command->put_tokens(place, tokens->v[i]);
	return status;
}

static int put_place(const struct command *command, const struct args *args, const char *profile,
		     const char *name, bool first)
{
	struct place place = { .args = args };
	struct shape shape;
	char why[512];
	struct soc *soc;
	int status;

	if (shape_load(name, &shape))
		return tool_fail("%s", llm_error());
	soc = soc_load(profile, why, sizeof(why));
	if (!soc)
		return tool_fail("%s", why);
	if (soc_use_cores(soc, (enum soc_cores)args->choices.cores)) {
		soc_free(soc);
		return tool_fail("profile %s has no %s core", profile,
				 llm_choice_name(LLM_CHOICE_CORES, args->choices.cores));
	}
	place.soc = soc;
	place.shape = &shape;
	if (first)
		command->head();
	status = put_lengths(command, &place);
	soc_free(soc);
	return status;
}

/* Each shape on each SoC. */
static int put_all(const struct command *command, const struct args *args)
{
	char *profiles = strdup(args->profiles), *next = profiles, *profile;
	int status = profiles ? 0 : tool_fail("no memory for names");
	bool first = true;

	while (!status && (profile = strsep(&next, ","))) {
		char *shapes = strdup(args->shapes), *rest = shapes, *shape;

		if (!shapes)
			status = tool_fail("no memory for names");
		while (!status && (shape = strsep(&rest, ","))) {
			status = put_place(command, args, profile, shape, first);
			first = false;
		}
		free(shapes);
	}
	free(profiles);
	return status;
}

static const struct command *find_command(const struct program *program, const char *name)
{
	for (unsigned int i = 0; i < program->n_commands; i++)
		if (!strcmp(program->commands[i]->name, name))
			return program->commands[i];
	return NULL;
}

static int refuse_command(const struct program *program)
{
	char names[128] = "";

	for (unsigned int i = 0; i < program->n_commands; i++) {
		size_t n = strlen(names);

		snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "",
			 program->commands[i]->name);
	}
	return tool_usage("give one of %s", names);
}

/* After the options. */
static int run(const struct program *program, const struct command *command, struct args *args,
	       enum llm_placement placement)
{
	int status = 0;

	if (!command)
		status = refuse_command(program);
	else if (args->choices.placement != placement)
		status = tool_usage("%s's placement is %s", program->preset,
				    llm_choice_name(LLM_CHOICE_PLACEMENT, placement));
	else if (llm_choices_settle(&args->choices, NULL, true, &args->choices))
		status = tool_usage("%s", llm_error());
	else if (!args->tokens.n)
		status = range_parse(&args->tokens, "-p", program->tokens, 2, MAX_TOKENS);
	if (!status && program->bits && !args->bits.n)
		status = range_parse(&args->bits, "--bits", program->bits, 1, 8);
	return status ? status : put_all(command, args);
}

int program_run(const struct program *program, int argc, char **argv)
{
	const struct llm_preset *preset =
		llm_preset((unsigned int)llm_preset_parse(program->preset));
	struct option_def options[NR_OPTIONS];
	char docs[3][64];
	const struct option_set set = { .options = options,
					.usage = program->usage,
					.option = parse_one };
	struct args args = {
		.shapes = program->shapes,
		.profiles = program->profiles,
		.chunk = program->chunk,
	};
	int status;

	tool_begin(program->name);
	make_options(program, options, docs);
	llm_preset_apply(preset, &args.choices);
	args.choices.cores = program->cores;
	if (!options_parse(&set, argc, argv, &args, &status))
		status = tool_finish(run(
			program, optind + 1 == argc ? find_command(program, argv[optind]) : NULL,
			&args, preset->choices.placement));
	range_free(&args.tokens);
	range_free(&args.bits);
	return status;
}
