// SPDX-License-Identifier: MIT
/*
 * The text form of graphs: a line is words, a statement is a table entry that knows how many words it wants and builds
 * one node. Names live in a list that is searched from the end; graphs written by hand are short.
 */
#include "npuc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <npu/vnpu_isa.h>

#include "tool.h"

#define MAX_WORDS 4100

struct name {
	char *text;
	struct npu_tensor *tensor; /* NULL: a param */
	int param;
};

struct parser {
	const char *file;
	unsigned int line;
	struct npu_graph *g;
	struct name *names;
	size_t nr_names;
	char *words[MAX_WORDS];
	unsigned int nr_words;
	bool failed;
};

static void fail(struct parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Reports the first error of a file. */
static void fail(struct parser *p, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	if (p->failed)
		return;
	p->failed = true;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	tool_fail("%s:%u: %s", p->file, p->line, text);
}

static const struct name *find(const struct parser *p, const char *text)
{
	for (size_t i = p->nr_names; i--;)
		if (!strcmp(p->names[i].text, text))
			return &p->names[i];
	return NULL;
}

static void define(struct parser *p, const char *text, struct npu_tensor *tensor, int param)
{
	struct name *more;

	if (p->failed)
		return;
	if (!tensor && param < 0) {
		fail(p, "%s", npu_error());
		return;
	}
	if (find(p, text)) {
		fail(p, "'%s' is defined already", text);
		return;
	}
	more = realloc(p->names, (p->nr_names + 1) * sizeof(*more));
	if (more)
		p->names = more;
	if (!more || !(more[p->nr_names].text = strdup(text))) {
		fail(p, "out of memory");
		return;
	}
	more[p->nr_names].tensor = tensor;
	more[p->nr_names++].param = param;
}

static struct npu_tensor *tensor(struct parser *p, unsigned int word)
{
	const struct name *n = find(p, p->words[word]);

	if (!n || !n->tensor) {
		fail(p, "'%s' is not a tensor", p->words[word]);
		return NULL;
	}
	return n->tensor;
}

static int param(struct parser *p, unsigned int word)
{
	const struct name *n = find(p, p->words[word]);

	if (!strcmp(p->words[word], "-"))
		return NPU_NO_PARAM;
	if (!n || n->tensor) {
		fail(p, "'%s' is not a param", p->words[word]);
		return NPU_NO_PARAM;
	}
	return n->param;
}

static uint64_t integer(struct parser *p, unsigned int word, uint64_t max)
{
	const char *s = p->words[word];
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno || *end || end == s || *s == '-' || v > max) {
		fail(p, "'%s' is not an integer from 0 to %llu", s, (unsigned long long)max);
		return 0;
	}
	return v;
}

static float number(struct parser *p, unsigned int word)
{
	char *end;
	float v = strtof(p->words[word], &end);

	if (*end || end == p->words[word])
		fail(p, "'%s' is not a number", p->words[word]);
	return v;
}

static enum npu_dtype dtype(struct parser *p, unsigned int word, enum npu_dtype other, const char *other_name)
{
	if (!strcmp(p->words[word], "f32"))
		return NPU_F32;
	if (strcmp(p->words[word], other_name))
		fail(p, "'%s' is not a type: want f32 or %s", p->words[word], other_name);
	return other;
}

/* ---- declarations: word 0 is the statement ---- */

static void do_param(struct parser *p)
{
	define(p, p->words[1], NULL, npu_graph_param(p->g, p->words[1]));
}

static void do_input(struct parser *p)
{
	enum npu_dtype type = dtype(p, 2, NPU_S8, "s8");
	uint32_t rows = integer(p, 3, UINT32_MAX), cols = integer(p, 4, UINT32_MAX);

	if (!p->failed)
		define(p, p->words[1], npu_graph_input(p->g, p->words[1], type, rows, cols), -1);
}

static void do_weight_w4(struct parser *p)
{
	uint32_t rows = integer(p, 3, UINT32_MAX), cols = integer(p, 4, UINT32_MAX), group = integer(p, 5, UINT32_MAX);

	if (!p->failed)
		define(p, p->words[1], npu_graph_weight_w4(p->g, p->words[1], rows, cols, group), -1);
}

/* Widths of panels of 64 rows, separated by commas; the last one is that of all others too. */
static void do_weight_wk(struct parser *p)
{
	uint32_t rows = integer(p, 3, VNPU_MAX_DIM), cols = integer(p, 4, UINT32_MAX), i;
	char *at = p->words[5], *end;
	unsigned long width;
	uint8_t *bits;

	if (p->failed)
		return;
	bits = malloc(rows ? rows : 1);
	if (!bits) {
		fail(p, "weight %s: out of memory", p->words[1]);
		return;
	}
	for (i = 0; i < rows && !p->failed; i++) {
		if (i % VNPU_PANEL_N || (i && !*at)) {
			bits[i] = bits[i - 1];
			continue;
		}
		width = strtoul(at, &end, 10);
		if (*at < '1' || width > 8 || (*end && (*end != ',' || !end[1])))
			fail(p, "'%s': widths are 1 to 8 bits, with a comma between them", p->words[5]);
		bits[i] = (uint8_t)width;
		at = *end ? end + 1 : end;
	}
	if (*at && !p->failed)
		fail(p, "weight %s: %u rows have fewer panels than '%s' has widths", p->words[1], rows, p->words[5]);
	if (!p->failed)
		define(p, p->words[1], npu_graph_weight_wk(p->g, p->words[1], rows, cols, bits), -1);
	free(bits);
}

static void do_weight(struct parser *p)
{
	enum npu_dtype type;
	uint32_t rows, cols;

	if (!strcmp(p->words[2], "wk")) {
		if (p->nr_words == 6)
			do_weight_wk(p);
		else
			fail(p, "weight %s: wk wants widths after its shape", p->words[1]);
		return;
	}
	if (!strcmp(p->words[2], "w4") && p->nr_words == 6) {
		do_weight_w4(p);
		return;
	}
	if (p->nr_words != 5 || !strcmp(p->words[2], "w4")) {
		fail(p, "weight %s: w4 wants a group after its shape, and no other type does", p->words[1]);
		return;
	}
	type = dtype(p, 2, NPU_W8_PANEL, "w8");
	rows = integer(p, 3, UINT32_MAX);
	cols = integer(p, 4, UINT32_MAX);

	if (!p->failed)
		define(p, p->words[1], npu_graph_weight(p->g, p->words[1], type, rows, cols), -1);
}

static void do_state(struct parser *p)
{
	enum npu_dtype type = NPU_F32;
	unsigned int at = 2;
	uint32_t rows, cols;

	if (p->nr_words == 5) {
		at = 3;
		if (!strcmp(p->words[2], "f16"))
			type = NPU_F16;
		else
			type = dtype(p, 2, NPU_Q8_0, "q8_0");
	}
	rows = integer(p, at, UINT32_MAX);
	cols = integer(p, at + 1, UINT32_MAX);
	if (!p->failed)
		define(p, p->words[1], npu_graph_state(p->g, p->words[1], type, rows, cols), -1);
}

static void do_const(struct parser *p)
{
	uint64_t rows = integer(p, 2, UINT32_MAX), cols = integer(p, 3, UINT32_MAX), n = p->nr_words - 5;
	float *data;

	if (p->failed)
		return;
	if (strcmp(p->words[4], "=") || rows * cols != n) {
		fail(p, "const %s wants '=' and %llu values", p->words[1], (unsigned long long)(rows * cols));
		return;
	}
	data = calloc(n + 1, sizeof(*data));
	if (!data) {
		fail(p, "out of memory");
		return;
	}
	for (unsigned int i = 0; i < n; i++)
		data[i] = number(p, 5 + i);
	if (!p->failed)
		define(p, p->words[1], npu_graph_const(p->g, p->words[1], data, rows, cols), -1);
	free(data);
}

static void do_output(struct parser *p)
{
	struct npu_tensor *t = tensor(p, 2);
	uint32_t ld = p->nr_words > 3 ? (uint32_t)integer(p, 3, UINT32_MAX) : 0;

	if (!t || p->failed)
		return;
	if (!(p->nr_words > 3 ? npu_graph_output_columns(p->g, p->words[1], t, ld)
			      : npu_graph_output(p->g, p->words[1], t)))
		fail(p, "%s", npu_error());
}

static void do_store(struct parser *p)
{
	struct npu_tensor *x = tensor(p, 1), *state = tensor(p, 2);
	int row = param(p, 3);

	if (!p->failed && npu_store_rows(p->g, x, state, row))
		fail(p, "%s", npu_error());
}

static void do_sleep(struct parser *p)
{
	uint64_t ns = integer(p, 1, UINT64_MAX);

	if (!p->failed && npu_sleep(p->g, ns))
		fail(p, "%s", npu_error());
}

/* ---- operators: "Y = op ...", word 2 is the operator ---- */

static struct npu_tensor *op_add(struct parser *p)
{
	return npu_add(p->g, tensor(p, 3), tensor(p, 4));
}

static struct npu_tensor *op_mul(struct parser *p)
{
	return npu_mul(p->g, tensor(p, 3), tensor(p, 4));
}

static struct npu_tensor *op_silu(struct parser *p)
{
	return npu_silu(p->g, tensor(p, 3));
}

static struct npu_tensor *op_gelu(struct parser *p)
{
	return npu_gelu(p->g, tensor(p, 3));
}

static struct npu_tensor *op_fold(struct parser *p)
{
	return npu_fold(p->g, tensor(p, 3));
}

static struct npu_tensor *op_add_outliers(struct parser *p)
{
	return npu_add_outliers(p->g, tensor(p, 3), tensor(p, 4), tensor(p, 5));
}

static struct npu_tensor *op_glu(struct parser *p)
{
	enum npu_glu_kind kind = NPU_GLU_SILU;

	if (!strcmp(p->words[5], "gelu"))
		kind = NPU_GLU_GELU;
	else if (strcmp(p->words[5], "silu"))
		fail(p, "'%s' is not an activation: want silu or gelu", p->words[5]);
	return npu_glu(p->g, tensor(p, 3), tensor(p, 4), kind);
}

static struct npu_tensor *op_rmsnorm(struct parser *p)
{
	return npu_rmsnorm(p->g, tensor(p, 3), tensor(p, 4), number(p, 5));
}

static struct npu_tensor *op_dequant(struct parser *p)
{
	return npu_dequant(p->g, tensor(p, 3), tensor(p, 4));
}

static struct npu_tensor *op_matmul(struct parser *p)
{
	return npu_matmul_i8(p->g, tensor(p, 3), tensor(p, 4), tensor(p, 5), p->nr_words > 6 ? tensor(p, 6) : NULL);
}

static struct npu_tensor *op_matmul_w4(struct parser *p)
{
	return npu_matmul_w4(p->g, tensor(p, 3), tensor(p, 4), tensor(p, 5), p->nr_words > 6 ? tensor(p, 6) : NULL);
}

static struct npu_tensor *op_matmul_wk(struct parser *p)
{
	return npu_matmul_wk(p->g, tensor(p, 3), tensor(p, 4), tensor(p, 5), p->nr_words > 6 ? tensor(p, 6) : NULL);
}

static struct npu_tensor *op_matmul_w4f(struct parser *p)
{
	return npu_matmul_w4f(p->g, tensor(p, 3), tensor(p, 4), p->nr_words > 5 ? tensor(p, 5) : NULL);
}

static struct npu_tensor *op_softmax(struct parser *p)
{
	return npu_softmax(p->g, tensor(p, 3), number(p, 4), p->nr_words > 5 ? param(p, 5) : NPU_NO_PARAM);
}

static struct npu_tensor *op_rope(struct parser *p)
{
	enum npu_rope_mode mode = NPU_ROPE_ADJACENT;

	if (!strcmp(p->words[7], "halves"))
		mode = NPU_ROPE_HALVES;
	else if (strcmp(p->words[7], "adjacent"))
		fail(p, "'%s' is not a rope mode: want adjacent or halves", p->words[7]);
	return npu_rope(p->g, tensor(p, 3), tensor(p, 4), integer(p, 5, UINT32_MAX), param(p, 6), mode);
}

static struct npu_tensor *op_attn(struct parser *p)
{
	return npu_attn(p->g, tensor(p, 3), tensor(p, 4), tensor(p, 5), integer(p, 6, UINT32_MAX),
			integer(p, 7, UINT32_MAX), number(p, 8), param(p, 9));
}

/* Quantisers, whose results are several: "Q, SCALE = quant X", "Q, SCALE, OUTLIERS = quant_outliers X". */
static unsigned int quant_results(const char *word)
{
	return !strcmp(word, "quant") || !strcmp(word, "quant16") ? 2 : !strcmp(word, "quant_outliers") ? 3 : 0;
}

static bool is_quant(const struct parser *p)
{
	unsigned int n = p->nr_words > 2 ? p->nr_words - 3 : 0;

	if (n < 2 || strcmp(p->words[n], "=") || quant_results(p->words[n + 1]) != n)
		return false;
	for (unsigned int i = 0; i + 1 < n; i++)
		if (p->words[i][strlen(p->words[i]) - 1] != ',')
			return false;
	return true;
}

static void do_quant(struct parser *p)
{
	unsigned int n = p->nr_words - 3;
	const char *word = p->words[n + 1];
	struct npu_tensor *x = tensor(p, n + 2), *t[3] = { 0 };

	if (!x)
		return;
	for (unsigned int i = 0; i + 1 < n; i++)
		p->words[i][strlen(p->words[i]) - 1] = 0;
	if (n == 3)
		t[0] = npu_quant_outliers(p->g, x, &t[1], &t[2]);
	else
		t[0] = strcmp(word, "quant") ? npu_quant16(p->g, x, &t[1]) : npu_quant(p->g, x, &t[1]);
	for (unsigned int i = 0; i < n; i++)
		define(p, p->words[i], t[i], -1);
}

static const struct statement {
	const char *word;
	unsigned int min, max; /* words in the line */
	void (*run)(struct parser *p);
} statements[] = {
	{ "param", 2, 2, do_param }, { "input", 5, 5, do_input },	  { "weight", 5, 6, do_weight },
	{ "state", 4, 5, do_state }, { "const", 5, MAX_WORDS, do_const }, { "output", 3, 4, do_output },
	{ "store", 4, 4, do_store }, { "sleep", 2, 2, do_sleep },
};

static const struct operator
{
	const char *word;
	unsigned int min, max; /* words in the line, "Y =" included */
	struct npu_tensor *(*run)(struct parser * p);
}
operators[] = {
	{ "add", 5, 5, op_add },
	{ "mul", 5, 5, op_mul },
	{ "silu", 4, 4, op_silu },
	{ "gelu", 4, 4, op_gelu },
	{ "fold", 4, 4, op_fold },
	{ "add_outliers", 6, 6, op_add_outliers },
	{ "rmsnorm", 6, 6, op_rmsnorm },
	{ "dequant", 5, 5, op_dequant },
	{ "matmul", 6, 7, op_matmul },
	{ "softmax", 5, 6, op_softmax },
	{ "rope", 8, 8, op_rope },
	{ "attn", 10, 10, op_attn },
	{ "matmul_w4", 6, 7, op_matmul_w4 },
	{ "matmul_w4f", 5, 6, op_matmul_w4f },
	{ "matmul_wk", 6, 7, op_matmul_wk },
	{ "glu", 6, 6, op_glu },
};

static bool wants(struct parser *p, const char *word, unsigned int min, unsigned int max)
{
	if (p->nr_words >= min && p->nr_words <= max)
		return true;
	fail(p, "'%s' has %u words, want %u to %u; see npuc --help", word, p->nr_words, min, max);
	return false;
}

static void parse_operator(struct parser *p)
{
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
		struct npu_tensor *t;

		if (strcmp(operators[i].word, p->words[2]))
			continue;
		if (!wants(p, p->words[2], operators[i].min, operators[i].max))
			return;
		t = operators[i].run(p);
		define(p, p->words[0], t, -1);
		return;
	}
	fail(p, "'%s' is not an operator; see npuc --help", p->words[2]);
}

static void parse_line(struct parser *p)
{
	for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
		if (strcmp(statements[i].word, p->words[0]))
			continue;
		if (wants(p, p->words[0], statements[i].min, statements[i].max))
			statements[i].run(p);
		return;
	}
	if (is_quant(p))
		do_quant(p);
	else if (p->nr_words >= 4 && !strcmp(p->words[1], "="))
		parse_operator(p);
	else
		fail(p, "'%s' is not a statement; see npuc --help", p->words[0]);
}

/* Splits a line into words, a comment left out. */
static void split(struct parser *p, char *line)
{
	char *save, *w;

	line[strcspn(line, "#")] = 0;
	p->nr_words = 0;
	for (w = strtok_r(line, " \t\r", &save); w; w = strtok_r(NULL, " \t\r", &save)) {
		if (p->nr_words == MAX_WORDS) {
			fail(p, "more than %d words in a line", MAX_WORDS);
			return;
		}
		p->words[p->nr_words++] = w;
	}
}

static void parse_text(struct parser *p, char *text)
{
	for (char *next; text && !p->failed; text = next) {
		next = strchr(text, '\n');
		if (next)
			*next++ = 0;
		p->line++;
		split(p, text);
		if (!p->nr_words || p->failed)
			continue;
		if (!p->g) {
			if (p->nr_words != 2 || strcmp(p->words[0], "graph")) {
				fail(p, "a graph begins with 'graph NAME'");
				return;
			}
			p->g = npu_graph_create(p->words[1]);
			if (!p->g)
				fail(p, "out of memory");
			continue;
		}
		parse_line(p);
	}
	if (!p->g)
		fail(p, "there is no graph in the file");
}

struct npu_graph *npuc_parse(const char *name, char *text)
{
	struct parser *p = calloc(1, sizeof(*p));
	struct npu_graph *g;

	if (!p) {
		tool_fail("%s: out of memory", name);
		return NULL;
	}
	p->file = name;
	parse_text(p, text);
	g = p->g;
	if (p->failed) {
		npu_graph_free(g);
		g = NULL;
	}
	for (size_t i = 0; i < p->nr_names; i++)
		free(p->names[i].text);
	free(p->names);
	free(p);
	return g;
}
