// SPDX-License-Identifier: MIT
#include "widths.h"

#include <math.h>
#include <string.h>

/* Tokens that a row is believed to cost at most. */
#define ROW 0.1

const uint32_t widths[WIDTHS] = { 1, 2, 4, 8, 16, 32, 64 };

void widths_begin(struct widths_times *w, const double known[WIDTHS])
{
	*w = (struct widths_times){ 0 };
	memcpy(w->known, known, sizeof(w->known));
}

static void add(struct widths_recent *r, double ns)
{
	r->ns[r->nr++ % WIDTHS_RECENT] = ns;
}

void widths_add(struct widths_times *w, uint32_t width, double ns)
{
	for (uint32_t i = 0; i < WIDTHS; i++)
		w->since_ns[i] += ns;
	w->since_ns[width] = 0;
	add(&w->passes[width], ns);
}

void widths_add_drafting(struct widths_times *w, double ns)
{
	add(&w->drafting, ns);
}

/* 0: there is none. */
static double least_of(const struct widths_recent *r)
{
	double ns = INFINITY;

	for (uint32_t i = 0; i < WIDTHS_RECENT && i < r->nr; i++)
		ns = fmin(ns, r->ns[i]);
	return r->nr ? ns : 0;
}

static double faded(double t, double since)
{
	return t / (1 + WIDTHS_FORGET * since / t);
}

/* What a width's passes took; 0: there was none. */
static double time_of(const struct widths_times *w, uint32_t width)
{
	const struct widths_recent *r = &w->passes[width];

	return r->nr ? faded(least_of(r), w->since_ns[width]) : 0;
}

/* What was known of a width, in tokens; 0: nothing. */
static double known_of(const struct widths_times *w, uint32_t width, double token_ns)
{
	if (!(token_ns > 0) || !(w->known[width] > 0))
		return w->known[width];
	return faded(w->known[width], w->since_ns[width] / token_ns);
}

/* 0: there is nothing but @guess. */
static double cost_of(const struct widths_times *w, uint32_t width, double token_ns, double guess)
{
	const struct widths_recent *r = &w->passes[width];
	double known = known_of(w, width, token_ns), cost;

	if (!(token_ns > 0) || !r->nr)
		return known;
	cost = time_of(w, width) / token_ns;
	return r->nr == 1 && cost > WIDTHS_DOUBT * (known > 0 ? known : guess) ? known : cost;
}

/* Costs, and those that are more than a guess. */
static void costs_of(const struct widths_times *w, double costs[WIDTHS], double known[WIDTHS])
{
	double token_ns = time_of(w, 0), row = ROW, guess;

	if (w->row_ns > 0 && w->row_ns < ROW * token_ns)
		row = w->row_ns / token_ns;
	costs[0] = 1;
	known[0] = cost_of(w, 0, token_ns, 1);
	for (uint32_t i = 1; i < WIDTHS; i++) {
		guess = costs[i - 1] + row * (widths[i] - widths[i - 1]);
		known[i] = cost_of(w, i, token_ns, guess);
		costs[i] = known[i] > 0 ? fmax(known[i], costs[i - 1]) : guess;
	}
}

void widths_costs(const struct widths_times *w, double costs[WIDTHS])
{
	double known[WIDTHS];

	costs_of(w, costs, known);
	for (uint32_t i = 1; i < WIDTHS && !(known[0] > 0); i++)
		costs[i] = INFINITY;
}

bool widths_are_worth(const struct widths_times *w, const double costs[WIDTHS], double p)
{
	double token_ns = time_of(w, 0), least = INFINITY;

	for (uint32_t i = 1; i < WIDTHS; i++)
		least = fmin(least, costs[i]);
	if (token_ns > 0)
		least += least_of(&w->drafting) / token_ns;
	/* A chain is expected to give 1 + p + p^2 + ... */
	return p >= 1 || 1 / (1 - p) > least / costs[0];
}

void widths_known(const struct widths_times *w, double known[WIDTHS])
{
	double costs[WIDTHS];

	costs_of(w, costs, known);
}
