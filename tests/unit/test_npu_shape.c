// SPDX-License-Identifier: MIT
/*
 * Equivalent shapes of a matmul's rows (llm.npu 4): the same bits for all widths, the fastest one
 * by the compiler's search, and ISA 1.7 for those only that have a shape.
 */
#define _GNU_SOURCE
#include <errno.h>

#include "npu_matmuls.h"
#include "npu_time.h"
#include "soc.h"

/* The number of the @i-th divisor of @m; 0: it has fewer. */
static uint32_t divisor(uint32_t m, uint32_t i)
{
	for (uint32_t d = 1; d <= m; d++)
		if (!(m % d) && !i--)
			return d;
	return 0;
}

static void all_widths_have_the_same_bits(void **state)
{
	/* Of many shapes. */
	static const uint32_t rows[] = { 1, 12, 36, 60, 96, 120, 210, 256 };

	random_begin(__func__);
	for (size_t i = 0; i < NR_KINDS * 8; i++) {
		struct matmul mm = matmul_make(kinds[i % NR_KINDS].op, rows[i / NR_KINDS],
					       random_in(1, 200), random_in(1, 300));
		size_t bytes = (size_t)mm.m * mm.n * 4;
		float *plain = malloc(bytes), *shaped = malloc(bytes);
		bool permuted = random_in(0, 1);

		matmul_run(*state, &mm, graph_of(&mm, false, -1), plain);
		for (uint32_t j = 0, width; (width = divisor(mm.m, j)); j++) {
			matmul_run(*state, &mm, graph_of(&mm, permuted, width), shaped);
			if (memcmp(plain, shaped, bytes))
				fail_msg("%s: %u rows in lines of %u", kinds[i % NR_KINDS].name,
					 mm.m, width);
		}
		matmul_run(*state, &mm, graph_of(&mm, permuted, 0), shaped);
		assert_memory_equal(plain, shaped, bytes);
		free(plain);
		free(shaped);
		matmul_free(&mm);
	}
}

/* ---- time ---- */

static void device_time_is_that_of_the_shape(void **state)
{
	char why[512];
	struct soc *soc = soc_load("sd8gen3", why, sizeof(why));
	unsigned int dear = 0;

	assert_non_null(soc);
	random_begin(__func__);
	for (size_t i = 0; i < 4 * NR_KINDS * ROUNDS; i++) {
		uint32_t width = random_in(1, 40);
		struct matmul mm = matmul_make(kinds[i % NR_KINDS].op, width * random_in(1, 20),
					       random_in(1, 512), random_in(1, 1000));
		struct npu_time_matmul op = {
			.m = mm.m,
			.k = mm.k,
			.n = mm.n,
			.type = of_floats(&mm) ? NPU_TIME_F16 : NPU_TIME_I8,
			.weight_bits = weight_bits(&mm),
			.group = mm.group,
			.width = width,
		};
		uint64_t ns = predicted_ns(graph_of(&mm, false, width));
		double alone = npu_time_alone_ns(&soc->npu, npu_time_matmul(&soc->npu, &op));

		if (fabs((double)ns - soc->npu.launch_us * 1000 - alone) > 1)
			fail_msg("%s %u x %u x %u in lines of %u: %llu ns",
				 kinds[i % NR_KINDS].name, mm.m, mm.k, mm.n, width,
				 (unsigned long long)ns);
		dear += ns > predicted_ns(graph_of(&mm, false, -1));
		matmul_free(&mm);
	}
	assert_true(dear > NR_KINDS * ROUNDS);
	soc_free(soc);
}

/* ---- the search ---- */

/* The width in the listing of a matmul; all its rows if there is none. Frees the graph. */
static uint32_t listed_width(struct npu_graph *g, uint32_t m)
{
	char *text = NULL, *at;
	size_t bytes, size;
	uint32_t width = m;
	void *image;
	FILE *f;

	npu_ok(npu_graph_compile(g, &image, &bytes));
	npu_graph_free(g);
	f = open_memstream(&text, &size);
	npu_ok(npu_image_disassemble(image, bytes, NULL, f));
	fclose(f);
	at = strstr(text, " width=");
	if (at)
		width = (uint32_t)strtoul(at + 7, NULL, 10);
	free(text);
	free(image);
	return width;
}

static uint32_t longer_side(uint32_t m, uint32_t width)
{
	return width > m / width ? width : m / width;
}

/* By the times of all widths, each compiled on its own. */
static void the_search_finds_the_fastest_of_all_widths(void **state)
{
	unsigned int chosen = 0;

	random_begin(__func__);
	for (size_t i = 0; i < NR_KINDS * ROUNDS; i++) {
		uint32_t m = i / NR_KINDS ? random_in(1, 30) * random_in(1, 40) : 1024;
		struct matmul mm = matmul_make(kinds[i % NR_KINDS].op, m, random_in(1, 300),
					       random_in(1, 600));
		bool permuted = i / NR_KINDS % 4 == 3;
		struct npu_graph *g = graph_of(&mm, permuted, 0);
		uint64_t least = UINT64_MAX, own = 0;
		uint32_t side = UINT32_MAX, width;

		npu_ok(npu_graph_predict(g, "sd8gen3"));
		width = listed_width(g, m);
		for (uint32_t j = 0, d; (d = divisor(m, j)); j++) {
			uint64_t ns = predicted_ns(graph_of(&mm, permuted, d));

			own = d == width ? ns : own;
			if (ns < least || (ns == least && longer_side(m, d) < side)) {
				least = ns;
				side = longer_side(m, d);
			}
		}
		if (own != least || longer_side(m, width) != side)
			fail_msg("%s of %u rows: lines of %u take %llu ns, the best %llu",
				 kinds[i % NR_KINDS].name, m, width, (unsigned long long)own,
				 (unsigned long long)least);
		assert_int_equal(predicted_ns(graph_of(&mm, permuted, 0)), least);
		chosen += width != m;
		matmul_free(&mm);
	}
	assert_true(chosen > NR_KINDS);
}

static void without_a_profile_the_squarest_shape_is_chosen(void **state)
{
	static const struct {
		uint32_t m, width;
	} cases[] = { { 1024, 32 }, { 1, 1 }, { 13, 13 }, { 12, 4 }, { 100, 10 }, { 2, 2 } };

	random_begin(__func__);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct matmul mm = matmul_make(VNPU_OP_MATMUL_I8, cases[i].m, 70, 30);

		assert_int_equal(listed_width(graph_of(&mm, false, 0), mm.m), cases[i].width);
		matmul_free(&mm);
	}
}

/* Among others, of which one has a width stated and one has none. */
static void each_matmul_of_a_graph_gets_its_own_shape(void **state)
{
	struct npu_graph *g = npu_graph_create("several");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 96, 2048), *s, *q, *w, *y[4];
	static const char *const want[] = { "width=6 ", "width=1 ", NULL, "width=32 " };
	char *text = NULL, *line, *end, name[24];
	size_t bytes, size;
	void *image;
	FILE *f;

	npu_ok(npu_sleep(g, 10));
	q = npu_quant(g, x, &s);
	w = npu_graph_weight(g, "w", NPU_W8_PANEL, 64, 2048);
	for (int i = 0; i < 4; i++) {
		y[i] = npu_matmul_i8(g, q, s, w, NULL);
		snprintf(name, sizeof(name), "y%d", i);
		npu_graph_output(g, name, y[i]);
	}
	/* The last call counts. */
	npu_matmul_shape(g, y[3], 1);
	npu_matmul_shape(g, y[0], 6);
	npu_matmul_shape(g, y[1], 1);
	npu_matmul_shape(g, y[3], 0);
	npu_ok(npu_graph_predict(g, "sd8gen3"));
	npu_ok(npu_graph_compile(g, &image, &bytes));
	npu_graph_free(g);
	f = open_memstream(&text, &size);
	npu_ok(npu_image_disassemble(image, bytes, "sd8gen3", f));
	fclose(f);
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), " c=y%d ", i);
		line = strstr(text, name);
		assert_non_null(line);
		end = strchr(line, '\n');
		*end = 0;
		if (want[i] ? !strstr(line, want[i]) : !!strstr(line, "width="))
			fail_msg("not %s in %s", want[i], line);
		*end = '\n';
	}
	free(text);
	free(image);
}

/* ---- versions, and what is refused ---- */

static void only_matmuls_with_several_lines_need_version_1_7(void **state)
{
	random_begin(__func__);
	for (size_t i = 0; i < 3 * NR_KINDS; i++) {
		const struct kind *kind = &kinds[i / 3];
		struct matmul mm = matmul_make(kind->op, 6, 70, 128);
		struct npu_graph *g = graph_of(&mm, false, (int64_t[]){ -1, 6, 2 }[i % 3]);
		struct npu_image_info info;
		size_t bytes;
		void *image;

		npu_ok(npu_graph_compile(g, &image, &bytes));
		npu_graph_free(g);
		npu_ok(npu_image_info(image, bytes, &info));
		assert_int_equal(info.isa_version, 1 << 16 | (i % 3 == 2 ? 7 : kind->minor));
		free(image);
		matmul_free(&mm);
	}
}

static void an_image_of_an_older_version_has_no_shape(void **state)
{
	struct matmul mm = matmul_make(VNPU_OP_MATMUL_I8, 2, 70, 128);
	struct npu_graph *g = graph_of(&mm, false, 1);
	const uint32_t magic = VNPU_STREAM_MAGIC;
	struct vnpu_stream_hdr *stream;
	struct npu_image_info info;
	void *image;
	size_t bytes;

	npu_ok(npu_graph_compile(g, &image, &bytes));
	npu_graph_free(g);
	stream = memmem(image, bytes, &magic, sizeof(magic));
	assert_int_equal(stream->isa_minor, 7);
	stream->isa_minor = 6;
	npu_fails(npu_image_info(image, bytes, &info), -EINVAL, "flags 0x2, does not exist");
	free(image);
	matmul_free(&mm);
}

static void refused(struct npu_graph *g, struct npu_tensor *y, uint32_t width, const char *why)
{
	void *image;
	size_t bytes;

	assert_null(npu_matmul_shape(g, y, width));
	npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, why);
	npu_graph_free(g);
}

static void lines_that_do_not_divide_the_rows_are_refused(void **state)
{
	static const uint32_t widths[] = { 5, 7, 13, 24, UINT32_MAX };
	struct npu_graph *g;
	struct npu_tensor *s, *q;
	char why[64];

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		g = npu_graph_create("bad");
		q = npu_quant(g, npu_graph_input(g, "x", NPU_F32, 12, 64), &s);
		snprintf(why, sizeof(why), "has 12 rows, which are no lines of %u", widths[i]);
		refused(g,
			npu_matmul_i8(g, q, s, npu_graph_weight(g, "w", NPU_W8_PANEL, 64, 64),
				      NULL),
			widths[i], why);
	}
	g = npu_graph_create("input");
	refused(g, npu_graph_input(g, "x", NPU_F32, 12, 64), 1,
		"shape: 'x' is no result of a matmul");
	g = npu_graph_create("sum");
	q = npu_graph_input(g, "x", NPU_F32, 2, 64);
	refused(g, npu_add(g, q, q), 0, "shape: 'result' is no result of a matmul");
	refused(npu_graph_create("nothing"), NULL, 1, "an operand is missing");
}

#define with_device(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_device(all_widths_have_the_same_bits),
		cmocka_unit_test(device_time_is_that_of_the_shape),
		cmocka_unit_test(the_search_finds_the_fastest_of_all_widths),
		cmocka_unit_test(without_a_profile_the_squarest_shape_is_chosen),
		cmocka_unit_test(each_matmul_of_a_graph_gets_its_own_shape),
		cmocka_unit_test(only_matmuls_with_several_lines_need_version_1_7),
		cmocka_unit_test(an_image_of_an_older_version_has_no_shape),
		cmocka_unit_test(lines_that_do_not_divide_the_rows_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
