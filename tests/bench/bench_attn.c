// SPDX-License-Identifier: MIT
/*
 * Attention of one token: how fast its KV cache is read, against plain reads of the same memory.
 *
 *	bench_attn [-t SECONDS per figure (0.5)] [-i ISA] [-r ROWS (1)] [-d DEPTH (all)]
 *		[-s SHAPE (all)] [-c CACHE TYPE (all)] [-m MIB (384)]
 *		[-g MOST KV HEADS IN A TILE (all)]
 *
 * For each shape, depth and type of cache: microseconds for a layer, GB/s of cache, the fraction of
 * the plain reads' GB/s, and GFLOPS of the two matmuls. One thread computes all heads of one layer
 * after another; the layers together are larger than any cache, as those of a model are between two
 * tokens. Attention and plain reads alternate, layer by layer, so both see the same neighbours on a
 * shared host; figures are medians, of the faster way of reading (reader.h). -r: so many tokens at
 * once, as in verifying a draft; then also as the nodes of a token tree, and that time as a
 * multiple of theirs as a sequence, which alternates with it. -m: memory of all layers; a few MiB,
 * which stay in a cache, show the arithmetic's own time.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernels.h"
#include "reader.h"

#define HUGE (2ul << 20)
#define MAX_LAYERS 4096
#define MAX_DEPTH 65536
/* Of 64 rows' 32 heads of 128. */
#define PARTS (MAX_DEPTH / FW_ATTN_SEGMENT * 64 * 32 * (128 + 32))

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

static unsigned int depths[] = { 512, 2048, 8192, 32768 };
static size_t nr_depths = sizeof(depths) / sizeof(depths[0]);

static struct bench {
	const struct fw_kernels *kernels;
	double seconds;
	unsigned int rows, depth;
	uint8_t *memory; /* of caches */
	size_t bytes;
	unsigned int heads; /* most KV heads in a tile, 0: all */
	float *q, *y, *parts;
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
	for (size_t i = 0; i + bytes <= b.bytes; i += bytes)
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

/* The command's arguments for @heads KV heads from @h on. */
static struct fw_attn attn_of(const struct shape *s, enum vnpu_kv_type type, const uint8_t *cache,
			      unsigned int h, unsigned int heads, const uint64_t *mask)
{
	size_t row_bytes = VNPU_KV_BYTES(type, s->kv_heads * s->head_dim);
	unsigned int group = s->heads / s->kv_heads;
	size_t at = VNPU_KV_BYTES(type, h * s->head_dim), column = h * group * s->head_dim;

	return (struct fw_attn){
		.q = b.q + column,
		.y = b.y + column,
		.ldq = s->heads * s->head_dim,
		.ldy = s->heads * s->head_dim,
		.heads = heads,
		.group = group,
		.nr_q = group * b.rows,
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
}

static unsigned int least(unsigned int x, unsigned int y)
{
	return x < y ? x : y;
}

/* All queries of some heads in a tile, for each segment of keys. */
static void attend_segments(const struct shape *s, enum vnpu_kv_type type, const uint8_t *cache,
			    unsigned int most, const uint64_t *mask)
{
	size_t part = fw_attn_part_floats(s->head_dim);
	unsigned int heads = s->kv_heads;
	struct fw_attn t;

	if (b.heads && b.heads < heads)
		heads = b.heads;
	heads = least(heads, most / (s->heads / s->kv_heads * b.rows));
	for (unsigned int i = 0; i * FW_ATTN_SEGMENT < b.depth; i++)
		for (unsigned int h = 0; h < s->kv_heads; h += heads) {
			t = attn_of(s, type, cache, h, least(heads, s->kv_heads - h), mask);
			t.segment = i;
			t.part = b.parts + (i * s->kv_heads + h) * t.nr_q * part;
			b.kernels->attn(&t, b.scratch);
		}
	t = attn_of(s, type, cache, 0, s->kv_heads, mask);
	t.part = b.parts;
	b.kernels->attn_fold(&t);
}

/* In tiles as the device has them. */
static void attend(const struct shape *s, enum vnpu_kv_type type, const uint8_t *cache,
		   const uint64_t *mask)
{
	unsigned int queries = s->heads / s->kv_heads * b.rows, most = fw_attn_queries(s->head_dim);
	unsigned int tile = fw_attn_tile(s->head_dim, (uint64_t)queries * s->kv_heads);
	struct fw_attn t;

	if (queries <= most) {
		attend_segments(s, type, cache, most, mask);
		return;
	}
	for (unsigned int h = 0; h < s->kv_heads; h++) {
		t = attn_of(s, type, cache, h, 1, mask);
		for (t.first = 0; t.first < queries; t.first += t.nr_q) {
			t.nr_q = least(tile, queries - (unsigned int)t.first);
			b.kernels->attn(&t, b.scratch);
		}
	}
}

/* GB/s of plain reads of @bytes of memory, rounded up to the reader's. */
static double read_rate(reader_fn reader, const uint8_t *memory, size_t bytes)
{
	double start = now_s();
	size_t off = 0;

	do {
		reader(memory + off);
		off += READER_BYTES;
	} while (off < bytes);
	return (double)off / (now_s() - start) * 1e-9;
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
	static double attn_s[MAX_LAYERS], tree_s[MAX_LAYERS], read[READERS][MAX_LAYERS];
	size_t bytes = 2 * b.depth * VNPU_KV_BYTES(type->type, s->kv_heads * s->head_dim);
	size_t layers = b.bytes / bytes;
	double end, flops, rate, plain = 0;
	unsigned int n = 0;

	if (layers < 1 + READERS) {
		printf("%-5s %-5s %6u  too large\n", s->name, type->name, b.depth);
		return;
	}
	for (end = now_s() + b.seconds; n < MAX_LAYERS && (n < 5 || now_s() < end); n++) {
		/* Far apart, so that none reads what another has just read. */
		const uint8_t *cache = b.memory + n % layers * bytes;
		const uint8_t *third = b.memory + (n + layers / 4) % layers * bytes;
		const uint8_t *other[READERS] = {
			b.memory + (n + layers / 2) % layers * bytes,
			b.memory + (n + layers * 3 / 4) % layers * bytes,
		};
		double t0 = now_s(), t1;

		attend(s, type->type, cache, NULL);
		t1 = now_s();
		attn_s[n] = t1 - t0;
		for (int i = 0; i < READERS; i++)
			read[i][n] = read_rate(readers[i], other[i], bytes);
		t1 = now_s();
		if (b.rows > 1)
			attend(s, type->type, third, b.mask);
		tree_s[n] = now_s() - t1;
	}
	for (int i = 0; i < READERS; i++)
		plain = fmax(plain, median(read[i], n));
	end = median(attn_s, n);
	rate = (double)bytes / end * 1e-9;
	flops = 4.0 * s->heads * s->head_dim * b.depth * b.rows;
	printf("%-5s %-5s %6u %10.1f %8.2f %8.3f %8.1f", s->name, type->name, b.depth, end * 1e6,
	       rate, rate / plain, flops / end / 1e9);
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

static void measure_all(const char *shape, const char *type)
{
	printf("%s, %u token%s at once\nshape cache  depth   us/layer     GB/s  of read   "
	       "GFLOPS%s\n",
	       b.kernels->name, b.rows, b.rows > 1 ? "s" : "", b.rows > 1 ? "     tree" : "");
	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
		if (!wanted(type, types[t].name))
			continue;
		fill(types[t].type);
		for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
			for (size_t d = 0; d < nr_depths && wanted(shape, shapes[s].name); d++) {
				b.depth = depths[d];
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
	int c;

	b.bytes = 384ul << 20;
	b.seconds = 0.5;
	b.rows = 1;
	while ((c = getopt(argc, argv, "t:i:r:d:s:c:m:g:")) >= 0) {
		if (c == 't')
			b.seconds = atof(optarg);
		else if (c == 'i')
			isa = optarg;
		else if (c == 'r')
			b.rows = (unsigned int)atoi(optarg);
		else if (c == 'd')
			depths[0] = (unsigned int)atoi(optarg), nr_depths = 1;
		else if (c == 'g')
			b.heads = (unsigned int)atoi(optarg);
		else if (c == 'm')
			b.bytes = strtoul(optarg, NULL, 10) << 20;
		else if (c == 's')
			shape = optarg;
		else if (c == 'c')
			type = optarg;
		else
			return 2;
	}
	if (b.rows < 1 || b.rows > VNPU_MASK_ROWS)
		die("-r: 1 to 64 tokens");
	if (depths[0] < b.rows || depths[0] > MAX_DEPTH)
		die("-d: at least the tokens of -r, at most 65536");
	if (b.bytes < 1ul << 20 || b.bytes > 64ul << 30)
		die("-m: 1 to 65536 MiB");
	grow_tree();
	b.kernels = kernels_of(isa);
	if (!b.kernels)
		die("this host does not have that instruction set");
	b.memory = map(b.bytes + READER_BYTES + READER_AHEAD);
	b.q = calloc(64 * 4096, sizeof(*b.q));
	b.y = calloc(64 * 4096, sizeof(*b.y));
	b.scratch = map(FW_SCRATCH_BYTES);
	b.parts = calloc(PARTS, sizeof(*b.parts));
	if (!b.q || !b.y || !b.parts)
		die("out of memory");
	for (size_t i = 0; i < 64 * 4096; i++)
		b.q[i] = (float)(i % 7) * 0.1f - 0.3f;
	measure_all(shape, type);
	return 0;
}
