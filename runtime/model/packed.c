/* SPDX-License-Identifier: MIT */
/* A model's weights in the NPU's buffers: one for each layer's matrices, one for the output matrix,
 * and one for all vectors. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"
#include "npu_graph.h"
#include "packed.h"

/* Alignment of a job's bindings */
#define BIND_ALIGN 64
/* Of the part of a file that a buffer is made of */
#define MAP_ALIGN 4096u

const char *const llm_output_vector_names[LLM_NR_OUTPUT_VECTORS] = {
	[LLM_OUTPUT_NORM] = "output_norm",
	[LLM_OUTPUT_NORM_BIAS] = "output_norm.bias",
	[LLM_OUTPUT_BIAS] = "output.bias",
};

void llm_layer_tensor_name(unsigned int part, char *name, size_t bytes)
{
	static const char *const norms[] = { "attn_norm",	    "ffn_norm",
					     "attn_norm.bias",	    "ffn_norm.bias",
					     "post_attention_norm", "post_ffw_norm",
					     "attn_q_norm",	    "attn_k_norm" };

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

	/* Of a matrix that the model does not have, panels of no rows. */
	if (!t)
		return LLM_FORMAT_W8;
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
	if (!m->layers[layer].matrix[which])
		return 0;
	if (format == LLM_FORMAT_WK)
		return m->layers[layer].matrix[which]->bytes;
	return llm_pack_bytes(format, llm_model_rows(m, (enum llm_matrix)which),
			      llm_model_cols(m, (enum llm_matrix)which));
}

enum llm_op llm_matrix_op(enum llm_matrix which, bool experts)
{
	switch (which) {
	case LLM_ATTN_Q:
	case LLM_ATTN_K:
	case LLM_ATTN_V:
		return LLM_OP_QKV;
	case LLM_ATTN_OUTPUT:
		return LLM_OP_ATTN_OUTPUT;
	case LLM_FFN_GATE:
	case LLM_FFN_UP:
		return experts ? LLM_OP_EXPERTS : LLM_OP_GATE_UP;
	case LLM_FFN_DOWN:
		return experts ? LLM_OP_EXPERTS : LLM_OP_DOWN;
	default:
		return LLM_OP_EXPERTS;
	}
}

uint64_t llm_matmul_widths(const struct llm_model *m, enum llm_weights weights,
			   struct llm_width widths[LLM_NR_OPS])
{
	enum llm_format format = llm_format_choose(m, weights, 0, -1);
	uint64_t bytes = matrix_bytes(m, format, 0, -1);
	struct width_sum sums[LLM_NR_OPS] = { 0 };

	width_add(&sums[LLM_OP_HEAD], format, NULL, m->n_vocab, m->n_embd);
	for (unsigned int i = 0; i < m->n_layer; i++) {
		for (unsigned int w = 0; w < LLM_NR_MATRICES; w++) {
			format = llm_format_choose(m, weights, i, (int)w);
			bytes += matrix_bytes(m, format, i, (int)w);
			width_add(&sums[llm_matrix_op(w, m->n_expert)], format,
				  m->layers[i].bits[w], llm_model_rows(m, w), llm_model_cols(m, w));
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
	case LLM_LAYER_ATTN_NORM_BIAS:
		return layer->attn_norm_bias;
	case LLM_LAYER_FFN_NORM_BIAS:
		return layer->ffn_norm_bias;
	case LLM_LAYER_ATTN_POST_NORM:
		return layer->attn_post_norm;
	case LLM_LAYER_FFN_POST_NORM:
		return layer->ffn_post_norm;
	case LLM_LAYER_Q_NORM:
		return layer->q_norm;
	case LLM_LAYER_K_NORM:
		return layer->k_norm;
	default:
		return layer->bias[part - LLM_LAYER_BIAS];
	}
}

static size_t bind_align(size_t bytes)
{
	return (bytes + BIND_ALIGN - 1) / BIND_ALIGN * BIND_ALIGN;
}

/* Sets sizes and offsets of a layer's matrices; returns the size of their buffer. */
static size_t matrices_layout(struct llm_packed_layer *block, const struct llm_model *m,
			      unsigned int i)
{
	size_t off = 0;

	for (unsigned int part = 0; part < LLM_NR_MATRICES; part++) {
		block->part[part].bytes = matrix_bytes(m, block->format[part], i, (int)part);
		block->part[part].off = off;
		off += bind_align(block->part[part].bytes);
	}
	return off;
}

/* The same of its vectors, from @off on; returns where they end. */
static size_t vectors_layout(struct llm_packed_layer *block, const struct llm_model *m,
			     unsigned int i, size_t off)
{
	for (unsigned int part = LLM_LAYER_BIAS; part < LLM_NR_LAYER_TENSORS; part++) {
		unsigned int n = part < LLM_LAYER_ATTN_NORM
					 ? llm_model_rows(m, part % LLM_NR_MATRICES)
				 : part < LLM_LAYER_Q_NORM
					 ? m->n_embd
					 : llm_model_qk_norm_cols(m, part == LLM_LAYER_K_NORM);

		block->part[part].bytes = layer_vector(&m->layers[i], part) ? n * sizeof(float) : 0;
		block->part[part].off = off;
		off += bind_align(block->part[part].bytes);
	}
	return off;
}

static const float *output_vector(const struct llm_model *m, enum llm_output_vector v)
{
	return v == LLM_OUTPUT_NORM	   ? m->output_norm
	       : v == LLM_OUTPUT_NORM_BIAS ? m->output_norm_bias
					   : m->output_bias;
}

/* Returns where the vectors end. */
static size_t output_layout(struct llm_packed *packed, const struct llm_model *m, size_t off)
{
	for (enum llm_output_vector v = 0; v < LLM_NR_OUTPUT_VECTORS; v++) {
		size_t n = v == LLM_OUTPUT_BIAS ? m->n_vocab : m->n_embd;

		packed->output_vectors[v].off = off;
		packed->output_vectors[v].bytes = output_vector(m, v) ? n * sizeof(float) : 0;
		off += bind_align(packed->output_vectors[v].bytes);
	}
	return off;
}

static int create_vectors(const struct llm_packed_source *src, struct llm_packed *packed)
{
	const struct llm_model *m = src->model;
	size_t off = 0;
	uint8_t *data;
	int err;

	for (unsigned int i = 0; i < m->n_layer; i++)
		off = vectors_layout(&packed->layers[i], m, i, off);
	off = output_layout(packed, m, off);
	err = npu_buffer_create(src->ctx, off, NPU_BUFFER_DEVICE_READ_ONLY, &packed->vectors);
	if (err)
		return llm_fail(err, "%s: norms: %s", src->path, npu_error());
	data = npu_buffer_data(packed->vectors);
	for (unsigned int i = 0; i < m->n_layer; i++) {
		const struct llm_packed_layer *block = &packed->layers[i];

		for (unsigned int part = LLM_LAYER_BIAS; part < LLM_NR_LAYER_TENSORS; part++)
			if (block->part[part].bytes)
				memcpy(data + block->part[part].off,
				       layer_vector(&m->layers[i], part), block->part[part].bytes);
	}
	for (enum llm_output_vector v = 0; v < LLM_NR_OUTPUT_VECTORS; v++)
		if (packed->output_vectors[v].bytes)
			memcpy(data + packed->output_vectors[v].off, output_vector(m, v),
			       packed->output_vectors[v].bytes);
	return 0;
}

/* ---- panels in place ---- */

/* Some tensors as part of the file. */
struct range {
	uint64_t start, end; /* whole pages from @start on; end 0: none yet */
	uint32_t shard;
	bool fits; /* they are in one file, and all of them can be bound */
};

static void range_add(struct range *r, const struct llm_packed_source *src,
		      const struct gguf_tensor *t)
{
	uint64_t at = gguf_tensor_offset(src->file, t);

	r->fits &= at % BIND_ALIGN == 0 && (!r->end || r->shard == t->shard);
	r->shard = t->shard;
	if (at / MAP_ALIGN * MAP_ALIGN < r->start)
		r->start = at / MAP_ALIGN * MAP_ALIGN;
	if (at + t->bytes > r->end)
		r->end = at + t->bytes;
}

/*
 * A buffer of a part of the file with tensors of @bytes in all, if it has little else: files of
 * other programs may have tensors in any order. NULL: it cannot be one, and the tensors are to be
 * copied: the device reads no files, or the process may open no more (each buffer keeps one open).
 */
static struct npu_buffer *map_range(const struct llm_packed_source *src, const struct range *r,
				    size_t bytes)
{
	struct npu_buffer *buf;

	if (!r->fits || r->end - r->start > bytes + bytes / 16 + MAP_ALIGN)
		return NULL;
	return npu_buffer_map_file(src->ctx, gguf_shard(src->file, r->shard)->fd, r->start,
				   r->end - r->start, &buf)
		       ? NULL
		       : buf;
}

static uint64_t offset_in(const struct llm_packed_source *src, const struct range *r,
			  const struct gguf_tensor *t)
{
	struct range one = { .start = UINT64_MAX, .fits = true };

	range_add(&one, src, t);
	return one.end - t->bytes - r->start;
}

static void map_layer(const struct llm_packed_source *src, struct llm_packed_layer *block,
		      unsigned int i)
{
	struct range r = { .start = UINT64_MAX, .fits = true };
	const struct llm_layer *layer = &src->model->layers[i];
	size_t bytes = 0;

	for (unsigned int part = 0; part < LLM_NR_MATRICES; part++) {
		if (!layer->matrix[part])
			continue;
		range_add(&r, src, layer->matrix[part]);
		bytes += layer->matrix[part]->bytes;
	}
	block->buf = map_range(src, &r, bytes);
	block->in_place = block->buf;
	for (unsigned int part = 0; block->in_place && part < LLM_NR_MATRICES; part++)
		if (layer->matrix[part])
			block->part[part].off = offset_in(src, &r, layer->matrix[part]);
}

static void map_output(const struct llm_packed_source *src, struct llm_packed *packed)
{
	struct range r = { .start = UINT64_MAX, .fits = true };
	const struct gguf_tensor *t = src->model->output;

	range_add(&r, src, t);
	packed->head = map_range(src, &r, t->bytes);
	packed->head_in_place = packed->head;
	if (packed->head_in_place)
		packed->output_off = offset_in(src, &r, t);
}

/* ---- buffers ---- */

/* Whether the NPU reads the panels that the file has: adaptive ones may be unpacked for it. */
static bool keeps_panels(const struct llm_packed_source *src, const struct llm_packed_layer *block,
			 unsigned int i)
{
	return !memcmp(block->format, src->model->layers[i].format, sizeof(block->format));
}

static int create_layer(const struct llm_packed_source *src, struct llm_packed_layer *block,
			unsigned int i)
{
	size_t bytes = matrices_layout(block, src->model, i);
	int err;

	if (src->in_place && src->model->packed[0] && keeps_panels(src, block, i))
		map_layer(src, block, i);
	if (block->buf)
		return 0;
	err = npu_buffer_create(src->ctx, bytes, NPU_BUFFER_DEVICE_READ_ONLY, &block->buf);
	return err ? llm_fail(err, "%s: weights of layer %u: %s", src->path, i, npu_error()) : 0;
}

static int create_output(const struct llm_packed_source *src, struct llm_packed *packed)
{
	const struct llm_model *m = src->model;
	int err;

	packed->output_bytes = llm_pack_bytes(packed->output_format, m->n_vocab, m->n_embd);
	if (src->in_place && m->packed[0])
		map_output(src, packed);
	if (packed->head)
		return 0;
	err = npu_buffer_create(src->ctx, packed->output_bytes, NPU_BUFFER_DEVICE_READ_ONLY,
				&packed->head);
	return err ? llm_fail(err, "%s: output matrix: %s", src->path, npu_error()) : 0;
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
	if (!err)
		err = create_vectors(src, packed);
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

bool llm_packed_in_place(const struct llm_packed *packed, unsigned int layer)
{
	return layer < packed->n_layer ? packed->layers[layer].in_place : packed->head_in_place;
}

struct npu_buffer *llm_packed_buffer(const struct llm_packed *packed, unsigned int layer,
				     unsigned int part)
{
	return part < LLM_LAYER_BIAS ? packed->layers[layer].buf : packed->vectors;
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
	if (packed->vectors)
		npu_buffer_free(packed->vectors);
	memset(packed, 0, sizeof(*packed));
}

enum llm_format llm_packed_format(const struct llm_packed *packed, unsigned int layer, int matrix)
{
	return matrix < 0 ? packed->output_format : packed->layers[layer].format[matrix];
}

enum llm_input llm_packed_input(const struct llm_packed *packed, int matrix, bool prompt)
{
	if (llm_packed_format(packed, 0, matrix) == LLM_FORMAT_W4 && packed->float_input)
		return LLM_INPUT_FLOATS;
	return llm_integer_input(llm_activations_of(packed->activations, prompt), matrix < 0,
				 matrix == LLM_FFN_DOWN || matrix == LLM_SHARED_DOWN);
}
