/* SPDX-License-Identifier: MIT */
/*
 * Sessions: a sequence of tokens with its KV cache, memory for the chunks in flight, and the logits
 * of the last token.
 *
 * The code that a token passes through:
 *
 *	llm_tokenize()		tokens.c: turns text into ids
 *	llm_session_eval()	here: checks the ids and makes a pass of them
 *	pass_run()		pass/run.c: finds or makes the plan, and runs it
 *				on the session's clock
 *	plan_forward()		pass/plan.c: makes tasks of chunks, layers, operators and
 *				slices, with their dependencies
 *	sched_run()		schedule/: gives tasks to lanes as they become ready,
 *				or simulates that
 *	lane_ops.begin, wait	lanes/: the CPU's threads, the NPU's jobs or the
 *				GPU's kernels compute a task
 *	LLM_OP_ROPE		stores the token's K and V in the cache
 *	LLM_OP_HEAD		computes its logits: session->memory.logits
 *	llm_sample()		sampler.c: draws the next id
 *	llm_token_text()	tokens.c: returns its bytes
 *
 * n_past advances only when an evaluation has succeeded, so a session can be used after a failed
 * one: cache rows beyond n_past are never read before they are written.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_lane.h"
#include "engine.h"
#include "gpu_lane.h"
#include "lane_attention.h"
#include "llm_fail.h"
#include "npu_lane.h"
#include "shadow_weights.h"
#include "start.h"
#include "storage_lane.h"

#define DEFAULT_MAX_CTX 4096
/* The first ISA whose records say what workers were busy with: 1.6 */
#define MEASURED_ISA (1u << 16 | 6)
/* The first ISA with attention of chosen rows: 1.11 */
#define CHOSEN_ISA (1u << 16 | 11)
/* The first ISA with positions and masks for token trees: 1.10 */
#define MASKED_ISA (1u << 16 | 10)

/* ---- life ---- */

static struct plan_options session_plan(const struct llm_engine *e)
{
	return (struct plan_options){
		.soc = e->soc,
		.shape = &e->shape,
		.choices = e->info.choices,
		.chunk = e->chunk,
		.cuts = e->soc ? e->soc : e->cuts_soc,
		.predictor = e->predictor,
		.gpu_predictor = e->gpu_predictor,
		.widths = e->own_widths ? e->widths : NULL,
		.shadow = e->shadow.inputs ? &e->shadow : NULL,
		.attention = e->attention,
		.positions = !e->info.device || e->info.device->isa_version >= CHOSEN_ISA,
		.masks = !e->info.device || e->info.device->isa_version >= MASKED_ISA,
		.cut = e->cut,
		.cut_ud = e->cut_ud,
	};
}

/* NPU bindings and GPU buffers can begin at any row, so each row must be 64-byte aligned. */
static int session_check_rows(const struct llm_engine *e)
{
	const struct llm_model *m = &e->loaded.model;

	if (!(m->q_dim % 16 || m->kv_dim % 16 || m->n_ff % 16))
		return 0;
	return llm_fail(-ENOTSUP,
			"%s: rows of %u, %u and %u values: not all are multiples of 16; choose %s",
			e->path, m->q_dim, m->kv_dim, m->n_ff,
			m->n_expert ? "order fifo" : "placement npu");
}

static int session_create_lanes(struct llm_session *s)
{
	const struct llm_engine *e = s->engine;
	struct lane **lanes = s->runner.lanes;
	bool gpu = llm_placement_has_gpu(e->info.choices.placement);
	bool npu = e->loaded.ctx && e->info.choices.placement != LLM_PLACE_GPU;
	int err = gpu || s->runner.opts.rows > plan_chunk(&s->runner.opts, s->n_ctx)
			  ? session_check_rows(e)
			  : 0;

	if (!err)
		lanes[SOC_CPU] = lane_cpu_create(&s->memory);
	if (!err && s->runner.start.nr)
		lanes[SOC_STORAGE] = lane_storage_create(&s->memory);
	if (!err && gpu && !e->loaded.gpu)
		lanes[SOC_GPU] = lane_cpu_create(&s->memory);
	if (!err && (!lanes[SOC_CPU] || (s->runner.start.nr && !lanes[SOC_STORAGE]) ||
		     (gpu && !e->loaded.gpu && !lanes[SOC_GPU])))
		err = llm_fail(-ENOMEM, "no memory for a session");
	if (!err && gpu && e->loaded.gpu)
		err = lane_gpu_create(&s->memory, &lanes[SOC_GPU]);
	if (!err && npu)
		err = lane_npu_create(&s->memory, &lanes[SOC_NPU]);
	return err;
}

/* Rows of activations: enough for token trees too. */
static unsigned int session_rows(const struct llm_session *s)
{
	unsigned int tree = plan_tree_rows(s->n_ctx < LLM_MAX_TREE ? s->n_ctx : LLM_MAX_TREE);

	return s->runner.opts.rows > tree ? s->runner.opts.rows : tree;
}

static int session_make_blocks(struct llm_session *s)
{
	const struct llm_engine_info *info = &s->engine->info;

	if (info->choices.switching == LLM_SWITCHING_NONE)
		return 0;
	return blocks_init(&s->runner.blocks, &s->runner.opts, s->runner.lanes[SOC_NPU],
			   info->block_layers, info->decode_width);
}

/* Creates memory, lanes, and the graphs that every prompt and token needs: errors show early. A
 * cold start is in a hurry, and has graphs of its own. */
static int session_load(struct llm_session *s)
{
	const struct llm_engine *e = s->engine;
	unsigned int chunk = plan_chunk(&s->runner.opts, s->n_ctx), pad = 0;
	bool padded = plan_pads_chunks(&s->runner.opts);
	/* Graphs online are a prompt's; a token has a static one. */
	bool token = padded || e->info.choices.placement == LLM_PLACE_LINEAR;
	int err;

	if (padded)
		pad = e->info.choices.graphs == LLM_GRAPHS_BUCKETED ? LLM_BUCKET_ROWS : chunk;
	/* A tree's graph has less than half of its rows as padding. */
	if (padded && pad < LLM_MAX_TREE / 2)
		pad = LLM_MAX_TREE / 2;
	err = lane_memory_init(&s->memory, &e->loaded, session_rows(s), s->n_ctx, pad);
	s->stats.kv_bytes = s->memory.kv.bytes;
	if (!err)
		err = session_create_lanes(s);
	if (err || s->runner.start.nr)
		return err;
	err = session_make_blocks(s);
	if (!err && token && !s->runner.blocks.nr)
		err = pass_prepare(&s->runner, 1, false);
	if (!err && padded && chunk > 1 && s->n_ctx > 1)
		err = pass_prepare(&s->runner, s->n_ctx < chunk ? s->n_ctx : chunk, false);
	return err;
}

int llm_session_create(struct llm_engine *engine, unsigned int n_ctx, struct llm_session **session)
{
	unsigned int n_ctx_train = engine->info.n_ctx_train, chunk = engine->info.chunk;
	uint64_t from_ns = engine_now_ns();
	struct llm_session *s;
	int err;

	*session = NULL;
	if (!n_ctx)
		n_ctx = n_ctx_train && n_ctx_train < DEFAULT_MAX_CTX ? n_ctx_train
								     : DEFAULT_MAX_CTX;
	if (n_ctx > VNPU_MAX_DIM - chunk)
		return llm_fail(
			-EINVAL,
			"a context of %u tokens, a KV cache of %llu bytes; at most %u tokens are "
			"possible",
			n_ctx,
			(unsigned long long)llm_shape_kv_bytes(&engine->shape, n_ctx,
							       engine->info.choices.kv),
			VNPU_MAX_DIM - chunk);
	s = calloc(1, sizeof(*s));
	if (!s)
		return llm_fail(-ENOMEM, "no memory for a session");
	s->engine = engine;
	atomic_fetch_add(&engine->refs, 1);
	s->n_ctx = n_ctx;
	s->runner = (struct pass_runner){
		.opts = session_plan(engine),
		.memory = &s->memory,
		.jitter = engine->jitter,
		.seed = engine->seed,
	};
	if (engine->info.choices.start == LLM_START_COLD)
		s->runner.start =
			(struct plan_start){ .pieces = engine->pieces, .nr = engine->nr_pieces };
	s->runner.opts.rows = plan_rows(&s->runner.opts, n_ctx);
	s->stats.kv_bytes = llm_shape_kv_bytes(&engine->shape, n_ctx, engine->info.choices.kv);
	err = engine->dry_run ? session_make_blocks(s) : session_load(s);
	if (err) {
		llm_session_free(s);
		return err;
	}
	s->create_ns = engine_now_ns() - from_ns;
	*session = s;
	return 0;
}

void llm_session_free(struct llm_session *s)
{
	if (!s)
		return;
	pass_runner_fini(&s->runner);
	lane_memory_fini(&s->memory);
	llm_engine_put(s->engine);
	free(s);
}

unsigned int llm_session_n_ctx(const struct llm_session *session)
{
	return session->n_ctx;
}

unsigned int llm_session_n_past(const struct llm_session *session)
{
	return session->n_past;
}

int llm_session_truncate(struct llm_session *session, unsigned int n_past)
{
	if (n_past > session->n_past)
		return llm_fail(-EINVAL, "cannot truncate a session of %u tokens to %u",
				session->n_past, n_past);
	/* They are those of a token that is forgotten. */
	if (n_past < session->n_past)
		session->has_logits = false;
	session->n_past = n_past;
	session->tree.n = 0;
	return n_past ? 0 : blocks_reset(&session->runner.blocks);
}

/* ---- the breakdown of evaluations ---- */

static bool session_is_broken_down(const struct llm_session *s)
{
	return s->runner.lanes[SOC_NPU] && s->runner.lanes[SOC_NPU]->timed;
}

/* Adds a pass of @n tokens that took @ns, and takes what its jobs took from the lane. */
static void session_break_down(struct llm_session *s, size_t n, uint64_t ns)
{
	struct llm_breakdown *b = &s->breakdowns[s->last_was_token];
	struct lane *npu = s->runner.lanes[SOC_NPU];
	uint64_t jobs_ns = 0;

	for (unsigned int i = 0; i < BREAKDOWN_ITEMS; i++) {
		b->item_ns[i] += npu->item_ns[i];
		jobs_ns += npu->item_ns[i];
	}
	memset(npu->item_ns, 0, sizeof(npu->item_ns));
	b->item_ns[BREAKDOWN_RUNTIME] += ns - jobs_ns;
	b->tokens += n;
	b->ns += ns;
}

void session_count_sampling(struct llm_session *s, uint64_t ns)
{
	struct llm_breakdown *b = &s->breakdowns[s->last_was_token];

	if (!session_is_broken_down(s))
		return;
	b->item_ns[BREAKDOWN_SAMPLING] += ns;
	b->ns += ns;
}

int llm_session_measure(struct llm_session *session, bool on)
{
	const struct llm_engine *e = session->engine;
	struct lane *npu = session->runner.lanes[SOC_NPU];

	if (on && (!npu || e->soc || e->info.choices.placement != LLM_PLACE_NPU))
		return llm_fail(-ENOTSUP,
				"the time of evaluations can only be broken down with placement "
				"npu on the wall clock; choose these");
	if (on && e->info.device->isa_version < MEASURED_ISA)
		return llm_fail(-ENOTSUP,
				"the device has an ISA older than 1.6, which does not say what its "
				"workers do; install a newer vnpu-fw");
	if (npu)
		npu->timed = on;
	return 0;
}

void llm_session_breakdown(const struct llm_session *session, bool tokens,
			   struct llm_breakdown *breakdown)
{
	*breakdown = session->breakdowns[tokens];
}

/* ---- evaluation ---- */

int session_check(const struct llm_session *s, const int32_t *ids, size_t n)
{
	unsigned int n_vocab = s->engine->info.n_vocab;

	if (!n)
		return llm_fail(-EINVAL, "no tokens to evaluate");
	if (n > s->n_ctx - s->n_past)
		return llm_fail(-ENOSPC, "%zu tokens after %u do not fit a context of %u", n,
				s->n_past, s->n_ctx);
	for (size_t i = 0; i < n && !s->engine->dry_run; i++) {
		if (ids[i] < 0 || (unsigned int)ids[i] >= n_vocab)
			return llm_fail(-EINVAL, "token %zu is %d, not one of the vocabulary's %u",
					i, ids[i], n_vocab);
	}
	return 0;
}

uint64_t llm_session_now_ns(const struct llm_session *s)
{
	return pass_now_ns(&s->runner);
}

static void session_count(struct llm_session *s, const struct pass *pass, uint64_t ns)
{
	s->last_was_token = pass->n == 1 || pass->tree;
	if (pass->tree) {
		s->stats.tree.trees++;
		s->stats.tree.nodes += pass->n;
		s->stats.tree.rows += plan_tree_rows(pass->n);
		s->stats.tree.ns += ns;
	} else if (pass->n == 1) {
		s->stats.decode_tokens++;
		s->stats.decode_ns += ns;
	} else {
		s->stats.prefill_tokens += pass->n;
		s->stats.prefill_ns += ns;
	}
	if (session_is_broken_down(s))
		session_break_down(s, pass->n, ns);
}

int session_pass(struct llm_session *s, struct pass *pass)
{
	uint64_t start = llm_session_now_ns(s);
	int err = session_check(s, pass->ids, pass->n);

	if (err)
		return err;
	pass->pos = s->n_past;
	s->has_logits = false;
	s->tree.n = 0;
	llm_engine_busy(s->engine);
	lane_memory_want_rows(&s->memory, s->n_past + pass->n);
	err = pass_run(&s->runner, pass);
	llm_engine_idle(s->engine);
	if (!err)
		session_count(s, pass, llm_session_now_ns(s) - start);
	return err;
}

int session_run(struct llm_session *s, struct pass *pass)
{
	int err = session_pass(s, pass);

	if (err)
		return err;
	s->n_past += pass->n;
	s->has_logits = !s->engine->dry_run;
	return 0;
}

/* No pass has more tokens than a context. */
static unsigned int clamp(size_t n)
{
	return n < VNPU_MAX_DIM ? (unsigned int)n : VNPU_MAX_DIM;
}

int llm_session_eval(struct llm_session *session, const int32_t *ids, size_t n)
{
	struct pass pass = { .ids = ids, .n = clamp(n) };

	return session_run(session, &pass);
}

int llm_session_eval_all(struct llm_session *session, const int32_t *ids, size_t n,
			 void (*fn)(void *ud, size_t i, const float *logits), void *ud)
{
	struct pass pass = { .ids = ids, .n = clamp(n), .all = true, .logits = fn, .ud = ud };
	int err = session->engine->dry_run ? 0 : lane_memory_want_all(&session->memory);

	return err ? err : session_run(session, &pass);
}

struct rows {
	float *logits;
	size_t n_vocab;
};

static void copy_row(void *ud, size_t i, const float *logits)
{
	const struct rows *rows = ud;

	memcpy(rows->logits + i * rows->n_vocab, logits, rows->n_vocab * sizeof(float));
}

int llm_verify(struct llm_session *session, const int32_t *ids, size_t n, float *logits)
{
	struct rows rows = { .logits = logits, .n_vocab = session->engine->info.n_vocab };

	return llm_session_eval_all(session, ids, n, copy_row, &rows);
}

const float *llm_session_logits(const struct llm_session *session)
{
	return session->has_logits ? session->memory.logits.data : NULL;
}

/* ---- listeners and statistics ---- */

static struct llm_span *make_spans(const struct start_piece *pieces, const struct plan *plan,
				   const struct sched_run *run)
{
	struct llm_span *spans = calloc(run->nr_spans + 1, sizeof(*spans));

	for (uint32_t i = 0; spans && i < run->nr_spans; i++) {
		const struct sched_task *t = sched_get(plan->tasks, i);
		bool loads = t->op == LLM_OP_READ || t->op == LLM_OP_PACK;
		const struct start_piece *piece = loads ? &pieces[plan->works[i].piece] : NULL;
		const struct sched_span *r = &run->spans[i];

		spans[i] = (struct llm_span){
			.op = sched_op_name(plan->tasks, t),
			.chunk = t->chunk,
			.layer = t->layer,
			.slice = t->slice,
			.lane = r->lane,
			.home = t->home,
			.ready_ns = r->ready_ns,
			.start_ns = r->start_ns,
			.end_ns = r->end_ns,
			.overhead_ns = r->overhead_ns,
			.file_bytes = piece ? piece->bytes : 0,
			.packed_bytes = piece ? piece->packed : 0,
		};
		spans[i].after = sched_predecessors(plan->tasks, i, &spans[i].nr_after);
	}
	return spans;
}

static void tell(void *ud, uint64_t at_ns, const struct plan *plan, const struct sched_run *run)
{
	const struct llm_session *s = ud;
	struct llm_span *spans = make_spans(s->engine->pieces, plan, run);

	s->listener.fn(s->listener.ud, at_ns, spans, spans ? run->nr_spans : 0);
	free(spans);
}

void llm_session_listen(struct llm_session *session, llm_pass_fn fn, void *ud)
{
	session->listener.fn = fn;
	session->listener.ud = ud;
	session->runner.listener = fn ? tell : NULL;
	session->runner.listener_ud = session;
}

void llm_session_observe(struct llm_session *session, llm_observe_fn fn, void *ud)
{
	session->runner.observer = fn;
	session->runner.observer_ud = ud;
}

static struct llm_shadow_stats session_shadow_stats(const struct llm_session *session)
{
	const struct shadow_weights_stats w =
		shadow_weights_stats(session->engine->loaded.shadow_weights);
	const struct lane_shadow_sums sums = lane_shadow_sums(&session->memory);

	return (struct llm_shadow_stats){
		.hot_bytes = w.hot_bytes,
		.all_bytes = w.all_bytes,
		.reads = w.reads,
		.read_bytes = w.read_bytes,
		.merges = sums.merges,
		.outliers = sums.outliers,
		.ns = sums.ns,
	};
}

static struct llm_switching_stats session_switching_stats(const struct llm_session *session)
{
	const struct blocks *b = &session->runner.blocks;

	return (struct llm_switching_stats){
		.loads = b->loads,
		.load_ns = b->load_ns,
		.wait_ns = b->wait_ns,
		.graph_bytes = b->prefill_bytes,
		.graph_peak_bytes = b->peak_bytes,
	};
}

void llm_session_stats(const struct llm_session *session, struct llm_session_stats *stats)
{
	const struct pass_runner *r = &session->runner;
	const struct lane *npu = r->lanes[SOC_NPU];
	struct llm_virtual_stats *v = &stats->virtual_clock;

	*stats = session->stats;
	stats->chunk = r->chunk;
	stats->at.layer_ns = r->at.layer_ns;
	stats->at.head_ns = r->at.head_ns;
	stats->at.reduce_ns = r->at.reduce_ns;
	stats->tree.bytes = lane_memory_tree_bytes(&session->memory);
	if (session->engine->loaded.shadow_weights)
		stats->shadow = session_shadow_stats(session);
	if (session->memory.attention)
		stats->attention = lane_attention_stats(&session->memory);
	if (session->engine->loaded.start)
		stats->start = start_stats(session->engine->loaded.start);
	stats->switching = session_switching_stats(session);
	stats->npu_jobs = npu ? npu->jobs : 0;
	stats->npu_wait_ns = npu ? npu->waited_ns : 0;
	stats->decisions = r->sums.picks;
	stats->decision_ns = r->sums.pick_ns;
	for (unsigned int lane = 0; lane < SOC_NR_LANES; lane++)
		stats->lanes[lane].busy_ns = r->sums.busy_ns[lane];
	if (!r->opts.soc)
		return;
	v->ns = r->sums.ns;
	memcpy(v->lanes, stats->lanes, sizeof(v->lanes));
	v->launches = r->sums.launches;
	v->handovers = r->sums.handovers;
	v->dram_bytes = r->sums.dram_bytes;
	v->energy_j = r->sums.energy_j;
}

/* Its memory: all of the weights, as the pieces have them. */
static void session_cold_memory(const struct llm_session *s, struct llm_cold_stats *stats)
{
	const struct llm_engine *e = s->engine;

	for (uint32_t i = 0; i < e->nr_pieces; i++)
		stats->weights.peak += e->pieces[i].packed;
	stats->weights.bound = e->dry_run ? stats->weights.peak : e->info.weight_bytes;
	stats->kv.peak = e->info.kv_token_bytes * s->runner.cold.tokens;
	stats->kv.bound = s->stats.kv_bytes;
	stats->activations.peak = lane_memory_bytes(&s->memory, &e->shape, s->runner.cold.rows);
	stats->activations.bound = lane_memory_bytes(&s->memory, &e->shape, session_rows(s));
}

/* What only the wall clock knows. */
static void session_cold_host(const struct llm_session *s, struct llm_cold_stats *stats)
{
	const struct llm_engine *e = s->engine;
	const struct llm_start_stats start = start_stats(e->loaded.start);

	stats->file_ns = e->file_ns;
	stats->tokenizer_ns = e->tokenizer_ns;
	stats->device_ns = e->device_ns;
	stats->load_ns = e->open_ns - e->file_ns - e->tokenizer_ns - e->device_ns;
	stats->session_ns = s->create_ns;
	stats->read_bytes = start.read_bytes;
	stats->cached_bytes = start.cached_bytes;
	stats->ring = (struct llm_cold_memory){ start.ring_peak_bytes, start.ring_bytes };
}

bool llm_session_cold(const struct llm_session *session, struct llm_cold_stats *stats)
{
	*stats = session->runner.cold.stats;
	if (!stats->ns)
		return false;
	session_cold_memory(session, stats);
	if (!session->runner.opts.soc)
		session_cold_host(session, stats);
	return true;
}

bool llm_session_waits(const struct llm_session *session, bool tokens, struct llm_wait_stats *stats)
{
	static const double percents[] = { 10, 50, 90, 99 };
	const struct waits *w = &session->runner.waits[tokens];

	memset(stats, 0, sizeof(*stats));
	if (!llm_placement_has_gpu(session->engine->info.choices.placement))
		return false;
	stats->waits = w->nr_samples;
	stats->overslept = w->nr_overslept;
	stats->given_up = w->nr_given_up;
	stats->slept_s = (double)w->slept_ns / 1e9;
	stats->polled_s = (double)w->polled_ns / 1e9;
	for (int i = 0; i < 4; i++) {
		stats->predicted_us[i] = waits_percentile(w, WAITS_PREDICTED, percents[i]) / 1e3;
		stats->took_us[i] = waits_percentile(w, WAITS_TOOK, percents[i]) / 1e3;
		stats->late_us[i] = waits_percentile(w, WAITS_LATE, percents[i]) / 1e3;
	}
	return true;
}
