// SPDX-License-Identifier: MIT
/*
 * Splitting of a text by a pre-tokenizer's steps: see tokenizer_pre.h.
 *
 * The patterns are compiled by PCRE2, and by its JIT where that works: its interpreter gives the
 * same words. Each step passes its stretches to the next as soon as it has cut them.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer_pre.h"

#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>

struct splitter {
	size_t n_steps;
	struct {
		pcre2_code *pattern;
		enum pre_cut cut;
	} steps[PRE_STEPS];
};

struct splitter *splitter_create(const struct pre_tokenizer *pre)
{
	struct splitter *s = calloc(1, sizeof(*s));
	PCRE2_SIZE at;
	int code;

	while (s && s->n_steps < PRE_STEPS && pre->steps[s->n_steps].pattern) {
		const struct pre_step *step = &pre->steps[s->n_steps];
		pcre2_code *pattern =
			pcre2_compile((PCRE2_SPTR)step->pattern, PCRE2_ZERO_TERMINATED,
				      PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);

		if (!pattern) {
			splitter_free(s);
			return NULL;
		}
		pcre2_jit_compile(pattern, PCRE2_JIT_COMPLETE);
		s->steps[s->n_steps].pattern = pattern;
		s->steps[s->n_steps++].cut = step->cut;
	}
	return s;
}

void splitter_free(struct splitter *s)
{
	for (size_t i = 0; s && i < s->n_steps; i++)
		pcre2_code_free(s->steps[i].pattern);
	free(s);
}

struct split {
	const struct splitter *s;
	pcre2_match_data *match;
	splitter_word word;
	void *ud;
};

/* A stretch that a step divides. */
struct stretch {
	const uint8_t *text;
	size_t start; /* of what is not passed on yet */
	size_t step;
};

static int split_stretch(struct split *w, size_t step, const uint8_t *text, size_t bytes);

/* Passes on the stretch's part before @at. */
static inline int cut(struct split *w, struct stretch *p, size_t at)
{
	size_t start = p->start;

	if (at == start)
		return 0;
	p->start = at;
	if (p->step + 1 == w->s->n_steps)
		return w->word(w->ud, p->text + start, at - start);
	return split_stretch(w, p->step + 1, p->text + start, at - start);
}

/* Cuts between groups of three characters of a match, counted from its end. */
static int cut_threes(struct split *w, struct stretch *p, size_t start, size_t end)
{
	size_t chars = 0;
	int ret = 0;

	for (size_t i = start; i < end; i++)
		chars += (p->text[i] & 0xc0) != 0x80;
	for (size_t i = start; !ret && i < end; i++)
		if ((p->text[i] & 0xc0) != 0x80 && chars-- % 3 == 0)
			ret = cut(w, p, i);
	return ret;
}

static int cut_match(struct split *w, struct stretch *p, size_t start, size_t end)
{
	enum pre_cut how = w->s->steps[p->step].cut;
	int ret = how == PRE_THREES_INSIDE ? 0 : cut(w, p, start);

	if (!ret && how != PRE_ALONE)
		ret = cut_threes(w, p, start, end);
	if (!ret && how != PRE_THREES_INSIDE)
		ret = cut(w, p, end);
	return ret;
}

static int split_stretch(struct split *w, size_t step, const uint8_t *text, size_t bytes)
{
	PCRE2_SIZE *span = pcre2_get_ovector_pointer(w->match);
	struct stretch p = { text, 0, step };
	size_t pos = 0;
	int ret = 0, n;

	while (!ret && pos < bytes) {
		n = pcre2_match(w->s->steps[step].pattern, text, bytes, pos, PCRE2_NO_UTF_CHECK,
				w->match, NULL);
		if (n == PCRE2_ERROR_NOMATCH)
			break;
		if (n < 0)
			return n == PCRE2_ERROR_NOMEMORY ? -ENOMEM : -EOVERFLOW;
		pos = span[1];
		ret = cut_match(w, &p, span[0], span[1]);
	}
	return ret ? ret : cut(w, &p, bytes);
}

int splitter_run(const struct splitter *s, const uint8_t *text, size_t bytes, splitter_word word,
		 void *ud)
{
	struct split w = { s, pcre2_match_data_create(1, NULL), word, ud };
	int ret;

	if (!w.match)
		return -ENOMEM;
	ret = split_stretch(&w, 0, text, bytes);
	pcre2_match_data_free(w.match);
	return ret;
}
