// SPDX-License-Identifier: MIT
/*
 * The firmware's side of the simulated device: rings in ordinary memory, the device core in a
 * thread, and what VNPU_FW_ENTER does in the kernel. An idle core sleeps on the futex sim->kick;
 * while it is awake, submitting costs no system call.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "npu_fail.h"
#include "soc.h"
#include "sim.h"

/*
 * How long an idle core polls its ring before it sleeps. A client that submits again at once, as
 * token generation does, finds it awake; polling longer would take a CPU from a client that
 * computes between its jobs.
 */
#define SIM_SPIN_NS 50000

/* The core leaves at most this much of the completion ring to the next owner of the lock. */
#define SIM_CQ_LEFT (SIM_CQ_ENTRIES / 4)

static long sim_futex(_Atomic uint32_t *word, int op, uint32_t value,
		      const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, timeout, NULL,
		       FUTEX_BITSET_MATCH_ANY);
}

/* ---- the kernel's side of the rings; under sim->lock ---- */

bool sim_port_send(struct sim *sim, const struct vnpu_fw_sqe *sqe)
{
	uint32_t tail = sim->info->sq_tail;

	if (tail - __atomic_load_n(&sim->ctl->sq_head, __ATOMIC_ACQUIRE) >= SIM_SQ_ENTRIES)
		return false;
	sim->sq[tail & (SIM_SQ_ENTRIES - 1)] = *sqe;
	__atomic_store_n(&sim->info->sq_tail, tail + 1, __ATOMIC_SEQ_CST);
	return true;
}

void sim_port_kick(struct sim *sim)
{
	/* Pairs with sim_port_sleep(): this sees the core asleep, or the core sees the new tail. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&sim->sleeping, memory_order_relaxed))
		return;
	atomic_fetch_add(&sim->kick, 1);
	sim_futex(&sim->kick, FUTEX_WAKE, 1, NULL);
}

static int sim_port_job_error(uint32_t status)
{
	switch (status) {
	case VNPU_FW_OK:
		return 0;
	case VNPU_FW_INVALID:
		return -EINVAL;
	case VNPU_FW_FAULT:
		return -EFAULT;
	case VNPU_FW_CANCELED:
		return -ECANCELED;
	default:
		return -EIO;
	}
}

static void sim_port_job_done(struct sim *sim, const struct vnpu_fw_cqe *cqe)
{
	uint32_t n = (uint32_t)cqe->tag;
	struct sim_queue *queue;
	struct sim_hwq *hwq;
	struct sim_job *job;
	uint8_t place;

	if (cqe->tag >> 32 >= SIM_NR_QUEUES)
		return;
	hwq = &sim->hwqs[cqe->tag >> 32];
	if (n - hwq->head >= hwq->tail - hwq->head)
		return;
	place = hwq->place[n % SIM_MAX_DEPTH];
	job = hwq->jobs[n % SIM_MAX_DEPTH];
	hwq->place[n % SIM_MAX_DEPTH] = SIM_PLACE_FREE;
	hwq->jobs[n % SIM_MAX_DEPTH] = NULL;
	while (hwq->head != hwq->tail && hwq->place[hwq->head % SIM_MAX_DEPTH] == SIM_PLACE_FREE)
		hwq->head++;
	sim->busy_ns += cqe->busy_ns;
	sim->answered = true;
	if (place != SIM_PLACE_LIVE)
		return;
	sim->nr_jobs++;
	queue = job->queue;
	if (cqe->status == VNPU_FW_FAULT) {
		struct sim_ctx *ctx = queue->ctx;

		if (!ctx->state) {
			ctx->fault_va = cqe->fault_va;
			ctx->fault_flags =
				cqe->flags & VNPU_FW_CQE_FAULT_WRITE ? DRM_VNPU_FAULT_WRITE : 0;
			ctx->ban_queue = queue->id;
			ctx->ban_seqno = job->sqe.seqno;
		}
		sim_job_finish(sim, job, -EFAULT, true);
		sim_ctx_ban(sim, ctx, DRM_VNPU_CTX_FAULT, NULL, 0);
		return;
	}
	/* The core does not report a cancelled job on the status page. */
	sim_job_finish(sim, job, sim_port_job_error(cqe->status), cqe->status != VNPU_FW_CANCELED);
	sim_queue_next_head(sim, queue);
}

static void sim_port_ctx_closed(struct sim *sim, uint64_t number)
{
	struct sim_ctx *ctx;

	if (!number || number > SIM_NR_CTX)
		return;
	ctx = sim->closing[number - 1];
	if (!ctx)
		return;
	sim->closing[number - 1] = NULL;
	sim_ctx_free(sim, ctx);
	/* The core will not answer the context's remaining jobs. */
	for (uint32_t i = 0; i < SIM_NR_QUEUES; i++) {
		struct sim_hwq *hwq = &sim->hwqs[i];

		if (hwq->ctx != number || hwq->queue || !hwq->place)
			continue;
		memset(hwq->place, SIM_PLACE_FREE, SIM_MAX_DEPTH);
		hwq->head = hwq->tail;
	}
}

int sim_port_drain(struct sim *sim)
{
	uint32_t head = sim->info->cq_head,
		 tail = __atomic_load_n(&sim->ctl->cq_tail, __ATOMIC_ACQUIRE);
	struct vnpu_fw_cqe cqe;

	if (head == tail)
		return 0;
	if (tail - head > SIM_CQ_ENTRIES)
		return -EPROTO;
	for (; head != tail; head++) {
		cqe = sim->cq[head & (SIM_CQ_ENTRIES - 1)];
		if (cqe.type == VNPU_FW_CQE_DONE)
			sim_port_job_done(sim, &cqe);
		else if (cqe.type == VNPU_FW_CQE_CTX_CLOSED)
			sim_port_ctx_closed(sim, cqe.tag);
	}
	__atomic_store_n(&sim->info->cq_head, head, __ATOMIC_RELEASE);
	if (sim->nr_pending) {
		sim_run_pending(sim);
		sim_port_kick(sim);
	}
	atomic_store_explicit(&sim->backlog, sim->nr_pending != 0, memory_order_relaxed);
	return 0;
}

/* ---- waiting for ends ---- */

static void sim_wake_hwq(struct sim *sim, uint32_t hwq)
{
	sim_futex(&sim->hwqs[hwq].ends, FUTEX_WAKE, INT_MAX, NULL);
}

void sim_wake_later(struct sim *sim, uint32_t hwq)
{
	atomic_fetch_add(&sim->hwqs[hwq].ends, 1);
	for (unsigned int i = 0; i < sim->nr_wake; i++)
		if (sim->wake[i] == hwq)
			return;
	if (sim->nr_wake < SIM_MAX_WAKE)
		sim->wake[sim->nr_wake++] = hwq;
	else
		sim_wake_hwq(sim, hwq);
}

/* Takes the list of waiters to wake. True: also those of sim->cond. */
static bool sim_wake_take(struct sim *sim, uint32_t wake[SIM_MAX_WAKE], unsigned int *nr)
{
	bool cond = sim->wake_cond && atomic_load_explicit(&sim->listeners, memory_order_relaxed);

	*nr = sim->nr_wake;
	memcpy(wake, sim->wake, *nr * sizeof(*wake));
	sim->wake_cond = false;
	sim->nr_wake = 0;
	return cond;
}

static void sim_wake(struct sim *sim, const uint32_t *wake, unsigned int nr, bool cond)
{
	for (unsigned int i = 0; i < nr; i++)
		sim_wake_hwq(sim, wake[i]);
	if (cond)
		pthread_cond_broadcast(&sim->cond);
}

void sim_wake_now(struct sim *sim)
{
	uint32_t wake[SIM_MAX_WAKE];
	unsigned int nr;
	bool cond = sim_wake_take(sim, wake, &nr);

	sim_wake(sim, wake, nr, cond);
}

void sim_unlock(struct sim *sim)
{
	uint32_t wake[SIM_MAX_WAKE];
	unsigned int nr;
	bool cond = sim_wake_take(sim, wake, &nr);

	pthread_mutex_unlock(&sim->lock);
	sim_wake(sim, wake, nr, cond);
}

bool sim_wait_end(struct sim *sim, struct sim_hwq *hwq, int64_t timeout_ns)
{
	struct timespec ts = { .tv_sec = timeout_ns / 1000000000,
			       .tv_nsec = timeout_ns % 1000000000 };
	uint32_t seen = atomic_load(&hwq->ends);
	bool late = false;

	if (timeout_ns <= 0)
		return false;
	sim_unlock(sim);
	if (sim_futex(&hwq->ends, FUTEX_WAIT_BITSET, seen, timeout_ns == INT64_MAX ? NULL : &ts))
		late = errno == ETIMEDOUT;
	pthread_mutex_lock(&sim->lock);
	return !late;
}

/* Pairs with sim_port_must_tell(): the core sees the listener, or this sees the completions. */
void sim_listen_begin(struct sim *sim)
{
	atomic_fetch_add(&sim->listeners, 1);
	atomic_thread_fence(memory_order_seq_cst);
	sim_port_drain(sim);
}

void sim_listen_end(struct sim *sim)
{
	atomic_fetch_sub(&sim->listeners, 1);
}

/* ---- struct fw_port_ops ---- */

static bool sim_port_idle(struct sim *sim, uint32_t sq_seen)
{
	return __atomic_load_n(&sim->info->sq_tail, __ATOMIC_SEQ_CST) == sq_seen &&
	       !atomic_load(&sim->stopping);
}

/* Polls for work. False if there is some. */
static bool sim_port_spin(struct sim *sim, uint32_t sq_seen)
{
	int64_t end = 0, now;
	bool found;

	while (!(found = !sim_port_idle(sim, sq_seen))) {
		polling_again(&sim->poll);
		if (sim->poll.looks % 64)
			continue;
		now = sim_now_ns();
		if (!end)
			end = now + SIM_SPIN_NS;
		if (now >= end)
			break;
	}
	polling_end(&sim->poll, found);
	return !found;
}

/*
 * True if somebody waits for the posted completions. Otherwise the next thread that takes the lock
 * processes them. A failed job is reported at once, because its context must be banned before the
 * core takes the next job.
 */
static bool sim_port_must_tell(struct sim *sim)
{
	uint32_t head = __atomic_load_n(&sim->info->cq_head, __ATOMIC_ACQUIRE),
		 tail = sim->ctl->cq_tail;

	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&sim->listeners) || atomic_load(&sim->backlog) || tail - head > SIM_CQ_LEFT)
		return true;
	for (; head != tail; head++)
		if (sim->cq[head & (SIM_CQ_ENTRIES - 1)].type != VNPU_FW_CQE_DONE ||
		    sim->cq[head & (SIM_CQ_ENTRIES - 1)].status != VNPU_FW_OK)
			return true;
	return false;
}

static int sim_port_tell(struct sim *sim)
{
	int ret;

	pthread_mutex_lock(&sim->lock);
	ret = sim_port_drain(sim);
	sim_unlock(sim);
	return ret;
}

static int sim_port_sleep(struct sim *sim, uint32_t sq_seen, int64_t timeout_ns)
{
	uint32_t kick = atomic_load(&sim->kick);
	struct timespec ts, *at = NULL;
	int ret;

	if (!sim_port_spin(sim, sq_seen))
		return 0;
	ret = sim_port_tell(sim);
	if (ret)
		return ret;
	if (timeout_ns >= 0) {
		ts = (struct timespec){ .tv_sec = timeout_ns / 1000000000,
					.tv_nsec = timeout_ns % 1000000000 };
		at = &ts;
	}
	atomic_store(&sim->sleeping, true);
	atomic_thread_fence(memory_order_seq_cst);
	if (sim_port_idle(sim, sq_seen))
		sim_futex(&sim->kick, FUTEX_WAIT_BITSET, kick, at);
	atomic_store(&sim->sleeping, false);
	polling_woken(&sim->poll);
	return 0;
}

static int sim_port_enter(void *priv, uint32_t flags, uint32_t sq_seen, int64_t timeout_ns)
{
	struct sim *sim = priv;
	int ret = 0;

	if ((flags & VNPU_FW_ENTER_COMPLETE) && sim_port_must_tell(sim))
		ret = sim_port_tell(sim);
	if (!ret && (flags & VNPU_FW_ENTER_WAIT))
		ret = sim_port_sleep(sim, sq_seen, timeout_ns);
	return ret;
}

static int sim_port_map(void *priv, struct fw_aspace *as)
{
	struct sim *sim = priv;
	struct sim_ctx *ctx;

	pthread_mutex_lock(&sim->lock);
	ctx = sim_table_get(&sim->ctxs, as->ctx);
	if (!ctx && as->ctx && as->ctx <= SIM_NR_CTX)
		ctx = sim->closing[as->ctx - 1];
	sim_unlock(sim);
	if (!ctx)
		return -ENOENT;
	as->base = ctx->base;
	as->size = ctx->bytes;
	as->priv = ctx;
	return 0;
}

/* The context itself goes when CTX_CLOSED is answered. */
static void sim_port_unmap(void *priv, struct fw_aspace *as)
{
	as->base = NULL;
	as->priv = NULL;
}

static int sim_port_guard(void *priv, struct fw_aspace *as, const struct fw_access *acc,
			  unsigned int nr_acc, void (*fn)(void *arg), void *arg,
			  struct fw_fault *fault)
{
	return sim_ctx_guard(as->priv, acc, nr_acc, fn, arg, fault);
}

static const struct fw_port_ops sim_port_ops = {
	.enter = sim_port_enter,
	.map = sim_port_map,
	.unmap = sim_port_unmap,
	.guard = sim_port_guard,
};

/* ---- life ---- */

static int sim_port_alloc_rings(struct sim *sim)
{
	size_t sq_bytes = SIM_SQ_ENTRIES * sizeof(struct vnpu_fw_sqe);
	size_t cq_bytes = (SIM_CQ_ENTRIES * sizeof(struct vnpu_fw_cqe) + SIM_PAGE - 1) &
			  ~(size_t)(SIM_PAGE - 1);
	uint8_t *mem;

	sim->rings_bytes = 2 * SIM_PAGE + sq_bytes + cq_bytes;
	mem = mmap(NULL, sim->rings_bytes, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mem == MAP_FAILED)
		return npu_fail(-errno, "sim: %zu bytes for the rings: %s", sim->rings_bytes,
				strerror(errno));
	sim->rings = mem;
	sim->info = (struct vnpu_fw_info *)mem;
	sim->ctl = (struct vnpu_fw_ctl *)(mem + SIM_PAGE);
	sim->sq = (struct vnpu_fw_sqe *)(mem + 2 * SIM_PAGE);
	sim->cq = (struct vnpu_fw_cqe *)(mem + 2 * SIM_PAGE + sq_bytes);
	*sim->info = (struct vnpu_fw_info){
		.magic = VNPU_FW_INFO_MAGIC,
		.version = VNPU_FW_ABI,
		.epoch = sim->epoch,
		.sq_entries = SIM_SQ_ENTRIES,
		.cq_entries = SIM_CQ_ENTRIES,
		.nr_queues = SIM_NR_QUEUES,
		.nr_ctx = SIM_NR_CTX,
		.va_bits = SIM_VA_BITS,
	};
	sim->port = (struct fw_port){
		.info = sim->info,
		.sq = sim->sq,
		.ctl = sim->ctl,
		.cq = sim->cq,
		.status = sim->status,
		.ops = &sim_port_ops,
		.priv = sim,
	};
	return 0;
}

static void *sim_core_main(void *arg)
{
	struct sim *sim = arg;

	sim->core_result = fw_core_run(sim->core);
	return NULL;
}

static int sim_port_isa(const char *name, enum fw_isa *isa)
{
	*isa = name ? fw_isa_find(name) : FW_ISA_AUTO;
	if (name && *isa == FW_ISA_AUTO)
		return npu_fail(-EINVAL, "sim: isa '%s' is not known: " FW_ISA_NAMES, name);
	if (!fw_isa_name(*isa))
		return npu_fail(-EOPNOTSUPP,
				"sim: this host has no %s; leave isa out for the best it has",
				name);
	return 0;
}

int sim_port_start(struct sim *sim, const struct sim_options *opts)
{
	struct fw_config cfg = { .threads = sim->threads };
	sigset_t all, old;
	char why[512];
	int ret;

	ret = sim_port_isa(opts->isa, &cfg.isa);
	if (ret)
		return ret;
	ret = soc_load_device(opts->profile, &sim->soc, why, sizeof(why));
	if (ret)
		return npu_fail(ret, "sim: %s", why);
	if (sim->soc)
		cfg.npu = &sim->soc->npu;
	sim->poll.may_move = true;
	ret = sim_port_alloc_rings(sim);
	if (ret)
		return ret;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	sim->core = fw_core_create(&cfg, &sim->port);
	ret = sim->core ? -pthread_create(&sim->core_thread, NULL, sim_core_main, sim) : -errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret)
		return npu_fail(ret, "sim: cannot start the device with %u threads: %s",
				sim->threads, strerror(-ret));
	sim->core_started = true;
	return 0;
}

void sim_port_stop(struct sim *sim)
{
	if (sim->core_started) {
		fw_core_stop(sim->core);
		atomic_store(&sim->stopping, true);
		sim_port_kick(sim);
		pthread_join(sim->core_thread, NULL);
	}
	if (sim->core)
		fw_core_destroy(sim->core);
	soc_free(sim->soc);
	if (sim->rings)
		munmap(sim->rings, sim->rings_bytes);
}
