/* SPDX-License-Identifier: MIT */
/*
 * Shared by the parts of llm_quantize(): the tensors of the new file, each with the source of its
 * values, which are converted while they are written.
 *
 *	quantize.c		llm_quantize(): types, files, threads
 *	quantize_convert.c	a model's tensors in another type
 *	quantize_panels.c	a model's matrices in the NPU's panels
 *	quantize_shadow.c	a calibration: metadata, and the weights of inputs that are kept
 *	quantize_synthetic.c	a model of a shape, with a dummy vocabulary
 *	quantize_shape.c	its keys and tensors, by architecture
 *	quantize_types.c	the types of tensors
 *	quantize_stream.c	their values, window by window
 */
#ifndef QUANTIZE_H
#define QUANTIZE_H

#include "attention.h"
#include "llm_calibration.h"
#include "gguf_quantize.h"
#include "gguf_writer.h"
#include "llm_quantize.h"
#include "threadpool.h"

/* Values of a task, a multiple of every block */
#define QUANTIZE_TASK_VALUES 16384u

struct quantize;

/* A tensor of the new file. Its values are those of @from; if that is NULL, @base +
 * @scale * (random in -1..1). */
struct quantize_tensor {
	struct quantize *q;
	const char *name;
	enum gguf_type type;
	uint32_t n_dims;
	uint64_t dims[GGUF_MAX_DIMS];
	uint64_t n; /* values */
	const struct gguf_tensor *from;
	uint64_t key; /* seed of its random numbers */
	float base, scale;
	struct shadow_fold fold; /* of smoothing */
	const float *importance; /* [n_importance] of input channels, matrix by matrix; or NULL */
	size_t n_importance;
};

struct quantize_shadow;
struct quantize_rules;

struct quantize {
	const struct llm_quantize_options *opts;
	const char *in; /* for messages: the file, or the shape */
	enum gguf_type type;
	enum gguf_file_type file_type;
	struct llm_pool *pool;
	struct gguf_file *file; /* NULL: synthetic */
	struct gguf_writer *writer;
	struct llm_model model; /* with a calibration; else nothing */
	struct quantize_shadow *shadows;
	struct quantize_rules *rules;
	struct imatrix *imatrix; /* NULL: none */
	unsigned int n_layer, n_expert, sharing; /* of the model; query heads that share a key's */
	uint64_t done, all; /* values written, and to write */
	struct llm_quantize_result sum; /* of the tensors added */
	uint8_t *window; /* the blocks of one window */
	/* [threads][2][QUANTIZE_TASK_VALUES]: the widened values of each's task, and importance */
	float *values;
};

/* The type of a tensor. @from: its type now, which it keeps if it is no matrix. @head: it is the
 * output matrix. */
enum gguf_type quantize_target(const struct quantize *q, const char *name,
			       const uint64_t dims[GGUF_MAX_DIMS], enum gguf_type from, bool head);
/* Makes q->rules of the options; checks, when all tensors have their types, that each was of use.
 * 0 or -errno with the error line. */
int quantize_open_rules(struct quantize *q);
int quantize_check_rules(const struct quantize *q);
void quantize_close_rules(struct quantize *q);
/* Adds the tensor to the writer, which reads @t when it writes the file. */
void quantize_add(struct quantize *q, struct quantize_tensor *t);
/* Reports that @values of tensor @name were written. 0, or -ECANCELED with the error line. */
int quantize_progress(struct quantize *q, uint64_t values, const char *name);
/* Writes the file. 0 or -errno with the error line. */
int quantize_save(struct quantize *q);

/* Reads @n values from @first on, a multiple of QUANTIZE_TASK_VALUES, as the new file shall have
 * them. */
void quantize_read(const struct quantize_tensor *t, uint64_t first, float *dst, size_t n);
/* With a calibration: reads q->model, of which it must be. 0 or -errno with the error line. */
int quantize_check_calibration(struct quantize *q);
/*
 * Copies the file's metadata without the @n keys of @except, and adds those of a calibration.
 */
void quantize_copy_metadata(struct quantize *q, const char *const *except, size_t n);
/* Adds those of a calibration's attention (quantize_attention.c), whose keys are: */
void quantize_put_attention(struct quantize *q);
#define QUANTIZE_ATTENTION_KEYS                                                                  \
	ATTENTION_KEY, ATTENTION_KEY ".head_importance", ATTENTION_KEY ".layer_importance",      \
		ATTENTION_KEY ".limit", ATTENTION_KEY ".head_gain", ATTENTION_KEY ".gain_limit", \
		ATTENTION_KEY ".q_scales", ATTENTION_KEY ".k_scales", ATTENTION_KEY ".v_scales", \
		ATTENTION_KEY ".key_offsets", ATTENTION_KEY ".balance",                          \
		ATTENTION_KEY ".balanced_q_scales", ATTENTION_KEY ".balanced_k_scales"
/* Whether @from belongs to an old calibration, which the new one replaces. */
bool quantize_replaced(const struct quantize *q, const struct gguf_tensor *from);
/* If the calibration is smoothed: sets the fold of a tensor, whose vectors become F32. */
void quantize_smooth(const struct quantize *q, struct quantize_tensor *t);
/* Adds the tensors of the calibration, if there is one. 0 or -ENOMEM with the error line. */
int quantize_add_shadows(struct quantize *q);

/* Each makes the whole file. 0 or -errno with the error line. */
int quantize_convert(struct quantize *q);
int quantize_panels(struct quantize *q);
int quantize_synthetic(struct quantize *q);

#endif /* QUANTIZE_H */
