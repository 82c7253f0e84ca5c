// SPDX-License-Identifier: MIT
/*
 * How fast threads together read memory: the bound of decode, which reads every weight once.
 *
 *	bench_memory [-t THREADS (1)] [-s SECONDS (0.3)] [-m MIB (512)]
 *
 * Prints a JSON object: GB/s of the wall clock, the median over turns in which all threads read
 * equal shares of memory in huge pages, at the same time. Ways of reading take turns; the figure is
 * that of the faster one.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "reader.h"

#define HUGE (2ul << 20)
/* Of all threads together: longer than waking them takes, shorter than a scheduler's time slice. */
#define TURN_BYTES (64ul << 20)
#define MAX_THREADS 256
#define MAX_TURNS 4096
#define MIN_TURNS 5

static struct bench {
	unsigned int threads;
	double seconds;
	const uint8_t *memory;
	size_t bytes, at; /* of memory; where the turn begins */
	reader_fn reader; /* NULL: no more turns */
	pthread_barrier_t turn; /* begins and ends a turn */
} b = { .threads = 1, .seconds = 0.3, .bytes = 512ul << 20 };

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void die(const char *what)
{
	fprintf(stderr, "bench_memory: %s\n", what);
	exit(1);
}

/* Written once, as pages that were never written share one page of zeros. */
static const uint8_t *map(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes + READER_AHEAD + HUGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("out of memory");
	p += -(uintptr_t)p % HUGE;
	madvise(p, bytes, MADV_HUGEPAGE);
	memset(p, 1, bytes);
	return p;
}

/* Bytes of a thread's share of a turn. */
static size_t share(void)
{
	return TURN_BYTES / b.threads / READER_BYTES * READER_BYTES;
}

static void *read_share(void *arg)
{
	size_t first = *(const unsigned int *)arg * share();

	for (;;) {
		pthread_barrier_wait(&b.turn);
		if (!b.reader)
			return NULL;
		for (size_t off = 0; off < share(); off += READER_BYTES)
			b.reader(b.memory + b.at + first + off);
		pthread_barrier_wait(&b.turn);
	}
}

/* GB/s of a turn. */
static double turn(reader_fn reader)
{
	double start;

	b.reader = reader;
	start = now_s();
	pthread_barrier_wait(&b.turn);
	pthread_barrier_wait(&b.turn);
	start = now_s() - start;
	b.at = (b.at + TURN_BYTES) % b.bytes;
	return (double)(b.threads * share()) / start * 1e-9;
}

static int ascending(const void *x, const void *y)
{
	double d = *(const double *)x - *(const double *)y;

	return d < 0 ? -1 : d > 0;
}

static double median(double *v, unsigned int n)
{
	qsort(v, n, sizeof(*v), ascending);
	return v[n / 2];
}

static double measure(unsigned int *turns)
{
	static double rates[READERS][MAX_TURNS];
	double end = now_s() + b.seconds, best = 0;
	unsigned int n = 0;

	while (n < MAX_TURNS && (n < MIN_TURNS || now_s() < end)) {
		for (int i = 0; i < READERS; i++)
			rates[i][n] = turn(readers[i]);
		n++;
	}
	for (int i = 0; i < READERS; i++) {
		double rate = median(rates[i], n);

		best = rate > best ? rate : best;
	}
	*turns = n;
	return best;
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "t:s:m:")) >= 0) {
		if (c == 't')
			b.threads = (unsigned int)atoi(optarg);
		else if (c == 's')
			b.seconds = atof(optarg);
		else if (c == 'm')
			b.bytes = strtoul(optarg, NULL, 10) << 20;
		else
			exit(2);
	}
	if (b.threads < 1 || b.threads > MAX_THREADS)
		die("-t: 1 to 256 threads");
	if (!b.bytes || b.bytes % TURN_BYTES)
		die("-m: a multiple of 64 MiB");
}

int main(int argc, char **argv)
{
	static unsigned int number[MAX_THREADS];
	static pthread_t id[MAX_THREADS];
	unsigned int turns;
	double gbps;

	parse(argc, argv);
	b.memory = map(b.bytes);
	if (pthread_barrier_init(&b.turn, NULL, b.threads + 1))
		die("no barrier");
	for (unsigned int i = 0; i < b.threads; i++) {
		number[i] = i;
		if (pthread_create(&id[i], NULL, read_share, &number[i]))
			die("no thread");
	}
	gbps = measure(&turns);
	b.reader = NULL;
	pthread_barrier_wait(&b.turn);
	for (unsigned int i = 0; i < b.threads; i++)
		pthread_join(id[i], NULL);
	printf("{ \"threads\": %u, \"turns\": %u, \"gbps\": %.3f }\n", b.threads, turns, gbps);
	return 0;
}
