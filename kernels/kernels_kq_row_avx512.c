// SPDX-License-Identifier: MIT
/*
 * One row or two, such as the planes of an INT16 input, and GGUF's block types with AVX-512 VNNI,
 * VBMI and GFNI. Each line of a panel is fetched once and in order. Of one row the sums of all 64
 * channels stay in registers from a panel's first block to its last: four registers of a group's
 * sums, from row_start() on, four of the block's sums, and four of the result. Of two rows it is
 * the half of the channels, whose numbers are unpacked once for both, and then the other half.
 */
#if defined(__x86_64__)
#include "kernels_avx512.h"
#include "kernels_kq_avx512.h"

/*
 * Reads part @part of @parts of a block in order, some lines before their use; the first part reads
 * the tables before the numbers too. Plain reads in order are what the prefetchers of Zen 4 follow:
 * a core read Q4_K at 22 GB/s with kq_ahead(), and reads it at 30; with neither it was 13. Five
 * lines before are as good as twelve for most types; with twelve, numbers of 5 bits are read at 30
 * GB/s and not at 23, but those of 6 bits at 20 and not at 26. Zen 5 needs kq_ahead(): two threads
 * read Q4_K at 50 GB/s with it and at 42 like this, Q6_K at 53 and at 39.
 */
KQ_INLINE void row_touch(const struct kq_block *b, const struct vnpu_kq_form f, uint32_t part,
			 const uint32_t parts)
{
	const uint32_t lines = (uint32_t)vnpu_kq_block_bytes(f) / 64,
		       tables = (uint32_t)(b->numbers - b->d) / 64, numbers = lines - tables,
		       before = f.bits == 5 ? 12 : 5;
	uint32_t i = part ? tables + part * numbers / parts + before : 0,
		 end = tables + (part + 1) * numbers / parts + before;

	for (end = end < lines ? end : lines; i < end; i++)
		(void)*(const volatile uint8_t *)(b->d + i * 64);
}

/* Fetches what follows part @part of @parts of a block. @amd: on AMD's cores. */
KQ_INLINE void row_fetch(const struct kq_block *b, const struct vnpu_kq_form f, const bool amd,
			 uint32_t part, const uint32_t parts)
{
	/* AMD's cores follow small blocks of one plane by themselves, as they are used in order. */
	if (amd && f.block == 32 && !(f.bits & (f.bits - 1)))
		return;
	/*
	 * On Zen 4 up to three bits take as long to compute as to read, so that waiting for reads
	 * costs more.
	 */
	if (!amd || f.bits < 4 || !stream_in_order())
		kq_ahead(b, f, part, parts);
	else
		row_touch(b, f, part, parts);
}

/*
 * With 3 bits, a number's two bits and its one bit come from different planes and are joined where
 * they stand, if they do not stand at the same place. Then one instruction moves all three to the
 * bottom. Of quad @quad the two stand at three_two(), and the one is brought to three_one().
 */
KQ_INLINE uint32_t three_two(uint32_t quad)
{
	return quad % 4 * 2;
}

KQ_INLINE uint32_t three_one(uint32_t quad)
{
	return quad == 0 ? 2 : quad == 7 ? 3 : quad;
}

/* As kq_quad(), of 3 bits. */
KQ_INLINE __m512i row_three(struct kq_planes *p, const uint8_t *numbers, const uint32_t quad)
{
	const __m512i mask = _mm512_set1_epi8((char)(1 << three_one(quad)));
	__m512i one;

	if (quad % 4 == 0)
		p->p2 = _mm512_loadu_si512(numbers + quad / 4 * 256);
	if (quad == 0)
		p->p1 = _mm512_loadu_si512(numbers + 512);
	one = quad == 0	  ? _mm512_slli_epi16(p->p1, 2)
	      : quad == 7 ? _mm512_srli_epi16(p->p1, 4)
			  : p->p1;
	/* mask ? one : two */
	return kq_pick(_mm512_ternarylogic_epi32(mask, one, p->p2, 0xca),
		       kq_bit(three_two(quad), 0) | kq_bit(three_two(quad) + 1, 1) |
			       kq_bit(three_one(quad), 2));
}

/*
 * With 3 bits and levels, a level is looked up by six bits of a byte in which the two and the one
 * stand anywhere: the other three count for nothing. So most planes need no shift: of quad @quad
 * the two bits stand at level_two() and the one at level_one().
 */
KQ_INLINE uint32_t level_two(uint32_t quad)
{
	return quad % 4 == 3 ? 0 : quad % 4 * 2;
}

KQ_INLINE uint32_t level_one(uint32_t quad)
{
	return quad == 0 ? 2 : quad < 6 ? quad : quad - 4;
}

/*
 * tables[8][64]: the levels of 3 bits by the six bits of a quad; tables[0] those of 4 bits, by six
 * bits of which the lower four count.
 */
static void row_tables(__m512i tables[8], const struct vnpu_kq_form f)
{
	_Alignas(64) uint8_t numbers[64];
	uint32_t two, one;

	if (!f.levels)
		return;
	if (f.bits == 4)
		tables[0] = kq_levels(f);
	if (f.bits != 3)
		return;
	for (uint32_t quad = 0; quad < 8; quad++) {
		two = level_two(quad);
		one = level_one(quad);
		for (uint32_t i = 0; i < 64; i++)
			numbers[i] = (uint8_t)((i >> two & 3) | (i >> one & 1) << 2);
		tables[quad] = _mm512_shuffle_epi8(kq_levels(f), _mm512_load_si512(numbers));
	}
}

/* As kq_quad(), of 3 bits with levels. */
KQ_INLINE __m512i row_level_of_three(struct kq_planes *p, const uint8_t *numbers,
				     const __m512i *tables, const uint32_t quad)
{
	const __m512i mask = _mm512_set1_epi8((char)(1 << level_one(quad)));
	__m512i two, one;

	if (quad % 4 == 0)
		p->p2 = _mm512_loadu_si512(numbers + quad / 4 * 256);
	if (quad == 0)
		p->p1 = _mm512_loadu_si512(numbers + 512);
	two = quad % 4 == 3 ? _mm512_srli_epi16(p->p2, 6) : p->p2;
	one = quad == 0	  ? _mm512_slli_epi16(p->p1, 2)
	      : quad >= 6 ? _mm512_srli_epi16(p->p1, 4)
			  : p->p1;
	/* mask ? one : two */
	return _mm512_permutexvar_epi8(_mm512_ternarylogic_epi32(mask, one, two, 0xca),
				       tables[quad]);
}

/* As kq_quad(), of 4 bits with levels: what stands above the four bits needs no masking. */
KQ_INLINE __m512i row_level(struct kq_planes *p, const uint8_t *numbers, const __m512i *tables,
			    const uint32_t quad)
{
	if (quad % 2 == 0)
		p->p4 = _mm512_loadu_si512(numbers + quad / 2 * 256);
	return _mm512_permutexvar_epi8(quad % 2 ? _mm512_srli_epi16(p->p4, 4) : p->p4, tables[0]);
}

KQ_INLINE __m512i row_quad(struct kq_planes *p, const uint8_t *numbers, const struct vnpu_kq_form f,
			   const __m512i *tables, const uint32_t quad)
{
	if (f.bits == 3)
		return f.levels ? row_level_of_three(p, numbers, tables, quad)
				: row_three(p, numbers, quad);
	if (f.bits == 4 && f.levels)
		return row_level(p, numbers, tables, quad);
	return kq_quad(p, numbers, f, quad);
}

/* Vectors of 16 channels at a time; of two rows, those of the second come after the first's. */
#define ROW_VECTORS 4

/* Activations [rows][lda], and the sums of their groups [rows][lds]. */
struct row_input {
	const int8_t *a;
	const int16_t *sum;
	size_t lda, lds;
};

/* Four quads of a unit, from @quad on: s += those of the vectors' channels, from @numbers on. */
KQ_INLINE void row_quads(const uint32_t rows, __m512i s[ROW_VECTORS],
			 struct kq_planes planes[ROW_VECTORS], const uint8_t *numbers,
			 const struct vnpu_kq_form f, const __m512i *tables, const uint32_t quad,
			 const int8_t *a, size_t lda)
{
	const uint32_t vectors = ROW_VECTORS / rows;

#pragma GCC unroll 4
	for (uint32_t q = quad; q < quad + 4; q++) {
		__m512i x[2], u;
		int32_t four;

#pragma GCC unroll 2
		for (uint32_t r = 0; r < rows; r++) {
			memcpy(&four, a + r * lda + q * 4, sizeof(four));
			x[r] = _mm512_set1_epi32(four);
		}
#pragma GCC unroll 4
		for (uint32_t i = 0; i < vectors; i++) {
			u = row_quad(&planes[i], numbers + i * 64, f, tables, q);
#pragma GCC unroll 2
			for (uint32_t r = 0; r < rows; r++)
				DOT(s[r * vectors + i], u, x[r]);
		}
	}
}

/* s = what the sums of group @g start at: the zero of each number, times the activations. */
KQ_INLINE void row_start(const uint32_t rows, __m512i s[ROW_VECTORS], const struct vnpu_kq_form f,
			 const struct row_input *in, uint32_t g)
{
	const uint32_t vectors = ROW_VECTORS / rows;

#pragma GCC unroll 4
	for (uint32_t i = 0; i < ROW_VECTORS; i++)
		s[i] = f.mins ? _mm512_setzero_si512()
			      : _mm512_set1_epi32(in->sum[i / vectors * in->lds + g] * -kq_zero(f));
}

/* acc += s times the scales of a group, odd or even in its pair @pairs. */
KQ_INLINE void row_scale(const uint32_t rows, __m512i acc[ROW_VECTORS], __m512i s[ROW_VECTORS],
			 const int8_t *pairs, const uint32_t odd)
{
#pragma GCC unroll 4
	for (uint32_t i = 0; i < ROW_VECTORS; i++) {
		uint32_t n = i % (ROW_VECTORS / rows) * 16;
		__m512i scales = kq_one(kq_pairs(pairs, 0, n), odd);

		acc[i] = _mm512_add_epi32(acc[i], _mm512_mullo_epi32(s[i], scales));
	}
}

/* Whether a group's sums fit 16 bits. */
KQ_INLINE bool row_is_short(const struct vnpu_kq_form f)
{
	return (f.group * ((1u << kq_unsigned_bits(f)) - 1) << 7) <= INT16_MAX;
}

/* acc += the sums of two groups, which fit 16 bits, times their scales. */
KQ_INLINE void row_scale_pair(const uint32_t rows, __m512i acc[ROW_VECTORS],
			      __m512i even[ROW_VECTORS], __m512i odd[ROW_VECTORS],
			      const int8_t *pairs)
{
#pragma GCC unroll 4
	for (uint32_t i = 0; i < ROW_VECTORS; i++) {
		uint32_t n = i % (ROW_VECTORS / rows) * 16;
		__m512i both =
			_mm512_mask_blend_epi16(0xaaaaaaaa, even[i], _mm512_slli_epi32(odd[i], 16));

		__asm__("vpdpwssd %2, %1, %0"
			: "+v"(acc[i])
			: "v"(both), "v"(kq_pairs(pairs, 0, n)));
	}
}

/* A block of 256 k; @part: which of the @rows parts of its channels. */
KQ_INLINE void row_block(const uint32_t rows, const struct vnpu_kq_form f, const bool amd,
			 __m512 c[ROW_VECTORS], const struct kq_block *b, const __m512i *tables,
			 const struct row_input *in, const uint32_t part)
{
	const uint32_t groups = f.block / f.group, unit_bytes = f.bits * 256u,
		       vectors = ROW_VECTORS / rows, n0 = part * vectors * 16,
		       fetches = f.block / 16 * rows;
	__m512i acc[ROW_VECTORS], s[ROW_VECTORS], odd[ROW_VECTORS], low;
	const uint8_t *numbers = b->numbers + n0 * 4;
	struct kq_planes planes[ROW_VECTORS];
	const int8_t *pairs = b->scale + n0 * 2, *a = in->a;
	uint32_t i, n;

#pragma GCC unroll 4
	for (i = 0; i < ROW_VECTORS; i++)
		acc[i] = _mm512_setzero_si512();
	/* Halves of a unit of 32 k, each a group or the half of one. */
	for (uint32_t unit = 0; unit < f.block / 32u; unit++, numbers += unit_bytes, a += 32) {
#pragma GCC unroll 2
		for (uint32_t half = 0; half < 2; half++) {
			row_fetch(b, f, amd, part * f.block / 16 + unit * 2 + half, fetches);
			if (f.group == 16)
				row_start(rows, half && row_is_short(f) ? odd : s, f, in,
					  unit * 2 + half);
			else if (!half)
				row_start(rows, s, f, in, unit);
			row_quads(rows, half && row_is_short(f) ? odd : s, planes, numbers, f,
				  tables, half * 4, a, in->lda);
			if (f.group == 16 && !row_is_short(f))
				row_scale(rows, acc, s, pairs + unit * VNPU_PANEL_N * 2, half);
		}
		if (row_is_short(f))
			row_scale_pair(rows, acc, s, odd, pairs + unit * VNPU_PANEL_N * 2);
		if (f.group == 32)
			row_scale(rows, acc, s, pairs + unit / 2 * VNPU_PANEL_N * 2, unit % 2);
	}
#pragma GCC unroll 4
	for (i = 0; i < ROW_VECTORS; i++) {
		n = n0 + i % vectors * 16;
		c[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[i]), kq_f16(b->d, n), c[i]);
		if (!f.mins)
			continue;
		low = kq_low(b->min, groups, in->sum + i / vectors * in->lds, n);
		c[i] = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(low), kq_f16(b->dmin, n), c[i]);
	}
}

/* A block of 32 k, likewise. */
KQ_INLINE void row_small(const uint32_t rows, const struct vnpu_kq_form f, const bool amd,
			 __m512 c[ROW_VECTORS], const struct kq_block *b, const __m512i *tables,
			 const struct row_input *in, const uint32_t part)
{
	const uint32_t vectors = ROW_VECTORS / rows, n0 = part * vectors * 16;
	struct kq_planes planes[ROW_VECTORS];
	__m512i s[ROW_VECTORS];
	uint32_t i, n;
	int32_t sum;

	row_fetch(b, f, amd, part, rows);
	row_start(rows, s, f, in, 0);
	row_quads(rows, s, planes, b->numbers + n0 * 4, f, tables, 0, in->a, in->lda);
	row_quads(rows, s, planes, b->numbers + n0 * 4, f, tables, 4, in->a, in->lda);
#pragma GCC unroll 4
	for (i = 0; i < ROW_VECTORS; i++) {
		n = n0 + i % vectors * 16;
		sum = in->sum[i / vectors * in->lds];
		c[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s[i]), kq_f16(b->d, n), c[i]);
		if (f.mins)
			c[i] = _mm512_fnmadd_ps(_mm512_set1_ps((float)sum), kq_f16(b->dmin, n),
						c[i]);
	}
}

/* A panel: c [rows][64], before the rows' scales. */
KQ_INLINE void row_panel(const uint32_t rows, const struct vnpu_kq_form f, const bool amd, float *c,
			 const uint8_t *w, const __m512i *tables, struct row_input in, uint32_t k)
{
	const size_t block_bytes = vnpu_kq_block_bytes(f);
	const uint32_t vectors = ROW_VECTORS / rows;
	__m512 acc[2][ROW_VECTORS];
	struct kq_block b;
	uint32_t part, i;

#pragma GCC unroll 8
	for (i = 0; i < rows * ROW_VECTORS; i++)
		acc[i / ROW_VECTORS][i % ROW_VECTORS] = _mm512_setzero_ps();
	for (; k; k -= f.block, w += block_bytes) {
		b = kq_block(w, f);
#pragma GCC unroll 2
		for (part = 0; part < rows; part++) {
			if (f.block == 32)
				row_small(rows, f, amd, acc[part], &b, tables, &in, part);
			else
				row_block(rows, f, amd, acc[part], &b, tables, &in, part);
		}
		in.a += f.block;
		in.sum += f.block / f.group;
	}
#pragma GCC unroll 2
	for (part = 0; part < rows; part++)
#pragma GCC unroll 4
		for (i = 0; i < ROW_VECTORS; i++)
			_mm512_store_ps(c + i / vectors * VNPU_PANEL_N + part * vectors * 16 +
						i % vectors * 16,
					acc[part][i]);
}

typedef void row_panel_fn(float *c, const uint8_t *w, const __m512i *tables, struct row_input in,
			  uint32_t k);

#define ROW_PANEL(how, rows, amd, NAME, name, ...)                                       \
	static void name##_##how(float *c, const uint8_t *w, const __m512i *tables,      \
				 struct row_input in, uint32_t k)                        \
	{                                                                                \
		row_panel(rows, vnpu_kq_form(VNPU_KQ_##NAME), amd, c, w, tables, in, k); \
	}
#define ROW_ONE(...) ROW_PANEL(one, 1, false, __VA_ARGS__)
#define ROW_TWO(...) ROW_PANEL(two, 2, false, __VA_ARGS__)
#define ROW_AMD(...) ROW_PANEL(amd, 1, true, __VA_ARGS__)
VNPU_KQ_TYPES(ROW_ONE)
VNPU_KQ_TYPES(ROW_TWO)
VNPU_KQ_TYPES(ROW_AMD)

#define ROW_PANELS(NAME, name, ...) { name##_one, name##_two, name##_amd },
static row_panel_fn *const row_panels[VNPU_NR_KQ_TYPES][3] = { VNPU_KQ_TYPES(ROW_PANELS) };

void fw_matmul_kq_row(const struct fw_matmul_kq *t, void *scratch)
{
	row_panel_fn *const panel = row_panels[t->type][stream_direct() ? 2 : t->m - 1];
	const size_t panel_bytes = vnpu_kq_panel_bytes(t->type, t->k);
	const struct vnpu_kq_form f = vnpu_kq_form(t->type);
	_Alignas(64) float c[2][VNPU_PANEL_N];
	int16_t *sum = scratch; /* of each group's activations */
	const struct row_input in = { t->a, sum, t->lda, t->k / f.group };
	const uint8_t *w = t->w;
	__m512i tables[8];

	row_tables(tables, f);
	for (uint32_t m = 0; m < t->m; m++)
		kq_group_sums(sum + m * in.lds, t->a + m * t->lda, t->k, f.group);
	for (uint32_t n = 0; n < t->n; n += VNPU_PANEL_N, w += panel_bytes) {
		panel(c[0], w, tables, in, t->k);
		kq_store(t, 0, t->m, n, c[0]);
	}
}
#endif
