/* SPDX-License-Identifier: MIT */
/*
 * Command lines as tables: a table holds the names, values and descriptions of a tool's options;
 * the parser, --help, the manual's list and the shell's completion use it. Also the options that
 * all llm tools share: the model, and where and how it runs.
 *
 *	static const struct option_def options[] = {
 *		{ 'p', "prompt", "TEXT", .doc = "the prompt" },
 *		{ OPT_IDS, "ids", NULL, .doc = "print token ids instead of text" },
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
	int code; /* its letter, or a number from 256 on; 0 ends the table */
	const char *name; /* --NAME; NULL: it only has @dash */
	const char *arg; /* name of its value; NULL: it takes none */
	const char *doc; /* --help shows the first line, the manual pages all of it */
	const char *const *words; /* the values that it allows, up to NULL; NULL: any */
	const char *dash; /* -DASH: a second name with one dash; NULL: none */
};

/* The command line of one tool. */
struct option_set {
	/* Its own options. One with the code of a shared option replaces that. */
	const struct option_def *options;
	const char *usage; /* the first lines of --help */
	/* Called for each option, shared or own. Returns 0, or an exit status after a message. */
	int (*option)(void *ud, int c, const char *value);
	bool lists; /* settings and presets take lists */
	bool alone; /* of the shared options only --help and --version */
};

/*
 * Calls @set->option for each option; handles --help, --version, --list-devices, options that users
 * of llama.cpp expect (habits.h) and unknown ones. Names are never shortened or joined. Moves the
 * other arguments to the end. Returns 0 to go on, with optind at the first of these, or 1 to exit
 * with *@status.
 */
int options_parse(const struct option_set *set, int argc, char **argv, void *ud, int *status);

#define OPTIONS_MAX 128
/* Lists the options of @set in the order of --help: *@n_own own ones, then the shared ones. Returns
 * their number. */
size_t options_all(const struct option_set *set, struct option_def all[OPTIONS_MAX], size_t *n_own);
/* Word @i of an option's allowed values; NULL past the last one. */
const char *options_word(const struct option_def *o, unsigned int i);

/*
 * Prints --help or --help=FORMAT. "text" is for people; "man" is the list of the shared options for
 * the manual (docs/man/options.sh); "options" is for programs, such as a shell's completion: a line
 * for each name of an option, with the name of its value and the allowed words, separated by tabs.
 * "habits" and "man-habits" are the options of llama.cpp, for people and for the manual. 0, or 2
 * after a message.
 */
int options_help(const struct option_set *set, const char *format);

/* The index of @value in @words, which end with NULL; -1 after a message that lists them. */
int options_find_word(const char *what, const char *const *words, const char *value);

/* ---- the shared options ---- */

/* Values of long options without a letter; those of the tools start at OPT_TOOL. */
enum engine_option_code {
	OPT_CHOICE = 256, /* + enum llm_choice */
	OPT_TRANSPORT = OPT_CHOICE + LLM_NR_CHOICES,
	OPT_NPU_THREADS,
	OPT_PRESET,
	OPT_CHUNK,
	OPT_DECODE_WIDTH,
	OPT_BLOCK_LAYERS,
	OPT_CLOCK,
	OPT_PROFILE,
	OPT_GPU,
	OPT_PREDICTOR,
	OPT_CUTS_PROFILE,
	OPT_BITS,
	OPT_PRUNING,
	OPT_PANELS_CACHE,
	OPT_RATIO,
	OPT_SPARSE_FROM,
	OPT_SCALE_BUCKETS,
	OPT_SCALE_STEP,
	OPT_LIST_DEVICES,
	OPT_HELP,
	OPT_VERSION,
	OPT_TOOL,
};

/* Sets a shared option from options_parse(). 0, or 2 after a message. */
int engine_option(struct llm_options *opts, int c, const char *value);

/* Options with named values or a number, which llm-bench can vary. */
enum engine_setting {
	ENGINE_TRANSPORT,
	ENGINE_CHOICE, /* + enum llm_choice */
	ENGINE_CHUNK = ENGINE_CHOICE + LLM_NR_CHOICES,
	ENGINE_DECODE_WIDTH,
	ENGINE_BLOCK_LAYERS,
	ENGINE_NPU_THREADS,
	ENGINE_THREADS,
	ENGINE_NR_SETTINGS,
};
/* The setting of an option; -1: the option is no setting. */
int engine_setting(int c);
/* Parse a value, or a list of values. 0, or 2 after a message. */
int engine_setting_parse(enum engine_setting setting, const char *value, unsigned int *parsed);
int engine_setting_parse_list(enum engine_setting setting, const char *values, struct range *list);
void engine_setting_apply(struct llm_options *opts, enum engine_setting setting,
			  unsigned int value);

#define ENGINE_DEFAULT_PROFILE "sd8gen3"
/* "wall" sets *@profile to NULL; "virtual" sets it to the default if it is NULL. 0, or 2 after a
 * message. */
int engine_parse_clock(const char *name, const char **profile);
const char *engine_transport_name(enum npu_transport transport);

/* Of -c: as many tokens as the model was trained with. For the engine 0 is a default. */
#define ENGINE_CTX_TRAINED UINT32_MAX
/* Parses the tokens of a context: 0, which means as many as trained, or from @min on. 0, or 2 after
 * a message. */
int engine_parse_ctx(const char *value, unsigned int min, unsigned int *n_ctx);
/* The tokens of the context for @engine: @n_ctx, or as many as trained. */
unsigned int engine_ctx(const struct llm_engine *engine, unsigned int n_ctx);
/* Creates a session of so many. Warns of more than the model was trained for, unless the file
 * extends RoPE so far. 0, or 1 after a message. */
int engine_session(struct llm_engine *engine, unsigned int n_ctx, struct llm_session **s);

/* Which options were given that only refine others, and have no effect with @opts: a set, of which
 * engine_refuse_unused() names one. 0, or 2 after the message if there are any. */
unsigned int engine_unused(const struct llm_options *opts);
int engine_refuse_unused(unsigned int unused);

/* Opens the engine, with a progress bar. 0, or after a message 2 for options that are wrong
 * whatever the model or that have no effect, else 1. */
int engine_open(struct llm_options *opts, struct llm_engine **engine);
/* The same without a message: returns what llm_engine_open() does, whose error line is
 * llm_error()'s. */
int engine_try_open(struct llm_options *opts, struct llm_engine **engine);
/* Closes it, once its cache of panels has been made. Warns if that could not be done, but of the
 * same only once. NULL: nothing. */
void engine_close(struct llm_engine *engine);

/* --list-devices: prints the transports' devices. */
int engine_list_devices(void);

#endif /* OPTIONS_H */
