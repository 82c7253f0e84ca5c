/* SPDX-License-Identifier: MIT */
/*
 * INT8 attention (ATTN_I8), and packing its values. Part of kernels_float.h, which includes it.
 *
 * Some rows at a time: their scores by qk_i8(), from which a second pass makes weights of 0..127 in
 * the same memory, and a third one sums up the values. All sums are of integers, so only the
 * weights and the last two operations are floats.
 */

/* Rows whose scores are in the scratch at a time, if the positions are not too many. */
#define I8_ROWS 24
/* Rows and vectors of values of the register tile. */
#define I8_TILE 4
/* What qk_i8() uses of the scratch for as many rows: 16 bits per value in rows of odd lines. */
#define I8_QK_BYTES (I8_ROWS * (VNPU_MAX_HEAD_DIM + 64) * 2)
#define I8_Q_BYTES (I8_ROWS * VNPU_MAX_HEAD_DIM)

typedef int16_t vs __attribute__((vector_size(2 * LANES)));

/* Adds to @acc the sums of 4 positions' values, s8 [LANES][4], times their weights, 0..127. */
INLINE vi dot4(vi acc, int32_t weights, const int8_t *v)
{
#if LANES == 16
	return (vi)_mm512_dpbusd_epi32((__m512i)acc, _mm512_set1_epi32(weights),
				       _mm512_loadu_si512(v));
#elif LANES == 8
	/* Two products of at most 127 x 128 do not saturate. */
	__m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi32(weights),
					     _mm256_loadu_si256((const __m256i *)v));

	return acc + (vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif defined(__ARM_FEATURE_DOTPROD)
	return (vi)vdotq_s32((int32x4_t)acc, vld1q_s8(v),
			     vreinterpretq_s8_s32(vdupq_n_s32(weights)));
#else
	int8_t w[4];

	memcpy(w, &weights, sizeof(w));
	for (int i = 0; i < LANES; i++, v += 4)
		acc[i] += w[0] * v[0] + w[1] * v[1] + w[2] * v[2] + w[3] * v[3];
	return acc;
#endif
}

/* The first n <= LANES scores, the others INT16_MIN. */
INLINE vi load_scores(const int16_t *p, size_t n)
{
	int16_t t[LANES];
	vs s;

	if (n >= LANES) {
		memcpy(&s, p, sizeof(s));
		return __builtin_convertvector(s, vi);
	}
	for (int i = 0; i < LANES; i++)
		t[i] = INT16_MIN;
	memcpy(t, p, n * sizeof(*t));
	memcpy(&s, t, sizeof(s));
	return __builtin_convertvector(s, vi);
}

static int32_t greatest_score(const int16_t *scores, size_t n)
{
	vi max = load_scores(scores, n);
	int32_t t[LANES], m;

	for (size_t i = LANES; i < n; i += LANES)
		max = greater_i(load_scores(scores + i, n - i), max);
	memcpy(t, &max, sizeof(t));
	m = t[0];
	for (int i = 1; i < LANES; i++)
		m = t[i] > m ? t[i] : m;
	return m;
}

/*
 * Replaces a row's first @n scores by weights, s8 from the start of the same memory, and zeros for
 * the others of @columns. @factor: of the scores, before exp. Returns the weights' sum.
 */
static int32_t i8_weights(int16_t *scores, size_t n, size_t columns, float factor)
{
	int32_t max = greatest_score(scores, n), t[LANES], total = 0;
	int8_t *to = (int8_t *)scores;
	const vi iota = IOTA;
	vi w, sum = { 0 };
	vb bytes;

	/* Weights are half as wide as scores, so writing them never overtakes reading. */
	for (size_t i = 0; i < n; i += LANES) {
		vf x = __builtin_convertvector(load_scores(scores + i, n - i) - max, vf) * factor;

		w = (vi)(exp_v(x) * 127.0f + ROUND_MAGIC) - ROUND_MAGIC_BITS;
		if (n - i < LANES)
			w &= iota < (int32_t)(n - i);
		sum += w;
		bytes = narrow(w);
		memcpy(to + i, &bytes, sizeof(bytes));
	}
	n = (n + LANES - 1) / LANES * LANES;
	if (n < columns)
		memset(to + n, 0, columns - n);
	memcpy(t, &sum, sizeof(t));
	for (int i = 0; i < LANES; i++)
		total += t[i];
	return total;
}

/*
 * y[rows][ldy] = weights x values / sums for @vecs vectors of columns, @n of which are the
 * result's. @w: rows @ldw apart; @v: the columns' first values, of groups @ldv bytes apart.
 */
struct i8_sums {
	const int8_t *w, *v;
	size_t ldw, ldv, groups, n, ldy;
	const float *by; /* [rows] */
	float *y;
};

INLINE void i8_tile(const int rows, const int vecs, const struct i8_sums *s)
{
	vi acc[I8_TILE][I8_TILE] = { 0 };
	const int8_t *v = s->v, *w = s->w;
	int32_t four;

	for (size_t g = 0; g < s->groups; g++, v += s->ldv, w += 4) {
#pragma GCC unroll 4
		for (int r = 0; r < rows; r++) {
			memcpy(&four, w + r * s->ldw, sizeof(four));
#pragma GCC unroll 4
			for (int i = 0; i < vecs; i++)
				acc[r][i] = dot4(acc[r][i], four, v + i * LANES * 4);
		}
	}
#pragma GCC unroll 4
	for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
		for (int i = 0; i < vecs; i++) {
			vf y = __builtin_convertvector(acc[r][i], vf) * s->by[r];
			size_t left = s->n - (size_t)i * LANES;

			if (left >= LANES)
				store(s->y + r * s->ldy + i * LANES, y);
			else
				store_part(s->y + r * s->ldy + i * LANES, y, left);
		}
	}
}

/* All columns of a head for @rows rows. */
INLINE void i8_columns(const int rows, struct i8_sums s, uint32_t head_dim)
{
	const int vecs = LANES == 16 ? 4 : 2;

	for (uint32_t d = 0; d < head_dim;) {
		uint32_t now = head_dim - d > (vecs - 1) * LANES ? vecs * LANES : LANES;

		s.n = head_dim - d;
		if (now > LANES)
			i8_tile(rows, vecs, &s);
		else
			i8_tile(rows, 1, &s);
		d += now;
		s.v += now * 4;
		s.y += now;
	}
}

/* Rows r.. of the group at @m0; their weights are at @weights. */
static void i8_values(const struct fw_attn_i8 *t, uint32_t m0, uint32_t rows, const int8_t *weights,
		      size_t ldw, const float *by)
{
	struct i8_sums s = {
		.v = t->v,
		.ldw = ldw,
		.ldv = VNPU_PV_COLUMNS(t->head_dim) * 4,
		.ldy = t->ldy,
	};

	for (uint32_t r = 0, now; r < rows; r += now) {
		now = rows - r < I8_TILE ? 1 : I8_TILE;
		s.w = weights + r * ldw;
		s.by = by + r;
		s.y = t->y + (m0 + r) * t->ldy;
		/* The last row of the tile attends to most positions. */
		s.groups = (t->pos + m0 + r + now - 1) / 4 + 1;
		if (now == I8_TILE)
			i8_columns(I8_TILE, s, t->head_dim);
		else
			i8_columns(1, s, t->head_dim);
	}
}

/* Rows m0..m0 + rows - 1, at most I8_ROWS, with scores in rows of @lds. */
static void i8_group(const struct fw_attn_i8 *t, uint32_t m0, uint32_t rows, size_t lds,
		     uint8_t *scratch)
{
	int8_t *q = (int8_t *)scratch + I8_QK_BYTES;
	int16_t *scores = (int16_t *)(scratch + I8_QK_BYTES + I8_Q_BYTES);
	uint32_t shift = vnpu_qk_shift(t->head_dim);
	float factor = t->q_scale * t->k_scale * t->scale * (float)(1 << shift);
	bool good = factor > 0 && factor < INFINITY && t->v_scale > 0 && t->v_scale < INFINITY;
	float by[I8_ROWS], s;
	struct fw_qk_i8 qk = {
		.q = q,
		.k = t->k,
		.scores = scores,
		.pos = t->pos + m0,
		.rows = rows,
		.head_dim = t->head_dim,
		.panels = (uint32_t)((t->pos + m0 + rows - 1) / VNPU_QK_PANEL + 1),
		.shift = shift,
		.ldq = VNPU_MAX_HEAD_DIM,
		.lds = lds,
	};

	for (uint32_t r = 0; r < rows; r++) {
		kernel_quant_static(q + r * qk.ldq, &s, t->q + (m0 + r) * t->ldq, t->head_dim,
				    t->q_scale);
		by[r] = good ? s : NAN;
	}
	kernel_qk_i8(&qk, scratch);
	for (uint32_t r = 0; r < rows; r++) {
		int32_t sum = i8_weights(scores + r * lds, qk.pos + r + 1,
					 qk.panels * VNPU_QK_PANEL, good ? factor : 0);

		by[r] = isnan(by[r]) ? NAN : t->v_scale / (float)sum;
	}
	i8_values(t, m0, rows, (int8_t *)scores, lds * 2, by);
}

static void kernel_attn_i8(const struct fw_attn_i8 *t, void *scratch)
{
	size_t lds = (t->pos + t->rows + 127) / 64 * 64;
	size_t fit = (FW_SCRATCH_BYTES - I8_QK_BYTES - I8_Q_BYTES) / (lds * 2);
	uint32_t most = fit < I8_ROWS ? (uint32_t)fit : I8_ROWS;

	_Static_assert(FW_SCRATCH_BYTES - I8_QK_BYTES - I8_Q_BYTES >= (VNPU_MAX_K_I8 + 128) * 2,
		       "a row's scores fit");
	for (uint32_t m0 = 0, rows; m0 < t->rows; m0 += rows) {
		rows = t->rows - m0 < most ? t->rows - m0 : most;
		i8_group(t, m0, rows, lds, scratch);
	}
}

static void kernel_pack_values(uint8_t *values, const float *x, size_t ldx, uint32_t rows,
			       uint32_t head_dim, uint64_t pos, float s)
{
	size_t columns = VNPU_PV_COLUMNS(head_dim);
	int8_t q[VNPU_MAX_HEAD_DIM];
	float scale;

	for (uint32_t r = 0; r < rows; r++, pos++, x += ldx) {
		uint8_t *to = values + pos / 4 * columns * 4 + pos % 4;

		memset(q, 0, columns);
		kernel_quant_static(q, &scale, x, head_dim, s);
		for (size_t d = 0; d < columns; d++)
			to[d * 4] = (uint8_t)q[d];
	}
}
