// SPDX-License-Identifier: MIT
/*
 * Special tokens that are spelled out in a text.
 *
 * The tokens are sorted by their bytes. special_match() narrows the range of candidates byte by
 * byte by bisection and remembers the longest complete one.
 */
#include "tokenizer_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
	const uint8_t *text;
	uint32_t bytes;
	int32_t id;
};

static int candidate_compare(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	int d = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);

	if (!d)
		d = (x->bytes > y->bytes) - (x->bytes < y->bytes);
	return d ? d : (x->id > y->id) - (x->id < y->id);
}

int special_load(struct tokenizer *tok, struct tokenizer_error *e)
{
	struct candidate *all;
	uint32_t i, n = 0;

	all = calloc(tok->n_tokens, sizeof(*all));
	tok->special = calloc(tok->n_tokens, sizeof(*tok->special));
	if (!all || !tok->special) {
		free(all);
		return tokenizer_fail(e, -ENOMEM, "no memory for the special tokens");
	}
	for (i = 0; i < tok->n_tokens; i++) {
		const struct token *t = &tok->tokens[i];

		if (t->bytes &&
		    (t->type == TOKEN_CONTROL || t->type == TOKEN_USER || t->type == TOKEN_UNKNOWN))
			all[n++] = (struct candidate){ token_text(tok, i), t->bytes, i };
	}
	qsort(all, n, sizeof(*all), candidate_compare);
	for (i = 0; i < n; i++) {
		tok->special[i] = all[i].id;
		tok->special_first[*all[i].text] = 1;
	}
	tok->n_special = n;
	free(all);
	return 0;
}

/*
 * The first of the candidates low..high-1 whose byte @depth is at least @byte. All candidates are
 * longer than @depth.
 */
static uint32_t lower_bound(const struct tokenizer *tok, uint32_t low, uint32_t high,
			    unsigned int depth, unsigned int byte)
{
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (token_text(tok, tok->special[mid])[depth] < byte)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int32_t special_match(const struct tokenizer *tok, const uint8_t *text, size_t bytes,
		      size_t control)
{
	uint32_t low = 0, high = tok->n_special, depth;
	int32_t found = -1;

	for (depth = 0; low < high && depth < bytes; depth++) {
		low = lower_bound(tok, low, high, depth, text[depth]);
		high = lower_bound(tok, low, high, depth, text[depth] + 1u);
		/* Candidates that end here are sorted before the longer ones. */
		for (; low < high && tok->tokens[tok->special[low]].bytes == depth + 1; low++)
			if (depth < control || tok->tokens[tok->special[low]].type == TOKEN_USER)
				if (found < 0 || tok->tokens[found].bytes <= depth)
					found = tok->special[low];
	}
	return found;
}
