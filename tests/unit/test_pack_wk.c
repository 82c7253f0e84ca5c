// SPDX-License-Identifier: MIT
/*
 * Packing adaptive weights: panels have the widths that the average allows and the numbers of
 * adaptive_quantize(), those of 8 bits the numbers of W8; a file's panels are copied as they are,
 * or unpacked to those of W8 with the same numbers, and tables that do not describe their matrix
 * are refused.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "adaptive.h"
#include "cpu_kernels.h"
#include "npu_graph.h"
#include "npu_random.h"
#include "pack.h"
#include "threadpool.h"
#include <npu/vnpu_isa.h>

static struct llm_packer packer;

static int setup(void **state)
{
	packer = (struct llm_packer){ .pool = llm_pool_create(2, 0),
				      .kernels = cpu_kernels_get(NULL) };
	return !packer.pool;
}

static int teardown(void **state)
{
	llm_packer_release(&packer);
	llm_pool_free(packer.pool);
	return 0;
}

/* Rows of normal weights, in each panel with more or fewer large ones, so that errors differ. */
static struct gguf_tensor random_matrix(unsigned int rows, unsigned int cols)
{
	struct gguf_tensor t = { .name = "m",
				 .type = GGUF_F32,
				 .dims = { cols, rows, 1, 1 },
				 .n_dims = 2,
				 .bytes = (uint64_t)rows * cols * sizeof(float) };
	float *w = malloc(t.bytes);

	assert_non_null(w);
	for (unsigned int r = 0; r < rows; r++)
		for (unsigned int c = 0; c < cols; c++) {
			w[(size_t)r * cols + c] = (float)random_in(-1000, 1000) / 1000.0f;
			if (c % 64 == 0)
				w[(size_t)r * cols + c] *= (float)(1u << (r / 64 % 4 * 2));
		}
	t.data = w;
	return t;
}

/* Packs @t; the panels are an I8 tensor as a file's. */
static struct gguf_tensor pack(const struct gguf_tensor *t, double average)
{
	unsigned int rows = (unsigned int)t->dims[1], cols = (unsigned int)t->dims[0], bad;
	struct gguf_tensor panels = { .name = "m.panels", .type = GGUF_I8, .n_dims = 1 };
	void *bytes;

	panels.bytes = llm_wk_bytes(average, rows, cols);
	bytes = aligned_alloc(64, panels.bytes);
	assert_non_null(bytes);
	assert_int_equal(llm_pack_adaptive(&packer, t, average, bytes, &bad), 0);
	panels.data = bytes;
	return panels;
}

static void check_rows(const struct gguf_tensor *t, const struct gguf_tensor *panels,
		       const uint8_t *bits)
{
	unsigned int rows = (unsigned int)t->dims[1], cols = (unsigned int)t->dims[0];
	int8_t *got = malloc(cols), *want = malloc(cols);
	float got_scale, want_scale;

	for (unsigned int r = 0; r < rows; r++) {
		const float *row = (const float *)t->data + (size_t)r * cols;

		if (bits[r] == 8)
			assert_int_equal(packer.kernels->quant(want, &want_scale, row, cols), 0);
		else
			want_scale = adaptive_quantize(row, cols, bits[r], want);
		npu_unpack_wk(panels->data, cols, r, got, &got_scale);
		assert_memory_equal(got, want, cols);
		assert_memory_equal(&got_scale, &want_scale, sizeof(want_scale));
	}
	free(got);
	free(want);
}

static void panels_hold_the_numbers_of_the_widths_that_the_average_allows(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < 24; i++) {
		unsigned int rows = (unsigned int)random_in(1, 400);
		unsigned int cols = (unsigned int)random_in(1, 300), sum = 0;
		double average = i < 8 ? i + 1 : random_in(100, 800) / 100.0;
		struct gguf_tensor t = random_matrix(rows, cols), panels = pack(&t, average);
		unsigned int nr = (rows + 63) / 64;
		uint8_t *bits = malloc(rows);

		assert_true(llm_wk_widths(&panels, rows, cols, bits));
		for (unsigned int p = 0; p < nr; p++)
			sum += bits[p * 64];
		assert_true(sum <= average * nr + 1e-6 && sum > average * nr - 1);
		check_rows(&t, &panels, bits);
		free(bits);
		free((void *)t.data);
		free((void *)panels.data);
	}
}

static void panels_with_more_outliers_get_more_bits(void **state)
{
	struct gguf_tensor t, panels;
	uint8_t bits[256];

	random_begin(__func__);
	t = random_matrix(256, 256);
	panels = pack(&t, 5);
	assert_true(llm_wk_widths(&panels, 256, 256, bits));
	assert_true(bits[0] < bits[64] && bits[64] < bits[192]);
	free((void *)t.data);
	free((void *)panels.data);
}

static void a_copy_has_the_same_bytes_and_finds_a_scale_that_is_not_finite(void **state)
{
	const unsigned int rows = 150, cols = 90;
	struct gguf_tensor t, panels;
	float nan = NAN;
	struct llm_part part, rest;
	uint8_t bits[150], *copy;
	unsigned int bad;

	random_begin(__func__);
	t = random_matrix(rows, cols);
	panels = pack(&t, 4.7);
	copy = aligned_alloc(64, panels.bytes);
	memset(copy, 0, panels.bytes);
	assert_true(llm_wk_widths(&panels, rows, cols, bits));
	/* In two parts, as a start reads them. */
	part = (struct llm_part){ &panels, LLM_FORMAT_WK, true, rows, cols, bits, 0, 64, NULL };
	rest = (struct llm_part){ &panels, LLM_FORMAT_WK, true, rows, cols, bits, 64, 86, NULL };
	assert_int_equal(llm_part_offset(&part), 0);
	assert_int_equal(llm_part_offset(&rest), llm_part_bytes(&part));
	assert_int_equal(llm_part_bytes(&part) + llm_part_bytes(&rest), panels.bytes);
	part.data = panels.data;
	rest.data = (const uint8_t *)panels.data + llm_part_offset(&rest);
	assert_int_equal(llm_pack_part(&packer, &part, copy, &bad), 0);
	assert_int_equal(llm_pack_part(&packer, &rest, copy, &bad), 0);
	assert_memory_equal(copy, panels.data, panels.bytes);
	memcpy((uint8_t *)panels.data + panels.bytes - 64 * 4 + 7 * 4, &nan, sizeof(nan));
	assert_int_equal(llm_pack_part(&packer, &rest, copy, &bad), -ERANGE);
	assert_int_equal(bad, 128 + 7);
	free(copy);
	free((void *)t.data);
	free((void *)panels.data);
}

static void unpacked_panels_are_the_rows_packed_again(void **state)
{
	const unsigned int rows = 150, cols = 90;
	const size_t bytes = npu_w8_bytes(rows, cols);
	struct gguf_tensor t, panels;
	int8_t *numbers = malloc((size_t)rows * cols);
	uint8_t bits[150], *want = aligned_alloc(64, bytes), *got = aligned_alloc(64, bytes);
	float scales[150], nan = NAN;
	struct llm_part part;
	unsigned int bad;

	random_begin(__func__);
	t = random_matrix(rows, cols);
	panels = pack(&t, 4.7);
	assert_true(llm_wk_widths(&panels, rows, cols, bits));
	for (unsigned int r = 0; r < rows; r++)
		npu_unpack_wk(panels.data, cols, r, numbers + (size_t)r * cols, scales + r);
	memset(want, 0, bytes);
	npu_pack_w8(want, rows, cols, 0, rows, numbers, scales);
	memset(got, 0xff, bytes);
	part = (struct llm_part){ &panels, LLM_FORMAT_W8, true, rows, cols, bits, 0, 64, NULL };
	for (part.row = 0; part.row < rows; part.row += part.nr) {
		part.nr = part.row ? rows - part.row : 64;
		assert_true(llm_part_unpacks(&part));
		part.data = (const uint8_t *)panels.data + llm_part_offset(&part);
		assert_int_equal(llm_pack_part(&packer, &part, got, &bad), 0);
	}
	assert_memory_equal(got, want, bytes);
	memcpy((uint8_t *)panels.data + panels.bytes - 64 * 4 + 7 * 4, &nan, sizeof(nan));
	part.row = 64;
	part.nr = rows - 64;
	assert_int_equal(llm_pack_part(&packer, &part, got, &bad), -ERANGE);
	assert_int_equal(bad, 128 + 7);
	free(numbers);
	free(want);
	free(got);
	free((void *)t.data);
	free((void *)panels.data);
}

static void a_weight_that_is_not_finite_is_found_with_its_row(void **state)
{
	struct gguf_tensor t;
	unsigned int bad;
	void *bytes;

	random_begin(__func__);
	t = random_matrix(100, 64);
	bytes = aligned_alloc(64, llm_wk_bytes(3, 100, 64));
	((float *)t.data)[70 * 64 + 5] = INFINITY;
	assert_int_equal(llm_pack_adaptive(&packer, &t, 3, bytes, &bad), -ERANGE);
	assert_int_equal(bad, 70);
	free(bytes);
	free((void *)t.data);
}

static void tables_that_do_not_describe_the_matrix_are_refused(void **state)
{
	struct gguf_tensor t, panels, shorter;
	struct vnpu_wk_panel *table;
	uint8_t bits[200];

	random_begin(__func__);
	t = random_matrix(200, 40);
	panels = pack(&t, 5);
	table = (struct vnpu_wk_panel *)panels.data;
	assert_true(llm_wk_widths(&panels, 200, 40, bits));
	assert_false(llm_wk_widths(&panels, 200, 48, bits));
	shorter = panels;
	shorter.bytes -= 64;
	assert_false(llm_wk_widths(&shorter, 200, 40, bits));
	shorter.bytes = 32;
	assert_false(llm_wk_widths(&shorter, 200, 40, bits));
	table[1].offset++;
	assert_false(llm_wk_widths(&panels, 200, 40, bits));
	table[1].offset--;
	for (uint32_t wrong = 0; wrong < 10; wrong += 9) {
		uint32_t own = table[2].bits;

		table[2].bits = wrong;
		assert_false(llm_wk_widths(&panels, 200, 40, bits));
		table[2].bits = own;
	}
	assert_true(llm_wk_widths(&panels, 200, 40, bits));
	free((void *)t.data);
	free((void *)panels.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(panels_hold_the_numbers_of_the_widths_that_the_average_allows),
		cmocka_unit_test(panels_with_more_outliers_get_more_bits),
		cmocka_unit_test(unpacked_panels_are_the_rows_packed_again),
		cmocka_unit_test(a_copy_has_the_same_bytes_and_finds_a_scale_that_is_not_finite),
		cmocka_unit_test(a_weight_that_is_not_finite_is_found_with_its_row),
		cmocka_unit_test(tables_that_do_not_describe_the_matrix_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
