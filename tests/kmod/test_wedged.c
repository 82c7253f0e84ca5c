// SPDX-License-Identifier: MIT
/*
 * The last step of recovery: a device that was reset too often in a short time is wedged, and which
 * resets count. The test plays the firmware.
 */
#include <linux/netlink.h>
#include <sys/socket.h>

#include "recovery.h"
#include "observe.h"

static int uevent_socket(void)
{
	struct sockaddr_nl addr = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static bool has_line(const char *msg, ssize_t len, const char *line)
{
	for (const char *p = msg; p < msg + len; p += strlen(p) + 1)
		if (!strcmp(p, line))
			return true;
	return false;
}

/* True if the node reports within @ms that it is wedged. */
static bool uevent_wedged(int fd, int minor, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char msg[4096], node[32];
	ssize_t len;

	snprintf(node, sizeof(node), "DEVNAME=accel/accel%d", minor);
	while (poll(&p, 1, ms) == 1) {
		len = recv(fd, msg, sizeof(msg) - 1, 0);
		if (len <= 0)
			continue;
		msg[len] = 0;
		if (has_line(msg, len, node) && has_line(msg, len, "WEDGED=vendor-specific"))
			return has_line(msg, len, "ACTION=change");
	}
	return false;
}

static void resets_in_a_short_time_wedge_the_device(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_ctx_create create = { 0 };
	int uevents = uevent_socket();
	char path[64];

	for (int i = 1; i <= 3; i++) {
		assert_int_equal(raw_state(b->fd).state, DRM_VNPU_STATE_READY);
		hang_once(b);
		assert_int_equal(raw_state(b->fd).nr_resets, i);
		if (i < 3) {
			assert_false(uevent_wedged(uevents, b->fw.minor, 0));
			fw_comes_again(b);
		}
	}
	assert_int_equal(raw_state(b->fd).state, DRM_VNPU_STATE_WEDGED);
	assert_int_equal(control_state(b->fw.dev_id), VNPU_CTL_DEV_WEDGED);
	assert_true(uevent_wedged(uevents, b->fw.minor, RAW_LONG_MS));
	close(uevents);
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create), -EIO);
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_WAIT, -1, NULL), -EIO);
	raw_fw_die(&b->fw);
	assert_int_equal(raw_fw_attach(&b->fw), -EIO);
	/* Old contexts can be destroyed, and the device can only be removed. */
	assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
	assert_int_equal(raw_del_dev(b->fw.dev_id), 0);
	snprintf(path, sizeof(path), "/dev/accel/accel%d", b->fw.minor);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create), -ENODEV);
	close(b->fd);
	raw_fw_add(&b->fw, NULL);
	b->fd = -1;
}

/* Neither time alone nor successful jobs matter: only resets within reset_window_s count. */
static void resets_long_ago_do_not_count(void **state)
{
	struct bench *b = bench(state);
	unsigned int window_s = 2 * SCALE;

	module_set("max_resets", 2);
	module_set("reset_window_s", window_s);
	for (int i = 0; i < 3; i++) {
		hang_once(b);
		assert_int_equal(raw_state(b->fd).state, DRM_VNPU_STATE_LOST);
		fw_comes_again(b);
		sleep(window_s + 1);
	}
	hang_once(b);
	assert_int_equal(raw_state(b->fd).state, DRM_VNPU_STATE_LOST);
	fw_comes_again(b);
	hang_once(b);
	assert_int_equal(raw_state(b->fd).state, DRM_VNPU_STATE_WEDGED);
	assert_int_equal(raw_state(b->fd).nr_resets, 5);
}

static void a_job_that_succeeds_does_not_clear_the_count_of_resets(void **state)
{
	struct bench *b = bench(state);

	module_set("max_resets", 2);
	hang_once(b);
	fw_comes_again(b);
	device_works(b);
	hang_once(b);
	assert_int_equal(raw_state(b->fd).state, DRM_VNPU_STATE_WEDGED);
}

static void force_reset(struct bench *b)
{
	int dir = debugfs_dir(b->fw.minor), fd;

	if (dir < 0)
		skip();
	fd = openat(dir, "force_reset", O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "1", 1), 1);
	close(fd);
	close(dir);
}

static void resets_by_an_administrator_wedge_nothing(void **state)
{
	struct bench *b = bench(state);

	module_set("max_resets", 2);
	for (int i = 0; i < 5; i++) {
		force_reset(b);
		assert_int_equal(raw_state(b->fd).state, DRM_VNPU_STATE_LOST);
		assert_int_equal(raw_state(b->fd).last_loss, DRM_VNPU_LOSS_FORCED);
		fw_comes_again(b);
	}
	/* Forced resets do not count towards the firmware's limit, not even in part. */
	hang_once(b);
	assert_int_equal(raw_state(b->fd).state, DRM_VNPU_STATE_LOST);
	fw_comes_again(b);
	device_works(b);
}

static void the_number_of_resets_can_be_set(void **state)
{
	struct bench *b = bench(state);

	module_set("max_resets", 0);
	for (int i = 0; i < 5; i++) {
		hang_once(b);
		fw_comes_again(b);
	}
	module_set("max_resets", 1);
	hang_once(b);
	assert_int_equal(raw_state(b->fd).state, DRM_VNPU_STATE_WEDGED);
}

static void a_firmware_may_come_and_go_as_often_as_it_likes(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_query_state s;

	for (int i = 0; i < 10; i++)
		fw_comes_again(b);
	s = raw_state(b->fd);
	assert_int_equal(s.state, DRM_VNPU_STATE_READY);
	assert_int_equal(s.epoch, 11);
	assert_int_equal(s.nr_resets, 0);
	assert_int_equal(s.last_loss, DRM_VNPU_LOSS_EXIT);
	device_works(b);
	assert_int_equal(raw_state(b->fd).nr_jobs, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RECOVERY_TEST(resets_in_a_short_time_wedge_the_device),
		RECOVERY_TEST(resets_long_ago_do_not_count),
		RECOVERY_TEST(a_job_that_succeeds_does_not_clear_the_count_of_resets),
		RECOVERY_TEST(resets_by_an_administrator_wedge_nothing),
		RECOVERY_TEST(the_number_of_resets_can_be_set),
		RECOVERY_TEST(a_firmware_may_come_and_go_as_often_as_it_likes),
	};

	return cmocka_run_group_tests_name("wedged", tests, NULL, NULL);
}
