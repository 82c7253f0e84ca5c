// SPDX-License-Identifier: MIT
#include "sampler_check.h"

#include <errno.h>
#include <math.h>

#include "engine.h"
#include "llm_fail.h"

/* Numbers that may be anything finite. */
static int check_finite(const struct llm_sampler_options *o)
{
	const struct {
		const char *name;
		float value;
	} all[] = {
		{ "temperature", o->temperature },
		{ "the temperature's range", o->temperature_range },
		{ "the temperature's exponent", o->temperature_exponent },
		{ "top_n_sigma", o->top_n_sigma },
		{ "presence_penalty", o->presence_penalty },
		{ "frequency_penalty", o->frequency_penalty },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!isfinite(all[i].value))
			return llm_fail(-EINVAL, "%s %g is not a finite number", all[i].name,
					(double)all[i].value);
	return 0;
}

/* Numbers that are probabilities where they are not off. */
static int check_probabilities(const struct llm_sampler_options *o)
{
	if (isnan(o->top_p) || o->top_p <= 0)
		return llm_fail(-EINVAL, "top_p %g leaves no token; give a number above 0",
				(double)o->top_p);
	if (isnan(o->min_p) || o->min_p > 1)
		return llm_fail(-EINVAL, "min_p %g leaves no token; give a number up to 1",
				(double)o->min_p);
	if (isnan(o->typical_p) || o->typical_p < 0)
		return llm_fail(-EINVAL, "typical_p %g is not a probability", (double)o->typical_p);
	if (!(o->xtc_probability >= 0 && o->xtc_probability <= 1))
		return llm_fail(-EINVAL, "XTC's probability %g is not from 0 to 1",
				(double)o->xtc_probability);
	if (!(o->xtc_threshold >= 0 && o->xtc_threshold <= 1))
		return llm_fail(-EINVAL, "XTC's threshold %g is not from 0 to 1",
				(double)o->xtc_threshold);
	return 0;
}

int sampler_check(const struct llm_sampler_options *o, unsigned int n_vocab)
{
	int err;

	if (!n_vocab)
		return llm_fail(-EINVAL, "a sampler for an empty vocabulary");
	if (o->engine && n_vocab != o->engine->info.n_vocab)
		return llm_fail(-EINVAL, "a sampler for %u tokens; the engine's vocabulary has %u",
				n_vocab, o->engine->info.n_vocab);
	err = check_finite(o);
	err = err ? err : check_probabilities(o);
	if (err)
		return err;
	if (!isfinite(o->repeat_penalty) || o->repeat_penalty < 0)
		return llm_fail(-EINVAL, "repeat_penalty %g is not a number above 0",
				(double)o->repeat_penalty);
	if (o->grammar && o->json_schema)
		return llm_fail(-EINVAL, "both a grammar and a JSON schema; give one of them");
	if ((o->grammar || o->json_schema) && !o->engine)
		return llm_fail(-EINVAL, "a grammar, but no engine with a vocabulary");
	return 0;
}
