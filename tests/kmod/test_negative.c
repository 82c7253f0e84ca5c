// SPDX-License-Identifier: MIT
/*
 * The client ABI, field by field: every wrong argument of a call is refused with the documented
 * error and changes nothing. SUBMIT and WAIT are in test_negative_jobs.c.
 */
#include "negative.h"

/* ---- DEV_QUERY ---- */

CALL(DEV_QUERY)

static void good_dev_query(void *arg)
{
	*(struct drm_vnpu_dev_query *)arg =
		(struct drm_vnpu_dev_query){ .type = DRM_VNPU_QUERY_STATE };
}

static const struct field dev_query_fields[] = {
	FIELD(struct drm_vnpu_dev_query, type, ENUM, .known = DRM_VNPU_QUERY_STATE),
	FIELD(struct drm_vnpu_dev_query, size, ANY),
	FIELD(struct drm_vnpu_dev_query, pointer, OTHER),
};

static void dev_query(void **state)
{
	static const struct target t = TARGET(struct drm_vnpu_dev_query, dev_query_fields,
					      IOCTL(DEV_QUERY), .good = good_dev_query);
	static const uint32_t sizes[] = { sizeof(struct drm_vnpu_query_device),
					  sizeof(struct drm_vnpu_query_limits),
					  sizeof(struct drm_vnpu_query_state) };
	struct drm_vnpu_dev_query q;

	client(state);
	fields_test(&t);
	for (uint32_t type = 0; type < 3; type++) {
		for (size_t i = 1; i < NR_NOWHERE; i++) {
			q = (struct drm_vnpu_dev_query){ type, sizes[type], field_nowhere[i] };
			field_expect(&t, "pointer", "at", field_nowhere[i], call_DEV_QUERY(&q),
				     EFAULT);
		}
		for (uint32_t size = 0; size < sizes[type] + 32; size++) {
			q = (struct drm_vnpu_dev_query){ type, size, (uintptr_t)edge(size) };
			field_expect(&t, "size", "at the edge", size, call_DEV_QUERY(&q), 0);
			assert_int_equal(q.size, sizes[type]);
			q = (struct drm_vnpu_dev_query){ type, size + 1, (uintptr_t)edge(size) };
			field_expect(&t, "size", "over the edge", size, call_DEV_QUERY(&q), EFAULT);
		}
		q = (struct drm_vnpu_dev_query){ type, PAGE, (uintptr_t)edge(PAGE) };
		field_expect(&t, "size", "a page", PAGE, call_DEV_QUERY(&q), 0);
		q = (struct drm_vnpu_dev_query){ type, PAGE, (uintptr_t)edge(PAGE - 1) };
		field_expect(&t, "size", "a page over the edge", PAGE, call_DEV_QUERY(&q), EFAULT);
		for (uint64_t size = PAGE + 1; size <= UINT32_MAX; size += size - PAGE) {
			q = (struct drm_vnpu_dev_query){ type, size, (uintptr_t)edge(EDGE_SIZE) };
			field_expect(&t, "size", "more than a page", size, call_DEV_QUERY(&q),
				     EINVAL);
		}
		/* Without a buffer, no byte is written. */
		q = (struct drm_vnpu_dev_query){ type, 0, NOWHERE };
		field_expect(&t, "size", "nothing", 0, call_DEV_QUERY(&q), 0);
	}
}

/* ---- buffers ---- */

CALL(BO_CREATE)
CALL(BO_INFO)

static void good_bo_create(void *arg)
{
	*(struct drm_vnpu_bo_create *)arg = (struct drm_vnpu_bo_create){ .size = 2 * PAGE };
}

static void undo_bo_create(void *arg)
{
	struct drm_vnpu_bo_create *create = arg;

	raw_bo_close(n.fd, create->handle);
}

static const struct field_bad bad_bo_size[] = {
	{ 0, EINVAL },
	{ UINT64_MAX, EINVAL },
	{ UINT64_MAX - 4095, EINVAL },
	{ UINT64_MAX - 4096, EINVAL },
	{ 1ull << 63, EINVAL },
	{ 1ull << 62, EINVAL },
	{ VA_END, EINVAL },
	{ VA_END - 0x10000 + 1, EINVAL },
	{ MEM_LIMIT + 1, ENOSPC },
	{ MEM_LIMIT, ENOSPC }, /* some of it is used */
	{ 0, 0 },
};

static const struct field bo_create_fields[] = {
	FIELD(struct drm_vnpu_bo_create, size, VALUE, .bad = bad_bo_size),
	FIELD(struct drm_vnpu_bo_create, flags, FLAGS, .known = DRM_VNPU_BO_DEVICE_READ_ONLY),
	FIELD(struct drm_vnpu_bo_create, handle, ANY),
};

static void good_bo_info(void *arg)
{
	*(struct drm_vnpu_bo_info *)arg = (struct drm_vnpu_bo_info){ .handle = n.bo };
}

static const struct field bo_info_fields[] = {
	FIELD(struct drm_vnpu_bo_info, handle, VALUE, .bad = bad_bo),
	FIELD(struct drm_vnpu_bo_info, flags, ANY),
	FIELD(struct drm_vnpu_bo_info, size, ANY),
	FIELD(struct drm_vnpu_bo_info, mmap_offset, ANY),
};

static const struct target bo_create_target =
	TARGET(struct drm_vnpu_bo_create, bo_create_fields, IOCTL(BO_CREATE),
	       .good = good_bo_create, .undo = undo_bo_create);
static const struct target bo_info_target =
	TARGET(struct drm_vnpu_bo_info, bo_info_fields, IOCTL(BO_INFO), .good = good_bo_info);

static void buffers(void **state)
{
	client(state);
	fields_test(&bo_create_target);
	fields_test(&bo_info_target);
}

/* ---- contexts ---- */

CALL(CTX_CREATE)
CALL(CTX_DESTROY)
CALL(CTX_GET_STATE)

static void good_ctx_create(void *arg)
{
}

static void undo_ctx_create(void *arg)
{
	assert_int_equal(raw_ctx_destroy(n.fd, ((struct drm_vnpu_ctx_create *)arg)->ctx_id), 0);
}

static const struct field ctx_create_fields[] = {
	FIELD(struct drm_vnpu_ctx_create, flags, ZERO),
	FIELD(struct drm_vnpu_ctx_create, ctx_id, ANY),
	FIELD(struct drm_vnpu_ctx_create, va_start, ANY),
	FIELD(struct drm_vnpu_ctx_create, va_range, ANY),
};

/* The spare context has an id below those that are checked, so it does not count as a change. */
static void good_ctx_destroy(void *arg)
{
	*(struct drm_vnpu_ctx_destroy *)arg =
		(struct drm_vnpu_ctx_destroy){ .ctx_id = n.spare_ctx };
}

static void undo_ctx_destroy(void *arg)
{
	assert_int_equal(raw_ctx(n.fd), n.spare_ctx);
}

static const struct field ctx_destroy_fields[] = {
	FIELD(struct drm_vnpu_ctx_destroy, ctx_id, VALUE, .bad = bad_ctx),
	FIELD(struct drm_vnpu_ctx_destroy, pad, ZERO),
};

static void good_ctx_get_state(void *arg)
{
	*(struct drm_vnpu_ctx_get_state *)arg = (struct drm_vnpu_ctx_get_state){ .ctx_id = n.ctx };
}

static const struct field ctx_get_state_fields[] = {
	FIELD(struct drm_vnpu_ctx_get_state, ctx_id, VALUE, .bad = bad_ctx),
	FIELD(struct drm_vnpu_ctx_get_state, state, ANY),
	FIELD(struct drm_vnpu_ctx_get_state, fault_va, ANY),
	FIELD(struct drm_vnpu_ctx_get_state, seqno, ANY),
	FIELD(struct drm_vnpu_ctx_get_state, queue_id, ANY),
	FIELD(struct drm_vnpu_ctx_get_state, fault_flags, ANY),
	FIELD(struct drm_vnpu_ctx_get_state, epoch, ANY),
	FIELD(struct drm_vnpu_ctx_get_state, pad, ZERO),
};

static const struct target ctx_create_target =
	TARGET(struct drm_vnpu_ctx_create, ctx_create_fields, IOCTL(CTX_CREATE),
	       .good = good_ctx_create, .undo = undo_ctx_create);
static const struct target ctx_destroy_target =
	TARGET(struct drm_vnpu_ctx_destroy, ctx_destroy_fields, IOCTL(CTX_DESTROY),
	       .good = good_ctx_destroy, .undo = undo_ctx_destroy);
static const struct target ctx_get_state_target =
	TARGET(struct drm_vnpu_ctx_get_state, ctx_get_state_fields, IOCTL(CTX_GET_STATE),
	       .good = good_ctx_get_state);

static void contexts(void **state)
{
	client(state);
	fields_test(&ctx_create_target);
	fields_test(&ctx_get_state_target);
	add_spares();
	fields_test(&ctx_destroy_target);
}

/* ---- VM_BIND ---- */

CALL(VM_BIND)

static struct drm_vnpu_bind_op good_op(uint32_t i)
{
	return (struct drm_vnpu_bind_op){
		.handle = n.bo, .bo_offset = PAGE, .va = VA + i * PAGE, .size = PAGE
	};
}

static void fill_op(void *element, uint32_t i)
{
	*(struct drm_vnpu_bind_op *)element = good_op(i);
}

static const struct field_array ops_array = { .max = 1024,
					      .size = sizeof(struct drm_vnpu_bind_op),
					      .fill = fill_op };

static void good_vm_bind(void *arg)
{
	static struct drm_vnpu_bind_op op;

	op = good_op(0);
	*(struct drm_vnpu_vm_bind *)arg =
		(struct drm_vnpu_vm_bind){ n.ctx, 0, { sizeof(op), 1, (uintptr_t)&op } };
}

static void undo_vm_bind(void *arg)
{
	struct drm_vnpu_vm_bind *bind = arg;

	for (uint32_t i = 0; i < bind->ops.count; i++)
		assert_int_equal(raw_unbind(n.fd, n.ctx, VA + i * PAGE, PAGE), 0);
}

static const struct field vm_bind_fields[] = {
	FIELD(struct drm_vnpu_vm_bind, ctx_id, VALUE, .bad = bad_ctx),
	FIELD(struct drm_vnpu_vm_bind, flags, ZERO),
	FIELD(struct drm_vnpu_vm_bind, ops, ARRAY, .array = &ops_array),
};

static const struct target vm_bind_target =
	TARGET(struct drm_vnpu_vm_bind, vm_bind_fields, IOCTL(VM_BIND), .good = good_vm_bind,
	       .undo = undo_vm_bind);

/* One operation after a good one, which must not be carried out if this one is refused. */
static int call_op(void *arg)
{
	struct drm_vnpu_bind_op ops[] = { good_op(20), *(struct drm_vnpu_bind_op *)arg };

	return raw_bind_ops(n.fd, n.ctx, ops, 2);
}

static void map_good(void *arg)
{
	*(struct drm_vnpu_bind_op *)arg = good_op(0);
}

static void map_undo(void *arg)
{
	assert_int_equal(raw_unbind(n.fd, n.ctx, VA, PAGE), 0);
	assert_int_equal(raw_unbind(n.fd, n.ctx, VA + 20 * PAGE, PAGE), 0);
}

static const struct field_bad bad_map_va[] = {
	{ 0, EINVAL },		{ PAGE, EINVAL },	    { 0xf000, EINVAL },
	{ VA + 1, EINVAL },	{ VA + 2048, EINVAL },	    { VA_END, EINVAL },
	{ VA_END - 1, EINVAL }, { 1ull << 63, EINVAL },	    { UINT64_MAX - 4095, EINVAL },
	{ UINT64_MAX, EINVAL }, { VA + 20 * PAGE, ENOSPC }, { 0, 0 },
};
static const struct field_bad bad_map_size[] = {
	{ 0, EINVAL },
	{ 1, EINVAL },
	{ PAGE - 1, EINVAL },
	{ PAGE + 8, EINVAL },
	{ 4 * PAGE, EINVAL },
	{ VA_END, EINVAL },
	{ UINT64_MAX, EINVAL },
	{ UINT64_MAX - 4095, EINVAL },
	{ 1ull << 63, EINVAL },
	{ -(VA + 0ull), EINVAL },
	{ -(VA - PAGE), EINVAL },
	{ -(1ull * PAGE), EINVAL },
	{ 0, 0 },
};
static const struct field_bad bad_map_offset[] = {
	{ 1, EINVAL },		{ PAGE - 1, EINVAL },
	{ 4 * PAGE, EINVAL },	{ 5 * PAGE, EINVAL },
	{ 1ull << 63, EINVAL }, { UINT64_MAX - 4095, EINVAL },
	{ UINT64_MAX, EINVAL }, { 0, 0 },
};

static const struct field map_fields[] = {
	/* UNMAP with MAP's fields is refused too. */
	FIELD(struct drm_vnpu_bind_op, op, ENUM, .known = DRM_VNPU_BIND_MAP),
	FIELD(struct drm_vnpu_bind_op, flags, FLAGS, .known = DRM_VNPU_BIND_READ_ONLY),
	FIELD(struct drm_vnpu_bind_op, handle, VALUE, .bad = bad_bo),
	FIELD(struct drm_vnpu_bind_op, pad, ZERO),
	FIELD(struct drm_vnpu_bind_op, bo_offset, VALUE, .bad = bad_map_offset),
	FIELD(struct drm_vnpu_bind_op, va, VALUE, .bad = bad_map_va),
	FIELD(struct drm_vnpu_bind_op, size, VALUE, .bad = bad_map_size),
};

static const struct target map_target = PART("MAP", struct drm_vnpu_bind_op, map_fields, map_good,
					     call_op, map_undo, nothing_changed);

#define UNMAP_VA (VA + 40 * PAGE)

static void unmap_good(void *arg)
{
	*(struct drm_vnpu_bind_op *)arg = (struct drm_vnpu_bind_op){ .op = DRM_VNPU_BIND_UNMAP,
								     .va = UNMAP_VA,
								     .size = 2 * PAGE };
}

/* Binds the memory again. */
static void unmap_undo(void *arg)
{
	assert_int_equal(raw_unbind(n.fd, n.ctx, VA + 20 * PAGE, PAGE), 0);
	assert_int_equal(raw_bind(n.fd, n.ctx, n.bo, UNMAP_VA, 2 * PAGE, 0), 0);
}

static const struct field_bad bad_unmap_va[] = {
	{ 0, EINVAL },
	{ UNMAP_VA + 1, EINVAL },
	{ VA_END, EINVAL },
	{ UINT64_MAX - 4095, EINVAL },
	{ UNMAP_VA + PAGE, ENOENT },
	{ UNMAP_VA - PAGE, ENOENT },
	{ VA_END - 2 * PAGE, ENOENT },
	{ VA + 20 * PAGE, ENOENT }, /* bound in the same call, but only one page */
	{ 0, 0 },
};
static const struct field_bad bad_unmap_size[] = {
	{ 0, EINVAL },
	{ 1, EINVAL },
	{ PAGE + 1, EINVAL },
	{ UINT64_MAX - 4095, EINVAL },
	{ PAGE, ENOENT },
	{ 3 * PAGE, ENOENT },
	{ VA_END - UNMAP_VA, ENOENT },
	{ VA_END - UNMAP_VA + PAGE, EINVAL },
	{ 0, 0 },
};

static const struct field unmap_fields[] = {
	FIELD(struct drm_vnpu_bind_op, op, ENUM, .known = DRM_VNPU_BIND_UNMAP),
	FIELD(struct drm_vnpu_bind_op, flags, ZERO),
	FIELD(struct drm_vnpu_bind_op, handle, ZERO),
	FIELD(struct drm_vnpu_bind_op, pad, ZERO),
	FIELD(struct drm_vnpu_bind_op, bo_offset, ZERO),
	FIELD(struct drm_vnpu_bind_op, va, VALUE, .bad = bad_unmap_va),
	FIELD(struct drm_vnpu_bind_op, size, VALUE, .bad = bad_unmap_size),
};

static const struct target unmap_target = PART("UNMAP", struct drm_vnpu_bind_op, unmap_fields,
					       unmap_good, call_op, unmap_undo, nothing_changed);

static void bindings(void **state)
{
	struct drm_vnpu_bind_op op;

	client(state);
	fields_test(&vm_bind_target);
	fields_test(&map_target);
	/* A buffer that the device may only read. */
	op = good_op(0);
	op.handle = n.read_only_bo;
	op.bo_offset = 0;
	field_expect(&map_target, "flags", "none for a read-only buffer", 0, call_op(&op), EINVAL);
	assert_int_equal(raw_bind(n.fd, n.ctx, n.bo, UNMAP_VA, 2 * PAGE, 0), 0);
	fields_test(&unmap_target);
}

/* ---- queues ---- */

CALL(QUEUE_CREATE)
CALL(QUEUE_DESTROY)

static void good_queue_create(void *arg)
{
	*(struct drm_vnpu_queue_create *)arg =
		(struct drm_vnpu_queue_create){ .ctx_id = n.ctx, .depth = 16 };
}

static void undo_queue_create(void *arg)
{
	assert_int_equal(raw_queue_destroy(n.fd, ((struct drm_vnpu_queue_create *)arg)->queue_id),
			 0);
}

static const struct field_bad bad_depth[] = {
	{ 0, EINVAL },	      { 3, EINVAL },	    { 5, EINVAL },	    { 6, EINVAL },
	{ 12, EINVAL },	      { 15, EINVAL },	    { 17, EINVAL },	    { 32, EINVAL },
	{ 1u << 16, EINVAL }, { 1u << 31, EINVAL }, { UINT32_MAX, EINVAL }, { 0, 0 },
};

static const struct field queue_create_fields[] = {
	FIELD(struct drm_vnpu_queue_create, ctx_id, VALUE, .bad = bad_ctx),
	FIELD(struct drm_vnpu_queue_create, priority, ENUM, .known = DRM_VNPU_PRIORITY_HIGH),
	FIELD(struct drm_vnpu_queue_create, depth, VALUE, .bad = bad_depth),
	FIELD(struct drm_vnpu_queue_create, flags, ZERO),
	FIELD(struct drm_vnpu_queue_create, queue_id, ANY),
	FIELD(struct drm_vnpu_queue_create, pad, ZERO),
	FIELD(struct drm_vnpu_queue_create, status_offset, ANY),
};

static void good_queue_destroy(void *arg)
{
	*(struct drm_vnpu_queue_destroy *)arg =
		(struct drm_vnpu_queue_destroy){ .queue_id = n.spare_queue };
}

static void undo_queue_destroy(void *arg)
{
	assert_int_equal(raw_queue(n.fd, n.ctx), n.spare_queue);
}

static const struct field queue_destroy_fields[] = {
	FIELD(struct drm_vnpu_queue_destroy, queue_id, VALUE, .bad = bad_queue),
	FIELD(struct drm_vnpu_queue_destroy, pad, ZERO),
};

static const struct target queue_create_target =
	TARGET(struct drm_vnpu_queue_create, queue_create_fields, IOCTL(QUEUE_CREATE),
	       .good = good_queue_create, .undo = undo_queue_create);
static const struct target queue_destroy_target =
	TARGET(struct drm_vnpu_queue_destroy, queue_destroy_fields, IOCTL(QUEUE_DESTROY),
	       .good = good_queue_destroy, .undo = undo_queue_destroy);

static void queues(void **state)
{
	client(state);
	fields_test(&queue_create_target);
	add_spares();
	fields_test(&queue_destroy_target);
}

/* ---- the size in the ioctl's number ---- */

static const struct target *const ioctls[] = {
	&bo_create_target,     &bo_info_target, &ctx_create_target,   &ctx_destroy_target,
	&ctx_get_state_target, &vm_bind_target, &queue_create_target, &queue_destroy_target,
};

#define NR_IOCTLS (sizeof(ioctls) / sizeof(*ioctls))

static void an_argument_of_an_older_program_is_extended_with_zeros(void **state)
{
	client(state);
	cut_arguments(ioctls, NR_IOCTLS);
}

static void the_tail_of_a_newer_program_s_argument_is_not_written(void **state)
{
	client(state);
	longer_arguments(ioctls, NR_IOCTLS);
}

static void a_call_whose_results_cannot_be_copied_back_leaves_nothing_after_its_file(void **state)
{
	client(state);
	read_only_arguments(ioctls, NR_IOCTLS);
}

static void ioctls_beyond_the_last_do_not_exist(void **state)
{
	uint64_t arg[16] = { 0 };
	int ret;

	client(state);
	for (unsigned int nr = DRM_VNPU_WAIT + 1; nr < DRM_COMMAND_END - DRM_COMMAND_BASE; nr++)
		assert_int_equal(
			raw_ioctl(n.fd, DRM_IOWR(DRM_COMMAND_BASE + nr, uint64_t[16]), arg),
			-EINVAL);
	/* DRM's answer to calls of other types differs between kernels. */
	ret = raw_ioctl(n.fd, _IOWR('V', 0, uint64_t[16]), arg);
	assert_true(ret == -EINVAL || ret == -ENOTTY);
	nothing_changed();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NEGATIVE_TEST(dev_query),
		NEGATIVE_TEST(buffers),
		NEGATIVE_TEST(contexts),
		NEGATIVE_TEST(bindings),
		NEGATIVE_TEST(queues),
		NEGATIVE_TEST(an_argument_of_an_older_program_is_extended_with_zeros),
		NEGATIVE_TEST(the_tail_of_a_newer_program_s_argument_is_not_written),
		NEGATIVE_TEST(
			a_call_whose_results_cannot_be_copied_back_leaves_nothing_after_its_file),
		NEGATIVE_TEST(ioctls_beyond_the_last_do_not_exist),
	};
	int ret = cmocka_run_group_tests_name("negative", tests, server_start, server_stop);

	printf("%u cases\n", field_cases);
	return ret;
}
