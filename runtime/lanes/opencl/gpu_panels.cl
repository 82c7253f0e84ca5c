/* SPDX-License-Identifier: MIT */
/*
 * Matmuls with weights in the NPU's panels of 64 output channels (uapi/npu/vnpu_isa.h: MATMUL_I8,
 * MATMUL_W4, MATMUL_W4F).
 *
 * A panel has four (I8) or eight (W4) consecutive k of a channel in 32 bits, next to those of the
 * other 63 channels, so work-items of neighbouring channels read neighbouring words. INT8 values
 * are multiplied as floats, since a float's multiply-add is the fastest one on any device: sums of
 * 1024 products of two bytes stay below 2^24 and are exact. Longer sums are integers (W8), or
 * floats over groups (W4), as on the NPU.
 *
 * A work-item keeps M rows of N vectors of channels in registers: it unpacks each vector of weights
 * once for M rows, and broadcasts each activation to N vectors. GEMM: M is R, N is GEMM_NV, and the
 * second dimension is rows. GEMV: M is 1, 2 or 4, N is NV, and the second dimension is blocks of M
 * rows, whose work-items divide k.
 *
 * first, the first channel, need not begin a panel. Channels of a panel outside first..first + n -
 * 1 are computed but not stored.
 */
#define PANEL 64
#define EXACT 1024

#define PANEL_I8_BYTES(k) (((ulong)(k) + 3) / 4 * 256 + 512)
#define W4_GROUP_BYTES(group) ((ulong)(group)*32 + 128)
#define PANEL_W4_BYTES(k, group) ((ulong)(k) / (group)*W4_GROUP_BYTES(group))

/* The weight of the @j-th k in a word: of 4 bytes, or of 8 W4 numbers, whose zero is 8. */
#define BYTE(u, j) TO_FLOATS(CAT(as_int, V)((u) << (24 - 8 * (j))) >> 24)
#define NUMBER(u, j) TO_FLOATS(CAT(as_int, V)((u) << (28 - 8 * ((j) % 4) - 4 * ((j) / 4))) >> 28)
#define W4_SIGNS 0x88888888u

/* Stores a vector of channels, the first being c, to a row of y, or adds it to the row. */
static void put(__global float *y, uint add, memory bias, ulong bias_off, vf v, uint c, uint first,
		uint n)
{
	if (c >= first && c + V <= first + n) {
		v = add ? LOAD(0, y + c) + v : v;
		STORE(bias ? v + LOAD(0, F32(bias, bias_off) + c) : v, 0, y + c);
	} else {
		float t[V];

		STORE(v, 0, t);
		for (uint i = 0; i < V; i++) {
			if (c + i < first || c + i >= first + n)
				continue;
			t[i] = add ? y[c + i] + t[i] : t[i];
			y[c + i] = bias ? t[i] + F32(bias, bias_off)[c + i] : t[i];
		}
	}
}

#define ARGS                                                                                      \
	memory x, ulong x_off, memory x_scale, ulong x_scale_off, memory w, ulong w_off,          \
		memory bias, ulong bias_off, memory y, ulong y_off, ulong ldx, ulong ldy, uint m, \
		uint k, uint first, uint n, uint group, uint add

/* A work-item's rows and its part of k, in a GEMM and in a GEMV. */
#define ROWS_GEMM(M)                      \
	uint row0 = get_global_id(1) * M; \
	uint part = 0;                    \
	if (row0 >= m)                    \
	return
#define ROWS_GEMV(M)                     \
	uint row0 = get_group_id(1) * M; \
	uint part = get_local_id(1)

/* The work-item's channels. Rows beyond the last one repeat it and are not stored. */
#define BEGIN(M, N, ROWS)                                                               \
	ROWS(M);                                                                        \
	uint unit = get_global_id(0), panel = first / PANEL + unit / (PANEL / (V * N)); \
	uint lane = unit % (PANEL / (V * N)) * (V * N), c = panel * PANEL + lane;

#define EACH(M, N) _Pragma("unroll") for (uint i = 0; i < M * N; i++)

/* The first work-item adds the sums of those that computed the other parts of k. */
#define REDUCE_1(M, N, acc, type)
#define REDUCE_SPLIT(M, N, acc, type)                                \
	__local type parts[SPLIT][GROUP_X][M * N];                   \
	for (uint i = 0; i < M * N; i++)                             \
		parts[part][get_local_id(0)][i] = acc[i / N][i % N]; \
	barrier(CLK_LOCAL_MEM_FENCE);                                \
	if (part)                                                    \
		return;                                              \
	for (uint s = 1; s < SPLIT; s++)                             \
		for (uint i = 0; i < M * N; i++)                     \
			acc[i / N][i % N] += parts[s][get_local_id(0)][i];

#define MAC4(a, from, u, WEIGHT, v)                                       \
	sum[r][v] = MAC((vf)((a).s0), WEIGHT(u, from + 0, v), sum[r][v]); \
	sum[r][v] = MAC((vf)((a).s1), WEIGHT(u, from + 1, v), sum[r][v]); \
	sum[r][v] = MAC((vf)((a).s2), WEIGHT(u, from + 2, v), sum[r][v]); \
	sum[r][v] = MAC((vf)((a).s3), WEIGHT(u, from + 3, v), sum[r][v]);

#define WEIGHT_I8(u, j, v) BYTE(u, j)
#define WEIGHT_W4(u, j, v) NUMBER(u, j)
#define WEIGHT_W4F(u, j, v) (NUMBER(u, j) * scale[v])

/* ---- W8 -------------------------------------------------------------------------------------- */

#define W8(name, M, N, ROWS, GROUP_Y, SPLITS, REDUCE)                                             \
	__kernel __attribute__((reqd_work_group_size(GROUP_X, GROUP_Y, 1))) void name(ARGS)       \
	{                                                                                         \
		BEGIN(M, N, ROWS)                                                                 \
		memory p = w + w_off + panel * PANEL_I8_BYTES(k);                                 \
		uint words = (k + 3) / 4, exact = min((words + SPLITS - 1) / SPLITS, EXACT / 4u); \
		vi acc[M][N];                                                                     \
		EACH(M, N) acc[i / N][i % N] = 0;                                                 \
		for (uint b0 = part * exact; b0 < words; b0 += SPLITS * exact) {                  \
			uint end = min(b0 + exact, words);                                        \
			vf sum[M][N];                                                             \
			EACH(M, N) sum[i / N][i % N] = 0;                                         \
			for (uint b = b0; b < end; b++) {                                         \
				float4 a[M];                                                      \
				_Pragma("unroll") for (uint r = 0; r < M; r++) a[r] =             \
					convert_float4(vload4(                                    \
						b, S8(x, x_off) + min(row0 + r, m - 1) * ldx));   \
				_Pragma("unroll") for (uint v = 0; v < N; v++)                    \
				{                                                                 \
					vu u = LOAD(0, U32(p, (ulong)b * 256) + lane + v * V);    \
					_Pragma("unroll") for (uint r = 0; r < M; r++)            \
					{                                                         \
						MAC4(a[r], 0, u, WEIGHT_I8, v)                    \
					}                                                         \
				}                                                                 \
			}                                                                         \
			EACH(M, N) acc[i / N][i % N] += TO_INTS(sum[i / N][i % N]);               \
		}                                                                                 \
		REDUCE(M, N, acc, vi)                                                             \
		EACH(M, N)                                                                        \
		{                                                                                 \
			uint r = row0 + i / N, v = i % N;                                         \
			vf scale = LOAD(0, F32(p, PANEL_I8_BYTES(k) - 256) + lane + v * V);       \
			if (r < m)                                                                \
				put(F32(y, y_off) + r * ldy, add, bias, bias_off,                 \
				    TO_FLOATS(acc[i / N][v]) *                                    \
					    (F32(x_scale, x_scale_off)[r] * scale),               \
				    c + v * V, first, n);                                         \
		}                                                                                 \
	}

/* ---- W4 -------------------------------------------------------------------------------------- */

/* sum += x * WEIGHT over the group at g, whose first column is k0. */
#define W4_GROUP(M, N, x_type, WEIGHT)                                                          \
	for (uint b = 0; b < group / 8; b++) {                                                  \
		float8 a[M];                                                                    \
		_Pragma("unroll") for (uint r = 0; r < M; r++) a[r] = convert_float8(           \
			vload8(0, x_type(x, x_off) + min(row0 + r, m - 1) * ldx + k0 + 8 * b)); \
		_Pragma("unroll") for (uint v = 0; v < N; v++)                                  \
		{                                                                               \
			vu u = LOAD(0, U32(g, (ulong)b * 256) + lane + v * V) ^ W4_SIGNS;       \
			_Pragma("unroll") for (uint r = 0; r < M; r++)                          \
			{                                                                       \
				MAC4(a[r].lo, 0, u, WEIGHT, v)                                  \
				MAC4(a[r].hi, 4, u, WEIGHT, v)                                  \
			}                                                                       \
		}                                                                               \
	}

#define W4(name, M, N, ROWS, GROUP_Y, SPLITS, REDUCE)                                            \
	__kernel __attribute__((reqd_work_group_size(GROUP_X, GROUP_Y, 1))) void name(ARGS)      \
	{                                                                                        \
		BEGIN(M, N, ROWS)                                                                \
		memory p = w + w_off + panel * PANEL_W4_BYTES(k, group);                         \
		vf acc[M][N], sum[M][N];                                                         \
		EACH(M, N) acc[i / N][i % N] = 0;                                                \
		for (uint k0 = part * group; k0 < k; k0 += SPLITS * group) {                     \
			memory g = p + k0 / group * W4_GROUP_BYTES(group);                       \
			EACH(M, N) sum[i / N][i % N] = 0;                                        \
			W4_GROUP(M, N, S8, WEIGHT_W4)                                            \
			_Pragma("unroll") for (uint v = 0; v < N; v++)                           \
			{                                                                        \
				vf scale =                                                       \
					LOAD_HALF(0, HALF(g, (ulong)group * 32) + lane + v * V); \
				_Pragma("unroll") for (uint r = 0; r < M; r++) acc[r][v] =       \
					MAC(sum[r][v], scale, acc[r][v]);                        \
			}                                                                        \
		}                                                                                \
		REDUCE(M, N, acc, vf)                                                            \
		EACH(M, N)                                                                       \
		{                                                                                \
			uint r = row0 + i / N, v = i % N;                                        \
			if (r < m)                                                               \
				put(F32(y, y_off) + r * ldy, add, bias, bias_off,                \
				    acc[i / N][v] * F32(x_scale, x_scale_off)[r], c + v * V,     \
				    first, n);                                                   \
		}                                                                                \
	}

#define W4F(name, M, N, ROWS, GROUP_Y, SPLITS, REDUCE)                                           \
	__kernel __attribute__((reqd_work_group_size(GROUP_X, GROUP_Y, 1))) void name(ARGS)      \
	{                                                                                        \
		BEGIN(M, N, ROWS)                                                                \
		memory p = w + w_off + panel * PANEL_W4_BYTES(k, group);                         \
		vf sum[M][N];                                                                    \
		EACH(M, N) sum[i / N][i % N] = 0;                                                \
		for (uint k0 = part * group; k0 < k; k0 += SPLITS * group) {                     \
			memory g = p + k0 / group * W4_GROUP_BYTES(group);                       \
			vf scale[N];                                                             \
			_Pragma("unroll") for (uint v = 0; v < N; v++) scale[v] =                \
				LOAD_HALF(0, HALF(g, (ulong)group * 32) + lane + v * V);         \
			W4_GROUP(M, N, F32, WEIGHT_W4F)                                          \
		}                                                                                \
		REDUCE(M, N, sum, vf)                                                            \
		EACH(M, N)                                                                       \
		{                                                                                \
			uint r = row0 + i / N, v = i % N;                                        \
			if (r < m)                                                               \
				put(F32(y, y_off) + r * ldy, add, bias, bias_off, sum[i / N][v], \
				    c + v * V, first, n);                                        \
		}                                                                                \
	}

#if SPLIT > 1
#define GEMV(kind, name, M) kind(name, M, NV, ROWS_GEMV, SPLIT, SPLIT, REDUCE_SPLIT)
#else
#define GEMV(kind, name, M) kind(name, M, NV, ROWS_GEMV, 1, 1, REDUCE_1)
#endif
#define GEMM(kind, name) kind(name, R, GEMM_NV, ROWS_GEMM, GEMM_Y, 1, REDUCE_1)

GEMM(W8, gemm_w8)
GEMV(W8, gemv_w8_1, 1)
GEMV(W8, gemv_w8_2, 2)
GEMV(W8, gemv_w8_4, 4)
GEMM(W4, gemm_w4)
GEMV(W4, gemv_w4_1, 1)
GEMV(W4, gemv_w4_2, 2)
GEMV(W4, gemv_w4_4, 4)
GEMM(W4F, gemm_w4f)
GEMV(W4F, gemv_w4f_1, 1)
GEMV(W4F, gemv_w4f_2, 2)
GEMV(W4F, gemv_w4f_4, 4)
