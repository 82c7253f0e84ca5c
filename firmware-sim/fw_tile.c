// SPDX-License-Identifier: MIT
/*
 * From a command and the number of a tile to pointers and a kernel call. Each operator says which addresses the tile
 * touches (an operand counts from its first to its last byte) and how to compute it; the port's guard stands between.
 */
#include "fw_tile.h"

#include <string.h>

struct tile {
	const struct fw_kernels *k;
	const struct fw_cmd *cmd;
	uint8_t *base; /* of the address space */
	void *scratch;
	uint64_t row, rows, col, cols;
	struct fw_access acc[FW_MAX_OPERANDS];
	unsigned int nr_acc;
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
	const struct vnpu_cmd_binary *m = &t->cmd->u.binary;
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
	const struct vnpu_cmd_matmul_i8 *m = &t->cmd->u.matmul;
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

/* A tile of ATTN is nr_q consecutive queries of KV head t->col; query i is head i % group of row i / group. */
static void run_attn(void *arg)
{
	struct tile *t = arg;
	const struct vnpu_cmd_attn *m = &t->cmd->u.attn;
	uint64_t group = m->heads / m->kv_heads, row, head, i;
	struct fw_attn a = {
		.nr_q = t->cols,
		.k = f32_at(t, 1, 0, 0, t->col * m->head_dim),
		.v = f32_at(t, 2, 0, 0, t->col * m->head_dim),
		.ldk = m->ldk,
		.ldv = m->ldv,
		.head_dim = m->head_dim,
		.scale = m->scale,
	};

	for (i = 0; i < t->cols; i++) {
		row = (t->row + i) / group;
		head = t->col * group + (t->row + i) % group;
		a.q[i] = f32_at(t, 0, row, m->ldq, head * m->head_dim);
		a.y[i] = f32_at(t, 3, row, m->ldy, head * m->head_dim);
		a.nr_keys[i] = t->cmd->pos + row + 1;
	}
	t->k->attn(&a);
}

static void prepare_matmul(struct tile *t, uint64_t index)
{
	const struct vnpu_cmd_matmul_i8 *m = &t->cmd->u.matmul;
	const uint64_t *va = t->cmd->va;
	uint64_t panel = t->cmd->tile_cols / VNPU_PANEL_N, panel_bytes = VNPU_PANEL_I8_BYTES(m->k);
	uint64_t down = (m->m + t->cmd->tile_rows - 1) / t->cmd->tile_rows;

	/* Rows vary first: tiles that are in work at the same time share weights. */
	t->row = index % down * t->cmd->tile_rows;
	t->col = index / down * t->cmd->tile_cols;
	t->rows = min_u64(t->cmd->tile_rows, m->m - t->row);
	t->cols = min_u64(t->cmd->tile_cols, m->n - t->col);
	touch(t, va[0] + t->row * m->lda, (t->rows - 1) * m->lda + (m->k + 3) / 4 * 4, false);
	touch(t, va[1] + t->row * 4, t->rows * 4, false);
	touch(t, va[2] + index / down * panel * panel_bytes, (t->cols + VNPU_PANEL_N - 1) / VNPU_PANEL_N * panel_bytes,
	      false);
	if (m->bias.slot != VNPU_SLOT_NONE)
		touch(t, va[3] + t->col * 4, t->cols * 4, false);
	touch_f32(t, va[4], m->ldc, true);
}

static void prepare_attn(struct tile *t, uint64_t index)
{
	const struct vnpu_cmd_attn *m = &t->cmd->u.attn;
	uint64_t group = m->heads / m->kv_heads, queries = m->rows * group;
	uint64_t tiles = (queries + FW_ATTN_QUERIES - 1) / FW_ATTN_QUERIES;
	uint64_t first, rows, keys, bytes = m->head_dim * 4ull;
	const uint64_t *va = t->cmd->va;

	t->col = index / tiles;
	t->row = index % tiles * FW_ATTN_QUERIES;
	t->cols = min_u64(FW_ATTN_QUERIES, queries - t->row);
	first = t->row / group;
	rows = (t->row + t->cols - 1) / group - first + 1;
	keys = t->cmd->pos + first + rows;
	touch(t, va[0] + (first * m->ldq + t->col * group * m->head_dim) * 4,
	      (rows - 1) * m->ldq * 4ull + group * bytes, false);
	touch(t, va[1] + t->col * bytes, (keys - 1) * m->ldk * 4 + bytes, false);
	touch(t, va[2] + t->col * bytes, (keys - 1) * m->ldv * 4 + bytes, false);
	touch(t, va[3] + (first * m->ldy + t->col * group * m->head_dim) * 4,
	      (rows - 1) * m->ldy * 4ull + group * bytes, true);
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
	const struct vnpu_cmd_binary *m = &t->cmd->u.binary;

	place(t, m->rows, m->cols, index);
	touch_f32(t, t->cmd->va[0], m->lda, false);
	touch_f32(t, t->cmd->va[1], m->ldb, false);
	touch_f32(t, t->cmd->va[2], m->ldy, true);
}

static void prepare_quant(struct tile *t, uint64_t index)
{
	const struct vnpu_cmd_quant *m = &t->cmd->u.quant;

	place(t, m->rows, m->cols, index);
	touch_f32(t, t->cmd->va[0], m->ldx, false);
	touch(t, t->cmd->va[1] + t->row * m->ldq, (t->rows - 1) * m->ldq + (m->cols + 3) / 4 * 4, true);
	touch(t, t->cmd->va[2] + t->row * 4, t->rows * 4, true);
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
		prepare_quant(t, index);
		return run_quant;
	case VNPU_OP_DEQUANT:
		prepare_dequant(t, index);
		return run_dequant;
	case VNPU_OP_MATMUL_I8:
		prepare_matmul(t, index);
		return run_matmul;
	default:
		prepare_attn(t, index);
		return run_attn;
	}
}

int fw_tile_run(const struct fw_kernels *k, const struct fw_exec_job *job, const struct fw_cmd *cmd, uint64_t index,
		void *scratch, struct fw_fault *fault)
{
	struct tile t = { .k = k, .cmd = cmd, .base = job->as->base, .scratch = scratch };
	tile_fn fn = prepare(&t, index);

	return job->ops->guard(job->port_priv, job->as, t.acc, t.nr_acc, fn, &t, fault);
}
