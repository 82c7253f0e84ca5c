/* SPDX-License-Identifier: MIT */
/*
 * The engine: runs a decoded job on all workers.
 */
#ifndef FW_EXEC_H
#define FW_EXEC_H

#include "fw.h"
#include "fw_stream.h"
#include "kernels.h"

struct fw_exec;

/* One job, as the command processor hands it over. */
struct fw_exec_job {
	struct fw_prog *prog; /* only its regions' times are written */
	bool timed; /* say when each region began and ended */
	const struct fw_port_ops *ops;
	void *port_priv;
	struct fw_aspace *as;
	/* Called by the thread of fw_exec_run() between tiles; may call fw_exec_cancel(). */
	void (*poll)(void *ud);
	/* Sleep until @until_ns (CLOCK_MONOTONIC) or until there may be something to poll. */
	void (*sleep)(void *ud, uint64_t until_ns);
	void *ud;
	__u64 *progress; /* counted up with each tile; a sleep makes none */
	struct fw_fault fault; /* out, if the result is VNPU_FW_FAULT */
	/* Out, if what it says of its weights in memory cannot be (fw_tile.h); else as it was. */
	const struct fw_cmd *failed;
};

/* @threads: workers, the caller of fw_exec_run() included. NULL with errno set. */
struct fw_exec *fw_exec_create(const struct fw_kernels *kernels, unsigned int threads);
void fw_exec_destroy(struct fw_exec *ex);

/* Runs the job to its end: VNPU_FW_OK, _FAULT, _CANCELED or _FAILED. */
int fw_exec_run(struct fw_exec *ex, struct fw_exec_job *job);
/* Stops the running job at the next tile. From poll() only. */
void fw_exec_cancel(struct fw_exec *ex);

uint64_t fw_now_ns(void);

#endif /* FW_EXEC_H */
