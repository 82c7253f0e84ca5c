// SPDX-License-Identifier: MIT
/*
 * Control groups are looked for where distributions and container engines mount them. In a
 * container without a namespace of control groups, /proc/self/cgroup has the path on the host,
 * which does not exist there, while the mount's root is the container's own group: the way up from
 * a path that does not exist finds it too.
 */
#define _GNU_SOURCE
#include "cpus.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_LINE 4096

static unsigned int mask_cpus(void)
{
	cpu_set_t set;
	long n;

	if (!sched_getaffinity(0, sizeof(set), &set))
		return (unsigned int)CPU_COUNT(&set);
	n = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a cpu_set_t holds */
	return n > 0 ? (unsigned int)n : 1;
}

/* The first line of @dir/@name. */
static bool read_line(const char *dir, const char *name, char line[MAX_LINE])
{
	char path[MAX_LINE + 64];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	if (!f)
		return false;
	ok = fgets(line, MAX_LINE, f);
	fclose(f);
	return ok;
}

/* CPU time per time that the group @dir grants; 0: no quota. */
static double group_quota(const char *dir, bool v2)
{
	long long quota, period;
	char line[MAX_LINE];

	if (v2) {
		/* "max 100000" without a quota */
		if (!read_line(dir, "cpu.max", line) ||
		    sscanf(line, "%lld %lld", &quota, &period) != 2)
			return 0;
	} else {
		/* -1 without a quota */
		if (!read_line(dir, "cpu.cfs_quota_us", line) || sscanf(line, "%lld", &quota) != 1)
			return 0;
		if (!read_line(dir, "cpu.cfs_period_us", line) ||
		    sscanf(line, "%lld", &period) != 1)
			return 0;
	}
	return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

/* Takes the smallest quota from @group up to the root of the groups below @mount. */
static void look_up(struct host_cpus *cpus, const char *root, const char *mount, const char *group,
		    bool v2)
{
	size_t top = strlen(root) + strlen(mount);
	char dir[MAX_LINE], *slash;
	double quota;
	int n = snprintf(dir, sizeof(dir), "%s%s%s", root, mount, group);

	if (n < 0 || (size_t)n >= sizeof(dir))
		return;
	while ((size_t)n > top && dir[n - 1] == '/')
		dir[--n] = '\0';
	for (;;) {
		quota = group_quota(dir, v2);
		if (quota > 0 && (!cpus->quota || quota < cpus->quota)) {
			cpus->quota = quota;
			snprintf(cpus->file, sizeof(cpus->file), "%s/%s", dir + strlen(root),
				 v2 ? "cpu.max" : "cpu.cfs_quota_us");
		}
		slash = strrchr(dir + top, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
}

/* Whether "cpu" is in a list such as "cpu,cpuacct". */
static bool has_cpu(char *controllers)
{
	char *save, *one;

	for (one = strtok_r(controllers, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
		if (!strcmp(one, "cpu"))
			return true;
	}
	return false;
}

/* A line of /proc/self/cgroup: NUMBER:CONTROLLERS:PATH, without controllers in version 2. */
static void look_up_line(struct host_cpus *cpus, const char *root, char *line)
{
	static const char *const v2[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	static const char *const v1[] = { "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct" };
	char *controllers = strchr(line, ':');
	char *group = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!group)
		return;
	*group++ = '\0';
	group[strcspn(group, "\n")] = '\0';
	controllers++;
	for (int i = 0; !*controllers && i < 2; i++)
		look_up(cpus, root, v2[i], group, true);
	if (!has_cpu(controllers))
		return;
	for (int i = 0; i < 2; i++)
		look_up(cpus, root, v1[i], group, false);
}

void host_cpus_read(const char *root, struct host_cpus *cpus)
{
	char path[MAX_LINE], line[MAX_LINE];
	double granted;
	FILE *f;

	*cpus = (struct host_cpus){ .allowed = mask_cpus() };
	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		look_up_line(cpus, root, line);
	if (f)
		fclose(f);
	cpus->threads = cpus->allowed ? cpus->allowed : 1;
	granted = ceil(cpus->quota);
	if (cpus->quota > 0 && granted < cpus->threads)
		cpus->threads = (unsigned int)granted;
}

unsigned int host_threads(void)
{
	struct host_cpus cpus;

	host_cpus_read("", &cpus);
	return cpus.threads;
}
