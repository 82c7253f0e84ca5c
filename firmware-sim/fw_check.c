// SPDX-License-Identifier: MIT
/*
 * Validation of commands. Nothing is trusted: each number is bounded before it takes part in arithmetic, and what cannot be
 * bounded is multiplied with overflow checks.
 */
#include "fw_check.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "kernels.h"

/* Elements that a tile of a simple operator takes: some 10 us of work. */
#define TILE_ELEMS 16384u
/* Multiply-accumulates that a tile may take, so that a cancelled job ends soon: some ms. */
#define TILE_MACS (5ull << 27)
/* What a tile of ADD_OUTLIERS takes. */
#define OUTLIERS_TILE_ROWS 128u
#define OUTLIERS_TILE_PANELS 4u
#define OUTLIERS_FLOATS (sizeof(struct vnpu_outliers) / sizeof(float))
/* A distance between rows that exceeds every address space; larger ones only serve to overflow. */
#define MAX_STRIDE_BYTES (1ull << 40)

int fw_refuse(struct decoder *d, const char *fmt, ...)
{
	va_list ap;
	int n = 0;

	if (d->op)
		n = snprintf(d->why, d->why_bytes, "command %u (%s): ", d->index, d->op->name);
	if (n >= 0 && (size_t)n < d->why_bytes) {
		va_start(ap, fmt);
		vsnprintf(d->why + n, d->why_bytes - n, fmt, ap);
		va_end(ap);
	}
	return -EINVAL;
}

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

/* ---- operands ------------------------------------------------------------------------------------------------------ */

/* Extent of @rows rows of @row_bytes, @stride_bytes apart. */
static int extent(struct decoder *d, const char *name, uint64_t rows, uint64_t stride_bytes, uint64_t row_bytes,
		  uint64_t *bytes)
{
	if (__builtin_mul_overflow(rows - 1, stride_bytes, bytes) || __builtin_add_overflow(*bytes, row_bytes, bytes))
		return fw_refuse(d, "%s: %llu rows %llu bytes apart overflow", name, (unsigned long long)rows,
				 (unsigned long long)stride_bytes);
	return 0;
}

/* Address of an operand of @bytes bytes that is accessed as @flags (VNPU_SLOT_*) say. */
static int operand(struct decoder *d, const char *name, const struct vnpu_ref *ref, uint64_t bytes, unsigned int align,
		   uint32_t flags, uint64_t *va)
{
	const struct vnpu_slot *slot;

	if (ref->reserved)
		return fw_refuse(d, "%s: reserved field is not 0", name);
	if (ref->slot >= d->nr_slots)
		return fw_refuse(d, "%s: slot %u of %u", name, ref->slot, d->nr_slots);
	slot = &d->slots[ref->slot];
	if ((slot->flags & flags) != flags)
		return fw_refuse(d, "%s: slot %u does not allow to %s", name, ref->slot,
				 flags & ~slot->flags & VNPU_SLOT_WRITE ? "write" : "read");
	if (ref->offset > slot->size_bytes || bytes > slot->size_bytes - ref->offset)
		return fw_refuse(d, "%s: %llu bytes at %llu exceed the %llu of slot %u", name,
				 (unsigned long long)bytes, (unsigned long long)ref->offset,
				 (unsigned long long)slot->size_bytes, ref->slot);
	if (ref->offset % align)
		return fw_refuse(d, "%s: offset %llu is not a multiple of %u", name, (unsigned long long)ref->offset,
				 align);
	*va = slot->va + ref->offset;
	return 0;
}

/* A matrix of @elem_bytes elements; @cols <= @ld was not checked yet. */
static int matrix(struct decoder *d, const char *name, const struct vnpu_ref *ref, uint64_t rows, uint64_t cols,
		  uint32_t ld, unsigned int elem_bytes, uint32_t flags, uint64_t *va)
{
	uint64_t bytes;
	int err;

	if (ld < cols)
		return fw_refuse(d, "%s: rows %u elements apart, but %llu long", name, ld, (unsigned long long)cols);
	err = extent(d, name, rows, (uint64_t)ld * elem_bytes, cols * elem_bytes, &bytes);
	return err ? err : operand(d, name, ref, bytes, elem_bytes, flags, va);
}

static int vector(struct decoder *d, const char *name, const struct vnpu_ref *ref, uint64_t n, uint32_t flags,
		  uint64_t *va)
{
	return operand(d, name, ref, n * 4, 4, flags, va);
}

static int bounded(struct decoder *d, const char *name, uint64_t value, uint64_t max)
{
	if (!value || value > max)
		return fw_refuse(d, "%s is %llu, not 1..%llu", name, (unsigned long long)value,
				 (unsigned long long)max);
	return 0;
}

static int reserved(struct decoder *d, uint32_t value)
{
	return value ? fw_refuse(d, "reserved field is not 0") : 0;
}

static int param(struct decoder *d, const char *name, uint32_t index, uint64_t max, uint64_t *value)
{
	*value = 0;
	if (index == VNPU_PARAM_NONE)
		return 0;
	if (index >= d->nr_params)
		return fw_refuse(d, "%s: param %u of %u", name, index, d->nr_params);
	if (d->params[index] > max)
		return fw_refuse(d, "%s: param %u is %llu, more than %llu", name, index,
				 (unsigned long long)d->params[index], (unsigned long long)max);
	*value = d->params[index];
	return 0;
}

static int is_finite(struct decoder *d, const char *name, float value)
{
	return isfinite(value) ? 0 : fw_refuse(d, "%s is not finite", name);
}

#define R VNPU_SLOT_READ
#define W VNPU_SLOT_WRITE
/* First refusal wins: each check runs only if all before it passed. */
#define CHECK(call)                       \
	do {                              \
		int check_err = (call);   \
		if (check_err)            \
			return check_err; \
	} while (0)

/* Tiles of whole rows; of parts of a row where @split allows and rows are long. */
static void tile_rows(struct fw_cmd *c, uint32_t rows, uint64_t cols, bool split)
{
	c->tile_cols = split && cols > TILE_ELEMS ? TILE_ELEMS : cols;
	c->tile_rows = c->tile_cols >= TILE_ELEMS ? 1 : TILE_ELEMS / c->tile_cols;
	c->nr_tiles = div_up(rows, c->tile_rows) * div_up(cols, c->tile_cols);
}

/* ---- commands ------------------------------------------------------------------------------------------------------ */

static int check_copy(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_copy *m = &c->u.copy;
	uint64_t src_bytes, dst_bytes;

	CHECK(reserved(d, m->reserved));
	CHECK(bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(bounded(d, "row_bytes", m->row_bytes, 4ull * VNPU_MAX_DIM));
	if (m->src_stride_bytes > MAX_STRIDE_BYTES || m->dst_stride_bytes > MAX_STRIDE_BYTES)
		return fw_refuse(d, "stride exceeds every address space");
	if (m->src_stride_bytes < m->row_bytes || m->dst_stride_bytes < m->row_bytes)
		return fw_refuse(d, "stride is less than row_bytes");
	CHECK(param(d, "dst_row", m->dst_row_param, VNPU_MAX_DIM, &c->pos));
	CHECK(extent(d, "src", m->rows, m->src_stride_bytes, m->row_bytes, &src_bytes));
	CHECK(extent(d, "dst", c->pos + m->rows, m->dst_stride_bytes, m->row_bytes, &dst_bytes));
	CHECK(operand(d, "src", &m->src, src_bytes, 1, R, &c->va[0]));
	CHECK(operand(d, "dst", &m->dst, dst_bytes, 1, W, &c->va[1]));
	tile_rows(c, m->rows, m->row_bytes, true);
	*cost = (uint64_t)m->rows * m->row_bytes / 16;
	return 0;
}

static int check_binary(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_binary *m = &c->u.add;

	CHECK(reserved(d, m->reserved));
	CHECK(bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(bounded(d, "cols", m->cols, VNPU_MAX_DIM));
	CHECK(matrix(d, "a", &m->a, m->rows, m->cols, m->lda, 4, R, &c->va[0]));
	CHECK(matrix(d, "b", &m->b, m->ldb ? m->rows : 1, m->cols, m->ldb ? m->ldb : m->cols, 4, R, &c->va[1]));
	CHECK(matrix(d, "y", &m->y, m->rows, m->cols, m->ldy, 4, W, &c->va[2]));
	tile_rows(c, m->rows, m->cols, true);
	*cost = (uint64_t)m->rows * m->cols / 4;
	return 0;
}

static int check_act(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_act *m = &c->u.act;

	CHECK(reserved(d, m->reserved));
	if (m->kind != VNPU_ACT_SILU && m->kind != VNPU_ACT_GELU)
		return fw_refuse(d, "unknown kind %u", m->kind);
	CHECK(bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(bounded(d, "cols", m->cols, VNPU_MAX_DIM));
	CHECK(matrix(d, "x", &m->x, m->rows, m->cols, m->ldx, 4, R, &c->va[0]));
	CHECK(matrix(d, "y", &m->y, m->rows, m->cols, m->ldy, 4, W, &c->va[1]));
	tile_rows(c, m->rows, m->cols, true);
	*cost = (uint64_t)m->rows * m->cols * 2;
	return 0;
}

static int check_glu(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_glu *m = &c->u.glu;

	if (m->kind != VNPU_ACT_SILU && m->kind != VNPU_ACT_GELU)
		return fw_refuse(d, "unknown kind %u", m->kind);
	CHECK(bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(bounded(d, "cols", m->cols, VNPU_MAX_DIM));
	CHECK(matrix(d, "a", &m->a, m->rows, m->cols, m->lda, 4, R, &c->va[0]));
	CHECK(matrix(d, "b", &m->b, m->rows, m->cols, m->ldb, 4, R, &c->va[1]));
	CHECK(matrix(d, "y", &m->y, m->rows, m->cols, m->ldy, 4, W, &c->va[2]));
	tile_rows(c, m->rows, m->cols, true);
	*cost = (uint64_t)m->rows * m->cols * 2;
	return 0;
}

static int check_rmsnorm(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_rmsnorm *m = &c->u.rmsnorm;

	CHECK(reserved(d, m->reserved));
	CHECK(bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(bounded(d, "cols", m->cols, VNPU_MAX_DIM));
	CHECK(is_finite(d, "eps", m->eps));
	if (m->eps < 0)
		return fw_refuse(d, "eps is negative");
	CHECK(matrix(d, "x", &m->x, m->rows, m->cols, m->ldx, 4, R, &c->va[0]));
	CHECK(vector(d, "w", &m->w, m->cols, R, &c->va[1]));
	CHECK(matrix(d, "y", &m->y, m->rows, m->cols, m->ldy, 4, W, &c->va[2]));
	tile_rows(c, m->rows, m->cols, false);
	*cost = (uint64_t)m->rows * m->cols / 2;
	return 0;
}

static int check_rope(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_rope *m = &c->u.rope;
	uint64_t cols;

	CHECK(bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(bounded(d, "heads", m->heads, VNPU_MAX_DIM));
	CHECK(bounded(d, "head_dim", m->head_dim, VNPU_MAX_HEAD_DIM));
	CHECK(bounded(d, "rot_dim", m->rot_dim, m->head_dim));
	if (m->rot_dim % 2)
		return fw_refuse(d, "rot_dim %u is odd", m->rot_dim);
	if (m->mode != VNPU_ROPE_ADJACENT && m->mode != VNPU_ROPE_HALVES)
		return fw_refuse(d, "unknown mode %u", m->mode);
	cols = (uint64_t)m->heads * m->head_dim;
	CHECK(bounded(d, "heads x head_dim", cols, VNPU_MAX_DIM));
	CHECK(param(d, "pos", m->pos_param, VNPU_MAX_DIM - m->rows, &c->pos));
	CHECK(matrix(d, "x", &m->x, m->rows, cols, m->ldx, 4, R, &c->va[0]));
	CHECK(vector(d, "inv_freq", &m->inv_freq, m->rot_dim / 2, R, &c->va[1]));
	CHECK(matrix(d, "y", &m->y, m->rows, cols, m->ldy, 4, W, &c->va[2]));
	tile_rows(c, m->rows, cols, false);
	*cost = m->rows * (cols + 32ull * m->rot_dim);
	return 0;
}

static int check_softmax(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_softmax *m = &c->u.softmax;

	CHECK(bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(bounded(d, "cols", m->cols, VNPU_MAX_DIM));
	CHECK(is_finite(d, "scale", m->scale));
	CHECK(param(d, "limit", m->limit_param, VNPU_MAX_DIM, &c->pos));
	CHECK(matrix(d, "x", &m->x, m->rows, m->cols, m->ldx, 4, R, &c->va[0]));
	CHECK(matrix(d, "y", &m->y, m->rows, m->cols, m->ldy, 4, W, &c->va[1]));
	tile_rows(c, m->rows, m->cols, false);
	*cost = (uint64_t)m->rows * m->cols * 2;
	return 0;
}

static int check_quant(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_quant *m = &c->u.quant;
	/* What the first plane leaves of a row waits in a worker's scratch. */
	uint32_t planes = m->hdr.op == VNPU_OP_QUANT16 ? 2 : 1, max_cols = planes > 1 ? VNPU_MAX_K_I8 : VNPU_MAX_DIM;

	_Static_assert(VNPU_MAX_K_I8 * sizeof(float) <= FW_SCRATCH_BYTES, "QUANT16: a row fits the scratch");
	CHECK(bounded(d, "rows", m->rows, VNPU_MAX_DIM / planes));
	CHECK(bounded(d, "cols", m->cols, max_cols));
	CHECK(matrix(d, "x", &m->x, m->rows, m->cols, m->ldx, 4, R, &c->va[0]));
	CHECK(matrix(d, "q", &m->q, m->rows * planes, (m->cols + 3) / 4 * 4, m->ldq, 1, W, &c->va[1]));
	CHECK(vector(d, "scale", &m->scale, m->rows * planes, W, &c->va[2]));
	tile_rows(c, m->rows, m->cols, false);
	*cost = (uint64_t)m->rows * m->cols * planes;
	return 0;
}

static int check_quant_outliers(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_quant_outliers *m = &c->u.quant_outliers;

	CHECK(bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(bounded(d, "cols", m->cols, VNPU_MAX_K_I8));
	CHECK(matrix(d, "x", &m->x, m->rows, m->cols, m->ldx, 4, R, &c->va[0]));
	CHECK(matrix(d, "q", &m->q, m->rows, (m->cols + 3) / 4 * 4, m->ldq, 1, W, &c->va[1]));
	CHECK(vector(d, "scale", &m->scale, m->rows, W, &c->va[2]));
	CHECK(vector(d, "outliers", &m->outliers, m->rows * OUTLIERS_FLOATS, W, &c->va[3]));
	tile_rows(c, m->rows, m->cols, false);
	*cost = (uint64_t)m->rows * m->cols;
	return 0;
}

static int check_dequant(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_dequant *m = &c->u.dequant;

	CHECK(bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(bounded(d, "cols", m->cols, VNPU_MAX_DIM));
	CHECK(matrix(d, "q", &m->q, m->rows, m->cols, m->ldq, 1, R, &c->va[0]));
	CHECK(vector(d, "scale", &m->scale, m->rows, R, &c->va[1]));
	CHECK(matrix(d, "y", &m->y, m->rows, m->cols, m->ldy, 4, W, &c->va[2]));
	tile_rows(c, m->rows, m->cols, true);
	*cost = (uint64_t)m->rows * m->cols / 2;
	return 0;
}

/* All but what depends on the type of the weights, of which there are @w_bytes. A tile has @max_n channels at most. */
static int check_matmul(struct decoder *d, struct fw_cmd *c, uint64_t w_bytes, uint32_t max_n, uint64_t *cost)
{
	const struct vnpu_cmd_matmul_i8 *m = &c->u.matmul_i8;
	uint64_t panels, tile_m, tile_n, cycles;

	CHECK(bounded(d, "m", m->m, VNPU_MAX_DIM));
	CHECK(bounded(d, "n", m->n, VNPU_MAX_DIM));
	CHECK(bounded(d, "k", m->k, VNPU_MAX_K_I8));
	CHECK(bounded(d, "tile_m", m->tile_m, VNPU_MAX_DIM));
	CHECK(bounded(d, "tile_n", m->tile_n, VNPU_MAX_DIM));
	if (m->tile_n % VNPU_PANEL_N)
		return fw_refuse(d, "tile_n %u is not a multiple of %u", m->tile_n, VNPU_PANEL_N);
	panels = div_up(m->n, VNPU_PANEL_N);
	CHECK(operand(d, "w", &m->w, w_bytes, 64, R, &c->va[2]));
	if (m->bias.slot != VNPU_SLOT_NONE)
		CHECK(vector(d, "bias", &m->bias, m->n, R, &c->va[3]));
	else if (m->bias.reserved || m->bias.offset)
		return fw_refuse(d, "bias: absent, but not all 0");
	CHECK(matrix(d, "c", &m->c, m->m, m->n, m->ldc, 4, W, &c->va[4]));

	tile_n = m->tile_n < panels * VNPU_PANEL_N ? m->tile_n : panels * VNPU_PANEL_N;
	if (tile_n > max_n)
		tile_n = max_n;
	if (tile_n > TILE_MACS / m->k)
		tile_n = TILE_MACS / m->k / VNPU_PANEL_N * VNPU_PANEL_N;
	tile_m = m->tile_m < m->m ? m->tile_m : m->m;
	if (tile_m > TILE_MACS / m->k / tile_n)
		tile_m = TILE_MACS / m->k / tile_n;
	c->tile_cols = tile_n;
	c->tile_rows = tile_m ? tile_m : 1;
	c->nr_tiles = div_up(m->m, c->tile_rows) * div_up(m->n, c->tile_cols);
	/* m, n < 2^24 and k <= 2^16 fill 64 bits: divide first. */
	/* Cycles of a panel: of multiplying, or of reading it from memory, which takes longer for few rows. */
	cycles = (uint64_t)m->m * div_up(m->k, 2);
	if (cycles < w_bytes / panels / 6)
		cycles = w_bytes / panels / 6;
	*cost = cycles * panels;
	return 0;
}

/* A cache of @rows rows of @cols values. */
static int cache(struct decoder *d, const char *name, const struct vnpu_ref *ref, uint64_t rows, uint64_t cols,
		 uint32_t ld, uint32_t type, uint32_t flags, uint64_t *va)
{
	uint64_t bytes;

	if (ld < cols)
		return fw_refuse(d, "%s: rows %u values apart, but %llu long", name, ld, (unsigned long long)cols);
	if (type == VNPU_KV_Q8_0 && ld % VNPU_Q8_0_VALUES)
		return fw_refuse(d, "%s: rows %u values apart, no multiple of %u", name, ld, VNPU_Q8_0_VALUES);
	CHECK(extent(d, name, rows, VNPU_KV_BYTES(type, ld), VNPU_KV_BYTES(type, cols), &bytes));
	return operand(d, name, ref, bytes, type == VNPU_KV_F32 ? 4 : 2, flags, va);
}

/* Tiles with more rows than the engine takes at a time get fewer, in its steps, and more channels instead: rows are brought into
 * its form less often then, and weights are not read more often. */
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

static int check_matmul_i8(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_matmul_i8 *m = &c->u.matmul_i8;

	CHECK(reserved(d, m->reserved));
	CHECK(check_matmul(d, c, div_up(m->n, VNPU_PANEL_N) * VNPU_PANEL_I8_BYTES(m->k), VNPU_MAX_DIM, cost));
	widen_tiles(c, d->prog->i8_rows, d->prog->i8_step);
	CHECK(matrix(d, "a", &m->a, m->m, (m->k + 3) / 4 * 4, m->lda, 1, R, &c->va[0]));
	return vector(d, "a_scale", &m->a_scale, m->m, R, &c->va[1]);
}

static int check_group(struct decoder *d, uint32_t group, uint32_t k)
{
	if (group != 32 && group != 64 && group != 128)
		return fw_refuse(d, "group is %u, not 32, 64 or 128", group);
	return k % group ? fw_refuse(d, "k %u is not a multiple of the group, %u", k, group) : 0;
}

static int check_matmul_w4(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_matmul_w4 *m = &c->u.matmul_w4;
	bool floats = m->hdr.op == VNPU_OP_MATMUL_W4F;

	_Static_assert(offsetof(struct vnpu_cmd_matmul_w4, tile_n) == offsetof(struct vnpu_cmd_matmul_i8, tile_n),
		       "check_matmul() sees the one as the other");
	CHECK(check_group(d, m->group, m->k));
	CHECK(check_matmul(d, c, div_up(m->n, VNPU_PANEL_N) * VNPU_PANEL_W4_BYTES(m->k, m->group), VNPU_MAX_DIM, cost));
	CHECK(matrix(d, "a", &m->a, m->m, m->k, m->lda, floats ? 4 : 1, R, &c->va[0]));
	if (!floats)
		return vector(d, "a_scale", &m->a_scale, m->m, R, &c->va[1]);
	if (m->a_scale.slot != VNPU_SLOT_NONE || m->a_scale.reserved || m->a_scale.offset)
		return fw_refuse(d, "a_scale: rows of floats have none");
	return 0;
}

/* The table is the client's until the tile that it is for is run (fw_tile.c): here only its place is known. */
static int check_matmul_wk(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_matmul_wk *m = &c->u.matmul_wk;
	uint64_t least, most;

	_Static_assert(offsetof(struct vnpu_cmd_matmul_wk, tile_n) == offsetof(struct vnpu_cmd_matmul_i8, tile_n),
		       "check_matmul() sees the one as the other");
	CHECK(reserved(d, m->reserved));
	CHECK(bounded(d, "n", m->n, VNPU_MAX_DIM));
	CHECK(bounded(d, "k", m->k, VNPU_MAX_K_I8));
	least = VNPU_WK_TABLE_BYTES(m->n) + div_up(m->n, VNPU_PANEL_N) * VNPU_PANEL_WK_BYTES(m->k, 1);
	most = VNPU_WK_TABLE_BYTES(m->n) + div_up(m->n, VNPU_PANEL_N) * VNPU_PANEL_WK_BYTES(m->k, 8);
	if (m->w_bytes < least || m->w_bytes > most || m->w_bytes % 64)
		return fw_refuse(d, "w_bytes is %llu, not %llu..%llu in steps of 64", (unsigned long long)m->w_bytes,
				 (unsigned long long)least, (unsigned long long)most);
	CHECK(check_matmul(d, c, m->w_bytes, FW_WK_PANELS * VNPU_PANEL_N, cost));
	CHECK(matrix(d, "a", &m->a, m->m, (m->k + 3) / 4 * 4, m->lda, 1, R, &c->va[0]));
	return vector(d, "a_scale", &m->a_scale, m->m, R, &c->va[1]);
}

/* Tiles as of a matmul, of panels for which rows share what they read. */
static int check_add_outliers(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_add_outliers *m = &c->u.add_outliers;
	uint64_t panels;

	CHECK(bounded(d, "m", m->m, VNPU_MAX_DIM));
	CHECK(bounded(d, "n", m->n, VNPU_MAX_DIM));
	CHECK(bounded(d, "k", m->k, VNPU_MAX_K_I8));
	if (m->group)
		CHECK(check_group(d, m->group, m->k));
	panels = div_up(m->n, VNPU_PANEL_N);
	CHECK(matrix(d, "x", &m->x, m->m, m->n, m->ldx, 4, R, &c->va[0]));
	CHECK(vector(d, "outliers", &m->outliers, m->m * OUTLIERS_FLOATS, R, &c->va[1]));
	CHECK(operand(d, "w", &m->w,
		      panels * (m->group ? VNPU_PANEL_W4_BYTES(m->k, m->group) : VNPU_PANEL_I8_BYTES(m->k)), 64, R,
		      &c->va[2]));
	CHECK(matrix(d, "y", &m->y, m->m, m->n, m->ldy, 4, W, &c->va[3]));
	c->tile_rows = m->m < OUTLIERS_TILE_ROWS ? m->m : OUTLIERS_TILE_ROWS;
	c->tile_cols = OUTLIERS_TILE_PANELS * VNPU_PANEL_N;
	c->nr_tiles = div_up(m->m, c->tile_rows) * div_up(m->n, c->tile_cols);
	*cost = (uint64_t)m->m * panels * VNPU_PANEL_N;
	return 0;
}

static int check_attn(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_attn *m = &c->u.attn;
	uint64_t q_cols, kv_cols, fit;

	if (m->kv_type > VNPU_KV_Q8_0)
		return fw_refuse(d, "unknown kv_type %u", m->kv_type);
	CHECK(bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(bounded(d, "heads", m->heads, VNPU_MAX_DIM));
	CHECK(bounded(d, "kv_heads", m->kv_heads, m->heads));
	CHECK(bounded(d, "head_dim", m->head_dim, VNPU_MAX_HEAD_DIM));
	CHECK(bounded(d, "ctx_rows", m->ctx_rows, VNPU_MAX_DIM));
	if (m->heads % m->kv_heads)
		return fw_refuse(d, "%u heads are no multiple of %u kv_heads", m->heads, m->kv_heads);
	if (m->kv_type == VNPU_KV_Q8_0 && m->head_dim % VNPU_Q8_0_VALUES)
		return fw_refuse(d, "head_dim %u is no multiple of %u", m->head_dim, VNPU_Q8_0_VALUES);
	q_cols = (uint64_t)m->heads * m->head_dim;
	kv_cols = (uint64_t)m->kv_heads * m->head_dim;
	CHECK(bounded(d, "heads x head_dim", q_cols, VNPU_MAX_DIM));
	CHECK(is_finite(d, "scale", m->scale));
	CHECK(param(d, "pos", m->pos_param, VNPU_MAX_DIM, &c->pos));
	if (c->pos + m->rows > m->ctx_rows)
		return fw_refuse(d, "rows %llu..%llu of a cache of %u", (unsigned long long)c->pos,
				 (unsigned long long)c->pos + m->rows - 1, m->ctx_rows);
	CHECK(matrix(d, "q", &m->q, m->rows, q_cols, m->ldq, 4, R, &c->va[0]));
	CHECK(cache(d, "k", &m->k, m->ctx_rows, kv_cols, m->ldk, m->kv_type, R, &c->va[1]));
	CHECK(cache(d, "v", &m->v, m->ctx_rows, kv_cols, m->ldv, m->kv_type, R, &c->va[2]));
	CHECK(matrix(d, "y", &m->y, m->rows, q_cols, m->ldy, 4, W, &c->va[3]));
	fit = TILE_MACS / (2 * m->head_dim * (c->pos + m->rows));
	c->tile_rows = fw_attn_tile(m->head_dim, (uint64_t)m->rows * m->heads);
	if (c->tile_rows > fit)
		c->tile_rows = fit ? fit : 1;
	c->tile_cols = 1;
	c->nr_tiles = m->kv_heads * div_up((uint64_t)m->rows * (m->heads / m->kv_heads), c->tile_rows);
	/* Below 2^24 x 2^24 x 2^5; and each tile widens each block of 64 keys. */
	*cost = m->rows * q_cols / 8 * ((c->pos + m->rows) / 4 + 1) +
		c->nr_tiles * ((c->pos + m->rows) / 64 + 1) * m->head_dim * 512;
	return 0;
}

static int check_store(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_store *m = &c->u.store;

	if (m->type != VNPU_KV_F16 && m->type != VNPU_KV_Q8_0)
		return fw_refuse(d, "unknown type %u", m->type);
	CHECK(bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(bounded(d, "cols", m->cols, VNPU_MAX_DIM));
	if (m->type == VNPU_KV_Q8_0 && m->cols % VNPU_Q8_0_VALUES)
		return fw_refuse(d, "cols %u is no multiple of %u", m->cols, VNPU_Q8_0_VALUES);
	CHECK(param(d, "row", m->row_param, VNPU_MAX_DIM, &c->pos));
	CHECK(matrix(d, "x", &m->x, m->rows, m->cols, m->ldx, 4, R, &c->va[0]));
	CHECK(cache(d, "dst", &m->dst, c->pos + m->rows, m->cols, m->ld_dst, m->type, W, &c->va[1]));
	tile_rows(c, m->rows, m->cols, false);
	*cost = (uint64_t)m->rows * m->cols / 2;
	return 0;
}

#undef R
#undef W

int fw_check_cmd(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	switch (c->u.hdr.op) {
	case VNPU_OP_COPY:
		return check_copy(d, c, cost);
	case VNPU_OP_ADD:
	case VNPU_OP_MUL:
		return check_binary(d, c, cost);
	case VNPU_OP_ACT:
		return check_act(d, c, cost);
	case VNPU_OP_RMSNORM:
		return check_rmsnorm(d, c, cost);
	case VNPU_OP_ROPE:
		return check_rope(d, c, cost);
	case VNPU_OP_SOFTMAX:
		return check_softmax(d, c, cost);
	case VNPU_OP_QUANT:
	case VNPU_OP_QUANT16:
		return check_quant(d, c, cost);
	case VNPU_OP_QUANT_OUTLIERS:
		return check_quant_outliers(d, c, cost);
	case VNPU_OP_ADD_OUTLIERS:
		return check_add_outliers(d, c, cost);
	case VNPU_OP_DEQUANT:
		return check_dequant(d, c, cost);
	case VNPU_OP_MATMUL_I8:
		return check_matmul_i8(d, c, cost);
	case VNPU_OP_MATMUL_W4:
	case VNPU_OP_MATMUL_W4F:
		return check_matmul_w4(d, c, cost);
	case VNPU_OP_MATMUL_WK:
		return check_matmul_wk(d, c, cost);
	case VNPU_OP_STORE:
		return check_store(d, c, cost);
	case VNPU_OP_GLU:
		return check_glu(d, c, cost);
	default:
		return check_attn(d, c, cost);
	}
}
