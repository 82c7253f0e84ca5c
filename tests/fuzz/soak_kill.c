// SPDX-License-Identifier: MIT
/*
 * soak_kill [KILLS]: kills the firmware KILLS times and clients as often, while clients compute.
 *
 * vnpu-fw serves one device and is killed again and again at any point, sometimes after it was
 * stopped; another one takes over. Victims are clients that are killed, most of them with jobs in
 * flight.
 * Survivors see their contexts lost, start again, and compare every result bit for bit. In the end:
 *
 * - every fence has signalled within its job's timeout and a second: those of survivors were waited
 *   for, those of victims are seen through a syncobj that outlives them;
 * - no result was wrong, every survivor had right results after the last kill, and victims had jobs
 *   in flight;
 * - the device has no buffer and can give out all its contexts, and the machine's memory is free
 *   again.
 *
 * Time limits are multiples of the time from a kill to the next right result, which is measured
 * first, because an emulated machine on a busy host is fifty times as slow as others.
 *
 * Environment: BUILD and SOAK_SEED. Needs root, and vnpu.ko with fence_export=1 and without a
 * device.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compute.h"
#include "npu_private.h"
#include "linux/vnpu_fw.h"

#define NR_SURVIVORS 3
#define NR_VICTIMS 2
#define NR_CONTEXTS 16
#define TIMEOUT_MS 1000
#define GRACE_MS 1000
/* With as many kills as this, some victims must have died with jobs in flight. */
#define MANY_KILLS 20

struct outcome {
	uint64_t fences, right, wrong, lost, timed_out, odd;
	int64_t worst_ns; /* longest time from submission to the end */
	char why[160]; /* last error of a context or a job; "" if there was none */
};

static struct {
	struct outcome survivors[NR_SURVIVORS];
	struct outcome victims[NR_VICTIMS];
	uint32_t submitted[NR_VICTIMS]; /* the present victim has submitted a job */
	uint32_t phase; /* 0: kills go on; 1: they are over; 2: end */
} * shared;

/*
 * Longest lifetime of a fence, and the time after which a wait counts as endless. Before the
 * measurement, the values are for a slow machine.
 */
static struct {
	int64_t fence_ms, forever_ms;
} limit = { TIMEOUT_MS + GRACE_MS, 300000 };

static char fw_path[256];
static int control;
static int minor = -1;
static uint32_t dev_id;

static _Noreturn void die(const char *what, int err)
{
	printf("soak_kill: %s: %s\n", what, strerror(err));
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int64_t now_ms(void)
{
	return now_ns() / 1000000;
}

static void sleep_ms(uint32_t ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000l };

	nanosleep(&t, NULL);
}

static uint32_t phase(void)
{
	return __atomic_load_n(&shared->phase, __ATOMIC_ACQUIRE);
}

static int open_node(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/accel/accel%d", minor);
	return open(path, O_RDWR | O_CLOEXEC);
}

static pid_t start(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		srand(now_ns() ^ getpid());
	}
	return pid;
}

/* ---- clients ---- */

static void note(struct outcome *o, const struct compute *c, unsigned int slot, int ret,
		 int64_t since)
{
	int64_t took = now_ns() - since;

	o->fences++;
	if (took > o->worst_ns)
		o->worst_ns = took;
	switch (ret) {
	case 0:
		if (compute_check(c, slot))
			o->right++;
		else
			o->wrong++;
		break;
	case -EIO:
	case -ECANCELED:
		o->lost++;
		break;
	case -ETIME:
	case -EBUSY:
		o->timed_out++;
		break;
	default:
		printf("a job ended with %d: %s\n", ret, npu_error());
		o->odd++;
	}
}

/* Waits for the slot's job in one of several ways. Returns its result. */
static int wait_slot(struct compute *c, unsigned int slot, const struct npu_sync *sync)
{
	int64_t until = limit.forever_ms * 1000000;
	uint64_t seqno = c->slots[slot].seqno;

	if (rand() & 1 && npu_fence_wait(sync->fence, sync->point, until))
		return -ETIMEDOUT;
	return npu_queue_wait(c->queue, seqno, until, rand() & 1 ? NPU_WAIT_FAST : NPU_WAIT_DRIVER);
}

static uint32_t *submitted; /* set to 1 after a job was submitted; or NULL */

/* Runs some jobs at once; false if the context can no longer be used. */
static bool one_round(struct compute *c, struct npu_fence *fence, uint64_t *point,
		      struct outcome *o)
{
	unsigned int nr = 1 + rand() % COMPUTE_SLOTS, sent = 0;
	struct npu_sync syncs[COMPUTE_SLOTS];
	int64_t since[COMPUTE_SLOTS];
	bool good = true;

	for (; sent < nr; sent++) {
		syncs[sent] = (struct npu_sync){ fence, *point + 1 };
		since[sent] = now_ns();
		if (compute_submit(c, sent, &syncs[sent])) {
			snprintf(o->why, sizeof(o->why), "%s", npu_error());
			break;
		}
		++*point;
		if (submitted)
			__atomic_store_n(submitted, 1, __ATOMIC_RELAXED);
	}
	for (unsigned int i = 0; i < sent; i++) {
		int ret = wait_slot(c, i, &syncs[i]);

		note(o, c, i, ret, since[i]);
		good = good && !ret;
	}
	return good && sent == nr;
}

/* Computes until the phase is over, with a new context whenever the firmware is lost. */
static void live(struct compute *c, struct npu_fence *fence, struct outcome *o)
{
	uint64_t point = 0, right_before = 0;
	bool last = false;

	while (phase() < 2) {
		if (compute_begin(c, TIMEOUT_MS)) {
			snprintf(o->why, sizeof(o->why), "%s", npu_error());
			sleep_ms(1 + rand() % 3);
			continue;
		}
		while (phase() < 2 && one_round(c, fence, &point, o)) {
			if (!last && phase() == 1) {
				last = true;
				right_before = o->right;
			}
			/* After the last kill, some right results are enough. */
			if (last && o->right > right_before + 3) {
				compute_end(c);
				return;
			}
			if (rand() % 50 == 0)
				break;
		}
		compute_end(c);
	}
}

static void survivor(struct outcome *o)
{
	struct npu_fence *fence;
	struct compute c;

	if (compute_open(&c, open_node()) || npu_fence_create(c.dev, false, &fence))
		_exit(5);
	live(&c, fence, o);
	npu_fence_free(fence);
	compute_close(&c);
	_exit(phase() == 1 ? 0 : 6);
}

/* Never returns; the jobs signal @syncobj, which belongs to the supervisor. */
static void victim(int syncobj, struct outcome *o, uint32_t *has_submitted)
{
	struct drm_syncobj_handle import = { .fd = syncobj };
	struct npu_fence fence;
	struct compute c;
	int fd = open_node();

	if (fd < 0 || ioctl(fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &import) || compute_open(&c, fd))
		_exit(5);
	fence = (struct npu_fence){ c.dev, import.handle };
	submitted = has_submitted;
	live(&c, &fence, o);
	_exit(0);
}

/* ---- the firmware ---- */

static bool look(struct vnpu_ctl_info *info)
{
	*info = (struct vnpu_ctl_info){ 0 };
	return !ioctl(control, VNPU_CTL_INFO, info);
}

static pid_t start_fw(bool again)
{
	pid_t pid = start();
	char id[16];

	if (pid)
		return pid;
	dup2(open("/dev/null", O_RDWR), 0);
	dup2(0, 1);
	snprintf(id, sizeof(id), "%u", dev_id);
	if (again)
		execl(fw_path, fw_path, "--threads", "1", "--attach", id, NULL);
	else
		execl(fw_path, fw_path, "--threads", "1", "--name", "soak", "--queues", "24",
		      "--depth", "8", "--contexts", "16", NULL);
	_exit(127);
}

static void wait_ready(pid_t fw)
{
	int64_t until = now_ms() + limit.forever_ms;
	struct vnpu_ctl_info info;

	while (!look(&info) || info.state != VNPU_CTL_DEV_READY) {
		if (waitpid(fw, NULL, WNOHANG) == fw)
			die("vnpu-fw", ECHILD);
		if (now_ms() > until)
			die("the device does not become ready", ETIMEDOUT);
		sleep_ms(1);
	}
	dev_id = info.dev_id;
	minor = info.accel_minor;
}

struct killer {
	pid_t pid;
	int64_t at; /* time of the next action */
	bool seen_ready, stopped;
	uint64_t kills, stops;
};

/* Plans the kill: one time in four before it serves anybody, else some time after. */
static void plan(struct killer *k)
{
	k->seen_ready = rand() % 4 == 0;
	k->stopped = false;
	k->at = now_ms() + (k->seen_ready ? rand() % 100 : limit.forever_ms);
}

static void turn_fw(struct killer *k, uint64_t kills)
{
	struct vnpu_ctl_info info;

	if (k->kills >= kills)
		return;
	if (!k->seen_ready && look(&info) && info.state == VNPU_CTL_DEV_READY) {
		k->seen_ready = true;
		k->at = now_ms() + rand() % 150;
	}
	if (now_ms() < k->at)
		return;
	if (!k->seen_ready)
		die("vnpu-fw does not take its device over", ETIMEDOUT);
	if (!k->stopped && rand() % 25 == 0) {
		kill(k->pid, SIGSTOP);
		k->stopped = true;
		k->stops++;
		k->at = now_ms() + rand() % (2 * TIMEOUT_MS);
		return;
	}
	if (k->stopped && rand() % 2) {
		kill(k->pid, SIGCONT);
		k->stopped = false;
		k->at = now_ms() + rand() % 100;
		return;
	}
	kill(k->pid, SIGKILL);
	waitpid(k->pid, NULL, 0);
	k->kills++;
	k->pid = start_fw(true);
	plan(k);
}

/* ---- victims ---- */

struct prey {
	pid_t pid;
	int64_t at; /* time of its death */
	bool spared; /* until it has submitted a job, or that takes as long as a fence may last */
	uint32_t *submitted;
	uint32_t handle; /* handle in the supervisor's file */
	uint64_t kills;
};

static int own_fd = -1;

static void start_victim(struct prey *p, struct outcome *o)
{
	struct drm_syncobj_create create = { 0 };
	struct drm_syncobj_handle export = { 0 };

	if (ioctl(own_fd, DRM_IOCTL_SYNCOBJ_CREATE, &create))
		die("SYNCOBJ_CREATE", errno);
	export.handle = p->handle = create.handle;
	if (ioctl(own_fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &export))
		die("SYNCOBJ_HANDLE_TO_FD: is vnpu.ko's fence_export on?", errno);
	/* One in four dies at any time, the others some time after their first job. */
	p->spared = rand() % 4;
	p->at = now_ms() + (p->spared ? limit.fence_ms : rand() % 150);
	*p->submitted = 0;
	p->pid = start();
	if (!p->pid)
		victim(export.fd, o, p->submitted);
	close(export.fd);
}

/* Waits for the end of everything that the victim submitted, soon after its death. */
static void bury(struct prey *p, struct outcome *o)
{
	int64_t since = now_ns(), took;
	struct drm_syncobj_destroy destroy = { .handle = p->handle };
	uint64_t point = 0;
	struct drm_syncobj_timeline_array query = {
		.handles = (uintptr_t)&p->handle,
		.points = (uintptr_t)&point,
		.count_handles = 1,
		.flags = DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED
	};
	struct drm_syncobj_timeline_wait wait = { .handles = (uintptr_t)&p->handle,
						  .points = (uintptr_t)&point,
						  .timeout_nsec =
							  since + limit.forever_ms * 1000000,
						  .count_handles = 1 };

	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	if (ioctl(own_fd, DRM_IOCTL_SYNCOBJ_QUERY, &query))
		die("SYNCOBJ_QUERY", errno);
	if (point && ioctl(own_fd, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait))
		die("waiting for the last fence of a victim", errno);
	took = now_ns() - since;
	o->fences += point > 0;
	if (took > o->worst_ns)
		o->worst_ns = took;
	ioctl(own_fd, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy);
	p->kills++;
}

static void turn_victim(struct prey *p, struct outcome *o, uint64_t kills)
{
	if (p->pid && p->spared && __atomic_load_n(p->submitted, __ATOMIC_RELAXED)) {
		p->spared = false;
		p->at = now_ms() + rand() % 150;
	}
	if (!p->pid && p->kills < kills)
		start_victim(p, o);
	else if (p->pid && now_ms() >= p->at) {
		bury(p, o);
		p->pid = 0;
	}
}

/* ---- what is left ---- */

struct memory {
	long shmem, vmalloc, slab, available;
};

static struct memory memory(void)
{
	struct memory m = { 0 };
	char line[128];
	FILE *f = fopen("/proc/meminfo", "r");

	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "Shmem: %ld", &m.shmem);
		sscanf(line, "VmallocUsed: %ld", &m.vmalloc);
		sscanf(line, "SUnreclaim: %ld", &m.slab);
		sscanf(line, "MemAvailable: %ld", &m.available);
	}
	if (f)
		fclose(f);
	return m;
}

/* True when the dead clients' buffers and contexts are gone; gives the driver a moment for that. */
static bool device_is_empty(void)
{
	struct drm_vnpu_query_state state = { 0 };
	struct drm_vnpu_dev_query q = { .type = DRM_VNPU_QUERY_STATE,
					.size = sizeof(state),
					.pointer = (uintptr_t)&state };
	int64_t until = now_ms() + limit.forever_ms;
	int nr = 0;

	for (; now_ms() < until; sleep_ms(10)) {
		int fd = open_node();

		for (nr = 0; nr < NR_CONTEXTS; nr++)
			if (ioctl(fd, DRM_IOCTL_VNPU_CTX_CREATE,
				  &(struct drm_vnpu_ctx_create){ 0 }))
				break;
		close(fd);
		if (!ioctl(own_fd, DRM_IOCTL_VNPU_DEV_QUERY, &q) && !state.mem_bytes &&
		    nr == NR_CONTEXTS)
			break;
	}
	printf("device: %d of %d contexts to give, %llu bytes of buffers, epoch %u\n", nr,
	       NR_CONTEXTS, (unsigned long long)state.mem_bytes, state.epoch);
	return nr == NR_CONTEXTS && !state.mem_bytes;
}

static bool within(const char *who, const struct outcome *o)
{
	printf("%s: %llu fences, %llu right, %llu wrong, %llu lost or cancelled, %llu timed out, "
	       "%llu odd; longest "
	       "%lld ms "
	       "(limit %lld)\n",
	       who, (unsigned long long)o->fences, (unsigned long long)o->right,
	       (unsigned long long)o->wrong, (unsigned long long)o->lost,
	       (unsigned long long)o->timed_out, (unsigned long long)o->odd,
	       (long long)o->worst_ns / 1000000, (long long)limit.fence_ms);
	return !o->wrong && !o->odd && o->worst_ns / 1000000 <= limit.fence_ms;
}

/* ---- the run ---- */

static bool survivors_end(pid_t *pids)
{
	int64_t until = now_ms() + limit.forever_ms;
	bool good = true;
	int status;

	__atomic_store_n(&shared->phase, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < NR_SURVIVORS; i++) {
		while (waitpid(pids[i], &status, WNOHANG) == 0) {
			if (now_ms() > until)
				__atomic_store_n(&shared->phase, 2, __ATOMIC_RELEASE);
			if (now_ms() > until + limit.forever_ms) {
				printf("survivor %d does not end\n", i);
				kill(pids[i], SIGKILL);
			}
			sleep_ms(2);
		}
		if (status)
			printf("survivor %d: no right results after the last kill (status 0x%x); "
			       "last error: %s\n",
			       i, status, shared->survivors[i].why);
		good = good && !status;
	}
	return good;
}

static bool run(uint64_t kills)
{
	struct killer fw = { 0 };
	struct prey prey[NR_VICTIMS] = { 0 };
	pid_t survivors[NR_SURVIVORS];
	uint64_t dead = 0, said = 0;
	int64_t began = now_ms();
	bool good;

	fw.pid = start_fw(false);
	wait_ready(fw.pid);
	own_fd = open_node();
	for (int i = 0; i < NR_SURVIVORS; i++) {
		survivors[i] = start();
		if (!survivors[i])
			survivor(&shared->survivors[i]);
	}
	for (int i = 0; i < NR_VICTIMS; i++)
		prey[i].submitted = &shared->submitted[i];
	plan(&fw);
	while (fw.kills < kills || dead < kills) {
		turn_fw(&fw, kills);
		dead = 0;
		for (int i = 0; i < NR_VICTIMS; i++) {
			turn_victim(&prey[i], &shared->victims[i], (kills + i) / NR_VICTIMS);
			dead += prey[i].kills;
		}
		if (fw.kills / 100 > said) {
			said = fw.kills / 100;
			printf("%llu of the firmware, %llu of clients after %lld s\n",
			       (unsigned long long)fw.kills, (unsigned long long)dead,
			       (long long)(now_ms() - began) / 1000);
			fflush(stdout);
		}
		sleep_ms(1);
	}
	wait_ready(fw.pid);
	good = survivors_end(survivors);
	printf("%llu kills and %llu stops of the firmware, %llu kills of clients in %lld s\n",
	       (unsigned long long)fw.kills, (unsigned long long)fw.stops, (unsigned long long)dead,
	       (long long)(now_ms() - began) / 1000);
	good = device_is_empty() && good;
	close(own_fd);
	kill(fw.pid, SIGTERM);
	waitpid(fw.pid, NULL, 0);
	/* A device that was taken over stays unless vnpu-fw was told to end. */
	ioctl(control, VNPU_CTL_DEL_DEV, &(struct vnpu_ctl_del_dev){ .dev_id = dev_id });
	return good;
}

/* Measures the time from a kill to the first right result, and sets the limits. */
static void measure(void)
{
	pid_t fw = start_fw(false);
	int64_t since = 0, unit;
	struct compute c;

	wait_ready(fw);
	if (compute_open(&c, open_node()))
		die(npu_error(), EIO);
	/* The first time without a kill, for what is slow only once. */
	for (int i = 0; i < 3; i++) {
		if (compute_begin(&c, 60000) || compute_submit(&c, 0, NULL) ||
		    npu_queue_wait(c.queue, c.slots[0].seqno, limit.forever_ms * 1000000,
				   NPU_WAIT_DRIVER) ||
		    !compute_check(&c, 0))
			die(npu_error(), EIO);
		unit = now_ms() - since;
		compute_end(&c);
		if (i == 2)
			break;
		since = now_ms();
		kill(fw, SIGKILL);
		waitpid(fw, NULL, 0);
		fw = start_fw(true);
		wait_ready(fw);
	}
	compute_close(&c);
	kill(fw, SIGTERM);
	waitpid(fw, NULL, 0);
	ioctl(control, VNPU_CTL_DEL_DEV, &(struct vnpu_ctl_del_dev){ .dev_id = dev_id });
	limit.fence_ms = TIMEOUT_MS + GRACE_MS + 20 * unit;
	limit.forever_ms = 30000 + 300 * unit;
	printf("%lld ms from a kill to a right result: fences may last %lld ms, and %lld ms "
	       "count as endless\n",
	       (long long)unit, (long long)limit.fence_ms, (long long)limit.forever_ms);
}

static bool report(const struct memory *before, const struct memory *after, bool good,
		   uint64_t kills)
{
	struct outcome all = { 0 };
	uint64_t dying = 0;

	for (int i = 0; i < NR_SURVIVORS; i++) {
		char who[32];

		snprintf(who, sizeof(who), "survivor %d", i);
		good = within(who, &shared->survivors[i]) && good;
		all.fences += shared->survivors[i].fences;
		all.right += shared->survivors[i].right;
	}
	for (int i = 0; i < NR_VICTIMS; i++) {
		char who[32];

		snprintf(who, sizeof(who), "victims %d", i);
		good = within(who, &shared->victims[i]) && good;
		all.fences += shared->victims[i].fences;
		dying += shared->victims[i].fences;
	}
	if (!all.right || (!dying && kills >= MANY_KILLS)) {
		printf("nothing was computed\n");
		good = false;
	}
	printf("%llu fences, %llu results compared\n", (unsigned long long)all.fences,
	       (unsigned long long)all.right);
	printf("kB before and after: Shmem %ld %ld, VmallocUsed %ld %ld, SUnreclaim %ld %ld, "
	       "MemAvailable %ld %ld\n",
	       before->shmem, after->shmem, before->vmalloc, after->vmalloc, before->slab,
	       after->slab, before->available, after->available);
	if (after->shmem + after->vmalloc > before->shmem + before->vmalloc + 1024) {
		printf("shared memory or rings are left behind\n");
		good = false;
	}
	return good;
}

int main(int argc, char **argv)
{
	const char *build = getenv("BUILD"), *seed = getenv("SOAK_SEED");
	uint64_t kills = argc > 1 ? strtoull(argv[1], NULL, 0) : 50;
	unsigned int chance = seed ? strtoul(seed, NULL, 0) : (unsigned int)now_ns();
	struct memory before, after;
	struct vnpu_ctl_info info;
	bool good;

	snprintf(fw_path, sizeof(fw_path), "%s/bin/vnpu-fw", build ? build : "build");
	printf("SOAK_SEED=%u, %llu kills\n", chance, (unsigned long long)kills);
	srand(chance);
	control = open("/dev/" VNPU_FW_CONTROL_NODE, O_RDWR | O_CLOEXEC);
	if (control < 0)
		die("/dev/vnpu-control: is vnpu.ko loaded, and are you root?", errno);
	if (look(&info))
		die("there is a device already: end its vnpu-fw", EBUSY);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		die("mmap", errno);
	measure();
	/* Once, for memory that is allocated only once. */
	run(2);
	memset(shared, 0, sizeof(*shared));
	before = memory();
	good = run(kills);
	after = memory();
	return report(&before, &after, good, kills) ? 0 : 1;
}
