/* SPDX-License-Identifier: MIT */
/*
 * A job's device time: how long the modelled NPU would take for the job. Pure functions of a
 * decoded job and a soc file's [npu] numbers; they do not depend on this host's speed or the number
 * of workers.
 *
 * The modelled NPU runs the commands of a job one after another, in order:
 *
 *	job = launch_us + sum over its commands
 *
 *	MATMUL_I8	npu_time_matmul(): INT8, weights of 8 bits, which are stationary;
 *			of a command that is VNPU_CMD_PERMUTED, streamed
 *			(HeteroLLM 3.2, llm.npu table 3); of one that is
 *			VNPU_CMD_SHAPED, with lines of that width (llm.npu 4)
 *	MATMUL_W4	the same with weights of 4 bits
 *	MATMUL_W4F	the same with F16 activations
 *	MATMUL_WK	as MATMUL_I8 with the panels' average width; below 8 bits, the vector
 *			engine first widens all weights
 *	MATMUL_KQ	as MATMUL_W4 with the width of the type's numbers and its groups
 *	ATTN		npu_time_attention(): F16, over the average number of cache rows that
 *			its queries attend to (shadowAttn 3.4)
 *	ATTN_MASK	as ATTN over the rows inside its window: the modelled NPU multiplies what a
 *			mask hides too; a cap takes the vector engine's time for each score
 *	ATTN_AT		as ATTN_MASK, with positions that are spread evenly over its span
 *	QK_I8		the first half of that, INT8, over all columns that the last row gets; of
 *			commands that follow one another between two barriers only the first has
 *			the set-up (shadowAttn 3.4)
 *	ATTN_I8		as ATTN in INT8, with the set-ups of QK_I8
 *	COPY		the bytes read and written
 *	SLEEP		its duration
 *	BARRIER, END	0
 *	the others	the vector engine: npu_time_vector() with the operations
 *			per element of npu_time.h
 *
 * A command takes the longer of its time in the engines and the time to move its bytes at the NPU's
 * own bandwidth (npu_time_alone_ns): the device models no other lanes. Floats count as F16, as the
 * SoC would store them, though this device computes in F32; COPY has no type and counts its bytes
 * as they are. runtime/pass/plan.c counts a forward pass in the same way, so that a matmul takes
 * the same time in a plan and on the device.
 *
 * Units: nanoseconds, rounded to the nearest for each command, so that they add up to the job's
 * exactly; and cycles of the NPU's clock, as shown by a counter that starts with the job: those of
 * a command are the difference between its start and its end.
 */
#ifndef FW_TIME_H
#define FW_TIME_H

#include "fw_stream.h"
#include "npu_time.h"

/* Start and completion of a job: launch_us. */
uint64_t fw_time_launch_ns(const struct soc_npu *npu);
/* One command. */
uint64_t fw_time_cmd_ns(const struct soc_npu *npu, const struct fw_cmd *cmd);
/* A whole job: launch, commands and SLEEPs. Saturates at UINT64_MAX. */
uint64_t fw_time_job_ns(const struct soc_npu *npu, const struct fw_prog *prog);
/* The value of the cycle counter after @ns. */
uint64_t fw_time_cycles(const struct soc_npu *npu, uint64_t ns);

/* One command of a stream; BARRIER, SLEEP and END are commands too. */
struct fw_time_step {
	uint32_t index;
	uint32_t region; /* of struct fw_prog */
	uint16_t op;
	uint64_t start_ns, ns, cycles; /* start: since the job's start, which includes the launch */
};

/* Iterates over the commands of a stream. The fields are private to fw_time.c. */
struct fw_time_walk {
	const struct soc_npu *npu;
	const struct fw_prog *prog;
	const uint8_t *next;
	uint32_t index, cmd, region;
	uint64_t ns;
};

/* @prog was decoded from @stream; neither may change meanwhile. @npu NULL: all times are 0. */
void fw_time_begin(struct fw_time_walk *w, const struct soc_npu *npu, const struct fw_prog *prog,
		   const void *stream);
/* The next command. Call it at most prog->nr_stream_cmds times. */
void fw_time_next(struct fw_time_walk *w, struct fw_time_step *step);

#endif /* FW_TIME_H */
