/* SPDX-License-Identifier: MIT */
/* How a model's tensors are taken from its file, inside model/. */
#ifndef MODEL_READER_H
#define MODEL_READER_H

#include "model.h"

struct reader {
	bool has_checksums; /* it is packed, and not by version 1 */
	const int32_t *formats; /* of the panels, possibly unaligned; NULL: before version 3 */
	size_t nr_formats;
	struct llm_model *model;
	const struct gguf_file *file;
	const char *path;
	const struct gguf_tensor **taken; /* as many as the file has */
	size_t nr_taken;
};

/* Each returns 0, or -errno with the error line. */

/* *@t: the tensor [@rows][@cols] (@rows 0: a vector); NULL if it is absent and @optional. */
int reader_take(struct reader *r, const char *name, unsigned int rows, unsigned int cols,
		bool optional, const struct gguf_tensor **t);
/* Takes @name.panels in a packed model, with their format, else @name.weight. @bits: of a layer's
 * matrix, whose widths its table tells if it is packed so. */
int reader_matrix(struct reader *r, const char *name, unsigned int rows, unsigned int cols,
		  bool optional, const struct gguf_tensor **t, enum llm_format *format,
		  uint8_t **bits);
/* A widened copy of a vector; NULL if it is absent and @optional. */
int reader_vector(struct reader *r, const char *name, unsigned int n, bool optional,
		  float **vector);

/* A stack of the model's experts, of @rows in all; @as_matrix becomes the tensor [@rows][@cols]. */
int reader_stack(struct reader *r, const char *name, unsigned int rows, unsigned int cols,
		 struct gguf_tensor *as_matrix);
/* A widened copy of a matrix that is no layer's matmul. */
int reader_wide_matrix(struct reader *r, const char *name, unsigned int rows, unsigned int cols,
		       float **values);

/* All tensors of a layer (model_layer.c), after those of the layers before. */
int reader_layer(struct reader *r, unsigned int i);

#endif /* MODEL_READER_H */
