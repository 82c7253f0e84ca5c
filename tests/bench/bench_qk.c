// SPDX-License-Identifier: MIT
/*
 * QK_I8: GOPS (2 per product) of a head's scores for each instruction set of this host, and on
 * x86-64 the fraction of the peak, vpdpbusd on registers only; and how fast keys are packed.
 *
 *	bench_qk [-t SECONDS per figure (0.5)] [-i ISA] [-r ROWS (256)] [-c CONTEXT (4096)]
 *
 * For each head_dim: the scores of the context's last rows, one thread, with rows of scores as far
 * apart as there are positions, and 64 further. Subject and peer run alternately, and figures are
 * medians over the turns, in CPU time. pack: nanoseconds per key, and the time of copying as many
 * floats, as a fraction of it. attn: ATTN_I8 of those rows, beside ATTN with a cache of F16.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels.h"
#include "peak.h"

#define MAX_TURNS 2000
#define TURN_S 1e-3

static const uint32_t dims[] = { 64, 80, 128, 160, 256 };

static struct bench {
	const struct fw_kernels *kernels;
	double seconds;
	uint32_t rows, ctx;
	void *scratch;
} b;

/* Filled with 60, 1.06 in F16 and 0.0115 in F32: some processors take subnormal numbers slowly. */
static void *need(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (!p) {
		fprintf(stderr, "bench_qk: out of memory\n");
		exit(1);
	}
	memset(p, 60, bytes);
	return p;
}

static double cpu_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
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

/* Products of the scores: the panels that each row sees. */
static double products(const struct fw_qk_i8 *t)
{
	double n = 0;

	for (uint32_t r = 0; r < t->rows; r++)
		n += (double)((t->pos + r) / VNPU_QK_PANEL + 1) * VNPU_QK_PANEL * t->head_dim;
	return n;
}

static double peak_rate(void)
{
#if defined(__x86_64__)
	if (fw_kernels_get(FW_ISA_AVX512_VNNI))
		return vpdpbusd_rate(TURN_S);
#endif
	return 0;
}

static void scores(uint32_t dim, size_t lds)
{
	static double rates[MAX_TURNS], ratios[MAX_TURNS];
	struct fw_qk_i8 t = {
		.q = need((size_t)b.rows * dim),
		.k = need(b.ctx / VNPU_QK_PANEL * VNPU_QK_PANEL_BYTES(dim)),
		.scores = need(b.rows * lds * sizeof(int16_t)),
		.pos = b.ctx - b.rows,
		.rows = b.rows,
		.head_dim = dim,
		.panels = b.ctx / VNPU_QK_PANEL,
		.shift = vnpu_qk_shift(dim),
		.ldq = dim,
		.lds = lds,
	};
	double giga = 2 * products(&t) * 1e-9, end = cpu_s() + b.seconds, peak = peak_rate(), next;
	unsigned int n = 0, runs;

	do {
		double start = cpu_s(), s;

		for (runs = 0, s = 0; s < TURN_S; runs++, s = cpu_s() - start)
			b.kernels->qk_i8(&t, b.scratch);
		next = peak_rate();
		rates[n] = giga * runs / s;
		ratios[n] = next > 0 ? rates[n] / ((peak + next) / 2) : 0;
		peak = next;
		n++;
	} while (n < MAX_TURNS && cpu_s() < end);
	printf("%-12s scores %4u x %5u x %3u, lds %5zu: %8.1f GOPS", b.kernels->name, b.rows, b.ctx,
	       dim, lds, median(rates, n));
	printf(peak > 0 ? ", %.3f of peak\n" : "\n", median(ratios, n));
	fflush(stdout);
	free((void *)t.q);
	free((void *)t.k);
	free(t.scores);
}

static void pack(uint32_t dim)
{
	static double times[MAX_TURNS], ratios[MAX_TURNS];
	size_t n = (size_t)b.rows * dim;
	uint8_t *panels = need(b.ctx / VNPU_QK_PANEL * VNPU_QK_PANEL_BYTES(dim));
	float *x = need(n * 4), *copy = need(n * 4);
	double end = cpu_s() + b.seconds / 4;
	unsigned int turns = 0;

	for (size_t i = 0; i < n; i++)
		x[i] = (float)(i % 255) - 127;
	do {
		double t0 = cpu_s(), t1, t2;

		b.kernels->pack_keys(panels, x, dim, b.rows, dim, b.ctx - b.rows, 1);
		t1 = cpu_s();
		memcpy(copy, x, n * 4);
		__asm__ volatile("" : : "r"(copy) : "memory");
		t2 = cpu_s();
		times[turns] = (t1 - t0) / b.rows * 1e9;
		ratios[turns++] = (t2 - t1) / (t1 - t0);
	} while (turns < MAX_TURNS && cpu_s() < end);
	printf("%-12s pack   %4u x %3u: %.1f ns a key, %.3f of copying\n", b.kernels->name, b.rows,
	       dim, median(times, turns), median(ratios, turns));
	free(panels);
	free(x);
	free(copy);
}

/* One query head's attention, in INT8 and with a cache of F16, alternately. */
static void attention(uint32_t dim)
{
	static double times[MAX_TURNS], ratios[MAX_TURNS];
	float *q = need((size_t)b.rows * dim * 4), *y = need((size_t)b.rows * dim * 4);
	uint8_t *cache = need((size_t)b.ctx * dim * 2);
	struct fw_attn_i8 i8 = {
		.q = q,
		.y = y,
		.ldq = dim,
		.ldy = dim,
		.pos = b.ctx - b.rows,
		.rows = b.rows,
		.head_dim = dim,
		.k = need(b.ctx / VNPU_QK_PANEL * VNPU_QK_PANEL_BYTES(dim)),
		.v = need(VNPU_PV_BYTES(b.ctx, dim)),
		.q_scale = 0.01f,
		.k_scale = 0.01f,
		.v_scale = 0.01f,
		.scale = 0.1f,
	};
	struct fw_attn f16 = {
		.q = q,
		.y = y,
		.ldq = dim,
		.ldy = dim,
		.heads = 1,
		.group = 1,
		.pos = i8.pos,
		.k = cache,
		.v = cache,
		.k_row_bytes = dim * 2ul,
		.v_row_bytes = dim * 2ul,
		.kv_type = VNPU_KV_F16,
		.head_dim = dim,
		.scale = 0.1f,
	};
	double end = cpu_s() + b.seconds;
	unsigned int n = 0;

	do {
		double t0 = cpu_s(), t1, t2;

		b.kernels->attn_i8(&i8, b.scratch);
		t1 = cpu_s();
		for (f16.first = 0; f16.first < b.rows; f16.first += f16.nr_q) {
			uint32_t most = fw_attn_queries(dim), left = b.rows - (uint32_t)f16.first;

			f16.nr_q = left < most ? left : most;
			b.kernels->attn(&f16, b.scratch);
		}
		t2 = cpu_s();
		times[n] = t1 - t0;
		ratios[n++] = (t2 - t1) / (t1 - t0);
	} while (n < MAX_TURNS && cpu_s() < end);
	printf("%-12s attn   %4u x %5u x %3u: %.0f us, %.2f times as fast as with a cache of f16\n",
	       b.kernels->name, b.rows, b.ctx, dim, median(times, n) * 1e6, median(ratios, n));
	free(q);
	free(y);
	free(cache);
	free((void *)i8.k);
	free((void *)i8.v);
}

static void measure(void)
{
	for (size_t d = 0; d < sizeof(dims) / sizeof(dims[0]); d++) {
		scores(dims[d], b.ctx);
		scores(dims[d], b.ctx + 64);
		pack(dims[d]);
		attention(dims[d]);
	}
}

int main(int argc, char **argv)
{
	const char *isa = NULL;
	int c;

	b.seconds = 0.5;
	b.rows = 256;
	b.ctx = 4096;
	while ((c = getopt(argc, argv, "t:i:r:c:")) >= 0) {
		if (c == 't')
			b.seconds = atof(optarg);
		else if (c == 'i')
			isa = optarg;
		else if (c == 'r')
			b.rows = (uint32_t)atoi(optarg);
		else if (c == 'c')
			b.ctx = (uint32_t)atoi(optarg);
		else
			return 2;
	}
	if (!b.rows || b.rows > b.ctx || b.ctx % VNPU_QK_PANEL || b.ctx > VNPU_MAX_DIM) {
		fprintf(stderr, "bench_qk: rows are 1 to the context, a multiple of 64\n");
		return 2;
	}
	b.scratch = need(FW_SCRATCH_BYTES);
	for (int i = FW_ISA_NEON_I8MM; i >= FW_ISA_GENERIC; i--) {
		b.kernels = fw_kernels_get((enum fw_isa)i);
		if (b.kernels && (isa ? !strcmp(isa, b.kernels->name) : i > FW_ISA_GENERIC))
			measure();
	}
	return 0;
}
