/* SPDX-License-Identifier: MIT */
/*
 * Forward passes on the NPU.
 *
 * Graphs are static, so a chunk has more rows than tokens if no graph has just as many: results of rows beyond its tokens are
 * not used, and what they leave in the cache lies beyond n_past, where it is overwritten before it is ever read. Bucketed, there
 * is a graph for each multiple of LLM_BUCKET_ROWS, made when the first chunk wants it; shared, one for all chunks.
 *
 *   fine	a chunk's matmuls are four jobs per block, between which the CPU lane does the float operators in the
 *		same memory (forward.c); the output head is a job of its own for the rows that are wanted
 *   npu	a chunk is one job, submitted together with the output head's
 *   both	one token is one job: embedding row in, logits out
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "forward.h"
#include "graphs.h"
#include "llm_fail.h"

/* A loaded graph and its jobs: one, or one per block. */
struct lane_graph {
	struct npu_program *prog;
	struct npu_job **jobs;
	unsigned int nr_jobs;
	unsigned int rows;
};

/* The graphs of chunks of one size: four of a block, or one of all blocks. */
struct lane_bucket {
	unsigned int rows;
	struct lane_graph graphs[LLM_NR_GRAPHS];
	bool ready;
};

struct llm_npu_lane {
	struct npu_queue *queue;
	struct lane_graph token, head;
	struct lane_graph head_all; /* for llm_session_all_rows(), made when first wanted */
	struct lane_bucket *buckets, *bucket; /* by rows; that of the chunk under way */
	unsigned int nr_buckets;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void graph_unload(struct lane_graph *g)
{
	for (unsigned int i = 0; i < g->nr_jobs; i++)
		npu_job_free(g->jobs[i]);
	free(g->jobs);
	if (g->prog)
		npu_program_free(g->prog);
	memset(g, 0, sizeof(*g));
}

static int graph_load(struct llm_session *s, struct lane_graph *g, enum llm_graph which, unsigned int rows,
		      unsigned int jobs)
{
	uint32_t timeout_ms;
	size_t bytes;
	void *image;
	int err = llm_graph_build(&s->engine->model, &s->engine->packed, which, rows, s->kv_rows, s->engine->info.choices.kv, &image,
				  &bytes);

	if (err)
		return err;
	timeout_ms = llm_graph_timeout_ms(s->engine->info.device, image, bytes);
	g->rows = rows;
	err = npu_program_load(s->engine->ctx, image, bytes, &g->prog);
	free(image);
	if (err)
		return llm_fail(err, "graph %s: %s", llm_graph_name(which), npu_error());
	g->jobs = calloc(jobs, sizeof(*g->jobs));
	if (!g->jobs)
		return llm_fail(-ENOMEM, "no memory for the jobs of graph %s", llm_graph_name(which));
	for (; g->nr_jobs < jobs; g->nr_jobs++) {
		err = npu_job_create(g->prog, &g->jobs[g->nr_jobs]);
		if (err)
			return llm_fail(err, "graph %s: %s", llm_graph_name(which), npu_error());
		npu_job_timeout(g->jobs[g->nr_jobs], timeout_ms);
	}
	return 0;
}

static int job_bind(struct npu_job *job, const char *symbol, struct npu_buffer *buf, size_t off, size_t bytes)
{
	int err = npu_job_bind(job, symbol, buf, off, bytes);

	return err ? llm_fail(err, "binding %s: %s", symbol, npu_error()) : 0;
}

/* The first rows of an area. */
static int job_bind_area(struct llm_session *s, struct npu_job *job, const char *symbol, const struct llm_area *area)
{
	return job_bind(job, symbol, area == &s->all ? s->all_memory.buf : s->work.buf, area->off, area->bytes);
}

/* Block @layer's matrix with its bias. */
static int job_bind_matrix(struct llm_session *s, struct npu_job *job, unsigned int layer, enum llm_matrix which)
{
	const struct llm_packed_block *block = &s->engine->packed.blocks[layer];
	char name[32];
	int err;

	err = job_bind(job, llm_matrix_names[which], block->buf, block->part[which].off, block->part[which].bytes);
	if (!err && block->part[LLM_PART_BIAS + which].bytes) {
		llm_part_name(LLM_PART_BIAS + which, name, sizeof(name));
		err = job_bind(job, name, block->buf, block->part[LLM_PART_BIAS + which].off,
			       block->part[LLM_PART_BIAS + which].bytes);
	}
	return err;
}

/* All blocks' weights and caches. */
static int job_bind_blocks(struct llm_session *s, struct npu_job *job)
{
	char name[64], what[32];
	int err = 0;

	for (unsigned int i = 0; !err && i < s->engine->model.n_layer; i++) {
		const struct llm_packed_block *block = &s->engine->packed.blocks[i];

		for (unsigned int part = 0; !err && part < LLM_NR_PARTS; part++) {
			if (!block->part[part].bytes)
				continue;
			llm_part_name(part, what, sizeof(what));
			snprintf(name, sizeof(name), "blk.%u.%s", i, what);
			err = job_bind(job, name, block->buf, block->part[part].off, block->part[part].bytes);
		}
		snprintf(name, sizeof(name), "blk.%u.k", i);
		if (!err)
			err = job_bind(job, name, s->kv.buf, llm_session_k_off(s, i), s->kv_stride);
		snprintf(name, sizeof(name), "blk.%u.v", i);
		if (!err)
			err = job_bind(job, name, s->kv.buf, llm_session_v_off(s, i), s->kv_stride);
	}
	return err;
}

static int job_bind_head(struct llm_session *s, struct npu_job *job)
{
	const struct llm_packed *packed = &s->engine->packed;
	int err = job_bind(job, "output_norm", packed->head, 0, s->engine->model.n_embd * sizeof(float));

	return err ? err : job_bind(job, "output", packed->head, packed->output_off, packed->output_bytes);
}

/* The four jobs of a block. */
static int lane_bind_fine(struct llm_session *s, struct lane_graph *g, unsigned int i)
{
	struct npu_job *qkv = g[LLM_GRAPH_QKV].jobs[i], *out = g[LLM_GRAPH_ATTN_OUTPUT].jobs[i];
	struct npu_job *gate_up = g[LLM_GRAPH_GATE_UP].jobs[i], *down = g[LLM_GRAPH_DOWN].jobs[i];
	int err = job_bind_area(s, qkv, "x", &s->xn);

	err = err ? err : job_bind_area(s, qkv, "q", &s->q);
	err = err ? err : job_bind_area(s, qkv, "k", &s->k);
	err = err ? err : job_bind(qkv, "v", s->kv.buf, llm_session_v_off(s, i), s->kv_stride);
	for (int w = LLM_ATTN_Q; !err && w <= LLM_ATTN_V; w++)
		err = job_bind_matrix(s, qkv, i, w);
	err = err ? err : job_bind_area(s, out, "x", &s->att);
	err = err ? err : job_bind_area(s, out, "y", &s->y);
	err = err ? err : job_bind_matrix(s, out, i, LLM_ATTN_OUTPUT);
	err = err ? err : job_bind_area(s, gate_up, "x", &s->xn);
	err = err ? err : job_bind_area(s, gate_up, "gate", &s->gate);
	err = err ? err : job_bind_area(s, gate_up, "up", &s->up);
	err = err ? err : job_bind_matrix(s, gate_up, i, LLM_FFN_GATE);
	err = err ? err : job_bind_matrix(s, gate_up, i, LLM_FFN_UP);
	err = err ? err : job_bind_area(s, down, "x", &s->gate);
	err = err ? err : job_bind_area(s, down, "y", &s->y);
	return err ? err : job_bind_matrix(s, down, i, LLM_FFN_DOWN);
}

static int bucket_load_fine(struct llm_session *s, struct lane_bucket *b)
{
	unsigned int n_layer = s->engine->model.n_layer;
	int err = 0;

	for (enum llm_graph which = LLM_GRAPH_QKV; !err && which <= LLM_GRAPH_DOWN; which++)
		err = graph_load(s, &b->graphs[which], which, b->rows, n_layer);
	for (unsigned int i = 0; !err && i < n_layer; i++)
		err = lane_bind_fine(s, b->graphs, i);
	return err;
}

static int bucket_load_blocks(struct llm_session *s, struct lane_bucket *b)
{
	struct lane_graph *g = &b->graphs[LLM_GRAPH_BLOCKS];
	int err = graph_load(s, g, LLM_GRAPH_BLOCKS, b->rows, 1);

	err = err ? err : job_bind_blocks(s, g->jobs[0]);
	err = err ? err : job_bind_area(s, g->jobs[0], "x", &s->x);
	return err ? err : job_bind_area(s, g->jobs[0], "y", &s->y);
}

static void bucket_unload(struct lane_bucket *b)
{
	for (int i = 0; i < LLM_NR_GRAPHS; i++)
		graph_unload(&b->graphs[i]);
	b->ready = false;
}

/* The graphs for a chunk of @n tokens. */
static int lane_choose(struct llm_session *s, unsigned int n)
{
	struct llm_npu_lane *lane = s->npu;
	struct lane_bucket *b = lane->buckets;
	int err = 0;

	while (b->rows < n)
		b++;
	if (!b->ready) {
		err = s->engine->info.choices.placement == LLM_PLACE_FINE ? bucket_load_fine(s, b) : bucket_load_blocks(s, b);
		if (err)
			bucket_unload(b);
		b->ready = !err;
	}
	lane->bucket = b;
	return err;
}

static int lane_create_buckets(struct llm_session *s)
{
	bool bucketed = s->engine->info.choices.graphs == LLM_GRAPHS_BUCKETED;
	struct llm_npu_lane *lane = s->npu;

	lane->nr_buckets = bucketed ? (s->chunk + LLM_BUCKET_ROWS - 1) / LLM_BUCKET_ROWS : 1;
	lane->buckets = calloc(lane->nr_buckets, sizeof(*lane->buckets));
	if (!lane->buckets)
		return llm_fail(-ENOMEM, "no memory for a session");
	for (unsigned int i = 0; i < lane->nr_buckets; i++)
		lane->buckets[i].rows = (i + 1) * LLM_BUCKET_ROWS;
	lane->buckets[lane->nr_buckets - 1].rows = s->chunk;
	/* What every long prompt needs, now: the sooner it fails. */
	return s->chunk > 1 ? lane_choose(s, s->chunk) : 0;
}

static int lane_create_token(struct llm_session *s)
{
	struct lane_graph *g = &s->npu->token;
	int err = graph_load(s, g, LLM_GRAPH_TOKEN, 1, 1);

	err = err ? err : job_bind_blocks(s, g->jobs[0]);
	err = err ? err : job_bind_head(s, g->jobs[0]);
	err = err ? err : job_bind_area(s, g->jobs[0], "x", &s->x);
	return err ? err : job_bind_area(s, g->jobs[0], "logits", &s->logits);
}

static int lane_create_head(struct llm_session *s, struct lane_graph *g, unsigned int rows,
			    const struct llm_area *logits)
{
	int err = graph_load(s, g, LLM_GRAPH_HEAD, rows, 1);

	err = err ? err : job_bind_head(s, g->jobs[0]);
	return err ? err : job_bind_area(s, g->jobs[0], "logits", logits);
}

int llm_npu_lane_create(struct llm_session *s)
{
	int err;

	s->npu = calloc(1, sizeof(*s->npu));
	if (!s->npu)
		return llm_fail(-ENOMEM, "no memory for a session");
	err = npu_queue_create(s->engine->ctx, NULL, &s->npu->queue);
	if (err)
		return llm_fail(err, "%s", npu_error());
	err = lane_create_token(s);
	err = err ? err : lane_create_buckets(s);
	return err ? err : lane_create_head(s, &s->npu->head, 1, &s->logits);
}

void llm_npu_lane_free(struct llm_session *s)
{
	if (!s->npu)
		return;
	for (unsigned int i = 0; i < s->npu->nr_buckets && s->npu->buckets; i++)
		bucket_unload(&s->npu->buckets[i]);
	free(s->npu->buckets);
	graph_unload(&s->npu->token);
	graph_unload(&s->npu->head);
	graph_unload(&s->npu->head_all);
	if (s->npu->queue)
		npu_queue_free(s->npu->queue);
	free(s->npu);
	s->npu = NULL;
}

/* Submits jobs with one call and waits for the last. */
static int lane_run(struct llm_session *s, struct npu_job *const *jobs, unsigned int n)
{
	enum npu_wait_mode mode = s->engine->info.choices.sync == LLM_SYNC_FAST ? NPU_WAIT_FAST : NPU_WAIT_DRIVER;
	uint64_t seqno, start;
	int err = npu_queue_submit(s->npu->queue, jobs, n, NULL, &seqno);

	if (err)
		return llm_fail(err, "%s", npu_error());
	s->stats.npu_jobs += n;
	start = now_ns();
	err = npu_queue_wait(s->npu->queue, seqno, NPU_FOREVER, mode);
	s->stats.npu_wait_ns += now_ns() - start;
	return err ? llm_fail(err, "%s", npu_error()) : 0;
}

static int lane_set_pos(struct npu_job *job, unsigned int pos)
{
	int err = npu_job_param(job, "pos", pos);

	return err ? llm_fail(err, "%s", npu_error()) : 0;
}

static int fine_qkv(struct llm_session *s, unsigned int layer, unsigned int pos, unsigned int n)
{
	struct npu_job **job = &s->npu->bucket->graphs[LLM_GRAPH_QKV].jobs[layer];
	int err = lane_set_pos(*job, pos);

	return err ? err : lane_run(s, job, 1);
}

static int fine_attn_output(struct llm_session *s, unsigned int layer, unsigned int n)
{
	return lane_run(s, &s->npu->bucket->graphs[LLM_GRAPH_ATTN_OUTPUT].jobs[layer], 1);
}

static int fine_gate_up(struct llm_session *s, unsigned int layer, unsigned int n)
{
	return lane_run(s, &s->npu->bucket->graphs[LLM_GRAPH_GATE_UP].jobs[layer], 1);
}

static int fine_down(struct llm_session *s, unsigned int layer, unsigned int n)
{
	return lane_run(s, &s->npu->bucket->graphs[LLM_GRAPH_DOWN].jobs[layer], 1);
}

/* The head's job for the wanted rows of @x; *job NULL: none is wanted. */
static int lane_head(struct llm_session *s, const struct llm_area *x, unsigned int n, enum llm_want want,
		     struct npu_job **job)
{
	struct llm_npu_lane *lane = s->npu;
	size_t row_bytes = s->engine->model.n_embd * sizeof(float);
	int err = 0;

	*job = NULL;
	if (want == LLM_WANT_ALL) {
		if (!lane->head_all.prog) {
			err = lane_create_head(s, &lane->head_all, llm_session_all_rows(s), &s->all);
			if (err) {
				graph_unload(&lane->head_all);
				return err;
			}
		}
		*job = lane->head_all.jobs[0];
		return job_bind_area(s, *job, "x", x);
	}
	if (want == LLM_WANT_LAST) {
		*job = lane->head.jobs[0];
		err = job_bind(*job, "x", s->work.buf, x->off + (n - 1) * row_bytes, row_bytes);
	}
	return err;
}

/* Rows of a chunk beyond its tokens are zeros. */
static void pad_chunk(struct llm_session *s, unsigned int n)
{
	size_t n_embd = s->engine->model.n_embd;

	memset(s->x.data + n * n_embd, 0, (s->npu->bucket->rows - n) * n_embd * sizeof(float));
}

static int whole_token(struct llm_session *s, unsigned int pos, unsigned int n, enum llm_want want)
{
	struct npu_job **job = s->npu->token.jobs;
	int err = lane_set_pos(*job, pos);

	err = err ? err : lane_run(s, job, 1);
	if (!err && want == LLM_WANT_ALL)
		memcpy(s->all.data, s->logits.data, s->logits.bytes);
	return err;
}

static int whole_chunk(struct llm_session *s, unsigned int pos, unsigned int n, enum llm_want want)
{
	struct npu_job *jobs[2] = { s->npu->bucket->graphs[LLM_GRAPH_BLOCKS].jobs[0] };
	int err = lane_set_pos(jobs[0], pos);

	pad_chunk(s, n);
	if (!err)
		err = lane_head(s, &s->y, n, want, &jobs[1]);
	return err ? err : lane_run(s, jobs, jobs[1] ? 2 : 1);
}

static int fine_head(struct llm_session *s, unsigned int n, enum llm_want want)
{
	struct npu_job *head;
	int err = lane_head(s, &s->x, n, want, &head);

	return err || !head ? err : lane_run(s, &head, 1);
}

int llm_forward_npu_products(struct llm_session *s, unsigned int n, const struct llm_products **products)
{
	static const struct llm_products token = { .whole = whole_token }, chunk = { .whole = whole_chunk };
	static const struct llm_products fine = {
		.qkv = fine_qkv,
		.attn_output = fine_attn_output,
		.gate_up = fine_gate_up,
		.down = fine_down,
		.head = fine_head,
	};

	*products = n == 1 ? &token : s->engine->info.choices.placement == LLM_PLACE_FINE ? &fine : &chunk;
	return n == 1 ? 0 : lane_choose(s, n);
}

unsigned int llm_forward_npu_rows(const struct llm_session *s, unsigned int n)
{
	return n == 1 ? 1 : s->npu->bucket->rows;
}
