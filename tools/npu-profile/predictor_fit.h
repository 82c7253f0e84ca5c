/* SPDX-License-Identifier: MIT */
/*
 * Learns a predictor (predictor.h) from samples (op_samples.h), tests it, and writes its file.
 *
 *	predictor_fit(&samples, SOC_NPU, &opts, &p);
 *	predictor_save(p, "npu.model");
 *
 * The fit minimises relative errors: it fits constants to the logarithms of the times, and sums to
 * the times with weights 1 / time^2. Coefficients are never negative, so a leaf's time neither
 * falls when the work grows nor becomes negative far from the samples. M5's estimate of the error,
 * error * (n + v) / (n - v) for n samples and v coefficients, rejects splits and coefficients that
 * do not pay; a split without gain is kept if those below it make up for it. Coefficients that a
 * leaf's own samples leave open are fitted to all samples.
 *
 * Functions that can fail return 0, or 1 after a message (tool.h).
 */
#ifndef PREDICTOR_FIT_H
#define PREDICTOR_FIT_H

#include "op_samples.h"
#include "predictor.h"

/* Sums of terms, ten samples per leaf, the greatest depth, and HeteroLLM 3.2's tiles of 32. */
struct predictor_options predictor_defaults(void);

/* Learns from the samples of @lane; their order only affects rounding. *@p: NULL after an error. */
int predictor_fit(const struct op_samples *samples, enum soc_lane lane,
		  const struct predictor_options *opts, struct predictor **p);

/* Writes a model file. */
int predictor_save(const struct predictor *p, const char *path);

struct predictor_error {
	size_t n;
	double mean, worst; /* |predicted / measured - 1| */
	double r2; /* of the logarithms of the times; 1 if all are equal and predicted */
};
/* The error on the samples of its lane. */
struct predictor_error predictor_test(const struct predictor *p, const struct op_samples *samples);
/*
 * K-fold cross-validation: predicts each of @folds folds with a predictor learned from the others.
 * All samples of one shape, of any type, are in one fold; @seed draws the folds. It fails for fewer
 * shapes than folds, or for less than 2 folds.
 */
int predictor_cross_validate(const struct op_samples *samples, enum soc_lane lane,
			     const struct predictor_options *opts, uint32_t folds, uint64_t seed,
			     struct predictor_error *error);

#endif /* PREDICTOR_FIT_H */
