/* SPDX-License-Identifier: MIT */
/*
 * What the tests of kernels share: all sets that this host has, the portable one
 * first, and data for them.
 */
#ifndef FW_SETS_H
#define FW_SETS_H

#include "fw_fake.h"

/* The bounds of docs/isa.md; U is half a unit in the last place of 1. */
#define U (0x1p-24)

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
