// SPDX-License-Identifier: MIT
/* Matmuls on the wall clock: one graph and one job, run repeatedly. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "npu_graph.h"
#include "op_profile.h"
#include "progress.h"
#include "tool.h"

#define WARM_UP 3
/*
 * The median is compared each time that the number of runs, MIN_RUNS at first, has doubled; it is
 * stable if it changed by at most STABLE.
 */
#define MIN_RUNS 8
#define MAX_RUNS 512
#define STABLE 0.01
#define MAX_NS 500000000ull

struct bench {
	struct npu_device *dev;
	struct npu_context *ctx;
	struct npu_queue *queue;
};

static int fail(const char *why)
{
	progress_clear();
	return tool_fail("%s", why);
}

/* A matmul's graph, program, job and buffers. */
struct matmul {
	struct npu_graph *g;
	void *image;
	struct npu_program *prog;
	struct npu_job *job;
	struct npu_buffer *q, *scale, *w, *y;
};

static int add_buffer(struct bench *b, struct matmul *p, const char *name,
		      const struct npu_tensor *t, struct npu_buffer **buf)
{
	size_t bytes = npu_tensor_bytes(t);
	int err = npu_buffer_create(b->ctx, bytes, 0, buf);

	return err ? err : npu_job_bind(p->job, name, *buf, 0, bytes);
}

static void fill_random(struct npu_buffer *buf)
{
	uint8_t *p = npu_buffer_data(buf);
	uint32_t x = 1;

	for (size_t i = 0; i < npu_buffer_size(buf); i++)
		p[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
}

/* Packs random weights panel by panel: random bytes for whole panels could make scales that are not
 * finite. */
static int fill_weights(struct npu_buffer *w, uint32_t n, uint32_t k)
{
	enum { ROWS = 64 };
	int8_t *rows = malloc((size_t)ROWS * k);
	float scales[ROWS];
	uint32_t x = 2;

	if (!rows)
		return fail("no memory for random weights");
	for (int i = 0; i < ROWS; i++)
		scales[i] = 0.01f;
	for (size_t i = 0; i < (size_t)ROWS * k; i++)
		rows[i] = (int8_t)((x = x * 1664525 + 1013904223) >> 24);
	for (uint32_t n0 = 0; n0 < n; n0 += ROWS)
		npu_pack_w8(npu_buffer_data(w), n, k, n0, n - n0 < ROWS ? n - n0 : ROWS, rows,
			    scales);
	free(rows);
	return 0;
}

static int matmul_open(struct bench *b, const struct soc_op *op, struct matmul *p)
{
	struct npu_tensor *q, *scale, *w, *y;
	uint32_t m = (uint32_t)op->m, k = (uint32_t)op->k, n = (uint32_t)op->n;
	size_t bytes;
	int err;

	p->g = npu_graph_create("matmul");
	if (!p->g)
		return fail("no memory for a graph");
	q = npu_graph_input(p->g, "q", NPU_S8, m, k);
	scale = npu_graph_input(p->g, "scale", NPU_F32, m, 1);
	w = npu_graph_weight(p->g, "w", NPU_W8_PANEL, n, k);
	y = npu_graph_output(p->g, "y", npu_matmul_i8(p->g, q, scale, w, NULL));
	err = npu_graph_compile(p->g, &p->image, &bytes);
	err = err ?: npu_program_load(b->ctx, p->image, bytes, &p->prog);
	err = err ?: npu_job_create(p->prog, &p->job);
	err = err ?: add_buffer(b, p, "q", q, &p->q);
	err = err ?: add_buffer(b, p, "scale", scale, &p->scale);
	err = err ?: add_buffer(b, p, "w", w, &p->w);
	err = err ?: add_buffer(b, p, "y", y, &p->y);
	if (err)
		return fail(npu_error());
	fill_random(p->q);
	for (uint32_t i = 0; i < m; i++)
		((float *)npu_buffer_data(p->scale))[i] = 0.01f;
	return fill_weights(p->w, n, k);
}

static void matmul_close(struct matmul *p)
{
	npu_job_free(p->job);
	npu_program_free(p->prog);
	npu_buffer_free(p->q);
	npu_buffer_free(p->scale);
	npu_buffer_free(p->w);
	npu_buffer_free(p->y);
	npu_graph_free(p->g);
	free(p->image);
}

/* One run's device time. The wait in the driver makes sure that the counter includes it. */
static int run_once(struct bench *b, struct matmul *p, double *ns)
{
	struct npu_device_state before, after;
	uint64_t seqno;
	int err = npu_device_state(b->dev, &before);

	err = err ?: npu_queue_submit(b->queue, &p->job, 1, NULL, &seqno);
	err = err ?: npu_queue_wait(b->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER);
	err = err ?: npu_device_state(b->dev, &after);
	if (err)
		return fail(npu_error());
	*ns = (double)(after.busy_ns - before.busy_ns);
	return 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *values, size_t n)
{
	double v[MAX_RUNS];

	memcpy(v, values, n * sizeof(*v));
	qsort(v, n, sizeof(*v), compare);
	return n & 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static int measure(struct bench *b, struct matmul *p, struct op_sample *s)
{
	double ns[MAX_RUNS], off[MAX_RUNS], last = 0, spare;
	uint64_t until;
	size_t n = 0;
	int err = 0;

	for (int i = 0; i < WARM_UP && !err; i++)
		err = run_once(b, p, &spare);
	until = tool_now_ns() + MAX_NS;
	for (size_t check = MIN_RUNS; n < MAX_RUNS && !err;) {
		err = run_once(b, p, &ns[n++]);
		if (tool_now_ns() >= until)
			break;
		if (n < check)
			continue;
		s->ns = median(ns, n);
		if (fabs(s->ns - last) <= STABLE * s->ns)
			break;
		last = s->ns;
		check *= 2;
	}
	if (err)
		return err;
	s->ns = median(ns, n);
	for (size_t i = 0; i < n; i++)
		off[i] = fabs(ns[i] - s->ns);
	s->mad_ns = median(off, n);
	s->runs = (uint32_t)n;
	return s->ns > 0 ? 0 : fail("the device counts no time for its jobs");
}

static int check(const struct op_samples *s)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct op_sample *v = &s->v[i];

		if (v->lane != SOC_NPU || v->op.act_bits != 8 || v->op.weight_bits != 8 ||
		    v->op.order != NPU_TIME_WEIGHTS_STATIONARY)
			return fail("the wall clock measures only w8a8 matmuls on the NPU, with "
				    "stationary weights");
	}
	return 0;
}

static int bench_open(const struct npu_device_options *device, struct bench *b)
{
	int err = npu_device_open(device, &b->dev);

	err = err ?: npu_context_create(b->dev, &b->ctx);
	err = err ?: npu_queue_create(b->ctx, NULL, &b->queue);
	return err ? fail(npu_error()) : 0;
}

int op_profile_wall(const struct npu_device_options *device, struct op_samples *s)
{
	struct bench b = { 0 };
	int err = check(s) ?: bench_open(device, &b);

	if (!err)
		snprintf(s->source, sizeof(s->source), "wall:%s",
			 npu_device_info(b.dev)->transport == NPU_TRANSPORT_DRM ? "drm" : "sim");
	for (size_t i = 0; i < s->n && !err; i++) {
		struct matmul p = { 0 };
		char what[64];

		snprintf(what, sizeof(what), "matmul %zu of %zu", i + 1, s->n);
		progress_show((double)i / (double)s->n, what);
		err = matmul_open(&b, &s->v[i].op, &p);
		err = err ? err : measure(&b, &p, &s->v[i]);
		matmul_close(&p);
	}
	progress_clear();
	npu_queue_free(b.queue);
	npu_context_free(b.ctx);
	npu_device_close(b.dev);
	return err;
}
