/* SPDX-License-Identifier: MIT */
/* Outliers of activations: QUANT_OUTLIERS, ADD_OUTLIERS (uapi/npu/vnpu_isa.h). */
#define OUTLIERS 16
#define OUTLIER_LANES 64
#define OUTLIER_RANK 8

/* The magnitude's bits, which have the order of the magnitudes. */
static uint size_bits(float x)
{
	return as_uint(x) & 0x7fffffffu;
}

/* All work-items of a row: the greatest magnitude in each lane of its columns. */
static void lane_bits(__local uint *lanes, __global float *xs, uint cols)
{
	uint item = get_local_id(0), whole = cols / OUTLIER_LANES * OUTLIER_LANES, i;
	vu most[OUTLIER_LANES / V];

	for (i = item; i < OUTLIER_LANES; i += ROW_ITEMS)
		lanes[i] = 0;
	barrier(CLK_LOCAL_MEM_FENCE);
	for (uint v = 0; v < OUTLIER_LANES / V; v++)
		most[v] = 0;
	for (i = item * OUTLIER_LANES; i < whole; i += ROW_ITEMS * OUTLIER_LANES)
		_Pragma("unroll") for (uint v = 0; v < OUTLIER_LANES / V; v++) most[v] =
			max(most[v], CAT(as_uint, V)(LOAD(0, xs + i + v * V)) & 0x7fffffffu);
	for (i = 0; i < OUTLIER_LANES; i++)
		if (((uint *)most)[i] > lanes[i])
			atomic_max(&lanes[i], ((uint *)most)[i]);
	for (i = whole + item; i < cols; i += ROW_ITEMS)
		atomic_max(&lanes[i - whole], size_bits(xs[i]));
	barrier(CLK_LOCAL_MEM_FENCE);
}

/* One work-item: the greatest lanes in descending order. */
static void order_bits(__local uint *top, __local uint *lanes)
{
	for (uint i = 0; i <= OUTLIER_RANK; i++)
		top[i] = 0;
	for (uint i = 0; i < OUTLIER_LANES; i++) {
		uint at = OUTLIER_RANK;

		if (lanes[i] <= top[OUTLIER_RANK])
			continue;
		for (; at && lanes[i] > top[at - 1]; at--)
			top[at] = top[at - 1];
		top[at] = lanes[i];
	}
}

/* One work-item: sorts the list by columns, and stores the values minus what q holds of them. */
static void put_outliers(__global float *to, __local uint *list, uint n, __global float *xs,
			 __global char *qs, float s)
{
	for (uint i = 1; i < n; i++) {
		uint column = list[i], at = i;

		for (; at && list[at - 1] > column; at--)
			list[at] = list[at - 1];
		list[at] = column;
	}
	for (uint i = 0; i < OUTLIERS; i++) {
		to[i] = i < n ? fma(-(float)qs[list[i]], s, xs[list[i]]) : 0;
		to[OUTLIERS + i] = i < n ? (float)list[i] : -1;
	}
}

/* A work-group per row. */
__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1))) void
quant_outliers(memory x, ulong x_off, memory q, ulong q_off, memory scale, ulong scale_off,
	       memory outliers, ulong outliers_off, ulong ldx, ulong ldq, uint cols)
{
	__global float *xs = F32(x, x_off) + get_group_id(0) * ldx;
	__global char *qs = S8(q, q_off) + get_group_id(0) * ldq;
	__local uint lanes[OUTLIER_LANES], top[OUTLIER_RANK + 1], count[OUTLIER_RANK + 1],
		list[OUTLIERS], listed;
	uint item = get_local_id(0), rank = OUTLIER_RANK, i;
	bool finite;
	float t, s;

	lane_bits(lanes, xs, cols);
	if (item == 0) {
		order_bits(top, lanes);
		for (i = 0; i <= OUTLIER_RANK; i++)
			count[i] = 0;
		listed = 0;
	}
	barrier(CLK_LOCAL_MEM_FENCE);
	finite = top[0] < 0x7f800000u;
	for (; finite; rank--) {
		uint more = 0;

		for (i = item; i < cols; i += ROW_ITEMS)
			more += size_bits(xs[i]) > top[rank];
		if (more)
			atomic_add(&count[rank], more);
		barrier(CLK_LOCAL_MEM_FENCE);
		if (count[rank] <= OUTLIERS || !rank)
			break;
	}
	t = as_float(top[rank]);
	s = finite ? t / 127.0f : NAN;
	for (i = item; i < cols; i += ROW_ITEMS) {
		qs[i] = s > 0 ? convert_char(clamp(rint(clamp(xs[i], -t, t) / s), -127.0f, 127.0f))
			      : (char)0;
		if (finite && size_bits(xs[i]) > top[rank]) {
			uint at = atomic_inc(&listed);

			if (at < OUTLIERS)
				list[at] = i;
		}
	}
	for (i = cols + item; i < (cols + 3) / 4 * 4; i += ROW_ITEMS)
		qs[i] = 0;
	barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
	if (item == 0) {
		F32(scale, scale_off)[get_group_id(0)] = s;
		put_outliers(F32(outliers, outliers_off) + get_group_id(0) * 2 * OUTLIERS, list,
			     min(listed, (uint)OUTLIERS), xs, qs, s);
	}
}

/* A work-item per channel of a row; @group 0: panels of W8, else of W4. */
__kernel void add_outliers(memory outliers, ulong outliers_off, memory w, ulong w_off, memory y,
			   ulong y_off, ulong ldy, uint k, uint first, uint n, uint group)
{
	__global float *value = F32(outliers, outliers_off) + get_global_id(1) * 2 * OUTLIERS,
		       *column = value + OUTLIERS;
	__global float *ys = F32(y, y_off) + get_global_id(1) * ldy;
	uint c = first + get_global_id(0), lane = c % PANEL;
	memory p = w + w_off + c / PANEL * (group ? PANEL_W4_BYTES(k, group) : PANEL_I8_BYTES(k));
	float sum = 0, before = -1;

	if (get_global_id(0) >= n)
		return;
	for (uint i = 0;
	     i < OUTLIERS && column[i] > before && column[i] >= 0 && column[i] < (float)k; i++) {
		uint at = (uint)column[i];

		before = column[i];

		if (group) {
			memory g = p + at / group * W4_GROUP_BYTES(group);
			uint in = at % group, both = g[in / 8 * 256 + lane * 4 + in % 4];
			float weight = (float)(int)(both >> in % 8 / 4 * 4 & 15) - 8;

			sum = fma(value[i], weight * vload_half(lane, HALF(g, (ulong)group * 32)),
				  sum);
		} else {
			sum = fma(value[i], (float)S8(p, at / 4 * 256 + lane * 4)[at % 4], sum);
		}
	}
	ys[c] = group ? ys[c] + sum : fma(sum, F32(p, PANEL_I8_BYTES(k) - 256)[lane], ys[c]);
}
