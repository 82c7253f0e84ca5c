/* SPDX-License-Identifier: MIT */
/*
 * Attention for tests of its kernels: random queries and caches, tiles, and the results in double
 * precision. After cmocka.h.
 */
#ifndef FW_ATTN_DATA_H
#define FW_ATTN_DATA_H

#include "fw_sets.h"

struct attn {
	struct fw_attn t; /* all heads and queries */
	uint32_t rows; /* of all queries */
	uint64_t keys;
	/* The stored K and V as floats: [heads][keys][head_dim]. */
	float *q, *y, *k_values, *v_values;
	uint8_t *k, *v;
	void *scratch;
};

static UNUSED size_t attn_results(const struct attn *x)
{
	return (size_t)x->t.heads * x->rows * x->t.group * x->t.head_dim;
}

/* Random values of a row of @dim, stored at @row in the cache's type; what was stored: @values. */
static UNUSED void kv_store(const struct attn *x, uint8_t *row, float scale, float *values)
{
	uint32_t d, dim = x->t.head_dim;
	float block_scale;
	uint16_t h;

	for (d = 0; d < dim; d++)
		values[d] = rng_float() * scale;
	if (x->t.kv_type == VNPU_KV_F32) {
		memcpy(row, values, dim * 4);
		return;
	}
	fw_kernels_generic.store(row, values, dim, x->t.kv_type);
	for (d = 0; d < dim; d++) {
		memcpy(&h, x->t.kv_type == VNPU_KV_F16 ? row + 2 * d : row + d / 32 * 34, 2);
		block_scale = fw_f16_to_f32(h);
		values[d] = x->t.kv_type == VNPU_KV_F16
				    ? block_scale
				    : block_scale * ((int8_t *)row)[d / 32 * 34 + 2 + d % 32];
	}
}

/* A cache of rows of @ld values that ends with the last head of the last row. */
static UNUSED uint8_t *kv_make(struct attn *x, uint64_t ld, float scale, float *values)
{
	uint32_t h, dim = x->t.head_dim, type = x->t.kv_type;
	uint8_t *rows = need((x->keys - 1) * VNPU_KV_BYTES(type, ld) +
			     VNPU_KV_BYTES(type, x->t.heads * dim));
	uint64_t j;

	for (h = 0; h < x->t.heads; h++)
		for (j = 0; j < x->keys; j++, values += dim)
			kv_store(x,
				 rows + j * VNPU_KV_BYTES(type, ld) + VNPU_KV_BYTES(type, h * dim),
				 scale, values);
	return rows;
}

static UNUSED void attn_make(struct attn *x, uint32_t type, uint32_t dim, uint32_t heads,
			     uint32_t group, uint32_t rows, uint64_t pos)
{
	uint64_t unit = type == VNPU_KV_Q8_0 ? 32 : 1;
	uint64_t ldk = heads * dim + unit * rng_below(3), ldv = heads * dim + unit * rng_below(3);
	uint32_t q_cols = heads * group * dim;

	x->rows = rows;
	x->keys = pos + rows;
	x->t = (struct fw_attn){
		.ldq = q_cols + rng_below(5),
		.ldy = q_cols + rng_below(5),
		.heads = heads,
		.group = group,
		.nr_q = rows * group,
		.pos = pos,
		.k_row_bytes = VNPU_KV_BYTES(type, ldk),
		.v_row_bytes = VNPU_KV_BYTES(type, ldv),
		.kv_type = type,
		.head_dim = dim,
		.scale = 1 / sqrtf(dim),
	};
	x->k_values = need(heads * x->keys * dim * 4);
	x->v_values = need(heads * x->keys * dim * 4);
	x->t.k = x->k = kv_make(x, ldk, 2, x->k_values);
	x->t.v = x->v = kv_make(x, ldv, 1, x->v_values);
	x->t.q = x->q = random_floats((rows - 1) * x->t.ldq + q_cols, 2);
	x->t.y = x->y = need(((rows - 1) * x->t.ldy + q_cols) * 4);
	x->scratch = aligned_alloc(64, FW_SCRATCH_BYTES);
}

static UNUSED void attn_free(struct attn *x)
{
	free(x->q);
	free(x->y);
	free(x->k);
	free(x->v);
	free(x->k_values);
	free(x->v_values);
	free(x->scratch);
}

/* @heads KV heads from @h on. */
static UNUSED struct fw_attn attn_heads(const struct attn *x, uint32_t h, uint32_t heads)
{
	struct fw_attn t = x->t;

	t.q += h * t.group * t.head_dim;
	t.y += h * t.group * t.head_dim;
	t.k = x->k + VNPU_KV_BYTES(t.kv_type, h * t.head_dim);
	t.v = x->v + VNPU_KV_BYTES(t.kv_type, h * t.head_dim);
	t.heads = x->t.heads - h < heads ? x->t.heads - h : heads;
	return t;
}

/* Results as [row][heads][group][head_dim]. */
static UNUSED void attn_gather(const struct attn *x, float *y)
{
	size_t cols = (size_t)x->t.heads * x->t.group * x->t.head_dim;
	uint32_t r;

	for (r = 0; r < x->rows; r++)
		memcpy(y + r * cols, x->y + r * x->t.ldy, cols * 4);
}

/* All queries in tiles of at most @most queries of @heads KV heads. */
static UNUSED void attn_run(struct attn *x, const struct fw_kernels *set, uint32_t heads,
			    uint32_t most, float *y)
{
	uint64_t i, n = (uint64_t)x->rows * x->t.group;
	struct fw_attn t;
	uint32_t h;

	for (h = 0; h < x->t.heads; h += heads)
		for (i = 0; i < n; i += t.nr_q) {
			t = attn_heads(x, h, heads);
			t.first = i;
			t.nr_q = n - i < most ? n - i : most;
			set->attn(&t, x->scratch);
		}
	attn_gather(x, y);
}

/* Segment by segment, the last one first, in tiles of @heads KV heads; then folded. */
static UNUSED void attn_run_parts(struct attn *x, const struct fw_kernels *set, uint32_t heads,
				  float *y)
{
	uint64_t segments = (x->keys + FW_ATTN_SEGMENT - 1) / FW_ATTN_SEGMENT, i;
	size_t query = fw_attn_part_floats(x->t.head_dim);
	float *parts = need(segments * x->t.heads * x->t.nr_q * query * 4);
	struct fw_attn t;
	uint32_t h;

	for (i = segments; i--;)
		for (h = 0; h < x->t.heads; h += heads) {
			t = attn_heads(x, h, heads);
			t.segment = i;
			t.part = parts + (i * x->t.heads + h) * t.nr_q * query;
			set->attn(&t, x->scratch);
		}
	t = x->t;
	t.part = parts;
	set->attn_fold(&t);
	attn_gather(x, y);
	free(parts);
}

/* The key of row @row itself. */
static UNUSED uint64_t attn_own(const struct attn *x, uint64_t row)
{
	const struct fw_attn *t = &x->t;

	return t->pos + (!t->at ? row : t->at[row] < t->span ? t->at[row] : t->span - 1);
}

/* Whether row @row attends to key @j. */
static UNUSED bool attn_sees(const struct attn *x, uint32_t row, uint64_t j)
{
	uint64_t pos = x->t.pos, below = row < 64 ? (1ull << row) - 1 : 0, bits, later;

	if (j > attn_own(x, row))
		return false;
	if (!x->t.mask)
		return !x->t.window || attn_own(x, row) - j < x->t.window;
	bits = (x->t.mask[row] & below) | 1ull << row;
	if (j >= pos && !(bits >> (j - pos) & 1))
		return false;
	later = j < pos ? pos - 1 - j + (uint64_t)__builtin_popcountll(bits)
			: (uint64_t)__builtin_popcountll(bits >> (j - pos) >> 1);
	return !x->t.window || later < x->t.window;
}

/* Query @i of KV head @h. */
static UNUSED void attn_query(double *y, const struct attn *x, uint32_t h, uint64_t i)
{
	uint32_t d, dim = x->t.head_dim;
	const float *q = x->q + i / x->t.group * x->t.ldq + (h * x->t.group + i % x->t.group) * dim,
		    *k = x->k_values + h * x->keys * dim, *v = x->v_values + h * x->keys * dim;
	uint64_t n = attn_own(x, i / x->t.group) + 1, j;
	double *p = need(n * sizeof(*p)), max = -INFINITY, sum = 0;

	for (j = 0; j < n; j++) {
		for (d = 0, p[j] = 0; d < dim; d++)
			p[j] += (double)q[d] * k[j * dim + d];
		p[j] *= x->t.scale;
		if (x->t.cap > 0)
			p[j] = x->t.cap * tanh(p[j] / x->t.cap);
		if (!attn_sees(x, i / x->t.group, j))
			p[j] = -INFINITY;
		max = fmax(max, p[j]);
	}
	for (j = 0; j < n; j++)
		sum += p[j] = exp(p[j] - max);
	for (d = 0; d < dim; d++)
		for (j = 0, y[d] = 0; j < n; j++)
			if (p[j] > 0)
				y[d] += p[j] / sum * v[j * dim + d];
	free(p);
}

/* The greatest error of the results @y. */
static UNUSED double attn_error(const struct attn *x, const float *y)
{
	double want[VNPU_MAX_HEAD_DIM], worst = 0;
	uint32_t h, d, dim = x->t.head_dim, group = x->t.group;
	const float *got;
	uint64_t i;

	for (h = 0; h < x->t.heads; h++)
		for (i = 0; i < (uint64_t)x->rows * group; i++) {
			attn_query(want, x, h, i);
			got = y + ((i / group * x->t.heads + h) * group + i % group) * dim;
			for (d = 0; d < dim; d++)
				worst = fmax(worst, fabs(got[d] - want[d]));
		}
	return worst;
}

static UNUSED const uint32_t attn_dims[] = {
	1, 8, 16, 17, 64, 80, 100, 128, 256, VNPU_MAX_HEAD_DIM
};
static UNUSED const uint32_t attn_q8_dims[] = { 32, 64, 96, 128, 256, VNPU_MAX_HEAD_DIM };

/* What a tile has room for, of random type and shape, with up to @keys keys; some end at the end of
 * a block of keys. */
static UNUSED void attn_random(struct attn *x, uint32_t type, uint32_t keys)
{
	uint32_t dim = type == VNPU_KV_Q8_0 ? attn_q8_dims[rng_below(6)] : attn_dims[rng_below(10)];
	uint32_t group = 1 + rng_below(8), most = fw_attn_queries(dim) / group;
	uint32_t rows = rng_below(2) ? 1 + rng_below(most) : 1 + rng_below(most < 3 ? most : 3);
	uint32_t many = rows * group <= 8 ? 16 : 4;
	uint32_t heads = 1 + rng_below(most / rows < many ? most / rows : many);
	uint64_t pos = rng_below(4) ? rng_below(keys - rows)
				    : (uint64_t)keys / 64 * 64 - 64 * rng_below(2) - rows;

	attn_make(x, type, dim, heads, group, rows, pos);
}

/* Sets @ref, [attn_results()], to the portable results. All sets give the same bits, in tiles of
 * any size, from parts, and each query alone. */
static UNUSED void attn_same_everywhere(struct attn *x, float *ref, const char *what)
{
	float *y = need(attn_results(x) * 4);
	unsigned int s;

	attn_run(x, &fw_kernels_generic, x->t.heads, x->t.nr_q, ref);
	for (s = 0; s < nr_sets; s++) {
		attn_run(x, sets[s], 1 + rng_below(x->t.heads), 1 + rng_below(x->t.nr_q), y);
		assert_same(y, ref, attn_results(x), sets[s]->name, what);
		attn_run_parts(x, sets[s], 1 + rng_below(x->t.heads), y);
		assert_same(y, ref, attn_results(x), sets[s]->name, what);
		attn_run(x, sets[s], 1, 1, y);
		assert_same(y, ref, attn_results(x), sets[s]->name, what);
	}
	free(y);
}

#endif /* FW_ATTN_DATA_H */
