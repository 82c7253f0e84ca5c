// SPDX-License-Identifier: MIT
/*
 * npu-info --doctor: checks each step from the module to the device, and stops at the first failure
 * with its cause and remedy. The line about OpenCL comes first and never fails, as no program needs
 * OpenCL.
 */
#include "npu-info.h"

#include <errno.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int good(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int bad(const char *fix, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int good(const char *fmt, ...)
{
	va_list ap;

	fputs("ok    ", stdout);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	return 0;
}

static int bad(const char *fix, const char *fmt, ...)
{
	va_list ap;

	fputs("FAIL  ", stdout);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n      to fix it: %s\n", fix);
	return 1;
}

static int check_module(void)
{
	if (!access("/sys/module/vnpu", F_OK))
		return good("module vnpu is loaded");
	return bad("as root: make insmod in vnpu's source tree (or modprobe vnpu where it is "
		   "installed)",
		   "module vnpu is not loaded");
}

static int check_control_node(void)
{
	struct stat st;

	if (!stat("/dev/vnpu-control", &st) && S_ISCHR(st.st_mode))
		return good("/dev/vnpu-control is there, for vnpu-fw to make devices with");
	return bad("mount devtmpfs on /dev, or in a container pass --device /dev/vnpu-control",
		   "the module is loaded but /dev/vnpu-control is not there");
}

/* How to make the node accessible, such as "add USER to group GROUP". */
static void permission_fix(const char *path, char *fix, size_t bytes)
{
	const struct passwd *pw = getpwuid(geteuid());
	const char *user = pw ? pw->pw_name : "the user";
	const struct group *gr = NULL;
	struct stat st;

	if (!stat(path, &st))
		gr = getgrgid(st.st_gid);
	if (gr && gr->gr_gid && (st.st_mode & 0060) == 0060)
		snprintf(fix, bytes, "as root: usermod -aG %s %s, then log in again", gr->gr_name,
			 user);
	else
		snprintf(fix, bytes,
			 "as root: chgrp render %s && chmod 660 %s, and usermod -aG render %s",
			 path, path, user);
}

/* Checks a node. 0: good, 1: bad and reported, -ENODEV: not a vnpu. */
static int check_node(const char *path)
{
	const struct npu_device_options opts = { .transport = NPU_TRANSPORT_DRM, .path = path };
	struct npu_device_state state;
	struct npu_device *dev;
	char fix[256], why[512];
	int ret;

	if (access(path, R_OK | W_OK) && errno == EACCES) {
		permission_fix(path, fix, sizeof(fix));
		return bad(fix, "%s: permission denied", path);
	}
	ret = npu_device_open(&opts, &dev);
	if (ret) {
		snprintf(why, sizeof(why), "%s", npu_error());
		if (ret == -ENODEV && !strstr(why, "firmware"))
			return -ENODEV;
		if (ret == -EPROTO)
			return bad(
				"build and install module, vnpu-fw and libnpu from one version of "
				"vnpu",
				"%s", why);
		return bad("as root: vnpu-fw --attach lost", "%s", why);
	}
	ret = npu_device_state(dev, &state);
	if (ret)
		ret = bad("see the kernel's log", "%s: %s", path, npu_error());
	else if (state.wedged)
		ret = bad("as root: vnpu-fw --attach lost, which says how to remove it",
			  "%s: wedged, it was reset too often", path);
	else if (state.lost)
		ret = bad("as root: vnpu-fw --attach lost", "%s: its firmware process is gone",
			  path);
	else
		ret = good("%s is a vnpu with a running firmware ('%s'), and can be opened", path,
			   npu_device_info(dev)->name);
	npu_device_close(dev);
	return ret;
}

static int check_nodes(void)
{
	int ret = -ENODEV;
	glob_t nodes;

	if (!glob("/dev/accel/accel*", 0, NULL, &nodes)) {
		for (size_t i = 0; i < nodes.gl_pathc && ret; i++) {
			int r = check_node(nodes.gl_pathv[i]);

			if (r != -ENODEV)
				ret = r;
		}
		globfree(&nodes);
	}
	if (ret == -ENODEV)
		return bad("as root: start vnpu-fw; the node appears when the firmware does",
			   "there is no vnpu among /dev/accel/accel*: no firmware is running");
	return ret;
}

int npu_info_doctor(void)
{
	static int (*const checks[])(void) = { check_module, check_control_node, check_nodes };

	npu_info_opencl_doctor();
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (checks[i]()) {
			puts("The drm transport cannot be used. Programs run on sim, the same "
			     "device in their own process.");
			return 1;
		}
	}
	puts("The drm transport can be used.");
	return 0;
}
