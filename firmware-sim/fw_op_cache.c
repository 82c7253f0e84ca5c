// SPDX-License-Identifier: MIT
/* Copies, and what writes the KV cache: COPY, STORE. */
#include "fw_op.h"

#include <string.h>

/* A stride larger than every address space; larger ones could only overflow. */
#define MAX_STRIDE_BYTES (1ull << 40)

/* ---- COPY ---- */

static int check_copy(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_copy *m = &c->u.copy;
	uint64_t src_bytes, dst_bytes;

	CHECK(fw_check_reserved(d, m->reserved));
	CHECK(fw_check_bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "row_bytes", m->row_bytes, 4ull * VNPU_MAX_DIM));
	if (m->src_stride_bytes > MAX_STRIDE_BYTES || m->dst_stride_bytes > MAX_STRIDE_BYTES)
		return fw_refuse(d, "stride exceeds every address space");
	if (m->src_stride_bytes < m->row_bytes || m->dst_stride_bytes < m->row_bytes)
		return fw_refuse(d, "stride is less than row_bytes");
	CHECK(fw_check_param(d, "dst_row", m->dst_row_param, VNPU_MAX_DIM, &c->pos));
	CHECK(fw_check_extent(d, 0, m->rows, m->src_stride_bytes, m->row_bytes, &src_bytes));
	CHECK(fw_check_extent(d, 1, c->pos + m->rows, m->dst_stride_bytes, m->row_bytes,
			      &dst_bytes));
	CHECK(fw_check_operand(d, c, 0, src_bytes, 1));
	CHECK(fw_check_operand(d, c, 1, dst_bytes, 1));
	fw_cut_rows(c, m->rows, m->row_bytes, true);
	*cost = (uint64_t)m->rows * m->row_bytes / 16;
	return 0;
}

static int prepare_copy(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_copy *m = &t->cmd->u.copy;

	tile_place(t, m->rows, m->row_bytes, index);
	tile_touch(t, 0, t->row * m->src_stride_bytes + t->col,
		   (t->rows - 1) * m->src_stride_bytes + t->cols);
	tile_touch(t, 1, (t->cmd->pos + t->row) * m->dst_stride_bytes + t->col,
		   (t->rows - 1) * m->dst_stride_bytes + t->cols);
	return 0;
}

static void run_copy(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_copy *m = &t->cmd->u.copy;
	const uint8_t *src = tile_at(t, 0);
	uint8_t *dst = tile_at(t, 1);
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		memmove(dst + (t->cmd->pos + r) * m->dst_stride_bytes + t->col,
			src + r * m->src_stride_bytes + t->col, t->cols);
}

static struct npu_cost time_copy(const struct soc_npu *npu, const struct fw_cmd *c)
{
	return npu_time_vector(npu, 0, 0, 2.0 * c->u.copy.rows * c->u.copy.row_bytes);
}

const struct fw_op fw_op_copy = {
	.check = check_copy,
	.prepare = prepare_copy,
	.run = run_copy,
	.time = time_copy,
};

/* ---- STORE ---- */

static int check_store(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_store *m = &c->u.store;

	if (m->type != VNPU_KV_F16 && m->type != VNPU_KV_Q8_0)
		return fw_refuse(d, "unknown type %u", m->type);
	CHECK(fw_check_shape(d, m->rows, m->cols));
	if (m->type == VNPU_KV_Q8_0 && m->cols % VNPU_Q8_0_VALUES)
		return fw_refuse(d, "cols %u is not a multiple of %u", m->cols, VNPU_Q8_0_VALUES);
	CHECK(fw_check_param(d, "row", m->row_param, VNPU_MAX_DIM, &c->pos));
	CHECK(fw_check_matrix(d, c, 0, m->rows, m->cols, m->ldx));
	CHECK(fw_check_cache(d, c, 1, c->pos + m->rows, m->cols, m->ld_dst, m->type));
	fw_cut_rows(c, m->rows, m->cols, false);
	*cost = (uint64_t)m->rows * m->cols / 2;
	return 0;
}

static int prepare_store(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_store *m = &t->cmd->u.store;
	uint64_t row_bytes = VNPU_KV_BYTES(m->type, m->ld_dst);

	tile_place(t, m->rows, m->cols, index);
	tile_touch_f32(t, 0, m->ldx);
	tile_touch(t, 1, (t->cmd->pos + t->row) * row_bytes,
		   (t->rows - 1) * row_bytes + VNPU_KV_BYTES(m->type, m->cols));
	return 0;
}

static void run_store(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_store *m = &t->cmd->u.store;
	uint64_t row_bytes = VNPU_KV_BYTES(m->type, m->ld_dst), r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->store((uint8_t *)tile_at(t, 1) + (t->cmd->pos + r) * row_bytes,
			    tile_f32(t, 0, r, m->ldx, 0), m->cols, m->type);
}

static struct npu_cost time_store(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_store *m = &c->u.store;
	double elements = (double)m->rows * m->cols;

	return fw_vector_time(npu, elements,
			      m->type == VNPU_KV_Q8_0 ? FLOAT_OPS_QUANT : FLOAT_OPS_COPY, elements,
			      elements * fw_kv_bits(m->type) / 8);
}

const struct fw_op fw_op_store = {
	.check = check_store,
	.prepare = prepare_store,
	.run = run_store,
	.time = time_store,
};
