// SPDX-License-Identifier: MIT
/*
 * Balancing keeps the order of a query's scores, a calibration's statistics are those of the values
 * that it was shown, and files have them whole, not at all, or are refused. TEST_SEED=N repeats a
 * run.
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
#include "balance_stats.h"
#include "cpu_sparse.h"
#include "tiny_random.h"

#define LAYERS 2
#define KV_HEADS 3
#define MAX_GROUP 4
#define MAX_HEADS (KV_HEADS * MAX_GROUP)
#define MAX_DIM 128
#define KEYS 200

/* A file's arrays. */
static struct constants {
	unsigned int group, dim;
	float offsets[LAYERS * KV_HEADS * MAX_DIM], balances[LAYERS * KV_HEADS * MAX_DIM];
	/* And one value more than a file shall have. */
	float s_q[LAYERS * MAX_HEADS + 1], s_k[LAYERS * KV_HEADS + 1];
} of;

static float q[MAX_DIM], k[KEYS][MAX_DIM], bq[MAX_DIM], bk[KEYS][MAX_DIM];

/* ---- the order of scores ---- */

static float any_float(void)
{
	return (float)any(0, 2000000) / 1e6f - 1;
}

static float any_power(int most)
{
	return ldexpf(1, (int)any(0, 2 * (unsigned int)most) - most);
}

/* Integers and powers of two, whose products and sums are exact; or anything. */
static void make_constants(bool exact, unsigned int dim)
{
	of.group = any(1, MAX_GROUP);
	of.dim = dim;
	for (unsigned int i = 0; i < LAYERS * KV_HEADS * of.dim; i++) {
		of.offsets[i] = exact ? (float)any(0, 16) - 8 : any_float();
		of.balances[i] = exact ? any_power(3) : 1.01f + any_float();
	}
	for (unsigned int i = 0; i < LAYERS * KV_HEADS * of.group; i++)
		of.s_q[i] = exact ? any_power(3) : 1.01f + any_float();
	for (unsigned int i = 0; i < LAYERS * KV_HEADS; i++)
		of.s_k[i] = exact ? any_power(3) : 1.01f + any_float();
}

static void make_rows(bool exact)
{
	for (unsigned int c = 0; c < of.dim; c++)
		q[c] = exact ? (float)any(0, 64) - 32 : any_float();
	for (unsigned int i = 0; i < KEYS; i++)
		for (unsigned int c = 0; c < of.dim; c++)
			k[i][c] = exact ? (float)any(0, 64) - 32 : any_float();
}

static double dot(const float *a, const float *b)
{
	double sum = 0;

	for (unsigned int c = 0; c < of.dim; c++)
		sum += (double)a[c] * (double)b[c];
	return sum;
}

/* Balances the rows as of a random head, and returns that. */
static unsigned int balance_rows(void)
{
	unsigned int heads = KV_HEADS * of.group, layer = any(0, LAYERS - 1),
		     head = any(0, heads - 1);
	struct balance *b = balance_create(LAYERS, heads, KV_HEADS, of.dim);

	assert_true(balance_set(b, of.offsets, of.balances, of.s_q, of.s_k));
	balance_query(b, layer, head, bq, q);
	for (unsigned int i = 0; i < KEYS; i++)
		balance_key(b, layer, head / of.group, bk[i], k[i]);
	balance_free(b);
	return layer * heads + head;
}

/* The score of balanced rows as it would be of the rows themselves, less the offset's. */
static double unscaled(unsigned int at, unsigned int i)
{
	return dot(bq, bk[i]) * (double)of.s_q[at] * (double)of.s_k[at / of.group];
}

static void balanced_scores_select_the_same_keys(void **state)
{
	const struct cpu_sparse *kernels = cpu_sparse_get(NULL);

	for (int n = 0; n < 50; n++) {
		float scores[2][KEYS];
		uint32_t found[2][KEYS + CPU_SPARSE_SLACK], keep = any(1, KEYS);
		unsigned int at;

		make_constants(true, any(1, MAX_DIM));
		make_rows(true);
		at = balance_rows();
		for (unsigned int i = 0; i < KEYS; i++) {
			assert_true(unscaled(at, i) ==
				    dot(q, k[i]) - dot(q, of.offsets + at / of.group * of.dim));
			scores[0][i] = (float)dot(q, k[i]);
			scores[1][i] = (float)dot(bq, bk[i]);
		}
		assert_int_equal(kernels->select_f32(found[0], scores[0], KEYS, keep), keep);
		assert_int_equal(kernels->select_f32(found[1], scores[1], KEYS, keep), keep);
		assert_memory_equal(found[0], found[1], keep * sizeof(found[0][0]));
	}
}

/* Three roundings of a key and two of a query, each below 2^-24 of its value. */
static void balanced_scores_differ_by_a_constant(void **state)
{
	for (int n = 0; n < 50; n++) {
		const float *offsets;
		unsigned int at;

		make_constants(false, any(1, MAX_DIM));
		make_rows(false);
		at = balance_rows();
		offsets = of.offsets + at / of.group * of.dim;
		for (unsigned int i = 0; i < KEYS; i++) {
			double bound = 0, want = dot(q, k[i]) - dot(q, offsets);

			for (unsigned int c = 0; c < of.dim; c++)
				bound += fabs((double)q[c] * (double)(k[i][c] - offsets[c]));
			assert_true(fabs(unscaled(at, i) - want) <= 8 * ldexp(bound, -24));
		}
	}
}

static void factors_are_normal_floats(void **state)
{
	const float zero = 0, one = 1, tiny = 1e-30f, huge = 1e30f;
	struct balance *b = balance_create(1, 1, 1, 1);
	float to;

	balance_query(b, 0, 0, &to, &huge);
	assert_true(to == huge);
	balance_key(b, 0, 0, &to, &huge);
	assert_true(to == huge);
	assert_true(balance_set(b, &zero, &tiny, &tiny, &huge));
	assert_false(balance_set(b, &zero, &huge, &tiny, &one));
	assert_false(balance_set(b, &zero, &huge, &one, &huge));
	assert_false(balance_set(b, &zero, &tiny, &huge, &one));
	balance_free(b);
}

/* ---- statistics ---- */

#define CHUNKS 4 /* two windows */
#define ROWS 20
#define WINDOW_CHUNKS 2

static struct {
	unsigned int group, dim;
	float q[CHUNKS][ROWS * MAX_HEADS * MAX_DIM], k[CHUNKS][ROWS * KV_HEADS * MAX_DIM];
} shown;

static float *query_of(unsigned int chunk, unsigned int row, unsigned int head)
{
	return shown.q[chunk] + (row * KV_HEADS * shown.group + head) * shown.dim;
}

static float *key_of(unsigned int chunk, unsigned int row, unsigned int kv_head)
{
	return shown.k[chunk] + (row * KV_HEADS + kv_head) * shown.dim;
}

/* Channels differ, and keys have a constant part. */
static void make_shown(void)
{
	shown.group = any(1, MAX_GROUP);
	shown.dim = any(1, 8) * 4;
	for (unsigned int j = 0; j < CHUNKS; j++)
		for (unsigned int r = 0; r < ROWS; r++) {
			unsigned int n = KV_HEADS * shown.dim;

			for (unsigned int i = 0; i < n * shown.group; i++)
				query_of(j, r, 0)[i] = any_float() * (float)(1 + i % 7);
			for (unsigned int i = 0; i < n; i++)
				key_of(j, r, 0)[i] = any_float() * (float)(1 + i % 5) + i % 3;
		}
}

/* One evaluation. */
static void show(struct balance_stats *s)
{
	for (unsigned int j = 0; j < CHUNKS; j++) {
		balance_stats_queries(s, 0, ROWS, shown.q[j]);
		balance_stats_keys(s, 0, j % WINDOW_CHUNKS * ROWS, ROWS, shown.k[j]);
	}
}

static void start(struct balance_stats *s)
{
	if (balance_stats_init(s, 1, KV_HEADS * shown.group, KV_HEADS, shown.dim))
		fail_msg("%s", llm_error());
	show(s);
	if (balance_stats_settle(s))
		fail_msg("%s", llm_error());
	show(s);
}

static void assert_channel(const struct balance_stats *s, unsigned int kv_head, unsigned int c)
{
	unsigned int at = kv_head * shown.dim + c;
	double sum = 0, most_k = 0, most_q = 0;

	for (unsigned int i = 0; i < CHUNKS * ROWS; i++)
		sum += (double)key_of(i / ROWS, i % ROWS, kv_head)[c] / (CHUNKS * ROWS);
	assert_float_equal(s->offsets[at], sum, 1e-5);
	for (unsigned int i = 0; i < CHUNKS * ROWS; i++) {
		float key = key_of(i / ROWS, i % ROWS, kv_head)[c];

		most_k = fmax(most_k, fabs((double)(key - s->offsets[at])));
		for (unsigned int h = 0; h < shown.group; h++) {
			unsigned int head = kv_head * shown.group + h;

			most_q = fmax(most_q, fabs((double)query_of(i / ROWS, i % ROWS, head)[c]));
		}
	}
	assert_float_equal(s->balances[at], sqrt(most_k / most_q), 1e-5);
}

/* Of a head's chunks, as its values are with the statistics' own constants: 1. */
static void assert_mean_scale(const struct balance *b, unsigned int head, bool keys)
{
	float most = 0, row[MAX_DIM];
	double mean = 0;

	for (unsigned int i = 0; i < CHUNKS * ROWS; i++) {
		if (i % (keys ? WINDOW_CHUNKS * ROWS : ROWS) == 0)
			most = 0;
		if (keys)
			balance_key(b, 0, head, row, key_of(i / ROWS, i % ROWS, head));
		else
			balance_query(b, 0, head, row, query_of(i / ROWS, i % ROWS, head));
		most = fmaxf(most, scale_buckets_scale(row, 1, shown.dim, shown.dim));
		if (i % ROWS == ROWS - 1)
			mean += (double)most / CHUNKS;
	}
	assert_float_equal(mean, 1, 1e-5);
}

static void statistics_are_of_what_was_shown(void **state)
{
	for (int n = 0; n < 20; n++) {
		float s_q[MAX_HEADS], s_k[KV_HEADS];
		struct balance_stats s;
		struct balance *b;

		make_shown();
		start(&s);
		for (unsigned int c = 0; c < KV_HEADS * shown.dim; c++)
			assert_channel(&s, c / shown.dim, c % shown.dim);
		b = balance_create(1, KV_HEADS * shown.group, KV_HEADS, shown.dim);
		for (unsigned int h = 0; h < KV_HEADS * shown.group; h++)
			s_q[h] = (float)scale_mean(&s.q_scales[h]);
		for (unsigned int h = 0; h < KV_HEADS; h++)
			s_k[h] = (float)scale_mean(&s.k_scales[h]);
		assert_true(balance_set(b, s.offsets, s.balances, s_q, s_k));
		for (unsigned int h = 0; h < KV_HEADS * shown.group; h++)
			assert_mean_scale(b, h, false);
		for (unsigned int h = 0; h < KV_HEADS; h++)
			assert_mean_scale(b, h, true);
		balance_free(b);
		balance_stats_fini(&s);
	}
}

static void chunks_that_are_not_finite_are_left_out(void **state)
{
	struct balance_stats with, without;

	make_shown();
	start(&without);
	if (balance_stats_init(&with, 1, KV_HEADS * shown.group, KV_HEADS, shown.dim))
		fail_msg("%s", llm_error());
	for (int run = 0; run < 2; run++) {
		float *query = query_of(0, ROWS / 2, 0), *key = key_of(0, ROWS / 2, 0),
		      was_query = query[1], was_key = key[1];

		query[1] = run ? NAN : INFINITY;
		key[1] = run ? -INFINITY : NAN;
		balance_stats_queries(&with, 0, ROWS, shown.q[0]);
		balance_stats_keys(&with, 0, 0, ROWS, shown.k[0]);
		query[1] = was_query;
		key[1] = was_key;
		/* Of the other heads a chunk more was shown: they are not compared. */
		show(&with);
		if (!run)
			assert_int_equal(balance_stats_settle(&with), 0);
	}
	assert_memory_equal(with.offsets, without.offsets, shown.dim * sizeof(float));
	assert_memory_equal(with.balances, without.balances, shown.dim * sizeof(float));
	assert_memory_equal(with.q_scales, without.q_scales, sizeof(*with.q_scales));
	assert_memory_equal(with.k_scales, without.k_scales, sizeof(*with.k_scales));
	balance_stats_fini(&with);
	balance_stats_fini(&without);
}

static void channels_without_values_have_balances_too(void **state)
{
	struct balance_stats s;

	make_shown();
	/* Head 0 has no keys, head 1 no queries, and of head 2 a channel has neither. */
	for (unsigned int i = 0; i < CHUNKS * ROWS; i++) {
		memset(key_of(i / ROWS, i % ROWS, 0), 0, shown.dim * sizeof(float));
		memset(query_of(i / ROWS, i % ROWS, shown.group), 0,
		       shown.group * shown.dim * sizeof(float));
		key_of(i / ROWS, i % ROWS, 2)[3] = 0;
		for (unsigned int h = 0; h < shown.group; h++)
			query_of(i / ROWS, i % ROWS, 2 * shown.group + h)[3] = 0;
	}
	start(&s);
	for (unsigned int c = 0; c < shown.dim; c++) {
		assert_true(s.balances[c] == 1 && s.balances[shown.dim + c] == 1);
		assert_true(s.offsets[c] == 0);
		assert_true(isnormal(s.balances[2 * shown.dim + c]));
	}
	assert_true(scale_mean(&s.k_scales[0]) == 0);
	assert_true(scale_mean(&s.q_scales[shown.group]) == 0);
	balance_stats_fini(&s);
}

/* ---- files ---- */

static const char *const names[] = { ".key_offsets", ".balance", ".balanced_q_scales",
				     ".balanced_k_scales" };

/* A calibrated model, with some of the balance's arrays. */
struct file {
	struct tiny_model t;
	struct gguf_file *file;
	float ones[LAYERS * MAX_HEADS], q_scales[LAYERS * MAX_HEADS];
	unsigned int nq, nk; /* heads, and KV heads, of all layers */
};

static void file_create(struct file *f)
{
	struct tiny_config c = tiny_any("llama", 64, LAYERS, 16, 2);
	float *const arrays[] = { of.offsets, of.balances, of.s_q, of.s_k };
	unsigned int lengths[4];

	make_constants(false, c.head_dim);
	c.n_head_kv = KV_HEADS;
	c.n_head = KV_HEADS * of.group;
	c.n_embd = c.n_head * c.head_dim;
	tiny_create(&f->t, &c, random_u64(&seed_state));
	f->nq = LAYERS * c.n_head;
	f->nk = LAYERS * KV_HEADS;
	for (unsigned int i = 0; i < f->nq; i++)
		f->ones[i] = 1;
	for (unsigned int i = 0; i < f->nq; i++)
		f->q_scales[i] = 1.01f + any_float();
	lengths[0] = lengths[1] = f->nk * c.head_dim;
	lengths[2] = f->nq;
	lengths[3] = f->nk;
	tiny_key(&f->t, ATTENTION_KEY, 'u', ATTENTION_VERSION, NULL);
	tiny_array(&f->t, ATTENTION_KEY ".head_importance", 'F', f->ones, f->nq);
	tiny_array(&f->t, ATTENTION_KEY ".layer_importance", 'F', f->ones, LAYERS);
	tiny_array(&f->t, ATTENTION_KEY ".limit", 'F', f->ones, 1);
	tiny_array(&f->t, ATTENTION_KEY ".q_scales", 'F', f->q_scales, f->nq);
	tiny_array(&f->t, ATTENTION_KEY ".k_scales", 'F', f->ones, f->nk);
	tiny_array(&f->t, ATTENTION_KEY ".v_scales", 'F', f->ones, f->nk);
	for (int i = 0; i < 4; i++) {
		char name[64];

		snprintf(name, sizeof(name), ATTENTION_KEY "%s", names[i]);
		tiny_array(&f->t, name, 'F', arrays[i], lengths[i]);
	}
}

/* Written and opened. */
static int create(struct file *f, enum llm_attention kind, struct attention **a)
{
	const struct tiny_config *c = &f->t.c;
	const struct shape shape = { .layers = c->n_layer,
				     .heads = c->n_head,
				     .kv_heads = c->n_head_kv,
				     .head_dim = c->head_dim };
	const struct llm_choices choices = { .attention = kind, .ratios = LLM_RATIOS_HEAD };
	struct attention_options o = {
		.shape = &shape,
		.choices = &choices,
		.path = "file",
		.ratio = 0.2,
		.buckets = 9,
		.step = 0.5,
	};
	char line[256];
	int err;

	assert_int_equal(gguf_open(tiny_write(&f->t), &f->file, line, sizeof(line)), 0);
	o.file = f->file;
	err = attention_create(&o, a);
	gguf_close(f->file);
	return err;
}

static struct attention *create_valid(struct file *f, enum llm_attention kind)
{
	struct attention *a;

	if (create(f, kind, &a))
		fail_msg("%s", llm_error());
	return a;
}

static void shadow_is_balanced_by_the_files_arrays(void **state)
{
	struct file f;
	struct attention *a;
	unsigned int layer, head, at, middle;

	file_create(&f);
	a = create_valid(&f, LLM_ATTENTION_SHADOW);
	layer = any(0, LAYERS - 1);
	head = any(0, a->heads - 1);
	at = layer * KV_HEADS + head / of.group;
	make_rows(false);
	attention_query(a, layer, head, bq, q);
	memcpy(bk[0], k[0], sizeof(k[0]));
	memcpy(bk[0] + of.dim, k[1], of.dim * sizeof(float));
	attention_keys(a, layer, head / of.group, bk[0], 2);
	for (unsigned int c = 0; c < of.dim; c++) {
		float balance = of.balances[at * of.dim + c], offset = of.offsets[at * of.dim + c];

		assert_float_equal(bq[c], q[c] * balance / of.s_q[layer * a->heads + head], 1e-3);
		for (unsigned int i = 0; i < 2; i++)
			assert_float_equal(bk[0][i * of.dim + c],
					   (k[i][c] - offset) / (balance * of.s_k[at]), 1e-3);
	}
	middle = scale_buckets_pick(&a->buckets, 1, 1);
	assert_true(scale_buckets_q(&a->buckets, middle) == 1);
	assert_true(scale_buckets_k(&a->buckets, middle) == 1);
	for (unsigned int i = 0; i < f.nq; i++)
		assert_int_equal(a->expected[i], middle);
	attention_free(a);
	tiny_free(&f.t);
}

/* Without the arrays, and with attention npu: buckets are around the scales of the values as they
 * are, and so are queries and keys. */
static void others_are_not_balanced(void **state)
{
	struct file f;
	double mean = 0;

	file_create(&f);
	for (unsigned int i = 0; i < f.nq; i++)
		mean += (double)f.q_scales[i] / f.nq;
	for (int old = 0; old < 2; old++) {
		struct attention *a;

		if (old)
			f.t.n_keys -= 4;
		a = create_valid(&f, old ? LLM_ATTENTION_SHADOW : LLM_ATTENTION_NPU);
		assert_null(a->balance);
		assert_float_equal(a->buckets.q[1], mean, 1e-5);
		make_rows(false);
		attention_query(a, 1, 0, bq, q);
		assert_memory_equal(bq, q, of.dim * sizeof(*q));
		memcpy(bk[0], k[0], sizeof(k[0]));
		attention_keys(a, 1, 0, bk[0], 1);
		assert_memory_equal(bk[0], k[0], sizeof(k[0]));
		attention_free(a);
	}
	tiny_free(&f.t);
}

static void assert_refused(struct file *f, const char *name, const char *why)
{
	struct attention *a;

	assert_int_equal(create(f, LLM_ATTENTION_SHADOW, &a), -EINVAL);
	assert_null(a);
	if (!strstr(llm_error(), name) || !strstr(llm_error(), why))
		fail_msg("%s: not %s, %s", llm_error(), name, why);
}

static void bad_arrays_are_refused_by_name(void **state)
{
	struct file f;
	struct attention *a;

	file_create(&f);
	for (unsigned int i = 0; i < 4; i++) {
		struct tiny_key *key = &f.t.keys[f.t.n_keys - 4 + i], was = *key;
		float *value = (float *)(uintptr_t)was.values + any(0, (unsigned int)was.n - 1),
		      valid = *value;

		key->n = was.n - 1;
		assert_refused(&f, names[i], "values, not");
		key->n = was.n + 1;
		assert_refused(&f, names[i], "values, not");
		*key = was;
		key->kind = 'I';
		assert_refused(&f, names[i], "no array of floats");
		*key = was;
		/* Only three of them. */
		key->name[strlen(key->name) - 1] = 'x';
		assert_refused(&f, names[i], "no key");
		*key = was;
		*value = NAN;
		assert_refused(&f, names[i], "holds nan");
		*value = -INFINITY;
		assert_refused(&f, names[i], "holds -inf");
		*value = -1;
		if (i)
			assert_refused(&f, names[i], "holds -1");
		*value = 0;
		if (i)
			assert_refused(&f, names[i], "holds 0");
		*value = valid;
	}
	of.balances[0] = of.s_k[0] = 1e30f;
	assert_refused(&f, ".balance", "is no float");
	of.balances[0] = of.s_k[0] = 1;
	a = create_valid(&f, LLM_ATTENTION_SHADOW);
	attention_free(a);
	tiny_free(&f.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(balanced_scores_select_the_same_keys),
		cmocka_unit_test(balanced_scores_differ_by_a_constant),
		cmocka_unit_test(factors_are_normal_floats),
		cmocka_unit_test(statistics_are_of_what_was_shown),
		cmocka_unit_test(chunks_that_are_not_finite_are_left_out),
		cmocka_unit_test(channels_without_values_have_balances_too),
		cmocka_unit_test(shadow_is_balanced_by_the_files_arrays),
		cmocka_unit_test(others_are_not_balanced),
		cmocka_unit_test(bad_arrays_are_refused_by_name),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
