// SPDX-License-Identifier: MIT
#include "adaptive.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"

struct adaptive_channel adaptive_measure(const float *w, size_t n)
{
	struct adaptive_channel c = { 0 };

	for (size_t i = 0; i < n; i++) {
		c.max = fmaxf(c.max, fabsf(w[i]));
		c.mean_square += (double)w[i] * w[i];
	}
	if (n)
		c.mean_square /= (double)n;
	return c;
}

double adaptive_error(const struct adaptive_channel *c, unsigned int bits)
{
	if (!(c->mean_square > 0))
		return 0;
	return ldexp((double)c->max * c->max / c->mean_square, -2 * (int)bits);
}

/* ---- allocation ---- */

/* What a channel's next bit gains. */
struct gain {
	double gain;
	size_t channel;
};

static bool before(const struct gain *a, const struct gain *b)
{
	return a->gain > b->gain || (a->gain == b->gain && a->channel < b->channel);
}

/* Restores the order of a heap of @n after entry @i got smaller; the greatest is first. */
static void sift_down(struct gain *heap, size_t n, size_t i)
{
	struct gain moved = heap[i];

	for (size_t child; (child = 2 * i + 1) < n; i = child) {
		child += child + 1 < n && before(&heap[child + 1], &heap[child]);
		if (!before(&heap[child], &moved))
			break;
		heap[i] = heap[child];
	}
	heap[i] = moved;
}

static double next_gain(const struct adaptive_channel *c, unsigned int bits)
{
	return adaptive_error(c, bits) - adaptive_error(c, bits + 1);
}

int adaptive_allocate(const struct adaptive_channel *channels, size_t n, double average,
		      uint8_t *bits)
{
	struct gain *heap;
	size_t left, heaped = n;

	if (!(average >= 1 && average <= ADAPTIVE_MAX_BITS))
		return llm_fail(-EINVAL, "an average of %g bits: choose 1 to %d", average,
				ADAPTIVE_MAX_BITS);
	heap = malloc((n ? n : 1) * sizeof(*heap));
	if (!heap)
		return llm_fail(-ENOMEM, "no memory for %zu channels", n);
	memset(bits, 1, n);
	for (size_t i = 0; i < n; i++)
		heap[i] = (struct gain){ next_gain(&channels[i], 1), i };
	for (size_t i = n / 2; i-- > 0;)
		sift_down(heap, n, i);
	/* A product that should be whole may be a little less. */
	left = (size_t)floor((average - 1) * (double)n + 1e-6);
	for (; left && heaped; left--) {
		size_t i = heap->channel;

		if (++bits[i] < ADAPTIVE_MAX_BITS)
			heap->gain = next_gain(&channels[i], bits[i]);
		else
			*heap = heap[--heaped];
		sift_down(heap, heaped, 0);
	}
	free(heap);
	return 0;
}

/* ---- numbers ---- */

/* Each step that is tried is this much of the one before. */
#define NEXT_STEP 0.96f
/* So many steps in a row that are not better end the search. */
#define PATIENCE 6

static float clamp(float x, float lo, float hi)
{
	return x < lo ? lo : x > hi ? hi : x;
}

/* The products of a channel and its numbers. */
struct products {
	double wq, qq;
};

/* Rounds to steps of @step; @q: NULL, or where the numbers go. */
static struct products round_to(const float *w, size_t n, float step, unsigned int bits, int8_t *q)
{
	float half = (float)(1u << (bits - 1)), inverse = 1 / step;
	struct products p = { 0 };

	for (size_t i = 0; i < n; i++) {
		float v = bits == 1 ? (w[i] < 0 ? -1.0f : 1.0f)
				    : rintf(clamp(w[i] * inverse, -half, half - 1));

		p.wq += (double)w[i] * v;
		p.qq += (double)v * v;
		if (q)
			q[i] = (int8_t)v;
	}
	return p;
}

/* How much of the channel's square the numbers keep with their best scale. */
static double kept(struct products p)
{
	return p.qq > 0 ? p.wq * p.wq / p.qq : 0;
}

float adaptive_quantize(const float *w, size_t n, unsigned int bits, int8_t *q)
{
	float max = adaptive_measure(w, n).max, best, step;
	unsigned int worse = 0;
	struct products p;
	double most = -1;

	/* The inverse of a smaller step would be infinite. */
	if (max < 1e-30f) {
		memset(q, bits == 1 ? 1 : 0, n);
		return 0;
	}
	best = step = bits == 1 ? max : max / (float)((1u << (bits - 1)) - 1);
	for (; bits > 1 && worse < PATIENCE; step *= NEXT_STEP) {
		double now = kept(round_to(w, n, step, bits, NULL));

		worse = now > most ? 0 : worse + 1;
		if (worse)
			continue;
		most = now;
		best = step;
	}
	p = round_to(w, n, best, bits, q);
	return (float)(p.wq / p.qq);
}

double adaptive_distance(const float *w, const int8_t *q, size_t n)
{
	double ww = 0, wq = 0, qq = 0;

	for (size_t i = 0; i < n; i++) {
		ww += (double)w[i] * w[i];
		wq += (double)w[i] * q[i];
		qq += (double)q[i] * q[i];
	}
	if (ww == 0 && qq == 0)
		return 0;
	return ww == 0 || qq == 0 ? 1 : 1 - wq / sqrt(ww * qq);
}
