// SPDX-License-Identifier: MIT
/* llm.npu: table 3, groups, shapes, what a graph costs, and the run of 3.4. */
#include "calibration_private.h"
#include "ops.h"

/* ---- table 3: matmuls on a Redmi K70 Pro ---- */

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

static const char source3[] = "llm.npu, table 3";

/* A column of which the first row has fixed a number. */
static void add_cell(struct maker *m, size_t i, const char *name, double published, double modelled,
		     const char *fixes)
{
	if (i)
		calibration_predicted(m, name, source3, "ms", published, modelled, NULL);
	else
		calibration_fitted(m, name, source3, "ms", published, modelled, fixes);
}

static struct soc_op matmul_of(const struct table3 *t, unsigned int bits)
{
	return (struct soc_op){ .kind = SOC_MATMUL,
				.m = t->m,
				.k = t->k,
				.n = t->n,
				.act_bits = bits,
				.weight_bits = bits,
				.density = 1 };
}

static void add_npu_column(struct maker *m, enum npu_time_type type)
{
	for (size_t i = 0; i < NR_TABLE3; i++) {
		const struct table3 *t = &table3[i];
		bool i8 = type == NPU_TIME_I8;
		const struct npu_time_matmul op = {
			.m = t->m, .k = t->k, .n = t->n, .type = type, .weight_bits = i8 ? 8 : 16
		};

		add_cell(m, i, i8 ? t->npu : t->f16, i8 ? t->npu_ms : t->f16_ms,
			 calibration_npu_ms(m->p, &op),
			 i8 ? "npu.launch_us" : "npu.f16_emulated_ns");
	}
}

static void add_table3(struct maker *m)
{
	add_npu_column(m, NPU_TIME_I8);
	add_npu_column(m, NPU_TIME_F16_EMULATED);
	for (size_t i = 0; i < NR_TABLE3; i++) {
		const struct soc_op op = matmul_of(&table3[i], 16);

		add_cell(m, i, table3[i].gpu, table3[i].gpu_ms, calibration_gpu_ms(m->p, &op),
			 "gpu.half_rows");
	}
	/* Three numbers by least squares. */
	for (size_t i = 0; i < NR_TABLE3; i++) {
		const struct soc_op op = matmul_of(&table3[i], 8);

		calibration_fitted(m, table3[i].cpu, source3, "ms", table3[i].cpu_ms,
				   calibration_cpu_ms(m->p, &op),
				   "cpu.int8_tops, cpu.pack_ns, cpu.panel_k");
	}
}

/* ---- groups ---- */

/* A matmul with a scale for each group over one with a scale for each column. */
static double group_cost(const struct soc *p, unsigned int rows)
{
	struct npu_time_matmul op = {
		.m = rows, .k = 2048, .n = 2048, .type = NPU_TIME_I8, .weight_bits = 8
	};
	double whole = npu_time_alone_ns(&p->npu, npu_time_matmul(&p->npu, &op));

	op.group = 32;
	return npu_time_alone_ns(&p->npu, npu_time_matmul(&p->npu, &op)) / whole;
}

static void add_groups(struct maker *m)
{
	struct calibration_row row = {
		.kind = CALIBRATION_FITTED,
		.name = "groups of 32 over one scale a column, middle size",
		.source = "llm.npu 2.3",
		.unit = "x",
		.low = 8.1,
		.high = 10.7,
		.rows = calibration_sizes[CALIBRATION_NR_SIZES / 2],
		.note = "npu.group_gsums",
	};

	row.modelled = group_cost(m->p, row.rows);
	calibration_add(m, row);
	row.kind = CALIBRATION_PREDICTED;
	row.name = "groups of 32 over one scale a column";
	row.note = "2048 x 2048";
	for (size_t i = 0; i < CALIBRATION_NR_SIZES; i++) {
		row.rows = calibration_sizes[i];
		row.modelled = group_cost(m->p, row.rows);
		if (i != CALIBRATION_NR_SIZES / 2)
			calibration_add(m, row);
	}
}

/* ---- 4: shapes of the same matmul ---- */

static void add_shapes(struct maker *m)
{
	struct npu_time_matmul tall = {
		.m = 1024,
		.k = 2048,
		.n = 2048,
		.type = NPU_TIME_I8,
		.weight_bits = 8,
		.width = 1,
	};
	struct npu_time_matmul square = tall;

	square.width = 32;
	calibration_fitted(m, "1024 x 1 rows over 32 x 32, by 2048 x 2048", "llm.npu 4", "x", 1.62,
			   calibration_npu_ms(m->p, &tall) / calibration_npu_ms(m->p, &square),
			   "npu.line_ns");
}

/* ---- graphs ---- */

/* Chunks of the length that llm.npu 3.2 chose. */
#define CHUNK 256
/* Of a dense layer on the NPU, attention included, as a plan's graphs have them. */
#define LAYER_OPS (LLM_OP_ADD - LLM_OP_ATTN_NORM + 1)

static double layer_elements(const struct shape *s, uint64_t rows)
{
	double elements = 0;

	for (int op = 0; op < LLM_OP_HEAD; op++) {
		uint64_t k, n;

		if (llm_op_matmul(s, op, &k, &n))
			elements += npu_time_elements(rows, k, n);
	}
	return elements;
}

static void add_graphs(struct maker *m)
{
	const struct soc_npu *npu = &m->p->npu;
	struct shape gemma, llama;
	int err = shape_load("gemma-2b", &gemma);

	err = err ? err : shape_load("llama3-8b", &llama);
	if (m->err || err) {
		m->err = m->err ? m->err : err;
		return;
	}
	calibration_fitted(m, "building the graph of Gemma-2B", "llm.npu 2.3", "ms", 360,
			   npu_time_build_ns(npu, gemma.layers * (uint64_t)LAYER_OPS) / 1e6,
			   "npu.build_op_us");
	calibration_fitted(m, "optimising the graph of Gemma-2B", "llm.npu 2.3", "s", 11.54,
			   npu_time_optimize_ns(npu, layer_elements(&gemma, CHUNK) * gemma.layers) /
				   1e9,
			   "npu.optimize_ns");
	calibration_predicted(
		m, "optimising the graph of Llama3-8B", "EdgeFlow 3.1, 51.2 - 10.5", "s", 40.7,
		npu_time_optimize_ns(npu, layer_elements(&llama, 128) * llama.layers) / 1e9,
		"by the rate of the 8 Gen 3");
	calibration_add(
		m, (struct calibration_row){
			   .kind = CALIBRATION_PREDICTED,
			   .name = "creating a graph, Llama3-8B",
			   .source = "llm.npu 2.2",
			   .unit = "ms",
			   .low = 300,
			   .high = 500,
			   .modelled = npu_time_build_ns(npu, llama.layers * (uint64_t)LAYER_OPS) /
				       1e6 });
}

/* ---- 3.4: Qwen1.5-1.8B, 256 tokens ---- */

static const struct forward qwen = {
	.shape = "qwen1.5-1.8b",
	.choices = { .placement = LLM_PLACE_LINEAR,
		     .weights = LLM_WEIGHTS_W8A8,
		     .activations = LLM_ACTIVATIONS_STATIC,
		     .graphs = LLM_GRAPHS_SHARED,
		     .floats = LLM_FLOATS_CPU },
	.tokens = CHUNK,
};

static void add_run(struct maker *m)
{
	struct forward_times t = calibration_forward(m, &qwen);

	calibration_predicted(m, "Qwen1.5-1.8B, 256 tokens, NPU", "llm.npu 3.4", "ms", 315,
			      t.busy_ms[SOC_NPU], "floats on the CPU, shared buffers (4)");
	calibration_fitted(m, "Qwen1.5-1.8B, 256 tokens, CPU", "llm.npu 3.4, half of 315", "ms",
			   157.5, t.busy_ms[SOC_CPU], "cpu.f16_gflops");
	calibration_predicted(m, "Qwen1.5-1.8B, bubbles of the NPU in order", "llm.npu 3.4", "%",
			      37, m->err ? 0 : 100 * (1 - t.busy_ms[SOC_NPU] / t.ms), NULL);
}

/* ---- 3.3: what merging the outliers of all inputs costs ---- */

/*
 * Each merge ends a graph of the NPU and begins another. That costs the most where float operators
 * are the NPU's, as EdgeFlow 3.2 describes llm.npu, so that its graphs would be long, and where
 * each of them is started through the driver.
 */
static void add_merging(struct maker *m)
{
	static const char how[] = "1024 tokens, floats on the NPU, drivers' way";
	struct forward all = qwen, none;
	struct forward_times with, without;

	all.tokens = 4 * CHUNK;
	all.choices.floats = LLM_FLOATS_NPU;
	all.choices.sync = LLM_SYNC_DRIVER;
	all.pruning = -1;
	none = all;
	none.pruning = 1;
	with = calibration_forward(m, &all);
	without = calibration_forward(m, &none);
	if (m->err)
		return;
	calibration_predicted(m, "latency that merging all outliers adds", "llm.npu 3.3", "%", 29.7,
			      100 * (with.ms / without.ms - 1), how);
	calibration_predicted(m, "energy that merging all outliers adds", "llm.npu 3.3", "%", 20.1,
			      100 * (with.joules / without.joules - 1), how);
}

void calibration_llmnpu(struct maker *m)
{
	add_table3(m);
	add_groups(m);
	add_shapes(m);
	add_graphs(m);
	add_run(m);
	add_merging(m);
}
