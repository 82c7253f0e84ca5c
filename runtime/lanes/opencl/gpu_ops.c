// SPDX-License-Identifier: MIT
/*
 * The GPU lane's operators on rows, and attention: checks of the operands, and the choice of kernel
 * and grid.
 */
#include <errno.h>

#include <npu/vnpu_isa.h>

#include "gpu_private.h"
#include "llm_fail.h"

/* Work-items of a group if they share no local memory */
#define ITEMS 32

/* Groups of ITEMS that hold @n work-items. */
static size_t groups_of(uint64_t n)
{
	return (n + ITEMS - 1) / ITEMS;
}

static int check_sizes(const char *op, unsigned int rows, uint64_t cols)
{
	if (!rows || !cols || rows > VNPU_MAX_DIM || cols > VNPU_MAX_DIM)
		return llm_fail(-EINVAL, "OpenCL: %s of %u rows of %llu: sizes are 1 to %u", op,
				rows, (unsigned long long)cols, VNPU_MAX_DIM);
	return 0;
}

static int check_f32(const struct llm_gpu_area *area, unsigned int rows, uint64_t cols, uint64_t ld,
		     const struct llm_gpu_queue *q, const char *op, const char *what)
{
	return gpu_check(area, rows, cols * 4, ld * 4, 4, q, op, what);
}

/* Checks rows of a cache, which are multiples of 4 bytes for F32, else of 2. */
static int check_kv(const struct llm_gpu_area *area, unsigned int type, unsigned int rows,
		    uint64_t cols, uint64_t ld, const struct llm_gpu_queue *q, const char *op,
		    const char *what)
{
	if (type > VNPU_KV_Q8_0)
		return llm_fail(-EINVAL, "OpenCL: %s with a cache of unknown type", op);
	if (type == VNPU_KV_Q8_0 && (cols % VNPU_Q8_0_VALUES || ld % VNPU_Q8_0_VALUES))
		return llm_fail(-EINVAL, "OpenCL: %s: %s: Q8_0 is blocks of %d", op, what,
				VNPU_Q8_0_VALUES);
	return gpu_check(area, rows, VNPU_KV_BYTES(type, cols), VNPU_KV_BYTES(type, ld),
			 type == VNPU_KV_F32 ? 4 : 2, q, op, what);
}

static int run_quant(struct llm_gpu_queue *q, const struct llm_gpu_quant *op, unsigned int plane)
{
	struct gpu_launch l;

	gpu_begin(&l, q, GPU_quant);
	gpu_arg_area(&l, &op->x);
	gpu_arg_area(&l, &op->q);
	gpu_arg_area(&l, &op->scale);
	gpu_arg_u64(&l, op->ldx);
	gpu_arg_u64(&l, op->ldq);
	gpu_arg_u32(&l, op->cols);
	gpu_arg_u32(&l, op->rows);
	gpu_arg_u32(&l, plane);
	return gpu_run(&l, (size_t[]){ op->rows, 1 }, (size_t[]){ q->gpu->shape.row_items, 1 });
}

int llm_gpu_quant(struct llm_gpu_queue *q, const struct llm_gpu_quant *op)
{
	static const char name[] = "a quantisation";
	unsigned int rows = op->planes > 1 ? 2 * op->rows : op->rows;
	int err = check_sizes(name, op->rows, op->cols);

	if (!err && op->planes > 2)
		err = llm_fail(-EINVAL, "OpenCL: %s to %u planes: there are one or two", name,
			       op->planes);
	if (!err && op->planes > 1)
		err = check_sizes(name, rows, op->cols);
	err = err ? err : check_f32(&op->x, op->rows, op->cols, op->ldx, q, name, "x");
	err = err ? err
		  : gpu_check(&op->q, rows, ((uint64_t)op->cols + 3) / 4 * 4, op->ldq, 1, q, name,
			      "q");
	err = err ? err : gpu_check(&op->scale, 1, rows * 4ull, 0, 4, q, name, "scales");
	if (err)
		return err;
	err = run_quant(q, op, 0);
	return err || op->planes < 2 ? err : run_quant(q, op, 1);
}

int llm_gpu_rmsnorm(struct llm_gpu_queue *q, const struct llm_gpu_rmsnorm *op)
{
	static const char name[] = "a norm";
	uint64_t cols = (uint64_t)op->heads * op->head_dim;
	struct gpu_launch l;
	int err = check_sizes(name, op->rows, cols);

	err = err ? err : check_f32(&op->x, op->rows, cols, op->ldx, q, name, "x");
	err = err ? err : check_f32(&op->w, 1, op->head_dim, 0, q, name, "weights");
	err = err ? err : check_f32(&op->y, op->rows, cols, op->ldy, q, name, "y");
	if (err)
		return err;
	gpu_begin(&l, q, GPU_rmsnorm);
	gpu_arg_area(&l, &op->x);
	gpu_arg_area(&l, &op->w);
	gpu_arg_area(&l, &op->y);
	gpu_arg_u64(&l, op->ldx);
	gpu_arg_u64(&l, op->ldy);
	gpu_arg_u32(&l, op->head_dim);
	gpu_arg_float(&l, op->eps);
	return gpu_run(&l, (size_t[]){ op->heads, op->rows },
		       (size_t[]){ q->gpu->shape.row_items, 1 });
}

int llm_gpu_rope(struct llm_gpu_queue *q, const struct llm_gpu_rope *op)
{
	static const char name[] = "a rotation";
	uint64_t cols = (uint64_t)op->heads * op->head_dim;
	struct gpu_launch l;
	int err = check_sizes(name, op->rows, cols);

	if (!err && (!op->rot_dim || op->rot_dim % 2 || op->rot_dim > op->head_dim ||
		     op->mode > VNPU_ROPE_HALVES || (uint64_t)op->pos + op->rows > 1u << 24))
		err = llm_fail(-EINVAL,
			       "OpenCL: a rotation of %u of %u elements, mode %u, position %u",
			       op->rot_dim, op->head_dim, op->mode, op->pos);
	err = err ? err : check_f32(&op->x, op->rows, cols, op->ldx, q, name, "x");
	err = err ? err : check_f32(&op->inv_freq, 1, op->rot_dim / 2, 0, q, name, "frequencies");
	err = err ? err : check_f32(&op->y, op->rows, cols, op->ldy, q, name, "y");
	if (err)
		return err;
	gpu_begin(&l, q, GPU_rope);
	gpu_arg_area(&l, &op->x);
	gpu_arg_area(&l, &op->inv_freq);
	gpu_arg_area(&l, &op->y);
	gpu_arg_u64(&l, op->ldx);
	gpu_arg_u64(&l, op->ldy);
	gpu_arg_u32(&l, op->heads);
	gpu_arg_u32(&l, op->head_dim);
	gpu_arg_u32(&l, op->rot_dim);
	gpu_arg_u32(&l, op->pos);
	gpu_arg_u32(&l, op->mode == VNPU_ROPE_ADJACENT);
	return gpu_run(&l, (size_t[]){ groups_of(op->head_dim - op->rot_dim / 2), op->rows },
		       (size_t[]){ ITEMS, 1 });
}

int llm_gpu_binary(struct llm_gpu_queue *q, const struct llm_gpu_binary *op)
{
	static const enum gpu_kernel kernels[] = { [LLM_GPU_ADD] = GPU_add,
						   [LLM_GPU_SILU] = GPU_glu_silu,
						   [LLM_GPU_GELU] = GPU_glu_gelu };
	static const char name[] = "an element-wise operator";
	struct gpu_launch l;
	int err = check_sizes(name, op->rows, op->cols);

	if (!err && op->kind > LLM_GPU_GELU)
		err = llm_fail(-EINVAL, "OpenCL: %s of unknown kind", name);
	err = err ? err : check_f32(&op->a, op->rows, op->cols, op->lda, q, name, "a");
	err = err ? err : check_f32(&op->b, op->rows, op->cols, op->ldb, q, name, "b");
	err = err ? err : check_f32(&op->y, op->rows, op->cols, op->ldy, q, name, "y");
	if (err)
		return err;
	gpu_begin(&l, q, kernels[op->kind]);
	gpu_arg_area(&l, &op->a);
	gpu_arg_area(&l, &op->b);
	gpu_arg_area(&l, &op->y);
	gpu_arg_u64(&l, op->lda);
	gpu_arg_u64(&l, op->ldb);
	gpu_arg_u64(&l, op->ldy);
	gpu_arg_u32(&l, op->cols);
	return gpu_run(
		&l,
		(size_t[]){ groups_of((op->cols + q->gpu->shape.vector - 1) / q->gpu->shape.vector),
			    op->rows },
		(size_t[]){ ITEMS, 1 });
}

int llm_gpu_store(struct llm_gpu_queue *q, const struct llm_gpu_store *op)
{
	static const char name[] = "a store";
	struct llm_gpu_area dst = op->dst;
	struct gpu_launch l;
	int err = check_sizes(name, op->rows, op->cols);

	err = err ? err : check_f32(&op->x, op->rows, op->cols, op->ldx, q, name, "x");
	/* Check from the cache's start, if row + rows cannot overflow (an error below). */
	err = err ? err
		  : check_kv(&dst, op->type, op->row > VNPU_MAX_DIM ? 0 : op->row + op->rows,
			     op->cols, op->ld_dst, q, name, "cache");
	if (!err && op->row > VNPU_MAX_DIM)
		err = llm_fail(-EINVAL, "OpenCL: a store to row %u", op->row);
	if (err)
		return err;
	dst.off += (size_t)op->row * VNPU_KV_BYTES(op->type, op->ld_dst);
	gpu_begin(&l, q,
		  op->type == VNPU_KV_F32   ? GPU_store_f32
		  : op->type == VNPU_KV_F16 ? GPU_store_f16
					    : GPU_store_q8_0);
	gpu_arg_area(&l, &op->x);
	gpu_arg_area(&l, &dst);
	gpu_arg_u64(&l, op->ldx);
	gpu_arg_u64(&l, VNPU_KV_BYTES(op->type, op->ld_dst));
	gpu_arg_u32(&l, op->cols);
	return gpu_run(&l,
		       (size_t[]){ groups_of(op->type == VNPU_KV_Q8_0 ? op->cols / VNPU_Q8_0_VALUES
								      : op->cols),
				   op->rows },
		       (size_t[]){ ITEMS, 1 });
}

static int check_attn(const struct llm_gpu_queue *q, const struct llm_gpu_attn *op)
{
	static const char name[] = "attention";
	uint64_t cols = (uint64_t)op->heads * op->head_dim,
		 kv_cols = (uint64_t)op->kv_heads * op->head_dim;
	int err = check_sizes(name, op->rows, cols);

	if (!err && (!op->kv_heads || op->heads % op->kv_heads || op->head_dim > VNPU_MAX_HEAD_DIM))
		err = llm_fail(-EINVAL,
			       "OpenCL: attention of %u heads of %u elements with %u KV heads",
			       op->heads, op->head_dim, op->kv_heads);
	if (!err && ((uint64_t)op->pos + op->rows > op->ctx_rows || op->ctx_rows > VNPU_MAX_DIM))
		err = llm_fail(-EINVAL, "OpenCL: attention of rows %u to %llu over a cache of %u",
			       op->pos, (unsigned long long)op->pos + op->rows, op->ctx_rows);
	/* Each head begins at a block. */
	if (!err && op->kv_type == VNPU_KV_Q8_0 && op->head_dim % VNPU_Q8_0_VALUES)
		err = llm_fail(-EINVAL, "OpenCL: attention of heads of %u elements over Q8_0",
			       op->head_dim);
	err = err ? err : check_f32(&op->q, op->rows, cols, op->ldq, q, name, "q");
	err = err ? err
		  : check_kv(&op->k, op->kv_type, op->ctx_rows, kv_cols, op->ldk, q, name, "keys");
	err = err ? err
		  : check_kv(&op->v, op->kv_type, op->ctx_rows, kv_cols, op->ldv, q, name,
			     "values");
	return err ? err : check_f32(&op->y, op->rows, cols, op->ldy, q, name, "y");
}

/* Groups of work-items wanted for a compute unit, so that some compute while others wait. */
#define GROUPS_PER_UNIT 4

/* In how many parts @tiles of keys are divided, so that @groups of queries fill the device. */
static unsigned int nr_parts(const struct llm_gpu *gpu, unsigned int tiles, size_t groups)
{
	size_t wanted = (size_t)gpu->info.compute_units * GROUPS_PER_UNIT / groups;

	return wanted < 1 ? 1 : wanted < tiles ? (unsigned int)wanted : tiles;
}

/* Makes room for what the parts leave: the results of each query of all groups, of which there are
 * at most as many as nr_parts() wants. OpenCL keeps a released buffer until the operators that use
 * it have ended. */
static int make_parts(struct llm_gpu_queue *q, const struct llm_gpu_attn *op)
{
	size_t queries =
		(size_t)q->gpu->info.compute_units * GROUPS_PER_UNIT * q->gpu->shape.queries;
	size_t bytes = queries * (op->head_dim + 2) * sizeof(float);

	if (q->parts && q->parts->bytes >= bytes)
		return 0;
	llm_gpu_unmap(q->parts);
	return llm_gpu_alloc(q->gpu, bytes, &q->parts);
}

static int join_parts(struct llm_gpu_queue *q, const struct llm_gpu_attn *op, unsigned int parts)
{
	size_t items = q->gpu->shape.attn_items, cols = (size_t)op->heads * op->head_dim;
	struct gpu_launch l;

	gpu_begin(&l, q, GPU_attn_join);
	gpu_arg_area(&l, &(struct llm_gpu_area){ q->parts, 0 });
	gpu_arg_area(&l, &op->y);
	gpu_arg_u64(&l, op->ldy);
	gpu_arg_u32(&l, op->rows);
	gpu_arg_u32(&l, op->heads);
	gpu_arg_u32(&l, op->head_dim);
	gpu_arg_u32(&l, parts);
	return gpu_run(&l, (size_t[]){ (cols + items - 1) / items, op->rows },
		       (size_t[]){ items, 1 });
}

int llm_gpu_attn(struct llm_gpu_queue *q, const struct llm_gpu_attn *op)
{
	unsigned int share, parts, tiles, keys = q->gpu->shape.keys;
	size_t groups;
	struct llm_gpu_area left = { 0 };
	struct gpu_launch l;
	int err = check_attn(q, op);

	if (err)
		return err;
	share = op->heads / op->kv_heads;
	groups = ((size_t)op->rows * share + q->gpu->shape.queries - 1) / q->gpu->shape.queries;
	tiles = (op->pos + op->rows - 1) / keys + 1;
	parts = nr_parts(q->gpu, tiles, groups * op->kv_heads);
	if (parts > 1) {
		err = make_parts(q, op);
		if (err)
			return err;
		left.buf = q->parts;
	}
	gpu_begin(&l, q,
		  op->kv_type == VNPU_KV_F32   ? GPU_attn_f32
		  : op->kv_type == VNPU_KV_F16 ? GPU_attn_f16
					       : GPU_attn_q8_0);
	gpu_arg_area(&l, &op->q);
	gpu_arg_area(&l, &op->k);
	gpu_arg_area(&l, &op->v);
	gpu_arg_area(&l, &op->y);
	gpu_arg_u64(&l, op->ldq);
	gpu_arg_u64(&l, VNPU_KV_BYTES(op->kv_type, op->ldk));
	gpu_arg_u64(&l, VNPU_KV_BYTES(op->kv_type, op->ldv));
	gpu_arg_u64(&l, op->ldy);
	gpu_arg_u32(&l, (uint32_t)VNPU_KV_BYTES(op->kv_type, op->head_dim));
	gpu_arg_u32(&l, op->rows);
	gpu_arg_u32(&l, share);
	gpu_arg_u32(&l, op->head_dim);
	gpu_arg_u32(&l, op->pos);
	gpu_arg_float(&l, op->scale);
	gpu_arg_area(&l, &left);
	gpu_arg_u32(&l, op->kv_heads);
	gpu_arg_u32(&l, (tiles + parts - 1) / parts * keys);
	err = gpu_run(&l, (size_t[]){ groups, (size_t)op->kv_heads * parts },
		      (size_t[]){ q->gpu->shape.attn_items, 1 });
	return err || parts == 1 ? err : join_parts(q, op, parts);
}
