// SPDX-License-Identifier: MIT
/*
 * DRM's own calls on the node, without any privilege: each number from 0x00 to 0xff, with every
 * size, direction and argument. The core's table is made for display drivers, and some of its calls
 * assume a master, which the file of an accel node does not have; so all calls that clients do not
 * need must be refused before the core sees them.
 */
#define _GNU_SOURCE
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "foreign.h"

#define NOBODY 65534

/* Calls that are allowed. All others: -EOPNOTSUPP. */
static const struct {
	unsigned int nr;
	const char *name;
} allowed[] = {
	{ 0x00, "VERSION" },
	{ 0x09, "GEM_CLOSE" },
	{ 0x0c, "GET_CAP" },
	{ 0x0d, "SET_CLIENT_CAP" },
	{ 0x2d, "PRIME_HANDLE_TO_FD" },
	{ 0x2e, "PRIME_FD_TO_HANDLE" },
	{ 0xbf, "SYNCOBJ_CREATE" },
	{ 0xc0, "SYNCOBJ_DESTROY" },
	{ 0xc1, "SYNCOBJ_HANDLE_TO_FD" },
	{ 0xc2, "SYNCOBJ_FD_TO_HANDLE" },
	{ 0xc3, "SYNCOBJ_WAIT" },
	{ 0xc4, "SYNCOBJ_RESET" },
	{ 0xc5, "SYNCOBJ_SIGNAL" },
	{ 0xca, "SYNCOBJ_TIMELINE_WAIT" },
	{ 0xcb, "SYNCOBJ_QUERY" },
	{ 0xcc, "SYNCOBJ_TRANSFER" },
	{ 0xcd, "SYNCOBJ_TIMELINE_SIGNAL" },
	{ 0xcf, "SYNCOBJ_EVENTFD" },
	{ 0xd1, "SET_CLIENT_NAME" },
};

static bool is_allowed(unsigned int nr)
{
	for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed); i++)
		if (allowed[i].nr == nr)
			return true;
	return nr >= DRM_COMMAND_BASE && nr < DRM_COMMAND_END;
}

/* Runs the function in a child without privileges, on its own file; returns the exit status. */
static int as_nobody(int minor, int (*fn)(int fd))
{
	char path[64];
	int status;
	pid_t pid;

	snprintf(path, sizeof(path), "/dev/accel/accel%d", minor);
	assert_int_equal(chmod(path, 0666), 0);
	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		int fd;

		if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
			_exit(100);
		fd = open(path, O_RDWR | O_CLOEXEC);
		_exit(fd < 0 ? 101 : fn(fd));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int complain(unsigned int nr, unsigned long cmd, int ret)
{
	printf("core call %#x (%#lx): %d\n", nr, cmd, ret);
	fflush(stdout);
	return 1;
}

static int try_refused(int fd)
{
	static const unsigned int sizes[] = { 0, 4, 8, 16, 24, 40, 64, 104, 128, 4096, 16383 };
	/* Not every kernel's core checks the type. (0 and some others are the file system's.) */
	static const unsigned int types[] = { 'd', 'V', VNPU_FW_IOC };
	_Alignas(8) static uint8_t arg[16384];

	for (unsigned int nr = 0; nr < 256; nr++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && !is_allowed(nr); i++) {
			for (unsigned int k = 0; k < 4 * 3 * sizeof(types) / sizeof(*types); k++) {
				unsigned int dir = k % 4, fill = k / 4 % 3, type = types[k / 12];
				unsigned long cmd = _IOC(dir, type, nr, sizes[i]);
				int ret;

				memset(arg, fill ? 0xff : 0, sizeof(arg));
				ret = raw_ioctl(fd, cmd, fill == 2 ? NULL : arg);
				if (ret != -EOPNOTSUPP)
					return complain(nr, cmd, ret);
			}
		}
	}
	return 0;
}

static void an_unprivileged_user_does_not_get_past_the_filter_of_core_calls(void **state)
{
	client(state);
	assert_int_equal(as_nobody(server.fw.minor, try_refused), 0);
}

static void root_does_not_get_past_the_filter_of_core_calls(void **state)
{
	assert_int_equal(try_refused(client(state)), 0);
}

/*
 * What they do with random arguments is the core's concern, but the kernel must survive it and the
 * file stay usable. Nothing here waits for long: an absolute time of all ones has passed, or the
 * call's arrays do not exist.
 */
static int try_allowed(int fd)
{
	static const unsigned int sizes[] = { 0, 4, 8, 16, 24, 40, 64, 128 };
	_Alignas(8) static uint8_t arg[16384];
	struct drm_vnpu_query_state now = { 0 };
	struct drm_vnpu_dev_query query = { DRM_VNPU_QUERY_STATE, sizeof(now), (uintptr_t)&now };

	for (size_t a = 0; a < sizeof(allowed) / sizeof(*allowed); a++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			for (unsigned int k = 0; k < 4 * 3; k++) {
				memset(arg, k / 4 ? 0xff : 0, sizeof(arg));
				raw_ioctl(fd, _IOC(k % 4, 'd', allowed[a].nr, sizes[i]),
					  k / 4 == 2 ? NULL : arg);
			}
		}
	}
	return raw_ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &query) != 0;
}

static void random_arguments_of_allowed_core_calls_do_no_harm(void **state)
{
	client(state);
	assert_int_equal(as_nobody(server.fw.minor, try_allowed), 0);
}

static int try_version_and_caps(int fd)
{
	char name[16] = { 0 };
	struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };
	struct drm_get_cap cap = { .capability = DRM_CAP_SYNCOBJ_TIMELINE };
	struct drm_set_client_cap bad = { .capability = 99, .value = 1 };

	if (raw_ioctl(fd, DRM_IOCTL_VERSION, &version) || strcmp(name, "vnpu") ||
	    version.version_major != 1)
		return 1;
	if (raw_ioctl(fd, DRM_IOCTL_GET_CAP, &cap) || cap.value != 1)
		return 2;
	/* The core refuses this, not the filter. */
	if (raw_ioctl(fd, DRM_IOCTL_SET_CLIENT_CAP, &bad) == 0)
		return 3;
	return 0;
}

static int try_objects(int fd)
{
	struct drm_vnpu_bo_create create = { .size = PAGE };
	struct drm_syncobj_create syncobj = { .flags = DRM_SYNCOBJ_CREATE_SIGNALED };
	struct drm_syncobj_array array = { .count_handles = 1 };
	struct drm_syncobj_destroy destroy = { 0 };
	struct drm_gem_close gem = { 0 };

	if (raw_ioctl(fd, DRM_IOCTL_VNPU_BO_CREATE, &create))
		return 1;
	gem.handle = create.handle;
	if (raw_ioctl(fd, DRM_IOCTL_GEM_CLOSE, &gem))
		return 2;
	if (raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &syncobj))
		return 3;
	array.handles = (uintptr_t)&syncobj.handle;
	if (raw_syncobj_wait(fd, syncobj.handle, 0, 0))
		return 4;
	if (raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_RESET, &array) ||
	    raw_syncobj_wait(fd, syncobj.handle, 0, 0) != -EINVAL)
		return 5;
	if (raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_SIGNAL, &array) ||
	    raw_syncobj_wait(fd, syncobj.handle, 0, 0))
		return 6;
	destroy.handle = syncobj.handle;
	return raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy) ? 7 : 0;
}

static void an_unprivileged_user_may_use_the_calls_that_a_client_needs(void **state)
{
	client(state);
	assert_int_equal(as_nobody(server.fw.minor, try_version_and_caps), 0);
	assert_int_equal(as_nobody(server.fw.minor, try_objects), 0);
}

/* ---- calls that parameters allow ---- */

static int try_exports(int fd)
{
	struct drm_vnpu_bo_create create = { .size = PAGE };
	struct drm_syncobj_create syncobj = { .flags = DRM_SYNCOBJ_CREATE_SIGNALED };
	struct drm_syncobj_handle handle = { 0 };

	if (raw_ioctl(fd, DRM_IOCTL_VNPU_BO_CREATE, &create) ||
	    vgem_export(fd, create.handle) != -EOPNOTSUPP)
		return 1;
	if (raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &syncobj))
		return 2;
	for (handle.flags = 0; handle.flags < 4; handle.flags++) {
		handle.handle = syncobj.handle;
		if (raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &handle) != -EOPNOTSUPP)
			return 3;
	}
	for (handle.flags = 0; handle.flags < 4; handle.flags++) {
		handle.fd = fd;
		if (raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &handle) != -EOPNOTSUPP)
			return 4;
	}
	return 0;
}

static void fences_and_buffers_are_not_exported_or_imported_by_default(void **state)
{
	client(state);
	raw_fence_export(false);
	assert_int_equal(raw_param_set("prime_export", "N"), 0);
	assert_int_equal(as_nobody(server.fw.minor, try_exports), 0);
}

static int incoming = -1;

static int try_import(int fd)
{
	struct drm_syncobj_create syncobj = { 0 };
	struct drm_syncobj_handle handle = {
		.flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE, .fd = incoming
	};

	if (raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &syncobj))
		return 1;
	handle.handle = syncobj.handle;
	return raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &handle) ? 2 : 0;
}

static void the_parameter_allows_importing_another_driver_s_sync_file(void **state)
{
	struct foreign f;
	int status;

	client(state);
	if (!foreign_make(&f))
		skip();
	incoming = f.sync_file;
	raw_fence_export(true);
	status = as_nobody(server.fw.minor, try_import);
	raw_fence_export(false);
	assert_int_equal(status, 0);
	foreign_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVER_TEST(an_unprivileged_user_does_not_get_past_the_filter_of_core_calls),
		SERVER_TEST(root_does_not_get_past_the_filter_of_core_calls),
		SERVER_TEST(random_arguments_of_allowed_core_calls_do_no_harm),
		SERVER_TEST(an_unprivileged_user_may_use_the_calls_that_a_client_needs),
		SERVER_TEST(fences_and_buffers_are_not_exported_or_imported_by_default),
		SERVER_TEST(the_parameter_allows_importing_another_driver_s_sync_file),
	};

	return cmocka_run_group_tests_name("core", tests, server_start, server_stop);
}
