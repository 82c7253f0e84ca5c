// SPDX-License-Identifier: MIT
/*
 * Workers and regions. The tiles of a region are numbered. Each worker has an equal share of
 * consecutive tiles, so that it reads memory in order, as hardware prefetchers expect; when it has
 * finished its share, it takes tiles from the others' shares. Of small tiles it takes several at
 * once, and fewer towards the end of a share, so that nobody waits long for the last ones. The
 * thread in fw_exec_run() is a worker too, and polls the rings between its tiles.
 *
 * Opening a region increments a generation on which the workers wait: first by polling, then in a
 * futex. A late worker must not touch a region that was closed and refilled. So a worker first
 * increments busy and then checks whether the region is open; the owner first closes the region and
 * then waits until busy is 0. Either the worker sees it closed or the owner sees the worker.
 *
 * The owner runs a job's short commands alone. Workers that poll meanwhile prefetch the first
 * weights of their shares of the next matmul, because decoding is limited by memory bandwidth,
 * which would be unused then. So does the owner while it waits for the last tiles of others.
 */
#include "fw_exec.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fw_op.h"
#include "fw_tile.h"

/* A region that costs fewer cycles than this is done before another worker has woken, or before one
 * that polls has begun. */
#define WAKE_COST 20000
#define SHARE_COST 10000
/* How long a worker polls for the next region before it sleeps: between two jobs, and in a job. In
 * a job the owner runs short commands alone, and workers shall be awake for the next long one. */
#define SPIN_NS 30000
#define SPIN_JOB_NS 200000
/* Bytes of weights that a polling worker prefetches: half of its second-level cache, but at most
 * AHEAD_MOST, as workers may share it; AHEAD_BYTES where the system does not know its size. */
#define AHEAD_MOST (1024u << 10)
#define AHEAD_BYTES (256u << 10)
/* Bytes between two checks whether the wait is over: a few hundred nanoseconds. */
#define AHEAD_STEP 1024u
/*
 * Number of regions, from the present one, searched for a matmul: more than lie between two matmuls
 * of a transformer's layer.
 */
#define AHEAD_REGIONS 16
/* Longest sleep of the owner before it polls the rings again while others still compute. */
#define POLL_NS 200000

struct worker {
	_Alignas(64) _Atomic uint64_t next_tile; /* in its share; also used by workers that help */
	uint64_t end_tile;
	/* Weights to prefetch until the next announcement. The fields may disagree for a moment. */
	_Atomic(const uint8_t *) ahead;
	_Atomic uint32_t ahead_bytes;
	struct fw_exec *ex;
	pthread_t thread;
	void *scratch;
};

struct fw_exec {
	const struct fw_kernels *kernels;
	unsigned int nr_workers; /* the owner is worker 0 */
	struct worker *workers;
	uint8_t *parts; /* FW_PARTS_BYTES, of which a region uses what it needs */
	size_t ahead_bytes; /* that a polling worker prefetches */

	/* The present region; written by the owner while busy is 0. */
	struct fw_exec_job *job;
	const struct fw_region *region;
	unsigned int nr_shares; /* workers with a share */

	_Alignas(64) _Atomic uint32_t generation;
	_Atomic uint32_t sleepers; /* workers in futex_wait(generation) */
	_Atomic bool quit;
	_Atomic bool running; /* a job is running */
	_Alignas(64) _Atomic bool open;
	_Atomic uint32_t busy; /* workers in the region */
	_Atomic bool owner_waits;
	/* 0, or the VNPU_FW_* status that ends the job; the first one stays. */
	_Atomic uint32_t stop;
};

uint64_t fw_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns)
{
	struct timespec ts = { timeout_ns / 1000000000, timeout_ns % 1000000000 };

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, timeout_ns ? &ts : NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int nr)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, nr, NULL, NULL, 0);
}

static bool stop_job(struct fw_exec *ex, uint32_t status)
{
	uint32_t running = VNPU_FW_OK;

	return atomic_compare_exchange_strong(&ex->stop, &running, status);
}

/* A tile of @cmd has failed. */
static void tile_failed(struct fw_exec *ex, const struct fw_cmd *cmd, int err,
			const struct fw_fault *fault)
{
	if (!stop_job(ex, err == -EFAULT ? VNPU_FW_FAULT : VNPU_FW_FAILED))
		return;
	if (err == -EFAULT)
		ex->job->fault = *fault;
	else if (err == -EINVAL)
		ex->job->failed = cmd;
}

/* Divides the region's tiles among the first @shares workers. */
static void share_tiles(struct fw_exec *ex, unsigned int shares)
{
	uint64_t tiles = ex->region->nr_tiles;
	unsigned int i;

	ex->nr_shares = shares;
	for (i = 0; i < shares; i++) {
		ex->workers[i].end_tile = tiles * (i + 1) / shares;
		atomic_store_explicit(&ex->workers[i].next_tile, tiles * i / shares,
				      memory_order_relaxed);
	}
}

/* Adds the time since *@since_ns, which becomes now, to what workers spent on @cmd. */
static void charge(struct fw_cmd *cmd, uint64_t *since_ns)
{
	uint64_t now = fw_now_ns();

	__atomic_fetch_add(&cmd->busy_ns, now - *since_ns, __ATOMIC_RELAXED);
	*since_ns = now;
}

/* The command of @tile in a region that begins with @first; @cmd: that of another tile. */
static struct fw_cmd *find_cmd(struct fw_cmd *first, struct fw_cmd *cmd, uint64_t tile)
{
	if (tile < cmd->tile0)
		cmd = first;
	while (tile - cmd->tile0 >= cmd->nr_tiles)
		cmd++;
	return cmd;
}

static uint64_t least(uint64_t x, uint64_t y)
{
	return x < y ? x : y;
}

/* Tiles that are run as one. */
struct tiles {
	uint64_t next, end; /* in the region */
	struct fw_cmd *cmd; /* of the next */
};

/*
 * Takes the next tiles of worker *@from's share, or of another share: half of what is left there,
 * but no more than their command's most. False if none is left.
 */
static bool take_tiles(struct fw_exec *ex, struct fw_cmd *first, unsigned int *from,
		       struct tiles *t)
{
	for (unsigned int i = 0; i < ex->nr_shares; i++) {
		struct worker *w = &ex->workers[*from];
		uint64_t next = atomic_load_explicit(&w->next_tile, memory_order_relaxed), nr;

		/* Check first, because each fetch_add increases the number. */
		if (next < w->end_tile) {
			t->cmd = find_cmd(first, t->cmd, next);
			nr = least((w->end_tile - next) / 2, t->cmd->most);
			nr = nr ? nr : 1;
			t->next =
				atomic_fetch_add_explicit(&w->next_tile, nr, memory_order_relaxed);
			t->end = least(t->next + nr, w->end_tile);
			if (t->next < t->end)
				return true;
		}
		*from = *from + 1 < ex->nr_shares ? *from + 1 : 0;
	}
	return false;
}

/* Runs tiles until none is left or the job is stopped. */
static void work(struct worker *w, bool owner)
{
	unsigned int from = (unsigned int)(w - w->ex->workers);
	struct fw_exec *ex = w->ex;
	struct fw_cmd *first = ex->job->prog->cmds + ex->region->first_cmd, *last = NULL;
	struct tiles t = { .cmd = first };
	bool timed = ex->job->timed;
	uint64_t since_ns = timed ? fw_now_ns() : 0, nr;
	struct fw_fault fault;
	int err;

	while (!atomic_load_explicit(&ex->stop, memory_order_relaxed) &&
	       (t.next < t.end || take_tiles(ex, first, &from, &t))) {
		/* Another worker may have taken those that were looked at. */
		t.cmd = find_cmd(first, t.cmd, t.next);
		nr = least(t.end - t.next, t.cmd->tile0 + t.cmd->nr_tiles - t.next);
		nr = least(nr, t.cmd->most ? t.cmd->most : 1);
		if (timed && last && last != t.cmd)
			charge(last, &since_ns);
		last = t.cmd;
		err = fw_tile_run(ex->kernels, ex->job, t.cmd, t.next - t.cmd->tile0, nr,
				  w->scratch, &fault);
		t.next += nr;
		if (err)
			tile_failed(ex, t.cmd, err, &fault);
		__atomic_fetch_add(ex->job->progress, 1, __ATOMIC_RELAXED);
		if (owner)
			ex->job->poll(ex->job->ud);
	}
	if (timed && last)
		charge(last, &since_ns);
}

/* Prefetches the weights announced to @w while *@word is @value; with @until, until it is. */
static void fetch_ahead(struct worker *w, _Atomic uint32_t *word, uint32_t value, bool until)
{
	uint32_t bytes = atomic_exchange_explicit(&w->ahead_bytes, 0, memory_order_relaxed), i = 0,
		 step;
	const uint8_t *ahead = atomic_load_explicit(&w->ahead, memory_order_relaxed);

	while (i < bytes && (atomic_load_explicit(word, memory_order_relaxed) == value) != until)
		for (step = i + AHEAD_STEP; i < step; i += 64)
			__builtin_prefetch(ahead + i, 0, 2);
}

/* Waits until the generation differs from @seen. */
static uint32_t next_generation(struct worker *w, uint32_t seen)
{
	uint64_t start = fw_now_ns();
	struct fw_exec *ex = w->ex;
	uint32_t now;
	int i;

	do {
		fetch_ahead(w, &ex->generation, seen, false);
		for (i = 0; i < 50; i++) {
			now = atomic_load(&ex->generation);
			if (now != seen)
				return now;
			cpu_relax();
		}
	} while (
		fw_now_ns() - start <
		(atomic_load_explicit(&ex->running, memory_order_relaxed) ? SPIN_JOB_NS : SPIN_NS));
	atomic_fetch_add(&ex->sleepers, 1);
	while ((now = atomic_load(&ex->generation)) == seen)
		futex_wait(&ex->generation, seen, 0);
	atomic_fetch_sub(&ex->sleepers, 1);
	return now;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct fw_exec *ex = w->ex;
	uint32_t seen = 0;

	for (;;) {
		seen = next_generation(w, seen);
		if (atomic_load(&ex->quit))
			return NULL;
		atomic_fetch_add(&ex->busy, 1);
		if (atomic_load(&ex->open))
			work(w, false);
		if (atomic_fetch_sub(&ex->busy, 1) == 1 && atomic_load(&ex->owner_waits))
			futex_wake(&ex->busy, 1);
	}
}

static void bump_generation(struct fw_exec *ex)
{
	atomic_fetch_add(&ex->generation, 1);
	if (atomic_load(&ex->sleepers))
		futex_wake(&ex->generation, ex->nr_workers);
}

/* Closes the region and waits until no worker is in it. */
static void close_region(struct fw_exec *ex)
{
	uint64_t end = 0;
	uint32_t busy;
	int i;

	atomic_store(&ex->open, false);
	fetch_ahead(&ex->workers[0], &ex->busy, 0, true);
	for (;;) {
		for (i = 0; i < 50; i++) {
			if (!atomic_load(&ex->busy))
				return;
			cpu_relax();
		}
		if (!end)
			end = fw_now_ns() + SPIN_NS;
		if (fw_now_ns() < end)
			continue;
		atomic_store(&ex->owner_waits, true);
		busy = atomic_load(&ex->busy);
		if (busy)
			futex_wait(&ex->busy, busy, POLL_NS);
		atomic_store(&ex->owner_waits, false);
		ex->job->poll(ex->job->ud);
	}
}

static bool is_shared(const struct fw_exec *ex, const struct fw_region *region)
{
	bool asleep = atomic_load_explicit(&ex->sleepers, memory_order_relaxed);

	return ex->nr_workers > 1 && region->nr_tiles > 1 &&
	       region->cost >= (asleep ? WAKE_COST : SHARE_COST);
}

/* Announces to the workers the first weights of their shares of @region. False if it has none. */
static bool announce(struct fw_exec *ex, const struct fw_region *region)
{
	const struct fw_cmd *cmd = ex->job->prog->cmds + region->first_cmd;
	const uint8_t *weights;
	unsigned int i;
	uint64_t tile;
	size_t bytes;

	for (i = 0; i < ex->nr_workers; i++) {
		tile = region->nr_tiles * i / ex->nr_workers;
		while (tile - cmd->tile0 >= cmd->nr_tiles)
			cmd++;
		bytes = fw_tile_weights(ex->job, cmd, tile - cmd->tile0, &weights);
		if (!bytes)
			return false;
		atomic_store_explicit(&ex->workers[i].ahead, weights, memory_order_relaxed);
		atomic_store_explicit(&ex->workers[i].ahead_bytes,
				      (uint32_t)(bytes < ex->ahead_bytes ? bytes : ex->ahead_bytes),
				      memory_order_relaxed);
	}
	return true;
}

/* Announces the next shared matmul after @region, if there is one nearby. */
static void announce_next(struct fw_exec *ex, const struct fw_region *region)
{
	const struct fw_region *end = ex->job->prog->regions + ex->job->prog->nr_regions;

	if (end - region > AHEAD_REGIONS)
		end = region + AHEAD_REGIONS;
	for (region++; region < end; region++)
		if (is_shared(ex, region) && announce(ex, region))
			return;
}

/* Prepares the memory for parts for the region's commands that use it. */
static void begin_parts(struct fw_exec *ex, const struct fw_region *region)
{
	const struct fw_cmd *cmd = ex->job->prog->cmds + region->first_cmd;
	uint32_t i;

	for (i = 0; region->parts_bytes && i < region->nr_cmds; i++)
		if (fw_ops[cmd[i].u.hdr.op]->begin)
			fw_ops[cmd[i].u.hdr.op]->begin(&cmd[i], ex->parts);
}

static void run_region(struct fw_exec *ex, struct fw_region *region)
{
	bool share = is_shared(ex, region);
	uint64_t end = region->sleep_ns ? fw_now_ns() + region->sleep_ns : 0;

	ex->region = region;
	if (region->nr_cmds) {
		begin_parts(ex, region);
		share_tiles(ex, share ? ex->nr_workers : 1);
		if (share) {
			announce_next(ex, region);
			atomic_store(&ex->open, true);
			bump_generation(ex);
		}
		work(&ex->workers[0], true);
		if (share)
			close_region(ex);
	}
	while (end && !atomic_load(&ex->stop) && fw_now_ns() < end) {
		ex->job->sleep(ex->job->ud, end);
		ex->job->poll(ex->job->ud);
	}
}

static void run_timed(struct fw_exec *ex, struct fw_region *region)
{
	struct fw_cmd *cmds = ex->job->prog->cmds + region->first_cmd;

	for (uint32_t i = 0; i < region->nr_cmds; i++)
		cmds[i].busy_ns = 0;
	region->start_ns = fw_now_ns();
	run_region(ex, region);
	region->end_ns = fw_now_ns();
}

int fw_exec_run(struct fw_exec *ex, struct fw_exec_job *job)
{
	uint32_t i;

	ex->job = job;
	job->parts = ex->parts;
	/* Workers see this store when the next region is opened. */
	atomic_store_explicit(&ex->stop, VNPU_FW_OK, memory_order_relaxed);
	atomic_store_explicit(&ex->running, true, memory_order_relaxed);
	for (i = 0; i < job->prog->nr_regions && !atomic_load(&ex->stop); i++)
		(job->timed ? run_timed : run_region)(ex, &job->prog->regions[i]);
	atomic_store_explicit(&ex->running, false, memory_order_relaxed);
	return atomic_load(&ex->stop);
}

unsigned int fw_exec_workers(const struct fw_exec *ex)
{
	return ex->nr_workers;
}

void fw_exec_cancel(struct fw_exec *ex)
{
	stop_job(ex, VNPU_FW_CANCELED);
}

/* Workers block the process's signals, which are for its other threads, but not SIGBUS and other
 * signals of a thread's own faults. */
static int start_workers(struct fw_exec *ex, unsigned int threads)
{
	sigset_t all, old;
	struct worker *w;
	int err = 0;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (ex->nr_workers = 0; ex->nr_workers < threads; ex->nr_workers++) {
		w = &ex->workers[ex->nr_workers];
		w->ex = ex;
		w->scratch = aligned_alloc(64, FW_SCRATCH_BYTES);
		if (!w->scratch)
			err = ENOMEM;
		else if (ex->nr_workers)
			err = pthread_create(&w->thread, NULL, worker_main, w);
		if (err) {
			free(w->scratch);
			break;
		}
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}

static size_t bytes_ahead(void)
{
	long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);

	if (cache <= 0)
		return AHEAD_BYTES;
	return cache / 2 < (long)AHEAD_MOST ? (size_t)cache / 2 : AHEAD_MOST;
}

struct fw_exec *fw_exec_create(const struct fw_kernels *kernels, unsigned int threads)
{
	struct fw_exec *ex = aligned_alloc(64, sizeof(*ex));
	int err;

	if (!ex)
		return NULL;
	*ex = (struct fw_exec){ .kernels = kernels, .ahead_bytes = bytes_ahead() };
	ex->workers = aligned_alloc(64, threads * sizeof(*ex->workers));
	if (ex->workers)
		memset(ex->workers, 0, threads * sizeof(*ex->workers));
	ex->parts = aligned_alloc(64, FW_PARTS_BYTES);
	err = ex->workers && ex->parts ? start_workers(ex, threads) : ENOMEM;
	if (err) {
		fw_exec_destroy(ex);
		errno = err;
		return NULL;
	}
	return ex;
}

void fw_exec_destroy(struct fw_exec *ex)
{
	unsigned int i;

	atomic_store(&ex->quit, true);
	bump_generation(ex);
	for (i = 0; i < ex->nr_workers; i++) {
		if (i)
			pthread_join(ex->workers[i].thread, NULL);
		free(ex->workers[i].scratch);
	}
	free(ex->workers);
	free(ex->parts);
	free(ex);
}
