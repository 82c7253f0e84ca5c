// SPDX-License-Identifier: MIT
/*
 * The graphs of blocks in memory: a lane that only counts sees which are made and dropped when, and
 * what happens when one cannot be made. TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "blocks.h"
#include "llm_fail.h"
#include "tiny_random.h"

#define MAX_LAYERS 12
#define CHUNK 64
#define WIDTH 16

enum { PREFILL, DECODE, KINDS };

/* A graph for prefill has 100 bytes a layer, one for decoding 70. */
struct counting_lane {
	struct lane lane;
	bool there[KINDS][MAX_LAYERS]; /* by the block's first layer */
	uint64_t bytes, peak;
	unsigned int loads, fails_at; /* this one fails; 0: none */
};

static int kind_of(const struct lane_work *w)
{
	assert_int_equal(w->what, LANE_BLOCK);
	assert_true(w->graph_rows == CHUNK || w->graph_rows == WIDTH);
	return w->graph_rows == CHUNK ? PREFILL : DECODE;
}

static int count_load(struct lane *lane, const struct lane_call *call, uint64_t *bytes)
{
	struct counting_lane *c = (struct counting_lane *)lane;
	const struct lane_work *w = call->work;
	int kind = kind_of(w);

	if (++c->loads == c->fails_at)
		return llm_fail(-ENOSPC, "no room");
	assert_false(c->there[kind][w->layer]);
	c->there[kind][w->layer] = true;
	*bytes = (kind == PREFILL ? 100 : 70) * w->layers;
	c->bytes += *bytes;
	c->peak = c->bytes > c->peak ? c->bytes : c->peak;
	return 0;
}

static void count_drop(struct lane *lane, const struct lane_call *call)
{
	struct counting_lane *c = (struct counting_lane *)lane;
	const struct lane_work *w = call->work;
	int kind = kind_of(w);

	assert_true(c->there[kind][w->layer]);
	c->there[kind][w->layer] = false;
	c->bytes -= (kind == PREFILL ? 100 : 70) * w->layers;
}

static int begin_nothing(struct lane *lane, const struct lane_call *call, uint64_t *ticket)
{
	const struct counting_lane *c = (const struct counting_lane *)lane;

	assert_true(c->there[kind_of(call->work)][call->work->layer]);
	*ticket = 0;
	return 0;
}

static int wait_nothing(struct lane *lane, uint64_t ticket, enum lane_wait how)
{
	return 0;
}

struct fixture {
	struct counting_lane lane;
	struct shape shape;
	struct plan_options o;
	struct blocks b;
};

static void make(struct fixture *f, enum llm_switching switching)
{
	static const struct lane_ops ops = {
		.begin = begin_nothing,
		.wait = wait_nothing,
		.load = count_load,
		.drop = count_drop,
	};

	*f = (struct fixture){ 0 };
	f->lane.lane.ops = &ops;
	f->shape = (struct shape){
		.layers = any(2, MAX_LAYERS),
		.dim = 64,
		.heads = 1,
		.kv_heads = 1,
		.head_dim = 64,
		.ffn = 64,
		.vocab = 64,
	};
	f->o = (struct plan_options){
		.shape = &f->shape,
		.choices = { .placement = LLM_PLACE_NPU,
			     .graphs = LLM_GRAPHS_FIXED,
			     .switching = switching },
		.chunk = CHUNK,
	};
	assert_int_equal(
		blocks_init(&f->b, &f->o, &f->lane.lane, any(1, (f->shape.layers + 1) / 2), WIDTH),
		0);
}

static int load(struct fixture *f, uint32_t block)
{
	struct plan_options o = f->o;
	struct lane_work work;

	o.switching = &f->b.plan;
	work = plan_block_work(&o, block, WIDTH);
	return blocks_load(&f->b, &work);
}

/* Ends a pass that was planned as those of the session are; its loads are done. */
static void end_pass(struct fixture *f)
{
	struct plan plan = { .tasks = sched_tasks_create(NULL) };
	struct sched_run run = { 0 };

	blocks_end(&f->b, &plan, &run);
	sched_tasks_free(plan.tasks);
}

static void check_all(const struct fixture *f, bool prefill, bool decode)
{
	uint64_t bytes = (uint64_t)f->shape.layers * (100 * prefill + 70 * decode);

	for (uint32_t layer = 0; layer < f->shape.layers; layer += f->b.plan.block) {
		assert_int_equal(f->lane.there[PREFILL][layer], prefill);
		assert_int_equal(f->lane.there[DECODE][layer], decode);
	}
	assert_int_equal(f->lane.bytes, bytes);
	assert_int_equal(f->b.bytes, bytes);
}

static void resident_graphs_are_all_there_and_stay(void **state)
{
	struct fixture f;

	make(&f, LLM_SWITCHING_RESIDENT);
	check_all(&f, true, true);
	assert_int_equal(f.b.prefill_bytes, 100 * f.shape.layers);
	assert_int_equal(f.b.peak_bytes, 170 * f.shape.layers);
	assert_int_equal(blocks_begin(&f.b, WIDTH), 0);
	assert_int_equal(f.b.plan.graphs, PLAN_GRAPHS_DECODE);
	assert_int_equal(blocks_begin(&f.b, WIDTH + 1), 0);
	assert_int_equal(f.b.plan.graphs, PLAN_GRAPHS_PREFILL);
	assert_int_equal(blocks_reset(&f.b), 0);
	check_all(&f, true, true);
	blocks_fini(&f.b);
}

/* In whatever order they are loaded. */
static void memory_holds_one_graph_of_a_block(void **state)
{
	static const enum llm_switching ways[] = { LLM_SWITCHING_SYNC, LLM_SWITCHING_ASYNC,
						   LLM_SWITCHING_PROGRESSIVE };

	for (int i = 0; i < 60; i++) {
		bool progressive = i % 3 == 2;
		struct fixture f;

		make(&f, ways[i % 3]);
		check_all(&f, true, false);
		assert_int_equal(f.b.peak_bytes, 100 * f.shape.layers);
		for (int again = 0; again < 2; again++) {
			assert_int_equal(blocks_begin(&f.b, any(1, 300)), 0);
			assert_int_equal(f.b.plan.graphs, PLAN_GRAPHS_SWITCHED);
			f.lane.peak = 0;
			for (uint32_t k = 0; k < f.b.nr; k++)
				assert_int_equal(load(&f, progressive ? f.b.nr - 1 - k : k), 0);
			end_pass(&f);
			check_all(&f, false, true);
			/* While a round lasts, its block has both. */
			assert_true(f.lane.peak <=
				    100 * f.shape.layers + (progressive ? 70 * f.b.plan.block : 0));
			assert_int_equal(f.b.peak_bytes, f.lane.peak > 100 * f.shape.layers
								 ? f.lane.peak
								 : 100 * f.shape.layers);
			assert_int_equal(blocks_begin(&f.b, any(1, 300)), 0);
			assert_int_equal(f.b.plan.graphs, PLAN_GRAPHS_DECODE);
			assert_int_equal(blocks_reset(&f.b), 0);
			check_all(&f, true, false);
		}
		blocks_fini(&f.b);
	}
}

static void a_failed_load_is_taken_back_by_the_next_pass(void **state)
{
	for (int i = 0; i < 30; i++) {
		struct fixture f;
		uint32_t done = 0;
		int err = 0;

		make(&f, i % 2 ? LLM_SWITCHING_PROGRESSIVE : LLM_SWITCHING_ASYNC);
		assert_int_equal(blocks_begin(&f.b, 100), 0);
		f.lane.fails_at = f.lane.loads + any(1, f.b.nr);
		while (!err)
			err = load(&f, i % 2 ? f.b.nr - 1 - done++ : done++);
		assert_int_equal(err, -ENOSPC);
		f.lane.fails_at = 0;
		assert_int_equal(blocks_begin(&f.b, 100), 0);
		assert_int_equal(f.b.plan.graphs, PLAN_GRAPHS_SWITCHED);
		for (uint32_t k = 0; k < f.b.nr; k++)
			assert_int_equal(load(&f, i % 2 ? f.b.nr - 1 - k : k), 0);
		end_pass(&f);
		check_all(&f, false, true);
		blocks_fini(&f.b);
	}
}

static void without_room_no_session_begins(void **state)
{
	struct fixture f;
	struct blocks b;

	make(&f, LLM_SWITCHING_SYNC);
	f.lane.fails_at = f.lane.loads + 1;
	memset(f.lane.there, 0, sizeof(f.lane.there));
	assert_int_equal(blocks_init(&b, &f.o, &f.lane.lane, 1, WIDTH), -ENOSPC);
	blocks_fini(&b);
	blocks_fini(&f.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resident_graphs_are_all_there_and_stay),
		cmocka_unit_test(memory_holds_one_graph_of_a_block),
		cmocka_unit_test(a_failed_load_is_taken_back_by_the_next_pass),
		cmocka_unit_test(without_room_no_session_begins),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
