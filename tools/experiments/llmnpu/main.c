// SPDX-License-Identifier: MIT
/* The command line of llmnpu: see llmnpu.h. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llmnpu.h"
#include "options.h"
#include "tool.h"

#define MAX_TOKENS 65536

enum {
	OPT_SHAPE = OPT_TOOL,
};

static const char usage[] = "usage: llmnpu subgraphs|fits|chunks|steps|merging [options]\n"
			    "Prints a table of what llm.npu's method brings on modelled SoCs.\n";

static const struct option_def options[] = {
	{ OPT_SHAPE, "shape", "NAMES",
	  .doc = "shapes of share/shapes (default: the paper's five)" },
	{ OPT_PROFILE, "profile", "NAMES", .doc = "SoCs of share/profiles (default: sd8gen3)" },
	{ 'p', "n-prompt", "LIST", .doc = "tokens of prompts (default: 1024)" },
	{ .code = 0 },
};

static const struct command *const commands[] = { &command_subgraphs, &command_fits,
						  &command_chunks, &command_steps,
						  &command_merging };

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
	case OPT_CHUNK:
		return tool_parse_uint("--chunk", value, 1, LLM_MAX_CHUNK, &args->chunk);
	}
	status = engine_option(&opts, c, value);
	args->choices = opts.choices;
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
	place.soc = soc;
	place.shape = &shape;
	if (first)
		command->head();
	status = command->put(&place);
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

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct option_set set = { .options = options, .usage = usage, .option = parse_one };
	struct args args = {
		.shapes = "qwen1.5-1.8b,gemma-2b,phi2-2.7b,llama2-7b,mistral-7b",
		.profiles = "sd8gen3",
	};
	const struct command *command;
	int status;

	tool_name = "llmnpu";
	llm_preset_apply(llm_preset((unsigned int)llm_preset_parse("llm.npu")), &args.choices);
	if (options_parse(&set, argc, argv, &args, &status)) {
		range_free(&args.tokens);
		return status;
	}
	command = optind + 1 == argc ? find_command(argv[optind]) : NULL;
	if (!command)
		status = tool_usage("give one of subgraphs, fits, chunks, steps, merging");
	else if (args.choices.placement != LLM_PLACE_LINEAR)
		status = tool_usage("llm.npu's placement is linear");
	else if (llm_choices_settle(&args.choices, NULL, true, &args.choices))
		status = tool_fail("%s", llm_error());
	else if (!args.tokens.n)
		status = range_add(&args.tokens, 1024);
	if (!status)
		status = put_all(command, &args);
	range_free(&args.tokens);
	return tool_finish(status);
}
