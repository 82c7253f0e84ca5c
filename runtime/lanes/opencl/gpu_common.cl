/* SPDX-License-Identifier: MIT */
/*
 * What the GPU lane's kernels share. The host gives, as macros (struct gpu_shape in
 * runtime/lanes/opencl/gpu_private.h):
 *
 *	V		floats of a vector: columns, or elements along k, that a
 *			work-item computes side by side
 *	NV		vectors of channels of a GEMV's work-item, independent sums that hide
 *			the latency of an addition
 *	SPLIT		work-items among which a GEMV divides k, so that few channels fill a
 *			GPU; 1 keeps the order of k
 *	R, GEMM_NV	rows and vectors of channels of a GEMM's work-item
 *	GROUP_X		work-items of a group with neighbouring channels; 1 where a work-item is
 *			a loop of a CPU's thread
 *	GEMM_Y		work-items of a GEMM's group that have rows below one another
 *	TILE		rows and channels of a work-item where weights are not in panels
 *	ROW_ITEMS	work-items that share a row of a norm or a quantisation
 *	QUERIES		queries of a group of attention
 *	KEYS		keys of its tiles, a multiple of V
 *	ATTN_ITEMS	its work-items
 *
 * Operands are a buffer and a byte offset. An element's type is not that of the buffer: all memory
 * is read and written as the type that it holds, which is what the host and the NPU do with it too.
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

/* As int and float pointers to a buffer's byte. */
#define F32(base, off) ((__global float *)((base) + (off)))
#define S8(base, off) ((__global char *)((base) + (off)))
#define U32(base, off) ((__global uint *)((base) + (off)))
#define HALF(base, off) ((__global half *)((base) + (off)))

typedef __global uchar *memory;

/* a b + c: fused where that is an instruction. */
#ifdef FP_FAST_FMAF
#define MAC(a, b, c) fma(a, b, c)
#else
#define MAC(a, b, c) ((a) * (b) + (c))
#endif

/* The sum of a vector. */
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

/* The greatest of a vector. */
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
