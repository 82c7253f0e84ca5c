/* SPDX-License-Identifier: MIT */
/*
 * Calibration: what papers have published of a SoC beside what a profile's model says of it.
 *
 * A characteristic is either a parameter of the profile, which the model repeats by construction,
 * or derived: it follows from the model, from numbers that were chosen for more than this one. Only
 * derived ones say how good the model is.
 */
#ifndef CALIBRATION_H
#define CALIBRATION_H

#include <stdbool.h>
#include <stddef.h>

#include "soc.h"

struct calibration_row {
	const char *name; /* what was measured */
	const char *source; /* where it is published */
	const char *unit;
	double published;
	double modelled;
	bool parameter; /* a number of the profile: printed, not counted */
	/* What the source does not say and the model had to; NULL: nothing. */
	const char *assumption;
};

struct calibration {
	struct calibration_row *rows;
	size_t n;
	size_t nr_derived;
	double mean_error, worst_error; /* of the derived ones: |modelled / published - 1| */
};

/* What is published of the SoC that the profile is named after; no rows if nothing is. 0; -ENOMEM;
 * -ENOENT a shape that a row needs cannot be read. */
int calibration_make(const struct soc *p, struct calibration *c);
void calibration_free(struct calibration *c);

#endif /* CALIBRATION_H */
