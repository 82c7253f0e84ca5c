// SPDX-License-Identifier: MIT
/*
 * The published characteristics. Durations that a CPU measures from outside contain what the driver
 * takes: an NPU's graph its launch, a GPU's kernel the transfer of its input, the submission into a
 * drained queue and the wait that sleeps.
 */
#include "calibration.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

struct maker {
	const struct soc *p;
	struct calibration *c;
	int err;
};

static void add(struct maker *m, struct calibration_row row)
{
	struct calibration_row *rows = realloc(m->c->rows, (m->c->n + 1) * sizeof(*rows));

	if (!rows) {
		m->err = -ENOMEM;
		return;
	}
	m->c->rows = rows;
	rows[m->c->n++] = row;
}

static void add_parameter(struct maker *m, const char *name, const char *source, const char *unit,
			  double published, double value)
{
	add(m, (struct calibration_row){ .name = name,
					 .source = source,
					 .unit = unit,
					 .published = published,
					 .modelled = value,
					 .parameter = true });
}

static void add_derived(struct maker *m, const char *name, const char *source, const char *unit,
			double published, double modelled, const char *assumption)
{
	add(m, (struct calibration_row){ .name = name,
					 .source = source,
					 .unit = unit,
					 .published = published,
					 .modelled = modelled,
					 .assumption = assumption });
}

/* ---- one operator, measured from outside: ms ---- */

static double npu_ms(const struct soc *p, const struct npu_time_matmul *op)
{
	return npu_time_alone_ns(&p->npu, npu_time_matmul(&p->npu, op)) / 1e6 +
	       p->npu.launch_us / 1e3;
}

static double gpu_ms(const struct soc *p, const struct soc_op *op)
{
	return soc_alone_ns(p, SOC_GPU, soc_op_cost(p, SOC_GPU, op)) / 1e6 +
	       (p->gpu.copy_us + p->gpu.submit_drained_us + p->cpu.sleep_us) / 1e3;
}

static double cpu_ms(const struct soc *p, const struct soc_op *op)
{
	return soc_alone_ns(p, SOC_CPU, soc_op_cost(p, SOC_CPU, op)) / 1e6;
}

/* ---- llm.npu, table 3: matmuls on a Redmi K70 Pro ---- */

struct table3 {
	uint32_t m, k, n;
	const char *npu, *cpu, *gpu, *f16;
	double npu_ms, cpu_ms, gpu_ms, f16_ms;
};

#define TABLE3(m, k, n, npu, cpu, gpu, f16)                                       \
	{                                                                         \
		m, k, n, "NPU INT8 " #m "*" #k " x " #k "*" #n,                   \
			"CPU INT8 " #m "*" #k " x " #k "*" #n,                    \
			"GPU FP16 " #m "*" #k " x " #k "*" #n,                    \
			"NPU FP16 " #m "*" #k " x " #k "*" #n, npu, cpu, gpu, f16 \
	}

static const struct table3 table3[] = {
	TABLE3(64, 2048, 2048, 0.9, 4.2, 1.7, 252),
	TABLE3(64, 2048, 8192, 1.5, 6.8, 4.8, 986),
	TABLE3(64, 2048, 11008, 2.0, 11.6, 6.9, 1207),
	TABLE3(32, 4096, 4096, 1.7, 7.5, 3.1, 1054),
	TABLE3(32, 4096, 8192, 2.9, 13.1, 7.7, 2009),
	TABLE3(32, 4096, 11008, 4.1, 19.6, 10.4, 3112),
};
#define NR_TABLE3 (sizeof(table3) / sizeof(table3[0]))

static void add_table3(struct maker *m)
{
	static const char source[] = "llm.npu, table 3";

	for (size_t i = 0; i < NR_TABLE3; i++) {
		const struct table3 *t = &table3[i];
		struct npu_time_matmul op = {
			.m = t->m, .k = t->k, .n = t->n, .type = NPU_TIME_I8, .weight_bits = 8
		};

		add_derived(m, t->npu, source, "ms", t->npu_ms, npu_ms(m->p, &op), NULL);
	}
	for (size_t i = 0; i < NR_TABLE3; i++) {
		const struct table3 *t = &table3[i];
		struct soc_op op = { .kind = SOC_MATMUL,
				     .m = t->m,
				     .k = t->k,
				     .n = t->n,
				     .act_bits = 8,
				     .weight_bits = 8 };

		add_derived(m, t->cpu, source, "ms", t->cpu_ms, cpu_ms(m->p, &op), NULL);
	}
	for (size_t i = 0; i < NR_TABLE3; i++) {
		const struct table3 *t = &table3[i];
		struct soc_op op = { .kind = SOC_MATMUL,
				     .m = t->m,
				     .k = t->k,
				     .n = t->n,
				     .act_bits = 16,
				     .weight_bits = 16 };

		add_derived(m, t->gpu, source, "ms", t->gpu_ms, gpu_ms(m->p, &op), NULL);
	}
	for (size_t i = 0; i < NR_TABLE3; i++) {
		const struct table3 *t = &table3[i];
		struct npu_time_matmul op = { .m = t->m,
					      .k = t->k,
					      .n = t->n,
					      .type = NPU_TIME_F16_EMULATED,
					      .weight_bits = 16 };

		add_derived(m, t->f16, source, "ms", t->f16_ms, npu_ms(m->p, &op), NULL);
	}
}

/* ---- HeteroLLM 1, 3 and 4 ---- */

/*
 * [14336, 4096] x [4096, K] over [K, 4096] x [4096, 14336]: which of the two is the stationary one.
 */
static double order_ratio(const struct soc *p, uint64_t rows)
{
	struct npu_time_matmul op = {
		.m = rows, .k = 4096, .n = 14336, .type = NPU_TIME_F16, .weight_bits = 4
	};
	double stationary = npu_time_alone_ns(&p->npu, npu_time_matmul(&p->npu, &op));

	op.order = NPU_TIME_WEIGHTS_STREAMED;
	return stationary / npu_time_alone_ns(&p->npu, npu_time_matmul(&p->npu, &op));
}

static double npu_tflops(const struct soc *p, uint64_t m, uint64_t k, uint64_t n,
			 enum npu_time_order order)
{
	struct npu_time_matmul op = {
		.m = m, .k = k, .n = n, .type = NPU_TIME_F16, .weight_bits = 4, .order = order
	};

	return 2.0 * (double)m * (double)k * (double)n /
	       npu_time_alone_ns(&p->npu, npu_time_matmul(&p->npu, &op)) / 1e3;
}

static double gpu_tflops(const struct soc *p, uint64_t m, uint64_t k, uint64_t n)
{
	struct soc_op op = {
		.kind = SOC_MATMUL, .m = m, .k = k, .n = n, .act_bits = 16, .weight_bits = 4
	};

	return 2.0 * (double)m * (double)k * (double)n /
	       soc_alone_ns(p, SOC_GPU, soc_op_cost(p, SOC_GPU, &op)) / 1e3;
}

/* GB/s of a matrix product with one row, as decoding has it: of all lanes in @with at once. */
static double decode_gbps(const struct soc *p, unsigned int with)
{
	struct soc_op op = {
		.kind = SOC_MATMUL, .m = 1, .k = 4096, .n = 14336, .act_bits = 16, .weight_bits = 4
	};
	double want[SOC_NR_LANES] = { 0 }, got[SOC_NR_LANES], sum = 0;

	for (int lane = 0; lane < SOC_NR_LANES; lane++) {
		struct soc_cost cost = soc_op_cost(p, lane, &op);

		if (with >> lane & 1)
			want[lane] = cost.dram_bytes / cost.ns;
	}
	soc_share_gbps(p, want, got);
	for (int lane = 0; lane < SOC_NR_LANES; lane++)
		sum += got[lane];
	return sum;
}

static void add_heterollm(struct maker *m)
{
	const struct soc *p = m->p;

	add_parameter(m, "memory bandwidth, the SoC's maximum", "HeteroLLM 3.3", "GB/s", 68,
		      p->memory.dram_peak_gbps);
	add_parameter(m, "kernel submission behind another", "HeteroLLM 3.1, 10 to 20", "us", 15,
		      p->gpu.submit_us);
	add_parameter(m, "kernel submission into an empty queue", "HeteroLLM 3.1, 50 to 100", "us",
		      75, p->gpu.submit_drained_us);
	add_parameter(m, "transfer between host and GPU", "HeteroLLM 3.1", "us", 400,
		      p->gpu.copy_us);
	add_parameter(m, "shortest sleep", "HeteroLLM 4.2, 80 to 100", "us", 90, p->cpu.sleep_us);
	add_parameter(m, "size of the systolic array", "HeteroLLM 3.2", "", 32, p->npu.array_rows);
	add_parameter(m, "bandwidth of decoding, NPU and GPU", "HeteroLLM 3.3, about 60", "GB/s",
		      60, decode_gbps(p, 1u << SOC_NPU | 1u << SOC_GPU));
	add_parameter(m, "bandwidth of decoding, GPU", "HeteroLLM 3.3, 40 to 45", "GB/s", 42.5,
		      decode_gbps(p, 1u << SOC_GPU));
	add_parameter(m, "bandwidth of decoding, NPU", "HeteroLLM 3.3, 40 to 45", "GB/s", 42.5,
		      decode_gbps(p, 1u << SOC_NPU));
	add_parameter(m, "bandwidth of decoding, CPU", "HeteroLLM 3.3, 40 to 45", "GB/s", 42.5,
		      p->cpu.dram_gbps);
	add_parameter(m, "NPU FP16, by specification", "HeteroLLM table 1", "TFLOPS", 36,
		      npu_time_peak_tops(&p->npu, NPU_TIME_F16));

	add_derived(m, "NPU FP16, in practice", "HeteroLLM 1", "TFLOPS", 10,
		    npu_tflops(p, 1024, 4096, 14336, NPU_TIME_WEIGHTS_STREAMED),
		    "1024 x 4096 x 14336");
	add_derived(m, "GPU FP16, in practice", "HeteroLLM 1", "TFLOPS", 1,
		    gpu_tflops(p, 1024, 4096, 14336), "1024 x 4096 x 14336");
	add_derived(m, "[14336,4096]x[4096,K] over [K,4096]x[4096,14336]",
		    "HeteroLLM 3.2, figure 5", "x", 6, order_ratio(p, 128), "K = 128");
	add_derived(m, "NPU with a stationary tensor far too large, as the GPU", "HeteroLLM 3.2",
		    "TFLOPS", 1, npu_tflops(p, 64, 4096, 14336, NPU_TIME_WEIGHTS_STATIONARY),
		    "[64,4096] x [4096,14336]");
	add_derived(m, "rows 1 and 31 over 32 rows, duration", "HeteroLLM 3.2", "x", 1,
		    npu_tflops(p, 32, 4096, 4096, NPU_TIME_WEIGHTS_STATIONARY) * 31 / 32 /
			    npu_tflops(p, 31, 4096, 4096, NPU_TIME_WEIGHTS_STATIONARY),
		    "31 rows x 4096 x 4096");
}

/* ---- graphs ---- */

static int add_graphs(struct maker *m)
{
	const struct soc *p = m->p;
	struct shape gemma, llama;
	int err = shape_load("gemma-2b", &gemma);

	err = err ? err : shape_load("llama3-8b", &llama);
	if (err)
		return err;
	add_parameter(m, "building the graph of Gemma-2B", "llm.npu 2.3", "ms", 360,
		      npu_time_build_ns(&p->npu, gemma.layers * (uint64_t)LLM_NR_OPS) / 1e6);
	add_parameter(m, "optimising the graph of Gemma-2B", "llm.npu 2.3", "s", 11.54,
		      npu_time_optimize_ns(&p->npu, shape_layer_weights(&gemma) * gemma.layers) /
			      1e9);
	add_derived(m, "graphs of Llama3-8B that need not be optimised",
		    "EdgeFlow 3.1, 51.2 - 10.5", "s", 40.7,
		    npu_time_optimize_ns(&p->npu, shape_layer_weights(&llama) * llama.layers) / 1e9,
		    "figures of the 8 Elite, rate of the 8 Gen 3");
	add_derived(m, "creating a graph, Llama3-8B", "llm.npu 2.2, 300 to 500", "ms", 400,
		    npu_time_build_ns(&p->npu, llama.layers * (uint64_t)LLM_NR_OPS) / 1e6, NULL);
	return 0;
}

/* ---- shadowAttn 2.2 and 3.4 ---- */

static double qk_ms(const struct soc *p, unsigned int heads)
{
	struct npu_time_matmul op = { .m = 128,
				      .k = 64,
				      .n = 2048,
				      .type = NPU_TIME_I8,
				      .weight_bits = 8,
				      .dynamic = true,
				      .heads = heads };

	return npu_ms(p, &op);
}

/*
 * A CPU's attention with the given share of positions, its estimate included,
 * over one of all positions.
 */
static double sparse_ratio(const struct soc *p, double density, double *estimate_share)
{
	struct soc_op op = { .kind = SOC_ATTENTION,
			     .m = 128,
			     .k = 64,
			     .n = 1,
			     .kv_heads = 1,
			     .ctx = 2048,
			     .act_bits = 16,
			     .density = 1 };
	double full = soc_op_cost(p, SOC_CPU, &op).ns, sparse, estimate;

	op.density = density;
	sparse = soc_op_cost(p, SOC_CPU, &op).ns;
	op.kind = SOC_QK_ESTIMATE;
	estimate = soc_op_cost(p, SOC_CPU, &op).ns;
	if (estimate_share)
		*estimate_share = estimate / (estimate + sparse);
	return (estimate + sparse) / full;
}

static void add_shadowattn(struct maker *m)
{
	static const char fused[] = "shadowAttn 3.4", sparse[] = "shadowAttn 2.2, figure 4a";
	double share;

	add_derived(m, "Q K^T of 1 head, 128 x 64 x 2048", fused, "ms", 2, qk_ms(m->p, 1), NULL);
	add_derived(m, "Q K^T of 2 heads, 128 x 64 x 2048", fused, "ms", 3, qk_ms(m->p, 2), NULL);
	add_derived(m, "Q K^T of 4 heads, 128 x 64 x 2048", fused, "ms", 4, qk_ms(m->p, 4), NULL);
	add_derived(m, "attention with 40 % of the positions, of the whole", sparse, "", 1 - 0.124,
		    sparse_ratio(m->p, 0.4, NULL), NULL);
	add_derived(m, "attention with 30 % of the positions, of the whole", sparse, "", 1 - 0.247,
		    sparse_ratio(m->p, 0.3, NULL), NULL);
	add_derived(m, "attention with 20 % of the positions, of the whole", sparse, "", 1 - 0.343,
		    sparse_ratio(m->p, 0.2, &share), NULL);
	add_derived(m, "estimate's share with 20 % of the positions", sparse, "", 0.667, share,
		    NULL);
}

/* ---- CoordGen 2.3: Qwen2.5-1.5B, a forward pass of so many tokens ---- */

static int forward_ms(const struct soc *p, const char *shape_name, uint32_t tokens, uint32_t n_past,
		      double *ms)
{
	struct shape shape;
	struct plan_options o = {
		.soc = p,
		.shape = &shape,
		.choices = { .placement = LLM_PLACE_FINE,
			     .weights = LLM_WEIGHTS_W8A8,
			     .activations = LLM_ACTIVATIONS_INT8 },
		.launches = PLAN_LAUNCH_LAYER,
	};
	const struct plan_pass pass = { .n_past = n_past,
					.n_tokens = tokens,
					.logits = PLAN_LOGITS_LAST };
	struct sched_options so = { .clock = SCHED_VIRTUAL, .soc = p, .sync = SOC_SYNC_DRIVER };
	struct plan *plan;
	struct sched_run run;
	int err = shape_load(shape_name, &shape);

	if (err)
		return err;
	plan = plan_forward(&o, &pass);
	if (!plan)
		return -ENOMEM;
	err = sched_run(plan->tasks, &so, &run);
	*ms = (double)run.makespan_ns / 1e6;
	sched_run_free(&run);
	plan_free(plan);
	return err;
}

static int add_coordgen(struct maker *m)
{
	static const struct {
		const char *name;
		uint32_t tokens;
		double published_ms; /* a token */
	} drafts[] = {
		{ "Qwen2.5-1.5B, verifying 32 tokens, a token", 32, 5.7 },
		{ "Qwen2.5-1.5B, verifying 1 token", 1, 51.1 },
	};
	double ms = 0;
	int err = 0;

	for (size_t i = 0; i < 2 && !err; i++) {
		err = forward_ms(m->p, "qwen2.5-1.5b", drafts[i].tokens, 512, &ms);
		if (!err)
			add_derived(
				m, drafts[i].name, "CoordGen 2.3", "ms", drafts[i].published_ms,
				ms / drafts[i].tokens,
				"512 tokens of context, matmuls on the NPU, one launch a layer");
	}
	return err;
}

/* ---- EdgeFlow 3.2: matmuls of Llama3-8B with weights that the NPU takes only after widening -- */

static void add_edgeflow(struct maker *m)
{
	/*
	 * Over the INT8 matmul whose weights the compiler has laid out: 2.66 times
	 * for those that it has not.
	 */
	static const double unlaid = 2.66;
	struct npu_time_matmul op = {
		.m = 128, .k = 4096, .n = 14336, .type = NPU_TIME_I8, .weight_bits = 8
	};
	double int8 = npu_ms(m->p, &op), widened;

	op.weight_bits = 4;
	op.widened = true;
	widened = npu_ms(m->p, &op) / int8;
	add_derived(m, "matmul with AWQ's weights, over optimised INT8",
		    "EdgeFlow 3.2, 2.59 x 2.66", "x", 2.59 * unlaid, widened,
		    "128 rows x 4096 x 14336");
	add_derived(m, "matmul with CMPQ's weights, over optimised INT8",
		    "EdgeFlow 3.2, 2.63 x 2.66", "x", 2.63 * unlaid, widened,
		    "128 rows x 4096 x 14336");
	add_parameter(m, "float operators on the NPU over the CPU, duration",
		      "EdgeFlow 3.2, figure 5b", "x", 2.1,
		      m->p->cpu.vector_gelems / m->p->npu.vector_gelems);
}

static void sum_up(struct calibration *c)
{
	double sum = 0;

	for (size_t i = 0; i < c->n; i++) {
		double error = fabs(c->rows[i].modelled / c->rows[i].published - 1);

		if (c->rows[i].parameter)
			continue;
		c->nr_derived++;
		sum += error;
		if (error > c->worst_error)
			c->worst_error = error;
	}
	c->mean_error = c->nr_derived ? sum / (double)c->nr_derived : 0;
}

int calibration_make(const struct soc *p, struct calibration *c)
{
	struct maker m = { .p = p, .c = c };
	int err = 0;

	*c = (struct calibration){ 0 };
	if (!strcmp(p->name, "sd8gen3")) {
		add_table3(&m);
		add_heterollm(&m);
		err = add_graphs(&m);
		add_shadowattn(&m);
		err = err ? err : add_coordgen(&m);
	}
	if (!strcmp(p->name, "sd8elite"))
		add_edgeflow(&m);
	err = err ? err : m.err;
	sum_up(c);
	return err;
}

void calibration_free(struct calibration *c)
{
	free(c->rows);
	*c = (struct calibration){ 0 };
}
