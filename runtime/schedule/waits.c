// SPDX-License-Identifier: MIT
#include "waits.h"

#include <stdlib.h>

/* Weight of the newest in the running mean. */
#define NEWEST 0.25f
/* Of a prediction that was too long, so much is believed. */
#define TOO_LONG 0.75f
/* Weight of the newest sleep's error. */
#define LATER 0.5
#define SOONER 0.004
/* Of a predicted time this part may be wrong either way: it is polled through, but for no longer than a few wake-ups cost. */
#define UNSURE 0.125
#define UNSURE_MOST_NS 200000
/* Polling for longer than a wake-up costs is no gain, and takes a CPU from who is waited for where they are few. */
#define PATIENCE_NS 100000

static bool known(enum soc_lane lane, unsigned int op, unsigned int slice)
{
	return (unsigned int)lane < SOC_NR_LANES && op < WAITS_OPS && slice < WAITS_SLICES;
}

uint64_t waits_predict(const struct waits *w, enum soc_lane lane, unsigned int op, unsigned int slice)
{
	return known(lane, op, slice) ? (uint64_t)w->by[lane][op][slice].mean_ns : 0;
}

void waits_learn(struct waits *w, enum soc_lane lane, unsigned int op, unsigned int slice,
		 const struct wait_sample *sample)
{
	float took_ns = (float)sample->took_ns, most_ns = TOO_LONG * (float)sample->predicted_ns;

	if (!known(lane, op, slice))
		return;
	if (sample->overslept && took_ns > most_ns)
		took_ns = most_ns;
	if (!w->by[lane][op][slice].n++)
		w->by[lane][op][slice].mean_ns = took_ns;
	else
		w->by[lane][op][slice].mean_ns += NEWEST * (took_ns - w->by[lane][op][slice].mean_ns);
	if (!sample->predicted_ns)
		return;
	w->samples[w->nr_samples++ % WAITS_SAMPLES] = *sample;
	w->nr_overslept += sample->overslept;
}

int64_t waits_sleep_ns(const struct waits *w, int64_t left_ns, uint64_t predicted_ns)
{
	double error_ns = w->sleep_error_ns > WAITS_SLEEP_ERROR_NS ? w->sleep_error_ns : WAITS_SLEEP_ERROR_NS;
	double unsure_ns = (double)predicted_ns * UNSURE;
	int64_t sleep_ns;

	unsure_ns = unsure_ns < UNSURE_MOST_NS ? unsure_ns : UNSURE_MOST_NS;
	sleep_ns = left_ns - (int64_t)(unsure_ns + error_ns);
	return sleep_ns < WAITS_MIN_SLEEP_NS ? 0 : sleep_ns;
}

void waits_slept(struct waits *w, uint64_t asked_ns, uint64_t took_ns)
{
	double error_ns = (double)took_ns - (double)asked_ns;

	w->slept_ns += took_ns;
	/* A late one counts at once, and is forgotten slowly. */
	w->sleep_error_ns += (error_ns > w->sleep_error_ns ? LATER : SOONER) * (error_ns - w->sleep_error_ns);
}

uint64_t waits_patience_ns(uint64_t predicted_ns)
{
	return PATIENCE_NS + (predicted_ns / 2 < UNSURE_MOST_NS ? predicted_ns / 2 : UNSURE_MOST_NS);
}

static unsigned int kept(const struct waits *w)
{
	return w->nr_samples < WAITS_SAMPLES ? (unsigned int)w->nr_samples : WAITS_SAMPLES;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double waits_percentile(const struct waits *w, enum waits_value what, double percent)
{
	unsigned int n = kept(w);
	double *v = n ? malloc(n * sizeof(*v)) : NULL, value;

	if (!v)
		return 0;
	for (unsigned int i = 0; i < n; i++) {
		const struct wait_sample *s = &w->samples[i];

		v[i] = what == WAITS_PREDICTED ? s->predicted_ns
		       : what == WAITS_TOOK    ? s->took_ns
					       : (double)s->took_ns - (double)s->predicted_ns;
	}
	qsort(v, n, sizeof(*v), by_value);
	value = v[(unsigned int)(percent / 100 * (n - 1) + 0.5)];
	free(v);
	return value;
}
