// SPDX-License-Identifier: MIT
#include "engine_text.h"

#include <errno.h>
#include <stdlib.h>

#include "engine.h"
#include "grammar.h"
#include "json_schema.h"
#include "llm_fail.h"
#include "matcher.h"
#include "pieces.h"
#include "trie.h"

void engine_text_init(struct engine_text *t)
{
	pthread_mutex_init(&t->lock, NULL);
}

void engine_text_fini(struct engine_text *t)
{
	trie_free(t->trie);
	pieces_free(t->pieces);
	pthread_mutex_destroy(&t->lock);
}

static int text_of(const void *ud, int32_t id, char *buf, size_t max)
{
	return tokenizer_token_text(ud, id, buf, max);
}

static bool is_end(const void *ud, int32_t id)
{
	return tokenizer_is_end(ud, id);
}

/* With the lock held. */
static int make_pieces(struct llm_engine *e)
{
	const struct pieces_source source = {
		.n = e->tok ? tokenizer_n_vocab(e->tok) : 0,
		.text = text_of,
		.is_end = is_end,
		.ud = e->tok,
	};

	if (e->text.pieces)
		return 0;
	if (!e->tok)
		return llm_fail(-ENOTSUP, "a dry run of a shape has no vocabulary");
	return pieces_create(&source, &e->text.pieces)
		       ? llm_fail(-ENOMEM, "no memory for the texts of %zu tokens", source.n)
		       : 0;
}

static int make_trie(struct llm_engine *e)
{
	int err = make_pieces(e);

	if (err || e->text.trie)
		return err;
	return trie_create(e->text.pieces, &e->text.trie)
		       ? llm_fail(-ENOMEM, "no memory for a trie of %zu tokens", e->text.pieces->n)
		       : 0;
}

int engine_pieces(struct llm_engine *e, const struct pieces **pieces)
{
	int err;

	pthread_mutex_lock(&e->text.lock);
	err = make_pieces(e);
	*pieces = e->text.pieces;
	pthread_mutex_unlock(&e->text.lock);
	return err;
}

/* One of @grammar and @schema is NULL. */
static int parse(const char *grammar, const char *schema, struct grammar **parsed)
{
	char *text = NULL;
	int err = schema ? json_schema_to_grammar(schema, &text) : 0;

	err = err ? err : grammar_parse(schema ? text : grammar, parsed);
	free(text);
	return err;
}

int llm_grammar_check(const char *grammar, const char *json_schema)
{
	struct grammar *parsed;
	int err = parse(grammar, json_schema, &parsed);

	if (!err)
		grammar_free(parsed);
	return err;
}

int engine_matcher(struct llm_engine *e, const char *grammar, const char *schema,
		   struct matcher **matcher)
{
	struct grammar *parsed;
	int err = parse(grammar, schema, &parsed);

	if (err)
		return err;
	pthread_mutex_lock(&e->text.lock);
	err = make_trie(e);
	pthread_mutex_unlock(&e->text.lock);
	if (!err)
		err = matcher_create(parsed, e->text.trie, matcher);
	if (err)
		grammar_free(parsed);
	return err;
}
