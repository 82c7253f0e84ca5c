/* SPDX-License-Identifier: MIT */
/*
 * Learning a predictor (predictor.h) from samples (op_samples.h), how good it is, and its file.
 *
 *	predictor_fit(&samples, SOC_NPU, &opts, &p);
 *	predictor_save(p, "npu.model");
 *
 * Relative errors are what is made small: constants are fitted to the logarithms of the times, sums
 * to the times with weights 1 / time^2. No term has a negative coefficient: a leaf's time does not
 * fall when the work grows, and is never negative, however far a shape is from the samples. Splits
 * and coefficients that cost more than they bring are left out, by M5's estimate: error * (n + v) /
 * (n - v) for n samples and v coefficients; a split that brings nothing by itself is kept if those
 * below it are worth both. What a leaf's own samples leave open is decided by all of the samples.
 *
 * Functions that can fail return 0, or 1 after a message (tool.h).
 */
#ifndef PREDICTOR_FIT_H
#define PREDICTOR_FIT_H

#include "op_samples.h"
#include "predictor.h"

/*
 * Sums of terms, ten samples to a leaf, all depth there is, and the tiles of 32 of HeteroLLM 3.2.
 */
struct predictor_options predictor_defaults(void);

/* Learns from the samples of @lane, whose order does not matter but for the rounding. *@p is NULL
 * if none is there, or no memory. */
int predictor_fit(const struct op_samples *samples, enum soc_lane lane,
		  const struct predictor_options *opts, struct predictor **p);

/* Writes a model file. */
int predictor_save(const struct predictor *p, const char *path);

struct predictor_error {
	size_t n;
	double mean, worst; /* |predicted / measured - 1| */
	double r2; /* of the logarithms of the times; 1 where all are alike and met */
};
/* Of the samples of its lane. */
struct predictor_error predictor_test(const struct predictor *p, const struct op_samples *samples);
/*
 * K-fold cross-validation: each of @folds parts is predicted by what is learned from the
 * others. Samples of one shape stay in one part, whatever their types; else parts are drawn at
 * random, the same for the same @seed. It fails if there are fewer different shapes than
 * parts, or less than 2 parts.
 */
int predictor_cross_validate(const struct op_samples *samples, enum soc_lane lane,
			     const struct predictor_options *opts, uint32_t folds, uint64_t seed,
			     struct predictor_error *error);

#endif /* PREDICTOR_FIT_H */
