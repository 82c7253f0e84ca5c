// SPDX-License-Identifier: MIT
/* What llm-perplexity prints: see llm-perplexity.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "json_out.h"
#include "llm-perplexity.h"

/* The perplexity of @n positions and its standard error, from sums of -log p and of its square. */
struct estimate {
	double nll, perplexity, error;
};

/* The variance of a mean. */
static double mean_variance(double sum, double squares, double n)
{
	double mean = sum / n;

	return n > 1 ? fmax(squares / n - mean * mean, 0) / (n - 1) : NAN;
}

static struct estimate estimate(double sum, double squares, double n)
{
	double perplexity = exp(sum / n);

	/* The standard error of the mean, propagated through exp(). */
	return (struct estimate){ sum / n, perplexity,
				  perplexity * sqrt(mean_variance(sum, squares, n)) };
}

/* What a base adds. */
struct comparison {
	double perplexity, ratio, ratio_error, kl, kl_error, kl_median, kl_99, kl_max, dp, same;
};

static struct comparison compare(const struct score *sc)
{
	const struct base *b = sc->base;
	double n = (double)sc->n, difference = (sc->nll - b->nll) / n;
	double squares = sc->nll2 + b->nll2 - 2 * b->both;
	struct comparison c = {
		.perplexity = exp(b->nll / n),
		.ratio = exp(difference),
		.kl = b->kl / n,
		.kl_error = sqrt(mean_variance(b->kl, b->kl2, n)),
		.kl_median = base_quantile(sc->base, 0.5),
		.kl_99 = base_quantile(sc->base, 0.99),
		.kl_max = base_quantile(sc->base, 1),
		.dp = sqrt(b->dp2 / n),
		.same = (double)b->same / n,
	};

	c.ratio_error = c.ratio * sqrt(mean_variance(difference * n, squares, n));
	return c;
}

static void print_comparison(const struct comparison *c, const char *path)
{
	printf("base       %.4f in %s: ratio %.5f +/- %.5f\n", c->perplexity, path, c->ratio,
	       c->ratio_error);
	printf("divergence %.6f +/- %.6f (median %.6f, 99 %% below %.6f, at most %.6f)\n", c->kl,
	       c->kl_error, c->kl_median, c->kl_99, c->kl_max);
	printf("same top   %.4f; p of the next token differs by %.4f (root mean square)\n", c->same,
	       c->dp);
}

static void add_comparison(struct json_object *json, const struct comparison *c)
{
	static const char *const keys[] = {
		"base_perplexity", "ppl_ratio", "ppl_ratio_stderr", "kl_divergence", "kl_stderr",
		"kl_median",	   "kl_99",	"kl_max",	    "p_diff_rms",    "same_top",
	};
	const double values[] = {
		c ? c->perplexity : 0, c ? c->ratio : 0,    c ? c->ratio_error : 0,
		c ? c->kl : 0,	       c ? c->kl_error : 0, c ? c->kl_median : 0,
		c ? c->kl_99 : 0,      c ? c->kl_max : 0,   c ? c->dp : 0,
		c ? c->same : 0,
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		json_object_object_add(json, keys[i], c ? json_out_double(values[i]) : NULL);
}

static void add_choice(struct json_object *json, const struct llm_engine_info *info,
		       const char *key, enum llm_choice choice)
{
	unsigned int value = llm_choices_get(&info->choices, choice);

	json_object_object_add(json, key, json_out_string(llm_choice_name(choice, value)));
}

static int print_json(const struct ppl_options *o, const struct llm_engine_info *info,
		      const struct llm_session_stats *st, const struct token_list *text,
		      const struct score *sc, const struct comparison *c)
{
	struct estimate e = estimate(sc->nll, sc->nll2, (double)sc->n);
	double agreement = (double)sc->same / (double)sc->n;
	struct json_object *json = json_object_new_object();
	int err;

	json_object_object_add(json, "perplexity", json_out_double(e.perplexity));
	json_object_object_add(json, "stderr", json_out_double(e.error));
	json_object_object_add(json, "n_tokens", json_out_u64(sc->n));
	json_object_object_add(json, "nll", json_out_double(e.nll));
	json_object_object_add(json, "agreement", o->reference ? json_out_double(agreement) : NULL);
	add_comparison(json, c);
	json_object_object_add(json, "npu_jobs", info->device ? json_out_u64(st->npu_jobs) : NULL);
	add_choice(json, info, "weights", LLM_CHOICE_WEIGHTS);
	add_choice(json, info, "kv", LLM_CHOICE_KV);
	add_choice(json, info, "placement", LLM_CHOICE_PLACEMENT);
	json_object_object_add(json, "model_filename", json_out_string(o->engine.model));
	json_object_object_add(json, "model_type", json_out_string(info->type));
	json_object_object_add(json, "n_ctx", json_out_u64(o->n_ctx));
	json_object_object_add(json, "n_windows", json_out_u64(sc->n_windows));
	json_object_object_add(json, "text_tokens", json_out_u64(text->n));
	err = json_out_line(stdout, json);
	json_object_put(json);
	return err;
}

int print_score(const struct ppl_options *o, const struct llm_engine *engine,
		const struct llm_session *s, const struct token_list *text, const struct score *sc)
{
	const struct llm_engine_info *info = llm_engine_info(engine);
	struct estimate e = estimate(sc->nll, sc->nll2, (double)sc->n);
	struct comparison c, *compared = o->compares ? &c : NULL;
	struct llm_session_stats st;

	llm_session_stats(s, &st);
	if (compared)
		c = compare(sc);
	if (o->json)
		return print_json(o, info, &st, text, sc, compared);
	printf("perplexity %.4f +/- %.4f (nll %.5f, %" PRIu64 " tokens scored, %s weights)\n",
	       e.perplexity, e.error, e.nll, sc->n,
	       llm_choice_name(LLM_CHOICE_WEIGHTS, info->choices.weights));
	if (o->reference)
		printf("agreement  %.4f of %s\n", (double)sc->same / (double)sc->n, o->reference);
	if (compared)
		print_comparison(compared, o->base);
	return 0;
}
