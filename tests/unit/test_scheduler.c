// SPDX-License-Identifier: MIT
/*
 * The scheduler. Properties that every run has, of random plans under either clock: each
 * lane does one thing at a time, nothing begins before what it waits for, all tasks run
 * once; and of simulated runs that they can be repeated and are no faster than the plan, the
 * lanes and the memory allow. Beside another client of a lane, such as a game
 * (tools/experiments/game), they hold too.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "game.h"
#include "scheduler.h"
#include "scheduler_plans.h"

static struct soc *soc;

static int setup(void **state)
{
	const char *seed = getenv("TEST_SEED");
	unsigned int s = seed ? (unsigned int)strtoul(seed, NULL, 0) : (unsigned int)time(NULL);
	char why[512];

	soc = soc_load("sd8gen3", why, sizeof(why));
	if (!soc)
		puts(why);
	printf("TEST_SEED=%u\n", s);
	srand(s);
	return !soc;
}

static int teardown(void **state)
{
	soc_free(soc);
	return 0;
}

static struct sched_options virtual_options(void)
{
	return (struct sched_options){
		.clock = SCHED_VIRTUAL,
		.soc = soc,
		.sync = any(0, 1) ? SOC_SYNC_FAST : SOC_SYNC_DRIVER,
		.policy = any_policy(),
		.seed = any(0, 1u << 30),
		.jitter = any(0, 1) ? 0.3 : 0,
	};
}

/* A game as a client of the GPU's lane. */
struct played {
	struct game game;
	struct sched_client client;
};

static void begin_game(struct played *p, double period_ns, double work_ns, uint32_t kernels)
{
	*p = (struct played){
		.game = { .period_ns = period_ns, .work_ns = work_ns, .kernels = kernels },
		.client = { .ops = &game_client_ops, .ud = &p->game, .lane = SOC_GPU },
	};
}

static void begin_any_game(struct played *p)
{
	begin_game(p, any(100, 20000) * 1e3, any(1, 15000) * 1e3, any(1, 20));
}

/* Every frame that was due is shown or dropped, but for one that may be on its way. */
static void check_game(const struct game *game)
{
	uint64_t due = (uint64_t)(game->now_ns / game->period_ns);

	assert_true(game->shown + game->dropped <= due + 1);
	assert_true(game->shown + game->dropped + 1 >= due);
}

static void test_random_plans_on_the_virtual_clock(void **state)
{
	struct played beside;

	begin_any_game(&beside);
	for (int i = 0; i < 60; i++) {
		struct sched_tasks *plan = random_plan();
		struct sched_options opts = virtual_options();
		struct sched_run run;

		opts.execute = true;
		/* Of some, which go on where the one before has left it. */
		if (i >= 20)
			opts.client = &beside.client;
		if (i == 40)
			begin_any_game(&beside);
		assert_int_equal(sched_run(plan, &opts, &run), 0);
		check_lanes(&run);
		check_order(plan, &run);
		check_work(plan);
		game_until(&beside.game, beside.client.now_ns);
		check_game(&beside.game);
		assert_true(run.peak_gbps <= soc->memory.dram_shared_gbps * (1 + 1e-9));
		assert_true(run.energy_j > 0);
		sched_run_free(&run);
		sched_tasks_free(plan);
	}
}

/* Kernels of @ns on the GPU, one after the other, enqueued together if @together. */
static struct sched_tasks *kernels(uint32_t n, double ns, bool together)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_task t = { .home = SOC_GPU, .graph = together, .cost[SOC_GPU] = { ns, 0 } };

	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(sched_after(plan, sched_add(plan, &t), i ? i - 1 : SCHED_NONE), 0);
	return plan;
}

static uint64_t run_beside(struct sched_tasks *plan, struct played *p)
{
	struct sched_options opts = {
		.clock = SCHED_VIRTUAL,
		.soc = soc,
		.sync = SOC_SYNC_FAST,
		.client = p ? &p->client : NULL,
	};
	struct sched_run run;
	uint64_t ns;

	assert_int_equal(sched_run(plan, &opts, &run), 0);
	ns = run.makespan_ns;
	sched_run_free(&run);
	if (p)
		game_until(&p->game, p->client.now_ns);
	return ns;
}

static void test_a_game_alone_drops_no_frame(void **state)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_task t = { .home = SOC_CPU, .cost[SOC_CPU] = { 1e9, 0 } };

	sched_add(plan, &t);
	for (uint32_t n = 1; n < 30; n += 7) {
		/* As much as the GPU has time for, and then more. */
		struct played fits, late;

		begin_game(&fits, 1e7, 1e7, n);
		begin_game(&late, 1e7, 1.001e7, n);
		run_beside(plan, &fits);
		run_beside(plan, &fits);
		assert_int_equal(fits.game.dropped, 0);
		assert_true(fits.game.shown >= 199);
		run_beside(plan, &late);
		assert_int_equal(late.game.shown, 0);
		assert_true(late.game.dropped >= 95);
	}
	sched_tasks_free(plan);
}

/* The driver serves the two queues in turn: what stands in one together is served together. */
static void test_frames_wait_for_what_is_enqueued_ahead(void **state)
{
	struct played one_by_one, ahead;
	struct sched_tasks *plan = kernels(400, 1e6, false);
	uint64_t alone = run_beside(plan, NULL), beside;

	begin_game(&one_by_one, 1e7, 2e6, 4);
	begin_game(&ahead, 1e7, 2e6, 4);
	beside = run_beside(plan, &one_by_one);
	/* 400 ms of kernels and as much of the game's as is due meanwhile. */
	assert_int_equal(one_by_one.game.dropped, 0);
	assert_true(one_by_one.game.shown >= 49);
	assert_true(fabs((double)(beside - alone) / 2e6 - (double)one_by_one.game.shown) < 2);
	sched_tasks_free(plan);

	plan = kernels(400, 1e6, true);
	/* The first frame is due with them, and has its turn. */
	beside = run_beside(plan, &ahead);
	assert_true(ahead.game.shown <= 1 && ahead.game.dropped >= 38);
	assert_true(beside - alone < 3e6);
	/* Between two runs it gets another. */
	run_beside(plan, &ahead);
	assert_true(ahead.game.shown <= 2 && ahead.game.dropped >= 77);
	sched_tasks_free(plan);
}

static void test_what_is_no_gpus_work_runs_beside_a_game(void **state)
{
	struct played beside;
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_task t = { .home = SOC_NPU, .cost[SOC_NPU] = { 1e7, 1e6 } };
	uint64_t alone;

	begin_game(&beside, 1e6, 1e6, 1);
	sched_add(plan, &t);
	alone = run_beside(plan, NULL);
	assert_int_equal(run_beside(plan, &beside), alone);
	sched_tasks_free(plan);
}

/* ---- another client of any lane ---- */

#define MAX_PIECES 4000

/* A client that wants a piece of work done now and then, and what became of each. */
struct customer {
	double wants_ns; /* when the next piece can begin */
	bool served;
	struct piece {
		double wanted_ns, begin_ns, end_ns;
	} pieces[MAX_PIECES];
	uint32_t n;
};

static bool customer_waits(void *ud, double now_ns)
{
	const struct customer *c = ud;

	assert_false(c->served);
	return c->n < MAX_PIECES && c->wants_ns <= now_ns + SCHED_SAME_NS;
}

static double customer_begin(void *ud, double now_ns)
{
	struct customer *c = ud;
	struct piece *p = &c->pieces[c->n];

	assert_true(customer_waits(c, now_ns));
	*p = (struct piece){ c->wants_ns, now_ns, now_ns + any(1, 4000) * 1e3 };
	c->served = true;
	return p->end_ns;
}

static void customer_end(void *ud, double now_ns)
{
	struct customer *c = ud;

	assert_true(c->served && now_ns == c->pieces[c->n++].end_ns);
	c->served = false;
	c->wants_ns = now_ns + (any(0, 2) ? any(0, 9000) * 1e3 : 0);
}

static double customer_next(void *ud, double now_ns)
{
	const struct customer *c = ud;

	assert_false(c->served);
	return c->n < MAX_PIECES && c->wants_ns > now_ns + SCHED_SAME_NS ? c->wants_ns : INFINITY;
}

static const struct sched_client_ops customer_ops = {
	customer_waits,
	customer_begin,
	customer_end,
	customer_next,
};

/* None of the pieces is done while a task of that lane is. The run began at @from_ns
 * of the client's time. */
static void check_pieces(const struct customer *c, const struct sched_run *run, enum soc_lane lane,
			 double from_ns)
{
	for (uint32_t i = 0; i < c->n + c->served; i++) {
		const struct piece *p = &c->pieces[i];

		assert_true(p->begin_ns + SCHED_SAME_NS >= p->wanted_ns);
		for (uint32_t t = 0; t < run->nr_spans; t++) {
			const struct sched_span *s = &run->spans[t];

			/* Spans are rounded to a ns. */
			if (s->lane == lane)
				assert_true((double)s->end_ns + from_ns <= p->begin_ns + 1 ||
					    (double)s->start_ns + from_ns >= p->end_ns - 1);
		}
	}
}

static void test_another_client_has_its_lane_for_itself(void **state)
{
	struct customer *c = calloc(1, sizeof(*c));

	for (int i = 0; i < 60; i++) {
		struct sched_client client = {
			.ops = &customer_ops,
			.ud = c,
			.lane = (enum soc_lane)any(0, SOC_NR_LANES - 1),
		};
		struct sched_options opts = virtual_options();

		*c = (struct customer){ .wants_ns = any(0, 1) * 1e6 };
		opts.client = &client;
		opts.execute = true;
		/* The second run goes on where the first has left the client. */
		for (int again = 0; again < 2; again++) {
			struct sched_tasks *plan = random_plan();
			double from_ns = client.now_ns;
			struct sched_run run;

			assert_int_equal(sched_run(plan, &opts, &run), 0);
			check_lanes(&run);
			check_order(plan, &run);
			check_work(plan);
			check_pieces(c, &run, client.lane, from_ns);
			assert_true(fabs(client.now_ns - from_ns - (double)run.makespan_ns) <= 1);
			sched_run_free(&run);
			sched_tasks_free(plan);
		}
	}
	free(c);
}

static void test_another_client_and_the_tasks_come_by_turns(void **state)
{
	struct customer *c = calloc(1, sizeof(*c));
	struct sched_client client = { .ops = &customer_ops, .ud = c, .lane = SOC_GPU };
	struct sched_options opts = { .clock = SCHED_VIRTUAL, .soc = soc, .client = &client };
	struct sched_tasks *plan = kernels(400, 1e6, false);
	struct sched_run run;

	assert_int_equal(sched_run(plan, &opts, &run), 0);
	assert_true(c->n > 50);
	for (uint32_t i = 0; i < c->n; i++) {
		const struct piece *p = &c->pieces[i];
		unsigned int before = 0;

		for (uint32_t t = 0; t < run.nr_spans; t++)
			before += (double)run.spans[t].start_ns >= p->wanted_ns - 1 &&
				  (double)run.spans[t].start_ns < p->begin_ns - 1;
		assert_in_range(before, 0, 1);
		/* A task was ready all the time. */
		assert_true(!i || p->begin_ns >= p[-1].end_ns + 1e6);
	}
	sched_run_free(&run);
	sched_tasks_free(plan);
	free(c);
}

static void test_random_plans_on_the_wall_clock(void **state)
{
	for (int i = 0; i < 25; i++) {
		struct sched_tasks *plan = random_plan();
		struct sched_options opts = { .clock = SCHED_WALL, .policy = any_policy() };
		struct sched_run run;

		assert_int_equal(sched_run(plan, &opts, &run), 0);
		check_lanes(&run);
		check_order(plan, &run);
		check_work(plan);
		sched_run_free(&run);
		sched_tasks_free(plan);
	}
}

static void test_no_run_is_shorter_than_its_plan(void **state)
{
	for (int i = 0; i < 60; i++) {
		struct sched_tasks *plan = random_plan();
		struct sched_options opts = virtual_options();
		struct sched_run run;
		double bytes = 0;

		/* At home, and as long as the plan says. */
		opts.policy = &sched_policy_fifo;
		opts.jitter = 0;
		assert_int_equal(sched_run(plan, &opts, &run), 0);
		assert_true((double)run.makespan_ns + 1 >= longest_way_ns(plan, soc));
		for (int lane = 0; lane < SOC_NR_LANES; lane++) {
			double alone = 0;

			for (uint32_t t = 0; t < sched_nr_tasks(plan); t++)
				if (sched_get(plan, t)->home == lane)
					alone += soc_alone_ns(soc, lane,
							      sched_get(plan, t)->cost[lane]);
			assert_true((double)run.busy_ns[lane] + 1 >= alone);
		}
		for (uint32_t t = 0; t < sched_nr_tasks(plan); t++)
			bytes += sched_get(plan, t)->cost[sched_get(plan, t)->home].dram_bytes;
		assert_true(run.dram_bytes >= bytes * (1 - 1e-9) &&
			    run.dram_bytes <= bytes * (1 + 1e-9));
		assert_true((double)run.makespan_ns + 1 >= bytes / soc->memory.dram_shared_gbps);
		sched_run_free(&run);
		sched_tasks_free(plan);
	}
}

static void test_a_seed_gives_one_timeline(void **state)
{
	for (int i = 0; i < 20; i++) {
		struct sched_tasks *plan = random_plan();
		struct sched_options opts = virtual_options();
		struct sched_run a, b, c;
		bool differs = false;

		opts.jitter = 0.3;
		assert_int_equal(sched_run(plan, &opts, &a), 0);
		/* Executing the tasks changes nothing. */
		opts.execute = true;
		assert_int_equal(sched_run(plan, &opts, &b), 0);
		assert_memory_equal(a.spans, b.spans, a.nr_spans * sizeof(*a.spans));
		assert_int_equal(a.makespan_ns, b.makespan_ns);
		assert_true(a.energy_j == b.energy_j && a.dram_bytes == b.dram_bytes);
		forget(&work);
		opts.seed++;
		assert_int_equal(sched_run(plan, &opts, &c), 0);
		for (uint32_t t = 0; t < a.nr_spans; t++)
			differs |= a.spans[t].end_ns != c.spans[t].end_ns;
		for (uint32_t t = 0; t < a.nr_spans && !differs; t++)
			differs = sched_get(plan, t)->cost[a.spans[t].lane].ns == 0;
		assert_true(differs);
		sched_run_free(&a);
		sched_run_free(&b);
		sched_run_free(&c);
		sched_tasks_free(plan);
	}
}

/* ---- what cannot be run ---- */

static void test_a_failing_task_ends_the_run(void **state)
{
	for (int i = 0; i < 30; i++) {
		struct sched_tasks *plan = random_plan();
		struct sched_options opts = virtual_options();
		struct sched_run run;

		opts.execute = true;
		if (i % 2)
			opts = (struct sched_options){ .clock = SCHED_WALL,
						       .policy = any_policy() };
		work.fail_at = any(0, sched_nr_tasks(plan) - 1);
		assert_int_equal(sched_run(plan, &opts, &run), -ENXIO);
		assert_int_equal(run.error, -ENXIO);
		assert_int_equal(run.failed, work.fail_at);
		for (uint32_t t = 0; t < sched_nr_tasks(plan); t++) {
			size_t n;
			const uint32_t *before = sched_predecessors(plan, t, &n);

			for (size_t k = 0; k < n; k++)
				if (before[k] == work.fail_at)
					assert_int_equal(work.ran[t], 0);
		}
		sched_run_free(&run);
		sched_tasks_free(plan);
	}
}

static uint32_t pick_nothing(const struct sched_view *view, const void *param)
{
	return SCHED_NONE;
}

static void test_a_policy_that_does_nothing_is_noticed(void **state)
{
	static const struct sched_policy lazy = { "lazy", pick_nothing };
	struct sched_tasks *plan = random_plan();
	struct sched_options opts = { .clock = SCHED_VIRTUAL, .soc = soc, .policy = &lazy };
	struct played beside;
	struct sched_run run;

	assert_int_equal(sched_run(plan, &opts, &run), -EDEADLK);
	sched_run_free(&run);
	begin_game(&beside, 1e6, 1e5, 2);
	opts.client = &beside.client;
	assert_int_equal(sched_run(plan, &opts, &run), -EDEADLK);
	sched_run_free(&run);
	opts.clock = SCHED_WALL;
	assert_int_equal(sched_run(plan, &opts, &run), -EDEADLK);
	sched_run_free(&run);
	sched_tasks_free(plan);
}

static void test_bad_plans_are_refused(void **state)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_options opts = { .clock = SCHED_VIRTUAL, .soc = soc };
	struct sched_run run;
	uint32_t a = sched_add(plan, &(struct sched_task){ .home = SOC_CPU });
	uint32_t b = sched_add(plan, &(struct sched_task){ .home = SOC_NPU });

	assert_int_equal(sched_after(plan, a, b), -EINVAL);
	assert_int_equal(sched_after(plan, a, a), -EINVAL);
	assert_int_equal(sched_after(plan, b + 1, a), -EINVAL);
	assert_int_equal(sched_after(plan, b, a), 0);
	assert_int_equal(sched_run(plan, &opts, &run), 0);
	sched_run_free(&run);
	opts.soc = NULL;
	assert_int_equal(sched_run(plan, &opts, &run), -EINVAL);
	sched_run_free(&run);
	opts.soc = soc;
	sched_add(plan, &(struct sched_task){ .home = SOC_NR_LANES });
	assert_int_equal(sched_run(plan, &opts, &run), -EINVAL);
	sched_run_free(&run);
	sched_tasks_free(plan);
}

static void test_an_empty_plan_takes_no_time(void **state)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_options opts = { .clock = SCHED_VIRTUAL, .soc = soc };
	struct sched_run run;

	assert_int_equal(sched_run(plan, &opts, &run), 0);
	assert_int_equal(run.makespan_ns, 0);
	sched_run_free(&run);
	opts.clock = SCHED_WALL;
	assert_int_equal(sched_run(plan, &opts, &run), 0);
	sched_run_free(&run);
	sched_tasks_free(plan);
}

/* ---- policies ---- */

static void test_layer_order_takes_the_lowest_layer_first(void **state)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_options opts = { .clock = SCHED_VIRTUAL, .soc = soc, .execute = true };
	struct sched_run run;

	/* Independent tasks, whose numbers go through the layers in turn. */
	for (uint32_t i = 0; i < 12; i++) {
		struct sched_task t = { .home = SOC_CPU };

		t.cost[SOC_CPU].ns = 1000;
		t.layer = i % 3;
		t.slice = (uint16_t)i;
		t.run = run_task;
		t.ud = &work;
		sched_add(plan, &t);
	}
	work.plan = plan;
	forget(&work);
	opts.policy = &sched_policy_fifo;
	assert_int_equal(sched_run(plan, &opts, &run), 0);
	for (uint32_t i = 0; i < 12; i++)
		assert_int_equal(work.order[i], i);
	sched_run_free(&run);
	forget(&work);
	opts.policy = &sched_policy_layer;
	assert_int_equal(sched_run(plan, &opts, &run), 0);
	for (uint32_t i = 0; i < 12; i++)
		assert_int_equal(work.order[i], i % 4 * 3 + i / 4);
	sched_run_free(&run);
	sched_tasks_free(plan);
}

/* ---- threads of the wall clock ---- */

static struct hands {
	pthread_t thread;
	atomic_uint elsewhere; /* tasks that ran on another thread than that */
	atomic_uint together, meeting; /* tasks that are in, and how many of them have to be */
} hands;

static int note_thread(void *ud, const struct sched_task *task, enum soc_lane lane)
{
	if (!pthread_equal(pthread_self(), hands.thread))
		atomic_fetch_add(&hands.elsewhere, 1);
	return 0;
}

/* Comes back when as many tasks are in as there are to meet, or fails after a while. */
static int meet(void *ud, const struct sched_task *task, enum soc_lane lane)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	atomic_fetch_add(&hands.together, 1);
	for (int i = 0; i < 20000 && atomic_load(&hands.together) < hands.meeting; i++)
		nanosleep(&ms, NULL);
	return atomic_load(&hands.together) < hands.meeting ? -ETIMEDOUT : 0;
}

static uint32_t add_plain(struct sched_tasks *plan, enum soc_lane lane,
			  int (*fn)(void *, const struct sched_task *, enum soc_lane))
{
	return sched_add(plan, &(struct sched_task){ .home = lane, .run = fn });
}

static void test_a_chain_over_all_lanes_needs_no_thread(void **state)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_options opts = { .clock = SCHED_WALL };
	struct sched_run run;
	uint32_t last = SCHED_NONE;

	hands = (struct hands){ .thread = pthread_self() };
	for (int i = 0; i < 300; i++) {
		uint32_t task = add_plain(plan, i % SOC_NR_LANES, note_thread);

		assert_int_equal(sched_after(plan, task, last), 0);
		last = task;
	}
	assert_int_equal(sched_run(plan, &opts, &run), 0);
	assert_int_equal(hands.elsewhere, 0);
	assert_int_equal(run.handovers, 299);
	sched_run_free(&run);
	sched_tasks_free(plan);
}

/*
 * Tasks of all lanes that can only end together; over and over, so that threads wait and are woken.
 */
static void test_lanes_work_at_the_same_time(void **state)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_options opts = { .clock = SCHED_WALL };
	struct sched_run run;
	uint32_t join = SCHED_NONE;
	int rounds = 50;

	hands = (struct hands){ .thread = pthread_self() };
	for (int round = 0; round < rounds; round++) {
		uint32_t tasks[SOC_NR_LANES];

		for (int lane = 0; lane < SOC_NR_LANES; lane++) {
			tasks[lane] = add_plain(plan, lane, round ? note_thread : meet);
			assert_int_equal(sched_after(plan, tasks[lane], join), 0);
		}
		join = add_plain(plan, round % SOC_NR_LANES, note_thread);
		for (int lane = 0; lane < SOC_NR_LANES; lane++)
			assert_int_equal(sched_after(plan, join, tasks[lane]), 0);
	}
	hands.meeting = SOC_NR_LANES;
	assert_int_equal(sched_run(plan, &opts, &run), 0);
	for (int i = 0; i < rounds; i++)
		for (int lane = 0; lane < SOC_NR_LANES; lane++)
			assert_int_equal(run.spans[(SOC_NR_LANES + 1) * i + lane].lane, lane);
	sched_run_free(&run);
	sched_tasks_free(plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_plans_on_the_virtual_clock),
		cmocka_unit_test(test_a_game_alone_drops_no_frame),
		cmocka_unit_test(test_frames_wait_for_what_is_enqueued_ahead),
		cmocka_unit_test(test_what_is_no_gpus_work_runs_beside_a_game),
		cmocka_unit_test(test_another_client_has_its_lane_for_itself),
		cmocka_unit_test(test_another_client_and_the_tasks_come_by_turns),
		cmocka_unit_test(test_random_plans_on_the_wall_clock),
		cmocka_unit_test(test_no_run_is_shorter_than_its_plan),
		cmocka_unit_test(test_a_seed_gives_one_timeline),
		cmocka_unit_test(test_a_failing_task_ends_the_run),
		cmocka_unit_test(test_a_policy_that_does_nothing_is_noticed),
		cmocka_unit_test(test_bad_plans_are_refused),
		cmocka_unit_test(test_an_empty_plan_takes_no_time),
		cmocka_unit_test(test_layer_order_takes_the_lowest_layer_first),
		cmocka_unit_test(test_a_chain_over_all_lanes_needs_no_thread),
		cmocka_unit_test(test_lanes_work_at_the_same_time),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
