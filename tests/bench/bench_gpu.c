// SPDX-License-Identifier: MIT
/*
 * A/B of the GPU lane and the NPU: the same matmuls with the same copy of the weights, alternately.
 *
 *	bench_gpu [-t SECONDS per figure (0.3)] [-d DEVICE (VNPU_OPENCL, or the first GPU)]
 *
 * GFLOPS are 2 m n k per second, GB/s the weights that are read; for attention, its two matmuls and
 * the cache. gpu/npu is the median of the turns' ratios; above 1 the OpenCL device is faster. The
 * NPU lacks the F16 and F32 formats. If the OpenCL device is a CPU, times are the CPU time of this
 * process, for the threads of both lanes together: figures are per CPU and do not depend on the
 * host's other work. A GPU's times are on the wall clock, with the driver's calls and waits.
 *
 * Last, the wall clock time until the end of an operator of one element is known: by the driver's
 * wait, and by a polled flag (runtime/lanes/opencl/gpu.h); and of such operators one after another,
 * as a pass through a model has them.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <npu/vnpu_isa.h>

#include "gpu.h"
#include "llm.h"
#include "npu.h"
#include "npu_graph.h"

#define MAX_TURNS 4000
#define GROUP 32
#define IN_A_ROW 200

static struct llm_gpu *gpu;
static struct llm_gpu_queue *gpu_queue;
static struct npu_context *npu_ctx;
static struct npu_queue *npu_q;
static double limit = 0.3;

static clockid_t clock_of_lanes = CLOCK_MONOTONIC;

static double seconds(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

static void die(const char *what)
{
	fprintf(stderr, "bench_gpu: %s\n", what);
	exit(1);
}

static void check_gpu(int err)
{
	if (err)
		die(llm_error());
}

static void check_npu(int err)
{
	if (err)
		die(npu_error());
}

/* ---- operands -------------------------------------------------------------------------------- */

/* A buffer of both lanes. */
struct operand {
	struct npu_buffer *npu;
	struct llm_gpu_buffer *gpu;
	void *data;
	size_t bytes;
};

static struct operand operand_new(size_t bytes)
{
	struct operand o = { .bytes = bytes };

	check_npu(npu_buffer_create(npu_ctx, bytes, 0, &o.npu));
	o.data = npu_buffer_data(o.npu);
	check_gpu(llm_gpu_map(gpu, o.data, npu_buffer_size(o.npu), LLM_GPU_SHARED, &o.gpu));
	return o;
}

static void operand_free(struct operand *o)
{
	llm_gpu_unmap(o->gpu);
	npu_buffer_free(o->npu);
}

static void fill_bytes(const struct operand *o)
{
	uint32_t x = 1;

	for (size_t i = 0; i < o->bytes / 4; i++)
		((uint32_t *)o->data)[i] = x = x * 1664525 + 1013904223;
}

static void fill_floats(const struct operand *o)
{
	uint32_t x = 1;

	for (size_t i = 0; i < o->bytes / 4; i++) {
		x = x * 1664525 + 1013904223;
		((float *)o->data)[i] = (float)(x >> 8) * 0x1p-24f - 0.5f;
	}
}

/* ---- turns ----------------------------------------------------------------------------------- */

struct subject {
	struct llm_gpu_matmul matmul;
	struct llm_gpu_attn attn;
	bool is_attn;
	struct npu_job *job; /* NULL: not on the NPU */
};

static void run_gpu(const struct subject *s)
{
	check_gpu(s->is_attn ? llm_gpu_attn(gpu_queue, &s->attn)
			     : llm_gpu_matmul(gpu_queue, &s->matmul));
	check_gpu(llm_gpu_finish(gpu_queue));
}

static void run_npu(const struct subject *s)
{
	uint64_t seqno;

	check_npu(npu_queue_submit(npu_q, &s->job, 1, NULL, &seqno));
	check_npu(npu_queue_wait(npu_q, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, unsigned int n)
{
	qsort(v, n, sizeof(*v), ascending);
	return v[n / 2];
}

static void row(const char *kernel, const char *shape, const struct subject *s, double flops,
		double bytes)
{
	static double times[2][MAX_TURNS], ratios[MAX_TURNS];
	unsigned int n = 0;
	double end, start, t;

	run_gpu(s);
	if (s->job)
		run_npu(s);
	end = seconds(CLOCK_MONOTONIC) + 2 * limit;
	do {
		start = seconds(clock_of_lanes);
		run_gpu(s);
		t = seconds(clock_of_lanes);
		times[0][n] = t - start;
		if (s->job)
			run_npu(s);
		times[1][n] = seconds(clock_of_lanes) - t;
		ratios[n] = times[1][n] / times[0][n];
		n++;
	} while (n < MAX_TURNS && seconds(CLOCK_MONOTONIC) < end);
	t = median(times[0], n);
	printf("%-9s %-22s %9.1f %8.2f", kernel, shape, flops / t * 1e-9, bytes / t * 1e-9);
	if (s->job) {
		t = median(times[1], n);
		printf(" %11.1f %8.2f %8.3f", flops / t * 1e-9, bytes / t * 1e-9,
		       median(ratios, n));
	}
	putchar('\n');
	fflush(stdout);
}

/* ---- matmuls --------------------------------------------------------------------------------- */

struct kind {
	const char *name;
	enum llm_gpu_weights format;
	bool int8;
	double weight_bytes;
};

static const struct kind kinds[] = {
	{ "w8a8", LLM_GPU_W8, true, 1 },	 { "w4a8", LLM_GPU_W4, true, 4.5 / 8 },
	{ "w4a16", LLM_GPU_W4, false, 4.5 / 8 }, { "f16", LLM_GPU_F16, false, 2 },
	{ "f32", LLM_GPU_F32, false, 4 },
};

static const struct {
	unsigned int m, n, k;
} shapes[] = { { 1, 896, 896 },	  { 1, 4864, 896 },   { 1, 8192, 2048 },
	       { 4, 8192, 2048 }, { 32, 2048, 2048 }, { 256, 2048, 2048 } };

static size_t panel_bytes(const struct kind *kind, unsigned int n, unsigned int k)
{
	return kind->format == LLM_GPU_W8   ? npu_w8_bytes(n, k)
	       : kind->format == LLM_GPU_W4 ? npu_w4_bytes(n, k, GROUP)
					    : (size_t)((double)n * k * kind->weight_bytes);
}

/* Sets scales, and F16 weights, to ordinary numbers. */
static void fill_weights(const struct kind *kind, const struct operand *w, unsigned int k)
{
	size_t panel = panel_bytes(kind, 64, kind->format == LLM_GPU_W8 ? k : GROUP);

	if (kind->format == LLM_GPU_F32) {
		fill_floats(w);
		return;
	}
	fill_bytes(w);
	for (size_t i = 0; kind->format == LLM_GPU_F16 && i < w->bytes / 2; i++)
		((uint16_t *)w->data)[i] = (((uint16_t *)w->data)[i] & 0x83ff) | 0x2c00;
	for (uint8_t *p = (uint8_t *)w->data + panel;
	     kind->format < LLM_GPU_F32 && p <= (uint8_t *)w->data + w->bytes; p += panel)
		for (int i = 1; i <= 64; i++)
			if (kind->format == LLM_GPU_W8)
				((float *)p)[-i] = 0.01f;
			else
				((uint16_t *)p)[-i] = 0x2000;
}

static void bind(struct npu_job *job, const char *symbol, const struct operand *o)
{
	check_npu(npu_job_bind(job, symbol, o->npu, 0, o->bytes));
}

static struct npu_job *job_of(struct npu_graph *g)
{
	struct npu_program *prog;
	struct npu_job *job;
	size_t bytes;
	void *image;

	check_npu(npu_graph_compile(g, &image, &bytes));
	check_npu(npu_program_load(npu_ctx, image, bytes, &prog));
	check_npu(npu_job_create(prog, &job));
	npu_program_free(prog);
	npu_graph_free(g);
	free(image);
	return job;
}

static struct npu_job *matmul_job(const struct kind *kind, unsigned int m, unsigned int n,
				  unsigned int k)
{
	struct npu_graph *g = npu_graph_create("matmul");
	struct npu_tensor *x = npu_graph_input(g, "x", kind->int8 ? NPU_S8 : NPU_F32, m, k), *w, *y,
			  *scale = NULL;

	if (kind->int8)
		scale = npu_graph_input(g, "scale", NPU_F32, m, 1);
	w = kind->format == LLM_GPU_W8 ? npu_graph_weight(g, "w", NPU_W8_PANEL, n, k)
				       : npu_graph_weight_w4(g, "w", n, k, GROUP);
	y = kind->format == LLM_GPU_W8 ? npu_matmul_i8(g, x, scale, w, NULL)
	    : kind->int8	       ? npu_matmul_w4(g, x, scale, w, NULL)
				       : npu_matmul_w4f(g, x, w, NULL);
	npu_graph_output(g, "y", y);
	return job_of(g);
}

static void run_matmul(const struct kind *kind, unsigned int m, unsigned int n, unsigned int k)
{
	struct operand w = operand_new(panel_bytes(kind, n, k)),
		       x = operand_new((size_t)m * k * (kind->int8 ? 1 : 4));
	struct operand scale = operand_new(m * 4), y = operand_new((size_t)m * n * 4);
	struct subject s = { .matmul = { .format = kind->format,
					 .m = m,
					 .k = k,
					 .n = n,
					 .x = { x.gpu, 0 },
					 .w = { w.gpu, 0 },
					 .y = { y.gpu, 0 },
					 .ldx = k,
					 .ldw = k,
					 .ldy = n,
					 .group = GROUP } };
	char shape[40];

	fill_weights(kind, &w, k);
	(kind->int8 ? fill_bytes : fill_floats)(&x);
	fill_floats(&scale);
	if (kind->int8)
		s.matmul.x_scale.buf = scale.gpu;
	if (kind->format == LLM_GPU_W8 || kind->format == LLM_GPU_W4) {
		s.job = matmul_job(kind, m, n, k);
		bind(s.job, "x", &x);
		if (kind->int8)
			bind(s.job, "scale", &scale);
		bind(s.job, "w", &w);
		bind(s.job, "y", &y);
	}
	check_gpu(llm_gpu_to_device(gpu_queue, w.gpu, 0, w.bytes));
	check_gpu(llm_gpu_to_device(gpu_queue, x.gpu, 0, x.bytes));
	check_gpu(llm_gpu_to_device(gpu_queue, scale.gpu, 0, scale.bytes));
	snprintf(shape, sizeof(shape), "%u x %u x %u", m, n, k);
	row(kind->name, shape, &s, 2.0 * m * n * k, w.bytes);
	if (s.job)
		npu_job_free(s.job);
	operand_free(&w);
	operand_free(&x);
	operand_free(&scale);
	operand_free(&y);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Attention of a small model: 14 heads of 64 that share 2 KV heads, with an F16 cache. */
static void attention(unsigned int rows, unsigned int pos)
{
	enum { HEADS = 14, KV_HEADS = 2, DIM = 64 };
	unsigned int ctx = pos + rows;
	struct operand q = operand_new(rows * HEADS * DIM * 4),
		       y = operand_new(rows * HEADS * DIM * 4);
	struct operand k = operand_new(ctx * KV_HEADS * DIM * 2),
		       v = operand_new(ctx * KV_HEADS * DIM * 2);
	struct kind f16 = { .format = LLM_GPU_F16 };
	struct subject s = { .is_attn = true,
			     .attn = { .q = { q.gpu, 0 },
				       .k = { k.gpu, 0 },
				       .v = { v.gpu, 0 },
				       .y = { y.gpu, 0 },
				       .rows = rows,
				       .heads = HEADS,
				       .kv_heads = KV_HEADS,
				       .head_dim = DIM,
				       .ctx_rows = ctx,
				       .pos = pos,
				       .kv_type = VNPU_KV_F16,
				       .ldq = HEADS * DIM,
				       .ldk = KV_HEADS * DIM,
				       .ldv = KV_HEADS * DIM,
				       .ldy = HEADS * DIM,
				       .scale = 0.125f } };
	double seen = rows * (pos + (rows + 1) / 2.0);
	struct npu_graph *g = npu_graph_create("attn");
	struct npu_tensor *tq = npu_graph_input(g, "q", NPU_F32, rows, HEADS * DIM);
	struct npu_tensor *tk = npu_graph_state(g, "k", NPU_F16, ctx, KV_HEADS * DIM);
	struct npu_tensor *tv = npu_graph_state(g, "v", NPU_F16, ctx, KV_HEADS * DIM);
	int p = npu_graph_param(g, "pos");
	char shape[40];

	npu_graph_output(g, "y", npu_attn(g, tq, tk, tv, HEADS, KV_HEADS, 0.125f, p));
	s.job = job_of(g);
	fill_floats(&q);
	fill_weights(&f16, &k, 0);
	fill_weights(&f16, &v, 0);
	bind(s.job, "q", &q);
	bind(s.job, "k", &k);
	bind(s.job, "v", &v);
	bind(s.job, "y", &y);
	check_npu(npu_job_param(s.job, "pos", pos));
	check_gpu(llm_gpu_to_device(gpu_queue, q.gpu, 0, q.bytes));
	check_gpu(llm_gpu_to_device(gpu_queue, k.gpu, 0, k.bytes));
	check_gpu(llm_gpu_to_device(gpu_queue, v.gpu, 0, v.bytes));
	snprintf(shape, sizeof(shape), "%u rows at %u", rows, pos);
	row("attention", shape, &s, 4.0 * seen * HEADS * DIM, k.bytes + v.bytes);
	npu_job_free(s.job);
	operand_free(&q);
	operand_free(&k);
	operand_free(&v);
	operand_free(&y);
}

/* ---- synchronisation ------------------------------------------------------------------------- */

static void in_a_row(const struct llm_gpu_binary *op)
{
	static double calls[MAX_TURNS], all[MAX_TURNS];
	unsigned int n = 0;
	double end = seconds(CLOCK_MONOTONIC) + 2 * limit, start;

	do {
		start = seconds(CLOCK_MONOTONIC);
		for (unsigned int i = 0; i < IN_A_ROW; i++)
			check_gpu(llm_gpu_binary(gpu_queue, op));
		calls[n] = seconds(CLOCK_MONOTONIC) - start;
		check_gpu(llm_gpu_finish(gpu_queue));
		all[n++] = seconds(CLOCK_MONOTONIC) - start;
	} while (n < MAX_TURNS && seconds(CLOCK_MONOTONIC) < end);
	printf("%u in a row: %.1f us each until the driver's wait returns, of which %.1f us in the "
	       "calls that enqueue\n",
	       IN_A_ROW, median(all, n) / IN_A_ROW * 1e6, median(calls, n) / IN_A_ROW * 1e6);
}

static void synchronisation(void)
{
	static double times[2][MAX_TURNS];
	struct operand o = operand_new(4096);
	struct llm_gpu_binary op = {
		LLM_GPU_ADD, { o.gpu, 0 }, { o.gpu, 64 }, { o.gpu, 128 }, 1, 1, 1, 1, 1
	};
	struct llm_gpu_area word = { o.gpu, 192 };
	unsigned int n = 0;
	double end, start;

	/* The first run of each kernel compiles it. */
	check_gpu(llm_gpu_binary(gpu_queue, &op));
	check_gpu(llm_gpu_flag(gpu_queue, word, 0));
	check_gpu(llm_gpu_finish(gpu_queue));
	end = seconds(CLOCK_MONOTONIC) + 2 * limit;
	do {
		start = seconds(CLOCK_MONOTONIC);
		check_gpu(llm_gpu_binary(gpu_queue, &op));
		check_gpu(llm_gpu_finish(gpu_queue));
		times[0][n] = seconds(CLOCK_MONOTONIC) - start;
		start = seconds(CLOCK_MONOTONIC);
		check_gpu(llm_gpu_binary(gpu_queue, &op));
		check_gpu(llm_gpu_flag(gpu_queue, word, n + 1));
		while (!llm_gpu_flag_is((char *)o.data + 192, n + 1))
			sched_yield();
		times[1][n] = seconds(CLOCK_MONOTONIC) - start;
		check_gpu(llm_gpu_finish(gpu_queue));
		n++;
	} while (n < MAX_TURNS && seconds(CLOCK_MONOTONIC) < end);
	printf("\nan operator of one element: %.1f us until the driver's wait returns, %.1f us "
	       "until the flag is seen\n",
	       median(times[0], n) * 1e6, median(times[1], n) * 1e6);
	in_a_row(&op);
	operand_free(&o);
}

int main(int argc, char **argv)
{
	const char *device = NULL;
	struct npu_device *dev;
	int c;

	while ((c = getopt(argc, argv, "t:d:")) != -1) {
		if (c == 't')
			limit = atof(optarg);
		else if (c == 'd')
			device = optarg;
		else
			return 2;
	}
	check_gpu(llm_gpu_open(device, NULL, &gpu));
	check_gpu(llm_gpu_queue_create(gpu, &gpu_queue));
	if (llm_gpu_info(gpu)->cpu)
		clock_of_lanes = CLOCK_PROCESS_CPUTIME_ID;
	check_npu(npu_device_open(&(struct npu_device_options){ .transport = NPU_TRANSPORT_SIM },
				  &dev));
	check_npu(npu_context_create(dev, &npu_ctx));
	check_npu(npu_queue_create(npu_ctx, NULL, &npu_q));
	printf("gpu: %s, %s; %u compute units, vectors of %u, %s\n", llm_gpu_info(gpu)->platform,
	       llm_gpu_info(gpu)->name, llm_gpu_info(gpu)->compute_units, llm_gpu_vector(gpu),
	       llm_gpu_coherent(gpu) ? "coherent" : "not coherent");
	printf("npu: %s\n\n", npu_device_info(dev)->name);
	printf("%-9s %-22s %9s %8s %11s %8s %8s\n", "kernel", "m x n x k", "gpu GF/s", "GB/s",
	       "npu GF/s", "GB/s", "gpu/npu");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		for (size_t j = 0; j < sizeof(shapes) / sizeof(shapes[0]); j++)
			run_matmul(&kinds[i], shapes[j].m, shapes[j].n, shapes[j].k);
	attention(1, 1023);
	attention(1, 8191);
	attention(128, 896);
	synchronisation();
	npu_queue_free(npu_q);
	npu_context_free(npu_ctx);
	npu_device_close(dev);
	llm_gpu_queue_free(gpu_queue);
	llm_gpu_close(gpu);
	return 0;
}
