/* SPDX-License-Identifier: MIT */
/* The runtime's inside: what an engine and a session hold. */
#ifndef ENGINE_H
#define ENGINE_H

#include <stdatomic.h>

#include "cpu_kernels.h"
#include "kernels.h"
#include "llm.h"
#include "model.h"
#include "profile.h"
#include "packed.h"
#include "threadpool.h"
#include "tokenizer.h"

struct llm_gpu;
struct llm_gpu_buffer;

/* The packed weights as the GPU sees them: the NPU's buffers. */
struct hetero_gpu_weights {
	struct llm_gpu_buffer **blocks, *head, *inv_freq; /* by layer; as struct llm_packed; the model's */
	float *inv_freq_host;
};

struct llm_engine {
	struct llm_engine_info info;
	char *path;
	struct gguf_file *file;
	struct tokenizer *tok;
	struct llm_model model;
	struct llm_pool *pool;
	struct profile *profile; /* of the virtual clock; NULL: the wall's */
	float jitter; /* of its durations */
	uint64_t seed;
	const struct cpu_kernels *kernels;
	const struct fw_kernels
		*floats; /* the device's, for the CPU lane's float operators: both lanes give the same bits */
	atomic_uint refs; /* the user's and one per session */
	/* Not with LLM_PLACE_CPU: */
	struct npu_device *dev;
	struct npu_context *ctx;
	struct llm_packed packed;
	/* Placements gpu and layer: */
	struct llm_gpu *gpu; /* NULL: its part is the CPU lane's, on the virtual clock */
	struct hetero_gpu_weights gpu_weights;
	struct profile *cuts_profile; /* that products are cut for on the wall's clock */
	float gpu_share; /* forced; 0: the solver's */
};

void llm_engine_put(struct llm_engine *engine);

/* Zeroed memory that a session computes in: the NPU's too, if the engine has one. */
struct llm_memory {
	struct npu_buffer *buf;
	void *data;
	size_t bytes;
};
int llm_memory_alloc(struct llm_engine *engine, struct llm_memory *mem, size_t bytes, const char *what);
void llm_memory_free(struct llm_memory *mem);

/* A matrix of floats in a session's work memory, with the place that a job binds. */
struct llm_area {
	float *data;
	size_t off, bytes;
};

/* Which logits an evaluation shall give. */
enum llm_want {
	LLM_WANT_NONE,
	LLM_WANT_LAST, /* session->logits */
	LLM_WANT_ALL, /* session->all, a row per token */
};

struct llm_hetero;
struct llm_npu_lane;
struct llm_pass;

static inline enum vnpu_kv_type llm_kv_type(enum llm_kv kv)
{
	return kv == LLM_KV_F32 ? VNPU_KV_F32 : kv == LLM_KV_F16 ? VNPU_KV_F16 : VNPU_KV_Q8_0;
}

struct llm_session {
	struct llm_engine *engine;
	unsigned int n_ctx, n_past;
	unsigned int chunk; /* the engine's, but no more than the context needs */
	/* Rows of the cache: n_ctx, and with an NPU those more that a graph at its end may have beyond the chunk's tokens. */
	unsigned int kv_rows;
	struct llm_memory kv; /* [n_layer][K, V], [kv_rows][kv_dim] of the engine's type each, 64-byte aligned */
	size_t kv_stride; /* bytes from one such matrix to the next */
	size_t kv_row_bytes;
	struct llm_memory work;
	struct llm_area x, y, xn, q, k, v, att, gate, up, logits; /* [chunk][...]; logits [1][n_vocab] */
	struct llm_memory all_memory; /* made at the first llm_session_eval_all() */
	struct llm_area all; /* [llm_session_all_rows()][n_vocab] */
	float *scratch; /* per thread */
	size_t scratch_floats;
	bool has_logits;
	const struct llm_pass *pass; /* under way */
	const struct sched_plan *plan; /* likewise */
	uint64_t nr_passes; /* so far */
	unsigned int embedded; /* rows looked up since their pages were last given back */
	struct sched_plan *wall_plans[2][2]; /* by: one job does all; logits are wanted. NULL: not made yet */
	struct {
		llm_run_fn fn; /* NULL: nobody listens */
		void *ud;
	} listener;
	struct llm_npu_lane *npu;
	struct llm_hetero *hetero; /* placements gpu and layer */
	struct llm_session_stats stats;
};

/* Tokens whose logits are computed at a time when all of them are wanted. */
static inline unsigned int llm_session_all_rows(const struct llm_session *s)
{
	return s->chunk < 64 ? s->chunk : 64;
}

static inline size_t llm_session_k_off(const struct llm_session *s, unsigned int layer)
{
	return 2 * layer * s->kv_stride;
}

static inline size_t llm_session_v_off(const struct llm_session *s, unsigned int layer)
{
	return (2 * layer + 1) * s->kv_stride;
}

/* Layer's K or V from position @pos on. */
static inline void *llm_session_kv(const struct llm_session *s, size_t off, unsigned int pos)
{
	return (char *)s->kv.data + off + pos * s->kv_row_bytes;
}

#endif /* ENGINE_H */
