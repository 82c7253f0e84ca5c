// SPDX-License-Identifier: MIT
/*
 * Permuted matmuls: the same bits, the device time of streamed weights, and ISA 1.5 for those only
 * that ask for it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>

#include "npu_matmuls.h"
#include "npu_time.h"
#include "soc.h"

static void results_have_the_same_bits(void **state)
{
	random_begin(__func__);
	for (size_t i = 0; i < NR_KINDS * ROUNDS; i++) {
		/* One in each four rounds has many tiles. */
		uint32_t m = i / NR_KINDS % 4 ? random_in(1, 40) : random_in(100, 300);
		struct matmul mm = matmul_make(kinds[i % NR_KINDS].op, m, random_in(1, 400),
					       random_in(1, 500));
		size_t bytes = (size_t)mm.m * mm.n * 4;
		float *plain = malloc(bytes), *permuted = malloc(bytes);

		matmul_run(*state, &mm, graph_of(&mm, false, -1), plain);
		matmul_run(*state, &mm, graph_of(&mm, true, -1), permuted);
		if (memcmp(plain, permuted, bytes))
			fail_msg("%s %u x %u x %u", kinds[i % NR_KINDS].name, mm.m, mm.k, mm.n);
		free(plain);
		free(permuted);
		matmul_free(&mm);
	}
}

/* ---- compiled ---- */

static void device_time_is_that_of_streamed_weights(void **state)
{
	char why[512];
	struct soc *soc = soc_load("sd8gen3", why, sizeof(why));
	unsigned int differ = 0;

	assert_non_null(soc);
	random_begin(__func__);
	for (size_t i = 0; i < 2 * NR_KINDS * ROUNDS; i++) {
		bool permuted = i / NR_KINDS % 2;
		struct matmul mm = matmul_make(kinds[i % NR_KINDS].op, random_in(1, 1024),
					       random_in(1, 512), random_in(1, 1000));
		struct npu_time_matmul op = {
			.m = mm.m,
			.k = mm.k,
			.n = mm.n,
			.type = of_floats(&mm) ? NPU_TIME_F16 : NPU_TIME_I8,
			.order = permuted ? NPU_TIME_WEIGHTS_STREAMED : NPU_TIME_WEIGHTS_STATIONARY,
			.weight_bits = weight_bits(&mm),
			.group = mm.group,
		};
		uint64_t ns = predicted_ns(graph_of(&mm, permuted, -1));
		double alone = npu_time_alone_ns(&soc->npu, npu_time_matmul(&soc->npu, &op));

		if (fabs((double)ns - soc->npu.launch_us * 1000 - alone) > 1)
			fail_msg("%s %u x %u x %u: %llu ns", kinds[i % NR_KINDS].name, mm.m, mm.k,
				 mm.n, (unsigned long long)ns);
		differ += ns != predicted_ns(graph_of(&mm, !permuted, -1));
		matmul_free(&mm);
	}
	assert_true(differ > NR_KINDS * ROUNDS);
	soc_free(soc);
}

static void only_permuted_matmuls_need_version_1_5_and_are_listed_as_such(void **state)
{
	random_begin(__func__);
	for (size_t i = 0; i < 2 * NR_KINDS; i++) {
		const struct kind *kind = &kinds[i / 2];
		struct matmul mm = matmul_make(kind->op, 2, 70, 128);
		struct npu_graph *g = graph_of(&mm, i % 2, -1);
		struct npu_image_info info;
		char *text = NULL, line[64];
		size_t bytes, size;
		void *image;
		FILE *f;

		npu_ok(npu_graph_compile(g, &image, &bytes));
		npu_graph_free(g);
		npu_ok(npu_image_info(image, bytes, &info));
		assert_int_equal(info.isa_version,
				 1 << 16 | (i % 2 && kind->minor < 5 ? 5 : kind->minor));
		f = open_memstream(&text, &size);
		npu_ok(npu_image_disassemble(image, bytes, NULL, f));
		fclose(f);
		snprintf(line, sizeof(line), ": %s%s%s c=y a=a ", kind->name,
			 i % 2 ? " permuted" : "", kind->mode);
		if (!strstr(text, line))
			fail_msg("no '%s' in %s", line, text);
		free(text);
		free(image);
		matmul_free(&mm);
	}
}

/* The flag in a stream that says to be older. */
static void an_image_of_an_older_version_has_no_permuted_matmul(void **state)
{
	struct matmul mm = matmul_make(VNPU_OP_MATMUL_I8, 2, 70, 128);
	struct npu_graph *g = graph_of(&mm, true, -1);
	const uint32_t magic = VNPU_STREAM_MAGIC;
	struct vnpu_stream_hdr *stream;
	struct npu_image_info info;
	void *image;
	size_t bytes;

	npu_ok(npu_graph_compile(g, &image, &bytes));
	npu_graph_free(g);
	stream = memmem(image, bytes, &magic, sizeof(magic));
	assert_int_equal(stream->isa_minor, 5);
	stream->isa_minor = 4;
	npu_fails(npu_image_info(image, bytes, &info), -EINVAL, "flags 0x1, does not exist");
	free(image);
	matmul_free(&mm);
}

/* Of a graph with an operator whose result is @y. */
static void refused(struct npu_graph *g, struct npu_tensor *y, const char *why)
{
	void *image;
	size_t bytes;

	assert_null(npu_matmul_permute(g, y));
	npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, why);
	npu_graph_free(g);
}

static void what_is_no_result_of_a_matmul_is_refused(void **state)
{
	struct npu_graph *g = npu_graph_create("input"), *other = npu_graph_create("other");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 2, 64), *s, *o, *w;

	refused(g, x, "'x' is no result of a matmul");
	g = npu_graph_create("sum");
	x = npu_graph_input(g, "x", NPU_F32, 2, 64);
	refused(g, npu_add(g, x, x), "'result' is no result of a matmul");
	g = npu_graph_create("outliers");
	x = npu_quant_outliers(g, npu_graph_input(g, "x", NPU_F32, 2, 64), &s, &o);
	w = npu_graph_weight(g, "w", NPU_W8_PANEL, 64, 64);
	refused(g, npu_add_outliers(g, npu_matmul_i8(g, x, s, w, NULL), o, w),
		"'result' is no result of a matmul");
	g = npu_graph_create("stranger");
	refused(g, npu_silu(other, npu_graph_input(other, "x", NPU_F32, 2, 64)),
		"of another graph");
	npu_graph_free(other);
	refused(npu_graph_create("nothing"), NULL, "an operand is missing");
}

#define with_device(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_device(results_have_the_same_bits),
		cmocka_unit_test(device_time_is_that_of_streamed_weights),
		cmocka_unit_test(only_permuted_matmuls_need_version_1_5_and_are_listed_as_such),
		cmocka_unit_test(an_image_of_an_older_version_has_no_permuted_matmul),
		cmocka_unit_test(what_is_no_result_of_a_matmul_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
