// SPDX-License-Identifier: MIT
/*
 * Widths of input channels, after what EdgeFlow says of CMPQ: the activations decide on widths
 * around the average, and the levels of a channel's numbers are the means of k clusters.
 *
 * CMPQ keeps some weights aside as floats; nothing is kept aside here.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "llm_fail.h"

#define MAX_LEVELS 256
#define ROUNDS 30
/* Of this many channels one has a bit more than the average, and one a bit less: of 3, 10 and none
 * the number that loses least. */
#define SHARE 10

struct levels {
	size_t n;
	float at[MAX_LEVELS]; /* ascending */
};

static int ascending(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static size_t nearest(const struct levels *l, float x)
{
	size_t lo = 0, hi = l->n - 1;

	while (lo < hi) {
		size_t middle = (lo + hi) / 2;

		if (x > (l->at[middle] + l->at[middle + 1]) / 2)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo;
}

/*
 * Levels where Lloyd's algorithm begins: their density is the cube root of that of the @n sorted
 * values, as it is for the least error of many levels. The density of values is one by the gap
 * between neighbours, so a gap has its 2/3rd power of the levels.
 */
static void spread(const float *values, size_t n, struct levels *l)
{
	double all = 0, before = 0;
	size_t k = 0;

	for (size_t i = 1; i < n; i++)
		all += cbrt(pow((double)values[i] - values[i - 1], 2));
	for (size_t i = 1; i < n; i++) {
		double gap = (double)values[i] - values[i - 1], here = cbrt(gap * gap);

		for (; k < l->n && before + here >= ((double)k + 0.5) / (double)l->n * all; k++)
			l->at[k] = (float)(values[i - 1] +
					   (here > 0 ? (((double)k + 0.5) / (double)l->n * all -
							before) /
							       here * gap
						     : 0));
		before += here;
	}
	for (; k < l->n; k++)
		l->at[k] = values[n - 1];
}

/* Lloyd's algorithm on @n values, which it sorts. */
static void cluster(float *values, size_t n, unsigned int bits, struct levels *l)
{
	double sums[MAX_LEVELS], counts[MAX_LEVELS];

	qsort(values, n, sizeof(*values), ascending);
	l->n = (size_t)1 << bits;
	spread(values, n, l);
	for (int round = 0; round < ROUNDS; round++) {
		memset(sums, 0, sizeof(sums));
		memset(counts, 0, sizeof(counts));
		for (size_t i = 0; i < n; i++) {
			size_t k = nearest(l, values[i]);

			sums[k] += values[i];
			counts[k]++;
		}
		for (size_t k = 0; k < l->n; k++)
			if (counts[k] > 0)
				l->at[k] = (float)(sums[k] / counts[k]);
	}
}

struct column {
	double square; /* of its activations */
	size_t at;
	unsigned int bits;
	float scale; /* root of the mean square of its weights; 1: levels of its own */
};

static int by_square(const void *a, const void *b)
{
	const struct column *x = a, *y = b;

	return x->square != y->square ? (x->square < y->square ? 1 : -1)
				      : (x->at > y->at) - (x->at < y->at);
}

static void choose_widths(const struct bits_matrix *m, double average, const double *squares,
			  struct column *columns)
{
	size_t some = m->cols / SHARE;

	for (size_t c = 0; c < m->cols; c++)
		columns[c] = (struct column){ squares[c], c, 0, 1 };
	qsort(columns, m->cols, sizeof(*columns), by_square);
	for (size_t i = 0; i < m->cols; i++)
		columns[i].bits = (unsigned int)average + (i < some) - (i >= m->cols - some);
}

/* Adds a column's weights to the @n values. */
static size_t gather(const struct bits_matrix *m, const struct column *c, float *values, size_t n)
{
	for (size_t r = 0; r < m->rows; r++)
		values[n++] = m->w[r * m->cols + c->at] / c->scale;
	return n;
}

static void round_to(const struct bits_matrix *m, const struct column *c, const struct levels *l)
{
	for (size_t r = 0; r < m->rows; r++) {
		float *w = &m->w[r * m->cols + c->at];

		*w = l->at[nearest(l, *w / c->scale)] * c->scale;
	}
}

static void round_each(const struct bits_matrix *m, struct column *columns, float *values,
		       struct bits_size *size)
{
	struct levels l;

	for (size_t i = 0; i < m->cols; i++) {
		cluster(values, gather(m, &columns[i], values, 0), columns[i].bits, &l);
		round_to(m, &columns[i], &l);
		/* Levels of 16 bits, and a width. */
		size->rest += 16.0 * (double)l.n + 3;
	}
}

static void round_shared(const struct bits_matrix *m, struct column *columns, float *values,
			 struct bits_size *size)
{
	struct levels l;

	for (size_t i = 0; i < m->cols; i++) {
		double sum = 0;

		for (size_t r = 0; r < m->rows; r++)
			sum += pow((double)m->w[r * m->cols + columns[i].at], 2);
		columns[i].scale = sum > 0 ? (float)sqrt(sum / (double)m->rows) : 1;
		size->rest += 32 + 3;
	}
	for (size_t first = 0, end; first < m->cols; first = end) {
		size_t n = 0;

		for (end = first; end < m->cols && columns[end].bits == columns[first].bits; end++)
			n = gather(m, &columns[end], values, n);
		cluster(values, n, columns[first].bits, &l);
		for (size_t i = first; i < end; i++)
			round_to(m, &columns[i], &l);
		size->rest += 16.0 * (double)l.n;
	}
}

int bits_by_columns(const struct bits_matrix *m, bool shared, double average, const double *squares,
		    struct bits_size *size)
{
	struct column *columns = calloc(m->cols, sizeof(*columns));
	float *values = malloc((shared ? m->cols : 1) * m->rows * sizeof(*values));
	int err = 0;

	if (!columns || !values) {
		err = llm_fail(-ENOMEM, "no memory for %zu channels", m->cols);
	} else {
		choose_widths(m, average, squares, columns);
		for (size_t i = 0; i < m->cols; i++)
			size->weights += (double)columns[i].bits * (double)m->rows;
		if (shared)
			round_shared(m, columns, values, size);
		else
			round_each(m, columns, values, size);
	}
	free(columns);
	free(values);
	return err;
}
