// SPDX-License-Identifier: MIT
/*
 * Choosing a token: microseconds by filter and by distribution of the logits.
 *
 *	bench_sampler [-v VOCABULARY (151936)] [-n TOKENS per figure (201)] [-s SEED (1)]
 *
 * Logits are "peaked", as a model's: a few dozen tokens have most of the probability; "normal":
 * normally distributed, so that thousands have; or "flat": nearly equal. Tokens use a few sets of
 * logits in turn. Figures are medians, with the slowest tenth behind them. Penalties and DRY come
 * with a greedy choice after a prompt of 4096 tokens.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "llm.h"

#define SETS 4 /* of logits, used in turn */

static const struct filters {
	const char *name;
	struct llm_sampler_options opts;
} filters[] = {
	{ "greedy", { .temperature = 0, .top_p = 1 } },
	{ "no filter", { .temperature = 1, .top_p = 1 } },
	{ "top_k 40", { .temperature = 1, .top_k = 40, .top_p = 1 } },
	{ "min_p 0.05", { .temperature = 1, .top_p = 1, .min_p = 0.05f } },
	{ "top_p 0.95", { .temperature = 1, .top_p = 0.95f } },
	{ "top_p 0.5", { .temperature = 1, .top_p = 0.5f } },
	{ "top_k 20000", { .temperature = 1, .top_k = 20000, .top_p = 0.95f } },
	{ "llm-cli's", { .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f } },
	{ "typical 0.9", { .temperature = 1, .top_p = 1, .typical_p = 0.9f } },
	{ "top_n_sigma", { .temperature = 1, .top_p = 1, .top_n_sigma = 1 } },
	{ "XTC", { .temperature = 1, .top_p = 1, .xtc_probability = 1, .xtc_threshold = 0.1f } },
	{ "mirostat 1", { .temperature = 1, .top_p = 1, .mirostat = 1 } },
	{ "mirostat 2", { .temperature = 1, .top_p = 1, .mirostat = 2 } },
	{ "penalties", { .top_p = 1, .repeat_penalty = 1.1f, .frequency_penalty = 0.1f } },
	{ "DRY", { .top_p = 1, .dry = { .multiplier = 1 } } },
};
#define NR_FILTERS (sizeof(filters) / sizeof(filters[0]))

static const char *const shapes[] = { "peaked", "normal", "flat" };
#define NR_SHAPES 3

static struct bench {
	unsigned int n_vocab, n_tokens;
	uint64_t state;
	float *logits[SETS];
} b;

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec * 1e-3;
}

/* splitmix64, as a number in 0..1 */
static double uniform(void)
{
	uint64_t z = b.state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static double normal(void)
{
	return sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
}

static float logit(unsigned int shape)
{
	switch (shape) {
	case 0:
		return (float)(uniform() < 3e-4 ? 14 + 3 * normal() : 2 * normal());
	case 1:
		return (float)(3 * normal());
	default:
		return (float)(1e-3 * uniform());
	}
}

static int by_value(const void *a, const void *c)
{
	double x = *(const double *)a, y = *(const double *)c;

	return x < y ? -1 : x > y;
}

/* A long text that repeats some of its tokens. */
static void read_prompt(struct llm_sampler *s)
{
	for (int32_t i = 0; i < 4096; i++) {
		int32_t id = i % 7 * (i % 50) % (int32_t)b.n_vocab;

		llm_sampler_prompt(s, &id, 1);
	}
}

static void measure(const struct filters *f)
{
	double *us = calloc(b.n_tokens, sizeof(*us));
	struct llm_sampler *s;

	if (!us || llm_sampler_create(&f->opts, b.n_vocab, &s)) {
		fprintf(stderr, "bench_sampler: %s\n", us ? llm_error() : "out of memory");
		exit(1);
	}
	read_prompt(s);
	for (unsigned int i = 0; i < b.n_tokens; i++) {
		double start = now_us();

		llm_sample(s, b.logits[i % SETS]);
		us[i] = now_us() - start;
	}
	qsort(us, b.n_tokens, sizeof(*us), by_value);
	printf("  %8.1f (%8.1f)", us[b.n_tokens / 2], us[b.n_tokens * 9 / 10]);
	llm_sampler_free(s);
	free(us);
}

int main(int argc, char **argv)
{
	int c;

	b = (struct bench){ .n_vocab = 151936, .n_tokens = 201, .state = 1 };
	while ((c = getopt(argc, argv, "v:n:s:")) != -1) {
		if (c == 'v')
			b.n_vocab = (unsigned int)strtoul(optarg, NULL, 0);
		else if (c == 'n')
			b.n_tokens = (unsigned int)strtoul(optarg, NULL, 0);
		else if (c == 's')
			b.state = strtoull(optarg, NULL, 0);
	}
	if (optind < argc || !b.n_vocab || !b.n_tokens) {
		fprintf(stderr, "usage: bench_sampler [-v VOCABULARY] [-n TOKENS] [-s SEED]\n");
		return 2;
	}
	printf("%u tokens, seed %llu, us per token: median (slowest tenth)\n%-12s", b.n_vocab,
	       (unsigned long long)b.state, "");
	for (unsigned int shape = 0; shape < NR_SHAPES; shape++)
		printf("  %-19s", shapes[shape]);
	putchar('\n');
	for (unsigned int i = 0; i < SETS; i++)
		b.logits[i] = malloc(b.n_vocab * sizeof(float));
	for (unsigned int i = 0; i < NR_FILTERS; i++) {
		printf("%-12s", filters[i].name);
		for (unsigned int shape = 0; shape < NR_SHAPES; shape++) {
			for (unsigned int set = 0; set < SETS; set++)
				for (unsigned int t = 0; t < b.n_vocab; t++)
					b.logits[set][t] = logit(shape);
			measure(&filters[i]);
		}
		putchar('\n');
	}
	for (unsigned int i = 0; i < SETS; i++)
		free(b.logits[i]);
	return 0;
}
