// SPDX-License-Identifier: MIT
/* llm-bench --calibration: a profile's numbers with their sources, and its model beside what is published. */
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>

#include "calibration.h"
#include "json_out.h"
#include "llm-bench.h"
#include "tool.h"

static double error_of(const struct calibration_row *row)
{
	return row->modelled / row->published - 1;
}

static void print_row(const struct calibration_row *row)
{
	printf("| %-54s | %-28s | %9.4g %-6s | %9.4g %-6s | %6.1f %% |%s%s\n", row->name, row->source, row->published,
	       row->unit, row->modelled, row->unit, 100 * error_of(row), row->assumption ? " assuming " : "",
	       row->assumption ? row->assumption : "");
}

static void print_rows(const struct calibration *c, bool parameters)
{
	printf("\n%s\n\n", parameters ? "Characteristics that are parameters of the profile (not counted):"
				      : "Characteristics that follow from the model:");
	printf("| %-54s | %-28s | %16s | %16s | %8s |\n", "characteristic", "published by", "published", "modelled",
	       "error");
	printf("| %.54s | %.28s | %.15s: | %.15s: | %.7s: |\n",
	       "------------------------------------------------------",
	       "------------------------------------------------------", "---------------", "---------------",
	       "-------");
	for (size_t i = 0; i < c->n; i++)
		if (c->rows[i].parameter == parameters)
			print_row(&c->rows[i]);
}

static void print_profile(const struct profile *p)
{
	struct profile_key key;

	printf("Profile %s: %s\n\n", p->name, p->title);
	printf("| %-25s | %10s %-6s | %-9s | from\n", "key", "value", "", "source");
	printf("| %.25s | %.16s: | %.9s | ----\n", "-------------------------", "----------------", "---------");
	for (size_t i = 0; !profile_key(i, &key); i++)
		printf("| %s.%-*s | %10g %-6s | %-9s | %s\n", key.section, 21, key.key, profile_value(p, i), key.unit,
		       profile_source_name(p->notes[i].source), p->notes[i].text);
}

static struct json_object *row_json(const struct calibration_row *row)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "characteristic", json_out_string(row->name));
	json_object_object_add(o, "published_by", json_out_string(row->source));
	json_object_object_add(o, "unit", json_out_string(row->unit));
	json_object_object_add(o, "published", json_out_double(row->published));
	json_object_object_add(o, "modelled", json_out_double(row->modelled));
	json_object_object_add(o, "error", json_out_double(error_of(row)));
	json_object_object_add(o, "parameter", json_object_new_boolean(row->parameter));
	json_object_object_add(o, "assumption", json_out_string(row->assumption));
	return o;
}

static void print_json(const struct profile *p, const struct calibration *c)
{
	struct json_object *o = json_object_new_object(), *rows = json_object_new_array();

	for (size_t i = 0; i < c->n; i++)
		json_object_array_add(rows, row_json(&c->rows[i]));
	json_object_object_add(o, "profile", json_out_string(p->name));
	json_object_object_add(o, "derived", json_out_u64(c->nr_derived));
	json_object_object_add(o, "mean_error", json_out_double(c->mean_error));
	json_object_object_add(o, "worst_error", json_out_double(c->worst_error));
	json_object_object_add(o, "rows", rows);
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
	json_object_put(o);
}

int bench_calibration(const struct bench_args *args)
{
	struct calibration c;
	int err = calibration_make(args->profile, &c), status = 0;

	if (err) {
		status = tool_fail("%s", llm_error());
	} else if (args->out == BENCH_JSON) {
		print_json(args->profile, &c);
	} else if (args->out != BENCH_MD) {
		status = tool_usage("--calibration: -o md or json");
	} else {
		print_profile(args->profile);
		if (c.n) {
			print_rows(&c, true);
			print_rows(&c, false);
			printf("\n%zu derived characteristics: mean absolute error %.1f %%, worst %.1f %%\n",
			       c.nr_derived, 100 * c.mean_error, 100 * c.worst_error);
		} else {
			printf("\nNothing published is known of this SoC.\n");
		}
	}
	calibration_free(&c);
	return status;
}
