// SPDX-License-Identifier: MIT
/* llm-quantize: writes a model with another type of weights, calibrated, or with random weights. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "llm_quantize.h"
#include "options.h"
#include "progress.h"
#include "tool.h"

static const char help[] =
	"usage: llm-quantize [-t N] IN.gguf OUT.gguf TYPE\n"
	"       llm-quantize [-t N] --calibrate TEXT [options] IN.gguf OUT.gguf TYPE\n"
	"       llm-quantize [-t N] --synthetic SHAPE OUT.gguf TYPE [--seed N] [--vocab N]\n"
	"Writes a model with another type of weights, one that is calibrated for\n"
	"--activations static and --attention shadow, or one of a given shape with random\n"
	"weights.\n"
	"TYPE is f32, f16, q8_0, q5_1, q5_0, q4_1 or q4_0, or w8a8, w4a8, w4a16,\n"
	"native or adaptive:\n"
	"packed for the NPU.\n\n"
	"      --bits AVERAGE      adaptive: the average width of weights, 1 to 8 (default: 5)\n"
	"      --calibrate TEXT    a file of text such as the model will meet; - for stdin\n"
	"      --calibrate-tokens N  tokens of it to evaluate at most (default: 8192)\n"
	"      --head-tokens N     of these, tokens that are evaluated again without each head\n"
	"                          and each layer, for the ratios of heads; 0: none\n"
	"                          (default: 1024)\n"
	"      --outlier-channels SHARE  of an input's channels that have outliers in a\n"
	"                          chunk of 256 tokens (default: 0.003)\n"
	"      --hot SHARE         of the outliers whose channels' weights stay in memory\n"
	"                          (default: 0.8)\n"
	"      --profile NAME      choose the length of prompts' chunks that is the fastest on\n"
	"                          this soc of share/profiles, and keep it in the file\n"
	"      --pruning SHARE     of the inputs, the least important, whose outliers are\n"
	"                          lost (default: 0.85)\n"
	"      --smooth ALPHA      divide channels by max|x|^ALPHA / max|w|^(1 - ALPHA)\n"
	"      --smooth auto       divide them by max|x|^A, for each input with the A that\n"
	"                          loses least if activations are INT8 with one scale\n"
	"      --smooth weights    the same, if activations are floats\n"
	"      --smooth-bits B     average width of weights, 1 to 8, that A is searched for\n"
	"                          (default: 4 for the 4-bit types, --bits for\n"
	"                          adaptive, else 8)\n"
	"  -v, --verbose           print what was found of each input\n"
	"      --synthetic SHAPE   a name in share/shapes, or a file\n"
	"      --seed N            seed of the random weights; determines the file (default: 0)\n"
	"      --vocab N           tokens of the vocabulary (default: the shape's)\n"
	"  -t, --threads N         threads (default: one per CPU)\n"
	"  -h, --help              this help\n"
	"      --version           the version\n";

struct args {
	struct llm_quantize_options quantize;
	struct llm_calibrate_options calibrate;
	const char *text; /* a file; NULL: no calibration */
	double smooth_bits; /* 0: the type's */
	bool calibrates; /* options that go with --calibrate were given */
	bool synthesizes; /* those of --synthetic */
	bool verbose;
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
	printf("%" PRIu64 " bytes, %.2f bits per weight, ", r->bytes_after,
	       8 * (double)r->bytes_after / (double)r->n_values);
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
	status = a->text ? calibrate(a, &calibration) : 0;
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
	SYNTHETIC = 256,
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
	VERSION,
};

static const struct option options[] = {
	{ "synthetic", required_argument, NULL, SYNTHETIC },
	{ "seed", required_argument, NULL, SEED },
	{ "vocab", required_argument, NULL, VOCAB },
	{ "calibrate", required_argument, NULL, CALIBRATE },
	{ "calibrate-tokens", required_argument, NULL, TOKENS },
	{ "head-tokens", required_argument, NULL, HEAD_TOKENS },
	{ "outlier-channels", required_argument, NULL, CHANNELS },
	{ "hot", required_argument, NULL, HOT },
	{ "pruning", required_argument, NULL, PRUNING },
	{ "profile", required_argument, NULL, PROFILE },
	{ "smooth", required_argument, NULL, SMOOTH },
	{ "smooth-bits", required_argument, NULL, SMOOTH_BITS },
	{ "bits", required_argument, NULL, BITS },
	{ "verbose", no_argument, NULL, 'v' },
	{ "threads", required_argument, NULL, 't' },
	{ "version", no_argument, NULL, VERSION },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
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

/* Parses an option other than --help and --version. 0 or an exit status. */
static int parse_one(struct args *a, int opt, const char *value)
{
	struct llm_quantize_options *o = &a->quantize;

	switch (opt) {
	case SYNTHETIC:
		o->shape = value;
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
		return 4;
	case LLM_QUANTIZE_Q5_0:
	case LLM_QUANTIZE_Q5_1:
		return 5;
	case LLM_QUANTIZE_ADAPTIVE:
		return o->bits > 0 ? o->bits : LLM_ADAPTIVE_BITS;
	default:
		return 8;
	}
}

/* The files and the type. 0 or an exit status. */
static int parse_files(struct args *a, int n, char **words)
{
	struct llm_quantize_options *o = &a->quantize;

	if (n != (o->shape ? 2 : 3))
		return tool_usage("give %s and a type: --help explains them",
				  o->shape ? "a file to write" : "a model, a file to write");
	if (!o->shape && a->synthesizes)
		return tool_usage("--seed and --vocab go with --synthetic: --help explains them");
	if (!a->text && a->calibrates)
		return tool_usage(
			"--calibrate-tokens, --outlier-channels, --hot, --profile, "
			"--pruning, --smooth, --smooth-bits and -v go with --calibrate: --help "
			"explains them");
	if (a->text && o->shape)
		return tool_usage("--calibrate takes a model: make one with --synthetic first");
	if (llm_quantize_type_parse(words[n - 1], &o->type))
		return tool_usage("%s", llm_error());
	if (o->bits > 0 && o->type != LLM_QUANTIZE_ADAPTIVE)
		return tool_usage("--bits is the average width of adaptive, not of %s",
				  llm_quantize_type_name(o->type));
	if (o->shape && llm_quantize_type_is_packed(o->type))
		return tool_usage(
			"--synthetic makes f32, f16 and quantised types; pack such a file as %s",
			llm_quantize_type_name(o->type));
	if (a->calibrate.smooth >= 0 && o->type == LLM_QUANTIZE_NATIVE)
		return tool_usage("--smooth changes the weights, whose numbers native keeps: "
				  "choose w8a8 or w4a8");
	a->calibrate.smooth_bits = a->smooth_bits > 0 ? a->smooth_bits : type_bits(o);
	o->out = words[n - 2];
	o->in = o->shape ? NULL : words[0];
	if (o->in && same_file(o->in, o->out))
		return tool_usage("%s and %s are one file: give another output file", o->in,
				  o->out);
	return 0;
}

int main(int argc, char **argv)
{
	struct args args = {
		.quantize = { .warn = warn, .progress = progress_load },
		.calibrate = { LLM_CALIBRATE_DEFAULTS, .progress = progress_load },
	};
	int opt, status = 0;

	tool_name = "llm-quantize";
	opterr = 0;
	while (!status && (opt = getopt_long(argc, argv, ":t:vh", options, NULL)) != -1) {
		switch (opt) {
		case VERSION:
			printf("llm-quantize %s (%s)\n", VNPU_VERSION, tool_build_commit);
			return tool_finish(EXIT_SUCCESS);
		case 'h':
			fputs(help, stdout);
			return tool_finish(EXIT_SUCCESS);
		case '?':
		case ':':
			return tool_bad_option(opt, argv);
		default:
			status = parse_one(&args, opt, optarg);
		}
	}
	if (!status)
		status = parse_files(&args, argc - optind, argv + optind);
	return status ? status : tool_finish(run(&args));
}
