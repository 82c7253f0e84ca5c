// SPDX-License-Identifier: MIT
/*
 * Token trees: the time to verify one, by its nodes, against that of a plain token and of a draft
 * of as many tokens; and that of the accepted path. Then the time of a prompt with candidates
 * behind every eighth token and behind all, against a plain one.
 *
 *	bench_tree [-m MODEL (the embedded one)] [-p PLACEMENT (auto)] [-c TOKENS of context (300)]
 *		[-r ROUNDS (200)] [-t THREADS (all)]
 *
 * What is compared alternates round by round; figures are medians, and the medians of the rounds'
 * ratios.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "llm.h"

#define MAX_ROUNDS 2000
#define CANDIDATES 8

static struct bench {
	struct llm_options o;
	struct llm_session *s;
	unsigned int context, rounds, n_vocab;
	int32_t *ids;
	float *logits; /* of a draft */
	uint64_t seed;
} b = { .o = { .model = "share/models/docs6m/docs6m-q8_0.gguf" }, .context = 300, .rounds = 200 };

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static unsigned int below(unsigned int n)
{
	b.seed = b.seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(b.seed >> 33) % n;
}

static int by_value(const void *a, const void *c)
{
	double x = *(const double *)a, y = *(const double *)c;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, b.rounds, sizeof(*v), by_value);
	return v[b.rounds / 2];
}

static void check(int err)
{
	if (err)
		errx(1, "%s", llm_error());
}

/* ---- what is timed --------------------------------------------------------------------------- */

static double time_token(void)
{
	double from = now_ms();

	check(llm_session_eval(b.s, b.ids, 1));
	from = now_ms() - from;
	check(llm_session_truncate(b.s, b.context));
	return from;
}

static double time_draft(unsigned int n)
{
	double from = now_ms();

	check(llm_verify(b.s, b.ids, n, b.logits));
	from = now_ms() - from;
	check(llm_session_truncate(b.s, b.context));
	return from;
}

/* A random tree, of which every second node is kept that can be. */
static double time_tree(unsigned int n, double *keep_ms)
{
	uint8_t parents[LLM_MAX_TREE] = { 0 }, path[LLM_MAX_TREE] = { 0 };
	const struct llm_tree tree = { n, b.ids, parents };
	unsigned int kept = 1;
	double from, ms;

	for (unsigned int i = 1; i < n; i++) {
		parents[i] = (uint8_t)(i - 1 - below(i < 3 ? i : 3));
		if (parents[i] == path[kept - 1] && i % 2)
			path[kept++] = (uint8_t)i;
	}
	from = now_ms();
	check(llm_verify_tree(b.s, &tree));
	ms = now_ms() - from;
	check(llm_tree_keep(b.s, path, kept));
	*keep_ms = now_ms() - from - ms;
	check(llm_session_truncate(b.s, b.context));
	return ms;
}

static void ignore(void *ud, size_t i, const struct llm_candidate *best)
{
}

/* Candidates behind every token at a multiple of @step; 0: behind none. */
static double time_prompt(unsigned int step)
{
	size_t *at = malloc(b.context * sizeof(*at)), n = 0;
	double from;

	for (size_t i = 0; at && step && i < b.context; i += step)
		at[n++] = i;
	check(llm_session_truncate(b.s, 0));
	from = now_ms();
	if (step)
		check(llm_session_eval_at(b.s, b.ids, b.context, at, n, CANDIDATES, ignore, NULL));
	else
		check(llm_session_eval(b.s, b.ids, b.context));
	free(at);
	return now_ms() - from;
}

/* ---- figures --------------------------------------------------------------------------------- */

static void measure_trees(unsigned int n)
{
	static double token[MAX_ROUNDS], draft[MAX_ROUNDS], tree[MAX_ROUNDS], keep[MAX_ROUNDS],
		to_token[MAX_ROUNDS], to_draft[MAX_ROUNDS];

	for (unsigned int i = 0; i < b.rounds; i++) {
		token[i] = time_token();
		draft[i] = time_draft(n);
		tree[i] = time_tree(n, &keep[i]);
		to_token[i] = tree[i] / token[i];
		to_draft[i] = tree[i] / draft[i];
	}
	printf("%8u %8.3f %8.3f %8.3f %8.4f %9.2f %9.2f\n", n, median(token), median(draft),
	       median(tree), median(keep), median(to_token), median(to_draft));
}

static void measure_prompts(void)
{
	static double plain[MAX_ROUNDS], eighth[MAX_ROUNDS], all[MAX_ROUNDS];

	b.rounds = b.rounds / 10 + 1;
	for (unsigned int i = 0; i < b.rounds; i++) {
		plain[i] = time_prompt(0);
		eighth[i] = time_prompt(8) / plain[i];
		all[i] = time_prompt(1) / plain[i];
	}
	printf("\na prompt of %u tokens: %.2f ms; with candidates behind each eighth token %.3f "
	       "times as long, behind all %.3f\n",
	       b.context, median(plain), median(eighth), median(all));
}

static void set_placement(const char *name)
{
	int value = llm_choice_parse(LLM_CHOICE_PLACEMENT, name);

	check(value < 0 ? value : 0);
	llm_choices_set(&b.o.choices, LLM_CHOICE_PLACEMENT, (unsigned int)value);
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "m:p:c:r:t:")) != -1) {
		if (c == 'm')
			b.o.model = optarg;
		else if (c == 'p')
			set_placement(optarg);
		else if (c == 'c')
			b.context = (unsigned int)atoi(optarg);
		else if (c == 'r')
			b.rounds = (unsigned int)atoi(optarg);
		else if (c == 't')
			b.o.threads = b.o.device.threads = (unsigned int)atoi(optarg);
		else
			errx(2, "usage: bench_tree [-m MODEL] [-p PLACEMENT] [-c TOKENS] "
				"[-r ROUNDS] [-t THREADS]");
	}
	if (!b.context || !b.rounds || b.rounds > MAX_ROUNDS)
		errx(2, "a context of at least 1 token, and 1 to %d rounds", MAX_ROUNDS);
}

int main(int argc, char **argv)
{
	static const unsigned int nodes[] = { 1, 2, 4, 8, 16, 32, 64 };
	struct llm_engine *engine;

	parse(argc, argv);
	check(llm_engine_open(&b.o, &engine));
	check(llm_session_create(engine, b.context + LLM_MAX_TREE, &b.s));
	b.n_vocab = llm_engine_info(engine)->n_vocab;
	b.ids = calloc(b.context + LLM_MAX_TREE, sizeof(*b.ids));
	b.logits = malloc((size_t)LLM_MAX_TREE * b.n_vocab * sizeof(*b.logits));
	if (!b.ids || !b.logits)
		errx(1, "no memory");
	for (unsigned int i = 0; i < b.context + LLM_MAX_TREE; i++)
		b.ids[i] = (int32_t)below(b.n_vocab);
	check(llm_session_eval(b.s, b.ids, b.context));
	check(llm_session_prepare_tree(b.s, LLM_MAX_TREE));
	printf("%8s %8s %8s %8s %8s %9s %9s\n%8s %8s %8s %8s %8s %9s %9s\n", "nodes", "token",
	       "draft", "tree", "keep", "tree", "tree", "", "ms", "ms", "ms", "ms", "/token",
	       "/draft");
	for (unsigned int i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		measure_trees(nodes[i]);
	measure_prompts();
	llm_session_free(b.s);
	llm_engine_close(engine);
	free(b.ids);
	free(b.logits);
	return 0;
}
