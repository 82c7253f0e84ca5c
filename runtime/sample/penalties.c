// SPDX-License-Identifier: MIT
#include "penalties.h"

#include <errno.h>
#include <stdlib.h>

static bool has_penalties(const struct llm_sampler_options *opts)
{
	return (opts->repeat_penalty != 0 && opts->repeat_penalty != 1) ||
	       opts->presence_penalty != 0 || opts->frequency_penalty != 0;
}

int penalties_init(struct penalties *p, const struct llm_sampler_options *opts,
		   unsigned int n_vocab)
{
	*p = (struct penalties){
		.repeat = opts->repeat_penalty != 0 ? opts->repeat_penalty : 1,
		.presence = opts->presence_penalty,
		.frequency = opts->frequency_penalty,
	};
	if (!has_penalties(opts))
		return 0;
	p->last_n = opts->penalty_last_n ? opts->penalty_last_n : LLM_PENALTY_LAST_N;
	p->counts = calloc(n_vocab, sizeof(*p->counts));
	return p->counts ? 0 : -ENOMEM;
}

void penalties_fini(struct penalties *p)
{
	free(p->counts);
}

static float penalised(const struct penalties *p, float logit, uint32_t count)
{
	logit = logit > 0 ? logit / p->repeat : logit * p->repeat;
	return logit - p->presence - (float)count * p->frequency;
}

void penalties_apply(struct penalties *p, const struct recent *recent, float *logits)
{
	size_t n = recent->n < p->last_n ? recent->n : p->last_n;

	for (size_t i = 0; i < n; i++)
		p->counts[recent_at(recent, i)]++;
	for (size_t i = 0; i < n; i++) {
		int32_t id = recent_at(recent, i);

		if (p->counts[id])
			logits[id] = penalised(p, logits[id], p->counts[id]);
		p->counts[id] = 0;
	}
}
