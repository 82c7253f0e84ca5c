/* SPDX-License-Identifier: MIT */
/*
 * Predicted waits (HeteroLLM 4.2): a forward pass does the same operators in every layer, so what
 * one took tells what the next will (expect.h). A prediction is for an operator's slice on a lane.
 */
#ifndef WAITS_H
#define WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "expect.h"
#include "soc_cost.h"

#define WAITS_OPS 32
#define WAITS_SLICES 16
/* The last so many waits are kept. */
#define WAITS_SAMPLES 4096

struct wait_sample {
	/* From the work's beginning, or that of what was before it on the lane. */
	uint32_t predicted_ns, took_ns;
	uint32_t slept_ns; /* of it; 0: polled only */
	bool overslept; /* it had ended when the sleep did */
};

struct waits {
	struct expect by[SOC_NR_LANES][WAITS_OPS][WAITS_SLICES];
	struct wait_sample samples[WAITS_SAMPLES]; /* a ring */
	uint64_t nr_samples, nr_overslept; /* ever */
	uint64_t slept_ns, polled_ns;
	struct sleeps sleeps;
	/* Later than predicted by so much that polling was no use: waited for in the driver. */
	uint64_t nr_given_up;
};

/* What is known of the operator's slice; NULL: there is no room for it. */
const struct expect *waits_of(const struct waits *w, enum soc_lane lane, unsigned int op,
			      unsigned int slice);
/* What it took; and a sample, if there was a prediction. */
void waits_learn(struct waits *w, enum soc_lane lane, unsigned int op, unsigned int slice,
		 const struct wait_sample *sample);
/* A sleep of @asked_ns took @took_ns. */
void waits_slept(struct waits *w, uint64_t asked_ns, uint64_t took_ns);

/*
 * Value at @percent of the kept samples' predicted_ns, took_ns, or their difference; 0 without
 * samples, or without memory.
 */
enum waits_value {
	WAITS_PREDICTED,
	WAITS_TOOK,
	WAITS_LATE,
};
double waits_percentile(const struct waits *w, enum waits_value what, double percent);

#endif /* WAITS_H */
