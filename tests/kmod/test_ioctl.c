// SPDX-License-Identifier: MIT
/*
 * Every client ioctl of vnpu.ko, without libnpu: its effect, and its refusal of bad values in each
 * field. Queues and submission are in test_submit.c.
 */
#include <sched.h>
#include <sys/wait.h>

#include "vnpu_raw.h"

/* Tables of bad arguments: a good one with one field changed. */
#pragma GCC diagnostic ignored "-Woverride-init"

#define VA 0x100000ull

/* ---- DEV_QUERY ---- */

static void dev_query_tells_the_size_of_each_structure(void **state)
{
	int fd = client(state);
	const uint32_t sizes[] = { sizeof(struct drm_vnpu_query_device),
				   sizeof(struct drm_vnpu_query_limits),
				   sizeof(struct drm_vnpu_query_state) };

	for (uint32_t type = 0; type < 3; type++) {
		struct drm_vnpu_dev_query q = { .type = type };

		assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &q), 0);
		assert_int_equal(q.size, sizes[type]);
	}
}

static void dev_query_reports_what_the_firmware_declared(void **state)
{
	int fd = client(state);
	struct drm_vnpu_query_device device;
	struct drm_vnpu_query_limits limits;
	struct drm_vnpu_query_state dstate;
	struct drm_vnpu_dev_query q = { .type = DRM_VNPU_QUERY_DEVICE,
					.size = sizeof(device),
					.pointer = (uintptr_t)&device };

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &q), 0);
	assert_string_equal(device.name, "test device");
	assert_int_equal(device.isa_version, 1 << 16);
	assert_int_equal(device.fw_abi, VNPU_FW_ABI);
	assert_int_equal(device.va_bits, 32);

	q = (struct drm_vnpu_dev_query){ .type = DRM_VNPU_QUERY_LIMITS,
					 .size = sizeof(limits),
					 .pointer = (uintptr_t)&limits };
	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &q), 0);
	assert_int_equal(limits.max_queue_depth, 16);
	assert_int_equal(limits.mem_limit_bytes, 64 << 20);
	assert_true(limits.max_ctx_per_file > 0 && limits.max_ctx_per_file <= 70);
	assert_true(limits.default_timeout_ms > 0 &&
		    limits.default_timeout_ms <= limits.max_timeout_ms);

	q = (struct drm_vnpu_dev_query){ .type = DRM_VNPU_QUERY_STATE,
					 .size = sizeof(dstate),
					 .pointer = (uintptr_t)&dstate };
	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &q), 0);
	assert_int_equal(dstate.state, DRM_VNPU_STATE_READY);
	assert_int_equal(dstate.epoch, 1);
}

static void dev_query_clears_what_it_does_not_know_and_truncates(void **state)
{
	int fd = client(state);
	uint8_t buf[256];
	struct drm_vnpu_dev_query q = { .type = DRM_VNPU_QUERY_DEVICE,
					.size = sizeof(buf),
					.pointer = (uintptr_t)buf };

	memset(buf, 0xaa, sizeof(buf));
	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &q), 0);
	for (size_t i = sizeof(struct drm_vnpu_query_device); i < sizeof(buf); i++)
		assert_int_equal(buf[i], 0);
	memset(buf, 0xaa, sizeof(buf));
	q.size = 4;
	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &q), 0);
	assert_memory_equal(buf, "test\xaa\xaa", 6);
	assert_int_equal(q.size, sizeof(struct drm_vnpu_query_device));
}

static void dev_query_refuses_unknown_types_and_bad_pointers(void **state)
{
	int fd = client(state);
	struct drm_vnpu_dev_query q = { .type = 3 };

	refuse(fd, DEV_QUERY, &q, EINVAL);
	q = (struct drm_vnpu_dev_query){ .type = DRM_VNPU_QUERY_STATE,
					 .size = 24,
					 .pointer = NOWHERE };
	refuse(fd, DEV_QUERY, &q, EFAULT);
}

/* The kernel clears what it does not know, and must not be made to clear gigabytes. */
static void dev_query_refuses_more_than_a_page(void **state)
{
	const uint32_t sizes[] = { DRM_VNPU_PAGE_SIZE + 1, 1 << 20, 1u << 31, UINT32_MAX };
	int fd = client(state);
	uint8_t *area =
		mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct drm_vnpu_dev_query q;

	assert_ptr_not_equal(area, MAP_FAILED);
	memset(area, 0xaa, 2 << 20);
	for (uint32_t type = 0; type < 3; type++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			q = (struct drm_vnpu_dev_query){ type, sizes[i], (uintptr_t)area };
			refuse(fd, DEV_QUERY, &q, EINVAL);
			/* @size is ignored if only the kernel's size is asked for. */
			q = (struct drm_vnpu_dev_query){ type, sizes[i], 0 };
			assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &q), 0);
			assert_in_range(q.size, 1, DRM_VNPU_PAGE_SIZE);
		}
	}
	for (size_t i = 0; i < 2 << 20; i++)
		assert_int_equal(area[i], 0xaa);
	q = (struct drm_vnpu_dev_query){ 0, DRM_VNPU_PAGE_SIZE, (uintptr_t)area };
	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &q), 0);
	assert_int_equal(area[DRM_VNPU_PAGE_SIZE - 1], 0);
	assert_int_equal(area[DRM_VNPU_PAGE_SIZE], 0xaa);
	munmap(area, 2 << 20);
}

static void high_priority_needs_a_privilege(void **state)
{
	int fd = client(state), status;
	uint32_t ctx = raw_ctx(fd);
	struct drm_vnpu_queue_create q = { .ctx_id = ctx,
					   .priority = DRM_VNPU_PRIORITY_HIGH,
					   .depth = 1 };
	pid_t pid;

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &q), 0);
	pid = fork();
	if (!pid) {
		struct drm_vnpu_query_limits limits = { 0 };
		struct drm_vnpu_dev_query query = { DRM_VNPU_QUERY_LIMITS, sizeof(limits),
						    (uintptr_t)&limits };

		if (setuid(65534))
			_exit(2);
		if (raw_ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &query) || limits.priorities != 3)
			_exit(3);
		_exit(raw_ioctl(fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &q) == -EACCES ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- buffers ---- */

static void bo_create_rounds_up_zeroes_and_maps(void **state)
{
	int fd = client(state);
	struct drm_vnpu_bo_create create = { .size = 5000 };
	struct drm_vnpu_bo_info info;
	uint8_t *p;

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_BO_CREATE, &create), 0);
	assert_int_equal(create.size, 8192);
	info = (struct drm_vnpu_bo_info){ .handle = create.handle };
	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_BO_INFO, &info), 0);
	assert_int_equal(info.size, 8192);
	assert_int_equal(info.flags, 0);
	p = raw_bo_map(fd, create.handle);
	for (int i = 0; i < 8192; i++)
		assert_int_equal(p[i], 0);
	p[8191] = 7;
	munmap(p, 8192);
	p = raw_bo_map(fd, create.handle);
	assert_int_equal(p[8191], 7);
	munmap(p, 8192);
}

static void bo_create_refuses_bad_sizes_and_flags(void **state)
{
	int fd = client(state);
	const uint64_t sizes[] = { 0, UINT64_MAX, UINT64_MAX - 4095, 1ull << 63, 1ull << 33 };
	struct drm_vnpu_bo_create create;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		create = (struct drm_vnpu_bo_create){ .size = sizes[i] };
		refuse(fd, BO_CREATE, &create, EINVAL);
	}
	for (int bit = 1; bit < 32; bit++) {
		create = (struct drm_vnpu_bo_create){ .size = 4096, .flags = 1u << bit };
		refuse(fd, BO_CREATE, &create, EINVAL);
	}
}

static void bo_create_stops_at_the_memory_limit(void **state)
{
	int fd = client(state);
	uint32_t handle = raw_bo(fd, 48 << 20);
	struct drm_vnpu_bo_create create = { .size = 32 << 20 };

	refuse(fd, BO_CREATE, &create, ENOSPC);
	raw_bo_close(fd, handle);
	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_BO_CREATE, &create), 0);
}

static void bo_info_refuses_unknown_handles(void **state)
{
	int fd = client(state), other = raw_client(server.fw.minor);
	uint32_t handles[] = { 0, 12345, UINT32_MAX, raw_bo(other, 4096) };

	for (int i = 0; i < 4; i++) {
		struct drm_vnpu_bo_info info = { .handle = handles[i] };

		refuse(fd, BO_INFO, &info, ENOENT);
	}
	close(other);
}

static void buffers_of_another_file_cannot_be_mapped(void **state)
{
	int fd = client(state), other = raw_client(server.fw.minor);
	struct drm_vnpu_bo_info info = { .handle = raw_bo(other, 4096) };

	assert_int_equal(raw_ioctl(other, DRM_IOCTL_VNPU_BO_INFO, &info), 0);
	assert_ptr_equal(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, info.mmap_offset), MAP_FAILED);
	assert_int_equal(errno, EACCES);
	close(other);
}

static void a_buffer_does_not_leave_as_a_dma_buf(void **state)
{
	int fd = client(state);
	struct drm_prime_handle prime = { .handle = raw_bo(fd, 4096), .flags = O_RDWR };

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime), -EOPNOTSUPP);
}

/* ---- contexts ---- */

static void ctx_create_and_destroy(void **state)
{
	int fd = client(state);
	struct drm_vnpu_ctx_create create = { 0 };
	struct drm_vnpu_ctx_get_state s;

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_CTX_CREATE, &create), 0);
	assert_true(create.va_start > 0);
	assert_int_equal(create.va_start + create.va_range, 1ull << 32);
	s = raw_ctx_state(fd, create.ctx_id);
	assert_int_equal(s.state, 0);
	assert_int_equal(s.epoch, 1);
	assert_int_equal(raw_ctx_destroy(fd, create.ctx_id), 0);
	assert_int_equal(raw_ctx_destroy(fd, create.ctx_id), -ENOENT);
}

static void ctx_calls_refuse_flags_pads_and_foreign_ids(void **state)
{
	int fd = client(state), other = raw_client(server.fw.minor);
	uint32_t theirs, mine = raw_ctx(fd);
	uint32_t ids[] = { 0, 999, UINT32_MAX, 0 };
	struct drm_vnpu_ctx_create create = { .flags = 1 };
	struct drm_vnpu_ctx_destroy destroy = { .ctx_id = mine, .pad = 1 };
	struct drm_vnpu_ctx_get_state s = { .ctx_id = mine, .pad = 1 };

	refuse(fd, CTX_CREATE, &create, EINVAL);
	refuse(fd, CTX_DESTROY, &destroy, EINVAL);
	refuse(fd, CTX_GET_STATE, &s, EINVAL);
	/* Ids of another file; make one that this file does not have. */
	raw_ctx(other);
	theirs = raw_ctx(other);
	ids[3] = theirs;
	for (int i = 0; i < 4; i++) {
		s = (struct drm_vnpu_ctx_get_state){ .ctx_id = ids[i] };
		refuse(fd, CTX_GET_STATE, &s, ENOENT);
		assert_int_equal(raw_ctx_destroy(fd, ids[i]), -ENOENT);
	}
	close(other);
}

static void contexts_run_out_per_file_and_per_device(void **state)
{
	int fd = client(state), other = raw_client(server.fw.minor), n = 0, ret;
	struct drm_vnpu_ctx_create create = { 0 };

	while (!(ret = raw_ioctl(fd, DRM_IOCTL_VNPU_CTX_CREATE, &create)))
		n++;
	assert_int_equal(ret, -EMFILE);
	assert_int_equal(n, 64);
	while (!(ret = raw_ioctl(other, DRM_IOCTL_VNPU_CTX_CREATE, &create)))
		n++;
	assert_int_equal(ret, -EBUSY);
	assert_true(n <= 70);
	close(other);
	/* The numbers become free when the firmware has answered. */
	for (int i = 0; i < 64; i++)
		assert_int_equal(raw_ctx_destroy(fd, i + 1), 0);
	for (int64_t until = raw_in_ms(RAW_LONG_MS);
	     raw_ioctl(fd, DRM_IOCTL_VNPU_CTX_CREATE, &create) == -EBUSY;) {
		assert_true(raw_now_ns() < until);
		sched_yield();
	}
}

/* ---- VM_BIND ---- */

static void bind_accepts_and_unbind_matches_exactly(void **state)
{
	int fd = client(state);
	uint32_t ctx = raw_ctx(fd), handle = raw_bo(fd, 4 * PAGE);

	assert_int_equal(raw_bind(fd, ctx, handle, VA, 4 * PAGE, 0), 0);
	assert_int_equal(raw_bind(fd, ctx, handle, VA + 3 * PAGE, PAGE, 0), -ENOSPC);
	assert_int_equal(
		raw_bind(fd, ctx, handle, VA + 4 * PAGE, 4 * PAGE, DRM_VNPU_BIND_READ_ONLY), 0);
	assert_int_equal(raw_unbind(fd, ctx, VA, PAGE), -ENOENT);
	assert_int_equal(raw_unbind(fd, ctx, VA + PAGE, 3 * PAGE), -ENOENT);
	assert_int_equal(raw_unbind(fd, ctx, VA, 8 * PAGE), -ENOENT);
	assert_int_equal(raw_unbind(fd, ctx, VA, 4 * PAGE), 0);
	assert_int_equal(raw_unbind(fd, ctx, VA, 4 * PAGE), -ENOENT);
	assert_int_equal(raw_bind(fd, ctx, handle, VA, 4 * PAGE, 0), 0);
}

static void bind_refuses_every_bad_field(void **state)
{
	int fd = client(state), other = raw_client(server.fw.minor);
	uint32_t ctx = raw_ctx(fd), handle = raw_bo(fd, 4 * PAGE);
	const struct drm_vnpu_bind_op good = {
		.handle = handle, .bo_offset = PAGE, .va = VA, .size = PAGE
	};
	struct {
		struct drm_vnpu_bind_op op;
		int error;
	} bad[] = {
#define BAD(error, ...) \
	{ { .handle = handle, .bo_offset = PAGE, .va = VA, .size = PAGE, __VA_ARGS__ }, error }
		BAD(EINVAL, .op = 2),
		BAD(EINVAL, .op = UINT32_MAX),
		BAD(EINVAL, .flags = 2),
		BAD(EINVAL, .flags = 1u << 31),
		BAD(EINVAL, .pad = 1),
		BAD(ENOENT, .handle = 0),
		BAD(ENOENT, .handle = 777),
		BAD(EINVAL, .bo_offset = 1),
		BAD(EINVAL, .bo_offset = 4 * PAGE),
		BAD(EINVAL, .bo_offset = 5 * PAGE),
		BAD(EINVAL, .bo_offset = ~(PAGE - 1)),
		BAD(EINVAL, .va = 0),
		BAD(EINVAL, .va = PAGE),
		BAD(EINVAL, .va = VA + 1),
		BAD(EINVAL, .va = 1ull << 32),
		BAD(EINVAL, .va = ~(PAGE - 1)),
		BAD(EINVAL, .size = 0),
		BAD(EINVAL, .size = PAGE - 1),
		BAD(EINVAL, .size = 4 * PAGE),
		BAD(EINVAL, .size = ~(PAGE - 1)),
		BAD(EINVAL, .op = DRM_VNPU_BIND_UNMAP),
		BAD(EINVAL, .op = DRM_VNPU_BIND_UNMAP, .handle = 0),
		BAD(EINVAL, .op = DRM_VNPU_BIND_UNMAP, .bo_offset = 0),
		BAD(EINVAL, .op = DRM_VNPU_BIND_UNMAP, .handle = 0, .bo_offset = 0, .flags = 1),
		BAD(ENOENT, .op = DRM_VNPU_BIND_UNMAP, .handle = 0, .bo_offset = 0),
	};
	struct drm_vnpu_bind_op op = good;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		print_message("case %zu\n", i);
		assert_int_equal(raw_bind_ops(fd, ctx, &bad[i].op, 1), -bad[i].error);
	}
	op.handle = raw_bo(other, PAGE) + 100;
	assert_int_equal(raw_bind_ops(fd, ctx, &op, 1), -ENOENT);
	op = good;
	op.va = (1ull << 32) - PAGE;
	assert_int_equal(raw_bind_ops(fd, ctx, &op, 1), 0);
	assert_int_equal(raw_bind_ops(fd, 999, &op, 1), -ENOENT);
	assert_int_equal(raw_bind_ops(other, ctx + 1, &op, 1), -ENOENT);
	close(other);
}

static void bind_checks_the_array_itself(void **state)
{
	int fd = client(state);
	uint32_t ctx = raw_ctx(fd), handle = raw_bo(fd, 4 * PAGE);
	struct {
		struct drm_vnpu_bind_op op;
		uint64_t more;
	} wide[2] = { { .op = { .handle = handle, .va = VA, .size = PAGE } },
		      { .op = { .handle = handle, .va = VA + PAGE, .size = PAGE } } };
	struct drm_vnpu_vm_bind bind = { .ctx_id = ctx, .flags = 1 };

	refuse(fd, VM_BIND, &bind, EINVAL);
	bind.flags = 0;
	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_VM_BIND, &bind), 0);
	bind.ops = (struct drm_vnpu_obj_array){ 0, 0, (uintptr_t)wide };
	refuse(fd, VM_BIND, &bind, EINVAL);
	bind.ops = (struct drm_vnpu_obj_array){ sizeof(wide[0].op) - 8, 1, (uintptr_t)wide };
	refuse(fd, VM_BIND, &bind, EINVAL);
	bind.ops = (struct drm_vnpu_obj_array){ 0, 1, (uintptr_t)wide };
	refuse(fd, VM_BIND, &bind, EINVAL);
	bind.ops = (struct drm_vnpu_obj_array){ sizeof(wide[0].op), UINT32_MAX, (uintptr_t)wide };
	refuse(fd, VM_BIND, &bind, EINVAL);
	bind.ops = (struct drm_vnpu_obj_array){ sizeof(wide[0].op), 1, 0 };
	refuse(fd, VM_BIND, &bind, EFAULT);
	bind.ops = (struct drm_vnpu_obj_array){ sizeof(wide[0].op), 1, NOWHERE };
	refuse(fd, VM_BIND, &bind, EFAULT);
	bind.ops = (struct drm_vnpu_obj_array){ sizeof(wide[0].op), 1, UINT64_MAX - 8 };
	refuse(fd, VM_BIND, &bind, EFAULT);
	bind.ops = (struct drm_vnpu_obj_array){ UINT32_MAX & ~7u, 1, (uintptr_t)wide };
	refuse(fd, VM_BIND, &bind, E2BIG);
	wide[1].more = 1;
	bind.ops = (struct drm_vnpu_obj_array){ sizeof(wide[0]), 2, (uintptr_t)wide };
	refuse(fd, VM_BIND, &bind, E2BIG);
	/* A newer program's elements are accepted while the additional fields are zero. */
	wide[1].more = 0;
	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_VM_BIND, &bind), 0);
	assert_int_equal(raw_unbind(fd, ctx, VA + PAGE, PAGE), 0);
}

static void bind_applies_all_operations_or_none(void **state)
{
	int fd = client(state);
	uint32_t ctx = raw_ctx(fd), handle = raw_bo(fd, PAGE);
	struct drm_vnpu_bind_op ops[] = {
		{ .op = DRM_VNPU_BIND_UNMAP, .va = VA, .size = PAGE },
		{ .op = DRM_VNPU_BIND_MAP, .handle = handle, .va = VA, .size = PAGE },
		{ .op = DRM_VNPU_BIND_MAP, .handle = handle, .va = VA + PAGE, .size = PAGE },
		{ .op = DRM_VNPU_BIND_MAP, .handle = handle, .va = VA + PAGE, .size = PAGE },
	};

	assert_int_equal(raw_bind(fd, ctx, handle, VA, PAGE, DRM_VNPU_BIND_READ_ONLY), 0);
	assert_int_equal(raw_bind_ops(fd, ctx, ops, 4), -ENOSPC);
	/* As before: VA is bound, the next page is free. */
	assert_int_equal(raw_bind(fd, ctx, handle, VA, PAGE, 0), -ENOSPC);
	assert_int_equal(raw_unbind(fd, ctx, VA + PAGE, PAGE), -ENOENT);
	/* In order: the second operation may bind what the first has unbound. */
	assert_int_equal(raw_bind_ops(fd, ctx, ops, 3), 0);
	assert_int_equal(raw_unbind(fd, ctx, VA + PAGE, PAGE), 0);
	assert_int_equal(raw_unbind(fd, ctx, VA, PAGE), 0);
}

static void a_read_only_buffer_refuses_a_writable_binding(void **state)
{
	int fd = client(state);
	uint32_t ctx = raw_ctx(fd);
	struct drm_vnpu_bo_create create = { .size = PAGE, .flags = DRM_VNPU_BO_DEVICE_READ_ONLY };
	struct drm_vnpu_bo_info info;

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_BO_CREATE, &create), 0);
	info = (struct drm_vnpu_bo_info){ .handle = create.handle };
	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_BO_INFO, &info), 0);
	assert_int_equal(info.flags, DRM_VNPU_BO_DEVICE_READ_ONLY);
	assert_int_equal(raw_bind(fd, ctx, create.handle, VA, PAGE, 0), -EINVAL);
	assert_int_equal(raw_bind(fd, ctx, create.handle, VA, PAGE, DRM_VNPU_BIND_READ_ONLY), 0);
}

/* Random operations, checked against a table of pages. */
static void bindings_agree_with_a_model(void **state)
{
	enum { PAGES = 32, ROUNDS = 2000 };
	int fd = client(state);
	uint32_t ctx = raw_ctx(fd), handle = raw_bo(fd, PAGES * PAGE);
	unsigned int start[PAGES] = { 0 }, len[PAGES] = { 0 }, seed = (unsigned int)raw_now_ns();
	bool used[PAGES] = { false };

	print_message("seed %u\n", seed);
	srand(seed);
	for (int i = 0; i < ROUNDS; i++) {
		unsigned int first = rand() % PAGES, n = 1 + rand() % (PAGES - first), k;

		if (rand() & 1) {
			bool free = true;

			for (k = first; k < first + n; k++)
				free = free && !used[k];
			assert_int_equal(raw_bind(fd, ctx, handle, VA + first * PAGE, n * PAGE, 0),
					 free ? 0 : -ENOSPC);
			for (k = first; free && k < first + n; k++)
				used[k] = true, start[k] = first, len[k] = n;
		} else {
			bool exact = used[first] && start[first] == first;

			if (exact && (rand() & 1))
				n = len[first];
			exact = exact && len[first] == n;
			assert_int_equal(raw_unbind(fd, ctx, VA + first * PAGE, n * PAGE),
					 exact ? 0 : -ENOENT);
			for (k = first; exact && k < first + n; k++)
				used[k] = false;
		}
	}
}

static void ioctls_beyond_the_last_do_not_exist(void **state)
{
	int fd = client(state);
	uint64_t arg[16] = { 0 };

	assert_int_equal(
		raw_ioctl(fd, DRM_IOWR(DRM_COMMAND_BASE + DRM_VNPU_WAIT + 1, uint64_t[16]), arg),
		-EINVAL);
	assert_int_equal(raw_ioctl(fd, DRM_IOWR(DRM_COMMAND_BASE + 63, uint64_t[16]), arg),
			 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVER_TEST(dev_query_tells_the_size_of_each_structure),
		SERVER_TEST(dev_query_reports_what_the_firmware_declared),
		SERVER_TEST(dev_query_clears_what_it_does_not_know_and_truncates),
		SERVER_TEST(dev_query_refuses_unknown_types_and_bad_pointers),
		SERVER_TEST(dev_query_refuses_more_than_a_page),
		SERVER_TEST(high_priority_needs_a_privilege),
		SERVER_TEST(bo_create_rounds_up_zeroes_and_maps),
		SERVER_TEST(bo_create_refuses_bad_sizes_and_flags),
		SERVER_TEST(bo_create_stops_at_the_memory_limit),
		SERVER_TEST(bo_info_refuses_unknown_handles),
		SERVER_TEST(buffers_of_another_file_cannot_be_mapped),
		SERVER_TEST(a_buffer_does_not_leave_as_a_dma_buf),
		SERVER_TEST(ctx_create_and_destroy),
		SERVER_TEST(ctx_calls_refuse_flags_pads_and_foreign_ids),
		SERVER_TEST(contexts_run_out_per_file_and_per_device),
		SERVER_TEST(bind_accepts_and_unbind_matches_exactly),
		SERVER_TEST(bind_refuses_every_bad_field),
		SERVER_TEST(bind_checks_the_array_itself),
		SERVER_TEST(bind_applies_all_operations_or_none),
		SERVER_TEST(a_read_only_buffer_refuses_a_writable_binding),
		SERVER_TEST(bindings_agree_with_a_model),
		SERVER_TEST(ioctls_beyond_the_last_do_not_exist),
	};

	return cmocka_run_group_tests_name("ioctl", tests, server_start, server_stop);
}
