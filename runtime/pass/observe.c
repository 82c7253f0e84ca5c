// SPDX-License-Identifier: MIT
#include "observe.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "llm_fail.h"

struct observation {
	const struct pass_runner *r;
	const struct pass *pass;
	const struct plan *plan;
	atomic_uint *left; /* by an operator's first task: slices that have not been computed */
	uint32_t *first; /* by task: its operator's first */
	pthread_mutex_t lock; /* the observer's */
};

/* A shadow matmul and its merge are parts of the matmul. */
static enum llm_op operator_of(const struct lane_work *w)
{
	return w->op == LLM_OP_SHADOW || w->op == LLM_OP_MERGE ? w->matmul : w->op;
}

static bool same_operator(const struct lane_work *a, const struct lane_work *b)
{
	return operator_of(a) == operator_of(b) && a->chunk == b->chunk && a->layer == b->layer &&
	       a->logits_row == b->logits_row;
}

int observation_create(const struct pass_runner *r, const struct pass *pass,
		       const struct plan *plan, struct observation **seen)
{
	uint32_t n = sched_nr_tasks(plan->tasks);
	struct observation *o = *seen = calloc(1, sizeof(*o));

	if (o) {
		pthread_mutex_init(&o->lock, NULL);
		o->left = calloc(n, sizeof(*o->left));
		o->first = calloc(n, sizeof(*o->first));
	}
	if (!o || !o->left || !o->first)
		return llm_fail(-ENOMEM, "no memory for the tasks of %u tokens", pass->n);
	o->r = r;
	o->pass = pass;
	o->plan = plan;
	/* A matmul's slices, or it and its shadow, are added one after another. */
	for (uint32_t i = 0; i < n; i++) {
		bool more = i && same_operator(&plan->works[i - 1], &plan->works[i]);

		o->first[i] = more ? o->first[i - 1] : i;
		atomic_fetch_add(&o->left[o->first[i]], 1);
	}
	return 0;
}

void observation_free(struct observation *o)
{
	if (!o)
		return;
	pthread_mutex_destroy(&o->lock);
	free(o->left);
	free(o->first);
	free(o);
}

/* Logits, or the norms that they are made of. */
static void show_rows(const struct observation *o, const struct lane_work *w, const char *tensor,
		      const float *data, unsigned int cols)
{
	unsigned int first = o->pass->pos + o->plan->chunks[w->chunk].first + w->logits_row;

	if (!o->pass->at) {
		o->r->observer(o->r->observer_ud, tensor, w->layer, first, w->logits, cols, data);
		return;
	}
	for (uint32_t i = 0; i < w->logits; i++)
		o->r->observer(o->r->observer_ud, tensor, w->layer,
			       o->pass->pos + o->pass->at[w->logits_row + i], 1, cols,
			       data + (size_t)i * cols);
}

static void show(const struct observation *o, const struct lane_work *w, const char *tensor,
		 const struct llm_area *area, unsigned int cols)
{
	const struct lane_chunk *c = &o->plan->chunks[w->chunk];
	size_t row = w->op == LLM_OP_HEAD ? 0 : c->row;
	const float *data = area->data + row * cols;

	if (w->op == LLM_OP_HEAD || w->op == LLM_OP_OUTPUT_NORM)
		return show_rows(o, w, tensor, data, cols);
	o->r->observer(o->r->observer_ud, tensor, w->layer, o->pass->pos + c->first, c->n, cols,
		       data);
}

static void show_results(const struct observation *o, const struct lane_work *w)
{
	const struct lane_memory *m = o->r->memory;
	const struct llm_model *model = &m->loaded->model;
	bool before = model->features->norms != LLM_NORMS_AFTER;

	switch (operator_of(w)) {
	case LLM_OP_EMBED:
		return show(o, w, "embed", &m->x, model->n_embd);
	case LLM_OP_ATTN_NORM:
		if (before)
			show(o, w, "attn_norm", &m->xn, model->n_embd);
		return;
	case LLM_OP_QKV:
		show(o, w, "q", &m->q, model->q_dim);
		show(o, w, "k", &m->k, model->kv_dim);
		return show(o, w, "v", &m->v, model->kv_dim);
	case LLM_OP_ROPE:
		show(o, w, "q_rope", &m->q, model->q_dim);
		return show(o, w, "k_rope", &m->k, model->kv_dim);
	case LLM_OP_ATTN:
		return show(o, w, "attn", &m->att, model->q_dim);
	case LLM_OP_ATTN_OUTPUT:
		return show(o, w, "attn_output", &m->y, model->n_embd);
	case LLM_OP_FFN_NORM:
		show(o, w, "attn_residual", &m->x, model->n_embd);
		if (before)
			show(o, w, "ffn_norm", &m->xn, model->n_embd);
		return;
	case LLM_OP_GATE_UP:
		if (llm_model_gated(model))
			show(o, w, "gate", &m->gate, model->n_ff);
		return show(o, w, "up", &m->up, model->n_ff);
	case LLM_OP_ACT:
		return show(o, w, "act", &m->gate, model->n_ff);
	case LLM_OP_DOWN:
		return show(o, w, "down", &m->y, model->n_embd);
	case LLM_OP_EXPERTS:
		return show(o, w, "experts", &m->y, model->n_embd);
	case LLM_OP_ADD:
		return show(o, w, "layer_output", &m->x, model->n_embd);
	case LLM_OP_OUTPUT_NORM:
		return show(o, w, "output_norm", &m->xn, model->n_embd);
	case LLM_OP_HEAD:
		return show(o, w, "logits", o->pass->all ? &m->all : &m->logits, model->n_vocab);
	default:
		return;
	}
}

void observe(struct observation *o, uint32_t task)
{
	if (atomic_fetch_sub(&o->left[o->first[task]], 1) > 1)
		return;
	pthread_mutex_lock(&o->lock);
	show_results(o, &o->plan->works[task]);
	pthread_mutex_unlock(&o->lock);
}
