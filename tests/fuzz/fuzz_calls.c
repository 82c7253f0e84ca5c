// SPDX-License-Identifier: MIT
/* The fuzzer's calls: their numbers, their counts, and the final check of the counts. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include <linux/sync_file.h>

#include "fuzz.h"
#include "fuzz_drm.h"

static const struct {
	const char *name;
	unsigned long request;
} calls[FZ_NR_CALLS] = {
	[FZ_DEV_QUERY] = { "DEV_QUERY", DRM_IOCTL_VNPU_DEV_QUERY },
	[FZ_BO_CREATE] = { "BO_CREATE", DRM_IOCTL_VNPU_BO_CREATE },
	[FZ_BO_INFO] = { "BO_INFO", DRM_IOCTL_VNPU_BO_INFO },
	[FZ_CTX_CREATE] = { "CTX_CREATE", DRM_IOCTL_VNPU_CTX_CREATE },
	[FZ_CTX_DESTROY] = { "CTX_DESTROY", DRM_IOCTL_VNPU_CTX_DESTROY },
	[FZ_CTX_GET_STATE] = { "CTX_GET_STATE", DRM_IOCTL_VNPU_CTX_GET_STATE },
	[FZ_VM_BIND] = { "VM_BIND", DRM_IOCTL_VNPU_VM_BIND },
	[FZ_QUEUE_CREATE] = { "QUEUE_CREATE", DRM_IOCTL_VNPU_QUEUE_CREATE },
	[FZ_QUEUE_DESTROY] = { "QUEUE_DESTROY", DRM_IOCTL_VNPU_QUEUE_DESTROY },
	[FZ_SUBMIT] = { "SUBMIT", DRM_IOCTL_VNPU_SUBMIT },
	[FZ_WAIT] = { "WAIT", DRM_IOCTL_VNPU_WAIT },
	[FZ_CTL_VERSION] = { "CTL_VERSION", VNPU_CTL_VERSION },
	[FZ_CTL_ADD_DEV] = { "CTL_ADD_DEV", VNPU_CTL_ADD_DEV },
	[FZ_CTL_ATTACH] = { "CTL_ATTACH", VNPU_CTL_ATTACH },
	[FZ_CTL_DEL_DEV] = { "CTL_DEL_DEV", VNPU_CTL_DEL_DEV },
	[FZ_CTL_INFO] = { "CTL_INFO", VNPU_CTL_INFO },
	[FZ_FW_START] = { "FW_START", VNPU_FW_START },
	[FZ_FW_ENTER] = { "FW_ENTER", VNPU_FW_ENTER },
	[FZ_GEM_CLOSE] = { "GEM_CLOSE", DRM_IOCTL_GEM_CLOSE },
	[FZ_PRIME_HANDLE_TO_FD] = { "PRIME_HANDLE_TO_FD", DRM_IOCTL_PRIME_HANDLE_TO_FD },
	[FZ_PRIME_FD_TO_HANDLE] = { "PRIME_FD_TO_HANDLE", DRM_IOCTL_PRIME_FD_TO_HANDLE },
	[FZ_SYNCOBJ_CREATE] = { "SYNCOBJ_CREATE", DRM_IOCTL_SYNCOBJ_CREATE },
	[FZ_SYNCOBJ_DESTROY] = { "SYNCOBJ_DESTROY", DRM_IOCTL_SYNCOBJ_DESTROY },
	[FZ_SYNCOBJ_HANDLE_TO_FD] = { "SYNCOBJ_HANDLE_TO_FD", DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD },
	[FZ_SYNCOBJ_FD_TO_HANDLE] = { "SYNCOBJ_FD_TO_HANDLE", DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE },
	[FZ_SYNCOBJ_TRANSFER] = { "SYNCOBJ_TRANSFER", DRM_IOCTL_SYNCOBJ_TRANSFER },
	[FZ_SYNCOBJ_WAIT] = { "SYNCOBJ_WAIT", DRM_IOCTL_SYNCOBJ_WAIT },
	[FZ_SYNCOBJ_TIMELINE_WAIT] = { "SYNCOBJ_TIMELINE_WAIT", DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT },
	[FZ_SYNCOBJ_RESET] = { "SYNCOBJ_RESET", DRM_IOCTL_SYNCOBJ_RESET },
	[FZ_SYNCOBJ_SIGNAL] = { "SYNCOBJ_SIGNAL", DRM_IOCTL_SYNCOBJ_SIGNAL },
	[FZ_SYNCOBJ_TIMELINE_SIGNAL] = { "SYNCOBJ_TIMELINE_SIGNAL",
					 DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL },
	[FZ_SYNCOBJ_QUERY] = { "SYNCOBJ_QUERY", DRM_IOCTL_SYNCOBJ_QUERY },
	[FZ_SYNCOBJ_EVENTFD] = { "SYNCOBJ_EVENTFD", FUZZ_SYNCOBJ_EVENTFD },
	[FZ_SYNC_FILE_INFO] = { "SYNC_FILE_INFO", SYNC_IOC_FILE_INFO },
	[FZ_SYNC_MERGE] = { "SYNC_MERGE", SYNC_IOC_MERGE },
	[FZ_VERSION] = { "VERSION", DRM_IOCTL_VERSION },
	[FZ_GET_CAP] = { "GET_CAP", DRM_IOCTL_GET_CAP },
	[FZ_SET_CLIENT_CAP] = { "SET_CLIENT_CAP", DRM_IOCTL_SET_CLIENT_CAP },
	[FZ_SET_CLIENT_NAME] = { "SET_CLIENT_NAME", FUZZ_SET_CLIENT_NAME },
	[FZ_CORE] = { "DRM's, by number", 0 },
	[FZ_WILD] = { "wild ioctl", 0 },
	[FZ_OPEN] = { "open", 0 },
	[FZ_MMAP] = { "mmap", 0 },
	[FZ_MPROTECT] = { "mprotect", 0 },
	[FZ_MREMAP] = { "mremap", 0 },
	[FZ_TOUCH] = { "touch memory", 0 },
	[FZ_POLL] = { "poll", 0 },
	[FZ_READ] = { "read a file", 0 },
	[FZ_PARAMETER] = { "write a parameter", 0 },
	[FZ_FORCE_RESET] = { "force_reset", 0 },
};

/* DRM core and driver calls that the node supports. */
static const uint8_t allowed[256] = {
	[_IOC_NR(DRM_IOCTL_VERSION)] = 1,
	[_IOC_NR(DRM_IOCTL_GEM_CLOSE)] = 1,
	[_IOC_NR(DRM_IOCTL_GET_CAP)] = 1,
	[_IOC_NR(DRM_IOCTL_SET_CLIENT_CAP)] = 1,
	[_IOC_NR(DRM_IOCTL_PRIME_HANDLE_TO_FD)] = 1,
	[_IOC_NR(DRM_IOCTL_PRIME_FD_TO_HANDLE)] = 1,
	[DRM_COMMAND_BASE... DRM_COMMAND_BASE + DRM_VNPU_WAIT] = 1,
	[_IOC_NR(DRM_IOCTL_SYNCOBJ_CREATE)... _IOC_NR(DRM_IOCTL_SYNCOBJ_SIGNAL)] = 1,
	[_IOC_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT)... _IOC_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL)] =
		1,
	[_IOC_NR(FUZZ_SYNCOBJ_EVENTFD)] = 1,
	[_IOC_NR(FUZZ_SET_CLIENT_NAME)] = 1,
};

long fz_count(enum fz_call call, long ret)
{
	int e = ret < 0 ? errno : 0;

	__atomic_fetch_add(&fz->counts[call][e < FZ_NR_ERRNOS ? e : FZ_NR_ERRNOS - 1], 1,
			   __ATOMIC_RELAXED);
	return ret;
}

void fz_wrong(const char *what, ...)
{
	va_list args;

	__atomic_fetch_add(&fz->wrong, 1, __ATOMIC_RELAXED);
	va_start(args, what);
	printf("WRONG (FUZZ_SEED=%llu): ", (unsigned long long)fz->seed);
	vprintf(what, args);
	printf("\n");
	fflush(stdout);
	va_end(args);
}

/* Only DRM nodes answer DRM's ioctls, and the only ones here are vnpu's. */
static void count_drm(unsigned int nr, bool success)
{
	__atomic_fetch_add(&fz->drm_calls[nr], 1, __ATOMIC_RELAXED);
	if (!success)
		return;
	__atomic_fetch_add(&fz->drm_successes[nr], 1, __ATOMIC_RELAXED);
	if (!allowed[nr])
		fz_wrong("the node took DRM's ioctl 0x%02x", nr);
}

int fz_ioctl_raw(enum fz_call call, int fd, unsigned long request, void *arg)
{
	int ret = fz_count(call, ioctl(fd, request, arg)) < 0 ? -errno : 0;

	if (_IOC_TYPE(request) == DRM_IOCTL_BASE)
		count_drm(_IOC_NR(request), !ret);
	return ret;
}

int fz_ioctl(enum fz_call call, int fd, void *arg)
{
	return fz_ioctl_raw(call, fd, calls[call].request, arg);
}

size_t fz_arg_size(enum fz_call call)
{
	return _IOC_SIZE(calls[call].request);
}

static void report_errors(const uint64_t *counts)
{
	const char *between = "  ";

	for (int e = 1; e < FZ_NR_ERRNOS; e++) {
		const char *name = strerrorname_np(e);

		if (!counts[e])
			continue;
		printf("%s%s %llu", between, name ? name : "?", (unsigned long long)counts[e]);
		between = ", ";
	}
}

static void report_drm(void)
{
	uint64_t calls = 0;
	int tried = 0;

	printf("DRM's numbers that succeeded:");
	for (int nr = 0; nr < 256; nr++) {
		calls += fz->drm_calls[nr];
		tried += fz->drm_calls[nr] > 0;
		if (fz->drm_successes[nr])
			printf(" 0x%02x (%llu of %llu)", nr,
			       (unsigned long long)fz->drm_successes[nr],
			       (unsigned long long)fz->drm_calls[nr]);
	}
	printf("\n%llu calls of %d of DRM's 256 numbers\n", (unsigned long long)calls, tried);
}

int fz_report(void)
{
	uint64_t all = 0;
	int lacking = 0;

	printf("%-24s %9s %9s  failures\n", "call", "calls", "succeeded");
	for (int c = 0; c < FZ_NR_CALLS; c++) {
		const uint64_t *counts = fz->counts[c];
		uint64_t sum = 0;

		for (int e = 0; e < FZ_NR_ERRNOS; e++)
			sum += counts[e];
		all += sum;
		printf("%-24s %9llu %9llu", calls[c].name, (unsigned long long)sum,
		       (unsigned long long)counts[0]);
		report_errors(counts);
		printf("\n");
		if (c < FZ_NR_CHECKED && !counts[0]) {
			printf("%s never succeeded\n", calls[c].name);
			lacking++;
		}
	}
	report_drm();
	printf("%llu calls\n", (unsigned long long)all);
	return lacking;
}
