// SPDX-License-Identifier: MIT
/*
 * Fences that outlive their origin: a sync_file's names and status are read after the job's queue,
 * its context, its file and its device are gone, one by one, with the job done and with the job
 * still waiting for a fence of another driver. A waiting job ends with the first of them that goes,
 * whatever it waits for.
 *
 * With the argument "hold" it makes such a sync_file, closes everything else, and keeps it until it
 * is killed.
 */
#include <poll.h>
#include <linux/sync_file.h>

#include "foreign.h"

struct fences {
	struct raw_fw fw;
	struct foreign foreign;
	int fd, sync_file;
	uint32_t ctx, queue;
};

/* Adds a device with one job, and exports the job's fence as a sync_file. */
static void fences_make(struct fences *f, bool done)
{
	struct drm_vnpu_sync_op syncs[2] = { { .flags = DRM_VNPU_SYNC_SIGNAL } };
	struct drm_vnpu_job job;

	raw_fw_add(&f->fw, NULL);
	f->fd = raw_client(f->fw.minor);
	f->ctx = raw_ctx(f->fd);
	f->queue = raw_queue(f->fd, f->ctx);
	syncs[0].handle = raw_syncobj(f->fd);
	job = raw_job(f->queue);
	if (!done)
		syncs[1].handle = raw_syncobj_of(f->fd, f->foreign.sync_file);
	raw_job_syncs(&job, syncs, done ? 1 : 2);
	assert_int_equal(raw_submit_jobs(f->fd, f->ctx, &job, 1), 0);
	f->sync_file = raw_sync_file(f->fd, syncs[0].handle);
	if (done)
		raw_fw_serve(&f->fw, VNPU_FW_OK);
}

/* Checks the sync_file and its fence. Kernels after 6.12 do not ask signalled ones for names. */
static void fences_expect(const struct fences *f, int status, const char *after)
{
	struct sync_fence_info fence = { 0 };
	struct sync_file_info info = { .num_fences = 1, .sync_fence_info = (uintptr_t)&fence };
	struct pollfd p = { .fd = f->sync_file, .events = POLLIN };

	print_message("after %s\n", after);
	assert_int_equal(raw_ioctl(f->sync_file, SYNC_IOC_FILE_INFO, &info), 0);
	assert_int_equal(info.num_fences, 1);
	assert_int_equal(info.status, status);
	assert_int_equal(fence.status, status);
	assert_int_equal(poll(&p, 1, 0), status ? 1 : 0);
	if (strcmp(fence.driver_name, "detached-driver") || !status) {
		assert_string_equal(fence.driver_name, "vnpu");
		assert_string_equal(fence.obj_name, "queue");
	} else {
		assert_string_equal(fence.obj_name, "signaled-timeline");
	}
	assert_true(fence.timestamp_ns != 0 || !status);
}

static void fences_wait(const struct fences *f)
{
	struct pollfd p = { .fd = f->sync_file, .events = POLLIN };

	assert_int_equal(poll(&p, 1, RAW_LONG_MS), 1);
}

/* What is removed, from the inside out. */
static const char *const steps[] = { "its making", "its queue",		 "its context",
				     "its file",   "the firmware's end", "its device" };

static void fences_step(struct fences *f, int step)
{
	switch (step) {
	case 1:
		assert_int_equal(raw_queue_destroy(f->fd, f->queue), 0);
		break;
	case 2:
		assert_int_equal(raw_ctx_destroy(f->fd, f->ctx), 0);
		break;
	case 3:
		close(f->fd);
		break;
	case 4:
		raw_fw_die(&f->fw);
		break;
	case 5:
		assert_int_equal(raw_del_dev(f->fw.dev_id), 0);
		break;
	}
}

/* Removes what the last @last steps have left. */
static void fences_drop(struct fences *f, int last)
{
	if (last < 3)
		close(f->fd);
	if (last < 2)
		raw_fw_die(&f->fw);
	close(f->sync_file);
}

static void needed(void)
{
	if (access(RAW_CONTROL, R_OK | W_OK))
		skip();
}

static void a_signalled_fence_outlives_its_origin(void **state)
{
	struct fences f = { 0 };

	needed();
	/* The device alone, the device after its firmware, and so on. */
	for (int last = 1; last < 6; last++) {
		fences_make(&f, true);
		fences_expect(&f, 1, steps[0]);
		for (int step = 6 - last; step < 6; step++) {
			fences_step(&f, step);
			fences_expect(&f, 1, steps[step]);
		}
		fences_drop(&f, last);
	}
}

static void a_waiting_job_s_fence_ends_with_the_first_that_goes_and_outlives_the_rest(void **state)
{
	struct fences f = { 0 };

	needed();
	for (int last = 1; last < 6; last++) {
		/* The firmware's or device's end fails the job, a client's end cancels it. */
		int status = last < 3 ? -EIO : -ECANCELED;

		if (!foreign_make(&f.foreign))
			skip();
		fences_make(&f, false);
		fences_expect(&f, 0, steps[0]);
		for (int step = 6 - last; step < 6; step++) {
			fences_step(&f, step);
			fences_wait(&f);
			fences_expect(&f, status, steps[step]);
		}
		/* The fence that it waited for signals now, and changes nothing. */
		foreign_signal(&f.foreign);
		fences_expect(&f, status, "its dependency");
		foreign_end(&f.foreign);
		fences_drop(&f, last);
	}
}

static void a_syncobj_sent_to_another_device_outlives_its_origin(void **state)
{
	struct fences f = { 0 };
	struct raw_fw other;
	uint32_t syncobj;
	int fd;

	needed();
	fences_make(&f, true);
	raw_fw_add(&other, NULL);
	fd = raw_client(other.minor);
	syncobj = raw_syncobj_of(fd, f.sync_file);
	close(f.sync_file);
	for (int step = 1; step < 6; step++)
		fences_step(&f, step);
	assert_int_equal(raw_syncobj_wait(fd, syncobj, 0, RAW_LONG_MS), 0);
	f.sync_file = raw_sync_file(fd, syncobj);
	fences_expect(&f, 1, "its device, through another's syncobj");
	close(f.sync_file);
	close(fd);
	raw_fw_remove(&other);
}

/* For the step "rmmod is refused while somebody holds a fence" of the virtual machine. */
static int hold(const char *how)
{
	struct fences f = { 0 };
	bool done = !strcmp(how, "signalled");

	if (!done && !foreign_make(&f.foreign)) {
		printf("no vgem, whose fence it would wait for\n");
		return 77;
	}
	fences_make(&f, done);
	for (int step = 1; step < 6; step++)
		fences_step(&f, step);
	fences_wait(&f);
	fences_expect(&f, done ? 1 : -ECANCELED, "all");
	printf("holding\n");
	fflush(stdout);
	pause();
	return 1;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signalled_fence_outlives_its_origin),
		cmocka_unit_test(
			a_waiting_job_s_fence_ends_with_the_first_that_goes_and_outlives_the_rest),
		cmocka_unit_test(a_syncobj_sent_to_another_device_outlives_its_origin),
	};

	if (argc == 3 && !strcmp(argv[1], "hold"))
		return hold(argv[2]);
	return cmocka_run_group_tests_name("fences", tests, NULL, NULL);
}
