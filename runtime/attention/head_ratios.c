// SPDX-License-Identifier: MIT
#include "head_ratios.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "llm_fail.h"

/* Products below this share of the greatest count as 0. */
#define LEAST_SHARE 1e-12
/* What rounding may add to a sum: 0.93 of 30 heads, less 27, is more than three times 0.3. */
#define ROUNDING 1e-13

static double clamped(double head, double layer, double limit)
{
	/* Two negative factors do not make an important head. No comparison with a NaN is true. */
	return head > 0 && layer > 0 ? fmin(head * layer, limit) : 0;
}

/* A NaN is as no gain. */
static double of_gain(double gain, double limit)
{
	return sqrt(fmin(fmax(gain, HEAD_RATIOS_NOISE), limit));
}

/* Sets @w [n] to the clamped products, or the roots of gains, as shares of the greatest. */
static void weigh(const struct head_importance *of, double limit, double *w, size_t n)
{
	double greatest = 0;

	for (size_t i = 0; i < n; i++) {
		w[i] = of->layers ? clamped(of->heads[i], of->layers[i / of->n_head], limit)
				  : of_gain(of->heads[i], limit);
		greatest = fmax(greatest, w[i]);
	}
	for (size_t i = 0; i < n; i++) {
		w[i] = w[i] > 0 ? w[i] / greatest : 0;
		if (w[i] < LEAST_SHARE)
			w[i] = 0;
	}
}

/* ---- heads that have all keys: their weight is set to INFINITY ---- */

/* The ratios of the other heads. */
struct shares {
	double scale, floor, most;
};

/* The most that a head without all keys has. */
static double most_below(double whole)
{
	return whole < 1 ? nextafter(whole, 0) : 1;
}

static double ratio_of(double weight, const struct shares *s)
{
	return isinf(weight) ? 1 : fmin(fmax(weight * s->scale, s->floor), s->most);
}

static double sum_of(const double *w, size_t n, const struct shares *s)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += ratio_of(w[i], s);
	return sum;
}

/* The first of the heads with the greatest weight, without those that have all keys; @n: none. */
static size_t heaviest(const double *w, size_t n)
{
	size_t best = n;

	for (size_t i = 0; i < n; i++)
		if (!isinf(w[i]) && (best == n || w[i] > w[best]))
			best = i;
	return best;
}

/* Whether head @i can have all keys when its own share reaches @whole. */
static bool affords(const double *w, size_t n, size_t i, double sum, double whole, double floor)
{
	const struct shares s = { whole / w[i], floor, whole };

	return w[i] > 0 && 1 - whole + sum_of(w, n, &s) <= sum;
}

/* Gives all keys to heads, by falling weight: as long as that is affordable, and as the others
 * could not fill the sum with less than @whole each. */
static void give_all(double *w, size_t n, double sum, double whole, double floor)
{
	size_t given = 0;

	for (size_t i = heaviest(w, n); i < n; i = heaviest(w, n)) {
		bool needed = sum - (double)given > (double)(n - given) * whole * (1 + ROUNDING);

		if (!needed && !affords(w, n, i, sum, whole, floor))
			break;
		w[i] = INFINITY;
		given++;
	}
}

/* ---- the others ---- */

/* The least scale with which the ratios add up to @sum: it grows with the scale. */
static double find_scale(const double *w, size_t n, double sum, struct shares s)
{
	double low = 0, high = 1 / LEAST_SHARE;

	for (;;) {
		double middle = low + (high - low) / 2;

		if (middle <= low || middle >= high)
			return high;
		s.scale = middle;
		if (sum_of(w, n, &s) < sum)
			low = middle;
		else
			high = middle;
	}
}

static struct shares shares_of(const double *w, size_t n, double sum, double whole, double floor)
{
	struct shares s = { 1 / LEAST_SHARE, floor, most_below(whole) };
	size_t zeros = 0;

	for (size_t i = 0; i < n; i++)
		zeros += w[i] == 0;
	if (!zeros || sum_of(w, n, &s) >= sum) {
		s.scale = find_scale(w, n, sum, s);
		return s;
	}
	/* All that others can have is not enough. */
	s.floor = 0;
	s.floor = fmax((sum - sum_of(w, n, &s)) / (double)zeros, floor);
	return s;
}

int head_ratios(const struct head_importance *of, const struct head_share *share, double *ratios)
{
	size_t n = (size_t)of->n_layer * of->n_head;
	double sum = share->mean * (double)n, floor = share->mean * HEAD_RATIOS_FLOOR;
	struct shares s;

	if (!n)
		return llm_fail(-EINVAL, "no heads to give ratios to");
	if (!(share->mean > 0 && share->mean <= 1))
		return llm_fail(-EINVAL, "a mean ratio of heads is above 0, up to 1, not %g",
				share->mean);
	if (!(share->limit > 0 && isfinite(share->limit)))
		return llm_fail(-EINVAL, "a limit of importance is positive and finite, not %g",
				share->limit);
	weigh(of, share->limit, ratios, n);
	give_all(ratios, n, sum, share->whole, floor);
	s = shares_of(ratios, n, sum, share->whole, floor);
	for (size_t i = 0; i < n; i++)
		ratios[i] = ratio_of(ratios[i], &s);
	return 0;
}
