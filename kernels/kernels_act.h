/* SPDX-License-Identifier: MIT */
/*
 * Activations: ACT and GLU. Part of kernels_float.h, which includes it.
 */

INLINE vf silu_v(vf x)
{
	return x / (1.0f + exp_v(-x));
}

/* 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3) */
INLINE vf gelu_v(vf x)
{
	return x / (1.0f + exp_v(x * (x * x * -0.0713548163f - 1.59576912f)));
}

/*
 * x times the normal distribution's share below x. With a = |x|, the share below -a is exp(-a^2 /
 * 2) t R(t), t = 1 / (1 + 0.35 a); R is the polynomial of degree 8 that interpolates it in
 * Chebyshev's nodes for a up to 14.5, where it underflows. The error of R is below 2^-24.
 */
INLINE vf gelu_erf_v(vf x)
{
	vf a = (vf)((vi)x & 0x7fffffff), t = 1.0f / (a * 0.35f + 1.0f), r;

	r = fma_v(t, splat(-0.0289759245f), splat(0.143234464f));
	r = fma_v(r, t, splat(-0.254387492f));
	r = fma_v(r, t, splat(0.157892765f));
	r = fma_v(r, t, splat(-0.0223930682f));
	r = fma_v(r, t, splat(0.105274726f));
	r = fma_v(r, t, splat(0.119874719f));
	r = fma_v(r, t, splat(0.1398583f));
	r = fma_v(r, t, splat(0.139621498f));
	r = r * t * exp_v(a * a * -0.5f);
	return x * choose(x < 0, r, 1.0f - r);
}

INLINE vf gelu_quick_v(vf x)
{
	return x / (1.0f + exp_v(x * -1.702f));
}

/* A NaN stays one. */
INLINE vf relu_v(vf x)
{
	return greater(splat(0), x);
}

INLINE vf relu_squared_v(vf x)
{
	return relu_v(x) * relu_v(x);
}

/*
 * Taylor's polynomial of degree 11 up to 0.35, where the rest is below 2^-25; beyond it tanh(a) = 1
 * - 2 / (exp(2 a) + 1), a = |x|.
 */
INLINE vf tanh_v(vf x)
{
	vi sign = (vi)x & INT32_MIN;
	vf a = (vf)((vi)x & 0x7fffffff), a2 = a * a, p, far = 1.0f - 2.0f / (exp_v(a + a) + 1.0f);

	p = fma_v(a2, splat(-1382.0f / 155925), splat(62.0f / 2835));
	p = fma_v(p, a2, splat(-17.0f / 315));
	p = fma_v(p, a2, splat(2.0f / 15));
	p = fma_v(p, a2, splat(-1.0f / 3));
	p = fma_v(p * a2, a, a);
	return (vf)((vi)choose(a < 0.35f, p, far) | sign);
}

INLINE vf cap_v(vf x, vf cap)
{
	return cap * tanh_v(x / cap);
}

ELEMENTWISE1(silu, silu_v(x))
ELEMENTWISE1(gelu, gelu_v(x))
ELEMENTWISE1(gelu_erf, gelu_erf_v(x))
ELEMENTWISE1(gelu_quick, gelu_quick_v(x))
ELEMENTWISE1(relu, relu_v(x))
ELEMENTWISE1(relu_squared, relu_squared_v(x))

static void kernel_cap(float *y, const float *x, size_t n, float cap)
{
	size_t i;

	for (i = 0; i + LANES <= n; i += LANES)
		store(y + i, cap_v(load(x + i), splat(cap)));
	if (i < n)
		store_part(y + i, cap_v(load_part(x + i, n - i), splat(cap)), n - i);
}

static void kernel_act(float *y, const float *x, size_t n, uint32_t kind, float cap)
{
	static void (*const kernels[])(float *y, const float *x, size_t n) = {
		[VNPU_ACT_SILU] = kernel_silu,
		[VNPU_ACT_GELU] = kernel_gelu,
		[VNPU_ACT_GELU_ERF] = kernel_gelu_erf,
		[VNPU_ACT_GELU_QUICK] = kernel_gelu_quick,
		[VNPU_ACT_RELU] = kernel_relu,
		[VNPU_ACT_RELU_SQUARED] = kernel_relu_squared,
	};

	if (kind == VNPU_ACT_CAP)
		kernel_cap(y, x, n, cap);
	else
		kernels[kind](y, x, n);
}

#define ELEMENTWISE_GLU(name, f)                                                                \
	static void name(float *y, const float *a, const float *b, size_t n)                    \
	{                                                                                       \
		size_t i;                                                                       \
		for (i = 0; i + LANES <= n; i += LANES)                                         \
			store(y + i, f(load(a + i)) * load(b + i));                             \
		if (i < n)                                                                      \
			store_part(y + i, f(load_part(a + i, n - i)) * load_part(b + i, n - i), \
				   n - i);                                                      \
	}

ELEMENTWISE_GLU(glu_silu, silu_v)
ELEMENTWISE_GLU(glu_gelu, gelu_v)
ELEMENTWISE_GLU(glu_gelu_erf, gelu_erf_v)
ELEMENTWISE_GLU(glu_gelu_quick, gelu_quick_v)
ELEMENTWISE_GLU(glu_relu, relu_v)
ELEMENTWISE_GLU(glu_relu_squared, relu_squared_v)

static void kernel_glu(float *y, const float *a, const float *b, size_t n, uint32_t kind)
{
	static void (*const kernels[])(float *y, const float *a, const float *b, size_t n) = {
		[VNPU_ACT_SILU] = glu_silu,	    [VNPU_ACT_GELU] = glu_gelu,
		[VNPU_ACT_GELU_ERF] = glu_gelu_erf, [VNPU_ACT_GELU_QUICK] = glu_gelu_quick,
		[VNPU_ACT_RELU] = glu_relu,	    [VNPU_ACT_RELU_SQUARED] = glu_relu_squared,
	};

	kernels[kind](y, a, b, n);
}
