/* SPDX-License-Identifier: MIT */
/*
 * What attention other than full needs beside the KV cache (shadowAttn 3.2, 3.3): memory for
 * choosing keys, and with shadow and npu, where the NPU takes part: the keys in INT8,
 * a chunk's queries head by head, the NPU's scores, and the scale of each.
 *
 * Keys are quantised once, when the first chunk that estimates with them comes: with one scale for
 * all keys of a KV head, that of its scale bucket. Where a chunk's keys are so much larger that
 * another bucket is nearer, the head's keys are quantised again from the KV cache. So are they when
 * a session forgot tokens and the bucket of the others is smaller: what is computed depends on no
 * token that is not in the session.
 *
 * Scores have slots: the estimate of a head takes one, and the selection of its keys frees it.
 */
#ifndef LANE_ATTENTION_H
#define LANE_ATTENTION_H

#include <stdatomic.h>

#include "attention.h"
#include "lane.h"

struct lane_attention {
	const struct attention *a;
	struct llm_memory keys; /* [n_layer][n_head_kv][panels of 64 positions] */
	struct llm_memory values; /* the same of attention npu */
	struct llm_memory q; /* [n_head][rows][ldq], f32 */
	struct llm_memory scales; /* attention npu: [rows][n_head_kv] of LANE_SCALES_BYTES */
	struct llm_memory scores; /* [LANE_SCORE_SLOTS][rows][lds], s16 */
	size_t head_keys, head_values; /* bytes of a KV head's panels */
	uint32_t rows; /* of activations: lane_memory.rows */
	uint32_t ldq, lds;
	uint32_t *packed; /* by layer: positions whose keys are in the panels */
	uint32_t *seen; /* by layer: positions whose keys are in @most */
	float *most; /* [n_layer][n_head_kv]: the greatest |k| so far */
	float *most_q; /* [rows][n_head]: of the chunk that begins at the row */
	uint8_t *k_scale; /* [n_layer][n_head_kv]: of the buckets' K */
	uint8_t *q_scale; /* [rows][n_head]: of their Q, as most_q */
	float *key_sums; /* attention block: [n_head_kv][blocks of keys][head_dim], of a chunk */
	char *scratch; /* [threads][scratch_bytes], of a tile of queries */
	size_t scratch_bytes;
	/* As in struct llm_attention_stats; those of threads: */
	atomic_ullong visible, selected, estimate_ns, select_ns, attend_ns, repacked;
	uint64_t launches, jobs, estimated, moved, graphs, graph_bytes;
};

/* A head's operands. */
static inline size_t lane_q_off(const struct lane_attention *t, unsigned int head, size_t row)
{
	return ((size_t)head * t->rows + row) * t->ldq * sizeof(float);
}

static inline size_t lane_scores_off(const struct lane_attention *t, unsigned int slot, size_t row)
{
	return ((size_t)slot * t->rows + row) * t->lds * sizeof(int16_t);
}

static inline size_t lane_keys_off(const struct lane_attention *t, unsigned int layer,
				   unsigned int kv_head)
{
	return ((size_t)layer * t->a->kv_heads + kv_head) * t->head_keys;
}

static inline size_t lane_values_off(const struct lane_attention *t, unsigned int layer,
				     unsigned int kv_head)
{
	return ((size_t)layer * t->a->kv_heads + kv_head) * t->head_values;
}

/* f32[3]: of Q, K and V, of the chunk that begins at the row. */
#define LANE_SCALES_BYTES 64
static inline size_t lane_scales_off(const struct lane_attention *t, unsigned int kv_head,
				     size_t row)
{
	return (row * t->a->kv_heads + kv_head) * LANE_SCALES_BYTES;
}

/* For lane_memory.attention: NULL if the engine's attention needs none. 0 or -ENOMEM with the
 * error line; call lane_attention_fini() in any case. */
int lane_attention_init(struct lane_memory *memory);
void lane_attention_fini(struct lane_memory *memory);
/* Bytes of scratch memory that each thread needs for a tile. */
size_t lane_sparse_scratch(const struct lane_memory *memory);
size_t lane_block_scratch(const struct lane_memory *memory); /* the same of attention block */
size_t lane_block_sums(const struct lane_memory *memory); /* floats of key_sums */
struct llm_attention_stats lane_attention_stats(const struct lane_memory *memory);
/* Cache rows from @pos on are about to be written. */
void lane_attention_truncate(struct lane_memory *memory, unsigned int pos);

/* ---- inside: on the CPU (cpu_attention.c, cpu_scale.c, cpu_heads.c, cpu_block.c) ---- */

/* LLM_OP_ATTN: every key, or of a token tree those that a node sees. */
void lane_cpu_attention(struct lane_memory *m, const struct lane_call *call);
/* LANE_HEADS on the CPU: LLM_OP_SCALE, or the first stage of attention, with those that follow. */
void lane_cpu_heads(struct lane_memory *m, const struct lane_call *call);
/* Attention block, all of it (cpu_block.c). */
void lane_cpu_blocks(struct lane_memory *m, const struct lane_call *call);
/* LLM_OP_SCALE: queries by head, buckets, keys into panels (cpu_scale.c). */
void lane_cpu_scale(struct lane_memory *m, const struct lane_call *call);

#endif /* LANE_ATTENTION_H */
