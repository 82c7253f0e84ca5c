/* SPDX-License-Identifier: MIT */
/* The engine: runs a decoded job on all workers. */
#ifndef FW_EXEC_H
#define FW_EXEC_H

#include "fw.h"
#include "fw_stream.h"
#include "kernels.h"

struct fw_exec;

/* One job from the command processor. */
struct fw_exec_job {
	struct fw_prog *prog; /* not written, except for the times of regions and commands */
	/* Record when each region began and ended, and how long workers were busy with commands. */
	bool timed;
	const struct fw_port_ops *ops;
	void *port_priv;
	struct fw_aspace *as;
	/* Called between tiles by the thread in fw_exec_run(); may call fw_exec_cancel(). */
	void (*poll)(void *ud);
	/* Sleeps until @until_ns (CLOCK_MONOTONIC) or until there may be something to poll. */
	void (*sleep)(void *ud, uint64_t until_ns);
	void *ud;
	__u64 *progress; /* incremented with each tile, not during a sleep */
	struct fw_fault fault; /* out, if the job ends with VNPU_FW_FAULT */
	uint8_t *parts; /* FW_PARTS_BYTES; set by fw_exec_run() */
	/* Out: the command whose panel table in memory is invalid (fw_tile.h); else unchanged. */
	const struct fw_cmd *failed;
};

/* @threads: number of workers with the caller of fw_exec_run(). NULL with errno set. */
struct fw_exec *fw_exec_create(const struct fw_kernels *kernels, unsigned int threads);
void fw_exec_destroy(struct fw_exec *ex);
unsigned int fw_exec_workers(const struct fw_exec *ex);

/* Runs the job to its end. Returns VNPU_FW_OK, _FAULT, _CANCELED or _FAILED. */
int fw_exec_run(struct fw_exec *ex, struct fw_exec_job *job);
/* Stops the running job at the next tile. Only from poll(). */
void fw_exec_cancel(struct fw_exec *ex);

uint64_t fw_now_ns(void);

#endif /* FW_EXEC_H */
