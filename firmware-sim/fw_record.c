// SPDX-License-Identifier: MIT
#include "fw_record.h"

#include <string.h>

/* Records written at a time; the rings are polled in between. */
#define CHUNK 64

struct copy_out {
	void *dst;
	const void *src;
	size_t bytes;
};

static void copy_out(void *arg)
{
	struct copy_out *c = arg;

	memcpy(c->dst, c->src, c->bytes);
}

static int put(struct fw_exec_job *job, uint64_t offset, const void *src, size_t bytes)
{
	struct fw_access acc = { .va = job->prog->record_va + offset,
				 .size = bytes,
				 .write = true };
	struct copy_out arg = { job->as->base + acc.va, src, bytes };

	return job->ops->guard(job->port_priv, job->as, &acc, 1, copy_out, &arg, &job->fault);
}

static uint32_t nr_records(const struct fw_prog *prog)
{
	uint64_t room =
		(prog->record_bytes - sizeof(struct vnpu_record)) / sizeof(struct vnpu_record_cmd);

	return room < prog->nr_stream_cmds ? room : prog->nr_stream_cmds;
}

bool fw_record_wants_cmds(const struct fw_prog *prog)
{
	/* A stream has at least one command, its END. */
	return prog->record_bytes >= sizeof(struct vnpu_record) + sizeof(struct vnpu_record_cmd);
}

static void next_record(struct fw_time_walk *walk, uint64_t start_ns,
			struct vnpu_record_cmd *record)
{
	const struct fw_region *region;
	struct fw_time_step step;

	fw_time_next(walk, &step);
	region = &walk->prog->regions[step.region];
	*record = (struct vnpu_record_cmd){
		.index = step.index,
		.op = step.op,
		.device_start_ns = step.start_ns,
		.device_ns = step.ns,
		.device_cycles = step.cycles,
		.wall_start_ns = region->start_ns - start_ns,
		.wall_end_ns = region->end_ns - start_ns,
	};
}

static int put_cmds(struct fw_exec_job *job, const struct soc_npu *npu, const void *stream,
		    uint64_t start_ns, uint32_t nr)
{
	struct vnpu_record_cmd chunk[CHUNK];
	struct fw_time_walk walk;
	uint32_t done, i, n;
	int err = 0;

	fw_time_begin(&walk, npu, job->prog, stream);
	for (done = 0; done < nr && !err; done += n) {
		n = nr - done < CHUNK ? nr - done : CHUNK;
		for (i = 0; i < n; i++)
			next_record(&walk, start_ns, &chunk[i]);
		err = put(job, sizeof(struct vnpu_record) + done * sizeof(chunk[0]), chunk,
			  n * sizeof(chunk[0]));
		job->poll(job->ud);
	}
	return err;
}

int fw_record_write(struct fw_exec_job *job, const struct soc_npu *npu, const void *stream,
		    uint64_t start_ns, uint64_t end_ns)
{
	uint64_t device_ns = npu ? fw_time_job_ns(npu, job->prog) : 0;
	struct vnpu_record record = {
		.device_ns = device_ns,
		.device_cycles = npu ? fw_time_cycles(npu, device_ns) : 0,
		.wall_ns = end_ns - start_ns,
		.nr_cmds = job->prog->nr_stream_cmds,
		.nr_records = fw_record_wants_cmds(job->prog) ? nr_records(job->prog) : 0,
	};
	int err = record.nr_records ? put_cmds(job, npu, stream, start_ns, record.nr_records) : 0;

	return err ? err : put(job, 0, &record, sizeof(record));
}
