// SPDX-License-Identifier: MIT
/*
 * The text form of graphs: each line is a list of words. A declaration is a function here; an
 * operation is a row beside its graph function (op_*.c), whose form gives the number of words.
 * Names are searched linearly from the end of a list; graphs written by hand are short.
 */
#include "graph_text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu_fail.h"
#include "op.h"

#define MAX_WORDS 4100
/* Results and arguments of an operation. */
#define MAX_RESULTS 3

struct name {
	char *text;
	struct npu_tensor *tensor; /* NULL: a param */
	int param;
};

struct graph_text {
	const char *file;
	unsigned int line;
	struct npu_graph *g;
	struct name *names;
	size_t nr_names;
	char *words[MAX_WORDS];
	unsigned int nr_words, first_arg;
	bool failed;
	char why[512]; /* the first error */
};

/* Remembers the first error. */
static void fail(struct graph_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct graph_text *t, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	if (t->failed)
		return;
	t->failed = true;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(t->why, sizeof(t->why), "%s:%u: %s", t->file, t->line, text);
}

static const struct name *find(const struct graph_text *t, const char *text)
{
	for (size_t i = t->nr_names; i--;)
		if (!strcmp(t->names[i].text, text))
			return &t->names[i];
	return NULL;
}

static void define(struct graph_text *t, const char *text, struct npu_tensor *tensor, int param)
{
	struct name *more;

	if (t->failed)
		return;
	if (!tensor && param < 0) {
		fail(t, "%s", npu_error());
		return;
	}
	if (find(t, text)) {
		fail(t, "'%s' is defined already", text);
		return;
	}
	more = realloc(t->names, (t->nr_names + 1) * sizeof(*more));
	if (more)
		t->names = more;
	if (!more || !(more[t->nr_names].text = strdup(text))) {
		fail(t, "out of memory");
		return;
	}
	more[t->nr_names].tensor = tensor;
	more[t->nr_names++].param = param;
}

struct npu_graph *text_graph(struct graph_text *t)
{
	return t->g;
}

static char *word(const struct graph_text *t, unsigned int arg)
{
	return t->words[t->first_arg + arg];
}

static bool left_out(const struct graph_text *t, unsigned int arg)
{
	return t->first_arg + arg >= t->nr_words;
}

struct npu_tensor *text_tensor(struct graph_text *t, unsigned int arg)
{
	const struct name *n = find(t, word(t, arg));

	if (!n || !n->tensor) {
		fail(t, "'%s' is not a tensor", word(t, arg));
		return NULL;
	}
	return n->tensor;
}

struct npu_tensor *text_optional(struct graph_text *t, unsigned int arg)
{
	return left_out(t, arg) ? NULL : text_tensor(t, arg);
}

bool text_dash(struct graph_text *t, unsigned int arg)
{
	return !strcmp(word(t, arg), "-");
}

int text_param(struct graph_text *t, unsigned int arg)
{
	const struct name *n;

	if (left_out(t, arg) || text_dash(t, arg))
		return NPU_NO_PARAM;
	n = find(t, word(t, arg));
	if (!n || n->tensor) {
		fail(t, "'%s' is not a param", word(t, arg));
		return NPU_NO_PARAM;
	}
	return n->param;
}

uint64_t text_integer(struct graph_text *t, unsigned int arg, uint64_t max)
{
	const char *s = word(t, arg);
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno || *end || end == s || *s == '-' || v > max) {
		fail(t, "'%s' is not an integer from 0 to %llu", s, (unsigned long long)max);
		return 0;
	}
	return v;
}

float text_number(struct graph_text *t, unsigned int arg)
{
	char *end;
	float v = strtof(word(t, arg), &end);

	if (*end || end == word(t, arg))
		fail(t, "'%s' is not a number", word(t, arg));
	return v;
}

unsigned int text_choice(struct graph_text *t, unsigned int arg, const char *what,
			 const char *names)
{
	const char *w = word(t, arg), *name = names;
	char want[128];
	size_t n = 0;

	for (unsigned int i = 0; *name; i++, name += strspn(name, "|")) {
		if (strlen(w) == strcspn(name, "|") && !strncmp(w, name, strlen(w)))
			return i;
		name += strcspn(name, "|");
	}
	for (name = names; *name && n + 5 < sizeof(want); name++)
		n += (size_t)snprintf(want + n, sizeof(want) - n, *name == '|' ? " or " : "%c",
				      *name);
	fail(t, "'%s' is not %s: use %s", w, what, want);
	return 0;
}

static enum npu_dtype dtype(struct graph_text *t, unsigned int arg, enum npu_dtype other,
			    const char *other_name)
{
	if (!strcmp(word(t, arg), "f32"))
		return NPU_F32;
	if (strcmp(word(t, arg), other_name))
		fail(t, "'%s' is not a type: use f32 or %s", word(t, arg), other_name);
	return other;
}

/* ---- declarations ---- */

static void do_param(struct graph_text *t)
{
	define(t, word(t, 0), NULL, npu_graph_param(t->g, word(t, 0)));
}

/* The type of an input. */
static enum npu_dtype input_type(struct graph_text *t, unsigned int arg)
{
	static const enum npu_dtype types[] = { NPU_F32,      NPU_S8,  NPU_K8_PANEL,
						NPU_V8_PANEL, NPU_U32, NPU_U64 };

	return types[text_choice(t, arg, "a type", "f32|s8|k8|v8|u32|u64")];
}

static void do_input(struct graph_text *t)
{
	enum npu_dtype type = input_type(t, 1);
	uint32_t rows = text_integer(t, 2, UINT32_MAX), cols = text_integer(t, 3, UINT32_MAX);
	uint32_t ld = left_out(t, 4) ? 0 : (uint32_t)text_integer(t, 4, UINT32_MAX);

	if (!left_out(t, 4) && type != NPU_F32)
		fail(t, "input %s: only f32 can be columns of longer rows", word(t, 0));
	if (t->failed)
		return;
	define(t, word(t, 0),
	       left_out(t, 4) ? npu_graph_input(t->g, word(t, 0), type, rows, cols)
			      : npu_graph_input_columns(t->g, word(t, 0), rows, cols, ld),
	       -1);
}

static void do_weight_w4(struct graph_text *t)
{
	uint32_t rows = text_integer(t, 2, UINT32_MAX), cols = text_integer(t, 3, UINT32_MAX),
		 group = text_integer(t, 4, UINT32_MAX);

	if (!t->failed)
		define(t, word(t, 0), npu_graph_weight_w4(t->g, word(t, 0), rows, cols, group), -1);
}

/* Widths of panels of 64 rows, separated by commas; further panels have the last width. */
static void do_weight_wk(struct graph_text *t)
{
	uint32_t rows = text_integer(t, 2, VNPU_MAX_DIM), cols = text_integer(t, 3, UINT32_MAX), i;
	char *at = word(t, 4), *end;
	unsigned long width;
	uint8_t *bits;

	if (t->failed)
		return;
	bits = malloc(rows ? rows : 1);
	if (!bits) {
		fail(t, "weight %s: out of memory", word(t, 0));
		return;
	}
	for (i = 0; i < rows && !t->failed; i++) {
		if (i % VNPU_PANEL_N || (i && !*at)) {
			bits[i] = bits[i - 1];
			continue;
		}
		width = strtoul(at, &end, 10);
		if (*at < '1' || width > 8 || (*end && (*end != ',' || !end[1])))
			fail(t, "'%s': widths are 1 to 8 bits, with a comma between them",
			     word(t, 4));
		bits[i] = (uint8_t)width;
		at = *end ? end + 1 : end;
	}
	if (*at && !t->failed)
		fail(t, "weight %s: %u rows have fewer panels than '%s' has widths", word(t, 0),
		     rows, word(t, 4));
	if (!t->failed)
		define(t, word(t, 0), npu_graph_weight_wk(t->g, word(t, 0), rows, cols, bits), -1);
	free(bits);
}

/* The enum vnpu_kq_type of @name, such as q4_k; VNPU_NR_KQ_TYPES: none. */
static uint32_t kq_type(const char *name)
{
	uint32_t type = 0;

	while (type < VNPU_NR_KQ_TYPES && strcmp(isa_kq_names[type], name))
		type++;
	return type;
}

static void do_weight(struct graph_text *t)
{
	enum npu_dtype type;
	uint32_t rows, cols, kq;

	if (!strcmp(word(t, 1), "wk")) {
		if (t->nr_words == 6)
			do_weight_wk(t);
		else
			fail(t, "weight %s: wk needs widths after its shape", word(t, 0));
		return;
	}
	if (!strcmp(word(t, 1), "w4") && t->nr_words == 6) {
		do_weight_w4(t);
		return;
	}
	if (t->nr_words != 5 || !strcmp(word(t, 1), "w4")) {
		fail(t, "weight %s: w4 needs a group after its shape, and no other type does",
		     word(t, 0));
		return;
	}
	kq = kq_type(word(t, 1));
	type = kq < VNPU_NR_KQ_TYPES ? NPU_KQ_PANEL : dtype(t, 1, NPU_W8_PANEL, "w8");
	rows = text_integer(t, 2, UINT32_MAX);
	cols = text_integer(t, 3, UINT32_MAX);

	if (!t->failed && type == NPU_KQ_PANEL)
		define(t, word(t, 0), npu_graph_weight_kq(t->g, word(t, 0), kq, rows, cols), -1);
	else if (!t->failed)
		define(t, word(t, 0), npu_graph_weight(t->g, word(t, 0), type, rows, cols), -1);
}

static void do_state(struct graph_text *t)
{
	enum npu_dtype type = NPU_F32;
	unsigned int at = 1;
	uint32_t rows, cols;

	if (t->nr_words == 5) {
		at = 2;
		if (!strcmp(word(t, 1), "f16"))
			type = NPU_F16;
		else
			type = dtype(t, 1, NPU_Q8_0, "q8_0");
	}
	rows = text_integer(t, at, UINT32_MAX);
	cols = text_integer(t, at + 1, UINT32_MAX);
	if (!t->failed)
		define(t, word(t, 0), npu_graph_state(t->g, word(t, 0), type, rows, cols), -1);
}

static void do_const(struct graph_text *t)
{
	uint64_t rows = text_integer(t, 1, UINT32_MAX), cols = text_integer(t, 2, UINT32_MAX),
		 n = t->nr_words - 5;
	float *data;

	if (t->failed)
		return;
	if (strcmp(word(t, 3), "=") || rows * cols != n) {
		fail(t, "const %s needs '=' and %llu values", word(t, 0),
		     (unsigned long long)(rows * cols));
		return;
	}
	data = calloc(n + 1, sizeof(*data));
	if (!data) {
		fail(t, "out of memory");
		return;
	}
	for (unsigned int i = 0; i < n; i++)
		data[i] = text_number(t, 4 + i);
	if (!t->failed)
		define(t, word(t, 0), npu_graph_const(t->g, word(t, 0), data, rows, cols), -1);
	free(data);
}

static void do_output(struct graph_text *t)
{
	struct npu_tensor *y = text_tensor(t, 1);
	uint32_t ld = left_out(t, 2) ? 0 : (uint32_t)text_integer(t, 2, UINT32_MAX);

	if (!y || t->failed)
		return;
	if (!(left_out(t, 2) ? npu_graph_output(t->g, word(t, 0), y)
			     : npu_graph_output_columns(t->g, word(t, 0), y, ld)))
		fail(t, "%s", npu_error());
}

static void do_permute(struct graph_text *t)
{
	struct npu_tensor *y = text_tensor(t, 0);

	if (y && !npu_matmul_permute(t->g, y))
		fail(t, "%s", npu_error());
}

static void do_shape(struct graph_text *t)
{
	struct npu_tensor *y = text_tensor(t, 0);
	uint32_t width = left_out(t, 1) ? 0 : (uint32_t)text_integer(t, 1, UINT32_MAX);

	if (!left_out(t, 1) && !width)
		fail(t, "a line of 0 rows; without a width the compiler chooses one");
	if (y && !t->failed && !npu_matmul_shape(t->g, y, width))
		fail(t, "%s", npu_error());
}

static void do_sleep(struct graph_text *t)
{
	uint64_t ns = text_integer(t, 0, UINT64_MAX);

	if (!t->failed && npu_sleep(t->g, ns))
		fail(t, "%s", npu_error());
}

static const struct declaration {
	const char *word;
	unsigned int min, max; /* number of words in the line */
	void (*run)(struct graph_text *t);
} declarations[] = {
	{ "param", 2, 2, do_param },	 { "input", 5, 6, do_input },
	{ "weight", 5, 6, do_weight },	 { "state", 4, 5, do_state },
	{ "output", 3, 4, do_output },	 { "const", 5, MAX_WORDS, do_const },
	{ "permute", 2, 2, do_permute }, { "shape", 2, 3, do_shape },
	{ "sleep", 2, 2, do_sleep },
};

/* Form and meaning of the declarations, for help. */
static const char *const declaration_help[][2] = {
	{ "graph NAME", "names the graph" },
	{ "param P", "an integer that is set for each run" },
	{ "input X f32|s8|k8|v8|u32|u64 ROWS COLS [LD]",
	  "read; bound for each run; k8, v8: packed INT8 keys, values; LD: of longer rows, f32" },
	{ "weight W f32|w8 ROWS COLS", "read; w8: packed INT8 [n][k] with scales" },
	{ "weight W w4 ROWS COLS GROUP",
	  "read; packed 4 bits, a scale for each 32, 64 or 128 of k" },
	{ "weight W wk ROWS COLS BITS,..",
	  "read; packed 1 to 8 bits: of each 64 rows, the last of the rest" },
	{ "weight W q4_k|q6_k|... ROWS COLS",
	  "read; packed in a block type of GGUF: q2_k to q6_k, q4_1, q5_0, q5_1" },
	{ "state S [TYPE] ROWS COLS", "read, written and kept between runs; f32, f16 or q8_0" },
	{ "const C ROWS COLS = V V ...", "f32, in the image" },
	{ "output NAME Y [LD]", "written; bound for each run; LD: columns of longer rows" },
	{ "permute Y",
	  "the NPU keeps the activations of matmul Y in its arrays, streams its weights" },
	{ "shape Y [WIDTH]",
	  "matmul Y's rows are lines of WIDTH each; left out: the fastest width" },
	{ "sleep NS", "later operators wait" },
};

/* ---- operations ---- */

/* The parsed form of an operation. */
struct form {
	unsigned int results, min, max; /* number of results, and of words in the line */
	size_t word, word_len; /* position of the operation's word */
};

static struct form read_form(const char *syntax)
{
	unsigned int words = 0, optional = 0;
	struct form f = { 0 };

	for (const char *s = syntax; *s; s += strspn(s, " ")) {
		size_t len = strcspn(s, " ");

		optional += *s == '[';
		if (len == 1 && *s == '=')
			f.results = words;
		if (words == (f.results ? f.results + 1 : 0)) {
			f.word = (size_t)(s - syntax);
			f.word_len = len;
		}
		words++;
		s += len;
	}
	f.min = words - optional;
	f.max = words;
	return f;
}

/* The operation called @word that has @results. */
static const struct text_op *find_op(const char *word, unsigned int results)
{
	for (uint16_t i = 1; i < ISA_NR_OPS; i++) {
		for (const struct text_op *op = npu_ops[i] ? npu_ops[i]->texts : NULL;
		     op && op->syntax; op++) {
			struct form f = read_form(op->syntax);

			if (f.results == results && strlen(word) == f.word_len &&
			    !strncmp(op->syntax + f.word, word, f.word_len))
				return op;
		}
	}
	return NULL;
}

static bool wants(struct graph_text *t, const char *word, unsigned int min, unsigned int max)
{
	if (t->nr_words >= min && t->nr_words <= max)
		return true;
	fail(t, "'%s' has %u words, needs %u to %u; see npuc --help", word, t->nr_words, min, max);
	return false;
}

/* Number of words before a '=' that are separated by commas; 0 if there is no '='. */
static unsigned int count_results(const struct graph_text *t)
{
	unsigned int n = 0;

	while (n < t->nr_words && strcmp(t->words[n], "="))
		n++;
	if (n + 1 >= t->nr_words || n > MAX_RESULTS)
		return 0;
	for (unsigned int i = 0; i + 1 < n; i++)
		if (t->words[i][strlen(t->words[i]) - 1] != ',')
			return 0;
	return n;
}

static void parse_op(struct graph_text *t, const struct text_op *op, unsigned int results)
{
	struct npu_tensor *out[MAX_RESULTS] = { 0 };
	struct form f = read_form(op->syntax);

	t->first_arg = results ? results + 2 : 1;
	if (!wants(t, t->words[t->first_arg - 1], f.min, f.max))
		return;
	op->build(t, out);
	if (t->g->err)
		fail(t, "%s", npu_error());
	for (unsigned int i = 0; i + 1 < results; i++)
		t->words[i][strlen(t->words[i]) - 1] = 0;
	for (unsigned int i = 0; i < results; i++)
		define(t, t->words[i], out[i], -1);
}

static void parse_line(struct graph_text *t)
{
	unsigned int results = count_results(t);
	const struct text_op *op = find_op(t->words[results ? results + 1 : 0], results);

	for (size_t i = 0; i < sizeof(declarations) / sizeof(declarations[0]); i++) {
		if (strcmp(declarations[i].word, t->words[0]))
			continue;
		t->first_arg = 1;
		if (wants(t, t->words[0], declarations[i].min, declarations[i].max))
			declarations[i].run(t);
		return;
	}
	if (op)
		parse_op(t, op, results);
	else if (results == 1)
		fail(t, "'%s' is not an operator; see npuc --help", t->words[2]);
	else
		fail(t, "'%s' is not a statement; see npuc --help", t->words[0]);
}

/* Splits a line into words, without its comment. */
static void split(struct graph_text *t, char *line)
{
	char *save, *w;

	line[strcspn(line, "#")] = 0;
	t->nr_words = 0;
	for (w = strtok_r(line, " \t\r", &save); w; w = strtok_r(NULL, " \t\r", &save)) {
		if (t->nr_words == MAX_WORDS) {
			fail(t, "more than %d words in a line", MAX_WORDS);
			return;
		}
		t->words[t->nr_words++] = w;
	}
}

static void parse_text(struct graph_text *t, char *text)
{
	for (char *next; text && !t->failed; text = next) {
		next = strchr(text, '\n');
		if (next)
			*next++ = 0;
		t->line++;
		split(t, text);
		if (!t->nr_words || t->failed)
			continue;
		if (!t->g) {
			if (t->nr_words != 2 || strcmp(t->words[0], "graph")) {
				fail(t, "a graph begins with 'graph NAME'");
				return;
			}
			t->g = npu_graph_create(t->words[1]);
		} else {
			parse_line(t);
		}
		/* The graph keeps its first error for later. */
		if (!t->g)
			fail(t, "out of memory");
		else if (t->g->err)
			fail(t, "%s", t->g->why);
	}
	if (!t->g)
		fail(t, "there is no graph in the file");
}

struct npu_graph *npu_graph_parse(const char *name, char *text)
{
	struct graph_text *t = calloc(1, sizeof(*t));
	struct npu_graph *g;

	if (!t) {
		npu_fail(-ENOMEM, "%s: out of memory", name);
		return NULL;
	}
	t->file = name;
	parse_text(t, text);
	g = t->g;
	if (t->failed) {
		npu_graph_free(g);
		g = NULL;
		npu_fail(-EINVAL, "%s", t->why);
	}
	for (size_t i = 0; i < t->nr_names; i++)
		free(t->names[i].text);
	free(t->names);
	free(t);
	return g;
}

int npu_graph_syntax(FILE *out)
{
	for (size_t i = 0; i < sizeof(declaration_help) / sizeof(declaration_help[0]); i++)
		fprintf(out, "  %-44s  %s\n", declaration_help[i][0], declaration_help[i][1]);
	for (uint16_t i = 1; i < ISA_NR_OPS; i++)
		for (const struct text_op *op = npu_ops[i] ? npu_ops[i]->texts : NULL;
		     op && op->syntax; op++)
			fprintf(out, "  %-44s  %s\n", op->syntax, op->doc);
	return ferror(out) ? npu_fail(-EIO, "writing the statements: %s", strerror(errno)) : 0;
}
