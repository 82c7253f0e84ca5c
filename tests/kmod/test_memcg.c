// SPDX-License-Identifier: MIT
/*
 * Kernel memory that a client causes is charged to the client's cgroup: queues with their arrays of
 * jobs, and the fences of waiting jobs. The test plays the firmware; the client is a child in a
 * cgroup (v2) of its own.
 */
#include <sys/mount.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "vnpu_raw.h"

#define QUEUES 60
#define JOBS 256

static char root[64], group[96];

static bool put(const char *dir, const char *name, const char *value)
{
	char path[160];
	int fd;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ok = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	if (fd >= 0)
		close(fd);
	return ok;
}

static bool has_memory_controller(void)
{
	char path[96], text[256] = { 0 };
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.controllers", root);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	return strstr(text, "memory");
}

/* NULL, or the reason why there is no cgroup. */
static const char *group_make(void)
{
	snprintf(root, sizeof(root), "%s/vnpu-cgroup-XXXXXX", getenv("TMPDIR") ?: "/tmp");
	if (!mkdtemp(root))
		return "no folder to mount it on";
	if (mount("cgroup2", root, "cgroup2", 0, NULL)) {
		rmdir(root);
		return "cgroup v2 cannot be mounted";
	}
	snprintf(group, sizeof(group), "%s/vnpu-test", root);
	if (!has_memory_controller() || !put(root, "cgroup.subtree_control", "+memory") ||
	    mkdir(group, 0755)) {
		umount(root);
		rmdir(root);
		return "cgroup v2 has no memory controller";
	}
	return NULL;
}

static void group_end(void)
{
	rmdir(group);
	umount(root);
	rmdir(root);
}

/* The kernel memory in memory.stat; memory.current also counts the child's own memory. */
static int64_t kernel_bytes(void)
{
	char path[128], line[128];
	long long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/memory.stat", group);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "kernel %lld", &n) == 1)
			break;
	fclose(f);
	return n;
}

static int64_t current_bytes(void)
{
	char path[128];
	long long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/memory.current", group);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lld", &n), 1);
	fclose(f);
	return n;
}

/* ---- the client; it fails through its exit status ---- */

struct pipes {
	int to_parent[2], to_child[2];
};

static void tell(int fd)
{
	if (write(fd, "!", 1) != 1)
		_exit(90);
}

static void hear(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		_exit(91);
}

static void client_main(struct pipes *p, int minor)
{
	struct drm_vnpu_ctx_create ctx = { 0 };
	struct drm_syncobj_create blocker = { 0 }, line = { 0 };
	struct drm_vnpu_queue_create q[QUEUES];
	struct drm_vnpu_sync_op syncs[2] = { { .flags = DRM_VNPU_SYNC_SIGNAL } };
	struct drm_vnpu_job jobs[64];
	char path[64];
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "/dev/accel/accel%d", minor);
	if (!put(group, "cgroup.procs", "0"))
		_exit(1);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || raw_ioctl(fd, DRM_IOCTL_VNPU_CTX_CREATE, &ctx) ||
	    raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &blocker) ||
	    raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &line))
		_exit(2);
	tell(p->to_parent[1]);
	hear(p->to_child[0]);
	for (int i = 0; i < QUEUES; i++) {
		q[i] = (struct drm_vnpu_queue_create){ .ctx_id = ctx.ctx_id, .depth = 1 };
		if (raw_ioctl(fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &q[i]))
			_exit(3);
	}
	tell(p->to_parent[1]);
	hear(p->to_child[0]);
	/* The first job is not answered; all others wait for it and have fences of their own. */
	syncs[0].handle = blocker.handle;
	jobs[0] = raw_job(q[0].queue_id);
	raw_job_syncs(&jobs[0], syncs, 1);
	if (raw_submit_jobs(fd, ctx.ctx_id, jobs, 1))
		_exit(4);
	syncs[0] = (struct drm_vnpu_sync_op){ .handle = blocker.handle };
	syncs[1] = (struct drm_vnpu_sync_op){ DRM_VNPU_SYNC_SIGNAL, line.handle, 0 };
	for (int i = 1; i < QUEUES; i++) {
		for (int k = 0; k < 64; k++) {
			jobs[k] = raw_job(q[i].queue_id);
			raw_job_syncs(&jobs[k], syncs, 2);
		}
		for (int k = 0; k < JOBS; k += 64)
			if (raw_submit_jobs(fd, ctx.ctx_id, jobs, 64))
				_exit(5);
	}
	tell(p->to_parent[1]);
	hear(p->to_child[0]);
	close(fd);
	tell(p->to_parent[1]);
	hear(p->to_child[0]);
	_exit(0);
}

/* The child has done its next step, or the test is over. */
static void next_step(struct pipes *p, bool first)
{
	char byte;

	if (!first)
		assert_int_equal(write(p->to_child[1], "!", 1), 1);
	assert_int_equal(read(p->to_parent[0], &byte, 1), 1);
}

static void queues_and_fences_of_a_client_are_charged_to_its_cgroup_and_given_back(void **state)
{
	struct vnpu_ctl_add_dev add = raw_fw_defaults();
	int64_t opened, queues, jobs, until, current;
	struct raw_fw fw;
	struct pipes p;
	const char *why;
	int status;
	pid_t pid;

	close(raw_control());
	why = group_make();
	if (why) {
		print_message("%s\n", why);
		skip();
	}
	add.nr_queues = QUEUES + 4;
	raw_fw_add(&fw, &add);
	assert_int_equal(pipe(p.to_parent), 0);
	assert_int_equal(pipe(p.to_child), 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(p.to_parent[0]);
		close(p.to_child[1]);
		client_main(&p, fw.minor);
	}
	close(p.to_parent[1]);
	close(p.to_child[0]);
	next_step(&p, true);
	opened = kernel_bytes();
	next_step(&p, false);
	queues = kernel_bytes();
	next_step(&p, false);
	jobs = kernel_bytes();
	current = current_bytes();
	print_message("%lld kB of the kernel's, %lld more for %d queues, %lld more for %d jobs\n",
		      (long long)opened / 1024, (long long)(queues - opened) / 1024, QUEUES,
		      (long long)(jobs - queues) / 1024, (QUEUES - 1) * JOBS);
	/* At least a cache line for each job, and a fence for each one that waits. */
	assert_true(queues - opened >= QUEUES * JOBS * 64);
	assert_true(jobs - queues >= (QUEUES - 1) * JOBS * (int64_t)64);
	assert_true(current >= jobs);
	next_step(&p, false);
	for (until = raw_in_ms(RAW_LONG_MS); kernel_bytes() - opened > (jobs - opened) / 8;
	     usleep(10000))
		if (raw_now_ns() > until)
			fail_msg("%lld kB are still charged after the file was closed",
				 (long long)(kernel_bytes() - opened) / 1024);
	assert_int_equal(write(p.to_child[1], "!", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(p.to_parent[0]);
	close(p.to_child[1]);
	raw_fw_remove(&fw);
	group_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			queues_and_fences_of_a_client_are_charged_to_its_cgroup_and_given_back),
	};

	return cmocka_run_group_tests_name("memcg", tests, NULL, NULL);
}
