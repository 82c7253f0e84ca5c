// SPDX-License-Identifier: MIT
#include "storage_lane.h"

#include <stdlib.h>

#include "start.h"

static bool storage_supports(enum llm_op op, enum llm_weights weights)
{
	return op == LLM_OP_READ;
}

/* The piece has been read when this returns. */
static int storage_begin(struct lane *lane, const struct lane_call *call, uint64_t *ticket)
{
	*ticket = 0;
	return start_read(lane->memory->loaded->start, call->work->piece);
}

static int storage_poll(struct lane *lane, uint64_t ticket)
{
	return 1;
}

static int storage_wait(struct lane *lane, uint64_t ticket, enum lane_wait how)
{
	return 0;
}

static void storage_free(struct lane *lane)
{
	free(lane);
}

struct lane *lane_storage_create(struct lane_memory *memory)
{
	static const struct lane_ops ops = {
		.name = "storage",
		.supports = storage_supports,
		.begin = storage_begin,
		.poll = storage_poll,
		.wait = storage_wait,
		.free = storage_free,
	};
	struct lane *lane = calloc(1, sizeof(*lane));

	if (lane)
		*lane = (struct lane){ .ops = &ops, .memory = memory };
	return lane;
}
