// SPDX-License-Identifier: MIT
/*
 * Attention of rows at positions of their own: every instruction set gives the bits of the portable
 * kernels, which keep the bound of docs/isa.md; a row has the bits of the row at its position among
 * rows that follow one another, whatever the others are; a position beyond the span is its last.
 */
#include "fw_attn_data.h"

enum order { ORDER_RISING, ORDER_FALLING, ORDER_ANY, NR_ORDERS };

static int compare_positions(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* One in eight is beyond the span. */
static uint32_t *make_positions(uint32_t rows, uint32_t span, enum order order)
{
	uint32_t *at = need(rows * sizeof(*at)), first;

	for (uint32_t r = 0; r < rows; r++)
		at[r] = rng_below(8) ? rng_below(span) : span + rng_below(UINT32_MAX - span);
	if (order != ORDER_ANY)
		qsort(at, rows, sizeof(*at), compare_positions);
	for (uint32_t r = 0; order == ORDER_FALLING && r < rows / 2; r++) {
		first = at[r];
		at[r] = at[rows - 1 - r];
		at[rows - 1 - r] = first;
	}
	return at;
}

/* Random attention at positions among up to @keys keys, with a window and a cap or without. */
static void at_random(struct attn *x, uint32_t round, uint32_t keys)
{
	uint32_t type = round % 3, dim, group, most, rows, span;

	dim = type == VNPU_KV_Q8_0 ? attn_q8_dims[rng_below(6)] : attn_dims[rng_below(10)];
	group = 1 + rng_below(4);
	most = fw_attn_queries(dim) / group;
	rows = 1 + rng_below(most);
	attn_make(x, type, dim, 1 + rng_below(most / rows < 3 ? most / rows : 3), group, rows,
		  rng_below(keys));
	span = 1 + rng_below((uint32_t)x->keys);
	x->t.pos = x->keys - span;
	x->t.span = span;
	x->t.at = make_positions(rows, span, rng_below(NR_ORDERS));
	if (rng_below(2))
		x->t.window = 1 + rng_below(rng_below(2) ? 20 : (uint32_t)x->keys + 20);
	if (!rng_below(3))
		x->t.cap = 0.5f + 20 * fabsf(rng_float());
}

static void at_free(struct attn *x)
{
	free((void *)x->t.at);
	attn_free(x);
}

static void rows_at_positions_keep_the_bound_on_every_isa(void **state)
{
	double worst = 0;
	struct attn x;
	float *ref;

	rng_seed(__func__);
	for (uint32_t round = 0; round < ROUNDS(36); round++) {
		at_random(&x, round, round % 4 ? 200 : 900);
		ref = need(attn_results(&x) * 4);
		attn_same_everywhere(&x, ref, "attn at positions");
		worst = fmax(worst, attn_error(&x, ref));
		at_free(&x);
		free(ref);
	}
	print_message("attn at positions: greatest error %.2f U for values up to 1\n", worst / U);
	assert_true(worst <= 256 * U);
}

static void a_row_has_the_bits_of_the_row_at_its_position(void **state)
{
	struct fw_attn t;
	struct attn x;
	float *y, *one;

	rng_seed(__func__);
	for (uint32_t round = 0; round < ROUNDS(18); round++) {
		at_random(&x, round, 1200);
		y = need(attn_results(&x) * 4);
		one = need(x.t.ldy * 4);
		attn_same_everywhere(&x, y, "attn at positions");
		for (uint32_t r = 0; r < x.rows; r++) {
			uint32_t cols = x.t.heads * x.t.group * x.t.head_dim;

			t = x.t;
			t.q += r * t.ldq;
			t.y = one;
			t.nr_q = t.group;
			t.pos = attn_own(&x, r);
			t.at = NULL;
			sets[rng_below(nr_sets)]->attn(&t, x.scratch);
			assert_same(one, y + r * cols, cols, "any set", "attn of a row alone");
		}
		at_free(&x);
		free(y);
		free(one);
	}
}

static void positions_in_order_give_the_bits_of_attn(void **state)
{
	float *y, *plain;
	struct attn x;

	rng_seed(__func__);
	for (uint32_t round = 0; round < ROUNDS(18); round++) {
		uint32_t at[FW_ATTN_MAX_QUERIES];

		attn_random(&x, round % 3, 700);
		for (uint32_t r = 0; r < x.rows; r++)
			at[r] = r;
		y = need(attn_results(&x) * 4);
		plain = need(attn_results(&x) * 4);
		attn_same_everywhere(&x, plain, "attn");
		x.t.at = at;
		x.t.span = x.rows;
		attn_same_everywhere(&x, y, "attn at the rows' own positions");
		assert_same(y, plain, attn_results(&x), "all sets", "attn at their own positions");
		attn_free(&x);
		free(y);
		free(plain);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_at_positions_keep_the_bound_on_every_isa),
		cmocka_unit_test(a_row_has_the_bits_of_the_row_at_its_position),
		cmocka_unit_test(positions_in_order_give_the_bits_of_attn),
	};

	find_sets();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
