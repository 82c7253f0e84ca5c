/* SPDX-License-Identifier: MIT */
/*
 * The constant scales of the estimate's graphs (shadowAttn 3.3).
 *
 * A graph Q K^T of INT8 values has one scale for Q and one for K as constants, but the scales of
 * heads differ. So there are graphs for some pairs of scales, the scale buckets: a grid around the
 * means of a calibration text,
 *
 *	mean_q sigma^i, mean_k sigma^j		i, j = -g .. g
 *
 * which is (2g+1)^2 buckets. The paper's sigma is 0.5; g = 1 gives its 9 buckets, g = 0 the single
 * graph that it compares them with. A head takes the bucket with the least squared error of the
 * pair.
 *
 * As the error is a sum of one term of Q's scale and one of K's, and the grid has all pairs, each
 * of the two scales takes its nearest for itself. So keys that are cached with their nearest scale
 * serve queries of any scale. Keys whose scores are compared must have one scale, though: all keys
 * of a head that one query sees.
 *
 * The scale of values is that of symmetric INT8: the largest magnitude by 127. Values beyond 127 of
 * the bucket's scale are clamped.
 */
#ifndef SCALE_BUCKETS_H
#define SCALE_BUCKETS_H

#include <stddef.h>
#include <stdint.h>

#define SCALE_BUCKETS_DEFAULT 9
#define SCALE_BUCKETS_SIGMA 0.5
#define SCALE_BUCKETS_MAX_SIDE 9

struct scale_buckets {
	unsigned int side; /* scales of Q, and of K: 2g + 1 */
	float q[SCALE_BUCKETS_MAX_SIDE], k[SCALE_BUCKETS_MAX_SIDE]; /* [side], ascending */
};

/*
 * Makes @n buckets, the square of an odd number up to SCALE_BUCKETS_MAX_SIDE, around these means.
 * 0, or -EINVAL with the error line: another @n, @sigma not between 0 and 1, or scales that are no
 * normal floats.
 */
int scale_buckets_init(struct scale_buckets *b, unsigned int n, double mean_q, double mean_k,
		       double sigma);
unsigned int scale_buckets_count(const struct scale_buckets *b);

/* The index into b->q, b->k of the scale nearest to a finite @scale; the smaller of two. */
unsigned int scale_buckets_nearest_q(const struct scale_buckets *b, float scale);
unsigned int scale_buckets_nearest_k(const struct scale_buckets *b, float scale);
/* The bucket with the scales b->q[@q] and b->k[@k]; and back. */
unsigned int scale_buckets_index(const struct scale_buckets *b, unsigned int q, unsigned int k);
float scale_buckets_q(const struct scale_buckets *b, unsigned int bucket);
float scale_buckets_k(const struct scale_buckets *b, unsigned int bucket);
/* The bucket with the least squared error of this pair. */
unsigned int scale_buckets_pick(const struct scale_buckets *b, float q, float k);

/* "q0k0", "q+1k-2": steps above and below the means; a step up divides by sigma. */
#define SCALE_BUCKETS_NAME_BYTES 16
void scale_buckets_name(const struct scale_buckets *b, unsigned int bucket,
			char name[SCALE_BUCKETS_NAME_BYTES]);

/* The scale of a head's values @x [rows][n], of which a row begins @stride values after another.
 * Not finite if a value is not. */
float scale_buckets_scale(const float *x, size_t rows, size_t n, size_t stride);

/* The mean of what a calibration text has: of Q, or of K, over all heads, layers and chunks. */
struct scale_mean {
	double sum;
	uint64_t n;
};
/* 0, or -EINVAL for a @scale that is negative or not finite, which is not added. */
int scale_mean_add(struct scale_mean *m, float scale);
double scale_mean(const struct scale_mean *m); /* 0 if nothing was added */

#endif /* SCALE_BUCKETS_H */
