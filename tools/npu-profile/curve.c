// SPDX-License-Identifier: MIT
/* npu-profile curve: the three behaviours of NPUs in HeteroLLM 3.2, for a profile's model. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "npu-profile.h"
#include "tool.h"

/* A table of numbers, as csv or md. */
struct table {
	bool md;
	const struct soc *soc;
};

static void put_line(const struct table *t, const char *const *cells, int n)
{
	for (int i = 0; i < n; i++)
		printf(t->md ? "%s %12s |" : "%s%s", t->md ? (i ? "" : "|") : (i ? "," : ""),
		       cells[i]);
	putchar('\n');
}

static void put_head(const struct table *t, const char *const *names, int n)
{
	put_line(t, names, n);
	for (int i = 0; i < n && t->md; i++)
		printf("%s -----------: |", i ? "" : "|");
	if (t->md)
		putchar('\n');
}

static double time_ns(const struct table *t, uint64_t m, uint64_t k, uint64_t n,
		      enum llm_weights weights, enum npu_time_order order)
{
	struct op_sample s = op_profile_matmul(SOC_NPU, m, k, n, weights, order);

	return soc_alone_ns(t->soc, SOC_NPU, soc_op_cost(t->soc, SOC_NPU, &s.op));
}

/*
 * Stages: a matmul of 64 x 1024 x 1024 with one dimension after another varied over four steps in
 * eighths. A step of rows is what is streamed at a time; a step of depth or columns is the array's
 * size. Rows begin at half a step, beyond those for the vector engine; depth and columns begin at
 * about 1024, where the arrays take longer than the memory.
 */
static void stage(const struct table *t)
{
	static const char *const names[] = { "dimension", "size", "us" };
	const struct soc_npu *npu = &t->soc->npu;
	const double steps[3] = { npu->row_granule, npu->array_rows, npu->array_cols };
	static const char *const dims[] = { "m", "k", "n" };

	put_head(t, names, 3);
	for (int d = 0; d < 3; d++) {
		double base = d ? ceil(1024 / steps[d]) * steps[d] : 0;

		for (int i = d ? 1 : 4; i <= 32; i++) {
			uint64_t size = (uint64_t)(base + steps[d] * i / 8),
				 mkn[3] = { 64, 1024, 1024 };
			char text[2][32];

			/* Steps of less than eight have fewer sizes. */
			if (size == (uint64_t)(base + steps[d] * (i - 1) / 8))
				continue;
			mkn[d] = size;
			snprintf(text[0], sizeof(text[0]), "%" PRIu64, size);
			snprintf(text[1], sizeof(text[1]), "%.3f",
				 time_ns(t, mkn[0], mkn[1], mkn[2], LLM_WEIGHTS_W8A8,
					 NPU_TIME_WEIGHTS_STATIONARY) /
					 1e3);
			put_line(t, (const char *const[]){ dims[d], text[0], text[1] }, 3);
		}
	}
}

/* The matmul of HeteroLLM's figure 5, with either operand stationary. */
static void order(const struct table *t)
{
	static const char *const names[] = { "K", "weights", "activations", "ratio" };

	put_head(t, names, 4);
	for (uint64_t rows = 32; rows <= 4096; rows *= 2) {
		double weights = time_ns(t, rows, 4096, 14336, LLM_WEIGHTS_W4A16,
					 NPU_TIME_WEIGHTS_STATIONARY);
		double activations =
			time_ns(t, rows, 4096, 14336, LLM_WEIGHTS_W4A16, NPU_TIME_WEIGHTS_STREAMED);
		char text[4][32];

		snprintf(text[0], sizeof(text[0]), "%" PRIu64, rows);
		snprintf(text[1], sizeof(text[1]), "%.1f", weights / 1e3);
		snprintf(text[2], sizeof(text[2]), "%.1f", activations / 1e3);
		snprintf(text[3], sizeof(text[3]), "%.2f", weights / activations);
		put_line(t, (const char *const[]){ text[0], text[1], text[2], text[3] }, 4);
	}
}

/* [rows][depth] x [depth][256] with the same work, from many rows to a great depth. */
static void shape(const struct table *t)
{
	static const char *const names[] = { "rows", "depth", "us", "TFLOPS" };
	const uint64_t input = 1u << 24, cols = 256;

	put_head(t, names, 4);
	for (uint64_t depth = 512; depth <= 32768; depth *= 2) {
		uint64_t rows = input / depth;
		double ns = time_ns(t, rows, depth, cols, LLM_WEIGHTS_W4A16,
				    NPU_TIME_WEIGHTS_STATIONARY);
		char text[4][32];

		snprintf(text[0], sizeof(text[0]), "%" PRIu64, rows);
		snprintf(text[1], sizeof(text[1]), "%" PRIu64, depth);
		snprintf(text[2], sizeof(text[2]), "%.1f", ns / 1e3);
		snprintf(text[3], sizeof(text[3]), "%.3f",
			 2 * (double)input * (double)cols / ns / 1e3);
		put_line(t, (const char *const[]){ text[0], text[1], text[2], text[3] }, 4);
	}
}

/*
 * FFN-down beside gate and up, Llama-3-8B's, either operand stationary (HeteroLLM 6): with weights
 * as wide as the arrays take them, and with weights of 4 bits, which are widened.
 */
static void ffn(const struct table *t)
{
	static const char *const names[] = { "matmul",	  "weights",  "tokens",	  "stationary",
					     "TFLOPS(s)", "streamed", "TFLOPS(t)" };
	static const struct {
		const char *name;
		uint64_t k, n;
	} matmuls[] = { { "gate_up", 4096, 28672 }, { "down", 14336, 4096 } };
	static const enum llm_weights weights[] = { LLM_WEIGHTS_F16, LLM_WEIGHTS_W4A16 };

	put_head(t, names, 7);
	for (int i = 0; i < 4; i++)
		for (uint64_t rows = 32; rows <= 1024; rows *= 2) {
			uint64_t k = matmuls[i / 2].k, n = matmuls[i / 2].n;
			char text[5][32];

			snprintf(text[0], sizeof(text[0]), "%" PRIu64, rows);
			for (int order = 0; order < 2; order++) {
				double ns = time_ns(t, rows, k, n, weights[i % 2], order);

				snprintf(text[1 + 2 * order], sizeof(text[0]), "%.1f", ns / 1e3);
				snprintf(text[2 + 2 * order], sizeof(text[0]), "%.3f",
					 2 * (double)rows * (double)k * (double)n / ns / 1e3);
			}
			put_line(t,
				 (const char *const[]){
					 matmuls[i / 2].name,
					 llm_choice_name(LLM_CHOICE_WEIGHTS, weights[i % 2]),
					 text[0], text[1], text[2], text[3], text[4] },
				 7);
		}
}

int npu_profile_curve(const struct profile_args *a, const char *curve)
{
	static const struct {
		const char *name;
		void (*print)(const struct table *t);
	} curves[] = { { "stage", stage }, { "order", order }, { "shape", shape }, { "ffn", ffn } };
	struct table t = { .md = a->out && !strcmp(a->out, "md") };
	struct soc *p;
	char why[512];
	int i = 0;

	while (i < 4 && strcmp(curve, curves[i].name))
		i++;
	if (i == 4)
		return tool_usage("curve: '%s' is none of stage, order, shape, ffn", curve);
	if (a->out && !t.md && strcmp(a->out, "csv"))
		return tool_usage("-o: '%s' is none of csv, md", a->out);
	p = soc_load(a->profile ? a->profile : "sd8gen3", why, sizeof(why));
	if (!p)
		return tool_fail("%s", why);
	t.soc = p;
	curves[i].print(&t);
	soc_free(p);
	return 0;
}
