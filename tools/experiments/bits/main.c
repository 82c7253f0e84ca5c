// SPDX-License-Identifier: MIT
/* bits: a model whose layers' matrices are rounded to an average width, as F32. */
#include "bits.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_quantize.h"
#include "gguf_writer.h"
#include "llm.h"
#include "llm_fail.h"
#include "tool.h"

static const char help[] =
	"usage: bits IN.gguf OUT.gguf --method NAME --bits AVERAGE [--text FILE]\n"
	"Writes a model in F32 whose layers' matrices are rounded, and prints their bits per\n"
	"weight.\n\n"
	"      --method NAME   uniform, adaptive, adaptive-inputs,\n"
	"                      adaptive-model, cmpq or cmpq-shared (bits.h)\n"
	"      --bits AVERAGE  1 to 8; whole but for the adaptive ones;\n"
	"                      cmpq 2 to 7\n"
	"      --text FILE     of adaptive-inputs, adaptive-model and cmpq: whose\n"
	"                      activations decide\n"
	"  -h, --help          this help\n";

static const char *const methods[] = { "uniform",	 "adaptive", "adaptive-inputs",
				       "adaptive-model", "cmpq",     "cmpq-shared" };
#define NR_METHODS (sizeof(methods) / sizeof(methods[0]))

struct args {
	const char *in, *out, *text;
	enum bits_method method;
	double average;
};

struct run {
	const struct args *args;
	const struct gguf_file *file;
	struct llm_model model;
	struct bits_activations activations;
	uint8_t *widths; /* of adaptive-model */
	struct bits_size size;
	double n; /* weights that were rounded */
};

struct tensor {
	struct run *run;
	const struct gguf_tensor *from;
};

static bool by_columns(enum bits_method method)
{
	return method == BITS_CMPQ || method == BITS_CMPQ_SHARED;
}

/* Rounds a matrix. 0 or -errno with the error line. */
static int round_matrix(struct run *run, const struct bits_matrix *m, unsigned int layer,
			enum llm_matrix which)
{
	const double *squares = run->activations.squares[shadow_input_of_matrix(which)];
	const uint8_t *widths = run->widths;
	const struct args *a = run->args;

	run->n += (double)(m->rows * m->cols);
	if (squares)
		squares += layer * m->cols;
	if (by_columns(a->method))
		return bits_by_columns(m, a->method == BITS_CMPQ_SHARED, a->average, squares,
				       &run->size);
	if (a->method != BITS_ADAPTIVE_MODEL)
		return bits_by_rows(m, a->method, a->average, squares, &run->size);
	for (unsigned int i = 0; i < layer * LLM_NR_PLAIN_MATRICES + which; i++)
		widths += llm_model_rows(&run->model, i % LLM_NR_PLAIN_MATRICES);
	bits_by_widths(m, widths, squares, &run->size);
	return 0;
}

/* Rounds a layer's matrix; other tensors stay. 0 or -errno with the error line. */
static int round_tensor(struct run *run, const struct gguf_tensor *t, float *w)
{
	struct bits_matrix m = { w, t->dims[1], t->dims[0] };

	for (unsigned int l = 0; l < run->model.n_layer; l++)
		for (enum llm_matrix which = 0; which < LLM_NR_PLAIN_MATRICES; which++)
			if (run->model.layers[l].matrix[which] == t)
				return round_matrix(run, &m, l, which);
	return 0;
}

/* 1: an error with its line. */
static int make(void *ud, struct gguf_sink *sink)
{
	const struct tensor *t = ud;
	const struct gguf_type_traits *traits = gguf_type_traits(t->from->type);
	uint64_t n = t->from->bytes / traits->block_bytes * traits->block_values;
	float *values = malloc(n * sizeof(*values));
	int ret = values ? 0 : -ENOMEM;

	if (!ret) {
		gguf_dequantize(t->from->type, t->from->data, values, n);
		ret = round_tensor(t->run, t->from, values) ? 1 : 0;
	}
	if (!ret)
		ret = gguf_sink_put(sink, values, n * sizeof(*values));
	free(values);
	return ret;
}

static int write_model(struct run *run)
{
	static const char *const except[] = { "general.file_type", "general.alignment" };
	struct gguf_writer *w = gguf_writer_create();
	size_t n = gguf_n_tensors(run->file);
	struct tensor *tensors = calloc(n + 1, sizeof(*tensors));
	char line[256];
	int err;

	gguf_writer_copy(w, run->file, except, 2);
	gguf_writer_u32(w, "general.file_type", GGUF_FILE_F32);
	for (size_t i = 0; tensors && i < n; i++) {
		const struct gguf_tensor *from = gguf_tensor(run->file, i);

		tensors[i] = (struct tensor){ run, from };
		/* Shadow weights, which the CPU computes with, stay as they are. */
		if (llm_model_is_copy(run->file, from))
			gguf_writer_tensor(w, from->name, from->type, from->n_dims, from->dims,
					   from->data);
		else
			gguf_writer_tensor_made(w, from->name, GGUF_F32, from->n_dims, from->dims,
						make, &tensors[i]);
	}
	if (!tensors)
		err = llm_fail(-ENOMEM, "no memory for %zu tensors", n);
	else if ((err = gguf_writer_save(w, run->args->out, line, sizeof(line))) < 0)
		llm_fail(err, "%s", line);
	gguf_writer_free(w);
	free(tensors);
	return err;
}

static int observe(struct run *run)
{
	size_t bytes;
	char *text = tool_read_file(run->args->text, &bytes);
	int err;

	if (!text)
		return 1;
	run->activations.n_layer = run->model.n_layer;
	run->activations.n_head = run->model.n_head;
	run->activations.head_dim = run->model.head_dim;
	for (unsigned int i = 0; i < SHADOW_INPUTS; i++)
		run->activations.channels[i] = shadow_channels(&run->model, i);
	err = bits_observe(run->args->in, text, bytes, &run->activations);
	free(text);
	return err ? tool_fail("%s", llm_error()) : 0;
}

static int run(const struct args *args)
{
	struct run run = { .args = args };
	struct gguf_file *file;
	char line[256];
	int status = 0;

	if (gguf_open(args->in, &file, line, sizeof(line)))
		return tool_fail("%s", line);
	run.file = file;
	if (llm_model_read(&run.model, file, args->in))
		status = tool_fail("%s", llm_error());
	else if (run.model.packed[0])
		status = tool_fail("%s: is packed, for %s; take the original file", args->in,
				   run.model.packed);
	if (!status && args->text)
		status = observe(&run);
	if (!status && args->method == BITS_ADAPTIVE_MODEL) {
		run.widths = bits_by_model(&run.model, &run.activations, args->average);
		if (!run.widths)
			status = tool_fail("%s", llm_error());
	}
	if (!status && write_model(&run))
		status = tool_fail("%s", llm_error());
	if (!status)
		printf("%s: %.3f bits per weight, and %.3f of scales, widths and levels\n",
		       args->out, run.size.weights / run.n, run.size.rest / run.n);
	free(run.widths);
	bits_activations_free(&run.activations);
	llm_model_release(&run.model);
	gguf_close(file);
	return status;
}

static int parse_method(const char *value, enum bits_method *method)
{
	for (size_t i = 0; i < NR_METHODS; i++)
		if (!strcmp(value, methods[i])) {
			*method = (enum bits_method)i;
			return 0;
		}
	return tool_usage("--method: '%s' is none of uniform, adaptive, "
			  "adaptive-inputs, adaptive-model, cmpq, cmpq-shared",
			  value);
}

/* What the options exclude. 0 or an exit status. */
static int check(const struct args *a)
{
	bool adaptive = a->method != BITS_UNIFORM && !by_columns(a->method);
	bool plain = a->method == BITS_UNIFORM || a->method == BITS_ADAPTIVE;

	if (!adaptive && a->average != floor(a->average))
		return tool_usage("--bits: only adaptive ways take %g: give a whole number",
				  a->average);
	if (by_columns(a->method) && (a->average < 2 || a->average > 7))
		return tool_usage("--bits: cmpq has widths of one less and one more: give 2 to 7");
	if (plain == !!a->text)
		return tool_usage("--text goes with adaptive-inputs, adaptive-model and cmpq, and "
				  "these with --text");
	return 0;
}

int main(int argc, char **argv)
{
	enum { METHOD = 256, BITS, TEXT };
	static const struct option options[] = {
		{ "method", required_argument, NULL, METHOD },
		{ "bits", required_argument, NULL, BITS },
		{ "text", required_argument, NULL, TEXT },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	unsigned int given = 0;
	struct args a = { 0 };
	int opt, status = 0;

	tool_begin("bits");
	opterr = 0;
	while (!status && (opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (opt >= METHOD)
			given |= 1u << (opt - METHOD);
		switch (opt) {
		case METHOD:
			status = parse_method(optarg, &a.method);
			break;
		case BITS:
			status = tool_parse_double("--bits", optarg, 1, 8, &a.average);
			break;
		case TEXT:
			a.text = optarg;
			break;
		case 'h':
			fputs(help, stdout);
			return tool_finish(0);
		default:
			return tool_bad_option(opt, argv, options);
		}
	}
	if (status)
		return status;
	if (argc - optind != 2 || (given & 3) != 3)
		return tool_usage("give two files, --method and --bits: --help explains them");
	a.in = argv[optind];
	a.out = argv[optind + 1];
	status = check(&a);
	return status ? status : tool_finish(run(&a));
}
