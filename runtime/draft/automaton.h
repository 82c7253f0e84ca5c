/* SPDX-License-Identifier: MIT */
/*
 * A suffix automaton of token ids: finds what a text repeats, and what came next (CoordGen 4.1).
 *
 *	struct automaton *a;
 *	struct automaton_match m;
 *	struct automaton_next next[8];
 *
 *	automaton_create(8192, &a);
 *	for (i = 0; i < n; i++)
 *		automaton_append(a, ids[i]);
 *	m = automaton_repeat(a);	the longest end of the text that occurs earlier in it
 *	n = automaton_nexts(a, m.state, next, 8, &total);	what followed there, and how often
 *
 * It is the smallest automaton that reads every substring of the text. A state stands for all
 * substrings that end at the same positions; it knows the longest of them, how often they occur and
 * where they occurred last. Its link leads to the state of the longest suffix that occurs at other
 * positions too. Tokens are appended one by one, each in constant time on average, whatever the
 * size of the vocabulary.
 *
 * A text of n tokens has at most 2n states and 3n transitions. A state holds its first transition;
 * further ones, at most n in all, are in one open-addressing table. That is at most 92 bytes for
 * each token of room: 4 of text, 56 of states, 16 of transitions, 8 to 16 of the table. Memory
 * beyond what the text needs is reserved, but not touched; texts touch about 70 of the 92
 * (bench_draft).
 *
 * One automaton can hold several texts, each ended by AUTOMATON_BREAK: no match and no draft
 * reaches over it. Any number of threads may read an automaton while none appends.
 */
#ifndef AUTOMATON_H
#define AUTOMATON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUTOMATON_BREAK (-1)
/* More tokens have no numbers for their states. */
#define AUTOMATON_MAX_TOKENS (1u << 30)
/*
 * Each appended token updates the counts and ends of at most so many states: those of the longest
 * suffixes of the text. Only a text that repeats one pattern again and again has more; there a
 * count may be too low, and an end that of an earlier occurrence than the last.
 */
#define AUTOMATON_REACH 32

struct automaton;

/* A substring of an automaton's text: the last @length tokens of what was read. State 0 is that of
 * the empty one. */
struct automaton_match {
	uint32_t state, length;
};

/*
 * An empty automaton with room for @room tokens, which grows when it is full: pass the longest text
 * if it is known. 0, or -ENOMEM with the error line.
 */
int automaton_create(size_t room, struct automaton **automaton);
void automaton_free(struct automaton *a);

/*
 * Appends @token, at least 0, or AUTOMATON_BREAK. 0, or with the error line -ENOMEM, and -E2BIG for
 * more than AUTOMATON_MAX_TOKENS; nothing has changed then.
 */
int automaton_append(struct automaton *a, int32_t token);

/* The longest suffix of the text that also ends earlier in it; the two may overlap. O(1). Of length
 * 0: the last token is new, or a break. */
struct automaton_match automaton_repeat(const struct automaton *a);

/*
 * For the text of another: makes of @m, the longest suffix of what was read that occurs in @a, the
 * longest one after reading @token. Begin with { 0, 0 }. O(1) on average. Tokens may have been
 * appended to @a in between.
 */
void automaton_follow(const struct automaton *a, struct automaton_match *m, int32_t token);

/* The position of the last token of the match's latest occurrence, of which AUTOMATON_REACH says
 * when it is an earlier one. automaton_repeat()'s is never the end of the text itself. */
uint32_t automaton_end(const struct automaton *a, struct automaton_match m);

/* A token that has followed a state's substrings. */
struct automaton_next {
	int32_t token;
	uint32_t state; /* after that token */
	uint32_t count; /* how often it followed, at least 1 */
};
/*
 * The @max most frequent tokens that followed @state, most frequent first, into @next; returns how
 * many. @total: how often any token or a break followed. O(tokens that followed).
 */
size_t automaton_nexts(const struct automaton *a, uint32_t state, struct automaton_next *next,
		       size_t max, uint64_t *total);

size_t automaton_tokens(const struct automaton *a); /* of the text, with breaks */
int32_t automaton_token(const struct automaton *a, size_t position);
size_t automaton_states(const struct automaton *a);
/* Of memory that has been touched: what the text needs, with the table. */
size_t automaton_bytes(const struct automaton *a);

#endif /* AUTOMATON_H */
