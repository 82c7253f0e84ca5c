// SPDX-License-Identifier: MIT
/*
 * fuzz_ioctl: calls vnpu.ko from many processes at once, with valid, nearly valid and random calls.
 *
 * There are several client processes with several threads each, as root and as nobody, a process of
 * lying firmwares, the real vnpu-fw, and a process that reads sysfs and debugfs and writes
 * parameters. All of them are killed at random and restarted; firmwares and clients are also
 * stopped and continued. A wedged device is deleted. Two more processes, the judges, only make
 * valid calls and check the driver's promises (fuzz_judge.c). The run fails
 *
 * - if a promise was broken, or the node accepted a DRM ioctl that it must refuse: prints "WRONG"
 *   and the reason;
 * - if a killed process does not end;
 * - if, in 20 s or more, a call never succeeded, or no queue was ever full although fences that
 *   never signal are available.
 *
 * The caller has to check the kernel log.
 *
 * Environment: FUZZ_SECONDS (30); FUZZ_SEED (random); BUILD: $BUILD/bin/vnpu-fw is the firmware.
 * The same seed makes the same first choices; their effects depend on timing. Needs root.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

#define NR_CLIENTS 3
#define LIAR NR_CLIENTS
#define READER (LIAR + 1)
#define JUDGE (READER + 1)
#define NR_CHILDREN (JUDGE + 2)
#define MAX_DEVICES 6
/* Longest time for a killed process to end: the kernel first tears down its objects. */
#define REAP_MS 60000
/* Runs of this length must have seen every call succeed. */
#define LONG_S 20
#define REAL_NAME "real"
/*
 * Address of the counts: far from everything else, because the kernel writes to the pointers that
 * clients pass, which are often valid ones with one bit changed.
 */
#define SHARED_AT ((void *)0x200000000000)

struct child {
	pid_t pid;
	int64_t until;
	int64_t turn; /* when it is next stopped or continued */
	bool stopped;
};

static struct child children[NR_CHILDREN];
static struct child real;
static bool hung;
static char real_path[256];

static struct {
	uint64_t client_kills, liar_kills, stops, own_ends, fw_starts, fw_kills, fw_stops, fw_terms,
		wedged, deleted;
} tally;

/* ---- processes ---- */

static pid_t start(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void start_child(int i)
{
	struct child *c = &children[i];

	c->until = fz_now_ms() + 50 + fz_below(fz_one_in(4) ? 10000 : 2000);
	if (i == READER)
		c->until += 20000;
	if (i >= JUDGE)
		c->until = INT64_MAX;
	c->turn = fz_now_ms() + fz_below(5000);
	c->stopped = false;
	c->pid = start();
	if (c->pid)
		return;
	if (i >= JUDGE)
		fz_judge();
	if (i == READER)
		fz_reader();
	if (i == LIAR)
		fz_liar();
	fz_client(!fz_one_in(3));
}

/* Stops clients and liars for a while, with their answers outstanding. */
static void stop_or_continue(struct child *c)
{
	kill(c->pid, c->stopped ? SIGCONT : SIGSTOP);
	tally.stops += !c->stopped;
	c->stopped = !c->stopped;
	c->turn = fz_now_ms() +
		  (c->stopped ? fz_below(fz_one_in(4) ? 3000 : 300) : 500 + fz_below(5000));
}

static void show_stacks(pid_t pid)
{
	char path[64], line[256];
	struct dirent *e;
	FILE *f;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		char stack[320];

		snprintf(stack, sizeof(stack), "%s/%.20s/stack", path, e->d_name);
		f = e->d_name[0] == '.' ? NULL : fopen(stack, "r");
		if (!f)
			continue;
		printf("thread %s of %d:\n", e->d_name, pid);
		while (fgets(line, sizeof(line), f))
			printf("  %s", line);
		fclose(f);
	}
	if (d)
		closedir(d);
}

/* Kills the process and waits for its end. */
static void end(struct child *c, const char *what)
{
	int64_t until = fz_now_ms() + REAP_MS;

	kill(c->pid, SIGKILL);
	while (waitpid(c->pid, NULL, WNOHANG) == 0) {
		if (fz_now_ms() > until) {
			printf("%s %d has not ended %d s after SIGKILL\n", what, c->pid,
			       REAP_MS / 1000);
			show_stacks(c->pid);
			hung = true;
			break;
		}
		fz_sleep_ms(1);
	}
	c->pid = 0;
}

static void turn_children(void)
{
	for (int i = 0; i < NR_CHILDREN; i++) {
		struct child *c = &children[i];

		if (c->pid > 0 && waitpid(c->pid, NULL, WNOHANG) == c->pid) {
			tally.own_ends++;
			c->pid = 0;
		} else if (c->pid > 0 && fz_now_ms() >= c->until) {
			end(c, i == LIAR ? "liar" : "client");
			if (i == LIAR)
				tally.liar_kills++;
			else if (i < NR_CLIENTS)
				tally.client_kills++;
		} else if (c->pid > 0 && i <= LIAR && fz_now_ms() >= c->turn) {
			stop_or_continue(c);
		}
		if (c->pid <= 0 && !hung)
			start_child(i);
	}
}

/* ---- devices ---- */

static void delete (int control, uint32_t dev_id)
{
	struct vnpu_ctl_del_dev del = { .dev_id = dev_id };

	if (!fz_ioctl(FZ_CTL_DEL_DEV, control, &del))
		tally.deleted++;
}

/* Everybody may open the nodes, because some of the clients are nobody. */
static void open_nodes(void)
{
	char path[64];

	for (int i = 0; i < 64; i++) {
		snprintf(path, sizeof(path), "/dev/accel/accel%d", i);
		if (chmod(path, 0666) && i > 2 * MAX_DEVICES)
			break;
	}
}

/* Deletes wedged devices, and orphans if there are too many. Returns how many devices are left. */
static int tend_devices(int control, bool all)
{
	struct vnpu_ctl_info info = { 0 };
	int nr = 0;

	while (!fz_ioctl(FZ_CTL_INFO, control, &info)) {
		bool wedged = info.state > VNPU_CTL_DEV_LOST;

		nr++;
		tally.wedged += wedged;
		if (all || wedged ||
		    (nr > MAX_DEVICES - 2 && info.state == VNPU_CTL_DEV_LOST && fz_one_in(4)))
			delete (control, info.dev_id);
		info = (struct vnpu_ctl_info){ .dev_id = info.dev_id + 1 };
	}
	return nr;
}

/* The device of vnpu-fw, whatever firmware serves it; -1 if there is none. */
static int find_real(int control, uint32_t *state)
{
	struct vnpu_ctl_info info = { 0 };

	while (!fz_ioctl(FZ_CTL_INFO, control, &info)) {
		if (!strcmp(info.name, REAL_NAME)) {
			*state = info.state;
			return info.dev_id;
		}
		info = (struct vnpu_ctl_info){ .dev_id = info.dev_id + 1 };
	}
	return -1;
}

/* ---- the real firmware ---- */

static void start_real(int control)
{
	uint32_t state = VNPU_CTL_DEV_LOST;
	int dev = find_real(control, &state);
	char id[16];

	/* Another firmware has taken it over: mostly wait, sometimes start with a new device. */
	if (dev >= 0 && state != VNPU_CTL_DEV_LOST) {
		if (fz_one_in(20))
			delete (control, dev);
		return;
	}
	fz->real_dev = dev;
	real.until = fz_now_ms() + 50 + fz_below(fz_one_in(4) ? 500 : 5000);
	real.stopped = false;
	tally.fw_starts++;
	snprintf(id, sizeof(id), "%d", dev);
	real.pid = start();
	if (real.pid)
		return;
	dup2(open("/dev/null", O_RDWR), 0);
	dup2(0, 1);
	dup2(0, 2);
	/* With and without root privileges, and with either option for taking a device over. */
	if (fz_one_in(2))
		execl(real_path, real_path, "--threads", "1", "--spin-us", "0", "--attach-or-add",
		      REAL_NAME, "--user", "nobody", "--queues", "12", "--depth", "8", "--contexts",
		      "8", "--mem-limit", "48M", NULL);
	else if (dev >= 0)
		execl(real_path, real_path, "--threads", "1", "--spin-us", "0", "--attach", id,
		      NULL);
	else
		execl(real_path, real_path, "--threads", "1", "--spin-us", "0", "--name", REAL_NAME,
		      "--queues", "12", "--depth", "8", "--contexts", "8", "--mem-limit", "48M",
		      NULL);
	_exit(127);
}

static void turn_real(int control)
{
	int status;

	if (real.pid > 0 && waitpid(real.pid, &status, WNOHANG) == real.pid) {
		/* vnpu-fw may exit, but neither clients nor the kernel may make it crash. */
		if (WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM)
			fz_wrong("vnpu-fw died of signal %d", WTERMSIG(status));
		real.pid = 0;
	}
	if (real.pid <= 0) {
		start_real(control);
		return;
	}
	if (fz_now_ms() < real.until)
		return;
	real.until = fz_now_ms() + fz_below(1500);
	if (real.stopped && fz_one_in(2)) {
		kill(real.pid, SIGCONT);
		real.stopped = false;
		return;
	}
	switch (fz_below(6)) {
	case 0 ... 2:
		end(&real, "vnpu-fw");
		tally.fw_kills++;
		break;
	case 3:
		kill(real.pid, SIGTERM);
		kill(real.pid, SIGCONT);
		real.until += 2000;
		tally.fw_terms++;
		break;
	default:
		kill(real.pid, SIGSTOP);
		real.stopped = true;
		tally.fw_stops++;
	}
}

/* ---- the run ---- */

static void prepare(void)
{
	const char *build = getenv("BUILD"), *seed = getenv("FUZZ_SEED");
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	fz = mmap(SHARED_AT, sizeof(*fz), PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (fz == MAP_FAILED || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fz_passing)) {
		perror("fuzz_ioctl");
		exit(1);
	}
	fz->real_dev = -1;
	fz->seed = seed && *seed ? strtoull(seed, NULL, 0)
				 : (uint64_t)t.tv_sec * 1000000000ull + t.tv_nsec;
	fz_seed_thread();
	snprintf(real_path, sizeof(real_path), "%s/bin/vnpu-fw", build ? build : "build");
	if (access(real_path, X_OK)) {
		fprintf(stderr, "fuzz_ioctl: %s: %s; give BUILD=\n", real_path, strerror(errno));
		exit(1);
	}
}

static void finish(int control)
{
	__atomic_store_n(&fz->stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < NR_CHILDREN; i++)
		if (children[i].pid > 0)
			end(&children[i], "child");
	if (real.pid > 0)
		end(&real, "vnpu-fw");
	/* Fds that are still in the socket. */
	close(fz_passing[0]);
	close(fz_passing[1]);
	for (int i = 0; i < 100 && tend_devices(control, true); i++)
		fz_sleep_ms(10);
}

int main(void)
{
	int seconds = getenv("FUZZ_SECONDS") ? atoi(getenv("FUZZ_SECONDS")) : 30, control, lacking,
	    failed;
	int64_t until, next_look = 0;

	prepare();
	printf("FUZZ_SEED=%llu FUZZ_SECONDS=%d\n", (unsigned long long)fz->seed, seconds);
	control = fz_control();
	if (control < 0) {
		fprintf(stderr, "fuzz_ioctl: /dev/vnpu-control: %s; load vnpu.ko, and be root\n",
			strerror(errno));
		return 1;
	}
	fz_switches_save();
	until = fz_now_ms() + seconds * 1000ll;
	while (fz_now_ms() < until && !hung) {
		turn_children();
		turn_real(control);
		if (fz_now_ms() >= next_look) {
			tend_devices(control, false);
			open_nodes();
			next_look = fz_now_ms() + 100;
		}
		fz_sleep_ms(5);
	}
	finish(control);
	failed = fz_switches_restore();
	lacking = fz_report();
	printf("killed: %llu clients, %llu liars; stopped: %llu; ended by themselves: %llu\n",
	       (unsigned long long)tally.client_kills, (unsigned long long)tally.liar_kills,
	       (unsigned long long)tally.stops, (unsigned long long)tally.own_ends);
	printf("vnpu-fw: %llu starts, %llu kills, %llu stops, %llu terminations\n",
	       (unsigned long long)tally.fw_starts, (unsigned long long)tally.fw_kills,
	       (unsigned long long)tally.fw_stops, (unsigned long long)tally.fw_terms);
	printf("%llu answers by liars, %llu devices deleted, %llu of them wedged\n",
	       (unsigned long long)fz->jobs_posted, (unsigned long long)tally.deleted,
	       (unsigned long long)tally.wedged);
	printf("judges: %llu fences, the longest of %llu ms; %llu queues behind a fence that never "
	       "signals, %llu of them full\n",
	       (unsigned long long)fz->fences, (unsigned long long)fz->worst_fence_ms,
	       (unsigned long long)fz->floods, (unsigned long long)fz->full);
	if (fz->floods > 10 && !fz->full)
		lacking++;
	if (!fz->fences)
		lacking++;
	printf("%llu things were wrong, %d were never seen\n", (unsigned long long)fz->wrong,
	       lacking);
	return hung || failed || fz->wrong || (lacking && seconds >= LONG_S);
}
