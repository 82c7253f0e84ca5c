// SPDX-License-Identifier: MIT
/*
 * Attention and the rows of its cache: every instruction set of this host gives the bits of the
 * portable kernels, which keep the bound of docs/isa.md; a query has the same bits in any tile, and
 * attends to the right keys only.
 */
#include "fw_attn_data.h"

/* ---- rows of a cache ------------------------------------------------------------------------- */

static double f16_value(uint16_t h)
{
	int exp = h >> 10 & 31, man = h & 0x3ff;
	double v = exp ? ldexp(1024 + man, exp - 25) : ldexp(man, -24);

	return h & 0x8000 ? -v : v;
}

static void f16_numbers_widen_exactly_and_come_back(void **state)
{
	uint32_t h;
	float f;

	for (h = 0; h < 65536; h++) {
		f = fw_f16_to_f32(h);
		if ((h & 0x7fff) > 0x7c00) {
			assert_true(isnan(f) && (fw_f32_to_f16(f) & 0x7fff) > 0x7c00);
			continue;
		}
		assert_int_equal(fw_f32_to_f16(f), h);
		if ((h & 0x7fff) == 0x7c00)
			assert_true(isinf(f));
		else
			assert_true((double)f == f16_value(h));
	}
}

/* To the nearer neighbour; half-way to the one with an even last bit. */
static void f16_rounds_to_nearest_even(void **state)
{
	uint32_t i, bits;
	double below, above, x;
	uint16_t h, low;
	float f;

	rng_seed(__func__);
	for (i = 0; i < 200000; i++) {
		low = rng_below(0x7bff);
		below = f16_value(low);
		above = f16_value(low + 1);
		f = (float)((below + above) / 2);
		memcpy(&bits, &f, sizeof(bits));
		bits += rng_below(3) - 1;
		memcpy(&f, &bits, sizeof(f));
		if (!rng_below(3))
			f = (float)(below + (above - below) * fabs((double)rng_float()));
		x = f;
		h = fw_f32_to_f16(f);
		if (x - below != above - x)
			assert_int_equal(h, x - below < above - x ? low : low + 1);
		else
			assert_int_equal(h, low + (low & 1));
		assert_int_equal(fw_f32_to_f16(-f), h | 0x8000);
	}
	assert_int_equal(fw_f32_to_f16(65519.996f), 0x7bff);
	assert_int_equal(fw_f32_to_f16(65520), 0x7c00);
	assert_int_equal(fw_f32_to_f16(FLT_MAX), 0x7c00);
	assert_int_equal(fw_f32_to_f16(1e-45f), 0);
}

/* Q8_0 as vnpu_isa.h defines it. */
static void store_q8_0_reference(uint8_t *row, const float *x, size_t n)
{
	uint16_t h;
	float max, scale, r;
	bool bad;
	size_t b, i;

	for (b = 0; b < n; b += 32, row += 34) {
		for (i = 0, max = 0, bad = false; i < 32; i++) {
			bad |= !isfinite(x[b + i]);
			max = fmaxf(max, fabsf(x[b + i]));
		}
		h = fw_f32_to_f16(max / 127.0f);
		bad |= h >= 0x7c00;
		if (bad)
			h = 0x7e00;
		memcpy(row, &h, 2);
		scale = bad ? 0 : fw_f16_to_f32(h);
		for (i = 0; i < 32; i++) {
			r = scale > 0 ? nearbyintf(x[b + i] / scale) : 0;
			((int8_t *)row)[2 + i] = r > 127 ? 127 : r < -127 ? -127 : r;
		}
	}
}

static void stored_rows_are_the_same_bytes_on_every_isa(void **state)
{
	static const float scales[] = { 1, 1e-3f, 1e4f, 1e-6f, 2e-7f, 1e6f, 1e7f };
	uint8_t *row, *want;
	unsigned int s;
	size_t n, i;
	int round;
	float *x;

	rng_seed(__func__);
	for (round = 0; round < 2000; round++) {
		n = round % 2 ? 32 * (1 + rng_below(8)) : random_length();
		x = random_floats(n, scales[rng_below(7)]);
		if (!rng_below(4))
			x[rng_below(n)] = wild();
		row = need(VNPU_KV_BYTES(round % 2 ? VNPU_KV_Q8_0 : VNPU_KV_F16, n));
		want = need(n * 2);
		if (round % 2)
			store_q8_0_reference(want, x, n);
		for (i = 0; i < n && !(round % 2); i++)
			((uint16_t *)want)[i] = fw_f32_to_f16(x[i]);
		for (s = 0; s < nr_sets; s++) {
			sets[s]->store(row, x, n, round % 2 ? VNPU_KV_Q8_0 : VNPU_KV_F16);
			for (i = 0; i < n && !(round % 2); i++)
				if (isnan(x[i]))
					((uint16_t *)row)[i] = ((uint16_t *)want)[i] = 0;
			assert_memory_equal(
				row, want,
				VNPU_KV_BYTES(round % 2 ? VNPU_KV_Q8_0 : VNPU_KV_F16, n));
		}
		free(x);
		free(row);
		free(want);
	}
}

/* ---- attention ------------------------------------------------------------------------------- */

static void attention_keeps_its_bound_on_every_isa(void **state)
{
	double worst[3] = { 0 };
	float *y, *ref;
	struct attn x;
	uint32_t type;
	unsigned int s;
	int round;

	rng_seed(__func__);
	for (round = 0; round < ROUNDS(90); round++) {
		type = round % 3;
		attn_random(&x, type, 200);
		y = need(attn_results(&x) * 4);
		ref = need(attn_results(&x) * 4);
		for (s = 0; s < nr_sets; s++) {
			attn_run(&x, sets[s], x.t.heads, x.t.nr_q, s ? y : ref);
			if (s)
				assert_same(y, ref, attn_results(&x), sets[s]->name, "attn");
		}
		worst[type] = fmax(worst[type], attn_error(&x, ref));
		attn_free(&x);
		free(y);
		free(ref);
	}
	/* Values are up to 1, scores up to 4 sqrt(head_dim). */
	print_message(
		"attn: greatest error %.2f U of f32, %.2f U of f16, %.2f U of q8_0 for values up "
		"to 1\n",
		worst[0] / U, worst[1] / U, worst[2] / U);
	for (type = 0; type < 3; type++)
		assert_true(worst[type] <= 256 * U);
}

/*
 * With several segments of keys: the bound, and the same bits on every instruction set, in tiles of
 * any size, and from parts.
 */
static void attention_over_segments_has_the_same_bits_from_parts(void **state)
{
	unsigned int s, t;
	float *y, *ref;
	struct attn x;
	int round;

	rng_seed(__func__);
	for (round = 0; round < ROUNDS(24); round++) {
		attn_random(&x, round % 3, FW_ATTN_SEGMENT * (1 + rng_below(4)) + 200);
		y = need(attn_results(&x) * 4);
		ref = need(attn_results(&x) * 4);
		attn_run(&x, &fw_kernels_generic, x.t.heads, x.t.nr_q, ref);
		assert_true(attn_error(&x, ref) <= 256 * U);
		for (s = 0; s < nr_sets; s++) {
			attn_run(&x, sets[s], 1 + rng_below(x.t.heads), 1 + rng_below(x.t.nr_q), y);
			assert_same(y, ref, attn_results(&x), sets[s]->name, "attn of segments");
			attn_run_parts(&x, sets[s], 1 + rng_below(x.t.heads), y);
			t = rng_below(nr_sets);
			assert_same(y, ref, attn_results(&x), sets[s]->name, "attn from parts");
			attn_run(&x, sets[t], 1, 1, y);
			assert_same(y, ref, attn_results(&x), sets[t]->name, "attn alone");
		}
		attn_free(&x);
		free(y);
		free(ref);
	}
}

/* A query has the same bits in a tile of any size, including 1. */
static void attention_of_a_query_does_not_depend_on_its_neighbours(void **state)
{
	float *y, *other;
	struct attn x;
	unsigned int s;
	size_t n;
	int round;

	rng_seed(__func__);
	for (round = 0; round < ROUNDS(60); round++) {
		attn_random(&x, round % 3, 200);
		n = attn_results(&x);
		y = need(n * 4);
		other = need(n * 4);
		s = rng_below(nr_sets);
		attn_run(&x, sets[s], x.t.heads, x.t.nr_q, y);
		attn_run(&x, sets[s], 1, 1, other);
		assert_same(other, y, n, sets[s]->name, "attn alone");
		attn_run(&x, sets[s], 1 + rng_below(x.t.heads), 1 + rng_below(x.t.nr_q), other);
		assert_same(other, y, n, sets[s]->name, "attn in other tiles");
		attn_free(&x);
		free(y);
		free(other);
	}
}

/* Later keys and values change nothing, not even in the block of the query's last key, or if they
 * begin a segment. */
static void attention_does_not_depend_on_later_keys(void **state)
{
	static const uint64_t positions[] = { 50, FW_ATTN_SEGMENT - 4, FW_ATTN_SEGMENT - 3 };
	uint32_t dim = 64, row = 3, d;
	float *y, *other;
	struct attn x;
	unsigned int s, p;
	size_t seen;

	rng_seed(__func__);
	for (s = 0; s < nr_sets * 3; s++) {
		p = s / nr_sets;
		attn_make(&x, VNPU_KV_F32, dim, 1, 2, 12, positions[p]);
		seen = (size_t)(row + 1) * x.t.group * dim;
		y = need(attn_results(&x) * 4);
		other = need(attn_results(&x) * 4);
		attn_run(&x, sets[s % nr_sets], 1, 24, y);
		for (d = 0; d < dim; d++) {
			((float *)(x.k + (x.t.pos + row + 1) * x.t.k_row_bytes))[d] =
				d % 2 ? NAN : INFINITY;
			((float *)(x.v + (x.t.pos + row + 1) * x.t.v_row_bytes))[d] =
				d % 2 ? NAN : INFINITY;
		}
		attn_run(&x, sets[s % nr_sets], 1, 24, other);
		assert_same(other, y, seen, sets[s % nr_sets]->name, "attn of rows before");
		for (d = 0; d < dim; d++)
			assert_true(isnan(other[seen + d]));
		attn_free(&x);
		free(y);
		free(other);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(f16_numbers_widen_exactly_and_come_back),
		cmocka_unit_test(f16_rounds_to_nearest_even),
		cmocka_unit_test(stored_rows_are_the_same_bytes_on_every_isa),
		cmocka_unit_test(attention_keeps_its_bound_on_every_isa),
		cmocka_unit_test(attention_over_segments_has_the_same_bits_from_parts),
		cmocka_unit_test(attention_of_a_query_does_not_depend_on_its_neighbours),
		cmocka_unit_test(attention_does_not_depend_on_later_keys),
	};

	find_sets();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
