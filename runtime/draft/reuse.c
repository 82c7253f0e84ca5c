// SPDX-License-Identifier: MIT
#include "reuse.h"

#include <stdbool.h>
#include <string.h>

void reuse_begin(struct reuse *r, uint32_t limit, double threshold)
{
	r->limit = limit;
	r->threshold = threshold;
	r->n = 0;
}

static void drop(struct reuse *r, uint32_t i)
{
	r->n--;
	memmove(&r->segments[i], &r->segments[i + 1], (r->n - i) * sizeof(r->segments[0]));
}

uint32_t reuse_segment(const double *confidence, uint32_t n, double threshold, uint32_t *start)
{
	uint32_t longest = 0, run = 0;

	for (uint32_t i = 0; i < n; i++) {
		run = confidence[i] >= threshold ? run + 1 : 0;
		if (run > longest) {
			longest = run;
			*start = i + 1 - run;
		}
	}
	return longest;
}

/* ---- in a step ---- */

static uint32_t offer(const struct reuse_segment *s, uint32_t from, struct tree_growth *g)
{
	uint32_t node = 0;

	for (uint32_t i = from; i < s->n; i++) {
		g->kind = i > from ? REUSE_NEXT : from ? REUSE_CONTINUES : REUSE_BEGINS;
		node = tree_add(g, node, s->tokens[i], s->p[i]);
		if (node == TREE_NONE)
			return i - from;
	}
	return s->n - from;
}

/* What comes behind the first @token of a segment; 0: the token is not in it. */
static uint32_t behind(const struct reuse_segment *s, int32_t token)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->tokens[i] == token)
			return i + 1;
	return 0;
}

uint32_t reuse_grow(const struct reuse *r, struct tree_growth *g)
{
	uint32_t offered = 0;

	tree_source(g);
	for (uint32_t i = 0; i < r->n; i++) {
		uint32_t from = behind(&r->segments[i], g->nodes[0].token);

		offered += offer(&r->segments[i], 0, g);
		if (from)
			offered += offer(&r->segments[i], from, g);
	}
	return offered;
}

void reuse_step(struct reuse *r, const struct token_tree *t)
{
	uint32_t drafted = 0, i = 0;

	for (uint32_t node = 1; node < t->n; node++)
		drafted += t->kinds[node] < REUSE_BEGINS;
	while (i < r->n)
		if (drafted + r->segments[i].n > r->limit)
			drop(r, i);
		else
			drafted += r->segments[i++].n;
}

uint32_t reuse_kinds(const struct reuse *r, int32_t token)
{
	uint32_t kinds = r->n ? 1u << REUSE_BEGINS : 0;

	for (uint32_t i = 0; i < r->n; i++)
		if (behind(&r->segments[i], token))
			kinds |= 1u << REUSE_CONTINUES;
	return kinds;
}

/* ---- after a step ---- */

/* How many of a segment's tokens from @from on the accepted path begins with. */
static uint32_t accepted(const struct reuse_segment *s, uint32_t from, const struct token_tree *t,
			 const uint8_t *path, uint32_t n)
{
	uint32_t i = 0;

	while (from + i < s->n && i + 1 < n && s->tokens[from + i] == t->tokens[path[i + 1]])
		i++;
	return i;
}

/* Takes accepted tokens from the segments, with those before them. */
static void advance(struct reuse *r, const struct token_tree *t, const uint8_t *path, uint32_t n)
{
	for (uint32_t i = r->n; i-- > 0;) {
		struct reuse_segment *s = &r->segments[i];
		uint32_t from = behind(s, t->tokens[0]), taken = accepted(s, 0, t, path, n);

		if (from && accepted(s, from, t, path, n) > taken)
			taken = from + accepted(s, from, t, path, n);
		s->n -= taken;
		memmove(s->tokens, s->tokens + taken, s->n * sizeof(*s->tokens));
		memmove(s->p, s->p + taken, s->n * sizeof(*s->p));
		if (!s->n)
			drop(r, i);
	}
}

/* The nodes from the accepted path on to @leaf, into @nodes; returns how many. */
static uint32_t rejected(const struct token_tree *t, uint64_t path, uint32_t leaf, uint8_t *nodes)
{
	uint32_t n = 0, at;

	for (uint32_t i = leaf; !(path >> i & 1); i = t->parents[i])
		n++;
	at = n;
	for (uint32_t i = leaf; at; i = t->parents[i])
		nodes[--at] = (uint8_t)i;
	return n;
}

/* The longest segment on the way to @leaf. */
static struct reuse_segment segment_of(const struct reuse *r, const struct token_tree *t,
				       uint64_t path, uint32_t leaf, const double *confidence)
{
	struct reuse_segment s = { 0 };
	double c[TREE_MAX];
	uint8_t nodes[TREE_MAX];
	uint32_t n = rejected(t, path, leaf, nodes), start = 0;

	for (uint32_t i = 0; i < n; i++)
		c[i] = confidence[nodes[i]];
	s.n = reuse_segment(c, n, r->threshold, &start);
	for (uint32_t i = 0; i < s.n; i++) {
		s.tokens[i] = t->tokens[nodes[start + i]];
		s.p[i] = c[start + i];
	}
	return s;
}

static bool contains(const struct reuse_segment *s, const struct reuse_segment *part)
{
	for (uint32_t i = 0; i + part->n <= s->n; i++)
		if (!memcmp(s->tokens + i, part->tokens, part->n * sizeof(*s->tokens)))
			return true;
	return false;
}

static bool is_leaf(const struct token_tree *t, uint32_t node)
{
	return node + 1 == t->n || t->parents[node + 1] != node;
}

uint32_t reuse_keep(struct reuse *r, const struct token_tree *t, const uint8_t *path, uint32_t n,
		    const double *confidence)
{
	struct reuse_segment best = { 0 };

	advance(r, t, path, n);
	for (uint32_t leaf = 1; leaf < t->n; leaf++) {
		struct reuse_segment s;

		if (!is_leaf(t, leaf))
			continue;
		s = segment_of(r, t, t->ancestors[path[n - 1]], leaf, confidence);
		if (s.n > best.n)
			best = s;
	}
	if (!best.n)
		return 0;
	for (uint32_t i = 0; i < r->n; i++)
		if (contains(&r->segments[i], &best))
			return 0;
	r->n -= r->n == REUSE_SEGMENTS;
	memmove(&r->segments[1], &r->segments[0], r->n * sizeof(best));
	r->segments[0] = best;
	r->n++;
	return best.n;
}
