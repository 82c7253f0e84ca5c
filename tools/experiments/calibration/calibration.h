/* SPDX-License-Identifier: MIT */
/*
 * Calibration: what papers have published of a SoC beside what a profile's model says of it.
 *
 * A row is of one of three kinds:
 *
 *	parameter	a number of the profile, which the model repeats by construction
 *	fitted		a published figure that has fixed a number of the
 *			profile, which the row names
 *	predicted	follows from the model, and has fixed nothing
 *
 * Only predicted rows say how good the model is. What is true of the model by construction, as
 * that an array's stages are as wide as the array, is no row.
 *
 * Where the source leaves a size open there is a row for each of several sizes, and they count as
 * one characteristic with the mean of their errors. Where it gives a range, the error is the
 * distance to the nearer end of it, and 0 inside.
 */
#ifndef CALIBRATION_H
#define CALIBRATION_H

#include <stdbool.h>
#include <stddef.h>

#include "soc.h"

enum calibration_kind {
	CALIBRATION_PARAMETER,
	CALIBRATION_FITTED,
	CALIBRATION_PREDICTED,
	CALIBRATION_NR_KINDS,
};
const char *calibration_kind_name(enum calibration_kind kind); /* "parameter", ... */

struct calibration_row {
	enum calibration_kind kind;
	const char *name; /* what was measured; rows of one characteristic follow one another */
	const char *source; /* where it is published */
	const char *unit;
	double low, high; /* published; the same twice if it is no range */
	double modelled;
	unsigned int rows; /* of the matmul, where the source leaves that open; 0: it does not */
	/* FITTED: the numbers of the profile that it has fixed; else what the source does not say
	 * and the model had to, or NULL. */
	const char *note;
};
/* Relative to the published figure; below 0 the model says less. */
double calibration_error(const struct calibration_row *row);

struct calibration_sum {
	size_t n; /* characteristics */
	double mean, worst; /* of the absolute errors; worst is that of a single row */
	const struct calibration_row *worst_row;
};

struct calibration {
	struct calibration_row *rows;
	size_t n;
	struct calibration_sum sums[CALIBRATION_NR_KINDS];
};

/* What is published of the SoC that the profile is named after; no rows if nothing is. 0; -ENOMEM;
 * -ENOENT a shape that a row needs cannot be read. */
int calibration_make(const struct soc *p, struct calibration *c);
void calibration_free(struct calibration *c);

#endif /* CALIBRATION_H */
