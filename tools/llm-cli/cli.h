/* SPDX-License-Identifier: MIT */
/* What the command line of llm-cli says. */
#ifndef CLI_H
#define CLI_H

#include "sampling.h"
#include "stop.h"

struct cli_options {
	struct llm_options engine;
	struct sampling sampling;
	const char *prompt, *file;
	const char *context, *history; /* NULL: none */
	bool drafts_if_possible; /* for one of these; --draft says nothing */
	unsigned int n_ctx;
	uint64_t n_predict; /* UINT64_MAX: no limit */
	bool limited; /* -n was given */
	bool ids, ignore_eos, no_bos, special, stats, no_escape;
	struct stop stop;
	const char *timeline;
	/* A conversation is wanted, or none is. Neither: there is one if there is no prompt. */
	bool turns_asked, no_turns;
	bool single_turn;
	const char *system, *system_file; /* NULL: none */
	const char *format, *format_file; /* of a chat, or a template's text; NULL: the model's */
};

#endif /* CLI_H */
