// SPDX-License-Identifier: MIT
#include "head_ratios.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>

#include "llm_fail.h"

/* Products below this share of the greatest count as 0. */
#define LEAST_SHARE 1e-12

static double clamped(double head, double layer, double limit)
{
	/* Two negative factors do not make an important head. No comparison with a NaN is true. */
	return head > 0 && layer > 0 ? fmin(head * layer, limit) : 0;
}

/* Sets @w [n] to the clamped products, as shares of the greatest. Returns how many are not 0. */
static size_t weigh(const struct head_importance *of, double limit, double *w, size_t n)
{
	double greatest = 0;
	size_t positive = 0;

	for (size_t i = 0; i < n; i++) {
		w[i] = clamped(of->heads[i], of->layers[i / of->n_head], limit);
		greatest = fmax(greatest, w[i]);
	}
	for (size_t i = 0; i < n; i++) {
		w[i] = w[i] > 0 ? w[i] / greatest : 0;
		if (w[i] < LEAST_SHARE)
			w[i] = 0;
		positive += w[i] > 0;
	}
	return positive;
}

static double ratio_of(double weight, double scale, double floor)
{
	return fmin(fmax(weight * scale, floor), 1);
}

static double sum_of(const double *w, size_t n, double scale, double floor)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += ratio_of(w[i], scale, floor);
	return sum;
}

/* The least scale with which the ratios add up to @sum: it grows with the scale. */
static double find_scale(const double *w, size_t n, double sum, double floor)
{
	double low = 0, high = 1 / LEAST_SHARE;

	for (;;) {
		double middle = low + (high - low) / 2;

		if (middle <= low || middle >= high)
			return high;
		if (sum_of(w, n, middle, floor) < sum)
			low = middle;
		else
			high = middle;
	}
}

int head_ratios(const struct head_importance *of, double mean, double limit, double *ratios)
{
	size_t n = (size_t)of->n_layer * of->n_head, positive;
	double sum = mean * (double)n, floor = mean * HEAD_RATIOS_FLOOR, scale;

	if (!n)
		return llm_fail(-EINVAL, "no heads to give ratios to");
	if (!(mean > 0 && mean <= 1))
		return llm_fail(-EINVAL, "a mean ratio of heads is above 0, up to 1, not %g", mean);
	if (!(limit > 0 && isfinite(limit)))
		return llm_fail(-EINVAL, "a limit of importance is positive and finite, not %g",
				limit);
	positive = weigh(of, limit, ratios, n);
	if (positive < n && sum_of(ratios, n, 1 / LEAST_SHARE, floor) < sum) {
		/* The others have 1 each. */
		floor = (sum - (double)positive) / (double)(n - positive);
		scale = 1 / LEAST_SHARE;
	} else {
		scale = find_scale(ratios, n, sum, floor);
	}
	for (size_t i = 0; i < n; i++)
		ratios[i] = ratio_of(ratios[i], scale, floor);
	return 0;
}
