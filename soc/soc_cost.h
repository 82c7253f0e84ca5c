/* SPDX-License-Identifier: MIT */
/*
 * The lanes of a phone's SoC: what an operator costs on each, what it costs to start it and to
 * learn of its end, and what the lanes share.
 *
 * A cost is time in the lane and bytes to and from DRAM; both overlap. A lane alone gets its
 * own bandwidth, several share soc.dram_shared_gbps (HeteroLLM 3.3: one lane cannot saturate
 * the SoC, two nearly do).
 *
 * Sources: GPU and synchronisation HeteroLLM 3.1 and 4.2, NPU soc/npu_time.h, CPU llm.npu
 * table 3 and shadowAttn 2.2. Top-k is assumed to be linear in the scores (FLOAT_OPS_TOPK): the
 * paper calls it bound by memory (3.4) and gives no time of it.
 */
#ifndef SOC_COST_H
#define SOC_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "npu_time.h"

enum soc_lane {
	SOC_NPU,
	SOC_GPU,
	SOC_CPU,
	SOC_STORAGE, /* flash: reads files into memory; it has no operators */
	SOC_NR_LANES,
};
const char *soc_lane_name(enum soc_lane lane); /* "npu", "gpu", "cpu", "storage" */

/* How a lane's end is learned, and its next work started (runtime choice `sync`). */
enum soc_sync {
	SOC_SYNC_DRIVER, /* the drivers' own: copies, drained queues, sleeps */
	SOC_SYNC_FAST, /* shared buffers, predicted sleep and polled flags */
};

struct soc_cost {
	double ns; /* in the lane */
	double dram_bytes;
};

enum soc_op_kind {
	SOC_MATMUL, /* [m][k] x [k][n] with constant weights */
	SOC_ATTENTION, /* m queries of n heads of k over ctx positions: Q K^T, softmax, P V */
	SOC_QK_ESTIMATE, /* m queries of n heads of k over ctx positions: Q K^T in INT8 alone */
	/* m queries of n heads: the positions of the greatest of ctx scores of act_bits */
	SOC_TOPK,
	SOC_VECTOR, /* m rows of n elements, ops operations each */
};

struct soc_op {
	enum soc_op_kind kind;
	uint64_t m, k, n;
	double ctx; /* attention and top-k: positions that a query sees, on average */
	double ops;
	double weight_bits; /* in DRAM */
	unsigned int act_bits; /* 8: INT8 products; 16: F16 products; 32: F32 */
	unsigned int kv_heads; /* attention */
	double kv_bits; /* attention: of a cached value in DRAM; 0: as act_bits */
	enum npu_time_order order; /* NPU */
	uint32_t group; /* INT8 matmul: values along k that share a scale; 0: all */
	/* attention and top-k: share of the positions that are computed, or kept; 1: all */
	double density;
};

/* What @op costs on @lane, which is not STORAGE, without start and end. */
struct soc_cost soc_op_cost(const struct soc *p, enum soc_lane lane, const struct soc_op *op);
/* What it costs STORAGE to read @bytes of a file. */
struct soc_cost soc_read_cost(const struct soc *p, double bytes);
/* The same of compiled graphs with their weights, by the vendor's runtime (EdgeFlow 3.1). */
struct soc_cost soc_read_graph_cost(const struct soc *p, double bytes);
/*
 * What it costs the CPU to make INT8 weights of narrower ones in planes, which have @packed_bytes:
 * by one thread, as EdgeFlow 3.2 has it, and within a core's bandwidth. The lane is not free for
 * others meanwhile.
 */
struct soc_cost soc_unpack_cost(const struct soc *p, double weights, double packed_bytes);
/* How long that takes when the lane is alone. */
double soc_alone_ns(const struct soc *p, enum soc_lane lane, struct soc_cost cost);
double soc_lane_gbps(const struct soc *p, enum soc_lane lane);

/*
 * To start work on a lane. NPU: a graph; the drivers' way has the CPU sleep on either side, which
 * is in the handover instead where the work before it was the GPU's (@after_gpu).
 */
double soc_npu_start_ns(const struct soc *p, enum soc_sync sync, bool after_gpu);
/*
 * GPU: what the CPU takes to submit a kernel, into an empty queue (@drained) or behind another one,
 * where it is hidden while that runs (HeteroLLM 3.1: negligible).
 */
double soc_gpu_submit_ns(const struct soc *p, bool drained);
double soc_cpu_start_ns(const struct soc *p);
/*
 * From the end of work on @from until work on @to may begin that needs its result. 0 on one lane,
 * and to and from STORAGE, whose interrupts are short beside its reads.
 */
double soc_handover_ns(const struct soc *p, enum soc_lane from, enum soc_lane to,
		       enum soc_sync sync);

/* STORAGE takes no power of its own: it is in soc.base_w. */
double soc_idle_w(const struct soc *p, enum soc_lane lane);
double soc_active_w(const struct soc *p, enum soc_lane lane);

/*
 * Bandwidth of lanes that are at work together: each gets what it asks for, at most its
 * own; if that is more than there is, all are cut in proportion. @want and @got: GB/s by
 * lane, 0 where a lane is idle.
 */
void soc_share_gbps(const struct soc *p, const double want[SOC_NR_LANES], double got[SOC_NR_LANES]);
/*
 * How fast the work of lanes progresses that are at work together, as long as nothing begins or
 * ends: work of e ns and b bytes wants b / e bytes a ns of the memory, and with g bytes a ns it
 * progresses by min(1 / e, g / b) of itself a ns.
 *
 * @work: by lane, the whole of what it is at; ns 0: it takes what its bytes take; NULL: it
 *   is idle, or starting work.
 * @rate: fractions a ns; INFINITY for work of neither ns nor bytes, 0 where @work is NULL.
 */
void soc_rates(const struct soc *p, const struct soc_cost *const work[SOC_NR_LANES],
	       double rate[SOC_NR_LANES]);

#endif /* SOC_COST_H */
