/* SPDX-License-Identifier: MIT */
/*
 * What a pass costs by the number of its nodes: an NPU has static graphs of a few widths (CoordGen
 * 2.3, figure 6), and which of them is worth its time depends on the machine.
 *
 *	widths_begin(&w, 20000);
 *	for (each step) {
 *		widths_costs(&w, costs);
 *		i = tree_pick_best(&growth, widths, costs, WIDTHS, &tree);
 *		... evaluate ...
 *		widths_add(&w, i, ns);
 *	}
 *
 * A width's cost is the least of its last WIDTHS_RECENT passes: what disturbs a pass only makes it
 * longer. The first pass of a width may have made its graph, and does not count. With each pass of
 * another width a cost shrinks by WIDTHS_FORGET, so a width that seems slow is tried again later.
 */
#ifndef WIDTHS_H
#define WIDTHS_H

#include <stdint.h>

#define WIDTHS 5
#define WIDTHS_RECENT 4
#define WIDTHS_FORGET 0.002
extern const uint32_t widths[WIDTHS]; /* 1, 8, 16, 32, 64 */

struct widths_times {
	double row_ns; /* of a row of a long pass; 0: unknown */
	uint32_t nr[WIDTHS]; /* passes, with the first one */
	double recent_ns[WIDTHS][WIDTHS_RECENT];
};

/* @row_ns: what a token of a prompt took, or 0. */
void widths_begin(struct widths_times *w, double row_ns);
void widths_add(struct widths_times *w, uint32_t width, double ns); /* @width: an index */

/*
 * Costs in nanoseconds. A width without passes that count is believed to cost as much as a token,
 * and row_ns for each further row, but at most a tenth of a token. Before any pass of one token
 * counts, only this width is affordable.
 */
void widths_costs(const struct widths_times *w, double costs[WIDTHS]);

#endif /* WIDTHS_H */
