/* SPDX-License-Identifier: MIT */
/*
 * Scores of all keys, for files that include cpu_sparse_attn.h first. The register tile is
 * attention's: ATTN_ROWS queries by a block of ATTN_KEYS transposed keys, which are widened once
 * for all queries.
 */

struct scores_work {
	const struct cpu_sparse_scores *t;
	float *kt; /* [head_dim][ATTN_KEYS] */
	float *scales; /* of Q8_0 [head_dim / 32][ATTN_KEYS] */
	float *rows; /* [LANES][head_dim, rounded up to 16] */
	float *s; /* [ATTN_ROWS][ATTN_KEYS] */
};

_Static_assert((ATTN_KEYS + ATTN_KEYS / 32 + LANES) * VNPU_MAX_HEAD_DIM * 4 +
			       ATTN_ROWS * ATTN_KEYS * 4 <=
		       CPU_SPARSE_SCRATCH_BYTES,
	       "scores' scratch");

/* How many keys query @i of the tile has. */
static uint64_t scores_keys(const struct cpu_sparse_scores *t, uint32_t i)
{
	return t->pos + (t->first + i) / t->group + 1;
}

static const float *scores_query(const struct cpu_sparse_scores *t, uint32_t i)
{
	uint32_t query = t->first + i;

	return t->q + query / t->group * t->ldq + query % t->group * (size_t)t->head_dim;
}

/* The scores of @rows queries from @i on, and of the keys from @begin on that they have. */
static void scores_rows(const struct scores_work *w, uint32_t i, uint32_t rows, uint64_t begin)
{
	const struct cpu_sparse_scores *t = w->t;
	const float *q[ATTN_ROWS];
	uint64_t n;

	for (uint32_t r = 0; r < rows; r++)
		q[r] = scores_query(t, i + r);
	switch (rows) {
		ATTN_CASES6(ATTN_DOT, w->s, q, w->kt, t->head_dim,
			    t->kv_type == VNPU_KV_Q8_0 ? w->scales : NULL)
	}
	for (uint32_t r = 0; r < rows; r++) {
		n = scores_keys(t, i + r);
		if (n <= begin)
			continue;
		n = n - begin < ATTN_KEYS ? n - begin : ATTN_KEYS;
		memcpy(t->scores + (i + r) * t->ld + begin, w->s + r * ATTN_KEYS,
		       n * sizeof(float));
	}
}

static void sparse_scores(const struct cpu_sparse_scores *t, void *scratch)
{
	uint64_t end = scores_keys(t, t->nr_q - 1), begin;
	struct scores_work w = { .t = t, .kt = scratch };
	uint32_t wide = (t->head_dim + 15) / 16 * 16, n, i, rows;
	struct attn_ahead none = { 0 };
	const uint8_t *k = t->k;

	w.scales = w.kt + t->head_dim * ATTN_KEYS;
	w.rows = w.scales + wide / 32 * ATTN_KEYS;
	w.s = w.rows + LANES * wide;
	for (begin = 0; begin < end; begin += ATTN_KEYS, k += ATTN_KEYS * t->k_row_bytes) {
		n = end - begin < ATTN_KEYS ? (uint32_t)(end - begin) : ATTN_KEYS;
		ATTN_TYPED(t->kv_type, attn_transpose, w.kt, w.scales, w.rows, wide, k,
			   t->k_row_bytes, n, t->head_dim, &none)
		for (i = 0; i < t->nr_q; i += rows) {
			rows = t->nr_q - i < ATTN_ROWS ? t->nr_q - i : ATTN_ROWS;
			if (scores_keys(t, i + rows - 1) > begin)
				scores_rows(&w, i, rows, begin);
		}
	}
}
