/* SPDX-License-Identifier: MIT */
/*
 * What a calibration text's activations tell of the scales of inputs, chunk by chunk. Memory is a
 * few numbers for each channel, whatever the text's length.
 *
 * The text is evaluated twice. The first time gives each input's scale: in each chunk the value
 * that a share of the channels exceed in their largest magnitude; the median of the chunks' values
 * is 127 scales. The second time counts what is beyond that: the outliers.
 */
#ifndef SHADOW_STATS_H
#define SHADOW_STATS_H

#include "shadow.h"

struct shadow_stats_input {
	unsigned int k; /* channels */
	const float *divisors; /* [k], the caller's: of smoothing; NULL: none */
	float scale; /* outliers are beyond 127 of it */
	float *largest; /* [k] magnitudes in the text */
	double *squares; /* [k]: sums over the text's rows */
	uint64_t n_rows;
	float *exceeded; /* [max_chunks]: by the share of the channels */
	unsigned int nr_chunks;
	uint32_t *outliers; /* [k] in the text */
	uint32_t *chunks; /* [k] with outliers */
};

struct shadow_stats {
	unsigned int n_layer, max_chunks;
	double share; /* of an input's channels, that have outliers in a chunk */
	bool counting; /* the text is evaluated to count outliers */
	bool failed; /* an activation is not finite */
	unsigned int failed_layer, failed_input;
	struct shadow_stats_input *inputs; /* [n_layer][SHADOW_INPUTS] */
	float *chunk; /* [2][greatest k]: of the chunk that is added */
};

/* @channels: of a layer's inputs. 0 or -ENOMEM with the error line, and nothing to free. */
int shadow_stats_create(struct shadow_stats *st, unsigned int n_layer,
			const unsigned int channels[SHADOW_INPUTS], unsigned int max_chunks,
			double share);
void shadow_stats_free(struct shadow_stats *st);

/* Adds a chunk's activations [rows][k] of an input, each at most once for each chunk. */
void shadow_stats_add(struct shadow_stats *st, unsigned int layer, unsigned int input,
		      unsigned int rows, const float *x);
/* Forgets what was added: the text will be evaluated again with other divisors. */
void shadow_stats_restart(struct shadow_stats *st);
/* After the first evaluation: sets the scales; the second one counts. */
void shadow_stats_count(struct shadow_stats *st);
/*
 * After the second one: makes a calibration, in which no input is pruned and none has weights. The
 * fewest channels with the share @hot of an input's outliers are hot; of channels with equally many
 * the first ones. 0 or -ENOMEM with the error line.
 */
int shadow_stats_finish(const struct shadow_stats *st, double hot, struct shadow *s);

#endif /* SHADOW_STATS_H */
