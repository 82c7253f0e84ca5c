// SPDX-License-Identifier: MIT
#include "cache_pages.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE ((size_t)2 << 20)
/* Rows between two looks at all pages. */
#define STEP_ROWS 64

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

int cache_pages_init(struct cache_pages *p, void *data, size_t bytes)
{
	size_t off = -(uintptr_t)data % HUGE;

	*p = (struct cache_pages){ .data = (uint8_t *)data + off, .off = off };
	if (!data || bytes < off + HUGE)
		return 0;
	p->nr = (bytes - off) / HUGE;
	p->done = calloc(p->nr, sizeof(*p->done));
	return p->done ? 0 : -ENOMEM;
}

void cache_pages_fini(struct cache_pages *p)
{
	free(p->done);
	*p = (struct cache_pages){ 0 };
}

/* Whether the first @rows rows of an area begin in or reach into huge page @page. */
static bool is_reached(const struct cache_pages *p, const struct cache_layout *l, size_t page,
		       unsigned int rows)
{
	size_t begin = p->off + page * HUGE, end = begin + HUGE;

	for (size_t i = begin / l->stride; i < l->areas && i * l->stride < end; i++)
		if (i * l->stride + rows * l->row_bytes > begin)
			return true;
	return false;
}

/* False if the kernel never does this to such memory. */
static bool collapse(uint8_t *page)
{
	/* The kernel wants a page table to be there, and others may be writing. */
	__atomic_fetch_or(page, 0, __ATOMIC_RELAXED);
	return !madvise(page, HUGE, MADV_COLLAPSE) || errno != EINVAL;
}

void cache_pages_grow(struct cache_pages *p, const struct cache_layout *l, unsigned int rows)
{
	if (!p->nr || rows <= p->rows)
		return;
	p->rows = (rows + STEP_ROWS - 1) / STEP_ROWS * STEP_ROWS;
	for (size_t i = 0; i < p->nr; i++) {
		if (p->done[i] || !is_reached(p, l, i, p->rows))
			continue;
		p->done[i] = 1;
		if (!collapse(p->data + i * HUGE)) {
			p->nr = 0;
			return;
		}
	}
}
