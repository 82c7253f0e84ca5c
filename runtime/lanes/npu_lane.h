/* SPDX-License-Identifier: MIT */
/*
 * The NPU's lane: jobs of libnpu, in the session's memory.
 *
 * A slice of a matmul is a job of a program of its own; a whole chunk is one job, and its logits a
 * second, submitted together; a token is one job. Programs are static: what has fewer rows is
 * padded. Results of rows beyond a chunk's tokens are not used, and what they leave in the cache
 * lies beyond n_past, where it is overwritten before it is read.
 *
 * There is one cache of programs (npu_programs.c), made when they are first needed, with the jobs
 * that bind them to weights and memory.
 */
#ifndef NPU_LANE_H
#define NPU_LANE_H

#include "graphs.h"
#include "lane.h"

/* 0 or -errno with the error line. */
int lane_npu_create(struct lane_memory *memory, struct lane **lane);

/* ---- inside ---- */

struct npu_programs;

struct npu_programs *npu_programs_create(const struct lane_memory *memory);
void npu_programs_free(struct npu_programs *programs);

/* A program, bound; the cache's. */
struct npu_binding {
	struct npu_job *job;
	unsigned int layer, x_row, y_row;
	const struct llm_area *x, *y;
	uint64_t seqno, used; /* last submitted; when */
	struct npu_binding *next;
};

/*
 * The job of a slice, or of a whole program from rows x_row.. of @x to rows y_row.. of @y;
 * made, with its program, if it is not there. Where there are too many of a program's, the
 * one that was used the longest ago is bound anew: @wait is called before that with the
 * number of its last submission.
 */
struct npu_whole {
	enum llm_graph graph;
	unsigned int rows;
	const struct llm_area *x, *y;
	unsigned int x_row;
};
typedef int (*npu_wait_fn)(void *ud, uint64_t seqno);
int npu_programs_slice(struct npu_programs *p, const struct lane_slice *slice, npu_wait_fn wait,
		       void *ud, struct npu_binding **binding);
int npu_programs_whole(struct npu_programs *p, const struct npu_whole *whole, npu_wait_fn wait,
		       void *ud, struct npu_binding **binding);

#endif /* NPU_LANE_H */
