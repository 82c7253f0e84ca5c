// SPDX-License-Identifier: MIT
/* Numbers of output channels: of one width, or of widths of their own. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adaptive.h"
#include "bits.h"
#include "llm_fail.h"

/* Each step that is tried is this much of the one before, and so many are. */
#define NEXT_STEP 0.98
#define STEPS 40

static int choose_widths(const struct bits_matrix *m, enum bits_method method, double average,
			 uint8_t *bits)
{
	struct adaptive_channel *channels;
	int err;

	if (method == BITS_UNIFORM) {
		memset(bits, (int)average, m->rows);
		return 0;
	}
	channels = calloc(m->rows, sizeof(*channels));
	if (!channels)
		return llm_fail(-ENOMEM, "no memory for %zu channels", m->rows);
	for (size_t r = 0; r < m->rows; r++)
		channels[r] = adaptive_measure(m->w + r * m->cols, m->cols);
	err = adaptive_allocate(channels, m->rows, average, bits);
	free(channels);
	return err;
}

static float number(float w, double step, unsigned int bits)
{
	double half = ldexp(1, (int)bits - 1), v = rint(w / step);

	if (bits == 1)
		return w < 0 ? -1 : 1;
	return (float)(v < -half ? -half : v > half - 1 ? half - 1 : v);
}

/* Sets the best scale of a step's numbers, and returns what part of the results' square is kept. */
static double try_step(const float *w, size_t n, const double *squares, double step,
		       unsigned int bits, double *scale)
{
	double wq = 0, qq = 0;

	for (size_t c = 0; c < n; c++) {
		float v = number(w[c], step, bits);

		wq += squares[c] * w[c] * v;
		qq += squares[c] * v * v;
	}
	*scale = qq > 0 ? wq / qq : 0;
	return qq > 0 ? wq * wq / qq : 0;
}

static void round_row(float *w, size_t n, const double *squares, unsigned int bits)
{
	float max = adaptive_measure(w, n).max;
	double step = max / (bits > 1 ? ldexp(1, (int)bits - 1) - 1 : 1), most = -1;
	double best = step, best_scale = 0, scale;

	if (max < 1e-30f)
		return;
	for (int i = 0; i < (bits > 1 ? STEPS : 1); i++, step *= NEXT_STEP) {
		double kept = try_step(w, n, squares, step, bits, &scale);

		if (!(kept > most))
			continue;
		most = kept;
		best = step;
		best_scale = scale;
	}
	for (size_t c = 0; c < n; c++)
		w[c] = (float)(best_scale * number(w[c], best, bits));
}

static void round_plainly(const struct bits_matrix *m, const uint8_t *bits, int8_t *q)
{
	for (size_t r = 0; r < m->rows; r++) {
		float *w = m->w + r * m->cols, scale = adaptive_quantize(w, m->cols, bits[r], q);

		for (size_t c = 0; c < m->cols; c++)
			w[c] = scale * q[c];
	}
}

static void count(const struct bits_matrix *m, const uint8_t *bits, bool adaptive,
		  struct bits_size *size)
{
	for (size_t r = 0; r < m->rows; r++)
		size->weights += (double)bits[r] * (double)m->cols;
	size->rest += (32 + (adaptive ? 3 : 0)) * (double)m->rows;
}

void bits_by_widths(const struct bits_matrix *m, const uint8_t *bits, const double *squares,
		    struct bits_size *size)
{
	for (size_t r = 0; r < m->rows; r++)
		round_row(m->w + r * m->cols, m->cols, squares, bits[r]);
	count(m, bits, true, size);
}

int bits_by_rows(const struct bits_matrix *m, enum bits_method method, double average,
		 const double *squares, struct bits_size *size)
{
	uint8_t *bits = calloc(m->rows, 1);
	int8_t *q = malloc(m->cols);
	int err = bits && q ? choose_widths(m, method, average, bits)
			    : llm_fail(-ENOMEM, "no memory for %zu channels", m->rows);

	if (!err && squares) {
		bits_by_widths(m, bits, squares, size);
	} else if (!err) {
		round_plainly(m, bits, q);
		count(m, bits, method != BITS_UNIFORM, size);
	}
	free(bits);
	free(q);
	return err;
}
