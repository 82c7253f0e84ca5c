// SPDX-License-Identifier: MIT
#include "npu_time.h"

/* Partial sums are 32 bits wide, and read and written once per tile and row. */
#define SUM_BYTES 8
/* Results leave the chip as F32 or as F16. */
#define RESULT_BYTES(type) ((type) == NPU_TIME_I8 ? 4 : 2)

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

static double type_bytes(enum npu_time_type type)
{
	return type == NPU_TIME_I8 ? 1 : 2;
}

static double cycles_ns(const struct soc_npu *npu, double cycles)
{
	return cycles * 1000 / npu->clock_mhz;
}

/* Cycles of all arrays together for one row past one tile: they compute, or wait to be fed. */
static double row_cycles(const struct soc_npu *npu, enum npu_time_type type)
{
	double rate = type == NPU_TIME_I8 ? 1 : npu->f16_rate;
	double compute = 1 / (npu->arrays * rate);
	double feed = (npu->array_rows * type_bytes(type) + npu->array_cols * SUM_BYTES) /
		      npu->feed_bytes_per_cycle;

	return compute > feed ? compute : feed;
}

double npu_time_peak_tops(const struct soc_npu *npu, enum npu_time_type type)
{
	return 2 * npu->array_rows * npu->array_cols * npu->arrays *
	       (type == NPU_TIME_I8 ? 1 : npu->f16_rate) * npu->clock_mhz / 1e6;
}

/* [m][k] streamed past a stationary [k][n]. */
static double arrays_ns(const struct soc_npu *npu, enum npu_time_type type, uint64_t m, uint64_t k,
			uint64_t n)
{
	uint64_t rows = div_up(m, (uint64_t)npu->row_granule) * (uint64_t)npu->row_granule;
	uint64_t tiles =
		div_up(k, (uint64_t)npu->array_rows) * div_up(n, (uint64_t)npu->array_cols);
	double load_bytes = (double)tiles * npu->array_rows * npu->array_cols * type_bytes(type);
	/* The last row has to pass the whole array before the next tile may come. */
	double drain = (npu->array_rows + npu->array_cols) / npu->arrays;

	return load_bytes / npu->load_gbps +
	       cycles_ns(npu, (double)tiles * ((double)rows * row_cycles(npu, type) + drain));
}

/*
 * DRAM traffic of a streamed and a stationary operand that do not both fit the chip: either the
 * streamed one is read again for each part of the stationary one that fits half of the chip's
 * memory, or the other way round.
 */
static double traffic(const struct soc_npu *npu, double streamed, double stationary)
{
	double half = npu->onchip_mib * (1 << 20) / 2;
	double again_streamed, again_stationary;

	if (streamed <= half || stationary <= half)
		return streamed + stationary;
	again_streamed =
		streamed * (double)div_up((uint64_t)stationary, (uint64_t)half) + stationary;
	again_stationary =
		stationary * (double)div_up((uint64_t)streamed, (uint64_t)half) + streamed;
	return again_streamed < again_stationary ? again_streamed : again_stationary;
}

struct npu_cost npu_time_matmul(const struct soc_npu *npu, const struct npu_time_matmul *op)
{
	double heads = op->heads ? op->heads : 1;
	double weights = (double)op->k * (double)op->n;
	double weight_bytes = weights * op->weight_bits / 8;
	double act_bytes = (double)op->m * (double)op->k * type_bytes(op->type);
	bool streamed = op->order == NPU_TIME_WEIGHTS_STREAMED;
	struct npu_cost cost = { 0, 0 };

	cost.dram_bytes = streamed ? traffic(npu, weight_bytes, act_bytes)
				   : traffic(npu, act_bytes, weight_bytes);
	cost.dram_bytes += (double)op->m * (double)op->n * RESULT_BYTES(op->type);
	if (op->type == NPU_TIME_F16_EMULATED)
		cost.ns = weights * npu->f16_emulated_ns;
	else if (op->m <= npu->gemv_rows && !op->dynamic)
		cost.ns = (double)op->m * weights / npu->gemv_gmacs;
	else if (streamed)
		cost.ns = arrays_ns(npu, op->type, op->n, op->k, op->m);
	else
		cost.ns = arrays_ns(npu, op->type, op->m, op->k, op->n);
	if (op->widened)
		cost.ns += weights / npu->dequant_gelems;
	if (op->dynamic)
		cost.ns += weights * npu->dynamic_ns;
	cost.ns *= heads;
	cost.dram_bytes *= heads;
	if (op->dynamic)
		cost.ns += npu->dynamic_setup_us * 1000;
	return cost;
}

struct npu_cost npu_time_attention(const struct soc_npu *npu, const struct npu_time_attention *op)
{
	struct npu_time_matmul qk = {
		.m = op->rows,
		.k = op->head_dim,
		.n = (uint64_t)(op->ctx + 0.5),
		.type = op->type,
		.weight_bits = op->kv_bits ? op->kv_bits : type_bytes(op->type) * 8,
		.widened = op->kv_bits && op->kv_bits < type_bytes(op->type) * 8,
		.dynamic = true,
		.heads = (unsigned int)op->heads,
	};
	struct npu_time_matmul pv = qk;
	struct npu_cost cost = npu_time_matmul(npu, &qk), add;

	if (op->scores_only)
		return cost;
	pv.k = qk.n;
	pv.n = qk.k;
	add = npu_time_matmul(npu, &pv);
	cost.ns += add.ns + (double)op->rows * (double)op->heads * op->ctx * FLOAT_OPS_SOFTMAX /
				    npu->vector_gelems;
	cost.dram_bytes += add.dram_bytes;
	return cost;
}

double npu_time_alone_ns(const struct soc_npu *npu, struct npu_cost cost)
{
	double memory = cost.dram_bytes / npu->dram_gbps;

	return cost.ns > memory ? cost.ns : memory;
}

struct npu_cost npu_time_vector(const struct soc_npu *npu, double elements, double operations,
				double bytes)
{
	return (struct npu_cost){ elements * operations / npu->vector_gelems, bytes };
}

double npu_time_build_ns(const struct soc_npu *npu, uint64_t operators)
{
	return npu->build_ms * 1e6 + (double)operators * npu->build_op_us * 1e3;
}

double npu_time_optimize_ns(const struct soc_npu *npu, uint64_t weights)
{
	return (double)weights * npu->optimize_ns;
}
