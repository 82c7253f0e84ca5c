// SPDX-License-Identifier: MIT
/* What is wrong with options whatever the model: llm_options_check(). */
#include <errno.h>

#include "blocks.h"
#include "llm.h"
#include "llm_fail.h"
#include "plan.h"
#include "scale_buckets.h"

static int check_numbers(const struct llm_options *opts)
{
	if (opts->threads > LLM_MAX_THREADS)
		return llm_fail(-EINVAL, "%u threads; at most %u are possible", opts->threads,
				LLM_MAX_THREADS);
	if (opts->chunk > LLM_MAX_CHUNK)
		return llm_fail(-EINVAL, "a chunk of %u tokens; at most %u are possible",
				opts->chunk, LLM_MAX_CHUNK);
	if (!(opts->pruning <= 1))
		return llm_fail(-EINVAL, "pruning of %g; it is a share, at most 1",
				(double)opts->pruning);
	if (opts->bits != 0 && !(opts->bits >= 1 && opts->bits <= 8))
		return llm_fail(-EINVAL, "an average of %g bits: choose 1 to 8",
				(double)opts->bits);
	return 0;
}

/* Settles the choices for the file that allows most: one that is packed for what was asked for. */
static int settle(const struct llm_options *opts, struct llm_choices *settled)
{
	enum llm_weights weights = opts->choices.weights;
	const struct llm_choices_file file = {
		.path = opts->model,
		.packed = llm_weights_packed(weights) ? weights : LLM_WEIGHTS_AUTO,
	};
	bool planned = !opts->model || (opts->dry_run && weights != LLM_WEIGHTS_AUTO);

	return llm_choices_settle(&opts->choices, planned ? NULL : &file,
				  opts->profile || opts->dry_run, settled);
}

static int check_cache(const struct llm_options *opts, const struct llm_choices *c)
{
	if (!opts->panels_cache_bytes)
		return 0;
	if (opts->dry_run)
		return llm_fail(-EINVAL, "a dry run reads no weights: leave the cache of panels "
					 "out");
	if (c->start != LLM_START_COLD)
		return llm_fail(-EINVAL,
				"only a cold start uses a cache of panels: choose start cold, or "
				"leave the cache out");
	return 0;
}

static int check_buckets(const struct llm_options *opts)
{
	double step = opts->scale_step != 0 ? (double)opts->scale_step : SCALE_BUCKETS_SIGMA;
	unsigned int n = opts->scale_buckets ? opts->scale_buckets : SCALE_BUCKETS_DEFAULT;
	struct scale_buckets buckets;

	return scale_buckets_init(&buckets, n, 1, 1, step);
}

/* The two graphs of a block. A file with static activations may say how long chunks are. */
static int check_blocks(const struct llm_options *opts, const struct llm_choices *c)
{
	const struct plan_options o = { .choices = *c, .chunk = opts->chunk };
	uint32_t width = opts->decode_width, block = opts->block_layers;

	if (c->switching == LLM_SWITCHING_NONE ||
	    (!opts->chunk && llm_activations_static(c->activations)))
		return 0;
	return blocks_settle(plan_chunk(&o, UINT32_MAX / 2), UINT32_MAX, &width, &block);
}

int llm_options_check(const struct llm_options *opts)
{
	struct llm_choices c;
	int err;

	if (!opts->model && !(opts->dry_run && opts->shape))
		return llm_fail(-EINVAL, "no model file given");
	err = check_numbers(opts);
	err = err ? err : settle(opts, &c);
	err = err ? err : check_cache(opts, &c);
	err = err ? err : check_buckets(opts);
	return err ? err : check_blocks(opts, &c);
}
