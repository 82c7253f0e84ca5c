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

/* Streamed rows X[r][k] and the stationary S[k][c]. */
struct operands {
	uint64_t r, k, c;
};

static struct operands operands_of(const struct npu_time_matmul *op)
{
	if (op->order == NPU_TIME_WEIGHTS_STREAMED)
		return (struct operands){ op->n, op->k, op->m };
	return (struct operands){ op->m, op->k, op->n };
}

static double padded(uint64_t n, double granule)
{
	return (double)div_up(n, (uint64_t)granule) * granule;
}

/* How often S is loaded. */
static double loads(const struct soc_npu *npu, enum npu_time_type type, const struct operands *x)
{
	double column = padded(x->k, npu->array_rows) * type_bytes(type);
	bool stays = column <= npu->hold_column_kib * 1024 &&
		     column * padded(x->c, npu->array_cols) <= npu->onchip_mib * (1 << 20);

	if (stays)
		return 1;
	return (double)div_up((uint64_t)padded(x->r, npu->row_granule), (uint64_t)npu->hold_rows);
}

static uint64_t common_multiple(uint64_t a, uint64_t b)
{
	uint64_t x = a, y = b, rest;

	while (y) {
		rest = x % y;
		x = y;
		y = rest;
	}
	return a / x * b;
}

/* Lines of @op's rows that begin within a granule. */
static double line_fetches(const struct soc_npu *npu, const struct npu_time_matmul *op)
{
	uint64_t granule = (uint64_t)npu->row_granule;

	if (!op->width || op->order == NPU_TIME_WEIGHTS_STREAMED)
		return 0;
	return (double)((op->m - 1) / op->width -
			(op->m - 1) / common_multiple(op->width, granule));
}

static double arrays_ns(const struct soc_npu *npu, enum npu_time_type type,
			const struct operands *x, double times, double fetches)
{
	double k = padded(x->k, npu->array_rows), c = padded(x->c, npu->array_cols);
	double tiles = k / npu->array_rows * c / npu->array_cols;
	/* The last row has to pass the whole array before the next tile may come. */
	double drain = (npu->array_rows + npu->array_cols) / npu->arrays;

	return times * k * c * type_bytes(type) / npu->load_gbps +
	       cycles_ns(npu, tiles * (padded(x->r, npu->row_granule) * row_cycles(npu, type) +
				       times * drain)) +
	       tiles * fetches * npu->line_ns;
}

/* Weights that are not as wide as what the arrays take, as often as they are loaded. */
static double widen_ns(const struct soc_npu *npu, const struct npu_time_matmul *op, double times)
{
	if (op->weight_bits >= 8 * type_bytes(op->type))
		return 0;
	return times * (double)op->k * (double)op->n / npu->widen_gelems;
}

/* One number for each group of each result. */
static double group_sums_ns(const struct soc_npu *npu, const struct npu_time_matmul *op)
{
	if (!op->group || op->type != NPU_TIME_I8)
		return 0;
	return (double)op->m * (double)op->n * (double)div_up(op->k, op->group) / npu->group_gsums;
}

struct npu_cost npu_time_matmul(const struct soc_npu *npu, const struct npu_time_matmul *op)
{
	const struct operands x = operands_of(op);
	bool streamed = op->order == NPU_TIME_WEIGHTS_STREAMED;
	bool by_rows = op->m <= npu->gemv_rows && !op->dynamic;
	bool in_arrays = op->type != NPU_TIME_F16_EMULATED && !by_rows;
	double times = in_arrays ? loads(npu, op->type, &x) : 1;
	double heads = op->heads ? op->heads : 1, weights = (double)op->k * (double)op->n;
	double weight_bytes = weights * op->weight_bits / 8;
	double act_bytes = (double)op->m * (double)op->k * type_bytes(op->type);
	struct npu_cost cost = {
		.dram_bytes = weight_bytes * (streamed ? 1 : times) +
			      act_bytes * (streamed ? times : 1) +
			      (double)op->m * (double)op->n * RESULT_BYTES(op->type),
	};

	if (op->type == NPU_TIME_F16_EMULATED)
		cost.ns = weights * npu->f16_emulated_ns;
	else if (by_rows)
		cost.ns = (double)op->m * weights / npu->gemv_gmacs;
	else
		cost.ns = arrays_ns(npu, op->type, &x, times, line_fetches(npu, op));
	if (in_arrays)
		cost.ns += widen_ns(npu, op, streamed ? 1 : times) + group_sums_ns(npu, op);
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

double npu_time_optimize_ns(const struct soc_npu *npu, double elements)
{
	return elements * npu->optimize_ns;
}

double npu_time_elements(uint64_t m, uint64_t k, uint64_t n)
{
	return (double)k * (double)n + (double)m * ((double)k + (double)n);
}
