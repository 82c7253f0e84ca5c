/* SPDX-License-Identifier: MIT */
/*
 * Jobs that wait in the device: a FIFO per queue, and the choice of the next job.
 *
 * - Jobs of a queue run in order.
 * - Higher priorities go first, with one exception: once per FW_AGING_NS, the job that has been
 *   first in a queue of lower priority for longest goes first, if for longer than FW_AGING_NS. Low
 *   priorities thus get at least one job per FW_AGING_NS, at no further cost to higher ones.
 * - Within a priority, the context with the least device time at that priority goes first; its
 *   queues alternate. A context that arrives or returns starts with the device time of the context
 *   served last if that is more than its own: it gains no credit by idling, and others do not pay
 *   for its time long ago.
 */
#ifndef FW_QUEUE_H
#define FW_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/vnpu_fw.h>

#define FW_NR_PRIORITIES 3
#define FW_AGING_NS 250000000ull

struct fw_queues;

/* @nr_queues FIFOs of contexts 1..@nr_ctx that share room for @nr_jobs. NULL: out of memory. */
struct fw_queues *fw_queues_create(uint32_t nr_queues, uint32_t nr_ctx, uint32_t nr_jobs);
void fw_queues_destroy(struct fw_queues *q);

/* Appends a job with valid queue, context and priority to its queue. False if there is no room. */
bool fw_queues_push(struct fw_queues *q, const struct vnpu_fw_sqe *job, uint64_t now_ns);
/* Takes the next job by the rules above. False if there is none. */
bool fw_queues_pop(struct fw_queues *q, uint64_t now_ns, struct vnpu_fw_sqe *job);
/* Has the effect of pushing @job and taking it while no other job waits, but needs no room. */
void fw_queues_pass(struct fw_queues *q, const struct vnpu_fw_sqe *job);
/* Adds @ns of device time to the context of a job that was taken. */
void fw_queues_charge(struct fw_queues *q, const struct vnpu_fw_sqe *job, uint64_t ns);
/* Marks the job @tag of @queue as cancelled if it is there. */
void fw_queues_cancel(struct fw_queues *q, uint32_t queue, uint64_t tag);
/* Takes the first job of @queue if it is cancelled. False if not, or if there is none. */
bool fw_queues_pop_canceled(struct fw_queues *q, uint32_t queue, uint64_t now_ns,
			    struct vnpu_fw_sqe *job);
/*
 * Takes the first job of any queue whose first job is of @ctx. False if none is left; the context's
 * device time is then reset.
 */
bool fw_queues_pop_ctx(struct fw_queues *q, uint32_t ctx, uint64_t now_ns, struct vnpu_fw_sqe *job);
bool fw_queues_empty(const struct fw_queues *q);

#endif /* FW_QUEUE_H */
