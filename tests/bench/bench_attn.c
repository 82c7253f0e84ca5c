// SPDX-License-Identifier: MIT
/*
 * Attention of one token: how fast its KV cache is read, against plain reads of the same memory.
 *
 *	bench_attn [-t SECONDS per figure (0.5)] [-i ISA] [-r ROWS (1)] [-d DEPTH (all)]
 *		[-s SHAPE (all)] [-c CACHE TYPE (all)]
 *
 * For each shape, depth and type of cache: microseconds for a layer, GB/s of cache, the fraction of
 * the plain reads' GB/s, and GFLOPS of the two matmuls. One thread computes all heads of one layer
 * after another; the layers together are larger than any cache, as those of a model are between two
 * tokens. Attention and plain reads alternate, layer by layer, so both see the same neighbours on a
 * shared host; figures are medians. -r: so many tokens at once, as in verifying a draft; then also
 * as the nodes of a token tree, and that time as a multiple of theirs as a sequence, which
 * alternates with it.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernels.h"

#define MEMORY_BYTES (384ul << 20)
#define HUGE (2ul << 20)
#define MAX_LAYERS 4096

static const struct shape {
	const char *name;
	unsigned int heads, kv_heads, head_dim;
} shapes[] = {
	{ "0.5B", 14, 2, 64 },
	{ "1B", 32, 8, 64 },
	{ "1.8B", 16, 16, 128 },
	{ "8B", 32, 8, 128 },
};

static const struct type {
	const char *name;
	enum vnpu_kv_type type;
} types[] = { { "f16", VNPU_KV_F16 }, { "q8_0", VNPU_KV_Q8_0 }, { "f32", VNPU_KV_F32 } };

static const unsigned int depths[] = { 512, 2048, 8192, 32768 };

static struct bench {
	const struct fw_kernels *kernels;
	double seconds;
	unsigned int rows, depth;
	uint8_t *memory; /* of caches */
	float *q, *y;
	void *scratch;
	uint64_t mask[VNPU_MASK_ROWS]; /* of a tree */
} b;

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void die(const char *what)
{
	fprintf(stderr, "bench_attn: %s\n", what);
	exit(1);
}

static void *map(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	if (p == MAP_FAILED)
		die("out of memory");
	p += -(uintptr_t)p % HUGE;
	madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

/* Values of a cache of @type: small numbers of either sign. */
static void fill(enum vnpu_kv_type type)
{
	static const float row[32] = { 0.5f, -0.25f, 0.125f, 1, -1, 0.75f };
	uint8_t packed[128];
	size_t bytes = VNPU_KV_BYTES(type, 32);

	if (type == VNPU_KV_F32)
		memcpy(packed, row, sizeof(row));
	else
		b.kernels->store(packed, row, 32, type);
	for (size_t i = 0; i + bytes <= MEMORY_BYTES; i += bytes)
		memcpy(b.memory + i, packed, bytes);
}

/* Each node follows the one before it, or any other. */
static void grow_tree(void)
{
	uint32_t random = 1;

	for (unsigned int i = 0; i < VNPU_MASK_ROWS; i++) {
		random = random * 1664525 + 1013904223;
		b.mask[i] = 1ull << i;
		if (i)
			b.mask[i] |= b.mask[random >> 31 ? i - 1 : (random >> 8) % i];
	}
}

/* The tile of @heads KV heads from @h on, from query @first on. */
static void attend_tile(const struct shape *s, enum vnpu_kv_type type, const uint8_t *cache,
			unsigned int h, unsigned int heads, unsigned int first, unsigned int nr_q,
			const uint64_t *mask)
{
	size_t row_bytes = VNPU_KV_BYTES(type, s->kv_heads * s->head_dim);
	unsigned int group = s->heads / s->kv_heads;
	size_t at = VNPU_KV_BYTES(type, h * s->head_dim), column = h * group * s->head_dim;
	struct fw_attn t = {
		.q = b.q + column,
		.y = b.y + column,
		.ldq = s->heads * s->head_dim,
		.ldy = s->heads * s->head_dim,
		.heads = heads,
		.group = group,
		.first = first,
		.nr_q = nr_q,
		.pos = b.depth - b.rows,
		.mask = mask,
		.k = cache + at,
		.v = cache + b.depth * row_bytes + at,
		.k_row_bytes = row_bytes,
		.v_row_bytes = row_bytes,
		.kv_type = type,
		.head_dim = s->head_dim,
		.scale = 0.125f,
	};

	b.kernels->attn(&t, b.scratch);
}

static unsigned int least(unsigned int x, unsigned int y)
{
	return x < y ? x : y;
}

/* In tiles as the device has them: as many heads as they have room for. */
static void attend(const struct shape *s, enum vnpu_kv_type type, const uint8_t *cache,
		   const uint64_t *mask)
{
	unsigned int queries = s->heads / s->kv_heads * b.rows, most = fw_attn_queries(s->head_dim);
	unsigned int tile = queries <= most
				    ? queries
				    : fw_attn_tile(s->head_dim, (uint64_t)queries * s->kv_heads);
	unsigned int heads = most / queries ? least(most / queries, s->kv_heads) : 1;

	for (unsigned int h = 0; h < s->kv_heads; h += heads)
		for (unsigned int i = 0; i < queries; i += tile)
			attend_tile(s, type, cache, h, least(heads, s->kv_heads - h), i,
				    least(tile, queries - i), mask);
}

static uint64_t read_all(const uint8_t *memory, size_t bytes)
{
	typedef uint64_t v8 __attribute__((vector_size(64), aligned(8)));
	v8 sum[4] = { 0 };

	for (size_t i = 0; i + 256 <= bytes; i += 256)
		for (int k = 0; k < 4; k++)
			sum[k] += *(const v8 *)(memory + i + 64 * k);
	sum[0] += sum[1] + sum[2] + sum[3];
	return sum[0][0] ^ sum[0][7];
}

static int compare(const void *x, const void *y)
{
	double d = *(const double *)x - *(const double *)y;

	return d < 0 ? -1 : d > 0;
}

static double median(double *v, unsigned int n)
{
	qsort(v, n, sizeof(*v), compare);
	return v[n / 2];
}

static void measure(const struct shape *s, const struct type *type)
{
	static double attn_s[MAX_LAYERS], tree_s[MAX_LAYERS], read_s[MAX_LAYERS];
	size_t bytes = 2 * b.depth * VNPU_KV_BYTES(type->type, s->kv_heads * s->head_dim);
	size_t layers = MEMORY_BYTES / bytes;
	static volatile uint64_t sink;
	unsigned int n = 0;
	double end, flops;

	if (layers < 4) {
		printf("%-5s %-5s %6u  too large\n", s->name, type->name, b.depth);
		return;
	}
	for (end = now_s() + b.seconds; n < MAX_LAYERS && (n < 5 || now_s() < end); n++) {
		/* Far apart, so that none reads what another has just read. */
		const uint8_t *cache = b.memory + n % layers * bytes;
		const uint8_t *other = b.memory + (n + layers / 2) % layers * bytes;
		const uint8_t *third = b.memory + (n + layers / 4) % layers * bytes;
		double t0 = now_s(), t1, t2;

		attend(s, type->type, cache, NULL);
		t1 = now_s();
		sink += read_all(other, bytes);
		t2 = now_s();
		attn_s[n] = t1 - t0;
		read_s[n] = t2 - t1;
		if (b.rows > 1)
			attend(s, type->type, third, b.mask);
		tree_s[n] = now_s() - t2;
	}
	end = median(attn_s, n);
	flops = 4.0 * s->heads * s->head_dim * b.depth * b.rows;
	printf("%-5s %-5s %6u %10.1f %8.2f %8.3f %8.1f", s->name, type->name, b.depth, end * 1e6,
	       (double)bytes / end / 1e9, median(read_s, n) / end, flops / end / 1e9);
	if (b.rows > 1)
		printf(" %8.3f", median(tree_s, n) / end);
	putchar('\n');
	fflush(stdout);
}

/* Whether @name is the one asked for. */
static bool wanted(const char *only, const char *name)
{
	return !only || !strcmp(only, name);
}

static void measure_all(unsigned int only, const char *shape, const char *type)
{
	printf("%s, %u token%s at once\nshape cache  depth   us/layer     GB/s  of read   "
	       "GFLOPS%s\n",
	       b.kernels->name, b.rows, b.rows > 1 ? "s" : "", b.rows > 1 ? "     tree" : "");
	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
		if (!wanted(type, types[t].name))
			continue;
		fill(types[t].type);
		for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
			for (size_t d = 0; d < sizeof(depths) / sizeof(depths[0]); d++) {
				b.depth = depths[d];
				if ((!only || only == b.depth) && wanted(shape, shapes[s].name))
					measure(&shapes[s], &types[t]);
			}
	}
}

static const struct fw_kernels *kernels_of(const char *isa)
{
	if (!isa)
		return fw_kernels_get(FW_ISA_AUTO);
	for (int i = FW_ISA_GENERIC; i <= FW_ISA_NEON_I8MM; i++) {
		const char *name = fw_isa_name((enum fw_isa)i);

		if (name && !strcmp(name, isa))
			return fw_kernels_get((enum fw_isa)i);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const char *isa = NULL, *shape = NULL, *type = NULL;
	unsigned int only = 0;
	int c;

	b.seconds = 0.5;
	b.rows = 1;
	while ((c = getopt(argc, argv, "t:i:r:d:s:c:")) >= 0) {
		if (c == 't')
			b.seconds = atof(optarg);
		else if (c == 'i')
			isa = optarg;
		else if (c == 'r')
			b.rows = (unsigned int)atoi(optarg);
		else if (c == 'd')
			only = (unsigned int)atoi(optarg);
		else if (c == 's')
			shape = optarg;
		else if (c == 'c')
			type = optarg;
		else
			return 2;
	}
	if (b.rows < 1 || b.rows > VNPU_MASK_ROWS)
		die("-r: 1 to 64 tokens");
	grow_tree();
	b.kernels = kernels_of(isa);
	if (!b.kernels)
		die("this host does not have that instruction set");
	b.memory = map(MEMORY_BYTES);
	b.q = calloc(64 * 4096, sizeof(*b.q));
	b.y = calloc(64 * 4096, sizeof(*b.y));
	b.scratch = map(FW_SCRATCH_BYTES);
	if (!b.q || !b.y)
		die("out of memory");
	for (size_t i = 0; i < 64 * 4096; i++)
		b.q[i] = (float)(i % 7) * 0.1f - 0.3f;
	measure_all(only, shape, type);
	return 0;
}
