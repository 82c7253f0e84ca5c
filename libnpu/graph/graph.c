// SPDX-License-Identifier: MIT
/* Graphs: tensors, params, and the first error. Operators are in graph_ops.c. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "npu_fail.h"

const char *const npu_dtype_names[NPU_NR_DTYPES] = { "f32", "s8", "w8",	 "f16", "q8_0", "w4", "wk",
						     "kq",  "k8", "s16", "v8",	"u32",	"u64" };

int graph_fail(struct npu_graph *g, int err, const char *fmt, ...)
{
	char why[sizeof(g->why)];
	va_list ap;

	if (!g) {
		va_start(ap, fmt);
		vsnprintf(why, sizeof(why), fmt, ap);
		va_end(ap);
		return npu_fail(err, "no graph: %s", why);
	}
	if (!g->err) {
		g->err = err;
		va_start(ap, fmt);
		vsnprintf(g->why, sizeof(g->why), fmt, ap);
		va_end(ap);
	}
	/* Callers that check only a later call still get the first error. */
	npu_fail(g->err, "graph %s: %s", g->name[0] ? g->name : "?", g->why);
	return err;
}

struct npu_graph *npu_graph_create(const char *name)
{
	struct npu_graph *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->tensors_tail = &g->tensors;
	if (graph_name_ok(g, name, "graph"))
		strcpy(g->name, name);
	return g;
}

void npu_graph_free(struct npu_graph *g)
{
	struct npu_tensor *t, *next;

	if (!g)
		return;
	for (t = g->tensors; t; t = next) {
		next = t->next;
		free(t->data);
		free(t);
	}
	free(g->ops);
	free(g->order);
	soc_free(g->soc);
	free(g);
}

bool graph_name_ok(struct npu_graph *g, const char *name, const char *what)
{
	if (!name || !*name || strlen(name) >= NPU_NAME_BYTES) {
		graph_fail(g, -EINVAL, "%s: a name of 1 to %d characters is needed", what,
			   NPU_NAME_BYTES - 1);
		return false;
	}
	for (const char *c = name; *c; c++) {
		if (!isgraph((unsigned char)*c)) {
			graph_fail(
				g, -EINVAL,
				"%s: its name has a character that cannot be printed, or a space",
				what);
			return false;
		}
	}
	return true;
}

/* Names of bindings and constants share the symbol table. */
static bool graph_symbol_ok(struct npu_graph *g, const char *name, const char *what)
{
	if (!g) {
		npu_fail(-EINVAL, "%s '%s': no graph", what, name ? name : "");
		return false;
	}
	if (!graph_name_ok(g, name, what))
		return false;
	if (!strncmp(name, "__", 2)) {
		graph_fail(g, -EINVAL, "%s '%s': names with __ are reserved", what, name);
		return false;
	}
	for (const struct npu_tensor *t = g->tensors; t; t = t->next) {
		if (strcmp(t->name, name))
			continue;
		graph_fail(g, -EEXIST, "%s '%s': the name is taken", what, name);
		return false;
	}
	return true;
}

static bool keys_layout(struct npu_graph *g, struct npu_tensor *t, const char *name)
{
	if (t->rows % VNPU_QK_PANEL || t->cols > VNPU_MAX_HEAD_DIM) {
		graph_fail(g, -EINVAL,
			   "%s: %u positions of %u values: positions are a multiple of %d, values "
			   "at most %d",
			   name, t->rows, t->cols, VNPU_QK_PANEL, VNPU_MAX_HEAD_DIM);
		return false;
	}
	t->bytes = t->dtype == NPU_V8_PANEL
			   ? VNPU_PV_BYTES(t->rows, t->cols)
			   : t->rows / VNPU_QK_PANEL * VNPU_QK_PANEL_BYTES(t->cols);
	return true;
}

/* @bits: width of each row of an NPU_WK_PANEL. */
static bool tensor_layout(struct npu_graph *g, struct npu_tensor *t, const uint8_t *bits)
{
	const char *name = t->name[0] ? t->name : "result";

	if (!t->rows || !t->cols || t->rows > VNPU_MAX_DIM || t->cols > VNPU_MAX_DIM) {
		graph_fail(g, -EINVAL, "%s: shape %u x %u, a side may have 1 to %u", name, t->rows,
			   t->cols, VNPU_MAX_DIM);
		return false;
	}
	t->ld = t->cols;
	switch (t->dtype) {
	case NPU_F32:
		t->bytes = (uint64_t)t->rows * t->cols * 4;
		return true;
	case NPU_S8:
		t->ld = (t->cols + 3) & ~3u;
		t->bytes = (uint64_t)t->rows * t->ld;
		return true;
	case NPU_W8_PANEL:
		if (t->cols > VNPU_MAX_K_I8) {
			graph_fail(g, -EINVAL, "%s: k = %u, INT8 weights may have %u", name,
				   t->cols, VNPU_MAX_K_I8);
			return false;
		}
		t->bytes = npu_w8_bytes(t->rows, t->cols);
		return true;
	case NPU_F16:
		t->bytes = t->rows * VNPU_KV_BYTES(VNPU_KV_F16, t->cols);
		return true;
	case NPU_Q8_0:
		if (t->cols % VNPU_Q8_0_VALUES) {
			graph_fail(g, -EINVAL, "%s: %u columns, of q8_0 a multiple of %d", name,
				   t->cols, VNPU_Q8_0_VALUES);
			return false;
		}
		t->bytes = t->rows * VNPU_KV_BYTES(VNPU_KV_Q8_0, t->cols);
		return true;
	case NPU_W4_PANEL:
		t->bytes = t->cols > VNPU_MAX_K_I8 ? 0 : npu_w4_bytes(t->rows, t->cols, t->group);
		if (!t->bytes)
			graph_fail(
				g, -EINVAL,
				"%s: k = %u in groups of %u: groups have 32, 64 or 128 and fill k, "
				"which may be %u",
				name, t->cols, t->group, VNPU_MAX_K_I8);
		return t->bytes != 0;
	case NPU_WK_PANEL:
		t->bytes =
			t->cols > VNPU_MAX_K_I8 || !bits ? 0 : npu_wk_bytes(t->rows, t->cols, bits);
		if (!t->bytes)
			graph_fail(
				g, -EINVAL,
				"%s: each row needs a width of 1 to 8 bits, and k = %u may be %u",
				name, t->cols, VNPU_MAX_K_I8);
		return t->bytes != 0;
	case NPU_KQ_PANEL:
		t->bytes = t->cols > VNPU_MAX_K_I8 ? 0 : npu_kq_bytes(t->group, t->rows, t->cols);
		if (!t->bytes)
			graph_fail(g, -EINVAL,
				   "%s: k = %u of block type %u: k is a multiple of the type's "
				   "block, 32 or 256, and may be %u",
				   name, t->cols, t->group, VNPU_MAX_K_I8);
		return t->bytes != 0;
	case NPU_K8_PANEL:
	case NPU_V8_PANEL:
		return keys_layout(g, t, name);
	case NPU_S16:
		t->bytes = (uint64_t)t->rows * t->cols * 2;
		return true;
	case NPU_U32:
		t->bytes = (uint64_t)t->rows * t->cols * 4;
		return true;
	case NPU_U64:
		t->bytes = (uint64_t)t->rows * t->cols * 8;
		return true;
	}
	graph_fail(g, -EINVAL, "%s: type %d is not known", name, t->dtype);
	return false;
}

static bool tensor_fits(struct npu_graph *g, const struct npu_tensor *t)
{
	if (t->bytes <= NPU_IMAGE_MAX_BYTES)
		return true;
	graph_fail(g, -E2BIG, "%s: %u x %u are %llu bytes, a tensor may have %llu",
		   t->name[0] ? t->name : "result", t->rows, t->cols, (unsigned long long)t->bytes,
		   NPU_IMAGE_MAX_BYTES);
	return false;
}

struct npu_tensor *graph_tensor(struct npu_graph *g, enum tensor_kind kind, const char *name,
				enum npu_dtype type, uint32_t rows, uint32_t cols, uint32_t group,
				const uint8_t *bits)
{
	struct npu_tensor *t = calloc(1, sizeof(*t));

	if (!t) {
		graph_fail(g, -ENOMEM, "out of memory");
		return NULL;
	}
	t->graph = g;
	t->kind = kind;
	t->dtype = type;
	t->rows = rows;
	t->cols = cols;
	t->group = group;
	t->producer = NO_OP;
	if (name)
		strcpy(t->name, name);
	if (!tensor_layout(g, t, bits) || !tensor_fits(g, t)) {
		free(t);
		return NULL;
	}
	*g->tensors_tail = t;
	g->tensors_tail = &t->next;
	return t;
}

struct npu_tensor *npu_graph_input(struct npu_graph *g, const char *name, enum npu_dtype type,
				   uint32_t rows, uint32_t cols)
{
	if (!graph_symbol_ok(g, name, "input"))
		return NULL;
	return graph_tensor(g, TENSOR_INPUT, name, type, rows, cols, 0, NULL);
}

/* Makes @t columns of a matrix whose rows are @ld elements of @bytes apart. */
static void tensor_columns(struct npu_tensor *t, uint32_t ld, uint32_t bytes)
{
	t->ld = ld;
	t->bytes = ((uint64_t)(t->rows - 1) * ld + t->cols) * bytes;
}

struct npu_tensor *npu_graph_input_columns(struct npu_graph *g, const char *name, uint32_t rows,
					   uint32_t cols, uint32_t ld)
{
	struct npu_tensor *t = npu_graph_input(g, name, NPU_F32, rows, cols);

	if (!t)
		return NULL;
	if (ld < cols || ld > VNPU_MAX_DIM) {
		graph_fail(g, -EINVAL,
			   "input '%s': the matrix is narrower than the input, or too wide", name);
		return NULL;
	}
	tensor_columns(t, ld, 4);
	return t;
}

struct npu_tensor *npu_graph_weight(struct npu_graph *g, const char *name, enum npu_dtype type,
				    uint32_t rows, uint32_t cols)
{
	if (!graph_symbol_ok(g, name, "weight"))
		return NULL;
	return graph_tensor(g, TENSOR_WEIGHT, name, type, rows, cols, 0, NULL);
}

struct npu_tensor *npu_graph_weight_w4(struct npu_graph *g, const char *name, uint32_t n,
				       uint32_t k, uint32_t group)
{
	if (!graph_symbol_ok(g, name, "weight"))
		return NULL;
	return graph_tensor(g, TENSOR_WEIGHT, name, NPU_W4_PANEL, n, k, group, NULL);
}

struct npu_tensor *npu_graph_weight_wk(struct npu_graph *g, const char *name, uint32_t n,
				       uint32_t k, const uint8_t *bits)
{
	if (!graph_symbol_ok(g, name, "weight"))
		return NULL;
	return graph_tensor(g, TENSOR_WEIGHT, name, NPU_WK_PANEL, n, k, 0, bits);
}

struct npu_tensor *npu_graph_weight_kq(struct npu_graph *g, const char *name, uint32_t type,
				       uint32_t n, uint32_t k)
{
	if (!graph_symbol_ok(g, name, "weight"))
		return NULL;
	return graph_tensor(g, TENSOR_WEIGHT, name, NPU_KQ_PANEL, n, k, type, NULL);
}

struct npu_tensor *npu_graph_state(struct npu_graph *g, const char *name, enum npu_dtype type,
				   uint32_t rows, uint32_t cols)
{
	if (!graph_symbol_ok(g, name, "state"))
		return NULL;
	if (type != NPU_F32 && type != NPU_F16 && type != NPU_Q8_0) {
		graph_fail(g, -EINVAL, "state '%s': type %d is not f32, f16 or q8_0", name, type);
		return NULL;
	}
	return graph_tensor(g, TENSOR_STATE, name, type, rows, cols, 0, NULL);
}

struct npu_tensor *npu_graph_const(struct npu_graph *g, const char *name, const float *data,
				   uint32_t rows, uint32_t cols)
{
	struct npu_tensor *t;

	if (!graph_symbol_ok(g, name, "constant"))
		return NULL;
	if (!data) {
		graph_fail(g, -EINVAL, "constant '%s': no data", name);
		return NULL;
	}
	t = graph_tensor(g, TENSOR_CONST, name, NPU_F32, rows, cols, 0, NULL);
	if (!t)
		return NULL;
	t->data = malloc(t->bytes);
	if (!t->data) {
		graph_fail(g, -ENOMEM, "constant '%s': %llu bytes: out of memory", name,
			   (unsigned long long)t->bytes);
		return NULL;
	}
	memcpy(t->data, data, t->bytes);
	return t;
}

struct npu_tensor *npu_graph_output(struct npu_graph *g, const char *name, struct npu_tensor *t)
{
	if (!t) {
		graph_fail(g, -EINVAL, "output '%s': no tensor", name ? name : "");
		return NULL;
	}
	if (!graph_symbol_ok(g, name, "output"))
		return NULL;
	if (t->graph != g || t->kind != TENSOR_RESULT || t->output) {
		graph_fail(g, -EINVAL, "output '%s': %s", name,
			   t->graph != g ? "the tensor is of another graph"
			   : t->output	 ? "the tensor is an output already"
					 : "the tensor is no result of an operator");
		return NULL;
	}
	t->output = true;
	strcpy(t->name, name);
	return t;
}

/* The operation treats each group of columns as a row of its command, so rows must be dense. */
static bool graph_reads_groups(const struct graph_op *op)
{
	return (op->op == VNPU_OP_RMSNORM || op->op == VNPU_OP_LAYERNORM) &&
	       op->in[1]->cols != op->in[0]->cols;
}

/* Why @t cannot be columns of a matrix whose rows are @ld elements apart; NULL: it can. */
static const char *columns_refused(const struct npu_graph *g, const struct npu_tensor *t,
				   uint32_t ld)
{
	if (t->dtype != NPU_F32 && t->dtype != NPU_S16)
		return "only f32 and s16 can be columns of a wider matrix";
	for (uint32_t i = 0; i < g->nr_ops; i++) {
		if (graph_reads_groups(&g->ops[i]) &&
		    (g->ops[i].in[0] == t || g->ops[i].out[0] == t))
			return "a norm per head needs its rows dense";
		if (t->rows > 1 && ld != t->cols && graph_op_dense(&g->ops[i], t))
			return "scales and outliers of several rows must be dense";
	}
	if (ld < t->cols || ld > VNPU_MAX_DIM)
		return "the matrix is narrower than the output, or too wide";
	if (t->dtype == NPU_S16 && ld % VNPU_QK_PANEL)
		return "the distance between rows of s16 is no multiple of 64";
	return NULL;
}

struct npu_tensor *npu_graph_output_columns(struct npu_graph *g, const char *name,
					    struct npu_tensor *t, uint32_t ld)
{
	const char *why;

	if (!npu_graph_output(g, name, t))
		return NULL;
	why = columns_refused(g, t, ld);
	if (why) {
		graph_fail(g, -EINVAL, "output '%s': %s", name, why);
		return NULL;
	}
	tensor_columns(t, ld, t->dtype == NPU_S16 ? 2 : 4);
	return t;
}

int npu_graph_param(struct npu_graph *g, const char *name)
{
	if (!g)
		return npu_fail(-EINVAL, "param '%s': no graph", name ? name : "");
	if (!graph_name_ok(g, name, "param"))
		return -EINVAL;
	for (uint32_t i = 0; i < g->nr_params; i++)
		if (!strcmp(g->params[i], name))
			return graph_fail(g, -EEXIST, "param '%s': the name is taken", name);
	if (g->nr_params == VNPU_MAX_PARAMS)
		return graph_fail(g, -ENOSPC, "param '%s': a graph may have %d", name,
				  VNPU_MAX_PARAMS);
	strcpy(g->params[g->nr_params], name);
	return (int)g->nr_params++;
}

uint32_t npu_tensor_rows(const struct npu_tensor *t)
{
	return t ? t->rows : 0;
}

uint32_t npu_tensor_cols(const struct npu_tensor *t)
{
	return t ? t->cols : 0;
}

size_t npu_tensor_bytes(const struct npu_tensor *t)
{
	return t ? t->bytes : 0;
}
