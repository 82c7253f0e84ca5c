// SPDX-License-Identifier: MIT
/* The command recall: a text's queries and keys in floats, and tables of what was found. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "llm_fail.h"
#include "recall_heads.h"
#include "shadowattn.h"
#include "tool.h"

static const char help[] =
	"usage: shadowattn recall [options] MODEL.gguf TEXT\n"
	"Prints which share of the greatest float scores the INT8 estimate of a calibrated model\n"
	"finds, and block-sparse attention.\n\n"
	"      --ratio LIST      mean shares of positions (default: 0.2,0.3,0.4,0.5,0.8)\n"
	"      --ratios NAME     gain, head or uniform: ratios of heads (default: gain)\n"
	"      --scale-buckets N  pairs of scales (default: 9)\n"
	"      --chunk N         tokens of a chunk, whose scales are one (default: 256)\n"
	"      --tokens N        of a window of the text (default: 512)\n"
	"      --windows N       at most (default: 8)\n"
	"      --by-head         print each head\n"
	"  -h, --help            this help\n";

#define MAX_RATIOS 16
#define MAX_TOKENS 65536

struct recall_args {
	const char *model, *text;
	double ratio[MAX_RATIOS];
	unsigned int n_ratios;
	enum llm_ratios ratios;
	unsigned int buckets, chunk, tokens, windows;
	bool by_head;
};

/* ---- evaluation ---- */

static void on_tensor(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
		      unsigned int rows, unsigned int cols, const float *data)
{
	struct recall_heads *r = ud;

	if (!strcmp(tensor, "q_rope"))
		recall_heads_queries(r, data, rows);
	else if (!strcmp(tensor, "k_rope"))
		recall_heads_keys(r, data, layer, pos, rows);
}

static int evaluate(struct llm_session *s, int32_t *ids, long n, const struct recall_args *args)
{
	const struct llm_engine_info *info = llm_engine_info(s->engine);
	int err = 0;

	if (n < (long)args->tokens)
		return llm_fail(-EINVAL, "%s: has %ld tokens, a window %u: give a longer text",
				args->text, n, args->tokens);
	for (long w = 0; !err && w < args->windows && (w + 1) * args->tokens <= n; w++) {
		int32_t *first = ids + w * args->tokens;

		if (info->add_bos && info->bos >= 0)
			*first = info->bos;
		err = llm_session_truncate(s, 0);
		if (!err)
			err = llm_session_eval(s, first, args->tokens);
	}
	return err;
}

static int observe(struct llm_engine *engine, const struct recall_args *args, const char *text,
		   size_t bytes, struct recall_heads *r)
{
	size_t most = (size_t)args->tokens * args->windows;
	struct llm_session *s = NULL;
	int32_t *ids = calloc(most, sizeof(*ids));
	long n = ids ? llm_tokenize(engine, text, bytes, LLM_TOKENIZE_BOS, ids, most)
		     : llm_fail(-ENOMEM, "no memory for %zu tokens", most);
	int err = n < 0 ? (int)n : llm_session_create(engine, args->tokens, &s);

	if (!err) {
		llm_session_observe(s, on_tensor, r);
		err = evaluate(s, ids, (size_t)n < most ? n : (long)most, args);
	}
	llm_session_free(s);
	free(ids);
	return err;
}

/* ---- tables ---- */

static double share(uint64_t of, uint64_t all)
{
	return all ? (double)of / (double)all : 1;
}

/* Of one ratio, over heads. */
struct summary {
	double estimate, blocks; /* means */
	double least, least_blocks;
	unsigned int layer, head; /* of the least */
	double computed; /* positions of blocks for one of the float list, all heads together */
};

static void summarise(const struct recall_heads *r, unsigned int ratio, struct summary *s)
{
	double n = (double)r->layers * r->heads;
	uint64_t computed = 0, wanted = 0;

	*s = (struct summary){ .least = INFINITY, .least_blocks = INFINITY };
	for (unsigned int i = 0; i < r->layers * r->heads; i++) {
		const struct recall_count *c = recall_count(r, ratio, i / r->heads, i % r->heads);
		double estimate = share(c->estimate, c->wanted),
		       blocks = share(c->blocks, c->wanted);

		s->estimate += estimate / n;
		s->blocks += blocks / n;
		computed += c->computed;
		wanted += c->wanted;
		s->least_blocks = fmin(s->least_blocks, blocks);
		if (estimate >= s->least)
			continue;
		s->least = estimate;
		s->layer = i / r->heads;
		s->head = i % r->heads;
	}
	s->computed = share(computed, wanted);
}

static void put_summaries(const struct recall_heads *r, const struct recall_args *args)
{
	puts("| ratio | estimate | worst head | layer, head | blocks | worst head | keys of blocks "
	     "|\n|---:|---:|---:|---|---:|---:|---:|");
	for (unsigned int i = 0; i < r->n_ratios; i++) {
		struct summary s;

		summarise(r, i, &s);
		printf("| %g | %.4f | %.4f | %u, %u | %.4f | %.4f | %.2f |\n", args->ratio[i],
		       s.estimate, s.least, s.layer, s.head, s.blocks, s.least_blocks, s.computed);
	}
}

static void put_heads(const struct recall_heads *r, const struct recall_args *args)
{
	puts("\n| ratio | layer | head | its ratio | estimate | blocks |\n"
	     "|---:|---:|---:|---:|---:|---:|");
	for (unsigned int i = 0; i < r->n_ratios; i++)
		for (unsigned int h = 0; h < r->layers * r->heads; h++) {
			const struct recall_count *c =
				recall_count(r, i, h / r->heads, h % r->heads);

			printf("| %g | %u | %u | %.4f | %.4f | %.4f |\n", args->ratio[i],
			       h / r->heads, h % r->heads, r->attention[i]->ratios[h],
			       share(c->estimate, c->wanted), share(c->blocks, c->wanted));
		}
}

/* ---- the command ---- */

/* The attention of each ratio. 0 or -errno with the error line. */
static int make_attentions(const struct llm_engine *engine, const struct recall_args *args,
			   struct attention *attention[MAX_RATIOS])
{
	struct llm_choices choices = engine->info.choices;
	struct attention_options o = {
		.shape = &engine->shape,
		.choices = &choices,
		.file = engine->loaded.file,
		.path = args->model,
		.from = 1,
		.buckets = args->buckets,
		.step = SCALE_BUCKETS_SIGMA,
	};
	int err = 0;

	choices.attention = LLM_ATTENTION_SHADOW;
	choices.ratios = args->ratios;
	for (unsigned int i = 0; i < args->n_ratios && !err; i++) {
		o.ratio = args->ratio[i];
		err = attention_create(&o, &attention[i]);
	}
	return err;
}

static int measure(struct llm_engine *engine, const struct recall_args *args, const char *text,
		   size_t bytes)
{
	struct attention *attention[MAX_RATIOS] = { NULL };
	struct recall_heads r = {
		.n_ctx = args->tokens,
		.chunk = args->chunk,
		.attention = (const struct attention *const *)attention,
		.n_ratios = args->n_ratios,
	};
	int err = make_attentions(engine, args, attention);

	if (!err)
		err = recall_heads_init(&r);
	if (!err)
		err = observe(engine, args, text, bytes, &r);
	if (!err)
		put_summaries(&r, args);
	if (!err && args->by_head)
		put_heads(&r, args);
	recall_heads_fini(&r);
	for (unsigned int i = 0; i < args->n_ratios; i++)
		attention_free(attention[i]);
	return err;
}

static int run(const struct recall_args *args)
{
	const struct llm_options opts = {
		.model = args->model,
		.choices = { .placement = LLM_PLACE_CPU,
			     .weights = LLM_WEIGHTS_F32,
			     .kv = LLM_KV_F32 },
		.chunk = args->chunk,
		.scale_buckets = args->buckets,
	};
	struct llm_engine *engine;
	size_t bytes;
	char *text;
	int err;

	if (llm_options_check(&opts))
		return tool_usage("%s", llm_error());
	text = tool_read_file(args->text, &bytes);
	if (!text)
		return 1;
	err = llm_engine_open(&opts, &engine);
	if (!err) {
		err = measure(engine, args, text, bytes);
		llm_engine_close(engine);
	}
	free(text);
	return err ? tool_fail("%s", llm_error()) : 0;
}

static int parse_ratio(struct recall_args *args, const char *value)
{
	char *words = strdup(value), *next = words, *word;
	int status = words ? 0 : tool_fail("no memory for ratios");

	args->n_ratios = 0;
	while (!status && (word = strsep(&next, ","))) {
		if (args->n_ratios == MAX_RATIOS)
			status = tool_usage("--ratio: give at most %d", MAX_RATIOS);
		else
			status = tool_parse_double("--ratio", word, 1e-3, 1,
						   &args->ratio[args->n_ratios++]);
	}
	free(words);
	return status;
}

static int parse_ratios(struct recall_args *args, const char *value)
{
	int found = llm_choice_parse(LLM_CHOICE_RATIOS, value);

	if (found < 0)
		return tool_usage("--ratios: '%s' is none of gain, head and uniform", value);
	args->ratios = (enum llm_ratios)found;
	return 0;
}

enum { RATIO = 256, RATIOS, BUCKETS, CHUNK, TOKENS, WINDOWS, BY_HEAD };

static int parse_one(struct recall_args *args, int opt, const char *value)
{
	switch (opt) {
	case RATIO:
		return parse_ratio(args, value);
	case RATIOS:
		return parse_ratios(args, value);
	case BUCKETS:
		return tool_parse_uint("--scale-buckets", value, 1, LLM_MAX_SCALE_BUCKETS,
				       &args->buckets);
	case CHUNK:
		return tool_parse_uint("--chunk", value, 1, LLM_MAX_CHUNK, &args->chunk);
	case TOKENS:
		return tool_parse_uint("--tokens", value, 2, MAX_TOKENS, &args->tokens);
	case WINDOWS:
		return tool_parse_uint("--windows", value, 1, MAX_TOKENS, &args->windows);
	default:
		args->by_head = true;
		return 0;
	}
}

int recall_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "ratio", required_argument, NULL, RATIO },
		{ "ratios", required_argument, NULL, RATIOS },
		{ "scale-buckets", required_argument, NULL, BUCKETS },
		{ "chunk", required_argument, NULL, CHUNK },
		{ "tokens", required_argument, NULL, TOKENS },
		{ "windows", required_argument, NULL, WINDOWS },
		{ "by-head", no_argument, NULL, BY_HEAD },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct recall_args args = { .ratio = { 0.2, 0.3, 0.4, 0.5, 0.8 },
				    .n_ratios = 5,
				    .ratios = LLM_RATIOS_GAIN,
				    .buckets = SCALE_BUCKETS_DEFAULT,
				    .chunk = 256,
				    .tokens = 512,
				    .windows = 8 };
	int opt, status = 0;

	opterr = 0;
	while (!status && (opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (opt == '?' || opt == ':')
			return tool_bad_option(opt, argv, options);
		if (opt == 'h') {
			fputs(help, stdout);
			return tool_finish(0);
		}
		status = parse_one(&args, opt, optarg);
	}
	if (status)
		return status;
	if (argc - optind != 2)
		return tool_usage("recall takes a model and a text: recall --help explains them");
	args.model = argv[optind];
	args.text = argv[optind + 1];
	return tool_finish(run(&args));
}
