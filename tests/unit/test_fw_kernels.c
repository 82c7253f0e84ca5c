// SPDX-License-Identifier: MIT
/*
 * Kernels: every instruction set of this host gives the bits of the portable kernels, and those keep the bounds against
 * double precision that docs/isa.md states. Buffers end where their operands end, so that ASan sees an access beyond.
 */
#include "fw_fake.h"

#include <float.h>
#include <math.h>

/* The bounds of docs/isa.md; U is half a unit in the last place of 1. */
#define U (0x1p-24)
#define EXP_REL (4 * U)

static const struct fw_kernels *sets[3];
static unsigned int nr_sets;

static void find_sets(void)
{
	static const enum fw_isa all[] = { FW_ISA_GENERIC, FW_ISA_AVX2, FW_ISA_AVX512_VNNI };
	unsigned int i;

	for (i = 0; i < 3; i++)
		if (fw_kernels_get(all[i]))
			sets[nr_sets++] = fw_kernels_get(all[i]);
}

static void *need(size_t bytes)
{
	void *p = malloc(bytes ? bytes : 1);

	assert_non_null(p);
	return p;
}

static float *random_floats(size_t n, float scale)
{
	float *x = need(n * sizeof(*x));
	size_t i;

	for (i = 0; i < n; i++)
		x[i] = rng_float() * scale;
	return x;
}

/* Two rows of floats are the same bits; NaNs equal each other. */
static void assert_same(const float *a, const float *b, size_t n, const char *set, const char *what)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (memcmp(&a[i], &b[i], sizeof(a[i])) && !(isnan(a[i]) && isnan(b[i])))
			fail_msg("%s %s: element %zu of %zu is %a, portable %a", set, what, i, n, a[i], b[i]);
}

/* Lengths around the vectors' and the unrolled loops'. */
static size_t random_length(void)
{
	return rng_below(2) ? 1 + rng_below(70) : 1 + rng_below(700);
}

/* ---- INT8 matmul --------------------------------------------------------------------------------------------------- */

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

	x->a = need((m - 1) * lda + k4);
	for (i = 0; i < (m - 1) * lda + k4; i++)
		x->a[i] = extreme ? (rng_below(2) ? -128 : 127) : (int8_t)rng_u32();
	x->w = need((size_t)n * k);
	for (i = 0; i < n * k; i++)
		x->w[i] = extreme ? (rng_below(8) ? -128 : 127) : (int8_t)rng_u32();
	x->a_scale = random_floats(m, 0.1f);
	x->w_scale = random_floats(n, 0.1f);
	x->bias = bias ? random_floats(n, 10) : NULL;
	x->panels = aligned_alloc(64, (n + 63) / 64 * VNPU_PANEL_I8_BYTES(k));
	pack_w8(x->panels, x->w, x->w_scale, n, k);
	x->scratch = aligned_alloc(64, FW_SCRATCH_BYTES);
	x->ref = need(((m - 1) * ldc + n) * sizeof(float));
	x->t = (struct fw_matmul_i8){ x->a, x->a_scale, x->panels, x->bias, NULL, m, n, k, lda, ldc };
}

static void mm_free(struct mm *x)
{
	free(x->a);
	free(x->w);
	free(x->a_scale);
	free(x->w_scale);
	free(x->bias);
	free(x->panels);
	free(x->scratch);
	free(x->ref);
}

/* What vnpu_isa.h defines, from the unpacked weights. */
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
					fail_msg("%s: m %u n %u k %u: c[%u][%u] is %a, not %a", sets[s]->name, m, n, k,
						 i, j, c[i * x.t.ldc + j], x.ref[i * x.t.ldc + j]);
		/* Between the rows nothing is written. */
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
		mm_check(1 + rng_below(20), 1 + rng_below(200), 1 + rng_below(300), false, rng_below(2));
}

static void matmul_is_exact_where_16_bit_sums_would_saturate(void **state)
{
	int i;

	rng_seed(__func__);
	for (i = 0; i < 20; i++)
		mm_check(1 + rng_below(8), 1 + rng_below(130), 1 + rng_below(500), true, false);
}

static void matmul_takes_the_greatest_k(void **state)
{
	rng_seed(__func__);
	mm_check(1, 3, VNPU_MAX_K_I8, true, true);
	mm_check(13, 2, VNPU_MAX_K_I8, true, true);
	mm_check(7, 65, VNPU_MAX_K_I8 - 1, false, false);
}

/* ---- quantiser ----------------------------------------------------------------------------------------------------- */

static void quant_row(float *x, size_t n)
{
	/* At 2.6e-43 the scale rounds down by a third: the clamp works. */
	static const float scales[] = { 1, 1e-3f, 1e30f, 1e-38f, 1e-43f, 2.6e-43f, FLT_MAX };
	float scale = scales[rng_below(7)];
	size_t i;

	for (i = 0; i < n; i++)
		x[i] = rng_float() * scale;
	/* Values half-way between integers: 127 as the maximum makes the scale 1. */
	if (!rng_below(3)) {
		for (i = 0; i < n; i++)
			x[i] = (float)((int)rng_below(253) - 126) + 0.5f;
		x[rng_below(n)] = rng_below(2) ? 127 : -127;
	}
	if (!rng_below(8))
		memset(x, 0, n * sizeof(*x));
	if (!rng_below(8))
		x[rng_below(n)] = rng_below(2) ? NAN : -INFINITY;
	if (!rng_below(8))
		x[rng_below(n)] = -0.0f;
}

/* Scale and values as vnpu_isa.h defines them. */
static void quant_reference(int8_t *q, float *scale, const float *x, size_t n)
{
	float max = 0, r;
	bool bad = false;
	size_t i;

	for (i = 0; i < n; i++) {
		bad |= !isfinite(x[i]);
		max = fmaxf(max, fabsf(x[i]));
	}
	*scale = bad ? NAN : max / 127.0f;
	for (i = 0; i < (n + 3) / 4 * 4; i++) {
		r = i<n && * scale> 0 ? nearbyintf(x[i] / *scale) : 0;
		q[i] = r > 127 ? 127 : r < -127 ? -127 : r;
	}
}

static void quant_rounds_to_nearest_even_on_every_isa(void **state)
{
	size_t n, n4;
	int8_t *q, *ref;
	float scale, ref_scale, *x;
	unsigned int s;
	int i;

	rng_seed(__func__);
	for (i = 0; i < 3000; i++) {
		n = random_length();
		n4 = (n + 3) / 4 * 4;
		x = need(n * sizeof(*x));
		q = need(n4);
		ref = need(n4);
		quant_row(x, n);
		quant_reference(ref, &ref_scale, x, n);
		for (s = 0; s < nr_sets; s++) {
			memset(q, 0x55, n4);
			sets[s]->quant(q, &scale, x, n);
			assert_same(&scale, &ref_scale, 1, sets[s]->name, "scale");
			assert_memory_equal(q, ref, n4);
		}
		free(x);
		free(q);
		free(ref);
	}
}

static void dequant_multiplies_once(void **state)
{
	size_t n = 77, i;
	int8_t q[77];
	float y[77];
	unsigned int s;

	rng_seed(__func__);
	for (i = 0; i < n; i++)
		q[i] = rng_u32();
	for (s = 0; s < nr_sets; s++) {
		sets[s]->dequant(y, q, 0.37f, n);
		for (i = 0; i < n; i++)
			assert_true(y[i] == (float)q[i] * 0.37f);
	}
}

/* ---- float kernels: one result on every instruction set ------------------------------------------------------------ */

/* Numbers of every size, with the special ones among them. */
static float wild(void)
{
	static const float special[] = { 0,	   -0.0f,   INFINITY, -INFINITY, NAN, FLT_MAX,
					 -FLT_MAX, FLT_MIN, 1e-45f,   88.8f,	 -104 };
	uint32_t bits = rng_u32();
	float f;

	if (!rng_below(20))
		return special[rng_below(11)];
	memcpy(&f, &bits, sizeof(f));
	return rng_below(2) ? f : rng_float() * 20;
}

static void every_isa_gives_the_bits_of_the_portable_kernels(void **state)
{
	float *a, *b, *y, *ref;
	size_t n, i, live;
	unsigned int s;
	int round;

	rng_seed(__func__);
	for (round = 0; round < 400; round++) {
		n = random_length();
		live = 1 + rng_below(n);
		a = need(n * 4);
		b = need(n * 4);
		y = need(n * 4);
		ref = need(n * 4);
		for (i = 0; i < n; i++) {
			a[i] = round % 2 ? wild() : rng_float() * 10;
			b[i] = round % 2 ? wild() : rng_float() * 10;
		}
#define SAME(kernel, ...)                                               \
	do {                                                            \
		fw_kernels_generic.kernel(ref, __VA_ARGS__);            \
		for (s = 1; s < nr_sets; s++) {                         \
			sets[s]->kernel(y, __VA_ARGS__);                \
			assert_same(y, ref, n, sets[s]->name, #kernel); \
		}                                                       \
	} while (0)
		SAME(add, a, b, n);
		SAME(mul, a, b, n);
		SAME(exp, a, n);
		SAME(silu, a, n);
		SAME(gelu, a, n);
		SAME(rmsnorm, a, b, n, 1e-5f);
		SAME(softmax, a, live, n, 0.7f);
		free(a);
		free(b);
		free(y);
		free(ref);
	}
}

/* ---- float kernels against double ---------------------------------------------------------------------------------- */

static void exp_keeps_its_bound(void **state)
{
	double worst = 0, want, err;
	float x, y;
	int i;

	rng_seed(__func__);
	for (i = 0; i < 300000; i++) {
		x = rng_float() * 104;
		sets[nr_sets - 1]->exp(&y, &x, 1);
		want = exp((double)x);
		if (want > FLT_MAX) {
			assert_true(y >= FLT_MAX * (1 - EXP_REL));
			continue;
		}
		/* Below the normal numbers the bound is absolute. */
		err = fabs(y - want) / (want < FLT_MIN ? FLT_MIN : want);
		worst = err > worst ? err : worst;
	}
	print_message("exp: greatest relative error %.2f U\n", worst / U);
	assert_true(worst <= EXP_REL);
}

static void exp_has_the_limits_of_exp(void **state)
{
	float x[] = { 0, -0.0f, INFINITY, -INFINITY, NAN, 100, -200 }, y[7];

	sets[nr_sets - 1]->exp(y, x, 7);
	assert_true(y[0] == 1 && y[1] == 1);
	assert_true(y[2] == INFINITY && y[3] == 0);
	assert_true(isnan(y[4]));
	assert_true(y[5] == INFINITY && y[6] == 0);
}

static void activations_keep_their_bounds(void **state)
{
	double worst_silu = 0, worst_gelu = 0, want, u, err, tiny;
	float x, y;
	int i;

	rng_seed(__func__);
	for (i = 0; i < 100000; i++) {
		x = rng_float() * (i % 2 ? 3 : 60);
		/* Where exp(-x) leaves the floats, the result is 0. */
		tiny = fabs(x) * 0x1p-127;
		sets[nr_sets - 1]->silu(&y, &x, 1);
		want = x / (1 + exp(-(double)x));
		err = fmax(fabs(y - want) - tiny, 0) / (fabs(want) + FLT_MIN);
		worst_silu = err > worst_silu ? err : worst_silu;
		sets[nr_sets - 1]->gelu(&y, &x, 1);
		u = 0.7978845608028654 * (x + 0.044715 * (double)x * x * x);
		want = x / (1 + exp(-2 * u));
		/* The rounding of u is an error of exp that grows with u. */
		err = fmax(fabs(y - want) - tiny, 0) / (fabs(want) * (1 + fabs(u)) + FLT_MIN);
		worst_gelu = err > worst_gelu ? err : worst_gelu;
	}
	print_message("silu %.2f U, gelu %.2f U (1 + |u|)\n", worst_silu / U, worst_gelu / U);
	assert_true(worst_silu <= 7 * U);
	assert_true(worst_gelu <= 8 * U);
}

static void rmsnorm_keeps_its_bound(void **state)
{
	double worst = 0, sum, want, err, bound;
	float *x, *w, *y;
	size_t n, i;
	int round;

	rng_seed(__func__);
	for (round = 0; round < 300; round++) {
		n = round ? random_length() : 16384;
		x = random_floats(n, 30);
		w = random_floats(n, 2);
		y = need(n * 4);
		sets[nr_sets - 1]->rmsnorm(y, x, w, n, 1e-6f);
		for (i = 0, sum = 0; i < n; i++)
			sum += (double)x[i] * x[i];
		bound = (n / 128.0 + 12) * U;
		for (i = 0; i < n; i++) {
			want = x[i] / sqrt(sum / n + (double)1e-6f) * w[i];
			err = fabs(y[i] - want) / (fabs(want) + FLT_MIN) / bound;
			worst = err > worst ? err : worst;
		}
		free(x);
		free(w);
		free(y);
	}
	print_message("rmsnorm: %.2f of the bound\n", worst);
	assert_true(worst <= 1);
}

static void softmax_keeps_its_bound_and_clears_the_rest(void **state)
{
	double worst = 0, sum, want, err, max;
	size_t n, live, i;
	float *x, *y;
	int round;

	rng_seed(__func__);
	for (round = 0; round < 300; round++) {
		n = random_length();
		live = 1 + rng_below(n);
		x = random_floats(n, 10);
		y = need(n * 4);
		sets[nr_sets - 1]->softmax(y, x, live, n, 0.5f);
		for (i = 0, max = -INFINITY; i < live; i++)
			max = fmax(max, 0.5 * x[i]);
		for (i = 0, sum = 0; i < live; i++)
			sum += exp(0.5 * x[i] - max);
		for (i = 0; i < live; i++) {
			want = exp(0.5 * x[i] - max) / sum;
			/* x - max is rounded: an error of exp that grows with it. */
			err = fabs(y[i] - want) / (want * (n / 16.0 + 12 + fabs(0.5 * x[i] - max)) * U);
			worst = err > worst ? err : worst;
		}
		for (; i < n; i++)
			assert_true(y[i] == 0);
		free(x);
		free(y);
	}
	print_message("softmax: %.2f of the bound\n", worst);
	assert_true(worst <= 1);
}

static void rope_turns_pairs_by_the_angle(void **state)
{
	float scratch[VNPU_MAX_HEAD_DIM], inv_freq[64], *x, *y;
	uint32_t heads, dim, rot, mode, h, i, a, b;
	double c, s, worst = 0, err, norm;
	uint64_t pos;
	int round;

	rng_seed(__func__);
	for (round = 0; round < 500; round++) {
		heads = 1 + rng_below(4);
		dim = 2 + rng_below(126);
		rot = 2 * (1 + rng_below(dim / 2));
		mode = rng_below(2);
		pos = rng_below(2) ? rng_below(100) : rng_below(VNPU_MAX_DIM);
		for (i = 0; i < rot / 2; i++)
			inv_freq[i] = powf(10000, -2.0f * i / rot);
		x = random_floats(heads * dim, 1);
		y = need(heads * dim * 4);
		sets[nr_sets - 1]->rope(y, x, inv_freq, pos, heads, dim, rot, mode, scratch);
		for (h = 0; h < heads; h++) {
			for (i = 0; i < rot / 2; i++) {
				a = h * dim + (mode == VNPU_ROPE_ADJACENT ? 2 * i : i);
				b = h * dim + (mode == VNPU_ROPE_ADJACENT ? 2 * i + 1 : i + rot / 2);
				c = cos((double)pos * inv_freq[i]);
				s = sin((double)pos * inv_freq[i]);
				norm = hypot(x[a], x[b]) + FLT_MIN;
				err = fmax(fabs(y[a] - (x[a] * c - x[b] * s)), fabs(y[b] - (x[a] * s + x[b] * c))) /
				      norm;
				worst = err > worst ? err : worst;
			}
			for (i = rot; i < dim; i++)
				assert_true(y[h * dim + i] == x[h * dim + i]);
		}
		free(x);
		free(y);
	}
	print_message("rope: %.2f U of the pair's length\n", worst / U);
	assert_true(worst <= 4 * U);
}

static void attn_row(double *y, const struct fw_attn *t, unsigned int r)
{
	double *p = need(t->nr_keys[r] * sizeof(*p)), max = -INFINITY, sum = 0;
	uint64_t j;
	uint32_t d;

	for (j = 0; j < t->nr_keys[r]; j++) {
		for (d = 0, p[j] = 0; d < t->head_dim; d++)
			p[j] += (double)t->q[r][d] * t->k[j * t->ldk + d];
		p[j] *= t->scale;
		max = fmax(max, p[j]);
	}
	for (j = 0; j < t->nr_keys[r]; j++)
		sum += p[j] = exp(p[j] - max);
	for (d = 0; d < t->head_dim; d++)
		for (j = 0, y[d] = 0; j < t->nr_keys[r]; j++)
			y[d] += p[j] / sum * t->v[j * t->ldv + d];
	free(p);
}

static void attention_keeps_its_bound_on_every_isa(void **state)
{
	static const uint32_t dims[] = { 1, 8, 16, 17, 64, 80, 100, 128, 256, VNPU_MAX_HEAD_DIM };
	double want[VNPU_MAX_HEAD_DIM], worst = 0, err;
	float *k, *v, *y, *ref;
	struct fw_attn t;
	unsigned int r, s;
	uint32_t keys, d;
	int round;

	rng_seed(__func__);
	for (round = 0; round < 60; round++) {
		t = (struct fw_attn){ .nr_q = 1 + rng_below(4), .head_dim = dims[rng_below(10)] };
		keys = 1 + rng_below(200);
		t.ldk = t.head_dim + rng_below(5);
		t.ldv = t.head_dim + rng_below(5);
		t.scale = 1 / sqrtf(t.head_dim);
		t.k = k = random_floats((keys - 1) * t.ldk + t.head_dim, 2);
		t.v = v = random_floats((keys - 1) * t.ldv + t.head_dim, 1);
		y = need(4 * t.head_dim * 4);
		ref = need(4 * t.head_dim * 4);
		for (r = 0; r < t.nr_q; r++) {
			t.q[r] = random_floats(t.head_dim, 2);
			t.nr_keys[r] = 1 + rng_below(keys);
		}
		for (s = 0; s < nr_sets; s++) {
			for (r = 0; r < t.nr_q; r++)
				t.y[r] = (s ? y : ref) + r * t.head_dim;
			sets[s]->attn(&t);
			if (s)
				assert_same(y, ref, t.nr_q * t.head_dim, sets[s]->name, "attn");
		}
		for (r = 0; r < t.nr_q; r++) {
			attn_row(want, &t, r);
			for (d = 0; d < t.head_dim; d++) {
				err = fabs(ref[r * t.head_dim + d] - want[d]);
				worst = err > worst ? err : worst;
			}
			free((void *)t.q[r]);
		}
		free(k);
		free(v);
		free(y);
		free(ref);
	}
	/* Values are up to 1, scores up to 4 sqrt(head_dim). */
	print_message("attn: greatest error %.2f U for values up to 1\n", worst / U);
	assert_true(worst <= 256 * U);
}

/* A row of a batch, and the same row alone. */
static void attention_of_a_query_does_not_depend_on_its_neighbours(void **state)
{
	struct fw_attn t = { .nr_q = 4, .ldk = 64, .ldv = 64, .head_dim = 64, .scale = 0.125f };
	float *k, *v, *q, y[4 * 64], alone[64];
	unsigned int r;

	rng_seed(__func__);
	t.k = k = random_floats(300 * 64, 2);
	t.v = v = random_floats(300 * 64, 1);
	q = random_floats(4 * 64, 2);
	for (r = 0; r < 4; r++) {
		t.q[r] = q + r * 64;
		t.y[r] = y + r * 64;
		t.nr_keys[r] = 60 + 77 * r;
	}
	sets[nr_sets - 1]->attn(&t);
	for (r = 0; r < 4; r++) {
		struct fw_attn one = t;

		one.nr_q = 1;
		one.q[0] = t.q[r];
		one.y[0] = alone;
		one.nr_keys[0] = t.nr_keys[r];
		sets[nr_sets - 1]->attn(&one);
		assert_memory_equal(alone, y + r * 64, sizeof(alone));
	}
	free(k);
	free(v);
	free(q);
}

static void unknown_isa_is_refused(void **state)
{
	assert_null(fw_kernels_get((enum fw_isa)99));
	assert_null(fw_isa_name((enum fw_isa)99));
	assert_string_equal(fw_isa_name(FW_ISA_GENERIC), "generic");
	assert_non_null(fw_isa_name(FW_ISA_AUTO));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matmul_is_exact_on_every_isa),
		cmocka_unit_test(matmul_is_exact_where_16_bit_sums_would_saturate),
		cmocka_unit_test(matmul_takes_the_greatest_k),
		cmocka_unit_test(quant_rounds_to_nearest_even_on_every_isa),
		cmocka_unit_test(dequant_multiplies_once),
		cmocka_unit_test(every_isa_gives_the_bits_of_the_portable_kernels),
		cmocka_unit_test(exp_keeps_its_bound),
		cmocka_unit_test(exp_has_the_limits_of_exp),
		cmocka_unit_test(activations_keep_their_bounds),
		cmocka_unit_test(rmsnorm_keeps_its_bound),
		cmocka_unit_test(softmax_keeps_its_bound_and_clears_the_rest),
		cmocka_unit_test(rope_turns_pairs_by_the_angle),
		cmocka_unit_test(attention_keeps_its_bound_on_every_isa),
		cmocka_unit_test(attention_of_a_query_does_not_depend_on_its_neighbours),
		cmocka_unit_test(unknown_isa_is_refused),
	};

	find_sets();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
