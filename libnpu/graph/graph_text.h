/* SPDX-License-Identifier: MIT */
/*
 * A graph on its way from its text (npuc(1)): what the statements of operations, which
 * stand in op_*.c, ask for.
 */
#ifndef GRAPH_TEXT_H
#define GRAPH_TEXT_H

#include <stdint.h>

#include "npu_graph.h"

struct graph_text;

/* A statement that appends an operation. */
struct text_op {
	/*
	 * Its form: names of the results, the word that it is known by, names of the arguments,
	 * those in brackets may be left out. "Q, SCALE = quant X", "store X S P".
	 */
	const char *syntax;
	const char *doc; /* for help: half a line */
	/* Fills in the results, as many as @syntax has; NULL where it failed. */
	void (*build)(struct graph_text *t, struct npu_tensor *out[]);
};

struct npu_graph *text_graph(struct graph_text *t);
/* Argument @arg, from 0. What it is not is the text's error; then NULL, NPU_NO_PARAM or 0. */
struct npu_tensor *text_tensor(struct graph_text *t, unsigned int arg);
/* NULL where it was left out. */
struct npu_tensor *text_optional(struct graph_text *t, unsigned int arg);
/* NPU_NO_PARAM for "-", and where it was left out. */
int text_param(struct graph_text *t, unsigned int arg);
uint64_t text_integer(struct graph_text *t, unsigned int arg, uint64_t max);
float text_number(struct graph_text *t, unsigned int arg);
/* Which of "this|that" it is, from 0; @what: "a mode". */
unsigned int text_choice(struct graph_text *t, unsigned int arg, const char *what,
			 const char *names);

#endif /* GRAPH_TEXT_H */
