// SPDX-License-Identifier: MIT
/*
 * Outliers of activations: QUANT_OUTLIERS and ADD_OUTLIERS have the same bits as references by
 * docs/isa.md on every instruction set of this host, and keep its bounds. Buffers end where their
 * operands end.
 */
#include "fw_sets.h"

/* ---- quantisation ---------------------------------------------------------------------------- */

static int descending(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x < y) - (x > y);
}

static unsigned int exceed(const float *x, size_t n, float t)
{
	unsigned int count = 0;

	for (size_t i = 0; i < n; i++)
		count += fabsf(x[i]) > t;
	return count;
}

/* As defined in vnpu_isa.h. */
static void reference(int8_t *q, float *scale, struct vnpu_outliers *o, const float *x, size_t n)
{
	float lanes[64] = { 0 }, t, held, r;
	unsigned int rank = 8, count = 0;
	bool bad = false;

	for (size_t i = 0; i < n; i++) {
		bad |= !isfinite(x[i]);
		lanes[i % 64] = fmaxf(lanes[i % 64], fabsf(x[i]));
	}
	for (int i = 0; i < VNPU_OUTLIERS; i++) {
		o->value[i] = 0;
		o->column[i] = -1;
	}
	memset(q, 0, (n + 3) / 4 * 4);
	*scale = NAN;
	if (bad)
		return;
	qsort(lanes, 64, sizeof(*lanes), descending);
	while (rank && exceed(x, n, lanes[rank]) > VNPU_OUTLIERS)
		rank--;
	t = lanes[rank];
	*scale = t / 127.0f;
	for (size_t i = 0; i < n; i++) {
		held = fmaxf(-t, fminf(t, x[i]));
		r = *scale > 0 ? nearbyintf(held / *scale) : 0;
		q[i] = r > 127 ? 127 : r < -127 ? -127 : r;
		if (fabsf(x[i]) > t) {
			o->value[count] = fmaf(-(float)q[i], *scale, x[i]);
			o->column[count++] = i;
		}
	}
}

static void random_row(float *x, size_t n)
{
	static const float scales[] = { 1, 1e-3f, 1e30f, 1e-38f, 1e-43f, 2.6e-43f, FLT_MAX };
	float scale = scales[rng_below(7)];
	size_t i, many;

	for (i = 0; i < n; i++)
		x[i] = rng_float() * scale;
	/*
	 * Values far above the others: anywhere, or all in one lane, where the list may be too
	 * short for them.
	 */
	if (rng_below(2)) {
		many = rng_below(40);
		for (i = 0; i < many; i++)
			x[rng_below(n)] *= 1e-3f;
		for (i = 0; i < n; i++)
			x[i] *= 1e-4f;
		for (i = 0; i < many; i++)
			x[rng_below(n)] = rng_float() * scale;
	} else if (!rng_below(4)) {
		for (i = 0; i < n; i++)
			x[i] *= i % 64 == 5 ? 1 : 1e-4f;
	}
	/* All of one size: none exceeds the ninth. */
	if (!rng_below(8))
		for (i = 0; i < n; i++)
			x[i] = rng_below(2) ? 3.5f : -3.5f;
	if (!rng_below(8))
		memset(x, 0, n * sizeof(*x));
	if (!rng_below(8))
		x[rng_below(n)] = rng_below(2) ? NAN : -INFINITY;
	if (!rng_below(8))
		x[rng_below(n)] = -0.0f;
}

static void quantised_as_defined_on_every_isa(void **state)
{
	unsigned int seen[VNPU_OUTLIERS + 1] = { 0 }, count, s, i;
	struct vnpu_outliers want, got;
	float *x, scale, want_scale;
	int8_t *q, *want_q;
	size_t n, padded;

	rng_seed(__func__);
	for (int round = 0; round < 4000; round++) {
		n = round % 4 ? random_length() : 1 + rng_below(3000);
		padded = (n + 3) / 4 * 4;
		x = need(n * sizeof(*x));
		q = need(padded);
		want_q = need(padded);
		random_row(x, n);
		reference(want_q, &want_scale, &want, x, n);
		for (count = 0; count < VNPU_OUTLIERS && want.column[count] >= 0; count++)
			;
		seen[count]++;
		for (s = 0; s < nr_sets; s++) {
			memset(q, 0x55, padded);
			memset(&got, 0x55, sizeof(got));
			sets[s]->quant_outliers(q, &scale, &got, x, n);
			assert_same(&scale, &want_scale, 1, sets[s]->name, "scale");
			assert_memory_equal(q, want_q, padded);
			assert_same(got.value, want.value, VNPU_OUTLIERS, sets[s]->name, "value");
			assert_same(got.column, want.column, VNPU_OUTLIERS, sets[s]->name,
				    "column");
		}
		free(x);
		free(q);
		free(want_q);
	}
	/* Lists of many lengths occurred, empty and full ones too. */
	for (i = 0; i <= VNPU_OUTLIERS; i++)
		assert_true(seen[i] > 0);
}

/* A row can be restored: outliers to one rounding, the others to half a step of their maximum. */
static void a_row_is_its_integers_and_its_outliers(void **state)
{
	struct vnpu_outliers o;
	float x[3000], scale, most;
	int8_t q[3000];
	double back;
	size_t n, i;

	rng_seed(__func__);
	for (int round = 0; round < 500; round++) {
		n = 200 + rng_below(2800);
		for (i = 0; i < n; i++)
			x[i] = rng_float();
		/* The maxima of eight lanes may exceed the bound. */
		for (i = 0; i < 8; i++)
			x[rng_below(n)] *= 1000;
		sets[round % nr_sets]->quant_outliers(q, &scale, &o, x, n);
		for (i = 0, most = 0; i < n; i++)
			most = fabsf(x[i]) > 1 ? most : fmaxf(most, fabsf(x[i]));
		assert_true(scale <= most / 127 * 1.000001f);
		for (i = 0; i < n; i++) {
			back = (double)q[i] * scale;
			for (int j = 0; j < VNPU_OUTLIERS; j++)
				if (o.column[j] == (float)i)
					back += o.value[j];
			if (fabsf(x[i]) > 127.1f * scale)
				assert_true(fabs(back - x[i]) <= fabs(x[i]) * U);
			else
				assert_true(fabs(back - x[i]) <= scale * 0.5001);
		}
	}
}

static _Alignas(64) uint8_t scratch[FW_SCRATCH_BYTES];

/* ---- adding outliers to a matmul ------------------------------------------------------------- */

struct sparse_matmul {
	struct fw_add_outliers t;
	struct vnpu_outliers *lists;
	float *x;
	uint8_t *panels;
	double *weights; /* [n][k] */
	float *scales; /* I8, WK: [n] */
	struct fw_wk_panel *wk; /* WK */
};

/* The weights of a block type, as vnpu_isa.h defines them for outliers. */
static void make_kq_weights(struct sparse_matmul *p)
{
	uint32_t n = p->t.n, k = p->t.k, type = p->t.group - VNPU_OUTLIERS_KQ, groups, i;
	const struct vnpu_kq_form f = vnpu_kq_form(type);
	const size_t all = (size_t)n * k, blocks = all / f.block;
	uint8_t *u = need(all);
	int8_t *scale = need(all / f.group), *min = need(all / f.group);
	uint16_t *d = need(blocks * 2), *dmin = need(blocks * 2);

	p->panels = need((n + 63) / 64 * vnpu_kq_panel_bytes(type, k));
	p->weights = need(all * sizeof(double));
	p->scales = need(n * sizeof(float));
	groups = f.block / f.group;
	for (i = 0; i < blocks; i++) {
		d[i] = fw_f32_to_f16(rng_float());
		dmin[i] = fw_f32_to_f16(rng_float());
	}
	for (i = 0; i < all / f.group; i++) {
		scale[i] = (int8_t)rng_u32();
		min[i] = (int8_t)rng_u32();
	}
	for (size_t j = 0; j < all; j++) {
		int v;
		float w;

		u[j] = (uint8_t)rng_below(1u << f.bits);
		v = (groups > 1 ? scale[j / f.group] : 1) * kq_value(f, u[j]);
		w = (float)v * fw_f16_to_f32(d[j / f.block]);
		if (f.mins)
			w -= (groups > 1 ? (float)min[j / f.group] : 1.0f) *
			     fw_f16_to_f32(dmin[j / f.block]);
		p->weights[j] = w;
	}
	pack_kq(p->panels, type, n, k, &(struct kq_parts){ u, d, dmin, scale, min });
	free(u);
	free(d);
	free(dmin);
	free(scale);
	free(min);
}

static void make_weights(struct sparse_matmul *p)
{
	uint32_t n = p->t.n, k = p->t.k, group = p->t.group, i, j;
	size_t panels = (n + 63) / 64;
	uint16_t *f16;
	uint8_t *u;
	int8_t *w;

	p->panels = need(panels * (group ? VNPU_PANEL_W4_BYTES(k, group) : VNPU_PANEL_I8_BYTES(k)));
	p->weights = need((size_t)n * k * sizeof(double));
	p->scales = need(n * sizeof(float));
	u = need((size_t)n * k);
	w = (int8_t *)u;
	if (!group) {
		for (i = 0; i < n; i++) {
			p->scales[i] = rng_float();
			for (j = 0; j < k; j++) {
				w[(size_t)i * k + j] = rng_u32();
				p->weights[(size_t)i * k + j] = w[(size_t)i * k + j];
			}
		}
		pack_w8(p->panels, w, p->scales, n, k);
	} else {
		f16 = need((size_t)n * (k / group) * 2);
		for (i = 0; i < n * (k / group); i++)
			f16[i] = fw_f32_to_f16(rng_float());
		for (i = 0; i < n; i++)
			for (j = 0; j < k; j++) {
				u[(size_t)i * k + j] = rng_below(16);
				p->weights[(size_t)i * k + j] =
					(float)(u[(size_t)i * k + j] - 8) *
					fw_f16_to_f32(f16[(size_t)i * (k / group) + j / group]);
			}
		pack_w4(p->panels, u, f16, n, k, group);
		free(f16);
	}
	free(u);
}

/* Numbers of each panel's own width; the panels end where their memory ends. */
static void make_wk_weights(struct sparse_matmul *p)
{
	uint32_t n = p->t.n, k = p->t.k, nr = (n + 63) / 64, i;
	const size_t all = (size_t)n * k;
	const struct vnpu_wk_panel *table;
	uint32_t bits[4];
	int8_t *q = need(all);

	p->weights = need(all * sizeof(double));
	p->scales = need(n * sizeof(float));
	p->wk = need(nr * sizeof(*p->wk));
	for (i = 0; i < nr; i++)
		bits[i] = 1 + rng_below(8);
	for (i = 0; i < n; i++)
		p->scales[i] = rng_float();
	for (size_t j = 0; j < all; j++)
		p->weights[j] = q[j] = (int8_t)random_wk(bits[j / k / 64]);
	p->panels = need(wk_bytes(bits, n, k));
	pack_wk(p->panels, q, p->scales, bits, n, k);
	table = (const struct vnpu_wk_panel *)p->panels;
	for (i = 0; i < nr; i++)
		p->wk[i] = (struct fw_wk_panel){ p->panels + table[i].offset * 64ull, bits[i] };
	p->t.wk = p->wk;
	free(q);
}

/* Lists of any length with rising columns. Entries after their ends would be valid outliers. */
static void make_lists(struct sparse_matmul *p)
{
	static const float ends[] = { -1, -0.5f, NAN, INFINITY, 1e30f, -1e30f, 0 };

	p->lists = need(p->t.m * sizeof(*p->lists));
	for (uint32_t m = 0; m < p->t.m; m++) {
		unsigned int count = rng_below(VNPU_OUTLIERS + 1), end = rng_below(9);
		uint32_t column = rng_below(p->t.k / 2 + 1);

		for (unsigned int j = 0; j < VNPU_OUTLIERS;
		     j++, column += 1 + rng_below(p->t.k / 16 + 1)) {
			p->lists[m].value[j] = rng_float() * 100;
			p->lists[m].column[j] = column;
		}
		/* An invalid column; the column before; the first column beyond the last. */
		if (count && count < VNPU_OUTLIERS)
			p->lists[m].column[count] = end < 7    ? ends[end]
						    : end == 7 ? p->lists[m].column[count - 1]
							       : (float)p->t.k;
	}
}

enum panels { I8, W4, KQ, WK, NR_PANELS };

static void make_matmul(struct sparse_matmul *p, enum panels panels)
{
	uint32_t type = rng_below(VNPU_NR_KQ_TYPES);

	*p = (struct sparse_matmul){ 0 };
	p->t.m = rng_below(8) ? 1 + rng_below(9) : 100 + rng_below(200);
	p->t.n = 1 + rng_below(200);
	p->t.group = panels == KQ   ? VNPU_OUTLIERS_KQ + type
		     : panels == W4 ? 32u << rng_below(3)
				    : 0;
	p->t.k = panels == KQ	? 256 * (1 + rng_below(3))
		 : panels == W4 ? p->t.group * (1 + rng_below(5))
				: 1 + rng_below(300);
	p->t.ldx = p->t.n + rng_below(5);
	p->t.ldy = p->t.n + rng_below(5);
	if (panels == KQ)
		make_kq_weights(p);
	else if (panels == WK)
		make_wk_weights(p);
	else
		make_weights(p);
	make_lists(p);
	p->x = random_floats((p->t.m - 1) * p->t.ldx + p->t.n, 10);
	p->t.x = p->x;
	p->t.outliers = p->lists;
	p->t.w = p->panels;
}

static void free_matmul(struct sparse_matmul *p)
{
	free(p->panels);
	free(p->weights);
	free(p->scales);
	free(p->lists);
	free(p->x);
	free(p->wk);
}

static bool listed(const struct sparse_matmul *p, const struct vnpu_outliers *o, int j)
{
	return o->column[j] >= 0 && o->column[j] < (float)p->t.k &&
	       (!j || o->column[j] > o->column[j - 1]);
}

static void check_sum(const struct sparse_matmul *p, const float *y)
{
	for (uint32_t m = 0; m < p->t.m; m++)
		for (uint32_t n = 0; n < p->t.n; n++) {
			const struct vnpu_outliers *o = &p->lists[m];
			float x = p->x[m * p->t.ldx + n], acc = 0, want;
			double sum = x, size = fabsf(x), scale = p->t.group ? 1 : p->scales[n];

			for (int j = 0; j < VNPU_OUTLIERS && listed(p, o, j); j++) {
				double w = p->weights[(size_t)n * p->t.k + (size_t)o->column[j]];

				acc = fmaf(o->value[j], (float)w, acc);
				sum += o->value[j] * w * scale;
				size += fabs(o->value[j] * w * scale);
			}
			want = p->t.group ? x + acc : fmaf(acc, p->scales[n], x);
			assert_same(&y[m * p->t.ldy + n], &want, 1, "portable", "sum");
			assert_true(fabs(y[m * p->t.ldy + n] - sum) <=
				    (VNPU_OUTLIERS + 2) * U * size);
		}
}

static void check_matmuls(enum panels panels)
{
	struct sparse_matmul p;
	float *y, *ref;
	size_t floats;

	for (int round = 0; round < 400; round++) {
		make_matmul(&p, panels);
		floats = (p.t.m - 1) * p.t.ldy + p.t.n;
		ref = random_floats(floats, 1);
		y = need(floats * sizeof(*y));
		for (unsigned int s = 0; s < nr_sets; s++) {
			p.t.y = s ? y : ref;
			/* Memory between the rows is unchanged. */
			if (s)
				memcpy(y, ref, floats * sizeof(*y));
			sets[s]->add_outliers(&p.t, scratch);
			if (!s)
				check_sum(&p, ref);
			else
				assert_same(y, ref, floats, sets[s]->name, "add_outliers");
		}
		free(y);
		free(ref);
		free_matmul(&p);
	}
}

static void outliers_with_weights_of_8_bits(void **state)
{
	rng_seed(__func__);
	check_matmuls(I8);
}

static void outliers_with_weights_of_4_bits(void **state)
{
	rng_seed(__func__);
	check_matmuls(W4);
}

static void outliers_with_weights_of_block_types(void **state)
{
	rng_seed(__func__);
	check_matmuls(KQ);
}

static void outliers_with_weights_of_1_to_8_bits(void **state)
{
	rng_seed(__func__);
	check_matmuls(WK);
}

static void in_place(void **state)
{
	struct sparse_matmul p;
	float *apart;

	rng_seed(__func__);
	for (int round = 0; round < 50; round++) {
		make_matmul(&p, round % NR_PANELS);
		p.t.ldy = p.t.ldx;
		apart = random_floats((p.t.m - 1) * p.t.ldx + p.t.n, 1);
		memcpy(apart, p.x, ((p.t.m - 1) * p.t.ldx + p.t.n) * sizeof(*apart));
		p.t.y = apart;
		sets[nr_sets - 1]->add_outliers(&p.t, scratch);
		p.t.y = p.x;
		sets[nr_sets - 1]->add_outliers(&p.t, scratch);
		assert_memory_equal(p.x, apart, ((p.t.m - 1) * p.t.ldx + p.t.n) * sizeof(*apart));
		free(apart);
		free_matmul(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantised_as_defined_on_every_isa),
		cmocka_unit_test(a_row_is_its_integers_and_its_outliers),
		cmocka_unit_test(outliers_with_weights_of_8_bits),
		cmocka_unit_test(outliers_with_weights_of_4_bits),
		cmocka_unit_test(outliers_with_weights_of_block_types),
		cmocka_unit_test(outliers_with_weights_of_1_to_8_bits),
		cmocka_unit_test(in_place),
	};

	find_sets();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
