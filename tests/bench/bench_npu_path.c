// SPDX-License-Identifier: MIT
/*
 * The path to the device: the round trip of a job that does nothing, beside two threads that hand a word to and fro, by
 * futex (two wake-ups) and by polling shared memory, measured in the same run and in turns.
 *
 *	bench_npu_path [ROUNDS (20000)]        NPU_TRANSPORT=drm for vnpu.ko
 *
 * "awake": the next job follows at once, and finds the device polling. "asleep": it follows after 300 us of nothing.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "npu.h"
#include "npu_graph.h"

#define TURNS 5
#define PAUSE_NS 300000

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
	_Atomic uint32_t word; /* even: the client's turn */
	bool sleeps;
	unsigned int rounds;
};

static void ping_pass(struct ping *p, uint32_t value)
{
	atomic_store(&p->word, value);
	if (p->sleeps)
		syscall(SYS_futex, &p->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void ping_wait(struct ping *p, uint32_t value)
{
	for (unsigned int spins = 1; atomic_load(&p->word) != value; spins++) {
		if (p->sleeps)
			syscall(SYS_futex, &p->word, FUTEX_WAIT_PRIVATE, value - 1, NULL, NULL, 0);
		else if (!(spins & 7))
			sched_yield();
	}
}

static void *ping_echo(void *arg)
{
	struct ping *p = arg;

	for (unsigned int i = 0; i < p->rounds; i++) {
		ping_wait(p, 2 * i + 1);
		ping_pass(p, 2 * i + 2);
	}
	return NULL;
}

static double ping_us(bool sleeps, unsigned int rounds)
{
	struct ping p = { .sleeps = sleeps, .rounds = rounds };
	double start, us;
	pthread_t thread;

	if (pthread_create(&thread, NULL, ping_echo, &p))
		return 0;
	start = now_us();
	for (unsigned int i = 0; i < rounds; i++) {
		ping_pass(&p, 2 * i + 1);
		ping_wait(&p, 2 * i + 2);
	}
	us = (now_us() - start) / rounds;
	pthread_join(thread, NULL);
	return us;
}

/* ---- the device ---- */

static int job_us(struct npu_queue *queue, struct npu_job *job, enum npu_wait_mode mode, bool asleep,
		  unsigned int rounds, double *us)
{
	double start, sum = 0;
	uint64_t seqno;

	for (unsigned int i = 0; i < rounds; i++) {
		if (asleep)
			pause_ns(PAUSE_NS);
		start = now_us();
		if (npu_queue_submit(queue, &job, 1, NULL, &seqno) || npu_queue_wait(queue, seqno, NPU_FOREVER, mode))
			return 1;
		sum += now_us() - start;
	}
	*us = sum / rounds;
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

static void keep_least(double *least, double us)
{
	if (!*least || us < *least)
		*least = us;
}

static int measure(struct npu_queue *queue, struct npu_job *job, unsigned int rounds)
{
	static const char *const names[] = { "futex ping-pong",	    "polling ping-pong", "driver wait, awake",
					     "driver wait, asleep", "fast wait, awake",	 "fast wait, asleep" };
	double least[6] = { 0 }, us;

	for (int turn = 0; turn < TURNS; turn++) {
		keep_least(&least[0], ping_us(true, rounds));
		keep_least(&least[1], ping_us(false, rounds));
		for (int i = 0; i < 4; i++) {
			if (job_us(queue, job, i < 2 ? NPU_WAIT_DRIVER : NPU_WAIT_FAST, i & 1,
				   i & 1 ? rounds / 50 + 1 : rounds, &us)) {
				fprintf(stderr, "bench_npu_path: %s\n", npu_error());
				return 1;
			}
			keep_least(&least[2 + i], us);
		}
	}
	for (int i = 0; i < 6; i++)
		printf("%-22s %8.2f us   %5.2f x futex   %5.2f x polling\n", names[i], least[i], least[i] / least[0],
		       least[i] / least[1]);
	return 0;
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
		fprintf(stderr, "usage: bench_npu_path [ROUNDS]\n");
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
		ret = measure(queue, job, rounds);
	npu_job_free(job);
	npu_queue_free(queue);
	npu_context_free(ctx);
	npu_device_close(dev);
	return ret;
}
