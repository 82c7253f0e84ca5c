/* SPDX-License-Identifier: MIT */
/*
 * The float weights that shadow outliers are multiplied with, of the inputs that are kept. Hot
 * channels' are in memory; another channel's are read from the file each time it has an outlier
 * (llm.npu 3.3). An engine owns them, and its sessions share them.
 */
#ifndef SHADOW_WEIGHTS_H
#define SHADOW_WEIGHTS_H

#include <stddef.h>

#include "shadow.h"

struct shadow_weights;

/* Reads the weights of hot channels. @shadow and @file must outlive them. 0 or -errno with the
 * error line; then *@w is NULL. */
int shadow_weights_create(const struct shadow *shadow, const struct llm_model *model,
			  const struct gguf_file *file, const char *path,
			  struct shadow_weights **w);
void shadow_weights_free(struct shadow_weights *w);

/* The weights of a hot channel, F16 [shadow_rows()]; NULL: it is not hot. */
const uint16_t *shadow_weights_hot(const struct shadow_weights *w, unsigned int layer,
				   unsigned int input, uint32_t channel);
/* Reads those of another channel to @row. 0 or -errno with the error line. Threads may read at the
 * same time. */
int shadow_weights_read(struct shadow_weights *w, unsigned int layer, unsigned int input,
			uint32_t channel, uint16_t *row);

struct shadow_weights_stats {
	size_t hot_bytes; /* in memory */
	size_t all_bytes; /* what all channels of the kept inputs would take */
	uint64_t reads, read_bytes; /* of other channels, so far */
};
struct shadow_weights_stats shadow_weights_stats(const struct shadow_weights *w);

#endif /* SHADOW_WEIGHTS_H */
