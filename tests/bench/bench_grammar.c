// SPDX-License-Identifier: MIT
/*
 * Grammars: what it costs to know the tokens that may follow.
 *
 *	bench_grammar [-m MODEL (the embedded one)] [-n PASSES (5)]
 *
 * A text is tokenized with the model's vocabulary, and followed token by token in a grammar. At
 * each of them all tokens are tried (mask), and the next one alone (allows), which is all that a
 * sampler needs while its model wants what the grammar allows. The first pass makes the states.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "grammar.h"
#include "json_schema.h"
#include "llm.h"
#include "matcher.h"
#include "pieces.h"
#include "tokenizer.h"
#include "trie.h"

#define MAX_TEXT 512 /* tokens */
#define MAX_TOKENS 4096

static const char json[] =
	"{\"name\": \"The kernel's memory\", \"id\": 1023, \"tags\": [\"slab\", \"page\"],\n"
	" \"size\": {\"bytes\": 4096, \"ratio\": 0.125, \"unit\": null}, \"free\": true,\n"
	" \"notes\": [{\"text\": \"Allocates pages in powers of two, which are called orders.\", "
	"\"lang\": \"en\"}, {\"text\": \"\u5185\u6838\u5206\u914d\u5185\u5b58\u9875\u9762\u3002\", "
	"\"lang\": \"zh\"}], \"more\": {\"a\": {\"b\": {\"c\": [[1, 2], [3, 4.5e-3]]}}}}";

static const struct {
	const char *name, *grammar, *schema, *text;
} cases[] = {
	{ "any JSON", NULL, "{}", json },
	{ "a JSON object", NULL,
	  "{\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":60},\"id\":{\"type\":"
	  "\"integer\",\"minimum\":0,\"maximum\":5000},\"tags\":{\"items\":{\"type\":\"string\"}}},"
	  "\"required\":[\"name\",\"id\"]}",
	  "{\"name\": \"The kernel's memory is allocated\", \"id\": 1023, \"tags\": [\"slab\", "
	  "\"page\"]}" },
	{ "lines of words", "root ::= (word (\" \" word)* \"\\n\")+\nword ::= [a-zA-Z]+ [,.]?",
	  NULL,
	  "Allocates pages in powers of two, which are called orders.\nAn order is a page.\n" },
	{ "arithmetic",
	  "root ::= (expr \"=\" term \"\\n\")+\nexpr ::= term ([-+*/] term)*\n"
	  "term ::= [a-z]+ | [0-9]+ | \"(\" expr \")\"",
	  NULL, "(a+b)*(c-(12/3))=x\na*(b+(c*(d-e)))=y\n" },
};

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec * 1e-3;
}

static void die(const char *what)
{
	fprintf(stderr, "bench_grammar: %s\n", what);
	exit(1);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Times of one pass over a text's tokens. */
struct times {
	double mask[MAX_TOKENS], allows[MAX_TOKENS];
	unsigned int n;
};

static void measure(struct matcher *m, const int32_t *ids, unsigned int n, float *logits,
		    float *masked, unsigned int n_vocab, struct times *t)
{
	double start;

	matcher_reset(m);
	for (unsigned int i = 0; i < n; i++) {
		start = now_us();
		if (matcher_mask(m, logits, masked, n_vocab))
			die("out of memory");
		t->mask[t->n] = now_us() - start;
		start = now_us();
		if (matcher_allows(m, ids[i]) != 1 || masked[ids[i]] != 0)
			die("the text is not the grammar's");
		t->allows[t->n++] = now_us() - start;
		matcher_accept(m, ids[i]);
	}
}

static void print(const char *what, double *us, unsigned int n)
{
	qsort(us, n, sizeof(*us), by_value);
	printf("  %s %8.1f (%8.1f, %8.1f)", what, us[n / 2], us[n * 9 / 10], us[n - 1]);
}

/* Behind a newline, so that no space comes first. */
static unsigned int tokenize(const struct tokenizer *tok, const struct pieces *pieces,
			     const char *text, int32_t *ids)
{
	char longer[2048];
	const char *piece;
	size_t bytes = 0;
	int32_t all[MAX_TEXT];
	long n, i = 0;

	snprintf(longer, sizeof(longer), "\n%s", text);
	n = tokenizer_encode(tok, longer, strlen(longer), 0, all, MAX_TEXT);
	if (n < 0 || n > MAX_TEXT)
		die("the text has too many tokens");
	do
		piece = pieces_text(pieces, all[i], &bytes);
	while (i++ < n && (!bytes || piece[bytes - 1] != '\n'));
	memcpy(ids, all + i, (size_t)(n - i) * sizeof(*ids));
	return (unsigned int)(n - i);
}

static void bench(size_t i, const struct tokenizer *tok, const struct trie *trie,
		  unsigned int passes)
{
	unsigned int n_vocab = (unsigned int)trie->pieces->n;
	float *logits = calloc(n_vocab, sizeof(*logits)),
	      *masked = calloc(n_vocab, sizeof(*masked));
	struct times *t = calloc(1, sizeof(*t));
	const char *grammar = cases[i].grammar;
	char *text = NULL;
	struct grammar *g;
	struct matcher *m;
	int32_t ids[MAX_TEXT];
	double start = now_us();
	unsigned int n = tokenize(tok, trie->pieces, cases[i].text, ids);

	if (cases[i].schema && json_schema_to_grammar(cases[i].schema, &text))
		die(llm_error());
	if (grammar_parse(text ? text : grammar, &g) || matcher_create(g, trie, &m))
		die(llm_error());
	printf("%-15s %6.2f ms", cases[i].name, (now_us() - start) * 1e-3);
	for (unsigned int pass = 0; pass < passes; pass++) {
		if (pass < 2)
			t->n = 0;
		if (t->n + n > MAX_TOKENS)
			break;
		measure(m, ids, n, logits, masked, n_vocab, t);
		if (pass == 0)
			print("first", t->mask, t->n);
	}
	print("then", t->mask, t->n);
	qsort(t->allows, t->n, sizeof(*t->allows), by_value);
	printf("  allows %6.2f\n", t->allows[t->n / 2]);
	matcher_free(m);
	free(text);
	free(t);
	free(logits);
	free(masked);
}

static int text_of(const void *ud, int32_t id, char *buf, size_t max)
{
	return tokenizer_token_text(ud, id, buf, max);
}

static bool is_end(const void *ud, int32_t id)
{
	return tokenizer_is_end(ud, id);
}

int main(int argc, char **argv)
{
	const char *model = "share/models/docs6m/docs6m-q8_0.gguf";
	unsigned int passes = 5;
	struct pieces *pieces;
	struct tokenizer *tok;
	struct gguf_file *file;
	struct trie *trie;
	char line[256];
	double start;
	int c;

	while ((c = getopt(argc, argv, "m:n:")) != -1) {
		if (c == 'm')
			model = optarg;
		else if (c == 'n')
			passes = (unsigned int)strtoul(optarg, NULL, 0);
	}
	if (optind < argc || passes < 2)
		die("usage: bench_grammar [-m MODEL] [-n PASSES, at least 2]");
	if (gguf_open(model, &file, line, sizeof(line)) ||
	    tokenizer_create(file, &tok, line, sizeof(line)))
		die(line);
	start = now_us();
	if (pieces_create(&(struct pieces_source){ tokenizer_n_vocab(tok), text_of, is_end, tok },
			  &pieces) ||
	    trie_create(pieces, &trie))
		die("out of memory");
	printf("%zu tokens, a trie of %u nodes in %.1f ms\n"
	       "us per token: median (slowest tenth, slowest)\n",
	       pieces->n, trie->n_nodes, (now_us() - start) * 1e-3);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		bench(i, tok, trie, passes);
	trie_free(trie);
	pieces_free(pieces);
	tokenizer_free(tok);
	gguf_close(file);
	return 0;
}
