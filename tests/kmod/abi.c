// SPDX-License-Identifier: MIT
/*
 * Every call of both ABIs once with good and bad arguments, with all outputs on stdout. Built for
 * 64 bits and for 32 bits; both must print the same. Uses no library, and plays the firmware
 * itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "drm/vnpu_accel.h"
#include "linux/vnpu_fw.h"

#define PAGE 4096u
#define VA 0x100000u
#define VA_BITS 32

static int ctl, fw, client, failures;

static int call(const char *name, int fd, unsigned long cmd, void *arg)
{
	int ret = ioctl(fd, cmd, arg) < 0 ? -errno : 0;

	printf("%s(%u bytes): %d\n", name, (unsigned int)_IOC_SIZE(cmd), ret);
	return ret;
}

#define CTL(name, arg) call(#name, ctl, VNPU_CTL_##name, arg)
#define FW(name, arg) call(#name, fw, VNPU_FW_##name, arg)
#define DRM(name, arg) call(#name, client, DRM_IOCTL_##name, arg)

static void must(int ok, const char *what)
{
	if (ok)
		return;
	printf("FAILED: %s\n", what);
	failures++;
}

static void show(const char *name, const void *data, size_t size)
{
	printf("%s:", name);
	for (size_t i = 0; i < size; i++)
		printf(" %02x", ((const uint8_t *)data)[i]);
	printf("\n");
}

static void *map(int fd, uint64_t offset, size_t size, int prot)
{
	void *p = mmap(NULL, size, prot, MAP_SHARED, fd, (off_t)offset);

	if (p == MAP_FAILED) {
		printf("mmap at %#llx: %d\n", (unsigned long long)offset, errno);
		exit(1);
	}
	return p;
}

#define SIZES(s) printf(#s ": %zu\n", sizeof(struct s))

static void sizes(void)
{
	SIZES(drm_vnpu_query_device);
	SIZES(drm_vnpu_query_limits);
	SIZES(drm_vnpu_query_state);
	SIZES(drm_vnpu_queue_status);
	SIZES(drm_vnpu_bind_op);
	SIZES(drm_vnpu_sync_op);
	SIZES(drm_vnpu_job);
	SIZES(vnpu_ctl_version);
	SIZES(vnpu_ctl_add_dev);
	SIZES(vnpu_ctl_attach);
	SIZES(vnpu_ctl_info);
	SIZES(vnpu_fw_info);
	SIZES(vnpu_fw_ctl);
	SIZES(vnpu_fw_sqe);
	SIZES(vnpu_fw_cqe);
}

/* ---- the device ---- */

static uint32_t dev_id;
static const struct vnpu_fw_info *info;

static void device(void)
{
	struct vnpu_ctl_version version = { 0 };
	struct vnpu_ctl_add_dev add = {
		.size = sizeof(add),
		.version = VNPU_FW_ABI,
		.name = "abi",
		.nr_queues = 4,
		.queue_depth = 4,
		.nr_ctx = 4,
		.va_bits = VA_BITS,
	};
	struct vnpu_ctl_attach attach = { .size = sizeof(attach), .version = VNPU_FW_ABI };
	struct vnpu_ctl_info look = { 0 };
	struct vnpu_ctl_del_dev bad = { .flags = 1 };
	struct vnpu_fw_start start = { 0 };
	char path[32];

	CTL(VERSION, &version);
	show("version", &version, sizeof(version));
	must(!CTL(ADD_DEV, &add), "ADD_DEV");
	show("device", &add, sizeof(add));
	dev_id = add.dev_id;
	fw = add.fw_fd;
	info = map(fw, 0, PAGE, PROT_READ);
	show("info", info, sizeof(*info));
	must(!FW(START, &start), "START");
	look.dev_id = dev_id;
	CTL(INFO, &look);
	look.fw_pid = 0;
	show("look", &look, sizeof(look));
	attach.dev_id = dev_id;
	CTL(ATTACH, &attach);
	bad.dev_id = dev_id;
	CTL(DEL_DEV, &bad);
	snprintf(path, sizeof(path), "/dev/accel/accel%d", start.accel_minor);
	client = open(path, O_RDWR);
	must(client >= 0, path);
}

/* ---- the client ---- */

static void queries(void)
{
	for (uint32_t type = 0; type < 4; type++) {
		uint8_t data[256] = { 0 };
		struct drm_vnpu_dev_query q = { type, sizeof(data), (uintptr_t)data };

		DRM(VNPU_DEV_QUERY, &q);
		show("query", data, type == DRM_VNPU_QUERY_STATE ? 8 : q.size);
	}
}

static uint32_t bo, ctx, syncobj;
static struct drm_vnpu_queue_create queue;

static void objects(void)
{
	struct drm_vnpu_bo_create create = { .size = 2 * PAGE - 1 };
	struct drm_vnpu_bo_info bo_info = { 0 };
	struct drm_vnpu_ctx_create ctx_create = { 0 };
	struct drm_vnpu_bind_op ops[2] = { { .va = VA, .size = PAGE },
					   { .va = VA + PAGE, .bo_offset = PAGE, .size = PAGE } };
	struct drm_vnpu_vm_bind bind = { .ops = { sizeof(ops[0]), 2, (uintptr_t)ops } };
	struct drm_syncobj_create syncobj_create = { 0 };
	uint8_t *mem, *aperture;

	must(!DRM(VNPU_BO_CREATE, &create), "BO_CREATE");
	show("bo", &create, sizeof(create));
	bo = bo_info.handle = create.handle;
	DRM(VNPU_BO_INFO, &bo_info);
	show("bo info", &bo_info, sizeof(bo_info));
	must(!DRM(VNPU_CTX_CREATE, &ctx_create), "CTX_CREATE");
	show("ctx", &ctx_create, sizeof(ctx_create));
	ctx = bind.ctx_id = ctx_create.ctx_id;
	ops[0].handle = ops[1].handle = bo;
	must(!DRM(VNPU_VM_BIND, &bind), "VM_BIND");
	mem = map(client, bo_info.mmap_offset, 2 * PAGE, PROT_READ | PROT_WRITE);
	mem[PAGE + 5] = 55;
	aperture = map(fw, (1ull << VA_BITS) + VA, 2 * PAGE, PROT_READ | PROT_WRITE);
	printf("through the aperture: %d\n", aperture[PAGE + 5]);
	munmap(aperture, 2 * PAGE);
	munmap(mem, 2 * PAGE);
	queue = (struct drm_vnpu_queue_create){ .ctx_id = ctx,
						.priority = DRM_VNPU_PRIORITY_NORMAL,
						.depth = 4 };
	must(!DRM(VNPU_QUEUE_CREATE, &queue), "QUEUE_CREATE");
	show("queue", &queue, sizeof(queue));
	must(!DRM(SYNCOBJ_CREATE, &syncobj_create), "SYNCOBJ_CREATE");
	syncobj = syncobj_create.handle;
}

static void job(void)
{
	const struct drm_vnpu_queue_status *page =
		map(client, queue.status_offset, PAGE, PROT_READ);
	struct vnpu_fw_ctl *indices = map(fw, info->ctl_offset, PAGE, PROT_READ | PROT_WRITE);
	struct vnpu_fw_sqe *sq = map(fw, info->sq_offset, PAGE, PROT_READ);
	struct vnpu_fw_cqe *cq = map(fw, info->cq_offset, PAGE, PROT_READ | PROT_WRITE);
	struct drm_vnpu_sync_op sync = { DRM_VNPU_SYNC_SIGNAL, syncobj, 7 };
	struct drm_vnpu_job one = { .queue_id = queue.queue_id,
				    .cmd_va = VA,
				    .table_va = VA + 64,
				    .cmd_size = 64,
				    .table_size = 64,
				    .syncs = { sizeof(sync), 1, (uintptr_t)&sync } };
	struct drm_vnpu_submit submit = { ctx, 0, { sizeof(one), 1, (uintptr_t)&one } };
	struct drm_vnpu_wait wait = { .queue_id = queue.queue_id, .seqno = 1 };
	struct vnpu_fw_enter enter = { .flags = VNPU_FW_ENTER_WAIT };
	struct drm_vnpu_ctx_get_state state = { .ctx_id = ctx };
	uint64_t point = 7;
	struct drm_syncobj_timeline_wait syncobj_wait = { .handles = (uintptr_t)&syncobj,
							  .points = (uintptr_t)&point,
							  .count_handles = 1 };

	must(!DRM(VNPU_SUBMIT, &submit), "SUBMIT");
	printf("seqno %llu\n", (unsigned long long)one.seqno);
	DRM(VNPU_WAIT, &wait);
	DRM(SYNCOBJ_TIMELINE_WAIT, &syncobj_wait);
	must(!FW(ENTER, &enter), "ENTER");
	show("submission", &sq[0], sizeof(sq[0]));
	indices->sq_head = 1;
	cq[0] = (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE,
				      .status = VNPU_FW_INVALID,
				      .tag = sq[0].tag };
	indices->cq_tail = 1;
	enter.flags = VNPU_FW_ENTER_COMPLETE;
	must(!FW(ENTER, &enter), "ENTER");
	show("enter", &enter, sizeof(enter));
	must(!DRM(VNPU_WAIT, &wait), "WAIT");
	show("wait", &wait, sizeof(wait));
	must(!DRM(SYNCOBJ_TIMELINE_WAIT, &syncobj_wait), "SYNCOBJ_TIMELINE_WAIT");
	must(!DRM(VNPU_CTX_GET_STATE, &state), "CTX_GET_STATE");
	show("state", &state, sizeof(state));
	printf("epoch of the page: %u\n", page->epoch);
}

/* One bit of each argument that must be zero, in its last word. */
static void refusals(void)
{
	static const struct {
		const char *name;
		unsigned long cmd;
	} calls[] = {
		{ "BO_CREATE", DRM_IOCTL_VNPU_BO_CREATE },
		{ "BO_INFO", DRM_IOCTL_VNPU_BO_INFO },
		{ "CTX_CREATE", DRM_IOCTL_VNPU_CTX_CREATE },
		{ "CTX_DESTROY", DRM_IOCTL_VNPU_CTX_DESTROY },
		{ "CTX_GET_STATE", DRM_IOCTL_VNPU_CTX_GET_STATE },
		{ "VM_BIND", DRM_IOCTL_VNPU_VM_BIND },
		{ "QUEUE_CREATE", DRM_IOCTL_VNPU_QUEUE_CREATE },
		{ "QUEUE_DESTROY", DRM_IOCTL_VNPU_QUEUE_DESTROY },
		{ "SUBMIT", DRM_IOCTL_VNPU_SUBMIT },
		{ "WAIT", DRM_IOCTL_VNPU_WAIT },
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		uint32_t arg[32];

		memset(arg, 0xff, sizeof(arg));
		must(call(calls[i].name, client, calls[i].cmd, arg), "a refusal");
		must(call(calls[i].name, client, calls[i].cmd, NULL) == -EFAULT, "no argument");
	}
}

/* 32-bit programs use other entry points of the DRM core, which must refuse the same calls. */
static void core(void)
{
	for (unsigned int nr = 0; nr < 256; nr++) {
		uint64_t arg[32] = { 0 };
		int ret;

		/* VERSION's structure has pointers and differs; the driver's calls are above. */
		if (nr == 0 || (nr >= DRM_COMMAND_BASE && nr < DRM_COMMAND_END))
			continue;
		ret = ioctl(client, _IOWR('d', nr, uint64_t[8]), arg) < 0 ? -errno : 0;
		printf("core %#x: %d\n", nr, ret);
		if (nr == 0x01 || nr == 0x02)
			must(ret == -EOPNOTSUPP, "GET_UNIQUE and GET_MAGIC");
	}
}

static void ends(void)
{
	struct drm_vnpu_queue_destroy queue_destroy = { .queue_id = queue.queue_id };
	struct drm_vnpu_ctx_destroy ctx_destroy = { .ctx_id = ctx };
	struct drm_gem_close gem_close = { .handle = bo };
	struct vnpu_ctl_del_dev del = { .dev_id = dev_id };
	struct drm_vnpu_dev_query query = { 0 };
	struct vnpu_fw_enter enter = { 0 };

	must(!DRM(VNPU_QUEUE_DESTROY, &queue_destroy), "QUEUE_DESTROY");
	must(!DRM(VNPU_CTX_DESTROY, &ctx_destroy), "CTX_DESTROY");
	must(!DRM(GEM_CLOSE, &gem_close), "GEM_CLOSE");
	must(!CTL(DEL_DEV, &del), "DEL_DEV");
	must(DRM(VNPU_DEV_QUERY, &query) == -ENODEV, "a deleted device");
	must(FW(ENTER, &enter) == -ENODEV, "a deleted device");
}

int main(void)
{
	ctl = open("/dev/" VNPU_FW_CONTROL_NODE, O_RDWR);
	if (ctl < 0) {
		perror("/dev/" VNPU_FW_CONTROL_NODE);
		return 1;
	}
	sizes();
	device();
	queries();
	objects();
	job();
	refusals();
	core();
	ends();
	return failures != 0;
}
