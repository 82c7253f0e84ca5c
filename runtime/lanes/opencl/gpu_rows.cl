/* SPDX-License-Identifier: MIT */
/*
 * Matmuls with row-major F32 or F16 weights: y[r][c] = sum over i of x[r][i] w[c][i].
 *
 * Each result is a dot product along k: V elements at a time into V sums, then the elements after
 * the last whole vector one by one.
 * GEMM: a work-item has TILE rows and TILE channels, so it uses each loaded vector TILE times.
 * GEMV: M rows and one channel; SPLIT work-items take vectors of k in turn, so they read
 * neighbouring words of a row of weights.
 */
#define W_F32(p, i) LOAD(0, (__global float *)(p) + (i))
#define W_F32_1(p, i) (((__global float *)(p))[i])
#define W_F16(p, i) LOAD_HALF(0, (__global half *)(p) + (i))
#define W_F16_1(p, i) vload_half(i, (__global half *)(p))

#define ROWS_ARGS                                                                               \
	memory x, ulong x_off, memory w, ulong w_off, memory bias, ulong bias_off, memory y,    \
		ulong y_off, ulong ldx, ulong ldw_bytes, ulong ldy, uint m, uint k, uint first, \
		uint n

/* Rows and channels beyond the last one repeat it and are not stored. */
#define GEMM_ROWS(name, W, W1)                                                                     \
	__kernel __attribute__((reqd_work_group_size(GROUP_X, 1, 1))) void name(ROWS_ARGS)         \
	{                                                                                          \
		uint c0 = get_global_id(0) * TILE, r0 = get_global_id(1) * TILE, i = 0;            \
		__global float *xr[TILE];                                                          \
		memory wr[TILE];                                                                   \
		vf acc[TILE][TILE];                                                                \
		float tail[TILE][TILE];                                                            \
		if (c0 >= n)                                                                       \
			return;                                                                    \
		_Pragma("unroll") for (uint a = 0; a < TILE; a++)                                  \
		{                                                                                  \
			xr[a] = F32(x, x_off) + min(r0 + a, m - 1) * ldx;                          \
			wr[a] = w + w_off + (first + min(c0 + a, n - 1)) * ldw_bytes;              \
			_Pragma("unroll") for (uint b = 0; b < TILE; b++)                          \
			{                                                                          \
				acc[a][b] = 0;                                                     \
				tail[a][b] = 0;                                                    \
			}                                                                          \
		}                                                                                  \
		for (; i + V <= k; i += V) {                                                       \
			vf wv[TILE];                                                               \
			_Pragma("unroll") for (uint b = 0; b < TILE; b++) wv[b] = W(wr[b], i);     \
			_Pragma("unroll") for (uint a = 0; a < TILE; a++)                          \
			{                                                                          \
				vf xv = LOAD(0, xr[a] + i);                                        \
				_Pragma("unroll") for (uint b = 0; b < TILE; b++) acc[a][b] =      \
					MAC(xv, wv[b], acc[a][b]);                                 \
			}                                                                          \
		}                                                                                  \
		for (; i < k; i++)                                                                 \
			_Pragma("unroll") for (uint a = 0; a < TILE; a++)                          \
				_Pragma("unroll") for (uint b = 0; b < TILE; b++) tail[a][b] =     \
					MAC(xr[a][i], W1(wr[b], i), tail[a][b]);                   \
		_Pragma("unroll") for (uint a = 0; a < TILE; a++) _Pragma(                         \
			"unroll") for (uint b = 0; b < TILE; b++) if (r0 + a < m && c0 + b < n)    \
		{                                                                                  \
			float v = sum_of(acc[a][b]) + tail[a][b];                                  \
			uint c = first + c0 + b;                                                   \
			F32(y, y_off)[(r0 + a) * ldy + c] = bias ? v + F32(bias, bias_off)[c] : v; \
		}                                                                                  \
	}

GEMM_ROWS(gemm_f32, W_F32, W_F32_1)
GEMM_ROWS(gemm_f16, W_F16, W_F16_1)

#define GEMV_ROWS(name, M, W, W1)                                                                  \
	__kernel __attribute__((reqd_work_group_size(SPLIT, GROUP_X, 1))) void name(ROWS_ARGS)     \
	{                                                                                          \
		uint part = get_local_id(0), c = min((uint)get_global_id(1), n - 1) + first, i;    \
		memory wr = w + w_off + c * ldw_bytes;                                             \
		float sum[M];                                                                      \
		vf acc[M];                                                                         \
		_Pragma("unroll") for (uint r = 0; r < M; r++) acc[r] = 0;                         \
		for (i = part * V; i + V <= k; i += SPLIT * V) {                                   \
			vf wv = W(wr, i);                                                          \
			_Pragma("unroll") for (uint r = 0; r < M; r++) acc[r] =                    \
				MAC(LOAD(0, F32(x, x_off) + min(r, m - 1) * ldx + i), wv, acc[r]); \
		}                                                                                  \
		_Pragma("unroll") for (uint r = 0; r < M; r++) sum[r] = sum_of(acc[r]);            \
		if (part == 0)                                                                     \
			for (i = k / V * V; i < k; i++)                                            \
				_Pragma("unroll") for (uint r = 0; r < M; r++) sum[r] =            \
					MAC((F32(x, x_off) + min(r, m - 1) * ldx)[i], W1(wr, i),   \
					    sum[r]);                                               \
		REDUCE_ROWS(M)                                                                     \
		for (uint r = 0; r < min((uint)M, m); r++)                                         \
			if (get_global_id(1) < n)                                                  \
				F32(y, y_off)                                                      \
		[r * ldy + c] = bias ? sum[r] + F32(bias, bias_off)[c] : sum[r];                   \
	}

#if SPLIT > 1
#define REDUCE_ROWS(M)                                    \
	__local float parts[GROUP_X][SPLIT][M];           \
	for (uint r = 0; r < M; r++)                      \
		parts[get_local_id(1)][part][r] = sum[r]; \
	barrier(CLK_LOCAL_MEM_FENCE);                     \
	if (part)                                         \
		return;                                   \
	for (uint s = 1; s < SPLIT; s++)                  \
		for (uint r = 0; r < M; r++)              \
			sum[r] += parts[get_local_id(1)][s][r];
#else
#define REDUCE_ROWS(M)
#endif

GEMV_ROWS(gemv_f32_1, 1, W_F32, W_F32_1)
GEMV_ROWS(gemv_f32_2, 2, W_F32, W_F32_1)
GEMV_ROWS(gemv_f32_4, 4, W_F32, W_F32_1)
GEMV_ROWS(gemv_f16_1, 1, W_F16, W_F16_1)
GEMV_ROWS(gemv_f16_2, 2, W_F16, W_F16_1)
GEMV_ROWS(gemv_f16_4, 4, W_F16, W_F16_1)
