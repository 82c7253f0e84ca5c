// SPDX-License-Identifier: MIT
/*
 * A process of firmwares that misbehave. Each thread adds devices or takes over orphans. It answers
 * jobs correctly for a while so that clients get somewhere; in between it answers twice, late, for
 * other jobs, out of order or not at all, reports progress that it does not make, lowers values
 * that may only rise, writes random values into rings, indices and status pages, maps and unmaps
 * apertures, and exits at any point. One more thread makes random calls on the control node. Two
 * promises are checked: memory that the firmware may only read stays unchanged, and requested
 * features that the kernel does not know are not granted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"

#define NR_FIRMWARES 2
#define NR_REMEMBERED 64
#define NR_APERTURES 8
#define APERTURE_BYTES (8ul << 20)
/* Memory limit of one device's clients, because the machine is small. */
#define MEM_LIMIT (48ull << 20)
#define MAX_DEVICES 5

struct aperture {
	uint8_t *p;
	size_t size;
	uint32_t ctx;
};

struct firmware {
	int fd;
	uint32_t dev_id;
	struct vnpu_fw_info info; /* a copy */
	const struct vnpu_fw_info *shared;
	struct vnpu_fw_ctl *ctl;
	const struct vnpu_fw_sqe *sq;
	struct vnpu_fw_cqe *cq;
	uint8_t *status;
	uint32_t sq_head;
	uint32_t cq_tail;
	uint32_t malice; /* one in this many steps is a lie */
	struct vnpu_fw_sqe seen[NR_REMEMBERED]; /* the last entries, answered or not */
	uint32_t nr_seen;
	struct aperture apertures[NR_APERTURES];
	uint32_t steps;
};

static int zombies[8]; /* firmware fds that nobody serves, or that their owner still serves */

/* ---- getting a device ---- */

static uint32_t count_devices(int control)
{
	struct vnpu_ctl_info info = { 0 };
	uint32_t nr = 0;

	while (!fz_ioctl(FZ_CTL_INFO, control, &info)) {
		info = (struct vnpu_ctl_info){ .dev_id = info.dev_id + 1 };
		nr++;
	}
	return nr;
}

/*
 * The size that a structure claims, and the bytes behind it, as from a firmware older or newer than
 * the kernel.
 */
static uint32_t any_size(uint8_t *tail, uint32_t tail_bytes, uint32_t size)
{
	if (!fz_one_in(6))
		return size;
	if (fz_one_in(3))
		tail[fz_below(tail_bytes)] = 1;
	if (!fz_one_in(4))
		return size - 16 + 8 * fz_below(tail_bytes / 8);
	/* Not so large that the kernel would read more of the stack. */
	size = fz_number(size);
	return size < tail_bytes ? size : UINT32_MAX - fz_below(64);
}

static int add_dev(int control, struct firmware *fw)
{
	struct {
		struct vnpu_ctl_add_dev add;
		uint8_t tail[64];
	} newer = { .add = {
			    .size = sizeof(struct vnpu_ctl_add_dev),
			    .version = VNPU_FW_ABI,
			    .abi_features = fz_one_in(2) ? 0 : fz_number(VNPU_FW_FEATURES),
			    .client_features = fz_rand(),
			    .name = "liar",
			    .isa_version = 1 << 16,
			    .nr_queues = 1 + fz_below(12),
			    .queue_depth = 1u << fz_below(5),
			    .nr_ctx = 1 + fz_below(8),
			    .va_bits = 30 + fz_below(11),
			    .timeout_ms = fz_one_in(2) ? 0 : 100 + fz_below(1000),
			    .max_timeout_ms = fz_one_in(2) ? 0 : 1100 + fz_below(2000),
		    } };
	struct vnpu_ctl_add_dev *add = &newer.add;

	add->size = any_size(newer.tail, sizeof(newer.tail), add->size);
	if (fz_one_in(5))
		fz_mutate(add, sizeof(*add));
	if (!add->mem_limit || add->mem_limit > MEM_LIMIT)
		add->mem_limit = MEM_LIMIT;
	if (count_devices(control) >= MAX_DEVICES)
		return -EBUSY;
	if (fz_one_in(40))
		return fz_ioctl(FZ_CTL_ADD_DEV, control, (void *)(uintptr_t)fz_pointer());
	if (fz_ioctl(FZ_CTL_ADD_DEV, control, add))
		return -1;
	if (add->abi_features & ~VNPU_FW_FEATURES)
		fz_wrong("ADD_DEV granted features 0x%llx", (unsigned long long)add->abi_features);
	fw->fd = add->fw_fd;
	fw->dev_id = add->dev_id;
	return 0;
}

static int attach(int control, struct firmware *fw)
{
	struct {
		struct vnpu_ctl_attach attach;
		uint8_t tail[64];
	} newer = { .attach = { .size = sizeof(struct vnpu_ctl_attach),
				.version = VNPU_FW_ABI,
				.abi_features = fz_one_in(2) ? 0 : fz_rand() } };
	struct vnpu_ctl_attach *attach = &newer.attach;
	struct vnpu_ctl_info info;

	if (!fz_any_device(&info))
		return -ENOENT;
	attach->dev_id = info.dev_id;
	attach->size = any_size(newer.tail, sizeof(newer.tail), attach->size);
	if (fz_one_in(10))
		fz_mutate(attach, sizeof(*attach));
	if (fz_ioctl(FZ_CTL_ATTACH, control, attach))
		return -1;
	if (attach->abi_features & ~VNPU_FW_FEATURES)
		fz_wrong("ATTACH granted features 0x%llx",
			 (unsigned long long)attach->abi_features);
	fw->fd = attach->fw_fd;
	fw->dev_id = attach->dev_id;
	return 0;
}

static void *map(int fd, uint64_t offset, uint64_t size, int prot)
{
	void *p = mmap(NULL, (size + PAGE - 1) & ~(PAGE - 1), prot, MAP_SHARED, fd, offset);

	fz_count(FZ_MMAP, p == MAP_FAILED ? -1 : 0);
	return p == MAP_FAILED ? NULL : p;
}

static void copy_info(void *arg)
{
	struct firmware *fw = arg;

	fw->info = *fw->shared;
}

static bool map_rings(struct firmware *fw)
{
	fw->shared = map(fw->fd, 0, PAGE, PROT_READ);
	if (!fw->shared || !fz_guard(copy_info, fw) || fw->info.magic != VNPU_FW_INFO_MAGIC)
		return false;
	fw->ctl = map(fw->fd, fw->info.ctl_offset, PAGE, PROT_READ | PROT_WRITE);
	fw->sq = map(fw->fd, fw->info.sq_offset, fw->info.sq_entries * sizeof(*fw->sq), PROT_READ);
	fw->cq = map(fw->fd, fw->info.cq_offset, fw->info.cq_entries * sizeof(*fw->cq),
		     PROT_READ | PROT_WRITE);
	fw->status = map(fw->fd, fw->info.status_offset, fw->info.nr_queues * PAGE,
			 PROT_READ | PROT_WRITE);
	return fw->ctl && fw->sq && fw->cq && fw->status;
}

static void unmap(const void *p, size_t size)
{
	if (p)
		munmap((void *)p, (size + PAGE - 1) & ~(PAGE - 1));
}

static void unmap_rings(struct firmware *fw)
{
	unmap(fw->ctl, PAGE);
	unmap(fw->sq, fw->info.sq_entries * sizeof(*fw->sq));
	unmap(fw->cq, fw->info.cq_entries * sizeof(*fw->cq));
	unmap(fw->status, fw->info.nr_queues * PAGE);
	unmap(fw->shared, PAGE);
	for (int i = 0; i < NR_APERTURES; i++)
		unmap(fw->apertures[i].p, fw->apertures[i].size);
}

/* Tries to write memory that only the kernel may write. */
static void try_to_write(struct firmware *fw)
{
	struct {
		const char *what;
		uint64_t offset;
		void *p;
	} pages[] = { { "the info page", 0, (void *)fw->shared },
		      { "the submission ring", fw->info.sq_offset, (void *)fw->sq } };
	int i = fz_below(2);
	void *p = map(fw->fd, pages[i].offset, PAGE, PROT_READ | PROT_WRITE);

	if (p) {
		fz_wrong("%s can be mapped writable", pages[i].what);
		unmap(p, PAGE);
	}
	if (!fz_count(FZ_MPROTECT, mprotect(pages[i].p, PAGE, PROT_READ | PROT_WRITE)))
		fz_wrong("%s can be made writable", pages[i].what);
}

/* ---- apertures ---- */

static void map_aperture(struct firmware *fw, uint32_t ctx)
{
	struct aperture *a = &fw->apertures[fz_below(NR_APERTURES)];
	uint64_t offset = (uint64_t)ctx << fw->info.va_bits;

	unmap(a->p, a->size);
	a->size = fz_one_in(4) ? (1 + fz_below(64)) * PAGE : APERTURE_BYTES;
	a->p = mmap(NULL, a->size, fz_one_in(4) ? PROT_READ : PROT_READ | PROT_WRITE,
		    fz_one_in(30) ? MAP_PRIVATE : MAP_SHARED, fw->fd,
		    offset + (fz_one_in(4) ? fz_below(32) * PAGE : 0));
	a->ctx = ctx;
	fz_count(FZ_MMAP, a->p == MAP_FAILED ? -1 : 0);
	if (a->p == MAP_FAILED)
		a->p = NULL;
}

static void use_aperture(struct firmware *fw)
{
	struct aperture *a = &fw->apertures[fz_below(NR_APERTURES)];
	size_t at = fz_below(APERTURE_BYTES / PAGE) * PAGE;

	if (!a->p)
		return;
	/* Bindings start at multiples of this. */
	if (!fz_one_in(4))
		at = 0x10000 + fz_below(16) * 0x40000 + fz_below(4) * PAGE;
	if (at >= a->size)
		at = fz_below(a->size / PAGE) * PAGE;
	switch (fz_below(12)) {
	case 0:
		unmap(a->p, a->size);
		a->p = NULL;
		break;
	case 1:
		fz_count(FZ_MPROTECT, mprotect(a->p, a->size, fz_below(8)));
		break;
	case 2:
		madvise(a->p, a->size, fz_one_in(2) ? MADV_DONTNEED : MADV_DONTFORK);
		break;
	default:
		fz_touch(a->p + at, fz_one_in(2));
	}
}

/* ---- answers ---- */

static struct drm_vnpu_queue_status *status_page(struct firmware *fw, uint32_t queue)
{
	return (void *)(fw->status + queue % fw->info.nr_queues * PAGE);
}

static void post(struct firmware *fw, struct vnpu_fw_cqe cqe)
{
	fw->cq[fw->cq_tail & (fw->info.cq_entries - 1)] = cqe;
	__atomic_store_n(&fw->ctl->cq_tail, ++fw->cq_tail, __ATOMIC_RELEASE);
	__atomic_fetch_add(&fz->jobs_posted, 1, __ATOMIC_RELAXED);
}

/* By the ABI: only upwards, by compare-and-swap. */
static void complete(struct drm_vnpu_queue_status *page, uint64_t seqno)
{
	uint64_t old = __atomic_load_n(&page->completed_seqno, __ATOMIC_RELAXED);

	while (old < seqno &&
	       !__atomic_compare_exchange_n(&page->completed_seqno, &old, seqno, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static void answer(struct firmware *fw, const struct vnpu_fw_sqe *sqe)
{
	static const uint32_t results[] = { VNPU_FW_INVALID, VNPU_FW_FAULT, VNPU_FW_CANCELED,
					    VNPU_FW_FAILED, 77 };
	struct drm_vnpu_queue_status *page = status_page(fw, sqe->queue);
	struct vnpu_fw_cqe cqe = { .type = VNPU_FW_CQE_DONE,
				   .tag = sqe->tag,
				   .busy_ns = fz_below(100000) };

	if (sqe->type == VNPU_FW_SQE_CTX_CLOSE) {
		for (int i = 0; i < NR_APERTURES; i++) {
			struct aperture *a = &fw->apertures[i];

			if (a->p && a->ctx == sqe->ctx && !fz_one_in(8)) {
				unmap(a->p, a->size);
				a->p = NULL;
			}
		}
		cqe = (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_CTX_CLOSED, .tag = sqe->ctx };
	} else if (sqe->type == VNPU_FW_SQE_JOB) {
		if (fz_one_in(10)) {
			cqe.status = results[fz_below(5)];
			cqe.fault_va = fz_number(0);
			cqe.flags = fz_below(2);
		}
		page->started_seqno = sqe->seqno;
		page->progress += 1 + fz_below(3);
		complete(page, sqe->seqno);
	}
	if (fz_one_in(fw->malice))
		fz_mutate(&cqe, sizeof(cqe));
	else if (fz_one_in(fw->malice))
		(fz_one_in(2) ? &cqe.flags : &cqe.pad)[0] = 1u << fz_below(32);
	post(fw, cqe);
}

/* Takes the next entries and answers them at once, later, or not at all. */
static void take(struct firmware *fw)
{
	uint32_t tail = __atomic_load_n(&fw->shared->sq_tail, __ATOMIC_ACQUIRE);

	while (fw->sq_head != tail) {
		struct vnpu_fw_sqe sqe = fw->sq[fw->sq_head & (fw->info.sq_entries - 1)];

		__atomic_store_n(&fw->ctl->sq_head, ++fw->sq_head, __ATOMIC_RELEASE);
		fw->seen[fw->nr_seen++ % NR_REMEMBERED] = sqe;
		if (sqe.type == VNPU_FW_SQE_JOB && fz_one_in(8))
			map_aperture(fw, sqe.ctx);
		if (!fz_one_in(fw->malice))
			answer(fw, &sqe);
	}
}

/* ---- lies ---- */

static void enter(struct firmware *fw)
{
	struct vnpu_fw_enter e = { .flags = VNPU_FW_ENTER_COMPLETE |
					    (fz_one_in(2) ? VNPU_FW_ENTER_WAIT : 0),
				   .sq_seen = fw->sq_head,
				   .timeout_ns = fz_now_ns() + fz_below(3000000) };
	struct pollfd p = { fw->fd, POLLIN, 0 };
	int ret;

	if (fz_one_in(20))
		fz_count(FZ_POLL, poll(&p, 1, fz_below(3)));
	if (fz_one_in(fw->malice * 4))
		fz_mutate(&e, sizeof(e));
	/* Nothing wakes this process. */
	if ((e.flags & VNPU_FW_ENTER_WAIT) &&
	    (e.timeout_ns < 0 || e.timeout_ns > fz_now_ns() + 20000000))
		e.timeout_ns = fz_now_ns() + 20000000;
	ret = fz_ioctl(FZ_FW_ENTER, fw->fd,
		       fz_one_in(fw->malice * 8) ? (void *)(uintptr_t)fz_pointer() : &e);
	if (ret == -EIO || ret == -ENODEV || ret == -EPROTO)
		fw->steps = fw->steps > 5 ? 5 : fw->steps;
}

/* Reports that a job has started and makes progress, without end. */
static void claim(struct firmware *fw, const struct vnpu_fw_sqe *sqe)
{
	struct drm_vnpu_queue_status *page = status_page(fw, sqe->queue);

	page->started_seqno = fz_one_in(3) ? fz_number(sqe->seqno) : sqe->seqno;
	for (int i = fz_below(20); i > 0; i--) {
		page->progress += fz_one_in(8) ? fz_rand() : 1;
		fz_sleep_ms(fz_below(3));
	}
}

static void take_back(struct drm_vnpu_queue_status *page)
{
	__u64 *word = fz_one_in(3) ? &page->started_seqno : &page->completed_seqno;

	*word = fz_one_in(2) ? 0 : *word - 1 - fz_below(4);
}

/* Mostly not the indices, because bad ones are soon detected. */
static void spoil_rings(struct firmware *fw)
{
	uint32_t *words = (uint32_t *)fw->ctl;
	uint8_t *entry = (uint8_t *)&fw->cq[fz_below(fw->info.cq_entries)];

	for (int i = fz_below(16); i > 0; i--) {
		uint32_t at = fz_below(PAGE / 4);

		if (&words[at] != &fw->ctl->sq_head && &words[at] != &fw->ctl->cq_tail)
			words[at] = fz_rand();
	}
	for (size_t i = 0; i < sizeof(*fw->cq); i++)
		entry[i] = fz_rand();
	if (fz_one_in(4))
		__atomic_store_n(&fw->ctl->cq_tail, ++fw->cq_tail, __ATOMIC_RELEASE);
}

static void lie(struct firmware *fw)
{
	struct vnpu_fw_sqe *old = &fw->seen[fz_below(NR_REMEMBERED)];
	uint64_t *words = (uint64_t *)status_page(fw, fz_below(fw->info.nr_queues));
	struct vnpu_fw_start start = { .flags = fz_one_in(4) };

	switch (fz_below(20)) {
	case 0 ... 3: /* twice, late, out of order */
		answer(fw, old);
		break;
	case 4: /* another's */
		post(fw, (struct vnpu_fw_cqe){ .type = fz_below(4),
					       .status = fz_below(6),
					       .tag = (uint64_t)fz_below(8) << 32 | fz_below(64),
					       .busy_ns = fz_rand() });
		break;
	case 5:
		post(fw,
		     (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_CTX_CLOSED, .tag = fz_number(1) });
		break;
	case 6 ... 9: /* progress that is not made */
		words[fz_below(4)] = fz_one_in(2) ? fz_number(words[0]) : words[0] + fz_below(3);
		break;
	case 10:
		memset(words, fz_below(256), PAGE);
		break;
	case 11:
		fz_ioctl(FZ_FW_START, fw->fd, &start);
		break;
	case 12:
		fz_pass(fw->fd);
		break;
	case 13: /* a jump of an index, which mostly ends the session */
		if (fz_one_in(6))
			fw->ctl->cq_tail = fz_number(fw->cq_tail);
		else if (fz_one_in(6))
			fw->ctl->sq_head = fz_number(fw->sq_head);
		break;
	case 14:
		map_aperture(fw, fz_one_in(8) ? fz_number(1) : fz_below(fw->info.nr_ctx + 2));
		break;
	case 15:
		claim(fw, old);
		break;
	case 16:
		take_back((struct drm_vnpu_queue_status *)words);
		break;
	case 17:
		spoil_rings(fw);
		break;
	case 18:
		try_to_write(fw);
		break;
	default:
		fz_sleep_ms(fz_one_in(20) ? fz_below(600) : fz_below(5));
	}
}

static void serve(void *arg)
{
	struct firmware *fw = arg;

	while (fw->steps && !fz_stopped()) {
		fw->steps--;
		take(fw);
		use_aperture(fw);
		if (fz_one_in(fw->malice))
			lie(fw);
		if (!fz_one_in(4))
			enter(fw);
	}
}

/* ---- lives ---- */

static void fork_once(struct firmware *fw)
{
	pid_t pid = fork();

	if (!pid) {
		fz_seed_thread();
		for (int i = 0; i < 5; i++)
			enter(fw);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void firmware_leaves(struct firmware *fw, int control)
{
	struct vnpu_ctl_del_dev del = { .dev_id = fw->dev_id };
	int old = -1;

	if (fz_one_in(2))
		unmap_rings(fw);
	if (fz_one_in(12))
		fork_once(fw);
	if (fz_one_in(6))
		fz_ioctl(FZ_CTL_DEL_DEV, control, &del);
	if (fz_one_in(8))
		old = __atomic_exchange_n(&zombies[fz_below(8)], fw->fd, __ATOMIC_RELAXED);
	else
		close(fw->fd);
	if (old >= 0)
		close(old);
}

static void *firmware_thread(void *unused)
{
	static const uint32_t malices[] = { 3, 10, 40, 200 };
	int control = fz_control();

	fz_seed_thread();
	while (!fz_stopped()) {
		struct firmware fw = { .fd = -1,
				       .malice = malices[fz_below(4)],
				       .steps = fz_below(1500) };
		struct vnpu_fw_start start = { 0 };

		if (fz_one_in(2) ? add_dev(control, &fw) && attach(control, &fw)
				 : attach(control, &fw)) {
			fz_sleep_ms(1 + fz_below(10));
			continue;
		}
		if (!map_rings(&fw)) {
			close(fw.fd);
			continue;
		}
		if (!fz_one_in(12) && !fz_ioctl(FZ_FW_START, fw.fd, &start))
			fz_guard(serve, &fw);
		firmware_leaves(&fw, control);
	}
	return NULL;
}

/* ---- the control node ---- */

static void control_step(int control)
{
	struct vnpu_ctl_version version;
	struct vnpu_ctl_info info = { .dev_id = fz_below(8) };
	struct vnpu_ctl_del_dev del = { 0 };
	struct vnpu_fw_enter enter = { .flags = fz_below(4),
				       .timeout_ns = fz_now_ns() + fz_below(5000000) };
	struct firmware fw = { .fd = -1 };
	int fd = __atomic_load_n(&zombies[fz_below(8)], __ATOMIC_RELAXED);

	switch (fz_below(16)) {
	case 0:
		fz_ioctl(FZ_CTL_VERSION, control,
			 fz_one_in(2) ? (void *)(uintptr_t)fz_pointer() : &version);
		break;
	case 1:
	case 2:
		if (fz_one_in(3))
			fz_mutate(&info, sizeof(info));
		fz_ioctl(FZ_CTL_INFO, control, &info);
		break;
	case 3:
		if (!add_dev(control, &fw) || !attach(control, &fw))
			close(fw.fd);
		break;
	case 4:
		del.dev_id = fz_number(1);
		if (fz_one_in(30) && fz_any_device(&info))
			del.dev_id = info.dev_id;
		if (del.dev_id != (uint32_t)fz->real_dev || fz_one_in(10))
			fz_ioctl(FZ_CTL_DEL_DEV, control, &del);
		break;
	case 5:
		if (fd >= 0)
			fz_pass(fd);
		break;
	case 6:
		fd = fz_take_passed();
		if (fd >= 0)
			fd = __atomic_exchange_n(&zombies[fz_below(8)], fd, __ATOMIC_RELAXED);
		if (fd >= 0)
			close(fd);
		break;
	default:
		fz_ioctl(FZ_FW_ENTER, fd, &enter);
		fz_sleep_ms(fz_below(4));
	}
}

_Noreturn void fz_liar(void)
{
	pthread_t thread;
	int control = fz_control();

	fz_catch_faults();
	for (int i = 0; i < 8; i++)
		zombies[i] = -1;
	for (int i = 0; i < NR_FIRMWARES; i++)
		if (pthread_create(&thread, NULL, firmware_thread, NULL))
			_exit(4);
	while (!fz_stopped())
		control_step(control);
	_exit(0);
}
