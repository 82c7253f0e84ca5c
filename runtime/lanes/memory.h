/* SPDX-License-Identifier: MIT */
/*
 * What a session computes in: the KV cache, the activations of the chunks in flight, logits. All
 * lanes read and write the same memory, which is the NPU's too where there is one.
 *
 * Activations are matrices of lane_memory.rows rows each. A chunk in flight has rows of its own in
 * all of them, from lane_chunk.row on.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include "loaded.h"

/* Zeroed memory: a buffer of the NPU if @loaded has one. */
struct llm_memory {
	struct npu_buffer *buf;
	void *data;
	size_t bytes;
};
/* 0, or -ENOMEM and what libnpu says, with the error line; @what is for that. */
int llm_memory_alloc(const struct llm_loaded *loaded, struct llm_memory *mem, size_t bytes,
		     const char *what);
void llm_memory_free(struct llm_memory *mem);

/* A matrix of floats, with the place in its memory that a job binds. */
struct llm_area {
	const struct llm_memory *in;
	float *data;
	size_t off, bytes;
};

struct lane_memory {
	const struct llm_loaded *loaded;
	/* [n_layer][K, V] of [kv_rows][kv_dim], of the engine's type each, 64-byte
	 * aligned. kv_rows is n_ctx, and with whole programs those more that one may have
	 * beyond the last chunk's tokens. */
	struct llm_memory kv;
	unsigned int kv_rows;
	size_t kv_stride, kv_row_bytes; /* from one such matrix, or row, to the next */
	struct llm_memory work;
	unsigned int rows; /* of activations: all chunks in flight together */
	struct llm_area x, y, xn, q, k, v, att, gate, up; /* [rows][...] */
	struct llm_area logits; /* [1][n_vocab], of the last token */
	struct llm_memory all_memory; /* made when all logits are wanted for the first time */
	struct llm_area all; /* [LANE_LOGIT_ROWS][n_vocab] */
	float *scratch; /* of each thread of the CPU lane */
	size_t scratch_floats;
	unsigned int embedded; /* rows looked up since the embeddings' pages were last given back */
};

/* Rows whose logits are computed at a time when those of all tokens are wanted. */
#define LANE_LOGIT_ROWS 64

/*
 * Memory for @rows rows of activations and a cache of @kv_rows. 0 or -ENOMEM with the error
 * line; freed in any case.
 */
int lane_memory_init(struct lane_memory *m, const struct llm_loaded *loaded, unsigned int rows,
		     unsigned int kv_rows);
/* Also for all logits. 0 or -ENOMEM; again: 0. */
int lane_memory_want_all(struct lane_memory *m);
void lane_memory_fini(struct lane_memory *m);

static inline size_t lane_k_off(const struct lane_memory *m, unsigned int layer)
{
	return 2 * layer * m->kv_stride;
}

static inline size_t lane_v_off(const struct lane_memory *m, unsigned int layer)
{
	return (2 * layer + 1) * m->kv_stride;
}

/* Layer's K or V from position @pos on. */
static inline void *lane_kv(const struct lane_memory *m, size_t off, unsigned int pos)
{
	return (char *)m->kv.data + off + pos * m->kv_row_bytes;
}

#endif /* MEMORY_H */
