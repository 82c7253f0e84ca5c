// SPDX-License-Identifier: MIT
#include "breakdown.h"

#include <assert.h>
#include <string.h>

#include "llm.h"

static_assert(BREAKDOWN_ITEMS <= LLM_MAX_BREAKDOWN, "the public structure has room for each item");

const char *llm_breakdown_item(unsigned int item)
{
	static const char *const names[BREAKDOWN_ITEMS] = {
		[BREAKDOWN_MATMUL] = "matmul",	   [BREAKDOWN_ATTENTION] = "attention",
		[BREAKDOWN_STORE] = "store",	   [BREAKDOWN_ROPE] = "rope",
		[BREAKDOWN_NORM] = "norm",	   [BREAKDOWN_QUANT] = "quant",
		[BREAKDOWN_OUTLIERS] = "outliers", [BREAKDOWN_OTHER] = "other",
		[BREAKDOWN_WAITING] = "waiting",   [BREAKDOWN_START] = "start",
		[BREAKDOWN_RUNTIME] = "runtime",   [BREAKDOWN_SAMPLING] = "sampling",
	};

	return item < BREAKDOWN_ITEMS ? names[item] : NULL;
}

/* The item of an operation, by its name in listings. */
static enum breakdown_item item_of(const char *op)
{
	static const struct {
		const char *op; /* the name's beginning */
		enum breakdown_item item;
	} items[] = {
		{ "matmul", BREAKDOWN_MATMUL },
		{ "attn", BREAKDOWN_ATTENTION },
		{ "store", BREAKDOWN_STORE },
		{ "rope", BREAKDOWN_ROPE },
		{ "rmsnorm", BREAKDOWN_NORM },
		{ "quant", BREAKDOWN_QUANT },
		{ "add_outliers", BREAKDOWN_OUTLIERS },
		/* To a cache of floats. */
		{ "copy", BREAKDOWN_STORE },
	};

	for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++)
		if (!strncmp(op, items[i].op, strlen(items[i].op)))
			return items[i].item;
	return BREAKDOWN_OTHER;
}

void breakdown_add(uint64_t item_ns[BREAKDOWN_ITEMS], const struct npu_job_work *job)
{
	uint64_t busy_ns = 0;

	for (uint32_t i = 0; i < job->nr_ops; i++) {
		uint64_t ns = job->ops[i].busy_ns / job->nr_workers;

		item_ns[item_of(job->ops[i].op)] += ns;
		busy_ns += ns;
	}
	item_ns[BREAKDOWN_START] += job->begin_ns;
	item_ns[BREAKDOWN_WAITING] += job->wall_ns - job->begin_ns - busy_ns;
}
