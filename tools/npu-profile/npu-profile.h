/* SPDX-License-Identifier: MIT */
/*
 * npu-profile: the times of operators, measured and predicted.
 *
 *	npu-profile.c	the verbs and the command line
 *	measure.c	samples, on the wall clock or a SoC's virtual clock
 *	op_profile*.c	lists of matmuls, and their measurement
 *	fit.c		a predictor from samples; its predictions
 *	predictor_*.c	learning a predictor, its errors, its file
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
	const char *out; /* -o; NULL: stdout, or no file */
	bool wall; /* --clock wall */
	const char *profile; /* a name or a file; NULL: the default one */
	const char *shape;
	struct op_profile_random random; /* n 0: none */
	struct range rows, lanes, weights, orders; /* values of the enums */
	struct npu_device_options device;
	uint64_t seed;
	uint32_t folds;
	struct predictor_options fit; /* only the fields in fit_given are set */
	unsigned int fit_given;
};

/* Bits of profile_args.fit_given. */
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

/* Opens @path for writing; NULL is stdout. NULL after a message. */
FILE *npu_profile_open(const char *path);
/* Returns @status, or 1 after a message if the file is incomplete. */
int npu_profile_close(FILE *f, const char *path, int status);

#endif /* NPU_PROFILE_H */
