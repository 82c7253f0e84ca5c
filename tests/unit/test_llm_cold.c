// SPDX-License-Identifier: MIT
/*
 * Reports of cold starts: a run of known times has the lanes, bound and ring that follow by hand;
 * times of lanes add up on the wall clock; on the virtual clock a dry run has the same to the
 * nanosecond; who loads no weights has none. TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cold.h"
#include "llm.h"
#include "llm_open.h"
#include "tiny_random.h"

#define MAX_TOKENS 300

/* ---- by hand ---- */

static const struct hand {
	enum soc_lane lane;
	uint16_t op;
	uint32_t layer, piece, after[3]; /* task + 1 */
	uint64_t start_ns, end_ns, graph_ns;
} hand[] = {
	{ SOC_STORAGE, LLM_OP_READ, 0, 0, { 0 }, 0, 10, 0 },
	{ SOC_CPU, LLM_OP_PACK, 0, 0, { 1 }, 10, 15, 0 },
	{ SOC_CPU, LLM_OP_EMBED, 0, 0, { 0 }, 0, 2, 0 },
	{ SOC_CPU, LLM_OP_ATTN_NORM, 0, 0, { 0 }, 2, 5, 0 },
	{ SOC_NPU, LLM_OP_QKV, 0, 0, { 2, 3, 4 }, 15, 25, 0 },
	{ SOC_STORAGE, LLM_OP_READ, 1, 1, { 1 }, 10, 15, 0 },
	{ SOC_STORAGE, LLM_OP_READ, 1, 2, { 2, 6 }, 15, 22, 0 },
	{ SOC_CPU, LLM_OP_PACK, 1, 1, { 6 }, 15, 23, 0 },
	{ SOC_CPU, LLM_OP_PACK, 1, 2, { 7 }, 23, 30, 0 },
	{ SOC_NPU, LLM_OP_QKV, 1, 0, { 5, 9 }, 30, 45, 4 },
	{ SOC_CPU, LLM_OP_HEAD, 2, 0, { 10 }, 46, 50, 0 },
};
#define NR_HAND (sizeof(hand) / sizeof(hand[0]))

/* Runs the tasks, which do nothing, and gives them their times. */
static struct sched_run run_by_hand(struct sched_tasks *tasks, struct lane_work *works)
{
	struct sched_options so = { .clock = SCHED_WALL };
	struct sched_run run;

	for (uint32_t i = 0; i < NR_HAND; i++) {
		const struct hand *h = &hand[i];

		works[i] = (struct lane_work){ .op = h->op, .layer = h->layer, .piece = h->piece };
		assert_int_equal(sched_add(tasks, &(struct sched_task){ .home = (uint8_t)h->lane,
									.op = h->op,
									.layer = h->layer }),
				 i);
		for (int k = 0; k < 3; k++)
			if (h->after[k])
				assert_int_equal(sched_after(tasks, i, h->after[k] - 1), 0);
	}
	assert_int_equal(sched_run(tasks, &so, &run), 0);
	for (uint32_t i = 0; i < NR_HAND; i++) {
		run.spans[i].lane = (uint8_t)hand[i].lane;
		run.spans[i].start_ns = hand[i].start_ns;
		run.spans[i].end_ns = hand[i].end_ns;
	}
	run.makespan_ns = 50;
	return run;
}

static void check_lane(const struct llm_cold_lane *lane, uint64_t read, uint64_t pack,
		       uint64_t graph, uint64_t compute, uint64_t bubble)
{
	assert_int_equal(lane->read_ns, read);
	assert_int_equal(lane->pack_ns, pack);
	assert_int_equal(lane->graph_ns, graph);
	assert_int_equal(lane->compute_ns, compute);
	assert_int_equal(lane->bubble_ns, bubble);
}

static void a_run_of_known_times_has_known_figures(void **state)
{
	static const struct start_piece pieces[] = { { .layer = 0, .bytes = 100 },
						     { .layer = 1, .bytes = 60 },
						     { .layer = 1, .bytes = 60 } };
	const struct plan_start start = { .pieces = pieces, .nr = 3 };
	struct lane_work works[NR_HAND];
	struct plan plan = { .tasks = sched_tasks_create(NULL), .works = works };
	struct sched_run run = run_by_hand(plan.tasks, works);
	uint64_t graph_ns[NR_HAND];
	const struct cold_pass pass = {
		.plan = &plan, .start = &start, .layers = 2, .run = &run, .graph_ns = graph_ns
	};
	struct llm_cold_stats c;

	for (uint32_t i = 0; i < NR_HAND; i++)
		graph_ns[i] = hand[i].graph_ns;
	assert_int_equal(cold_measure(&pass, &c), 0);
	assert_int_equal(c.ns, 50);
	check_lane(&c.lanes[SOC_NPU], 0, 0, 4, 21, 25);
	check_lane(&c.lanes[SOC_GPU], 0, 0, 0, 0, 0);
	check_lane(&c.lanes[SOC_CPU], 0, 20, 0, 9, 21);
	check_lane(&c.lanes[SOC_STORAGE], 22, 0, 0, 0, 28);
	assert_int_equal(c.read_ns, 22);
	assert_int_equal(c.pack_ns, 20);
	/* 2 and 3 on one lane, 10 and 11 of the matmuls, 4 of the logits */
	assert_int_equal(c.compute_ns, 30);
	assert_int_equal(c.first_read_ns, 10);
	assert_int_equal(c.last_compute_ns, 15);
	assert_int_equal(c.bound_ns, 30 + 10 + 15);
	assert_int_equal(c.read_bytes, 220);
	/* The second is read from 10 on; at 15 the third takes the first one's buffer. */
	assert_int_equal(c.ring.peak, 160);
	assert_int_equal(c.ring.bound, START_RING * 100);
	sched_run_free(&run);
	sched_tasks_free(plan.tasks);
}

/* ---- sessions ---- */

static struct tiny_config config(const char *arch)
{
	return tiny_any(arch, MAX_TOKENS, any(2, 4), 64, any(2, 6));
}

static struct llm_choices any_way(void)
{
	static const enum llm_placement places[] = { LLM_PLACE_NPU, LLM_PLACE_FINE,
						     LLM_PLACE_LINEAR };
	static const enum llm_weights weights[] = { LLM_WEIGHTS_W8A8, LLM_WEIGHTS_W4A8,
						    LLM_WEIGHTS_W4A16 };
	static const enum llm_order orders[] = { LLM_ORDER_AUTO, LLM_ORDER_LAYER, LLM_ORDER_CHUNK };

	return (struct llm_choices){
		.placement = places[any(0, 2)],
		.weights = weights[any(0, 2)],
		.order = orders[any(0, 2)],
		.sync = any(0, 1) ? LLM_SYNC_DRIVER : LLM_SYNC_FAST,
		.start = LLM_START_COLD,
	};
}

static struct llm_options options(const char *path)
{
	return (struct llm_options){
		.model = path,
		.choices = any_way(),
		.chunk = any(0, 1) ? any(8, 64) : 0,
		.threads = any(1, 3),
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = any(1, 3) },
	};
}

static void eval(struct llm_session *s, unsigned int n)
{
	int32_t ids[MAX_TOKENS] = { 0 };

	if (llm_session_eval(s, ids, n))
		fail_msg("%s", llm_error());
}

static bool is_zero(const struct llm_cold_stats *c)
{
	static const struct llm_cold_stats zero;

	return !memcmp(c, &zero, sizeof(zero));
}

static uint64_t busy_ns(const struct llm_cold_lane *l)
{
	return l->read_ns + l->pack_ns + l->graph_ns + l->compute_ns;
}

static void check_lanes(const struct llm_cold_stats *c)
{
	for (unsigned int lane = 0; lane < LLM_MAX_LANES; lane++) {
		const struct llm_cold_lane *l = &c->lanes[lane];

		assert_int_equal(busy_ns(l) + l->bubble_ns, busy_ns(l) ? c->ns : l->bubble_ns);
		assert_true(!l->read_ns || lane == SOC_STORAGE);
		assert_true(!l->pack_ns || lane == SOC_CPU);
		assert_true(l->bubble_ns <= c->ns);
	}
	assert_true(c->lanes[SOC_STORAGE].read_ns > 0 && c->lanes[SOC_NPU].compute_ns > 0);
	assert_int_equal(busy_ns(&c->lanes[SOC_GPU]) + c->lanes[SOC_GPU].bubble_ns, 0);
}

static void check_bound(const struct llm_cold_stats *c)
{
	uint64_t most = c->read_ns > c->pack_ns ? c->read_ns : c->pack_ns;

	most = c->compute_ns > most ? c->compute_ns : most;
	assert_int_equal(c->bound_ns, most + c->first_read_ns + c->last_compute_ns);
	assert_in_range(c->first_read_ns, 0, c->read_ns);
	assert_in_range(c->last_compute_ns, 1, c->compute_ns);
	/* Nothing takes longer again than it did. */
	assert_in_range(most, 1, c->ns);
}

static void check_memory(const struct llm_cold_stats *c, const struct llm_engine_info *info,
			 unsigned int tokens)
{
	assert_in_range(c->weights.peak, 1, c->weights.bound);
	assert_in_range(c->kv.peak, 1, c->kv.bound);
	assert_in_range(c->activations.peak, 1, c->activations.bound);
	assert_in_range(c->ring.peak, 0, c->ring.bound);
	assert_int_equal(c->kv.peak, tokens * info->kv_token_bytes);
}

static void times_add_up_on_the_wall_clock(void **state)
{
	for (int i = 0; i < 24; i++) {
		const struct tiny_config config_of = config(tiny_any_arch(false));
		unsigned int n = any(0, 3) ? any(2, 200) : 1;
		struct llm_session_stats stats;
		struct llm_cold_stats c;
		struct llm_engine *engine;
		struct llm_options o;
		struct llm_session *s;
		struct tiny_model t;

		tiny_create(&t, &config_of, random_u64(&seed_state));
		tiny_write(&t);
		o = options(t.path);
		engine = open_engine(&o);
		s = new_session(engine, MAX_TOKENS);
		assert_false(llm_session_cold(s, &c));
		assert_true(is_zero(&c));
		eval(s, n);
		assert_true(llm_session_cold(s, &c));
		check_lanes(&c);
		check_bound(&c);
		check_memory(&c, llm_engine_info(engine), n);
		llm_session_stats(s, &stats);
		assert_true(c.plan_ns + c.ns <= stats.prefill_ns + stats.decode_ns);
		assert_true(c.file_ns && c.tokenizer_ns && c.device_ns && c.session_ns);
		assert_true(c.lanes[SOC_NPU].graph_ns > 0);
		assert_true(c.energy_j == 0);
		assert_int_equal(c.weights.peak, llm_engine_info(engine)->weight_bytes);
		assert_int_equal(c.read_bytes, stats.start.read_bytes);
		assert_int_equal(c.cached_bytes, stats.start.cached_bytes);
		llm_session_free(s);
		llm_engine_close(engine);
		tiny_free(&t);
	}
}

/* The start of a first prompt. */
static struct llm_cold_stats start_of(const struct llm_options *o, unsigned int n)
{
	struct llm_engine *engine = open_engine(o);
	struct llm_session *s = new_session(engine, MAX_TOKENS);
	struct llm_session_stats stats;
	struct llm_cold_stats c;

	eval(s, n);
	assert_true(llm_session_cold(s, &c));
	llm_session_stats(s, &stats);
	assert_int_equal(c.ns, stats.virtual_clock.ns);
	assert_true(c.energy_j == stats.virtual_clock.energy_j && c.energy_j > 0);
	check_lanes(&c);
	check_bound(&c);
	assert_int_equal(
		c.file_ns + c.tokenizer_ns + c.device_ns + c.load_ns + c.session_ns + c.plan_ns, 0);
	llm_session_free(s);
	llm_engine_close(engine);
	/* The host's: scratch memory, scales in the panels, floats of 32 bits. */
	c.weights = c.kv = c.activations = (struct llm_cold_memory){ 0 };
	return c;
}

static void a_dry_run_has_the_same_times(void **state)
{
	for (int i = 0; i < 24; i++) {
		const struct tiny_config config_of = config(tiny_any_arch(false));
		unsigned int n = any(0, 3) ? any(2, 200) : 1;
		struct llm_cold_stats real, dry;
		struct llm_options o;
		struct tiny_model t;

		tiny_create(&t, &config_of, random_u64(&seed_state));
		tiny_write(&t);
		o = options(t.path);
		o.profile = any(0, 1) ? "sd8elite" : "sd8gen3";
		o.jitter = 0.1f;
		o.seed = random_u64(&seed_state);
		real = start_of(&o, n);
		o.dry_run = true;
		dry = start_of(&o, n);
		assert_memory_equal(&real, &dry, sizeof(real));
		tiny_free(&t);
	}
}

static void who_loads_no_weights_has_no_report(void **state)
{
	const struct tiny_config config_of = config("llama");
	struct llm_cold_stats first, later;
	struct llm_session *s, *other;
	struct llm_engine *engine;
	struct llm_options o;
	struct tiny_model t;

	tiny_create(&t, &config_of, random_u64(&seed_state));
	tiny_write(&t);
	o = options(t.path);
	engine = open_engine(&o);
	s = new_session(engine, MAX_TOKENS);
	other = new_session(engine, MAX_TOKENS);
	eval(s, 20);
	eval(other, 20);
	assert_false(llm_session_cold(other, &later));
	assert_true(is_zero(&later));
	assert_true(llm_session_cold(s, &first));
	eval(s, 30);
	assert_true(llm_session_cold(s, &later));
	assert_memory_equal(&first, &later, sizeof(first));
	llm_session_free(s);
	llm_session_free(other);
	llm_engine_close(engine);

	o.choices.start = LLM_START_WARM;
	engine = open_engine(&o);
	s = new_session(engine, MAX_TOKENS);
	eval(s, 20);
	assert_false(llm_session_cold(s, &later));
	assert_true(is_zero(&later));
	llm_session_free(s);
	llm_engine_close(engine);
	tiny_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_of_known_times_has_known_figures),
		cmocka_unit_test(times_add_up_on_the_wall_clock),
		cmocka_unit_test(a_dry_run_has_the_same_times),
		cmocka_unit_test(who_loads_no_weights_has_no_report),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
