// SPDX-License-Identifier: MIT
/* The best order of few heads, by trying all that could be better than the best so far. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "head_plan_private.h"

struct search {
	const struct head_plan_work *work;
	struct head_plan *best;
	/* An order that is being made: the launches before @at, and of that one the heads before
	 * @head, are in their places. */
	struct head_launch launches[HEAD_PLAN_EXHAUSTIVE];
	unsigned int at, head;
	double least_qkv_ns; /* of any head */
};

/* How far an order is. */
struct reached {
	struct head_plan_ends t; /* of what is in its place */
	struct head_plan_ends rest; /* what all else takes in each stage */
};

static void place_heads(struct search *s, struct reached r);

/* Whether an order that has reached this can end before the best one. */
static bool is_hopeful(const struct search *s, const struct reached *r)
{
	double qkv_ns = r->t.qkv_ns + r->rest.qkv_ns;
	double topk_ns =
		head_plan_later(r->t.topk_ns, r->t.npu_ns) + r->rest.topk_ns + s->least_qkv_ns;
	double npu_ns = r->t.npu_ns + r->rest.npu_ns + s->least_qkv_ns;

	return head_plan_later(qkv_ns, head_plan_later(topk_ns, npu_ns)) < s->best->ends.qkv_ns;
}

static void swap_launches(struct head_launch *a, struct head_launch *b)
{
	struct head_launch c = *a;

	*a = *b;
	*b = c;
}

static void swap_heads(uint16_t *a, uint16_t *b)
{
	uint16_t c = *a;

	*a = *b;
	*b = c;
}

/* Tries each launch that has no place yet as the next one. */
static void place_launches(struct search *s, const struct reached *r)
{
	struct head_launch *next = &s->launches[s->at];

	if (s->at == s->best->n_launches) {
		if (r->t.qkv_ns >= s->best->ends.qkv_ns)
			return;
		memcpy(s->best->launches, s->launches, s->at * sizeof(s->launches[0]));
		s->best->ends = r->t;
		return;
	}
	for (unsigned int i = s->at; i < s->best->n_launches; i++) {
		struct reached then = *r;

		swap_launches(next, &s->launches[i]);
		head_plan_launch(s->work, next->n_heads, &then.t);
		then.rest.npu_ns -= s->work->npu_ns[next->n_heads - 1];
		s->head = 0;
		place_heads(s, then);
		swap_launches(next, &s->launches[i]);
	}
}

/* Tries each head of the launch that has no place yet as the next one. */
static void place_heads(struct search *s, struct reached r)
{
	struct head_launch *launch = &s->launches[s->at];
	unsigned int head = s->head;

	if (head == launch->n_heads) {
		s->at++;
		place_launches(s, &r);
		s->at--;
		return;
	}
	for (unsigned int i = head; i < launch->n_heads && is_hopeful(s, &r); i++) {
		const struct head_plan_head *h = &s->work->heads[launch->heads[i]];
		struct reached then = r;

		head_plan_head(s->work, launch->heads[i], &then.t);
		then.rest.topk_ns -= h->topk_ns;
		then.rest.qkv_ns -= h->qkv_ns;
		swap_heads(&launch->heads[head], &launch->heads[i]);
		s->head = head + 1;
		place_heads(s, then);
		swap_heads(&launch->heads[head], &launch->heads[i]);
	}
}

void head_plan_exhaustive(struct head_plan *plan, const struct head_plan_work *work)
{
	struct search s = { .work = work, .best = plan, .least_qkv_ns = INFINITY };
	struct reached r = { 0 };

	memcpy(s.launches, plan->launches, plan->n_launches * sizeof(s.launches[0]));
	for (unsigned int i = 0; i < plan->n_launches; i++)
		r.rest.npu_ns += work->npu_ns[plan->launches[i].n_heads - 1];
	for (unsigned int i = 0; i < work->n_heads; i++) {
		r.rest.topk_ns += work->heads[i].topk_ns;
		r.rest.qkv_ns += work->heads[i].qkv_ns;
		s.least_qkv_ns = fmin(s.least_qkv_ns, work->heads[i].qkv_ns);
	}
	plan->ends.qkv_ns = INFINITY;
	place_launches(&s, &r);
}
