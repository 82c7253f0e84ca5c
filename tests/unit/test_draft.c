// SPDX-License-Identifier: MIT
/*
 * All that drafts are made of, together, with a function in place of the model: the tokens are
 * those of plain decoding whatever is drafted, and rows of the cache are where they belong. SEED=N
 * repeats a run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "npu_random.h"
#include "retrieval.h"
#include "reuse.h"
#include "tree_drafts.h"

#define PROMPT 80
#define ANSWER 120
#define MAX_TEXT (PROMPT + ANSWER + TREE_MAX)

struct session {
	int32_t ids[MAX_TEXT], cache[MAX_TEXT]; /* cache: the token of each row */
	uint32_t n; /* the last token is not in the cache yet */
	uint32_t salt; /* of the model */
	struct retrieval *retrieval;
	struct calibrated *calibrated;
	struct reuse reuse;
	bool reuses;
	uint32_t steps, tokens;
};

/*
 * The model mostly says what its prompt says behind the last two tokens; else what a hash of them
 * says.
 */
static int32_t model_next(const int32_t *ids, uint32_t n, uint32_t salt)
{
	uint32_t h = salt;

	for (uint32_t i = 1; i <= 4 && i <= n; i++)
		h = (h ^ (uint32_t)ids[n - i]) * 2654435761u;
	for (uint32_t i = 1; (h >> 8) % 6 && n >= 2 && i + 1 < PROMPT && i + 1 < n; i++)
		if (ids[i] == ids[n - 1] && ids[i - 1] == ids[n - 2])
			return ids[i + 1];
	return (int32_t)((h >> 16) % 20);
}

static void make_prompt(struct session *s)
{
	for (s->n = 0; s->n < PROMPT; s->n++)
		s->ids[s->n] = s->n > 20 && random_in(0, 3) ? s->ids[s->n - 17]
							    : (int32_t)random_in(0, 19);
	memcpy(s->cache, s->ids, sizeof(s->ids));
}

/* What the model expects behind each of the prompt's tokens, and a guess. */
static void calibrate(struct session *s)
{
	assert_int_equal(calibrated_create(s->ids, PROMPT, 2, &s->calibrated), 0);
	for (uint32_t i = 0; i < PROMPT; i++) {
		int32_t ids[] = { model_next(s->ids, i + 1, s->salt), (int32_t)random_in(0, 19) };

		assert_int_equal(calibrated_add(s->calibrated, i, ids, (float[]){ 0.6f, 0.2f }, 2),
				 0);
	}
	retrieval_calibrate(s->retrieval, s->calibrated);
}

/* What the model puts behind each node, and how it likes each. */
static void evaluate(struct session *s, const struct token_tree *t, int32_t *next,
		     double *confidence)
{
	for (uint32_t i = 0; i < t->n; i++) {
		int32_t ids[MAX_TEXT];

		memcpy(ids, s->ids, s->n * sizeof(*ids));
		for (uint32_t j = i; j; j = t->parents[j])
			ids[s->n - 1 + t->depths[j]] = t->tokens[j];
		next[i] = model_next(ids, s->n + t->depths[i], s->salt);
		s->cache[s->n - 1 + i] = t->tokens[i];
		confidence[i] =
			i && next[t->parents[i]] == t->tokens[i] ? 0.9 : random_in(0, 9) / 20.0;
	}
}

static void draft(struct session *s, struct token_tree *t)
{
	static const uint32_t sizes[] = { 1, 8, 16, 32, 64 };
	static const double costs[] = { 1, 1.2, 1.5, 2, 3 };
	static struct tree_growth g;

	tree_begin(&g, s->ids[s->n - 1]);
	retrieval_grow(s->retrieval, &g, random_in(1, TREE_MAX));
	if (s->reuses)
		reuse_grow(&s->reuse, &g);
	if (random_in(0, 1))
		tree_pick(&g, sizes[random_in(0, 4)], t);
	else
		tree_pick_best(&g, sizes, costs, 5, t);
	if (s->reuses)
		reuse_step(&s->reuse, t);
}

static void accept(struct session *s, const struct token_tree *t, const int32_t *next,
		   const uint8_t *path, uint32_t n)
{
	struct tree_move moves[TREE_MAX];
	uint32_t nr = token_tree_moves(path, n, moves), before = s->n;
	int32_t *rows = s->cache + s->n - 1;

	for (uint32_t i = 0; i < nr; i++)
		memmove(rows + moves[i].to, rows + moves[i].from, moves[i].rows * sizeof(*rows));
	for (uint32_t i = 1; i < n; i++)
		s->ids[s->n++] = t->tokens[path[i]];
	s->ids[s->n++] = next[path[n - 1]];
	assert_memory_equal(s->cache, s->ids, (s->n - 1) * sizeof(*s->ids));
	assert_int_equal(retrieval_read(s->retrieval, s->ids + before, n), 0);
	s->steps++;
	s->tokens += n;
}

static void generate(struct session *s)
{
	assert_int_equal(retrieval_read(s->retrieval, s->ids, s->n), 0);
	s->ids[s->n] = model_next(s->ids, s->n, s->salt);
	assert_int_equal(retrieval_read(s->retrieval, s->ids + s->n++, 1), 0);
	while (s->n < PROMPT + ANSWER) {
		double confidence[TREE_MAX];
		int32_t next[TREE_MAX];
		uint8_t path[TREE_MAX];
		struct token_tree t;
		uint32_t n;

		draft(s, &t);
		evaluate(s, &t, next, confidence);
		n = accept_path(&t, next, path);
		if (s->reuses)
			reuse_keep(&s->reuse, &t, path, n, confidence);
		accept(s, &t, next, path, n);
	}
}

static void check_plain(const struct session *s)
{
	for (uint32_t i = PROMPT; i < s->n; i++)
		assert_int_equal(s->ids[i], model_next(s->ids, i, s->salt));
}

static void remember(struct automaton *history, const struct session *s)
{
	for (uint32_t i = PROMPT; i < s->n; i++)
		assert_int_equal(automaton_append(history, s->ids[i]), 0);
	assert_int_equal(automaton_append(history, AUTOMATON_BREAK), 0);
}

/* Bits of @with: history, calibration, reuse. Returns tokens for each step. */
static double run_sessions(unsigned int with)
{
	uint32_t steps = 0, tokens = 0, salt = random_u32();
	struct automaton *history;

	assert_int_equal(automaton_create(0, &history), 0);
	for (int round = 0; round < 40; round++) {
		static struct session s;
		const struct retrieval_options o = {
			.history = with & 1 ? history : NULL,
			.context = random_in(0, MAX_TEXT),
			.min_match = random_in(0, 2),
			.max_draft = random_in(1, TREE_MAX),
			.min_confidence = random_in(0, 2) / 10.0,
		};

		s = (struct session){ .salt = salt, .reuses = with & 4 };
		reuse_begin(&s.reuse, random_in(0, TREE_MAX), 0.2);
		assert_int_equal(retrieval_create(&o, &s.retrieval), 0);
		make_prompt(&s);
		if (with & 2)
			calibrate(&s);
		generate(&s);
		check_plain(&s);
		remember(history, &s);
		steps += s.steps;
		tokens += s.tokens;
		retrieval_free(s.retrieval);
		calibrated_free(s.calibrated);
	}
	automaton_free(history);
	return (double)tokens / steps;
}

static void tokens_are_those_of_plain_decoding(void **state)
{
	random_begin("sessions");
	for (unsigned int with = 0; with < 8; with++) {
		double tokens = run_sessions(with);

		print_message("%s%s%s%s: %.2f tokens for each step\n", "context",
			      with & 1 ? ", history" : "", with & 2 ? ", calibrated" : "",
			      with & 4 ? ", reuse" : "", tokens);
		assert_true(tokens > 1.1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens_are_those_of_plain_decoding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
