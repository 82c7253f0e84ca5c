/* SPDX-License-Identifier: MIT */
/*
 * Rows of a KV cache, read: numbers of its types as floats. For files that include kernels_vec.h
 * first.
 */

/* LANES values of F16. */
INLINE vf load_f16(const uint16_t *h)
{
#if LANES == 16
	return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)h));
#elif LANES == 8
	return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)h));
#elif defined(__ARM_FEATURE_DOTPROD)
	return (vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h)));
#else
	vf v;

	for (int i = 0; i < LANES; i++)
		v[i] = fw_f16_to_f32(h[i]);
	return v;
#endif
}

INLINE float widen_f16(uint16_t h)
{
#if LANES >= 8
	return _cvtsh_ss(h);
#else
	return fw_f16_to_f32(h);
#endif
}

/*
 * The numbers of a row are its values, or of Q8_0 its integers, whose blocks have a scale each. All
 * of them are floats exactly.
 */

/* Converts the first @n numbers of a row. */
INLINE void widen(float *y, const void *row, uint32_t n, uint32_t type)
{
	const uint8_t *block = row;
	const uint16_t *h = row;
	uint32_t i, b;

	if (type == VNPU_KV_F32) {
		memcpy(y, row, n * sizeof(float));
	} else if (type == VNPU_KV_F16) {
		for (i = 0; i + LANES <= n; i += LANES)
			store(y + i, load_f16(h + i));
		for (; i < n; i++)
			y[i] = widen_f16(h[i]);
	} else {
		for (b = 0; b < n; b += VNPU_Q8_0_VALUES, block += VNPU_Q8_0_BYTES) {
			for (i = 0; i < VNPU_Q8_0_VALUES; i += LANES)
				store(y + b + i, load_s8((const int8_t *)block + 2 + i));
		}
	}
}

/* LANES numbers of a row from @d, a multiple of LANES, on. */
INLINE vf load_kv(const void *row, uint32_t d, const uint32_t type)
{
	const uint8_t *block =
		(const uint8_t *)row + (size_t)d / VNPU_Q8_0_VALUES * VNPU_Q8_0_BYTES;

	if (type == VNPU_KV_F32)
		return load((const float *)row + d);
	if (type == VNPU_KV_F16)
		return load_f16((const uint16_t *)row + d);
	return load_s8((const int8_t *)block + 2 + d % VNPU_Q8_0_VALUES);
}

#if LANES == 16
/* 16 bytes of each of four rows @apart, side by side. */
INLINE __m512i load_16_bytes(const uint8_t *row, size_t apart)
{
	__m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)row));

#define ROW_16(i) _mm_loadu_si128((const __m128i *)(row + (i)*apart))
	x = _mm512_mask_broadcast_i32x4(x, 0xf0, ROW_16(1));
	x = _mm512_mask_broadcast_i32x4(x, 0xf00, ROW_16(2));
	return _mm512_mask_broadcast_i32x4(x, 0xf000, ROW_16(3));
}
#else
typedef uint16_t vf16 __attribute__((vector_size(2 * LANES)));
#endif

/* The scales of a block of Q8_0 of LANES rows, from the first one's block on. */
INLINE vf load_scales(const uint8_t *block, size_t row_bytes)
{
#if LANES == 16
	__m512i even = _mm512_unpacklo_epi32(load_16_bytes(block, 4 * row_bytes),
					     load_16_bytes(block + row_bytes, 4 * row_bytes));
	__m512i odd = _mm512_unpacklo_epi32(load_16_bytes(block + 2 * row_bytes, 4 * row_bytes),
					    load_16_bytes(block + 3 * row_bytes, 4 * row_bytes));

	return (vf)_mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_unpacklo_epi64(even, odd)));
#else
	uint16_t scale;
	vf16 h = { 0 };

#pragma GCC unroll 16
	for (uint32_t i = 0; i < LANES; i++) {
		memcpy(&scale, block + i * row_bytes, sizeof(scale));
		h[i] = scale;
	}
	return load_f16((const uint16_t *)&h);
#endif
}

/* The same of @n rows; those of other lanes are 0. */
INLINE vf load_scales_part(const uint8_t *block, size_t row_bytes, uint32_t n)
{
	uint16_t h[LANES] = { 0 };

	for (uint32_t i = 0; i < n; i++)
		memcpy(&h[i], block + i * row_bytes, sizeof(h[i]));
	return load_f16(h);
}
