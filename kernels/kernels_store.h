/* SPDX-License-Identifier: MIT */
/* Rows of a KV cache, written: floats to its types. Part of kernels_float.h, which includes it. */

INLINE void store_f16(uint16_t *h, vf v)
{
#if LANES == 16
	_mm256_storeu_si256((__m256i *)h, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
#elif LANES == 8
	_mm_storeu_si128((__m128i *)h, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__ARM_FEATURE_DOTPROD)
	vst1_u16(h, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v)));
#else
	for (int i = 0; i < LANES; i++)
		h[i] = fw_f32_to_f16(v[i]);
#endif
}

static void store_q8_0(uint8_t *block, const float *x)
{
	float fmax, s;
	uint16_t scale;
	uint32_t i;
	int32_t m;
	vb q;

	m = greatest_bits(x, VNPU_Q8_0_VALUES);
	memcpy(&fmax, &m, sizeof(fmax));
	scale = fw_f32_to_f16(fmax / 127.0f);
	if ((scale & 0x7fff) >= 0x7c00)
		scale = 0x7e00;
	memcpy(block, &scale, sizeof(scale));
	s = fw_f16_to_f32(scale);
	if (!(s > 0)) {
		memset(block + 2, 0, VNPU_Q8_0_VALUES);
		return;
	}
	for (i = 0; i < VNPU_Q8_0_VALUES; i += LANES) {
		q = quant_v(load(x + i) / s);
		memcpy(block + 2 + i, &q, sizeof(q));
	}
}

static void kernel_store(void *row, const float *x, size_t n, uint32_t type)
{
	uint8_t *block = row;
	uint16_t *h = row;
	size_t i;

	if (type == VNPU_KV_F16) {
		for (i = 0; i + LANES <= n; i += LANES)
			store_f16(h + i, load(x + i));
		for (; i < n; i++)
			h[i] = fw_f32_to_f16(x[i]);
	} else {
		for (i = 0; i < n; i += VNPU_Q8_0_VALUES, block += VNPU_Q8_0_BYTES)
			store_q8_0(block, x + i);
	}
}
