// SPDX-License-Identifier: MIT
/*
 * The command processor. One loop: take submissions, run the next job, complete it; if there is
 * none, poll the ring for a moment and then sleep in enter(). While a job runs, the engine calls
 * back between tiles, so that submissions are sorted into their queues, cancellations take effect,
 * and completions do not wait for the end of a long job.
 *
 * The end of a session revokes the mapped memory, and what is read there then looks like a kernel
 * that writes invalid values. The kernel sets over in the info page first, so over is checked
 * before anything else that was read is used.
 */
#include "fw.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <drm/vnpu_accel.h>

#include "cpus.h"
#include "fw_copy.h"
#include "fw_exec.h"
#include "polling.h"
#include "fw_queue.h"
#include "fw_record.h"
#include "fw_stream.h"
#include "kernels.h"

#define MAX_THREADS 256
#define MAX_RING (1u << 22)
#define STATUS_STRIDE 4096
/* Longest time that completions wait for others before they are reported with ENTER. */
#define REPORT_NS 20000
/* Completions do not wait for a job that costs more cycles than this. */
#define REPORT_COST 50000
/* Longest time from over to the reason for it, and the time that one query for it lasts. */
#define WHY_OVER_NS 200000000
#define ASK_NS 1000000

/* Unknown fields of an entry are written as zero, so the size is part of the ABI. */
_Static_assert(sizeof(struct vnpu_fw_sqe) == 64, "an entry of the submission ring is a cache line");
_Static_assert(sizeof(struct vnpu_fw_cqe) == 64, "an entry of the completion ring is a cache line");

struct fw_core {
	struct fw_config cfg;
	struct fw_port *port;
	struct fw_exec *exec;
	struct fw_queues *queues;
	struct fw_aspace *spaces; /* [nr_ctx + 1]; base NULL: not mapped */
	struct fw_prog prog;
	struct fw_copy stream, table;
	/* Address-space size for which prog was decoded from stream and table; 0: not valid. */
	uint64_t decoded_for_bytes;

	/* Copied from the info page, which may be revoked. */
	uint32_t nr_queues, nr_ctx, va_bits;
	uint32_t sq_head, cq_tail;
	uint32_t sq_mask, cq_mask;
	bool running; /* the engine runs @job */
	uint64_t started_ns; /* when it started on @job */
	bool close_after; /* CTX_CLOSE arrived for its context */
	struct vnpu_fw_sqe job;
	/* Job for the engine; the fields common to all jobs are set once. */
	struct fw_exec_job engine_job;
	/* When a job last started or ended, because not every step reads the clock. */
	uint64_t now_ns;
	uint32_t unreported; /* completions since the last ENTER */
	uint64_t unreported_since_ns;
	int err; /* error of enter() or of invalid rings; ends the core */
	char broken[256]; /* how the kernel broke the protocol; empty if it did not */
	_Atomic bool stop;
	struct polling poll;
};

/* The kernel has ended the session. */
static bool is_over(const struct fw_core *core)
{
	return __atomic_load_n(&core->port->info->over, __ATOMIC_ACQUIRE);
}

__attribute__((format(printf, 2, 3))) static void core_log(struct fw_core *core, const char *fmt,
							   ...)
{
	char line[512];
	va_list ap;

	/* Errors after the memory was revoked say nothing about the job. */
	if (!core->cfg.log || is_over(core))
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	core->cfg.log(core->cfg.ud, line);
}

/* ---- completion ring ------------------------------------------------------------------------- */

static void enter(struct fw_core *core, uint32_t flags, int64_t timeout_ns)
{
	int err = core->port->ops->enter(core->port->priv, flags, core->sq_head, timeout_ns);

	/* The next call takes the completions that an interrupted call has left. */
	if (err == -EINTR)
		return;
	if (err && !core->err)
		core->err = err;
	if (flags & VNPU_FW_ENTER_COMPLETE)
		core->unreported = 0;
}

/*
 * Asks why the kernel has set over, so that the core ends with that error. The kernel sets over
 * shortly before it can answer.
 */
static void end_session(struct fw_core *core)
{
	uint64_t now = fw_now_ns(), until = now + WHY_OVER_NS;

	for (; !core->err && now < until; now = fw_now_ns())
		enter(core, VNPU_FW_ENTER_WAIT, (int64_t)(now + ASK_NS));
	if (!core->err)
		core->err = -EIO;
}

/* Records that the kernel broke the protocol, unless the session is over. */
__attribute__((format(printf, 2, 3))) static void protocol_error(struct fw_core *core,
								 const char *fmt, ...)
{
	va_list ap;

	if (!is_over(core))
		enter(core, 0, -1);
	if (is_over(core))
		end_session(core);
	if (core->err)
		return;
	va_start(ap, fmt);
	vsnprintf(core->broken, sizeof(core->broken), fmt, ap);
	va_end(ap);
	core->err = -EPROTO;
}

static void report(struct fw_core *core)
{
	if (core->unreported && !core->err)
		enter(core, VNPU_FW_ENTER_COMPLETE, -1);
}

static uint32_t cq_used(struct fw_core *core)
{
	return core->cq_tail - __atomic_load_n(&core->port->info->cq_head, __ATOMIC_ACQUIRE);
}

static void post(struct fw_core *core, const struct vnpu_fw_cqe *cqe)
{
	uint32_t entries = core->cq_mask + 1;

	if (core->err)
		return;
	if (cq_used(core) >= entries)
		enter(core, VNPU_FW_ENTER_COMPLETE, -1);
	if (core->err)
		return;
	if (cq_used(core) >= entries) {
		protocol_error(core, "the completion ring of %u entries is full and is not emptied",
			       entries);
		return;
	}
	core->port->cq[core->cq_tail & core->cq_mask] = *cqe;
	core->cq_tail++;
	__atomic_store_n(&core->port->ctl->cq_tail, core->cq_tail, __ATOMIC_RELEASE);
	if (!core->unreported++)
		core->unreported_since_ns = core->now_ns;
}

static struct drm_vnpu_queue_status *status_of(struct fw_core *core, uint32_t queue)
{
	return (struct drm_vnpu_queue_status *)(core->port->status + (size_t)queue * STATUS_STRIDE);
}

/* The kernel raises it too, for jobs that it ends itself. */
static void raise_completed(struct drm_vnpu_queue_status *page, uint64_t seqno)
{
	__u64 seen = __atomic_load_n(&page->completed_seqno, __ATOMIC_RELAXED);

	while (seen < seqno &&
	       !__atomic_compare_exchange_n(&page->completed_seqno, &seen, seqno, true,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* The first error stays, whoever wrote it. */
static void set_error(struct drm_vnpu_queue_status *page, uint32_t error)
{
	__u32 none = 0;

	__atomic_compare_exchange_n(&page->error, &none, error, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

/* Answers a job. The status page is not written for a cancelled job: its queue may be gone. */
static void complete(struct fw_core *core, const struct vnpu_fw_sqe *job, uint32_t status,
		     uint64_t busy_ns, const struct fw_fault *fault)
{
	struct drm_vnpu_queue_status *page;
	struct vnpu_fw_cqe cqe;
	uint32_t error = status == VNPU_FW_OK	     ? 0
			 : status == VNPU_FW_INVALID ? EINVAL
			 : status == VNPU_FW_FAULT   ? EFAULT
						     : EIO;

	/* Write the status page first, because a client may be polling it. */
	if (status != VNPU_FW_CANCELED && job->queue < core->nr_queues) {
		page = status_of(core, job->queue);
		if (error)
			set_error(page, error);
		raise_completed(page, job->seqno);
	}
	cqe = (struct vnpu_fw_cqe){
		.type = VNPU_FW_CQE_DONE,
		.status = status,
		.tag = job->tag,
		.busy_ns = busy_ns,
	};
	if (fault) {
		cqe.fault_va = fault->va;
		cqe.flags = fault->write ? VNPU_FW_CQE_FAULT_WRITE : 0;
	}
	post(core, &cqe);
}

/* ---- contexts -------------------------------------------------------------------------------- */

static struct fw_aspace *space_of(struct fw_core *core, uint32_t ctx)
{
	struct fw_aspace *as = &core->spaces[ctx];
	uint64_t max = 1ull << core->va_bits;
	int err;

	if (as->base)
		return as;
	*as = (struct fw_aspace){ .ctx = ctx };
	err = core->port->ops->map(core->port->priv, as);
	if (err || !as->base) {
		core_log(core, "context %u: its aperture cannot be mapped: %s", ctx,
			 strerror(-err));
		as->base = NULL;
		return NULL;
	}
	if (as->size > max)
		as->size = max;
	return as;
}

static void close_context(struct fw_core *core, uint32_t ctx)
{
	struct vnpu_fw_cqe cqe = { .type = VNPU_FW_CQE_CTX_CLOSED, .tag = ctx };
	struct fw_aspace *as = &core->spaces[ctx];

	if (as->base)
		core->port->ops->unmap(core->port->priv, as);
	as->base = NULL;
	post(core, &cqe);
}

/* ---- submission ring ------------------------------------------------------------------------- */

/* Why the job is invalid; NULL if it is valid. */
static const char *refusal(const struct fw_core *core, const struct vnpu_fw_sqe *sqe)
{
	if (sqe->queue >= core->nr_queues)
		return "no such queue";
	if (!sqe->ctx || sqe->ctx > core->nr_ctx)
		return "no such context";
	if (sqe->priority >= FW_NR_PRIORITIES)
		return "no such priority";
	return NULL;
}

static void take_job(struct fw_core *core, const struct vnpu_fw_sqe *sqe)
{
	const char *why = refusal(core, sqe);

	if (why) {
		core_log(core, "job %#llx: %s (queue %u, context %u, priority %u)",
			 (unsigned long long)sqe->tag, why, sqe->queue, sqe->ctx, sqe->priority);
		complete(core, sqe, VNPU_FW_INVALID, 0, NULL);
	} else if (!fw_queues_push(core->queues, sqe, core->now_ns)) {
		core_log(core, "job %#llx: more jobs than the ring has entries",
			 (unsigned long long)sqe->tag);
		complete(core, sqe, VNPU_FW_FAILED, 0, NULL);
	}
}

/* Answers the first jobs of @queue if they are cancelled: a queue's answers are in order. */
static void answer_canceled(struct fw_core *core, uint32_t queue)
{
	struct vnpu_fw_sqe job;

	while (fw_queues_pop_canceled(core->queues, queue, core->now_ns, &job))
		complete(core, &job, VNPU_FW_CANCELED, 0, NULL);
}

static void take_cancel(struct fw_core *core, const struct vnpu_fw_sqe *sqe)
{
	bool busy = core->running && core->job.queue == sqe->queue;

	if (sqe->queue >= core->nr_queues)
		return;
	if (busy && core->job.tag == sqe->tag)
		fw_exec_cancel(core->exec);
	else
		fw_queues_cancel(core->queues, sqe->queue, sqe->tag);
	if (!busy)
		answer_canceled(core, sqe->queue);
}

/* Answers the context's remaining jobs and closes it. */
static void drop_context(struct fw_core *core, uint32_t ctx)
{
	struct vnpu_fw_sqe job;

	while (fw_queues_pop_ctx(core->queues, ctx, core->now_ns, &job))
		complete(core, &job, VNPU_FW_CANCELED, 0, NULL);
	close_context(core, ctx);
}

static void take_ctx_close(struct fw_core *core, const struct vnpu_fw_sqe *sqe)
{
	if (!sqe->ctx || sqe->ctx > core->nr_ctx) {
		core_log(core, "cannot close context %u of %u", sqe->ctx, core->nr_ctx);
		return;
	}
	if (core->running && core->job.ctx == sqe->ctx) {
		core->close_after = true;
		fw_exec_cancel(core->exec);
	} else {
		drop_context(core, sqe->ctx);
	}
}

static uint32_t sq_tail(struct fw_core *core)
{
	return __atomic_load_n(&core->port->info->sq_tail, __ATOMIC_ACQUIRE);
}

static void took_entry(struct fw_core *core)
{
	core->sq_head++;
	__atomic_store_n(&core->port->ctl->sq_head, core->sq_head, __ATOMIC_RELEASE);
}

/*
 * Takes the only entry of the submission ring into core->job if it is a job and no other job waits;
 * it skips the queues. False if nothing was taken.
 */
static bool take_only_job(struct fw_core *core)
{
	if (sq_tail(core) - core->sq_head != 1 || !fw_queues_empty(core->queues))
		return false;
	core->job = core->port->sq[core->sq_head & core->sq_mask];
	if (core->job.type != VNPU_FW_SQE_JOB || core->job.flags || core->job.pad ||
	    refusal(core, &core->job))
		return false;
	took_entry(core);
	fw_queues_pass(core->queues, &core->job);
	return true;
}

/* Processes an entry of the submission ring. */
static void take_entry(struct fw_core *core, const struct vnpu_fw_sqe *sqe)
{
	if (sqe->flags || sqe->pad) {
		protocol_error(
			core, "a submission of type %u with flags %#x and pad %#x, which must be 0",
			sqe->type, sqe->flags, sqe->pad);
		return;
	}
	switch (sqe->type) {
	case VNPU_FW_SQE_JOB:
		took_entry(core);
		take_job(core, sqe);
		return;
	case VNPU_FW_SQE_CANCEL:
		took_entry(core);
		take_cancel(core, sqe);
		return;
	case VNPU_FW_SQE_CTX_CLOSE:
		took_entry(core);
		take_ctx_close(core, sqe);
		return;
	default:
		protocol_error(core, "a submission of unknown type %u", sqe->type);
	}
}

/* Takes all entries from the submission ring. */
static void take_submissions(struct fw_core *core)
{
	uint32_t tail = sq_tail(core);
	struct vnpu_fw_sqe sqe;

	if (tail - core->sq_head > core->sq_mask + 1) {
		protocol_error(core, "the submission ring's tail %u is %u entries past its head %u",
			       tail, tail - core->sq_head, core->sq_head);
		return;
	}
	while (core->sq_head != tail && !core->err) {
		memcpy(&sqe, &core->port->sq[core->sq_head & core->sq_mask], sizeof(sqe));
		/* If the ring was revoked during the read, parts of the entry may be zero. */
		atomic_thread_fence(memory_order_acquire);
		if (is_over(core))
			end_session(core);
		else
			take_entry(core, &sqe);
	}
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Called between two tiles. */
static void job_poll(void *ud)
{
	struct fw_core *core = ud;

	if (is_over(core) && !core->err)
		end_session(core);
	if (!core->err && core->sq_head != sq_tail(core)) {
		core->now_ns = fw_now_ns();
		take_submissions(core);
	}
	if (core->unreported && fw_now_ns() - core->unreported_since_ns > REPORT_NS)
		report(core);
	if (core->err || atomic_load_explicit(&core->stop, memory_order_relaxed))
		fw_exec_cancel(core->exec);
}

static void job_sleep(void *ud, uint64_t until_ns)
{
	struct fw_core *core = ud;

	enter(core, VNPU_FW_ENTER_COMPLETE | VNPU_FW_ENTER_WAIT, until_ns);
}

/*
 * Copies the job's stream and table to private memory behind one guard. If the copies of the last
 * job are equal, prog stays valid, because it was decoded from the private copies. Returns a
 * status; *what was refused, for the reason *why.
 */
static uint32_t fetch(struct fw_core *core, struct fw_aspace *as, struct fw_fault *fault,
		      const char **what, const char **why)
{
	const struct vnpu_fw_sqe *job = &core->job;
	const struct fw_access acc[] = {
		{ .va = job->cmd_va, .size = job->cmd_size },
		{ .va = job->table_va, .size = job->table_size },
	};
	bool same = core->decoded_for_bytes == as->size && core->stream.bytes == job->cmd_size &&
		    core->table.bytes == job->table_size;
	struct fw_copy_in arg;
	uint32_t status;
	int err;

	core->decoded_for_bytes = 0;
	*what = "stream";
	status = fw_copy_room(as, &core->stream, job->cmd_va, job->cmd_size, VNPU_MAX_STREAM_BYTES,
			      why);
	if (status != VNPU_FW_OK)
		return status;
	*what = "table";
	status = fw_copy_room(as, &core->table, job->table_va, job->table_size,
			      VNPU_MAX_TABLE_BYTES, why);
	if (status != VNPU_FW_OK)
		return status;
	arg = (struct fw_copy_in){
		.dst = { core->stream.data, core->table.data },
		.src = { as->base + job->cmd_va, as->base + job->table_va },
		.bytes = { job->cmd_size, job->table_size },
		.same = same,
	};
	core->stream.bytes = job->cmd_size;
	core->table.bytes = job->table_size;
	err = core->port->ops->guard(core->port->priv, as, acc, 2, fw_copy_in, &arg, fault);
	if (!err) {
		core->decoded_for_bytes = arg.same ? as->size : 0;
		return VNPU_FW_OK;
	}
	*why = "MMU fault";
	if (fault->va - job->cmd_va < job->cmd_size)
		*what = "stream";
	return err == -EFAULT ? VNPU_FW_FAULT : VNPU_FW_FAILED;
}

/* Decodes the copies into core->prog. Returns a status. */
static uint32_t decode(struct fw_core *core, uint64_t as_bytes)
{
	const struct vnpu_fw_sqe *job = &core->job;
	char line[256];
	int err = fw_prog_decode(&core->prog, core->stream.data, job->cmd_size, core->table.data,
				 job->table_size, as_bytes, line, sizeof(line));

	if (err) {
		core_log(core, "job %#llx of context %u: %s", (unsigned long long)job->tag,
			 job->ctx, err == -EINVAL ? line : strerror(-err));
		return err == -EINVAL ? VNPU_FW_INVALID : VNPU_FW_FAILED;
	}
	core->decoded_for_bytes = as_bytes;
	return VNPU_FW_OK;
}

/* Runs the decoded job and records its times if it succeeded. */
static uint32_t run_prog(struct fw_core *core, struct fw_exec_job *ej)
{
	struct fw_record_job of;
	uint32_t status;
	int err;

	ej->timed = fw_record_wants_cmds(&core->prog);
	status = fw_exec_run(core->exec, ej);
	core->now_ns = fw_now_ns();
	if (status != VNPU_FW_OK || !core->prog.record_bytes)
		return status;
	of = (struct fw_record_job){ .npu = core->cfg.npu,
				     .stream = core->stream.data,
				     .start_ns = core->started_ns,
				     .end_ns = core->now_ns,
				     .nr_workers = fw_exec_workers(core->exec) };
	err = fw_record_write(ej, &of);
	return !err ? VNPU_FW_OK : err == -EFAULT ? VNPU_FW_FAULT : VNPU_FW_FAILED;
}

/* Fetches, checks and runs core->job. */
static uint32_t run_job(struct fw_core *core, struct fw_fault *fault)
{
	const struct vnpu_fw_sqe *job = &core->job;
	struct fw_exec_job *ej = &core->engine_job;
	const char *what = "", *why = "";
	uint32_t status;

	ej->progress = &status_of(core, job->queue)->progress;
	ej->failed = NULL;
	ej->as = space_of(core, job->ctx);
	if (!ej->as)
		return VNPU_FW_FAILED;
	status = fetch(core, ej->as, fault, &what, &why);
	if (status != VNPU_FW_OK) {
		core_log(core, "job %#llx of context %u: %s of %u bytes at %#llx: %s",
			 (unsigned long long)job->tag, job->ctx, what,
			 *what == 's' ? job->cmd_size : job->table_size,
			 (unsigned long long)(*what == 's' ? job->cmd_va : job->table_va), why);
		return status;
	}
	if (!core->decoded_for_bytes) {
		status = decode(core, ej->as->size);
		if (status != VNPU_FW_OK)
			return status;
	}
	if (core->unreported && fw_prog_cost(&core->prog) > REPORT_COST)
		report(core);
	status = run_prog(core, ej);
	if (status == VNPU_FW_FAULT) {
		*fault = ej->fault;
		core_log(core, "job %#llx of context %u: MMU fault: %s at %#llx",
			 (unsigned long long)job->tag, job->ctx, fault->write ? "write" : "read",
			 (unsigned long long)fault->va);
	}
	if (ej->failed)
		core_log(
			core,
			"job %#llx of context %u: command %u: invalid place or width of a panel in "
			"its table",
			(unsigned long long)job->tag, job->ctx, ej->failed->index);
	return status;
}

static void serve_job(struct fw_core *core)
{
	struct fw_fault fault = { 0 };
	uint64_t busy_ns;
	uint32_t status;

	core->running = true;
	core->close_after = false;
	core->started_ns = core->now_ns;
	__atomic_store_n(&status_of(core, core->job.queue)->started_seqno, core->job.seqno,
			 __ATOMIC_RELEASE);
	status = run_job(core, &fault);
	/* A job that ran has updated now_ns. */
	if (status != VNPU_FW_OK)
		core->now_ns = fw_now_ns();
	core->running = false;
	/* The job failed because its memory was revoked; do not report that in the status page. */
	if (status != VNPU_FW_OK && is_over(core)) {
		end_session(core);
		return;
	}
	busy_ns = core->now_ns - core->started_ns;
	complete(core, &core->job, status, busy_ns, status == VNPU_FW_FAULT ? &fault : NULL);
	fw_queues_charge(core->queues, &core->job, busy_ns);
	answer_canceled(core, core->job.queue);
	if (core->close_after)
		drop_context(core, core->job.ctx);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static bool should_run(struct fw_core *core)
{
	return !core->err && !atomic_load_explicit(&core->stop, memory_order_relaxed);
}

/* Polls the ring for up to spin_us. True if there is something to do. */
static bool poll_ring(struct fw_core *core)
{
	uint64_t end = 0, now;
	bool found;

	while (!(found = sq_tail(core) != core->sq_head || is_over(core) || !should_run(core))) {
		polling_again(&core->poll);
		if (core->poll.looks % 64)
			continue;
		now = fw_now_ns();
		if (!end)
			end = now + core->cfg.spin_us * 1000ull;
		if (now >= end)
			break;
	}
	polling_end(&core->poll, found);
	return found;
}

/* Nothing to do: report completions, poll the ring for spin_us, then sleep. */
static void idle(struct fw_core *core)
{
	if (core->cfg.spin_us) {
		report(core);
		if (poll_ring(core))
			return;
	}
	enter(core, VNPU_FW_ENTER_COMPLETE | VNPU_FW_ENTER_WAIT, -1);
	polling_woken(&core->poll);
}

/* Puts the next job into core->job. False if there is none. */
static bool next_job(struct fw_core *core)
{
	/* Otherwise now_ns is the end of the last job. */
	if (sq_tail(core) != core->sq_head) {
		core->now_ns = fw_now_ns();
		if (take_only_job(core))
			return true;
		take_submissions(core);
	}
	return !core->err && fw_queues_pop(core->queues, core->now_ns, &core->job);
}

int fw_core_run(struct fw_core *core)
{
	bool found;

	while (should_run(core)) {
		if (is_over(core)) {
			end_session(core);
			break;
		}
		found = next_job(core);
		if (core->unreported && core->now_ns - core->unreported_since_ns > REPORT_NS)
			report(core);
		if (core->err)
			break;
		if (found)
			serve_job(core);
		else
			idle(core);
	}
	report(core);
	return atomic_load(&core->stop) ? 0 : core->err;
}

const char *fw_core_broken(const struct fw_core *core)
{
	return *core->broken ? core->broken : NULL;
}

void fw_core_stop(struct fw_core *core)
{
	atomic_store(&core->stop, true);
}

static bool is_power_of_two(uint32_t x)
{
	return x && !(x & (x - 1));
}

/* Checks the port's own numbers, which a working kernel never gets wrong. */
static bool info_is_sane(const struct vnpu_fw_info *info)
{
	return info->magic == VNPU_FW_INFO_MAGIC && is_power_of_two(info->sq_entries) &&
	       info->sq_entries <= MAX_RING && is_power_of_two(info->cq_entries) &&
	       info->cq_entries <= MAX_RING && info->nr_queues &&
	       info->nr_queues <= VNPU_FW_MAX_QUEUES && info->nr_ctx &&
	       info->nr_ctx <= VNPU_FW_MAX_CTX && info->va_bits >= VNPU_FW_MIN_VA_BITS &&
	       info->va_bits <= VNPU_FW_MAX_VA_BITS;
}

struct fw_core *fw_core_create(const struct fw_config *cfg, struct fw_port *port)
{
	const struct fw_kernels *kernels = fw_kernels_get(cfg->isa);
	const struct vnpu_fw_info *info = port->info;
	unsigned int threads = cfg->threads ? cfg->threads : host_threads();
	struct fw_core *core;

	if (!kernels) {
		errno = ENOTSUP;
		return NULL;
	}
	if (!info_is_sane(info)) {
		errno = EINVAL;
		return NULL;
	}
	core = calloc(1, sizeof(*core));
	if (!core)
		return NULL;
	core->cfg = *cfg;
	core->prog.i8_rows = kernels->i8_rows;
	core->prog.i8_step = kernels->i8_step;
	core->poll.may_move = true;
	core->port = port;
	core->nr_queues = info->nr_queues;
	core->nr_ctx = info->nr_ctx;
	core->va_bits = info->va_bits;
	core->sq_mask = info->sq_entries - 1;
	core->cq_mask = info->cq_entries - 1;
	core->sq_head = port->ctl->sq_head;
	core->cq_tail = port->ctl->cq_tail;
	core->engine_job = (struct fw_exec_job){
		.prog = &core->prog,
		.ops = port->ops,
		.port_priv = port->priv,
		.poll = job_poll,
		.sleep = job_sleep,
		.ud = core,
	};
	core->spaces = calloc(info->nr_ctx + 1, sizeof(*core->spaces));
	core->queues = fw_queues_create(info->nr_queues, info->nr_ctx, info->sq_entries);
	core->exec = fw_exec_create(kernels, threads < MAX_THREADS ? threads : MAX_THREADS);
	if (!core->spaces || !core->queues || !core->exec) {
		fw_core_destroy(core);
		errno = ENOMEM;
		return NULL;
	}
	core->prog.workers = fw_exec_workers(core->exec);
	return core;
}

void fw_core_destroy(struct fw_core *core)
{
	uint32_t i;

	if (!core)
		return;
	if (core->exec)
		fw_exec_destroy(core->exec);
	for (i = 1; core->spaces && i <= core->nr_ctx; i++)
		if (core->spaces[i].base)
			core->port->ops->unmap(core->port->priv, &core->spaces[i]);
	fw_prog_free(&core->prog);
	fw_queues_destroy(core->queues);
	free(core->spaces);
	free(core->stream.data);
	free(core->table.data);
	free(core);
}
