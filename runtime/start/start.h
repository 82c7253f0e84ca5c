/* SPDX-License-Identifier: MIT */
/*
 * Starts: a model's weights, read and packed into the NPU's buffers piece by piece, in the order in
 * which a forward pass uses them.
 *
 * A piece is some panels of one matrix, 1/640 of the weights. Reading a piece and packing it are
 * two steps, so that a warm start can do them one after another before the first prompt, and a cold
 * one as tasks of the first pass, beside the matmuls of the layers that are there already
 * (EdgeFlow 4: the quantised model is loaded asynchronously and unpacked layer by layer). Reads run
 * ahead by themselves as far as the reader's ring goes (reader.h).
 *
 * Packing is whatever turns the file's form into panels. The panels of a file that llm-quantize has
 * packed are copied, or only checked if the device reads the file in place (packed.h), or unpacked
 * where they are adaptive and the weights are to be W8A8. The panels of a cache (panels_cache.h)
 * are used as those of a packed file are; an error removes the cache, so the next start works.
 */
#ifndef START_H
#define START_H

#include <stdbool.h>
#include <stdint.h>

#include "ops.h"
#include "packed.h"

struct start_piece {
	uint32_t layer; /* of the output matrix: the number of layers */
	enum llm_op op; /* the matmul that needs it */
	int matrix; /* enum llm_matrix; -1: the output matrix */
	uint32_t row, rows; /* output channels */
	uint64_t bytes; /* in the file */
	uint64_t packed; /* of its panels */
	/* Weights that the CPU widens for the NPU; 0: it multiplies those of the file */
	uint64_t unpacked;
};
/* Pieces that may be read and not yet packed */
#define START_RING 16

/*
 * The pieces of a model in the order of their use. Of a file (@model) they are what is read; of a
 * shape alone (@model NULL) they have the sizes that the @widths of the matmuls' weights in a file
 * give, for plans. Narrower weights than those of W8A8 are to be unpacked for it. *@nr of them,
 * which the caller frees; NULL: no memory.
 */
struct start_piece *start_pieces(const struct llm_model *model, enum llm_weights weights,
				 const struct shape *shape,
				 const struct llm_width widths[LLM_NR_OPS], uint32_t *nr);

struct start;

/*
 * Begins to read the weights of @packed, whose buffers llm_packed_create() has made of the same
 * source. @pieces [nr] and the source's objects must stay until start_close(). 0, -ENOMEM, or
 * -ENOTSUP for rows that are too long to be read, with the error line.
 */
int start_open(const struct llm_packed_source *src, const struct start_piece *pieces, uint32_t nr,
	       struct llm_packed *packed, struct start **start);
/*
 * Waits until piece @i has been read. Pieces are read and packed in their order, reading by one
 * thread and packing by one; at most START_RING of them may be read and not yet packed. 0, or
 * -errno with an error line that names the tensor; that error stays.
 */
int start_read(struct start *s, uint32_t i);
/* Packs it, on the source's threads. 0, or -errno as above: the weights stay incomplete. */
int start_pack(struct start *s, uint32_t i);
/* All pieces that are left, one after another. */
int start_finish(struct start *s);

/* The first piece that has not been packed; all of them: the model is complete. */
uint32_t start_packed(const struct start *s);
bool start_is_complete(const struct start *s);
/* For a pass that packs what is left, while others wait. */
void start_lock(struct start *s);
void start_unlock(struct start *s);
void start_close(struct start *s);

/* What a complete start has cost, on the wall clock; all 0 until then. */
struct llm_start_stats start_stats(const struct start *s);

#endif /* START_H */
