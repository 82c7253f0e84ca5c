/* SPDX-License-Identifier: MIT */
/*
 * The static graphs of a model.
 *
 * Every matmul is INT8: its input is quantised per row once and used by all matrices that read it. A builder holds
 * what all operators need; operators of a graph that failed give NULL, and the compiler reports the first failure.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "graphs.h"
#include "llm_fail.h"
#include "quant.h"

struct builder {
	const struct llm_model *m;
	struct npu_graph *g;
	unsigned int rows, kv_rows;
	int pos;
	struct npu_tensor *inv_freq;
	char prefix[32]; /* of the weights' symbols */
};

struct quantised {
	struct npu_tensor *q, *scale;
};

const char *llm_graph_name(enum llm_graph which)
{
	static const char *const names[LLM_NR_GRAPHS] = {
		[LLM_GRAPH_QKV] = "qkv",   [LLM_GRAPH_ATTN_OUTPUT] = "attn_output", [LLM_GRAPH_GATE_UP] = "gate_up",
		[LLM_GRAPH_DOWN] = "down", [LLM_GRAPH_BLOCKS] = "blocks",	    [LLM_GRAPH_TOKEN] = "token",
		[LLM_GRAPH_HEAD] = "head",
	};

	return names[which];
}

static struct quantised build_quant(struct builder *b, struct npu_tensor *x)
{
	struct quantised q = { 0 };

	q.q = npu_quant(b->g, x, &q.scale);
	return q;
}

static struct npu_tensor *build_vector(struct builder *b, unsigned int part, unsigned int n)
{
	char name[64], what[32];

	llm_part_name(part, what, sizeof(what));
	snprintf(name, sizeof(name), "%s%s", b->prefix, what);
	return npu_graph_weight(b->g, name, NPU_F32, 1, n);
}

static struct npu_tensor *build_matmul(struct builder *b, struct quantised x, enum llm_matrix which)
{
	unsigned int rows = llm_model_rows(b->m, which);
	struct npu_tensor *w, *bias = NULL;
	char name[64];

	snprintf(name, sizeof(name), "%s%s", b->prefix, llm_matrix_names[which]);
	w = npu_graph_weight(b->g, name, NPU_W8_PANEL, rows, llm_model_cols(b->m, which));
	if (b->m->layers[0].bias[which])
		bias = build_vector(b, LLM_PART_BIAS + which, rows);
	return npu_matmul_i8(b->g, x.q, x.scale, w, bias);
}

static struct npu_tensor *build_cache(struct builder *b, const char *which)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s", b->prefix, which);
	return npu_graph_state(b->g, name, b->kv_rows, b->m->kv_dim);
}

/* Norm per head, where the model has it, and RoPE. */
static struct npu_tensor *build_heads(struct builder *b, struct npu_tensor *x, unsigned int heads, unsigned int norm)
{
	if (norm == LLM_PART_Q_NORM ? b->m->layers[0].q_norm : b->m->layers[0].k_norm)
		x = npu_rmsnorm(b->g, x, build_vector(b, norm, b->m->head_dim), b->m->eps);
	return npu_rope(b->g, x, b->inv_freq, heads, b->pos, b->m->rope_halves ? NPU_ROPE_HALVES : NPU_ROPE_ADJACENT);
}

static struct npu_tensor *build_attention(struct builder *b, struct npu_tensor *x)
{
	const struct llm_model *m = b->m;
	struct npu_tensor *k_cache = build_cache(b, "k"), *v_cache = build_cache(b, "v"), *q, *k;
	struct quantised xq;

	xq = build_quant(b, npu_rmsnorm(b->g, x, build_vector(b, LLM_PART_ATTN_NORM, m->n_embd), m->eps));
	q = build_heads(b, build_matmul(b, xq, LLM_ATTN_Q), m->n_head, LLM_PART_Q_NORM);
	k = build_heads(b, build_matmul(b, xq, LLM_ATTN_K), m->n_head_kv, LLM_PART_K_NORM);
	npu_store_rows(b->g, k, k_cache, b->pos);
	npu_store_rows(b->g, build_matmul(b, xq, LLM_ATTN_V), v_cache, b->pos);
	q = npu_attn(b->g, q, k_cache, v_cache, m->n_head, m->n_head_kv, 1.0f / sqrtf((float)m->head_dim), b->pos);
	return build_matmul(b, build_quant(b, q), LLM_ATTN_OUTPUT);
}

static struct npu_tensor *build_ffn(struct builder *b, struct npu_tensor *x)
{
	struct npu_tensor *gate, *up;
	struct quantised xq;

	xq = build_quant(b, npu_rmsnorm(b->g, x, build_vector(b, LLM_PART_FFN_NORM, b->m->n_embd), b->m->eps));
	gate = build_matmul(b, xq, LLM_FFN_GATE);
	up = build_matmul(b, xq, LLM_FFN_UP);
	return build_matmul(b, build_quant(b, npu_mul(b->g, npu_silu(b->g, gate), up)), LLM_FFN_DOWN);
}

static void build_inv_freq(struct builder *b)
{
	unsigned int half = b->m->rot_dim / 2;
	float *inv_freq = malloc(half * sizeof(*inv_freq));

	if (!inv_freq)
		return;
	for (unsigned int i = 0; i < half; i++)
		inv_freq[i] = (float)b->m->inv_freq[i];
	b->inv_freq = npu_graph_const(b->g, "inv_freq", inv_freq, 1, half);
	free(inv_freq);
}

static struct npu_tensor *build_blocks(struct builder *b, struct npu_tensor *x)
{
	build_inv_freq(b);
	for (unsigned int i = 0; i < b->m->n_layer; i++) {
		snprintf(b->prefix, sizeof(b->prefix), "blk.%u.", i);
		x = npu_add(b->g, x, build_attention(b, x));
		x = npu_add(b->g, x, build_ffn(b, x));
	}
	return x;
}

static struct npu_tensor *build_head(struct builder *b, struct npu_tensor *x)
{
	const struct llm_model *m = b->m;
	struct npu_tensor *norm = npu_graph_weight(b->g, "output_norm", NPU_F32, 1, m->n_embd);
	struct npu_tensor *w = npu_graph_weight(b->g, "output", NPU_W8_PANEL, m->n_vocab, m->n_embd);
	struct quantised xq = build_quant(b, npu_rmsnorm(b->g, x, norm, m->eps));

	return npu_matmul_i8(b->g, xq.q, xq.scale, w, NULL);
}

static void build_graph(struct builder *b, enum llm_graph which)
{
	const struct llm_model *m = b->m;
	unsigned int cols = which == LLM_GRAPH_ATTN_OUTPUT ? m->q_dim : which == LLM_GRAPH_DOWN ? m->n_ff : m->n_embd;
	struct npu_tensor *x = npu_graph_input(b->g, "x", NPU_F32, b->rows, cols);
	struct quantised xq;

	if (which == LLM_GRAPH_QKV || which == LLM_GRAPH_BLOCKS || which == LLM_GRAPH_TOKEN)
		b->pos = npu_graph_param(b->g, "pos");
	switch (which) {
	case LLM_GRAPH_QKV:
		xq = build_quant(b, x);
		npu_graph_output(b->g, "q", build_matmul(b, xq, LLM_ATTN_Q));
		npu_graph_output(b->g, "k", build_matmul(b, xq, LLM_ATTN_K));
		npu_store_rows(b->g, build_matmul(b, xq, LLM_ATTN_V), build_cache(b, "v"), b->pos);
		break;
	case LLM_GRAPH_ATTN_OUTPUT:
		npu_graph_output(b->g, "y", build_matmul(b, build_quant(b, x), LLM_ATTN_OUTPUT));
		break;
	case LLM_GRAPH_GATE_UP:
		xq = build_quant(b, x);
		npu_graph_output(b->g, "gate", build_matmul(b, xq, LLM_FFN_GATE));
		npu_graph_output(b->g, "up", build_matmul(b, xq, LLM_FFN_UP));
		break;
	case LLM_GRAPH_DOWN:
		npu_graph_output(b->g, "y", build_matmul(b, build_quant(b, x), LLM_FFN_DOWN));
		break;
	case LLM_GRAPH_BLOCKS:
		npu_graph_output(b->g, "y", build_blocks(b, x));
		break;
	case LLM_GRAPH_TOKEN:
		npu_graph_output(b->g, "logits", build_head(b, build_blocks(b, x)));
		break;
	default:
		npu_graph_output(b->g, "logits", build_head(b, x));
		break;
	}
}

int llm_graph_build(const struct llm_model *model, enum llm_graph which, unsigned int rows, unsigned int kv_rows,
		    void **image, size_t *image_bytes)
{
	struct builder b = { .m = model, .rows = rows, .kv_rows = kv_rows, .pos = NPU_NO_PARAM };
	char name[32];
	int err;

	snprintf(name, sizeof(name), "%s_%u", llm_graph_name(which), rows);
	b.g = npu_graph_create(name);
	if (!b.g)
		return llm_fail(-ENOMEM, "no memory for graph %s", name);
	build_graph(&b, which);
	err = npu_graph_compile(b.g, image, image_bytes);
	if (err)
		llm_fail(err, "graph %s: %s", name, npu_error());
	npu_graph_free(b.g);
	return err;
}
