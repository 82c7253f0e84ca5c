// SPDX-License-Identifier: MIT
/*
 * Generation with a drafter: whatever is drafted, everything is as with plain decoding. SEED=N
 * repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "drafter.h"
#include "llm_generation.h"
#include "llm_refs.h"
#include "npu_random.h"

#define MAX_PROMPT 300

static char docs6m[512];

/* ---- texts ---- */

/* Tokens that prompts are cut from. */
struct corpus {
	int32_t *ids;
	size_t n;
};

static struct corpus corpus_of(const struct llm_engine *engine)
{
	static const char *const files[] = { "docs/architecture.md", "README.md",
					     "docs/edgeflow.md" };
	struct corpus c = { .ids = malloc(65536 * sizeof(int32_t)) };

	for (int i = 0; i < 3; i++) {
		static char text[40000];
		char path[512];
		FILE *f;
		long n;

		snprintf(path, sizeof(path), "%s/%s", ref_src(), files[i]);
		f = fopen(path, "r");
		assert_non_null(f);
		n = llm_tokenize(engine, text, fread(text, 1, sizeof(text), f), 0, c.ids + c.n,
				 65536 - c.n);
		fclose(f);
		assert_in_range(n, MAX_PROMPT, 65536 - c.n);
		c.n += (size_t)n;
	}
	return c;
}

/* A prompt: a part of the corpus, of which another part is repeated, or random tokens. */
static size_t make_prompt(const struct llm_engine *engine, const struct corpus *c, int32_t *ids)
{
	size_t n = random_in(1, random_in(0, 1) ? 20 : MAX_PROMPT);
	const int32_t *from = c->n ? c->ids + random_in(0, (uint32_t)(c->n - MAX_PROMPT)) : NULL;

	for (size_t i = 0; i < n; i++)
		ids[i] = from ? from[i]
			      : (int32_t)random_in(3, llm_engine_info(engine)->n_vocab - 1);
	if (n > 16 && random_in(0, 1))
		memmove(ids + n - 8, ids + 3, 8 * sizeof(*ids));
	return n;
}

/* ---- one generation, plain and drafted ---- */

struct outcome {
	struct llm_generate_result result;
	struct record said;
	int32_t ids[RECORD_TOKENS];
	unsigned int n_past;
	int32_t draw; /* the sampler's next from the logits at the end */
	float logits[REF_MAX_VOCAB];
};

/* What to generate. */
struct wish {
	int32_t prompt[MAX_PROMPT];
	size_t n;
	struct llm_generate_options o;
	struct llm_sampler_options sampler; /* temperature 0: greedy, without one */
	uint64_t stop_after;
};

static void run(const struct llm_engine *engine, struct llm_session *s, const struct wish *w,
		struct llm_drafter *drafter, struct outcome *out)
{
	unsigned int n_vocab = llm_engine_info(engine)->n_vocab;
	struct llm_generate_options o = w->o;
	struct llm_sampler *sampler;

	memset(out, 0, sizeof(*out));
	out->said.stop_after = w->stop_after;
	assert_int_equal(llm_sampler_create(&w->sampler, n_vocab, &sampler), 0);
	o.sampler = w->sampler.temperature > 0 ? sampler : NULL;
	o.token = record;
	o.ud = &out->said;
	o.ids = out->ids;
	o.drafter = drafter;
	if (llm_generate(s, w->prompt, w->n, &o, &out->result))
		fail_msg("%s", llm_error());
	out->n_past = llm_session_n_past(s);
	memcpy(out->logits, llm_session_logits(s), n_vocab * sizeof(float));
	out->draw = llm_sample(sampler, out->logits);
	llm_sampler_free(sampler);
}

static void check_same(const struct outcome *want, const struct outcome *got)
{
	assert_int_equal(got->result.n_tokens, want->result.n_tokens);
	assert_memory_equal(got->ids, want->ids, sizeof(want->ids));
	assert_int_equal(got->result.ended, want->result.ended);
	assert_int_equal(got->result.stop, want->result.stop);
	assert_int_equal(got->result.last, want->result.last);
	assert_string_equal(got->said.text, want->said.text);
	assert_int_equal(got->n_past, want->n_past);
	assert_memory_equal(got->logits, want->logits, sizeof(want->logits));
	assert_int_equal(got->draw, want->draw);
}

static const char *const stops[] = { "the ", ".\n", "memory and" };

/* @w->prompt is set. */
static void wish_for_something(struct wish *w)
{
	w->sampler = (struct llm_sampler_options){
		.temperature = random_in(0, 1) ? 0 : 0.3f * (float)random_in(1, 4),
		.top_k = 40,
		.top_p = 0.95f,
		.seed = random_u32(),
	};
	w->o = (struct llm_generate_options){
		.max_tokens = random_in(0, 9) ? random_in(1, RECORD_TOKENS) : random_in(0, 2),
		.ignore_end = random_in(0, 1),
		.stops = stops,
		.nr_stops = random_in(0, 2) ? 0 : random_in(1, 3),
	};
	w->stop_after = random_in(0, 3) ? 0 : random_in(1, 40);
}

/* ---- drafters ---- */

static struct llm_drafter *new_drafter(struct llm_engine *engine,
				       const struct llm_drafter_options *o)
{
	struct llm_drafter *d;

	if (llm_drafter_create(engine, o, &d))
		fail_msg("%s", llm_error());
	return d;
}

/* @trees: of a width that does not depend on what passes cost. */
static struct llm_drafter *any_drafter(struct llm_engine *engine, bool trees)
{
	const struct llm_drafter_options o = {
		.draft = random_in(LLM_DRAFT_PLD, LLM_DRAFT_COORDGEN),
		.width = trees		   ? random_in(4, LLM_MAX_TREE)
			 : random_in(0, 2) ? random_in(1, LLM_MAX_TREE)
					   : 0,
	};

	return new_drafter(engine, &o);
}

/* What a generation leaves behind is continued, as in a chat, as long as there is room. */
static void chat(struct llm_engine *engine, const struct corpus *c, struct llm_drafter *d)
{
	unsigned int n_ctx = random_in(0, 2) ? 1024 : random_in(MAX_PROMPT, MAX_PROMPT + 60);
	struct llm_session *plain = ref_session(engine, n_ctx);
	struct llm_session *drafted = ref_session(engine, n_ctx);
	static struct outcome want, got;
	static struct wish w;

	for (int turn = 0; turn < 3; turn++) {
		int32_t last = want.result.last;

		w.n = make_prompt(engine, c, w.prompt);
		if (turn && last >= 0)
			w.prompt[0] = last;
		if (w.n > n_ctx - llm_session_n_past(plain))
			break;
		wish_for_something(&w);
		run(engine, plain, &w, NULL, &want);
		run(engine, drafted, &w, d, &got);
		check_same(&want, &got);
	}
	llm_session_free(plain);
	llm_session_free(drafted);
}

static void check_model(struct llm_engine *engine, const struct corpus *c, int drafters, int chats)
{
	struct llm_drafter_stats sum = { 0 };

	for (int i = 0; i < drafters; i++) {
		struct llm_drafter *d = any_drafter(engine, i == 0);
		struct llm_drafter_stats stats;

		for (int j = 0; j < chats; j++)
			chat(engine, c, d);
		llm_drafter_stats(d, &stats);
		sum.steps += stats.steps;
		sum.trees += stats.trees;
		sum.nodes += stats.nodes;
		sum.tokens += stats.tokens;
		llm_drafter_free(d);
	}
	print_message("%.2f tokens a step, %.2f nodes; %.2f of the steps have a tree\n",
		      (double)sum.tokens / (double)sum.steps, (double)sum.nodes / (double)sum.steps,
		      (double)sum.trees / (double)sum.steps);
	assert_true(sum.tokens > sum.steps && sum.trees > 0);
}

/* Each run has others: VNPU_DRAFTERS=20 is tests/check-full.sh's. */
static int nr_drafters(int usual)
{
	const char *env = getenv("VNPU_DRAFTERS");

	return env ? atoi(env) : usual;
}

static void docs6m_says_the_same_with_any_drafter(void **state)
{
	static const enum llm_placement placements[] = { LLM_PLACE_NPU, LLM_PLACE_CPU,
							 LLM_PLACE_LINEAR };

	random_begin("docs6m");
	for (int i = 0; i < 3; i++) {
		struct llm_engine *engine = ref_open(docs6m, placements[i], 2, 0);
		struct corpus c = corpus_of(engine);

		check_model(engine, &c, nr_drafters(i ? 2 : 8), 3);
		free(c.ids);
		llm_engine_close(engine);
	}
}

static void stories_are_the_same(void **state)
{
	const char *dir = getenv("VNPU_DATA");
	struct llm_engine *engine;
	struct corpus c;
	char path[512];

	if (!dir) {
		print_message("VNPU_DATA is not set\n");
		skip();
	}
	random_begin("stories");
	snprintf(path, sizeof(path), "%s/models/stories260K/stories260K-f32.gguf", dir);
	engine = ref_open(path, LLM_PLACE_NPU, 2, 0);
	c = corpus_of(engine);
	check_model(engine, &c, nr_drafters(15), 3);
	free(c.ids);
	llm_engine_close(engine);
}

static void random_models_say_the_same(void **state)
{
	random_begin("tiny");
	for (int round = 0; round < 4; round++) {
		struct llm_engine *engine;
		struct tiny_model t;

		tiny_create(&t, &tiny, random_u32());
		engine = ref_open(tiny_write(&t), round % 2 ? LLM_PLACE_NPU : LLM_PLACE_CPU, 1, 0);
		check_model(engine, &(struct corpus){ 0 }, 4, 3);
		llm_engine_close(engine);
		tiny_free(&t);
	}
}

/* Fewer than the candidates of a position. */
static void models_of_few_tokens_say_the_same(void **state)
{
	static struct outcome want, got;
	static struct wish w;

	random_begin("few tokens");
	for (unsigned int n_vocab = 1; n_vocab <= 4; n_vocab++) {
		const struct llm_drafter_options o = { .draft = LLM_DRAFT_COORDGEN };
		struct tiny_config c = tiny;
		struct llm_session *plain, *drafted;
		struct llm_engine *engine;
		struct llm_drafter *d;
		struct tiny_model t;

		c.n_vocab = n_vocab;
		tiny_create(&t, &c, random_u32());
		engine = ref_open(tiny_write(&t), LLM_PLACE_CPU, 1, 0);
		plain = ref_session(engine, 256);
		drafted = ref_session(engine, 256);
		d = new_drafter(engine, &o);
		wish_for_something(&w);
		w.n = 20;
		for (size_t i = 0; i < w.n; i++)
			w.prompt[i] = (int32_t)random_in(0, n_vocab - 1);
		run(engine, plain, &w, NULL, &want);
		run(engine, drafted, &w, d, &got);
		check_same(&want, &got);
		llm_drafter_free(d);
		llm_session_free(plain);
		llm_session_free(drafted);
		llm_engine_close(engine);
		tiny_free(&t);
	}
}

/* ---- what drafters are told and tell ---- */

struct steps {
	uint64_t n, tokens, nodes;
};

static void count_step(void *ud, const struct llm_draft_step *step)
{
	struct steps *s = ud;

	assert_in_range(step->nodes, 1, LLM_MAX_TREE);
	assert_true(step->width >= step->nodes);
	assert_in_range(step->tokens, 1, step->nodes);
	assert_true(step->pass_ns > 0);
	s->n++;
	s->tokens += step->tokens;
	s->nodes += step->nodes;
}

static void statistics_are_the_sums_of_the_steps(void **state)
{
	struct llm_engine *engine = ref_open(docs6m, LLM_PLACE_NPU, 2, 0);
	struct corpus c = corpus_of(engine);
	struct llm_session *s = ref_session(engine, 1024);
	struct steps steps = { 0 };
	const struct llm_drafter_options o = {
		.draft = LLM_DRAFT_COORDGEN, .width = 16, .step = count_step, .ud = &steps
	};
	struct llm_drafter *d = new_drafter(engine, &o);
	struct llm_drafter_stats stats;
	static struct outcome out;
	static struct wish w = { .n = 200,
				 .o = { .max_tokens = 60, .ignore_end = true },
				 .sampler = { .top_p = 1 } };

	memcpy(w.prompt, c.ids, 200 * sizeof(*c.ids));
	run(engine, s, &w, d, &out);
	llm_drafter_stats(d, &stats);
	assert_int_equal(stats.draft, LLM_DRAFT_COORDGEN);
	assert_int_equal(stats.steps, steps.n);
	assert_int_equal(stats.tokens, steps.tokens);
	assert_int_equal(stats.nodes, steps.nodes);
	/* The first token comes with the prompt. */
	assert_int_equal(stats.tokens, 59);
	/* At most two positions of a token, and not the last one. */
	/* As many as a prompt of any length has (docs/coordgen.md). */
	assert_in_range(stats.calibrated, 50, 63);
	assert_int_equal(stats.context_tokens, 200 + 59);
	assert_int_equal(stats.history_tokens, 0);
	assert_true(stats.bytes > 0 && !*stats.history_error);
	llm_drafter_free(d);
	llm_session_free(s);
	free(c.ids);
	llm_engine_close(engine);
}

/* ---- what passes cost ---- */

/* Generates with a new drafter. Returns what it knew before. */
static struct widths_times generate_knowing(struct llm_engine *engine, const struct corpus *c)
{
	static struct wish w = { .n = 160,
				 .o = { .max_tokens = 60, .ignore_end = true },
				 .sampler = { .top_p = 1 } };
	struct llm_drafter *d =
		new_drafter(engine, &(struct llm_drafter_options){ .draft = LLM_DRAFT_SAM });
	struct llm_session *s = ref_session(engine, 512);
	struct widths_times before = d->times;
	static struct outcome out;

	memcpy(w.prompt, c->ids, w.n * sizeof(*c->ids));
	run(engine, s, &w, d, &out);
	llm_session_free(s);
	llm_drafter_free(d);
	return before;
}

static void what_passes_cost_is_known_to_the_next_drafter(void **state)
{
	const struct llm_options virtual_clock = { .model = docs6m, .profile = "sd8gen3" };
	struct llm_engine *engine = ref_open(docs6m, LLM_PLACE_NPU, 2, 0);
	struct corpus c = corpus_of(engine);
	struct widths_times w = generate_knowing(engine, &c);
	int trees = 0;

	for (int i = 0; i < WIDTHS; i++)
		assert_true(!w.known[i]);
	w = generate_knowing(engine, &c);
	assert_true(w.known[0] > 0);
	for (int i = 1; i < WIDTHS; i++)
		trees += w.known[i] > 0;
	assert_true(trees > 0);
	llm_engine_close(engine);
	/* On the virtual clock all know nothing. */
	assert_int_equal(llm_engine_open(&virtual_clock, &engine), 0);
	generate_knowing(engine, &c);
	w = generate_knowing(engine, &c);
	for (int i = 0; i < WIDTHS; i++)
		assert_true(!w.known[i]);
	llm_engine_close(engine);
	free(c.ids);
}

/* ---- passes that fail ---- */

static void a_token_whose_pass_failed_is_read_once(void **state)
{
	struct llm_engine *engine = ref_open(docs6m, LLM_PLACE_CPU, 1, 0);
	struct llm_drafter *d =
		new_drafter(engine, &(struct llm_drafter_options){ .draft = LLM_DRAFT_COORDGEN });
	static const int32_t prompt[] = { 1, 300, 301, 302, 300, 301, 302, 300 };
	const size_t n = sizeof(prompt) / sizeof(prompt[0]);
	struct llm_session *s = ref_session(engine, n);
	const int32_t token = 301, other = 302;
	struct llm_drafter_stats stats;

	assert_int_equal(drafter_prompt(d, s, prompt, n), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(drafter_step(d, s, token, 1), -ENOSPC);
	llm_drafter_stats(d, &stats);
	assert_int_equal(stats.context_tokens, n + 1);
	/* The chat goes on with it when there is room. */
	assert_int_equal(llm_session_truncate(s, 4), 0);
	assert_int_equal(drafter_prompt(d, s, &token, 1), 0);
	llm_drafter_stats(d, &stats);
	assert_int_equal(stats.context_tokens, n + 1);
	/* A prompt may begin with the token that is read already: these are two. */
	assert_int_equal(drafter_prompt(d, s, &token, 1), 0);
	llm_drafter_stats(d, &stats);
	assert_int_equal(stats.context_tokens, n + 2);
	/* After a failure, another token is another. */
	assert_int_equal(llm_session_truncate(s, 4), 0);
	assert_int_equal(drafter_prompt(d, s, prompt + 4, 4), 0);
	assert_int_equal(drafter_step(d, s, token, 1), -ENOSPC);
	assert_int_equal(llm_session_truncate(s, 4), 0);
	assert_int_equal(drafter_prompt(d, s, &other, 1), 0);
	llm_drafter_stats(d, &stats);
	assert_int_equal(stats.context_tokens, n + 2 + 4 + 2);
	llm_session_free(s);
	llm_drafter_free(d);
	llm_engine_close(engine);
}

static void refuse(struct llm_engine *engine, struct llm_drafter_options o, int err,
		   const char *word)
{
	struct llm_drafter *d;

	assert_int_equal(llm_drafter_create(engine, &o, &d), err);
	assert_null(d);
	if (!strstr(llm_error(), word))
		fail_msg("no '%s' in: %s", word, llm_error());
}

static void bad_options_are_refused(void **state)
{
	struct llm_engine *engine = ref_open(docs6m, LLM_PLACE_CPU, 1, 0), *sparse, *dry;
	const struct llm_options sparse_options = { .model = docs6m,
						    .choices = { .placement = LLM_PLACE_CPU,
								 .attention = LLM_ATTENTION_SPARSE,
								 .decode = LLM_DECODE_SPARSE } };
	const struct llm_options dry_options = { .model = docs6m,
						 .dry_run = true,
						 .profile = "sd8gen3" };

	assert_int_equal(llm_engine_open(&sparse_options, &sparse), 0);
	assert_int_equal(llm_engine_open(&dry_options, &dry), 0);
	/* The engine's choice is none. */
	refuse(engine, (struct llm_drafter_options){ 0 }, -EINVAL, "draft none");
	refuse(engine, (struct llm_drafter_options){ .draft = 99 }, -EINVAL, "choose one");
	refuse(engine, (struct llm_drafter_options){ .draft = LLM_DRAFT_SAM, .width = 65 }, -EINVAL,
	       "at most 64");
	refuse(sparse, (struct llm_drafter_options){ .draft = LLM_DRAFT_SAM }, -ENOTSUP,
	       "decode full");
	refuse(dry, (struct llm_drafter_options){ .draft = LLM_DRAFT_SAM }, -ENOTSUP, "dry run");
	llm_engine_close(engine);
	llm_engine_close(sparse);
	llm_engine_close(dry);
}

static void another_engines_drafter_is_refused(void **state)
{
	struct llm_engine *a = ref_open(docs6m, LLM_PLACE_CPU, 1, 0);
	struct llm_engine *b = ref_open(docs6m, LLM_PLACE_CPU, 1, 0);
	struct llm_drafter *d =
		new_drafter(b, &(struct llm_drafter_options){ .draft = LLM_DRAFT_COORDGEN });
	struct llm_session *s = ref_session(a, 64);
	struct llm_generate_options o = { .max_tokens = 4, .drafter = d };
	struct llm_generate_result result;
	int32_t ids[] = { 1, 5, -1 };

	assert_int_equal(llm_generate(s, ids, 2, &o, &result), -EINVAL);
	assert_non_null(strstr(llm_error(), "another engine"));
	assert_int_equal(llm_session_n_past(s), 0);
	llm_session_free(s);
	/* Nor does a prompt that is refused leave anything behind. */
	s = ref_session(b, 64);
	assert_int_equal(llm_generate(s, ids, 3, &o, &result), -EINVAL);
	assert_int_equal(llm_session_n_past(s), 0);
	llm_session_free(s);
	llm_engine_close(a);
	llm_engine_close(b);
	llm_drafter_free(d);
}

/* ---- history ---- */

static char store[64];

static void write_store(const char *bytes, size_t n)
{
	FILE *f = fopen(store, "w");

	assert_non_null(f);
	fwrite(bytes, 1, n, f);
	fclose(f);
}

/* Generates with a new drafter of the store, and returns its statistics. */
static struct llm_drafter_stats remember(struct llm_engine *engine, const struct wish *w,
					 struct outcome *out)
{
	/* Trees of a width, whatever they cost. */
	const struct llm_drafter_options o = { .draft = LLM_DRAFT_SAM,
					       .history = store,
					       .width = 8 };
	struct llm_drafter *d = new_drafter(engine, &o);
	struct llm_session *s = ref_session(engine, 512);
	struct llm_drafter_stats stats;

	run(engine, s, w, d, out);
	llm_drafter_stats(d, &stats);
	llm_session_free(s);
	llm_drafter_free(d);
	return stats;
}

static void answers_are_remembered_by_the_store(void **state)
{
	struct llm_engine *engine = ref_open(docs6m, LLM_PLACE_NPU, 2, 0);
	static struct wish w = { .n = 2,
				 .o = { .max_tokens = 60, .ignore_end = true },
				 .sampler = { .top_p = 1 } };
	static struct outcome first, again;
	struct llm_drafter_stats before, after;

	snprintf(store, sizeof(store), "/tmp/test_drafter.%d.history", (int)getpid());
	w.prompt[0] = 1;
	w.prompt[1] = 300;
	before = remember(engine, &w, &first);
	assert_int_equal(before.history_tokens, 61);
	after = remember(engine, &w, &again);
	check_same(&first, &again);
	/* Its own answer, which the store has now, twice. */
	assert_int_equal(after.history_tokens, 122);
	print_message("%llu steps, with the answer in the store %llu\n",
		      (unsigned long long)before.steps, (unsigned long long)after.steps);
	assert_true(after.steps < before.steps);
	unlink(store);
	llm_engine_close(engine);
}

static void a_broken_store_is_named_and_nothing_else_changes(void **state)
{
	static const char junk[] = "this is no history store, but long enough to be one";
	struct llm_engine *engine = ref_open(docs6m, LLM_PLACE_NPU, 2, 0);
	static struct wish w = { .n = 2,
				 .o = { .max_tokens = 30, .ignore_end = true },
				 .sampler = { .top_p = 1 } };
	static struct outcome first, again;
	struct llm_drafter_stats stats;
	char kept[sizeof(junk)];
	FILE *f;

	w.prompt[0] = 1;
	w.prompt[1] = 300;
	snprintf(store, sizeof(store), "/tmp/test_drafter.%d.history", (int)getpid());
	remember(engine, &w, &first);
	write_store(junk, sizeof(junk));
	stats = remember(engine, &w, &again);
	check_same(&first, &again);
	assert_int_equal(stats.history_tokens, 0);
	assert_non_null(strstr(stats.history_error, store));
	f = fopen(store, "r");
	assert_int_equal(fread(kept, 1, sizeof(kept), f), sizeof(junk));
	assert_memory_equal(kept, junk, sizeof(junk));
	fclose(f);
	unlink(store);
	/* An unusable name. */
	snprintf(store, sizeof(store), "/nowhere/at/all");
	stats = remember(engine, &w, &again);
	check_same(&first, &again);
	assert_non_null(strstr(stats.history_error, "/nowhere/at/all"));
	llm_engine_close(engine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(docs6m_says_the_same_with_any_drafter),
		cmocka_unit_test(stories_are_the_same),
		cmocka_unit_test(random_models_say_the_same),
		cmocka_unit_test(models_of_few_tokens_say_the_same),
		cmocka_unit_test(statistics_are_the_sums_of_the_steps),
		cmocka_unit_test(what_passes_cost_is_known_to_the_next_drafter),
		cmocka_unit_test(a_token_whose_pass_failed_is_read_once),
		cmocka_unit_test(bad_options_are_refused),
		cmocka_unit_test(another_engines_drafter_is_refused),
		cmocka_unit_test(answers_are_remembered_by_the_store),
		cmocka_unit_test(a_broken_store_is_named_and_nothing_else_changes),
	};

	ref_embedded(docs6m, sizeof(docs6m));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
