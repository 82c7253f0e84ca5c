/* SPDX-License-Identifier: MIT */
/* A loaded model and its devices. An engine owns it; its sessions share it; it is immutable. */
#ifndef LOADED_H
#define LOADED_H

#include "cpu_kernels.h"
#include "cpu_sparse.h"
#include "kernels.h"
#include "llm.h"
#include "model.h"
#include "packed.h"
#include "threadpool.h"

struct attention;
struct llm_gpu;
struct start;
struct shadow;
struct shadow_weights;
struct llm_gpu_buffer;

/* The GPU's mappings of the NPU's buffers (struct llm_packed) and of inv_freq. */
struct gpu_weights {
	struct llm_gpu_buffer **layers, *vectors, *head, *inv_freq;
	float *inv_freq_host;
};

struct llm_loaded {
	const char *path; /* of the file, for messages */
	struct gguf_file *file;
	struct llm_model model;
	struct llm_pool *pool; /* the CPU lane's threads */
	unsigned int threads;
	const struct cpu_kernels *kernels;
	const struct cpu_sparse *sparse;
	/* The device's kernels, for the CPU lane's float operators: the same bits on both. */
	const struct fw_kernels *floats;
	enum llm_kv kv;
	enum llm_sync sync;
	enum llm_operands operands; /* of the NPU's programs */
	/* With an NPU or a GPU: */
	struct npu_context *ctx;
	const struct npu_device_info *device;
	struct llm_packed packed;
	struct start *start; /* which fills it in, and may not have ended yet */
	/* Activations static and static-max: the file's calibration, and each input's scale in a
	 * slot of LLM_SCALE_BYTES of a buffer: [layer][input]. Static only: the weights. */
	const struct shadow *shadow;
	struct npu_buffer *scales;
	struct shadow_weights *shadow_weights;
	const struct attention *attention; /* other than full; NULL: it is full */
	struct llm_gpu *gpu; /* NULL: the CPU computes the GPU's part (LLM_GPU_HOST) */
	struct gpu_weights gpu_weights;
};

#define LLM_SCALE_BYTES 64

static inline enum vnpu_kv_type llm_kv_type(enum llm_kv kv)
{
	return kv == LLM_KV_F32 ? VNPU_KV_F32 : kv == LLM_KV_F16 ? VNPU_KV_F16 : VNPU_KV_Q8_0;
}

#endif /* LOADED_H */
