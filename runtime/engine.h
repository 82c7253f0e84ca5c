/* SPDX-License-Identifier: MIT */
/* The runtime's inside: what an engine and a session hold. */
#ifndef ENGINE_H
#define ENGINE_H

#include <stdatomic.h>

#include "cpu_kernels.h"
#include "llm.h"
#include "model.h"
#include "quant.h"
#include "threadpool.h"
#include "tokenizer.h"

struct llm_engine {
	struct llm_engine_info info;
	char *path;
	struct gguf_file *file;
	struct tokenizer *tok;
	struct llm_model model;
	struct llm_pool *pool;
	const struct cpu_kernels *kernels;
	atomic_uint refs; /* the user's and one per session */
	/* Not with LLM_PLACE_CPU: */
	struct npu_device *dev;
	struct npu_context *ctx;
	struct llm_packed packed;
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

struct llm_npu_lane;

struct llm_session {
	struct llm_engine *engine;
	unsigned int n_ctx, n_past;
	/* Rows of the cache: n_ctx, and with an NPU one chunk more for the padded rows of a chunk at the end. */
	unsigned int kv_rows;
	struct llm_memory kv; /* [n_layer][K, V], [kv_rows][kv_dim] each, 64-byte aligned */
	size_t kv_stride; /* bytes from one such matrix to the next */
	struct llm_memory work;
	struct llm_area x, y, xn, q, k, att, gate, up, logits; /* [chunk][...]; logits [1][n_vocab] */
	struct llm_memory all_memory; /* made at the first llm_session_eval_all() */
	struct llm_area all; /* [chunk][n_vocab] */
	float *cosines, *sines; /* [chunk][rot_dim / 2] of the chunk's positions */
	float *scratch; /* per thread */
	size_t scratch_floats;
	bool has_logits;
	struct llm_npu_lane *npu;
	struct llm_session_stats stats;
};

static inline size_t llm_session_k_off(const struct llm_session *s, unsigned int layer)
{
	return 2 * layer * s->kv_stride;
}

static inline size_t llm_session_v_off(const struct llm_session *s, unsigned int layer)
{
	return (2 * layer + 1) * s->kv_stride;
}

/* Layer's K or V from position @pos on. */
static inline float *llm_session_kv(const struct llm_session *s, size_t off, unsigned int pos)
{
	return (float *)((char *)s->kv.data + off) + (size_t)pos * s->engine->model.kv_dim;
}

#endif /* ENGINE_H */
