// SPDX-License-Identifier: MIT
/*
 * Reads a command line by a table of options: see options.h.
 *
 * A name is read as a whole: -ngl is never -n with the value gl, and no name can be shortened. Only
 * a number may follow a letter without a space, as in -n8.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "habits.h"
#include "options.h"
#include "tool.h"

#define NAME_BYTES 64

struct parser {
	const struct option_set *set;
	struct option_def all[OPTIONS_MAX];
	size_t n;
	char **argv;
	int at, end; /* the next argument; behind the last one that may be an option */
	void *ud;
	const char *values[OPTIONS_MAX]; /* the last one of each option; NULL: none */
	const char *asked[OPTIONS_MAX]; /* by habits whose options must have the same */
};

/* An argument that begins with a dash, in its parts. */
struct argument {
	const char *whole;
	char name[NAME_BYTES]; /* with its dashes; as in llama.cpp, _ in a long one is - */
	const char *value; /* what follows =, or a letter; NULL: nothing */
};

/* Goes on: options_parse() returns 0. */
#define PARSED (-1)

static void split(const char *whole, struct argument *a)
{
	size_t n = strcspn(whole, "=");
	bool is_long = whole[1] == '-';

	*a = (struct argument){ .whole = whole };
	if (!is_long)
		n = strlen(whole);
	else if (whole[n])
		a->value = whole + n + 1;
	snprintf(a->name, sizeof(a->name), "%.*s", (int)n, whole);
	for (char *c = a->name + 2; is_long && *c; c++)
		*c = *c == '_' ? '-' : *c;
}

static bool has_name(const struct option_def *o, const char *name)
{
	bool is_long = name[1] == '-';

	if (is_long && o->name && !strcmp(o->name, name + 2))
		return true;
	if (o->dash && !strcmp(o->dash, name + 1 + is_long))
		return true;
	return o->code < 256 && name[1] == o->code && !name[2];
}

static int find(const struct parser *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (has_name(&p->all[i], name))
			return (int)i;
	return -1;
}

/* An option whose letter is followed by its number. */
static int find_letter(const struct parser *p, struct argument *a)
{
	char name[] = { '-', a->whole[1], '\0' };
	int i = a->whole[2] >= '0' && a->whole[2] <= '9' ? find(p, name) : -1;

	if (i < 0 || !p->all[i].arg)
		return -1;
	a->value = a->whole + 2;
	return i;
}

/* Options that end the program. Returns PARSED or the exit status. */
static int set_final(const struct parser *p, int code, const char *value)
{
	switch (code) {
	case 'h':
		return options_help(p->set, value ? value : "text");
	case OPT_VERSION:
		printf("%s %s (%s)\n", tool_name, VNPU_VERSION, tool_build_commit);
		return 0;
	case OPT_LIST_DEVICES:
		return engine_list_devices();
	}
	return PARSED;
}

/* Sets option @i, which was given as @name. Returns PARSED or an exit status. */
static int set_option(struct parser *p, int i, const char *name, const char *value)
{
	int status = set_final(p, p->all[i].code, value);

	if (status != PARSED)
		return status;
	if (value && p->asked[i] && strcmp(p->asked[i], value) != 0)
		return tool_usage("%s %s: %s was asked for before: both have to be the same", name,
				  value, p->asked[i]);
	p->values[i] = value;
	status = p->set->option(p->ud, p->all[i].code, value);
	return status ? status : PARSED;
}

/* ---- habits ---- */

/* The value of the option that stands for @value, allocated; in lists, other items are the
 * option's first word. NULL: no memory. */
static char *translate(const struct habit *h, const struct option_def *o, const char *value)
{
	const char *other = options_word(o, 0);
	char *copy = strdup(value), *next = copy, *item, *list;
	size_t each = strlen(h->gives) + strlen(other) + 2, used = 0;

	list = malloc(strlen(value) * each + each);
	while (copy && list && (item = strsep(&next, ",")))
		used += (size_t)sprintf(list + used, "%s%s", used ? "," : "",
					strcmp(item, h->when) ? other : h->gives);
	free(copy);
	return list;
}

static int set_translated(struct parser *p, const struct habit *h, int i, const char *name,
			  const char *value)
{
	char *list = translate(h, &p->all[i], value);
	int status = list ? set_option(p, i, name, list) : tool_fail("no memory for an option");

	p->values[i] = NULL;
	free(list);
	return status;
}

/* The same value as that of other options, for which it stands. */
static int set_same(struct parser *p, const struct habit *h, int i, const char *name,
		    const char *value)
{
	if (p->values[i] && strcmp(p->values[i], value) != 0)
		return tool_usage("%s %s: %s was asked for before: %s", name, value, p->values[i],
				  h->doc);
	p->asked[i] = value;
	return p->values[i] ? PARSED : set_option(p, i, name, value);
}

static bool stands_for(const struct parser *p, const struct habit *h, const char *value)
{
	size_t n = h->when ? strlen(h->when) : 0;

	if (!h->option || !h->when)
		return h->option;
	for (const char *v = value; v; v = p->set->lists ? strchr(v, ',') : NULL) {
		v += *v == ',';
		if (!strncmp(v, h->when, n) && (!v[n] || (p->set->lists && v[n] == ',')))
			return true;
	}
	return false;
}

static int set_habit(struct parser *p, const struct habit *h, const char *name, const char *value)
{
	char long_name[NAME_BYTES];
	int i;

	if (stands_for(p, h, value)) {
		snprintf(long_name, sizeof(long_name), "--%s", h->option);
		i = find(p, long_name);
		if (i < 0)
			return tool_usage("%s is %s, which %s does not have: leave it out", name,
					  long_name, tool_name);
		if (h->when)
			return set_translated(p, h, i, name, value);
		return (h->same ? set_same(p, h, i, name, value) : set_option(p, i, name, value));
	}
	if (h->takes && (!value || habit_words_have(h->takes, NULL, value, p->set->lists)))
		return PARSED;
	return tool_usage("%s%s%s: %s", name, value ? " " : "", value ? value : "", h->doc);
}

/* ---- arguments ---- */

static bool is_value(const struct parser *p, const struct habit *h, const char *word)
{
	return !h->optional || habit_words_have(h->takes, h->denied, word, p->set->lists);
}

static int parse_habit(struct parser *p, struct argument *a)
{
	const struct habit *h = habit_find(a->name);

	if (!h)
		return tool_usage("unknown option '%s': --help lists the options", a->whole);
	if (!h->arg && a->value)
		return tool_usage("'%s': this option takes no value", a->whole);
	if (h->arg && !a->value && p->at < p->end && is_value(p, h, p->argv[p->at]))
		a->value = p->argv[p->at++];
	if (h->arg && !h->optional && !a->value)
		return tool_usage("%s needs a value: --help=habits explains it", a->name);
	return set_habit(p, h, a->name, a->value);
}

static int parse_argument(struct parser *p)
{
	const struct option_def *o;
	struct argument a;
	int i;

	split(p->argv[p->at++], &a);
	i = find(p, a.name);
	if (i < 0 && a.whole[1] != '-')
		i = find_letter(p, &a);
	if (i < 0)
		return parse_habit(p, &a);
	o = &p->all[i];
	if (!o->arg && a.value && o->code != 'h')
		return tool_usage("'%s': this option takes no value", a.whole);
	if (o->arg && !a.value) {
		if (p->at == p->end)
			return tool_usage("%s needs a value: --help explains it", a.whole);
		a.value = p->argv[p->at++];
	}
	return set_option(p, i, a.name, a.value);
}

/* Moves the next argument behind the others: it is none of an option. */
static void put_behind(struct parser *p, int argc)
{
	char *word = p->argv[p->at];

	memmove(p->argv + p->at, p->argv + p->at + 1,
		(size_t)(argc - p->at - 1) * sizeof(*p->argv));
	p->argv[argc - 1] = word;
	p->end--;
}

int options_parse(const struct option_set *set, int argc, char **argv, void *ud, int *status)
{
	struct parser p = { .set = set, .argv = argv, .at = 1, .end = argc, .ud = ud };
	bool only_words = false;
	size_t n_own;

	p.n = options_all(set, p.all, &n_own);
	*status = PARSED;
	while (p.at < p.end && *status == PARSED) {
		if (only_words || argv[p.at][0] != '-' || !argv[p.at][1])
			put_behind(&p, argc);
		else if ((only_words = !strcmp(argv[p.at], "--")))
			p.at++;
		else
			*status = parse_argument(&p);
	}
	optind = p.at;
	if (*status != PARSED)
		return 1;
	*status = 0;
	return 0;
}
