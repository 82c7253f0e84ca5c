// SPDX-License-Identifier: MIT
/*
 * The command processor with a kernel inside the test: order, priorities, cancellation, contexts,
 * faults, and invalid rings.
 */
#include "fw_all_ops.h"
#include "fw_jobs.h"

static void assert_closed(struct fake *f, unsigned int index, uint32_t ctx)
{
	struct vnpu_fw_cqe cqe = fake_wait(f, index);

	assert_int_equal(cqe.type, VNPU_FW_CQE_CTX_CLOSED);
	assert_int_equal(cqe.tag, ctx);
}

/* ---- order ----------------------------------------------------------------------------------- */

static void jobs_of_a_queue_complete_in_order(void **state)
{
	unsigned int i, spin;
	struct fake *f;

	for (spin = 0; spin < 2; spin++) {
		f = fake_create(16);
		fake_start(f, 2, spin * 100, FW_ISA_AUTO);
		/* More than twice around the rings. */
		for (i = 0; i < 40; i++) {
			submit_one(f, empty_job(f, 1, 3, i + 1));
			if (i % 7 == 6)
				usleep(300);
			if (i >= 8)
				assert_done(f, i - 8, i - 7, VNPU_FW_OK);
		}
		assert_done(f, 39, 40, VNPU_FW_OK);
		assert_int_equal(fake_status(f, 3)->completed_seqno, 40);
		assert_int_equal(fake_status(f, 3)->error, 0);
		assert_int_equal(fake_status(f, 2)->completed_seqno, 0);
		assert_int_equal(fake_stop(f), 0);
		assert_int_equal(f->nr_maps, 1);
		assert_int_equal(f->nr_unmaps, 1);
		fake_destroy(f);
	}
}

static void higher_priorities_go_first_and_queues_alternate(void **state)
{
	static const struct {
		uint32_t queue, priority;
	} jobs[] = {
		{ 0, DRM_VNPU_PRIORITY_LOW },	 { 0, DRM_VNPU_PRIORITY_LOW },
		{ 1, DRM_VNPU_PRIORITY_NORMAL }, { 1, DRM_VNPU_PRIORITY_NORMAL },
		{ 1, DRM_VNPU_PRIORITY_NORMAL }, { 2, DRM_VNPU_PRIORITY_NORMAL },
		{ 2, DRM_VNPU_PRIORITY_NORMAL }, { 3, DRM_VNPU_PRIORITY_HIGH },
		{ 3, DRM_VNPU_PRIORITY_HIGH },
	};
	/* Tags in the order of execution. */
	static const uint64_t order[] = { 8, 9, 3, 6, 4, 7, 5, 1, 2 };
	struct fake *f = fake_create(16);
	struct vnpu_fw_sqe sqes[9];
	unsigned int i;

	for (i = 0; i < 9; i++) {
		sqes[i] = empty_job(f, 1, jobs[i].queue, i + 1);
		sqes[i].priority = jobs[i].priority;
	}
	/* All are there before the core reads the ring. */
	fake_submit(f, sqes, 9);
	fake_start(f, 1, 0, FW_ISA_AUTO);
	for (i = 0; i < 9; i++)
		assert_done(f, i, order[i], VNPU_FW_OK);
	fake_stop(f);
	fake_destroy(f);
}

/* ---- cancellation ---------------------------------------------------------------------------- */

static void a_waiting_job_can_be_cancelled(void **state)
{
	struct fake *f = fake_create(16);
	struct vnpu_fw_sqe s[6];

	s[0] = empty_job(f, 1, 1, 1);
	s[1] = empty_job(f, 1, 1, 2);
	s[2] = empty_job(f, 1, 1, 3);
	s[3] = cancel_of(&s[1]);
	s[4] = cancel_of(&s[2]);
	s[5] = empty_job(f, 1, 1, 4);
	fake_submit(f, s, 6);
	fake_start(f, 1, 0, FW_ISA_AUTO);
	/* A queue's answers are in order. */
	assert_done(f, 0, 1, VNPU_FW_OK);
	assert_done(f, 1, 2, VNPU_FW_CANCELED);
	assert_done(f, 2, 3, VNPU_FW_CANCELED);
	assert_done(f, 3, 4, VNPU_FW_OK);
	assert_int_equal(fake_status(f, 1)->completed_seqno, 4);
	assert_int_equal(fake_status(f, 1)->started_seqno, 4);
	assert_int_equal(fake_status(f, 1)->error, 0);
	fake_stop(f);
	fake_destroy(f);
}

static void a_sleeping_job_can_be_cancelled(void **state)
{
	struct fake *f = fake_create(16);
	struct vnpu_fw_sqe job = sleep_job(f, 1, 0, 1, 60000000000ull);

	fake_start(f, 2, 0, FW_ISA_AUTO);
	submit_one(f, job);
	wait_taken(f);
	submit_one(f, empty_job(f, 1, 1, 2));
	submit_one(f, cancel_of(&job));
	/* fake_wait() times out long before the job would end. */
	assert_done(f, 0, 1, VNPU_FW_CANCELED);
	assert_done(f, 1, 2, VNPU_FW_OK);
	assert_int_equal(fake_status(f, 0)->completed_seqno, 0);
	fake_stop(f);
	fake_destroy(f);
}

/*
 * Matmuls that take a minute together, each of which would be one tile if the firmware used the
 * stream's tiles.
 */
static void a_computing_job_can_be_cancelled(void **state)
{
	struct vnpu_cmd_matmul_i8 mm = {
		.m = 8192,
		.n = 8192,
		.k = 8192,
		.lda = 8192,
		.ldc = 8192,
		.tile_m = 1 << 24,
		.tile_n = 1 << 24,
	};
	struct fake *f = fake_create(16);
	struct vnpu_fw_sqe job;
	struct job_builder b;
	int i;

	fake_bind(f, 1, 0x10000000, 0x20000000, true);
	job_begin(&b);
	job_slot(&b, 0x10000000, 0x20000000, VNPU_SLOT_READ | VNPU_SLOT_WRITE);
	mm.a_scale.offset = 8192 * 8192;
	mm.w.offset = 8192 * 8192 * 2;
	mm.bias.slot = VNPU_SLOT_NONE;
	mm.c.offset = 8192 * 8192 * 4;
	for (i = 0; i < 40; i++) {
		job_cmd(&b, VNPU_OP_MATMUL_I8, &mm, sizeof(mm));
		job_plain(&b, VNPU_OP_BARRIER);
	}
	job_end(&b);
	job = job_place(&b, f, 1, 0, STREAM_VA, 1);
	fake_start(f, 2, 0, FW_ISA_AUTO);
	submit_one(f, job);
	wait_taken(f);
	usleep(20000);
	submit_one(f, cancel_of(&job));
	assert_done(f, 0, 1, VNPU_FW_CANCELED);
	fake_stop(f);
	fake_destroy(f);
}

static void cancelling_what_is_not_there_is_ignored(void **state)
{
	struct fake *f = fake_create(16);
	struct vnpu_fw_sqe s = empty_job(f, 1, 1, 1), c = cancel_of(&s);

	fake_start(f, 1, 0, FW_ISA_AUTO);
	submit_one(f, c);
	c.queue = 0xffffffff;
	submit_one(f, c);
	submit_one(f, s);
	assert_done(f, 0, 1, VNPU_FW_OK);
	submit_one(f, cancel_of(&s));
	submit_one(f, empty_job(f, 1, 1, 2));
	assert_done(f, 1, 2, VNPU_FW_OK);
	fake_stop(f);
	fake_destroy(f);
}

/* ---- contexts -------------------------------------------------------------------------------- */

static void closing_a_context_ends_its_jobs_and_unmaps_it(void **state)
{
	struct vnpu_fw_sqe close1 = { .type = VNPU_FW_SQE_CTX_CLOSE, .ctx = 1 };
	struct fake *f = fake_create(16);
	struct vnpu_fw_sqe s[5];

	s[0] = sleep_job(f, 1, 0, 1, 60000000000ull);
	s[1] = empty_job(f, 1, 0, 2);
	s[2] = empty_job(f, 2, 1, 3);
	s[3] = empty_job(f, 1, 2, 4);
	fake_start(f, 2, 0, FW_ISA_AUTO);
	fake_submit(f, s, 4);
	wait_taken(f);
	submit_one(f, close1);
	/*
	 * The running job, then the waiting ones, then the context; the other context's job is not
	 * affected.
	 */
	assert_done(f, 0, 1, VNPU_FW_CANCELED);
	assert_done(f, 1, 2, VNPU_FW_CANCELED);
	assert_done(f, 2, 4, VNPU_FW_CANCELED);
	assert_closed(f, 3, 1);
	assert_done(f, 4, 3, VNPU_FW_OK);
	assert_int_equal(f->nr_unmaps, 1);
	/* The number can be used again. */
	submit_one(f, empty_job(f, 1, 0, 5));
	assert_done(f, 5, 5, VNPU_FW_OK);
	assert_int_equal(f->nr_maps, 3);
	fake_stop(f);
	assert_int_equal(f->nr_unmaps, 3);
	fake_destroy(f);
}

static void closing_an_idle_context_is_answered(void **state)
{
	struct vnpu_fw_sqe close = { .type = VNPU_FW_SQE_CTX_CLOSE, .ctx = 2 };
	struct fake *f = fake_create(16);

	fake_start(f, 1, 20, FW_ISA_AUTO);
	submit_one(f, close);
	assert_closed(f, 0, 2);
	assert_int_equal(f->nr_unmaps, 0);
	fake_stop(f);
	fake_destroy(f);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* COPY of @rows rows of 4 KiB from @src to @dst. */
static struct vnpu_fw_sqe copy_rows_job(struct fake *f, uint64_t tag, uint64_t src, uint64_t dst,
					uint32_t rows)
{
	struct vnpu_cmd_copy copy = {
		.rows = rows,
		.row_bytes = 4096,
		.src_stride_bytes = 4096,
		.dst_stride_bytes = 4096,
		.dst_row_param = VNPU_PARAM_NONE,
	};
	struct job_builder b;

	job_begin(&b);
	copy.src = ref_to(job_slot(&b, src, rows * 4096ull, VNPU_SLOT_READ), 0);
	copy.dst = ref_to(job_slot(&b, dst, rows * 4096ull, VNPU_SLOT_WRITE), 0);
	job_cmd(&b, VNPU_OP_COPY, &copy, sizeof(copy));
	job_end(&b);
	return job_place(&b, f, 1, 0, tag * STREAM_VA, tag);
}

static struct vnpu_fw_sqe copy_job(struct fake *f, uint64_t tag, uint64_t src, uint64_t dst)
{
	return copy_rows_job(f, tag, src, dst, 2);
}

static void a_job_reports_its_start_and_counts_its_tiles(void **state)
{
	static const unsigned int threads[] = { 1, 3 };
	uint64_t few, many;

	for (int i = 0; i < 2; i++) {
		struct fake *f = fake_create(16);
		struct drm_vnpu_queue_status *page = fake_status(f, 0);
		struct vnpu_fw_sqe job;

		fake_bind(f, 1, 0x100000, 0x400000, false);
		fake_bind(f, 1, 0x800000, 0x400000, true);
		fake_start(f, threads[i], 0, FW_ISA_AUTO);
		submit_one(f, copy_rows_job(f, 1, 0x100000, 0x800000, 4));
		assert_done(f, 0, 1, VNPU_FW_OK);
		assert_int_equal(page->started_seqno, 1);
		few = page->progress;
		assert_true(few > 0);
		submit_one(f, copy_rows_job(f, 2, 0x100000, 0x800000, 1024));
		assert_done(f, 1, 2, VNPU_FW_OK);
		assert_int_equal(page->started_seqno, 2);
		many = page->progress - few;
		assert_true(many > 16 * few);
		/* A sleep makes no progress, and a waiting job has not started. */
		job = sleep_job(f, 1, 0, 3, 60000000000ull);
		submit_one(f, job);
		submit_one(f, empty_job(f, 1, 0, 4));
		while (__atomic_load_n(&page->started_seqno, __ATOMIC_ACQUIRE) == 2)
			usleep(1000);
		usleep(50000);
		assert_int_equal(page->started_seqno, 3);
		assert_int_equal(page->progress, few + many);
		submit_one(f, cancel_of(&job));
		assert_done(f, 2, 3, VNPU_FW_CANCELED);
		assert_done(f, 3, 4, VNPU_FW_OK);
		assert_int_equal(fake_status(f, 1)->started_seqno, 0);
		fake_stop(f);
		fake_destroy(f);
	}
}

static void a_fault_is_reported_with_its_address(void **state)
{
	struct fake *f = fake_create(16);
	struct vnpu_fw_cqe cqe;

	fake_bind(f, 1, 0x100000, 4096, true); /* one page of two */
	fake_bind(f, 1, 0x110000, 8192, true);
	fake_bind(f, 1, 0x120000, 8192, false);
	fake_start(f, 2, 0, FW_ISA_AUTO);

	submit_one(f, copy_job(f, 1, 0x100000, 0x110000));
	assert_done(f, 0, 1, VNPU_FW_FAULT);
	cqe = fake_wait(f, 0);
	assert_int_equal(cqe.fault_va, 0x101000);
	assert_int_equal(cqe.flags, 0);
	assert_int_equal(fake_status(f, 0)->error, EFAULT);
	assert_int_equal(fake_status(f, 0)->completed_seqno, 1);

	submit_one(f, copy_job(f, 2, 0x110000, 0x120000));
	assert_done(f, 1, 2, VNPU_FW_FAULT);
	cqe = fake_wait(f, 1);
	assert_int_equal(cqe.fault_va, 0x120000);
	assert_int_equal(cqe.flags, VNPU_FW_CQE_FAULT_WRITE);

	/* A stream that is not bound. */
	submit_one(f, (struct vnpu_fw_sqe){ .type = VNPU_FW_SQE_JOB,
					    .ctx = 1,
					    .tag = 3,
					    .seqno = 3,
					    .cmd_va = 0x200000,
					    .table_va = 0x201000,
					    .cmd_size = 64,
					    .table_size = 64 });
	assert_done(f, 2, 3, VNPU_FW_FAULT);
	assert_int_equal(fake_wait(f, 2).fault_va, 0x200000);

	/* The device goes on; the queue keeps its first error. */
	submit_one(f, empty_job(f, 1, 0, 4));
	assert_done(f, 3, 4, VNPU_FW_OK);
	assert_int_equal(fake_status(f, 0)->error, EFAULT);
	assert_int_equal(fake_status(f, 0)->completed_seqno, 4);
	fake_stop(f);
	fake_destroy(f);
}

static void the_first_error_of_a_queue_stays(void **state)
{
	struct fake *f = fake_create(16);
	struct vnpu_fw_sqe bad = empty_job(f, 1, 0, 1);

	bad.cmd_size = 8;
	fake_start(f, 1, 0, FW_ISA_AUTO);
	submit_one(f, bad);
	assert_done(f, 0, 1, VNPU_FW_INVALID);
	assert_int_equal(fake_status(f, 0)->error, EINVAL);
	submit_one(f, copy_job(f, 2, 0x100000, 0x110000));
	assert_done(f, 1, 2, VNPU_FW_FAULT);
	assert_int_equal(fake_status(f, 0)->error, EINVAL);
	fake_stop(f);
	fake_destroy(f);
}

/* ---- rings ----------------------------------------------------------------------------------- */

static void entries_with_numbers_out_of_range_are_refused(void **state)
{
	struct fake *f = fake_create(16);
	struct vnpu_fw_sqe ok = empty_job(f, 1, 0, 1), s[7];
	unsigned int i;

	for (i = 0; i < 7; i++) {
		s[i] = ok;
		s[i].tag = 10 + i;
	}
	s[0].queue = FAKE_NR_QUEUES;
	s[1].queue = 0xffffffff;
	s[2].ctx = 0;
	s[3].ctx = FAKE_NR_CTX + 1;
	s[4].priority = 3;
	s[5].priority = 0xffffffff;
	s[6] = (struct vnpu_fw_sqe){ .type = VNPU_FW_SQE_CTX_CLOSE, .ctx = 0xffffffff };
	fake_start(f, 1, 0, FW_ISA_AUTO);
	fake_submit(f, s, 7);
	submit_one(f, ok);
	for (i = 0; i < 6; i++)
		assert_done(f, i, 10 + i, VNPU_FW_INVALID);
	/* There is no context to be reported as closed. */
	assert_done(f, 6, 1, VNPU_FW_OK);
	fake_stop(f);
	fake_destroy(f);
}

static void sizes_and_addresses_of_a_job_are_checked(void **state)
{
	struct fake *f = fake_create(32);
	struct vnpu_fw_sqe ok = empty_job(f, 1, 0, 1), s[12];
	unsigned int i;

	for (i = 0; i < 12; i++) {
		s[i] = ok;
		s[i].tag = s[i].seqno = 10 + i;
	}
	s[0].cmd_size = 0;
	s[1].cmd_size = VNPU_MAX_STREAM_BYTES + 8;
	s[2].cmd_size -= 4;
	s[3].cmd_va += 4;
	s[4].cmd_va = 1ull << FAKE_VA_BITS;
	s[5].cmd_va = (1ull << FAKE_VA_BITS) - 8;
	s[6].cmd_va = UINT64_MAX - 7;
	s[7].table_size = 0;
	s[8].table_size = VNPU_MAX_TABLE_BYTES + 8;
	s[9].table_va += 4;
	s[10].table_va = UINT64_MAX - 7;
	s[11].table_size = 0xfffffff8;
	fake_start(f, 1, 0, FW_ISA_AUTO);
	fake_submit(f, s, 12);
	for (i = 0; i < 12; i++)
		assert_done(f, i, 10 + i, VNPU_FW_INVALID);
	submit_one(f, ok);
	assert_done(f, 12, 1, VNPU_FW_OK);
	fake_stop(f);
	fake_destroy(f);
}

static void more_jobs_than_the_ring_holds_fail(void **state)
{
	struct fake *f = fake_create(8);
	struct vnpu_fw_sqe s[8], sleeper = sleep_job(f, 1, 7, 1, 60000000000ull);
	unsigned int i;

	fake_start(f, 1, 0, FW_ISA_AUTO);
	submit_one(f, sleeper);
	wait_taken(f);
	for (i = 0; i < 8; i++)
		s[i] = empty_job(f, 1, i % 4, 2 + i);
	fake_submit(f, s, 8);
	wait_taken(f);
	submit_one(f, empty_job(f, 1, 0, 10));
	assert_done(f, 0, 10, VNPU_FW_FAILED);
	submit_one(f, cancel_of(&sleeper));
	assert_done(f, 1, 1, VNPU_FW_CANCELED);
	fake_wait(f, 9);
	fake_stop(f);
	fake_destroy(f);
}

static void a_tail_beyond_the_ring_ends_the_core(void **state)
{
	struct fake *f = fake_create(16);

	fake_start(f, 2, 0, FW_ISA_AUTO);
	pthread_mutex_lock(&f->lock);
	__atomic_store_n(&f->info.sq_tail, 17, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	assert_int_equal(fake_join(f), -EPROTO);
	assert_non_null(strstr(f->broken, "tail 17 is 17 entries past its head 0"));
	fake_destroy(f);
}

static void a_completion_ring_that_stays_full_ends_the_core(void **state)
{
	struct fake *f = fake_create(8);
	unsigned int i;

	f->frozen = true;
	fake_start(f, 1, 0, FW_ISA_AUTO);
	for (i = 0; i < 9; i++) {
		submit_one(f, empty_job(f, 1, 0, i + 1));
		if (i < 8)
			wait_taken(f);
	}
	assert_int_equal(fake_join(f), -EPROTO);
	assert_int_equal(f->ctl.cq_tail, 8);
	assert_non_null(strstr(f->broken, "completion ring of 8 entries is full"));
	fake_destroy(f);
}

static void ring_indices_wrap_around(void **state)
{
	struct fake *f = fake_create(8);
	unsigned int i;

	f->info.sq_tail = f->ctl.sq_head = 0xfffffffd;
	f->info.cq_head = f->ctl.cq_tail = 0xfffffffa;
	fake_start(f, 1, 0, FW_ISA_AUTO);
	for (i = 0; i < 12; i++) {
		submit_one(f, empty_job(f, 1, 0, i + 1));
		assert_done(f, i, i + 1, VNPU_FW_OK);
	}
	fake_stop(f);
	fake_destroy(f);
}

static void an_invalid_port_is_refused(void **state)
{
	struct fw_config cfg = { .threads = 1 };
	struct fake *f = fake_create(16);
	struct vnpu_fw_info ok = f->info;

#define REFUSED(field, value)                                \
	do {                                                 \
		f->info = ok;                                \
		f->info.field = value;                       \
		errno = 0;                                   \
		assert_null(fw_core_create(&cfg, &f->port)); \
		assert_int_equal(errno, EINVAL);             \
	} while (0)
	REFUSED(magic, 0);
	REFUSED(sq_entries, 0);
	REFUSED(sq_entries, 15);
	REFUSED(cq_entries, 3);
	REFUSED(cq_entries, 1u << 31);
	REFUSED(nr_queues, 0);
	REFUSED(nr_queues, VNPU_FW_MAX_QUEUES + 1);
	REFUSED(nr_ctx, 0);
	REFUSED(nr_ctx, VNPU_FW_MAX_CTX + 1);
	REFUSED(va_bits, VNPU_FW_MIN_VA_BITS - 1);
	REFUSED(va_bits, 64);
	f->info = ok;
	cfg.isa = (enum fw_isa)77;
	assert_null(fw_core_create(&cfg, &f->port));
	assert_int_equal(errno, ENOTSUP);
	fake_destroy(f);
}

static void a_core_stops_in_the_middle_of_a_job(void **state)
{
	struct fake *f = fake_create(16);

	fake_start(f, 2, 0, FW_ISA_AUTO);
	submit_one(f, sleep_job(f, 1, 0, 1, 60000000000ull));
	wait_taken(f);
	assert_int_equal(fake_stop(f), 0);
	fake_destroy(f);
}

/* ---- results --------------------------------------------------------------------------------- */

static void results_depend_neither_on_threads_nor_on_isa(void **state)
{
	static const struct {
		unsigned int threads;
		enum fw_isa isa;
	} runs[] = { { 1, FW_ISA_GENERIC }, { 2, FW_ISA_GENERIC },     { 5, FW_ISA_AUTO },
		     { 1, FW_ISA_AVX2 },    { 3, FW_ISA_AVX512_VNNI }, { 2, FW_ISA_AUTO } };
	uint8_t *want = malloc(65536);
	struct job_builder b;
	struct fake *f;
	unsigned int i, j;

	rng_seed(__func__);
	f = fake_create(16);
	all_ops_make(&b, f, 1);
	for (i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		if (!fw_isa_name(runs[i].isa))
			continue;
		memset(f->mem[1] + ALL_OUT, 0, 65536);
		f->nr_done = 0;
		fake_start(f, runs[i].threads, 20, runs[i].isa);
		for (j = 0; j < 3; j++) {
			submit_one(f, job_place(&b, f, 1, 0, STREAM_VA, j + 1));
			assert_done(f, j, j + 1, VNPU_FW_OK);
		}
		fake_stop(f);
		if (!i)
			memcpy(want, f->mem[1] + ALL_OUT, 65536);
		assert_memory_equal(f->mem[1] + ALL_OUT, want, 65536);
	}
	free(want);
	fake_destroy(f);
}

/*
 * Regions large enough to wake all workers, each of which needs all of the one before: c = a w, sum
 * += c, c = 0, twenty times.
 */
static void many_regions_on_many_threads_give_the_bits_of_one(void **state)
{
	struct vnpu_cmd_matmul_i8 mm = {
		.m = 24, .n = 512, .k = 512, .lda = 512, .ldc = 512, .tile_m = 6, .tile_n = 64
	};
	struct vnpu_cmd_binary add = {
		.rows = 24, .cols = 512, .lda = 512, .ldb = 512, .ldy = 512
	};
	struct vnpu_cmd_copy clear = { .rows = 24,
				       .row_bytes = 2048,
				       .src_stride_bytes = 2048,
				       .dst_stride_bytes = 2048,
				       .dst_row_param = VNPU_PARAM_NONE };
	uint32_t panels = 512 / 64 * VNPU_PANEL_I8_BYTES(512), i;
	float *want = malloc(24 * 512 * 4), *sum, w_scale[512];
	int8_t *w = malloc(512 * 512);
	struct job_builder b;
	struct fake *f;
	unsigned int threads, j;

	rng_seed(__func__);
	f = fake_create(16);
	fake_bind(f, 1, 0x1000000, 0x200000, true);
	for (i = 0; i < 24 * 512; i++)
		f->mem[1][0x1000000 + i] = rng_u32();
	for (i = 0; i < 24; i++)
		((float *)(f->mem[1] + 0x1004000))[i] = rng_float();
	for (i = 0; i < 512 * 512; i++)
		w[i] = rng_u32();
	for (i = 0; i < 512; i++)
		w_scale[i] = rng_float();
	pack_w8(f->mem[1] + 0x1010000, w, w_scale, 512, 512);
	sum = (float *)(f->mem[1] + 0x1110000);

	job_begin(&b);
	job_slot(&b, 0x1000000, 0x10000, VNPU_SLOT_READ);
	job_slot(&b, 0x1010000, panels, VNPU_SLOT_READ);
	job_slot(&b, 0x1100000, 0x40000, VNPU_SLOT_READ | VNPU_SLOT_WRITE);
	mm.a_scale.offset = 0x4000;
	mm.w.slot = 1;
	mm.bias.slot = VNPU_SLOT_NONE;
	mm.c = add.b = clear.dst = ref_to(2, 0);
	add.a = add.y = ref_to(2, 0x10000);
	clear.src = ref_to(2, 0x20000);
	for (i = 0; i < 20; i++) {
		job_cmd(&b, VNPU_OP_MATMUL_I8, &mm, sizeof(mm));
		job_plain(&b, VNPU_OP_BARRIER);
		job_cmd(&b, VNPU_OP_ADD, &add, sizeof(add));
		job_plain(&b, VNPU_OP_BARRIER);
		job_cmd(&b, VNPU_OP_COPY, &clear, sizeof(clear));
		job_plain(&b, VNPU_OP_BARRIER);
	}
	job_end(&b);
	for (threads = 1; threads <= 8; threads = threads * 2 + 1) {
		f->nr_done = 0;
		fake_start(f, threads, 0, FW_ISA_AUTO);
		for (j = 0; j < 20; j++) {
			memset(sum, 0, 24 * 512 * 4);
			submit_one(f, job_place(&b, f, 1, 0, STREAM_VA, j + 1));
			assert_done(f, j, j + 1, VNPU_FW_OK);
			if (threads == 1 && !j)
				memcpy(want, sum, 24 * 512 * 4);
			assert_memory_equal(sum, want, 24 * 512 * 4);
		}
		fake_stop(f);
	}
	free(want);
	free(w);
	fake_destroy(f);
}

/* The client changes its stream and table as soon as the device has copied them. */
static void spoil(struct fake *f)
{
	memset(f->mem[1] + STREAM_VA + 8192, 0xff, 4096);
	memset(f->mem[1] + STREAM_VA, 0xff, 8192);
}

static _Atomic unsigned int nr_guards;

static void spoil_after_copies(struct fake *f)
{
	if (++nr_guards > 1)
		spoil(f);
}

static void rewriting_the_stream_after_the_copy_changes_nothing(void **state)
{
	uint8_t *want = malloc(65536);
	struct vnpu_fw_sqe sqe;
	struct job_builder b;
	struct fake *f;

	rng_seed(__func__);
	f = fake_create(16);
	all_ops_make(&b, f, 1);
	fake_start(f, 1, 0, FW_ISA_AUTO);
	submit_one(f, job_place(&b, f, 1, 0, STREAM_VA, 1));
	assert_done(f, 0, 1, VNPU_FW_OK);
	memcpy(want, f->mem[1] + ALL_OUT, 65536);
	memset(f->mem[1] + ALL_OUT, 0, 65536);

	sqe = job_place(&b, f, 1, 0, STREAM_VA, 2);
	nr_guards = 0;
	f->on_guard = spoil_after_copies;
	submit_one(f, sqe);
	assert_done(f, 1, 2, VNPU_FW_OK);
	assert_memory_equal(f->mem[1] + ALL_OUT, want, 65536);

	/* Changed before the copy, the same job is refused. */
	f->on_guard = spoil;
	sqe.tag = sqe.seqno = 3;
	submit_one(f, sqe);
	assert_done(f, 2, 3, VNPU_FW_INVALID);
	fake_stop(f);
	free(want);
	fake_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs_of_a_queue_complete_in_order),
		cmocka_unit_test(higher_priorities_go_first_and_queues_alternate),
		cmocka_unit_test(a_waiting_job_can_be_cancelled),
		cmocka_unit_test(a_job_reports_its_start_and_counts_its_tiles),
		cmocka_unit_test(a_sleeping_job_can_be_cancelled),
		cmocka_unit_test(a_computing_job_can_be_cancelled),
		cmocka_unit_test(cancelling_what_is_not_there_is_ignored),
		cmocka_unit_test(closing_a_context_ends_its_jobs_and_unmaps_it),
		cmocka_unit_test(closing_an_idle_context_is_answered),
		cmocka_unit_test(a_fault_is_reported_with_its_address),
		cmocka_unit_test(the_first_error_of_a_queue_stays),
		cmocka_unit_test(entries_with_numbers_out_of_range_are_refused),
		cmocka_unit_test(sizes_and_addresses_of_a_job_are_checked),
		cmocka_unit_test(more_jobs_than_the_ring_holds_fail),
		cmocka_unit_test(a_tail_beyond_the_ring_ends_the_core),
		cmocka_unit_test(a_completion_ring_that_stays_full_ends_the_core),
		cmocka_unit_test(ring_indices_wrap_around),
		cmocka_unit_test(an_invalid_port_is_refused),
		cmocka_unit_test(a_core_stops_in_the_middle_of_a_job),
		cmocka_unit_test(results_depend_neither_on_threads_nor_on_isa),
		cmocka_unit_test(many_regions_on_many_threads_give_the_bits_of_one),
		cmocka_unit_test(rewriting_the_stream_after_the_copy_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
