// SPDX-License-Identifier: MIT
/*
 * llm-quantize: a model's file with another type of weights, or a file of random weights of a given shape.
 */
#include "llm-quantize.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

#include "options.h"
#include "tool.h"

/* The types that are packed follow. */
static const char help[] =
	"usage: llm-quantize [-t N] IN.gguf OUT.gguf TYPE\n"
	"       llm-quantize [-t N] --synthetic SHAPE OUT.gguf TYPE [--seed N] [--vocab N]\n"
	"Writes a model with another type of weights, or one of a given shape with random weights.\n"
	"TYPE is f32, f16, q8_0 or q4_0, or packed for the NPU: %s.\n\n"
	"      --synthetic SHAPE   a name of share/shapes, or a file\n"
	"      --seed N            of the random weights; the same seed gives the same file (default: "
	"0)\n"
	"      --vocab N           tokens of the vocabulary (default: the shape's)\n"
	"  -t, --threads N         (default: as many as there are CPUs)\n"
	"  -h, --help\n"
	"      --version\n";

/* The weights that panels are of. */
static const char *packed_names(void)
{
	const struct llm_choice_info *info = llm_choice_info(LLM_CHOICE_WEIGHTS);
	static char names[128];
	size_t used = 0;

	for (unsigned int w = 0; w < info->n_values && used < sizeof(names); w++)
		if (llm_weights_packed((enum llm_weights)w))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 used ? ", " : "", info->values[w].name);
	return names;
}

static int find_type(const char *s, struct quantize *q)
{
	static const struct {
		const char *name;
		enum gguf_type type;
		enum gguf_file_type file_type;
	} types[] = {
		{ "f32", GGUF_F32, GGUF_FILE_F32 },
		{ "f16", GGUF_F16, GGUF_FILE_F16 },
		{ "q8_0", GGUF_Q8_0, GGUF_FILE_Q8_0 },
		{ "q4_0", GGUF_Q4_0, GGUF_FILE_Q4_0 },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (!strcasecmp(s, types[i].name)) {
			q->type = types[i].type;
			q->file_type = types[i].file_type;
			return 0;
		}
	}
	for (unsigned int w = 0; w < llm_choice_info(LLM_CHOICE_WEIGHTS)->n_values; w++) {
		if (llm_weights_packed((enum llm_weights)w) &&
		    !strcasecmp(s, llm_choice_name(LLM_CHOICE_WEIGHTS, w))) {
			q->panels = (enum llm_weights)w;
			return 0;
		}
	}
	return tool_usage("'%s' is none of f32, f16, q8_0, q4_0, %s", s, packed_names());
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void summarise(const struct quantize *q, uint64_t ns)
{
	printf("%s: %zu tensors, ", q->out, q->n_tensors);
	if (q->file)
		printf("%" PRIu64 " -> ", q->bytes_before);
	printf("%" PRIu64 " bytes, %.2f bits per weight, %.1f s\n", q->bytes_after,
	       8 * (double)q->bytes_after / (double)q->total, (double)ns * 1e-9);
}

static void on_signal(int sig)
{
	quantize_stop();
}

static int run(struct quantize *q, const struct synthetic_options *opts, unsigned int threads)
{
	static const int signals[] = { SIGINT, SIGTERM };
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND }, before;
	uint64_t start = tool_now_ns();
	struct gguf_file *file = NULL;
	char err[512];
	int ret = 0;

	/* What is half written is removed. */
	for (int i = 0; i < 2; i++)
		if (!sigaction(signals[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
	if (!opts->shape && gguf_open(q->in, &file, err, sizeof(err)))
		return tool_fail("%s", err);
	q->file = file;
	q->writer = gguf_writer_create();
	q->pool = llm_pool_create(threads, 0);
	if (!q->pool)
		ret = tool_fail("%u threads cannot be started", threads);
	else
		ret = opts->shape ? quantize_synthetic(q, opts) : q->panels ? quantize_panels(q) : quantize_convert(q);
	if (!ret)
		summarise(q, tool_now_ns() - start);
	llm_pool_free(q->pool);
	gguf_writer_free(q->writer);
	gguf_close(file);
	return ret;
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
	struct synthetic_options opts = { 0 };
	struct quantize q = { 0 };
	unsigned int threads = llm_pool_cpus();
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
			ret = tool_parse_uint("--vocab", optarg, 260, 1u << 24, &opts.vocab);
			break;
		case 't':
			ret = tool_parse_uint("-t", optarg, 1, LLM_MAX_THREADS, &threads);
			break;
		case VERSION:
			printf("llm-quantize %s (%s)\n", VNPU_VERSION, tool_build_commit);
			return tool_finish(EXIT_SUCCESS);
		case 'h':
			printf(help, packed_names());
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
	if (!opts.shape && (seeded || opts.vocab))
		return tool_usage("--seed and --vocab go with --synthetic: --help explains them");
	ret = find_type(argv[argc - 1], &q);
	if (ret)
		return ret;
	if (opts.shape && q.panels)
		return tool_usage("--synthetic makes f32, f16, q8_0 and q4_0, which %s is packed from",
				  llm_choice_name(LLM_CHOICE_WEIGHTS, q.panels));
	q.out = argv[argc - 2];
	q.in = argv[optind];
	if (!opts.shape && same_file(q.in, q.out))
		return tool_usage("%s and %s are one file: give another to write", q.in, q.out);
	return tool_finish(run(&q, &opts, threads));
}
