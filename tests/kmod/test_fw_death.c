// SPDX-License-Identifier: MIT
/*
 * A firmware that is killed or stopped at each step of its protocol. The firmware is a child of the
 * test; the test is the client, and then the next firmware.
 */
#include <signal.h>
#include <sys/wait.h>

#include "recovery.h"

/* Where the child stops, to be killed. */
enum step {
	STEP_ADDED, /* ADD_DEV, no START */
	STEP_STARTED, /* START, but never reads the rings */
	STEP_SEEN, /* a job is in the ring */
	STEP_TAKEN, /* sq_head was advanced */
	STEP_RUNNING, /* started_seqno and some progress are written */
	STEP_STATUS, /* completed_seqno is written */
	STEP_ENTRY, /* the completion is written, cq_tail is not */
	STEP_POSTED, /* cq_tail is written, ENTER was not called */
	STEP_COMPLETED, /* ENTER(COMPLETE) has returned */
	STEP_SLEEPS, /* in ENTER(WAIT) */
	STEP_CANCEL, /* a CANCEL was taken */
	STEP_CLOSE, /* a CTX_CLOSE was taken */
	STEP_CLOSED, /* the aperture is unmapped, the answer not posted */
	NR_STEPS
};

static const char *const names[NR_STEPS] = {
	"ADD_DEV returned",	"START returned",    "a job is seen",	 "a job is taken",
	"a job runs",		"status is written", "entry is written", "tail is written",
	"ENTER has completed",	"ENTER sleeps",	     "CANCEL is taken",	 "CTX_CLOSE is taken",
	"aperture is unmapped",
};

struct shared {
	uint32_t dev_id;
	int minor;
	uint32_t reached; /* step + 1 */
};

static struct shared *shared;

/* ---- the child; it cannot fail the test, it only gets stuck ---- */

static void reach(enum step now, enum step last)
{
	if (now != last)
		return;
	__atomic_store_n(&shared->reached, now + 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static void child_job(struct raw_fw *fw, const struct vnpu_fw_sqe *sqe, enum step last)
{
	struct drm_vnpu_queue_status *page = raw_fw_status(fw, sqe->queue);

	reach(STEP_TAKEN, last);
	raw_fw_started(fw, sqe);
	fw_progress(fw, sqe);
	reach(STEP_RUNNING, last);
	raw_fw_raise(page, sqe->seqno);
	reach(STEP_STATUS, last);
	fw->cq[fw->cq_tail & (fw->cq_entries - 1)] =
		(struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = sqe->tag };
	reach(STEP_ENTRY, last);
	__atomic_store_n(&fw->ctl->cq_tail, ++fw->cq_tail, __ATOMIC_RELEASE);
	reach(STEP_POSTED, last);
	raw_fw_enter(fw, VNPU_FW_ENTER_COMPLETE, 0, NULL);
	reach(STEP_COMPLETED, last);
}

static void child_main(enum step last)
{
	struct vnpu_ctl_add_dev add = raw_fw_defaults();
	int ctl = open(RAW_CONTROL, O_RDWR | O_CLOEXEC);
	struct raw_fw fw = { 0 };
	struct vnpu_fw_sqe sqe;
	void *aperture = NULL;

	alarm(120 * raw_slow());
	add.max_timeout_ms = 20000;
	if (raw_ioctl(ctl, VNPU_CTL_ADD_DEV, &add))
		_exit(1);
	fw.fd = add.fw_fd;
	shared->dev_id = fw.dev_id = add.dev_id;
	raw_fw_map_rings(&fw);
	reach(STEP_ADDED, last);
	raw_fw_start(&fw);
	shared->minor = fw.minor;
	reach(STEP_STARTED, last);
	if (last == STEP_SLEEPS) {
		/* Set beforehand, because the child cannot set it while it sleeps. */
		__atomic_store_n(&shared->reached, last + 1, __ATOMIC_RELEASE);
		while (!raw_fw_enter(&fw, VNPU_FW_ENTER_WAIT, -1, NULL))
			fw.sq_head = fw.info->sq_tail;
		_exit(2);
	}
	__atomic_store_n(&shared->reached, NR_STEPS + 1, __ATOMIC_RELEASE);
	for (;;) {
		while (__atomic_load_n(&fw.info->sq_tail, __ATOMIC_ACQUIRE) == fw.sq_head)
			if (raw_fw_enter(&fw, VNPU_FW_ENTER_WAIT, -1, NULL))
				_exit(2);
		reach(STEP_SEEN, last);
		if (!raw_fw_pop(&fw, &sqe, 0))
			continue;
		if (!aperture)
			aperture = raw_fw_map(fw.fd, (uint64_t)sqe.ctx << 32, 1ull << 32,
					      PROT_READ | PROT_WRITE);
		if (sqe.type == VNPU_FW_SQE_CANCEL) {
			reach(STEP_CANCEL, last);
		} else if (sqe.type == VNPU_FW_SQE_CTX_CLOSE) {
			reach(STEP_CLOSE, last);
			munmap(aperture, 1ull << 32);
			reach(STEP_CLOSED, last);
		} else if (last != STEP_CANCEL) {
			child_job(&fw, &sqe, last);
		}
	}
}

/* ---- the test ---- */

static pid_t child_start(enum step last)
{
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		/*
		 * A firmware that accesses revoked memory ends here; cmocka's handler would
		 * continue it as a test.
		 */
		signal(SIGBUS, SIG_DFL);
		child_main(last);
		_exit(3);
	}
	assert_true(pid > 0);
	return pid;
}

/* Waits until the child has reached its step, or with @ready until it serves. */
static void child_wait(enum step last, bool ready)
{
	int64_t until = raw_in_ms(RAW_LONG_MS);
	uint32_t reached;

	do {
		reached = __atomic_load_n(&shared->reached, __ATOMIC_ACQUIRE);
		if (raw_now_ns() > until)
			fail_msg("the child does not get to: %s", names[last]);
		usleep(1000);
	} while (reached != (uint32_t)last + 1 && !(ready && reached));
}

static void child_hit(pid_t pid, int sig)
{
	int status;

	assert_int_equal(kill(pid, sig), 0);
	if (sig == SIGKILL)
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	else
		assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
}

/* True if the firmware had reported that it works on the job, which then is to blame. */
static bool was_running(enum step step)
{
	return step == STEP_RUNNING || step == STEP_STATUS || step == STEP_ENTRY;
}

/*
 * Checks that the job ended within its timeout and a second, with a plausible result. A stopped
 * firmware is reset soon after, which its context may also report.
 */
static void assert_ended(struct timed_job *t, uint32_t ctx,
			 const struct drm_vnpu_queue_status *page, enum step step, int sig,
			 int64_t hit)
{
	bool answered = step == STEP_POSTED || step == STEP_COMPLETED,
	     guilty = sig == SIGSTOP && was_running(step);
	int result = answered ? 0 : sig == SIGKILL ? -EIO : guilty ? -ETIMEDOUT : -EBUSY;
	int64_t end = timed_end(t, result);
	uint32_t state = raw_ctx_state(t->fd, ctx).state;

	print_message("%d: job ended %d ms after the hit\n", result, (int)((end - hit) / MS));
	assert_true(end - hit <= (T_MS + LATE_MS) * MS);
	assert_int_equal(page->completed_seqno, t->seqno);
	if (answered)
		return;
	assert_int_equal(page->error, -result);
	if (sig == SIGKILL)
		assert_int_equal(state, DRM_VNPU_CTX_FW_LOST);
	else
		assert_int_equal(state & ~DRM_VNPU_CTX_FW_LOST, guilty ? DRM_VNPU_CTX_TIMEDOUT : 0);
}

/* Checks that the device works with another firmware, whatever the first one does. */
static void assert_comes_back(int fd, uint32_t dev_id)
{
	struct bench b = { .fd = fd, .fw = { .dev_id = dev_id, .fd = -1 } };
	int64_t until = raw_in_ms(RAW_LONG_MS);
	uint32_t epoch = raw_state(fd).epoch;

	while (raw_fw_attach(&b.fw) == -EBUSY) {
		assert_true(raw_now_ns() < until);
		usleep(5000);
	}
	raw_fw_start(&b.fw);
	assert_true(raw_state(fd).epoch >= epoch);
	assert_int_equal(raw_state(fd).state, DRM_VNPU_STATE_READY);
	device_works(&b);
	raw_fw_die(&b.fw);
}

/* A stopped firmware that is continued finds its session over, and does no harm. */
static void child_goes_on(pid_t pid)
{
	int status;

	kill(pid, SIGCONT);
	usleep(20000);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) || WIFEXITED(status));
}

static void hit_before_start(int sig)
{
	pid_t pid = child_start(STEP_ADDED);

	child_wait(STEP_ADDED, false);
	assert_int_equal(control_state(shared->dev_id), VNPU_CTL_DEV_NEW);
	child_hit(pid, sig);
	if (sig == SIGSTOP) {
		/* Nobody waits for it, and it can be removed. */
		assert_int_equal(control_state(shared->dev_id), VNPU_CTL_DEV_NEW);
		assert_int_equal(raw_del_dev(shared->dev_id), 0);
		child_goes_on(pid);
	}
	assert_int_equal(control_state(shared->dev_id), UINT32_MAX);
}

static void hit_at(enum step step, int sig)
{
	bool early = step == STEP_STARTED || step == STEP_SLEEPS;
	const struct drm_vnpu_queue_status *page;
	struct drm_vnpu_queue_create q;
	struct timed_job t;
	uint32_t ctx;
	int64_t hit;
	pid_t pid;
	int fd;

	print_message("-- %s: %s\n", sig == SIGKILL ? "killed" : "stopped", names[step]);
	pid = child_start(step);
	child_wait(step, !early);
	fd = raw_client(shared->minor);
	ctx = raw_ctx(fd);
	q = raw_queue_full(fd, ctx, 4);
	page = raw_queue_status(fd, &q);
	t = timed_submit(fd, ctx, q.queue_id, T_MS);
	if (step == STEP_CANCEL || step == STEP_CLOSE || step == STEP_CLOSED) {
		/* The client closes first, so the firmware dies owing an answer. */
		munmap((void *)page, PAGE);
		page = NULL;
		if (step != STEP_CANCEL)
			assert_int_equal(raw_result(fd, q.queue_id, t.seqno), 0);
		assert_int_equal(step == STEP_CANCEL ? raw_queue_destroy(fd, q.queue_id)
						     : raw_ctx_destroy(fd, ctx),
				 0);
	}
	if (!early)
		child_wait(step, false);
	hit = raw_now_ns();
	child_hit(pid, sig);
	if (page)
		assert_ended(&t, ctx, page, step, sig, hit);
	else
		close(t.sync_file);
	if (page && sig == SIGSTOP && (step == STEP_POSTED || step == STEP_COMPLETED)) {
		/* It owes nothing so far. */
		munmap((void *)page, PAGE);
		page = NULL;
		assert_int_equal(raw_ctx_destroy(fd, ctx), 0);
	}
	wait_epoch(fd, 2, RESET_MS + T_MS + 2 * LATE_MS);
	assert_int_equal(raw_state(fd).last_loss,
			 sig == SIGKILL ? DRM_VNPU_LOSS_EXIT : DRM_VNPU_LOSS_HANG);
	if (page) {
		/* The device's epoch changes before those of its queues. */
		for (int64_t until = raw_now_ns() + LATE_MS * MS;
		     page->epoch != 2 && raw_now_ns() < until;)
			usleep(1000);
		assert_int_equal(page->epoch, 2);
		munmap((void *)page, PAGE);
	}
	assert_comes_back(fd, shared->dev_id);
	if (sig == SIGSTOP)
		child_goes_on(pid);
	assert_comes_back(fd, shared->dev_id);
	close(fd);
	assert_int_equal(raw_del_dev(shared->dev_id), 0);
}

static int group_setup(void **state)
{
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!access(RAW_CONTROL, R_OK | W_OK)) {
		module_save();
		module_set("reset_ms", RESET_MS);
	}
	return shared == MAP_FAILED;
}

static int group_teardown(void **state)
{
	if (!access(RAW_CONTROL, R_OK | W_OK))
		module_restore();
	return 0;
}

static void a_firmware_killed_at_any_step_costs_its_jobs_only(void **state)
{
	close(raw_control());
	hit_before_start(SIGKILL);
	for (int step = STEP_STARTED; step < NR_STEPS; step++)
		hit_at(step, SIGKILL);
}

static void a_firmware_stopped_at_any_step_is_replaced(void **state)
{
	close(raw_control());
	hit_before_start(SIGSTOP);
	for (int step = STEP_STARTED; step < NR_STEPS; step++)
		hit_at(step, SIGSTOP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_firmware_killed_at_any_step_costs_its_jobs_only),
		cmocka_unit_test(a_firmware_stopped_at_any_step_is_replaced),
	};

	return cmocka_run_group_tests_name("fw_death", tests, group_setup, group_teardown);
}
