// SPDX-License-Identifier: MIT
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate.h"
#include "engine.h"
#include "head_ratios.h"
#include "llm_fail.h"

/* The loss of a window so far. */
struct loss {
	const int32_t *ids;
	unsigned int window, n_vocab;
	double nats;
};

/* The logits of token @i say how likely the next one was. */
static void add_loss(void *ud, size_t i, const float *logits)
{
	struct loss *l = ud;
	float most = logits[0];
	double sum = 0;

	if (i + 1 == l->window)
		return;
	for (unsigned int v = 1; v < l->n_vocab; v++)
		most = logits[v] > most ? logits[v] : most;
	for (unsigned int v = 0; v < l->n_vocab; v++)
		sum += (double)expf(logits[v] - most);
	l->nats += log(sum) + (double)most - (double)logits[l->ids[i + 1]];
}

/* Of the whole text, a token. */
static int measure(const struct calibrate_text *t, double *loss)
{
	double nats = 0;
	int err = 0;

	for (unsigned int w = 0; !err && w < t->n_windows; w++) {
		struct loss l = {
			.ids = t->ids + (size_t)w * t->window,
			.window = t->window,
			.n_vocab = t->session->engine->info.n_vocab,
		};

		err = llm_session_truncate(t->session, 0);
		if (!err)
			err = llm_session_eval_all(t->session, l.ids, t->window, add_loss, &l);
		nats += l.nats;
	}
	*loss = nats / ((double)t->n_windows * (t->window - 1));
	return err;
}

static int report(const struct calibrate_text *t, const char *of, unsigned int run, unsigned int n)
{
	char what[64];

	snprintf(what, sizeof(what), "calibrating %s: %u of %u", of, run, n);
	return t->evaluated(t->ud, t->n_windows, what);
}

/* The paper's first: others must be better. */
static const double limits[] = { HEAD_RATIOS_LIMIT, 1e-4, 3e-4, 3e-3, 1e-2, 3e-2, 1e-1, 1 };
#define NR_LIMITS (sizeof(limits) / sizeof(limits[0]))

unsigned int calibrate_times(const struct attention_stats *s)
{
	unsigned int heads = s->layers * s->heads;

	return 1 + heads + s->layers + 1 + heads;
}

unsigned int calibrate_limits_times(void)
{
	return 2 * NR_LIMITS;
}

int calibrate_heads(const struct calibrate_text *t, struct attention_stats *s)
{
	unsigned int heads = s->layers * s->heads, n = heads + s->layers;
	struct lane_removed *removed = &t->session->memory.removed;
	double all, without;
	int err = measure(t, &all);

	if (!err)
		err = report(t, "heads and layers", 0, n);
	for (unsigned int i = 0; i < n && !err; i++) {
		bool head = i < heads;

		*removed = (struct lane_removed){
			.what = head ? LANE_REMOVED_HEAD : LANE_REMOVED_LAYER,
			.layer = head ? i / s->heads : i - heads,
			.head = head ? i % s->heads : 0,
		};
		err = measure(t, &without);
		if (head)
			s->head_importance[i] = without - all;
		else
			s->layer_importance[i - heads] = without - all;
		if (!err)
			err = report(t, "heads and layers", i + 1, n);
	}
	removed->what = LANE_REMOVED_NOTHING;
	return err;
}

/* ---- with sparse attention ---- */

/* What the other heads have, as a share of the mean ratio: about what is left to those without a
 * gain when some have all keys. */
#define FEW_KEYS 0.25

int calibrate_gains(const struct calibrate_text *t, struct attention_stats *s)
{
	struct attention *a = t->session->engine->attention;
	unsigned int n = s->layers * s->heads;
	double few = FEW_KEYS * a->ratio;
	double all, with;
	int err;

	for (unsigned int i = 0; i < n; i++)
		a->ratios[i] = few;
	err = measure(t, &all);
	if (!err)
		err = report(t, "gains of heads", 0, n);
	for (unsigned int i = 0; i < n && !err; i++) {
		a->ratios[i] = 1;
		err = measure(t, &with);
		a->ratios[i] = few;
		s->head_gain[i] = all - with;
		if (!err)
			err = report(t, "gains of heads", i + 1, n);
	}
	return err;
}

/* With the ratios of this limit. */
static int measure_limit(const struct calibrate_text *t, const struct head_importance *of,
			 double limit, double *loss)
{
	struct attention *a = t->session->engine->attention;
	const struct head_share share = { a->ratio, limit, ATTENTION_WHOLE };
	int err = head_ratios(of, &share, a->ratios);

	return err ? err : measure(t, loss);
}

static int choose_limit(const struct calibrate_text *t, const struct head_importance *of,
			double *limit)
{
	double least = INFINITY, loss;
	int err = 0;

	for (unsigned int i = 0; i < NR_LIMITS && !err; i++) {
		err = measure_limit(t, of, limits[i], &loss);
		if (!err && loss < least) {
			least = loss;
			*limit = limits[i];
		}
		if (!err)
			err = report(t, "ratios", i + 1, NR_LIMITS);
	}
	return err;
}

int calibrate_limits(const struct calibrate_text *t, struct attention_stats *s)
{
	const struct head_importance importance = { s->layers, s->heads, s->head_importance,
						    s->layer_importance };
	const struct head_importance gains = { s->layers, s->heads, s->head_gain, NULL };
	int err = choose_limit(t, &importance, &s->limit);

	return err ? err : choose_limit(t, &gains, &s->gain_limit);
}
