/* SPDX-License-Identifier: MIT */
/* The peak of this host's INT8 arithmetic: vpdpbusd on registers only. */
#ifndef PEAK_H
#define PEAK_H

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>
#include <time.h>

static double peak_cpu_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* GOPS of one thread, in its CPU time, over @limit seconds. Twelve independent sums hide the
 * latency. */
__attribute__((target("avx512f,avx512vnni"))) static double vpdpbusd_rate(double limit)
{
	__m512i a = _mm512_set1_epi32(0x01020304), b = _mm512_set1_epi32(0x01010101);
	__m512i c0 = a, c1 = a, c2 = a, c3 = a, c4 = a, c5 = a, c6 = a, c7 = a, c8 = a, c9 = a,
		c10 = a, c11 = a;
	double start = peak_cpu_s(), t;
	uint64_t n = 0;
	int i;

	do {
		for (i = 0; i < 5000; i++)
			__asm__ volatile(
				"vpdpbusd %13, %12, %0; vpdpbusd %13, %12, %1; vpdpbusd %13, %12, "
				"%2;vpdpbusd %13, %12, %3; vpdpbusd %13, %12, %4; vpdpbusd %13, "
				"%12, %5;vpdpbusd %13, %12, %6; vpdpbusd %13, %12, %7; vpdpbusd "
				"%13, %12, %8;vpdpbusd %13, %12, %9; vpdpbusd %13, %12, %10; "
				"vpdpbusd %13, %12, %11"
				: "+v"(c0), "+v"(c1), "+v"(c2), "+v"(c3), "+v"(c4), "+v"(c5),
				  "+v"(c6), "+v"(c7), "+v"(c8), "+v"(c9), "+v"(c10), "+v"(c11)
				: "v"(a), "v"(b));
		n += 5000;
		t = peak_cpu_s() - start;
	} while (t < limit);
	return (double)n * 12.0 * 128 / t * 1e-9;
}
#endif

#endif /* PEAK_H */
