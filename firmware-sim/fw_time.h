/* SPDX-License-Identifier: MIT */
/*
 * A job's device time: what the modelled NPU needs for what the firmware runs. Pure functions of a
 * decoded job and of a profile's [npu] numbers; neither this host's speed nor the number of
 * workers takes part in it.
 *
 * The modelled NPU runs the commands of a job one after another, in their order:
 *
 *	job = launch_us + sum over its commands
 *
 *	MATMUL_I8	npu_time_matmul(): INT8, stationary weights of 8 bits
 *			(HeteroLLM 3.2, llm.npu table 3)
 *	MATMUL_W4	the same with weights of 4 bits
 *	MATMUL_W4F	the same with F16 activations
 *	MATMUL_WK	as MATMUL_I8 with the panels' average width, and below 8 bits the vector
 *			engine widens all of them first
 *	ATTN		npu_time_attention(): F16, over the rows of the cache that its queries see
 *			on average (shadowAttn 3.4)
 *	COPY		its bytes, read and written
 *	SLEEP		its duration
 *	BARRIER, END	nothing
 *	the others	the vector engine: npu_time_vector() with the operations
 *			per element of npu_time.h
 *
 * A command takes the longer of its time in the engines and of its bytes at the NPU's own bandwidth
 * (npu_time_alone_ns): the device is the only lane that it knows. Floats count as F16, as the SoC
 * would hold them, though this device computes in F32; COPY, which has no type, counts its bytes as
 * they are. All of this is as runtime/pass/plan.c counts a forward pass, so that the same product
 * takes the same time in a plan and on the device.
 *
 * Units: nanoseconds, each command's rounded to the nearest, so that they add up to the job's
 * exactly; and cycles of the profile's clock, as a counter shows them that starts with the job: a
 * command's are those between its start and its end.
 */
#ifndef FW_TIME_H
#define FW_TIME_H

#include "fw_stream.h"
#include "npu_time.h"

/* A job's start and completion: launch_us. */
uint64_t fw_time_launch_ns(const struct soc_npu *npu);
/* One command. */
uint64_t fw_time_cmd_ns(const struct soc_npu *npu, const struct fw_cmd *cmd);
/* A whole job: launch, commands and SLEEPs. Sums that do not fit stay at UINT64_MAX. */
uint64_t fw_time_job_ns(const struct soc_npu *npu, const struct fw_prog *prog);
/* What the cycle counter shows after @ns. */
uint64_t fw_time_cycles(const struct soc_npu *npu, uint64_t ns);

/* One command of a stream, BARRIER, SLEEP and END included. */
struct fw_time_step {
	uint32_t index;
	uint32_t region; /* of struct fw_prog */
	uint16_t op;
	uint64_t start_ns, ns, cycles; /* start: since the job's, whose launch comes first */
};

/* The commands of a stream one after another; the fields are fw_time.c's. */
struct fw_time_walk {
	const struct soc_npu *npu;
	const struct fw_prog *prog;
	const uint8_t *next;
	uint32_t index, cmd, region;
	uint64_t ns;
};

/* @prog was decoded from @stream; both must stay as they are. @npu NULL: all times are 0. */
void fw_time_begin(struct fw_time_walk *w, const struct soc_npu *npu, const struct fw_prog *prog,
		   const void *stream);
/* The next command; may be called prog->nr_stream_cmds times. */
void fw_time_next(struct fw_time_walk *w, struct fw_time_step *step);

#endif /* FW_TIME_H */
