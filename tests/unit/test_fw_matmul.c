// SPDX-License-Identifier: MIT
/*
 * Matmul kernels: INT8 ones are exact; 4-bit ones give the bits of the portable kernels on every
 * instruction set, and those keep the bound of one rounding per step compared with double
 * precision. Packed weights end at an inaccessible page.
 */
#include "fw_sets.h"

/* ---- INT8 matmul ----------------------------------------------------------------------------- */

struct mm {
	struct fw_matmul_i8 t;
	int8_t *a, *w;
	uint8_t *panels;
	float *a_scale, *w_scale, *bias, *ref;
	void *scratch;
};

static void mm_make(struct mm *x, uint32_t m, uint32_t n, uint32_t k, bool extreme, bool bias)
{
	uint32_t k4 = (k + 3) / 4 * 4, i;
	size_t lda = k4 + rng_below(9), ldc = n + rng_below(9);
	/* Quantised activations have no -128, and some kernels are others then. */
	const int8_t least = rng_below(2) ? -128 : -127;

	x->a = need((m - 1) * lda + k4);
	for (i = 0; i < (m - 1) * lda + k4; i++) {
		x->a[i] = extreme ? (rng_below(2) ? least : 127) : (int8_t)rng_u32();
		x->a[i] = x->a[i] < least ? least : x->a[i];
	}
	x->w = need((size_t)n * k);
	for (i = 0; i < n * k; i++)
		x->w[i] = extreme ? (rng_below(8) ? -128 : 127) : (int8_t)rng_u32();
	x->a_scale = random_floats(m, 0.1f);
	x->w_scale = random_floats(n, 0.1f);
	x->bias = bias ? random_floats(n, 10) : NULL;
	x->panels = guarded((n + 63) / 64 * VNPU_PANEL_I8_BYTES(k));
	pack_w8(x->panels, x->w, x->w_scale, n, k);
	x->scratch = aligned_alloc(64, FW_SCRATCH_BYTES);
	x->ref = need(((m - 1) * ldc + n) * sizeof(float));
	x->t = (struct fw_matmul_i8){ x->a, x->a_scale, x->panels, x->bias, NULL, m,
				      n,    k,		lda,	   ldc,	    NULL };
}

static void mm_free(struct mm *x)
{
	free(x->a);
	free(x->w);
	free(x->a_scale);
	free(x->w_scale);
	free(x->bias);
	unguard(x->panels, (x->t.n + 63) / 64 * VNPU_PANEL_I8_BYTES(x->t.k));
	free(x->scratch);
	free(x->ref);
}

/* As defined in vnpu_isa.h, from the unpacked weights. */
static float mm_element(const struct mm *x, uint32_t m, uint32_t n)
{
	int64_t acc = 0;
	uint32_t k;
	float y;

	for (k = 0; k < x->t.k; k++)
		acc += x->a[m * x->t.lda + k] * x->w[(size_t)n * x->t.k + k];
	y = (float)acc * (x->a_scale[m] * x->w_scale[n]);
	return x->bias ? y + x->bias[n] : y;
}

static void mm_check(uint32_t m, uint32_t n, uint32_t k, bool extreme, bool bias)
{
	struct mm x;
	uint32_t i, j, s;
	float *c;

	mm_make(&x, m, n, k, extreme, bias);
	for (i = 0; i < m; i++)
		for (j = 0; j < n; j++)
			x.ref[i * x.t.ldc + j] = mm_element(&x, i, j);
	for (s = 0; s < nr_sets; s++) {
		c = need(((m - 1) * x.t.ldc + n) * sizeof(float));
		memset(c, 0x55, ((m - 1) * x.t.ldc + n) * sizeof(float));
		x.t.c = c;
		sets[s]->matmul_i8(&x.t, x.scratch);
		for (i = 0; i < m; i++)
			for (j = 0; j < n; j++)
				if (c[i * x.t.ldc + j] != x.ref[i * x.t.ldc + j])
					fail_msg("%s: m %u n %u k %u: c[%u][%u] is %a, not %a",
						 sets[s]->name, m, n, k, i, j, c[i * x.t.ldc + j],
						 x.ref[i * x.t.ldc + j]);
		/* Nothing is written between the rows. */
		for (i = 0; i + 1 < m; i++)
			for (j = n; j < x.t.ldc; j++)
				assert_memory_equal(&c[i * x.t.ldc + j], "\x55\x55\x55\x55", 4);
		free(c);
	}
	mm_free(&x);
}

static void matmul_is_exact_on_every_isa(void **state)
{
	int i;

	rng_seed(__func__);
	for (i = 0; i < 150; i++)
		mm_check(1 + rng_below(i % 8 ? 20 : 80), 1 + rng_below(200),
			 1 + rng_below(i % 4 ? 300 : 1200), false, rng_below(2));
}

static void matmul_is_exact_even_if_16_bit_sums_would_saturate(void **state)
{
	int i;

	rng_seed(__func__);
	for (i = 0; i < 20; i++)
		mm_check(1 + rng_below(8), 1 + rng_below(130), 1 + rng_below(500), true, false);
}

/* More channels and rows than a worker's scratch has sums for. */
static void matmul_takes_blocks_of_any_size(void **state)
{
	rng_seed(__func__);
	mm_check(19, 70001, 3, false, true);
	mm_check(700, 130, 9, false, true);
	mm_check(90, 1100, 530, false, false);
	/* A long K, in K blocks that none of its shapes fills. */
	for (int i = 0; i < 4; i++)
		mm_check(60 + rng_below(90), 1 + rng_below(200), 2040 + rng_below(4000), i == 0,
			 i % 2);
	mm_check(9, 1100, 2049, false, true);
}

/* K is read in several parts at a time, which may differ in size, or be missing. */
static void matmul_of_few_rows_takes_any_k(void **state)
{
	uint32_t m, k, i;

	rng_seed(__func__);
	for (i = 0; i < 30; i++)
		mm_check(2, 1 + rng_below(200), 1 + rng_below(1200), rng_below(3) == 0, i % 2);
	for (m = 2; m <= 6; m++)
		for (k = 1; k <= 40; k += 1 + rng_below(3))
			mm_check(m, 1 + rng_below(130), k, rng_below(2), rng_below(2));
	/* Whole cache lines of activations, for each height of a tile. */
	for (m = 2; m <= 17; m++)
		mm_check(m, 1 + rng_below(200), 64 * (1 + rng_below(20)), m % 3 == 0, rng_below(2));
}

static void matmul_takes_the_largest_k(void **state)
{
	rng_seed(__func__);
	mm_check(6, 65, VNPU_MAX_K_I8, false, true);
	mm_check(1, 3, VNPU_MAX_K_I8, true, true);
	mm_check(13, 2, VNPU_MAX_K_I8, true, true);
	mm_check(7, 65, VNPU_MAX_K_I8 - 1, false, false);
}

/* ---- 4-bit matmul ---------------------------------------------------------------------------- */

struct w4 {
	struct fw_matmul_w4 t;
	int8_t *q;
	float *x, *a_scale, *bias;
	uint8_t *u, *panels;
	uint16_t *scale;
	void *scratch;
};

static void w4_make(struct w4 *x, uint32_t m, uint32_t n, uint32_t k, uint32_t group, bool extreme,
		    bool wild)
{
	size_t lda = k + rng_below(9), ldc = n + rng_below(9), i;

	x->q = need((m - 1) * lda + k);
	for (i = 0; i < (m - 1) * lda + k; i++)
		x->q[i] = extreme ? (rng_below(8) ? -128 : 127) : (int8_t)rng_u32();
	x->x = random_floats((m - 1) * lda + k, 3);
	x->u = need((size_t)n * k);
	for (i = 0; i < (size_t)n * k; i++)
		x->u[i] = extreme ? (rng_below(8) ? 0 : 15) : rng_below(16);
	x->scale = need(n * (k / group) * 2);
	for (i = 0; i < n * (k / group); i++)
		x->scale[i] = random_f16(wild);
	x->a_scale = random_floats(m, 0.1f);
	x->bias = rng_below(2) ? random_floats(n, 10) : NULL;
	x->panels = guarded((n + 63) / 64 * VNPU_PANEL_W4_BYTES(k, group));
	pack_w4(x->panels, x->u, x->scale, n, k, group);
	x->scratch = aligned_alloc(64, FW_SCRATCH_BYTES);
	x->t = (struct fw_matmul_w4){ x->q, x->a_scale, x->panels, x->bias, NULL, m,
				      n,    k,		group,	   lda,	    ldc };
}

static void w4_free(struct w4 *x)
{
	free(x->q);
	free(x->x);
	free(x->u);
	free(x->scale);
	free(x->a_scale);
	free(x->bias);
	unguard(x->panels, (x->t.n + 63) / 64 * VNPU_PANEL_W4_BYTES(x->t.k, x->t.group));
	free(x->scratch);
}

static double f16_double(uint16_t h)
{
	double x =
		h >> 10 & 31 ? ldexp(1024 + (h & 1023), (h >> 10 & 31) - 25) : ldexp(h & 1023, -24);

	return h >> 15 ? -x : x;
}

/* Element (m, n) in double precision, and a bound for the error of @roundings roundings. */
static double w4_element(const struct w4 *x, bool floats, uint32_t m, uint32_t n, double *bound)
{
	uint32_t k, groups = x->t.k / x->t.group;
	double sum = 0, size = 0, p, a;

	for (k = 0; k < x->t.k; k++) {
		a = floats ? (double)x->x[m * x->t.lda + k]
			   : x->q[m * x->t.lda + k] * (double)x->a_scale[m];
		p = a * (x->u[(size_t)n * x->t.k + k] - 8) *
		    f16_double(x->scale[n * groups + k / x->t.group]);
		sum += p;
		size += fabs(p);
	}
	if (x->bias) {
		sum += x->bias[n];
		size += fabs(x->bias[n]);
	}
	*bound = size * ((floats ? x->t.k : groups) + 3) * U + FLT_MIN;
	return sum;
}

static void w4_run(struct w4 *x, unsigned int s, bool floats, float *c)
{
	struct fw_matmul_w4 t = x->t;

	t.c = c;
	t.a = floats ? (void *)x->x : x->q;
	t.a_scale = floats ? NULL : x->a_scale;
	memset(c, 0x55, ((t.m - 1) * t.ldc + t.n) * sizeof(float));
	(floats ? sets[s]->matmul_w4f : sets[s]->matmul_w4)(&t, x->scratch);
}

static void w4_check(uint32_t m, uint32_t n, uint32_t k, uint32_t group, bool extreme, bool wild)
{
	float *ref, *c;
	double want, bound;
	uint32_t i, j, s, floats;
	struct w4 x;
	char what[96];

	w4_make(&x, m, n, k, group, extreme, wild);
	ref = need(((m - 1) * x.t.ldc + n) * sizeof(float));
	c = need(((m - 1) * x.t.ldc + n) * sizeof(float));
	for (floats = 0; floats < 2; floats++) {
		snprintf(what, sizeof(what), "w4%s m %u n %u k %u group %u", floats ? "f" : "", m,
			 n, k, group);
		w4_run(&x, 0, floats, ref);
		for (i = 0; i < m && !wild; i++) {
			for (j = 0; j < n; j++) {
				want = w4_element(&x, floats, i, j, &bound);
				if (!(fabs(ref[i * x.t.ldc + j] - want) <= bound))
					fail_msg("%s: c[%u][%u] is %a, not %a", what, i, j,
						 ref[i * x.t.ldc + j], want);
			}
		}
		/* With the elements between the rows. */
		for (s = 1; s < nr_sets; s++) {
			w4_run(&x, s, floats, c);
			assert_same(c, ref, (m - 1) * x.t.ldc + n, sets[s]->name, what);
		}
	}
	free(ref);
	free(c);
	w4_free(&x);
}

static void matmul_of_4_bits_is_the_same_on_every_isa_and_keeps_its_bound(void **state)
{
	uint32_t group, i;

	rng_seed(__func__);
	for (i = 0; i < 120; i++) {
		group = 32 << rng_below(3);
		w4_check(1 + rng_below(i % 8 ? 40 : 150), 1 + rng_below(i % 4 ? 70 : 200),
			 group * (1 + rng_below(i % 4 ? 6 : 20)), group, i % 5 == 1, false);
	}
	/* More panels and rows than a kernel takes at a time. */
	for (group = 32; group <= 128; group *= 2) {
		w4_check(33 + rng_below(30), 64 * 9 + rng_below(64), 384, group, false, false);
		w4_check(257 + rng_below(40), 65, 384, group, false, false);
	}
}

static void matmul_of_4_bits_propagates_nan_and_infinite_scales(void **state)
{
	int i;

	rng_seed(__func__);
	for (i = 0; i < 20; i++)
		w4_check(1 + rng_below(12), 1 + rng_below(100), 32 * (1 + rng_below(9)), 32, false,
			 true);
}

/* Sums of 16 bits are full after 32 k, and sums of rows need the more scratch the larger K is. */
static void matmul_of_4_bits_takes_the_largest_k(void **state)
{
	rng_seed(__func__);
	w4_check(1, 2, VNPU_MAX_K_I8, 32, true, false);
	w4_check(32, 1, VNPU_MAX_K_I8, 32, true, false);
	w4_check(47, 1, VNPU_MAX_K_I8, 32, true, false);
	w4_check(3, 65, VNPU_MAX_K_I8, 128, false, false);
}

/* For a single row, several panels may be read at a time: tests every number of them. */
static void matmul_of_a_vector_takes_any_number_of_panels(void **state)
{
	uint32_t panels, n, group;

	rng_seed(__func__);
	for (panels = 1; panels <= 10; panels++) {
		n = panels * VNPU_PANEL_N - (panels % 2 ? rng_below(VNPU_PANEL_N) : 0);
		group = 32 << rng_below(3);
		mm_check(1, n, 1 + rng_below(600), false, rng_below(2));
		w4_check(1, n, group * (1 + rng_below(6)), group, false, false);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matmul_is_exact_on_every_isa),
		cmocka_unit_test(matmul_is_exact_even_if_16_bit_sums_would_saturate),
		cmocka_unit_test(matmul_takes_blocks_of_any_size),
		cmocka_unit_test(matmul_of_few_rows_takes_any_k),
		cmocka_unit_test(matmul_takes_the_largest_k),
		cmocka_unit_test(matmul_of_4_bits_is_the_same_on_every_isa_and_keeps_its_bound),
		cmocka_unit_test(matmul_of_4_bits_propagates_nan_and_infinite_scales),
		cmocka_unit_test(matmul_of_4_bits_takes_the_largest_k),
		cmocka_unit_test(matmul_of_a_vector_takes_any_number_of_panels),
	};

	find_sets();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
