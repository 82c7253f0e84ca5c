// SPDX-License-Identifier: MIT
/*
 * Kernels: every instruction set of this host gives the bits of the portable kernels, and those
 * keep docs/isa.md's bounds compared with double precision. Buffers end where their operands end,
 * so that ASan sees overruns.
 */
#include "fw_sets.h"

#define EXP_REL (4 * U)

/* ---- quantiser ------------------------------------------------------------------------------- */

static void quant_row(float *x, size_t n)
{
	/* At 2.6e-43 the scale rounds down by a third, so the clamp is needed. */
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

/* At and next to each boundary between two integers, for scales of any mantissa: a quotient with a
 * wrong last bit would show here. */
static void quant_divides_as_a_division_rounds(void **state)
{
	float x[128], scale, edge;
	int8_t q[128], ref[128];
	unsigned int s, i;
	int round;

	rng_seed(__func__);
	for (round = 0; round < 20000; round++) {
		x[0] = 127 *
		       ldexpf(1 + (float)(rng_u32() >> 9) * 0x1p-23f, (int)rng_below(60) - 30);
		for (i = 1; i < 128; i++) {
			edge = x[0] / 127.0f * ((float)rng_below(127) + 0.5f);
			x[i] = rng_below(2) ? edge : nextafterf(edge, rng_below(2) ? 0 : INFINITY);
			x[i] = rng_below(2) ? x[i] : -x[i];
		}
		quant_reference(ref, &scale, x, 128);
		for (s = 0; s < nr_sets; s++) {
			sets[s]->quant(q, &scale, x, 128);
			assert_memory_equal(q, ref, 128);
		}
	}
}

/* A scale within and beyond divide_v()'s range, or one that no row may be divided by. */
static float static_scale(void)
{
	static const float bad[] = { 0, -0.0f, -1, NAN, INFINITY, -INFINITY };

	if (!rng_below(6))
		return bad[rng_below(6)];
	if (!rng_below(8))
		return rng_below(2) ? FLT_MAX : 0x1p-149f;
	return ldexpf(1 + (float)(rng_u32() >> 9) * 0x1p-23f, (int)rng_below(250) - 126);
}

/* Values around the scale's range, some next to a boundary, some as far beyond as floats go. */
static void static_row(float *x, size_t n, float s)
{
	size_t i;

	for (i = 0; i < n; i++) {
		x[i] = s * ((float)rng_below(260) - 130 + (float)rng_below(3) * 0.5f);
		if (!rng_below(4))
			x[i] = nextafterf(x[i], rng_below(2) ? 0 : INFINITY);
		if (!rng_below(16))
			x[i] = rng_below(2) ? FLT_MAX : -FLT_MAX;
		if (!isfinite(x[i]) || !rng_below(16))
			x[i] = rng_float();
	}
	if (!rng_below(8))
		x[rng_below(n)] = rng_below(2) ? NAN : -INFINITY;
}

/* As vnpu_isa.h defines QUANT_STATIC. */
static void static_reference(int8_t *q, float *scale, const float *x, size_t n, float s)
{
	bool bad = !(s > 0) || isinf(s);
	float r;
	size_t i;

	for (i = 0; i < n; i++)
		bad |= !isfinite(x[i]);
	*scale = bad ? NAN : s;
	for (i = 0; i < (n + 3) / 4 * 4; i++) {
		r = bad || i >= n ? 0 : nearbyintf(x[i] / s);
		q[i] = r > 127 ? 127 : r < -127 ? -127 : r;
	}
}

static void a_static_scale_divides_and_clamps_on_every_isa(void **state)
{
	unsigned int s, clamped = 0, nans = 0;
	float scale, ref_scale, given, *x;
	size_t n, n4, i;
	int8_t *q, *ref;
	int round;

	rng_seed(__func__);
	for (round = 0; round < 3000; round++) {
		n = random_length();
		n4 = (n + 3) / 4 * 4;
		x = need(n * sizeof(*x));
		q = need(n4);
		ref = need(n4);
		given = static_scale();
		static_row(x, n, given);
		static_reference(ref, &ref_scale, x, n, given);
		nans += isnan(ref_scale);
		for (i = 0; i < n; i++)
			clamped += fabsf(x[i]) > 128 * given;
		for (s = 0; s < nr_sets; s++) {
			memset(q, 0x55, n4);
			sets[s]->quant_static(q, &scale, x, n, given);
			assert_same(&scale, &ref_scale, 1, sets[s]->name, "scale");
			assert_memory_equal(q, ref, n4);
		}
		free(x);
		free(q);
		free(ref);
	}
	assert_true(clamped > 10000 && nans > 500 && nans < 1500);
}

/* QUANT's own scale gives QUANT's bytes. */
static void a_static_scale_gives_the_bytes_of_quant(void **state)
{
	int8_t q[300], ref[300];
	float x[300], scale, got;
	unsigned int s, round;
	size_t n;

	rng_seed(__func__);
	for (round = 0; round < 2000; round++) {
		n = 1 + rng_below(300);
		s = rng_below(nr_sets);
		quant_row(x, n);
		sets[s]->quant(ref, &scale, x, n);
		sets[s]->quant_static(q, &got, x, n, scale);
		assert_memory_equal(q, ref, (n + 3) / 4 * 4);
		assert_true(got == scale || (isnan(got) && !(scale > 0)));
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

static void the_remainder_is_rounded_once(void **state)
{
	float x[77], y[77], scale;
	unsigned int s, round, i;
	size_t n;
	int8_t q[80];

	rng_seed(__func__);
	for (round = 0; round < 500; round++) {
		n = 1 + rng_below(77);
		quant_row(x, n);
		quant_reference(q, &scale, x, n);
		for (s = 0; s < nr_sets; s++) {
			sets[s]->rest(y, x, q, scale, n);
			for (i = 0; i < n; i++)
				assert_true(y[i] == fmaf(-(float)q[i], scale, x[i]) ||
					    isnan(scale));
		}
	}
}

/* ---- float kernels: one result on every instruction set -------------------------------------- */

static void every_isa_gives_the_bits_of_the_portable_kernels(void **state)
{
	float *a, *b, *y, *ref;
	uint32_t kind;
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
		for (kind = 0; kind <= VNPU_ACT_CAP; kind++)
			SAME(act, a, n, kind, 30);
		for (kind = 0; kind <= VNPU_ACT_RELU_SQUARED; kind++)
			SAME(glu, a, b, n, kind);
		SAME(rmsnorm, a, b, n, 1e-5f);
		SAME(layernorm, a, b, NULL, n, 1e-5f);
		SAME(layernorm, a, b, a, n, 1e-5f);
		SAME(softmax, a, live, n, 0.7f);
		free(a);
		free(b);
		free(y);
		free(ref);
	}
}

static void a_gate_has_the_bits_of_activation_and_multiplication(void **state)
{
	float *a, *b, *y, *ref;
	unsigned int s;
	uint32_t kind;
	size_t n, i;
	int round;

	rng_seed(__func__);
	for (round = 0; round < 100; round++) {
		n = random_length();
		s = rng_below(nr_sets);
		a = need(n * 4);
		b = need(n * 4);
		y = need(n * 4);
		ref = need(n * 4);
		for (i = 0; i < n; i++) {
			a[i] = wild();
			b[i] = wild();
		}
		kind = round % (VNPU_ACT_RELU_SQUARED + 1);
		sets[s]->act(ref, a, n, kind, 0);
		sets[s]->mul(ref, ref, b, n);
		sets[s]->glu(y, a, b, n, kind);
		assert_same(y, ref, n, sets[s]->name, "glu");
		sets[s]->glu(a, a, b, n, kind);
		assert_same(a, ref, n, sets[s]->name, "glu in place");
		free(a);
		free(b);
		free(y);
		free(ref);
	}
}

/* ---- float kernels against double ------------------------------------------------------------ */

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
		/* For subnormal numbers the bound is absolute. */
		err = fabs(y - want) / (want < FLT_MIN ? FLT_MIN : want);
		worst = err > worst ? err : worst;
	}
	print_message("exp: greatest relative error %.2f U\n", worst / U);
	assert_true(worst <= EXP_REL);
}

static void exp_has_the_right_limits(void **state)
{
	float x[] = { 0, -0.0f, INFINITY, -INFINITY, NAN, 100, -200 }, y[7];

	sets[nr_sets - 1]->exp(y, x, 7);
	assert_true(y[0] == 1 && y[1] == 1);
	assert_true(y[2] == INFINITY && y[3] == 0);
	assert_true(isnan(y[4]));
	assert_true(y[5] == INFINITY && y[6] == 0);
}

/* The activation of @x, and by how many units of the result rounding its exponent is off. */
static double act_want(uint32_t kind, double x, double *grows)
{
	double u = x;

	*grows = 0;
	switch (kind) {
	case VNPU_ACT_GELU:
		u = 2 * 0.7978845608028654 * (x + 0.044715 * x * x * x);
		*grows = fabs(u) / 2;
		return x / (1 + exp(-u));
	case VNPU_ACT_GELU_QUICK:
		*grows = fabs(1.702 * x);
		return x / (1 + exp(-1.702 * x));
	case VNPU_ACT_GELU_ERF:
		*grows = x < 0 ? x * x / 2 : 0;
		return 0.5 * x * erfc(-x * M_SQRT1_2);
	case VNPU_ACT_SILU:
		return x / (1 + exp(-x));
	case VNPU_ACT_CAP:
		return 30 * tanh(x / 30);
	default:
		u = fmax(x, 0);
		return kind == VNPU_ACT_RELU ? u : u * u;
	}
}

static void activations_keep_their_bounds(void **state)
{
	static const double bounds[] = {
		[VNPU_ACT_SILU] = 7,	   [VNPU_ACT_GELU] = 8, [VNPU_ACT_GELU_ERF] = 8,
		[VNPU_ACT_GELU_QUICK] = 8, [VNPU_ACT_RELU] = 0, [VNPU_ACT_RELU_SQUARED] = 1,
		[VNPU_ACT_CAP] = 8,
	};
	double want, grows, err, worst;
	float x, y;
	int i;

	rng_seed(__func__);
	for (uint32_t kind = 0; kind <= VNPU_ACT_CAP; kind++) {
		for (i = 0, worst = 0; i < 50000; i++) {
			x = rng_float() * (i % 2 ? 3 : i % 4 ? 60 : 0.3f);
			sets[nr_sets - 1]->act(&y, &x, 1, kind, 30);
			want = act_want(kind, x, &grows);
			/* If an exponential leaves the normal floats, the result may be 0. */
			err = fmax(fabs(y - want) - fabs(x) * 0x1p-125, 0);
			err /= fabs(want) * (1 + grows) + FLT_MIN;
			worst = err > worst ? err : worst;
		}
		print_message("activation %u: %.2f U, and as much again per rounding of its "
			      "exponent\n",
			      kind, worst / U);
		assert_true(worst <= bounds[kind] * U);
	}
}

static void activations_have_the_right_limits(void **state)
{
	const float x[] = { INFINITY, NAN, 0, -200, 3e38f, -3e38f };
	float y[6];

	for (uint32_t kind = 0; kind <= VNPU_ACT_CAP; kind++) {
		sets[nr_sets - 1]->act(y, x, 6, kind, 30);
		assert_true(y[0] == (kind == VNPU_ACT_CAP ? 30 : INFINITY));
		assert_true(isnan(y[1]) && y[2] == 0);
		assert_true(kind == VNPU_ACT_CAP ? fabsf(y[3] + 30) < 0.001f : y[3] == 0);
		assert_true(y[4] >= (kind == VNPU_ACT_CAP ? 30 : 3e38f));
		assert_true(kind == VNPU_ACT_CAP ? y[5] == -30 : y[5] == 0 || isnan(y[5]));
	}
}

static void layernorm_keeps_its_bound(void **state)
{
	double worst = 0, mean, sum, size, want, err, inv, offset;
	float *x, *w, *b, *y;
	size_t n, i;

	rng_seed(__func__);
	for (int round = 0; round < 300; round++) {
		n = round ? random_length() : 16384;
		x = random_floats(n, 30);
		w = random_floats(n, 2);
		b = random_floats(n, 2);
		y = need(n * 4);
		for (i = 0, offset = rng_float() * 300; i < n && round % 2; i++)
			x[i] += (float)offset;
		sets[nr_sets - 1]->layernorm(y, x, w, round % 3 ? b : NULL, n, 1e-6f);
		for (i = 0, mean = size = 0; i < n; i++) {
			mean += x[i] / (double)n;
			size += fabs((double)x[i]) / (double)n;
		}
		for (i = 0, sum = 0; i < n; i++)
			sum += (x[i] - mean) * (x[i] - mean);
		inv = 1 / sqrt(sum / n + (double)1e-6f);
		for (i = 0; i < n; i++) {
			want = (x[i] - mean) * inv * w[i] + (round % 3 ? b[i] : 0);
			err = fabs(y[i] - want) /
			      ((n / 64.0 + 12) * U *
			       ((fabs((double)x[i]) + size) * inv * fabs((double)w[i]) +
				(round % 3 ? fabs((double)b[i]) : 0) + FLT_MIN));
			/* One value alone has no distances but those of rounding. */
			worst = n > 1 && err > worst ? err : worst;
		}
		free(x);
		free(w);
		free(b);
		free(y);
	}
	print_message("layernorm: %.2f of the bound\n", worst);
	assert_true(worst <= 1);
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

static void softmax_keeps_its_bound_and_clears_the_other_columns(void **state)
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
			/* Rounding x - max causes an error of exp that grows with it. */
			err = fabs(y[i] - want) /
			      (want * (n / 16.0 + 12 + fabs(0.5 * x[i] - max)) * U);
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

static void rope_rotates_pairs_by_the_angle(void **state)
{
	float *scratch = need(FW_SCRATCH_BYTES), inv_freq[64], *x, *y;
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
				b = h * dim +
				    (mode == VNPU_ROPE_ADJACENT ? 2 * i + 1 : i + rot / 2);
				c = cos((double)pos * inv_freq[i]);
				s = sin((double)pos * inv_freq[i]);
				norm = hypot(x[a], x[b]) + FLT_MIN;
				err = fmax(fabs(y[a] - (x[a] * c - x[b] * s)),
					   fabs(y[b] - (x[a] * s + x[b] * c))) /
				      norm;
				worst = err > worst ? err : worst;
			}
			for (i = rot; i < dim; i++)
				assert_true(y[h * dim + i] == x[h * dim + i]);
		}
		free(x);
		free(y);
	}
	free(scratch);
	print_message("rope: %.2f U of the pair's length\n", worst / U);
	assert_true(worst <= 4 * U);
}

/* In any shape, in place, and for NaN and infinite angles. */
static void rope_has_the_same_bits_on_every_isa(void **state)
{
	float *scratch = need(FW_SCRATCH_BYTES), inv_freq[512], *x, *y, *ref;
	uint32_t heads, dim, rot, mode, i;
	unsigned int s;
	uint64_t pos;
	int round;

	rng_seed(__func__);
	for (round = 0; round < 500; round++) {
		heads = 1 + rng_below(4);
		dim = round ? 2 + rng_below(300) : VNPU_MAX_HEAD_DIM;
		rot = 2 * (1 + rng_below(dim / 2));
		mode = rng_below(2);
		pos = rng_below(2) ? rng_below(100) : rng_below(VNPU_MAX_DIM);
		for (i = 0; i < rot / 2; i++)
			inv_freq[i] = rng_below(20) ? powf(10000, -2.0f * i / rot) : wild();
		x = random_floats(heads * dim, 1);
		y = need(heads * dim * 4);
		ref = need(heads * dim * 4);
		fw_kernels_generic.rope(ref, x, inv_freq, pos, heads, dim, rot, mode, scratch);
		for (s = 1; s < nr_sets; s++) {
			sets[s]->rope(y, x, inv_freq, pos, heads, dim, rot, mode, scratch);
			assert_same(y, ref, heads * dim, sets[s]->name, "rope");
		}
		s = rng_below(nr_sets);
		sets[s]->rope(x, x, inv_freq, pos, heads, dim, rot, mode, scratch);
		assert_same(x, ref, heads * dim, sets[s]->name, "rope in place");
		free(x);
		free(y);
		free(ref);
	}
	free(scratch);
}

static void unknown_isa_is_refused(void **state)
{
	assert_null(fw_kernels_get((enum fw_isa)99));
	assert_null(fw_isa_name((enum fw_isa)99));
	assert_string_equal(fw_isa_name(FW_ISA_GENERIC), "generic");
	assert_non_null(fw_isa_name(FW_ISA_AUTO));
	assert_int_equal(fw_isa_find("avx512"), FW_ISA_AUTO);
}

static void every_set_is_found_by_its_name(void **state)
{
	for (int isa = FW_ISA_GENERIC; isa <= FW_ISA_NEON_I8MM; isa++)
		if (fw_isa_name(isa))
			assert_int_equal(fw_isa_find(fw_isa_name(isa)), isa);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quant_rounds_to_nearest_even_on_every_isa),
		cmocka_unit_test(quant_divides_as_a_division_rounds),
		cmocka_unit_test(a_static_scale_divides_and_clamps_on_every_isa),
		cmocka_unit_test(a_static_scale_gives_the_bytes_of_quant),
		cmocka_unit_test(dequant_multiplies_once),
		cmocka_unit_test(the_remainder_is_rounded_once),
		cmocka_unit_test(every_isa_gives_the_bits_of_the_portable_kernels),
		cmocka_unit_test(a_gate_has_the_bits_of_activation_and_multiplication),
		cmocka_unit_test(exp_keeps_its_bound),
		cmocka_unit_test(exp_has_the_right_limits),
		cmocka_unit_test(activations_keep_their_bounds),
		cmocka_unit_test(activations_have_the_right_limits),
		cmocka_unit_test(layernorm_keeps_its_bound),
		cmocka_unit_test(rmsnorm_keeps_its_bound),
		cmocka_unit_test(softmax_keeps_its_bound_and_clears_the_other_columns),
		cmocka_unit_test(rope_rotates_pairs_by_the_angle),
		cmocka_unit_test(rope_has_the_same_bits_on_every_isa),
		cmocka_unit_test(unknown_isa_is_refused),
		cmocka_unit_test(every_set_is_found_by_its_name),
	};

	find_sets();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
