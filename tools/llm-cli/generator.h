/* SPDX-License-Identifier: MIT */
/*
 * Generates texts and writes them to stdout, as soon as their characters are complete: a session
 * with its sampler and its drafter, which all texts share.
 */
#ifndef GENERATOR_H
#define GENERATOR_H

#include "cli.h"
#include "timeline.h"
#include "tokens.h"

struct generator {
	struct cli_options *o;
	struct llm_engine *engine;
	struct llm_session *session;
	struct llm_sampler *sampler;
	struct llm_drafter *drafter; /* NULL: nothing is drafted */
	struct timeline *timeline; /* NULL: none is written */
	uint64_t max_tokens; /* of each text */
	const char *opening; /* written in front of each text, "" for none, but not with --ids */
	bool newline; /* the last byte written was a newline, or nothing was written */
};

/* 0, or an exit status after a message; call generator_close() in either case. */
int generator_open(struct generator *g, struct cli_options *o, struct llm_engine *engine);
/* Writes the statistics, if they are wanted. Returns @status, or 1 after a message. */
int generator_close(struct generator *g, uint64_t load_ns, int status);

/*
 * Appends a prompt to the session, and writes what the model generates as a text of its own; the
 * sampler knows the first @known tokens already. @line: the output ends with a newline, as it
 * always does on a terminal. 0, or an exit status after a message.
 */
int generator_run(struct generator *g, const struct token_list *prompt, size_t known, bool line,
		  struct llm_generate_result *result);

/* The text of -p or -f; free() it. NULL after a message. */
char *generator_prompt(const struct cli_options *o, size_t *bytes);
/* Puts the text of --context in front of @text, if there is one, which it frees. NULL after a
 * message. */
char *generator_add_context(const struct cli_options *o, char *text, size_t *bytes);

#endif /* GENERATOR_H */
