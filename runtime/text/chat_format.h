/* SPDX-License-Identifier: MIT */
/*
 * Chat formats: what stands around the messages of a conversation.
 *
 * A model was trained with one format. Its file holds it as a template, a program in Jinja. The
 * templates of a format differ in their code; but all of them spell out the format's control
 * tokens and words, its marks, by which it is recognised. No template is run.
 *
 * The names are llama.cpp's where it knows the format. docs/chat.md has the table's sources.
 */
#ifndef CHAT_FORMAT_H
#define CHAT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

/* In pieces: the texts of the vocabulary's BOS and EOS, which formats share but models spell
 * differently. */
#define CHAT_BOS "\1"
#define CHAT_EOS "\2"

/* What stands in front of a message, and behind it. NULL: nothing. */
struct chat_pieces {
	const char *before, *after;
};

#define CHAT_MARKS 3

struct chat_format {
	const char *name;
	/* A template has the format if it contains all of them, and no earlier row's. \n in a
	 * template's literals is a newline here. None: it is only known by its name. */
	const char *marks[CHAT_MARKS];
	const char *start; /* in front of everything but BOS; NULL: nothing */
	/* Those of the system text are inside the first user turn with system_inside. answer.before
	 * is what a prompt for an answer ends with. */
	struct chat_pieces system, user, answer;
	/* What the model writes itself in front of its answer's first word, and between the last
	 * one and the end token; NULL: nothing. They are spaces that belong to tokens of words. */
	const char *lead, *tail;
	/* The system text of its templates where none is given is a literal that begins so; NULL:
	 * such a text, if there is one, stands between the pieces of system. */
	const char *own_system;
	bool system_inside;
	bool system_always; /* the pieces stand there even without a text between them */
	bool trims; /* white space around messages is dropped */
	bool trims_answers; /* only around answers */
	bool bos; /* begins with BOS whether or not the vocabulary puts it in front of texts */
};

/* Row @i of the table; NULL past the last one. */
const struct chat_format *chat_format_at(size_t i);
/* NULL: there is none of this name. */
const struct chat_format *chat_format_find(const char *name);

/* What a template tells. */
struct chat_template {
	const struct chat_format *format;
	bool bos; /* it begins with BOS */
	/* The system text that it has where none is given, allocated; NULL: none, or one that it
	 * puts together, such as with the date. */
	char *own_system;
	/* What it has an answer begin with, behind the format's answer.before: "<think>" or
	 * "<think>\n", where the model is to think first; NULL: nothing. */
	const char *opening;
};
/* Recognises a template. 0 (free own_system), -ENOENT if it has no format's marks, or -ENOMEM. */
int chat_format_recognise(const char *text, size_t bytes, struct chat_template *template);

#endif /* CHAT_FORMAT_H */
