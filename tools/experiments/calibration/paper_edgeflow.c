// SPDX-License-Identifier: MIT
/* EdgeFlow 3.1, 3.2 and 4.2, on the Snapdragon 8 Elite. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

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

/* llm.npu's prompt of 3.1, from weights of 8 bits. */
static struct forward_times cold_start(struct maker *m, enum llm_graphs graphs,
				       const struct plan_start *start)
{
	const struct forward f = {
		.shape = "llama3-8b",
		.choices = { .placement = LLM_PLACE_LINEAR,
			     .weights = LLM_WEIGHTS_W8A8,
			     .activations = LLM_ACTIVATIONS_STATIC,
			     .graphs = graphs,
			     .floats = LLM_FLOATS_NPU,
			     .sync = LLM_SYNC_DRIVER },
		.chunk = 128,
		.tokens = 128,
		.start = start,
	};

	return calibration_forward(m, &f);
}

static void add_cold_starts(struct maker *m)
{
	struct llm_width widths[LLM_NR_OPS];
	struct plan_start start = { 0 };
	struct start_piece *pieces = NULL;
	struct forward_times t;
	struct shape s;
	int err = shape_load("llama3-8b", &s);

	for (unsigned int op = 0; op < LLM_NR_OPS; op++)
		widths[op] = llm_weights_width(LLM_WEIGHTS_W8A8);
	if (!err)
		pieces = start_pieces(NULL, LLM_WEIGHTS_W8A8, &s, widths, &start.nr);
	if (!m->err && !pieces)
		m->err = err ? err : -ENOMEM;
	if (m->err) {
		free(pieces);
		return;
	}
	start.pieces = pieces;
	t = cold_start(m, LLM_GRAPHS_ONLINE, &start);
	calibration_predicted(m, "cold start, graphs compiled on the phone", "EdgeFlow 3.1", "s",
			      51.2, t.ms / 1e3, NULL);
	start.graphs = start.ahead = true;
	t = cold_start(m, LLM_GRAPHS_SHARED, &start);
	calibration_predicted(m, "cold start, graphs materialised", "EdgeFlow 3.1", "s", 10.5,
			      t.ms / 1e3, NULL);
	start.ahead = false;
	t = cold_start(m, LLM_GRAPHS_SHARED, &start);
	calibration_fitted(m, "cold start, loading overlapped", "EdgeFlow 3.1", "s", 9.1,
			   t.ms / 1e3, "npu.graph_gbps");
	calibration_predicted(m, "bubble of that with loading overlapped", "EdgeFlow 3.1", "s", 7.4,
			      (t.ms - t.busy_ms[SOC_NPU]) / 1e3, NULL);
	free(pieces);
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
