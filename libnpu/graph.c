// SPDX-License-Identifier: MIT
/*
 * Graphs, tensors and params. The operators are in graph_ops.c.
 */
#include "graph.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu_fail.h"

#define MAX_NAME 255

void *graph_fail(struct npu_graph *g, int error, const char *fmt, ...)
{
	va_list ap;

	if (!g->error) {
		g->error = error;
		va_start(ap, fmt);
		vsnprintf(g->message, sizeof(g->message), fmt, ap);
		va_end(ap);
	}
	npu_fail(g->error, "graph %s: %s", g->name, g->message);
	return NULL;
}

struct npu_graph *npu_graph_create(const char *name)
{
	struct npu_graph *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->name = strndup(name && *name ? name : "graph", MAX_NAME);
	if (!g->name) {
		free(g);
		return NULL;
	}
	g->tensors_end = &g->tensors;
	g->nodes_end = &g->nodes;
	return g;
}

void npu_graph_free(struct npu_graph *g)
{
	struct npu_tensor *t;
	struct node *n;

	if (!g)
		return;
	while ((t = g->tensors)) {
		g->tensors = t->next;
		free(t->name);
		free(t->data);
		free(t);
	}
	while ((n = g->nodes)) {
		g->nodes = n->next;
		free(n);
	}
	for (uint32_t i = 0; i < g->nr_params; i++)
		free(g->params[i]);
	free(g->params);
	free(g->name);
	free(g);
}

/* ---- tensors ---- */

/* 1 byte to 255, printable, and not one of the names that the compiler uses itself. */
static bool name_ok(struct npu_graph *g, const char *name)
{
	size_t n = name ? strlen(name) : 0;

	for (size_t i = 0; i < n; i++)
		if (name[i] <= ' ' || name[i] == 127)
			n = 0;
	if (n && n <= MAX_NAME && strncmp(name, "__", 2))
		return true;
	graph_fail(g, -EINVAL, "a name must have 1 to %d printable characters and not begin with '__'", MAX_NAME);
	return false;
}

static bool name_free(struct npu_graph *g, const char *name)
{
	for (const struct npu_tensor *t = g->tensors; t; t = t->next) {
		if (t->name && !strcmp(t->name, name)) {
			graph_fail(g, -EEXIST, "two tensors are called '%s'", name);
			return false;
		}
	}
	return true;
}

struct npu_tensor *graph_tensor(struct npu_graph *g, enum tensor_kind kind, enum npu_dtype type, const char *name,
				uint32_t rows, uint32_t cols)
{
	struct npu_tensor *t;

	if (g->error)
		return graph_fail(g, g->error, "%s", g->message);
	if (name && (!name_ok(g, name) || !name_free(g, name)))
		return NULL;
	if (!rows || !cols || rows > VNPU_MAX_DIM || cols > VNPU_MAX_DIM)
		return graph_fail(g, -EINVAL, "tensor '%s' is [%u][%u]; want 1 to %u rows and columns",
				  name ? name : "", rows, cols, VNPU_MAX_DIM);
	t = calloc(1, sizeof(*t));
	if (t && name)
		t->name = strdup(name);
	if (!t || (name && !t->name)) {
		free(t);
		return graph_fail(g, -ENOMEM, "out of memory");
	}
	t->graph = g;
	t->kind = kind;
	t->type = type;
	t->rows = rows;
	t->cols = cols;
	t->ld = kind == TENSOR_TEMP && type == NPU_S8 ? (cols + 63) / 64 * 64 : cols;
	*g->tensors_end = t;
	g->tensors_end = &t->next;
	return t;
}

struct npu_tensor *npu_graph_input(struct npu_graph *g, const char *name, enum npu_dtype type, uint32_t rows,
				   uint32_t cols)
{
	if (type != NPU_F32 && type != NPU_S8)
		return graph_fail(g, -EINVAL, "input '%s' must be f32 or s8", name ? name : "");
	return graph_tensor(g, TENSOR_INPUT, type, name ? name : "", rows, cols);
}

struct npu_tensor *npu_graph_weight(struct npu_graph *g, const char *name, enum npu_dtype type, uint32_t rows,
				    uint32_t cols)
{
	if (type != NPU_F32 && type != NPU_W8_PANEL)
		return graph_fail(g, -EINVAL, "weight '%s' must be f32 or packed w8", name ? name : "");
	if (type == NPU_W8_PANEL && cols > VNPU_MAX_K_I8)
		return graph_fail(g, -EINVAL, "weight '%s' has %u columns, more than INT8 matmuls take (%u)",
				  name ? name : "", cols, VNPU_MAX_K_I8);
	return graph_tensor(g, TENSOR_WEIGHT, type, name ? name : "", rows, cols);
}

struct npu_tensor *npu_graph_state(struct npu_graph *g, const char *name, uint32_t rows, uint32_t cols)
{
	return graph_tensor(g, TENSOR_STATE, NPU_F32, name ? name : "", rows, cols);
}

struct npu_tensor *npu_graph_const(struct npu_graph *g, const char *name, const float *data, uint32_t rows,
				   uint32_t cols)
{
	struct npu_tensor *t = graph_tensor(g, TENSOR_CONST, NPU_F32, name ? name : "", rows, cols);
	size_t bytes;

	if (!t)
		return NULL;
	bytes = npu_tensor_bytes(t);
	t->data = malloc(bytes);
	if (!t->data)
		return graph_fail(g, -ENOMEM, "no memory for %zu bytes of constant '%s'", bytes, name);
	memcpy(t->data, data, bytes);
	return t;
}

struct npu_tensor *npu_graph_output(struct npu_graph *g, const char *name, struct npu_tensor *t)
{
	if (!t)
		return graph_fail(g, g->error ? g->error : -EINVAL, "output '%s' has no tensor", name ? name : "");
	if (t->graph != g || t->kind != TENSOR_TEMP || t->type == NPU_W8_PANEL)
		return graph_fail(g, -EINVAL, "output '%s' is not the result of an operator of this graph",
				  name ? name : "");
	if (t->name)
		return graph_fail(g, -EINVAL, "'%s' is an output already, it cannot be '%s' too", t->name,
				  name ? name : "");
	if (!name_ok(g, name) || !name_free(g, name))
		return NULL;
	t->name = strdup(name);
	return t->name ? t : graph_fail(g, -ENOMEM, "out of memory");
}

int npu_graph_param(struct npu_graph *g, const char *name)
{
	char **params;

	if (g->error)
		return g->error;
	if (!name_ok(g, name))
		return g->error;
	for (uint32_t i = 0; i < g->nr_params; i++) {
		if (!strcmp(g->params[i], name)) {
			graph_fail(g, -EEXIST, "two params are called '%s'", name);
			return g->error;
		}
	}
	if (g->nr_params == VNPU_MAX_PARAMS) {
		graph_fail(g, -EINVAL, "more than %d params", VNPU_MAX_PARAMS);
		return g->error;
	}
	params = realloc(g->params, (g->nr_params + 1) * sizeof(*params));
	if (params)
		g->params = params;
	if (!params || !(params[g->nr_params] = strdup(name))) {
		graph_fail(g, -ENOMEM, "out of memory");
		return g->error;
	}
	return (int)g->nr_params++;
}

uint32_t npu_tensor_rows(const struct npu_tensor *t)
{
	return t->rows;
}

uint32_t npu_tensor_cols(const struct npu_tensor *t)
{
	return t->cols;
}

size_t npu_tensor_bytes(const struct npu_tensor *t)
{
	if (t->type == NPU_W8_PANEL)
		return npu_w8_bytes(t->rows, t->cols);
	return (size_t)t->rows * t->ld * (t->type == NPU_F32 ? sizeof(float) : 1);
}

/* ---- nodes ---- */

struct node *graph_node(struct npu_graph *g, enum vnpu_op op)
{
	struct node *n = calloc(1, sizeof(*n));

	if (!n)
		return graph_fail(g, -ENOMEM, "out of memory");
	n->op = op;
	n->param = NPU_NO_PARAM;
	*g->nodes_end = n;
	g->nodes_end = &n->next;
	return n;
}

struct npu_tensor *graph_result(struct npu_graph *g, struct node *n, unsigned int i, enum npu_dtype type, uint32_t rows,
				uint32_t cols)
{
	struct npu_tensor *t = graph_tensor(g, TENSOR_TEMP, type, NULL, rows, cols);

	if (t) {
		t->producer = n;
		n->out[i] = t;
	}
	return t;
}
