/* SPDX-License-Identifier: MIT */
/*
 * Jobs that wait in the device: a FIFO per queue, and which queue is next.
 */
#ifndef FW_QUEUE_H
#define FW_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "../uapi/linux/vnpu_fw.h"

#define FW_NR_PRIORITIES 3

struct fw_queues;

/* @nr_queues FIFOs that share @nr_jobs places. NULL: no memory. */
struct fw_queues *fw_queues_create(uint32_t nr_queues, uint32_t nr_jobs);
void fw_queues_destroy(struct fw_queues *q);

/* Appends a job to its queue, whose number and priority were checked. False: no place is free. */
bool fw_queues_push(struct fw_queues *q, const struct vnpu_fw_sqe *job);
/* Takes the next job: of the highest priority, the queues of one priority in turn. False: there is none. */
bool fw_queues_pop(struct fw_queues *q, struct vnpu_fw_sqe *job);
/* Takes out the job @tag of @queue. False: it is not there. */
bool fw_queues_cancel(struct fw_queues *q, uint32_t queue, uint64_t tag, struct vnpu_fw_sqe *job);
/* Takes out any one job of @ctx. False: there is none left. */
bool fw_queues_pop_ctx(struct fw_queues *q, uint32_t ctx, struct vnpu_fw_sqe *job);
bool fw_queues_empty(const struct fw_queues *q);

#endif /* FW_QUEUE_H */
