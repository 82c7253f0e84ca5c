// SPDX-License-Identifier: MIT
/*
 * What a calibration says of attention: the importance of a head and of a layer is that of a model
 * whose weights leave it out, and scales are those of what a session shows. Random weights;
 * TEST_SEED=N repeats a run.
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
#include "llm_quantize.h"
#include "tiny_random.h"

#define WINDOW 64
/* Nats a token; the losses are sums of floats in another order. */
#define BOUND 1e-5

static char text[2 * WINDOW];

static struct tiny_config config(void)
{
	struct tiny_config c = tiny_any("llama", WINDOW, 2, 16, 2);

	/* The bytes' tokens. */
	c.n_vocab = 300;
	return c;
}

static void make_text(void)
{
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + any(0, 25));
}

/* ---- a file, and its keys ---- */

static struct gguf_file *calibrated_file(const char *model, unsigned int head_tokens)
{
	struct llm_calibrate_options o = {
		LLM_CALIBRATE_DEFAULTS, .model = model, .text = text,
		.bytes = sizeof(text),	.threads = 2,
	};
	struct llm_quantize_options q = { .in = model };
	struct llm_calibration *c;
	char err[256], path[] = "/tmp/test_calibrate_attention-XXXXXX";
	struct gguf_file *file;
	int fd = mkstemp(path);

	o.head_tokens = head_tokens;
	if (llm_calibrate(&o, &c))
		fail_msg("%s", llm_error());
	q.calibration = c;
	q.out = path;
	if (llm_quantize(&q, NULL))
		fail_msg("%s", llm_error());
	assert_int_equal(gguf_open(path, &file, err, sizeof(err)), 0);
	llm_calibration_free(c);
	unlink(path);
	close(fd);
	return file;
}

static float value(const struct gguf_file *file, const char *key, size_t n, size_t i)
{
	const float *values;
	float v;
	size_t has;

	assert_int_equal(gguf_f32_array(file, key, &values, &has), 0);
	assert_int_equal(has, n);
	memcpy(&v, (const char *)values + i * sizeof(v), sizeof(v));
	return v;
}

/* ---- losses ---- */

struct loss {
	const int32_t *ids;
	unsigned int n_vocab;
	double nats;
};

static void add(void *ud, size_t i, const float *logits)
{
	struct loss *l = ud;
	double sum = 0;

	if (i + 1 == WINDOW)
		return;
	for (unsigned int v = 0; v < l->n_vocab; v++)
		sum += exp((double)logits[v]);
	l->nats += log(sum) - (double)logits[l->ids[i + 1]];
}

static struct llm_engine *open_engine(const char *model)
{
	const struct llm_options o = { .model = model,
				       .choices = { .placement = LLM_PLACE_CPU,
						    .weights = LLM_WEIGHTS_F32,
						    .kv = LLM_KV_F32 },
				       .threads = 1 };
	struct llm_engine *engine;

	if (llm_engine_open(&o, &engine))
		fail_msg("%s", llm_error());
	return engine;
}

/* Of the text's first window, a token. Closes the engine. */
static double loss_of_engine(struct llm_engine *engine)
{
	struct llm_session *s;
	int32_t ids[2 * sizeof(text)];
	long n = llm_tokenize(engine, text, sizeof(text), LLM_TOKENIZE_BOS, ids,
			      sizeof(ids) / sizeof(ids[0]));
	struct loss l = { ids, llm_engine_info(engine)->n_vocab, 0 };

	assert_true(n >= WINDOW);
	if (llm_session_create(engine, WINDOW, &s) || llm_session_eval_all(s, ids, WINDOW, add, &l))
		fail_msg("%s", llm_error());
	llm_session_free(s);
	llm_engine_close(engine);
	return l.nats / (WINDOW - 1);
}

static double loss_of(const char *model)
{
	return loss_of_engine(open_engine(model));
}

/* With sparse attention, and a mean ratio that is divided as @ratios says. */
static double sparse_loss_of(const char *model, enum llm_ratios ratios, double ratio)
{
	const struct llm_options o = { .model = model,
				       .choices = { .placement = LLM_PLACE_CPU,
						    .weights = LLM_WEIGHTS_F32,
						    .kv = LLM_KV_F32,
						    .attention = LLM_ATTENTION_SPARSE,
						    .ratios = ratios },
				       .ratio = ratio,
				       .sparse_from = 1,
				       .threads = 1 };
	struct llm_engine *engine;

	if (llm_engine_open(&o, &engine))
		fail_msg("%s", llm_error());
	return loss_of_engine(engine);
}

/* Zeroes columns of a matrix, whose inputs then do not matter. */
static void zero_columns(struct tiny_model *t, unsigned int layer, const char *what, size_t first,
			 size_t n)
{
	struct tiny_tensor *w;
	char name[64];

	snprintf(name, sizeof(name), "blk.%u.%s.weight", layer, what);
	w = tiny_find(t, name);
	for (size_t r = 0; r < w->dims[1]; r++)
		memset(w->data + r * w->dims[0] + first, 0, n * sizeof(*w->data));
}

/* ---- tests ---- */

static void importance_is_the_loss_without_a_head_or_layer(void **state)
{
	const struct tiny_config c = config();
	uint64_t seed = random_u64(&seed_state);
	unsigned int heads = c.n_layer * c.n_head;
	struct gguf_file *file;
	struct tiny_model t;
	double all;

	make_text();
	tiny_create(&t, &c, seed);
	file = calibrated_file(tiny_write(&t), WINDOW);
	all = loss_of(t.path);
	tiny_free(&t);
	for (unsigned int i = 0; i < heads + c.n_layer; i++) {
		bool head = i < heads;
		unsigned int layer = head ? i / c.n_head : i - heads, h = i % c.n_head;
		double got = head ? (double)value(file, ATTENTION_KEY ".head_importance", heads, i)
				  : (double)value(file, ATTENTION_KEY ".layer_importance",
						  c.n_layer, layer);

		tiny_create(&t, &c, seed);
		zero_columns(&t, layer, "attn_output", head ? h * c.head_dim : 0,
			     head ? c.head_dim : c.n_head * c.head_dim);
		if (!head)
			zero_columns(&t, layer, "ffn_down", 0, c.n_ff);
		assert_float_equal(got, loss_of(tiny_write(&t)) - all, BOUND);
		tiny_free(&t);
	}
	assert_true(value(file, ATTENTION_KEY ".limit", 1, 0) > 0);
	gguf_close(file);
}

/* The others have a quarter of 0.2: of a file whose keys say that this head alone has a gain. */
static void gain_is_the_loss_that_a_head_with_all_keys_saves(void **state)
{
	const struct tiny_config c = config();
	uint64_t seed = random_u64(&seed_state);
	unsigned int n = c.n_layer * c.n_head;
	float only[2 * 64] = { 0 }, limit = 1;
	struct gguf_file *file;
	struct tiny_model t;
	double few;

	make_text();
	tiny_create(&t, &c, seed);
	file = calibrated_file(tiny_write(&t), WINDOW);
	few = sparse_loss_of(t.path, LLM_RATIOS_UNIFORM, 0.05);
	tiny_free(&t);
	for (unsigned int i = 0; i < n; i++) {
		only[i] = 1;
		tiny_create(&t, &c, seed);
		tiny_key(&t, ATTENTION_KEY, 'u', ATTENTION_VERSION, NULL);
		tiny_array(&t, ATTENTION_KEY ".head_gain", 'F', only, n);
		tiny_array(&t, ATTENTION_KEY ".gain_limit", 'F', &limit, 1);
		assert_float_equal(value(file, ATTENTION_KEY ".head_gain", n, i),
				   few - sparse_loss_of(tiny_write(&t), LLM_RATIOS_GAIN,
							(1 + (n - 1) * 0.05) / n),
				   BOUND);
		tiny_free(&t);
		only[i] = 0;
	}
	assert_true(value(file, ATTENTION_KEY ".gain_limit", 1, 0) > 0);
	gguf_close(file);
}

static void refused(struct tiny_model *t, const char *why)
{
	const struct llm_options o = { .model = tiny_write(t),
				       .choices = { .placement = LLM_PLACE_CPU,
						    .attention = LLM_ATTENTION_SPARSE },
				       .threads = 1 };
	struct llm_engine *engine;

	assert_int_equal(llm_engine_open(&o, &engine), -EINVAL);
	if (!strstr(llm_error(), why))
		fail_msg("%s: not %s", llm_error(), why);
}

/* A file that has one of the keys is not taken for an older one, which has neither. */
static void bad_gains_are_refused_by_name(void **state)
{
	const struct tiny_config c = config();
	unsigned int n = c.n_layer * c.n_head;
	float gains[2 * 64] = { 0 }, limits[] = { 1, -1 };
	struct tiny_model t;

	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_key(&t, ATTENTION_KEY, 'u', ATTENTION_VERSION, NULL);
	tiny_array(&t, ATTENTION_KEY ".head_gain", 'F', gains, n);
	refused(&t, "no key " ATTENTION_KEY ".gain_limit");
	t.n_keys--;
	tiny_array(&t, ATTENTION_KEY ".gain_limit", 'F', limits, 1);
	refused(&t, "no key " ATTENTION_KEY ".head_gain");
	tiny_array(&t, ATTENTION_KEY ".head_gain", 'F', gains, n - 1);
	refused(&t, ATTENTION_KEY ".head_gain has ");
	t.n_keys -= 2;
	tiny_array(&t, ATTENTION_KEY ".gain_limit", 'F', limits + 1, 1);
	tiny_array(&t, ATTENTION_KEY ".head_gain", 'F', gains, n);
	refused(&t, ATTENTION_KEY ".gain_limit holds -1");
	tiny_free(&t);
}

/* The greatest magnitude of a head of @shown. */
struct shown {
	const struct tiny_config *c;
	float q[2 * 64], k[2 * 64], v[2 * 64]; /* of the last window */
};

static void show(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
		 unsigned int rows, unsigned int cols, const float *data)
{
	struct shown *s = ud;
	unsigned int dim = s->c->head_dim, heads = cols / dim;
	float *to = !strcmp(tensor, "q_rope")	? s->q
		    : !strcmp(tensor, "k_rope") ? s->k
		    : !strcmp(tensor, "v")	? s->v
						: NULL;

	for (unsigned int h = 0; to && h < heads; h++)
		to[layer * heads + h] = scale_buckets_scale(data + h * dim, rows, dim, cols);
}

static void scales_are_means_over_chunks(void **state)
{
	const struct tiny_config c = config();
	unsigned int nq = c.n_layer * c.n_head, nk = c.n_layer * c.n_head_kv;
	struct shown windows[2];
	struct llm_engine *engine;
	struct llm_session *s;
	struct gguf_file *file;
	int32_t ids[2 * sizeof(text)];
	struct tiny_model t;

	make_text();
	tiny_create(&t, &c, random_u64(&seed_state));
	file = calibrated_file(tiny_write(&t), 0);
	engine = open_engine(t.path);
	llm_tokenize(engine, text, sizeof(text), LLM_TOKENIZE_BOS, ids,
		     sizeof(ids) / sizeof(ids[0]));
	if (llm_engine_info(engine)->add_bos)
		ids[WINDOW] = ids[0];
	assert_int_equal(llm_session_create(engine, WINDOW, &s), 0);
	for (int w = 0; w < 2; w++) {
		windows[w] = (struct shown){ .c = &c };
		llm_session_observe(s, show, &windows[w]);
		assert_int_equal(llm_session_truncate(s, 0), 0);
		assert_int_equal(llm_session_eval(s, ids + w * WINDOW, WINDOW), 0);
	}
	for (unsigned int i = 0; i < nq; i++)
		assert_float_equal(value(file, ATTENTION_KEY ".q_scales", nq, i),
				   (windows[0].q[i] + windows[1].q[i]) / 2, 1e-6);
	for (unsigned int i = 0; i < nk; i++) {
		assert_float_equal(value(file, ATTENTION_KEY ".k_scales", nk, i),
				   (windows[0].k[i] + windows[1].k[i]) / 2, 1e-6);
		assert_float_equal(value(file, ATTENTION_KEY ".v_scales", nk, i),
				   (windows[0].v[i] + windows[1].v[i]) / 2, 1e-6);
	}
	/* Without the tokens for it, nothing is known of importance. */
	for (unsigned int i = 0; i < nq; i++) {
		assert_true(value(file, ATTENTION_KEY ".head_importance", nq, i) == 0);
		assert_true(value(file, ATTENTION_KEY ".head_gain", nq, i) == 0);
	}
	llm_session_free(s);
	llm_engine_close(engine);
	gguf_close(file);
	tiny_free(&t);
}

/* Sums over the chunks of a text, as the estimate would take its queries and keys. */
struct balanced {
	const struct attention *a;
	double q[2 * 64], k[2 * 64]; /* scales */
	double keys[2 * 64 * 64]; /* values by channel */
};

static void add_balanced(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
			 unsigned int rows, unsigned int cols, const float *data)
{
	struct balanced *b = ud;
	unsigned int dim = b->a->head_dim, heads = cols / dim;
	bool q = !strcmp(tensor, "q_rope"), k = !strcmp(tensor, "k_rope");
	float head[WINDOW * 64];

	for (unsigned int h = 0; h < heads && (q || k); h++) {
		for (unsigned int r = 0; r < rows; r++)
			if (q)
				attention_query(b->a, layer, h, head + r * dim,
						data + r * cols + h * dim);
			else
				memcpy(head + r * dim, data + r * cols + h * dim,
				       dim * sizeof(*head));
		if (k)
			attention_keys(b->a, layer, h, head, rows);
		(q ? b->q : b->k)[layer * heads + h] +=
			(double)scale_buckets_scale(head, rows, dim, dim);
		for (unsigned int i = 0; k && i < rows * dim; i++)
			b->keys[(layer * heads + h) * dim + i % dim] += (double)head[i];
	}
}

static struct attention *read_attention(const struct gguf_file *file, const struct llm_engine *e)
{
	const struct llm_choices choices = { .attention = LLM_ATTENTION_SHADOW,
					     .ratios = LLM_RATIOS_UNIFORM };
	const struct attention_options o = {
		.shape = &e->shape,
		.choices = &choices,
		.file = file,
		.path = "calibrated",
		.ratio = 0.2,
		.buckets = 9,
		.step = 0.5,
	};
	struct attention *a;

	if (attention_create(&o, &a))
		fail_msg("%s", llm_error());
	return a;
}

/* Of the text that was calibrated with: keys are around 0, and the mean scale is 1. */
static void balanced_heads_are_in_the_middle(void **state)
{
	const struct tiny_config c = config();
	struct llm_engine *engine;
	struct llm_session *s;
	struct gguf_file *file;
	struct attention *a;
	struct balanced sums = { 0 };
	int32_t ids[2 * sizeof(text)];
	struct tiny_model t;

	make_text();
	tiny_create(&t, &c, random_u64(&seed_state));
	file = calibrated_file(tiny_write(&t), 0);
	engine = open_engine(t.path);
	sums.a = a = read_attention(file, engine);
	assert_non_null(a->balance);
	llm_tokenize(engine, text, sizeof(text), LLM_TOKENIZE_BOS, ids,
		     sizeof(ids) / sizeof(ids[0]));
	if (llm_engine_info(engine)->add_bos)
		ids[WINDOW] = ids[0];
	assert_int_equal(llm_session_create(engine, WINDOW, &s), 0);
	llm_session_observe(s, add_balanced, &sums);
	for (int w = 0; w < 2; w++) {
		assert_int_equal(llm_session_truncate(s, 0), 0);
		assert_int_equal(llm_session_eval(s, ids + w * WINDOW, WINDOW), 0);
	}
	for (unsigned int i = 0; i < a->layers * a->heads; i++)
		assert_float_equal(sums.q[i] / 2, 1, 1e-4);
	for (unsigned int i = 0; i < a->layers * a->kv_heads; i++)
		assert_float_equal(sums.k[i] / 2, 1, 1e-4);
	for (unsigned int i = 0; i < a->layers * a->kv_heads * a->head_dim; i++)
		assert_float_equal(sums.keys[i] / (2 * WINDOW), 0, 127 * 1e-4);
	llm_session_free(s);
	llm_engine_close(engine);
	attention_free(a);
	gguf_close(file);
	tiny_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(importance_is_the_loss_without_a_head_or_layer),
		cmocka_unit_test(gain_is_the_loss_that_a_head_with_all_keys_saves),
		cmocka_unit_test(bad_gains_are_refused_by_name),
		cmocka_unit_test(scales_are_means_over_chunks),
		cmocka_unit_test(balanced_heads_are_in_the_middle),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
