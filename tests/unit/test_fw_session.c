// SPDX-License-Identifier: MIT
/*
 * When the command processor trusts the kernel, and when not: entries that it does not know, the
 * end of a session, which revokes its memory, and the status pages, which the kernel writes too.
 */
#include "fw_jobs.h"

/* ---- unknown entries ------------------------------------------------------------------------- */

/*
 * Gives @sqe to a core that polls and to one that sleeps; both must report a broken protocol with
 * the reason @why.
 */
static void assert_breaks_protocol(struct vnpu_fw_sqe sqe, const char *why)
{
	struct fake *f;
	unsigned int i;

	/* Alone in the ring, and behind a job. */
	for (i = 0; i < 4; i++) {
		f = fake_create(16);
		fake_start(f, 2, i & 1 ? 1000000 : 0, FW_ISA_AUTO);
		if (i & 2) {
			submit_one(f, sleep_job(f, 1, 0, 1, 60000000000ull));
			wait_taken(f);
		}
		submit_one(f, sqe);
		assert_int_equal(fake_join(f), -EPROTO);
		assert_non_null(strstr(f->broken, why));
		fake_destroy(f);
	}
}

static void an_unknown_entry_breaks_the_protocol(void **state)
{
	struct vnpu_fw_sqe job = {
		.type = VNPU_FW_SQE_JOB, .priority = 1, .ctx = 1, .tag = 1, .seqno = 1
	};
	struct vnpu_fw_sqe sqe;

	sqe = job, sqe.flags = 0x80;
	assert_breaks_protocol(sqe, "type 1 with flags 0x80 and pad 0");
	sqe = job, sqe.pad = 5;
	assert_breaks_protocol(sqe, "type 1 with flags 0 and pad 0x5");
	sqe = (struct vnpu_fw_sqe){ .type = VNPU_FW_SQE_CANCEL, .ctx = 1, .tag = 9, .flags = 1 };
	assert_breaks_protocol(sqe, "type 2 with flags 0x1");
	sqe = (struct vnpu_fw_sqe){ .type = VNPU_FW_SQE_CTX_CLOSE, .ctx = 1, .pad = 1 };
	assert_breaks_protocol(sqe, "type 3 with flags 0 and pad 0x1");
	sqe = (struct vnpu_fw_sqe){ .type = 4 };
	assert_breaks_protocol(sqe, "unknown type 4");
	sqe = (struct vnpu_fw_sqe){ 0 };
	assert_breaks_protocol(sqe, "unknown type 0");
}

/* ---- the end of a session -------------------------------------------------------------------- */

/* A kernel that ends the session revokes the rings: later contents are not the reason. */
static void the_kernel_is_asked_before_a_ring_is_blamed(void **state)
{
	struct fake *f = fake_create(16);
	struct vnpu_fw_sqe job = sleep_job(f, 1, 0, 1, 60000000000ull);

	fake_start(f, 2, 0, FW_ISA_AUTO);
	submit_one(f, job);
	wait_taken(f);
	pthread_mutex_lock(&f->lock);
	f->enter_error = -EIO;
	f->info.sq_tail = 0x80000000;
	f->info.nr_queues = f->info.nr_ctx = f->info.va_bits = 0;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	assert_int_equal(fake_join(f), -EIO);
	assert_string_equal(f->all_logs, "");
	/* Nothing of the context stays mapped. */
	assert_int_equal(f->nr_maps, f->nr_unmaps);
	fake_destroy(f);
}

static void a_core_that_polls_sees_that_the_session_is_over(void **state)
{
	static const int errors[] = { -EIO, -ENODEV, -EPROTO };
	struct fake *f;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		f = fake_create(16);
		/* An hour of polling: only over ends it. */
		fake_start(f, 2, 3600000000u, FW_ISA_AUTO);
		submit_one(f, empty_job(f, 1, 0, 1));
		assert_done(f, 0, 1, VNPU_FW_OK);
		fake_end(f, errors[i], 0);
		assert_int_equal(fake_join(f), errors[i]);
		assert_string_equal(f->broken, "");
		fake_destroy(f);
	}
}

static void a_core_whose_job_runs_sees_that_the_session_is_over(void **state)
{
	struct fake *f = fake_create(16);

	fake_start(f, 2, 0, FW_ISA_AUTO);
	submit_one(f, sleep_job(f, 1, 0, 1, 60000000000ull));
	wait_taken(f);
	fake_end(f, -EIO, 3);
	assert_int_equal(fake_join(f), -EIO);
	assert_string_equal(f->broken, "");
	assert_int_equal(fake_status(f, 0)->completed_seqno, 0);
	assert_int_equal(fake_status(f, 0)->error, 0);
	assert_int_equal(f->nr_maps, f->nr_unmaps);
	fake_destroy(f);
}

static void a_session_is_over_even_if_enter_gives_no_reason(void **state)
{
	struct fake *f = fake_create(16);

	fake_start(f, 1, 1000000, FW_ISA_AUTO);
	fake_end(f, 0, 0);
	assert_int_equal(fake_join(f), -EIO);
	fake_destroy(f);
}

/* What may be read from the rings after they were revoked: zeros, and indices of any kind. */
static void the_end_of_a_session_is_not_a_protocol_error(void **state)
{
	struct fake *f;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		f = fake_create(16);
		pthread_mutex_lock(&f->lock);
		fake_start(f, 2, i & 1 ? 1000000 : 0, FW_ISA_AUTO);
		__atomic_store_n(&f->info.over, 1, __ATOMIC_RELEASE);
		__atomic_store_n(&f->info.sq_tail, i & 2 ? 3 : 0x80000000, __ATOMIC_RELEASE);
		/* The calls that ask for the reason do not get it at once. */
		f->enter_error = -EIO;
		f->says_late = 2;
		pthread_cond_broadcast(&f->changed);
		pthread_mutex_unlock(&f->lock);
		assert_int_equal(fake_join(f), -EIO);
		assert_string_equal(f->broken, "");
		assert_string_equal(f->all_logs, "");
		fake_destroy(f);
	}
}

static void take_memory_away(struct fake *f)
{
	memset(f->bound[1], 0, FAKE_PAGES);
	fake_end(f, -EIO, 1);
}

/*
 * The kernel revokes the memory of a running job: that is no fault of the job, and must not be
 * reported to its owner.
 */
static void a_job_that_loses_its_memory_with_the_session_has_not_faulted(void **state)
{
	struct fake *f = fake_create(16);
	struct vnpu_fw_sqe job = empty_job(f, 1, 2, 1);

	f->on_guard = take_memory_away;
	fake_start(f, 1, 0, FW_ISA_AUTO);
	submit_one(f, job);
	assert_int_equal(fake_join(f), -EIO);
	assert_int_equal(fake_status(f, 2)->error, 0);
	assert_int_equal(fake_status(f, 2)->completed_seqno, 0);
	assert_int_equal(f->ctl.cq_tail, 0);
	assert_string_equal(f->all_logs, "");
	fake_destroy(f);
}

/* ---- what the firmware writes ---------------------------------------------------------------- */

static void completed_seqno_is_never_lowered(void **state)
{
	struct fake *f = fake_create(16);
	struct vnpu_fw_sqe bad = empty_job(f, 1, 3, 6);

	fake_start(f, 1, 0, FW_ISA_AUTO);
	/* The kernel has ended the jobs up to 9 itself, with an error. */
	fake_status(f, 3)->completed_seqno = 9;
	fake_status(f, 3)->error = ETIMEDOUT;
	submit_one(f, empty_job(f, 1, 3, 5));
	assert_done(f, 0, 5, VNPU_FW_OK);
	assert_int_equal(fake_status(f, 3)->completed_seqno, 9);
	bad.cmd_size = 4;
	submit_one(f, bad);
	assert_done(f, 1, 6, VNPU_FW_INVALID);
	assert_int_equal(fake_status(f, 3)->completed_seqno, 9);
	assert_int_equal(fake_status(f, 3)->error, ETIMEDOUT);
	submit_one(f, empty_job(f, 1, 3, 10));
	assert_done(f, 2, 10, VNPU_FW_OK);
	assert_int_equal(fake_status(f, 3)->completed_seqno, 10);
	fake_stop(f);
	fake_destroy(f);
}

static void unused_fields_of_a_completion_are_zero(void **state)
{
	struct fake *f = fake_create(8);
	struct vnpu_fw_cqe want;

	memset(f->cq, 0xee, sizeof(f->cq));
	fake_start(f, 1, 0, FW_ISA_AUTO);
	submit_one(f, empty_job(f, 1, 3, 5));
	want = fake_wait(f, 0);
	want = (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = 5, .busy_ns = want.busy_ns };
	assert_memory_equal(&f->cq[0], &want, sizeof(want));
	submit_one(f, (struct vnpu_fw_sqe){ .type = VNPU_FW_SQE_CTX_CLOSE, .ctx = 1 });
	fake_wait(f, 1);
	want = (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_CTX_CLOSED, .tag = 1 };
	assert_memory_equal(&f->cq[1], &want, sizeof(want));
	fake_stop(f);
	fake_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_is_asked_before_a_ring_is_blamed),
		cmocka_unit_test(an_unknown_entry_breaks_the_protocol),
		cmocka_unit_test(a_core_that_polls_sees_that_the_session_is_over),
		cmocka_unit_test(a_core_whose_job_runs_sees_that_the_session_is_over),
		cmocka_unit_test(a_session_is_over_even_if_enter_gives_no_reason),
		cmocka_unit_test(the_end_of_a_session_is_not_a_protocol_error),
		cmocka_unit_test(a_job_that_loses_its_memory_with_the_session_has_not_faulted),
		cmocka_unit_test(completed_seqno_is_never_lowered),
		cmocka_unit_test(unused_fields_of_a_completion_are_zero),
	};

	return cmocka_run_group_tests_name("fw_session", tests, NULL, NULL);
}
