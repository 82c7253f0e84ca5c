// SPDX-License-Identifier: MIT
/*
 * Learning: a node's samples are split where two leaves, one for each side, have the least error;
 * then each side is split in turn.
 *
 * A sample is a row of a least-squares problem, coefficients * z = t. For sums, z = terms / ns and
 * t = 1, so that the residual is the relative error; for constants, z = 1 and t = log(ns). A fit
 * needs only the sums of z z^T, z t and t^2, so trying a feature's thresholds in order moves one
 * sample after another from one side's sums to the other's.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "predictor_fit.h"
#include "predictor_tree.h"
#include "tool.h"

/* Thresholds tried first per feature if leaves are sums, and how much closer the next ones are. */
#define MAX_THRESHOLDS 32
#define FINER 8
/* A mean square error that counts as zero: relative errors of a millionth, above rounding's. */
#define EXACT 1e-12
/* Added to the scaled normal equations' diagonal: equivalent terms share their coefficient. */
#define RIDGE 1e-12
/* A split must reduce the expected error by this fraction. */
#define LEAST_GAIN 0.02
/*
 * Splits in a row that may gain less, in case those below them gain more: the effects of outliers
 * on both sides of the other samples cancel out in any single split. Such a split is the one with
 * the least error on the samples. Splits that do not pay in the end are pruned.
 */
#define PATIENCE 2
/*
 * Weight of all samples together in the fit of each leaf, in units of one sample: negligible where
 * the leaf's own samples determine a coefficient, but enough to keep one that they leave open from
 * being wrong by a factor of a hundred elsewhere.
 */
#define WHISPER 1e-4

struct row {
	struct predictor_shape shape;
	double ns;
};

struct sums {
	double zz[NR_TERMS][NR_TERMS]; /* lower triangle */
	double zt[NR_TERMS];
	double tt;
	uint32_t n;
};

struct leaf_fit {
	double coefficients[NR_TERMS];
	double error; /* sum of squares */
	uint32_t used; /* number of coefficients that are not 0 */
};

struct fitter {
	const struct predictor_options *o;
	struct row *rows;
	uint32_t *index; /* of rows; those of a node are contiguous */
	struct by_feature {
		double value;
		uint32_t row;
	} * sorted;
	struct sums whisper; /* of all samples, with the weight WHISPER */
	struct predictor *p;
	uint32_t room;
	bool no_memory;
};

struct predictor_options predictor_defaults(void)
{
	return (struct predictor_options){
		.leaves = PREDICTOR_LINEAR,
		.max_depth = PREDICTOR_MAX_DEPTH,
		.min_samples = 10,
		.tile_m = 32,
		.tile_k = 32,
		.tile_n = 32,
	};
}

static int nr_terms(const struct fitter *f)
{
	return f->o->leaves == PREDICTOR_LINEAR ? NR_TERMS : 1;
}

static void count(const struct fitter *f, struct sums *s, const struct row *row, double sign)
{
	double z[NR_TERMS], t = 1;
	int n = nr_terms(f);

	s->n += sign > 0 ? 1 : -1;
	if (f->o->leaves == PREDICTOR_LINEAR) {
		for (int i = 0; i < n; i++)
			z[i] = row->shape.terms[i] / row->ns;
	} else {
		z[0] = 1;
		t = log(row->ns);
	}
	for (int i = 0; i < n; i++) {
		for (int j = 0; j <= i; j++)
			s->zz[i][j] += sign * z[i] * z[j];
		s->zt[i] += sign * z[i] * t;
	}
	s->tt += sign * t * t;
}

static void add_sums(struct sums *to, const struct sums *s, double weight)
{
	for (int i = 0; i < NR_TERMS; i++) {
		for (int j = 0; j <= i; j++)
			to->zz[i][j] += weight * s->zz[i][j];
		to->zt[i] += weight * s->zt[i];
	}
}

/* Solves @n equations by Cholesky decomposition. RIDGE makes them positive definite; equations of
 * zeros are dropped. */
static void solve(double a[NR_TERMS][NR_TERMS], double *b, int n)
{
	for (int i = 0; i < n; i++) {
		for (int j = 0; j <= i; j++) {
			double sum = a[i][j];

			for (int k = 0; k < j; k++)
				sum -= a[i][k] * a[j][k];
			if (i == j)
				a[i][i] = sum > RIDGE / 4 ? sqrt(sum) : INFINITY;
			else
				a[i][j] = sum / a[j][j];
		}
	}
	for (int i = 0; i < n; i++) {
		for (int j = 0; j < i; j++)
			b[i] -= a[i][j] * b[j];
		b[i] /= a[i][i];
	}
	for (int i = n - 1; i >= 0; i--) {
		for (int j = i + 1; j < n; j++)
			b[i] -= a[j][i] * b[j];
		b[i] /= a[i][i];
	}
}

/* Fits only the terms in @set (bits). */
static void solve_terms(const struct sums *s, unsigned int set, double *coefficients)
{
	double a[NR_TERMS][NR_TERMS], b[NR_TERMS], scale[NR_TERMS];
	int term[NR_TERMS], n = 0;

	memset(coefficients, 0, NR_TERMS * sizeof(*coefficients));
	for (int i = 0; i < NR_TERMS; i++)
		if (set >> i & 1)
			term[n++] = i;
	for (int i = 0; i < n; i++) {
		scale[i] = sqrt(s->zz[term[i]][term[i]]);
		for (int j = 0; j <= i; j++)
			a[i][j] = s->zz[term[i]][term[j]] / scale[i] / scale[j];
		a[i][i] += RIDGE;
		b[i] = s->zt[term[i]] / scale[i];
	}
	solve(a, b, n);
	for (int i = 0; i < n; i++)
		coefficients[term[i]] = b[i] / scale[i];
}

/* The sum of squared residuals: t^2 - 2 c z t + c z z^T c. */
static double remaining(const struct sums *s, const double *c, int n)
{
	double e = s->tt;

	for (int i = 0; i < n; i++) {
		e += c[i] * (c[i] * s->zz[i][i] - 2 * s->zt[i]);
		for (int j = 0; j < i; j++)
			e += 2 * c[i] * c[j] * s->zz[i][j];
	}
	return e > 0 ? e : 0;
}

/* The term with the most negative contribution; NR_TERMS: no coefficient is negative. */
static int most_negative(const struct sums *s, const double *c)
{
	double least = 0;
	int which = NR_TERMS;

	for (int i = 0; i < NR_TERMS; i++) {
		if (c[i] * sqrt(s->zz[i][i]) < least) {
			least = c[i] * sqrt(s->zz[i][i]);
			which = i;
		}
	}
	return which;
}

static struct leaf_fit fit_leaf(const struct fitter *f, const struct sums *s)
{
	struct leaf_fit fit = { .used = 1 };
	struct sums with;
	unsigned int set = 0;
	int worst;

	if (f->o->leaves == PREDICTOR_CONSTANT) {
		fit.coefficients[0] = s->zt[0] / s->n;
		fit.error = remaining(s, fit.coefficients, 1);
		return fit;
	}
	with = *s;
	add_sums(&with, &f->whisper, 1);
	for (int i = 0; i < NR_TERMS; i++)
		set |= with.zz[i][i] > 0 ? 1u << i : 0;
	solve_terms(&with, set, fit.coefficients);
	while ((worst = most_negative(&with, fit.coefficients)) < NR_TERMS) {
		set &= ~(1u << worst);
		solve_terms(&with, set, fit.coefficients);
	}
	fit.used = 0;
	for (int i = 0; i < NR_TERMS; i++)
		fit.used += fit.coefficients[i] > 0;
	fit.error = remaining(s, fit.coefficients, NR_TERMS);
	return fit;
}

/* M5's estimate of the error on unseen samples. */
static double expected_error(const struct leaf_fit *fit, uint32_t n)
{
	double freedom = n > fit->used ? n - fit->used : 0.5;

	return fit->error <= EXACT * n ? 0 : fit->error * (n + fit->used) / freedom;
}

/* ---- splits ---- */

struct split {
	double error; /* INFINITY: no split */
	double at;
	int feature;
	uint32_t place; /* of the threshold, counted from the feature's least */
};

/* The best splits by the expected error, and by the error on the samples. */
struct splits {
	struct split expected, own;
};

static int compare(const void *a, const void *b)
{
	const struct by_feature *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	/* A total order gives the same tree with every qsort(). */
	return x->row < y->row ? -1 : x->row > y->row;
}

/*
 * A threshold for samples at @a and, above, at @b: the roundest binary number of the gap. Steps of
 * the times come from sizes of hardware, and models' dimensions often lie exactly on those.
 */
static double between(double a, double b)
{
	int exponent;

	frexp(b, &exponent);
	for (int e = exponent; e >= exponent - DBL_MANT_DIG; e--) {
		double round = ldexp(ceil(ldexp(a, -e)), e);

		if (round < b)
			return round;
	}
	return a;
}

/* Sorts the samples by @feature. Returns the number of thresholds between different values. */
static uint32_t sort_by(struct fitter *f, uint32_t first, uint32_t n, int feature)
{
	uint32_t places = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t row = f->index[first + i];

		f->sorted[i] = (struct by_feature){ f->rows[row].shape.features[feature], row };
	}
	qsort(f->sorted, n, sizeof(*f->sorted), compare);
	for (uint32_t i = 1; i < n; i++)
		places += f->sorted[i].value > f->sorted[i - 1].value;
	return places;
}

/* Thresholds to try: @stride apart, from place @from to before @to. */
struct places {
	uint32_t from, to, stride;
};

/* Tries thresholds of @feature, by which the samples are sorted. */
static void try_places(struct fitter *f, uint32_t n, const struct sums *all, int feature,
		       struct places places, struct splits *best)
{
	struct sums below = { 0 }, above = *all;
	uint32_t place = 0;

	for (uint32_t i = 1; i < n && place < places.to; i++) {
		const struct row *row = &f->rows[f->sorted[i - 1].row];
		struct split split = { .feature = feature, .place = place };
		struct leaf_fit fits[2];

		count(f, &below, row, 1);
		count(f, &above, row, -1);
		if (!(f->sorted[i].value > f->sorted[i - 1].value))
			continue;
		place++;
		if (split.place < places.from || (split.place - places.from) % places.stride ||
		    i < f->o->min_samples || n - i < f->o->min_samples)
			continue;
		fits[0] = fit_leaf(f, &below);
		fits[1] = fit_leaf(f, &above);
		split.at = between(f->sorted[i - 1].value, f->sorted[i].value);
		split.error = expected_error(&fits[0], below.n) + expected_error(&fits[1], above.n);
		if (split.error < best->expected.error)
			best->expected = split;
		split.error = fits[0].error + fits[1].error;
		if (split.error < best->own.error)
			best->own = split;
	}
}

static uint32_t stride_of(const struct fitter *f, uint32_t places)
{
	return f->o->leaves == PREDICTOR_CONSTANT ? 1
						  : (places + MAX_THRESHOLDS - 1) / MAX_THRESHOLDS;
}

static void try_around(struct fitter *f, uint32_t n, const struct sums *all, struct split near,
		       uint32_t stride, uint32_t finer, struct splits *best)
{
	if (!isinf(near.error))
		try_places(f, n, all, near.feature,
			   (struct places){ near.place > stride ? near.place - stride : 0,
					    near.place + stride, finer },
			   best);
}

static void keep_better(struct split *to, const struct split *s)
{
	if (s->error < to->error)
		*to = *s;
}

/*
 * Tries thresholds of @feature that are far apart, then closer ones around the best, down to single
 * places: a step of the times that is not found exactly leaves samples of one side on the other,
 * often too few to be split off there.
 */
static void try_feature(struct fitter *f, uint32_t first, uint32_t n, const struct sums *all,
			int feature, struct splits *best)
{
	struct splits own = { { .error = INFINITY }, { .error = INFINITY } };
	uint32_t places = sort_by(f, first, n, feature), stride = stride_of(f, places), finer;

	if (!places)
		return;
	try_places(f, n, all, feature, (struct places){ 0, places, stride }, &own);
	for (; stride > 1; stride = finer) {
		struct splits near = own;

		finer = (stride + FINER - 1) / FINER;
		try_around(f, n, all, near.expected, stride, finer, &own);
		if (near.own.place != near.expected.place)
			try_around(f, n, all, near.own, stride, finer, &own);
	}
	keep_better(&best->expected, &own.expected);
	keep_better(&best->own, &own.own);
}

static uint32_t new_node(struct fitter *f)
{
	struct predictor *p = f->p;

	if (p->nr_nodes == f->room) {
		uint32_t room = f->room ? 2 * f->room : 64;
		struct predictor_node *nodes = realloc(p->nodes, room * sizeof(*nodes));

		if (!nodes) {
			f->no_memory = true;
			return 0;
		}
		p->nodes = nodes;
		f->room = room;
	}
	p->nodes[p->nr_nodes] = (struct predictor_node){ .leaf = true };
	return p->nr_nodes++;
}

/* Moves samples at or below the threshold to the front; returns how many they are. */
static uint32_t partition(struct fitter *f, uint32_t first, uint32_t n, const struct split *split)
{
	uint32_t *index = f->index + first, low = 0;

	for (uint32_t i = 0; i < n; i++)
		f->sorted[i].row = index[i];
	for (uint32_t i = 0; i < n; i++)
		if (f->rows[f->sorted[i].row].shape.features[split->feature] <= split->at)
			index[low++] = f->sorted[i].row;
	for (uint32_t i = 0, high = low; i < n; i++)
		if (!(f->rows[f->sorted[i].row].shape.features[split->feature] <= split->at))
			index[high++] = f->sorted[i].row;
	return low;
}

/* Makes @node a leaf and removes the nodes below it, which are the last ones. */
static double end_in_leaf(struct fitter *f, uint32_t node, const struct leaf_fit *leaf, uint32_t n)
{
	struct predictor_node *to = &f->p->nodes[node];

	*to = (struct predictor_node){ .leaf = true };
	memcpy(to->coefficients, leaf->coefficients, sizeof(to->coefficients));
	if (f->o->leaves == PREDICTOR_CONSTANT)
		to->coefficients[TERM_ONE] = exp(to->coefficients[TERM_ONE]);
	f->p->nr_nodes = node + 1;
	return expected_error(leaf, n);
}

/*
 * Grows the tree of the samples index[first..first + n) in the next nodes; @weak splits above it in
 * a row have gained too little. Returns its expected error.
 */
static double grow(struct fitter *f, uint32_t first, uint32_t n, uint32_t depth, uint32_t weak)
{
	struct splits best = { { .error = INFINITY }, { .error = INFINITY } };
	struct split split;
	uint32_t node = new_node(f), low, child;
	struct sums sums = { 0 };
	struct leaf_fit leaf;
	double worth, error;

	if (f->no_memory)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		count(f, &sums, &f->rows[f->index[first + i]], 1);
	leaf = fit_leaf(f, &sums);
	worth = expected_error(&leaf, n) * (1 - LEAST_GAIN);
	if (depth < f->o->max_depth && worth > 0)
		for (int feature = 0; feature < NR_FEATURES; feature++)
			try_feature(f, first, n, &sums, feature, &best);
	weak = best.expected.error < worth ? 0 : weak + 1;
	if (isinf(best.own.error) || weak > PATIENCE)
		return end_in_leaf(f, node, &leaf, n);
	split = weak ? best.own : best.expected;
	low = partition(f, first, n, &split);
	f->p->nodes[node].leaf = false;
	f->p->nodes[node].feature = (uint8_t)split.feature;
	f->p->nodes[node].at = split.at;
	child = f->p->nr_nodes;
	error = grow(f, first, low, depth + 1, weak);
	f->p->nodes[node].below = child;
	child = f->p->nr_nodes;
	error += grow(f, first + low, n - low, depth + 1, weak);
	f->p->nodes[node].above = child;
	return error < worth || f->no_memory ? error : end_in_leaf(f, node, &leaf, n);
}

static bool prepare(struct fitter *f, const struct op_samples *samples, enum soc_lane lane,
		    uint32_t *n)
{
	f->rows = calloc(samples->n, sizeof(*f->rows));
	f->index = calloc(samples->n, sizeof(*f->index));
	f->sorted = calloc(samples->n, sizeof(*f->sorted));
	f->p = calloc(1, sizeof(*f->p));
	*n = 0;
	if (!f->rows || !f->index || !f->sorted || !f->p)
		return false;
	for (size_t i = 0; i < samples->n; i++) {
		if (samples->v[i].lane != lane)
			continue;
		predictor_shape(f->o, &samples->v[i].op, &f->rows[*n].shape);
		f->rows[*n].ns = samples->v[i].ns;
		f->index[*n] = *n;
		++*n;
	}
	return true;
}

static void whisper(struct fitter *f, uint32_t n)
{
	struct sums all = { 0 };

	for (uint32_t i = 0; i < n; i++)
		count(f, &all, &f->rows[i], 1);
	add_sums(&f->whisper, &all, WHISPER / n);
}

int predictor_fit(const struct op_samples *samples, enum soc_lane lane,
		  const struct predictor_options *opts, struct predictor **p)
{
	struct fitter f = { .o = opts };
	uint32_t n = 0;
	int err = 0;

	*p = NULL;
	if (!samples->n || samples->n > UINT32_MAX)
		return tool_fail("%zu samples: nothing can be learned from them", samples->n);
	if (!prepare(&f, samples, lane, &n)) {
		err = tool_fail("no memory to learn from %zu samples", samples->n);
	} else if (!n) {
		err = tool_fail("none of the %zu samples is of lane %s", samples->n,
				soc_lane_name(lane));
	} else {
		f.p->info = (struct predictor_info){ .lane = lane, .options = *opts, .samples = n };
		memcpy(f.p->info.source, samples->source, sizeof(f.p->info.source));
		whisper(&f, n);
		grow(&f, 0, n, 0, 0);
		if (f.no_memory)
			err = tool_fail("no memory for a tree over %u samples", n);
	}
	free(f.rows);
	free(f.index);
	free(f.sorted);
	if (err) {
		predictor_free(f.p);
		return err;
	}
	predictor_count(f.p);
	*p = f.p;
	return 0;
}
