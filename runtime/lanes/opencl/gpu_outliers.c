// SPDX-License-Identifier: MIT
/* The GPU lane's outliers of activations: checks of the operands, and the choice of grid. */
#include <errno.h>

#include <npu/vnpu_isa.h>

#include "gpu_private.h"
#include "llm_fail.h"

/* Channels per work-group */
#define ITEMS 32

static int check_sizes(const char *op, unsigned int rows, unsigned int k)
{
	if (!rows || !k || rows > VNPU_MAX_DIM || k > VNPU_MAX_K_I8)
		return llm_fail(-EINVAL,
				"OpenCL: %s of %u rows of %u: sizes are 1 to %u, and to %u", op,
				rows, k, VNPU_MAX_DIM, VNPU_MAX_K_I8);
	return 0;
}

int llm_gpu_quant_outliers(struct llm_gpu_queue *q, const struct llm_gpu_quant_outliers *op)
{
	static const char name[] = "a quantisation with outliers";
	struct gpu_launch l;
	int err = check_sizes(name, op->rows, op->cols);

	err = err ? err
		  : gpu_check(&op->x, op->rows, op->cols * 4ull, op->ldx * 4ull, 4, q, name, "x");
	err = err ? err
		  : gpu_check(&op->q, op->rows, ((uint64_t)op->cols + 3) / 4 * 4, op->ldq, 1, q,
			      name, "q");
	err = err ? err : gpu_check(&op->scale, 1, op->rows * 4ull, 0, 4, q, name, "scales");
	err = err ? err
		  : gpu_check(&op->outliers, 1, (uint64_t)op->rows * sizeof(struct vnpu_outliers),
			      0, 4, q, name, "outliers");
	if (err)
		return err;
	gpu_begin(&l, q, GPU_quant_outliers);
	gpu_arg_area(&l, &op->x);
	gpu_arg_area(&l, &op->q);
	gpu_arg_area(&l, &op->scale);
	gpu_arg_area(&l, &op->outliers);
	gpu_arg_u64(&l, op->ldx);
	gpu_arg_u64(&l, op->ldq);
	gpu_arg_u32(&l, op->cols);
	return gpu_run(&l, (size_t[]){ op->rows, 1 }, (size_t[]){ q->gpu->shape.row_items, 1 });
}

static int check_weights(const struct llm_gpu_queue *q, const struct llm_gpu_add_outliers *op,
			 const char *name)
{
	uint64_t panels = ((uint64_t)op->first + op->n + VNPU_PANEL_N - 1) / VNPU_PANEL_N, bytes;

	if (op->format != LLM_GPU_W8 && op->format != LLM_GPU_W4)
		return llm_fail(-EINVAL, "OpenCL: %s with weights that are not in panels", name);
	if (op->format == LLM_GPU_W4 &&
	    ((op->group != 32 && op->group != 64 && op->group != 128) || op->k % op->group))
		return llm_fail(
			-EINVAL,
			"OpenCL: %s with %u columns in groups of %u: groups are 32, 64 or 128 and "
			"divide the columns",
			name, op->k, op->group);
	bytes = op->format == LLM_GPU_W8 ? VNPU_PANEL_I8_BYTES(op->k)
					 : VNPU_PANEL_W4_BYTES(op->k, op->group);
	return gpu_check(&op->w, panels, bytes, bytes, 64, q, name, "weights");
}

int llm_gpu_add_outliers(struct llm_gpu_queue *q, const struct llm_gpu_add_outliers *op)
{
	static const char name[] = "a matmul of outliers";
	struct gpu_launch l;
	int err = check_sizes(name, op->m, op->k);

	if (!err && (!op->n || op->first > VNPU_MAX_DIM || op->n > VNPU_MAX_DIM - op->first))
		err = llm_fail(-EINVAL, "OpenCL: %s of %u channels from %u: there are 1 to %u",
			       name, op->n, op->first, VNPU_MAX_DIM);
	err = err ? err : check_weights(q, op, name);
	err = err ? err
		  : gpu_check(&op->outliers, 1, (uint64_t)op->m * sizeof(struct vnpu_outliers), 0,
			      4, q, name, "outliers");
	err = err ? err
		  : gpu_check(&op->y, op->m, ((uint64_t)op->first + op->n) * 4, op->ldy * 4ull, 4,
			      q, name, "y");
	if (err)
		return err;
	gpu_begin(&l, q, GPU_add_outliers);
	gpu_arg_area(&l, &op->outliers);
	gpu_arg_area(&l, &op->w);
	gpu_arg_area(&l, &op->y);
	gpu_arg_u64(&l, op->ldy);
	gpu_arg_u32(&l, op->k);
	gpu_arg_u32(&l, op->first);
	gpu_arg_u32(&l, op->n);
	gpu_arg_u32(&l, op->format == LLM_GPU_W4 ? op->group : 0);
	return gpu_run(&l, (size_t[]){ (op->n + ITEMS - 1) / ITEMS, op->m },
		       (size_t[]){ ITEMS, 1 });
}
