// SPDX-License-Identifier: MIT
/*
 * Validation: a stream of every operation runs; the same stream with any field changed is refused
 * with a reason and accesses nothing; and for random bytes the device neither crashes nor accesses
 * memory that it did not announce.
 */
#include "fw_all_ops.h"

#include <math.h>

#include "bad_fields.h"
#include "soc.h"

#define STREAM_VA 0x10000

struct fixture {
	struct fake *f;
	struct job_builder good;
	uint8_t *before; /* contents of ALL_DATA..ALL_END */
	unsigned int nr_jobs;
};

static struct vnpu_fw_cqe run(struct fixture *x, const struct job_builder *b)
{
	struct job_builder copy = *b;
	struct vnpu_fw_sqe sqe;

	x->nr_jobs++;
	sqe = job_place(&copy, x->f, 1, 0, STREAM_VA, x->nr_jobs);
	x->f->last_log[0] = 0;
	fake_submit(x->f, &sqe, 1);
	return fake_wait(x->f, x->nr_jobs - 1);
}

static int set_up(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));

	rng_seed("test_fw_stream");
	x->f = fake_create(16);
	all_ops_make(&x->good, x->f, 1);
	x->before = malloc(ALL_END - ALL_DATA);
	memcpy(x->before, x->f->mem[1] + ALL_DATA, ALL_END - ALL_DATA);
	fake_start(x->f, 2, 0, FW_ISA_AUTO);
	*state = x;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *x = *state;

	fake_stop(x->f);
	fake_destroy(x->f);
	free(x->before);
	free(x);
	return 0;
}

/* The first command with @op; for NOT_CMD the header. */
static uint8_t *find_cmd(struct job_builder *b, uint16_t op)
{
	uint32_t at = sizeof(struct vnpu_stream_hdr);
	struct vnpu_cmd *cmd;

	if (op == NOT_CMD)
		return b->stream;
	for (; at < b->stream_bytes; at += cmd->size_bytes) {
		cmd = (struct vnpu_cmd *)(b->stream + at);
		if (cmd->op == op)
			return (uint8_t *)cmd;
	}
	fail_msg("the job has no operation %u", op);
	return NULL;
}

static void assert_refused(struct fixture *x, const struct job_builder *b, const char *what)
{
	struct vnpu_fw_cqe cqe = run(x, b);

	if (cqe.status != VNPU_FW_INVALID)
		fail_msg("%s: status %u, not INVALID", what, cqe.status);
	if (!strstr(x->f->last_log, ": ") || strchr(x->f->last_log, '\n'))
		fail_msg("%s: no reason in '%s'", what, x->f->last_log);
	if (memcmp(x->f->mem[1] + ALL_DATA, x->before, ALL_END - ALL_DATA))
		fail_msg("%s: refused, but something ran", what);
}

static void a_stream_of_every_operation_runs(void **state)
{
	struct fixture *x = *state;
	uint8_t zeros[4096] = { 0 };
	unsigned int page;

	if (run(x, &x->good).status != VNPU_FW_OK)
		fail_msg("refused: %s", x->f->last_log);
	/* Each operation writes to a page of its own. */
	for (page = 0; page < ALL_OUT_BYTES / 4096; page++)
		assert_memory_not_equal(x->f->mem[1] + ALL_OUT + page * 4096, zeros, sizeof(zeros));
	assert_memory_equal(x->f->mem[1] + ALL_DATA, x->before, ALL_OUT - ALL_DATA);
}

static void every_malformed_field_of_the_stream_is_refused(void **state)
{
	struct fixture *x = *state;
	const struct bad_field *bad;
	struct job_builder b;
	unsigned int i;

	for (i = 0; i < sizeof(bad_stream) / sizeof(bad_stream[0]); i++) {
		bad = &bad_stream[i];
		b = x->good;
		memcpy(find_cmd(&b, bad->op) + bad->offset, &bad->value, bad->size);
		assert_refused(x, &b, bad->name);
	}
}

static void every_malformed_field_of_the_table_is_refused(void **state)
{
	struct fixture *x = *state;
	const struct bad_field *bad;
	struct job_builder b;
	unsigned int i;

	for (i = 0; i < sizeof(bad_table) / sizeof(bad_table[0]); i++) {
		bad = &bad_table[i];
		b = x->good;
		memcpy(b.table + bad->offset, &bad->value, bad->size);
		assert_refused(x, &b, bad->name);
	}
}

static void truncated_and_padded_jobs_are_refused(void **state)
{
	struct fixture *x = *state;
	struct job_builder b;
	uint32_t bytes;
	char what[64];

	for (bytes = 8; bytes < x->good.stream_bytes + 64; bytes += 8) {
		b = x->good;
		b.stream_bytes = bytes;
		snprintf(what, sizeof(what), "stream of %u bytes", bytes);
		if (bytes != x->good.stream_bytes)
			assert_refused(x, &b, what);
		/* Also if the header has the same size. */
		((struct vnpu_stream_hdr *)b.stream)->size_bytes = bytes;
		if (bytes != x->good.stream_bytes)
			assert_refused(x, &b, what);
	}
	for (bytes = 8; bytes < x->good.table_bytes + 64; bytes += 8) {
		b = x->good;
		b.table_bytes = bytes;
		snprintf(what, sizeof(what), "table of %u bytes", bytes);
		if (bytes != x->good.table_bytes)
			assert_refused(x, &b, what);
	}
}

/* Operands may end exactly at the end of their slot. */
static void operands_may_fill_their_slots(void **state)
{
	struct vnpu_cmd_binary add = { .rows = 2, .cols = 8, .lda = 12, .ldb = 8, .ldy = 8 };
	struct fixture *x = *state;
	struct job_builder b;
	int less;

	for (less = 0; less < 2; less++) {
		job_begin(&b);
		add.a = ref_to(job_slot(&b, ALL_DATA, 20 * 4 - less, VNPU_SLOT_READ), 0);
		add.b = ref_to(job_slot(&b, ALL_DATA, 4096, VNPU_SLOT_READ), 4096 - 16 * 4);
		add.y = ref_to(job_slot(&b, ALL_OUT, 16 * 4, VNPU_SLOT_WRITE), 0);
		job_cmd(&b, VNPU_OP_ADD, &add, sizeof(add));
		job_end(&b);
		assert_int_equal(run(x, &b).status, less ? VNPU_FW_INVALID : VNPU_FW_OK);
	}
	/* Also at the end of the address space. */
	job_begin(&b);
	add.a = ref_to(job_slot(&b, (1ull << FAKE_VA_BITS) - 128, 128, VNPU_SLOT_READ),
		       128 - 20 * 4);
	add.b = ref_to(job_slot(&b, ALL_DATA, 4096, VNPU_SLOT_READ), 0);
	add.y = ref_to(job_slot(&b, ALL_OUT, 16 * 4, VNPU_SLOT_WRITE), 0);
	job_cmd(&b, VNPU_OP_ADD, &add, sizeof(add));
	job_end(&b);
	fake_bind(x->f, 1, (1ull << FAKE_VA_BITS) - 4096, 4096, false);
	assert_int_equal(run(x, &b).status, VNPU_FW_OK);
}

/* Only barriers and sleeps, and the same operands twice. */
static void odd_but_valid_streams_run(void **state)
{
	struct fixture *x = *state;
	struct job_builder b;
	int i;

	job_begin(&b);
	for (i = 0; i < 100; i++)
		job_plain(&b, VNPU_OP_BARRIER);
	job_sleep(&b, 0);
	job_sleep(&b, 1);
	job_plain(&b, VNPU_OP_BARRIER);
	job_sleep(&b, 1000);
	job_end(&b);
	assert_int_equal(run(x, &b).status, VNPU_FW_OK);

	/* COPY onto itself, shifted by a few bytes: undefined bytes, but no crash. */
	job_begin(&b);
	struct vnpu_cmd_copy copy = { .rows = 7,
				      .row_bytes = 4000,
				      .src_stride_bytes = 4000,
				      .dst_stride_bytes = 4001,
				      .dst_row_param = VNPU_PARAM_NONE };
	copy.src = ref_to(job_slot(&b, ALL_OUT, 65536, VNPU_SLOT_READ | VNPU_SLOT_WRITE), 0);
	copy.dst = ref_to(0, 5);
	job_cmd(&b, VNPU_OP_COPY, &copy, sizeof(copy));
	job_end(&b);
	assert_int_equal(run(x, &b).status, VNPU_FW_OK);
}

/* ---- flags ---------------------------------------------------------------------------------- */

/* Those of all matmuls; others stay 0. @chance: one in so many. */
static void permute(struct job_builder *b, uint32_t chance)
{
	struct vnpu_cmd *cmd;

	for (uint32_t at = sizeof(struct vnpu_stream_hdr); at < b->stream_bytes;
	     at += cmd->size_bytes) {
		cmd = (struct vnpu_cmd *)(b->stream + at);
		if (isa_op(cmd->op)->flags && !rng_below(chance))
			cmd->flags = VNPU_CMD_PERMUTED;
	}
}

/* Gives one in two matmuls a shape, mostly of the 9 rows that they have. */
static void shape_some(struct job_builder *b)
{
	struct vnpu_cmd *cmd;

	for (uint32_t at = sizeof(struct vnpu_stream_hdr); at < b->stream_bytes;
	     at += cmd->size_bytes) {
		cmd = (struct vnpu_cmd *)(b->stream + at);
		if (isa_op(cmd->op)->flags && rng_below(2))
			job_shape(b, cmd, rng_below(8) ? 3 : rng_below(10));
	}
}

static void permuted_matmuls_have_the_same_bits(void **state)
{
	struct fixture *x = *state;
	uint8_t *out = malloc(ALL_OUT_BYTES);

	assert_int_equal(run(x, &x->good).status, VNPU_FW_OK);
	memcpy(out, x->f->mem[1] + ALL_OUT, ALL_OUT_BYTES);
	memset(x->f->mem[1] + ALL_OUT, 0, ALL_OUT_BYTES);
	permute(&x->good, 1);
	if (run(x, &x->good).status != VNPU_FW_OK)
		fail_msg("refused: %s", x->f->last_log);
	assert_memory_equal(x->f->mem[1] + ALL_OUT, out, ALL_OUT_BYTES);
	free(out);
}

/* And only these four: bad_fields.h has the other operations. */
static void permuted_matmuls_want_version_1_5(void **state)
{
	static const uint16_t ops[] = { VNPU_OP_MATMUL_I8, VNPU_OP_MATMUL_W4, VNPU_OP_MATMUL_W4F,
					VNPU_OP_MATMUL_WK };
	struct fixture *x = *state;
	struct vnpu_stream_hdr *hdr = (struct vnpu_stream_hdr *)x->good.stream;

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		struct vnpu_cmd *cmd = (struct vnpu_cmd *)find_cmd(&x->good, ops[i]);

		cmd->flags = VNPU_CMD_PERMUTED;
		for (hdr->isa_minor = 0; hdr->isa_minor < 5; hdr->isa_minor++) {
			assert_refused(x, &x->good, "a flag of version 1.5");
			assert_non_null(strstr(x->f->last_log, "flags 0x1 are unknown"));
		}
		cmd->flags = 0;
	}
	permute(&x->good, 1);
	assert_int_equal(run(x, &x->good).status, VNPU_FW_OK);
}

static void later_activations_want_version_1_10(void **state)
{
	struct fixture *x = *state;
	struct vnpu_stream_hdr *hdr = (struct vnpu_stream_hdr *)x->good.stream;
	struct vnpu_cmd_act *act = (struct vnpu_cmd_act *)find_cmd(&x->good, VNPU_OP_ACT);

	for (act->kind = VNPU_ACT_GELU_ERF; act->kind <= VNPU_ACT_CAP; act->kind++)
		for (hdr->isa_minor = 0; hdr->isa_minor < 10; hdr->isa_minor++) {
			assert_refused(x, &x->good, "a kind of version 1.10");
			assert_non_null(strstr(x->f->last_log, "is unknown in ISA 1."));
		}
	act->kind = VNPU_ACT_RELU;
	assert_int_equal(run(x, &x->good).status, VNPU_FW_OK);
}

static void types_with_levels_want_version_1_10(void **state)
{
	struct fixture *x = *state;
	struct vnpu_stream_hdr *hdr = (struct vnpu_stream_hdr *)x->good.stream;
	struct vnpu_cmd_add_outliers *add =
		(struct vnpu_cmd_add_outliers *)find_cmd(&x->good, VNPU_OP_ADD_OUTLIERS);

	for (uint32_t type = VNPU_KQ_IQ4_NL; type < VNPU_NR_KQ_TYPES; type++)
		for (hdr->isa_minor = 0; hdr->isa_minor < 10; hdr->isa_minor++) {
			add->group = VNPU_OUTLIERS_KQ + type;
			assert_refused(x, &x->good, "a type of version 1.10");
			assert_non_null(strstr(x->f->last_log, "is unknown in ISA 1."));
		}
}

static const uint16_t matmuls[] = { VNPU_OP_MATMUL_I8, VNPU_OP_MATMUL_W4, VNPU_OP_MATMUL_W4F,
				    VNPU_OP_MATMUL_WK };
#define NR_MATMULS (sizeof(matmuls) / sizeof(matmuls[0]))

/* All have 9 rows. */
static void shaped_matmuls_have_the_same_bits(void **state)
{
	struct fixture *x = *state;
	uint8_t *out = malloc(ALL_OUT_BYTES);
	struct vnpu_shape *shapes[NR_MATMULS];

	assert_int_equal(run(x, &x->good).status, VNPU_FW_OK);
	memcpy(out, x->f->mem[1] + ALL_OUT, ALL_OUT_BYTES);
	for (size_t i = NR_MATMULS; i--;)
		job_shape(&x->good, (struct vnpu_cmd *)find_cmd(&x->good, matmuls[i]), 9);
	for (size_t i = 0; i < NR_MATMULS; i++) {
		struct vnpu_cmd *cmd = (struct vnpu_cmd *)find_cmd(&x->good, matmuls[i]);

		shapes[i] = (struct vnpu_shape *)((uint8_t *)cmd + isa_op(cmd->op)->bytes);
	}
	for (uint32_t width = 1; width <= 9; width *= 3) {
		for (size_t i = 0; i < NR_MATMULS; i++)
			shapes[i]->width = width;
		memset(x->f->mem[1] + ALL_OUT, 0, ALL_OUT_BYTES);
		if (run(x, &x->good).status != VNPU_FW_OK)
			fail_msg("refused: %s", x->f->last_log);
		assert_memory_equal(x->f->mem[1] + ALL_OUT, out, ALL_OUT_BYTES);
	}
	free(out);
}

static void a_shape_divides_the_rows_and_is_complete(void **state)
{
	static const uint32_t widths[] = { 0,	      2, 6, 10, 18, VNPU_MAX_DIM, VNPU_MAX_DIM + 1,
					   UINT32_MAX };
	struct fixture *x = *state;
	struct vnpu_stream_hdr *hdr = (struct vnpu_stream_hdr *)x->good.stream;
	const struct job_builder plain = x->good;

	for (size_t i = 0; i < NR_MATMULS; i++) {
		struct vnpu_cmd *cmd = (struct vnpu_cmd *)find_cmd(&x->good, matmuls[i]);
		struct vnpu_shape *shape = job_shape(&x->good, cmd, 3);

		assert_int_equal(run(x, &x->good).status, VNPU_FW_OK);
		memset(x->f->mem[1] + ALL_OUT, 0, ALL_OUT_BYTES);
		for (size_t j = 0; j < sizeof(widths) / sizeof(widths[0]); j++) {
			shape->width = widths[j];
			assert_refused(x, &x->good, "a width that does not divide 9");
			assert_non_null(strstr(x->f->last_log, ": width "));
		}
		shape->width = 3;
		shape->reserved = 1;
		assert_refused(x, &x->good, "a reserved word");
		shape->reserved = 0;
		for (hdr->isa_minor = 5; hdr->isa_minor < 7; hdr->isa_minor++) {
			assert_refused(x, &x->good, "a flag of version 1.7");
			assert_non_null(strstr(x->f->last_log, "flags 0x2 are unknown"));
		}
		cmd->size_bytes -= sizeof(*shape);
		assert_refused(x, &x->good, "a flag without its shape");
		assert_non_null(strstr(x->f->last_log, "bytes, not "));
		x->good = plain;
		cmd = (struct vnpu_cmd *)find_cmd(&x->good, matmuls[i]);
		cmd->size_bytes += sizeof(*shape);
		assert_refused(x, &x->good, "a shape without its flag");
		x->good = plain;
	}
	for (uint16_t op = 1; op < ISA_NR_OPS; op++)
		assert_int_equal(!!(isa_flags(isa_op(op), VNPU_ISA_MINOR) & VNPU_CMD_SHAPED),
				 !strncmp(isa_op(op)->name, "matmul_", 7));
}

/* ---- fuzzing --------------------------------------------------------------------------------- */

/* A random number, mostly an edge case. */
static uint32_t edgy(void)
{
	static const uint32_t edges[] = { 0,	      1,	  2,	      3,
					  4,	      63,	  64,	      65,
					  127,	      128,	  1024,	      4096,
					  65535,      65536,	  1 << 24,    (1 << 24) + 1,
					  0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };

	return rng_below(3) ? edges[rng_below(20)] : rng_below(2) ? rng_below(300) : rng_u32();
}

static void spoil(uint8_t *p, uint32_t bytes)
{
	uint32_t value, n = 1 + rng_below(3);

	while (n--) {
		value = edgy();
		if (rng_below(4))
			memcpy(p + rng_below(bytes / 4) * 4, &value, 4);
		else
			p[rng_below(bytes)] = value;
	}
}

static unsigned int fuzz_rounds(unsigned int otherwise)
{
	const char *env = getenv("VNPU_FUZZ_ROUNDS");

	return env ? strtoul(env, NULL, 0) : otherwise;
}

/*
 * Validates @b as the device would: 0 or -EINVAL, never anything else. Uses copies of exact size,
 * so that ASan sees overruns.
 */
static int decode(struct fw_prog *prog, const struct job_builder *b)
{
	void *stream = malloc(b->stream_bytes), *table = malloc(b->table_bytes);
	char why[256] = "";
	int err;

	memcpy(stream, b->stream, b->stream_bytes);
	memcpy(table, b->table, b->table_bytes);
	err = fw_prog_decode(prog, stream, b->stream_bytes, table, b->table_bytes,
			     1ull << FAKE_VA_BITS, why, sizeof(why));
	assert_true(err == 0 || (err == -EINVAL && why[0]));
	if (err)
		assert_int_equal(prog->nr_cmds, 0);
	free(stream);
	free(table);
	return err;
}

/*
 * Streams with a few words changed: those that are valid run on a core that may access only the
 * pages that it announces to the guard; other accesses crash this test.
 */
static void damaged_streams_never_crash_and_access_only_what_they_announce(void **state)
{
	struct fixture *x = *state;
	struct vnpu_wk_panel *wk = (struct vnpu_wk_panel *)(x->f->mem[1] + ALL_WEIGHTS + ALL_WK),
			     wk_good[2];
	unsigned int i, rounds = fuzz_rounds(6000), valid = 0;
	struct fw_prog prog = { 0 };
	struct job_builder b;
	struct soc *soc;
	uint32_t status;
	char why[256];

	soc = soc_load("sd8gen3", why, sizeof(why));
	assert_non_null(soc);
	memcpy(wk_good, wk, sizeof(wk_good));
	fake_stop(x->f);
	x->f->strict = true;
	x->f->npu = &soc->npu;
	fake_start(x->f, 1, 0, FW_ISA_AUTO);
	for (i = 0; i < rounds; i++) {
		b = x->good;
		permute(&b, 2);
		shape_some(&b);
		if (rng_below(2))
			((struct vnpu_table_hdr *)b.table)->record_slot =
				rng_below(8) ? ALL_SLOT_OUT : edgy();
		if (rng_below(5))
			spoil(b.stream, b.stream_bytes);
		else
			spoil(b.table, b.table_bytes);
		/* A sleep of seconds would only be slow. */
		memset(b.stream + (find_cmd(&x->good, VNPU_OP_SLEEP) - x->good.stream) + 8, 0, 8);
		if (decode(&prog, &b))
			continue;
		valid++;
		if (valid > rounds / 20)
			continue;
		x->nr_jobs = x->nr_jobs % 4000;
		if (!x->nr_jobs)
			x->f->nr_done = 0;
		/* The table of weights of 1 to 8 bits, which is checked when it is read. */
		memcpy(wk, wk_good, sizeof(wk_good));
		if (!rng_below(3))
			spoil((uint8_t *)wk, sizeof(wk_good));
		status = run(x, &b).status;
		assert_true(status == VNPU_FW_OK || status == VNPU_FW_FAULT ||
			    status == VNPU_FW_FAILED);
	}
	print_message("%u of %u spoilt jobs were valid\n", valid, rounds);
	assert_true(valid > 0 && valid < rounds);
	fw_prog_free(&prog);
	/* The core must not outlive its soc. */
	fake_stop(x->f);
	x->f->npu = NULL;
	fake_start(x->f, 1, 0, FW_ISA_AUTO);
	soc_free(soc);
}

static void random_bytes_are_refused(void **state)
{
	unsigned int i, j, rounds = fuzz_rounds(20000);
	struct fixture *x = *state;
	struct fw_prog prog = { 0 };
	struct job_builder b;

	for (i = 0; i < rounds; i++) {
		b = x->good;
		b.stream_bytes = 8 * (1 + rng_below(60));
		b.table_bytes = 8 * (1 + rng_below(30));
		/* Mostly valid headers, so that the fuzzer reaches what follows them. */
		for (j = rng_below(4) ? sizeof(struct vnpu_stream_hdr) : 0; j < b.stream_bytes; j++)
			b.stream[j] = rng_below(3) ? rng_below(16) : rng_u32();
		for (j = rng_below(4) ? sizeof(struct vnpu_table_hdr) : 0; j < b.table_bytes; j++)
			b.table[j] = rng_below(3) ? 0 : rng_u32();
		((struct vnpu_stream_hdr *)b.stream)->size_bytes = b.stream_bytes;
		assert_int_equal(decode(&prog, &b), -EINVAL);
	}
	fw_prog_free(&prog);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_stream_of_every_operation_runs),
		TEST(every_malformed_field_of_the_stream_is_refused),
		TEST(every_malformed_field_of_the_table_is_refused),
		TEST(truncated_and_padded_jobs_are_refused),
		TEST(operands_may_fill_their_slots),
		TEST(odd_but_valid_streams_run),
		TEST(permuted_matmuls_have_the_same_bits),
		TEST(permuted_matmuls_want_version_1_5),
		TEST(later_activations_want_version_1_10),
		TEST(types_with_levels_want_version_1_10),
		TEST(shaped_matmuls_have_the_same_bits),
		TEST(a_shape_divides_the_rows_and_is_complete),
		TEST(damaged_streams_never_crash_and_access_only_what_they_announce),
		TEST(random_bytes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
