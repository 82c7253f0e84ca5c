// SPDX-License-Identifier: MIT
/*
 * llm_generate(): its tokens are those of a loop of single calls; and the handling of their text.
 *
 * The tests of text use models that generate a script: a sequence of different tokens. In the
 * output matrix, the row of each token is the embedding of the token before it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include "generate_text.h"
#include "llm_generation.h"
#include "llm_refs.h"

#define END_ID 2

static char docs6m[512];

static struct llm_generate_result generate(struct llm_session *s, const int32_t *prompt, size_t n,
					   const struct llm_generate_options *opts)
{
	struct llm_generate_result result;

	if (llm_generate(s, prompt, n, opts, &result))
		fail_msg("%s", llm_error());
	return result;
}

static void expect_refused(struct llm_session *s, const int32_t *prompt, size_t n,
			   const struct llm_generate_options *opts, int err, const char *word)
{
	unsigned int n_past = llm_session_n_past(s);
	struct llm_generate_result result;

	assert_int_equal(llm_generate(s, prompt, n, opts, &result), err);
	if (!strstr(llm_error(), word))
		fail_msg("no '%s' in: %s", word, llm_error());
	assert_int_equal(llm_session_n_past(s), n_past);
	assert_int_equal(result.n_tokens, 0);
	assert_int_equal(result.last, -1);
}

/* ---- the same tokens ------------------------------------------------------------------------- */

static struct llm_sampler *sampler_of(const struct llm_engine *engine, float temperature)
{
	const struct llm_sampler_options o = {
		.temperature = temperature, .top_k = 40, .top_p = 0.95f, .seed = 7
	};
	struct llm_sampler *sampler;

	if (llm_sampler_create(&o, llm_engine_info(engine)->n_vocab, &sampler))
		fail_msg("%s", llm_error());
	return sampler;
}

/* Generates @n tokens with llm_session_eval() and llm_sample(), without evaluating the last one. */
static void by_hand(struct llm_session *s, struct llm_sampler *sampler, const int32_t *prompt,
		    size_t n_prompt, int32_t *ids, size_t n)
{
	ref_eval(s, prompt, n_prompt);
	for (size_t i = 0; i < n; i++) {
		ids[i] = llm_sample(sampler, llm_session_logits(s));
		if (i + 1 < n)
			ref_eval(s, &ids[i], 1);
	}
}

static void check_same(struct llm_engine *engine, const int32_t *prompt, size_t n_prompt,
		       float temperature)
{
	struct llm_session *hand = ref_session(engine, 0), *s = ref_session(engine, 0);
	struct llm_sampler *a = sampler_of(engine, temperature),
			   *b = sampler_of(engine, temperature);
	unsigned int n_vocab = llm_engine_info(engine)->n_vocab;
	int32_t want[32], got[32];
	struct record r = { 0 };
	struct llm_generate_options o = {
		.max_tokens = 32,
		.sampler = temperature > 0 ? b : NULL,
		.ignore_end = true,
		.token = record,
		.ud = &r,
		.ids = got,
	};
	struct llm_generate_result result;

	by_hand(hand, a, prompt, n_prompt, want, 32);
	result = generate(s, prompt, n_prompt, &o);
	assert_memory_equal(got, want, sizeof(want));
	assert_memory_equal(r.ids, want, sizeof(want));
	assert_int_equal(result.ended, LLM_ENDED_MAX);
	assert_int_equal(result.n_tokens, 32);
	assert_int_equal(result.last, want[31]);
	assert_int_equal(llm_session_n_past(s), n_prompt + 31);
	assert_memory_equal(llm_session_logits(s), llm_session_logits(hand),
			    n_vocab * sizeof(float));
	assert_true(result.prompt_ns <= result.first_ns && result.first_ns <= result.total_ns);
	llm_sampler_free(a);
	llm_sampler_free(b);
	llm_session_free(hand);
	llm_session_free(s);
}

static void test_tokens_are_those_of_a_loop_by_hand(void **state)
{
	static const enum llm_placement placements[] = { LLM_PLACE_CPU, LLM_PLACE_FINE,
							 LLM_PLACE_NPU };
	struct reference ref;

	ref_load_docs6m(&ref, 2);
	for (size_t i = 0; i < 3; i++) {
		struct llm_engine *engine = ref_open(docs6m, placements[i], 2, 0);

		check_same(engine, ref.ids, ref.n_ids, 0);
		check_same(engine, ref.ids, 1, 0.8f);
		llm_engine_close(engine);
	}
}

static void test_random_models_give_the_tokens_of_a_loop_by_hand(void **state)
{
	uint64_t seed = (uint64_t)time(NULL);

	print_message("seed %llu\n", (unsigned long long)seed);
	for (int round = 0; round < 6; round++) {
		int32_t prompt[9];
		struct tiny_model t;
		struct llm_engine *engine;

		tiny_create(&t, &tiny, seed + (uint64_t)round);
		engine = ref_open(tiny_write(&t), round % 2 ? LLM_PLACE_NPU : LLM_PLACE_CPU, 1, 0);
		for (int i = 0; i < 9; i++)
			prompt[i] = (int32_t)(random_u64(&t.random) % tiny.n_vocab);
		check_same(engine, prompt, 1 + (size_t)round, (float)(round / 2));
		llm_engine_close(engine);
		tiny_free(&t);
	}
}

/* ---- scripts --------------------------------------------------------------------------------- */

struct script {
	struct tiny_model t;
	struct llm_engine *engine;
	int32_t ids[RECORD_TOKENS]; /* the first one is the prompt */
	size_t n;
	char text[RECORD_TOKENS]; /* the text of the others */
};

static void set_to(float *v, size_t n, float x)
{
	for (size_t i = 0; i < n; i++)
		v[i] = x;
}

/* Makes a model that generates @text, whose bytes all differ, and then an end token. */
static void script_open(struct script *sc, const char *text, enum llm_placement placement)
{
	size_t row = tiny.n_embd * sizeof(float);
	float *embd, *output;

	memset(sc, 0, sizeof(*sc));
	snprintf(sc->text, sizeof(sc->text), "%s", text);
	sc->ids[sc->n++] = 1;
	for (; *text; text++)
		sc->ids[sc->n++] = 3 + (unsigned char)*text;
	sc->ids[sc->n++] = END_ID;
	tiny_create(&sc->t, &tiny, 1);
	tiny_key(&sc->t, "tokenizer.ggml.eos_token_id", 'u', END_ID, NULL);
	/* The layers add 0, and the norms scale all values equally. */
	for (unsigned int i = 0; i < tiny.n_layer; i++) {
		char name[64];

		snprintf(name, sizeof(name), "blk.%u.attn_output.weight", i);
		set_to(tiny_find(&sc->t, name)->data, tiny.n_embd * tiny.n_embd, 0);
		snprintf(name, sizeof(name), "blk.%u.ffn_down.weight", i);
		set_to(tiny_find(&sc->t, name)->data, tiny.n_embd * tiny.n_ff, 0);
	}
	set_to(tiny_find(&sc->t, "output_norm.weight")->data, tiny.n_embd, 1);
	embd = tiny_find(&sc->t, "token_embd.weight")->data;
	output = tiny_find(&sc->t, "output.weight")->data;
	set_to(output, tiny.n_vocab * tiny.n_embd, 0);
	for (size_t i = 1; i < sc->n; i++)
		memcpy(output + (unsigned int)sc->ids[i] * tiny.n_embd,
		       embd + (unsigned int)sc->ids[i - 1] * tiny.n_embd, row);
	/* The end token is followed by the first one. */
	memcpy(output + tiny.n_embd, embd + END_ID * tiny.n_embd, row);
	sc->engine = ref_open(tiny_write(&sc->t), placement, 1, 0);
}

static void script_close(struct script *sc)
{
	llm_engine_close(sc->engine);
	tiny_free(&sc->t);
}

/* Generates from the script's beginning in a new session. */
static struct llm_generate_result script_run(struct script *sc, unsigned int n_ctx,
					     uint64_t max_tokens, const char *const *stops,
					     size_t nr_stops, struct record *r)
{
	struct llm_session *s = ref_session(sc->engine, n_ctx);
	struct llm_generate_options o = {
		.max_tokens = max_tokens,
		.stops = stops,
		.nr_stops = nr_stops,
		.token = record,
		.ud = r,
	};
	struct llm_generate_result result;

	r->n = r->bytes = r->rest = 0;
	r->ended = false;
	result = generate(s, sc->ids, 1, &o);
	r->text[r->bytes] = '\0';
	assert_int_equal(result.n_tokens, r->n);
	assert_memory_equal(r->ids, sc->ids + 1, r->n * sizeof(*r->ids));
	/* All tokens except the last one are evaluated. */
	assert_int_equal(llm_session_n_past(s),
			 result.n_tokens + (result.ended == LLM_ENDED_TOKEN));
	llm_session_free(s);
	return result;
}

static void test_an_end_token_ends_the_text_and_is_not_reported(void **state)
{
	struct llm_generate_result result;
	struct record r = { 0 };
	struct script sc;

	script_open(&sc, "helo wrd", LLM_PLACE_NPU);
	result = script_run(&sc, 0, UINT64_MAX, NULL, 0, &r);
	assert_int_equal(result.ended, LLM_ENDED_TOKEN);
	assert_int_equal(result.last, END_ID);
	assert_int_equal(result.n_tokens, 8);
	assert_string_equal(r.text, "helo wrd");
	assert_false(r.ended);
	script_close(&sc);
}

static void test_an_ignored_end_token_is_a_token_without_text(void **state)
{
	struct record r = { 0 };
	struct llm_generate_options o = {
		.max_tokens = 6, .ignore_end = true, .token = record, .ud = &r
	};
	struct llm_generate_result result;
	struct llm_session *s;
	struct script sc;

	script_open(&sc, "abc", LLM_PLACE_CPU);
	s = ref_session(sc.engine, 0);
	result = generate(s, sc.ids, 1, &o);
	assert_int_equal(result.ended, LLM_ENDED_MAX);
	assert_int_equal(r.n, 6);
	assert_int_equal(r.ids[3], END_ID);
	assert_int_equal(r.ids[4], 1);
	r.text[r.bytes] = '\0';
	assert_string_equal(r.text, "abca");
	llm_session_free(s);
	script_close(&sc);
}

static void test_text_comes_in_whole_characters(void **state)
{
	/* The bytes after each token: a character appears with its last byte. */
	static const size_t whole[] = { 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11 };
	struct llm_generate_result result;
	struct record r = { 0 };
	struct script sc;

	script_open(&sc, "a\u00e9\u20ac\U0001f600z", LLM_PLACE_CPU);
	result = script_run(&sc, 0, UINT64_MAX, NULL, 0, &r);
	assert_string_equal(r.text, sc.text);
	assert_int_equal(r.n, 11);
	assert_memory_equal(r.text_end, whole, sizeof(whole));
	/* An incomplete character is reported at the end. */
	result = script_run(&sc, 0, 5, NULL, 0, &r);
	assert_int_equal(result.ended, LLM_ENDED_MAX);
	assert_int_equal(r.text_end[4], 3);
	assert_int_equal(r.rest, 2);
	assert_memory_equal(r.text, sc.text, 5);
	script_close(&sc);
}

static void test_invalid_utf8_is_passed_unchanged(void **state)
{
	static const size_t ready[] = { 0, 2, 3, 4, 5, 5, 5 };
	struct record r = { 0 };
	struct script sc;

	/* A lead byte without followers, a follower alone, invalid bytes, an incomplete end. */
	script_open(&sc, "\xe2z\x80\xff\xc0\xf0\x9f", LLM_PLACE_CPU);
	script_run(&sc, 0, UINT64_MAX, NULL, 0, &r);
	assert_string_equal(r.text, sc.text);
	assert_memory_equal(r.text_end, ready, sizeof(ready));
	assert_true(r.ended);
	script_close(&sc);
}

static void test_a_stop_string_across_tokens_ends_the_text_before_it(void **state)
{
	static const char *const stops[] = { "never", "lo w" };
	static const size_t text_end[] = { 1, 2, 2, 2, 2, 2 };
	struct llm_generate_result result;
	struct record r = { 0 };
	struct script sc;

	script_open(&sc, "helo wrd", LLM_PLACE_CPU);
	result = script_run(&sc, 0, UINT64_MAX, stops, 2, &r);
	assert_int_equal(result.ended, LLM_ENDED_STRING);
	assert_int_equal(result.stop, 1);
	assert_int_equal(result.n_tokens, 6);
	assert_int_equal(result.last, 3 + 'w');
	assert_string_equal(r.text, "he");
	assert_memory_equal(r.text_end, text_end, sizeof(text_end));
	assert_false(r.ended);
	/* The first token, the last one, and max_tokens at the same time. */
	assert_int_equal(script_run(&sc, 0, 9, (const char *[]){ "h" }, 1, &r).n_tokens, 1);
	assert_string_equal(r.text, "");
	result = script_run(&sc, 0, 8, (const char *[]){ "rd" }, 1, &r);
	assert_int_equal(result.ended, LLM_ENDED_STRING);
	assert_string_equal(r.text, "helo w");
	script_close(&sc);
}

static void test_text_that_only_begins_a_stop_string_is_reported(void **state)
{
	static const char *const stops[] = { "lo x", "wrd!" };
	static const size_t text_end[] = { 1, 2, 2, 2, 2, 5, 5, 5 };
	struct llm_generate_result result;
	struct record r = { 0 };
	struct script sc;

	script_open(&sc, "helo wrd", LLM_PLACE_CPU);
	/* A token rules out the first stop string, the end rules out the second. */
	result = script_run(&sc, 0, UINT64_MAX, stops, 2, &r);
	assert_int_equal(result.ended, LLM_ENDED_TOKEN);
	assert_string_equal(r.text, "helo wrd");
	assert_memory_equal(r.text_end, text_end, sizeof(text_end));
	assert_int_equal(r.rest, 3);
	result = script_run(&sc, 0, 7, stops, 2, &r);
	assert_int_equal(result.ended, LLM_ENDED_MAX);
	assert_string_equal(r.text, "helo wr");
	assert_int_equal(r.rest, 2);
	/* The context has four tokens; five are chosen. */
	result = script_run(&sc, 4, UINT64_MAX, stops, 2, &r);
	assert_int_equal(result.ended, LLM_ENDED_CONTEXT);
	assert_string_equal(r.text, "helo");
	assert_int_equal(r.rest, 2);
	/* If the callback ends the generation, the text is dropped. */
	r.stop_after = 4;
	result = script_run(&sc, 0, UINT64_MAX, stops, 2, &r);
	assert_int_equal(result.ended, LLM_ENDED_CALLBACK);
	assert_string_equal(r.text, "he");
	assert_false(r.ended);
	script_close(&sc);
}

/* ---- text without a model -------------------------------------------------------------------- */

/* Where the first completed stop string of @text begins; @n if it has none. */
static size_t stop_in(const char *text, size_t n, const char *const *stops, size_t nr_stops)
{
	for (size_t end = 1; end <= n; end++) {
		size_t longest = 0;

		for (size_t i = 0; i < nr_stops; i++) {
			size_t len = strlen(stops[i]);

			if (len <= end && len > longest && !memcmp(text + end - len, stops[i], len))
				longest = len;
		}
		if (longest)
			return end - longest;
	}
	return n;
}

/* Whether the first @n of @all bytes end inside a character that the others may finish. */
static bool cut_inside(const char *text, size_t n, size_t all)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		unsigned char lead = (unsigned char)text[n - back];

		if (lead >= 0x80 && lead < 0xc0)
			continue;
		/* The lead bytes of the alphabet. */
		if ((lead == 0xc3 && back < 2) || (lead == 0xf0 && back < 4))
			return n == all || ((unsigned char)text[n] & 0xc0) == 0x80;
		return false;
	}
	return false;
}

static void test_text_in_any_pieces_comes_complete_up_to_its_stop(void **state)
{
	static const char alphabet[] = "aab\xc3\xa9\xf0\x80z";
	unsigned int seed = (unsigned int)time(NULL), stopped = 0;

	print_message("seed %u\n", seed);
	srand(seed);
	for (int round = 0; round < 3000; round++) {
		char text[200], out[200], strings[3][6] = { "" };
		const char *stops[3] = { strings[0], strings[1], strings[2] };
		struct generate_text t = { .stops = stops, .nr_stops = (size_t)(rand() % 4) };
		size_t n = (size_t)(rand() % 200), got = 0, at = 0, want;

		for (size_t i = 0; i < n; i++)
			text[i] = alphabet[rand() % (int)(sizeof(alphabet) - 1)];
		for (size_t i = 0; i < 3; i++)
			for (int j = 0; j < 2 + rand() % 4; j++)
				strings[i][j] = alphabet[rand() % 5];
		want = stop_in(text, n, stops, t.nr_stops);
		while (at < n && !t.stopped) {
			size_t piece = 1 + (size_t)(rand() % 9);

			piece = piece < n - at ? piece : n - at;
			assert_int_equal(generate_text_put(&t, text + at, piece), 0);
			at += piece;
			if (t.ready)
				memcpy(out + got, t.bytes, t.ready);
			got += t.ready;
			/* No more is held back than a stop string and a character. */
			assert_true(t.stopped || at - got <= 5 + 3);
			assert_true(t.stopped || !cut_inside(text, got, at));
			generate_text_given(&t);
		}
		assert_int_equal(t.stopped, want < n);
		generate_text_end(&t);
		if (t.ready && !t.stopped) {
			memcpy(out + got, t.bytes, t.ready);
			got += t.ready;
		}
		assert_int_equal(got, want);
		assert_memory_equal(out, text, want);
		stopped += t.stopped;
		generate_text_free(&t);
	}
	assert_in_range(stopped, 100, 2900);
}

/* ---- ends and beginnings --------------------------------------------------------------------- */

static void test_a_callback_can_end_it_and_the_session_goes_on(void **state)
{
	struct llm_engine *engine = ref_open(docs6m, LLM_PLACE_NPU, 2, 0);
	struct llm_session *s = ref_session(engine, 0);
	struct record r = { .stop_after = 5 };
	struct llm_generate_options o = {
		.max_tokens = 12, .ignore_end = true, .token = record, .ud = &r
	};
	struct llm_generate_result result;
	struct reference ref;
	int32_t want[12];

	ref_load_docs6m(&ref, 1);
	o.ids = want;
	o.token = NULL;
	generate(s, ref.ids, ref.n_ids, &o);
	assert_int_equal(llm_session_truncate(s, 0), 0);
	o.ids = NULL;
	o.token = record;
	result = generate(s, ref.ids, ref.n_ids, &o);
	assert_int_equal(result.ended, LLM_ENDED_CALLBACK);
	assert_int_equal(result.n_tokens, 5);
	assert_int_equal(result.last, want[4]);
	assert_int_equal(llm_session_n_past(s), ref.n_ids + 4);
	r = (struct record){ 0 };
	o.max_tokens = 7;
	result = generate(s, &result.last, 1, &o);
	assert_int_equal(result.n_tokens, 7);
	assert_memory_equal(r.ids, want + 5, 7 * sizeof(*want));
	llm_session_free(s);
	llm_engine_close(engine);
}

static void test_a_full_context_ends_it(void **state)
{
	struct llm_engine *engine = ref_open(docs6m, LLM_PLACE_CPU, 1, 0);
	struct llm_generate_options o = { .max_tokens = UINT64_MAX, .ignore_end = true };
	struct llm_generate_result result;
	struct llm_session *s;
	struct reference ref;

	ref_load_docs6m(&ref, 1);
	for (unsigned int more = 0; more < 3; more++) {
		s = ref_session(engine, (unsigned int)ref.n_ids + more);
		result = generate(s, ref.ids, ref.n_ids, &o);
		assert_int_equal(result.ended, LLM_ENDED_CONTEXT);
		/* One token more is chosen than fits. */
		assert_int_equal(result.n_tokens, more + 1);
		assert_int_equal(llm_session_n_past(s), ref.n_ids + more);
		llm_session_free(s);
	}
	/* If max_tokens fit, the context is not reported as full. */
	s = ref_session(engine, (unsigned int)ref.n_ids);
	o.max_tokens = 1;
	assert_int_equal(generate(s, ref.ids, ref.n_ids, &o).ended, LLM_ENDED_MAX);
	expect_refused(s, ref.ids, 1, &o, -ENOSPC, "context");
	llm_session_free(s);
	llm_engine_close(engine);
}

static void test_no_tokens_means_only_evaluating_the_prompt(void **state)
{
	struct llm_engine *engine = ref_open(docs6m, LLM_PLACE_CPU, 1, 0);
	struct llm_session *s = ref_session(engine, 0);
	struct llm_generate_options o = { .token = record };
	struct llm_generate_result result;
	struct record r = { 0 };
	struct reference ref;
	int32_t want;

	ref_load_docs6m(&ref, 1);
	o.ud = &r;
	expect_refused(s, NULL, 0, &o, -EINVAL, "prompt is empty");
	result = generate(s, ref.ids, ref.n_ids, &o);
	assert_int_equal(result.ended, LLM_ENDED_MAX);
	assert_int_equal(result.n_tokens, 0);
	assert_int_equal(result.last, -1);
	assert_true(result.prompt_ns > 0 && result.first_ns == 0);
	assert_true(r.n == 0 && !r.ended);
	assert_int_equal(llm_session_n_past(s), ref.n_ids);
	/* An empty prompt, and one token to choose. */
	want = llm_argmax(llm_session_logits(s), llm_engine_info(engine)->n_vocab);
	o.max_tokens = 1;
	result = generate(s, NULL, 0, &o);
	assert_int_equal(result.last, want);
	assert_int_equal(llm_session_n_past(s), ref.n_ids);
	llm_session_free(s);
	llm_engine_close(engine);
}

static void test_bad_prompts_and_stops_are_refused_before_anything_is_done(void **state)
{
	struct llm_engine *engine = ref_open(docs6m, LLM_PLACE_CPU, 1, 0);
	struct llm_session *s = ref_session(engine, 8);
	struct llm_generate_options o = { .max_tokens = 4 };
	int32_t ids[9] = { 1, 5, 6 };

	ref_eval(s, ids, 2);
	ids[1] = -1;
	expect_refused(s, ids, 3, &o, -EINVAL, "token 1 is -1");
	ids[1] = 4096;
	expect_refused(s, ids, 3, &o, -EINVAL, "token 1 is 4096");
	ids[1] = 5;
	expect_refused(s, ids, 7, &o, -ENOSPC, "7 tokens after 2 do not fit a context of 8");
	o.stops = (const char *[]){ "a", "" };
	o.nr_stops = 2;
	expect_refused(s, ids, 3, &o, -EINVAL, "stop string 1 is empty");
	llm_session_free(s);
	llm_engine_close(engine);
}

static void test_forgotten_tokens_leave_no_logits(void **state)
{
	struct llm_engine *engine = ref_open(docs6m, LLM_PLACE_CPU, 1, 0);
	struct llm_session *s = ref_session(engine, 8);
	struct llm_generate_options o = { .max_tokens = 1 };
	const int32_t ids[] = { 1, 5, 6 };

	for (unsigned int n_past = 0; n_past < 3; n_past++) {
		ref_eval(s, ids + llm_session_n_past(s), 3 - llm_session_n_past(s));
		/* Nothing is forgotten. */
		assert_int_equal(llm_session_truncate(s, 3), 0);
		assert_int_equal(generate(s, NULL, 0, &o).n_tokens, 1);
		assert_int_equal(llm_session_truncate(s, n_past), 0);
		assert_null(llm_session_logits(s));
		expect_refused(s, NULL, 0, &o, -EINVAL, "prompt is empty");
	}
	llm_session_free(s);
	llm_engine_close(engine);
}

static void test_a_sampler_for_another_vocabulary_is_refused(void **state)
{
	static const unsigned int sizes[] = { 1, 4095, 4097, 8192 };
	struct llm_engine *engine = ref_open(docs6m, LLM_PLACE_CPU, 1, 0);
	struct llm_session *s = ref_session(engine, 8);
	struct llm_sampler_options so = { .temperature = 1, .top_p = 1 };
	struct llm_generate_options o = { .max_tokens = 1 };
	const int32_t ids[] = { 1, 5, 6 };
	struct llm_sampler *refused;
	char words[64];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		so.engine = NULL;
		assert_int_equal(llm_sampler_create(&so, sizes[i], &o.sampler), 0);
		snprintf(words, sizeof(words), "for %u tokens; the model's", sizes[i]);
		expect_refused(s, ids, 3, &o, -EINVAL, words);
		llm_sampler_free(o.sampler);
		so.engine = engine;
		assert_int_equal(llm_sampler_create(&so, sizes[i], &refused), -EINVAL);
		assert_null(refused);
		assert_non_null(strstr(llm_error(), "the engine's vocabulary has 4096"));
	}
	assert_int_equal(llm_sampler_create(&so, 4096, &o.sampler), 0);
	assert_int_equal(generate(s, ids, 3, &o).n_tokens, 1);
	llm_sampler_free(o.sampler);
	llm_session_free(s);
	llm_engine_close(engine);
}

static void test_times_are_the_engines_clocks(void **state)
{
	struct llm_options opts = { .model = docs6m, .profile = "sd8gen3" };
	struct record r = { 0 };
	struct llm_generate_options o = {
		.max_tokens = 6, .ignore_end = true, .token = record, .ud = &r
	};
	struct llm_generate_result result;
	struct llm_session_stats stats;
	struct llm_engine *engine;
	struct llm_session *s;
	struct reference ref;

	ref_load_docs6m(&ref, 3);
	if (llm_engine_open(&opts, &engine))
		fail_msg("%s", llm_error());
	s = ref_session(engine, 0);
	result = generate(s, ref.ids, ref.n_ids, &o);
	llm_session_stats(s, &stats);
	assert_int_equal(result.prompt_ns, stats.prefill_ns);
	assert_int_equal(result.first_ns, stats.prefill_ns);
	assert_int_equal(r.at_ns[0], stats.prefill_ns);
	assert_int_equal(result.total_ns, stats.prefill_ns + stats.decode_ns);
	assert_int_equal(r.at_ns[5], result.total_ns);
	llm_session_free(s);
	llm_engine_close(engine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tokens_are_those_of_a_loop_by_hand),
		cmocka_unit_test(test_random_models_give_the_tokens_of_a_loop_by_hand),
		cmocka_unit_test(test_an_end_token_ends_the_text_and_is_not_reported),
		cmocka_unit_test(test_an_ignored_end_token_is_a_token_without_text),
		cmocka_unit_test(test_text_comes_in_whole_characters),
		cmocka_unit_test(test_invalid_utf8_is_passed_unchanged),
		cmocka_unit_test(test_a_stop_string_across_tokens_ends_the_text_before_it),
		cmocka_unit_test(test_text_that_only_begins_a_stop_string_is_reported),
		cmocka_unit_test(test_text_in_any_pieces_comes_complete_up_to_its_stop),
		cmocka_unit_test(test_a_callback_can_end_it_and_the_session_goes_on),
		cmocka_unit_test(test_a_full_context_ends_it),
		cmocka_unit_test(test_no_tokens_means_only_evaluating_the_prompt),
		cmocka_unit_test(test_bad_prompts_and_stops_are_refused_before_anything_is_done),
		cmocka_unit_test(test_forgotten_tokens_leave_no_logits),
		cmocka_unit_test(test_a_sampler_for_another_vocabulary_is_refused),
		cmocka_unit_test(test_times_are_the_engines_clocks),
	};

	ref_embedded(docs6m, sizeof(docs6m));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
