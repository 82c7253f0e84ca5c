// SPDX-License-Identifier: MIT
/*
 * The parts of a sampler together, against a reference; what they remember; and grammars with the
 * embedded model. TEST_SEED=N repeats a run.
 */
#include <errno.h>
#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <cmocka.h>

#include "dry.h"
#include "llm.h"
#include "llm_open.h"
#include "sampler_reference.h"

static uint64_t test_state;

static struct llm_sampler *create(const struct llm_sampler_options *o, unsigned int n_vocab)
{
	struct llm_sampler *s;

	if (llm_sampler_create(o, n_vocab, &s))
		fail_msg("%s", llm_error());
	return s;
}

/* splitmix64 */
static uint64_t mix(void)
{
	uint64_t z = test_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static double uniform(void)
{
	return (double)(mix() >> 11) * 0x1p-53;
}

static unsigned int one_of(unsigned int n)
{
	return (unsigned int)(mix() % n);
}

/* ---- the reference's tokens ---- */

#define NR_BIASES 3
#define SOME(...) \
	((const float[]){ __VA_ARGS__ }[one_of(sizeof((const float[]){ __VA_ARGS__ }) / 4)])

static struct llm_dry some_dry(void)
{
	if (one_of(2))
		return (struct llm_dry){ 0 };
	return (struct llm_dry){
		.multiplier = SOME(0.5f, 2, 20),
		.base = SOME(0, 1, 3),
		.allowed_length = one_of(4),
		.last_n = one_of(2) ? 0 : 1 + one_of(30),
	};
}

static struct llm_sampler_options some_options(struct llm_logit_bias *biases)
{
	return (struct llm_sampler_options){
		.temperature = one_of(8) ? SOME(1, 1, 0.7f, 2) : 0,
		.top_k = one_of(2) ? 0 : (int)one_of(100),
		.top_p = SOME(1, 1, 0.5f, 0.9f),
		.min_p = SOME(0, 0, 0.05f, 0.3f),
		.seed = one_of(1000),
		.top_n_sigma = SOME(0, 0, 0, 1, 2.5f),
		.typical_p = SOME(0, 0, 0, 1, 0.3f, 0.9f),
		.xtc_probability = SOME(0, 0, 0.5f, 1),
		.xtc_threshold = SOME(0.02f, 0.1f, 0.4f, 0.6f),
		.temperature_range = SOME(0, 0, 0.5f, 3),
		.temperature_exponent = SOME(0, 1, 2),
		.mirostat = one_of(4) ? 0 : 1 + one_of(2),
		.mirostat_tau = SOME(0, 1, 3, 8),
		.mirostat_eta = SOME(0, 0.3f),
		.repeat_penalty = SOME(0, 1, 1.2f, 0.8f),
		.presence_penalty = SOME(0, 0, 0.5f, -0.5f),
		.frequency_penalty = SOME(0, 0, 0.3f),
		.penalty_last_n = one_of(2) ? 0 : 1 + one_of(30),
		.dry = some_dry(),
		.biases = biases,
		.nr_biases = one_of(2) ? 0 : one_of(NR_BIASES + 1),
	};
}

static float logit(unsigned int shape)
{
	double normal = sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());

	switch (shape) {
	case 0:
		return (float)(2 * normal);
	case 1: /* like a model's: few are likely */
		return (float)(uniform() < 3e-3 ? 9 + 2 * normal : 2 * normal);
	case 2: /* some are not to be drawn */
		return one_of(5) ? (float)normal : -INFINITY;
	default:
		return (float)(0.3 * normal);
	}
}

static void print_options(const struct llm_sampler_options *o)
{
	print_message(
		"temperature %g (%g, %g), top_k %d, top_p %g, min_p %g, sigma %g, typical %g, "
		"xtc %g %g, mirostat %u %g %g, penalties %g %g %g (%u), dry %g %g %u %u, "
		"%zu biases, seed %llu\n",
		(double)o->temperature, (double)o->temperature_range,
		(double)o->temperature_exponent, o->top_k, (double)o->top_p, (double)o->min_p,
		(double)o->top_n_sigma, (double)o->typical_p, (double)o->xtc_probability,
		(double)o->xtc_threshold, o->mirostat, (double)o->mirostat_tau,
		(double)o->mirostat_eta, (double)o->repeat_penalty, (double)o->presence_penalty,
		(double)o->frequency_penalty, o->penalty_last_n, (double)o->dry.multiplier,
		(double)o->dry.base, o->dry.allowed_length, o->dry.last_n, o->nr_biases,
		(unsigned long long)o->seed);
}

/* Prompts of few different tokens repeat themselves. */
static void some_prompt(struct llm_sampler *s, struct reference *r, unsigned int n_vocab)
{
	int32_t ids[60];
	size_t n = one_of(61);

	for (size_t i = 0; i < n; i++) {
		ids[i] = (int32_t)one_of(n_vocab < 3 ? n_vocab : 3);
		reference_add(r, ids[i]);
	}
	llm_sampler_prompt(s, ids, n);
}

/* Returns how many of the draws are not the reference's. */
static unsigned int compare(unsigned int n, unsigned int draws)
{
	struct llm_logit_bias biases[NR_BIASES];
	struct llm_sampler_options o = some_options(biases);
	float *logits = malloc(n * sizeof(*logits));
	unsigned int shape = one_of(4), others = 0;
	struct llm_sampler *s;
	struct reference r;

	for (int i = 0; i < NR_BIASES; i++)
		biases[i] = (struct llm_logit_bias){ (int32_t)one_of(n - 1),
						     SOME(-INFINITY, 1.5f, -2, 30) };
	s = create(&o, n);
	reference_init(&r, &o, n);
	some_prompt(s, &r, n);
	for (unsigned int i = 0; i < draws; i++) {
		int32_t got, want;

		for (unsigned int id = 0; id < n; id++)
			logits[id] = logit(shape);
		logits[n - 1] = 1;
		got = llm_sample(s, logits);
		want = reference_sample(&r, logits);
		assert_in_range(got, 0, n - 1);
		if (got != want && !others++) {
			print_message("%u tokens, draw %u: %d, not %d: ", n, i, got, want);
			print_options(&o);
		}
		reference_accept(&r, got);
	}
	llm_sampler_free(s);
	reference_fini(&r);
	free(logits);
	return others;
}

/* Rounding may decide otherwise where two tokens are equally likely, or a sum is just reached. */
static void test_tokens_are_those_of_a_reference(void **state)
{
	unsigned int others = 0;

	for (int i = 0; i < 3000; i++)
		others += compare(2 + one_of(i % 3 ? 30 : 3000), 12) > 0;
	print_message("%u of 3000 samplers drew another token\n", others);
	assert_true(others <= 3);
}

/* ---- what changes logits ---- */

static void test_a_bias_rules_a_token_out_or_in(void **state)
{
	const float logits[] = { 3, 2, 1 };
	const struct llm_logit_bias biases[] = { { 0, -INFINITY }, { 2, 1.5f } };
	struct llm_sampler_options o = { .top_p = 1, .biases = biases, .nr_biases = 2 };
	struct llm_sampler *s = create(&o, 3);

	assert_int_equal(llm_sample(s, logits), 2);
	llm_sampler_free(s);
	o.temperature = 1;
	s = create(&o, 3);
	for (int i = 0; i < 300; i++)
		assert_int_not_equal(llm_sample(s, logits), 0);
	llm_sampler_free(s);
}

static void test_prompts_count_until_a_reset(void **state)
{
	const float logits[] = { 3, 2, 1 };
	const int32_t prompt[] = { 0, 7, -1 };
	struct llm_sampler_options o = { .top_p = 1, .presence_penalty = 1.5f };
	struct llm_sampler *s = create(&o, 3);

	assert_int_equal(llm_sample(s, logits), 0);
	assert_int_equal(llm_sample(s, logits), 1);
	llm_sampler_reset(s);
	/* Ids that the vocabulary lacks do not. */
	llm_sampler_prompt(s, prompt, 3);
	assert_int_equal(llm_sample(s, logits), 1);
	llm_sampler_free(s);
}

static void test_a_reset_repeats_the_draws(void **state)
{
	const struct llm_sampler_options o = { .temperature = 1,
					       .top_p = 1,
					       .mirostat = 2,
					       .frequency_penalty = 0.2f,
					       .seed = 4,
					       .dry = { .multiplier = 1 } };
	struct llm_sampler *s = create(&o, 16);
	float logits[16] = { 1, 2, 0, 3 };
	int32_t first[50];

	for (int i = 0; i < 50; i++)
		first[i] = llm_sample(s, logits);
	llm_sampler_reset(s);
	for (int i = 0; i < 50; i++)
		assert_int_equal(llm_sample(s, logits), first[i]);
	llm_sampler_free(s);
}

/* ---- DRY's breaks ---- */

static const char *const words[] = { "a", "b", ":", "c\n", "x<", "br>" };

static int word_text(const void *ud, int32_t id, char *buf, size_t max)
{
	memcpy(buf, words[id], strlen(words[id]));
	return (int)strlen(words[id]);
}

static bool no_end(const void *ud, int32_t id)
{
	return false;
}

/* The logit that DRY leaves of token @id of those words after a text. */
static float after(const int32_t *text, size_t n, int32_t id)
{
	static const char *const breaks[] = { ":", "\n", "<br>" };
	const struct pieces_source source = { 6, word_text, no_end, NULL };
	const struct llm_dry o = { .multiplier = 1, .breaks = breaks, .nr_breaks = 3 };
	float logits[6] = { 0 };
	struct pieces *pieces;
	struct recent recent;
	struct dry dry;

	assert_int_equal(pieces_create(&source, &pieces), 0);
	assert_int_equal(recent_init(&recent, 100), 0);
	assert_int_equal(dry_init(&dry, &o, pieces, 6), 0);
	for (size_t i = 0; i < n; i++) {
		recent_add(&recent, text[i]);
		dry_add(&dry, text[i]);
	}
	dry_apply(&dry, &recent, logits);
	dry_fini(&dry);
	recent_fini(&recent);
	pieces_free(pieces);
	return logits[id];
}

static void test_repetitions_do_not_cross_a_break(void **state)
{
	assert_true(after((const int32_t[]){ 0, 1, 0, 1, 0, 1 }, 6, 0) < 0);
	/* Of "a b : a b", only "a b" is repeated, whatever was before. */
	assert_true(after((const int32_t[]){ 0, 0, 2, 0, 1, 0, 0, 2, 0, 1 }, 10, 0) == -1);
	assert_true(after((const int32_t[]){ 0, 1, 2, 0, 1, 2 }, 6, 0) == 0);
	/* A break within a token, and one that two tokens make. */
	assert_true(after((const int32_t[]){ 1, 3, 0, 1, 3, 0 }, 6, 1) == 0);
	assert_true(after((const int32_t[]){ 1, 4, 5, 0, 1, 4, 5, 0 }, 8, 1) == 0);
	assert_true(after((const int32_t[]){ 1, 5, 0, 1, 5, 0 }, 6, 1) < 0);
	/* Tokens that contain one are free. */
	assert_true(after((const int32_t[]){ 0, 1, 2, 0, 1 }, 5, 2) == 0);
}

/* ---- grammars ---- */

static struct llm_engine *engine;

static int open_model(void **state)
{
	engine = open_engine(&(struct llm_options){
		.model = "share/models/docs6m/docs6m-q8_0.gguf",
		.choices = { .placement = LLM_PLACE_CPU },
	});
	return 0;
}

static int close_model(void **state)
{
	llm_engine_close(engine);
	return 0;
}

struct text {
	char bytes[4096];
	size_t n;
};

static int append(void *ud, const struct llm_generated *token)
{
	struct text *t = ud;

	assert_in_range(t->n + token->text_bytes, 0, sizeof(t->bytes) - 1);
	memcpy(t->bytes + t->n, token->text, token->text_bytes);
	t->n += token->text_bytes;
	t->bytes[t->n] = 0;
	return 0;
}

/* Generates a text; returns why it ended. */
static enum llm_ended generate(struct llm_sampler *s, struct text *text, uint64_t max)
{
	const struct llm_generate_options o = {
		.max_tokens = max, .sampler = s, .token = append, .ud = text
	};
	struct llm_session *session = new_session(engine, 512);
	struct llm_generate_result result;
	int32_t prompt[16];
	long n = llm_tokenize(engine, "The kernel: ", 12, LLM_TOKENIZE_BOS, prompt, 16);

	text->n = 0;
	if (llm_generate(session, prompt, (size_t)n, &o, &result))
		fail_msg("%s", llm_error());
	llm_session_free(session);
	return result.ended;
}

static void check_json(const struct text *text)
{
	enum json_tokener_error error;
	struct json_object *parsed = json_tokener_parse_verbose(text->bytes, &error);

	if (error != json_tokener_success)
		fail_msg("%s: %s", json_tokener_error_desc(error), text->bytes);
	json_object_put(parsed);
}

/* Strings and lists have ends, so texts do. */
static const char limited[] =
	"{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":20},"
	"\"n\":{\"type\":\"integer\"},\"list\":{\"type\":\"array\",\"maxItems\":4,\"items\":{"
	"\"anyOf\":[{\"type\":\"boolean\"},{\"enum\":[\"x\",\"\u20ac\"]}]}}},"
	"\"required\":[\"name\",\"list\"]}";

static void test_generated_texts_of_schemas_are_json(void **state)
{
	struct llm_sampler_options o = { .top_p = 1, .json_schema = limited, .engine = engine };
	unsigned int ended = 0;
	struct text text;

	for (unsigned int i = 0; i < 60; i++) {
		struct llm_sampler *s;

		o.temperature = i % 5 ? 0.5f * (float)(i % 5) : 0;
		o.top_k = i % 2 ? 40 : 0;
		o.mirostat = i % 7 == 3 ? 2 : 0;
		o.repeat_penalty = i % 3 ? 1 : 1.2f;
		o.json_schema = i % 4 == 3 ? "{}" : limited;
		o.seed = mix();
		s = create(&o, llm_engine_info(engine)->n_vocab);
		if (generate(s, &text, 200) == LLM_ENDED_TOKEN) {
			ended++;
			check_json(&text);
		} else {
			assert_int_equal(i % 4, 3);
		}
		llm_sampler_free(s);
	}
	print_message("%u of 60 ended\n", ended);
}

static void test_after_a_reset_the_grammar_begins_again(void **state)
{
	const struct llm_sampler_options o = { .top_p = 1,
					       .grammar = "root ::= \"yes\" | \"no\"",
					       .engine = engine };
	struct llm_sampler *s = create(&o, llm_engine_info(engine)->n_vocab);
	struct text first, second;

	assert_int_equal(generate(s, &first, 20), LLM_ENDED_TOKEN);
	assert_true(!strcmp(first.bytes, "yes") || !strcmp(first.bytes, "no"));
	llm_sampler_reset(s);
	assert_int_equal(generate(s, &second, 20), LLM_ENDED_TOKEN);
	assert_string_equal(first.bytes, second.bytes);
	llm_sampler_free(s);
}

static void test_another_text_begins_the_grammar_alone(void **state)
{
	const struct llm_sampler_options o = { .temperature = 3,
					       .top_p = 1,
					       .grammar = "root ::= [0-9] [0-9] [0-9] [0-9] [0-9]",
					       .engine = engine };
	struct llm_sampler *s = create(&o, llm_engine_info(engine)->n_vocab);
	struct text first, second;

	assert_int_equal(generate(s, &first, 20), LLM_ENDED_TOKEN);
	llm_sampler_begin_text(s);
	assert_int_equal(generate(s, &second, 20), LLM_ENDED_TOKEN);
	assert_int_equal(strspn(second.bytes, "0123456789"), 5);
	/* The random numbers go on. */
	assert_string_not_equal(first.bytes, second.bytes);
	llm_sampler_free(s);
}

/* Here all tokens that the grammar allows are ruled out, so the text ends where it should not. */
static void test_a_text_ends_where_no_token_is_left(void **state)
{
	struct llm_logit_bias *biases;
	unsigned int n = llm_engine_info(engine)->n_vocab;
	struct llm_sampler_options o = { .top_p = 1,
					 .temperature = 1,
					 .grammar = "root ::= \"yes\"",
					 .engine = engine,
					 .nr_biases = n };
	struct llm_sampler *s;
	struct text text;

	biases = malloc(n * sizeof(*biases));
	for (unsigned int i = 0; i < n; i++)
		biases[i] = (struct llm_logit_bias){ (int32_t)i, -INFINITY };
	o.biases = biases;
	s = create(&o, n);
	assert_int_equal(generate(s, &text, 20), LLM_ENDED_TOKEN);
	assert_int_equal(text.n, 0);
	llm_sampler_free(s);
	free(biases);
}

/* ---- bad options ---- */

static void test_bad_options_are_refused(void **state)
{
	static const struct llm_logit_bias unknown = { 8, 1 }, nan_bias = { 1, NAN },
					   up = { 1, INFINITY };
	static const char *const empty[] = { "" }, *const text[] = { "x" };
	const struct {
		struct llm_sampler_options o;
		const char *error;
	} bad[] = {
		{ { .repeat_penalty = -1 }, "repeat_penalty" },
		{ { .repeat_penalty = NAN }, "repeat_penalty" },
		{ { .presence_penalty = INFINITY }, "presence_penalty" },
		{ { .frequency_penalty = NAN }, "frequency_penalty" },
		{ { .typical_p = -0.1f }, "typical_p" },
		{ { .xtc_probability = 1.1f }, "XTC's probability" },
		{ { .xtc_threshold = -1 }, "XTC's threshold" },
		{ { .top_n_sigma = NAN }, "top_n_sigma" },
		{ { .temperature_range = NAN }, "range" },
		{ { .mirostat = 3 }, "versions 1 and 2" },
		{ { .mirostat = 1, .mirostat_tau = -1 }, "tau" },
		{ { .mirostat = 2, .mirostat_eta = NAN }, "eta" },
		{ { .biases = &unknown, .nr_biases = 1 }, "token 8" },
		{ { .biases = &nan_bias, .nr_biases = 1 }, "token 1" },
		{ { .biases = &up, .nr_biases = 1 }, "token 1" },
		{ { .dry = { .multiplier = -1 } }, "multiplier" },
		{ { .dry = { .multiplier = 1, .base = 0.5f } }, "base" },
		{ { .dry = { .multiplier = 1, .breaks = text, .nr_breaks = 1 } }, "no engine" },
		{ { .dry = { .multiplier = 1, .breaks = empty, .nr_breaks = 1 }, .engine = engine },
		  "break 0 has 0 bytes" },
		{ { .grammar = "root ::= \"a\"" }, "no engine" },
		{ { .json_schema = "{}" }, "no engine" },
		{ { .grammar = "x", .json_schema = "{}", .engine = engine }, "both" },
		{ { .grammar = "root ::= b", .engine = engine },
		  "line 1, column 10: there is no rule b" },
		{ { .json_schema = "{", .engine = engine }, "JSON" },
	};
	struct llm_sampler *s;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct llm_sampler_options o = bad[i].o;
		unsigned int n_vocab = o.engine ? llm_engine_info(engine)->n_vocab : 8;

		o.top_p = 1;
		assert_int_equal(llm_sampler_create(&o, n_vocab, &s), -EINVAL);
		assert_null(s);
		if (!strstr(llm_error(), bad[i].error))
			fail_msg("no '%s' in: %s", bad[i].error, llm_error());
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tokens_are_those_of_a_reference),
		cmocka_unit_test(test_a_bias_rules_a_token_out_or_in),
		cmocka_unit_test(test_prompts_count_until_a_reset),
		cmocka_unit_test(test_a_reset_repeats_the_draws),
		cmocka_unit_test(test_repetitions_do_not_cross_a_break),
		cmocka_unit_test(test_generated_texts_of_schemas_are_json),
		cmocka_unit_test(test_after_a_reset_the_grammar_begins_again),
		cmocka_unit_test(test_another_text_begins_the_grammar_alone),
		cmocka_unit_test(test_a_text_ends_where_no_token_is_left),
		cmocka_unit_test(test_bad_options_are_refused),
	};
	const char *given = getenv("TEST_SEED");

	test_state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	print_message("TEST_SEED=%llu\n", (unsigned long long)test_state);
	return cmocka_run_group_tests(tests, open_model, close_model);
}
