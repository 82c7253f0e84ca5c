// SPDX-License-Identifier: MIT
/*
 * The NPU's part of attention. Estimates of attention shadow: graphs of 1, 2, 4 or 8 heads with a
 * constant scale of the queries, and the jobs that bind them to heads (shadowAttn 3.3, 3.4). And
 * all of attention npu: a graph of a layer's KV heads. A graph has no weights; each of its jobs is
 * bound again for every launch.
 *
 * The heads of a launch that are in one bucket share graphs, and all jobs of a launch are submitted
 * together. If a chunk's scales are what the calibration found, there is one job.
 */
#include "npu_estimate.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_builder.h"
#include "lane_attention.h"
#include "llm_fail.h"

/* Jobs of a graph that may be under way or bound at a time. */
#define JOBS 4
/* Graphs: a scale and a number of heads each, for a few lengths of chunks. */
#define MAX_GRAPHS 128
/* In place of a bucket: attention npu, whose scales are bound. */
#define ALL_HEADS UINT_MAX

struct estimate_graph {
	unsigned int bucket, heads, rows; /* heads 0: free */
	struct npu_program *prog;
	uint32_t timeout_ms;
	struct {
		struct npu_job *job;
		uint64_t seqno; /* of its last submission */
	} jobs[JOBS];
	unsigned int next;
	uint64_t used;
};

struct npu_estimates {
	const struct lane_memory *memory;
	struct estimate_graph graphs[MAX_GRAPHS];
	uint64_t uses;
};

struct npu_estimates *npu_estimates_create(const struct lane_memory *memory)
{
	struct npu_estimates *e = calloc(1, sizeof(*e));

	if (e)
		e->memory = memory;
	return e;
}

static void graph_free(struct estimate_graph *g)
{
	for (unsigned int i = 0; i < JOBS; i++)
		if (g->jobs[i].job)
			npu_job_free(g->jobs[i].job);
	if (g->prog)
		npu_program_free(g->prog);
	memset(g, 0, sizeof(*g));
}

void npu_estimates_free(struct npu_estimates *e)
{
	for (unsigned int i = 0; e && i < MAX_GRAPHS; i++)
		graph_free(&e->graphs[i]);
	free(e);
}

/* ---- graphs ---- */

static void add_head(struct graph_builder *b, const struct lane_attention *t, unsigned int i,
		     struct npu_tensor *scale)
{
	struct npu_tensor *x, *q, *k, *scales;
	char name[24];

	snprintf(name, sizeof(name), "q%u", i);
	x = npu_graph_input_columns(b->g, name, b->rows, t->a->head_dim, t->ldq);
	q = npu_quant_static(b->g, x, scale, &scales);
	snprintf(name, sizeof(name), "k%u", i);
	k = npu_graph_input(b->g, name, NPU_K8_PANEL, t->lds, t->a->head_dim);
	snprintf(name, sizeof(name), "scores%u", i);
	npu_graph_output(b->g, name, npu_qk_i8(b->g, q, k, vnpu_qk_shift(t->a->head_dim), b->pos));
}

/* KV head @i with its query heads. */
static void add_kv_head(struct graph_builder *b, const struct lane_attention *t, unsigned int i)
{
	unsigned int heads = t->a->heads / t->a->kv_heads, dim = t->a->head_dim;
	struct npu_tensor *q, *k, *v, *scales;
	char name[24];

	snprintf(name, sizeof(name), "q%u", i);
	q = npu_graph_input_columns(b->g, name, b->rows, heads * dim, b->m->q_dim);
	snprintf(name, sizeof(name), "k%u", i);
	k = npu_graph_input(b->g, name, NPU_K8_PANEL, t->lds, dim);
	snprintf(name, sizeof(name), "v%u", i);
	v = npu_graph_input(b->g, name, NPU_V8_PANEL, t->lds, dim);
	snprintf(name, sizeof(name), "scales%u", i);
	scales = npu_graph_input(b->g, name, NPU_F32, 1, 3);
	snprintf(name, sizeof(name), "y%u", i);
	npu_graph_output_columns(
		b->g, name, npu_attn_i8(b->g, q, k, v, scales, heads, b->m->attn_scale, b->pos),
		b->m->q_dim);
}

static int build_all(const struct npu_estimates *e, const struct estimate_graph *g, void **image,
		     size_t *bytes)
{
	struct graph_builder b;
	int err = builder_init(&b, e->memory->loaded, "attention_i8", g->rows);

	if (err)
		return err;
	b.pos = npu_graph_param(b.g, "pos");
	for (unsigned int i = 0; i < g->heads; i++)
		add_kv_head(&b, e->memory->attention, i);
	return builder_compile(&b, image, bytes);
}

static int build(const struct npu_estimates *e, const struct estimate_graph *g, void **image,
		 size_t *bytes)
{
	const struct lane_attention *t = e->memory->attention;
	float value = scale_buckets_q(&t->a->buckets, g->bucket);
	char name[SCALE_BUCKETS_NAME_BYTES], what[48];
	struct npu_tensor *scale;
	struct graph_builder b;
	int err;

	scale_buckets_name(&t->a->buckets, g->bucket, name);
	snprintf(what, sizeof(what), "estimate_%s_%u", name, g->heads);
	err = builder_init(&b, e->memory->loaded, what, g->rows);
	if (err)
		return err;
	b.pos = npu_graph_param(b.g, "pos");
	scale = npu_graph_const(b.g, "scale", &value, 1, 1);
	for (unsigned int i = 0; i < g->heads; i++)
		add_head(&b, t, i, scale);
	return builder_compile(&b, image, bytes);
}

static int graph_make(struct npu_estimates *e, struct estimate_graph *g)
{
	const struct llm_loaded *l = e->memory->loaded;
	size_t bytes;
	void *image;
	int err = g->bucket == ALL_HEADS ? build_all(e, g, &image, &bytes)
					 : build(e, g, &image, &bytes);

	if (err)
		return err;
	g->timeout_ms = llm_graph_timeout_ms(l->device, image, bytes);
	err = npu_program_load(l->ctx, image, bytes, &g->prog);
	free(image);
	if (err)
		return llm_fail(err, "graph of an estimate: %s", npu_error());
	e->memory->attention->graphs++;
	e->memory->attention->graph_bytes += bytes;
	return 0;
}

int npu_estimate_prepare(struct npu_estimates *e, unsigned int bucket, unsigned int heads,
			 unsigned int rows, struct estimate_graph **out)
{
	struct estimate_graph *oldest = &e->graphs[0];
	int err;

	for (unsigned int i = 0; i < MAX_GRAPHS; i++) {
		struct estimate_graph *g = &e->graphs[i];

		if (g->bucket == bucket && g->heads == heads && g->rows == rows) {
			g->used = ++e->uses;
			*out = g;
			return 0;
		}
		if (g->used < oldest->used)
			oldest = g;
	}
	/* Its jobs have ended: never are so many graphs under way. */
	graph_free(oldest);
	*oldest = (struct estimate_graph){ bucket, heads, rows, .used = ++e->uses };
	*out = oldest;
	err = graph_make(e, oldest);
	if (err)
		graph_free(oldest);
	return err;
}

/* ---- jobs ---- */

static int bind(struct npu_job *job, const char *what, unsigned int i, const struct llm_memory *in,
		size_t off, size_t bytes)
{
	char name[24];
	int err;

	snprintf(name, sizeof(name), "%s%u", what, i);
	err = npu_job_bind(job, name, in->buf, off, bytes);
	return err ? llm_fail(err, "binding %s: %s", name, npu_error()) : 0;
}

static int bind_kv_head(const struct npu_estimates *e, struct npu_job *job, unsigned int i,
			const struct lane_call *call)
{
	const struct lane_memory *m = e->memory;
	const struct lane_attention *t = m->attention;
	unsigned int cols = m->loaded->model.q_dim / t->a->kv_heads;
	size_t q_dim = m->loaded->model.q_dim,
	       first = (call->chunk->row * q_dim + (size_t)i * cols) * sizeof(float),
	       bytes = ((call->chunk->rows - 1) * q_dim + cols) * sizeof(float),
	       scales = lane_scales_off(t, i, call->chunk->row);
	int err = bind(job, "q", i, m->q.in, m->q.off + first, bytes);

	if (!err)
		err = bind(job, "k", i, &t->keys, lane_keys_off(t, call->work->layer, i),
			   t->head_keys);
	if (!err)
		err = bind(job, "v", i, &t->values, lane_values_off(t, call->work->layer, i),
			   t->head_values);
	if (!err)
		err = bind(job, "scales", i, &t->scales, scales, 3 * sizeof(float));
	return err ? err : bind(job, "y", i, m->att.in, m->att.off + first, bytes);
}

static int bind_head(const struct npu_estimates *e, struct npu_job *job, unsigned int i,
		     const struct lane_call *call, const struct estimate_head *head)
{
	const struct lane_attention *t = e->memory->attention;
	unsigned int group = t->a->heads / t->a->kv_heads;
	uint32_t row = call->chunk->row, rows = call->chunk->rows;
	int err = bind(job, "q", i, &t->q, lane_q_off(t, head->head, row),
		       ((size_t)(rows - 1) * t->ldq + t->a->head_dim) * sizeof(float));

	if (!err)
		err = bind(job, "k", i, &t->keys,
			   lane_keys_off(t, call->work->layer, head->head / group), t->head_keys);
	if (!err)
		err = bind(job, "scores", i, &t->scores, lane_scores_off(t, head->slot, row),
			   (size_t)rows * t->lds * sizeof(int16_t));
	return err;
}

/* The graph's next job, once it is not under way. */
static int take_job(struct estimate_graph *g, npu_wait_fn wait, void *ud, struct npu_job **job)
{
	unsigned int i = g->next++ % JOBS;
	int err = 0;

	if (g->jobs[i].job) {
		err = g->jobs[i].seqno ? wait(ud, g->jobs[i].seqno) : 0;
	} else {
		err = npu_job_create(g->prog, &g->jobs[i].job);
		if (err)
			return llm_fail(err, "%s", npu_error());
		npu_job_timeout(g->jobs[i].job, g->timeout_ms);
	}
	*job = g->jobs[i].job;
	return err;
}

int npu_estimate_job(struct npu_estimates *e, const struct lane_call *call, unsigned int bucket,
		     const struct estimate_head *heads, unsigned int n, npu_wait_fn wait, void *ud,
		     struct npu_job **job, uint64_t **seqno)
{
	struct estimate_graph *g;
	int err = npu_estimate_prepare(e, bucket, n, call->chunk->rows, &g);

	if (!err)
		err = take_job(g, wait, ud, job);
	for (unsigned int i = 0; i < n && !err; i++)
		err = bind_head(e, *job, i, call, &heads[i]);
	if (!err && npu_job_param(*job, "pos", call->pos))
		err = llm_fail(-EINVAL, "%s", npu_error());
	if (!err)
		*seqno = &g->jobs[(g->next - 1) % JOBS].seqno;
	return err;
}

int npu_attention_prepare(struct npu_estimates *e, unsigned int rows)
{
	struct estimate_graph *g;

	return npu_estimate_prepare(e, ALL_HEADS, e->memory->attention->a->kv_heads, rows, &g);
}

int npu_attention_job(struct npu_estimates *e, const struct lane_call *call, npu_wait_fn wait,
		      void *ud, struct npu_job **job, uint64_t **seqno)
{
	unsigned int n = e->memory->attention->a->kv_heads;
	struct estimate_graph *g;
	int err = npu_estimate_prepare(e, ALL_HEADS, n, call->chunk->rows, &g);

	if (!err)
		err = take_job(g, wait, ud, job);
	for (unsigned int i = 0; i < n && !err; i++)
		err = bind_kv_head(e, *job, i, call);
	if (!err && npu_job_param(*job, "pos", call->pos))
		err = llm_fail(-EINVAL, "%s", npu_error());
	if (!err)
		*seqno = &g->jobs[(g->next - 1) % JOBS].seqno;
	return err;
}
