/* SPDX-License-Identifier: MIT */
/*
 * Attention with an online softmax: one pass over the cache, in tiles of KEYS keys.
 *
 * A group has QUERIES queries of one KV head and ATTN_ITEMS work-items. Query i is head i % share
 * of row i / share, so heads that read the same keys are neighbours. For each tile the work-items
 * first divide the keys and compute their scores, then divide the elements of the values and
 * compute their weighted sums. All work-items keep each query's greatest score and sum of weights.
 *
 * If there are too few queries to fill a device, groups divide the keys too: each has part_keys of
 * them and leaves its greatest scores, sums of weights and weighted sums in parts, from which
 * attn_join computes the result.
 *
 * Values that a query does not see are skipped, since 0 times NaN is NaN.
 */
#define MAX_DIM 1024 /* VNPU_MAX_HEAD_DIM */
/* Units of a head per work-item: whole vectors, and single elements after the last whole vector. */
#define MAX_UNITS ((MAX_DIM / V + V - 1 + ATTN_ITEMS - 1) / ATTN_ITEMS)

/* V values from element @i of a row on, or one value. Q8_0 has blocks of 34 bytes; V divides 32. */
#define KV_F32(p, i) LOAD(0, (__global float *)(p) + (i))
#define KV_F32_1(p, i) (((__global float *)(p))[i])
#define KV_F16(p, i) LOAD_HALF(0, (__global half *)(p) + (i))
#define KV_F16_1(p, i) vload_half(i, (__global half *)(p))
#define KV_Q8_0(p, i)                                                              \
	(TO_FLOATS(LOAD(0, (__global char *)(p) + (i) / 32 * 34 + 2 + (i) % 32)) * \
	 vload_half(0, (__global half *)((p) + (i) / 32 * 34)))
#define KV_Q8_0_1(p, i)                                                \
	((float)((__global char *)(p))[(i) / 32 * 34 + 2 + (i) % 32] * \
	 vload_half(0, (__global half *)((p) + (i) / 32 * 34)))

/* Where a part's results for a head of a row begin, in floats: dim weighted sums, the greatest
 * score and the sum of weights. */
#define PART(part, row, rows, head, heads, dim) \
	((((ulong)(part) * (rows) + (row)) * (heads) + (head)) * ((dim) + 2))

#define ATTN(name, KV, KV1)                                                                       \
	__kernel __attribute__((reqd_work_group_size(ATTN_ITEMS, 1, 1))) void name(               \
		memory q, ulong q_off, memory kc, ulong k_off, memory vc, ulong v_off, memory y,  \
		ulong y_off, ulong ldq, ulong ldk_bytes, ulong ldv_bytes, ulong ldy,              \
		uint head_bytes, uint rows, uint share, uint dim, uint pos, float scale,          \
		memory parts, ulong parts_off, uint kv_heads, uint part_keys)                     \
	{                                                                                         \
		__local float score[QUERIES][KEYS];                                               \
		uint item = get_local_id(0), kv_head = get_group_id(1) % kv_heads,                \
		     part = get_group_id(1) / kv_heads, query0 = get_group_id(0) * QUERIES;       \
		uint whole = dim / V, units = whole + dim % V,                                    \
		     last = min(query0 + QUERIES, rows * share) - 1;                              \
		uint nr_keys = pos + last / share + 1, common = pos + query0 / share + 1, u, j,   \
		     first_key = part * part_keys, end = min(nr_keys, first_key + part_keys);     \
		memory ks = kc + k_off + kv_head * head_bytes,                                    \
		       vs = vc + v_off + kv_head * head_bytes;                                    \
		__global float *qs[QUERIES];                                                      \
		float most[QUERIES], total[QUERIES], fix[QUERIES];                                \
		vf acc[QUERIES][MAX_UNITS];                                                       \
		for (uint i = 0; i < QUERIES; i++) {                                              \
			uint query = min(query0 + i, last);                                       \
			qs[i] = F32(q, q_off) + query / share * ldq +                             \
				(kv_head * share + query % share) * dim;                          \
			most[i] = -INFINITY;                                                      \
			total[i] = 0;                                                             \
			for (u = 0; u * ATTN_ITEMS + item < units; u++)                           \
				acc[i][u] = 0;                                                    \
		}                                                                                 \
		for (uint j0 = first_key; j0 < end; j0 += KEYS) {                                 \
			uint in_tile = min(end - j0, (uint)KEYS);                                 \
			for (j = item; j < KEYS; j += ATTN_ITEMS) {                               \
				memory row = ks + (j0 + min(j, in_tile - 1)) * ldk_bytes;         \
				vf sums[QUERIES];                                                 \
				float s[QUERIES];                                                 \
				_Pragma("unroll") for (uint i = 0; i < QUERIES; i++) sums[i] = 0; \
				for (u = 0; u < whole; u++) {                                     \
					vf key = KV(row, u * V);                                  \
					_Pragma("unroll") for (uint i = 0; i < QUERIES; i++)      \
						sums[i] = MAC(LOAD(u, qs[i]), key, sums[i]);      \
				}                                                                 \
				_Pragma("unroll") for (uint i = 0; i < QUERIES; i++) s[i] =       \
					sum_of(sums[i]);                                          \
				for (u = whole * V; u < dim; u++)                                 \
					_Pragma("unroll") for (uint i = 0; i < QUERIES; i++)      \
						s[i] = MAC(qs[i][u], KV1(row, u), s[i]);          \
				_Pragma("unroll") for (uint i = 0; i < QUERIES; i++)              \
				{                                                                 \
					uint sees = pos + min(query0 + i, last) / share;          \
					score[i][j] = j0 + j <= sees ? s[i] * scale : -INFINITY;  \
				}                                                                 \
			}                                                                         \
			barrier(CLK_LOCAL_MEM_FENCE);                                             \
			for (uint i = 0; i < QUERIES; i++) {                                      \
				vf most_v = LOAD(0, score[i]);                                    \
				float m, from;                                                    \
				for (j = V; j < KEYS; j += V)                                     \
					most_v = fmax(most_v, LOAD(0, score[i] + j));             \
				m = fmax(most[i], max_of(most_v));                                \
				/* A part may have only keys that the query does not see. */      \
				from = m == -INFINITY ? 0 : m;                                    \
				fix[i] = exp(most[i] - from);                                     \
				most[i] = m;                                                      \
			}                                                                         \
			barrier(CLK_LOCAL_MEM_FENCE);                                             \
			for (uint i = 0; i < QUERIES; i++)                                        \
				for (j = item * V; j < KEYS; j += ATTN_ITEMS * V)                 \
					STORE(exp(LOAD(0, score[i] + j) -                         \
						  (most[i] == -INFINITY ? 0 : most[i])),          \
					      0, score[i] + j);                                   \
			barrier(CLK_LOCAL_MEM_FENCE);                                             \
			for (uint i = 0; i < QUERIES; i++) {                                      \
				vf sum = LOAD(0, score[i]);                                       \
				for (j = V; j < KEYS; j += V)                                     \
					sum += LOAD(0, score[i] + j);                             \
				total[i] = total[i] * fix[i] + sum_of(sum);                       \
			}                                                                         \
			uint all = min(in_tile, common > j0 ? common - j0 : 0u);                  \
			for (u = 0; u * ATTN_ITEMS + item < units; u++) {                         \
				uint unit = u * ATTN_ITEMS + item;                                \
				vf sums[QUERIES];                                                 \
				_Pragma("unroll") for (uint i = 0; i < QUERIES; i++) sums[i] =    \
					acc[i][u] * fix[i];                                       \
				for (j = 0; j < in_tile; j++) {                                   \
					memory row = vs + (j0 + j) * ldv_bytes;                   \
					vf value = 0;                                             \
					if (unit < whole)                                         \
						value = KV(row, unit * V);                        \
					else                                                      \
						value.s0 = KV1(row, whole * V + unit - whole);    \
					if (j < all) {                                            \
						_Pragma("unroll") for (uint i = 0; i < QUERIES;   \
								       i++) sums[i] =             \
							MAC((vf)(score[i][j]), value, sums[i]);   \
					} else {                                                  \
						for (uint i = 0; i < QUERIES; i++)                \
							if (j0 + j <=                             \
							    pos + min(query0 + i, last) / share)  \
								sums[i] = MAC((vf)(score[i][j]),  \
									      value, sums[i]);    \
					}                                                         \
				}                                                                 \
				_Pragma("unroll") for (uint i = 0; i < QUERIES; i++) acc[i][u] =  \
					sums[i];                                                  \
			}                                                                         \
			barrier(CLK_LOCAL_MEM_FENCE);                                             \
		}                                                                                 \
		for (uint i = 0; i < QUERIES && query0 + i <= last; i++) {                        \
			uint query = query0 + i, row = query / share,                             \
			     head = kv_head * share + query % share;                              \
			__global float *ys = F32(y, y_off) + row * ldy + head * dim;              \
			float inv = 1.0f / total[i];                                              \
			if (parts) {                                                              \
				ys = F32(parts, parts_off) +                                      \
				     PART(part, row, rows, head, kv_heads * share, dim);          \
				inv = 1;                                                          \
				if (!item) {                                                      \
					ys[dim] = most[i];                                        \
					ys[dim + 1] = total[i];                                   \
				}                                                                 \
			}                                                                         \
			for (u = 0; u * ATTN_ITEMS + item < units; u++) {                         \
				uint unit = u * ATTN_ITEMS + item;                                \
				if (unit < whole)                                                 \
					STORE(acc[i][u] * inv, unit, ys);                         \
				else                                                              \
					ys[whole * V + unit - whole] = acc[i][u].s0 * inv;        \
			}                                                                         \
		}                                                                                 \
	}

ATTN(attn_f32, KV_F32, KV_F32_1)
ATTN(attn_f16, KV_F16, KV_F16_1)
ATTN(attn_q8_0, KV_Q8_0, KV_Q8_0_1)

/* A work-item has an element of a row's result. */
__kernel void attn_join(memory parts, ulong parts_off, memory y, ulong y_off, ulong ldy, uint rows,
			uint heads, uint dim, uint nr_parts)
{
	uint d = get_global_id(0) % dim, head = get_global_id(0) / dim, row = get_global_id(1), i;
	__global float *of = F32(parts, parts_off);
	float most = -INFINITY, total = 0, sum = 0;

	if (head >= heads)
		return;
	for (i = 0; i < nr_parts; i++)
		most = fmax(most, of[PART(i, row, rows, head, heads, dim) + dim]);
	for (i = 0; i < nr_parts; i++) {
		__global float *p = of + PART(i, row, rows, head, heads, dim);
		float fix = exp(p[dim] - most);

		total = MAC(p[dim + 1], fix, total);
		sum = MAC(p[d], fix, sum);
	}
	F32(y, y_off)[row * ldy + head * dim + d] = sum / total;
}
