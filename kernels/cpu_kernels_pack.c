// SPDX-License-Identifier: MIT
/* Packing in vectors of 128 bits, for any machine: SSE2 on x86-64, NEON on aarch64. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define LANES 4
#define INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));
typedef int16_t v16 __attribute__((vector_size(16)));

#define ZIP_LOW ((vi){ 0, 4, 1, 5 })
#define ZIP_HIGH ((vi){ 2, 6, 3, 7 })
#define PAIRS_LOW ((vi){ 0, 1, 4, 5 })
#define PAIRS_HIGH ((vi){ 2, 3, 6, 7 })

/* 16 bytes at @at of every fourth row. */
INLINE vu load_rows(const uint8_t *const *row, size_t at)
{
	vu v;

	memcpy(&v, row[0] + at, sizeof(v));
	return v;
}

/* The lower halves of the words. */
INLINE void store_halves(uint8_t *to, vu v)
{
	uint64_t both;

#if defined(__SSE2__)
	__m128i h = _mm_srai_epi32(_mm_slli_epi32((__m128i)v, 16), 16);

	both = (uint64_t)_mm_cvtsi128_si64(_mm_packs_epi32(h, h));
#else
	typedef uint16_t v4 __attribute__((vector_size(8)));

	both = (uint64_t) __builtin_convertvector(v, v4);
#endif
	memcpy(to, &both, sizeof(both));
}

INLINE vf load_f32(const uint8_t *p)
{
	vf v;

	memcpy(&v, p, sizeof(v));
	return v;
}

INLINE vu load_16(const uint8_t *p)
{
	typedef uint16_t v4 __attribute__((vector_size(8)));
	v4 v;

	memcpy(&v, p, sizeof(v));
	return __builtin_convertvector(v, vu);
}

/* F16, finite, widened: as the exponent is moved to its place, it is 2^112 times too small. */
INLINE vf load_f16(const uint8_t *p)
{
	const vu h = load_16(p);
	const vf x = (vf)((h & 0x7fff) << 13) * 0x1p112f;

	return (vf)((vu)x | (h & 0x8000) << 16);
}

INLINE vf load_bf16(const uint8_t *p)
{
	return (vf)(load_16(p) << 16);
}

/* Signed bytes. */
INLINE vf load_i8(const uint8_t *p)
{
	uint32_t four;
	vi v;

	memcpy(&four, p, sizeof(four));
	v = (vi)((vi){ (int32_t)(four << 24), (int32_t)(four << 16), (int32_t)(four << 8),
		       (int32_t)four });
	return __builtin_convertvector(v >> 24, vf);
}

/* x by + plus */
INLINE vf scale_values(vf x, float by, float plus)
{
	return x * by + plus;
}

/* Some word of the four registers has no bit of @mask. */
INLINE bool near_half(const vu w[4], uint32_t mask)
{
	const vi any = ((w[0] & mask) == 0) | ((w[1] & mask) == 0) | ((w[2] & mask) == 0) |
		       ((w[3] & mask) == 0);
	uint64_t half[2];

	memcpy(half, &any, sizeof(half));
	return half[0] | half[1];
}

/* Bits @shift to @shift + 7 of the words of four registers, in order. */
INLINE void store_bytes(int8_t *q, const vu w[4], const int shift)
{
#if defined(__SSE2__)
	const __m128i low = _mm_set1_epi32(255);
	__m128i b[4];

	for (int v = 0; v < 4; v++)
		b[v] = _mm_and_si128(_mm_srli_epi32((__m128i)w[v], shift), low);
	b[0] = _mm_packus_epi16(_mm_packs_epi32(b[0], b[1]), _mm_packs_epi32(b[2], b[3]));
	_mm_storeu_si128((__m128i *)q, b[0]);
#elif defined(__ARM_NEON)
	uint16x8_t a = vcombine_u16(vshrn_n_u32((uint32x4_t)w[0], shift),
				    vshrn_n_u32((uint32x4_t)w[1], shift)),
		   b = vcombine_u16(vshrn_n_u32((uint32x4_t)w[2], shift),
				    vshrn_n_u32((uint32x4_t)w[3], shift));

	vst1q_s8(q, vreinterpretq_s8_u8(vcombine_u8(vmovn_u16(a), vmovn_u16(b))));
#else
	for (int i = 0; i < 16; i++)
		q[i] = (int8_t)(w[i / 4][i % 4] >> shift);
#endif
}

INLINE v16 greater_16(v16 a, v16 b)
{
	const v16 above = a > b;

	return (a & above) | (b & ~above);
}

INLINE vi greater_32(vi a, vi b)
{
	const vi above = a > b;

	return (a & above) | (b & ~above);
}

/* Adds the four signed bytes of each word. */
INLINE vi add_bytes(vi sums, vu bytes)
{
#if defined(__ARM_NEON)
	return (vi)vpadalq_s16((int32x4_t)sums, vpaddlq_s8((int8x16_t)bytes));
#else
	const v16 two = ((v16)bytes << 8 >> 8) + ((v16)bytes >> 8);

	return sums + ((vi)two << 16 >> 16) + ((vi)two >> 16);
#endif
}

#include "cpu_kernels_pack_simd.h"

const struct cpu_pack cpu_pack_generic = {
	.w8 = pack_w8,
	.bytes = pack_bytes,
	.w4 = pack_w4,
	.kq = pack_kq,
};
