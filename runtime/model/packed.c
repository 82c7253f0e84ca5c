/* SPDX-License-Identifier: MIT */
/* A model's weights in the NPU's buffers: one per layer, and one for the output norm and matrix. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"
#include "npu_graph.h"
#include "packed.h"

/* Alignment of a job's bindings */
#define BIND_ALIGN 64

void llm_layer_tensor_name(unsigned int part, char *name, size_t bytes)
{
	static const char *const norms[] = { "attn_norm", "ffn_norm", "attn_q_norm",
					     "attn_k_norm" };

	if (part >= LLM_LAYER_ATTN_NORM)
		snprintf(name, bytes, "%s", norms[part - LLM_LAYER_ATTN_NORM]);
	else
		snprintf(name, bytes, "%s%s", llm_matrix_names[part % LLM_NR_MATRICES],
			 part >= LLM_LAYER_BIAS ? ".bias" : "");
}

enum llm_format llm_format_choose(const struct llm_model *m, enum llm_weights weights,
				  unsigned int layer, int which)
{
	const struct llm_layer *l = &m->layers[layer];
	const struct gguf_tensor *t = which < 0 ? m->output : l->matrix[which];
	bool w4 = llm_weights_4bit(weights);

	if (m->packed[0] && which >= 0 && l->format[which] == LLM_FORMAT_WK &&
	    weights == LLM_WEIGHTS_W8A8)
		return LLM_FORMAT_W8;
	if (m->packed[0])
		return which < 0 ? m->output_format : l->format[which];
	if (weights == LLM_WEIGHTS_NATIVE)
		return llm_format_own(t->type);
	if (weights == LLM_WEIGHTS_ADAPTIVE)
		return which < 0 ? LLM_FORMAT_W8 : LLM_FORMAT_WK;
	if (which < 0)
		w4 = w4 && t->type == GGUF_Q4_0;
	return w4 && t->dims[0] % LLM_W4_GROUP == 0 ? LLM_FORMAT_W4 : LLM_FORMAT_W8;
}

/* What the matrices of an operator add up to. */
struct width_sum {
	double weights, bits, scales;
};

/* @bits: of WK, the width of each of the @rows. */
static void width_add(struct width_sum *sum, enum llm_format format, const uint8_t *bits,
		      unsigned int rows, unsigned int cols)
{
	unsigned int group = llm_format_group(format);
	double weights = (double)rows * cols;

	sum->weights += weights;
	for (unsigned int r = 0; bits && r < rows; r++)
		sum->bits += (double)cols * bits[r];
	if (!bits)
		sum->bits += weights * llm_format_bits(format);
	sum->scales += group ? weights / group : 0;
}

/* Bytes of the panels of a matrix, as of llm_format_choose(). */
static size_t matrix_bytes(const struct llm_model *m, enum llm_format format, unsigned int layer,
			   int which)
{
	if (which < 0)
		return llm_pack_bytes(format, m->n_vocab, m->n_embd);
	if (format == LLM_FORMAT_WK)
		return m->layers[layer].matrix[which]->bytes;
	return llm_pack_bytes(format, llm_model_rows(m, (enum llm_matrix)which),
			      llm_model_cols(m, (enum llm_matrix)which));
}

uint64_t llm_matmul_widths(const struct llm_model *m, enum llm_weights weights,
			   struct llm_width widths[LLM_NR_OPS])
{
	static const enum llm_op op_of[LLM_NR_MATRICES] = {
		[LLM_ATTN_Q] = LLM_OP_QKV,	 [LLM_ATTN_K] = LLM_OP_QKV,
		[LLM_ATTN_V] = LLM_OP_QKV,	 [LLM_ATTN_OUTPUT] = LLM_OP_ATTN_OUTPUT,
		[LLM_FFN_GATE] = LLM_OP_GATE_UP, [LLM_FFN_UP] = LLM_OP_GATE_UP,
		[LLM_FFN_DOWN] = LLM_OP_DOWN,
	};
	enum llm_format format = llm_format_choose(m, weights, 0, -1);
	uint64_t bytes = matrix_bytes(m, format, 0, -1);
	struct width_sum sums[LLM_NR_OPS] = { 0 };

	width_add(&sums[LLM_OP_HEAD], format, NULL, m->n_vocab, m->n_embd);
	for (unsigned int i = 0; i < m->n_layer; i++) {
		for (unsigned int w = 0; w < LLM_NR_MATRICES; w++) {
			format = llm_format_choose(m, weights, i, (int)w);
			bytes += matrix_bytes(m, format, i, (int)w);
			width_add(&sums[op_of[w]], format, m->layers[i].bits[w],
				  llm_model_rows(m, w), llm_model_cols(m, w));
		}
	}
	for (unsigned int op = 0; op < LLM_NR_OPS; op++) {
		const struct width_sum *s = &sums[op];

		if (s->weights > 0)
			widths[op] = (struct llm_width){
				s->bits / s->weights,
				s->scales > 0 ? (unsigned int)lrint(s->weights / s->scales) : 0,
			};
	}
	return bytes;
}

static const float *layer_vector(const struct llm_layer *layer, unsigned int part)
{
	switch (part) {
	case LLM_LAYER_ATTN_NORM:
		return layer->attn_norm;
	case LLM_LAYER_FFN_NORM:
		return layer->ffn_norm;
	case LLM_LAYER_Q_NORM:
		return layer->q_norm;
	case LLM_LAYER_K_NORM:
		return layer->k_norm;
	default:
		return layer->bias[part - LLM_LAYER_BIAS];
	}
}

/* Sets sizes and offsets of a layer's parts; returns the size of its buffer. */
static size_t layer_layout(struct llm_packed_layer *block, const struct llm_model *m,
			   unsigned int i)
{
	const struct llm_layer *layer = &m->layers[i];
	size_t off = 0;

	for (unsigned int part = 0; part < LLM_NR_LAYER_TENSORS; part++) {
		unsigned int rows = llm_model_rows(m, part % LLM_NR_MATRICES);
		size_t bytes;

		if (part < LLM_LAYER_BIAS)
			bytes = matrix_bytes(m, block->format[part], i, (int)part);
		else if (!layer_vector(layer, part))
			bytes = 0;
		else if (part < LLM_LAYER_ATTN_NORM)
			bytes = rows * sizeof(float);
		else
			bytes = (part < LLM_LAYER_Q_NORM ? m->n_embd : m->head_dim) * sizeof(float);
		block->part[part].off = off;
		block->part[part].bytes = bytes;
		off += (bytes + BIND_ALIGN - 1) / BIND_ALIGN * BIND_ALIGN;
	}
	return off;
}

static int create_layer(const struct llm_packed_source *src, struct llm_packed_layer *block,
			unsigned int i)
{
	const struct llm_model *m = src->model;
	const struct llm_layer *layer = &m->layers[i];
	size_t bytes = layer_layout(block, m, i);
	int err = npu_buffer_create(src->ctx, bytes, NPU_BUFFER_DEVICE_READ_ONLY, &block->buf);

	if (err)
		return llm_fail(err, "%s: weights of layer %u: %s", src->path, i, npu_error());
	for (unsigned int part = LLM_LAYER_BIAS; part < LLM_NR_LAYER_TENSORS; part++) {
		if (block->part[part].bytes)
			memcpy((uint8_t *)npu_buffer_data(block->buf) + block->part[part].off,
			       layer_vector(layer, part), block->part[part].bytes);
	}
	return 0;
}

static int create_output(const struct llm_packed_source *src, struct llm_packed *packed)
{
	const struct llm_model *m = src->model;
	int err;

	packed->output_off = (m->n_embd * sizeof(float) + BIND_ALIGN - 1) / BIND_ALIGN * BIND_ALIGN;
	packed->output_bytes = llm_pack_bytes(packed->output_format, m->n_vocab, m->n_embd);
	err = npu_buffer_create(src->ctx, packed->output_off + packed->output_bytes,
				NPU_BUFFER_DEVICE_READ_ONLY, &packed->head);
	if (err)
		return llm_fail(err, "%s: output matrix: %s", src->path, npu_error());
	memcpy(npu_buffer_data(packed->head), m->output_norm, m->n_embd * sizeof(float));
	return 0;
}

/* Returns the bytes of all matrices. */
static uint64_t choose_formats(struct llm_packed *packed, const struct llm_model *m,
			       enum llm_weights weights)
{
	uint64_t bytes;

	packed->output_format = llm_format_choose(m, weights, 0, -1);
	bytes = matrix_bytes(m, packed->output_format, 0, -1);
	for (unsigned int i = 0; i < m->n_layer; i++) {
		for (unsigned int w = 0; w < LLM_NR_MATRICES; w++) {
			enum llm_format format = llm_format_choose(m, weights, i, (int)w);

			packed->layers[i].format[w] = format;
			bytes += matrix_bytes(m, format, i, (int)w);
		}
	}
	return bytes;
}

int llm_packed_create(struct llm_packed *packed, const struct llm_packed_source *src)
{
	const struct llm_model *m = src->model;
	int err = 0;

	packed->float_input = src->weights == LLM_WEIGHTS_W4A16;
	packed->activations = src->activations;
	packed->n_layer = m->n_layer;
	packed->layers = calloc(m->n_layer, sizeof(*packed->layers));
	if (packed->layers)
		packed->weight_bytes = choose_formats(packed, m, src->weights);
	else
		err = llm_fail(-ENOMEM, "%s: no memory to quantise the weights", src->path);
	for (unsigned int i = 0; !err && i < m->n_layer; i++)
		err = create_layer(src, &packed->layers[i], i);
	if (!err)
		err = create_output(src, packed);
	if (err)
		llm_packed_free(packed);
	return err;
}

void *llm_packed_panels(const struct llm_packed *packed, unsigned int layer, int matrix)
{
	const struct llm_packed_layer *block = &packed->layers[layer];

	return matrix < 0 ? (uint8_t *)npu_buffer_data(packed->head) + packed->output_off
			  : (uint8_t *)npu_buffer_data(block->buf) + block->part[matrix].off;
}

void llm_packed_unmap(struct llm_packed *packed, unsigned int layer)
{
	npu_buffer_unmap(layer < packed->n_layer ? packed->layers[layer].buf : packed->head);
}

void llm_packed_free(struct llm_packed *packed)
{
	for (unsigned int i = 0; packed->layers && i < packed->n_layer; i++) {
		if (packed->layers[i].buf)
			npu_buffer_free(packed->layers[i].buf);
	}
	free(packed->layers);
	if (packed->head)
		npu_buffer_free(packed->head);
	memset(packed, 0, sizeof(*packed));
}

enum llm_format llm_packed_format(const struct llm_packed *packed, unsigned int layer, int matrix)
{
	return matrix < 0 ? packed->output_format : packed->layers[layer].format[matrix];
}

enum llm_input llm_packed_input(const struct llm_packed *packed, int matrix, bool prompt)
{
	enum llm_format format = llm_packed_format(packed, 0, matrix);
	enum llm_input input;

	if (format == LLM_FORMAT_W4 && packed->float_input)
		return LLM_INPUT_FLOATS;
	input = llm_integer_input(llm_activations_of(packed->activations, prompt), matrix < 0,
				  matrix == LLM_FFN_DOWN);
	/* ADD_OUTLIERS reads no panels of WK; an INT16 row keeps its outliers as well. */
	return format == LLM_FORMAT_WK && input == LLM_INPUT_OUTLIERS ? LLM_INPUT_INT16 : input;
}
