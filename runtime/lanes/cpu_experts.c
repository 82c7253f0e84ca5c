// SPDX-License-Identifier: MIT
#include "experts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_lane.h"
#include "llm_fail.h"

/* Experts of a task of the router, and rows of a task of row-wise operators */
#define TASK_EXPERTS 16
#define TASK_ROWS 8
#define ALIGN 64

/* Of a chunk's @n tokens; a token's row of an expert is a pair. */
struct lane_experts {
	void *memory;
	float *logits; /* [n][n_expert] */
	float *shared; /* [n]: the shared expert's weights */
	float *weights; /* [n][n_expert_used], by rank */
	uint32_t *experts; /* likewise */
	uint32_t *pair; /* likewise: its number, by expert and then by token */
	uint32_t *token; /* [pairs] */
	uint32_t *first; /* [n_expert + 1]: each expert's first pair */
	struct lane_slice *slices; /* [n_expert + 1] */
	/* [pairs][n_embd]: inputs, and then results; [pairs][n_ff] */
	struct llm_area routed, gate, up;
	struct llm_area shared_gate, shared_up; /* [n][n_ff_shared] */
};

/* A layer's, for a chunk; x and y begin at its first row. */
struct experts_pass {
	struct lane_memory *m;
	struct lane_experts *e;
	const struct llm_model *model;
	const struct llm_layer *layer;
	const struct lane_call *call;
	const float *x;
	float *y;
	unsigned int n, pairs;
};

/* ---- memory ---- */

/* Takes @bytes of a block, or only counts them where there is none. */
static void *take(void *block, size_t *at, size_t bytes)
{
	void *p = block ? (char *)block + *at : NULL;

	*at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
	return p;
}

static void take_area(struct llm_area *area, void *block, size_t *at, size_t rows, size_t cols)
{
	area->bytes = rows * cols * sizeof(float);
	area->data = take(block, at, area->bytes);
}

/* Returns the bytes of all. */
static size_t place(struct lane_experts *e, const struct shape *s, size_t rows, void *block)
{
	size_t pairs = rows * s->experts_used, at = 0;

	e->logits = take(block, &at, rows * s->experts * sizeof(*e->logits));
	e->shared = take(block, &at, rows * sizeof(*e->shared));
	e->weights = take(block, &at, pairs * sizeof(*e->weights));
	e->experts = take(block, &at, pairs * sizeof(*e->experts));
	e->pair = take(block, &at, pairs * sizeof(*e->pair));
	e->token = take(block, &at, pairs * sizeof(*e->token));
	e->first = take(block, &at, (s->experts + 1) * sizeof(*e->first));
	e->slices = take(block, &at, (s->experts + 1) * sizeof(*e->slices));
	take_area(&e->routed, block, &at, pairs, s->dim);
	take_area(&e->gate, block, &at, pairs, s->ffn);
	take_area(&e->up, block, &at, pairs, s->ffn);
	take_area(&e->shared_gate, block, &at, rows, s->shared_ffn);
	take_area(&e->shared_up, block, &at, rows, s->shared_ffn);
	return at;
}

uint64_t lane_experts_bytes(const struct shape *shape, unsigned int rows)
{
	struct lane_experts e;

	return shape->experts ? place(&e, shape, rows, NULL) : 0;
}

int lane_experts_init(struct lane_memory *m)
{
	const struct llm_model *model = &m->loaded->model;
	const struct shape s = {
		.dim = model->n_embd,
		.ffn = model->n_ff,
		.experts = model->n_expert,
		.experts_used = model->n_expert_used,
		.shared_ffn = model->n_ff_shared,
	};
	struct lane_experts *e;
	size_t bytes;

	if (!model->n_expert)
		return 0;
	e = m->experts = calloc(1, sizeof(*e));
	bytes = lane_experts_bytes(&s, m->rows);
	if (e)
		e->memory = aligned_alloc(ALIGN, bytes);
	if (!e || !e->memory)
		return llm_fail(-ENOMEM, "no memory for the experts of %u tokens, %zu bytes",
				m->rows, bytes);
	place(e, &s, m->rows, e->memory);
	return 0;
}

void lane_experts_fini(struct lane_memory *m)
{
	if (m->experts)
		free(m->experts->memory);
	free(m->experts);
	m->experts = NULL;
}

/* ---- routing ---- */

/* Whether expert @a comes before @b in the ranking. */
static bool is_better(const float *logits, uint32_t a, uint32_t b)
{
	bool known = !isnan(logits[a]), other = !isnan(logits[b]);

	if (known && other && (logits[a] < logits[b] || logits[a] > logits[b]))
		return logits[a] > logits[b];
	return known == other ? a < b : known;
}

/* Puts @expert in its place of a ranking of @n, of at most @most. Returns their number. */
static unsigned int rank(const float *logits, uint32_t *experts, unsigned int n, unsigned int most,
			 uint32_t expert)
{
	unsigned int at = n;

	while (at && is_better(logits, expert, experts[at - 1]))
		at--;
	if (at == most)
		return n;
	n += n < most;
	memmove(experts + at + 1, experts + at, (n - at - 1) * sizeof(*experts));
	experts[at] = expert;
	return n;
}

void lane_route(const float *logits, unsigned int n, unsigned int used, bool norm, float scale,
		uint32_t *experts, float *weights)
{
	unsigned int ranked = 0;
	double sum = 0, chosen = 0, most;

	for (uint32_t e = 0; e < n; e++)
		ranked = rank(logits, experts, ranked, used, e);
	most = (double)logits[experts[0]];
	for (unsigned int e = 0; e < n; e++)
		sum += exp((double)logits[e] - most);
	for (unsigned int i = 0; i < used; i++)
		chosen += exp((double)logits[experts[i]] - most);
	for (unsigned int i = 0; i < used; i++)
		weights[i] = (float)(exp((double)logits[experts[i]] - most) /
				     (norm ? chosen : sum) * (double)scale);
}

/* Logits of some experts for all tokens; and, as the last task, of the shared one's weight. */
static void task_logits(void *arg, unsigned int task, unsigned int worker)
{
	const struct experts_pass *p = arg;
	const struct cpu_kernels *kernels = p->m->loaded->kernels;
	unsigned int k = p->model->n_embd, all = p->model->n_expert, first = task * TASK_EXPERTS,
		     left = first < all ? all - first : 0;

	if (left)
		kernels->matmul(p->e->logits + first, all, p->x, k, p->n,
				p->layer->router + (size_t)first * k, k,
				left < TASK_EXPERTS ? left : TASK_EXPERTS, k);
	else
		kernels->matmul(p->e->shared, 1, p->x, k, p->n, p->layer->shared_gate, k, 1, k);
}

static void route_row(const struct experts_pass *p, size_t row)
{
	const struct llm_model *model = p->model;
	unsigned int used = model->n_expert_used;

	lane_route(p->e->logits + row * model->n_expert, model->n_expert, used, model->expert_norm,
		   model->expert_scale, p->e->experts + row * used, p->e->weights + row * used);
	if (p->layer->shared_gate)
		p->e->shared[row] = 1 / (1 + expf(-p->e->shared[row]));
}

/* Numbers the pairs, and finds each expert's. */
static void group_pairs(const struct experts_pass *p)
{
	struct lane_experts *e = p->e;
	unsigned int all = p->model->n_expert, used = p->model->n_expert_used;
	uint32_t sum = 0;

	memset(e->first, 0, (all + 1) * sizeof(*e->first));
	for (unsigned int i = 0; i < p->pairs; i++)
		e->first[e->experts[i]]++;
	for (unsigned int i = 0; i <= all; i++) {
		uint32_t count = e->first[i];

		e->first[i] = sum;
		sum += count;
	}
	for (unsigned int i = 0; i < p->pairs; i++) {
		e->pair[i] = e->first[e->experts[i]]++;
		e->token[e->pair[i]] = i / used;
	}
	/* Each is now the next one's. */
	memmove(e->first + 1, e->first, all * sizeof(*e->first));
	e->first[0] = 0;
}

/* ---- the FFN ---- */

static unsigned int row_tasks(unsigned int n)
{
	return (n + TASK_ROWS - 1) / TASK_ROWS;
}

static unsigned int task_end(unsigned int task, unsigned int n)
{
	unsigned int end = (task + 1) * TASK_ROWS;

	return end < n ? end : n;
}

/* Gathers the inputs of some pairs. */
static void task_gather(void *arg, unsigned int task, unsigned int worker)
{
	const struct experts_pass *p = arg;
	size_t n = p->model->n_embd;

	for (size_t i = task * TASK_ROWS; i < task_end(task, p->pairs); i++)
		memcpy(p->e->routed.data + i * n, p->x + p->e->token[i] * n, n * sizeof(float));
}

/* gate = silu(gate) * up of some pairs; behind those, of some tokens in the shared expert. */
static void task_act(void *arg, unsigned int task, unsigned int worker)
{
	const struct experts_pass *p = arg;
	const struct fw_kernels *floats = p->m->loaded->floats;
	unsigned int before = row_tasks(p->pairs);
	bool shared = task >= before;
	size_t n = shared ? p->model->n_ff_shared : p->model->n_ff;
	float *gate = shared ? p->e->shared_gate.data : p->e->gate.data,
	      *up = shared ? p->e->shared_up.data : p->e->up.data;

	task -= shared ? before : 0;
	for (size_t i = task * TASK_ROWS; i < task_end(task, shared ? p->n : p->pairs); i++)
		floats->glu(gate + i * n, gate + i * n, up + i * n, n, llm_model_act(p->model));
}

/* y = the sum of a token's results, by rank, and the shared expert's, which is in y. */
static void sum_row(const struct experts_pass *p, size_t row)
{
	const struct lane_experts *e = p->e;
	size_t n = p->model->n_embd, used = p->model->n_expert_used;
	float *y = p->y + row * n, *sum = e->routed.data + e->pair[row * used] * n;

	for (size_t c = 0; c < n; c++)
		sum[c] *= e->weights[row * used];
	for (size_t i = row * used + 1; i < (row + 1) * used; i++) {
		const float *result = e->routed.data + e->pair[i] * n;

		for (size_t c = 0; c < n; c++)
			sum[c] += e->weights[i] * result[c];
	}
	if (!p->layer->shared_gate) {
		memcpy(y, sum, n * sizeof(*y));
		return;
	}
	for (size_t c = 0; c < n; c++)
		y[c] = sum[c] + e->shared[row] * y[c];
}

static void task_route(void *arg, unsigned int task, unsigned int worker)
{
	const struct experts_pass *p = arg;

	for (size_t row = task * TASK_ROWS; row < task_end(task, p->n); row++)
		route_row(p, row);
}

static void task_sum(void *arg, unsigned int task, unsigned int worker)
{
	const struct experts_pass *p = arg;

	for (size_t row = task * TASK_ROWS; row < task_end(task, p->n); row++)
		sum_row(p, row);
}

/* Columns of an expert's matrix, whose results are rows of @y from @row on. */
static struct lane_columns columns_of(int matrix, unsigned int expert, unsigned int cols,
				      const struct llm_area *y, unsigned int row)
{
	return (struct lane_columns){ .matrix = matrix,
				      .n = cols,
				      .base = expert * cols,
				      .cols = cols,
				      .y = y,
				      .y_row = row };
}

static struct lane_slice slice_of(const struct experts_pass *p, unsigned int rows, unsigned int k,
				  const struct llm_area *x, unsigned int x_row)
{
	return (struct lane_slice){
		.op = LLM_OP_EXPERTS,
		.layer = p->call->work->layer,
		.rows = rows,
		.graph_rows = rows,
		.k = k,
		.x = x,
		.x_row = x_row,
		.prompt = p->call->prompt,
	};
}

static struct lane_slice gate_up(const struct experts_pass *p, unsigned int expert)
{
	const struct lane_experts *e = p->e;
	uint32_t first = e->first[expert];
	struct lane_slice s =
		slice_of(p, e->first[expert + 1] - first, p->model->n_embd, &e->routed, first);

	s.columns[0] = columns_of(LLM_FFN_GATE, expert, p->model->n_ff, &e->gate, first);
	s.columns[1] = columns_of(LLM_FFN_UP, expert, p->model->n_ff, &e->up, first);
	s.nr_matrices = 2;
	return s;
}

static struct lane_slice down(const struct experts_pass *p, unsigned int expert)
{
	const struct lane_experts *e = p->e;
	uint32_t first = e->first[expert];
	struct lane_slice s =
		slice_of(p, e->first[expert + 1] - first, p->model->n_ff, &e->gate, first);

	s.columns[0] = columns_of(LLM_FFN_DOWN, expert, p->model->n_embd, &e->routed, first);
	s.nr_matrices = 1;
	return s;
}

static struct lane_slice shared_gate_up(const struct experts_pass *p)
{
	const struct lane_experts *e = p->e;
	unsigned int n = p->model->n_ff_shared;
	struct lane_slice s = slice_of(p, p->n, p->model->n_embd, &p->m->xn, p->call->chunk->row);

	s.columns[0] = columns_of(LLM_SHARED_GATE, 0, n, &e->shared_gate, 0);
	s.columns[1] = columns_of(LLM_SHARED_UP, 0, n, &e->shared_up, 0);
	s.nr_matrices = 2;
	return s;
}

static struct lane_slice shared_down(const struct experts_pass *p)
{
	struct lane_slice s = slice_of(p, p->n, p->model->n_ff_shared, &p->e->shared_gate, 0);

	s.columns[0] =
		columns_of(LLM_SHARED_DOWN, 0, p->model->n_embd, &p->m->y, p->call->chunk->row);
	s.nr_matrices = 1;
	return s;
}

/* One of the two matmuls of all experts that have tokens. */
static int run_slices(const struct experts_pass *p,
		      struct lane_slice (*of)(const struct experts_pass *, unsigned int),
		      struct lane_slice (*of_shared)(const struct experts_pass *))
{
	struct lane_slice *slices = p->e->slices;
	unsigned int n = 0;

	for (unsigned int e = 0; e < p->model->n_expert; e++)
		if (p->e->first[e + 1] > p->e->first[e])
			slices[n++] = of(p, e);
	if (p->model->n_ff_shared)
		slices[n++] = of_shared(p);
	return lane_cpu_slices(p->m, slices, n);
}

int lane_cpu_experts(struct lane_memory *m, const struct lane_call *call)
{
	const struct llm_model *model = &m->loaded->model;
	struct llm_pool *pool = m->loaded->pool;
	size_t at = (size_t)call->chunk->row * model->n_embd;
	unsigned int n = call->chunk->n;
	struct experts_pass p = {
		.m = m,
		.e = m->experts,
		.model = model,
		.layer = &model->layers[call->work->layer],
		.call = call,
		.x = m->xn.data + at,
		.y = m->y.data + at,
		.n = n,
		.pairs = n * model->n_expert_used,
	};
	unsigned int blocks = (model->n_expert + TASK_EXPERTS - 1) / TASK_EXPERTS;
	int err;

	llm_pool_run(pool, task_logits, &p, blocks + (p.layer->shared_gate != NULL));
	llm_pool_run(pool, task_route, &p, row_tasks(n));
	group_pairs(&p);
	llm_pool_run(pool, task_gather, &p, row_tasks(p.pairs));
	err = run_slices(&p, gate_up, shared_gate_up);
	if (err)
		return err;
	llm_pool_run(pool, task_act, &p,
		     row_tasks(p.pairs) + (model->n_ff_shared ? row_tasks(n) : 0));
	err = run_slices(&p, down, shared_down);
	if (!err)
		llm_pool_run(pool, task_sum, &p, row_tasks(n));
	return err;
}
