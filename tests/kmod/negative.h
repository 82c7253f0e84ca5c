/* SPDX-License-Identifier: MIT */
/*
 * Common parts of the tests of refused client calls: a file with one object of each kind, another
 * client's file, and the state that a refusal must not change: the file's next ids, the device's
 * memory, and in test_negative_jobs.c the next job's number.
 */
#ifndef NEGATIVE_H
#define NEGATIVE_H

#include "fields.h"

#define VA 0x100000ull
#define VA_END (1ull << 32)
#define MEM_LIMIT (64ull << 20)

/* ---- a file with one object of each kind, and another client's file ---- */

static struct {
	int fd, stranger;
	uint32_t ctx, ctx2; /* both of this file */
	uint32_t queue, queue2; /* of ctx; of ctx2 */
	uint32_t bo, read_only_bo, syncobj, empty_syncobj,
		signalled_syncobj; /* syncobj is a timeline at 5 */
	uint32_t spare_ctx, spare_queue; /* for calls that destroy */
	uint64_t seqno; /* of the last job in queue */
} n;

/* State that a refused call must not change. The ids are those that the file assigns next. */
struct footprint {
	uint64_t mem_bytes;
	uint32_t bo, ctx, queue, syncobj;
	int64_t fd; /* wide enough to avoid padding, because footprints are compared byte by byte */
};

static struct footprint footprint;

static inline struct footprint take_footprint(void)
{
	struct footprint f = { .mem_bytes = raw_state(n.fd).mem_bytes };

	f.bo = raw_bo(n.fd, PAGE);
	raw_bo_close(n.fd, f.bo);
	f.ctx = raw_ctx(n.fd);
	assert_int_equal(raw_ctx_destroy(n.fd, f.ctx), 0);
	f.queue = raw_queue(n.fd, n.ctx);
	assert_int_equal(raw_queue_destroy(n.fd, f.queue), 0);
	f.syncobj = raw_syncobj(n.fd);
	raw_syncobj_destroy(n.fd, f.syncobj);
	f.fd = dup(0);
	close(f.fd);
	return f;
}

static inline void nothing_changed(void)
{
	struct footprint now = take_footprint();

	assert_memory_equal(&now, &footprint, sizeof(now));
}

/* Ids that this file does not have: never used, closed, or only in the other client's file. */
static struct field_bad bad_bo[6], bad_ctx[6], bad_queue[6], bad_job_queue[7],
	bad_syncobj[6] __attribute__((unused));

static inline void bad_ids(struct field_bad *bad, uint32_t closed, uint32_t stranger)
{
	const uint32_t ids[] = { 0, UINT32_MAX, 1u << 31, closed, stranger };

	for (int i = 0; i < 5; i++)
		bad[i] = (struct field_bad){ ids[i], ENOENT };
}

static inline void make_strangers(void)
{
	uint32_t bo = 0, ctx = 0, queue = 0, syncobj = 0;

	for (int i = 0; i < 9; i++) {
		bo = raw_bo(n.stranger, PAGE);
		ctx = raw_ctx(n.stranger);
		queue = raw_queue(n.stranger, ctx);
		syncobj = raw_syncobj(n.stranger);
	}
	bad_ids(bad_bo, footprint.bo, bo);
	bad_ids(bad_ctx, footprint.ctx, ctx);
	bad_ids(bad_queue, footprint.queue, queue);
	bad_ids(bad_job_queue, footprint.queue, queue);
	bad_job_queue[5] = (struct field_bad){ n.queue2, EINVAL };
	bad_ids(bad_syncobj, footprint.syncobj, syncobj);
	bad_syncobj[4].value = syncobj;
}

static inline int negative_open(void **state)
{
	struct drm_vnpu_bo_create create = { .size = PAGE, .flags = DRM_VNPU_BO_DEVICE_READ_ONLY };

	if (!server.fw.info)
		return 0;
	memset(&n, 0, sizeof(n));
	n.fd = raw_client(server.fw.minor);
	n.stranger = raw_client(server.fw.minor);
	n.ctx = raw_ctx(n.fd);
	n.ctx2 = raw_ctx(n.fd);
	n.queue = raw_queue(n.fd, n.ctx);
	n.queue2 = raw_queue(n.fd, n.ctx2);
	n.bo = raw_bo(n.fd, 4 * PAGE);
	assert_int_equal(raw_ioctl(n.fd, DRM_IOCTL_VNPU_BO_CREATE, &create), 0);
	n.read_only_bo = create.handle;
	n.syncobj = raw_syncobj(n.fd);
	raw_syncobj_signal(n.fd, n.syncobj, 5);
	n.empty_syncobj = raw_syncobj(n.fd);
	n.signalled_syncobj = raw_syncobj(n.fd);
	footprint = take_footprint();
	make_strangers();
	footprint = take_footprint();
	return 0;
}

static inline int negative_close(void **state)
{
	if (!server.fw.info)
		return 0;
	close(n.fd);
	close(n.stranger);
	return 0;
}

static inline int the_file(void)
{
	return n.fd;
}

/* Objects to be destroyed take the next ids, so that a closed id is a different one. */
static inline void add_spares(void)
{
	n.spare_ctx = raw_ctx(n.fd);
	n.spare_queue = raw_queue(n.fd, n.ctx);
	footprint = take_footprint();
	bad_ctx[3].value = footprint.ctx;
	bad_queue[3].value = footprint.queue;
}

/* This would notice a number that a refused batch has used. */
static inline void jobs_ran(uint32_t count)
{
	struct drm_vnpu_wait wait = { .queue_id = n.queue, .seqno = n.seqno + count + 1 };

	n.seqno += count;
	if (n.seqno)
		assert_int_equal(raw_result(n.fd, n.queue, n.seqno), 0);
	assert_int_equal(raw_ioctl(n.fd, DRM_IOCTL_VNPU_WAIT, &wait), -EINVAL);
}

#define CALL(name)                                                  \
	static int call_##name(void *arg)                           \
	{                                                           \
		return raw_ioctl(n.fd, DRM_IOCTL_VNPU_##name, arg); \
	}

#define IOCTL(name) \
	.call = call_##name, .check = nothing_changed, .fd = the_file, .cmd = DRM_IOCTL_VNPU_##name

/* ---- the size in the ioctl's number ---- */

/* A file with one object of each kind, always with the same ids. */
static inline void fresh_file(const struct target *t, uint8_t *arg)
{
	negative_close(NULL);
	negative_open(NULL);
	add_spares();
	raw_submit(n.fd, n.ctx, n.queue);
	jobs_ran(1);
	memset(arg, 0, FIELD_MAX_ARG);
	t->good(arg);
}

static inline void cut_arguments(const struct target *const *ioctls, size_t nr)
{
	uint8_t arg[FIELD_MAX_ARG];

	for (size_t i = 0; i < nr; i++) {
		const struct target *t = ioctls[i];

		for (size_t size = 0; size < t->size; size += 4) {
			unsigned long cmd = _IOC(_IOC_DIR(t->cmd), 'd', _IOC_NR(t->cmd), size);
			int full, cut;

			fresh_file(t, arg);
			memset(arg + size, 0, t->size - size);
			full = field_ioctl(t, t->cmd, (uintptr_t)arg);
			fresh_file(t, arg);
			cut = field_ioctl(t, cmd, (uintptr_t)memcpy(edge(size), arg, size));
			field_expect(t, "", "argument cut to", size, cut, -full);
		}
	}
}

static inline void longer_arguments(const struct target *const *ioctls, size_t nr)
{
	uint8_t arg[FIELD_MAX_ARG];

	for (size_t i = 0; i < nr; i++) {
		const struct target *t = ioctls[i];
		unsigned long cmd = _IOC(_IOC_DIR(t->cmd), 'd', _IOC_NR(t->cmd), t->size + 24);

		fresh_file(t, arg);
		memset(arg + t->size, 0xa5, 24);
		field_expect(t, "", "longer argument", 24, field_ioctl(t, cmd, (uintptr_t)arg), 0);
		for (size_t k = 0; k < 24; k++)
			assert_int_equal(arg[t->size + k], 0xa5);
	}
}

/* DRM cannot undo a call whose results it cannot copy back; closing the file does. */
static inline void read_only_arguments(const struct target *const *ioctls, size_t nr)
{
	uint8_t arg[FIELD_MAX_ARG];
	int watch;

	watch = raw_client(server.fw.minor);
	for (size_t i = 0; i < nr; i++) {
		const struct target *t = ioctls[i];
		uint8_t *p;

		fresh_file(t, arg);
		p = memcpy(edge(t->size), arg, t->size);
		edge_protect(PROT_READ);
		field_cases++;
		assert_int_equal(field_ioctl(t, t->cmd, (uintptr_t)p),
				 t->cmd & IOC_OUT ? -EFAULT : 0);
		edge_protect(PROT_READ | PROT_WRITE);
		negative_close(NULL);
		for (int64_t until = raw_in_ms(RAW_LONG_MS); raw_state(watch).mem_bytes;
		     usleep(1000))
			assert_true(raw_now_ns() < until);
		negative_open(NULL);
	}
	close(watch);
}

/* ---- fixture ---- */

/* client() expects an fd where server_open() leaves one. */
static inline int negative_setup(void **state)
{
	return server_open(state) || negative_open(state);
}

static inline int negative_teardown(void **state)
{
	return negative_close(state) || server_close(state);
}

#define NEGATIVE_TEST(f) cmocka_unit_test_setup_teardown(f, negative_setup, negative_teardown)

#endif /* NEGATIVE_H */
