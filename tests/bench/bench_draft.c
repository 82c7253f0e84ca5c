// SPDX-License-Identifier: MIT
/*
 * Drafting: the time to append a token to a suffix automaton, to follow another text in it, and for
 * a step with a tree of 64 nodes, and memory, by the length of the text. Steps have a history of
 * the same length.
 *
 *	bench_draft [-v VOCABULARY (151936)] [-r REPEATED, share of the text (0.5)] [-s SEED (1)]
 *
 * Then the same of calibrated trees, with 4 candidates for each token of the context.
 *
 * Ids are distributed as words are (Zipf); stretches of 4 to 32 tokens are repeated from earlier
 * ones. Beside it a scan: the search for the last 3 tokens, from the end of the text on, as prompt
 * lookup does it. All figures are of this process's CPU time.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "retrieval.h"

#define DRAFT 64
#define NGRAM 3
#define STEPS 2000 /* trees per figure, which follow one appended token each */

static struct bench {
	unsigned int n_vocab;
	double repeated;
	uint64_t state;
	int32_t *ids;
	uint32_t sink; /* results, so that they are computed */
} b;

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* splitmix64, as a number in 0..1 */
static double uniform(void)
{
	uint64_t z = b.state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static void make_text(size_t n)
{
	size_t i = 0;

	while (i < n) {
		size_t stretch = 4 + (size_t)(uniform() * 29),
		       from = (size_t)(uniform() * (double)i);
		int repeat = i > 100 && uniform() < b.repeated;

		for (size_t j = 0; j < stretch && i < n; j++, i++)
			b.ids[i] = repeat ? b.ids[from + j]
					  : (int32_t)(pow((double)b.n_vocab, uniform()) - 1);
	}
}

/* Prompt lookup's: the latest end before the text's of its last NGRAM tokens. */
static uint32_t scan(size_t n)
{
	for (size_t end = n - 1; end-- > NGRAM;) {
		unsigned int i = 0;

		while (i < NGRAM && b.ids[end - i] == b.ids[n - 1 - i])
			i++;
		if (i == NGRAM)
			return (uint32_t)end;
	}
	return 0;
}

static struct automaton *build(size_t n)
{
	struct automaton *a;

	if (automaton_create(n + STEPS, &a))
		exit(1);
	for (size_t i = 0; i < n; i++)
		if (automaton_append(a, b.ids[i]))
			exit(1);
	return a;
}

static struct retrieval *start(const struct automaton *history, size_t n)
{
	const struct retrieval_options o = {
		.history = history,
		.context = n + STEPS,
		.max_draft = DRAFT,
	};
	struct retrieval *r;

	if (retrieval_create(&o, &r) || retrieval_read(r, b.ids, n))
		exit(1);
	return r;
}

/* Steps as in decoding behind @n tokens: read one, and grow a tree behind it. */
static double tree_ns(struct retrieval *r, size_t n, double *nodes)
{
	static struct tree_growth g;
	static struct token_tree t;
	double begin = now_ns();
	uint32_t sum = 0;

	for (size_t i = n; i < n + STEPS; i++) {
		retrieval_read(r, &b.ids[i], 1);
		tree_begin(&g, b.ids[i]);
		retrieval_grow(r, &g, TREE_MAX);
		tree_pick(&g, TREE_MAX, &t);
		sum += t.n;
	}
	*nodes = (double)sum / STEPS;
	return (now_ns() - begin) / STEPS;
}

static double scan_ns(size_t n)
{
	double begin = now_ns();

	for (size_t i = n; i < n + STEPS; i++)
		b.sink += scan(i + 1);
	return (now_ns() - begin) / STEPS;
}

static double follow_ns(const struct automaton *a, size_t n)
{
	struct automaton_match m = { 0 };
	double begin = now_ns();

	for (size_t i = n; i < n + STEPS; i++)
		automaton_follow(a, &m, b.ids[i]);
	b.sink += m.length;
	return (now_ns() - begin) / STEPS;
}

#define CANDIDATES 4

/* Candidates as of a model that has learned from the text: what follows, and others. */
static struct calibrated *calibrate(size_t n)
{
	static const float p[CANDIDATES] = { 0.5f, 0.2f, 0.1f, 0.05f };
	struct calibrated *c;

	if (calibrated_create(b.ids, n, CANDIDATES, &c))
		exit(1);
	for (size_t i = 0; i < n; i++) {
		int32_t ids[CANDIDATES] = { b.ids[i + 1] };

		for (int k = 1; k < CANDIDATES; k++)
			ids[k] = b.ids[(size_t)(uniform() * (double)n)];
		calibrated_add(c, i, ids, p, CANDIDATES);
	}
	return c;
}

static double calibrated_ns(const struct calibrated *c, size_t n, double *nodes)
{
	static struct tree_growth g;
	const struct calibrated_limits limits = { TREE_MAX, RETRIEVAL_LEAST };
	double begin = now_ns();
	uint32_t sum = 0;

	for (size_t i = n; i < n + STEPS; i++) {
		size_t position = calibrated_begin(c, b.ids[i], CALIBRATED_NONE);

		tree_begin(&g, b.ids[i]);
		sum += position == CALIBRATED_NONE ? 0
						   : calibrated_grow(c, position, &g, 0, &limits);
	}
	*nodes = (double)sum / STEPS;
	return (now_ns() - begin) / STEPS;
}

static void measure_calibrated(size_t n)
{
	double begin, made, grown, nodes;
	struct calibrated *c;

	make_text(n + STEPS);
	begin = now_ns();
	c = calibrate(n);
	made = (now_ns() - begin) / (double)n;
	grown = calibrated_ns(c, n, &nodes);
	printf("%8zu %8.0f %8.0f %8.1f %8.1f\n", n, made, grown, nodes,
	       (double)calibrated_bytes(c) / (double)n);
	calibrated_free(c);
}

static void measure(size_t n)
{
	double begin, append, follow, tree, nodes, scanned;
	struct retrieval *r;
	struct automaton *a;

	make_text(n + STEPS);
	begin = now_ns();
	a = build(n);
	append = (now_ns() - begin) / (double)n;
	follow = follow_ns(a, n);
	r = start(a, n);
	tree = tree_ns(r, n, &nodes);
	retrieval_free(r);
	scanned = scan_ns(n);
	printf("%8zu %8.0f %8.0f %8.0f %8.1f %8.0f %10.1f %8.2f %8.1f\n", n, append, follow, tree,
	       nodes, scanned, scanned / tree, (double)automaton_states(a) / (double)n,
	       (double)automaton_bytes(a) / (double)n);
	automaton_free(a);
}

int main(int argc, char **argv)
{
	int c;

	b = (struct bench){ .n_vocab = 151936, .repeated = 0.5, .state = 1 };
	while ((c = getopt(argc, argv, "v:r:s:")) != -1) {
		if (c == 'v')
			b.n_vocab = (unsigned int)strtoul(optarg, NULL, 0);
		else if (c == 'r')
			b.repeated = strtod(optarg, NULL);
		else if (c == 's')
			b.state = strtoull(optarg, NULL, 0);
	}
	if (optind < argc || !b.n_vocab) {
		fprintf(stderr, "usage: bench_draft [-v VOCABULARY] [-r REPEATED] [-s SEED]\n");
		return 2;
	}
	b.ids = malloc(((128 << 10) + STEPS) * sizeof(*b.ids));
	printf("%8s %8s %8s %8s %8s %8s %10s %8s %8s\n", "text", "append", "follow", "tree",
	       "nodes", "scan", "scan/tree", "states", "bytes");
	printf("%8s %8s %8s %8s %8s %8s %10s %8s %8s\n", "tokens", "ns", "ns", "ns", "", "ns", "",
	       "a token", "a token");
	for (size_t n = 8 << 10; n <= 128 << 10; n *= 4)
		measure(n);
	printf("\n%8s %8s %8s %8s %8s\n%8s %8s %8s %8s %8s\n", "context", "made", "tree", "nodes",
	       "bytes", "tokens", "ns/token", "ns", "", "a token");
	for (size_t n = 8 << 10; n <= 128 << 10; n *= 4)
		measure_calibrated(n);
	free(b.ids);
	return b.sink == UINT32_MAX;
}
