// SPDX-License-Identifier: MIT
/*
 * Packing: each set of kernels makes the panels that widening, quantising and libnpu's packing make
 * one after another, bit for bit, for any number of rows and columns, and names the first row with
 * a value that is not finite.
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
#include "gguf_blocks.h"
#include "gguf_recast.h"
#include "npu_graph.h"
#include "npu_random.h"
#include "pack.h"
#include "threadpool.h"

#define NR_SETS 3

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

static const struct cpu_kernels *kernel_set(int i)
{
	static const char *const names[NR_SETS] = { "generic", "avx2", "avx512" };

	return cpu_kernels_get(names[i]);
}

static size_t row_bytes(const struct gguf_tensor *t)
{
	const struct gguf_type_traits *traits = gguf_type_traits(t->type);

	return t->dims[0] / traits->block_values * traits->block_bytes;
}

/* Where the F16 scales of a block are; -1: it has no second one, or no whole one. */
static void scales_of(enum gguf_type type, int *d, int *dmin)
{
	const struct gguf_form f = gguf_form(type);

	*d = type == GGUF_Q2_K	  ? 80
	     : type == GGUF_Q3_K  ? 108
	     : type == GGUF_Q6_K  ? 208
	     : type == GGUF_TQ1_0 ? 52
	     : type == GGUF_TQ2_0 ? 64
	     : type == GGUF_IQ1_M ? -1
	     : type == GGUF_MXFP4 ? -1
				  : 0;
	*dmin = f.mins ? *d + 2 : -1;
}

/* The types that are rewritten have finite scales only up to some magnitude. */
static void make_small(enum gguf_type type, uint8_t *block, int d)
{
	if (type == GGUF_IQ1_M)
		block[55] &= 0xbf; /* the upper nibble of its scale */
	else if (type == GGUF_MXFP4)
		block[0] &= 0x7f;
	else if (gguf_recast_type(type) != type)
		block[d + 1] &= 0xbf;
}

/* Finite, of any magnitude, or round: then quotients are often in the middle of two integers. */
static uint16_t random_half(uint32_t kind)
{
	uint16_t h = (uint16_t)(random_u32() & 0xfbff);

	if (kind == 0)
		h = (uint16_t)((h & 0x83ff) | random_in(8, 10) << 10);
	else if (kind == 1)
		h = (uint16_t)((h & 0x8000) | random_in(1, 30) << 10 | (h & 0x300));
	else if (kind == 2)
		h &= 0x83ff; /* subnormal, or zero */
	return h;
}

/* A row's kind: like weights, round numbers, subnormal F32, nothing but zeros, or anything. */
static float random_value(uint32_t kind)
{
	uint32_t bits = random_u32() & 0xff7fffff;
	float f;

	switch (kind) {
	case 0:
		return random_float() * 0.1f;
	case 1:
		return (float)random_in(0, 254) * 0.5f - 63.5f;
	case 2:
		bits &= 0x80000fff;
		break;
	case 3:
		return 0;
	}
	memcpy(&f, &bits, sizeof(f));
	return f;
}

static void random_floats_row(const struct gguf_tensor *t, uint8_t *row)
{
	uint32_t kind = random_in(0, 4);

	for (size_t i = 0; i < t->dims[0]; i++) {
		float x = i % 97 == 5 && kind == 1 ? 63.5f : random_value(kind);
		uint16_t h = random_half(kind);

		if (t->type == GGUF_F32)
			memcpy(row + 4 * i, &x, 4);
		else if (t->type == GGUF_BF16)
			memcpy(row + 2 * i, (uint8_t *)&x + 2, 2);
		else
			memcpy(row + 2 * i, &h, 2);
	}
}

static void random_blocks_row(const struct gguf_tensor *t, uint8_t *row)
{
	const size_t bytes = gguf_type_traits(t->type)->block_bytes;
	uint32_t kind = random_in(0, 3);
	int d, dmin;

	scales_of(t->type, &d, &dmin);
	for (size_t i = 0; i < row_bytes(t); i++)
		row[i] = (uint8_t)random_u32();
	for (size_t i = 0; i < row_bytes(t); i += bytes) {
		uint16_t h[2] = { random_half(kind), random_half(kind) };

		if (d >= 0)
			memcpy(row + i + d, &h[0], 2);
		if (dmin >= 0)
			memcpy(row + i + dmin, &h[1], 2);
		make_small(t->type, row + i, d);
	}
}

static uint8_t *row_of(const struct gguf_tensor *t, size_t r)
{
	return (uint8_t *)t->data + r * row_bytes(t);
}

/* Its memory ends with its last row, so that the sanitizer sees overruns. */
static struct gguf_tensor random_matrix(enum gguf_type type)
{
	uint32_t block = gguf_type_traits(type)->block_values;
	uint32_t cols = block == 1   ? random_in(1, 600)
			: block > 32 ? 256 * random_in(1, 4)
				     : 32 * random_in(1, 30);
	struct gguf_tensor t = { .type = type, .n_dims = 2 };

	t.dims[0] = cols;
	t.dims[1] = random_in(0, 2) ? random_in(1, 200) : 64 * random_in(1, 2);
	t.dims[2] = t.dims[3] = 1;
	t.bytes = t.dims[1] * row_bytes(&t);
	t.data = malloc(t.bytes);
	assert_non_null(t.data);
	for (size_t r = 0; r < t.dims[1]; r++) {
		if (block == 1)
			random_floats_row(&t, row_of(&t, r));
		else
			random_blocks_row(&t, row_of(&t, r));
	}
	return t;
}

/* ---- the same by way of the rows' values ---- */

static void expect_w8(const struct gguf_tensor *t, void *panels)
{
	uint32_t rows = (uint32_t)t->dims[1], cols = (uint32_t)t->dims[0];
	float *x = malloc(cols * sizeof(*x)), *scales = malloc(rows * sizeof(*scales));
	int8_t *q = malloc((size_t)rows * cols);

	for (uint32_t r = 0; r < rows; r++) {
		gguf_dequantize(t->type, row_of(t, r), x, cols);
		assert_int_equal(
			cpu_kernels_generic.quant(q + (size_t)r * cols, &scales[r], x, cols), 0);
	}
	npu_pack_w8(panels, rows, cols, 0, rows, q, scales);
	free(x);
	free(scales);
	free(q);
}

/* Q4_0's blocks: a scale, 16 bytes with the first 16 numbers in their low halves. */
static void expect_w4(const struct gguf_tensor *t, void *panels)
{
	uint32_t rows = (uint32_t)t->dims[1], cols = (uint32_t)t->dims[0];
	size_t blocks = (size_t)rows * cols / 32;
	uint16_t *scales = malloc(blocks * sizeof(*scales));
	uint8_t *numbers = malloc(blocks * 32);

	for (size_t b = 0; b < blocks; b++) {
		const uint8_t *block = (const uint8_t *)t->data + b * 18;

		memcpy(&scales[b], block, 2);
		for (size_t i = 0; i < 32; i++)
			numbers[b * 32 + i] = block[2 + i % 16] >> i / 16 * 4 & 15;
	}
	npu_pack_w4(panels, rows, cols, 32, 0, rows, numbers, scales);
	free(scales);
	free(numbers);
}

static void expect_kq(const struct gguf_tensor *t, uint32_t kq, void *panels)
{
	uint32_t rows = (uint32_t)t->dims[1], cols = (uint32_t)t->dims[0];
	size_t n = (size_t)rows * cols;
	const struct gguf_parts parts = { malloc(n), malloc(n / 16), malloc(n / 16), malloc(n / 16),
					  malloc(n / 16) };
	const enum gguf_type type = gguf_recast_type(t->type);
	void *recast = NULL;
	const struct npu_kq_rows from = { parts.numbers, parts.d, parts.dmin, parts.scale,
					  parts.min };

	if (type != t->type) {
		recast = malloc(n / gguf_form(type).block * gguf_type_traits(type)->block_bytes);
		gguf_recast(t->type, t->data, recast, n);
	}
	gguf_split(type, recast ? recast : t->data, n, &parts);
	free(recast);
	npu_pack_kq(panels, kq, rows, cols, 0, rows, &from);
	free(parts.numbers);
	free(parts.d);
	free(parts.dmin);
	free(parts.scale);
	free(parts.min);
}

static void check(const struct gguf_tensor *t, enum llm_format format)
{
	unsigned int rows = (unsigned int)t->dims[1], cols = (unsigned int)t->dims[0], bad;
	size_t bytes = llm_pack_bytes(format, rows, cols);
	uint8_t *want = aligned_alloc(64, bytes), *got = aligned_alloc(64, bytes);
	struct llm_packer packer = { .pool = pool };

	memset(want, 0, bytes);
	if (format == LLM_FORMAT_W8)
		expect_w8(t, want);
	else if (format == LLM_FORMAT_W4)
		expect_w4(t, want);
	else
		expect_kq(t, llm_format_kq(format), want);
	for (int s = 0; s < NR_SETS; s++) {
		size_t at = 0;

		packer.kernels = kernel_set(s);
		if (!packer.kernels)
			continue;
		memset(got, 0xa5, bytes);
		assert_int_equal(llm_pack_matrix(&packer, t, format, got, &bad), 0);
		while (at < bytes && got[at] == want[at])
			at++;
		if (at < bytes)
			fail_msg("%s, %s, format %d, %u x %u: byte %zu is %d, not %d",
				 packer.kernels->name, gguf_type_traits(t->type)->name, format,
				 rows, cols, at, got[at], want[at]);
	}
	llm_packer_release(&packer);
	free(want);
	free(got);
}

static const enum gguf_type types[] = {
	GGUF_F32,    GGUF_F16,	   GGUF_BF16,	GGUF_Q8_0,  GGUF_Q4_0,	  GGUF_Q2_K,  GGUF_Q3_K,
	GGUF_Q4_K,   GGUF_Q5_K,	   GGUF_Q6_K,	GGUF_Q4_1,  GGUF_Q5_0,	  GGUF_Q5_1,  GGUF_IQ1_S,
	GGUF_IQ1_M,  GGUF_IQ2_XXS, GGUF_IQ2_XS, GGUF_IQ2_S, GGUF_IQ3_XXS, GGUF_IQ3_S, GGUF_IQ4_NL,
	GGUF_IQ4_XS, GGUF_TQ1_0,   GGUF_TQ2_0,	GGUF_MXFP4
};
#define NR_TYPES (sizeof(types) / sizeof(types[0]))

static void panels_have_the_bits_of_widening_and_quantising(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < 40; i++) {
		for (size_t n = 0; n < NR_TYPES; n++) {
			struct gguf_tensor t = random_matrix(types[n]);

			check(&t, LLM_FORMAT_W8);
			if (llm_format_own(t.type) != LLM_FORMAT_W8)
				check(&t, llm_format_own(t.type));
			free((void *)t.data);
		}
	}
}

/* Round scales and all their quotients: many are exactly between two integers, or one rounding
 * beside that. */
static void quotients_between_two_integers_are_rounded_alike(void **state)
{
	struct gguf_tensor t = { .type = GGUF_Q8_0, .dims = { 1024, 64, 1, 1 }, .n_dims = 2 };

	random_begin(__func__);
	t.bytes = 64 * row_bytes(&t);
	t.data = malloc(t.bytes);
	for (int i = 0; i < 40; i++) {
		for (size_t at = 0; at < t.bytes; at += 34) {
			uint8_t *block = (uint8_t *)t.data + at;
			uint16_t h = (uint16_t)(random_in(10, 14) << 10 | random_in(0, 3) << 8);

			h = (uint16_t)(at % 1088 ? h + random_in(0, 2) : 0x3c00);
			memcpy(block, &h, 2);
			for (int k = 2; k < 34; k++)
				block[k] = (uint8_t)(random_in(0, 254) - 127);
			block[2] = 127;
		}
		check(&t, LLM_FORMAT_W8);
	}
	free((void *)t.data);
}

/* Blocks that were quantised as usual have no such byte. Here one of each row has, in any place. */
static void a_byte_of_minus_128_can_be_the_greatest(void **state)
{
	struct gguf_tensor t = { .type = GGUF_Q8_0, .dims = { 256, 64, 1, 1 }, .n_dims = 2 };
	const uint16_t one = 0x3c00;

	random_begin(__func__);
	t.bytes = 64 * row_bytes(&t);
	t.data = calloc(1, t.bytes);
	for (int i = 0; i < 20; i++) {
		for (size_t at = 0; at < t.bytes; at += 34) {
			memcpy((uint8_t *)t.data + at, &one, 2);
			memset((uint8_t *)t.data + at + 2, random_in(0, 127), 32);
			((uint8_t *)t.data)[at + random_in(2, 33)] = 127;
		}
		for (size_t r = 0; r < 64; r++)
			row_of(&t, r)[random_in(0, 7) * 34 + 2 + (r + i) % 32] = 0x80;
		check(&t, LLM_FORMAT_W8);
	}
	free((void *)t.data);
}

/* Makes a value of row @r an infinity or a NaN. */
static void spoil(const struct gguf_tensor *t, size_t r)
{
	const struct gguf_type_traits *traits = gguf_type_traits(t->type);
	size_t block = random_in(0, (uint32_t)(t->dims[0] / traits->block_values) - 1);
	uint8_t *at = row_of(t, r) + block * traits->block_bytes;
	int d = 0, dmin = -1;

	if (traits->block_values > 1)
		scales_of(t->type, &d, &dmin);
	else
		d = traits->block_bytes - 2;
	if (t->type == GGUF_MXFP4)
		at[0] = 255;
	if (t->type == GGUF_IQ1_M) {
		at[53] |= 0xc0;
		at[55] |= 0x70;
	}
	if (d < 0)
		return;
	at += dmin >= 0 && random_in(0, 1) ? dmin : d;
	at[1] |= 0x7f;
	at[0] |= t->type == GGUF_F16 || traits->block_values > 1 ? 0 : 0x80;
}

static void the_first_row_that_is_not_finite_is_named(void **state)
{
	random_begin(__func__);
	for (size_t n = 0; n < 4 * NR_TYPES; n++) {
		struct gguf_tensor t = random_matrix(types[n % NR_TYPES]);
		enum llm_format format = llm_format_own(t.type);
		unsigned int rows = (unsigned int)t.dims[1], bad = random_in(0, rows - 1), got;
		void *panels =
			aligned_alloc(64, llm_pack_bytes(format, rows, (unsigned int)t.dims[0]));
		struct llm_packer packer = { .pool = pool };

		spoil(&t, bad);
		spoil(&t, random_in(bad, rows - 1));
		for (int s = 0; s < NR_SETS; s++) {
			packer.kernels = kernel_set(s);
			if (!packer.kernels)
				continue;
			assert_int_equal(llm_pack_matrix(&packer, &t, format, panels, &got),
					 -ERANGE);
			assert_int_equal(got, bad);
		}
		llm_packer_release(&packer);
		free(panels);
		free((void *)t.data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(panels_have_the_bits_of_widening_and_quantising),
		cmocka_unit_test(quotients_between_two_integers_are_rounded_alike),
		cmocka_unit_test(a_byte_of_minus_128_can_be_the_greatest),
		cmocka_unit_test(the_first_row_that_is_not_finite_is_named),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
