// SPDX-License-Identifier: MIT
/*
 * Permuted matmuls: the same bits, the device time of streamed weights, and ISA 1.5 for those only
 * that ask for it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>

#include "fw_data.h"
#include "npu_matrix.h"
#include "npu_time.h"
#include "soc.h"

static const struct kind {
	enum vnpu_op op;
	const char *name;
	uint32_t minor; /* of the ISA that brought it */
} kinds[] = {
	{ VNPU_OP_MATMUL_I8, "matmul_i8", 0 },
	{ VNPU_OP_MATMUL_W4, "matmul_w4", 2 },
	{ VNPU_OP_MATMUL_W4F, "matmul_w4f", 2 },
	{ VNPU_OP_MATMUL_WK, "matmul_wk", 3 },
};
#define NR_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* A matmul with its operands. */
struct matmul {
	enum vnpu_op op;
	uint32_t m, n, k;
	uint8_t bits[512]; /* MATMUL_WK: of each channel */
	uint32_t group; /* of 4 bits */
	bool biased;
	uint8_t *w;
	int8_t *q; /* rows of s8, or */
	struct matrix x, scale, bias; /* of floats */
	size_t w_bytes;
};

static bool of_floats(const struct matmul *mm)
{
	return mm->op == VNPU_OP_MATMUL_W4F;
}

static void pack(struct matmul *mm)
{
	uint32_t n = mm->n, k = mm->k;
	int8_t *rows = malloc((size_t)n * k);
	uint8_t *numbers = (uint8_t *)rows;
	uint16_t *scales = malloc((size_t)n * k * 2);
	struct matrix one = matrix_new(n);

	for (size_t i = 0; i < (size_t)n * k; i++) {
		rows[i] = (int8_t)random_in(0, mm->group ? 15 : 255);
		scales[i] = (uint16_t)random_in(0x1c00, 0x3000);
	}
	if (mm->op == VNPU_OP_MATMUL_I8)
		npu_pack_w8(mm->w, n, k, 0, n, rows, one.f);
	else if (mm->op == VNPU_OP_MATMUL_WK)
		npu_pack_wk(mm->w, n, k, mm->bits, 0, n, rows, one.f);
	else
		npu_pack_w4(mm->w, n, k, mm->group, 0, n, numbers, scales);
	free(rows);
	free(scales);
	matrix_free(&one);
}

static struct matmul matmul_make(enum vnpu_op op, uint32_t m, uint32_t n, uint32_t k)
{
	struct matmul mm = { .op = op, .m = m, .n = n, .k = k, .biased = random_in(0, 1) };

	assert_true(n <= sizeof(mm.bits));
	for (uint32_t i = 0; i < n; i++)
		mm.bits[i] = (uint8_t)random_in(1, 8);
	if (op == VNPU_OP_MATMUL_W4 || op == VNPU_OP_MATMUL_W4F) {
		mm.group = 32u << random_in(0, 2);
		mm.k = k = (k + mm.group - 1) / mm.group * mm.group;
	}
	mm.w_bytes = op == VNPU_OP_MATMUL_I8   ? npu_w8_bytes(n, k)
		     : op == VNPU_OP_MATMUL_WK ? npu_wk_bytes(n, k, mm.bits)
					       : npu_w4_bytes(n, k, mm.group);
	mm.w = malloc(mm.w_bytes);
	pack(&mm);
	mm.q = malloc((size_t)m * (k + 3));
	for (size_t i = 0; i < (size_t)m * (k + 3); i++)
		mm.q[i] = (int8_t)random_in(0, 255);
	mm.x = matrix_new((size_t)m * k);
	mm.scale = matrix_new(m);
	mm.bias = matrix_new(n);
	return mm;
}

static void matmul_free(struct matmul *mm)
{
	free(mm->w);
	free(mm->q);
	matrix_free(&mm->x);
	matrix_free(&mm->scale);
	matrix_free(&mm->bias);
}

static struct npu_graph *graph_of(const struct matmul *mm, bool permuted)
{
	struct npu_graph *g = npu_graph_create("permute");
	struct npu_tensor *a, *s = NULL, *w, *b = NULL, *y;

	a = npu_graph_input(g, "a", of_floats(mm) ? NPU_F32 : NPU_S8, mm->m, mm->k);
	if (!of_floats(mm))
		s = npu_graph_input(g, "scale", NPU_F32, mm->m, 1);
	w = mm->op == VNPU_OP_MATMUL_I8	  ? npu_graph_weight(g, "w", NPU_W8_PANEL, mm->n, mm->k)
	    : mm->op == VNPU_OP_MATMUL_WK ? npu_graph_weight_wk(g, "w", mm->n, mm->k, mm->bits)
					  : npu_graph_weight_w4(g, "w", mm->n, mm->k, mm->group);
	if (mm->biased)
		b = npu_graph_weight(g, "bias", NPU_F32, 1, mm->n);
	y = mm->op == VNPU_OP_MATMUL_I8	  ? npu_matmul_i8(g, a, s, w, b)
	    : mm->op == VNPU_OP_MATMUL_W4 ? npu_matmul_w4(g, a, s, w, b)
	    : mm->op == VNPU_OP_MATMUL_WK ? npu_matmul_wk(g, a, s, w, b)
					  : npu_matmul_w4f(g, a, w, b);
	if (permuted)
		assert_ptr_equal(npu_matmul_permute(g, y), y);
	npu_graph_output(g, "y", y);
	return g;
}

static void matmul_run(struct fixture *f, const struct matmul *mm, bool permuted, float *y)
{
	struct run_binding bindings[5] = {
		{ "a", mm->q, NULL, (size_t)mm->m * ((mm->k + 3) & ~3u) },
		{ "w", mm->w, NULL, mm->w_bytes },
		{ "y", NULL, y, (size_t)mm->m * mm->n * 4 },
	};
	unsigned int nr = 3;

	if (of_floats(mm))
		bindings[0] = (struct run_binding){ "a", mm->x.f, NULL, mm->x.n * 4 };
	else
		bindings[nr++] = (struct run_binding){ "scale", mm->scale.f, NULL, mm->m * 4 };
	if (mm->biased)
		bindings[nr++] = (struct run_binding){ "bias", mm->bias.f, NULL, mm->n * 4 };
	npu_ok(run_graph(f, graph_of(mm, permuted), bindings, nr, NULL, 0));
}

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

		matmul_run(*state, &mm, false, plain);
		matmul_run(*state, &mm, true, permuted);
		if (memcmp(plain, permuted, bytes))
			fail_msg("%s %u x %u x %u", kinds[i % NR_KINDS].name, mm.m, mm.k, mm.n);
		free(plain);
		free(permuted);
		matmul_free(&mm);
	}
}

/* ---- compiled ---- */

static uint64_t predicted_ns(const struct matmul *mm, bool permuted)
{
	struct npu_graph *g = graph_of(mm, permuted);
	struct npu_image_info info;
	void *image;
	size_t bytes;

	npu_ok(npu_graph_predict(g, "sd8gen3"));
	npu_ok(npu_graph_compile(g, &image, &bytes));
	npu_graph_free(g);
	npu_ok(npu_image_info(image, bytes, &info));
	free(image);
	return info.device_ns;
}

static double weight_bits(const struct matmul *mm)
{
	uint64_t panels = (mm->n + 63) / 64;
	double own = (double)(mm->w_bytes - VNPU_WK_TABLE_BYTES(mm->n) - panels * 512);

	if (mm->op != VNPU_OP_MATMUL_WK)
		return mm->group ? 4 : 8;
	return own / (double)(panels * (VNPU_PANEL_WK_BYTES(mm->k, 1) - 512));
}

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
			.group = mm.op == VNPU_OP_MATMUL_W4 ? mm.group : 0,
		};
		uint64_t ns = predicted_ns(&mm, permuted);
		double alone = npu_time_alone_ns(&soc->npu, npu_time_matmul(&soc->npu, &op));

		if (fabs((double)ns - soc->npu.launch_us * 1000 - alone) > 1)
			fail_msg("%s %u x %u x %u: %llu ns", kinds[i % NR_KINDS].name, mm.m, mm.k,
				 mm.n, (unsigned long long)ns);
		differ += ns != predicted_ns(&mm, !permuted);
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
		struct npu_graph *g = graph_of(&mm, i % 2);
		struct npu_image_info info;
		char *text = NULL, line[64];
		size_t bytes, size;
		void *image;
		FILE *f;

		npu_ok(npu_graph_compile(g, &image, &bytes));
		npu_graph_free(g);
		npu_ok(npu_image_info(image, bytes, &info));
		assert_int_equal(info.isa_version, 1 << 16 | (i % 2 ? 5 : kind->minor));
		f = open_memstream(&text, &size);
		npu_ok(npu_image_disassemble(image, bytes, NULL, f));
		fclose(f);
		snprintf(line, sizeof(line), ": %s%s c=y a=a ", kind->name,
			 i % 2 ? " permuted" : "");
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
	struct npu_graph *g = graph_of(&mm, true);
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
