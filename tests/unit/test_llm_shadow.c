// SPDX-License-Identifier: MIT
/*
 * Shadow outliers in sessions: matmuls with static scales and what the CPU adds to them, against
 * double precision; and the same bits whatever the placement, chunks, orders, subgraphs, clocks and
 * threads are. TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
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

#include "llm.h"
#include "llm_open.h"
#include "soc.h"
#include "tiny_random.h"
#include "tiny_shadow.h"

#define MAX_TOKENS 300

static struct tiny_config config(const char *arch)
{
	return tiny_any(arch, MAX_TOKENS, any(1, 3), 32, any(2, 4));
}

/* A calibrated model with other scales for each input. Some values of norms are beyond 127 scales.
 */
struct calibrated {
	struct tiny_model t;
	struct tiny_shadow shadow;
	int32_t ids[MAX_TOKENS];
	float pruning; /* of the engines; negative: none */
	enum llm_activations activations; /* theirs too */
};

static void calibrated_create(struct calibrated *c, const char *arch)
{
	const struct tiny_config config_ = config(arch);

	tiny_create(&c->t, &config_, random_u64(&seed_state));
	tiny_shadow(&c->t, &c->shadow, config_.n_layer * SHADOW_INPUTS);
	for (unsigned int i = 0; i < c->shadow.n; i++)
		c->shadow.scales[i] = 0x1p-7f * (1 + 0.0625f * (float)i);
	tiny_write(&c->t);
	c->pruning = -1;
	c->activations = LLM_ACTIVATIONS_STATIC;
	for (int i = 0; i < MAX_TOKENS; i++)
		c->ids[i] = (int32_t)any(0, config_.n_vocab - 1);
}

static struct llm_options defaults(const struct calibrated *c)
{
	return (struct llm_options){
		.model = c->t.path,
		.choices = { .placement = LLM_PLACE_LINEAR,
			     .weights = LLM_WEIGHTS_W8A8,
			     .activations = c->activations,
			     .graphs = LLM_GRAPHS_SHARED },
		.pruning = c->pruning,
		.threads = 1,
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = 1 },
	};
}

/* ---- the same bits ---- */

struct logits {
	float *last;
	size_t bytes;
};

/* Logits after a prompt of @n tokens, then a token, then a prompt of @more, one after another. */
static struct logits logits_of(const struct calibrated *c, const struct llm_options *o,
			       unsigned int n, unsigned int more)
{
	struct llm_engine *engine = open_engine(o);
	struct llm_session *s = new_session(engine, MAX_TOKENS);
	size_t bytes = c->t.c.n_vocab * sizeof(float);
	struct logits l = { malloc(3 * bytes), 3 * bytes };
	const unsigned int steps[] = { n, 1, more };
	unsigned int done = 0;

	for (int i = 0; i < 3; i++) {
		if (llm_session_eval(s, c->ids + done, steps[i]))
			fail_msg("%s", llm_error());
		done += steps[i];
		memcpy((char *)l.last + (size_t)i * bytes, llm_session_logits(s), bytes);
	}
	llm_session_free(s);
	llm_engine_close(engine);
	return l;
}

/* The profile of a soc whose NPU has not room for all weights. */
#define SMALL "small"

struct way {
	const char *what;
	/* graphs, floats, order, space, start and, if it is fine, placement of it */
	struct llm_choices choices;
	bool chunks; /* of some length; else the whole prompt at once */
	const char *profile;
	bool threads;
};

static void check_way(const struct calibrated *c, const struct way *w, const char *small,
		      const struct logits *want, unsigned int n, unsigned int more)
{
	struct llm_options o = defaults(c);
	struct logits got;

	o.choices.graphs = w->choices.graphs;
	o.choices.floats = w->choices.floats;
	o.choices.order = w->choices.order;
	o.choices.space = w->choices.space;
	o.choices.start = w->choices.start;
	if (w->choices.placement == LLM_PLACE_FINE)
		o.choices.placement = LLM_PLACE_FINE;
	o.chunk = w->chunks ? any(1, 60) : 0;
	o.profile = w->profile && !strcmp(w->profile, SMALL) ? small : w->profile;
	o.threads = o.device.threads = w->threads ? 3 : 1;
	got = logits_of(c, &o, n, more);
	assert_int_equal(got.bytes, want->bytes);
	if (memcmp(got.last, want->last, want->bytes))
		fail_msg("%s, chunks of %u: other logits after %u, 1 and %u tokens", w->what,
			 o.chunk, n, more);
	free(got.last);
}

static const struct way ways[] = {
	{ "a part of it on the CPU",
	  { .order = LLM_ORDER_OOE, .graphs = LLM_GRAPHS_SHARED, .space = LLM_SPACE_LIMITED },
	  true,
	  SMALL,
	  false },
	{ "a part of it and norms on the CPU",
	  { .order = LLM_ORDER_OOE, .floats = LLM_FLOATS_NORMS, .space = LLM_SPACE_LIMITED },
	  true,
	  SMALL,
	  false },
	{ "in order", { .order = LLM_ORDER_FIFO }, true, NULL, false },
	{ "by chunk", { .order = LLM_ORDER_CHUNK, .graphs = LLM_GRAPHS_SHARED }, true, NULL, true },
	{ "by layer", { .order = LLM_ORDER_LAYER, .graphs = LLM_GRAPHS_SHARED }, true, NULL, true },
	{ "out of order",
	  { .order = LLM_ORDER_OOE, .graphs = LLM_GRAPHS_SHARED },
	  true,
	  NULL,
	  true },
	{ "out of order, virtual",
	  { .order = LLM_ORDER_OOE, .graphs = LLM_GRAPHS_SHARED },
	  true,
	  "sd8gen3",
	  false },
	{ "norms", { .order = LLM_ORDER_OOE, .floats = LLM_FLOATS_NORMS }, true, NULL, true },
	{ "norms, virtual",
	  { .order = LLM_ORDER_CHUNK, .floats = LLM_FLOATS_NORMS },
	  true,
	  "sd8gen2",
	  false },
	{ "npu", { .floats = LLM_FLOATS_NPU }, false, NULL, true },
	{ "npu, out of order",
	  { .order = LLM_ORDER_OOE, .floats = LLM_FLOATS_NPU },
	  true,
	  NULL,
	  true },
	{ "npu, virtual",
	  { .order = LLM_ORDER_OOE, .floats = LLM_FLOATS_NPU },
	  true,
	  "sd8elite",
	  false },
	{ "attention too", { .floats = LLM_FLOATS_ALL }, false, NULL, true },
	{ "attention too, out of order",
	  { .order = LLM_ORDER_OOE, .floats = LLM_FLOATS_ALL },
	  true,
	  NULL,
	  true },
	{ "attention too, virtual",
	  { .order = LLM_ORDER_OOE, .floats = LLM_FLOATS_ALL },
	  true,
	  "sd8gen3",
	  false },
	{ "fine", { .placement = LLM_PLACE_FINE, .order = LLM_ORDER_FIFO }, true, NULL, true },
	{ "fine by layer",
	  { .placement = LLM_PLACE_FINE, .order = LLM_ORDER_LAYER, .graphs = LLM_GRAPHS_FIXED },
	  true,
	  NULL,
	  true },
	{ "fine, of which the CPU takes some",
	  { .placement = LLM_PLACE_FINE, .order = LLM_ORDER_STEAL },
	  true,
	  NULL,
	  true },
	{ "the same from a cold start, virtual",
	  { .placement = LLM_PLACE_FINE, .order = LLM_ORDER_STEAL, .start = LLM_START_COLD },
	  true,
	  "sd8elite",
	  false },
	{ "graphs of the prompt", { .graphs = LLM_GRAPHS_ONLINE }, false, NULL, false },
};
#define NR_WAYS (sizeof(ways) / sizeof(ways[0]))

/* A soc whose NPU has room for so many bytes of weights; the file is the caller's to unlink. */
static void write_small_soc(char path[32], double bytes)
{
	char from[512], line[512];
	FILE *in = soc_open_file("profiles", "VNPU_PROFILES", "sd8gen3", from, sizeof(from)), *out;
	int fd;

	assert_non_null(in);
	snprintf(path, 32, "/tmp/small-XXXXXX.conf");
	fd = mkstemps(path, 5);
	assert_true(fd >= 0);
	out = fdopen(fd, "w");
	while (fgets(line, sizeof(line), in)) {
		if (strstr(line, "space_gib"))
			snprintf(line, sizeof(line), "space_gib = %.12f @ assumed: a test\n",
				 bytes / 1073741824);
		fputs(line, out);
	}
	fclose(in);
	assert_int_equal(fclose(out), 0);
}

static void test_results_have_the_same_bits_in_any_order(void **state)
{
	static const char *const archs[] = { "llama", "qwen2", "qwen3" };

	for (size_t a = 0; a < 3; a++) {
		char small[32];
		unsigned int n = any(100, 200), more = any(2, 90);
		struct logits want;
		struct calibrated c;
		struct llm_options o;

		calibrated_create(&c, archs[a]);
		c.pruning = (float[]){ -1, 0.5f, 1 }[any(0, 2)];
		if (a == 2)
			c.activations = LLM_ACTIVATIONS_STATIC_MAX;
		o = defaults(&c);
		want = logits_of(&c, &o, n, more);
		write_small_soc(small, any(0, 4 * c.t.c.n_layer * c.t.c.n_embd * c.t.c.n_ff));
		for (size_t w = 0; w < NR_WAYS; w++)
			check_way(&c, &ways[w], small, &want, n, more);
		free(want.last);
		unlink(small);
		tiny_free(&c.t);
	}
}

/* ---- memory ---- */

static uint64_t kv_bytes(const struct calibrated *c, enum llm_graphs graphs)
{
	struct llm_options o = defaults(c);
	struct llm_session_stats stats;
	struct llm_engine *engine;
	struct llm_session *s;

	o.choices.graphs = graphs;
	engine = open_engine(&o);
	s = new_session(engine, MAX_TOKENS);
	llm_session_stats(s, &stats);
	llm_session_free(s);
	llm_engine_close(engine);
	return stats.kv_bytes;
}

/* Graphs of a prompt's own length write no padding behind it. */
static void test_graphs_online_pad_no_cache(void **state)
{
	struct calibrated c;

	calibrated_create(&c, "llama");
	assert_int_equal(kv_bytes(&c, LLM_GRAPHS_ONLINE) * (MAX_TOKENS + LLM_BUCKET_ROWS),
			 kv_bytes(&c, LLM_GRAPHS_BUCKETED) * MAX_TOKENS);
	tiny_free(&c.t);
}

/* ---- against double precision ---- */

/* What an observer saw of one layer: rows of a chunk. */
struct seen {
	const char *name;
	unsigned int layer, rows, cols;
	float *data;
};
#define MAX_SEEN 128

struct seen_all {
	struct seen list[MAX_SEEN];
	unsigned int n;
};

static void look(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
		 unsigned int rows, unsigned int cols, const float *data)
{
	struct seen_all *all = ud;
	struct seen *s = &all->list[all->n++];

	assert_true(all->n <= MAX_SEEN);
	*s = (struct seen){ strdup(tensor), layer, rows, cols,
			    malloc((size_t)rows * cols * sizeof(float)) };
	memcpy(s->data, data, (size_t)rows * cols * sizeof(float));
}

static const struct seen *seen_find(const struct seen_all *all, const char *name,
				    unsigned int layer)
{
	for (unsigned int i = 0; i < all->n; i++)
		if (all->list[i].layer == layer && !strcmp(all->list[i].name, name))
			return &all->list[i];
	fail_msg("no tensor %s of layer %u", name, layer);
	return NULL;
}

static void seen_free(struct seen_all *all)
{
	for (unsigned int i = 0; i < all->n; i++) {
		free((char *)all->list[i].name);
		free(all->list[i].data);
	}
}

/* One result: clamped integers times INT8 weights, and what was clamped times the file's. */
static double expect(const struct tiny_tensor *w, const float *bias, unsigned int n, const float *x,
		     double x_scale, bool outliers, double *bound)
{
	const float *row = w->data + n * w->dims[0];
	float max = 0;
	double scale, sum = bias ? (double)bias[n] : 0;

	for (size_t k = 0; k < w->dims[0]; k++)
		max = fabsf(row[k]) > max ? fabsf(row[k]) : max;
	scale = (double)(max / 127);
	*bound = 1e-6;
	for (size_t k = 0; k < w->dims[0]; k++) {
		double q = nearbyint((double)x[k] / x_scale), w8;

		q = q > 127 ? 127 : q < -127 ? -127 : q;
		w8 = scale > 0 ? nearbyint((double)(row[k] / (float)scale)) * scale : 0;
		sum += q * x_scale * w8;
		*bound += fabs(q * x_scale * w8) * 1e-5;
		if (outliers && fabs((double)x[k]) > 127 * x_scale) {
			sum += ((double)x[k] - q * x_scale) * (double)row[k];
			/* The weights are in F16. */
			*bound += fabs(((double)x[k] - q * x_scale) * (double)row[k]) * 0x1p-10;
		}
	}
	return sum;
}

/* Returns the values of the input that are outliers. */
static unsigned int check_matmul(const struct calibrated *c, const struct seen_all *all,
				 unsigned int layer, unsigned int number, const char *input,
				 const char *output, const char *matrix, bool outliers)
{
	double scale = (double)c->shadow.scales[layer * SHADOW_INPUTS + number];
	const struct seen *x = seen_find(all, input, layer), *y = seen_find(all, output, layer);
	const struct tiny_tensor *w, *b = NULL;
	unsigned int beyond = 0;
	char name[64];

	snprintf(name, sizeof(name), "blk.%u.%s.weight", layer, matrix);
	w = tiny_find((struct tiny_model *)&c->t, name);
	snprintf(name, sizeof(name), "blk.%u.%s.bias", layer, matrix);
	for (unsigned int i = 0; i < c->t.n_tensors; i++)
		if (!strcmp(c->t.tensors[i].name, name))
			b = &c->t.tensors[i];
	assert_true(w->dims[0] == x->cols && w->dims[1] == y->cols && x->rows == y->rows);
	for (unsigned int r = 0; r < x->rows; r++) {
		const float *row = x->data + (size_t)r * x->cols;

		for (unsigned int k = 0; k < x->cols; k++)
			beyond += fabsf(row[k]) > (float)(127 * scale);
		for (unsigned int n = 0; n < y->cols; n++) {
			double bound, want = expect(w, b ? b->data : NULL, n, row, scale, outliers,
						    &bound);
			double got = (double)y->data[(size_t)r * y->cols + n];

			if (!(fabs(got - want) <= bound))
				fail_msg("layer %u, %s, row %u, channel %u: %.9g, expected %.9g "
					 "within %.2g",
					 layer, output, r, n, got, want, bound);
		}
	}
	return beyond;
}

/* @outliers: of the first layer's inputs; those of the others are pruned. */
static unsigned int check_layers(const struct calibrated *c, const struct seen_all *all,
				 bool outliers)
{
	static const struct {
		unsigned int number; /* of the input */
		const char *input, *output, *matrix;
	} matmuls[] = {
		{ 0, "attn_norm", "q", "attn_q" },     { 0, "attn_norm", "k", "attn_k" },
		{ 0, "attn_norm", "v", "attn_v" },     { 1, "attn", "attn_output", "attn_output" },
		{ 2, "ffn_norm", "gate", "ffn_gate" }, { 2, "ffn_norm", "up", "ffn_up" },
		{ 3, "act", "down", "ffn_down" },
	};
	unsigned int beyond = 0;

	for (unsigned int layer = 0; layer < c->t.c.n_layer; layer++)
		for (size_t i = 0; i < sizeof(matmuls) / sizeof(matmuls[0]); i++)
			beyond += check_matmul(c, all, layer, matmuls[i].number, matmuls[i].input,
					       matmuls[i].output, matmuls[i].matrix, outliers);
	return beyond;
}

/* With all inputs kept, and with all of them pruned. */
static void test_matmuls_are_those_of_double_precision(void **state)
{
	static const char *const archs[] = { "llama", "qwen2", "qwen3" };

	for (size_t a = 0; a < 3; a++) {
		struct calibrated c;

		calibrated_create(&c, archs[a]);
		for (int pruned = 0; pruned < 2; pruned++) {
			struct llm_options o = defaults(&c);
			struct seen_all all = { .n = 0 };
			struct llm_engine *engine;
			struct llm_session *s;

			o.pruning = pruned ? 1 : -1;
			engine = open_engine(&o);
			s = new_session(engine, MAX_TOKENS);
			llm_session_observe(s, look, &all);
			if (llm_session_eval(s, c.ids, 40))
				fail_msg("%s", llm_error());
			if (!check_layers(&c, &all, !pruned))
				fail_msg("no outliers were there");
			llm_session_free(s);
			llm_engine_close(engine);
			seen_free(&all);
		}
		tiny_free(&c.t);
	}
}

/* ---- weights in memory, and from the file ---- */

static void test_hot_channels_are_in_memory_and_others_are_read(void **state)
{
	struct llm_session_stats before, after;
	struct llm_engine *engine;
	struct llm_session *s;
	struct calibrated c;
	struct llm_options o;
	uint64_t hot = 0, all = 0;

	calibrated_create(&c, "llama");
	o = defaults(&c);
	engine = open_engine(&o);
	s = new_session(engine, MAX_TOKENS);
	for (unsigned int i = 0; i < c.shadow.n; i++) {
		const struct tiny_tensor *w;
		char name[64];

		snprintf(name, sizeof(name), "blk.%u.%s.shadow", i / SHADOW_INPUTS,
			 shadow_input_names[i % SHADOW_INPUTS]);
		w = tiny_find(&c.t, name);
		hot += TINY_HOT * w->dims[0] * 2;
		all += w->dims[1] * w->dims[0] * 2;
	}
	llm_session_stats(s, &before);
	assert_int_equal(before.shadow.hot_bytes, hot);
	assert_int_equal(before.shadow.all_bytes, all);
	assert_int_equal(before.shadow.reads, 0);
	if (llm_session_eval(s, c.ids, 100))
		fail_msg("%s", llm_error());
	llm_session_stats(s, &after);
	assert_true(after.shadow.reads > 0);
	assert_int_equal(after.shadow.merges, c.shadow.n);
	assert_true(after.shadow.outliers >= after.shadow.reads && after.shadow.ns > 0);
	assert_true(after.shadow.read_bytes > after.shadow.reads * 2 * c.t.c.n_embd - 1);
	/* A token's activations have a scale of their own, and no outliers on the CPU. */
	if (llm_session_eval(s, c.ids, 1))
		fail_msg("%s", llm_error());
	llm_session_stats(s, &before);
	assert_int_equal(before.shadow.reads, after.shadow.reads);
	assert_int_equal(before.shadow.merges, after.shadow.merges);
	llm_session_free(s);
	llm_engine_close(engine);
	tiny_free(&c.t);
}

static void test_a_file_without_calibration_is_refused(void **state)
{
	const struct tiny_config cfg = config("llama");
	struct llm_engine *engine;
	struct calibrated c;
	struct llm_options o;

	tiny_create(&c.t, &cfg, 1);
	tiny_write(&c.t);
	c.pruning = -1;
	c.activations = LLM_ACTIVATIONS_STATIC;
	o = defaults(&c);
	assert_int_equal(llm_engine_open(&o, &engine), -ENODATA);
	assert_non_null(strstr(llm_error(), "llm-quantize --calibrate"));
	tiny_free(&c.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_results_have_the_same_bits_in_any_order),
		cmocka_unit_test(test_graphs_online_pad_no_cache),
		cmocka_unit_test(test_matmuls_are_those_of_double_precision),
		cmocka_unit_test(test_hot_channels_are_in_memory_and_others_are_read),
		cmocka_unit_test(test_a_file_without_calibration_is_refused),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
