/* SPDX-License-Identifier: MIT */
/*
 * The NPU lane: jobs of libnpu, in the session's memory.
 *
 * A slice of a matmul and a subgraph are jobs with programs of their own. A chunk is one job, and
 * its logits another one, submitted together; a single token is one job. If the chunk's work says
 * so, its job leaves out most of the last layer, and that of the logits computes it for one row.
 *
 * Programs are static, so fewer rows are padded. The results of padding are not used; in the KV
 * cache they are beyond n_past and overwritten before they are read.
 *
 * npu_programs.c caches programs, made when they are first needed, and the jobs that bind them to
 * weights and memory.
 */
#ifndef NPU_LANE_H
#define NPU_LANE_H

#include "graphs.h"
#include "lane.h"

/* 0 or -errno with the error line. */
int lane_npu_create(struct lane_memory *memory, struct lane **lane);

/* ---- inside ---- */

struct npu_programs;

/* @made_ns: counts the time for making programs. */
struct npu_programs *npu_programs_create(const struct lane_memory *memory, uint64_t *made_ns);
void npu_programs_free(struct npu_programs *programs);

/* A program's job and what it is bound to; the cache owns it. */
struct npu_binding {
	struct npu_job *job;
	unsigned int layer, x_row, y_row;
	const struct llm_area *x, *y;
	uint64_t seqno, used; /* of the last submission; when it was last used */
	struct npu_binding *next;
};

/*
 * Find the job of a slice, or of a whole program that reads rows x_row.. of @x and writes @y; make
 * it, and its program, if it is not in the cache. If a program has too many jobs, the least
 * recently used one is bound again, after @wait for the seqno of its last submission.
 */
struct npu_whole {
	struct lane_whole graph;
	const struct llm_area *x, *y;
	unsigned int x_row;
};
typedef int (*npu_wait_fn)(void *ud, uint64_t seqno);
/* The same for a subgraph of a chunk whose activations begin at row @row. */
int npu_programs_subgraph(struct npu_programs *p, const struct lane_subgraph *sub, unsigned int row,
			  npu_wait_fn wait, void *ud, struct npu_binding **binding);
int npu_programs_slice(struct npu_programs *p, const struct lane_slice *slice, npu_wait_fn wait,
		       void *ud, struct npu_binding **binding);
int npu_programs_whole(struct npu_programs *p, const struct npu_whole *whole, npu_wait_fn wait,
		       void *ud, struct npu_binding **binding);

/* Makes the program of @graph, of *@bytes without its scratch memory, if it is not in the cache;
 * and frees it with its jobs. Another thread may be in the functions above, with other programs. */
int npu_programs_load(struct npu_programs *p, const struct lane_whole *graph, uint64_t *bytes);
void npu_programs_drop(struct npu_programs *p, const struct lane_whole *graph);

#endif /* NPU_LANE_H */
