// SPDX-License-Identifier: MIT
#include "op_profile.h"

#include <math.h>
#include <string.h>

#include "tool.h"

struct op_sample op_profile_matmul(enum soc_lane lane, uint64_t m, uint64_t k, uint64_t n,
				   enum llm_weights weights, enum npu_time_order order)
{
	return (struct op_sample){
		.lane = lane,
		.op = {
			.kind = SOC_MATMUL,
			.m = m,
			.k = k,
			.n = n,
			.weight_bits = llm_weight_bits(weights),
			.group = llm_weight_group(weights),
			.act_bits = llm_act_bits(weights),
			.order = order,
			.density = 1,
		},
	};
}

int op_profile_grid(const char *shape, const unsigned int *rows, size_t nr_rows, enum soc_lane lane,
		    enum llm_weights weights, enum npu_time_order order, struct op_samples *s)
{
	struct llm_matmul matmuls[LLM_MAX_MATMULS];
	unsigned int n;
	int err = llm_shape_matmuls(shape, matmuls, &n) ? tool_fail("%s", llm_error()) : 0;

	for (unsigned int i = 0; i < n && !err; i++)
		for (size_t r = 0; r < nr_rows && !err; r++) {
			struct op_sample v = op_profile_matmul(lane, rows[r], matmuls[i].k,
							       matmuls[i].n, weights, order);

			err = op_samples_add(s, &v);
		}
	return err;
}

/* splitmix64: the same numbers on every host. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint64_t log_uniform(uint64_t *state, double min, double max)
{
	double u = (double)(next_random(state) >> 11) / 9007199254740992.0;
	uint64_t v = (uint64_t)(min * pow((max + 1) / min, u));

	return v > (uint64_t)max ? (uint64_t)max : v;
}

int op_profile_random(const struct op_profile_random *r, enum soc_lane lane,
		      enum llm_weights weights, enum npu_time_order order, struct op_samples *s)
{
	uint64_t state = r->seed;
	int err = 0;

	for (size_t i = 0; i < r->n && !err; i++) {
		uint64_t m = log_uniform(&state, 1, r->max_m);
		uint64_t k = log_uniform(&state, OP_PROFILE_MIN_KN, r->max_k);
		uint64_t n = log_uniform(&state, OP_PROFILE_MIN_KN, r->max_n);
		struct op_sample v = op_profile_matmul(lane, m, k, n, weights, order);

		err = op_samples_add(s, &v);
	}
	return err;
}

void op_profile_virtual(const struct soc *p, struct op_samples *s)
{
	snprintf(s->source, sizeof(s->source), "virtual:%s", p->name);
	/* A comma would begin another column. */
	for (char *c = s->source; (c = strchr(c, ','));)
		*c = '_';
	for (size_t i = 0; i < s->n; i++) {
		struct op_sample *v = &s->v[i];

		v->ns = soc_alone_ns(p, v->lane, soc_op_cost(p, v->lane, &v->op));
		v->mad_ns = 0;
		v->runs = 1;
	}
}
