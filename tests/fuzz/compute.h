/* SPDX-License-Identifier: MIT */
/*
 * A client that computes: small matmuls on a vnpu whose results are all known bit for bit, because
 * the operands are small integers.
 */
#ifndef COMPUTE_H
#define COMPUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "npu.h"

#define COMPUTE_SLOTS 3

struct compute_slot {
	struct npu_job *job;
	struct npu_buffer *x, *y;
	uint64_t seqno;
};

struct compute {
	struct npu_device *dev;
	struct npu_context *ctx;
	struct npu_queue *queue;
	struct npu_buffer *w;
	struct compute_slot slots[COMPUTE_SLOTS];
};

/*
 * Opens the device behind @fd, an open node. Takes ownership of @fd, on failure too. 0 or -errno
 * with npu_error().
 */
int compute_open(struct compute *c, int fd);
void compute_close(struct compute *c);

/* Creates a context with jobs of @timeout_ms. On failure nothing of it is left. */
int compute_begin(struct compute *c, uint32_t timeout_ms);
void compute_end(struct compute *c);

/* Submits a job with random operands and a cleared result; it signals @sync unless that is NULL. */
int compute_submit(struct compute *c, unsigned int slot, const struct npu_sync *sync);
/* True if the result is right. Only after the job has succeeded. */
bool compute_check(const struct compute *c, unsigned int slot);

#endif /* COMPUTE_H */
