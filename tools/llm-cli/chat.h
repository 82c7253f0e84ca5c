/* SPDX-License-Identifier: MIT */
/*
 * Conversations: turns by the chat format of the model, or a given one.
 *
 * The first turn is the prompt, if there is one; the others are lines of stdin. A line that ends
 * with a backslash goes on in the next one, and empty lines are no turns. On a terminal Ctrl-C ends
 * the answer that is being written; elsewhere, and at the prompt, it ends the program.
 */
#ifndef CHAT_H
#define CHAT_H

#include "generator.h"
#include "llm_chat.h"

/* Whether @text is the name of a format, or a template that has one. 0, or 2 after a message. */
int chat_check_format(const char *text);
/* Begins the conversation that the options ask for. 0, or an exit status after a message. */
int chat_open(const struct cli_options *o, struct llm_engine *engine, struct llm_chat **chat);
/* Answers turns until they end. 0, or 1 after a message. */
int chat_run(struct generator *g, struct llm_chat *chat);

#endif /* CHAT_H */
