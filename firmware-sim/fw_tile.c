// SPDX-License-Identifier: MIT
/*
 * From a command and the number of a tile to pointers and a kernel call. Each operator says which addresses the tile
 * touches (an operand counts from its first to its last byte) and how to compute it; the port's guard stands between.
 */
#include "fw_tile.h"

#include <errno.h>
#include <string.h>

struct tile {
	const struct fw_kernels *k;
	const struct fw_cmd *cmd;
	uint8_t *base; /* of the address space */
	void *scratch;
	uint64_t row, rows, col, cols;
	struct fw_access acc[ISA_MAX_OPERANDS];
	unsigned int nr_acc;
	/* MATMUL_WK: the tile's part of the table, as it was when it was read. */
	struct vnpu_wk_panel table[FW_WK_PANELS];
	uint32_t nr_panels;
};

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void touch(struct tile *t, uint64_t va, uint64_t bytes, bool write)
{
	t->acc[t->nr_acc++] = (struct fw_access){ va, bytes, write };
}

/* Rows row.. and columns col.. of a matrix of 4-byte elements. */
static void touch_f32(struct tile *t, uint64_t va, uint64_t ld, bool write)
{
	touch(t, va + (t->row * ld + t->col) * 4, ((t->rows - 1) * ld + t->cols) * 4, write);
}

/* Of operand i: its address here. */
static void *at(const struct tile *t, int i)
{
	return t->base + t->cmd->va[i];
}

static float *f32_at(const struct tile *t, int i, uint64_t row, uint64_t ld, uint64_t col)
{
	return (float *)at(t, i) + row * ld + col;
}

/* Which part of a command over [rows][cols] the tile is. */
static void place(struct tile *t, uint64_t rows, uint64_t cols, uint64_t index)
{
	uint64_t across = (cols + t->cmd->tile_cols - 1) / t->cmd->tile_cols;

	t->row = index / across * t->cmd->tile_rows;
	t->col = index % across * t->cmd->tile_cols;
	t->rows = min_u64(t->cmd->tile_rows, rows - t->row);
	t->cols = min_u64(t->cmd->tile_cols, cols - t->col);
}

static void run_copy(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_copy *m = &t->cmd->u.copy;
	const uint8_t *src = at(t, 0);
	uint8_t *dst = at(t, 1);
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		memmove(dst + (t->cmd->pos + r) * m->dst_stride_bytes + t->col, src + r * m->src_stride_bytes + t->col,
			t->cols);
}

static void run_binary(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_binary *m = &t->cmd->u.add;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		(m->hdr.op == VNPU_OP_ADD ? t->k->add : t->k->mul)(f32_at(t, 2, r, m->ldy, t->col),
								   f32_at(t, 0, r, m->lda, t->col),
								   f32_at(t, 1, r, m->ldb, t->col), t->cols);
}

static void run_act(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_act *m = &t->cmd->u.act;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		(m->kind == VNPU_ACT_SILU ? t->k->silu : t->k->gelu)(f32_at(t, 1, r, m->ldy, t->col),
								     f32_at(t, 0, r, m->ldx, t->col), t->cols);
}

static void run_glu(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_glu *m = &t->cmd->u.glu;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->glu(f32_at(t, 2, r, m->ldy, t->col), f32_at(t, 0, r, m->lda, t->col),
			  f32_at(t, 1, r, m->ldb, t->col), t->cols, m->kind);
}

static void run_rmsnorm(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_rmsnorm *m = &t->cmd->u.rmsnorm;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->rmsnorm(f32_at(t, 2, r, m->ldy, 0), f32_at(t, 0, r, m->ldx, 0), at(t, 1), m->cols, m->eps);
}

static void run_rope(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_rope *m = &t->cmd->u.rope;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->rope(f32_at(t, 2, r, m->ldy, 0), f32_at(t, 0, r, m->ldx, 0), at(t, 1), t->cmd->pos + r, m->heads,
			   m->head_dim, m->rot_dim, m->mode, t->scratch);
}

static void run_softmax(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_softmax *m = &t->cmd->u.softmax;
	uint64_t r, n;

	for (r = t->row; r < t->row + t->rows; r++) {
		n = m->limit_param == VNPU_PARAM_NONE ? m->cols : min_u64(m->cols, t->cmd->pos + r + 1);
		t->k->softmax(f32_at(t, 1, r, m->ldy, 0), f32_at(t, 0, r, m->ldx, 0), n, m->cols, m->scale);
	}
}

static void run_quant(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_quant *m = &t->cmd->u.quant;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->quant((int8_t *)at(t, 1) + r * m->ldq, f32_at(t, 2, r, 1, 0), f32_at(t, 0, r, m->ldx, 0),
			    m->cols);
}

static void run_quant16(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_quant *m = &t->cmd->u.quant;
	uint64_t r, plane = (uint64_t)m->rows * m->ldq;
	float *scale, *x;
	int8_t *q;

	for (r = t->row; r < t->row + t->rows; r++) {
		q = (int8_t *)at(t, 1) + r * m->ldq;
		scale = f32_at(t, 2, r, 1, 0);
		x = f32_at(t, 0, r, m->ldx, 0);
		t->k->quant(q, scale, x, m->cols);
		t->k->rest(t->scratch, x, q, *scale, m->cols);
		t->k->quant(q + plane, scale + m->rows, t->scratch, m->cols);
	}
}

static void run_quant_outliers(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_quant_outliers *m = &t->cmd->u.quant_outliers;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->quant_outliers((int8_t *)at(t, 1) + r * m->ldq, f32_at(t, 2, r, 1, 0),
				     (struct vnpu_outliers *)at(t, 3) + r, f32_at(t, 0, r, m->ldx, 0), m->cols);
}

static uint64_t outliers_panel_bytes(const struct vnpu_cmd_add_outliers *m)
{
	return m->group ? VNPU_PANEL_W4_BYTES(m->k, m->group) : VNPU_PANEL_I8_BYTES(m->k);
}

static void run_add_outliers(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_add_outliers *m = &t->cmd->u.add_outliers;
	struct fw_add_outliers ao = {
		.x = f32_at(t, 0, t->row, m->ldx, t->col),
		.outliers = (struct vnpu_outliers *)at(t, 1) + t->row,
		.w = (uint8_t *)at(t, 2) + t->col / VNPU_PANEL_N * outliers_panel_bytes(m),
		.y = f32_at(t, 3, t->row, m->ldy, t->col),
		.m = t->rows,
		.n = t->cols,
		.k = m->k,
		.group = m->group,
		.ldx = m->ldx,
		.ldy = m->ldy,
	};

	t->k->add_outliers(&ao, t->scratch);
}

static void run_dequant(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_dequant *m = &t->cmd->u.dequant;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->dequant(f32_at(t, 2, r, m->ldy, t->col), (int8_t *)at(t, 0) + r * m->ldq + t->col,
			      *f32_at(t, 1, r, 1, 0), t->cols);
}

static void run_matmul(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_matmul_i8 *m = &t->cmd->u.matmul_i8;
	struct fw_matmul_i8 mm = {
		.a = (int8_t *)at(t, 0) + t->row * m->lda,
		.a_scale = f32_at(t, 1, t->row, 1, 0),
		.w = (uint8_t *)at(t, 2) + t->col / VNPU_PANEL_N * VNPU_PANEL_I8_BYTES(m->k),
		.bias = m->bias.slot == VNPU_SLOT_NONE ? NULL : f32_at(t, 3, 0, 0, t->col),
		.c = f32_at(t, 4, t->row, m->ldc, t->col),
		.m = t->rows,
		.n = t->cols,
		.k = m->k,
		.lda = m->lda,
		.ldc = m->ldc,
	};

	t->k->matmul_i8(&mm, t->scratch);
}

static void run_matmul_wk(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_matmul_wk *m = &t->cmd->u.matmul_wk;
	struct fw_wk_panel panels[FW_WK_PANELS];
	struct fw_matmul_i8 mm = {
		.a = (int8_t *)at(t, 0) + t->row * m->lda,
		.a_scale = f32_at(t, 1, t->row, 1, 0),
		.bias = m->bias.slot == VNPU_SLOT_NONE ? NULL : f32_at(t, 3, 0, 0, t->col),
		.c = f32_at(t, 4, t->row, m->ldc, t->col),
		.m = t->rows,
		.n = t->cols,
		.k = m->k,
		.lda = m->lda,
		.ldc = m->ldc,
		.wk = panels,
	};
	uint32_t i;

	for (i = 0; i < t->nr_panels; i++)
		panels[i] = (struct fw_wk_panel){ (uint8_t *)at(t, 2) + t->table[i].offset * 64ull, t->table[i].bits };
	t->k->matmul_i8(&mm, t->scratch);
}

static void run_matmul_w4(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_matmul_w4 *m = &t->cmd->u.matmul_w4;
	bool floats = m->hdr.op == VNPU_OP_MATMUL_W4F;
	struct fw_matmul_w4 mm = {
		.a = (uint8_t *)at(t, 0) + t->row * m->lda * (floats ? 4 : 1),
		.a_scale = floats ? NULL : f32_at(t, 1, t->row, 1, 0),
		.w = (uint8_t *)at(t, 2) + t->col / VNPU_PANEL_N * VNPU_PANEL_W4_BYTES(m->k, m->group),
		.bias = m->bias.slot == VNPU_SLOT_NONE ? NULL : f32_at(t, 3, 0, 0, t->col),
		.c = f32_at(t, 4, t->row, m->ldc, t->col),
		.m = t->rows,
		.n = t->cols,
		.k = m->k,
		.group = m->group,
		.lda = m->lda,
		.ldc = m->ldc,
	};

	(floats ? t->k->matmul_w4f : t->k->matmul_w4)(&mm, t->scratch);
}

/* A tile of ATTN is t->cols queries of KV head t->col, from query t->row on. */
static void run_attn(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_attn *m = &t->cmd->u.attn;
	uint64_t group = m->heads / m->kv_heads, head_bytes = VNPU_KV_BYTES(m->kv_type, m->head_dim);
	struct fw_attn a = {
		.q = f32_at(t, 0, 0, 0, t->col * group * m->head_dim),
		.y = f32_at(t, 3, 0, 0, t->col * group * m->head_dim),
		.ldq = m->ldq,
		.ldy = m->ldy,
		.group = group,
		.first = t->row,
		.nr_q = t->cols,
		.pos = t->cmd->pos,
		.k = (uint8_t *)at(t, 1) + t->col * head_bytes,
		.v = (uint8_t *)at(t, 2) + t->col * head_bytes,
		.k_row_bytes = VNPU_KV_BYTES(m->kv_type, m->ldk),
		.v_row_bytes = VNPU_KV_BYTES(m->kv_type, m->ldv),
		.kv_type = m->kv_type,
		.head_dim = m->head_dim,
		.scale = m->scale,
	};

	t->k->attn(&a, t->scratch);
}

static void run_store(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_store *m = &t->cmd->u.store;
	uint64_t row_bytes = VNPU_KV_BYTES(m->type, m->ld_dst), r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->store((uint8_t *)at(t, 1) + (t->cmd->pos + r) * row_bytes, f32_at(t, 0, r, m->ldx, 0), m->cols,
			    m->type);
}

/* All matmuls, of whose weights the tile reads @w_bytes at @w: their structures differ in what follows tile_n only
 * (check_matmul_w4()). A row of a has @a_bytes. */
static void touch_matmul(struct tile *t, uint64_t a_stride, uint64_t a_bytes, uint64_t w, uint64_t w_bytes)
{
	const struct vnpu_cmd_matmul_i8 *m = &t->cmd->u.matmul_i8;
	const uint64_t *va = t->cmd->va;

	touch(t, va[0] + t->row * a_stride, (t->rows - 1) * a_stride + a_bytes, false);
	if (m->a_scale.slot != VNPU_SLOT_NONE)
		touch(t, va[1] + t->row * 4, t->rows * 4, false);
	touch(t, va[2] + w, w_bytes, false);
	if (m->bias.slot != VNPU_SLOT_NONE)
		touch(t, va[3] + t->col * 4, t->cols * 4, false);
	touch_f32(t, va[4], m->ldc, true);
}

static void place_matmul(struct tile *t, uint64_t index)
{
	const struct vnpu_cmd_matmul_i8 *m = &t->cmd->u.matmul_i8;
	uint64_t down = (m->m + t->cmd->tile_rows - 1) / t->cmd->tile_rows;

	/* Rows vary first: tiles that are in work at the same time share weights. */
	t->row = index % down * t->cmd->tile_rows;
	t->col = index / down * t->cmd->tile_cols;
	t->rows = min_u64(t->cmd->tile_rows, m->m - t->row);
	t->cols = min_u64(t->cmd->tile_cols, m->n - t->col);
}

static void prepare_matmul(struct tile *t, uint64_t index, uint64_t a_stride, uint64_t a_bytes, uint64_t panel_bytes)
{
	place_matmul(t, index);
	touch_matmul(t, a_stride, a_bytes, t->col / VNPU_PANEL_N * panel_bytes,
		     (t->cols + VNPU_PANEL_N - 1) / VNPU_PANEL_N * panel_bytes);
}

static void copy_table(void *arg)
{
	struct tile *t = arg;

	memcpy(t->table, (struct vnpu_wk_panel *)at(t, 2) + t->col / VNPU_PANEL_N, t->nr_panels * sizeof(*t->table));
}

/* The table is in the client's memory: it is copied, once, and then checked. 0, the guard's error, or -EINVAL. */
static int prepare_matmul_wk(struct tile *t, const struct fw_exec_job *job, uint64_t index, struct fw_fault *fault)
{
	const struct vnpu_cmd_matmul_wk *m = &t->cmd->u.matmul_wk;
	uint64_t begin = m->w_bytes, end = 0, at, bytes;
	struct fw_access table;
	uint32_t i;
	int err;

	place_matmul(t, index);
	t->nr_panels = (t->cols + VNPU_PANEL_N - 1) / VNPU_PANEL_N;
	table = (struct fw_access){ t->cmd->va[2] + t->col / VNPU_PANEL_N * sizeof(*t->table),
				    t->nr_panels * sizeof(*t->table), false };
	err = job->ops->guard(job->port_priv, job->as, &table, 1, copy_table, t, fault);
	if (err)
		return err;
	for (i = 0; i < t->nr_panels; i++) {
		if (!t->table[i].bits || t->table[i].bits > 8)
			return -EINVAL;
		at = t->table[i].offset * 64ull;
		bytes = VNPU_PANEL_WK_BYTES(m->k, t->table[i].bits);
		if (at > m->w_bytes || bytes > m->w_bytes - at)
			return -EINVAL;
		begin = min_u64(begin, at);
		end = at + bytes > end ? at + bytes : end;
	}
	touch_matmul(t, m->lda, (m->k + 3) / 4 * 4, begin, end - begin);
	return 0;
}

static void prepare_attn(struct tile *t, uint64_t index)
{
	const struct vnpu_cmd_attn *m = &t->cmd->u.attn;
	uint64_t group = m->heads / m->kv_heads, queries = m->rows * group, per_tile = t->cmd->tile_rows;
	uint64_t tiles = (queries + per_tile - 1) / per_tile;
	uint64_t first, rows, keys, bytes = m->head_dim * 4ull, head_bytes = VNPU_KV_BYTES(m->kv_type, m->head_dim);
	const uint64_t *va = t->cmd->va;

	/* A head's last queries, which see most, come first: what ends a region then is short. */
	t->col = index / tiles;
	t->row = (tiles - 1 - index % tiles) * per_tile;
	t->cols = min_u64(per_tile, queries - t->row);
	first = t->row / group;
	rows = (t->row + t->cols - 1) / group - first + 1;
	keys = t->cmd->pos + first + rows;
	touch(t, va[0] + (first * m->ldq + t->col * group * m->head_dim) * 4,
	      (rows - 1) * m->ldq * 4ull + group * bytes, false);
	touch(t, va[1] + t->col * head_bytes, (keys - 1) * VNPU_KV_BYTES(m->kv_type, m->ldk) + head_bytes, false);
	touch(t, va[2] + t->col * head_bytes, (keys - 1) * VNPU_KV_BYTES(m->kv_type, m->ldv) + head_bytes, false);
	touch(t, va[3] + (first * m->ldy + t->col * group * m->head_dim) * 4,
	      (rows - 1) * m->ldy * 4ull + group * bytes, true);
}

static void prepare_store(struct tile *t, uint64_t index)
{
	const struct vnpu_cmd_store *m = &t->cmd->u.store;
	uint64_t row_bytes = VNPU_KV_BYTES(m->type, m->ld_dst);

	place(t, m->rows, m->cols, index);
	touch_f32(t, t->cmd->va[0], m->ldx, false);
	touch(t, t->cmd->va[1] + (t->cmd->pos + t->row) * row_bytes,
	      (t->rows - 1) * row_bytes + VNPU_KV_BYTES(m->type, m->cols), true);
}

static void prepare_copy(struct tile *t, uint64_t index)
{
	const struct vnpu_cmd_copy *m = &t->cmd->u.copy;

	place(t, m->rows, m->row_bytes, index);
	touch(t, t->cmd->va[0] + t->row * m->src_stride_bytes + t->col, (t->rows - 1) * m->src_stride_bytes + t->cols,
	      false);
	touch(t, t->cmd->va[1] + (t->cmd->pos + t->row) * m->dst_stride_bytes + t->col,
	      (t->rows - 1) * m->dst_stride_bytes + t->cols, true);
}

static void prepare_binary(struct tile *t, uint64_t index)
{
	const struct vnpu_cmd_binary *m = &t->cmd->u.add;

	place(t, m->rows, m->cols, index);
	touch_f32(t, t->cmd->va[0], m->lda, false);
	touch_f32(t, t->cmd->va[1], m->ldb, false);
	touch_f32(t, t->cmd->va[2], m->ldy, true);
}

static void prepare_glu(struct tile *t, uint64_t index)
{
	const struct vnpu_cmd_glu *m = &t->cmd->u.glu;

	place(t, m->rows, m->cols, index);
	touch_f32(t, t->cmd->va[0], m->lda, false);
	touch_f32(t, t->cmd->va[1], m->ldb, false);
	touch_f32(t, t->cmd->va[2], m->ldy, true);
}

static void prepare_quant(struct tile *t, uint64_t index, uint32_t planes)
{
	const struct vnpu_cmd_quant *m = &t->cmd->u.quant;
	uint64_t row, p;

	place(t, m->rows, m->cols, index);
	touch_f32(t, t->cmd->va[0], m->ldx, false);
	for (p = 0; p < planes; p++) {
		row = p * m->rows + t->row;
		touch(t, t->cmd->va[1] + row * m->ldq, (t->rows - 1) * m->ldq + (m->cols + 3) / 4 * 4, true);
		touch(t, t->cmd->va[2] + row * 4, t->rows * 4, true);
	}
}

static void prepare_quant_outliers(struct tile *t, uint64_t index)
{
	const struct vnpu_cmd_quant_outliers *m = &t->cmd->u.quant_outliers;
	const uint64_t *va = t->cmd->va;

	place(t, m->rows, m->cols, index);
	touch_f32(t, va[0], m->ldx, false);
	touch(t, va[1] + t->row * m->ldq, (t->rows - 1) * m->ldq + (m->cols + 3) / 4 * 4, true);
	touch(t, va[2] + t->row * 4, t->rows * 4, true);
	touch(t, va[3] + t->row * sizeof(struct vnpu_outliers), t->rows * sizeof(struct vnpu_outliers), true);
}

static void prepare_add_outliers(struct tile *t, uint64_t index)
{
	const struct vnpu_cmd_add_outliers *m = &t->cmd->u.add_outliers;
	uint64_t panel = outliers_panel_bytes(m);
	const uint64_t *va = t->cmd->va;

	place(t, m->m, m->n, index);
	touch_f32(t, va[0], m->ldx, false);
	touch(t, va[1] + t->row * sizeof(struct vnpu_outliers), t->rows * sizeof(struct vnpu_outliers), false);
	touch(t, va[2] + t->col / VNPU_PANEL_N * panel, (t->cols + VNPU_PANEL_N - 1) / VNPU_PANEL_N * panel, false);
	touch_f32(t, va[3], m->ldy, true);
}

static void prepare_dequant(struct tile *t, uint64_t index)
{
	const struct vnpu_cmd_dequant *m = &t->cmd->u.dequant;

	place(t, m->rows, m->cols, index);
	touch(t, t->cmd->va[0] + t->row * m->ldq + t->col, (t->rows - 1) * m->ldq + t->cols, false);
	touch(t, t->cmd->va[1] + t->row * 4, t->rows * 4, false);
	touch_f32(t, t->cmd->va[2], m->ldy, true);
}

/* x (and a vector of @vec_bytes) to y, both [rows][cols] f32. */
static void prepare_unary(struct tile *t, uint64_t index, uint64_t rows, uint64_t cols, uint64_t ldx, uint64_t ldy,
			  uint64_t vec_bytes)
{
	place(t, rows, cols, index);
	touch_f32(t, t->cmd->va[0], ldx, false);
	if (vec_bytes)
		touch(t, t->cmd->va[1], vec_bytes, false);
	touch_f32(t, t->cmd->va[vec_bytes ? 2 : 1], ldy, true);
}

typedef void (*tile_fn)(void *arg);

/* Fills in the tile and says what computes it. */
static tile_fn prepare(struct tile *t, uint64_t index)
{
	const struct vnpu_cmd_softmax *softmax = &t->cmd->u.softmax;
	const struct vnpu_cmd_matmul_w4 *w4 = &t->cmd->u.matmul_w4;
	const struct vnpu_cmd_matmul_i8 *i8 = &t->cmd->u.matmul_i8;
	const struct vnpu_cmd_rmsnorm *norm = &t->cmd->u.rmsnorm;
	const struct vnpu_cmd_rope *rope = &t->cmd->u.rope;
	const struct vnpu_cmd_act *act = &t->cmd->u.act;

	switch (t->cmd->u.hdr.op) {
	case VNPU_OP_COPY:
		prepare_copy(t, index);
		return run_copy;
	case VNPU_OP_ADD:
	case VNPU_OP_MUL:
		prepare_binary(t, index);
		return run_binary;
	case VNPU_OP_ACT:
		prepare_unary(t, index, act->rows, act->cols, act->ldx, act->ldy, 0);
		return run_act;
	case VNPU_OP_RMSNORM:
		prepare_unary(t, index, norm->rows, norm->cols, norm->ldx, norm->ldy, norm->cols * 4ull);
		return run_rmsnorm;
	case VNPU_OP_ROPE:
		prepare_unary(t, index, rope->rows, rope->heads * rope->head_dim, rope->ldx, rope->ldy,
			      rope->rot_dim * 2ull);
		return run_rope;
	case VNPU_OP_SOFTMAX:
		prepare_unary(t, index, softmax->rows, softmax->cols, softmax->ldx, softmax->ldy, 0);
		return run_softmax;
	case VNPU_OP_QUANT:
		prepare_quant(t, index, 1);
		return run_quant;
	case VNPU_OP_QUANT16:
		prepare_quant(t, index, 2);
		return run_quant16;
	case VNPU_OP_QUANT_OUTLIERS:
		prepare_quant_outliers(t, index);
		return run_quant_outliers;
	case VNPU_OP_ADD_OUTLIERS:
		prepare_add_outliers(t, index);
		return run_add_outliers;
	case VNPU_OP_DEQUANT:
		prepare_dequant(t, index);
		return run_dequant;
	case VNPU_OP_MATMUL_I8:
		prepare_matmul(t, index, i8->lda, (i8->k + 3) / 4 * 4, VNPU_PANEL_I8_BYTES(i8->k));
		return run_matmul;
	case VNPU_OP_MATMUL_W4:
		prepare_matmul(t, index, w4->lda, w4->k, VNPU_PANEL_W4_BYTES(w4->k, w4->group));
		return run_matmul_w4;
	case VNPU_OP_MATMUL_W4F:
		prepare_matmul(t, index, w4->lda * 4ull, w4->k * 4ull, VNPU_PANEL_W4_BYTES(w4->k, w4->group));
		return run_matmul_w4;
	case VNPU_OP_STORE:
		prepare_store(t, index);
		return run_store;
	case VNPU_OP_GLU:
		prepare_glu(t, index);
		return run_glu;
	default:
		prepare_attn(t, index);
		return run_attn;
	}
}

size_t fw_tile_weights(const struct fw_exec_job *job, const struct fw_cmd *cmd, uint64_t index, const uint8_t **weights)
{
	const struct vnpu_cmd_matmul_w4 *w4 = &cmd->u.matmul_w4;
	const struct vnpu_cmd_matmul_i8 *m = &cmd->u.matmul_i8;
	uint64_t down, before, panel_bytes;

	switch (cmd->u.hdr.op) {
	case VNPU_OP_MATMUL_I8:
		panel_bytes = VNPU_PANEL_I8_BYTES(m->k);
		break;
	case VNPU_OP_MATMUL_W4:
	case VNPU_OP_MATMUL_W4F:
		panel_bytes = VNPU_PANEL_W4_BYTES(w4->k, w4->group);
		break;
	default:
		return 0;
	}
	down = (m->m + cmd->tile_rows - 1) / cmd->tile_rows;
	before = index / down * cmd->tile_cols / VNPU_PANEL_N;
	*weights = job->as->base + cmd->va[2] + before * panel_bytes;
	return ((m->n + VNPU_PANEL_N - 1) / VNPU_PANEL_N - before) * panel_bytes;
}

int fw_tile_run(const struct fw_kernels *k, const struct fw_exec_job *job, const struct fw_cmd *cmd, uint64_t index,
		void *scratch, struct fw_fault *fault)
{
	struct tile t = { .k = k, .cmd = cmd, .base = job->as->base, .scratch = scratch };
	tile_fn fn = run_matmul_wk;
	int err;

	if (cmd->u.hdr.op == VNPU_OP_MATMUL_WK) {
		err = prepare_matmul_wk(&t, job, index, fault);
		if (err)
			return err;
	} else {
		fn = prepare(&t, index);
	}
	return job->ops->guard(job->port_priv, job->as, t.acc, t.nr_acc, fn, &t, fault);
}
