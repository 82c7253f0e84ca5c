/* SPDX-License-Identifier: MIT */
/*
 * W8A8 weights.
 *
 * Row n of a matrix (an output channel) becomes round(w / s) with s = max|w| / 127: symmetric, so that the NPU's
 * integer sum needs one multiplication to become the float result. The NPU's panels have 64 channels each; a panel is
 * a task of the pool, and needs nothing of another one.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_kernels.h"
#include "llm_fail.h"
#include "npu_graph.h"
#include "quant.h"
#include "threadpool.h"

#define PANEL_ROWS 64
/* Alignment of what a job binds. */
#define BIND_ALIGN 64

void llm_part_name(unsigned int part, char *name, size_t bytes)
{
	static const char *const norms[] = { "attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm" };

	if (part >= LLM_PART_ATTN_NORM)
		snprintf(name, bytes, "%s", norms[part - LLM_PART_ATTN_NORM]);
	else
		snprintf(name, bytes, "%s%s", llm_matrix_names[part % LLM_NR_MATRICES],
			 part >= LLM_PART_BIAS ? ".bias" : "");
}

struct packer {
	const struct llm_packed_source *src;
	const struct gguf_tensor *tensor;
	uint8_t *panels;
	unsigned int rows, cols;
	uint8_t *scratch; /* per thread: scales, a widened row, a panel's rows as INT8 */
	size_t scratch_bytes;
	atomic_uint bad_row; /* the first row that is not finite; UINT_MAX: none */
	uint64_t done, total; /* matrix bytes */
};

static size_t packer_scratch_bytes(unsigned int cols)
{
	return (PANEL_ROWS * sizeof(float) + (size_t)cols * (sizeof(float) + PANEL_ROWS) + 63) / 64 * 64;
}

static void packer_panel(void *arg, unsigned int task, unsigned int worker)
{
	struct packer *p = arg;
	const struct gguf_type_traits *traits = gguf_type_traits(p->tensor->type);
	size_t row_bytes = (size_t)(p->cols / traits->block_values) * traits->block_bytes;
	float *scales = (float *)(p->scratch + worker * p->scratch_bytes), *row = scales + PANEL_ROWS;
	int8_t *q = (int8_t *)(row + p->cols);
	unsigned int n0 = task * PANEL_ROWS, nr = p->rows - n0 < PANEL_ROWS ? p->rows - n0 : PANEL_ROWS;

	for (unsigned int r = 0; r < nr; r++) {
		gguf_dequantize(p->tensor->type, (const uint8_t *)p->tensor->data + (n0 + r) * row_bytes, row, p->cols);
		if (p->src->kernels->quant(q + (size_t)r * p->cols, &scales[r], row, p->cols)) {
			unsigned int bad = atomic_load(&p->bad_row);

			while (n0 + r < bad && !atomic_compare_exchange_weak(&p->bad_row, &bad, n0 + r))
				;
			return;
		}
	}
	npu_pack_w8(p->panels, p->rows, p->cols, n0, nr, q, scales);
}

static int packer_matrix(struct packer *p, const struct gguf_tensor *t, struct npu_buffer *buf, size_t off)
{
	p->tensor = t;
	p->panels = (uint8_t *)npu_buffer_data(buf) + off;
	p->rows = (unsigned int)t->dims[1];
	p->cols = (unsigned int)t->dims[0];
	atomic_store(&p->bad_row, UINT32_MAX);
	llm_pool_run(p->src->pool, packer_panel, p, (p->rows + PANEL_ROWS - 1) / PANEL_ROWS);
	if (atomic_load(&p->bad_row) != UINT32_MAX)
		return llm_fail(-EINVAL, "%s: row %u of tensor %s holds a value that is not finite", p->src->path,
				atomic_load(&p->bad_row), t->name);
	gguf_tensor_done(p->src->file, t);
	p->done += npu_w8_bytes(p->rows, p->cols);
	if (p->src->progress && p->src->progress(p->src->ud, (double)p->done / (double)p->total, t->name))
		return llm_fail(-ECANCELED, "%s: loading was stopped at tensor %s", p->src->path, t->name);
	return 0;
}

static const float *layer_vector(const struct llm_layer *layer, unsigned int part)
{
	switch (part) {
	case LLM_PART_ATTN_NORM:
		return layer->attn_norm;
	case LLM_PART_FFN_NORM:
		return layer->ffn_norm;
	case LLM_PART_Q_NORM:
		return layer->q_norm;
	case LLM_PART_K_NORM:
		return layer->k_norm;
	default:
		return layer->bias[part - LLM_PART_BIAS];
	}
}

/* Sizes and places of a block's parts; returns the bytes of its buffer. */
static size_t block_plan(struct llm_packed_block *block, const struct llm_model *m, const struct llm_layer *layer)
{
	size_t off = 0;

	for (unsigned int part = 0; part < LLM_NR_PARTS; part++) {
		unsigned int rows = llm_model_rows(m, part % LLM_NR_MATRICES);
		size_t bytes;

		if (part < LLM_PART_BIAS)
			bytes = npu_w8_bytes(rows, llm_model_cols(m, part));
		else if (!layer_vector(layer, part))
			bytes = 0;
		else if (part < LLM_PART_ATTN_NORM)
			bytes = rows * sizeof(float);
		else
			bytes = (part < LLM_PART_Q_NORM ? m->n_embd : m->head_dim) * sizeof(float);
		block->part[part].off = off;
		block->part[part].bytes = bytes;
		off += (bytes + BIND_ALIGN - 1) / BIND_ALIGN * BIND_ALIGN;
	}
	return off;
}

static int packer_block(struct packer *p, struct llm_packed_block *block, unsigned int i)
{
	const struct llm_model *m = p->src->model;
	const struct llm_layer *layer = &m->layers[i];
	size_t bytes = block_plan(block, m, layer);
	int err = npu_buffer_create(p->src->ctx, bytes, NPU_BUFFER_DEVICE_READ_ONLY, &block->buf);

	if (err)
		return llm_fail(err, "%s: weights of block %u: %s", p->src->path, i, npu_error());
	for (unsigned int part = LLM_PART_BIAS; part < LLM_NR_PARTS; part++) {
		if (block->part[part].bytes)
			memcpy((uint8_t *)npu_buffer_data(block->buf) + block->part[part].off,
			       layer_vector(layer, part), block->part[part].bytes);
	}
	for (unsigned int w = 0; !err && w < LLM_NR_MATRICES; w++)
		err = packer_matrix(p, layer->matrix[w], block->buf, block->part[w].off);
	return err;
}

static int packer_head(struct packer *p, struct llm_packed *packed)
{
	const struct llm_model *m = p->src->model;
	int err;

	packed->output_off = (m->n_embd * sizeof(float) + BIND_ALIGN - 1) / BIND_ALIGN * BIND_ALIGN;
	packed->output_bytes = npu_w8_bytes(m->n_vocab, m->n_embd);
	err = npu_buffer_create(p->src->ctx, packed->output_off + packed->output_bytes, NPU_BUFFER_DEVICE_READ_ONLY,
				&packed->head);
	if (err)
		return llm_fail(err, "%s: weights of the output: %s", p->src->path, npu_error());
	memcpy(npu_buffer_data(packed->head), m->output_norm, m->n_embd * sizeof(float));
	return packer_matrix(p, m->output, packed->head, packed->output_off);
}

int llm_packed_load(struct llm_packed *packed, const struct llm_packed_source *src)
{
	const struct llm_model *m = src->model;
	unsigned int cols = m->n_embd > m->n_ff ? m->n_embd : m->n_ff;
	struct packer p = { .src = src };
	int err = 0;

	if (m->q_dim > cols)
		cols = m->q_dim;
	for (unsigned int w = 0; w < LLM_NR_MATRICES; w++)
		p.total += npu_w8_bytes(llm_model_rows(m, w), llm_model_cols(m, w)) * m->n_layer;
	p.total += npu_w8_bytes(m->n_vocab, m->n_embd);
	p.scratch_bytes = packer_scratch_bytes(cols);
	p.scratch = aligned_alloc(64, p.scratch_bytes * llm_pool_threads(src->pool));
	packed->n_layer = m->n_layer;
	packed->blocks = calloc(m->n_layer, sizeof(*packed->blocks));
	if (!p.scratch || !packed->blocks)
		err = llm_fail(-ENOMEM, "%s: no memory to quantise the weights", src->path);
	for (unsigned int i = 0; !err && i < m->n_layer; i++)
		err = packer_block(&p, &packed->blocks[i], i);
	if (!err)
		err = packer_head(&p, packed);
	packed->weight_bytes = p.total;
	free(p.scratch);
	if (err)
		llm_packed_free(packed);
	return err;
}

void llm_packed_free(struct llm_packed *packed)
{
	for (unsigned int i = 0; packed->blocks && i < packed->n_layer; i++) {
		if (packed->blocks[i].buf)
			npu_buffer_free(packed->blocks[i].buf);
	}
	free(packed->blocks);
	if (packed->head)
		npu_buffer_free(packed->head);
	memset(packed, 0, sizeof(*packed));
}
