// SPDX-License-Identifier: MIT
/*
 * The path to the device: the round trip of an empty job, compared with the fastest round trips
 * between two threads, measured alternately in the same run.
 *
 *	bench_npu_path [ROUNDS of each turn (20000)]        NPU_TRANSPORT=drm for vnpu.ko
 *
 * "awake": the next job follows at once and finds the device polling. "asleep": it follows after a
 * pause, in which the device, and the other thread of the peers, goes to sleep. The peers are
 *
 *	shared memory	two threads that poll a word each: the lower bound for an awake device
 *	eventfd		two threads that sleep in read() of an eventfd each: two
 *			hops, after the same pause
 *	empty ioctl	over drm: DEV_QUERY for a size only, a system call through drm_ioctl()
 *			and back
 *
 * A ratio is of the medians of one turn; the median, the least and the greatest of the turns'
 * ratios are printed. Only the asleep jobs and eventfds wait in the kernel, so only they
 * include the time to wake a CPU.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <drm/vnpu_accel.h>

#include "polling.h"
#include "npu.h"
#include "npu_graph.h"

#define TURNS 5
#define PAUSE_NS 300000
/* Asleep rounds take longer, so there are fewer. */
#define ASLEEP_ROUNDS(rounds) ((rounds) / 50 + 1)

enum what {
	SHARED_MEMORY,
	EVENTFD,
	EVENTFD_BUSY,
	EMPTY_IOCTL,
	FAST_AWAKE,
	DRIVER_AWAKE,
	FAST_ASLEEP,
	DRIVER_ASLEEP,
	NR_WHATS,
};

static const char *const names[NR_WHATS] = {
	[SHARED_MEMORY] = "shared memory, polled",
	[EVENTFD] = "two eventfd hops, asleep",
	[EVENTFD_BUSY] = "two eventfd hops, at once",
	[EMPTY_IOCTL] = "empty ioctl",
	[FAST_AWAKE] = "fast wait, awake",
	[DRIVER_AWAKE] = "driver wait, awake",
	[FAST_ASLEEP] = "fast wait, asleep",
	[DRIVER_ASLEEP] = "driver wait, asleep",
};

/* The round trips of all turns, turn by turn, sorted within a turn. */
struct samples {
	double *us;
	unsigned int per_turn;
	double median[TURNS];
};

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void pause_ns(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

/* ---- the peers ---- */

struct ping {
	_Alignas(64) _Atomic uint32_t there; /* counts up */
	_Alignas(64) _Atomic uint32_t back;
	int to, from; /* eventfds; -1: polls the words */
	bool alone; /* both threads share a CPU, so polling must yield */
	unsigned int rounds;
};

static void ping_poll(const struct ping *p, const _Atomic uint32_t *word, uint32_t value)
{
	while (atomic_load_explicit(word, memory_order_acquire) != value) {
		polling_relax();
		if (p->alone)
			sched_yield();
	}
}

static bool ping_sleep(int fd)
{
	uint64_t count;

	return read(fd, &count, sizeof(count)) == sizeof(count);
}

static bool ping_wake(int fd)
{
	uint64_t one = 1;

	return write(fd, &one, sizeof(one)) == sizeof(one);
}

static void *ping_echo(void *arg)
{
	struct ping *p = arg;

	for (uint32_t i = 1; i <= p->rounds; i++) {
		if (p->to < 0) {
			ping_poll(p, &p->there, i);
			atomic_store_explicit(&p->back, i, memory_order_release);
		} else if (!ping_sleep(p->to) || !ping_wake(p->from)) {
			break;
		}
	}
	return NULL;
}

static bool ping_round(struct ping *p, uint32_t i)
{
	if (p->to >= 0)
		return ping_wake(p->to) && ping_sleep(p->from);
	atomic_store_explicit(&p->there, i, memory_order_release);
	ping_poll(p, &p->back, i);
	return true;
}

/* @sleeps: on eventfds; otherwise the threads poll words. */
static int ping_start(struct ping *p, bool sleeps, unsigned int rounds, pthread_t *thread)
{
	*p = (struct ping){
		.to = -1, .from = -1, .rounds = rounds, .alone = sysconf(_SC_NPROCESSORS_ONLN) < 2
	};
	if (sleeps) {
		p->to = eventfd(0, EFD_CLOEXEC);
		p->from = eventfd(0, EFD_CLOEXEC);
	}
	if ((sleeps && (p->to < 0 || p->from < 0)) || pthread_create(thread, NULL, ping_echo, p)) {
		perror("bench_npu_path: the peer");
		return 1;
	}
	return 0;
}

/* Called after all rounds. */
static void ping_stop(struct ping *p, pthread_t thread)
{
	pthread_join(thread, NULL);
	if (p->to >= 0) {
		close(p->to);
		close(p->from);
	}
}

static double ping_us(struct ping *p, uint32_t i)
{
	double start = now_us();

	/* Private eventfds do not fail; without an answer the benchmark could not go on. */
	if (!ping_round(p, i))
		abort();
	return now_us() - start;
}

static int pings_us(bool sleeps, unsigned int rounds, double *us)
{
	pthread_t thread;
	struct ping p;

	if (ping_start(&p, sleeps, rounds, &thread))
		return 1;
	for (uint32_t i = 1; i <= rounds; i++)
		us[i - 1] = ping_us(&p, i);
	ping_stop(&p, thread);
	return 0;
}

static int ioctls_us(int fd, unsigned int rounds, double *us)
{
	for (unsigned int i = 0; i < rounds; i++) {
		struct drm_vnpu_dev_query query = { .type = DRM_VNPU_QUERY_DEVICE };
		double start = now_us();

		if (ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &query)) {
			perror("bench_npu_path: DEV_QUERY");
			return 1;
		}
		us[i] = now_us() - start;
	}
	return 0;
}

/* ---- the device ---- */

/* Negative: an error. */
static double job_us(struct npu_queue *queue, struct npu_job *job, enum npu_wait_mode mode)
{
	double start = now_us();
	uint64_t seqno;

	if (npu_queue_submit(queue, &job, 1, NULL, &seqno) ||
	    npu_queue_wait(queue, seqno, NPU_FOREVER, mode)) {
		fprintf(stderr, "bench_npu_path: %s\n", npu_error());
		return -1;
	}
	return now_us() - start;
}

static int jobs_us(struct npu_queue *queue, struct npu_job *job, enum npu_wait_mode mode,
		   unsigned int rounds, double *us)
{
	for (unsigned int i = 0; i < rounds; i++) {
		us[i] = job_us(queue, job, mode);
		if (us[i] < 0)
			return 1;
	}
	return 0;
}

static struct npu_job *noop_job(struct npu_context *ctx)
{
	struct npu_graph *g = npu_graph_create("noop");
	struct npu_program *prog = NULL;
	struct npu_job *job = NULL;
	void *image = NULL;
	size_t bytes;

	if (!g || npu_sleep(g, 0) || npu_graph_compile(g, &image, &bytes) ||
	    npu_program_load(ctx, image, bytes, &prog) || npu_job_create(prog, &job))
		fprintf(stderr, "bench_npu_path: %s\n", npu_error());
	npu_program_free(prog);
	free(image);
	npu_graph_free(g);
	return job;
}

/* ---- measuring ---- */

/* Measures all kinds in each round, as the host's wake-up times change from moment to moment. */
static int measure_asleep(struct npu_queue *queue, struct npu_job *job, unsigned int rounds,
			  double *const *us)
{
	pthread_t thread;
	struct ping p;
	int ret = 0;

	if (ping_start(&p, true, rounds, &thread))
		return 1;
	for (uint32_t i = 1; i <= rounds; i++) {
		pause_ns(PAUSE_NS);
		us[EVENTFD][i - 1] = ping_us(&p, i);
		for (enum what what = FAST_ASLEEP; what <= DRIVER_ASLEEP && !ret; what++) {
			pause_ns(PAUSE_NS);
			us[what][i - 1] = job_us(
				queue, job, what == FAST_ASLEEP ? NPU_WAIT_FAST : NPU_WAIT_DRIVER);
			ret = us[what][i - 1] < 0;
		}
	}
	ping_stop(&p, thread);
	return ret;
}

static int measure_turn(struct npu_queue *queue, struct npu_job *job, int fd, unsigned int rounds,
			double *const *us)
{
	return pings_us(false, rounds, us[SHARED_MEMORY]) ||
	       pings_us(true, rounds, us[EVENTFD_BUSY]) ||
	       (fd >= 0 && ioctls_us(fd, rounds, us[EMPTY_IOCTL])) ||
	       jobs_us(queue, job, NPU_WAIT_FAST, rounds, us[FAST_AWAKE]) ||
	       jobs_us(queue, job, NPU_WAIT_DRIVER, rounds, us[DRIVER_AWAKE]) ||
	       measure_asleep(queue, job, ASLEEP_ROUNDS(rounds), us);
}

static int compare_doubles(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int measure(struct npu_queue *queue, struct npu_job *job, int fd, unsigned int rounds,
		   struct samples *all)
{
	double *us[NR_WHATS];

	for (int turn = 0; turn < TURNS; turn++) {
		for (enum what what = 0; what < NR_WHATS; what++)
			us[what] = all[what].us + (size_t)turn * all[what].per_turn;
		if (measure_turn(queue, job, fd, rounds, us))
			return 1;
		for (enum what what = 0; what < NR_WHATS; what++) {
			struct samples *s = &all[what];

			qsort(us[what], s->per_turn, sizeof(double), compare_doubles);
			s->median[turn] = s->per_turn ? us[what][s->per_turn / 2] : 0;
		}
	}
	return 0;
}

/* ---- results ---- */

static void print_distribution(enum what what, struct samples *s)
{
	static const double parts[] = { 0, 0.1, 0.5, 0.9, 0.99, 1 };
	size_t n = (size_t)s->per_turn * TURNS;

	if (!n)
		return;
	qsort(s->us, n, sizeof(*s->us), compare_doubles);
	printf("%-26s", names[what]);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		printf(" %9.2f", s->us[(size_t)(parts[i] * (double)(n - 1))]);
	printf("\n");
}

/* The ratio to one peer, plus the empty ioctl over drm. */
static void print_ratio(const struct samples *all, enum what what, enum what peer, const char *name)
{
	double ratio[TURNS];

	for (int turn = 0; turn < TURNS; turn++)
		ratio[turn] = all[what].median[turn] /
			      (all[peer].median[turn] + all[EMPTY_IOCTL].median[turn]);
	qsort(ratio, TURNS, sizeof(ratio[0]), compare_doubles);
	printf("%-26s %6.2f (%.2f .. %.2f) x %s%s\n", names[what], ratio[TURNS / 2], ratio[0],
	       ratio[TURNS - 1], name, all[EMPTY_IOCTL].per_turn ? " + empty ioctl" : "");
}

static void print_results(struct samples *all)
{
	printf("%-26s %9s %9s %9s %9s %9s %9s\n", "us", "min", "p10", "p50", "p90", "p99", "max");
	for (enum what what = 0; what < NR_WHATS; what++)
		print_distribution(what, &all[what]);
	printf("\n");
	print_ratio(all, FAST_AWAKE, SHARED_MEMORY, "shared memory");
	print_ratio(all, DRIVER_AWAKE, SHARED_MEMORY, "shared memory");
	print_ratio(all, FAST_ASLEEP, EVENTFD, "two eventfd hops, asleep");
	print_ratio(all, DRIVER_ASLEEP, EVENTFD, "two eventfd hops, asleep");
}

static int run(struct npu_device *dev, struct npu_queue *queue, struct npu_job *job,
	       unsigned int rounds)
{
	const char *path = npu_device_info(dev)->path;
	int fd = *path ? open(path, O_RDWR | O_CLOEXEC) : -1, ret = 0;
	struct samples all[NR_WHATS] = { 0 };

	if (*path && fd < 0) {
		perror(path);
		return 1;
	}
	for (enum what what = 0; what < NR_WHATS; what++) {
		bool asleep = what == EVENTFD || what == FAST_ASLEEP || what == DRIVER_ASLEEP;

		all[what].per_turn = what == EMPTY_IOCTL && fd < 0 ? 0
				     : asleep			   ? ASLEEP_ROUNDS(rounds)
								   : rounds;
		all[what].us = calloc((size_t)all[what].per_turn * TURNS + 1, sizeof(double));
		ret |= !all[what].us;
	}
	if (ret)
		fprintf(stderr, "bench_npu_path: out of memory\n");
	else
		ret = measure(queue, job, fd, rounds, all);
	if (!ret)
		print_results(all);
	for (enum what what = 0; what < NR_WHATS; what++)
		free(all[what].us);
	if (fd >= 0)
		close(fd);
	return ret;
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 20000;
	struct npu_device *dev;
	struct npu_context *ctx = NULL;
	struct npu_queue *queue = NULL;
	struct npu_job *job = NULL;
	int ret = 1;

	if (!rounds) {
		fprintf(stderr, "usage: bench_npu_path [ROUNDS of each turn]\n");
		return 2;
	}
	if (npu_device_open(NULL, &dev)) {
		fprintf(stderr, "bench_npu_path: %s\n", npu_error());
		return 1;
	}
	if (npu_context_create(dev, &ctx) || npu_queue_create(ctx, NULL, &queue))
		fprintf(stderr, "bench_npu_path: %s\n", npu_error());
	else
		job = noop_job(ctx);
	printf("%s: %s\n", npu_device_info(dev)->name, npu_device_info(dev)->reason);
	if (job)
		ret = run(dev, queue, job, rounds);
	npu_job_free(job);
	npu_queue_free(queue);
	npu_context_free(ctx);
	npu_device_close(dev);
	return ret;
}
