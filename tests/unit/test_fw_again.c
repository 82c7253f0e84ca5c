// SPDX-License-Identifier: MIT
/*
 * A job that is submitted again and that the core need not decode again: it must always match the
 * memory's present contents.
 */
#include "fw_fake.h"

#define JOB_VA 0x10000 /* the table is 8 KiB behind it: job_place() */
#define TABLE_VA (JOB_VA + 8192)
#define SRC_VA 0x100000
#define DST_VA 0x110000
#define OTHER_VA 0x120000
#define BYTES 256

static struct fake *f;
static struct vnpu_fw_sqe job; /* copies BYTES from SRC_VA to DST_VA */
static unsigned int nr_jobs;

static void make_job(uint32_t ctx)
{
	struct vnpu_cmd_copy cmd = {
		.rows = 1,
		.row_bytes = BYTES,
		.src_stride_bytes = BYTES,
		.dst_stride_bytes = BYTES,
		.dst_row_param = VNPU_PARAM_NONE,
	};
	struct job_builder b;

	for (uint64_t va = SRC_VA; va <= OTHER_VA; va += DST_VA - SRC_VA)
		fake_bind(f, ctx, va, 4096, true);
	job_begin(&b);
	cmd.src = ref_to(job_slot(&b, SRC_VA, BYTES, VNPU_SLOT_READ), 0);
	cmd.dst = ref_to(job_slot(&b, DST_VA, BYTES, VNPU_SLOT_WRITE), 0);
	job_cmd(&b, VNPU_OP_COPY, &cmd, sizeof(cmd));
	job_end(&b);
	job = job_place(&b, f, ctx, 0, JOB_VA, 0);
}

static void submit(uint32_t status)
{
	struct vnpu_fw_cqe cqe;

	job.tag = job.seqno = nr_jobs + 1;
	fake_submit(f, &job, 1);
	cqe = fake_wait(f, nr_jobs++);
	assert_int_equal(cqe.tag, job.tag);
	assert_int_equal(cqe.status, status);
}

/* Runs the job on new data and expects it at @dst_va. */
static void submit_copies(uint64_t dst_va)
{
	uint8_t *mem = f->mem[job.ctx];

	for (int i = 0; i < BYTES; i++)
		mem[SRC_VA + i] = (uint8_t)rng_u32();
	memset(mem + DST_VA, 0, BYTES);
	memset(mem + OTHER_VA, 0, BYTES);
	submit(VNPU_FW_OK);
	assert_memory_equal(mem + dst_va, mem + SRC_VA, BYTES);
	assert_int_equal(mem[dst_va == DST_VA ? OTHER_VA : DST_VA], 0);
}

static struct vnpu_slot *dst_slot(void)
{
	return (struct vnpu_slot *)(f->mem[job.ctx] + TABLE_VA + sizeof(struct vnpu_table_hdr)) + 1;
}

static struct vnpu_cmd_copy *copy_cmd(void)
{
	return (struct vnpu_cmd_copy *)(f->mem[job.ctx] + JOB_VA + sizeof(struct vnpu_stream_hdr));
}

static int setup(void **state)
{
	rng_seed("test_fw_again");
	nr_jobs = 0;
	f = fake_create(16);
	make_job(1);
	fake_start(f, 1, 0, FW_ISA_AUTO);
	return 0;
}

static int teardown(void **state)
{
	fake_stop(f);
	fake_destroy(f);
	return 0;
}

static void it_uses_the_present_data(void **state)
{
	for (int i = 0; i < 4; i++)
		submit_copies(DST_VA);
}

static void it_uses_the_present_table(void **state)
{
	submit_copies(DST_VA);
	dst_slot()->va = OTHER_VA;
	submit_copies(OTHER_VA);
	submit_copies(OTHER_VA);
	dst_slot()->va = DST_VA;
	submit_copies(DST_VA);
}

static void it_runs_the_present_stream(void **state)
{
	submit_copies(DST_VA);
	copy_cmd()->row_bytes = copy_cmd()->src_stride_bytes = copy_cmd()->dst_stride_bytes =
		BYTES / 2;
	memset(f->mem[1] + DST_VA, 0, BYTES);
	submit(VNPU_FW_OK);
	assert_memory_equal(f->mem[1] + DST_VA, f->mem[1] + SRC_VA, BYTES / 2);
	for (int i = BYTES / 2; i < BYTES; i++)
		assert_int_equal(f->mem[1][DST_VA + i], 0);
}

static void a_refused_job_is_refused_again(void **state)
{
	submit_copies(DST_VA);
	copy_cmd()->hdr.flags = 1;
	submit(VNPU_FW_INVALID);
	submit(VNPU_FW_INVALID);
	copy_cmd()->hdr.flags = 0;
	submit_copies(DST_VA);
	dst_slot()->size_bytes = BYTES - 1;
	submit(VNPU_FW_INVALID);
	submit(VNPU_FW_INVALID);
	dst_slot()->size_bytes = BYTES;
	submit_copies(DST_VA);
}

static void sizes_that_do_not_fit_are_refused_whatever_ran_before(void **state)
{
	submit_copies(DST_VA);
	job.cmd_size -= 8;
	submit(VNPU_FW_INVALID);
	job.cmd_size += 16;
	submit(VNPU_FW_INVALID);
	job.cmd_size -= 8;
	job.table_size -= 8;
	submit(VNPU_FW_INVALID);
	job.table_size += 8;
	job.cmd_va += 4;
	submit(VNPU_FW_INVALID);
	job.cmd_va -= 4;
	submit_copies(DST_VA);
}

static void unbound_memory_faults(void **state)
{
	submit_copies(DST_VA);
	f->bound[1][TABLE_VA >> 12] = 0;
	submit(VNPU_FW_FAULT);
	submit(VNPU_FW_FAULT);
	f->bound[1][TABLE_VA >> 12] = 1;
	submit_copies(DST_VA);
	f->bound[1][DST_VA >> 12] = 0;
	submit(VNPU_FW_FAULT);
	f->bound[1][DST_VA >> 12] = 2;
	submit_copies(DST_VA);
}

static void the_same_job_in_another_context_uses_that_context_s_memory(void **state)
{
	submit_copies(DST_VA);
	make_job(2);
	submit_copies(DST_VA);
	memset(f->mem[1] + DST_VA, 0, BYTES);
	submit_copies(DST_VA);
	for (int i = 0; i < BYTES; i++)
		assert_int_equal(f->mem[1][DST_VA + i], 0);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_uses_the_present_data),
		TEST(it_uses_the_present_table),
		TEST(it_runs_the_present_stream),
		TEST(a_refused_job_is_refused_again),
		TEST(sizes_that_do_not_fit_are_refused_whatever_ran_before),
		TEST(unbound_memory_faults),
		TEST(the_same_job_in_another_context_uses_that_context_s_memory),
	};

	return cmocka_run_group_tests_name("fw_again", tests, NULL, NULL);
}
