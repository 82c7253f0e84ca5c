/* SPDX-License-Identifier: MIT */
/*
 * Common parts of the tests of failing allocations. A kernel with fault injection fails the n-th
 * allocation (or copy from or to the user) of the calling thread.
 */
#ifndef NOMEM_H
#define NOMEM_H

#include "vnpu_raw.h"

#define VA 0x100000ull
#define SIZE (4 * PAGE)
#define FAIL_NTH "/proc/thread-self/fail-nth"

/* No call allocates this often. */
#define MAX_NTH 2000

static int fail_fd = -1;

/* Writing 0 may itself fail, but only once. */
static inline void fail_write(int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", n);

	if (pwrite(fail_fd, text, len, 0) != len)
		assert_int_equal(pwrite(fail_fd, text, len, 0), len);
}

/*
 * Ends the injection. True if it failed something. Reading is a copy to the user, which may itself
 * be the n-th.
 */
static inline bool fail_struck(void)
{
	char text[16] = { 0 };
	bool struck = pread(fail_fd, text, sizeof(text) - 1, 0) > 0 && atoi(text) == 0;

	fail_write(0);
	return struck;
}

/* Allocations that may sleep fail too; failures leave no stack trace in the log. */
static inline void fail_set(const char *name, const char *value)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	assert_int_equal(write(fd, value, strlen(value)), (ssize_t)strlen(value));
	close(fd);
}

static inline int nomem_setup(void **state)
{
	if (bench_setup(state))
		return 1;
	fail_fd = open(FAIL_NTH, O_RDWR | O_CLOEXEC);
	if (fail_fd < 0)
		return 0;
	fail_set("failslab/ignore-gfp-wait", "N");
	fail_set("failslab/verbose", "0");
	fail_set("fail_page_alloc/ignore-gfp-wait", "N");
	fail_set("fail_page_alloc/min-order", "0");
	fail_set("fail_page_alloc/verbose", "0");
	fail_set("fail_usercopy/verbose", "0");
	return 0;
}

static inline int nomem_teardown(void **state)
{
	if (fail_fd >= 0) {
		fail_write(0);
		close(fail_fd);
		fail_fd = -1;
	}
	return bench_teardown(state);
}

static inline struct bench *nomem(void **state)
{
	struct bench *b = bench(state);

	if (fail_fd < 0)
		skip();
	return b;
}

#define NOMEM_TEST(f) cmocka_unit_test_setup_teardown(f, nomem_setup, nomem_teardown)

/* The firmware answers the closed contexts. */
static inline void answer_closes(struct bench *b)
{
	struct vnpu_fw_sqe sqe;

	while (raw_fw_pop(&b->fw, &sqe, 0))
		if (sqe.type == VNPU_FW_SQE_CTX_CLOSE)
			raw_fw_closed(&b->fw, sqe.ctx);
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
}

/* A new client, because the old one has an object whose id could not be copied to the user. */
static inline void fresh_client(struct bench *b)
{
	close(b->fd);
	answer_closes(b);
	b->fd = raw_client(b->fw.minor);
	b->ctx = raw_ctx(b->fd);
	b->q = raw_queue_full(b->fd, b->ctx, 4);
}

struct call {
	const char *name;
	int (*call)(struct bench *b); /* 0 or -errno */
	void (*undo)(struct bench *b); /* undoes a successful call */
	void (*prepare)(struct bench *b); /* before each attempt, or NULL */
	bool names; /* the result is the id of a new object */
	int instead; /* error of the kernel's own part of the call instead of -ENOMEM, or 0 */
};

/*
 * Repeats a call until no failure is injected into it. It may also succeed in spite of a failure if
 * the kernel has an alternative.
 */
static inline void until_no_failure(struct bench *b, const struct call *c)
{
	int failures = 0;

	for (int n = 1; n < MAX_NTH; n++) {
		bool struck;
		int ret;

		if (c->prepare)
			c->prepare(b);
		fail_write(n);
		ret = c->call(b);
		struck = fail_struck();
		if (!ret)
			c->undo(b);
		else if (!struck ||
			 (ret != -ENOMEM && ret != -EFAULT && ret != (c->instead ?: -ENOMEM)))
			fail_msg("%s with failure %d: %d", c->name, n, ret);
		if (!struck) {
			print_message("%s: %d steps may fail, the call with %d\n", c->name, n - 1,
				      failures);
			return;
		}
		if (ret == -EFAULT && c->names)
			fresh_client(b);
		failures += !!ret;
	}
	fail_msg("%s allocates without end", c->name);
}

#endif /* NOMEM_H */
