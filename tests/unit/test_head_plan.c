// SPDX-License-Identifier: MIT
/* Plans of heads: what all must keep, algorithm 1 line by line, and policies beside the best. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "head_plan.h"
#include "llm.h"
#include "npu_random.h"

#define MANY 40

/* A layer's heads, and room for a plan of them. */
struct layer {
	struct head_plan_head heads[MANY];
	struct head_plan_work work;
	struct head_launch launches[MANY];
	struct head_plan plan;
};

static void begin(struct layer *l, unsigned int n)
{
	memset(l, 0, sizeof(*l));
	l->work.n_heads = n;
	l->work.heads = l->heads;
	l->plan.launches = l->launches;
}

static double random_time(void)
{
	return random_in(1, 1000);
}

/* Graphs of 1, 2, 4 and 8 heads. */
static void set_graphs(struct layer *l, double start, double each)
{
	for (unsigned int n = 1; n <= HEAD_PLAN_MAX_FUSED; n *= 2)
		l->work.npu_ns[n - 1] = start + each * n;
}

static void fill_randomly(struct layer *l, unsigned int n)
{
	unsigned int buckets = random_in(1, 9);

	begin(l, n);
	set_graphs(l, random_time(), random_time() / 2);
	for (unsigned int i = 0; i < n; i++) {
		bool skewed = random_u32() % 4 == 0;

		l->heads[i] = (struct head_plan_head){
			.topk_ns = skewed ? 10 : random_time(),
			.qkv_ns = skewed ? 4 * random_time() : random_time(),
			.bucket = random_in(0, buckets - 1),
		};
	}
}

/* As the modelled phones have it: top-k takes every head the same time, attention a share that
 * varies threefold. */
static void fill_like_a_phone(struct layer *l, unsigned int n)
{
	unsigned int buckets = random_in(1, 9);

	begin(l, n);
	set_graphs(l, random_in(7, 14) * 100, 660);
	for (unsigned int i = 0; i < n; i++)
		l->heads[i] = (struct head_plan_head){
			.topk_ns = 400,
			.qkv_ns = 1000 * exp2(1.6 * random_float()),
			.bucket = random_in(0, buckets - 1),
		};
}

static double make(struct layer *l, enum head_plan_policy policy)
{
	if (head_plan_make(&l->plan, &l->work, policy))
		fail_msg("%s", llm_error());
	return l->plan.ends.qkv_ns;
}

/* ---- what every plan must keep ---- */

static void check_launches(const struct layer *l, bool fused)
{
	bool seen[MANY] = { false };
	unsigned int n = 0;

	for (unsigned int i = 0; i < l->plan.n_launches; i++) {
		const struct head_launch *launch = &l->launches[i];

		assert_in_range(launch->n_heads, 1, fused ? HEAD_PLAN_MAX_FUSED : 1);
		assert_true(l->work.npu_ns[launch->n_heads - 1] > 0);
		for (unsigned int h = 0; h < launch->n_heads; h++) {
			assert_in_range(launch->heads[h], 0, l->work.n_heads - 1);
			assert_false(seen[launch->heads[h]]);
			seen[launch->heads[h]] = true;
			assert_int_equal(l->heads[launch->heads[h]].bucket, launch->bucket);
			n++;
		}
	}
	assert_int_equal(n, l->work.n_heads);
}

/* The ends of the plan, stage by stage: equation 4, and each stage does one thing at a time. */
static void check_ends(const struct layer *l, bool overlap)
{
	double npu = 0, topk = 0, qkv = 0;

	for (unsigned int i = 0; i < l->plan.n_launches; i++) {
		const struct head_launch *launch = &l->launches[i];

		npu = (overlap ? npu : qkv) + l->work.npu_ns[launch->n_heads - 1];
		for (unsigned int h = 0; h < launch->n_heads; h++) {
			const struct head_plan_head *head = &l->heads[launch->heads[h]];

			topk = (topk > npu ? topk : npu) + head->topk_ns;
			qkv = (qkv > topk ? qkv : topk) + head->qkv_ns;
		}
	}
	assert_true(l->plan.ends.npu_ns == npu && l->plan.ends.topk_ns == topk &&
		    l->plan.ends.qkv_ns == qkv);
}

static void every_plan_has_each_head_once_and_keeps_the_dependencies(void **state)
{
	struct layer l;

	random_begin(__func__);
	for (int round = 0; round < 2000; round++) {
		enum head_plan_policy policy = round % HEAD_PLAN_NR_POLICIES;
		unsigned int most = policy == HEAD_PLAN_POLICY_EXHAUSTIVE ? 5 : MANY;

		fill_randomly(&l, random_in(1, most));
		make(&l, policy);
		check_launches(&l, policy >= HEAD_PLAN_POLICY_FUSED);
		check_ends(&l, policy != HEAD_PLAN_POLICY_SEQUENTIAL);
	}
}

static void heads_of_a_bucket_fill_the_greatest_graphs_in_their_order(void **state)
{
	static const unsigned int sizes[] = { 8, 4, 2, 1 };
	struct layer l;
	unsigned int next = 0;

	begin(&l, 18);
	set_graphs(&l, 10, 10);
	for (unsigned int i = 0; i < 18; i++)
		l.heads[i].bucket = i % 6 == 3 ? 7 : 2;
	make(&l, HEAD_PLAN_POLICY_FUSED);
	/* 15 heads of bucket 2, and then 3 of bucket 7: 2 and 1. */
	assert_int_equal(l.plan.n_launches, 6);
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(l.launches[i].n_heads, sizes[i]);
		for (unsigned int h = 0; h < sizes[i]; h++, next++) {
			next += next % 6 == 3;
			assert_int_equal(l.launches[i].heads[h], next);
		}
	}
	assert_int_equal(l.launches[4].n_heads, 2);
	assert_true(l.launches[4].heads[0] == 3 && l.launches[4].heads[1] == 9);
	assert_true(l.launches[5].n_heads == 1 && l.launches[5].heads[0] == 15);
	/* With a graph of 7 heads, and none of 8 */
	l.work.npu_ns[7] = 0;
	l.work.npu_ns[6] = 80;
	make(&l, HEAD_PLAN_POLICY_FUSED);
	assert_int_equal(l.launches[0].n_heads, 7);
	assert_int_equal(l.launches[1].n_heads, 7);
	assert_int_equal(l.launches[2].n_heads, 1);
}

/* ---- the policies ---- */

/* Two heads of one bucket, as in the paper's figure 9: each step ends earlier than that before. */
static void the_steps_of_figure_9(void **state)
{
	struct layer l;

	begin(&l, 2);
	l.work.npu_ns[0] = 40;
	l.work.npu_ns[1] = 50;
	l.heads[0] = (struct head_plan_head){ 10, 20, 0 };
	l.heads[1] = (struct head_plan_head){ 5, 20, 0 };
	assert_true(make(&l, HEAD_PLAN_POLICY_SEQUENTIAL) == 135);
	assert_true(make(&l, HEAD_PLAN_POLICY_OVERLAP) == 105);
	assert_true(make(&l, HEAD_PLAN_POLICY_FUSED) == 100);
	assert_true(make(&l, HEAD_PLAN_POLICY_GREEDY) == 95);
	assert_true(l.launches[0].heads[0] == 1 && l.launches[0].heads[1] == 0);
	assert_true(make(&l, HEAD_PLAN_POLICY_INSERTION) == 95);
	assert_true(make(&l, HEAD_PLAN_POLICY_EXHAUSTIVE) == 95);
}

static void overlap_never_ends_later_than_one_after_another(void **state)
{
	struct layer l;
	double sequential;

	random_begin(__func__);
	for (int round = 0; round < 500; round++) {
		fill_randomly(&l, random_in(1, MANY));
		sequential = make(&l, HEAD_PLAN_POLICY_SEQUENTIAL);
		assert_true(make(&l, HEAD_PLAN_POLICY_OVERLAP) <= sequential);
	}
}

static void fused_launches_never_take_the_npu_longer(void **state)
{
	struct layer l;
	double alone;

	random_begin(__func__);
	for (int round = 0; round < 500; round++) {
		fill_randomly(&l, random_in(1, MANY));
		make(&l, HEAD_PLAN_POLICY_OVERLAP);
		alone = l.plan.ends.npu_ns;
		make(&l, HEAD_PLAN_POLICY_FUSED);
		assert_true(l.plan.ends.npu_ns <= alone);
	}
}

/* Top-k and attention on one core: the plan says so if top-k's time is in attention's. */
static void one_core_does_both(void **state)
{
	struct layer l;
	double npu = 0, cpu = 0;

	random_begin(__func__);
	fill_randomly(&l, 12);
	for (int i = 0; i < 12; i++)
		l.heads[i].topk_ns = 0;
	make(&l, HEAD_PLAN_POLICY_INSERTION);
	for (unsigned int i = 0; i < l.plan.n_launches; i++) {
		npu += l.work.npu_ns[l.launches[i].n_heads - 1];
		for (unsigned int h = 0; h < l.launches[i].n_heads; h++)
			cpu = fmax(cpu, npu) + l.heads[l.launches[i].heads[h]].qkv_ns;
	}
	assert_true(l.plan.ends.qkv_ns == cpu);
}

/* ---- algorithm 1 as the paper has it ---- */

/* C/GPUPlan: lines 1 to 13, with @res [n] heads of the launch. */
static void papers_heads(const struct layer *l, double npu, double *topk, double *qkv,
			 const struct head_launch *launch, unsigned int *res)
{
	bool in_res[MANY] = { false };

	for (unsigned int step = 0; step < launch->n_heads; step++) {
		double t_min = INFINITY;
		unsigned int selected = 0;

		for (unsigned int i = 0; i < launch->n_heads; i++) {
			const struct head_plan_head *h = &l->heads[launch->heads[i]];
			double new_topk = fmax(npu, *topk) + h->topk_ns;
			double new_qkv = fmax(*qkv, new_topk) + h->qkv_ns;

			if (in_res[launch->heads[i]] || !(new_qkv < t_min))
				continue;
			t_min = new_qkv;
			selected = launch->heads[i];
		}
		in_res[selected] = true;
		res[step] = selected;
		*topk = fmax(npu, *topk) + l->heads[selected].topk_ns;
		*qkv = fmax(*qkv, *topk) + l->heads[selected].qkv_ns;
	}
}

/* Plan: lines 14 to 28, after the launches @l->launches are made. Writes the heads' order. */
static double papers_plan(const struct layer *l, unsigned int res[MANY])
{
	double npu = 0, topk = 0, qkv = 0;
	bool in_res[MANY] = { false };
	unsigned int n = 0;

	for (unsigned int step = 0; step < l->plan.n_launches; step++) {
		double t_min = INFINITY;
		unsigned int selected = 0;

		for (unsigned int i = 0; i < l->plan.n_launches; i++) {
			double new_npu = npu + l->work.npu_ns[l->launches[i].n_heads - 1];
			double new_topk = topk, new_qkv = qkv;

			papers_heads(l, new_npu, &new_topk, &new_qkv, &l->launches[i], &res[n]);
			if (in_res[i] || !(new_qkv < t_min))
				continue;
			t_min = new_qkv;
			selected = i;
		}
		in_res[selected] = true;
		npu += l->work.npu_ns[l->launches[selected].n_heads - 1];
		papers_heads(l, npu, &topk, &qkv, &l->launches[selected], &res[n]);
		n += l->launches[selected].n_heads;
	}
	return qkv;
}

static void greedy_is_the_papers_algorithm(void **state)
{
	unsigned int res[MANY + HEAD_PLAN_MAX_FUSED];
	struct layer l;

	random_begin(__func__);
	for (int round = 0; round < 1000; round++) {
		unsigned int next = 0;
		double end;

		if (round % 2)
			fill_like_a_phone(&l, random_in(1, MANY));
		else
			fill_randomly(&l, random_in(1, MANY));
		make(&l, HEAD_PLAN_POLICY_FUSED);
		end = papers_plan(&l, res);
		assert_true(make(&l, HEAD_PLAN_POLICY_GREEDY) == end);
		for (unsigned int i = 0; i < l.plan.n_launches; i++)
			for (unsigned int h = 0; h < l.launches[i].n_heads; h++)
				assert_int_equal(l.launches[i].heads[h], res[next++]);
	}
}

/* ---- beside the best order ---- */

/* Whether no launch begins before the one before it has all its heads. */
static bool keeps_launches(const struct layer *l, const unsigned int *order,
			   const unsigned int launch_of[MANY])
{
	unsigned int in_launch = 0;

	for (unsigned int i = 0; i < l->work.n_heads; i++) {
		if (i == 0 || launch_of[order[i]] != launch_of[order[i - 1]]) {
			if (in_launch)
				return false;
			in_launch = l->launches[launch_of[order[i]]].n_heads;
		}
		in_launch--;
	}
	return true;
}

static double end_of(const struct layer *l, const unsigned int *order,
		     const unsigned int launch_of[MANY])
{
	double npu = 0, topk = 0, qkv = 0;

	for (unsigned int i = 0; i < l->work.n_heads; i++) {
		unsigned int launch = launch_of[order[i]];

		if (i == 0 || launch != launch_of[order[i - 1]])
			npu += l->work.npu_ns[l->launches[launch].n_heads - 1];
		topk = fmax(npu, topk) + l->heads[order[i]].topk_ns;
		qkv = fmax(qkv, topk) + l->heads[order[i]].qkv_ns;
	}
	return qkv;
}

/* The best of all orders of the heads, from @at on, that the launches allow. */
static double best_order(const struct layer *l, unsigned int *order, unsigned int at,
			 const unsigned int launch_of[MANY])
{
	double best = INFINITY;

	if (at == l->work.n_heads)
		return keeps_launches(l, order, launch_of) ? end_of(l, order, launch_of) : INFINITY;
	for (unsigned int i = at; i < l->work.n_heads; i++) {
		unsigned int head = order[i];

		order[i] = order[at];
		order[at] = head;
		best = fmin(best, best_order(l, order, at + 1, launch_of));
		order[at] = order[i];
		order[i] = head;
	}
	return best;
}

static void no_order_of_the_launches_ends_before_the_exhaustive_one(void **state)
{
	unsigned int order[MANY], launch_of[MANY];
	struct layer l;

	random_begin(__func__);
	for (int round = 0; round < 1000; round++) {
		double best;

		fill_randomly(&l, random_in(1, 6));
		make(&l, HEAD_PLAN_POLICY_FUSED);
		for (unsigned int i = 0; i < l.work.n_heads; i++)
			order[i] = i;
		for (unsigned int i = 0; i < l.plan.n_launches; i++)
			for (unsigned int h = 0; h < l.launches[i].n_heads; h++)
				launch_of[l.launches[i].heads[h]] = i;
		best = best_order(&l, order, 0, launch_of);
		assert_float_equal(make(&l, HEAD_PLAN_POLICY_EXHAUSTIVE) / best, 1, 1e-12);
	}
}

struct ratios {
	double sum, worst;
	unsigned int n, beyond; /* 5 % */
};

static void add(struct ratios *r, double ratio)
{
	r->sum += ratio;
	r->worst = fmax(r->worst, ratio);
	r->beyond += ratio > 1.05;
	r->n++;
}

static void say(const char *what, const struct ratios *r)
{
	print_message("%-22s mean %.4f, worst %.4f, %.2f %% beyond 1.05\n", what, r->sum / r->n,
		      r->worst, 100.0 * r->beyond / r->n);
}

/* The policies over the best order, for up to 8 heads. */
static void compare(void (*fill)(struct layer *l, unsigned int n), struct ratios *greedy,
		    struct ratios *insertion)
{
	struct layer l;

	for (int round = 0; round < 3000; round++) {
		double best;

		fill(&l, random_in(1, HEAD_PLAN_EXHAUSTIVE));
		best = make(&l, HEAD_PLAN_POLICY_EXHAUSTIVE);
		assert_true(best <= make(&l, HEAD_PLAN_POLICY_FUSED) * (1 + 1e-12));
		add(greedy, make(&l, HEAD_PLAN_POLICY_GREEDY) / best);
		add(insertion, make(&l, HEAD_PLAN_POLICY_INSERTION) / best);
	}
	assert_true(greedy->sum / greedy->n >= 1 && insertion->sum / insertion->n >= 1 - 1e-12);
}

static void insertion_is_within_5_percent_of_the_best_on_a_phone(void **state)
{
	struct ratios greedy = { 0 }, insertion = { 0 };

	random_begin(__func__);
	compare(fill_like_a_phone, &greedy, &insertion);
	say("like a phone, greedy", &greedy);
	say("insertion", &insertion);
	assert_true(insertion.worst < 1.05);
	assert_true(insertion.sum / insertion.n < 1.001);
}

static void insertion_is_near_the_best_for_any_times(void **state)
{
	struct ratios greedy = { 0 }, insertion = { 0 };

	random_begin(__func__);
	compare(fill_randomly, &greedy, &insertion);
	say("any times, greedy", &greedy);
	say("insertion", &insertion);
	assert_true(insertion.sum / insertion.n < 1.005 && insertion.worst < 1.25);
	assert_true(insertion.beyond < insertion.n / 40);
}

/* ---- bad input ---- */

static void refused(struct layer *l, enum head_plan_policy policy, const char *why)
{
	assert_int_equal(head_plan_make(&l->plan, &l->work, policy), -EINVAL);
	if (!strstr(llm_error(), why))
		fail_msg("'%s' has no '%s'", llm_error(), why);
}

static void bad_work_is_refused(void **state)
{
	static const double times[] = { -1, NAN, INFINITY };
	struct layer l;

	begin(&l, 0);
	set_graphs(&l, 1, 1);
	refused(&l, HEAD_PLAN_POLICY_GREEDY, "0 heads");
	begin(&l, HEAD_PLAN_EXHAUSTIVE + 1);
	set_graphs(&l, 1, 1);
	refused(&l, HEAD_PLAN_POLICY_EXHAUSTIVE, "9 heads: policy exhaustive plans 1 to 8");
	make(&l, HEAD_PLAN_POLICY_INSERTION);
	l.work.npu_ns[0] = 0;
	refused(&l, HEAD_PLAN_POLICY_GREEDY, "no graph");
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		set_graphs(&l, 1, 1);
		l.work.npu_ns[2] = times[i];
		refused(&l, HEAD_PLAN_POLICY_GREEDY, "an estimate of 3 heads");
		l.work.npu_ns[2] = 0;
		l.heads[8].topk_ns = times[i];
		refused(&l, HEAD_PLAN_POLICY_FUSED, "head 8");
		l.heads[8].topk_ns = 0;
		l.heads[8].qkv_ns = times[i];
		refused(&l, HEAD_PLAN_POLICY_OVERLAP, "head 8");
		l.heads[8].qkv_ns = 0;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_plan_has_each_head_once_and_keeps_the_dependencies),
		cmocka_unit_test(heads_of_a_bucket_fill_the_greatest_graphs_in_their_order),
		cmocka_unit_test(the_steps_of_figure_9),
		cmocka_unit_test(overlap_never_ends_later_than_one_after_another),
		cmocka_unit_test(fused_launches_never_take_the_npu_longer),
		cmocka_unit_test(one_core_does_both),
		cmocka_unit_test(greedy_is_the_papers_algorithm),
		cmocka_unit_test(no_order_of_the_launches_ends_before_the_exhaustive_one),
		cmocka_unit_test(insertion_is_within_5_percent_of_the_best_on_a_phone),
		cmocka_unit_test(insertion_is_near_the_best_for_any_times),
		cmocka_unit_test(bad_work_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
