/* SPDX-License-Identifier: MIT */
/* Inside llm-perplexity: what is scored, and what predictions are compared with. */
#ifndef LLM_PERPLEXITY_H
#define LLM_PERPLEXITY_H

#include <signal.h>
#include <stdio.h>

#include "options.h"
#include "tokens.h"

struct ppl_options {
	struct llm_options engine;
	const char *file; /* NULL: the base's text */
	char *text; /* what is in it */
	size_t text_bytes;
	const char *reference; /* NULL: none */
	const char *base; /* a file of log probabilities; NULL: none */
	bool compares; /* with the base, which is written otherwise */
	unsigned int n_ctx; /* 0: not given */
	uint64_t max_windows;
	bool all, json;
};

/* ---- bases of KL divergence ---- */

/*
 * A model's log probabilities over a text, in the format that llama-perplexity writes with
 * --kl-divergence-base. All numbers are little-endian:
 *
 *	char magic[8]            "_logits_"
 *	int32_t n_ctx, n_vocab   tokens of a window, of the vocabulary
 *	int32_t n_windows
 *	int32_t ids[n_windows][n_ctx]
 *	rows[n_windows][n_ctx - 1 - n_ctx / 2]   of the positions from n_ctx / 2 on
 *
 * A row is a float scale, a float least, and n_vocab numbers of 16 bits, and one more to make them
 * even; log p of a token is scale * number + least. What is less likely than the likeliest by more
 * than e^-16 is 0.
 */
struct base {
	FILE *f;
	const char *path;
	bool writing;
	unsigned int n_ctx, n_vocab, n_windows;
	int32_t *ids; /* [n_windows][n_ctx] of a base that is read */
	unsigned char *row;
	size_t row_bytes;
	/* Of the base's -log p of the next tokens, of its square and of its product with ours. */
	double nll, nll2, both;
	double kl, kl2, dp2; /* sums of KL divergences, their squares, and squares of p - base p */
	uint64_t same; /* positions with the same likeliest token */
	float *values; /* the KL divergence of each position */
	size_t n, room;
	int failed; /* 0, or -errno: no memory, or of the file; -ENODATA: it has ended */
};

/* Both return 0, or 1 after a message; call base_close() in either case. */
int base_create(struct base *base, const char *path, unsigned int n_ctx, unsigned int n_vocab,
		const struct token_list *text, unsigned int n_windows);
int base_open(struct base *base, const char *path);
/* Writes the row of a position, or compares it with the base's; positions come in their order.
 * @log_sum is log(sum(exp(logits))), @next the text's next token. */
void base_position(struct base *base, const float *logits, double log_sum, int32_t next);
/* 0, or 1 after a message if a position could not be read or written. */
int base_check(const struct base *base);
/* Removes a base that was not @complete. @status, or 1 after a message. */
int base_close(struct base *base, bool complete, int status);
/* The KL divergence that a share of all positions, from 0 to 1, does not exceed. Sorts the
 * values. */
double base_quantile(struct base *base, double share);

/* ---- scores ---- */

/* Sums over scored positions. */
struct score {
	const int32_t *next; /* the token that each position of the running evaluation predicts */
	unsigned int n_vocab;
	uint64_t n;
	double nll, nll2; /* of -log p and of its square */
	const int32_t *top; /* the reference's, by position; NULL: there is none */
	uint64_t same; /* positions whose most likely token is the reference's */
	struct base *base; /* NULL: none */
	size_t n_windows; /* that were scored */
};

/* Ctrl-C: scoring ends after the window at work. */
extern volatile sig_atomic_t interrupted;

/* Scores the first @n_windows windows of @text; the first token of each becomes BOS if the model
 * wants one. 0, or 1 after a message. */
int score_text(const struct ppl_options *o, struct llm_engine *engine, struct llm_session *s,
	       struct token_list *text, size_t n_windows, struct score *sc);

/* Prints what was scored. 0, or 1 after a message. */
int print_score(const struct ppl_options *o, const struct llm_engine *engine,
		const struct llm_session *s, const struct token_list *text, const struct score *sc);

#endif /* LLM_PERPLEXITY_H */
