// SPDX-License-Identifier: MIT
/*
 * The exponent of each input's smoothing, by a grid search (EdgeFlow 4.1, NPU-aware smoothing).
 *
 * An input's error is that of its matmuls' results, relative to their square, with channels taken
 * as uncorrelated. It has two parts. Rounded weights meet activations, of which the mean square of
 * each channel is known. And activations rounded to steps of their largest value / 127 meet
 * weights.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adaptive.h"
#include "llm_fail.h"
#include "smooth_private.h"

/* Exponents that are tried: 0, 1 / GRID, ... 1. */
#define GRID 20
/* Rows of each matrix that are looked at. */
#define MAX_ROWS 128
/* Matrices that read one input. */
#define MAX_READERS 3

/* Some rows of a matrix. */
struct reader {
	float *rows; /* [n][k] */
	size_t n;
	double energy; /* sum of the squares of their results */
};

struct search {
	const struct llm_model *model;
	const struct shadow_stats_input *in;
	const struct shadow_search *aim;
	float *largest; /* [k]: of channels that have one factor, the same */
	float *factors, *row; /* [k] */
	int8_t *q; /* [k] */
	float *rows; /* [MAX_READERS][MAX_ROWS][k] */
	struct reader readers[MAX_READERS];
	unsigned int n_readers;
};

static int alloc(struct search *s, size_t k)
{
	s->largest = calloc(k, sizeof(float));
	s->factors = calloc(k, sizeof(float));
	s->row = calloc(k, sizeof(float));
	s->q = calloc(k, 1);
	s->rows = calloc(MAX_READERS * MAX_ROWS * k, sizeof(float));
	return s->largest && s->factors && s->row && s->q && s->rows
		       ? 0
		       : llm_fail(-ENOMEM, "no memory for %zu channels", k);
}

static void release(struct search *s)
{
	free(s->largest);
	free(s->factors);
	free(s->row);
	free(s->q);
	free(s->rows);
}

static double mean_square(const struct shadow_stats_input *in, unsigned int c)
{
	return in->n_rows ? in->squares[c] / (double)in->n_rows : 0;
}

/* Rows that are spread evenly over the matrix. */
static void read_rows(struct search *s, const struct gguf_tensor *t)
{
	struct reader *r = &s->readers[s->n_readers];
	size_t all = t->dims[1], k = t->dims[0], bytes = t->bytes / all;

	*r = (struct reader){ .rows = s->rows + s->n_readers++ * MAX_ROWS * k,
			      .n = all < MAX_ROWS ? all : MAX_ROWS };
	for (size_t i = 0; i < r->n; i++) {
		float *row = r->rows + i * k;

		gguf_dequantize(t->type, (const uint8_t *)t->data + i * all / r->n * bytes, row, k);
		for (unsigned int c = 0; c < k; c++)
			r->energy += mean_square(s->in, c) * row[c] * row[c];
	}
}

/* The square of what rounding a row's weights, times the factors, adds to its result. */
static double row_error(struct search *s, const float *row, unsigned int bits)
{
	unsigned int k = s->in->k;
	float scale = adaptive_quantize(row, k, bits, s->q);
	double sum = 0;

	for (unsigned int c = 0; c < k; c++) {
		double off = ((double)row[c] - (double)scale * s->q[c]) / s->factors[c];

		sum += mean_square(s->in, c) * off * off;
	}
	return sum;
}

static void scale_row(struct search *s, const float *row)
{
	for (unsigned int c = 0; c < s->in->k; c++)
		s->row[c] = row[c] * s->factors[c];
}

/* The relative error of a matrix's results. @step: of the activations. */
static int reader_error(struct search *s, const struct reader *r, double step, double *error)
{
	struct adaptive_channel channels[MAX_ROWS];
	uint8_t bits[MAX_ROWS];
	double sum = 0;
	int err;

	if (!(r->energy > 0))
		return 0;
	for (size_t i = 0; i < r->n; i++) {
		scale_row(s, r->rows + i * s->in->k);
		channels[i] = adaptive_measure(s->row, s->in->k);
	}
	err = adaptive_allocate(channels, r->n, s->aim->bits, bits);
	for (size_t i = 0; !err && i < r->n; i++) {
		scale_row(s, r->rows + i * s->in->k);
		sum += row_error(s, s->row, bits[i]);
		sum += step * step / 12 * channels[i].mean_square * s->in->k;
	}
	*error += sum / r->energy;
	return err;
}

/* Channels are divided by max|x|^alpha, whose geometric mean becomes 1. */
static void set_factors(struct search *s, double alpha)
{
	double sum = 0, mean;
	unsigned int k = s->in->k, n = 0;

	for (unsigned int c = 0; c < k; c++)
		if (isnormal(s->largest[c])) {
			sum += log((double)s->largest[c]);
			n++;
		}
	mean = n ? sum / n : 0;
	for (unsigned int c = 0; c < k; c++) {
		float f = (float)exp(alpha * (log((double)s->largest[c]) - mean));

		s->factors[c] = isnormal(f) && isnormal(1 / f) ? f : 1;
	}
}

static int input_error(struct search *s, double alpha, double *error)
{
	float max = 0;
	int err = 0;

	*error = 0;
	set_factors(s, alpha);
	for (unsigned int c = 0; c < s->in->k; c++)
		max = fmaxf(max, s->largest[c] / s->factors[c]);
	for (unsigned int i = 0; !err && i < s->n_readers; i++)
		err = reader_error(s, &s->readers[i], s->aim->floats ? 0 : (double)max / 127,
				   error);
	return err;
}

static int search_input(struct search *s, unsigned int layer, unsigned int input, double *best)
{
	double least = INFINITY, error;
	int err = 0;

	memcpy(s->largest, s->in->largest, s->in->k * sizeof(float));
	if (input == 1)
		smooth_share_heads(s->model, s->largest);
	s->n_readers = 0;
	for (enum llm_matrix which = 0; which < LLM_NR_PLAIN_MATRICES; which++)
		if (shadow_input_of_matrix(which) == input && s->model->layers[layer].matrix[which])
			read_rows(s, s->model->layers[layer].matrix[which]);
	for (unsigned int i = 0; !err && i <= GRID; i++) {
		err = input_error(s, (double)i / GRID, &error);
		if (err || !(error < least))
			continue;
		least = error;
		*best = (double)i / GRID;
	}
	set_factors(s, *best);
	return err;
}

int shadow_smooth_search(struct shadow_smooth *sm, const struct llm_model *model,
			 const struct shadow_stats *stats, const struct shadow_search *aim)
{
	struct search s = { .model = model, .aim = aim };
	unsigned int most = 0;
	int err = shadow_smooth_alloc(sm, model);

	if (err)
		return err;
	for (unsigned int i = 0; i < SHADOW_INPUTS; i++)
		most = shadow_channels(model, i) > most ? shadow_channels(model, i) : most;
	err = alloc(&s, most);
	for (size_t i = 0; !err && i < (size_t)model->n_layer * SHADOW_INPUTS; i++) {
		unsigned int layer = (unsigned int)(i / SHADOW_INPUTS), input = i % SHADOW_INPUTS;

		s.in = &stats->inputs[i];
		err = search_input(&s, layer, input, &sm->alphas[i]);
		memcpy(sm->factors[i], s.factors, s.in->k * sizeof(float));
		if (input == 1)
			smooth_set_v_rows(sm, model, layer);
	}
	release(&s);
	if (err)
		shadow_smooth_free(sm);
	return err;
}
