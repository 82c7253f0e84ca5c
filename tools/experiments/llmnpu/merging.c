// SPDX-License-Identifier: MIT
/* What shadow outliers cost, by the share of the inputs that are pruned (llm.npu 3.3). */
#include <stdio.h>

#include "llmnpu.h"

static const double prunings[] = { 1, 0.85, 0.5, 0 };

static void head(void)
{
	puts("| soc | model | tokens | pruned | ms | more | J | more | CPU, ms | NPU bubbles |\n"
	     "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|");
}

static int put_tokens(const struct place *place, unsigned int tokens)
{
	struct outcome without = { 0 };
	int status = 0;

	for (size_t i = 0; i < sizeof(prunings) / sizeof(prunings[0]) && !status; i++) {
		const struct trial t = { .choices = place->args->choices,
					 .pruning = prunings[i],
					 .chunk = place->args->chunk,
					 .tokens = tokens };
		struct outcome o;

		status = run_trial(place, &t, &o);
		if (status)
			break;
		if (!i)
			without = o;
		printf("| %s | %s | %u | %.0f %% | %.0f | %.1f %% | %.2f | %.1f %% | %.0f | "
		       "%.1f %% |\n",
		       place->soc->name, place->shape->name, tokens, 100 * t.pruning, o.ms,
		       100 * (o.ms / without.ms - 1), o.joules,
		       100 * (o.joules / without.joules - 1), o.busy_ms[SOC_CPU],
		       100 * bubbles(&o, SOC_NPU));
	}
	return status;
}

const struct command command_merging = { "merging", head, .put_tokens = put_tokens };
