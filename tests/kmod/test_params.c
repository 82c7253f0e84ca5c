// SPDX-License-Identifier: MIT
/* The module's parameters at run time: they refuse invalid values and keep the old one. */
#include "vnpu_raw.h"

static const struct {
	const char *name, *least, *most;
	const char *bad[9];
} params[] = {
	{ "timeout_ms",
	  "1",
	  "3600000",
	  { "0", "3600001", "4294967295", "4294967296", "-1", "", "x", "1x" } },
	{ "max_timeout_ms",
	  "1",
	  "3600000",
	  { "0", "3600001", "4294967295", "18446744073709551617", "-1", " ", "1.5" } },
	{ "reset_ms", "1", "3600000", { "0", "3600001", "2147483648", "-3600000", "ten", "0x" } },
	{ "max_resets", "0", "16", { "17", "4294967295", "4294967296", "-1", "", "many" } },
	{ "reset_window_s", "1", "86400", { "0", "86401", "4294967295", "-1", "", "600s" } },
};

#define NR_PARAMS (sizeof(params) / sizeof(*params))

static void needed(void)
{
	close(raw_control());
}

static void expect_param(const char *name, const char *want)
{
	char now[32];

	raw_param_get(name, now, sizeof(now));
	if (strcmp(now, want))
		fail_msg("%s is %s instead of %s", name, now, want);
}

static void parameters_refuse_invalid_values_and_keep_the_old_ones(void **state)
{
	needed();
	for (size_t i = 0; i < NR_PARAMS; i++) {
		char was[32];

		raw_param_get(params[i].name, was, sizeof(was));
		for (int k = 0; params[i].bad[k]; k++) {
			/* An empty write does not reach the module. */
			int ret = raw_param_set(params[i].name,
						*params[i].bad[k] ? params[i].bad[k] : "\n");

			if (ret != -EINVAL && ret != -ERANGE)
				fail_msg("%s took \"%s\": %d", params[i].name, params[i].bad[k],
					 ret);
			expect_param(params[i].name, was);
		}
	}
}

static void parameters_accept_their_minimum_and_maximum(void **state)
{
	needed();
	for (size_t i = 0; i < NR_PARAMS; i++) {
		char was[32];

		raw_param_get(params[i].name, was, sizeof(was));
		assert_int_equal(raw_param_set(params[i].name, params[i].least), 0);
		expect_param(params[i].name, params[i].least);
		assert_int_equal(raw_param_set(params[i].name, params[i].most), 0);
		expect_param(params[i].name, params[i].most);
		assert_int_equal(raw_param_set(params[i].name, was), 0);
		expect_param(params[i].name, was);
	}
}

static void export_parameters_are_booleans_that_can_be_changed(void **state)
{
	static const char *const names[] = { "prime_export", "fence_export" };

	needed();
	for (int i = 0; i < 2; i++) {
		expect_param(names[i], "N");
		assert_int_equal(raw_param_set(names[i], "Y"), 0);
		expect_param(names[i], "Y");
		assert_int_equal(raw_param_set(names[i], "maybe"), -EINVAL);
		expect_param(names[i], "Y");
		assert_int_equal(raw_param_set(names[i], "N"), 0);
	}
}

/* A device's own timeout takes precedence; the parameter is for devices without one. */
static void timeouts_of_devices_that_set_none_are_the_parameters(void **state)
{
	struct vnpu_ctl_add_dev add = raw_fw_defaults();
	char timeout[32], most[32];
	struct raw_fw fw;
	int fd;

	needed();
	raw_param_get("timeout_ms", timeout, sizeof(timeout));
	raw_param_get("max_timeout_ms", most, sizeof(most));
	raw_fw_add(&fw, NULL);
	fd = raw_client(fw.minor);
	assert_int_equal(raw_param_set("timeout_ms", "1234"), 0);
	assert_int_equal(raw_param_set("max_timeout_ms", "5678"), 0);
	assert_int_equal(raw_limits(fd).default_timeout_ms, 1234);
	assert_int_equal(raw_limits(fd).max_timeout_ms, 5678);
	/* A default above the maximum is lowered to it. */
	assert_int_equal(raw_param_set("timeout_ms", "6000"), 0);
	assert_int_equal(raw_limits(fd).default_timeout_ms, 5678);
	close(fd);
	raw_fw_remove(&fw);
	add.timeout_ms = 77;
	add.max_timeout_ms = 88;
	raw_fw_add(&fw, &add);
	fd = raw_client(fw.minor);
	assert_int_equal(raw_limits(fd).default_timeout_ms, 77);
	assert_int_equal(raw_limits(fd).max_timeout_ms, 88);
	close(fd);
	raw_fw_remove(&fw);
	assert_int_equal(raw_param_set("timeout_ms", timeout), 0);
	assert_int_equal(raw_param_set("max_timeout_ms", most), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parameters_refuse_invalid_values_and_keep_the_old_ones),
		cmocka_unit_test(parameters_accept_their_minimum_and_maximum),
		cmocka_unit_test(export_parameters_are_booleans_that_can_be_changed),
		cmocka_unit_test(timeouts_of_devices_that_set_none_are_the_parameters),
	};

	return cmocka_run_group_tests_name("params", tests, NULL, NULL);
}
