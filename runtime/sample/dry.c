// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "dry.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"

static int dry_check(const struct llm_dry *o, const struct pieces *pieces)
{
	if (!isfinite(o->multiplier) || o->multiplier < 0)
		return llm_fail(-EINVAL, "DRY's multiplier %g is not a number from 0 on",
				(double)o->multiplier);
	if (o->base != 0 && !(isfinite(o->base) && o->base >= 1))
		return llm_fail(-EINVAL, "DRY's base %g is not a number from 1 on",
				(double)o->base);
	if (o->nr_breaks && !pieces)
		return llm_fail(-EINVAL, "DRY has breaks, but no engine with a vocabulary");
	for (size_t i = 0; i < o->nr_breaks; i++) {
		size_t bytes = strlen(o->breaks[i]);

		if (!bytes || bytes > LLM_DRY_BREAK_BYTES)
			return llm_fail(-EINVAL,
					"DRY's break %zu has %zu bytes; give it 1 to %d of them", i,
					bytes, LLM_DRY_BREAK_BYTES);
	}
	return 0;
}

static int dry_copy_breaks(struct dry *d, const struct llm_dry *opts)
{
	d->breaks = calloc(opts->nr_breaks + 1, sizeof(*d->breaks));
	if (!d->breaks)
		return -ENOMEM;
	for (; d->nr_breaks < opts->nr_breaks; d->nr_breaks++) {
		d->breaks[d->nr_breaks] = strdup(opts->breaks[d->nr_breaks]);
		if (!d->breaks[d->nr_breaks])
			return -ENOMEM;
	}
	return 0;
}

int dry_init(struct dry *d, const struct llm_dry *opts, const struct pieces *pieces,
	     unsigned int n_vocab)
{
	int err = dry_check(opts, pieces);

	*d = (struct dry){ .multiplier = opts->multiplier, .pieces = pieces };
	if (err || opts->multiplier == 0)
		return err;
	d->base = opts->base != 0 ? opts->base : LLM_DRY_BASE;
	d->allowed_length = opts->allowed_length ? opts->allowed_length : LLM_DRY_ALLOWED_LENGTH;
	d->last_n = opts->last_n ? opts->last_n : LLM_DRY_LAST_N;
	d->ids = malloc(d->last_n * sizeof(*d->ids));
	d->z = malloc(d->last_n * sizeof(*d->z));
	d->longest = calloc(n_vocab, sizeof(*d->longest));
	if (!d->ids || !d->z || !d->longest || dry_copy_breaks(d, opts))
		return llm_fail(-ENOMEM, "no memory for DRY among %zu tokens", d->last_n);
	return 0;
}

void dry_fini(struct dry *d)
{
	for (size_t i = 0; i < d->nr_breaks; i++)
		free(d->breaks[i]);
	free(d->breaks);
	free(d->ids);
	free(d->z);
	free(d->longest);
}

/* ---- breaks ---- */

/* Whether a break ends in @text behind its first @from bytes. */
static bool breaks_after(const struct dry *d, const char *text, size_t bytes, size_t from)
{
	for (size_t i = 0; i < d->nr_breaks; i++) {
		size_t n = strlen(d->breaks[i]), first = from >= n ? from - n + 1 : 0;

		if (bytes > first && memmem(text + first, bytes - first, d->breaks[i], n))
			return true;
	}
	return false;
}

/* Appends some bytes of a token to the tail. True: a break ended in them. */
static bool tail_add(struct dry *d, const char *text, size_t bytes)
{
	char joined[2 * LLM_DRY_BREAK_BYTES];
	size_t n = d->tail_bytes, kept;
	bool breaks;

	memcpy(joined, d->tail, n);
	memcpy(joined + n, text, bytes);
	breaks = breaks_after(d, joined, n + bytes, n);
	kept = n + bytes < sizeof(d->tail) ? n + bytes : sizeof(d->tail);
	memcpy(d->tail, joined + n + bytes - kept, kept);
	d->tail_bytes = kept;
	return breaks;
}

void dry_add(struct dry *d, int32_t id)
{
	bool broken = false;
	size_t bytes, part;
	const char *text;

	d->unbroken++;
	if (!d->nr_breaks)
		return;
	text = pieces_text(d->pieces, id, &bytes);
	for (; bytes; text += part, bytes -= part) {
		part = bytes < sizeof(d->tail) ? bytes : sizeof(d->tail);
		broken |= tail_add(d, text, part);
	}
	if (broken)
		d->unbroken = 0;
}

void dry_clear(struct dry *d)
{
	d->tail_bytes = 0;
	d->unbroken = 0;
}

static bool is_break(const struct dry *d, int32_t id)
{
	size_t bytes;
	const char *text;

	if (!d->nr_breaks)
		return false;
	text = pieces_text(d->pieces, id, &bytes);
	return breaks_after(d, text, bytes, 0);
}

/* ---- repetitions ---- */

/* z[i]: how many of x[i], x[i + 1], ... equal x[0], x[1], ... */
static void z_function(const int32_t *x, uint32_t n, uint32_t *z)
{
	uint32_t first = 0, end = 0; /* of the equal part that reaches furthest */

	for (uint32_t i = 1; i < n; i++) {
		uint32_t known = i < end ? z[i - first] : 0;

		if (known > end - i && i < end)
			known = end - i;
		while (i + known < n && x[known] == x[i + known])
			known++;
		z[i] = known;
		if (i + known > end) {
			first = i;
			end = i + known;
		}
	}
}

static float dry_penalty(const struct dry *d, uint32_t repeated)
{
	double penalty = (double)d->multiplier *
			 pow((double)d->base, (double)(repeated - d->allowed_length));

	/* Large enough to rule a token out, and finite. */
	return penalty < 1e30 ? (float)penalty : 1e30f;
}

void dry_apply(struct dry *d, const struct recent *recent, float *logits)
{
	uint32_t n = (uint32_t)(recent->n < d->last_n ? recent->n : d->last_n), i;

	if (d->unbroken < d->allowed_length)
		return;
	for (i = 0; i < n; i++)
		d->ids[i] = recent_at(recent, i);
	z_function(d->ids, n, d->z);
	for (i = 1; i < n; i++) {
		uint32_t repeated = d->z[i] < d->unbroken ? d->z[i] : (uint32_t)d->unbroken,
			 *longest = &d->longest[d->ids[i - 1]];

		if (repeated >= d->allowed_length && repeated > *longest)
			*longest = repeated;
	}
	for (i = 0; i < n; i++) {
		int32_t id = d->ids[i];

		if (d->longest[id] && !is_break(d, id))
			logits[id] -= dry_penalty(d, d->longest[id]);
		d->longest[id] = 0;
	}
}
