// SPDX-License-Identifier: MIT
/*
 * Widths of all output channels of a model together, by what the activations of a text tell.
 *
 * EdgeFlow 4.1 compares channels of one matrix by errors relative to the channel. Across matrices
 * a common unit is needed: the square of the error that a channel's rounding leaves on the residual
 * stream where its block adds to it, relative to the stream's square there.
 *
 *	attn_output, down	add to the stream themselves
 *	v, gate, up		change their results by a share, and by the same share what the
 *				columns of attn_output or down make of these
 *	q, k			change the scores of a head by the share by which they change its
 *				queries or keys, and what the head adds to the stream by the
 *				change of its scores
 *
 * Channels are taken as uncorrelated. Then each bit quarters an error, as in 4.1, and the least sum
 * gives a bit to every channel where it gains more for its bytes than a price; the price is the one
 * at which the widths have the average.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "adaptive.h"
#include "bits.h"
#include "llm_fail.h"

struct layer {
	const struct llm_model *model;
	const struct bits_activations *a;
	unsigned int index;
	double *heads; /* [q_dim]: attn_output's results by its columns, relative to the stream */
	double *ffn; /* [n_ff]: down's */
	float *row;
};

static const double *squares(const struct layer *l, enum llm_matrix which)
{
	unsigned int input = shadow_input_of_matrix(which);

	return l->a->squares[input] + (size_t)l->index * l->a->channels[input];
}

static void read_row(const struct gguf_tensor *t, size_t r, float *row)
{
	gguf_dequantize(t->type, (const uint8_t *)t->data + r * (t->bytes / t->dims[1]), row,
			t->dims[0]);
}

/* The squares of a matrix's results by its columns, relative to the stream. */
static void by_columns(const struct layer *l, enum llm_matrix which, double *sums)
{
	const struct gguf_tensor *t = l->model->layers[l->index].matrix[which];
	double stream = l->a->streams[which == LLM_FFN_DOWN][l->index];

	for (size_t c = 0; c < t->dims[0]; c++)
		sums[c] = 0;
	for (size_t r = 0; r < t->dims[1]; r++) {
		read_row(t, r, l->row);
		for (size_t c = 0; c < t->dims[0]; c++)
			sums[c] += (double)l->row[c] * l->row[c] * squares(l, which)[c] / stream;
	}
}

/* The mean square of a query head's scores if queries and keys have no common direction. */
static double scores(const struct layer *l, size_t head)
{
	unsigned int group = l->model->n_head / l->model->n_head_kv, d = l->model->head_dim;
	const double *q = l->a->heads[0] + (size_t)l->index * l->a->n_head;
	const double *k = l->a->heads[1] + (size_t)l->index * l->a->n_head;
	double tokens = (double)l->a->tokens;

	return q[head] / tokens / d * (k[head / group] / tokens / d);
}

/* What changing the results of row @r of q, k or v by a share changes of the stream. */
static double part_of_row(const struct layer *l, enum llm_matrix which, size_t r)
{
	unsigned int group = l->model->n_head / l->model->n_head_kv, d = l->model->head_dim;
	size_t head = r / d, first = which == LLM_ATTN_Q ? head : head * group;
	size_t heads = which == LLM_ATTN_Q ? 1 : group;
	double part = 0;

	for (size_t h = first; h < first + heads; h++)
		for (size_t i = 0; i < d; i++) {
			double column = l->heads[h * d + i];

			if (which != LLM_ATTN_V)
				part += column * scores(l, h);
			else if (i == r % d)
				part += column;
		}
	return part;
}

/*
 * Sets the @errors of a matrix's channels in 0 bits. Shares are of a row's own square, but of q and
 * k of their head's: a row with small results has a small part in its scores.
 */
static void measure(const struct layer *l, enum llm_matrix which, double *errors)
{
	const struct gguf_tensor *t = l->model->layers[l->index].matrix[which];
	const double *in = squares(l, which);
	size_t rows = t->dims[1], cols = t->dims[0];
	size_t share = which == LLM_ATTN_Q || which == LLM_ATTN_K ? l->model->head_dim : 1;
	double all = 0, results = 0;

	for (size_t c = 0; c < cols; c++)
		all += in[c];
	for (size_t r = 0; r < rows; r++) {
		read_row(t, r, l->row);
		/* Steps are 2 max / 2^bits, the square of an error a twelfth of a step's. */
		errors[r] = pow((double)adaptive_measure(l->row, cols).max, 2) / 3 * all;
		for (size_t c = 0; c < cols; c++)
			results += (double)l->row[c] * l->row[c] * in[c];
		if ((r + 1) % share)
			continue;
		for (size_t i = r + 1 - share; i <= r; i++) {
			if (which == LLM_ATTN_OUTPUT || which == LLM_FFN_DOWN)
				errors[i] /= l->a->streams[which == LLM_FFN_DOWN][l->index];
			else if (which == LLM_FFN_GATE || which == LLM_FFN_UP)
				errors[i] *= results > 0 ? l->ffn[i] / results : 0;
			else
				errors[i] *= results > 0 ? part_of_row(l, which, i) / results : 0;
		}
		results = 0;
	}
}

/* The width at which another bit gains less than the price of a weight's bit. */
static uint8_t width_at(double error, size_t cols, double price)
{
	uint8_t bits = 1;

	for (; bits < ADAPTIVE_MAX_BITS && 0.75 * ldexp(error, -2 * bits) / (double)cols > price;)
		bits++;
	return bits;
}

/* Sets all widths; returns the bits that they take. */
static double set_widths(const struct llm_model *m, const double *errors, double price,
			 uint8_t *bits)
{
	double sum = 0;
	size_t at = 0;

	for (unsigned int l = 0; l < m->n_layer; l++)
		for (enum llm_matrix which = 0; which < LLM_NR_PLAIN_MATRICES; which++)
			for (size_t r = 0; r < llm_model_rows(m, which); r++, at++) {
				bits[at] = width_at(errors[at], llm_model_cols(m, which), price);
				sum += (double)bits[at] * llm_model_cols(m, which);
			}
	return sum;
}

static size_t weights_of(const struct llm_model *m, size_t *rows)
{
	size_t n = 0;

	*rows = 0;
	for (enum llm_matrix which = 0; which < LLM_NR_PLAIN_MATRICES; which++) {
		*rows += (size_t)llm_model_rows(m, which) * m->n_layer;
		n += (size_t)llm_model_rows(m, which) * llm_model_cols(m, which) * m->n_layer;
	}
	return n;
}

/* Halves the logarithms of the prices between none and one at which all widths are 1. */
static void find_price(const struct llm_model *m, const double *errors, double average,
		       uint8_t *bits)
{
	double low = -700, high = 100;
	size_t rows;
	double budget = average * (double)weights_of(m, &rows);

	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;

		if (set_widths(m, errors, exp(middle), bits) > budget)
			low = middle;
		else
			high = middle;
	}
	set_widths(m, errors, exp(high), bits);
}

uint8_t *bits_by_model(const struct llm_model *m, const struct bits_activations *a, double average)
{
	unsigned int most = m->n_ff > m->n_embd ? m->n_ff : m->n_embd;
	struct layer l = { .model = m, .a = a };
	double *errors, *at;
	uint8_t *bits;
	size_t rows;

	weights_of(m, &rows);
	l.heads = calloc(m->q_dim, sizeof(double));
	l.ffn = calloc(m->n_ff, sizeof(double));
	l.row = calloc(most > m->q_dim ? most : m->q_dim, sizeof(float));
	at = errors = calloc(rows, sizeof(*errors));
	bits = calloc(rows, 1);
	if (!l.heads || !l.ffn || !l.row || !errors || !bits) {
		llm_fail(-ENOMEM, "no memory for %zu channels", rows);
		free(bits);
		bits = NULL;
	} else {
		for (; l.index < m->n_layer; l.index++) {
			by_columns(&l, LLM_ATTN_OUTPUT, l.heads);
			by_columns(&l, LLM_FFN_DOWN, l.ffn);
			for (enum llm_matrix which = 0; which < LLM_NR_PLAIN_MATRICES; which++) {
				measure(&l, which, at);
				at += llm_model_rows(m, which);
			}
		}
		find_price(m, errors, average, bits);
	}
	free(l.heads);
	free(l.ffn);
	free(l.row);
	free(errors);
	return bits;
}
