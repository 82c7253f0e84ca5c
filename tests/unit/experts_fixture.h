/* SPDX-License-Identifier: MIT */
/* Random models with experts, and what tests of them do with engines. After cmocka.h. */
#ifndef EXPERTS_FIXTURE_H
#define EXPERTS_FIXTURE_H

#include "llm_open.h"
#include "tiny_random.h"

#define MAX_IDS 48

static const char *const archs[] = { "llama", "qwen2moe", "qwen3moe" };
#define NR_ARCHS 3

/* @panels: an expert's columns are whole panels, as placement fine has them. */
static inline struct tiny_config any_config(const char *arch, bool panels)
{
	struct tiny_config c =
		tiny_any(arch, 64, any(1, 2), panels ? 32 * any(1, 2) : 2 * any(4, 16), any(1, 2));

	if (!c.n_expert) {
		c.n_head = 2 * c.n_head_kv;
		c.n_embd = c.n_head * c.head_dim;
		c.n_expert = any(1, 9);
		c.n_expert_used = any(1, c.n_expert);
	}
	c.other_norm = !any(0, 3);
	c.expert_scale = any(0, 3) ? 0 : any(1, 10) / 4.0;
	if (panels)
		return c;
	c.n_ff = any(5, 100);
	c.n_ff_shared = c.n_ff_shared ? any(5, 150) : 0;
	return c;
}

static inline struct llm_options options_of(enum llm_placement placement, enum llm_weights weights,
					    enum llm_activations activations)
{
	return (struct llm_options){
		.choices = { .placement = placement,
			     .weights = weights,
			     .activations = activations,
			     .kv = LLM_KV_F32 },
		.threads = any(1, 3),
		.chunk = any(2, 24),
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = any(1, 2) },
	};
}

/* The last of the logits of @n tokens, given @step at a time. */
static inline void eval_steps(const struct llm_options *o, const int32_t *ids, unsigned int n,
			      unsigned int step, float *logits, size_t n_vocab)
{
	struct llm_engine *engine = open_engine(o);
	struct llm_session *s = new_session(engine, 64);

	for (unsigned int i = 0; i < n; i += step)
		if (llm_session_eval(s, ids + i, n - i < step ? n - i : step))
			fail_msg("%s", llm_error());
	memcpy(logits, llm_session_logits(s), n_vocab * sizeof(*logits));
	llm_session_free(s);
	llm_engine_close(engine);
}

static inline void expect_refused(const struct llm_options *o, int err, const char *what)
{
	struct llm_engine *engine;

	assert_int_equal(llm_engine_open(o, &engine), err);
	if (!strstr(llm_error(), what))
		fail_msg("'%s' does not say '%s'", llm_error(), what);
}

#endif /* EXPERTS_FIXTURE_H */
