// SPDX-License-Identifier: MIT
/* llm-quantize: writes a model with another type of weights, or with random ones of a shape. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "llm_quantize.h"
#include "options.h"
#include "progress.h"
#include "tool.h"

static const char help[] =
	"usage: llm-quantize [-t N] IN.gguf OUT.gguf TYPE\n"
	"       llm-quantize [-t N] --synthetic SHAPE OUT.gguf TYPE [--seed N] [--vocab N]\n"
	"Writes a model with another type of weights, or one of a given shape with random "
	"weights.\n"
	"TYPE is f32, f16, q8_0 or q4_0, or w8a8, w4a8, w4a16 or native:\n"
	"packed for the NPU.\n\n"
	"      --synthetic SHAPE   a name in share/shapes, or a file\n"
	"      --seed N            seed of the random weights; determines the file (default: 0)\n"
	"      --vocab N           tokens of the vocabulary (default: the shape's)\n"
	"  -t, --threads N         threads (default: one per CPU)\n"
	"  -h, --help              this help\n"
	"      --version           the version\n";

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

static int run(const struct llm_quantize_options *opts)
{
	static const int signals[] = { SIGINT, SIGTERM };
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND }, before;
	uint64_t start = tool_now_ns();
	struct llm_quantize_result r;

	/* Interrupting removes the incomplete file. */
	for (int i = 0; i < 2; i++)
		if (!sigaction(signals[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
	if (llm_quantize(opts, &r))
		return tool_fail("%s", llm_error());
	progress_clear();
	printf("%s: %zu tensors, ", opts->out, r.n_tensors);
	if (opts->in)
		printf("%" PRIu64 " -> ", r.bytes_before);
	printf("%" PRIu64 " bytes, %.2f bits per weight, %.1f s\n", r.bytes_after,
	       8 * (double)r.bytes_after / (double)r.n_values,
	       (double)(tool_now_ns() - start) * 1e-9);
	return 0;
}

int main(int argc, char **argv)
{
	enum { SYNTHETIC = 256, SEED, VOCAB, VERSION };
	static const struct option options[] = {
		{ "synthetic", required_argument, NULL, SYNTHETIC },
		{ "seed", required_argument, NULL, SEED },
		{ "vocab", required_argument, NULL, VOCAB },
		{ "threads", required_argument, NULL, 't' },
		{ "version", no_argument, NULL, VERSION },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct llm_quantize_options opts = { .warn = warn, .progress = progress_load };
	bool seeded = false;
	int opt, ret = 0;

	tool_name = "llm-quantize";
	opterr = 0;
	while (!ret && (opt = getopt_long(argc, argv, ":t:h", options, NULL)) != -1) {
		switch (opt) {
		case SYNTHETIC:
			opts.shape = optarg;
			break;
		case SEED:
			ret = tool_parse_u64("--seed", optarg, 0, UINT64_MAX, &opts.seed);
			seeded = true;
			break;
		case VOCAB:
			ret = tool_parse_uint("--vocab", optarg, 260, 1u << 24, &opts.n_vocab);
			break;
		case 't':
			ret = tool_parse_uint("-t", optarg, 1, LLM_MAX_THREADS, &opts.threads);
			break;
		case VERSION:
			printf("llm-quantize %s (%s)\n", VNPU_VERSION, tool_build_commit);
			return tool_finish(EXIT_SUCCESS);
		case 'h':
			fputs(help, stdout);
			return tool_finish(EXIT_SUCCESS);
		default:
			return tool_bad_option(opt, argv);
		}
	}
	if (ret)
		return ret;
	if (argc - optind != (opts.shape ? 2 : 3))
		return tool_usage("give %s and a type: --help explains them",
				  opts.shape ? "a file to write" : "a model, a file to write");
	if (!opts.shape && (seeded || opts.n_vocab))
		return tool_usage("--seed and --vocab go with --synthetic: --help explains them");
	if (llm_quantize_type_parse(argv[argc - 1], &opts.type))
		return tool_usage("%s", llm_error());
	if (opts.shape && llm_quantize_type_is_packed(opts.type))
		return tool_usage(
			"--synthetic makes f32, f16, q8_0 or q4_0; pack such a file as %s",
			llm_quantize_type_name(opts.type));
	opts.out = argv[argc - 2];
	opts.in = opts.shape ? NULL : argv[optind];
	if (opts.in && same_file(opts.in, opts.out))
		return tool_usage("%s and %s are one file: give another output file", opts.in,
				  opts.out);
	return tool_finish(run(&opts));
}
