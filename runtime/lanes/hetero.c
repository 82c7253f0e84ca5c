// SPDX-License-Identifier: MIT
/*
 * Placements gpu and layer: plans, and what each of their tasks computes.
 *
 * On the wall's clock plans are kept, since prompts of one length and tokens come again; what their waits took is kept for each of
 * the two phases, and forgotten when the length of a chunk changes.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <npu/vnpu_isa.h>

#include "hetero.h"
#include "llm_fail.h"

#define MAX_PLANS 16
#define MAX_CUTS 32
/* Of a product: more than the solver ever makes of the longest chunk, whose last 2048 tokens may be graphs of 32. */
#define MAX_SLICES 80

static_assert(PLAN_NR_OPS <= WAITS_OPS, "every operator's waits are predicted");

/* What has been begun of an operator's slice: the job's number, or the flag's value. */
struct ticket {
	uint64_t seqno;
	uint32_t flag;
	bool empty;
};

struct llm_hetero {
	struct hetero_npu *npu; /* NULL: placement gpu */
	struct hetero_gpu *gpu; /* NULL: the host computes its part */
	struct partition_options cuts_opts;
	float gpu_share;
	struct {
		struct partition part; /* m 0: none */
		unsigned int planes;
		uint64_t used;
	} cuts[MAX_CUTS];
	struct {
		struct sched_plan *plan;
		unsigned int n;
		enum llm_want want;
		uint64_t used;
	} plans[MAX_PLANS];
	uint64_t uses;
	struct ticket tickets[PLAN_NR_OPS][MAX_SLICES];
	struct waits waits[2]; /* of chunks, and of tokens */
	unsigned int waits_n; /* tokens of the chunks that the first is of */
};

static unsigned int op_rows(const struct llm_pass *pass, enum plan_op op)
{
	return op == PLAN_OUTPUT_NORM || op == PLAN_HEAD ? (pass->want == LLM_WANT_ALL ? pass->n : 1) : pass->n;
}

/* ---- slices ---- */

static unsigned int op_matrices(const struct llm_session *s, enum plan_op op, struct hetero_part parts[HETERO_MAX_MATRICES])
{
	const struct llm_area *head = s->pass && s->pass->want == LLM_WANT_ALL ? &s->all : &s->logits;
	const struct llm_model *m = &s->engine->model;

	switch (op) {
	case PLAN_QKV:
		parts[0] = (struct hetero_part){ .matrix = LLM_ATTN_Q, .output = "q", .n = m->q_dim, .y = &s->q };
		parts[1] = (struct hetero_part){ .matrix = LLM_ATTN_K, .output = "k", .n = m->kv_dim, .y = &s->k };
		parts[2] = (struct hetero_part){ .matrix = LLM_ATTN_V, .output = "v", .n = m->kv_dim, .y = &s->v };
		return 3;
	case PLAN_GATE_UP:
		parts[0] = (struct hetero_part){ .matrix = LLM_FFN_GATE, .output = "gate", .n = m->n_ff, .y = &s->gate };
		parts[1] = (struct hetero_part){ .matrix = LLM_FFN_UP, .output = "up", .n = m->n_ff, .y = &s->up };
		return 2;
	case PLAN_ATTN_OUTPUT:
		parts[0] = (struct hetero_part){ .matrix = LLM_ATTN_OUTPUT, .output = "y", .n = m->n_embd, .y = &s->y };
		return 1;
	case PLAN_DOWN:
		parts[0] = (struct hetero_part){ .matrix = LLM_FFN_DOWN, .output = "y", .n = m->n_embd, .y = &s->y };
		return 1;
	default:
		parts[0] = (struct hetero_part){ .matrix = -1, .output = "logits", .n = m->n_vocab, .y = head };
		return 1;
	}
}

/* A cut at column @col of a matrix of @n: at a panel's beginning, or at the end. */
static unsigned int snap(uint64_t col, unsigned int n)
{
	return col >= n ? n : (unsigned int)(col / VNPU_PANEL_N * VNPU_PANEL_N);
}

void llm_hetero_slice(const struct llm_session *s, enum plan_op op, unsigned int layer, const struct partition *cut,
		     unsigned int index, struct hetero_slice *slice)
{
	const struct llm_model *m = &s->engine->model;
	struct partition_slice p;
	uint64_t before = 0;

	partition_slice(cut, index, &p);
	*slice = (struct hetero_slice){
		.op = op,
		.layer = layer,
		.row = p.row,
		.rows = p.rows,
		.graph_rows = p.graph_rows,
		.k = op == PLAN_ATTN_OUTPUT ? m->q_dim : op == PLAN_DOWN ? m->n_ff : m->n_embd,
		.x = op == PLAN_ATTN_OUTPUT ? &s->att : op == PLAN_DOWN ? &s->gate : &s->xn,
		.empty = true,
	};
	slice->nr_parts = op_matrices(s, op, slice->parts);
	for (unsigned int i = 0; i < slice->nr_parts; i++) {
		struct hetero_part *part = &slice->parts[i];
		uint64_t end = p.col + p.cols;
		unsigned int last = end <= before ? 0 : snap(end - before, part->n);

		part->first = p.col <= before ? 0 : snap(p.col - before, part->n);
		part->cols = last > part->first ? last - part->first : 0;
		slice->empty &= !part->cols;
		before += part->n;
	}
}

/* How the product is cut, or whether it is. */
static void cut_product(void *ud, enum plan_op op, uint32_t m, uint64_t k, uint64_t n, struct partition *part)
{
	struct llm_session *s = ud;
	struct llm_hetero *l = s->hetero;
	struct partition_options o = l->cuts_opts;
	unsigned int oldest = 0;

	if (s->engine->info.choices.placement == LLM_PLACE_GPU) {
		*part = (struct partition){ .cut = PARTITION_GPU, .m = m, .k = k, .n = n, .gpu_cols = n };
		return;
	}
	o.planes = llm_input_planes(plan_input(o.weights, s->engine->info.choices.activations, op));
	for (unsigned int i = 0; i < MAX_CUTS; i++) {
		const struct partition *known = &l->cuts[i].part;

		if (known->m == m && known->k == k && known->n == n && l->cuts[i].planes == o.planes) {
			l->cuts[i].used = ++l->uses;
			*part = *known;
			return;
		}
		if (l->cuts[i].used < l->cuts[oldest].used)
			oldest = i;
	}
	if (l->gpu_share > 0)
		partition_share(&o, (double)l->gpu_share, m, k, n, part);
	else
		partition_search(&o, m, k, n, part);
	l->cuts[oldest].part = *part;
	l->cuts[oldest].planes = o.planes;
	l->cuts[oldest].used = ++l->uses;
}

/* ---- tasks ---- */

static bool is_product(enum plan_op op)
{
	return op == PLAN_QKV || op == PLAN_ATTN_OUTPUT || op == PLAN_GATE_UP || op == PLAN_DOWN || op == PLAN_HEAD;
}

/* Whether anybody but the lane itself waits for the task's end. */
static bool followed_elsewhere(const struct sched_plan *plan, const struct sched_task *task)
{
	size_t n;
	const uint32_t *after = sched_successors(plan, sched_number(plan, task), &n);

	for (size_t i = 0; i < n; i++) {
		const struct sched_task *next = sched_get(plan, after[i]);

		if (next->home != task->home || !next->async)
			return true;
	}
	return !n;
}

static int begin(void *ud, const struct sched_task *task, enum soc_lane lane)
{
	struct llm_session *s = ud;
	struct llm_hetero *l = s->hetero;
	struct ticket *ticket;
	const struct llm_model *m = &s->engine->model;
	struct hetero_slice slice;
	bool product = is_product(task->op), flagged;

	if (task->slice >= MAX_SLICES)
		return llm_fail(-E2BIG, "a product in more than %d slices; give a smaller --chunk", MAX_SLICES);
	ticket = &l->tickets[task->op][task->slice];
	if (product) {
		struct partition cut;
		struct shape shape = llm_forward_shape(m);
		uint64_t k, n;

		plan_product(&shape, task->op, &k, &n);
		cut_product(s, task->op, op_rows(s->pass, task->op), k, n, &cut);
		llm_hetero_slice(s, task->op, task->layer, &cut, task->slice, &slice);
	}
	*ticket = (struct ticket){ .empty = product && slice.empty };
	if (lane == SOC_NPU)
		return ticket->empty ? 0 : hetero_npu_begin(l->npu, &slice, &ticket->seqno);
	if (!l->gpu)
		return ticket->empty ? 0 : hetero_host_run(s->pass, task->op, task->layer, product ? &slice : NULL);
	flagged = followed_elsewhere(s->plan, task);
	return hetero_gpu_begin(l->gpu, s->pass, task->op, task->layer, product ? &slice : NULL, flagged, &ticket->flag);
}

static int poll_end(void *ud, const struct sched_task *task, enum soc_lane lane)
{
	const struct llm_session *s = ud;
	const struct ticket *ticket = &s->hetero->tickets[task->op][task->slice];

	if (lane == SOC_NPU)
		return ticket->empty ? 1 : hetero_npu_poll(s->hetero->npu, ticket->seqno);
	if (!s->hetero->gpu)
		return 1;
	return ticket->flag ? hetero_gpu_poll(s->hetero->gpu, ticket->flag) : 0;
}

static int wait_end(void *ud, const struct sched_task *task, enum soc_lane lane)
{
	const struct llm_session *s = ud;
	const struct ticket *ticket = &s->hetero->tickets[task->op][task->slice];

	if (lane == SOC_NPU)
		return ticket->empty ? 0 : hetero_npu_wait(s->hetero->npu, ticket->seqno);
	return s->hetero->gpu ? hetero_gpu_wait(s->hetero->gpu) : 0;
}

static const struct sched_async lanes = { .begin = begin, .poll = poll_end, .wait = wait_end };

/* On the CPU lane: the look-up of embeddings. Graphs are made when a slice first needs them. */
static int run(void *ud, const struct sched_task *task, enum soc_lane lane)
{
	const struct llm_session *s = ud;

	return task->op == PLAN_EMBED ? llm_forward_step(s->pass, PLAN_EMBED, 0) : 0;
}

/* ---- plans ---- */

static struct sched_plan *make_plan(const struct llm_pass *pass)
{
	struct llm_session *s = pass->s;
	const struct llm_engine_info *info = &s->engine->info;
	struct shape shape = llm_forward_shape(&s->engine->model);
	struct plan_options o = {
		.profile = s->engine->profile,
		.shape = &shape,
		.placement = info->choices.placement,
		.cuts = s->hetero->cuts_opts,
		.cut = cut_product,
		.graphs = PLAN_GRAPH_OP,
		.weights = info->choices.weights,
		.activations = info->choices.activations,
		.kv = info->choices.kv,
		.n_past = pass->pos,
		.n_tokens = pass->n,
		.logits = pass->want == LLM_WANT_NONE ? 0 : op_rows(pass, PLAN_HEAD),
		.run = run,
		.async = &lanes,
		.ud = s,
	};

	return plan_forward(&o);
}

int llm_hetero_plan(const struct llm_pass *pass, struct sched_plan **plan)
{
	struct llm_hetero *l = pass->s->hetero;
	bool lasting = !pass->s->engine->profile;
	unsigned int at = 0;

	for (unsigned int i = 0; i < MAX_PLANS; i++) {
		if (lasting && l->plans[i].plan && l->plans[i].n == pass->n && l->plans[i].want == pass->want) {
			l->plans[i].used = ++l->uses;
			*plan = l->plans[i].plan;
			return 0;
		}
		if (l->plans[i].used < l->plans[at].used)
			at = i;
	}
	*plan = make_plan(pass);
	if (!*plan)
		return llm_fail(-ENOMEM, "no memory for the plan of %u tokens", pass->n);
	sched_plan_free(l->plans[at].plan);
	l->plans[at].plan = *plan;
	l->plans[at].n = pass->n;
	l->plans[at].want = pass->want;
	l->plans[at].used = ++l->uses;
	return 0;
}

struct waits *llm_hetero_pass_waits(struct llm_session *s, const struct llm_pass *pass)
{
	struct llm_hetero *l = s->hetero;

	if (pass->n > 1 && pass->n != l->waits_n) {
		memset(l->waits[0].by, 0, sizeof(l->waits[0].by));
		l->waits_n = pass->n;
	}
	return &l->waits[pass->n == 1];
}

const struct waits *llm_hetero_waits(const struct llm_session *s, bool tokens)
{
	return s->hetero ? &s->hetero->waits[tokens] : NULL;
}

/* ---- life ---- */

unsigned int llm_hetero_rows(enum llm_placement placement, enum llm_graphs graphs, unsigned int chunk)
{
	unsigned int rows = PARTITION_MIN_GRAPH;

	if (placement != LLM_PLACE_LAYER)
		return chunk;
	if (graphs == LLM_GRAPHS_ONLINE)
		return chunk;
	while (rows < chunk && rows < PARTITION_MAX_GRAPH)
		rows *= 2;
	return rows >= chunk ? rows : (chunk + rows - 1) / rows * rows;
}

int llm_hetero_create(struct llm_session *s)
{
	const struct llm_engine *e = s->engine;
	const struct llm_model *m = &e->model;
	struct llm_hetero *l;
	int err = 0;

	/* Rows of an operand are bound, and given to the GPU, where they lie. */
	if (m->q_dim % 16 || m->kv_dim % 16 || m->n_ff % 16)
		return llm_fail(-ENOTSUP, "%s: rows of %u, %u and %u values are no multiples of 16; choose placement npu", e->path,
				m->q_dim, m->kv_dim, m->n_ff);
	l = s->hetero = calloc(1, sizeof(*l));
	if (!l)
		return llm_fail(-ENOMEM, "no memory for a session");
	l->gpu_share = e->gpu_share;
	l->cuts_opts = (struct partition_options){
		.profile = e->profile ? e->profile : e->cuts_profile,
		.weights = e->info.choices.weights,
		.sync = e->info.choices.sync == LLM_SYNC_FAST ? SOC_SYNC_FAST : SOC_SYNC_DRIVER,
		.partition = e->info.choices.partition,
		.graphs = e->info.choices.graphs,
	};
	if (e->info.choices.placement == LLM_PLACE_LAYER)
		err = hetero_npu_create(s, &l->npu);
	if (!err && e->gpu)
		err = hetero_gpu_create(s, &l->gpu);
	return err;
}

void llm_hetero_free(struct llm_session *s)
{
	struct llm_hetero *l = s->hetero;

	if (!l)
		return;
	for (unsigned int i = 0; i < MAX_PLANS; i++)
		sched_plan_free(l->plans[i].plan);
	hetero_gpu_free(l->gpu);
	hetero_npu_free(l->npu);
	free(l);
	s->hetero = NULL;
}
