// SPDX-License-Identifier: MIT
#include "soc_cost.h"

#include <math.h>

const char *soc_lane_name(enum soc_lane lane)
{
	static const char *const names[] = { "npu", "gpu", "cpu", "storage" };

	return names[lane];
}

static double act_bytes(const struct soc_op *op)
{
	return op->act_bits / 8.0;
}

/* Weights, activations and results of a matmul, once each. */
static double matmul_bytes(const struct soc_op *op)
{
	return (double)op->k * (double)op->n * op->weight_bits / 8 +
	       (double)op->m * ((double)op->k + (double)op->n) * act_bytes(op);
}

static double scores(const struct soc_op *op)
{
	return (double)op->m * (double)op->n * op->ctx;
}

/* Q K^T and P V over the positions that are kept, a multiply-add counted twice. */
static double attention_flops(const struct soc_op *op)
{
	return 4 * scores(op) * (double)op->k * op->density;
}

/* Queries, results, and the cache once. */
static double attention_bytes(const struct soc_op *op)
{
	double kv_bytes = op->kv_bits ? op->kv_bits / 8 : act_bytes(op);

	return 2 * (double)op->k *
	       (act_bytes(op) * (double)op->m * (double)op->n + kv_bytes * op->ctx * op->kv_heads);
}

/* Scores, and 32 bits for each position that is kept. */
static double topk_bytes(const struct soc_op *op)
{
	return scores(op) * (act_bytes(op) + 4 * op->density);
}

static struct soc_cost gpu_cost(const struct soc_gpu *gpu, const struct soc_op *op)
{
	double flops = 2 * (double)op->k * (double)op->n, gemm, gemv;

	switch (op->kind) {
	case SOC_MATMUL:
		/*
		 * Rate m / (m + half_rows) of the whole; or row by row, which short batches prefer.
		 */
		gemm = flops * ((double)op->m + gpu->half_rows) / gpu->tflops / 1e3;
		gemv = flops * (double)op->m / gpu->gemv_tflops / 1e3;
		return (struct soc_cost){ gemm < gemv ? gemm : gemv, matmul_bytes(op) };
	case SOC_ATTENTION:
		return (struct soc_cost){ attention_flops(op) / gpu->tflops / 1e3 +
						  scores(op) * op->density * FLOAT_OPS_SOFTMAX /
							  gpu->vector_gelems,
					  attention_bytes(op) };
	case SOC_QK_ESTIMATE:
		return (struct soc_cost){ 2 * scores(op) * (double)op->k / gpu->tflops / 1e3,
					  attention_bytes(op) / 2 };
	case SOC_TOPK:
		return (struct soc_cost){ scores(op) * FLOAT_OPS_TOPK / gpu->vector_gelems,
					  topk_bytes(op) };
	default:
		return (struct soc_cost){ (double)op->m * (double)op->n * op->ops /
						  gpu->vector_gelems,
					  2 * (double)op->m * (double)op->n * act_bytes(op) };
	}
}

/* INT8 dot products; deep ones whose panels leave the cache lose in proportion. */
static double cpu_matmul_ns(const struct soc_cpu *cpu, const struct soc_op *op)
{
	double flops = 2 * (double)op->m * (double)op->k * (double)op->n;
	double depth = (double)op->k > cpu->panel_k ? (double)op->k / cpu->panel_k : 1;

	if (op->act_bits > 8)
		return flops / cpu->f16_gflops;
	return (double)op->m * (double)op->k * cpu->pack_ns + flops * depth / cpu->int8_tops / 1e3;
}

/* By the four fastest cores. */
static struct soc_cost four_cores_cost(const struct soc_cpu *cpu, const struct soc_op *op)
{
	double gather = op->density < 1 ? cpu->gather : 1;

	switch (op->kind) {
	case SOC_MATMUL:
		return (struct soc_cost){ cpu_matmul_ns(cpu, op), matmul_bytes(op) };
	case SOC_ATTENTION:
		return (struct soc_cost){ gather * attention_flops(op) / cpu->f16_gflops +
						  scores(op) * op->density * FLOAT_OPS_SOFTMAX /
							  cpu->vector_gelems,
					  attention_bytes(op) };
	case SOC_QK_ESTIMATE:
		return (struct soc_cost){ 2 * scores(op) * (double)op->k / cpu->f16_gflops,
					  attention_bytes(op) / 2 };
	case SOC_TOPK:
		return (struct soc_cost){ scores(op) * FLOAT_OPS_TOPK / cpu->vector_gelems,
					  topk_bytes(op) };
	default:
		return (struct soc_cost){ (double)op->m * (double)op->n * op->ops /
						  cpu->vector_gelems,
					  2 * (double)op->m * (double)op->n * act_bytes(op) };
	}
}

static struct soc_cost cpu_cost(const struct soc *p, const struct soc_op *op)
{
	struct soc_cost cost = four_cores_cost(&p->cpu, op);

	cost.ns /= soc_cpu_share(p);
	return cost;
}

static struct npu_cost npu_attention(const struct soc_npu *npu, const struct soc_op *op, bool whole)
{
	struct npu_time_attention attention = {
		.rows = op->m,
		.heads = op->n,
		.head_dim = op->k,
		.ctx = op->ctx,
		.type = op->act_bits > 8 ? NPU_TIME_F16 : NPU_TIME_I8,
		.kv_bits = op->kv_bits,
		.scores_only = !whole,
	};

	return npu_time_attention(npu, &attention);
}

static struct soc_cost npu_cost(const struct soc_npu *npu, const struct soc_op *op)
{
	struct npu_time_matmul matmul = {
		.m = op->m,
		.k = op->k,
		.n = op->n,
		.type = op->act_bits > 8 ? NPU_TIME_F16 : NPU_TIME_I8,
		.order = op->order,
		.weight_bits = op->weight_bits,
		.group = op->group,
	};
	struct npu_cost cost;

	switch (op->kind) {
	case SOC_MATMUL:
		cost = npu_time_matmul(npu, &matmul);
		break;
	case SOC_ATTENTION:
	case SOC_QK_ESTIMATE:
		cost = npu_attention(npu, op, op->kind == SOC_ATTENTION);
		break;
	case SOC_TOPK:
		cost = npu_time_vector(npu, scores(op), FLOAT_OPS_TOPK, topk_bytes(op));
		break;
	default:
		cost = npu_time_vector(npu, (double)op->m * (double)op->n, op->ops,
				       2 * (double)op->m * (double)op->n * act_bytes(op));
		break;
	}
	return (struct soc_cost){ cost.ns, cost.dram_bytes };
}

struct soc_cost soc_op_cost(const struct soc *p, enum soc_lane lane, const struct soc_op *op)
{
	switch (lane) {
	case SOC_NPU:
		return npu_cost(&p->npu, op);
	case SOC_GPU:
		return gpu_cost(&p->gpu, op);
	default:
		return cpu_cost(p, op);
	}
}

struct soc_cost soc_read_cost(const struct soc *p, double bytes)
{
	return (struct soc_cost){ bytes / p->storage.read_gbps, bytes };
}

struct soc_cost soc_read_graph_cost(const struct soc *p, double bytes)
{
	return (struct soc_cost){ bytes / p->npu.graph_gbps, bytes };
}

struct soc_cost soc_unpack_cost(const struct soc *p, double weights, double packed_bytes)
{
	/* Of one core, in those that the rate is for. */
	double core = p->cores == SOC_CORES_FOUR ? 1 : 4 * soc_cpu_share(p);
	double bytes = packed_bytes + weights;

	return (struct soc_cost){ fmax(weights / (p->cpu.unpack_planes_gelems * core),
				       bytes / p->cpu.core_gbps),
				  bytes };
}

static double cpu_gbps(const struct soc *p)
{
	return fmin(p->cpu.dram_gbps, soc_cpu_cores(p) * p->cpu.core_gbps);
}

double soc_lane_gbps(const struct soc *p, enum soc_lane lane)
{
	switch (lane) {
	case SOC_NPU:
		return p->npu.dram_gbps;
	case SOC_GPU:
		return p->gpu.dram_gbps;
	case SOC_STORAGE:
		return p->storage.read_gbps;
	default:
		return cpu_gbps(p);
	}
}

double soc_alone_ns(const struct soc *p, enum soc_lane lane, struct soc_cost cost)
{
	double memory = cost.dram_bytes / soc_lane_gbps(p, lane);

	return cost.ns > memory ? cost.ns : memory;
}

double soc_npu_start_ns(const struct soc *p, enum soc_sync sync, bool after_gpu)
{
	return (sync == SOC_SYNC_DRIVER && !after_gpu ? p->npu.launch_us : p->npu.launch_awake_us) *
	       1e3;
}

double soc_gpu_submit_ns(const struct soc *p, bool drained)
{
	return (drained ? p->gpu.submit_drained_us : p->gpu.submit_us) * 1e3;
}

double soc_cpu_start_ns(const struct soc *p)
{
	return p->cpu.dispatch_us * 1e3;
}

/*
 * The CPU is the control plane: it learns that @from is done, and starts @to. By the drivers' means
 * results cross to and from the GPU's memory in a copy of fixed length, and the CPU sleeps until
 * the GPU is done (HeteroLLM 3.1 and 4.2); by the fast way buffers are shared and the CPU polls.
 * What the NPU's driver takes of the CPU is in soc_npu_start_ns(), completion included.
 */
double soc_handover_ns(const struct soc *p, enum soc_lane from, enum soc_lane to,
		       enum soc_sync sync)
{
	double ns = 0;

	if (from == to || from == SOC_STORAGE || to == SOC_STORAGE)
		return 0;
	if (sync == SOC_SYNC_FAST)
		return p->cpu.poll_us * 1e3;
	if (from == SOC_GPU)
		ns += (p->gpu.copy_us + p->cpu.sleep_us) * 1e3;
	if (to == SOC_GPU)
		ns += p->gpu.copy_us * 1e3;
	return ns;
}

double soc_idle_w(const struct soc *p, enum soc_lane lane)
{
	switch (lane) {
	case SOC_NPU:
		return p->npu.idle_w;
	case SOC_GPU:
		return p->gpu.idle_w;
	case SOC_STORAGE:
		return 0;
	default:
		return p->cpu.idle_w;
	}
}

double soc_active_w(const struct soc *p, enum soc_lane lane)
{
	switch (lane) {
	case SOC_NPU:
		return p->npu.active_w;
	case SOC_GPU:
		return p->gpu.active_w;
	case SOC_STORAGE:
		return 0;
	default:
		return soc_cpu_active_w(p);
	}
}

void soc_share_gbps(const struct soc *p, const double want[SOC_NR_LANES], double got[SOC_NR_LANES])
{
	double sum = 0, cut = 1;

	for (int i = 0; i < SOC_NR_LANES; i++) {
		double most = soc_lane_gbps(p, i);

		got[i] = want[i] < most ? want[i] : most;
		sum += got[i];
	}
	if (sum > p->memory.dram_shared_gbps)
		cut = p->memory.dram_shared_gbps / sum;
	for (int i = 0; i < SOC_NR_LANES; i++)
		got[i] *= cut;
}

void soc_rates(const struct soc *p, const struct soc_cost *const work[SOC_NR_LANES],
	       double rate[SOC_NR_LANES])
{
	double want[SOC_NR_LANES] = { 0 }, got[SOC_NR_LANES];

	for (int i = 0; i < SOC_NR_LANES; i++)
		if (work[i] && work[i]->dram_bytes > 0)
			want[i] = work[i]->ns > 0 ? work[i]->dram_bytes / work[i]->ns
						  : soc_lane_gbps(p, i);
	soc_share_gbps(p, want, got);
	for (int i = 0; i < SOC_NR_LANES; i++) {
		double compute, memory;

		rate[i] = 0;
		if (!work[i])
			continue;
		compute = work[i]->ns > 0 ? 1 / work[i]->ns : INFINITY;
		memory = work[i]->dram_bytes > 0 ? got[i] / work[i]->dram_bytes : INFINITY;
		rate[i] = compute < memory ? compute : memory;
	}
}
