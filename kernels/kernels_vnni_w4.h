/* SPDX-License-Identifier: MIT */
/*
 * 4-bit weights with vpdpbusd of 256 bits. For a single row they are unpacked in registers, half a
 * panel at a time; for more by parts of K.
 */
#include "kernels_vnni_part.h"
#include "kernels_w4_avx2.h"

/* -8 times the sum of a group's activations. */
static int32_t w4_first(const int8_t *a, uint32_t group)
{
	const __m256i ones = _mm256_set1_epi8(1);
	__m256i sum = _mm256_setzero_si256();
	__m128i t;

	for (uint32_t i = 0; i < group; i += 32)
		DOT(sum, ones, *(const __m256i_u *)(a + i));
	t = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
	t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
	t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1));
	return _mm_cvtsi128_si32(t) * -W4_ZERO;
}

/* c[64] += a group of a row x w. */
static void w4_row(float *c, const int8_t *a, const uint8_t *w, uint32_t group)
{
	const __m256i mask = _mm256_set1_epi8(15), first = _mm256_set1_epi32(w4_first(a, group));
	__m256i i[4], x;
	uint32_t n, k, v;

	for (n = 0; n < VNPU_PANEL_N; n += 32) {
#pragma GCC unroll 4
		for (v = 0; v < 4; v++)
			i[v] = first;
		for (k = 0; k < group; k += 8)
#pragma GCC unroll 4
			for (v = 0; v < 4; v++) {
				x = *(const __m256i_u *)(w + k * 32 + n * 4 + v * 32);
				DOT(i[v], _mm256_and_si256(x, mask), mm_four(a + k));
				DOT(i[v], _mm256_and_si256(_mm256_srli_epi16(x, 4), mask),
				    mm_four(a + k + 4));
			}
#pragma GCC unroll 4
		for (v = 0; v < 4; v++)
			_mm256_store_ps(c + n + v * 8,
					_mm256_fmadd_ps(_mm256_cvtepi32_ps(i[v]),
							w4_scale(w, group, n + v * 8),
							_mm256_load_ps(c + n + v * 8)));
	}
}

static void w4_gemv(const struct fw_matmul_w4 *t)
{
	_Alignas(32) float c[1][VNPU_PANEL_N];
	const int8_t *a = t->a;
	const uint8_t *w = t->w;

	for (uint32_t n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		memset(c, 0, sizeof(c));
		for (uint32_t k = 0; k < t->k; k += t->group, w += w4_group_bytes(t->group))
			w4_row(c[0], a + k, w, t->group);
		w4_store(t, 0, 1, n0, c);
	}
}

/* Unpacks @groups groups. */
static void w4_unpack(struct part_weights *p, const uint8_t *w, uint32_t group, uint32_t groups)
{
	const __m256i mask = _mm256_set1_epi8(15);
	uint8_t *to = p->w[0][0];
	uint32_t g, k, n;
	__m256i x;

	for (g = 0; g < groups; g++, w += w4_group_bytes(group)) {
		for (k = 0; k < group; k += 8, to += 512)
#pragma GCC unroll 8
			for (n = 0; n < 256; n += 32) {
				x = *(const __m256i_u *)(w + k * 32 + n);
				*(__m256i *)(to + n) = _mm256_and_si256(x, mask);
				*(__m256i *)(to + 256 + n) =
					_mm256_and_si256(_mm256_srli_epi16(x, 4), mask);
			}
		for (n = 0; n < VNPU_PANEL_N; n += 8)
			_mm256_store_ps(p->scale_f[g] + n, w4_scale(w, group, n));
	}
}

/* Rows m0.., @rows of them, times @panels panels from channel @n0 on. */
static void w4_panels(const struct fw_matmul_w4 *t, uint32_t m0, uint32_t rows, uint32_t n0,
		      uint32_t panels, struct part_scratch *s)
{
	const size_t panel_bytes = t->k / t->group * w4_group_bytes(t->group);
	const uint8_t *part = t->w + n0 / VNPU_PANEL_N * panel_bytes, *w;
	const int8_t *a = (const int8_t *)t->a + m0 * t->lda;
	struct part_form f = { .quads = t->group / 4 };
	uint32_t k0, k, p, r, g;
	size_t bytes;

	for (p = 0; p < panels; p++)
		memset(s->c[p], 0, rows * sizeof(s->c[p][0]));
	for (k0 = 0; k0 < t->k; k0 += k, part += bytes, a += k) {
		k = t->k - k0 < PART_K ? t->k - k0 : PART_K;
		f.groups = k / t->group;
		bytes = f.groups * w4_group_bytes(t->group);
		for (r = 0; r < rows; r++)
			for (g = 0; g < f.groups; g++)
				s->first[r][g] = w4_first(a + r * t->lda + g * t->group, t->group);
		for (p = 0; p < panels; p++) {
			w = part + p * panel_bytes;
			w4_unpack(&s->w, w, t->group, f.groups);
			w = p + 1 < panels ? w + panel_bytes : part + bytes;
			part_multiply(s, s->c[p], rows, a, t->lda, &f, w, bytes);
		}
	}
	for (p = 0; p < panels; p++)
		w4_store(t, m0, rows, n0 + p * VNPU_PANEL_N, s->c[p]);
}

static void kernel_matmul_w4(const struct fw_matmul_w4 *t, void *scratch)
{
	const uint32_t all = (t->n + VNPU_PANEL_N - 1) / VNPU_PANEL_N;
	uint32_t m, rows, p, panels;

	if (t->m == 1) {
		w4_gemv(t);
		return;
	}
	for (m = 0; m < t->m; m += rows) {
		rows = t->m - m < PART_MOST ? t->m - m : PART_MOST;
		for (p = 0; p < all; p += panels) {
			panels = all - p < PART_PANELS ? all - p : PART_PANELS;
			w4_panels(t, m, rows, p * VNPU_PANEL_N, panels, scratch);
		}
	}
}
