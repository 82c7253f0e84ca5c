/* SPDX-License-Identifier: MIT */
/* Part of kernel_bits.c: scores (QK_I8), attention in INT8, and packed keys and values. */

static void call_qk_i8(const struct fw_kernels *k, void *y, const void *arg)
{
	struct fw_qk_i8 t = *(const struct fw_qk_i8 *)arg;

	t.scores = y;
	k->qk_i8(&t, scratch);
}

struct keys {
	const float *x;
	uint32_t rows, dim, ldx;
	uint64_t pos;
};

static void call_pack_keys(const struct fw_kernels *k, void *y, const void *arg)
{
	const struct keys *x = arg;

	k->pack_keys(y, x->x, x->ldx, x->rows, x->dim, x->pos, 0.01f);
}

static void test_scores(uint32_t dim, uint32_t rows, uint32_t pos)
{
	uint32_t panels = (pos + rows + 63) / 64, columns = (dim + 3) / 4 * 4;
	struct fw_qk_i8 t = {
		.pos = pos,
		.rows = rows,
		.head_dim = dim,
		.panels = panels,
		.shift = vnpu_qk_shift(dim),
		.ldq = columns + rng_below(5),
		.lds = 64 * (panels + rng_below(2)),
	};
	char what[96];

	t.q = random_bytes((rows - 1) * t.ldq + columns, rng_below(2));
	t.k = random_bytes(panels * VNPU_QK_PANEL_BYTES(dim), rng_below(2));
	snprintf(what, sizeof(what), "qk_i8 dim %u rows %u at %u", dim, rows, pos);
	compare(what, ((rows - 1) * t.lds + panels * 64) * 2, BYTES, call_qk_i8, &t);
}

static void test_keys(uint32_t dim, uint32_t rows, uint32_t pos)
{
	struct keys x = { .rows = rows, .dim = dim, .ldx = dim + rng_below(5), .pos = pos };
	char what[96];

	x.x = random_floats((rows - 1) * x.ldx + dim, 1.5f);
	snprintf(what, sizeof(what), "pack_keys dim %u rows %u at %u", dim, rows, pos);
	compare(what, (pos + rows + 63) / 64 * VNPU_QK_PANEL_BYTES(dim), BYTES, call_pack_keys, &x);
}

static void call_attn_i8(const struct fw_kernels *k, void *y, const void *arg)
{
	struct fw_attn_i8 t = *(const struct fw_attn_i8 *)arg;

	t.y = y;
	k->attn_i8(&t, scratch);
}

static void call_pack_values(const struct fw_kernels *k, void *y, const void *arg)
{
	const struct keys *x = arg;

	k->pack_values(y, x->x, x->ldx, x->rows, x->dim, x->pos, 0.01f);
}

static void test_attn_i8(uint32_t dim, uint32_t rows, uint32_t pos)
{
	uint32_t keys = pos + rows;
	struct keys values = { .rows = rows, .dim = dim, .ldx = dim, .pos = pos };
	struct fw_attn_i8 t = {
		.ldq = dim + rng_below(5),
		.ldy = dim + rng_below(5),
		.pos = pos,
		.rows = rows,
		.head_dim = dim,
		.q_scale = 0.02f,
		.k_scale = 0.013f,
		.v_scale = 0.01f,
		.scale = 0.05f,
	};
	char what[96];

	t.q = random_floats((rows - 1) * t.ldq + dim, 2);
	t.k = random_bytes((keys + 63) / 64 * VNPU_QK_PANEL_BYTES(dim), rng_below(2));
	t.v = random_bytes(VNPU_PV_BYTES((keys + 3) / 4 * 4, dim), rng_below(2));
	snprintf(what, sizeof(what), "attn_i8 dim %u rows %u at %u", dim, rows, pos);
	compare(what, ((rows - 1) * t.ldy + dim) * 4, F32, call_attn_i8, &t);
	values.x = t.q;
	values.ldx = (uint32_t)t.ldq;
	snprintf(what, sizeof(what), "pack_values dim %u rows %u at %u", dim, rows, pos);
	compare(what, VNPU_PV_BYTES((keys + 3) / 4 * 4, dim), BYTES, call_pack_values, &values);
}

static void test_qk(void)
{
	static const uint32_t dims[] = { 64, 80, 128, 160, 256, 1, 17, 100, VNPU_MAX_HEAD_DIM };

	for (int round = 0; round < 60; round++) {
		uint32_t dim = dims[rng_below(9)], rows = random_in(1, round % 4 ? 12 : 120);
		uint32_t pos = rng_below(200);

		test_scores(dim, rows, pos);
		test_keys(dim, rows, pos);
		test_attn_i8(dim, rows, pos);
		end_case();
	}
}
