// SPDX-License-Identifier: MIT
/*
 * A client that tries to access memory of others: its jobs get operands at every kind of address,
 * behind libnpu's back, while another context has secrets at all addresses around. It must get a
 * fault with the address, or a refusal, and its own zeros; the secrets must not change. Runs on
 * sim, and with NPU_TRANSPORT=drm on vnpu.ko.
 */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "npu_fixture.h"
#include "npu_private.h"

#define SECRET 1234.5f
#define FLOATS 1024 /* a page */

/* Another context's buffers, at this context's addresses and where this context has none. */
struct victim {
	struct npu_context *ctx;
	struct npu_buffer *buf[8];
};

static void victim_make(struct fixture *f, struct victim *v)
{
	npu_ok(npu_context_create(f->dev, &v->ctx));
	for (int i = 0; i < 8; i++)
		v->buf[i] = fixture_floats(v->ctx, 16 * FLOATS, SECRET + i);
}

static void victim_check(struct victim *v)
{
	for (int i = 0; i < 8; i++)
		for (uint32_t k = 0; k < 16 * FLOATS; k++)
			assert_true(fixture_float(v->buf[i], k) == SECRET + i);
}

static void victim_free(struct victim *v)
{
	for (int i = 0; i < 8; i++)
		npu_buffer_free(v->buf[i]);
	npu_context_free(v->ctx);
}

static struct vnpu_slot *job_slot(struct npu_job *job, int i)
{
	return job->slots + i;
}

enum outcome {
	FAULTS, /* -EFAULT, and the context's state has the page */
	REFUSED, /* -EINVAL, and the context can still be used */
};

/*
 * One job y = x + 1 of a page, in a context of its own, with operand @slot (0: x, 1: y) at @va
 * instead. It must fault at @page.
 */
static void attack(struct fixture *f, struct victim *v, int slot, uint64_t va, enum outcome want,
		   uint64_t page)
{
	struct npu_context_state st;
	struct npu_context *ctx;
	struct npu_queue *queue;
	struct npu_buffer *x, *y;
	struct npu_job *job;
	uint64_t seqno;
	int ret;

	npu_ok(npu_context_create(f->dev, &ctx));
	npu_ok(npu_queue_create(ctx, NULL, &queue));
	job = fixture_increment(ctx, FLOATS, 0);
	x = fixture_floats(ctx, FLOATS, 0);
	y = fixture_floats(ctx, FLOATS, 0);
	fixture_bind(job, "x", x);
	fixture_bind(job, "y", y);
	job_slot(job, slot)->va = va;
	npu_ok(npu_queue_submit(queue, &job, 1, NULL, &seqno));
	ret = npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER);
	if (ret != (want == FAULTS ? -EFAULT : -EINVAL))
		fail_msg("%s at %#llx: %d: %s", slot ? "y" : "x", (unsigned long long)va, ret,
			 npu_error());
	npu_ok(npu_context_state(ctx, &st));
	if (want == FAULTS) {
		assert_int_equal(st.state, NPU_CONTEXT_FAULT);
		assert_int_equal(st.fault_va & ~4095ull, page);
		assert_int_equal(st.fault_write, slot == 1);
		assert_int_equal(st.seqno, seqno);
	} else {
		assert_int_equal(st.state, 0);
	}
	/* Nothing was copied: what could not be read was not written either. */
	if (slot == 0)
		for (uint32_t i = 0; i < FLOATS; i++)
			assert_true(fixture_float(y, i) == 0);
	victim_check(v);
	npu_job_free(job);
	npu_buffer_free(x);
	npu_buffer_free(y);
	npu_queue_free(queue);
	npu_context_free(ctx);
}

static uint64_t va_end(struct fixture *f)
{
	return 1ull << npu_device_info(f->dev)->va_bits;
}

static void unbound_addresses_and_those_of_another_context_fault(void **state)
{
	struct fixture *f = *state;
	struct victim v;

	victim_make(f, &v);
	for (int slot = 0; slot < 2; slot++) {
		/* Address 0, and the last one below those that can be bound. */
		attack(f, &v, slot, 0, FAULTS, 0);
		attack(f, &v, slot, 64, FAULTS, 0);
		attack(f, &v, slot, 0xf000, FAULTS, 0xf000);
		/* Another context's buffer, where this context has nothing, and the last page. */
		attack(f, &v, slot, npu_buffer_va(v.buf[7]), FAULTS, npu_buffer_va(v.buf[7]));
		attack(f, &v, slot, npu_buffer_va(v.buf[7]) + 15 * 4096, FAULTS,
		       npu_buffer_va(v.buf[7]) + 15 * 4096);
		attack(f, &v, slot, va_end(f) - 4096, FAULTS, va_end(f) - 4096);
	}
	victim_free(&v);
}

/* Another context's aperture may be adjacent: in the device's memory, or by its number. */
static void addresses_beyond_the_aperture_are_refused(void **state)
{
	struct fixture *f = *state;
	struct victim v;

	victim_make(f, &v);
	for (int slot = 0; slot < 2; slot++) {
		const uint64_t end = va_end(f), theirs = npu_buffer_va(v.buf[0]);
		const uint64_t bad[] = { end,
					 end - 64,
					 end - 4096 + 64,
					 end + theirs,
					 2 * end + theirs,
					 3 * end + theirs,
					 theirs - end,
					 theirs - 2 * end,
					 1ull << 62,
					 1ull << 63,
					 -64ull,
					 -4096ull,
					 -(end - theirs) };

		for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
			attack(f, &v, slot, bad[i], REFUSED, 0);
	}
	victim_free(&v);
}

/* The first part of the operand is bound; the fault has the address of that part's end. */
static void an_operand_that_straddles_the_end_of_a_binding_faults_there(void **state)
{
	struct fixture *f = *state;

	for (int slot = 0; slot < 2; slot++) {
		struct npu_context_state st;
		struct npu_context *ctx;
		struct npu_queue *queue;
		struct npu_buffer *b[2], *last;
		struct npu_job *job;
		uint64_t seqno;

		npu_ok(npu_context_create(f->dev, &ctx));
		npu_ok(npu_queue_create(ctx, NULL, &queue));
		job = fixture_increment(ctx, FLOATS, 0);
		b[0] = fixture_floats(ctx, FLOATS, 0);
		b[1] = fixture_floats(ctx, FLOATS, 0);
		/* Nothing is bound behind the latest allocation. */
		last = fixture_floats(ctx, FLOATS, 0);
		fixture_bind(job, "x", b[0]);
		fixture_bind(job, "y", b[1]);
		job_slot(job, slot)->va = npu_buffer_va(last) + 2048;
		npu_ok(npu_queue_submit(queue, &job, 1, NULL, &seqno));
		npu_fails(npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER), -EFAULT,
			  "fault");
		npu_ok(npu_context_state(ctx, &st));
		assert_int_equal(st.fault_va & ~4095ull, npu_buffer_va(last) + 4096);
		assert_int_equal(st.fault_write, slot == 1);
		npu_job_free(job);
		npu_buffer_free(last);
		npu_buffer_free(b[0]);
		npu_buffer_free(b[1]);
		npu_queue_free(queue);
		npu_context_free(ctx);
	}
}

/* Freed memory is zero when it is allocated again, in any context. */
static void new_buffers_never_have_data_of_freed_ones(void **state)
{
	enum { BYTES = 1 << 20 };
	struct fixture *f = *state;

	for (int round = 0; round < 8; round++) {
		struct npu_buffer *buf;
		struct npu_context *ctx;
		uint64_t *p;

		npu_ok(npu_context_create(f->dev, &ctx));
		npu_ok(npu_buffer_create(ctx, BYTES, 0, &buf));
		p = npu_buffer_data(buf);
		for (size_t i = 0; i < BYTES / 8; i++) {
			if (p[i])
				fail_msg("round %d: %#llx at %zu", round, (unsigned long long)p[i],
					 i * 8);
			p[i] = 0x5ec7e75ec7e75ec7ull;
		}
		npu_buffer_free(buf);
		npu_context_free(ctx);
	}
}

static void run_increment(struct fixture *f, struct npu_buffer *x, struct npu_buffer *y)
{
	struct npu_job *job = fixture_increment(f->ctx, 16, 0);

	fixture_bind(job, "x", x);
	fixture_bind(job, "y", y);
	npu_ok(fixture_run(f, job));
	npu_job_free(job);
}

/* Never returns. */
static void child_with_a_device(void)
{
	struct npu_buffer *x, *y;
	struct fixture *f;
	void *state;

	fixture_setup(&state);
	f = state;
	x = fixture_floats(f->ctx, 16, 7);
	y = fixture_floats(f->ctx, 16, 0);
	run_increment(f, x, y);
	if (fixture_float(y, 0) != 8)
		_exit(2);
	npu_buffer_free(x);
	npu_buffer_free(y);
	fixture_teardown(&state);
	_exit(0);
}

static void a_forked_child_uses_a_device_of_its_own_and_the_parent_goes_on(void **state)
{
	struct fixture *f = *state;
	struct npu_buffer *x = fixture_floats(f->ctx, 16, 3), *y = fixture_floats(f->ctx, 16, 0);
	int status;
	pid_t child;

#ifdef __SANITIZE_THREAD__
	skip(); /* ThreadSanitizer follows no threads of a child of a program with threads */
#endif
	run_increment(f, x, y);
	/* The device sleeps then: a sanitizer's allocator has locks that do not survive a fork. */
	usleep(100000);
	child = fork();
	if (!child)
		child_with_a_device();
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	run_increment(f, y, x);
	assert_true(fixture_float(x, 0) == 5 && fixture_float(y, 0) == 4);
	npu_buffer_free(x);
	npu_buffer_free(y);
}

#define with_device(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_device(unbound_addresses_and_those_of_another_context_fault),
		with_device(addresses_beyond_the_aperture_are_refused),
		with_device(an_operand_that_straddles_the_end_of_a_binding_faults_there),
		with_device(a_forked_child_uses_a_device_of_its_own_and_the_parent_goes_on),
		with_device(new_buffers_never_have_data_of_freed_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
