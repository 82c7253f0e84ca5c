/* SPDX-License-Identifier: MIT */
/* Writes a finished job's times to its record slot (struct vnpu_record of vnpu_isa.h). */
#ifndef FW_RECORD_H
#define FW_RECORD_H

#include "fw_exec.h"
#include "fw_time.h"

/* True if the record of @prog has room for the times of commands; the engine then takes them. */
bool fw_record_wants_cmds(const struct fw_prog *prog);

/* What the times of a job's commands do not say. */
struct fw_record_job {
	const struct soc_npu *npu; /* NULL: device times are 0 */
	const void *stream;
	/* When the firmware started on the job, and when its last command was done
	 * (CLOCK_MONOTONIC). */
	uint64_t start_ns, end_ns;
	unsigned int nr_workers;
};

/*
 * Writes the times of the successful @job through the port's guard: first those of commands, then
 * the header. 0, or the guard's error and job->fault.
 */
int fw_record_write(struct fw_exec_job *job, const struct fw_record_job *of);

#endif /* FW_RECORD_H */
