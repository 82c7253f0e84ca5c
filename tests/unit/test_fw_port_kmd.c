// SPDX-License-Identifier: MIT
/*
 * The daemon's port, with a file in place of the firmware fd: it has the same layout, and ends
 * inside an aperture, so that pages beyond its end raise SIGBUS as unbound ones do.
 */
#include "fw_fake.h"

#include <signal.h>
#include <sys/wait.h>

#include "fw_esr.h"
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
		.cq_entries = 256, /* more than a page */
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
static int guarded(struct port_kmd *p, struct fw_aspace *as, uint64_t va, bool write,
		   struct fw_fault *fault)
{
	struct access a = { as->base + va, write, 42 };
	struct fw_access acc = { va, 1, write };

	return p->port.ops->guard(p->port.priv, as, &acc, 1, touch, &a, fault);
}

static void the_rings_are_mapped_at_the_info_page_s_offsets(void **state)
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
	/* Several times: a handler that left its signal blocked would kill the process then. */
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
		/* The child is meant to die, without a core file or report. */
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

/* In a guard, but at an address outside the context. */
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

/* The test revokes the rings by truncating the file. */
static void revoked_rings_kill_neither_readers_nor_writers(void **state)
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
	/* The info page has its constants, and over is set. */
	assert_int_equal(p.port.info->over, 1);
	assert_int_equal(p.port.info->nr_queues, 3);
	/* An access in a guard faults as usual. */
	assert_int_equal(guarded(&p, &as, 0, true, &fault), -EFAULT);
	p.port.ops->unmap(p.port.priv, &as);
	port_kmd_close(&p);
	/* The next session has rings of its own. */
	close(fd);
	fd = make_fd(&info);
	assert_int_equal(port_kmd_open(&p, fd, &what), 0);
	assert_int_equal(p.port.info->nr_queues, 3);
	port_kmd_close(&p);
	close(fd);
}

/* ---- a core on a file that is revoked -------------------------------------------------------- */

struct session {
	struct vnpu_fw_info info;
	struct port_kmd p;
	struct fw_port_ops ops; /* the port's, except enter */
	struct fw_core *core;
	pthread_t thread;
	int fd, ret;
	_Atomic int error; /* returned by enter */
	char log[1024];
};

static struct session *entered;

static int session_enter(void *priv, uint32_t flags, uint32_t sq_seen, int64_t timeout_ns)
{
	usleep(flags & VNPU_FW_ENTER_WAIT ? 1000 : 0);
	return atomic_load(&entered->error);
}

static void session_log(void *ud, const char *line)
{
	struct session *s = ud;
	size_t n = strlen(s->log);

	snprintf(s->log + n, sizeof(s->log) - n, "%s\n", line);
}

static void *session_run(void *arg)
{
	struct session *s = arg;

	s->ret = fw_core_run(s->core);
	return NULL;
}

static struct session *session_start(unsigned int spin_us)
{
	struct session *s = calloc(1, sizeof(*s));
	struct fw_config cfg = { .threads = 3, .spin_us = spin_us, .log = session_log, .ud = s };
	const char *what;

	entered = s;
	s->fd = make_fd(&s->info);
	assert_int_equal(port_kmd_open(&s->p, s->fd, &what), 0);
	s->ops = *s->p.port.ops;
	s->ops.enter = session_enter;
	s->p.port.ops = &s->ops;
	s->core = fw_core_create(&cfg, &s->p.port);
	assert_non_null(s->core);
	assert_int_equal(pthread_create(&s->thread, NULL, session_run, s), 0);
	return s;
}

/* Waits for the core to end with @ret, without blaming the rings. */
static void session_ends(struct session *s, int ret)
{
	pthread_join(s->thread, NULL);
	assert_int_equal(s->ret, ret);
	assert_null(fw_core_broken(s->core));
	assert_string_equal(s->log, "");
	fw_core_destroy(s->core);
	port_kmd_close(&s->p);
	close(s->fd);
	free(s);
}

/* Submits a job that computes for a moment and then sleeps for a minute. */
static void submit_sleeper(struct session *s)
{
	struct vnpu_cmd_binary add = {
		.rows = 1024,
		.cols = 3,
		.lda = 3,
		.ldb = 3,
		.ldy = 3,
	};
	struct job_builder b;
	struct vnpu_fw_sqe job;
	unsigned int i;

	job_begin(&b);
	add.a = add.b = ref_to(job_slot(&b, 0, 12288, VNPU_SLOT_READ), 0);
	add.y = ref_to(job_slot(&b, 16384, 12288, VNPU_SLOT_READ | VNPU_SLOT_WRITE), 0);
	for (i = 0; i < 60; i++)
		job_cmd(&b, VNPU_OP_ADD, &add, sizeof(add));
	job_sleep(&b, 60000000000ull);
	job_end(&b);
	pwrite(s->fd, b.stream, b.stream_bytes, APERTURE + 32768);
	pwrite(s->fd, b.table, b.table_bytes, APERTURE + 32768 + 8192);
	job = (struct vnpu_fw_sqe){
		.type = VNPU_FW_SQE_JOB,
		.priority = 1,
		.ctx = 1,
		.tag = 7,
		.seqno = 7,
		.cmd_va = 32768,
		.table_va = 32768 + 8192,
		.cmd_size = b.stream_bytes,
		.table_size = b.table_bytes,
	};
	pwrite(s->fd, &job, sizeof(job), s->info.sq_offset);
	i = 1;
	pwrite(s->fd, &i, sizeof(i), offsetof(struct vnpu_fw_info, sq_tail));
}

/*
 * All orders in which a firmware may learn it: from what it reads, from SIGBUS, from ENTER's error,
 * and late. With a job, over is set before, as the kernel does: a file that is truncated refuses
 * pages of an aperture before those of the rings are gone, which alone is a fault of the job.
 */
static void revoked_rings_end_the_session_without_a_protocol_error(void **state)
{
	static const unsigned int spins[] = { 0, 3600000000u };
	const uint32_t over = 1;
	struct session *s;
	unsigned int i;

	for (i = 0; i < 40; i++) {
		s = session_start(spins[i & 1]);
		if (i & 2)
			submit_sleeper(s);
		usleep(i * 100);
		if (i & (4 | 2))
			pwrite(s->fd, &over, sizeof(over), offsetof(struct vnpu_fw_info, over));
		if (i & 8)
			atomic_store(&s->error, -EIO);
		assert_int_equal(ftruncate(s->fd, 0), 0);
		usleep(i & 16 ? 500 : 0);
		atomic_store(&s->error, -EIO);
		session_ends(s, -EIO);
	}
}

static void enter_says_why_a_session_that_lost_its_rings_is_over(void **state)
{
	struct session *s = session_start(3600000000u);

	atomic_store(&s->error, -ENODEV);
	assert_int_equal(ftruncate(s->fd, 0), 0);
	session_ends(s, -ENODEV);
}

struct reader {
	struct port_kmd *p;
	bool wrong;
};

/* Reads the rings until the session is over; must not see other memory before that. */
static void *read_until_over(void *arg)
{
	struct reader *r = arg;
	uint32_t entry;

	do {
		entry = __atomic_load_n(&r->p->port.sq[3].type, __ATOMIC_ACQUIRE);
		if (!entry && !__atomic_load_n(&r->p->port.info->over, __ATOMIC_ACQUIRE))
			r->wrong = true;
		__atomic_store_n(&r->p->port.ctl->cq_tail, 1, __ATOMIC_RELEASE);
	} while (!__atomic_load_n(&r->p->port.info->over, __ATOMIC_ACQUIRE));
	return NULL;
}

static void a_reader_of_revoked_rings_sees_that_the_session_is_over(void **state)
{
	struct reader readers[4];
	pthread_t threads[4];
	struct vnpu_fw_info info;
	struct port_kmd p;
	const char *what;
	uint32_t type = 1;
	int fd, i, round;

	for (round = 0; round < 50; round++) {
		fd = make_fd(&info);
		pwrite(fd, &type, sizeof(type), info.sq_offset + 3 * sizeof(struct vnpu_fw_sqe));
		assert_int_equal(port_kmd_open(&p, fd, &what), 0);
		for (i = 0; i < 4; i++) {
			readers[i] = (struct reader){ &p, false };
			pthread_create(&threads[i], NULL, read_until_over, &readers[i]);
		}
		usleep(200);
		assert_int_equal(ftruncate(fd, 0), 0);
		for (i = 0; i < 4; i++) {
			pthread_join(threads[i], NULL);
			assert_false(readers[i].wrong);
		}
		port_kmd_close(&p);
		close(fd);
	}
}

static void a_session_that_is_over_before_it_is_mapped_was_reset(void **state)
{
	struct vnpu_fw_info info;
	int fd = make_fd(&info);
	struct port_kmd p;
	const char *what;

	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(port_kmd_open(&p, fd, &what), -EIO);
	assert_int_equal(p.nr_maps, 0);
	close(fd);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void the_signal_frame_of_aarch64_distinguishes_writes_from_reads(void **state)
{
	struct {
		uint32_t magic, size;
		uint8_t fpsimd[520];
		uint32_t esr_magic, esr_size;
		uint64_t esr;
		uint32_t end_magic, end_size;
	} frame = { 0x46508001, 528, { 0 }, 0x45535201, 16, 0x9200004f, 0, 0 };

	/* Permission faults: write, read, cache maintenance, instruction fetch. */
	assert_true(fw_esr_is_write(&frame, sizeof(frame)));
	frame.esr = 0x9200000f;
	assert_false(fw_esr_is_write(&frame, sizeof(frame)));
	frame.esr = 0x9200014f;
	assert_false(fw_esr_is_write(&frame, sizeof(frame)));
	frame.esr = 0x8200004f;
	assert_false(fw_esr_is_write(&frame, sizeof(frame)));
	/* A frame without the record, and invalid records. */
	frame.esr = 0x9200004f;
	assert_false(fw_esr_is_write(&frame, 528));
	assert_false(fw_esr_is_write(&frame, 528 + 8));
	frame.size = 4;
	assert_false(fw_esr_is_write(&frame, sizeof(frame)));
	frame.size = 0;
	assert_false(fw_esr_is_write(&frame, sizeof(frame)));
	frame.size = 0xffffffff;
	assert_false(fw_esr_is_write(&frame, sizeof(frame)));
}

static void files_that_are_not_a_firmware_fd_are_refused(void **state)
{
	struct vnpu_fw_info info;
	int fd = make_fd(&info);
	struct port_kmd p;
	const char *what;

	info.version++;
	pwrite(fd, &info, sizeof(info), 0);
	assert_int_equal(port_kmd_open(&p, fd, &what), -EPROTO);
	assert_string_equal(what, "info page, which is of another ABI");
	assert_int_equal(p.nr_maps, 0);
	info.version--;
	info.abi_features = 1ull << 63;
	pwrite(fd, &info, sizeof(info), 0);
	assert_int_equal(port_kmd_open(&p, fd, &what), -EPROTO);
	info.abi_features = 0;
	info.cq_offset = 3; /* not page-aligned */
	pwrite(fd, &info, sizeof(info), 0);
	assert_int_equal(port_kmd_open(&p, fd, &what), -EINVAL);
	assert_string_equal(what, "completion ring");
	close(fd);
	assert_int_equal(port_kmd_open(&p, fd, &what), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rings_are_mapped_at_the_info_page_s_offsets),
		cmocka_unit_test(a_refused_access_becomes_a_fault_with_address_and_direction),
		cmocka_unit_test(workers_fault_independently),
		cmocka_unit_test(a_sigbus_outside_of_a_guard_is_a_crash),
		cmocka_unit_test(revoked_rings_kill_neither_readers_nor_writers),
		cmocka_unit_test(revoked_rings_end_the_session_without_a_protocol_error),
		cmocka_unit_test(enter_says_why_a_session_that_lost_its_rings_is_over),
		cmocka_unit_test(a_reader_of_revoked_rings_sees_that_the_session_is_over),
		cmocka_unit_test(a_session_that_is_over_before_it_is_mapped_was_reset),
		cmocka_unit_test(the_signal_frame_of_aarch64_distinguishes_writes_from_reads),
		cmocka_unit_test(files_that_are_not_a_firmware_fd_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
