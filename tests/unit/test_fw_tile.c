// SPDX-License-Identifier: MIT
/*
 * Tiles: those of a matmul cover it, workers run each of them once, and what may be prefetched for
 * a tile is what it reads.
 */
#include "fw_all_ops.h"

#include "fw_tile.h"

#define AS_BYTES (1ull << 32)
#define MAX_KEYS 20000
#define MAX_ROWS 300
#define MAX_COLS 4000
/* Matmuls of a region, and bytes from one's result to the next's. */
#define MATMULS 3
#define RESULT_BYTES (8u << 20)

/* Accesses announced by the last tile; nothing is computed. */
struct recorder {
	struct fw_access acc[ISA_MAX_OPERANDS];
	unsigned int nr_acc;
};

static int record(void *priv, struct fw_aspace *as, const struct fw_access *acc,
		  unsigned int nr_acc, void (*fn)(void *arg), void *arg, struct fw_fault *fault)
{
	struct recorder *r = priv;

	assert_true(nr_acc <= ISA_MAX_OPERANDS);
	memcpy(r->acc, acc, nr_acc * sizeof(*acc));
	r->nr_acc = nr_acc;
	return 0;
}

/* Addresses from a page of this program on, none of which is accessed. */
struct space {
	uint8_t page[64];
	struct fw_aspace as;
	struct fw_port_ops ops;
	struct recorder recorder;
	struct fw_prog prog;
	struct fw_exec_job job;
};

/* @engine: what the tiles are to suit. */
static void space_decode(struct space *s, struct job_builder *b, uint64_t as_bytes,
			 struct fw_prog engine)
{
	char why[256];

	*s = (struct space){ .ops.guard = record, .prog = engine };
	s->as.base = s->page;
	s->as.size = as_bytes;
	if (fw_prog_decode(&s->prog, b->stream, b->stream_bytes, b->table, b->table_bytes, as_bytes,
			   why, sizeof(why)))
		fail_msg("%s", why);
	s->job = (struct fw_exec_job){
		.prog = &s->prog, .ops = &s->ops, .port_priv = &s->recorder, .as = &s->as
	};
}

static uint32_t any(uint32_t min, uint32_t max)
{
	return min + rng_below(max - min + 1);
}

/* A matmul of any shape, in a slot large enough for each; the region's @nr-th. */
static void add_matmul(struct job_builder *b, uint16_t op, uint32_t nr)
{
	uint32_t groups[] = { 32, 64, 128 }, group = groups[rng_below(3)], k = group * any(1, 12);
	struct vnpu_cmd_matmul_w4 c = {
		.a = ref_to(0, 0),
		.a_scale = ref_to(0, 4 << 20),
		.w = ref_to(0, (8 << 20) + 64 * any(0, 1000)),
		.bias = { .slot = VNPU_SLOT_NONE },
		.c = ref_to(0, (128 << 20) + nr * RESULT_BYTES),
		.m = any(1, rng_below(2) ? 8 : MAX_ROWS),
		.n = any(1, MAX_COLS),
		.k = k,
		.lda = k,
		.tile_m = any(1, 300),
		.tile_n = 64 * any(1, 8),
		.group = op == VNPU_OP_MATMUL_I8 ? 0 : group,
	};

	c.ldc = c.n;
	if (op == VNPU_OP_MATMUL_W4F)
		c.a_scale = (struct vnpu_ref){ .slot = VNPU_SLOT_NONE };
	job_cmd(b, op, &c, op == VNPU_OP_MATMUL_I8 ? sizeof(struct vnpu_cmd_matmul_i8) : sizeof(c));
}

static void prefetched_weights_are_those_that_the_tile_reads(void **state)
{
	static const uint16_t ops[] = { VNPU_OP_MATMUL_I8, VNPU_OP_MATMUL_W4, VNPU_OP_MATMUL_W4F };
	const struct fw_kernels *k = fw_kernels_get(FW_ISA_AUTO);
	const uint8_t *weights;
	struct job_builder b;
	struct fw_fault fault;
	struct space s;

	for (int round = 0; round < 200; round++) {
		const struct fw_cmd *cmd;
		uint64_t first, bytes = 0;

		job_begin(&b);
		job_slot(&b, 4096, AS_BYTES - 4096, VNPU_SLOT_READ | VNPU_SLOT_WRITE);
		add_matmul(&b, ops[round % 3], 0);
		job_end(&b);
		space_decode(&s, &b, AS_BYTES,
			     (struct fw_prog){ .i8_rows = any(0, 132), .i8_step = any(1, 8) });
		cmd = &s.prog.cmds[0];
		for (uint64_t tile = 0; tile < cmd->nr_tiles; tile++) {
			bool found = false;

			bytes = fw_tile_weights(&s.job, cmd, tile, &weights);
			assert_int_equal(fw_tile_run(k, &s.job, cmd, tile, 1, NULL, &fault), 0);
			first = (uint64_t)(weights - s.page);
			for (unsigned int i = 0; i < s.recorder.nr_acc; i++)
				found |= s.recorder.acc[i].va == first &&
					 !s.recorder.acc[i].write &&
					 s.recorder.acc[i].size <= bytes;
			assert_true(found);
		}
		/* The last tile has the last weights. */
		assert_int_equal(s.recorder.acc[ops[round % 3] == VNPU_OP_MATMUL_W4F ? 1 : 2].size,
				 bytes);
		fw_prog_free(&s.prog);
	}
}

static void commands_without_weights_have_nothing_to_prefetch(void **state)
{
	struct fake *f = fake_create(16);
	unsigned int matmuls = 0;
	const uint8_t *weights;
	struct job_builder b;
	struct space s;

	all_ops_make(&b, f, 1);
	space_decode(&s, &b, 1ull << FAKE_VA_BITS, (struct fw_prog){ 0 });
	for (uint32_t i = 0; i < s.prog.nr_cmds; i++) {
		uint16_t op = s.prog.cmds[i].u.hdr.op;

		if (op == VNPU_OP_MATMUL_I8 || op == VNPU_OP_MATMUL_W4 || op == VNPU_OP_MATMUL_W4F)
			matmuls++;
		else
			assert_int_equal(fw_tile_weights(&s.job, &s.prog.cmds[i], 0, &weights), 0);
	}
	assert_true(matmuls >= 3);
	fw_prog_free(&s.prog);
	fake_destroy(f);
}

/* By the accesses that each tile announces. */
static void tiles_cover_a_matmul_once_in_sizes_that_suit_the_engine(void **state)
{
	const struct fw_kernels *k = fw_kernels_get(FW_ISA_AUTO);
	const struct vnpu_cmd_matmul_i8 *m;
	static uint8_t covered[MAX_ROWS][MAX_COLS];
	struct job_builder b;
	struct fw_fault fault;
	struct space s;

	for (int round = 0; round < 100; round++) {
		const struct fw_access *c = &s.recorder.acc[3];
		uint64_t stride, row, col, rows, cols, tile, r, nr, wide;
		uint32_t step = any(1, 8), likes = any(0, 20) * step;
		const struct fw_cmd *cmd;

		job_begin(&b);
		job_slot(&b, 4096, AS_BYTES - 4096, VNPU_SLOT_READ | VNPU_SLOT_WRITE);
		add_matmul(&b, VNPU_OP_MATMUL_I8, 0);
		job_end(&b);
		space_decode(&s, &b, AS_BYTES,
			     (struct fw_prog){ .i8_rows = likes, .i8_step = step });
		cmd = &s.prog.cmds[0];
		m = &cmd->u.matmul_i8;
		stride = m->n * 4ull;
		memset(covered, 0, sizeof(covered));
		for (tile = 0; tile < cmd->nr_tiles; tile += nr) {
			nr = any(1, cmd->most ? cmd->most : 1);
			nr = nr < cmd->nr_tiles - tile ? nr : cmd->nr_tiles - tile;
			assert_int_equal(fw_tile_run(k, &s.job, cmd, tile, nr, NULL, &fault), 0);
			assert_int_equal(s.recorder.nr_acc, 4);
			assert_true(c->write);
			row = (c->va - cmd->va[4]) / stride;
			col = (c->va - cmd->va[4]) % stride / 4;
			rows = (c->size - 1) / stride + 1;
			cols = (c->size - (rows - 1) * stride) / 4;
			assert_true(row + rows <= m->m && col + cols <= m->n);
			if (likes)
				assert_true(rows <= likes);
			if (likes && cmd->tile_rows < m->m && cmd->tile_rows < m->tile_m)
				assert_int_equal(cmd->tile_rows % step, 0);
			for (r = row; r < row + rows; r++)
				for (uint64_t i = col; i < col + cols; i++)
					covered[r][i]++;
		}
		for (r = 0; r < m->m; r++)
			for (uint64_t i = 0; i < m->n; i++)
				assert_int_equal(covered[r][i], 1);
		/* What is taken at once is no less than the stream asked for, but at edges. */
		wide = (uint64_t)cmd->tile_cols * (cmd->most ? cmd->most : 1);
		if (wide < m->n)
			assert_true(cmd->tile_rows * wide >=
				    (m->tile_m < m->m ? m->tile_m : m->m) * (uint64_t)m->tile_n);
		/* The last ones can be taken one by one. */
		if (cmd->tile_rows >= m->m)
			assert_int_equal(cmd->nr_tiles, (m->n + 63) / 64);
		fw_prog_free(&s.prog);
	}
}

/* How often each element of each result was announced; workers announce at the same time. */
struct marks {
	const struct fw_prog *prog;
	uint8_t at[MATMULS][MAX_ROWS][MAX_COLS];
};

static int mark(void *priv, struct fw_aspace *as, const struct fw_access *acc, unsigned int nr_acc,
		void (*fn)(void *arg), void *arg, struct fw_fault *fault)
{
	const struct fw_access *c = &acc[nr_acc - 1];
	struct marks *marks = priv;
	uint64_t nr = 0, stride, row, col, rows, cols;

	while (c->va - marks->prog->cmds[nr].va[4] >= RESULT_BYTES)
		nr++;
	stride = marks->prog->cmds[nr].u.matmul_i8.n * 4ull;
	row = (c->va - marks->prog->cmds[nr].va[4]) / stride;
	col = (c->va - marks->prog->cmds[nr].va[4]) % stride / 4;
	rows = (c->size - 1) / stride + 1;
	cols = (c->size - (rows - 1) * stride) / 4;
	for (uint64_t r = row; r < row + rows; r++)
		for (uint64_t i = col; i < col + cols; i++)
			__atomic_fetch_add(&marks->at[nr][r][i], 1, __ATOMIC_RELAXED);
	return 0;
}

static void no_rings(void *ud)
{
}

static void workers_run_each_tile_once(void **state)
{
	static const uint16_t ops[] = { VNPU_OP_MATMUL_W4, VNPU_OP_MATMUL_I8, VNPU_OP_MATMUL_W4F };
	static struct marks marks;
	struct job_builder b;
	struct fw_exec *ex;
	__u64 progress = 0;
	struct space s;

	for (int round = 0; round < 60; round++) {
		job_begin(&b);
		job_slot(&b, 4096, AS_BYTES - 4096, VNPU_SLOT_READ | VNPU_SLOT_WRITE);
		for (uint32_t nr = 0; nr < MATMULS; nr++)
			add_matmul(&b, ops[(nr + (uint32_t)round) % 3], nr);
		job_end(&b);
		space_decode(&s, &b, AS_BYTES, (struct fw_prog){ .i8_rows = 70, .i8_step = 14 });
		memset(&marks, 0, sizeof(marks));
		marks.prog = &s.prog;
		s.ops.guard = mark;
		s.job.port_priv = &marks;
		s.job.poll = no_rings;
		s.job.progress = &progress;
		s.job.timed = rng_below(2);
		ex = fw_exec_create(fw_kernels_get(FW_ISA_AUTO), any(1, 6));
		assert_non_null(ex);
		assert_int_equal(fw_exec_run(ex, &s.job), VNPU_FW_OK);
		fw_exec_destroy(ex);
		for (uint32_t nr = 0; nr < MATMULS; nr++)
			for (uint32_t r = 0; r < s.prog.cmds[nr].u.matmul_i8.m; r++)
				for (uint32_t i = 0; i < s.prog.cmds[nr].u.matmul_i8.n; i++)
					assert_int_equal(marks.at[nr][r][i], 1);
		fw_prog_free(&s.prog);
	}
}

/* Heads of a few rows, and a window or none. */
static struct vnpu_cmd_attn_mask any_attention(void)
{
	uint32_t group = any(1, 4), kv_heads = any(1, 20), dim = 32 * any(1, 4), rows = any(1, 3);
	struct vnpu_cmd_attn_mask c = {
		.attn = {
			.q = ref_to(0, 0),
			.k = ref_to(0, 8 << 20),
			.v = ref_to(0, 256 << 20),
			.y = ref_to(0, 4 << 20),
			.rows = rows,
			.heads = group * kv_heads,
			.kv_heads = kv_heads,
			.head_dim = dim,
			.ctx_rows = MAX_KEYS,
			.ldq = group * kv_heads * dim,
			.ldk = kv_heads * dim,
			.ldv = kv_heads * dim,
			.ldy = group * kv_heads * dim,
			.kv_type = VNPU_KV_F16,
			.scale = 1,
		},
		.mask = { .slot = VNPU_SLOT_NONE },
		.window = rng_below(2) ? any(1, MAX_KEYS) : 0,
	};

	return c;
}

/* The first key of any row; tiles begin at whole blocks. */
static uint64_t oldest_key(const struct vnpu_cmd_attn_mask *c, uint64_t pos)
{
	uint64_t keys = c->window && pos + 1 > c->window ? pos + 1 - c->window : 0;

	return keys / FW_ATTN_BLOCK * FW_ATTN_BLOCK;
}

static void tiles_of_decoding_cover_its_keys_and_heads_once(void **state)
{
	const struct fw_kernels *k = fw_kernels_get(FW_ISA_AUTO);
	static uint8_t covered[MAX_KEYS][20];
	uint32_t whole = 0, shared = 0;
	struct job_builder b;
	struct fw_fault fault;
	struct space s;

	for (int round = 0; round < 200; round++) {
		struct vnpu_cmd_attn_mask c = any_attention();
		uint32_t span = rng_below(2) ? c.attn.rows : any(1, MAX_KEYS);
		uint64_t pos = rng_below(MAX_KEYS - span + 1), oldest = oldest_key(&c, pos);
		struct vnpu_cmd_attn_at at = { .attn = c.attn,
					       .positions = ref_to(0, 2 << 20),
					       .window = c.window,
					       .span = span };
		uint64_t head_bytes = c.attn.head_dim * 2, row_bytes = head_bytes * c.attn.kv_heads;
		uint32_t workers = any(0, 20);
		const struct fw_cmd *cmd;

		job_begin(&b);
		job_slot(&b, 4096, AS_BYTES - 4096, VNPU_SLOT_READ | VNPU_SLOT_WRITE);
		at.attn.pos_param = c.attn.pos_param = job_param(&b, pos);
		if (span == c.attn.rows)
			job_cmd(&b, VNPU_OP_ATTN_MASK, &c, sizeof(c));
		else
			job_cmd(&b, VNPU_OP_ATTN_AT, &at, sizeof(at));
		job_end(&b);
		space_decode(&s, &b, AS_BYTES, (struct fw_prog){ .workers = workers });
		cmd = &s.prog.cmds[0];
		memset(covered, 0, sizeof(covered));
		for (uint64_t tile = 0; tile < cmd->nr_tiles; tile++) {
			const struct fw_access *read = &s.recorder.acc[1];
			uint64_t row, head, heads, rows;

			assert_int_equal(fw_tile_run(k, &s.job, cmd, tile, 1, NULL, &fault), 0);
			assert_int_equal(read[1].va - read->va, cmd->va[2] - cmd->va[1]);
			assert_int_equal(read[1].size, read->size);
			row = (read->va - cmd->va[1]) / row_bytes;
			head = (read->va - cmd->va[1]) % row_bytes / head_bytes;
			rows = (read->size - 1) / row_bytes + 1;
			heads = (read->size - (rows - 1) * row_bytes) / head_bytes;
			assert_true(row >= oldest && row + rows <= pos + span);
			assert_true(head + heads <= c.attn.kv_heads);
			for (uint64_t r = row; r < row + rows; r++)
				for (uint64_t h = head; h < head + heads; h++)
					covered[r][h]++;
			*(heads == c.attn.kv_heads ? &whole : &shared) += 1;
		}
		for (uint64_t r = oldest; r < pos + span; r++)
			for (uint64_t h = 0; h < c.attn.kv_heads; h++)
				assert_int_equal(covered[r][h], 1);
		fw_prog_free(&s.prog);
	}
	/* Both kinds of tiles were there. */
	assert_true(whole > 100 && shared > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tiles_cover_a_matmul_once_in_sizes_that_suit_the_engine),
		cmocka_unit_test(workers_run_each_tile_once),
		cmocka_unit_test(tiles_of_decoding_cover_its_keys_and_heads_once),
		cmocka_unit_test(prefetched_weights_are_those_that_the_tile_reads),
		cmocka_unit_test(commands_without_weights_have_nothing_to_prefetch),
	};

	rng_seed("test_fw_tile");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
