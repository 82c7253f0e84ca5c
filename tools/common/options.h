/* SPDX-License-Identifier: MIT */
/*
 * The options that all llm tools share: the model, where and how it runs.
 *
 *	static const struct option longopts[] = { ENGINE_LONG_OPTIONS, { "ids", no_argument, NULL, 'I' }, { 0 } };
 *	static const struct option_set set = { ":" ENGINE_SHORT_OPTIONS "p:", longopts, getopt_long, help, parse_one };
 *
 *	if (options_parse(&set, argc, argv, &opts, &status))
 *		return tool_finish(status);
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <getopt.h>

#include "llm.h"

/* Values of long options without a letter; those of the tools start at OPT_TOOL. */
enum engine_option_code {
	OPT_TRANSPORT = 256,
	OPT_NPU_THREADS,
	OPT_PLACEMENT,
	OPT_WEIGHTS,
	OPT_GRAPHS,
	OPT_PARTITION,
	OPT_KV,
	OPT_ACTIVATIONS,
	OPT_SYNC,
	OPT_PRESET,
	OPT_CHUNK,
	OPT_CLOCK,
	OPT_PROFILE,
	OPT_GPU,
	OPT_GPU_SHARE,
	OPT_CUTS_PROFILE,
	OPT_LIST_DEVICES,
	OPT_HELP,
	OPT_VERSION,
	OPT_TOOL,
};

#define ENGINE_SHORT_OPTIONS "m:t:h"
#define ENGINE_LONG_OPTIONS                                                                                         \
	{ "model", required_argument, NULL, 'm' }, { "threads", required_argument, NULL, 't' },                     \
		{ "transport", required_argument, NULL, OPT_TRANSPORT },                                            \
		{ "npu-threads", required_argument, NULL, OPT_NPU_THREADS },                                        \
		{ "placement", required_argument, NULL, OPT_PLACEMENT },                                            \
		{ "weights", required_argument, NULL, OPT_WEIGHTS },                                                \
		{ "activations", required_argument, NULL, OPT_ACTIVATIONS },                                        \
		{ "graphs", required_argument, NULL, OPT_GRAPHS },                                                  \
		{ "partition", required_argument, NULL, OPT_PARTITION }, { "kv", required_argument, NULL, OPT_KV }, \
		{ "sync", required_argument, NULL, OPT_SYNC }, { "preset", required_argument, NULL, OPT_PRESET },   \
		{ "chunk", required_argument, NULL, OPT_CHUNK }, { "clock", required_argument, NULL, OPT_CLOCK },   \
		{ "profile", required_argument, NULL, OPT_PROFILE }, { "gpu", required_argument, NULL, OPT_GPU },   \
		{ "gpu-share", required_argument, NULL, OPT_GPU_SHARE },                                            \
		{ "cuts-profile", required_argument, NULL, OPT_CUTS_PROFILE },                                      \
		{ "list-devices", no_argument, NULL, OPT_LIST_DEVICES }, { "help", no_argument, NULL, OPT_HELP },   \
	{                                                                                                           \
		"version", no_argument, NULL, OPT_VERSION                                                           \
	}

/* The part of --help about these options. */
extern const char engine_options_help[];

/* Limits of the numbers. */
#define ENGINE_MAX_THREADS 1024
#define ENGINE_MAX_CHUNK 65536

/* One option from getopt_long(). 0, or 2 after a message. */
bool engine_option_is(int c);
int engine_option(struct llm_options *opts, int c, const char *value);

/* The command line of one tool. */
struct option_set {
	const char *shortopts; /* begins with ":" ENGINE_SHORT_OPTIONS */
	const struct option *longopts; /* with ENGINE_LONG_OPTIONS */
	int (*next)(int argc, char *const argv[], const char *shortopts, const struct option *longopts, int *index);
	void (*help)(void);
	/* An option of engine_option_is() or of the tool's own. 0, or an exit status after a message. */
	int (*option)(void *ud, int c, const char *value);
};

/* Gives each option to @set->option; answers --help, --version and --list-devices, and refuses unknown ones. 0 to go
 * on, with optind at what is no option; 1 to end with *@status. */
int options_parse(const struct option_set *set, int argc, char **argv, void *ud, int *status);

/* Names to values; 0, or 2 after a message that lists the names. */
int engine_parse_transport(const char *name, enum npu_transport *transport);
int engine_parse_placement(const char *name, enum llm_placement *placement);
int engine_parse_weights(const char *name, enum llm_weights *weights);
int engine_parse_activations(const char *name, enum llm_activations *activations);
int engine_parse_graphs(const char *name, enum llm_graphs *graphs);
int engine_parse_partition(const char *name, enum llm_partition *partition);
int engine_parse_kv(const char *name, enum llm_kv *kv);
int engine_parse_sync(const char *name, enum llm_sync *sync);
/* "wall" leaves *@profile NULL, "virtual" a profile. */
int engine_parse_share(const char *value, float *share);
int engine_parse_clock(const char *name, const char **profile);
const char *engine_transport_name(enum npu_transport transport);

/* A preset is a placement, and what goes with it, by one name. */
struct engine_preset {
	const char *name;
	enum llm_placement placement;
	enum llm_weights weights;
	enum llm_graphs graphs;
	enum llm_partition partition;
};
/* NULL past the last one. */
const struct engine_preset *engine_preset(unsigned int i);
const struct engine_preset *engine_preset_find(const char *name); /* NULL after a message */

/* Opens the engine, with a progress bar. 0, or 1 after a message. @opts->model NULL is an error. */
int engine_open(struct llm_options *opts, struct llm_engine **engine);

/* --list-devices: what the transports offer, on stdout. */
int engine_list_devices(void);

#endif /* OPTIONS_H */
