// SPDX-License-Identifier: MIT
/*
 * INT8 attention (ATTN_I8): every instruction set of this host gives the bits that vnpu_isa.h
 * defines, which keep the bound of docs/isa.md, for any rows of a head; and its packed values.
 */
#include "fw_sets.h"

struct attn {
	struct fw_attn_i8 t; /* all rows */
	uint64_t keys;
	size_t k_bytes, v_bytes, q_floats, y_floats;
	float *q, *y, *k_rows, *v_rows;
	uint8_t *k, *v;
	void *scratch;
};

static const uint32_t dims[] = { 1, 4, 15, 16, 17, 64, 70, 80, 96, 128, 160, 256, 1024 };

/* Keys and values packed by the portable kernels; unused memory has any bytes. */
static void attn_cache(struct attn *x)
{
	uint32_t dim = x->t.head_dim;

	x->k_bytes = (x->keys + 63) / 64 * VNPU_QK_PANEL_BYTES(dim);
	x->v_bytes = VNPU_PV_BYTES((x->keys + 3) / 4 * 4, dim);
	x->k = guarded(x->k_bytes);
	x->v = guarded(x->v_bytes);
	for (size_t i = 0; i < x->k_bytes; i++)
		x->k[i] = (uint8_t)rng_u32();
	for (size_t i = 0; i < x->v_bytes; i++)
		x->v[i] = (uint8_t)rng_u32();
	x->k_rows = random_floats(x->keys * dim, 2);
	x->v_rows = random_floats(x->keys * dim, 1);
	sets[0]->pack_keys(x->k, x->k_rows, dim, (uint32_t)x->keys, dim, 0, x->t.k_scale);
	sets[0]->pack_values(x->v, x->v_rows, dim, (uint32_t)x->keys, dim, 0, x->t.v_scale);
	x->t.k = x->k;
	x->t.v = (const int8_t *)x->v;
}

/* Scales with which some values are clamped. */
static void attn_make(struct attn *x, uint32_t dim, uint32_t rows, uint64_t pos)
{
	x->keys = pos + rows;
	x->t = (struct fw_attn_i8){
		.ldq = dim + rng_below(5),
		.ldy = dim + rng_below(5),
		.pos = pos,
		.rows = rows,
		.head_dim = dim,
		.q_scale = 2 / 120.0f,
		.k_scale = 2 / (100.0f + (float)rng_below(40)),
		.v_scale = 1 / 127.0f,
		.scale = (float)(1 + rng_below(4)) / sqrtf((float)dim),
	};
	attn_cache(x);
	x->q_floats = (rows - 1) * x->t.ldq + dim;
	x->y_floats = (rows - 1) * x->t.ldy + dim;
	x->t.q = x->q = random_floats(x->q_floats, 2);
	x->t.y = x->y = guarded(x->y_floats * 4);
	x->scratch = aligned_alloc(64, FW_SCRATCH_BYTES);
}

static void attn_free(struct attn *x)
{
	unguard(x->k, x->k_bytes);
	unguard(x->v, x->v_bytes);
	unguard(x->y, x->y_floats * 4);
	free(x->q);
	free(x->k_rows);
	free(x->v_rows);
	free(x->scratch);
}

static int quantised(float x, float s)
{
	float q = nearbyintf(x / s);

	return (int)(q > 127 ? 127 : q < -127 ? -127 : q);
}

/* The exact scores of row @r, before the shift. */
static void attn_scores(const struct attn *x, uint32_t r, int64_t *acc)
{
	uint32_t dim = x->t.head_dim;

	for (uint64_t j = 0; j <= x->t.pos + r; j++) {
		acc[j] = 0;
		for (uint32_t d = 0; d < dim; d++)
			acc[j] += quantised(x->q[r * x->t.ldq + d], x->t.q_scale) *
				  quantised(x->k_rows[j * dim + d], x->t.k_scale);
	}
}

/* Row @r as vnpu_isa.h defines it, with the device's exp. */
static void attn_row(const struct attn *x, uint32_t r, const int64_t *acc, float *y)
{
	uint32_t dim = x->t.head_dim, shift = vnpu_qk_shift(dim);
	float factor = x->t.q_scale * x->t.k_scale * x->t.scale * (float)(1 << shift), e;
	uint64_t n = x->t.pos + r + 1;
	int64_t half = 1 << shift >> 1, max = INT64_MIN, sum = 0, total;
	int *w = need(n * sizeof(*w));

	for (uint64_t j = 0; j < n; j++)
		max = (acc[j] + half) >> shift > max ? (acc[j] + half) >> shift : max;
	for (uint64_t j = 0; j < n; j++) {
		e = (float)(((acc[j] + half) >> shift) - max) * factor;
		sets[0]->exp(&e, &e, 1);
		w[j] = (int)nearbyintf(e * 127);
		sum += w[j];
	}
	for (uint32_t d = 0; d < dim; d++) {
		total = 0;
		for (uint64_t j = 0; j < n; j++)
			total += w[j] * quantised(x->v_rows[j * dim + d], x->t.v_scale);
		y[d] = (float)total * (x->t.v_scale / (float)sum);
	}
	free(w);
}

/*
 * The error of row @r against the attention of the quantised numbers in double precision, as a
 * fraction of the bound of docs/isa.md.
 */
static double attn_error(const struct attn *x, uint32_t r, const int64_t *acc, const float *y)
{
	uint32_t dim = x->t.head_dim, shift = vnpu_qk_shift(dim);
	double f = (double)x->t.q_scale * x->t.k_scale * x->t.scale, sum = 0, worst = 0, bound;
	uint64_t n = x->t.pos + r + 1;
	double *w = need(n * sizeof(*w)), blur = shift ? expm1(ldexp(f, (int)shift)) : 0, least;
	int64_t max = INT64_MIN;

	for (uint64_t j = 0; j < n; j++)
		max = acc[j] > max ? acc[j] : max;
	for (uint64_t j = 0; j < n; j++)
		sum += w[j] = exp((double)(acc[j] - max) * f);
	least = fmax(1, sum * (1 - blur) - (double)n / 254);
	bound = 2 * (blur * sum + (double)n / 254 + 1e-5 * sum) / least + 1e-6;
	for (uint32_t d = 0; d < dim; d++) {
		double want = 0;

		for (uint64_t j = 0; j < n; j++)
			want += w[j] / sum * quantised(x->v_rows[j * dim + d], x->t.v_scale) *
				(double)x->t.v_scale;
		worst = fmax(worst, fabs(y[d] - want));
	}
	free(w);
	return worst / bound;
}

/* Rows in blocks of at most @most. */
static void attn_run(const struct attn *x, const struct fw_kernels *set, uint32_t most)
{
	for (uint32_t r = 0; r < x->t.rows; r += most) {
		struct fw_attn_i8 t = x->t;

		t.q += r * t.ldq;
		t.y += r * t.ldy;
		t.pos += r;
		t.rows = t.rows - r < most ? t.rows - r : most;
		set->attn_i8(&t, x->scratch);
	}
}

static double attn_check(const struct attn *x)
{
	uint32_t dim = x->t.head_dim;
	int64_t *acc = need(x->keys * sizeof(*acc));
	float *want = need(x->t.rows * dim * 4);
	double worst = 0;

	for (uint32_t r = 0; r < x->t.rows; r++) {
		attn_scores(x, r, acc);
		attn_row(x, r, acc, want + r * dim);
		worst = fmax(worst, attn_error(x, r, acc, want + r * dim));
	}
	for (unsigned int s = 0; s < nr_sets; s++) {
		for (size_t i = 0; i < x->y_floats; i++)
			x->y[i] = 77;
		attn_run(x, sets[s], rng_below(2) ? x->t.rows : 1 + rng_below(x->t.rows));
		for (uint32_t r = 0; r < x->t.rows; r++) {
			assert_same(x->y + r * x->t.ldy, want + r * dim, dim, sets[s]->name,
				    "attn_i8");
			for (uint32_t d = dim; d < x->t.ldy && r + 1 < x->t.rows; d++)
				assert_true(x->y[r * x->t.ldy + d] == 77);
		}
	}
	free(acc);
	free(want);
	return worst;
}

static void attention_has_the_defined_bits_and_keeps_its_bound_on_every_isa(void **state)
{
	double worst = 0;
	struct attn x;

	rng_seed(__func__);
	for (int round = 0; round < 150; round++) {
		uint32_t dim = dims[rng_below(sizeof(dims) / sizeof(*dims))];

		attn_make(&x, dim, 1 + rng_below(round % 4 ? 9 : 60),
			  rng_below(round % 4 ? 200 : 20));
		worst = fmax(worst, attn_check(&x));
		attn_free(&x);
	}
	print_message("attn_i8: greatest error %.2f of the bound\n", worst);
	assert_true(worst <= 1);
}

/* So many that their scores fit the scratch for a few rows only. */
static void a_long_context_has_the_same_bits_on_every_isa(void **state)
{
	float *ref;
	struct attn x;

	rng_seed(__func__);
	attn_make(&x, 8, 5, VNPU_MAX_K_I8 - 5);
	ref = need(x.y_floats * 4);
	for (unsigned int s = 0; s < nr_sets; s++) {
		for (size_t i = 0; i < x.y_floats; i++)
			x.y[i] = 0;
		attn_run(&x, sets[s], s % 2 ? 5 : 2);
		if (!s)
			memcpy(ref, x.y, x.y_floats * 4);
		assert_same(x.y, ref, x.y_floats, sets[s]->name, "attn_i8");
	}
	free(ref);
	attn_free(&x);
}

/* A NaN spoils its row; a bad scale all rows. */
static void what_is_not_finite_becomes_nan(void **state)
{
	static const float bad[] = { NAN, INFINITY, 0, -1 };
	struct attn x;

	rng_seed(__func__);
	for (int round = 0; round < 16; round++) {
		attn_make(&x, 64, 7, 60);
		if (round < 4)
			x.q[3 * x.t.ldq + rng_below(64)] = round % 2 ? NAN : -INFINITY;
		else
			*(round < 8    ? &x.t.q_scale
			  : round < 12 ? &x.t.k_scale
				       : &x.t.v_scale) = bad[round % 4];
		for (unsigned int s = 0; s < nr_sets; s++) {
			attn_run(&x, sets[s], 7);
			for (uint32_t r = 0; r < 7; r++)
				for (uint32_t d = 0; d < 64; d++)
					assert_int_equal(!!isnan(x.y[r * x.t.ldy + d]),
							 round >= 4 || r == 3);
		}
		attn_free(&x);
	}
}

static void values_are_packed_with_the_bytes_of_a_static_scale(void **state)
{
	rng_seed(__func__);
	for (int round = 0; round < 200; round++) {
		uint32_t dim = dims[rng_below(12)], rows = 1 + rng_below(20), pos = rng_below(30);
		uint32_t columns = (dim + 15) / 16 * 16, bad = rng_below(2 * rows);
		float *x = random_floats(rows * dim, 1.5f);
		size_t bytes = VNPU_PV_BYTES((pos + rows + 3) / 4 * 4, dim);
		int8_t *v = guarded(bytes);

		if (bad < rows)
			x[bad * dim + rng_below(dim)] = NAN;
		for (unsigned int s = 0; s < nr_sets; s++) {
			memset(v, 0x33, bytes);
			sets[s]->pack_values((uint8_t *)v, x, dim, rows, dim, pos, 0.01f);
			for (size_t i = 0; i < bytes; i++) {
				uint64_t p = i / columns / 4 * 4 + i % 4, d = i / 4 % columns;
				int want = 0x33;

				if (p >= pos && p < pos + rows)
					want = p - pos == bad || d >= dim
						       ? 0
						       : quantised(x[(p - pos) * dim + d], 0.01f);
				assert_int_equal(v[i], want);
			}
		}
		unguard(v, bytes);
		free(x);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attention_has_the_defined_bits_and_keeps_its_bound_on_every_isa),
		cmocka_unit_test(a_long_context_has_the_same_bits_on_every_isa),
		cmocka_unit_test(what_is_not_finite_becomes_nan),
		cmocka_unit_test(values_are_packed_with_the_bytes_of_a_static_scale),
	};

	find_sets();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
