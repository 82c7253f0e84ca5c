// SPDX-License-Identifier: MIT
/* calibration: a profile's numbers with their sources, and its model beside what is published. */
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calibration.h"
#include "json_out.h"
#include "llm.h"
#include "options.h"
#include "tool.h"

/* "40..45", "6". */
static const char *published(const struct calibration_row *row, char *text, size_t bytes)
{
	if (row->low == row->high)
		snprintf(text, bytes, "%.4g", row->low);
	else
		snprintf(text, bytes, "%.4g..%.4g", row->low, row->high);
	return text;
}

static void print_row(const struct calibration_row *row)
{
	char name[96], range[32];

	snprintf(name, sizeof(name), row->rows ? "%s, %u rows" : "%s", row->name, row->rows);
	printf("| %-60s | %-26s | %10s %-6s | %8.4g %-6s | %6.1f %% |%s%s\n", name, row->source,
	       published(row, range, sizeof(range)), row->unit, row->modelled, row->unit,
	       100 * calibration_error(row), row->note ? " " : "", row->note ? row->note : "");
}

static void print_rows(const struct calibration *c, enum calibration_kind kind)
{
	static const char *const titles[] = {
		"Parameters: numbers of the profile itself",
		"Fitted: figures that have fixed a number of the profile, named at the end",
		"Predicted: what follows, with what the source leaves open at the end",
	};
	const struct calibration_sum *sum = &c->sums[kind];

	if (!sum->n)
		return;
	printf("\n%s\n\n", titles[kind]);
	printf("| %-60s | %-26s | %17s | %15s | %8s |\n", "characteristic", "published by",
	       "published", "modelled", "error");
	printf("| %.60s | %.26s | %.16s: | %.14s: | %.7s: |\n",
	       "------------------------------------------------------------",
	       "------------------------------------------------------------", "----------------",
	       "--------------", "-------");
	for (size_t i = 0; i < c->n; i++)
		if (c->rows[i].kind == kind)
			print_row(&c->rows[i]);
	printf("\n%zu %s: mean absolute error %.1f %%, worst %.1f %% (%s)\n", sum->n,
	       calibration_kind_name(kind), 100 * sum->mean, 100 * sum->worst,
	       sum->worst_row->name);
}

static void print_profile(const struct soc *p)
{
	struct soc_key key;

	printf("Profile %s: %s\n\n", p->name, p->title);
	printf("| %-25s | %10s %-6s | %-9s | from\n", "key", "value", "", "source");
	printf("| %.25s | %.16s: | %.9s | ----\n", "-------------------------", "----------------",
	       "---------");
	for (size_t i = 0; !soc_key(i, &key); i++)
		printf("| %s.%-*s | %10g %-6s | %-9s | %s\n", key.section, 21, key.key,
		       soc_value(p, i), key.unit, soc_source_name(p->notes[i].source),
		       p->notes[i].text);
}

static struct json_object *row_json(const struct calibration_row *row)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "characteristic", json_out_string(row->name));
	json_object_object_add(o, "published_by", json_out_string(row->source));
	json_object_object_add(o, "unit", json_out_string(row->unit));
	json_object_object_add(o, "kind", json_out_string(calibration_kind_name(row->kind)));
	json_object_object_add(o, "rows", row->rows ? json_out_u64(row->rows) : NULL);
	json_object_object_add(o, "published_low", json_out_double(row->low));
	json_object_object_add(o, "published_high", json_out_double(row->high));
	json_object_object_add(o, "modelled", json_out_double(row->modelled));
	json_object_object_add(o, "error", json_out_double(calibration_error(row)));
	json_object_object_add(o, "note", json_out_string(row->note));
	return o;
}

static void print_json(const struct soc *p, const struct calibration *c)
{
	struct json_object *o = json_object_new_object(), *rows = json_object_new_array();

	for (size_t i = 0; i < c->n; i++)
		json_object_array_add(rows, row_json(&c->rows[i]));
	json_object_object_add(o, "profile", json_out_string(p->name));
	for (int kind = 0; kind < CALIBRATION_NR_KINDS; kind++) {
		struct json_object *sum = json_object_new_object();

		json_object_object_add(sum, "characteristics", json_out_u64(c->sums[kind].n));
		json_object_object_add(sum, "mean_error", json_out_double(c->sums[kind].mean));
		json_object_object_add(sum, "worst_error", json_out_double(c->sums[kind].worst));
		json_object_object_add(o, calibration_kind_name(kind), sum);
	}
	json_object_object_add(o, "rows", rows);
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
	json_object_put(o);
}

static int put_calibration(const struct soc *p, bool json)
{
	struct calibration c;
	int status = calibration_make(p, &c) ? tool_fail("%s", llm_error()) : 0;

	if (!status && json) {
		print_json(p, &c);
	} else if (!status) {
		print_profile(p);
		if (c.n) {
			for (int kind = 0; kind < CALIBRATION_NR_KINDS; kind++)
				print_rows(&c, kind);
		} else {
			printf("\nNothing published is known of this SoC.\n");
		}
	}
	calibration_free(&c);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "profile", required_argument, NULL, 'P' },
		{ "output", required_argument, NULL, 'o' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const char *name = ENGINE_DEFAULT_PROFILE, *format = "md";
	struct soc *p;
	char why[512];
	int c, status;

	tool_begin("calibration");
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":o:h", longs, NULL)) >= 0) {
		if (c == 'P')
			name = optarg;
		else if (c == 'o')
			format = optarg;
		else if (c == 'h')
			return puts("usage: calibration [--profile NAME] [-o md|json]\n"
				    "Prints what is published of a SoC beside what the profile's "
				    "model says.") < 0;
		else
			return tool_bad_option(c, argv, longs);
	}
	if (optind < argc || (strcmp(format, "md") && strcmp(format, "json")))
		return tool_usage(
			"--profile NAME and -o md or json, and no more: --help explains them");
	p = soc_load(name, why, sizeof(why));
	if (!p)
		return tool_fail("%s", why);
	status = put_calibration(p, !strcmp(format, "json"));
	soc_free(p);
	return tool_finish(status);
}
