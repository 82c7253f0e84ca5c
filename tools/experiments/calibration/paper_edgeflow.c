// SPDX-License-Identifier: MIT
/* EdgeFlow 3.1, 3.2 and 4.2, on the Snapdragon 8 Elite. */
#include <math.h>

#include "calibration_private.h"
#include "ops.h"

/* ---- 3.2: weights that only a graph's operators can widen ---- */

/* What an INT8 matmul takes whose weights the compiler has not laid out, of one where it has. */
#define UNLAID 2.66
/* Of a weight: to subtract or look up, and to scale. */
#define WIDEN_OPS 2

static double dequantised(const struct soc *p, unsigned int rows)
{
	const struct npu_time_matmul op = {
		.m = rows, .k = 4096, .n = 14336, .type = NPU_TIME_I8, .weight_bits = 8
	};
	double int8 = UNLAID * npu_time_alone_ns(&p->npu, npu_time_matmul(&p->npu, &op));
	/* As often as the arrays ask for them. */
	double weights = (double)op.k * (double)op.n * ceil(rows / p->npu.hold_rows);

	return 1 + npu_time_vector(&p->npu, weights, WIDEN_OPS, 0).ns / int8;
}

static void add_dequantised(struct maker *m, const char *name, double published)
{
	struct calibration_row row = { .kind = CALIBRATION_PREDICTED,
				       .name = name,
				       .source = "EdgeFlow 3.2, figure 3",
				       .unit = "x",
				       .low = published,
				       .high = published,
				       .note = "4096 x 14336, two operations a weight" };

	for (size_t i = 0; i < CALIBRATION_NR_SIZES; i++) {
		row.rows = calibration_sizes[i];
		row.modelled = dequantised(m->p, row.rows);
		calibration_add(m, row);
	}
}

/* ---- 3.1: cold starts of llm.npu, Llama3-8B, 128 tokens ---- */

static double graph_load_s(const struct soc *p, const struct shape *s)
{
	return (double)llm_shape_weight_bytes(s, LLM_WEIGHTS_W8A8) / p->npu.graph_gbps / 1e9;
}

static void add_cold_starts(struct maker *m)
{
	const struct forward f = {
		.shape = "llama3-8b",
		.choices = { .placement = LLM_PLACE_FINE,
			     .weights = LLM_WEIGHTS_W8A8,
			     .activations = LLM_ACTIVATIONS_INT8,
			     .sync = LLM_SYNC_DRIVER },
		.tokens = 128,
	};
	struct forward_times t = calibration_forward(m, &f);
	struct shape s;
	int err = shape_load(f.shape, &s);
	double load;

	if (m->err || err) {
		m->err = m->err ? m->err : err;
		return;
	}
	load = graph_load_s(m->p, &s);
	/* Each layer's matmuls wait for its graph, and the last one's come after all. */
	calibration_fitted(m, "cold start, loading overlapped", "EdgeFlow 3.1", "s", 9.1,
			   load + t.ms / 1e3 / s.layers, "npu.graph_gbps");
	calibration_predicted(m, "cold start, graphs materialised", "EdgeFlow 3.1", "s", 10.5,
			      load + t.ms / 1e3, NULL);
	calibration_predicted(m, "bubble of that with loading overlapped", "EdgeFlow 3.1", "s", 7.4,
			      load - t.ms / 1e3 * (s.layers - 1) / s.layers, NULL);
}

void calibration_edgeflow(struct maker *m)
{
	const struct soc *p = m->p;

	calibration_parameter(m, "reading 8 bits of Llama3-8B, two threads", "EdgeFlow 3.2", "s",
			      3.03, 8.03 / p->storage.read_gbps);
	calibration_parameter(m, "unpacking its k-quants, one thread", "EdgeFlow 3.2", "s", 5.53,
			      8.03 / p->cpu.unpack_gelems);
	calibration_fitted(m, "float operators on the NPU over the CPU", "EdgeFlow 3.2, fig. 5b",
			   "x", 2.1, p->cpu.vector_gelems / p->npu.vector_gelems,
			   "npu.vector_gelems");
	add_cold_starts(m);
	add_dequantised(m, "matmul with AWQ's weights over INT8", 2.59);
	add_dequantised(m, "matmul with CMPQ's weights over INT8", 2.63);
}
