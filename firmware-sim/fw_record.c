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

static int put_cmds(struct fw_exec_job *job, const struct fw_record_job *of, uint32_t nr)
{
	struct vnpu_record_cmd chunk[CHUNK];
	struct fw_time_walk walk;
	uint32_t done, i, n;
	int err = 0;

	fw_time_begin(&walk, of->npu, job->prog, of->stream);
	for (done = 0; done < nr && !err; done += n) {
		n = nr - done < CHUNK ? nr - done : CHUNK;
		for (i = 0; i < n; i++)
			next_record(&walk, of->start_ns, &chunk[i]);
		err = put(job, sizeof(struct vnpu_record) + done * sizeof(chunk[0]), chunk,
			  n * sizeof(chunk[0]));
		job->poll(job->ud);
	}
	return err;
}

/* Writes how long workers were busy with each command, if the slot has room for all of them. */
static int put_work(struct fw_exec_job *job, unsigned int nr_workers)
{
	struct vnpu_record_work work = { .nr_workers = nr_workers };
	const struct fw_prog *prog = job->prog;
	uint64_t nr = prog->nr_stream_cmds, chunk[CHUNK],
		 at = sizeof(struct vnpu_record) + nr * sizeof(struct vnpu_record_cmd);
	uint32_t done, i, n, cmd = 0;
	int err;

	if (prog->record_bytes < at + sizeof(work) + nr * sizeof(chunk[0]))
		return 0;
	err = put(job, at, &work, sizeof(work));
	at += sizeof(work);
	for (done = 0; done < nr && !err; done += n) {
		n = nr - done < CHUNK ? (uint32_t)nr - done : CHUNK;
		for (i = 0; i < n; i++) {
			bool runs = cmd < prog->nr_cmds && prog->cmds[cmd].index == done + i;

			chunk[i] = runs ? prog->cmds[cmd++].busy_ns : 0;
		}
		err = put(job, at + done * sizeof(chunk[0]), chunk, n * sizeof(chunk[0]));
		job->poll(job->ud);
	}
	return err;
}

int fw_record_write(struct fw_exec_job *job, const struct fw_record_job *of)
{
	uint64_t device_ns = of->npu ? fw_time_job_ns(of->npu, job->prog) : 0;
	struct vnpu_record record = {
		.device_ns = device_ns,
		.device_cycles = of->npu ? fw_time_cycles(of->npu, device_ns) : 0,
		.wall_ns = of->end_ns - of->start_ns,
		.nr_cmds = job->prog->nr_stream_cmds,
		.nr_records = fw_record_wants_cmds(job->prog) ? nr_records(job->prog) : 0,
	};
	int err = record.nr_records ? put_cmds(job, of, record.nr_records) : 0;

	if (!err)
		err = put_work(job, of->nr_workers);
	return err ? err : put(job, 0, &record, sizeof(record));
}
