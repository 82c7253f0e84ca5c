/* SPDX-License-Identifier: MIT */
/*
 * A finished job's times, on their way into its record slot (struct vnpu_record of vnpu_isa.h).
 */
#ifndef FW_RECORD_H
#define FW_RECORD_H

#include "fw_exec.h"
#include "fw_time.h"

/* Whether @prog has room for the times of single commands, which the engine then has to take. */
bool fw_record_wants_cmds(const struct fw_prog *prog);

/*
 * Writes the times of @job, which has succeeded, through the port's guard: first the
 * commands', then the header.
 * @stream: what job->prog was decoded from. @npu NULL: device times are 0. @start_ns, @end_ns: when
 * the firmware took the job up, and when its last command was done (CLOCK_MONOTONIC). 0, or the
 * guard's error and job->fault.
 */
int fw_record_write(struct fw_exec_job *job, const struct soc_npu *npu, const void *stream,
		    uint64_t start_ns, uint64_t end_ns);

#endif /* FW_RECORD_H */
