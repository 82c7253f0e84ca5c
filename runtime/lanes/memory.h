/* SPDX-License-Identifier: MIT */
/*
 * A session's memory: the KV cache, the activations of the chunks in flight, logits. All lanes
 * share it; with an NPU it is in NPU buffers.
 *
 * Activations are matrices of lane_memory.rows rows each. Each chunk in flight has rows of its own
 * in all of them, from lane_chunk.row on.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdatomic.h>

#include "cache_pages.h"
#include "loaded.h"

/* Zeroed memory: a buffer of the NPU if @loaded has one. */
struct llm_memory {
	struct npu_buffer *buf;
	void *data;
	size_t bytes;
};
/* 0, -ENOMEM, or an error of libnpu, with the error line, which names @what. */
int llm_memory_alloc(const struct llm_loaded *loaded, struct llm_memory *mem, size_t bytes,
		     const char *what);
void llm_memory_free(struct llm_memory *mem);

struct lane_shadow;
struct lane_attention;
struct lane_experts;

/* A matrix of floats, and its offset in the memory for a job's binding. */
struct llm_area {
	const struct llm_memory *in;
	float *data;
	size_t off, bytes;
};

/*
 * Of a pass whose last layer computes chosen tokens alone (LANE_CHOSEN): what the layer reads of
 * each, and for programs of the NPU positions, input and result of LANE_LOGIT_ROWS of them at a
 * time. Allocated when such a pass is first wanted.
 */
struct lane_chosen {
	float *kept; /* [max_kept][n_embd] */
	size_t max_kept;
	struct llm_memory memory; /* has the others: positions u32[LANE_LOGIT_ROWS] first */
	struct llm_area x, y; /* [LANE_LOGIT_ROWS][n_embd] */
};

/* What the CPU lane leaves out of the model, for calibrations: results of a head, or of a layer's
 * attention and FFN, are zeros. */
struct lane_removed {
	enum { LANE_REMOVED_NOTHING, LANE_REMOVED_HEAD, LANE_REMOVED_LAYER } what;
	unsigned int layer, head;
};

struct lane_memory {
	const struct llm_loaded *loaded;
	/* [n_layer][K, V][kv_rows][kv_dim] of the engine's type, each K and V 64-byte aligned.
	 * kv_rows is n_ctx, plus the padding of a last chunk that runs as a whole program. */
	struct llm_memory kv;
	struct cache_pages kv_pages;
	unsigned int n_ctx, kv_rows;
	size_t kv_stride, kv_row_bytes; /* bytes of a K or V with alignment, and of its rows */
	struct llm_memory work;
	unsigned int rows; /* of activations, for all chunks in flight together */
	/* [rows][...]; gate and up: not with experts, whose are in experts.h */
	struct llm_area x, y, xn, q, k, v, att, gate, up;
	struct llm_area logits; /* [1][n_vocab], of the last token */
	struct llm_memory all_memory; /* allocated when all tokens' logits are first wanted */
	struct llm_area all; /* [LANE_LOGIT_ROWS][n_vocab] */
	struct llm_area shadow; /* [rows][lane_shadow_cols()]: results of shadow outliers */
	struct lane_shadow *shadow_work; /* cpu_shadow.c's; NULL: there are none */
	struct lane_attention *attention; /* lane_attention.h's; NULL: all attention is full */
	struct lane_experts *experts; /* experts.h's; NULL: the model has none */
	struct lane_removed removed;
	float *scratch; /* [threads of the CPU lane][scratch_floats] */
	size_t scratch_floats;
	/* Of a token tree in a program of the NPU: depths and ancestors, padding included.
	 * Allocated for the first tree. */
	struct llm_memory tree;
	struct lane_chosen chosen;
	void *embedding; /* a row as the file has it */
	atomic_uint begun; /* works that have been given to lanes */
};

/* Rows of logits that are computed at a time when those of all tokens are wanted */
#define LANE_LOGIT_ROWS 64

/*
 * Allocates memory for @rows rows of activations and a cache of @n_ctx + @pad. 0 or -ENOMEM with
 * the error line; call lane_memory_fini() in either case.
 */
int lane_memory_init(struct lane_memory *m, const struct llm_loaded *loaded, unsigned int rows,
		     unsigned int n_ctx, unsigned int pad);
/*
 * Bytes of activations, logits and scratch memory when @rows rows are in use; of the areas' sizes
 * alone in a dry run, where @m has no memory.
 */
uint64_t lane_memory_bytes(const struct lane_memory *m, const struct shape *shape,
			   unsigned int rows);
/* A pass will write up to position @rows of the KV cache. Nothing to do in a dry run. */
void lane_memory_want_rows(struct lane_memory *m, unsigned int rows);
/* Allocates memory for all tokens' logits, once. 0 or -ENOMEM. */
int lane_memory_want_all(struct lane_memory *m);
#define LANE_TREE_DEPTHS 0 /* u32[LLM_MAX_TREE] */
#define LANE_TREE_ANCESTORS (LLM_MAX_TREE * sizeof(uint32_t)) /* u64[LLM_MAX_TREE] */
/* Allocates memory for token trees, that included, once. 0 or -ENOMEM. */
int lane_memory_want_tree(struct lane_memory *m);
uint64_t lane_memory_tree_bytes(const struct lane_memory *m);
/* Allocates memory for @n chosen tokens, and of all tokens' logits. 0 or -ENOMEM with the error
 * line. */
int lane_memory_want_chosen(struct lane_memory *m, size_t n);
void lane_memory_fini(struct lane_memory *m);

static inline size_t lane_k_off(const struct lane_memory *m, unsigned int layer)
{
	return 2 * layer * m->kv_stride;
}

static inline size_t lane_v_off(const struct lane_memory *m, unsigned int layer)
{
	return (2 * layer + 1) * m->kv_stride;
}

/* Position @pos of the K or V at lane_k_off() or lane_v_off(). */
static inline void *lane_kv(const struct lane_memory *m, size_t off, unsigned int pos)
{
	return (char *)m->kv.data + off + pos * m->kv_row_bytes;
}

#endif /* MEMORY_H */
