/* SPDX-License-Identifier: MIT */
/*
 * Sampling of the next token: the parts of struct llm_sampler_options one after the other, and the
 * state that tokens leave.
 *
 * The filters list the candidates that they keep (runtime/sample/candidates.h). One is drawn by
 * softmax(logits / temperature): the first one with which the sum of probabilities exceeds a random
 * number, in the order of ids, or in that of likelihood if top_k or top_p dropped tokens. A seed
 * gives the same tokens on every host: ties by token id, exp() of cpu_kernels.h.
 *
 * What changes logits changes a copy of them. A grammar looks at the token that was drawn first;
 * only if it does not allow that one are all tokens of the vocabulary tried.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_kernels.h"
#include "dry.h"
#include "engine.h"
#include "engine_text.h"
#include "llm.h"
#include "llm_fail.h"
#include "matcher.h"
#include "mirostat.h"
#include "penalties.h"
#include "random.h"
#include "sampler_check.h"

#define ARGMAX_PART 4096

struct llm_sampler {
	struct llm_sampler_options opts;
	unsigned int n_vocab;
	struct random random;
	struct candidates candidates;
	struct recent recent;
	struct penalties penalties;
	struct dry dry;
	struct mirostat mirostat;
	struct llm_logit_bias *biases;
	struct matcher *matcher; /* NULL: no grammar */
	float *changed; /* [n_vocab]: logits; NULL: nothing changes them */
};

/* ---- creating ---- */

static int sampler_biases(struct llm_sampler *s)
{
	size_t n = s->opts.nr_biases;

	for (size_t i = 0; i < n; i++) {
		const struct llm_logit_bias *b = &s->opts.biases[i];

		if (b->id < 0 || (unsigned int)b->id >= s->n_vocab)
			return llm_fail(-EINVAL, "a bias of token %d; the vocabulary has %u", b->id,
					s->n_vocab);
		if (isnan(b->bias) || b->bias == INFINITY)
			return llm_fail(-EINVAL, "token %d has a bias of %g", b->id,
					(double)b->bias);
	}
	s->biases = malloc((n + 1) * sizeof(*s->biases));
	if (!s->biases)
		return llm_fail(-ENOMEM, "no memory for %zu biases", n);
	if (n)
		memcpy(s->biases, s->opts.biases, n * sizeof(*s->biases));
	return 0;
}

/* What needs the texts of tokens. */
static int sampler_texts(struct llm_sampler *s)
{
	const struct llm_sampler_options *o = &s->opts;
	const struct pieces *pieces = NULL;
	int err = 0;

	if (o->engine && o->dry.nr_breaks)
		err = engine_pieces(o->engine, &pieces);
	if (!err)
		err = dry_init(&s->dry, &o->dry, pieces, s->n_vocab);
	if (!err && (o->grammar || o->json_schema))
		err = engine_matcher(o->engine, o->grammar, o->json_schema, &s->matcher);
	return err;
}

static int sampler_memory(struct llm_sampler *s)
{
	size_t last_n = s->dry.last_n > s->penalties.last_n ? s->dry.last_n : s->penalties.last_n;
	bool changes = last_n || s->opts.nr_biases || s->matcher;

	if (candidates_init(&s->candidates, s->n_vocab) || recent_init(&s->recent, last_n))
		return -ENOMEM;
	s->changed = changes ? malloc(s->n_vocab * sizeof(*s->changed)) : NULL;
	return changes && !s->changed ? -ENOMEM : 0;
}

static int sampler_init(struct llm_sampler *s)
{
	int err = sampler_biases(s);

	err = err ? err : mirostat_init(&s->mirostat, &s->opts);
	err = err ? err : sampler_texts(s);
	if (!err && (penalties_init(&s->penalties, &s->opts, s->n_vocab) || sampler_memory(s)))
		err = llm_fail(-ENOMEM, "no memory for a sampler of %u tokens", s->n_vocab);
	random_seed(&s->random, s->opts.seed);
	return err;
}

int llm_sampler_create(const struct llm_sampler_options *opts, unsigned int n_vocab,
		       struct llm_sampler **sampler)
{
	struct llm_sampler *s;
	int err = sampler_check(opts, n_vocab);

	*sampler = NULL;
	if (err)
		return err;
	s = calloc(1, sizeof(*s));
	if (!s)
		return llm_fail(-ENOMEM, "no memory for a sampler of %u tokens", n_vocab);
	s->opts = *opts;
	s->n_vocab = n_vocab;
	if (opts->engine)
		atomic_fetch_add(&opts->engine->refs, 1);
	err = sampler_init(s);
	if (err) {
		llm_sampler_free(s);
		return err;
	}
	*sampler = s;
	return 0;
}

void llm_sampler_free(struct llm_sampler *sampler)
{
	if (!sampler)
		return;
	candidates_fini(&sampler->candidates);
	recent_fini(&sampler->recent);
	penalties_fini(&sampler->penalties);
	dry_fini(&sampler->dry);
	matcher_free(sampler->matcher);
	if (sampler->opts.engine)
		llm_engine_put(sampler->opts.engine);
	free(sampler->biases);
	free(sampler->changed);
	free(sampler);
}

int sampler_check_vocab(const struct llm_sampler *s, unsigned int n_vocab)
{
	if (s->n_vocab == n_vocab)
		return 0;
	return llm_fail(-EINVAL, "the sampler is for %u tokens; the model's vocabulary has %u",
			s->n_vocab, n_vocab);
}

/* ---- state ---- */

static void sampler_add(struct llm_sampler *s, int32_t id)
{
	if (!s->recent.max)
		return;
	recent_add(&s->recent, id);
	dry_add(&s->dry, id);
}

void llm_sampler_prompt(struct llm_sampler *s, const int32_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ids[i] >= 0 && (unsigned int)ids[i] < s->n_vocab)
			sampler_add(s, ids[i]);
}

void llm_sampler_begin_text(struct llm_sampler *s)
{
	if (s->matcher)
		matcher_reset(s->matcher);
}

void llm_sampler_reset(struct llm_sampler *s)
{
	recent_clear(&s->recent);
	dry_clear(&s->dry);
	mirostat_clear(&s->mirostat);
	llm_sampler_begin_text(s);
	random_seed(&s->random, s->opts.seed);
}

/* ---- the greatest logit ---- */

int32_t llm_argmax(const float *logits, unsigned int n_vocab)
{
	const struct cpu_kernels *kernels = cpu_kernels_get(NULL);
	float max = -INFINITY, least, part_max;
	unsigned int part = 0, n, i;

	/* Only the first part that has the maximum is read again. */
	for (i = 0; i < n_vocab; i += ARGMAX_PART) {
		n = n_vocab - i < ARGMAX_PART ? n_vocab - i : ARGMAX_PART;
		kernels->range(&least, &part_max, logits + i, n);
		if (part_max > max) {
			max = part_max;
			part = i;
		}
	}
	for (i = part; i < n_vocab; i++)
		if (logits[i] == max)
			return (int32_t)i;
	return 0;
}

/* ---- filters ---- */

static bool has_typical(const struct llm_sampler_options *o)
{
	return o->typical_p > 0 && o->typical_p < 1;
}

/* The least logit that min_p keeps. */
static double min_p_least(const struct llm_sampler_options *o, float max)
{
	return o->min_p > 0 ? (double)max + log((double)o->min_p) : -INFINITY;
}

/* The least logit that is certain to be needed by no later filter, and is dropped at once. */
static double least_at_once(struct llm_sampler *s, const float *logits, float max)
{
	const struct llm_sampler_options *o = &s->opts;
	double least = -INFINITY, mean, deviation;

	if (o->top_n_sigma > 0) {
		candidates_list(&s->candidates, logits, -INFINITY, 0);
		mean = candidates_mean(&s->candidates, &deviation);
		least = (double)max - (double)o->top_n_sigma * deviation;
		least = isnan(mean) ? -INFINITY : least;
	}
	/* It does not matter whether top_k comes first. */
	if (o->top_p >= 1 && !has_typical(o))
		least = fmax(least, min_p_least(o, max));
	return least;
}

/* Lists the tokens that top_n_sigma and top_k keep, and min_p where the order allows it. True:
 * top_k dropped some. */
static bool sampler_list(struct llm_sampler *s, const float *logits, float max)
{
	double least = least_at_once(s, logits, max), sum;
	unsigned int top_k = s->opts.top_k > 0 ? (unsigned int)s->opts.top_k : 0;
	struct candidates *c = &s->candidates;
	struct candidate last;

	if (candidates_list(c, logits, least, top_k) <= top_k || !top_k)
		return false;
	if (c->list.n > top_k) {
		candidates_count(c);
		last = candidates_find(c, top_k, false, &sum);
		candidates_drop(c, &last);
	}
	return true;
}

/* Whether filters follow on top_p, or something that changes the weights. */
static bool follows_top_p(const struct llm_sampler_options *o)
{
	return o->min_p > 0 || o->xtc_probability > 0 || o->temperature_range > 0 ||
	       o->temperature != 1;
}

/* min_p after top_p or typical_p, and XTC. */
static void sampler_filter_last(struct llm_sampler *s, float max)
{
	const struct llm_sampler_options *o = &s->opts;
	struct candidates *c = &s->candidates;

	if (o->min_p > 0 && (o->top_p < 1 || has_typical(o)))
		candidates_drop_below(c, min_p_least(o, max));
	if (o->xtc_probability > 0 && o->xtc_threshold <= 0.5f &&
	    random_uniform(&s->random) < (double)o->xtc_probability)
		candidates_drop_top(c, max, (double)o->xtc_threshold);
}

/* The temperature for what is left, which depends on its entropy if it is dynamic. */
static float sampler_temperature(struct llm_sampler *s, float max)
{
	const struct llm_sampler_options *o = &s->opts;
	double range = (double)o->temperature_range, least = (double)o->temperature - range, share,
	       exponent = o->temperature_exponent > 0 ? (double)o->temperature_exponent : 1;

	if (range <= 0)
		return o->temperature;
	if (s->candidates.list.n < 2)
		return o->temperature;
	least = fmax(least, 0);
	share = candidates_entropy(&s->candidates, max) / log(s->candidates.list.n);
	share = pow(fmin(fmax(share, 0), 1), exponent);
	/* Below the least one, weights would be those of the greatest logit alone. */
	return fmaxf((float)(least + ((double)o->temperature + range - least) * share), 1e-3f);
}

/* ---- drawing ---- */

/* By the filters and the temperature; @max: the greatest logit. */
static int32_t sampler_draw_filtered(struct llm_sampler *s, const float *logits, float max)
{
	bool dropped = sampler_list(s, logits, max);
	struct candidates *c = &s->candidates;
	struct candidate last;
	double sum;

	if (has_typical(&s->opts)) {
		candidates_keep_typical(c, max, (double)s->opts.typical_p);
		max = candidates_max(c);
	}
	if (s->opts.top_p < 1) {
		sum = candidates_weigh(c, max, 1);
		last = candidates_find(c, (double)s->opts.top_p * sum, false, &sum);
		/* The weights and the sum of those kept are known. */
		if (!follows_top_p(&s->opts))
			return candidates_find(c, random_uniform(&s->random) * sum, true, &sum).id;
		candidates_drop(c, &last);
		dropped = true;
	}
	sampler_filter_last(s, max);
	if (s->opts.xtc_probability > 0)
		max = candidates_max(c);
	sum = candidates_weigh(c, max, sampler_temperature(s, max));
	if (!dropped)
		return candidates_find_by_id(c, random_uniform(&s->random) * sum);
	return candidates_find(c, random_uniform(&s->random) * sum, true, &sum).id;
}

static int32_t sampler_draw(struct llm_sampler *s, const float *logits)
{
	int32_t best;
	float max;

	if (s->opts.temperature <= 0)
		return llm_argmax(logits, s->n_vocab);
	best = candidates_best(&s->candidates, logits);
	max = logits[best];
	/* An infinite or NaN maximum gives no distribution to draw from. */
	if (!isfinite(max))
		return best;
	if (s->mirostat.version)
		return mirostat_draw(&s->mirostat, &s->candidates, logits, max, s->opts.temperature,
				     &s->random);
	return sampler_draw_filtered(s, logits, max);
}

/* The logits with biases, penalties and DRY. */
static const float *sampler_change(struct llm_sampler *s, const float *logits)
{
	if (!s->opts.nr_biases && !s->recent.n)
		return logits;
	memcpy(s->changed, logits, s->n_vocab * sizeof(*logits));
	for (size_t i = 0; i < s->opts.nr_biases; i++)
		s->changed[s->biases[i].id] += s->biases[i].bias;
	penalties_apply(&s->penalties, &s->recent, s->changed);
	dry_apply(&s->dry, &s->recent, s->changed);
	return s->changed;
}

/* Draws a token that the grammar allows. */
static int32_t sampler_draw_allowed(struct llm_sampler *s, const float *logits)
{
	const struct mirostat before = s->mirostat;
	int32_t id = sampler_draw(s, logits);
	int allowed = matcher_allows(s->matcher, id);

	if (!allowed) {
		allowed = matcher_mask(s->matcher, logits, s->changed, s->n_vocab);
		s->mirostat = before;
		id = sampler_draw(s, s->changed);
		if (!(s->changed[id] > -INFINITY))
			id = matcher_end(s->matcher);
	}
	if (allowed >= 0)
		allowed = matcher_accept(s->matcher, id);
	return allowed < 0 ? llm_fail(allowed, "no memory for the state of a grammar") : id;
}

int32_t llm_sample(struct llm_sampler *s, const float *logits)
{
	int32_t id;

	logits = sampler_change(s, logits);
	id = s->matcher ? sampler_draw_allowed(s, logits) : sampler_draw(s, logits);
	if (id >= 0)
		sampler_add(s, id);
	return id;
}
