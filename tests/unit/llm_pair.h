/* SPDX-License-Identifier: MIT */
/* An engine of a random model, with two sessions that are to be the same. After cmocka.h. */
#ifndef LLM_PAIR_H
#define LLM_PAIR_H

#include <errno.h>

#include "llm_open.h"
#include "tiny_random.h"

/* Keys are summed up by segments of 512, so prompts end on either side of a bound. */
#define MAX_TOKENS 640

/* An engine, two sessions that are to be the same, and a prompt. */
struct pair {
	struct tiny_model t;
	struct llm_engine *engine;
	struct llm_session *s, *plain;
	unsigned int n_vocab;
	int32_t ids[MAX_TOKENS];
};

static inline void eval(struct llm_session *s, const int32_t *ids, size_t n)
{
	if (llm_session_eval(s, ids, n))
		fail_msg("%s", llm_error());
}

static inline struct llm_options options_of(enum llm_placement placement, enum llm_kv kv)
{
	return (struct llm_options){
		.choices = { .placement = placement, .kv = kv },
		.threads = any(1, 3),
		.chunk = 16 * any(1, 6),
		.gpu = LLM_GPU_HOST,
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = any(1, 2) },
	};
}

/* A model of an architecture, with all kinds of its layers, and RoPE that it alone may have. */
static inline struct tiny_config pair_config(const char *arch)
{
	const struct tiny_arch *a = tiny_arch_of(arch);
	unsigned int step = a->window_step > a->no_rope_step ? a->window_step : a->no_rope_step;
	struct tiny_config c = tiny_any(arch, MAX_TOKENS, step > 2 ? step : 2, 32 * any(1, 2), 4);

	if (!strcmp(arch, "llama")) {
		c.bias = any(0, 1);
		c.rope_factors = any(0, 1);
	}
	if (!strcmp(arch, "phi3") && any(0, 1)) {
		c.longrope = 1.25;
		c.n_ctx_orig = 32 * any(1, 2 * MAX_TOKENS / 32);
	}
	if (!strcmp(arch, "qwen2") && any(0, 1)) {
		c.yarn = 4;
		c.n_ctx_orig = MAX_TOKENS / 4;
	}
	return c;
}

/* Returns whether the placement runs the model of this architecture; if not, it says what to do. */
static inline bool pair_open(struct pair *p, const char *arch, struct llm_options *o)
{
	const struct tiny_config config = pair_config(arch);
	int err;

	tiny_create(&p->t, &config, random_u64(&seed_state));
	o->model = tiny_write(&p->t);
	err = llm_engine_open(o, &p->engine);
	if (!err)
		return true;
	if (err != -ENOTSUP || !strstr(llm_error(), "choose "))
		fail_msg("%s: %s", arch, llm_error());
	tiny_free(&p->t);
	return false;
}

/* @arch NULL: any that the placement runs. */
static inline void pair_create(struct pair *p, const char *arch, struct llm_options *o)
{
	while (!pair_open(p, arch ? arch : tiny_any_arch(true), o))
		if (arch)
			fail_msg("%s", llm_error());
	print_message("%s, placement %s\n", p->t.c.arch,
		      llm_choice_name(LLM_CHOICE_PLACEMENT, o->choices.placement));
	p->n_vocab = p->t.c.n_vocab;
	for (int i = 0; i < MAX_TOKENS; i++)
		p->ids[i] = (int32_t)any(0, p->n_vocab - 1);
	p->s = new_session(p->engine, MAX_TOKENS);
	p->plain = new_session(p->engine, MAX_TOKENS);
}

static inline void pair_free(struct pair *p)
{
	llm_session_free(p->s);
	llm_session_free(p->plain);
	llm_engine_close(p->engine);
	tiny_free(&p->t);
}

static inline void expect_same(const struct pair *p, const float *got, const float *want,
			       const char *what)
{
	assert_non_null(got);
	if (memcmp(got, want, p->n_vocab * sizeof(float)))
		fail_msg("%s: other bits", what);
}

#endif /* LLM_PAIR_H */
