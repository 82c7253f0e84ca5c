// SPDX-License-Identifier: MIT
/*
 * The weights of a cold start in plans: every piece that is left is read and packed once, in order
 * and within the ring; whatever computes waits for the weights that it needs, or for all of its
 * layer's graph, or of the model, however many of them an earlier pass has packed. TEST_SEED=N
 * repeats a run.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plan.h"
#include "tiny_random.h"

static const struct shape shape = {
	.layers = 5,
	.dim = 512,
	.heads = 8,
	.kv_heads = 2,
	.head_dim = 64,
	.ffn = 1536,
	.vocab = 4096,
	.gated = true,
};

/* Whether @task comes after @before, directly or not. */
static bool comes_after(const struct plan *plan, uint32_t task, uint32_t before)
{
	bool *on_the_way = calloc(sched_nr_tasks(plan->tasks), sizeof(*on_the_way)), found;

	assert_non_null(on_the_way);
	on_the_way[task] = true;
	/* Tasks come after such with lower numbers. */
	for (uint32_t t = task; t > before; t--) {
		size_t n;
		const uint32_t *list = sched_predecessors(plan->tasks, t, &n);

		for (size_t i = 0; i < n && on_the_way[t]; i++)
			on_the_way[list[i]] = true;
	}
	found = task > before && on_the_way[before];
	free(on_the_way);
	return found;
}

struct pieces {
	struct start_piece *list;
	uint32_t nr, first;
	bool graphs, ahead;
	uint32_t *read, *packed; /* by piece: the tasks */
};

static void find_tasks(const struct plan *plan, struct pieces *p)
{
	for (uint32_t t = 0; t < sched_nr_tasks(plan->tasks); t++) {
		const struct sched_task *task = sched_get(plan->tasks, t);
		uint32_t piece = plan->works[t].piece;
		uint32_t *by = task->op == LLM_OP_READ ? p->read : p->packed;

		if (task->op != LLM_OP_READ && task->op != LLM_OP_PACK)
			continue;
		assert_in_range(piece, p->first, p->nr - 1);
		assert_int_equal(by[piece], SCHED_NONE);
		assert_int_equal(task->home, task->op == LLM_OP_READ ? SOC_STORAGE : SOC_CPU);
		by[piece] = t;
	}
	/* The parts of a graph are there when they have been read. */
	for (uint32_t i = p->first; i < p->nr && p->graphs; i++) {
		assert_int_equal(p->packed[i], SCHED_NONE);
		p->packed[i] = p->read[i];
	}
}

static void check_order(const struct plan *plan, const struct pieces *p)
{
	for (uint32_t i = p->first; i < p->nr; i++) {
		assert_int_not_equal(p->read[i], SCHED_NONE);
		assert_int_not_equal(p->packed[i], SCHED_NONE);
		assert_true(p->graphs || comes_after(plan, p->packed[i], p->read[i]));
		if (i == p->first)
			continue;
		assert_true(comes_after(plan, p->read[i], p->read[i - 1]));
		assert_true(comes_after(plan, p->packed[i], p->packed[i - 1]));
		if (i - p->first >= START_RING && !p->graphs)
			assert_true(comes_after(plan, p->read[i], p->packed[i - START_RING]));
	}
}

/* Every matmul comes after the pieces of its weights. */
static void check_matmuls(const struct plan *plan, const struct pieces *p)
{
	unsigned int found = 0;

	for (uint32_t t = 0; t < sched_nr_tasks(plan->tasks); t++) {
		const struct lane_work *w = &plan->works[t];
		enum llm_op last = w->what == LANE_SUBGRAPH ? w->last : w->op;

		for (uint32_t i = p->first; i < p->nr && w->op < LLM_NR_OPS; i++) {
			bool needs =
				p->list[i].layer == w->layer && p->list[i].op >= w->op &&
				(p->list[i].op <= last || (p->graphs && w->op != LLM_OP_EMBED));

			if (!needs && !p->ahead)
				continue;
			if (!comes_after(plan, t, p->packed[i]))
				fail_msg("%s of layer %u does not wait for piece %u",
					 llm_op_name((uint16_t)w->op), w->layer, i);
			found++;
		}
	}
	assert_true(found >= p->nr - p->first);
}

/* A phone's file is in the NPU's form, or in planes. */
static void check_costs(const struct plan *plan, const struct pieces *p, const struct soc *soc)
{
	for (uint32_t i = p->first; i < p->nr && soc; i++) {
		const struct soc_cost *read =
			&sched_get(plan->tasks, p->read[i])->cost[SOC_STORAGE];
		const struct soc_cost *pack = &sched_get(plan->tasks, p->packed[i])->cost[SOC_CPU];
		const struct start_piece *piece = &p->list[i];
		double bytes = (double)piece->bytes;

		assert_true(read->dram_bytes == bytes);
		assert_true(read->ns == (p->graphs ? soc_read_graph_cost(soc, bytes)
						   : soc_read_cost(soc, bytes))
						.ns);
		assert_true((pack->ns > 0) == (piece->unpacked > 0 && !p->graphs));
		if (pack->ns > 0)
			assert_true(pack->ns ==
				    soc_unpack_cost(soc, (double)piece->unpacked, bytes).ns);
	}
}

static void check_plan(const struct plan_options *o, const struct plan_pass *pass, struct pieces *p)
{
	const struct plan_start start = { .pieces = p->list,
					  .nr = p->nr,
					  .first = p->first,
					  .graphs = p->graphs,
					  .ahead = p->ahead };
	struct plan_options cold = *o;
	struct sched_options so = { .clock = SCHED_VIRTUAL, .soc = o->soc };
	struct sched_run run;
	struct plan *plan;
	char why[256];

	cold.start = &start;
	cold.soc = so.soc = soc_load("sd8elite", why, sizeof(why));
	assert_non_null(cold.soc);
	if (any(0, 1))
		cold.soc = NULL;
	plan = plan_forward(&cold, pass);
	assert_non_null(plan);
	memset(p->read, 0xff, p->nr * sizeof(*p->read));
	memset(p->packed, 0xff, p->nr * sizeof(*p->packed));
	find_tasks(plan, p);
	so.policy = plan->policy;
	so.param = plan->times;
	/* The links between tasks are there once it has run. */
	assert_int_equal(sched_run(plan->tasks, &so, &run), 0);
	sched_run_free(&run);
	check_order(plan, p);
	check_matmuls(plan, p);
	check_costs(plan, p, cold.soc);
	plan_free(plan);
	soc_free((struct soc *)so.soc);
}

static void weights_are_there_before_they_are_needed(void **state)
{
	static const enum llm_placement places[] = { LLM_PLACE_NPU, LLM_PLACE_FINE,
						     LLM_PLACE_LINEAR };
	static const enum llm_order orders[] = { LLM_ORDER_AUTO, LLM_ORDER_FIFO, LLM_ORDER_LAYER,
						 LLM_ORDER_CHUNK, LLM_ORDER_OOE };

	for (int round = 0; round < 60; round++) {
		const enum llm_order order = orders[any(0, 4)];
		struct llm_width widths[LLM_NR_OPS];
		struct plan_options o = {
			.shape = &shape,
			.choices = { .placement = places[round % 3],
				     .weights = LLM_WEIGHTS_W8A8,
				     .operands = LLM_OPERANDS_NATURAL,
				     .floats = any(0, 1) ? LLM_FLOATS_CPU : LLM_FLOATS_ALL,
				     .order = order },
			.chunk = any(16, 64),
		};
		const struct plan_pass pass = {
			.n_past = any(0, 50),
			.n_tokens = any(0, 2) ? any(2, 150) : 1,
			.logits = any(0, 2) ? PLAN_LOGITS_LAST : PLAN_LOGITS_ALL,
		};
		struct pieces p = { .graphs = !any(0, 3), .ahead = !any(0, 3) };

		for (unsigned int op = 0; op < LLM_NR_OPS; op++)
			widths[op].bits = any(1, 8);
		p.list = start_pieces(NULL, o.choices.weights, &shape, widths, &p.nr);
		assert_non_null(p.list);
		p.first = any(0, 1) ? any(0, p.nr - 1) : 0;
		p.read = malloc(p.nr * sizeof(*p.read));
		p.packed = malloc(p.nr * sizeof(*p.packed));
		check_plan(&o, &pass, &p);
		free(p.list);
		free(p.read);
		free(p.packed);
	}
}

static void pieces_are_all_of_a_shapes_weights(void **state)
{
	struct llm_width widths[LLM_NR_OPS];
	uint64_t bytes = 0, rows = 0;
	struct start_piece *pieces;
	uint32_t nr;

	for (unsigned int op = 0; op < LLM_NR_OPS; op++)
		widths[op].bits = op == LLM_OP_HEAD ? 8 : 4;
	pieces = start_pieces(NULL, LLM_WEIGHTS_ADAPTIVE, &shape, widths, &nr);
	assert_non_null(pieces);
	for (uint32_t i = 0; i < nr; i++) {
		bytes += pieces[i].bytes;
		rows += pieces[i].rows;
		assert_int_equal(pieces[i].unpacked, 0);
		assert_int_equal(pieces[i].row % 64, 0);
		if (i)
			assert_true(pieces[i].layer > pieces[i - 1].layer ||
				    (pieces[i].layer == pieces[i - 1].layer &&
				     pieces[i].op >= pieces[i - 1].op));
	}
	assert_int_equal(bytes, shape_layer_weights(&shape) * shape.layers / 2 +
					(uint64_t)shape.dim * shape.vocab);
	assert_int_equal(rows, shape.layers * (512 + 2 * 128 + 512 + 2 * 1536 + 512) + 4096);
	free(pieces);
}

static void narrow_weights_are_unpacked_for_an_npu_of_int8(void **state)
{
	struct llm_width widths[LLM_NR_OPS];
	struct start_piece *pieces;
	uint64_t unpacked = 0;
	uint32_t nr;

	for (unsigned int op = 0; op < LLM_NR_OPS; op++)
		widths[op].bits = op == LLM_OP_HEAD ? 8 : 4.5;
	pieces = start_pieces(NULL, LLM_WEIGHTS_W8A8, &shape, widths, &nr);
	assert_non_null(pieces);
	for (uint32_t i = 0; i < nr; i++) {
		unpacked += pieces[i].unpacked;
		assert_true(pieces[i].matrix >= 0 || !pieces[i].unpacked);
	}
	assert_int_equal(unpacked, shape_layer_weights(&shape) * shape.layers);
	free(pieces);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(weights_are_there_before_they_are_needed),
		cmocka_unit_test(pieces_are_all_of_a_shapes_weights),
		cmocka_unit_test(narrow_weights_are_unpacked_for_an_npu_of_int8),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
