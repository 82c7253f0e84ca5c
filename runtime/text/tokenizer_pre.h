/* SPDX-License-Identifier: MIT */
/*
 * Pre-tokenizers: the rules by which byte-level BPE cuts a text into words before it merges.
 *
 * A pre-tokenizer is a sequence of steps. The first cuts the text into stretches, and each further
 * one cuts the stretches that the step before left. A step sees no more than its stretch: what
 * lies beyond is the end of the text to it. What its pattern does not match is a stretch, too, so
 * no byte is lost.
 *
 * The patterns belong to the models: they are those of the models' own tokenizer.json, written for
 * PCRE2. Some are written in an equivalent form that takes linear time, or in one step for two.
 */
#ifndef TOKENIZER_PRE_H
#define TOKENIZER_PRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRE_STEPS 6
#define PRE_NAMES 24

/* Where a step cuts. */
enum pre_cut {
	PRE_ALONE, /* before and after each match */
	/* the same, and each match into groups of three characters, the first of which may be
	 * shorter: 1|234|567 */
	PRE_THREES,
	/* only between such groups: the first stays with what precedes it unless it has three */
	PRE_THREES_INSIDE,
};

struct pre_step {
	const char *pattern; /* never matches an empty string; NULL: no more steps */
	enum pre_cut cut;
};

/* Pre-tokenizers that cut alike. */
struct pre_tokenizer {
	const char *names[PRE_NAMES]; /* values of tokenizer.ggml.pre */
	struct pre_step steps[PRE_STEPS];
	bool whole_words; /* a word that is a token is taken without merging */
	bool adds_bos; /* unless the file says otherwise */
	bool nfc; /* the text is normalised first */
};

/* NULL: unknown name. */
const struct pre_tokenizer *pre_find(const char *name, size_t bytes);
/* Name @i of all that are known, sorted by pre-tokenizer; NULL behind the last. */
const char *pre_name(size_t i);

/* Compiled patterns. */
struct splitter;

/* Returns NULL without memory, or if libpcre2 refuses a pattern. */
struct splitter *splitter_create(const struct pre_tokenizer *pre);
void splitter_free(struct splitter *s);

/* Takes a word. A result other than 0 ends the splitting. */
typedef int (*splitter_word)(void *ud, const uint8_t *text, size_t bytes);

/* Passes the words of valid UTF-8 to @word in their order. 0, the result of @word, -ENOMEM, or
 * -EOVERFLOW if libpcre2 reaches one of its limits. Several threads may use a splitter. */
int splitter_run(const struct splitter *s, const uint8_t *text, size_t bytes, splitter_word word,
		 void *ud);

#endif /* TOKENIZER_PRE_H */
