/* SPDX-License-Identifier: MIT */
/*
 * The number of threads to keep busy: the affinity mask, and the quotas of control groups, whose
 * files these tests write below a root of their own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpus.h"

static char root[64];

static int make_root(void **state)
{
	strcpy(root, "/tmp/vnpu-cpus-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

static int remove_root(void **state)
{
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file below the root, with its folders. */
static void put(const char *name, const char *text)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s%s", root, name);
	for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		assert_true(!mkdir(path, 0755) || errno == EEXIST);
		*slash = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static struct host_cpus read_cpus(void)
{
	struct host_cpus cpus;

	host_cpus_read(root, &cpus);
	return cpus;
}

static unsigned int smaller(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* Expects a quota, the file that has it, and the number of threads that it allows. */
static void expect_quota(double quota, const char *file, unsigned int threads)
{
	struct host_cpus cpus = read_cpus();

	assert_true(cpus.quota > quota - 1e-9 && cpus.quota < quota + 1e-9);
	assert_string_equal(cpus.file, file);
	assert_int_equal(cpus.threads, smaller(threads, cpus.allowed));
}

static void expect_none(void)
{
	struct host_cpus cpus = read_cpus();

	assert_true(cpus.quota == 0);
	assert_string_equal(cpus.file, "");
	assert_int_equal(cpus.threads, cpus.allowed);
}

static void test_without_files_the_affinity_mask_counts(void **state)
{
	cpu_set_t set;

	expect_none();
	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	assert_int_equal(read_cpus().allowed, CPU_COUNT(&set));
}

static void test_an_affinity_mask_of_one_cpu_allows_one_thread(void **state)
{
	cpu_set_t all, one;
	struct host_cpus cpus;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	put("/proc/self/cgroup", "0::/a\n");
	put("/sys/fs/cgroup/a/cpu.max", "900000 100000\n");
	cpus = read_cpus();
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	assert_int_equal(cpus.allowed, 1);
	assert_int_equal(cpus.threads, 1);
}

static void test_a_quota_is_rounded_up(void **state)
{
	static const struct {
		const char *max;
		double quota;
		unsigned int threads;
	} cases[] = {
		{ "100000 100000\n", 1, 1 },	  { "150000 100000\n", 1.5, 2 },
		{ "1000 100000\n", 0.01, 1 },	  { "200000 100000\n", 2, 2 },
		{ "100001 50000\n", 2.00002, 3 }, { "50000 100000\n", 0.5, 1 },
	};

	put("/proc/self/cgroup", "0::/a\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put("/sys/fs/cgroup/a/cpu.max", cases[i].max);
		expect_quota(cases[i].quota, "/sys/fs/cgroup/a/cpu.max", cases[i].threads);
	}
}

static void test_the_smallest_quota_on_the_way_up_holds(void **state)
{
	put("/proc/self/cgroup", "0::/a/b/c\n");
	put("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
	put("/sys/fs/cgroup/a/b/cpu.max", "300000 100000\n");
	put("/sys/fs/cgroup/a/cpu.max", "30000 20000\n");
	put("/sys/fs/cgroup/a/other/cpu.max", "1000 100000\n");
	expect_quota(1.5, "/sys/fs/cgroup/a/cpu.max", 2);
	put("/sys/fs/cgroup/cpu.max", "25000 100000\n");
	expect_quota(0.25, "/sys/fs/cgroup/cpu.max", 1);
	put("/sys/fs/cgroup/a/b/c/cpu.max", "20000 100000\n");
	expect_quota(0.2, "/sys/fs/cgroup/a/b/c/cpu.max", 1);
}

/* Without a namespace of control groups, a container sees the host's path and its own files. */
static void test_a_path_that_is_not_mounted_leads_to_the_root(void **state)
{
	put("/proc/self/cgroup", "0::/docker/0123abc\n");
	put("/sys/fs/cgroup/cpu.max", "120000 100000\n");
	expect_quota(1.2, "/sys/fs/cgroup/cpu.max", 2);
}

static void test_version_1_has_quota_and_period_in_two_files(void **state)
{
	put("/proc/self/cgroup", "5:cpuacct,cpu:/a\n4:memory:/m\n1:name=systemd:/\n0::/\n");
	put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
	put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
	put("/sys/fs/cgroup/memory/m/cpu.cfs_quota_us", "1000\n");
	put("/sys/fs/cgroup/memory/m/cpu.cfs_period_us", "100000\n");
	expect_none();
	put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "130000\n");
	expect_quota(1.3, "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", 2);
	put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
	expect_quota(1.3, "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", 2);
	put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	expect_quota(0.5, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", 1);
}

static void test_both_versions_may_be_mounted(void **state)
{
	put("/proc/self/cgroup", "3:cpu:/a\n0::/b\n");
	put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "200000\n");
	put("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
	put("/sys/fs/cgroup/unified/b/cpu.max", "100000 100000\n");
	expect_quota(1, "/sys/fs/cgroup/unified/b/cpu.max", 1);
}

static void test_what_cannot_be_read_is_no_quota(void **state)
{
	static const char *const bad[] = { "",	       "max\n",	   "100000\n",	 "a b\n",
					   "1000 0\n", "0 1000\n", "-5 100000\n" };

	put("/sys/fs/cgroup/cpu.max", "1000 100000\n");
	expect_none();
	put("/proc/self/cgroup", "nothing of the kind\n");
	expect_none();
	put("/proc/self/cgroup", "0:\n0::/a\n");
	put("/sys/fs/cgroup/cpu.max", "max 100000\n");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put("/sys/fs/cgroup/a/cpu.max", bad[i]);
		expect_none();
	}
}

static void test_a_process_has_at_least_one_thread(void **state)
{
	assert_true(host_threads() >= 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
	const struct CMUnitTest tests[] = {
		TEST(test_without_files_the_affinity_mask_counts),
		TEST(test_an_affinity_mask_of_one_cpu_allows_one_thread),
		TEST(test_a_quota_is_rounded_up),
		TEST(test_the_smallest_quota_on_the_way_up_holds),
		TEST(test_a_path_that_is_not_mounted_leads_to_the_root),
		TEST(test_version_1_has_quota_and_period_in_two_files),
		TEST(test_both_versions_may_be_mounted),
		TEST(test_what_cannot_be_read_is_no_quota),
		cmocka_unit_test(test_a_process_has_at_least_one_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
