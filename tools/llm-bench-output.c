// SPDX-License-Identifier: MIT
/* Results of llm-bench as md, csv, json, jsonl or sql. All but md come from the fields of llm-bench-fields.c. */
#include <json-c/json.h>
#include <math.h>
#include <string.h>

#include "json_out.h"
#include "llm-bench.h"
#include "options.h"
#include "progress.h"
#include "tool.h"

/* ---- md: a table for people ---------------------------------------------------------------------------------------- */

/* A column is there if it always is, or if its option was given. */
struct md_column {
	const char *title;
	int width; /* negative: to the left */
	bool (*shown)(const struct bench_args *args);
	void (*cell)(const struct bench_result *r, char *text, size_t bytes);
};

static bool shown_kv(const struct bench_args *args)
{
	return args->kv.n > 1 || args->kv.v[0] != LLM_KV_F16;
}

static bool shown_activations(const struct bench_args *args)
{
	return args->activations.n > 1 || args->activations.v[0] != LLM_ACTIVATIONS_OUTLIERS;
}

static bool shown_sync(const struct bench_args *args)
{
	return args->sync.n > 1 || args->sync.v[0] != LLM_SYNC_FAST;
}

static bool shown_graphs(const struct bench_args *args)
{
	return args->graphs.n > 1 || (args->graphs.n && args->graphs.v[0] != LLM_GRAPHS_BUCKETED);
}

static bool shown_partition(const struct bench_args *args)
{
	bool cut = false;

	for (size_t i = 0; i < args->preset.n; i++)
		cut |= engine_preset(args->preset.v[i])->partition != LLM_PARTITION_NONE;
	return cut || args->partition.n > 1 || (args->partition.n && args->partition.v[0] != LLM_PARTITION_NONE);
}

static bool shown_chunk(const struct bench_args *args)
{
	return args->chunk.n > 1 || args->chunk.v[0];
}

static bool shown_npu_threads(const struct bench_args *args)
{
	return args->npu_threads.n > 1 || args->npu_threads.v[0];
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

	snprintf(text, bytes, millions < 1000 ? "%.2f M" : "%.2f B", millions < 1000 ? millions : millions / 1000);
}

static void cell_backend(const struct bench_result *r, char *text, size_t bytes)
{
	const struct npu_device_info *dev = r->info->device;

	const char *on = r->info->profile ? r->info->profile : dev ? engine_transport_name(dev->transport) : NULL;

	snprintf(text, bytes, "%s%s%s", llm_placement_name(r->info->choices.placement), on ? "/" : "", on ? on : "");
}

static void cell_weights(const struct bench_result *r, char *text, size_t bytes)
{
	snprintf(text, bytes, "%s", llm_weights_name(r->info->choices.weights));
}

static void cell_activations(const struct bench_result *r, char *text, size_t bytes)
{
	snprintf(text, bytes, "%s", plan_integers(r->info->choices.weights) ? llm_activations_name(r->info->choices.activations) : "-");
}

static void cell_kv(const struct bench_result *r, char *text, size_t bytes)
{
	snprintf(text, bytes, "%s", llm_kv_name(r->info->choices.kv));
}

static void cell_sync(const struct bench_result *r, char *text, size_t bytes)
{
	snprintf(text, bytes, "%s", r->info->device || r->dry ? llm_sync_name(r->info->choices.sync) : "-");
}

static void cell_graphs(const struct bench_result *r, char *text, size_t bytes)
{
	snprintf(text, bytes, "%s", r->info->device || r->dry ? llm_graphs_name(r->info->choices.graphs) : "-");
}

static void cell_partition(const struct bench_result *r, char *text, size_t bytes)
{
	bool cut = r->info->choices.placement == LLM_PLACE_LAYER;

	snprintf(text, bytes, "%s", cut ? llm_partition_name(r->info->choices.partition) : "-");
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
	return args->predictor_path;
}

/* The time with predicted products over that with modelled ones. */
static void cell_predictor(const struct bench_result *r, char *text, size_t bytes)
{
	snprintf(text, bytes, "%+.3f %%", 100 * (bench_stat_ns(r).mean / (double)r->modelled_ns - 1));
}

static bool shown_game(const struct bench_args *args)
{
	return args->game.period_ns > 0;
}

/* In a dry run it is what was asked for. */
static bool shown_frame(const struct bench_args *args)
{
	return args->game.period_ns > 0 && !args->dry_run;
}

static void cell_frame(const struct bench_result *r, char *text, size_t bytes)
{
	snprintf(text, bytes, "%.3f", r->frame_ns / 1e6);
}

static void cell_game_fps(const struct bench_result *r, char *text, size_t bytes)
{
	snprintf(text, bytes, "%.1f", bench_game_fps(r));
}

/* How much longer the test took than without the game. */
static void cell_slowdown(const struct bench_result *r, char *text, size_t bytes)
{
	snprintf(text, bytes, "%+.1f %%", 100 * (bench_stat_ns(r).mean / (double)r->alone_ns - 1));
}

static const struct md_column md_columns[] = {
	{ "model", -24, NULL, cell_model },
	{ "size", 10, NULL, cell_size },
	{ "params", 10, NULL, cell_params },
	{ "backend/transport", -17, NULL, cell_backend },
	{ "weights", -7, NULL, cell_weights },
	{ "activations", -11, shown_activations, cell_activations },
	{ "graphs", -8, shown_graphs, cell_graphs },
	{ "partition", -14, shown_partition, cell_partition },
	{ "kv", -4, shown_kv, cell_kv },
	{ "sync", -6, shown_sync, cell_sync },
	{ "chunk", 6, shown_chunk, cell_chunk },
	{ "npu_threads", 11, shown_npu_threads, cell_npu_threads },
	{ "threads", 7, NULL, cell_threads },
	{ "test", 16, NULL, cell_test },
	{ "t/s", 20, NULL, cell_speed },
	{ "predicted", 10, shown_predictor, cell_predictor },
	{ "frame ms", 8, shown_frame, cell_frame },
	{ "game fps", 8, shown_game, cell_game_fps },
	{ "slowdown", 9, shown_game, cell_slowdown },
};

#define MD_COLUMNS (sizeof(md_columns) / sizeof(md_columns[0]))

static void md_cell(FILE *f, const struct md_column *col, const char *text)
{
	int width = col->width;

	/* printf counts bytes; every "±" is one byte more than it is wide. */
	if (strstr(text, "±"))
		width += width < 0 ? -1 : 1;
	fprintf(f, " %*s |", width, text);
}

static void md_begin(struct bench_output *out)
{
	fputc('|', out->f);
	for (size_t i = 0; i < MD_COLUMNS; i++)
		if (!md_columns[i].shown || md_columns[i].shown(out->args))
			md_cell(out->f, &md_columns[i], md_columns[i].title);
	fputs("\n|", out->f);
	for (size_t i = 0; i < MD_COLUMNS; i++) {
		const struct md_column *col = &md_columns[i];

		if (col->shown && !col->shown(out->args))
			continue;
		fputc(' ', out->f);
		for (int n = 1; n < abs(col->width); n++)
			fputc('-', out->f);
		fputs(col->width < 0 ? "- |" : ": |", out->f);
	}
	fputc('\n', out->f);
}

static void md_result(struct bench_output *out, const struct bench_result *r)
{
	char text[128];

	fputc('|', out->f);
	for (size_t i = 0; i < MD_COLUMNS; i++) {
		if (md_columns[i].shown && !md_columns[i].shown(out->args))
			continue;
		md_columns[i].cell(r, text, sizeof(text));
		md_cell(out->f, &md_columns[i], text);
	}
	fputc('\n', out->f);
}

/* ---- csv and sql: a header, then a line of values ------------------------------------------------------------------ */

/* @s between two @quote characters, those inside it doubled. */
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

	for (const struct bench_field *field = bench_fields; field->name; field++) {
		if (!field->sql_type)
			continue;
		fprintf(f, "%s%s", first ? "" : ",", field->name);
		first = false;
	}
}

static void put_values(FILE *f, struct json_object *o, bool sql)
{
	bool first = true;

	for (const struct bench_field *field = bench_fields; field->name; field++) {
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

	/* "order" is a word of the language: all names stand in quotes. */
	fputs("CREATE TABLE IF NOT EXISTS llama_bench (\n", f);
	for (const struct bench_field *field = bench_fields; field->name; field++) {
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
	for (const struct bench_field *field = bench_fields; field->name; field++) {
		if (!field->sql_type)
			continue;
		fprintf(f, "%s\"%s\"", first ? "" : ",", field->name);
		first = false;
	}
	fputs(") VALUES (", f);
	put_values(f, o, true);
	fputs(");\n", f);
}

/* ---- all ----------------------------------------------------------------------------------------------------------- */

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
		fputs(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
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
	/* A row is seen when its test is done, also in a pipe. */
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
