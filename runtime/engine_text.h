/* SPDX-License-Identifier: MIT */
/* What an engine's samplers share of its vocabulary: made for the first one that needs it. */
#ifndef ENGINE_TEXT_H
#define ENGINE_TEXT_H

#include <pthread.h>

struct llm_engine;
struct matcher;
struct pieces;
struct trie;

struct engine_text {
	pthread_mutex_t lock;
	struct pieces *pieces; /* NULL: not yet made */
	struct trie *trie;
};

void engine_text_init(struct engine_text *t);
void engine_text_fini(struct engine_text *t);

/* The engine's. 0, -ENOTSUP without a vocabulary, or -ENOMEM, with an error line. */
int engine_pieces(struct llm_engine *e, const struct pieces **pieces);
/* Makes a matcher of a grammar, or of a JSON schema; the other is NULL. Errors as
 * llm_sampler_create(). */
int engine_matcher(struct llm_engine *e, const char *grammar, const char *schema,
		   struct matcher **matcher);

#endif /* ENGINE_TEXT_H */
