// SPDX-License-Identifier: MIT
/* llm-quantize: writes a model with another type of weights, calibrated, or with random weights. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "llm_quantize.h"
#include "options.h"
#include "progress.h"
#include "tool.h"

static const char usage[] =
	"usage: llm-quantize [options] IN.gguf [OUT.gguf] TYPE [THREADS]\n"
	"       llm-quantize --calibrate TEXT [options] IN.gguf OUT.gguf TYPE\n"
	"       llm-quantize --synthetic SHAPE [--arch ARCH] OUT.gguf TYPE [--seed N]\n"
	"                    [--vocab N]\n"
	"Writes a model with another type of weights, one that is calibrated for --activations\n"
	"static and --attention shadow, or one of a given shape with random weights.\n"
	"TYPE is f32, f16, q8_0, q6_k, q5_k_m, q5_k_s, q5_1, q5_0, q4_k_m, q4_k_s, q4_1, q4_0,\n"
	"iq4_nl, q3_k_l, q3_k_m, q3_k_s, q2_k or q2_k_s, or packed for the NPU: w8a8, w4a8,\n"
	"w4a16, native or adaptive.\n"
	"Without OUT.gguf the file is ggml-model-TYPE.gguf beside IN.gguf.\n";

#define MAX_RULES 64

struct args {
	struct llm_quantize_options quantize;
	struct llm_calibrate_options calibrate;
	const char *text; /* a file; NULL: no calibration */
	double smooth_bits; /* 0: the type's */
	bool calibrates; /* options that go with --calibrate were given */
	bool synthesizes; /* those of --synthetic */
	bool verbose;
	struct llm_quantize_rule rules[MAX_RULES];
	char *patterns[MAX_RULES]; /* of rules, to be freed */
	char out[4096]; /* the name of a file that was not given one */
};

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void warn(void *ud, const char *line)
{
	fprintf(stderr, "%s: warning: %s\n", tool_name, line);
}

static void on_signal(int sig)
{
	progress_stop();
}

static void print_inputs(const struct llm_calibration *c)
{
	struct llm_calibration_input in;
	bool smoothed = llm_calibration_input(c, 0, &in) && in.smooth >= 0;

	printf("layer  input        channels      scale      limit  importance  outliers   cold  "
	       "hot  kept%s\n",
	       smoothed ? "  smooth" : "");
	for (unsigned int i = 0; llm_calibration_input(c, i, &in); i++) {
		printf("%5u  %-11s  %8u  %9.3g  %9.3g  %10.1f  %8.2f  %5.2f  %3u  %-4s", in.layer,
		       in.name, in.n_channels, (double)in.scale, (double)in.limit,
		       (double)in.importance, in.with_outliers, in.cold, in.n_hot,
		       in.kept ? "yes" : "no");
		if (smoothed)
			printf("  %6.2f", in.smooth);
		putchar('\n');
	}
}

/* A calibration may take long: not if its file will have no folder. 0 or an exit status. */
static int check_folder(const char *out)
{
	char *copy = strdup(out);
	int status = 0;

	if (!copy)
		return tool_fail("no memory for a name");
	if (access(dirname(copy), F_OK))
		status = tool_fail("%s: %s", out, strerror(errno));
	free(copy);
	return status;
}

/* 0 or an exit status. */
static int calibrate(struct args *a, struct llm_calibration **calibration)
{
	char *text = tool_read_file(a->text, &a->calibrate.bytes);
	int err;

	if (!text)
		return 1;
	a->calibrate.text = text;
	a->calibrate.text_name = a->text;
	a->calibrate.model = a->quantize.in;
	a->calibrate.threads = a->quantize.threads;
	err = llm_calibrate(&a->calibrate, calibration);
	free(text);
	if (err)
		return tool_fail("%s", llm_error());
	progress_clear();
	return 0;
}

static void print_calibration(const struct args *a, const struct llm_calibration *c)
{
	struct llm_calibration_info info;

	if (a->verbose)
		print_inputs(c);
	llm_calibration_info(c, &info);
	printf("%s: calibrated with %u tokens; %u of %u inputs are kept\n", a->quantize.in,
	       info.n_tokens, info.n_kept, info.n_inputs);
	if (info.chunk)
		printf("%s: prompts in chunks of %u tokens are the fastest on %s\n", a->quantize.in,
		       info.chunk, a->calibrate.profile);
}

static void print_file(const struct llm_quantize_options *opts, const struct llm_quantize_result *r,
		       uint64_t start_ns)
{
	printf("%s: %zu tensors, ", opts->out, r->n_tensors);
	if (opts->in)
		printf("%" PRIu64 " -> ", r->bytes_before);
	printf("%" PRIu64 " bytes, ", r->bytes_after);
	/* A file of a vocabulary alone has none. */
	if (r->n_values)
		printf("%.2f bits per weight, ", 8 * (double)r->bytes_after / (double)r->n_values);
	if (r->n_shadows)
		printf("%" PRIu64 " bytes for the outliers of %zu inputs, ", r->shadow_bytes,
		       r->n_shadows);
	printf("%.1f s\n", (double)(tool_now_ns() - start_ns) * 1e-9);
}

static int run(struct args *a)
{
	static const int signals[] = { SIGINT, SIGTERM };
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND }, before;
	uint64_t start = tool_now_ns();
	struct llm_calibration *calibration = NULL;
	struct llm_quantize_result r;
	int status;

	/* Interrupting removes the incomplete file. */
	for (int i = 0; i < 2; i++)
		if (!sigaction(signals[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
	status = a->text ? check_folder(a->quantize.out) : 0;
	if (!status && a->text)
		status = calibrate(a, &calibration);
	a->quantize.calibration = calibration;
	if (!status && llm_quantize(&a->quantize, &r))
		status = tool_fail("%s", llm_error());
	if (!status) {
		progress_clear();
		if (calibration)
			print_calibration(a, calibration);
		print_file(&a->quantize, &r, start);
	}
	llm_calibration_free(calibration);
	return status;
}

enum {
	SYNTHETIC = OPT_TOOL,
	ARCH,
	SEED,
	VOCAB,
	CALIBRATE,
	TOKENS,
	HEAD_TOKENS,
	CHANNELS,
	HOT,
	PRUNING,
	PROFILE,
	SMOOTH,
	SMOOTH_BITS,
	BITS,
	IMATRIX,
	TENSOR_TYPE,
	OUTPUT_TYPE,
	EMBEDDING_TYPE,
	LEAVE_OUTPUT,
	PURE,
};

static const struct option_def options[] = {
	{ IMATRIX, "imatrix", "FILE",
	  .doc = "importance of input channels, of llama-imatrix, for K-quants and iq4_nl" },
	{ TENSOR_TYPE, "tensor-type", "NAME=TYPE",
	  .doc = "the type of matrices whose names the regular expression NAME is found in, such "
		 "as ffn_down=q6_k; may be repeated, and the first that fits counts" },
	{ OUTPUT_TYPE, "output-tensor-type", "TYPE", .doc = "the type of output.weight" },
	{ EMBEDDING_TYPE, "token-embedding-type", "TYPE", .doc = "the type of token_embd.weight" },
	{ LEAVE_OUTPUT, "leave-output-tensor", NULL, .doc = "output.weight stays as it is" },
	{ PURE, "pure", NULL,
	  .doc = "all matrices get TYPE: no mixes, and the output matrix as the others" },
	{ BITS, "bits", "AVERAGE",
	  .doc = "adaptive: the average width of weights, 1 to 8 (default: 5)" },
	{ CALIBRATE, "calibrate", "TEXT",
	  .doc = "a file of text such as the model will meet; - for stdin" },
	{ TOKENS, "calibrate-tokens", "N",
	  .doc = "tokens of it to evaluate at most (default: 8192)" },
	{ HEAD_TOKENS, "head-tokens", "N",
	  .doc = "of these, tokens that are evaluated again without each head and each layer, for "
		 "the ratios of heads; 0: none (default: 1024)" },
	{ CHANNELS, "outlier-channels", "SHARE",
	  .doc = "of an input's channels that have outliers in a chunk of 256 tokens (default: "
		 "0.003)" },
	{ HOT, "hot", "SHARE",
	  .doc = "of the outliers whose channels' weights stay in memory (default: 0.8)" },
	{ PROFILE, "profile", "NAME",
	  .doc = "choose the length of prompts' chunks that is the fastest on this soc of "
		 "share/profiles, and keep it in the file" },
	{ PRUNING, "pruning", "SHARE",
	  .doc = "of the inputs, the least important, whose outliers are lost (default: 0.85)" },
	{ SMOOTH, "smooth", "ALPHA",
	  .doc = "divide channels by max|x|^ALPHA / max|w|^(1 - ALPHA); auto: by max|x|^A, for "
		 "each input with the A that loses least if activations are INT8 with one scale; "
		 "weights: the same, if activations are floats" },
	{ SMOOTH_BITS, "smooth-bits", "B",
	  .doc = "average width of weights, 1 to 8, that A is searched for (default: 4 for the "
		 "4-bit types, --bits for adaptive, else 8)" },
	{ 'v', "verbose", NULL, .doc = "print what was found of each input" },
	{ SYNTHETIC, "synthetic", "SHAPE", .doc = "a name in share/shapes, or a file" },
	{ ARCH, "arch", "ARCH",
	  .doc = "architecture of the file (default: llama with norms of 1, or qwen2 if the shape "
		 "has biases)" },
	{ SEED, "seed", "N",
	  .doc = "seed of the random weights; determines the file (default: 0)" },
	{ VOCAB, "vocab", "N", .doc = "tokens of the vocabulary (default: the shape's)" },
	{ 't', "threads", "N", .doc = "threads (default: one per CPU)" },
	{ .code = 0 },
};

static int parse_smooth(const char *value, double *smooth)
{
	if (!strcmp(value, "auto"))
		*smooth = LLM_SMOOTH_AUTO;
	else if (!strcmp(value, "weights"))
		*smooth = LLM_SMOOTH_WEIGHTS;
	else
		return tool_parse_double("--smooth", value, 0, 1, smooth);
	return 0;
}

/* Options of calibrations. 0 or an exit status. */
static int parse_calibration(struct args *a, int opt, const char *value)
{
	struct llm_calibrate_options *o = &a->calibrate;

	a->calibrates = true;
	switch (opt) {
	case TOKENS:
		return tool_parse_uint("--calibrate-tokens", value, 1, UINT32_MAX, &o->max_tokens);
	case HEAD_TOKENS:
		return tool_parse_uint("--head-tokens", value, 0, UINT32_MAX, &o->head_tokens);
	case CHANNELS:
		return tool_parse_double("--outlier-channels", value, 1e-6, 0.5,
					 &o->outlier_channels);
	case HOT:
		return tool_parse_double("--hot", value, 0, 1, &o->hot);
	case PROFILE:
		o->profile = value;
		return 0;
	case PRUNING:
		return tool_parse_double("--pruning", value, 0, 1, &o->pruning);
	case SMOOTH:
		return parse_smooth(value, &o->smooth);
	case SMOOTH_BITS:
		return tool_parse_double("--smooth-bits", value, 1, 8, &a->smooth_bits);
	default:
		a->verbose = true;
		return 0;
	}
}

/* Adds a type of the matrices with @n bytes of @pattern. 0 or an exit status. */
static int add_rule(struct args *a, const char *pattern, size_t n, const char *type)
{
	struct llm_quantize_options *o = &a->quantize;

	if (o->n_rules == MAX_RULES)
		return tool_usage("--tensor-type: at most %d types of tensors", MAX_RULES);
	a->patterns[o->n_rules] = strndup(pattern, n);
	if (!a->patterns[o->n_rules])
		return tool_fail("no memory for an option");
	a->rules[o->n_rules] = (struct llm_quantize_rule){ a->patterns[o->n_rules], type };
	o->rules = a->rules;
	o->n_rules++;
	return 0;
}

/* Options of tensors' types. 0 or an exit status. */
static int parse_types(struct args *a, int opt, const char *value)
{
	static const char output[] = "^output\\.weight$", embedding[] = "^token_embd\\.weight$";
	const char *type = value ? strrchr(value, '=') : NULL;

	switch (opt) {
	case IMATRIX:
		a->quantize.imatrix = value;
		return 0;
	case OUTPUT_TYPE:
		return add_rule(a, output, strlen(output), value);
	case EMBEDDING_TYPE:
		return add_rule(a, embedding, strlen(embedding), value);
	case LEAVE_OUTPUT:
		return add_rule(a, output, strlen(output), "");
	case PURE:
		a->quantize.pure = true;
		return 0;
	}
	if (!type || type == value || !type[1])
		return tool_usage("--tensor-type: '%s' is not NAME=TYPE, such as ffn_down=q6_k",
				  value);
	return add_rule(a, value, (size_t)(type - value), type + 1);
}

/* 0 or an exit status. */
static int parse_one(void *ud, int opt, const char *value)
{
	struct args *a = ud;
	struct llm_quantize_options *o = &a->quantize;

	switch (opt) {
	case SYNTHETIC:
		o->shape = value;
		return 0;
	case ARCH:
		a->synthesizes = true;
		o->arch = value;
		return 0;
	case SEED:
		a->synthesizes = true;
		return tool_parse_u64("--seed", value, 0, UINT64_MAX, &o->seed);
	case VOCAB:
		a->synthesizes = true;
		return tool_parse_uint("--vocab", value, 260, 1u << 24, &o->n_vocab);
	case BITS:
		return tool_parse_double("--bits", value, 1, 8, &o->bits);
	case 't':
		return tool_parse_uint("-t", value, 1, LLM_MAX_THREADS, &o->threads);
	case CALIBRATE:
		a->text = value;
		return 0;
	case IMATRIX:
	case TENSOR_TYPE:
	case OUTPUT_TYPE:
	case EMBEDDING_TYPE:
	case LEAVE_OUTPUT:
	case PURE:
		return parse_types(a, opt, value);
	default:
		return parse_calibration(a, opt, value);
	}
}

/* The width of the type's weights. */
static double type_bits(const struct llm_quantize_options *o)
{
	switch (o->type) {
	case LLM_QUANTIZE_Q4_0:
	case LLM_QUANTIZE_Q4_1:
	case LLM_QUANTIZE_W4A8:
	case LLM_QUANTIZE_W4A16:
	case LLM_QUANTIZE_IQ4_NL:
	case LLM_QUANTIZE_Q4_K_S:
	case LLM_QUANTIZE_Q4_K_M:
		return 4;
	case LLM_QUANTIZE_Q5_0:
	case LLM_QUANTIZE_Q5_1:
	case LLM_QUANTIZE_Q5_K_S:
	case LLM_QUANTIZE_Q5_K_M:
		return 5;
	case LLM_QUANTIZE_Q2_K:
	case LLM_QUANTIZE_Q2_K_S:
		return 2;
	case LLM_QUANTIZE_Q3_K_S:
	case LLM_QUANTIZE_Q3_K_M:
	case LLM_QUANTIZE_Q3_K_L:
		return 3;
	case LLM_QUANTIZE_Q6_K:
		return 6;
	case LLM_QUANTIZE_ADAPTIVE:
		return o->bits > 0 ? o->bits : LLM_ADAPTIVE_BITS;
	default:
		return 8;
	}
}

static bool is_type(const char *word)
{
	enum llm_quantize_type type;

	return !llm_quantize_type_parse(word, &type);
}

/* As llama-quantize names a file beside @in that was given no name. */
static const char *name_out(struct args *a, const char *in, const char *type)
{
	const char *slash = strrchr(in, '/');
	int folder = slash ? (int)(slash - in + 1) : 0, n;

	n = snprintf(a->out, sizeof(a->out), "%.*sggml-model-%s.gguf", folder, in, type);
	for (char *c = a->out + folder; *c; c++)
		*c = (char)(c < a->out + folder + 11 ? *c : toupper((unsigned char)*c));
	if (n > 5)
		memcpy(a->out + n - 5, ".gguf", 5);
	return a->out;
}

/* The files, the type, and as in llama-quantize the threads. 0 or an exit status. */
static int parse_words(struct args *a, int n, char **words)
{
	struct llm_quantize_options *o = &a->quantize;
	bool threads = n > 2 && is_type(words[n - 2]) && !is_type(words[n - 1]);
	int err = 0;

	if (threads)
		err = tool_parse_uint("THREADS", words[--n], 1, LLM_MAX_THREADS, &o->threads);
	if (err)
		return err;
	if (n != (o->shape ? 2 : 3) && (o->shape || n != 2 || !is_type(words[1])))
		return tool_usage("give %s and a type: --help explains them",
				  o->shape ? "a file to write" : "a model, a file to write");
	if (llm_quantize_type_parse(words[n - 1], &o->type))
		return tool_usage("%s", llm_error());
	o->in = o->shape ? NULL : words[0];
	o->out = n == 2 && o->in ? name_out(a, o->in, llm_quantize_type_name(o->type))
				 : words[n - 2];
	if (o->in && same_file(o->in, o->out))
		return tool_usage("%s and %s are one file: give another output file", o->in,
				  o->out);
	return 0;
}

/* Options that exclude each other. 0 or an exit status. */
static int check_options(const struct args *a)
{
	const struct llm_quantize_options *o = &a->quantize;
	bool plain = !o->shape && !llm_quantize_type_is_packed(o->type);

	if (!o->shape && a->synthesizes)
		return tool_usage(
			"--arch, --seed and --vocab go with --synthetic: --help explains them");
	if (!a->text && a->calibrates)
		return tool_usage(
			"--calibrate-tokens, --outlier-channels, --hot, --profile, "
			"--pruning, --smooth, --smooth-bits and -v go with --calibrate: --help "
			"explains them");
	if (a->text && o->shape)
		return tool_usage("--calibrate takes a model: make one with --synthetic first");
	if (o->bits > 0 && o->type != LLM_QUANTIZE_ADAPTIVE)
		return tool_usage("--bits is the average width of adaptive, not of %s",
				  llm_quantize_type_name(o->type));
	if (o->shape && llm_quantize_type_is_packed(o->type))
		return tool_usage(
			"--synthetic makes f32, f16 and quantised types; pack such a file as %s",
			llm_quantize_type_name(o->type));
	if (!plain && (o->n_rules || o->imatrix))
		return tool_usage("types of single tensors and --imatrix are for a model that is "
				  "not packed");
	if (a->calibrate.smooth >= 0 && o->type == LLM_QUANTIZE_NATIVE)
		return tool_usage("--smooth changes the weights, whose numbers native keeps: "
				  "choose w8a8 or w4a8");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option_set set = { options, usage, .option = parse_one, .alone = true };
	static struct args args = {
		.quantize = { .warn = warn, .progress = progress_load },
		.calibrate = { LLM_CALIBRATE_DEFAULTS, .progress = progress_load },
	};
	int status = 0;

	tool_begin("llm-quantize");
	if (options_parse(&set, argc, argv, &args, &status))
		return tool_finish(status);
	status = parse_words(&args, argc - optind, argv + optind);
	if (!status)
		status = check_options(&args);
	args.calibrate.smooth_bits =
		args.smooth_bits > 0 ? args.smooth_bits : type_bits(&args.quantize);
	if (!status)
		status = tool_finish(run(&args));
	for (size_t i = 0; i < args.quantize.n_rules; i++)
		free(args.patterns[i]);
	return status;
}
