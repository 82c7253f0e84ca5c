// SPDX-License-Identifier: MIT
/* When graphs are switched: the paper's example, the greedy rule, and all schedules of small cases.
 * SEED=N repeats a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "npu_random.h"
#include "switching.h"

#define MAX_BLOCKS 6
#define MAX_STEPS 24

struct fixture {
	uint64_t prefill[MAX_STEPS], decode[MAX_STEPS], load[MAX_BLOCKS];
	uint64_t prefill_bytes[MAX_BLOCKS], decode_bytes[MAX_BLOCKS];
	struct switching_profile p;
	struct switching_load loads[MAX_BLOCKS];
};

static void point(struct fixture *f, uint32_t blocks, uint32_t chunks)
{
	f->p = (struct switching_profile){ blocks,  chunks,	      f->prefill,     f->decode,
					   f->load, f->prefill_bytes, f->decode_bytes };
}

static struct switching_times plan(struct fixture *f, enum switching_policy policy, uint32_t start)
{
	struct switching_times t;

	switching_plan(&f->p, policy, start, f->loads, &t);
	return t;
}

/* Figure 8: four blocks, two chunks, and a load takes two blocks' time. */
static void figure_8(struct fixture *f)
{
	point(f, 4, 2);
	for (int i = 0; i < 8; i++)
		f->prefill[i] = f->decode[i] = 10;
	for (int b = 0; b < 4; b++) {
		f->load[b] = 20;
		f->prefill_bytes[b] = 100;
		f->decode_bytes[b] = 90;
	}
}

static void the_papers_example_hides_all_loads(void **state)
{
	struct fixture f;
	struct switching_times t;

	figure_8(&f);
	t = plan(&f, SWITCHING_PROGRESSIVE, 0);
	assert_int_equal(t.total_ns, 80);
	assert_int_equal(t.prefill_ns, 80);
	assert_int_equal(t.switched_ns, 80);
	assert_int_equal(t.nr_loads, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(f.loads[i].block, 3 - i);
		assert_int_equal(f.loads[i].step, 2 * i);
		assert_int_equal(f.loads[i].steps, 2);
		assert_int_equal(f.loads[i].start_ns, 20 * i);
	}
	/* One graph more than prefill's. */
	assert_int_equal(t.peak_bytes, 490);
}

static void the_baselines_of_the_example(void **state)
{
	struct fixture f;
	struct switching_times t;

	figure_8(&f);
	t = plan(&f, SWITCHING_SYNCHRONOUS, 0);
	assert_int_equal(t.prefill_ns, 80);
	assert_int_equal(t.total_ns, 160);
	assert_int_equal(t.peak_bytes, 400);
	assert_int_equal(f.loads[0].start_ns, 80);
	t = plan(&f, SWITCHING_ASYNCHRONOUS, 0);
	assert_int_equal(t.prefill_ns, 80);
	assert_int_equal(t.total_ns, 130);
	assert_int_equal(f.loads[0].start_ns, 50);
	assert_int_equal(f.loads[3].block, 3);
	t = plan(&f, SWITCHING_RESIDENT, 0);
	assert_int_equal(t.total_ns, 80);
	assert_int_equal(t.switched_ns, 0);
	assert_int_equal(t.nr_loads, 0);
	assert_int_equal(t.peak_bytes, 760);
}

/* Short loads: asynchronous loading waits for the blocks of the last chunk. */
static void asynchronous_loads_wait_for_their_blocks(void **state)
{
	struct fixture f;
	struct switching_times t;

	figure_8(&f);
	for (int b = 0; b < 4; b++)
		f.load[b] = 4;
	t = plan(&f, SWITCHING_ASYNCHRONOUS, 0);
	assert_int_equal(t.total_ns, 84);
	for (uint32_t b = 0; b < 4; b++)
		assert_int_equal(f.loads[b].start_ns, 50 + 10 * b);
}

static void slow_decoding_graphs_are_loaded_late(void **state)
{
	struct fixture f;

	figure_8(&f);
	for (int i = 0; i < 8; i++)
		f.decode[i] = 30;
	for (int b = 0; b < 4; b++)
		f.load[b] = 5;
	/* Begun at once, the second chunk and half of the first are slow. */
	assert_int_equal(plan(&f, SWITCHING_PROGRESSIVE, 0).total_ns, 200);
	assert_int_equal(switching_best_start(&f.p, f.loads), 7);
	assert_int_equal(plan(&f, SWITCHING_PROGRESSIVE, 7).total_ns, 95);
	assert_int_equal(plan(&f, SWITCHING_SYNCHRONOUS, 0).total_ns, 100);
}

static void any_profile(struct fixture *f)
{
	uint32_t blocks = random_in(1, MAX_BLOCKS);

	memset(f, 0, sizeof(*f));
	point(f, blocks, random_in(1, MAX_STEPS / blocks));
	for (uint32_t i = 0; i < blocks * f->p.chunks; i++) {
		f->prefill[i] = random_in(0, 20);
		f->decode[i] = f->prefill[i] + random_in(0, 10);
	}
	for (uint32_t b = 0; b < blocks; b++) {
		f->load[b] = random_in(0, 1) ? random_in(0, 60) : random_in(0, 10);
		f->prefill_bytes[b] = random_in(1, 100);
		f->decode_bytes[b] = random_in(1, 100);
	}
}

/*
 * Runs a plan's rounds as a machine would: a graph at a time for each block, a clock, and memory.
 * Each step must have a graph, and each round must be the shortest that hides its load.
 */
static void check_rounds(const struct fixture *f, uint32_t start, const struct switching_times *t)
{
	uint32_t step = 0, nr = f->p.blocks * f->p.chunks;
	bool switched[MAX_BLOCKS] = { false };
	uint64_t now = 0, prefill = 0, bytes = 0, peak;

#define STEP_NS(i) (switched[(i) % f->p.blocks] ? f->decode[i] : f->prefill[i])
	for (uint32_t b = 0; b < f->p.blocks; b++)
		bytes += f->prefill_bytes[b];
	peak = bytes;
	for (; step < start; step++)
		prefill = now += STEP_NS(step);
	for (uint32_t i = 0; i < f->p.blocks; i++) {
		const struct switching_load *l = &f->loads[i];
		uint64_t computed = 0, before = 0;

		assert_int_equal(l->block, f->p.blocks - 1 - i);
		assert_int_equal(l->step, step);
		assert_int_equal(l->start_ns, now);
		assert_int_equal(l->end_ns, now + f->load[l->block]);
		for (uint32_t n = 0; n < l->steps; n++, step++) {
			before = computed;
			computed += STEP_NS(step);
			prefill = now + computed;
		}
		assert_true(step <= nr);
		assert_true(computed >= f->load[l->block] || step == nr);
		assert_true(!l->steps || before < f->load[l->block]);
		assert_int_equal(l->computed_ns, now + computed);
		bytes += f->decode_bytes[l->block];
		peak = bytes > peak ? bytes : peak;
		bytes -= f->prefill_bytes[l->block];
		switched[l->block] = true;
		now = l->end_ns > l->computed_ns ? l->end_ns : l->computed_ns;
	}
	assert_int_equal(t->switched_ns, f->loads[f->p.blocks - 1].end_ns);
	for (; step < nr; step++)
		prefill = now += STEP_NS(step);
	assert_int_equal(t->prefill_ns, prefill);
	assert_int_equal(t->total_ns, prefill > t->switched_ns ? prefill : t->switched_ns);
	assert_int_equal(t->peak_bytes, peak);
}

static void rounds_are_the_shortest_that_hide_a_load(void **state)
{
	random_begin("rounds");
	for (int round = 0; round < 3000; round++) {
		struct switching_times t;
		struct fixture f;
		uint32_t start;

		any_profile(&f);
		start = random_in(0, 1) ? 0 : random_in(0, f.p.blocks * f.p.chunks);
		t = plan(&f, SWITCHING_PROGRESSIVE, start);
		check_rounds(&f, start, &t);
	}
}

static void check_in_order(struct fixture *f, bool asynchronous)
{
	struct switching_times t =
		plan(f, asynchronous ? SWITCHING_ASYNCHRONOUS : SWITCHING_SYNCHRONOUS, 0);
	uint32_t blocks = f->p.blocks, first = blocks * (f->p.chunks - 1);
	uint64_t computed = 0, end = 0, loaded = 0, bytes = 0, peak;

	for (uint32_t i = 0; i < first + blocks; i++)
		end += f->prefill[i];
	for (uint32_t i = 0; i < first; i++)
		computed += f->prefill[i];
	for (uint32_t b = 0; b < blocks; b++)
		bytes += f->prefill_bytes[b];
	peak = bytes;
	for (uint32_t b = 0; b < blocks; b++) {
		uint64_t from;

		computed += f->prefill[first + b];
		from = asynchronous ? computed : end;
		from = loaded > from ? loaded : from;
		assert_int_equal(f->loads[b].block, b);
		assert_int_equal(f->loads[b].steps, 0);
		assert_int_equal(f->loads[b].start_ns, from);
		loaded = from + f->load[b];
		assert_int_equal(f->loads[b].end_ns, loaded);
		bytes += f->decode_bytes[b] - f->prefill_bytes[b];
		peak = bytes > peak ? bytes : peak;
	}
	assert_int_equal(t.prefill_ns, end);
	assert_int_equal(t.switched_ns, loaded);
	assert_int_equal(t.total_ns, loaded > end ? loaded : end);
	assert_int_equal(t.peak_bytes, peak);
}

static void baselines_load_in_order(void **state)
{
	random_begin("baselines");
	for (int round = 0; round < 2000; round++) {
		struct fixture f;

		any_profile(&f);
		check_in_order(&f, round % 2);
	}
}

/* The least total time of all ways to choose the steps before each round, and of each round. */
static uint64_t search(const struct fixture *f, uint32_t step, uint32_t switched, uint64_t now,
		       uint64_t prefill, bool waits)
{
	uint32_t nr = f->p.blocks * f->p.chunks, block = f->p.blocks - 1 - switched;
	uint64_t best = UINT64_MAX, t = 0;

	if (switched == f->p.blocks) {
		for (; step < nr; step++)
			prefill = now += f->decode[step];
		return now > prefill ? now : prefill;
	}
	for (uint32_t n = 0; step + n <= nr; n++) {
		uint64_t total, end = now + t > prefill && n ? now + t : prefill;

		if (waits) {
			total = search(f, step + n, switched, now + t, end, false);
		} else {
			uint64_t load = f->load[block];

			total = search(f, step + n, switched + 1, now + (t > load ? t : load), end,
				       true);
		}
		best = total < best ? total : best;
		if (step + n < nr)
			t += (step + n) % f->p.blocks > block ? f->decode[step + n]
							      : f->prefill[step + n];
	}
	return best;
}

static void greedy_is_between_the_best_schedule_and_the_baselines(void **state)
{
	uint32_t optimal = 0, rounds = 400;

	random_begin("search");
	for (uint32_t round = 0; round < rounds; round++) {
		struct fixture f;
		uint64_t best, greedy, resident;

		do
			any_profile(&f);
		while (f.p.blocks > 3 || f.p.blocks * f.p.chunks > 8);
		best = search(&f, 0, 0, 0, 0, true);
		greedy = plan(&f, SWITCHING_PROGRESSIVE, switching_best_start(&f.p, f.loads))
				 .total_ns;
		resident = plan(&f, SWITCHING_RESIDENT, 0).total_ns;
		assert_true(resident <= best && best <= greedy);
		assert_true(greedy <= plan(&f, SWITCHING_PROGRESSIVE, 0).total_ns);
		assert_true(greedy <= plan(&f, SWITCHING_SYNCHRONOUS, 0).total_ns);
		assert_true(plan(&f, SWITCHING_ASYNCHRONOUS, 0).total_ns <=
			    plan(&f, SWITCHING_SYNCHRONOUS, 0).total_ns);
		optimal += greedy == best;
	}
	print_message("greedy is optimal in %u of %u cases\n", optimal, rounds);
	assert_true(optimal > rounds / 2);
}

static void the_best_start_is_the_last_of_the_best(void **state)
{
	random_begin("start");
	for (int round = 0; round < 300; round++) {
		struct fixture f;
		uint32_t start;
		uint64_t least;

		any_profile(&f);
		start = switching_best_start(&f.p, f.loads);
		least = plan(&f, SWITCHING_PROGRESSIVE, start).total_ns;
		for (uint32_t s = 0; s <= f.p.blocks * f.p.chunks; s++) {
			uint64_t total = plan(&f, SWITCHING_PROGRESSIVE, s).total_ns;

			assert_true(s > start ? total > least : total >= least);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_papers_example_hides_all_loads),
		cmocka_unit_test(the_baselines_of_the_example),
		cmocka_unit_test(asynchronous_loads_wait_for_their_blocks),
		cmocka_unit_test(slow_decoding_graphs_are_loaded_late),
		cmocka_unit_test(rounds_are_the_shortest_that_hide_a_load),
		cmocka_unit_test(baselines_load_in_order),
		cmocka_unit_test(greedy_is_between_the_best_schedule_and_the_baselines),
		cmocka_unit_test(the_best_start_is_the_last_of_the_best),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
