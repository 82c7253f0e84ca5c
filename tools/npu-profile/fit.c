// SPDX-License-Identifier: MIT
/* npu-profile fit and predict. */
#include <inttypes.h>
#include <stdio.h>

#include "npu-profile.h"
#include "tool.h"

static struct predictor_options options_of(const struct profile_args *a)
{
	struct predictor_options o = predictor_defaults();

	if (a->fit_given & FIT_LEAVES)
		o.leaves = a->fit.leaves;
	if (a->fit_given & FIT_MAX_DEPTH)
		o.max_depth = a->fit.max_depth;
	if (a->fit_given & FIT_MIN_SAMPLES)
		o.min_samples = a->fit.min_samples;
	if (a->fit_given & FIT_TILE) {
		o.tile_m = a->fit.tile_m;
		o.tile_k = a->fit.tile_k;
		o.tile_n = a->fit.tile_n;
	}
	return o;
}

/* Predicts all samples repeatedly for a tenth of a second. */
static double ns_per_prediction(const struct predictor *p, const struct op_samples *s)
{
	uint64_t start = tool_now_ns(), now = start, n = 0;
	double sum = 0;

	while (now - start < 100000000) {
		for (size_t i = 0; i < s->n; i++)
			sum += predictor_ns(p, &s->v[i].op);
		n += s->n;
		now = tool_now_ns();
	}
	/* Keeps the compiler from removing the predictions. */
	__asm__ volatile("" : : "x"(sum));
	return (double)(now - start) / (double)n;
}

static void print_error(const char *what, const struct predictor_error *e)
{
	printf("%-16s  mean %.2f %%, worst %.1f %%, R2 %.5f over %zu samples\n", what,
	       100 * e->mean, 100 * e->worst, e->r2, e->n);
}

static void print_fit(const struct profile_args *a, const struct predictor *p,
		      const struct op_samples *s, const struct predictor_error *unseen)
{
	struct predictor_error seen = predictor_test(p, s);
	struct predictor_info info;

	predictor_info(p, &info);
	printf("%-16s  %s on %s: %s leaves, tiles of %u x %u x %u\n", "predictor",
	       soc_lane_name(info.lane), info.source, predictor_leaves_name(info.options.leaves),
	       info.options.tile_m, info.options.tile_k, info.options.tile_n);
	print_error("cross-validated", unseen);
	print_error("on its samples", &seen);
	printf("%-16s  %u leaves, depth %u\n", "tree", info.leaves, info.depth);
	printf("%-16s  %u folds, seed %" PRIu64 "\n", "validation", a->folds, a->seed);
	printf("%-16s  %.0f ns\n", "one prediction", ns_per_prediction(p, s));
}

int npu_profile_fit(const struct profile_args *a, const char *path)
{
	enum soc_lane lane = a->lanes.n ? a->lanes.v[0] : SOC_NPU;
	struct predictor_options o = options_of(a);
	struct predictor_error error;
	struct op_samples s = { 0 };
	struct predictor *p = NULL;
	int err;

	if (a->lanes.n > 1)
		return tool_usage("--lane: a predictor is for one lane");
	err = op_samples_read(path, &s);
	err = err ?: predictor_fit(&s, lane, &o, &p);
	err = err ?: predictor_cross_validate(&s, lane, &o, a->folds, a->seed, &error);
	if (!err && a->out)
		err = predictor_save(p, a->out);
	if (!err)
		print_fit(a, p, &s, &error);
	predictor_free(p);
	op_samples_free(&s);
	return err;
}

int npu_profile_predict(const struct profile_args *a, const char *path, char *const mkn[3])
{
	static const char *const names[] = { "M", "K", "N" };
	enum llm_weights weights = a->weights.n ? a->weights.v[0] : LLM_WEIGHTS_W8A8;
	enum npu_time_order order = a->orders.n ? a->orders.v[0] : NPU_TIME_WEIGHTS_STATIONARY;
	struct op_sample sample;
	struct predictor *p;
	char why[512];
	uint64_t dim[3];
	int err = 0;

	if (a->weights.n > 1 || a->orders.n > 1)
		return tool_usage("predict takes one of --weights and one of --order");
	for (int i = 0; i < 3 && !err; i++)
		err = tool_parse_u64(names[i], mkn[i], 1, OP_MAX_DIM, &dim[i]);
	if (err)
		return err;
	if (predictor_load(path, &p, why, sizeof(why)))
		return tool_fail("%s", why);
	sample = op_profile_matmul(SOC_NPU, dim[0], dim[1], dim[2], weights, order);
	printf("%.0f ns\n", predictor_ns(p, &sample.op));
	predictor_free(p);
	return 0;
}
