// SPDX-License-Identifier: MIT
/*
 * Graphs switched from prefill to decoding: whatever the choice, the blocks and the widths are,
 * logits have the bits of graphs of all layers, on either clock; loads and memory are counted; what
 * does not go together is refused. TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "llm_open.h"
#include "llm_prompts.h"

#define DOCS6M "share/models/docs6m/docs6m-q8_0.gguf"
#define DOCS_TOKENS 400

static const enum llm_switching ways[] = { LLM_SWITCHING_RESIDENT, LLM_SWITCHING_SYNC,
					   LLM_SWITCHING_ASYNC, LLM_SWITCHING_PROGRESSIVE };
#define NR_WAYS 4

static struct llm_options options(const char *path)
{
	return (struct llm_options){
		.model = path,
		.choices = { .placement = LLM_PLACE_NPU, .graphs = LLM_GRAPHS_FIXED },
		.chunk = 32,
		.threads = 2,
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = 2 },
	};
}

/* ---- the same bits ---- */

static struct llm_options any_options(const char *path)
{
	static const enum llm_weights weights[] = { LLM_WEIGHTS_W8A8, LLM_WEIGHTS_W4A8,
						    LLM_WEIGHTS_W4A16 };
	struct llm_options o = options(path);

	o.choices.weights = weights[any(0, 2)];
	o.choices.kv = (enum llm_kv)any(LLM_KV_F16, LLM_KV_F32);
	o.choices.sync = (enum llm_sync)any(LLM_SYNC_FAST, LLM_SYNC_DRIVER);
	o.chunk = 8 * any(1, 8);
	return o;
}

static void check_bits(const struct llm_options *o, unsigned int n_vocab, unsigned int layers)
{
	const struct prompts p = prompts_of(n_vocab);
	char *want = logits_of(&p, o), *got;

	for (int i = 0; i < 2 * NR_WAYS; i++) {
		struct llm_options way = *o;

		way.choices.switching = ways[i / 2];
		way.choices.graphs = any(0, 1) ? LLM_GRAPHS_FIXED : LLM_GRAPHS_BUCKETED;
		way.decode_width = any(0, 1) ? o->chunk / (1u << any(1, 3)) : 0;
		way.block_layers = any(1, layers);
		way.profile = i % 2 ? "sd8gen3" : NULL;
		got = logits_of(&p, &way);
		if (memcmp(got, want, STEPS * p.bytes))
			fail_msg("switching %s, width %u of %u, blocks of %u: other logits",
				 llm_choice_name(LLM_CHOICE_SWITCHING, way.choices.switching),
				 way.decode_width, way.chunk, way.block_layers);
		free(got);
	}
	free(want);
}

static void switching_changes_no_bit(void **state)
{
	for (int i = 0; i < 6; i++) {
		const struct tiny_config c =
			tiny_any(tiny_any_arch(false), MAX_TOKENS, any(1, 4), 64, any(2, 5));
		struct llm_options o;
		struct tiny_model t;

		tiny_create(&t, &c, random_u64(&seed_state));
		tiny_write(&t);
		o = any_options(t.path);
		check_bits(&o, c.n_vocab, c.n_layer);
		tiny_free(&t);
	}
}

/* Greedy tokens after a prompt, in a session that has evaluated another text before. */
static void generate(const struct llm_options *o, const int32_t *prompt, size_t n, int32_t *out)
{
	struct llm_engine *engine = open_engine(o);
	struct llm_session *s = new_session(engine, DOCS_TOKENS);
	unsigned int n_vocab = llm_engine_info(engine)->n_vocab;

	assert_int_equal(llm_session_eval(s, prompt, n / 2), 0);
	assert_int_equal(llm_session_truncate(s, 0), 0);
	assert_int_equal(llm_session_eval(s, prompt, n), 0);
	for (int i = 0; i < 40; i++) {
		const float *logits = llm_session_logits(s);

		out[i] = 0;
		for (unsigned int t = 1; t < n_vocab; t++)
			out[i] = logits[t] > logits[out[i]] ? (int32_t)t : out[i];
		assert_int_equal(llm_session_eval(s, &out[i], 1), 0);
	}
	llm_session_free(s);
	llm_engine_close(engine);
}

static void a_trained_model_generates_the_same(void **state)
{
	int32_t prompt[300], want[40], got[40];
	struct llm_options o = options(DOCS6M);
	size_t n = any(20, 300);

	for (size_t i = 0; i < n; i++)
		prompt[i] = (int32_t)any(5, 2000);
	generate(&o, prompt, n, want);
	for (int i = 0; i < NR_WAYS; i++) {
		o.choices.switching = ways[i];
		o.decode_width = 1u << any(0, 4);
		o.block_layers = any(1, 6);
		generate(&o, prompt, n, got);
		assert_memory_equal(got, want, sizeof(want));
	}
}

/* The same with trees of drafts, whose graphs are not those of blocks. Half of the prompt twice, so
 * that there is something to draft. */
static void generate_drafted(const struct llm_options *o, const int32_t *prompt, size_t n,
			     int32_t *out)
{
	const struct llm_drafter_options d = { .draft = LLM_DRAFT_COORDGEN, .width = 8 };
	struct llm_engine *engine = open_engine(o);
	struct llm_session *s = new_session(engine, DOCS_TOKENS);
	struct llm_generate_options g = { .max_tokens = 40, .ignore_end = true, .ids = out };
	struct llm_drafter_stats stats;

	assert_int_equal(llm_drafter_create(engine, &d, &g.drafter), 0);
	assert_int_equal(llm_generate(s, prompt, n, &g, NULL), 0);
	llm_drafter_stats(g.drafter, &stats);
	assert_true(stats.trees > 0);
	llm_drafter_free(g.drafter);
	llm_session_free(s);
	llm_engine_close(engine);
}

static void trees_of_drafts_go_with_all_of_them(void **state)
{
	int32_t prompt[240], want[40], got[40];
	struct llm_options o = options(DOCS6M);

	for (size_t i = 0; i < 240; i++)
		prompt[i] = i < 120 ? (int32_t)any(5, 2000) : prompt[i - 120];
	generate(&o, prompt, 240, want);
	generate_drafted(&o, prompt, 240, got);
	assert_memory_equal(got, want, sizeof(want));
	for (int i = 0; i < NR_WAYS; i++) {
		o.choices.switching = ways[i];
		o.decode_width = 1u << any(0, 4);
		o.block_layers = any(1, 6);
		generate_drafted(&o, prompt, 240, got);
		assert_memory_equal(got, want, sizeof(want));
	}
}

/* ---- what is counted ---- */

static struct llm_switching_stats stats_of(const struct llm_session *s)
{
	struct llm_session_stats stats;

	llm_session_stats(s, &stats);
	return stats.switching;
}

static void eval(struct llm_session *s, size_t n)
{
	int32_t ids[MAX_TOKENS];

	for (size_t i = 0; i < n; i++)
		ids[i] = (int32_t)any(5, 200);
	if (llm_session_eval(s, ids, n))
		fail_msg("%s", llm_error());
}

/* The first pass of a text loads every block's graph, and no other does. */
static void check_counts(const struct llm_options *o, bool resident)
{
	struct llm_engine *engine = open_engine(o);
	struct llm_session *s = new_session(engine, MAX_TOKENS);
	const struct llm_engine_info *info = llm_engine_info(engine);
	unsigned int blocks = (info->n_layer + info->block_layers - 1) / info->block_layers,
		     per_text = resident ? 0 : blocks;
	struct llm_switching_stats first;

	assert_int_equal(info->decode_width, 8);
	eval(s, 100);
	first = stats_of(s);
	assert_int_equal(first.loads, per_text);
	assert_int_equal(first.load_ns > 0, !resident);
	assert_true(first.wait_ns > 0 || o->choices.switching != LLM_SWITCHING_SYNC);
	eval(s, 1);
	eval(s, 60);
	assert_int_equal(stats_of(s).loads, per_text);
	assert_int_equal(llm_session_truncate(s, 20), 0);
	eval(s, 60);
	assert_int_equal(stats_of(s).loads, per_text);
	assert_int_equal(llm_session_truncate(s, 0), 0);
	eval(s, 1);
	assert_int_equal(stats_of(s).loads, 2 * per_text);
	assert_int_equal(stats_of(s).graph_bytes, first.graph_bytes);
	if (resident)
		assert_true(first.graph_peak_bytes > first.graph_bytes);
	llm_session_free(s);
	llm_engine_close(engine);
}

static void each_text_switches_once(void **state)
{
	for (int i = 0; i < 3 * NR_WAYS; i++) {
		struct llm_options o = options(DOCS6M);

		o.choices.switching = ways[i / 3];
		o.block_layers = any(1, 6);
		o.profile = i % 3 ? "sd8gen2" : NULL;
		o.dry_run = i % 3 == 2;
		check_counts(&o, i < 3);
	}
}

/* A phone's graphs have their weights in them: the extra memory of each choice. */
static void the_memory_of_a_phone(void **state)
{
	uint64_t peak[NR_WAYS], one = 0;

	for (int i = 0; i < NR_WAYS; i++) {
		struct llm_options o = options(NULL);
		struct llm_engine *engine;
		struct llm_session *s;

		o.dry_run = true;
		o.shape = "qwen2.5-1.5b";
		o.profile = "sd8gen3";
		o.chunk = 256;
		o.choices.switching = ways[i];
		engine = open_engine(&o);
		s = new_session(engine, MAX_TOKENS);
		eval(s, MAX_TOKENS);
		peak[i] = stats_of(s).graph_peak_bytes;
		one = stats_of(s).graph_bytes;
		llm_session_free(s);
		llm_engine_close(engine);
	}
	assert_int_equal(peak[0], 2 * one);
	assert_int_equal(peak[1], one);
	assert_int_equal(peak[2], one);
	/* A block of 4 of 28 layers more. */
	assert_int_equal(peak[3], one + one / 7);
}

/* ---- what is refused ---- */

static void refuse(struct llm_options o, const char *with)
{
	struct llm_engine *engine;

	assert_int_equal(llm_engine_open(&o, &engine), -EINVAL);
	if (!strstr(llm_error(), with))
		fail_msg("'%s' is not in: %s", with, llm_error());
}

static void what_does_not_go_together_is_refused(void **state)
{
	struct llm_options good = options(DOCS6M), o;

	good.choices.switching = LLM_SWITCHING_PROGRESSIVE;
	o = good;
	o.choices.start = LLM_START_COLD;
	refuse(o, "start warm");
	o = good;
	o.choices.order = LLM_ORDER_LAYER;
	refuse(o, "order fifo");
	o = good;
	o.choices.placement = LLM_PLACE_FINE;
	refuse(o, "placement npu");
	o = good;
	o.decode_width = 12;
	refuse(o, "choose 8");
	o = good;
	o.decode_width = 64;
	refuse(o, "choose 8");
	o.decode_width = 32;
	refuse(o, "choose 8");
	o = good;
	o.chunk = 1;
	refuse(o, "longer chunks");
	o = good;
	o.block_layers = 7;
	refuse(o, "the model has 6");
	o = good;
	o.dry_run = true;
	o.model = NULL;
	o.shape = "qwen2.5-0.5b";
	o.profile = "sd8gen3";
	o.choices.placement = LLM_PLACE_FINE;
	o.choices.attention = LLM_ATTENTION_SPARSE;
	refuse(o, "attention full");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(switching_changes_no_bit),
		cmocka_unit_test(a_trained_model_generates_the_same),
		cmocka_unit_test(trees_of_drafts_go_with_all_of_them),
		cmocka_unit_test(each_text_switches_once),
		cmocka_unit_test(the_memory_of_a_phone),
		cmocka_unit_test(what_does_not_go_together_is_refused),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
