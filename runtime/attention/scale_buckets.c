// SPDX-License-Identifier: MIT
#include "scale_buckets.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "llm_fail.h"

static unsigned int side_of(unsigned int n)
{
	for (unsigned int side = 1; side <= SCALE_BUCKETS_MAX_SIDE; side += 2)
		if (n == side * side)
			return side;
	return 0;
}

static bool make_scales(float *scales, unsigned int side, double mean, double sigma)
{
	for (unsigned int i = 0; i < side; i++) {
		scales[i] = (float)(mean * pow(sigma, (double)(side / 2) - i));
		if (!isnormal(scales[i]) || scales[i] < 0)
			return false;
	}
	return true;
}

int scale_buckets_init(struct scale_buckets *b, unsigned int n, double mean_q, double mean_k,
		       double sigma)
{
	*b = (struct scale_buckets){ .side = side_of(n) };
	if (!b->side)
		return llm_fail(-EINVAL,
				"%u scale buckets: choose the square of an odd number, "
				"1, 9, 25, ..., up to %d",
				n, SCALE_BUCKETS_MAX_SIDE * SCALE_BUCKETS_MAX_SIDE);
	if (!(sigma > 0 && sigma < 1))
		return llm_fail(-EINVAL, "a step of scales is between 0 and 1, not %g", sigma);
	if (!make_scales(b->q, b->side, mean_q, sigma) ||
	    !make_scales(b->k, b->side, mean_k, sigma))
		return llm_fail(-EINVAL, "mean scales %g and %g with steps of %g are no floats",
				mean_q, mean_k, sigma);
	return 0;
}

unsigned int scale_buckets_count(const struct scale_buckets *b)
{
	return b->side * b->side;
}

static unsigned int nearest(const float *scales, unsigned int side, float scale)
{
	unsigned int best = 0;

	for (unsigned int i = 1; i < side; i++)
		if (fabs((double)scale - scales[i]) < fabs((double)scale - scales[best]))
			best = i;
	return best;
}

unsigned int scale_buckets_nearest_q(const struct scale_buckets *b, float scale)
{
	return nearest(b->q, b->side, scale);
}

unsigned int scale_buckets_nearest_k(const struct scale_buckets *b, float scale)
{
	return nearest(b->k, b->side, scale);
}

unsigned int scale_buckets_index(const struct scale_buckets *b, unsigned int q, unsigned int k)
{
	return q * b->side + k;
}

float scale_buckets_q(const struct scale_buckets *b, unsigned int bucket)
{
	return b->q[bucket / b->side];
}

float scale_buckets_k(const struct scale_buckets *b, unsigned int bucket)
{
	return b->k[bucket % b->side];
}

unsigned int scale_buckets_pick(const struct scale_buckets *b, float q, float k)
{
	return scale_buckets_index(b, scale_buckets_nearest_q(b, q), scale_buckets_nearest_k(b, k));
}

void scale_buckets_name(const struct scale_buckets *b, unsigned int bucket,
			char name[SCALE_BUCKETS_NAME_BYTES])
{
	int middle = (int)b->side / 2;
	int steps[2] = { (int)(bucket / b->side) - middle, (int)(bucket % b->side) - middle };
	size_t n = 0;

	/* %+d would write 0 with a sign. */
	for (int i = 0; i < 2; i++)
		n += (size_t)snprintf(name + n, SCALE_BUCKETS_NAME_BYTES - n,
				      steps[i] ? "%c%+d" : "%c%d", "qk"[i], steps[i]);
}

float scale_buckets_scale(const float *x, size_t rows, size_t n, size_t stride)
{
	float max = 0;

	for (size_t r = 0; r < rows; r++, x += stride)
		for (size_t i = 0; i < n; i++) {
			float v = fabsf(x[i]);

			if (!(v <= max))
				max = v;
			if (isnan(max))
				return max;
		}
	return max / 127;
}

int scale_mean_add(struct scale_mean *m, float scale)
{
	if (!(scale >= 0) || !isfinite(scale))
		return -EINVAL;
	m->sum += scale;
	m->n++;
	return 0;
}

double scale_mean(const struct scale_mean *m)
{
	return m->n ? m->sum / (double)m->n : 0;
}
