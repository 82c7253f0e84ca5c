// SPDX-License-Identifier: MIT
/*
 * Limits of one file, one user and one device of vnpu.ko, and the errno of each. Users are
 * processes that carry out the test's orders, each with a uid and no privilege.
 */
#define _GNU_SOURCE
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#include "vnpu_raw.h"

#define VA 0x100000ull
#define MIB (1ull << 20)

/* ---- users ---- */

enum order {
	OPEN,
	CLOSE,
	CTX,
	QUEUE,
	HIGH_QUEUE,
	STATUS_PAGE, /* of a queue that is destroyed at once */
	UNMAP, /* the last status page */
	BO,
	BO_CLOSE,
	EXPORT,
	CLOSE_FD,
	PRIORITIES
};

/* Of the capabilities that a user may have here. */
#define NONE 0
#define RESOURCE (1u << CAP_SYS_RESOURCE)
#define NICE (1u << CAP_SYS_NICE)

struct message {
	int order;
	int fd;
	uint64_t arg;
};

struct user {
	pid_t pid;
	int sock;
};

/* Maps the status page of a queue and destroys the queue. */
static int64_t keep_status_page(int fd, uint32_t ctx, const void **page)
{
	struct drm_vnpu_queue_create queue = { .ctx_id = ctx, .depth = 1 };
	int ret = raw_ioctl(fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &queue);

	if (ret)
		return ret;
	*page = raw_queue_status(fd, &queue);
	return raw_queue_destroy(fd, queue.queue_id);
}

/* An id or fd, or -errno. */
static int64_t obey(const struct message *m)
{
	struct drm_vnpu_ctx_create ctx = { 0 };
	struct drm_vnpu_queue_create queue = {
		.ctx_id = m->arg,
		.priority =
			m->order == HIGH_QUEUE ? DRM_VNPU_PRIORITY_HIGH : DRM_VNPU_PRIORITY_NORMAL,
		.depth = 1,
	};
	struct drm_vnpu_bo_create bo = { .size = m->arg };
	struct drm_gem_close gem = { .handle = m->arg };
	struct drm_prime_handle prime = { .handle = m->arg, .flags = DRM_CLOEXEC };
	static const void *page;
	char path[64];
	int ret;

	switch (m->order) {
	case OPEN:
		snprintf(path, sizeof(path), "/dev/accel/accel%d", (int)m->arg);
		ret = open(path, O_RDWR | O_CLOEXEC);
		return ret < 0 ? -errno : ret;
	case CLOSE:
	case CLOSE_FD:
		return close(m->fd) ? -errno : 0;
	case CTX:
		ret = raw_ioctl(m->fd, DRM_IOCTL_VNPU_CTX_CREATE, &ctx);
		return ret ? ret : (int64_t)ctx.ctx_id;
	case QUEUE:
	case HIGH_QUEUE:
		ret = raw_ioctl(m->fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &queue);
		return ret ? ret : (int64_t)queue.queue_id;
	case STATUS_PAGE:
		return keep_status_page(m->fd, m->arg, &page);
	case UNMAP:
		return munmap((void *)page, PAGE) ? -errno : 0;
	case BO:
		ret = raw_ioctl(m->fd, DRM_IOCTL_VNPU_BO_CREATE, &bo);
		return ret ? ret : (int64_t)bo.handle;
	case BO_CLOSE:
		return raw_ioctl(m->fd, DRM_IOCTL_GEM_CLOSE, &gem);
	case EXPORT:
		ret = raw_ioctl(m->fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime);
		return ret ? ret : prime.fd;
	case PRIORITIES:
		return raw_limits(m->fd).priorities;
	}
	return -ENOSYS;
}

static void become(uid_t uid, uint32_t keep)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };

	data[0].effective = data[0].permitted = keep;
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || setgroups(0, NULL) || setresgid(uid, uid, uid) ||
	    setresuid(uid, uid, uid) || syscall(SYS_capset, &header, data))
		_exit(1);
}

static struct user user_start(uid_t uid, uint32_t keep)
{
	struct message m;
	struct user user;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	user.pid = fork();
	assert_true(user.pid >= 0);
	if (!user.pid) {
		close(pair[0]);
		become(uid, keep);
		while (read(pair[1], &m, sizeof(m)) == sizeof(m)) {
			int64_t result = obey(&m);

			if (write(pair[1], &result, sizeof(result)) != sizeof(result))
				break;
		}
		_exit(0);
	}
	close(pair[1]);
	user.sock = pair[0];
	return user;
}

static int64_t tell(struct user *user, enum order order, int fd, uint64_t arg)
{
	struct message m = { order, fd, arg };
	int64_t result;

	assert_int_equal(write(user->sock, &m, sizeof(m)), sizeof(m));
	assert_int_equal(read(user->sock, &result, sizeof(result)), sizeof(result));
	return result;
}

static void user_end(struct user *user)
{
	close(user->sock);
	waitpid(user->pid, NULL, 0);
}

/* ---- devices: two users of uid 2001 and 2002, two of 2001 with a privilege each, and root ---- */

struct place {
	struct user a, b, strong, quick;
	int root;
	int minor;
};

static struct vnpu_ctl_add_dev small(void)
{
	struct vnpu_ctl_add_dev add = raw_fw_defaults();

	add.user_ctx = 3;
	add.user_queues = 4;
	add.user_mem = MIB;
	add.mem_limit = 2 * MIB;
	return add;
}

static int start(void **state, const struct vnpu_ctl_add_dev *add)
{
	struct place *p = calloc(1, sizeof(*p));
	char path[64];

	*state = p;
	p->minor = -1;
	if (access(RAW_CONTROL, R_OK | W_OK))
		return 0;
	memset(&server, 0, sizeof(server));
	raw_fw_add(&server.fw, add);
	if (pthread_create(&server.thread, NULL, server_run, NULL))
		return -1;
	p->minor = server.fw.minor;
	snprintf(path, sizeof(path), "/dev/accel/accel%d", p->minor);
	if (chmod(path, 0666))
		return -1;
	p->root = raw_client(p->minor);
	p->a = user_start(2001, NONE);
	p->b = user_start(2002, NONE);
	p->strong = user_start(2001, RESOURCE);
	p->quick = user_start(2001, NICE);
	return 0;
}

static int start_small(void **state)
{
	struct vnpu_ctl_add_dev add = small();

	return start(state, &add);
}

/* A device with more of everything than a file may have. */
static int start_large(void **state)
{
	struct vnpu_ctl_add_dev add = raw_fw_defaults();

	add.nr_ctx = 140;
	add.nr_queues = 520;
	add.user_ctx = 100;
	return start(state, &add);
}

static int end(void **state)
{
	struct place *p = *state;

	if (p->minor >= 0) {
		/* The last one first: each has copies of the earlier ones' sockets. */
		user_end(&p->quick);
		user_end(&p->strong);
		user_end(&p->b);
		user_end(&p->a);
		close(p->root);
		server_stop(NULL);
	}
	free(p);
	return 0;
}

static struct place *place(void **state)
{
	struct place *p = *state;

	if (p->minor < 0)
		skip();
	return p;
}

static int user_open(struct place *p, struct user *user)
{
	int64_t fd = tell(user, OPEN, 0, p->minor);

	assert_true(fd >= 0);
	return fd;
}

/* Number of orders that succeed until one is refused, which must be with @error. */
static int count(struct user *user, enum order order, int fd, uint64_t arg, int error)
{
	int64_t ret;
	int n = 0;

	while ((ret = tell(user, order, fd, arg)) >= 0)
		n++;
	assert_int_equal(ret, -error);
	return n;
}

static int root_ctx(struct place *p)
{
	return obey(&(struct message){ CTX, p->root, 0 });
}

/* Contexts become free when the firmware has answered. */
static void becomes_possible(struct user *user, enum order order, int fd, uint64_t arg)
{
	int64_t until = raw_in_ms(RAW_LONG_MS), ret;

	while ((ret = tell(user, order, fd, arg)) == -EDQUOT) {
		assert_true(raw_now_ns() < until);
		usleep(1000);
	}
	assert_true(ret >= 0);
}

/* ---- tests ---- */

static void limits_are_those_of_add_dev(void **state)
{
	struct place *p = place(state);
	struct drm_vnpu_query_limits limits = raw_limits(p->root);

	assert_int_equal(limits.max_ctx_per_user, 3);
	assert_int_equal(limits.max_queues_per_user, 4);
	assert_int_equal(limits.max_bytes_per_user, MIB);
	assert_int_equal(limits.mem_limit_bytes, 2 * MIB);
	assert_int_equal(limits.max_waiting_jobs, 256);
	assert_int_equal(limits.max_fence_ms, 10000);
}

static void without_limits_a_user_gets_half_and_at_least_one_and_half_of_the_memory(void **state)
{
	struct vnpu_ctl_add_dev add = raw_fw_defaults();
	struct drm_vnpu_query_limits limits;
	struct sysinfo host;
	uint64_t half;
	struct raw_fw fw;
	int fd;

	add.nr_ctx = 1;
	add.nr_queues = 7;
	raw_fw_add(&fw, &add);
	fd = raw_client(fw.minor);
	limits = raw_limits(fd);
	assert_int_equal(limits.max_ctx_per_user, 1);
	assert_int_equal(limits.max_queues_per_user, 3);
	assert_int_equal(sysinfo(&host), 0);
	half = (uint64_t)host.totalram * host.mem_unit / 2;
	assert_in_range(limits.max_bytes_per_user, half - PAGE, half + PAGE);
	assert_in_range(limits.mem_limit_bytes, half - PAGE, half + PAGE);
	close(fd);
	raw_fw_remove(&fw);
}

static void add_dev_refuses_user_limits_above_the_device_s(void **state)
{
	struct vnpu_ctl_add_dev add = small();
	int ctl = raw_control();

	add.user_ctx = add.nr_ctx + 1;
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ADD_DEV, &add), -EINVAL);
	add = small();
	add.user_queues = add.nr_queues + 1;
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ADD_DEV, &add), -EINVAL);
	close(ctl);
}

static void a_users_contexts_are_counted_over_all_its_files(void **state)
{
	struct place *p = place(state);
	int first = user_open(p, &p->a), second = user_open(p, &p->a), other = user_open(p, &p->b);

	assert_true(tell(&p->a, CTX, first, 0) > 0);
	assert_int_equal(count(&p->a, CTX, second, 0, EDQUOT), 2);
	assert_int_equal(count(&p->a, CTX, first, 0, EDQUOT), 0);
	/* Other users have limits of their own. */
	assert_int_equal(count(&p->b, CTX, other, 0, EDQUOT), 3);
	/* Root is exempt, and gets what the device has left. */
	assert_true(root_ctx(p) > 0);
	assert_true(root_ctx(p) > 0);
	assert_int_equal(root_ctx(p), -EBUSY);
	/* The device is full too, but the user's limit is reported first. */
	assert_int_equal(tell(&p->a, CTX, first, 0), -EDQUOT);
	tell(&p->a, CLOSE, second, 0);
	becomes_possible(&p->a, CTX, first, 0);
}

static void a_privileged_process_of_the_same_user_is_exempt(void **state)
{
	struct place *p = place(state);
	int weak = user_open(p, &p->a), strong = user_open(p, &p->strong);

	assert_int_equal(count(&p->a, CTX, weak, 0, EDQUOT), 3);
	assert_int_equal(count(&p->strong, CTX, strong, 0, EBUSY), 5);
	/* The context is charged all the same. */
	tell(&p->a, CLOSE, weak, 0);
	weak = user_open(p, &p->a);
	assert_int_equal(tell(&p->a, CTX, weak, 0), -EDQUOT);
}

static void a_queue_counts_until_nobody_maps_its_status_page(void **state)
{
	struct place *p = place(state);
	int fd = user_open(p, &p->a);
	int64_t ctx = tell(&p->a, CTX, fd, 0);

	assert_int_equal(count(&p->a, STATUS_PAGE, fd, ctx, EDQUOT), 4);
	assert_int_equal(tell(&p->a, QUEUE, fd, ctx), -EDQUOT);
	assert_int_equal(tell(&p->a, UNMAP, 0, 0), 0);
	assert_int_equal(count(&p->a, QUEUE, fd, ctx, EDQUOT), 1);
	tell(&p->a, CLOSE, fd, 0);
}

static void a_users_queues_are_counted_over_all_its_contexts(void **state)
{
	struct place *p = place(state);
	int fd = user_open(p, &p->a), more = user_open(p, &p->a), other = user_open(p, &p->b);
	int64_t ctx1 = tell(&p->a, CTX, fd, 0), ctx2 = tell(&p->a, CTX, more, 0),
		ctx3 = tell(&p->b, CTX, other, 0);
	int64_t queue = tell(&p->a, QUEUE, fd, ctx1);

	assert_true(ctx1 > 0 && ctx2 > 0 && ctx3 > 0 && queue > 0);
	assert_int_equal(count(&p->a, QUEUE, more, ctx2, EDQUOT), 3);
	assert_int_equal(tell(&p->a, QUEUE, fd, ctx1), -EDQUOT);
	assert_int_equal(count(&p->b, QUEUE, other, ctx3, EDQUOT), 4);
	/* Eight of eight. */
	assert_int_equal(obey(&(struct message){ QUEUE, p->root, root_ctx(p) }), -EBUSY);
	tell(&p->a, CLOSE, fd, 0);
	assert_true(tell(&p->a, QUEUE, more, ctx2) > 0);
}

static void a_users_memory_is_limited_and_so_is_the_devices(void **state)
{
	struct place *p = place(state);
	int fd = user_open(p, &p->a), more = user_open(p, &p->a), other = user_open(p, &p->b);
	int64_t half = tell(&p->a, BO, fd, MIB / 2);

	assert_true(half > 0);
	assert_int_equal(tell(&p->a, BO, more, MIB / 2 + 1), -EDQUOT);
	assert_true(tell(&p->a, BO, more, MIB / 2) > 0);
	assert_int_equal(tell(&p->a, BO, fd, 1), -EDQUOT);
	assert_true(tell(&p->b, BO, other, MIB) > 0);
	/* Now the device is full for root too. */
	assert_int_equal(obey(&(struct message){ BO, p->root, 1 }), -ENOSPC);
	assert_int_equal(tell(&p->a, BO_CLOSE, fd, half), 0);
	assert_true(obey(&(struct message){ BO, p->root, MIB / 2 }) > 0);
	/* The user has room again, the device has not. Refused buffers are not charged. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(tell(&p->a, BO, fd, MIB / 2), -ENOSPC);
	tell(&p->b, CLOSE, other, 0);
	assert_true(tell(&p->a, BO, fd, MIB / 2) > 0);
}

static void a_buffer_is_charged_until_nobody_holds_it(void **state)
{
	struct place *p = place(state);
	int fd = user_open(p, &p->a);
	int64_t bo = tell(&p->a, BO, fd, MIB), dmabuf;

	assert_true(bo > 0);
	assert_int_equal(raw_param_set("prime_export", "Y"), 0);
	dmabuf = tell(&p->a, EXPORT, fd, bo);
	raw_param_set("prime_export", "N");
	assert_true(dmabuf >= 0);
	tell(&p->a, CLOSE, fd, 0);
	fd = user_open(p, &p->a);
	assert_int_equal(tell(&p->a, BO, fd, PAGE), -EDQUOT);
	tell(&p->a, CLOSE_FD, dmabuf, 0);
	becomes_possible(&p->a, BO, fd, MIB);
}

static void one_file_runs_out_before_its_user_and_says_so(void **state)
{
	struct place *p = place(state);
	int fd = user_open(p, &p->a), more = user_open(p, &p->a);
	int64_t ctx;

	assert_int_equal(count(&p->a, CTX, fd, 0, EMFILE), 64);
	assert_int_equal(count(&p->a, CTX, more, 0, EDQUOT), 36);
	tell(&p->a, CLOSE, fd, 0);
	fd = user_open(p, &p->b);
	ctx = tell(&p->b, CTX, fd, 0);
	assert_int_equal(count(&p->b, QUEUE, fd, ctx, EMFILE), 256);
	more = user_open(p, &p->b);
	ctx = tell(&p->b, CTX, more, 0);
	assert_int_equal(count(&p->b, QUEUE, more, ctx, EDQUOT), 4);
}

static void binding_a_bound_address_is_enospc(void **state)
{
	struct place *p = place(state);
	uint32_t ctx = raw_ctx(p->root), handle = raw_bo(p->root, PAGE);

	assert_int_equal(raw_bind(p->root, ctx, handle, VA, PAGE, 0), 0);
	assert_int_equal(raw_bind(p->root, ctx, handle, VA, PAGE, 0), -ENOSPC);
}

static void priorities_that_a_user_may_not_have_are_neither_offered_nor_given(void **state)
{
	struct place *p = place(state);
	const int64_t common = 1 << DRM_VNPU_PRIORITY_LOW | 1 << DRM_VNPU_PRIORITY_NORMAL;
	int fd = user_open(p, &p->a);
	int64_t ctx = tell(&p->a, CTX, fd, 0);

	assert_int_equal(tell(&p->a, PRIORITIES, fd, 0), common);
	assert_int_equal(tell(&p->a, HIGH_QUEUE, fd, ctx), -EACCES);
	assert_true(tell(&p->a, QUEUE, fd, ctx) > 0);
	/* Another privilege does not help. */
	fd = user_open(p, &p->strong);
	assert_int_equal(tell(&p->strong, PRIORITIES, fd, 0), common);
	assert_int_equal(tell(&p->strong, HIGH_QUEUE, fd, tell(&p->strong, CTX, fd, 0)), -EACCES);
	fd = user_open(p, &p->quick);
	assert_int_equal(tell(&p->quick, PRIORITIES, fd, 0), common | 1 << DRM_VNPU_PRIORITY_HIGH);
	assert_true(tell(&p->quick, HIGH_QUEUE, fd, tell(&p->quick, CTX, fd, 0)) > 0);
	assert_int_equal(obey(&(struct message){ PRIORITIES, p->root, 0 }),
			 common | 1 << DRM_VNPU_PRIORITY_HIGH);
	assert_true(obey(&(struct message){ HIGH_QUEUE, p->root, root_ctx(p) }) > 0);
}

#define SMALL(f) cmocka_unit_test_setup_teardown(f, start_small, end)
#define LARGE(f) cmocka_unit_test_setup_teardown(f, start_large, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SMALL(limits_are_those_of_add_dev),
		cmocka_unit_test(
			without_limits_a_user_gets_half_and_at_least_one_and_half_of_the_memory),
		cmocka_unit_test(add_dev_refuses_user_limits_above_the_device_s),
		SMALL(a_users_contexts_are_counted_over_all_its_files),
		SMALL(a_privileged_process_of_the_same_user_is_exempt),
		SMALL(a_queue_counts_until_nobody_maps_its_status_page),
		SMALL(a_users_queues_are_counted_over_all_its_contexts),
		SMALL(a_users_memory_is_limited_and_so_is_the_devices),
		SMALL(a_buffer_is_charged_until_nobody_holds_it),
		LARGE(one_file_runs_out_before_its_user_and_says_so),
		SMALL(binding_a_bound_address_is_enospc),
		SMALL(priorities_that_a_user_may_not_have_are_neither_offered_nor_given),
	};

	return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
