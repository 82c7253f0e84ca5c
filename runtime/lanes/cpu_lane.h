/* SPDX-License-Identifier: MIT */
/*
 * The CPU lane computes every operator, on the engine's threads. Its works have ended when begin
 * returns.
 *
 * Its float operators are the device's own kernels (kernels/), so the lane makes no difference to
 * the results. Rows depend on one another only by attention, over exactly the positions that a row
 * may see, so results do not depend on the division into chunks.
 */
#ifndef CPU_LANE_H
#define CPU_LANE_H

#include "lane.h"

/* NULL: no memory. */
struct lane *lane_cpu_create(struct lane_memory *memory);

/* Computes @call, for lanes whose works the CPU takes over. 0 or -errno with the error line. */
int lane_cpu_run(struct lane_memory *memory, const struct lane_call *call);

/* Floats of scratch memory that each thread needs, and bytes of a row of the embeddings. */
size_t lane_cpu_scratch(const struct llm_model *model);
size_t lane_embedding_bytes(const struct llm_model *model);
/* Memory of shadow outliers: floats of a row of their results, 0 without them; the rest, for
 * lane_memory.shadow_work, 0 or -ENOMEM with the error line. */
size_t lane_shadow_cols(const struct llm_loaded *loaded);
int lane_shadow_init(struct lane_memory *memory);
void lane_shadow_fini(struct lane_memory *memory);
/* What they have cost so far: as in struct llm_shadow_stats. All 0 without them. */
struct lane_shadow_sums {
	uint64_t merges, outliers, ns;
};
struct lane_shadow_sums lane_shadow_sums(const struct lane_memory *memory);

/* ---- inside ---- */

int lane_cpu_slices_packed(struct lane_memory *m, const struct lane_slice *slices, unsigned int n);
int lane_cpu_slices_f32(struct lane_memory *m, const struct lane_slice *slices, unsigned int n);

/* @n slices that do not wait for one another, with the packed matrices (cpu_packed.c) or with the
 * file's (cpu_f32.c). 0 or -ENOMEM with the error line. */
static inline int lane_cpu_slices(struct lane_memory *m, const struct lane_slice *slices,
				  unsigned int n)
{
	return m->loaded->packed.layers ? lane_cpu_slices_packed(m, slices, n)
					: lane_cpu_slices_f32(m, slices, n);
}

/* Shadow outliers (cpu_shadow.c): LLM_OP_SHADOW, 0 or -errno with the error line; LLM_OP_MERGE. */
int lane_cpu_shadow(struct lane_memory *m, const struct lane_call *call);
void lane_cpu_merge(struct lane_memory *m, const struct lane_call *call);

/* Caps some of a row's logits, if the model's are capped. */
static inline void lane_cap_logits(const struct llm_loaded *l, float *logits, size_t n)
{
	if (l->model.logit_cap > 0)
		l->floats->act(logits, logits, n, VNPU_ACT_CAP, l->model.logit_cap);
}

/* Rows of a matrix that a thread widens at a time; a few thousand columns fit its cache. */
#define CPU_WIDE_ROWS 16

#endif /* CPU_LANE_H */
