// SPDX-License-Identifier: MIT
/* Drafters: their life, their history, and what they learn from prompts. */
#include "drafter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "checksum.h"
#include "llm_fail.h"

/* Tokens that a drafter remembers; at the next prompt after that it begins anew. */
#define MAX_CONTEXT 131072
/* Its automaton has memory for so many, and grows beyond. */
#define USUAL_CONTEXT 8192
/* A match of one token is seldom right by itself, but its kind learns that. */
#define MIN_MATCH 1
/* Candidates of a position. More are seldom right. */
#define CANDIDATES 4
/* So many positions of a token in a prompt have candidates at most, the last ones; */
#define TOKEN_POSITIONS 2
/* and of a prompt one in POSITION_SHARE at most, and so many that what comes before the output
 * matrix and behind it is CALIBRATION_SHARE of the prompt's work; but FEW_POSITIONS always. */
#define POSITION_SHARE 8
#define CALIBRATION_SHARE 0.01
#define FEW_POSITIONS 63
/* With the last token, which has logits anyway, full blocks of LANE_LOGIT_ROWS. */
#define POSITION_BLOCK 64
/* To find the best of logits takes as long as so many of a layer's multiply-accumulates for each;
 * measured with AVX-512. */
#define LOGIT_MACS 128
/* Of the best token's probability: less is not plausible. */
#define PLAUSIBLE 0.1
/* Tokens of a step's draft beyond which segments are dropped: of 0 to 64, that with which tokens
 * came soonest, or nearly so, on both modelled phones (docs/coordgen.md). */
#define LONG_DRAFT 16
/*
 * The first factors of kinds of guesses, of the embedded model's answers to tasks. Those that such
 * answers have with segments of LONG_DRAFT were no better over all texts and phones. Matches
 * of 1, 2, 3-4, 5-8 and more tokens in the context, and in the history; calibrated candidates;
 * parts of rejected drafts that begin, that continue the last token, and their next tokens.
 */
static const double first_factors[TREE_KINDS] = { 0.64, 0.77, 0.92, 0.98, 1,	0.55, 0.5,
						  0.6,	0.6,  0.9,  0.75, 0.06, 0.5,  0.75 };
/* A prompt from which on a row's time is known. */
#define LONG_PROMPT 32

/* ---- life ---- */

static bool drafts_from_history(enum llm_draft draft)
{
	return draft != LLM_DRAFT_PLD;
}

static int drafter_retrieval(struct llm_drafter *d)
{
	const struct retrieval_options o = {
		.history = drafts_from_history(d->o.draft) ? d->history : NULL,
		.context = USUAL_CONTEXT,
		.min_match = MIN_MATCH,
		.max_draft = LLM_MAX_TREE - 1,
		.min_confidence = RETRIEVAL_LEAST,
	};

	struct retrieval *made;
	int err = retrieval_create(&o, &made);

	if (err)
		return err;
	retrieval_free(d->retrieval);
	d->retrieval = made;
	d->ahead = false;
	calibrated_free(d->calibrated);
	d->calibrated = NULL;
	return 0;
}

/* A hash of the pieces, which tells whether two models' ids mean the same. */
static uint64_t vocabulary_hash(const struct llm_engine *e)
{
	struct llm_checksum c;
	char text[256];

	llm_checksum_begin(&c);
	for (unsigned int id = 0; id < e->info.n_vocab; id++) {
		int n = llm_token_text(e, (int32_t)id, text, sizeof(text));
		size_t kept = n < 0 ? 0 : n < (int)sizeof(text) ? (size_t)n : sizeof(text);

		llm_checksum_add(&c, &n, sizeof(n));
		llm_checksum_add(&c, text, kept);
	}
	return llm_checksum_end(&c);
}

static int read_answer(void *ud, const int32_t *ids, size_t n)
{
	struct automaton *history = ud;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++)
		err = automaton_append(history, ids[i]);
	return err ? err : automaton_append(history, AUTOMATON_BREAK);
}

static int history_load(struct llm_drafter *d)
{
	const struct llm_engine *e = d->engine;
	int err = history_open(d->o.history, vocabulary_hash(e), e->info.n_vocab, HISTORY_TOKENS,
			       &d->store);

	if (!err)
		err = automaton_create(HISTORY_TOKENS, &d->history);
	return err ? err : history_read(&d->store, read_answer, d->history);
}

/* From now on there is none; the error line says why. */
static void history_lose(struct llm_drafter *d)
{
	snprintf(d->stats.history_error, sizeof(d->stats.history_error), "%s", llm_error());
	d->stores = false;
}

static int drafter_check(const struct llm_engine *e, const struct llm_drafter_options *o)
{
	if (o->draft == LLM_DRAFT_NONE || o->draft > LLM_DRAFT_COORDGEN)
		return llm_fail(-EINVAL, "a drafter with draft %s: choose one that drafts",
				llm_choice_name(LLM_CHOICE_DRAFT, o->draft));
	if (o->width > LLM_MAX_TREE)
		return llm_fail(-EINVAL, "trees of %u nodes; at most %u are possible", o->width,
				LLM_MAX_TREE);
	if (e->dry_run)
		return llm_fail(-ENOTSUP, "a dry run has no tokens to draft");
	return engine_check_trees(e);
}

/* On the virtual clock each drafter begins anew: a figure is the same whatever ran before. */
static void begin_times(struct llm_drafter *d)
{
	double known[WIDTHS] = { 0 };

	for (uint32_t i = 0; i < WIDTHS && !d->engine->soc; i++)
		known[i] = atomic_load_explicit(&d->engine->widths_known[i], memory_order_relaxed);
	widths_begin(&d->times, known);
}

/* Leaves what is known to the next one. */
static void leave_times(struct llm_drafter *d)
{
	double known[WIDTHS];

	widths_known(&d->times, known);
	for (uint32_t i = 0; i < WIDTHS && known[0] > 0; i++)
		atomic_store_explicit(&d->engine->widths_known[i], known[i], memory_order_relaxed);
}

int llm_drafter_create(struct llm_engine *engine, const struct llm_drafter_options *opts,
		       struct llm_drafter **drafter)
{
	struct llm_drafter_options o = *opts;
	struct llm_drafter *d;
	int err;

	*drafter = NULL;
	if (o.draft == LLM_DRAFT_AUTO)
		o.draft = engine->info.choices.draft;
	err = drafter_check(engine, &o);
	if (err)
		return err;
	d = calloc(1, sizeof(*d));
	if (!d)
		return llm_fail(-ENOMEM, "no memory for a drafter");
	d->engine = engine;
	atomic_fetch_add(&engine->refs, 1);
	d->o = o;
	d->stats.draft = o.draft;
	d->calibrates = o.draft == LLM_DRAFT_CALIBRATED || o.draft == LLM_DRAFT_COORDGEN;
	d->reuses = o.draft == LLM_DRAFT_REUSE || o.draft == LLM_DRAFT_COORDGEN;
	d->stores = o.history;
	if (o.history && history_load(d)) {
		history_lose(d);
		automaton_free(d->history);
		d->history = NULL;
	}
	d->o.history = NULL;
	acceptance_begin(&d->acceptance, first_factors);
	begin_times(d);
	reuse_begin(&d->reuse, LONG_DRAFT, PLAUSIBLE);
	err = drafter_retrieval(d);
	if (err)
		llm_drafter_free(d);
	else
		*drafter = d;
	return err;
}

void llm_drafter_free(struct llm_drafter *d)
{
	if (!d)
		return;
	retrieval_free(d->retrieval);
	calibrated_free(d->calibrated);
	automaton_free(d->history);
	free(d->answer.ids);
	llm_engine_put(d->engine);
	free(d);
}

void llm_drafter_stats(const struct llm_drafter *d, struct llm_drafter_stats *stats)
{
	const struct automaton *context = retrieval_context(d->retrieval);

	*stats = d->stats;
	stats->context_tokens = automaton_tokens(context);
	stats->bytes = sizeof(*d) + automaton_bytes(context) + d->answer.room * sizeof(int32_t);
	if (d->calibrated)
		stats->bytes += calibrated_bytes(d->calibrated);
	if (!d->history)
		return;
	stats->history_tokens = automaton_tokens(d->history);
	stats->bytes += automaton_bytes(d->history);
}

/* ---- prompts ---- */

/* The candidates of some positions of a prompt. */
struct positions {
	size_t nr;
	size_t *at; /* [nr] */
	unsigned int k; /* of each: CANDIDATES, or the whole vocabulary */
	struct llm_candidate (*best)[CANDIDATES]; /* [nr][k] */
};

/* Ranks of positions, the lower the more they bring: how often the token comes again, below
 * TOKEN_POSITIONS, if it comes more than once; TOKEN_POSITIONS if not. */
#define RANK_NONE 254
#define RANK_CHOSEN 255

/*
 * Sets @rank [n]. Answers use the tokens that a prompt repeats, so those have candidates before
 * others do. A calibrated tree begins at a token's last position, or where a match ends. @times
 * [n_vocab]: 0. An unknown token, with which the prompt will be refused, is passed over.
 */
static void rank_positions(uint8_t *rank, const int32_t *prompt, size_t n, uint8_t *times,
			   unsigned int n_vocab)
{
	for (size_t i = n; i-- > 0;) {
		bool known = (uint32_t)prompt[i] < n_vocab;

		rank[i] =
			known && times[prompt[i]] < TOKEN_POSITIONS ? times[prompt[i]] : RANK_NONE;
		if (known && times[prompt[i]] < TOKEN_POSITIONS)
			times[prompt[i]]++;
	}
	for (size_t i = 0; i < n; i++)
		if (rank[i] == 0 && times[prompt[i]] == 1)
			rank[i] = TOKEN_POSITIONS;
	/* Its best token is chosen anyway. */
	rank[n - 1] = RANK_NONE;
}

/* How many positions of a prompt of @n tokens may have candidates. */
static size_t most_positions(const struct shape *s, size_t n)
{
	double layer = 0, most;
	uint64_t rows, cols;

	for (int op = 0; op < LLM_OP_HEAD; op++)
		if (llm_op_matmul(s, (enum llm_op)op, &rows, &cols))
			layer += (double)rows * (double)cols;
	most = CALIBRATION_SHARE * layer * s->layers / (layer + LOGIT_MACS * (double)s->vocab);
	most = (double)n * (most < 1.0 / POSITION_SHARE ? most : 1.0 / POSITION_SHARE);
	return most > FEW_POSITIONS ? ((size_t)most + 1) / POSITION_BLOCK * POSITION_BLOCK - 1
				    : FEW_POSITIONS;
}

/* Chooses the @left positions of the lowest ranks, and of one rank the last. */
static void choose_positions(struct positions *p, uint8_t *rank, size_t n, size_t left)
{
	for (unsigned int r = 0; r <= TOKEN_POSITIONS; r++)
		for (size_t i = n; i-- > 0 && left;)
			if (rank[i] == r) {
				rank[i] = RANK_CHOSEN;
				left--;
			}
	for (size_t i = 0; i < n; i++)
		if (rank[i] == RANK_CHOSEN)
			p->at[p->nr++] = i;
}

static int positions_init(struct positions *p, const struct llm_engine *e, const int32_t *prompt,
			  size_t n)
{
	uint8_t *times = calloc(e->info.n_vocab, 1), *rank = calloc(n, 1);
	int err = 0;

	*p = (struct positions){
		.at = calloc(n, sizeof(*p->at)),
		.k = e->info.n_vocab < CANDIDATES ? e->info.n_vocab : CANDIDATES,
	};
	if (times && rank && p->at) {
		rank_positions(rank, prompt, n, times, e->info.n_vocab);
		choose_positions(p, rank, n, most_positions(&e->shape, n));
	}
	p->best = calloc(p->nr + 1, sizeof(*p->best));
	if (!times || !rank || !p->at || !p->best)
		err = llm_fail(-ENOMEM, "no memory for %zu positions", n);
	free(times);
	free(rank);
	return err;
}

static void positions_fini(struct positions *p)
{
	free(p->at);
	free(p->best);
}

static void take_candidates(void *ud, size_t i, const struct llm_candidate *best)
{
	struct positions *p = ud;

	memcpy(p->best[i], best, p->k * sizeof(*best));
}

/* Makes the calibrated context the same as that of retrieval. */
static int extend_calibrated(struct llm_drafter *d)
{
	const struct automaton *context = retrieval_context(d->retrieval);
	size_t from = d->calibrated ? calibrated_tokens(d->calibrated) : 0;
	size_t n = automaton_tokens(context) - from;
	int32_t *ids = malloc(n * sizeof(*ids));
	int err;

	if (!ids)
		return llm_fail(-ENOMEM, "no memory for a prompt of %zu tokens", n);
	for (size_t i = 0; i < n; i++)
		ids[i] = automaton_token(context, from + i);
	err = d->calibrated ? calibrated_extend(d->calibrated, ids, n)
			    : calibrated_create(ids, n, CANDIDATES, &d->calibrated);
	free(ids);
	return err;
}

/* After a prompt of @n tokens, which retrieval has read. */
static int store_candidates(struct llm_drafter *d, const struct positions *p, size_t n)
{
	size_t first = automaton_tokens(retrieval_context(d->retrieval)) - n;
	int err = extend_calibrated(d);

	for (size_t i = 0; i < p->nr && !err; i++) {
		int32_t ids[CANDIDATES];
		float chance[CANDIDATES];

		for (unsigned int j = 0; j < p->k; j++) {
			ids[j] = p->best[i][j].id;
			chance[j] = p->best[i][j].p;
		}
		err = calibrated_add(d->calibrated, first + p->at[i], ids, chance, p->k);
	}
	retrieval_calibrate(d->retrieval, d->calibrated);
	d->stats.calibrated += p->nr;
	return err;
}

int drafter_read(struct llm_drafter *d, const int32_t *ids, size_t n)
{
	const struct automaton *context = retrieval_context(d->retrieval);
	size_t known =
		d->ahead && n && automaton_token(context, automaton_tokens(context) - 1) == ids[0];

	d->ahead = false;
	return retrieval_read(d->retrieval, ids + known, n - known);
}

static int eval_calibrating(struct llm_drafter *d, struct llm_session *s, const int32_t *prompt,
			    size_t n)
{
	struct positions p;
	uint64_t start_ns;
	int err = positions_init(&p, d->engine, prompt, n);

	if (!err)
		err = llm_session_eval_at(s, prompt, n, p.at, p.nr, p.k, take_candidates, &p);
	if (!err)
		err = drafter_read(d, prompt, n);
	start_ns = engine_now_ns();
	if (!err)
		err = store_candidates(d, &p, n);
	d->stats.store_ns += engine_now_ns() - start_ns;
	positions_fini(&p);
	return err;
}

static int eval_prompt(struct llm_drafter *d, struct llm_session *s, const int32_t *prompt,
		       size_t n)
{
	int err = 0;

	if (automaton_tokens(retrieval_context(d->retrieval)) > MAX_CONTEXT)
		err = drafter_retrieval(d);
	if (!err && d->calibrates && n > 1)
		return eval_calibrating(d, s, prompt, n);
	if (!err)
		err = llm_session_eval(s, prompt, n);
	return err ? err : drafter_read(d, prompt, n);
}

static int learn_prompt(struct llm_drafter *d, struct llm_session *s, const int32_t *prompt,
			size_t n)
{
	struct llm_session_stats before, after;
	int err;

	llm_session_stats(s, &before);
	err = eval_prompt(d, s, prompt, n);
	if (err)
		return err;
	llm_session_stats(s, &after);
	d->stats.layer_ns += after.at.layer_ns - before.at.layer_ns;
	d->stats.head_ns += after.at.head_ns - before.at.head_ns;
	d->stats.reduce_ns += after.at.reduce_ns - before.at.reduce_ns;
	if (n >= LONG_PROMPT)
		d->times.row_ns = (double)(after.prefill_ns - before.prefill_ns) / (double)n;
	return 0;
}

int drafter_prompt(struct llm_drafter *d, struct llm_session *s, const int32_t *prompt, size_t n)
{
	int err;

	if (d->engine != s->engine)
		return llm_fail(-EINVAL, "the drafter is of another engine");
	d->answer.n = 0;
	/* Before the prompt: a width's first pass counts, so it must find its graph, and making
	 * graphs leaves fewer weights in the caches for the first tokens. */
	err = llm_session_prepare_tree(s, d->o.width ? d->o.width : LLM_MAX_TREE);
	return !err && n ? learn_prompt(d, s, prompt, n) : err;
}

/* ---- answers ---- */

int drafter_answer(struct llm_drafter *d, int32_t token)
{
	struct drafter_answer *a = &d->answer;

	if (a->n == a->room) {
		size_t room = a->room ? 2 * a->room : 256;
		int32_t *ids = realloc(a->ids, room * sizeof(*ids));

		if (!ids)
			return llm_fail(-ENOMEM, "no memory for an answer of %zu tokens", room);
		a->ids = ids;
		a->room = room;
	}
	a->ids[a->n++] = token;
	return 0;
}

void drafter_end(struct llm_drafter *d)
{
	leave_times(d);
	if (!d->stores || !d->answer.n)
		return;
	if (history_append(&d->store, d->answer.ids, d->answer.n) ||
	    read_answer(d->history, d->answer.ids, d->answer.n))
		history_lose(d);
}
