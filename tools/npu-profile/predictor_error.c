// SPDX-License-Identifier: MIT
/* Errors of a predictor: on given samples, and by cross-validation. */
#include <math.h>
#include <stdlib.h>

#include "predictor_fit.h"
#include "tool.h"

struct tally {
	struct predictor_error e;
	double sum, squares; /* of the logarithms of the measured times */
	double missed; /* sum of squared differences between predicted and measured logarithms */
};

static void tally_add(struct tally *t, double predicted, double measured)
{
	double error = fabs(predicted / measured - 1), log_measured = log(measured);
	double off = log(predicted) - log_measured;

	t->e.n++;
	t->e.mean += error;
	t->e.worst = error > t->e.worst ? error : t->e.worst;
	t->sum += log_measured;
	t->squares += log_measured * log_measured;
	t->missed += off * off;
}

static struct predictor_error tally_end(const struct tally *t)
{
	struct predictor_error e = t->e;
	double spread;

	if (!e.n)
		return e;
	e.mean /= (double)e.n;
	spread = t->squares - t->sum * t->sum / (double)e.n;
	/* If all times are equal, only rounding is left. */
	if (spread < 1e-9 * (double)e.n)
		e.r2 = t->missed < 1e-9 * (double)e.n;
	else
		e.r2 = 1 - t->missed / spread;
	return e;
}

struct predictor_error predictor_test(const struct predictor *p, const struct op_samples *samples)
{
	struct predictor_info info;
	struct tally t = { 0 };

	predictor_info(p, &info);
	for (size_t i = 0; i < samples->n; i++)
		if (samples->v[i].lane == info.lane)
			tally_add(&t, predictor_ns(p, &samples->v[i].op), samples->v[i].ns);
	return tally_end(&t);
}

/* ---- cross-validation ---- */

static int compare_numbers(double a, double b)
{
	return (a > b) - (a < b);
}

static int compare_shapes(const struct soc_op *a, const struct soc_op *b)
{
	int order = compare_numbers((double)a->m, (double)b->m);

	order = order ?: compare_numbers((double)a->k, (double)b->k);
	return order ?: compare_numbers((double)a->n, (double)b->n);
}

static int compare_samples(const void *a, const void *b)
{
	const struct op_sample *x = a, *y = b;
	int order = compare_shapes(&x->op, &y->op);

	order = order ?: compare_numbers(x->op.act_bits, y->op.act_bits);
	order = order ?: compare_numbers(x->op.weight_bits, y->op.weight_bits);
	order = order ?: compare_numbers(x->op.order, y->op.order);
	return order ?: compare_numbers(x->ns, y->ns);
}

/* xorshift64*; the state must not be 0. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1d;
}

/* Draws a fold for each shape of the sorted samples. Returns the number of shapes. */
static size_t draw_folds(const struct op_samples *s, uint32_t folds, uint64_t seed,
			 uint32_t *fold_of, uint32_t *order)
{
	uint64_t state = seed * 0x9e3779b97f4a7c15 | 1;
	size_t shapes = 0;

	for (size_t i = 0; i < s->n; i++)
		shapes += !i || compare_shapes(&s->v[i - 1].op, &s->v[i].op);
	for (size_t i = 0; i < shapes; i++)
		order[i] = (uint32_t)(i % folds);
	for (size_t i = shapes; i > 1; i--) {
		size_t j = next_random(&state) % i;
		uint32_t swap = order[i - 1];

		order[i - 1] = order[j];
		order[j] = swap;
	}
	for (size_t i = 0, shape = 0; i < s->n; i++) {
		shape += i && compare_shapes(&s->v[i - 1].op, &s->v[i].op);
		fold_of[i] = order[shape];
	}
	return shapes;
}

/* Learns from all samples outside @fold, collected in @learn, and tests on those in it. */
static int validate_fold(const struct op_samples *s, const uint32_t *fold_of, uint32_t fold,
			 enum soc_lane lane, const struct predictor_options *opts,
			 struct op_samples *learn, struct tally *t)
{
	struct predictor *p;
	int err = 0;

	learn->n = 0;
	for (size_t i = 0; i < s->n && !err; i++)
		if (fold_of[i] != fold)
			err = op_samples_add(learn, &s->v[i]);
	err = err ? err : predictor_fit(learn, lane, opts, &p);
	if (err)
		return err;
	for (size_t i = 0; i < s->n; i++)
		if (fold_of[i] == fold)
			tally_add(t, predictor_ns(p, &s->v[i].op), s->v[i].ns);
	predictor_free(p);
	return 0;
}

int predictor_cross_validate(const struct op_samples *samples, enum soc_lane lane,
			     const struct predictor_options *opts, uint32_t folds, uint64_t seed,
			     struct predictor_error *error)
{
	struct op_samples own = { 0 }, learn = { 0 };
	uint32_t *fold_of = NULL, *order = NULL;
	struct tally t = { 0 };
	int err = 0;

	for (size_t i = 0; i < samples->n && !err; i++)
		if (samples->v[i].lane == lane)
			err = op_samples_add(&own, &samples->v[i]);
	if (!err) {
		fold_of = calloc(own.n + 1, sizeof(*fold_of));
		order = calloc(own.n + 1, sizeof(*order));
		if (!fold_of || !order)
			err = tool_fail("no memory to cross-validate %zu samples", own.n);
	}
	if (!err) {
		size_t shapes;

		qsort(own.v, own.n, sizeof(*own.v), compare_samples);
		shapes = folds < 2 ? 0 : draw_folds(&own, folds, seed, fold_of, order);
		if (shapes < folds || folds < 2)
			err = tool_fail(
				"%zu different shapes of lane %s cannot be divided into %u folds",
				shapes, soc_lane_name(lane), folds);
	}
	for (uint32_t fold = 0; fold < folds && !err; fold++)
		err = validate_fold(&own, fold_of, fold, lane, opts, &learn, &t);
	*error = tally_end(&t);
	op_samples_free(&own);
	op_samples_free(&learn);
	free(fold_of);
	free(order);
	return err;
}
