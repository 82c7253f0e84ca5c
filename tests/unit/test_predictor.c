// SPDX-License-Identifier: MIT
/*
 * The predictor and the profiler: what is learned, how well it predicts, and that a file that is
 * not a predictor is refused.
 */
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

#include "llm.h"
#include "npu_random.h"
#include "tools/common/tool.h"
#include "tools/npu-profile/op_profile.h"
#include "tools/npu-profile/predictor_fit.h"

static struct soc *soc;
static char path[64];

static int setup(void **state)
{
	char why[512];
	int fd;

	soc = soc_load("sd8gen3", why, sizeof(why));
	if (!soc)
		puts(why);
	snprintf(path, sizeof(path), "/tmp/test_predictor-XXXXXX");
	fd = mkstemp(path);
	close(fd);
	return !soc || fd < 0;
}

static int teardown(void **state)
{
	soc_free(soc);
	unlink(path);
	return 0;
}

/* npu-profile's stderr goes to a file until said() restores it. */
static FILE *stderr_file;
static int stderr_fd = -1;

static void listen(void)
{
	fflush(stderr);
	stderr_file = tmpfile();
	assert_non_null(stderr_file);
	stderr_fd = dup(STDERR_FILENO);
	assert_true(dup2(fileno(stderr_file), STDERR_FILENO) >= 0);
}

/* The one line since listen(). */
static const char *said(void)
{
	static char text[1024];
	size_t n;

	fflush(stderr);
	assert_true(dup2(stderr_fd, STDERR_FILENO) >= 0);
	close(stderr_fd);
	rewind(stderr_file);
	n = fread(text, 1, sizeof(text) - 1, stderr_file);
	text[n] = '\0';
	fclose(stderr_file);
	assert_ptr_equal(strchr(text, '\n'), n ? text + n - 1 : NULL);
	return text;
}

static struct predictor_options constants(void)
{
	struct predictor_options o = predictor_defaults();

	o.leaves = PREDICTOR_CONSTANT;
	o.min_samples = 1;
	return o;
}

static void add(struct op_samples *s, uint64_t m, uint64_t k, uint64_t n, double ns)
{
	struct op_sample v =
		op_profile_matmul(SOC_NPU, m, k, n, LLM_WEIGHTS_W8A8, NPU_TIME_WEIGHTS_STATIONARY);

	v.ns = ns;
	v.runs = 1;
	assert_int_equal(op_samples_add(s, &v), 0);
}

/* Random matmuls of all types and orders, with the times of the modelled lane. */
static struct op_samples modelled(enum soc_lane lane, size_t n, uint64_t seed)
{
	static const enum llm_weights types[] = { LLM_WEIGHTS_W8A8, LLM_WEIGHTS_W4A16 };
	struct op_profile_random r = {
		.n = n, .seed = seed, .max_m = 1024, .max_k = 16384, .max_n = 16384
	};
	struct op_samples s = { 0 };

	for (int type = 0; type < 2; type++)
		for (int order = 0; order < 2; order++)
			assert_int_equal(op_profile_random(&r, lane, types[type], order, &s), 0);
	op_profile_virtual(soc, &s);
	return s;
}

static struct predictor *learn(const struct op_samples *s, enum soc_lane lane,
			       struct predictor_options o)
{
	struct predictor *p;

	assert_int_equal(predictor_fit(s, lane, &o, &p), 0);
	return p;
}

static void test_a_piecewise_constant_function_is_learned_exactly(void **state)
{
	struct op_samples s = { 0 };
	struct predictor_error e;
	struct predictor *p;

	random_begin(__func__);
	for (int i = 0; i < 400; i++) {
		uint32_t m = random_in(1, 300), k = random_in(1, 300), n = random_in(1, 300);

		add(&s, m, k, n, m <= 100 ? 7000 : k <= 50 ? 123.25 : n <= 200 ? 1e6 : 31);
	}
	p = learn(&s, SOC_NPU, constants());
	e = predictor_test(p, &s);
	assert_int_equal(e.n, 400);
	assert_true(e.worst < 1e-9 && e.r2 > 1 - 1e-12);
	predictor_free(p);
	op_samples_free(&s);
}

/* No single split helps: what it takes from one side, it adds to the other. */
static void test_outliers_that_cancel_out_are_learned_exactly(void **state)
{
	struct op_samples s = { 0 };
	struct predictor_error e;
	struct predictor *p;

	random_begin(__func__);
	for (int i = 0; i < 200; i++)
		add(&s, random_in(1, 100), random_in(2, 300), random_in(1, 300), 7000);
	add(&s, 101, 50, 100, 70);
	add(&s, 101, 51, 100, 700000);
	p = learn(&s, SOC_NPU, constants());
	e = predictor_test(p, &s);
	assert_int_equal(e.n, 202);
	assert_true(e.worst < 1e-9);
	predictor_free(p);
	op_samples_free(&s);
}

static void test_steps_of_one_dimension_are_learned_for_all_of_the_others(void **state)
{
	struct op_samples s = { 0 };
	struct predictor_info info;
	struct predictor *p;

	random_begin(__func__);
	for (int i = 0; i < 600; i++) {
		uint32_t m = random_in(1, 300);

		add(&s, m, random_in(1, 300), random_in(1, 300),
		    m <= 100   ? 7000
		    : m <= 200 ? 123.25
			       : 31);
	}
	p = learn(&s, SOC_NPU, constants());
	predictor_info(p, &info);
	assert_int_equal(info.leaves, 3);
	assert_int_equal(info.depth, 2);
	assert_int_equal(info.samples, 600);
	for (int i = 0; i < 300; i++) {
		uint32_t m = random_in(1, 1000);
		struct op_sample v = op_profile_matmul(SOC_NPU, m, random_in(1, 5000),
						       random_in(1, 5000), LLM_WEIGHTS_W8A8, 0);
		double want = m <= 100 ? 7000 : m <= 200 ? 123.25 : 31;

		/* Nothing is specified between two neighbours. */
		if (labs((long)m - 100) > 10 && labs((long)m - 200) > 10)
			assert_true(fabs(predictor_ns(p, &v.op) / want - 1) < 1e-9);
	}
	predictor_free(p);
	op_samples_free(&s);
}

static void test_a_sum_of_terms_is_learned_exactly_also_beyond_the_samples(void **state)
{
	struct op_samples s = { 0 };
	struct predictor_info info;
	struct predictor *p;

	random_begin(__func__);
	for (int i = 0; i < 200; i++) {
		uint32_t m = random_in(1, 500), k = random_in(1, 2000), n = random_in(1, 2000);

		add(&s, m, k, n, 5000 + 0.25 * m * k * n + 3.0 * k * n);
	}
	p = learn(&s, SOC_NPU, predictor_defaults());
	predictor_info(p, &info);
	assert_int_equal(info.leaves, 1);
	for (int i = 0; i < 100; i++) {
		double m = random_in(1, 5000), k = random_in(1, 20000), n = random_in(1, 20000);
		struct op_sample far = op_profile_matmul(SOC_NPU, (uint64_t)m, (uint64_t)k,
							 (uint64_t)n, LLM_WEIGHTS_W8A8, 0);

		assert_true(fabs(predictor_ns(p, &far.op) / (5000 + 0.25 * m * k * n + 3 * k * n) -
				 1) < 1e-3);
	}
	predictor_free(p);
	op_samples_free(&s);
}

/* However few of the samples lie between the step and the next threshold that is tried. */
static void test_a_step_among_many_shapes_is_learned_where_it_is(void **state)
{
	struct op_samples s = { 0 };
	struct predictor_error e;
	uint32_t step, k, n;
	struct predictor *p;

	random_begin(__func__);
	step = random_in(1000, 4000);
	k = random_in(1, 2000);
	n = random_in(1, 2000);
	for (int i = 0; i < 1000; i++) {
		uint32_t m = random_in(1, 5000);

		add(&s, m, k, n, (m <= step ? 1 : 20) * (double)m * k * n);
	}
	p = learn(&s, SOC_NPU, predictor_defaults());
	e = predictor_test(p, &s);
	assert_true(e.worst < 1e-3);
	predictor_free(p);
	op_samples_free(&s);
}

static void test_a_threshold_is_the_roundest_number_between_its_neighbours(void **state)
{
	static const uint32_t round[] = { 64, 96, 1024, 1536, 4096 };

	random_begin(__func__);
	for (size_t i = 0; i < sizeof(round) / sizeof(*round); i++) {
		uint32_t step = round[i], gap = step / 16;
		struct op_samples s = { 0 };
		struct predictor *p;

		for (int j = 0; j < 100; j++) {
			uint32_t near = step - random_in(0, gap), far = step + random_in(1, gap);

			/* The neighbours leave the step open, by more on one side. */
			near -= i & 1 ? 0 : gap / 2;
			far += i & 1 ? gap / 2 : 0;
			add(&s, near, 100, 100, 7000);
			add(&s, far, 100, 100, 31000);
		}
		p = learn(&s, SOC_NPU, constants());
		for (uint32_t m = step - gap; m <= step + gap; m++) {
			struct op_sample v =
				op_profile_matmul(SOC_NPU, m, 100, 100, LLM_WEIGHTS_W8A8, 0);

			assert_true(fabs(predictor_ns(p, &v.op) / (m <= step ? 7000 : 31000) - 1) <
				    1e-9);
		}
		predictor_free(p);
		op_samples_free(&s);
	}
}

static void check_lane(enum soc_lane lane, enum predictor_leaves leaves, size_t n, double mean)
{
	struct op_samples s = modelled(lane, n, random_u32()),
			  other = modelled(lane, n / 2, random_u32());
	struct predictor_options o =
		leaves == PREDICTOR_LINEAR ? predictor_defaults() : constants();
	struct predictor *p = learn(&s, lane, o);
	struct predictor_error unseen = predictor_test(p, &other), cross;

	assert_int_equal(predictor_cross_validate(&s, lane, &o, 5, 0, &cross), 0);
	print_message(
		"%s, %s: cross-validated mean %.2f %%, worst %.1f %%, R2 %.5f; unseen mean %.2f "
		"%%\n",
		soc_lane_name(lane), predictor_leaves_name(leaves), 100 * cross.mean,
		100 * cross.worst, cross.r2, 100 * unseen.mean);
	assert_int_equal(cross.n, s.n);
	assert_true(cross.mean < mean && unseen.mean < mean);
	assert_true(cross.worst >= cross.mean && cross.r2 < 1);
	/*
	 * Constants fit their own samples far better than others: a fold that was learned from
	 * would show here.
	 */
	if (leaves == PREDICTOR_CONSTANT)
		assert_true(cross.mean > unseen.mean / 2 &&
			    predictor_test(p, &s).mean < cross.mean / 2);
	predictor_free(p);
	op_samples_free(&s);
	op_samples_free(&other);
}

static void test_modelled_lanes_are_predicted_within_ten_percent(void **state)
{
	random_begin(__func__);
	check_lane(SOC_NPU, PREDICTOR_LINEAR, 500, 0.10);
	check_lane(SOC_GPU, PREDICTOR_LINEAR, 500, 0.10);
	check_lane(SOC_CPU, PREDICTOR_LINEAR, 500, 0.10);
	/* The reason for sums in the leaves; more samples, as few outliers make a mean of few. */
	check_lane(SOC_NPU, PREDICTOR_CONSTANT, 1000, 0.40);
}

static void test_predictions_are_positive_and_finite_everywhere(void **state)
{
	struct op_samples s;
	struct predictor *p;

	random_begin(__func__);
	s = modelled(SOC_NPU, 100, random_u32());
	p = learn(&s, SOC_NPU, predictor_defaults());
	for (int i = 0; i < 2000; i++) {
		struct op_sample v = op_profile_matmul(
			SOC_NPU, 1 + random_u32() % OP_MAX_DIM, 1 + random_u32() % OP_MAX_DIM,
			1 + random_u32() % OP_MAX_DIM, i & 1 ? LLM_WEIGHTS_F16 : LLM_WEIGHTS_W4A8,
			i >> 1 & 1);

		assert_true(predictor_ns(p, &v.op) > 0 && isfinite(predictor_ns(p, &v.op)));
	}
	predictor_free(p);
	op_samples_free(&s);
}

static char *contents(void)
{
	static char text[1 << 20];
	FILE *f = fopen(path, "r");
	size_t n = fread(text, 1, sizeof(text) - 1, f);

	assert_true(n && n < sizeof(text) - 1);
	fclose(f);
	text[n] = '\0';
	return text;
}

static void test_a_loaded_predictor_predicts_the_same_bits_as_the_saved_one(void **state)
{
	struct predictor_info a, b;
	struct op_samples s;

	random_begin(__func__);
	s = modelled(SOC_NPU, 200, random_u32());
	for (int leaves = PREDICTOR_CONSTANT; leaves <= PREDICTOR_LINEAR; leaves++) {
		struct predictor *p = learn(&s, SOC_NPU,
					    leaves ? predictor_defaults() : constants()),
				 *q;
		char *before, why[512];

		assert_int_equal(predictor_save(p, path), 0);
		before = strdup(contents());
		if (predictor_load(path, &q, why, sizeof(why)))
			fail_msg("%s", why);
		for (size_t i = 0; i < s.n; i++)
			assert_true(predictor_ns(p, &s.v[i].op) == predictor_ns(q, &s.v[i].op));
		predictor_info(p, &a);
		predictor_info(q, &b);
		assert_int_equal(a.lane, b.lane);
		assert_string_equal(a.source, b.source);
		assert_int_equal(a.samples, b.samples);
		assert_int_equal(a.leaves, b.leaves);
		assert_int_equal(a.depth, b.depth);
		assert_int_equal(predictor_save(q, path), 0);
		assert_string_equal(contents(), before);
		free(before);
		predictor_free(p);
		predictor_free(q);
	}
	op_samples_free(&s);
}

static void test_the_same_samples_and_seed_give_the_same_tree_and_error(void **state)
{
	struct op_samples s = modelled(SOC_NPU, 100, 1), turned = { 0 };
	struct predictor_options o = predictor_defaults();
	struct predictor_error a, b, c;
	struct predictor *p = learn(&s, SOC_NPU, o), *q = learn(&s, SOC_NPU, o);
	char *text;

	assert_int_equal(predictor_save(p, path), 0);
	text = strdup(contents());
	assert_int_equal(predictor_save(q, path), 0);
	assert_string_equal(contents(), text);
	assert_int_equal(predictor_cross_validate(&s, SOC_NPU, &o, 5, 3, &a), 0);
	assert_int_equal(predictor_cross_validate(&s, SOC_NPU, &o, 5, 3, &b), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_int_equal(predictor_cross_validate(&s, SOC_NPU, &o, 5, 4, &c), 0);
	assert_true(c.mean != a.mean);
	/* Folds are drawn from shapes, not from lines. */
	for (size_t i = s.n; i-- > 0;)
		assert_int_equal(op_samples_add(&turned, &s.v[i]), 0);
	assert_int_equal(predictor_cross_validate(&turned, SOC_NPU, &o, 5, 3, &b), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	free(text);
	predictor_free(p);
	predictor_free(q);
	op_samples_free(&s);
	op_samples_free(&turned);
}

static void test_few_equal_and_repeated_samples_give_a_leaf(void **state)
{
	for (int leaves = PREDICTOR_CONSTANT; leaves <= PREDICTOR_LINEAR; leaves++) {
		struct predictor_options o = leaves ? predictor_defaults() : constants();
		struct op_samples s = { .source = "test" };
		struct predictor_error e;
		struct predictor_info info;
		struct predictor *p;

		listen();
		assert_int_equal(predictor_fit(&s, SOC_NPU, &o, &p), 1);
		assert_non_null(strstr(said(), "nothing can be learned"));
		assert_null(p);
		add(&s, 64, 512, 512, 1000);
		listen();
		assert_int_equal(predictor_fit(&s, SOC_GPU, &o, &p), 1);
		assert_non_null(strstr(said(), "lane gpu"));
		p = learn(&s, SOC_NPU, o);
		assert_true(fabs(predictor_ns(p, &s.v[0].op) - 1000) < 1e-3);
		predictor_free(p);
		listen();
		assert_int_equal(predictor_cross_validate(&s, SOC_NPU, &o, 2, 0, &e), 1);
		assert_non_null(strstr(said(), "1 different shapes"));

		/* One shape with two times: the prediction is between them. */
		for (int i = 0; i < 50; i++)
			add(&s, 64, 512, 512, i & 1 ? 1000 : 1100);
		p = learn(&s, SOC_NPU, o);
		predictor_info(p, &info);
		assert_int_equal(info.leaves, 1);
		assert_true(predictor_ns(p, &s.v[0].op) > 1000 &&
			    predictor_ns(p, &s.v[0].op) < 1100);
		predictor_free(p);
		listen();
		assert_int_equal(predictor_cross_validate(&s, SOC_NPU, &o, 2, 0, &e), 1);
		assert_non_null(strstr(said(), "1 different shapes"));
		op_samples_free(&s);

		/* All shapes with one time. */
		for (uint64_t m = 1; m < 100; m++)
			add(&s, m, 7 * m, 3 * m, 1234);
		p = learn(&s, SOC_NPU, o);
		e = predictor_test(p, &s);
		assert_true(e.worst < 1e-6 && e.r2 == 1);
		predictor_free(p);
		listen();
		assert_int_equal(predictor_cross_validate(&s, SOC_NPU, &o, 1, 0, &e), 1);
		assert_non_null(strstr(said(), "into 1 folds"));
		assert_int_equal(predictor_cross_validate(&s, SOC_NPU, &o, 5, 0, &e), 0);
		assert_true(e.worst < 1e-6 && e.n == 99);
		op_samples_free(&s);
	}
}

/* ---- files that are not predictors ---- */

static const char model[] =
	"[predictor]\nversion = 1\nlane = npu\nsource = test\nsamples = 9\nleaves = constant\n"
	"max_depth = 2\nmin_samples = 1\ntile_m = 32\ntile_k = 32\ntile_n = 32\nnodes = 5\n"
	"[node.0]\nfeature = m\nat_most = 4.5\nthen = 1\nelse = 2\n"
	"[node.1]\none = 100\n"
	"[node.2]\nfeature = tiles\nat_most = 20\nthen = 3\nelse = 4\n"
	"[node.3]\none = 200\n"
	"[node.4]\none = 300\n"
	"[end]\ncomplete = yes\n";

static void write_model(const char *text, size_t bytes)
{
	FILE *f = fopen(path, "w");

	assert_int_equal(fwrite(text, 1, bytes, f), bytes);
	fclose(f);
}

static void refused(const char *wanted)
{
	struct predictor *p;
	char why[512] = "";
	int err = predictor_load(path, &p, why, sizeof(why));

	if (err != -EINVAL || p || !strstr(why, path) || !strstr(why, wanted) || strchr(why, '\n'))
		fail_msg("%d instead of -EINVAL: '%s' (wanted: %s)", err, why, wanted);
}

/* The file with @from replaced by @to is refused. */
static void refuses(const char *from, const char *to, const char *why)
{
	const char *at = strstr(model, from);
	char text[4096];

	assert_non_null(at);
	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - model), model, to, at + strlen(from));
	write_model(text, strlen(text));
	refused(why);
}

static void test_a_model_written_by_hand_is_read(void **state)
{
	struct op_sample few = op_profile_matmul(SOC_NPU, 4, 64, 64, LLM_WEIGHTS_W8A8, 0);
	struct op_sample small = op_profile_matmul(SOC_NPU, 5, 128, 160, LLM_WEIGHTS_W8A8, 0);
	struct op_sample large = op_profile_matmul(SOC_NPU, 5, 129, 160, LLM_WEIGHTS_W8A8, 0);
	struct predictor *p;
	char why[512];

	write_model(model, strlen(model));
	assert_int_equal(predictor_load(path, &p, why, sizeof(why)), 0);
	assert_true(predictor_ns(p, &few.op) == 100);
	/* 4 x 5 tiles, and 5 x 5. */
	assert_true(predictor_ns(p, &small.op) == 200);
	assert_true(predictor_ns(p, &large.op) == 300);
	/* In the other order, one tile in width is stationary: 4 and 5. */
	small.op.order = NPU_TIME_WEIGHTS_STREAMED;
	large.op.order = NPU_TIME_WEIGHTS_STREAMED;
	assert_true(predictor_ns(p, &small.op) == 200);
	assert_true(predictor_ns(p, &large.op) == 200);
	predictor_free(p);
}

static void test_a_model_cut_anywhere_is_refused(void **state)
{
	struct predictor *p;
	char why[512];

	/* Without its last newline it is complete. */
	for (size_t bytes = 0; bytes < strlen(model) - 1; bytes++) {
		write_model(model, bytes);
		if (predictor_load(path, &p, why, sizeof(why)) != -EINVAL || p)
			fail_msg("cut to %zu bytes: not refused", bytes);
	}
}

static void test_models_that_are_not_trees_are_refused(void **state)
{
	refuses("then = 3", "then = 0", "later node");
	refuses("then = 3", "then = 2", "later node");
	refuses("then = 3", "then = 1", "later node");
	refuses("then = 3", "then = 5", "later node");
	refuses("then = 3", "then = 4", "reached from 0 nodes");
	refuses("else = 2\n", "else = 1\n", "node 1 is reached from 2");
	refuses("[node.4]\none = 300\n", "", "node 4 is missing");
	refuses("[node.4]", "[node.5]", "there are 5 nodes");
	refuses("[node.4]", "[node.-1]", "there are 5 nodes");
	refuses("[node.4]", "[leaf.4]", "[leaf.4]");
	refuses("else = 4\n", "", "node 2 is neither");
	refuses("else = 4\n", "else = 4\none = 1\n", "node 2 is neither");
	refuses("max_depth = 2", "max_depth = 1", "depth of 2");
}

static void test_models_with_bad_numbers_are_refused(void **state)
{
	static const char *const bad[] = { "nan", "inf", "-1", "0", "x", "", "1x", "1e999" };
	char text[64];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "one = %s\n", bad[i]);
		refuses("one = 200\n", text, "node 3: one");
	}
	refuses("at_most = 20", "at_most = nan", "node 2: at_most");
	refuses("nodes = 5", "nodes = 4294967295", "nodes = 4294967295");
	refuses("nodes = 5", "nodes = 99999999999999999999", "nodes = 9");
	refuses("nodes = 5", "nodes = 0", "nodes = 0");
	refuses("nodes = 5", "nodes = 8191", "is missing");
	refuses("tile_k = 32", "tile_k = 0", "tile_k = 0");
	refuses("tile_k = 32", "tile_k = 99999", "tile_k = 99999");
	refuses("max_depth = 2", "max_depth = 99", "max_depth = 99");
}

static void test_models_with_bad_keys_are_refused(void **state)
{
	refuses("version = 1", "version = 2", "version = 2: this program reads 1");
	refuses("version = 1\n", "", "before [predictor] is complete");
	refuses("version = 1", "version = 1\nversion = 1", "version is given twice");
	refuses("lane = npu", "lane = tpu", "lane = tpu");
	refuses("leaves = constant", "leaves = green", "leaves = green");
	refuses("samples = 9", "samples = 9\ncolour = 9", "colour: no such key");
	refuses("feature = tiles", "feature = colour", "colour: no such feature");
	refuses("one = 300", "one = 300\none = 300", "one is given twice");
	refuses("one = 300", "two = 300", "two: no such key");
	refuses("[predictor]", "no ini file", "no predictor");
	write_model("\0\0\0\0", 4);
	refused("");
}

/* ---- samples ---- */

static void test_samples_come_back_from_a_file(void **state)
{
	struct op_samples s = modelled(SOC_NPU, 50, 9), t = { 0 };
	FILE *f = fopen(path, "w");

	s.v[3].mad_ns = 0.125;
	s.v[3].runs = 77;
	op_samples_write(&s, f);
	fclose(f);
	assert_int_equal(op_samples_read(path, &t), 0);
	assert_int_equal(s.n, t.n);
	assert_string_equal(t.source, "virtual:sd8gen3");
	for (size_t i = 0; i < s.n; i++) {
		assert_true(s.v[i].ns == t.v[i].ns && s.v[i].mad_ns == t.v[i].mad_ns &&
			    s.v[i].runs == t.v[i].runs);
		assert_true(s.v[i].op.m == t.v[i].op.m && s.v[i].op.k == t.v[i].op.k &&
			    s.v[i].op.n == t.v[i].op.n);
		assert_true(s.v[i].op.order == t.v[i].op.order &&
			    s.v[i].op.weight_bits == t.v[i].op.weight_bits);
	}
	op_samples_free(&s);
	op_samples_free(&t);
}

static void refused_samples(const char *from, const char *wanted)
{
	struct op_samples s = { 0 };
	const char *why;
	int err;

	listen();
	err = op_samples_read(from, &s);
	why = said();
	if (err != 1 || s.n || !strstr(why, from) || !strstr(why, wanted))
		fail_msg("'%s' (wanted: %s)", why, wanted);
}

static void test_invalid_samples_are_refused(void **state)
{
	static const char head[] =
		"source,lane,op,m,k,n,act_bits,weight_bits,order,ns,mad_ns,runs\n";
	static const struct {
		const char *line, *why;
	} bad[] = {
		{ "s,npu,matmul,1,1,1,8,8,stationary,5,0\n", "line 2 has 11 columns" },
		{ "s,npu,matmul,1,1,1,8,8,stationary,5,0,1,1\n", "line 2 has 13 columns" },
		{ "s,tpu,matmul,1,1,1,8,8,stationary,5,0,1\n", "lane = 'tpu'" },
		{ "s,npu,softmax,1,1,1,8,8,stationary,5,0,1\n", "op = 'softmax'" },
		{ "s,npu,matmul,0,1,1,8,8,stationary,5,0,1\n", "m = '0'" },
		{ "s,npu,matmul,1,-1,1,8,8,stationary,5,0,1\n", "k = '-1'" },
		{ "s,npu,matmul,1,1,99999999999999999999,8,8,stationary,5,0,1\n", "n = '9" },
		{ "s,npu,matmul,1,1,1,8,nan,stationary,5,0,1\n", "weight_bits = 'nan'" },
		{ "s,npu,matmul,1,1,1,8,8,upside,5,0,1\n", "order = 'upside'" },
		{ "s,npu,matmul,1,1,1,8,8,stationary,nan,0,1\n", "ns = 'nan'" },
		{ "s,npu,matmul,1,1,1,8,8,stationary,-5,0,1\n", "ns = '-5'" },
		{ "s,npu,matmul,1,1,1,8,8,stationary,0,0,1\n", "ns = '0'" },
		{ "s,npu,matmul,1,1,1,8,8,stationary,5,0,0\n", "runs = '0'" },
		{ "s,npu,matmul,1,1,1,8,8,stationary,5,0,1\n"
		  "t,npu,matmul,1,1,1,8,8,stationary,5,0,1\n",
		  "one source" },
		{ "", "no samples" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char text[512];

		snprintf(text, sizeof(text), "%s%s", head, bad[i].line);
		write_model(text, strlen(text));
		refused_samples(path, bad[i].why);
	}
	write_model("m,k,n\n", 6);
	refused_samples(path, "the first line is not source,");
	refused_samples("/nowhere/at/all", "No such file");
}

static void test_the_grid_has_the_matmuls_of_a_model(void **state)
{
	static const unsigned int rows[] = { 1, 64 };
	/* Llama3-8B: QKV, output, gate and up, down, head. */
	static const uint64_t want[][2] = {
		{ 4096, 6144 }, { 4096, 4096 }, { 4096, 28672 }, { 14336, 4096 }, { 4096, 128256 }
	};
	struct op_samples s = { 0 };

	assert_int_equal(op_profile_grid("llama3-8b", rows, 2, SOC_NPU, LLM_WEIGHTS_W4A16, 0, &s),
			 0);
	assert_int_equal(s.n, 10);
	for (size_t i = 0; i < s.n; i++) {
		assert_int_equal(s.v[i].op.m, rows[i % 2]);
		assert_int_equal(s.v[i].op.k, want[i / 2][0]);
		assert_int_equal(s.v[i].op.n, want[i / 2][1]);
		assert_true(s.v[i].op.weight_bits == 4 && s.v[i].op.act_bits == 16);
	}
	op_samples_free(&s);
	listen();
	assert_int_equal(
		op_profile_grid("no-such-model", rows, 2, SOC_NPU, LLM_WEIGHTS_W4A16, 0, &s), 1);
	assert_non_null(strstr(said(), "no-such-model"));
	assert_int_equal(s.n, 0);
}

static void test_the_wall_clock_measures_work_that_was_done(void **state)
{
	struct op_samples s = { 0 };

	add(&s, 1, 64, 64, 0);
	add(&s, 64, 512, 512, 0);
	add(&s, 256, 2048, 2048, 0);
	assert_int_equal(op_profile_wall(NULL, &s), 0);
	assert_memory_equal(s.source, "wall:", 5);
	for (size_t i = 0; i < s.n; i++) {
		double macs = (double)s.v[i].op.m * (double)s.v[i].op.k * (double)s.v[i].op.n;

		/*
		 * Times depend on the machine and its load; but no machine does 100,000
		 * multiply-accumulates per nanosecond.
		 */
		assert_true(s.v[i].ns > 0 && s.v[i].ns > macs / 1e5);
		assert_true(s.v[i].runs >= 1 && s.v[i].mad_ns >= 0 && s.v[i].mad_ns <= s.v[i].ns);
	}
	s.v[1].op.weight_bits = 4;
	listen();
	assert_int_equal(op_profile_wall(NULL, &s), 1);
	assert_non_null(strstr(said(), "w8a8"));
	op_samples_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_piecewise_constant_function_is_learned_exactly),
		cmocka_unit_test(test_outliers_that_cancel_out_are_learned_exactly),
		cmocka_unit_test(test_steps_of_one_dimension_are_learned_for_all_of_the_others),
		cmocka_unit_test(test_a_step_among_many_shapes_is_learned_where_it_is),
		cmocka_unit_test(test_a_threshold_is_the_roundest_number_between_its_neighbours),
		cmocka_unit_test(test_a_sum_of_terms_is_learned_exactly_also_beyond_the_samples),
		cmocka_unit_test(test_modelled_lanes_are_predicted_within_ten_percent),
		cmocka_unit_test(test_predictions_are_positive_and_finite_everywhere),
		cmocka_unit_test(test_a_loaded_predictor_predicts_the_same_bits_as_the_saved_one),
		cmocka_unit_test(test_the_same_samples_and_seed_give_the_same_tree_and_error),
		cmocka_unit_test(test_few_equal_and_repeated_samples_give_a_leaf),
		cmocka_unit_test(test_a_model_written_by_hand_is_read),
		cmocka_unit_test(test_a_model_cut_anywhere_is_refused),
		cmocka_unit_test(test_models_that_are_not_trees_are_refused),
		cmocka_unit_test(test_models_with_bad_numbers_are_refused),
		cmocka_unit_test(test_models_with_bad_keys_are_refused),
		cmocka_unit_test(test_samples_come_back_from_a_file),
		cmocka_unit_test(test_invalid_samples_are_refused),
		cmocka_unit_test(test_the_grid_has_the_matmuls_of_a_model),
		cmocka_unit_test(test_the_wall_clock_measures_work_that_was_done),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
