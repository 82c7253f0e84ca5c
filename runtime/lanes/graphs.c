/* SPDX-License-Identifier: MIT */
/*
 * The static graphs of a model (graphs.h), and what all of them are built from (graph_builder.h).
 *
 * All matrices with the same input share its quantised form. After a failure libnpu's functions
 * return NULL, and the compiler reports the first failure.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_builder.h"
#include "llm_fail.h"
#include "shadow.h"

const char *llm_graph_name(enum llm_graph which)
{
	static const char *const names[LLM_NR_GRAPHS] = {
		[LLM_GRAPH_SLICE] = "slice",   [LLM_GRAPH_SUBGRAPH] = "subgraph",
		[LLM_GRAPH_LAYERS] = "layers", [LLM_GRAPH_TREE] = "tree",
		[LLM_GRAPH_TOKEN] = "token",   [LLM_GRAPH_CHOSEN] = "chosen",
		[LLM_GRAPH_HEAD] = "head",
	};

	return names[which];
}

struct npu_tensor *builder_vector(struct graph_builder *b, unsigned int part, unsigned int n)
{
	char name[64], what[32];

	llm_layer_tensor_name(part, what, sizeof(what));
	snprintf(name, sizeof(name), "%s%s", b->prefix, what);
	return npu_graph_weight(b->g, name, NPU_F32, 1, n);
}

void llm_graph_scale_name(enum llm_matrix matrix, char *name, size_t bytes)
{
	snprintf(name, bytes, "%s.scale", shadow_input_names[shadow_input_of_matrix(matrix)]);
}

size_t llm_graph_scale_off(unsigned int layer, enum llm_matrix matrix)
{
	return ((size_t)layer * SHADOW_INPUTS + shadow_input_of_matrix(matrix)) * LLM_SCALE_BYTES;
}

float llm_graph_scale(const struct llm_loaded *loaded, unsigned int layer, enum llm_matrix matrix)
{
	const char *slots = npu_buffer_data(loaded->scales);
	float scale;

	memcpy(&scale, slots + llm_graph_scale_off(layer, matrix), sizeof(scale));
	return scale;
}

/* The static scale of the input of @matrix. */
static struct npu_tensor *builder_scale(struct graph_builder *b, int matrix)
{
	char name[64];

	llm_graph_scale_name((enum llm_matrix)matrix, name, sizeof(name));
	return npu_graph_weight(b->g, name, NPU_F32, 1, 1);
}

/* Quantises @in as @input says, once: all its matrices want the same form. */
static void build_quant(struct graph_builder *b, struct graph_input *in, enum llm_input input,
			int matrix)
{
	if (in->q)
		return;
	if (input == LLM_INPUT_INT16)
		in->q = npu_quant16(b->g, in->x, &in->scale);
	else if (input == LLM_INPUT_OUTLIERS)
		in->q = npu_quant_outliers(b->g, in->x, &in->scale, &in->outliers);
	else if (input == LLM_INPUT_STATIC)
		in->q = npu_quant_static(b->g, in->x, builder_scale(b, matrix), &in->scale);
	else
		in->q = npu_quant(b->g, in->x, &in->scale);
}

/* The result @y of a matmul, with its operands in the model's order. */
static struct npu_tensor *in_order(const struct graph_builder *b, struct npu_tensor *y)
{
	return b->permuted ? npu_matmul_permute(b->g, y) : y;
}

/* A matmul with @matrix: enum llm_matrix, or -1 for the output matrix. */
static struct npu_tensor *build_with(struct graph_builder *b, struct graph_input *in, int matrix,
				     const char *name, unsigned int rows, struct npu_tensor *bias)
{
	enum llm_format format = llm_packed_format(b->packed, b->layer, matrix);
	enum llm_input input = llm_packed_input(b->packed, matrix, b->prompt);
	struct npu_tensor *w, *y, *early = input == LLM_INPUT_INT16 ? NULL : bias;
	unsigned int cols = npu_tensor_cols(in->x);

	if (llm_format_is_kq(format))
		w = npu_graph_weight_kq(b->g, name, llm_format_kq(format), rows, cols);
	else if (format == LLM_FORMAT_WK)
		w = npu_graph_weight_wk(b->g, name, rows, cols,
					b->m->layers[b->layer].bits[matrix]);
	else if (format == LLM_FORMAT_W4)
		w = npu_graph_weight_w4(b->g, name, rows, cols, LLM_W4_GROUP);
	else
		w = npu_graph_weight(b->g, name, NPU_W8_PANEL, rows, cols);
	if (input == LLM_INPUT_FLOATS)
		return in_order(b, npu_matmul_w4f(b->g, in->x, w, bias));
	build_quant(b, in, input, matrix);
	if (llm_format_is_kq(format))
		y = npu_matmul_kq(b->g, in->q, in->scale, w, early);
	else if (format == LLM_FORMAT_WK)
		y = npu_matmul_wk(b->g, in->q, in->scale, w, early);
	else if (format == LLM_FORMAT_W4)
		y = npu_matmul_w4(b->g, in->q, in->scale, w, early);
	else
		y = npu_matmul_i8(b->g, in->q, in->scale, w, early);
	y = in_order(b, y);
	if (input == LLM_INPUT_OUTLIERS)
		return npu_add_outliers(b->g, y, in->outliers, w);
	if (input != LLM_INPUT_INT16)
		return y;
	y = npu_fold(b->g, y);
	return bias ? npu_add(b->g, y, bias) : y;
}

/* A matmul with @rows output channels of a layer's matrix. */
static struct npu_tensor *build_rows(struct graph_builder *b, struct graph_input *in,
				     enum llm_matrix which, unsigned int rows)
{
	struct npu_tensor *bias = NULL;
	char name[64];

	if (b->m->layers[0].bias[which])
		bias = builder_vector(b, LLM_LAYER_BIAS + which, rows);
	snprintf(name, sizeof(name), "%s%s", b->prefix, llm_matrix_names[which]);
	return build_with(b, in, (int)which, name, rows, bias);
}

struct npu_tensor *builder_matmul(struct graph_builder *b, struct graph_input *in,
				  enum llm_matrix which)
{
	return build_rows(b, in, which, llm_model_rows(b->m, which));
}

struct npu_tensor *builder_cache(struct graph_builder *b, const char *which)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s", b->prefix, which);
	return npu_graph_state(b->g, name, b->kv, b->kv_rows, b->m->kv_dim);
}

/* Vectors are those of all layers or of none. */
static bool has_vector(const struct graph_builder *b, unsigned int part)
{
	return b->packed->layers[0].part[part].bytes;
}

/* @bias: of a layer norm; NULL: it is an RMS norm. */
static struct npu_tensor *build_norm(struct graph_builder *b, struct npu_tensor *x,
				     struct npu_tensor *w, struct npu_tensor *bias)
{
	return bias ? npu_layernorm(b->g, x, w, bias, b->m->eps)
		    : npu_rmsnorm(b->g, x, w, b->m->eps);
}

struct npu_tensor *builder_norm(struct graph_builder *b, struct npu_tensor *x, unsigned int part)
{
	unsigned int bias =
		part == LLM_LAYER_ATTN_NORM ? LLM_LAYER_ATTN_NORM_BIAS : LLM_LAYER_FFN_NORM_BIAS;

	if (!has_vector(b, part))
		return x;
	return build_norm(b, x, builder_vector(b, part, b->m->n_embd),
			  b->m->features->layer_norm ? builder_vector(b, bias, b->m->n_embd)
						     : NULL);
}

/* The frequencies of the layer's RoPE, a constant that layers share. */
static struct npu_tensor *builder_freqs(struct graph_builder *b, const float *freqs)
{
	unsigned int pairs = b->m->rot_dim / 2;
	bool second = freqs != b->m->inv_freq;

	if (!b->inv_freq[second])
		b->inv_freq[second] =
			npu_graph_const(b->g, second ? "inv_freq2" : "inv_freq", freqs, 1, pairs);
	return b->inv_freq[second];
}

struct npu_tensor *builder_heads(struct graph_builder *b, struct npu_tensor *x, unsigned int heads,
				 unsigned int norm)
{
	const float *freqs = llm_model_freqs(b->m, b->layer, b->n_ctx);
	enum npu_rope_mode mode = b->m->features->rope_halves ? NPU_ROPE_HALVES : NPU_ROPE_ADJACENT;
	unsigned int cols = llm_model_qk_norm_cols(b->m, norm == LLM_LAYER_K_NORM);

	if (has_vector(b, norm))
		x = npu_rmsnorm(b->g, x, builder_vector(b, norm, cols), b->m->qk_eps);
	if (!freqs)
		return x;
	if (b->depths || b->positions)
		return npu_rope_at(b->g, x, builder_freqs(b, freqs),
				   b->depths ? b->depths : b->positions, heads, b->pos, mode);
	return npu_rope(b->g, x, builder_freqs(b, freqs), heads, b->pos, mode);
}

struct npu_tensor *builder_attention(struct graph_builder *b, struct npu_tensor *q,
				     struct npu_tensor *k_cache, struct npu_tensor *v_cache)
{
	const struct llm_model *m = b->m;
	const struct npu_attn_options options = { .mask = b->ancestors,
						  .window = llm_model_window(m, b->layer),
						  .cap = m->attn_cap };
	const struct npu_attn_positions at = { .positions = b->positions,
					       .span = b->span,
					       .window = options.window,
					       .cap = m->attn_cap };

	if (b->positions)
		return npu_attn_at(b->g, q, k_cache, v_cache, m->n_head, m->n_head_kv,
				   m->attn_scale, b->pos, &at);
	return npu_attn_mask(b->g, q, k_cache, v_cache, m->n_head, m->n_head_kv, m->attn_scale,
			     b->pos, &options);
}

struct npu_tensor *builder_act(struct graph_builder *b, struct npu_tensor *gate,
			       struct npu_tensor *up)
{
	switch (b->m->features->activation) {
	case SHAPE_GELU:
		return gate ? npu_glu(b->g, gate, up, NPU_GLU_GELU) : npu_gelu(b->g, up);
	case SHAPE_RELU:
		return gate ? npu_glu(b->g, gate, up, NPU_GLU_RELU) : npu_relu(b->g, up);
	default:
		return gate ? npu_glu(b->g, gate, up, NPU_GLU_SILU) : npu_silu(b->g, up);
	}
}

/* Puts keys and values into the layer's caches. @in: what attention reads. */
static void build_keys(struct graph_builder *b, struct graph_input *in, struct npu_tensor *k_cache,
		       struct npu_tensor *v_cache)
{
	struct npu_tensor *k = builder_heads(b, builder_matmul(b, in, LLM_ATTN_K), b->m->n_head_kv,
					     LLM_LAYER_K_NORM);

	npu_store_rows(b->g, k, k_cache, b->pos);
	npu_store_rows(b->g, builder_matmul(b, in, LLM_ATTN_V), v_cache, b->pos);
}

static struct npu_tensor *build_attention(struct graph_builder *b, struct graph_input *in)
{
	struct npu_tensor *k_cache = builder_cache(b, "k"), *v_cache = builder_cache(b, "v"), *q;
	struct graph_input out = { 0 };

	q = builder_heads(b, builder_matmul(b, in, LLM_ATTN_Q), b->m->n_head, LLM_LAYER_Q_NORM);
	if (!b->positions)
		build_keys(b, in, k_cache, v_cache);
	out.x = builder_attention(b, q, k_cache, v_cache);
	return builder_norm(b, builder_matmul(b, &out, LLM_ATTN_OUTPUT), LLM_LAYER_ATTN_POST_NORM);
}

static struct npu_tensor *build_ffn(struct graph_builder *b, struct graph_input *in)
{
	struct graph_input hidden = { 0 };
	struct npu_tensor *gate = NULL, *up;

	if (llm_model_gated(b->m))
		gate = builder_matmul(b, in, LLM_FFN_GATE);
	up = builder_matmul(b, in, LLM_FFN_UP);
	hidden.x = builder_act(b, gate, up);
	return builder_norm(b, builder_matmul(b, &hidden, LLM_FFN_DOWN), LLM_LAYER_FFN_POST_NORM);
}

static struct npu_tensor *build_layers(struct graph_builder *b, const struct lane_whole *whole,
				       struct npu_tensor *x)
{
	const unsigned int end = whole->layer + whole->layers;

	for (unsigned int i = whole->layer; i < end; i++) {
		struct graph_input in = { 0 };

		snprintf(b->prefix, sizeof(b->prefix), "blk.%u.", i);
		b->layer = i;
		in.x = builder_norm(b, x, LLM_LAYER_ATTN_NORM);
		if (whole->keys && i + 1 == end) {
			build_keys(b, &in, builder_cache(b, "k"), builder_cache(b, "v"));
			break;
		}
		x = npu_add(b->g, x, build_attention(b, &in));
		if (!b->m->parallel)
			in = (struct graph_input){ .x = builder_norm(b, x, LLM_LAYER_FFN_NORM) };
		x = npu_add(b->g, x, build_ffn(b, &in));
	}
	return x;
}

static struct npu_tensor *output_vector(struct graph_builder *b, enum llm_output_vector which,
					unsigned int n)
{
	if (!b->packed->output_vectors[which].bytes)
		return NULL;
	return npu_graph_weight(b->g, llm_output_vector_names[which], NPU_F32, 1, n);
}

/* The logits of @rows tokens of the vocabulary. */
static struct npu_tensor *build_output(struct graph_builder *b, struct graph_input *in,
				       unsigned int rows)
{
	struct npu_tensor *logits =
		build_with(b, in, -1, "output", rows, output_vector(b, LLM_OUTPUT_BIAS, rows));

	return b->m->logit_cap > 0 ? npu_cap(b->g, logits, b->m->logit_cap) : logits;
}

static struct npu_tensor *build_head(struct graph_builder *b, struct npu_tensor *x)
{
	const struct llm_model *m = b->m;
	struct npu_tensor *norm = output_vector(b, LLM_OUTPUT_NORM, m->n_embd);
	struct graph_input in = { 0 };

	in.x = build_norm(b, x, norm, output_vector(b, LLM_OUTPUT_NORM_BIAS, m->n_embd));
	return build_output(b, &in, m->n_vocab);
}

static void build_graph(struct graph_builder *b, const struct lane_whole *whole)
{
	struct npu_tensor *x = npu_graph_input(b->g, "x", NPU_F32, b->rows, b->m->n_embd);

	if (whole->graph == LLM_GRAPH_TREE) {
		b->depths = npu_graph_input(b->g, "depths", NPU_U32, b->rows, 1);
		b->ancestors = npu_graph_input(b->g, "ancestors", NPU_U64, b->rows, 1);
	}
	if (whole->graph == LLM_GRAPH_CHOSEN) {
		b->positions = npu_graph_input(b->g, "positions", NPU_U32, b->rows, 1);
		b->span = whole->span;
		b->pos = NPU_NO_PARAM;
	}
	if (whole->graph != LLM_GRAPH_HEAD)
		x = build_layers(b, whole, x);
	if (whole->graph == LLM_GRAPH_TOKEN || whole->graph == LLM_GRAPH_HEAD)
		npu_graph_output(b->g, "logits", build_head(b, x));
	else
		npu_graph_output(b->g, "y", x);
}

int builder_init(struct graph_builder *b, const struct llm_loaded *loaded, const char *what,
		 unsigned int rows)
{
	*b = (struct graph_builder){
		.m = &loaded->model,
		.packed = &loaded->packed,
		.rows = rows,
		.permuted = loaded->operands == LLM_OPERANDS_PERMUTED,
		.pos = NPU_NO_PARAM,
	};
	snprintf(b->name, sizeof(b->name), "%s_%u", what, rows);
	b->g = npu_graph_create(b->name);
	return b->g ? 0 : llm_fail(-ENOMEM, "no memory for graph %s", b->name);
}

void builder_positions(struct graph_builder *b, const struct lane_memory *memory)
{
	enum llm_kv kv = memory->loaded->kv;

	b->n_ctx = memory->n_ctx;
	b->kv_rows = memory->kv_rows;
	b->kv = kv == LLM_KV_F32 ? NPU_F32 : kv == LLM_KV_F16 ? NPU_F16 : NPU_Q8_0;
	b->pos = npu_graph_param(b->g, "pos");
}

int builder_compile(struct graph_builder *b, void **image, size_t *image_bytes)
{
	int err = npu_graph_compile(b->g, image, image_bytes);

	if (err)
		llm_fail(err, "graph %s: %s", b->name, npu_error());
	npu_graph_free(b->g);
	return err;
}

int llm_graph_build(const struct lane_memory *memory, const struct lane_whole *whole, void **image,
		    size_t *image_bytes)
{
	struct graph_builder b;
	int err = builder_init(&b, memory->loaded, llm_graph_name(whole->graph), whole->rows);

	if (err)
		return err;
	if (whole->graph != LLM_GRAPH_HEAD)
		builder_positions(&b, memory);
	build_graph(&b, whole);
	return builder_compile(&b, image, image_bytes);
}

int llm_graph_build_slice(const struct llm_loaded *loaded, const char *name,
			  const struct lane_slice *slice, void **image, size_t *image_bytes)
{
	struct graph_input in = { 0 };
	struct graph_builder b;
	int err = builder_init(&b, loaded, name, slice->graph_rows);

	if (err)
		return err;
	b.layer = slice->layer;
	b.prompt = slice->prompt;
	in.x = npu_graph_input(b.g, "x", NPU_F32, slice->graph_rows, slice->k);
	for (unsigned int i = 0; i < slice->nr_matrices; i++) {
		const struct lane_columns *c = &slice->columns[i];
		struct npu_tensor *y;

		if (!c->cols)
			continue;
		if (c->matrix < 0)
			y = build_output(&b, &in, c->cols);
		else
			y = build_rows(&b, &in, (enum llm_matrix)c->matrix, c->cols);
		npu_graph_output_columns(b.g, c->output, y, c->n);
	}
	return builder_compile(&b, image, image_bytes);
}

uint32_t llm_graph_timeout_ms(const struct npu_device_info *info, const void *image,
			      size_t image_bytes)
{
	struct npu_image_info image_info;
	uint64_t ms;

	if (npu_image_info(image, image_bytes, &image_info))
		return 0;
	ms = image_info.macs / 1000000;
	if (ms <= info->default_timeout_ms)
		return 0;
	return ms < info->max_timeout_ms ? (uint32_t)ms : info->max_timeout_ms;
}
