// SPDX-License-Identifier: MIT
/*
 * follow: a client that computes on /dev/accel/accel0 through one open file until SIGTERM, whatever
 * happens to the device. It recreates what is lost with a firmware, and compares every result bit
 * for bit. Exits with 0 if no result was wrong and there were right ones after SIGTERM. Its last
 * line has the numbers of right and failed jobs and the first and last epoch.
 *
 * follow once TIMEOUT_MS: runs one job with this timeout, without a fence. Prints when it is
 * submitted, and exits with 0 if its result is right.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "compute.h"
#include "drm/vnpu_accel.h"

#define NODE "/dev/accel/accel0"
#define TIMEOUT_MS 10000
/* A wait that takes as long as this counts as endless. */
#define FOREVER_NS 300000000000ll
/* Number of right results in a row that ends the run. */
#define LAST_RIGHT 3

static struct {
	unsigned long long right, wrong, failed, contexts;
} seen;
static volatile sig_atomic_t told_to_end;

static void on_term(int sig)
{
	told_to_end = 1;
}

static int die(const char *what)
{
	printf("follow: %s: %s\n", what, npu_error());
	return 1;
}

static uint32_t epoch(int fd)
{
	struct drm_vnpu_query_state state = { 0 };
	struct drm_vnpu_dev_query q = { .type = DRM_VNPU_QUERY_STATE,
					.size = sizeof(state),
					.pointer = (uintptr_t)&state };

	return ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &q) ? 0 : state.epoch;
}

/* Runs one job; false if the context can no longer be used. */
static bool one_job(struct compute *c, unsigned int slot)
{
	if (compute_submit(c, slot, NULL))
		return false;
	if (npu_queue_wait(c->queue, c->slots[slot].seqno, FOREVER_NS, NPU_WAIT_DRIVER)) {
		seen.failed++;
		return false;
	}
	if (compute_check(c, slot))
		seen.right++;
	else
		seen.wrong++;
	return true;
}

/* Runs jobs until the context is lost, or until the end: then true. */
static bool live(struct compute *c)
{
	unsigned int last = 0;

	for (unsigned int i = 0; one_job(c, i % COMPUTE_SLOTS); i++) {
		if (seen.right == 1)
			printf("follow: it computes\n");
		fflush(stdout);
		last = told_to_end ? last + 1 : 0;
		if (last == LAST_RIGHT)
			return true;
	}
	return false;
}

static void pause_ms(long ms)
{
	struct timespec t = { 0, ms * 1000000 };

	nanosleep(&t, NULL);
}

static int follow(struct compute *c, int fd)
{
	struct sigaction sa = { .sa_handler = on_term };
	uint32_t before = epoch(fd);
	bool done = false;

	sigaction(SIGTERM, &sa, NULL);
	while (!done) {
		/* Fails while there is no firmware. */
		if (compute_begin(c, TIMEOUT_MS)) {
			pause_ms(10);
			continue;
		}
		seen.contexts++;
		done = live(c);
		compute_end(c);
	}
	printf("follow: %llu right, %llu wrong, %llu failed, %llu contexts, epoch %u to %u\n",
	       seen.right, seen.wrong, seen.failed, seen.contexts, before, epoch(fd));
	return seen.wrong ? 1 : 0;
}

static int once(struct compute *c, uint32_t timeout_ms)
{
	int ret;

	if (compute_begin(c, timeout_ms) || compute_submit(c, 0, NULL))
		return die("a job");
	printf("follow: submitted\n");
	fflush(stdout);
	ret = npu_queue_wait(c->queue, c->slots[0].seqno, FOREVER_NS, NPU_WAIT_DRIVER);
	if (ret)
		return die("the job");
	ret = !compute_check(c, 0);
	printf("follow: the result is %s\n", ret ? "wrong" : "right");
	compute_end(c);
	return ret;
}

int main(int argc, char **argv)
{
	int fd = open(NODE, O_RDWR | O_CLOEXEC), ret;
	struct compute c;

	if (fd < 0) {
		printf("follow: " NODE ": %s\n", strerror(errno));
		return 1;
	}
	/* From here on @c owns the file, the only one. */
	if (compute_open(&c, fd))
		return die(NODE);
	if (argc == 3 && !strcmp(argv[1], "once"))
		ret = once(&c, strtoul(argv[2], NULL, 0));
	else
		ret = follow(&c, fd);
	compute_close(&c);
	return ret;
}
