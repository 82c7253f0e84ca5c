// SPDX-License-Identifier: MIT
#include "run.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "best.h"
#include "cold.h"
#include "lane_attention.h"
#include "llm_fail.h"
#include "observe.h"

static_assert(LLM_NR_TASK_KINDS <= WAITS_OPS, "every operator's waits are predicted");

/* The pass under way. */
struct pass_state {
	struct pass_runner *r;
	const struct pass *pass;
	const struct plan *plan;
	uint64_t *tickets; /* by task */
	struct observation *seen; /* NULL: nobody looks */
	bool cold; /* the pass loads weights */
	uint64_t from_ns; /* cold: when it was begun, on the pass's clock */
	/* Cold, on the wall clock: by task, the time for graphs that it made; else NULL. */
	uint64_t *graph_ns;
	atomic_flag failed; /* a task has; the error line of its thread: */
	char line[512];
};

/* ---- tasks ---- */

/* Whether anything but the lane itself waits for the task's end. */
static bool followed_elsewhere(const struct sched_tasks *plan, const struct sched_task *task)
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

static struct lane_call call_of(const struct pass_state *s, uint32_t task)
{
	const struct lane_work *work = &s->plan->works[task];
	const struct lane_chunk *chunk = &s->plan->chunks[work->chunk];

	return (struct lane_call){
		.work = work,
		.chunk = chunk,
		.ids = s->pass->ids + chunk->first,
		.pos = s->pass->pos + chunk->first,
		.tree = s->pass->n > 1 ? s->pass->tree : NULL,
		.all = s->pass->all,
		.at = s->pass->at,
		.prompt = s->pass->n > 1 && !s->plan->pass.tree,
	};
}

/* A block of logits, and the best of each row. */
struct reduction {
	const struct pass_state *s;
	const float *logits;
	struct llm_candidate best[LANE_LOGIT_ROWS][LLM_MAX_CANDIDATES];
};

static void task_best(void *arg, unsigned int row, unsigned int worker)
{
	struct reduction *r = arg;
	const struct llm_loaded *l = r->s->r->memory->loaded;
	size_t n_vocab = l->model.n_vocab;

	best_tokens(l->kernels, r->logits + row * n_vocab, l->model.n_vocab, r->best[row],
		    r->s->pass->k);
}

static int hand_out_best(const struct pass_state *s, const struct lane_work *w)
{
	const struct lane_memory *m = s->r->memory;
	struct reduction *r = malloc(sizeof(*r));

	if (!r)
		return llm_fail(-ENOMEM, "no memory for the candidates of %u tokens", w->logits);
	r->s = s;
	r->logits = m->all.data;
	llm_pool_run(m->loaded->pool, task_best, r, w->logits);
	for (uint32_t i = 0; i < w->logits; i++)
		s->pass->best(s->pass->ud, w->logits_row + i, r->best[i]);
	free(r);
	return 0;
}

/* A block of logits, for who wants all of them, or their best. */
static int hand_out(const struct pass_state *s, const struct lane_call *call)
{
	const struct lane_work *w = call->work;
	const struct lane_memory *m = s->r->memory;
	size_t n_vocab = m->loaded->model.n_vocab, first = call->chunk->first;

	if (first + lane_logits_row(call, w->logits - 1) + 1 == s->pass->n)
		memcpy(m->logits.data, m->all.data + (w->logits - 1) * n_vocab,
		       n_vocab * sizeof(float));
	if (s->pass->at)
		return hand_out_best(s, w);
	for (uint32_t i = 0; i < w->logits; i++)
		s->pass->logits(s->pass->ud, first + lane_logits_row(call, i),
				m->all.data + i * n_vocab);
	return 0;
}

/* Makes what the plan's tasks need before it goes on. */
static int prepare(const struct pass_state *s)
{
	int err = 0;

	for (uint32_t i = 0; i < sched_nr_tasks(s->plan->tasks) && !err; i++) {
		struct lane *lane = s->r->lanes[sched_get(s->plan->tasks, i)->home];
		const struct lane_call call = call_of(s, i);

		if (lane->ops->prepare)
			err = lane->ops->prepare(lane, &call);
	}
	return err;
}

/* Keeps the error line of the first task that fails, which is its thread's, for the pass's. */
static int keep_line(struct pass_state *s, int err)
{
	if (err && !atomic_flag_test_and_set(&s->failed))
		snprintf(s->line, sizeof(s->line), "%s", llm_error());
	return err;
}

/* Gives the task @number to the lane. */
static int give(const struct pass_state *s, uint32_t number, struct lane *lane,
		const struct lane_call *call, uint64_t *ticket)
{
	uint64_t graph_ns = lane->graph_ns;
	int err;

	atomic_fetch_add(&lane->memory->begun, 1);
	err = lane->ops->begin(lane, call, ticket);
	if (s->graph_ns)
		s->graph_ns[number] = lane->graph_ns - graph_ns;
	return err;
}

static int begin(void *ud, const struct sched_task *task, enum soc_lane lane)
{
	struct pass_state *s = ((struct pass_runner *)ud)->now;
	uint32_t number = sched_number(s->plan->tasks, task);
	struct lane_call call = call_of(s, number);

	call.followed = s->seen || followed_elsewhere(s->plan->tasks, task);
	return keep_line(s, give(s, number, s->r->lanes[lane], &call, &s->tickets[number]));
}

static int poll_end(void *ud, const struct sched_task *task, enum soc_lane lane)
{
	struct pass_state *s = ((struct pass_runner *)ud)->now;
	uint32_t number = sched_number(s->plan->tasks, task);
	int ended = s->r->lanes[lane]->ops->poll(s->r->lanes[lane], s->tickets[number]);

	return ended < 0 ? keep_line(s, ended) : ended;
}

static int wait_end(void *ud, const struct sched_task *task, enum soc_lane lane)
{
	struct pass_state *s = ((struct pass_runner *)ud)->now;
	uint32_t number = sched_number(s->plan->tasks, task);
	int err = s->r->lanes[lane]->ops->wait(s->r->lanes[lane], s->tickets[number],
					       LANE_WAIT_DRIVER);

	if (!err && s->seen)
		observe(s->seen, number);
	return keep_line(s, err);
}

/* Polling takes the time of a CPU, which threads that load weights need. */
static enum lane_wait wait_of(const struct pass_state *s)
{
	return s->r->opts.choices.sync == LLM_SYNC_FAST && !s->cold ? LANE_WAIT_FAST
								    : LANE_WAIT_DRIVER;
}

/* Whether the task's result is a tensor that an observer may see. */
static bool is_seen(const struct pass_state *s, const struct sched_task *task)
{
	return s->seen && task->op != LLM_OP_READ && task->op != LLM_OP_PACK;
}

/* To the end: where one lane is at work at a time, its own way of waiting is the best. */
static int run(void *ud, const struct sched_task *task, enum soc_lane lane)
{
	struct pass_state *s = ((struct pass_runner *)ud)->now;
	uint32_t number = sched_number(s->plan->tasks, task);
	struct lane_call call = call_of(s, number);
	struct lane *l = s->r->lanes[lane];
	uint64_t ticket;
	int err;

	if (task->op == LLM_OP_BUILD)
		return keep_line(s, prepare(s));
	if (task->op == LLM_OP_LOAD)
		return keep_line(s, blocks_load(&s->r->blocks, call.work));
	if (task->op == LLM_OP_LOGITS)
		return keep_line(s, hand_out(s, &call));
	call.followed = true;
	err = give(s, number, l, &call, &ticket);
	if (!err)
		err = l->ops->wait(l, ticket, wait_of(s));
	if (!err && is_seen(s, task))
		observe(s->seen, number);
	return keep_line(s, err);
}

/* ---- plans ---- */

/* A token tree has graphs of all layers, beside those of blocks. */
static enum plan_graphs graphs_of(const struct pass_runner *r, bool tree)
{
	return tree ? PLAN_GRAPHS_PREFILL : r->blocks.plan.graphs;
}

static struct plan_options options_of(struct pass_runner *r, bool tree)
{
	static const struct sched_async async = { .begin = begin,
						  .poll = poll_end,
						  .wait = wait_end };
	struct plan_options o = r->opts;

	o.observe = r->observer != NULL;
	o.start = r->start.first < r->start.nr ? &r->start : NULL;
	o.switching = r->blocks.nr && !tree ? &r->blocks.plan : NULL;
	if (r->lanes[SOC_CPU])
		o.calls = (struct plan_calls){ .run = run, .async = &async, .ud = r };
	return o;
}

static struct plan *make_plan(struct pass_runner *r, const struct plan_pass *pass)
{
	const struct plan_options o = options_of(r, pass->tree);
	struct plan *plan = plan_forward(&o, pass);

	if (!plan)
		llm_fail(-ENOMEM, "no memory for the plan of %u tokens", pass->n_tokens);
	return plan;
}

/* Whether the plan of a pass depends on the tokens before it: they decide which chunks have full
 * attention. */
static bool counts_past(const struct pass_runner *r, const struct plan_pass *pass)
{
	return r->opts.attention &&
	       ((pass->n_tokens > 1 && !pass->tree) || r->opts.choices.decode == LLM_DECODE_SPARSE);
}

/* Of the wall clock, where a plan without costs is mostly the same after any number
 * of tokens. */
static struct plan *find_plan(struct pass_runner *r, const struct plan_pass *pass)
{
	unsigned int at = 0;
	struct plan *plan;

	for (unsigned int i = 0; i < PASS_MAX_PLANS; i++) {
		plan = r->plans[i].plan;
		if (plan && (!counts_past(r, pass) || plan->pass.n_past == pass->n_past) &&
		    plan->pass.n_tokens == pass->n_tokens && plan->pass.logits == pass->logits &&
		    plan->pass.tree == pass->tree && plan->observed == (r->observer != NULL) &&
		    plan->graphs == graphs_of(r, pass->tree)) {
			r->plans[i].used = ++r->uses;
			return plan;
		}
		if (r->plans[i].used < r->plans[at].used)
			at = i;
	}
	plan = make_plan(r, pass);
	if (!plan)
		return NULL;
	plan_free(r->plans[at].plan);
	r->plans[at].plan = plan;
	r->plans[at].used = ++r->uses;
	return plan;
}

/* ---- passes ---- */

static struct waits *find_waits(struct pass_runner *r, const struct pass *pass)
{
	if (pass->tree)
		return &r->waits[2];
	if (pass->n > 1 && pass->n != r->waits_n) {
		memset(r->waits[0].by, 0, sizeof(r->waits[0].by));
		r->waits_n = pass->n;
	}
	return &r->waits[pass->n == 1];
}

static void count(struct pass_runner *r, const struct sched_run *run)
{
	for (int lane = 0; lane < SOC_NR_LANES; lane++)
		r->sums.busy_ns[lane] += run->busy_ns[lane];
	r->sums.handovers += run->handovers;
	r->sums.picks += run->picks;
	r->sums.pick_ns += run->pick_ns;
	r->sums.launches += run->launches;
	r->sums.dram_bytes += run->dram_bytes;
	r->sums.energy_j += run->energy_j;
	if (r->opts.soc)
		r->sums.ns += run->makespan_ns;
}

uint64_t pass_now_ns(const struct pass_runner *r)
{
	struct timespec ts;

	if (r->opts.soc)
		return r->sums.ns;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* A start that has gone well: what it took. */
static int measure_cold(const struct pass_state *s, uint64_t at_ns, const struct sched_run *run)
{
	struct pass_cold *c = &s->r->cold;
	const struct cold_pass pass = {
		.plan = s->plan,
		.start = &s->r->start,
		.layers = s->r->opts.shape->layers,
		.run = run,
		.graph_ns = s->graph_ns,
	};

	if (cold_measure(&pass, &c->stats))
		return llm_fail(-ENOMEM, "no memory for the statistics of a cold start");
	c->stats.plan_ns = at_ns - s->from_ns;
	c->tokens = s->pass->pos + s->pass->n;
	c->rows = 0;
	for (uint32_t i = 0; i < s->plan->nr_chunks; i++) {
		uint32_t end = s->plan->chunks[i].row + s->plan->chunks[i].rows;

		c->rows = end > c->rows ? end : c->rows;
	}
	return 0;
}

/* What chosen tokens' logits took. */
static void count_at(struct llm_at_stats *at, const struct plan *plan, const struct sched_run *run)
{
	for (uint32_t i = 0; i < run->nr_spans; i++) {
		const struct lane_work *work = &plan->works[i];
		enum llm_op op = work->op;
		uint64_t ns = run->spans[i].end_ns - run->spans[i].start_ns;

		if (work->chosen && op != LLM_OP_HEAD)
			at->layer_ns += ns;
		if (op == LLM_OP_OUTPUT_NORM || op == LLM_OP_HEAD)
			at->head_ns += ns;
		if (op == LLM_OP_LOGITS)
			at->reduce_ns += ns;
	}
}

/* With a state for those who compute and those who look. */
static int run_plan(struct pass_state *s, const struct sched_options *so)
{
	struct pass_runner *r = s->r;
	uint64_t at_ns = r->listener || s->cold ? pass_now_ns(r) : 0;
	struct sched_run run;
	int err;

	r->now = s;
	err = sched_run(s->plan->tasks, so, &run);
	r->now = NULL;
	if (err && run.error)
		llm_fail(err, "%s", s->line);
	else if (err)
		llm_fail(err, "scheduling %u tokens failed: %s", s->pass->n, strerror(-err));
	if (!err && s->cold)
		err = measure_cold(s, at_ns, &run);
	if (!err && !s->pass->tree)
		blocks_end(&r->blocks, s->plan, &run);
	if (!err && r->listener)
		r->listener(r->listener_ud, at_ns, s->plan, &run);
	if (!err && s->pass->at)
		count_at(&r->at, s->plan, &run);
	if (!err && s->plan->times && !r->opts.soc)
		times_learn(&r->times, s->plan, &run);
	if (!err)
		count(r, &run);
	sched_run_free(&run);
	return err;
}

/* Plans of the virtual clock have costs, those of a cold start pieces, those of chosen tokens their
 * positions, others loads of graphs: none of these serves twice. */
static struct plan *take_plan(struct pass_runner *r, const struct plan_pass *pass, bool *kept)
{
	*kept = !r->opts.soc && r->start.first == r->start.nr && !pass->at &&
		graphs_of(r, pass->tree) != PLAN_GRAPHS_SWITCHED;
	return *kept ? find_plan(r, pass) : make_plan(r, pass);
}

/* What the tasks' functions write to. */
static int make_room(struct pass_state *s)
{
	uint32_t n = sched_nr_tasks(s->plan->tasks);
	bool graphs = s->cold && !s->r->opts.soc;

	s->tickets = calloc(n, sizeof(*s->tickets));
	if (graphs)
		s->graph_ns = calloc(n, sizeof(*s->graph_ns));
	return s->tickets && (s->graph_ns || !graphs)
		       ? 0
		       : llm_fail(-ENOMEM, "no memory for the tasks of %u tokens", s->pass->n);
}

static int run_pass(struct pass_runner *r, const struct pass *pass)
{
	const struct plan_pass p = {
		.n_past = pass->pos,
		.n_tokens = pass->n,
		.logits = pass->at    ? PLAN_LOGITS_AT
			  : pass->all ? PLAN_LOGITS_ALL
				      : PLAN_LOGITS_LAST,
		.at = pass->at,
		.nr_at = pass->nr_at,
		.tree = pass->tree,
	};
	struct sched_options so = {
		.clock = r->opts.soc ? SCHED_VIRTUAL : SCHED_WALL,
		.soc = r->opts.soc,
		/* Who looks at results waits for each. */
		.sync = r->opts.choices.sync == LLM_SYNC_FAST && !(r->observer && !r->opts.soc)
				? SOC_SYNC_FAST
				: SOC_SYNC_DRIVER,
		.execute = r->lanes[SOC_CPU],
		.seed = r->seed + r->nr_passes++,
		.jitter = r->jitter,
		.client = r->client,
		.waits = find_waits(r, pass),
	};
	bool kept, cold = r->start.first < r->start.nr;
	uint64_t from_ns = cold ? pass_now_ns(r) : 0;
	struct plan *plan = take_plan(r, &p, &kept);
	struct pass_state s = {
		.r = r,
		.pass = pass,
		.plan = plan,
		.cold = cold,
		.from_ns = from_ns,
		.failed = ATOMIC_FLAG_INIT,
	};
	int err = plan ? 0 : -ENOMEM;

	if (!err && so.execute)
		err = make_room(&s);
	if (!err && so.execute && r->observer)
		err = observation_create(r, pass, plan, &s.seen);
	if (!err && so.execute)
		lane_attention_truncate(r->memory, pass->pos);
	if (!err) {
		r->chunk = plan->divided ? plan->chunk : pass->n > 1 && !pass->tree ? 0 : r->chunk;
		if (plan->times && !r->opts.soc)
			times_fill(&r->times, plan);
		so.policy = plan->policy;
		so.param = plan->times;
		err = run_plan(&s, &so);
	}
	observation_free(s.seen);
	free(s.tickets);
	free(s.graph_ns);
	if (!kept)
		plan_free(plan);
	return err;
}

int pass_run(struct pass_runner *r, const struct pass *pass)
{
	struct start *start = r->lanes[SOC_CPU] ? r->memory->loaded->start : NULL;
	int err = pass->tree ? 0 : blocks_begin(&r->blocks, pass->n);

	if (err)
		return err;
	if (r->start.first == r->start.nr)
		return run_pass(r, pass);
	/* Of several sessions the first one loads the weights; others wait for it. */
	if (start) {
		start_lock(start);
		r->start.first = start_packed(start);
	}
	err = run_pass(r, pass);
	if (start) {
		r->start.first = start_packed(start);
		start_unlock(start);
	} else if (!err) {
		r->start.first = r->start.nr;
	}
	return err;
}

int pass_prepare(struct pass_runner *r, unsigned int n, bool tree)
{
	const struct plan_pass p = {
		.n_tokens = n,
		.logits = tree ? PLAN_LOGITS_ALL : PLAN_LOGITS_LAST,
		.tree = tree,
	};
	/* Graphs have the shape of a tree as an input. */
	static const struct lane_tree any;
	const struct pass pass = { .n = n, .all = tree, .tree = tree ? &any : NULL };
	struct plan *plan = make_plan(r, &p);
	struct pass_state s = { .r = r, .pass = &pass, .plan = plan };
	int err = plan ? prepare(&s) : -ENOMEM;

	plan_free(plan);
	return err;
}

void pass_runner_fini(struct pass_runner *r)
{
	for (unsigned int i = 0; i < PASS_MAX_PLANS; i++)
		plan_free(r->plans[i].plan);
	blocks_fini(&r->blocks);
	for (int lane = 0; lane < SOC_NR_LANES; lane++)
		lane_free(r->lanes[lane]);
}
