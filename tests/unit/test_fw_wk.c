// SPDX-License-Identifier: MIT
/*
 * Kernels for weights of 1 to 8 bits: exact on every instruction set, whatever is beyond n and k;
 * with 8 bits the same as MATMUL_I8. Packed weights end at an inaccessible page.
 */
#include "fw_sets.h"

struct wk {
	struct fw_matmul_i8 t;
	int8_t *a, *q;
	uint32_t *bits; /* of each panel */
	uint8_t *w;
	size_t a_bytes, w_bytes;
	struct fw_wk_panel *panels;
	float *a_scale, *scale, *bias;
	void *scratch;
};

/*
 * Rows end at an inaccessible page, too: the padding of a row of activations to 4 may be read, no
 * more. @bits 0: a random width for each panel.
 */
static void wk_make(struct wk *x, uint32_t m, uint32_t n, uint32_t k, uint32_t bits, bool extreme)
{
	uint32_t k4 = (k + 3) / 4 * 4, nr = (n + 63) / 64, b, i, j;
	size_t lda = k4 + rng_below(9), ldc = n + rng_below(9);

	x->a_bytes = (m - 1) * lda + k4;
	x->a = guarded(x->a_bytes);
	for (i = 0; i < x->a_bytes; i++)
		x->a[i] = extreme ? (rng_below(8) ? -128 : 127) : (int8_t)rng_u32();
	x->bits = need(nr * sizeof(*x->bits));
	for (i = 0; i < nr; i++)
		x->bits[i] = bits ? bits : 1 + rng_below(8);
	x->q = need((size_t)n * k);
	for (i = 0; i < n; i++) {
		b = x->bits[i / 64];
		for (j = 0; j < k; j++)
			x->q[(size_t)i * k + j] = extreme && rng_below(8)
							  ? (b == 1 ? -1 : -(1 << (b - 1)))
							  : random_wk(b);
	}
	x->a_scale = random_floats(m, 0.1f);
	x->scale = random_floats(n, 0.1f);
	x->bias = rng_below(2) ? random_floats(n, 10) : NULL;
	x->w_bytes = wk_bytes(x->bits, n, k);
	x->w = guarded(x->w_bytes);
	pack_wk(x->w, x->q, x->scale, x->bits, n, k);
	x->panels = need(nr * sizeof(*x->panels));
	for (i = 0; i < nr; i++)
		x->panels[i] = (struct fw_wk_panel){
			x->w + ((struct vnpu_wk_panel *)x->w)[i].offset * 64ull, x->bits[i]
		};
	x->scratch = aligned_alloc(64, FW_SCRATCH_BYTES);
	x->t = (struct fw_matmul_i8){ x->a, x->a_scale, NULL, x->bias, NULL,	 m,
				      n,    k,		lda,  ldc,     x->panels };
}

static void wk_free(struct wk *x)
{
	unguard(x->a, x->a_bytes);
	unguard(x->w, x->w_bytes);
	free(x->q);
	free(x->bits);
	free(x->panels);
	free(x->a_scale);
	free(x->scale);
	free(x->bias);
	free(x->scratch);
}

/* As defined in vnpu_isa.h, from the numbers before they were packed. */
static float wk_element(const struct wk *x, uint32_t m, uint32_t n)
{
	int64_t acc = 0;
	uint32_t k;
	float y;

	for (k = 0; k < x->t.k; k++)
		acc += x->a[m * x->t.lda + k] * x->q[(size_t)n * x->t.k + k];
	y = (float)acc * (x->a_scale[m] * x->scale[n]);
	return x->bias ? y + x->bias[n] : y;
}

static void wk_check(uint32_t m, uint32_t n, uint32_t k, uint32_t bits, bool extreme)
{
	struct wk x;
	uint32_t i, j, s;
	float *ref, *c;
	char what[96];

	wk_make(&x, m, n, k, bits, extreme);
	snprintf(what, sizeof(what), "m %u n %u k %u, %u bits", m, n, k, bits);
	ref = need(((m - 1) * x.t.ldc + n) * sizeof(float));
	c = need(((m - 1) * x.t.ldc + n) * sizeof(float));
	memset(ref, 0x55, ((m - 1) * x.t.ldc + n) * sizeof(float));
	for (i = 0; i < m; i++)
		for (j = 0; j < n; j++)
			ref[i * x.t.ldc + j] = wk_element(&x, i, j);
	for (s = 0; s < nr_sets; s++) {
		memset(c, 0x55, ((m - 1) * x.t.ldc + n) * sizeof(float));
		x.t.c = c;
		sets[s]->matmul_i8(&x.t, x.scratch);
		/* With the elements between the rows. */
		assert_same(c, ref, (m - 1) * x.t.ldc + n, sets[s]->name, what);
	}
	free(ref);
	free(c);
	wk_free(&x);
}

static void each_width_is_exact_on_every_isa_for_any_rows(void **state)
{
	uint32_t bits, m;

	rng_seed(__func__);
	for (bits = 1; bits <= 8; bits++)
		for (m = 1; m <= 20; m++)
			wk_check(m, 1 + rng_below(150), 1 + rng_below(m % 4 ? 200 : 1200), bits,
				 m % 5 == 4);
}

static void panels_of_any_widths_are_exact_on_every_isa(void **state)
{
	int i;

	rng_seed(__func__);
	for (i = 0; i < 80; i++)
		wk_check(1 + rng_below(i % 8 ? 20 : 150), 1 + rng_below(300),
			 1 + rng_below(i % 4 ? 300 : 1200), 0, rng_below(4) == 0);
}

/* Each remainder of k, for one row, few rows, and as many as fill a tile. */
static void every_end_of_k_is_exact(void **state)
{
	uint32_t k;

	rng_seed(__func__);
	for (k = 1; k <= 72; k++) {
		wk_check(1, 70, k, 0, false);
		wk_check(2 + rng_below(3), 70, k, 0, false);
		wk_check(5 + rng_below(30), 70, k, 0, false);
		wk_check(33, 70, 512 + k, 0, false);
	}
}

/* More channels and rows than a worker's scratch has sums for; and the largest k. */
static void blocks_of_any_size_are_exact(void **state)
{
	rng_seed(__func__);
	wk_check(19, 20001, 3, 0, false);
	wk_check(700, 130, 9, 0, false);
	wk_check(90, 1100, 530, 0, false);
	wk_check(1, 3, VNPU_MAX_K_I8, 8, true);
	wk_check(4, 2, VNPU_MAX_K_I8, 7, true);
	wk_check(13, 2, VNPU_MAX_K_I8, 8, true);
	wk_check(7, 65, VNPU_MAX_K_I8 - 1, 0, false);
}

static void with_8_bits_it_equals_the_int8_matmul(void **state)
{
	struct fw_matmul_i8 i8;
	uint8_t *panels;
	float *c, *ref;
	struct wk x;
	size_t bytes;
	uint32_t s;
	int i;

	rng_seed(__func__);
	for (i = 0; i < 40; i++) {
		wk_make(&x, 1 + rng_below(40), 1 + rng_below(200), 1 + rng_below(700), 8,
			i % 4 == 3);
		bytes = ((x.t.m - 1) * x.t.ldc + x.t.n) * sizeof(float);
		c = need(bytes);
		ref = need(bytes);
		panels = need((x.t.n + 63) / 64 * VNPU_PANEL_I8_BYTES(x.t.k));
		pack_w8(panels, x.q, x.scale, x.t.n, x.t.k);
		for (s = 0; s < nr_sets; s++) {
			memset(c, 0x55, bytes);
			memset(ref, 0x55, bytes);
			x.t.c = c;
			i8 = x.t;
			i8.c = ref;
			i8.w = panels;
			i8.wk = NULL;
			sets[s]->matmul_i8(&x.t, x.scratch);
			sets[s]->matmul_i8(&i8, x.scratch);
			assert_memory_equal(c, ref, bytes);
		}
		free(c);
		free(ref);
		free(panels);
		wk_free(&x);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_width_is_exact_on_every_isa_for_any_rows),
		cmocka_unit_test(panels_of_any_widths_are_exact_on_every_isa),
		cmocka_unit_test(every_end_of_k_is_exact),
		cmocka_unit_test(blocks_of_any_size_are_exact),
		cmocka_unit_test(with_8_bits_it_equals_the_int8_matmul),
	};

	find_sets();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
