/* SPDX-License-Identifier: MIT */
/*
 * Rotary position embedding. Part of kernels_float.h, which includes it.
 *
 * Angles, their sines and their cosines are double; the rotation is float.
 */

#define DOUBLES (LANES / 2)
typedef double vd __attribute__((vector_size(4 * LANES)));
typedef int64_t vl __attribute__((vector_size(4 * LANES)));
typedef float vh __attribute__((vector_size(2 * LANES)));

/* Larger angles are left to libm: reducing them by two parts of pi / 2 would be too inexact. */
#define SINCOS_MAX 1e9

/*
 * x = q pi/2 + r with |r| <= pi/4, then Taylor's polynomials in double. Their error, at most 2^-37,
 * and that of the reduction vanish in the rounding to float.
 */
INLINE void sincos_v(vd x, float *s, float *c)
{
	/* Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits. */
	vd t = x * 0.63661977236758134308 + 6755399441055744.0, q = t - 6755399441055744.0, r, r2,
	   sin_r, cos_r;
	vl odd = -((vl)t & 1), n = (vl)t;
	vh y;

	/* pi/2 as 33 bits and the rest: q times the first part is exact. */
	r = (x - q * 1.57079632673412561417e+00) - q * 6.07710050650619224932e-11;
	r2 = r * r;
	sin_r = r + r * r2 *
			    (-1.0 / 6 +
			     r2 * (1.0 / 120 + r2 * (-1.0 / 5040 +
						     r2 * (1.0 / 362880 - r2 * (1.0 / 39916800)))));
	cos_r = 1 - r2 * 0.5 +
		r2 * r2 *
			(1.0 / 24 +
			 r2 * (-1.0 / 720 + r2 * (1.0 / 40320 +
						  r2 * (-1.0 / 3628800 + r2 * (1.0 / 479001600)))));
	/* A quarter turn swaps sine and cosine; a half turn inverts the sign. */
	y = __builtin_convertvector((vd)((((vl)sin_r & ~odd) | ((vl)cos_r & odd)) ^ (n & 2) << 62),
				    vh);
	memcpy(s, &y, sizeof(y));
	y = __builtin_convertvector(
		(vd)((((vl)cos_r & ~odd) | ((vl)sin_r & odd)) ^ ((n + 1) & 2) << 62), vh);
	memcpy(c, &y, sizeof(y));
}

/* Sines and cosines of pos freq[0..half - 1]; writes up to DOUBLES - 1 more of each. */
static void rope_angles(float *s, float *c, const float *freq, uint64_t pos, uint32_t half)
{
	uint32_t i, n;
	double x;
	vl wild = { 0 };
	vd angle;
	vh f;

	for (i = 0; i < half; i += DOUBLES) {
		n = half - i < DOUBLES ? half - i : DOUBLES;
		memset(&f, 0, sizeof(f));
		memcpy(&f, freq + i, n * sizeof(float));
		angle = __builtin_convertvector(f, vd) * (double)pos;
		wild |= ~((angle < SINCOS_MAX) & (angle > -SINCOS_MAX));
		sincos_v(angle, s + i, c + i);
	}
	for (i = 0, n = 0; i < DOUBLES; i++)
		n |= wild[i] != 0;
	for (i = 0; n && i < half; i++) {
		x = (double)pos * freq[i];
		if (!(fabs(x) < SINCOS_MAX)) {
			s[i] = (float)sin(x);
			c[i] = (float)cos(x);
		}
	}
}

/* Pairs in the two halves of a head: y = x rotated by the angles of @s and @c. */
INLINE void rope_halves(float *y, const float *x, const float *s, const float *c, uint32_t half)
{
	uint32_t i;
	vf a, b;

	for (i = 0; i + LANES <= half; i += LANES) {
		a = load(x + i);
		b = load(x + half + i);
		store(y + i, a * load(c + i) - b * load(s + i));
		store(y + half + i, a * load(s + i) + b * load(c + i));
	}
	if (i < half) {
		a = load_part(x + i, half - i);
		b = load_part(x + half + i, half - i);
		store_part(y + i, a * load(c + i) - b * load(s + i), half - i);
		store_part(y + half + i, a * load(s + i) + b * load(c + i), half - i);
	}
}

/* Adjacent pairs: @c has each cosine twice, @s each sine as -s, s. */
INLINE void rope_adjacent(float *y, const float *x, const float *s, const float *c,
			  uint32_t rot_dim)
{
	const vi iota = IOTA, other = iota ^ 1;
	uint32_t i;
	vf a;

	for (i = 0; i + LANES <= rot_dim; i += LANES) {
		a = load(x + i);
		store(y + i, a * load(c + i) + __builtin_shuffle(a, other) * load(s + i));
	}
	if (i < rot_dim) {
		a = load_part(x + i, rot_dim - i);
		store_part(y + i, a * load(c + i) + __builtin_shuffle(a, other) * load(s + i),
			   rot_dim - i);
	}
}

static void kernel_rope(float *y, const float *x, const float *inv_freq, uint64_t pos,
			uint32_t heads, uint32_t head_dim, uint32_t rot_dim, uint32_t mode,
			void *scratch)
{
	/* Each with room for one more vector. */
	float *s = scratch, *c = s + VNPU_MAX_HEAD_DIM + 16, *twice_s = c + VNPU_MAX_HEAD_DIM + 16;
	float *twice_c = twice_s + VNPU_MAX_HEAD_DIM + 16;
	uint32_t half = rot_dim / 2, h, i;

	rope_angles(s, c, inv_freq, pos, half);
	for (i = 0; mode == VNPU_ROPE_ADJACENT && i < half; i++) {
		twice_c[2 * i] = twice_c[2 * i + 1] = c[i];
		twice_s[2 * i] = -s[i];
		twice_s[2 * i + 1] = s[i];
	}
	for (h = 0; h < heads; h++, x += head_dim, y += head_dim) {
		if (mode == VNPU_ROPE_ADJACENT)
			rope_adjacent(y, x, twice_s, twice_c, rot_dim);
		else
			rope_halves(y, x, s, c, half);
		if (y != x)
			memmove(y + rot_dim, x + rot_dim, (head_dim - rot_dim) * sizeof(float));
	}
}
