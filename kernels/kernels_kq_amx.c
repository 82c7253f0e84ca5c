// SPDX-License-Identifier: MIT
/*
 * GGUF's block types with AMX, for rows that fill a good part of a tile; kernels_kq_avx512.c has
 * fewer.
 *
 * Blocks of 256: a group's integer scale is multiplied into its weights, as the sums are of
 * integers, and the product is split into two digits of 8 bits, each of which is a matrix for the
 * tiles: 16 rows x 32 channels, two tiles of sums for each 16 channels, without an end at each
 * group. The vector unit adds a block's digits up and multiplies the sum by the block's scale,
 * while the tiles have the next rows.
 *
 * Blocks of 32, whose scale is a float, are groups of kernels_amx.h.
 *
 * Activations are read in place.
 */
#if defined(__x86_64__)
#include <stdbool.h>

#include "kernels_amx.h"
#include "kernels_kq_avx512.h"

/* Fewer rows are faster with vpdpbusd; in blocks of 32 with minima, fewer than the second. */
#define AMX_MIN_ROWS 5
#define AMX_MIN_ROWS_SMALL 8
#define AMX_PART 256 /* k at a time: a block, or eight of 32 */
#define AMX_WIDTH 32 /* channels at a time */

typedef uint8_t amx_weights[AMX_PART / 4][16][4];

struct kq_amx {
	_Alignas(64) amx_weights w[2][2]; /* [16 channels][low digit, high; blocks of 32: one] */
	int32_t acc[2][4][AMX_TILE][16];
	float scale[2][AMX_PART / 32][16], min[2][AMX_PART / 32][16]; /* of blocks of 32 */
	float c[AMX_MOST_ROWS][VNPU_PANEL_N];
	/* With minima, of each row's groups: int16_t [rows][groups]; in blocks of 32, float
	 * [tiles][groups][16 rows]. */
	_Alignas(64) uint8_t sum[];
};

/* The rows that are multiplied with a panel before the next one. */
struct amx_rows {
	const struct fw_matmul_kq *t;
	uint32_t m0, rows, tiles;
	uint32_t groups; /* of a row */
};

/* A tile of rows times a part of K of half a panel. */
struct amx_part {
	struct kq_block b;
	uint32_t k0, half, tile;
	uint32_t shift; /* bits of the low digit */
	uint32_t turn; /* acc[turn % 2] has the sums */
};

/* ---- blocks of 256 --------------------------------------------------------------------------- */

/* A group's scales of 16 channels, each twice, as 16 bits. */
KQ_INLINE __m512i amx_scales(__m512i pairs, uint32_t g)
{
	const __m128i even = _mm_set_epi8(13, 12, 13, 12, 9, 8, 9, 8, 5, 4, 5, 4, 1, 0, 1, 0);
	const __m128i odd = _mm_add_epi8(even, _mm_set1_epi8(2));

	return _mm512_shuffle_epi8(pairs, _mm512_broadcast_i32x4(g % 2 ? odd : even));
}

/*
 * Whether products of scales' digits to the base 8 and numbers need no more than 8 bits, for 16
 * channels from @n on. So it is in files.
 */
KQ_INLINE bool amx_octal(const struct kq_block *b, const struct vnpu_kq_form f, uint32_t n)
{
	__m512i any = _mm512_setzero_si512();

	if (f.levels || !f.mins || f.bits > 5)
		return false;
	for (uint32_t pair = 0; pair < (uint32_t)f.block / f.group / 2; pair++)
		any = _mm512_or_si512(any, kq_pairs(b->scale, pair, n));
	return !_mm512_test_epi16_mask(any, _mm512_set1_epi16(~63));
}

/* Unpacks 16 channels of a block, from @n on, to two digits of weights. */
KQ_INLINE void amx_digits(amx_weights *w, const struct kq_block *b, const struct vnpu_kq_form f,
			  uint32_t n, const bool octal)
{
	const __m512i low = _mm512_set1_epi16(255), zero = _mm512_set1_epi16((short)kq_zero(f));
	struct kq_planes planes;
	__m512i u, s = low, s0 = low, even, odd;
	uint32_t unit, quad, g, q;

	for (unit = 0; unit < f.block / 32u; unit++) {
		/* Evenly: there is enough to do between requests. */
		kq_ahead(b, f, n / 2 + unit, 32);
#pragma GCC unroll 8
		for (quad = 0; quad < 8; quad++) {
			q = unit * 8 + quad;
			g = q * 4 / f.group;
			if (q * 4 % f.group == 0) {
				s = amx_scales(kq_pairs(b->scale, g / 2, n), g);
				/* octal: the low digit; else what the zero counts */
				s0 = octal ? _mm512_and_si512(s, _mm512_set1_epi16(7))
					   : _mm512_mullo_epi16(s, zero);
				if (octal)
					s = _mm512_srli_epi16(s, 3);
			}
			u = kq_quad(&planes, b->numbers + unit * 256 * f.bits + n * 4, f, quad);
			if (octal) {
				_mm512_store_si512(w[0][q], _mm512_mullo_epi16(u, s0));
				_mm512_store_si512(w[1][q], _mm512_mullo_epi16(u, s));
				continue;
			}
			even = _mm512_mullo_epi16(_mm512_and_si512(u, low), s);
			odd = _mm512_mullo_epi16(_mm512_srli_epi16(u, 8), s);
			if (!f.mins) {
				even = _mm512_sub_epi16(even, s0);
				odd = _mm512_sub_epi16(odd, s0);
			}
			/* low ? even : odd */
			_mm512_store_si512(w[0][q],
					   _mm512_ternarylogic_epi32(
						   low, even, _mm512_slli_epi16(odd, 8), 0xca));
			_mm512_store_si512(
				w[1][q], _mm512_ternarylogic_epi32(low, _mm512_srli_epi16(even, 8),
								   odd, 0xca));
		}
	}
}

/* Unpacks half a panel's block. */
KQ_INLINE void amx_unpack_wide(struct kq_amx *s, struct amx_part *p, const struct vnpu_kq_form f)
{
	const uint32_t n = p->half * AMX_WIDTH;
	const bool octal = amx_octal(&p->b, f, n) && amx_octal(&p->b, f, n + 16);

	p->shift = octal ? 3 : 8;
	for (uint32_t v = 0; v < 2; v++) {
		if (octal)
			amx_digits(s->w[v], &p->b, f, n + v * 16, true);
		else
			amx_digits(s->w[v], &p->b, f, n + v * 16, false);
	}
}

/* The high digit is unsigned if it is of base 8. */
#define AMX_BLOCK(high)                                         \
	do {                                                    \
		_tile_zero(0);                                  \
		_tile_zero(1);                                  \
		_tile_zero(2);                                  \
		_tile_zero(3);                                  \
		for (uint32_t i = 0; i < AMX_PART / 64; i++) {  \
			_tile_loadd(4, a + i * 64, lda);        \
			_tile_loadd(6, s->w[0][0][i * 16], 64); \
			_tile_dpbsud(0, 4, 6);                  \
			_tile_loadd(7, s->w[0][1][i * 16], 64); \
			high(1, 4, 7);                          \
			_tile_loadd(6, s->w[1][0][i * 16], 64); \
			_tile_dpbsud(2, 4, 6);                  \
			_tile_loadd(7, s->w[1][1][i * 16], 64); \
			high(3, 4, 7);                          \
		}                                               \
		_tile_stored(0, acc[0], 64);                    \
		_tile_stored(1, acc[1], 64);                    \
		_tile_stored(2, acc[2], 64);                    \
		_tile_stored(3, acc[3], 64);                    \
	} while (0)

/* Adds the sums of 16 channels, half @v of a part's, to c. */
KQ_INLINE void amx_add(struct kq_amx *s, const struct amx_rows *g, const struct amx_part *p,
		       const struct vnpu_kq_form f, uint32_t v)
{
	const uint32_t n = p->half * AMX_WIDTH + v * 16, pairs = (uint32_t)f.block / f.group / 2,
		       rows = g->rows < AMX_TILE ? g->rows : AMX_TILE;
	const __m512 d = kq_f16(p->b.d, n),
		     dmin = f.mins ? kq_f16(p->b.dmin, n) : _mm512_setzero_ps();
	const int16_t *sum =
		(const int16_t *)s->sum + amx_row(g->rows, p->tile) * g->groups + p->k0 / f.group;
	const int32_t(*acc)[AMX_TILE][16] = s->acc[p->turn % 2] + v * 2;
	const __m128i shift = _mm_cvtsi32_si128((int)p->shift);
	float(*c)[VNPU_PANEL_N] = s->c + p->tile * AMX_TILE;
	__m512i min[KQ_MAX_GROUPS / 2], x;
	__m512 y;

#pragma GCC unroll 8
	for (uint32_t pair = 0; pair < pairs; pair++)
		min[pair] = f.mins ? kq_pairs(p->b.min, pair, n) : _mm512_setzero_si512();
	for (uint32_t r = 0; r < rows; r++) {
		x = _mm512_add_epi32(_mm512_load_si512(acc[0][r]),
				     _mm512_sll_epi32(_mm512_load_si512(acc[1][r]), shift));
		y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(x), d, _mm512_load_ps(c[r] + n));
		if (f.mins) {
			x = _mm512_setzero_si512();
#pragma GCC unroll 8
			for (uint32_t pair = 0; pair < pairs; pair++)
				DOT_PAIR(x, min[pair], (const int32_t *)(sum + pair * 2));
			y = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(x), dmin, y);
			sum += g->groups;
		}
		_mm512_store_ps(c[r] + n, y);
	}
}

/* Adds the panel at @w, times all rows, to c. */
KQ_INLINE void amx_wide_panel(struct kq_amx *s, const struct amx_rows *g,
			      const struct vnpu_kq_form f, const uint8_t *w)
{
	const size_t lda = g->t->lda;
	struct amx_part p = { 0 }, before = { 0 };
	int32_t(*acc)[AMX_TILE][16];
	const int8_t *a;

	for (; p.k0 < g->t->k; p.k0 += f.block, w += vnpu_kq_block_bytes(f)) {
		p.b = kq_block(w, f);
		for (p.half = 0; p.half < 2; p.half++) {
			amx_unpack_wide(s, &p, f);
			for (p.tile = 0; p.tile < g->tiles; p.tile++, p.turn++) {
				a = g->t->a + (g->m0 + amx_row(g->rows, p.tile)) * lda + p.k0;
				acc = s->acc[p.turn % 2];
				if (p.shift == 3)
					AMX_BLOCK(_tile_dpbsud);
				else
					AMX_BLOCK(_tile_dpbssd);
				/* While the tiles compute. */
				for (uint32_t v = 0; p.turn && v < 2; v++)
					amx_add(s, g, &before, f, v);
				before = p;
			}
		}
	}
	for (uint32_t v = 0; v < 2; v++)
		amx_add(s, g, &before, f, v);
}

/* ---- blocks of 32 ---------------------------------------------------------------------------- */

/* Unpacks half @half of @blocks blocks of a panel. */
KQ_INLINE void amx_unpack_small(struct kq_amx *s, const struct vnpu_kq_form f, const uint8_t *w,
				uint32_t blocks, uint32_t half)
{
	const __m512i zero = _mm512_set1_epi8((char)kq_zero(f));
	struct kq_planes planes;
	struct kq_block b;
	uint32_t g, v, quad, n;
	__m512i u;

	for (g = 0; g < blocks; g++, w += vnpu_kq_block_bytes(f)) {
		b = kq_block(w, f);
		kq_ahead(&b, f, half, 2);
		for (v = 0; v < 2; v++) {
			n = half * AMX_WIDTH + v * 16;
#pragma GCC unroll 8
			for (quad = 0; quad < 8; quad++) {
				u = kq_quad(&planes, b.numbers + n * 4, f, quad);
				if (!f.mins)
					u = _mm512_sub_epi8(u, zero);
				_mm512_store_si512(s->w[v][0][g * 8 + quad], u);
			}
			_mm512_store_ps(s->scale[v][g], kq_f16(b.d, n));
			if (f.mins)
				_mm512_store_ps(s->min[v][g], kq_f16(b.dmin, n));
		}
	}
}

/* Adds the panel at @w, times all rows, to c. */
KQ_INLINE void amx_small_panel(struct kq_amx *s, const struct amx_rows *g,
			       const struct vnpu_kq_form f, const uint8_t *w)
{
	struct amx_groups p = { .lda = g->t->lda, .w_ld = 64, .tiles = 1, .k = 32, .ld = 16 };
	uint32_t k0, k, half, i, v;

	for (k0 = 0; k0 < g->t->k; k0 += k, w += k / 32 * vnpu_kq_block_bytes(f)) {
		k = g->t->k - k0 < AMX_PART ? g->t->k - k0 : AMX_PART;
		for (half = 0; half < 2; half++) {
			amx_unpack_small(s, f, w, k / 32, half);
			for (i = 0; i < g->tiles; i++) {
				p.a = g->t->a + (g->m0 + amx_row(g->rows, i)) * g->t->lda + k0;
				p.sum = (const float(*)[AMX_TILE])s->sum + i * g->groups + k0 / 32;
				for (v = 0; v < 2; v++) {
					p.w = s->w[v][0][0][0];
					p.scale = s->scale[v][0];
					p.min = s->min[v][0];
					amx_groups(s->acc, &p, k / 32, f.mins,
						   s->c[i * AMX_TILE] + half * AMX_WIDTH + v * 16);
				}
			}
		}
	}
}

/* ---- rows and panels ------------------------------------------------------------------------- */

#define AMX_PANEL(NAME, name, block, ...)                                                      \
	static void name##_panel(struct kq_amx *s, const struct amx_rows *g, const uint8_t *w) \
	{                                                                                      \
		if (block == 32)                                                               \
			amx_small_panel(s, g, vnpu_kq_form(VNPU_KQ_##NAME), w);                \
		else                                                                           \
			amx_wide_panel(s, g, vnpu_kq_form(VNPU_KQ_##NAME), w);                 \
	}
VNPU_KQ_TYPES(AMX_PANEL)
#define AMX_PANEL_ROW(NAME, name, ...) name##_panel,
static void (*const amx_panel[VNPU_NR_KQ_TYPES])(struct kq_amx *, const struct amx_rows *,
						 const uint8_t *) = {
	VNPU_KQ_TYPES(AMX_PANEL_ROW)
};

/* Sums of the groups of tile @tile's rows, of blocks of 32; 0 for rows that do not exist. */
static void amx_small_sums(const struct amx_rows *g, uint32_t tile, float (*sum)[AMX_TILE])
{
	const int8_t *a = g->t->a + (g->m0 + amx_row(g->rows, tile)) * g->t->lda;
	int16_t one;

	for (uint32_t r = 0; r < AMX_TILE; r++) {
		for (uint32_t i = 0; i < g->groups; i++) {
			one = 0;
			if (r < g->rows)
				kq_group_sums(&one, a + r * g->t->lda + i * 32, 32, 32);
			sum[i][r] = one;
		}
	}
}

static void amx_sums(struct kq_amx *s, const struct amx_rows *g)
{
	const struct vnpu_kq_form f = vnpu_kq_form(g->t->type);
	uint32_t i;

	for (i = 0; f.block == 32 && i < g->tiles; i++)
		amx_small_sums(g, i, (float(*)[AMX_TILE])s->sum + i * g->groups);
	for (i = 0; f.block > 32 && i < g->rows; i++)
		kq_group_sums((int16_t *)s->sum + i * g->groups, g->t->a + (g->m0 + i) * g->t->lda,
			      g->t->k, f.group);
}

static void amx_group(const struct amx_rows *g, struct kq_amx *s)
{
	const struct fw_matmul_kq *t = g->t;
	const uint8_t *w = t->w;
	uint32_t n, i, rows = g->rows < AMX_TILE ? g->rows : AMX_TILE;

	if (vnpu_kq_form(t->type).mins)
		amx_sums(s, g);
	for (n = 0; n < t->n; n += VNPU_PANEL_N, w += vnpu_kq_panel_bytes(t->type, t->k)) {
		memset(s->c, 0, g->tiles * AMX_TILE * sizeof(s->c[0]));
		amx_panel[t->type](s, g, w);
		for (i = 0; i < g->tiles; i++)
			kq_store(t, g->m0 + amx_row(g->rows, i), rows, n, s->c[i * AMX_TILE]);
	}
}

/* No group of any K needs more than a float or two int16_t for 32 k of each row. */
_Static_assert(sizeof(struct kq_amx) + AMX_A_BYTES / 8 <= FW_SCRATCH_BYTES &&
		       AMX_TILE * VNPU_MAX_K_I8 <= AMX_A_BYTES,
	       "the sums of all groups fit");

void fw_matmul_kq_amx(const struct fw_matmul_kq *t, void *scratch)
{
	const struct vnpu_kq_form f = vnpu_kq_form(t->type);
	const uint32_t rows = amx_group_rows(t->m, t->k);
	struct amx_rows g = { .t = t, .groups = t->k / f.group };

	if (t->m < (f.block == 32 && f.mins ? AMX_MIN_ROWS_SMALL : AMX_MIN_ROWS)) {
		fw_matmul_kq_avx512(t, scratch);
		return;
	}
	for (; g.m0 < t->m; g.m0 += g.rows) {
		g.rows = t->m - g.m0 < rows ? t->m - g.m0 : rows;
		g.tiles = (g.rows + AMX_TILE - 1) / AMX_TILE;
		amx_configure(g.rows, f.block == 32 ? 32 : 64);
		amx_group(&g, scratch);
	}
	_tile_release();
}
#endif
