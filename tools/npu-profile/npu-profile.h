/* SPDX-License-Identifier: MIT */
/*
 * npu-profile: what operators take, measured and predicted.
 *
 *	npu-profile.c	the verbs and the command line
 *	measure.c	samples, by the wall's clock or a SoC's
 *	op_profile*.c	the products, and what they take
 *	fit.c		a predictor from samples; its predictions
 *	predictor_*.c	learning it, how good it is, its file
 *	curve.c		the three behaviours of HeteroLLM 3.2
 */
#ifndef NPU_PROFILE_H
#define NPU_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "op_profile.h"
#include "predictor_fit.h"
#include "range.h"

struct profile_args {
	const char *out; /* -o; NULL: stdout, or none */
	bool wall; /* --clock */
	const char *profile; /* a name or a file; NULL: the default one */
	const char *shape;
	struct op_profile_random random; /* n = 0: none */
	struct range rows, lanes, weights, orders; /* values of the enums */
	struct npu_device_options device;
	uint64_t seed;
	uint32_t folds;
	struct predictor_options fit; /* what was given; else as fit_given says */
	unsigned int fit_given;
};

/* Which parts of profile_args.fit the command line has set. */
#define FIT_LEAVES (1u << 0)
#define FIT_MAX_DEPTH (1u << 1)
#define FIT_MIN_SAMPLES (1u << 2)
#define FIT_TILE (1u << 3)

/* The verbs. 0, or an exit status after a message. */
int npu_profile_measure(const struct profile_args *args);
int npu_profile_fit(const struct profile_args *args, const char *samples_path);
int npu_profile_predict(const struct profile_args *args, const char *model_path,
			char *const mkn[3]);
int npu_profile_curve(const struct profile_args *args, const char *curve);

/* Opens @path, or takes stdout for NULL; NULL after a message. */
FILE *npu_profile_open(const char *path);
/* @status, or 1 after a message if not all has been written. */
int npu_profile_close(FILE *f, const char *path, int status);

#endif /* NPU_PROFILE_H */
