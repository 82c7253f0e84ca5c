// SPDX-License-Identifier: MIT
/*
 * Matmuls: MATMUL_I8, MATMUL_W4, MATMUL_W4F, MATMUL_WK, MATMUL_KQ. Their commands differ after
 * tile_n.
 */
#include "fw_op.h"

_Static_assert(offsetof(struct vnpu_cmd_matmul_w4, tile_n) ==
			       offsetof(struct vnpu_cmd_matmul_i8, tile_n) &&
		       offsetof(struct vnpu_cmd_matmul_wk, tile_n) ==
			       offsetof(struct vnpu_cmd_matmul_i8, tile_n) &&
		       offsetof(struct vnpu_cmd_matmul_kq, tile_n) ==
			       offsetof(struct vnpu_cmd_matmul_i8, tile_n),
	       "each is also accessed as a MATMUL_I8");

/* ---- all of them ---- */

static int check_bias(struct decoder *d, struct fw_cmd *c)
{
	const struct vnpu_cmd_matmul_i8 *m = &c->u.matmul_i8;

	if (m->bias.slot != VNPU_SLOT_NONE)
		return fw_check_vector(d, c, 3, m->n);
	if (m->bias.reserved || m->bias.offset)
		return fw_refuse(d, "bias: absent, but not all 0");
	return 0;
}

/*
 * Gives tiles with more rows than the engine takes at a time fewer rows, a multiple of its step,
 * and more channels instead: rows are then converted to its form less often, and weights are not
 * read more often.
 */
static void widen_tiles(struct fw_cmd *c, uint32_t rows, uint32_t step)
{
	const struct vnpu_cmd_matmul_i8 *m = &c->u.matmul_i8;
	uint64_t parts, all = div_up(m->n, VNPU_PANEL_N) * VNPU_PANEL_N;

	if (!rows || c->tile_rows <= rows)
		return;
	parts = div_up(c->tile_rows, rows);
	c->tile_rows = div_up(div_up(c->tile_rows, parts), step) * step;
	if (c->tile_rows > rows)
		c->tile_rows = rows;
	c->tile_cols = all / parts < c->tile_cols ? all : c->tile_cols * parts;
	c->nr_tiles = div_up(m->m, c->tile_rows) * div_up(m->n, c->tile_cols);
}

/*
 * Tiles that have all rows become one for each panel, of which a worker takes as many at once as
 * the tile had, or fewer of the last ones: others wait for the end of those.
 */
static void split_tiles(struct fw_cmd *c)
{
	const struct vnpu_cmd_matmul_i8 *m = &c->u.matmul_i8;

	if (c->tile_rows < m->m)
		return;
	c->most = c->tile_cols / VNPU_PANEL_N;
	c->tile_cols = VNPU_PANEL_N;
	c->nr_tiles = div_up(m->n, VNPU_PANEL_N);
}

/* Uses the stream's tiles, limited to @max_n channels and FW_TILE_MACS. */
static void cut_matmul(struct decoder *d, struct fw_cmd *c, uint64_t max_n)
{
	const struct vnpu_cmd_matmul_i8 *m = &c->u.matmul_i8;
	uint64_t all = div_up(m->n, VNPU_PANEL_N) * VNPU_PANEL_N;
	uint64_t tile_n = m->tile_n < all ? m->tile_n : all,
		 tile_m = m->tile_m < m->m ? m->tile_m : m->m;

	if (tile_n > max_n)
		tile_n = max_n;
	if (tile_n > FW_TILE_MACS / m->k)
		tile_n = FW_TILE_MACS / m->k / VNPU_PANEL_N * VNPU_PANEL_N;
	if (tile_m > FW_TILE_MACS / m->k / tile_n)
		tile_m = FW_TILE_MACS / m->k / tile_n;
	c->tile_cols = tile_n;
	c->tile_rows = tile_m ? tile_m : 1;
	c->nr_tiles = div_up(m->m, c->tile_rows) * div_up(m->n, c->tile_cols);
	if (c->u.hdr.op == VNPU_OP_MATMUL_I8)
		widen_tiles(c, d->prog->i8_rows, d->prog->i8_step);
	split_tiles(c);
}

/* Checks all but the activations, with @w_bytes of weights. A tile has at most @max_n channels. */
static int check_matmul(struct decoder *d, struct fw_cmd *c, uint64_t w_bytes, uint32_t max_n,
			uint64_t *cost)
{
	const struct vnpu_cmd_matmul_i8 *m = &c->u.matmul_i8;
	uint64_t panels, cycles;

	CHECK(fw_check_bounded(d, "m", m->m, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "n", m->n, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "k", m->k, VNPU_MAX_K_I8));
	CHECK(fw_check_bounded(d, "tile_m", m->tile_m, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "tile_n", m->tile_n, VNPU_MAX_DIM));
	if (m->tile_n % VNPU_PANEL_N)
		return fw_refuse(d, "tile_n %u is not a multiple of %u", m->tile_n, VNPU_PANEL_N);
	if (c->width && m->m % c->width)
		return fw_refuse(d, "width %u does not divide m, %u", c->width, m->m);
	panels = div_up(m->n, VNPU_PANEL_N);
	CHECK(fw_check_operand(d, c, 2, w_bytes, 64));
	CHECK(check_bias(d, c));
	CHECK(fw_check_matrix(d, c, 4, m->m, m->n, m->ldc));
	cut_matmul(d, c, max_n);
	/*
	 * Cycles per panel: multiplying it, or reading it from memory, which takes longer for few
	 * rows. m, n < 2^24 and k <= 2^16 fill 64 bits, so divide first.
	 */
	cycles = (uint64_t)m->m * div_up(m->k, 2);
	if (cycles < w_bytes / panels / 6)
		cycles = w_bytes / panels / 6;
	*cost = cycles * panels;
	return 0;
}

/* Checks the s8 rows and their scales. */
static int check_s8(struct decoder *d, struct fw_cmd *c)
{
	const struct vnpu_cmd_matmul_i8 *m = &c->u.matmul_i8;

	CHECK(fw_check_matrix(d, c, 0, m->m, m->k, m->lda));
	return fw_check_vector(d, c, 1, m->m);
}

static void place_matmul(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_matmul_i8 *m = &t->cmd->u.matmul_i8;
	uint64_t down = div_up(m->m, t->cmd->tile_rows);

	/* Rows vary first, so that tiles that run at the same time share weights. */
	t->row = index % down * t->cmd->tile_rows;
	t->col = index / down * t->cmd->tile_cols;
	t->rows = min_u64(t->cmd->tile_rows, m->m - t->row);
	t->cols = min_u64(t->cmd->tile_cols * t->nr, m->n - t->col);
}

/* The tile reads @w_bytes of weights at @w, and @a_bytes of each row of a. */
static void touch_matmul(struct fw_tile *t, uint64_t a_stride, uint64_t a_bytes, uint64_t w,
			 uint64_t w_bytes)
{
	const struct vnpu_cmd_matmul_i8 *m = &t->cmd->u.matmul_i8;

	tile_touch(t, 0, t->row * a_stride, (t->rows - 1) * a_stride + a_bytes);
	if (m->a_scale.slot != VNPU_SLOT_NONE)
		tile_touch(t, 1, t->row * 4, t->rows * 4);
	tile_touch(t, 2, w, w_bytes);
	if (m->bias.slot != VNPU_SLOT_NONE)
		tile_touch(t, 3, t->col * 4, t->cols * 4);
	tile_touch_f32(t, 4, m->ldc);
}

static int prepare_panels(struct fw_tile *t, uint64_t index, uint64_t a_stride, uint64_t a_bytes,
			  uint64_t panel_bytes)
{
	place_matmul(t, index);
	touch_matmul(t, a_stride, a_bytes, t->col / VNPU_PANEL_N * panel_bytes,
		     div_up(t->cols, VNPU_PANEL_N) * panel_bytes);
	return 0;
}

static float *bias_at(const struct fw_tile *t)
{
	return t->cmd->u.matmul_i8.bias.slot == VNPU_SLOT_NONE ? NULL
							       : tile_f32(t, 3, 0, 0, t->col);
}

static struct npu_time_matmul modelled(const struct fw_cmd *c, double weight_bits)
{
	const struct vnpu_cmd_matmul_i8 *m = &c->u.matmul_i8;

	return (struct npu_time_matmul){
		.m = m->m,
		.k = m->k,
		.n = m->n,
		.type = NPU_TIME_I8,
		.order = m->hdr.flags & VNPU_CMD_PERMUTED ? NPU_TIME_WEIGHTS_STREAMED
							  : NPU_TIME_WEIGHTS_STATIONARY,
		.weight_bits = weight_bits,
		.width = c->width,
	};
}

/* ---- MATMUL_I8 ---- */

static int check_matmul_i8(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_matmul_i8 *m = &c->u.matmul_i8;
	uint64_t w_bytes = div_up(m->n, VNPU_PANEL_N) * VNPU_PANEL_I8_BYTES(m->k);

	CHECK(fw_check_reserved(d, m->reserved));
	CHECK(check_matmul(d, c, w_bytes, VNPU_MAX_DIM, cost));
	return check_s8(d, c);
}

static uint64_t i8_panel_bytes(const struct fw_cmd *c)
{
	return VNPU_PANEL_I8_BYTES(c->u.matmul_i8.k);
}

static int prepare_matmul_i8(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_matmul_i8 *m = &t->cmd->u.matmul_i8;

	return prepare_panels(t, index, m->lda, (m->k + 3) / 4 * 4, i8_panel_bytes(t->cmd));
}

static void run_matmul_i8(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_matmul_i8 *m = &t->cmd->u.matmul_i8;
	struct fw_matmul_i8 mm = {
		.a = (int8_t *)tile_at(t, 0) + t->row * m->lda,
		.a_scale = tile_f32(t, 1, t->row, 1, 0),
		.w = (uint8_t *)tile_at(t, 2) + t->col / VNPU_PANEL_N * i8_panel_bytes(t->cmd),
		.bias = bias_at(t),
		.c = tile_f32(t, 4, t->row, m->ldc, t->col),
		.m = t->rows,
		.n = t->cols,
		.k = m->k,
		.lda = m->lda,
		.ldc = m->ldc,
	};

	t->k->matmul_i8(&mm, t->scratch);
}

static struct npu_cost time_matmul_i8(const struct soc_npu *npu, const struct fw_cmd *c)
{
	struct npu_time_matmul op = modelled(c, 8);

	return npu_time_matmul(npu, &op);
}

const struct fw_op fw_op_matmul_i8 = {
	.check = check_matmul_i8,
	.prepare = prepare_matmul_i8,
	.run = run_matmul_i8,
	.panel_bytes = i8_panel_bytes,
	.time = time_matmul_i8,
};

/* ---- MATMUL_W4, MATMUL_W4F ---- */

static int check_w4(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_matmul_w4 *m = &c->u.matmul_w4;

	CHECK(fw_check_group(d, m->group, m->k));
	return check_matmul(d, c, div_up(m->n, VNPU_PANEL_N) * VNPU_PANEL_W4_BYTES(m->k, m->group),
			    VNPU_MAX_DIM, cost);
}

static uint64_t w4_panel_bytes(const struct fw_cmd *c)
{
	return VNPU_PANEL_W4_BYTES(c->u.matmul_w4.k, c->u.matmul_w4.group);
}

/* The kernel arguments of a tile whose activations have @elem_bytes. */
static struct fw_matmul_w4 w4_block(const struct fw_tile *t, unsigned int elem_bytes)
{
	const struct vnpu_cmd_matmul_w4 *m = &t->cmd->u.matmul_w4;

	return (struct fw_matmul_w4){
		.a = (uint8_t *)tile_at(t, 0) + t->row * m->lda * elem_bytes,
		.w = (uint8_t *)tile_at(t, 2) + t->col / VNPU_PANEL_N * w4_panel_bytes(t->cmd),
		.bias = bias_at(t),
		.c = tile_f32(t, 4, t->row, m->ldc, t->col),
		.m = t->rows,
		.n = t->cols,
		.k = m->k,
		.group = m->group,
		.lda = m->lda,
		.ldc = m->ldc,
	};
}

static int check_matmul_w4(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	CHECK(check_w4(d, c, cost));
	return check_s8(d, c);
}

static int prepare_matmul_w4(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_matmul_w4 *m = &t->cmd->u.matmul_w4;

	return prepare_panels(t, index, m->lda, m->k, w4_panel_bytes(t->cmd));
}

static void run_matmul_w4(void *arg)
{
	struct fw_tile *t = arg;
	struct fw_matmul_w4 mm = w4_block(t, 1);

	mm.a_scale = tile_f32(t, 1, t->row, 1, 0);
	t->k->matmul_w4(&mm, t->scratch);
}

/* Scales of groups, at most an eighth of the weights' bytes, are not counted, as in a plan. */
static struct npu_cost time_matmul_w4(const struct soc_npu *npu, const struct fw_cmd *c)
{
	struct npu_time_matmul op = modelled(c, 4);

	op.group = c->u.matmul_w4.group;
	return npu_time_matmul(npu, &op);
}

const struct fw_op fw_op_matmul_w4 = {
	.check = check_matmul_w4,
	.prepare = prepare_matmul_w4,
	.run = run_matmul_w4,
	.panel_bytes = w4_panel_bytes,
	.time = time_matmul_w4,
};

static int check_matmul_w4f(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_matmul_w4 *m = &c->u.matmul_w4f;

	CHECK(check_w4(d, c, cost));
	CHECK(fw_check_matrix(d, c, 0, m->m, m->k, m->lda));
	if (m->a_scale.slot != VNPU_SLOT_NONE || m->a_scale.reserved || m->a_scale.offset)
		return fw_refuse(d, "a_scale: rows of floats have none");
	return 0;
}

static int prepare_matmul_w4f(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_matmul_w4 *m = &t->cmd->u.matmul_w4f;

	return prepare_panels(t, index, m->lda * 4ull, m->k * 4ull, w4_panel_bytes(t->cmd));
}

static void run_matmul_w4f(void *arg)
{
	struct fw_tile *t = arg;
	struct fw_matmul_w4 mm = w4_block(t, 4);

	t->k->matmul_w4f(&mm, t->scratch);
}

static struct npu_cost time_matmul_w4f(const struct soc_npu *npu, const struct fw_cmd *c)
{
	struct npu_time_matmul op = modelled(c, 4);

	op.type = NPU_TIME_F16;
	return npu_time_matmul(npu, &op);
}

const struct fw_op fw_op_matmul_w4f = {
	.check = check_matmul_w4f,
	.prepare = prepare_matmul_w4f,
	.run = run_matmul_w4f,
	.panel_bytes = w4_panel_bytes,
	.time = time_matmul_w4f,
};

/* ---- MATMUL_WK ---- */

/* The table may change until the tile runs, so only its size is checked here. */
static int check_matmul_wk(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_matmul_wk *m = &c->u.matmul_wk;

	CHECK(fw_check_reserved(d, m->reserved));
	CHECK(fw_check_wk(d, m->w_bytes, m->n, m->k));
	CHECK(check_matmul(d, c, m->w_bytes, FW_WK_PANELS * VNPU_PANEL_N, cost));
	return check_s8(d, c);
}

static int prepare_matmul_wk(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_matmul_wk *m = &t->cmd->u.matmul_wk;
	uint64_t begin, bytes;

	place_matmul(t, index);
	CHECK(tile_wk_table(t, m->w_bytes, m->k, &begin, &bytes));
	touch_matmul(t, m->lda, (m->k + 3) / 4 * 4, begin, bytes);
	return 0;
}

static void run_matmul_wk(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_matmul_wk *m = &t->cmd->u.matmul_wk;
	struct fw_wk_panel panels[FW_WK_PANELS];
	struct fw_matmul_i8 mm = {
		.a = (int8_t *)tile_at(t, 0) + t->row * m->lda,
		.a_scale = tile_f32(t, 1, t->row, 1, 0),
		.bias = bias_at(t),
		.c = tile_f32(t, 4, t->row, m->ldc, t->col),
		.m = t->rows,
		.n = t->cols,
		.k = m->k,
		.lda = m->lda,
		.ldc = m->ldc,
		.wk = panels,
	};

	tile_wk_panels(t, panels);
	t->k->matmul_i8(&mm, t->scratch);
}

static struct npu_cost time_matmul_wk(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_matmul_wk *m = &c->u.matmul_wk;
	struct npu_time_matmul op = modelled(c, fw_wk_bits(m->w_bytes, m->n, m->k));

	return npu_time_matmul(npu, &op);
}

const struct fw_op fw_op_matmul_wk = {
	.check = check_matmul_wk,
	.prepare = prepare_matmul_wk,
	.run = run_matmul_wk,
	.time = time_matmul_wk,
};

/* ---- MATMUL_KQ ---- */

static int check_matmul_kq(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_matmul_kq *m = &c->u.matmul_kq;

	CHECK(fw_check_kq(d, m->type, m->k));
	CHECK(check_matmul(d, c, div_up(m->n, VNPU_PANEL_N) * vnpu_kq_panel_bytes(m->type, m->k),
			   VNPU_MAX_DIM, cost));
	return check_s8(d, c);
}

static uint64_t kq_panel_bytes(const struct fw_cmd *c)
{
	return vnpu_kq_panel_bytes(c->u.matmul_kq.type, c->u.matmul_kq.k);
}

static int prepare_matmul_kq(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_matmul_kq *m = &t->cmd->u.matmul_kq;

	return prepare_panels(t, index, m->lda, m->k, kq_panel_bytes(t->cmd));
}

static void run_matmul_kq(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_matmul_kq *m = &t->cmd->u.matmul_kq;
	struct fw_matmul_kq mm = {
		.a = (int8_t *)tile_at(t, 0) + t->row * m->lda,
		.a_scale = tile_f32(t, 1, t->row, 1, 0),
		.w = (uint8_t *)tile_at(t, 2) + t->col / VNPU_PANEL_N * kq_panel_bytes(t->cmd),
		.bias = bias_at(t),
		.c = tile_f32(t, 4, t->row, m->ldc, t->col),
		.m = t->rows,
		.n = t->cols,
		.k = m->k,
		.type = m->type,
		.lda = m->lda,
		.ldc = m->ldc,
	};

	t->k->matmul_kq(&mm, t->scratch);
}

/* As of MATMUL_W4, scales and minima are not counted. */
static struct npu_cost time_matmul_kq(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_matmul_kq *m = &c->u.matmul_kq;
	struct npu_time_matmul op = modelled(c, vnpu_kq_form(m->type).bits);

	op.group = vnpu_kq_form(m->type).group;
	return npu_time_matmul(npu, &op);
}

const struct fw_op fw_op_matmul_kq = {
	.check = check_matmul_kq,
	.prepare = prepare_matmul_kq,
	.run = run_matmul_kq,
	.panel_bytes = kq_panel_bytes,
	.time = time_matmul_kq,
};
