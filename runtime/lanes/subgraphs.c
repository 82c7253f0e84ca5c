// SPDX-License-Identifier: MIT
/* Subgraphs: operators of a layer that follow one another, or all of them. */
#include <stdio.h>

#include "graph_builder.h"
#include "llm_fail.h"

#define IN(area) (1u << LANE_##area)
#define MATRIX(which) (1u << LLM_##which)

/* What an operator of a layer reads and writes. */
struct use {
	unsigned int reads, writes, matrices;
};

static struct use use_of(const struct llm_model *m, const struct lane_subgraph *sub, enum llm_op op)
{
	static const struct use uses[] = {
		[LLM_OP_ATTN_NORM] = { IN(X), IN(XN), 0 },
		[LLM_OP_QKV] = { IN(XN), IN(Q) | IN(K) | IN(V),
				 MATRIX(ATTN_Q) | MATRIX(ATTN_K) | MATRIX(ATTN_V) },
		[LLM_OP_ROPE] = { IN(Q) | IN(K) | IN(V), IN(Q), 0 },
		[LLM_OP_ATTN] = { IN(Q), IN(ATT), 0 },
		[LLM_OP_ATTN_OUTPUT] = { IN(ATT), IN(Y), MATRIX(ATTN_OUTPUT) },
		[LLM_OP_FFN_NORM] = { IN(X) | IN(Y), IN(X) | IN(XN), 0 },
		[LLM_OP_GATE_UP] = { IN(XN), IN(GATE) | IN(UP), MATRIX(FFN_GATE) | MATRIX(FFN_UP) },
		[LLM_OP_ACT] = { IN(GATE) | IN(UP), IN(GATE), 0 },
		[LLM_OP_DOWN] = { IN(GATE), IN(Y), MATRIX(FFN_DOWN) },
		[LLM_OP_ADD] = { IN(X) | IN(Y), IN(X), 0 },
	};
	bool after = m->features->norms == LLM_NORMS_AFTER;
	struct use use = uses[op];

	if (after && op == LLM_OP_ATTN_NORM)
		use = (struct use){ 0, 0, 0 };
	if (after && use.reads == IN(XN))
		use.reads = IN(X);
	if (op == LLM_OP_FFN_NORM && (after || m->parallel))
		use.writes = IN(X);
	if (op == LLM_OP_ROPE &&
	    (sub->keys || (m->layers[sub->layer].no_rope && !m->layers[sub->layer].q_norm)))
		use = (struct use){ IN(K) | IN(V), 0, 0 };
	if (op == LLM_OP_QKV && sub->keys)
		use = (struct use){ use.reads, IN(K) | IN(V), MATRIX(ATTN_K) | MATRIX(ATTN_V) };
	if (op == LLM_OP_GATE_UP && !llm_model_gated(m))
		use = (struct use){ use.reads, IN(UP), MATRIX(FFN_UP) };
	if (op == LLM_OP_ACT && !llm_model_gated(m))
		use.reads = IN(UP);
	return use;
}

const char *lane_area_name(enum lane_area area)
{
	static const char *const names[LANE_NR_AREAS] = { "x", "y",   "xn",   "q", "k",
							  "v", "att", "gate", "up" };

	return names[area];
}

unsigned int lane_area_cols(const struct llm_model *m, enum lane_area area)
{
	switch (area) {
	case LANE_Q:
	case LANE_ATT:
		return m->q_dim;
	case LANE_K:
	case LANE_V:
		return m->kv_dim;
	case LANE_GATE:
	case LANE_UP:
		return m->n_ff;
	default:
		return m->n_embd;
	}
}

bool lane_subgraph_has_cache(enum llm_op first, enum llm_op last)
{
	return first <= LLM_OP_ATTN && last >= LLM_OP_ROPE;
}

unsigned int lane_subgraph_matrices(const struct llm_model *model, const struct lane_subgraph *sub)
{
	unsigned int matrices = 0;

	for (enum llm_op op = sub->first; op <= sub->last; op++)
		matrices |= use_of(model, sub, op).matrices;
	return matrices;
}

/* Of areas that its operators write, those that are read before they are written again. */
static unsigned int read_later(const struct llm_model *m, const struct lane_subgraph *sub,
			       unsigned int written)
{
	unsigned int out = 0;
	enum llm_op op = sub->last;

	while (written) {
		struct use use;

		op = op == LLM_OP_ADD ? LLM_OP_ATTN_NORM : op + 1;
		use = use_of(m, sub, op);
		out |= written & use.reads;
		written &= ~(use.reads | use.writes);
		/* A whole layer later nothing is left that anyone reads. */
		if (op == sub->last)
			break;
	}
	return out;
}

struct lane_areas lane_subgraph_areas(const struct llm_model *model,
				      const struct lane_subgraph *sub)
{
	struct lane_areas areas = { 0, 0 };
	unsigned int written = 0;

	for (enum llm_op op = sub->first; op <= sub->last; op++) {
		struct use use = use_of(model, sub, op);

		areas.in |= use.reads & ~written;
		written |= use.writes;
	}
	areas.out = read_later(model, sub, written);
	return areas;
}

/* ---- building ---- */

struct values {
	struct graph_builder *b;
	struct npu_tensor *of[LANE_NR_AREAS];
	struct npu_tensor *k_cache, *v_cache; /* NULL: not needed */
	bool keys; /* no queries */
};

/* x += y, or its norm @part. */
static void add_residual(struct values *v, unsigned int part)
{
	struct npu_tensor *y = builder_norm(v->b, v->of[LANE_Y], part);

	v->of[LANE_X] = npu_add(v->b->g, v->of[LANE_X], y);
}

/* What matmuls read of x. */
static struct npu_tensor *input(const struct values *v)
{
	return v->of[v->b->m->features->norms == LLM_NORMS_AFTER ? LANE_X : LANE_XN];
}

static void add_qkv(struct values *v)
{
	struct graph_input in = { .x = input(v) };

	if (!v->keys)
		v->of[LANE_Q] = builder_matmul(v->b, &in, LLM_ATTN_Q);
	v->of[LANE_K] = builder_matmul(v->b, &in, LLM_ATTN_K);
	v->of[LANE_V] = builder_matmul(v->b, &in, LLM_ATTN_V);
}

static void add_rope(struct values *v)
{
	struct graph_builder *b = v->b;

	if (!v->keys)
		v->of[LANE_Q] = builder_heads(b, v->of[LANE_Q], b->m->n_head, LLM_LAYER_Q_NORM);
	npu_store_rows(b->g, builder_heads(b, v->of[LANE_K], b->m->n_head_kv, LLM_LAYER_K_NORM),
		       v->k_cache, b->pos);
	npu_store_rows(b->g, v->of[LANE_V], v->v_cache, b->pos);
}

static void add_attention(struct values *v)
{
	v->of[LANE_ATT] = builder_attention(v->b, v->of[LANE_Q], v->k_cache, v->v_cache);
}

static void add_gate_up(struct values *v)
{
	struct graph_input in = { .x = input(v) };

	if (llm_model_gated(v->b->m))
		v->of[LANE_GATE] = builder_matmul(v->b, &in, LLM_FFN_GATE);
	v->of[LANE_UP] = builder_matmul(v->b, &in, LLM_FFN_UP);
}

static void add_projection(struct values *v, enum lane_area from, enum llm_matrix which)
{
	struct graph_input in = { .x = v->of[from] };

	v->of[LANE_Y] = builder_matmul(v->b, &in, which);
}

static void add_op(struct values *v, enum llm_op op)
{
	switch (op) {
	case LLM_OP_ATTN_NORM:
		v->of[LANE_XN] = builder_norm(v->b, v->of[LANE_X], LLM_LAYER_ATTN_NORM);
		break;
	case LLM_OP_QKV:
		add_qkv(v);
		break;
	case LLM_OP_ROPE:
		add_rope(v);
		break;
	case LLM_OP_ATTN:
		add_attention(v);
		break;
	case LLM_OP_ATTN_OUTPUT:
		add_projection(v, LANE_ATT, LLM_ATTN_OUTPUT);
		break;
	case LLM_OP_FFN_NORM:
		add_residual(v, LLM_LAYER_ATTN_POST_NORM);
		if (!v->b->m->parallel)
			v->of[LANE_XN] = builder_norm(v->b, v->of[LANE_X], LLM_LAYER_FFN_NORM);
		break;
	case LLM_OP_GATE_UP:
		add_gate_up(v);
		break;
	case LLM_OP_ACT:
		v->of[LANE_GATE] = builder_act(
			v->b, llm_model_gated(v->b->m) ? v->of[LANE_GATE] : NULL, v->of[LANE_UP]);
		break;
	case LLM_OP_DOWN:
		add_projection(v, LANE_GATE, LLM_FFN_DOWN);
		break;
	default:
		add_residual(v, LLM_LAYER_FFN_POST_NORM);
		break;
	}
}

int llm_graph_build_subgraph(const struct lane_memory *memory, const struct lane_subgraph *sub,
			     void **image, size_t *image_bytes)
{
	const struct lane_areas areas = lane_subgraph_areas(&memory->loaded->model, sub);
	char what[32], name[16];
	struct graph_builder b;
	struct values v = { .b = &b, .keys = sub->keys };
	int err;

	snprintf(what, sizeof(what), "%s-%s", llm_op_name((uint16_t)sub->first),
		 llm_op_name((uint16_t)sub->last));
	err = builder_init(&b, memory->loaded, what, sub->rows);
	if (err)
		return err;
	b.layer = sub->layer;
	b.prompt = sub->prompt;
	if (lane_subgraph_has_cache(sub->first, sub->last)) {
		builder_positions(&b, memory);
		v.k_cache = builder_cache(&b, "k");
		v.v_cache = builder_cache(&b, "v");
	}
	for (enum lane_area a = 0; a < LANE_NR_AREAS; a++) {
		snprintf(name, sizeof(name), "%s.in", lane_area_name(a));
		if (areas.in >> a & 1)
			v.of[a] = npu_graph_input(b.g, name, NPU_F32, sub->rows,
						  lane_area_cols(b.m, a));
	}
	for (enum llm_op op = sub->first; op <= sub->last; op++)
		add_op(&v, op);
	for (enum lane_area a = 0; a < LANE_NR_AREAS; a++) {
		if (!(areas.out >> a & 1))
			continue;
		snprintf(name, sizeof(name), "%s.out", lane_area_name(a));
		npu_graph_output(b.g, name, v.of[a]);
	}
	return builder_compile(&b, image, image_bytes);
}
