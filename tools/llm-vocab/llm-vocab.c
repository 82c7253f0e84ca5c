// SPDX-License-Identifier: MIT
/* llm-vocab: converts a tokenizer.json to a GGUF vocabulary, and encodes texts with one. */
#include "llm-vocab.h"

#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm_vocab.h"
#include "tool.h"

static const char usage[] =
	"usage: llm-vocab TOKENIZER.json -o VOCAB.gguf [--pre NAME] [--bos TOKEN] [--eos TOKEN]\n"
	"       llm-vocab --encode TEXT [--special] VOCAB.gguf\n"
	"       llm-vocab --bench TEXT VOCAB.gguf\n"
	"       llm-vocab --list\n";

static const char help[] =
	"Converts a Hugging Face tokenizer.json (byte-level BPE) to a GGUF file with only the "
	"vocabulary,\n"
	"or encodes a text with the vocabulary of any GGUF file.\n"
	"\n"
	"  -o FILE        the GGUF file to write\n"
	"  --pre NAME     pre-tokenizer, one of --list (default: that of the file)\n"
	"  --bos TOKEN    the token to put in front of texts\n"
	"  --eos TOKEN    the token that ends a text\n"
	"  --encode TEXT  print the ids of the file TEXT, one per line\n"
	"  --special      with --encode: recognise control tokens that are spelled out in the "
	"text\n"
	"  --bench TEXT   encode and decode the file TEXT for a second each and print MB/s\n"
	"  --list         print the names of the pre-tokenizers, one per line\n"
	"  -h, --help     this help\n"
	"  --version      the version and the revision that it was built from\n";

/* A text and its ids. */
struct run {
	struct llm_vocab *vocab;
	char *text;
	size_t bytes;
	int32_t *ids;
	size_t max;
	long n;
};

static int run_open(struct run *run, const char *vocab, const char *text)
{
	if (llm_vocab_open(vocab, &run->vocab))
		return tool_fail("%s", llm_error());
	if (llm_vocab_warning(run->vocab))
		fprintf(stderr, "llm-vocab: warning: %s\n", llm_vocab_warning(run->vocab));
	run->text = tool_read_file(text, &run->bytes);
	if (!run->text)
		return EXIT_FAILURE;
	/* An id per byte at most, BOS and a dummy space; form C has up to three times the bytes. */
	run->max = 3 * run->bytes + 2;
	run->ids = malloc(run->max * sizeof(*run->ids));
	return run->ids ? EXIT_SUCCESS
			: tool_fail("%s: no memory for the ids of %zu bytes", text, run->bytes);
}

static void run_close(struct run *run)
{
	free(run->ids);
	free(run->text);
	llm_vocab_close(run->vocab);
}

static int encode(struct run *run, unsigned int flags)
{
	run->n = llm_vocab_tokenize(run->vocab, run->text, run->bytes, flags, run->ids, run->max);
	return run->n < 0 ? tool_fail("%s", llm_error()) : EXIT_SUCCESS;
}

/* Times whole passes over the text for at least a second. */
static int bench(struct run *run)
{
	uint64_t start = tool_now_ns(), encode_ns = 0, decode_ns = 0;
	unsigned int n_encode, n_decode;
	char *out = malloc(run->bytes + 1);
	long bytes = 0;

	if (!out)
		return tool_fail("no memory for a text of %zu bytes", run->bytes);
	for (n_encode = 0; encode_ns < 1000000000; n_encode++) {
		if (encode(run, LLM_TOKENIZE_BOS)) {
			free(out);
			return EXIT_FAILURE;
		}
		encode_ns = tool_now_ns() - start;
	}
	start = tool_now_ns();
	for (n_decode = 0; decode_ns < 1000000000; n_decode++) {
		bytes = llm_vocab_detokenize(run->vocab, run->ids, run->n, out, run->bytes + 1);
		decode_ns = tool_now_ns() - start;
	}
	printf("encode %.2f MB/s, decode %.2f MB/s, %zu bytes, %ld ids, %s\n",
	       1e3 * run->bytes * n_encode / encode_ns, 1e3 * run->bytes * n_decode / decode_ns,
	       run->bytes, run->n,
	       (size_t)bytes == run->bytes && !memcmp(out, run->text, run->bytes) ? "lossless"
										  : "lossy");
	free(out);
	return EXIT_SUCCESS;
}

static int run_text(const char *vocab, const char *text, bool measure, unsigned int flags)
{
	struct run run = { 0 };
	int ret = run_open(&run, vocab, text);
	long i;

	if (!ret)
		ret = measure ? bench(&run) : encode(&run, flags);
	for (i = 0; !ret && !measure && i < run.n; i++)
		printf("%d\n", run.ids[i]);
	run_close(&run);
	return ret;
}

static int list_pre(void)
{
	for (size_t i = 0; llm_vocab_pre_name(i); i++)
		puts(llm_vocab_pre_name(i));
	return tool_finish(EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
	enum { PRE = 256, BOS, EOS, ENCODE, SPECIAL, BENCH, LIST, VERSION };
	static const struct option options[] = {
		{ "pre", required_argument, NULL, PRE },
		{ "bos", required_argument, NULL, BOS },
		{ "eos", required_argument, NULL, EOS },
		{ "encode", required_argument, NULL, ENCODE },
		{ "special", no_argument, NULL, SPECIAL },
		{ "bench", required_argument, NULL, BENCH },
		{ "list", no_argument, NULL, LIST },
		{ "version", no_argument, NULL, VERSION },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const char *out = NULL, *encode_path = NULL, *bench_path = NULL;
	struct vocab_options opts = { 0 };
	bool special = false;
	char err[512];
	int opt;

	tool_begin("llm-vocab");
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":o:h", options, NULL)) != -1) {
		switch (opt) {
		case 'o':
			out = optarg;
			break;
		case PRE:
			opts.pre = optarg;
			break;
		case BOS:
			opts.bos = optarg;
			break;
		case EOS:
			opts.eos = optarg;
			break;
		case ENCODE:
			encode_path = optarg;
			break;
		case SPECIAL:
			special = true;
			break;
		case BENCH:
			bench_path = optarg;
			break;
		case LIST:
			return list_pre();
		case VERSION:
			printf("llm-vocab %s (%s)\n", VNPU_VERSION, tool_build_commit);
			return tool_finish(EXIT_SUCCESS);
		case 'h':
			printf("%s\n%s", usage, help);
			return tool_finish(EXIT_SUCCESS);
		default:
			return tool_bad_option(opt, argv, options);
		}
	}
	if (optind + 1 != argc)
		return tool_usage("give one tokenizer.json or vocabulary: --help explains them");
	if (!!out + !!encode_path + !!bench_path != 1)
		return tool_usage("give one of -o, --encode and --bench: --help explains them");
	if (special && !encode_path)
		return tool_usage("--special goes with --encode: --help explains them");
	if ((opts.pre || opts.bos || opts.eos) && !out)
		return tool_usage("--pre, --bos and --eos go with -o: --help explains them");
	if (opts.pre && !llm_vocab_knows_pre(opts.pre))
		return tool_usage("--pre '%s' is not known: --list prints the names", opts.pre);
	if (out)
		return vocab_convert(argv[optind], out, &opts, err, sizeof(err))
			       ? tool_fail("%s", err)
			       : EXIT_SUCCESS;
	return tool_finish(run_text(argv[optind], bench_path ? bench_path : encode_path, bench_path,
				    special ? LLM_TOKENIZE_SPECIAL : 0));
}
