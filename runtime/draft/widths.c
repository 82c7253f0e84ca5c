// SPDX-License-Identifier: MIT
#include "widths.h"

#include <math.h>

const uint32_t widths[WIDTHS] = { 1, 8, 16, 32, 64 };

void widths_begin(struct widths_times *w, double row_ns)
{
	*w = (struct widths_times){ .row_ns = row_ns };
}

void widths_add(struct widths_times *w, uint32_t width, double ns)
{
	if (w->nr[width])
		w->recent_ns[width][(w->nr[width] - 1) % WIDTHS_RECENT] = ns;
	w->nr[width]++;
	for (uint32_t i = 0; i < WIDTHS; i++)
		for (uint32_t j = 0; j < WIDTHS_RECENT && i != width; j++)
			w->recent_ns[i][j] *= 1 - WIDTHS_FORGET;
}

/* The least of the recent passes; 0: none counts. */
static double least(const struct widths_times *w, uint32_t width)
{
	double ns = INFINITY;

	if (w->nr[width] < 2)
		return 0;
	for (uint32_t i = 0; i < WIDTHS_RECENT && i + 1 < w->nr[width]; i++)
		ns = fmin(ns, w->recent_ns[width][i]);
	return ns;
}

void widths_costs(const struct widths_times *w, double costs[WIDTHS])
{
	double token = least(w, 0), row = token / 10;

	if (w->row_ns > 0 && w->row_ns < row)
		row = w->row_ns;
	costs[0] = token > 0 ? token : 1;
	for (uint32_t i = 1; i < WIDTHS; i++) {
		double ns = least(w, i);

		costs[i] = ns > 0 ? ns : token + row * (widths[i] - 1);
		if (!(token > 0))
			costs[i] = INFINITY;
	}
}
