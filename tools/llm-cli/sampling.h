/* SPDX-License-Identifier: MIT */
/* The options that say how tokens are chosen. */
#ifndef SAMPLING_H
#define SAMPLING_H

#include "options.h"

enum {
	OPT_SAMPLING = OPT_TOOL + 100,
	OPT_TEMP = OPT_SAMPLING,
	OPT_TOP_K,
	OPT_TOP_P,
	OPT_MIN_P,
	OPT_SEED,
	OPT_TOP_N_SIGMA,
	OPT_TYPICAL,
	OPT_XTC_PROBABILITY,
	OPT_XTC_THRESHOLD,
	OPT_DYNATEMP_RANGE,
	OPT_DYNATEMP_EXP,
	OPT_REPEAT_PENALTY,
	OPT_REPEAT_LAST_N,
	OPT_PRESENCE_PENALTY,
	OPT_FREQUENCY_PENALTY,
	OPT_DRY_MULTIPLIER,
	OPT_DRY_BASE,
	OPT_DRY_ALLOWED_LENGTH,
	OPT_DRY_LAST_N,
	OPT_DRY_BREAKER,
	OPT_MIROSTAT,
	OPT_MIROSTAT_LR,
	OPT_MIROSTAT_ENT,
	OPT_LOGIT_BIAS = 'l',
	OPT_GRAMMAR = OPT_MIROSTAT_ENT + 1,
	OPT_GRAMMAR_FILE,
	OPT_JSON_SCHEMA = 'j',
	OPT_JSON_SCHEMA_FILE = OPT_GRAMMAR_FILE + 1,
};

/* Rows of a table of options. */
#define SAMPLING_OPTIONS                                                                           \
	{ OPT_TEMP, "temp", "T",                                                                   \
	  .doc = "temperature; 0: always the likeliest token (default: 0.8)" },                    \
		{ OPT_TOP_K, "top-k", "K",                                                         \
		  .doc = "only the K likeliest tokens; 0: off (default: 40)" },                    \
		{ OPT_TOP_P, "top-p", "P",                                                         \
		  .doc = "only the likeliest tokens that make up P; 1: off (default: 0.95)" },     \
		{ OPT_MIN_P, "min-p", "P",                                                         \
		  .doc = "only tokens at least P times as likely as the likeliest; 0: off "        \
			 "(default: 0.05)" },                                                      \
		{ OPT_SEED, "seed", "N",                                                           \
		  .doc = "seed of the sampler; -1: a random one, which stderr tells (default: "    \
			 "0)" },                                                                   \
		{ OPT_TOP_N_SIGMA, "top-nsigma", "N",                                              \
		  .doc = "only logits within N standard deviations of the greatest; 0: off "       \
			 "(default)" },                                                            \
		{ OPT_TYPICAL, "typical", "P",                                                     \
		  .doc = "only the most typical tokens that make up P; 1: off (default)" },        \
		{ OPT_XTC_PROBABILITY, "xtc-probability", "P",                                     \
		  .doc = "how often XTC drops likely tokens; 0: never (default)" },                \
		{ OPT_XTC_THRESHOLD, "xtc-threshold", "P",                                         \
		  .doc = "the probability from which on tokens are likely; above 0.5: none is "    \
			 "(default: 0.1)" },                                                       \
		{ OPT_DYNATEMP_RANGE, "dynatemp-range", "R",                                       \
		  .doc = "the temperature varies by up to R with the entropy; 0: off (default)" }, \
		{ OPT_DYNATEMP_EXP, "dynatemp-exp", "E",                                           \
		  .doc = "the power of the entropy that it varies with (default: 1)" },            \
		{ OPT_REPEAT_PENALTY, "repeat-penalty", "F",                                       \
		  .doc = "divide the logits of tokens that have occurred by F, or multiply "       \
			 "negative ones; 1: off (default)" },                                      \
		{ OPT_REPEAT_LAST_N, "repeat-last-n", "N",                                         \
		  .doc = "tokens that penalties look back at; 0: none, -1: the context "           \
			 "(default: 64)" },                                                        \
		{ OPT_PRESENCE_PENALTY, "presence-penalty", "X",                                   \
		  .doc = "subtract X from the logits of tokens that have occurred (default: 0)" }, \
		{ OPT_FREQUENCY_PENALTY, "frequency-penalty", "X",                                 \
		  .doc = "subtract X for each time that they have (default: 0)" },                 \
		{ OPT_DRY_MULTIPLIER, "dry-multiplier", "X",                                       \
		  .doc = "subtract X * BASE^(n - LENGTH) from the logits of tokens that would "    \
			 "continue a repetition of n tokens; 0: off (default)" },                  \
		{ OPT_DRY_BASE, "dry-base", "BASE", .doc = "its base (default: 1.75)" },           \
		{ OPT_DRY_ALLOWED_LENGTH, "dry-allowed-length", "LENGTH",                          \
		  .doc = "shorter repetitions are free (default: 2)" },                            \
		{ OPT_DRY_LAST_N, "dry-penalty-last-n", "N",                                       \
		  .doc = "tokens that it looks back at; 0: none, -1: the context (default)" },     \
		{ OPT_DRY_BREAKER, "dry-sequence-breaker", "TEXT",                                 \
		  .doc = "repetitions end at TEXT; may be repeated; none: nowhere (default: "      \
			 "newline, :, \", *)" },                                                   \
		{ OPT_MIROSTAT, "mirostat", "N",                                                   \
		  .doc = "keep the surprise of tokens constant, by version 1 or 2 of Mirostat; "   \
			 "0: off (default).\nIt takes the place of the options from --top-k to "   \
			 "--typical, and of XTC." },                                               \
		{ OPT_MIROSTAT_LR, "mirostat-lr", "N",                                             \
		  .doc = "its learning rate (default: 0.1)" },                                     \
		{ OPT_MIROSTAT_ENT, "mirostat-ent", "BITS", .doc = "the surprise (default: 5)" },  \
		{ OPT_LOGIT_BIAS, "logit-bias", "ID+X",                                            \
		  .doc = "add X to the logit of token ID, or subtract it: ID-X; ID-inf: never; "   \
			 "may be repeated" },                                                      \
		{ OPT_GRAMMAR, "grammar", "GBNF", .doc = "only texts of this grammar" },           \
		{ OPT_GRAMMAR_FILE, "grammar-file", "FILE",                                        \
		  .doc = "only texts of the grammar in FILE; - for stdin" },                       \
		{ OPT_JSON_SCHEMA, "json-schema", "SCHEMA",                                        \
		  .doc = "only JSON that fits this JSON schema; {}: any JSON" },                   \
	{                                                                                          \
		OPT_JSON_SCHEMA_FILE, "json-schema-file", "FILE",                                  \
			.doc = "only JSON that fits the JSON schema in FILE; - for stdin",         \
			.dash = "jf"                                                               \
	}

/* -1: as many tokens as the context has. */
struct sampling {
	struct llm_sampler_options opts;
	int repeat_last_n, dry_last_n;
	struct llm_logit_bias *biases;
	const char **breaks;
	bool own_breaks; /* some were given */
	const char *file; /* of a grammar or a schema; NULL: none */
	bool file_is_schema;
	char *text; /* of that file */
};

extern const struct sampling sampling_default;
bool sampling_is_option(int c);
/* 0, or an exit status after a message. */
int sampling_option(struct sampling *s, int c, const char *value);
/* Reads the file of a grammar or a schema, if there is one. 0, or 1 after a message. */
int sampling_read(struct sampling *s);
/* Makes the sampler for a session with these tokens of prompt. 0, or 1 after a message. */
int sampling_create(const struct sampling *s, struct llm_engine *engine, unsigned int n_ctx,
		    struct llm_sampler **sampler);
void sampling_free(struct sampling *s);

#endif /* SAMPLING_H */
