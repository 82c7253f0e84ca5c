// SPDX-License-Identifier: MIT
/*
 * Sessions with attention that is not full: with all keys the results of full attention, with
 * fewer the same bits whatever the threads, pipelines, placements, clocks and transports are, and
 * what a session has been through. TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "attention.h"
#include "engine.h"
#include "kernels.h"
#include "lane_attention.h"
#include "llm.h"
#include "llm_open.h"
#include "tiny_random.h"

#define MAX_TOKENS 400
#define MAX_LAYERS 4
#define MAX_HEADS 64
#define MAX_CHANNELS (MAX_LAYERS * 2 * 32)
/* Between logits by full attention and by all keys: other sums of the same products. */
#define BOUND 2e-3
/* And where the sums are rounded to INT8 behind it. */
#define COARSE_BOUND 5e-2

/* A model with a calibration of its attention: scales that its own evaluation has shown. */
struct calibrated {
	struct tiny_model t;
	float heads[MAX_LAYERS * MAX_HEADS], layers[MAX_LAYERS];
	float q[MAX_LAYERS * MAX_HEADS], k[MAX_LAYERS * MAX_HEADS], v[MAX_LAYERS * MAX_HEADS];
	bool balanced; /* by these: */
	float offsets[MAX_CHANNELS], balances[MAX_CHANNELS];
	float limit;
	int32_t ids[MAX_TOKENS];
};

static void observe(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
		    unsigned int rows, unsigned int cols, const float *data)
{
	struct calibrated *c = ud;
	unsigned int n = c->t.c.head_dim, heads = cols / n;
	float *scales = !strcmp(tensor, "q_rope")   ? c->q
			: !strcmp(tensor, "k_rope") ? c->k
			: !strcmp(tensor, "v")	    ? c->v
						    : NULL;

	for (unsigned int h = 0; scales && h < heads; h++)
		scales[layer * heads + h] = scale_buckets_scale(data + h * n, rows, n, cols);
}

static void eval(struct llm_session *s, const int32_t *ids, size_t n)
{
	if (llm_session_eval(s, ids, n))
		fail_msg("%s", llm_error());
}

static struct llm_options options_of(const struct calibrated *c, enum llm_attention attention,
				     double ratio)
{
	return (struct llm_options){
		.model = c->t.path,
		.choices = { .placement = LLM_PLACE_FINE,
			     .weights = LLM_WEIGHTS_W8A8,
			     .attention = attention },
		.threads = 1,
		.chunk = 64,
		.ratio = ratio,
		.sparse_from = 1,
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = 1 },
	};
}

/* Any that moves queries and keys well. */
static void add_balance(struct calibrated *c)
{
	unsigned int nq = c->t.c.n_layer * c->t.c.n_head, nk = c->t.c.n_layer * c->t.c.n_head_kv,
		     n = nk * c->t.c.head_dim;

	for (unsigned int i = 0; i < n; i++) {
		c->offsets[i] = (float)any(0, 200) * 1e-2f - 1;
		c->balances[i] = (float)any(50, 200) * 1e-2f;
	}
	tiny_array(&c->t, ATTENTION_KEY ".key_offsets", 'F', c->offsets, n);
	tiny_array(&c->t, ATTENTION_KEY ".balance", 'F', c->balances, n);
	tiny_array(&c->t, ATTENTION_KEY ".balanced_q_scales", 'F', c->q, nq);
	tiny_array(&c->t, ATTENTION_KEY ".balanced_k_scales", 'F', c->k, nk);
}

static void calibrated_create(struct calibrated *c, const char *arch)
{
	const struct tiny_config config = tiny_any(arch, MAX_TOKENS, any(1, MAX_LAYERS), 32, 4);
	unsigned int nq = config.n_layer * config.n_head, nk = config.n_layer * config.n_head_kv;
	struct llm_options o;
	struct llm_engine *engine;
	struct llm_session *s;

	tiny_create(&c->t, &config, random_u64(&seed_state));
	tiny_write(&c->t);
	for (int i = 0; i < MAX_TOKENS; i++)
		c->ids[i] = (int32_t)any(0, config.n_vocab - 1);
	o = options_of(c, LLM_ATTENTION_FULL, 0);
	engine = open_engine(&o);
	s = new_session(engine, MAX_TOKENS);
	llm_session_observe(s, observe, c);
	eval(s, c->ids, 60);
	llm_session_free(s);
	llm_engine_close(engine);
	c->limit = 1;
	for (unsigned int i = 0; i < nq; i++)
		c->heads[i] = (float)any(1, 9) * 1e-3f;
	for (unsigned int i = 0; i < config.n_layer; i++)
		c->layers[i] = (float)any(1, 9) * 1e-2f;
	tiny_key(&c->t, ATTENTION_KEY, 'u', ATTENTION_VERSION, NULL);
	tiny_array(&c->t, ATTENTION_KEY ".head_importance", 'F', c->heads, nq);
	tiny_array(&c->t, ATTENTION_KEY ".layer_importance", 'F', c->layers, config.n_layer);
	tiny_array(&c->t, ATTENTION_KEY ".limit", 'F', &c->limit, 1);
	tiny_array(&c->t, ATTENTION_KEY ".q_scales", 'F', c->q, nq);
	tiny_array(&c->t, ATTENTION_KEY ".k_scales", 'F', c->k, nk);
	tiny_array(&c->t, ATTENTION_KEY ".v_scales", 'F', c->v, nk);
	c->balanced = any(0, 1);
	if (c->balanced)
		add_balance(c);
	tiny_write(&c->t);
}

/* Logits after a prompt, two single tokens, and another prompt: [3][n_vocab]. */
static float *logits_of(const struct calibrated *c, const struct llm_options *o)
{
	struct llm_engine *engine = open_engine(o);
	struct llm_session *s = new_session(engine, MAX_TOKENS);
	size_t n = c->t.c.n_vocab;
	float *logits = malloc(3 * n * sizeof(*logits));

	eval(s, c->ids, 200);
	memcpy(logits, llm_session_logits(s), n * sizeof(*logits));
	eval(s, c->ids + 200, 1);
	eval(s, c->ids + 201, 1);
	memcpy(logits + n, llm_session_logits(s), n * sizeof(*logits));
	eval(s, c->ids + 202, 150);
	memcpy(logits + 2 * n, llm_session_logits(s), n * sizeof(*logits));
	llm_session_free(s);
	llm_engine_close(engine);
	return logits;
}

static void assert_same(const struct calibrated *c, const float *want, const struct llm_options *o)
{
	float *got = logits_of(c, o);

	assert_memory_equal(want, got, 3 * c->t.c.n_vocab * sizeof(*got));
	free(got);
}

/* ---- all keys ---- */

/* @n logits. */
static void assert_near(const float *want, const float *got, size_t n, double bound)
{
	double worst = 0, most = 0;

	for (size_t i = 0; i < n; i++) {
		worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
		most = fmax(most, fabs((double)want[i]));
	}
	if (!(worst <= bound * most))
		fail_msg("%g of %g", worst, most);
}

/* With weights and caches of floats, since what is rounded to integers changes by steps. */
static void with_all_blocks_results_are_near_full_attention(void **state)
{
	static const char *const archs[] = { "llama", "qwen2", "qwen3" };

	for (int a = 0; a < 3; a++) {
		struct calibrated c;
		struct llm_options o;
		float *full, *got;

		calibrated_create(&c, archs[a]);
		o = options_of(&c, LLM_ATTENTION_FULL, 1);
		o.choices.placement = LLM_PLACE_CPU;
		o.choices.weights = LLM_WEIGHTS_F32;
		full = logits_of(&c, &o);
		o.choices.attention = LLM_ATTENTION_BLOCK;
		got = logits_of(&c, &o);
		assert_near(full, got, 3 * c.t.c.n_vocab, BOUND);
		free(got);
		free(full);
		tiny_free(&c.t);
	}
}

/* From half of the keys on heads have full attention, to the bit. */
static void heads_that_keep_half_have_full_attention(void **state)
{
	static const char *const archs[] = { "llama", "qwen2", "qwen3" };

	for (int a = 0; a < 3; a++) {
		struct calibrated c;
		struct llm_options o;
		float *full;

		calibrated_create(&c, archs[a]);
		o = options_of(&c, LLM_ATTENTION_FULL, 0.5f);
		full = logits_of(&c, &o);
		o.choices.ratios = LLM_RATIOS_UNIFORM;
		o.choices.attention = LLM_ATTENTION_SPARSE;
		assert_same(&c, full, &o);
		o.profile = "sd8gen3";
		assert_same(&c, full, &o);
		o.profile = NULL;
		o.choices.decode = LLM_DECODE_SPARSE;
		assert_same(&c, full, &o);
		o.choices.attention = LLM_ATTENTION_SHADOW;
		assert_same(&c, full, &o);
		o.choices.decode = LLM_DECODE_FULL;
		o.threads = 2;
		o.choices.pipeline = LLM_PIPELINE_SEQUENTIAL;
		assert_same(&c, full, &o);
		o.profile = "sd8gen3";
		assert_same(&c, full, &o);
		free(full);
		tiny_free(&c.t);
	}
}

/* With those of heads that have full attention. */
static void the_mean_share_of_the_keys_is_the_ratio(void **state)
{
	for (int k = 0; k < 40; k++) {
		double ratio = any(1, 8) / 20.0, sum = 0;
		struct calibrated c;
		struct llm_options o;
		struct llm_engine *engine;
		const struct attention *a;

		calibrated_create(&c, "llama");
		o = options_of(&c, k % 2 ? LLM_ATTENTION_SHADOW : LLM_ATTENTION_SPARSE, ratio);
		o.choices.placement = k % 2 ? LLM_PLACE_FINE : LLM_PLACE_CPU;
		o.choices.weights = k % 2 ? LLM_WEIGHTS_W8A8 : LLM_WEIGHTS_F32;
		engine = open_engine(&o);
		a = engine->attention;
		for (unsigned int i = 0; i < a->layers * a->heads; i++)
			sum += attention_whole(a, i / a->heads, i % a->heads) ? 1 : a->ratios[i];
		assert_true(fabs(sum / (a->layers * a->heads) - ratio) < 1e-12);
		llm_engine_close(engine);
		tiny_free(&c.t);
	}
}

/* The logits after as many tokens as a query keeps keys at least. */
static float *short_logits(const struct calibrated *c, const struct llm_options *o,
			   struct llm_attention_stats *stats)
{
	struct llm_engine *engine = open_engine(o);
	struct llm_session *s = new_session(engine, MAX_TOKENS);
	size_t bytes = c->t.c.n_vocab * sizeof(float);
	struct llm_session_stats all;
	float *logits = malloc(bytes);

	eval(s, c->ids, 16);
	memcpy(logits, llm_session_logits(s), bytes);
	llm_session_stats(s, &all);
	*stats = all.attention;
	llm_session_free(s);
	llm_engine_close(engine);
	return logits;
}

/* Where heads that choose find every key, logits are near those of full attention, whose heads are
 * all of the other kind. With @o's attention one head of each layer has full attention. */
static void assert_beside(const struct calibrated *c, const struct llm_options *o, double bound)
{
	struct llm_options all = *o;
	struct llm_attention_stats stats;
	float *full, *got = short_logits(c, o, &stats);

	assert_int_equal(stats.selected, stats.visible);
	if (o->choices.attention == LLM_ATTENTION_SHADOW)
		assert_int_equal(stats.heads, c->t.c.n_layer * (c->t.c.n_head - 1));
	all.choices.attention = LLM_ATTENTION_FULL;
	full = short_logits(c, &all, &stats);
	assert_near(full, got, c->t.c.n_vocab, bound);
	free(full);
	free(got);
}

static void an_important_head_has_full_attention_beside_others(void **state)
{
	struct calibrated c;
	struct llm_options o;
	double ratio;

	calibrated_create(&c, "llama");
	/* One head of each layer has all keys, the others have a tenth on average. */
	for (unsigned int i = 0; i < c.t.c.n_layer * c.t.c.n_head; i++)
		c.heads[i] = i % c.t.c.n_head ? 1e-4f : 1;
	for (unsigned int i = 0; i < c.t.c.n_layer; i++)
		c.layers[i] = 1;
	tiny_write(&c.t);
	ratio = (1 + 0.1 * (c.t.c.n_head - 1)) / c.t.c.n_head;
	o = options_of(&c, LLM_ATTENTION_SHADOW, ratio);
	for (o.threads = 1; o.threads <= 3; o.threads++) {
		assert_beside(&c, &o, COARSE_BOUND);
		o.profile = o.profile ? NULL : "sd8gen3";
	}
	o = options_of(&c, LLM_ATTENTION_SPARSE, ratio);
	o.choices.placement = LLM_PLACE_CPU;
	o.choices.weights = LLM_WEIGHTS_F32;
	assert_beside(&c, &o, BOUND);
	tiny_free(&c.t);
}

/* ---- the same bits ---- */

static void results_do_not_depend_on_how_it_is_run(void **state)
{
	static const struct {
		enum llm_attention attention;
		enum llm_decode decode;
	} ways[] = { { LLM_ATTENTION_SPARSE, LLM_DECODE_FULL },
		     { LLM_ATTENTION_BLOCK, LLM_DECODE_FULL },
		     { LLM_ATTENTION_NPU, LLM_DECODE_FULL },
		     { LLM_ATTENTION_SHADOW, LLM_DECODE_FULL },
		     { LLM_ATTENTION_SHADOW, LLM_DECODE_SPARSE } };

	for (size_t k = 0; k < sizeof(ways) / sizeof(ways[0]); k++) {
		struct calibrated c;
		struct llm_options o;
		float *want;

		calibrated_create(&c, "llama");
		o = options_of(&c, ways[k].attention, 0.3f);
		o.choices.decode = ways[k].decode;
		want = logits_of(&c, &o);
		assert_same(&c, want, &o);
		o.threads = 3;
		o.device.threads = 2;
		assert_same(&c, want, &o);
		o.profile = "sd8gen3";
		assert_same(&c, want, &o);
		o.choices.order = LLM_ORDER_LAYER;
		assert_same(&c, want, &o);
		o.profile = NULL;
		assert_same(&c, want, &o);
		o.choices.order = LLM_ORDER_AUTO;
		o.choices.placement = LLM_PLACE_LINEAR;
		o.choices.graphs = LLM_GRAPHS_SHARED;
		assert_same(&c, want, &o);
		for (enum llm_floats f = LLM_FLOATS_CPU; f <= LLM_FLOATS_ALL; f++) {
			o.choices.floats = f;
			assert_same(&c, want, &o);
		}
		for (enum llm_pipeline p = LLM_PIPELINE_INSERTION; p <= LLM_PIPELINE_GREEDY; p++) {
			o.choices.pipeline = p;
			assert_same(&c, want, &o);
		}
		free(want);
		tiny_free(&c.t);
	}
}

static void a_session_that_went_back_computes_the_same(void **state)
{
	struct calibrated c;
	struct llm_options o;
	struct llm_engine *engine;
	struct llm_session *s;
	float *want;

	calibrated_create(&c, "qwen2");
	o = options_of(&c, LLM_ATTENTION_SHADOW, 0.3f);
	want = logits_of(&c, &o);
	engine = open_engine(&o);
	s = new_session(engine, MAX_TOKENS);
	/* Other tokens, of which nothing may be left. */
	eval(s, c.ids + 100, 250);
	assert_int_equal(llm_session_truncate(s, 0), 0);
	eval(s, c.ids, 200);
	assert_memory_equal(want, llm_session_logits(s), c.t.c.n_vocab * sizeof(*want));
	llm_session_free(s);
	llm_engine_close(engine);
	free(want);
	tiny_free(&c.t);
}

/* The logits behind 200 tokens, of which the last 100 are evaluated after others were forgotten. */
static void assert_forgotten(const struct calibrated *c, const struct llm_options *o)
{
	struct llm_engine *engine = open_engine(o);
	struct llm_session *plain = new_session(engine, MAX_TOKENS),
			   *back = new_session(engine, MAX_TOKENS);

	eval(plain, c->ids, 100);
	eval(plain, c->ids + 100, 100);
	eval(back, c->ids, 100);
	eval(back, c->ids + 200, 200);
	assert_int_equal(llm_session_truncate(back, 100), 0);
	eval(back, c->ids + 100, 100);
	assert_memory_equal(llm_session_logits(plain), llm_session_logits(back),
			    c->t.c.n_vocab * sizeof(float));
	llm_session_free(plain);
	llm_session_free(back);
	llm_engine_close(engine);
}

/* Among them the greatest keys of some heads: with buckets so near to each other they change the
 * scales of these. */
static void tokens_that_were_forgotten_change_no_scale(void **state)
{
	for (int k = 0; k < 8; k++) {
		struct calibrated c;
		struct llm_options o;

		calibrated_create(&c, "llama");
		o = options_of(&c, k % 2 ? LLM_ATTENTION_SHADOW : LLM_ATTENTION_NPU, 0.3);
		o.scale_buckets = 81;
		o.scale_step = 0.9f;
		assert_forgotten(&c, &o);
		tiny_free(&c.t);
	}
}

/* The logits of a random path that was kept of a random tree behind @n tokens, and of a prompt
 * behind it: [2][n_vocab]; or by evaluating the path token by token. */
static void go_on(const struct calibrated *c, const struct llm_options *o,
		  const struct llm_tree *tree, const uint8_t *path, unsigned int n, float *logits)
{
	struct llm_engine *engine = open_engine(o);
	struct llm_session *s = new_session(engine, MAX_TOKENS);
	size_t bytes = c->t.c.n_vocab * sizeof(*logits);

	eval(s, c->ids, 200);
	if (tree && (llm_verify_tree(s, tree) || llm_tree_keep(s, path, n)))
		fail_msg("%s", llm_error());
	for (unsigned int i = 0; i < n && !tree; i++)
		eval(s, c->ids + path[i], 1);
	memcpy(logits, llm_session_logits(s), bytes);
	eval(s, c->ids + 202, 100);
	memcpy(logits + c->t.c.n_vocab, llm_session_logits(s), bytes);
	llm_session_free(s);
	llm_engine_close(engine);
}

/* Trees have full attention, as tokens do; prompts behind them choose among their keys too. */
static void paths_of_trees_that_are_kept_are_as_tokens(void **state)
{
	static const enum llm_attention kinds[] = { LLM_ATTENTION_SPARSE, LLM_ATTENTION_BLOCK,
						    LLM_ATTENTION_SHADOW, LLM_ATTENTION_NPU };
	static const uint8_t parents[] = { 0, 0, 1, 1, 3, 0, 4 }, path[] = { 0, 1, 3, 4, 6 };

	for (int k = 0; k < 4; k++) {
		struct calibrated c;
		struct llm_tree tree = { 7, c.ids, parents };
		struct llm_options o;
		float *want, *got;
		size_t bytes;

		calibrated_create(&c, "llama");
		bytes = 2 * c.t.c.n_vocab * sizeof(*want);
		want = malloc(bytes);
		got = malloc(bytes);
		o = options_of(&c, kinds[k], 0.3f);
		go_on(&c, &o, NULL, path, 5, want);
		go_on(&c, &o, &tree, path, 5, got);
		assert_memory_equal(want, got, bytes);
		free(want);
		free(got);
		tiny_free(&c.t);
	}
}

static void trees_are_refused_where_tokens_are_sparse(void **state)
{
	static const uint8_t parents[] = { 0, 0 };
	struct calibrated c;
	struct llm_tree tree = { 2, c.ids, parents };
	struct llm_engine *engine;
	struct llm_session *s;
	struct llm_options o;

	calibrated_create(&c, "llama");
	o = options_of(&c, LLM_ATTENTION_SPARSE, 0.3f);
	o.choices.decode = LLM_DECODE_SPARSE;
	engine = open_engine(&o);
	s = new_session(engine, MAX_TOKENS);
	assert_int_equal(llm_verify_tree(s, &tree), -ENOTSUP);
	assert_non_null(strstr(llm_error(), "choose decode full"));
	llm_session_free(s);
	llm_engine_close(engine);
	tiny_free(&c.t);
}

/* ---- what the NPU is given ---- */

#define SHOWN 64

/* Queries of the last layer, and all keys. */
struct shown {
	float q[SHOWN * MAX_HEADS * 32], k[MAX_LAYERS][SHOWN * 2 * 32];
};

static void show(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
		 unsigned int rows, unsigned int cols, const float *data)
{
	struct shown *s = ud;

	if (!strcmp(tensor, "q_rope"))
		memcpy(s->q + pos * cols, data, rows * cols * sizeof(*data));
	else if (!strcmp(tensor, "k_rope"))
		memcpy(s->k[layer] + pos * cols, data, rows * cols * sizeof(*data));
}

static void assert_queries(const struct shown *s, const struct lane_attention *t)
{
	unsigned int dim = t->a->head_dim;
	float want[32];

	for (unsigned int h = 0; h < t->a->heads; h++)
		for (unsigned int r = 0; r < SHOWN; r++) {
			const char *got = (const char *)t->q.data + lane_q_off(t, h, r);

			attention_query(t->a, t->a->layers - 1, h, want,
					s->q + (r * t->a->heads + h) * dim);
			assert_memory_equal(got, want, dim * sizeof(*want));
		}
}

static void assert_keys(const struct shown *s, const struct lane_attention *t, unsigned int layer,
			unsigned int head)
{
	const struct fw_kernels *kernels = fw_kernels_get(FW_ISA_AUTO);
	unsigned int dim = t->a->head_dim;
	float rows[SHOWN * 32], scale;
	size_t bytes = VNPU_QK_PANEL_BYTES(dim);
	uint8_t *want = aligned_alloc(64, bytes);

	for (unsigned int r = 0; r < SHOWN; r++)
		memcpy(rows + r * dim, s->k[layer] + (r * t->a->kv_heads + head) * dim,
		       dim * sizeof(*rows));
	attention_keys(t->a, layer, head, rows, SHOWN);
	scale = t->a->buckets.k[scale_buckets_nearest_k(
		&t->a->buckets, scale_buckets_scale(rows, SHOWN, dim, dim))];
	kernels->pack_keys(want, rows, dim, SHOWN, dim, 0, scale);
	assert_memory_equal((const char *)t->keys.data + lane_keys_off(t, layer, head), want,
			    bytes);
	free(want);
}

/* As attention_query() and attention_keys() say, or as they are. */
static void the_npu_gets_balanced_queries_and_keys(void **state)
{
	for (int i = 0; i < 6; i++) {
		struct calibrated c;
		struct shown *shown = calloc(1, sizeof(*shown));
		const struct lane_attention *t;
		struct llm_engine *engine;
		struct llm_session *s;
		struct llm_options o;

		calibrated_create(&c, "llama");
		o = options_of(&c, LLM_ATTENTION_SHADOW, 0.3f);
		o.choices.kv = LLM_KV_F32;
		/* A layer whose heads all have full attention is given nothing. */
		o.choices.ratios = LLM_RATIOS_UNIFORM;
		engine = open_engine(&o);
		s = new_session(engine, MAX_TOKENS);
		llm_session_observe(s, show, shown);
		eval(s, c.ids, SHOWN);
		t = s->memory.attention;
		assert_int_equal(t->a->balance != NULL, c.balanced);
		assert_queries(shown, t);
		for (unsigned int h = 0; h < t->a->layers * t->a->kv_heads; h++)
			assert_keys(shown, t, h / t->a->kv_heads, h % t->a->kv_heads);
		llm_session_free(s);
		llm_engine_close(engine);
		free(shown);
		tiny_free(&c.t);
	}
}

/* Which shows that attention npu's queries and keys stay as they are. */
static void attention_npu_is_not_balanced(void **state)
{
	struct calibrated c;
	struct llm_options o;
	float *want;

	calibrated_create(&c, "llama");
	if (c.balanced)
		c.t.n_keys -= 4;
	tiny_write(&c.t);
	o = options_of(&c, LLM_ATTENTION_NPU, 0);
	want = logits_of(&c, &o);
	add_balance(&c);
	tiny_write(&c.t);
	assert_same(&c, want, &o);
	free(want);
	tiny_free(&c.t);
}

/* ---- what is refused, and counted ---- */

static void shadow_needs_a_calibrated_file(void **state)
{
	struct calibrated c;
	struct llm_options o;
	struct llm_engine *engine;

	calibrated_create(&c, "llama");
	o = options_of(&c, LLM_ATTENTION_SHADOW, 0);
	o.choices.placement = LLM_PLACE_CPU;
	assert_int_equal(llm_engine_open(&o, &engine), -EINVAL);
	assert_non_null(strstr(llm_error(), "placement cpu has no"));
	o.choices.placement = LLM_PLACE_FINE;
	o.scale_buckets = 4;
	assert_int_equal(llm_engine_open(&o, &engine), -EINVAL);
	assert_non_null(strstr(llm_error(), "odd number"));
	o.scale_buckets = 0;
	o.ratio = 1.5;
	assert_int_equal(llm_engine_open(&o, &engine), -EINVAL);
	assert_non_null(strstr(llm_error(), "ratio"));
	o.ratio = 0;
	tiny_free(&c.t);
	memset(&c, 0, sizeof(c));
	{
		const struct tiny_config config = tiny_any("llama", MAX_TOKENS, 2, 32, 4);

		tiny_create(&c.t, &config, 1);
		tiny_write(&c.t);
	}
	o.model = c.t.path;
	assert_int_equal(llm_engine_open(&o, &engine), -ENODATA);
	assert_non_null(strstr(llm_error(), "llm-quantize --calibrate"));
	tiny_free(&c.t);
}

static void what_was_selected_is_counted(void **state)
{
	struct calibrated c;
	struct llm_options o;
	struct llm_engine *engine;
	struct llm_session *s;
	struct llm_session_stats stats;
	double share;

	calibrated_create(&c, "llama");
	o = options_of(&c, LLM_ATTENTION_SHADOW, 0.4f);
	o.choices.ratios = LLM_RATIOS_UNIFORM;
	engine = open_engine(&o);
	s = new_session(engine, MAX_TOKENS);
	eval(s, c.ids, 320);
	llm_session_stats(s, &stats);
	share = (double)stats.attention.selected / (double)stats.attention.visible;
	assert_int_equal(stats.attention.visible, 320ull * 321 / 2 * c.t.c.n_layer * c.t.c.n_head);
	/* Early queries keep more than their share. */
	assert_true(share > 0.4 && share < 0.6);
	assert_int_equal(stats.attention.heads, 5 * c.t.c.n_layer * c.t.c.n_head);
	assert_true(stats.attention.launches <= stats.attention.heads);
	assert_true(stats.attention.jobs >= stats.attention.launches);
	llm_session_free(s);
	llm_engine_close(engine);
	tiny_free(&c.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_all_blocks_results_are_near_full_attention),
		cmocka_unit_test(heads_that_keep_half_have_full_attention),
		cmocka_unit_test(the_mean_share_of_the_keys_is_the_ratio),
		cmocka_unit_test(an_important_head_has_full_attention_beside_others),
		cmocka_unit_test(results_do_not_depend_on_how_it_is_run),
		cmocka_unit_test(a_session_that_went_back_computes_the_same),
		cmocka_unit_test(tokens_that_were_forgotten_change_no_scale),
		cmocka_unit_test(paths_of_trees_that_are_kept_are_as_tokens),
		cmocka_unit_test(trees_are_refused_where_tokens_are_sparse),
		cmocka_unit_test(the_npu_gets_balanced_queries_and_keys),
		cmocka_unit_test(attention_npu_is_not_balanced),
		cmocka_unit_test(shadow_needs_a_calibrated_file),
		cmocka_unit_test(what_was_selected_is_counted),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
