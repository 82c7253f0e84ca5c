// SPDX-License-Identifier: MIT
/* A prompt's time by the length of its chunks (llm.npu 3.2, figure 8). */
#include <stdio.h>

#include "llmnpu.h"

static const unsigned int lengths[] = { 32, 64, 128, 256, 512, 1024 };
#define NR_LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static void head(void)
{
	printf("| soc | model | tokens | order |");
	for (size_t i = 0; i < NR_LENGTHS; i++)
		printf(" %u, ms |", lengths[i]);
	printf("\n|---|---|---:|---|");
	for (size_t i = 0; i < NR_LENGTHS; i++)
		printf("---:|");
	puts("");
}

static int put_row(const struct place *place, unsigned int tokens, enum llm_order order)
{
	int status = 0;

	printf("| %s | %s | %u | %s |", place->soc->name, place->shape->name, tokens,
	       llm_choice_name(LLM_CHOICE_ORDER, order));
	for (size_t i = 0; i < NR_LENGTHS && !status; i++) {
		struct trial t = { .choices = place->args->choices,
				   .pruning = SHADOW_PRUNING,
				   .chunk = lengths[i],
				   .tokens = tokens };
		struct outcome o;

		t.choices.order = order;
		status = run_trial(place, &t, &o);
		if (!status)
			printf(" %.0f |", o.ms);
	}
	puts("");
	return status;
}

static int put_tokens(const struct place *place, unsigned int tokens)
{
	int status = put_row(place, tokens, LLM_ORDER_FIFO);

	return status ? status : put_row(place, tokens, LLM_ORDER_OOE);
}

const struct command command_chunks = { "chunks", head, .put_tokens = put_tokens };
