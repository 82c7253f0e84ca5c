// SPDX-License-Identifier: MIT
#include "recent.h"

#include <errno.h>
#include <stdlib.h>

int recent_init(struct recent *r, size_t max)
{
	*r = (struct recent){ .max = max };
	if (!max)
		return 0;
	r->ids = calloc(max, sizeof(*r->ids));
	return r->ids ? 0 : -ENOMEM;
}

void recent_fini(struct recent *r)
{
	free(r->ids);
}

void recent_add(struct recent *r, int32_t id)
{
	if (!r->max)
		return;
	r->ids[r->next] = id;
	r->next = r->next + 1 < r->max ? r->next + 1 : 0;
	r->n += r->n < r->max;
}

void recent_clear(struct recent *r)
{
	r->n = r->next = 0;
}

int32_t recent_at(const struct recent *r, size_t back)
{
	size_t from_next = back + 1;

	return r->ids[r->next >= from_next ? r->next - from_next : r->max + r->next - from_next];
}
