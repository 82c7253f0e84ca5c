// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit suites of the driver's pure parts: rings, slots and tags, address spaces. The sources are
 * included, not linked, so that the module needs no device, does not depend on vnpu.ko, and can be
 * loaded beside it.
 */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "vnpu_ring.c"
#include "vnpu_space.c"

/* ---- rings ---- */

#define ENTRIES 8u

struct ring_fixture {
	struct vnpu_ring ring;
	struct vnpu_fw_info info;
	struct vnpu_fw_ctl ctl;
	struct vnpu_fw_sqe sq[ENTRIES];
	struct vnpu_fw_cqe cq[ENTRIES];
};

static struct ring_fixture *ring_make(struct kunit *test, u32 start)
{
	struct ring_fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	f->ring = (struct vnpu_ring){
		.info = &f->info,
		.ctl = &f->ctl,
		.sq = f->sq,
		.cq = f->cq,
		.sq_entries = ENTRIES,
		.cq_entries = ENTRIES,
	};
	vnpu_ring_reset(&f->ring);
	/* As if that many entries had passed through. */
	f->ring.sq_tail = f->info.sq_tail = f->ctl.sq_head = start;
	f->ring.cq_head = f->info.cq_head = f->ctl.cq_tail = start;
	return f;
}

static void ring_reset_forgets_indices(struct kunit *test)
{
	struct ring_fixture *f = ring_make(test, 77);

	vnpu_ring_reset(&f->ring);
	KUNIT_EXPECT_EQ(test, f->ring.sq_tail, 0u);
	KUNIT_EXPECT_EQ(test, f->ring.cq_head, 0u);
	KUNIT_EXPECT_EQ(test, f->info.sq_tail, 0u);
	KUNIT_EXPECT_EQ(test, f->info.cq_head, 0u);
	KUNIT_EXPECT_EQ(test, f->ctl.sq_head, 0u);
	KUNIT_EXPECT_EQ(test, f->ctl.cq_tail, 0u);
	KUNIT_EXPECT_FALSE(test, vnpu_ring_readable(&f->ring));
}

static void ring_push_stops_when_full(struct kunit *test)
{
	struct ring_fixture *f = ring_make(test, U32_MAX - 3); /* the indices wrap */
	struct vnpu_fw_sqe sqe = {};

	for (u32 i = 0; i < ENTRIES; i++) {
		sqe.tag = i;
		KUNIT_EXPECT_TRUE(test, vnpu_ring_push(&f->ring, &sqe));
	}
	KUNIT_EXPECT_FALSE(test, vnpu_ring_push(&f->ring, &sqe));
	KUNIT_EXPECT_EQ(test, f->info.sq_tail, U32_MAX - 3 + ENTRIES);
	for (u32 i = 0; i < ENTRIES; i++)
		KUNIT_EXPECT_EQ(test, f->sq[(U32_MAX - 3 + i) % ENTRIES].tag, (u64)i);
	f->ctl.sq_head++;
	KUNIT_EXPECT_TRUE(test, vnpu_ring_push(&f->ring, &sqe));
	KUNIT_EXPECT_FALSE(test, vnpu_ring_push(&f->ring, &sqe));
}

static void ring_push_treats_an_invalid_head_as_full(struct kunit *test)
{
	struct ring_fixture *f = ring_make(test, 5);
	struct vnpu_fw_sqe sqe = {};

	f->ctl.sq_head = 6; /* ahead of the tail */
	KUNIT_EXPECT_FALSE(test, vnpu_ring_push(&f->ring, &sqe));
	f->ctl.sq_head = 5 - ENTRIES - 1; /* behind by more than the ring holds */
	KUNIT_EXPECT_FALSE(test, vnpu_ring_push(&f->ring, &sqe));
	KUNIT_EXPECT_EQ(test, f->info.sq_tail, 5u);
}

static void ring_pending_refuses_indices_out_of_bounds(struct kunit *test)
{
	struct ring_fixture *f = ring_make(test, U32_MAX - 1);

	KUNIT_EXPECT_EQ(test, vnpu_ring_pending(&f->ring), 0);
	f->ctl.cq_tail += ENTRIES;
	KUNIT_EXPECT_EQ(test, vnpu_ring_pending(&f->ring), (int)ENTRIES);
	f->ctl.cq_tail++;
	KUNIT_EXPECT_EQ(test, vnpu_ring_pending(&f->ring), -EPROTO);
	f->ctl.cq_tail = f->ring.cq_head - 1; /* backwards */
	KUNIT_EXPECT_EQ(test, vnpu_ring_pending(&f->ring), -EPROTO);
	f->ctl.cq_tail = f->ring.cq_head;
	f->ctl.sq_head++; /* took an entry that does not exist */
	KUNIT_EXPECT_EQ(test, vnpu_ring_pending(&f->ring), -EPROTO);
}

static void ring_pop_copies_in_order_and_gives_back_on_commit(struct kunit *test)
{
	struct ring_fixture *f = ring_make(test, U32_MAX - 2);
	struct vnpu_fw_cqe cqe;

	for (u32 i = 0; i < ENTRIES; i++)
		f->cq[(U32_MAX - 2 + i) % ENTRIES] = (struct vnpu_fw_cqe){
			.type = VNPU_FW_CQE_DONE,
			.status = i,
			.tag = 100 + i,
			.busy_ns = i * i,
			.fault_va = ~(u64)i,
			.flags = i & 1,
		};
	f->ctl.cq_tail += ENTRIES;
	for (u32 i = 0; i < ENTRIES; i++) {
		KUNIT_EXPECT_EQ(test, vnpu_ring_pending(&f->ring), (int)(ENTRIES - i));
		vnpu_ring_pop(&f->ring, &cqe);
		KUNIT_EXPECT_EQ(test, cqe.type, (u32)VNPU_FW_CQE_DONE);
		KUNIT_EXPECT_EQ(test, cqe.status, i);
		KUNIT_EXPECT_EQ(test, cqe.tag, 100ull + i);
		KUNIT_EXPECT_EQ(test, cqe.busy_ns, (u64)i * i);
		KUNIT_EXPECT_EQ(test, cqe.fault_va, ~(u64)i);
		KUNIT_EXPECT_EQ(test, cqe.flags, i & 1);
	}
	KUNIT_EXPECT_EQ(test, f->info.cq_head, U32_MAX - 2);
	vnpu_ring_commit(&f->ring);
	KUNIT_EXPECT_EQ(test, f->info.cq_head, U32_MAX - 2 + ENTRIES);
}

static void cqe_with_unknown_fields_is_malformed(struct kunit *test)
{
	struct vnpu_fw_cqe cqe = { .type = VNPU_FW_CQE_DONE, .flags = VNPU_FW_CQE_FAULT_WRITE };

	KUNIT_EXPECT_TRUE(test, vnpu_cqe_well_formed(&cqe));
	for (u32 bit = 1; bit < 32; bit++) {
		cqe.flags = BIT(bit);
		KUNIT_EXPECT_FALSE(test, vnpu_cqe_well_formed(&cqe));
	}
	cqe.flags = 0;
	cqe.pad = 1;
	KUNIT_EXPECT_FALSE(test, vnpu_cqe_well_formed(&cqe));
	cqe.pad = 0;
	for (int i = 0; i < ARRAY_SIZE(cqe.reserved); i++) {
		cqe.reserved[i] = 1ull << 63;
		KUNIT_EXPECT_FALSE(test, vnpu_cqe_well_formed(&cqe));
		cqe.reserved[i] = 0;
	}
	KUNIT_EXPECT_TRUE(test, vnpu_cqe_well_formed(&cqe));
}

static struct kunit_case ring_cases[] = {
	KUNIT_CASE(ring_reset_forgets_indices),
	KUNIT_CASE(ring_push_stops_when_full),
	KUNIT_CASE(ring_push_treats_an_invalid_head_as_full),
	KUNIT_CASE(ring_pending_refuses_indices_out_of_bounds),
	KUNIT_CASE(ring_pop_copies_in_order_and_gives_back_on_commit),
	KUNIT_CASE(cqe_with_unknown_fields_is_malformed),
	{},
};

static struct kunit_suite ring_suite = { .name = "vnpu_ring", .test_cases = ring_cases };

/* ---- slots and tags ---- */

#define DEPTH 4u

static struct vnpu_hwq *hwq_make(struct kunit *test, u32 start)
{
	struct vnpu_hwq *hwq = kunit_kzalloc(test, sizeof(*hwq), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, hwq);
	hwq->head = hwq->tail = hwq->acked = start;
	return hwq;
}

static void tag_names_slot_and_number(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, vnpu_tag(3, 9), 0x300000009ull);
	KUNIT_EXPECT_EQ(test, vnpu_tag_hwq(vnpu_tag(1023, U32_MAX)), 1023u);
	KUNIT_EXPECT_EQ(test, (u32)vnpu_tag(1023, U32_MAX), U32_MAX);
}

static void hwq_counts_what_the_device_holds(struct kunit *test)
{
	struct vnpu_hwq *hwq = hwq_make(test, U32_MAX - 1);

	KUNIT_EXPECT_FALSE(test, vnpu_hwq_live(hwq));
	hwq->tail += DEPTH; /* wraps */
	KUNIT_EXPECT_EQ(test, vnpu_hwq_held(hwq), DEPTH);
	for (u32 i = 0; i < DEPTH; i++) {
		KUNIT_EXPECT_TRUE(test, vnpu_hwq_live(hwq));
		hwq->head++;
	}
	KUNIT_EXPECT_FALSE(test, vnpu_hwq_live(hwq));
	KUNIT_EXPECT_FALSE(test, vnpu_hwq_answered(hwq));
}

static void hwq_answers_only_the_oldest_live_job(struct kunit *test)
{
	struct vnpu_hwq *hwq = hwq_make(test, U32_MAX);

	hwq->tail += 2;
	/* The second one, out of order. */
	KUNIT_EXPECT_EQ(test, (int)vnpu_hwq_answer(hwq, 0), (int)VNPU_HWQ_STALE);
	/* Not submitted yet. */
	KUNIT_EXPECT_EQ(test, (int)vnpu_hwq_answer(hwq, 1), (int)VNPU_HWQ_STALE);
	/* Answered long ago. */
	KUNIT_EXPECT_EQ(test, (int)vnpu_hwq_answer(hwq, U32_MAX - 1), (int)VNPU_HWQ_STALE);
	KUNIT_EXPECT_EQ(test, (int)vnpu_hwq_answer(hwq, U32_MAX), (int)VNPU_HWQ_LIVE);
	KUNIT_EXPECT_EQ(test, vnpu_hwq_held(hwq), 1u);
	KUNIT_EXPECT_EQ(test, (int)vnpu_hwq_answer(hwq, U32_MAX), (int)VNPU_HWQ_STALE); /* twice */
	KUNIT_EXPECT_EQ(test, (int)vnpu_hwq_answer(hwq, 0), (int)VNPU_HWQ_LIVE);
	KUNIT_EXPECT_TRUE(test, vnpu_hwq_answered(hwq));
}

static void hwq_is_free_when_given_up_jobs_are_answered(struct kunit *test)
{
	struct vnpu_hwq *hwq = hwq_make(test, 10);

	hwq->tail += 2;
	hwq->head += 2;
	KUNIT_EXPECT_FALSE(test, vnpu_hwq_live(hwq));
	KUNIT_EXPECT_FALSE(test, vnpu_hwq_answered(hwq));
	KUNIT_EXPECT_EQ(test, (int)vnpu_hwq_answer(hwq, 10), (int)VNPU_HWQ_GIVEN_UP);
	KUNIT_EXPECT_FALSE(test, vnpu_hwq_answered(hwq));
	KUNIT_EXPECT_EQ(test, (int)vnpu_hwq_answer(hwq, 10), (int)VNPU_HWQ_STALE);
	KUNIT_EXPECT_EQ(test, (int)vnpu_hwq_answer(hwq, 11), (int)VNPU_HWQ_GIVEN_UP);
	KUNIT_EXPECT_TRUE(test, vnpu_hwq_answered(hwq));
}

static void hwq_owes_nothing_after_forget(struct kunit *test)
{
	struct vnpu_hwq *hwq = hwq_make(test, 0);

	hwq->tail++;
	hwq->head++;
	vnpu_hwq_forget(hwq);
	KUNIT_EXPECT_TRUE(test, vnpu_hwq_answered(hwq));
	KUNIT_EXPECT_EQ(test, (int)vnpu_hwq_answer(hwq, 0), (int)VNPU_HWQ_STALE);
}

/* Random jobs, cancellations and answers, checked against a model that remembers every job. */
static void hwq_follows_the_model(struct kunit *test)
{
	enum state { FREE, LIVE, GIVEN_UP, ANSWERED };
	enum state *model;
	u32 seed = get_random_u32(), first, next, start, n, jobs = 4000;
	struct rnd_state rnd;
	struct vnpu_hwq *hwq;

	prandom_seed_state(&rnd, seed);
	kunit_info(test, "seed %#x\n", seed);
	model = kunit_kcalloc(test, jobs, sizeof(*model), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, model);
	start = U32_MAX - jobs / 2;
	hwq = hwq_make(test, start);
	for (first = next = 0; next < jobs;) {
		for (n = first; n < next && model[n] != LIVE; n++)
			;
		KUNIT_ASSERT_EQ(test, vnpu_hwq_held(hwq), next - n);
		switch (prandom_u32_state(&rnd) % 4) {
		case 0: /* a new job */
			if (next - n == DEPTH)
				break;
			hwq->tail++;
			model[next++] = LIVE;
			break;
		case 1: /* give up the oldest */
			if (n == next)
				break;
			hwq->head++;
			model[n] = GIVEN_UP;
			break;
		default: { /* an answer for any nearby job */
			u32 job = first + prandom_u32_state(&rnd) % (next - first + 3);
			enum vnpu_hwq_match is = vnpu_hwq_answer(hwq, start + job);
			enum vnpu_hwq_match want = VNPU_HWQ_STALE;

			if (job < next && model[job] == GIVEN_UP)
				want = VNPU_HWQ_GIVEN_UP;
			else if (n < next && job == n)
				want = VNPU_HWQ_LIVE;
			KUNIT_ASSERT_EQ(test, (int)is, (int)want);
			/* The answer to a job covers all jobs before it. */
			for (u32 i = first; want != VNPU_HWQ_STALE && i <= job; i++)
				model[i] = ANSWERED;
			break;
		}
		}
		while (first < next && model[first] == ANSWERED)
			first++;
		KUNIT_ASSERT_EQ(test, vnpu_hwq_answered(hwq), first == next);
	}
}

static struct kunit_case hwq_cases[] = {
	KUNIT_CASE(tag_names_slot_and_number),
	KUNIT_CASE(hwq_counts_what_the_device_holds),
	KUNIT_CASE(hwq_answers_only_the_oldest_live_job),
	KUNIT_CASE(hwq_is_free_when_given_up_jobs_are_answered),
	KUNIT_CASE(hwq_owes_nothing_after_forget),
	KUNIT_CASE(hwq_follows_the_model),
	{},
};

static struct kunit_suite hwq_suite = { .name = "vnpu_hwq", .test_cases = hwq_cases };

/* ---- addresses ---- */

#define VA_BITS 30u
#define PAGES 64u /* used by the random test */
#define AT(page) (VNPU_VA_START + (u64)(page)*PAGE_SIZE)

static struct drm_vnpu_bind_op op_map(u64 page, u64 nr)
{
	return (struct drm_vnpu_bind_op){
		.op = DRM_VNPU_BIND_MAP, .handle = 1, .va = AT(page), .size = nr * PAGE_SIZE
	};
}

static struct drm_vnpu_bind_op op_unmap(u64 page, u64 nr)
{
	return (struct drm_vnpu_bind_op){ .op = DRM_VNPU_BIND_UNMAP,
					  .va = AT(page),
					  .size = nr * PAGE_SIZE };
}

/* One operation; *out gets the binding that an UNMAP removes. */
static int bind_one(struct vnpu_space *space, struct drm_vnpu_bind_op op, struct vnpu_binding *in,
		    struct vnpu_binding **out)
{
	struct vnpu_bind_step step = { .map = op.op == DRM_VNPU_BIND_MAP, .binding = in };
	int ret = vnpu_space_commit(space, &op, &step, 1);

	if (out)
		*out = step.binding;
	return ret;
}

static struct vnpu_binding *bound_at(struct vnpu_space *space, u64 page)
{
	return vnpu_space_find(space, (VNPU_VA_START >> PAGE_SHIFT) + page);
}

static void space_check_refuses_each_bad_field(struct kunit *test)
{
	const struct drm_vnpu_bind_op good_map = op_map(0, 2), good_unmap = op_unmap(0, 2);
	struct vnpu_space space = { .va_bits = VA_BITS };
	struct drm_vnpu_bind_op op;

	KUNIT_EXPECT_EQ(test, vnpu_space_check(&space, &good_map), 0);
	KUNIT_EXPECT_EQ(test, vnpu_space_check(&space, &good_unmap), 0);
#define REFUSED(from, field, value)                                            \
	do {                                                                   \
		op = from;                                                     \
		op.field = value;                                              \
		KUNIT_EXPECT_EQ(test, vnpu_space_check(&space, &op), -EINVAL); \
	} while (0)
	REFUSED(good_map, op, 2);
	REFUSED(good_map, op, U32_MAX);
	REFUSED(good_map, pad, 1);
	REFUSED(good_map, size, 0);
	REFUSED(good_map, size, 1);
	REFUSED(good_map, size, PAGE_SIZE + 8);
	REFUSED(good_map, size, 1ull << VA_BITS);
	REFUSED(good_map, size, -(u64)PAGE_SIZE); /* wraps */
	REFUSED(good_map, va, VNPU_VA_START - PAGE_SIZE);
	REFUSED(good_map, va, 0);
	REFUSED(good_map, va, VNPU_VA_START + 1);
	REFUSED(good_map, va, (1ull << VA_BITS) - PAGE_SIZE); /* its second page is out of range */
	REFUSED(good_map, va, -(u64)PAGE_SIZE);
	REFUSED(good_map, bo_offset, 1);
	for (u32 bit = 1; bit < 32; bit++)
		REFUSED(good_map, flags, BIT(bit));
	for (u32 bit = 0; bit < 32; bit++)
		REFUSED(good_unmap, flags, BIT(bit));
	REFUSED(good_unmap, handle, 1);
	REFUSED(good_unmap, bo_offset, PAGE_SIZE);
#undef REFUSED
	op = good_map;
	op.flags = DRM_VNPU_BIND_READ_ONLY;
	KUNIT_EXPECT_EQ(test, vnpu_space_check(&space, &op), 0);
	op = good_map;
	op.va = (1ull << VA_BITS) - op.size;
	KUNIT_EXPECT_EQ(test, vnpu_space_check(&space, &op), 0);
}

static void space_unmap_must_match_a_map(struct kunit *test)
{
	struct vnpu_binding a = {}, *out;
	struct vnpu_space space;

	vnpu_space_init(&space, VA_BITS);
	KUNIT_ASSERT_EQ(test, bind_one(&space, op_map(4, 4), &a, NULL), 0);
	KUNIT_EXPECT_EQ(test, bind_one(&space, op_unmap(4, 3), NULL, NULL), -ENOENT);
	KUNIT_EXPECT_EQ(test, bind_one(&space, op_unmap(5, 3), NULL, NULL), -ENOENT);
	KUNIT_EXPECT_EQ(test, bind_one(&space, op_unmap(4, 5), NULL, NULL), -ENOENT);
	KUNIT_EXPECT_EQ(test, bind_one(&space, op_unmap(0, 4), NULL, NULL), -ENOENT);
	KUNIT_EXPECT_PTR_EQ(test, bound_at(&space, 4), &a);
	KUNIT_EXPECT_PTR_EQ(test, bound_at(&space, 7), &a);
	KUNIT_EXPECT_NULL(test, bound_at(&space, 3));
	KUNIT_EXPECT_NULL(test, bound_at(&space, 8));
	KUNIT_EXPECT_EQ(test, bind_one(&space, op_unmap(4, 4), NULL, &out), 0);
	KUNIT_EXPECT_PTR_EQ(test, out, &a);
	KUNIT_EXPECT_NULL(test, bound_at(&space, 4));
	vnpu_space_fini(&space);
}

static void space_batch_that_fails_changes_nothing(struct kunit *test)
{
	/* Not on the stack, which KUnit's checks fill. */
	struct vnpu_binding *bindings = kunit_kcalloc(test, 4, sizeof(*bindings), GFP_KERNEL);
	struct vnpu_binding *a = bindings, *b = bindings + 1, *c = bindings + 2, *d = bindings + 3;
	struct vnpu_bind_step steps[4] = {};
	struct drm_vnpu_bind_op ops[4];
	struct vnpu_space space;
	LIST_HEAD(gone);

	KUNIT_ASSERT_NOT_NULL(test, bindings);
	vnpu_space_init(&space, VA_BITS);
	KUNIT_ASSERT_EQ(test, bind_one(&space, op_map(0, 2), a, NULL), 0);
	KUNIT_ASSERT_EQ(test, bind_one(&space, op_map(2, 2), b, NULL), 0);
	/* a is unmapped, c takes its place, b is unmapped, d collides with c. */
	ops[0] = op_unmap(0, 2);
	ops[1] = op_map(0, 2), steps[1] = (struct vnpu_bind_step){ .map = true, .binding = c };
	ops[2] = op_unmap(2, 2);
	ops[3] = op_map(1, 3), steps[3] = (struct vnpu_bind_step){ .map = true, .binding = d };
	KUNIT_EXPECT_EQ(test, vnpu_space_commit(&space, ops, steps, 4), -ENOSPC);
	KUNIT_EXPECT_PTR_EQ(test, bound_at(&space, 0), a);
	KUNIT_EXPECT_PTR_EQ(test, bound_at(&space, 1), a);
	KUNIT_EXPECT_PTR_EQ(test, bound_at(&space, 2), b);
	KUNIT_EXPECT_PTR_EQ(test, bound_at(&space, 3), b);
	for (int i = 0; i < 4; i++)
		KUNIT_EXPECT_FALSE(test, steps[i].done);
	/* Without the collision the same batch succeeds. */
	ops[3] = op_map(2, 3);
	KUNIT_EXPECT_EQ(test, vnpu_space_commit(&space, ops, steps, 4), 0);
	KUNIT_EXPECT_PTR_EQ(test, steps[0].binding, a);
	KUNIT_EXPECT_PTR_EQ(test, steps[2].binding, b);
	KUNIT_EXPECT_PTR_EQ(test, bound_at(&space, 1), c);
	KUNIT_EXPECT_PTR_EQ(test, bound_at(&space, 4), d);
	vnpu_space_clear(&space, &gone, U32_MAX);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&gone), (size_t)2);
	vnpu_space_fini(&space);
}

/* Random batches, checked against an array of pages. */
static void space_follows_the_model(struct kunit *test)
{
	struct vnpu_binding *pool, **model, **copy;
	u32 seed = get_random_u32(), nr;
	struct drm_vnpu_bind_op ops[6];
	struct vnpu_bind_step steps[6];
	struct vnpu_space space;
	struct rnd_state rnd;
	LIST_HEAD(gone);
	int want;

	prandom_seed_state(&rnd, seed);
	kunit_info(test, "seed %#x\n", seed);
	pool = kunit_kcalloc(test, PAGES + ARRAY_SIZE(ops), sizeof(*pool), GFP_KERNEL);
	model = kunit_kcalloc(test, PAGES, sizeof(*model), GFP_KERNEL);
	copy = kunit_kcalloc(test, PAGES, sizeof(*copy), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, pool && model && copy);
	vnpu_space_init(&space, VA_BITS);
	for (u32 round = 0; round < 5000; round++) {
		memcpy(copy, model, PAGES * sizeof(*model));
		memset(steps, 0, sizeof(steps));
		nr = 1 + prandom_u32_state(&rnd) % ARRAY_SIZE(ops);
		want = 0;
		for (u32 i = 0; i < nr; i++) {
			u32 page = prandom_u32_state(&rnd) % PAGES,
			    len = 1 + prandom_u32_state(&rnd) % 4, p;

			len = min(len, PAGES - page);
			if (prandom_u32_state(&rnd) % 2) {
				struct vnpu_binding *b = pool;

				/* A binding that is neither bound nor in this batch. */
				while (drm_mm_node_allocated(&b->node) || b->link.next)
					b++;
				b->link.next = &b->link;
				ops[i] = op_map(page, len);
				steps[i] = (struct vnpu_bind_step){ .map = true, .binding = b };
				for (p = page; p < page + len && !copy[p]; p++)
					;
				if (!want && p < page + len)
					want = -ENOSPC;
				if (!want)
					for (p = page; p < page + len; p++)
						copy[p] = b;
			} else {
				struct vnpu_binding *b = copy[page];
				u32 from = page, to = page;

				ops[i] = op_unmap(page, len);
				while (b && from && copy[from - 1] == b)
					from--;
				while (b && to < PAGES && copy[to] == b)
					to++;
				if (!want && (!b || from != page || to - from != len))
					want = -ENOENT;
				if (!want)
					for (p = page; p < page + len; p++)
						copy[p] = NULL;
			}
		}
		KUNIT_ASSERT_EQ_MSG(test, vnpu_space_commit(&space, ops, steps, nr), want,
				    "round %u", round);
		if (!want)
			memcpy(model, copy, PAGES * sizeof(*model));
		for (u32 p = 0; p < PAGES; p++)
			KUNIT_ASSERT_PTR_EQ_MSG(test, bound_at(&space, p), model[p],
						"round %u, page %u", round, p);
		for (u32 i = 0; i < PAGES + ARRAY_SIZE(ops); i++)
			pool[i].link.next = NULL;
	}
	vnpu_space_clear(&space, &gone, U32_MAX);
	vnpu_space_fini(&space);
}

static struct kunit_case space_cases[] = {
	KUNIT_CASE(space_check_refuses_each_bad_field),
	KUNIT_CASE(space_unmap_must_match_a_map),
	KUNIT_CASE(space_batch_that_fails_changes_nothing),
	KUNIT_CASE(space_follows_the_model),
	{},
};

static struct kunit_suite space_suite = { .name = "vnpu_space", .test_cases = space_cases };

kunit_test_suites(&ring_suite, &hwq_suite, &space_suite);

MODULE_DESCRIPTION("KUnit tests of vnpu");
MODULE_LICENSE("GPL");
