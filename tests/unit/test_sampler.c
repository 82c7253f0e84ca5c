// SPDX-License-Identifier: MIT
/* Sampling: which tokens are drawn, how often, and the effect of the seed. TEST_SEED=N repeats a
 * run. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "llm.h"

#define OFF .top_p = 1

static struct llm_sampler *create(struct llm_sampler_options opts, unsigned int n_vocab)
{
	struct llm_sampler *s;

	if (llm_sampler_create(&opts, n_vocab, &s))
		fail_msg("%s", llm_error());
	return s;
}

/* Counts how often each token is drawn in @n draws. */
static void draw(struct llm_sampler_options opts, const float *logits, unsigned int n_vocab,
		 unsigned int n, unsigned int *counts)
{
	struct llm_sampler *s = create(opts, n_vocab);

	memset(counts, 0, n_vocab * sizeof(*counts));
	for (unsigned int i = 0; i < n; i++) {
		int32_t id = llm_sample(s, logits);

		assert_in_range(id, 0, n_vocab - 1);
		counts[id]++;
	}
	llm_sampler_free(s);
}

static void test_argmax_is_the_lowest_id_of_equal_ones(void **state)
{
	const float logits[] = { -1, 3, 2, 3, 3 };

	assert_int_equal(llm_argmax(logits, 5), 1);
	assert_int_equal(llm_argmax(logits, 1), 0);
}

static void test_argmax_is_never_a_nan(void **state)
{
	const float logits[] = { NAN, -5, NAN, -4, NAN };

	assert_int_equal(llm_argmax(logits, 5), 3);
	assert_int_equal(llm_argmax(logits, 1), 0);
}

static void test_no_temperature_is_greedy(void **state)
{
	const float logits[] = { 1, 1.001f, 0.9f };
	unsigned int counts[3];

	draw((struct llm_sampler_options){ .temperature = 0, OFF, .seed = 7 }, logits, 3, 100,
	     counts);
	assert_int_equal(counts[1], 100);
	draw((struct llm_sampler_options){ .temperature = -1, OFF, .seed = 7 }, logits, 3, 100,
	     counts);
	assert_int_equal(counts[1], 100);
}

/* Counts of 40,000 draws are within five standard deviations of softmax(logits / temperature). */
static void check_distribution(float temperature)
{
	const float logits[] = { 0, 1, 2, -1, 0.5f };
	unsigned int counts[5], n = 40000;
	double sum = 0;

	for (int i = 0; i < 5; i++)
		sum += exp((double)(logits[i] / temperature));
	draw((struct llm_sampler_options){ .temperature = temperature, OFF, .seed = 1 }, logits, 5,
	     n, counts);
	for (int i = 0; i < 5; i++) {
		double p = exp((double)(logits[i] / temperature)) / sum;

		assert_true(fabs(counts[i] - n * p) < 5 * sqrt(n * p * (1 - p)));
	}
}

static void test_draws_follow_the_softmax_at_the_temperature(void **state)
{
	check_distribution(1);
	check_distribution(0.5f);
	check_distribution(3);
}

static void test_top_k_keeps_the_likeliest(void **state)
{
	const float logits[] = { 0, 3, 1, 3, 2, 2 };
	unsigned int counts[6];

	draw((struct llm_sampler_options){ .temperature = 5, .top_k = 3, OFF }, logits, 6, 2000,
	     counts);
	/* Of the two tokens with a logit of 2, the one with the lower id. */
	assert_true(counts[1] && counts[3] && counts[4]);
	assert_int_equal(counts[0] + counts[2] + counts[5], 0);
}

static void test_top_p_keeps_the_fewest_that_reach_it(void **state)
{
	/* Sorted: 0.5, 0.25, 0.15, 0.1 */
	const float logits[] = { logf(0.1f), logf(0.5f), logf(0.15f), logf(0.25f) };
	unsigned int counts[4];

	draw((struct llm_sampler_options){ .temperature = 1, .top_p = 0.74f }, logits, 4, 2000,
	     counts);
	assert_true(counts[1] && counts[3]);
	assert_int_equal(counts[0] + counts[2], 0);
	draw((struct llm_sampler_options){ .temperature = 1, .top_p = 0.8f }, logits, 4, 2000,
	     counts);
	assert_true(counts[1] && counts[3] && counts[2]);
	assert_int_equal(counts[0], 0);
	draw((struct llm_sampler_options){ .temperature = 1, .top_p = 0.01f }, logits, 4, 200,
	     counts);
	assert_int_equal(counts[1], 200);
}

static void test_top_p_of_a_flat_distribution_keeps_that_share(void **state)
{
	enum { N = 1000 };
	static float logits[N];
	static unsigned int counts[N];
	unsigned int drawn = 0;

	draw((struct llm_sampler_options){ .temperature = 1, .top_p = 0.5f }, logits, N, 20000,
	     counts);
	/* Equal ones are ordered by id. */
	for (int i = 0; i < N; i++)
		drawn += counts[i] > 0;
	for (int i = N / 2; i < N; i++)
		assert_int_equal(counts[i], 0);
	assert_int_equal(drawn, N / 2);
}

static void test_min_p_keeps_tokens_near_the_likeliest(void **state)
{
	const float logits[] = { logf(0.04f), logf(0.5f), logf(0.06f), logf(0.4f) };
	unsigned int counts[4];

	draw((struct llm_sampler_options){ .temperature = 1, .min_p = 0.1f, OFF }, logits, 4, 2000,
	     counts);
	assert_true(counts[1] && counts[2] && counts[3]);
	assert_int_equal(counts[0], 0);
}

static void test_a_seed_fixes_the_draws_and_another_one_changes_them(void **state)
{
	float logits[64] = { 0 };
	struct llm_sampler *a =
		create((struct llm_sampler_options){ .temperature = 1, OFF, .seed = 5 }, 64);
	struct llm_sampler *b =
		create((struct llm_sampler_options){ .temperature = 1, OFF, .seed = 5 }, 64);
	struct llm_sampler *c =
		create((struct llm_sampler_options){ .temperature = 1, OFF, .seed = 6 }, 64);
	int same = 0;

	for (int i = 0; i < 200; i++) {
		int32_t id = llm_sample(a, logits);

		assert_int_equal(llm_sample(b, logits), id);
		same += llm_sample(c, logits) == id;
	}
	assert_true(same < 30);
	llm_sampler_free(a);
	llm_sampler_free(b);
	llm_sampler_free(c);
}

/* ---- the same tokens as with a full sort ---- */

static uint64_t test_state; /* random numbers of the test */

/* splitmix64 */
static uint64_t mix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static double uniform(void)
{
	return (double)(mix(&test_state) >> 11) * 0x1p-53;
}

static unsigned int one_of(unsigned int n)
{
	return (unsigned int)(mix(&test_state) % n);
}

/* The sampler's numbers: xoshiro256**. */
struct random {
	uint64_t w[4];
};

static uint64_t turn(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

static double next_random(struct random *r)
{
	uint64_t *w = r->w, result = turn(w[1] * 5, 7) * 9, t = w[1] << 17;

	w[2] ^= w[0];
	w[3] ^= w[1];
	w[1] ^= w[2];
	w[0] ^= w[3];
	w[2] ^= t;
	w[3] = turn(w[3], 45);
	return (double)(result >> 11) * 0x1p-53;
}

struct sorted {
	float logit;
	int32_t id;
};

static int by_logit(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;

	if (x->logit != y->logit)
		return x->logit > y->logit ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int by_id(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* What min_p keeps. */
static unsigned int keep_likely(const struct llm_sampler_options *o, struct sorted *t,
				unsigned int n, double max)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < n; i++)
		if (o->min_p <= 0 || (double)t[i].logit >= max + log((double)o->min_p))
			t[kept++] = t[i];
	return kept;
}

/* Whether top_p or top_k drops some, so that the rest is drawn from in the order of likelihood.
 * Without top_p, it is top_k only if min_p leaves it more than it keeps. */
static bool dropped_in_order(const struct llm_sampler_options *o, const struct sorted *t,
			     unsigned int n, double max)
{
	unsigned int likely = 0;

	for (unsigned int i = 0; i < n; i++)
		likely += o->top_p < 1 || o->min_p <= 0 ||
			  (double)t[i].logit >= max + log((double)o->min_p);
	return o->top_p < 1 || (o->top_k > 0 && (unsigned int)o->top_k < likely);
}

/* The tokens that the filters keep, by sorting all of them if order matters. */
static unsigned int keep(const struct llm_sampler_options *o, const float *logits, unsigned int n,
			 double max, struct sorted *t)
{
	double sum = 0, reached = 0;
	unsigned int kept = 0, i;
	bool in_order;

	for (i = 0; i < n; i++)
		if (isfinite(logits[i]))
			t[kept++] = (struct sorted){ logits[i], (int32_t)i };
	in_order = dropped_in_order(o, t, kept, max);
	if (in_order || o->top_k > 0)
		qsort(t, kept, sizeof(*t), by_logit);
	if (o->top_k > 0 && (unsigned int)o->top_k < kept)
		kept = (unsigned int)o->top_k;
	for (i = 0; i < kept; i++)
		sum += exp((double)t[i].logit - max);
	for (i = 0; i < kept && o->top_p < 1; i++) {
		reached += exp((double)t[i].logit - max);
		if (reached >= (double)o->top_p * sum)
			kept = i + 1;
	}
	kept = keep_likely(o, t, kept, max);
	if (!in_order && o->top_k > 0)
		qsort(t, kept, sizeof(*t), by_id);
	return kept;
}

static int32_t draw_sorted(const struct llm_sampler_options *o, const float *logits, unsigned int n,
			   struct sorted *t, struct random *random)
{
	double max = (double)logits[llm_argmax(logits, n)], sum = 0, at;
	unsigned int kept = keep(o, logits, n, max, t), i;

	for (i = 0; i < kept; i++)
		sum += exp(((double)t[i].logit - max) / (double)o->temperature);
	at = next_random(random) * sum;
	for (i = 0; i + 1 < kept; i++) {
		at -= exp(((double)t[i].logit - max) / (double)o->temperature);
		if (at < 0)
			break;
	}
	return t[i].id;
}

#define NR_SHAPES 9

/* A logit of a distribution. */
static float logit(unsigned int shape)
{
	double normal = sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());

	switch (shape) {
	case 0:
		return (float)(3 * normal);
	case 1: /* flat */
		return (float)(1e-3 * uniform());
	case 2: /* all equal */
		return 1.5f;
	case 3: /* like a model's: few are likely */
		return (float)(uniform() < 3e-4 ? 14 + 3 * normal : 2 * normal);
	case 4: /* many equal ones */
		return (float)one_of(3);
	case 5: /* nearly flat, except for tokens that somebody has ruled out */
		return one_of(50) ? (float)(1e-3 * uniform()) : -1e30f;
	case 6: /* subnormal */
		return (float)(1e-42 * uniform());
	case 7: /* not all are numbers */
		return one_of(9) ? (float)normal : one_of(2) ? NAN : -INFINITY;
	default: /* far apart */
		return (float)(200 * normal);
	}
}

static struct llm_sampler_options some_options(unsigned int n)
{
	const float p[] = { 1, 1, 0.5f, 0.95f, 0.999f }, t[] = { 1, 1, 0.8f, 5 };
	const float min_p[] = { 0, 0, 0.05f, 1e-6f, 1 };
	const int k[] = { 0,	  0,	      1 + (int)one_of(4), 40, 3000, 20000,
			  (int)n, (int)n - 1, (int)one_of(n) };

	return (struct llm_sampler_options){
		.temperature = t[one_of(4)],
		.top_k = k[one_of(9)],
		.top_p = p[one_of(5)],
		.min_p = min_p[one_of(5)],
		.seed = one_of(1000),
	};
}

/* Some draws by each of them, from the same logits. */
static void check_draws(unsigned int shape, unsigned int n, unsigned int draws)
{
	struct llm_sampler_options o = some_options(n);
	struct llm_sampler *s = create(o, n);
	float *logits = malloc(n * sizeof(*logits));
	struct sorted *t = malloc(n * sizeof(*t));
	struct random random;
	uint64_t seed = o.seed;

	for (unsigned int i = 0; i < 4; i++)
		random.w[i] = mix(&seed);
	for (unsigned int i = 0; i < n; i++)
		logits[i] = logit(shape);
	logits[one_of(n)] = 2;
	for (unsigned int i = 0; i < draws; i++) {
		int32_t got = llm_sample(s, logits), want = draw_sorted(&o, logits, n, t, &random);

		if (got != want)
			fail_msg("shape %u, %u tokens, temperature %g, top_k %d, top_p %g, min_p "
				 "%g, seed %d: token %d, with a full sort %d",
				 shape, n, (double)o.temperature, o.top_k, (double)o.top_p,
				 (double)o.min_p, (int)o.seed, got, want);
	}
	llm_sampler_free(s);
	free(logits);
	free(t);
}

static void test_tokens_are_those_of_a_full_sort(void **state)
{
	for (int i = 0; i < 700; i++)
		check_draws(one_of(NR_SHAPES), 1 + one_of(i % 2 ? 200 : 6000), 4);
	/* Buckets in buckets; and a vocabulary of a real size. */
	for (unsigned int shape = 0; shape < NR_SHAPES; shape++)
		for (int i = 0; i < 6; i++)
			check_draws(shape, 151936, 2);
}

static void test_tokens_without_a_finite_logit_are_never_drawn(void **state)
{
	const float some[] = { NAN, 1, -INFINITY, 1, NAN }, none[] = { NAN, -INFINITY, NAN };
	unsigned int counts[5];

	draw((struct llm_sampler_options){ .temperature = 1, .top_p = 0.9f, .top_k = 4 }, some, 5,
	     500, counts);
	assert_int_equal(counts[1] + counts[3], 500);
	draw((struct llm_sampler_options){ .temperature = 1, OFF }, none, 3, 5, counts);
	assert_int_equal(counts[1], 5);
}

static void test_options_that_leave_no_token_are_refused(void **state)
{
	const struct llm_sampler_options bad[] = {
		{ .temperature = NAN, OFF },
		{ .temperature = INFINITY, OFF },
		{ .temperature = 1, .top_p = 0 },
		{ .temperature = 1, .top_p = -1 },
		{ .temperature = 1, .top_p = NAN },
		{ .temperature = 1, OFF, .min_p = 1.5f },
		{ .temperature = 1, OFF, .min_p = NAN },
	};
	struct llm_sampler *s;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(llm_sampler_create(&bad[i], 8, &s), -EINVAL);
		assert_null(s);
	}
	assert_int_equal(llm_sampler_create(&(struct llm_sampler_options){ OFF }, 0, &s), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_argmax_is_the_lowest_id_of_equal_ones),
		cmocka_unit_test(test_argmax_is_never_a_nan),
		cmocka_unit_test(test_no_temperature_is_greedy),
		cmocka_unit_test(test_draws_follow_the_softmax_at_the_temperature),
		cmocka_unit_test(test_top_k_keeps_the_likeliest),
		cmocka_unit_test(test_top_p_keeps_the_fewest_that_reach_it),
		cmocka_unit_test(test_top_p_of_a_flat_distribution_keeps_that_share),
		cmocka_unit_test(test_min_p_keeps_tokens_near_the_likeliest),
		cmocka_unit_test(test_a_seed_fixes_the_draws_and_another_one_changes_them),
		cmocka_unit_test(test_tokens_are_those_of_a_full_sort),
		cmocka_unit_test(test_tokens_without_a_finite_logit_are_never_drawn),
		cmocka_unit_test(test_options_that_leave_no_token_are_refused),
	};
	const char *given = getenv("TEST_SEED");

	test_state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	print_message("TEST_SEED=%llu\n", (unsigned long long)test_state);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
