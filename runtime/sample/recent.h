/* SPDX-License-Identifier: MIT */
/* The last tokens of a text: a ring. */
#ifndef RECENT_H
#define RECENT_H

#include <stddef.h>
#include <stdint.h>

struct recent {
	int32_t *ids; /* [max] */
	size_t max, n; /* how many there can be, and are */
	size_t next; /* where the next one goes */
};

/* 0 or -ENOMEM; in both cases free it with recent_fini(). @max 0: it stays empty. */
int recent_init(struct recent *r, size_t max);
void recent_fini(struct recent *r);
void recent_add(struct recent *r, int32_t id);
void recent_clear(struct recent *r);
/* The token @back places before the last one, @back < n. */
int32_t recent_at(const struct recent *r, size_t back);

#endif /* RECENT_H */
