// SPDX-License-Identifier: MIT
/*
 * Slices of products on the NPU: a graph for each operator, number of rows and range of columns, made when it is first needed, with
 * a job for each layer. Rows are bound where they lie when the job is submitted.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphs.h"
#include "hetero.h"
#include "llm_fail.h"

/* Of so many, the one that was used the longest ago makes room; at least what one plan needs, which are tens. */
#define MAX_GRAPHS 256
#define NO_ROW UINT32_MAX

struct slice_key {
	enum plan_op op;
	unsigned int rows;
	unsigned int first[HETERO_MAX_MATRICES], cols[HETERO_MAX_MATRICES];
};

struct slice_graph {
	struct slice_key key;
	struct npu_program *prog; /* NULL: free */
	uint32_t timeout_ms;
	struct slice_job {
		struct npu_job *job;
		unsigned int row; /* that x and y are bound at */
		const struct llm_area *y;
	} *jobs; /* by layer */
	uint64_t used, seqno; /* last submitted */
};

struct hetero_npu {
	struct llm_session *s;
	struct npu_queue *queue;
	struct slice_graph *graphs;
	uint64_t uses;
};

int hetero_npu_create(struct llm_session *s, struct hetero_npu **out)
{
	struct hetero_npu *n = *out = calloc(1, sizeof(*n));
	int err;

	if (n)
		n->graphs = calloc(MAX_GRAPHS, sizeof(*n->graphs));
	if (!n || !n->graphs)
		return llm_fail(-ENOMEM, "no memory for a session");
	n->s = s;
	err = npu_queue_create(s->engine->ctx, NULL, &n->queue);
	return err ? llm_fail(err, "%s", npu_error()) : 0;
}

static unsigned int graph_layers(const struct hetero_npu *n, enum plan_op op)
{
	return op == PLAN_HEAD ? 1 : n->s->engine->model.n_layer;
}

static void graph_free(const struct hetero_npu *n, struct slice_graph *g)
{
	for (unsigned int i = 0; g->jobs && i < graph_layers(n, g->key.op); i++)
		if (g->jobs[i].job)
			npu_job_free(g->jobs[i].job);
	free(g->jobs);
	if (g->prog)
		npu_program_free(g->prog);
	memset(g, 0, sizeof(*g));
}

void hetero_npu_free(struct hetero_npu *n)
{
	if (!n)
		return;
	for (unsigned int i = 0; n->graphs && i < MAX_GRAPHS; i++)
		graph_free(n, &n->graphs[i]);
	free(n->graphs);
	if (n->queue)
		npu_queue_free(n->queue);
	free(n);
}

/* ---- graphs ---- */

static int graph_make(struct hetero_npu *n, struct slice_graph *g, const struct hetero_slice *slice)
{
	const struct llm_engine *e = n->s->engine;
	struct llm_graph_part parts[HETERO_MAX_MATRICES];
	unsigned int nr = 0;
	size_t bytes;
	void *image;
	int err;

	for (unsigned int i = 0; i < slice->nr_parts; i++) {
		const struct hetero_part *part = &slice->parts[i];

		if (part->cols)
			parts[nr++] = (struct llm_graph_part){ part->matrix, part->output, part->cols, part->n };
	}
	err = llm_graph_build_parts(&e->model, &e->packed, plan_op_name((uint16_t)slice->op), slice->graph_rows, slice->k, parts,
				    nr, &image, &bytes);
	if (err)
		return err;
	g->timeout_ms = llm_graph_timeout_ms(e->info.device, image, bytes);
	err = npu_program_load(e->ctx, image, bytes, &g->prog);
	free(image);
	if (err)
		return llm_fail(err, "graph %s: %s", plan_op_name((uint16_t)slice->op), npu_error());
	g->jobs = calloc(graph_layers(n, slice->op), sizeof(*g->jobs));
	if (!g->jobs)
		return llm_fail(-ENOMEM, "no memory for the jobs of graph %s", plan_op_name((uint16_t)slice->op));
	return 0;
}

static int graph_find(struct hetero_npu *n, const struct hetero_slice *slice, struct slice_graph **out)
{
	struct slice_graph *oldest = NULL;
	struct slice_key key;
	int err;

	/* Compared as bytes. */
	memset(&key, 0, sizeof(key));
	key.op = slice->op;
	key.rows = slice->graph_rows;
	for (unsigned int i = 0; i < slice->nr_parts; i++) {
		key.first[i] = slice->parts[i].first;
		key.cols[i] = slice->parts[i].cols;
	}
	for (unsigned int i = 0; i < MAX_GRAPHS; i++) {
		struct slice_graph *g = &n->graphs[i];

		if (g->prog && !memcmp(&g->key, &key, sizeof(key))) {
			*out = g;
			return 0;
		}
		if (!oldest || g->used < oldest->used)
			oldest = g;
	}
	/* What it was used for last is done: so many graphs are never under way. */
	graph_free(n, oldest);
	oldest->key = key;
	err = graph_make(n, oldest, slice);
	if (err)
		graph_free(n, oldest);
	*out = oldest;
	return err;
}

/* ---- jobs ---- */

static int bind(struct npu_job *job, const char *symbol, struct npu_buffer *buf, size_t off, size_t bytes)
{
	int err = npu_job_bind(job, symbol, buf, off, bytes);

	return err ? llm_fail(err, "binding %s: %s", symbol, npu_error()) : 0;
}

/* A matrix' rows of weights, and of its bias. */
static int bind_weights(struct hetero_npu *n, struct npu_job *job, unsigned int layer, const struct hetero_part *part,
			unsigned int k)
{
	const struct llm_packed *packed = &n->s->engine->packed;
	const struct llm_packed_block *block = &packed->blocks[layer];
	enum llm_format format = part->matrix < 0 ? packed->formats.output : packed->formats.matrix[part->matrix];
	size_t skip = part->first ? llm_pack_bytes(format, part->first, k) : 0;
	size_t bytes = llm_pack_bytes(format, part->cols, k);
	char name[32];
	int err;

	if (part->matrix < 0)
		return bind(job, "output", packed->head, packed->output_off + skip, bytes);
	err = bind(job, llm_matrix_names[part->matrix], block->buf, block->part[part->matrix].off + skip, bytes);
	if (err || !block->part[LLM_PART_BIAS + part->matrix].bytes)
		return err;
	llm_part_name(LLM_PART_BIAS + (unsigned int)part->matrix, name, sizeof(name));
	return bind(job, name, block->buf, block->part[LLM_PART_BIAS + part->matrix].off + part->first * sizeof(float),
		    part->cols * sizeof(float));
}

static int bind_rows(struct hetero_npu *n, struct npu_job *job, const struct hetero_slice *slice)
{
	struct llm_session *s = n->s;
	size_t row_bytes = slice->k * sizeof(float);
	int err = bind(job, "x", s->work.buf, slice->x->off + slice->row * row_bytes, slice->graph_rows * row_bytes);

	for (unsigned int i = 0; !err && i < slice->nr_parts; i++) {
		const struct hetero_part *part = &slice->parts[i];
		size_t from = ((size_t)slice->row * part->n + part->first) * sizeof(float);
		size_t bytes = ((size_t)(slice->graph_rows - 1) * part->n + part->cols) * sizeof(float);

		if (part->cols)
			err = bind(job, part->output, part->y == &s->all ? s->all_memory.buf : s->work.buf,
				   part->y->off + from, bytes);
	}
	return err;
}

static int job_make(struct hetero_npu *n, struct slice_graph *g, const struct hetero_slice *slice, struct slice_job *j)
{
	int err = npu_job_create(g->prog, &j->job);

	if (err)
		return llm_fail(err, "graph %s: %s", plan_op_name((uint16_t)slice->op), npu_error());
	npu_job_timeout(j->job, g->timeout_ms);
	j->row = NO_ROW;
	for (unsigned int i = 0; !err && i < slice->nr_parts; i++)
		if (slice->parts[i].cols)
			err = bind_weights(n, j->job, slice->layer, &slice->parts[i], slice->k);
	if (err) {
		npu_job_free(j->job);
		j->job = NULL;
	}
	return err;
}

int hetero_npu_begin(struct hetero_npu *n, const struct hetero_slice *slice, uint64_t *seqno)
{
	struct slice_graph *g;
	struct slice_job *j;
	int err = graph_find(n, slice, &g);

	if (err)
		return err;
	g->used = ++n->uses;
	j = &g->jobs[slice->op == PLAN_HEAD ? 0 : slice->layer];
	if (!j->job)
		err = job_make(n, g, slice, j);
	/* A job is changed when it is not under way: slices of one size follow one another. */
	if (!err && (j->row != slice->row || j->y != slice->parts[0].y)) {
		if (j->row != NO_ROW)
			err = hetero_npu_wait(n, g->seqno);
		err = err ? err : bind_rows(n, j->job, slice);
		j->row = err ? NO_ROW : slice->row;
		j->y = slice->parts[0].y;
	}
	if (err)
		return err;
	err = npu_queue_submit(n->queue, &j->job, 1, NULL, seqno);
	if (err)
		return llm_fail(err, "%s", npu_error());
	g->seqno = *seqno;
	n->s->stats.npu_jobs++;
	return 0;
}

int hetero_npu_poll(struct hetero_npu *n, uint64_t seqno)
{
	int err;

	if (npu_queue_completed(n->queue) < seqno)
		return 0;
	/* How it ended the status page says too. */
	err = npu_queue_wait(n->queue, seqno, 0, NPU_WAIT_FAST);
	return err ? llm_fail(err, "%s", npu_error()) : 1;
}

int hetero_npu_wait(struct hetero_npu *n, uint64_t seqno)
{
	int err = npu_queue_wait(n->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER);

	return err ? llm_fail(err, "%s", npu_error()) : 0;
}
