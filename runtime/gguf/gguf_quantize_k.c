// SPDX-License-Identifier: MIT
/*
 * Narrowing to K-quants and IQ4_NL, whose scales are searched: see gguf_quantize.h.
 *
 * A group of 16 or 32 values x is approximated by s q - m, in types without minima by s q. For some
 * ranges around the group's own, numbers q are those of equal steps, and s and m those of the least
 * weighted squares for them; the best of all is taken. Then the block's d and dmin make whole
 * numbers of the scales and minima, and for each group the neighbours of its two numbers are tried,
 * with the q that are nearest under them.
 *
 * Nearly all time goes into sums over a group. They take four values at a time, which are a vector
 * of both SSE2 and NEON, and so have the same bits everywhere.
 */
#include <math.h>
#include <string.h>

#include "gguf_blocks.h"
#include "gguf_levels.h"
#include "gguf_quantize.h"

#define BLOCK 256
#define MAX_GROUPS 16
#define MAX_GROUP 32
/* Ranges tried on either side, in steps of so many levels. */
#define TRIES 9
#define TRY_STEP 0.1f

struct group {
	const float *x, *w;
	int n; /* a multiple of 4 */
};

typedef float four __attribute__((vector_size(16)));
typedef int32_t four_ints __attribute__((vector_size(16)));

static four load(const float *x)
{
	four v;

	memcpy(&v, x, sizeof(v));
	return v;
}

static four splat(float x)
{
	return (four){ x, x, x, x };
}

/* mask ? x : y */
static four pick(four_ints mask, four x, four y)
{
	return (four)((mask & (four_ints)x) | (~mask & (four_ints)y));
}

static float total(four v)
{
	return (v[0] + v[2]) + (v[1] + v[3]);
}

static float f16_value(uint16_t h)
{
	float f;

	gguf_dequantize(GGUF_F16, &h, &f, 1);
	return f;
}

/* Rounds a block's scale to F16. False: it is too great. */
static bool round_scale(float *d, uint16_t *half)
{
	if (!gguf_quantize(GGUF_F16, d, half, 1))
		return false;
	*d = f16_value(*half);
	return true;
}

static float nearest(float x, float lowest, float highest)
{
	x = rintf(x);
	return x < lowest ? lowest : x > highest ? highest : x;
}

/* nearest() of each. The limits are integers of a few bits. A float beside 1.5 * 2^23 has no
 * fraction, so the addition rounds to an integer, ties to even. */
static four nearest_four(four x, float lowest, float highest)
{
	const four units = splat(0x1.8p23f);

	x = pick(x < lowest, splat(lowest), x);
	x = pick(x > highest, splat(highest), x);
	return (x + units) - units;
}

/* The weighted squared error of s q + offset with the nearest q from @lowest to @highest. */
static float group_error(const struct group *g, float s, float offset, float lowest, float highest)
{
	float inverse = s != 0 ? 1 / s : 0;
	four error = splat(0);

	for (int i = 0; i < g->n; i += 4) {
		four x = load(g->x + i);
		four q = nearest_four((x - offset) * inverse, lowest, highest);
		four e = s * q + offset - x;

		error += load(g->w + i) * e * e;
	}
	return total(error);
}

/* ---- groups with minima ---- */

/* The least squares of s q - m for the q that (x - low) * inverse rounds to; m is not negative. */
static void fit_line(const struct group *g, float low, float inverse, float most, float *s,
		     float *m)
{
	four w4 = splat(0), wx4 = w4, wq4 = w4, wqq4 = w4, wxq4 = w4;
	float sw, swx, swq, swqq, swxq, determinant;

	for (int i = 0; i < g->n; i += 4) {
		four x = load(g->x + i), w = load(g->w + i);
		four q = nearest_four((x - low) * inverse, 0, most);

		w4 += w;
		wx4 += w * x;
		wq4 += w * q;
		wqq4 += w * q * q;
		wxq4 += w * q * x;
	}
	sw = total(w4);
	swx = total(wx4);
	swq = total(wq4);
	swqq = total(wqq4);
	swxq = total(wxq4);
	determinant = sw * swqq - swq * swq;
	*s = *m = 0;
	if (determinant > 0) {
		*s = (sw * swxq - swx * swq) / determinant;
		*m = -(swqq * swx - swq * swxq) / determinant;
	}
	if (*m < 0 || determinant <= 0) {
		*m = 0;
		*s = swqq > 0 ? swxq / swqq : 0;
	}
	if (*s < 0)
		*s = 0;
}

static void search_range(const struct group *g, float most, float *best_s, float *best_m)
{
	float low = 0, high = g->x[0], best = INFINITY;

	for (int i = 0; i < g->n; i++) {
		low = g->x[i] < low ? g->x[i] : low;
		high = g->x[i] > high ? g->x[i] : high;
	}
	*best_s = 0;
	*best_m = -low;
	if (high <= low)
		return;
	for (int try = -TRIES; try <= TRIES; try++) {
		float s, m, error;

		fit_line(g, low, (most + TRY_STEP * (float)try) / (high - low), most, &s, &m);
		error = group_error(g, s, -m, 0, most);
		if (error < best) {
			best = error;
			*best_s = s;
			*best_m = m;
		}
	}
}

/* ---- groups without minima ---- */

static void search_signed(const struct group *g, float half, float *best_s)
{
	float top = 0, best = INFINITY;

	for (int i = 0; i < g->n; i++)
		top = fabsf(g->x[i]) > fabsf(top) ? g->x[i] : top;
	*best_s = 0;
	for (int try = -TRIES; try <= TRIES && top != 0; try++) {
		float inverse = -(half + TRY_STEP * (float)try) / top, error, s;
		four wqq = splat(0), wxq = wqq;

		for (int i = 0; i < g->n; i += 4) {
			four x = load(g->x + i), w = load(g->w + i);
			four q = nearest_four(x * inverse, -half, half - 1);

			wqq += w * q * q;
			wxq += w * q * x;
		}
		s = total(wqq) > 0 ? total(wxq) / total(wqq) : 0;
		error = group_error(g, s, 0, -half, half - 1);
		if (error < best) {
			best = error;
			*best_s = s;
		}
	}
}

/* ---- blocks ---- */

/* The numbers of a type. */
struct levels {
	int group; /* values */
	float zero, most; /* of q; zero: what is subtracted from it */
	float low_scale, high_scale; /* the range of its whole scales; that of minima is the same */
	bool mins;
};

static struct levels levels_of(enum gguf_type type)
{
	struct gguf_form f = gguf_form(type);
	struct levels l = { .group = f.group, .most = (float)((1 << f.bits) - 1), .mins = f.mins };

	l.zero = f.mins ? 0 : (float)(1 << (f.bits - 1));
	l.high_scale = type == GGUF_Q2_K   ? 15
		       : type == GGUF_Q3_K ? 31
		       : type == GGUF_Q6_K ? 127
					   : 63;
	l.low_scale = f.mins ? 0 : -l.high_scale - 1;
	return l;
}

/* The group's whole scale and minimum of least error, near @s / @d and @m / @dmin. */
static void refine(const struct group *g, const struct levels *l, float d, float dmin, float s,
		   float m, int8_t *scale, int8_t *min)
{
	float at = d != 0 ? nearest(s / d, l->low_scale, l->high_scale) : 0;
	float at_min = dmin != 0 ? nearest(m / dmin, 0, l->high_scale) : 0, best = INFINITY;

	for (int i = -1; i <= 1; i++)
		for (int j = l->mins ? -1 : 0; j <= (l->mins ? 1 : 0); j++) {
			float a = nearest(at + (float)i, l->low_scale, l->high_scale);
			float b = nearest(at_min + (float)j, 0, l->high_scale);
			float error = group_error(g, d * a, -dmin * b, -l->zero, l->most - l->zero);

			if (error < best) {
				best = error;
				*scale = (int8_t)a;
				*min = (int8_t)b;
			}
		}
}

static void put_numbers(const struct group *g, const struct levels *l, float s, float m,
			uint8_t *numbers)
{
	float inverse = s != 0 ? 1 / s : 0;

	for (int i = 0; i < g->n; i++)
		numbers[i] =
			(uint8_t)(nearest((g->x[i] + m) * inverse, -l->zero, l->most - l->zero) +
				  l->zero);
}

/* What makes whole numbers of @n scales: the greatest magnitude becomes the end of their range. */
static float common(const float *scales, int n, float end)
{
	float top = 0;

	for (int i = 0; i < n; i++)
		top = fabsf(scales[i]) > fabsf(top) ? scales[i] : top;
	return top / end;
}

static bool quantize_block(enum gguf_type type, const float *x, const float *w, uint8_t *dst)
{
	const struct levels l = levels_of(type);
	int n = BLOCK / l.group;
	float s[MAX_GROUPS], m[MAX_GROUPS] = { 0 }, d, dmin;
	uint8_t numbers[BLOCK];
	int8_t scale[MAX_GROUPS] = { 0 }, min[MAX_GROUPS] = { 0 };
	uint16_t half, half_min;
	struct group g[MAX_GROUPS];

	for (int i = 0; i < n; i++) {
		g[i] = (struct group){ x + i * l.group, w + i * l.group, l.group };
		if (l.mins)
			search_range(&g[i], l.most, &s[i], &m[i]);
		else
			search_signed(&g[i], l.zero, &s[i]);
	}
	d = common(s, n, l.mins ? l.high_scale : l.low_scale);
	dmin = common(m, n, l.high_scale);
	if (!round_scale(&d, &half) || !round_scale(&dmin, &half_min))
		return false;
	for (int i = 0; i < n; i++) {
		refine(&g[i], &l, d, dmin, s[i], m[i], &scale[i], &min[i]);
		put_numbers(&g[i], &l, d * (float)scale[i], dmin * (float)min[i],
			    numbers + i * l.group);
	}
	gguf_join(type, &(struct gguf_parts){ numbers, &half, &half_min, scale, min }, dst);
	return true;
}

/* ---- IQ4_NL ---- */

/* The numbers of the levels nearest to @x. Levels rise, so that is how many of the middles between
 * two of them are below x. */
static four_ints nearest_levels(const int8_t *levels, four x)
{
	four_ints n = { 0 };

	/* A true comparison is -1. */
	for (int i = 1; i < 16; i++)
		n -= 2 * x > (float)(levels[i - 1] + levels[i]);
	return n;
}

/* The least squares of s level for the levels next to x * inverse, and their error. */
static float fit_levels(const struct group *g, const int8_t *levels, float inverse, float *s)
{
	four wqq = splat(0), wxq = wqq, error = wqq, q[32 / 4];

	for (int i = 0; i < g->n; i += 4) {
		four x = load(g->x + i), w = load(g->w + i);
		four_ints n = nearest_levels(levels, x * inverse);

		q[i / 4] = (four){ levels[n[0]], levels[n[1]], levels[n[2]], levels[n[3]] };
		wqq += w * q[i / 4] * q[i / 4];
		wxq += w * q[i / 4] * x;
	}
	*s = total(wqq) > 0 ? total(wxq) / total(wqq) : 0;
	for (int i = 0; i < g->n; i += 4) {
		four e = *s * q[i / 4] - load(g->x + i);

		error += load(g->w + i) * e * e;
	}
	return total(error);
}

static bool quantize_iq4_nl(const float *x, const float *w, uint8_t *dst)
{
	const int8_t *levels = gguf_levels_iq4;
	struct group g = { x, w, 32 };
	float top = 0, d = 0, best = INFINITY, inverse, s;
	uint16_t half;
	uint8_t q[32];

	for (int i = 0; i < 32; i++)
		top = fabsf(x[i]) > fabsf(top) ? x[i] : top;
	for (int try = -TRIES; try <= TRIES && top != 0; try++) {
		float error = fit_levels(&g, levels, ((float)levels[0] + (float)try) / top, &s);

		if (error < best) {
			best = error;
			d = s;
		}
	}
	if (!round_scale(&d, &half))
		return false;
	inverse = d != 0 ? 1 / d : 0;
	for (int i = 0; i < 32; i += 4) {
		four_ints n = nearest_levels(levels, load(x + i) * inverse);

		for (int j = 0; j < 4; j++)
			q[i + j] = (uint8_t)n[j];
	}
	memcpy(dst, &half, 2);
	for (int i = 0; i < 16; i++)
		dst[2 + i] = (uint8_t)(q[i] | q[i + 16] << 4);
	return true;
}

/* ---- weights ---- */

/* False: a value is not finite, or its square too great. */
static bool mean_square(const float *x, size_t n, float *mean)
{
	float squares = 0;

	for (size_t i = 0; i < n; i++)
		squares += x[i] * x[i];
	*mean = squares / (float)n;
	return isfinite(squares);
}

/* The weights of a group, of gguf_quantize.h. With weights of 0 alone any scale would be as good
 * as another, so all channels are alike there. */
static void weigh(const float *x, const float *importance, float mean, size_t n, float *w)
{
	float sum = 0;

	for (size_t i = 0; i < n; i++) {
		w[i] = (importance ? importance[i] : 1) * sqrtf(mean + x[i] * x[i]);
		sum += w[i];
	}
	if (importance && sum == 0)
		weigh(x, NULL, mean, n, w);
}

bool gguf_quantize_searched(enum gguf_type type, const float *src, const float *importance,
			    void *dst, size_t n)
{
	const struct gguf_type_traits *traits = gguf_type_traits(type);
	size_t block = traits->block_values;
	size_t group = type == GGUF_IQ4_NL ? block : (size_t)levels_of(type).group;
	uint8_t *to = dst;
	float w[BLOCK], mean;

	for (size_t i = 0; i < n; i += block, to += traits->block_bytes) {
		if (!mean_square(src + i, block, &mean))
			return false;
		for (size_t g = 0; g < block; g += group)
			weigh(src + i + g, importance ? importance + i + g : NULL, mean, group,
			      w + g);
		if (!(type == GGUF_IQ4_NL ? quantize_iq4_nl(src + i, w, to)
					  : quantize_block(type, src + i, w, to)))
			return false;
	}
	return true;
}
