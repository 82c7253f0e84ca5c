// SPDX-License-Identifier: MIT
/*
 * Buffers of vnpu.ko as dma-bufs, which its parameter prime_export allows, and dma-bufs of other
 * drivers. The test plays the firmware; the other drivers are udmabuf and vgem if the kernel has
 * them.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <linux/udmabuf.h>

#include "vgem.h"

#define VA 0x100000ull
#define SIZE (4 * PAGE)

static int export_setup(void **state)
{
	return bench_setup(state) ||
	       (((struct bench *)*state)->fw.info && !vgem_allow_export(true));
}

static int export_teardown(void **state)
{
	vgem_allow_export(false);
	return bench_teardown(state);
}

#define EXPORT_TEST(f) cmocka_unit_test_setup_teardown(f, export_setup, export_teardown)

static uint8_t *map(int fd, uint64_t offset)
{
	uint8_t *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void an_exported_buffer_is_the_same_memory_and_outlives_its_file_and_device(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_bo(b->fd, SIZE);
	uint8_t *own = raw_bo_map(b->fd, handle), *shared;
	int dmabuf = vgem_export(b->fd, handle);

	assert_true(dmabuf >= 0);
	assert_int_equal(lseek(dmabuf, 0, SEEK_END), SIZE);
	assert_ptr_equal(mmap(NULL, SIZE + PAGE, PROT_READ, MAP_SHARED, dmabuf, 0), MAP_FAILED);
	shared = map(dmabuf, 0);
	own[PAGE] = 17;
	shared[3 * PAGE] = 18;
	assert_int_equal(shared[PAGE], 17);
	assert_int_equal(own[3 * PAGE], 18);

	munmap(own, SIZE);
	raw_bo_close(b->fd, handle);
	close(b->fd);
	raw_fw_remove(&b->fw);
	assert_int_equal(shared[PAGE], 17);
	munmap(shared, SIZE);
	shared = map(dmabuf, 0);
	assert_int_equal(shared[3 * PAGE], 18);
	close(dmabuf);
	assert_int_equal(shared[2 * PAGE], 0);
	munmap(shared, SIZE);
	raw_fw_add(&b->fw, NULL);
	b->fd = -1;
}

static void a_second_file_gets_the_same_buffer_back(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_bo_create create = { .size = SIZE, .flags = DRM_VNPU_BO_DEVICE_READ_ONLY };
	int other = raw_client(b->fw.minor), dmabuf;
	struct drm_vnpu_bo_info info = { 0 };
	uint32_t handle, ctx = raw_ctx(other);
	uint8_t *p;

	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_BO_CREATE, &create), 0);
	dmabuf = vgem_export(b->fd, create.handle);
	assert_true(dmabuf >= 0);
	assert_int_equal(vgem_import(other, dmabuf, &handle), 0);
	info.handle = handle;
	assert_int_equal(raw_ioctl(other, DRM_IOCTL_VNPU_BO_INFO, &info), 0);
	assert_int_equal(info.size, SIZE);
	assert_int_equal(info.flags, DRM_VNPU_BO_DEVICE_READ_ONLY);
	assert_int_equal(raw_bind(other, ctx, handle, VA, SIZE, 0), -EINVAL);
	assert_int_equal(raw_bind(other, ctx, handle, VA, SIZE, DRM_VNPU_BIND_READ_ONLY), 0);
	p = raw_bo_map(b->fd, create.handle);
	p[7] = 99;
	munmap(p, SIZE);
	p = raw_bo_map(other, handle);
	assert_int_equal(p[7], 99);
	munmap(p, SIZE);
	close(dmabuf);
	close(other);
}

/* No implicit synchronisation: a job leaves no fence on a buffer for others to wait for. */
static void a_job_leaves_no_fence_on_an_exported_buffer(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_bo(b->fd, SIZE);
	struct pollfd p = { .fd = vgem_export(b->fd, handle), .events = POLLIN | POLLOUT };

	assert_true(p.fd >= 0);
	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, SIZE, 0), 0);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(p.revents, POLLIN | POLLOUT);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	close(p.fd);
}

static void a_buffer_that_another_driver_holds_outlives_its_device(void **state)
{
	struct bench *b = bench(state);
	int vgem = vgem_open(), dmabuf;
	uint32_t handle, theirs;
	uint8_t *p;

	if (vgem < 0)
		skip();
	handle = raw_bo(b->fd, SIZE);
	p = raw_bo_map(b->fd, handle);
	p[PAGE] = 33;
	munmap(p, SIZE);
	dmabuf = vgem_export(b->fd, handle);
	assert_true(dmabuf >= 0);
	assert_int_equal(vgem_import(vgem, dmabuf, &theirs), 0);
	close(dmabuf);
	close(b->fd);
	raw_fw_remove(&b->fw);
	dmabuf = vgem_export(vgem, theirs);
	assert_true(dmabuf >= 0);
	p = map(dmabuf, 0);
	close(dmabuf);
	close(vgem);
	assert_int_equal(p[PAGE], 33);
	munmap(p, SIZE);
	raw_fw_add(&b->fw, NULL);
	b->fd = -1;
}

static void a_dma_buf_of_another_driver_is_refused(void **state)
{
	struct bench *b = bench(state);
	struct udmabuf_create create = {
		.memfd = memfd_create("foreign", MFD_ALLOW_SEALING | MFD_CLOEXEC), .size = SIZE
	};
	int control = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), dmabuf;
	uint32_t handle = 0;

	if (control < 0) {
		close(create.memfd);
		skip();
	}
	assert_int_equal(ftruncate(create.memfd, SIZE), 0);
	assert_int_equal(fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	dmabuf = ioctl(control, UDMABUF_CREATE, &create);
	assert_true(dmabuf >= 0);
	assert_int_equal(vgem_import(b->fd, dmabuf, &handle), -EINVAL);
	assert_int_equal(handle, 0);
	close(dmabuf);
	close(control);
	close(create.memfd);
}

static void a_file_that_is_no_dma_buf_is_refused(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = 0;

	assert_int_equal(vgem_import(b->fd, b->fd, &handle), -EINVAL);
	assert_int_equal(vgem_import(b->fd, -1, &handle), -EBADF);
	assert_int_equal(handle, 0);
}

static void exporting_is_refused_when_the_parameter_is_cleared(void **state)
{
	struct bench *b = bench(state);
	uint32_t first = raw_bo(b->fd, SIZE), second = raw_bo(b->fd, SIZE);
	int dmabuf = vgem_export(b->fd, first);

	assert_true(dmabuf >= 0);
	assert_true(vgem_allow_export(false));
	assert_int_equal(vgem_export(b->fd, second), -EOPNOTSUPP);
	close(dmabuf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		EXPORT_TEST(an_exported_buffer_is_the_same_memory_and_outlives_its_file_and_device),
		EXPORT_TEST(a_second_file_gets_the_same_buffer_back),
		EXPORT_TEST(a_job_leaves_no_fence_on_an_exported_buffer),
		EXPORT_TEST(a_buffer_that_another_driver_holds_outlives_its_device),
		EXPORT_TEST(a_dma_buf_of_another_driver_is_refused),
		EXPORT_TEST(a_file_that_is_no_dma_buf_is_refused),
		EXPORT_TEST(exporting_is_refused_when_the_parameter_is_cleared),
	};

	return cmocka_run_group_tests_name("prime", tests, NULL, NULL);
}
