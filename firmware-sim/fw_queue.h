/* SPDX-License-Identifier: MIT */
/*
 * Jobs that wait in the device: a FIFO per queue, and which one is next.
 *
 * The rule
 * - Jobs of a queue run in their order.
 * - A higher priority goes first, but not for ever: once in FW_AGING_NS a job goes first that has
 *   been the first of a queue of lower priority for longer than that, the oldest of them. So low
 *   priorities get a job each FW_AGING_NS at worst, and cost the higher ones no more.
 * - Within a priority the context goes first that has used the least device time there; its queues
 *   take turns. A context that comes, or comes back, starts with what the one that was served last
 *   had used, if that is more than it had itself: idling earns no credit, and the time of long ago
 *   is no debt of the others.
 */
#ifndef FW_QUEUE_H
#define FW_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/vnpu_fw.h>

#define FW_NR_PRIORITIES 3
#define FW_AGING_NS 250000000ull

struct fw_queues;

/* @nr_queues FIFOs of contexts 1..@nr_ctx that share @nr_jobs places. NULL: no memory. */
struct fw_queues *fw_queues_create(uint32_t nr_queues, uint32_t nr_ctx, uint32_t nr_jobs);
void fw_queues_destroy(struct fw_queues *q);

/* Appends a job to its queue; queue, context and priority were checked. False: no place is free. */
bool fw_queues_push(struct fw_queues *q, const struct vnpu_fw_sqe *job, uint64_t now_ns);
/* Takes the next job by the rule above. False: there is none. */
bool fw_queues_pop(struct fw_queues *q, uint64_t now_ns, struct vnpu_fw_sqe *job);
/*
 * What pushing @job and taking it would do while no other job waits: it is next by any
 * rule, and needs no place.
 */
void fw_queues_pass(struct fw_queues *q, const struct vnpu_fw_sqe *job);
/* The device has spent @ns on a job that was taken. */
void fw_queues_charge(struct fw_queues *q, const struct vnpu_fw_sqe *job, uint64_t ns);
/* Marks the job @tag of @queue, if it is there, as cancelled. */
void fw_queues_cancel(struct fw_queues *q, uint32_t queue, uint64_t tag);
/* Takes the first job of @queue if it is cancelled. False: it is not, or there is none. */
bool fw_queues_pop_canceled(struct fw_queues *q, uint32_t queue, uint64_t now_ns,
			    struct vnpu_fw_sqe *job);
/*
 * Takes the first job of any one queue that is of @ctx. False: there is none left; what the
 * context used is forgotten.
 */
bool fw_queues_pop_ctx(struct fw_queues *q, uint32_t ctx, uint64_t now_ns, struct vnpu_fw_sqe *job);
bool fw_queues_empty(const struct fw_queues *q);

#endif /* FW_QUEUE_H */
