/* SPDX-License-Identifier: MIT */
/*
 * Keys of a cache, widened and transposed in registers: for attention's register tiles. For files
 * that include kernels_vec.h and kernels_cache.h first.
 *
 * load_keys() makes keys_step() numbers of LANES keys at a time. That is as few as shuffles allow:
 * the products of a step form chains that wait for one another, and a CPU looks only so many
 * instructions ahead for the next step's shuffles, which need not wait.
 */

/* Of Q8_0, with 16 lanes: q[c] holds integers 4c .. 4c + 3 of each key, as bytes of its lane. */
struct key_bytes {
#if LANES == 16
	__m512i q[4];
#endif
};

INLINE uint32_t keys_step(const uint32_t type)
{
	return LANES < 16 ? LANES : type == VNPU_KV_Q8_0 ? 4 : 8;
}

#if LANES == 16
/* 8 numbers, F16 or F32, of two rows @apart. */
INLINE __m512 load_two(const uint8_t *row, size_t apart, const uint32_t type)
{
	__m256i h;

	if (type == VNPU_KV_F32)
		return _mm512_insertf32x8(
			_mm512_castps256_ps512(_mm256_loadu_ps((const float *)row)),
			_mm256_loadu_ps((const float *)(row + apart)), 1);
	h = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)row));
	h = _mm256_inserti128_si256(h, _mm_loadu_si128((const __m128i *)(row + apart)), 1);
	return _mm512_cvtph_ps(h);
}

/* x[c][i] = number c of row i, for 8 numbers of 16 rows. */
INLINE void load_eight(vf x[8], const uint8_t *rows, size_t row_bytes, const uint32_t type)
{
	__m512 in[8], a[8], b[8];
	int i;

	/* Rows i and i + 4 of each eight rows. */
#pragma GCC unroll 2
	for (i = 0; i < 2; i++, rows += 8 * row_bytes) {
		in[i * 4] = load_two(rows, 4 * row_bytes, type);
		in[i * 4 + 1] = load_two(rows + row_bytes, 4 * row_bytes, type);
		in[i * 4 + 2] = load_two(rows + 2 * row_bytes, 4 * row_bytes, type);
		in[i * 4 + 3] = load_two(rows + 3 * row_bytes, 4 * row_bytes, type);
	}
#pragma GCC unroll 4
	for (i = 0; i < 8; i += 2) {
		a[i] = _mm512_unpacklo_ps(in[i], in[i + 1]);
		a[i + 1] = _mm512_unpackhi_ps(in[i], in[i + 1]);
	}
	/* b[4g + c]: numbers c and 4 + c of the rows 8g .. 8g + 3, then of 8g + 4 .. 8g + 7. */
#pragma GCC unroll 8
	for (i = 0; i < 8; i++) {
		__m512d even = (__m512d)a[i / 4 * 4 + i % 4 / 2];
		__m512d odd = (__m512d)a[i / 4 * 4 + i % 4 / 2 + 2];

		b[i] = (__m512)(i % 2 ? _mm512_unpackhi_pd(even, odd)
				      : _mm512_unpacklo_pd(even, odd));
	}
#pragma GCC unroll 4
	for (i = 0; i < 4; i++) {
		x[i] = (vf)_mm512_shuffle_f32x4(b[i], b[i + 4], 0x88);
		x[i + 4] = (vf)_mm512_shuffle_f32x4(b[i], b[i + 4], 0xdd);
	}
}

/* q[c] of 16 rows: bytes 4c .. 4c + 3 of each. */
INLINE void load_dwords(__m512i q[4], const uint8_t *rows, size_t row_bytes)
{
	__m512i in[4], a[4];
	int i;

#pragma GCC unroll 4
	for (i = 0; i < 4; i++)
		in[i] = load_16_bytes(rows + i * row_bytes, 4 * row_bytes);
	a[0] = _mm512_unpacklo_epi32(in[0], in[1]);
	a[1] = _mm512_unpackhi_epi32(in[0], in[1]);
	a[2] = _mm512_unpacklo_epi32(in[2], in[3]);
	a[3] = _mm512_unpackhi_epi32(in[2], in[3]);
	q[0] = _mm512_unpacklo_epi64(a[0], a[2]);
	q[1] = _mm512_unpackhi_epi64(a[0], a[2]);
	q[2] = _mm512_unpacklo_epi64(a[1], a[3]);
	q[3] = _mm512_unpackhi_epi64(a[1], a[3]);
}

/*
 * x[c] = byte c of each lane, a signed integer: its bits, the sign's inverted, become the last ones
 * before the point of a float with a large power of two added, which is subtracted again.
 */
INLINE void bytes_to_floats(vf x[4], __m512i q)
{
	int c;

#pragma GCC unroll 4
	for (c = 0; c < 4; c++) {
		const bool second = c % 2;
		/* 2^23, whose last bit is 1, and 2^15, whose last bit but eight is. */
		__m512i bits = _mm512_set1_epi32(second ? 0x47008000 : 0x4b000080);
		__m512i mask = _mm512_set1_epi32(second ? 0xff00 : 0xff);
		__m512 large = _mm512_set1_ps(second ? 32768 + 128 : 8388608 + 128);

		/* (q & mask) ^ bits */
		x[c] = (vf)_mm512_sub_ps((__m512)_mm512_ternarylogic_epi32(q, mask, bits, 0x6a),
					 large);
		if (second)
			q = _mm512_srli_epi32(q, 16);
	}
}
#else
/* y[j][i] = x[i][j] */
INLINE void transpose(vf x[LANES])
{
	int i;

#if LANES == 8
	vf a[8], b[8];

#pragma GCC unroll 4
	for (i = 0; i < 8; i += 2) {
		a[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
		a[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
	}
	/* b[4g + c]: elements c and 4 + c of the rows 4g .. 4g + 3. */
#pragma GCC unroll 4
	for (i = 0; i < 8; i += 4) {
		b[i] = __builtin_shufflevector(a[i], a[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
		b[i + 1] = __builtin_shufflevector(a[i], a[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
		b[i + 2] = __builtin_shufflevector(a[i + 1], a[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
		b[i + 3] = __builtin_shufflevector(a[i + 1], a[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
	}
#pragma GCC unroll 4
	for (i = 0; i < 4; i++) {
		x[i] = __builtin_shufflevector(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
		x[i + 4] = __builtin_shufflevector(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
	}
#else
	vf a[4];

#pragma GCC unroll 2
	for (i = 0; i < 4; i += 2) {
		a[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 4, 1, 5);
		a[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 2, 6, 3, 7);
	}
	x[0] = __builtin_shufflevector(a[0], a[2], 0, 1, 4, 5);
	x[1] = __builtin_shufflevector(a[0], a[2], 2, 3, 6, 7);
	x[2] = __builtin_shufflevector(a[1], a[3], 0, 1, 4, 5);
	x[3] = __builtin_shufflevector(a[1], a[3], 2, 3, 6, 7);
#endif
}
#endif

/*
 * x[c][i] = number @d + @e + c of key i of LANES keys, for keys_step() of c. @d: a multiple of
 * LANES. @e: from 0 on in steps, as these may share @bytes.
 */
INLINE void load_keys(vf *x, struct key_bytes *bytes, const uint8_t *k, size_t row_bytes,
		      uint32_t d, const uint32_t e, const uint32_t type)
{
#if LANES == 16
	if (type == VNPU_KV_Q8_0) {
		if (!e)
			load_dwords(bytes->q, k + d / 32 * VNPU_Q8_0_BYTES + 2 + d % 32, row_bytes);
		bytes_to_floats(x, bytes->q[e / 4]);
		return;
	}
	load_eight(x, k + VNPU_KV_BYTES(type, 32) / 32 * (d + e), row_bytes, type);
#else
#pragma GCC unroll 8
	for (uint32_t i = 0; i < LANES; i++)
		x[i] = load_kv(k + i * row_bytes, d + e, type);
	transpose(x);
#endif
}
