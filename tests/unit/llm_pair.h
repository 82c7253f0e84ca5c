/* SPDX-License-Identifier: MIT */
/* An engine of a random model, with two sessions that are to be the same. After cmocka.h. */
#ifndef LLM_PAIR_H
#define LLM_PAIR_H

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
	double bound; /* 0: the same bits */
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

static inline void pair_create(struct pair *p, const char *arch, struct llm_options *o)
{
	const struct tiny_config config = tiny_any(arch, MAX_TOKENS, 2, 32 * any(1, 2), 4);

	tiny_create(&p->t, &config, random_u64(&seed_state));
	tiny_write(&p->t);
	p->n_vocab = config.n_vocab;
	p->bound = 0;
	for (int i = 0; i < MAX_TOKENS; i++)
		p->ids[i] = (int32_t)any(0, config.n_vocab - 1);
	o->model = p->t.path;
	p->engine = open_engine(o);
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

static inline const char *any_arch(void)
{
	static const char *const archs[] = { "llama", "qwen2", "qwen3" };

	return archs[any(0, 2)];
}

static inline void expect_same(const struct pair *p, const float *got, const float *want,
			       const char *what)
{
	double error = 0, most = 0;

	assert_non_null(got);
	if (!p->bound) {
		if (memcmp(got, want, p->n_vocab * sizeof(float)))
			fail_msg("%s: other bits", what);
		return;
	}
	for (unsigned int i = 0; i < p->n_vocab; i++) {
		error = fmax(error, fabs((double)got[i] - (double)want[i]));
		most = fmax(most, fabs((double)want[i]));
	}
	if (!(error <= p->bound * most))
		fail_msg("%s: differs by %g of %g", what, error, most);
}

#endif /* LLM_PAIR_H */
