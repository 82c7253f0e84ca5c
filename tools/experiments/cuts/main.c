// SPDX-License-Identifier: MIT
/* How placement layer cuts the matmuls of a prompt's chunk or of a token, and what that takes. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cuts.h"
#include "engine.h"
#include "json_out.h"
#include "options.h"
#include "tool.h"

#define MAX_TOKENS 1000000u

enum {
	OPT_SHAPE = OPT_TOOL,
	OPT_EXHAUSTIVE,
};

static const char usage[] =
	"usage: cuts --shape NAME[,NAME] [-p LIST] [-n N] [options]\n"
	"Prints how placement layer cuts each matmul of a prompt or a token, and what that\n"
	"takes: predicted, and simulated alone.\n";
static const char *const formats[] = { "md", "json", NULL };
static const struct option_def options[] = {
	{ OPT_SHAPE, "shape", "NAME[,NAME]", .doc = "the shapes, of share/shapes, or files" },
	{ 'p', "n-prompt", "LIST", .doc = "tokens of a prompt (default: none)" },
	{ 'n', "n-gen", "N", .doc = "not 0: a generated token's matmuls (default: 0)" },
	{ OPT_EXHAUSTIVE, "exhaustive", NULL,
	  .doc = "and what the best among all cuts would take" },
	{ 'o', "output", "FORMAT", .doc = "md or json (default: md)", .words = formats },
	{ .code = 0 },
};

struct args {
	struct llm_options opts;
	const char *shapes;
	struct range n_prompt;
	unsigned int n_gen;
	bool exhaustive, json;
};

struct output {
	const struct args *args;
	struct json_object *rows; /* json; NULL before the first */
	bool begun; /* md */
};

/* A matmul of a test. */
struct row {
	const struct shape *shape;
	char test[64];
	uint32_t chunk;
	enum llm_op op;
	double gpu_busy; /* by which it was cut */
	struct cut cut; /* predicted with the whole GPU */
	double solver_ns; /* of the CPU's time */
	double simulated_ns;
	bool exhaustive;
	double best_ns; /* of all cuts, by the measure of the search */
	double found_ns;
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* "512+32": graphs that the NPU runs in sequence; more than a few of one size as "8x1024". */
static void graphs_text(const struct cut *cut, char *text, size_t bytes)
{
	size_t used = 0;

	snprintf(text, bytes, "%s", cut->kind == PARTITION_GPU ? "-" : "");
	if (cut->exact)
		snprintf(text, bytes, "%u", cut->exact);
	for (int i = PARTITION_NR_GRAPHS - 1; i >= 0 && used < bytes; i--) {
		uint32_t tokens = (uint32_t)PARTITION_MIN_GRAPH << i;

		if (cut->graphs[i] > 1)
			used += (size_t)snprintf(text + used, bytes - used, "%s%ux%u",
						 used ? "+" : "", cut->graphs[i], tokens);
		else if (cut->graphs[i])
			used += (size_t)snprintf(text + used, bytes - used, "%s%u", used ? "+" : "",
						 tokens);
	}
}

static void print_md(const struct row *r, struct output *out)
{
	const struct cut *p = &r->cut;
	char graphs[48];

	if (!out->begun) {
		printf("| %-16s | %-8s | %-11s | %-18s | %-14s | %-12s | %10s | %8s | %8s | %7s | "
		       "%8s | %9s |",
		       "model", "test", "matmul", "tokens x k x n", "cut", "NPU graphs",
		       "GPU tokens", "GPU cols", "predicted", "sync", "npu", "simulated");
		puts(r->exhaustive ? " of all |" : "");
		printf("| ---------------- | -------- | ----------- | ------------------ | "
		       "-------------- | ------------ | ---------: | -------: | --------: | "
		       "------: | -------: | --------: |");
		puts(r->exhaustive ? " -----: |" : "");
	}
	out->begun = true;
	graphs_text(p, graphs, sizeof(graphs));
	printf("| %-16s | %-8s | %-11s | %5u x %5lu x %6lu |", r->shape->name, r->test,
	       llm_op_name(r->op), p->m, (unsigned long)p->k, (unsigned long)p->n);
	printf(" %-14s | %-12s | %10u | %8lu | %9.1f | %7.1f | %8.1f | %9.1f |",
	       cut_kind_name(p->kind), graphs, p->gpu_tokens, (unsigned long)p->gpu_cols,
	       p->total_ns / 1e3, (p->sync_ns + p->copy_ns) / 1e3, p->npu_ns / 1e3,
	       r->simulated_ns / 1e3);
	if (r->exhaustive)
		printf(" %6.4f |", r->found_ns / r->best_ns);
	putchar('\n');
}

static struct json_object *segments_json(const struct cut *cut)
{
	struct json_object *list = json_object_new_array();

	for (uint32_t i = 0; i < partition_nr_graphs(cut); i++)
		json_object_array_add(list, json_out_u64(partition_graph_rows(cut, i)));
	return list;
}

static void add_json(const struct row *r, struct output *out)
{
	const struct cut *p = &r->cut;
	struct json_object *o = json_object_new_object();

	if (!out->rows)
		out->rows = json_object_new_array();
	json_object_object_add(o, "model_type", json_out_string(r->shape->name));
	json_object_object_add(o, "test", json_out_string(r->test));
	json_object_object_add(o, "chunk", json_out_u64(r->chunk));
	json_object_object_add(o, "matmul", json_out_string(llm_op_name(r->op)));
	json_object_object_add(o, "tokens", json_out_u64(p->m));
	json_object_object_add(o, "k", json_out_u64(p->k));
	json_object_object_add(o, "n", json_out_u64(p->n));
	json_object_object_add(o, "cut", json_out_string(cut_kind_name(p->kind)));
	json_object_object_add(o, "npu_graphs", segments_json(p));
	json_object_object_add(o, "npu_padding", json_out_u64(partition_padding(p)));
	json_object_object_add(o, "gpu_tokens", json_out_u64(p->gpu_tokens));
	json_object_object_add(o, "gpu_cols", json_out_u64(p->gpu_cols));
	json_object_object_add(o, "gpu_busy", json_out_double(r->gpu_busy));
	json_object_object_add(o, "gpu_ns", json_out_double(p->gpu_ns));
	json_object_object_add(o, "npu_ns", json_out_double(p->npu_ns));
	json_object_object_add(o, "sync_ns", json_out_double(p->sync_ns));
	json_object_object_add(o, "copy_ns", json_out_double(p->copy_ns));
	json_object_object_add(o, "predicted_ns", json_out_double(p->total_ns));
	json_object_object_add(o, "simulated_ns", json_out_double(r->simulated_ns));
	json_object_object_add(o, "solver_ns", json_out_double(r->solver_ns));
	json_object_object_add(o, "of_all",
			       r->exhaustive ? json_out_double(r->found_ns / r->best_ns) : NULL);
	json_object_array_add(out->rows, o);
}

static int put_matmul(const struct plan_options *plan, struct row *r, uint32_t rows,
		      struct output *out)
{
	struct partition_options o = plan_cuts(plan, r->op, r->gpu_busy);
	double begin_ns = now_ns();
	uint64_t k, n;

	llm_op_matmul(plan->shape, r->op, &k, &n);
	partition_search(&o, rows, k, n, &r->cut);
	r->solver_ns = now_ns() - begin_ns;
	r->found_ns = r->cut.total_ns;
	if (r->exhaustive) {
		struct cut best;

		partition_search_all(&o, rows, k, n, &best);
		r->best_ns = best.total_ns;
	}
	o.gpu_busy = 0;
	partition_predict(&o, &r->cut);
	if (partition_simulate(&o, &r->cut, &r->simulated_ns))
		return tool_fail("no memory for the plan of %u tokens", rows);
	if (out->args->json)
		add_json(r, out);
	else
		print_md(r, out);
	return 0;
}

/* The matmuls of a layer for the @rows tokens of a chunk, and with @head the output's for one. */
static int put_rows(const struct plan_options *plan, const struct plan_division *d,
		    const char *test, uint32_t rows, bool head, struct output *out)
{
	int status = 0;

	for (int op = 0; op < (head ? LLM_NR_OPS : LLM_OP_HEAD) && !status; op++) {
		struct row r = { .shape = plan->shape,
				 .chunk = rows,
				 .op = op,
				 .exhaustive = out->args->exhaustive };
		uint64_t k, n;

		r.gpu_busy = d->gpu_busy[op];
		snprintf(r.test, sizeof(r.test), "%s", test);
		if (llm_op_matmul(plan->shape, op, &k, &n))
			status = put_matmul(plan, &r, op == LLM_OP_HEAD ? 1 : rows, out);
	}
	return status;
}

/* A prompt of @tokens, or a token. */
static int put_test(const struct plan_options *plan, uint32_t tokens, struct output *out)
{
	const struct plan_pass pass = { .n_tokens = tokens, .logits = PLAN_LOGITS_LAST };
	struct plan_division d = { 0 };
	struct plan *p = plan_forward(plan, &pass);
	uint32_t first, last;
	char name[32];
	int status;

	if (!p || (p->divided && plan_divide(plan, &pass, &d))) {
		plan_free(p);
		return tool_fail("no memory for the plan of %u tokens", tokens);
	}
	snprintf(name, sizeof(name), tokens > 1 ? "pp%u" : "tg%u", tokens);
	first = p->chunks[0].n;
	last = p->chunks[p->nr_chunks - 1].n;
	plan_free(p);
	status = put_rows(plan, &d, name, first, last == first, out);
	return last == first || status ? status : put_rows(plan, &d, name, last, true, out);
}

static int put_shape(struct args *args, const char *name, struct output *out)
{
	struct llm_options opts = args->opts;
	struct llm_session *s = NULL;
	struct llm_engine *engine;
	int status;

	opts.shape = name;
	opts.dry_run = true;
	status = engine_open(&opts, &engine);
	if (status)
		return status;
	if (llm_engine_info(engine)->choices.placement != LLM_PLACE_LAYER)
		status = tool_usage("placement %s cuts no matmuls; choose placement layer",
				    llm_choice_name(LLM_CHOICE_PLACEMENT,
						    llm_engine_info(engine)->choices.placement));
	else if (llm_session_create(engine, MAX_TOKENS, &s))
		status = tool_fail("%s", llm_error());
	for (size_t i = 0; i < args->n_prompt.n && !status; i++)
		status = put_test(&s->runner.opts, args->n_prompt.v[i], out);
	if (args->n_gen && !status)
		status = put_test(&s->runner.opts, 1, out);
	llm_session_free(s);
	llm_engine_close(engine);
	return status;
}

static int parse_one(void *ud, int c, const char *value)
{
	struct args *args = ud;
	int format;

	switch (c) {
	case OPT_SHAPE:
		args->shapes = value;
		return 0;
	case 'p':
		return range_parse(&args->n_prompt, "-p", value, 1, MAX_TOKENS);
	case 'n':
		return tool_parse_uint("-n", value, 0, MAX_TOKENS, &args->n_gen);
	case OPT_EXHAUSTIVE:
		args->exhaustive = true;
		return 0;
	case 'o':
		format = options_find_word("-o", formats, value);
		args->json = format == 1;
		return format < 0 ? 2 : 0;
	}
	return engine_option(&args->opts, c, value);
}

static int put_shapes(struct args *args)
{
	struct output out = { .args = args };
	char *copy = strdup(args->shapes), *next = copy, *name;
	int status = copy ? 0 : tool_fail("no memory for the names of shapes");

	while (!status && (name = strsep(&next, ",")))
		status = put_shape(args, name, &out);
	if (out.rows)
		puts(json_object_to_json_string_ext(out.rows, JSON_C_TO_STRING_PRETTY |
								      JSON_C_TO_STRING_SPACED));
	json_object_put(out.rows);
	free(copy);
	return status;
}

int main(int argc, char **argv)
{
	const struct option_set set = { .options = options, .usage = usage, .option = parse_one };
	struct args args = { .opts = { .profile = ENGINE_DEFAULT_PROFILE } };
	int status;

	tool_begin("cuts");
	if (options_parse(&set, argc, argv, &args, &status)) {
		range_free(&args.n_prompt);
		return status;
	}
	if (!args.shapes)
		status = tool_usage("no shape: give one with --shape");
	else
		status = put_shapes(&args);
	range_free(&args.n_prompt);
	return tool_finish(status);
}
