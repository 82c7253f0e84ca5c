// SPDX-License-Identifier: MIT
/*
 * Reads /sys/class/accel and /proc.
 *
 * Devices, processes and files that disappear in the meantime are left out. Processes whose files
 * this user may not see are counted.
 */
#define _GNU_SOURCE
#include "npu-top.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tool.h"

/* The longest fdinfo of known drivers has some 2 KiB. */
#define READ_BYTES 8192

/* PF_KTHREAD in the flags of /proc/PID/stat; kernel threads have no open files. */
#define KERNEL_THREAD 0x00200000ul

/* Reads up to size - 1 bytes and adds a NUL. 0 or -errno. */
static int read_text(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;
	size_t n = 0;
	int err;

	if (fd < 0)
		return -errno;
	do {
		got = read(fd, buf + n, size - 1 - n);
		n += got > 0 ? (size_t)got : 0;
	} while (got > 0 && n < size - 1);
	err = got < 0 ? -errno : 0;
	close(fd);
	buf[n] = '\0';
	return err;
}

/* ---- devices ---- */

/* Reads an attribute's line; "" if there is none. */
static void read_attr(const char *dir, const char *attr, char *value, size_t size)
{
	char path[PATH_MAX], text[READ_BYTES];

	value[0] = '\0';
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, attr) >= sizeof(path) ||
	    read_text(path, text, sizeof(text)))
		return;
	text[strcspn(text, "\n")] = '\0';
	snprintf(value, size, "%.*s", (int)size - 1, text);
	top_clean(value);
}

static uint64_t read_attr_u64(const char *dir, const char *attr)
{
	char text[64], *end;
	unsigned long long v;

	read_attr(dir, attr, text, sizeof(text));
	errno = 0;
	v = strtoull(text, &end, 10);
	return isdigit((unsigned char)text[0]) && !*end && !errno ? v : TOP_UNKNOWN;
}

/* Reads the last component of a link's target; "" if there is none. */
static void read_link_name(const char *dir, const char *link, char *name, size_t size)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *slash;
	ssize_t n;

	name[0] = '\0';
	if ((size_t)snprintf(path, sizeof(path), "%s%s%s", dir, *link ? "/" : "", link) >=
	    sizeof(path))
		return;
	n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return;
	target[n] = '\0';
	slash = strrchr(target, '/');
	snprintf(name, size, "%.*s", (int)size - 1, slash ? slash + 1 : target);
	top_clean(name);
}

static void read_device(struct top_device *dev, const char *class_dir)
{
	char dir[PATH_MAX], numbers[32];
	unsigned int major, minor;

	if ((size_t)snprintf(dir, sizeof(dir), "%s/%s", class_dir, dev->node) >=
	    sizeof(dir) - sizeof("/device"))
		return;
	read_attr(dir, "dev", numbers, sizeof(numbers));
	if (sscanf(numbers, "%u:%u", &major, &minor) == 2)
		dev->rdev = makedev(major, minor);
	strcat(dir, "/device");
	read_link_name(dir, "driver", dev->driver, sizeof(dev->driver));
	read_link_name(dir, "", dev->name, sizeof(dev->name));
	dev->memory_bytes = read_attr_u64(dir, "npu_memory_utilization");
	dev->busy_us = read_attr_u64(dir, "npu_busy_time_us");
	dev->time_ns = tool_now_ns();
}

static int is_accel(const struct dirent *e)
{
	return !strncmp(e->d_name, "accel", 5) && isdigit((unsigned char)e->d_name[5]) &&
	       strlen(e->d_name) < sizeof(((struct top_device *)NULL)->node);
}

static int read_devices(struct top *top)
{
	char dir[PATH_MAX];
	struct dirent **names;
	int n;

	if ((size_t)snprintf(dir, sizeof(dir), "%s/sys/class/accel", top->root) >= sizeof(dir))
		return tool_fail("--sysroot: the path is too long");
	n = scandir(dir, &names, is_accel, versionsort);
	if (n < 0)
		return errno == ENOMEM ? tool_fail("no memory for the devices") : 0;
	top->devices = calloc((size_t)n + 1, sizeof(*top->devices));
	for (int i = 0; i < n; i++) {
		if (top->devices) {
			struct top_device *dev = &top->devices[top->nr_devices++];

			strcpy(dev->node, names[i]->d_name); /* is_accel() checks the length */
			dev->busy = -1;
			read_device(dev, dir);
		}
		free(names[i]);
	}
	free(names);
	return top->devices ? 0 : tool_fail("no memory for %d devices", n);
}

/* ---- processes ---- */

/*
 * The device of an open file, or NULL. It is identified by its number, since the node may have
 * another name in the process's mount namespace; below --sysroot, where links have no node, by its
 * name.
 */
static const struct top_device *device_of_fd(const struct top *top, int fds, const char *fd)
{
	char target[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (!top->root[0]) {
		if (fstatat(fds, fd, &st, 0) || !S_ISCHR(st.st_mode))
			return NULL;
		for (size_t i = 0; i < top->nr_devices; i++)
			if (top->devices[i].rdev == st.st_rdev)
				return &top->devices[i];
		return NULL;
	}
	n = readlinkat(fds, fd, target, sizeof(target) - 1);
	if (n <= 0)
		return NULL;
	target[n] = '\0';
	for (size_t i = 0; i < top->nr_devices; i++)
		if (!strncmp(target, "/dev/accel/", 11) &&
		    !strcmp(target + 11, top->devices[i].node))
			return &top->devices[i];
	return NULL;
}

static void read_process(const struct top *top, struct top_client *client)
{
	char path[PATH_MAX];
	const struct passwd *pw;
	struct stat st;

	snprintf(path, sizeof(path), "%s/proc/%d", top->root, (int)client->pid);
	read_attr(path, "comm", client->comm, sizeof(client->comm));
	client->uid = stat(path, &st) ? (uid_t)-1 : st.st_uid;
	pw = client->uid == (uid_t)-1 ? NULL : getpwuid(client->uid);
	if (pw)
		snprintf(client->user, sizeof(client->user), "%s", pw->pw_name);
	else if (client->uid != (uid_t)-1)
		snprintf(client->user, sizeof(client->user), "%u", (unsigned int)client->uid);
}

/* Descriptors and processes that share a client have one client id. */
static struct top_client *find_client(const struct top *top, const struct top_fdinfo *info)
{
	for (size_t i = 0; i < top->nr_clients; i++)
		if (top->clients[i].info.client_id == info->client_id &&
		    !strcmp(top->clients[i].info.pdev, info->pdev))
			return &top->clients[i];
	return NULL;
}

static int add_client(struct top *top, const struct top_device *dev, pid_t pid,
		      const struct top_fdinfo *info)
{
	struct top_client *client = find_client(top, info), *grown;

	if (client) {
		client->nr_processes += client->last_pid != pid;
		client->last_pid = pid;
		return 0;
	}
	grown = realloc(top->clients, (top->nr_clients + 1) * sizeof(*grown));
	if (!grown)
		return tool_fail("no memory for %zu clients", top->nr_clients + 1);
	top->clients = grown;
	client = &top->clients[top->nr_clients++];
	*client = (struct top_client){
		.info = *info, .pid = pid, .last_pid = pid, .nr_processes = 1, .busy = -1
	};
	client->time_ns = tool_now_ns();
	strcpy(client->node, dev->node);
	read_process(top, client);
	return 0;
}

static bool is_kernel_thread(const struct top *top, pid_t pid)
{
	char path[PATH_MAX], text[READ_BYTES], *paren;
	unsigned long flags;

	snprintf(path, sizeof(path), "%s/proc/%d/stat", top->root, (int)pid);
	if (read_text(path, text, sizeof(text)))
		return false;
	/* The name may contain spaces and parentheses. */
	paren = strrchr(text, ')');
	return paren && sscanf(paren + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags) == 1 &&
	       (flags & KERNEL_THREAD);
}

static int read_fds(struct top *top, pid_t pid, DIR *fds)
{
	char path[PATH_MAX], text[READ_BYTES];
	struct top_fdinfo info;
	bool hidden = false;
	struct dirent *e;
	int err = 0;

	while (!err && (e = readdir(fds))) {
		const struct top_device *dev;

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		dev = device_of_fd(top, dirfd(fds), e->d_name);
		if (!dev)
			continue;
		snprintf(path, sizeof(path), "%s/proc/%d/fdinfo/%s", top->root, (int)pid,
			 e->d_name);
		err = read_text(path, text, sizeof(text));
		if (!err && top_fdinfo_parse(text, &info))
			err = add_client(top, dev, pid, &info);
		hidden |= err == -EACCES || err == -EPERM;
		if (err < 0)
			err = 0;
	}
	top->hidden += hidden;
	return err;
}

static int read_processes(struct top *top)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *proc, *fds;
	int err = 0;

	if ((size_t)snprintf(path, sizeof(path), "%s/proc", top->root) >= sizeof(path))
		return tool_fail("--sysroot: the path is too long");
	proc = opendir(path);
	if (!proc)
		return tool_fail("%s: %s: without it no client can be seen; mount it", path,
				 strerror(errno));
	while (!err && (e = readdir(proc))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "%s/proc/%d/fd", top->root, (int)pid);
		fds = opendir(path);
		if (!fds) {
			top->hidden += errno == EACCES && !is_kernel_thread(top, pid);
			continue;
		}
		err = read_fds(top, pid, fds);
		closedir(fds);
	}
	closedir(proc);
	return err;
}

int top_read(struct top *top)
{
	int err = read_devices(top);

	return err ? err : read_processes(top);
}
