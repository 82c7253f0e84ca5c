// SPDX-License-Identifier: MIT
/*
 * Forward passes as plans of tasks, which the scheduler runs under either clock. Each operator's result is computed on this
 * host; on the virtual clock its time is the modelled SoC's.
 *
 * A plan without costs is the same for every pass of its kind, so the wall's plans are made once per session. There, what the
 * NPU does in one job is one task.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "forward.h"
#include "hetero.h"
#include "llm_fail.h"

struct shape llm_forward_shape(const struct llm_model *m)
{
	struct shape s = {
		.layers = m->n_layer,
		.dim = m->n_embd,
		.heads = m->n_head,
		.kv_heads = m->n_head_kv,
		.head_dim = m->head_dim,
		.ffn = m->n_ff,
		.vocab = m->n_vocab,
		.activation = SHAPE_SILU,
		.gated = true,
		.tied = m->output == m->token_embd,
	};

	return s;
}

static int run_task(void *ud, const struct sched_task *task, enum soc_lane lane)
{
	const struct llm_session *s = ud;

	return llm_forward_step(s->pass, task->op, task->layer);
}

/* The plan has the operators of what is one job, for their times: the first does all the work. */
static int run_whole_job(void *ud, const struct sched_task *task, enum soc_lane lane)
{
	const struct llm_session *s = ud;
	int err = 0;

	if (task->op == PLAN_EMBED)
		err = llm_forward_step(s->pass, PLAN_EMBED, 0) ?: llm_forward_step(s->pass, PLAN_WHOLE, 0);
	return err;
}

static void count_lanes(struct llm_lane_stats *lanes, const struct sched_run *run)
{
	for (int lane = 0; lane < SOC_NR_LANES; lane++)
		lanes[lane].busy_ns += run->busy_ns[lane];
}

void llm_virtual_count(struct llm_virtual_stats *v, const struct sched_run *run)
{
	v->ns += run->makespan_ns;
	count_lanes(v->lanes, run);
	v->launches += run->launches;
	v->handovers += run->handovers;
	v->dram_bytes += run->dram_bytes;
	v->energy_j += run->energy_j;
}

static struct sched_plan *make_plan(const struct llm_pass *pass)
{
	struct llm_session *s = pass->s;
	const struct llm_engine_info *info = &s->engine->info;
	const struct profile *profile = s->engine->profile;
	bool whole = pass->products->whole;
	struct shape shape = llm_forward_shape(&s->engine->model);
	struct plan_options o = {
		.profile = profile,
		.shape = &shape,
		/* A token is one job, whatever a chunk is. */
		.placement = info->choices.placement == LLM_PLACE_FINE && pass->n == 1 ? LLM_PLACE_NPU : info->choices.placement,
		.graphs = whole && !profile ? PLAN_GRAPH_WHOLE
			  : whole	    ? PLAN_GRAPH_CHUNK
					    : PLAN_GRAPH_OP,
		.weights = info->choices.weights,
		.activations = info->choices.activations,
		.kv = info->choices.kv,
		.n_past = pass->pos,
		.n_tokens = pass->n,
		.chunk = profile && s->engine->ctx && pass->n > 1 ? llm_forward_npu_rows(s, pass->n) : 0,
		.logits = pass->want == LLM_WANT_NONE ? 0 : pass->want == LLM_WANT_LAST ? 1 : pass->n,
		.run = whole && profile ? run_whole_job : run_task,
		.ud = s,
	};

	return plan_forward(&o);
}

static struct sched_plan *wall_plan(const struct llm_pass *pass)
{
	struct sched_plan **plan = &pass->s->wall_plans[pass->products->whole != NULL][pass->want != LLM_WANT_NONE];

	if (!*plan)
		*plan = make_plan(pass);
	return *plan;
}

void llm_forward_free(struct llm_session *s)
{
	for (int i = 0; i < 4; i++)
		sched_plan_free(s->wall_plans[i / 2][i % 2]);
}

int llm_forward(const struct llm_pass *pass)
{
	struct llm_session *s = pass->s;
	const struct llm_engine *engine = s->engine;
	struct sched_options so = {
		.clock = engine->profile ? SCHED_VIRTUAL : SCHED_WALL,
		.profile = engine->profile,
		.sync = engine->info.choices.sync == LLM_SYNC_FAST ? SOC_SYNC_FAST : SOC_SYNC_DRIVER,
		.execute = true,
		.seed = engine->seed + s->nr_passes++,
		.jitter = engine->jitter,
	};
	struct sched_plan *plan = NULL;
	uint64_t at_ns = s->listener.fn ? llm_session_now_ns(s) : 0;
	struct sched_run run;
	int err;

	s->pass = pass;
	err = s->hetero ? llm_hetero_plan(pass, &plan) : 0;
	if (!err && !plan)
		plan = engine->profile ? make_plan(pass) : wall_plan(pass);
	if (err || !plan) {
		s->pass = NULL;
		return err ? err : llm_fail(-ENOMEM, "no memory for the plan of %u tokens", pass->n);
	}
	if (s->hetero)
		so.waits = llm_hetero_pass_waits(s, pass);
	s->plan = plan;
	err = sched_run(plan, &so, &run);
	s->pass = NULL;
	if (err && !run.error)
		llm_fail(err, "scheduling %u tokens failed: %s", pass->n, strerror(-err));
	if (!err && s->listener.fn)
		s->listener.fn(s->listener.ud, at_ns, plan, &run);
	if (!err && engine->profile)
		llm_virtual_count(&s->stats.virtual_clock, &run);
	if (!err && !engine->profile && s->hetero)
		count_lanes(s->stats.lanes, &run);
	sched_run_free(&run);
	if (engine->profile && !s->hetero)
		sched_plan_free(plan);
	return err;
}
