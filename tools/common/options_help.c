// SPDX-License-Identifier: MIT
/* Tables of options as text: for people, for the manual, and for programs. See options.h. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "habits.h"
#include "options.h"
#include "tool.h"

/* Columns of --help */
#define WIDTH 100
#define DOC_COLUMN 30
#define VALUE_COLUMN 10
/* Columns of the manual's source */
#define MAN_WIDTH 110

/* The first line of @doc and @more. */
static void first_line(const char *doc, const char *more, char *text, size_t bytes)
{
	snprintf(text, bytes, "%.*s%s%s", (int)strcspn(doc, "\n"), doc, *more ? "; " : "", more);
}

/* A set of placements as "placement a" or "placements a and b". */
static void put_placements(unsigned int set, char *text, size_t bytes)
{
	const struct llm_choice_info *info = llm_choice_info(LLM_CHOICE_PLACEMENT);
	size_t used = (size_t)snprintf(text, bytes, "placement%s", set & (set - 1) ? "s" : "");
	const char *separator = " ";

	for (unsigned int p = 0; p < info->n_values; p++) {
		if (!(set & LLM_PLACED_ON(p)) || used >= bytes)
			continue;
		used += (size_t)snprintf(text + used, bytes - used, "%s%s", separator,
					 info->values[p].name);
		separator = " and ";
	}
}

/* "only with placement a" or "not with placement a" for the set @runs; "" if it has all of them. */
static void put_where(unsigned int runs, char *text, size_t bytes)
{
	unsigned int everywhere = 0, missing;
	char those[64];

	for (unsigned int p = 1; p < llm_choice_info(LLM_CHOICE_PLACEMENT)->n_values; p++)
		everywhere |= LLM_PLACED_ON(p);
	missing = everywhere & ~runs;
	text[0] = '\0';
	if (!missing)
		return;
	if (missing == everywhere) {
		snprintf(text, bytes, "only planned, in a dry run");
		return;
	}
	/* Names the placements that have it, or those that lack it, whichever list is shorter. */
	put_placements(__builtin_popcount(runs) == 1 ? runs : missing, those, sizeof(those));
	snprintf(text, bytes, "%s %s", __builtin_popcount(runs) == 1 ? "only with" : "not with",
		 those);
}

/* The same for a value; "" if its choice has the same placements. */
static void put_value_where(const struct llm_choice_info *info, unsigned int value, char *text,
			    size_t bytes)
{
	text[0] = '\0';
	if (info->values[value].runs != info->runs)
		put_where(info->values[value].runs, text, bytes);
}

static const struct llm_choice_info *choice_of(const struct option_def *o)
{
	int setting = engine_setting(o->code);

	if (setting < ENGINE_CHOICE || setting >= ENGINE_CHOICE + LLM_NR_CHOICES)
		return NULL;
	return llm_choice_info((enum llm_choice)(setting - ENGINE_CHOICE));
}

/* The choices that a preset sets. */
static void put_preset(const struct llm_preset *preset, char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (enum llm_choice c = 0; c < LLM_NR_CHOICES && used < bytes; c++) {
		const char *value = llm_choice_name(c, llm_choices_get(&preset->choices, c));

		if (preset->sets & 1u << c)
			used += (size_t)snprintf(text + used, bytes - used, "%s%s %s",
						 used ? ", " : "", llm_choice_info(c)->name, value);
	}
}

/* ---- for people ---- */

/* Prints @text wrapped in the column of the docs; the line is at column @at. */
static void put_wrapped(const char *text, int at)
{
	size_t used = 0, n;

	if (at >= DOC_COLUMN)
		at = printf("\n") - 1;
	printf("%*s", DOC_COLUMN - at, "");
	for (; *text; text += n + strspn(text + n, " ")) {
		n = strcspn(text, " ");
		if (used && DOC_COLUMN + used + 1 + n > WIDTH) {
			printf("\n%*s", DOC_COLUMN, "");
			used = 0;
		}
		used += (size_t)printf("%s%.*s", used ? " " : "", (int)n, text);
	}
	putchar('\n');
}

/* Prints a value's line below its option. */
static void put_value(const char *name, const char *doc, const char *more)
{
	char text[512];

	first_line(doc, more, text, sizeof(text));
	put_wrapped(text, printf("%*s%s", VALUE_COLUMN, "", name));
}

static void put_values(const struct option_def *o)
{
	const struct llm_choice_info *info = choice_of(o);
	const struct llm_preset *preset;
	char more[256];

	for (unsigned int i = 0; info && i < info->n_values; i++) {
		put_value_where(info, i, more, sizeof(more));
		put_value(info->values[i].name, info->values[i].doc, more);
	}
	for (unsigned int i = 0; o->code == OPT_PRESET && (preset = llm_preset(i)); i++) {
		put_preset(preset, more, sizeof(more));
		put_value(preset->name, preset->doc, more);
	}
}

static void put_option(const struct option_def *o)
{
	const struct llm_choice_info *info = choice_of(o);
	char doc[512], more[128] = "";
	int at;

	if (o->code < 256)
		at = printf("  -%c, --%s", o->code, o->name);
	else if (o->dash && o->name)
		at = printf("  -%s, --%s", o->dash, o->name);
	else
		at = o->dash ? printf("  -%s", o->dash) : printf("      --%s", o->name);
	if (o->arg)
		at += printf(" %s", o->arg);
	if (info)
		put_where(info->runs, more, sizeof(more));
	first_line(o->doc, more, doc, sizeof(doc));
	if (info)
		snprintf(doc + strlen(doc), sizeof(doc) - strlen(doc), " (default: %s)",
			 info->values[0].name);
	put_wrapped(doc, at);
	put_values(o);
}

static void help_text(const struct option_set *set)
{
	struct option_def all[OPTIONS_MAX];
	size_t n_own, n = options_all(set, all, &n_own);

	printf("%s\n", set->usage);
	for (size_t i = 0; i < n; i++) {
		if (i == n_own && !set->alone)
			printf("\nThe model, and where and how it runs:\n\n");
		put_option(&all[i]);
	}
	puts("\n--help=habits tells what becomes of options of llama.cpp.");
}

/* ---- for the manual: mdoc ---- */

/* Prints @text as source lines, each sentence on a new one. The first sentence begins with a
 * capital unless it is a @value's. */
static void man_text(const char *text, bool value)
{
	bool sentence = !value;
	size_t at = 0;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (at && (sentence || at + 1 + n > MAN_WIDTH))
			at = (size_t)printf("\n") - 1;
		else if (at)
			at += (size_t)printf(" ");
		/* mdoc takes these for a macro at the start of a line. */
		if (!at && (*text == '.' || *text == '\''))
			fputs("\\&", stdout);
		printf("%c%.*s", sentence ? toupper((unsigned char)*text) : *text, (int)n - 1,
		       text + 1);
		at += n;
		sentence = text[n - 1] == '.' &&
			   isupper((unsigned char)text[n + strspn(text + n, " ")]);
		text += n;
		text += strspn(text, " ");
	}
	putchar('\n');
}

/* Prints all of @doc as sentences; @more goes with the first. */
static void man_doc(const char *doc, const char *more, bool value)
{
	const char *rest = doc + strcspn(doc, "\n");
	char text[1024];

	first_line(doc, more, text, sizeof(text));
	snprintf(text + strlen(text), sizeof(text) - strlen(text), ".%s%s", *rest ? " " : "",
		 *rest ? rest + 1 : "");
	man_text(text, value);
}

static void man_value(const char *name, const char *doc, const char *more, bool is_default)
{
	printf(".It Cm %s%s\n", name, is_default ? " Pq the default" : "");
	man_doc(doc, more, true);
}

static void man_option(const struct option_def *o)
{
	const struct llm_choice_info *info = choice_of(o);
	const struct llm_preset *preset;
	char more[256] = "";

	printf(".It ");
	if (o->code < 256)
		printf("Fl %c , ", o->code);
	printf("Fl -%s", o->name);
	for (const char *a = o->arg; a && *a; a++)
		printf("%s%c", a == o->arg ? " Ar " : "", tolower((unsigned char)*a));
	putchar('\n');
	if (info)
		put_where(info->runs, more, sizeof(more));
	man_doc(o->doc, more, false);
	if (!info && o->code != OPT_PRESET)
		return;
	puts(".Bl -tag -width Ds -compact");
	for (unsigned int i = 0; info && i < info->n_values; i++) {
		put_value_where(info, i, more, sizeof(more));
		man_value(info->values[i].name, info->values[i].doc, more, !i);
	}
	for (unsigned int i = 0; !info && (preset = llm_preset(i)); i++) {
		put_preset(preset, more, sizeof(more));
		man_value(preset->name, preset->doc, more, false);
	}
	puts(".El");
}

static void help_man(const struct option_set *set)
{
	struct option_def all[OPTIONS_MAX];
	size_t n_own, n = options_all(set, all, &n_own);

	puts(".Bl -tag -width Ds");
	for (size_t i = n_own; i < n; i++)
		man_option(&all[i]);
	puts(".El");
}

/* ---- options of llama.cpp ---- */

/* What becomes of it, and why. */
static void habit_text(const struct habit *h, char *text, size_t bytes)
{
	size_t used = 0;

	if (h->option && !h->when)
		used = (size_t)snprintf(text, bytes, "as --%s: ", h->option);
	else if (!h->option && (!h->takes || !h->arg))
		used = (size_t)snprintf(text, bytes, h->takes ? "taken: " : "refused: ");
	else if (!h->option && !strcmp(h->takes, "*"))
		used = (size_t)snprintf(text, bytes, "taken with any value: ");
	else if (!h->option)
		used = (size_t)snprintf(text, bytes, "taken with %s: ", h->takes);
	for (char *c = text; c < text + used; c++)
		*c = *c == '|' ? '/' : *c;
	snprintf(text + used, bytes - used, "%s", h->doc);
}

/* Prints each name of @h behind @before, with @between between two. Returns the characters. */
static int put_habit_names(const struct habit *h, const char *before, const char *between)
{
	int at = 0;

	for (const char *name = h->names; *name;) {
		int n = (int)strcspn(name, " ");

		at += printf("%s%s%.*s", name == h->names ? "" : between, before,
			     n - (*before != '\0'), name + (*before != '\0'));
		name += n + (name[n] == ' ');
	}
	return at;
}

static void help_habits(const struct option_set *set)
{
	const struct habit *h;
	char text[512];
	int at;

	puts("What becomes of options of llama.cpp. A tool's own options come first.\n");
	for (size_t i = 0; (h = habit_at(i)); i++) {
		at = printf("  ") + put_habit_names(h, "", ", ");
		if (h->arg)
			at += printf(h->optional ? " [%s]" : " %s", h->arg);
		habit_text(h, text, sizeof(text));
		put_wrapped(text, at);
	}
}

static void help_man_habits(const struct option_set *set)
{
	const struct habit *h;
	char text[512];

	puts(".Bl -tag -width Ds -compact");
	for (size_t i = 0; (h = habit_at(i)); i++) {
		printf(".It ");
		put_habit_names(h, "Fl ", " , ");
		if (h->arg)
			printf(" %s %s", h->optional ? "Op Ar" : "Ar", h->arg);
		putchar('\n');
		habit_text(h, text, sizeof(text));
		man_doc(text, "", false);
	}
	puts(".El");
}

/* ---- for programs ---- */

static void put_name(const struct option_def *o, const char *dashes, const char *name)
{
	const char *word;

	printf("%s%s\t%s\t", dashes, name, o->arg ? o->arg : "");
	for (unsigned int i = 0; (word = options_word(o, i)); i++)
		printf("%s%s", i ? " " : "", word);
	putchar('\n');
}

static void help_options(const struct option_set *set)
{
	struct option_def all[OPTIONS_MAX];
	size_t n_own, n = options_all(set, all, &n_own);

	for (size_t i = 0; i < n; i++) {
		if (all[i].code < 256)
			put_name(&all[i], "-", (char[]){ (char)all[i].code, '\0' });
		if (all[i].dash)
			put_name(&all[i], "-", all[i].dash);
		if (all[i].name)
			put_name(&all[i], "--", all[i].name);
	}
}

int options_help(const struct option_set *set, const char *format)
{
	static const char *const formats[] = { "text",	 "man",	       "options",
					       "habits", "man-habits", NULL };
	static void (*const helps[])(const struct option_set *) = {
		help_text, help_man, help_options, help_habits, help_man_habits,
	};
	int which = options_find_word("--help", formats, format);

	if (which < 0)
		return 2;
	helps[which](set);
	return 0;
}
