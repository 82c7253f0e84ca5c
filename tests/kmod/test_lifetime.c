// SPDX-License-Identifier: MIT
/*
 * Client calls at the wrong moment, and files that are shared: the device is deleted, the context
 * banned or the firmware gone; objects are destroyed twice or with jobs in flight; calls are
 * interrupted by signals; file descriptors are copied, inherited and sent; memory is mapped in
 * every way. The test plays the firmware.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "vnpu_raw.h"

#define VA 0x100000ull

/* ---- every call, once ---- */

struct every {
	const char *name;
	unsigned long cmd;
	int banned, lost; /* results with a banned context, and without a firmware */
	_Alignas(8) uint8_t arg[80];
};

struct things {
	uint32_t bo, syncobj;
	struct drm_vnpu_job job;
	struct drm_vnpu_bind_op map, unmap;
};

#define EVERY(n, name, banned, lost, ...)                                              \
	do {                                                                           \
		typeof(__VA_ARGS__) value = __VA_ARGS__;                               \
		_Static_assert(sizeof(value) <= sizeof(e->arg), "");                   \
		e[n] = (struct every){ #name, DRM_IOCTL_##name, banned, lost, { 0 } }; \
		memcpy(e[n].arg, &value, sizeof(value));                               \
	} while (0)

/* Indices in the list, for the tests that need one. */
enum {
	CALL_DEV_QUERY,
	CALL_BO_CREATE,
	CALL_BO_INFO,
	CALL_CTX_CREATE,
	CALL_CTX_GET_STATE,
	CALL_MAP,
	CALL_UNMAP,
	CALL_QUEUE_CREATE,
	CALL_SUBMIT,
	CALL_WAIT,
	CALL_SYNCOBJ_CREATE,
	CALL_SYNCOBJ_SIGNAL,
	CALL_SYNCOBJ_DESTROY,
	CALL_PRIME_HANDLE_TO_FD,
	CALL_GEM_CLOSE,
	CALL_QUEUE_DESTROY,
	CALL_CTX_DESTROY,
	NR_CALLS
};

/* Good arguments for all driver calls and supported DRM calls; destroying ones come last. */
static void every_call(struct bench *b, struct things *t, struct every *e)
{
	t->job = raw_job(b->q.queue_id);
	t->map = (struct drm_vnpu_bind_op){ .handle = t->bo, .va = VA + PAGE, .size = PAGE };
	t->unmap = (struct drm_vnpu_bind_op){ .op = DRM_VNPU_BIND_UNMAP, .va = VA, .size = PAGE };
	EVERY(CALL_DEV_QUERY, VNPU_DEV_QUERY, 0, 0, (struct drm_vnpu_dev_query){ 0 });
	EVERY(CALL_BO_CREATE, VNPU_BO_CREATE, 0, 0, (struct drm_vnpu_bo_create){ .size = PAGE });
	EVERY(CALL_BO_INFO, VNPU_BO_INFO, 0, 0, (struct drm_vnpu_bo_info){ .handle = t->bo });
	EVERY(CALL_CTX_CREATE, VNPU_CTX_CREATE, 0, -EBUSY, (struct drm_vnpu_ctx_create){ 0 });
	EVERY(CALL_CTX_GET_STATE, VNPU_CTX_GET_STATE, 0, 0,
	      (struct drm_vnpu_ctx_get_state){ .ctx_id = b->ctx });
	EVERY(CALL_MAP, VNPU_VM_BIND, -ECANCELED, -ECANCELED,
	      (struct drm_vnpu_vm_bind){ b->ctx, 0, { sizeof(t->map), 1, (uintptr_t)&t->map } });
	EVERY(CALL_UNMAP, VNPU_VM_BIND, 0, 0,
	      (struct drm_vnpu_vm_bind){
		      b->ctx, 0, { sizeof(t->unmap), 1, (uintptr_t)&t->unmap } });
	EVERY(CALL_QUEUE_CREATE, VNPU_QUEUE_CREATE, -ECANCELED, -ECANCELED,
	      (struct drm_vnpu_queue_create){ .ctx_id = b->ctx, .depth = 1 });
	EVERY(CALL_SUBMIT, VNPU_SUBMIT, -ECANCELED, -ECANCELED,
	      (struct drm_vnpu_submit){ b->ctx, 0, { sizeof(t->job), 1, (uintptr_t)&t->job } });
	EVERY(CALL_WAIT, VNPU_WAIT, 0, 0,
	      (struct drm_vnpu_wait){ .queue_id = b->q.queue_id, .seqno = 1 });
	EVERY(CALL_SYNCOBJ_CREATE, SYNCOBJ_CREATE, 0, 0, (struct drm_syncobj_create){ 0 });
	EVERY(CALL_SYNCOBJ_SIGNAL, SYNCOBJ_SIGNAL, 0, 0,
	      (struct drm_syncobj_array){ (uintptr_t)&t->syncobj, 1, 0 });
	EVERY(CALL_SYNCOBJ_DESTROY, SYNCOBJ_DESTROY, 0, 0,
	      (struct drm_syncobj_destroy){ .handle = t->syncobj });
	EVERY(CALL_PRIME_HANDLE_TO_FD, PRIME_HANDLE_TO_FD, -EOPNOTSUPP, -EOPNOTSUPP,
	      (struct drm_prime_handle){ .handle = t->bo });
	EVERY(CALL_GEM_CLOSE, GEM_CLOSE, 0, 0, (struct drm_gem_close){ .handle = t->bo });
	EVERY(CALL_QUEUE_DESTROY, VNPU_QUEUE_DESTROY, 0, 0,
	      (struct drm_vnpu_queue_destroy){ .queue_id = b->q.queue_id });
	EVERY(CALL_CTX_DESTROY, VNPU_CTX_DESTROY, 0, 0,
	      (struct drm_vnpu_ctx_destroy){ .ctx_id = b->ctx });
}

/* A bound buffer, a syncobj, and one finished job. */
static struct things make_things(struct bench *b)
{
	struct things t = { .bo = raw_bo(b->fd, PAGE), .syncobj = raw_syncobj(b->fd) };

	assert_int_equal(raw_bind(b->fd, b->ctx, t.bo, VA, PAGE, 0), 0);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	return t;
}

static void expect_call(struct bench *b, struct every *e, int result)
{
	int ret = raw_ioctl(b->fd, e->cmd, e->arg);

	if (ret != result)
		fail_msg("%s: %d instead of %d", e->name, ret, result);
}

static void every_call_of_a_deleted_device_returns_enodev(void **state)
{
	struct bench *b = bench(state);
	struct things t = make_things(b);
	struct drm_vnpu_bo_info info = { .handle = t.bo };
	struct every e[NR_CALLS];

	every_call(b, &t, e);
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_BO_INFO, &info), 0);
	assert_int_equal(raw_del_dev(b->fw.dev_id), 0);
	for (int i = 0; i < NR_CALLS; i++)
		expect_call(b, &e[i], -ENODEV);
	assert_ptr_equal(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, b->fd, info.mmap_offset),
			 MAP_FAILED);
	assert_int_equal(errno, ENODEV);
	assert_ptr_equal(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, b->fd, b->q.status_offset),
			 MAP_FAILED);
	assert_int_equal(errno, ENODEV);
	close(b->fd);
	raw_fw_die(&b->fw);
	raw_fw_add(&b->fw, NULL);
	b->fd = -1;
}

static void a_banned_context_can_only_be_looked_at_and_destroyed(void **state)
{
	struct bench *b = bench(state);
	struct things t = make_things(b);
	struct every e[NR_CALLS];
	struct vnpu_fw_sqe sqe;

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE,
						  .status = VNPU_FW_FAULT,
						  .tag = sqe.tag });
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	every_call(b, &t, e);
	for (int i = 0; i < NR_CALLS; i++)
		expect_call(b, &e[i], e[i].banned);
}

static void without_a_firmware_nothing_starts_and_everything_can_be_destroyed(void **state)
{
	struct bench *b = bench(state);
	struct things t = make_things(b);
	struct every e[NR_CALLS];

	raw_fw_die(&b->fw);
	every_call(b, &t, e);
	for (int i = 0; i < NR_CALLS; i++)
		expect_call(b, &e[i], e[i].lost);
}

static void destroyed_objects_are_unknown_to_every_call(void **state)
{
	struct bench *b = bench(state);
	struct things t = make_things(b);
	struct every e[NR_CALLS];

	every_call(b, &t, e);
	for (int i = CALL_GEM_CLOSE; i < NR_CALLS; i++)
		expect_call(b, &e[i], 0);
	expect_call(b, &e[CALL_SYNCOBJ_DESTROY], 0);
	for (int i = 0; i < NR_CALLS; i++) {
		if (i == CALL_DEV_QUERY || i == CALL_BO_CREATE || i == CALL_CTX_CREATE ||
		    i == CALL_SYNCOBJ_CREATE)
			continue; /* these take no id */
		/* DRM's calls return DRM's errors. */
		expect_call(b, &e[i],
			    i == CALL_SYNCOBJ_DESTROY || i == CALL_GEM_CLOSE ? -EINVAL : -ENOENT);
	}
}

/* ---- destroying what others wait for ---- */

struct waiter {
	int fd;
	unsigned long cmd;
	void *arg;
	int ret;
	pthread_t thread;
};

static void *waiter_run(void *arg)
{
	struct waiter *w = arg;

	w->ret = raw_ioctl(w->fd, w->cmd, w->arg);
	return NULL;
}

static void waiter_start(struct waiter *w)
{
	assert_int_equal(pthread_create(&w->thread, NULL, waiter_run, w), 0);
	usleep(50000);
}

enum end { END_QUEUE, END_CTX, END_DEVICE, END_FIRMWARE, NR_ENDS };

static void end(struct bench *b, enum end how)
{
	switch (how) {
	case END_QUEUE:
		assert_int_equal(raw_queue_destroy(b->fd, b->q.queue_id), 0);
		break;
	case END_CTX:
		assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
		break;
	case END_DEVICE:
		assert_int_equal(raw_del_dev(b->fw.dev_id), 0);
		break;
	default:
		raw_fw_die(&b->fw);
	}
}

/* Makes the bench again after the device is gone. */
static void renew(struct bench *b, enum end how)
{
	close(b->fd);
	if (how == END_FIRMWARE)
		assert_int_equal(raw_del_dev(b->fw.dev_id), 0);
	else if (how == END_DEVICE)
		raw_fw_die(&b->fw);
	else
		raw_fw_remove(&b->fw);
	raw_fw_add(&b->fw, NULL);
	b->fd = raw_client(b->fw.minor);
	b->ctx = raw_ctx(b->fd);
	b->q = raw_queue_full(b->fd, b->ctx, 4);
}

static void waiters_for_a_job_wake_when_queue_context_device_or_firmware_ends(void **state)
{
	struct bench *b = bench(state);

	for (enum end how = 0; how < NR_ENDS; how++) {
		struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };
		struct drm_vnpu_wait wait = { .queue_id = b->q.queue_id,
					      .seqno = 1,
					      .timeout_ns = INT64_MAX };
		struct drm_syncobj_wait syncobj_wait = { .handles = (uintptr_t)&out.handle,
							 .timeout_nsec = INT64_MAX,
							 .count_handles = 1 };
		struct waiter w[] = {
			{ .fd = b->fd, .cmd = DRM_IOCTL_VNPU_WAIT, .arg = &wait },
			{ .fd = b->fd, .cmd = DRM_IOCTL_SYNCOBJ_WAIT, .arg = &syncobj_wait },
		};
		struct drm_vnpu_job job = raw_job(b->q.queue_id);

		raw_job_syncs(&job, &out, 1);
		assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
		for (int i = 0; i < 2; i++)
			waiter_start(&w[i]);
		if (how == END_CTX) /* waiters hold references */
			raw_syncobj_destroy(b->fd, out.handle);
		end(b, how);
		for (int i = 0; i < 2; i++) {
			pthread_join(w[i].thread, NULL);
			assert_int_equal(w[i].ret, 0);
		}
		assert_int_equal(wait.status,
				 how == END_QUEUE || how == END_CTX ? -ECANCELED : -EIO);
		assert_int_equal(wait.epoch, how == END_QUEUE || how == END_CTX ? 1 : 2);
		renew(b, how);
	}
}

static void a_buffer_closed_while_it_is_bound_lives_until_it_is_unbound(void **state)
{
	struct bench *b = bench(state);
	uint32_t bo = raw_bo(b->fd, PAGE);

	assert_int_equal(raw_bind(b->fd, b->ctx, bo, VA, PAGE, 0), 0);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_bo_close(b->fd, bo);
	assert_int_equal(raw_state(b->fd).mem_bytes, PAGE);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_state(b->fd).mem_bytes, PAGE);
	assert_int_equal(raw_unbind(b->fd, b->ctx, VA, PAGE), 0);
	assert_int_equal(raw_state(b->fd).mem_bytes, 0);
}

/* ---- signals ---- */

static volatile sig_atomic_t signals;

static void on_alarm(int sig)
{
	signals++;
}

/* Signals every 10 ms, after which a call is restarted if it can be; or none. */
static void alarms(bool on, int flags)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = flags };
	struct itimerval every = { { 0, on ? 10000 : 0 }, { 0, on ? 10000 : 0 } };

	signals = 0;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

static void a_wait_that_signals_restart_keeps_its_deadline(void **state)
{
	enum { MS = 400 };
	struct bench *b = bench(state);
	struct drm_vnpu_wait wait = { .queue_id = b->q.queue_id,
				      .seqno = raw_submit(b->fd, b->ctx, b->q.queue_id) };
	int64_t from = raw_now_ns();
	int ret, error;

	wait.timeout_ns = raw_in_ms(MS);
	alarms(true, SA_RESTART);
	ret = ioctl(b->fd, DRM_IOCTL_VNPU_WAIT, &wait);
	error = errno;
	assert_true(signals > 1);
	alarms(false, 0);
	assert_int_equal(ret, -1);
	assert_int_equal(error, ETIMEDOUT);
	assert_true(raw_now_ns() >= from + MS * 1000000ll);
	assert_true(raw_now_ns() < from + 10 * MS * 1000000ll * raw_slow());

	wait.timeout_ns = INT64_MAX;
	alarms(true, 0);
	ret = ioctl(b->fd, DRM_IOCTL_VNPU_WAIT, &wait);
	error = errno;
	alarms(false, 0);
	assert_int_equal(ret, -1);
	assert_int_equal(error, EINTR);
}

static void a_signal_ends_enter(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_enter enter = { .flags = VNPU_FW_ENTER_WAIT, .timeout_ns = -1 };

	for (int flags = 0; flags < 2; flags++) {
		int ret, error;

		alarms(true, flags ? SA_RESTART : 0);
		ret = ioctl(b->fw.fd, VNPU_FW_ENTER, &enter);
		error = errno;
		alarms(false, 0);
		assert_int_equal(ret, -1);
		assert_int_equal(error, EINTR);
	}
}

/* ---- files that are copied, inherited and sent ---- */

static void a_file_ends_with_its_last_descriptor(void **state)
{
	struct bench *b = bench(state);
	int other = dup(b->fd), watch = raw_client(b->fw.minor);
	uint32_t bo = raw_bo(b->fd, PAGE);

	assert_true(other >= 0);
	close(b->fd);
	assert_int_equal(raw_bind(other, b->ctx, bo, VA, PAGE, 0), 0);
	assert_int_equal(raw_submit(other, b->ctx, b->q.queue_id), 1);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(other, b->q.queue_id, 1), 0);
	assert_int_equal(raw_state(watch).mem_bytes, PAGE);
	close(other);
	assert_int_equal(raw_fw_expect(&b->fw, VNPU_FW_SQE_CTX_CLOSE).ctx, 1);
	assert_int_equal(raw_state(watch).mem_bytes, 0);
	b->fd = watch;
}

static void a_child_works_with_its_parent_s_file_and_its_end_changes_nothing(void **state)
{
	struct bench *b = bench(state);
	const struct drm_vnpu_queue_status *page = raw_queue_status(b->fd, &b->q);
	uint32_t bo = raw_bo(b->fd, PAGE);
	uint8_t *mem = raw_bo_map(b->fd, bo);
	int status;
	pid_t pid = fork();

	if (!pid) {
		bool ok = raw_submit(b->fd, b->ctx, b->q.queue_id) == 1 && page->epoch == 1;

		mem[3] = 33;
		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(mem[3], 33);
	assert_int_equal(raw_submit(b->fd, b->ctx, b->q.queue_id), 2);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 2), 0);
	assert_int_equal(page->completed_seqno, 2);
	munmap(mem, PAGE);
	munmap((void *)page, PAGE);
}

static void send_fd(int socket, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(fd))] = { 0 };
	struct iovec io = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &io,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	assert_int_equal(sendmsg(socket, &msg, 0), 1);
}

static int receive_fd(int socket)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec io = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &io,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	int fd;

	assert_int_equal(recvmsg(socket, &msg, MSG_CMSG_CLOEXEC), 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

static void files_of_both_sides_work_after_being_sent(void **state)
{
	struct bench *b = bench(state);
	uint64_t aperture = 1ull << b->fw.info->va_bits;
	uint32_t bo = raw_bo(b->fd, PAGE);
	int sockets[2];
	uint8_t *p;

	assert_int_equal(raw_bind(b->fd, b->ctx, bo, VA, PAGE, 0), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	send_fd(sockets[0], b->fd);
	send_fd(sockets[0], b->fw.fd);
	/* An fd in a socket keeps the file alive. */
	raw_fw_unmap(&b->fw);
	close(b->fd);
	close(b->fw.fd);
	b->fd = receive_fd(sockets[1]);
	b->fw.fd = receive_fd(sockets[1]);
	raw_fw_map_rings(&b->fw);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).ctx, 1);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
	p = raw_fw_map(b->fw.fd, aperture + VA, PAGE, PROT_READ | PROT_WRITE);
	assert_non_null(p);
	assert_int_equal(p[0], 0);
	munmap(p, PAGE);
	close(sockets[0]);
	close(sockets[1]);
}

/* ---- mappings ---- */

static __thread sigjmp_buf fault_jump;

static void on_fault(int sig)
{
	siglongjmp(fault_jump, 1);
}

/* The byte, or -1 if the access faults. */
static int peek(const void *p)
{
	struct sigaction sa = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	return sigsetjmp(fault_jump, 0) ? -1 : *(volatile const uint8_t *)p;
}

static bool maps(int fd, uint64_t offset, size_t size, int prot, int flags)
{
	void *p = mmap(NULL, size, prot, flags, fd, offset);

	if (p == MAP_FAILED)
		return false;
	munmap(p, size);
	return true;
}

static void a_buffer_is_mapped_from_its_start_and_not_beyond_its_end(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_bo_info info = { .handle = raw_bo(b->fd, 4 * PAGE) };
	uint8_t *p;
	int fd = b->fd;

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_BO_INFO, &info), 0);
	assert_true(maps(fd, info.mmap_offset, PAGE, PROT_READ, MAP_SHARED));
	assert_true(maps(fd, info.mmap_offset, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED));
	assert_false(maps(fd, info.mmap_offset, 5 * PAGE, PROT_READ, MAP_SHARED));
	assert_false(maps(fd, info.mmap_offset, 1ull << 32, PROT_READ, MAP_SHARED));
	assert_false(maps(fd, info.mmap_offset + PAGE, PAGE, PROT_READ, MAP_SHARED));
	assert_false(maps(fd, info.mmap_offset + 4 * PAGE, PAGE, PROT_READ, MAP_SHARED));
	assert_false(maps(fd, info.mmap_offset - PAGE, PAGE, PROT_READ, MAP_SHARED));
	assert_false(maps(fd, info.mmap_offset, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE));
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, info.mmap_offset);
	assert_ptr_not_equal(p, MAP_FAILED);
	p[3 * PAGE] = 9;
	assert_ptr_equal(mremap(p, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE), MAP_FAILED);
	raw_bo_close(fd, info.handle);
	/* The mapping stays; its offset is no longer valid. */
	assert_int_equal(peek(p + 3 * PAGE), 9);
	assert_false(maps(fd, info.mmap_offset, PAGE, PROT_READ, MAP_SHARED));
	munmap(p, 4 * PAGE);
}

static void only_the_file_s_own_status_pages_can_be_mapped_at_low_offsets(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_queue_create q2 = raw_queue_full(b->fd, b->ctx, 1);
	int other = raw_client(b->fw.minor);
	struct drm_vnpu_queue_create theirs = raw_queue_full(other, raw_ctx(other), 1);

	assert_int_not_equal(theirs.status_offset, q2.status_offset);
	for (uint64_t page = 0; page < 64; page++) {
		bool own = page * PAGE == b->q.status_offset || page * PAGE == q2.status_offset;

		assert_int_equal(maps(b->fd, page * PAGE, PAGE, PROT_READ, MAP_SHARED), own);
		assert_false(maps(b->fd, page * PAGE, 2 * PAGE, PROT_READ, MAP_SHARED));
		assert_false(maps(b->fd, page * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED));
		assert_false(maps(b->fd, page * PAGE, PAGE, PROT_WRITE, MAP_SHARED));
		assert_false(maps(b->fd, page * PAGE, PAGE, PROT_READ, MAP_PRIVATE));
		assert_false(maps(b->fd, page * PAGE, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED));
	}
	for (int bit = 20; bit < 63; bit++)
		assert_false(maps(b->fd, 1ull << bit, PAGE, PROT_READ, MAP_SHARED));
	close(other);
}

static void a_destroyed_queue_s_status_page_does_not_show_the_slot_s_next_owner(void **state)
{
	struct bench *b = bench(state);
	const struct drm_vnpu_queue_status *page = raw_queue_status(b->fd, &b->q);
	struct drm_vnpu_queue_create next;
	void *moved;

	assert_int_equal(peek(page), 0);
	moved = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_equal(mremap((void *)page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, moved),
			 moved);
	assert_int_equal(peek(moved), 0);
	assert_int_equal(mprotect(moved, PAGE, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(raw_queue_destroy(b->fd, b->q.queue_id), 0);
	assert_int_equal(peek(moved), -1);
	next = raw_queue_full(b->fd, b->ctx, 4);
	assert_int_equal(next.status_offset, b->q.status_offset);
	assert_int_equal(peek(moved), -1);
	b->q = next;
	munmap(moved, PAGE);
}

/* No advice removes a page, makes one writable or exports one. */
static void madvise_changes_nothing(void **state)
{
	struct bench *b = bench(state);
	uint32_t bo = raw_bo(b->fd, PAGE);
	const struct drm_vnpu_queue_status *page = raw_queue_status(b->fd, &b->q);
	uint8_t *mem = raw_bo_map(b->fd, bo), *ap;
	int info = peek(b->fw.info);

	mem[0] = 77;
	assert_int_equal(raw_bind(b->fd, b->ctx, bo, VA, PAGE, DRM_VNPU_BIND_READ_ONLY), 0);
	ap = raw_fw_map(b->fw.fd, (1ull << b->fw.info->va_bits) + VA, PAGE, PROT_READ | PROT_WRITE);
	assert_non_null(ap);
	for (int advice = 0; advice <= 25; advice++) {
		madvise(mem, PAGE, advice);
		madvise(ap, PAGE, advice);
		madvise((void *)page, PAGE, advice);
		madvise((void *)b->fw.info, PAGE, advice);
		assert_int_equal(peek(mem), 77);
		assert_int_equal(peek(ap), 77);
		assert_int_equal(peek(page), 0);
		assert_int_equal(peek(b->fw.info), info);
	}
	assert_int_equal(raw_unbind(b->fd, b->ctx, VA, PAGE), 0);
	assert_int_equal(peek(ap), -1);
	munmap(ap, PAGE);
	munmap(mem, PAGE);
	munmap((void *)page, PAGE);
}

/* ---- all at once ---- */

struct race {
	struct raw_fw *fw;
	int fd;
	unsigned int seed;
	uint64_t calls, done;
	bool *stop;
	pthread_t thread;
};

/* Random calls with ids of this file, of the one before, or of none. */
static void *race_calls(void *arg)
{
	struct race *r = arg;

	while (!__atomic_load_n(r->stop, __ATOMIC_ACQUIRE)) {
		struct bench b = { .fd = r->fd,
				   .ctx = 1 + rand_r(&r->seed) % 2,
				   .q.queue_id = 1 + rand_r(&r->seed) % 2 };
		struct things t = { .bo = 1 + rand_r(&r->seed) % 3,
				    .syncobj = 1 + rand_r(&r->seed) % 2 };
		struct every e[NR_CALLS];
		int i = rand_r(&r->seed) % NR_CALLS;

		every_call(&b, &t, e);
		if (i == CALL_WAIT)
			((struct drm_vnpu_wait *)e[i].arg)->timeout_ns = raw_in_ms(5);
		r->done += !raw_ioctl(r->fd, e[i].cmd, e[i].arg);
		r->calls++;
	}
	return NULL;
}

static void *race_close(void *arg)
{
	struct race *r = arg;

	while (!__atomic_load_n(r->stop, __ATOMIC_ACQUIRE)) {
		char path[64];
		int fd;

		usleep(rand_r(&r->seed) % 20000);
		snprintf(path, sizeof(path), "/dev/accel/accel%d", r->fw->minor);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		/* The old file ends while others call it. */
		dup2(fd, r->fd);
		close(fd);
		r->calls++;
	}
	return NULL;
}

static void serve(struct raw_fw *fw, int64_t ms)
{
	int64_t until = raw_in_ms(ms);
	struct vnpu_fw_sqe sqe;

	while (raw_now_ns() < until) {
		if (!raw_fw_pop(fw, &sqe, 2))
			continue;
		if (sqe.type == VNPU_FW_SQE_CTX_CLOSE)
			raw_fw_closed(fw, sqe.ctx);
		else if (sqe.type == VNPU_FW_SQE_JOB)
			raw_fw_post(fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE,
							      .tag = sqe.tag });
		raw_fw_enter(fw, VNPU_FW_ENTER_COMPLETE, 0, NULL);
	}
}

static void closing_calling_and_losing_the_firmware_may_coincide(void **state)
{
	struct bench *b = bench(state);
	unsigned int seed = (unsigned int)raw_now_ns(), first = seed;
	struct race r[4];
	bool stop = false;
	int deaths = 0;

	print_message("seed %u\n", seed);
	for (int i = 0; i < 4; i++) {
		r[i] = (struct race){ .fw = &b->fw, .fd = b->fd, .seed = first + i, .stop = &stop };
		assert_int_equal(
			pthread_create(&r[i].thread, NULL, i ? race_calls : race_close, &r[i]), 0);
	}
	for (int64_t until = raw_in_ms(3000); raw_now_ns() < until; deaths++) {
		serve(&b->fw, rand_r(&seed) % 60);
		raw_fw_die(&b->fw);
		assert_int_equal(raw_fw_attach(&b->fw), 0);
		raw_fw_start(&b->fw);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (int i = 0; i < 4; i++)
		pthread_join(r[i].thread, NULL);
	print_message("%llu files, %llu calls, %llu of them good, %d deaths\n",
		      (unsigned long long)r[0].calls,
		      (unsigned long long)(r[1].calls + r[2].calls + r[3].calls),
		      (unsigned long long)(r[1].done + r[2].done + r[3].done), deaths);
	assert_true(r[0].calls && deaths);
	for (int i = 1; i < 4; i++)
		assert_true(r[i].done);
	/* Only the last of the files is left. */
	close(b->fd);
	serve(&b->fw, 50);
	b->fd = raw_client(b->fw.minor);
	for (int64_t until = raw_in_ms(RAW_LONG_MS); raw_state(b->fd).mem_bytes; serve(&b->fw, 10))
		assert_true(raw_now_ns() < until);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BENCH_TEST(every_call_of_a_deleted_device_returns_enodev),
		BENCH_TEST(a_banned_context_can_only_be_looked_at_and_destroyed),
		BENCH_TEST(without_a_firmware_nothing_starts_and_everything_can_be_destroyed),
		BENCH_TEST(destroyed_objects_are_unknown_to_every_call),
		BENCH_TEST(waiters_for_a_job_wake_when_queue_context_device_or_firmware_ends),
		BENCH_TEST(a_buffer_closed_while_it_is_bound_lives_until_it_is_unbound),
		BENCH_TEST(a_wait_that_signals_restart_keeps_its_deadline),
		BENCH_TEST(a_signal_ends_enter),
		BENCH_TEST(a_file_ends_with_its_last_descriptor),
		BENCH_TEST(a_child_works_with_its_parent_s_file_and_its_end_changes_nothing),
		BENCH_TEST(files_of_both_sides_work_after_being_sent),
		BENCH_TEST(a_buffer_is_mapped_from_its_start_and_not_beyond_its_end),
		BENCH_TEST(only_the_file_s_own_status_pages_can_be_mapped_at_low_offsets),
		BENCH_TEST(a_destroyed_queue_s_status_page_does_not_show_the_slot_s_next_owner),
		BENCH_TEST(madvise_changes_nothing),
		BENCH_TEST(closing_calling_and_losing_the_firmware_may_coincide),
	};

	return cmocka_run_group_tests_name("lifetime", tests, NULL, NULL);
}
