// SPDX-License-Identifier: MIT
/*
 * HeteroLLM: sections 1, 3 and 4, and the end results that a profile may be
 * fitted to (5.2.1, 5.3, 5.6).
 */
#include "calibration_private.h"

static double matmul_ns(const struct soc *p, enum npu_time_order order, uint64_t m, uint64_t k,
			uint64_t n, double weight_bits)
{
	const struct npu_time_matmul op = {
		.m = m,
		.k = k,
		.n = n,
		.type = NPU_TIME_F16,
		.order = order,
		.weight_bits = weight_bits,
	};

	return npu_time_alone_ns(&p->npu, npu_time_matmul(&p->npu, &op));
}

static double tflops(uint64_t m, uint64_t k, uint64_t n, double ns)
{
	return 2.0 * (double)m * (double)k * (double)n / ns / 1e3;
}

/* GB/s of decode: what a token's pass reads and writes of the memory, by what it takes. */
static double decode_gbps(struct maker *m, enum llm_placement placement,
			  enum llm_partition partition)
{
	const struct forward f = {
		.shape = "llama3-8b",
		.choices = { .placement = placement,
			     .weights = LLM_WEIGHTS_W4A16,
			     .graphs = LLM_GRAPHS_PIPE,
			     .partition = partition,
			     .operands = LLM_OPERANDS_PERMUTED },
		.n_past = 256,
		.tokens = 1,
	};
	struct forward_times t = calibration_forward(m, &f);

	return m->err ? 0 : t.dram_bytes / t.ms / 1e6;
}

static struct forward_times prefill(struct maker *m, const char *shape, unsigned int tokens,
				    bool npu)
{
	const struct forward f = {
		.shape = shape,
		.choices = { .placement = npu ? LLM_PLACE_LAYER : LLM_PLACE_GPU,
			     .weights = LLM_WEIGHTS_W4A16,
			     .graphs = LLM_GRAPHS_PADDED,
			     .operands = LLM_OPERANDS_PERMUTED },
		.tokens = tokens,
	};

	return calibration_forward(m, &f);
}

/* Layer-level execution over the GPU alone. */
static double layer_gain(struct maker *m, const char *shape, unsigned int tokens)
{
	struct forward_times gpu = prefill(m, shape, tokens, false),
			     layer = prefill(m, shape, tokens, true);

	return m->err ? 0 : gpu.ms / layer.ms;
}

static double best_layer_gain(struct maker *m)
{
	static const char *const shapes[] = { "llama3-8b", "llama2-7b", "llama3.2-3b",
					      "internlm2-1.8b" };
	static const unsigned int lengths[] = { 32, 64, 128, 256, 512, 1024 };
	double best = 0;

	for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
		for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
			double gain = layer_gain(m, shapes[s], lengths[l]);

			best = gain > best ? gain : best;
		}
	return best;
}

static void add_parameters(struct maker *m)
{
	const struct soc *p = m->p;

	calibration_parameter(m, "memory bandwidth, the SoC's maximum", "HeteroLLM 3.3", "GB/s", 68,
			      p->memory.dram_peak_gbps);
	calibration_parameter(m, "memory bandwidth, NPU and GPU", "HeteroLLM 3.3, about", "GB/s",
			      60, p->memory.dram_shared_gbps);
	calibration_add(m, (struct calibration_row){ .name = "memory bandwidth, NPU alone",
						     .source = "HeteroLLM 3.3",
						     .unit = "GB/s",
						     .low = 40,
						     .high = 45,
						     .modelled = p->npu.dram_gbps });
	calibration_add(m, (struct calibration_row){ .name = "memory bandwidth, CPU alone",
						     .source = "HeteroLLM 3.3",
						     .unit = "GB/s",
						     .low = 40,
						     .high = 45,
						     .modelled = p->cpu.dram_gbps });
	calibration_add(m, (struct calibration_row){ .name = "kernel submission behind another",
						     .source = "HeteroLLM 3.1",
						     .unit = "us",
						     .low = 10,
						     .high = 20,
						     .modelled = p->gpu.submit_us });
	calibration_add(m, (struct calibration_row){ .name = "kernel submission, empty queue",
						     .source = "HeteroLLM 3.1",
						     .unit = "us",
						     .low = 50,
						     .high = 100,
						     .modelled = p->gpu.submit_drained_us });
	calibration_parameter(m, "transfer between host and GPU", "HeteroLLM 3.1", "us", 400,
			      p->gpu.copy_us);
	calibration_add(m, (struct calibration_row){ .name = "shortest sleep",
						     .source = "HeteroLLM 4.2",
						     .unit = "us",
						     .low = 80,
						     .high = 100,
						     .modelled = p->cpu.sleep_us });
	calibration_parameter(m, "size of the systolic array", "HeteroLLM 3.2", "", 32,
			      p->npu.array_rows);
	calibration_parameter(m, "NPU FP16, by specification", "HeteroLLM table 1", "TFLOPS", 36,
			      npu_time_peak_tops(&p->npu, NPU_TIME_F16));
	calibration_parameter(m, "GPU FP16, in practice", "HeteroLLM 1", "TFLOPS", 1,
			      p->gpu.tflops);
}

static void add_sizes(struct maker *m, struct calibration_row row,
		      double (*modelled)(const struct soc *p, unsigned int rows))
{
	for (size_t i = 0; i < CALIBRATION_NR_SIZES; i++) {
		row.rows = calibration_sizes[i];
		row.modelled = modelled(m->p, row.rows);
		calibration_add(m, row);
	}
}

/* [rows][4096] x [4096][14336], whose stationary operand are the weights. */
static double large_stationary_tflops(const struct soc *p, unsigned int rows)
{
	return tflops(rows, 4096, 14336,
		      matmul_ns(p, NPU_TIME_WEIGHTS_STATIONARY, rows, 4096, 14336, 4));
}

static double order_gain(const struct soc *p, unsigned int rows)
{
	return matmul_ns(p, NPU_TIME_WEIGHTS_STATIONARY, rows, 4096, 14336, 4) /
	       matmul_ns(p, NPU_TIME_WEIGHTS_STREAMED, rows, 4096, 14336, 4);
}

void calibration_heterollm(struct maker *m)
{
	struct forward_times layer = prefill(m, "llama3-8b", 256, true);

	add_parameters(m);
	calibration_fitted(m, "NPU INT8, by specification", "llm.npu table 2", "TOPS", 73,
			   npu_time_peak_tops(&m->p->npu, NPU_TIME_I8), "npu.arrays");
	calibration_fitted(m, "float operators on the NPU over the CPU", "EdgeFlow 3.2, fig. 5b",
			   "x", 2.1, m->p->cpu.vector_gelems / m->p->npu.vector_gelems,
			   "npu.vector_gelems");
	calibration_fitted(
		m, "NPU FP16, in practice, up to", "HeteroLLM 1", "TFLOPS", 10,
		tflops(1024, 4096, 14336,
		       matmul_ns(m->p, NPU_TIME_WEIGHTS_STREAMED, 1024, 4096, 14336, 16)),
		"npu.feed_bytes_per_cycle");
	add_sizes(m,
		  (struct calibration_row){ .kind = CALIBRATION_FITTED,
					    .name = "NPU, stationary operand far too large",
					    .source = "HeteroLLM 3.2, as the GPU",
					    .unit = "TFLOPS",
					    .low = 1,
					    .high = 1,
					    .note = "npu.hold_rows" },
		  large_stationary_tflops);
	calibration_fitted(m, "prefill, layer level over GPU, Llama-3-8B, 256", "HeteroLLM 5.2.1",
			   "x", 2.99, layer_gain(m, "llama3-8b", 256), "npu.load_gbps");
	calibration_fitted(m, "prefill, layer level over GPU, up to", "HeteroLLM 1", "x", 3.18,
			   best_layer_gain(m), "npu.widen_gelems; four models, 32 to 1024 tokens");
	calibration_fitted(m, "bandwidth in decode, GPU", "HeteroLLM 5.3", "GB/s", 43.3,
			   decode_gbps(m, LLM_PLACE_GPU, LLM_PARTITION_NONE), "gpu.dram_gbps");
	calibration_fitted(m, "power, layer-level prefill, Llama-3-8B, 256", "HeteroLLM 5.6", "W",
			   2.23, m->err ? 0 : layer.joules / layer.ms * 1e3, "npu.active_w");
	calibration_predicted(m, "bandwidth in decode, NPU and GPU", "HeteroLLM 5.3", "GB/s", 59.1,
			      decode_gbps(m, LLM_PLACE_LAYER, LLM_PARTITION_AUTO),
			      "Llama-3-8B, 256 tokens before");
	add_sizes(m,
		  (struct calibration_row){
			  .kind = CALIBRATION_PREDICTED,
			  .name = "[14336,4096]x[4096,K] over [K,4096]x[4096,14336]",
			  .source = "HeteroLLM 3.2, figure 5",
			  .unit = "x",
			  .low = 6,
			  .high = 6,
			  .note = "K rows, weights of 4 bits" },
		  order_gain);
}
