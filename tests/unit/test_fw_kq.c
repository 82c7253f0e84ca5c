// SPDX-License-Identifier: MIT
/*
 * Kernels of MATMUL_KQ: the bits that vnpu_isa.h defines, on every instruction set, and the bound
 * of one rounding per step compared with double precision. Weights end at an inaccessible page.
 */
#include "fw_sets.h"

struct kq {
	struct fw_matmul_kq t;
	struct vnpu_kq_form f;
	int8_t *a, *scale, *min;
	uint8_t *u, *panels;
	uint16_t *d, *dmin;
	float *a_scale, *bias;
	size_t bytes;
	void *scratch;
};

static int8_t random_s8(bool extreme)
{
	return extreme ? (rng_below(8) ? -128 : 127) : (int8_t)rng_u32();
}

/* The number that counts most. */
static uint8_t greatest_number(struct vnpu_kq_form f)
{
	uint8_t greatest = 0;

	for (uint8_t u = 1; u < 1u << f.bits; u++)
		if (kq_value(f, u) > kq_value(f, greatest))
			greatest = u;
	return greatest;
}

static void kq_make(struct kq *x, uint32_t type, uint32_t m, uint32_t n, uint32_t k, bool extreme,
		    bool wild)
{
	const struct vnpu_kq_form f = vnpu_kq_form(type);
	size_t lda = k + rng_below(9), ldc = n + rng_below(9), i, blocks = (size_t)n * k / f.block,
	       groups = (size_t)n * k / f.group;
	bool as_file;

	*x = (struct kq){ .f = f };
	x->a = need((m - 1) * lda + k);
	for (i = 0; i < (m - 1) * lda + k; i++)
		x->a[i] = random_s8(extreme);
	x->u = need((size_t)n * k);
	for (i = 0; i < (size_t)n * k; i++)
		x->u[i] = extreme && rng_below(8) ? greatest_number(f) : rng_below(1u << f.bits);
	x->d = need(blocks * 2);
	x->dmin = need(blocks * 2);
	for (i = 0; i < blocks; i++) {
		x->d[i] = random_f16(wild);
		x->dmin[i] = random_f16(wild);
	}
	/* As files have them, for which a kernel may have a shorter way. */
	as_file = !extreme && rng_below(2);
	x->scale = need(groups);
	x->min = need(groups);
	for (i = 0; i < groups; i++) {
		x->scale[i] = as_file ? (int8_t)rng_below(64) : random_s8(extreme);
		x->min[i] = random_s8(extreme);
	}
	x->a_scale = random_floats(m, 0.1f);
	x->bias = rng_below(2) ? random_floats(n, 10) : NULL;
	x->bytes = (n + 63) / 64 * vnpu_kq_panel_bytes(type, k);
	x->panels = guarded(x->bytes);
	x->scratch = aligned_alloc(64, FW_SCRATCH_BYTES);
	x->t = (struct fw_matmul_kq){ x->a, x->a_scale, x->panels, x->bias, NULL, m,
				      n,    k,		type,	   lda,	    ldc };
	pack_kq(x->panels, type, n, k, &(struct kq_parts){ x->u, x->d, x->dmin, x->scale, x->min });
}

static void kq_free(struct kq *x)
{
	free(x->a);
	free(x->u);
	free(x->d);
	free(x->dmin);
	free(x->scale);
	free(x->min);
	free(x->a_scale);
	free(x->bias);
	unguard(x->panels, x->bytes);
	free(x->scratch);
}

/* Element (m, n) as vnpu_isa.h defines it; in double precision, and a bound for the error. */
static float kq_element(const struct kq *x, uint32_t m, uint32_t n, double *real, double *bound)
{
	const uint32_t groups = x->f.block / x->f.group, blocks = x->t.k / x->f.block;
	double size = 0;
	float c = 0;

	*real = 0;
	for (uint32_t b = 0; b < blocks; b++) {
		size_t i = (size_t)n * blocks + b;
		int64_t acc = 0, low = 0;
		float d = fw_f16_to_f32(x->d[i]), dmin = fw_f16_to_f32(x->dmin[i]);

		for (uint32_t k = 0; k < x->f.block; k++) {
			size_t g = i * groups + k / x->f.group;
			int a = x->a[m * x->t.lda + b * x->f.block + k],
			    u = kq_value(x->f, x->u[i * x->f.block + k]);

			acc += a * u * (groups > 1 ? x->scale[g] : 1);
			low += a * (groups > 1 ? x->min[g] : 1);
		}
		assert_true(acc == (int32_t)acc && low == (int32_t)low);
		c = fmaf((float)acc, d, c);
		*real += (double)acc * d;
		size += fabs((double)acc * d);
		if (x->f.mins) {
			c = fmaf((float)low, -dmin, c);
			*real -= (double)low * dmin;
			size += fabs((double)low * dmin);
		}
	}
	c *= x->a_scale[m];
	*real *= x->a_scale[m];
	size *= fabs(x->a_scale[m]);
	if (x->bias) {
		c += x->bias[n];
		*real += x->bias[n];
		size += fabs(x->bias[n]);
	}
	*bound = size * (4 * blocks + 3) * U + FLT_MIN;
	return c;
}

static void kq_check(uint32_t type, uint32_t m, uint32_t n, uint32_t k, bool extreme, bool wild)
{
	double real, bound;
	float *want, *c;
	char what[96];
	struct kq x;
	size_t all;

	kq_make(&x, type, m, n, k, extreme, wild);
	all = (m - 1) * x.t.ldc + n;
	want = need(all * sizeof(float));
	c = need(all * sizeof(float));
	memset(want, 0x55, all * sizeof(float));
	snprintf(what, sizeof(what), "type %u m %u n %u k %u", type, m, n, k);
	for (uint32_t i = 0; i < m; i++) {
		for (uint32_t j = 0; j < n; j++) {
			want[i * x.t.ldc + j] = kq_element(&x, i, j, &real, &bound);
			if (!wild && !(fabs(want[i * x.t.ldc + j] - real) <= bound))
				fail_msg("%s: c[%u][%u] is %a, not %a", what, i, j,
					 want[i * x.t.ldc + j], real);
		}
	}
	x.t.c = c;
	for (unsigned int s = 0; s < nr_sets; s++) {
		memset(c, 0x55, all * sizeof(float));
		sets[s]->matmul_kq(&x.t, x.scratch);
		assert_same(c, want, all, sets[s]->name, what);
	}
	free(want);
	free(c);
	kq_free(&x);
}

static void matmul_of_block_types_is_exact_on_every_isa(void **state)
{
	uint32_t type, block;

	rng_seed(__func__);
	for (int i = 0; i < 240; i++) {
		type = (uint32_t)i % VNPU_NR_KQ_TYPES;
		block = vnpu_kq_form(type).block;
		kq_check(type, 1 + rng_below(i % 9 ? 12 : 60), 1 + rng_below(i % 5 ? 70 : 200),
			 block * (1 + rng_below(256 / block * 3)), i % 7 == 1, false);
	}
}

/* Rows of tiles of every height, more of them than are kept at a time, more panels too. */
static void matmul_of_block_types_takes_many_rows_and_panels(void **state)
{
	uint32_t type;

	rng_seed(__func__);
	for (type = 0; type < VNPU_NR_KQ_TYPES; type++) {
		kq_check(type, 33 + rng_below(30), 64 * 9 + rng_below(64), 512, false, false);
		kq_check(type, 133 + rng_below(12), 70, 768, type % 2, false);
		kq_check(type, 257 + rng_below(32), 65, 256, false, false);
	}
}

static void matmul_of_block_types_propagates_nan_and_infinite_scales(void **state)
{
	uint32_t type;

	rng_seed(__func__);
	for (int i = 0; i < 24; i++) {
		type = (uint32_t)i % VNPU_NR_KQ_TYPES;
		kq_check(type, 1 + rng_below(40), 1 + rng_below(100), 256 * (1 + rng_below(3)),
			 false, true);
	}
}

static void matmul_of_block_types_takes_the_largest_k(void **state)
{
	rng_seed(__func__);
	for (uint32_t type = 0; type < VNPU_NR_KQ_TYPES; type++) {
		kq_check(type, 1, 2, VNPU_MAX_K_I8, true, false);
		kq_check(type, 32, 1, VNPU_MAX_K_I8, true, false);
	}
}

/* One row and two may have kernels of their own. */
static void matmul_of_block_types_takes_one_row_and_two(void **state)
{
	rng_seed(__func__);
	for (uint32_t type = 0; type < VNPU_NR_KQ_TYPES; type++)
		for (uint32_t m = 1; m <= 2; m++)
			kq_check(type, m, 1 + rng_below(600), 256 * (1 + rng_below(3)),
				 m == type % 3, false);
}

static void panels_take_the_bytes_of_their_parts(void **state)
{
	/* Per channel and block: bytes of GGUF's block, with 6-bit scales in a byte each. */
	static const uint32_t bytes[VNPU_NR_KQ_TYPES] = {
		64 + 32 + 4, 64 + 32 + 16 + 2, 128 + 16 + 4, 160 + 16 + 4,     192 + 16 + 2,
		16 + 4,	     20 + 2,	       20 + 4,	     16 + 2,	       128 + 8 + 2,
		16 + 2,	     128 + 8 + 2,      128 + 8 + 2,  64 + 32 + 16 + 2, 64 + 32 + 16 + 2
	};

	for (uint32_t type = 0; type < VNPU_NR_KQ_TYPES; type++) {
		uint32_t block = vnpu_kq_form(type).block;

		assert_int_equal(vnpu_kq_panel_bytes(type, block), 64 * bytes[type]);
		assert_int_equal(vnpu_kq_panel_bytes(type, 3 * block), 3 * 64 * bytes[type]);
		assert_int_equal(vnpu_kq_panel_bytes(type, block + 16), 0);
	}
	assert_int_equal(vnpu_kq_panel_bytes(VNPU_NR_KQ_TYPES, 256), 0);
	assert_int_equal(vnpu_kq_panel_bytes(UINT32_MAX, 256), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(panels_take_the_bytes_of_their_parts),
		cmocka_unit_test(matmul_of_block_types_is_exact_on_every_isa),
		cmocka_unit_test(matmul_of_block_types_takes_many_rows_and_panels),
		cmocka_unit_test(matmul_of_block_types_propagates_nan_and_infinite_scales),
		cmocka_unit_test(matmul_of_block_types_takes_the_largest_k),
		cmocka_unit_test(matmul_of_block_types_takes_one_row_and_two),
	};

	find_sets();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
