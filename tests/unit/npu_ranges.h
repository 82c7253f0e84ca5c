/* SPDX-License-Identifier: MIT */
/* What a command touches, and whether two commands may run at the same time. */
#ifndef NPU_RANGES_H
#define NPU_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include <npu/vnpu_isa.h>

#include "npu_graph.h"

struct range {
	uint32_t slot;
	uint64_t begin, end;
	bool write;
	const char *field;
};

#define MAX_RANGES 6

static unsigned int add_range(struct range *r, unsigned int n, const struct vnpu_ref *ref, uint64_t rows,
			      uint64_t stride, uint64_t row_bytes, bool write, const char *field)
{
	if (ref->slot == VNPU_SLOT_NONE)
		return n;
	r[n] = (struct range){ ref->slot, ref->offset, ref->offset + (rows - 1) * stride + row_bytes, write, field };
	return n + 1;
}

#define RD(ref, rows, stride, bytes) n = add_range(r, n, &c->ref, rows, stride, bytes, false, #ref)
#define WR(ref, rows, stride, bytes) n = add_range(r, n, &c->ref, rows, stride, bytes, true, #ref)

static unsigned int ranges_of(const struct vnpu_cmd *cmd, struct range r[MAX_RANGES])
{
	unsigned int n = 0;

	switch (cmd->op) {
	case VNPU_OP_COPY: {
		const struct vnpu_cmd_copy *c = (const void *)cmd;

		RD(src, c->rows, c->src_stride_bytes, c->row_bytes);
		/* Anywhere in the state. */
		n = add_range(r, n, &c->dst, 1, 0, 1u << 30, true, "dst");
		break;
	}
	case VNPU_OP_ADD:
	case VNPU_OP_MUL: {
		const struct vnpu_cmd_binary *c = (const void *)cmd;

		RD(a, c->rows, c->lda * 4ull, c->cols * 4ull);
		RD(b, c->ldb ? c->rows : 1, c->ldb * 4ull, c->cols * 4ull);
		WR(y, c->rows, c->ldy * 4ull, c->cols * 4ull);
		break;
	}
	case VNPU_OP_ACT: {
		const struct vnpu_cmd_act *c = (const void *)cmd;

		RD(x, c->rows, c->ldx * 4ull, c->cols * 4ull);
		WR(y, c->rows, c->ldy * 4ull, c->cols * 4ull);
		break;
	}
	case VNPU_OP_RMSNORM: {
		const struct vnpu_cmd_rmsnorm *c = (const void *)cmd;

		RD(x, c->rows, c->ldx * 4ull, c->cols * 4ull);
		RD(w, 1, 0, c->cols * 4ull);
		WR(y, c->rows, c->ldy * 4ull, c->cols * 4ull);
		break;
	}
	case VNPU_OP_ROPE: {
		const struct vnpu_cmd_rope *c = (const void *)cmd;

		RD(x, c->rows, c->ldx * 4ull, c->heads * c->head_dim * 4ull);
		RD(inv_freq, 1, 0, c->rot_dim * 2ull);
		WR(y, c->rows, c->ldy * 4ull, c->heads * c->head_dim * 4ull);
		break;
	}
	case VNPU_OP_SOFTMAX: {
		const struct vnpu_cmd_softmax *c = (const void *)cmd;

		RD(x, c->rows, c->ldx * 4ull, c->cols * 4ull);
		WR(y, c->rows, c->ldy * 4ull, c->cols * 4ull);
		break;
	}
	case VNPU_OP_QUANT:
	case VNPU_OP_QUANT16: {
		const struct vnpu_cmd_quant *c = (const void *)cmd;
		uint32_t planes = cmd->op == VNPU_OP_QUANT16 ? 2 : 1;

		RD(x, c->rows, c->ldx * 4ull, c->cols * 4ull);
		WR(q, planes * c->rows, c->ldq, c->ldq);
		WR(scale, 1, 0, planes * c->rows * 4ull);
		break;
	}
	case VNPU_OP_QUANT_OUTLIERS: {
		const struct vnpu_cmd_quant_outliers *c = (const void *)cmd;

		RD(x, c->rows, c->ldx * 4ull, c->cols * 4ull);
		WR(q, c->rows, c->ldq, c->ldq);
		WR(scale, 1, 0, c->rows * 4ull);
		WR(outliers, 1, 0, c->rows * sizeof(struct vnpu_outliers));
		break;
	}
	case VNPU_OP_ADD_OUTLIERS: {
		const struct vnpu_cmd_add_outliers *c = (const void *)cmd;

		RD(x, c->m, c->ldx * 4ull, c->n * 4ull);
		RD(outliers, 1, 0, c->m * sizeof(struct vnpu_outliers));
		RD(w, 1, 0, c->group ? npu_w4_bytes(c->n, c->k, c->group) : npu_w8_bytes(c->n, c->k));
		WR(y, c->m, c->ldy * 4ull, c->n * 4ull);
		break;
	}
	case VNPU_OP_DEQUANT: {
		const struct vnpu_cmd_dequant *c = (const void *)cmd;

		RD(q, c->rows, c->ldq, c->cols);
		RD(scale, 1, 0, c->rows * 4ull);
		WR(y, c->rows, c->ldy * 4ull, c->cols * 4ull);
		break;
	}
	case VNPU_OP_MATMUL_I8: {
		const struct vnpu_cmd_matmul_i8 *c = (const void *)cmd;

		RD(a, c->m, c->lda, c->lda);
		RD(a_scale, 1, 0, c->m * 4ull);
		RD(w, 1, 0, npu_w8_bytes(c->n, c->k));
		RD(bias, 1, 0, c->n * 4ull);
		WR(c, c->m, c->ldc * 4ull, c->n * 4ull);
		break;
	}
	case VNPU_OP_MATMUL_W4:
	case VNPU_OP_MATMUL_W4F: {
		const struct vnpu_cmd_matmul_w4 *c = (const void *)cmd;
		uint64_t elem = cmd->op == VNPU_OP_MATMUL_W4 ? 1 : 4;

		RD(a, c->m, c->lda * elem, c->k * elem);
		RD(a_scale, 1, 0, c->m * 4ull);
		RD(w, 1, 0, npu_w4_bytes(c->n, c->k, c->group));
		RD(bias, 1, 0, c->n * 4ull);
		WR(c, c->m, c->ldc * 4ull, c->n * 4ull);
		break;
	}
	case VNPU_OP_MATMUL_WK: {
		const struct vnpu_cmd_matmul_wk *c = (const void *)cmd;

		RD(a, c->m, c->lda, c->lda);
		RD(a_scale, 1, 0, c->m * 4ull);
		RD(w, 1, 0, c->w_bytes);
		RD(bias, 1, 0, c->n * 4ull);
		WR(c, c->m, c->ldc * 4ull, c->n * 4ull);
		break;
	}
	case VNPU_OP_ATTN: {
		const struct vnpu_cmd_attn *c = (const void *)cmd;

		RD(q, c->rows, c->ldq * 4ull, c->heads * c->head_dim * 4ull);
		RD(k, c->ctx_rows, c->ldk * 4ull, c->kv_heads * c->head_dim * 4ull);
		RD(v, c->ctx_rows, c->ldv * 4ull, c->kv_heads * c->head_dim * 4ull);
		WR(y, c->rows, c->ldy * 4ull, c->heads * c->head_dim * 4ull);
		break;
	}
	}
	return n;
}

static bool ranges_conflict(const struct range *a, const struct range *b)
{
	return a->slot == b->slot && a->begin < b->end && b->begin < a->end && (a->write || b->write);
}

static const char *cmds_conflict(const struct vnpu_cmd *a, const struct vnpu_cmd *b)
{
	struct range ra[MAX_RANGES], rb[MAX_RANGES];
	unsigned int na = ranges_of(a, ra), nb = ranges_of(b, rb);

	for (unsigned int i = 0; i < na; i++)
		for (unsigned int k = 0; k < nb; k++)
			if (ranges_conflict(&ra[i], &rb[k]))
				return ra[i].field;
	return NULL;
}

#endif /* NPU_RANGES_H */
