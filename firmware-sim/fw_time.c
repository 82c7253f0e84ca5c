// SPDX-License-Identifier: MIT
#include "fw_time.h"

#define FLOAT_BYTES (FLOAT_BITS / 8.0)
#define SCALE_BYTES 4.0 /* of a quantised row */
#define OUTLIER_BYTES (VNPU_OUTLIERS * (FLOAT_BYTES + 2)) /* likewise, with columns of 16 bits */

/* Beyond this a double is no integer of 64 bits any more, signed ones included: those a CPU converts in one step. */
#define MAX_TIME 9e18

static uint64_t whole(double x)
{
	return x < MAX_TIME ? (uint64_t)(int64_t)x : (uint64_t)MAX_TIME;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* @ops operations on each of @elements; @floats and @bytes are read and written. */
static struct npu_cost vector(const struct profile_npu *npu, double elements, double ops, double floats, double bytes)
{
	return npu_time_vector(npu, elements, ops, floats * FLOAT_BYTES + bytes);
}

static struct npu_cost binary_cost(const struct profile_npu *npu, const struct vnpu_cmd_binary *m)
{
	double elements = (double)m->rows * m->cols;

	return vector(npu, elements, FLOAT_OPS_ADD, 2 * elements + (m->ldb ? elements : m->cols), 0);
}

static struct npu_cost act_cost(const struct profile_npu *npu, const struct vnpu_cmd_act *m)
{
	double elements = (double)m->rows * m->cols;

	return vector(npu, elements, m->kind == VNPU_ACT_GELU ? FLOAT_OPS_GELU : FLOAT_OPS_SILU, 2 * elements, 0);
}

static struct npu_cost glu_cost(const struct profile_npu *npu, const struct vnpu_cmd_glu *m)
{
	double elements = (double)m->rows * m->cols;
	double ops = m->kind == VNPU_ACT_GELU ? FLOAT_OPS_GELU : FLOAT_OPS_SILU;

	return vector(npu, elements, ops + FLOAT_OPS_ADD, 3 * elements, 0);
}

static struct npu_cost rmsnorm_cost(const struct profile_npu *npu, const struct vnpu_cmd_rmsnorm *m)
{
	double elements = (double)m->rows * m->cols;

	return vector(npu, elements, FLOAT_OPS_NORM, 2 * elements + m->cols, 0);
}

static struct npu_cost rope_cost(const struct profile_npu *npu, const struct vnpu_cmd_rope *m)
{
	double elements = (double)m->rows * m->heads * m->head_dim;

	return vector(npu, elements, FLOAT_OPS_ROPE, 2 * elements + m->rot_dim / 2.0, 0);
}

/* All columns, also those that a limit makes 0: a static graph's engine goes over them. */
static struct npu_cost softmax_cost(const struct profile_npu *npu, const struct vnpu_cmd_softmax *m)
{
	double elements = (double)m->rows * m->cols;

	return vector(npu, elements, FLOAT_OPS_SOFTMAX, 2 * elements, 0);
}

/* And of @planes that a row is in. */
static struct npu_cost quant_cost(const struct profile_npu *npu, uint32_t rows, uint32_t cols, double ops, int planes)
{
	double elements = (double)rows * cols;

	return vector(npu, elements, ops, elements, planes * (elements + rows * SCALE_BYTES));
}

/* As QUANT; and lists as long as they can be, since a static graph's engine takes all. */
static struct npu_cost quant_outliers_cost(const struct profile_npu *npu, const struct vnpu_cmd_quant_outliers *m)
{
	double elements = (double)m->rows * m->cols;

	return vector(npu, elements, FLOAT_OPS_QUANT_OUTLIERS, elements,
		      elements + m->rows * (SCALE_BYTES + OUTLIER_BYTES));
}

/* Of the weights the words that hold a row's columns are read, 4 numbers of 8 bits or 8 of 4; of many rows all are. */
static struct npu_cost add_outliers_cost(const struct profile_npu *npu, const struct vnpu_cmd_add_outliers *m)
{
	double elements = (double)m->m * m->n, words = (double)m->m * VNPU_OUTLIERS, all = m->k / (m->group ? 8.0 : 4.0);

	return vector(npu, elements, FLOAT_OPS_ADD_OUTLIERS, 2 * elements,
		      m->m * OUTLIER_BYTES + 4.0 * m->n * (words < all ? words : all));
}

static struct npu_cost matmul_cost(const struct profile_npu *npu, const struct vnpu_cmd_matmul_i8 *m)
{
	struct npu_time_matmul op = {
		.m = m->m,
		.k = m->k,
		.n = m->n,
		.type = NPU_TIME_I8,
		.order = NPU_TIME_WEIGHTS_STATIONARY,
		.weight_bits = 8,
	};

	return npu_time_matmul(npu, &op);
}

/* Bits of a cached value. F32 is how this host keeps floats; the modelled NPU's are F16. */
static double modelled_kv_bits(uint32_t type)
{
	double bits = VNPU_KV_BYTES(type, VNPU_Q8_0_VALUES) * 8.0 / VNPU_Q8_0_VALUES;

	return bits < FLOAT_BITS ? bits : FLOAT_BITS;
}

/* Scales of groups, an eighth of the numbers or less, are not counted, as a plan does not. */
static struct npu_cost matmul_w4_cost(const struct profile_npu *npu, const struct vnpu_cmd_matmul_w4 *m)
{
	struct npu_time_matmul op = {
		.m = m->m,
		.k = m->k,
		.n = m->n,
		.type = m->hdr.op == VNPU_OP_MATMUL_W4F ? NPU_TIME_F16 : NPU_TIME_I8,
		.order = NPU_TIME_WEIGHTS_STATIONARY,
		.weight_bits = 4,
	};

	return npu_time_matmul(npu, &op);
}

/* Widths are in memory, but how long the panels are together is their average. Sums and scales are not counted. */
static struct npu_cost matmul_wk_cost(const struct profile_npu *npu, const struct vnpu_cmd_matmul_wk *m)
{
	uint64_t panels = (m->n + VNPU_PANEL_N - 1ull) / VNPU_PANEL_N;
	uint64_t all = panels * (VNPU_PANEL_WK_BYTES(m->k, 1) - 512);
	struct npu_time_matmul op = {
		.m = m->m,
		.k = m->k,
		.n = m->n,
		.type = NPU_TIME_I8,
		.order = NPU_TIME_WEIGHTS_STATIONARY,
		.weight_bits = (double)(m->w_bytes - VNPU_WK_TABLE_BYTES(m->n) - panels * 512) / (double)all,
	};

	op.widened = op.weight_bits < 8;
	return npu_time_matmul(npu, &op);
}

static struct npu_cost attn_cost(const struct profile_npu *npu, const struct vnpu_cmd_attn *m, uint64_t pos)
{
	struct npu_time_attention op = {
		.rows = m->rows,
		.heads = m->heads,
		.head_dim = m->head_dim,
		.ctx = (double)pos + (m->rows + 1.0) / 2,
		.type = NPU_TIME_F16,
		.kv_bits = modelled_kv_bits(m->kv_type),
	};

	return npu_time_attention(npu, &op);
}

static struct npu_cost store_cost(const struct profile_npu *npu, const struct vnpu_cmd_store *m)
{
	double elements = (double)m->rows * m->cols;

	return vector(npu, elements, m->type == VNPU_KV_Q8_0 ? FLOAT_OPS_QUANT : FLOAT_OPS_COPY, elements,
		      elements * modelled_kv_bits(m->type) / 8);
}

static struct npu_cost cmd_cost(const struct profile_npu *npu, const struct fw_cmd *c)
{
	switch (c->u.hdr.op) {
	case VNPU_OP_COPY:
		return npu_time_vector(npu, 0, 0, 2.0 * c->u.copy.rows * c->u.copy.row_bytes);
	case VNPU_OP_ADD:
	case VNPU_OP_MUL:
		return binary_cost(npu, &c->u.add);
	case VNPU_OP_ACT:
		return act_cost(npu, &c->u.act);
	case VNPU_OP_RMSNORM:
		return rmsnorm_cost(npu, &c->u.rmsnorm);
	case VNPU_OP_ROPE:
		return rope_cost(npu, &c->u.rope);
	case VNPU_OP_SOFTMAX:
		return softmax_cost(npu, &c->u.softmax);
	case VNPU_OP_QUANT:
		return quant_cost(npu, c->u.quant.rows, c->u.quant.cols, FLOAT_OPS_QUANT, 1);
	case VNPU_OP_QUANT16:
		return quant_cost(npu, c->u.quant.rows, c->u.quant.cols, FLOAT_OPS_QUANT16, 2);
	case VNPU_OP_QUANT_OUTLIERS:
		return quant_outliers_cost(npu, &c->u.quant_outliers);
	case VNPU_OP_ADD_OUTLIERS:
		return add_outliers_cost(npu, &c->u.add_outliers);
	case VNPU_OP_DEQUANT:
		return quant_cost(npu, c->u.dequant.rows, c->u.dequant.cols, FLOAT_OPS_DEQUANT, 1);
	case VNPU_OP_MATMUL_I8:
		return matmul_cost(npu, &c->u.matmul_i8);
	case VNPU_OP_MATMUL_W4:
	case VNPU_OP_MATMUL_W4F:
		return matmul_w4_cost(npu, &c->u.matmul_w4);
	case VNPU_OP_MATMUL_WK:
		return matmul_wk_cost(npu, &c->u.matmul_wk);
	case VNPU_OP_STORE:
		return store_cost(npu, &c->u.store);
	case VNPU_OP_GLU:
		return glu_cost(npu, &c->u.glu);
	default:
		return attn_cost(npu, &c->u.attn, c->pos);
	}
}

uint64_t fw_time_launch_ns(const struct profile_npu *npu)
{
	return whole(npu->launch_us * 1000 + 0.5);
}

uint64_t fw_time_cmd_ns(const struct profile_npu *npu, const struct fw_cmd *cmd)
{
	return whole(npu_time_alone_ns(npu, cmd_cost(npu, cmd)) + 0.5);
}

uint64_t fw_time_job_ns(const struct profile_npu *npu, const struct fw_prog *prog)
{
	uint64_t ns = add(fw_time_launch_ns(npu), prog->sleep_ns);

	for (uint32_t i = 0; i < prog->nr_cmds; i++)
		ns = add(ns, fw_time_cmd_ns(npu, &prog->cmds[i]));
	return ns;
}

uint64_t fw_time_cycles(const struct profile_npu *npu, uint64_t ns)
{
	return whole((double)ns * npu->clock_mhz / 1000);
}

void fw_time_begin(struct fw_time_walk *w, const struct profile_npu *npu, const struct fw_prog *prog,
		   const void *stream)
{
	*w = (struct fw_time_walk){
		.npu = npu,
		.prog = prog,
		.next = (const uint8_t *)stream + sizeof(struct vnpu_stream_hdr),
		.ns = npu ? fw_time_launch_ns(npu) : 0,
	};
}

void fw_time_next(struct fw_time_walk *w, struct fw_time_step *step)
{
	const struct vnpu_cmd *cmd = (const struct vnpu_cmd *)w->next;
	const struct fw_prog *p = w->prog;
	const struct fw_cmd *c = w->cmd < p->nr_cmds && p->cmds[w->cmd].index == w->index ? &p->cmds[w->cmd] : NULL;

	while (w->region + 1 < p->nr_regions && w->index >= p->regions[w->region + 1].first_index)
		w->region++;
	*step = (struct fw_time_step){ .index = w->index, .region = w->region, .op = cmd->op };
	if (w->npu) {
		step->start_ns = w->ns;
		if (c)
			step->ns = fw_time_cmd_ns(w->npu, c);
		else if (cmd->op == VNPU_OP_SLEEP)
			step->ns = ((const struct vnpu_cmd_sleep *)cmd)->duration_ns;
		w->ns = add(w->ns, step->ns);
		step->cycles = fw_time_cycles(w->npu, w->ns) - fw_time_cycles(w->npu, step->start_ns);
	}
	w->cmd += c != NULL;
	w->index++;
	w->next += cmd->size_bytes;
}
