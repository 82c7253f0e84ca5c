// SPDX-License-Identifier: MIT
/*
 * llm-vocab: vocabularies without a model. Converts a tokenizer.json, and runs a vocabulary over a text.
 */
#include "llm-vocab.h"

#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tokenizer.h"

#define EXIT_USAGE 2

static const char usage[] = "usage: llm-vocab TOKENIZER.json -o VOCAB.gguf [--pre NAME] [--bos TOKEN] [--eos TOKEN]\n"
			    "       llm-vocab --encode TEXT [--special] VOCAB.gguf\n"
			    "       llm-vocab --bench TEXT VOCAB.gguf\n";

static const char help[] = "Turns a Hugging Face tokenizer.json (byte-level BPE) into a GGUF file that holds only the "
			   "vocabulary, or runs the\n"
			   "vocabulary of any GGUF file over a text.\n"
			   "\n"
			   "  -o FILE        the GGUF file to write\n"
			   "  --pre NAME     pre-tokenizer: gpt-2, llama-bpe, qwen2 or smollm (default: recognised in "
			   "the tokenizer.json)\n"
			   "  --bos TOKEN    the token in front of a text, which then is put there by default\n"
			   "  --eos TOKEN    the token that ends a text\n"
			   "  --encode TEXT  print the ids of the file TEXT, one a line\n"
			   "  --special      with --encode: control tokens written in the text become their ids\n"
			   "  --bench TEXT   encode and decode the file TEXT for a second each and print MB/s\n"
			   "  -h, --help     this text\n";

static int fail(const char *line)
{
	fprintf(stderr, "llm-vocab: %s\n", line);
	return EXIT_FAILURE;
}

static int misused(const char *line)
{
	fprintf(stderr, "llm-vocab: %s; see llm-vocab --help\n", line);
	return EXIT_USAGE;
}

/* A text with its ids. */
struct run {
	struct gguf_file *file;
	struct tokenizer *tok;
	char *text;
	size_t bytes;
	int32_t *ids;
	long n;
};

static char *read_text(const char *path, size_t *bytes)
{
	FILE *f = fopen(path, "rbe");
	size_t max = 0, n = 0, got;
	char *text = NULL;

	if (!f)
		return NULL;
	do {
		char *grown = realloc(text, max = 2 * max + 65536);

		if (!grown) {
			free(text);
			fclose(f);
			errno = ENOMEM;
			return NULL;
		}
		text = grown;
		got = fread(text + n, 1, max - n, f);
		n += got;
	} while (got);
	if (ferror(f)) {
		int saved = errno;

		free(text);
		text = NULL;
		errno = saved;
	}
	fclose(f);
	*bytes = n;
	return text;
}

static int run_open(struct run *run, const char *vocab, const char *text, char *err, size_t err_bytes)
{
	int n;

	if (gguf_open(vocab, &run->file, err, err_bytes))
		return -1;
	n = snprintf(err, err_bytes, "%s: ", vocab);
	if (tokenizer_create(run->file, &run->tok, err + n, err_bytes - n))
		return -1;
	run->text = read_text(text, &run->bytes);
	if (!run->text) {
		snprintf(err, err_bytes, "%s: %s", text, strerror(errno));
		return -1;
	}
	/* Never more ids than bytes, a beginning of text and a dummy space. */
	run->ids = malloc((run->bytes + 2) * sizeof(*run->ids));
	if (!run->ids) {
		snprintf(err, err_bytes, "%s: no memory for the ids of %zu bytes", text, run->bytes);
		return -1;
	}
	return 0;
}

static void run_close(struct run *run)
{
	free(run->ids);
	free(run->text);
	tokenizer_free(run->tok);
	gguf_close(run->file);
}

static int encode(struct run *run, unsigned int flags)
{
	run->n = tokenizer_encode(run->tok, run->text, run->bytes, flags, run->ids, run->bytes + 2);
	return run->n < 0 ? fail(strerror(-run->n)) : EXIT_SUCCESS;
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

static int bench(struct run *run)
{
	double start = now_s(), encode_s, decode_s;
	char *out = malloc(run->bytes + 1);
	unsigned int n_encode = 0, n_decode = 0;
	int ret = out ? EXIT_SUCCESS : fail("no memory for the text");
	long bytes = 0;

	while (!ret && ((encode_s = now_s() - start) < 1 || !n_encode)) {
		ret = encode(run, TOKENIZE_BOS);
		n_encode++;
	}
	start = now_s();
	while (!ret && ((decode_s = now_s() - start) < 1 || !n_decode)) {
		bytes = tokenizer_decode(run->tok, run->ids, run->n, out, run->bytes + 1);
		n_decode++;
	}
	if (!ret)
		printf("encode %.2f MB/s, decode %.2f MB/s, %zu bytes, %ld ids, %s\n",
		       run->bytes / 1e6 * n_encode / encode_s, run->bytes / 1e6 * n_decode / decode_s, run->bytes,
		       run->n,
		       (size_t)bytes == run->bytes && !memcmp(out, run->text, run->bytes) ? "lossless" : "lossy");
	free(out);
	return ret;
}

static int run_text(const char *vocab, const char *text, bool measure, unsigned int flags)
{
	struct run run = { 0 };
	char err[512];
	long i;
	int ret;

	if (run_open(&run, vocab, text, err, sizeof(err))) {
		ret = fail(err);
	} else if (measure) {
		ret = bench(&run);
	} else {
		ret = encode(&run, flags);
		for (i = 0; !ret && i < run.n; i++)
			printf("%d\n", run.ids[i]);
	}
	run_close(&run);
	if (!ret && (fflush(stdout) || ferror(stdout)))
		ret = fail("standard output cannot be written");
	return ret;
}

static bool known_pre(const char *pre)
{
	return !strcmp(pre, "gpt-2") || !strcmp(pre, "llama-bpe") || !strcmp(pre, "qwen2") || !strcmp(pre, "smollm");
}

int main(int argc, char **argv)
{
	enum { PRE = 256, BOS, EOS, ENCODE, SPECIAL, BENCH };
	static const struct option options[] = {
		{ "pre", required_argument, NULL, PRE },   { "bos", required_argument, NULL, BOS },
		{ "eos", required_argument, NULL, EOS },   { "encode", required_argument, NULL, ENCODE },
		{ "special", no_argument, NULL, SPECIAL }, { "bench", required_argument, NULL, BENCH },
		{ "help", no_argument, NULL, 'h' },	   { 0 },
	};
	const char *out = NULL, *encode_path = NULL, *bench_path = NULL;
	struct vocab_options opts = { 0 };
	bool special = false;
	char err[512];
	int opt;

	while ((opt = getopt_long(argc, argv, "o:h", options, NULL)) != -1) {
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
		case 'h':
			printf("%s\n%s", usage, help);
			return EXIT_SUCCESS;
		default:
			return EXIT_USAGE; /* getopt has printed the line */
		}
	}
	if (optind + 1 != argc)
		return misused("give one tokenizer.json or vocabulary");
	if (!!out + !!encode_path + !!bench_path != 1)
		return misused("give one of -o, --encode and --bench");
	if (special && !encode_path)
		return misused("--special goes with --encode");
	if ((opts.pre || opts.bos || opts.eos) && !out)
		return misused("--pre, --bos and --eos go with -o");
	if (opts.pre && !known_pre(opts.pre))
		return misused("--pre is gpt-2, llama-bpe, qwen2 or smollm");
	if (!out)
		return run_text(argv[optind], bench_path ? bench_path : encode_path, bench_path,
				special ? TOKENIZE_SPECIAL : 0);
	return vocab_convert(argv[optind], out, &opts, err, sizeof(err)) ? fail(err) : EXIT_SUCCESS;
}
