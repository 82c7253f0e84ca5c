// SPDX-License-Identifier: MIT
/*
 * The partition solver: its time for all matmuls of a model at one length, how near its cuts are to
 * the best ones, and the time to choose the chunks of a prompt.
 *
 *	bench_partition [PROFILE (sd8gen3)] [SHAPE...]	default: all of share/shapes
 *
 * Prints worst and mean CPU times over the lengths below. The search among all cuts takes minutes.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuts.h"
#include "plan.h"

static const uint32_t lengths[] = { 1, 32, 64, 100, 135, 256, 300, 525, 600 };
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void die(const char *what)
{
	fprintf(stderr, "bench_partition: %s\n", what);
	exit(1);
}

struct figures {
	double search_s, worst_search_s; /* of all matmuls of a model */
	double tune_s, worst_tune_s;
	double all_s;
	double ratio, worst_ratio; /* time of the solver's cut over that of the best cut */
	unsigned int models, matmuls;
};

static void add_matmul(const struct partition_options *o, uint32_t m, uint64_t k, uint64_t n,
		       struct figures *f, double *search_s)
{
	struct cut some, all;
	double begin = seconds(), ratio;

	partition_search(o, m, k, n, &some);
	*search_s += seconds() - begin;
	begin = seconds();
	partition_search_all(o, m, k, n, &all);
	f->all_s += seconds() - begin;
	ratio = some.total_ns / all.total_ns;
	f->ratio += ratio;
	f->worst_ratio = ratio > f->worst_ratio ? ratio : f->worst_ratio;
	f->matmuls++;
}

static void add_length(const struct plan_options *o, uint32_t tokens, struct figures *f)
{
	const struct plan_pass pass = { .n_tokens = tokens, .logits = PLAN_LOGITS_LAST };
	struct plan_division division = { .chunk = tokens };
	double search_s = 0, begin = seconds(), tune_s;

	if (plan_divide(o, &pass, &division))
		die("no memory for a plan");
	tune_s = seconds() - begin;
	for (int op = 0; op < LLM_NR_OPS; op++) {
		const struct partition_options cuts = plan_cuts(o, op, 0);
		uint64_t k, n;

		if (llm_op_matmul(o->shape, op, &k, &n))
			add_matmul(&cuts, op == LLM_OP_HEAD ? 1 : tokens, k, n, f, &search_s);
	}
	f->search_s += search_s;
	f->worst_search_s = search_s > f->worst_search_s ? search_s : f->worst_search_s;
	f->tune_s += tune_s;
	f->worst_tune_s = tune_s > f->worst_tune_s ? tune_s : f->worst_tune_s;
	f->models++;
}

static void add_shape(const struct soc *profile, const char *name, struct figures *f)
{
	struct shape shape;
	const struct plan_options o = {
		.soc = profile,
		.cuts = profile,
		.shape = &shape,
		.choices = { .placement = LLM_PLACE_LAYER,
			     .weights = LLM_WEIGHTS_W4A16,
			     .partition = LLM_PARTITION_AUTO,
			     .graphs = LLM_GRAPHS_PIPE,
			     .operands = LLM_OPERANDS_PERMUTED },
	};

	if (shape_load(name, &shape))
		die(llm_error());
	for (size_t i = 0; i < COUNT(lengths); i++)
		add_length(&o, lengths[i], f);
}

int main(int argc, char **argv)
{
	char why[512];
	struct soc *profile = soc_load(argc > 1 ? argv[1] : "sd8gen3", why, sizeof(why));
	struct figures f = { 0 };
	glob_t all = { 0 };

	if (!profile)
		die(why);
	if (argc < 3 && glob("share/shapes/*.conf", 0, NULL, &all))
		die("no shapes: run it in the root of the tree, or name some");
	for (int i = 2; i < argc; i++)
		add_shape(profile, argv[i], &f);
	for (size_t i = 0; i < all.gl_pathc; i++)
		add_shape(profile, all.gl_pathv[i], &f);
	printf("matmuls of a model for one length:   mean %.2f ms, worst %.2f ms\n",
	       1e3 * f.search_s / f.models, 1e3 * f.worst_search_s);
	printf("the same among all cuts:             mean %.0f ms\n", 1e3 * f.all_s / f.models);
	printf("a prompt's chunks and shares:        mean %.1f ms, worst %.1f ms\n",
	       1e3 * f.tune_s / f.models, 1e3 * f.worst_tune_s);
	printf("search over the best of all cuts:    mean %.5f, worst %.5f of %u matmuls\n",
	       f.ratio / f.matmuls, f.worst_ratio, f.matmuls);
	globfree(&all);
	soc_free(profile);
	return 0;
}
