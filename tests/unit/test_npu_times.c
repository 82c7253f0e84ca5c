// SPDX-License-Identifier: MIT
/*
 * The times of jobs. Runs on sim, and with NPU_TRANSPORT=drm on vnpu.ko; there, tests that need the
 * device's profile are skipped if it has none.
 */
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <time.h>

#include "npu_fixture.h"
#include "npu_private.h"
#include "npu_time.h"

static struct soc *soc; /* the device's */

static int times_setup(void **state)
{
	const char *name = getenv("NPU_PROFILE");
	char why[512];

	soc = soc_load(name && *name ? name : SOC_DEFAULT, why, sizeof(why));
	if (!soc)
		puts(why);
	return !soc;
}

static int times_teardown(void **state)
{
	soc_free(soc);
	return 0;
}

static struct npu_job_times times_of(const struct npu_job *job)
{
	struct npu_job_times t;

	npu_ok(npu_job_times(job, &t));
	return t;
}

/*
 * Some wall-clock time has passed, or none if the clock is coarse, such as that of a kernel with
 * only a timer.
 */
static void assert_passed(uint64_t wall_ns)
{
	struct timespec step;

	clock_getres(CLOCK_MONOTONIC, &step);
	assert_true(wall_ns > 0 || step.tv_nsec > 100000);
}

/* Runs the job and returns its times; skips the test if the device has no profile. */
static struct npu_job_times run_for_times(struct fixture *f, struct npu_job *job)
{
	struct npu_job_times t;

	npu_ok(fixture_run(f, job));
	t = times_of(job);
	if (!t.device_ns) {
		print_message("this device has no profile\n");
		skip();
	}
	return t;
}

/* c [m][n] = q [m][k] w [n][k]^T, all bound to memory that is not read again. */
static struct npu_job *matmul_job(struct npu_context *ctx, uint32_t m, uint32_t k, uint32_t n)
{
	struct npu_graph *g = npu_graph_create("matmul");
	struct npu_tensor *q = npu_graph_input(g, "q", NPU_S8, m, k),
			  *s = npu_graph_input(g, "s", NPU_F32, m, 1);
	struct npu_tensor *w = npu_graph_weight(g, "w", NPU_W8_PANEL, n, k),
			  *c = npu_matmul_i8(g, q, s, w, NULL);
	const char *const names[] = { "q", "s", "w", "c" };
	const struct npu_tensor *const tensors[] = { q, s, w, c };
	size_t bytes[4];
	struct npu_job *job;

	npu_graph_output(g, "c", c);
	for (int i = 0; i < 4; i++)
		bytes[i] = npu_tensor_bytes(tensors[i]);
	job = fixture_job(ctx, g);
	for (int i = 0; i < 4; i++) {
		struct npu_buffer *buf;

		npu_ok(npu_buffer_create(ctx, bytes[i], 0, &buf));
		fixture_bind(job, names[i], buf);
		/* The job holds a reference. */
		npu_buffer_free(buf);
	}
	return job;
}

static uint64_t matmul_ns(struct fixture *f, uint32_t m, uint32_t k, uint32_t n)
{
	struct npu_job *job = matmul_job(f->ctx, m, k, n);
	uint64_t ns = run_for_times(f, job).device_ns;

	npu_job_free(job);
	return ns;
}

/* ---- device times ---- */

static void a_matmul_takes_its_launch_and_the_modelled_time(void **state)
{
	static const uint32_t shapes[][3] = { { 1, 64, 64 },	 { 1, 512, 1024 },  { 4, 100, 70 },
					      { 5, 100, 70 },	 { 32, 1024, 256 }, { 33, 256, 96 },
					      { 128, 768, 256 }, { 256, 70, 1000 } };

	for (unsigned int i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct npu_time_matmul op = {
			.m = shapes[i][0],
			.k = shapes[i][1],
			.n = shapes[i][2],
			.type = NPU_TIME_I8,
			.weight_bits = 8,
		};
		double alone = npu_time_alone_ns(&soc->npu, npu_time_matmul(&soc->npu, &op));
		double ns = (double)matmul_ns(*state, op.m, op.k, op.n);

		assert_true(fabs(ns - soc->npu.launch_us * 1000 - alone) <= 1);
	}
}

/* HeteroLLM 3.2 from outside: stages of the array's size, the order of a matmul's operands. */
static void jobs_show_the_stages_and_the_order_of_the_array(void **state)
{
	/* Large enough that memory is not the limit. */
	uint64_t full = matmul_ns(*state, 64, 512, 512), wide, tall,
		 launch = (uint64_t)(soc->npu.launch_us * 1000);
	uint32_t rows = (uint32_t)soc->npu.row_granule, cols = (uint32_t)soc->npu.array_cols;

	if (64 % rows || 512 % cols) {
		print_message("this profile's array has other stages\n");
		skip();
	}
	assert_int_equal(matmul_ns(*state, 64 - rows + 1, 512, 512), full);
	assert_int_equal(matmul_ns(*state, 64, 512, 512 - cols + 1), full);
	assert_true(matmul_ns(*state, 65, 512, 512) > full);
	assert_true(matmul_ns(*state, 64, 512, 513) > full);
	/* As many multiply-accumulates in both. */
	tall = matmul_ns(*state, 512, 4096, 64) - launch;
	wide = matmul_ns(*state, 64, 4096, 512) - launch;
	assert_true(wide > 2 * tall);
}

static void device_times_are_the_same_for_every_run_and_differ_from_wall_times(void **state)
{
	struct npu_job *job = matmul_job(((struct fixture *)*state)->ctx, 32, 256, 128);
	struct npu_job_times first = run_for_times(*state, job), t;

	assert_int_equal(first.nr_commands, 2);
	for (int i = 0; i < 20; i++) {
		npu_ok(fixture_run(*state, job));
		t = times_of(job);
		assert_int_equal(t.device_ns, first.device_ns);
		assert_int_equal(t.device_cycles, first.device_cycles);
		assert_passed(t.wall_ns);
	}
	assert_true(fabs((double)t.device_cycles -
			 (double)t.device_ns * soc->npu.clock_mhz / 1000) <= 1);
	npu_job_free(job);
}

static void a_sleep_lasts_as_long_on_both_clocks(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_sleep(f->ctx, 3 * MS);
	struct npu_job_times t = run_for_times(f, job);

	assert_int_equal(t.device_ns, (uint64_t)(soc->npu.launch_us * 1000) + 3 * MS);
	assert_true(t.wall_ns >= 3 * MS);
	npu_job_free(job);
}

static struct npu_device *open_sim(const char *profile, unsigned int threads, const char *isa)
{
	struct npu_device_options opts = {
		.transport = NPU_TRANSPORT_SIM, .threads = threads, .isa = isa, .profile = profile
	};
	struct npu_device *dev;

	if (isa && npu_device_open(&opts, &dev) == -EOPNOTSUPP)
		return NULL;
	else if (!isa)
		npu_ok(npu_device_open(&opts, &dev));
	return dev;
}

/* The times of one matmul on a device of its own, which is closed. */
static struct npu_job_times times_on(struct npu_device *dev)
{
	struct fixture f = { .dev = dev };
	struct npu_job_times t;
	struct npu_job *job;

	npu_ok(npu_context_create(f.dev, &f.ctx));
	npu_ok(npu_queue_create(f.ctx, NULL, &f.queue));
	job = matmul_job(f.ctx, 48, 300, 200);
	npu_ok(fixture_run(&f, job));
	t = times_of(job);
	npu_job_free(job);
	npu_queue_free(f.queue);
	npu_context_free(f.ctx);
	npu_device_close(f.dev);
	return t;
}

static void device_times_depend_on_the_profile_and_on_nothing_of_the_host(void **state)
{
	static const char *const isas[] = {
		NULL,	       "generic",    "avx2",	     "avx-vnni",
		"avx512-vnni", "avx512-amx", "neon-dotprod", "neon-i8mm"
	};
	struct npu_job_times first = times_on(open_sim("sd8gen3", 0, NULL)), t;

	assert_true(first.device_ns > 0);
	for (unsigned int i = 0; i < sizeof(isas) / sizeof(isas[0]); i++) {
		for (unsigned int threads = 1; threads <= 3; threads++) {
			struct npu_device *dev = open_sim("sd8gen3", threads, isas[i]);

			if (!dev)
				continue;
			t = times_on(dev);
			assert_int_equal(t.device_ns, first.device_ns);
			assert_int_equal(t.device_cycles, first.device_cycles);
		}
	}
	t = times_on(open_sim("sd8elite", 0, NULL));
	assert_true(t.device_ns > 0 && t.device_ns != first.device_ns);
}

static void without_an_installed_profile_jobs_have_wall_times(void **state)
{
	char *kept = getenv("NPU_PROFILE") ? strdup(getenv("NPU_PROFILE")) : NULL;
	struct npu_job_times t;

	unsetenv("NPU_PROFILE");
	setenv("VNPU_PROFILES", "/nowhere", 1);
	t = times_on(open_sim(NULL, 0, NULL));
	unsetenv("VNPU_PROFILES");
	if (kept)
		setenv("NPU_PROFILE", kept, 1);
	free(kept);
	assert_int_equal(t.device_ns + t.device_cycles, 0);
	assert_passed(t.wall_ns);
}

/* ---- single commands ---- */

/* Three regions: two sleeps at once, then two float operators at once, then one that needs both. */
static struct npu_job *regions_job(struct npu_context *ctx)
{
	struct npu_graph *g = npu_graph_create("regions");
	struct npu_tensor *x, *a, *b;
	struct npu_buffer *in, *out;
	struct npu_job *job;

	npu_ok(npu_sleep(g, 1 * MS));
	npu_ok(npu_sleep(g, 2 * MS));
	x = npu_graph_input(g, "x", NPU_F32, 16, 64);
	a = npu_silu(g, x);
	b = npu_gelu(g, x);
	npu_graph_output(g, "y", npu_add(g, a, b));
	job = fixture_job(ctx, g);
	in = fixture_floats(ctx, 16 * 64, 1);
	out = fixture_floats(ctx, 16 * 64, 0);
	fixture_bind(job, "x", in);
	fixture_bind(job, "y", out);
	npu_buffer_free(in);
	npu_buffer_free(out);
	return job;
}

static void commands_follow_one_another_on_the_device_and_share_regions_on_the_host(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = regions_job(f->ctx);
	uint64_t next = (uint64_t)(soc->npu.launch_us * 1000),
		 cycles = (uint64_t)((double)next * soc->npu.clock_mhz / 1000);
	struct npu_command_times c, last = { 0 };
	unsigned int nr_ops = 0, nr_regions = 1;
	struct npu_job_times t;

	npu_ok(npu_job_time_commands(job, true));
	t = run_for_times(f, job);
	for (uint32_t i = 0; i < t.nr_commands; i++) {
		npu_ok(npu_job_command(job, i, &c));
		assert_int_equal(c.device_start_ns, next);
		next += c.device_ns;
		cycles += c.device_cycles;
		assert_true(c.wall_start_ns <= c.wall_end_ns && c.wall_end_ns <= t.wall_ns);
		if (i && !strcmp(last.op, "barrier")) {
			nr_regions++;
			assert_true(c.wall_start_ns >= last.wall_end_ns);
		} else if (i) {
			assert_int_equal(c.wall_start_ns, last.wall_start_ns);
			assert_int_equal(c.wall_end_ns, last.wall_end_ns);
		}
		if (!strcmp(c.op, "barrier") || !strcmp(c.op, "end"))
			assert_int_equal(c.device_ns, 0);
		else
			assert_true(c.device_ns > 0);
		if (!strcmp(c.op, "sleep"))
			assert_true(c.wall_end_ns - c.wall_start_ns >= c.device_ns);
		nr_ops += !strcmp(c.op, "act") || !strcmp(c.op, "add");
		last = c;
	}
	assert_string_equal(last.op, "end");
	assert_int_equal(nr_ops, 3);
	assert_true(nr_regions >= 3);
	assert_int_equal(next, t.device_ns);
	assert_int_equal(cycles, t.device_cycles);
	npu_fails(npu_job_command(job, t.nr_commands, &c), -ERANGE, "command");
	npu_fails(npu_job_command(job, UINT32_MAX, &c), -ERANGE, "command");
	npu_job_free(job);
}

static void assert_same_times(struct npu_job_times a, struct npu_job_times b)
{
	assert_int_equal(a.device_ns, b.device_ns);
	assert_int_equal(a.device_cycles, b.device_cycles);
	assert_int_equal(a.wall_ns, b.wall_ns);
	assert_int_equal(a.nr_commands, b.nr_commands);
}

static void what_workers_did_adds_up_to_at_most_the_job_s_time(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = regions_job(f->ctx);
	unsigned int nr_ops = 0;
	uint64_t busy_ns = 0;
	struct npu_job_work w;
	struct npu_job_times t;

	npu_fails(npu_job_work(job, &w), -EAGAIN, "not submitted");
	npu_ok(fixture_run(f, job));
	npu_fails(npu_job_work(job, &w), -ENODATA, "npu_job_time_commands()");
	npu_ok(npu_job_time_commands(job, true));
	npu_fails(npu_job_work(job, &w), -ENODATA, "npu_job_time_commands()");
	t = run_for_times(f, job);
	npu_ok(npu_job_work(job, &w));
	assert_true(w.nr_workers > 0);
	assert_int_equal(w.wall_ns, t.wall_ns);
	assert_true(w.begin_ns <= w.wall_ns);
	for (uint32_t i = 0; i < w.nr_ops; i++) {
		for (uint32_t j = 0; j < i; j++)
			assert_string_not_equal(w.ops[i].op, w.ops[j].op);
		nr_ops += !strcmp(w.ops[i].op, "act") || !strcmp(w.ops[i].op, "add");
		if (!strcmp(w.ops[i].op, "sleep") || !strcmp(w.ops[i].op, "barrier"))
			assert_int_equal(w.ops[i].busy_ns, 0);
		busy_ns += w.ops[i].busy_ns;
	}
	assert_int_equal(nr_ops, 2);
	assert_true(busy_ns > 0 && busy_ns <= w.nr_workers * (w.wall_ns - w.begin_ns));
	npu_ok(npu_job_time_commands(job, false));
	npu_fails(npu_job_work(job, &w), -ENODATA, "npu_job_time_commands()");
	npu_job_free(job);
}

static void commands_are_timed_if_the_program_wants_it(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = regions_job(f->ctx);
	struct npu_command_times c;
	struct npu_job_times before;

	npu_ok(fixture_run(f, job));
	npu_fails(npu_job_command(job, 0, &c), -ENODATA, "npu_job_time_commands()");
	before = times_of(job);
	/* From the next submission on: the last one's times stay. */
	npu_ok(npu_job_time_commands(job, true));
	npu_ok(npu_job_time_commands(job, true));
	assert_same_times(before, times_of(job));
	npu_fails(npu_job_command(job, 0, &c), -ENODATA, "npu_job_time_commands()");
	npu_ok(fixture_run(f, job));
	npu_ok(npu_job_command(job, 0, &c));
	before = times_of(job);
	npu_ok(npu_job_time_commands(job, false));
	assert_same_times(before, times_of(job));
	npu_fails(npu_job_command(job, 0, &c), -ENODATA, "npu_job_time_commands()");
	npu_ok(npu_job_time_commands(job, true));
	npu_fails(npu_job_command(job, 0, &c), -ENODATA, "npu_job_time_commands()");
	npu_ok(npu_job_time_commands(job, false));
	npu_ok(fixture_run(f, job));
	npu_fails(npu_job_command(job, 0, &c), -ENODATA, "npu_job_time_commands()");
	assert_int_equal(times_of(job).device_ns, before.device_ns);
	npu_job_free(job);
}

/* ---- the compiler's predictions ---- */

/* Attention is predicted for a full cache, everything else exactly. */
static void a_job_takes_what_its_image_predicts(void **state)
{
	struct fixture *f = *state;
	struct npu_graph *g = npu_graph_create("block");
	int pos = npu_graph_param(g, "pos");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 8, 64),
			  *k = npu_graph_state(g, "k", NPU_F32, 40, 64);
	struct npu_tensor *w = npu_graph_weight(g, "w", NPU_W8_PANEL, 64, 64), *q, *s;
	const char *const names[] = { "x", "k", "w", "y" };
	const size_t sizes[] = { 8 * 64 * 4, 40 * 64 * 4, npu_w8_bytes(64, 64), 8 * 64 * 4 };
	struct npu_image_info info;
	struct npu_job_times t;
	struct npu_program *prog;
	struct npu_job *job;
	size_t bytes;
	void *image;

	npu_ok(npu_store_rows(g, x, k, pos));
	q = npu_quant(g, npu_attn(g, x, k, k, 4, 4, 0.25f, pos), &s);
	npu_graph_output(g, "y", npu_silu(g, npu_matmul_i8(g, q, s, w, NULL)));
	npu_ok(npu_sleep(g, 1000));
	npu_ok(npu_graph_predict(g, soc->name));
	npu_ok(npu_graph_compile(g, &image, &bytes));
	npu_graph_free(g);
	npu_ok(npu_image_info(image, bytes, &info));
	npu_ok(npu_program_load(f->ctx, image, bytes, &prog));
	npu_ok(npu_job_create(prog, &job));
	npu_program_free(prog);
	free(image);
	for (int i = 0; i < 4; i++) {
		struct npu_buffer *buf;

		npu_ok(npu_buffer_create(f->ctx, sizes[i], 0, &buf));
		fixture_bind(job, names[i], buf);
		npu_buffer_free(buf);
	}
	npu_ok(npu_job_param(job, "pos", 40 - 8));
	t = run_for_times(f, job);
	assert_int_equal(t.device_ns, info.device_ns);
	assert_int_equal(t.device_cycles, info.device_cycles);
	assert_int_equal(t.nr_commands, info.nr_cmds);
	npu_ok(npu_job_param(job, "pos", 0));
	assert_true(run_for_times(f, job).device_ns < info.device_ns);
	npu_job_free(job);
}

/* ---- jobs without times ---- */

static void a_job_in_flight_or_never_submitted_has_no_times_yet(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_sleep(f->ctx, 100 * MS);
	struct npu_command_times c;
	struct npu_job_times t;
	uint64_t seqno;

	npu_fails(npu_job_times(job, &t), -EAGAIN, "not submitted");
	npu_fails(npu_job_command(job, 0, &c), -EAGAIN, "not submitted");
	npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &seqno));
	npu_fails(npu_job_times(job, &t), -EBUSY, "still running");
	npu_fails(npu_job_command(job, 0, &c), -EBUSY, "still running");
	npu_fails(npu_job_time_commands(job, true), -EBUSY, "still running");
	npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	assert_true(times_of(job).wall_ns >= 100 * MS);
	npu_job_free(job);
}

static void a_job_that_fails_has_no_times_not_even_earlier_ones(void **state)
{
	struct fixture *f = *state;
	struct npu_graph *g = npu_graph_create("store");
	int row = npu_graph_param(g, "row");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 1, 16),
			  *s = npu_graph_state(g, "s", NPU_F32, 4, 16);
	struct npu_buffer *in = fixture_floats(f->ctx, 16, 1), *out = fixture_floats(f->ctx, 64, 0);
	struct npu_command_times c;
	struct npu_job_times t;
	struct npu_job *job;

	npu_ok(npu_store_rows(g, x, s, row));
	job = fixture_job(f->ctx, g);
	fixture_bind(job, "x", in);
	fixture_bind(job, "s", out);
	npu_ok(npu_job_time_commands(job, true));
	npu_ok(npu_job_param(job, "row", 3));
	npu_ok(fixture_run(f, job));
	npu_ok(npu_job_command(job, 0, &c));
	assert_string_equal(c.op, "copy");
	npu_ok(npu_job_param(job, "row", 4));
	assert_int_equal(fixture_run(f, job), -EINVAL);
	npu_fails(npu_job_times(job, &t), -ENODATA, "did not succeed");
	npu_fails(npu_job_command(job, 0, &c), -ENODATA, "did not succeed");
	npu_ok(npu_job_param(job, "row", 0));
	npu_ok(fixture_run(f, job));
	assert_passed(times_of(job).wall_ns);
	npu_job_free(job);
	npu_buffer_free(in);
	npu_buffer_free(out);
}

static void a_refused_submission_leaves_the_times_of_the_last_one(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = regions_job(f->ctx), *unbound = fixture_increment(f->ctx, 8, 0);
	struct npu_job *jobs[3] = { job, job, unbound };
	struct npu_job_times before;
	struct npu_job_work work, kept;
	struct npu_fence *fence;
	struct npu_sync wait = { 0 };
	struct npu_submit_syncs syncs = { .wait = &wait, .nr_wait = 1 };

	npu_ok(npu_fence_create(f->dev, false, &fence));
	wait.fence = fence;
	npu_ok(npu_job_time_commands(job, true));
	npu_ok(fixture_run(f, job));
	before = times_of(job);
	npu_ok(npu_job_work(job, &work));
	for (unsigned int n = 1; n <= 3; n++) {
		npu_fails(npu_queue_submit(f->queue, jobs, n, &syncs, NULL), -EINVAL,
			  n < 3 ? "signal it" : "is not bound");
		assert_same_times(before, times_of(job));
		npu_ok(npu_job_work(job, &kept));
		assert_memory_equal(&kept, &work, sizeof(work));
	}
	npu_fails(npu_job_times(unbound, &before), -EAGAIN, "not submitted");
	npu_job_free(job);
	npu_job_free(unbound);
	npu_fence_free(fence);
}

static void times_outlive_the_queue_but_a_job_cancelled_with_it_has_none(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_sleep(f->ctx, 0), *lost = fixture_sleep(f->ctx, 2000 * MS);
	struct npu_queue *queue;
	struct npu_job_times t;
	uint64_t seqno;

	npu_ok(npu_queue_create(f->ctx, NULL, &queue));
	npu_ok(npu_queue_submit(queue, &job, 1, NULL, &seqno));
	/* Its end is only on the status page, which goes away with the queue. */
	while (npu_queue_completed(queue) < seqno)
		sched_yield();
	npu_ok(npu_queue_submit(queue, &lost, 1, NULL, &seqno));
	npu_queue_free(queue);
	assert_passed(times_of(job).wall_ns);
	npu_fails(npu_job_times(lost, &t), -ENODATA, "did not succeed");
	npu_job_free(job);
	npu_job_free(lost);
}

/* ---- invalid record slots, behind libnpu's back ---- */

static struct vnpu_table_hdr *table_of(struct npu_job *job)
{
	return job->table->data;
}

static void an_invalid_record_slot_is_refused(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_sleep(f->ctx, 0);
	struct vnpu_slot *slot = job->slots + table_of(job)->record_slot, good = *slot;
	const struct vnpu_slot bad[] = {
		{ good.va, sizeof(struct vnpu_record) - 1, VNPU_SLOT_WRITE, 0 }, /* too small */
		{ good.va + 4, good.size_bytes, VNPU_SLOT_WRITE, 0 },
		{ good.va + 32, good.size_bytes, VNPU_SLOT_WRITE, 0 }, /* misaligned */
		{ good.va, good.size_bytes, VNPU_SLOT_READ, 0 },
		{ good.va, UINT64_MAX, VNPU_SLOT_WRITE, 0 },
		{ 1ull << 60, good.size_bytes, VNPU_SLOT_WRITE, 0 },
		{ 0, 0, 0, 0 },
	};
	struct npu_job_times t;

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		*slot = bad[i];
		assert_int_equal(fixture_run(f, job), -EINVAL);
		npu_fails(npu_job_times(job, &t), -ENODATA, "did not succeed");
	}
	*slot = good;
	table_of(job)->record_slot++;
	assert_int_equal(fixture_run(f, job), -EINVAL);
	table_of(job)->record_slot = VNPU_SLOT_NONE - 1;
	assert_int_equal(fixture_run(f, job), -EINVAL);
	table_of(job)->record_slot = VNPU_SLOT_NONE;
	npu_ok(fixture_run(f, job));
	npu_fails(npu_job_times(job, &t), -ENODATA, "did not succeed");
	npu_job_free(job);
}

static void assert_faults_at(struct fixture *f, uint64_t va, uint64_t size)
{
	struct npu_context_state cs;
	struct fixture own = { .dev = f->dev };
	struct npu_job *job;

	npu_ok(npu_context_create(f->dev, &own.ctx));
	npu_ok(npu_queue_create(own.ctx, NULL, &own.queue));
	job = fixture_sleep(own.ctx, 0);
	/* Without an address: the program, which the device may only read. */
	if (!va)
		va = npu_buffer_va(job->prog->code);
	job->slots[table_of(job)->record_slot] = (struct vnpu_slot){ va, size, VNPU_SLOT_WRITE, 0 };
	assert_int_equal(fixture_run(&own, job), -EFAULT);
	npu_ok(npu_context_state(own.ctx, &cs));
	assert_int_equal(cs.state, NPU_CONTEXT_FAULT);
	assert_int_equal(cs.fault_va & ~4095ull, va & ~4095ull);
	assert_true(cs.fault_write);
	npu_job_free(job);
	npu_queue_free(own.queue);
	npu_context_free(own.ctx);
}

static void a_record_slot_that_cannot_be_written_is_a_fault(void **state)
{
	assert_faults_at(*state, 0x3f0000000, 4096);
	assert_faults_at(*state, 0, 4096);
}

/* ---- costs, and older devices ---- */

/* A sim that counts calls and reports ISA 1.@minor. */
struct counting {
	struct transport base, *inner;
	unsigned int nr_calls;
	uint32_t minor;
};

static int counting_ioctl(struct transport *t, unsigned long request, void *arg)
{
	struct counting *x = (struct counting *)t;
	struct drm_vnpu_dev_query *q = arg;
	int ret = x->inner->ops->ioctl(x->inner, request, arg);

	x->nr_calls++;
	if (!ret && request == DRM_IOCTL_VNPU_DEV_QUERY && q->type == DRM_VNPU_QUERY_DEVICE)
		((struct drm_vnpu_query_device *)(uintptr_t)q->pointer)->isa_version =
			1u << 16 | x->minor;
	return ret;
}

static int counting_map(struct transport *t, uint64_t offset, size_t size, int prot, void **addr)
{
	struct transport *inner = ((struct counting *)t)->inner;

	return inner->ops->map(inner, offset, size, prot, addr);
}

static int counting_unmap(struct transport *t, void *addr, size_t size)
{
	struct transport *inner = ((struct counting *)t)->inner;

	return inner->ops->unmap(inner, addr, size);
}

static void counting_close(struct transport *t)
{
	struct counting *x = (struct counting *)t;

	x->inner->ops->close(x->inner);
}

static const struct transport_ops counting_ops = {
	.ioctl = counting_ioctl,
	.map = counting_map,
	.unmap = counting_unmap,
	.close = counting_close,
};

static void open_counting(struct counting *x, uint32_t minor, struct fixture *f)
{
	struct sim_options opts = { .threads = 1 };

	*x = (struct counting){ .base.ops = &counting_ops, .minor = minor };
	npu_ok(transport_sim_open(&opts, &x->inner));
	npu_ok(npu_device_open_on(&x->base, NPU_TRANSPORT_SIM, "", "test", &f->dev));
	npu_ok(npu_context_create(f->dev, &f->ctx));
	npu_ok(npu_queue_create(f->ctx, NULL, &f->queue));
}

static void close_counting(struct fixture *f)
{
	npu_queue_free(f->queue);
	npu_context_free(f->ctx);
	npu_device_close(f->dev);
}

static void times_cost_no_device_call(void **state)
{
	struct npu_command_times c;
	struct counting x;
	struct npu_job *job;
	struct fixture f;

	open_counting(&x, 1, &f);
	job = fixture_sleep(f.ctx, 0);
	for (int on = 0; on < 2; on++) {
		npu_ok(npu_job_time_commands(job, on));
		x.nr_calls = 0;
		npu_ok(fixture_run(&f, job));
		assert_passed(times_of(job).wall_ns);
		if (on)
			npu_ok(npu_job_command(job, 0, &c));
		assert_int_equal(x.nr_calls, 2); /* SUBMIT and WAIT */
	}
	npu_job_free(job);
	close_counting(&f);
}

/* An older device gets a table that it knows, and has no times. */
static void a_device_of_isa_1_0_runs_jobs_without_times(void **state)
{
	struct npu_job_times t;
	struct counting x;
	struct npu_job *job;
	struct fixture f;

	open_counting(&x, 0, &f);
	job = fixture_sleep(f.ctx, 0);
	assert_int_equal(table_of(job)->version, 1u << 16);
	assert_int_equal(job->table_bytes, 16);
	npu_ok(fixture_run(&f, job));
	npu_fails(npu_job_times(job, &t), -EOPNOTSUPP, "ISA 1.0");
	npu_fails(npu_job_time_commands(job, true), -EOPNOTSUPP, "ISA 1.0");
	npu_job_free(job);
	close_counting(&f);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_matmul_takes_its_launch_and_the_modelled_time),
		TEST(jobs_show_the_stages_and_the_order_of_the_array),
		TEST(device_times_are_the_same_for_every_run_and_differ_from_wall_times),
		TEST(a_sleep_lasts_as_long_on_both_clocks),
		cmocka_unit_test(device_times_depend_on_the_profile_and_on_nothing_of_the_host),
		cmocka_unit_test(without_an_installed_profile_jobs_have_wall_times),
		TEST(commands_follow_one_another_on_the_device_and_share_regions_on_the_host),
		TEST(what_workers_did_adds_up_to_at_most_the_job_s_time),
		TEST(commands_are_timed_if_the_program_wants_it),
		TEST(a_job_takes_what_its_image_predicts),
		TEST(a_job_in_flight_or_never_submitted_has_no_times_yet),
		TEST(a_job_that_fails_has_no_times_not_even_earlier_ones),
		TEST(a_refused_submission_leaves_the_times_of_the_last_one),
		TEST(times_outlive_the_queue_but_a_job_cancelled_with_it_has_none),
		TEST(an_invalid_record_slot_is_refused),
		TEST(a_record_slot_that_cannot_be_written_is_a_fault),
		cmocka_unit_test(times_cost_no_device_call),
		cmocka_unit_test(a_device_of_isa_1_0_runs_jobs_without_times),
	};

	return cmocka_run_group_tests(tests, times_setup, times_teardown);
}
