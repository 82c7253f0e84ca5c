// SPDX-License-Identifier: MIT
/*
 * The device-side ABI, field by field: what the control node and the firmware fd refuse, without
 * changing anything.
 */
#include "fields.h"

/*
 * A device that runs, one whose firmware is gone, one that was never started, and one that is about
 * to be deleted.
 */
static struct {
	int ctl;
	struct raw_fw running, lost;
	struct vnpu_ctl_add_dev fresh, spare;
} n;

struct footprint {
	uint32_t devices, states;
	int fd;
};

static struct footprint footprint;

static struct footprint take_footprint(void)
{
	struct vnpu_ctl_info info = { 0 };
	struct footprint f = { 0 };

	for (; !raw_ioctl(n.ctl, VNPU_CTL_INFO, &info); info.dev_id++) {
		f.states |= info.state << 4 * f.devices;
		f.devices++;
	}
	f.fd = dup(0);
	close(f.fd);
	return f;
}

static void nothing_changed(void)
{
	struct footprint now = take_footprint();

	assert_memory_equal(&now, &footprint, sizeof(now));
}

static void add(struct vnpu_ctl_add_dev *dev)
{
	*dev = raw_fw_defaults();
	assert_int_equal(raw_ioctl(n.ctl, VNPU_CTL_ADD_DEV, dev), 0);
}

static struct field_bad bad_attach_id[4], bad_id[3];

static int fw_setup(void **state)
{
	if (access(RAW_CONTROL, R_OK | W_OK))
		return 0;
	n.ctl = raw_control();
	raw_fw_add(&n.running, NULL);
	raw_fw_add(&n.lost, NULL);
	raw_fw_die(&n.lost);
	add(&n.fresh);
	add(&n.spare);
	footprint = take_footprint();
	bad_id[0] = bad_attach_id[0] = (struct field_bad){ UINT32_MAX, ENOENT };
	bad_id[1] = bad_attach_id[1] = (struct field_bad){ n.spare.dev_id + 1, ENOENT };
	bad_attach_id[2] = (struct field_bad){ n.running.dev_id, EBUSY };
	return 0;
}

static int fw_teardown(void **state)
{
	if (!n.running.info)
		return 0;
	raw_fw_remove(&n.running);
	raw_fw_remove(&n.lost);
	close(n.fresh.fw_fd);
	close(n.spare.fw_fd);
	close(n.ctl);
	return 0;
}

static void needed(void)
{
	if (!n.running.info)
		skip();
}

static int the_control(void)
{
	return n.ctl;
}

#define CALL(name, file)                                  \
	static int call_##name(void *arg)                 \
	{                                                 \
		return raw_ioctl(file, VNPU_##name, arg); \
	}

#define IOCTL(name, where) \
	.call = call_##name, .check = nothing_changed, .fd = where, .cmd = VNPU_##name

/* ---- the control node ---- */

CALL(CTL_VERSION, n.ctl)
CALL(CTL_ADD_DEV, n.ctl)
CALL(CTL_ATTACH, n.ctl)
CALL(CTL_DEL_DEV, n.ctl)
CALL(CTL_INFO, n.ctl)

static const struct field_bad bad_version[] = {
	{ 0, EPROTO }, { VNPU_FW_ABI + 1, EPROTO }, { 1u << 31, EPROTO }, { UINT32_MAX, EPROTO },
	{ 0, 0 },
};

/*
 * Smaller than in the first release, and larger than an argument can be. test_control.c has the
 * sizes between.
 */
static const struct field_bad bad_add_dev_size[] = {
	{ 0, EINVAL },
	{ 4, EINVAL },
	{ sizeof(struct vnpu_ctl_add_dev) - 1, EINVAL },
	{ PAGE + 1, E2BIG },
	{ 1u << 31, E2BIG },
	{ UINT32_MAX, E2BIG },
	{ 0, 0 },
};
static const struct field_bad bad_attach_size[] = {
	{ 0, EINVAL },	     { 4, EINVAL },	    { sizeof(struct vnpu_ctl_attach) - 1, EINVAL },
	{ PAGE + 1, E2BIG }, { UINT32_MAX, E2BIG }, { 0, 0 },
};

static void good_version(void *arg)
{
}

static const struct field version_fields[] = {
	FIELD(struct vnpu_ctl_version, min, ANY),
	FIELD(struct vnpu_ctl_version, max, ANY),
	FIELD(struct vnpu_ctl_version, features, ANY),
};

static void good_add_dev(void *arg)
{
	*(struct vnpu_ctl_add_dev *)arg = raw_fw_defaults();
}

static void undo_add_dev(void *arg)
{
	close(((struct vnpu_ctl_add_dev *)arg)->fw_fd);
}

static const struct field_bad bad_nr_queues[] = {
	{ 0, EINVAL },		{ VNPU_FW_MAX_QUEUES + 1, EINVAL },
	{ 1u << 28, EINVAL },	{ 1u << 31, EINVAL },
	{ UINT32_MAX, EINVAL }, { 0, 0 },
};
static const struct field_bad bad_depth[] = {
	{ 0, EINVAL },		{ 3, EINVAL },
	{ 15, EINVAL },		{ VNPU_FW_MAX_DEPTH * 2, EINVAL },
	{ 1u << 29, EINVAL },	{ 1u << 31, EINVAL },
	{ UINT32_MAX, EINVAL }, { 0, 0 },
};
static const struct field_bad bad_nr_ctx[] = {
	{ 0, EINVAL },
	{ VNPU_FW_MAX_CTX + 1, EINVAL },
	{ 1u << 31, EINVAL },
	{ UINT32_MAX, EINVAL },
	{ 0, 0 },
};
static const struct field_bad bad_va_bits[] = {
	{ 0, EINVAL },
	{ 12, EINVAL },
	{ VNPU_FW_MIN_VA_BITS - 1, EINVAL },
	{ VNPU_FW_MAX_VA_BITS + 1, EINVAL },
	{ 64, EINVAL },
	{ 1u << 31, EINVAL },
	{ UINT32_MAX, EINVAL },
	{ 0, 0 },
};
static const struct field_bad bad_timeout[] = {
	{ VNPU_FW_MAX_TIMEOUT_MS + 1, EINVAL },
	{ 1u << 31, EINVAL },
	{ UINT32_MAX, EINVAL },
	{ 0, 0 },
};
/* More than the device of raw_fw_defaults() has. */
static const struct field_bad bad_user_slots[] = {
	{ 9, EINVAL },
	{ 1u << 31, EINVAL },
	{ UINT32_MAX, EINVAL },
	{ 0, 0 },
};

static const struct field add_dev_fields[] = {
	FIELD(struct vnpu_ctl_add_dev, size, VALUE, .bad = bad_add_dev_size),
	FIELD(struct vnpu_ctl_add_dev, version, VALUE, .bad = bad_version),
	FIELD(struct vnpu_ctl_add_dev, abi_features, ANY),
	FIELD(struct vnpu_ctl_add_dev, client_features, ANY),
	FIELD(struct vnpu_ctl_add_dev, flags, ZERO),
	FIELD(struct vnpu_ctl_add_dev, name, OTHER),
	FIELD(struct vnpu_ctl_add_dev, isa_version, ANY),
	FIELD(struct vnpu_ctl_add_dev, nr_queues, VALUE, .bad = bad_nr_queues),
	FIELD(struct vnpu_ctl_add_dev, queue_depth, VALUE, .bad = bad_depth),
	FIELD(struct vnpu_ctl_add_dev, nr_ctx, VALUE, .bad = bad_nr_ctx),
	FIELD(struct vnpu_ctl_add_dev, va_bits, VALUE, .bad = bad_va_bits),
	FIELD(struct vnpu_ctl_add_dev, dev_id, ANY),
	FIELD(struct vnpu_ctl_add_dev, mem_limit, ANY),
	FIELD(struct vnpu_ctl_add_dev, fw_fd, ANY),
	FIELD(struct vnpu_ctl_add_dev, timeout_ms, VALUE, .bad = bad_timeout),
	FIELD(struct vnpu_ctl_add_dev, max_timeout_ms, VALUE, .bad = bad_timeout),
	FIELD(struct vnpu_ctl_add_dev, user_ctx, VALUE, .bad = bad_user_slots),
	FIELD(struct vnpu_ctl_add_dev, user_queues, VALUE, .bad = bad_user_slots),
	FIELD(struct vnpu_ctl_add_dev, user_mem, ANY),
};

static const struct target add_dev_target =
	TARGET(struct vnpu_ctl_add_dev, add_dev_fields, IOCTL(CTL_ADD_DEV, the_control),
	       .good = good_add_dev, .undo = undo_add_dev);

static void good_attach(void *arg)
{
	*(struct vnpu_ctl_attach *)arg =
		(struct vnpu_ctl_attach){ .size = sizeof(struct vnpu_ctl_attach),
					  .version = VNPU_FW_ABI,
					  .dev_id = n.lost.dev_id };
}

static void undo_attach(void *arg)
{
	close(((struct vnpu_ctl_attach *)arg)->fw_fd);
}

static const struct field attach_fields[] = {
	FIELD(struct vnpu_ctl_attach, size, VALUE, .bad = bad_attach_size),
	FIELD(struct vnpu_ctl_attach, version, VALUE, .bad = bad_version),
	FIELD(struct vnpu_ctl_attach, abi_features, ANY),
	FIELD(struct vnpu_ctl_attach, dev_id, VALUE, .bad = bad_attach_id),
	FIELD(struct vnpu_ctl_attach, fw_fd, ANY),
};

static void good_del_dev(void *arg)
{
	*(struct vnpu_ctl_del_dev *)arg = (struct vnpu_ctl_del_dev){ .dev_id = n.spare.dev_id };
}

static void undo_del_dev(void *arg)
{
	close(n.spare.fw_fd);
	add(&n.spare);
}

static const struct field del_dev_fields[] = {
	FIELD(struct vnpu_ctl_del_dev, dev_id, VALUE, .bad = bad_id),
	FIELD(struct vnpu_ctl_del_dev, flags, ZERO),
};

static void good_info(void *arg)
{
}

static const struct field info_fields[] = {
	FIELD(struct vnpu_ctl_info, dev_id, VALUE, .bad = bad_id),
	FIELD(struct vnpu_ctl_info, state, ANY),
	FIELD(struct vnpu_ctl_info, accel_minor, ANY),
	FIELD(struct vnpu_ctl_info, fw_pid, ANY),
	FIELD(struct vnpu_ctl_info, epoch, ANY),
	FIELD(struct vnpu_ctl_info, pad, ZERO),
	FIELD(struct vnpu_ctl_info, name, ANY),
};

static const struct target version_target =
	TARGET(struct vnpu_ctl_version, version_fields, IOCTL(CTL_VERSION, the_control),
	       .good = good_version);
static const struct target attach_target =
	TARGET(struct vnpu_ctl_attach, attach_fields, IOCTL(CTL_ATTACH, the_control),
	       .good = good_attach, .undo = undo_attach);
static const struct target del_dev_target =
	TARGET(struct vnpu_ctl_del_dev, del_dev_fields, IOCTL(CTL_DEL_DEV, the_control),
	       .good = good_del_dev, .undo = undo_del_dev);
static const struct target info_target =
	TARGET(struct vnpu_ctl_info, info_fields, IOCTL(CTL_INFO, the_control), .good = good_info);

static void control(void **state)
{
	needed();
	fields_test(&version_target);
	fields_test(&add_dev_target);
	fields_test(&attach_target);
	fields_test(&del_dev_target);
	fields_test(&info_target);
}

static void names_of_devices(void **state)
{
	static const char *const bad[] = { "",	   "\n",    "a\nb",  "a\tb",
					   "\x7f", "a\x80", "a\xff", "a\x1b[31m" };
	struct vnpu_ctl_add_dev dev;

	needed();
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		dev = raw_fw_defaults();
		memset(dev.name, 0, sizeof(dev.name));
		strcpy(dev.name, bad[i]);
		field_expect(&add_dev_target, "name", "case", i, call_CTL_ADD_DEV(&dev), EINVAL);
	}
	/* Without a terminating NUL, and with data after it. */
	dev = raw_fw_defaults();
	memset(dev.name, 'x', sizeof(dev.name));
	field_expect(&add_dev_target, "name", "length", 32, call_CTL_ADD_DEV(&dev), EINVAL);
	for (size_t at = strlen(raw_fw_defaults().name) + 1; at < sizeof(dev.name); at++) {
		dev = raw_fw_defaults();
		dev.name[at] = 'x';
		field_expect(&add_dev_target, "name", "byte", at, call_CTL_ADD_DEV(&dev), EINVAL);
	}
	dev = raw_fw_defaults();
	memset(dev.name, 'x', sizeof(dev.name) - 1);
	field_expect(&add_dev_target, "name", "length", 31, call_CTL_ADD_DEV(&dev), 0);
	close(dev.fw_fd);
}

static void rings_that_would_be_too_large(void **state)
{
	struct vnpu_ctl_add_dev dev = raw_fw_defaults();

	needed();
	for (dev.nr_queues = VNPU_FW_MAX_QUEUES; dev.nr_queues; dev.nr_queues /= 2) {
		dev.queue_depth = 2 * VNPU_FW_MAX_JOBS / dev.nr_queues;
		field_expect(&add_dev_target, "nr_queues", "times depth", dev.nr_queues,
			     call_CTL_ADD_DEV(&dev), EINVAL);
	}
}

/* ---- the firmware fd ---- */

static int the_fresh_one(void)
{
	return n.fresh.fw_fd;
}

static int the_running_one(void)
{
	return n.running.fd;
}

CALL(FW_START, n.fresh.fw_fd)
CALL(FW_ENTER, n.running.fd)

static void good_start(void *arg)
{
}

static void undo_start(void *arg)
{
	assert_int_equal(raw_del_dev(n.fresh.dev_id), 0);
	close(n.fresh.fw_fd);
	add(&n.fresh);
}

static const struct field start_fields[] = {
	FIELD(struct vnpu_fw_start, flags, ZERO),
	FIELD(struct vnpu_fw_start, accel_minor, ANY),
};

static void good_enter(void *arg)
{
	*(struct vnpu_fw_enter *)arg = (struct vnpu_fw_enter){ .flags = VNPU_FW_ENTER_COMPLETE };
}

static const struct field enter_fields[] = {
	FIELD(struct vnpu_fw_enter, flags, FLAGS,
	      .known = VNPU_FW_ENTER_COMPLETE | VNPU_FW_ENTER_WAIT),
	FIELD(struct vnpu_fw_enter, sq_seen, ANY),
	FIELD(struct vnpu_fw_enter, timeout_ns, ANY),
	FIELD(struct vnpu_fw_enter, nr_completed, ANY),
	FIELD(struct vnpu_fw_enter, pad, ZERO),
};

static const struct target start_target =
	TARGET(struct vnpu_fw_start, start_fields, IOCTL(FW_START, the_fresh_one),
	       .good = good_start, .undo = undo_start);
static const struct target enter_target = TARGET(
	struct vnpu_fw_enter, enter_fields, IOCTL(FW_ENTER, the_running_one), .good = good_enter);

static void firmware(void **state)
{
	struct vnpu_fw_start start = { 0 };

	needed();
	fields_test(&start_target);
	field_expect(&start_target, "", "twice", 0, raw_ioctl(n.running.fd, VNPU_FW_START, &start),
		     EBUSY);
	fields_test(&enter_target);
}

/* ---- numbers ---- */

static const struct target *const ioctls[] = { &version_target, &add_dev_target, &attach_target,
					       &del_dev_target, &info_target,	 &start_target,
					       &enter_target };

/* ADD_DEV and ATTACH have their size in their arguments. */
static bool grows(const struct target *t)
{
	return t == &add_dev_target || t == &attach_target;
}

/* The other calls have one size each, and each file its own calls. */
static void ioctls_with_another_size_direction_or_file_are_unknown(void **state)
{
	uint8_t arg[FIELD_MAX_ARG] = { 0 };

	needed();
	for (size_t i = 0; i < sizeof(ioctls) / sizeof(*ioctls); i++) {
		const struct target *t = ioctls[i];
		int other = t->fd == the_control ? n.running.fd : n.ctl;

		for (size_t size = 0; size < t->size + 16 && !grows(t); size++) {
			if (size == t->size)
				continue;
			t->good(arg);
			field_expect(t, "", "size", size,
				     field_ioctl(t,
						 _IOC(_IOC_DIR(t->cmd), VNPU_FW_IOC,
						      _IOC_NR(t->cmd), size),
						 (uintptr_t)arg),
				     ENOTTY);
		}
		for (unsigned int dir = 0; dir < 4; dir++)
			if (dir != _IOC_DIR(t->cmd))
				field_expect(t, "", "direction", dir,
					     field_ioctl(t,
							 _IOC(dir, VNPU_FW_IOC, _IOC_NR(t->cmd),
							      t->size),
							 (uintptr_t)arg),
					     ENOTTY);
		field_expect(t, "", "other file", 0, raw_ioctl(other, t->cmd, arg), ENOTTY);
	}
	for (unsigned int nr = 0; nr < 256; nr++) {
		assert_int_equal(raw_ioctl(n.ctl, _IO(VNPU_FW_IOC, nr), NULL), -ENOTTY);
		assert_int_equal(raw_ioctl(n.running.fd, _IO(VNPU_FW_IOC, nr), NULL), -ENOTTY);
		assert_int_equal(raw_ioctl(n.running.fd, _IO('d', nr), NULL), -ENOTTY);
	}
	nothing_changed();
}

/* A caller to whom the number of its new fd or device cannot be returned gets neither. */
static void a_call_whose_results_cannot_be_copied_back_changes_nothing(void **state)
{
	needed();
	for (size_t i = 0; i < sizeof(ioctls) / sizeof(*ioctls); i++) {
		const struct target *t = ioctls[i];
		uint8_t arg[FIELD_MAX_ARG] = { 0 }, *p;
		int ret;

		if (!(_IOC_DIR(t->cmd) & _IOC_READ))
			continue;
		t->good(arg);
		p = memcpy(edge(t->size), arg, t->size);
		edge_protect(PROT_READ);
		ret = field_ioctl(t, t->cmd, (uintptr_t)p);
		edge_protect(PROT_READ | PROT_WRITE);
		field_expect(t, "", "read-only", 0, ret, EFAULT);
		field_untouched(t, NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(control),
		cmocka_unit_test(names_of_devices),
		cmocka_unit_test(rings_that_would_be_too_large),
		cmocka_unit_test(firmware),
		cmocka_unit_test(ioctls_with_another_size_direction_or_file_are_unknown),
		cmocka_unit_test(a_call_whose_results_cannot_be_copied_back_changes_nothing),
	};
	int ret = cmocka_run_group_tests_name("negative_fw", tests, fw_setup, fw_teardown);

	printf("%u cases\n", field_cases);
	return ret;
}
