// SPDX-License-Identifier: MIT
/* Widths of output channels: uniform and adaptive. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "adaptive.h"
#include "bits.h"
#include "llm_fail.h"

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

int bits_by_rows(const struct bits_matrix *m, enum bits_method method, double average,
		 struct bits_size *size)
{
	uint8_t *bits = calloc(m->rows, 1);
	int8_t *q = malloc(m->cols);
	int err = bits && q ? choose_widths(m, method, average, bits)
			    : llm_fail(-ENOMEM, "no memory for %zu channels", m->rows);

	for (size_t r = 0; !err && r < m->rows; r++) {
		float *w = m->w + r * m->cols, scale = adaptive_quantize(w, m->cols, bits[r], q);

		for (size_t c = 0; c < m->cols; c++)
			w[c] = scale * q[c];
		size->weights += (double)bits[r] * (double)m->cols;
		size->rest += 32 + (method == BITS_ADAPTIVE ? 3 : 0);
	}
	free(bits);
	free(q);
	return err;
}
