/* SPDX-License-Identifier: MIT */
/* The GPU lane: any OpenCL device, through gpu.h. */
#ifndef GPU_LANE_H
#define GPU_LANE_H

#include "lane.h"

/* Maps the packed weights for the GPU of @loaded, for all sessions. Unload also closes the GPU. */
int lane_gpu_load(struct llm_loaded *loaded);
void lane_gpu_unload(struct llm_loaded *loaded);

/* 0 or -errno with the error line. */
int lane_gpu_create(struct lane_memory *memory, struct lane **lane);

#endif /* GPU_LANE_H */
