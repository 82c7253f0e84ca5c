// SPDX-License-Identifier: MIT
/* llm-bench --plan: how placement layer cuts the products of a prompt's chunk or of a token. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "json_out.h"
#include "llm-bench.h"
#include "tool.h"

/* A product of a test. */
struct row {
	const struct shape *shape;
	char test[64];
	uint32_t chunk;
	enum plan_op op;
	double gpu_busy; /* by which it was cut */
	struct partition part; /* predicted with the whole GPU */
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
static void segments_text(const struct partition *part, char *text, size_t bytes)
{
	size_t used = 0;

	snprintf(text, bytes, "%s", part->cut == PARTITION_GPU ? "-" : "");
	if (part->exact)
		snprintf(text, bytes, "%u", part->exact);
	for (int i = PARTITION_NR_GRAPHS - 1; i >= 0 && used < bytes; i--) {
		uint32_t tokens = (uint32_t)PARTITION_MIN_GRAPH << i;

		if (part->graphs[i] > 1)
			used += (size_t)snprintf(text + used, bytes - used, "%s%ux%u", used ? "+" : "", part->graphs[i],
						 tokens);
		else if (part->graphs[i])
			used += (size_t)snprintf(text + used, bytes - used, "%s%u", used ? "+" : "", tokens);
	}
}

static void print_md(const struct row *r, struct bench_plan_output *out)
{
	const struct partition *p = &r->part;
	char segments[48];

	if (!out->begun) {
		printf("| %-16s | %-8s | %-11s | %-18s | %-14s | %-12s | %10s | %8s | %8s | %7s | %8s | %9s |", "model",
		       "test", "product", "tokens x k x n", "cut", "NPU graphs", "GPU tokens", "GPU cols", "predicted",
		       "sync", "npu", "simulated");
		puts(r->exhaustive ? " of all |" : "");
		printf("| ---------------- | -------- | ----------- | ------------------ | -------------- | "
		       "------------ | "
		       "---------: | -------: | --------: | ------: | -------: | --------: |");
		puts(r->exhaustive ? " -----: |" : "");
	}
	out->begun = true;
	segments_text(p, segments, sizeof(segments));
	printf("| %-16s | %-8s | %-11s | %5u x %5lu x %6lu |", r->shape->name, r->test, plan_op_name(r->op), p->m,
	       (unsigned long)p->k, (unsigned long)p->n);
	printf(" %-14s | %-12s | %10u | %8lu | %9.1f | %7.1f | %8.1f | %9.1f |", partition_cut_name(p->cut), segments,
	       p->gpu_tokens, (unsigned long)p->gpu_cols, p->total_ns / 1e3, (p->sync_ns + p->copy_ns) / 1e3,
	       p->npu_ns / 1e3, r->simulated_ns / 1e3);
	if (r->exhaustive)
		printf(" %6.4f |", r->found_ns / r->best_ns);
	putchar('\n');
}

static struct json_object *segments_json(const struct partition *part)
{
	struct json_object *list = json_object_new_array();

	for (uint32_t i = 0; i < partition_nr_segments(part); i++)
		json_object_array_add(list, json_out_u64(partition_segment(part, i)));
	return list;
}

static void add_json(const struct row *r, struct bench_plan_output *out)
{
	const struct partition *p = &r->part;
	struct json_object *o = json_object_new_object();

	if (!out->rows)
		out->rows = json_object_new_array();
	json_object_object_add(o, "model_type", json_out_string(r->shape->name));
	json_object_object_add(o, "test", json_out_string(r->test));
	json_object_object_add(o, "chunk", json_out_u64(r->chunk));
	json_object_object_add(o, "product", json_out_string(plan_op_name(r->op)));
	json_object_object_add(o, "tokens", json_out_u64(p->m));
	json_object_object_add(o, "k", json_out_u64(p->k));
	json_object_object_add(o, "n", json_out_u64(p->n));
	json_object_object_add(o, "cut", json_out_string(partition_cut_name(p->cut)));
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
	json_object_object_add(o, "of_all", r->exhaustive ? json_out_double(r->found_ns / r->best_ns) : NULL);
	json_object_array_add(out->rows, o);
}

static int plan_product_row(const struct bench_args *args, const struct plan_options *plan, struct row *r,
			    uint32_t rows, struct bench_plan_output *out)
{
	struct partition_options o = plan->cuts;
	uint64_t k, n;
	double begin_ns;

	plan_product(plan->shape, r->op, &k, &n);
	o.gpu_busy = r->gpu_busy = plan->gpu_busy[r->op];
	begin_ns = now_ns();
	partition_search(&o, rows, k, n, &r->part);
	r->solver_ns = now_ns() - begin_ns;
	r->found_ns = r->part.total_ns;
	if (r->exhaustive) {
		struct partition best;

		partition_search_all(&o, rows, k, n, &best);
		r->best_ns = best.total_ns;
	}
	o.gpu_busy = 0;
	partition_predict(&o, &r->part);
	if (partition_simulate(&o, &r->part, &r->simulated_ns))
		return tool_fail("no memory for the plan of %u tokens", rows);
	if (args->out == BENCH_JSON)
		add_json(r, out);
	else
		print_md(r, out);
	return 0;
}

/* The products of a layer for the @rows tokens of a chunk, and with @head the output's for one. */
static int plan_rows(const struct bench_args *args, const struct plan_options *plan, const char *test, uint32_t rows,
		     bool head, struct bench_plan_output *out)
{
	int status = 0;

	for (int op = 0; op < (head ? PLAN_NR_OPS : PLAN_HEAD) && !status; op++) {
		struct row r = { .shape = plan->shape, .chunk = rows, .op = op, .exhaustive = args->exhaustive };
		uint64_t k, n;

		snprintf(r.test, sizeof(r.test), "%s", test);
		if (plan_product(plan->shape, op, &k, &n))
			status = plan_product_row(args, plan, &r, op == PLAN_HEAD ? 1 : rows, out);
	}
	return status;
}

int bench_plan_test(const struct bench_args *args, const struct bench_config *config, const struct shape *shape,
		    const struct bench_test *test, struct bench_plan_output *out)
{
	struct bench_test prompt = { .n_prompt = test->n_prompt, .n_depth = test->n_depth };
	struct bench_test token = { .n_gen = 1, .n_depth = test->n_depth };
	struct plan_options plan;
	bool tune = bench_dry_plan(args, config, shape, &plan);
	char name[64];
	uint32_t first, last;
	int status = 0;

	if (config->opts.choices.placement != LLM_PLACE_LAYER)
		return tool_fail(
			"--plan: placement %s cuts no products; choose placement layer",
			llm_choice_name(LLM_CHOICE_PLACEMENT, config->opts.choices.placement));
	if (test->n_prompt) {
		plan.n_tokens = test->n_prompt;
		plan.n_past = test->n_depth;
		if (tune && plan_tune(&plan))
			return tool_fail("no memory for the plan of %u tokens", test->n_prompt);
		bench_test_name(&prompt, name, sizeof(name));
		first = plan_chunk_rows(&plan, 0);
		last = plan_chunk_rows(&plan, plan_nr_chunks(&plan) - 1);
		status = plan_rows(args, &plan, name, first, last == first, out);
		if (last != first && !status)
			status = plan_rows(args, &plan, name, last, true, out);
	}
	if (test->n_gen && !status) {
		bench_dry_plan(args, config, shape, &plan);
		bench_test_name(&token, name, sizeof(name));
		status = plan_rows(args, &plan, name, 1, true, out);
	}
	return status;
}

void bench_plan_end(struct bench_plan_output *out)
{
	if (out->rows)
		puts(json_object_to_json_string_ext(out->rows, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
	json_object_put(out->rows);
}
