/* SPDX-License-Identifier: MIT */
/*
 * GGUF's block types for aarch64, with SDOT. A register has one quad, 4 k, of 4 channels; the
 * numbers u are unpacked in registers, for up to four rows at a time, and used as signed bytes, or
 * their levels are, from which nothing is to be subtracted. A group's sums start at 0; -zero times
 * the activations' sums is added for a whole block, with the integer scales, as the minima are.
 */
#include <arm_neon.h>

#include "kernels_kq.h"

#define KQ_INLINE static inline __attribute__((always_inline))
#define KQ_ROWS 4 /* at a time */
#define KQ_MAX_ROWS 128 /* whose sums are kept for a panel */

struct kq_scratch {
	_Alignas(64) float c[KQ_MAX_ROWS][VNPU_PANEL_N];
	int16_t sum[]; /* of the rows' groups of activations, [rows][k / group] */
};

/* Rows of which that fits; of the largest k half of them. */
static uint32_t kq_most(uint32_t groups)
{
	size_t room = (FW_SCRATCH_BYTES - sizeof(struct kq_scratch)) / (groups * sizeof(int16_t));

	return room < KQ_MAX_ROWS ? (uint32_t)room : KQ_MAX_ROWS;
}

/* The planes of 4 channels and 32 k, as far as they have been read. */
struct kq_planes {
	uint8x16_t p4, p2, p1;
};

/* Bits from..from + p - 1 of each byte, at bit @to. */
KQ_INLINE uint8x16_t kq_bits(uint8x16_t x, const uint32_t p, const uint32_t from, const uint32_t to)
{
	const uint8x16_t mask = vdupq_n_u8((uint8_t)((1u << p) - 1));

	x = vandq_u8(vshlq_u8(x, vdupq_n_s8(-(int8_t)from)), mask);
	return vshlq_u8(x, vdupq_n_s8((int8_t)to));
}

/* The numbers u of quad @quad, from 0 on in order, or their levels; @numbers: the unit's, of these
 * channels. */
KQ_INLINE int8x16_t kq_quad(struct kq_planes *p, const uint8_t *numbers,
			    const struct vnpu_kq_form f, const uint32_t quad)
{
	const uint32_t bits = f.bits;
	const uint8_t *p2 = numbers + (bits & 4) * 256, *p1 = p2 + (bits & 2) * 256;
	uint8x16_t u = vdupq_n_u8(0);

	if (bits & 4) {
		if (quad % 2 == 0)
			p->p4 = vld1q_u8(numbers + quad / 2 * 256);
		u = kq_bits(p->p4, 4, quad % 2 * 4, 0);
	}
	if (bits & 2) {
		if (quad % 4 == 0)
			p->p2 = vld1q_u8(p2 + quad / 4 * 256);
		u = vorrq_u8(u, kq_bits(p->p2, 2, quad % 4 * 2, bits & 4));
	}
	if (bits & 1) {
		if (quad == 0)
			p->p1 = vld1q_u8(p1);
		u = vorrq_u8(u, kq_bits(p->p1, 1, quad, bits & 6));
	}
	return f.levels ? vqtbl1q_s8(vld1q_s8(vnpu_kq_levels[f.levels]), u)
			: vreinterpretq_s8_u8(u);
}

/* The integer scales or minima of group @g and 4 channels. */
KQ_INLINE int16x4_t kq_group(const int8_t *table, uint32_t g, uint32_t n)
{
	int16x8_t pairs = vmovl_s8(vld1_s8(table + (g / 2 * 64 + n) * 2));

	return vget_low_s16(g % 2 ? vuzp2q_s16(pairs, pairs) : vuzp1q_s16(pairs, pairs));
}

KQ_INLINE float32x4_t kq_f16(const uint8_t *halves, uint32_t n)
{
	return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(halves + n * 2)));
}

/* Adds a block's integer sums @acc of 4 channels to c. */
KQ_INLINE void kq_end(const struct vnpu_kq_form f, const struct kq_block *b, int32x4_t acc,
		      const int16_t *sum, uint32_t n, float *c)
{
	const int8_t *table = f.mins ? b->min : b->scale;
	float32x4_t y = vld1q_f32(c + n);
	int32x4_t low = vdupq_n_s32(f.block > 32 ? 0 : *sum);

	for (uint32_t g = 0; g < f.block / f.group && f.block > 32; g++)
		low = vmlal_n_s16(low, kq_group(table, g, n), sum[g]);
	if (!f.mins && !f.levels)
		acc = vmlsq_n_s32(acc, low, kq_zero(f));
	y = vfmaq_f32(y, vcvtq_f32_s32(acc), kq_f16(b->d, n));
	if (f.mins)
		y = vfmsq_f32(y, vcvtq_f32_s32(low), kq_f16(b->dmin, n));
	vst1q_f32(c + n, y);
}

/* c[rows][64] += a block of a[rows][lda] x w. */
KQ_INLINE void kq_rows(const uint32_t rows, const struct vnpu_kq_form f, const struct kq_block *b,
		       const int8_t *a, size_t lda, const int16_t *sum, uint32_t lds,
		       float (*c)[VNPU_PANEL_N])
{
	int32x4_t acc[KQ_ROWS], s[KQ_ROWS];
	struct kq_planes planes;
	uint32_t n, unit, quad, r, g;
	int32_t four;
	int8x16_t u;

	for (n = 0; n < VNPU_PANEL_N; n += 4) {
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			acc[r] = s[r] = vdupq_n_s32(0);
		for (unit = 0, g = 0; unit < f.block / 32u; unit++) {
#pragma GCC unroll 8
			for (quad = 0; quad < 8; quad++) {
				u = kq_quad(&planes, b->numbers + unit * 256 * f.bits + n * 4, f,
					    quad);
#pragma GCC unroll 4
				for (r = 0; r < rows; r++) {
					memcpy(&four, a + r * lda + unit * 32 + quad * 4, 4);
					s[r] = vdotq_s32(s[r], u,
							 vreinterpretq_s8_s32(vdupq_n_s32(four)));
				}
				if (f.block == 32 || (quad + 1) * 4 % f.group)
					continue;
#pragma GCC unroll 4
				for (r = 0; r < rows; r++) {
					acc[r] = vmlaq_s32(acc[r], s[r],
							   vmovl_s16(kq_group(b->scale, g, n)));
					s[r] = vdupq_n_s32(0);
				}
				g++;
			}
		}
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			kq_end(f, b, f.block == 32 ? s[r] : acc[r], sum + r * lds, n, c[r]);
	}
}

/* The same for any number of rows. */
KQ_INLINE void kq_all(const struct vnpu_kq_form f, const uint8_t *w, uint32_t m, const int8_t *a,
		      size_t lda, const int16_t *sum, uint32_t lds, struct kq_scratch *s)
{
	const struct kq_block b = kq_block(w, f);
	uint32_t r = 0;

	for (; r + 4 <= m; r += 4)
		kq_rows(4, f, &b, a + r * lda, lda, sum + r * lds, lds, s->c + r);
	for (; r < m; r++)
		kq_rows(1, f, &b, a + r * lda, lda, sum + r * lds, lds, s->c + r);
}

#define KQ_TYPE(NAME, name, ...)                                                            \
	static void name##_block(const uint8_t *w, uint32_t m, const int8_t *a, size_t lda, \
				 const int16_t *sum, uint32_t lds, struct kq_scratch *s)    \
	{                                                                                   \
		const struct vnpu_kq_form f = vnpu_kq_form(VNPU_KQ_##NAME);                 \
		kq_all(f, w, m, a, lda, sum, lds, s);                                       \
	}
VNPU_KQ_TYPES(KQ_TYPE)
#define KQ_ROW(NAME, name, ...) name##_block,
static void (*const kq_blocks[VNPU_NR_KQ_TYPES])(const uint8_t *, uint32_t, const int8_t *, size_t,
						 const int16_t *, uint32_t,
						 struct kq_scratch *) = { VNPU_KQ_TYPES(KQ_ROW) };

/* Sums of the activations of each group of @k of a row. */
static void kq_sums(int16_t *sum, const int8_t *a, uint32_t k, uint32_t group)
{
	const int8x16_t ones = vdupq_n_s8(1);
	int32x4_t x;

	for (uint32_t g = 0; g < k; g += group, sum++) {
		x = vdupq_n_s32(0);
		for (uint32_t i = 0; i < group; i += 16)
			x = vdotq_s32(x, ones, vld1q_s8(a + g + i));
		*sum = (int16_t)vaddvq_s32(x);
	}
}

static void kq_store(const struct fw_matmul_kq *t, uint32_t m, uint32_t rows, uint32_t n0,
		     float (*sum)[VNPU_PANEL_N])
{
	uint32_t cols = kq_channels(t, n0);

	for (uint32_t r = 0; r < rows; r++) {
		for (uint32_t i = 0; i < cols; i++) {
			sum[r][i] *= t->a_scale[m + r];
			if (t->bias)
				sum[r][i] += t->bias[n0 + i];
		}
		memcpy(t->c + (m + r) * t->ldc + n0, sum[r], cols * sizeof(float));
	}
}

static void kernel_matmul_kq(const struct fw_matmul_kq *t, void *scratch)
{
	const struct vnpu_kq_form f = vnpu_kq_form(t->type);
	const uint32_t groups = t->k / f.group, most = kq_most(groups);
	struct kq_scratch *s = scratch;
	const int8_t *a = t->a;
	const uint8_t *w;
	uint32_t rows, r;

	for (uint32_t m = 0; m < t->m; m += rows, a += rows * t->lda) {
		rows = t->m - m < most ? t->m - m : most;
		for (r = 0; r < rows; r++)
			kq_sums(s->sum + r * groups, a + r * t->lda, t->k, f.group);
		w = t->w;
		for (uint32_t n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
			memset(s->c, 0, rows * sizeof(s->c[0]));
			for (uint32_t k = 0; k < t->k; k += f.block) {
				kq_blocks[t->type](w, rows, a + k, t->lda, s->sum + k / f.group,
						   groups, s);
				w += vnpu_kq_block_bytes(f);
			}
			kq_store(t, m, rows, n0, s->c);
		}
	}
}
