/* SPDX-License-Identifier: MIT */
/* A graph being parsed from text (npuc(1)): functions for statements of operations in op_*.c. */
#ifndef GRAPH_TEXT_H
#define GRAPH_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "npu_graph.h"

struct graph_text;

/* A statement that appends an operation. */
struct text_op {
	/*
	 * Its form: names of the results, the operation's word, names of the arguments, optional
	 * ones in brackets. "Q, SCALE = quant X", "store X S P".
	 */
	const char *syntax;
	const char *doc; /* for help: half a line */
	/* Sets the results, as many as @syntax has; NULL on an error. */
	void (*build)(struct graph_text *t, struct npu_tensor *out[]);
};

struct npu_graph *text_graph(struct graph_text *t);
/* Argument @arg, from 0. Of a wrong type: records an error, returns NULL, NPU_NO_PARAM or 0. */
struct npu_tensor *text_tensor(struct graph_text *t, unsigned int arg);
/* NULL if the argument was left out. */
struct npu_tensor *text_optional(struct graph_text *t, unsigned int arg);
/* Whether the argument is "-". */
bool text_dash(struct graph_text *t, unsigned int arg);
/* NPU_NO_PARAM for "-", and if the argument was left out. */
int text_param(struct graph_text *t, unsigned int arg);
uint64_t text_integer(struct graph_text *t, unsigned int arg, uint64_t max);
float text_number(struct graph_text *t, unsigned int arg);
/* Index of the argument in "this|that", from 0. @what names the choice in errors: "a mode". */
unsigned int text_choice(struct graph_text *t, unsigned int arg, const char *what,
			 const char *names);

#endif /* GRAPH_TEXT_H */
