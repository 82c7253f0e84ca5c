// SPDX-License-Identifier: MIT
/*
 * The daemon's port on a file in place of the firmware fd: laid out as one, and as short as to end inside an aperture, so
 * that pages beyond the end raise SIGBUS as unbound ones do.
 */
#include "fw_fake.h"

#include <signal.h>
#include <sys/wait.h>

#include "port_kmd.c"

#define APERTURE (1ull << FAKE_VA_BITS) /* of context 1 */
#define BOUND 0x10000 /* bytes of it that exist */

static int make_fd(struct vnpu_fw_info *info)
{
	int fd = memfd_create("fw", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, APERTURE + BOUND), 0);
	*info = (struct vnpu_fw_info){
		.magic = VNPU_FW_INFO_MAGIC,
		.version = VNPU_FW_ABI,
		.sq_entries = 16,
		.cq_entries = 256, /* more than a page of them */
		.nr_queues = 3,
		.nr_ctx = 2,
		.va_bits = FAKE_VA_BITS,
		.sq_offset = 0x1000,
		.ctl_offset = 0x2000,
		.cq_offset = 0x3000,
		.status_offset = 0x8000,
	};
	assert_int_equal(pwrite(fd, info, sizeof(*info), 0), sizeof(*info));
	return fd;
}

struct access {
	volatile uint8_t *p;
	bool write;
	int value;
};

static void touch(void *arg)
{
	struct access *a = arg;

	if (a->write)
		*a->p = a->value;
	else
		a->value = *a->p;
}

/* One access at @va through the guard. */
static int guarded(struct port_kmd *p, struct fw_aspace *as, uint64_t va, bool write, struct fw_fault *fault)
{
	struct access a = { as->base + va, write, 42 };
	struct fw_access acc = { va, 1, write };

	return p->port.ops->guard(p->port.priv, as, &acc, 1, touch, &a, fault);
}

static void the_rings_are_mapped_where_the_info_page_says(void **state)
{
	struct vnpu_fw_info info;
	struct vnpu_fw_cqe cqe;
	int fd = make_fd(&info);
	struct port_kmd p;
	const char *what;
	uint32_t tail;

	assert_int_equal(port_kmd_open(&p, fd, &what), 0);
	assert_int_equal(p.port.info->nr_queues, 3);
	p.port.cq[255].tag = 77;
	p.port.ctl->cq_tail = 5;
	((struct drm_vnpu_queue_status *)(p.port.status + 2 * 4096))->completed_seqno = 9;
	pread(fd, &cqe, sizeof(cqe), info.cq_offset + 255 * sizeof(cqe));
	assert_int_equal(cqe.tag, 77);
	pread(fd, &tail, 4, info.ctl_offset + offsetof(struct vnpu_fw_ctl, cq_tail));
	assert_int_equal(tail, 5);
	pread(fd, &tail, 4, info.status_offset + 2 * 4096);
	assert_int_equal(tail, 9);
	port_kmd_close(&p);
	close(fd);
}

static void a_refused_access_becomes_a_fault_with_address_and_direction(void **state)
{
	struct fw_aspace as = { .ctx = 1 };
	struct fw_fault fault;
	struct vnpu_fw_info info;
	int fd = make_fd(&info), round;
	struct port_kmd p;
	const char *what;

	assert_int_equal(port_kmd_open(&p, fd, &what), 0);
	assert_int_equal(p.port.ops->map(p.port.priv, &as), 0);
	assert_int_equal(as.size, 1ull << FAKE_VA_BITS);
	/* Again and again: a handler that leaves its signal blocked would end the process the second time. */
	for (round = 0; round < 3; round++) {
		assert_int_equal(guarded(&p, &as, BOUND - 1, true, &fault), 0);
		assert_int_equal(as.base[BOUND - 1], 42);
		assert_int_equal(guarded(&p, &as, BOUND + 5, false, &fault), -EFAULT);
		assert_int_equal(fault.va, BOUND + 5);
		assert_false(fault.write);
		assert_int_equal(guarded(&p, &as, as.size - 1, true, &fault), -EFAULT);
		assert_int_equal(fault.va, as.size - 1);
#if defined(__x86_64__)
		assert_true(fault.write);
#endif
	}
	p.port.ops->unmap(p.port.priv, &as);
	port_kmd_close(&p);
	close(fd);
}

struct many {
	struct port_kmd *p;
	struct fw_aspace *as;
	uint64_t va;
	int bad;
};

static void *fault_often(void *arg)
{
	struct many *m = arg;
	struct fw_fault fault;
	int i;

	for (i = 0; i < 1000; i++)
		if (guarded(m->p, m->as, m->va, i % 2, &fault) != -EFAULT || fault.va != m->va)
			m->bad++;
	return NULL;
}

static void workers_fault_independently(void **state)
{
	struct fw_aspace as = { .ctx = 1 };
	struct vnpu_fw_info info;
	int fd = make_fd(&info), i;
	struct many many[4];
	pthread_t threads[4];
	struct port_kmd p;
	const char *what;

	assert_int_equal(port_kmd_open(&p, fd, &what), 0);
	assert_int_equal(p.port.ops->map(p.port.priv, &as), 0);
	for (i = 0; i < 4; i++) {
		many[i] = (struct many){ &p, &as, BOUND + i * 4096 + i, 0 };
		pthread_create(&threads[i], NULL, fault_often, &many[i]);
	}
	for (i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(many[i].bad, 0);
	}
	p.port.ops->unmap(p.port.priv, &as);
	port_kmd_close(&p);
	close(fd);
}

/* A child that runs @fn must die of SIGBUS. */
static void assert_sigbus(void (*fn)(struct port_kmd *p, struct fw_aspace *as))
{
	struct fw_aspace as = { .ctx = 1 };
	struct vnpu_fw_info info;
	int fd = make_fd(&info), status;
	struct port_kmd p;
	const char *what;
	pid_t pid = fork();

	if (!pid) {
		/* No core file, no report: it is meant to die. */
		signal(SIGABRT, SIG_DFL);
		if (port_kmd_open(&p, fd, &what) || p.port.ops->map(p.port.priv, &as))
			_exit(1);
		fn(&p, &as);
		_exit(2);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGBUS);
	close(fd);
}

static void outside_of_guards(struct port_kmd *p, struct fw_aspace *as)
{
	*(volatile uint8_t *)(as->base + BOUND);
}

static void after_a_guard(struct port_kmd *p, struct fw_aspace *as)
{
	struct fw_fault fault;

	guarded(p, as, BOUND, false, &fault);
	*(volatile uint8_t *)(as->base + BOUND);
}

/* In a guard, but at an address that is not the context's. */
static void in_foreign_memory(struct port_kmd *p, struct fw_aspace *as)
{
	struct fw_aspace other = { .ctx = 1 };
	struct fw_fault fault;

	if (p->port.ops->map(p->port.priv, &other))
		_exit(1);
	guarded(p, as, other.base + BOUND - as->base, false, &fault);
}

static void a_sigbus_outside_of_a_guard_is_a_crash(void **state)
{
	assert_sigbus(outside_of_guards);
	assert_sigbus(after_a_guard);
	assert_sigbus(in_foreign_memory);
}

/* The kernel takes the rings away by making the file shorter than they are. */
static void rings_that_are_taken_away_end_neither_reader_nor_writer(void **state)
{
	struct fw_aspace as = { .ctx = 1 };
	struct vnpu_fw_info info;
	struct fw_fault fault;
	int fd = make_fd(&info);
	struct port_kmd p;
	const char *what;

	assert_int_equal(port_kmd_open(&p, fd, &what), 0);
	assert_int_equal(p.port.ops->map(p.port.priv, &as), 0);
	p.port.ctl->cq_tail = 5;
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(__atomic_load_n(&p.port.info->sq_tail, __ATOMIC_ACQUIRE), 0);
	assert_int_equal(p.port.sq[15].type, 0);
	assert_int_equal(p.port.ctl->cq_tail, 0);
	p.port.ctl->cq_tail = 6;
	p.port.cq[255].tag = 77;
	p.port.status[2 * 4096 + 4095] = 1;
	assert_int_equal(p.port.ctl->cq_tail, 6);
	/* An access in a guard is a fault, as ever. */
	assert_int_equal(guarded(&p, &as, 0, true, &fault), -EFAULT);
	p.port.ops->unmap(p.port.priv, &as);
	port_kmd_close(&p);
	/* The next session finds its own. */
	close(fd);
	fd = make_fd(&info);
	assert_int_equal(port_kmd_open(&p, fd, &what), 0);
	assert_int_equal(p.port.info->nr_queues, 3);
	port_kmd_close(&p);
	close(fd);
}

static void what_is_no_firmware_fd_is_refused(void **state)
{
	struct vnpu_fw_info info;
	int fd = make_fd(&info);
	struct port_kmd p;
	const char *what;

	info.version++;
	pwrite(fd, &info, sizeof(info), 0);
	assert_int_equal(port_kmd_open(&p, fd, &what), -EPROTO);
	assert_string_equal(what, "info page");
	assert_int_equal(p.nr_maps, 0);
	info.version--;
	info.cq_offset = 3; /* no page */
	pwrite(fd, &info, sizeof(info), 0);
	assert_int_equal(port_kmd_open(&p, fd, &what), -EINVAL);
	assert_string_equal(what, "completion ring");
	close(fd);
	assert_int_equal(port_kmd_open(&p, fd, &what), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rings_are_mapped_where_the_info_page_says),
		cmocka_unit_test(a_refused_access_becomes_a_fault_with_address_and_direction),
		cmocka_unit_test(workers_fault_independently),
		cmocka_unit_test(a_sigbus_outside_of_a_guard_is_a_crash),
		cmocka_unit_test(rings_that_are_taken_away_end_neither_reader_nor_writer),
		cmocka_unit_test(what_is_no_firmware_fd_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
