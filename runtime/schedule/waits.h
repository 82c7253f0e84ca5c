/* SPDX-License-Identifier: MIT */
/*
 * Predicted waits (HeteroLLM 4.2): a forward pass does the same operators in every layer, so what one took tells what the next
 * will. Whoever waits sleeps for most of that time, since a sleep's end is known to some tens of microseconds only, and polls for
 * the rest.
 *
 * A prediction is for an operator's slice on a lane. It is the running mean of what those before it took, so that a change is
 * followed within a few layers.
 */
#ifndef WAITS_H
#define WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "soc.h"

#define WAITS_OPS 32
#define WAITS_SLICES 16
/* The last so many waits are kept. */
#define WAITS_SAMPLES 4096

struct wait_sample {
	uint32_t predicted_ns, took_ns; /* from the work's beginning, or that of what was before it on the lane */
	uint32_t slept_ns; /* of it; 0: polled only */
	bool overslept; /* it had ended when the sleep did */
};

struct waits {
	struct {
		float mean_ns;
		uint32_t n; /* learned from */
	} by[SOC_NR_LANES][WAITS_OPS][WAITS_SLICES];
	struct wait_sample samples[WAITS_SAMPLES]; /* a ring */
	uint64_t nr_samples, nr_overslept; /* ever */
	uint64_t slept_ns, polled_ns;
	double sleep_error_ns; /* sleeps end so much later than they were to; 0: not known yet */
	uint64_t nr_given_up; /* later than predicted by so much that polling was no use: waited for in the driver */
};

/* 0: nothing is known. */
uint64_t waits_predict(const struct waits *w, enum soc_lane lane, unsigned int op, unsigned int slice);
/* What it took; and a sample, if there was a prediction. Of what was overslept the end is not known, only that the prediction was
 * too long: it is taken back until ends are seen again. */
void waits_learn(struct waits *w, enum soc_lane lane, unsigned int op, unsigned int slice,
		 const struct wait_sample *sample);

/* Value at @percent of the kept samples' predicted_ns, took_ns, or their difference; 0 without samples, or without memory. */
enum waits_value {
	WAITS_PREDICTED,
	WAITS_TOOK,
	WAITS_LATE,
};
double waits_percentile(const struct waits *w, enum waits_value what, double percent);

/*
 * How long to sleep and poll when the predicted end is @left_ns away (below 0: past). A sleep ends late, by 80 to 100 us on a phone
 * (HeteroLLM 4.2), by milliseconds on a host whose CPUs are busy: @w learns how late, and sleeps the less.
 */
#define WAITS_SLEEP_ERROR_NS 80000 /* as long as nothing is known */
#define WAITS_MIN_SLEEP_NS 60000 /* less is not worth it */
int64_t waits_sleep_ns(const struct waits *w, int64_t left_ns, uint64_t predicted_ns); /* 0: poll */
void waits_slept(struct waits *w, uint64_t asked_ns, uint64_t took_ns);
/* When polling is given up: so long after the predicted end, or, with nothing predicted, after the beginning. */
uint64_t waits_patience_ns(uint64_t predicted_ns);

#endif /* WAITS_H */
