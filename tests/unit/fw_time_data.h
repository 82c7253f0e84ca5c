/* SPDX-License-Identifier: MIT */
/* For tests of device times: a phone's SoC, and the times of jobs and commands on its NPU. */
#ifndef FW_TIME_DATA_H
#define FW_TIME_DATA_H

#include "fw_all_ops.h"

#include <math.h>

#include "fw_time.h"
#include "soc.h"

/* Larger than any address space, so that every shape fits into its slot. */
#define AS_BITS 44
#define BIG (1ull << AS_BITS)

static struct soc *soc;

static UNUSED int setup(void **state)
{
	char why[512];

	soc = soc_load("sd8gen3", why, sizeof(why));
	if (!soc)
		puts(why);
	rng_seed("device times");
	return !soc;
}

static UNUSED int teardown(void **state)
{
	soc_free(soc);
	return 0;
}

static UNUSED uint32_t any(uint32_t min, uint32_t max)
{
	return min + rng_below(max - min + 1);
}

static UNUSED double launch_ns(void)
{
	return soc->npu.launch_us * 1000;
}

/* One slot for everything: only shapes matter. */
static UNUSED void begin(struct job_builder *b)
{
	job_begin(b);
	job_slot(b, 0, BIG, VNPU_SLOT_READ | VNPU_SLOT_WRITE);
}

static UNUSED void decode(struct fw_prog *prog, struct job_builder *b)
{
	char why[256];

	if (fw_prog_decode(prog, b->stream, b->stream_bytes, b->table, b->table_bytes, BIG, why,
			   sizeof(why)))
		fail_msg("%s", why);
}

static UNUSED uint64_t job_ns(struct job_builder *b)
{
	struct fw_prog prog = { 0 };
	uint64_t ns;

	job_end(b);
	decode(&prog, b);
	ns = fw_time_job_ns(&soc->npu, &prog);
	fw_prog_free(&prog);
	return ns;
}

/* A job of one matmul, which may be permuted. */
static UNUSED uint64_t cmd_ns(uint16_t op, void *cmd, uint32_t bytes, bool permuted)
{
	struct job_builder b;
	struct vnpu_cmd *hdr;

	begin(&b);
	hdr = job_cmd(&b, op, cmd, bytes);
	hdr->flags = permuted ? VNPU_CMD_PERMUTED : 0;
	return job_ns(&b);
}

#endif /* FW_TIME_DATA_H */
