// SPDX-License-Identifier: MIT
/*
 * Waits for points, and timelines whose points do not rise, which the kernel allows. Runs on sim,
 * and with NPU_TRANSPORT=drm on vnpu.ko. Points of jobs that sleep are not reached until the test
 * releases the jobs' queue.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "npu_fixture.h"
#include "npu_random.h"

struct gate {
	struct npu_queue *queue;
	struct npu_job *job;
	struct npu_fence *done;
};

/* Makes @point one that gate_open() reaches. */
static void gate_close(struct fixture *f, struct gate *g, struct npu_fence *fence, uint64_t point)
{
	struct npu_sync signal[2] = { { fence, point } };
	struct npu_submit_syncs syncs = { .signal = signal, .nr_signal = 2 };

	npu_ok(npu_fence_create(f->dev, false, &g->done));
	signal[1].fence = g->done;
	npu_ok(npu_queue_create(f->ctx, NULL, &g->queue));
	g->job = fixture_sleep(f->ctx, 8000 * MS);
	npu_ok(npu_queue_submit(g->queue, &g->job, 1, &syncs, NULL));
}

static void gate_open(struct gate *g)
{
	npu_queue_free(g->queue);
	npu_job_free(g->job);
	npu_ok(npu_fence_wait(g->done, 0, NPU_FOREVER));
	npu_fence_free(g->done);
	*g = (struct gate){ 0 };
}

static uint64_t query(struct npu_fence *fence)
{
	uint64_t point = UINT64_MAX;

	npu_ok(npu_fence_query(fence, &point));
	return point;
}

static bool is_reached(struct npu_fence *fence, uint64_t point)
{
	int ret = npu_fence_wait(fence, point, 0);

	assert_true(!ret || ret == -ETIMEDOUT);
	return !ret;
}

static void a_wait_without_time_only_looks(void **state)
{
	struct fixture *f = *state;
	struct npu_fence *fence;
	struct gate gate;

	npu_ok(npu_fence_create(f->dev, false, &fence));
	gate_close(f, &gate, fence, 1);
	npu_fails(npu_fence_wait(fence, 1, -3 * MS), -ETIMEDOUT, "not reached within 0 us");
	npu_fails(npu_fence_wait(fence, 1, INT64_MIN), -ETIMEDOUT, "not reached within 0 us");
	npu_fails(npu_queue_wait(gate.queue, 1, -3 * MS, NPU_WAIT_DRIVER), -ETIMEDOUT,
		  "not done within 0 us");
	gate_open(&gate);
	npu_ok(npu_fence_wait(fence, 1, -1));
	npu_fence_free(fence);
}

static void a_point_below_the_last_is_reached_after_it(void **state)
{
	struct fixture *f = *state;
	struct npu_fence *fence;
	struct gate gate;

	npu_ok(npu_fence_create(f->dev, false, &fence));
	gate_close(f, &gate, fence, 5);
	npu_ok(npu_fence_signal(fence, 3));
	assert_false(is_reached(fence, 3));
	assert_false(is_reached(fence, 5));
	assert_int_equal(query(fence), 0);
	gate_open(&gate);
	npu_ok(npu_fence_wait(fence, 5, NPU_FOREVER));
	assert_int_equal(query(fence), 5);
	assert_false(is_reached(fence, 6));
	npu_fence_free(fence);
}

static void a_query_counts_only_what_follows_a_point_out_of_order(void **state)
{
	struct fixture *f = *state;
	struct npu_fence *fence;
	struct gate gate;

	npu_ok(npu_fence_create(f->dev, false, &fence));
	npu_ok(npu_fence_signal(fence, 4));
	gate_close(f, &gate, fence, 6);
	assert_int_equal(query(fence), 4);
	npu_ok(npu_fence_signal(fence, 5));
	assert_int_equal(query(fence), 0);
	npu_ok(npu_fence_signal(fence, 7));
	assert_int_equal(query(fence), 6);
	assert_false(is_reached(fence, 6));
	gate_open(&gate);
	npu_ok(npu_fence_wait(fence, 7, NPU_FOREVER));
	assert_int_equal(query(fence), 7);
	npu_fence_free(fence);
}

/* ---- a thread that waits --------------------------------------------------------------------- */

struct waiter {
	struct npu_fence *fence;
	uint64_t point;
	_Atomic int tid;
	int ret;
};

static void *waiter_main(void *arg)
{
	struct waiter *w = arg;

	w->tid = (int)syscall(SYS_gettid);
	w->ret = npu_fence_wait(w->fence, w->point, NPU_FOREVER);
	return NULL;
}

static char thread_state(int tid)
{
	char path[64], line[256] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	fclose(file);
	return strrchr(line, ')')[2];
}

/* Returns when the thread waits. @waits: number of the device's waits before. */
static void waiter_start(struct fixture *f, struct waiter *w, pthread_t *thread)
{
	struct npu_device_counts before, now;

	npu_device_counts(f->dev, &before);
	assert_int_equal(pthread_create(thread, NULL, waiter_main, w), 0);
	do {
		usleep(1000);
		npu_device_counts(f->dev, &now);
	} while (now.waits == before.waits || thread_state(w->tid) != 'S');
}

static void points_that_come_later_do_not_delay_a_waiter(void **state)
{
	struct fixture *f = *state;
	struct gate first, later;
	struct waiter w = { .point = 1 };
	pthread_t thread;

	npu_ok(npu_fence_create(f->dev, false, &w.fence));
	gate_close(f, &first, w.fence, 1);
	waiter_start(f, &w, &thread);
	gate_close(f, &later, w.fence, 1);
	gate_open(&first);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(w.ret, 0);
	assert_false(is_reached(w.fence, 1));
	gate_open(&later);
	npu_ok(npu_fence_wait(w.fence, 1, NPU_FOREVER));
	npu_fence_free(w.fence);
}

/* ---- random points, against a model of the kernel's chains ----------------------------------- */

#define MAX_LINKS 12

/* A link of the chain; reached links behind the first are taken out when the chain is walked. */
struct link {
	uint64_t seqno, prev_seqno;
	int context; /* 0: a binary fence */
	int prev; /* -1: none */
	struct gate gate; /* its queue is NULL once the link's own fence has signaled */
};

struct chain {
	struct link links[MAX_LINKS];
	int nr; /* the first is links[nr - 1] */
	int contexts;
};

static bool link_open(const struct chain *c, int i)
{
	return !c->links[i].gate.queue;
}

static struct link *chain_add(struct chain *c, uint64_t point)
{
	struct link *prev = c->nr ? &c->links[c->nr - 1] : NULL, *l = &c->links[c->nr];

	*l = (struct link){ .seqno = point, .prev = c->nr++ - 1 };
	if (prev && prev->context && point > prev->seqno) {
		l->context = prev->context;
		l->prev_seqno = prev->seqno;
	} else {
		l->context = ++c->contexts;
		if (prev && prev->context && prev->seqno > point)
			l->seqno = prev->seqno;
	}
	return l;
}

/* The next link behind @i that has not signaled; -1: none. A link without context has no next. */
static int chain_walk(const struct chain *c, int i)
{
	for (i = c->links[i].context ? c->links[i].prev : -1; i >= 0; i = c->links[i].prev)
		if (!link_open(c, i))
			return i;
	return -1;
}

static bool chain_signaled(const struct chain *c, int i)
{
	while (i >= 0 && link_open(c, i))
		i = chain_walk(c, i);
	return i < 0;
}

static uint64_t chain_query(const struct chain *c)
{
	int last = c->nr - 1;
	int context = last >= 0 ? c->links[last].context : 0;

	if (!context)
		return 0;
	for (int i = last; i >= 0 && c->links[i].context == context; i = chain_walk(c, i))
		last = i;
	return chain_signaled(c, last) ? c->links[last].seqno : c->links[last].prev_seqno;
}

static bool chain_reached(const struct chain *c, uint64_t point)
{
	int i = c->nr - 1;

	if (i < 0 || (point && (!c->links[i].context || c->links[i].seqno < point)))
		return false;
	if (!point)
		return chain_signaled(c, i);
	while (i >= 0 && c->links[i].context == c->links[c->nr - 1].context &&
	       c->links[i].prev_seqno >= point)
		i = chain_walk(c, i);
	return chain_signaled(c, i);
}

static void random_step(struct fixture *f, struct chain *c, struct npu_fence *fence)
{
	unsigned int what = random_u32() % 8;

	if (!what && !c->nr) {
		npu_ok(npu_fence_signal(fence, 0));
		c->links[c->nr++] = (struct link){ .prev = -1 };
	} else if (what < 6) {
		uint64_t point = 1 + random_u32() % 8;
		struct link *l = chain_add(c, point);

		if (what < 3)
			npu_ok(npu_fence_signal(fence, point));
		else
			gate_close(f, &l->gate, fence, point);
	} else if (c->nr) {
		struct link *l = &c->links[random_u32() % (unsigned int)c->nr];

		if (l->gate.queue)
			gate_open(&l->gate);
	}
}

static void random_points_have_the_states_of_the_kernels_chains(void **state)
{
	struct fixture *f = *state;
	struct npu_fence *fence;
	struct chain c;

	random_begin(__func__);
	for (int round = 0; round < 20; round++) {
		npu_ok(npu_fence_create(f->dev, false, &fence));
		memset(&c, 0, sizeof(c));
		while (c.nr < MAX_LINKS) {
			random_step(f, &c, fence);
			assert_int_equal(query(fence), chain_query(&c));
			for (uint64_t point = 0; point < 10; point++)
				assert_int_equal(is_reached(fence, point),
						 chain_reached(&c, point));
		}
		npu_fence_free(fence);
		for (int i = 0; i < c.nr; i++)
			if (c.links[i].gate.queue)
				gate_open(&c.links[i].gate);
	}
}

#define with_device(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_device(a_wait_without_time_only_looks),
		with_device(a_point_below_the_last_is_reached_after_it),
		with_device(a_query_counts_only_what_follows_a_point_out_of_order),
		with_device(points_that_come_later_do_not_delay_a_waiter),
		with_device(random_points_have_the_states_of_the_kernels_chains),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
