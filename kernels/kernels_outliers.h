/* SPDX-License-Identifier: MIT */
/*
 * Outliers: the few large values of a row that would cost the others precision. Part of
 * kernels_float.h, which includes it.
 *
 * One pass finds the maxima of 64 lanes; the ninth largest of them is the bound for INT8. Several
 * outliers in one lane have only one maximum, so more values may exceed the bound than the list has
 * room for; then the next larger maximum is tried, up to the largest, which no value exceeds.
 */
#include <stdbool.h>

#include "kernels_kq.h"
#include "kernels_w4.h"
#include "kernels_wk.h"

#define OUTLIER_LANES 64
/* Lanes whose maximum exceeds the first bound. */
#define OUTLIER_RANK 8

/* The maximum of |x| in each lane, as bits (greatest_bits()). */
static void lane_bits(int32_t max[OUTLIER_LANES], const float *x, size_t n)
{
	vi m[OUTLIER_LANES / LANES] = { 0 }, bits, before;
	size_t i = 0, v;

	for (; i + OUTLIER_LANES <= n; i += OUTLIER_LANES)
#pragma GCC unroll 16
		for (v = 0; v < OUTLIER_LANES / LANES; v++)
			m[v] = greater_i((vi)load(x + i + v * LANES) & 0x7fffffff, m[v]);
#pragma GCC unroll 16
	for (v = 0; v < OUTLIER_LANES / LANES; v++)
		memcpy(max + v * LANES, &m[v], sizeof(m[v]));
	/* In memory, because the compiler does not know which register v selects. */
	for (v = 0; i < n; i += LANES, v += LANES) {
		bits = (vi)(i + LANES <= n ? load(x + i) : load_part(x + i, n - i)) & 0x7fffffff;
		memcpy(&before, max + v, sizeof(before));
		bits = greater_i(bits, before);
		memcpy(max + v, &bits, sizeof(bits));
	}
}

/* The largest of @bits in falling order. */
static void order_bits(int32_t top[OUTLIER_RANK + 1], const int32_t bits[OUTLIER_LANES])
{
	int i, at;

	for (i = 0; i <= OUTLIER_RANK; i++)
		top[i] = 0;
	for (i = 0; i < OUTLIER_LANES; i++) {
		if (bits[i] <= top[OUTLIER_RANK])
			continue;
		for (at = OUTLIER_RANK; at && bits[i] > top[at - 1]; at--)
			top[at] = top[at - 1];
		top[at] = bits[i];
	}
}

INLINE int any_greater(vi a, vi b)
{
#if LANES == 16
	return _mm512_cmpgt_epi32_mask((__m512i)a, (__m512i)b) != 0;
#elif LANES == 8
	return !_mm256_testz_si256(_mm256_cmpgt_epi32((__m256i)a, (__m256i)b),
				   _mm256_set1_epi32(-1));
#else
	vi more = a > b;

	return (more[0] | more[1] | more[2] | more[3]) != 0;
#endif
}

/* Lists the columns of LANES from @from on that exceed @t. Returns the new number of outliers. */
static uint32_t list_outliers(struct vnpu_outliers *o, uint32_t count, const float *x,
			      const int8_t *q, size_t from, size_t n, float t, float s)
{
	size_t end = n - from < LANES ? n : from + LANES;

	for (; from < end; from++) {
		if (!(fabsf(x[from]) > t))
			continue;
		if (count < VNPU_OUTLIERS) {
			o->value[count] = fmaf(-(float)q[from], s, x[from]);
			o->column[count] = (float)from;
		}
		count++;
	}
	return count;
}

/* @quick: s is in the range of divide_v(), and @inverse is 1 / s. */
INLINE vb quant_held_v(vf v, float t, float s, const bool quick, float inverse)
{
	v = greater(splat(-t), lesser(splat(t), v));
#if LANES >= 8
	if (quick)
		return quant_v(divide_v(v, splat(s), splat(inverse)));
#endif
	return s > 0 ? quant_v(v / s) : (vb){ 0 };
}

INLINE uint32_t quant_held_by(int8_t *q, struct vnpu_outliers *o, const float *x, size_t n, float t,
			      float s, const bool quick)
{
	uint32_t count = 0, hits = 0, hit[VNPU_OUTLIERS + 1];
	vi bound = (vi)splat(t);
	size_t i, padded = (n + 3) / 4 * 4;
	float inverse = 1.0f / s;
	vf v;
	vb b;

	/* Vectors with outliers are processed later, so that this loop keeps its registers. */
	for (i = 0; i + LANES <= n; i += LANES) {
		v = load(x + i);
		b = quant_held_v(v, t, s, quick, inverse);
		memcpy(q + i, &b, sizeof(b));
		if (!any_greater((vi)v & 0x7fffffff, bound))
			continue;
		if (hits == VNPU_OUTLIERS)
			return VNPU_OUTLIERS + 1;
		hit[hits++] = (uint32_t)i;
	}
	if (i < n) {
		b = quant_held_v(load_part(x + i, n - i), t, s, quick, inverse);
		memcpy(q + i, &b, padded - i);
		hit[hits++] = (uint32_t)i;
	}
	for (i = 0; i < hits; i++)
		count = list_outliers(o, count, x, q, hit[i], n, t, s);
	return count;
}

/*
 * Computes q and the outliers for bound @t and scale @s. Returns the number of outliers, or more
 * than VNPU_OUTLIERS if there are too many.
 */
static uint32_t quant_held(int8_t *q, struct vnpu_outliers *o, const float *x, size_t n, float t,
			   float s)
{
#if LANES >= 8
	/* Two loops, because GCC 12 would test for the kind of division for each vector. */
	if (s >= DIVIDE_MIN && s <= DIVIDE_MAX)
		return quant_held_by(q, o, x, n, t, s, true);
#endif
	return quant_held_by(q, o, x, n, t, s, false);
}

static void kernel_quant_outliers(int8_t *q, float *scale, struct vnpu_outliers *outliers,
				  const float *x, size_t n)
{
	int32_t bits[OUTLIER_LANES], top[OUTLIER_RANK + 1];
	struct vnpu_outliers o;
	int rank = OUTLIER_RANK;
	uint32_t count = 0;
	float t, s = NAN;

	lane_bits(bits, x, n);
	order_bits(top, bits);
	if (top[0] < 0x7f800000) {
		do {
			memcpy(&t, &top[rank], sizeof(t));
			s = t / 127.0f;
			count = quant_held(q, &o, x, n, t, s);
		} while (count > VNPU_OUTLIERS && rank--);
		/* The row changed while it was read. */
		count = count > VNPU_OUTLIERS ? 0 : count;
	} else {
		memset(q, 0, (n + 3) / 4 * 4);
	}
	*scale = s;
	for (; count < VNPU_OUTLIERS; count++) {
		o.value[count] = 0;
		o.column[count] = -1;
	}
	memcpy(outliers, &o, sizeof(o));
}

/* ---- adding them to a matmul ----------------------------------------------------------------- */

/*
 * Rows are processed together, so that a panel is read once and in order: the entries of the rows'
 * lists are sorted by their place in the panel, with the rows' sums in memory. The entries of one
 * row keep their list's order, whatever the other rows are.
 */
#define OUTLIER_ROWS 128
#define OUTLIER_BUCKETS 4096
#define PANEL_VECS (VNPU_PANEL_N / LANES)
/* Entries whose weights are being prefetched. */
#define OUTLIER_AHEAD 8

struct outlier {
	uint32_t w,
		/* Offsets in a panel: the column's words (WK: by the width), and W4's scales or
		 * KQ's block. */
		scale;
	float value;
	uint16_t row;
	uint16_t bit; /* shift of the weight in its word; KQ: k in the block, WK: in 8 k */
};

/* Which panels the weights are in. */
enum outlier_panels { OUTLIER_I8, OUTLIER_W4, OUTLIER_KQ, OUTLIER_WK };

struct outlier_work {
	float sum[OUTLIER_ROWS][VNPU_PANEL_N];
	struct outlier found[OUTLIER_ROWS * VNPU_OUTLIERS + OUTLIER_AHEAD],
		sorted[OUTLIER_ROWS * VNPU_OUTLIERS + OUTLIER_AHEAD];
	uint16_t bucket[OUTLIER_ROWS * VNPU_OUTLIERS];
	uint16_t start[OUTLIER_BUCKETS + 1];
};
_Static_assert(sizeof(struct outlier_work) <= FW_SCRATCH_BYTES, "outliers fit the scratch");

static enum outlier_panels outlier_panels(const struct fw_add_outliers *t)
{
	if (t->wk)
		return OUTLIER_WK;
	return t->group >= VNPU_OUTLIERS_KQ ? OUTLIER_KQ : t->group ? OUTLIER_W4 : OUTLIER_I8;
}

/* Sets the places of column @k. */
static void find_column(struct outlier *o, const struct fw_add_outliers *t, uint32_t k)
{
	uint32_t group = t->group, in;
	struct vnpu_kq_form f;
	uint64_t block;

	switch (outlier_panels(t)) {
	case OUTLIER_I8:
		o->w = k / 4 * 256;
		o->scale = 0;
		o->bit = (uint16_t)(k % 4 * 8);
		break;
	case OUTLIER_W4:
		block = k / group * w4_group_bytes(group);
		in = k % group;
		o->w = (uint32_t)(block + in / 8 * 256);
		o->scale = (uint32_t)(block + group * 32);
		o->bit = (uint16_t)(in % 4 * 8 + in % 8 / 4 * 4);
		break;
	case OUTLIER_KQ:
		f = vnpu_kq_form(group - VNPU_OUTLIERS_KQ);
		block = k / f.block * vnpu_kq_block_bytes(f);
		in = k % f.block;
		o->w = (uint32_t)(block + vnpu_kq_scales_bytes(f) + in / 32 * 256 * f.bits);
		o->scale = (uint32_t)block;
		o->bit = (uint16_t)in;
		break;
	case OUTLIER_WK:
		o->w = k / 8 * 64;
		o->scale = 0;
		o->bit = k % 8;
		break;
	}
}

/*
 * Collects the entries of @rows lists; copies each list before it is checked, because columns
 * become addresses. Returns their number.
 */
static uint32_t find_outliers(struct outlier_work *work, const struct fw_add_outliers *t,
			      uint32_t first, uint32_t rows, uint32_t step)
{
	uint32_t n = 0, row, j, k;
	struct vnpu_outliers o;
	float before;

	for (row = 0; row < rows; row++) {
		memcpy(&o, &t->outliers[first + row], sizeof(o));
		for (j = 0, before = -1; j < VNPU_OUTLIERS; j++, n++) {
			/* Columns must be in 0..k - 1 and increase; a NaN fails this. */
			if (!(o.column[j] > before && o.column[j] >= 0 &&
			      o.column[j] < (float)t->k))
				break;
			before = o.column[j];
			k = (uint32_t)before;
			work->bucket[n] = (uint16_t)(k >> step);
			find_column(&work->found[n], t, k);
			work->found[n].value = o.value[j];
			work->found[n].row = (uint16_t)row;
		}
	}
	return n;
}

/* Stable sort by bucket. */
static void sort_outliers(struct outlier_work *work, uint32_t n)
{
	uint32_t i, sum = 0, here;

	memset(work->start, 0, sizeof(work->start));
	for (i = 0; i < n; i++)
		work->start[work->bucket[i]]++;
	for (i = 0; i <= OUTLIER_BUCKETS; i++) {
		here = work->start[i];
		work->start[i] = (uint16_t)sum;
		sum += here;
	}
	for (i = 0; i < n; i++)
		work->sorted[work->start[work->bucket[i]]++] = work->found[i];
}

/* sum += value times the column's weights, without scales for I8. */
INLINE void add_column(float *sum, const struct outlier *o, const uint8_t *panel, bool w4)
{
	vf weight;
	vu word;
	int v;

#pragma GCC unroll 16
	for (v = 0; v < PANEL_VECS; v++) {
		memcpy(&word, panel + o->w + v * LANES * 4, sizeof(word));
		if (w4) {
			weight = __builtin_convertvector((vi)(word >> o->bit & 15) - W4_ZERO, vf);
			weight *= load_f16((const uint16_t *)(panel + o->scale) + v * LANES);
		} else {
			weight = __builtin_convertvector((vi)(word << (24 - o->bit)) >> 24, vf);
		}
		store(sum + v * LANES, fma_v(splat(o->value), weight, load(sum + v * LANES)));
	}
}

/* The numbers of column @k of 32, less the zero, or their levels; of LANES channels, from @n on;
 * @numbers: the unit's. */
INLINE vi kq_column(const uint8_t *numbers, struct vnpu_kq_form f, uint32_t k, uint32_t n)
{
	uint32_t p, to = 0;
	vu word, u = { 0 };
	vi level;

	for (p = 4; p; p /= 2) {
		if (!(f.bits & p))
			continue;
		memcpy(&word, numbers + k * p / 32 * 256 + n * 4, sizeof(word));
		u |= (word >> (k % 4 * 8 + k % (32 / p) / 4 * p) & ((1u << p) - 1)) << to;
		numbers += p * 256;
		to += p;
	}
	if (!f.levels)
		return (vi)u - kq_zero(f);
	for (uint32_t i = 0; i < LANES; i++)
		level[i] = vnpu_kq_levels[f.levels][u[i]];
	return level;
}

/* Integer scales or minima of group @g, of LANES channels from @n on. */
INLINE vi kq_integers(const int8_t *table, uint32_t g, uint32_t n)
{
	typedef int16_t pairs __attribute__((vector_size(LANES * 2)));
	pairs x;

	memcpy(&x, table + (g / 2 * VNPU_PANEL_N + n) * 2, sizeof(x));
	return __builtin_convertvector(g % 2 ? x >> 8 : (pairs)(x << 8) >> 8, vi);
}

/* sum += value times the column's weights, of a block type. */
INLINE void add_kq_column(float *sum, const struct outlier *o, const uint8_t *panel,
			  struct vnpu_kq_form f)
{
	const struct kq_block b = kq_block(panel + o->scale, f);
	const uint32_t g = o->bit / f.group;
	vf weight, low;
	uint32_t n;
	vi u;

	for (n = 0; n < VNPU_PANEL_N; n += LANES) {
		u = kq_column(panel + o->w, f, o->bit % 32, n);
		if (b.scale)
			u *= kq_integers(b.scale, g, n);
		weight = __builtin_convertvector(u, vf) * load_f16((const uint16_t *)b.d + n);
		if (f.mins) {
			low = load_f16((const uint16_t *)b.dmin + n);
			if (b.min)
				low *= __builtin_convertvector(kq_integers(b.min, g, n), vf);
			weight -= low;
		}
		store(sum + n, fma_v(splat(o->value), weight, load(sum + n)));
	}
}

INLINE void lines_ahead(const uint8_t *at, const uint32_t lines)
{
	for (uint32_t i = 0; i < lines; i++)
		__builtin_prefetch(at + i * 64);
}

/* Asks for the weights of a column that add_columns() is to add. */
INLINE void column_ahead(const struct outlier *o, const uint8_t *panel,
			 const enum outlier_panels panels, const struct vnpu_kq_form f)
{
	const uint8_t *numbers = panel + o->w;
	struct kq_block b;
	uint32_t p, pair;

	if (panels != OUTLIER_KQ) {
		lines_ahead(numbers, 4);
		if (panels == OUTLIER_W4)
			lines_ahead(panel + o->scale, 2);
		return;
	}
	for (p = 4; p; p /= 2) {
		if (!(f.bits & p))
			continue;
		lines_ahead(numbers + o->bit % 32 * p / 32 * 256, 4);
		numbers += p * 256;
	}
	b = kq_block(panel + o->scale, f);
	pair = o->bit / f.group / 2 * VNPU_PANEL_N * 2;
	lines_ahead(b.d, 2);
	if (f.mins)
		lines_ahead(b.dmin, 2);
	if (b.scale)
		lines_ahead((const uint8_t *)b.scale + pair, 2);
	if (b.min)
		lines_ahead((const uint8_t *)b.min + pair, 2);
}

/* Asks for the columns of the entries from @next on, in @next_panel. */
INLINE void add_columns(struct outlier_work *work, const struct outlier *o, uint32_t n,
			const uint8_t *panel, const struct outlier *next, const uint8_t *next_panel,
			const enum outlier_panels panels, const struct vnpu_kq_form f)
{
	for (uint32_t i = 0; i < n; i++) {
		column_ahead(&next[i], next_panel, panels, f);
		if (panels == OUTLIER_KQ)
			add_kq_column(work->sum[o[i].row], &o[i], panel, f);
		else
			add_column(work->sum[o[i].row], &o[i], panel, panels == OUTLIER_W4);
	}
}

/*
 * The numbers of column @k of 8, of the LANES channels of vector @v of a panel; @w: the planes of
 * the 8 k. A column of a plane is in one byte of each channel's word, whose line and bits follow
 * from the channel: one load, shift and AND for each plane.
 */
INLINE vi wk_column(const uint8_t *w, const uint32_t bits, uint32_t k, const uint32_t v)
{
	const uint32_t line = v * LANES / 16, at = v * LANES % 16 * 4;
	uint32_t from = k % 4 * 8 + k / 4 * 4, p, to = 0;
	vu word, u = { 0 };

	if (bits == 8) {
		memcpy(&word, w + (k / 4 * 4 + line) * 64 + at, sizeof(word));
		return (vi)(word << (24 - k % 4 * 8)) >> 24;
	}
	for (p = 4; p; p /= 2) {
		if (!(bits & p))
			continue;
		memcpy(&word, w + line % p * 64 + at, sizeof(word));
		u |= (word >> (from + line / p * p) & ((1u << p) - 1)) << to;
		w += p * 64;
		to += p;
	}
	return (vi)(bits == 1 ? u << 1 : u) - wk_zero(bits);
}

/* As add_columns(), of a panel of @bits. */
INLINE void add_wk_columns(struct outlier_work *work, const struct outlier *o, uint32_t n,
			   const uint8_t *panel, const uint32_t bits)
{
	const uint32_t lines = bits == 8 ? 4 : bits;
	const uint8_t *w;
	uint32_t i, v;
	float *sum;
	vf weight;

	for (i = 0; i < n; i++) {
		w = panel + (size_t)o[i + OUTLIER_AHEAD].w * bits;
		if (bits == 8)
			w += o[i + OUTLIER_AHEAD].bit / 4 * 256;
		lines_ahead(w, lines);
		w = panel + (size_t)o[i].w * bits;
		sum = work->sum[o[i].row];
#pragma GCC unroll 4
		for (v = 0; v < PANEL_VECS; v++) {
			weight = __builtin_convertvector(wk_column(w, bits, o[i].bit, v), vf);
			store(sum + v * LANES,
			      fma_v(splat(o[i].value), weight, load(sum + v * LANES)));
		}
	}
}

#define WK_COLUMNS(bits)                                \
	case bits:                                      \
		add_wk_columns(work, o, n, p->w, bits); \
		break;

static void add_wk_panel(struct outlier_work *work, const struct outlier *o, uint32_t n,
			 const struct fw_wk_panel *p)
{
	switch (p->bits) {
		WK_COLUMNS(1)
		WK_COLUMNS(2)
		WK_COLUMNS(3)
		WK_COLUMNS(4)
		WK_COLUMNS(5)
		WK_COLUMNS(6)
		WK_COLUMNS(7)
		WK_COLUMNS(8)
	}
}

static size_t outlier_panel_bytes(const struct fw_add_outliers *t)
{
	switch (outlier_panels(t)) {
	case OUTLIER_KQ:
		return vnpu_kq_panel_bytes(t->group - VNPU_OUTLIERS_KQ, t->k);
	case OUTLIER_W4:
		return VNPU_PANEL_W4_BYTES(t->k, t->group);
	default:
		return VNPU_PANEL_I8_BYTES(t->k);
	}
}

/* Adds what @n entries of @rows rows contribute with panel @i to the sums. Returns the scales that
 * the sums want, or NULL if the weights have theirs already. */
static const float *sum_panel(struct outlier_work *work, const struct outlier *list, uint32_t n,
			      uint32_t rows, const struct fw_add_outliers *t, uint32_t i)
{
	const enum outlier_panels panels = outlier_panels(t);
	const size_t bytes = outlier_panel_bytes(t);
	struct vnpu_kq_form f = { 0 };
	const struct outlier *next;
	const uint8_t *panel, *next_panel;

	if (panels == OUTLIER_WK) {
		add_wk_panel(work, list, n, &t->wk[i]);
		return (const float *)(wk_sums(&t->wk[i], t->k) + 256);
	}
	panel = t->w + i * bytes;
	/* A row's few columns are so far apart that all of them come from memory. */
	next = rows > 1 ? list + OUTLIER_AHEAD : list;
	next_panel = rows > 1 ? panel : panel + bytes;
	if (panels == OUTLIER_KQ) {
		f = vnpu_kq_form(t->group - VNPU_OUTLIERS_KQ);
		add_columns(work, list, n, panel, next, next_panel, OUTLIER_KQ, f);
		return NULL;
	}
	if (panels == OUTLIER_W4) {
		add_columns(work, list, n, panel, next, next_panel, OUTLIER_W4, f);
		return NULL;
	}
	add_columns(work, list, n, panel, next, next_panel, OUTLIER_I8, f);
	return (const float *)(panel + bytes - VNPU_PANEL_N * sizeof(float));
}

/* Adds the sums to @cols channels of a row. */
static void add_sums(const float *sum, const float *scale, const float *x, float *y, size_t cols)
{
	size_t at, n;
	vf from;

	for (at = 0; at < cols; at += LANES) {
		n = cols - at < LANES ? cols - at : LANES;
		from = n < LANES ? load_part(x + at, n) : load(x + at);
		from = scale ? fma_v(load(sum + at), load(scale + at), from)
			     : from + load(sum + at);
		if (n < LANES)
			store_part(y + at, from, n);
		else
			store(y + at, from);
	}
}

static void kernel_add_outliers(const struct fw_add_outliers *t, void *scratch)
{
	uint32_t step = 2, first, rows, n0, cols, n, m;
	struct outlier_work *work = scratch;
	const struct outlier *list;
	const float *scale;

	while (t->k >> step >= OUTLIER_BUCKETS)
		step++;
	for (first = 0; first < t->m; first += rows) {
		rows = t->m - first < OUTLIER_ROWS ? t->m - first : OUTLIER_ROWS;
		n = find_outliers(work, t, first, rows, step);
		if (rows > 1)
			sort_outliers(work, n);
		list = rows > 1 ? work->sorted : work->found;
		memset((void *)(list + n), 0, OUTLIER_AHEAD * sizeof(*list));
		for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
			cols = t->n - n0 < VNPU_PANEL_N ? t->n - n0 : VNPU_PANEL_N;
			memset(work->sum, 0, rows * sizeof(work->sum[0]));
			scale = sum_panel(work, list, n, rows, t, n0 / VNPU_PANEL_N);
			for (m = 0; m < rows; m++)
				add_sums(work->sum[m], scale, t->x + (first + m) * t->ldx + n0,
					 t->y + (first + m) * t->ldy + n0, cols);
		}
	}
}
