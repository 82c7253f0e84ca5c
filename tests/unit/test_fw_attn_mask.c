// SPDX-License-Identifier: MIT
/*
 * Attention of rows that need not attend to all keys before them, and of capped scores: every
 * instruction set gives the bits of the portable kernels, which keep the bound of docs/isa.md; a
 * row has the bits of a cache without what its mask leaves out; what a row does not attend to has
 * no influence on it.
 */
#include "fw_attn_data.h"

enum mask_kind { MASK_TREE, MASK_RANDOM, MASK_CHAIN, MASK_ALONE, NR_MASKS };

/* Of bits r and above, which do not matter, any are set in row r. */
static uint64_t *make_mask(uint32_t rows, enum mask_kind kind)
{
	uint64_t *mask = need(rows * sizeof(*mask)), before[VNPU_MASK_ROWS], below;

	for (uint32_t r = 0; r < rows; r++) {
		below = (1ull << r) - 1;
		before[r] = kind == MASK_CHAIN ? below : 0;
		if (kind == MASK_TREE && r) {
			uint32_t parent = rng_below(2) ? r - 1 : rng_below(r);

			before[r] = before[parent] | 1ull << parent;
		}
		if (kind == MASK_RANDOM)
			before[r] = ((uint64_t)rng_u32() << 32 | rng_u32()) & below;
		mask[r] = before[r] | (((uint64_t)rng_u32() << 32 | rng_u32()) & ~below);
	}
	return mask;
}

/* Random attention with a mask, a window and a cap, or some of them, over up to @keys keys before
 * the rows; some rows are at the border of segments. */
static void mask_random(struct attn *x, uint32_t round, uint32_t keys)
{
	uint32_t type = round % 3, dim, group, most, rows;

	dim = type == VNPU_KV_Q8_0 ? attn_q8_dims[rng_below(5)] : attn_dims[rng_below(9)];
	group = 1 + rng_below(4);
	most = fw_attn_queries(dim) / group;
	rows = 1 + rng_below(most < VNPU_MASK_ROWS ? most : VNPU_MASK_ROWS);
	attn_make(x, type, dim, 1 + rng_below(most / rows < 3 ? most / rows : 3), group, rows,
		  rng_below(2) ? rng_below(keys)
			       : rng_below(2 * rows) + FW_ATTN_SEGMENT * rng_below(3));
	x->t.mask = rng_below(4) ? make_mask(rows, rng_below(NR_MASKS)) : NULL;
	if (rng_below(2))
		x->t.window = 1 + rng_below(rng_below(2) ? 20 : (uint32_t)x->keys + 20);
	if (!rng_below(3))
		x->t.cap = 0.5f + 20 * fabsf(rng_float());
}

static void mask_free(struct attn *x)
{
	free((void *)x->t.mask);
	attn_free(x);
}

static void masked_attention_keeps_its_bound_on_every_isa(void **state)
{
	double worst = 0;
	struct attn x;
	float *ref;

	rng_seed(__func__);
	for (uint32_t round = 0; round < ROUNDS(36); round++) {
		mask_random(&x, round, 200);
		ref = need(attn_results(&x) * 4);
		attn_same_everywhere(&x, ref, "attn with a mask");
		worst = fmax(worst, attn_error(&x, ref));
		mask_free(&x);
		free(ref);
	}
	print_message("attn with a mask: greatest error %.2f U for values up to 1\n", worst / U);
	assert_true(worst <= 256 * U);
}

static void a_mask_and_a_window_of_all_keys_give_the_bits_without_them(void **state)
{
	float *y, *plain;
	struct attn x;

	rng_seed(__func__);
	for (uint32_t round = 0; round < ROUNDS(30); round++) {
		mask_random(&x, round, 1200);
		y = need(attn_results(&x) * 4);
		plain = need(attn_results(&x) * 4);
		free((void *)x.t.mask);
		x.t.mask = make_mask(x.rows, MASK_CHAIN);
		x.t.window = rng_below(2) ? (uint32_t)x.keys : 0;
		x.t.cap = 0;
		attn_same_everywhere(&x, y, "attn with a mask of ones");
		free((void *)x.t.mask);
		x.t.mask = NULL;
		x.t.window = 0;
		attn_run(&x, sets[rng_below(nr_sets)], x.t.heads, x.t.nr_q, plain);
		assert_same(plain, y, attn_results(&x), "any set", "attn without a mask");
		attn_free(&x);
		free(y);
		free(plain);
	}
}

/* Moves the cache's rows that row @r's mask leaves in front of the others; its own is the last. */
static struct fw_attn alone(const struct attn *x, uint32_t r, uint8_t *k, uint8_t *v)
{
	struct attn all = *x;
	struct fw_attn t = x->t;
	uint64_t to = 0;

	all.t.window = 0;
	for (uint64_t j = 0; j < x->keys; j++) {
		if (!attn_sees(&all, r, j))
			continue;
		memcpy(k + to * t.k_row_bytes, x->k + j * t.k_row_bytes,
		       VNPU_KV_BYTES(t.kv_type, t.heads * t.head_dim));
		memcpy(v + to * t.v_row_bytes, x->v + j * t.v_row_bytes,
		       VNPU_KV_BYTES(t.kv_type, t.heads * t.head_dim));
		to++;
	}
	t.q += r * t.ldq;
	t.k = k;
	t.v = v;
	t.nr_q = t.group;
	t.pos = to - 1;
	t.mask = NULL;
	return t;
}

static void a_row_has_the_bits_of_a_cache_without_the_others(void **state)
{
	struct fw_attn t;
	uint8_t *k, *v;
	struct attn x;
	float *y, *one;

	rng_seed(__func__);
	for (uint32_t round = 0; round < ROUNDS(18); round++) {
		mask_random(&x, round, 1200);
		y = need(attn_results(&x) * 4);
		one = need(x.t.ldy * 4);
		k = need(x.keys * x.t.k_row_bytes);
		v = need(x.keys * x.t.v_row_bytes);
		attn_same_everywhere(&x, y, "attn with a mask");
		for (uint32_t r = 0; r < x.rows; r++) {
			uint32_t cols = x.t.heads * x.t.group * x.t.head_dim;

			t = alone(&x, r, k, v);
			t.y = one;
			sets[rng_below(nr_sets)]->attn(&t, x.scratch);
			assert_same(one, y + r * cols, cols, "any set", "attn of a row alone");
		}
		mask_free(&x);
		free(y);
		free(one);
		free(k);
		free(v);
	}
}

/* Fills key @at and its value with what spreads to all that multiplies it. */
static void spoil(struct attn *x, uint64_t at)
{
	size_t bytes = VNPU_KV_BYTES(x->t.kv_type, x->t.heads * x->t.head_dim);

	/* A NaN in each type: f32, f16, and the scale of q8_0. */
	memset(x->k + at * x->t.k_row_bytes, 0xff, bytes);
	memset(x->v + at * x->t.v_row_bytes, 0xff, bytes);
}

static void keys_that_a_row_does_not_attend_to_have_no_influence(void **state)
{
	float *y, *other, *at;
	uint32_t r, cols;
	struct attn x;
	uint64_t key;

	rng_seed(__func__);
	for (uint32_t round = 0; round < ROUNDS(30); round++) {
		mask_random(&x, round, 700);
		cols = x.t.heads * x.t.group * x.t.head_dim;
		key = round % 2 ? x.t.pos + rng_below(x.rows) : rng_below((uint32_t)x.keys);
		y = need(attn_results(&x) * 4);
		other = need(attn_results(&x) * 4);
		attn_run(&x, sets[rng_below(nr_sets)], x.t.heads, x.t.nr_q, y);
		spoil(&x, key);
		attn_same_everywhere(&x, other, "attn with a NaN");
		for (r = 0; r < x.rows; r++) {
			at = other + r * cols;
			if (attn_sees(&x, r, key))
				assert_true(isnan(at[0]) && isnan(at[cols - 1]));
			else
				assert_same(at, y + r * cols, cols, "any set", "attn of others");
		}
		mask_free(&x);
		free(y);
		free(other);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(masked_attention_keeps_its_bound_on_every_isa),
		cmocka_unit_test(a_mask_and_a_window_of_all_keys_give_the_bits_without_them),
		cmocka_unit_test(a_row_has_the_bits_of_a_cache_without_the_others),
		cmocka_unit_test(keys_that_a_row_does_not_attend_to_have_no_influence),
	};

	find_sets();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
