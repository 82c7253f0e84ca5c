// SPDX-License-Identifier: MIT
#include "waits.h"

#include <stdlib.h>

static bool known(enum soc_lane lane, unsigned int op, unsigned int slice)
{
	return (unsigned int)lane < SOC_NR_LANES && op < WAITS_OPS && slice < WAITS_SLICES;
}

const struct expect *waits_of(const struct waits *w, enum soc_lane lane, unsigned int op,
			      unsigned int slice)
{
	return known(lane, op, slice) ? &w->by[lane][op][slice] : NULL;
}

void waits_learn(struct waits *w, enum soc_lane lane, unsigned int op, unsigned int slice,
		 const struct wait_sample *sample)
{
	if (!known(lane, op, slice))
		return;
	expect_learn(&w->by[lane][op][slice], sample->took_ns, sample->overslept);
	sleeps_forget(&w->sleeps, sample->took_ns);
	if (!sample->predicted_ns)
		return;
	w->samples[w->nr_samples++ % WAITS_SAMPLES] = *sample;
	w->nr_overslept += sample->overslept;
}

void waits_slept(struct waits *w, uint64_t asked_ns, uint64_t took_ns)
{
	w->slept_ns += took_ns;
	sleeps_learn(&w->sleeps, (int64_t)asked_ns, (int64_t)took_ns);
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
