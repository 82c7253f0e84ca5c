/* SPDX-License-Identifier: MIT */
/*
 * Samplers: a token from a session's logits.
 *
 *	struct llm_sampler_options opts = { .temperature = 0.8f, .top_p = 0.95f, .seed = 1 };
 *	struct llm_sampler *sampler;
 *	if (llm_sampler_create(&opts, llm_engine_info(engine)->n_vocab, &sampler))
 *		errx(1, "%s", llm_error());
 *	id = llm_sample(sampler, llm_session_logits(s));
 *
 * Functions that can fail return a negative errno, and llm_error() says why (llm.h).
 */
#ifndef LLM_SAMPLER_H
#define LLM_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct llm_engine;
struct llm_sampler;

/* A number that is added to a token's logit; -INFINITY: it is never drawn. */
struct llm_logit_bias {
	int32_t id;
	float bias;
};

/* DRY ("don't repeat yourself"): a token that would continue a repetition of the last tokens loses
 * multiplier * base^(n - allowed_length), where n >= allowed_length is how many tokens have been
 * repeated. Repetitions do not reach across a break. */
struct llm_dry {
	float multiplier; /* 0: off */
	float base; /* at least 1; 0: LLM_DRY_BASE */
	unsigned int allowed_length; /* 0: LLM_DRY_ALLOWED_LENGTH */
	unsigned int last_n; /* among so many of the last tokens; 0: LLM_DRY_LAST_N */
	/* Texts that break repetitions, of 1 to LLM_DRY_BREAK_BYTES bytes; a token that contains
	 * one loses nothing. */
	const char *const *breaks;
	size_t nr_breaks;
#define LLM_DRY_BASE 1.75f
#define LLM_DRY_ALLOWED_LENGTH 2
#define LLM_DRY_LAST_N 4096
#define LLM_DRY_BREAK_BYTES 64
};

/*
 * The parts of a sampler, in their order. What is 0 is off, except for top_p.
 *
 *	bias			is added to logits
 *	penalties, DRY		change the logits of tokens that have occurred
 *	top_n_sigma		keeps logits within so many standard deviations of the greatest
 *	top_k			keeps the likeliest k
 *	typical_p		keeps the tokens whose surprise is nearest to the expected one,
 *				until they make up that probability (Meister et al. 2022, 4)
 *	top_p			keeps the likeliest ones, until they make up that probability
 *	min_p			keeps those at least min_p times as likely as the likeliest
 *	XTC			with xtc_probability: drops all but the least likely of those that
 *				are at least as likely as xtc_threshold
 *	temperature		divides the logits; then one token is drawn by their softmax
 *
 * The filters use probabilities without temperature, of the tokens that are left. Mirostat (Basu et
 * al. 2021) takes the place of everything from top_n_sigma to XTC, and with a temperature of 0
 * nothing from there on has an effect: the greatest logit is taken. docs/sampling.md says more.
 *
 * A grammar comes last: a token that it does not allow is drawn once more, of those that it allows.
 */
struct llm_sampler_options {
	float temperature; /* <= 0: greedy */
	int top_k; /* <= 0: off */
	float top_p; /* >= 1: off */
	float min_p; /* <= 0: off */
	uint64_t seed;
	float top_n_sigma;
	float typical_p; /* 0 and >= 1: off */
	float xtc_probability, xtc_threshold; /* a threshold above 0.5: off */
	/* Dynamic temperature: from temperature - range, at least 0, to temperature + range; it
	 * grows with the entropy of what is left, as a share of the greatest possible one, to the
	 * power of the exponent (0: 1). */
	float temperature_range, temperature_exponent;
	/* Version 1 or 2. Tau: the surprise of a token to aim at, in bits; eta: the learning rate.
	 * 0: LLM_MIROSTAT_TAU, LLM_MIROSTAT_ETA. */
	unsigned int mirostat;
	float mirostat_tau, mirostat_eta;
#define LLM_MIROSTAT_TAU 5
#define LLM_MIROSTAT_ETA 0.1f
	/* Of a token among the last penalty_last_n (0: LLM_PENALTY_LAST_N): its logit is divided by
	 * repeat_penalty (0 and 1: off) if it is positive, else multiplied; then loses
	 * presence_penalty, and frequency_penalty for each of its occurrences. */
	float repeat_penalty, presence_penalty, frequency_penalty;
	unsigned int penalty_last_n;
#define LLM_PENALTY_LAST_N 64
	struct llm_dry dry;
	const struct llm_logit_bias *biases;
	size_t nr_biases;
	/* The text that is drawn, from the first token on, belongs to this grammar in GBNF, or is
	 * JSON that fits this JSON schema; NULL: any. End tokens are drawn where the text can end,
	 * and where no token of the vocabulary can go on. */
	const char *grammar, *json_schema;
	/* Whose vocabulary the grammar, or the breaks of DRY, are about. NULL: there are
	 * neither. */
	struct llm_engine *engine;
};

/*
 * Whether a text is a grammar, or a JSON schema that can become one; the other of the two is NULL.
 * -EINVAL for an error in it, of which llm_error() tells the line and column or the place in the
 * schema; -ENOTSUP for a schema's keyword that is not supported; -ENOMEM.
 */
int llm_grammar_check(const char *grammar, const char *json_schema);

/*
 * For logits of @n_vocab tokens. -EINVAL for options that leave no token, both a grammar and a
 * schema, a vocabulary without an end token, or another size than that of the engine's; the errors
 * of llm_grammar_check(). Nothing of @opts but the engine is used later.
 */
int llm_sampler_create(const struct llm_sampler_options *opts, unsigned int n_vocab,
		       struct llm_sampler **sampler);
void llm_sampler_free(struct llm_sampler *sampler);
/*
 * Draws the next token. The sampler's state advances with it: the tokens that penalties and DRY
 * count, mirostat's bound, and the place in the grammar. So a caller draws a token when it is known
 * that the text goes on with it, and once: nothing can be taken back. Speculative decoding draws
 * from the logits of a node of its tree after that node was accepted, and accepts the child that
 * was drawn. -ENOMEM: a grammar's state, which grows with the text, has no memory.
 */
int32_t llm_sample(struct llm_sampler *sampler, const float *logits);
/* Tokens of a prompt, or others that were not drawn: penalties and DRY count them. Ids that the
 * vocabulary lacks are ignored. */
void llm_sampler_prompt(struct llm_sampler *sampler, const int32_t *ids, size_t n);
/* The next token begins another text, such as the next answer of a chat: a grammar is at its start.
 * Everything else goes on. */
void llm_sampler_begin_text(struct llm_sampler *sampler);
/* Begins again as llm_sampler_create() left it: without tokens, at the grammar's start, with the
 * seed's first random number. */
void llm_sampler_reset(struct llm_sampler *sampler);
/* The token with the greatest logit; of equal ones the lowest id. */
int32_t llm_argmax(const float *logits, unsigned int n_vocab);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* LLM_SAMPLER_H */
