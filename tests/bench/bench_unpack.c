// SPDX-License-Identifier: MIT
/*
 * Unpacking of weights of 1 to 8 bits to panels of MATMUL_I8: 10^9 weights per second of one core,
 * by width and for a mix of widths; EdgeFlow 3.2, challenge 2, and 4.2.
 *
 *	bench_unpack [-i ISA (the best)] [-k NUMBERS of a channel (4096)] [-m MEGABYTES of panels
 *	(128)] [-n TURNS (5)]
 *
 * Compares the product's panels of MATMUL_WK, with stores into the caches and past them, with other
 * formats (unpack_formats.h): EdgeFlow's figure 7, K-quants, and INT4 and INT8 only; and with
 * memcpy() of the packed and of the unpacked bytes. All formats take turns and write to the same
 * memory; figures are medians. Before that, each format must give the panels of the others.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <npu/vnpu_isa.h>

#include "cpu_kernels.h"
#include "npu_graph.h"
#include "unpack_formats.h"

#define HUGE (2ul << 20)
#define TURN_BYTES (32ul << 20)
#define MAX_TURNS 99
#define MIXED 9 /* among widths: panels of 3 to 7 bits, 5 on average */

enum {
	WK,
	WK_PAST,
	FIGURE7_ROWS,
	FIGURE7,
	FIGURE7_PAST,
	KQUANT,
	KQUANT_O3,
	INT48,
	COPY_PACKED,
	COPY_UNPACKED,
	SUBJECTS
};
static const char *const titles[SUBJECTS] = {
	"WK",	   "WK past",	 "figure 7 rows", "figure 7",	 "figure 7 past",
	"k-quant", "k-quant O3", "INT4/INT8",	  "copy packed", "copy INT8",
};

static struct bench {
	const struct cpu_kernels *set;
	const struct unpack_format *formats;
	uint32_t k, panels, turns;
	size_t bytes; /* of all panels of MATMUL_I8 */
	uint8_t *from, *to;
} b;

static void die(const char *what)
{
	fprintf(stderr, "bench_unpack: %s\n", what);
	exit(1);
}

static uint8_t *map(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	if (p == MAP_FAILED)
		die("out of memory");
	p += -(uintptr_t)p % HUGE;
	madvise(p, bytes, MADV_HUGEPAGE);
	memset(p, 0x5a, bytes);
	return p;
}

/* The width of a panel: of 16 panels 1 has 3 bits, 4 have 4, 6 have 5, 4 have 6 and 1 has 7. */
static uint32_t width(uint32_t width, uint32_t panel)
{
	static const uint8_t mixed[16] = { 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 7 };

	return width == MIXED ? mixed[panel % 16] : width;
}

/* INT4 and INT8 only: the narrowest that holds the width. */
static uint32_t int48(uint32_t bits)
{
	return bits > 4 ? 8 : 4;
}

static void unpack(int subject, uint32_t bits)
{
	static const uint8_t of_format[SUBJECTS] = {
		[FIGURE7_ROWS] = UNPACK_FIGURE7_ROWS, [FIGURE7] = UNPACK_FIGURE7,
		[FIGURE7_PAST] = UNPACK_FIGURE7,      [KQUANT] = UNPACK_KQUANT,
		[KQUANT_O3] = UNPACK_KQUANT_O3,
	};
	const struct unpack_format *f = &b.formats[of_format[subject]];
	const uint8_t *from = b.from;
	uint8_t *to = b.to, widths[64];

	for (uint32_t p = 0; p < b.panels; p++, to += VNPU_PANEL_I8_BYTES(b.k)) {
		uint32_t w = width(bits, p);

		if (subject == INT48)
			w = int48(w);
		if (subject == WK || subject == WK_PAST || subject == INT48) {
			b.set->unpack_wk(to, from, b.k, w, 64, subject == WK_PAST);
		} else if (subject == COPY_PACKED) {
			memcpy(to, from, VNPU_PANEL_WK_BYTES(b.k, w));
		} else {
			memset(widths, (int)w, sizeof(widths));
			f->unpack(to, from, widths, b.k, subject == FIGURE7_PAST);
		}
		from += VNPU_PANEL_WK_BYTES(b.k, w);
	}
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* 10^9 weights per second. Memory that fits into the caches is written several times in a turn. */
static double turn(int subject, uint32_t bits)
{
	size_t passes = b.bytes < TURN_BYTES ? TURN_BYTES / b.bytes : 1;
	double start = now_s();

	for (size_t i = 0; i < passes; i++) {
		if (subject == COPY_UNPACKED)
			memcpy(b.to, b.from, b.bytes);
		else
			unpack(subject, bits);
	}
	return (double)passes * b.panels * 64 * b.k / (now_s() - start) * 1e-9;
}

static int ascending(const void *x, const void *y)
{
	double d = *(const double *)x - *(const double *)y;

	return d < 0 ? -1 : d > 0;
}

/* Random numbers of a panel; a format that gives other numbers is no peer. */
static void check(uint32_t bits)
{
	const size_t weights = (size_t)b.k * 64;
	uint8_t widths[64], *packed = malloc(weights), *got = aligned_alloc(64, weights);
	uint8_t *want = aligned_alloc(64, VNPU_PANEL_I8_BYTES(b.k));
	int8_t *rows = malloc(weights);
	float scales[64] = { 0 };
	uint64_t state = bits;

	for (size_t i = 0; i < weights; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		rows[i] = (int8_t)((int64_t)state >> (64 - bits));
		if (bits == 1)
			rows[i] = rows[i] ? 1 : -1;
	}
	memset(widths, (int)bits, sizeof(widths));
	npu_pack_w8(want, 64, b.k, 0, 64, rows, scales);
	for (int i = 0; i < UNPACK_FORMATS; i++) {
		const uint8_t *all = i == UNPACK_FIGURE7_ROWS ? (const uint8_t *)rows : want;

		for (int c = 0; c < 64; c++)
			b.formats[i].pack(packed + c * unpack_channel_bytes(b.k, bits),
					  rows + (size_t)c * b.k, b.k, bits);
		for (int past = 0; past < 2; past++) {
			memset(got, 0x55, weights);
			b.formats[i].unpack(got, packed, widths, b.k, past);
			if (memcmp(got, all, weights))
				die("a format gives other numbers");
		}
	}
	free(packed);
	free(got);
	free(want);
	free(rows);
}

static void measure(uint32_t bits)
{
	static double rate[SUBJECTS][MAX_TURNS];

	for (uint32_t t = 0; t < b.turns + 1; t++)
		for (int i = 0; i < SUBJECTS; i++)
			rate[i][t ? t - 1 : 0] = turn(i, bits); /* the first turn warms up */
	if (bits == MIXED)
		printf("| mix |");
	else
		printf("| %u |", bits);
	for (int i = 0; i < SUBJECTS; i++) {
		qsort(rate[i], b.turns, sizeof(double), ascending);
		printf(" %.2f |", rate[i][b.turns / 2]);
	}
	printf(" %.2f | %.2f | %.1f | %.1f |\n", rate[WK][b.turns / 2] / rate[FIGURE7][b.turns / 2],
	       rate[WK_PAST][b.turns / 2] / rate[FIGURE7_PAST][b.turns / 2],
	       rate[WK][b.turns / 2] / rate[KQUANT][b.turns / 2],
	       rate[WK][b.turns / 2] / rate[KQUANT_O3][b.turns / 2]);
	fflush(stdout);
}

static const struct unpack_format *formats_of(const char *set)
{
#if defined(__x86_64__)
	if (!strcmp(set, "avx512"))
		return unpack_formats_avx512;
	if (!strcmp(set, "avx2"))
		return unpack_formats_avx2;
#endif
	return unpack_formats_generic;
}

int main(int argc, char **argv)
{
	const char *isa = NULL;
	size_t megabytes = 128;
	int opt;

	b.k = 4096;
	b.turns = 5;
	while ((opt = getopt(argc, argv, "i:k:m:n:")) != -1) {
		if (opt == 'i')
			isa = optarg;
		else if (opt == 'k')
			b.k = (uint32_t)atoi(optarg);
		else if (opt == 'm')
			megabytes = strtoul(optarg, NULL, 10);
		else if (opt == 'n')
			b.turns = (uint32_t)atoi(optarg);
		else
			return 2;
	}
	b.set = cpu_kernels_get(isa);
	if (!b.set || !b.k || b.k % UNPACK_GROUP || !megabytes || b.turns < 1 ||
	    b.turns > MAX_TURNS) {
		fprintf(stderr, "usage: bench_unpack [-i generic|avx2|avx512] [-k NUMBERS, a "
				"multiple of 512] [-m MEGABYTES] [-n TURNS]\n");
		return 2;
	}
	b.formats = formats_of(b.set->name);
	b.panels = (uint32_t)((megabytes << 20) / VNPU_PANEL_I8_BYTES(b.k));
	if (!b.panels)
		b.panels = 1;
	b.bytes = b.panels * VNPU_PANEL_I8_BYTES(b.k);
	b.from = map(b.bytes);
	b.to = map(b.bytes);
	for (uint32_t bits = 1; bits <= 8; bits++)
		check(bits);
	printf("%s, %u panels of %u numbers a channel, %u turns; 10^9 weights/s\n\n| bits |",
	       b.set->name, b.panels, b.k, b.turns);
	for (int i = 0; i < SUBJECTS; i++)
		printf(" %s |", titles[i]);
	printf(" WK / figure 7 | past | WK / k-quant | / O3 |\n|");
	for (int i = 0; i < SUBJECTS + 5; i++)
		printf("---:|");
	puts("");
	for (uint32_t bits = 1; bits <= MIXED; bits++)
		measure(bits);
	return 0;
}
