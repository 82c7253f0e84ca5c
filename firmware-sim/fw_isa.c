// SPDX-License-Identifier: MIT
/*
 * Which kernels this host can run, and the scalar mathematics that all of them share.
 */
#include <math.h>

#include "kernels.h"

const struct fw_kernels *fw_kernels_get(enum fw_isa isa)
{
#if defined(__x86_64__)
	bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
		      __builtin_cpu_supports("avx512vnni");

	if (avx512 && (isa == FW_ISA_AUTO || isa == FW_ISA_AVX512_VNNI))
		return &fw_kernels_avx512;
	if (avx2 && (isa == FW_ISA_AUTO || isa == FW_ISA_AVX2))
		return &fw_kernels_avx2;
#endif
	return isa == FW_ISA_AUTO || isa == FW_ISA_GENERIC ? &fw_kernels_generic : NULL;
}

const char *fw_isa_name(enum fw_isa isa)
{
	const struct fw_kernels *k = fw_kernels_get(isa);

	return k ? k->name : NULL;
}

/*
 * x = q pi/2 + r with |r| <= pi/4, then Taylor's polynomials in double: their error, 2^-37 at most, and that of the
 * reduction vanish in the rounding to float.
 */
void fw_sincos(double x, float *s, float *c)
{
	double q, r, r2, sin_r, cos_r;
	long n;

	if (!(fabs(x) < 1e9)) {
		*s = (float)sin(x);
		*c = (float)cos(x);
		return;
	}
	/* Adding 1.5 * 2^52 rounds to an integer. */
	q = x * 0.63661977236758134308 + 6755399441055744.0 - 6755399441055744.0;
	/* pi/2 as 33 bits and the rest: q times the first part is exact. */
	r = (x - q * 1.57079632673412561417e+00) - q * 6.07710050650619224932e-11;
	n = (long)q & 3;
	r2 = r * r;
	sin_r = r + r * r2 * (-1.0 / 6 + r2 * (1.0 / 120 + r2 * (-1.0 / 5040 + r2 * (1.0 / 362880 - r2 / 39916800))));
	cos_r = 1 - r2 / 2 +
		r2 * r2 * (1.0 / 24 + r2 * (-1.0 / 720 + r2 * (1.0 / 40320 + r2 * (-1.0 / 3628800 + r2 / 479001600))));
	*s = (float)(n == 0 ? sin_r : n == 1 ? cos_r : n == 2 ? -sin_r : -cos_r);
	*c = (float)(n == 0 ? cos_r : n == 1 ? -sin_r : n == 2 ? -cos_r : sin_r);
}
