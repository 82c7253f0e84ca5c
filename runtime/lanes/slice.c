// SPDX-License-Identifier: MIT
/* The operands of slices: which columns of which matrices, and the rows of their results. */
#include "lane.h"

#include <npu/vnpu_isa.h>

static unsigned int op_matrices(const struct lane_memory *m, const struct lane_call *call,
				struct lane_columns c[LANE_MAX_MATRICES])
{
	const struct llm_model *model = &m->loaded->model;
	unsigned int n = 0;

	switch (call->work->op) {
	case LLM_OP_QKV:
		c[0] = (struct lane_columns){
			.matrix = LLM_ATTN_Q, .output = "q", .n = model->q_dim, .y = &m->q
		};
		c[1] = (struct lane_columns){
			.matrix = LLM_ATTN_K, .output = "k", .n = model->kv_dim, .y = &m->k
		};
		c[2] = (struct lane_columns){
			.matrix = LLM_ATTN_V, .output = "v", .n = model->kv_dim, .y = &m->v
		};
		return 3;
	case LLM_OP_GATE_UP:
		if (llm_model_gated(model))
			c[n++] = (struct lane_columns){ .matrix = LLM_FFN_GATE,
							.output = "gate",
							.n = model->n_ff,
							.y = &m->gate };
		c[n++] = (struct lane_columns){
			.matrix = LLM_FFN_UP, .output = "up", .n = model->n_ff, .y = &m->up
		};
		return n;
	case LLM_OP_ATTN_OUTPUT:
		c[0] = (struct lane_columns){
			.matrix = LLM_ATTN_OUTPUT, .output = "y", .n = model->n_embd, .y = &m->y
		};
		return 1;
	case LLM_OP_DOWN:
		c[0] = (struct lane_columns){
			.matrix = LLM_FFN_DOWN, .output = "y", .n = model->n_embd, .y = &m->y
		};
		return 1;
	default:
		c[0] = (struct lane_columns){ .matrix = -1,
					      .output = "logits",
					      .n = model->n_vocab };
		c[0].y = call->all ? &m->all : &m->logits;
		return 1;
	}
}

/* Rounds a cut at column @col of @n down to a panel's first column, or to the end. */
static unsigned int snap(uint64_t col, unsigned int n)
{
	return col >= n ? n : (unsigned int)(col / VNPU_PANEL_N * VNPU_PANEL_N);
}

void lane_slice_of(const struct lane_memory *m, const struct lane_call *call,
		   struct lane_slice *slice)
{
	const struct llm_model *model = &m->loaded->model;
	const struct lane_work *w = call->work;
	unsigned int row = call->chunk->row;
	bool reads_x = w->op != LLM_OP_HEAD && model->features->norms == LLM_NORMS_AFTER;
	uint64_t before = 0;

	*slice = (struct lane_slice){
		.op = w->op,
		.layer = w->layer,
		.rows = w->rows,
		.graph_rows = w->graph_rows,
		.k = w->op == LLM_OP_ATTN_OUTPUT ? model->q_dim
		     : w->op == LLM_OP_DOWN	 ? model->n_ff
						 : model->n_embd,
		.x = w->op == LLM_OP_ATTN_OUTPUT ? &m->att
		     : w->op == LLM_OP_DOWN	 ? &m->gate
		     : reads_x			 ? &m->x
						 : &m->xn,
		.x_row = row + w->row,
		.prompt = call->prompt,
		.empty = true,
	};
	slice->nr_matrices = op_matrices(m, call, slice->columns);
	for (unsigned int i = 0; i < slice->nr_matrices; i++) {
		struct lane_columns *c = &slice->columns[i];
		uint64_t end = w->col + w->cols;
		unsigned int last = end <= before ? 0 : snap(end - before, c->n);

		c->y_row = w->op == LLM_OP_HEAD ? w->row : row + w->row;
		c->first = w->col <= before ? 0 : snap(w->col - before, c->n);
		c->cols = last > c->first ? last - c->first : 0;
		slice->empty &= !c->cols;
		before += c->n;
	}
}
