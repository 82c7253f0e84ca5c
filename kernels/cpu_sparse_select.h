/* SPDX-License-Identifier: MIT */
/*
 * Selection of the greatest scores. Each file that includes this one, one per instruction set,
 * defines first INLINE and, for s16 and f32,
 *
 *	count_s16(x, n, least)	how many scores are at least @least
 *	emit_s16(found, x, begin, end, least)
 *				writes the positions of such scores from @begin to @end, and
 *				up to 15 numbers more; returns the end of the positions
 *
 * The threshold is the keep-th greatest score. It is searched between two keys, integers that are
 * ordered as the scores, of which the lower has at least @keep scores from it on and the upper has
 * fewer. A sample of the row narrows them; then each step counts the whole row from a key that is
 * interpolated between them, until exactly @keep scores are from the lower one on, or both are
 * neighbours. What is found does not depend on the steps: it is the scores above the threshold,
 * and the earliest of those that equal it.
 */
#include <math.h>
#include <string.h>

#include "cpu_sparse.h"

#define SAMPLE 128
/* Scores of a sample that stand side by side. */
#define SAMPLE_RUN 8
/* How far the ranks of the two keys are from the one wanted. */
#define SAMPLE_OFF 6
/* Halvings of a sample's range. */
#define SAMPLE_STEPS 8

/* Keys of s16 are the scores; keys of f32 are their bits, ordered. The first is above all keys. */
#define KEY_END_S16 32768
#define KEY_END_F32 0x7f800001

/* Two keys: from @lo on there are @from_lo scores, as many as wanted or more; from @hi on fewer. */
struct bracket {
	int64_t lo, hi;
	size_t from_lo, from_hi;
};

INLINE float float_of(int32_t key)
{
	int32_t bits = key < 0 ? key ^ 0x7fffffff : key;
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

INLINE size_t count_from(const void *x, size_t n, int64_t key, const bool f32)
{
	if (f32)
		return count_f32(x, n, float_of((int32_t)key));
	return key < KEY_END_S16 ? count_s16(x, n, (int16_t)key) : 0;
}

INLINE uint32_t *emit_from(uint32_t *found, const void *x, size_t begin, size_t end, int64_t key,
			   const bool f32)
{
	if (f32)
		return emit_f32(found, x, begin, end, float_of((int32_t)key));
	return key < KEY_END_S16 ? emit_s16(found, x, begin, end, (int16_t)key) : found;
}

/* Whether the search for the @keep-th score has ended. */
INLINE bool found_threshold(const struct bracket *b, size_t keep)
{
	return b->from_lo == keep || b->hi - b->lo == 1;
}

INLINE void probe(struct bracket *b, int64_t key, const void *x, size_t n, size_t keep,
		  const bool f32)
{
	size_t from = count_from(x, n, key, f32);

	if (from >= keep) {
		b->lo = key;
		b->from_lo = from;
	} else {
		b->hi = key;
		b->from_hi = from;
	}
}

/* A key between both where @keep scores are to be expected. */
INLINE int64_t interpolate(const struct bracket *b, size_t keep)
{
	float part = ((float)(b->from_lo - keep) + 0.5f) / ((float)(b->from_lo - b->from_hi) + 1);
	int64_t key = b->lo + (int64_t)((float)(b->hi - b->lo) * part);

	return key <= b->lo ? b->lo + 1 : key >= b->hi ? b->hi - 1 : key;
}

/* Narrows @b: interpolates, and halves where that did not, so steps are few whatever the scores. */
INLINE void search(struct bracket *b, const void *x, size_t n, size_t keep, const bool f32)
{
	bool slow = false;
	int64_t width;

	while (!found_threshold(b, keep)) {
		width = b->hi - b->lo;
		probe(b, slow ? b->lo + width / 2 : interpolate(b, keep), x, n, keep, f32);
		slow = !slow && (b->hi - b->lo) * 2 > width;
	}
}

INLINE int32_t key_of(const void *x, size_t i, const bool f32)
{
	int32_t bits;

	if (!f32)
		return ((const int16_t *)x)[i];
	memcpy(&bits, (const float *)x + i, sizeof(bits));
	return bits ^ (bits >> 31 & 0x7fffffff);
}

/* From the least to the greatest key of a sample; a NaN's is beyond the numbers'. */
INLINE struct bracket sample_bracket(const void *x, const bool f32)
{
	struct bracket b = { 0, 0, SAMPLE, 0 };
	int32_t lo[8], hi[8], key, l;

	for (l = 0; l < 8; l++)
		lo[l] = hi[l] = key_of(x, 0, f32);
	for (size_t i = 0; i < SAMPLE; i += 8)
		for (l = 0; l < 8; l++) {
			key = key_of(x, i + (size_t)l, f32);
			lo[l] = key < lo[l] ? key : lo[l];
			hi[l] = key > hi[l] ? key : hi[l];
		}
	b.lo = lo[0];
	b.hi = hi[0];
	for (l = 1; l < 8; l++) {
		b.lo = lo[l] < b.lo ? lo[l] : b.lo;
		b.hi = hi[l] > b.hi ? hi[l] : b.hi;
	}
	b.hi++;
	return b;
}

/*
 * Keys whose ranks in a sample are about @rank + SAMPLE_OFF and @rank - SAMPLE_OFF. Without
 * branches, which could not be predicted, and both at a time.
 */
INLINE void bisect_sample(int64_t keys[2], const void *sample, size_t rank, const bool f32)
{
	const size_t ranks[2] = { rank + SAMPLE_OFF, rank - SAMPLE_OFF };
	struct bracket all = sample_bracket(sample, f32);
	int64_t width = all.hi - all.lo, key;

	keys[0] = keys[1] = all.lo;
	for (int step = 0; step < SAMPLE_STEPS; step++) {
		width = (width + 1) / 2;
#pragma GCC unroll 2
		for (int i = 0; i < 2; i++) {
			key = keys[i] + width;
			key = key < all.hi ? key : all.hi - 1;
			keys[i] = count_from(sample, SAMPLE, key, f32) >= ranks[i] ? key : keys[i];
		}
	}
}

/* Two keys that a sample expects to enclose the threshold; false: the row is too short for one. */
INLINE bool sample_keys(int64_t keys[2], const void *x, size_t n, size_t keep, const bool f32)
{
	size_t bytes = (f32 ? sizeof(float) : sizeof(int16_t)) * SAMPLE_RUN;
	size_t gap = n / SAMPLE * bytes, rank = keep * SAMPLE / n;
	_Alignas(64) uint8_t sample[SAMPLE * sizeof(float)];

	if (n < 4 * SAMPLE || rank <= SAMPLE_OFF || rank + SAMPLE_OFF >= SAMPLE)
		return false;
	for (size_t run = 0; run < SAMPLE / SAMPLE_RUN; run++)
		memcpy(sample + run * bytes, (const uint8_t *)x + run * gap, bytes);
	bisect_sample(keys, sample, rank, f32);
	return true;
}

/* How many of @n scores from @i on equal @key. */
INLINE size_t count_equal(const void *x, size_t i, size_t n, int64_t key, const bool f32)
{
	x = (const uint8_t *)x + i * (f32 ? sizeof(float) : sizeof(int16_t));
	return count_from(x, n, key, f32) - count_from(x, n, key + 1, f32);
}

/* The end of the first @ties of the scores that equal @key. */
INLINE size_t end_of_ties(const void *x, size_t n, int64_t key, size_t ties, const bool f32)
{
	const int16_t *s16 = x;
	const float *s32 = x;
	size_t i = 0, equal;

	for (size_t half = n / 2; half >= 16; half /= 2) {
		equal = count_equal(x, i, half, key, f32);
		if (equal < ties) {
			ties -= equal;
			i += half;
		}
	}
	for (; i < n && ties; i++)
		ties -= f32 ? s32[i] == float_of((int32_t)key) : s16[i] == key;
	return i;
}

/* The positions of the @keep < @n greatest of @n scores, of which @numbers >= @keep are no NaNs. */
INLINE void select_top(uint32_t *found, const void *x, size_t n, size_t numbers, size_t keep,
		       const bool f32)
{
	struct bracket b = { f32 ? -KEY_END_F32 : -KEY_END_S16, f32 ? KEY_END_F32 : KEY_END_S16,
			     numbers, 0 };
	int64_t keys[2];
	size_t end = n;

	if (sample_keys(keys, x, n, keep, f32))
		for (int i = 0; i < 2; i++)
			if (!found_threshold(&b, keep) && keys[i] > b.lo && keys[i] < b.hi)
				probe(&b, keys[i], x, n, keep, f32);
	search(&b, x, n, keep, f32);
	if (b.from_lo > keep)
		end = end_of_ties(x, n, b.lo, keep - b.from_hi, f32);
	found = emit_from(found, x, 0, end, b.lo, f32);
	if (end < n)
		emit_from(found, x, end, n, b.hi, f32);
}

/* All numbers and the earliest NaNs. */
static void select_nans(uint32_t *found, const float *x, size_t n, size_t nans)
{
	for (size_t i = 0; i < n; i++) {
		if (isnan(x[i]) && !nans)
			continue;
		nans -= isnan(x[i]) != 0;
		*found++ = (uint32_t)i;
	}
}

/* Positions of all @n scores, if that many are wanted. */
INLINE bool select_all(uint32_t *found, size_t n, size_t keep)
{
	if (keep < n)
		return false;
	for (size_t i = 0; i < n; i++)
		found[i] = (uint32_t)i;
	return true;
}

/*
 * The last position is found anyway. So the others are the greatest keep - 1 before it: if it is
 * not among the greatest keep, it takes the place of the least of them.
 */
static size_t select_s16(uint32_t *found, const int16_t *x, size_t n, size_t keep)
{
	if (select_all(found, n, keep))
		return n;
	if (keep > 1)
		select_top(found, x, n - 1, n - 1, keep - 1, false);
	found[keep - 1] = (uint32_t)(n - 1);
	return keep;
}

static size_t select_f32(uint32_t *found, const float *x, size_t n, size_t keep)
{
	size_t numbers;

	if (select_all(found, n, keep))
		return n;
	numbers = count_f32(x, n - 1, -INFINITY);
	if (keep > 1 && numbers < keep - 1)
		select_nans(found, x, n - 1, keep - 1 - numbers);
	else if (keep > 1)
		select_top(found, x, n - 1, numbers, keep - 1, true);
	found[keep - 1] = (uint32_t)(n - 1);
	return keep;
}
