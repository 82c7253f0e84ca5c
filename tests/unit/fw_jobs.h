/* SPDX-License-Identifier: MIT */
/*
 * Small jobs for the core of fw_fake.h, and waiting for what becomes of them.
 */
#ifndef FW_JOBS_H
#define FW_JOBS_H

#include "fw_fake.h"

#define STREAM_VA 0x10000 /* the n-th job of a test is placed at n times this */

/* A job of one SLEEP. */
static UNUSED struct vnpu_fw_sqe sleep_job(struct fake *f, uint32_t ctx, uint32_t queue,
					   uint64_t tag, uint64_t ns)
{
	struct job_builder b;

	job_begin(&b);
	job_sleep(&b, ns);
	job_end(&b);
	return job_place(&b, f, ctx, queue, tag * STREAM_VA, tag);
}

/* A job that does nothing. */
static UNUSED struct vnpu_fw_sqe empty_job(struct fake *f, uint32_t ctx, uint32_t queue,
					   uint64_t tag)
{
	struct job_builder b;

	job_begin(&b);
	job_end(&b);
	return job_place(&b, f, ctx, queue, tag * STREAM_VA, tag);
}

static UNUSED struct vnpu_fw_sqe cancel_of(const struct vnpu_fw_sqe *job)
{
	return (struct vnpu_fw_sqe){
		.type = VNPU_FW_SQE_CANCEL,
		.ctx = job->ctx,
		.queue = job->queue,
		.tag = job->tag,
	};
}

static UNUSED void assert_done(struct fake *f, unsigned int index, uint64_t tag, uint32_t status)
{
	struct vnpu_fw_cqe cqe = fake_wait(f, index);

	if (cqe.type != VNPU_FW_CQE_DONE || cqe.tag != tag || cqe.status != status)
		fail_msg("completion %u: type %u tag %llu status %u, not tag %llu status %u; last "
			 "log: %s",
			 index, cqe.type, (unsigned long long)cqe.tag, cqe.status,
			 (unsigned long long)tag, status, f->last_log);
}

static UNUSED void submit_one(struct fake *f, struct vnpu_fw_sqe sqe)
{
	fake_submit(f, &sqe, 1);
}

/* Waits until the core has taken everything out of the ring. */
static UNUSED void wait_taken(struct fake *f)
{
	int i;

	for (i = 0; i < 30000; i++) {
		if (__atomic_load_n(&f->ctl.sq_head, __ATOMIC_ACQUIRE) == f->info.sq_tail)
			return;
		usleep(1000);
	}
	fail_msg("the submission ring is not emptied");
}

#endif /* FW_JOBS_H */
