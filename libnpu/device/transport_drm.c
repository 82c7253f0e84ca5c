// SPDX-License-Identifier: MIT
/* The transport to vnpu.ko: finds the node, and explains each way in which that fails. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <drm/vnpu_accel.h>
#include <xf86drm.h>

#include <npu/vnpu_isa.h>

#include "npu_fail.h"
#include "npu_fd.h"
#include "transport.h"

#define ACCEL_DIR "/dev/accel"

struct drm_transport {
	struct transport base;
	int fd;
};

static struct drm_transport *to_drm(struct transport *t)
{
	return (struct drm_transport *)((char *)t - offsetof(struct drm_transport, base));
}

static int drm_transport_ioctl(struct transport *t, unsigned long request, void *arg)
{
	return drmIoctl(to_drm(t)->fd, request, arg) ? -errno : 0;
}

static int drm_transport_map(struct transport *t, uint64_t offset, size_t size, int prot,
			     void **addr)
{
	void *p = mmap(NULL, size, prot, MAP_SHARED, to_drm(t)->fd, (off_t)offset);

	if (p == MAP_FAILED)
		return -errno;
	*addr = p;
	return 0;
}

static int drm_transport_unmap(struct transport *t, void *addr, size_t size)
{
	return munmap(addr, size) ? -errno : 0;
}

static int drm_transport_import(struct transport *t, int fd, uint64_t offset,
				struct drm_vnpu_bo_create *create)
{
	return -EOPNOTSUPP;
}

static void drm_transport_close(struct transport *t)
{
	close(to_drm(t)->fd);
	free(to_drm(t));
}

static const struct transport_ops drm_transport_ops = {
	.ioctl = drm_transport_ioctl,
	.map = drm_transport_map,
	.unmap = drm_transport_unmap,
	.import = drm_transport_import,
	.close = drm_transport_close,
};

/* ---- finding it ---- */

static const char *node_group(const char *path, char *buf, size_t size)
{
	struct stat st;
	struct group *gr;

	if (stat(path, &st) || !(gr = getgrgid(st.st_gid)))
		return "render";
	snprintf(buf, size, "%s", gr->gr_name);
	return buf;
}

static int drm_refuse(enum drm_verdict *verdict, enum drm_verdict v, int err)
{
	*verdict = v;
	return err;
}

static int drm_open_node(const char *path, int *fd, enum drm_verdict *verdict)
{
	char group[64];
	int err;

	*fd = npu_fd_keep(open(path, O_RDWR | O_CLOEXEC));
	if (*fd >= 0)
		return 0;
	err = errno;
	switch (err) {
	case ENOENT:
		return drm_refuse(verdict, DRM_VERDICT_NO_NODE,
				  npu_fail(-ENOENT,
					   "%s: no such node; start vnpu-fw, or leave the path out",
					   path));
	case EACCES:
	case EPERM: {
		const char *name = node_group(path, group, sizeof(group));

		if (!strcmp(name, "root"))
			return drm_refuse(
				verdict, DRM_VERDICT_NO_PERMISSION,
				npu_fail(-EACCES,
					 "%s: permission denied; it belongs to root alone, install "
					 "the udev rule of vnpu (make install)",
					 path));
		return drm_refuse(
			verdict, DRM_VERDICT_NO_PERMISSION,
			npu_fail(-EACCES,
				 "%s: permission denied; add yourself to group %s (usermod -aG %s "
				 "USER) and log in again",
				 path, name, name));
	}
	case ENODEV:
	case ENXIO:
		return drm_refuse(
			verdict, DRM_VERDICT_NO_NODE,
			npu_fail(-ENODEV,
				 "%s: its device is gone with its firmware; start vnpu-fw again",
				 path));
	default:
		return drm_refuse(verdict, DRM_VERDICT_ERROR,
				  npu_fail(-err, "%s: open: %s", path, strerror(err)));
	}
}

/* Checks that it is a vnpu with a firmware. */
static int drm_check_node(const char *path, int fd, enum drm_verdict *verdict)
{
	struct drm_vnpu_query_state state = { 0 };
	struct drm_vnpu_query_device device = { 0 };
	struct drm_vnpu_dev_query q = { .type = DRM_VNPU_QUERY_DEVICE, .size = sizeof(device) };
	drmVersionPtr version = drmGetVersion(fd);
	bool is_vnpu = version && version->name && !strcmp(version->name, "vnpu");

	if (version)
		drmFreeVersion(version);
	if (!is_vnpu)
		return drm_refuse(
			verdict, DRM_VERDICT_NOT_VNPU,
			npu_fail(-ENODEV,
				 "%s: not a vnpu; leave the path out to have it looked for", path));
	q.pointer = (uintptr_t)&device;
	if (drmIoctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &q))
		return drm_refuse(
			verdict, DRM_VERDICT_VERSION,
			npu_fail(
				-EPROTO,
				"%s: DEV_QUERY: %s; install the same version of vnpu.ko and libnpu",
				path, strerror(errno)));
	if (device.isa_version >> 16 != VNPU_ISA_MAJOR)
		return drm_refuse(
			verdict, DRM_VERDICT_VERSION,
			npu_fail(-EPROTO,
				 "%s: its firmware has ISA %u.%u, libnpu %u.x; install the same "
				 "version of vnpu-fw and libnpu",
				 path, device.isa_version >> 16, device.isa_version & 0xffff,
				 VNPU_ISA_MAJOR));
	q = (struct drm_vnpu_dev_query){
		.type = DRM_VNPU_QUERY_STATE,
		.size = sizeof(state),
		.pointer = (uintptr_t)&state,
	};
	if (drmIoctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &q))
		return drm_refuse(verdict, DRM_VERDICT_ERROR,
				  npu_fail(-errno, "%s: DEV_QUERY: %s", path, strerror(errno)));
	if (state.state != DRM_VNPU_STATE_READY)
		return drm_refuse(
			verdict, DRM_VERDICT_FW_LOST,
			npu_fail(-ENODEV,
				 "%s: its firmware is lost; as root, attach another: vnpu-fw "
				 "--attach lost",
				 path));
	return 0;
}

static int drm_try(const char *path, int *fd, enum drm_verdict *verdict)
{
	int ret = drm_open_node(path, fd, verdict);

	if (ret)
		return ret;
	ret = drm_check_node(path, *fd, verdict);
	if (ret)
		close(*fd);
	return ret;
}

static int is_accel(const struct dirent *e)
{
	return !strncmp(e->d_name, "accel", 5);
}

static int drm_no_node(enum drm_verdict *verdict)
{
	if (access("/sys/module/vnpu", F_OK))
		return drm_refuse(verdict, DRM_VERDICT_NO_MODULE,
				  npu_fail(-ENOENT,
					   "no vnpu below " ACCEL_DIR
					   ": vnpu.ko is not loaded; modprobe vnpu, or use the sim "
					   "transport"));
	return drm_refuse(verdict, DRM_VERDICT_NO_NODE,
			  npu_fail(-ENOENT,
				   "no vnpu below " ACCEL_DIR
				   ": vnpu.ko is loaded, but no firmware runs; start vnpu-fw"));
}

/*
 * Finds the first vnpu that is ready. Without one, *@verdict is the most helpful reason: that of a
 * vnpu, or else of a node without permission.
 */
static int drm_search(int *fd, char *path, size_t size, enum drm_verdict *verdict)
{
	struct dirent **names = NULL;
	int n = scandir(ACCEL_DIR, &names, is_accel, versionsort), ret = -ENOENT;
	enum drm_verdict kept = DRM_VERDICT_NOT_VNPU, v = DRM_VERDICT_NO_NODE;
	char keep[64] = "";

	for (int i = 0; i < n; i++) {
		char try[64];

		snprintf(try, sizeof(try), "%s/%.40s", ACCEL_DIR, names[i]->d_name);
		if (ret) {
			ret = drm_try(try, fd, &v);
			if (!ret) {
				snprintf(path, size, "%s", try);
			} else if (v != DRM_VERDICT_NOT_VNPU && kept == DRM_VERDICT_NOT_VNPU) {
				kept = v;
				snprintf(keep, sizeof(keep), "%s", try);
			}
		}
		free(names[i]);
	}
	free(names);
	if (!ret)
		return 0;
	if (!keep[0])
		return drm_no_node(verdict);
	/* Open it again to set its error message. */
	snprintf(path, size, "%s", keep);
	return drm_try(keep, fd, verdict);
}

int transport_drm_open(const char *path, struct transport **t, char *path_out, size_t path_size,
		       enum drm_verdict *verdict)
{
	struct drm_transport *drm;
	int fd = -1, ret;

	*verdict = DRM_VERDICT_OK;
	if (path) {
		snprintf(path_out, path_size, "%s", path);
		ret = drm_try(path, &fd, verdict);
	} else {
		path_out[0] = 0;
		ret = drm_search(&fd, path_out, path_size, verdict);
	}
	if (ret)
		return ret;
	drm = calloc(1, sizeof(*drm));
	if (!drm) {
		close(fd);
		return npu_fail(-ENOMEM, "%s: out of memory", path_out);
	}
	drm->base.ops = &drm_transport_ops;
	drm->fd = fd;
	*t = &drm->base;
	return 0;
}
