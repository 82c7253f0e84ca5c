// SPDX-License-Identifier: MIT
/*
 * The table of MATMUL_WK and ADD_OUTLIERS_WK is in the client's memory: whatever its contents are,
 * or become while the device reads it, no tile reads beyond the weights or writes beyond the
 * result.
 */
#include "fw_all_ops.h"

#include "kernels.h"

#define STREAM_VA 0x10000
#define WK_VA (ALL_WEIGHTS) /* only the weights are bound, nothing around them */
#define NR 5 /* panels */
#define M 3
#define N 300
#define K 60

struct fixture {
	struct fake *f;
	uint8_t *w;
	uint64_t w_bytes, w_pages_bytes;
	struct job_builder job;
	float want[M * N];
	unsigned int nr_jobs, nr_tiles;
};

static struct fixture *the_fixture; /* for functions called in a guard */
static unsigned int guards;

static float *result(struct fixture *x)
{
	return (float *)(x->f->mem[1] + ALL_OUT);
}

static struct vnpu_wk_panel *table(struct fixture *x)
{
	return (struct vnpu_wk_panel *)x->w;
}

static uint32_t run(struct fixture *x)
{
	struct job_builder copy = x->job;
	struct vnpu_fw_sqe sqe = job_place(&copy, x->f, 1, 0, STREAM_VA, ++x->nr_jobs);

	memset(result(x), 0x55, ALL_OUT_BYTES);
	fake_submit(x->f, &sqe, 1);
	return fake_wait(x->f, x->nr_jobs - 1).status;
}

/* The only command: ALL_DATA is slot 0, the weights are slot 1, the result is slot 2. */
typedef void make_cmd(struct fixture *x);

/* Activations, then scales, at the start of ALL_DATA; two tiles down and two across. */
static void make_matmul(struct fixture *x)
{
	struct vnpu_cmd_matmul_wk c = {
		.m = M, .n = N, .k = K, .lda = K, .ldc = N, .tile_m = 2, .tile_n = 192
	};
	int8_t *a = (int8_t *)(x->f->mem[1] + ALL_DATA);

	for (unsigned int i = 0; i < M * K; i++)
		a[i] = (int8_t)rng_u32();
	for (unsigned int i = 0; i < M; i++)
		((float *)(a + 1024))[i] = rng_float();
	c.a = ref_to(0, 0);
	c.a_scale = ref_to(0, 1024);
	c.w = ref_to(1, 0);
	c.bias = ref_to(VNPU_SLOT_NONE, 0);
	c.c = ref_to(2, 0);
	c.w_bytes = x->w_bytes;
	x->nr_tiles = 4;
	job_cmd(&x->job, VNPU_OP_MATMUL_WK, &c, sizeof(c));
}

/* Lists of outliers at the start of ALL_DATA, then zeros to add them to; two tiles across. */
static void make_outliers(struct fixture *x)
{
	struct vnpu_cmd_add_outliers_wk c = {
		.x = ref_to(0, 1024),
		.outliers = ref_to(0, 0),
		.w = ref_to(1, 0),
		.y = ref_to(2, 0),
		.m = M,
		.n = N,
		.k = K,
		.ldx = N,
		.ldy = N,
		.w_bytes = x->w_bytes,
	};
	struct vnpu_outliers *o = (struct vnpu_outliers *)(x->f->mem[1] + ALL_DATA);

	for (unsigned int m = 0; m < M; m++)
		for (unsigned int j = 0; j < VNPU_OUTLIERS; j++) {
			o[m].value[j] = rng_float();
			o[m].column[j] = (float)(j * 3 + m);
		}
	x->nr_tiles = 2;
	job_cmd(&x->job, VNPU_OP_ADD_OUTLIERS_WK, &c, sizeof(c));
}

static int set_up(void **state, make_cmd *make)
{
	static const uint32_t bits[NR] = { 4, 1, 8, 3, 7 };
	struct fixture *x = calloc(1, sizeof(*x));
	static int8_t q[N * K];
	float scale[N];
	unsigned int i;

	rng_seed("test_fw_wk_table");
	x->f = fake_create(16);
	fake_bind(x->f, 1, ALL_DATA, 8192, true);
	fake_bind(x->f, 1, ALL_OUT, 4096, true);
	x->w = x->f->mem[1] + WK_VA;
	x->w_bytes = wk_bytes(bits, N, K);
	x->w_pages_bytes = (x->w_bytes + 4095) / 4096 * 4096;
	fake_bind(x->f, 1, WK_VA, x->w_pages_bytes, false);
	for (i = 0; i < N * K; i++)
		q[i] = random_wk(bits[i / K / 64]);
	for (i = 0; i < N; i++)
		scale[i] = rng_float();
	pack_wk(x->w, q, scale, bits, N, K);
	job_begin(&x->job);
	job_plain(&x->job, VNPU_OP_BARRIER);
	job_slot(&x->job, ALL_DATA, 8192, VNPU_SLOT_READ);
	job_slot(&x->job, WK_VA, x->w_bytes, VNPU_SLOT_READ);
	job_slot(&x->job, ALL_OUT, M * N * 4, VNPU_SLOT_WRITE);
	make(x);
	job_end(&x->job);
	/* A tile that accesses a page that it did not announce crashes this test. */
	x->f->strict = true;
	fake_start(x->f, 1, 0, FW_ISA_AUTO);
	assert_int_equal(run(x), VNPU_FW_OK);
	memcpy(x->want, result(x), sizeof(x->want));
	*state = the_fixture = x;
	return 0;
}

static int set_up_matmul(void **state)
{
	return set_up(state, make_matmul);
}

static int set_up_outliers(void **state)
{
	return set_up(state, make_outliers);
}

static int tear_down(void **state)
{
	struct fixture *x = *state;

	fake_stop(x->f);
	fake_destroy(x->f);
	free(x);
	return 0;
}

static void invalid_entries_end_the_job(void **state)
{
	struct fixture *x = *state;
	uint32_t lines = x->w_bytes / 64;
	const struct vnpu_wk_panel bad[] = {
		{ 1, 0 },	   { 1, 9 },	       { 1, 16 },	  { 1, UINT32_MAX },
		{ 1, 1u << 31 },   { lines, 1 },       { lines - 15, 1 }, /* whose panel has 16 */
		{ lines + 1, 1 },  { 1, 8 | 1u << 8 }, { lines - 70, 8 }, /* whose panel has 72 */
		{ UINT32_MAX, 1 }, { UINT32_MAX, 8 },  { 1u << 31, 1 },
	};
	struct vnpu_wk_panel good;
	unsigned int i, p;

	for (p = 0; p < NR; p++) {
		good = table(x)[p];
		for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			table(x)[p] = bad[i];
			if (run(x) != VNPU_FW_FAILED)
				fail_msg("entry %u as offset %u, %u bits was taken", p,
					 bad[i].offset, bad[i].bits);
			assert_non_null(strstr(x->f->last_log,
					       ": command 1: invalid place or width of a panel"));
		}
		table(x)[p] = good;
	}
	/* The device still works, and the same job runs. */
	assert_int_equal(run(x), VNPU_FW_OK);
	assert_memory_equal(result(x), x->want, sizeof(x->want));
}

/* Panels may share bytes, be in any order, and even overlap the table: that is the client's
 * concern. */
static void entries_anywhere_inside_the_weights_are_accepted(void **state)
{
	uint32_t lines, i, p;
	struct fixture *x = *state;

	lines = x->w_bytes / 64;
	for (i = 0; i < 200; i++) {
		for (p = 0; p < NR; p++) {
			table(x)[p].bits = 1 + rng_below(8);
			table(x)[p].offset = rng_below(
				lines - VNPU_PANEL_WK_BYTES(K, table(x)[p].bits) / 64 + 1);
		}
		assert_int_equal(run(x), VNPU_FW_OK);
	}
}

static void equal_entries_give_equal_columns(void **state)
{
	struct fixture *x = *state;
	uint32_t m, n;

	for (n = 1; n < NR; n++)
		table(x)[n] = table(x)[0];
	assert_int_equal(run(x), VNPU_FW_OK);
	for (m = 0; m < M; m++)
		for (n = 0; n < N; n++)
			assert_memory_equal(&result(x)[m * N + n], &x->want[m * N + n % 64], 4);
}

/* The first guard copies the stream and the binding table; then each tile has one
 * guard that copies its part of the table, and one that computes. */
static void spoil_before_computing(struct fake *f)
{
	struct fixture *x = the_fixture;
	static struct vnpu_wk_panel good[NR];

	guards++;
	if (guards == 1)
		return;
	if (guards % 2)
		memset(table(x), 0xff, sizeof(good));
	else
		memcpy(guards == 2 ? (void *)good : table(x), guards == 2 ? table(x) : good,
		       sizeof(good));
}

static void rewriting_the_table_after_a_tile_has_copied_it_changes_nothing(void **state)
{
	struct fixture *x = *state;

	guards = 0;
	x->f->on_guard = spoil_before_computing;
	assert_int_equal(run(x), VNPU_FW_OK);
	x->f->on_guard = NULL;
	assert_int_equal(guards, 1 + 2 * x->nr_tiles);
	assert_memory_equal(result(x), x->want, sizeof(x->want));
}

/* A tile needs only its own entries and panels. */
static void a_table_or_weights_that_are_not_bound_are_a_fault(void **state)
{
	struct fixture *x = *state;
	struct vnpu_fw_sqe sqe;
	struct vnpu_fw_cqe cqe;
	struct job_builder copy;
	uint64_t page;

	for (page = 0; page < x->w_pages_bytes; page += 4096) {
		x->f->bound[1][(WK_VA + page) >> 12] = 0;
		copy = x->job;
		sqe = job_place(&copy, x->f, 1, 0, STREAM_VA, ++x->nr_jobs);
		fake_submit(x->f, &sqe, 1);
		cqe = fake_wait(x->f, x->nr_jobs - 1);
		assert_int_equal(cqe.status, VNPU_FW_FAULT);
		assert_int_equal(cqe.fault_va >> 12, (WK_VA + page) >> 12);
		fake_bind(x->f, 1, WK_VA + page, 4096, false);
	}
	assert_int_equal(run(x), VNPU_FW_OK);
}

#define TEST(f)                                                       \
	cmocka_unit_test_setup_teardown(f, set_up_matmul, tear_down), \
	{                                                             \
#f " (outliers)", f, set_up_outliers, tear_down, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(invalid_entries_end_the_job),
		TEST(entries_anywhere_inside_the_weights_are_accepted),
		TEST(equal_entries_give_equal_columns),
		TEST(rewriting_the_table_after_a_tile_has_copied_it_changes_nothing),
		TEST(a_table_or_weights_that_are_not_bound_are_a_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
