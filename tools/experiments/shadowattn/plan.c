// SPDX-License-Identifier: MIT
/*
 * The order of heads (3.4) for the last chunk of a prompt, policy by policy, over the layers of
 * some seeds. A row has means over these layers, but for
 *
 *	over, worst	the end over that of the best order (best) or, with too many heads to try
 *			all orders, over what no order of the same launches can be below (bound)
 *	plan, us	the longest time that a plan took on this host; of each the least of some
 *			repetitions, as the host has other work too
 *
 * Top-k has a core of its own, as algorithm 1 has it, or shares one with attention. All heads of a
 * layer, and its first eight, are planned.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "layers.h"
#include "tool.h"

#define SEEDS 20
#define REPETITIONS 5

static void head(void)
{
	puts("| soc | model | tokens | heads | top-k | policy | launches | NPU, ms | top-k, ms | "
	     "end, ms | times as fast | over | mean | worst | plan, us |\n"
	     "|---|---|---:|---:|---|---|---:|---:|---:|---:|---:|---|---:|---:|---:|");
}

/* Of one policy, over layers. */
struct tally {
	unsigned int n;
	double launches, plan_us; /* the most */
	struct head_plan_ends ends;
	double over, worst;
};

/* No order of these launches ends before. */
static double bound_ns(const struct head_plan_work *work, const struct head_plan *plan)
{
	double npu_ns = INFINITY, topk_ns = INFINITY, qkv_ns = INFINITY, both_ns = INFINITY;
	double all_npu_ns = 0, all_topk_ns = 0, all_qkv_ns = 0;

	for (unsigned int i = 0; i < plan->n_launches; i++) {
		double ns = work->npu_ns[plan->launches[i].n_heads - 1];

		npu_ns = fmin(npu_ns, ns);
		all_npu_ns += ns;
	}
	for (unsigned int i = 0; i < work->n_heads; i++) {
		const struct head_plan_head *h = &work->heads[i];

		topk_ns = fmin(topk_ns, h->topk_ns);
		qkv_ns = fmin(qkv_ns, h->qkv_ns);
		both_ns = fmin(both_ns, h->topk_ns + h->qkv_ns);
		all_topk_ns += h->topk_ns;
		all_qkv_ns += h->qkv_ns;
	}
	return fmax(all_npu_ns + both_ns,
		    npu_ns + fmax(topk_ns + all_qkv_ns, all_topk_ns + qkv_ns));
}

static int make_plan(struct head_plan *plan, const struct head_plan_work *work,
		     enum head_plan_policy policy, struct tally *tally)
{
	double least_us = INFINITY;

	for (int i = 0; i < REPETITIONS; i++) {
		uint64_t begin_ns = tool_now_ns();

		if (head_plan_make(plan, work, policy))
			return tool_fail("%s", llm_error());
		least_us = fmin(least_us, (double)(tool_now_ns() - begin_ns) / 1e3);
	}
	tally->plan_us = fmax(tally->plan_us, least_us);
	tally->launches += plan->n_launches;
	tally->ends.npu_ns += plan->ends.npu_ns;
	tally->ends.topk_ns += plan->ends.topk_ns;
	tally->ends.qkv_ns += plan->ends.qkv_ns;
	tally->n++;
	return 0;
}

static bool has_best(const struct head_plan_work *work)
{
	return work->n_heads <= HEAD_PLAN_EXHAUSTIVE;
}

/* All policies; @tallies by policy. */
static int add_layer(const struct head_plan_work *work, struct head_plan *plan,
		     struct tally tallies[HEAD_PLAN_NR_POLICIES])
{
	double ends[HEAD_PLAN_NR_POLICIES], least;
	int status = 0;

	for (int p = 0; p < HEAD_PLAN_NR_POLICIES - !has_best(work) && !status; p++) {
		status = make_plan(plan, work, p, &tallies[p]);
		ends[p] = plan->ends.qkv_ns;
	}
	if (status)
		return status;
	/* The last plan has fused launches. */
	least = has_best(work) ? ends[HEAD_PLAN_POLICY_EXHAUSTIVE] : bound_ns(work, plan);
	for (int p = HEAD_PLAN_POLICY_FUSED; p < HEAD_PLAN_NR_POLICIES - !has_best(work); p++) {
		tallies[p].over += ends[p] / least;
		tallies[p].worst = fmax(tallies[p].worst, ends[p] / least);
	}
	return 0;
}

/* The layers of one seed. */
static int add_layers(const struct layers_setting *setting, uint64_t seed,
		      struct tally tallies[HEAD_PLAN_NR_POLICIES])
{
	struct head_plan_head *heads = calloc(setting->n_heads, sizeof(*heads));
	struct head_launch *launches = calloc(setting->n_heads, sizeof(*launches));
	struct head_plan_work work = { .n_heads = setting->n_heads, .heads = heads };
	struct head_plan plan = { .launches = launches };
	struct layers layers = { 0 };
	int status = heads && launches ? layers_create(&layers, setting->place->shape, seed)
				       : tool_fail("no memory for a layer's heads");

	layers_set_npu(setting, work.npu_ns);
	for (unsigned int l = 0; l < setting->place->shape->layers && !status; l++) {
		layers_set_heads(setting, &layers, l, heads);
		status = add_layer(&work, &plan, tallies);
	}
	layers_free(&layers);
	free(heads);
	free(launches);
	return status;
}

static void print_row(const struct layers_setting *setting, enum head_plan_policy policy,
		      const struct tally *t, double sequential_ns)
{
	double n = t->n;

	printf("| %s | %s | %u | %u | %s | %s | %.1f | %.2f | %.2f | %.2f | %.2f | ",
	       setting->place->soc->name, setting->place->shape->name, setting->tokens,
	       setting->n_heads, setting->shared ? "shared core" : "own core",
	       head_plan_policy_name(policy), t->launches / n, t->ends.npu_ns / n / 1e6,
	       t->ends.topk_ns / n / 1e6, t->ends.qkv_ns / n / 1e6, sequential_ns / t->ends.qkv_ns);
	if (t->over > 0)
		printf("%s | %.4f | %.4f",
		       setting->n_heads <= HEAD_PLAN_EXHAUSTIVE ? "best" : "bound", t->over / n,
		       t->worst);
	else
		printf("| |");
	printf(" | %.1f |\n", t->plan_us);
}

static int put_setting(const struct layers_setting *setting)
{
	struct tally tallies[HEAD_PLAN_NR_POLICIES] = { 0 };
	int status = 0;

	for (uint64_t seed = 1; seed <= SEEDS && !status; seed++)
		status = add_layers(setting, seed, tallies);
	for (int p = 0; p < HEAD_PLAN_NR_POLICIES && !status; p++)
		if (tallies[p].n)
			print_row(setting, p, &tallies[p],
				  tallies[HEAD_PLAN_POLICY_SEQUENTIAL].ends.qkv_ns);
	return status;
}

static int put(const struct place *place)
{
	const struct range *tokens = &place->args->tokens;
	unsigned int all = place->shape->heads;
	int status = 0;

	for (size_t i = 0; i < tokens->n && !status; i++)
		for (int few = 0; few <= (all > HEAD_PLAN_EXHAUSTIVE); few++)
			for (int shared = 0; shared <= 1 && !status; shared++)
				status = put_setting(&(struct layers_setting){
					.place = place,
					.tokens = tokens->v[i],
					.n_heads = few ? HEAD_PLAN_EXHAUSTIVE : all,
					.shared = shared,
				});
	return status;
}

const struct command command_plan = { "plan", head, .put = put };
