// SPDX-License-Identifier: MIT
/* The GPU lane's matmuls: checks of the operands, and the choice of kernel and grid. */
#include <errno.h>

#include <npu/vnpu_isa.h>

#include "gpu_private.h"
#include "llm_fail.h"

/* Most rows that are computed in one pass over the weights */
#define GEMV_ROWS 4
/* Work-items that fill a compute unit. On an H200 GEMM and GEMV are equally fast at 500, GEMV is
 * 1.6 times as fast at 124, 5 times at 16. */
#define ITEMS_PER_UNIT 512

static bool in_panels(const struct llm_gpu_matmul *op)
{
	return op->format == LLM_GPU_W8 || op->format == LLM_GPU_W4;
}

static uint64_t panel_bytes(const struct llm_gpu_matmul *op)
{
	return op->format == LLM_GPU_W8 ? VNPU_PANEL_I8_BYTES(op->k)
					: VNPU_PANEL_W4_BYTES(op->k, op->group);
}

static int check_shape(const struct llm_gpu_matmul *op)
{
	bool int8 = op->x_scale.buf;

	if (op->format > LLM_GPU_F16)
		return llm_fail(-EINVAL, "OpenCL: a matmul with an unknown format of weights");
	if (!op->m || !op->k || !op->n || op->m > VNPU_MAX_DIM || op->k > VNPU_MAX_DIM ||
	    op->first > VNPU_MAX_DIM || op->n > VNPU_MAX_DIM - op->first)
		return llm_fail(
			-EINVAL,
			"OpenCL: a matmul of %u x %u x %u from channel %u: sizes are 1 to %u",
			op->m, op->k, op->n, op->first, VNPU_MAX_DIM);
	if (op->format == LLM_GPU_W8 && (!int8 || op->k > VNPU_MAX_K_I8))
		return llm_fail(
			-EINVAL,
			"OpenCL: a matmul of W8 takes INT8 activations of at most %u columns",
			VNPU_MAX_K_I8);
	if (!in_panels(op) && op->add)
		return llm_fail(-EINVAL,
				"OpenCL: a matmul of F32 or F16 weights cannot add to its result");
	if (!in_panels(op) && int8)
		return llm_fail(-EINVAL,
				"OpenCL: a matmul of F32 or F16 weights takes F32 activations");
	if (op->format == LLM_GPU_W4 &&
	    ((op->group != 32 && op->group != 64 && op->group != 128) || op->k % op->group))
		return llm_fail(
			-EINVAL,
			"OpenCL: a matmul of W4 with %u columns in groups of %u: groups are 32, 64 "
			"or 128 and divide the columns",
			op->k, op->group);
	return 0;
}

/* Checks only the range's part of weights, bias and results. */
static int check_areas(const struct llm_gpu_queue *q, const struct llm_gpu_matmul *op)
{
	uint64_t end = (uint64_t)op->first + op->n;
	unsigned int element = op->format == LLM_GPU_F32 ? 4 : 2;
	int err;

	if (op->x_scale.buf) {
		err = gpu_check(&op->x, op->m, ((uint64_t)op->k + 3) / 4 * 4, op->ldx, 1, q,
				"a matmul", "x");
		err = err ? err
			  : gpu_check(&op->x_scale, 1, op->m * 4ull, 0, 4, q, "a matmul",
				      "scales of x");
	} else {
		err = gpu_check(&op->x, op->m, op->k * 4ull, op->ldx * 4ull, 4, q, "a matmul", "x");
	}
	if (err)
		return err;
	if (in_panels(op))
		err = gpu_check(&op->w, (end + VNPU_PANEL_N - 1) / VNPU_PANEL_N, panel_bytes(op),
				panel_bytes(op), 64, q, "a matmul", "weights");
	else
		err = gpu_check(&op->w, end, (uint64_t)op->k * element, (uint64_t)op->ldw * element,
				element, q, "a matmul", "weights");
	if (!err && op->bias.buf)
		err = gpu_check(&op->bias, 1, end * 4, 0, 4, q, "a matmul", "bias");
	return err ? err : gpu_check(&op->y, op->m, end * 4, op->ldy * 4ull, 4, q, "a matmul", "y");
}

/* In enum gpu_kernel the GEMV kernels of 1, 2 and 4 rows follow their GEMM kernel. */
static enum gpu_kernel kernel_for(enum gpu_kernel gemm, unsigned int m)
{
	return m > GEMV_ROWS ? gemm : gemm + (m > 2 ? 3 : m);
}

/* Whether a GEMM has work-items enough to fill the device. Else work-items that divide k do more,
 * although blocks of rows then read the weights more often. */
static bool in_tiles(const struct llm_gpu *gpu, unsigned int m, unsigned int vectors)
{
	const struct gpu_shape *s = &gpu->shape;
	uint64_t items =
		(uint64_t)(m + s->gemm_rows - 1) / s->gemm_rows * (vectors / s->gemm_vectors);

	return m > GEMV_ROWS &&
	       (s->gemv_split == 1 || items >= (uint64_t)gpu->info.compute_units * ITEMS_PER_UNIT);
}

static int run_panels(struct llm_gpu_queue *q, const struct llm_gpu_matmul *op)
{
	const struct gpu_shape *s = &q->gpu->shape;
	enum gpu_kernel gemm = op->format == LLM_GPU_W8 ? GPU_gemm_w8
			       : op->x_scale.buf	? GPU_gemm_w4
							: GPU_gemm_w4f;
	unsigned int panels = (op->first + op->n - 1) / VNPU_PANEL_N - op->first / VNPU_PANEL_N + 1;
	unsigned int vectors = panels * (VNPU_PANEL_N / s->vector);
	bool many = in_tiles(q->gpu, op->m, vectors);
	unsigned int units = vectors / (many ? s->gemm_vectors : s->gemv_vectors);
	unsigned int tile = s->gemm_rows * s->gemm_groups;
	struct gpu_launch l;

	gpu_begin(&l, q, many ? gemm : kernel_for(gemm, op->m < GEMV_ROWS ? op->m : GEMV_ROWS));
	gpu_arg_area(&l, &op->x);
	gpu_arg_area(&l, &op->x_scale);
	gpu_arg_area(&l, &op->w);
	gpu_arg_area(&l, &op->bias);
	gpu_arg_area(&l, &op->y);
	gpu_arg_u64(&l, op->ldx);
	gpu_arg_u64(&l, op->ldy);
	gpu_arg_u32(&l, op->m);
	gpu_arg_u32(&l, op->k);
	gpu_arg_u32(&l, op->first);
	gpu_arg_u32(&l, op->n);
	gpu_arg_u32(&l, op->group);
	gpu_arg_u32(&l, op->add);
	return gpu_run(&l,
		       (size_t[]){ (units + s->group - 1) / s->group,
				   many ? (op->m + tile - 1) / tile
					: (op->m + GEMV_ROWS - 1) / GEMV_ROWS },
		       (size_t[]){ s->group, many ? s->gemm_groups : s->gemv_split });
}

static int run_rows(struct llm_gpu_queue *q, const struct llm_gpu_matmul *op)
{
	unsigned int element = op->format == LLM_GPU_F32 ? 4 : 2,
		     tiles = (op->n + GPU_ROWS_TILE - 1) / GPU_ROWS_TILE;
	unsigned int group = q->gpu->shape.group;
	struct gpu_launch l;

	gpu_begin(&l, q,
		  kernel_for(op->format == LLM_GPU_F32 ? GPU_gemm_f32 : GPU_gemm_f16, op->m));
	gpu_arg_area(&l, &op->x);
	gpu_arg_area(&l, &op->w);
	gpu_arg_area(&l, &op->bias);
	gpu_arg_area(&l, &op->y);
	gpu_arg_u64(&l, op->ldx);
	gpu_arg_u64(&l, (uint64_t)op->ldw * element);
	gpu_arg_u64(&l, op->ldy);
	gpu_arg_u32(&l, op->m);
	gpu_arg_u32(&l, op->k);
	gpu_arg_u32(&l, op->first);
	gpu_arg_u32(&l, op->n);
	if (op->m > GEMV_ROWS)
		return gpu_run(&l,
			       (size_t[]){ (tiles + group - 1) / group,
					   (op->m + GPU_ROWS_TILE - 1) / GPU_ROWS_TILE },
			       (size_t[]){ group, 1 });
	return gpu_run(&l, (size_t[]){ 1, (op->n + group - 1) / group },
		       (size_t[]){ q->gpu->shape.gemv_split, group });
}

int llm_gpu_matmul(struct llm_gpu_queue *q, const struct llm_gpu_matmul *op)
{
	int err = check_shape(op);

	err = err ? err : check_areas(q, op);
	if (err)
		return err;
	return in_panels(op) ? run_panels(q, op) : run_rows(q, op);
}
