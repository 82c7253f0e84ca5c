// SPDX-License-Identifier: MIT
/* Subgraphs: operators of a layer that follow one another, or all of them. */
#include <math.h>
#include <stdio.h>

#include "graph_builder.h"
#include "llm_fail.h"

#define IN(area) (1u << LANE_##area)
#define MATRIX(which) (1u << LLM_##which)

/* What the operators of a layer read and write. */
static const struct {
	unsigned int reads, writes, matrices;
} uses[] = {
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

unsigned int lane_subgraph_matrices(enum llm_op first, enum llm_op last)
{
	unsigned int matrices = 0;

	for (enum llm_op op = first; op <= last; op++)
		matrices |= uses[op].matrices;
	return matrices;
}

/* Of areas that operators up to @last write, those that are read before they are written again. */
static unsigned int read_later(enum llm_op last, unsigned int written)
{
	unsigned int out = 0;
	enum llm_op op = last;

	while (written) {
		op = op == LLM_OP_ADD ? LLM_OP_ATTN_NORM : op + 1;
		out |= written & uses[op].reads;
		written &= ~(uses[op].reads | uses[op].writes);
		/* A whole layer later nothing is left that anyone reads. */
		if (op == last)
			break;
	}
	return out;
}

struct lane_areas lane_subgraph_areas(enum llm_op first, enum llm_op last)
{
	struct lane_areas areas = { 0, 0 };
	unsigned int written = 0;

	for (enum llm_op op = first; op <= last; op++) {
		areas.in |= uses[op].reads & ~written;
		written |= uses[op].writes;
	}
	areas.out = read_later(last, written);
	return areas;
}

/* ---- building ---- */

struct values {
	struct graph_builder *b;
	struct npu_tensor *of[LANE_NR_AREAS];
	struct npu_tensor *k_cache, *v_cache; /* NULL: not needed */
};

static struct npu_tensor *norm(struct values *v, unsigned int part)
{
	const struct llm_model *m = v->b->m;

	return npu_rmsnorm(v->b->g, v->of[LANE_X], builder_vector(v->b, part, m->n_embd), m->eps);
}

static void add_residual(struct values *v)
{
	v->of[LANE_X] = npu_add(v->b->g, v->of[LANE_X], v->of[LANE_Y]);
}

static void add_qkv(struct values *v)
{
	struct graph_input in = { .x = v->of[LANE_XN] };

	v->of[LANE_Q] = builder_matmul(v->b, &in, LLM_ATTN_Q);
	v->of[LANE_K] = builder_matmul(v->b, &in, LLM_ATTN_K);
	v->of[LANE_V] = builder_matmul(v->b, &in, LLM_ATTN_V);
}

static void add_rope(struct values *v)
{
	struct graph_builder *b = v->b;

	v->of[LANE_Q] = builder_heads(b, v->of[LANE_Q], b->m->n_head, LLM_LAYER_Q_NORM);
	npu_store_rows(b->g, builder_heads(b, v->of[LANE_K], b->m->n_head_kv, LLM_LAYER_K_NORM),
		       v->k_cache, b->pos);
	npu_store_rows(b->g, v->of[LANE_V], v->v_cache, b->pos);
}

static void add_attention(struct values *v)
{
	struct graph_builder *b = v->b;

	v->of[LANE_ATT] = builder_attention(b, v->of[LANE_Q], v->k_cache, v->v_cache);
}

static void add_gate_up(struct values *v)
{
	struct graph_input in = { .x = v->of[LANE_XN] };

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
		v->of[LANE_XN] = norm(v, LLM_LAYER_ATTN_NORM);
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
		add_residual(v);
		v->of[LANE_XN] = norm(v, LLM_LAYER_FFN_NORM);
		break;
	case LLM_OP_GATE_UP:
		add_gate_up(v);
		break;
	case LLM_OP_ACT:
		v->of[LANE_GATE] = npu_glu(v->b->g, v->of[LANE_GATE], v->of[LANE_UP], NPU_GLU_SILU);
		break;
	case LLM_OP_DOWN:
		add_projection(v, LANE_GATE, LLM_FFN_DOWN);
		break;
	default:
		add_residual(v);
		break;
	}
}

int llm_graph_build_subgraph(const struct llm_loaded *loaded, const struct lane_subgraph *sub,
			     unsigned int kv_rows, void **image, size_t *image_bytes)
{
	const struct lane_areas areas = lane_subgraph_areas(sub->first, sub->last);
	char what[32], name[16];
	struct graph_builder b;
	struct values v = { .b = &b };
	int err;

	snprintf(what, sizeof(what), "%s-%s", llm_op_name((uint16_t)sub->first),
		 llm_op_name((uint16_t)sub->last));
	err = builder_init(&b, loaded, what, sub->rows);
	if (err)
		return err;
	b.layer = sub->layer;
	b.prompt = sub->prompt;
	if (lane_subgraph_has_cache(sub->first, sub->last)) {
		builder_positions(&b, loaded, kv_rows);
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
