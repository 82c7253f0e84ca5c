/* SPDX-License-Identifier: MIT */
/*
 * What the tests of kernels share: all sets that this host has, the portable one
 * first, and data for them.
 */
#ifndef FW_SETS_H
#define FW_SETS_H

#include "fw_fake.h"

#include <sys/mman.h>

/* The bounds of docs/isa.md; U is half a unit in the last place of 1. */
#define U (0x1p-24)

/* Rounds of random data, fewer where each takes many times as long. */
#ifdef __SANITIZE_ADDRESS__
#define ROUNDS(n) (((n) + 3) / 4)
#else
#define ROUNDS(n) (n)
#endif

static const struct fw_kernels *sets[FW_ISA_NEON_I8MM];
static unsigned int nr_sets;

static UNUSED void find_sets(void)
{
	enum fw_isa isa;

	for (isa = FW_ISA_GENERIC; isa <= FW_ISA_NEON_I8MM; isa++)
		if (fw_kernels_get(isa))
			sets[nr_sets++] = fw_kernels_get(isa);
}

static UNUSED void *need(size_t bytes)
{
	void *p = malloc(bytes ? bytes : 1);

	assert_non_null(p);
	return p;
}

static UNUSED float *random_floats(size_t n, float scale)
{
	float *x = need(n * sizeof(*x));
	size_t i;

	for (i = 0; i < n; i++)
		x[i] = rng_float() * scale;
	return x;
}

/* Memory that ends at an inaccessible page, because ASan does not see tile loads. */
static UNUSED void *guarded(size_t bytes)
{
	size_t pages = (bytes + 4095) / 4096 * 4096;
	uint8_t *p = mmap(NULL, pages + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(mprotect(p + pages, 4096, PROT_NONE), 0);
	return p + pages - bytes;
}

static UNUSED void unguard(void *p, size_t bytes)
{
	size_t pages = (bytes + 4095) / 4096 * 4096;

	munmap((uint8_t *)p + bytes - pages, pages + 4096);
}

/* Two rows of floats are the same bits; NaNs equal each other. */
static UNUSED void assert_same(const float *a, const float *b, size_t n, const char *set,
			       const char *what)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (memcmp(&a[i], &b[i], sizeof(a[i])) && !(isnan(a[i]) && isnan(b[i])))
			fail_msg("%s %s: element %zu of %zu is %a, portable %a", set, what, i, n,
				 a[i], b[i]);
}

#endif /* FW_SETS_H */
