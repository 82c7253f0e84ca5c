// SPDX-License-Identifier: MIT
/*
 * A malicious firmware: indices that jump, completions of all kinds for jobs that do not exist,
 * silence and SIGSTOP, access to memory that it must not have. Whatever it does, each of the
 * client's jobs ends in bounded time, and a good firmware that attaches afterwards finds the device
 * as new. The test or its child plays the firmware.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "vnpu_raw.h"

#define VA 0x100000ull
#define TIMEOUT_MS 300

/*
 * A job with a short timeout, which must end within that time and a second (or more if the emulator
 * is slow).
 */
static uint64_t submit_short(struct bench *b)
{
	struct drm_vnpu_job job = raw_job(b->q.queue_id);

	job.timeout_ms = TIMEOUT_MS;
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	return job.seqno;
}

static int result_in_time(struct bench *b, uint64_t seqno)
{
	int64_t from = raw_now_ns();
	int result = raw_result(b->fd, b->q.queue_id, seqno);

	assert_true(raw_now_ns() - from < (TIMEOUT_MS + 1000) * 1000000ll * 3 * raw_slow());
	return result;
}

/* Attaches a good firmware, with which everything must work again. */
static void good_again(struct bench *b)
{
	int64_t until = raw_in_ms(RAW_LONG_MS);
	struct vnpu_fw_sqe sqe = { 0 };

	if (b->fw.fd >= 0)
		raw_fw_die(&b->fw);
	while (raw_fw_attach(&b->fw) == -EBUSY)
		assert_true(raw_now_ns() < until);
	raw_fw_start(&b->fw);
	raw_ctx_destroy(b->fd, b->ctx);
	b->ctx = raw_ctx(b->fd);
	b->q = raw_queue_full(b->fd, b->ctx, 4);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	assert_true(raw_fw_pop(&b->fw, &sqe, RAW_LONG_MS));
	assert_int_equal(sqe.type, VNPU_FW_SQE_JOB);
	assert_int_equal(sqe.seqno, 1);
	assert_int_equal(raw_fw_done(&b->fw, &sqe, VNPU_FW_OK), 1);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
}

/* ---- indices ---- */

static void every_jump_of_an_index_loses_the_device_or_does_nothing(void **state)
{
	struct bench *b = bench(state);
	const uint32_t n = b->fw.cq_entries;
	/* Relative to the kernel's cq_head and sq_tail: each ring has at most n entries. */
	const struct {
		uint32_t cq, sq;
		bool lost;
	} jumps[] = {
		{ n + 1, 0, true },
		{ n + 1000, 0, true },
		{ 1u << 31, 0, true },
		{ UINT32_MAX, 0, true },
		{ -n, 0, true },
		{ (uint32_t)-2, 0, true },
		{ 0, 1, true },
		{ 0, 1u << 31, true },
		{ 0, n, true },
		{ 0, UINT32_MAX, false },
		{ 0, (uint32_t)-2, false },
		{ n, 0, false },
		{ 1, 0, false },
		{ 0, 0, false },
		{ n, 1, true },
	};

	for (size_t i = 0; i < sizeof(jumps) / sizeof(*jumps); i++) {
		uint64_t seqno = submit_short(b);
		int ret;

		raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		memset(b->fw.cq, 0xff, b->fw.cq_size);
		b->fw.ctl->cq_tail = b->fw.cq_tail + jumps[i].cq;
		b->fw.ctl->sq_head = b->fw.sq_head + jumps[i].sq;
		ret = raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL);
		if (jumps[i].lost != !!ret)
			fail_msg("cq_tail + %u, sq_head + %u: %d", jumps[i].cq, jumps[i].sq, ret);
		/*
		 * Entries full of ones are invalid: the job times out unless the device was lost.
		 */
		assert_int_equal(result_in_time(b, seqno), ret ? -EIO : -EBUSY);
		good_again(b);
	}
}

static void an_index_that_jumps_while_the_kernel_looks_does_no_harm(void **state)
{
	struct bench *b = bench(state);
	unsigned int seed = (unsigned int)raw_now_ns();

	print_message("seed %u\n", seed);
	for (int i = 0; i < 100; i++) {
		uint64_t seqno = submit_short(b);

		for (int k = 0; k < 20; k++) {
			b->fw.ctl->cq_tail = rand_r(&seed) % 3
						     ? b->fw.ctl->cq_tail + rand_r(&seed) % 8
						     : (uint32_t)rand_r(&seed);
			b->fw.ctl->sq_head =
				rand_r(&seed) % 3 ? b->fw.sq_head : (uint32_t)rand_r(&seed);
			if (raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL))
				break;
		}
		raw_fw_die(&b->fw);
		assert_int_not_equal(result_in_time(b, seqno), 0);
		good_again(b);
	}
}

/* ---- completions ---- */

static void stale_completions_end_nothing(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe old[4];
	uint64_t seqno;

	for (int i = 0; i < 4; i++) {
		raw_submit(b->fd, b->ctx, b->q.queue_id);
		old[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	}
	/* Completions of an earlier epoch, when the present one has jobs with the same numbers. */
	good_again(b);
	for (int i = 0; i < 4; i++)
		seqno = raw_submit(b->fd, b->ctx, b->q.queue_id);
	for (int i = 0; i < 4; i++)
		raw_fw_post(&b->fw,
			    (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = old[i].tag });
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	for (uint64_t s = 2; s <= seqno; s++)
		assert_false(raw_is_done(b->fd, b->q.queue_id, s));
	/* Completions of a closed context whose slot has another owner. */
	for (int i = 0; i < 4; i++)
		old[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_CTX_CLOSE);
	raw_fw_closed(&b->fw, old[0].ctx);
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	b->ctx = raw_ctx(b->fd);
	b->q = raw_queue_full(b->fd, b->ctx, 4);
	seqno = raw_submit(b->fd, b->ctx, b->q.queue_id);
	for (int i = 0; i < 4; i++)
		raw_fw_post(&b->fw,
			    (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = old[i].tag });
	raw_fw_closed(&b->fw, old[0].ctx);
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	assert_false(raw_is_done(b->fd, b->q.queue_id, seqno));
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, seqno), 0);
}

/* This kernel cannot know what they mean to a later firmware. */
static void completions_with_an_unknown_flag_or_something_in_a_pad_are_dropped(void **state)
{
	struct bench *b = bench(state);
	uint64_t seqno = raw_submit(b->fd, b->ctx, b->q.queue_id);
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	const struct vnpu_fw_cqe good = { .type = VNPU_FW_CQE_DONE, .tag = sqe.tag };
	const struct {
		size_t offset, size;
		uint64_t known;
	} fields[] = {
		{ offsetof(struct vnpu_fw_cqe, flags), sizeof(good.flags),
		  VNPU_FW_CQE_FAULT_WRITE },
		{ offsetof(struct vnpu_fw_cqe, pad), sizeof(good.pad), 0 },
		{ offsetof(struct vnpu_fw_cqe, reserved), sizeof(good.reserved), 0 },
	};
	uint32_t taken;

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		for (size_t bit = 0; bit < fields[i].size * 8; bit++) {
			struct vnpu_fw_cqe cqe = good;

			if (bit < 64 && (fields[i].known >> bit & 1))
				continue;
			((uint8_t *)&cqe)[fields[i].offset + bit / 8] |= 1u << bit % 8;
			raw_fw_post(&b->fw, cqe);
			assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, &taken),
					 0);
			assert_int_equal(taken, 1);
			if (raw_is_done(b->fd, b->q.queue_id, seqno))
				fail_msg("byte %zu, bit %zu was not looked at",
					 fields[i].offset + bit / 8, bit % 8);
		}
	}
	assert_int_equal(raw_ctx_destroy(b->fd, raw_ctx(b->fd)), 0);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_CTX_CLOSE);
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){
				    .type = VNPU_FW_CQE_CTX_CLOSED, .tag = sqe.ctx, .pad = 1 });
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_CTX_CLOSED,
						  .tag = sqe.ctx,
						  .reserved = { 0, 0, 1 } });
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	/* Neither was an answer: of eight numbers the bench has one, and one is still owed. */
	for (int i = 0; i < 6; i++)
		raw_ctx(b->fd);
	assert_int_equal(
		raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &(struct drm_vnpu_ctx_create){ 0 }),
		-EBUSY);
	raw_fw_closed(&b->fw, sqe.ctx);
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	raw_ctx(b->fd);
	raw_fw_post(&b->fw, good);
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, seqno), 0);
}

/* The device decides when a job is done: it may complete any job, but only submitted ones. */
static void completions_with_another_context_s_tag_end_that_context_s_job_only(void **state)
{
	struct bench *b = bench(state);
	int other = raw_client(b->fw.minor);
	uint32_t ctx = raw_ctx(other), queue = raw_queue(other, ctx);
	struct vnpu_fw_sqe mine, theirs;

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	mine = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	raw_submit(other, ctx, queue);
	theirs = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = theirs.tag });
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = theirs.tag });
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	assert_int_equal(raw_result(other, queue, 1), 0);
	assert_false(raw_is_done(b->fd, b->q.queue_id, 1));
	raw_fw_done(&b->fw, &mine, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
	close(other);
}

static void ctx_closed_for_contexts_that_live_changes_nothing(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_ctx_create create = { 0 };

	for (uint64_t tag = 0; tag < 64; tag++)
		for (int twice = 0; twice < 2; twice++)
			raw_fw_closed(&b->fw, tag);
	for (int bit = 6; bit < 64; bit++)
		raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_CTX_CLOSED,
							  .tag = 1ull << bit | 1 });
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).ctx, 1);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
	/* Seven other numbers, all different. */
	for (int i = 0; i < 7; i++)
		assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create), 0);
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create), -EBUSY);
}

static void random_bytes_in_the_firmware_s_memory_do_no_harm(void **state)
{
	struct bench *b = bench(state);
	unsigned int seed = (unsigned int)raw_now_ns();

	print_message("seed %u\n", seed);
	for (int round = 0; round < 60; round++) {
		const struct drm_vnpu_queue_status *page = raw_queue_status(b->fd, &b->q);
		uint64_t seqno = submit_short(b);

		raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		for (size_t i = 0; i < b->fw.cq_size / 4; i++)
			((uint32_t *)b->fw.cq)[i] =
				(uint32_t)rand_r(&seed) % (rand_r(&seed) % 4 ? 4 : UINT32_MAX);
		for (size_t i = 0; i < b->fw.status_size / 4; i++)
			((uint32_t *)b->fw.status)[i] = rand_r(&seed);
		b->fw.cq_tail += b->fw.cq_entries;
		b->fw.ctl->cq_tail = b->fw.cq_tail;
		assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
		/*
		 * The fence is authoritative, not the page: the job ends somehow, and its number
		 * stays its number.
		 */
		result_in_time(b, seqno);
		munmap((void *)page, PAGE);
		if (round % 10 == 0 || raw_ctx_state(b->fd, b->ctx).state) {
			good_again(b);
			page = raw_queue_status(b->fd, &b->q);
			assert_int_equal(page->completed_seqno, 1);
			assert_int_equal(page->error, 0);
			munmap((void *)page, PAGE);
		}
	}
}

/* ---- silence ---- */

/*
 * A good firmware in a process of its own, which reports its start on a pipe; the parent does not
 * have its fd.
 */
static pid_t firmware_process(struct bench *b, int *started)
{
	int pipes[2];
	pid_t pid;

	raw_fw_die(&b->fw);
	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (pid) {
		close(pipes[1]);
		*started = pipes[0];
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	assert_int_equal(raw_fw_attach(&b->fw), 0);
	raw_fw_start(&b->fw);
	assert_int_equal(write(pipes[1], "!", 1), 1);
	for (;;) {
		struct vnpu_fw_sqe sqe;

		if (!raw_fw_pop(&b->fw, &sqe, RAW_LONG_MS))
			continue;
		if (sqe.type == VNPU_FW_SQE_JOB)
			raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
	}
}

static void a_stopped_firmware_s_jobs_end_in_time_and_a_killed_one_s_at_once(void **state)
{
	struct bench *b = bench(state);
	uint64_t seqno;
	int started;
	char byte;
	pid_t pid;

	raw_ctx_destroy(b->fd, b->ctx);
	pid = firmware_process(b, &started);
	assert_int_equal(read(started, &byte, 1), 1);
	close(started);
	b->ctx = raw_ctx(b->fd);
	b->q = raw_queue_full(b->fd, b->ctx, 4);
	seqno = submit_short(b);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, seqno), 0);
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	seqno = submit_short(b);
	assert_int_equal(result_in_time(b, seqno), -EBUSY);
	assert_int_equal(raw_ctx_state(b->fd, b->ctx).state, 0);
	kill(pid, SIGCONT);
	/* The job was not to blame: its context and queue still work. */
	seqno = raw_submit(b->fd, b->ctx, b->q.queue_id);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, seqno), 0);
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	seqno = raw_submit(b->fd, b->ctx, b->q.queue_id);
	kill(pid, SIGKILL);
	assert_int_equal(result_in_time(b, seqno), -EIO);
	waitpid(pid, NULL, 0);
	good_again(b);
}

/* ---- memory ---- */

static __thread sigjmp_buf fault_jump;

static void on_fault(int sig)
{
	siglongjmp(fault_jump, 1);
}

static void arm(void)
{
	struct sigaction sa = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
}

static bool poke(void *p)
{
	arm();
	if (sigsetjmp(fault_jump, 0))
		return false;
	*(volatile uint8_t *)p = 1;
	return true;
}

static bool peek(const void *p)
{
	arm();
	if (sigsetjmp(fault_jump, 0))
		return false;
	(void)*(volatile const uint8_t *)p;
	return true;
}

static void memory_that_the_kernel_writes_cannot_be_written_in_any_way(void **state)
{
	struct bench *b = bench(state);
	void *const pages[] = { (void *)b->fw.info, (void *)b->fw.sq };
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	uint64_t word = 0xdeadbeefdeadbeef;

	assert_true(mem >= 0);
	for (int i = 0; i < 2; i++) {
		struct iovec from = { &word, 8 }, to = { pages[i], 8 };

		assert_false(poke(pages[i]));
		assert_int_equal(mprotect(pages[i], PAGE, PROT_READ | PROT_WRITE), -1);
		assert_int_equal(pwrite(mem, &word, 8, (uintptr_t)pages[i]), -1);
		assert_int_equal(process_vm_writev(getpid(), &from, 1, &to, 1, 0), -1);
		assert_true(peek(pages[i]));
	}
	assert_true(b->fw.info->magic == VNPU_FW_INFO_MAGIC);
	close(mem);
}

/* PFN mappings have no pages that the kernel could pin and hold after they were revoked. */
static void aperture_pages_cannot_be_pinned(void **state)
{
	struct bench *b = bench(state);
	uint32_t bo = raw_bo(b->fd, 4 * PAGE);
	uint8_t buffer[8], *ap, *mem = raw_bo_map(b->fd, bo);
	struct iovec here = { buffer, 8 }, there = { NULL, 8 }, whole = { NULL, PAGE };
	int file = open("/proc/self/exe", O_RDONLY | O_DIRECT | O_CLOEXEC),
	    self = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	int pipes[2];

	assert_int_equal(raw_bind(b->fd, b->ctx, bo, VA, 4 * PAGE, 0), 0);
	ap = raw_fw_map(b->fw.fd, (1ull << b->fw.info->va_bits) + VA, 4 * PAGE,
			PROT_READ | PROT_WRITE);
	assert_non_null(ap);
	assert_true(poke(ap));
	assert_int_equal(pipe(pipes), 0);
	uint8_t *const mappings[] = { ap, mem, (uint8_t *)b->fw.cq };

	for (int i = 0; i < 3; i++) {
		there.iov_base = whole.iov_base = mappings[i];
		/* Not every kernel has this call. */
		assert_int_equal(process_vm_readv(getpid(), &here, 1, &there, 1, 0), -1);
		assert_true(errno == EFAULT || errno == ENOSYS);
		assert_int_equal(vmsplice(pipes[1], &whole, 1, 0), -1);
		assert_int_equal(errno, EFAULT);
		assert_int_equal(pread(self, buffer, 8, (uintptr_t)mappings[i]), -1);
		/* A file system without direct I/O copies, which is fine. */
		if (file >= 0 && pread(file, mappings[i], PAGE, 0) < 0)
			assert_int_equal(errno, EFAULT);
	}
	close(pipes[0]);
	close(pipes[1]);
	close(self);
	if (file >= 0)
		close(file);
	munmap(mem, 4 * PAGE);
	munmap(ap, 4 * PAGE);
}

static void apertures_of_closed_contexts_cannot_be_mapped_and_mapped_ones_stay_empty(void **state)
{
	struct bench *b = bench(state);
	uint64_t at = 1ull << b->fw.info->va_bits;
	uint32_t bo = raw_bo(b->fd, PAGE), ctx;
	struct drm_vnpu_ctx_create create = { 0 };
	uint8_t *ap;

	assert_int_equal(raw_bind(b->fd, b->ctx, bo, VA, PAGE, 0), 0);
	ap = raw_fw_map(b->fw.fd, at + VA, PAGE, PROT_READ | PROT_WRITE);
	assert_non_null(ap);
	assert_true(poke(ap));
	assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
	assert_false(peek(ap));
	raw_fw_expect(&b->fw, VNPU_FW_SQE_CTX_CLOSE);
	raw_fw_closed(&b->fw, 1);
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	/*
	 * The firmware still has the number: the next context gets another one, and its bindings
	 * are not visible here.
	 */
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create), 0);
	ctx = create.ctx_id;
	assert_int_equal(raw_bind(b->fd, ctx, bo, VA, PAGE, 0), 0);
	assert_false(peek(ap));
	munmap(ap, PAGE);
	/* The last mapping is gone, so the number is soon free, until another context has it. */
	for (int64_t until = raw_in_ms(RAW_LONG_MS);
	     (ap = raw_fw_map(b->fw.fd, at + VA, PAGE, PROT_READ)); munmap(ap, PAGE)) {
		assert_false(peek(ap));
		assert_true(raw_now_ns() < until);
	}
	assert_int_equal(raw_ctx_destroy(b->fd, ctx), 0);
	assert_null(raw_fw_map(b->fw.fd, 3 * at + VA, PAGE, PROT_READ));
}

static void mappings_kept_after_the_fd_is_closed_end_with_the_device(void **state)
{
	struct bench *b = bench(state);
	uint64_t seqno = submit_short(b);
	struct raw_fw next = b->fw;

	raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	close(b->fw.fd);
	/*
	 * The file lives in its mappings. Nobody calls ENTER any more: jobs time out, and DEL_DEV
	 * removes everything.
	 */
	assert_int_equal(result_in_time(b, seqno), -EBUSY);
	assert_int_equal(raw_del_dev(b->fw.dev_id), 0);
	assert_false(peek(b->fw.info));
	assert_false(poke(b->fw.cq));
	assert_false(poke(b->fw.status));
	close(b->fd);
	raw_fw_unmap(&b->fw);
	raw_fw_add(&next, NULL);
	b->fw = next;
	b->fd = -1;
}

static void a_child_that_keeps_the_fd_keeps_the_device_until_it_dies(void **state)
{
	struct bench *b = bench(state);
	uint64_t seqno;
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* No ring was inherited, but the child can map them. */
		if (peek(b->fw.info))
			_exit(1);
		raw_fw_map_rings(&b->fw);
		for (;;)
			raw_fw_serve(&b->fw, VNPU_FW_OK);
	}
	raw_fw_die(&b->fw);
	seqno = raw_submit(b->fd, b->ctx, b->q.queue_id);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, seqno), 0);
	assert_int_equal(raw_fw_attach(&b->fw), -EBUSY);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	good_again(b);
}

/* ---- many threads ---- */

struct enterer {
	struct raw_fw *fw;
	bool *stop;
	pthread_t thread;
};

static void *enter_run(void *arg)
{
	struct enterer *e = arg;
	struct vnpu_fw_start start = { 0 };

	while (!__atomic_load_n(e->stop, __ATOMIC_ACQUIRE)) {
		struct vnpu_fw_enter enter = { .flags = VNPU_FW_ENTER_COMPLETE | VNPU_FW_ENTER_WAIT,
					       .timeout_ns = raw_in_ms(2) };
		struct pollfd p = { .fd = e->fw->fd, .events = POLLIN };

		raw_ioctl(e->fw->fd, VNPU_FW_ENTER, &enter);
		poll(&p, 1, 0);
		if (raw_ioctl(e->fw->fd, VNPU_FW_START, &start) != -EBUSY)
			break;
	}
	return NULL;
}

static void several_threads_in_enter_count_each_completion_once(void **state)
{
	enum { JOBS = 400 };
	struct bench *b = bench(state);
	struct enterer e[3];
	struct vnpu_fw_sqe sqe;
	bool stop = false;

	for (int i = 0; i < 3; i++) {
		e[i] = (struct enterer){ .fw = &b->fw, .stop = &stop };
		assert_int_equal(pthread_create(&e[i].thread, NULL, enter_run, &e[i]), 0);
	}
	for (uint64_t i = 1; i <= JOBS; i++) {
		assert_int_equal(raw_submit(b->fd, b->ctx, b->q.queue_id), i);
		sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		assert_int_equal(sqe.seqno, i);
		raw_fw_post(&b->fw,
			    (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = sqe.tag });
		assert_int_equal(raw_result(b->fd, b->q.queue_id, i), 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (int i = 0; i < 3; i++)
		pthread_join(e[i].thread, NULL);
	assert_int_equal(b->fw.info->cq_head, JOBS);
}

/* The tests break a device more often than max_resets allows. */
static char max_resets[16];

static int hostile_setup(void **state)
{
	if (access(RAW_CONTROL, R_OK | W_OK))
		return 0;
	raw_param_get("max_resets", max_resets, sizeof(max_resets));
	return raw_param_set("max_resets", "0");
}

static int hostile_teardown(void **state)
{
	return *max_resets ? raw_param_set("max_resets", max_resets) : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BENCH_TEST(every_jump_of_an_index_loses_the_device_or_does_nothing),
		BENCH_TEST(an_index_that_jumps_while_the_kernel_looks_does_no_harm),
		BENCH_TEST(stale_completions_end_nothing),
		BENCH_TEST(completions_with_an_unknown_flag_or_something_in_a_pad_are_dropped),
		BENCH_TEST(completions_with_another_context_s_tag_end_that_context_s_job_only),
		BENCH_TEST(ctx_closed_for_contexts_that_live_changes_nothing),
		BENCH_TEST(random_bytes_in_the_firmware_s_memory_do_no_harm),
		BENCH_TEST(a_stopped_firmware_s_jobs_end_in_time_and_a_killed_one_s_at_once),
		BENCH_TEST(memory_that_the_kernel_writes_cannot_be_written_in_any_way),
		BENCH_TEST(aperture_pages_cannot_be_pinned),
		BENCH_TEST(
			apertures_of_closed_contexts_cannot_be_mapped_and_mapped_ones_stay_empty),
		BENCH_TEST(mappings_kept_after_the_fd_is_closed_end_with_the_device),
		BENCH_TEST(a_child_that_keeps_the_fd_keeps_the_device_until_it_dies),
		BENCH_TEST(several_threads_in_enter_count_each_completion_once),
	};

	return cmocka_run_group_tests_name("hostile", tests, hostile_setup, hostile_teardown);
}
