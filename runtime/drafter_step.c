// SPDX-License-Identifier: MIT
/* A step of a drafter: growth, size, evaluation, and what is learned from the result. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "cpu_kernels.h"
#include "drafter.h"
#include "llm_fail.h"

/* Every so many steps something is drafted even if that seems to be in vain, to learn whether it
 * is. */
#define PROBE_STEPS 16
/* Nodes that a source of drafts adds at most. */
#define SOURCE_NODES LLM_MAX_TREE
/* Logits that reuse looks at in a step, at least of REUSE_ROWS rows. */
#define REUSE_LOGITS 131072u
#define REUSE_ROWS 8u

/* ---- before the pass ---- */

/* Whether drafts could be worth their time and that of a pass that is wider than a token's, if all
 * of them came true as often as the best kind of those that there are now. */
static bool is_worth_drafting(const struct llm_drafter *d, int32_t token, const double *costs)
{
	uint32_t kinds = retrieval_kinds(d->retrieval) | reuse_kinds(&d->reuse, token);
	double best = 0;

	for (uint32_t i = 0; i < TREE_KINDS; i++)
		if (kinds >> i & 1)
			best = fmax(best, d->acceptance.factors[i]);
	return widths_are_worth(&d->times, costs, best);
}

static void grow(struct llm_drafter *d)
{
	struct tree_growth *g = &d->growth;

	memcpy(g->factors, d->acceptance.factors, sizeof(g->factors));
	retrieval_grow(d->retrieval, g, SOURCE_NODES);
	if (d->reuses)
		reuse_grow(&d->reuse, g);
	tree_settle(g);
}

/* The index of the width of a tree's graph. */
static uint32_t width_of(uint32_t n)
{
	uint32_t i = 0;

	while (widths[i] < n)
		i++;
	return i;
}

static void draft(struct llm_drafter *d, int32_t token, uint32_t most)
{
	uint64_t start_ns = engine_now_ns();
	uint32_t sizes[WIDTHS];
	double costs[WIDTHS];
	bool drafts;

	for (uint32_t i = 0; i < WIDTHS; i++)
		sizes[i] = widths[i] < most ? widths[i] : most;
	widths_costs(&d->times, costs);
	tree_begin(&d->growth, token);
	drafts = d->o.width || (most > 1 && !isinf(costs[1]) &&
				(++d->spared >= PROBE_STEPS || is_worth_drafting(d, token, costs)));
	if (drafts)
		grow(d);
	if (d->o.width) {
		tree_pick(&d->growth, d->o.width < most ? d->o.width : most, &d->tree);
	} else {
		d->spared = drafts ? 0 : d->spared;
		tree_pick_best(&d->growth, sizes, costs, WIDTHS, &d->tree);
	}
	if (drafts && d->reuses)
		reuse_step(&d->reuse, &d->tree);
	d->width = width_of(d->tree.n);
	d->drafting_ns = engine_now_ns() - start_ns;
}

static int evaluate(struct llm_session *s, const struct token_tree *t)
{
	const struct llm_tree tree = { .n = t->n, .tokens = t->tokens, .parents = t->parents };

	return t->n > 1 ? llm_verify_tree(s, &tree) : llm_session_eval(s, t->tokens, 1);
}

int drafter_step(struct llm_drafter *d, struct llm_session *s, int32_t token, uint32_t most)
{
	uint64_t start_ns = engine_now_ns(), pass_ns;
	int err = drafter_read(d, &token, 1);

	if (err)
		return err;
	d->ahead = true;
	draft(d, token, most < LLM_MAX_TREE ? most : LLM_MAX_TREE);
	d->step = (struct llm_draft_step){
		.nodes = d->tree.n,
		.width = widths[d->width],
		.draft_ns = engine_now_ns() - start_ns,
	};
	pass_ns = llm_session_now_ns(s);
	err = evaluate(s, &d->tree);
	d->step.pass_ns = llm_session_now_ns(s) - pass_ns;
	d->ahead = err || d->tree.n > 1;
	if (!err)
		widths_add(&d->times, d->width, (double)d->step.pass_ns);
	return err;
}

/* ---- after it ---- */

static float greatest(const float *logits, unsigned int n)
{
	float max[LLM_MAX_TREE], all = -INFINITY;

	for (unsigned int i = 0; i < n; i += LLM_MAX_TREE * CPU_KERNELS_BLOCK) {
		unsigned int part = n - i < LLM_MAX_TREE * CPU_KERNELS_BLOCK
					    ? n - i
					    : LLM_MAX_TREE * CPU_KERNELS_BLOCK;

		cpu_kernels_get(NULL)->block_max(max, logits + i, part);
		for (unsigned int j = 0; j * CPU_KERNELS_BLOCK < part; j++)
			all = max[j] > all ? max[j] : all;
	}
	return all;
}

/*
 * How likely the model found each rejected token behind its parent, relative to the token that it
 * found likeliest there: this needs no sum over the vocabulary. Only a number of parents are looked
 * at; behind the others nothing is plausible.
 */
static void confide(const struct llm_drafter *d, const struct llm_session *s, uint64_t path,
		    double *confidence)
{
	const struct token_tree *t = &d->tree;
	unsigned int n_vocab = d->engine->info.n_vocab;
	unsigned int rows =
		REUSE_LOGITS / n_vocab > REUSE_ROWS ? REUSE_LOGITS / n_vocab : REUSE_ROWS;
	float max[TREE_MAX];
	uint64_t known = 0;

	for (uint32_t i = 1; i < t->n; i++) {
		uint32_t parent = t->parents[i];
		const float *logits = llm_tree_logits(s, parent);

		confidence[i] = 0;
		if (path >> i & 1)
			continue;
		if (!(known >> parent & 1)) {
			if (!rows)
				continue;
			rows--;
			max[parent] = greatest(logits, n_vocab);
			known |= 1ull << parent;
		}
		confidence[i] = exp((double)(logits[t->tokens[i]] - max[parent]));
	}
}

static void keep_rejected(struct llm_drafter *d, const struct llm_session *s, const uint8_t *path,
			  uint32_t n)
{
	double confidence[TREE_MAX];

	confide(d, s, d->tree.ancestors[path[n - 1]], confidence);
	d->stats.reused += reuse_keep(&d->reuse, &d->tree, path, n, confidence);
}

static int learn(struct llm_drafter *d, const uint8_t *path, uint32_t n, int32_t next)
{
	int32_t tokens[TREE_MAX];

	for (uint32_t i = 1; i < n; i++)
		tokens[i - 1] = d->tree.tokens[path[i]];
	tokens[n - 1] = next;
	acceptance_learn(&d->acceptance, &d->growth, tokens, n);
	return retrieval_read(d->retrieval, tokens, n - 1);
}

static void count(struct llm_drafter *d)
{
	d->stats.steps++;
	d->stats.trees += d->step.nodes > 1;
	d->stats.nodes += d->step.nodes;
	d->stats.tokens += d->step.tokens;
	d->stats.draft_ns += d->step.draft_ns;
	if (d->o.step)
		d->o.step(d->o.ud, &d->step);
}

int drafter_keep(struct llm_drafter *d, struct llm_session *s, const uint8_t *path, uint32_t n,
		 int32_t next)
{
	uint64_t start_ns = engine_now_ns(), keep_ns, kept_ns;
	int err = 0;

	if (d->reuses && d->tree.n > 1)
		keep_rejected(d, s, path, n);
	/* First: the session has the tokens that were given, whatever is learned of them. */
	keep_ns = engine_now_ns();
	if (d->tree.n > 1)
		err = llm_tree_keep(s, path, n);
	kept_ns = engine_now_ns();
	d->ahead = err;
	if (!err)
		err = learn(d, path, n, next);
	d->step.tokens = n;
	d->step.draft_ns += engine_now_ns() - kept_ns + keep_ns - start_ns;
	if (!err)
		count(d);
	/* The virtual clock has no time of the host. */
	if (!err && d->tree.n > 1 && !d->engine->soc)
		widths_add_drafting(&d->times, (double)(d->drafting_ns + keep_ns - start_ns));
	return err;
}
