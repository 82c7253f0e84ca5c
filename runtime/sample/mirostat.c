// SPDX-License-Identifier: MIT
#include "mirostat.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "llm_fail.h"

/* Tokens that the exponent is estimated from. */
#define NR_ESTIMATE 100

int mirostat_init(struct mirostat *m, const struct llm_sampler_options *opts)
{
	*m = (struct mirostat){
		.version = opts->mirostat,
		.tau = opts->mirostat_tau != 0 ? (double)opts->mirostat_tau : LLM_MIROSTAT_TAU,
		.eta = (double)(opts->mirostat_eta != 0 ? opts->mirostat_eta : LLM_MIROSTAT_ETA),
	};
	if (m->version > 2)
		return llm_fail(-EINVAL, "mirostat %u: there are versions 1 and 2", m->version);
	if (!isfinite(m->tau) || m->tau < 0 || !isfinite(m->eta) || m->eta < 0)
		return llm_fail(-EINVAL, "mirostat's tau %g or eta %g is not a number from 0 on",
				m->tau, m->eta);
	mirostat_clear(m);
	return 0;
}

void mirostat_clear(struct mirostat *m)
{
	m->mu = 2 * m->tau;
}

static int descending(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Lists the likeliest @k tokens. */
static void list_top(struct candidates *c, const float *logits, unsigned int k)
{
	struct candidate last;
	double sum;

	candidates_list(c, logits, -INFINITY, k);
	if (c->list.n <= k)
		return;
	candidates_count(c);
	last = candidates_find(c, k, false, &sum);
	candidates_drop(c, &last);
}

/* The exponent of the Zipf distribution that fits the likeliest tokens best. */
static double zipf_exponent(struct candidates *c, const float *logits, float temperature)
{
	float top[NR_ESTIMATE];
	double both = 0, squares = 0;

	list_top(c, logits, NR_ESTIMATE);
	for (unsigned int i = 0; i < c->list.n; i++)
		top[i] = c->list.logits[i];
	qsort(top, c->list.n, sizeof(*top), descending);
	for (unsigned int i = 0; i + 1 < c->list.n; i++) {
		double ranks = log((i + 2.0) / (i + 1.0)),
		       odds = ((double)top[i] - (double)top[i + 1]) / (double)temperature;

		both += ranks * odds;
		squares += ranks * ranks;
	}
	return squares > 0 ? both / squares : 0;
}

/* How many of the likeliest tokens of a Zipf distribution give the surprise mu. */
static unsigned int mirostat_k(const struct mirostat *m, double exponent, unsigned int n_vocab)
{
	double beyond = exponent - 1,
	       k = pow(beyond * exp2(m->mu) / (1 - pow(n_vocab, -beyond)), 1 / exponent);

	/* A flat distribution has no exponent; the limit of exponent 1 is not a number here. */
	if (isnan(k) || k > n_vocab)
		return n_vocab;
	return k < 1 ? 1 : (unsigned int)k;
}

static void keep_1(const struct mirostat *m, struct candidates *c, const float *logits,
		   float temperature)
{
	double exponent = zipf_exponent(c, logits, temperature);

	list_top(c, logits, mirostat_k(m, exponent, c->n_vocab));
}

static void keep_2(const struct mirostat *m, struct candidates *c, const float *logits, float max,
		   float temperature)
{
	double sum, least;

	candidates_list(c, logits, -INFINITY, 0);
	sum = candidates_weigh(c, max, temperature);
	least = (double)max + (double)temperature * (log(sum) - m->mu * M_LN2);
	candidates_drop_below(c, fmin(least, (double)max));
}

int32_t mirostat_draw(struct mirostat *m, struct candidates *c, const float *logits, float max,
		      float temperature, struct random *random)
{
	double sum, surprise;
	int32_t id;

	if (m->version == 1)
		keep_1(m, c, logits, temperature);
	else
		keep_2(m, c, logits, max, temperature);
	sum = candidates_weigh(c, max, temperature);
	id = candidates_find_by_id(c, random_uniform(random) * sum);
	surprise = log2(sum) - ((double)logits[id] - (double)max) / (double)temperature / M_LN2;
	m->mu -= m->eta * (surprise - m->tau);
	return id;
}
