// SPDX-License-Identifier: MIT
#include "sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "escapes.h"
#include "tool.h"

#define CONTEXT (-1)

static const char *const default_breaks[] = { "\n", ":", "\"", "*" };

const struct sampling sampling_default = {
	.opts = { .temperature = 0.8f,
		  .top_k = 40,
		  .top_p = 0.95f,
		  .min_p = 0.05f,
		  .xtc_threshold = 0.1f },
	.repeat_last_n = LLM_PENALTY_LAST_N,
	.dry_last_n = CONTEXT,
};

/* Options that are a number of struct llm_sampler_options. */
static const struct number {
	int code;
	const char *name;
	float min, max;
	size_t at;
} numbers[] = {
#define AT(field) offsetof(struct llm_sampler_options, field)
	{ OPT_TEMP, "--temp", 0, 1000, AT(temperature) },
	{ OPT_TOP_P, "--top-p", 0, 1, AT(top_p) },
	{ OPT_MIN_P, "--min-p", 0, 1, AT(min_p) },
	{ OPT_TOP_N_SIGMA, "--top-nsigma", -1, 1000, AT(top_n_sigma) },
	{ OPT_TYPICAL, "--typical", 0, 1, AT(typical_p) },
	{ OPT_XTC_PROBABILITY, "--xtc-probability", 0, 1, AT(xtc_probability) },
	{ OPT_XTC_THRESHOLD, "--xtc-threshold", 0, 1, AT(xtc_threshold) },
	{ OPT_DYNATEMP_RANGE, "--dynatemp-range", 0, 1000, AT(temperature_range) },
	{ OPT_DYNATEMP_EXP, "--dynatemp-exp", 0, 1000, AT(temperature_exponent) },
	{ OPT_REPEAT_PENALTY, "--repeat-penalty", 0.01f, 100, AT(repeat_penalty) },
	{ OPT_PRESENCE_PENALTY, "--presence-penalty", -100, 100, AT(presence_penalty) },
	{ OPT_FREQUENCY_PENALTY, "--frequency-penalty", -100, 100, AT(frequency_penalty) },
	{ OPT_DRY_MULTIPLIER, "--dry-multiplier", 0, 1000, AT(dry.multiplier) },
	{ OPT_DRY_BASE, "--dry-base", 1, 1000, AT(dry.base) },
	{ OPT_MIROSTAT_LR, "--mirostat-lr", 0.0001f, 100, AT(mirostat_eta) },
	{ OPT_MIROSTAT_ENT, "--mirostat-ent", 0.01f, 100, AT(mirostat_tau) },
#undef AT
};
#define NR_NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

bool sampling_is_option(int c)
{
	return c == OPT_LOGIT_BIAS || c == OPT_JSON_SCHEMA ||
	       (c >= OPT_SAMPLING && c <= OPT_JSON_SCHEMA_FILE);
}

/* ---- values ---- */

static int parse_last_n(const char *what, const char *value, int *n)
{
	unsigned int parsed;
	int err;

	if (!strcmp(value, "-1")) {
		*n = CONTEXT;
		return 0;
	}
	err = tool_parse_uint(what, value, 0, INT32_MAX, &parsed);
	if (!err)
		*n = (int)parsed;
	return err;
}

static int parse_top_k(const char *value, int *top_k)
{
	unsigned int parsed;
	/* As in llama.cpp, off too. */
	int err = tool_parse_uint("--top-k", strcmp(value, "-1") ? value : "0", 0, INT32_MAX,
				  &parsed);

	if (!err)
		*top_k = (int)parsed;
	return err;
}

/* ID+X or ID-X */
static int parse_bias(const char *value, struct llm_logit_bias *bias)
{
	const char *sign = value + strspn(value, "0123456789");
	char *end = NULL;
	unsigned long id = strtoul(value, NULL, 10);
	float x = 0;

	if (sign > value && (*sign == '+' || *sign == '-') && !strchr(" +-", sign[1]))
		x = strtof(sign + 1, &end);
	if (!end || *end || isnan(x) || x < 0 || (*sign == '+' && isinf(x)) || id > INT32_MAX)
		return tool_usage("-l: '%s' is not ID+X or ID-X, such as 15043-1 or 15043-inf",
				  value);
	*bias = (struct llm_logit_bias){ (int32_t)id, *sign == '+' ? x : -x };
	return 0;
}

static int add_bias(struct sampling *s, const char *value)
{
	size_t n = s->opts.nr_biases;
	struct llm_logit_bias *grown = realloc(s->biases, (n + 1) * sizeof(*grown));
	int err;

	if (!grown)
		return tool_fail("out of memory");
	s->biases = grown;
	s->opts.biases = grown;
	err = parse_bias(value, &grown[n]);
	s->opts.nr_biases += !err;
	return err;
}

static int add_break(struct sampling *s, const char *value)
{
	size_t n = s->opts.dry.nr_breaks, bytes;
	const char **grown;
	char *text;

	s->own_breaks = true;
	if (!strcmp(value, "none"))
		return 0;
	grown = realloc(s->breaks, (n + 1) * sizeof(*grown));
	if (!grown)
		return tool_fail("out of memory");
	s->breaks = grown;
	s->opts.dry.breaks = grown;
	text = escapes_decode(value, &bytes);
	if (!text)
		return 1;
	if (!bytes || bytes > LLM_DRY_BREAK_BYTES || strlen(text) < bytes) {
		free(text);
		return tool_usage("--dry-sequence-breaker: '%s' is not 1 to %d bytes without NUL",
				  value, LLM_DRY_BREAK_BYTES);
	}
	grown[n] = text;
	s->opts.dry.nr_breaks++;
	return 0;
}

/* A grammar or a schema; the last one that was given counts. Errors are llm_grammar_check()'s. */
static int set_text(struct sampling *s, const char *text, bool is_schema)
{
	s->opts.grammar = is_schema ? NULL : text;
	s->opts.json_schema = is_schema ? text : NULL;
	return llm_grammar_check(s->opts.grammar, s->opts.json_schema);
}

static int set_argument(struct sampling *s, const char *value, bool is_schema)
{
	s->file = NULL;
	if (set_text(s, value, is_schema))
		return tool_usage("%s", llm_error());
	return 0;
}

int sampling_read(struct sampling *s)
{
	size_t bytes;

	if (!s->file)
		return 0;
	s->text = tool_read_file(s->file, &bytes);
	if (!s->text)
		return 1;
	if (strlen(s->text) < bytes)
		return tool_fail("%s: it has a NUL byte", s->file);
	if (set_text(s, s->text, s->file_is_schema))
		return tool_fail("%s: %s", s->file, llm_error());
	return 0;
}

int sampling_option(struct sampling *s, int c, const char *value)
{
	struct llm_sampler_options *o = &s->opts;

	for (size_t i = 0; i < NR_NUMBERS; i++)
		if (numbers[i].code == c)
			return tool_parse_float(numbers[i].name, value, numbers[i].min,
						numbers[i].max,
						(float *)((char *)o + numbers[i].at));
	switch (c) {
	case OPT_TOP_K:
		return parse_top_k(value, &o->top_k);
	case OPT_SEED:
		return tool_parse_seed("--seed", value, &o->seed);
	case OPT_REPEAT_LAST_N:
		return parse_last_n("--repeat-last-n", value, &s->repeat_last_n);
	case OPT_DRY_LAST_N:
		return parse_last_n("--dry-penalty-last-n", value, &s->dry_last_n);
	case OPT_DRY_ALLOWED_LENGTH:
		return tool_parse_uint("--dry-allowed-length", value, 1, UINT32_MAX,
				       &o->dry.allowed_length);
	case OPT_DRY_BREAKER:
		return add_break(s, value);
	case OPT_MIROSTAT:
		return tool_parse_uint("--mirostat", value, 0, 2, &o->mirostat);
	case OPT_LOGIT_BIAS:
		return add_bias(s, value);
	case OPT_GRAMMAR:
	case OPT_JSON_SCHEMA:
		return set_argument(s, value, c == OPT_JSON_SCHEMA);
	default:
		s->file = value;
		s->file_is_schema = c == OPT_JSON_SCHEMA_FILE;
		return 0;
	}
}

/* ---- the sampler ---- */

/* How far penalties look back; 0 turns them off. */
static void set_lengths(const struct sampling *s, unsigned int n_ctx, struct llm_sampler_options *o)
{
	o->penalty_last_n = s->repeat_last_n < 0 ? n_ctx : (unsigned int)s->repeat_last_n;
	if (!o->penalty_last_n)
		o->repeat_penalty = o->presence_penalty = o->frequency_penalty = 0;
	o->dry.last_n = s->dry_last_n < 0 ? n_ctx : (unsigned int)s->dry_last_n;
	if (!o->dry.last_n)
		o->dry.multiplier = 0;
}

int sampling_create(const struct sampling *s, struct llm_engine *engine, unsigned int n_ctx,
		    struct llm_sampler **sampler)
{
	struct llm_sampler_options o = s->opts;

	set_lengths(s, n_ctx, &o);
	if (!s->own_breaks) {
		o.dry.breaks = default_breaks;
		o.dry.nr_breaks = sizeof(default_breaks) / sizeof(default_breaks[0]);
	}
	o.engine = engine;
	if (llm_sampler_create(&o, llm_engine_info(engine)->n_vocab, sampler))
		return tool_fail("%s", llm_error());
	return 0;
}

void sampling_free(struct sampling *s)
{
	free(s->biases);
	for (size_t i = 0; s->own_breaks && i < s->opts.dry.nr_breaks; i++)
		free((char *)s->breaks[i]);
	free(s->breaks);
	free(s->text);
}
