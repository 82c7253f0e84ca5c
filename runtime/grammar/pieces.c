// SPDX-License-Identifier: MIT
#include "pieces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Appends the text of token @id to the @used bytes; -ENOMEM: there is no room. */
static int add_text(struct pieces *p, const struct pieces_source *source, int32_t id, size_t *used,
		    size_t *room)
{
	int n = source->text(source->ud, id, p->bytes + *used, *room - *used);
	char *grown;

	if (n <= 0)
		return 0;
	if ((size_t)n > *room - *used) {
		*room = 2 * *room + (size_t)n;
		grown = realloc(p->bytes, *room);
		if (!grown)
			return -ENOMEM;
		p->bytes = grown;
		n = source->text(source->ud, id, p->bytes + *used, *room - *used);
	}
	*used += (size_t)n;
	return 0;
}

static int add_end(struct pieces *p, int32_t id)
{
	int32_t *grown = realloc(p->ends, (p->nr_ends + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	p->ends = grown;
	p->ends[p->nr_ends++] = id;
	return 0;
}

static int pieces_fill(struct pieces *p, const struct pieces_source *source)
{
	size_t used = 0, room = 8 * source->n + 1;
	int err = 0;

	p->bytes = malloc(room);
	p->offsets = calloc(source->n + 1, sizeof(*p->offsets));
	if (!p->bytes || !p->offsets)
		return -ENOMEM;
	for (; p->n < source->n && !err; p->n++) {
		int32_t id = (int32_t)p->n;

		p->offsets[p->n] = (uint32_t)used;
		if (source->is_end(source->ud, id))
			err = add_end(p, id);
		else
			err = add_text(p, source, id, &used, &room);
	}
	p->offsets[p->n] = (uint32_t)used;
	return err;
}

int pieces_create(const struct pieces_source *source, struct pieces **pieces)
{
	struct pieces *p = calloc(1, sizeof(*p));
	int err = p ? pieces_fill(p, source) : -ENOMEM;

	if (err) {
		pieces_free(p);
		p = NULL;
	}
	*pieces = p;
	return err;
}

void pieces_free(struct pieces *pieces)
{
	if (!pieces)
		return;
	free(pieces->bytes);
	free(pieces->offsets);
	free(pieces->ends);
	free(pieces);
}

const char *pieces_text(const struct pieces *pieces, int32_t id, size_t *bytes)
{
	if (id < 0 || (size_t)id >= pieces->n) {
		*bytes = 0;
		return "";
	}
	*bytes = pieces->offsets[id + 1] - pieces->offsets[id];
	return pieces->bytes + pieces->offsets[id];
}

bool pieces_is_end(const struct pieces *pieces, int32_t id)
{
	for (size_t i = 0; i < pieces->nr_ends; i++)
		if (pieces->ends[i] == id)
			return true;
	return false;
}
