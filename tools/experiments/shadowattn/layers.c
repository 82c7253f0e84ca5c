// SPDX-License-Identifier: MIT
#include "layers.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "head_ratios.h"
#include "scale_buckets.h"
#include "tool.h"

/* Of the logarithm of scales. */
#define SCALE_SPREAD 0.51

/* ---- random numbers: splitmix64 ---- */

static double uniform(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return (double)((x ^ x >> 31) >> 11) / 0x1p53;
}

/* A sum of twelve is normal enough. */
static double normal(uint64_t *state)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += uniform(state);
	return sum;
}

static double random_importance(uint64_t *state)
{
	return pow(10, uniform(state));
}

static float random_scale(uint64_t *state)
{
	return (float)exp(SCALE_SPREAD * normal(state));
}

/* ---- a model's heads ---- */

/* Returns whether there was memory. */
static bool fill_ratios(const struct shape *s, double *ratios, uint64_t *state)
{
	size_t n = (size_t)s->layers * s->heads;
	double *importance = malloc((n + s->layers) * sizeof(*importance));
	const struct head_importance of = { s->layers, s->heads, importance, importance + n };
	const struct head_share share = { LAYERS_MEAN_RATIO, DBL_MAX, 1 };

	if (!importance)
		return false;
	for (size_t i = 0; i < n + s->layers; i++)
		importance[i] = random_importance(state);
	head_ratios(&of, &share, ratios);
	free(importance);
	return true;
}

static void fill_buckets(const struct shape *s, unsigned int *buckets, uint64_t *state)
{
	double mean = exp(SCALE_SPREAD * SCALE_SPREAD / 2);
	unsigned int per_kv = s->heads / s->kv_heads;
	struct scale_buckets b;
	float k = 0;

	scale_buckets_init(&b, SCALE_BUCKETS_DEFAULT, mean, mean, SCALE_BUCKETS_SIGMA);
	for (size_t i = 0; i < (size_t)s->layers * s->heads; i++) {
		if (i % per_kv == 0)
			k = random_scale(state);
		buckets[i] = scale_buckets_pick(&b, random_scale(state), k);
	}
}

int layers_create(struct layers *layers, const struct shape *s, uint64_t seed)
{
	size_t n = (size_t)s->layers * s->heads;

	layers->ratios = malloc(n * sizeof(*layers->ratios));
	layers->buckets = malloc(n * sizeof(*layers->buckets));
	if (!layers->ratios || !layers->buckets || !fill_ratios(s, layers->ratios, &seed)) {
		return tool_fail("no memory for heads");
	}
	fill_buckets(s, layers->buckets, &seed);
	return 0;
}

void layers_free(struct layers *layers)
{
	free(layers->ratios);
	free(layers->buckets);
}

/* ---- stage times ---- */

static double alone_ns(const struct place *place, enum soc_lane lane, const struct soc_op *op)
{
	return soc_alone_ns(place->soc, lane, soc_op_cost(place->soc, lane, op));
}

static unsigned int rows_of(const struct layers_setting *setting)
{
	unsigned int chunk = setting->place->args->chunk;

	return chunk < setting->tokens ? chunk : setting->tokens;
}

void layers_set_npu(const struct layers_setting *setting, double npu_ns[HEAD_PLAN_MAX_FUSED])
{
	const struct place *place = setting->place;
	enum soc_sync sync =
		place->args->choices.sync == LLM_SYNC_FAST ? SOC_SYNC_FAST : SOC_SYNC_DRIVER;

	for (unsigned int n = 1; n <= HEAD_PLAN_MAX_FUSED; n++) {
		/* Without a mask: all positions so far. */
		const struct soc_op op = { .kind = SOC_QK_ESTIMATE,
					   .m = rows_of(setting),
					   .k = place->shape->head_dim,
					   .n = n,
					   .ctx = setting->tokens,
					   .act_bits = 8,
					   .kv_heads = n };

		/* Graphs of 1, 2, 4 and 8 heads */
		npu_ns[n - 1] =
			n & (n - 1) ? 0
				    : soc_npu_start_ns(place->soc, sync, false) +
					      alone_ns(place, SOC_NPU, &op) +
					      soc_handover_ns(place->soc, SOC_NPU, SOC_CPU, sync);
	}
}

void layers_set_heads(const struct layers_setting *setting, const struct layers *layers,
		      unsigned int layer, struct head_plan_head *heads)
{
	const struct place *place = setting->place;
	size_t first = (size_t)layer * place->shape->heads;
	struct soc_op op = {
		.m = rows_of(setting),
		.k = place->shape->head_dim,
		.n = 1,
		/* With the mask: a chunk's queries see half of it on average. */
		.ctx = setting->tokens - (rows_of(setting) - 1) / 2.0,
		.act_bits = 16,
		.kv_heads = 1,
	};

	for (unsigned int i = 0; i < setting->n_heads; i++) {
		struct head_plan_head *h = &heads[i];

		op.density = layers->ratios[first + i];
		op.kind = SOC_TOPK;
		h->topk_ns = soc_cpu_start_ns(place->soc) + alone_ns(place, SOC_CPU, &op);
		op.kind = SOC_ATTENTION;
		h->qkv_ns = soc_cpu_start_ns(place->soc) + alone_ns(place, SOC_CPU, &op);
		h->bucket = layers->buckets[first + i];
		if (setting->shared) {
			h->qkv_ns += h->topk_ns;
			h->topk_ns = 0;
		}
	}
}
