/* SPDX-License-Identifier: MIT */
/*
 * Huge pages for what a KV cache holds. Each token reads all of it, and with 4 KiB pages each row
 * costs page-table walks, and each written one a fault; but a session must not take memory for a
 * context that it may never have. So a page becomes huge before the first row in it is written.
 */
#ifndef CACHE_PAGES_H
#define CACHE_PAGES_H

#include <stddef.h>
#include <stdint.h>

struct cache_pages {
	uint8_t *data; /* of the first huge page */
	size_t off, nr; /* its place in the cache; how many there are, 0: none, or no more wanted */
	uint8_t *done; /* [nr]: nothing more to do */
	unsigned int rows; /* whose pages have been looked at */
};

/* A cache of @areas areas of @stride bytes, each of rows of @row_bytes. */
struct cache_layout {
	size_t areas, stride, row_bytes;
};

/* The memory may be NULL. 0 or -ENOMEM; cache_pages_fini() in either case. */
int cache_pages_init(struct cache_pages *p, void *data, size_t bytes);
void cache_pages_fini(struct cache_pages *p);
/* The first @rows rows of each area are needed. Others may read and write meanwhile. What the
 * kernel refuses stays as it is. */
void cache_pages_grow(struct cache_pages *p, const struct cache_layout *l, unsigned int rows);

#endif /* CACHE_PAGES_H */
