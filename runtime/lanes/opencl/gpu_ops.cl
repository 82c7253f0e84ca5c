/* SPDX-License-Identifier: MIT */
/*
 * Operators on rows, with the semantics of the commands of the same names in uapi/npu/vnpu_isa.h,
 * and the kernel that writes a flag.
 */

/* The host sees the flag after the results of the operators that it waited for. */
__kernel void flag(memory word, ulong off, uint value)
{
	mem_fence(CLK_GLOBAL_MEM_FENCE);
	atomic_xchg((volatile __global uint *)(word + off), value);
}

/* For gpu_probe(): the result shows the host that the kernel has read its word. */
__kernel void probe(memory in, ulong in_off, memory out, ulong out_off)
{
	*U32(out, out_off) = ~*U32(in, in_off);
}

/* ---- over a row: ROW_ITEMS work-items take vectors in turn ----------------------------------- */

/* Reductions over all work-items' @v. */
static float group_sum(float v, __local float *t)
{
	float sum = 0;

	t[get_local_id(0)] = v;
	barrier(CLK_LOCAL_MEM_FENCE);
	for (uint i = 0; i < ROW_ITEMS; i++)
		sum += t[i];
	return sum;
}

static uint group_max(uint v, __local uint *t)
{
	uint most = 0;

	t[get_local_id(0)] = v;
	barrier(CLK_LOCAL_MEM_FENCE);
	for (uint i = 0; i < ROW_ITEMS; i++)
		most = max(most, t[i]);
	return most;
}

/* A work-group per head of a row. */
__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1))) void
rmsnorm(memory x, ulong x_off, memory w, ulong w_off, memory y, ulong y_off, ulong ldx, ulong ldy,
	uint dim, float eps)
{
	__global float *xs = F32(x, x_off) + get_group_id(1) * ldx + get_group_id(0) * dim,
		       *ws = F32(w, w_off);
	__global float *ys = F32(y, y_off) + get_group_id(1) * ldy + get_group_id(0) * dim;
	__local float t[ROW_ITEMS];
	uint item = get_local_id(0), whole = dim / V * V, i;
	vf squares = 0;
	float sum, inv;

	for (i = item * V; i < whole; i += ROW_ITEMS * V) {
		vf v = LOAD(0, xs + i);
		squares = MAC(v, v, squares);
	}
	sum = sum_of(squares);
	for (i = whole + item; i < dim; i += ROW_ITEMS)
		sum = MAC(xs[i], xs[i], sum);
	inv = 1.0f / sqrt(group_sum(sum, t) / (float)dim + eps);
	for (i = item * V; i < whole; i += ROW_ITEMS * V)
		STORE(LOAD(0, xs + i) * inv * LOAD(0, ws + i), 0, ys + i);
	for (i = whole + item; i < dim; i += ROW_ITEMS)
		ys[i] = xs[i] * inv * ws[i];
}

#define QUANT_V(i)                                                                      \
	(plane ? fma(-TO_FLOATS(LOAD(0, before + (i))), (vf)(taken), LOAD(0, xs + (i))) \
	       : LOAD(0, xs + (i)))
#define QUANT_1(i) (plane ? fma(-(float)before[i], taken, xs[i]) : xs[i])

/* Magnitudes are compared as bits, which have the same order; infinities and NaNs are last. */
__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1))) void
quant(memory x, ulong x_off, memory q, ulong q_off, memory scale, ulong scale_off, ulong ldx,
      ulong ldq, uint cols, uint rows, uint plane)
{
	__global float *xs = F32(x, x_off) + get_group_id(0) * ldx;
	__global char *qs = S8(q, q_off) + (get_group_id(0) + plane * rows) * ldq;
	/* The first plane; the second one is made of the difference to it. */
	__global char *before = S8(q, q_off) + get_group_id(0) * ldq;
	float taken = F32(scale, scale_off)[get_group_id(0)];
	__local uint t[ROW_ITEMS];
	uint item = get_local_id(0), whole = cols / V * V, greatest = 0, i;
	vu most = 0;
	float s;

	for (i = item * V; i < whole; i += ROW_ITEMS * V)
		most = max(most, CAT(as_uint, V)(QUANT_V(i)) & 0x7fffffffu);
	for (i = 0; i < V; i++)
		greatest = max(greatest, ((uint *)&most)[i]);
	for (i = whole + item; i < cols; i += ROW_ITEMS)
		greatest = max(greatest, as_uint(QUANT_1(i)) & 0x7fffffffu);
	greatest = group_max(greatest, t);
	s = greatest >= 0x7f800000u ? NAN : as_float(greatest) / 127.0f;
	if (item == 0)
		F32(scale, scale_off)[get_group_id(0) + plane * rows] = s;
	if (!(s > 0)) {
		for (i = item; i < (cols + 3) / 4 * 4; i += ROW_ITEMS)
			qs[i] = 0;
		return;
	}
	for (i = item * V; i < whole; i += ROW_ITEMS * V)
		STORE(CAT(convert_char, V)(clamp(rint(QUANT_V(i) / s), -127.0f, 127.0f)), 0,
		      qs + i);
	for (i = whole + item; i < cols; i += ROW_ITEMS)
		qs[i] = convert_char(clamp(rint(QUANT_1(i) / s), -127.0f, 127.0f));
	for (i = cols + item; i < (cols + 3) / 4 * 4; i += ROW_ITEMS)
		qs[i] = 0;
}

/* ---- element-wise: a work-item has V columns of a row ---------------------------------------- */

static vf silu(vf x)
{
	return x / (1.0f + exp(-x));
}

/* 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3) */
static vf gelu(vf x)
{
	return x / (1.0f + exp(x * (x * x * -0.0713548163f - 1.59576912f)));
}

/* Loads the first @n lanes from @p; the others are 0. */
static vf load_part(__global float *p, uint n)
{
	float t[V];

	for (uint i = 0; i < V; i++)
		t[i] = i < n ? p[i] : 0;
	return LOAD(0, t);
}

static void store_part(vf v, __global float *p, uint n)
{
	float t[V];

	STORE(v, 0, t);
	for (uint i = 0; i < n; i++)
		p[i] = t[i];
}

#define BINARY(name, expr)                                                                      \
	__kernel void name(memory a, ulong a_off, memory b, ulong b_off, memory y, ulong y_off, \
			   ulong lda, ulong ldb, ulong ldy, uint cols)                          \
	{                                                                                       \
		uint c = get_global_id(0) * V, r = get_global_id(1);                            \
		__global float *as = F32(a, a_off) + r * lda + c,                               \
			       *bs = F32(b, b_off) + r * ldb + c;                               \
		__global float *ys = F32(y, y_off) + r * ldy + c;                               \
		vf av, bv;                                                                      \
		if (c + V <= cols) {                                                            \
			av = LOAD(0, as);                                                       \
			bv = LOAD(0, bs);                                                       \
			STORE(expr, 0, ys);                                                     \
		} else if (c < cols) {                                                          \
			av = load_part(as, cols - c);                                           \
			bv = load_part(bs, cols - c);                                           \
			store_part(expr, ys, cols - c);                                         \
		}                                                                               \
	}

BINARY(add, av + bv)
BINARY(glu_silu, silu(av) * bv)
BINARY(glu_gelu, gelu(av) * bv)

/*
 * A work-item rotates a pair in all heads. The angle pos freq needs more digits than a float has,
 * so it is the sum of high, the rounded product, and low, the rest. (firmware-sim computes it in
 * double, which few GPUs support.)
 */
__kernel void rope(memory x, ulong x_off, memory freq, ulong freq_off, memory y, ulong y_off,
		   ulong ldx, ulong ldy, uint heads, uint dim, uint rot_dim, uint pos,
		   uint adjacent)
{
#pragma OPENCL FP_CONTRACT OFF
	uint half_dim = rot_dim / 2, i = get_global_id(0), r = get_global_id(1), first, second;
	float p, f, high, low, s, c, sine, cosine, low_sine, low_cosine;

	if (i >= half_dim) {
		/* Copies the elements after the rotated ones. */
		for (uint h = 0, e = rot_dim + i - half_dim; e < dim && h < heads; h++)
			F32(y, y_off)[r * ldy + h * dim + e] = F32(x, x_off)[r * ldx + h * dim + e];
		return;
	}
	p = (float)(pos + r);
	f = F32(freq, freq_off)[i];
	high = p * f;
	low = fma(p, f, -high);
	sine = sincos(high, &cosine);
	low_sine = sincos(low, &low_cosine);
	s = sine * low_cosine + cosine * low_sine;
	c = cosine * low_cosine - sine * low_sine;
	first = adjacent ? 2 * i : i;
	second = adjacent ? 2 * i + 1 : i + half_dim;
	for (uint h = 0; h < heads; h++) {
		__global float *xs = F32(x, x_off) + r * ldx + h * dim,
			       *ys = F32(y, y_off) + r * ldy + h * dim;
		float a = xs[first], b = xs[second];

		ys[first] = a * c - b * s;
		ys[second] = a * s + b * c;
	}
}

/* ---- storing to the cache -------------------------------------------------------------------- */

/* A work-item per element, or per block of 32; ld in bytes. */
__kernel void store_f32(memory x, ulong x_off, memory dst, ulong dst_off, ulong ldx, ulong ld_bytes,
			uint cols)
{
	uint c = get_global_id(0), r = get_global_id(1);

	if (c < cols)
		F32(dst, dst_off + r * ld_bytes)[c] = F32(x, x_off)[r * ldx + c];
}

__kernel void store_f16(memory x, ulong x_off, memory dst, ulong dst_off, ulong ldx, ulong ld_bytes,
			uint cols)
{
	uint c = get_global_id(0), r = get_global_id(1);

	if (c < cols)
		vstore_half_rte(F32(x, x_off)[r * ldx + c], c, HALF(dst, dst_off + r * ld_bytes));
}

__kernel void store_q8_0(memory x, ulong x_off, memory dst, ulong dst_off, ulong ldx,
			 ulong ld_bytes, uint cols)
{
	uint b = get_global_id(0), r = get_global_id(1), greatest = 0;
	__global float *xs = F32(x, x_off) + r * ldx + b * 32;
	memory block = dst + dst_off + r * ld_bytes + b * 34;
	float s;

	if (b >= cols / 32)
		return;
	for (uint i = 0; i < 32; i++)
		greatest = max(greatest, as_uint(xs[i]) & 0x7fffffffu);
	vstore_half_rte(as_float(greatest) / 127.0f, 0, (__global half *)block);
	s = vload_half(0, (__global half *)block);
	if (!isfinite(s)) {
		*(__global ushort *)block = 0x7e00;
		s = 0;
	}
	for (uint i = 0; i < 32; i++)
		((__global char *)block)[2 + i] =
			s > 0 ? convert_char(clamp(rint(xs[i] / s), -127.0f, 127.0f)) : 0;
}
