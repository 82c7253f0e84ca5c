// SPDX-License-Identifier: MIT
/*
 * Jobs: a program with its operands, that is a binding table in a buffer of its own, and the times
 * of its runs.
 *
 * Slots: the image's symbols, then its constants, then scratch memory, then the record of times.
 * Scratch memory belongs to the queue: jobs of one queue run one after another and can share it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "isa_ops.h"
#include "npu_private.h"
#include "probes.h"

/* The record's slot follows those of the program. */
static void npu_job_point_record(struct npu_job *job, struct vnpu_record *record, uint64_t va,
				 uint64_t bytes)
{
	job->record = record;
	job->slots[job->prog->image.nr_slots] = (struct vnpu_slot){
		.va = va,
		.size_bytes = bytes,
		.flags = VNPU_SLOT_WRITE,
	};
}

static uint64_t npu_job_record_offset(const struct npu_job *job)
{
	return (job->table_bytes + 63) & ~63ull;
}

/* The buffer has the table and then the record, the only part to which the device has a slot. */
static int npu_job_init(struct npu_job *job)
{
	const struct npu_image *img = &job->prog->image;
	bool timed = job->prog->ctx->dev->info.isa_version >= (1u << 16 | 1);
	size_t hdr_bytes = timed ? sizeof(struct vnpu_table_hdr) : VNPU_TABLE_HDR_BYTES_1_0;
	uint32_t nr_slots = img->nr_slots + timed;
	struct vnpu_table_hdr hdr = {
		.magic = VNPU_TABLE_MAGIC,
		.version = timed ? VNPU_ISA_VERSION : VNPU_ISA_MAJOR << 16,
		.nr_slots = nr_slots,
		.nr_params = img->nr_params,
		.record_slot = img->nr_slots,
	};
	int ret;

	job->bound = calloc(img->nr_symbols + 1, sizeof(struct npu_buffer *));
	if (!job->bound)
		return npu_fail(-ENOMEM, "job of %s: out of memory", img->note.name);
	job->table_bytes = (uint32_t)(hdr_bytes + nr_slots * sizeof(struct vnpu_slot) +
				      img->nr_params * sizeof(uint64_t));
	ret = npu_buffer_create(job->prog->ctx,
				timed ? npu_job_record_offset(job) + sizeof(struct vnpu_record)
				      : job->table_bytes,
				timed ? 0 : NPU_BUFFER_DEVICE_READ_ONLY, &job->table);
	if (ret)
		return ret;
	memcpy(job->table->data, &hdr, hdr_bytes);
	job->slots = (struct vnpu_slot *)((uint8_t *)job->table->data + hdr_bytes);
	job->params = (uint64_t *)(job->slots + nr_slots);
	if (timed)
		npu_job_point_record(job,
				     (struct vnpu_record *)((uint8_t *)job->table->data +
							    npu_job_record_offset(job)),
				     job->table->va + npu_job_record_offset(job),
				     sizeof(struct vnpu_record));
	if (img->const_slot != VNPU_SLOT_NONE)
		job->slots[img->const_slot] = (struct vnpu_slot){
			.va = job->prog->code->va + job->prog->const_offset,
			.size_bytes = img->const_bytes,
			.flags = VNPU_SLOT_READ,
		};
	return 0;
}

int npu_job_create(struct npu_program *prog, struct npu_job **out)
{
	struct npu_job *job = calloc(1, sizeof(*job));
	int ret;

	*out = NULL;
	if (!job)
		return npu_fail(-ENOMEM, "job: out of memory");
	job->prog = npu_program_get(prog);
	ret = npu_job_init(job);
	if (ret) {
		npu_job_free(job);
		return ret;
	}
	*out = job;
	return 0;
}

bool npu_job_idle(const struct npu_job *job)
{
	return !job->queue || npu_queue_idle(job->queue, job->seqno);
}

void npu_job_free(struct npu_job *job)
{
	if (!job)
		return;
	/* The device still reads the table; a job ends in bounded time. */
	if (job->queue) {
		npu_queue_drain(job->queue, job->seqno);
		npu_queue_put(job->queue);
	}
	for (uint32_t i = 0; job->bound && i < job->prog->image.nr_symbols; i++)
		npu_buffer_free(job->bound[i]);
	npu_buffer_free(job->scratch);
	npu_buffer_free(job->records);
	npu_buffer_free(job->table);
	npu_program_free(job->prog);
	free(job->bound);
	free(job);
}

int npu_job_bind(struct npu_job *job, const char *symbol, struct npu_buffer *buf, size_t offset,
		 size_t size_bytes)
{
	static const uint32_t slot_flags[NPU_SYMBOL_KINDS] = {
		[NPU_SYMBOL_INPUT] = VNPU_SLOT_READ,
		[NPU_SYMBOL_WEIGHT] = VNPU_SLOT_READ,
		[NPU_SYMBOL_STATE] = VNPU_SLOT_READ | VNPU_SLOT_WRITE,
		/* A graph may read its own outputs. */
		[NPU_SYMBOL_OUTPUT] = VNPU_SLOT_READ | VNPU_SLOT_WRITE,
	};
	const struct npu_image *img = &job->prog->image;
	uint32_t i = 0;

	while (i < img->nr_symbols && strcmp(img->symbols[i].name, symbol))
		i++;
	if (i == img->nr_symbols)
		return npu_fail(-ENOENT, "job of %s: no symbol '%s'; npuc info lists them",
				img->note.name, symbol);
	if (!npu_job_idle(job))
		return npu_fail(-EBUSY, "job of %s: still running; wait for it before binding '%s'",
				img->note.name, symbol);
	if (buf->ctx != job->prog->ctx)
		return npu_fail(-EINVAL, "job of %s: the buffer for '%s' is of another context",
				img->note.name, symbol);
	if (offset > buf->wanted || size_bytes > buf->wanted - offset)
		return npu_fail(
			-EINVAL,
			"job of %s: %zu bytes at %zu for '%s' lie outside the buffer of %zu",
			img->note.name, size_bytes, offset, symbol, buf->wanted);
	if (offset % 64)
		return npu_fail(-EINVAL, "job of %s: offset %zu for '%s' is not a multiple of 64",
				img->note.name, offset, symbol);
	if ((slot_flags[img->symbols[i].kind] & VNPU_SLOT_WRITE) &&
	    (buf->flags & NPU_BUFFER_DEVICE_READ_ONLY))
		return npu_fail(-EACCES,
				"job of %s: it writes '%s', and the device may only read the "
				"buffer",
				img->note.name, symbol);
	if (size_bytes < img->symbols[i].bytes)
		return npu_fail(-ERANGE, "job of %s: '%s' needs %llu bytes, not %zu",
				img->note.name, symbol, (unsigned long long)img->symbols[i].bytes,
				size_bytes);
	npu_buffer_get(buf);
	npu_buffer_free(job->bound[i]);
	job->bound[i] = buf;
	npu_probe_job_bind(buf->ctx->id, (const char *)img->note.name, symbol, buf->va + offset,
			   size_bytes);
	job->slots[i] = (struct vnpu_slot){
		.va = buf->va + offset,
		.size_bytes = size_bytes,
		.flags = slot_flags[img->symbols[i].kind],
	};
	return 0;
}

int npu_job_param(struct npu_job *job, const char *param, int64_t value)
{
	const struct npu_image *img = &job->prog->image;

	for (uint32_t i = 0; i < img->nr_params; i++) {
		if (strcmp(img->params[i], param))
			continue;
		if (!npu_job_idle(job))
			return npu_fail(-EBUSY,
					"job of %s: still running; wait for it before setting '%s'",
					img->note.name, param);
		job->params[i] = (uint64_t)value;
		return 0;
	}
	return npu_fail(-ENOENT, "job of %s: no param '%s'; npuc info lists them", img->note.name,
			param);
}

void npu_job_timeout(struct npu_job *job, uint32_t timeout_ms)
{
	job->timeout_ms = timeout_ms;
}

/* ---- times ---- */

/* 0 if the device has written a record, else an error. */
static int npu_job_has_record(const struct npu_job *job)
{
	const char *name = (const char *)job->prog->image.note.name;

	if (!job->record)
		return npu_fail(
			-EOPNOTSUPP,
			"job of %s: the device has ISA 1.0, which has no times; install a newer "
			"vnpu-fw",
			name);
	if (!job->queue)
		return npu_fail(-EAGAIN, "job of %s: it was not submitted yet", name);
	if (!npu_job_idle(job))
		return npu_fail(-EBUSY,
				"job of %s: still running; wait for it before asking for its times",
				name);
	if (!npu_queue_ended(job->queue, job->seqno) || !job->record->nr_cmds)
		return npu_fail(-ENODATA, "job of %s: it did not succeed, so that it has no times",
				name);
	return 0;
}

int npu_job_times(const struct npu_job *job, struct npu_job_times *times)
{
	int ret = npu_job_has_record(job);

	if (ret)
		return ret;
	*times = (struct npu_job_times){
		.device_ns = job->record->device_ns,
		.device_cycles = job->record->device_cycles,
		.wall_ns = job->record->wall_ns,
		.nr_commands = job->record->nr_cmds,
	};
	return 0;
}

int npu_job_time_commands(struct npu_job *job, bool on)
{
	const struct npu_image *img = &job->prog->image;
	size_t bytes = sizeof(struct vnpu_record) +
		       img->note.nr_cmds * (sizeof(struct vnpu_record_cmd) + sizeof(uint64_t)) +
		       sizeof(struct vnpu_record_work);
	struct npu_buffer *home = job->table, *records = NULL;
	uint64_t offset = npu_job_record_offset(job);
	struct vnpu_record last;
	int ret;

	if (!job->record)
		return npu_fail(
			-EOPNOTSUPP,
			"job of %s: the device has ISA 1.0, which has no times; install a newer "
			"vnpu-fw",
			img->note.name);
	if (!npu_job_idle(job))
		return npu_fail(
			-EBUSY,
			"job of %s: still running; wait for it before changing what it records",
			img->note.name);
	if (on == (job->records != NULL))
		return 0;
	if (on) {
		ret = npu_buffer_create(job->prog->ctx, bytes, 0, &records);
		if (ret)
			return ret;
		home = records;
		offset = 0;
	}
	/* Keeps the times of the last submission, except those of single commands. */
	last = *job->record;
	last.nr_records = 0;
	npu_job_point_record(job, (struct vnpu_record *)((uint8_t *)home->data + offset),
			     home->va + offset, on ? bytes : sizeof(last));
	*job->record = last;
	npu_buffer_free(job->records);
	job->records = records;
	return 0;
}

/* Commands whose times the last submission recorded. */
static uint32_t npu_job_timed_commands(const struct npu_job *job)
{
	uint32_t nr = job->record->nr_records;

	if (!job->records)
		return 0;
	return nr < job->prog->image.note.nr_cmds ? nr : job->prog->image.note.nr_cmds;
}

static int npu_job_not_timed(const struct npu_job *job)
{
	return npu_fail(-ENODATA,
			"job of %s: its commands were not timed; npu_job_time_commands() before it "
			"is submitted has that done",
			job->prog->image.note.name);
}

int npu_job_command(const struct npu_job *job, uint32_t i, struct npu_command_times *times)
{
	const struct vnpu_record_cmd *cmd;
	const struct isa_op *op;
	int ret = npu_job_has_record(job);

	if (ret)
		return ret;
	if (i >= job->record->nr_cmds)
		return npu_fail(-ERANGE, "job of %s: command %u of %u", job->prog->image.note.name,
				i, job->record->nr_cmds);
	if (i >= npu_job_timed_commands(job))
		return npu_job_not_timed(job);
	cmd = (const struct vnpu_record_cmd *)(job->record + 1) + i;
	op = isa_op(cmd->op);
	*times = (struct npu_command_times){
		.op = op ? op->name : "?",
		.device_start_ns = cmd->device_start_ns,
		.device_ns = cmd->device_ns,
		.device_cycles = cmd->device_cycles,
		.wall_start_ns = cmd->wall_start_ns,
		.wall_end_ns = cmd->wall_end_ns,
	};
	return 0;
}

/* Behind the commands' records; NULL: the job records no commands. */
static struct vnpu_record_work *npu_job_work_record(const struct npu_job *job)
{
	struct vnpu_record_cmd *cmds = (struct vnpu_record_cmd *)(job->record + 1);

	if (!job->records)
		return NULL;
	return (struct vnpu_record_work *)(cmds + job->prog->image.note.nr_cmds);
}

/* Adds up @busy_ns of the commands by operation. */
static void npu_job_add_up(const struct npu_job *job, const uint64_t *busy_ns,
			   struct npu_job_work *work)
{
	const struct vnpu_record_cmd *cmds = (const struct vnpu_record_cmd *)(job->record + 1);
	uint32_t place[ISA_NR_OPS] = { 0 }; /* of an operation in work->ops, from 1 */

	_Static_assert(ISA_NR_OPS <= NPU_MAX_OPS, "each operation has room");
	for (uint32_t i = 0; i < job->prog->image.note.nr_cmds; i++) {
		const struct isa_op *op = isa_op(cmds[i].op);

		if (!op)
			continue;
		if (!place[cmds[i].op]) {
			place[cmds[i].op] = ++work->nr_ops;
			work->ops[work->nr_ops - 1].op = op->name;
		}
		work->ops[place[cmds[i].op] - 1].busy_ns += busy_ns[i];
	}
}

int npu_job_work(const struct npu_job *job, struct npu_job_work *work)
{
	const struct vnpu_record_work *record;
	int ret = npu_job_has_record(job);

	memset(work, 0, sizeof(*work));
	if (ret)
		return ret;
	record = npu_job_work_record(job);
	if (!record || npu_job_timed_commands(job) < job->prog->image.note.nr_cmds)
		return npu_job_not_timed(job);
	if (!record->nr_workers)
		return npu_fail(-EOPNOTSUPP,
				"job of %s: the device does not say what its workers did; install "
				"a newer vnpu-fw",
				job->prog->image.note.name);
	work->nr_workers = record->nr_workers;
	work->wall_ns = job->record->wall_ns;
	work->begin_ns = ((const struct vnpu_record_cmd *)(job->record + 1))->wall_start_ns;
	npu_job_add_up(job, (const uint64_t *)(record + 1), work);
	return 0;
}

/* ---- submission ---- */

/* The counts without which there is no record: the device writes none for a job that fails. */
void npu_job_hide_times(struct npu_job *job)
{
	if (!job->record)
		return;
	job->hidden_cmds += job->record->nr_cmds;
	job->record->nr_cmds = 0;
	if (!job->records)
		return;
	job->hidden_workers += npu_job_work_record(job)->nr_workers;
	npu_job_work_record(job)->nr_workers = 0;
}

void npu_job_show_times(struct npu_job *job, bool refused)
{
	if (job->record && refused)
		job->record->nr_cmds += job->hidden_cmds;
	if (job->records && refused)
		npu_job_work_record(job)->nr_workers += job->hidden_workers;
	job->hidden_cmds = 0;
	job->hidden_workers = 0;
}

int npu_job_prepare(struct npu_job *job, struct npu_queue *queue)
{
	const struct npu_image *img = &job->prog->image;
	struct npu_buffer *scratch;
	int ret;

	if (job->prog->ctx != queue->ctx)
		return npu_fail(-EINVAL, "job of %s: the queue is of another context",
				img->note.name);
	if (!npu_job_idle(job))
		return npu_fail(-EBUSY,
				"job of %s: still running; wait for it before submitting it again",
				img->note.name);
	for (uint32_t i = 0; i < img->nr_symbols; i++)
		if (!job->bound[i])
			return npu_fail(-EINVAL, "job of %s: '%s' is not bound", img->note.name,
					img->symbols[i].name);
	if (img->scratch_slot == VNPU_SLOT_NONE)
		return 0;
	if (!queue->scratch || queue->scratch->wanted < img->scratch_bytes) {
		ret = npu_buffer_create(queue->ctx, img->scratch_bytes, 0, &scratch);
		if (ret)
			return ret;
		/* Jobs in flight hold a reference to the scratch memory that they use. */
		npu_buffer_free(queue->scratch);
		queue->scratch = scratch;
	}
	if (job->scratch == queue->scratch)
		return 0;
	npu_buffer_free(job->scratch);
	job->scratch = npu_buffer_get(queue->scratch);
	job->slots[img->scratch_slot] = (struct vnpu_slot){
		.va = job->scratch->va,
		.size_bytes = img->scratch_bytes,
		.flags = VNPU_SLOT_READ | VNPU_SLOT_WRITE,
	};
	return 0;
}
