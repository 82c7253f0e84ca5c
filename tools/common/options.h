/* SPDX-License-Identifier: MIT */
/*
 * Command lines as tables: what a tool's options are called, take and mean is said once, and
 * getopt's tables, --help, the manual's list and the shell's completion are made from it. Here too
 * are the options that all llm tools share: the model, and where and how it runs.
 *
 *	static const struct option_def options[] = {
 *		{ 'p', "prompt", "TEXT", .doc = "the prompt" },
 *		{ OPT_IDS, "ids", NULL, .doc = "print token ids in place of text" },
 *		{ .code = 0 },
 *	};
 *	static const struct option_set set = { options, usage, .option = parse_one };
 *
 *	if (options_parse(&set, argc, argv, &opts, &status))
 *		return tool_finish(status);
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <getopt.h>

#include "llm.h"
#include "range.h"

/* ---- any tool's options ---- */

struct option_def {
	int code; /* its letter, or a number from 256 on; 0 after the last option */
	const char *name; /* --NAME; NULL: it has only @dash */
	const char *arg; /* what its value is called; NULL: it takes none */
	const char *doc; /* its first line is enough for --help, all of it is the manual's */
	const char *const *words; /* what its value can be, up to NULL; NULL: anything else */
	const char *dash; /* -DASH: a second name, behind one dash; NULL: none */
};

/* The command line of one tool. */
struct option_set {
	/* Its own options. One that has the code of a shared option stands for it. */
	const struct option_def *options;
	const char *usage; /* what --help begins with */
	/* An option, shared or of the tool's own. 0, or an exit status after a message. */
	int (*option)(void *ud, int c, const char *value);
	bool lists; /* settings and presets take lists */
};

/* Gives each option to @set->option; answers --help, --version and --list-devices, and refuses
 * unknown ones. 0 to go on, with optind at what is no option; 1 to end with *@status. */
int options_parse(const struct option_set *set, int argc, char **argv, void *ud, int *status);

#define OPTIONS_MAX 64
/*
 * The options of @set as --help shows them, the shared ones after the @*n_own others.
 * Returns how many there are.
 */
size_t options_all(const struct option_set *set, struct option_def all[OPTIONS_MAX], size_t *n_own);
/* The word @i of those that an option's value can be; NULL past the last one. */
const char *options_word(const struct option_def *o, unsigned int i);

/*
 * --help and --help=FORMAT. "text" is for people. "man" is the list of the shared options for the
 * manual (docs/man/options.sh). "options" is for programs, such as a shell's completion: a line for
 * each name of an option, with the name of its value and the words that it can be, with tabs
 * between. 0, or 2 after a message.
 */
int options_help(const struct option_set *set, const char *format);

/* The index of @value in @words, which end with NULL; else -1, after a message that lists them. */
int options_find_word(const char *what, const char *const *words, const char *value);

/* ---- the shared options ---- */

/* Values of long options without a letter; those of the tools start at OPT_TOOL. */
enum engine_option_code {
	OPT_CHOICE = 256, /* and so on: + enum llm_choice */
	OPT_TRANSPORT = OPT_CHOICE + LLM_NR_CHOICES,
	OPT_NPU_THREADS,
	OPT_PRESET,
	OPT_CHUNK,
	OPT_CLOCK,
	OPT_PROFILE,
	OPT_GPU,
	OPT_PREDICTOR,
	OPT_CUTS_PROFILE,
	OPT_LIST_DEVICES,
	OPT_HELP,
	OPT_VERSION,
	OPT_TOOL,
};

/* A shared option from options_parse(). 0, or 2 after a message. */
int engine_option(struct llm_options *opts, int c, const char *value);

/* Options whose value is one of a few, or a number: what tests differ by. */
enum engine_setting {
	ENGINE_TRANSPORT,
	ENGINE_CHOICE, /* and so on: + enum llm_choice */
	ENGINE_CHUNK = ENGINE_CHOICE + LLM_NR_CHOICES,
	ENGINE_NPU_THREADS,
	ENGINE_THREADS,
	ENGINE_NR_SETTINGS,
};
/* The setting behind an option; -1: it is none. */
int engine_setting(int c);
/* Its value, or a list of them; 0, or 2 after a message. */
int engine_setting_parse(enum engine_setting setting, const char *value, unsigned int *parsed);
int engine_setting_parse_list(enum engine_setting setting, const char *values, struct range *list);
void engine_setting_apply(struct llm_options *opts, enum engine_setting setting,
			  unsigned int value);

/* The SoC where none is named. */
#define ENGINE_DEFAULT_PROFILE "sd8gen3"
/* "wall" leaves *@profile NULL, "virtual" a profile. 0, or 2 after a message. */
int engine_parse_clock(const char *name, const char **profile);
const char *engine_transport_name(enum npu_transport transport);

/*
 * Opens the engine, with a progress bar. 0, or 1 after a message. A model, or in a
 * dry run a shape, is needed.
 */
int engine_open(struct llm_options *opts, struct llm_engine **engine);

/* --list-devices: what the transports offer, on stdout. */
int engine_list_devices(void);

#endif /* OPTIONS_H */
