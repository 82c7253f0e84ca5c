// SPDX-License-Identifier: MIT
#include "retrieval.h"

#include <errno.h>
#include <stdlib.h>

#include "llm_fail.h"

struct retrieval {
	struct retrieval_options o;
	struct automaton *context;
	struct automaton_match history; /* of the session in o.history */
};

int retrieval_create(const struct retrieval_options *o, struct retrieval **retrieval)
{
	struct retrieval *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return llm_fail(-ENOMEM, "no memory for drafts");
	r->o = *o;
	r->o.min_match += !r->o.min_match;
	err = automaton_create(o->context, &r->context);
	if (err)
		free(r);
	else
		*retrieval = r;
	return err;
}

void retrieval_free(struct retrieval *r)
{
	if (!r)
		return;
	automaton_free(r->context);
	free(r);
}

int retrieval_read(struct retrieval *r, const int32_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int err = automaton_append(r->context, ids[i]);

		if (err)
			return err;
		if (r->o.history)
			automaton_follow(r->o.history, &r->history, ids[i]);
	}
	return 0;
}

double retrieval_confidence(uint32_t match, uint32_t n)
{
	return (match + 1.0) / (match + 1.0 + n);
}

/* How many tokens a match may draft. */
static size_t most(const struct retrieval_options *o, uint32_t match)
{
	uint32_t n = 0;

	while (n < o->max_draft && retrieval_confidence(match, n + 1) >= o->min_confidence)
		n++;
	return n;
}

static size_t draft_from(const struct retrieval *r, enum retrieval_source source, int32_t *draft,
			 struct retrieval_found *found)
{
	const struct automaton *a = source == RETRIEVAL_CONTEXT ? r->context : r->o.history;
	struct automaton_match m = source == RETRIEVAL_CONTEXT ? automaton_repeat(a) : r->history;
	size_t n;

	if (m.length < r->o.min_match)
		return 0;
	n = automaton_copy(a, m, draft, most(&r->o, m.length));
	if (n)
		*found = (struct retrieval_found){ source, m.length,
						   retrieval_confidence(m.length, (uint32_t)n) };
	return n;
}

size_t retrieval_draft(const struct retrieval *r, int32_t *draft, struct retrieval_found *found)
{
	bool past = r->history.length > automaton_repeat(r->context).length;
	enum retrieval_source first = past ? RETRIEVAL_HISTORY : RETRIEVAL_CONTEXT;
	size_t n;

	*found = (struct retrieval_found){ 0 };
	n = draft_from(r, first, draft, found);
	if (n)
		return n;
	return draft_from(r, past ? RETRIEVAL_CONTEXT : RETRIEVAL_HISTORY, draft, found);
}

const struct automaton *retrieval_context(const struct retrieval *r)
{
	return r->context;
}

struct automaton_match retrieval_history(const struct retrieval *r)
{
	return r->history;
}
