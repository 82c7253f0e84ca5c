// SPDX-License-Identifier: MIT
/* npu-profile: verbs and command line. */
#include "npu-profile.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "options.h"
#include "tool.h"

enum {
	OPT_ORDER = OPT_TOOL,
	OPT_LANE,
	OPT_ROWS,
	OPT_RANDOM,
	OPT_MAX,
	OPT_SEED,
	OPT_FOLDS,
	OPT_LEAVES,
	OPT_MAX_DEPTH,
	OPT_MIN_SAMPLES,
	OPT_TILE,
	OPT_SHAPE,
};

static const char usage[] =
	"usage: npu-profile measure --shape NAME | --random N [options] [-o SAMPLES.csv]\n"
	"       npu-profile fit SAMPLES.csv [options] [-o MODEL]\n"
	"       npu-profile predict MODEL M K N [--weights NAME] [--order NAME]\n"
	"       npu-profile curve stage|order|shape|ffn [--profile NAME] [-o csv|md]\n"
	"       npu-profile --help | --version\n"
	"\n"
	"Measures, learns and predicts the times of matmuls [M][K] x [K][N] on a lane, and shows\n"
	"how an NPU's time depends on the shape. Times are in the lane, without launch and wait.\n"
	"LIST is 64,256 or 1-8 or 1-8+2 or 1-64*2.\n"
	"\n"
	"measure\n"
	"      --clock CLOCK           virtual (a modelled SoC), or wall: run w8a8 matmuls on the "
	"NPU (default: virtual)\n"
	"      --profile NAME          that SoC: a name in share/profiles, or a file (default: "
	"sd8gen3)\n"
	"      --transport NAME        wall: auto, drm or sim (default: auto)\n"
	"      --npu-threads N         wall: workers of a sim device (default: one per CPU)\n"
	"      --shape NAME            matmuls of a model: a name in share/shapes, or a file\n"
	"      --rows LIST             their rows (default: 1,8,32,64,128,256,512)\n"
	"      --random N              N random matmuls; the logarithms of their dimensions are "
	"uniform\n"
	"      --max M,K,N             their largest dimensions (default: 1024,16384,16384)\n"
	"      --seed N                seed of the random matmuls (default: 0)\n"
	"      --lane LIST             npu, gpu, cpu (default: npu)\n"
	"      --weights LIST          %s (default: w8a8)\n"
	"      --order LIST            the NPU's: stationary or streamed weights (default: "
	"stationary)\n"
	"  -o, --output FILE           the samples (default: stdout)\n"
	"\n"
	"fit\n"
	"      --lane NAME             lane of the samples (default: npu)\n"
	"      --folds N               folds of the cross-validation (default: 5)\n"
	"      --seed N                seed that draws the folds (default: 0)\n"
	"      --leaves NAME           constant, or linear: sums of terms of the shape (default: "
	"linear)\n"
	"      --max-depth N           splits above a leaf, 0 to 12; 0: one leaf (default: 12)\n"
	"      --min-samples N         least samples of a leaf (default: 10)\n"
	"      --tile M,K,N            tile that the engine takes at a time (default: 32,32,32)\n"
	"  -o, --output FILE           the model (default: none is written)\n";

/* The names of the types that a sample can have. */
static const char *weights_names(void)
{
	const struct llm_choice_info *info = llm_choice_info(LLM_CHOICE_WEIGHTS);
	static char names[128];
	size_t used = 0;

	for (unsigned int w = 0; w < info->n_values && used < sizeof(names); w++)
		if (w != LLM_WEIGHTS_AUTO)
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 used ? ", " : "", info->values[w].name);
	return names;
}

static int word_lane(const void *ud, const char *word, unsigned int *value)
{
	for (*value = 0; *value <= SOC_CPU; ++*value)
		if (!strcmp(word, soc_lane_name(*value)))
			return 0;
	return tool_usage("--lane: '%s' is none of npu, gpu, cpu", word);
}

static int word_weights(const void *ud, const char *word, unsigned int *value)
{
	int w = llm_choice_parse(LLM_CHOICE_WEIGHTS, word);

	if (w < 0 || w == LLM_WEIGHTS_AUTO)
		return tool_usage("--weights: '%s' is none of %s", word, weights_names());
	*value = (unsigned int)w;
	return 0;
}

static int word_order(const void *ud, const char *word, unsigned int *value)
{
	if (strcmp(word, "stationary") && strcmp(word, "streamed"))
		return tool_usage("--order: '%s' is none of stationary, streamed", word);
	*value = strcmp(word, "streamed") ? NPU_TIME_WEIGHTS_STATIONARY : NPU_TIME_WEIGHTS_STREAMED;
	return 0;
}

static int parse_three(const char *what, const char *s, unsigned int min, unsigned int max,
		       unsigned int v[3])
{
	struct range three = { 0 };
	int err = range_parse(&three, what, s, min, max);

	if (!err && three.n != 3)
		err = tool_usage("%s: '%s' is not three numbers, for rows, depth and columns", what,
				 s);
	for (int i = 0; i < 3 && !err; i++)
		v[i] = three.v[i];
	range_free(&three);
	return err;
}

static int parse_max(struct op_profile_random *r, const char *value)
{
	unsigned int max[3];
	int err = parse_three("--max", value, 1, OP_MAX_DIM, max);

	if (!err && (max[1] < OP_PROFILE_MIN_KN || max[2] < OP_PROFILE_MIN_KN))
		err = tool_usage("--max: depth and columns begin at %d", OP_PROFILE_MIN_KN);
	if (err)
		return err;
	r->max_m = max[0];
	r->max_k = max[1];
	r->max_n = max[2];
	return 0;
}

static int parse_leaves(struct predictor_options *fit, const char *value)
{
	for (fit->leaves = PREDICTOR_CONSTANT; fit->leaves <= PREDICTOR_LINEAR; fit->leaves++)
		if (!strcmp(value, predictor_leaves_name(fit->leaves)))
			return 0;
	return tool_usage("--leaves: '%s' is none of constant, linear", value);
}

static int parse_tile(struct predictor_options *fit, const char *value)
{
	unsigned int tile[3];
	int err = parse_three("--tile", value, 1, PREDICTOR_MAX_TILE, tile);

	if (err)
		return err;
	fit->tile_m = tile[0];
	fit->tile_k = tile[1];
	fit->tile_n = tile[2];
	return 0;
}

static int parse_fit(struct profile_args *a, int c, const char *value)
{
	switch (c) {
	case OPT_LEAVES:
		a->fit_given |= FIT_LEAVES;
		return parse_leaves(&a->fit, value);
	case OPT_MAX_DEPTH:
		a->fit_given |= FIT_MAX_DEPTH;
		return tool_parse_uint("--max-depth", value, 0, PREDICTOR_MAX_DEPTH,
				       &a->fit.max_depth);
	case OPT_MIN_SAMPLES:
		a->fit_given |= FIT_MIN_SAMPLES;
		return tool_parse_uint("--min-samples", value, 1, 1000000, &a->fit.min_samples);
	default:
		a->fit_given |= FIT_TILE;
		return parse_tile(&a->fit, value);
	}
}

static int parse_clock(struct profile_args *a, const char *value)
{
	const char *profile = NULL;
	int err = engine_parse_clock(value, &profile);

	a->wall = !profile;
	return err;
}

static int parse_option(struct profile_args *a, int c, const char *value)
{
	unsigned int n;
	int err;

	switch (c) {
	case 'o':
		a->out = value;
		return 0;
	case OPT_CLOCK:
		return parse_clock(a, value);
	case OPT_PROFILE:
		a->profile = value;
		return 0;
	case OPT_TRANSPORT:
		err = engine_setting_parse(ENGINE_TRANSPORT, value, &n);
		if (!err)
			a->device.transport = (enum npu_transport)n;
		return err;
	case OPT_NPU_THREADS:
		return tool_parse_uint("--npu-threads", value, 1, LLM_MAX_THREADS,
				       &a->device.threads);
	case OPT_SHAPE:
		a->shape = value;
		return 0;
	case OPT_ROWS:
		return range_parse(&a->rows, "--rows", value, 1, OP_MAX_DIM);
	case OPT_RANDOM:
		err = tool_parse_uint("--random", value, 1, 1000000, &n);
		a->random.n = err ? 0 : n;
		return err;
	case OPT_MAX:
		return parse_max(&a->random, value);
	case OPT_SEED:
		return tool_parse_u64("--seed", value, 0, UINT64_MAX, &a->seed);
	case OPT_LANE:
		return range_parse_words(&a->lanes, value, word_lane, NULL);
	case OPT_CHOICE + LLM_CHOICE_WEIGHTS:
		return range_parse_words(&a->weights, value, word_weights, NULL);
	case OPT_ORDER:
		return range_parse_words(&a->orders, value, word_order, NULL);
	case OPT_FOLDS:
		return tool_parse_uint("--folds", value, 2, 1000, &a->folds);
	default:
		return parse_fit(a, c, value);
	}
}

/* ---- verbs, and which options each of them takes ---- */

enum verb {
	MEASURE,
	FIT,
	PREDICT,
	CURVE,
	NR_VERBS,
};

static const struct option longopts[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "clock", required_argument, NULL, OPT_CLOCK },
	{ "profile", required_argument, NULL, OPT_PROFILE },
	{ "transport", required_argument, NULL, OPT_TRANSPORT },
	{ "npu-threads", required_argument, NULL, OPT_NPU_THREADS },
	{ "shape", required_argument, NULL, OPT_SHAPE },
	{ "rows", required_argument, NULL, OPT_ROWS },
	{ "random", required_argument, NULL, OPT_RANDOM },
	{ "max", required_argument, NULL, OPT_MAX },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "lane", required_argument, NULL, OPT_LANE },
	{ "weights", required_argument, NULL, OPT_CHOICE + LLM_CHOICE_WEIGHTS },
	{ "order", required_argument, NULL, OPT_ORDER },
	{ "folds", required_argument, NULL, OPT_FOLDS },
	{ "leaves", required_argument, NULL, OPT_LEAVES },
	{ "max-depth", required_argument, NULL, OPT_MAX_DEPTH },
	{ "min-samples", required_argument, NULL, OPT_MIN_SAMPLES },
	{ "tile", required_argument, NULL, OPT_TILE },
	{ 0 },
};

static const struct {
	const char *name, *operands;
	int nr_operands;
	int options[16]; /* 0 ends the list */
} verbs[NR_VERBS] = {
	[MEASURE] = { "measure",
		      "no operand",
		      0,
		      { 'o', OPT_CLOCK, OPT_PROFILE, OPT_TRANSPORT, OPT_NPU_THREADS, OPT_SHAPE,
			OPT_ROWS, OPT_RANDOM, OPT_MAX, OPT_SEED, OPT_LANE,
			OPT_CHOICE + LLM_CHOICE_WEIGHTS, OPT_ORDER } },
	[FIT] = { "fit",
		  "SAMPLES.csv",
		  1,
		  { 'o', OPT_LANE, OPT_FOLDS, OPT_SEED, OPT_LEAVES, OPT_MAX_DEPTH, OPT_MIN_SAMPLES,
		    OPT_TILE } },
	[PREDICT] = { "predict", "MODEL M K N", 4, { OPT_CHOICE + LLM_CHOICE_WEIGHTS, OPT_ORDER } },
	[CURVE] = { "curve", "stage, order or shape", 1, { 'o', OPT_PROFILE } },
};

static int check_option(enum verb verb, int c)
{
	for (const int *o = verbs[verb].options; *o; o++)
		if (*o == c)
			return 0;
	for (const struct option *o = longopts; o->name; o++)
		if (o->val == c)
			return tool_usage("--%s does not go with %s: --help lists the options",
					  o->name, verbs[verb].name);
	return 0;
}

/* getopt_long() moves operands to the end, so the verb is known only after the options, which are
 * therefore parsed twice. */
static int find_verb(int argc, char **argv, enum verb *verb, int *status)
{
	int c;

	*status = 0;
	while ((c = getopt_long(argc, argv, ":ho:", longopts, NULL)) != -1) {
		if (c == 'h' || c == OPT_HELP)
			printf(usage, weights_names());
		else if (c == OPT_VERSION)
			printf("npu-profile %s (%s)\n", VNPU_VERSION, tool_build_commit);
		else if (c == '?' || c == ':')
			*status = tool_bad_option(c, argv, longopts);
		else
			continue;
		return 1;
	}
	for (*verb = 0; optind < argc && *verb < NR_VERBS; ++*verb)
		if (!strcmp(argv[optind], verbs[*verb].name))
			return 0;
	*status =
		optind < argc
			? tool_usage("'%s': want measure, fit, predict or curve", argv[optind])
			: tool_usage("want measure, fit, predict or curve; see npu-profile --help");
	return 1;
}

static int parse(struct profile_args *a, enum verb verb, int argc, char **argv)
{
	int c, err = 0;

	optind = 0;
	while (!err && (c = getopt_long(argc, argv, ":ho:", longopts, NULL)) != -1)
		err = check_option(verb, c) ?: parse_option(a, c, optarg);
	if (!err && argc - optind - 1 != verbs[verb].nr_operands)
		err = tool_usage("%s takes %s; see npu-profile --help", verbs[verb].name,
				 verbs[verb].operands);
	return err;
}

static int run(const struct profile_args *a, enum verb verb, char **operands)
{
	switch (verb) {
	case MEASURE:
		return npu_profile_measure(a);
	case FIT:
		return npu_profile_fit(a, operands[0]);
	case PREDICT:
		return npu_profile_predict(a, operands[0], operands + 1);
	default:
		return npu_profile_curve(a, operands[0]);
	}
}

FILE *npu_profile_open(const char *path)
{
	FILE *f = path ? fopen(path, "we") : stdout;

	if (!f)
		tool_fail("%s: %s", path, strerror(errno));
	return f;
}

int npu_profile_close(FILE *f, const char *path, int status)
{
	bool failed;

	/* tool_finish() reports errors of stdout. */
	if (f == stdout)
		return status;
	failed = ferror(f);
	if ((fclose(f) || failed) && !status)
		return tool_fail("%s: %s: the file is not complete", path,
				 strerror(errno ? errno : EIO));
	return status;
}

int main(int argc, char **argv)
{
	struct profile_args args = {
		.random = { .max_m = 1024, .max_k = 16384, .max_n = 16384 },
		.folds = 5,
	};
	enum verb verb;
	int status;

	tool_begin("npu-profile");
	if (!find_verb(argc, argv, &verb, &status))
		status = parse(&args, verb, argc, argv) ?: run(&args, verb, argv + optind + 1);
	range_free(&args.rows);
	range_free(&args.lanes);
	range_free(&args.weights);
	range_free(&args.orders);
	return tool_finish(status);
}
