/* SPDX-License-Identifier: MIT */
/*
 * DRY: a penalty of tokens that continue a repetition (struct llm_dry).
 *
 * Of the last tokens, read backwards, the Z function gives for each earlier place how many tokens
 * before it are also the last ones of the text (Gusfield 1997, 1.4). The token at that place is
 * the one that would continue the repetition. That takes a time linear in the tokens.
 */
#ifndef DRY_H
#define DRY_H

#include <stdbool.h>

#include "llm.h"
#include "pieces.h"
#include "recent.h"

struct dry {
	float multiplier, base;
	size_t allowed_length, last_n; /* last_n 0: off */
	char **breaks;
	size_t nr_breaks;
	const struct pieces *pieces; /* NULL: no breaks */
	char tail[LLM_DRY_BREAK_BYTES]; /* the end of the text, in which a break may begin */
	size_t tail_bytes;
	size_t unbroken; /* tokens since the last one in which a break ended */
	int32_t *ids; /* [last_n], backwards */
	uint32_t *z; /* [last_n] */
	uint32_t *longest; /* [n_vocab]: repetitions that a token continues; zero between calls */
};

/* 0, or -EINVAL or -ENOMEM with an error line; in both cases free it with dry_fini(). @pieces: for
 * breaks; it must outlive @d. */
int dry_init(struct dry *d, const struct llm_dry *opts, const struct pieces *pieces,
	     unsigned int n_vocab);
void dry_fini(struct dry *d);
/* Token @id follows. */
void dry_add(struct dry *d, int32_t id);
void dry_clear(struct dry *d);
void dry_apply(struct dry *d, const struct recent *recent, float *logits);

#endif /* DRY_H */
