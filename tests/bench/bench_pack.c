// SPDX-License-Identifier: MIT
/*
 * Packing a file's matrix into panels: GB of the file per second of one thread's CPU time, and the
 * fraction of what memcpy() of as many bytes reaches.
 *
 *	bench_pack [-k COLUMNS (2048)] [-m MEGABYTES of the file (128)] [-n TURNS (5)] [-i ISA]
 *
 * memcpy() and all types take turns; figures are medians, with the least and the greatest. All
 * memory has been written before, so that no page is made while it is timed.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu_kernels.h"
#include "gguf_quantize.h"
#include "pack.h"
#include "threadpool.h"

#define MAX_TURNS 99
#define ROW_SETS 4096 /* rows of random values, used in turn: too many to be learned */

static const struct subject {
	enum gguf_type type;
	enum llm_format format;
	const char *name;
} subjects[] = {
	{ GGUF_I8, LLM_FORMAT_W8, "memcpy" },
	{ GGUF_Q8_0, LLM_FORMAT_W8, "q8_0 w8" },
	{ GGUF_F16, LLM_FORMAT_W8, "f16 w8" },
	{ GGUF_BF16, LLM_FORMAT_W8, "bf16 w8" },
	{ GGUF_F32, LLM_FORMAT_W8, "f32 w8" },
	{ GGUF_Q4_0, LLM_FORMAT_W8, "q4_0 w8" },
	{ GGUF_Q4_0, LLM_FORMAT_W4, "q4_0 w4" },
	{ GGUF_Q2_K, LLM_FORMAT_KQ + VNPU_KQ_Q2_K, "q2_k" },
	{ GGUF_Q3_K, LLM_FORMAT_KQ + VNPU_KQ_Q3_K, "q3_k" },
	{ GGUF_Q4_K, LLM_FORMAT_KQ + VNPU_KQ_Q4_K, "q4_k" },
	{ GGUF_Q5_K, LLM_FORMAT_KQ + VNPU_KQ_Q5_K, "q5_k" },
	{ GGUF_Q6_K, LLM_FORMAT_KQ + VNPU_KQ_Q6_K, "q6_k" },
	{ GGUF_Q4_1, LLM_FORMAT_KQ + VNPU_KQ_Q4_1, "q4_1" },
	{ GGUF_Q5_0, LLM_FORMAT_KQ + VNPU_KQ_Q5_0, "q5_0" },
	{ GGUF_Q5_1, LLM_FORMAT_KQ + VNPU_KQ_Q5_1, "q5_1" },
};
#define NR_SUBJECTS (sizeof(subjects) / sizeof(subjects[0]))

static struct bench {
	unsigned int cols;
	size_t bytes;
	unsigned int turns;
	struct llm_packer packer;
	uint8_t *from[NR_SUBJECTS], *to;
} b;

static void die(const char *what)
{
	fprintf(stderr, "bench_pack: %s\n", what);
	exit(1);
}

static void *need(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (!p)
		die("out of memory");
	return p;
}

static double cpu_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static size_t row_bytes(enum gguf_type type)
{
	const struct gguf_type_traits *traits = gguf_type_traits(type);

	return (size_t)(b.cols / traits->block_values) * traits->block_bytes;
}

/* A sum of four uniform numbers is near enough to the normal distribution of weights. */
static float weight(uint64_t *state)
{
	float sum = 0;

	for (int i = 0; i < 4; i++) {
		*state = *state * 6364136223846793005u + 1442695040888963407u;
		sum += (float)(int32_t)(*state >> 32);
	}
	return sum * 0x1p-36f;
}

/* Blocks of types that no quantiser here makes: random bytes, with finite scales of F16. */
static void random_row(uint8_t *row, enum gguf_type type, uint64_t *state)
{
	const struct gguf_type_traits *traits = gguf_type_traits(type);
	bool last = type == GGUF_Q2_K || type == GGUF_Q3_K || type == GGUF_Q6_K;

	for (size_t i = 0; i < row_bytes(type); i++) {
		*state = *state * 6364136223846793005u + 1442695040888963407u;
		row[i] = (uint8_t)(*state >> 40);
	}
	for (size_t i = 0; i < row_bytes(type); i += traits->block_bytes) {
		uint8_t *at = row + i + (last ? traits->block_bytes - 4u : 0u);

		at[1] &= 0xbb;
		at[3] &= 0xbb;
	}
}

static void make_row(uint8_t *row, enum gguf_type type, uint64_t *state, float *x)
{
	if (type != GGUF_F32 && type != GGUF_F16 && type != GGUF_BF16 && type != GGUF_Q8_0 &&
	    type != GGUF_Q4_0) {
		random_row(row, type, state);
		return;
	}
	for (unsigned int i = 0; i < b.cols; i++) {
		x[i] = weight(state);
		if (type == GGUF_BF16)
			memcpy(row + 2 * i, (const uint8_t *)&x[i] + 2, 2);
	}
	if (type != GGUF_BF16 && !gguf_quantize(type, x, row, b.cols))
		die("a value is not finite");
}

static uint8_t *make_matrix(enum gguf_type type, size_t rows)
{
	size_t bytes = row_bytes(type);
	uint8_t *data = need(rows * bytes);
	float *x = need(b.cols * sizeof(*x));
	uint64_t state = 1;

	for (size_t r = 0; r < rows; r++) {
		if (r < ROW_SETS)
			make_row(data + r * bytes, type, &state, x);
		else
			memcpy(data + r * bytes, data + r % ROW_SETS * bytes, bytes);
	}
	free(x);
	return data;
}

/* GB/s */
static double turn(unsigned int i)
{
	const struct subject *s = &subjects[i];
	size_t rows = b.bytes / row_bytes(s->type);
	struct gguf_tensor t = { .type = s->type,
				 .dims = { b.cols, rows, 1, 1 },
				 .n_dims = 2,
				 .data = b.from[i],
				 .bytes = rows * row_bytes(s->type) };
	unsigned int bad;
	double start = cpu_s();

	if (s->type == GGUF_I8)
		memcpy(b.to, b.from[i], t.bytes);
	else if (llm_pack_matrix(&b.packer, &t, s->format, b.to, &bad))
		die("a matrix cannot be packed");
	return (double)t.bytes / (cpu_s() - start) * 1e-9;
}

static int ascending(const void *a, const void *c)
{
	double x = *(const double *)a, y = *(const double *)c;

	return (x > y) - (x < y);
}

static void prepare(void)
{
	size_t most = b.bytes;

	for (unsigned int i = 0; i < NR_SUBJECTS; i++) {
		unsigned int rows = (unsigned int)(b.bytes / row_bytes(subjects[i].type));
		size_t bytes = llm_pack_bytes(subjects[i].format, rows, b.cols);

		b.from[i] = make_matrix(subjects[i].type, rows);
		most = bytes > most ? bytes : most;
	}
	b.to = need(most);
	memset(b.to, 0, most);
	b.packer.pool = llm_pool_create(1, 0);
	if (!b.packer.pool)
		die("no pool");
	for (unsigned int i = 0; i < NR_SUBJECTS; i++)
		turn(i);
}

int main(int argc, char **argv)
{
	static double rate[NR_SUBJECTS][MAX_TURNS];
	unsigned int megabytes = 128;
	const char *isa = NULL;
	int opt;

	b.cols = 2048;
	b.turns = 5;
	while ((opt = getopt(argc, argv, "k:m:n:i:")) != -1) {
		if (opt == 'k')
			b.cols = (unsigned int)atoi(optarg);
		else if (opt == 'm')
			megabytes = (unsigned int)atoi(optarg);
		else if (opt == 'n')
			b.turns = (unsigned int)atoi(optarg);
		else if (opt == 'i')
			isa = optarg;
		else
			return 2;
	}
	b.packer.kernels = cpu_kernels_get(isa);
	if (!b.packer.kernels || !b.cols || b.cols % 256 || !megabytes || !b.turns ||
	    b.turns > MAX_TURNS) {
		fprintf(stderr, "usage: bench_pack [-k COLUMNS, a multiple of 256] [-m MEGABYTES] "
				"[-n TURNS] [-i generic|avx2|avx512]\n");
		return 2;
	}
	b.bytes = (size_t)megabytes << 20;
	prepare();
	for (unsigned int t = 0; t < b.turns; t++)
		for (unsigned int i = 0; i < NR_SUBJECTS; i++)
			rate[i][t] = turn(i);
	printf("%s, %u columns, %u MiB, %u turns\n", b.packer.kernels->name, b.cols, megabytes,
	       b.turns);
	printf("%-8s %7s %15s %8s\n", "", "GB/s", "least..most", "memcpy's");
	for (unsigned int i = 0; i < NR_SUBJECTS; i++) {
		qsort(rate[i], b.turns, sizeof(double), ascending);
		printf("%-8s %7.2f %7.2f..%6.2f %7.0f%%\n", subjects[i].name, rate[i][b.turns / 2],
		       rate[i][0], rate[i][b.turns - 1],
		       100 * rate[i][b.turns / 2] / rate[0][b.turns / 2]);
	}
	return 0;
}
