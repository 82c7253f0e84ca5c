/* SPDX-License-Identifier: MIT */
/*
 * Products with weights in the NPU's panels of 64 output channels (firmware-sim/vnpu_isa.h: MATMUL_I8, MATMUL_W4, MATMUL_W4F).
 *
 * A panel has four (I8) or eight (W4) consecutive k of a channel in 32 bits, and the 64 channels side by side: work-items that
 * stand for neighbouring channels read neighbouring words. INT8 products are computed in floats: 32 products of two bytes fill
 * 2^19, so all of them are exact, and a float's multiply-add is the fastest there is on any device. Sums over more than a tile
 * are integers (W8), or the group's (W4), as the NPU has them.
 *
 * GEMM: a group computes 64 channels of R * GEMM_Y rows. It keeps KT columns of its rows in local memory, as floats, so that they
 * are converted once. Each work-item has R rows of V channels in registers.
 * GEMV: M rows at once; a work-item has NV * V channels, and of k each SPLIT-th tile.
 *
 * first: the first channel, not always a panel's. Channels of the group's panel outside first..first + n - 1 are computed and not
 * stored.
 */
#define PANEL 64
#define KT 32
#define GEMM_X (PANEL / V)
#define GEMV_X (PANEL / (V * NV))

#define PANEL_I8_BYTES(k) (((ulong)(k) + 3) / 4 * 256 + 512)
#define W4_GROUP_BYTES(group) ((ulong)(group) * 32 + 128)
#define PANEL_W4_BYTES(k, group) ((ulong)(k) / (group) * W4_GROUP_BYTES(group))

/* Byte @j of four, and number @j of the eight of a W4 word, whose zero is 8: @j is their k. */
#define BYTE(u, j) TO_FLOATS(CAT(as_int, V)((u) << (24 - 8 * (j))) >> 24)
#define NUMBER(u, j) TO_FLOATS(CAT(as_int, V)((u) << (28 - 8 * ((j) % 4) - 4 * ((j) / 4))) >> 28)
#define W4_SIGNS 0x88888888u

/* Channels c.. of the range to a row of y. */
static void put(__global float *y, memory bias, ulong bias_off, vf v, uint c, uint first, uint n)
{
	if (c >= first && c + V <= first + n) {
		STORE(bias ? v + LOAD(0, F32(bias, bias_off) + c) : v, 0, y + c);
	} else {
		float t[V];

		STORE(v, 0, t);
		for (uint i = 0; i < V; i++)
			if (c + i >= first && c + i < first + n)
				y[c + i] = bias ? t[i] + F32(bias, bias_off)[c + i] : t[i];
	}
}

#define ARGS                                                                                                     \
	memory x, ulong x_off, memory x_scale, ulong x_scale_off, memory w, ulong w_off, memory bias, ulong bias_off, \
		memory y, ulong y_off, ulong ldx, ulong ldy, uint m, uint k, uint first, uint n, uint group

/* ---- many rows ----------------------------------------------------------------------------------------------------- */

/* Rows row0.. and columns k0..k0 + KT - 1 of x as floats, zeros where x ends. */
#define STAGE(x_type)                                                                                            \
	for (uint i = get_local_id(1) * GEMM_X + get_local_id(0); i < R * GEMM_Y * (KT / 4); i += GEMM_X * GEMM_Y) { \
		uint row = i / (KT / 4), kk = i % (KT / 4) * 4;                                                  \
		float4 t = 0;                                                                                    \
		if (row0 + row < m && k0 + kk + 4 <= k)                                                          \
			t = convert_float4(vload4(0, x_type(x, x_off) + (row0 + row) * ldx + k0 + kk));          \
		else if (row0 + row < m)                                                                         \
			for (uint j = 0; j < 4 && k0 + kk + j < k; j++)                                          \
				((float *)&t)[j] = x_type(x, x_off)[(row0 + row) * ldx + k0 + kk + j];           \
		vstore4(t, 0, tile[row] + kk);                                                                   \
	}

#define GEMM_BEGIN                                                                    \
	__local float tile[R * GEMM_Y][KT];                                           \
	uint panel = first / PANEL + get_group_id(0), lane = get_local_id(0) * V;     \
	uint row0 = get_group_id(1) * (R * GEMM_Y), mine = get_local_id(1) * R;       \
	uint c = panel * PANEL + lane;

__kernel __attribute__((reqd_work_group_size(GEMM_X, GEMM_Y, 1))) void gemm_w8(ARGS)
{
	GEMM_BEGIN
	memory p = w + w_off + panel * PANEL_I8_BYTES(k);
	vi acc[R];

#pragma unroll
	for (uint r = 0; r < R; r++)
		acc[r] = 0;
	for (uint k0 = 0; k0 < k; k0 += KT) {
		vf sum[R];
		uint words = min((k - k0 + 3) / 4, (uint)(KT / 4));

		STAGE(S8)
		barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
		for (uint r = 0; r < R; r++)
			sum[r] = 0;
		for (uint b = 0; b < words; b++) {
			vu u = LOAD(0, U32(p, (ulong)(k0 / 4 + b) * 256) + lane);
#pragma unroll
			for (uint j = 0; j < 4; j++) {
				vf wk = BYTE(u, j);
#pragma unroll
				for (uint r = 0; r < R; r++)
					sum[r] = MAC((vf)(tile[mine + r][4 * b + j]), wk, sum[r]);
			}
		}
#pragma unroll
		for (uint r = 0; r < R; r++)
			acc[r] += TO_INTS(sum[r]);
		barrier(CLK_LOCAL_MEM_FENCE);
	}
	vf scale = LOAD(0, F32(p, PANEL_I8_BYTES(k) - 256) + lane);
#pragma unroll
	for (uint r = 0; r < R; r++)
		if (row0 + mine + r < m)
			put(F32(y, y_off) + (row0 + mine + r) * ldy, bias, bias_off,
			    TO_FLOATS(acc[r]) * (F32(x_scale, x_scale_off)[row0 + mine + r] * scale), c, first, n);
}

__kernel __attribute__((reqd_work_group_size(GEMM_X, GEMM_Y, 1))) void gemm_w4(ARGS)
{
	GEMM_BEGIN
	memory p = w + w_off + panel * PANEL_W4_BYTES(k, group);
	vf acc[R], sum[R];

#pragma unroll
	for (uint r = 0; r < R; r++)
		acc[r] = sum[r] = 0;
	for (uint k0 = 0; k0 < k; k0 += KT) {
		memory g = p + k0 / group * W4_GROUP_BYTES(group);

		STAGE(S8)
		barrier(CLK_LOCAL_MEM_FENCE);
		for (uint b = 0; b < KT / 8; b++) {
			vu u = LOAD(0, U32(g, (ulong)(k0 % group / 8 + b) * 256) + lane) ^ W4_SIGNS;
#pragma unroll
			for (uint j = 0; j < 8; j++) {
				vf wk = NUMBER(u, j);
#pragma unroll
				for (uint r = 0; r < R; r++)
					sum[r] = MAC((vf)(tile[mine + r][8 * b + j]), wk, sum[r]);
			}
		}
		if ((k0 + KT) % group == 0) {
			vf scale = LOAD_HALF(0, HALF(g, (ulong)group * 32) + lane);
#pragma unroll
			for (uint r = 0; r < R; r++) {
				acc[r] = plus(acc[r], times(sum[r], scale));
				sum[r] = 0;
			}
		}
		barrier(CLK_LOCAL_MEM_FENCE);
	}
#pragma unroll
	for (uint r = 0; r < R; r++)
		if (row0 + mine + r < m)
			put(F32(y, y_off) + (row0 + mine + r) * ldy, bias, bias_off,
			    acc[r] * F32(x_scale, x_scale_off)[row0 + mine + r], c, first, n);
}

__kernel __attribute__((reqd_work_group_size(GEMM_X, GEMM_Y, 1))) void gemm_w4f(ARGS)
{
	GEMM_BEGIN
	memory p = w + w_off + panel * PANEL_W4_BYTES(k, group);
	vf acc[R];

#pragma unroll
	for (uint r = 0; r < R; r++)
		acc[r] = 0;
	for (uint k0 = 0; k0 < k; k0 += KT) {
		memory g = p + k0 / group * W4_GROUP_BYTES(group);
		vf scale = LOAD_HALF(0, HALF(g, (ulong)group * 32) + lane);

		STAGE(F32)
		barrier(CLK_LOCAL_MEM_FENCE);
		for (uint b = 0; b < KT / 8; b++) {
			vu u = LOAD(0, U32(g, (ulong)(k0 % group / 8 + b) * 256) + lane) ^ W4_SIGNS;
#pragma unroll
			for (uint j = 0; j < 8; j++) {
				vf wk = NUMBER(u, j) * scale;
#pragma unroll
				for (uint r = 0; r < R; r++)
					acc[r] = MAC((vf)(tile[mine + r][8 * b + j]), wk, acc[r]);
			}
		}
		barrier(CLK_LOCAL_MEM_FENCE);
	}
#pragma unroll
	for (uint r = 0; r < R; r++)
		if (row0 + mine + r < m)
			put(F32(y, y_off) + (row0 + mine + r) * ldy, bias, bias_off, acc[r], c, first, n);
}

/* ---- few rows ------------------------------------------------------------------------------------------------------ */

#define GEMV_BEGIN                                                                              \
	uint panel = first / PANEL + get_group_id(0), lane = get_local_id(0) * V * NV;          \
	uint part = get_local_id(1), c = panel * PANEL + lane;

/* The sums of the other work-items that had parts of k are added to the first one's. */
#if SPLIT > 1
#define GEMV_FOLD(M, acc, type)                                                                    \
	__local type parts[SPLIT][GEMV_X][M * NV];                                                 \
	for (uint i = 0; i < M * NV; i++)                                                          \
		parts[part][get_local_id(0)][i] = acc[i / NV][i % NV];                             \
	barrier(CLK_LOCAL_MEM_FENCE);                                                              \
	if (part)                                                                                  \
		return;                                                                            \
	for (uint s = 1; s < SPLIT; s++)                                                           \
		for (uint i = 0; i < M * NV; i++)                                                  \
			acc[i / NV][i % NV] += parts[s][get_local_id(0)][i];
#else
#define GEMV_FOLD(M, acc, type)
#endif

#define GEMV_W8(M)                                                                                                   \
	__kernel __attribute__((reqd_work_group_size(GEMV_X, SPLIT, 1))) void CAT(gemv_w8_, M)(ARGS)                 \
	{                                                                                                            \
		GEMV_BEGIN                                                                                           \
		memory p = w + w_off + panel * PANEL_I8_BYTES(k);                                                    \
		uint words = (k + 3) / 4;                                                                            \
		vi acc[M][NV];                                                                                       \
		_Pragma("unroll") for (uint i = 0; i < M * NV; i++) acc[i / NV][i % NV] = 0;                         \
		for (uint b0 = part * (KT / 4); b0 < words; b0 += SPLIT * (KT / 4)) {                                \
			uint end = min(b0 + KT / 4, words);                                                          \
			vf sum[M][NV];                                                                               \
			_Pragma("unroll") for (uint i = 0; i < M * NV; i++) sum[i / NV][i % NV] = 0;                 \
			for (uint b = b0; b < end; b++) {                                                            \
				float4 a[M];                                                                         \
				_Pragma("unroll") for (uint r = 0; r < M; r++) a[r] =                                \
					convert_float4(vload4(b, S8(x, x_off) + min(r, m - 1) * ldx));               \
				_Pragma("unroll") for (uint v = 0; v < NV; v++)                                      \
				{                                                                                    \
					vu u = LOAD(0, U32(p, (ulong)b * 256) + lane + v * V);                       \
					_Pragma("unroll") for (uint r = 0; r < M; r++)                               \
					{                                                                            \
						sum[r][v] = MAC((vf)(a[r].s0), BYTE(u, 0), sum[r][v]);               \
						sum[r][v] = MAC((vf)(a[r].s1), BYTE(u, 1), sum[r][v]);               \
						sum[r][v] = MAC((vf)(a[r].s2), BYTE(u, 2), sum[r][v]);               \
						sum[r][v] = MAC((vf)(a[r].s3), BYTE(u, 3), sum[r][v]);               \
					}                                                                            \
				}                                                                                    \
			}                                                                                            \
			_Pragma("unroll") for (uint i = 0; i < M * NV; i++) acc[i / NV][i % NV] +=                   \
				TO_INTS(sum[i / NV][i % NV]);                                                        \
		}                                                                                                    \
		GEMV_FOLD(M, acc, vi)                                                                                \
		for (uint i = 0; i < M * NV; i++) {                                                                  \
			uint r = i / NV, v = i % NV;                                                                 \
			vf scale = LOAD(0, F32(p, PANEL_I8_BYTES(k) - 256) + lane + v * V);                          \
			if (r < m)                                                                                   \
				put(F32(y, y_off) + r * ldy, bias, bias_off,                                         \
				    TO_FLOATS(acc[r][v]) * (F32(x_scale, x_scale_off)[r] * scale), c + v * V, first, n); \
		}                                                                                                    \
	}

GEMV_W8(1)
GEMV_W8(2)
GEMV_W8(4)

/* One group's sum of @a and the numbers, unscaled. */
#define GEMV_W4_GROUP(M, x_type)                                                                                     \
	for (uint b = 0; b < group / 8; b++) {                                                                       \
		float8 a[M];                                                                                         \
		_Pragma("unroll") for (uint r = 0; r < M; r++) a[r] =                                                \
			convert_float8(vload8(0, x_type(x, x_off) + min(r, m - 1) * ldx + k0 + 8 * b));              \
		_Pragma("unroll") for (uint v = 0; v < NV; v++)                                                      \
		{                                                                                                    \
			vu u = LOAD(0, U32(g, (ulong)b * 256) + lane + v * V) ^ W4_SIGNS;                            \
			_Pragma("unroll") for (uint r = 0; r < M; r++)                                               \
			{                                                                                            \
				sum[r][v] = MAC((vf)(a[r].s0), WEIGHT(u, 0, v), sum[r][v]);                          \
				sum[r][v] = MAC((vf)(a[r].s1), WEIGHT(u, 1, v), sum[r][v]);                          \
				sum[r][v] = MAC((vf)(a[r].s2), WEIGHT(u, 2, v), sum[r][v]);                          \
				sum[r][v] = MAC((vf)(a[r].s3), WEIGHT(u, 3, v), sum[r][v]);                          \
				sum[r][v] = MAC((vf)(a[r].s4), WEIGHT(u, 4, v), sum[r][v]);                          \
				sum[r][v] = MAC((vf)(a[r].s5), WEIGHT(u, 5, v), sum[r][v]);                          \
				sum[r][v] = MAC((vf)(a[r].s6), WEIGHT(u, 6, v), sum[r][v]);                          \
				sum[r][v] = MAC((vf)(a[r].s7), WEIGHT(u, 7, v), sum[r][v]);                          \
			}                                                                                            \
		}                                                                                                    \
	}

#define GEMV_W4(M)                                                                                                   \
	__kernel __attribute__((reqd_work_group_size(GEMV_X, SPLIT, 1))) void CAT(gemv_w4_, M)(ARGS)                 \
	{                                                                                                            \
		GEMV_BEGIN                                                                                           \
		memory p = w + w_off + panel * PANEL_W4_BYTES(k, group);                                             \
		vf acc[M][NV], sum[M][NV];                                                                           \
		_Pragma("unroll") for (uint i = 0; i < M * NV; i++) acc[i / NV][i % NV] = 0;                         \
		for (uint k0 = part * group; k0 < k; k0 += SPLIT * group) {                                          \
			memory g = p + k0 / group * W4_GROUP_BYTES(group);                                           \
			_Pragma("unroll") for (uint i = 0; i < M * NV; i++) sum[i / NV][i % NV] = 0;                 \
			GEMV_W4_GROUP(M, S8)                                                                         \
			_Pragma("unroll") for (uint v = 0; v < NV; v++)                                              \
			{                                                                                            \
				vf scale = LOAD_HALF(0, HALF(g, (ulong)group * 32) + lane + v * V);                  \
				_Pragma("unroll") for (uint r = 0; r < M; r++) acc[r][v] =                           \
					plus(acc[r][v], times(sum[r][v], scale));                                    \
			}                                                                                            \
		}                                                                                                    \
		GEMV_FOLD(M, acc, vf)                                                                                \
		for (uint i = 0; i < M * NV; i++)                                                                    \
			if (i / NV < m)                                                                              \
				put(F32(y, y_off) + i / NV * ldy, bias, bias_off,                                    \
				    acc[i / NV][i % NV] * F32(x_scale, x_scale_off)[i / NV], c + i % NV * V, first, n); \
	}

#define WEIGHT(u, j, v) NUMBER(u, j)
GEMV_W4(1)
GEMV_W4(2)
GEMV_W4(4)
#undef WEIGHT

#define GEMV_W4F(M)                                                                                                  \
	__kernel __attribute__((reqd_work_group_size(GEMV_X, SPLIT, 1))) void CAT(gemv_w4f_, M)(ARGS)                \
	{                                                                                                            \
		GEMV_BEGIN                                                                                           \
		memory p = w + w_off + panel * PANEL_W4_BYTES(k, group);                                             \
		vf sum[M][NV];                                                                                       \
		_Pragma("unroll") for (uint i = 0; i < M * NV; i++) sum[i / NV][i % NV] = 0;                         \
		for (uint k0 = part * group; k0 < k; k0 += SPLIT * group) {                                          \
			memory g = p + k0 / group * W4_GROUP_BYTES(group);                                           \
			vf scale[NV];                                                                                \
			_Pragma("unroll") for (uint v = 0; v < NV; v++) scale[v] =                                   \
				LOAD_HALF(0, HALF(g, (ulong)group * 32) + lane + v * V);                             \
			GEMV_W4_GROUP(M, F32)                                                                        \
		}                                                                                                    \
		GEMV_FOLD(M, sum, vf)                                                                                \
		for (uint i = 0; i < M * NV; i++)                                                                    \
			if (i / NV < m)                                                                              \
				put(F32(y, y_off) + i / NV * ldy, bias, bias_off, sum[i / NV][i % NV],               \
				    c + i % NV * V, first, n);                                                       \
	}

#define WEIGHT(u, j, v) (NUMBER(u, j) * scale[v])
GEMV_W4F(1)
GEMV_W4F(2)
GEMV_W4F(4)
#undef WEIGHT
