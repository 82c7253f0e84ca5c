// SPDX-License-Identifier: MIT
#include "matcher.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"
#include "states.h"
#include "trie.h"

struct matcher {
	struct grammar *g;
	const struct trie *trie;
	struct states states;
	uint32_t state;
	bool ended; /* by an end token, or by one that was not allowed */
	uint8_t *allowed; /* [pieces->n], of a walk */
	uint32_t *walk; /* [max_depth + 1]: the states on the way to a node */
};

int matcher_create(struct grammar *grammar, const struct trie *trie, struct matcher **matcher)
{
	struct matcher *m;

	*matcher = NULL;
	if (!trie->pieces->nr_ends)
		return llm_fail(-EINVAL, "the vocabulary has no end token, so no text of a "
					 "grammar could end");
	m = calloc(1, sizeof(*m));
	if (!m)
		return llm_fail(-ENOMEM, "no memory for the state of a grammar");
	m->trie = trie;
	m->allowed = malloc(trie->pieces->n);
	m->walk = malloc((trie->max_depth + 1ul) * sizeof(*m->walk));
	if (states_init(&m->states, grammar) || !m->allowed || !m->walk) {
		matcher_free(m);
		return llm_fail(-ENOMEM, "no memory for the state of a grammar");
	}
	m->g = grammar;
	matcher_reset(m);
	*matcher = m;
	return 0;
}

void matcher_free(struct matcher *m)
{
	if (!m)
		return;
	states_fini(&m->states);
	grammar_free(m->g);
	free(m->allowed);
	free(m->walk);
	free(m);
}

void matcher_reset(struct matcher *m)
{
	m->state = m->states.start;
	m->ended = false;
}

int32_t matcher_end(const struct matcher *m)
{
	return m->trie->pieces->ends[0];
}

/* The state after a token; STATE_NONE for one without a text. */
static int32_t after_token(struct matcher *m, int32_t id)
{
	size_t bytes;
	const char *text = pieces_text(m->trie->pieces, id, &bytes);
	int32_t state = bytes ? (int32_t)m->state : STATE_NONE;

	for (size_t i = 0; i < bytes && state > STATE_NONE; i++)
		state = states_next(&m->states, (uint32_t)state, (uint8_t)text[i]);
	return state;
}

int matcher_allows(struct matcher *m, int32_t id)
{
	int32_t state;

	if (pieces_is_end(m->trie->pieces, id))
		return m->ended || states_can_end(&m->states, m->state);
	state = m->ended ? STATE_NONE : after_token(m, id);
	return state < 0 ? state : state > STATE_NONE;
}

int matcher_accept(struct matcher *m, int32_t id)
{
	int32_t state =
		m->ended || pieces_is_end(m->trie->pieces, id) ? STATE_NONE : after_token(m, id);

	if (state < 0)
		return state;
	if (state == STATE_NONE) {
		m->ended = true;
		return 0;
	}
	m->state = (uint32_t)state;
	return states_forget(&m->states, &m->state);
}

/* ---- all tokens ---- */

static void allow(struct matcher *m, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++)
		m->allowed[m->trie->ids[i]] = 1;
}

/* Goes to node @i from the state of the one above. Returns the next node to go to; -ENOMEM. */
static int64_t walk_node(struct matcher *m, uint32_t i)
{
	const struct trie_node *node = &m->trie->nodes[i];
	uint32_t above = m->walk[node->depth - 1];
	int32_t state = states_next(&m->states, above, node->byte);
	uint64_t loops;
	int err;

	if (state <= STATE_NONE)
		return state < 0 ? state : (int64_t)node->end;
	m->walk[node->depth] = (uint32_t)state;
	if (state == (int32_t)above && node->end > i + 1) {
		err = states_loops(&m->states, above, &loops);
		if (err)
			return err;
		if (!(node->below & ~loops)) {
			allow(m, node->first, m->trie->nodes[node->end].first);
			return node->end;
		}
	}
	allow(m, node->first, node[1].first);
	return i + 1;
}

static int walk(struct matcher *m)
{
	int64_t i = 0;

	m->walk[0] = m->state;
	while (i >= 0 && i < m->trie->n_nodes)
		i = walk_node(m, (uint32_t)i);
	return i < 0 ? (int)i : 0;
}

int matcher_mask(struct matcher *m, const float *logits, float *masked, unsigned int n)
{
	const struct pieces *p = m->trie->pieces;
	bool can_end = m->ended || states_can_end(&m->states, m->state);
	int err = 0;

	memset(m->allowed, 0, p->n);
	if (!m->ended)
		err = walk(m);
	for (size_t i = 0; i < p->nr_ends && can_end; i++)
		m->allowed[p->ends[i]] = 1;
	for (unsigned int i = 0; i < n && !err; i++)
		masked[i] = i < p->n && m->allowed[i] ? logits[i] : -INFINITY;
	return err;
}
