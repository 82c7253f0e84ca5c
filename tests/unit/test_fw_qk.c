// SPDX-License-Identifier: MIT
/*
 * Scores and packed keys (QK_I8): every instruction set of this host gives what vnpu_isa.h defines,
 * for any block of rows and panels, and writes nothing else.
 */
#include "fw_sets.h"

#define UNTOUCHED 0x5a5a

struct qk {
	struct fw_qk_i8 t; /* all rows and panels */
	size_t q_bytes, k_bytes, scores_bytes;
	int8_t *q;
	uint8_t *k;
	int16_t *scores, *want;
	void *scratch;
};

static int8_t number(bool extreme)
{
	return extreme ? (rng_below(8) ? -128 : 127) : (int8_t)rng_u32();
}

/* Operands that end where their memory ends. */
static void qk_make(struct qk *x, uint32_t rows, uint32_t dim, uint64_t pos, uint32_t shift)
{
	uint32_t panels = (uint32_t)((pos + rows + 63) / 64 + rng_below(2));
	bool extreme = !rng_below(3);
	size_t i;

	x->t = (struct fw_qk_i8){
		.pos = pos,
		.rows = rows,
		.head_dim = dim,
		.panels = panels,
		.shift = shift,
		.ldq = (dim + 3) / 4 * 4 + rng_below(9),
		.lds = 64ul * (panels + rng_below(3)),
	};
	x->q_bytes = (rows - 1) * x->t.ldq + (dim + 3) / 4 * 4;
	x->k_bytes = panels * VNPU_QK_PANEL_BYTES(dim);
	x->scores_bytes = ((rows - 1) * x->t.lds + panels * 64) * sizeof(int16_t);
	x->t.q = x->q = guarded(x->q_bytes);
	x->t.k = x->k = guarded(x->k_bytes);
	x->t.scores = x->scores = guarded(x->scores_bytes);
	x->want = need(x->scores_bytes);
	x->scratch = aligned_alloc(64, FW_SCRATCH_BYTES);
	for (i = 0; i < x->q_bytes; i++)
		x->q[i] = number(extreme);
	for (i = 0; i < x->k_bytes; i++)
		x->k[i] = (uint8_t)number(extreme);
	for (i = 0; i < x->scores_bytes / 2; i++)
		x->want[i] = UNTOUCHED;
}

static void qk_free(struct qk *x)
{
	unguard(x->q, x->q_bytes);
	unguard(x->k, x->k_bytes);
	unguard(x->scores, x->scores_bytes);
	free(x->want);
	free(x->scratch);
}

/* Row @r's score of @position, as vnpu_isa.h defines it. */
static int16_t qk_reference(const struct qk *x, uint32_t r, uint32_t position)
{
	uint32_t dim = (x->t.head_dim + 3) / 4 * 4;
	const int8_t *panel =
		(const int8_t *)x->k + position / 64 * VNPU_QK_PANEL_BYTES(x->t.head_dim);
	int64_t acc = 0;
	double s;

	for (uint32_t d = 0; d < dim; d++)
		acc += x->q[r * x->t.ldq + d] * panel[d / 4 * 256 + position % 64 * 4 + d % 4];
	s = floor(ldexp((double)acc, -(int)x->t.shift) + (x->t.shift ? 0.5 : 0));
	return (int16_t)fmin(fmax(s, INT16_MIN), INT16_MAX);
}

/* The scores of @t's rows from row @row on, in its panels. */
static void qk_expect(struct qk *x, const struct fw_qk_i8 *t, uint32_t row)
{
	for (uint32_t r = row; r < row + t->rows; r++)
		for (uint32_t p = t->panel; p < t->panel + t->panels; p++)
			for (uint32_t i = 0; i < 64 && p * 64ull <= x->t.pos + r; i++)
				x->want[r * x->t.lds + p * 64 + i] = qk_reference(x, r, p * 64 + i);
}

/* Some rows and panels, or all. */
static struct fw_qk_i8 qk_block(const struct qk *x, bool all, uint32_t *row)
{
	struct fw_qk_i8 t = x->t;

	*row = 0;
	if (all)
		return t;
	*row = rng_below(t.rows);
	t.rows = 1 + rng_below(t.rows - *row);
	t.panel = rng_below(t.panels);
	t.panels = 1 + rng_below(t.panels - t.panel);
	t.q += *row * t.ldq;
	t.scores += *row * t.lds;
	t.pos += *row;
	return t;
}

static void qk_check(struct qk *x, bool all)
{
	struct fw_qk_i8 t;
	uint32_t row;

	t = qk_block(x, all, &row);
	qk_expect(x, &t, row);
	for (unsigned int s = 0; s < nr_sets; s++) {
		for (size_t i = 0; i < x->scores_bytes / 2; i++)
			x->scores[i] = UNTOUCHED;
		sets[s]->qk_i8(&t, x->scratch);
		for (size_t i = 0; i < x->scores_bytes / 2; i++)
			if (x->scores[i] != x->want[i])
				fail_msg("%s: %u rows of %u at %llu: row %zu column %zu is %d, not "
					 "%d",
					 sets[s]->name, t.rows, t.head_dim,
					 (unsigned long long)t.pos, i / x->t.lds, i % x->t.lds,
					 x->scores[i], x->want[i]);
	}
}

static const uint32_t qk_dims[] = { 1, 3, 4, 16, 64, 70, 80, 128, 130, 160, 256, 1000, 1024 };

static void scores_are_exact_on_every_isa_in_any_block(void **state)
{
	rng_seed(__func__);
	for (int round = 0; round < 300; round++) {
		uint32_t dim = qk_dims[rng_below(sizeof(qk_dims) / sizeof(*qk_dims))];
		uint32_t rows = 1 + rng_below(round % 4 ? 24 : 150);
		uint32_t shift =
			rng_below(2) ? vnpu_qk_shift(dim) : rng_below(VNPU_QK_MAX_SHIFT + 1);
		struct qk x;

		qk_make(&x, rows, dim, rng_below(round % 8 ? 200 : 600), shift);
		qk_check(&x, round % 3 == 0);
		qk_free(&x);
	}
}

/* More rows than any set keeps at a time. */
static void many_rows_are_divided(void **state)
{
	struct qk x;

	rng_seed(__func__);
	qk_make(&x, 700, 40, 30, 5);
	qk_check(&x, true);
	qk_free(&x);
}

static void the_least_shift_that_limits_nothing(void **state)
{
	static const uint32_t want[][2] = { { 2, 0 },	{ 3, 1 },   { 64, 5 },	{ 80, 6 },
					    { 128, 6 }, { 160, 7 }, { 256, 7 }, { 1024, 9 } };

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		assert_int_equal(vnpu_qk_shift(want[i][0]), want[i][1]);
	for (uint32_t dim = 1; dim <= VNPU_MAX_HEAD_DIM; dim++) {
		double most = 127.0 * 127 * dim;
		uint32_t shift = vnpu_qk_shift(dim);

		assert_true(floor(ldexp(most, -(int)shift) + (shift ? 0.5 : 0)) <= INT16_MAX);
		assert_true(!shift ||
			    floor(ldexp(most, 1 - (int)shift) + (shift > 1 ? 0.5 : 0)) > INT16_MAX);
	}
}

/* ---- packed keys ----------------------------------------------------------------------------- */

/* Position @pos of @panels must be row @x with scale @s. */
static void key_check(const uint8_t *panels, const float *x, uint32_t dim, uint64_t pos, float s)
{
	const int8_t *at =
		(const int8_t *)panels + pos / 64 * VNPU_QK_PANEL_BYTES(dim) + pos % 64 * 4;
	bool bad = !(s > 0) || isinf(s);
	float r;

	for (uint32_t d = 0; d < dim; d++)
		bad |= !isfinite(x[d]);
	for (uint32_t d = 0; d < (dim + 3) / 4 * 4; d++) {
		r = bad || d >= dim ? 0 : nearbyintf(x[d] / s);
		assert_int_equal(at[d / 4 * 256 + d % 4], (int)(r > 127	   ? 127
								: r < -127 ? -127
									   : r));
	}
}

static void pack_round(void)
{
	static const float scales[] = { 0.01f, 1, 1e-3f, 0, NAN, INFINITY, -1, 0.02f };
	uint32_t dim = qk_dims[rng_below(13)], rows = 1 + rng_below(90), pos = rng_below(150);
	uint32_t ldx = dim + rng_below(20), panels = (pos + rows + 63) / 64;
	float *x = random_floats((rows - 1) * ldx + dim, 2), s = scales[rng_below(8)];
	size_t bytes = panels * VNPU_QK_PANEL_BYTES(dim);
	uint8_t *k = guarded(bytes);

	if (rng_below(2))
		x[rng_below(rows) * ldx + rng_below(dim)] = rng_below(2) ? NAN : -INFINITY;
	for (unsigned int set = 0; set < nr_sets; set++) {
		memset(k, 0x33, bytes);
		sets[set]->pack_keys(k, x, ldx, rows, dim, pos, s);
		for (uint32_t r = 0; r < rows; r++)
			key_check(k, x + r * ldx, dim, pos + r, s);
		for (size_t i = 0; i < bytes; i++) {
			uint64_t p = i / VNPU_QK_PANEL_BYTES(dim) * 64 + i % 256 / 4;

			assert_true((p >= pos && p < pos + rows) || k[i] == 0x33);
		}
	}
	unguard(k, bytes);
	free(x);
}

static void keys_are_packed_with_the_bytes_of_a_static_scale(void **state)
{
	rng_seed(__func__);
	for (int round = 0; round < 300; round++)
		pack_round();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scores_are_exact_on_every_isa_in_any_block),
		cmocka_unit_test(many_rows_are_divided),
		cmocka_unit_test(the_least_shift_that_limits_nothing),
		cmocka_unit_test(keys_are_packed_with_the_bytes_of_a_static_scale),
	};

	find_sets();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
