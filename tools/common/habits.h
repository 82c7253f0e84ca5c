/* SPDX-License-Identifier: MIT */
/*
 * Options that users of llama.cpp type by habit, where vnpu has them under another name, always
 * does what they ask for, or cannot do it. A tool's own options come first; options_parse() looks
 * up the others here.
 */
#ifndef HABITS_H
#define HABITS_H

#include <stdbool.h>
#include <stddef.h>

struct habit {
	const char *names; /* with their dashes, separated by spaces */
	const char *arg; /* name of its value; NULL: it takes none */
	bool optional; /* the value may be missing; only words of @takes and @denied are values */
	/* Values that ask for what happens anyway, separated by '|'. "N" is any whole number, "*"
	 * any value. NULL: it is refused, unless it has an @option. Without @arg: any text. */
	const char *takes;
	const char *denied; /* words that are refused where the value is optional */
	/* The name of the option that stands for it; NULL: none. */
	const char *option;
	const char *when; /* the value that it stands for; NULL: any */
	const char *gives; /* the option's value; NULL: the same */
	bool same; /* together with others of its option it must have the same value */
	const char
		*doc; /* why it is taken or refused, and what to do: one sentence, no full stop */
};

/* Entry @i of the table; NULL past the last one. */
const struct habit *habit_at(size_t i);
/* The entry with the name @name, with its dashes; NULL: there is none. */
const struct habit *habit_find(const char *name);
/* Whether all items of @value, which commas separate if there are @lists, are among @words or
 * @more, each NULL or separated by '|'. */
bool habit_words_have(const char *words, const char *more, const char *value, bool lists);

#endif /* HABITS_H */
