// SPDX-License-Identifier: MIT
/*
 * Extensions of the device-side ABI: a firmware compiled with another release's structures, shorter
 * or longer, and one that knows features that this kernel does not. The test is the firmware.
 */
#include "vnpu_raw.h"

/* A structure with room for additions of later releases. */
struct longer {
	uint8_t bytes[PAGE + 64];
};

static struct raw_fw lost;

static int control_setup(void **state)
{
	if (access(RAW_CONTROL, R_OK | W_OK))
		return 0;
	raw_fw_add(&lost, NULL);
	raw_fw_die(&lost);
	return 0;
}

static int control_teardown(void **state)
{
	if (lost.info)
		raw_fw_remove(&lost);
	return 0;
}

#define CONTROL_TEST(f) cmocka_unit_test_setup_teardown(f, control_setup, control_teardown)

/* ADD_DEV or ATTACH by a program whose structure has @size bytes, also in its ioctl number. */
static int call(unsigned long cmd, struct longer *arg, uint32_t size)
{
	int ctl = raw_control(), ret;

	memcpy(arg, &size, sizeof(size));
	ret = raw_ioctl(ctl, _IOC(_IOC_DIR(cmd), VNPU_FW_IOC, _IOC_NR(cmd), size & _IOC_SIZEMASK),
			arg);
	close(ctl);
	return ret;
}

static int add(struct longer *arg, uint32_t size)
{
	struct vnpu_ctl_add_dev good = raw_fw_defaults();
	int ret;

	memcpy(arg, &good, sizeof(good));
	ret = call(VNPU_CTL_ADD_DEV, arg, size);
	if (!ret)
		close(((struct vnpu_ctl_add_dev *)arg)->fw_fd);
	return ret;
}

static int attach(struct longer *arg, uint32_t size)
{
	struct vnpu_ctl_attach good = { .version = VNPU_FW_ABI, .dev_id = lost.dev_id };
	int ret;

	memcpy(arg, &good, sizeof(good));
	ret = call(VNPU_CTL_ATTACH, arg, size);
	if (!ret)
		close(((struct vnpu_ctl_attach *)arg)->fw_fd);
	return ret;
}

static const struct {
	const char *name;
	int (*call)(struct longer *arg, uint32_t size);
	uint32_t size;
} calls[] = {
	{ "ADD_DEV", add, sizeof(struct vnpu_ctl_add_dev) },
	{ "ATTACH", attach, sizeof(struct vnpu_ctl_attach) },
};

#define NR_CALLS (sizeof(calls) / sizeof(*calls))

static void expect_call(int ret, int error, const char *name, uint32_t size)
{
	if (ret != -error)
		fail_msg("%s with %u bytes: %d instead of %d", name, size, ret, -error);
}

static void a_longer_structure_with_a_zero_tail_is_accepted_and_its_tail_not_written(void **state)
{
	const uint32_t more[] = { 1, 4, 8, 24, 1000, PAGE };

	close(raw_control());
	for (size_t c = 0; c < NR_CALLS; c++) {
		for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++) {
			uint32_t size = more[i] == PAGE ? PAGE : calls[c].size + more[i];
			struct longer arg = { { 0 } };

			/* The kernel must ignore what is beyond its end. */
			memset(arg.bytes + size, 0xa5, sizeof(arg.bytes) - size);
			expect_call(calls[c].call(&arg, size), 0, calls[c].name, size);
			for (size_t k = calls[c].size; k < size; k++)
				assert_int_equal(arg.bytes[k], 0);
			for (size_t k = size; k < sizeof(arg.bytes); k++)
				assert_int_equal(arg.bytes[k], 0xa5);
		}
	}
}

static void a_longer_structure_with_a_nonzero_tail_is_refused(void **state)
{
	close(raw_control());
	for (size_t c = 0; c < NR_CALLS; c++) {
		for (uint32_t at = 0; at < 32; at++) {
			struct longer arg = { { 0 } };

			arg.bytes[calls[c].size + at] = 1;
			expect_call(calls[c].call(&arg, calls[c].size + 32), E2BIG, calls[c].name,
				    calls[c].size + 32);
			/* One byte less, so the value is beyond the end. */
			memset(arg.bytes, 0, sizeof(arg.bytes));
			arg.bytes[calls[c].size + at] = 1;
			expect_call(calls[c].call(&arg, calls[c].size + at), 0, calls[c].name,
				    calls[c].size + at);
		}
	}
}

static void a_structure_shorter_than_the_first_release_s_is_refused(void **state)
{
	close(raw_control());
	for (size_t c = 0; c < NR_CALLS; c++) {
		for (uint32_t size = 0; size < calls[c].size; size++) {
			struct longer arg = { { 0 } };

			expect_call(calls[c].call(&arg, size), EINVAL, calls[c].name, size);
		}
	}
}

static void unknown_features_are_masked_and_not_refused(void **state)
{
	struct vnpu_ctl_add_dev dev = raw_fw_defaults();
	struct vnpu_ctl_attach again = { .size = sizeof(again),
					 .version = VNPU_FW_ABI,
					 .dev_id = lost.dev_id };
	struct vnpu_ctl_version version = { 0 };
	struct vnpu_fw_info *info;
	int ctl = raw_control();

	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_VERSION, &version), 0);
	assert_int_equal(version.features, VNPU_FW_FEATURES);
	dev.abi_features = again.abi_features = UINT64_MAX;
	dev.client_features = 0x123456789abcdef0;
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ADD_DEV, &dev), 0);
	assert_int_equal(dev.abi_features, version.features);
	assert_int_equal(dev.client_features, 0x123456789abcdef0);
	info = raw_fw_map(dev.fw_fd, 0, PAGE, PROT_READ);
	assert_non_null(info);
	assert_int_equal(info->abi_features, version.features);
	assert_int_equal(info->over, 0);
	munmap(info, PAGE);
	close(dev.fw_fd);
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ATTACH, &again), 0);
	assert_int_equal(again.abi_features, version.features);
	close(again.fw_fd);
	close(ctl);
}

/* As by other drivers' programs, strace's tables, or older releases of this ABI. */
static void calls_of_another_type_are_unknown(void **state)
{
	uint8_t arg[256] = { 0 };
	int ctl = raw_control();

	for (unsigned int type = 0; type < 256; type++) {
		if (type == VNPU_FW_IOC)
			continue;
		assert_int_equal(raw_ioctl(ctl,
					   _IOC(_IOC_READ | _IOC_WRITE, type, 1,
						sizeof(struct vnpu_ctl_add_dev)),
					   arg),
				 -ENOTTY);
		assert_int_equal(
			raw_ioctl(ctl, _IOC(_IOC_READ, type, 0, sizeof(struct vnpu_ctl_version)),
				  arg),
			-ENOTTY);
	}
	close(ctl);
}

static bool there_is_a_device_named(int ctl, const char *name)
{
	struct vnpu_ctl_info info = { 0 };
	uint32_t next;

	while (!raw_ioctl(ctl, VNPU_CTL_INFO, &info)) {
		if (!strcmp(info.name, name))
			return true;
		next = info.dev_id + 1;
		info = (struct vnpu_ctl_info){ .dev_id = next };
	}
	return false;
}

/* The structures are in memory that the kernel can read and not write. */
static void a_call_whose_results_cannot_be_returned_makes_no_firmware(void **state)
{
	static const char name[] = "unreturned";
	struct vnpu_ctl_attach again = { .size = sizeof(again),
					 .version = VNPU_FW_ABI,
					 .dev_id = lost.dev_id };
	struct vnpu_ctl_add_dev dev = raw_fw_defaults();
	int ctl = raw_control();
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	strcpy(dev.name, name);
	memcpy(page, &dev, sizeof(dev));
	mprotect(page, PAGE, PROT_READ);
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ADD_DEV, page), -EFAULT);
	assert_false(there_is_a_device_named(ctl, name));
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	memcpy(page, &again, sizeof(again));
	mprotect(page, PAGE, PROT_READ);
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ATTACH, page), -EFAULT);
	munmap(page, PAGE);
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ATTACH, &again), 0);
	close(again.fw_fd);
	close(ctl);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONTROL_TEST(
			a_longer_structure_with_a_zero_tail_is_accepted_and_its_tail_not_written),
		CONTROL_TEST(a_longer_structure_with_a_nonzero_tail_is_refused),
		CONTROL_TEST(a_structure_shorter_than_the_first_release_s_is_refused),
		CONTROL_TEST(unknown_features_are_masked_and_not_refused),
		CONTROL_TEST(calls_of_another_type_are_unknown),
		CONTROL_TEST(a_call_whose_results_cannot_be_returned_makes_no_firmware),
	};

	return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
