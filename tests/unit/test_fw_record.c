// SPDX-License-Identifier: MIT
/* The record slot: a job's record, how much of it is written, and when it is not. */
#include "fw_all_ops.h"

#include "fw_time.h"
#include "soc.h"

#define STREAM_VA 0x10000
#define RECORD_VA 0x200000
#define RECORD_BYTES 8192

struct fixture {
	struct fake *f;
	struct soc *soc;
	struct job_builder job; /* every operation, without a record slot */
	unsigned int nr_jobs;
};

static int set_up(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	char why[256];

	rng_seed("test_fw_record");
	x->soc = soc_load("sd8gen3", why, sizeof(why));
	assert_non_null(x->soc);
	x->f = fake_create(16);
	x->f->npu = &x->soc->npu;
	all_ops_make(&x->job, x->f, 1);
	fake_bind(x->f, 1, RECORD_VA, RECORD_BYTES, true);
	fake_start(x->f, 2, 0, FW_ISA_AUTO);
	*state = x;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *x = *state;

	fake_stop(x->f);
	fake_destroy(x->f);
	soc_free(x->soc);
	free(x);
	return 0;
}

static struct vnpu_table_hdr *table_of(struct job_builder *b)
{
	return (struct vnpu_table_hdr *)b->table;
}

/* @b with a record slot that the stream does not use. */
static struct job_builder timed(const struct job_builder *b, uint64_t va, uint64_t bytes)
{
	struct job_builder t = *b;
	uint8_t *params =
		t.table + sizeof(struct vnpu_table_hdr) + b->nr_slots * sizeof(struct vnpu_slot);
	struct vnpu_slot slot = { va, bytes, VNPU_SLOT_WRITE, 0 };

	memmove(params + sizeof(slot), params, b->nr_params * 8);
	memcpy(params, &slot, sizeof(slot));
	t.table_bytes += sizeof(slot);
	table_of(&t)->nr_slots++;
	table_of(&t)->record_slot = b->nr_slots;
	return t;
}

static struct vnpu_fw_cqe run(struct fixture *x, struct job_builder b)
{
	struct vnpu_fw_sqe sqe;

	x->nr_jobs++;
	sqe = job_place(&b, x->f, 1, 0, STREAM_VA, x->nr_jobs);
	x->f->last_log[0] = 0;
	fake_submit(x->f, &sqe, 1);
	return fake_wait(x->f, x->nr_jobs - 1);
}

static const struct vnpu_record *record_of(struct fixture *x)
{
	return (const struct vnpu_record *)(x->f->mem[1] + RECORD_VA);
}

static const struct vnpu_record_cmd *cmds_of(struct fixture *x)
{
	return (const struct vnpu_record_cmd *)(record_of(x) + 1);
}

/* Behind the records of all commands. */
static const struct vnpu_record_work *work_of(struct fixture *x)
{
	return (const struct vnpu_record_work *)(cmds_of(x) + record_of(x)->nr_cmds);
}

static uint64_t whole_record(uint32_t nr_cmds)
{
	return sizeof(struct vnpu_record) + sizeof(struct vnpu_record_work) +
	       nr_cmds * (sizeof(struct vnpu_record_cmd) + sizeof(uint64_t));
}

static void forget(struct fixture *x)
{
	memset(x->f->mem[1] + RECORD_VA, 0xa5, RECORD_BYTES);
}

static bool untouched(struct fixture *x, uint64_t from)
{
	for (uint64_t i = from; i < RECORD_BYTES; i++)
		if (x->f->mem[1][RECORD_VA + i] != 0xa5)
			return false;
	return true;
}

static void a_record_has_the_model_s_and_the_host_s_times(void **state)
{
	struct fixture *x = *state;
	struct job_builder b = timed(&x->job, RECORD_VA, RECORD_BYTES);
	const struct vnpu_record *r = record_of(x);
	const struct vnpu_record_cmd *cmds = cmds_of(x);
	struct fw_prog prog = { 0 };
	struct fw_time_step step;
	struct fw_time_walk walk;
	uint32_t region = 0;
	char why[256];

	forget(x);
	assert_int_equal(run(x, b).status, VNPU_FW_OK);
	assert_int_equal(fw_prog_decode(&prog, b.stream, b.stream_bytes, b.table, b.table_bytes,
					1ull << FAKE_VA_BITS, why, 256),
			 0);
	assert_int_equal(r->device_ns, fw_time_job_ns(&x->soc->npu, &prog));
	assert_int_equal(r->device_cycles, fw_time_cycles(&x->soc->npu, r->device_ns));
	assert_int_equal(r->nr_cmds, x->job.nr_cmds);
	assert_int_equal(r->nr_records, x->job.nr_cmds);
	assert_true(r->wall_ns >= 1000); /* there is a SLEEP in it */
	fw_time_begin(&walk, &x->soc->npu, &prog, b.stream);
	for (uint32_t i = 0; i < r->nr_records; i++) {
		fw_time_next(&walk, &step);
		assert_int_equal(cmds[i].index, i);
		assert_int_equal(cmds[i].op, step.op);
		assert_int_equal(cmds[i].device_start_ns, step.start_ns);
		assert_int_equal(cmds[i].device_ns, step.ns);
		assert_int_equal(cmds[i].device_cycles, step.cycles);
		assert_true(cmds[i].wall_start_ns <= cmds[i].wall_end_ns &&
			    cmds[i].wall_end_ns <= r->wall_ns);
		if (i && step.region == region) {
			assert_int_equal(cmds[i].wall_start_ns, cmds[i - 1].wall_start_ns);
			assert_int_equal(cmds[i].wall_end_ns, cmds[i - 1].wall_end_ns);
		} else if (i) {
			assert_int_equal(cmds[i - 1].op, VNPU_OP_BARRIER);
			assert_true(cmds[i].wall_start_ns >= cmds[i - 1].wall_end_ns);
		}
		region = step.region;
	}
	assert_int_equal(region, 2);
	assert_true(untouched(x, whole_record(r->nr_cmds)));
	fw_prog_free(&prog);
}

/* All commands were computed, each within the time of its region. */
static void check_work(struct fixture *x, unsigned int threads)
{
	const struct vnpu_record *r = record_of(x);
	const struct vnpu_record_work *work = work_of(x);
	const uint64_t *busy_ns = (const uint64_t *)(work + 1);
	const struct vnpu_record_cmd *cmds = cmds_of(x);
	uint64_t in_region = 0, wall_ns;

	assert_int_equal(work->nr_workers, threads);
	assert_int_equal(work->reserved, 0);
	for (uint32_t i = 0; i < r->nr_cmds; i++) {
		if (cmds[i].op == VNPU_OP_BARRIER || cmds[i].op == VNPU_OP_END ||
		    cmds[i].op == VNPU_OP_SLEEP)
			assert_int_equal(busy_ns[i], 0);
		else
			assert_true(busy_ns[i] > 0);
		in_region += busy_ns[i];
		wall_ns = cmds[i].wall_end_ns - cmds[i].wall_start_ns;
		assert_true(in_region <= threads * wall_ns);
		if (cmds[i].op == VNPU_OP_BARRIER)
			in_region = 0;
	}
}

static void workers_are_busy_for_at_most_the_time_of_their_region(void **state)
{
	struct fixture *x = *state;

	for (unsigned int threads = 1; threads <= 4; threads++) {
		fake_stop(x->f);
		fake_start(x->f, threads, 0, FW_ISA_AUTO);
		for (int i = 0; i < 20; i++) {
			forget(x);
			assert_int_equal(run(x, timed(&x->job, RECORD_VA, RECORD_BYTES)).status,
					 VNPU_FW_OK);
			check_work(x, threads);
		}
	}
}

static void what_workers_did_is_recorded_if_there_is_room_for_all_of_it(void **state)
{
	struct fixture *x = *state;
	uint64_t whole = whole_record(x->job.nr_cmds),
		 cmds = sizeof(struct vnpu_record) +
			x->job.nr_cmds * sizeof(struct vnpu_record_cmd);

	for (uint64_t bytes = cmds; bytes < whole; bytes += 8) {
		forget(x);
		assert_int_equal(run(x, timed(&x->job, RECORD_VA, bytes)).status, VNPU_FW_OK);
		assert_int_equal(record_of(x)->nr_records, x->job.nr_cmds);
		assert_true(untouched(x, cmds));
	}
	forget(x);
	assert_int_equal(run(x, timed(&x->job, RECORD_VA, whole)).status, VNPU_FW_OK);
	check_work(x, 2);
	assert_true(untouched(x, whole));
}

static void device_times_depend_on_neither_threads_nor_kernels(void **state)
{
	struct fixture *x = *state;
	uint64_t device_ns = 0;

	for (unsigned int threads = 1; threads <= 4; threads++) {
		for (enum fw_isa isa = FW_ISA_GENERIC; isa <= FW_ISA_NEON_I8MM; isa++) {
			if (!fw_isa_name(isa))
				continue;
			fake_stop(x->f);
			fake_start(x->f, threads, 0, isa);
			forget(x);
			assert_int_equal(
				run(x, timed(&x->job, RECORD_VA, sizeof(struct vnpu_record)))
					.status,
				VNPU_FW_OK);
			if (device_ns)
				assert_int_equal(record_of(x)->device_ns, device_ns);
			device_ns = record_of(x)->device_ns;
		}
	}
	assert_true(device_ns > x->soc->npu.launch_us * 1000);
}

static void as_many_commands_are_recorded_as_there_is_room_for(void **state)
{
	struct fixture *x = *state;
	const uint64_t one = sizeof(struct vnpu_record_cmd), header = sizeof(struct vnpu_record);

	for (uint64_t bytes = header; bytes < header + 4 * one; bytes += 8) {
		uint64_t fit = (bytes - header) / one;

		forget(x);
		assert_int_equal(run(x, timed(&x->job, RECORD_VA, bytes)).status, VNPU_FW_OK);
		assert_int_equal(record_of(x)->nr_cmds, x->job.nr_cmds);
		assert_int_equal(record_of(x)->nr_records, fit);
		if (fit)
			assert_int_equal(cmds_of(x)[fit - 1].index, fit - 1);
		assert_true(untouched(x, header + fit * one));
	}
	for (uint64_t bytes = 0; bytes < header; bytes++) {
		forget(x);
		assert_int_equal(run(x, timed(&x->job, bytes ? RECORD_VA : 0, bytes)).status,
				 VNPU_FW_INVALID);
		assert_non_null(strstr(x->f->last_log, "record slot 4"));
		assert_true(untouched(x, 0));
	}
}

/* More commands than are written at a time, in few regions. */
static void long_streams_are_recorded_completely(void **state)
{
	struct fixture *x = *state;
	struct job_builder b;

	job_begin(&b);
	for (int i = 0; i < 150; i++) {
		if (i % 3)
			job_plain(&b, VNPU_OP_BARRIER);
		else
			job_sleep(&b, 10 + i);
	}
	job_end(&b);
	forget(x);
	assert_int_equal(run(x, timed(&b, RECORD_VA, RECORD_BYTES)).status, VNPU_FW_OK);
	assert_int_equal(record_of(x)->nr_records, 151);
	for (uint32_t i = 0; i < 150; i++) {
		assert_int_equal(cmds_of(x)[i].index, i);
		assert_int_equal(cmds_of(x)[i].op, i % 3 ? VNPU_OP_BARRIER : VNPU_OP_SLEEP);
		assert_int_equal(cmds_of(x)[i].device_ns, i % 3 ? 0 : 10 + i);
		if (i % 3 == 0)
			assert_true(cmds_of(x)[i].wall_end_ns - cmds_of(x)[i].wall_start_ns >=
				    10 + i);
	}
	assert_int_equal(cmds_of(x)[150].op, VNPU_OP_END);
}

static void any_writable_slot_can_have_the_record(void **state)
{
	struct fixture *x = *state;
	struct job_builder b = x->job;

	table_of(&b)->record_slot = ALL_SLOT_OUT;
	assert_int_equal(run(x, b).status, VNPU_FW_OK);
	assert_int_equal(((struct vnpu_record *)(x->f->mem[1] + ALL_OUT))->nr_cmds, x->job.nr_cmds);
}

static void a_slot_that_cannot_be_written_is_a_fault(void **state)
{
	struct fixture *x = *state;
	struct vnpu_fw_cqe cqe;

	/* Not bound. */
	cqe = run(x, timed(&x->job, 0x400000, 4096));
	assert_int_equal(cqe.status, VNPU_FW_FAULT);
	assert_int_equal(cqe.fault_va & ~4095ull, 0x400000);
	assert_int_equal(cqe.flags, VNPU_FW_CQE_FAULT_WRITE);
	assert_non_null(strstr(x->f->last_log, "MMU fault: write at 0x400"));
	/* Read-only. */
	cqe = run(x, timed(&x->job, ALL_WEIGHTS, 4096));
	assert_int_equal(cqe.status, VNPU_FW_FAULT);
	assert_int_equal(cqe.flags, VNPU_FW_CQE_FAULT_WRITE);
	/* Only its end is not bound: then there is no header either. */
	forget(x);
	cqe = run(x, timed(&x->job, RECORD_VA + RECORD_BYTES - 64, 4096));
	assert_int_equal(cqe.status, VNPU_FW_FAULT);
	assert_int_equal(cqe.fault_va, RECORD_VA + RECORD_BYTES);
	assert_true(untouched(x, 0));
	/* The device still works. */
	assert_int_equal(run(x, timed(&x->job, RECORD_VA, 4096)).status, VNPU_FW_OK);
}

static void jobs_that_do_not_succeed_leave_no_record(void **state)
{
	struct vnpu_cmd_binary add = { .rows = 2, .cols = 8, .lda = 8, .ldb = 8, .ldy = 8 };
	struct fixture *x = *state;
	struct vnpu_fw_sqe sqes[2];
	struct job_builder b;

	forget(x);
	job_begin(&b);
	add.a = add.b = ref_to(job_slot(&b, 0x400000, 4096, VNPU_SLOT_READ), 0);
	add.y = ref_to(job_slot(&b, ALL_OUT, 4096, VNPU_SLOT_WRITE), 0);
	job_cmd(&b, VNPU_OP_ADD, &add, sizeof(add));
	job_end(&b);
	assert_int_equal(run(x, timed(&b, RECORD_VA, RECORD_BYTES)).status, VNPU_FW_FAULT);
	assert_true(untouched(x, 0));

	job_begin(&b);
	job_sleep(&b, 20000000000ull);
	job_end(&b);
	b = timed(&b, RECORD_VA, RECORD_BYTES);
	x->nr_jobs++;
	sqes[0] = job_place(&b, x->f, 1, 0, STREAM_VA, x->nr_jobs);
	sqes[1] = (struct vnpu_fw_sqe){
		.type = VNPU_FW_SQE_CANCEL, .ctx = 1, .queue = 0, .tag = x->nr_jobs
	};
	fake_submit(x->f, &sqes[0], 1);
	while (__atomic_load_n(&fake_status(x->f, 0)->started_seqno, __ATOMIC_ACQUIRE) !=
	       x->nr_jobs)
		usleep(100);
	fake_submit(x->f, &sqes[1], 1);
	assert_int_equal(fake_wait(x->f, x->nr_jobs - 1).status, VNPU_FW_CANCELED);
	assert_true(untouched(x, 0));
}

static void a_device_without_a_profile_has_wall_times_only(void **state)
{
	struct fixture *x = *state;
	const struct vnpu_record *r = record_of(x);

	fake_stop(x->f);
	x->f->npu = NULL;
	fake_start(x->f, 2, 0, FW_ISA_AUTO);
	assert_int_equal(run(x, timed(&x->job, RECORD_VA, RECORD_BYTES)).status, VNPU_FW_OK);
	assert_int_equal(r->device_ns + r->device_cycles, 0);
	assert_true(r->wall_ns >= 1000);
	assert_int_equal(r->nr_records, x->job.nr_cmds);
	for (uint32_t i = 0; i < r->nr_records; i++)
		assert_int_equal(cmds_of(x)[i].device_start_ns + cmds_of(x)[i].device_ns, 0);
}

/* As from clients of ISA 1.0: the header is shorter and has no record slot. */
static void tables_of_version_1_0_run_as_before(void **state)
{
	struct fixture *x = *state;
	struct job_builder b = x->job;
	const size_t more = sizeof(struct vnpu_table_hdr) - VNPU_TABLE_HDR_BYTES_1_0;

	memmove(b.table + VNPU_TABLE_HDR_BYTES_1_0, b.table + sizeof(struct vnpu_table_hdr),
		b.table_bytes - sizeof(struct vnpu_table_hdr));
	b.table_bytes -= more;
	table_of(&b)->version = 0x10000;
	((struct vnpu_stream_hdr *)b.stream)->isa_minor = 0;
	assert_int_equal(run(x, b).status, VNPU_FW_OK);
	/* A header of the other size. */
	table_of(&b)->version = VNPU_ISA_VERSION;
	assert_int_equal(run(x, b).status, VNPU_FW_INVALID);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_record_has_the_model_s_and_the_host_s_times),
		TEST(device_times_depend_on_neither_threads_nor_kernels),
		TEST(as_many_commands_are_recorded_as_there_is_room_for),
		TEST(long_streams_are_recorded_completely),
		TEST(any_writable_slot_can_have_the_record),
		TEST(a_slot_that_cannot_be_written_is_a_fault),
		TEST(jobs_that_do_not_succeed_leave_no_record),
		TEST(a_device_without_a_profile_has_wall_times_only),
		TEST(tables_of_version_1_0_run_as_before),
		TEST(workers_are_busy_for_at_most_the_time_of_their_region),
		TEST(what_workers_did_is_recorded_if_there_is_room_for_all_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
