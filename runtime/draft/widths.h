/* SPDX-License-Identifier: MIT */
/*
 * What a pass costs by the number of its nodes: an NPU has static graphs of a few widths (CoordGen
 * 2.3, figure 6), and which of them is worth its time depends on the machine.
 *
 *	widths_begin(&w, known);
 *	for (each step) {
 *		widths_costs(&w, costs);
 *		i = tree_pick_best(&growth, widths, costs, WIDTHS, &tree);
 *		... evaluate ...
 *		widths_add(&w, i, ns);
 *	}
 *	widths_known(&w, known);
 *
 * Costs are in tokens: a pass's time by that of one token. A width's time is the least of its last
 * WIDTHS_RECENT passes, since what disturbs a pass only makes it longer; and no width costs less
 * than a narrower one. Without passes a width costs what was known of it; if nothing was, the guess
 * is row_ns for each row more than the next narrower one has, but at most a tenth of a token. A
 * first pass that took more than WIDTHS_DOUBT times as long as that is in doubt until a second one
 * confirms it.
 *
 * Drafting takes time of its own beside the pass, of the host. It is measured in the same way, in
 * the steps that drafted something.
 *
 * A width that seems slow is tried again. Its time t fades to t / (1 + WIDTHS_FORGET s / t), where
 * s is the time of all passes since its last one. When it has faded to the time e in which other
 * passes give as many tokens, a pass in vain loses t - e, which is at most WIDTHS_FORGET s.
 */
#ifndef WIDTHS_H
#define WIDTHS_H

#include <stdbool.h>
#include <stdint.h>

#define WIDTHS 7
#define WIDTHS_RECENT 4
#define WIDTHS_FORGET 0.005
#define WIDTHS_DOUBT 2
extern const uint32_t widths[WIDTHS]; /* 1, 2, 4, 8, 16, 32, 64 */

/* The last times of one thing. */
struct widths_recent {
	uint32_t nr; /* so far */
	double ns[WIDTHS_RECENT];
};

struct widths_times {
	double row_ns; /* of a row of a long pass; 0: unknown */
	double known[WIDTHS]; /* costs; 0: unknown */
	struct widths_recent passes[WIDTHS], drafting;
	double since_ns[WIDTHS]; /* of all passes since the width's last one */
};

/* @known: from widths_known(), or 0. */
void widths_begin(struct widths_times *w, const double known[WIDTHS]);
void widths_add(struct widths_times *w, uint32_t width, double ns); /* @width: an index */
/* Of a step whose tree had drafts: what they took beside the pass. */
void widths_add_drafting(struct widths_times *w, double ns);

/* Costs in tokens: of one node 1. Other widths cost INFINITY as long as nothing is known of any
 * width, and there was no pass of one token. */
void widths_costs(const struct widths_times *w, double costs[WIDTHS]);
/*
 * Whether a step with drafts may give more tokens for its time than one without: if each draft of a
 * chain comes true with probability @p, at the cost of the cheapest pass with drafts and of
 * drafting, which is free as long as it has not been measured beside a pass of one token.
 */
bool widths_are_worth(const struct widths_times *w, const double costs[WIDTHS], double p);
/* Those costs that are more than a guess; 0: a guess. */
void widths_known(const struct widths_times *w, double known[WIDTHS]);

#endif /* WIDTHS_H */
