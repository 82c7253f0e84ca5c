// SPDX-License-Identifier: MIT
/*
 * Weights of 1 to 8 bits with AVX2, for a single row. The packed weights are read once and in order
 * and unpacked to the numbers u in registers. These are the unsigned operand of vpmaddubsw, whose
 * sums of two products, each below 2^15, fit 16 bits as long as u has at most seven bits. The
 * eighth bit is multiplied separately.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#define WK_VEC 32
#include "kernels_wk_vec.h"

/* c += u x, 4 products per sum. */
WK_INLINE __m256i wk_dot(__m256i c, __m256i u, __m256i x, const int bits)
{
	const __m256i low = _mm256_set1_epi8(127), one = _mm256_set1_epi16(1),
		      top = _mm256_set1_epi16(128);
	__m256i high;

	if (bits == 8) {
		high = _mm256_and_si256(_mm256_srli_epi16(u, 7), _mm256_set1_epi8(1));
		c = _mm256_add_epi32(c, _mm256_madd_epi16(_mm256_maddubs_epi16(high, x), top));
		u = _mm256_and_si256(u, low);
	}
	return _mm256_add_epi32(c, _mm256_madd_epi16(_mm256_maddubs_epi16(u, x), one));
}

#include "kernels_wk_row256.h"

void fw_wk_row_avx2(const struct fw_matmul_i8 *t, void *scratch)
{
	wk_row_times_panels(t, scratch);
}
#endif
