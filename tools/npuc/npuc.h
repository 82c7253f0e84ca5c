/* SPDX-License-Identifier: MIT */
#ifndef NPUC_H
#define NPUC_H

#include <stddef.h>

#include "npu_graph.h"

/*
 * Reads a graph from text (the language: npuc --help). @name is used in messages, "FILE:LINE: what". NULL after a
 * message on stderr.
 */
struct npu_graph *npuc_parse(const char *name, char *text);

#endif /* NPUC_H */
