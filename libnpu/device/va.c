// SPDX-License-Identifier: MIT
/* Free ranges, sorted by start: first fit; freed neighbours merge. */
#include <errno.h>
#include <stdlib.h>

#include "va.h"

int npu_va_init(struct npu_va_range **list, uint64_t start, uint64_t size)
{
	*list = NULL;
	return npu_va_free(list, start, size);
}

static struct npu_va_range *npu_va_range_new(uint64_t start, uint64_t size,
					     struct npu_va_range *next)
{
	struct npu_va_range *r = malloc(sizeof(*r));

	if (r)
		*r = (struct npu_va_range){ .start = start, .size = size, .next = next };
	return r;
}

uint64_t npu_va_alloc(struct npu_va_range **list, uint64_t size, uint64_t align)
{
	for (struct npu_va_range **p = list; *p; p = &(*p)->next) {
		struct npu_va_range *r = *p, *rest;
		uint64_t start = (r->start + align - 1) & ~(align - 1), before = start - r->start,
			 after;

		if (before > r->size || size > r->size - before)
			continue;
		after = r->size - before - size;
		if (before && after) {
			rest = npu_va_range_new(start + size, after, r->next);
			if (!rest)
				return 0;
			r->size = before;
			r->next = rest;
		} else if (before) {
			r->size = before;
		} else if (after) {
			r->start = start + size;
			r->size = after;
		} else {
			*p = r->next;
			free(r);
		}
		return start;
	}
	return 0;
}

int npu_va_free(struct npu_va_range **list, uint64_t start, uint64_t size)
{
	struct npu_va_range **p = list, *prev = NULL, *r;

	while (*p && (*p)->start < start) {
		prev = *p;
		p = &prev->next;
	}
	if (prev && prev->start + prev->size == start) {
		prev->size += size;
		r = prev;
	} else {
		r = npu_va_range_new(start, size, *p);
		if (!r)
			return -ENOMEM;
		*p = r;
	}
	if (r->next && r->start + r->size == r->next->start) {
		struct npu_va_range *next = r->next;

		r->size += next->size;
		r->next = next->next;
		free(next);
	}
	return 0;
}

void npu_va_fini(struct npu_va_range **list)
{
	while (*list) {
		struct npu_va_range *r = *list;

		*list = r->next;
		free(r);
	}
}
