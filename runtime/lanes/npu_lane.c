// SPDX-License-Identifier: MIT
#include "npu_lane.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu_lane.h"
#include "lane_attention.h"
#include "llm_fail.h"
#include "npu_estimate.h"
#include "scheduler.h"

/* Two jobs for each work under way. */
#define TIMED_MOST (2 * SCHED_UNDER_WAY)

struct timed_job {
	struct npu_job *job;
	uint64_t seqno; /* the last of the jobs it was submitted with; UINT64_MAX: not yet */
};

struct npu_lane {
	struct lane lane;
	struct npu_queue *queue;
	struct npu_programs *programs;
	struct npu_estimates *estimates; /* NULL: attention has none */
	/* Jobs under way that record their commands' times, in the order of submission; one thread
	 * may begin work while another sees the end of some. */
	pthread_mutex_t lock;
	struct timed_job timed[TIMED_MOST];
	unsigned int nr_timed;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Turns the recording of commands' times on or off in a job that is to be submitted. */
static int time_job(struct npu_lane *n, struct npu_job *job)
{
	int err;

	pthread_mutex_lock(&n->lock);
	err = npu_job_time_commands(job, n->lane.timed && n->nr_timed < TIMED_MOST);
	if (!err && n->lane.timed && n->nr_timed < TIMED_MOST)
		n->timed[n->nr_timed++] = (struct timed_job){ job, UINT64_MAX };
	pthread_mutex_unlock(&n->lock);
	return err ? llm_fail(err, "%s", npu_error()) : 0;
}

/* What time_job() took was submitted, the last one as job @seqno; 0: was not. */
static void time_submitted(struct npu_lane *n, uint64_t seqno)
{
	pthread_mutex_lock(&n->lock);
	for (unsigned int i = n->nr_timed; i-- > 0 && n->timed[i].seqno == UINT64_MAX;) {
		n->timed[i].seqno = seqno;
		n->nr_timed -= !seqno;
	}
	pthread_mutex_unlock(&n->lock);
}

/* The wait for job @seqno returned @err: adds up the times of the jobs up to it, or forgets all. */
static int job_ended(struct npu_lane *n, uint64_t seqno, int err)
{
	struct npu_job_work work;
	unsigned int nr = 0;

	pthread_mutex_lock(&n->lock);
	for (; !err && nr < n->nr_timed && n->timed[nr].seqno <= seqno; nr++) {
		err = npu_job_work(n->timed[nr].job, &work);
		if (!err)
			breakdown_add(n->lane.item_ns, &work);
	}
	n->nr_timed = err ? 0 : n->nr_timed - nr;
	memmove(n->timed, n->timed + nr, n->nr_timed * sizeof(n->timed[0]));
	pthread_mutex_unlock(&n->lock);
	return err ? llm_fail(err, "%s", npu_error()) : 0;
}

static int wait_for(struct npu_lane *n, uint64_t seqno, enum npu_wait_mode mode)
{
	uint64_t start_ns = now_ns();
	int err = npu_queue_wait(n->queue, seqno, NPU_FOREVER, mode);

	n->lane.waited_ns += now_ns() - start_ns;
	return job_ended(n, seqno, err);
}

/* npu_wait_fn: called before a job is bound again. */
static int wait_to_bind(void *ud, uint64_t seqno)
{
	return wait_for(ud, seqno, NPU_WAIT_FAST);
}

static int submit(struct npu_lane *n, struct npu_binding *const *bindings, unsigned int nr,
		  uint64_t *seqno)
{
	struct npu_job *jobs[2] = { NULL };
	int err = 0;

	for (unsigned int i = 0; i < nr; i++) {
		jobs[i] = bindings[i]->job;
		err = err ? err : time_job(n, jobs[i]);
	}
	if (!err && (err = npu_queue_submit(n->queue, jobs, nr, NULL, seqno)))
		llm_fail(err, "%s", npu_error());
	time_submitted(n, err ? 0 : *seqno);
	if (err)
		return err;
	for (unsigned int i = 0; i < nr; i++)
		bindings[i]->seqno = *seqno;
	n->lane.jobs += nr;
	return 0;
}

/* ---- slices ---- */

static int find_slice(struct npu_lane *n, const struct lane_call *call,
		      struct npu_binding **binding)
{
	struct lane_slice slice;

	*binding = NULL;
	lane_slice_of(n->lane.memory, call, &slice);
	return slice.empty ? 0 : npu_programs_slice(n->programs, &slice, wait_to_bind, n, binding);
}

static int begin_slice(struct npu_lane *n, const struct lane_call *call, uint64_t *seqno)
{
	struct npu_binding *binding;
	int err = find_slice(n, call, &binding);

	return err || !binding ? err : submit(n, &binding, 1, seqno);
}

/* ---- subgraphs ---- */

static int find_subgraph(struct npu_lane *n, const struct lane_call *call,
			 struct npu_binding **binding)
{
	const struct lane_work *w = call->work;
	const struct lane_subgraph sub = {
		.first = w->op,
		.last = w->last,
		.layer = w->layer,
		.rows = call->chunk->rows,
		.prompt = call->prompt,
		.keys = w->keys,
	};

	return npu_programs_subgraph(n->programs, &sub, call->chunk->row, wait_to_bind, n, binding);
}

static int begin_subgraph(struct npu_lane *n, const struct lane_call *call, uint64_t *seqno)
{
	bool has_pos = lane_subgraph_has_cache(call->work->op, call->work->last);
	struct npu_binding *binding;
	int err = find_subgraph(n, call, &binding);

	if (err)
		return err;
	if (has_pos && npu_job_param(binding->job, "pos", call->pos))
		return llm_fail(-EINVAL, "%s", npu_error());
	return submit(n, &binding, 1, seqno);
}

/* ---- estimates ---- */

/* The bucket of a head's queries in the chunk, and of its keys. */
static unsigned int bucket_of(const struct lane_attention *t, const struct lane_call *call,
			      unsigned int head)
{
	unsigned int group = t->a->heads / t->a->kv_heads;
	uint8_t q = t->q_scale[(size_t)call->chunk->row * t->a->heads + head],
		k = t->k_scale[(size_t)call->work->layer * t->a->kv_heads + head / group];

	return scale_buckets_index(&t->a->buckets, q, k);
}

/* Takes the next heads of @work that are in one bucket, as many as a graph has; 0: none is left. */
static unsigned int take_heads(const struct npu_lane *n, const struct lane_call *call,
			       uint32_t *left, unsigned int *bucket,
			       struct estimate_head heads[LANE_FUSED_HEADS])
{
	const struct lane_attention *t = n->lane.memory->attention;
	const struct lane_work *w = call->work;
	unsigned int first = (unsigned int)__builtin_ctz(*left | 1u << w->nr_heads), found = 0,
		     nr = 1;

	if (first == w->nr_heads)
		return 0;
	*bucket = bucket_of(t, call, w->head[first]);
	for (unsigned int i = first; i < w->nr_heads; i++)
		found += *left >> i & 1 && bucket_of(t, call, w->head[i]) == *bucket;
	while (2 * nr <= found)
		nr *= 2;
	found = 0;
	for (unsigned int i = first; i < w->nr_heads && found < nr; i++) {
		if (!(*left >> i & 1) || bucket_of(t, call, w->head[i]) != *bucket)
			continue;
		heads[found++] = (struct estimate_head){ w->head[i], w->slot[i] };
		*left &= ~(1u << i);
	}
	return nr;
}

static void count_launch(struct lane_attention *t, const struct lane_call *call, unsigned int jobs)
{
	const struct lane_work *w = call->work;

	t->launches++;
	t->jobs += jobs;
	t->estimated += w->nr_heads;
	for (unsigned int i = 0; i < w->nr_heads; i++)
		t->moved += bucket_of(t, call, w->head[i]) !=
			    t->a->expected[(size_t)w->layer * t->a->heads + w->head[i]];
}

static int begin_estimate(struct npu_lane *n, const struct lane_call *call, uint64_t *seqno)
{
	struct estimate_head heads[LANE_FUSED_HEADS];
	struct npu_job *jobs[LANE_FUSED_HEADS];
	uint64_t *seqnos[LANE_FUSED_HEADS];
	uint32_t left = (1u << call->work->nr_heads) - 1;
	unsigned int nr = 0, fused, bucket;
	int err = 0;

	while (!err && (fused = take_heads(n, call, &left, &bucket, heads))) {
		err = npu_estimate_job(n->estimates, call, bucket, heads, fused, wait_to_bind, n,
				       &jobs[nr], &seqnos[nr]);
		nr++;
	}
	if (err)
		return err;
	err = npu_queue_submit(n->queue, jobs, nr, NULL, seqno);
	if (err)
		return llm_fail(err, "%s", npu_error());
	for (unsigned int i = 0; i < nr; i++)
		*seqnos[i] = *seqno;
	n->lane.jobs += nr;
	count_launch(n->lane.memory->attention, call, nr);
	return 0;
}

static int begin_attention(struct npu_lane *n, const struct lane_call *call, uint64_t *seqno)
{
	struct npu_job *job;
	uint64_t *last;
	int err = npu_attention_job(n->estimates, call, wait_to_bind, n, &job, &last);

	if (err)
		return err;
	err = npu_queue_submit(n->queue, &job, 1, NULL, seqno);
	if (err)
		return llm_fail(err, "%s", npu_error());
	*last = *seqno;
	n->lane.jobs++;
	return 0;
}

/* Makes the graph that the launch is planned with. */
static int prepare_heads(struct npu_lane *n, const struct lane_call *call)
{
	const struct attention *a = n->lane.memory->attention->a;
	const struct lane_work *w = call->work;
	struct estimate_graph *graph;

	if (w->op == LLM_OP_ATTN)
		return npu_attention_prepare(n->estimates, call->chunk->rows);
	return npu_estimate_prepare(n->estimates,
				    a->expected[(size_t)w->layer * a->heads + w->head[0]],
				    w->nr_heads, call->chunk->rows, &graph);
}

/* ---- whole chunks ---- */

static const struct llm_area *logits_of(const struct npu_lane *n, const struct lane_call *call)
{
	return call->all ? &n->lane.memory->all : &n->lane.memory->logits;
}

/* The chunk's first row that the program for some logits reads; chosen ones are gathered. */
static unsigned int head_row(const struct lane_call *call)
{
	return call->at ? 0 : call->work->logits_row;
}

/* Rows of the program for some logits: at most the chunk's rows from the first of them on, if they
 * are there. */
static unsigned int head_rows(const struct lane_call *call)
{
	unsigned int logits = call->work->logits,
		     left = call->work->chosen ? LANE_LOGIT_ROWS
					       : call->chunk->rows - head_row(call),
		     rows = (logits + LLM_BUCKET_ROWS - 1) / LLM_BUCKET_ROWS * LLM_BUCKET_ROWS;

	if (logits == 1)
		return 1;
	return rows < left ? rows : left;
}

/* Finds the job of the wanted logits; it follows the job of the layers and reads its result y. Of a
 * chunk whose last layer has only keys and values, it computes that layer for the one row. */
static int find_head(struct npu_lane *n, const struct lane_call *call, struct npu_binding **binding)
{
	const unsigned int layers = n->lane.memory->loaded->model.n_layer;
	const bool chosen = call->work->chosen;
	const struct npu_whole head = {
		.graph = { .graph = call->work->keys ? LLM_GRAPH_TOKEN : LLM_GRAPH_HEAD,
			   .rows = head_rows(call),
			   .layer = call->work->keys ? layers - 1 : 0,
			   .layers = call->work->keys },
		.x = chosen ? &n->lane.memory->chosen.y : &n->lane.memory->y,
		.y = logits_of(n, call),
		.x_row = chosen ? 0 : call->chunk->row + head_row(call),
	};

	return npu_programs_whole(n->programs, &head, wait_to_bind, n, binding);
}

static int find_layers(struct npu_lane *n, const struct lane_call *call,
		       struct npu_binding **binding)
{
	bool token = call->chunk->rows == 1;
	const struct npu_whole whole = {
		.graph = { .graph = token	 ? LLM_GRAPH_TOKEN
				    : call->tree ? LLM_GRAPH_TREE
						 : LLM_GRAPH_LAYERS,
			   .rows = call->chunk->rows,
			   .layers = n->lane.memory->loaded->model.n_layer,
			   .keys = call->work->keys },
		.x = &n->lane.memory->x,
		.y = token ? logits_of(n, call) : &n->lane.memory->y,
		.x_row = call->chunk->row,
	};

	return npu_programs_whole(n->programs, &whole, wait_to_bind, n, binding);
}

/* Zeroes the padding of a graph of @graph_rows from row @row of activations on. */
static void pad_rows(const struct npu_lane *n, uint32_t row, uint32_t tokens, uint32_t graph_rows)
{
	size_t n_embd = n->lane.memory->loaded->model.n_embd;

	memset(n->lane.memory->x.data + (row + tokens) * n_embd, 0,
	       (graph_rows - tokens) * n_embd * sizeof(float));
}

/* Padding is nodes without ancestors, at the root's position. */
static void set_tree(const struct npu_lane *n, const struct lane_call *call)
{
	char *tree = n->lane.memory->tree.data;
	uint32_t *depths = (uint32_t *)(tree + LANE_TREE_DEPTHS);
	uint64_t *ancestors = (uint64_t *)(tree + LANE_TREE_ANCESTORS);

	for (uint32_t i = 0; i < call->chunk->rows; i++) {
		bool padding = i >= call->chunk->n;

		depths[i] = padding ? 0 : call->tree->depths[i];
		ancestors[i] = padding ? 1ull << i : call->tree->ancestors[i];
	}
}

static int find_chunk(struct npu_lane *n, const struct lane_call *call,
		      struct npu_binding *bindings[2], unsigned int *nr)
{
	int err = find_layers(n, call, &bindings[0]);

	*nr = 1;
	if (err || call->chunk->rows == 1 || !call->work->logits)
		return err;
	*nr = 2;
	return find_head(n, call, &bindings[1]);
}

static int begin_chunk(struct npu_lane *n, const struct lane_call *call, uint64_t *seqno)
{
	struct npu_binding *bindings[2];
	unsigned int nr;
	int err = find_chunk(n, call, bindings, &nr);

	if (err)
		return err;
	pad_rows(n, call->chunk->row, call->chunk->n, call->chunk->rows);
	if (call->tree)
		set_tree(n, call);
	if (npu_job_param(bindings[0]->job, "pos", call->pos) ||
	    (nr == 2 && call->work->keys &&
	     npu_job_param(bindings[1]->job, "pos", call->pos + call->work->logits_row)))
		return llm_fail(-EINVAL, "%s", npu_error());
	return submit(n, bindings, nr, seqno);
}

/*
 * Moves the chosen rows of the layers' result to the chunk's first ones. Positions rise, so a row
 * is written only after it has been read, in this block of logits or an earlier one.
 */
static void gather_rows(const struct npu_lane *n, const struct lane_call *call)
{
	const struct lane_memory *m = n->lane.memory;
	size_t n_embd = m->loaded->model.n_embd;
	float *y = m->y.data + call->chunk->row * n_embd;

	for (uint32_t i = 0; i < call->work->logits; i++)
		memmove(y + i * n_embd, y + lane_logits_row(call, i) * n_embd,
			n_embd * sizeof(float));
}

/* ---- chosen tokens ---- */

/* Positions of a graph for chosen tokens are below a multiple of so many, for few graphs. */
#define CHOSEN_SPAN 1024

/* The token's position in the session. */
static uint32_t chosen_position(const struct lane_call *call, uint32_t i)
{
	return call->pos - call->chunk->first + call->at[call->work->logits_row + i];
}

static int find_chosen(struct npu_lane *n, const struct lane_call *call,
		       struct npu_binding **binding)
{
	const struct lane_memory *m = n->lane.memory;
	uint32_t end = chosen_position(call, call->work->logits - 1) + 1,
		 span = (end + CHOSEN_SPAN - 1) / CHOSEN_SPAN * CHOSEN_SPAN;
	const struct npu_whole chosen = {
		.graph = { .graph = LLM_GRAPH_CHOSEN,
			   .rows = head_rows(call),
			   .layer = call->work->layer,
			   .layers = 1,
			   .span = span < m->kv_rows ? span : m->kv_rows },
		.x = &m->chosen.x,
		.y = &m->chosen.y,
	};

	return npu_programs_whole(n->programs, &chosen, wait_to_bind, n, binding);
}

/* Padding is at the session's first position. */
static int begin_chosen(struct npu_lane *n, const struct lane_call *call, uint64_t *seqno)
{
	const struct lane_chosen *c = &n->lane.memory->chosen;
	size_t n_embd = n->lane.memory->loaded->model.n_embd;
	uint32_t *positions = c->memory.data, i;
	struct npu_binding *binding;
	int err = find_chosen(n, call, &binding);

	if (err)
		return err;
	memcpy(c->x.data, c->kept + call->work->logits_row * n_embd,
	       call->work->logits * n_embd * sizeof(float));
	for (i = 0; i < LANE_LOGIT_ROWS; i++)
		positions[i] = i < call->work->logits ? chosen_position(call, i) : 0;
	return submit(n, &binding, 1, seqno);
}

/* ---- blocks ---- */

static struct lane_whole block_of(const struct lane_work *w)
{
	return (struct lane_whole){ .graph = LLM_GRAPH_LAYERS,
				    .rows = w->graph_rows,
				    .layer = w->layer,
				    .layers = w->layers };
}

/* Blocks compute in place, but for the last one, whose result the output norm reads. */
static int find_block(struct npu_lane *n, const struct lane_call *call,
		      struct npu_binding **binding)
{
	const struct lane_memory *m = n->lane.memory;
	const struct lane_work *w = call->work;
	bool last = w->layer + w->layers == m->loaded->model.n_layer;
	const struct npu_whole block = {
		.graph = block_of(w),
		.x = &m->x,
		.y = last ? &m->y : &m->x,
		.x_row = call->chunk->row + w->row,
	};

	return npu_programs_whole(n->programs, &block, wait_to_bind, n, binding);
}

static int begin_block(struct npu_lane *n, const struct lane_call *call, uint64_t *seqno)
{
	const struct lane_work *w = call->work;
	struct npu_binding *binding;
	int err = find_block(n, call, &binding);

	if (err)
		return err;
	pad_rows(n, call->chunk->row + w->row, w->rows, w->graph_rows);
	if (npu_job_param(binding->job, "pos", call->pos + w->row))
		return llm_fail(-EINVAL, "%s", npu_error());
	return submit(n, &binding, 1, seqno);
}

static int npu_load(struct lane *lane, const struct lane_call *call, uint64_t *bytes)
{
	const struct lane_whole graph = block_of(call->work);

	return npu_programs_load(((struct npu_lane *)lane)->programs, &graph, bytes);
}

static void npu_drop(struct lane *lane, const struct lane_call *call)
{
	const struct lane_whole graph = block_of(call->work);

	npu_programs_drop(((struct npu_lane *)lane)->programs, &graph);
}

static int begin_head(struct npu_lane *n, const struct lane_call *call, uint64_t *seqno)
{
	struct npu_binding *binding;
	int err = find_head(n, call, &binding);

	if (!err && call->at && !call->work->chosen)
		gather_rows(n, call);
	return err ? err : submit(n, &binding, 1, seqno);
}

/* ---- the lane ---- */

static bool npu_supports(enum llm_op op, enum llm_weights weights)
{
	return weights != LLM_WEIGHTS_F32 && weights != LLM_WEIGHTS_F16;
}

/* For an observed pass, the host computes single float operators with the device's kernels, which
 * give the same bits as a whole program. */
static int npu_begin(struct lane *lane, const struct lane_call *call, uint64_t *ticket)
{
	struct npu_lane *n = (struct npu_lane *)lane;

	*ticket = 0;
	switch (call->work->what) {
	case LANE_SLICE:
		return begin_slice(n, call, ticket);
	case LANE_SUBGRAPH:
		return begin_subgraph(n, call, ticket);
	case LANE_CHUNK:
		return begin_chunk(n, call, ticket);
	case LANE_BLOCK:
		return begin_block(n, call, ticket);
	case LANE_CHOSEN:
		return begin_chosen(n, call, ticket);
	case LANE_HEADS:
		return call->work->op == LLM_OP_ATTN ? begin_attention(n, call, ticket)
						     : begin_estimate(n, call, ticket);
	default:
		return call->work->op == LLM_OP_HEAD ? begin_head(n, call, ticket)
						     : lane_cpu_run(lane->memory, call);
	}
}

static int find_work(struct npu_lane *n, const struct lane_call *call)
{
	struct npu_binding *bindings[2];
	unsigned int nr;

	if (call->work->what == LANE_SLICE)
		return find_slice(n, call, bindings);
	if (call->work->what == LANE_SUBGRAPH)
		return find_subgraph(n, call, bindings);
	if (call->work->what == LANE_BLOCK)
		return find_block(n, call, bindings);
	if (call->work->what == LANE_CHOSEN)
		return find_chosen(n, call, bindings);
	if (call->work->what == LANE_HEADS)
		return prepare_heads(n, call);
	return call->work->what == LANE_CHUNK ? find_chunk(n, call, bindings, &nr) : 0;
}

/* Who prepares has a task for that, on another lane, or no task yet. */
static int npu_prepare(struct lane *lane, const struct lane_call *call)
{
	uint64_t graph_ns = lane->graph_ns;
	int err = find_work((struct npu_lane *)lane, call);

	lane->graph_ns = graph_ns;
	return err;
}

static int npu_poll(struct lane *lane, uint64_t seqno)
{
	struct npu_lane *n = (struct npu_lane *)lane;
	int err;

	if (!seqno)
		return 1;
	if (npu_queue_completed(n->queue) < seqno)
		return 0;
	/* This only reads the job's result from the status page. */
	err = npu_queue_wait(n->queue, seqno, 0, NPU_WAIT_FAST);
	err = job_ended(n, seqno, err);
	return err ? err : 1;
}

static int npu_wait(struct lane *lane, uint64_t seqno, enum lane_wait how)
{
	enum npu_wait_mode mode = how == LANE_WAIT_FAST ? NPU_WAIT_FAST : NPU_WAIT_DRIVER;

	return seqno ? wait_for((struct npu_lane *)lane, seqno, mode) : 0;
}

static void npu_free(struct lane *lane)
{
	struct npu_lane *n = (struct npu_lane *)lane;

	npu_programs_free(n->programs);
	npu_estimates_free(n->estimates);
	if (n->queue)
		npu_queue_free(n->queue);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

int lane_npu_create(struct lane_memory *memory, struct lane **lane)
{
	static const struct lane_ops ops = {
		.name = "npu",
		.supports = npu_supports,
		.begin = npu_begin,
		.poll = npu_poll,
		.wait = npu_wait,
		.prepare = npu_prepare,
		.load = npu_load,
		.drop = npu_drop,
		.free = npu_free,
	};
	struct npu_lane *n = calloc(1, sizeof(*n));
	int err;

	*lane = n ? &n->lane : NULL;
	if (n) {
		n->lane = (struct lane){ .ops = &ops, .memory = memory };
		pthread_mutex_init(&n->lock, NULL);
		n->programs = npu_programs_create(memory, &n->lane.graph_ns);
		n->estimates = memory->attention ? npu_estimates_create(memory) : NULL;
	}
	if (!n || !n->programs || (memory->attention && !n->estimates))
		return llm_fail(-ENOMEM, "no memory for a session");
	err = npu_queue_create(memory->loaded->ctx, NULL, &n->queue);
	return err ? llm_fail(err, "%s", npu_error()) : 0;
}
