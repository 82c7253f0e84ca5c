/* SPDX-License-Identifier: MIT */
/* Sparse attention in portable C, and the choice between the sets. */
#include <stdint.h>
#include <string.h>

/* In this order: each uses the one before. */
#include "kernels_vec.h"

#include "kernels_cache.h"

#include "kernels_attn_keys.h"
#include "kernels_attn_tile.h"

/* Eight counters, which compilers make a vector. */
#define COUNT(name, type)                                                   \
	static size_t name(const type *x, size_t n, type least)             \
	{                                                                   \
		size_t all = 0, i = 0;                                      \
		for (; i + 8 <= n;) {                                       \
			uint16_t some[8] = { 0 };                           \
			size_t end = n - i < 8 * 65535 ? n : i + 8 * 65535; \
			for (; i + 8 <= end; i += 8)                        \
				for (int l = 0; l < 8; l++)                 \
					some[l] += x[i + l] >= least;       \
			for (int l = 0; l < 8; l++)                         \
				all += some[l];                             \
		}                                                           \
		for (; i < n; i++)                                          \
			all += x[i] >= least;                               \
		return all;                                                 \
	}

#define EMIT(name, type)                                                                \
	static uint32_t *name(uint32_t *found, const type *x, size_t begin, size_t end, \
			      type least)                                               \
	{                                                                               \
		for (size_t i = begin; i < end; i++) {                                  \
			*found = (uint32_t)i;                                           \
			found += x[i] >= least;                                         \
		}                                                                       \
		return found;                                                           \
	}

COUNT(count_s16, int16_t)
COUNT(count_f32, float)
EMIT(emit_s16, int16_t)
EMIT(emit_f32, float)

#include "cpu_sparse_attn.h"
#include "cpu_sparse_scores.h"
#include "cpu_sparse_select.h"

const struct cpu_sparse cpu_sparse_generic = {
	.name = "generic",
	.select_s16 = select_s16,
	.select_f32 = select_f32,
	.attn = sparse_attn,
	.scores = sparse_scores,
	.widen = sparse_widen,
};

const struct cpu_sparse *cpu_sparse_get(const char *name)
{
#if defined(__x86_64__)
	bool avx2, avx512;

	__builtin_cpu_init();
	avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	       __builtin_cpu_supports("f16c") && __builtin_cpu_supports("popcnt");
	avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
		 __builtin_cpu_supports("avx512vnni");
	if (avx512 && (!name || !strcmp(name, "avx512")))
		return &cpu_sparse_avx512;
	if (avx2 && (!name || !strcmp(name, "avx2")))
		return &cpu_sparse_avx2;
#endif
	return !name || !strcmp(name, "generic") ? &cpu_sparse_generic : NULL;
}
