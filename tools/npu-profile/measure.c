// SPDX-License-Identifier: MIT
/* npu-profile measure: the times of a list of matmuls. */
#include <stdio.h>

#include "npu-profile.h"
#include "tool.h"

static const unsigned int default_rows[] = { 1, 8, 32, 64, 128, 256, 512 };

/* Adds the matmuls of one lane, type and order. */
static int add_matmuls(const struct profile_args *a, enum soc_lane lane, enum llm_weights weights,
		       enum npu_time_order order, struct op_samples *s)
{
	struct op_profile_random random = a->random;
	bool given = a->rows.n;
	int err = 0;

	random.seed = a->seed;
	if (a->shape)
		err = op_profile_grid(a->shape, given ? a->rows.v : default_rows,
				      given ? a->rows.n
					    : sizeof(default_rows) / sizeof(default_rows[0]),
				      lane, weights, order, s);
	if (!err && random.n)
		err = op_profile_random(&random, lane, weights, order, s);
	return err;
}

static int add_all(const struct profile_args *a, struct op_samples *s)
{
	size_t nr_lanes = a->lanes.n ? a->lanes.n : 1, nr_weights = a->weights.n ? a->weights.n : 1;
	int err = 0;

	for (size_t l = 0; l < nr_lanes; l++) {
		enum soc_lane lane = a->lanes.n ? a->lanes.v[l] : SOC_NPU;
		/* Only the NPU has orders. */
		size_t nr_orders = lane == SOC_NPU && a->orders.n ? a->orders.n : 1;

		for (size_t w = 0; w < nr_weights; w++)
			for (size_t o = 0; o < nr_orders && !err; o++)
				err = add_matmuls(a, lane,
						  a->weights.n ? a->weights.v[w] : LLM_WEIGHTS_W8A8,
						  lane == SOC_NPU && a->orders.n
							  ? a->orders.v[o]
							  : NPU_TIME_WEIGHTS_STATIONARY,
						  s);
	}
	return err;
}

static int measure(const struct profile_args *a, struct op_samples *s)
{
	struct soc *p;
	char why[512];

	if (a->wall)
		return op_profile_wall(&a->device, s);
	p = soc_load(a->profile ? a->profile : "sd8gen3", why, sizeof(why));
	if (!p)
		return tool_fail("%s", why);
	op_profile_virtual(p, s);
	soc_free(p);
	return 0;
}

static int check(const struct profile_args *a)
{
	if (!a->shape && !a->random.n)
		return tool_usage(
			"measure: what? --shape NAME gives a model's matmuls, --random N random "
			"ones");
	if (a->rows.n && !a->shape)
		return tool_usage("--rows goes with --shape");
	if (a->wall && a->profile)
		return tool_usage("--profile has no wall clock");
	if (!a->wall && (a->device.transport != NPU_TRANSPORT_AUTO || a->device.threads))
		return tool_usage("--transport and --npu-threads go with --clock wall");
	return 0;
}

int npu_profile_measure(const struct profile_args *a)
{
	struct op_samples s = { 0 };
	FILE *f = NULL;
	int status = check(a);

	status = status ?: add_all(a, &s);
	/* Opened before the measurement, which takes minutes. */
	if (!status && !(f = npu_profile_open(a->out)))
		status = 1;
	status = status ?: measure(a, &s);
	if (!status)
		op_samples_write(&s, f);
	if (f)
		status = npu_profile_close(f, a->out, status);
	op_samples_free(&s);
	return status;
}
