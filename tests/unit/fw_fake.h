/* SPDX-License-Identifier: MIT */
/*
 * A kernel for the device core inside the test: rings, status pages, one aperture per context with
 * a map of bound pages, and a thread that runs the core. Also builds command streams and binding
 * tables.
 */
#ifndef FW_FAKE_H
#define FW_FAKE_H

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <drm/vnpu_accel.h>

#include "fw.h"
#include "fw_data.h"
#include "fw_stream.h"
#include "kernels.h"

#define FAKE_VA_BITS 30
#define FAKE_PAGES (1u << (FAKE_VA_BITS - 12))
#define FAKE_NR_CTX 4
#define FAKE_NR_QUEUES 8
#define FAKE_MAX_RING 256

#define UNUSED __attribute__((unused))

struct fake {
	struct vnpu_fw_info info;
	struct vnpu_fw_ctl ctl;
	struct vnpu_fw_sqe sq[FAKE_MAX_RING];
	struct vnpu_fw_cqe cq[FAKE_MAX_RING];
	_Alignas(8) uint8_t status[FAKE_NR_QUEUES * 4096];
	struct fw_port port;
	struct fw_core *core;
	pthread_t thread;
	int ret; /* of fw_core_run() */
	const struct soc_npu *npu; /* for the core */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint8_t *mem[FAKE_NR_CTX + 1];
	uint8_t *bound[FAKE_NR_CTX + 1]; /* per page: 0 no, 1 read-only, 2 */
	unsigned int nr_maps, nr_unmaps, nr_enters;
	struct vnpu_fw_cqe done[4096]; /* completions in order */
	unsigned int nr_done;
	bool frozen; /* enter() processes no completions */
	int enter_error; /* returned by enter() at once if not 0 */
	unsigned int says_late; /* number of calls of enter() before it returns enter_error */
	/* Guards give access only to the pages that they name; for cores with one thread. */
	bool strict;
	void (*on_guard)(struct fake *f); /* called in every guard, before fn */
	/* Set by fake_join(): the core's description of a broken protocol; else empty. */
	char broken[256];
	char last_log[512];
	char all_logs[4096];
};

static inline struct drm_vnpu_queue_status *fake_status(struct fake *f, uint32_t queue)
{
	return (struct drm_vnpu_queue_status *)(f->status + queue * 4096);
}

static int fake_enter(void *priv, uint32_t flags, uint32_t sq_seen, int64_t timeout_ns)
{
	struct fake *f = priv;
	struct timespec ts = { timeout_ns / 1000000000, timeout_ns % 1000000000 };
	uint32_t tail, head;

	pthread_mutex_lock(&f->lock);
	f->nr_enters++;
	if (f->enter_error && !f->says_late) {
		pthread_mutex_unlock(&f->lock);
		return f->enter_error;
	}
	tail = __atomic_load_n(&f->ctl.cq_tail, __ATOMIC_ACQUIRE);
	for (head = f->info.cq_head; !f->frozen && head != tail && f->nr_done < 4096; head++)
		f->done[f->nr_done++] = f->cq[head & (f->info.cq_entries - 1)];
	__atomic_store_n(&f->info.cq_head, head, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&f->changed);
	f->says_late -= f->enter_error && f->says_late;
	while (flags & VNPU_FW_ENTER_WAIT && f->info.sq_tail == sq_seen && !f->info.over) {
		if (timeout_ns < 0)
			pthread_cond_wait(&f->changed, &f->lock);
		else if (pthread_cond_timedwait(&f->changed, &f->lock, &ts))
			break;
	}
	pthread_mutex_unlock(&f->lock);
	return 0;
}

static int fake_map(void *priv, struct fw_aspace *as)
{
	struct fake *f = priv;

	f->nr_maps++;
	as->base = f->mem[as->ctx];
	as->size = 1ull << FAKE_VA_BITS;
	return 0;
}

static void fake_unmap(void *priv, struct fw_aspace *as)
{
	struct fake *f = priv;

	f->nr_unmaps++;
}

static void fake_allow(struct fw_aspace *as, const struct fw_access *acc, int prot)
{
	uint64_t start = acc->va & ~4095ull, end = (acc->va + acc->size + 4095) & ~4095ull;

	mprotect(as->base + start, end - start, prot);
}

static int fake_guard(void *priv, struct fw_aspace *as, const struct fw_access *acc,
		      unsigned int nr_acc, void (*fn)(void *arg), void *arg, struct fw_fault *fault)
{
	struct fake *f = priv;
	unsigned int i;
	uint64_t page;

	if (f->on_guard)
		f->on_guard(f);
	for (i = 0; i < nr_acc; i++) {
		for (page = acc[i].va >> 12; page <= (acc[i].va + acc[i].size - 1) >> 12; page++) {
			if (page < FAKE_PAGES && f->bound[as->ctx][page] > acc[i].write)
				continue;
			fault->va = page << 12 > acc[i].va ? page << 12 : acc[i].va;
			fault->write = acc[i].write;
			return -EFAULT;
		}
	}
	if (f->strict) {
		mprotect(as->base, 1ull << FAKE_VA_BITS, PROT_NONE);
		for (i = 0; i < nr_acc; i++)
			fake_allow(as, &acc[i], PROT_READ);
		for (i = 0; i < nr_acc; i++)
			if (acc[i].write)
				fake_allow(as, &acc[i], PROT_READ | PROT_WRITE);
	}
	fn(arg);
	if (f->strict)
		mprotect(as->base, 1ull << FAKE_VA_BITS, PROT_READ | PROT_WRITE);
	return 0;
}

static const struct fw_port_ops fake_ops = {
	.enter = fake_enter,
	.map = fake_map,
	.unmap = fake_unmap,
	.guard = fake_guard,
};

static void fake_log(void *ud, const char *line)
{
	struct fake *f = ud;
	size_t n = strlen(f->all_logs);

	snprintf(f->last_log, sizeof(f->last_log), "%s", line);
	snprintf(f->all_logs + n, sizeof(f->all_logs) - n, "%s\n", line);
}

/* Everything but the core. */
static UNUSED struct fake *fake_create(uint32_t ring)
{
	struct fake *f = calloc(1, sizeof(*f));
	pthread_condattr_t attr;
	int i;

	assert_non_null(f);
	f->info.magic = VNPU_FW_INFO_MAGIC;
	f->info.version = VNPU_FW_ABI;
	f->info.epoch = 1;
	f->info.sq_entries = f->info.cq_entries = ring;
	f->info.nr_queues = FAKE_NR_QUEUES;
	f->info.nr_ctx = FAKE_NR_CTX;
	f->info.va_bits = FAKE_VA_BITS;
	f->port = (struct fw_port){ &f->info, f->sq, &f->ctl, f->cq, f->status, &fake_ops, f };
	pthread_mutex_init(&f->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&f->changed, &attr);
	for (i = 1; i <= FAKE_NR_CTX; i++) {
		f->mem[i] = mmap(NULL, 1ull << FAKE_VA_BITS, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		assert_true(f->mem[i] != MAP_FAILED);
		f->bound[i] = calloc(1, FAKE_PAGES);
	}
	return f;
}

static void *fake_thread(void *arg)
{
	struct fake *f = arg;

	f->ret = fw_core_run(f->core);
	pthread_mutex_lock(&f->lock);
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

static UNUSED void fake_start(struct fake *f, unsigned int threads, unsigned int spin_us,
			      enum fw_isa isa)
{
	struct fw_config cfg = { .threads = threads,
				 .spin_us = spin_us,
				 .isa = isa,
				 .npu = f->npu,
				 .log = fake_log,
				 .ud = f };

	f->core = fw_core_create(&cfg, &f->port);
	assert_non_null(f->core);
	assert_int_equal(pthread_create(&f->thread, NULL, fake_thread, f), 0);
}

/* Ends the core. Returns the core's return value. */
static UNUSED int fake_stop(struct fake *f)
{
	fw_core_stop(f->core);
	pthread_mutex_lock(&f->lock);
	/* A new tail ends the core's sleep; the core stops before it reads the entry. */
	__atomic_store_n(&f->info.sq_tail, f->info.sq_tail + 1, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	fw_core_destroy(f->core);
	f->core = NULL;
	f->ctl.sq_head = f->info.sq_tail;
	return f->ret;
}

/* Ends the session as the kernel does: sets over; enter() returns @error after @late calls. */
static UNUSED void fake_end(struct fake *f, int error, unsigned int late)
{
	pthread_mutex_lock(&f->lock);
	__atomic_store_n(&f->info.over, 1, __ATOMIC_RELEASE);
	f->enter_error = error;
	f->says_late = late;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

/* Waits for the core to end. Returns its return value; fails the test after 30 s. */
static UNUSED int fake_join(struct fake *f)
{
	struct timespec ts;
	const char *broken;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += 30;
	if (pthread_timedjoin_np(f->thread, NULL, &ts))
		fail_msg("the core does not end");
	broken = fw_core_broken(f->core);
	snprintf(f->broken, sizeof(f->broken), "%s", broken ? broken : "");
	fw_core_destroy(f->core);
	f->core = NULL;
	return f->ret;
}

static UNUSED void fake_destroy(struct fake *f)
{
	int i;

	for (i = 1; i <= FAKE_NR_CTX; i++) {
		munmap(f->mem[i], 1ull << FAKE_VA_BITS);
		free(f->bound[i]);
	}
	free(f);
}

static UNUSED void fake_bind(struct fake *f, uint32_t ctx, uint64_t va, uint64_t size,
			     bool writable)
{
	memset(f->bound[ctx] + (va >> 12), writable ? 2 : 1, (size + 4095) >> 12);
}

/* Puts entries into the submission ring, all at once. */
static UNUSED void fake_submit(struct fake *f, const struct vnpu_fw_sqe *sqes, unsigned int nr)
{
	unsigned int i;

	pthread_mutex_lock(&f->lock);
	for (i = 0; i < nr; i++)
		f->sq[(f->info.sq_tail + i) & (f->info.sq_entries - 1)] = sqes[i];
	__atomic_store_n(&f->info.sq_tail, f->info.sq_tail + nr, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

/* Waits for completion @index (0, 1, ...); fails the test after 30 s. */
static UNUSED struct vnpu_fw_cqe fake_wait(struct fake *f, unsigned int index)
{
	struct vnpu_fw_cqe cqe;
	struct timespec ts;
	bool there;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += 30;
	pthread_mutex_lock(&f->lock);
	while (f->nr_done <= index)
		if (pthread_cond_timedwait(&f->changed, &f->lock, &ts))
			break;
	cqe = f->done[index];
	there = f->nr_done > index;
	pthread_mutex_unlock(&f->lock);
	assert_true(there);
	return cqe;
}

/* ---- streams --------------------------------------------------------------------------------- */

struct job_builder {
	_Alignas(8) uint8_t stream[8192];
	_Alignas(8) uint8_t table[4096];
	uint32_t stream_bytes, table_bytes;
	struct vnpu_slot slots[32];
	uint64_t params[8];
	uint32_t nr_slots, nr_params, nr_cmds;
};

static UNUSED void job_begin(struct job_builder *b)
{
	memset(b, 0, sizeof(*b));
	b->stream_bytes = sizeof(struct vnpu_stream_hdr);
}

static UNUSED uint32_t job_slot(struct job_builder *b, uint64_t va, uint64_t size, uint32_t flags)
{
	b->slots[b->nr_slots] = (struct vnpu_slot){ va, size, flags, 0 };
	return b->nr_slots++;
}

static UNUSED uint32_t job_param(struct job_builder *b, uint64_t value)
{
	b->params[b->nr_params] = value;
	return b->nr_params++;
}

/* Appends a command and fills in its header. Returns its address in the stream. */
static UNUSED void *job_cmd(struct job_builder *b, uint16_t op, void *cmd, uint32_t size)
{
	struct vnpu_cmd *hdr = cmd;
	void *at = b->stream + b->stream_bytes;

	hdr->op = op;
	hdr->flags = 0;
	hdr->size_bytes = size;
	assert_true(b->stream_bytes + size <= sizeof(b->stream));
	memcpy(at, cmd, size);
	b->stream_bytes += size;
	b->nr_cmds++;
	return at;
}

/* Puts a shape behind the command at @cmd; before job_end(). The commands behind it move. */
static UNUSED struct vnpu_shape *job_shape(struct job_builder *b, struct vnpu_cmd *cmd,
					   uint32_t width)
{
	uint8_t *at = (uint8_t *)cmd + cmd->size_bytes;
	const struct vnpu_shape shape = { .width = width };

	assert_true(b->stream_bytes + sizeof(shape) <= sizeof(b->stream));
	memmove(at + sizeof(shape), at, (size_t)(b->stream + b->stream_bytes - at));
	cmd->flags |= VNPU_CMD_SHAPED;
	cmd->size_bytes += sizeof(shape);
	b->stream_bytes += sizeof(shape);
	((struct vnpu_stream_hdr *)b->stream)->size_bytes = b->stream_bytes;
	return memcpy(at, &shape, sizeof(shape));
}

static UNUSED void job_plain(struct job_builder *b, uint16_t op)
{
	struct vnpu_cmd cmd;

	job_cmd(b, op, &cmd, sizeof(cmd));
}

static UNUSED void job_sleep(struct job_builder *b, uint64_t ns)
{
	struct vnpu_cmd_sleep cmd = { .duration_ns = ns };

	job_cmd(b, VNPU_OP_SLEEP, &cmd, sizeof(cmd));
}

static UNUSED void job_end(struct job_builder *b)
{
	struct vnpu_stream_hdr *hdr = (void *)b->stream;
	struct vnpu_table_hdr *table = (void *)b->table;

	job_plain(b, VNPU_OP_END);
	*hdr = (struct vnpu_stream_hdr){
		.magic = VNPU_STREAM_MAGIC,
		.isa_major = VNPU_ISA_MAJOR,
		.isa_minor = VNPU_ISA_MINOR,
		.size_bytes = b->stream_bytes,
		.nr_cmds = b->nr_cmds,
		.nr_slots = b->nr_slots,
		.nr_params = b->nr_params,
	};
	*table = (struct vnpu_table_hdr){
		.magic = VNPU_TABLE_MAGIC,
		.version = VNPU_ISA_VERSION,
		.nr_slots = b->nr_slots,
		.nr_params = b->nr_params,
		.record_slot = VNPU_SLOT_NONE,
	};
	memcpy(table + 1, b->slots, b->nr_slots * sizeof(b->slots[0]));
	memcpy((uint8_t *)(table + 1) + b->nr_slots * sizeof(b->slots[0]), b->params,
	       b->nr_params * 8);
	b->table_bytes = sizeof(*table) + b->nr_slots * sizeof(b->slots[0]) + b->nr_params * 8;
}

/* Writes the job to the context at @va (16 KiB, bound read-only). Returns its submission. */
static UNUSED struct vnpu_fw_sqe job_place(struct job_builder *b, struct fake *f, uint32_t ctx,
					   uint32_t queue, uint64_t va, uint64_t tag)
{
	fake_bind(f, ctx, va, 16384, false);
	memcpy(f->mem[ctx] + va, b->stream, b->stream_bytes);
	memcpy(f->mem[ctx] + va + 8192, b->table, b->table_bytes);
	return (struct vnpu_fw_sqe){
		.type = VNPU_FW_SQE_JOB,
		.priority = DRM_VNPU_PRIORITY_NORMAL,
		.ctx = ctx,
		.queue = queue,
		.tag = tag,
		.seqno = tag,
		.cmd_va = va,
		.table_va = va + 8192,
		.cmd_size = b->stream_bytes,
		.table_size = b->table_bytes,
	};
}

static UNUSED struct vnpu_ref ref_to(uint32_t slot, uint64_t offset)
{
	return (struct vnpu_ref){ .slot = slot, .offset = offset };
}

/* ---- random numbers -------------------------------------------------------------------------- */

/* Prints the seed, which VNPU_SEED sets. */
static UNUSED void rng_seed(const char *test)
{
	const char *env = getenv("VNPU_SEED");

	rng_state = env ? strtoull(env, NULL, 0) : (uint64_t)time(NULL) * 1000003 + getpid();
	print_message("%s: VNPU_SEED=%llu\n", test, (unsigned long long)rng_state);
}

#endif /* FW_FAKE_H */
