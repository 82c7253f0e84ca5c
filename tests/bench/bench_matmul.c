// SPDX-License-Identifier: MIT
/*
 * INT8 matmul: GOPS (2 m n k per second) of each instruction set that this host has, on one thread, beside what the
 * host can do at most, measured in the same run: vpdpbusd on registers only, and reading memory for the shapes of one
 * row, which read every weight once.
 *
 *	bench_matmul [SECONDS per figure (0.2)]
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

#if defined(__x86_64__)
/* Twelve independent sums hide the latency. GOPS. */
__attribute__((target("avx512f,avx512vnni"))) static double vpdpbusd_peak(double limit)
{
	__m512i a = _mm512_set1_epi32(0x01020304), b = _mm512_set1_epi32(0x01010101);
	__m512i c0 = a, c1 = a, c2 = a, c3 = a, c4 = a, c5 = a, c6 = a, c7 = a, c8 = a, c9 = a, c10 = a, c11 = a;
	double start = seconds(), t;
	uint64_t n = 0;
	int i;

	do {
		for (i = 0; i < 20000; i++)
			__asm__ volatile("vpdpbusd %13, %12, %0; vpdpbusd %13, %12, %1; vpdpbusd %13, %12, %2;"
					 "vpdpbusd %13, %12, %3; vpdpbusd %13, %12, %4; vpdpbusd %13, %12, %5;"
					 "vpdpbusd %13, %12, %6; vpdpbusd %13, %12, %7; vpdpbusd %13, %12, %8;"
					 "vpdpbusd %13, %12, %9; vpdpbusd %13, %12, %10; vpdpbusd %13, %12, %11"
					 : "+v"(c0), "+v"(c1), "+v"(c2), "+v"(c3), "+v"(c4), "+v"(c5), "+v"(c6),
					   "+v"(c7), "+v"(c8), "+v"(c9), "+v"(c10), "+v"(c11)
					 : "v"(a), "v"(b));
		n += 20000;
		t = seconds() - start;
	} while (t < limit);
	return n * 12.0 * 128 / t * 1e-9;
}

/* Adding up @bytes again and again: GB/s. */
__attribute__((target("avx512f"))) static double read_bandwidth(const uint8_t *p, size_t bytes, double limit)
{
	__m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
	double start = seconds(), t;
	uint64_t n = 0;
	size_t i;

	do {
		for (i = 0; i + 256 <= bytes; i += 256) {
			_mm_prefetch(p + i + 4096, _MM_HINT_T0);
			_mm_prefetch(p + i + 4160, _MM_HINT_T0);
			_mm_prefetch(p + i + 4224, _MM_HINT_T0);
			_mm_prefetch(p + i + 4288, _MM_HINT_T0);
			a = _mm512_add_epi32(a, _mm512_loadu_si512(p + i));
			b = _mm512_add_epi32(b, _mm512_loadu_si512(p + i + 64));
			c = _mm512_add_epi32(c, _mm512_loadu_si512(p + i + 128));
			d = _mm512_add_epi32(d, _mm512_loadu_si512(p + i + 192));
		}
		n += bytes;
		t = seconds() - start;
	} while (t < limit);
	a = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
	__asm__ volatile("" : : "v"(a));
	return n / t * 1e-9;
}
#endif

static void *fill(size_t bytes, bool random)
{
	uint32_t *p = aligned_alloc(64, (bytes + 63) / 64 * 64), x = 1;
	size_t i;

	if (!p) {
		fprintf(stderr, "bench_matmul: no memory for %zu bytes\n", bytes);
		exit(1);
	}
	for (i = 0; i < (bytes + 63) / 64 * 16; i++)
		p[i] = random ? x = x * 1664525 + 1013904223 : 0;
	return p;
}

/* GOPS of one kernel on one shape. */
static double measure(const struct fw_kernels *k, uint32_t m, uint32_t n, uint32_t kk, void *scratch, double limit)
{
	size_t lda = (kk + 3) / 4 * 4, w_bytes = (n + 63) / 64 * VNPU_PANEL_I8_BYTES(kk);
	struct fw_matmul_i8 t = { .m = m, .n = n, .k = kk, .lda = lda, .ldc = n };
	int8_t *a = fill(m * lda, true);
	float *scale = fill(m * 4, false), *c = fill((size_t)m * n * 4, false);
	uint8_t *w = fill(w_bytes, true);
	double start, s;
	uint64_t runs = 0;

	t.a = a;
	t.a_scale = scale;
	t.w = w;
	t.c = c;
	k->matmul_i8(&t, scratch);
	start = seconds();
	do {
		k->matmul_i8(&t, scratch);
		runs++;
		s = seconds() - start;
	} while (s < limit);
	free(a);
	free(scale);
	free(w);
	free(c);
	return 2.0 * m * n * kk * runs / s * 1e-9;
}

int main(int argc, char **argv)
{
	static const uint32_t shapes[][3] = {
		{ 1, 1024, 1024 },  { 1, 4096, 4096 },	 { 1, 32768, 2048 }, { 4, 4096, 2048 },	 { 16, 4096, 2048 },
		{ 64, 2048, 2048 }, { 256, 2048, 2048 }, { 256, 4096, 896 }, { 96, 1024, 8192 }, { 6, 64, 2048 },
	};
	static const enum fw_isa isas[] = { FW_ISA_AVX512_VNNI, FW_ISA_AVX2, FW_ISA_GENERIC };
	double limit = argc > 1 ? atof(argv[1]) : 0.2, peak = 0, bandwidth = 0, gops;
	void *scratch = aligned_alloc(64, FW_SCRATCH_BYTES);
	const struct fw_kernels *k;
	unsigned int i, j;

	if (!scratch || limit <= 0) {
		fprintf(stderr, "usage: bench_matmul [SECONDS]\n");
		return 2;
	}
#if defined(__x86_64__)
	if (fw_kernels_get(FW_ISA_AVX512_VNNI)) {
		size_t bytes = 64 << 20;
		uint8_t *mem = fill(bytes + 8192, true);

		peak = vpdpbusd_peak(limit);
		bandwidth = read_bandwidth(mem, bytes, limit);
		printf("vpdpbusd peak %.1f GOPS, reading memory %.1f GB/s\n", peak, bandwidth);
		free(mem);
	}
#endif
	printf("%-12s %6s %6s %6s %10s %8s %12s\n", "isa", "m", "n", "k", "GOPS", "of peak", "of bandwidth");
	for (i = 0; i < sizeof(isas) / sizeof(isas[0]); i++) {
		k = fw_kernels_get(isas[i]);
		for (j = 0; k && j < sizeof(shapes) / sizeof(shapes[0]); j++) {
			gops = measure(k, shapes[j][0], shapes[j][1], shapes[j][2], scratch, limit);
			printf("%-12s %6u %6u %6u %10.1f", k->name, shapes[j][0], shapes[j][1], shapes[j][2], gops);
			if (peak)
				printf(" %8.3f", gops / peak);
			/* A weight is a byte and two operations. */
			if (bandwidth && shapes[j][0] == 1)
				printf(" %12.3f", gops / 2 / bandwidth);
			printf("\n");
		}
	}
	free(scratch);
	return 0;
}
