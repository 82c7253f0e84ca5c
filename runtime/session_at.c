// SPDX-License-Identifier: MIT
/* Evaluation with the best candidates behind chosen tokens. */
#include <errno.h>
#include <stdlib.h>

#include "engine.h"
#include "llm_fail.h"

/* Who wants candidates of the first nr tokens that logits are computed of. */
struct wanted {
	size_t nr;
	void (*fn)(void *ud, size_t i, const struct llm_candidate *best);
	void *ud;
};

static void pass_on(void *ud, size_t i, const struct llm_candidate *best)
{
	const struct wanted *w = ud;

	if (i < w->nr)
		w->fn(w->ud, i, best);
}

static int check_at(const struct llm_session *s, size_t n, const size_t *at, size_t nr_at,
		    unsigned int k)
{
	unsigned int n_vocab = s->engine->info.n_vocab,
		     most = n_vocab < LLM_MAX_CANDIDATES ? n_vocab : LLM_MAX_CANDIDATES;

	if (!k || k > most)
		return llm_fail(-EINVAL, "%u candidates for each token; give 1 to %u", k, most);
	for (size_t i = 0; i < nr_at; i++)
		if (at[i] >= n || (i && at[i] <= at[i - 1]))
			return llm_fail(-EINVAL,
					"candidates of token %zu of %zu: positions must "
					"rise and be below the number of tokens",
					at[i], n);
	return 0;
}

/* The positions, and the last token's if it is not one: the session's logits are its. */
static uint32_t *rows_of(size_t n, const size_t *at, size_t nr_at, uint32_t *nr)
{
	uint32_t *rows = malloc((nr_at + 1) * sizeof(*rows));

	*nr = (uint32_t)nr_at;
	for (size_t i = 0; rows && i < nr_at; i++)
		rows[i] = (uint32_t)at[i];
	if (rows && (!nr_at || at[nr_at - 1] != n - 1))
		rows[(*nr)++] = (uint32_t)(n - 1);
	return rows;
}

/* Of @n tokens: placement npu may compute the last layer for them alone. */
static int want_memory(struct llm_session *s, size_t n)
{
	if (s->engine->info.choices.placement == LLM_PLACE_NPU)
		return lane_memory_want_chosen(&s->memory, n);
	return lane_memory_want_all(&s->memory);
}

int llm_session_eval_at(struct llm_session *session, const int32_t *ids, size_t n, const size_t *at,
			size_t nr_at, unsigned int k,
			void (*fn)(void *ud, size_t i, const struct llm_candidate *best), void *ud)
{
	struct wanted wanted = { .nr = nr_at, .fn = fn, .ud = ud };
	struct pass pass = {
		.ids = ids,
		.n = (unsigned int)n,
		.all = true,
		.k = k,
		.best = pass_on,
		.ud = &wanted,
	};
	int err = session_check(session, ids, n);
	uint32_t *rows;

	err = err ? err : check_at(session, n, at, nr_at, k);
	if (!err && !session->engine->dry_run)
		err = want_memory(session, nr_at + 1);
	if (err)
		return err;
	pass.at = rows = rows_of(n, at, nr_at, &pass.nr_at);
	err = rows ? session_run(session, &pass)
		   : llm_fail(-ENOMEM, "no memory for %zu positions", nr_at);
	free(rows);
	if (!err)
		session->stats.at.positions += nr_at;
	return err;
}
