/* SPDX-License-Identifier: MIT */
/*
 * The file of a cache of panels: a model's matrices as the NPU's buffers have them, with a checksum
 * each, and what they were made of (docs/gguf.md). Everything else is read from the model.
 */
#ifndef PANELS_FILE_H
#define PANELS_FILE_H

#include "packed.h"

#define PANELS_SOURCE_BYTES 80
/*
 * What a cache of @model says that it was made of: the version of the packing, the model's bytes
 * and when it was changed. 0 or -errno with the error line.
 */
int panels_file_source(const struct gguf_file *model, const char *path,
		       char source[PANELS_SOURCE_BYTES]);
/* Whether a file is a cache, perhaps a damaged one: it has panels or their source, and no model. */
bool panels_file_is_cache(const struct gguf_file *file);

struct panels_file {
	const char *path;
	const struct llm_model *model; /* which names the matrices */
	const char *weights; /* the choice's name */
	const char *source;
	uint64_t limit_bytes; /* of all caches in the folder */
	void (*pause)(void *ud); /* called before each of many short steps of writing */
	void *ud;
};
/*
 * Writes the panels of complete weights that the host has mapped, once there is room for them in
 * the folder (panels_room.h). *@bytes: of the file. 0, or -errno with the error line: then nothing
 * is left.
 */
int panels_file_write(const struct panels_file *f, const struct llm_packed *packed,
		      uint64_t *bytes);

#endif /* PANELS_FILE_H */
