// SPDX-License-Identifier: MIT
/*
 * Packing GGUF's block types: the panels hold the file's own numbers and scales, for matrices of
 * any number of rows, and a scale that is not finite is found with its row.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cpu_kernels.h"
#include "fw_data.h"
#include "gguf_blocks.h"
#include "gguf_levels.h"
#include "gguf_recast.h"
#include "npu_graph.h"
#include "pack.h"
#include "npu_random.h"
#include "threadpool.h"

/* Those of which the NPU has the same. Others are rewritten: test_pack.c, test_gguf_recast.c. */
#define NR_TYPES 10
static const enum gguf_type types[NR_TYPES] = {
	[VNPU_KQ_Q2_K] = GGUF_Q2_K,	[VNPU_KQ_Q3_K] = GGUF_Q3_K, [VNPU_KQ_Q4_K] = GGUF_Q4_K,
	[VNPU_KQ_Q5_K] = GGUF_Q5_K,	[VNPU_KQ_Q6_K] = GGUF_Q6_K, [VNPU_KQ_Q4_1] = GGUF_Q4_1,
	[VNPU_KQ_Q5_0] = GGUF_Q5_0,	[VNPU_KQ_Q5_1] = GGUF_Q5_1, [VNPU_KQ_IQ4_NL] = GGUF_IQ4_NL,
	[VNPU_KQ_IQ4_XS] = GGUF_IQ4_XS,
};

static struct llm_pool *pool;

static int setup(void **state)
{
	pool = llm_pool_create(2, 0);
	return !pool;
}

static int teardown(void **state)
{
	llm_pool_free(pool);
	return 0;
}

/* A matrix of random blocks, with finite scales. */
static struct gguf_tensor random_matrix(enum gguf_type type, uint32_t rows, uint32_t cols)
{
	const struct gguf_type_traits *traits = gguf_type_traits(type);
	struct gguf_tensor t = { .type = type, .dims = { cols, rows, 1, 1 }, .n_dims = 2 };
	const struct gguf_form f = gguf_form(type);
	uint8_t *data;

	t.bytes = (uint64_t)rows * (cols / f.block) * traits->block_bytes;
	data = malloc(t.bytes);
	assert_non_null(data);
	for (size_t i = 0; i < t.bytes; i++)
		data[i] = (uint8_t)rng_u32();
	for (size_t i = 0; i < t.bytes; i += traits->block_bytes) {
		/* d and dmin begin the block, or end it. */
		uint8_t *at = data + i;

		if (type == GGUF_Q2_K || type == GGUF_Q3_K || type == GGUF_Q6_K)
			at += traits->block_bytes - (f.mins ? 4 : 2);
		at[1] &= 0xbb;
		if (f.mins)
			at[3] &= 0xbb;
	}
	t.data = data;
	return t;
}

/* Where row @r of the matrix begins. */
static uint8_t *row_of(const struct gguf_tensor *t, uint32_t r)
{
	return (uint8_t *)t->data + r * (t->bytes / t->dims[1]);
}

static void check_rows(const struct gguf_tensor *t, uint32_t kq, const void *panels)
{
	const struct gguf_form f = gguf_form(t->type);
	uint32_t cols = (uint32_t)t->dims[0], blocks = cols / f.block, groups = cols / f.group;
	struct npu_kq_rows got = { malloc(cols), malloc(blocks * 2), malloc(blocks * 2),
				   malloc(groups), malloc(groups) };
	struct gguf_parts want = { malloc(cols), malloc(blocks * 2), malloc(blocks * 2),
				   malloc(groups), malloc(groups) };

	for (uint32_t r = 0; r < t->dims[1]; r++) {
		npu_unpack_kq(panels, kq, cols, r, &got);
		gguf_split(t->type, row_of(t, r), cols, &want);
		assert_memory_equal(got.numbers, want.numbers, cols);
		assert_memory_equal(got.d, want.d, blocks * 2);
		if (f.mins)
			assert_memory_equal(got.dmin, want.dmin, blocks * 2);
		if (f.block > 32)
			assert_memory_equal(got.scale, want.scale, groups);
		if (f.block > 32 && f.mins)
			assert_memory_equal(got.min, want.min, groups);
	}
	free(got.numbers);
	free(got.d);
	free(got.dmin);
	free(got.scale);
	free(got.min);
	free(want.numbers);
	free(want.d);
	free(want.dmin);
	free(want.scale);
	free(want.min);
}

static void panels_hold_the_files_own_numbers_and_scales(void **state)
{
	struct llm_packer packer = { .pool = pool, .kernels = cpu_kernels_get(NULL) };
	unsigned int bad;

	random_begin(__func__);
	rng_state = random_u32();
	for (uint32_t i = 0; i < 5 * NR_TYPES; i++) {
		uint32_t kq = i % NR_TYPES, rows = 1 + rng_below(200),
			 cols = 256 * (1 + rng_below(4));
		enum llm_format format = llm_format_own(types[kq]);
		struct gguf_tensor t = random_matrix(types[kq], rows, cols);
		size_t bytes = llm_pack_bytes(format, rows, cols);
		void *panels = aligned_alloc(64, bytes), *copy = aligned_alloc(64, bytes);
		struct gguf_tensor packed = { .type = GGUF_I8, .data = panels, .bytes = bytes };
		const struct llm_part part = { &packed, format, true, rows,  cols,
					       NULL,	0,	rows, panels };

		assert_int_equal(format, LLM_FORMAT_KQ + kq);
		assert_int_equal(bytes, npu_kq_bytes(kq, rows, cols));
		assert_int_equal(llm_pack_matrix(&packer, &t, format, panels, &bad), 0);
		check_rows(&t, kq, panels);
		assert_int_equal(llm_pack_part(&packer, &part, copy, &bad), 0);
		assert_memory_equal(copy, panels, bytes);
		free((void *)t.data);
		free(panels);
		free(copy);
	}
	llm_packer_release(&packer);
}

static void a_scale_that_is_not_finite_is_found(void **state)
{
	struct llm_packer packer = { .pool = pool, .kernels = cpu_kernels_get(NULL) };
	unsigned int bad;

	random_begin(__func__);
	rng_state = random_u32();
	for (uint32_t kq = 0; kq < NR_TYPES; kq++) {
		const struct gguf_type_traits *traits = gguf_type_traits(types[kq]);
		const struct gguf_form f = gguf_form(types[kq]);
		enum llm_format format = llm_format_own(types[kq]);
		struct gguf_tensor t = random_matrix(types[kq], 150, 512), packed;
		struct llm_part part = { &packed, format, true, 150, 512, NULL, 0, 150, NULL };
		size_t bytes = llm_pack_bytes(format, 150, 512), at;
		uint8_t *panels = aligned_alloc(64, bytes), *copy = aligned_alloc(64, bytes);
		bool last =
			types[kq] == GGUF_Q2_K || types[kq] == GGUF_Q3_K || types[kq] == GGUF_Q6_K;

		assert_int_equal(llm_pack_matrix(&packer, &t, format, panels, &bad), 0);
		/* In a packed file: dmin if there is one, of channel 70 in its second block. */
		packed = (struct gguf_tensor){ .type = GGUF_I8, .data = panels, .bytes = bytes };
		at = vnpu_kq_panel_bytes(kq, 512) + vnpu_kq_block_bytes(vnpu_kq_form(kq)) +
		     (f.mins ? 128 : 0) + 6 * 2;
		memcpy(panels + at, "\x00\x7c", 2);
		part.data = panels;
		assert_int_equal(llm_pack_part(&packer, &part, copy, &bad), -ERANGE);
		assert_int_equal(bad, 70);
		/* In the file's own blocks. */
		at = last ? traits->block_bytes - 1 : f.mins ? 3 : 1;
		row_of(&t, 77)[t.bytes / 150 - traits->block_bytes + at] = 0x7e;
		assert_int_equal(llm_pack_matrix(&packer, &t, format, panels, &bad), -ERANGE);
		assert_int_equal(bad, 77);
		free((void *)t.data);
		free(panels);
		free(copy);
	}
	llm_packer_release(&packer);
}

/* The file format's forms and the device's. */
static void the_forms_are_the_devices(void **state)
{
	for (uint32_t kq = 0; kq < NR_TYPES; kq++) {
		const struct gguf_form f = gguf_form(types[kq]);
		const struct vnpu_kq_form v = vnpu_kq_form(kq);

		assert_int_equal(f.block, v.block);
		assert_int_equal(f.group, v.group);
		assert_int_equal(f.bits, v.bits);
		assert_int_equal(f.mins, v.mins);
	}
}

static void the_levels_are_the_devices(void **state)
{
	static const struct {
		enum gguf_type type;
		enum vnpu_kq_levels levels;
		size_t n;
	} all[] = {
		{ GGUF_IQ3_S, VNPU_KQ_LEVELS_IQ3_S, 16 },
		{ GGUF_IQ3_XXS, VNPU_KQ_LEVELS_IQ3_XXS, 16 },
		{ GGUF_IQ2_XXS, VNPU_KQ_LEVELS_IQ2, 8 },
		{ GGUF_IQ2_XS, VNPU_KQ_LEVELS_IQ2, 8 },
		{ GGUF_IQ2_S, VNPU_KQ_LEVELS_IQ2, 8 },
		{ GGUF_IQ1_S, VNPU_KQ_LEVELS_IQ1, 8 },
		{ GGUF_IQ1_M, VNPU_KQ_LEVELS_IQ1, 8 },
		{ GGUF_MXFP4, VNPU_KQ_LEVELS_E2M1, 16 },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		uint32_t kq = llm_format_kq(llm_format_own(all[i].type));

		assert_int_equal(vnpu_kq_form(kq).levels, all[i].levels);
		assert_memory_equal(gguf_recast_levels(all[i].type), vnpu_kq_levels[all[i].levels],
				    all[i].n);
	}
	assert_memory_equal(gguf_levels_iq4, vnpu_kq_levels[VNPU_KQ_LEVELS_IQ4], 16);
	assert_int_equal(vnpu_kq_form(VNPU_KQ_IQ4_XS).levels, VNPU_KQ_LEVELS_IQ4);
	assert_int_equal(vnpu_kq_form(VNPU_KQ_IQ4_NL).levels, VNPU_KQ_LEVELS_IQ4);
}

/* Every format, and nothing else, has a number of its own. */
static void numbers_name_the_formats(void **state)
{
	uint32_t found = 0;

	for (int32_t number = -2; number < 1000; number++) {
		enum llm_format f = llm_format_of_number(number);

		if (f < LLM_NR_FORMATS)
			assert_int_equal(llm_format_number(f), number);
		found += f < LLM_NR_FORMATS;
	}
	assert_int_equal(found, LLM_NR_FORMATS);
	assert_int_equal(llm_format_number(LLM_FORMAT_KQ + VNPU_KQ_Q6_K), 260);
}

static void formats_are_those_of_the_types(void **state)
{
	assert_int_equal(llm_format_own(GGUF_Q4_0), LLM_FORMAT_W4);
	assert_int_equal(llm_format_own(GGUF_Q8_0), LLM_FORMAT_W8);
	assert_int_equal(llm_format_own(GGUF_BF16), LLM_FORMAT_W8);
	assert_int_equal(llm_format_bits(LLM_FORMAT_W8), 8);
	assert_int_equal(llm_format_group(LLM_FORMAT_W8), 0);
	assert_int_equal(llm_format_bits(LLM_FORMAT_W4), 4);
	assert_int_equal(llm_format_group(LLM_FORMAT_W4), 32);
	assert_int_equal(llm_format_bits(llm_format_own(GGUF_Q6_K)), 6);
	assert_int_equal(llm_format_group(llm_format_own(GGUF_Q6_K)), 16);
	assert_int_equal(llm_pack_bytes(llm_format_own(GGUF_Q6_K), 64, 128), 0);
	assert_int_equal(llm_format_own(GGUF_IQ2_S), llm_format_own(GGUF_IQ2_XXS));
	assert_int_equal(llm_format_bits(llm_format_own(GGUF_IQ1_S)), 3);
	/* llm_model_read() tells the formats of old packed files by their sizes. */
	for (uint32_t cols = 32; cols <= 8192; cols += 32) {
		for (unsigned int a = 0; a < LLM_FORMAT_KQ + VNPU_KQ_IQ4_NL; a++) {
			for (unsigned int b = 0; b < a; b++) {
				size_t bytes = llm_pack_bytes((enum llm_format)a, 64, cols);

				assert_true(!bytes ||
					    bytes != llm_pack_bytes((enum llm_format)b, 64, cols));
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_forms_are_the_devices),
		cmocka_unit_test(the_levels_are_the_devices),
		cmocka_unit_test(numbers_name_the_formats),
		cmocka_unit_test(formats_are_those_of_the_types),
		cmocka_unit_test(panels_hold_the_files_own_numbers_and_scales),
		cmocka_unit_test(a_scale_that_is_not_finite_is_found),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
