/* SPDX-License-Identifier: MIT */
/*
 * The breakdown of an evaluation's time: which kinds of work it went into (llm.h).
 *
 * A job of the device divides its time among its workers: an item of it is what they were busy with
 * on average, and what is left of the job is waiting.
 */
#ifndef BREAKDOWN_H
#define BREAKDOWN_H

#include "npu.h"

enum breakdown_item {
	BREAKDOWN_MATMUL,
	BREAKDOWN_ATTENTION,
	BREAKDOWN_STORE,
	BREAKDOWN_ROPE,
	BREAKDOWN_NORM,
	BREAKDOWN_QUANT,
	BREAKDOWN_OUTLIERS,
	BREAKDOWN_OTHER,
	BREAKDOWN_WAITING,
	BREAKDOWN_START,
	BREAKDOWN_RUNTIME,
	BREAKDOWN_SAMPLING,
	BREAKDOWN_ITEMS,
};

/* Adds the times of a job to the items up to BREAKDOWN_START; their sum is the job's wall time. */
void breakdown_add(uint64_t item_ns[BREAKDOWN_ITEMS], const struct npu_job_work *job);

#endif /* BREAKDOWN_H */
