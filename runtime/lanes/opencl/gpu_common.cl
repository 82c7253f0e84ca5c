/* SPDX-License-Identifier: MIT */
/*
 * Shared by the GPU lane's kernels. The host defines these macros (struct gpu_shape in
 * runtime/lanes/opencl/gpu_private.h):
 *
 *	V		floats per vector: columns, or elements along k
 *	NV		vectors of channels per work-item of a GEMV: independent sums, which hide
 *			the latency of an addition
 *	SPLIT		work-items that divide k in a GEMV, so that few channels fill a GPU;
 *			1 keeps the order of k
 *	R, GEMM_NV	rows and vectors of channels per work-item of a GEMM
 *	GROUP_X		work-items with neighbouring channels per group; 1 on a CPU, where a
 *			work-item is a thread's loop
 *	GEMM_Y		work-items with consecutive blocks of rows per group of a GEMM
 *	TILE		rows and channels per work-item for weights that are not in panels
 *	ROW_ITEMS	work-items that share a row of a norm or a quantisation
 *	QUERIES		queries per group of attention
 *	KEYS		keys per tile of attention, a multiple of V
 *	ATTN_ITEMS	work-items per group of attention
 *
 * An operand is a buffer and a byte offset. Buffers are untyped: kernels read and write them as the
 * types that they hold.
 */
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define CAT3(a, b, c) CAT(CAT(a, b), c)

typedef CAT(float, V) vf;
typedef CAT(int, V) vi;
typedef CAT(uint, V) vu;

#define LOAD CAT(vload, V)
#define STORE CAT(vstore, V)
#define LOAD_HALF CAT(vload_half, V)
#define TO_FLOATS CAT(convert_float, V)
#define TO_INTS CAT(convert_int, V)

/* Typed pointers to a byte of a buffer. */
#define F32(base, off) ((__global float *)((base) + (off)))
#define S8(base, off) ((__global char *)((base) + (off)))
#define U32(base, off) ((__global uint *)((base) + (off)))
#define HALF(base, off) ((__global half *)((base) + (off)))

typedef __global uchar *memory;

/* a b + c, fused if the device has an instruction for it. */
#ifdef FP_FAST_FMAF
#define MAC(a, b, c) fma(a, b, c)
#else
#define MAC(a, b, c) ((a) * (b) + (c))
#endif

static float sum_of(vf v)
{
#if V == 16
	float8 a = v.lo + v.hi;
	float4 b = a.lo + a.hi;
#elif V == 8
	float4 b = v.lo + v.hi;
#else
	float4 b = v;
#endif
	float2 c = b.lo + b.hi;

	return c.x + c.y;
}

static float max_of(vf v)
{
#if V == 16
	float8 a = fmax(v.lo, v.hi);
	float4 b = fmax(a.lo, a.hi);
#elif V == 8
	float4 b = fmax(v.lo, v.hi);
#else
	float4 b = v;
#endif

	return fmax(fmax(b.x, b.y), fmax(b.z, b.w));
}
