// SPDX-License-Identifier: MIT
/*
 * GGUF's block types with AVX-512 VNNI.
 *
 * One row, where the processor has VBMI and GFNI, and two, unless it is AMD's:
 * kernels_kq_row_avx512.c.
 *
 * Few rows, limited by memory: the numbers u are unpacked in registers, for up to four rows at a
 * time, and are vpdpbusd's unsigned operand. A group's sums start at -zero times the sum of its
 * activations, are multiplied by its integer scales and added up for a block. Panels are read one
 * after another, with kq_ahead(). Several at a time, as MATMUL_W4 reads them on Intel's cores
 * (kernels_w4_avx512.c), were slower on a server with AMX.
 *
 * More rows: a block of half a panel, 32 channels, is unpacked to signed numbers in L1 and
 * multiplied with all rows, six at a time, whose activations are biased to unsigned bytes. Per
 * group that is 12 registers of its sums, and 12 of the block's sums.
 */
#if defined(__x86_64__)
#include <stdbool.h>

#include "kernels_avx512.h"
#include "kernels_kq_avx512.h"

/* ---- few rows -------------------------------------------------------------------------------- */

#define KQ_FEW 32 /* most rows */
#define KQ_ROWS 4 /* at a time */

struct kq_few {
	_Alignas(64) int32_t acc[KQ_ROWS][VNPU_PANEL_N]; /* of a block */
	float c[KQ_FEW][VNPU_PANEL_N];
	int16_t sum[KQ_FEW][VNPU_MAX_K_I8 / 16]; /* of each group's activations */
};

_Static_assert(sizeof(struct kq_few) <= FW_SCRATCH_BYTES, "few rows of the largest K fit");

/* What the rows of a pass read and write; all are at its first row. */
struct kq_pass {
	const int8_t *a;
	size_t lda;
	const int16_t *sum; /* at distances of VNPU_MAX_K_I8 / 16 */
	int32_t (*acc)[VNPU_PANEL_N];
	float (*c)[VNPU_PANEL_N];
	bool first; /* of the passes of a block */
};

#define KQ_SUM(p, r, g) ((p)->sum + (size_t)(r) * (VNPU_MAX_K_I8 / 16) + (g))

/* Adds unit @unit of a block, 32 k, to acc; @k0: the block's. */
KQ_INLINE void kq_unit(const uint32_t rows, const struct vnpu_kq_form f, const struct kq_pass *p,
		       const struct kq_block *b, uint32_t k0, uint32_t unit)
{
	const uint8_t *numbers = b->numbers + unit * 256 * f.bits;
	const int8_t *a = p->a + k0 + unit * 32;
	__m512i s[KQ_ROWS], acc[KQ_ROWS], pairs, scale, u;
	uint32_t i, r, quad, g;
	struct kq_planes planes;

#pragma GCC unroll 4
	for (i = 0; i < 4; i++) {
		if (p->first && i % 2 == 0)
			kq_ahead(b, f, unit * 2 + i / 2, f.block / 16);
		g = unit * (32 / f.group);
		pairs = kq_pairs(b->scale, g / 2, i * 16);
#pragma GCC unroll 4
		for (r = 0; r < rows; r++) {
			acc[r] = unit ? _mm512_load_si512(p->acc[r] + i * 16)
				      : _mm512_setzero_si512();
			s[r] = _mm512_setzero_si512();
		}
#pragma GCC unroll 8
		for (quad = 0; quad < 8; quad++) {
			u = kq_quad(&planes, numbers + i * 64, f, quad);
#pragma GCC unroll 4
			for (r = 0; r < rows; r++)
				DOT_FOUR(s[r], u, (const int32_t *)(a + r * p->lda + quad * 4));
			if (quad != 7 && (f.group == 32 || quad != 3))
				continue;
			/* The unit's one group is odd or even; of two groups the first is even. */
			scale = f.group == 32 ? kq_one(pairs, unit) : kq_one(pairs, quad / 4);
#pragma GCC unroll 4
			for (r = 0; r < rows; r++) {
				acc[r] = _mm512_add_epi32(acc[r], _mm512_mullo_epi32(s[r], scale));
				s[r] = _mm512_setzero_si512();
			}
		}
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			_mm512_store_si512(p->acc[r] + i * 16, acc[r]);
	}
}

/* Adds a block of 256 k, whose units are in acc, to c. */
KQ_INLINE void kq_end(const uint32_t rows, const struct vnpu_kq_form f, const struct kq_pass *p,
		      const struct kq_block *b, uint32_t k0)
{
	const uint32_t groups = f.block / f.group;
	__m512i acc, low;
	const int16_t *sum;
	uint32_t i, r;
	__m512 c;

	for (i = 0; i < VNPU_PANEL_N; i += 16) {
#pragma GCC unroll 4
		for (r = 0; r < rows; r++) {
			sum = KQ_SUM(p, r, k0 / f.group);
			acc = _mm512_load_si512(p->acc[r] + i);
			c = _mm512_load_ps(p->c[r] + i);
			low = kq_low(f.mins ? b->min : b->scale, groups, sum, i);
			if (!f.mins)
				acc = _mm512_sub_epi32(acc,
						       _mm512_slli_epi32(low, kq_zero_bits(f)));
			c = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc), kq_f16(b->d, i), c);
			if (f.mins)
				c = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(low), kq_f16(b->dmin, i),
						     c);
			_mm512_store_ps(p->c[r] + i, c);
		}
	}
}

/* Adds a block of 32 k to c. */
KQ_INLINE void kq_small(const uint32_t rows, const struct vnpu_kq_form f, const struct kq_pass *p,
			const struct kq_block *b, uint32_t k0)
{
	const int8_t *a = p->a + k0;
	struct kq_planes planes;
	uint32_t i, r, quad;
	__m512i s[KQ_ROWS], u;
	int32_t sum;
	__m512 c;

	if (p->first)
		kq_ahead(b, f, 0, 1);
#pragma GCC unroll 4
	for (i = 0; i < 4; i++) {
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			s[r] = f.mins ? _mm512_setzero_si512()
				      : _mm512_set1_epi32(*KQ_SUM(p, r, k0 / 32) * -kq_zero(f));
#pragma GCC unroll 8
		for (quad = 0; quad < 8; quad++) {
			u = kq_quad(&planes, b->numbers + i * 64, f, quad);
#pragma GCC unroll 4
			for (r = 0; r < rows; r++)
				DOT_FOUR(s[r], u, (const int32_t *)(a + r * p->lda + quad * 4));
		}
#pragma GCC unroll 4
		for (r = 0; r < rows; r++) {
			c = _mm512_load_ps(p->c[r] + i * 16);
			c = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s[r]), kq_f16(b->d, i * 16), c);
			if (f.mins) {
				sum = *KQ_SUM(p, r, k0 / 32);
				c = _mm512_fnmadd_ps(_mm512_set1_ps((float)sum),
						     kq_f16(b->dmin, i * 16), c);
			}
			_mm512_store_ps(p->c[r] + i * 16, c);
		}
	}
}

/* Adds the block at @w to c. */
KQ_INLINE void kq_rows_block(const uint32_t rows, const struct vnpu_kq_form f,
			     const struct kq_pass *p, const uint8_t *w, uint32_t k0)
{
	const struct kq_block b = kq_block(w, f);

	if (f.block == 32) {
		kq_small(rows, f, p, &b, k0);
		return;
	}
	for (uint32_t unit = 0; unit < f.block / 32; unit++)
		kq_unit(rows, f, p, &b, k0, unit);
	kq_end(rows, f, p, &b, k0);
}

typedef void kq_block_fn(const struct kq_pass *p, const uint8_t *w, uint32_t k0);

#define KQ_BLOCK(rows, NAME, name, ...)                                                        \
	static void name##_block##rows(const struct kq_pass *p, const uint8_t *w, uint32_t k0) \
	{                                                                                      \
		kq_rows_block(rows, vnpu_kq_form(VNPU_KQ_##NAME), p, w, k0);                   \
	}
#define KQ_BLOCK_1(...) KQ_BLOCK(1, __VA_ARGS__)
#define KQ_BLOCK_2(...) KQ_BLOCK(2, __VA_ARGS__)
#define KQ_BLOCK_4(...) KQ_BLOCK(4, __VA_ARGS__)
VNPU_KQ_TYPES(KQ_BLOCK_1)
VNPU_KQ_TYPES(KQ_BLOCK_2)
VNPU_KQ_TYPES(KQ_BLOCK_4)

/* [type][0: one row, 1: two, 2: four] */
#define KQ_ROW(NAME, name, ...) { name##_block1, name##_block2, name##_block4 },
static kq_block_fn *const kq_blocks[VNPU_NR_KQ_TYPES][3] = { VNPU_KQ_TYPES(KQ_ROW) };

/* Rows of a pass, when @rows are left. */
static inline uint32_t kq_pass_rows(uint32_t rows)
{
	return rows < 2 ? 1 : rows < KQ_ROWS ? 2 : KQ_ROWS;
}

/* Rows share what is read of a panel while it is in the cache. */
static void kq_few(const struct fw_matmul_kq *t, struct kq_few *s)
{
	const struct vnpu_kq_form f = vnpu_kq_form(t->type);
	const size_t block_bytes = vnpu_kq_block_bytes(f);
	const uint8_t *w = t->w;
	uint32_t n0, k0, m, rows;

	for (m = 0; m < t->m; m++)
		kq_group_sums(s->sum[m], t->a + m * t->lda, t->k, f.group);
	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		memset(s->c, 0, t->m * sizeof(s->c[0]));
		for (k0 = 0; k0 < t->k; k0 += f.block, w += block_bytes) {
			for (m = 0; m < t->m; m += rows) {
				const struct kq_pass pass = {
					.a = t->a + m * t->lda,
					.lda = t->lda,
					.sum = s->sum[m],
					.acc = s->acc,
					.c = s->c + m,
					.first = m == 0,
				};

				rows = kq_pass_rows(t->m - m);
				kq_blocks[t->type][rows / 2](&pass, w, k0);
			}
		}
		kq_store(t, 0, t->m, n0, s->c[0]);
	}
}

/* ---- more rows ------------------------------------------------------------------------------- */

#define KQ_TILE_ROWS 6
#define KQ_TILES 22 /* tiles of rows that are multiplied with a part of K */
#define KQ_PANELS 8 /* panels whose sums are kept */
#define KQ_HALF (VNPU_PANEL_N / 2)
#define KQ_PART 256 /* k at a time: a block, or eight of 32 */
/* Distance of rows: an odd number of cache lines. */
#define KQ_LD (KQ_PART + 64)

/* Half a panel's part of K. */
struct kq_half {
	_Alignas(64) uint8_t w[KQ_PART / 4][KQ_HALF][4]; /* signed numbers */
	int32_t first[KQ_MAX_GROUPS][KQ_HALF]; /* what a group's sums start at */
	int32_t scale[KQ_MAX_GROUPS][KQ_HALF]; /* in blocks of 32: d, as a float */
	float low[KQ_PART / 32][KQ_HALF]; /* in blocks of 32: dmin */
	int16_t min[KQ_MAX_GROUPS / 2][KQ_HALF][2];
	float d[KQ_HALF], dmin[KQ_HALF];
};

struct kq_many {
	struct kq_half half;
	float sum[KQ_PANELS][KQ_TILES * KQ_TILE_ROWS][VNPU_PANEL_N];
	uint8_t a[KQ_TILES * KQ_TILE_ROWS][KQ_LD]; /* with inverted top bits */
	int16_t a_sum[KQ_TILES * KQ_TILE_ROWS][KQ_MAX_GROUPS];
};

_Static_assert(sizeof(struct kq_many) <= FW_SCRATCH_BYTES, "a part of K of all tiles fits");

/* Copies @k of @rows rows from @a on, and sums their groups. */
static void kq_copy(struct kq_many *s, const int8_t *a, size_t lda, uint32_t rows, uint32_t k,
		    uint32_t group)
{
	const __m256i top_bits = _mm256_set1_epi8((char)0x80);

	for (uint32_t r = 0; r < rows; r++, a += lda) {
		for (uint32_t i = 0; i < k; i += 32) {
			/* The rows' parts are too short for the hardware prefetcher. */
			_mm_prefetch(a + 8 * lda + i, _MM_HINT_T0);
			_mm256_storeu_si256(
				(__m256i *)(s->a[r] + i),
				_mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(a + i)),
						 top_bits));
		}
		kq_group_sums(s->a_sum[r], a, k, group);
	}
}

/* Unpacks 16 channels of half a panel, from @n of the panel on, of @block of @k0. */
KQ_INLINE void kq_unpack16(struct kq_half *h, const struct kq_block *b, const struct vnpu_kq_form f,
			   uint32_t k0, uint32_t n)
{
	const __m512i zero = _mm512_set1_epi8((char)kq_zero(f)),
		      bias = _mm512_set1_epi8((char)0x80);
	const uint32_t at = n % KQ_HALF;
	struct kq_planes planes;
	uint32_t unit, quad, g = k0 / f.group;
	__m512i u, sum = _mm512_setzero_si512();

	for (unit = 0; unit < f.block / 32; unit++) {
#pragma GCC unroll 8
		for (quad = 0; quad < 8; quad++) {
			u = kq_quad(&planes, b->numbers + unit * 256 * f.bits + n * 4, f, quad);
			if (!f.mins)
				u = _mm512_sub_epi8(u, zero);
			_mm512_store_si512(h->w[k0 / 4 + unit * 8 + quad][at], u);
			DOT(sum, bias, u);
			if (quad != 7 && (f.group == 32 || quad != 3))
				continue;
			_mm512_store_si512(h->first[g] + at,
					   _mm512_sub_epi32(_mm512_setzero_si512(), sum));
			if (f.block > 32)
				_mm512_store_si512(h->scale[g] + at,
						   kq_one(kq_pairs(b->scale, g / 2, n), g));
			if (f.block > 32 && f.mins && g % 2)
				_mm512_store_si512(h->min[g / 2][at], kq_pairs(b->min, g / 2, n));
			sum = _mm512_setzero_si512();
			g++;
		}
	}
	if (f.block > 32) {
		_mm512_store_ps(h->d + at, kq_f16(b->d, n));
		if (f.mins)
			_mm512_store_ps(h->dmin + at, kq_f16(b->dmin, n));
	} else {
		_mm512_store_ps(h->scale[k0 / 32] + at, kq_f16(b->d, n));
		if (f.mins)
			_mm512_store_ps(h->low[k0 / 32] + at, kq_f16(b->dmin, n));
	}
}

/* Unpacks half of a panel's part of K, @k long. */
KQ_INLINE void kq_unpack_as(struct kq_half *h, const uint8_t *w, const struct vnpu_kq_form f,
			    uint32_t half, uint32_t k)
{
	struct kq_block b;

	for (uint32_t k0 = 0; k0 < k; k0 += f.block, w += vnpu_kq_block_bytes(f)) {
		b = kq_block(w, f);
		kq_unpack16(h, &b, f, k0, half * KQ_HALF);
		kq_unpack16(h, &b, f, k0, half * KQ_HALF + 16);
	}
}

#define KQ_UNPACK(NAME, name, ...)                                                                \
	static void name##_unpack(struct kq_half *h, const uint8_t *w, uint32_t half, uint32_t k) \
	{                                                                                         \
		const struct vnpu_kq_form f = vnpu_kq_form(VNPU_KQ_##NAME);                       \
		kq_unpack_as(h, w, f, half, k);                                                   \
	}
VNPU_KQ_TYPES(KQ_UNPACK)
#define KQ_UNPACK_ROW(NAME, name, ...) name##_unpack,
static void (*const kq_unpack[VNPU_NR_KQ_TYPES])(struct kq_half *, const uint8_t *, uint32_t,
						 uint32_t) = { VNPU_KQ_TYPES(KQ_UNPACK_ROW) };

/* Where the results of half a tile go. */
struct kq_out {
	float *c; /* [rows][ldc] */
	size_t ldc;
	const float *a_scale; /* [rows] */
	const float *bias; /* or NULL */
};

#define EACH_ROW(f) f(0) f(1) f(2) f(3) f(4) f(5)

/* b: a block's sums, integers; c: those of K. In blocks of 32 only c is used. */
#define DECLARE(r)                                                                                 \
	__m512i i##r##0, i##r##1, b##r##0, b##r##1;                                                \
	__m512 c##r##0, c##r##1;                                                                   \
	if ((r) < rows && wide)                                                                    \
		b##r##0 = b##r##1 = _mm512_setzero_si512();                                        \
	if ((r) < rows && !wide) {                                                                 \
		c##r##0 = start ? _mm512_setzero_ps() : _mm512_load_ps(sum + (r)*VNPU_PANEL_N);    \
		c##r##1 =                                                                          \
			start ? _mm512_setzero_ps() : _mm512_load_ps(sum + (r)*VNPU_PANEL_N + 16); \
	}
#define FIRST(r)              \
	if ((r) < rows) {     \
		i##r##0 = w0; \
		i##r##1 = w1; \
	}
#define STEP(r)                                            \
	if ((r) < rows) {                                  \
		int32_t four;                              \
		__builtin_memcpy(&four, a + (r)*KQ_LD, 4); \
		__m512i x = _mm512_set1_epi32(four);       \
		DOT(i##r##0, x, w0);                       \
		DOT(i##r##1, x, w1);                       \
	}
#define SCALE(r)                                                                             \
	if ((r) < rows && wide) {                                                            \
		b##r##0 = _mm512_add_epi32(b##r##0, _mm512_mullo_epi32(i##r##0, w0));        \
		b##r##1 = _mm512_add_epi32(b##r##1, _mm512_mullo_epi32(i##r##1, w1));        \
	}                                                                                    \
	if ((r) < rows && !wide) {                                                           \
		c##r##0 = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i##r##0), (__m512)w0, c##r##0); \
		c##r##1 = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i##r##1), (__m512)w1, c##r##1); \
	}
#define LOW(r)                                                      \
	if ((r) < rows) {                                           \
		__m512 x = _mm512_set1_ps((float)a_sum[r][g]);      \
		c##r##0 = _mm512_fnmadd_ps(x, (__m512)w0, c##r##0); \
		c##r##1 = _mm512_fnmadd_ps(x, (__m512)w1, c##r##1); \
	}
#define BLOCK(r)                                                                                   \
	if ((r) < rows) {                                                                          \
		c##r##0 = start ? _mm512_setzero_ps() : _mm512_load_ps(sum + (r)*VNPU_PANEL_N);    \
		c##r##1 =                                                                          \
			start ? _mm512_setzero_ps() : _mm512_load_ps(sum + (r)*VNPU_PANEL_N + 16); \
		c##r##0 = _mm512_fmadd_ps(_mm512_cvtepi32_ps(b##r##0), (__m512)w0, c##r##0);       \
		c##r##1 = _mm512_fmadd_ps(_mm512_cvtepi32_ps(b##r##1), (__m512)w1, c##r##1);       \
	}
#define CLEAR(r)        \
	if ((r) < rows) \
		b##r##0 = b##r##1 = _mm512_setzero_si512();
#define MIN(r)                                                          \
	if ((r) < rows) {                                               \
		DOT_PAIR(b##r##0, w0, (const int32_t *)(a_sum[r] + g)); \
		DOT_PAIR(b##r##1, w1, (const int32_t *)(a_sum[r] + g)); \
	}
#define MINS(r)                                                                               \
	if ((r) < rows) {                                                                     \
		c##r##0 = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(b##r##0), (__m512)w0, c##r##0); \
		c##r##1 = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(b##r##1), (__m512)w1, c##r##1); \
	}
#define OUT(r)                                                         \
	if ((r) < rows) {                                              \
		_mm512_store_ps(sum + (r)*VNPU_PANEL_N, c##r##0);      \
		_mm512_store_ps(sum + (r)*VNPU_PANEL_N + 16, c##r##1); \
	}
#define RESULT(r)                                                                          \
	if ((r) < rows) {                                                                  \
		__m512 x = _mm512_set1_ps(out->a_scale[r]);                                \
		c##r##0 = _mm512_mul_ps(c##r##0, x);                                       \
		c##r##1 = _mm512_mul_ps(c##r##1, x);                                       \
		if (out->bias) {                                                           \
			c##r##0 = _mm512_add_ps(c##r##0, _mm512_loadu_ps(out->bias));      \
			c##r##1 = _mm512_add_ps(c##r##1, _mm512_loadu_ps(out->bias + 16)); \
		}                                                                          \
		_mm512_storeu_ps(out->c + (r)*out->ldc, c##r##0);                          \
		_mm512_storeu_ps(out->c + (r)*out->ldc + 16, c##r##1);                     \
	}

#define HALF(values)                                   \
	do {                                           \
		w0 = _mm512_load_si512(values);        \
		w1 = _mm512_load_si512((values) + 16); \
	} while (0)

/* sum[rows][64], 32 channels of it (0 if @start) += a[rows][KQ_LD] x half a panel's part of K.
 * @wide: a block of 256. With @out, results go there instead of sums. */
KQ_INLINE void kq_rows(const int rows, const bool wide, const uint32_t quads, const uint8_t *a,
		       const int16_t (*a_sum)[KQ_MAX_GROUPS], const struct kq_half *h,
		       uint32_t groups, bool mins, bool start, float *sum, const struct kq_out *out)
{
	const uint8_t *w = h->w[0][0];
	__m512i w0, w1;
	uint32_t g, q;

	EACH_ROW(DECLARE)
	for (g = 0; g < groups; g++) {
		HALF(h->first[g]);
		EACH_ROW(FIRST)
#pragma GCC unroll 8
		for (q = 0; q < quads; q++, w += 4 * KQ_HALF, a += 4) {
			w0 = _mm512_load_si512(w);
			w1 = _mm512_load_si512(w + 64);
			EACH_ROW(STEP)
		}
		HALF(h->scale[g]);
		EACH_ROW(SCALE)
		if (!wide && mins) {
			w0 = _mm512_load_si512(h->low[g]);
			w1 = _mm512_load_si512(h->low[g] + 16);
			EACH_ROW(LOW)
		}
	}
	if (wide) {
		w0 = _mm512_load_si512(h->d);
		w1 = _mm512_load_si512(h->d + 16);
		EACH_ROW(BLOCK)
	}
	if (wide && mins) {
		EACH_ROW(CLEAR)
		for (g = 0; g < groups; g += 2) {
			w0 = _mm512_load_si512(h->min[g / 2]);
			w1 = _mm512_load_si512(h->min[g / 2] + 16);
			EACH_ROW(MIN)
		}
		w0 = _mm512_load_si512(h->dmin);
		w1 = _mm512_load_si512(h->dmin + 16);
		EACH_ROW(MINS)
	}
	if (out) {
		EACH_ROW(RESULT)
	} else {
		EACH_ROW(OUT)
	}
}

#define CASE(n)                                                                             \
	case n:                                                                             \
		if (f.block == 32)                                                          \
			kq_rows(n, false, 8, a, a_sum, h, groups, f.mins, start, sum, out); \
		else if (f.group == 32)                                                     \
			kq_rows(n, true, 8, a, a_sum, h, groups, f.mins, start, sum, out);  \
		else                                                                        \
			kq_rows(n, true, 4, a, a_sum, h, groups, f.mins, start, sum, out);  \
		break;

/* Multiplies the @rows rows of tile @tile with half @half of panel @panel, @k long. */
static void kq_tile(struct kq_many *s, const struct vnpu_kq_form f, uint32_t tile, uint32_t rows,
		    uint32_t panel, uint32_t half, uint32_t k, bool start, const struct kq_out *out)
{
	float *sum = s->sum[panel][tile * KQ_TILE_ROWS] + half * KQ_HALF;
	const int16_t(*a_sum)[KQ_MAX_GROUPS] = s->a_sum + tile * KQ_TILE_ROWS;
	const uint8_t *a = s->a[tile * KQ_TILE_ROWS];
	const struct kq_half *h = &s->half;
	const uint32_t groups = k / f.group;

	switch (rows) {
		CASE(1)
		CASE(2)
		CASE(3)
		CASE(4)
		CASE(5)
		CASE(6)
	}
}

/* Half @half of panel @p of those from channel @n0 on, with all rows; @next: @bytes that are read
 * next. */
static void kq_half_panel(const struct fw_matmul_kq *t, struct kq_many *s, uint32_t m0,
			  uint32_t rows, uint32_t n, uint32_t panel, uint32_t half, uint32_t k0,
			  uint32_t k, const uint8_t *next, size_t bytes)
{
	const uint32_t tiles = (rows + KQ_TILE_ROWS - 1) / KQ_TILE_ROWS,
		       lines = fetch_portion(bytes, tiles);
	/* Results of a whole panel; those of a part of one go through memory. */
	const bool last = k0 + k == t->k, direct = last && t->n - n >= VNPU_PANEL_N;
	const struct vnpu_kq_form f = vnpu_kq_form(t->type);
	struct kq_out out;
	uint32_t now;

	for (uint32_t i = 0, m = 0; i < tiles; i++, m += KQ_TILE_ROWS, next += lines * 64) {
		now = rows - m < KQ_TILE_ROWS ? rows - m : KQ_TILE_ROWS;
		fetch_lines(next, lines);
		out = (struct kq_out){
			.c = t->c + (m0 + m) * t->ldc + n + half * KQ_HALF,
			.ldc = t->ldc,
			.a_scale = t->a_scale + m0 + m,
			.bias = t->bias ? t->bias + n + half * KQ_HALF : NULL,
		};
		if (direct)
			fetch_results(out.c, t->ldc, now, KQ_HALF);
		kq_tile(s, f, i, now, panel, half, k, !k0, direct ? &out : NULL);
		if (half && last && !direct)
			kq_store(t, m0 + m, now, n, s->sum[panel][m]);
	}
}

/* Rows m0.., @rows of them, and channels n0.., in @panels panels. */
static void kq_many(const struct fw_matmul_kq *t, uint32_t m0, uint32_t rows, uint32_t n0,
		    uint32_t panels, struct kq_many *s)
{
	const struct vnpu_kq_form f = vnpu_kq_form(t->type);
	const size_t panel_bytes = vnpu_kq_panel_bytes(t->type, t->k);
	const uint8_t *panel = t->w + n0 / VNPU_PANEL_N * panel_bytes, *w, *next;
	uint32_t k0, k, p, half;
	size_t at, bytes;

	for (k0 = 0; k0 < t->k; k0 += k) {
		k = t->k - k0 < KQ_PART ? t->k - k0 : KQ_PART;
		at = k0 / f.block * vnpu_kq_block_bytes(f);
		bytes = k / f.block * vnpu_kq_block_bytes(f);
		kq_copy(s, t->a + m0 * t->lda + k0, t->lda, rows, k, f.group);
		for (p = 0; p < panels; p++) {
			w = panel + p * panel_bytes + at;
			next = p + 1 < panels ? w + panel_bytes : panel + at + bytes;
			for (half = 0; half < 2; half++) {
				kq_unpack[t->type](&s->half, w, half, k);
				kq_half_panel(t, s, m0, rows, n0 + p * VNPU_PANEL_N, p, half, k0, k,
					      next + half * bytes / 2, bytes / 2);
			}
		}
	}
}

void fw_matmul_kq_avx512(const struct fw_matmul_kq *t, void *scratch)
{
	uint32_t all = (t->n + VNPU_PANEL_N - 1) / VNPU_PANEL_N, m0, rows, p, panels;

	if (t->m <= (stream_direct() ? 1 : 2) && __builtin_cpu_supports("avx512vbmi") &&
	    __builtin_cpu_supports("gfni")) {
		fw_matmul_kq_row(t, scratch);
		return;
	}
	if (t->m <= KQ_FEW) {
		kq_few(t, scratch);
		return;
	}
	for (m0 = 0; m0 < t->m; m0 += rows) {
		rows = t->m - m0 < KQ_TILES * KQ_TILE_ROWS ? t->m - m0 : KQ_TILES * KQ_TILE_ROWS;
		for (p = 0; p < all; p += panels) {
			panels = all - p < KQ_PANELS ? all - p : KQ_PANELS;
			kq_many(t, m0, rows, p * VNPU_PANEL_N, panels, scratch);
		}
	}
}
#endif
