/* SPDX-License-Identifier: MIT */
/*
 * The operator profiler: lists of matmuls and their times. This is the measured mode of HeteroLLM's
 * performance profiler (4.3); predictor.h is the predicted mode.
 *
 *	struct op_samples s = { 0 };
 *	op_profile_grid("llama3-8b", rows, nr_rows, SOC_NPU, weights, order, &s);
 *	op_profile_virtual(profile, &s);
 *
 * Times are on one of two clocks: the virtual clock of a modelled SoC (soc.h), for all its lanes,
 * or the wall clock, for INT8 matmuls that run on the NPU through libnpu.
 */
#ifndef OP_PROFILE_H
#define OP_PROFILE_H

#include "llm.h"
#include "npu.h"
#include "op_samples.h"

/* A matmul that is not measured yet. @weights: the types w8a8, w4a16, ... */
struct op_sample op_profile_matmul(enum soc_lane lane, uint64_t m, uint64_t k, uint64_t n,
				   enum llm_weights weights, enum npu_time_order order);

/* Appends the matmuls of a forward pass of the model @shape (llm_shape_matmuls()), each with each
 * of the @rows. 0, or 1 after a message. */
int op_profile_grid(const char *shape, const unsigned int *rows, size_t nr_rows, enum soc_lane lane,
		    enum llm_weights weights, enum npu_time_order order, struct op_samples *s);

struct op_profile_random {
	size_t n;
	uint64_t seed; /* determines the shapes */
	/* The logarithms of the dimensions are uniform, from 1 row and OP_PROFILE_MIN_KN on. */
	unsigned int max_m, max_k, max_n;
};
#define OP_PROFILE_MIN_KN 32
/* Appends random matmuls. 0, or 1 after a message. */
int op_profile_random(const struct op_profile_random *r, enum soc_lane lane,
		      enum llm_weights weights, enum npu_time_order order, struct op_samples *s);

/* Sets the times of all samples to those on the modelled SoC with no other lane at work.
 * Each is one exact run. */
void op_profile_virtual(const struct soc *p, struct op_samples *s);

/*
 * Measures all samples on an NPU: runs a graph of the matmul with random data until the median of
 * its device time (npu_device_state.busy_ns) is stable, or for half a second. Weights that fit into
 * the host's caches are in them. Other clients of the device disturb the measurement.
 *
 * 0, or 1 after a message: a sample is not of lane npu, INT8 and stationary weights; or an error of
 * libnpu. @device: see npu_device_open().
 */
int op_profile_wall(const struct npu_device_options *device, struct op_samples *s);

#endif /* OP_PROFILE_H */
