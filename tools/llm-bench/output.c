// SPDX-License-Identifier: MIT
/*
 * Results of llm-bench as md, csv, json, jsonl or sql. All formats except md print the fields of
 * fields.c.
 */
#include <json-c/json.h>
#include <math.h>
#include <string.h>

#include "json_out.h"
#include "llm-bench.h"
#include "progress.h"
#include "tool.h"

/* ---- md: a table for people ------------------------------------------------------------------ */

/* A column is always shown, or only if its option was given. */
struct md_column {
	const char *title;
	int width; /* negative: left-aligned */
	bool (*shown)(const struct bench_args *args);
	/* NULL: shows the value of @choice. */
	void (*cell)(const struct bench_result *r, char *text, size_t bytes);
	enum llm_choice choice;
};

/* Whether the options ask for other values than the default. A preset's choices count only if just
 * one placement has them; otherwise the placement's column tells the preset. */
static bool choice_shown(const struct bench_args *args, enum llm_choice choice)
{
	const struct range *list = &args->settings[ENGINE_CHOICE + choice];
	bool one_placement = __builtin_popcount(llm_choice_info(choice)->runs) == 1,
	     shown = list->n > 1;

	for (size_t i = 0; i < list->n; i++)
		shown |= list->v[i] != 0;
	for (size_t i = 0; i < args->preset.n && one_placement; i++)
		shown |= llm_choices_get(&llm_preset(args->preset.v[i])->choices, choice) != 0;
	return shown;
}

static void cell_choice(const struct bench_result *r, enum llm_choice choice, char *text,
			size_t bytes)
{
	const struct llm_choices *c = &r->info->choices;
	bool applies = llm_choice_applies(choice, c, r->dry);

	snprintf(text, bytes, "%s",
		 applies ? llm_choice_name(choice, llm_choices_get(c, choice)) : "-");
}

static bool shown_chunk(const struct bench_args *args)
{
	return args->settings[ENGINE_CHUNK].n;
}

static bool shown_npu_threads(const struct bench_args *args)
{
	return args->settings[ENGINE_NPU_THREADS].n;
}

static void cell_model(const struct bench_result *r, char *text, size_t bytes)
{
	snprintf(text, bytes, "%s", r->info->type);
}

static void cell_size(const struct bench_result *r, char *text, size_t bytes)
{
	double mib = (double)r->info->file_bytes / (1 << 20);

	snprintf(text, bytes, mib < 1024 ? "%.2f MiB" : "%.2f GiB", mib < 1024 ? mib : mib / 1024);
}

static void cell_params(const struct bench_result *r, char *text, size_t bytes)
{
	double millions = (double)r->info->n_params / 1e6;

	snprintf(text, bytes, millions < 1000 ? "%.2f M" : "%.2f B",
		 millions < 1000 ? millions : millions / 1000);
}

static void cell_backend(const struct bench_result *r, char *text, size_t bytes)
{
	const struct npu_device_info *dev = r->info->device;

	const char *on = r->info->profile ? r->info->profile
			 : dev		  ? engine_transport_name(dev->transport)
					  : NULL;

	snprintf(text, bytes, "%s%s%s",
		 llm_choice_name(LLM_CHOICE_PLACEMENT, r->info->choices.placement), on ? "/" : "",
		 on ? on : "");
}

static void cell_chunk(const struct bench_result *r, char *text, size_t bytes)
{
	snprintf(text, bytes, "%u", r->info->chunk);
}

static void cell_npu_threads(const struct bench_result *r, char *text, size_t bytes)
{
	bool applies = r->info->device && r->info->device->transport == NPU_TRANSPORT_SIM;

	if (applies && r->config->opts.device.threads)
		snprintf(text, bytes, "%u", r->config->opts.device.threads);
	else
		snprintf(text, bytes, "-");
}

static void cell_threads(const struct bench_result *r, char *text, size_t bytes)
{
	if (r->dry)
		snprintf(text, bytes, "-");
	else
		snprintf(text, bytes, "%u", r->info->threads);
}

static void cell_test(const struct bench_result *r, char *text, size_t bytes)
{
	bench_test_name(&r->test, text, bytes);
}

static void cell_speed(const struct bench_result *r, char *text, size_t bytes)
{
	struct bench_stat ts = bench_stat_ts(r);

	if (isnan(ts.stddev))
		snprintf(text, bytes, "%.2f", ts.mean);
	else
		snprintf(text, bytes, "%.2f ± %.2f", ts.mean, ts.stddev);
}

static bool shown_predictor(const struct bench_args *args)
{
	return args->dry_run && args->base.predictor;
}

/* The time with predicted matmuls over that with modelled ones. */
static void cell_predictor(const struct bench_result *r, char *text, size_t bytes)
{
	snprintf(text, bytes, "%+.3f %%",
		 100 * (bench_stat_ns(r).mean / (double)r->modelled_ns - 1));
}

/* The columns left and right of those of the choices; backend/transport shows the placement. */
static const struct md_column md_left[] = {
	{ "model", -24, NULL, .cell = cell_model },
	{ "size", 10, NULL, .cell = cell_size },
	{ "params", 10, NULL, .cell = cell_params },
	{ "backend/transport", -17, NULL, .cell = cell_backend },
};
static const struct md_column md_right[] = {
	{ "chunk", 6, shown_chunk, .cell = cell_chunk },
	{ "npu_threads", 11, shown_npu_threads, .cell = cell_npu_threads },
	{ "threads", 7, NULL, .cell = cell_threads },
	{ "test", 16, NULL, .cell = cell_test },
	{ "t/s", 20, NULL, .cell = cell_speed },
	{ "predicted", 10, shown_predictor, .cell = cell_predictor },
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define MD_COLUMNS (COUNT(md_left) + LLM_NR_CHOICES + COUNT(md_right))

/* A column as wide as the longest name of a value. */
static struct md_column choice_column(enum llm_choice choice)
{
	const struct llm_choice_info *info = llm_choice_info(choice);
	size_t width = strlen(info->name);

	for (unsigned int v = 0; v < info->n_values; v++)
		width = strlen(info->values[v].name) > width ? strlen(info->values[v].name) : width;
	return (struct md_column){ info->name, -(int)width, .choice = choice };
}

/* Collects the columns to show; returns their number. */
static size_t md_columns(const struct bench_args *args, struct md_column columns[MD_COLUMNS])
{
	size_t n = 0;

	for (size_t i = 0; i < COUNT(md_left); i++)
		columns[n++] = md_left[i];
	for (enum llm_choice c = 0; c < LLM_NR_CHOICES; c++)
		if (c == LLM_CHOICE_WEIGHTS || (c != LLM_CHOICE_PLACEMENT && choice_shown(args, c)))
			columns[n++] = choice_column(c);
	for (size_t i = 0; i < COUNT(md_right); i++)
		if (!md_right[i].shown || md_right[i].shown(args))
			columns[n++] = md_right[i];
	return n;
}

static void md_cell(FILE *f, const struct md_column *col, const char *text)
{
	int width = col->width;

	/* printf counts bytes, and "±" has two. */
	if (strstr(text, "±"))
		width += width < 0 ? -1 : 1;
	fprintf(f, " %*s |", width, text);
}

static void md_begin(struct bench_output *out)
{
	struct md_column columns[MD_COLUMNS];
	size_t n = md_columns(out->args, columns);

	fputc('|', out->f);
	for (size_t i = 0; i < n; i++)
		md_cell(out->f, &columns[i], columns[i].title);
	fputs("\n|", out->f);
	for (size_t i = 0; i < n; i++) {
		fputc(' ', out->f);
		for (int dash = 1; dash < abs(columns[i].width); dash++)
			fputc('-', out->f);
		fputs(columns[i].width < 0 ? "- |" : ": |", out->f);
	}
	fputc('\n', out->f);
}

static void md_result(struct bench_output *out, const struct bench_result *r)
{
	struct md_column columns[MD_COLUMNS];
	size_t n = md_columns(out->args, columns);
	char text[128];

	fputc('|', out->f);
	for (size_t i = 0; i < n; i++) {
		if (columns[i].cell)
			columns[i].cell(r, text, sizeof(text));
		else
			cell_choice(r, columns[i].choice, text, sizeof(text));
		md_cell(out->f, &columns[i], text);
	}
	fputc('\n', out->f);
}

/* ---- csv and sql: a header, then a line of values -------------------------------------------- */

/* Prints @s between @quote characters, and doubles those inside it. */
static void put_quoted(FILE *f, const char *s, char quote)
{
	putc(quote, f);
	for (; *s; s++) {
		if (*s == quote)
			putc(quote, f);
		putc(*s, f);
	}
	putc(quote, f);
}

static void put_names(FILE *f)
{
	bool first = true;

	for (const struct bench_field *field = bench_fields(); field->name; field++) {
		if (!field->sql_type)
			continue;
		fprintf(f, "%s%s", first ? "" : ",", field->name);
		first = false;
	}
}

static void put_values(FILE *f, struct json_object *o, bool sql)
{
	bool first = true;

	for (const struct bench_field *field = bench_fields(); field->name; field++) {
		struct json_object *v = json_object_object_get(o, field->name);

		if (!field->sql_type)
			continue;
		if (!first)
			putc(',', f);
		first = false;
		if (json_object_is_type(v, json_type_string))
			put_quoted(f, json_object_get_string(v), sql ? '\'' : '"');
		else if (v)
			fputs(json_object_to_json_string(v), f);
		else if (sql)
			fputs("NULL", f);
	}
}

static void sql_begin(FILE *f)
{
	bool first = true;

	/* All names are quoted, as "order" is a keyword of SQL. */
	fputs("CREATE TABLE IF NOT EXISTS llama_bench (\n", f);
	for (const struct bench_field *field = bench_fields(); field->name; field++) {
		if (!field->sql_type)
			continue;
		fprintf(f, "%s  \"%s\" %s", first ? "" : ",\n", field->name, field->sql_type);
		first = false;
	}
	fputs("\n);\n\n", f);
}

static void sql_result(FILE *f, struct json_object *o)
{
	bool first = true;

	fputs("INSERT INTO llama_bench (", f);
	for (const struct bench_field *field = bench_fields(); field->name; field++) {
		if (!field->sql_type)
			continue;
		fprintf(f, "%s\"%s\"", first ? "" : ",", field->name);
		first = false;
	}
	fputs(") VALUES (", f);
	put_values(f, o, true);
	fputs(");\n", f);
}

/* ---- all ------------------------------------------------------------------------------------- */

static int put_fields(struct bench_output *out, struct json_object *o)
{
	switch (out->format) {
	case BENCH_CSV:
		if (!out->begun) {
			put_names(out->f);
			putc('\n', out->f);
		}
		put_values(out->f, o, false);
		putc('\n', out->f);
		return 0;
	case BENCH_SQL:
		if (!out->begun)
			sql_begin(out->f);
		sql_result(out->f, o);
		return 0;
	case BENCH_JSON:
		fputs(out->begun ? ",\n" : "[\n", out->f);
		fputs(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY |
								JSON_C_TO_STRING_SPACED |
								JSON_C_TO_STRING_NOSLASHESCAPE),
		      out->f);
		return 0;
	case BENCH_JSONL:
		return json_out_line(out->f, o);
	case BENCH_MD:
	case BENCH_NONE:
		break;
	}
	return 0;
}

int bench_output_result(struct bench_output *out, const struct bench_result *r)
{
	int err = 0;

	if (out->format == BENCH_NONE)
		return 0;
	progress_clear();
	if (out->format == BENCH_MD) {
		if (!out->begun)
			md_begin(out);
		md_result(out, r);
	} else {
		struct json_object *o = bench_fields_make(r);

		err = put_fields(out, o);
		json_object_put(o);
	}
	out->begun = true;
	/* Shows each row when its test is done, also in a pipe. */
	fflush(out->f);
	return err;
}

void bench_output_end(struct bench_output *out)
{
	if (!out->begun)
		return;
	if (out->format == BENCH_JSON)
		fputs("\n]\n", out->f);
	else if (out->format == BENCH_MD)
		fprintf(out->f, "\nbuild: %s\n", tool_build_commit);
	fflush(out->f);
}
