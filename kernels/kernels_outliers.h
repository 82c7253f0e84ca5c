/* SPDX-License-Identifier: MIT */
/*
 * Outliers: the few values of a row that would take the bits of all others. Part of
 * kernels_float.h, which includes it.
 *
 * One pass finds the greatest values of 64 lanes, and the ninth greatest of these bounds what
 * INT8 has to hold. Two outliers in one lane count once there, so that more values may exceed
 * the bound than the list has room for; the next greater one is tried then, up to the
 * greatest, which none exceeds.
 */
#include <stdbool.h>

#include "kernels_w4.h"

#define OUTLIER_LANES 64
/* Lanes whose greatest value exceeds the bound, at first. */
#define OUTLIER_RANK 8

/* The greatest |x| of each lane, as bits (greatest_bits()). */
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
	/* In memory: which register it would be is not known to the compiler. */
	for (v = 0; i < n; i += LANES, v += LANES) {
		bits = (vi)(i + LANES <= n ? load(x + i) : load_part(x + i, n - i)) & 0x7fffffff;
		memcpy(&before, max + v, sizeof(before));
		bits = greater_i(bits, before);
		memcpy(max + v, &bits, sizeof(bits));
	}
}

/* The greatest of @bits in falling order. */
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

/* Those of the LANES columns @from.. that exceed @t. Returns how many there are now. */
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

/* @quick: s is such that divide_v() may be used, and @inverse is 1 / s. */
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

	/* Vectors with outliers are looked at later, so that this loop keeps its registers. */
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
 * q and outliers by the bound @t and the scale @s. Returns how many of them
 * there are, or one too many.
 */
static uint32_t quant_held(int8_t *q, struct vnpu_outliers *o, const float *x, size_t n, float t,
			   float s)
{
#if LANES >= 8
	/* Two loops: in one, GCC 12 finds out anew for each vector which division it is. */
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
		/* A row that changes while it is read. */
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

/* ---- their products -------------------------------------------------------------------------- */

/*
 * Rows are taken together, so that a panel is read once, from its start to its end: what the rows'
 * lists name is put in order of its place in the panel, with the rows' sums in memory. Of one row
 * that order is its list's, whatever the rows beside it.
 */
#define OUTLIER_ROWS 128
#define OUTLIER_BUCKETS 4096
#define PANEL_VECS (VNPU_PANEL_N / LANES)
/* Entries whose weights are on their way. */
#define OUTLIER_AHEAD 8

struct outlier {
	uint32_t w, scale; /* in a panel: the column's words, and W4's scales */
	float value;
	uint16_t row;
	uint16_t bit; /* of the number in its word */
};

struct outlier_work {
	float sum[OUTLIER_ROWS][VNPU_PANEL_N];
	struct outlier found[OUTLIER_ROWS * VNPU_OUTLIERS + OUTLIER_AHEAD],
		sorted[OUTLIER_ROWS * VNPU_OUTLIERS + OUTLIER_AHEAD];
	uint16_t bucket[OUTLIER_ROWS * VNPU_OUTLIERS];
	uint16_t start[OUTLIER_BUCKETS + 1];
};
_Static_assert(sizeof(struct outlier_work) <= FW_SCRATCH_BYTES, "outliers fit the scratch");

/*
 * Of @rows lists; each is copied before it is looked at, since columns become addresses.
 * Returns how many there are.
 */
static uint32_t find_outliers(struct outlier_work *work, const struct fw_add_outliers *t,
			      uint32_t first, uint32_t rows, uint32_t step)
{
	uint32_t group = t->group, shift = group ? (uint32_t)__builtin_ctz(group) : 0, n = 0, row,
		 j, k, in;
	struct vnpu_outliers o;
	float before;

	for (row = 0; row < rows; row++) {
		memcpy(&o, &t->outliers[first + row], sizeof(o));
		for (j = 0, before = -1; j < VNPU_OUTLIERS; j++, n++) {
			/* As numbers of 0 to k - 1 that grow; a NaN is none. */
			if (!(o.column[j] > before && o.column[j] >= 0 &&
			      o.column[j] < (float)t->k))
				break;
			before = o.column[j];
			k = (uint32_t)before;
			in = k & (group - 1);
			work->bucket[n] = (uint16_t)(k >> step);
			work->found[n] = (struct outlier){
				.w = group ? (uint32_t)((k >> shift) * w4_group_bytes(group) +
							in / 8 * 256)
					   : k / 4 * 256,
				.scale = group ? (uint32_t)((k >> shift) * w4_group_bytes(group) +
							    group * 32)
					       : 0,
				.value = o.value[j],
				.row = (uint16_t)row,
				.bit = (uint16_t)(group ? in % 4 * 8 + in % 8 / 4 * 4 : k % 4 * 8),
			};
		}
	}
	return n;
}

/* By bucket; in a bucket they keep their order. */
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

/* sum += value times the column, of I8 without its scales. */
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

INLINE void add_columns(struct outlier_work *work, const struct outlier *o, uint32_t n,
			const uint8_t *panel, bool w4)
{
	uint32_t i, line;

	for (i = 0; i < n; i++) {
		for (line = 0; line < 4; line++)
			__builtin_prefetch(panel + o[i + OUTLIER_AHEAD].w + line * 64);
		add_column(work->sum[o[i].row], &o[i], panel, w4);
	}
}

/* The sums to @cols channels of a row. */
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
	size_t panel_bytes =
		t->group ? VNPU_PANEL_W4_BYTES(t->k, t->group) : VNPU_PANEL_I8_BYTES(t->k);
	uint32_t step = 2, first, rows, n0, cols, n, m;
	struct outlier_work *work = scratch;
	const struct outlier *list;
	const uint8_t *panel;
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
		for (n0 = 0, panel = t->w; n0 < t->n; n0 += VNPU_PANEL_N, panel += panel_bytes) {
			cols = t->n - n0 < VNPU_PANEL_N ? t->n - n0 : VNPU_PANEL_N;
			scale = t->group ? NULL
					 : (const float *)(panel + panel_bytes -
							   VNPU_PANEL_N * sizeof(float));
			memset(work->sum, 0, rows * sizeof(work->sum[0]));
			if (t->group)
				add_columns(work, list, n, panel, true);
			else
				add_columns(work, list, n, panel, false);
			for (m = 0; m < rows; m++)
				add_sums(work->sum[m], scale, t->x + (first + m) * t->ldx + n0,
					 t->y + (first + m) * t->ldy + n0, cols);
		}
	}
}
