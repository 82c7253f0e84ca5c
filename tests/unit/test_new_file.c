// SPDX-License-Identifier: MIT
/* New files, with files without a name and, by a filter of system calls, where there are none. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "new_file.h"

static bool filtered;
static char folder[64], path[PATH_MAX];

/* The files of the folder; removes those that were left unfinished. */
static int count_files(void)
{
	DIR *dir = opendir(folder);
	struct dirent *e;
	int n = 0;

	assert_non_null(dir);
	while ((e = readdir(dir))) {
		n += e->d_type == DT_REG;
		if (!strncmp(e->d_name, ".vnpu-", 6))
			assert_int_equal(unlinkat(dirfd(dir), e->d_name, 0), 0);
	}
	closedir(dir);
	return n;
}

static void expect_content(const char *name, const char *want)
{
	char text[16] = { 0 };
	int fd = open(name, O_RDONLY);

	assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) >= 0);
	close(fd);
	assert_string_equal(text, want);
}

static void write_file(const char *name, const char *text)
{
	struct new_file f;

	assert_int_equal(new_file_open(&f, name, 0640), 0);
	assert_int_equal(write(f.fd, text, strlen(text)), strlen(text));
	assert_int_equal(new_file_keep(&f), 0);
}

static void test_a_file_takes_its_name_when_it_is_complete(void **state)
{
	struct new_file f;
	struct stat st;

	assert_int_equal(new_file_open(&f, path, 0640), 0);
	assert_int_equal(write(f.fd, "new", 3), 3);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(new_file_keep(&f), 0);
	expect_content(path, "new");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(count_files(), 1);
}

static void test_an_old_file_stays_until_then(void **state)
{
	struct new_file f;

	write_file(path, "old");
	assert_int_equal(new_file_open(&f, path, 0666), 0);
	assert_int_equal(write(f.fd, "new", 3), 3);
	expect_content(path, "old");
	new_file_drop(&f);
	expect_content(path, "old");
	assert_int_equal(count_files(), 1);
	write_file(path, "new");
	expect_content(path, "new");
	assert_int_equal(count_files(), 1);
}

static void test_what_a_link_leads_to_is_replaced(void **state)
{
	char link[128];
	struct stat st;

	snprintf(link, sizeof(link), "%s/link", folder);
	write_file(path, "old");
	assert_int_equal(symlink(path, link), 0);
	write_file(link, "new");
	expect_content(path, "new");
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	unlink(link);
}

static void test_the_longest_names_work(void **state)
{
	size_t begin = (size_t)snprintf(path, sizeof(path), "%s/", folder);
	struct new_file f;

	memset(path + begin, 'n', NAME_MAX);
	path[begin + NAME_MAX] = 0;
	write_file(path, "old");
	write_file(path, "new");
	expect_content(path, "new");
	strcat(path, "n");
	assert_int_equal(new_file_open(&f, path, 0666), -ENAMETOOLONG);
	path[begin + NAME_MAX] = 0;
}

static void test_names_without_a_folder_are_of_this_one(void **state)
{
	char before[PATH_MAX];

	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir(folder), 0);
	write_file("file", "new");
	assert_int_equal(chdir(before), 0);
	expect_content(path, "new");
}

static void test_errors_leave_nothing(void **state)
{
	char name[sizeof(path) + 8];
	struct new_file f;

	assert_int_equal(new_file_open(&f, "/nonexistent/x", 0666), -ENOENT);
	/* A folder that appears at the name meanwhile. */
	assert_int_equal(new_file_open(&f, path, 0666), 0);
	assert_int_equal(mkdir(path, 0777), 0);
	snprintf(name, sizeof(name), "%s/in", path);
	assert_int_equal(mkdir(name, 0777), 0);
	assert_int_equal(new_file_keep(&f), -EISDIR);
	assert_int_equal(count_files(), 0);
	assert_int_equal(rmdir(name), 0);
	assert_int_equal(rmdir(path), 0);
}

/* Without files without a name, a killed program leaves one, but none of the file's name. */
static void test_a_killed_program_leaves_no_file_of_the_name(void **state)
{
	struct new_file f;
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (!new_file_open(&f, path, 0666) && write(f.fd, "new", 3) == 3)
			raise(SIGKILL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(count_files(), filtered);
	assert_int_equal(count_files(), 0);
}

static int setup(void **state)
{
	strcpy(folder, "/tmp/test_new_file-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/file", folder);
	return 0;
}

static int teardown(void **state)
{
	unlink(path);
	return rmdir(folder);
}

/* From now on, no file system has files without a name. */
static int filter_nameless(void **state)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	assert_non_null(filter);
	assert_int_equal(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EOPNOTSUPP), SCMP_SYS(openat), 1,
					  SCMP_A2(SCMP_CMP_MASKED_EQ, O_TMPFILE, O_TMPFILE)),
			 0);
	assert_int_equal(seccomp_load(filter), 0);
	seccomp_release(filter);
	filtered = true;
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_file_takes_its_name_when_it_is_complete),
		TEST(test_an_old_file_stays_until_then),
		TEST(test_what_a_link_leads_to_is_replaced),
		TEST(test_the_longest_names_work),
		TEST(test_names_without_a_folder_are_of_this_one),
		TEST(test_errors_leave_nothing),
		TEST(test_a_killed_program_leaves_no_file_of_the_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ||
	       cmocka_run_group_tests(tests, filter_nameless, NULL);
}
