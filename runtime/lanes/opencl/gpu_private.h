/* SPDX-License-Identifier: MIT */
/* Shared by the files of the GPU lane. */
#ifndef GPU_PRIVATE_H
#define GPU_PRIVATE_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdatomic.h>

#include "gpu.h"

/* The kernels' names in runtime/lanes/opencl/gpu_*.cl. gemv_* take 1, 2 or 4 rows. */
#define GPU_KERNELS(f)                                                                             \
	f(flag) f(probe) f(quant) f(rmsnorm) f(rope) f(add) f(glu_silu) f(glu_gelu) f(store_f32)   \
		f(store_f16) f(store_q8_0) f(quant_outliers) f(add_outliers) f(attn_f32)           \
			f(attn_f16) f(attn_q8_0) f(attn_join) f(gemm_w8) f(gemv_w8_1) f(gemv_w8_2) \
				f(gemv_w8_4) f(gemm_w4) f(gemv_w4_1) f(gemv_w4_2) f(gemv_w4_4)     \
					f(gemm_w4f) f(gemv_w4f_1) f(gemv_w4f_2) f(gemv_w4f_4)      \
						f(gemm_f32) f(gemv_f32_1) f(gemv_f32_2)            \
							f(gemv_f32_4) f(gemm_f16) f(gemv_f16_1)    \
								f(gemv_f16_2) f(gemv_f16_4)

enum gpu_kernel {
#define GPU_KERNEL(name) GPU_##name,
	GPU_KERNELS(GPU_KERNEL)
#undef GPU_KERNEL
		GPU_NR_KERNELS,
};

/* The kernels' tile sizes: macros that runtime/lanes/opencl/gpu_common.cl explains. */
struct gpu_shape {
	unsigned int vector; /* V */
	unsigned int gemv_vectors, gemv_split; /* NV, SPLIT */
	unsigned int gemm_rows, gemm_vectors, gemm_groups; /* R, GEMM_NV, GEMM_Y */
	unsigned int group; /* GROUP_X */
	unsigned int row_items; /* ROW_ITEMS */
	unsigned int queries, keys, attn_items; /* QUERIES, KEYS, ATTN_ITEMS */
};

#define GPU_ROWS_TILE 4 /* TILE */

struct llm_gpu {
	struct llm_gpu_info info;
	bool coherent;
	cl_device_id device;
	cl_context context;
	cl_program program;
	struct gpu_shape shape;
};

struct llm_gpu_buffer {
	struct llm_gpu *gpu;
	cl_mem mem;
	uint8_t *host; /* NULL: only the device has it */
	size_t bytes;
	bool shared;
};

/* Operators whose events are kept; before an event is replaced, its operator is waited for. */
#define GPU_EVENTS 1024

struct llm_gpu_queue {
	struct llm_gpu *gpu;
	cl_command_queue queue;
	cl_kernel kernels[GPU_NR_KERNELS]; /* made when first used */
	struct llm_gpu_buffer *parts; /* what parts of attention's keys leave; or NULL */
	cl_event events[GPU_EVENTS]; /* of operator i since llm_gpu_finish() at i % GPU_EVENTS */
	uint64_t next; /* operator */
	cl_int failed; /* how one of them failed, or CL_SUCCESS */
	atomic_uint callbacks; /* flags that a thread of the driver has yet to write */
};

/* Returns -errno for an error of OpenCL and sets the line "@what: CL_...". */
int gpu_fail(cl_int err, const char *what);

/* A launch: gpu_begin(), a gpu_arg*() per argument in order, gpu_run(). */
struct gpu_launch {
	struct llm_gpu_queue *q;
	enum gpu_kernel which;
	cl_kernel kernel;
	cl_uint nr_args;
	cl_int err;
};
void gpu_begin(struct gpu_launch *l, struct llm_gpu_queue *q, enum gpu_kernel which);
void gpu_arg(struct gpu_launch *l, size_t bytes, const void *value);
/* Two arguments: a pointer, and a ulong offset. */
void gpu_arg_area(struct gpu_launch *l, const struct llm_gpu_area *area);
void gpu_arg_u32(struct gpu_launch *l, uint32_t value);
void gpu_arg_u64(struct gpu_launch *l, uint64_t value);
void gpu_arg_float(struct gpu_launch *l, float value);
/* Runs @groups work-groups of @items work-items in each of two dimensions. */
int gpu_run(struct gpu_launch *l, const size_t groups[2], const size_t items[2]);

/* An event that ends when all operators in the queue have; the caller releases it. */
int gpu_marker(struct llm_gpu_queue *q, cl_event *event);

/* Returns 0 if rows of @row_bytes, @stride bytes apart, are inside the area's buffer, with offset
 * and stride multiples of @align; else -EINVAL with a line that names @op and its operand @what. */
int gpu_check(const struct llm_gpu_area *area, uint64_t rows, uint64_t row_bytes, uint64_t stride,
	      unsigned int align, const struct llm_gpu_queue *q, const char *op, const char *what);

/* The source of the kernels, in GPU_NR_SOURCES parts. */
#define GPU_NR_SOURCES 6
void gpu_sources_get(const char *sources[GPU_NR_SOURCES], size_t bytes[GPU_NR_SOURCES]);

/* Tests whether host and kernels see one another's writes to shared memory. */
int gpu_probe(struct llm_gpu *gpu, bool *coherent);

#endif /* GPU_PRIVATE_H */
