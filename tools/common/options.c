// SPDX-License-Identifier: MIT
/* Command lines as tables, and the options that all llm tools share: see options.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "progress.h"
#include "tool.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
/* For the engine 0 is the default, and a step of 1 none. */
#define LEAST_RATIO 0.001
#define LEAST_STEP 0.01f
#define MOST_STEP 0.99f

static const char *const transports[] = {
	[NPU_TRANSPORT_AUTO] = "auto",
	[NPU_TRANSPORT_DRM] = "drm",
	[NPU_TRANSPORT_SIM] = "sim",
	NULL,
};
static const char *const clocks[] = { "wall", "virtual", NULL };

/* OPT_CHOICE stands for all choices, in the order of their table. */
static const struct option_def engine_options[] = {
	{ 'm', "model", "FILE",
	  .doc = "the model: a GGUF file of an architecture that docs/models.md names, or the "
		 "first file of one that is split into several" },
	{ 't', "threads", "N",
	  .doc = "threads of the CPU lane (default: one per CPU allowed to the process, as "
		 "npu-info counts them)" },
	{ OPT_TRANSPORT, "transport", "NAME",
	  .doc = "how the NPU is reached: auto, drm (/dev/accel) or sim (in this process; default: "
		 "auto)\n"
		 "With drm it is the kernel driver's device, /dev/accel/accelN; sim runs the same "
		 "device inside the process, without driver or root; auto takes drm if there is a "
		 "usable node, else sim.",
	  .words = transports },
	{ OPT_NPU_THREADS, "npu-threads", "N",
	  .doc = "workers of a sim device (default: one per CPU)" },
	{ OPT_PRESET, "preset", "NAME",
	  .doc = "a name for some choices\n"
		 "Later options override single choices of it." },
	{ .code = OPT_CHOICE },
	{ OPT_CHUNK, "chunk", "N",
	  .doc = "tokens of the largest prefill graph (default: 256; gpu and layer: 2048)\n"
		 "Longer prompts are evaluated in chunks of that many tokens." },
	{ OPT_DECODE_WIDTH, "decode-width", "N",
	  .doc = "with --switching: tokens of decoding's graphs, a divisor of --chunk below it "
		 "(default: a quarter, or the next smaller divisor)\n"
		 "Passes of fewer tokens are padded to it." },
	{ OPT_BLOCK_LAYERS, "block-layers", "N",
	  .doc = "with --switching: layers of a block (default: 4)" },
	{ OPT_BITS, "bits", "AVERAGE",
	  .doc = "weights adaptive in a dry run: the average width, 1 to 8 (default: 5)\n"
		 "With w8a8: of a file that the CPU unpacks to INT8 (default: the file has 8)." },
	{ OPT_PRUNING, "pruning", "SHARE",
	  .doc = "activations static: the share of matmul inputs whose outliers are pruned, least "
		 "important ones first (default: as the file was calibrated)\n"
		 "From 0 to 1 (llm.npu 3.3). The file has no weights for what was pruned when it "
		 "was calibrated. The default of a dry run with --shape is 0.85." },
	{ OPT_PANELS_CACHE, "panels-cache", "GIB",
	  .doc = "keep the packed weights of cold starts beside their models, in FILE.*.panels of "
		 "at most GIB together (default: 0, none)\n"
		 "With start cold, of a file that is not packed. The first start with it makes "
		 "the file while nothing is evaluated, at the latest before the program ends, and "
		 "later ones use it without packing anything. Files that have not been used for "
		 "longest are removed for others." },
	{ OPT_RATIO, "ratio", "SHARE",
	  .doc = "attention sparse, block and shadow: the share of the keys that a query sees, on "
		 "average over heads (default: 0.2)\n"
		 "With sparse and shadow, heads that keep half or more have full attention." },
	{ OPT_SPARSE_FROM, "sparse-from", "N",
	  .doc = "chunks within the first N tokens have full attention (default: 1024)\n"
		 "There an estimate costs more than it saves. With 1, no chunk has." },
	{ OPT_SCALE_BUCKETS, "scale-buckets", "N",
	  .doc = "attention shadow and npu: pairs of scales that graphs are made for: 1, 9, 25, "
		 "49 or 81 (default: 9; shadowAttn 3.3)" },
	{ OPT_SCALE_STEP, "scale-step", "FACTOR",
	  .doc = "the factor from one scale to the next, below 1 (default: 0.5)" },
	{ OPT_CLOCK, "clock", "CLOCK",
	  .doc = "clock of all times: wall, or virtual, which models a phone's SoC (default: "
		 "wall)\n"
		 "Results are the same on both.",
	  .words = clocks },
	{ OPT_PROFILE, "profile", "NAME",
	  .doc = "that SoC: a name in share/profiles, or a file (default: sd8gen3); implies "
		 "--clock virtual" },
	{ OPT_GPU, "gpu", "NAME",
	  .doc = "the OpenCL device, by number or part of its name, or host: the CPU lane instead "
		 "(default: the first GPU)\n"
		 "Numbers are those of npu-info(1), names the platform's and the device's. The "
		 "default is VNPU_OPENCL, else the first GPU, else the first device." },
	{ OPT_PREDICTOR, "predictor", "FILE[,FILE]",
	  .doc = "files of npu-profile that predict matmuls on the NPU, and on the GPU; placement "
		 "layer cuts by them\n"
		 "Each file says which lane it predicts; one is enough. With other placements they "
		 "give the times of matmuls on the virtual clock's lanes." },
	{ OPT_CUTS_PROFILE, "cuts-profile", "NAME",
	  .doc = "on the wall clock, the profile of this machine that matmuls are cut for "
		 "(default: host)" },
	{ OPT_LIST_DEVICES, "list-devices", NULL,
	  .doc = "list the transports' devices, or why one cannot be used, and exit" },
	{ 'h', "help", NULL, .doc = "this help" },
	{ OPT_VERSION, "version", NULL, .doc = "the version" },
};

/* ---- tables ---- */

static struct option_def choice_def(enum llm_choice choice)
{
	const struct llm_choice_info *info = llm_choice_info(choice);

	return (struct option_def){ OPT_CHOICE + (int)choice, info->name, "NAME",
				    .doc = info->doc };
}

static const struct option_def *find_code(const struct option_def *options, size_t n, int code)
{
	for (size_t i = 0; i < n && options[i].code; i++)
		if (options[i].code == code)
			return &options[i];
	return NULL;
}

size_t options_all(const struct option_set *set, struct option_def all[OPTIONS_MAX], size_t *n_own)
{
	size_t n = 0;

	for (const struct option_def *o = set->options; o->code; o++)
		if (!find_code(engine_options, COUNT(engine_options), o->code))
			all[n++] = *o;
	*n_own = n;
	for (size_t i = 0; i < COUNT(engine_options); i++) {
		const struct option_def *own =
			find_code(set->options, OPTIONS_MAX, engine_options[i].code);

		if (set->alone && !own && engine_options[i].code != 'h' &&
		    engine_options[i].code != OPT_VERSION)
			continue;
		if (engine_options[i].code != OPT_CHOICE) {
			all[n++] = own ? *own : engine_options[i];
			continue;
		}
		for (enum llm_choice c = 0; c < LLM_NR_CHOICES; c++)
			all[n++] = choice_def(c);
	}
	for (size_t i = *n_own; i < n && set->lists; i++)
		if (engine_setting(all[i].code) >= 0 || all[i].code == OPT_PRESET)
			all[i].arg = "LIST";
	return n;
}

const char *options_word(const struct option_def *o, unsigned int i)
{
	if (o->code >= OPT_CHOICE && o->code < OPT_CHOICE + LLM_NR_CHOICES) {
		const struct llm_choice_info *info =
			llm_choice_info((enum llm_choice)(o->code - OPT_CHOICE));

		return i < info->n_values ? info->values[i].name : NULL;
	}
	if (o->code == OPT_PRESET) {
		unsigned int n = 0;

		while (llm_preset(n))
			n++;
		if (i < n)
			return llm_preset(i)->name;
		i -= n;
	}
	for (unsigned int w = 0; o->words && o->words[w]; w++)
		if (w == i)
			return o->words[w];
	return NULL;
}

int options_find_word(const char *what, const char *const *words, const char *value)
{
	char list[256] = "";

	for (int i = 0; words[i]; i++) {
		size_t used = strlen(list);

		if (!strcmp(words[i], value))
			return i;
		snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", words[i]);
	}
	tool_usage("%s: '%s' is none of %s", what, value, list);
	return -1;
}

/* ---- settings ---- */

/* The settings that are numbers. */
static const struct {
	const char *option;
	size_t offset; /* of an unsigned int in struct llm_options */
	unsigned int max;
} numbers[ENGINE_NR_SETTINGS] = {
	[ENGINE_CHUNK] = { "--chunk", offsetof(struct llm_options, chunk), LLM_MAX_CHUNK },
	[ENGINE_DECODE_WIDTH] = { "--decode-width", offsetof(struct llm_options, decode_width),
				  LLM_MAX_CHUNK },
	[ENGINE_BLOCK_LAYERS] = { "--block-layers", offsetof(struct llm_options, block_layers),
				  LLM_MAX_CHUNK },
	[ENGINE_NPU_THREADS] = { "--npu-threads", offsetof(struct llm_options, device.threads),
				 LLM_MAX_THREADS },
	[ENGINE_THREADS] = { "-t", offsetof(struct llm_options, threads), LLM_MAX_THREADS },
};

static bool setting_is_choice(enum engine_setting setting)
{
	return setting >= ENGINE_CHOICE && setting < ENGINE_CHOICE + LLM_NR_CHOICES;
}

static enum llm_choice setting_choice(enum engine_setting setting)
{
	return (enum llm_choice)(setting - ENGINE_CHOICE);
}

int engine_setting(int c)
{
	if (c >= OPT_CHOICE && c < OPT_CHOICE + LLM_NR_CHOICES)
		return ENGINE_CHOICE + c - OPT_CHOICE;
	switch (c) {
	case OPT_TRANSPORT:
		return ENGINE_TRANSPORT;
	case OPT_CHUNK:
		return ENGINE_CHUNK;
	case OPT_DECODE_WIDTH:
		return ENGINE_DECODE_WIDTH;
	case OPT_BLOCK_LAYERS:
		return ENGINE_BLOCK_LAYERS;
	case OPT_NPU_THREADS:
		return ENGINE_NPU_THREADS;
	case 't':
		return ENGINE_THREADS;
	}
	return -1;
}

int engine_setting_parse(enum engine_setting setting, const char *value, unsigned int *parsed)
{
	int v;

	if (numbers[setting].option)
		return tool_parse_uint(numbers[setting].option, value, 1, numbers[setting].max,
				       parsed);
	if (setting_is_choice(setting)) {
		v = llm_choice_parse(setting_choice(setting), value);
		if (v < 0)
			return tool_usage("--%s", llm_error());
	} else {
		v = options_find_word("--transport", transports, value);
		if (v < 0)
			return 2;
	}
	*parsed = (unsigned int)v;
	return 0;
}

static int parse_word(const void *ud, const char *word, unsigned int *value)
{
	return engine_setting_parse(*(const enum engine_setting *)ud, word, value);
}

int engine_setting_parse_list(enum engine_setting setting, const char *values, struct range *list)
{
	if (numbers[setting].option)
		return range_parse(list, numbers[setting].option, values, 1, numbers[setting].max);
	return range_parse_words(list, values, parse_word, &setting);
}

void engine_setting_apply(struct llm_options *opts, enum engine_setting setting, unsigned int value)
{
	if (numbers[setting].option)
		memcpy((char *)opts + numbers[setting].offset, &value, sizeof(value));
	else if (setting_is_choice(setting))
		llm_choices_set(&opts->choices, setting_choice(setting), value);
	else
		opts->device.transport = (enum npu_transport)value;
}

/* ---- the shared options ---- */

const char *engine_transport_name(enum npu_transport transport)
{
	return (size_t)transport < COUNT(transports) - 1 ? transports[transport] : "unknown";
}

int engine_parse_clock(const char *name, const char **profile)
{
	int clock = options_find_word("--clock", clocks, name);

	if (clock < 0)
		return 2;
	if (!clock)
		*profile = NULL;
	else if (!*profile)
		*profile = "sd8gen3";
	return 0;
}

static int parse_preset(const char *name, struct llm_choices *choices)
{
	int preset = llm_preset_parse(name);

	if (preset < 0)
		return tool_usage("--%s", llm_error());
	llm_preset_apply(llm_preset((unsigned int)preset), choices);
	return 0;
}

static int parse_gib(const char *what, const char *value, uint64_t *bytes)
{
	double gib = 0;
	int err = tool_parse_double(what, value, 0, 1 << 20, &gib);

	*bytes = (uint64_t)(gib * (1 << 30));
	return err;
}

int engine_option(struct llm_options *opts, int c, const char *value)
{
	int setting = engine_setting(c), err;
	unsigned int parsed;

	if (setting >= 0) {
		err = engine_setting_parse((enum engine_setting)setting, value, &parsed);
		if (!err)
			engine_setting_apply(opts, (enum engine_setting)setting, parsed);
		return err;
	}
	switch (c) {
	case 'm':
		opts->model = value;
		return 0;
	case OPT_CLOCK:
		return engine_parse_clock(value, &opts->profile);
	case OPT_PROFILE:
		opts->profile = value;
		return 0;
	case OPT_GPU:
		opts->gpu = value;
		return 0;
	case OPT_PREDICTOR:
		opts->predictor = value;
		return 0;
	case OPT_CUTS_PROFILE:
		opts->cuts_profile = value;
		return 0;
	case OPT_BITS:
		return tool_parse_float("--bits", value, 1, 8, &opts->bits);
	case OPT_PRUNING:
		err = tool_parse_float("--pruning", value, 0, 1, &opts->pruning);
		/* For the engine 0 is the default. */
		opts->pruning = opts->pruning > 0 ? opts->pruning : -1;
		return err;
	case OPT_PANELS_CACHE:
		return parse_gib("--panels-cache", value, &opts->panels_cache_bytes);
	case OPT_RATIO:
		return tool_parse_double("--ratio", value, LEAST_RATIO, 1, &opts->ratio);
	case OPT_SPARSE_FROM:
		return tool_parse_uint("--sparse-from", value, 1, UINT32_MAX, &opts->sparse_from);
	case OPT_SCALE_BUCKETS:
		return tool_parse_uint("--scale-buckets", value, 1, LLM_MAX_SCALE_BUCKETS,
				       &opts->scale_buckets);
	case OPT_SCALE_STEP:
		return tool_parse_float("--scale-step", value, LEAST_STEP, MOST_STEP,
					&opts->scale_step);
	case OPT_PRESET:
		return parse_preset(value, &opts->choices);
	}
	return 0;
}

/* Once, however many engines are opened. */
static void warn_vocab(const struct llm_engine *engine)
{
	static const char *last;
	const char *line = llm_engine_info(engine)->vocab_warning;

	if (line && line != last)
		fprintf(stderr, "%s: warning: %s\n", tool_name, line);
	last = line ? line : last;
}

int engine_parse_ctx(const char *value, unsigned int min, unsigned int *n_ctx)
{
	uint64_t v;
	char *end;

	v = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || v >= UINT32_MAX || (v && v < min))
		return tool_usage("-c: '%s' is neither 0, as many as the model was trained with, "
				  "nor a number from %u to %u",
				  value, min, UINT32_MAX - 1);
	*n_ctx = v ? (unsigned int)v : ENGINE_CTX_TRAINED;
	return 0;
}

unsigned int engine_ctx(const struct llm_engine *engine, unsigned int n_ctx)
{
	return n_ctx == ENGINE_CTX_TRAINED ? llm_engine_info(engine)->n_ctx_train : n_ctx;
}

int engine_session(struct llm_engine *engine, unsigned int n_ctx, struct llm_session **s)
{
	const struct llm_engine_info *info = llm_engine_info(engine);

	if (llm_session_create(engine, engine_ctx(engine, n_ctx), s))
		return tool_fail("%s", llm_error());
	if (llm_session_n_ctx(*s) > info->n_ctx_covered)
		fprintf(stderr,
			"%s: warning: -c %u: the model was trained with contexts of %" PRIu64
			" tokens, and predicts badly beyond them\n",
			tool_name, llm_session_n_ctx(*s), info->n_ctx_covered);
	return 0;
}

int engine_try_open(struct llm_options *opts, struct llm_engine **engine)
{
	int err;

	opts->progress = progress_load;
	err = llm_engine_open(opts, engine);
	progress_clear();
	if (!err)
		warn_vocab(*engine);
	return err;
}

int engine_open(struct llm_options *opts, struct llm_engine **engine)
{
	if (!opts->model && !opts->shape)
		return tool_usage("no model: give one with -m FILE");
	if (llm_options_check(opts))
		return tool_usage("%s", llm_error());
	if (engine_refuse_unused(engine_unused(opts)))
		return 2;
	return engine_try_open(opts, engine) ? tool_fail("%s", llm_error()) : 0;
}

void engine_close(struct llm_engine *engine)
{
	static char last[sizeof(((struct llm_panels_cache *)NULL)->why)];
	struct llm_panels_cache cache;

	if (!engine)
		return;
	llm_engine_panels_cache(engine, true, &cache);
	if (cache.state == LLM_PANELS_FAILED && strcmp(cache.why, last) != 0) {
		fprintf(stderr, "%s: warning: %s\n", tool_name, cache.why);
		strcpy(last, cache.why);
	}
	llm_engine_close(engine);
}

static int list_device(enum npu_transport transport, const char *path)
{
	struct npu_device_options opts = { .transport = transport, .path = path };
	const struct npu_device_info *info;
	struct npu_device *dev;
	int err = npu_device_open(&opts, &dev);

	if (err) {
		printf("%-9s  not usable: %s\n", engine_transport_name(transport), npu_error());
		return err;
	}
	info = npu_device_info(dev);
	printf("%-9s  %-19s  %s, ISA %u.%u, %.0f MiB at most\n", engine_transport_name(transport),
	       transport == NPU_TRANSPORT_DRM ? info->path : "(in this process)", info->name,
	       info->isa_version >> 16, info->isa_version & 0xffff,
	       (double)info->mem_limit_bytes / (1 << 20));
	npu_device_close(dev);
	return 0;
}

int engine_list_devices(void)
{
	char path[32];
	unsigned int nodes = 0;

	for (unsigned int i = 0; i < 64; i++) {
		snprintf(path, sizeof(path), "/dev/accel/accel%u", i);
		if (access(path, F_OK))
			continue;
		nodes++;
		/* For accelerators of other vendors, the line says why they cannot be used. */
		list_device(NPU_TRANSPORT_DRM, path);
	}
	if (!nodes)
		list_device(NPU_TRANSPORT_DRM, NULL);
	return list_device(NPU_TRANSPORT_SIM, NULL) ? 1 : 0;
}
