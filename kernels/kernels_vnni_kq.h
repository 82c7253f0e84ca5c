/* SPDX-License-Identifier: MIT */
/*
 * GGUF's block types with vpdpbusd of 256 bits. For a single row the numbers u, or their levels,
 * are unpacked in registers, 16 channels at a time, while what follows is prefetched in order; for
 * more rows by parts of K.
 */
#include "kernels_vnni_part.h"

/* The numbers u, or their levels as unsigned bytes. */
KQ_INLINE __m256i kq_level(const struct vnpu_kq_form f, __m256i u)
{
	__m128i levels = _mm_loadu_si128((const __m128i *)vnpu_kq_levels[f.levels]);

	if (!f.levels)
		return u;
	levels = _mm_add_epi8(levels, _mm_set1_epi8((char)kq_zero(f)));
	return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(levels), u);
}

/* One of two groups' scales or minima. */
KQ_INLINE __m256i kq_one(__m256i pairs, uint32_t g)
{
	return _mm256_srai_epi32(g % 2 ? pairs : _mm256_slli_epi32(pairs, 16), 16);
}

/* Distances of prefetches: from memory into L2, and from there into L1. */
#define KQ_FAR 12288
#define KQ_NEAR 4096

/* Asks for what follows a quarter of a block. */
KQ_INLINE void kq_ahead(const struct kq_block *b, const struct vnpu_kq_form f, uint32_t quarter)
{
	const uint32_t lines = (uint32_t)vnpu_kq_block_bytes(f) / 64;

	for (uint32_t i = quarter * lines / 4; i < (quarter + 1) * lines / 4; i++) {
		_mm_prefetch(b->d + i * 64 + KQ_FAR, _MM_HINT_T1);
		_mm_prefetch(b->d + i * 64 + KQ_NEAR, _MM_HINT_T0);
	}
}

/* c[64] += a block of a row x w. @sum: of the row's groups. */
KQ_INLINE void kq_row(const struct vnpu_kq_form f, const uint8_t *w, const int8_t *a,
		      const int16_t *sum, float *c)
{
	const struct kq_block b = kq_block(w, f);
	struct kq_planes planes[2];
	__m256i s[2], acc[2], x;

	for (uint32_t n = 0; n < VNPU_PANEL_N; n += 16) {
		kq_ahead(&b, f, n / 16);
		s[0] = s[1] = acc[0] = acc[1] = _mm256_setzero_si256();
		for (uint32_t unit = 0; unit < f.block / 32u; unit++) {
			const uint8_t *numbers = b.numbers + unit * 256 * f.bits + n * 4;

#pragma GCC unroll 8
			for (uint32_t quad = 0; quad < 8; quad++) {
				const uint32_t g = (unit * 32 + quad * 4) / f.group;

				x = mm_four(a + unit * 32 + quad * 4);
#pragma GCC unroll 2
				for (uint32_t v = 0; v < 2; v++) {
					DOT(s[v],
					    kq_level(f, kq_quad(&planes[v], numbers + v * 32,
								f.bits, quad)),
					    x);
					if (f.block == 32 || (quad * 4 + 4) % f.group)
						continue;
					acc[v] = _mm256_add_epi32(
						acc[v],
						_mm256_mullo_epi32(
							s[v],
							kq_one(kq_pairs(b.scale, g / 2, n + v * 8),
							       g)));
					s[v] = _mm256_setzero_si256();
				}
			}
		}
#pragma GCC unroll 2
		for (uint32_t v = 0; v < 2; v++) {
			const struct kq_scales scales = kq_scales(f, &b, n + v * 8);

			kq_end(f, &scales, f.block == 32 ? s[v] : acc[v], true,
			       kq_low(f, &scales, sum), c + n + v * 8);
		}
	}
}

/* Unpacks a block to the part from @k on. */
KQ_INLINE void kq_unpack(const struct vnpu_kq_form f, struct part_weights *p, const uint8_t *w,
			 uint32_t k)
{
	const struct kq_block b = kq_block(w, f);
	struct kq_planes planes;
	uint32_t n, unit, quad, g;
	__m256i pairs;

	for (n = 0; n < VNPU_PANEL_N; n += 8) {
		for (unit = 0; unit < f.block / 32u; unit++)
#pragma GCC unroll 8
			for (quad = 0; quad < 8; quad++)
				*(__m256i *)p->w[k / 4 + unit * 8 + quad][n] = kq_level(
					f, kq_quad(&planes, b.numbers + unit * 256 * f.bits + n * 4,
						   f.bits, quad));
		if (f.block == 32) {
			_mm256_store_ps(p->scale_f[k / 32] + n, kq_f16(b.d, n));
			if (f.mins)
				_mm256_store_ps(p->min_f[k / 32] + n, kq_f16(b.dmin, n));
			continue;
		}
		for (g = 0; g < (uint32_t)f.block / f.group; g += 2) {
			pairs = kq_pairs(b.scale, g / 2, n);
			*(__m256i *)&p->scale[g][n] = kq_one(pairs, 0);
			*(__m256i *)&p->scale[g + 1][n] = kq_one(pairs, 1);
			if (f.mins)
				*(__m256i *)p->min[g / 2][n] = kq_pairs(b.min, g / 2, n);
		}
		_mm256_store_ps(p->d + n, kq_f16(b.d, n));
		if (f.mins)
			_mm256_store_ps(p->dmin + n, kq_f16(b.dmin, n));
	}
}

#define KQ_TYPE(NAME, name, ...)                                                                \
	static void name##_row(const uint8_t *w, const int8_t *a, const int16_t *sum, float *c) \
	{                                                                                       \
		kq_row(vnpu_kq_form(VNPU_KQ_##NAME), w, a, sum, c);                             \
	}                                                                                       \
	static void name##_unpack(struct part_weights *p, const uint8_t *w, uint32_t k)         \
	{                                                                                       \
		kq_unpack(vnpu_kq_form(VNPU_KQ_##NAME), p, w, k);                               \
	}
VNPU_KQ_TYPES(KQ_TYPE)

#define KQ_TYPE_OF(NAME, name, ...) { name##_row, name##_unpack },
static const struct {
	void (*row)(const uint8_t *w, const int8_t *a, const int16_t *sum, float *c);
	void (*unpack)(struct part_weights *p, const uint8_t *w, uint32_t k);
} kq_types[VNPU_NR_KQ_TYPES] = { VNPU_KQ_TYPES(KQ_TYPE_OF) };

static void kq_gemv(const struct fw_matmul_kq *t, int16_t *sum)
{
	const struct vnpu_kq_form f = vnpu_kq_form(t->type);
	_Alignas(32) float c[1][VNPU_PANEL_N];
	const uint32_t groups = f.block / f.group;
	const uint8_t *w = t->w;
	uint32_t k;

	kq_sums(sum, t->a, t->k, f.group);
	for (uint32_t n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		memset(c, 0, sizeof(c));
		for (k = 0; k < t->k; k += f.block, w += vnpu_kq_block_bytes(f))
			kq_types[t->type].row(w, t->a + k, sum + k / f.block * groups, c[0]);
		kq_store(t, 0, 1, n0, c);
	}
}

/* The sums of the groups of a part of @k of the rows, and what their products start at. */
static void kq_part_sums(struct part_scratch *s, const struct vnpu_kq_form f, const int8_t *a,
			 size_t lda, uint32_t rows, uint32_t k)
{
	for (uint32_t r = 0; r < rows; r++, a += lda) {
		kq_sums(s->sum[r], a, k, f.group);
		for (uint32_t g = 0; g < k / f.group; g++)
			s->first[r][g] = s->sum[r][g] * -kq_zero(f);
	}
}

/* Rows m0.., @rows of them, times @panels panels from channel @n0 on. */
static void kq_panels(const struct fw_matmul_kq *t, uint32_t m0, uint32_t rows, uint32_t n0,
		      uint32_t panels, struct part_scratch *s)
{
	const struct vnpu_kq_form f = vnpu_kq_form(t->type);
	const size_t panel_bytes = vnpu_kq_panel_bytes(t->type, t->k);
	struct part_form form = { f.block > 32, f.mins, 0, f.group / 4u };
	const uint8_t *part = t->w + n0 / VNPU_PANEL_N * panel_bytes, *w;
	const int8_t *a = t->a + m0 * t->lda;
	uint32_t k0, k, p, i;
	size_t bytes;

	for (p = 0; p < panels; p++)
		memset(s->c[p], 0, rows * sizeof(s->c[p][0]));
	for (k0 = 0; k0 < t->k; k0 += k, part += bytes, a += k) {
		k = t->k - k0 < PART_K ? t->k - k0 : PART_K;
		bytes = k / f.block * vnpu_kq_block_bytes(f);
		form.groups = k / f.group;
		kq_part_sums(s, f, a, t->lda, rows, k);
		for (p = 0; p < panels; p++) {
			w = part + p * panel_bytes;
			for (i = 0; i < k; i += f.block)
				kq_types[t->type].unpack(
					&s->w, w + i / f.block * vnpu_kq_block_bytes(f), i);
			w = p + 1 < panels ? w + panel_bytes : part + bytes;
			part_multiply(s, s->c[p], rows, a, t->lda, &form, w, bytes);
		}
	}
	for (p = 0; p < panels; p++)
		kq_store(t, m0, rows, n0 + p * VNPU_PANEL_N, s->c[p]);
}

static void kernel_matmul_kq(const struct fw_matmul_kq *t, void *scratch)
{
	const uint32_t all = (t->n + VNPU_PANEL_N - 1) / VNPU_PANEL_N;
	uint32_t m, rows, p, panels;

	if (t->m == 1) {
		kq_gemv(t, scratch);
		return;
	}
	for (m = 0; m < t->m; m += rows) {
		rows = t->m - m < PART_MOST ? t->m - m : PART_MOST;
		for (p = 0; p < all; p += panels) {
			panels = all - p < PART_PANELS ? all - p : PART_PANELS;
			kq_panels(t, m, rows, p * VNPU_PANEL_N, panels, scratch);
		}
	}
}
