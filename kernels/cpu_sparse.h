/* SPDX-License-Identifier: MIT */
/*
 * Sparse attention on the CPU (shadowAttn, sections 2.2 and 3.2): the positions of a row's greatest
 * scores, and attention over such positions. Portable C, AVX2 + FMA, or AVX-512, chosen at run
 * time.
 */
#ifndef CPU_SPARSE_H
#define CPU_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A list of positions is written in whole vectors: it needs room for so many more. */
#define CPU_SPARSE_SLACK 16

/*
 * A tile of sparse attention: queries of one KV head. Query i is its query head i % group of row
 * i / group, as in struct fw_attn. It attends to the positions[i * ld .. + nr[i]) of the caches:
 * ascending, at least one, below 2^32; CPU_SPARSE_SLACK more numbers must be readable after them.
 *
 * The more queries a tile has, the less it costs to widen the caches for each; beyond 256 it makes
 * no difference. A query's result does not depend on the others in its tile.
 */
struct cpu_sparse_attn {
	const float *q; /* [rows][ldq], starts at the KV head's first query head */
	float *y; /* [rows][ldy], as q */
	size_t ldq, ldy;
	uint32_t group; /* query heads per KV head */
	uint32_t first, nr_q; /* queries first .. first + nr_q - 1 */
	const void *k, *v; /* of the KV head */
	size_t k_row_bytes, v_row_bytes; /* distance between rows of the cache */
	uint32_t kv_type; /* enum vnpu_kv_type */
	uint32_t head_dim; /* at most VNPU_MAX_HEAD_DIM; of Q8_0 a multiple of 32 */
	float scale; /* of q . k, before exp() */
	const uint32_t *positions; /* [nr_q][ld], of query @first first */
	size_t ld;
	const uint32_t *nr; /* [nr_q] */
};

/* A tile of scores: queries as in struct cpu_sparse_attn, and all keys that they may see. */
struct cpu_sparse_scores {
	const float *q; /* [rows][ldq], starts at the KV head's first query head */
	size_t ldq;
	uint32_t group; /* query heads per KV head */
	uint32_t first, nr_q; /* queries first .. first + nr_q - 1 */
	uint64_t pos; /* row r sees keys 0..pos + r */
	const void *k; /* of the KV head */
	size_t k_row_bytes;
	uint32_t kv_type, head_dim;
	float *scores; /* [nr_q][ld], of query @first first; of later keys none is written */
	size_t ld;
};

/* Private memory of a call of attn() or scores(), 64-byte aligned. */
#define CPU_SPARSE_SCRATCH_BYTES (896 << 10)

struct cpu_sparse {
	const char *name; /* "generic", "avx2", "avx512" */

	/*
	 * The positions of the @keep >= 1 greatest of @n >= 1 scores, ascending, in
	 * found[min(keep, n) + CPU_SPARSE_SLACK]; returns min(keep, n). The last position is always
	 * among them: where it would not be, it takes the place of the least. Of equal scores the
	 * earliest win, and a NaN is less than any number. Scores of positions that a query may not
	 * see are simply left out of @n. The same result in all sets.
	 *
	 * s16: an NPU's estimate; f32: the CPU's own.
	 */
	size_t (*select_s16)(uint32_t *found, const int16_t *scores, size_t n, size_t keep);
	size_t (*select_f32)(uint32_t *found, const float *scores, size_t n, size_t keep);

	/*
	 * y = softmax(scale q K^T) V over each query's positions. Sums are of floats. With n
	 * positions, a result is within ((head_dim / 4 + 8) S + n + 32) 2^-23 max |v| of the exact
	 * one, where S is the greatest scale * sum |q k| of a position. Scores more than 87 below a
	 * query's greatest may count nothing. Within one instruction set, bits do not depend on
	 * tiles. @scratch: CPU_SPARSE_SCRATCH_BYTES.
	 *
	 * Time is in proportion to the positions. From about half of the keys on, fw_kernels.attn
	 * over all of them takes less, and from about two fifths on if estimating and selecting
	 * count: queries that keep so many are better left to it.
	 */
	void (*attn)(const struct cpu_sparse_attn *t, void *scratch);

	/*
	 * q . k of each query and key, without a scale, within (head_dim + 2) 2^-24 sum |q k|: what
	 * a CPU estimates without an NPU (C/G-Sparse, section 2.2). Bits do not depend on tiles.
	 */
	void (*scores)(const struct cpu_sparse_scores *t, void *scratch);

	/* y[j][i] = value i of row j of a KV head's cache, exactly: @n rows of @dim values. */
	void (*widen)(float *y, size_t ldy, const void *rows, size_t row_bytes, uint32_t n,
		      uint32_t dim, uint32_t kv_type);
};

extern const struct cpu_sparse cpu_sparse_generic;
#if defined(__x86_64__)
extern const struct cpu_sparse cpu_sparse_avx2;
extern const struct cpu_sparse cpu_sparse_avx512;
#endif

/* The best set for this host; or the set called @name, NULL if the host cannot run it. */
const struct cpu_sparse *cpu_sparse_get(const char *name);

#endif /* CPU_SPARSE_H */
