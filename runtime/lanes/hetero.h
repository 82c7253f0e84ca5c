/* SPDX-License-Identifier: MIT */
/*
 * Placements gpu and layer: the float operators on the GPU, each product on the NPU, on the GPU, or in slices on both (HeteroLLM 4).
 *
 * A chunk's plan (plan.h) has a task for each operator, and for each slice of a product. What this file's functions do is one
 * task: hetero_npu.c gives a slice to the NPU as a job of a graph of its own, hetero_gpu.c an operator or a slice to OpenCL, and
 * hetero_host.c computes those on the CPU lane where there is no OpenCL. All of them read and write the
 * session's work memory, and one copy of the packed weights: nothing is copied to cut a product or to merge its parts.
 *
 * The result of a product is the columns of its matrices side by side: q, k and v; gate and up. Slices are counted in these
 * columns, and cut at multiples of a panel's 64 in each matrix, downwards.
 */
#ifndef HETERO_H
#define HETERO_H

#include "engine.h"
#include "forward.h"
#include "gpu.h"
#include "partition.h"
#include "plan.h"

#define HETERO_MAX_MATRICES 3

/* One matrix' part of a slice. */
struct hetero_part {
	int matrix; /* enum llm_matrix; -1: the output matrix */
	const char *output; /* the graph's name of the result */
	unsigned int n; /* columns of the whole matrix' result */
	unsigned int first, cols; /* of them; cols 0: none */
	const struct llm_area *y; /* [..][n] */
};

/* What one task computes of a product: rows row.. of x and of the results. */
struct hetero_slice {
	enum plan_op op;
	unsigned int layer;
	unsigned int row, rows, graph_rows;
	unsigned int k;
	const struct llm_area *x; /* [..][k] */
	struct hetero_part parts[HETERO_MAX_MATRICES];
	unsigned int nr_parts;
	bool empty; /* its columns were too few for a panel */
};

/* The slice of task @task, whose product is cut as @cut. */
void llm_hetero_slice(const struct llm_session *s, enum plan_op op, unsigned int layer, const struct partition *cut,
		     unsigned int index, struct hetero_slice *slice);

/* Rows that work memory needs for chunks of @chunk tokens: graphs have up to so many. */
unsigned int llm_hetero_rows(enum llm_placement placement, enum llm_graphs graphs, unsigned int chunk);

/* A session's part; freed with the session. 0 or -errno with the error line. */
int llm_hetero_create(struct llm_session *s);
void llm_hetero_free(struct llm_session *s);
/* The plan of a pass; it belongs to the session, and stays until the next pass. */
int llm_hetero_plan(const struct llm_pass *pass, struct sched_plan **plan);
/* What waits of such a pass took so far. */
struct waits *llm_hetero_pass_waits(struct llm_session *s, const struct llm_pass *pass);
/* The same, of @tokens or of chunks; NULL: no session of these placements. */
const struct waits *llm_hetero_waits(const struct llm_session *s, bool tokens);

/* ---- the NPU's part (hetero_npu.c) ---- */

struct hetero_npu;
int hetero_npu_create(struct llm_session *s, struct hetero_npu **npu);
void hetero_npu_free(struct hetero_npu *npu);
/* Submits the job of @slice, whose graph is made if it is not there; *seqno is its number in the queue. */
int hetero_npu_begin(struct hetero_npu *npu, const struct hetero_slice *slice, uint64_t *seqno);
/* 1: it has ended; 0: not yet; -errno. */
int hetero_npu_poll(struct hetero_npu *npu, uint64_t seqno);
int hetero_npu_wait(struct hetero_npu *npu, uint64_t seqno);

/* ---- the GPU's part: by OpenCL (hetero_gpu.c), or on the host (hetero_host.c) ---- */

/* An operator, or a slice of a product (@slice, else NULL), of the pass under way. */
struct hetero_gpu;
/* An engine's part: its weights, which are mapped once; unload closes the engine's GPU too. */
int hetero_gpu_load(struct llm_engine *e);
void hetero_gpu_unload(struct llm_engine *e);
int hetero_gpu_create(struct llm_session *s, struct hetero_gpu **gpu);
void hetero_gpu_free(struct hetero_gpu *gpu);
/* Puts it into the queue. @flagged: its end is to be seen by poll, by number *ticket, which is
 * set now and then for others too. */
int hetero_gpu_begin(struct hetero_gpu *gpu, const struct llm_pass *pass, enum plan_op op, unsigned int layer,
		    const struct hetero_slice *slice, bool flagged, uint32_t *ticket);
int hetero_gpu_poll(struct hetero_gpu *gpu, uint32_t ticket);
/* Until all that is in the queue is done. */
int hetero_gpu_wait(struct hetero_gpu *gpu);

int hetero_host_run(const struct llm_pass *pass, enum plan_op op, unsigned int layer, const struct hetero_slice *slice);

#endif /* HETERO_H */
