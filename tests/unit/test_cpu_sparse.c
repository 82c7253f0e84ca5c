// SPDX-License-Identifier: MIT
/*
 * Sparse attention on the CPU, over random shapes; TEST_SEED=N repeats a run. Selections equal
 * those by sorting, exactly; attention is within the bound of cpu_sparse.h of double precision.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "cpu_sparse.h"
#include "kernels.h"

static uint64_t state;

static uint32_t random_u32(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (uint32_t)(state * 0x2545f4914f6cdd1du >> 32);
}

static unsigned int random_in(unsigned int min, unsigned int max)
{
	return min + random_u32() % (max - min + 1);
}

static float random_float(float range)
{
	return ((float)random_u32() / 2147483648.0f - 1.0f) * range;
}

static const struct cpu_sparse *const *all_sets(unsigned int *n)
{
	static const char *const names[] = { "generic", "avx2", "avx512" };
	static const struct cpu_sparse *sets[3];

	*n = 0;
	for (int i = 0; i < 3; i++) {
		const struct cpu_sparse *set = cpu_sparse_get(names[i]);

		if (set)
			sets[(*n)++] = set;
	}
	return sets;
}

#define for_each_set(set)                                                  \
	unsigned int nr_sets_, i_ = 0;                                     \
	const struct cpu_sparse *const *sets_ = all_sets(&nr_sets_), *set; \
	for (; i_ < nr_sets_ && (set = sets_[i_]); i_++)

static void test_the_generic_set_is_always_there(void **s)
{
	assert_ptr_equal(cpu_sparse_get("generic"), &cpu_sparse_generic);
	assert_non_null(cpu_sparse_get(NULL));
	assert_null(cpu_sparse_get("mmx"));
}

/* ---- selection ------------------------------------------------------------------------------- */

struct scored {
	double score; /* -INFINITY twice over for a NaN */
	bool nan;
	uint32_t at;
};

/* The greatest first, of equals the earliest, NaNs last. */
static int by_score(const void *a, const void *b)
{
	const struct scored *x = a, *y = b;

	if (x->nan != y->nan)
		return x->nan ? 1 : -1;
	if (!x->nan && x->score != y->score)
		return x->score > y->score ? -1 : 1;
	return x->at < y->at ? -1 : 1;
}

static int by_position(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* What selecting must find, by sorting. */
static size_t sorted(uint32_t *found, const struct scored *scores, size_t n, size_t keep)
{
	struct scored *all = malloc(n * sizeof(*all));
	bool last = false;

	memcpy(all, scores, n * sizeof(*all));
	qsort(all, n, sizeof(*all), by_score);
	keep = keep < n ? keep : n;
	for (size_t i = 0; i < keep; i++) {
		found[i] = all[i].at;
		last |= all[i].at == n - 1;
	}
	if (!last)
		found[keep - 1] = (uint32_t)n - 1;
	qsort(found, keep, sizeof(*found), by_position);
	free(all);
	return keep;
}

/* Scores of one of several kinds: spread, few values, equal, rising, falling, extreme. */
static int32_t random_score(unsigned int kind, size_t i)
{
	switch (kind % 7) {
	case 0:
		return (int32_t)random_in(0, 65535) - 32768;
	case 1:
		return (int32_t)random_in(0, 5) - 3;
	case 2:
		return 7;
	case 3:
		return (int32_t)(i % 30000) - 100;
	case 4:
		return 20000 - (int32_t)(i % 30000);
	case 5:
		return random_u32() % 2 ? INT16_MIN : INT16_MAX;
	default:
		return (int32_t)(random_in(0, 3000) + random_in(0, 3000) + random_in(0, 3000)) -
		       (random_u32() % 50 ? 4500 : 0);
	}
}

static float random_float_score(unsigned int kind, size_t i)
{
	static const float special[] = { NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, 3e38f };

	if (kind % 5 == 4 || (kind % 5 == 3 && random_u32() % 8 == 0))
		return special[random_in(0, 6)];
	return kind % 5 == 2 ? (float)random_score(kind, i) : random_float(3) * random_float(2);
}

struct selection {
	int16_t *s16;
	float *f32;
	uint32_t *found, *want;
	struct scored *scores;
	size_t n, keep;
};

static void check_selection(const struct cpu_sparse *set, const struct selection *t, const char *of,
			    size_t nr)
{
	size_t want = sorted(t->want, t->scores, t->n, t->keep);

	if (nr != want || memcmp(t->found, t->want, nr * sizeof(*t->found)))
		fail_msg("%s: %zu of %zu %s scores", set->name, t->keep, t->n, of);
}

static void select_both(const struct selection *t, unsigned int kind)
{
	for (size_t i = 0; i < t->n; i++) {
		t->s16[i] = (int16_t)random_score(kind, i);
		t->scores[i] = (struct scored){ t->s16[i], false, (uint32_t)i };
	}
	for_each_set(set)
		check_selection(set, t, "s16", set->select_s16(t->found, t->s16, t->n, t->keep));
	for (size_t i = 0; i < t->n; i++) {
		t->f32[i] = random_float_score(kind, i);
		t->scores[i].score = (double)t->f32[i];
		t->scores[i].nan = isnan(t->f32[i]);
	}
	for (i_ = 0; i_ < nr_sets_; i_++)
		check_selection(sets_[i_], t, "f32",
				sets_[i_]->select_f32(t->found, t->f32, t->n, t->keep));
}

static void check_selections(size_t n, size_t keep, unsigned int kind)
{
	size_t room = keep < n ? keep : n;
	struct selection t = {
		.s16 = malloc(n * sizeof(*t.s16)),
		.f32 = malloc(n * sizeof(*t.f32)),
		.found = malloc((room + CPU_SPARSE_SLACK) * sizeof(*t.found)),
		.want = malloc(room * sizeof(*t.want)),
		.scores = malloc(n * sizeof(*t.scores)),
		.n = n,
		.keep = keep,
	};

	select_both(&t, kind);
	free(t.s16);
	free(t.f32);
	free(t.found);
	free(t.want);
	free(t.scores);
}

static void test_selections_equal_sorting(void **s)
{
	for (unsigned int i = 0; i < 1500; i++) {
		size_t n = i % 10 ? random_in(1, 300) : random_in(512, 5000);
		size_t keep = i % 4 ? 1 + n / random_in(2, 9) : random_in(1, (unsigned int)n + 3);

		check_selections(n, keep, random_u32());
	}
}

static void test_one_or_all_may_be_selected(void **s)
{
	for (unsigned int kind = 0; kind < 35; kind++)
		for (size_t n = 1; n < 70; n += 1 + n / 8) {
			check_selections(n, 1, kind);
			check_selections(n, n - (n > 1), kind);
			check_selections(n, n, kind);
			check_selections(n, n + 1, kind);
		}
}

/* Nearly all scores are below the threshold, more of them than lanes of 16 bits can count. */
static void test_rows_may_be_long(void **s)
{
	check_selections(1100000, 5, random_u32());
}

/* ---- attention ------------------------------------------------------------------------------- */

/* A tile on random data, in allocations that end where it does. */
struct tile {
	struct cpu_sparse_attn t;
	uint32_t rows, ctx;
	float *q, *y, *k32, *v32; /* k32, v32: what the caches hold [ctx][head_dim] */
	uint8_t *k, *v;
	uint32_t *positions, *nr;
	void *scratch;
};

static void fill_cache(uint8_t *cache, float *exact, const struct tile *tile, size_t row_bytes)
{
	const struct fw_kernels *kernels = fw_kernels_get(FW_ISA_GENERIC);
	uint32_t dim = tile->t.head_dim, type = tile->t.kv_type;

	for (uint32_t j = 0; j < tile->ctx; j++, cache += row_bytes, exact += dim) {
		for (uint32_t d = 0; d < dim; d++)
			exact[d] = random_float(2);
		if (type == VNPU_KV_F32) {
			memcpy(cache, exact, dim * sizeof(float));
			continue;
		}
		kernels->store(cache, exact, dim, type);
		for (uint32_t d = 0; d < dim; d++) {
			const uint8_t *block = cache + d / 32 * VNPU_Q8_0_BYTES;
			uint16_t h;

			memcpy(&h, type == VNPU_KV_F16 ? cache + 2 * d : block, sizeof(h));
			exact[d] = fw_f16_to_f32(h);
			if (type == VNPU_KV_Q8_0)
				exact[d] *= (float)(int8_t)block[2 + d % 32];
		}
	}
}

/* Random lists, each with all positions or one of @sparse; what follows a list means nothing. */
static void fill_lists(struct tile *tile, unsigned int sparse)
{
	struct cpu_sparse_attn *t = &tile->t;
	size_t bytes = ((t->nr_q - 1) * t->ld + tile->ctx + CPU_SPARSE_SLACK) * sizeof(uint32_t);

	tile->positions = malloc(bytes);
	tile->nr = malloc(t->nr_q * sizeof(*tile->nr));
	for (size_t i = 0; i < bytes / sizeof(uint32_t); i++)
		tile->positions[i] = random_u32() % 3 ? random_u32() : random_in(0, tile->ctx);
	for (uint32_t i = 0; i < t->nr_q; i++) {
		uint32_t own = tile->ctx - tile->rows + (t->first + i) / t->group, nr = 0;

		for (uint32_t j = 0; j < own; j++)
			if (random_u32() % sparse == 0)
				tile->positions[i * t->ld + nr++] = j;
		tile->positions[i * t->ld + nr++] = own;
		tile->nr[i] = nr;
	}
	t->positions = tile->positions;
	t->nr = tile->nr;
}

static void begin_tile(struct tile *tile, uint32_t rows, uint32_t group, uint32_t dim,
		       uint32_t type)
{
	struct cpu_sparse_attn *t = &tile->t;
	size_t wide = (size_t)group * dim, n;

	*tile = (struct tile){ .rows = rows, .ctx = rows + random_in(0, 400) };
	*t = (struct cpu_sparse_attn){
		.ldq = wide + random_in(0, 9),
		.ldy = wide + random_in(0, 9),
		.group = group,
		.kv_type = type,
		.head_dim = dim,
		.scale = 0.3f,
	};
	t->first = random_in(0, rows * group - 1);
	t->nr_q = random_in(1, rows * group - t->first);
	t->k_row_bytes = VNPU_KV_BYTES(type, dim) + 4 * random_in(0, 9);
	t->v_row_bytes = VNPU_KV_BYTES(type, dim) + 4 * random_in(0, 9);
	t->ld = tile->ctx + random_in(0, 9);
	n = (rows - 1) * t->ldq + wide;
	t->q = tile->q = malloc(n * sizeof(float));
	while (n--)
		tile->q[n] = random_float(2);
	t->y = tile->y = calloc((rows - 1) * t->ldy + wide, sizeof(float));
	tile->k32 = malloc(tile->ctx * dim * sizeof(float));
	tile->v32 = malloc(tile->ctx * dim * sizeof(float));
	n = VNPU_KV_BYTES(type, dim);
	t->k = tile->k = malloc((tile->ctx - 1) * t->k_row_bytes + n);
	t->v = tile->v = malloc((tile->ctx - 1) * t->v_row_bytes + n);
	fill_cache(tile->k, tile->k32, tile, t->k_row_bytes);
	fill_cache(tile->v, tile->v32, tile, t->v_row_bytes);
	fill_lists(tile, random_in(1, 12));
	tile->scratch = aligned_alloc(64, CPU_SPARSE_SCRATCH_BYTES);
}

static void end_tile(struct tile *tile)
{
	free(tile->q);
	free(tile->y);
	free(tile->k32);
	free(tile->v32);
	free(tile->k);
	free(tile->v);
	free(tile->positions);
	free(tile->nr);
	free(tile->scratch);
}

/* The score of position @j, and the sum of magnitudes in it. */
static double exact_score(const struct tile *tile, const float *q, uint32_t j, double *magnitude)
{
	const float *k = tile->k32 + (size_t)j * tile->t.head_dim;
	double sum = 0, m = 0;

	for (uint32_t d = 0; d < tile->t.head_dim; d++) {
		sum += (double)q[d] * (double)k[d];
		m += fabs((double)q[d] * (double)k[d]);
	}
	*magnitude = fmax(*magnitude, m * (double)tile->t.scale);
	return sum * (double)tile->t.scale;
}

/* y[head_dim] of query @i in double precision; returns the bound. */
static double exact_query(const struct tile *tile, uint32_t i, double *y)
{
	const struct cpu_sparse_attn *t = &tile->t;
	const uint32_t *positions = t->positions + i * t->ld, query = t->first + i;
	const float *q = t->q + query / t->group * t->ldq + query % t->group * t->head_dim, *v;
	double *p = malloc(t->nr[i] * sizeof(*p)), max = -INFINITY, total = 0, s = 0, most = 0;

	for (uint32_t j = 0; j < t->nr[i]; j++) {
		p[j] = exact_score(tile, q, positions[j], &s);
		max = fmax(max, p[j]);
	}
	memset(y, 0, t->head_dim * sizeof(*y));
	for (uint32_t j = 0; j < t->nr[i]; j++)
		total += exp(p[j] - max);
	for (uint32_t j = 0; j < t->nr[i]; j++) {
		v = tile->v32 + (size_t)positions[j] * t->head_dim;
		for (uint32_t d = 0; d < t->head_dim; d++) {
			y[d] += exp(p[j] - max) / total * (double)v[d];
			most = fmax(most, fabs((double)v[d]));
		}
	}
	free(p);
	return ((t->head_dim / 4.0 + 8) * s + t->nr[i] + 32) * 0x1p-23 * most;
}

static void check_query(const struct cpu_sparse *set, const struct tile *tile, uint32_t i)
{
	const struct cpu_sparse_attn *t = &tile->t;
	uint32_t query = t->first + i, dim = t->head_dim;
	float *y = t->y + query / t->group * t->ldy + query % t->group * dim;
	double *exact = malloc(dim * sizeof(*exact)), bound = exact_query(tile, i, exact);
	float *before = malloc(dim * sizeof(*before));
	struct cpu_sparse_attn one = *t;

	for (uint32_t d = 0; d < dim; d++)
		if (!(fabs((double)y[d] - exact[d]) <= bound))
			fail_msg("%s: %.9g, expected %.9g within %.3g", set->name, (double)y[d],
				 exact[d], bound);
	/* A query's bits do not depend on the others. */
	memcpy(before, y, dim * sizeof(*before));
	one.first = query;
	one.nr_q = 1;
	one.positions += i * t->ld;
	one.nr += i;
	set->attn(&one, tile->scratch);
	assert_memory_equal(y, before, dim * sizeof(*before));
	free(before);
	free(exact);
}

static void check_attention(uint32_t rows, uint32_t group, uint32_t dim, uint32_t type)
{
	struct tile tile;

	begin_tile(&tile, rows, group, dim, type);
	for_each_set(set)
	{
		set->attn(&tile.t, tile.scratch);
		for (uint32_t i = 0; i < tile.t.nr_q; i += random_in(1, 1 + tile.t.nr_q / 8))
			check_query(set, &tile, i);
	}
	end_tile(&tile);
}

static void test_attention_is_near_double_precision(void **s)
{
	static const uint32_t usual[] = { 64, 128, 160, 32, 96, 256 };

	for (unsigned int i = 0; i < 60; i++) {
		uint32_t type = random_in(VNPU_KV_F32, VNPU_KV_Q8_0), dim = usual[random_in(0, 5)];

		if (type != VNPU_KV_Q8_0 && i % 3 == 0)
			dim = random_in(1, 130);
		check_attention(random_in(1, 12), random_in(1, 7), dim, type);
	}
	check_attention(300, 1, 20, VNPU_KV_F16);
	check_attention(30, 9, VNPU_MAX_HEAD_DIM, VNPU_KV_F32);
}

/* ---- scores ---------------------------------------------------------------------------------- */

static void check_scores(const struct cpu_sparse *set, const struct tile *tile, uint32_t i,
			 const float *scores)
{
	const struct cpu_sparse_attn *t = &tile->t;
	uint32_t query = t->first + i, n = tile->ctx - tile->rows + query / t->group + 1;
	const float *q = t->q + query / t->group * t->ldq + query % t->group * t->head_dim;

	for (uint32_t j = 0; j < n; j++) {
		double magnitude = 0, exact = exact_score(tile, q, j, &magnitude);
		double scale = (double)t->scale, bound = (t->head_dim + 2) * 0x1p-24 * magnitude;

		if (!(fabs((double)scores[j] * scale - exact) <= bound))
			fail_msg("%s: %.9g, expected %.9g within %.3g", set->name,
				 (double)scores[j] * scale, exact, bound);
	}
	if (n < tile->ctx)
		assert_true(scores[n] == 1234);
}

static void check_all_scores(uint32_t rows, uint32_t group, uint32_t dim, uint32_t type)
{
	struct tile tile;
	size_t n;
	float *scores;

	begin_tile(&tile, rows, group, dim, type);
	n = (tile.t.nr_q - 1) * tile.t.ld + tile.ctx;
	scores = malloc(n * sizeof(*scores));
	for_each_set(set)
	{
		struct cpu_sparse_scores t = {
			.q = tile.t.q,
			.ldq = tile.t.ldq,
			.group = group,
			.first = tile.t.first,
			.nr_q = tile.t.nr_q,
			.pos = tile.ctx - rows,
			.k = tile.t.k,
			.k_row_bytes = tile.t.k_row_bytes,
			.kv_type = type,
			.head_dim = dim,
			.scores = scores,
			.ld = tile.t.ld,
		};

		for (size_t i = 0; i < n; i++)
			scores[i] = 1234;
		set->scores(&t, tile.scratch);
		for (uint32_t i = 0; i < t.nr_q; i++)
			check_scores(set, &tile, i, scores + i * t.ld);
	}
	free(scores);
	end_tile(&tile);
}

static void test_scores_are_near_double_precision(void **s)
{
	static const uint32_t usual[] = { 64, 128, 160, 32, 96, 256 };

	for (unsigned int i = 0; i < 40; i++) {
		uint32_t type = random_in(VNPU_KV_F32, VNPU_KV_Q8_0), dim = usual[random_in(0, 5)];

		if (type != VNPU_KV_Q8_0 && i % 3 == 0)
			dim = random_in(1, 130);
		check_all_scores(random_in(1, 12), random_in(1, 7), dim, type);
	}
	check_all_scores(2, 9, VNPU_MAX_HEAD_DIM, VNPU_KV_F32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_generic_set_is_always_there),
		cmocka_unit_test(test_selections_equal_sorting),
		cmocka_unit_test(test_one_or_all_may_be_selected),
		cmocka_unit_test(test_rows_may_be_long),
		cmocka_unit_test(test_attention_is_near_double_precision),
		cmocka_unit_test(test_scores_are_near_double_precision),
	};
	const char *seed = getenv("TEST_SEED");

	state = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
	printf("TEST_SEED=%llu\n", (unsigned long long)state);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
